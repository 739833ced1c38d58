//! Hooks of POSIX asynchronous I/O: a request's bytes are those that `aio_return` tells.

use core::ffi::{c_int, c_void};

use iotide_wire::{Flags, Layer, Op};
use libc::{aiocb, ssize_t};

use crate::next::hooks;
use crate::requests::{self, Key, Request};
use crate::{buffer, clock, files};

hooks! {
    fn aio_read(block: *mut aiocb) -> c_int |next| { begin(Op::Read, block, || next(block)) }
    fn aio_read64(block: *mut aiocb) -> c_int |next| { begin(Op::Read, block, || next(block)) }
    fn aio_write(block: *mut aiocb) -> c_int |next| { begin(Op::Write, block, || next(block)) }
    fn aio_write64(block: *mut aiocb) -> c_int |next| { begin(Op::Write, block, || next(block)) }
    fn aio_return(block: *mut aiocb) -> ssize_t |next| { end(block, || next(block)) }
    fn aio_return64(block: *mut aiocb) -> ssize_t |next| { end(block, || next(block)) }
    fn aio_suspend(blocks: *const *const aiocb, n: c_int, timeout: *const c_void) -> c_int |next| { wait(blocks, n); next(blocks, n, timeout) }
    fn aio_suspend64(blocks: *const *const aiocb, n: c_int, timeout: *const c_void) -> c_int |next| { wait(blocks, n); next(blocks, n, timeout) }
    fn lio_listio(mode: c_int, blocks: *const *mut aiocb, n: c_int, event: *mut c_void) -> c_int |next| { begin_list(blocks, n, || next(mode, blocks, n, event)) }
    fn lio_listio64(mode: c_int, blocks: *const *mut aiocb, n: c_int, event: *mut c_void) -> c_int |next| { begin_list(blocks, n, || next(mode, blocks, n, event)) }
}

fn key(block: *const aiocb) -> Key {
    Key::Aio(block as u64)
}

fn begin(op: Op, block: *mut aiocb, call: impl FnOnce() -> c_int) -> c_int {
    note(op, block);
    let result = call();
    if result != 0 {
        requests::take(key(block));
    }
    result
}

/// Takes note of a request before it begins: it may be complete before the call returns.
fn note(op: Op, block: *mut aiocb) {
    if block.is_null() {
        return;
    }
    // SAFETY: not null, and a control block, or the call would fail.
    let (fd, asked) = unsafe { ((*block).aio_fildes, (*block).aio_nbytes as u64) };
    if let Some(file) = files::of(fd) {
        let mut flags = Flags::of(Layer::Posix);
        if file.is_of_mpi {
            flags = flags.with(Flags::NESTED);
        }
        requests::begin(key(block), Request { op, flags, file: file.id, start: clock::now(), asked });
    }
}

fn begin_list(blocks: *const *mut aiocb, n: c_int, call: impl FnOnce() -> c_int) -> c_int {
    for i in 0..n.max(0) as usize {
        // SAFETY: an array of `n` pointers, each null or to a control block.
        let block = unsafe { *blocks.add(i) };
        if block.is_null() {
            continue;
        }
        // SAFETY: as above.
        match unsafe { (*block).aio_lio_opcode } {
            libc::LIO_READ => note(Op::Read, block),
            libc::LIO_WRITE => note(Op::Write, block),
            _ => {}
        }
    }
    call()
}

fn wait(blocks: *const *const aiocb, n: c_int) {
    if requests::are_under_way() {
        let now = clock::now();
        for i in 0..n.max(0) as usize {
            // SAFETY: an array of `n` pointers.
            requests::wait_begins(key(unsafe { *blocks.add(i) }), now);
        }
    }
}

fn end(block: *mut aiocb, call: impl FnOnce() -> ssize_t) -> ssize_t {
    let moved = call();
    if requests::are_under_way() {
        if moved < 0 {
            requests::take(key(block));
        } else if let Some(record) = requests::complete(key(block), Some(moved as u64)) {
            buffer::push(record);
        }
    }
    moved
}
