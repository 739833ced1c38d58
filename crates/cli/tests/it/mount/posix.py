"""What POSIX asks of a file system, case by case: `posix.py DIR` prints one line per case that fails, then a count.

Written from the standard (open, creat, mkdir, rename, link, unlink, symlink, chmod, chown, truncate, utimensat, and
fcntl, with the errors each must give) and, for Linux's own calls, from their manual pages. Run as root, it also acts as
other users, in child processes. Run it on a plain directory to see whether a case is right: it must pass there, too.
"""

import errno
import fcntl
import mmap
import os
import pickle
import resource
import signal
import socket
import stat
import struct
import sys
import time

# libc's renameat2, which the standard library does not have.
import ctypes

LIBC = ctypes.CDLL(None, use_errno=True)
AT_FDCWD, NOREPLACE, EXCHANGE = -100, 1, 2
USER, OTHER, GROUP = 65534, 65533, 65532

failures, count = [], 0


def case(name, call, expected=None):
    """Runs `call`; `expected` is an errno (or several), None for success, or a value that it must return."""
    global count
    count += 1
    try:
        got = call()
    except OSError as error:
        got = error
    allowed = expected if isinstance(expected, tuple) else (expected,)
    if isinstance(got, OSError):
        if got.errno not in [e for e in allowed if isinstance(e, E)]:
            failures.append(f"{name}: {errno.errorcode.get(got.errno, got.errno)}, expected {expected}")
    elif any(isinstance(e, E) for e in allowed) and None not in allowed:
        failures.append(f"{name}: succeeded, expected {expected}")
    elif None not in allowed and got != expected:
        failures.append(f"{name}: {got!r}, expected {expected!r}")
    return got


class E(int):
    def __repr__(self):
        return errno.errorcode[int(self)]


ENOENT, EEXIST, ENOTDIR, EISDIR = E(errno.ENOENT), E(errno.EEXIST), E(errno.ENOTDIR), E(errno.EISDIR)
ENOTEMPTY, EACCES, EPERM, ELOOP = E(errno.ENOTEMPTY), E(errno.EACCES), E(errno.EPERM), E(errno.ELOOP)
ENAMETOOLONG, EINVAL, ENXIO, EBADF = E(errno.ENAMETOOLONG), E(errno.EINVAL), E(errno.ENXIO), E(errno.EBADF)
EXDEV, ENODATA, ERANGE, EAGAIN, EFBIG = E(errno.EXDEV), E(errno.ENODATA), E(errno.ERANGE), E(errno.EAGAIN), E(errno.EFBIG)
EOPNOTSUPP, ETXTBSY, EBUSY, EINTR = E(errno.EOPNOTSUPP), E(errno.ETXTBSY), E(errno.EBUSY), E(errno.EINTR)
E2BIG, ENOSPC = E(errno.E2BIG), E(errno.ENOSPC)


def touch(path, content=b"", mode=0o644):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    os.write(fd, content)
    os.close(fd)
    return path


def read(path):
    with open(path, "rb") as file:
        return file.read()


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


def open_close(path, flags, mode=0o644):
    os.close(os.open(path, flags, mode))


def renameat2(old, new, flags):
    if LIBC.renameat2(AT_FDCWD, os.fsencode(old), AT_FDCWD, os.fsencode(new), flags) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


def as_user(uid, gid, call, groups=()):
    """Does `call` as someone else and returns, or raises, what it did."""
    from_child, to_parent = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setgroups(list(groups))
                os.setgid(gid)
                os.setuid(uid)
            outcome = (True, call())
        except OSError as error:
            outcome = (False, error.errno)
        except BaseException as error:  # a fault of the test itself
            outcome = (False, f"{error}")
        os.write(to_parent, pickle.dumps(outcome))
        os._exit(0)
    os.close(to_parent)
    with os.fdopen(from_child, "rb") as pipe:
        succeeded, value = pickle.loads(pipe.read())
    os.waitpid(child, 0)
    if succeeded:
        return value
    if isinstance(value, str):
        raise RuntimeError(value)
    raise OSError(value, "as another user")


def open_and_creat():
    case("open what is not there", lambda: open_close("no", os.O_RDONLY), ENOENT)
    case("open in what is not there", lambda: open_close("no/file", os.O_CREAT | os.O_WRONLY), ENOENT)
    touch("file", b"0123456789")
    case("open below a file", lambda: open_close("file/x", os.O_RDONLY), ENOTDIR)
    case("create exclusively what is there", lambda: open_close("file", os.O_CREAT | os.O_EXCL | os.O_WRONLY), EEXIST)
    case("open a file as a directory", lambda: open_close("file", os.O_RDONLY | os.O_DIRECTORY), ENOTDIR)
    os.mkdir("dir")
    case("open a directory for writing", lambda: open_close("dir", os.O_WRONLY), EISDIR)
    case("create a directory by open", lambda: open_close("dir", os.O_CREAT | os.O_WRONLY), EISDIR)
    case("open a directory for reading", lambda: open_close("dir", os.O_RDONLY))
    case("a name that is too long", lambda: open_close("n" * 256, os.O_CREAT | os.O_WRONLY), ENAMETOOLONG)
    case("a name as long as it may be", lambda: touch("n" * 255) and os.unlink("n" * 255))
    case("a name that is no UTF-8", lambda: touch(b"\xff\xfe\x01 \xe9"))
    case("it is listed as it is", lambda: b"\xff\xfe\x01 \xe9" in os.listdir(b"."), True)
    os.unlink(b"\xff\xfe\x01 \xe9")
    case("a name with a newline", lambda: touch("a\nb") and os.unlink("a\nb"))
    os.symlink("file", "link")
    case("open follows a link", lambda: open_close("link", os.O_RDONLY))
    case("open does not follow if told so", lambda: open_close("link", os.O_RDONLY | os.O_NOFOLLOW), ELOOP)
    case("exclusive creation does not follow", lambda: open_close("link", os.O_CREAT | os.O_EXCL | os.O_WRONLY), EEXIST)
    os.symlink("nowhere", "dangling")
    case("a dangling link cannot be opened", lambda: open_close("dangling", os.O_RDONLY), ENOENT)
    case("but creates what it points to", lambda: open_close("dangling", os.O_CREAT | os.O_WRONLY))
    case("there it is", lambda: os.path.exists("nowhere"), True)
    os.symlink("loop", "loop")
    case("a link to itself", lambda: open_close("loop", os.O_RDONLY), ELOOP)
    case("O_TRUNC empties", lambda: open_close("file", os.O_WRONLY | os.O_TRUNC) or os.path.getsize("file"), 0)
    old = os.umask(0o027)
    case("the umask counts", lambda: mode(touch("masked", mode=0o666)), 0o640)
    case("for directories, too", lambda: os.mkdir("masked-dir", 0o777) or mode("masked-dir"), 0o750)
    case("and for pipes", lambda: os.mkfifo("masked-fifo", 0o666) or mode("masked-fifo"), 0o640)
    os.umask(old)
    case("mode 0 can be created and written", lambda: touch("closed", b"x", mode=0) and mode("closed"), 0)
    case("reading what is open for writing", lambda: os.read(os.open("file", os.O_WRONLY), 1), EBADF)
    case("writing what is open for reading", lambda: os.write(os.open("file", os.O_RDONLY), b"x"), EBADF)


    case("a file named as a directory", lambda: open_close("nowhere/", os.O_RDONLY), ENOTDIR)
    case("a path that is too long", lambda: open_close("./" * 2100 + "file", os.O_RDONLY), ENAMETOOLONG)
    for step in range(41):
        os.symlink(f"chain{step + 1}" if step < 40 else "file", f"chain{step}")
    case("too many links one after the other", lambda: open_close("chain0", os.O_RDONLY), ELOOP)
    case("as many as may be", lambda: open_close("chain1", os.O_RDONLY))
    os.mkfifo("pipe")
    case("a pipe that nobody reads", lambda: open_close("pipe", os.O_WRONLY | os.O_NONBLOCK), ENXIO)
    server = socket.socket(socket.AF_UNIX)
    server.bind("sock")
    case("a socket is not opened", lambda: open_close("sock", os.O_RDWR), ENXIO)
    case("not through another file system", lambda: os.rename("file", "/proc/file"), EXDEV)
    case("nor linked", lambda: os.link("file", "/proc/file"), (EXDEV, ENOENT))
    only_named()


