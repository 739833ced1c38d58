// Counters of a program's own, in threads and in a child.
#include "count.h"
#include "../../include/iotide.h"
#include <pthread.h>
#include <sys/wait.h>

static int steps, cells;

static void *work(void *argument) {
    for (int i = 0; i < 1000; i++) iotide_add(steps, 1);
    iotide_add(cells, 500);
    return argument;
}

int main(void) {
    steps = iotide_counter("steps", "1");
    cells = iotide_counter("cells", "");
    printf("again %d, senseless %d\n", iotide_counter("steps", "other") == steps, iotide_counter("a\nb", "1"));
    fflush(stdout);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, NULL);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    pid_t child = fork();
    if (child == 0) {
        iotide_add(cells, 7);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    iotide_add(-1, 5);
    iotide_add(64, 5);
    return 0;
}
