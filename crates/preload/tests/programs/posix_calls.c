// Every POSIX call that moves bytes, once or a few times.
#define _GNU_SOURCE
#include "count.h"
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>

int main(void) {
    static char a[1 << 16], b[1 << 16];
    struct iovec parts[2] = {{a, 1000}, {b, 2345}};
    int fd = open("data", O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(fd == 3);  // the tracer's own descriptors are out of the way
    MOVED(counted_posix_write, write(fd, a, 65536), 65536);
    MOVED(counted_posix_write, pwrite(fd, a, 1, 1), 1);
    MOVED(counted_posix_write, pwrite64(fd, a, 7777, 5ll << 30), 7777);  // a sparse file beyond 4 GB
    MOVED(counted_posix_write, writev(fd, parts, 2), 3345);
    MOVED(counted_posix_write, pwritev(fd, parts, 2, 10), 3345);
    MOVED(counted_posix_write, pwritev64(fd, parts, 1, 10), 1000);
    MOVED(counted_posix_write, pwritev2(fd, parts, 2, 10, 0), 3345);
    MOVED(counted_posix_write, dprintf(fd, "%d %s %f\n", 42, "text", 2.5), 17);
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    MOVED(counted_posix_read, read(fd, a, 4096), 4096);
    MOVED(counted_posix_read, pread(fd, a, 10, 0), 10);
    MOVED(counted_posix_read, pread64(fd, a, 7777, 5ll << 30), 7777);
    MOVED(counted_posix_read, pread(fd, a, 7777, 6ll << 30), 0);  // beyond the end
    MOVED(counted_posix_read, readv(fd, parts, 2), 3345);
    MOVED(counted_posix_read, preadv(fd, parts, 2, 0), 3345);
    MOVED(counted_posix_read, preadv2(fd, parts, 2, 0, 0), 3345);
    CHECK(fsync(fd) == 0 && fdatasync(fd) == 0);

    int copy = open64("copy", O_RDWR | O_CREAT, 0600);
    off_t at = 0;
    CHECK(sendfile(copy, fd, &at, 5000) == 5000);
    counted_posix_read += 5000, counted_posix_write += 5000;
    at = 0;
    if (copy_file_range(fd, &at, copy, NULL, 6000, 0) == 6000) counted_posix_read += 6000, counted_posix_write += 6000;

    struct aiocb request = {.aio_fildes = copy, .aio_buf = a, .aio_nbytes = 12345, .aio_offset = 100};
    const struct aiocb *list[1] = {&request};
    CHECK(aio_write(&request) == 0);
    while (aio_error(&request) == EINPROGRESS) aio_suspend(list, 1, NULL);
    MOVED(counted_posix_write, aio_return(&request), 12345);
    CHECK(aio_read(&request) == 0);
    while (aio_error(&request) == EINPROGRESS) aio_suspend(list, 1, NULL);
    MOVED(counted_posix_read, aio_return(&request), 12345);

    // A list of requests, waited for by the call itself; nobody asks for their results.
    struct aiocb first = {.aio_fildes = copy, .aio_buf = a, .aio_nbytes = 1111, .aio_offset = 0, .aio_lio_opcode = LIO_WRITE};
    struct aiocb second = {.aio_fildes = copy, .aio_buf = b, .aio_nbytes = 999, .aio_offset = 0, .aio_lio_opcode = LIO_READ};
    struct aiocb *both[3] = {&first, NULL, &second};
    CHECK(lio_listio(LIO_WAIT, both, 3, NULL) == 0);
    counted_posix_write += 1111, counted_posix_read += 999;

    // The same file under other numbers.
    int two = dup(copy), three = dup2(copy, 77), four = fcntl(copy, F_DUPFD, 100);
    CHECK(two >= 0 && three == 77 && four == 100);
    MOVED(counted_posix_write, write(two, a, 11), 11);
    MOVED(counted_posix_write, write(three, a, 12), 12);
    MOVED(counted_posix_write, write(four, a, 13), 13);
    CHECK(close(two) == 0 && close(three) == 0 && close(four) == 0);

    // Failures leave their error number, and count no bytes.
    errno = 0;
    CHECK(write(copy, (void *)8, 100) == -1 && errno == EFAULT);
    CHECK(write(12345, a, 1) == -1 && errno == EBADF);
    CHECK(open("no/such/place", O_RDONLY) == -1 && errno == ENOENT);
    errno = 4242;
    MOVED(counted_posix_write, write(copy, a, 1), 1);
    CHECK(errno == 4242);

    // What is no regular file is not traced.
    int here = open(".", O_RDONLY);
    CHECK(here >= 0 && close(here) == 0);
    int devnull = open("/dev/null", O_WRONLY), ends[2];
    CHECK(write(devnull, a, 1000) == 1000);
    CHECK(pipe(ends) == 0 && write(ends[1], a, 10) == 10 && read(ends[0], a, 10) == 10);

    struct stat st;
    CHECK(stat("data", &st) == 0 && fstat(fd, &st) == 0 && lstat("copy", &st) == 0);
    char *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED && munmap(map, 4096) == 0);
    CHECK(ftruncate(copy, 10) == 0 && close(copy) == 0 && close(fd) == 0);
    CHECK(rename("copy", "moved") == 0 && unlink("moved") == 0 && mkdir("dir", 0755) == 0 && rmdir("dir") == 0);
    print_counts();
}
