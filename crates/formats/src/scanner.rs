//! A window that slides over a stream of bytes.

use std::io::{self, Read};
use std::ops::ControlFlow;

/// Bytes in front of some texts in UTF-8.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Buffers a stream so that lexers see whole tokens, and knows where in the stream it is.
pub(crate) struct Scanner {
    read: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// The unread bytes are `buffer[at..end]`.
    at: usize,
    end: usize,
    /// Where in the stream `buffer[0]` lies.
    base: u64,
    drained: bool,
    /// Empty lines in a row, and where the last one was counted.
    blank: (u32, u64),
}

impl Scanner {
    const CAPACITY: usize = 128 << 10;

    pub(crate) fn new(read: Box<dyn Read + Send>) -> Self {
        Self::at(read, 0)
    }

    /// A scanner over a stream that begins at `offset` of a larger one.
    pub(crate) fn at(read: Box<dyn Read + Send>, offset: u64) -> Self {
        Self {
            read,
            buffer: vec![0; Self::CAPACITY],
            at: 0,
            end: 0,
            base: offset,
            drained: false,
            blank: (0, 0),
        }
    }

    /// Where in the stream the next byte lies.
    pub(crate) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Returns the buffered bytes: perhaps nothing, even before the end.
    #[inline]
    pub(crate) fn buffered(&self) -> &[u8] {
        &self.buffer[self.at..self.end]
    }

    /// At least `n` bytes, or all that are left.
    ///
    /// The buffer grows to hold them (to twice its size, at least), so `n` must be a limit of the caller's, never a number from the stream.
    #[inline]
    pub(crate) fn want(&mut self, n: usize) -> io::Result<&[u8]> {
        if self.end - self.at < n && !self.drained {
            self.refill(n)?;
        }
        Ok(self.buffered())
    }

    /// Returns the buffered bytes, with at least one byte more than before unless nothing is left or it is `limit` bytes already.
    ///
    /// Asks for no more than that: behind a trace that is still being written, waiting for bytes that nobody needs
    /// would hold back a record that is whole.
    pub(crate) fn want_more(&mut self, limit: usize) -> io::Result<&[u8]> {
        let n = self.end - self.at;
        self.want((n + 1).min(limit))
    }

    /// Whether all of the stream is in the buffer, as far as is known.
    pub(crate) fn is_drained(&self) -> bool {
        self.drained
    }

    /// The next byte, or `None` at the end.
    #[inline]
    pub(crate) fn peek(&mut self) -> io::Result<Option<u8>> {
        Ok(self.want(1)?.first().copied())
    }

    /// Moves on by `n` of the buffered bytes.
    #[inline]
    pub(crate) fn advance(&mut self, n: usize) {
        self.at = (self.at + n).min(self.end);
    }

    /// Moves on behind the mark that some programs put in front of a text; nothing where there is none.
    pub(crate) fn skip_byte_order_mark(&mut self) -> io::Result<()> {
        if self.want(BYTE_ORDER_MARK.len())?.starts_with(BYTE_ORDER_MARK) {
            self.advance(BYTE_ORDER_MARK.len());
        }
        Ok(())
    }

    /// The next line without its end, and its whole length; `None` at the end of the stream. Does not move on.
    ///
    /// A line longer than `limit` comes as its first `limit` bytes, with a length of `limit`.
    pub(crate) fn line(&mut self, limit: usize) -> io::Result<Option<(&[u8], usize)>> {
        let mut searched = 0;
        loop {
            let text = self.buffered();
            if let Some(newline) = memchr::memchr(b'\n', &text[searched.min(text.len())..]) {
                let len = searched + newline;
                self.count_blank(len)?;
                return Ok(Some((&self.buffered()[..len], len + 1)));
            }
            searched = text.len();
            if searched >= limit || self.drained {
                let len = searched.min(limit);
                return Ok((len > 0).then(|| (&self.buffer[self.at..self.at + len], len)));
            }
            self.want_more(limit)?;
        }
    }

    /// Hands over every line with its number, from 1 on, until one breaks. Returns what the last one returned, and its number; behind the last line, that is one
    /// more than there are.
    pub(crate) fn lines(
        &mut self,
        limit: usize,
        mut take: impl FnMut(&[u8], u64) -> ControlFlow<()>,
    ) -> io::Result<(ControlFlow<()>, u64)> {
        let mut number = 0;
        loop {
            number += 1;
            let Some((line, len)) = self.line(limit)? else { return Ok((ControlFlow::Continue(()), number)) };
            let flow = take(line, number);
            self.advance(len);
            if flow.is_break() {
                return Ok((flow, number));
            }
        }
    }

    /// Fails where there is nothing but ends of lines for very long: four gigabytes of them pack to four megabytes.
    fn count_blank(&mut self, len: usize) -> io::Result<()> {
        const MOST_BLANK: u32 = 1 << 22;
        if len > 1 {
            self.blank = (0, 0);
            return Ok(());
        }
        let offset = self.offset();
        if self.blank.1 != offset {
            self.blank = (self.blank.0 + 1, offset);
        }
        if self.blank.0 > MOST_BLANK {
            let what = format!("there are more than {MOST_BLANK} empty lines in a row");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(())
    }

    #[cold]
    fn refill(&mut self, n: usize) -> io::Result<()> {
        self.buffer.copy_within(self.at..self.end, 0);
        self.base += self.at as u64;
        self.end -= self.at;
        self.at = 0;
        if self.buffer.len() < n {
            self.buffer.resize(n.max(2 * self.buffer.len()), 0);
        }
        while self.end < n {
            match self.read.read(&mut self.buffer[self.end..]) {
                Ok(0) => {
                    self.drained = true;
                    break;
                }
                Ok(got) => self.end += got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
