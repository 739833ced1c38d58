// Calls at places the program knows: each line "call NAME PLACE BYTES" is what the trace must say; the place is "-" at the end of the file.
#define _GNU_SOURCE
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/uio.h>

#include "count.h"

static char lines[8192], block[16384];
static int n_lines;
#define SAY(...) (n_lines += snprintf(lines + n_lines, sizeof lines - n_lines, __VA_ARGS__))
#define AT(name, place, bytes, call) do { CHECK((long long)(call) == (long long)(bytes)); SAY("call %s %lld %lld\n", name, (long long)(place), (long long)(bytes)); } while (0)

int main(void) {
    int fd = open("plain", O_RDWR | O_CREAT | O_TRUNC, 0644);
    AT("write", 0, 100, write(fd, block, 100));
    AT("write", 100, 50, write(fd, block, 50));
    AT("pwrite", 4096, 10, pwrite(fd, block, 10, 4096));
    AT("write", 150, 7, write(fd, block, 7));
    CHECK(lseek(fd, 1000, SEEK_SET) == 1000);
    struct iovec parts[2] = {{block, 20}, {block, 10}};
    AT("writev", 1000, 30, writev(fd, parts, 2));
    AT("pwritev2", 1030, 30, pwritev2(fd, parts, 2, -1, 0)); // where the descriptor stands
    int copy = dup(fd);
    AT("write", 1060, 40, write(copy, block, 40));
    int other = open("plain", O_RDONLY); // a place of its own
    AT("read", 0, 64, read(other, block, 64));
    AT("read", 64, 64, read(other, block, 64));
    AT("pread", 7, 9, pread(other, block, 9, 7));
    int out = open("out", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    CHECK(sendfile(out, other, NULL, 500) == 500);
    SAY("call sendfile 128 500\ncall sendfile 0 500\n");
    close(out);
    // To the end of the file, wherever that is: the place is the file's, not ours.
    int log = open("log", O_WRONLY | O_CREAT | O_APPEND, 0644);
    CHECK(write(log, block, 11) == 11);
    SAY("call write - 11\n");
    struct aiocb request = {.aio_fildes = fd, .aio_buf = block, .aio_nbytes = 33, .aio_offset = 512};
    const struct aiocb *list[1] = {&request};
    CHECK(aio_write(&request) == 0);
    while (aio_error(&request) == EINPROGRESS) aio_suspend(list, 1, NULL);
    AT("aio_write", 512, 33, aio_return(&request));
    close(log), close(other), close(copy), close(fd);

    // Streams: where the program stands, not where the C library's buffer does. Too large to be joined.
    FILE *stream = fopen("stream", "w+");
    AT("fwrite", 0, 5000, fwrite(block, 1, 5000, stream));
    AT("fwrite", 5000, 5000, fwrite(block, 1, 5000, stream));
    CHECK(fseek(stream, 100, SEEK_SET) == 0);
    AT("fwrite", 100, 4500, fwrite(block, 1, 4500, stream));
    rewind(stream);
    AT("fread", 0, 4200, fread(block, 1, 4200, stream));
    AT("fread", 4200, 4200, fread(block, 1, 4200, stream));
    CHECK(fseek(stream, 0, SEEK_CUR) == 0);
    AT("fwrite", 8400, 6000, fwrite(block, 1, 6000, stream));
    fclose(stream);
    CHECK(write(1, lines, n_lines) == n_lines);
    return 0;
}
