//! Hooks of Linux' own asynchronous I/O, as `libaio` offers it: a request's bytes are those that its completion tells.
//!
//! And of `syscall`, by which programs reach the kernel without a function of their own for it: its reads and writes are recorded like any
//! other, the requests of asynchronous I/O too; of an `io_uring` it is known only that there is one.

use core::ffi::{c_int, c_long, c_void};

use iotide_wire::{Call, Flags, Layer, Op};

use libc::off_t;

use crate::guard::{errno, set_errno};
use crate::next::hooks;
use crate::observe::{ANYWHERE, data};
use crate::requests::{self, Ended, Key, Request};
use crate::{buffer, clock, files, posix, totals};

/// A request, as the kernel has it.
#[repr(C)]
pub struct ControlBlock {
    data: u64,
    key: u32,
    flags: u32,
    opcode: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    n_bytes: u64,
    offset: i64,
}

/// A completion, as the kernel has it.
#[repr(C)]
pub struct Completion {
    data: u64,
    request: u64,
    result: i64,
    more: i64,
}

const READ: u16 = 0;
const WRITE: u16 = 1;
const READ_PARTS: u16 = 7;
const WRITE_PARTS: u16 = 8;
const SUBMITTED_READ: Call = Call::of_symbol("io_submit", Op::Read);
const SUBMITTED_WRITE: Call = Call::of_symbol("io_submit", Op::Write);

type Requests = *const *const ControlBlock;

hooks! {
    fn io_submit(context: *mut c_void, n: c_long, requests: Requests) -> c_int |next| { submit(n, requests, || next(context, n, requests)) }
    fn io_getevents(context: *mut c_void, least: c_long, n: c_long, done: *mut Completion, timeout: *mut c_void) -> c_int |next| {
        wait(least, done, || next(context, least, n, done, timeout))
    }
    fn io_pgetevents(context: *mut c_void, least: c_long, n: c_long, done: *mut Completion, timeout: *mut c_void, signals: *mut c_void) -> c_int |next| {
        wait(least, done, || next(context, least, n, done, timeout, signals))
    }
    fn io_cancel(context: *mut c_void, request: *const ControlBlock, done: *mut Completion) -> c_int |next| {
        let result = next(context, request, done);
        if result == 0 {
            requests::take(key(request));
        }
        result
    }

    // What liburing exports; it reaches the kernel by instructions of its own.
    fn io_uring_queue_init(n: u32, ring: *mut c_void, flags: u32) -> c_int |next| { ring_is(next(n, ring, flags)) }
    fn io_uring_queue_init_params(n: u32, ring: *mut c_void, settings: *mut c_void) -> c_int |next| { ring_is(next(n, ring, settings)) }
    fn io_uring_queue_init_mem(n: u32, ring: *mut c_void, settings: *mut c_void, memory: *mut c_void, size: usize) -> c_int |next| { ring_is(next(n, ring, settings, memory, size)) }
    fn io_uring_setup(n: u32, settings: *mut c_void) -> c_int |next| { ring_is(next(n, settings)) }

    // All arguments are machine words that pass through as they came, wanted or not.
    fn syscall(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long, f: c_long) -> c_long |next| {
        let call = || next(number, a, b, c, d, e, f);
        match number {
            libc::SYS_read => data(const { Call::of_symbol("read", Op::Read) }, a as c_int, ANYWHERE, || c as usize, || call() as isize) as c_long,
            libc::SYS_write => data(const { Call::of_symbol("write", Op::Write) }, a as c_int, ANYWHERE, || c as usize, || call() as isize) as c_long,
            libc::SYS_pread64 => data(const { Call::of_symbol("pread64", Op::Read) }, a as c_int, d, || c as usize, || call() as isize) as c_long,
            libc::SYS_pwrite64 => data(const { Call::of_symbol("pwrite64", Op::Write) }, a as c_int, d, || c as usize, || call() as isize) as c_long,
            libc::SYS_readv => data(const { Call::of_symbol("readv", Op::Read) }, a as c_int, ANYWHERE, || 0, || call() as isize) as c_long,
            libc::SYS_writev => data(const { Call::of_symbol("writev", Op::Write) }, a as c_int, ANYWHERE, || 0, || call() as isize) as c_long,
            libc::SYS_preadv | libc::SYS_preadv2 => data(const { Call::of_symbol("preadv2", Op::Read) }, a as c_int, d, || 0, || call() as isize) as c_long,
            libc::SYS_pwritev | libc::SYS_pwritev2 => data(const { Call::of_symbol("pwritev2", Op::Write) }, a as c_int, d, || 0, || call() as isize) as c_long,
            libc::SYS_copy_file_range => posix::between(posix::COPIED, [(a as c_int, b as *mut off_t), (c as c_int, d as *mut off_t)], || call() as isize) as c_long,
            libc::SYS_sendfile => posix::between(posix::SENT, [(b as c_int, c as *mut off_t), (a as c_int, core::ptr::null_mut())], || call() as isize) as c_long,
            libc::SYS_close => c_long::from(posix::closing(const { Call::of_symbol("close", Op::Close) }, a as c_int, || call() as c_int)),
            libc::SYS_io_submit => as_syscall(submit(b, c as Requests, || as_function(call()))),
            libc::SYS_io_getevents => as_syscall(wait(b, d as *mut Completion, || as_function(call()))),
            libc::SYS_io_uring_setup => {
                let result = call();
                ring_is(result as c_int);
                result
            }
            _ => call(),
        }
    }
}

