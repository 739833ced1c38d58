//! Protocol of Redis, as far as it is needed: commands of texts, and answers of one line.

/// Writes a command.
pub fn put_resp_command(out: &mut impl Extend<u8>, parts: &[&[u8]]) {
    put_head(out, b'*', parts.len());
    for part in parts {
        put_head(out, b'$', part.len());
        out.extend(part.iter().copied());
        out.extend(*b"\r\n");
    }
}

fn put_head(out: &mut impl Extend<u8>, sign: u8, n: usize) {
    let (mut digits, mut rest, mut at) = ([0; 20], n, 20);
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend([sign]);
    out.extend(digits[at..].iter().copied());
    out.extend(*b"\r\n");
}

/// An answer of one line, without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RespLine<'a> {
    /// It is done.
    Done(&'a [u8]),
    /// It is refused.
    Refused(&'a [u8]),
}

impl<'a> RespLine<'a> {
    /// The longest line that is read.
    pub const MAX_BYTES: usize = 4096;

    /// From the begin of what was read, with how many bytes it took. `Ok(None)`: there is not a whole line yet. `Err(())`: it is something else.
    #[allow(clippy::result_unit_err)]
    pub fn decode(bytes: &'a [u8]) -> Result<Option<(Self, usize)>, ()> {
        let Some(end) = bytes.windows(2).take(Self::MAX_BYTES).position(|two| two == b"\r\n") else {
            return if bytes.len() > Self::MAX_BYTES { Err(()) } else { Ok(None) };
        };
        let line = match bytes.split_first() {
            Some((b'+' | b':', _)) => Self::Done(&bytes[1..end]),
            Some((b'-', _)) => Self::Refused(&bytes[1..end]),
            _ => return Err(()),
        };
        Ok(Some((line, end + 2)))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn commands_and_answers_are_those_of_redis() {
        let mut out = Vec::new();
        put_resp_command(&mut out, &[b"HSET", b"key", b"", b"a\r\nb twelve bytes"]);
        assert_eq!(out, b"*4\r\n$4\r\nHSET\r\n$3\r\nkey\r\n$0\r\n\r\n$17\r\na\r\nb twelve bytes\r\n");
        assert_eq!(RespLine::decode(b"+OK\r\n:1\r\n"), Ok(Some((RespLine::Done(b"OK"), 5))));
        assert_eq!(RespLine::decode(b"-ERR x\r\n"), Ok(Some((RespLine::Refused(b"ERR x"), 8))));
        assert_eq!(RespLine::decode(b"+O"), Ok(None));
        assert_eq!(
            RespLine::decode(b"$5\r\nhello\r\n"),
            Err(()),
            "nothing that is asked for has such an answer"
        );
        assert_eq!(RespLine::decode(b"\r\n"), Err(()));
        assert_eq!(RespLine::decode(&[b'+'; 5000]), Err(()));
    }
}
