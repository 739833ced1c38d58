//! Connections to others, made without the C library and without waiting for long.

use crate::sys;

/// How long a connection may take to come about.
const CONNECT_WITHIN_MS: i64 = 200;

/// Our descriptors begin here, out of the way of programs that count on low numbers.
const LOWEST: usize = 200;

/// Connects to `unix:/path`, `tcp:a.b.c.d:port` or `tcp:[v6]:port`; the descriptor does not block.
pub fn dial(target: &[u8]) -> Option<i32> {
    let fd = if let Some(path) = target.strip_prefix(b"unix:") {
        unix(path)
    } else if let Some(address) = target.strip_prefix(b"tcp:") {
        tcp(address)
    } else {
        None
    }?;
    let high = sys::dup_above(fd, LOWEST);
    if high < 0 {
        return Some(fd);
    }
    sys::close(fd);
    Some(high as i32)
}

fn unix(path: &[u8]) -> Option<i32> {
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

fn tcp(text: &[u8]) -> Option<i32> {
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