/// Converts the result of a system call to that of `libaio`: the error number, negative.
fn as_function(result: c_long) -> c_int {
    if result < 0 { -errno() } else { result as c_int }
}

fn as_syscall(result: c_int) -> c_long {
    if result < 0 {
        set_errno(-result);
        return -1;
    }
    c_long::from(result)
}

fn key(request: *const ControlBlock) -> Key {
    Key::Kernel(request as u64)
}

fn ring_is(result: c_int) -> c_int {
    if result >= 0 {
        totals::ring();
    }
    result
}

/// Takes note of requests before they begin: they may be complete before the call returns.
fn submit(n: c_long, list: Requests, call: impl FnOnce() -> c_int) -> c_int {
    let request = |i: c_long| {
        // SAFETY: an array of `n` pointers to control blocks, as the call asks for.
        let request = unsafe { *list.offset(i as isize) };
        (!request.is_null()).then_some(request)
    };
    if list.is_null() || !crate::lifecycle::is_tracing() {
        return call();
    }
    let start = clock::now();
    for request in (0..n).filter_map(request) {
        // SAFETY: not null, and a control block, or the call would fail.
        let block = unsafe { &*request };
        let (call, asked) = match block.opcode {
            READ => (SUBMITTED_READ, block.n_bytes),
            WRITE => (SUBMITTED_WRITE, block.n_bytes),
            READ_PARTS => (SUBMITTED_READ, 0),
            WRITE_PARTS => (SUBMITTED_WRITE, 0),
            _ => continue,
        };
        if let Some(file) = files::of(block.fd as c_int) {
            let mut flags = Flags::of(Layer::Posix);
            if file.is_of_mpi {
                flags = flags.with(Flags::NESTED);
            }
            // libaio may call `syscall` itself, and then this is the same request again.
            requests::take(key(request));
            let position = block.offset as u64;
            requests::begin(key(request), Request { call, flags, file: file.id, start, asked, position });
        }
    }
    let result = call();
    // Those that were not taken have not begun.
    for request in (c_long::from(result.max(0))..n).filter_map(request) {
        requests::take(key(request));
    }
    result
}

fn wait(least: c_long, done: *mut Completion, call: impl FnOnce() -> c_int) -> c_int {
    let before = clock::now();
    let n = call();
    if n <= 0 || done.is_null() || !requests::are_under_way() {
        return n;
    }
    // SAFETY: the call has written that many completions.
    for completion in unsafe { core::slice::from_raw_parts(done, n as usize) } {
        let key = Key::Kernel(completion.request);
        if least > 0 {
            // Which of them it waited for is not known before.
            requests::wait_begins(key, before);
        }
        if completion.result < 0 {
            requests::take(key);
        } else if let Some(Ended { request, place }) = requests::complete(key, Some(completion.result as u64))
        {
            place.into_iter().for_each(buffer::push);
            buffer::push_beside(request);
        }
    }
    n
}
