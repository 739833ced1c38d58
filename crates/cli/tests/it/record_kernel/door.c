// Writes five times through the door for programs of 32 bits, whose calls have other numbers.
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int file = open(argv[1], O_CREAT | O_WRONLY, 0644);
    char *data = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    for (int i = 0; i < 5; i++) {
        long result;
        __asm__ volatile("int $0x80" : "=a"(result) : "a"(4), "b"(file), "c"(data), "d"(5) : "memory");
        if (result != 5) return 7;
    }
    return 0;
}
