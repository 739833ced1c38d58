// Writes, lets time pass, and starts programs by vfork as shells and Python do: the child borrows this process's memory.
#define _GNU_SOURCE
#include "count.h"
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

static void run_true(int out) {
    pid_t child = vfork();
    if (child == 0) {
        int log = open("log", O_WRONLY | O_CREAT | O_APPEND, 0644);
        if (write(log, "child", 5) != 5) _exit(1);
        dup2(out, 1);
        close(out);
        execl("/bin/true", "true", (char *)NULL);
        _exit(127);
    }
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    counted_posix_write += 5;
}

int main(int argc, char **argv) {
    int n_children = argc > 1 ? atoi(argv[1]) : 1;
    char block[1000] = {0};
    int out = open("out", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    for (int i = 0; i < 500; i++) MOVED(counted_posix_write, write(out, block, 1000), 1000);
    for (int i = 0; i < n_children; i++) {
        // Longer than a record may wait.
        struct timespec pause = {0, 150000000};
        nanosleep(&pause, NULL);
        run_true(out);
    }
    // What the child closed and opened is as it was here: the number the child's log had is free, and now a socket.
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK(write(pair[0], block, 1000) == 1000 && read(pair[1], block, 1000) == 1000);
    MOVED(counted_posix_write, write(out, block, 1000), 1000);
    // A child that cannot be made leaves its error.
    print_counts();
}
