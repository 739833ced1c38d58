// A library that serves files itself, by descriptors that the kernel does not know: those in a directory "virtual".
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { FIRST = 10000, N = 16 };
static int is_open[N];

static int take(void) {
    for (int i = 0; i < N; i++)
        if (!is_open[i]) {
            is_open[i] = 1;
            return FIRST + i;
        }
    errno = EMFILE;
    return -1;
}

static int is_ours(int fd) { return fd >= FIRST && fd < FIRST + N && is_open[fd - FIRST]; }

int open(const char *path, int flags, ...) {
    if (strstr(path, "virtual/"))
        return take();
    va_list more;
    va_start(more, flags);
    int mode = va_arg(more, int);
    va_end(more);
    return ((int (*)(const char *, int, int))dlsym(RTLD_NEXT, "open"))(path, flags, mode);
}

// A descriptor that no function of the C library gave.
int opened_unseen(void) { return take(); }

ssize_t write(int fd, const void *from, size_t n) {
    if (is_ours(fd))
        return n;
    return ((ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write"))(fd, from, n);
}

int dup(int fd) {
    if (is_ours(fd))
        return take();
    return ((int (*)(int))dlsym(RTLD_NEXT, "dup"))(fd);
}

int close(int fd) {
    if (is_ours(fd)) {
        is_open[fd - FIRST] = 0;
        return 0;
    }
    return ((int (*)(int))dlsym(RTLD_NEXT, "close"))(fd);
}
