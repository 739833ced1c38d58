//! Who is asked, or sent to, over HTTP.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// A receiver that says nothing for so long has not taken it.
const TAKEN_WITHIN: Duration = Duration::from_secs(10);
/// Of what a receiver answers, no more is read.
const MOST_ANSWER: usize = 4096;

/// An address: `http://HOST[:PORT]/PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpAddress {
    host: String,
    port: u16,
    pub(super) path: String,
}

/// Why something is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AddressError(&'static str);

impl std::str::FromStr for HttpAddress {
    type Err = AddressError;

    fn from_str(url: &str) -> Result<Self, AddressError> {
        let fits = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if !fits(url) || url.len() > 1024 {
            return Err(AddressError("it is no address"));
        }
        if url.starts_with("https://") {
            return Err(AddressError("HTTPS is not supported; a proxy on this machine can add it"));
        }
        let rest = url.strip_prefix("http://").ok_or(AddressError("it does not begin with http://"))?;
        let (place, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if place.contains('@') {
            return Err(AddressError("user names and passwords are not supported"));
        }
        // An address of version 6 stands in brackets, for its own colons.
        let (host, port) = match place.rsplit_once(':').filter(|(_, port)| !port.ends_with(']')) {
            Some((host, port)) => (host, port.parse().map_err(|_| AddressError("the port is no number"))?),
            None => (place, 80),
        };
        if host.is_empty() {
            return Err(AddressError("there is no host"));
        }
        let path = if path.is_empty() { "/" } else { path };
        Ok(Self { host: host.to_owned(), port, path: path.to_owned() })
    }
}

impl HttpAddress {
    /// Its host and port, as they are shown and sent.
    pub(crate) fn shown(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// What is asked for there.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Connects; neither that nor anything on the connection is waited for longer than this.
    pub(crate) fn connect(&self, within: Duration) -> io::Result<TcpStream> {
        let host = self.host.trim_start_matches('[').trim_end_matches(']');
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        let connected = (host, self.port).to_socket_addrs()?.find_map(|address| {
            TcpStream::connect_timeout(&address, within).map_err(|error| last = error).ok()
        });
        let stream = connected.ok_or(last)?;
        stream.set_read_timeout(Some(within))?;
        stream.set_write_timeout(Some(within))?;
        Ok(stream)
    }

    /// Sends a body to a path there, with headers that each end a line; `Ok(false)` if it will never be taken.
    pub(crate) fn post(&self, path: &str, headers: &str, body: &[u8]) -> io::Result<bool> {
        self.post_within(TAKEN_WITHIN, path, headers, body)
    }

    fn post_within(&self, within: Duration, path: &str, headers: &str, body: &[u8]) -> io::Result<bool> {
        let until = Instant::now() + within;
        let mut stream = self.connect(within)?;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n{headers}User-Agent: iotide/{}\r\nConnection: close\r\n\r\n",
            self.shown(),
            body.len(),
            env!("CARGO_PKG_VERSION")
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)?;
        let mut answer = Vec::new();
        let read = read_line(&mut stream, &mut answer, until);
        match status_of(&answer) {
            Some(200..=299) => Ok(true),
            // It is asked to wait, or something is wrong over there.
            Some(429 | 500..) => Err(io::Error::other("the receiver cannot take it now")),
            Some(_) => Ok(false),
            None => Err(read.err().unwrap_or_else(|| io::Error::other("the answer is not HTTP"))),
        }
    }
}

/// Reads the first line of an answer. A receiver that sends it byte by byte has no more time than one that is silent.
fn read_line(stream: &mut TcpStream, answer: &mut Vec<u8>, until: Instant) -> io::Result<()> {
    while !answer.contains(&b'\n') && answer.len() < MOST_ANSWER {
        stream.set_read_timeout(Some(time_left(until)?))?;
        let mut piece = [0; 512];
        match stream.read(&mut piece)? {
            0 => break,
            n => answer.extend_from_slice(&piece[..n]),
        }
    }
    Ok(())
}

/// The time that is left; an error once there is none.
pub(super) fn time_left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// The status of an answer.
pub(super) fn status_of(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|&byte| byte == b'\n').next()?;
    let words = std::str::from_utf8(line).ok()?.strip_prefix("HTTP/1.")?;
    words.split(' ').nth(1)?.trim().parse().ok()
}

/// Names for addresses, of which no two are the same.
pub(super) fn names<'a>(addresses: impl IntoIterator<Item = &'a HttpAddress>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for address in addresses {
        let mut name = address.shown();
        while names.contains(&name) {
            name.push('+');
        }
        names.push(name);
    }
    names
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Sends a byte now and then to one who connects, for as long as somebody listens.
    pub(in crate::run) fn dripping() -> std::net::SocketAddr {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            while stream.write_all(b"+").is_ok() {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        address
    }

    #[test]
    fn a_receiver_that_drips_has_not_taken_it() {
        let address: HttpAddress = format!("http://{}/", dripping()).parse().unwrap();
        let error = address.post_within(Duration::from_millis(100), "/", "", b"{}").unwrap_err();
        assert!(matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{error}");
    }

    #[test]
    fn addresses_are_read_and_others_refused_with_a_reason() {
        let target: HttpAddress = "http://prom.example/api/v1/write".parse().unwrap();
        assert_eq!(
            (target.host.as_str(), target.port, target.path.as_str()),
            ("prom.example", 80, "/api/v1/write")
        );
        let target: HttpAddress = "http://[::1]:9090".parse().unwrap();
        assert_eq!((target.shown().as_str(), target.path.as_str()), ("[::1]:9090", "/"));
        assert_eq!(names([&target, &target]), ["[::1]:9090", "[::1]:9090+"]);
        for (url, why) in [
            ("https://x/", "HTTPS is not supported"),
            ("ftp://x/", "does not begin with http://"),
            ("http://x:y/", "the port is no number"),
            ("http:///write", "there is no host"),
            ("http://a:b@x/", "not supported"),
            ("http://x/\r\nHost: y", "it is no address"),
        ] {
            let said = url.parse::<HttpAddress>().unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
        }
    }
}