def only_named():
    touch("named", b"content")
    fd = os.open("named", os.O_PATH)
    case("O_PATH names a file", lambda: os.fstat(fd).st_size, 7)
    case("and does not read it", lambda: os.read(fd, 1), EBADF)
    case("but opens it again", lambda: read(f"/proc/self/fd/{fd}"), b"content")
    os.close(fd)
    folder = os.open("dir", os.O_PATH | os.O_DIRECTORY)
    case("a folder is a place to start from", lambda: os.close(os.open("in", os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=folder)))
    case("there it is", lambda: os.listdir("dir"), ["in"])
    os.close(folder)
    link = os.open("link", os.O_PATH | os.O_NOFOLLOW)
    case("O_PATH of a link itself", lambda: (stat.S_ISLNK(os.fstat(link).st_mode), os.readlink("", dir_fd=link)), (True, "file"))
    os.close(link)

    def nameless():
        fd = os.open("dir", os.O_TMPFILE | os.O_RDWR, 0o600)
        os.write(fd, b"x")
        found = os.fstat(fd).st_nlink, os.listdir("dir")
        os.close(fd)
        return found

    # Its absence has an error of its own, on which programs make a file with a name instead.
    found = case("O_TMPFILE, where there is such", nameless, (None, EOPNOTSUPP))
    case("has no name", lambda: found if isinstance(found, tuple) else (0, ["in"]), (0, ["in"]))


def appending():
    touch("log", b"one ")
    a, b = os.open("log", os.O_WRONLY | os.O_APPEND), os.open("log", os.O_WRONLY | os.O_APPEND)
    os.write(a, b"two ")
    os.write(b, b"three ")
    os.lseek(a, 0, os.SEEK_SET)
    os.write(a, b"four")
    case("appends go to the end, wherever the position is", lambda: read("log"), b"one two three four")
    os.ftruncate(a, 4)
    os.write(b, b"five")
    case("also after the file was cut", lambda: read("log"), b"one five")


def directories():
    os.mkdir("d")
    case("mkdir on a directory", lambda: os.mkdir("d"), EEXIST)
    touch("f")
    case("mkdir on a file", lambda: os.mkdir("f"), EEXIST)
    case("mkdir below nothing", lambda: os.mkdir("no/d"), ENOENT)
    case("mkdir below a file", lambda: os.mkdir("f/d"), ENOTDIR)
    os.symlink("no", "dangling")
    case("mkdir on a dangling link", lambda: os.mkdir("dangling"), EEXIST)
    case("a directory has two links", lambda: os.stat("d").st_nlink in (1, 2), True)
    os.mkdir("d/sub")
    case("rmdir of what is not empty", lambda: os.rmdir("d"), (ENOTEMPTY, EEXIST))
    case("rmdir of a file", lambda: os.rmdir("f"), ENOTDIR)
    case("rmdir of nothing", lambda: os.rmdir("no"), ENOENT)
    case("rmdir of '.'", lambda: os.rmdir("d/."), EINVAL)
    case("rmdir of '..'", lambda: os.rmdir("d/sub/.."), (ENOTEMPTY, EEXIST, EBUSY))
    case("rmdir of a link", lambda: os.symlink("d", "dl") or os.rmdir("dl"), ENOTDIR)
    case("unlink of a directory", lambda: os.unlink("d"), (EISDIR, EPERM))
    before = os.stat("d").st_mtime_ns
    time.sleep(0.02)
    touch("d/new")
    case("a new name changes the directory's time", lambda: os.stat("d").st_mtime_ns > before, True)
    case("the parent of a directory", lambda: os.stat("d/sub/..").st_ino == os.stat("d").st_ino, True)
    fd = os.open("d", os.O_RDONLY | os.O_DIRECTORY)
    case("fsync of a directory", lambda: os.fsync(fd))
    os.close(fd)
    positions()
    gone()
    # Large ones, listed while they change: what stays is listed exactly once.
    os.mkdir("many")
    for index in range(3000):
        touch(f"many/{index:05}-{'x' * 40}")
    case("a large directory is listed whole", lambda: len(os.listdir("many")), 3000)
    seen = []
    with os.scandir("many") as entries:
        for position, entry in enumerate(entries):
            seen.append(entry.name)
            if position % 2 == 0 and position < 1000:
                os.unlink(f"many/{entry.name}")
            if position < 200:
                touch(f"many/new-{position}")
    stayed = [name for name in seen if not name.startswith("new-")]
    case("a listing under change misses and repeats nothing", lambda: len(stayed) == len(set(stayed)) == 3000, True)
    case("kinds are listed", lambda: {e.name: e.is_dir() for e in os.scandir("d")}, {"sub": True, "new": False})
    case("listed numbers are the files' own", lambda: all(e.inode() == os.lstat(e.path).st_ino for e in os.scandir("d")), True)


