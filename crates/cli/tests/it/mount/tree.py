"""Random operations on names, done twice: `tree.py MOUNTED PLAIN SEED COUNT`.

Each operation is done in a folder below the mount and in one beside it, and must give the same value or the same error;
now and then all that is there is compared: names, kinds, modes, links, sizes, contents. Names are few, so that operations
meet. Some files stay open while their names go and come, and must stay what they were.
"""

import ctypes
import errno
import os
import random
import stat
import sys

MOUNTED, PLAIN, SEED, COUNT = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
NAMES = ["a", "b", "c", "d"]
LIBC = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, NOREPLACE, EXCHANGE = -100, 1, 2
N_OPEN = 8


class Tree:
    """One of the two."""

    def __init__(self, root):
        self.root = root
        self.open = {}
        os.mkdir(root)

    def at(self, path):
        return os.path.join(self.root, path)

    def create(self, path, flags, mode):
        # Who opens a pipe waits for the other end, unless told not to.
        os.close(os.open(self.at(path), os.O_CREAT | os.O_WRONLY | os.O_NONBLOCK | flags, mode))

    def keep_open(self, slot, path):
        if slot in self.open:
            os.close(self.open.pop(slot))
        fd = os.open(self.at(path), os.O_RDWR | os.O_NONBLOCK)
        if stat.S_ISFIFO(os.fstat(fd).st_mode):
            os.close(fd)
        else:
            self.open[slot] = fd

    def write(self, slot, data):
        return os.pwrite(self.open[slot], data, 0) if slot in self.open else None

    def look(self, slot):
        if slot not in self.open:
            return None
        found = os.fstat(self.open[slot])
        return found.st_nlink, found.st_mode, found.st_size, os.pread(self.open[slot], 100, 0)

    def mkdir(self, path, mode):
        os.mkdir(self.at(path), mode)

    def rmdir(self, path):
        os.rmdir(self.at(path))

    def unlink(self, path):
        os.unlink(self.at(path))

    def rename(self, old, new, flags):
        paths = os.fsencode(self.at(old)), os.fsencode(self.at(new))
        if LIBC.renameat2(AT_FDCWD, paths[0], AT_FDCWD, paths[1], flags) != 0:
            raise OSError(ctypes.get_errno(), "renameat2")

    def link(self, old, new):
        os.link(self.at(old), self.at(new), follow_symlinks=False)

    def symlink(self, target, path):
        os.symlink(target, self.at(path))

    def readlink(self, path):
        return os.readlink(self.at(path))

    def chmod(self, path, mode):
        os.chmod(self.at(path), mode)

    def utime(self, path, nanoseconds):
        os.utime(self.at(path), ns=nanoseconds)
        return os.stat(self.at(path)).st_mtime_ns

    def truncate(self, path, size):
        os.truncate(self.at(path), size)

    def mkfifo(self, path, mode):
        os.mkfifo(self.at(path), mode)

    def stat(self, path):
        found = os.stat(self.at(path))
        return found.st_mode, found.st_nlink, (found.st_size if stat.S_ISREG(found.st_mode) else None)

    def list(self, path):
        return sorted(os.listdir(self.at(path)))

    def all(self):
        """What is there, from the root down."""
        found, left = [], [""]
        while left:
            folder = left.pop()
            for entry in sorted(os.scandir(self.at(folder)), key=lambda entry: entry.name):
                path = os.path.join(folder, entry.name)
                status = entry.stat(follow_symlinks=False)
                content = None
                if entry.is_dir(follow_symlinks=False):
                    left.append(path)
                elif entry.is_symlink():
                    content = os.readlink(self.at(path))
                elif entry.is_file(follow_symlinks=False):
                    with open(self.at(path), "rb") as file:
                        content = file.read()
                found.append((path, status.st_mode, status.st_nlink, content))
        return found


def operation(rng):
    """Returns the name of an operation and what it is done with."""
    path = lambda: "/".join(rng.choice(NAMES) for _ in range(rng.choice((1, 1, 2, 2, 3))))
    mode = lambda: rng.choice((0o600, 0o644, 0o755, 0o700))
    return rng.choices(
        (
            lambda: ("create", (path(), rng.choice((0, os.O_EXCL, os.O_TRUNC)), mode())),
            lambda: ("keep_open", (rng.randrange(N_OPEN), path())),
            lambda: ("write", (rng.randrange(N_OPEN), rng.randbytes(rng.randrange(1, 50)))),
            lambda: ("look", (rng.randrange(N_OPEN),)),
            lambda: ("mkdir", (path(), mode())),
            lambda: ("rmdir", (path(),)),
            lambda: ("unlink", (path(),)),
            lambda: ("rename", (path(), path(), rng.choice((0, 0, NOREPLACE, EXCHANGE)))),
            lambda: ("link", (path(), path())),
            lambda: ("symlink", (path(), path())),
            lambda: ("readlink", (path(),)),
            lambda: ("chmod", (path(), mode())),
            lambda: ("utime", (path(), (rng.randrange(1 << 60), rng.randrange(1 << 60)))),
            lambda: ("truncate", (path(), rng.randrange(60))),
            lambda: ("mkfifo", (path(), mode())),
            lambda: ("stat", (path(),)),
            lambda: ("list", (os.path.dirname(path()),)),
            lambda: ("all", ()),
        ),
        weights=(12, 5, 6, 6, 10, 4, 5, 14, 6, 3, 2, 3, 3, 3, 1, 10, 5, 1),
    )[0]()


def outcome(tree, name, args):
    try:
        return getattr(tree, name)(*args)
    except OSError as error:
        return errno.errorcode.get(error.errno, error.errno)


def main():
    os.umask(0o022)
    rng = random.Random(SEED)
    trees = Tree(MOUNTED), Tree(PLAIN)
    history = []
    for number in range(COUNT):
        name, args = operation(rng) if number < COUNT - 1 else ("all", ())
        history.append(f"{number}: {name}{args}")
        mounted, plain = (outcome(tree, name, args) for tree in trees)
        if mounted != plain:
            print("\n".join(history[-20:]))
            print(f"seed {SEED}, operation {number}: mounted {mounted!r}, plain {plain!r}")
            sys.exit(1)
    print(f"{COUNT} operations agree")


main()
