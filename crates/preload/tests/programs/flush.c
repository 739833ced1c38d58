// A program that says when its phase is over, and is then killed.
#include "../../include/iotide.h"
#include "count.h"
#include <fcntl.h>
#include <signal.h>

int main(void) {
    int fd = open("out", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    for (int i = 0; i < 10; i++) MOVED(counted_posix_write, write(fd, "text", 4), 4);
    iotide_flush();
    print_counts();
    raise(iotide_is_tracing() ? SIGKILL : SIGTERM);
}
