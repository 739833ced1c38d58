//! A connection on which everything together takes a bounded time.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use iotide_live::Address;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// A connection that ends at a time, whatever the other end does.
pub(crate) struct Line {
    socket: Socket,
    until: Instant,
    /// How much is still taken.
    left: u64,
}

enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Line {
    pub(crate) fn connect(address: &Address, within: Duration, most: u64) -> io::Result<Self> {
        let until = Instant::now() + within;
        let socket = match address {
            Address::Unix(path) => Socket::Unix(connect_unix(path)?),
            Address::Tcp(host) | Address::Zmq(host) => {
                let nobody = || io::Error::new(io::ErrorKind::NotFound, "no such host");
                let address = host.to_socket_addrs()?.next().ok_or_else(nobody)?;
                Socket::Tcp(TcpStream::connect_timeout(&address, within)?)
            }
        };
        Ok(Self { socket, until, left: most })
    }

    /// Who is at the other end, if it is on this machine.
    pub(crate) fn peer_user(&self) -> Option<u32> {
        match &self.socket {
            Socket::Unix(stream) => iotide_private::peer_user(stream.as_fd()),
            Socket::Tcp(_) => None,
        }
    }

    /// Sends a line, and returns the line that answers it.
    pub(crate) fn ask_line(&mut self, question: &[u8]) -> io::Result<String> {
        self.write_all(question)?;
        let (mut answer, mut piece) = (Vec::new(), [0; 16 << 10]);
        loop {
            let n = self.read(&mut piece)?;
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let end = piece[..n].iter().position(|&byte| byte == b'\n');
            answer.extend_from_slice(&piece[..end.unwrap_or(n)]);
            if end.is_some() {
                return String::from_utf8(answer).map_err(io::Error::other);
            }
        }
    }

    /// Makes the next call end in time.
    fn hurry(&self) -> io::Result<()> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match &self.socket {
            Socket::Unix(stream) => {
                stream.set_read_timeout(Some(left)).and_then(|()| stream.set_write_timeout(Some(left)))
            }
            Socket::Tcp(stream) => {
                stream.set_read_timeout(Some(left)).and_then(|()| stream.set_write_timeout(Some(left)))
            }
        }
    }
}

/// One whose queue of callers is full because it accepts none is not waited for.
fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

fn in_time(error: io::Error) -> io::Error {
    // What a socket says when its time is over.
    if error.kind() == io::ErrorKind::WouldBlock { io::ErrorKind::TimedOut.into() } else { error }
}

impl Read for Line {
    fn read(&mut self, piece: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::Error::other("the answer is too long"));
        }
        self.hurry()?;
        let most = piece.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = match &mut self.socket {
            Socket::Unix(stream) => stream.read(&mut piece[..most]),
            Socket::Tcp(stream) => stream.read(&mut piece[..most]),
        };
        let n = read.map_err(in_time)?;
        self.left -= n as u64;
        Ok(n)
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.hurry()?;
        let written = match &mut self.socket {
            Socket::Unix(stream) => stream.write(bytes),
            Socket::Tcp(stream) => stream.write(bytes),
        };
        written.map_err(in_time)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
