// Every MPI-IO call family, each counted by what its status says. With an argument: only the request of more than 2 GB.
#include <mpi.h>
#include "count.h"

#define N 1000
static int rank, n_ranks;
static double memory[4 * N];
static MPI_File file;

static long long bytes_of(MPI_Status *status) {
    MPI_Count n;
    MPI_Get_elements_x(status, MPI_BYTE, &n);
    return n;
}
#define OK(call) CHECK((call) == MPI_SUCCESS)
#define WROTE(call) do { MPI_Status status; OK(call); CHECK(bytes_of(&status) == N * 8); counted_mpi_write += N * 8; } while (0)
#define READ(call) do { MPI_Status status; OK(call); CHECK(bytes_of(&status) == N * 8); counted_mpi_read += N * 8; } while (0)

static MPI_Offset block(int i) { return ((MPI_Offset)i * n_ranks + rank) * N * 8; }
static void back(void) { OK(MPI_File_seek(file, block(0), MPI_SEEK_SET)); }
static void back_shared(void) { OK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET)); }

static void blocking(void) {
    WROTE(MPI_File_write_at(file, block(0), memory, N, MPI_DOUBLE, &status));
    WROTE(MPI_File_write_at_all(file, block(1), memory, N, MPI_DOUBLE, &status));
    back();
    WROTE(MPI_File_write(file, memory, N, MPI_DOUBLE, &status));
    WROTE(MPI_File_write_all(file, memory, N, MPI_DOUBLE, &status));
    back_shared();
    WROTE(MPI_File_write_shared(file, memory, N, MPI_DOUBLE, &status));
    MPI_Barrier(MPI_COMM_WORLD);
    back_shared();
    WROTE(MPI_File_write_ordered(file, memory, N, MPI_DOUBLE, &status));
    OK(MPI_File_sync(file));
    READ(MPI_File_read_at(file, block(0), memory, N, MPI_DOUBLE, &status));
    READ(MPI_File_read_at_all(file, block(0), memory, N, MPI_DOUBLE, &status));
    back();
    READ(MPI_File_read(file, memory, N, MPI_DOUBLE, &status));
    back();
    READ(MPI_File_read_all(file, memory, N, MPI_DOUBLE, &status));
    back_shared();
    READ(MPI_File_read_shared(file, memory, N, MPI_DOUBLE, &status));
    MPI_Barrier(MPI_COMM_WORLD);
    back_shared();
    READ(MPI_File_read_ordered(file, memory, N, MPI_DOUBLE, &status));
    // Without a status, bytes are moved all the same.
    OK(MPI_File_write_at(file, block(2), memory, N, MPI_DOUBLE, MPI_STATUS_IGNORE));
    counted_mpi_write += N * 8;
}

static void split(void) {
    OK(MPI_File_write_at_all_begin(file, block(0), memory, N, MPI_DOUBLE));
    WROTE(MPI_File_write_at_all_end(file, memory, &status));
    back();
    OK(MPI_File_write_all_begin(file, memory, N, MPI_DOUBLE));
    WROTE(MPI_File_write_all_end(file, memory, &status));
    back_shared();
    OK(MPI_File_write_ordered_begin(file, memory, N, MPI_DOUBLE));
    WROTE(MPI_File_write_ordered_end(file, memory, &status));
    OK(MPI_File_read_at_all_begin(file, block(0), memory, N, MPI_DOUBLE));
    READ(MPI_File_read_at_all_end(file, memory, &status));
    back();
    OK(MPI_File_read_all_begin(file, memory, N, MPI_DOUBLE));
    OK(MPI_File_read_all_end(file, memory, MPI_STATUS_IGNORE));
    counted_mpi_read += N * 8;
    back_shared();
    OK(MPI_File_read_ordered_begin(file, memory, N, MPI_DOUBLE));
    READ(MPI_File_read_ordered_end(file, memory, &status));
}

