// Moves bytes in every way that system calls offer, in the directory that it is given; its child does so too.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static char data[65536];

int main(int argc, char **argv) {
    if (argc < 2 || chdir(argv[1])) return 1;
    int fd = open("a.dat", O_CREAT | O_RDWR | O_TRUNC, 0644);
    for (int i = 0; i < 1000; i++) write(fd, data, 4096);
    for (int i = 0; i < 100; i++) pwrite(fd, data, 1000, i * 5000);
    struct iovec parts[3] = {{data, 100}, {data + 100, 200}, {data + 300, 300}};
    for (int i = 0; i < 10; i++) writev(fd, parts, 3);
    for (int i = 0; i < 10; i++) pwritev(fd, parts, 3, 7);
    fsync(fd);
    fdatasync(fd);
    lseek(fd, 0, SEEK_SET);
    while (read(fd, data, sizeof data) > 0) {}
    for (int i = 0; i < 50; i++) pread(fd, data, 777, i * 1000);
    preadv(fd, parts, 3, 10);
    int out = open("b.dat", O_CREAT | O_WRONLY, 0644);
    lseek(fd, 20000, SEEK_SET);
    sendfile(out, fd, 0, 10000);
    copy_file_range(fd, 0, out, 0, 5000, 0);
    ftruncate(out, 3);
    close(out);
    write(999, data, 10);
    int shut = open("a.dat", O_RDONLY);
    write(shut, data, 10);
    close(shut);
    close(fd);
    rename("b.dat", "c.dat");
    unlink("c.dat");
    int child = fork();
    if (child == 0) {
        int file = open("child.dat", O_CREAT | O_WRONLY | O_TRUNC, 0644);
        for (int i = 0; i < 7; i++) write(file, data, 333);
        _exit(0);
    }
    waitpid(child, 0, 0);
    return 0;
}
