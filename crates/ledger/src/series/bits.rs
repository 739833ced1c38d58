//! Numbers of any width in a row of bits.

/// Writes bits, the lowest first.
#[derive(Debug, Default)]
pub(super) struct BitWriter {
    bytes: Vec<u8>,
    /// Bits that do not fill a byte yet.
    held: u64,
    n_held: u32,
}

impl BitWriter {
    /// Writes the lowest `width` bits of a value, at most 64.
    pub(super) fn put(&mut self, value: u64, width: u32) {
        if width > 32 {
            self.put(value & u64::from(u32::MAX), 32);
            return self.put(value >> 32, width - 32);
        }
        let mask = (1u64 << width) - 1;
        // At most 7 bits are held, so 39 are needed.
        self.held |= (value & mask) << self.n_held;
        self.n_held += width;
        while self.n_held >= 8 {
            self.bytes.push(self.held as u8);
            self.held >>= 8;
            self.n_held -= 8;
        }
    }

    /// Fills the last byte with zeros.
    pub(super) fn finish(mut self) -> Vec<u8> {
        if self.n_held > 0 {
            self.bytes.push(self.held as u8);
        }
        self.bytes
    }
}

/// Reads what [`BitWriter`] wrote.
#[derive(Clone, Debug)]
pub(super) struct BitReader<'a> {
    bytes: &'a [u8],
    held: u64,
    n_held: u32,
}

impl<'a> BitReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, held: 0, n_held: 0 }
    }

    /// Reads `width` bits, at most 64; `None` where there are not so many.
    pub(super) fn take(&mut self, width: u32) -> Option<u64> {
        if width > 32 {
            let low = self.take(32)?;
            return Some(low | self.take(width - 32)? << 32);
        }
        while self.n_held < width {
            let (&byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            self.held |= u64::from(byte) << self.n_held;
            self.n_held += 8;
        }
        let value = self.held & ((1u64 << width) - 1);
        self.held >>= width;
        self.n_held -= width;
        Some(value)
    }

    /// Whether nothing but the zeros of the last byte is left.
    pub(super) fn is_at_end(&self) -> bool {
        self.bytes.is_empty() && self.n_held < 8 && self.held == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bits_are_read_as_they_were_written(values in prop::collection::vec((any::<u64>(), 0u32..=64), 0..100)) {
            let cut = |value: u64, width: u32| if width == 64 { value } else { value & ((1 << width) - 1) };
            let mut writer = BitWriter::default();
            values.iter().for_each(|&(value, width)| writer.put(value, width));
            let bytes = writer.finish();
            let mut reader = BitReader::new(&bytes);
            for &(value, width) in &values {
                prop_assert_eq!(reader.take(width), Some(cut(value, width)));
            }
            prop_assert!(reader.is_at_end());
        }
    }
}
