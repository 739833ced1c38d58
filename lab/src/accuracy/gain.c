/* A program before and after advice: `gain KIND before|after`, under mpirun. Computing is a wait, the same in both. Says how long it took, in
   seconds, from its first line to its last: starting it is no part of the advice. */
#include <fcntl.h>
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
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
    size_t size = is_after ? 4 << 20 : 512;
    char *buffer = malloc(size); /* without one, glibc takes the size it likes */
    setvbuf(file, buffer, _IOFBF, size);
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

/* HDF5 by all ranks, in columns: each row by itself, or all at once and collectively. */
static void hdf5(const char *name, int is_after, int rank, int n) {
    enum { ROWS = 2000, COLUMNS = 64 };
    static double own[ROWS * COLUMNS];
    hid_t by_mpi = H5Pcreate(H5P_FILE_ACCESS), how = H5Pcreate(H5P_DATASET_XFER);
    H5Pset_fapl_mpio(by_mpi, MPI_COMM_WORLD, MPI_INFO_NULL);
    H5Pset_dxpl_mpio(how, is_after ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
    hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, by_mpi);
    hsize_t size[2] = {ROWS, (hsize_t)COLUMNS * n}, from[2] = {0, (hsize_t)COLUMNS * rank};
    hsize_t count[2] = {is_after ? ROWS : 1, COLUMNS};
    hid_t space = H5Screate_simple(2, size, NULL), memory = H5Screate_simple(2, count, NULL);
    hid_t data = H5Dcreate(file, "data", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    for (int step = 0; step < 10; step++) {
        compute(0.05);
        for (from[0] = 0; from[0] < ROWS; from[0] += count[0]) {
            H5Sselect_hyperslab(space, H5S_SELECT_SET, from, NULL, count, NULL);
            if (H5Dwrite(data, H5T_NATIVE_DOUBLE, memory, space, how, own) < 0) exit(1);
        }
    }
    H5Dclose(data);
    H5Fclose(file);
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

int main(int argc, char **argv) {
    int rank, n;
    char name[200];
    double begun = now();
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    int is_after = strcmp(argv[2], "after") == 0, is_own = strcmp(argv[1], "hdf5") != 0;
    if (strcmp(argv[1], "shared") == 0) is_own = is_after;
    snprintf(name, sizeof name, "%s.%d", argv[1], is_own ? rank : 0);
    memset(block, 'x', sizeof block);
    if (strcmp(argv[1], "sync") == 0) sync_each(name, is_after);
    if (strcmp(argv[1], "opens") == 0) opens(name, is_after);
    if (strcmp(argv[1], "streams") == 0) streams(name, is_after);
    if (strcmp(argv[1], "shared") == 0) shared(name, is_after, rank, n);
    if (strcmp(argv[1], "hdf5") == 0) hdf5(name, is_after, rank, n);
    MPI_Finalize();
    if (rank == 0) printf("%.6f\n", now() - begun);
    return 0;
}
