// The ways a process can end, each after a few writes; with writes before main and after exit began.
#define _GNU_SOURCE
#include "count.h"
#include <fcntl.h>
#include <signal.h>

static int fd = -1;
static const char *how = "";

__attribute__((constructor(101))) static void early(void) {
    fd = open("out", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    MOVED(counted_posix_write, write(fd, "early", 5), 5);
}
__attribute__((destructor(101))) static void late(void) {
    if (write(fd, "late", 4) != 4) _exit(97);
}
static void at_exit(void) {
    if (write(fd, "at exit", 7) != 7) _exit(96);
}

int main(int argc, char **argv) {
    how = argv[1];
    atexit(at_exit);
    char block[1000] = {0};
    int n = argc > 2 ? atoi(argv[2]) : 10;
    for (int i = 0; i < n; i++) MOVED(counted_posix_write, write(fd, block, 1000), 1000);
    if (!strcmp(how, "return") || !strcmp(how, "exit")) counted_posix_write += 11;
    print_counts();
    if (!strcmp(how, "return")) return 0;
    if (!strcmp(how, "exit")) exit(0);
    if (!strcmp(how, "_exit")) _exit(0);
    if (!strcmp(how, "quick_exit")) quick_exit(0);
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "kill")) raise(SIGKILL);
    return 1;
}
