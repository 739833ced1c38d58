// Threads that write (3000 times, or as often as the argument says): some end before the process, some are still at it or asleep when it exits, one is cancelled.
#define _GNU_SOURCE
#include "count.h"
#include <fcntl.h>
#include <pthread.h>

#define N_THREADS 8
static pthread_barrier_t all_written;
static int ends[2];
static long n_writes = 3000;

static void *writer(void *argument) {
    long id = (long)argument;
    char name[20], block[4096] = {0};
    sprintf(name, "thread%ld", id);
    int fd = open(name, O_WRONLY | O_CREAT, 0644);
    for (int i = 0; i < n_writes; i++) CHECK(write(fd, block, 100 + id) == 100 + id);
    __atomic_add_fetch(&counted_posix_write, n_writes * (100 + id), __ATOMIC_RELAXED);
    pthread_barrier_wait(&all_written);
    if (id % 2) pause();
    return NULL;
}

static void *reader(void *argument) {
    char byte;
    for (;;) if (read(ends[0], &byte, 1) < 0) break;  // blocks until it is cancelled
    return NULL;
}

int main(int argc, char **argv) {
    if (argc > 1) n_writes = atol(argv[1]);
    pthread_t threads[N_THREADS], blocked;
    void *result;
    CHECK(pipe(ends) == 0);
    // A file in place of the pipe's end would never block; a traced file behind it is what the hook sees first.
    pthread_create(&blocked, NULL, reader, NULL);
    pthread_barrier_init(&all_written, NULL, N_THREADS + 1);
    for (long i = 0; i < N_THREADS; i++) pthread_create(&threads[i], NULL, writer, (void *)i);
    pthread_barrier_wait(&all_written);
    for (int i = 0; i < N_THREADS; i += 2) pthread_join(threads[i], NULL);
    pthread_cancel(blocked);
    CHECK(pthread_join(blocked, &result) == 0 && result == PTHREAD_CANCELED);
    // Short-lived threads reuse what ended ones left.
    for (int i = 0; i < 300; i++) {
        pthread_barrier_init(&all_written, NULL, 1);
        pthread_create(&threads[0], NULL, writer, (void *)200);
        pthread_join(threads[0], NULL);
        if (i == 5) break;
    }
    print_counts();
    return 0;
}
