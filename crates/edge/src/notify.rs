//! What systemd is told: that the daemon is ready, alive, about to stop.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// The socket of whoever started the daemon, if they want to know.
#[derive(Debug)]
pub(crate) struct Notify {
    socket: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
    told: Instant,
}

impl Notify {
    /// As `NOTIFY_SOCKET` and `WATCHDOG_USEC` say.
    pub(crate) fn from_environment() -> Self {
        let socket = std::env::var_os("NOTIFY_SOCKET").and_then(|path| {
            let address = match path.as_bytes() {
                [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
                _ => SocketAddr::from_pathname(&path),
            };
            Some((UnixDatagram::unbound().ok()?, address.ok()?))
        });
        let watchdog = std::env::var("WATCHDOG_USEC").ok().and_then(|text| text.parse().ok());
        Self { socket, watchdog: watchdog.map(|us: u64| Duration::from_micros(us) / 2), told: Instant::now() }
    }

    /// How often a sign of life is wanted.
    pub(crate) fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    pub(crate) fn ready(&mut self) {
        self.tell("READY=1");
    }

    /// Gives a sign of life, if it is time for one.
    pub(crate) fn alive(&mut self) {
        if self.watchdog.is_some_and(|every| self.told.elapsed() >= every) {
            self.tell("WATCHDOG=1");
        }
    }

    /// Says that it will be [`ready`](Self::ready) again. (Were it said to stop, systemd would wait for its end, and then kill it.)
    pub(crate) fn reloading(&mut self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let now_us = now.tv_sec * 1_000_000 + now.tv_nsec / 1000;
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}"));
    }

    pub(crate) fn stopping(&mut self) {
        self.tell("STOPPING=1");
    }

    fn tell(&mut self, what: &str) {
        self.told = Instant::now();
        if let Some((socket, address)) = &self.socket {
            // Who does not listen is not waited for.
            let _ = socket.set_nonblocking(true);
            let _ = socket.send_to_addr(what.as_bytes(), address);
        }
    }
}
