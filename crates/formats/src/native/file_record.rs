//! A file's record as numbers: which of them are known, then those.

use iotide_trace::{FileId, FileRecord, Rank, RankShare, SmallCalls, WayRecord};
use iotide_wire::{unzigzag, zigzag};

use super::{Bytes, LAYERS, put_varint};

pub(super) fn encode(out: &mut Vec<u8>, record: &FileRecord) {
    let layer = LAYERS.iter().position(|known| *known == record.layer).unwrap_or(0);
    out.push(layer as u8);
    put_varint(out, u64::from(record.file.0));
    put_varint(out, zigzag(i64::from(record.rank.0)));
    let numbers = numbers_of(record);
    let known = (0..).zip(&numbers).filter(|(_, number)| number.is_some());
    put_varint(out, known.map(|(at, _)| 1u64 << at).sum());
    numbers.iter().flatten().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

pub(super) fn decode(bytes: &mut Bytes<'_>) -> Option<FileRecord> {
    let layer = *LAYERS.get(usize::from(bytes.byte()?))?;
    let file = FileId(bytes.varint()?.try_into().ok()?);
    let rank = Rank(unzigzag(bytes.varint()?).try_into().ok()?);
    let known = bytes.varint()?;
    let mut numbers = [None; u64::BITS as usize];
    for (at, number) in numbers.iter_mut().enumerate() {
        if known >> at & 1 == 1 {
            *number = Some(u64::from_le_bytes(bytes.take(8)?.try_into().ok()?));
        }
    }
    Some(of_numbers(FileRecord::new(file, rank, layer), &numbers))
}

/// The numbers in an order that is a promise: new ones go to the end, 64 at most.
fn numbers_of(record: &FileRecord) -> Vec<Option<u64>> {
    let FileRecord { n_ranks, n_files, opens, stats, syncs, maps, metadata_s, .. } = *record;
    let float = |number: f64| Some(number.to_bits());
    let mut numbers = vec![Some(n_ranks.into()), Some(n_files.into()), Some(opens), Some(stats), Some(syncs)];
    numbers.extend([Some(maps), float(metadata_s), record.sync_s.and_then(float)]);
    numbers.extend([record.alignment, record.misaligned]);
    for share in [record.slowest, record.fastest] {
        numbers.extend([
            share.map(|share| zigzag(i64::from(share.rank.0))),
            share.and_then(|share| float(share.bytes)),
            share.and_then(|share| float(share.seconds)),
        ]);
    }
    for way in [record.reads, record.writes] {
        let WayRecord { calls, bytes, seconds, small, random, up_to, collective, nonblocking, calls_s } = way;
        numbers.extend([Some(calls), bytes.and_then(float), float(seconds)]);
        numbers.extend([small.map(|small| small.calls), small.and_then(|small| float(small.bytes))]);
        numbers.extend([small.and_then(|small| small.seconds).and_then(float), random]);
        numbers.extend([up_to.and_then(float), collective, nonblocking, calls_s.and_then(float)]);
    }
    numbers
}

fn of_numbers(empty: FileRecord, numbers: &[Option<u64>]) -> FileRecord {
    let number = |at: usize| numbers.get(at).copied().flatten();
    let float = |at: usize| number(at).map(f64::from_bits).filter(|value| value.is_finite());
    let small = |at: usize| u32::try_from(number(at).unwrap_or(1)).unwrap_or(u32::MAX);
    let share = |at: usize| {
        let rank = Rank(unzigzag(number(at)?).try_into().ok()?);
        Some(RankShare { rank, bytes: float(at + 1)?, seconds: float(at + 2)? })
    };
    let way = |at: usize| WayRecord {
        calls: number(at).unwrap_or(0),
        bytes: float(at + 1),
        seconds: float(at + 2).unwrap_or(0.0),
        small: number(at + 3).map(|calls| SmallCalls {
            calls,
            bytes: float(at + 4).unwrap_or(0.0),
            seconds: float(at + 5),
        }),
        random: number(at + 6),
        up_to: float(at + 7),
        collective: number(at + 8),
        nonblocking: number(at + 9),
        calls_s: float(at + 10),
    };
    FileRecord {
        n_ranks: small(0),
        n_files: small(1),
        opens: number(2).unwrap_or(0),
        stats: number(3).unwrap_or(0),
        syncs: number(4).unwrap_or(0),
        maps: number(5).unwrap_or(0),
        metadata_s: float(6).unwrap_or(0.0),
        sync_s: float(7),
        alignment: number(8),
        misaligned: number(9),
        slowest: share(10),
        fastest: share(13),
        reads: way(16),
        writes: way(27),
        ..empty
    }
}
