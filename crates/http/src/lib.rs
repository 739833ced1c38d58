//! Asking a server over HTTP: one address, one client, for all who ask.
//!
//! [`Url`] says where, [`Request`] says what, [`ask`] and [`ask_on`] bring the [`Answer`]. No redirects, no compression, no connections kept: our own,
//! since crates that do more bring dozens of others along; TLS is rustls.
//!
//! **Invariant:** whatever answers, or drips, costs bounded time and memory ([`AnswerLimits`]).

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

pub use crate::answer::Answer;
pub use crate::url::{Url, UrlError};

mod answer;
mod tls;
mod url;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The method: `GET`, `POST`.
    pub method: &'a str,
    /// The path with its query.
    pub target: &'a str,
    /// Headers, each of which ends a line.
    pub headers: &'a str,
    /// The body; none if it is empty and the method is `GET`.
    pub body: &'a [u8],
}

impl<'a> Request<'a> {
    /// Asks for something.
    pub fn get(target: &'a str) -> Self {
        Self { method: "GET", target, headers: "", body: &[] }
    }

    /// Sends something.
    pub fn post(target: &'a str, headers: &'a str, body: &'a [u8]) -> Self {
        Self { method: "POST", target, headers, body }
    }

    fn head(&self, host: &str) -> String {
        let Self { method, target, headers, body } = self;
        let length = match (*method, body.len()) {
            ("GET", 0) => String::new(),
            (_, n) => format!("Content-Length: {n}\r\n"),
        };
        let version = env!("CARGO_PKG_VERSION");
        format!(
            "{method} {target} HTTP/1.1\r\nHost: {host}\r\n{length}{headers}User-Agent: iotide/{version}\r\nConnection: close\r\n\r\n"
        )
    }
}

/// How much an answer may cost.
#[derive(Clone, Copy, Debug)]
pub struct AnswerLimits {
    /// Longest silence.
    pub silence: Duration,
    /// Longest time for all of it.
    pub whole: Duration,
    /// Longest body; `None` if nobody reads it.
    pub body: Option<u64>,
}

impl AnswerLimits {
    /// All within a time, with a body of so many bytes.
    pub fn within(whole: Duration, body: u64) -> Self {
        Self { silence: whole, whole, body: Some(body) }
    }

    /// The status alone, within a time.
    pub fn status_within(whole: Duration) -> Self {
        Self { silence: whole, whole, body: None }
    }
}

/// Asks a server.
pub fn ask(url: &Url, request: &Request<'_>, limits: AnswerLimits) -> io::Result<Answer> {
    let until = Instant::now() + limits.whole;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    let connected = (url.host(), url.port()).to_socket_addrs()?.find_map(|address| {
        let within = time_left(until).ok()?.min(limits.silence);
        TcpStream::connect_timeout(&address, within).map_err(|error| last = error).ok()
    });
    let stream = Timed { stream: connected.ok_or(last)?, until, silence: limits.silence };
    if url.is_tls() {
        return talk(tls::encrypt(url.host(), stream)?, &url.authority(), request, limits);
    }
    talk(stream, &url.authority(), request, limits)
}

/// Asks who listens on a socket of this machine.
pub fn ask_on(stream: UnixStream, request: &Request<'_>, limits: AnswerLimits) -> io::Result<Answer> {
    let until = Instant::now() + limits.whole;
    talk(Timed { stream, until, silence: limits.silence }, "localhost", request, limits)
}

fn talk(
    mut stream: impl Read + Write,
    host: &str,
    request: &Request<'_>,
    limits: AnswerLimits,
) -> io::Result<Answer> {
    stream.write_all(request.head(host).as_bytes())?;
    stream.write_all(request.body)?;
    stream.flush()?;
    Answer::read(stream, limits.body)
}

/// Writes a value so that it can stand in a query.
pub fn in_query(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// Returns the time that is left; an error once there is none.
pub fn time_left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// A stream on which nothing is waited for longer than it may take: who drips has no more time than who is silent.
#[derive(Debug)]
struct Timed<S> {
    stream: S,
    until: Instant,
    silence: Duration,
}

/// A stream of the system.
trait Wait: Read + Write {
    fn wait_at_most(&self, within: Duration) -> io::Result<()>;
}

impl Wait for TcpStream {
    fn wait_at_most(&self, within: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(within))?;
        self.set_write_timeout(Some(within))
    }
}

impl Wait for UnixStream {
    fn wait_at_most(&self, within: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(within))?;
        self.set_write_timeout(Some(within))
    }
}

impl<S: Wait> Timed<S> {
    fn timed<T>(&mut self, act: impl FnOnce(&mut S) -> io::Result<T>) -> io::Result<T> {
        self.stream.wait_at_most(time_left(self.until)?.min(self.silence))?;
        act(&mut self.stream).map_err(|error| match error.kind() {
            // What the system calls a wait that has come to its end.
            io::ErrorKind::WouldBlock => {
                io::Error::new(io::ErrorKind::TimedOut, "it takes too long to answer")
            }
            _ => error,
        })
    }
}

impl<S: Wait> Read for Timed<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.timed(|stream| stream.read(buffer))
    }
}

impl<S: Wait> Write for Timed<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.timed(|stream| stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.timed(Write::flush)
    }
}

/// A receiver that says nothing for so long has not taken it.
const TAKEN_WITHIN: Duration = Duration::from_secs(10);

/// Sends a body to a path of a server, with headers that each end a line; `Ok(false)` if it will never be taken.
pub fn post(server: &Url, path: &str, headers: &str, body: &[u8]) -> io::Result<bool> {
    let request = Request::post(path, headers, body);
    match ask(server, &request, AnswerLimits::status_within(TAKEN_WITHIN))?.status {
        200..=299 => Ok(true),
        // It is asked to wait, or something is wrong over there.
        429 | 500.. => Err(io::Error::other("the receiver cannot take it now")),
        _ => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    /// Sends a byte now and then to one who connects, for as long as somebody listens.
    fn dripping() -> Url {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            while stream.write_all(b"+").is_ok() {
                thread::sleep(Duration::from_millis(10));
            }
        });
        url
    }

    #[test]
    fn who_drips_has_no_more_time_than_who_is_silent() {
        let limits = AnswerLimits::within(Duration::from_millis(100), 1 << 20);
        let error = ask(&dripping(), &Request::get("/"), limits).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
    }

    #[test]
    fn a_question_is_asked_as_servers_expect_it() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\nok").unwrap();
        let request = Request::post("/a?b=c", "Content-Type: text/plain\r\n", b"body");
        let answer = ask_on(ours, &request, AnswerLimits::within(Duration::from_secs(60), 9)).unwrap();
        assert_eq!(answer, Answer { status: 202, body: b"ok".to_vec() });
        let mut heard = String::new();
        theirs.read_to_string(&mut heard).unwrap();
        assert!(
            heard.starts_with("POST /a?b=c HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n"),
            "{heard}"
        );
        assert!(heard.ends_with("\r\nConnection: close\r\n\r\nbody"), "{heard}");
        assert!(!Request::get("/").head("x").contains("Content-Length"));
    }

    #[test]
    fn a_value_in_a_query_keeps_to_itself() {
        assert_eq!(in_query("a b&c=\n/é"), "a%20b%26c%3D%0A%2F%C3%A9");
    }
}
