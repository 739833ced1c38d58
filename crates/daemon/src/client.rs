//! Asking a daemon: HTTP on its unix socket.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::places;

/// No answer is longer.
const MOST_BYTES: u64 = 256 << 20;
/// A daemon that says nothing for so long has none.
const TIMEOUT: Duration = Duration::from_secs(30);

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its status: 200 is well.
    pub status: u16,
    /// What it says.
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// Nobody is there.
    #[error("no daemon answers at {}: {cause}", socket.display())]
    Unreached {
        /// Where.
        socket: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// Somebody is there who speaks something else.
    #[error("the answer from {} is not HTTP", socket.display())]
    NotHttp {
        /// Where.
        socket: PathBuf,
    },
}

/// Asks for a path, with its query.
pub fn get(socket: &Path, path: &str) -> Result<Answer, AskError> {
    send(socket, "GET", path, b"")
}

/// Asks by another method, with a body.
pub fn send(socket: &Path, method: &str, path: &str, body: &[u8]) -> Result<Answer, AskError> {
    let failed = |cause| AskError::Unreached { socket: socket.to_owned(), cause };
    let mut stream = iotide_private::connect_within(socket, TIMEOUT).map_err(failed)?;
    // In a place of one's own only oneself and root can answer; anyone else has put that place there.
    let is_own = socket == places::socket();
    if is_own && !iotide_private::is_our_user(iotide_private::peer_user(&stream)) {
        return Err(failed(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "another user's program listens there",
        )));
    }
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{length}Connection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).map_err(failed)?;
    stream.write_all(body).map_err(failed)?;
    let mut answer = Vec::new();
    stream.take(MOST_BYTES).read_to_end(&mut answer).map_err(failed)?;
    parse(&answer).ok_or_else(|| AskError::NotHttp { socket: socket.to_owned() })
}

/// The daemon says how long its answers are, and ends the connection after one.
fn parse(answer: &[u8]) -> Option<Answer> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let length: Option<usize> = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    let body = &answer[end + 4..];
    // Cut short, it is no answer.
    let body = body.get(..length.unwrap_or(body.len()))?;
    Some(Answer { status, body: body.to_vec() })
}

/// Writes a value so that it can stand in a query.
pub fn in_query(value: &str) -> String {
    let mut out = String::new();
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_cut_is_none() {
        let whole = b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(parse(whole), Some(Answer { status: 404, body: b"abc".to_vec() }));
        for end in 0..whole.len() {
            assert_eq!(parse(&whole[..end]), None, "{end}");
        }
        assert_eq!(parse(b"SSH-2.0-OpenSSH\r\n\r\n"), None);
    }

    #[test]
    fn a_value_in_a_query_keeps_to_itself() {
        assert_eq!(in_query("a b&c=\n/é"), "a%20b%26c%3D%0A%2F%C3%A9");
    }
}