def positions():
    """Places in a listing, by the calls of C."""
    os.mkdir("places")
    for index in range(200):
        touch(f"places/{index}")
    for name, result, takes in (("opendir", ctypes.c_void_p, [ctypes.c_char_p]), ("readdir", ctypes.c_void_p, [ctypes.c_void_p]),
            ("telldir", ctypes.c_long, [ctypes.c_void_p]), ("seekdir", None, [ctypes.c_void_p, ctypes.c_long]),
            ("rewinddir", None, [ctypes.c_void_p]), ("closedir", ctypes.c_int, [ctypes.c_void_p])):  # fmt: skip
        call = getattr(LIBC, name)
        call.restype, call.argtypes = result, takes
    listing = LIBC.opendir(b"places")

    def following():
        entry = LIBC.readdir(listing)
        return ctypes.string_at(entry + 19) if entry else None  # after inode, place, length and kind

    places, names = [], []
    while True:
        place, name = LIBC.telldir(listing), following()
        if name is None:
            break
        places.append(place)
        names.append(name)
    case("everything and the two dots", lambda: len(set(names)), 202)
    LIBC.seekdir(listing, places[150])
    case("a place is come back to", following, names[150])
    LIBC.seekdir(listing, places[3])
    case("also far back", following, names[3])
    touch("places/late")
    LIBC.rewinddir(listing)
    again = set(iter(following, None))
    case("from the start, with what is new", lambda: again == set(names) | {b"late"}, True)
    LIBC.closedir(listing)


def gone():
    """A folder that was removed while someone is in it."""
    os.mkdir("leaving")
    fd = os.open("leaving", os.O_RDONLY)
    os.rmdir("leaving")
    case("nothing is made in a folder that is gone", lambda: os.open("x", os.O_CREAT | os.O_WRONLY, dir_fd=fd), ENOENT)
    case("nor a folder", lambda: os.mkdir("x", dir_fd=fd), ENOENT)
    case("it is empty", lambda: os.listdir(fd), [])
    case("and has no links", lambda: os.fstat(fd).st_nlink, 0)
    os.close(fd)


def renaming():
    touch("a", b"a")
    touch("b", b"b")
    inode = os.stat("a").st_ino
    case("rename replaces", lambda: os.rename("a", "b") or (os.stat("b").st_ino == inode, read("b")), (True, b"a"))
    case("the old name is gone", lambda: os.stat("a"), ENOENT)
    case("rename of nothing", lambda: os.rename("no", "x"), ENOENT)
    case("rename to below nothing", lambda: os.rename("b", "no/x"), ENOENT)
    case("rename to below a file", lambda: os.rename("b", "b/x"), ENOTDIR)
    os.mkdir("d1")
    os.mkdir("d2")
    touch("d2/f")
    case("a file onto a directory", lambda: os.rename("b", "d1"), EISDIR)
    case("a directory onto a file", lambda: os.rename("d1", "b"), ENOTDIR)
    case("onto a directory that is not empty", lambda: os.rename("d1", "d2"), (ENOTEMPTY, EEXIST))
    case("a directory into itself", lambda: os.rename("d2", "d2/sub"), EINVAL)
    case("onto an empty directory", lambda: os.rename("d2", "d1") or os.listdir("d1"), ["f"])
    case("renamed to itself", lambda: os.rename("b", "b") or read("b"), b"a")
    os.link("b", "b2")
    case("two names of one file: nothing happens", lambda: os.rename("b", "b2") or os.path.exists("b"), True)
    case("a file in a directory that moved", lambda: os.rename("d1", "d3") or read("d3/f"), b"")
    fd = os.open("d3/f", os.O_RDWR)
    os.rename("d3", "d4")
    os.write(fd, b"still")
    case("an open file in a directory that moved", lambda: read("d4/f"), b"still")
    os.close(fd)
    touch("x", b"x")
    touch("y", b"y")
    case("without replacing, onto something", lambda: renameat2("x", "y", NOREPLACE), EEXIST)
    case("without replacing, onto nothing", lambda: renameat2("x", "z", NOREPLACE) or read("z"), b"x")
    case("exchanged", lambda: renameat2("z", "y", EXCHANGE) or (read("z"), read("y")), (b"y", b"x"))
    case("exchanged with nothing", lambda: renameat2("z", "no", EXCHANGE), ENOENT)
    case("both ways at once", lambda: renameat2("z", "y", EXCHANGE | NOREPLACE), EINVAL)
    case("'.' does not move", lambda: os.rename("d4/.", "d5"), (EBUSY, EINVAL))
    os.symlink("y", "pointer")
    case("a link is moved itself", lambda: os.rename("pointer", "moved") or os.readlink("moved"), "y")
    touch("over")
    case("and replaced itself", lambda: os.rename("over", "moved") or (os.path.islink("moved"), os.path.exists("y")), (False, True))
    os.makedirs("p1/child")
    os.mkdir("p2")
    os.rename("p1/child", "p2/child")
    case("a folder that moved has another parent", lambda: os.stat("p2/child/..").st_ino == os.stat("p2").st_ino, True)
    before = os.stat("moved").st_ctime_ns
    time.sleep(0.02)
    os.rename("moved", "again")
    case("a new name changes no data", lambda: os.stat("again").st_mtime_ns <= before, True)
    os.mkdir("dx")
    touch("dx/in", b"in")
    case("a file exchanged with a directory", lambda: renameat2("dx", "z", EXCHANGE) or read("z/in"), b"in")
    fd = os.open("y", os.O_RDONLY)
    os.rename("z/in", "y")
    case("a file that was replaced can still be read", lambda: os.read(fd, 9), b"x")
    case("and has no links", lambda: os.fstat(fd).st_nlink, 0)
    os.close(fd)


