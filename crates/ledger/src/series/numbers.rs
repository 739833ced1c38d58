//! Whole numbers in few bits.
//!
//! Numbers of a counter grow by about the same, so what is written is how much they grow (or how much that changes), divided by the greatest
//! common divisor of all (a program writes whole buffers), less the smallest of all or with a sign. Of these ways the shortest is taken. The rest is packed in
//! miniblocks of 32, in as many bits as most of them need; the few that need more (a burst) have their upper bits apart.

use iotide_wire::{take_varint, unzigzag, zigzag};

use super::bits::{BitReader, BitWriter};
use super::put_varint;

/// Numbers that are packed at one width.
const MINIBLOCK: usize = 32;

/// How numbers were made small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    /// How often differences were taken: 0, 1 or 2.
    order: u8,
    /// Whether the rest has a sign; else the smallest was taken away.
    is_signed: bool,
    /// Whether differences are exclusive ors.
    is_xor: bool,
}

impl Way {
    const ALL: [Self; 6] = [
        Self { order: 1, is_signed: false, is_xor: false },
        Self { order: 2, is_signed: true, is_xor: false },
        Self { order: 1, is_signed: true, is_xor: false },
        Self { order: 2, is_signed: false, is_xor: false },
        Self { order: 0, is_signed: false, is_xor: false },
        Self { order: 0, is_signed: true, is_xor: false },
    ];
    const XOR: Self = Self { order: 1, is_signed: false, is_xor: true };

    fn code(self) -> u8 {
        self.order | u8::from(self.is_signed) << 2 | u8::from(self.is_xor) << 3
    }

    fn of_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().chain([Self::XOR]).find(|way| way.code() == code)
    }
}

/// Numbers made small.
struct Small {
    way: Way,
    /// The first numbers, as many as differences were taken.
    seeds: Vec<u64>,
    /// Number that was subtracted from each of the rest, as a signed number.
    least: i64,
    /// By what the rest was divided; 0 if all of it is 0.
    divisor: u64,
    rest: Vec<u64>,
}

/// Writes numbers, wrapping around where they are large.
pub(super) fn put_numbers(out: &mut Vec<u8>, numbers: &[u64]) {
    let ways = Way::ALL.into_iter().filter(|way| usize::from(way.order) <= numbers.len());
    let shortest = ways.map(|way| small(numbers, way)).min_by_key(Small::n_bits);
    if let Some(small) = shortest {
        small.put(out);
    }
}

/// Writes numbers of which neighbours have many bits in common.
pub(super) fn put_bits(out: &mut Vec<u8>, numbers: &[u64]) {
    let mut small = small(numbers, Way::XOR);
    if numbers.is_empty() {
        small.seeds.push(0);
    }
    small.put(out);
}

fn small(numbers: &[u64], way: Way) -> Small {
    let mut rest = numbers.to_vec();
    let mut seeds = Vec::new();
    for _ in 0..way.order {
        let Some(&first) = rest.first() else { break };
        seeds.push(first);
        let differ =
            |pair: &[u64]| if way.is_xor { pair[1] ^ pair[0] } else { pair[1].wrapping_sub(pair[0]) };
        rest = rest.windows(2).map(differ).collect();
    }
    if way.is_xor {
        // A power of two: what all have no bits below.
        let all = rest.iter().fold(0, |all, value| all | value);
        let divisor = if all == 0 { 0 } else { 1u64 << all.trailing_zeros() };
        rest.iter_mut().for_each(|value| *value >>= all.trailing_zeros() & 63);
        return Small { way, seeds, least: 0, divisor, rest };
    }
    let least = if way.is_signed { 0 } else { rest.iter().map(|&value| value as i64).min().unwrap_or(0) };
    rest.iter_mut().for_each(|value| *value = value.wrapping_sub(least as u64));
    let size = |value: u64| if way.is_signed { (value as i64).unsigned_abs() } else { value };
    let mut divisor = 0;
    for &value in &rest {
        divisor = greatest_common_divisor(divisor, size(value));
        if divisor == 1 {
            break;
        }
    }
    for value in &mut rest {
        let quotient = size(*value).checked_div(divisor).unwrap_or(0);
        *value = if way.is_signed {
            // At most 2⁶³, which wraps to what it was.
            let signed = quotient as i64;
            zigzag(if (*value as i64) < 0 { signed.wrapping_neg() } else { signed })
        } else {
            quotient
        };
    }
    Small { way, seeds, least, divisor, rest }
}

