// Hands libaio's system calls a batch of as many writes as asked, of 512 bytes each, and takes them back in one call.
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static char data[512];

int main(int argc, char **argv) {
    int file = open(argv[1], O_CREAT | O_RDWR | O_TRUNC, 0644), n = atoi(argv[2]);
    aio_context_t context = 0;
    struct iocb *requests = calloc(n, sizeof *requests), **list = calloc(n, sizeof *list);
    struct io_event *done = calloc(n, sizeof *done);
    if (file < 0 || syscall(SYS_io_setup, n, &context)) return 1;
    for (int i = 0; i < n; i++) {
        requests[i].aio_fildes = file;
        requests[i].aio_lio_opcode = IOCB_CMD_PWRITE;
        requests[i].aio_buf = (unsigned long)data;
        requests[i].aio_nbytes = sizeof data;
        requests[i].aio_offset = (long)i * 512;
        list[i] = &requests[i];
    }
    if (syscall(SYS_io_submit, context, (long)n, list) != n) return 2;
    if (syscall(SYS_io_getevents, context, (long)n, (long)n, done, 0) != n) return 3;
    return 0;
}
