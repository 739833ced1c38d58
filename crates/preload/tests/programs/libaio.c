// Requests of the kernel's own asynchronous I/O, by the functions of libaio's library where it is, and by syscall().
#define _GNU_SOURCE
#include "count.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

static void request(struct iocb *block, int fd, int op, void *memory, long n, long at) {
    memset(block, 0, sizeof *block);
    block->aio_fildes = fd;
    block->aio_lio_opcode = op;
    block->aio_buf = (unsigned long)memory;
    block->aio_nbytes = n;
    block->aio_offset = at;
}

int main(void) {
    static char memory[1 << 16];
    aio_context_t context = 0;
    CHECK(syscall(SYS_io_setup, 16, &context) == 0);
    int fd = open("data", O_RDWR | O_CREAT | O_TRUNC, 0644);
    struct iocb blocks[4], *list[4] = {&blocks[0], &blocks[1], &blocks[2], &blocks[3]};
    struct iovec parts[2] = {{memory, 1000}, {memory, 234}};
    struct io_event done[4];
    request(&blocks[0], fd, IOCB_CMD_PWRITE, memory, 10000, 0);
    request(&blocks[1], fd, IOCB_CMD_PWRITEV, parts, 2, 20000);
    request(&blocks[2], fd, IOCB_CMD_FSYNC, NULL, 0, 0);
    CHECK(syscall(SYS_io_submit, context, 2l, list) == 2);
    CHECK(syscall(SYS_io_getevents, context, 2l, 4l, done, NULL) == 2);
    counted_posix_write += 10000 + 1234;
    // A read beyond the end gets what is there; one of a bad address fails and moves nothing.
    request(&blocks[0], fd, IOCB_CMD_PREAD, memory, 65536, 10000);
    request(&blocks[1], fd, IOCB_CMD_PREAD, (void *)8, 100, 0);
    long n = syscall(SYS_io_submit, context, 2l, list);
    CHECK(n == 1 || n == 2);
    for (long left = n; left > 0;) {
        long got = syscall(SYS_io_getevents, context, 1l, 4l, done, NULL);
        CHECK(got > 0);
        for (int i = 0; i < got; i++)
            if ((struct iocb *)done[i].obj == &blocks[0]) CHECK(done[i].res == 11234);
        left -= got;
    }
    counted_posix_read += 11234;
    // A request that is refused has not begun.
    request(&blocks[3], 999, IOCB_CMD_PWRITE, memory, 10, 0);
    struct iocb *bad[1] = {&blocks[3]};
    CHECK(syscall(SYS_io_submit, context, 1l, bad) == -1 && errno == EBADF);
    CHECK(syscall(SYS_write, fd, memory, 77l) == 77);
    counted_posix_write += 77;

    void *library = dlopen("libaio.so.1", RTLD_NOW | RTLD_GLOBAL);
    if (!library) library = dlopen("libaio.so.1t64", RTLD_NOW | RTLD_GLOBAL);
    if (library) {
        // By the names a program linked with it would use.
        int (*submit)(aio_context_t, long, struct iocb **) = dlsym(RTLD_DEFAULT, "io_submit");
        int (*events)(aio_context_t, long, long, struct io_event *, void *) = dlsym(RTLD_DEFAULT, "io_getevents");
        CHECK(submit && events);
        request(&blocks[0], fd, IOCB_CMD_PWRITE, memory, 4096, 0);
        CHECK(submit(context, 1, list) == 1 && events(context, 1, 1, done, NULL) == 1);
        counted_posix_write += 4096;
    }
    // What is written through memory is not seen, but that it may be is told.
    CHECK(ftruncate(fd, 8192) == 0);
    char *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED);
    map[0] = 1;
    CHECK(mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0) != MAP_FAILED);
    // An io_uring, if the system allows one.
    char settings[256] = {0};
    long ring = syscall(SYS_io_uring_setup, 1l, settings);
    printf("rings %d\n", ring >= 0);
    fflush(stdout);
    print_counts();
}
