//! Decimal numbers, fast where that is exact.

/// Returns the number that `text` is, the whole of it, as `str::parse` would; `nan` and `inf` included.
pub(crate) fn parse_f64(text: &[u8]) -> Option<f64> {
    match prefix_f64(text) {
        Some((value, len)) if len == text.len() => Some(value),
        _ => std::str::from_utf8(text).ok()?.parse().ok(),
    }
}

/// Returns the plain decimal number at the beginning of `text` and its length, or `None` if there is none.
///
/// At most 19 digits and a product or quotient of two exactly known doubles are rounded once, so correctly (Clinger,
/// "How to read floating point numbers accurately", 1990). Everything else goes through `str::parse`, which is always
/// right and slower. Leading zeros are fine, a sign is, a bare `.` is not.
#[inline]
pub(crate) fn prefix_f64(text: &[u8]) -> Option<(f64, usize)> {
    let mut at = 0;
    let negative = match text.first() {
        Some(b'-') => {
            at = 1;
            true
        }
        Some(b'+') => {
            at = 1;
            false
        }
        _ => false,
    };
    let mut mantissa = 0u64;
    let digits_at = at;
    while let Some(digit) = digit_at(text, at) {
        mantissa = mantissa.wrapping_mul(10).wrapping_add(digit);
        at += 1;
    }
    let mut n_digits = at - digits_at;
    let mut exponent = 0i64;
    if text.get(at) == Some(&b'.') {
        let fraction_at = at + 1;
        let mut here = fraction_at;
        while let Some(digit) = digit_at(text, here) {
            mantissa = mantissa.wrapping_mul(10).wrapping_add(digit);
            here += 1;
        }
        n_digits += here - fraction_at;
        exponent = -((here - fraction_at) as i64);
        if n_digits > 0 {
            at = here;
        }
    }
    if n_digits == 0 {
        return None;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        let mut here = at + 1;
        let negative_exponent = text.get(here) == Some(&b'-');
        if let Some(b'-' | b'+') = text.get(here) {
            here += 1;
        }
        let exponent_at = here;
        let mut written = 0i64;
        while let Some(digit) = digit_at(text, here) {
            written = (written * 10 + digit as i64).min(100_000);
            here += 1;
        }
        if here > exponent_at {
            exponent += if negative_exponent { -written } else { written };
            at = here;
        }
    }
    // Past 19 digits the mantissa may have wrapped.
    let exact = n_digits <= 19 && mantissa <= 1 << 53;
    let magnitude = match exponent {
        0 if exact => mantissa as f64,
        1..=22 if exact => mantissa as f64 * POWERS_OF_TEN[exponent as usize],
        -22..=-1 if exact => mantissa as f64 / POWERS_OF_TEN[-exponent as usize],
        _ => return Some((std::str::from_utf8(&text[..at]).ok()?.parse().ok()?, at)),
    };
    Some((if negative { -magnitude } else { magnitude }, at))
}

/// The number that the digits from `at` on are, eight of them at the most, and how many they are.
///
/// Eight bytes at a time, as one number: digits are told by what is left of them without the bits of `0`, and the values
/// of neighbours are put together three times (1, 2, 4 digits).
#[inline]
fn up_to_eight_digits(text: &[u8], at: usize) -> (u64, usize) {
    let Some(bytes) = text.get(at..at + 8).and_then(|bytes| <[u8; 8]>::try_from(bytes).ok()) else {
        let mut value = 0;
        let mut n = 0;
        while n < 8
            && let Some(digit) = digit_at(text, at + n)
        {
            value = value * 10 + digit;
            n += 1;
        }
        return (value, n);
    };
    let values = u64::from_le_bytes(bytes) ^ 0x3030_3030_3030_3030;
    // The highest bit of a byte is set where that is more than nine.
    let others = (values.wrapping_add(0x7676_7676_7676_7676) | values) & 0x8080_8080_8080_8080;
    let n = others.trailing_zeros() as usize / 8;
    if n == 0 {
        return (0, 0);
    }
    // Zeros in front in place of what comes behind.
    let values = values << (8 * (8 - n));
    let pairs = (values.wrapping_mul(10) + (values >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100) + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    let value = (fours.wrapping_mul(10_000).wrapping_add(fours >> 32)) & 0xffff_ffff;
    (value, n)
}

#[inline]
fn digit_at(text: &[u8], at: usize) -> Option<u64> {
    let digit = text.get(at)?.wrapping_sub(b'0');
    (digit < 10).then_some(u64::from(digit))
}

/// All powers of ten that a double holds exactly.
const POWERS_OF_TEN: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];

/// Reads seconds written as plain digits (`-12.345`) as nanoseconds, none lost on the way through a float.
///
/// Further digits are rounded away. `None` for anything else (an exponent, a sign `+`, 146 years or more): that is for
/// [`parse_f64`].
pub(crate) fn parse_nanos(text: &[u8]) -> Option<i64> {
    prefix_nanos(text).filter(|(_, len)| *len == text.len()).map(|(nanos, _)| nanos)
}

