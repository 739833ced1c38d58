//! The live connection: blocks go to a listener as they fill.
//!
//! Nothing here waits for long. A listener that is not there, that stops reading, or that goes away is left alone, and the file gets
//! what it does not take. Now and then it is tried again, ever more rarely while it is not there: one that was started
//! anew finds what it missed in the file, by the blocks' numbers.

use core::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};

use crate::dial::dial;
use crate::{clock, config, sys};

static FD: AtomicI32 = AtomicI32::new(-1);
/// When the listener may be tried again, on the monotonic clock; 0 until it was tried first.
static TRY_AT: AtomicU64 = AtomicU64::new(0);
/// How long to wait until then.
static PAUSE_NS: AtomicU64 = AtomicU64::new(FIRST_PAUSE_NS);

const FIRST_PAUSE_NS: u64 = 500_000_000;
const LONGEST_PAUSE_NS: u64 = 32_000_000_000;

/// How long the rest of a block may wait that the listener took only in part.
const REST_WITHIN_MS: i64 = 20;

/// Connects to the listener that `IOTIDE_STREAM` names, if any.
pub fn connect() {
    let pause_ns = match dial(config::get().stream.get()) {
        Some(fd) => {
            FD.store(fd, Relaxed);
            FIRST_PAUSE_NS
        }
        None => (2 * PAUSE_NS.load(Relaxed)).min(LONGEST_PAUSE_NS),
    };
    PAUSE_NS.store(pause_ns, Relaxed);
    TRY_AT.store(clock::pair().1 + pause_ns, Relaxed);
}

/// Whether a listener is wanted, is not there, and was not tried for a while. Of several threads one is told so.
pub fn is_time_to_try_again() -> bool {
    if FD.load(Relaxed) >= 0 || config::get().stream.get().is_empty() {
        return false;
    }
    let (due, now) = (TRY_AT.load(Relaxed), clock::pair().1);
    due != 0 && now >= due && TRY_AT.compare_exchange(due, now + LONGEST_PAUSE_NS, Relaxed, Relaxed).is_ok()
}

/// Begins the conversation.
pub fn greet(stream_header: &[u8], header: &[u8], payload: &[u8]) {
    if send(stream_header, &[]) {
        send(header, payload);
    }
}

/// Sends a block. Returns whether the listener has it; if not, the connection may be over.
pub fn send(header: &[u8], payload: &[u8]) -> bool {
    let fd = FD.load(Relaxed);
    if fd < 0 {
        return false;
    }
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
            n if n == -(libc::EAGAIN as isize) && sent == 0 => return false, // slow: this block goes to the file
            n if n == -(libc::EAGAIN as isize) => {
                if !sys::wait_writable(fd, REST_WITHIN_MS) {
                    hang_up(fd);
                    return false;
                }
            }
            _ => {
                hang_up(fd);
                return false;
            }
        }
        if sent == total {
            return true;
        }
    }
}

/// In a forked child: the parent's connection is the parent's.
pub fn forget_parent() {
    let fd = FD.swap(-1, Relaxed);
    if fd >= 0 {
        sys::close(fd);
    }
}

/// Whether this is the number of our connection.
pub fn is_our_descriptor(fd: i32) -> bool {
    fd == FD.load(Relaxed)
}

fn hang_up(fd: i32) {
    if FD.compare_exchange(fd, -1, Relaxed, Relaxed).is_ok() {
        sys::close(fd);
    }
}
