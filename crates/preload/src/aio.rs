//! Hooks of POSIX asynchronous I/O: a request's bytes are those that `aio_return` tells.

use core::ffi::{c_int, c_void};

use iotide_wire::{Call, Flags, Layer, Op};
use libc::{aiocb, ssize_t};

use crate::next::hooks;
use crate::requests::{self, Ended, Key, Request};
use crate::{clock, files, totals};

hooks! {
    fn aio_read(block: *mut aiocb) -> c_int |next| { begin(const { call(Op::Read) }, block, || next(block)) }
    fn aio_read64(block: *mut aiocb) -> c_int |next| { begin(const { call(Op::Read) }, block, || next(block)) }
    fn aio_write(block: *mut aiocb) -> c_int |next| { begin(const { call(Op::Write) }, block, || next(block)) }
    fn aio_write64(block: *mut aiocb) -> c_int |next| { begin(const { call(Op::Write) }, block, || next(block)) }
    fn aio_return(block: *mut aiocb) -> ssize_t |next| { end(block, || next(block)) }
    fn aio_return64(block: *mut aiocb) -> ssize_t |next| { end(block, || next(block)) }
    fn aio_suspend(blocks: *const *const aiocb, n: c_int, timeout: *const c_void) -> c_int |next| { wait(blocks, n); next(blocks, n, timeout) }
    fn aio_suspend64(blocks: *const *const aiocb, n: c_int, timeout: *const c_void) -> c_int |next| { wait(blocks, n); next(blocks, n, timeout) }
    fn lio_listio(mode: c_int, blocks: *const *mut aiocb, n: c_int, event: *mut c_void) -> c_int |next| { begin_list(const { [call(Op::Read), call(Op::Write)] }, mode, blocks, n, || next(mode, blocks, n, event)) }
    fn lio_listio64(mode: c_int, blocks: *const *mut aiocb, n: c_int, event: *mut c_void) -> c_int |next| { begin_list(const { [call(Op::Read), call(Op::Write)] }, mode, blocks, n, || next(mode, blocks, n, event)) }
}

fn key(block: *const aiocb) -> Key {
    Key::Aio(block as u64)
}

fn begin(name: Call, block: *mut aiocb, call: impl FnOnce() -> c_int) -> c_int {
    note(name, block);
    let result = call();
    if result != 0 {
        requests::take(key(block));
    }
    result
}

/// Takes note of a request before it begins: it may be complete before the call returns.
fn note(call: Call, block: *mut aiocb) {
    if block.is_null() || !crate::lifecycle::is_tracing() {
        return;
    }
    // SAFETY: not null, and a control block, or the call would fail.
    let (fd, asked, at) = unsafe { ((*block).aio_fildes, (*block).aio_nbytes as u64, (*block).aio_offset) };
    let (file, flags) = match files::of(fd) {
        Some(file) if file.is_of_mpi => (file.id, Flags::of(Layer::Posix).with(Flags::NESTED)),
        Some(file) => (file.id, Flags::of(Layer::Posix)),
        None => (fd as u32, Request::LEFT_OUT),
    };
    requests::begin(
        key(block),
        Request { call, flags, file, start: clock::now(), asked, position: at as u64 },
    );
}

fn ended(ended: Option<Ended>) {
    match ended {
        Some(Ended { request, .. }) if request.flags.layer().is_none() => {
            totals::left_out(request.op(), request.file as i32, request.bytes);
        }
        Some(ended) => ended.push(),
        None => {}
    }
}

fn begin_list(
    [read, write]: [Call; 2],
    mode: c_int,
    blocks: *const *mut aiocb,
    n: c_int,
    call: impl FnOnce() -> c_int,
) -> c_int {
    for i in 0..n.max(0) as usize {
        // SAFETY: an array of `n` pointers, each null or to a control block.
        let block = unsafe { *blocks.add(i) };
        if block.is_null() {
            continue;
        }
        // SAFETY: as above.
        match unsafe { (*block).aio_lio_opcode } {
            libc::LIO_READ => note(read, block),
            libc::LIO_WRITE => note(write, block),
            _ => {}
        }
    }
    let began = clock::now();
    let result = call();
    if mode == libc::LIO_WAIT {
        // All of them are done, and many a program asks no further.
        for i in 0..n.max(0) as usize {
            // SAFETY: as above.
            let block = unsafe { *blocks.add(i) };
            if !block.is_null() && requests::wait_begins(key(block), began) {
                complete(block);
            }
        }
    }
    result
}

/// Ends a request that is done, by what the C library has noted in its control block.
fn complete(block: *const aiocb) {
    // The GNU C library's layout, the same since it has had these functions on 64-bit machines: after the priority, the error number, and
    // after that the result.
    const ERROR_AT: usize = 112;
    const RESULT_AT: usize = 120;
    // SAFETY: a control block of a request that is done, so that nobody else writes to it.
    let (error, moved) = unsafe {
        let at = block.cast::<u8>();
        (
            at.add(ERROR_AT).cast::<c_int>().read_unaligned(),
            at.add(RESULT_AT).cast::<ssize_t>().read_unaligned(),
        )
    };
    if error != 0 || moved < 0 {
        requests::take(key(block));
    } else {
        ended(requests::complete(key(block), Some(moved as u64)));
    }
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
        } else {
            ended(requests::complete(key(block), Some(moved as u64)));
        }
    }
    moved
}
