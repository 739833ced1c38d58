//! Connections to others, made without the C library and without waiting for long.

use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::sys;

/// How long a connection may take to come about.
const CONNECT_WITHIN_MS: i64 = 200;

/// A connection that several threads use, and that may end under them.
///
/// The number of its descriptor, once taken, stays taken: the connection is shut down where others would close it, and the next one gets the
/// same number. A thread that has just read the number can then never send into a socket that the program got under that number since.
pub struct Connection {
    fd: AtomicI32,
    /// Which socket that is: a program that closes all descriptors it does not know closes ours, too.
    inode: AtomicU64,
    is_up: AtomicBool,
    /// Error of the last failed attempt to connect.
    error: AtomicI32,
}

impl Connection {
    pub const fn new() -> Self {
        Self {
            fd: AtomicI32::new(-1),
            inode: AtomicU64::new(0),
            is_up: AtomicBool::new(false),
            error: AtomicI32::new(0),
        }
    }

    /// Connects to `unix:/path`, `tcp:a.b.c.d:port` or `tcp:[v6]:port`, and lets others use the connection once `greet` has said what comes
    /// first. Returns the descriptor, which does not block. One thread at a time.
    pub fn dial(&self, target: &[u8], greet: impl FnOnce(i32) -> bool) -> Option<i32> {
        let fresh = dial(target).map_err(|error| self.error.store(error, Relaxed)).ok()?;
        let taken = self.fd.load(Relaxed);
        let fd = if self.owns(taken) && sys::dup_over(fresh, taken) >= 0 {
            sys::close(fresh);
            taken
        } else {
            fresh
        };
        self.inode.store(sys::stat(fd).map_or(0, |stat| stat.st_ino), Relaxed);
        self.fd.store(fd, Relaxed);
        if !greet(fd) {
            sys::shut_down(fd);
            return None;
        }
        self.is_up.store(true, Release);
        Some(fd)
    }

    /// Why [`Connection::dial`] gave nothing, the last time.
    pub fn last_error(&self) -> i32 {
        self.error.load(Relaxed)
    }

    /// Whether there is someone at the other end, as far as is known.
    pub fn is_up(&self) -> bool {
        self.is_up.load(Relaxed)
    }

    /// The descriptor, while the connection stands.
    pub fn fd(&self) -> Option<i32> {
        let fd = self.fd.load(Relaxed);
        (self.is_up.load(Acquire) && self.owns(fd)).then_some(fd)
    }

    /// Ends the connection.
    pub fn hang_up(&self) {
        let fd = self.fd.load(Relaxed);
        if self.is_up.swap(false, Relaxed) && self.owns(fd) {
            sys::shut_down(fd);
        }
    }

    /// In a forked child: the connection is the parent's.
    pub fn forget(&self) {
        let fd = self.fd.load(Relaxed);
        if self.owns(fd) {
            sys::close(fd);
        }
        self.fd.store(-1, Relaxed);
        self.is_up.store(false, Relaxed);
    }

    /// Whether this is the number of our descriptor.
    pub fn owns(&self, fd: i32) -> bool {
        fd >= 0
            && fd == self.fd.load(Relaxed)
            && sys::stat(fd).is_some_and(|stat| stat.st_ino == self.inode.load(Relaxed))
    }
}

/// Returns the descriptor, or the number of the error.
fn dial(target: &[u8]) -> Result<i32, i32> {
    let fd = if let Some(path) = target.strip_prefix(b"unix:") {
        unix(path)
    } else if let Some(address) = target.strip_prefix(b"tcp:") {
        tcp(address)
    } else {
        Err(libc::EINVAL)
    }?;
    Ok(sys::move_away(fd))
}

fn unix(path: &[u8]) -> Result<i32, i32> {
    // SAFETY: all zeroes is a valid address.
    let mut address: libc::sockaddr_un = unsafe { core::mem::zeroed() };
    if path.len() >= address.sun_path.len() {
        return Err(libc::ENAMETOOLONG);
    }
    address.sun_family = libc::AF_UNIX as _;
    for (to, &from) in address.sun_path.iter_mut().zip(path) {
        *to = from as _;
    }
    connect_to(libc::AF_UNIX, &address, 2 + path.len() + 1)
}

fn tcp(text: &[u8]) -> Result<i32, i32> {
    // Numbers only: looking a name up would need the C library's resolver, its locks and its memory.
    let text = core::str::from_utf8(text).unwrap_or_default();
    match text.parse().map_err(|_| libc::EINVAL)? {
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

fn connect_to<A>(family: i32, address: &A, len: usize) -> Result<i32, i32> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    let fd = sys::socket(family, kind) as i32;
    if fd < 0 {
        return Err(-fd);
    }
    let error = match sys::connect(fd, address, len) as i32 {
        // A connection that failed meanwhile counts as writable too; the first send then tells.
        error if error == -libc::EINPROGRESS => {
            if sys::wait_writable(fd, CONNECT_WITHIN_MS) {
                0
            } else {
                -libc::ETIMEDOUT
            }
        }
        result => result,
    };
    if error != 0 {
        sys::close(fd);
        return Err(-error);
    }
    Ok(fd)
}
