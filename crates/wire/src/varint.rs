//! Numbers in as few bytes as they need: seven bits a byte, the lowest first.

/// Writes a number, byte by byte.
#[inline]
pub fn put_varint(mut value: u64, mut put: impl FnMut(u8)) {
    while value >= 0x80 {
        put(value as u8 | 0x80);
        value >>= 7;
    }
    put(value as u8);
}

/// Reads what [`put_varint`] wrote off the front of `bytes`; `None` if it does not end there, or is no number of 64 bits.
pub fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        // The tenth byte has room for one bit.
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Small numbers of either sign as small numbers without.
#[inline]
pub fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// The reverse of [`zigzag`].
#[inline]
pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn numbers_are_read_as_they_were_written(value in any::<u64>(), shift in 0u32..64) {
            let value = value >> shift;
            let mut bytes = Vec::new();
            put_varint(value, |byte| bytes.push(byte));
            prop_assert!(bytes.len() <= 10);
            prop_assert_eq!(take_varint(&mut bytes.as_slice()), Some(value));
            prop_assert_eq!(take_varint(&mut &bytes[..bytes.len() - 1]), None);
            prop_assert_eq!(unzigzag(zigzag(value as i64)), value as i64);
        }
    }

    #[test]
    fn a_number_that_is_too_long_is_none() {
        assert_eq!(take_varint(&mut [0xff; 11].as_slice()), None);
        let mut most = [0xff; 10];
        most[9] = 1;
        assert_eq!(take_varint(&mut most.as_slice()), Some(u64::MAX));
        most[9] = 2;
        assert_eq!(take_varint(&mut most.as_slice()), None);
    }
}
