// Nanoseconds of one call, bare or traced: the best of many short rounds, so that a busy machine disturbs little.
// Each round holds more calls than the tracer's buffer, so writing it out is part of the price.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#ifdef WITH_MPI
#include <mpi.h>
#endif

#define ROUNDS 2000
#define CALLS 2000

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

#define BEST(call) ({ double best = 1e18; \
    for (int round = 0; round < ROUNDS; round++) { \
        double began = now(); \
        for (int i = 0; i < CALLS; i++) { if ((call) < 0) return 1; } \
        double each = (now() - began) / CALLS; \
        if (each < best) best = each; \
    } best; })

int main(int argc, char **argv) {
    static char block[4096];
#ifdef WITH_MPI
    MPI_File file;
    MPI_Init(&argc, &argv);
    MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    double each = BEST(-MPI_File_write_at(file, (i % 64) * 4096, block, 4096, MPI_BYTE, MPI_STATUS_IGNORE));
    MPI_File_close(&file);
    MPI_Finalize();
#else
    int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (!strcmp(argv[2], "open")) {
        // Pairs of an open and a close.
        double each = BEST(({ int other = open(argv[1], O_RDONLY); other < 0 ? -1 : close(other); }));
        FILE *answer = fopen(argv[argc - 1], "w");
        fprintf(answer, "%f\n", each);
        return fclose(answer);
    }
    if (!strcmp(argv[2], "getppid")) {
        double each = BEST(syscall(SYS_getppid));
        FILE *answer = fopen(argv[argc - 1], "w");
        fprintf(answer, "%f\n", each);
        return fclose(answer);
    }
    if (!strcmp(argv[2], "fputc")) {
        FILE *stream = fdopen(fd, "w");
        double each = BEST((i % 2000 || fseek(stream, 0, SEEK_SET) == 0) && fputc('x', stream) == 'x' ? 0 : -1);
        FILE *answer = fopen(argv[argc - 1], "w");
        fprintf(answer, "%f\n", each);
        return fclose(answer) | fclose(stream);
    }
    double each = strcmp(argv[2], "write") ? BEST(pwrite(fd, block, 4096, (i % 64) * 4096))
                                           : BEST((i % 64 || lseek(fd, 0, SEEK_SET) == 0) ? write(fd, block, 4096) : -1);
#endif
    FILE *answer = fopen(argv[argc - 1], "w");
    fprintf(answer, "%f\n", each);
    return fclose(answer);
}
