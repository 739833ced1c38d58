//! Characters that a program moves through a stream without a call.
//!
//! `getc_unlocked` and `putc_unlocked` are macros: compiled with optimisation they take a character from the stream's buffer, or put one
//! there, and call the C library (`__uflow`, `__overflow`) only where the buffer is empty or full. Those two are hooked, so what the system
//! moves is known to the byte. How many characters were moved in between is told by the buffer: what waited there after the last call that
//! we saw, and what waits there now.

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use iotide_wire::{Call as Name, Layer, Op};
use libc::FILE;

use crate::files;
use crate::next::hooks;
use crate::observe::record;
use crate::stdio::{Call, Waiting, descriptor, file_of};
use crate::{buffer, clock};

const GET: Name = Name::of_symbol("getc_unlocked", Op::Read);
const PUT: Name = Name::of_symbol("putc_unlocked", Op::Write);

hooks! {
    fn __uflow(stream: *mut FILE) -> c_int |next| { refilled(GET, stream, || next(stream)) }
    fn __overflow(stream: *mut FILE, c: c_int) -> c_int |next| { refilled(PUT, stream, || next(stream, c)) }
}

/// Whether any stream is used so. Most programs never do, and pay for one look at this.
static IN_USE: AtomicBool = AtomicBool::new(false);

/// Bytes that waited in the stream of each descriptor after the last observed call, if it is used so: [`MARKED`], which way, and how much.
static LEFT: [AtomicU64; 1024] = [const { AtomicU64::new(0) }; 1024];
const MARKED: u64 = 1 << 63;
const WRITING: u64 = 1 << 62;
const AMOUNT: u64 = WRITING - 1;

#[inline(always)]
fn left(stream: *mut FILE) -> Option<&'static AtomicU64> {
    LEFT.get(usize::try_from(descriptor(stream)).ok()?)
}

/// Observes the one character in a buffer that is moved by a call.
fn refilled(name: Name, stream: *mut FILE, call: impl FnOnce() -> c_int) -> c_int {
    let this = Call::begin(name, stream);
    let start = clock::now();
    let c = call();
    if c != libc::EOF {
        if this.is_traced()
            && let Some(left) = left(stream)
        {
            IN_USE.store(true, Relaxed);
            left.store(MARKED, Relaxed); // how much is noted at the end of the call
        }
        this.end(start, Ok(1));
    }
    c
}

/// A call on a stream begins: what was moved without one since the last is recorded.
#[inline(always)]
pub fn settle(stream: *mut FILE) {
    if IN_USE.load(Relaxed) {
        record_moved(stream);
    }
}

/// A call on a stream ends: notes what it left.
#[inline(always)]
pub fn mark(stream: *mut FILE) {
    if IN_USE.load(Relaxed) {
        note_left(stream);
    }
}

/// Nobody uses a stream of this descriptor any more.
pub fn forget(fd: c_int) {
    if let Some(left) = usize::try_from(fd).ok().and_then(|fd| LEFT.get(fd)) {
        left.store(0, Relaxed);
    }
}

fn marked(waiting: Waiting) -> u64 {
    match waiting {
        Waiting { to_write: 0, to_read } => MARKED | to_read.min(AMOUNT),
        Waiting { to_write, .. } => MARKED | WRITING | to_write.min(AMOUNT),
    }
}

#[cold]
fn note_left(stream: *mut FILE) {
    if let Some(left) = left(stream).filter(|left| left.load(Relaxed) & MARKED != 0) {
        left.store(marked(Waiting::in_(stream)), Relaxed);
    }
}

#[cold]
fn record_moved(stream: *mut FILE) {
    let (Some(left), Some(file)) = (left(stream), file_of(stream)) else { return };
    let now = Waiting::in_(stream);
    let before = left.load(Relaxed);
    if before & MARKED == 0 {
        return;
    }
    // A stream that stood between reading and writing tells by what it holds now which of them came.
    let is_writing = before & WRITING != 0 || before & AMOUNT == 0 && now.to_write > 0;
    let amount = before & AMOUNT;
    let (name, bytes) = if is_writing {
        (PUT, now.to_write.saturating_sub(amount))
    } else {
        (GET, amount.saturating_sub(now.to_read))
    };
    if bytes == 0 {
        return;
    }
    left.store(marked(now), Relaxed);
    let place = now.place(files::stands_at(descriptor(stream)));
    let place = if place == iotide_wire::NO_POSITION { place } else { place.saturating_sub(bytes) };
    let at = clock::now();
    let mut moved = record(name, Layer::Stdio, file, at, at, place, Ok(bytes));
    moved.calls = u16::try_from(bytes).unwrap_or(u16::MAX);
    buffer::push(moved);
}