static void nonblocking(void) {
    MPI_Request requests[4];
    MPI_Status statuses[4];
    int flag = 0, index, n_done, indices[4];
    // Wait
    back();
    OK(MPI_File_iwrite(file, memory, N, MPI_DOUBLE, &requests[0]));
    WROTE(MPI_Wait(&requests[0], &status));
    OK(MPI_File_iwrite_at(file, block(1), memory, N, MPI_DOUBLE, &requests[0]));
    OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    counted_mpi_write += N * 8;
    back_shared();
    OK(MPI_File_iwrite_shared(file, memory, N, MPI_DOUBLE, &requests[0]));
    WROTE(MPI_Wait(&requests[0], &status));
    // Test
    OK(MPI_File_iwrite_at(file, block(0), memory, N, MPI_DOUBLE, &requests[0]));
    while (!flag) OK(MPI_Test(&requests[0], &flag, MPI_STATUS_IGNORE));
    counted_mpi_write += N * 8;
#ifdef MPICH_VERSION
    const int first_tested = 2;
#else
    const int first_tested = 0;
#endif
    // Waitall, Waitany, Waitsome, Testall, Testany, Testsome; with a null request among them
    for (int how = 0; how < 7; how++) {
        for (int i = 0; i < 3; i++) OK(MPI_File_iread_at(file, block(0), memory + i * N, N, MPI_DOUBLE, &requests[i]));
        requests[3] = MPI_REQUEST_NULL;
        counted_mpi_read += 3 * N * 8;
        int left = 3;
        switch (how) {
        case 0: OK(MPI_Waitall(4, requests, statuses)); break;
        case 1: OK(MPI_Waitall(4, requests, MPI_STATUSES_IGNORE)); break;
        case 2: while (left--) { OK(MPI_Waitany(4, requests, &index, MPI_STATUS_IGNORE)); CHECK(index >= 0 && index < 3); } break;
        case 3: while (left > 0) { OK(MPI_Waitsome(4, requests, &n_done, indices, MPI_STATUSES_IGNORE)); left -= n_done; } break;
        case 4:
            // MPICH 4.0 completes a file request once more at each MPI_Testall that finds it done and another one not, until its
            // own reference count is negative, traced or not. So one request at a time there, with those done before behind it.
            for (int i = first_tested; i >= 0; i--) do OK(MPI_Testall(4 - i, requests + i, &flag, statuses)); while (!flag);
            break;
        case 5: while (left > 0) { OK(MPI_Testany(4, requests, &index, &flag, &statuses[0])); if (flag && index >= 0) left--; } break;
        case 6: while (left > 0) { OK(MPI_Testsome(4, requests, &n_done, indices, statuses)); if (n_done > 0) left -= n_done; } break;
        }
        for (int i = 0; i < 4; i++) CHECK(requests[i] == MPI_REQUEST_NULL);
    }
    back();
    OK(MPI_File_iread(file, memory, N, MPI_DOUBLE, &requests[0]));
    READ(MPI_Wait(&requests[0], &status));
    back_shared();
    OK(MPI_File_iread_shared(file, memory, N, MPI_DOUBLE, &requests[0]));
    READ(MPI_Wait(&requests[0], &status));
    OK(MPI_File_iwrite_at_all(file, block(0), memory, N, MPI_DOUBLE, &requests[0]));
    WROTE(MPI_Wait(&requests[0], &status));
    back();
    OK(MPI_File_iwrite_all(file, memory, N, MPI_DOUBLE, &requests[0]));
    WROTE(MPI_Wait(&requests[0], &status));
    OK(MPI_File_iread_at_all(file, block(0), memory, N, MPI_DOUBLE, &requests[0]));
    READ(MPI_Wait(&requests[0], &status));
    back();
    OK(MPI_File_iread_all(file, memory, N, MPI_DOUBLE, &requests[0]));
    READ(MPI_Wait(&requests[0], &status));
    // Messages among the requests are none of ours.
    int from, to = rank;
    OK(MPI_Irecv(&from, 1, MPI_INT, (rank + n_ranks - 1) % n_ranks, 0, MPI_COMM_WORLD, &requests[0]));
    OK(MPI_Isend(&to, 1, MPI_INT, (rank + 1) % n_ranks, 0, MPI_COMM_WORLD, &requests[1]));
    OK(MPI_File_iwrite_at(file, block(0), memory, N, MPI_DOUBLE, &requests[2]));
    OK(MPI_Waitall(3, requests, MPI_STATUSES_IGNORE));
    CHECK(from == (rank + n_ranks - 1) % n_ranks);
    counted_mpi_write += N * 8;
}

static void views(void) {
    // Every other double of a view: the bytes are those of the data, not of the extent.
    MPI_Datatype strided;
    OK(MPI_Type_vector(N / 2, 1, 2 * n_ranks, MPI_DOUBLE, &strided));
    OK(MPI_Type_commit(&strided));
    OK(MPI_File_set_view(file, rank * 8, MPI_DOUBLE, strided, "native", MPI_INFO_NULL));
    MPI_Status status;
    OK(MPI_File_write_all(file, memory, N / 2, MPI_DOUBLE, &status));
    CHECK(bytes_of(&status) == N / 2 * 8);
    counted_mpi_write += N / 2 * 8;
    OK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    MPI_Type_free(&strided);
#if MPI_VERSION >= 4
    WROTE(MPI_File_write_at_c(file, block(0), memory, N, MPI_DOUBLE, &status));
    READ(MPI_File_read_at_all_c(file, block(0), memory, N, MPI_DOUBLE, &status));
    MPI_Request request;
    OK(MPI_File_iwrite_at_c(file, block(0), memory, N, MPI_DOUBLE, &request));
    WROTE(MPI_Wait(&request, &status));
#endif
    // A read at the end of the file gets what is there.
    OK(MPI_File_set_size(file, 12345));
    OK(MPI_File_read_at(file, 12000, memory, N, MPI_DOUBLE, &status));
    CHECK(bytes_of(&status) == 345);
    counted_mpi_read += 345;
}

static void large(void) {
    // One request of 3 GB, by a type of a megabyte whose memory is always the same page's worth.
    MPI_Datatype megabyte;
    char *page = malloc(1 << 20);
    memset(page, rank, 1 << 20);
    OK(MPI_Type_create_hvector(3072, 1 << 20, 0, MPI_BYTE, &megabyte));
    OK(MPI_Type_commit(&megabyte));
    MPI_Status status;
    OK(MPI_File_write_at(file, 0, page, 1, megabyte, &status));
    counted_mpi_write += 3072ll << 20;
    MPI_Type_free(&megabyte);
}

int main(int argc, char **argv) {
    OK(MPI_Init(&argc, &argv));
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    OK(MPI_File_open(MPI_COMM_WORLD, "shared.mpi", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    if (argc > 1) {
        if (rank == 0) large();
    } else {
        blocking();
        split();
        nonblocking();
        views();
    }
    OK(MPI_File_close(&file));
    print_counts();
    MPI_Finalize();
}
