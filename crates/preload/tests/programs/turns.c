// Lines written by two functions in turn, then by one.
#include "count.h"

int main(void) {
    FILE *stream = fopen("turns.txt", "w");
    for (int i = 0; i < 10000; i++) {
        CHECK(fputs("line", stream) >= 0);
        CHECK(fputc('\n', stream) == '\n');
    }
    fclose(stream);
    stream = fopen("alone.txt", "w");
    for (int i = 0; i < 20000; i++) CHECK(fputs("line", stream) >= 0);
    return fclose(stream);
}
