//! A hash whose value may be written down.

/// The 64-bit hash FNV-1a of Fowler, Noll and Vo.
///
/// It is for what must be the same on every machine and in every version: which part of an archive a log belongs to, whether a file
/// still begins as it did, whether a stored model is damaged. It tells accidents, not forgers.
///
/// ```
/// use iotide_wire::Fnv1a;
///
/// let mut hash = Fnv1a::default();
/// hash.write(b"foo");
/// hash.write(b"bar");
/// assert_eq!(hash, Fnv1a::of(b"foobar"));
/// assert_eq!(hash.value(), 0x8594_4171_f739_67e8);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fnv1a(u64);

impl Default for Fnv1a {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv1a {
    /// Returns the hash of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hash = Self::default();
        hash.write(bytes);
        hash
    }

    /// Goes on with these bytes.
    pub fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// Returns the number so far.
    pub fn value(self) -> u64 {
        self.0
    }
}
