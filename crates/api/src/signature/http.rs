//! As much of HTTP as it takes to ask a server a question.
//!
//! Our own, since what is needed is one plain GET: the crates that do more bring TLS, or dozens of others, along. No
//! redirects, no compression, no connections kept.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    host: String,
    port: u16,
    /// Begins with `/` and does not end with it, or is empty.
    path: String,
}

impl Url {
    /// Reads `http://host[:port][/path]`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let rest = match text.split_once("://") {
            Some(("http", rest)) => rest,
            Some(("https", _)) => {
                return Err("HTTPS is not supported; use a tunnel or a local proxy, or save the answer with curl and give the file".to_owned());
            }
            Some((scheme, _)) => return Err(format!("{scheme} is not supported, only http")),
            None => text,
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.contains('@') {
            return Err("names and passwords are not taken in an address".to_owned());
        }
        if path.contains(['?', '#']) || text.contains(|c: char| c.is_control() || c == ' ') {
            return Err("an address is http://host:port, with a path at most behind it".to_owned());
        }
        let (host, port) = match authority.rsplit_once(':') {
            // The colons of an IPv6 address stand in brackets.
            Some((host, port)) if !port.ends_with(']') => {
                (host, port.parse().map_err(|_| format!("{port:?} is not a port"))?)
            }
            _ => (authority, 80),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() {
            return Err("an address is http://host:port".to_owned());
        }
        let path = path.trim_end_matches('/');
        let path = if path.is_empty() { String::new() } else { format!("/{path}") };
        Ok(Self { host: host.to_owned(), port, path })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        write!(f, "http://{host}:{}{}", self.port, self.path)
    }
}

/// What a server said.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

/// How long a server may take to be reached, and to say the next word.
const PATIENCE: Duration = Duration::from_secs(30);

/// A body is no longer than this.
const LONGEST_BODY: u64 = 256 << 20;

const LONGEST_HEAD: u64 = 64 << 10;

/// Asks for `path` under `url` with these parameters.
pub(super) fn get(url: &Url, path: &str, parameters: &[(&str, String)]) -> io::Result<Response> {
    let query: Vec<String> =
        parameters.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
    let host = url.to_string();
    let host = host.trim_start_matches("http://").split('/').next().unwrap_or_default();
    let request = format!(
        "GET {}{path}?{} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: iotide/{}\r\nAccept: application/json\r\n\
         Connection: close\r\n\r\n",
        url.path,
        query.join("&"),
        env!("CARGO_PKG_VERSION")
    );
    let mut stream = connect(url)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(request.as_bytes())?;
    response(stream)
}

fn connect(url: &Url) -> io::Result<TcpStream> {
    let mut refused = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (url.host.as_str(), url.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => return Ok(stream),
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// Letters, digits and `-._~` as they are, everything else as `%2F`.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte as char),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn response(stream: impl Read) -> io::Result<Response> {
    let mut reader = BufReader::new(stream);
    let mut head = (&mut reader).take(LONGEST_HEAD);
    let mut line = String::new();
    let mut next_line = |line: &mut String| {
        line.clear();
        head.read_line(line)?;
        if line.ends_with('\n') { Ok(()) } else { Err(malformed("the head of the answer does not end")) }
    };
    next_line(&mut line)?;
    let mut words = line.split_ascii_whitespace();
    let status = match (words.next(), words.next().map(str::parse)) {
        (Some(version), Some(Ok(status))) if version.starts_with("HTTP/1.") => status,
        _ => return Err(malformed("this is not a server that speaks HTTP/1")),
    };
    let (mut length, mut chunked) = (None, false);
    loop {
        next_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            if line.trim_end().is_empty() {
                break;
            }
            return Err(malformed("a header without a colon"));
        };
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.parse().map_err(|_| malformed("a length that is not a number"))?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            chunked = value.eq_ignore_ascii_case("chunked");
            if !chunked {
                return Err(malformed("an encoding that was not asked for"));
            }
        }
    }
    let mut body = Vec::new();
    match (chunked, length) {
        (true, _) => read_chunks(&mut reader, &mut body)?,
        (false, Some(length)) => read_exactly(&mut reader, length, &mut body)?,
        (false, None) => {
            (&mut reader).take(LONGEST_BODY + 1).read_to_end(&mut body)?;
            if body.len() as u64 > LONGEST_BODY {
                return Err(too_long());
            }
        }
    }
    Ok(Response { status, body })
}

fn read_chunks(reader: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<()> {
    let mut line = String::new();
    loop {
        line.clear();
        reader.take(LONGEST_HEAD).read_line(&mut line)?;
        // Behind a semicolon stand extensions that nobody uses.
        let length = line.split(';').next().unwrap_or_default().trim();
        let length = u64::from_str_radix(length, 16).map_err(|_| malformed("a chunk without a length"))?;
        if length == 0 {
            return Ok(());
        }
        read_exactly(reader, length, body)?;
        line.clear();
        reader.take(2).read_line(&mut line)?;
        if !line.trim_end().is_empty() {
            return Err(malformed("a chunk that is longer than it says"));
        }
    }
}

fn read_exactly(reader: &mut impl Read, length: u64, body: &mut Vec<u8>) -> io::Result<()> {
    if length > LONGEST_BODY || body.len() as u64 + length > LONGEST_BODY {
        return Err(too_long());
    }
    if reader.take(length).read_to_end(body)? as u64 == length {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the answer ends early"))
    }
}

fn malformed(fault: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, fault)
}

fn too_long() -> io::Error {
    io::Error::new(
        io::ErrorKind::FileTooLarge,
        format!("the answer is longer than {} MiB", LONGEST_BODY >> 20),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_taken_apart_and_put_together() {
        for (text, shown) in [
            ("http://localhost:9090", "http://localhost:9090"),
            ("localhost:9090/", "http://localhost:9090"),
            ("http://10.0.0.1/prom/", "http://10.0.0.1:80/prom"),
            ("http://[::1]:9090/a/b", "http://[::1]:9090/a/b"),
            ("http://[::1]", "http://[::1]:80"),
        ] {
            assert_eq!(Url::parse(text).map(|url| url.to_string()).as_deref(), Ok(shown), "{text}");
        }
        for wrong in
            ["https://a", "ftp://a", "http://", "http://a:port", "http://u:p@a", "http://a/?x", "http://a b"]
        {
            assert!(Url::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_body_ends_by_its_length_its_chunks_or_the_connection() {
        for (text, body) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello, and more", "hello"),
            ("HTTP/1.0 404 Not Found\r\n\r\nhello", "hello"),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\n\r\n",
                "hello",
            ),
        ] {
            let response = response(text.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(response.body).unwrap(), body);
        }
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for text in [
            "",
            "SSH-2.0-OpenSSH\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffff\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            "HTTP/1.1 200 OK\r\nno end of the head",
        ] {
            assert!(response(text.as_bytes()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_query_travels_whole() {
        assert_eq!(
            escaped("sum(rate(x{a=\"b\"}[2s])) ü"),
            "sum%28rate%28x%7Ba%3D%22b%22%7D%5B2s%5D%29%29%20%C3%BC"
        );
    }
}