def links():
    touch("f", b"data")
    case("two links", lambda: os.link("f", "g") or os.stat("f").st_nlink, 2)
    case("are one file", lambda: os.stat("f").st_ino == os.stat("g").st_ino, True)
    case("link onto something", lambda: os.link("f", "g"), EEXIST)
    case("link of nothing", lambda: os.link("no", "h"), ENOENT)
    os.mkdir("d")
    case("link of a directory", lambda: os.link("d", "e"), EPERM)
    touch("g", b"changed")
    case("what is written to one is in the other", lambda: read("f"), b"changed")
    case("unlink one", lambda: os.unlink("f") or os.stat("g").st_nlink, 1)
    fd = os.open("g", os.O_RDWR)
    os.unlink("g")
    case("an open file outlives its name", lambda: os.pwrite(fd, b"!", 0) and os.pread(fd, 9, 0), b"!hanged")
    case("and can be asked and changed", lambda: os.ftruncate(fd, 3) or os.fstat(fd).st_size, 3)
    case("its mode, too", lambda: os.fchmod(fd, 0o600) or stat.S_IMODE(os.fstat(fd).st_mode), 0o600)
    case("its times, too", lambda: os.utime(fd, ns=(1, 2)) or os.fstat(fd).st_mtime_ns, 2)
    os.close(fd)
    case("unlink of nothing", lambda: os.unlink("g"), ENOENT)
    target = "t/" * 500 + "end"
    os.symlink(target, "s")
    case("a symbolic link says where to", lambda: os.readlink("s"), target)
    case("its size is that of what it says", lambda: os.lstat("s").st_size, len(target))
    case("symlink onto something", lambda: os.symlink("x", "s"), EEXIST)
    case("readlink of a file", lambda: os.readlink(touch("plain")), EINVAL)
    case("an empty target", lambda: os.symlink("", "empty"), ENOENT)
    case("a link to a link", lambda: os.symlink("plain", "l1") or os.symlink("l1", "l2") or read("l2"), b"")
    case("a hard link to a symbolic one", lambda: os.link("l1", "l3", follow_symlinks=False) or os.readlink("l3"), "plain")
    case("times of a link itself", lambda: os.utime("l1", ns=(5, 6), follow_symlinks=False) or os.lstat("l1").st_mtime_ns, 6)
    case("are not the file's", lambda: os.stat("l1").st_mtime_ns > 6, True)
    fd = os.open("plain", os.O_RDONLY)
    case("a name for what is open", lambda: link_open(fd, "named") or os.stat("named").st_nlink, 2)
    os.close(fd)
    before = os.stat("plain").st_ctime_ns
    time.sleep(0.02)
    os.unlink("named")
    case("a name less is a change", lambda: os.stat("plain").st_ctime_ns > before, True)
    case("a pipe", lambda: os.mkfifo("p") or stat.S_ISFIFO(os.stat("p").st_mode), True)

    def through_a_pipe():
        reader = os.open("p", os.O_RDONLY | os.O_NONBLOCK)
        writer = os.open("p", os.O_WRONLY)
        os.write(writer, b"pipe")
        return os.read(reader, 9)

    case("works", through_a_pipe, b"pipe")

    def through_a_socket():
        server = socket.socket(socket.AF_UNIX)
        server.bind("sock")
        server.listen()
        client = socket.socket(socket.AF_UNIX)
        client.connect("sock")
        return stat.S_ISSOCK(os.stat("sock").st_mode)

    case("a socket works", through_a_socket, True)


def link_open(fd, name):
    follow = 0x400
    if LIBC.linkat(AT_FDCWD, f"/proc/self/fd/{fd}".encode(), AT_FDCWD, os.fsencode(name), follow) != 0:
        raise OSError(ctypes.get_errno(), "linkat")


def attributes():
    touch("f", b"12345")
    for wanted in (0o000, 0o777, 0o640, 0o1644):
        case(f"chmod {wanted:o}", lambda: os.chmod("f", wanted) or mode("f"), wanted)
    case("chmod of nothing", lambda: os.chmod("no", 0o644), ENOENT)
    before = os.stat("f").st_ctime_ns
    time.sleep(0.02)
    os.chmod("f", 0o644)
    case("chmod changes the time of change", lambda: os.stat("f").st_ctime_ns > before, True)
    case("times to the nanosecond", lambda: os.utime("f", ns=(123456789_987654321, 987654321_123456789)))
    case("are kept", lambda: (os.stat("f").st_atime_ns, os.stat("f").st_mtime_ns), (123456789_987654321, 987654321_123456789))
    case("before 1970", lambda: os.utime("f", ns=(-1_500_000_000, -1)) or os.stat("f").st_mtime_ns, -1)
    case("one time without the other", lambda: utimens((77, 88), (0, OMIT)) or os.stat("f").st_atime_ns, 77_000000088)
    case("which stays", lambda: os.stat("f").st_mtime_ns, -1)
    case("none of both", lambda: utimens((0, OMIT), (0, OMIT)) or os.stat("f").st_atime_ns, 77_000000088)
    case("one of them now", lambda: utimens((0, OMIT), (0, NOW)) or abs(os.stat("f").st_mtime_ns - time.time_ns()) < 5e9, True)
    case("nanoseconds that are none", lambda: utimens((0, 10**9), (0, 0)), EINVAL)
    case("owner and group that stay", lambda: os.chown("f", -1, -1))
    now = time.time_ns()
    os.utime("f")
    case("or now", lambda: abs(os.stat("f").st_mtime_ns - now) < 5e9, True)
    time.sleep(0.02)
    old = os.stat("f").st_mtime_ns
    fd = os.open("f", os.O_RDWR)
    os.write(fd, b"x")
    case("a write changes the time of modification", lambda: os.fstat(fd).st_mtime_ns > old, True)
    os.close(fd)
    case("truncate longer", lambda: os.truncate("f", 100) or read("f"), b"x2345" + bytes(95))
    case("truncate shorter", lambda: os.truncate("f", 2) or read("f"), b"x2")
    case("truncate of nothing", lambda: os.truncate("no", 0), ENOENT)
    os.mkdir("d")
    case("truncate of a directory", lambda: os.truncate("d", 0), EISDIR)
    case("truncate below zero", lambda: os.truncate("f", -1), EINVAL)
    case("ftruncate of what is only read", lambda: os.ftruncate(os.open("f", os.O_RDONLY), 0), (EINVAL, EBADF))
    case("the last of very many bytes", lambda: os.truncate("f", 1 << 40) or os.stat("f").st_size, 1 << 40)
    case("take no room", lambda: os.stat("f").st_blocks < 100, True)
    status = os.statvfs(".")
    case("statvfs tells of blocks and names", lambda: status.f_blocks > 0 and status.f_namemax == 255, True)


NOW, OMIT = (1 << 30) - 1, (1 << 30) - 2


def utimens(access, modification):
    if LIBC.utimensat(AT_FDCWD, b"f", struct.pack("qqqq", *access, *modification), 0) != 0:
        raise OSError(ctypes.get_errno(), "utimensat")


