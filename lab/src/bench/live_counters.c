// Nanoseconds of processor time of one call, with counting or without: the best of many short rounds, so that a busy machine disturbs little.
//   live_counters add THREADS | pwrite FILE | bcast, then where to put the answer
#define _GNU_SOURCE
#include "../../../crates/preload/include/iotide.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef WITH_MPI
#include <mpi.h>
#endif

#define ROUNDS 500
#define CALLS 2000

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

#define BEST(call) ({ double best = 1e18; \
    for (int round = 0; round < ROUNDS; round++) { \
        double began = now(); \
        for (int i = 0; i < CALLS; i++) { if ((call) < 0) exit(1); } \
        double each = (now() - began) / CALLS; \
        if (each < best) best = each; \
    } best; })

static int counter;
static pthread_barrier_t all_here;

static void *adds(void *best) {
    pthread_barrier_wait(&all_here);
    *(double *)best = BEST((iotide_add(counter, 1), 0));
    return NULL;
}

int main(int argc, char **argv) {
    double each = 0;
    if (!strcmp(argv[1], "add")) {
        enum { MOST = 16 };
        int n = atoi(argv[2]);
        double best[MOST];
        pthread_t threads[MOST];
        counter = iotide_counter("added", "1");
        pthread_barrier_init(&all_here, NULL, n);
        for (int i = 0; i < n; i++) pthread_create(&threads[i], NULL, adds, &best[i]);
        for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
        // The slowest of the threads: one that gets in the way of the others shows.
        for (int i = 0; i < n; i++) if (best[i] > each) each = best[i];
    } else if (!strcmp(argv[1], "pwrite")) {
        static char block[4096];
        int fd = open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0644);
        each = BEST(pwrite(fd, block, 4096, (i % 64) * 4096));
    } else {
#ifdef WITH_MPI
        static char block[8];
        MPI_Init(&argc, &argv);
        each = BEST(-MPI_Bcast(block, 8, MPI_BYTE, 0, MPI_COMM_SELF));
        MPI_Finalize();
#endif
    }
    FILE *answer = fopen(argv[argc - 1], "w");
    fprintf(answer, "%f\n", each);
    return fclose(answer);
}
