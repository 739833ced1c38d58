//! Sizes and order of calls, as numbers that follow those of the access facts.

use iotide_trace::{CallShape, CommonSize, Rank, SIZE_RANGES, SlowestRank, WayShape};

/// The numbers in an order that is a promise: new ones go to the end. The patterns name every field, so that a new one is not forgotten.
pub(super) fn numbers_of(shape: &CallShape) -> Vec<Option<u64>> {
    let CallShape { reads, writes, strided, common_sizes, times_s, slowest } = shape;
    let mut numbers = vec![*strided];
    match slowest {
        Some(SlowestRank { bytes, own_s, rank, shared_s }) => numbers.extend([
            Some(bytes.to_bits()),
            Some(own_s.to_bits()),
            rank.map(|rank| rank.0 as u64),
            Some(shared_s.to_bits()),
        ]),
        None => numbers.extend([None; 4]),
    }
    numbers.extend((0..3).map(|i| times_s.map(|times_s| times_s[i].to_bits())));
    for WayShape { sizes, consecutive } in [reads, writes] {
        numbers.push(*consecutive);
        numbers.extend((0..SIZE_RANGES.len()).map(|i| sizes.map(|sizes| sizes[i])));
    }
    for CommonSize { bytes, calls } in common_sizes.iter().take(CallShape::MOST_SIZES) {
        numbers.extend([Some(*bytes), Some(*calls)]);
    }
    numbers
}

pub(super) fn of_numbers(numbers: &[Option<u64>]) -> CallShape {
    const WAY: usize = 1 + SIZE_RANGES.len();
    const WAYS: usize = 8;
    const SIZES: usize = WAYS + 2 * WAY;
    let number = |i: usize| numbers.get(i).copied().flatten();
    let float = |i: usize| number(i).map(f64::from_bits);
    let way = |at: usize| {
        let sizes: [Option<u64>; SIZE_RANGES.len()] = std::array::from_fn(|i| number(at + 1 + i));
        let sizes = sizes.iter().any(Option::is_some).then(|| sizes.map(Option::unwrap_or_default));
        WayShape { consecutive: number(at), sizes }
    };
    let slowest = || {
        let rank = number(3).map(|rank| Rank(rank as u32 as i32));
        Some(SlowestRank { bytes: float(1)?, own_s: float(2)?, rank, shared_s: float(4)? })
    };
    let size =
        |i: usize| Some(CommonSize { bytes: number(SIZES + 2 * i)?, calls: number(SIZES + 2 * i + 1)? });
    CallShape {
        reads: way(WAYS),
        writes: way(WAYS + WAY),
        strided: number(0),
        common_sizes: (0..CallShape::MOST_SIZES).map_while(size).collect(),
        times_s: (float(5).zip(float(6)).zip(float(7)))
            .map(|((read, write), metadata)| [read, write, metadata]),
        slowest: slowest(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_comes_back() {
        let way =
            |n: u64| WayShape { sizes: Some(std::array::from_fn(|i| i as u64 * n)), consecutive: Some(n) };
        let shape = CallShape {
            reads: way(3),
            writes: WayShape { consecutive: None, ..way(5) },
            strided: Some(7),
            common_sizes: (1..=10).map(|i| CommonSize { bytes: i, calls: 100 - i }).collect(),
            times_s: Some([1.0, 2.0, 0.25]),
            slowest: Some(SlowestRank { bytes: 1e9, own_s: 2.5, rank: Some(Rank(-1)), shared_s: 0.5 }),
        };
        assert_eq!(of_numbers(&numbers_of(&shape)), shape);
        assert_eq!(of_numbers(&numbers_of(&CallShape::default())), CallShape::default());
        assert_eq!(of_numbers(&[]), CallShape::default());
    }
}