def extended_attributes():
    touch("f")
    if isinstance(case("set", lambda: os.setxattr("f", "user.a", b"\0value"), (None, EOPNOTSUPP)), OSError):
        return  # this file system has none
    case("get", lambda: os.getxattr("f", "user.a"), b"\0value")
    case("list", lambda: os.listxattr("f"), ["user.a"])
    case("create what is there", lambda: os.setxattr("f", "user.a", b"", os.XATTR_CREATE), EEXIST)
    case("replace what is not", lambda: os.setxattr("f", "user.b", b"", os.XATTR_REPLACE), ENODATA)
    case("an empty value", lambda: os.setxattr("f", "user.b", b"") or os.getxattr("f", "user.b"), b"")
    case("get what is not there", lambda: os.getxattr("f", "user.c"), ENODATA)
    case("remove", lambda: os.removexattr("f", "user.a") or os.listxattr("f"), ["user.b"])
    case("remove what is not there", lambda: os.removexattr("f", "user.a"), ENODATA)
    case("a name without a kind", lambda: os.setxattr("f", "plain", b""), EOPNOTSUPP)
    case("a value that is too long", lambda: os.setxattr("f", "user.b", bytes(65537)), E2BIG)
    os.symlink("f", "link")
    case("a link has none", lambda: os.listxattr("link", follow_symlinks=False), [])
    case("nor gets any", lambda: os.setxattr("link", "user.a", b"", follow_symlinks=False), EPERM)
    os.mkdir("d")
    case("of a directory", lambda: os.setxattr("d", "user.x", b"y") or os.getxattr("d", "user.x"), b"y")
    value = bytes(range(256)) * 8
    case("a long one", lambda: os.setxattr("f", "user.long", value) or os.getxattr("f", "user.long"), value)
    fd = os.open("f", os.O_RDONLY)
    case("through a descriptor", lambda: os.getxattr(fd, "user.long"), value)
    os.close(fd)


