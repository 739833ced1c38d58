"""Random operations on one file, done twice: `fsx.py MOUNTED PLAIN SEED COUNT`.

Each operation is done on a file below the mount and on one beside it, and must give the same: bytes, counts, errors,
size. Descriptors of all kinds are open at once (through the kernel's cache, past it, appending, mapped, O_DIRECT where
there is such), so that what one writes the others must see. A seed gives the same operations again; what went wrong is told
with the operations before it.
"""

import ctypes
import errno
import mmap
import os
import random
import sys

MOUNTED, PLAIN, SEED, COUNT = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
LARGEST = 256 << 10
KINDS = {"read": os.O_RDONLY, "write": os.O_WRONLY, "both": os.O_RDWR, "append": os.O_RDWR | os.O_APPEND}
PAGE = 4096
# Modes of fallocate: grow, reserve only, punch a hole, zero, zero without growing.
ALLOCATIONS = (0, 1, 3, 0x10, 0x11)

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


class File:
    """One of the two, with its descriptors and its memory."""

    def __init__(self, path):
        self.path = path
        self.fds = {}
        self.memory = None
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC))
        for kind in KINDS:
            self.reopen(kind)

    def reopen(self, kind):
        if kind in self.fds:
            os.close(self.fds[kind])
        self.fds[kind] = os.open(self.path, KINDS[kind])

    def empty(self):
        os.close(os.open(self.path, os.O_WRONLY | os.O_TRUNC))

    def write(self, kind, offset, data):
        return os.pwrite(self.fds[kind], data, offset)

    def read(self, kind, offset, size):
        return os.pread(self.fds[kind], size, offset)

    def append(self, data):
        return os.write(self.fds["append"], data)

    def truncate(self, size):
        os.truncate(self.path, size)

    def ftruncate(self, size):
        os.ftruncate(self.fds["both"], size)

    def size(self):
        return os.fstat(self.fds["read"]).st_size, os.stat(self.path).st_size

    def sync(self, kind):
        os.fsync(self.fds[kind])

    def allocate(self, mode, offset, size):
        if LIBC.fallocate(self.fds["both"], mode, offset, size) != 0:
            raise OSError(ctypes.get_errno(), "fallocate")

    def write_vector(self, offset, data):
        return os.pwritev(self.fds["both"], [data[:7], data[7:]], offset)

    def write_direct(self, offset, data):
        memory = aligned(len(data))
        memory[:] = data
        return os.pwritev(self.direct(), [memory], offset)

    def read_direct(self, offset, size):
        memory = aligned(size)
        return memory[: os.preadv(self.direct(), [memory], offset)]

    def direct(self):
        return self.fds.get("direct", self.fds["both"])

    def copy(self, source, target, size):
        return os.copy_file_range(self.fds["read"], self.fds["write"], size, source, target)

    def map(self):
        if self.memory is None and os.fstat(self.fds["both"]).st_size > 0:
            self.memory = mmap.mmap(self.fds["both"], 0)

    def unmap(self):
        if self.memory is not None:
            self.memory.close()
            self.memory = None

    def write_memory(self, offset, data):
        # Beyond the end of the file there is no memory, even if it was mapped when the file was longer.
        end = min(len(self.memory), os.fstat(self.fds["both"]).st_size) if self.memory else 0
        if offset >= end:
            return 0
        data = data[: end - offset]
        self.memory[offset : offset + len(data)] = data
        return len(data)

    def flush_memory(self):
        if self.memory is not None:
            self.memory.flush()

    def read_memory(self, offset, size):
        end = min(len(self.memory), os.fstat(self.fds["both"]).st_size) if self.memory else 0
        return self.memory[offset : min(end, offset + size)] if offset < end else b""

    def rename(self):
        os.rename(self.path, self.path + ".moved")
        os.link(self.path + ".moved", self.path)
        os.unlink(self.path + ".moved")


def aligned(size):
    """Memory as O_DIRECT wants it."""
    return mmap.mmap(-1, size)


def operation(rng):
    """Returns the name of an operation and what it is done with."""
    offset = rng.choice((0, rng.randrange(LARGEST), rng.randrange(LARGEST) & ~4095))
    size = rng.choice((1, rng.randrange(1, 100), rng.randrange(1, 70_000), 4096))
    size = min(size, LARGEST - offset)
    data = lambda: rng.randbytes(size)
    page, pages = offset & -PAGE, -(-size // PAGE) * PAGE
    return rng.choices(
        (
            lambda: ("write", (rng.choice(("write", "both")), offset, data())),
            lambda: ("read", (rng.choice(("read", "both", "append")), offset, size)),
            lambda: ("append", (data()[:1000],)),
            lambda: ("truncate", (offset,)),
            lambda: ("ftruncate", (offset,)),
            lambda: ("size", ()),
            lambda: ("sync", (rng.choice(tuple(KINDS)),)),
            lambda: ("allocate", (rng.choice(ALLOCATIONS), offset, size)),
            lambda: ("copy", (offset, rng.randrange(LARGEST), size)),
            lambda: ("map", ()),
            lambda: ("unmap", ()),
            lambda: ("write_memory", (offset, data())),
            lambda: ("read_memory", (offset, size)),
            lambda: ("reopen", (rng.choice(tuple(KINDS)),)),
            lambda: ("rename", ()),
            lambda: ("flush_memory", ()),
            lambda: ("write_vector", (offset, data())),
            lambda: ("write_direct", (page, rng.randbytes(pages))),
            lambda: ("read_direct", (page, pages)),
            lambda: ("empty", ()),
        ),
        weights=(30, 30, 4, 2, 2, 4, 0.2, 4, 3, 3, 2, 6, 6, 2, 1, 0.2, 3, 4, 4, 0.2),
    )[0]()


def has_direct(folder):
    probe = os.path.join(folder, "direct")
    try:
        os.close(os.open(probe, os.O_RDWR | os.O_CREAT | os.O_DIRECT))
        return True
    except OSError:
        return False
    finally:
        os.unlink(probe)


def outcome(file, name, args):
    try:
        return getattr(file, name)(*args)
    except OSError as error:
        return errno.errorcode.get(error.errno, error.errno)


def shown(value):
    return f"{len(value)} bytes" if isinstance(value, bytes) else repr(value)


def main():
    rng = random.Random(SEED)
    if has_direct(os.path.dirname(PLAIN)):
        KINDS["direct"] = os.O_RDWR | os.O_DIRECT
    files = File(MOUNTED), File(PLAIN)
    history = []
    for number in range(COUNT):
        name, args = operation(rng)
        history.append(f"{number}: {name}({', '.join(shown(arg) for arg in args)})")
        mounted, plain = (outcome(file, name, args) for file in files)
        if files[1].size()[0] > 2 * LARGEST:
            for file in files:
                file.ftruncate(LARGEST)
        if mounted != plain:
            print("\n".join(history[-15:]))
            print(f"seed {SEED}, operation {number}: mounted {shown(mounted)}, plain {shown(plain)}")
            if isinstance(mounted, bytes) and isinstance(plain, bytes):
                at = next((i for i, (m, p) in enumerate(zip(mounted, plain)) if m != p), None)
                print(f"lengths {len(mounted)} and {len(plain)}, first different byte {at}")
            sys.exit(1)
    for file in files:
        file.unmap()
    with open(MOUNTED, "rb") as mounted, open(PLAIN, "rb") as plain:
        if mounted.read() != plain.read():
            print(f"seed {SEED}: the files differ at the end")
            sys.exit(1)
    print(f"{COUNT} operations agree")


main()
