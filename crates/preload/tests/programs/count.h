// What a program moved, by its own count: each call is added up as it returns, and the sums are printed at the end.
#ifndef COUNT_H
#define COUNT_H
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long long counted_posix_read, counted_posix_write, counted_stdio_read, counted_stdio_write;
static long long counted_mpi_read, counted_mpi_write;

#define CHECK(ok) do { if (!(ok)) { dprintf(2, "%s:%d: %s\n", __FILE__, __LINE__, #ok); _exit(99); } } while (0)
#define MOVED(sum, call, bytes) do { long long moved_ = (long long)(call); CHECK(moved_ == (long long)(bytes)); (sum) += moved_; } while (0)

static void print_counts(void) {
    char line[400];
    int n = snprintf(line, sizeof line,
        "posix read %lld\nposix write %lld\nstdio read %lld\nstdio write %lld\nmpi read %lld\nmpi write %lld\n",
        counted_posix_read, counted_posix_write, counted_stdio_read, counted_stdio_write, counted_mpi_read, counted_mpi_write);
    if (write(1, line, n) != n) _exit(98);
}
#endif