def data():
    fd = os.open("f", os.O_RDWR | os.O_CREAT)
    block = os.urandom(3 << 20)
    case("megabytes at once", lambda: os.write(fd, block), len(block))
    case("come back", lambda: os.pread(fd, len(block), 0) == block, True)
    case("at an odd offset", lambda: os.pwrite(fd, b"odd", 12345) and os.pread(fd, 5, 12344), block[12344:12345] + b"odd" + block[12348:12349])
    case("beyond the end is nothing", lambda: os.pread(fd, 10, len(block)), b"")
    case("a vector", lambda: os.pwritev(fd, [b"a", b"bc"], 0) and os.preadv(fd, [bytearray(3)], 0), 3)
    case("fsync", lambda: os.fsync(fd))
    case("fdatasync", lambda: os.fdatasync(fd))
    os.close(fd)
    sparse = os.open("sparse", os.O_RDWR | os.O_CREAT)
    os.pwrite(sparse, b"x" * 4096, 1 << 20)
    os.ftruncate(sparse, 2 << 20)
    case("the first data", lambda: os.lseek(sparse, 0, os.SEEK_DATA), 1 << 20)
    case("the hole after", lambda: os.lseek(sparse, 1 << 20, os.SEEK_HOLE), (1 << 20) + 4096)
    case("no data after", lambda: os.lseek(sparse, (1 << 20) + 4096, os.SEEK_DATA), ENXIO)
    case("beyond the end", lambda: os.lseek(sparse, 3 << 20, os.SEEK_HOLE), ENXIO)
    case("a hole reads as zeros", lambda: os.pread(sparse, 100, 1000), bytes(100))

    def fallocate(mode, offset, length):
        call = LIBC.fallocate
        call.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
        if call(sparse, mode, offset, length) != 0:
            raise OSError(ctypes.get_errno(), "fallocate")

    case("room is made", lambda: fallocate(0, 4 << 20, 1 << 20) or os.fstat(sparse).st_size, 5 << 20)
    case("without growing", lambda: fallocate(1, 8 << 20, 4096) or os.fstat(sparse).st_size, 5 << 20)
    case("a hole is punched", lambda: fallocate(3, 1 << 20, 4096) or os.pread(sparse, 4, 1 << 20), bytes(4))
    case("of no length", lambda: fallocate(0, 0, 0), EINVAL)
    os.pwrite(sparse, b"y" * 8192, 0)
    if not isinstance(case("zeros are written", lambda: fallocate(0x10, 100, 4096), (None, EOPNOTSUPP)), OSError):
        case("and nothing else", lambda: os.pread(sparse, 4098, 99) == b"y" + bytes(4096) + b"y", True)
    far = 5 << 30
    case("beyond four gigabytes", lambda: os.pwrite(sparse, b"far", far) and (os.pread(sparse, 9, far - 1), os.fstat(sparse).st_size), (b"\0far", far + 3))
    case("is found", lambda: os.lseek(sparse, 1 << 30, os.SEEK_DATA) // 4096, far // 4096)
    memory = mmap.mmap(sparse, 3, offset=far)
    case("and mapped", lambda: memory[:3], b"far")
    memory.close()
    case("at the position", lambda: os.lseek(sparse, -3, os.SEEK_END) and os.read(sparse, 9), b"far")
    os.close(sparse)
    source, target = os.open("f", os.O_RDONLY), os.open("copy", os.O_RDWR | os.O_CREAT)
    case("copied inside the file system", lambda: os.copy_file_range(source, target, 100000, 50, 7) > 0, True)
    case("to the right place", lambda: os.pread(target, 1000, 7) == os.pread(source, 1000, 50), True)
    case("not onto itself", lambda: os.copy_file_range(target, target, 100, 0, 50), (EINVAL, EBADF))
    os.close(source)
    os.close(target)
    many_open()

    direct = os.open("direct", os.O_RDWR | os.O_CREAT)
    try:
        os.close(os.open("direct", os.O_RDWR | os.O_DIRECT))
        has_direct = True
    except OSError:
        has_direct = False
    os.close(direct)
    if has_direct:
        direct = os.open("direct", os.O_RDWR | os.O_DIRECT)
        page = mmap.mmap(-1, 65536)
        page[:] = os.urandom(65536)
        case("O_DIRECT writes", lambda: os.pwritev(direct, [page], 65536), 65536)
        case("what is there", lambda: read("direct")[65536:] == page[:], True)
        back = mmap.mmap(-1, 65536)
        case("and reads", lambda: os.preadv(direct, [back], 65536) == 65536 and back[:] == page[:], True)
        case("to the end", lambda: os.preadv(direct, [back], 131072), 0)
        os.close(direct)
    synced = os.open("synced", os.O_WRONLY | os.O_CREAT | os.O_SYNC)
    case("O_SYNC writes", lambda: os.write(synced, b"safe"), 4)
    os.close(synced)


def many_open():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    count = min(hard, 4096) - 200
    os.mkdir("many")
    fds = [os.open(f"many/{index}", os.O_CREAT | os.O_RDWR) for index in range(count)]
    case("thousands are open at once", lambda: sum(os.write(fd, b"x") for fd in fds), count)
    case("and read", lambda: all(os.pread(fd, 2, 0) == b"x" for fd in fds), True)
    for fd in fds:
        os.close(fd)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def mapping():
    touch("m", bytes(100_000))
    fd = os.open("m", os.O_RDWR)
    shared = mmap.mmap(fd, 0)
    shared[70_000:70_006] = b"mapped"
    shared.flush()
    case("what is written to shared memory is in the file", lambda: os.pread(fd, 6, 70_000), b"mapped")
    os.pwrite(fd, b"written", 10)
    case("what is written to the file is in shared memory", lambda: shared[10:17], b"written")
    private = mmap.mmap(fd, 0, flags=mmap.MAP_PRIVATE)
    private[0:4] = b"mine"
    case("private memory stays private", lambda: os.pread(fd, 4, 0), bytes(4))
    os.close(fd)
    shared[99_990:100_000] = b"after it is"[:10]
    shared.flush()
    case("the file may be closed before its memory", lambda: read("m")[99_990:], b"after it i")
    shared.close()
    private.close()
    writer = os.open("m", os.O_WRONLY)
    reader = os.open("m", os.O_RDONLY)
    seen = mmap.mmap(reader, 0, prot=mmap.PROT_READ)
    case("mapped before", lambda: seen[10:17], b"written")
    os.pwrite(writer, b"by others", 10)
    case("what another descriptor writes is seen in memory", lambda: seen[10:19], b"by others")
    case("a program can be run from here", lambda: run_program(), 0)
    case("and is not written while it runs", written_while_it_runs, ETXTBSY)
    case("memory is shared between processes", shared_between_processes, b"child")
    for fd in (reader, writer):
        os.close(fd)


def run_program():
    with open("/bin/true", "rb") as true:
        touch("program", true.read())
    os.chmod("program", 0o755)
    child = os.fork()
    if child == 0:
        os.execv("./program", ["program"])
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def written_while_it_runs():
    with open("/bin/sleep", "rb") as sleep:
        touch("sleeping", sleep.read())
    os.chmod("sleeping", 0o755)
    told, tell = os.pipe()  # closed by exec, so that nobody guesses when it runs
    child = os.fork()
    if child == 0:
        os.execv("./sleeping", ["sleeping", "60"])
    os.close(tell)
    os.read(told, 1)
    try:
        open_close("sleeping", os.O_WRONLY)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def shared_between_processes():
    touch("both", bytes(4096))
    fd = os.open("both", os.O_RDWR)
    memory = mmap.mmap(fd, 0)
    child = os.fork()
    if child == 0:
        mine = mmap.mmap(os.open("both", os.O_RDWR), 0)
        mine[:5] = b"child"
        os._exit(0)
    os.waitpid(child, 0)
    return memory[:5]


def locks():
    touch("l", bytes(100))
    fd = os.open("l", os.O_RDWR)

    def elsewhere(call):
        """Does it in another process, with a descriptor of its own."""
        return as_child(lambda: call(os.open("l", os.O_RDWR)))

    fcntl.flock(fd, fcntl.LOCK_EX)
    case("flock keeps others out", lambda: elsewhere(lambda f: fcntl.flock(f, fcntl.LOCK_SH | fcntl.LOCK_NB)), EAGAIN)
    fcntl.flock(fd, fcntl.LOCK_SH)
    case("shared is shared", lambda: elsewhere(lambda f: fcntl.flock(f, fcntl.LOCK_SH | fcntl.LOCK_NB)))
    case("but not with who wants all", lambda: elsewhere(lambda f: fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)), EAGAIN)
    fcntl.flock(fd, fcntl.LOCK_UN)
    case("unlocked", lambda: elsewhere(lambda f: fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)))
    fcntl.lockf(fd, fcntl.LOCK_EX, 10, 20)
    one_byte = lambda kind, start: elsewhere(lambda f: fcntl.lockf(f, kind | fcntl.LOCK_NB, 1, start))
    case("a range keeps others out", lambda: one_byte(fcntl.LOCK_EX, 25), (EAGAIN, EACCES))
    case("but not beside it", lambda: one_byte(fcntl.LOCK_EX, 30))
    case("nor before it", lambda: one_byte(fcntl.LOCK_EX, 19))
    fcntl.lockf(fd, fcntl.LOCK_UN, 5, 22)
    case("a hole in a locked range", lambda: one_byte(fcntl.LOCK_EX, 24))
    case("the rest still holds", lambda: one_byte(fcntl.LOCK_SH, 28), (EAGAIN, EACCES))
    os.close(os.open("l", os.O_RDWR))
    case("closing any descriptor gives record locks up", lambda: one_byte(fcntl.LOCK_EX, 28))

    def wait_for_lock():
        fcntl.lockf(fd, fcntl.LOCK_EX)
        child = os.fork()
        if child == 0:
            mine = os.open("l", os.O_RDWR)
            fcntl.lockf(mine, fcntl.LOCK_EX)  # waits
            os.pwrite(mine, b"child", 0)
            os._exit(0)
        time.sleep(0.1)
        before = os.pread(fd, 5, 0)
        fcntl.lockf(fd, fcntl.LOCK_UN)
        os.waitpid(child, 0)
        return before, os.pread(fd, 5, 0)

    case("who waits gets the lock in the end", wait_for_lock, (bytes(5), b"child"))

    def killed_waiter():
        fcntl.lockf(fd, fcntl.LOCK_EX)
        child = os.fork()
        if child == 0:
            fcntl.lockf(os.open("l", os.O_RDWR), fcntl.LOCK_EX)
            os._exit(0)
        time.sleep(0.1)
        os.kill(child, 9)
        status = os.waitpid(child, 0)[1]
        fcntl.lockf(fd, fcntl.LOCK_UN)
        return os.WTERMSIG(status)

    case("who waits can be killed", killed_waiter, 9)

    def interrupted_waiter():
        """As programs do that wait for a lock, but not for ever."""
        fcntl.lockf(fd, fcntl.LOCK_EX)

        def wait():
            signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(OSError(errno.EINTR, "alarm")))
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            fcntl.lockf(os.open("l", os.O_RDWR), fcntl.LOCK_EX)

        try:
            return as_child(wait)
        finally:
            fcntl.lockf(fd, fcntl.LOCK_UN)

    case("who waits hears signals", interrupted_waiter, EINTR)

    def waiting_for_each_other():
        fcntl.lockf(fd, fcntl.LOCK_EX, 1, 0)
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:
            mine = os.open("l", os.O_RDWR)
            fcntl.lockf(mine, fcntl.LOCK_EX, 1, 1)
            os.write(tell, b"x")
            os._exit(is_deadlock(lambda: fcntl.lockf(mine, fcntl.LOCK_EX, 1, 0)))
        os.read(told, 1)
        time.sleep(0.1)
        found = is_deadlock(lambda: fcntl.lockf(fd, fcntl.LOCK_EX, 1, 1))
        fcntl.lockf(fd, fcntl.LOCK_UN)
        os.close(told)
        os.close(tell)
        return found + os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    case("of two who wait for each other one is told", waiting_for_each_other, 1)
    who_is_in_the_way(fd, one_byte)
    copy = os.dup(fd)
    fcntl.flock(copy, fcntl.LOCK_EX)
    os.close(copy)
    case("a copy of a descriptor holds the same flock", lambda: elsewhere(lambda f: fcntl.flock(f, fcntl.LOCK_SH | fcntl.LOCK_NB)), EAGAIN)
    os.close(fd)
    fd = os.open("l", os.O_RDWR)
    case("which goes with the last", lambda: elsewhere(lambda f: fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)))
    os.close(fd)
    fd = os.open("l", os.O_RDONLY)
    case("a lock for writing wants a file for writing", lambda: fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB), EBADF)
    os.close(fd)


