//! Numbers out of bytes, in either byte order, never past the end.

use std::borrow::Cow;

/// The byte order of a log, that of the machine that wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endian {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl Endian {
    pub(super) fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Endian::Little => u64::from_le_bytes(bytes),
            Endian::Big => u64::from_be_bytes(bytes),
        }
    }

    pub(super) fn i64(self, bytes: [u8; 8]) -> i64 {
        self.u64(bytes) as i64
    }

    pub(super) fn f64(self, bytes: [u8; 8]) -> f64 {
        f64::from_bits(self.u64(bytes))
    }

    pub(super) fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Endian::Little => u32::from_le_bytes(bytes),
            Endian::Big => u32::from_be_bytes(bytes),
        }
    }
}

/// Bytes that are taken from the front. What is not there is `None`, and then nothing was taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
    endian: Endian,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8], endian: Endian) -> Self {
        Self { rest: bytes, endian }
    }

    pub(super) fn endian(&self) -> Endian {
        self.endian
    }

    /// Returns the bytes not yet taken.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(taken)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(self.endian.u64(*bytes))
    }

    pub(super) fn i64(&mut self) -> Option<i64> {
        self.u64().map(|value| value as i64)
    }

    pub(super) fn f64(&mut self) -> Option<f64> {
        self.u64().map(f64::from_bits)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(self.endian.u32(*bytes))
    }

    /// Takes `n` integers of 64 bits.
    pub(super) fn i64s(&mut self, n: usize) -> Option<Vec<i64>> {
        let bytes = self.take(n.checked_mul(8)?)?;
        Some(bytes.as_chunks().0.iter().map(|bytes| self.endian.i64(*bytes)).collect())
    }
}

/// Text up to the first NUL; what is not UTF-8 is shown as such.
pub(super) fn text(bytes: &[u8]) -> String {
    lossy(bytes).into_owned()
}

/// As [`text`], borrowed where it is UTF-8.
pub(super) fn lossy(bytes: &[u8]) -> Cow<'_, str> {
    let end = memchr::memchr(0, bytes).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end])
}
