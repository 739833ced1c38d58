//! Hooks of the POSIX layer: descriptors and names.
//!
//! `off_t` is 64 bits wide on the machines we know, so each function and its `64` twin are the same call under two names.

use core::ffi::{c_char, c_int, c_long, c_uint, c_void};
use core::ptr::null_mut;

use iotide_wire::{Call, Layer, NO_POSITION, Op};
use libc::{AT_FDCWD, iovec, mode_t, off_t, size_t, ssize_t};

use crate::guard::{errno, set_errno};
use crate::next::hooks;
use crate::observe::{ANYWHERE, control, data, named, opening, opening_path, push, record};
use crate::{buffer, clock, files, sink, totals};

// The third argument of `open` is optional in C. Declared as fixed, it is read from the register where it would be, or holds nothing that
// anyone looks at; that is how the calling conventions of x86-64 and AArch64 Linux pass it.
hooks! {
    fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int |next| { opening_path(const { call(Op::Open) }, AT_FDCWD, path, flags, || next(path, flags, mode)) }
    fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int |next| { opening_path(const { call(Op::Open) }, AT_FDCWD, path, flags, || next(path, flags, mode)) }
    fn __open_2(path: *const c_char, flags: c_int) -> c_int |next| { opening_path(const { call(Op::Open) }, AT_FDCWD, path, flags, || next(path, flags)) }
    fn __open64_2(path: *const c_char, flags: c_int) -> c_int |next| { opening_path(const { call(Op::Open) }, AT_FDCWD, path, flags, || next(path, flags)) }
    fn openat(at: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int |next| { opening_path(const { call(Op::Open) }, at, path, flags, || next(at, path, flags, mode)) }
    fn openat64(at: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int |next| { opening_path(const { call(Op::Open) }, at, path, flags, || next(at, path, flags, mode)) }
    fn __openat_2(at: c_int, path: *const c_char, flags: c_int) -> c_int |next| { opening_path(const { call(Op::Open) }, at, path, flags, || next(at, path, flags)) }
    fn __openat64_2(at: c_int, path: *const c_char, flags: c_int) -> c_int |next| { opening_path(const { call(Op::Open) }, at, path, flags, || next(at, path, flags)) }
    fn creat(path: *const c_char, mode: mode_t) -> c_int |next| { opening_path(const { call(Op::Open) }, AT_FDCWD, path, 0, || next(path, mode)) }
    fn creat64(path: *const c_char, mode: mode_t) -> c_int |next| { opening_path(const { call(Op::Open) }, AT_FDCWD, path, 0, || next(path, mode)) }
    fn mkstemp(template: *mut c_char) -> c_int |next| { opening(const { call(Op::Open) }, template, || next(template)) }
    fn mkstemp64(template: *mut c_char) -> c_int |next| { opening(const { call(Op::Open) }, template, || next(template)) }
    fn mkostemp(template: *mut c_char, flags: c_int) -> c_int |next| { opening(const { call(Op::Open) }, template, || next(template, flags)) }
    fn mkostemp64(template: *mut c_char, flags: c_int) -> c_int |next| { opening(const { call(Op::Open) }, template, || next(template, flags)) }
    fn mkstemps(template: *mut c_char, n: c_int) -> c_int |next| { opening(const { call(Op::Open) }, template, || next(template, n)) }
    fn mkostemps(template: *mut c_char, n: c_int, flags: c_int) -> c_int |next| { opening(const { call(Op::Open) }, template, || next(template, n, flags)) }

    fn read(fd: c_int, to: *mut c_void, n: size_t) -> ssize_t |next| { data(const { call(Op::Read) }, fd, ANYWHERE, || n, || next(fd, to, n)) }
    fn write(fd: c_int, from: *const c_void, n: size_t) -> ssize_t |next| { data(const { call(Op::Write) }, fd, ANYWHERE, || n, || next(fd, from, n)) }
    fn __read_chk(fd: c_int, to: *mut c_void, n: size_t, room: size_t) -> ssize_t |next| { data(const { call(Op::Read) }, fd, ANYWHERE, || n, || next(fd, to, n, room)) }
    fn pread(fd: c_int, to: *mut c_void, n: size_t, at: off_t) -> ssize_t |next| { data(const { call(Op::Read) }, fd, at, || n, || next(fd, to, n, at)) }
    fn pread64(fd: c_int, to: *mut c_void, n: size_t, at: off_t) -> ssize_t |next| { data(const { call(Op::Read) }, fd, at, || n, || next(fd, to, n, at)) }
    fn __pread_chk(fd: c_int, to: *mut c_void, n: size_t, at: off_t, room: size_t) -> ssize_t |next| { data(const { call(Op::Read) }, fd, at, || n, || next(fd, to, n, at, room)) }
    fn __pread64_chk(fd: c_int, to: *mut c_void, n: size_t, at: off_t, room: size_t) -> ssize_t |next| { data(const { call(Op::Read) }, fd, at, || n, || next(fd, to, n, at, room)) }
    fn pwrite(fd: c_int, from: *const c_void, n: size_t, at: off_t) -> ssize_t |next| { data(const { call(Op::Write) }, fd, at, || n, || next(fd, from, n, at)) }
    fn pwrite64(fd: c_int, from: *const c_void, n: size_t, at: off_t) -> ssize_t |next| { data(const { call(Op::Write) }, fd, at, || n, || next(fd, from, n, at)) }
    fn readv(fd: c_int, parts: *const iovec, n: c_int) -> ssize_t |next| { data(const { call(Op::Read) }, fd, ANYWHERE, || total(parts, n), || next(fd, parts, n)) }
    fn writev(fd: c_int, parts: *const iovec, n: c_int) -> ssize_t |next| { data(const { call(Op::Write) }, fd, ANYWHERE, || total(parts, n), || next(fd, parts, n)) }
    fn preadv(fd: c_int, parts: *const iovec, n: c_int, at: off_t) -> ssize_t |next| { data(const { call(Op::Read) }, fd, at, || total(parts, n), || next(fd, parts, n, at)) }
    fn preadv64(fd: c_int, parts: *const iovec, n: c_int, at: off_t) -> ssize_t |next| { data(const { call(Op::Read) }, fd, at, || total(parts, n), || next(fd, parts, n, at)) }
    fn pwritev(fd: c_int, parts: *const iovec, n: c_int, at: off_t) -> ssize_t |next| { data(const { call(Op::Write) }, fd, at, || total(parts, n), || next(fd, parts, n, at)) }
    fn pwritev64(fd: c_int, parts: *const iovec, n: c_int, at: off_t) -> ssize_t |next| { data(const { call(Op::Write) }, fd, at, || total(parts, n), || next(fd, parts, n, at)) }
    // An offset of −1 means "where the descriptor stands", which is also what `ANYWHERE` is.
    fn preadv2(fd: c_int, parts: *const iovec, n: c_int, at: off_t, flags: c_int) -> ssize_t |next| { data(const { call(Op::Read) }, fd, at, || total(parts, n), || next(fd, parts, n, at, flags)) }
    fn preadv64v2(fd: c_int, parts: *const iovec, n: c_int, at: off_t, flags: c_int) -> ssize_t |next| { data(const { call(Op::Read) }, fd, at, || total(parts, n), || next(fd, parts, n, at, flags)) }
    fn pwritev2(fd: c_int, parts: *const iovec, n: c_int, at: off_t, flags: c_int) -> ssize_t |next| { data(const { call(Op::Write) }, fd, at, || total(parts, n), || next(fd, parts, n, at, flags)) }
    fn pwritev64v2(fd: c_int, parts: *const iovec, n: c_int, at: off_t, flags: c_int) -> ssize_t |next| { data(const { call(Op::Write) }, fd, at, || total(parts, n), || next(fd, parts, n, at, flags)) }

    fn sendfile(out: c_int, input: c_int, at: *mut off_t, n: size_t) -> ssize_t |next| { between(const { [call(Op::Read), call(Op::Write)] }, [(input, at), (out, null_mut())], || next(out, input, at, n)) }
    fn sendfile64(out: c_int, input: c_int, at: *mut off_t, n: size_t) -> ssize_t |next| { between(const { [call(Op::Read), call(Op::Write)] }, [(input, at), (out, null_mut())], || next(out, input, at, n)) }
    fn copy_file_range(input: c_int, in_at: *mut off_t, out: c_int, out_at: *mut off_t, n: size_t, flags: c_uint) -> ssize_t |next| {
        between(const { [call(Op::Read), call(Op::Write)] }, [(input, in_at), (out, out_at)], || next(input, in_at, out, out_at, n, flags))
    }
    fn splice(input: c_int, in_at: *mut off_t, out: c_int, out_at: *mut off_t, n: size_t, flags: c_uint) -> ssize_t |next| {
        between(const { [call(Op::Read), call(Op::Write)] }, [(input, in_at), (out, out_at)], || next(input, in_at, out, out_at, n, flags))
    }

    fn lseek(fd: c_int, offset: off_t, whence: c_int) -> off_t |next| { seek(const { call(Op::Seek) }, fd, || next(fd, offset, whence)) }
    fn lseek64(fd: c_int, offset: off_t, whence: c_int) -> off_t |next| { seek(const { call(Op::Seek) }, fd, || next(fd, offset, whence)) }
    fn fsync(fd: c_int) -> c_int |next| { control(const { call(Op::Sync) }, fd, || next(fd)) }
    fn fdatasync(fd: c_int) -> c_int |next| { control(const { call(Op::Sync) }, fd, || next(fd)) }
    fn sync_file_range(fd: c_int, at: off_t, n: off_t, flags: c_uint) -> c_int |next| { control(const { call(Op::Sync) }, fd, || next(fd, at, n, flags)) }
    fn ftruncate(fd: c_int, length: off_t) -> c_int |next| { control(const { call(Op::Resize) }, fd, || next(fd, length)) }
    fn ftruncate64(fd: c_int, length: off_t) -> c_int |next| { control(const { call(Op::Resize) }, fd, || next(fd, length)) }
    fn fallocate(fd: c_int, mode: c_int, at: off_t, n: off_t) -> c_int |next| { control(const { call(Op::Resize) }, fd, || next(fd, mode, at, n)) }
    fn fallocate64(fd: c_int, mode: c_int, at: off_t, n: off_t) -> c_int |next| { control(const { call(Op::Resize) }, fd, || next(fd, mode, at, n)) }
    fn truncate(path: *const c_char, length: off_t) -> c_int |next| { named(const { call(Op::Resize) }, AT_FDCWD, path, || next(path, length)) }
    fn truncate64(path: *const c_char, length: off_t) -> c_int |next| { named(const { call(Op::Resize) }, AT_FDCWD, path, || next(path, length)) }

    fn close(fd: c_int) -> c_int |next| { closing(const { call(Op::Close) }, fd, || next(fd)) }
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int |next| {
        let result = next(first, last, flags);
        if result == 0 && flags & libc::CLOSE_RANGE_CLOEXEC as c_int == 0 {
            files::forget_range(first, last);
        }
        result
    }
    fn dup(old: c_int) -> c_int |next| { duplicating(old, || next(old)) }
    fn dup2(old: c_int, new: c_int) -> c_int |next| { duplicating(old, || next(old, new)) }
    fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int |next| { duplicating(old, || next(old, new, flags)) }
    fn fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int |next| { controlling(fd, command, || next(fd, command, argument)) }
    fn fcntl64(fd: c_int, command: c_int, argument: c_long) -> c_int |next| { controlling(fd, command, || next(fd, command, argument)) }

    fn chdir(path: *const c_char) -> c_int |next| { let result = next(path); files::working_directory::forget(); result }
    fn fchdir(fd: c_int) -> c_int |next| { let result = next(fd); files::working_directory::forget(); result }
    fn chroot(path: *const c_char) -> c_int |next| { let result = next(path); files::working_directory::forget(); result }

    fn rename(old: *const c_char, new: *const c_char) -> c_int |next| { named(const { call(Op::Rename) }, AT_FDCWD, old, || next(old, new)) }
    fn renameat(old_at: c_int, old: *const c_char, new_at: c_int, new: *const c_char) -> c_int |next| { named(const { call(Op::Rename) }, old_at, old, || next(old_at, old, new_at, new)) }
    fn renameat2(old_at: c_int, old: *const c_char, new_at: c_int, new: *const c_char, flags: c_uint) -> c_int |next| {
        named(const { call(Op::Rename) }, old_at, old, || next(old_at, old, new_at, new, flags))
    }
    fn unlink(path: *const c_char) -> c_int |next| { named(const { call(Op::Unlink) }, AT_FDCWD, path, || next(path)) }
    fn unlinkat(at: c_int, path: *const c_char, flags: c_int) -> c_int |next| { named(const { call(Op::Unlink) }, at, path, || next(at, path, flags)) }
    fn remove(path: *const c_char) -> c_int |next| { named(const { call(Op::Unlink) }, AT_FDCWD, path, || next(path)) }
    fn mkdir(path: *const c_char, mode: mode_t) -> c_int |next| { named(const { call(Op::Directory) }, AT_FDCWD, path, || next(path, mode)) }
    fn mkdirat(at: c_int, path: *const c_char, mode: mode_t) -> c_int |next| { named(const { call(Op::Directory) }, at, path, || next(at, path, mode)) }
    fn rmdir(path: *const c_char) -> c_int |next| { named(const { call(Op::Directory) }, AT_FDCWD, path, || next(path)) }

    fn stat(path: *const c_char, to: *mut c_void) -> c_int |next| { named(const { call(Op::Stat) }, AT_FDCWD, path, || next(path, to)) }
    fn stat64(path: *const c_char, to: *mut c_void) -> c_int |next| { named(const { call(Op::Stat) }, AT_FDCWD, path, || next(path, to)) }
    fn lstat(path: *const c_char, to: *mut c_void) -> c_int |next| { named(const { call(Op::Stat) }, AT_FDCWD, path, || next(path, to)) }
    fn lstat64(path: *const c_char, to: *mut c_void) -> c_int |next| { named(const { call(Op::Stat) }, AT_FDCWD, path, || next(path, to)) }
    fn fstat(fd: c_int, to: *mut c_void) -> c_int |next| { control(const { call(Op::Stat) }, fd, || next(fd, to)) }
    fn fstat64(fd: c_int, to: *mut c_void) -> c_int |next| { control(const { call(Op::Stat) }, fd, || next(fd, to)) }
    fn fstatat(at: c_int, path: *const c_char, to: *mut c_void, flags: c_int) -> c_int |next| { stat_at(const { call(Op::Stat) }, at, path, || next(at, path, to, flags)) }
    fn fstatat64(at: c_int, path: *const c_char, to: *mut c_void, flags: c_int) -> c_int |next| { stat_at(const { call(Op::Stat) }, at, path, || next(at, path, to, flags)) }
    fn statx(at: c_int, path: *const c_char, flags: c_int, mask: c_uint, to: *mut c_void) -> c_int |next| { stat_at(const { call(Op::Stat) }, at, path, || next(at, path, flags, mask, to)) }
    // Programs built against a C library before 2.33 call these instead.
    fn __xstat(version: c_int, path: *const c_char, to: *mut c_void) -> c_int |next| { named(const { call(Op::Stat) }, AT_FDCWD, path, || next(version, path, to)) }
    fn __xstat64(version: c_int, path: *const c_char, to: *mut c_void) -> c_int |next| { named(const { call(Op::Stat) }, AT_FDCWD, path, || next(version, path, to)) }
    fn __lxstat(version: c_int, path: *const c_char, to: *mut c_void) -> c_int |next| { named(const { call(Op::Stat) }, AT_FDCWD, path, || next(version, path, to)) }
    fn __lxstat64(version: c_int, path: *const c_char, to: *mut c_void) -> c_int |next| { named(const { call(Op::Stat) }, AT_FDCWD, path, || next(version, path, to)) }
    fn __fxstat(version: c_int, fd: c_int, to: *mut c_void) -> c_int |next| { control(const { call(Op::Stat) }, fd, || next(version, fd, to)) }
    fn __fxstat64(version: c_int, fd: c_int, to: *mut c_void) -> c_int |next| { control(const { call(Op::Stat) }, fd, || next(version, fd, to)) }
    fn __fxstatat(version: c_int, at: c_int, path: *const c_char, to: *mut c_void, flags: c_int) -> c_int |next| { stat_at(const { call(Op::Stat) }, at, path, || next(version, at, path, to, flags)) }
    fn __fxstatat64(version: c_int, at: c_int, path: *const c_char, to: *mut c_void, flags: c_int) -> c_int |next| { stat_at(const { call(Op::Stat) }, at, path, || next(version, at, path, to, flags)) }

    fn mmap(address: *mut c_void, length: size_t, protection: c_int, flags: c_int, fd: c_int, at: off_t) -> *mut c_void |next| {
        mapping(const { call(Op::Map) }, length, protection, flags, fd, at, || next(address, length, protection, flags, fd, at))
    }
    fn mmap64(address: *mut c_void, length: size_t, protection: c_int, flags: c_int, fd: c_int, at: off_t) -> *mut c_void |next| {
        mapping(const { call(Op::Map) }, length, protection, flags, fd, at, || next(address, length, protection, flags, fd, at))
    }
}

/// Both sides of a call that copies from one descriptor to another.
pub(crate) const COPIED: [Call; 2] =
    [Call::of_symbol("copy_file_range", Op::Read), Call::of_symbol("copy_file_range", Op::Write)];
pub(crate) const SENT: [Call; 2] =
    [Call::of_symbol("sendfile", Op::Read), Call::of_symbol("sendfile", Op::Write)];

/// Observes bytes that go from one descriptor straight to another: read here, written there. Each stands beside where the program keeps its
/// offset, or null if it goes where the descriptor stands.
pub(crate) fn between(
    calls: [Call; 2],
    ends: [(c_int, *mut off_t); 2],
    call: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let before = ends.map(|(fd, at)| {
        let place = if at.is_null() {
            files::stands_at(fd)
        } else {
            // SAFETY: not null, so an offset that the call is about to read itself.
            unsafe { *at as u64 }
        };
        (files::of(fd), files::class(fd), place)
    });
    let start = clock::now();
    let moved = call();
    let end = clock::now();
    let outcome = if moved >= 0 { Ok(moved as u64) } else { Err(errno()) };
    for ((call, (fd, at)), (file, class, place)) in calls.into_iter().zip(ends).zip(before) {
        let Some(file) = file else {
            if moved > 0 {
                totals::left_out_of(class, call.op(), moved as u64);
            }
            continue;
        };
        if at.is_null() {
            files::moves_on(fd, place, moved);
        }
        push(file, record(call, Layer::Posix, file, start, end, place, outcome));
    }
    moved
}

fn seek(name: Call, fd: c_int, call: impl FnOnce() -> off_t) -> off_t {
    let Some(file) = files::as_given(fd) else { return call() };
    let start = clock::now();
    let position = call();
    let end = clock::now();
    let (at, outcome) = if position >= 0 { (position as u64, Ok(0)) } else { (NO_POSITION, Err(errno())) };
    if position >= 0 {
        files::stand_at(fd, position as u64);
    }
    buffer::push(record(name, Layer::Posix, file, start, end, at, outcome));
    position
}

pub(crate) fn closing(name: Call, fd: c_int, call: impl FnOnce() -> c_int) -> c_int {
    if sink::is_our_descriptor(fd) {
        // To the program this number is free, and closing it an error.
        set_errno(libc::EBADF);
        return -1;
    }
    let Some(file) = files::as_given(fd) else {
        let result = call();
        files::forget(fd);
        return result;
    };
    let start = clock::now();
    // Forgotten before the call: once it is closed, another thread may be given the same number.
    files::forget(fd);
    let result = call();
    let end = clock::now();
    let outcome = if result == 0 { Ok(0) } else { Err(errno()) };
    buffer::push(record(name, Layer::Posix, file, start, end, NO_POSITION, outcome));
    result
}

/// How much fits into the parts of a vector.
fn total(parts: *const iovec, n: c_int) -> usize {
    let n = usize::try_from(n).unwrap_or(0);
    if parts.is_null() {
        return 0;
    }
    // SAFETY: the program says that there are `n` of them, and the call it is about to make reads them all.
    let parts = unsafe { core::slice::from_raw_parts(parts, n.min(libc::UIO_MAXIOV as usize)) };
    parts.iter().fold(0, |sum, part| sum.saturating_add(part.iov_len))
}

/// A duplicate is another name of the same open file.
fn duplicating(old: c_int, call: impl FnOnce() -> c_int) -> c_int {
    let fd = call();
    if fd >= 0 && fd != old {
        files::duplicated(old, fd);
    }
    fd
}

fn controlling(fd: c_int, command: c_int, call: impl FnOnce() -> c_int) -> c_int {
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => duplicating(fd, call),
        _ => call(),
    }
}

/// `fstatat` and `statx` may be about the directory's own descriptor: then the path is empty.
fn stat_at(name: Call, at: c_int, path: *const c_char, call: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: if not null, a C string, or the call would fail.
    if path.is_null() || unsafe { *path } == 0 {
        control(name, at, call)
    } else {
        named(name, at, path, call)
    }
}

fn mapping(
    name: Call,
    length: size_t,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    at: off_t,
    call: impl FnOnce() -> *mut c_void,
) -> *mut c_void {
    if fd < 0 {
        return call();
    }
    let Some(file) = files::of(fd) else { return call() };
    let start = clock::now();
    let address = call();
    let end = clock::now();
    let outcome = if address == libc::MAP_FAILED { Err(errno()) } else { Ok(length as u64) };
    let is_written_through =
        flags & libc::MAP_TYPE != libc::MAP_PRIVATE && protection & libc::PROT_WRITE != 0;
    if is_written_through && outcome.is_ok() && !file.is_of_mpi {
        totals::mapped(length as u64);
    }
    buffer::push(record(name, Layer::Posix, file, start, end, at as u64, outcome));
    address
}
