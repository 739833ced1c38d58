// A program that would notice a clumsy tracer.
#define _GNU_SOURCE
#include "count.h"
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>

static int fd, log_fd;
static volatile long long in_handler;
static sigjmp_buf back;

static void on_alarm(int signal) {
    int kept = errno;
    if (write(log_fd, "!", 1) == 1) in_handler++;
    errno = kept;
}
static void on_alarm_jump(int signal) { siglongjmp(back, 1); }

int main(int argc, char **argv) {
    char block[512] = {0};
    fd = open("out", O_WRONLY | O_CREAT, 0644);
    log_fd = open("log", O_WRONLY | O_CREAT, 0644);
    CHECK(fd == 3 && log_fd == 4);

    if (argc > 1 && !strcmp(argv[1], "take")) {
        // Something of the program's own in the place of every number it may use, while the tracer is at work.
        struct rlimit limit;
        CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
        if (limit.rlim_cur == limit.rlim_max || limit.rlim_cur > 65536) {
            limit.rlim_cur = limit.rlim_max > 2048 ? 1024 : limit.rlim_max / 2;
            CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
            CHECK(close(fd) == 0 && close(log_fd) == 0);
            execv("/proc/self/exe", argv);  // so that the tracer begins under that limit
        }
        MOVED(counted_posix_write, write(fd, block, 512), 512);
        for (int i = 5; i < (int)limit.rlim_cur; i++) CHECK(dup2(log_fd, i) == i);
        CHECK(open("another", O_WRONLY | O_CREAT, 0644) == -1 && errno == EMFILE);
        for (int i = 0; i < 20000; i++) MOVED(counted_posix_write, pwrite(fd, block, 512, 0), 512);
        CHECK(lseek(log_fd, 0, SEEK_END) == 0);  // nobody wrote to it
        print_counts();
        return 0;
    }
    if (argc > 1 && !strcmp(argv[1], "close")) {
        MOVED(counted_posix_write, write(fd, block, 512), 512);
        for (int i = 5; i <= 1 << 20; i++) close(i);
        MOVED(counted_posix_write, write(fd, block, 512), 512);
        print_counts();
        return 0;
    }
    if (argc > 1) {
        // A limit on the size of files that only the trace reaches.
        struct rlimit limit = {1 << 18, 1 << 18};
        CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        for (int i = 0; i < 20000; i++) CHECK(pwrite(fd, block, 512, 0) == 512);
        return 0;
    }

    // Signal handlers that write, in a storm, on a small stack of their own.
    stack_t stack = {.ss_sp = malloc(16384), .ss_size = 16384};
    CHECK(sigaltstack(&stack, NULL) == 0);
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_ONSTACK | SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    struct itimerval storm = {{0, 200}, {0, 200}}, calm = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &storm, NULL);
    for (int i = 0; i < 100000; i++) MOVED(counted_posix_write, pwrite(fd, block, 512, 0), 512);
    setitimer(ITIMER_REAL, &calm, NULL);
    counted_posix_write += in_handler;
    CHECK(in_handler > 10);

    // Handlers that jump out of whatever was under way.
    action.sa_handler = on_alarm_jump;
    action.sa_flags = SA_NODEFER;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    int devnull = open("/dev/null", O_WRONLY);
    for (volatile int jumps = 0; jumps < 50;) {
        if (sigsetjmp(back, 1) == 0) {
            struct itimerval once = {{0, 0}, {0, 300}};
            setitimer(ITIMER_REAL, &once, NULL);
            for (;;) if (write(devnull, block, 512) != 512) _exit(95);
        }
        jumps++;
    }

    // Every descriptor closed that we did not open, and its number used for something else.
    for (int i = 5; i < 1024; i++) close(i);
    for (int i = 5; i < 1000; i++) {
        int another = open("other", O_WRONLY | O_CREAT, 0644);
        CHECK(another == i || another == -1 || another > i);
        if (another < 0) break;
    }
    for (int i = 0; i < 5000; i++) MOVED(counted_posix_write, pwrite(fd, block, 512, 0), 512);
    for (int i = 5; i < 1024; i++) close(i);
    CHECK(close_range(5, ~0u, 0) == 0);
    int other = open("other", O_RDONLY);
    CHECK(lseek(other, 0, SEEK_END) == 0);  // nobody wrote to it
    print_counts();
    return 0;
}
