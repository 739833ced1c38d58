//! XXH3-128 of what was moved.

use std::fmt;

use twox_hash::xxhash3_128::Hasher;

/// The checksum of a file's contents, holes read as zeroes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum(pub u128);

impl Checksum {
    /// Of bytes in memory.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Hasher::oneshot(bytes))
    }

    /// Reads what `Display` writes.
    pub fn parse(text: &str) -> Option<Self> {
        let is_plain = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        u128::from_str_radix(text, 16).ok().filter(|_| is_plain).map(Self)
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A checksum in the making.
pub(crate) struct Summing(Hasher);

impl Summing {
    pub(crate) fn new() -> Self {
        Self(Hasher::new())
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// Adds a hole. The sum of zeroes has no closed form, and a hole can be as long as a file system allows: `go_on` is asked in between.
    pub(crate) fn add_zeroes<E>(&mut self, mut n: u64, go_on: impl Fn() -> Result<(), E>) -> Result<(), E> {
        static ZEROES: [u8; 256 << 10] = [0; 256 << 10];
        while n > 0 {
            go_on()?;
            let now = n.min(ZEROES.len() as u64);
            self.add(&ZEROES[..now as usize]);
            n -= now;
        }
        Ok(())
    }

    pub(crate) fn finish(&self) -> Checksum {
        Checksum(self.0.finish_128())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_in_pieces_is_that_of_the_whole_and_is_read_as_it_is_written() {
        let bytes: Vec<u8> = (0..100_000u32).map(|i| (i.wrapping_mul(i) >> 3) as u8).collect();
        let mut summing = Summing::new();
        for part in bytes.chunks(977) {
            summing.add(part);
        }
        assert_eq!(summing.finish(), Checksum::of(&bytes));
        assert_eq!(Checksum::parse(&summing.finish().to_string()), Some(summing.finish()));
        assert!(Checksum::parse("+0000000000000000000000000000001").is_none());
    }

    #[test]
    fn the_sum_of_nothing_is_the_published_one() {
        // xxhsum -H128 /dev/null
        assert_eq!(Checksum::of(b"").to_string(), "99aa06d3014798d86001c324468d497f");
        let mut zeroes = Summing::new();
        zeroes.add_zeroes(1_000_000, || Ok::<_, ()>(())).unwrap();
        assert_eq!(zeroes.finish(), Checksum::of(&vec![0; 1_000_000]));
        assert_eq!(zeroes.add_zeroes(u64::MAX, || Err("stopped")), Err("stopped"));
    }
}
