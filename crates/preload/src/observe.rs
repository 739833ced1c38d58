//! Steps of a hook around the call it stands in front of.
//!
//! In order: is the file traced at all, the time, the call itself, the time, then our work, which may fail but not block, and leaves
//! `errno` alone. Nothing with a destructor lives across the call: a cancelled thread or a C++ exception may pass through it.

use iotide_wire::{Call, Flags, Layer, NO_POSITION, Record};

use crate::files::File;
use crate::guard::errno;
use crate::{buffer, clock, files, gate, totals};

/// Observes a call that moves up to `size` bytes through a descriptor.
#[inline(always)]
pub fn data(
    name: Call,
    fd: i32,
    position: i64,
    size: impl FnOnce() -> usize,
    call: impl FnOnce() -> isize,
) -> isize {
    let Some(file) = files::of(fd) else {
        // Before the call: another thread may close the descriptor while it is under way.
        let class = files::class(fd);
        let moved = call();
        if moved > 0 {
            totals::left_out_of(class, name.op(), moved as u64);
        }
        return moved;
    };
    let start = clock::now();
    // What waits here, waits within the call as the program sees it, and so it is recorded.
    let at = || if position == ANYWHERE { files::stands_at(fd) } else { position as u64 };
    let pass = gate::pass(name.op(), file.id, at, size);
    let moved = call();
    gate::passed(pass, moved);
    let end = clock::now();
    let outcome = if moved >= 0 { Ok(moved as u64) } else { Err(errno()) };
    let place = if position == ANYWHERE {
        let place = files::stands_at(fd);
        files::moves_on(fd, place, moved);
        place
    } else {
        position as u64
    };
    push(file, record(name, Layer::Posix, file, start, end, place, outcome));
    moved
}

/// Keeps the record of a call that moved bytes. Those of a virtual descriptor are none that the kernel counts.
#[inline(always)]
pub fn push(file: File, record: Record) {
    if file.is_virtual && record.flags.0 & Flags::FAILED == 0 {
        buffer::push_beside(record);
    } else {
        buffer::push(record);
    }
}

/// The position of a call that states none.
pub const ANYWHERE: i64 = NO_POSITION as i64;

/// Observes a call on a descriptor that moves no bytes and returns 0 or −1.
#[inline(always)]
pub fn control(name: Call, fd: i32, call: impl FnOnce() -> i32) -> i32 {
    let Some(file) = files::as_given(fd) else { return call() };
    let start = clock::now();
    let result = call();
    let end = clock::now();
    let outcome = if result >= 0 { Ok(0) } else { Err(errno()) };
    buffer::push(record(name, Layer::Posix, file, start, end, NO_POSITION, outcome));
    result
}

/// Observes a call on a path that returns 0 or −1. One that fails is not worth a name in the trace: programs look for files in
/// many places.
pub fn named(name: Call, directory: i32, path: *const libc::c_char, call: impl FnOnce() -> i32) -> i32 {
    if path.is_null() || !crate::lifecycle::is_tracing() {
        return call();
    }
    let start = clock::now();
    let result = call();
    let end = clock::now();
    let error = errno();
    if result == 0 {
        // SAFETY: not null, and a C string since the call has accepted it.
        let path = unsafe { core::ffi::CStr::from_ptr(path) };
        if let Some(file) = files::of_path(directory, path) {
            buffer::push(record(name, Layer::Posix, file, start, end, NO_POSITION, Ok(0)));
        }
    }
    crate::guard::set_errno(error);
    result
}

/// Observes a call that opens a file by its path and returns its descriptor.
#[inline(always)]
pub fn opening_path(
    name: Call,
    directory: i32,
    path: *const libc::c_char,
    flags: i32,
    call: impl FnOnce() -> i32,
) -> i32 {
    let start = clock::now();
    let fd = call();
    let end = clock::now();
    if fd >= 0
        && let Some(file) = files::opened(fd, directory, path, flags)
    {
        buffer::spent_since(end);
        buffer::push(record(name, Layer::Posix, file, start, end, NO_POSITION, Ok(0)));
    }
    fd
}

/// Observes a call that opens a file of a name it makes itself, in `template`, and returns its descriptor.
#[inline(always)]
pub fn opening(name: Call, template: *const libc::c_char, call: impl FnOnce() -> i32) -> i32 {
    let start = clock::now();
    let fd = call();
    let end = clock::now();
    if fd >= 0 {
        files::forget(fd);
        let file = files::of(fd).or_else(|| files::keep_virtual(fd, libc::AT_FDCWD, template, false));
        if let Some(file) = file {
            buffer::push(record(name, Layer::Posix, file, start, end, NO_POSITION, Ok(0)));
        }
    }
    fd
}

/// Returns the record of a call.
#[inline(always)]
pub fn record(
    call: Call,
    layer: Layer,
    file: File,
    start: u64,
    end: u64,
    position: u64,
    outcome: Result<u64, i32>,
) -> Record {
    let mut flags = Flags::of(layer);
    if file.is_of_mpi {
        flags = flags.with(Flags::NESTED);
    }
    let bytes = match outcome {
        Ok(bytes) => bytes,
        Err(error) => {
            flags = flags.with(Flags::FAILED);
            error as u64
        }
    };
    Record { start, duration: end.wrapping_sub(start), bytes, position, file: file.id, calls: 1, call, flags }
}