FLOCK = "hhqqi4x"  # kind, from where, start, length, process
GETLK, OFD_GETLK, OFD_SETLK = 5, 36, 37
SHARED, EXCLUSIVE, NONE = 0, 1, 2


def is_deadlock(call):
    try:
        call()
    except OSError as error:
        return error.errno == errno.EDEADLK
    return False


def who_is_in_the_way(fd, one_byte):
    ask = lambda f, command, kind, start, length: struct.unpack(FLOCK, fcntl.fcntl(f, command, struct.pack(FLOCK, kind, 0, start, length, 0)))
    fcntl.lockf(fd, fcntl.LOCK_EX, 10, 20)
    found = lambda: as_child(lambda: ask(os.open("l", os.O_RDWR), GETLK, SHARED, 0, 0))
    case("who is in the way is told", found, (EXCLUSIVE, 0, 20, 10, os.getpid()))
    fcntl.lockf(fd, fcntl.LOCK_SH, 5, 20)
    case("of a lock that is part shared", found, (EXCLUSIVE, 0, 25, 5, os.getpid()))
    case("the shared part is shared", lambda: one_byte(fcntl.LOCK_SH, 22))
    fcntl.lockf(fd, fcntl.LOCK_UN)
    case("or that nobody is", lambda: found()[0], NONE)
    # Locks of an open file rather than of a process.
    a, b = os.open("l", os.O_RDWR), os.open("l", os.O_RDWR)
    case("an open file locks", lambda: ask(a, OFD_SETLK, EXCLUSIVE, 0, 50)[0], EXCLUSIVE)
    case("also against its own process", lambda: ask(b, OFD_SETLK, SHARED, 40, 1), (EAGAIN, EACCES))
    case("which sees it", lambda: ask(b, OFD_GETLK, SHARED, 0, 0)[:4], (EXCLUSIVE, 0, 0, 50))
    case("and not beside it", lambda: ask(b, OFD_SETLK, EXCLUSIVE, 50, 0)[0], EXCLUSIVE)
    copy = os.dup(a)
    os.close(a)
    os.close(os.open("l", os.O_RDONLY))
    case("closing another descriptor keeps it", lambda: one_byte(fcntl.LOCK_SH, 5), (EAGAIN, EACCES))
    os.close(copy)
    time.sleep(0.05)  # the last close is told later
    case("closing the last gives it up", lambda: one_byte(fcntl.LOCK_EX, 5))
    case("the other holds on", lambda: one_byte(fcntl.LOCK_EX, 60), (EAGAIN, EACCES))
    os.close(b)


def as_child(call):
    return as_user(os.getuid(), os.getgid(), call, os.getgroups())


