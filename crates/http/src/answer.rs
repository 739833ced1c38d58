//! An answer, read from a stream that may say anything.

use std::io::{self, BufRead, BufReader, Read};

const LONGEST_HEAD: u64 = 64 << 10;

/// Response of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Its status: 200 is well.
    pub status: u16,
    /// Body of the response; empty if nobody wanted to read it.
    pub body: Vec<u8>,
}

impl Answer {
    /// Reads an answer with a body of at most so many bytes; `None` leaves the body where it is.
    pub fn read(stream: impl Read, most_body: Option<u64>) -> io::Result<Self> {
        let mut reader = BufReader::new(stream);
        let mut head = (&mut reader).take(LONGEST_HEAD);
        let mut line = Vec::new();
        let status = read_status(&mut head, &mut line)?;
        let Some(most_body) = most_body else { return Ok(Self { status, body: Vec::new() }) };
        let (mut length, mut is_chunked) = (None, false);
        while let Some((name, value)) = read_header(&mut head, &mut line)? {
            if name.eq_ignore_ascii_case("content-length") {
                length = Some(value.parse().map_err(|_| malformed("a length that is not a number"))?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                is_chunked = value.eq_ignore_ascii_case("chunked");
                if !is_chunked {
                    return Err(malformed("an encoding that was not asked for"));
                }
            }
        }
        let mut body = Body { bytes: Vec::new(), most: most_body };
        match (is_chunked, length) {
            (true, _) => body.read_chunks(&mut reader)?,
            (false, Some(length)) => body.read_exactly(&mut reader, length)?,
            (false, None) => body.read_to_end(&mut reader)?,
        }
        Ok(Self { status, body: body.bytes })
    }
}

fn read_status(head: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<u16> {
    let line = read_line(head, line)?;
    let mut words = line.split_ascii_whitespace();
    match (words.next(), words.next().map(str::parse)) {
        (Some(version), Some(Ok(status))) if version.starts_with("HTTP/1.") => Ok(status),
        _ => Err(malformed("the answer is not HTTP")),
    }
}

/// A name and its value; `None` behind the last.
fn read_header<'a>(head: &mut impl BufRead, line: &'a mut Vec<u8>) -> io::Result<Option<(&'a str, &'a str)>> {
    let line = read_line(head, line)?;
    if line.is_empty() {
        return Ok(None);
    }
    let (name, value) = line.split_once(':').ok_or_else(|| malformed("a header without a colon"))?;
    Ok(Some((name, value.trim())))
}

fn read_line<'a>(head: &mut impl BufRead, line: &'a mut Vec<u8>) -> io::Result<&'a str> {
    line.clear();
    head.read_until(b'\n', line)?;
    if line.last() != Some(&b'\n') {
        return Err(malformed("the head of the answer does not end"));
    }
    std::str::from_utf8(line).map(str::trim_end).map_err(|_| malformed("the answer is not HTTP"))
}

struct Body {
    bytes: Vec<u8>,
    most: u64,
}

impl Body {
    fn read_chunks(&mut self, reader: &mut impl BufRead) -> io::Result<()> {
        let mut line = Vec::new();
        loop {
            let head = read_line(&mut reader.take(LONGEST_HEAD), &mut line)?;
            // Behind a semicolon stand extensions that nobody uses.
            let length = head.split(';').next().unwrap_or_default().trim();
            let length =
                u64::from_str_radix(length, 16).map_err(|_| malformed("a chunk without a length"))?;
            if length == 0 {
                return Ok(());
            }
            self.read_exactly(reader, length)?;
            if !read_line(&mut reader.take(2), &mut line)?.is_empty() {
                return Err(malformed("a chunk that is longer than it says"));
            }
        }
    }

    fn read_exactly(&mut self, reader: &mut impl Read, length: u64) -> io::Result<()> {
        if length > self.most - self.bytes.len() as u64 {
            return Err(self.too_long());
        }
        if reader.take(length).read_to_end(&mut self.bytes)? as u64 == length {
            Ok(())
        } else {
            Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the answer ends early"))
        }
    }

    fn read_to_end(&mut self, reader: &mut impl Read) -> io::Result<()> {
        reader.take(self.most.saturating_add(1)).read_to_end(&mut self.bytes)?;
        if self.bytes.len() as u64 > self.most { Err(self.too_long()) } else { Ok(()) }
    }

    fn too_long(&self) -> io::Error {
        let most = self.most as f64 / f64::from(1 << 20);
        io::Error::new(io::ErrorKind::FileTooLarge, format!("the answer is longer than {most} MiB"))
    }
}

fn malformed(fault: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(bytes: &[u8]) -> io::Result<Answer> {
        Answer::read(bytes, Some(1 << 20))
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
    fn an_answer_that_is_cut_is_none() {
        let whole = b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nabc";
        assert_eq!(response(whole).unwrap(), Answer { status: 404, body: b"abc".to_vec() });
        for end in 0..whole.len() {
            assert!(response(&whole[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn of_a_body_that_nobody_reads_nothing_is_believed() {
        let answer = Answer::read(&b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n"[..], None);
        assert_eq!(answer.unwrap().status, 200);
        assert!(Answer::read(&b"HTTP/1.0 200 OK\r\n\r\nfour"[..], Some(3)).is_err());
    }
}