impl Small {
    /// About how many bits it takes.
    fn n_bits(&self) -> u32 {
        let of_varint = |value: u64| (70 - value.leading_zeros()) / 7 * 8;
        let seeds: u32 = self.seeds.iter().map(|&seed| of_varint(zigzag(seed as i64).min(seed))).sum();
        let heads = seeds + of_varint(zigzag(self.least)) + of_varint(self.divisor);
        if self.divisor == 0 {
            return heads;
        }
        heads + self.rest.chunks(MINIBLOCK).map(|block| Packing::of(block).n_bits).sum::<u32>()
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.push(self.way.code());
        for (index, &seed) in self.seeds.iter().enumerate() {
            // A number, then differences, which may have a sign.
            put_varint(out, if index == 0 { seed } else { zigzag(seed as i64) });
        }
        if !self.way.is_signed && !self.way.is_xor {
            put_varint(out, zigzag(self.least));
        }
        put_varint(out, self.divisor);
        if self.divisor > 0 {
            let mut bits = BitWriter::default();
            self.rest.chunks(MINIBLOCK).for_each(|block| Packing::of(block).put(&mut bits, block));
            out.extend(bits.finish());
        }
    }
}

/// Reads `n` numbers, which take all of `bytes`; `None` if they do not.
pub(super) fn take_numbers(mut bytes: &[u8], n: usize) -> Option<Vec<u64>> {
    let bytes = &mut bytes;
    let (&code, rest) = bytes.split_first()?;
    *bytes = rest;
    let way = Way::of_code(code)?;
    let order = usize::from(way.order);
    let mut seeds = Vec::with_capacity(2);
    for index in 0..order {
        let said = take_varint(bytes)?;
        seeds.push(if index == 0 { said } else { unzigzag(said) as u64 });
    }
    let least = if way.is_signed || way.is_xor { 0 } else { unzigzag(take_varint(bytes)?) };
    let divisor = take_varint(bytes)?;
    let n_rest = n.saturating_sub(order);
    let mut numbers = Vec::with_capacity(n);
    if divisor == 0 {
        if !bytes.is_empty() {
            return None;
        }
        numbers.resize(n_rest, 0);
    } else {
        let mut bits = BitReader::new(bytes);
        while numbers.len() < n_rest {
            take_miniblock(&mut bits, (n_rest - numbers.len()).min(MINIBLOCK), &mut numbers)?;
        }
        if !bits.is_at_end() {
            return None;
        }
    }
    for value in &mut numbers {
        *value = match way.is_signed {
            true => (unzigzag(*value) as u64).wrapping_mul(divisor),
            false => value.wrapping_mul(divisor).wrapping_add(least as u64),
        };
    }
    for &seed in seeds.iter().rev() {
        let mut last = seed;
        for value in &mut numbers {
            last = if way.is_xor { last ^ *value } else { last.wrapping_add(*value) };
            *value = last;
        }
        numbers.insert(0, seed);
    }
    numbers.truncate(n);
    Some(numbers)
}

/// How a miniblock is packed.
#[derive(Clone, Copy, Debug)]
struct Packing {
    /// Bits of each number.
    width: u32,
    /// Numbers that need more.
    n_exceptions: u32,
    /// Upper bits of each of these.
    upper: u32,
    n_bits: u32,
}

impl Packing {
    const HEAD: u32 = 7;
    const COUNT: u32 = 6;
    const PLACE: u32 = 5;

    /// The packing that takes least.
    fn of(block: &[u64]) -> Self {
        let mut of_width = [0u32; 65];
        block.iter().for_each(|value| of_width[(64 - value.leading_zeros()) as usize] += 1);
        let widest = (0..=64u32).rev().find(|&width| of_width[width as usize] > 0).unwrap_or(0);
        let n = block.len() as u32;
        let mut best =
            Self { width: widest, n_exceptions: 0, upper: 0, n_bits: Self::HEAD + Self::COUNT + n * widest };
        let mut n_exceptions = 0;
        for width in (0..widest).rev() {
            n_exceptions += of_width[width as usize + 1];
            let upper = widest - width;
            let n_bits = 2 * Self::HEAD + Self::COUNT + n * width + n_exceptions * (Self::PLACE + upper);
            if n_bits < best.n_bits {
                best = Self { width, n_exceptions, upper, n_bits };
            }
        }
        best
    }