def other_users():
    os.chmod(".", 0o755)
    touch("private", b"secret", 0o600)
    user = lambda call, groups=(): as_user(USER, USER, call, groups)
    case("another's private file", lambda: user(lambda: read("private")), EACCES)
    case("nor written", lambda: user(lambda: open_close("private", os.O_WRONLY)), EACCES)
    case("but looked at", lambda: user(lambda: os.stat("private").st_size), 6)
    case("nor made in another's directory", lambda: user(lambda: touch("theirs")), EACCES)
    case("mkdir", lambda: user(lambda: os.mkdir("theirs")), EACCES)
    case("unlink", lambda: user(lambda: os.unlink("private")), EACCES)
    case("rename", lambda: user(lambda: os.rename("private", "x")), EACCES)
    case("link", lambda: user(lambda: os.link("private", "x")), (EACCES, EPERM))
    case("symlink", lambda: user(lambda: os.symlink("private", "x")), EACCES)
    case("chmod", lambda: user(lambda: os.chmod("private", 0o777)), EPERM)
    case("chown", lambda: user(lambda: os.chown("private", USER, USER)), EPERM)
    case("truncate", lambda: user(lambda: os.truncate("private", 0)), EACCES)
    case("utime", lambda: user(lambda: os.utime("private", ns=(1, 1))), EPERM)
    case("utime to now", lambda: user(lambda: os.utime("private")), EACCES)
    os.mkdir("closed", 0o700)
    touch("closed/in")
    case("below a closed directory", lambda: user(lambda: os.stat("closed/in")), EACCES)
    case("nor listed", lambda: user(lambda: os.listdir("closed")), EACCES)
    os.mkdir("open")
    os.chmod("open", 0o777)

    def owner(path):
        status = os.lstat(path)
        return status.st_uid, status.st_gid

    case("a file belongs to who made it", lambda: user(lambda: touch("open/f")) and owner("open/f"), (USER, USER))
    case("a directory", lambda: user(lambda: os.mkdir("open/d")) or owner("open/d"), (USER, USER))
    case("a link", lambda: user(lambda: os.symlink("f", "open/l")) or owner("open/l"), (USER, USER))
    case("a pipe", lambda: user(lambda: os.mkfifo("open/p")) or owner("open/p"), (USER, USER))
    case("what is made read-only can be written by who made it", lambda: user(lambda: touch("open/ro", b"x", 0o400)) and read("open/ro"), b"x")
    touch("open/trusted")
    os.setxattr("open/trusted", "user.seen", b"")
    os.chmod("open/trusted", 0o666)
    if not isinstance(case("root trusts", lambda: os.setxattr("open/trusted", "trusted.a", b"x"), (None, EOPNOTSUPP, EPERM)), OSError):
        case("what root trusts is listed to root", lambda: sorted(os.listxattr("open/trusted")), ["trusted.a", "user.seen"])
        case("and not to others", lambda: user(lambda: os.listxattr("open/trusted")), ["user.seen"])
        case("nor given", lambda: user(lambda: os.getxattr("open/trusted", "trusted.a")), ENODATA)
    case("a device is for root alone", lambda: user(lambda: os.mknod("open/dev", stat.S_IFCHR | 0o600, os.makedev(1, 3))), EPERM)
    case("owners give nothing away", lambda: user(lambda: os.chown("open/f", OTHER, -1)), EPERM)
    case("but to a group of theirs", lambda: user(lambda: os.chown("open/f", -1, GROUP), [GROUP]) or owner("open/f"), (USER, GROUP))
    case("not to another", lambda: user(lambda: os.chown("open/f", -1, 12345)), EPERM)
    touch("open/shared", b"x")
    os.chmod("open/shared", 0o666)
    case("who may write may set the time to now", lambda: user(lambda: os.utime("open/shared")))
    case("but to no other time", lambda: user(lambda: os.utime("open/shared", ns=(1, 1))), EPERM)
    case("nor read without leaving a trace", lambda: user(lambda: open_close("open/shared", os.O_RDONLY | os.O_NOATIME)), EPERM)
    os.mkdir("open/fixed", 0o755)
    os.mkdir("open/target")
    os.chmod("open/target", 0o777)
    case("a folder moves to another parent only with its own leave", lambda: user(lambda: os.rename("open/fixed", "open/target/fixed")), EACCES)
    case("and to the same one without", lambda: user(lambda: os.rename("open/fixed", "open/renamed")))
    os.chmod("open/target", 0o666)
    case("a folder without search", lambda: user(lambda: os.stat("open/target/.")), EACCES)
    case("is still listed", lambda: user(lambda: os.listdir("open/target")), [])
    # Groups count, also those that are not the first.
    os.mkdir("team")
    os.chown("team", 0, GROUP)
    os.chmod("team", 0o770)
    case("a directory of a group, for others", lambda: user(lambda: touch("team/f")), EACCES)
    case("for members", lambda: user(lambda: touch("team/f"), [GROUP]) and owner("team/f"), (USER, USER))
    os.chmod("team", 0o2770)
    case("a set-group-id directory hands its group on", lambda: user(lambda: touch("team/g"), [GROUP]) and owner("team/g"), (USER, GROUP))
    case("and its bit to directories", lambda: user(lambda: os.mkdir("team/sub", 0o755), [GROUP]) or (mode("team/sub"), owner("team/sub")), (0o2755, (USER, GROUP)))
    # Sticky directories.
    os.mkdir("sticky")
    os.chmod("sticky", 0o1777)
    user(lambda: touch("sticky/f"))
    other = lambda call: as_user(OTHER, OTHER, call)
    case("in a sticky directory others remove nothing", lambda: other(lambda: os.unlink("sticky/f")), (EPERM, EACCES))
    case("nor rename", lambda: other(lambda: os.rename("sticky/f", "sticky/g")), (EPERM, EACCES))
    case("nor replace", lambda: other(lambda: touch("sticky/mine") and os.rename("sticky/mine", "sticky/f")), (EPERM, EACCES))
    case("the owner does", lambda: user(lambda: os.unlink("sticky/f")))
    # Set-id bits go when someone else writes.
    def set_id(bits):
        touch("open/s", b"12345")
        os.chown("open/s", 0, 0)
        os.chmod("open/s", bits)

    set_id(0o6777)
    case("a write takes set-id bits away", lambda: user(lambda: os.write(os.open("open/s", os.O_WRONLY), b"x")) and mode("open/s"), 0o777)
    set_id(0o6777)
    case("through the cache, too", lambda: user(lambda: os.write(os.open("open/s", os.O_RDWR), b"x")) and mode("open/s"), 0o777)
    set_id(0o6777)
    case("so does truncate", lambda: user(lambda: os.truncate("open/s", 1)) or mode("open/s"), 0o777)
    set_id(0o6777)
    case("and O_TRUNC", lambda: user(lambda: open_close("open/s", os.O_WRONLY | os.O_TRUNC)) or mode("open/s"), 0o777)
    set_id(0o6755)
    os.chown("open/s", USER, USER)
    case("chown takes them away", lambda: mode("open/s"), 0o755)
    os.chmod("open/s", 0o6777)
    case("root's writes do not", lambda: os.write(os.open("open/s", os.O_WRONLY), b"x") and mode("open/s"), 0o6777)
    os.chown("open/f", USER, 0)
    case("chmod by one outside the group drops set-group-id", lambda: user(lambda: os.chmod("open/f", 0o2755)) or mode("open/f"), 0o755)
    case("execute permission counts", lambda: user(lambda: os.access("open/s", os.X_OK)), True)
    os.chmod("open/s", 0o644)
    case("and its absence", lambda: user(lambda: os.access("open/s", os.X_OK)), False)
    case("and for writing", lambda: user(lambda: os.access("private", os.W_OK)), False)
    acl_cases(user)


def acl_cases(user):
    """A list that names one user more (version 2: tag, permission, id)."""
    entry = lambda tag, perm, who=0xFFFFFFFF: tag.to_bytes(2, "little") + perm.to_bytes(2, "little") + who.to_bytes(4, "little")
    acl = lambda *entries: (2).to_bytes(4, "little") + b"".join(entries)
    named = acl(entry(1, 6), entry(2, 4, USER), entry(4, 0), entry(16, 6), entry(32, 0))
    touch("listed", b"for one", 0o600)
    try:
        os.setxattr("listed", "system.posix_acl_access", named)
    except OSError:
        return  # this file system has none
    case("who is named in an access list may read", lambda: user(lambda: read("listed")), b"for one")
    case("but not write", lambda: user(lambda: open_close("listed", os.O_WRONLY)), EACCES)
    case("others may not", lambda: as_user(OTHER, OTHER, lambda: read("listed")), EACCES)
    os.mkdir("default")
    inherited = acl(entry(1, 7), entry(4, 7), entry(16, 7), entry(32, 5))
    os.setxattr("default", "system.posix_acl_default", inherited)
    old = os.umask(0o077)
    # Below FUSE the kernel may have applied the umask before anyone could tell it of the list.
    case("a default list stands in for the umask", lambda: mode(touch("default/f", mode=0o666)) in (0o664, 0o600), True)
    os.umask(old)


def main():
    os.chdir(sys.argv[1])
    parts = [open_and_creat, appending, directories, renaming, links, attributes, extended_attributes, data, mapping, locks]
    if os.getuid() == 0:
        parts.append(other_users)
    for part in parts:
        os.mkdir(part.__name__)
        os.chdir(part.__name__)
        try:
            part()
        except Exception as error:  # a case that others rest on
            failures.append(f"{part.__name__} stopped: {type(error).__name__}: {error}")
        os.chdir("..")
    for failure in failures:
        print(failure)
    print(f"{count} cases, {len(failures)} failed")


main()
