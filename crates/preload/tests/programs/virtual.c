// Writes through descriptors that another library serves.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(void) {
    static char bytes[4096];
    int a = open("virtual/a", O_WRONLY | O_CREAT, 0600);
    if (a < 10000)
        return 1;
    if (write(a, bytes, 1000) != 1000)
        return 2;
    int same = dup(a);
    if (write(same, bytes, 500) != 500)
        return 3;
    close(a);
    close(same);
    // The same number again, for another file.
    int b = open("/somewhere/virtual/b", O_WRONLY | O_CREAT, 0600);
    if (b != a || write(b, bytes, 70) != 70)
        return 4;
    close(b);
    int (*unseen)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "opened_unseen");
    int c = unseen();
    if (write(c, bytes, 7) != 7 || write(c, bytes, 7) != 7)
        return 5;
    return close(c);
}
