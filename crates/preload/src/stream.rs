//! The live connection: blocks go to a listener as they fill.
//!
//! Nothing here waits for long. A listener that is not there, that stops reading, or that goes away is left alone, and the file gets
//! what it does not take. Now and then it is tried again, ever more rarely while it is not there: one that was started
//! anew finds what it missed in the file, by the blocks' numbers.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use iotide_wire::StreamHeader;

use crate::connection::Connection;
use crate::lock::Lock;
use crate::{clock, config, sys};

static LISTENER: Connection = Connection::new();
/// A block goes as a whole: what one thread sends must not stand in the middle of what another one does.
static SENDING: Lock = Lock::new();
/// When the listener may be tried again, on the monotonic clock; 0 until it was tried first.
static TRY_AT: AtomicU64 = AtomicU64::new(0);
/// How long to wait until then.
static PAUSE_NS: AtomicU64 = AtomicU64::new(FIRST_PAUSE_NS);

const FIRST_PAUSE_NS: u64 = 500_000_000;
const LONGEST_PAUSE_NS: u64 = 32_000_000_000;

/// How long the rest of a block may wait that the listener took only in part.
const REST_WITHIN_MS: i64 = 20;

/// Connects to the listener that `IOTIDE_STREAM` names, if any, and begins with what this is and whose: a block of facts, whose header is
/// made when there is someone to have it.
pub fn connect<const N: usize>(header: impl FnOnce() -> [u8; N], facts: &[u8]) {
    let target = config::get().stream.get();
    if target.is_empty() || !is_our_turn() {
        return;
    }
    let greet = |fd| {
        let stream_header = StreamHeader { version: StreamHeader::VERSION }.to_bytes();
        send_all(fd, &stream_header, &[]) == Ok(true) && send_all(fd, &header(), facts) == Ok(true)
    };
    let pause_ns = match LISTENER.dial(target, greet) {
        Some(_) => FIRST_PAUSE_NS,
        None => (2 * PAUSE_NS.load(Relaxed)).min(LONGEST_PAUSE_NS),
    };
    SENDING.unlock();
    PAUSE_NS.store(pause_ns, Relaxed);
    TRY_AT.store(clock::pair().1 + pause_ns, Relaxed);
}

/// Whether a listener is wanted, is not there, and was not tried for a while. Of several threads one gets this answer.
pub fn is_time_to_try_again() -> bool {
    if LISTENER.is_up() || config::get().stream.get().is_empty() {
        return false;
    }
    let (due, now) = (TRY_AT.load(Relaxed), clock::pair().1);
    due != 0 && now >= due && TRY_AT.compare_exchange(due, now + LONGEST_PAUSE_NS, Relaxed, Relaxed).is_ok()
}

/// Sends a block. Returns whether the listener has it; if not, the connection may be over.
pub fn send(header: &[u8], payload: &[u8]) -> bool {
    if !LISTENER.is_up() || !is_our_turn() {
        return false;
    }
    let sent = LISTENER.fd().map_or(Err(Broken), |fd| send_all(fd, header, payload));
    if sent.is_err() {
        LISTENER.hang_up();
    }
    SENDING.unlock();
    sent == Ok(true)
}

/// Waits for the lock on the connection, not longer than a sender may keep it.
fn is_our_turn() -> bool {
    SENDING.lock_until(clock::monotonic_nanos() + REST_WITHIN_MS as u64 * 1_000_000)
}

/// The connection is of no more use.
#[derive(PartialEq, Eq)]
struct Broken;

/// Returns whether the listener took a block: all of it or, if it is slow, nothing.
fn send_all(fd: i32, header: &[u8], payload: &[u8]) -> Result<bool, Broken> {
    let total = header.len() + payload.len();
    let mut sent = 0;
    loop {
        let rest = |bytes: &[u8], from: usize| {
            let rest = &bytes[from.min(bytes.len())..];
            libc::iovec { iov_base: rest.as_ptr() as *mut _, iov_len: rest.len() }
        };
        let mut parts = [rest(header, sent), rest(payload, sent.saturating_sub(header.len()))];
        let n = sys::send_nonblocking(fd, &mut parts);
        match n {
            n if n >= 0 => sent += n as usize,
            n if n == -(libc::EAGAIN as isize) && sent == 0 => return Ok(false), // slow: this block goes to the file
            n if n == -(libc::EAGAIN as isize) => {
                if !sys::wait_writable(fd, REST_WITHIN_MS) {
                    return Err(Broken);
                }
            }
            _ => return Err(Broken),
        }
        if sent == total {
            return Ok(true);
        }
    }
}

/// In a forked child: the parent's connection is the parent's.
pub fn forget_parent() {
    LISTENER.forget();
    SENDING.reset();
}

/// Whether this is the number of our connection.
pub fn is_our_descriptor(fd: i32) -> bool {
    LISTENER.owns(fd)
}
