/* How long an application would take elsewhere, and what its jobs are about to do:
 *
 *     cc -std=c99 -O2 -o evaluate evaluate.c && ./evaluate job 4711 'posix->write' time 64 512 4096
 */
#define _GNU_SOURCE
#include "iotide_rpc.h"

int main(int n_args, char **args) {
    if (n_args < 6 || (strcmp(args[1], "job") && strcmp(args[1], "app"))) {
        fprintf(stderr, "usage: %s job|app NAME CALLPATH METRIC SIZE...\n", args[0]);
        return 2;
    }
    iotide_rpc rpc;
    if (iotide_rpc_open(&rpc, NULL)) {
        fprintf(stderr, "%s\n", rpc.error);
        return 2;
    }
    size_t n = (size_t)n_args - 5;
    double *sizes = malloc(n * sizeof *sizes), *values = malloc(3 * n * sizeof *values);
    if (!sizes || !values) return 2;
    for (size_t i = 0; i < n; i++) sizes[i] = atof(args[5 + i]);
    uint64_t generation;
    long handle = iotide_rpc_resolve(&rpc, !strcmp(args[1], "job"), args[2], args[3], args[4], NULL, 0, &generation);
    if (handle < 0 || iotide_rpc_intervals(&rpc, handle, sizes, 1, n, values, &generation)) {
        fprintf(stderr, "%s\n", rpc.error);
        return 1;
    }
    for (size_t i = 0; i < n; i++) printf("%g %.17g %.17g %.17g\n", sizes[i], values[3 * i], values[3 * i + 1], values[3 * i + 2]);
    if (iotide_rpc_evaluate(&rpc, handle, sizes, 1, n, values, &generation)) return 1;
    for (size_t i = 0; i < n; i++) printf("%g %.17g\n", sizes[i], values[i]);
    iotide_rpc_prediction next[64];
    long n_jobs = iotide_rpc_predictions(&rpc, NULL, next, 64);
    for (long i = 0; i < n_jobs && i < 64; i++) printf("job %s: next phase in %g s, %g B/s\n", next[i].job, next[i].idle_s, next[i].load_bps);
    double load[3];
    uint32_t jobs;
    if (iotide_rpc_load(&rpc, load, &jobs)) return 1;
    printf("load %g %g %g of %u jobs\n", load[0], load[1], load[2], (unsigned)jobs);
    free(sizes);
    free(values);
    iotide_rpc_close(&rpc);
    return 0;
}
