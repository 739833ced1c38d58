# Tries the packages in a clean system, as root in a root of its own: installed, used, upgraded, removed. /dist has what is tried.
set -eu
export HOME=/root IOTIDE_CONFIG= OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_plm=isolated
step() { echo "-- $*"; }
files() { find / -xdev \( -path /proc -o -path /dev -o -path /tmp -o -path /dist -o -path /var/lib/dpkg -o -path /var/cache -o -path /var/log \) -prune -o -print | sort; }
work=$(mktemp -d)
cd "$work"
files >before

step "installed, under $(ldd --version | head -n 1)"
dpkg -i /dist/iotide_*.deb /dist/iotide-daemon_*.deb >/dev/null
[ "$(iotide library)" = /usr/lib/iotide/libiotide.so ]
[ -s /usr/share/man/man1/iotide-detect.1.gz ] && [ -s /usr/share/bash-completion/completions/iotide ]
getent group iotide >/dev/null

step demo
iotide demo -o demo.html >demo.txt 2>&1 || { cat demo.txt; exit 1; }
grep -m 1 period demo.txt

step "record: C, Python, MPI"
cat >bursts.c <<'C'
#include <fcntl.h>
#include <unistd.h>
static char block[1 << 22];
int main(void) {
    for (int i = 0; i < 12; i++) {
        int fd = open("out.c", O_CREAT | O_TRUNC | O_WRONLY, 0644);
        if (write(fd, block, sizeof block) < 0 || close(fd)) return 1;
        usleep(250000);
    }
    return 0;
}
C
cc -o bursts bursts.c
iotide record -o c -- ./bursts
iotide detect c | head -n 1
cat >bursts.py <<'P'
import time
for _ in range(12):
    with open("out.py", "wb") as file:
        file.write(bytes(1 << 22))
    time.sleep(0.25)
P
iotide record -o python -- python3 bursts.py
iotide detect python | head -n 1
cat >ranks.c <<'C'
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
static char block[1 << 20];
int main(int argc, char **argv) {
    int rank;
    MPI_File file;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_File_open(MPI_COMM_WORLD, "out.mpi", MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
    for (int i = 0; i < 8; i++) {
        MPI_File_write_at_all(file, (MPI_Offset)rank * sizeof block, block, sizeof block, MPI_BYTE, MPI_STATUS_IGNORE);
        usleep(250000);
    }
    MPI_File_close(&file);
    MPI_Finalize();
    return 0;
}
C
if command -v mpicc >/dev/null; then
    mpicc -o ranks ranks.c
    iotide record -o mpi -- mpirun -n 2 ./ranks
    iotide info mpi | head -n 3
else
    echo "no MPI here"
fi

step "serve, with a job"
iotide serve --http none 2>serve.log &
daemon=$!
i=0
while [ ! -S /run/iotide/serve.sock ] && [ $i -lt 100 ]; do sleep 0.1; i=$((i + 1)); done
iotide record --live -- ./bursts
iotide jobs
kill $daemon
wait $daemon

step "another user, with the one file alone"
mkdir one && cp /usr/bin/iotide one/ && chown -R 4711:4711 one && chmod 755 . one
as_user() { (cd one && setpriv --reuid 4711 --regid 4711 --clear-groups env HOME="$work/one" "$@"); }
dpkg --purge iotide-daemon iotide >/dev/null 2>&1
as_user ./iotide run -q -- ../bursts
[ "$(as_user stat -c %a "$(as_user ./iotide library)")" = 644 ]

step "upgraded: settings stay; removed: nothing stays but the store"
dpkg -i /dist/iotide_*.deb /dist/iotide-daemon_*.deb >/dev/null 2>&1
echo 'http = "none"' >/etc/iotide/serve.toml
dpkg -i /dist/iotide_*.deb /dist/iotide-daemon_*.deb >/dev/null 2>&1
grep -q none /etc/iotide/serve.toml
dpkg --purge iotide-daemon iotide >/dev/null
files >after
# Tools that manage groups keep copies of their own.
diff before after | grep -v -e '^[0-9,acd]*$' -e '> /var/lib/iotide' -e '> /etc/g[a-z]*-$' -e '> /etc/.pwd.lock$' && { echo "left behind"; exit 1; }

step "the tarball, unpacked anywhere"
tar xf /dist/iotide-*-linux-gnu.tar.gz -C "$work"
[ "$("$work"/iotide-*/bin/iotide library)" = "$(echo "$work"/iotide-*/lib/iotide/libiotide.so)" ]
cd /
rm -rf "$work"
step done
