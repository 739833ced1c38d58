//! What a source counted of its accesses, as a list of numbers, each behind the one it is known by.

use iotide_trace::{AccessFacts, Layer, Straggler, WayFacts};

use super::{Bytes, LAYERS};

/// The layer, and then (tag, number) for everything that is known. Later versions can add tags.
pub(super) fn encode(facts: &AccessFacts) -> Vec<u8> {
    let layer = LAYERS.iter().position(|known| *known == facts.layer).unwrap_or(0);
    let mut out = vec![layer as u8];
    for (tag, number) in (1..).zip(numbers_of(facts)) {
        if let Some(number) = number {
            out.push(tag);
            out.extend_from_slice(&number.to_le_bytes());
        }
    }
    out
}

pub(super) fn decode(payload: &[u8]) -> Option<AccessFacts> {
    let mut bytes = Bytes(payload);
    let layer = *LAYERS.get(usize::from(bytes.byte()?))?;
    let mut numbers = Vec::new();
    while !bytes.0.is_empty() {
        let place = usize::from(bytes.byte()?.checked_sub(1)?);
        let number = u64::from_le_bytes(bytes.take(8)?.try_into().ok()?);
        if numbers.len() <= place {
            numbers.resize(place + 1, None);
        }
        numbers[place] = Some(number);
    }
    Some(of_numbers(layer, &numbers))
}

/// The facts in an order that is a promise: new ones go to the end. The patterns name every field, so that a new one is
/// not forgotten.
fn numbers_of(facts: &AccessFacts) -> Vec<Option<u64>> {
    let AccessFacts {
        layer: _,
        reads,
        writes,
        misaligned_in_file,
        file_alignment_bytes,
        reread_bytes,
        straggler,
    } = facts;
    let mut numbers = Vec::new();
    for WayFacts { calls, small, sequential, collective, independent } in [*reads, *writes] {
        numbers.extend([Some(calls), small, sequential, collective, independent]);
    }
    numbers.extend([*misaligned_in_file, *file_alignment_bytes, reread_bytes.map(f64::to_bits)]);
    let straggler =
        straggler.map(|Straggler { slowest_rank, slowest_s, fastest_s, slowest_bytes, fastest_bytes }| {
            [
                slowest_rank as u64,
                slowest_s.to_bits(),
                fastest_s.to_bits(),
                slowest_bytes.to_bits(),
                fastest_bytes.to_bits(),
            ]
        });
    match straggler {
        Some(straggler) => numbers.extend(straggler.map(Some)),
        None => numbers.extend([None; 5]),
    }
    numbers
}

pub(super) fn of_numbers(layer: Layer, numbers: &[Option<u64>]) -> AccessFacts {
    let number = |i: usize| numbers.get(i).copied().flatten();
    let float = |i: usize| number(i).map(f64::from_bits);
    let way = |i: usize| WayFacts {
        calls: number(i).unwrap_or(0),
        small: number(i + 1),
        sequential: number(i + 2),
        collective: number(i + 3),
        independent: number(i + 4),
    };
    let straggler = || {
        Some(Straggler {
            slowest_rank: number(13)? as i64,
            slowest_s: float(14)?,
            fastest_s: float(15)?,
            slowest_bytes: float(16)?,
            fastest_bytes: float(17)?,
        })
    };
    AccessFacts {
        layer,
        reads: way(0),
        writes: way(5),
        misaligned_in_file: number(10),
        file_alignment_bytes: number(11),
        reread_bytes: float(12),
        straggler: straggler(),
    }
}
