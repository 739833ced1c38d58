//! The live connection: blocks go to a listener as they fill.
//!
//! Nothing here waits for long. A listener that is not there when the first block is written, that stops reading, or that goes away is
//! left alone from then on, and the file gets what it does not take.

use core::sync::atomic::{AtomicI32, Ordering::Relaxed};

use crate::dial::dial;
use crate::{config, sys};

static FD: AtomicI32 = AtomicI32::new(-1);

/// How long the rest of a block may wait that the listener took only in part.
const REST_WITHIN_MS: i64 = 20;

/// Connects to the listener that `IOTIDE_STREAM` names, if any.
pub fn connect() {
    if let Some(fd) = dial(config::get().stream.get()) {
        FD.store(fd, Relaxed);
    }
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
