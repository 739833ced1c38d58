/* A job for `cargo xtask bench serve`: does one of every operation in a folder, then waits for a signal, writes
   once more for each byte that it is given, or ends. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int main(int argc, char **argv) {
    char path[4096], other[4096], buffer[4096] = {0};
    struct stat stat_of;
    if (argc < 3) return 2;
    snprintf(path, sizeof path, "%s/job-%d", argv[1], (int)getpid());
    snprintf(other, sizeof other, "%s.renamed", path);
    int fd = open(path, O_CREAT | O_RDWR, 0600);
    if (fd < 0) return 3;
    if (write(fd, buffer, sizeof buffer) != sizeof buffer) return 4;
    lseek(fd, 0, SEEK_SET);
    if (read(fd, buffer, sizeof buffer) != sizeof buffer) return 5;
    fstat(fd, &stat_of);
    stat(path, &stat_of);
    fsync(fd);
    if (ftruncate(fd, 100)) return 6;
    void *map = mmap(0, 4096, PROT_READ, MAP_SHARED, fd, 0);
    if (map != MAP_FAILED) munmap(map, 4096);
    close(fd);
    FILE *file = fopen(path, "a");
    if (file) {
        fputs("x", file);
        fflush(file);
        fclose(file);
    }
    rename(path, other);
    DIR *folder = opendir(argv[1]);
    if (folder) {
        readdir(folder);
        closedir(folder);
    }
    snprintf(path, sizeof path, "%s/folder-%d", argv[1], (int)getpid());
    mkdir(path, 0700);
    rmdir(path);
    unlink(other);
    if (!strcmp(argv[2], "wait")) pause();
    if (!strcmp(argv[2], "again")) {
        int more = open(other, O_CREAT | O_WRONLY, 0600);
        char word;
        while (read(0, &word, 1) == 1) {
            if (write(more, buffer, sizeof buffer) != sizeof buffer) return 7;
        }
    }
    return 0;
}
