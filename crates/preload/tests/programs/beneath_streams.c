// What moves through streams without a call of its own: characters by macros, blocks that seeks read, what is left at the end.
#define _GNU_SOURCE
#include "count.h"
#include <fcntl.h>
#include <sys/syscall.h>

int main(void) {
    FILE *f = fopen("characters", "w+");
    CHECK(f);
    for (int i = 0; i < 10000; i++) CHECK(putc_unlocked('a' + i % 26, f) != EOF);
    counted_stdio_write += 10000;
    CHECK(fputs("a few more\n", f) >= 0);
    counted_stdio_write += 11;
    for (int i = 0; i < 100; i++) CHECK(putc_unlocked('z', f) != EOF);
    counted_stdio_write += 100;
    rewind(f);
    for (int i = 0; i < 6000; i++) CHECK(getc_unlocked(f) == 'a' + i % 26);
    counted_stdio_read += 6000;
    char some[11];
    CHECK(fgets(some, sizeof some, f));
    counted_stdio_read += 10;
    for (int i = 0; i < 500; i++) CHECK(getc_unlocked(f) != EOF);
    counted_stdio_read += 500;
    // A seek reads the block around the place it goes to; beyond the end it does so in vain.
    CHECK(fseek(f, 9000, SEEK_SET) == 0);
    MOVED(counted_stdio_read, fread(some, 1, 4, f), 4);
    CHECK(fseek(f, 5, SEEK_SET) == 0);
    MOVED(counted_stdio_read, fread(some, 1, 4, f), 4);
    CHECK(fseek(f, 10203, SEEK_SET) == 0);
    MOVED(counted_stdio_write, fwrite("end", 1, 3, f), 3);
    CHECK(fclose(f) == 0);

    int in = open("characters", O_RDONLY), out = open("copy", O_CREAT | O_WRONLY, 0600);
    loff_t at = 0;
    long n = syscall(SYS_copy_file_range, in, &at, out, NULL, 5000, 0);
    CHECK(n == 5000 && syscall(SYS_sendfile, out, in, NULL, 1000) == 1000);
    counted_posix_read += 6000, counted_posix_write += 6000;
    CHECK(close(in) == 0 && close(out) == 0);

    counted_stdio_write += 10;
    print_counts();
    CHECK(freopen("left", "w", stdout) && printf("0123456789") == 10);
    return 0;
}
