//! Counts of a tracer, as entries that stand for themselves: a few to a block, and any block can be lost.

use iotide_trace::{Rank, Timestamp};

use iotide_wire::{unzigzag, zigzag};

use super::{Bytes, FULL_BLOCK, put_text, put_varint};
use crate::census::{Census, RankCensus};

const COUNT: u8 = 1;
const FUNCTION: u8 = 2;
const CATEGORY: u8 = 3;
const RANK: u8 = 4;

/// The payloads of as many blocks as it takes.
pub(super) fn encode(census: &Census) -> Vec<Vec<u8>> {
    let mut blocks = vec![Vec::new()];
    let mut entry = |kind: u8, put: &dyn Fn(&mut Vec<u8>)| {
        if blocks.last().is_none_or(|block| block.len() >= FULL_BLOCK) {
            blocks.push(Vec::new());
        }
        if let Some(block) = blocks.last_mut() {
            block.push(kind);
            put(block);
        }
    };
    for (place, count) in (0..).zip(counts(census)) {
        entry(COUNT, &|out| {
            out.push(place);
            put_varint(out, count);
        });
    }
    for (kind, names) in [(FUNCTION, &census.functions), (CATEGORY, &census.categories)] {
        for (name, count) in names {
            entry(kind, &|out| {
                put_text(out, name);
                put_varint(out, *count);
            });
        }
    }
    for (rank, part) in &census.per_rank {
        entry(RANK, &|out| {
            put_varint(out, zigzag(i64::from(rank.0)));
            put_varint(out, part.records);
            for time in [part.first_start, part.last_start, part.last_end, part.end] {
                out.push(u8::from(time.is_some()));
                if let Some(time) = time {
                    put_varint(out, zigzag(time.as_nanos()));
                }
            }
        });
    }
    blocks
}

/// The numbers in an order that is a promise: new ones go to the end.
fn counts(census: &Census) -> [u64; 8] {
    let Census {
        records,
        aggregated,
        aggregated_calls,
        metadata,
        counters,
        unusable,
        functions: _,
        categories: _,
        per_rank: _,
        posix_bytes_read,
        posix_bytes_written,
    } = census;
    [
        *records,
        *aggregated,
        *aggregated_calls,
        *metadata,
        *counters,
        *unusable,
        *posix_bytes_read,
        *posix_bytes_written,
    ]
}

/// One block's part of a census.
pub(super) fn decode(payload: &[u8]) -> Option<Census> {
    let mut bytes = Bytes(payload);
    let mut census = Census::default();
    while !bytes.0.is_empty() {
        match bytes.byte()? {
            COUNT => {
                let place = bytes.byte()?;
                let count = bytes.varint()?;
                let known = [
                    &mut census.records,
                    &mut census.aggregated,
                    &mut census.aggregated_calls,
                    &mut census.metadata,
                    &mut census.counters,
                    &mut census.unusable,
                    &mut census.posix_bytes_read,
                    &mut census.posix_bytes_written,
                ];
                if let Some(known) = known.into_iter().nth(place.into()) {
                    *known = count;
                }
            }
            kind @ (FUNCTION | CATEGORY) => {
                let name = bytes.text()?;
                let count = bytes.varint()?;
                let names = if kind == FUNCTION { &mut census.functions } else { &mut census.categories };
                names.insert(name, count);
            }
            RANK => {
                let rank = Rank(unzigzag(bytes.varint()?).try_into().ok()?);
                let records = bytes.varint()?;
                let mut time = || {
                    Some(match bytes.byte()? {
                        0 => None,
                        _ => Some(Timestamp::from_nanos_since_start(unzigzag(bytes.varint()?))),
                    })
                };
                let part = RankCensus {
                    records,
                    first_start: time()?,
                    last_start: time()?,
                    last_end: time()?,
                    end: time()?,
                };
                census.per_rank.insert(rank, part);
            }
            _ => return None,
        }
    }
    Some(census)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_census_of_any_size_comes_back() {
        let at = |nanos| Some(Timestamp::from_nanos_since_start(nanos));
        let mut census = Census {
            records: 7,
            aggregated: 6,
            aggregated_calls: 5,
            metadata: 4,
            counters: 3,
            unusable: 2,
            posix_bytes_read: 1,
            posix_bytes_written: u64::MAX,
            ..Census::default()
        };
        for i in 0..20_000_u64 {
            census.functions.insert(format!("function_{i}"), i);
        }
        census.categories.insert("POSIX".into(), 9);
        let part =
            RankCensus { records: 3, first_start: at(-1), last_start: at(5), last_end: None, end: at(9) };
        census.per_rank.insert(Rank(3), part);
        let blocks = encode(&census);
        assert!(blocks.len() > 1);
        let mut back = Census::default();
        for block in blocks {
            back.add(decode(&block).unwrap());
        }
        assert_eq!(back, census);
    }
}
