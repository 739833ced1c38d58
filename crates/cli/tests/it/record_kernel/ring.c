// 64 writes of 4096 bytes and 32 reads of 1000 through an io_uring, by system calls of its own.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/io_uring.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static char data[4096];

int main(int argc, char **argv) {
    struct io_uring_params p;
    memset(&p, 0, sizeof p);
    int ring = syscall(SYS_io_uring_setup, 8, &p);
    int file = open(argv[1], O_CREAT | O_RDWR | O_TRUNC, 0644);
    if (ring < 0 || file < 0) return 1;
    int both = PROT_READ | PROT_WRITE;
    char *sq = mmap(0, p.sq_off.array + p.sq_entries * 4, both, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    char *cq = mmap(0, p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), both, MAP_SHARED, ring, IORING_OFF_CQ_RING);
    struct io_uring_sqe *entries = mmap(0, p.sq_entries * sizeof *entries, both, MAP_SHARED, ring, IORING_OFF_SQES);
    unsigned *tail = (unsigned *)(sq + p.sq_off.tail), *head = (unsigned *)(cq + p.cq_off.head);
    unsigned mask = *(unsigned *)(sq + p.sq_off.ring_mask), *array = (unsigned *)(sq + p.sq_off.array);
    for (int i = 0; i < 96; i++) {
        int is_write = i < 64;
        struct io_uring_sqe *entry = &entries[*tail & mask];
        memset(entry, 0, sizeof *entry);
        entry->opcode = is_write ? IORING_OP_WRITE : IORING_OP_READ;
        entry->fd = file;
        entry->addr = (unsigned long)data;
        entry->len = is_write ? 4096 : 1000;
        entry->off = is_write ? i * 4096 : (i - 64) * 1000;
        array[*tail & mask] = *tail & mask;
        __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
        if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0) != 1) return 2;
        struct io_uring_cqe *done = (struct io_uring_cqe *)(cq + p.cq_off.cqes) + (*head & *(unsigned *)(cq + p.cq_off.ring_mask));
        if (done->res != (int)entry->len) return 3;
        __atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
    }
    close(file);
    return 0;
}