    fn put(self, bits: &mut BitWriter, block: &[u64]) {
        bits.put(self.width.into(), Self::HEAD);
        bits.put(self.n_exceptions.into(), Self::COUNT);
        if self.n_exceptions > 0 {
            bits.put(self.upper.into(), Self::HEAD);
            for (place, value) in block.iter().enumerate() {
                if value >> self.width != 0 {
                    bits.put(place as u64, Self::PLACE);
                    bits.put(value >> self.width, self.upper);
                }
            }
        }
        block.iter().for_each(|value| bits.put(*value, self.width));
    }
}

fn take_miniblock(bits: &mut BitReader<'_>, n: usize, numbers: &mut Vec<u64>) -> Option<()> {
    let width = bits.take(Packing::HEAD)? as u32;
    let n_exceptions = bits.take(Packing::COUNT)?;
    if width > 64 || n_exceptions > n as u64 {
        return None;
    }
    let mut uppers = [0u64; MINIBLOCK];
    if n_exceptions > 0 {
        let upper = bits.take(Packing::HEAD)? as u32;
        if upper == 0 || width + upper > 64 {
            return None;
        }
        for _ in 0..n_exceptions {
            let place = bits.take(Packing::PLACE)? as usize;
            *uppers[..n].get_mut(place)? = bits.take(upper)? << width;
        }
    }
    for upper in &uppers[..n] {
        numbers.push(bits.take(width)? | upper);
    }
    Some(())
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip(numbers: &[u64]) -> usize {
        let mut n_bytes = 0;
        for put in [put_numbers, put_bits] {
            let mut out = Vec::new();
            put(&mut out, numbers);
            assert_eq!(take_numbers(&out, numbers.len()).as_deref(), Some(numbers));
            // What is cut is not believed.
            for end in 0..out.len() {
                assert_ne!(take_numbers(&out[..end], numbers.len()).as_deref(), Some(numbers), "{end}");
            }
            n_bytes = if n_bytes == 0 { out.len() } else { n_bytes };
        }
        n_bytes
    }

    fn any_numbers() -> impl Strategy<Value = Vec<u64>> {
        let extreme =
            prop_oneof![Just(0), Just(u64::MAX), Just(1 << 63), Just(i64::MAX as u64), any::<u64>()];
        let near = (any::<u64>(), prop::collection::vec(0u64..1000, 1..80)).prop_map(|(from, steps)| {
            let grow = |sum: &mut u64, step: u64| {
                *sum = sum.wrapping_add(step * 4096);
                Some(*sum)
            };
            steps.into_iter().scan(from, grow).collect()
        });
        prop_oneof![prop::collection::vec(extreme, 1..80), prop::collection::vec(any::<u64>(), 1..80), near]
    }

    proptest! {
        #[test]
        fn any_numbers_survive_a_round_trip(numbers in any_numbers()) {
            let n_bytes = round_trip(&numbers);
            prop_assert!(n_bytes <= 40 + numbers.len() * 8 + numbers.len().div_ceil(MINIBLOCK) * 2);
        }

        #[test]
        fn any_bytes_come_to_an_end(bytes in prop::collection::vec(any::<u8>(), 0..200), n in 0usize..2000) {
            if let Some(numbers) = take_numbers(&bytes, n) {
                prop_assert_eq!(numbers.len(), n);
            }
        }
    }

    #[test]
    fn a_few_bursts_cost_a_few_bytes() {
        let numbers: Vec<u64> = (0..64u64).map(|tick| 1_000_000 + tick / 30 * (50 << 20)).collect();
        assert!(round_trip(&numbers) <= 16, "{}", round_trip(&numbers));
        let constant = [1 << 40; 1024];
        assert!(round_trip(&constant) <= 10);
        let steady: Vec<u64> = (0..1024u64).map(|tick| tick * 12_345_678).collect();
        assert!(round_trip(&steady) <= 10);
    }
}
