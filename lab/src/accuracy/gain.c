/* A program before and after advice: `gain KIND before|after`, under mpirun. Computing is a wait, the same in both. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char block[1 << 20];

static void compute(double seconds) { usleep((useconds_t)(seconds * 1e6)); }

static int opened(const char *name, int flags) {
    int fd = open(name, O_CREAT | O_WRONLY | flags, 0644);
    if (fd < 0) { perror(name); exit(1); }
    return fd;
}

static void put(int fd, const void *bytes, size_t n) {
    if (write(fd, bytes, n) != (ssize_t)n) { perror("write"); exit(1); }
}

/* Small writes, each synced, or one sync for each checkpoint. */
static void sync_each(const char *name, int is_after) {
    int fd = opened(name, O_TRUNC);
    for (int step = 0; step < 10; step++) {
        compute(0.1);
        for (int i = 0; i < 100; i++) {
            put(fd, block, 4096);
            if (!is_after) fdatasync(fd);
        }
        if (is_after) fdatasync(fd);
    }
    close(fd);
}

/* One open for each record, or one in all. */
static void opens(const char *name, int is_after) {
    int fd = opened(name, O_TRUNC | O_APPEND);
    for (int step = 0; step < 10; step++) {
        compute(0.02);
        for (int i = 0; i < 4000; i++) {
            if (!is_after) { close(fd); fd = opened(name, O_APPEND); }
            put(fd, block, 256);
        }
    }
    close(fd);
}

/* Many small items by a stream with a buffer of 512 bytes, or one of 4 MiB. */
static void streams(const char *name, int is_after) {
    FILE *file = fopen(name, "w");
    setvbuf(file, NULL, _IOFBF, is_after ? 4 << 20 : 512);
    for (int step = 0; step < 10; step++) {
        compute(0.03);
        for (int i = 0; i < 60000; i++) fwrite(block, 1, 128, file);
    }
    fclose(file);
}

/* All ranks on one file, or each on its own. */
static void shared(const char *name, int is_after, int rank, int n) {
    int fd = opened(name, 0);
    for (int step = 0; step < 10; step++) {
        compute(0.05);
        for (int i = 0; i < 8; i++) {
            off_t record = is_after ? step * 8 + i : (off_t)(step * 8 + i) * n + rank;
            if (pwrite(fd, block, sizeof block, record * (off_t)sizeof block) < 0) exit(1);
        }
    }
    close(fd);
}

int main(int argc, char **argv) {
    int rank, n;
    char name[200];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    int is_after = strcmp(argv[2], "after") == 0, is_one = strcmp(argv[1], "shared") == 0 && !is_after;
    snprintf(name, sizeof name, "%s.%d", argv[1], is_one ? 0 : rank);
    memset(block, 'x', sizeof block);
    if (strcmp(argv[1], "sync") == 0) sync_each(name, is_after);
    if (strcmp(argv[1], "opens") == 0) opens(name, is_after);
    if (strcmp(argv[1], "streams") == 0) streams(name, is_after);
    if (strcmp(argv[1], "shared") == 0) shared(name, is_after, rank, n);
    MPI_Finalize();
    return 0;
}