/// Reads the seconds at the beginning of `text` as [`parse_nanos`] does, and returns how long they are written.
#[inline]
pub(crate) fn prefix_nanos(text: &[u8]) -> Option<(i64, usize)> {
    let negative = text.first() == Some(&b'-');
    let whole_at = usize::from(negative);
    let (mut whole, n_whole) = up_to_eight_digits(text, whole_at);
    let mut at = whole_at + n_whole;
    if n_whole == 8 {
        while let Some(digit) = digit_at(text, at) {
            whole = whole.wrapping_mul(10).wrapping_add(digit);
            at += 1;
        }
    }
    // Ten digits of seconds are 300 years.
    if at == whole_at || at - whole_at > 10 {
        return None;
    }
    let mut nanos = 0u64;
    if text.get(at) == Some(&b'.') {
        at += 1;
        let (fraction, n_digits) = up_to_eight_digits(text, at);
        nanos = fraction * NANOS_OF_DIGIT[n_digits];
        at += n_digits;
        if n_digits == 8
            && let Some(ninth) = digit_at(text, at)
        {
            nanos += ninth;
            at += 1;
            nanos += u64::from(digit_at(text, at).is_some_and(|digit| digit >= 5));
            while digit_at(text, at).is_some() {
                at += 1;
            }
        }
    }
    let nanos = (whole * 1_000_000_000 + nanos) as i64; // below 10¹⁹ and so within u64; beyond i64 it is negative
    (0..=i64::MAX / 2).contains(&nanos).then_some((if negative { -nanos } else { nanos }, at))
}

/// Value of the last digit behind the point, in nanoseconds, by the number of digits.
const NANOS_OF_DIGIT: [u64; 10] =
    [1_000_000_000, 100_000_000, 10_000_000, 1_000_000, 100_000, 10_000, 1000, 100, 10, 1];

/// Returns the whole number of at most fifteen digits at the beginning of `text` and its length.
#[inline]
pub(crate) fn prefix_whole(text: &[u8]) -> Option<(u64, usize)> {
    let (mut value, mut at) = up_to_eight_digits(text, 0);
    if at == 8 {
        while let Some(digit) = digit_at(text, at) {
            value = value.wrapping_mul(10).wrapping_add(digit);
            at += 1;
        }
    }
    (1..=15).contains(&at).then_some((value, at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_double_reads_as_the_standard_library_reads_it(bits in any::<u64>()) {
            let value = f64::from_bits(bits);
            for text in [format!("{value}"), format!("{value:e}"), format!("{value:.3}")] {
                let expected: f64 = text.parse().unwrap();
                prop_assert_eq!(parse_f64(text.as_bytes()).unwrap().to_bits(), expected.to_bits(), "{}", text);
            }
        }

        #[test]
        fn short_decimals_read_as_the_standard_library_reads_them(text in "-?[0-9]{1,20}(\\.[0-9]{0,12})?([eE][-+]?[0-9]{1,3})?") {
            let expected: f64 = text.parse().unwrap();
            prop_assert_eq!(parse_f64(text.as_bytes()).unwrap().to_bits(), expected.to_bits());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Some((_, len)) = prefix_f64(&bytes) {
                prop_assert!(len <= bytes.len());
            }
        }
    }

    proptest! {
        #[test]
        fn eight_digits_at_a_time_are_the_digits(text in "[0-9]{0,12}[^0-9]{0,9}[0-9]{0,3}", skipped in 0..3usize) {
            let digits: String = text.chars().skip(skipped).take_while(char::is_ascii_digit).take(8).collect();
            let at = text.char_indices().nth(skipped).map_or(text.len(), |(at, _)| at);
            prop_assert_eq!(up_to_eight_digits(text.as_bytes(), at), (digits.parse().unwrap_or(0), digits.len()));
        }
    }

    #[test]
    fn a_number_ends_where_it_ends() {
        assert_eq!(prefix_f64(b"12.5, 3"), Some((12.5, 4)));
        assert_eq!(prefix_f64(b"0500]"), Some((500.0, 4)));
        assert_eq!(prefix_f64(b"1e"), Some((1.0, 1)));
        for text in ["", "-", ".", "nan", "e5", "+-1"] {
            assert_eq!(prefix_f64(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn plain_seconds_keep_every_nanosecond() {
        for (text, nanos) in [
            ("0", 0),
            ("-0.000000001", -1),
            ("4370942.662507799", 4_370_942_662_507_799),
            ("1700000000.123456789", 1_700_000_000_123_456_789),
            ("1.", 1_000_000_000),
            ("1.0000000014999", 1_000_000_001),
            ("1.9999999995", 2_000_000_000),
        ] {
            assert_eq!(parse_nanos(text.as_bytes()), Some(nanos), "{text}");
        }
        for other in ["", "-", ".5", "1e3", "+1", "1.2.3", "nan", "4611686019", "99999999999", "--1", "1 "] {
            assert_eq!(parse_nanos(other.as_bytes()), None, "{other}");
        }
    }
}
