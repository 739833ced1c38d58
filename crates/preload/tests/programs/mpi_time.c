// Computes, talks and writes, and says how long each took and how many bytes it gave: a call of MPI inside another counts once.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double computed, talked;

static void compute(double seconds) {
    double start = MPI_Wtime();
    volatile double x = 1;
    while (MPI_Wtime() - start < seconds) for (int i = 0; i < 1000; i++) x *= 1.0000001;
    computed += MPI_Wtime() - start;
}

#define TALK(call) do { double start_ = MPI_Wtime(); call; talked += MPI_Wtime() - start_; } while (0)

int main(int argc, char **argv) {
    int rank, n;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    enum { COUNT = 10000 };
    double *one = calloc(COUNT, sizeof *one), *all = calloc(COUNT * n, sizeof *all);
    int *counts = calloc(n, sizeof *counts), *places = calloc(n, sizeof *places);
    int *rooms = calloc(n, sizeof *rooms), *none = calloc(n, sizeof *none);
    for (int i = 0; i < n; i++) { counts[i] = i + 1; rooms[i] = rank + 1; places[i] = i * COUNT; }
    int right = (rank + 1) % n, left = (rank + n - 1) % n;
    for (int round = 0; round < 5; round++) {
        compute(0.02 + 0.01 * rank);
        MPI_Request requests[2];
        TALK(MPI_Irecv(all, COUNT, MPI_DOUBLE, left, 0, MPI_COMM_WORLD, &requests[0]));
        TALK(MPI_Isend(one, COUNT, MPI_DOUBLE, right, 0, MPI_COMM_WORLD, &requests[1]));
        TALK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        TALK(MPI_Allreduce(MPI_IN_PLACE, one, 3, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD));
        TALK(MPI_Gather(rank ? (void *)one : MPI_IN_PLACE, rank ? COUNT : 0, rank ? MPI_DOUBLE : MPI_DATATYPE_NULL, all, COUNT, MPI_DOUBLE, 0, MPI_COMM_WORLD));
        TALK(MPI_Alltoallv(one, counts, none, MPI_DOUBLE, all, rooms, places, MPI_DOUBLE, MPI_COMM_WORLD));
        TALK(MPI_Barrier(MPI_COMM_WORLD));
    }
    // A receive with room for more than comes.
    if (rank == 0) TALK(MPI_Send(one, 10, MPI_DOUBLE, n - 1, 1, MPI_COMM_WORLD));
    if (rank == n - 1) TALK(MPI_Recv(all, COUNT, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    MPI_File file;
    MPI_File_open(MPI_COMM_WORLD, "shared.mpi", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    MPI_File_write_at_all(file, (MPI_Offset)rank * COUNT * 8, one, COUNT, MPI_DOUBLE, MPI_STATUS_IGNORE);
    MPI_Request request;
    MPI_File_iwrite_at(file, (MPI_Offset)(n + rank) * COUNT * 8, one, COUNT, MPI_DOUBLE, &request);
    compute(0.02);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_File_seek_shared(file, 0, MPI_SEEK_SET);
    MPI_File_read_shared(file, one, 100, MPI_DOUBLE, MPI_STATUS_IGNORE);
    MPI_File_read_ordered(file, one, 100, MPI_DOUBLE, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    printf("rank %d computed %.6f talked %.6f\n", rank, computed, talked);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
