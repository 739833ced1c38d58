// A chain of processes: fork, fork behind the C library's back, vfork, posix_spawn, exec in all its forms. Each says what it wrote.
#define _GNU_SOURCE
#include "count.h"
#include <fcntl.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <signal.h>

extern char **environ;

static void put(const char *name, int n) {
    char *block = calloc(1, n);
    int fd = open(name, O_WRONLY | O_CREAT | O_APPEND, 0644);
    CHECK(fd >= 0 && write(fd, block, n) == n && close(fd) == 0);
    dprintf(1, "posix write %d\n", n);
}

static void wait_for(pid_t child) {
    int status;
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(int argc, char **argv) {
    if (argc > 1) {  // what exec became
        put(argv[1], atoi(argv[2]));
        return 0;
    }
    char self[4096] = {0};
    CHECK(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    put("parent", 1000);
    pid_t child = fork();
    if (child == 0) {
        put("forked", 2000);
        if (fork() == 0) { put("grandchild", 3000); _exit(0); }
        wait(NULL);
        exit(0);
    }
    wait_for(child);
    child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) { put("cloned", 4000); _exit(0); }
    wait_for(child);
    int kept = open("kept", O_WRONLY | O_CREAT, 0644);
    CHECK(write(kept, self, 10) == 10);
    child = vfork();
    if (child == 0) {
        close(kept);  // in the child only; the parent's stays open
        execl(self, self, "vforked", "5000", (char *)NULL);
        _exit(1);
    }
    wait_for(child);
    CHECK(write(kept, self, 20) == 20 && close(kept) == 0);
    dprintf(1, "posix write 30\n");
    char *arguments[] = {self, "spawned", "6000", NULL};
    CHECK(posix_spawn(&child, self, NULL, NULL, arguments, environ) == 0);
    wait_for(child);
    CHECK(system("exec dd if=/dev/zero of=shelled bs=700 count=10 status=none") == 0);
    dprintf(1, "posix write 7000\n");
    CHECK(execl("/no/such/program", "x", (char *)NULL) == -1);  // and life goes on
    put("after", 8000);
    execlp(self, self, "replaced", "9000", (char *)NULL);
    return 1;
}
