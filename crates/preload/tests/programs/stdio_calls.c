// Every call of C streams that moves bytes.
#define _GNU_SOURCE
#include "count.h"
#include <stdarg.h>

static int through_va_list(FILE *f, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int n = vfprintf(f, format, arguments);
    va_end(arguments);
    return n;
}

int main(void) {
    static char big[100000];
    memset(big, 'x', sizeof big);
    FILE *f = fopen("stream", "w+");
    CHECK(f);
    MOVED(counted_stdio_write, fwrite(big, 1, sizeof big, f), sizeof big);
    MOVED(counted_stdio_write, 8 * fwrite(big, 8, 100, f), 800);
    // All kinds of arguments: in registers, in vector registers, on the stack.
    char expected[500];
    int n = sprintf(expected, "%d %s %.3f %ld %c %d %d %d %g %g %g %g %g %g %g %g %g %s\n", 1, "two", 3.0, 4l, '5', 6, 7, 8,
                    .1, .2, .3, .4, .5, .6, .7, .8, .9, "end");
    MOVED(counted_stdio_write,
          fprintf(f, "%d %s %.3f %ld %c %d %d %d %g %g %g %g %g %g %g %g %g %s\n", 1, "two", 3.0, 4l, '5', 6, 7, 8,
                  .1, .2, .3, .4, .5, .6, .7, .8, .9, "end"), n);
    MOVED(counted_stdio_write, fprintf(f, "plain\n"), 6);
    MOVED(counted_stdio_write, fprintf(f, "%Lf\n", 1.5L), 9);
    MOVED(counted_stdio_write, through_va_list(f, "%s %d\n", "abc", 5), 6);
    CHECK(fputs("a line\n", f) >= 0);
    counted_stdio_write += 7;
    for (int i = 0; i < 100000; i++) CHECK(fputc('c', f) == 'c');
    counted_stdio_write += 100000;
    for (int i = 0; i < 1000; i++) CHECK(putc('\n', f) == '\n');
    counted_stdio_write += 1000;
    CHECK(fflush(f) == 0);
    FILE *words = fopen("words", "w+");
    for (int i = -2; i < 3; i++) CHECK(putw(i, words) == 0);
    counted_stdio_write += 5 * sizeof(int);
    rewind(words);
    for (int i = -2; i < 3; i++) CHECK(getw(words) == i);
    counted_stdio_read += 5 * sizeof(int);
    CHECK(getw(words) == EOF && fclose(words) == 0);
    CHECK(fseek(f, 100800, SEEK_SET) == 0);

    char line[600], *more = NULL;
    size_t room = 0;
    CHECK(fgets(line, sizeof line, f) && !strcmp(line, expected));
    counted_stdio_read += n;
    MOVED(counted_stdio_read, getline(&more, &room, f), 6);
    double number;
    CHECK(fscanf(f, "%lf", &number) == 1 && number == 1.5);
    counted_stdio_read += 8;
    CHECK(fgetc(f) == '\n' && getc(f) == 'a');
    counted_stdio_read += 2;
    rewind(f);
    MOVED(counted_stdio_read, fread(big, 1, sizeof big, f), sizeof big);
    MOVED(counted_stdio_read, 3 * fread(big, 3, 7, f), 21);
    CHECK(fclose(f) == 0);

    // A stream in memory is no I/O.
    char *memory;
    size_t size;
    FILE *m = open_memstream(&memory, &size);
    CHECK(fprintf(m, "not to a file") == 13 && fclose(m) == 0);

    f = fopen("stream", "a");
    for (int i = 0; i < 5000; i++) MOVED(counted_stdio_write, fprintf(f, "%05d\n", i), 6);
    CHECK(fclose(f) == 0);

    f = freopen("other", "w", fopen("stream", "r"));
    MOVED(counted_stdio_write, fwrite("12345", 5, 1, f) * 5, 5);
    CHECK(fclose(f) == 0);
    print_counts();
}
