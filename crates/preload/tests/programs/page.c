// What a page of counters must keep up with: page threads N | turns N | fork | rawfork | exec | noexec | append
#define _GNU_SOURCE
#include "count.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static pthread_barrier_t all_here;
static char *self;

static void write_times(const char *name, int times, int bytes) {
    char block[4096] = {0};
    int fd = open(name, O_WRONLY | O_CREAT | O_APPEND, 0644);
    CHECK(fd >= 0);
    for (int i = 0; i < times; i++) CHECK(write(fd, block, bytes) == bytes);
    close(fd);
    __atomic_add_fetch(&counted_posix_write, (long long)times * bytes, __ATOMIC_RELAXED);
}

static void *together(void *argument) {
    write_times("shared", 1, 10);
    pthread_barrier_wait(&all_here);
    write_times("shared", 50, 100 + (int)(long)argument);
    pthread_barrier_wait(&all_here);
    return NULL;
}

static void *alone(void *argument) {
    write_times("turns", 3, 7);
    return argument;
}

static void in_child(void) {
    counted_posix_write = 0;
    write_times("child", 30, 11);
    print_counts();
    _exit(0);
}

int main(int argc, char **argv) {
    CHECK(argc > 1);
    self = argv[0];
    long n = argc > 2 ? atol(argv[2]) : 0;
    if (!strcmp(argv[1], "threads")) {
        pthread_t *threads = calloc(n, sizeof *threads);
        pthread_barrier_init(&all_here, NULL, n);
        for (long i = 0; i < n; i++) CHECK(pthread_create(&threads[i], NULL, together, (void *)i) == 0);
        for (long i = 0; i < n; i++) pthread_join(threads[i], NULL);
    } else if (!strcmp(argv[1], "turns")) {
        for (long i = 0; i < n; i++) {
            pthread_t thread;
            CHECK(pthread_create(&thread, NULL, alone, NULL) == 0);
            pthread_join(thread, NULL);
        }
    } else if (strstr(argv[1], "fork")) {
        write_times("parent", 20, 5);
        pid_t child = argv[1][0] == 'r' ? syscall(SYS_fork) : fork();
        if (child == 0) in_child();
        write_times("parent", 20, 5);
        CHECK(waitpid(child, NULL, 0) == child);
        write_times("parent", 20, 5);
    } else if (!strcmp(argv[1], "exec")) {
        write_times("before", 9, 9);
        print_counts();
        char *arguments[] = {self, "turns", "2", NULL};
        execv(self, arguments);
        _exit(97);
    } else if (!strcmp(argv[1], "noexec")) {
        write_times("before", 9, 9);
        char *arguments[] = {"nothing", NULL};
        CHECK(execv("/does/not/exist", arguments) == -1);
        write_times("before", 9, 9);
        if (n) raise(9);
    } else if (!strcmp(argv[1], "append")) {
        // Until it is killed.
        int fd = open("appended", O_WRONLY | O_CREAT | O_APPEND, 0644);
        for (char block[1000] = {0};;) CHECK(write(fd, block, 1000) == 1000);
    }
    print_counts();
    return 0;
}
