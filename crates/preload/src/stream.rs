//! The live connection: blocks go to a listener as they fill.
//!
//! Nothing here waits for long. A listener that is not there, that stops reading, or that goes away is left alone, and the file gets
//! what it does not take. Now and then it is tried again, ever more rarely while it is not there: one that was started
//! anew finds what it missed in the file, by the blocks' numbers.

use core::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};

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
/// How long a connection may take to come about.
const CONNECT_WITHIN_MS: i64 = 200;

/// Connects to the listener that `IOTIDE_STREAM` names, if any.
pub fn connect() {
    let target = config::get().stream.get();
    let fd = if let Some(path) = target.strip_prefix(b"unix:") {
        connect_unix(path)
    } else if let Some(address) = target.strip_prefix(b"tcp:") {
        connect_tcp(address)
    } else {
        None
    };
    let pause_ns = match fd {
        Some(fd) => {
            let high = sys::dup_above(fd, 200);
            if high >= 0 {
                sys::close(fd);
            }
            FD.store(if high >= 0 { high as i32 } else { fd }, Relaxed);
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

fn connect_unix(path: &[u8]) -> Option<i32> {
    // SAFETY: all zeroes is a valid address.
    let mut address: libc::sockaddr_un = unsafe { core::mem::zeroed() };
    if path.len() >= address.sun_path.len() {
        return None;
    }
    address.sun_family = libc::AF_UNIX as _;
    for (to, &from) in address.sun_path.iter_mut().zip(path) {
        *to = from as _;
    }
    connect_to(libc::AF_UNIX, &address, 2 + path.len() + 1)
}

fn connect_tcp(text: &[u8]) -> Option<i32> {
    // Numbers only: looking a name up would need the C library's resolver, its locks and its memory.
    let text = core::str::from_utf8(text).ok()?;
    match text.parse().ok()? {
        core::net::SocketAddr::V4(v4) => {
            // SAFETY: all zeroes is a valid address.
            let mut address: libc::sockaddr_in = unsafe { core::mem::zeroed() };
            address.sin_family = libc::AF_INET as _;
            address.sin_port = v4.port().to_be();
            address.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
            connect_to(libc::AF_INET, &address, size_of_val(&address))
        }
        core::net::SocketAddr::V6(v6) => {
            // SAFETY: all zeroes is a valid address.
            let mut address: libc::sockaddr_in6 = unsafe { core::mem::zeroed() };
            address.sin6_family = libc::AF_INET6 as _;
            address.sin6_port = v6.port().to_be();
            address.sin6_addr.s6_addr = v6.ip().octets();
            connect_to(libc::AF_INET6, &address, size_of_val(&address))
        }
    }
}

fn connect_to<A>(family: i32, address: &A, len: usize) -> Option<i32> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let fd = sys::socket(family, kind) as i32;
    if fd < 0 {
        return None;
    }
    let connected = match sys::connect(fd, address, len) as i32 {
        0 => true,
        // A connection that failed meanwhile counts as writable too; the first send then tells.
        error if error == -libc::EINPROGRESS => sys::wait_writable(fd, CONNECT_WITHIN_MS),
        _ => false,
    };
    if !connected {
        sys::close(fd);
        return None;
    }
    Some(fd)
}
