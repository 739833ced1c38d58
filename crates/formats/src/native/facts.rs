//! Access counts of a source, as a list of numbers, each behind its code.

use iotide_trace::{
    AccessFacts, FileBytes, FileId, FileLayout, FileRecord, FunctionSums, Layer, Rank, RankPart, WayFacts,
};

use iotide_wire::{unzigzag, zigzag};

use super::{Bytes, LAYERS, put_varint};

/// Stands in the place of a tag where the numbers end and the lists begin.
const LISTS: u8 = 0;

/// The layer, then (tag, number) for everything that is known, then the lists if there are any. Later versions can add tags.
pub(super) fn encode(facts: &AccessFacts) -> Vec<u8> {
    let layer = LAYERS.iter().position(|known| *known == facts.layer).unwrap_or(0);
    let mut out = vec![layer as u8];
    for (tag, number) in (1..).zip(numbers_of(facts)) {
        if let Some(number) = number {
            out.push(tag);
            out.extend_from_slice(&number.to_le_bytes());
        }
    }
    let bare = AccessFacts { layer: facts.layer, ..AccessFacts::default() };
    let AccessFacts { records, layouts, n_targets, functions, rank_parts, file_bytes, .. } = facts;
    let has_lists = *records != bare.records || *layouts != bare.layouts || *n_targets != bare.n_targets;
    if has_lists || !functions.is_empty() || !rank_parts.is_empty() || !file_bytes.is_empty() {
        out.push(LISTS);
        encode_lists(&mut out, facts);
    }
    out
}

fn encode_lists(out: &mut Vec<u8>, facts: &AccessFacts) {
    let AccessFacts { records, layouts, n_targets, functions, rank_parts, file_bytes, .. } = facts;
    let amounts = |out: &mut Vec<u8>, calls: u64, bytes: f64, seconds: f64| {
        put_varint(out, calls);
        out.extend_from_slice(&bytes.to_le_bytes());
        out.extend_from_slice(&seconds.to_le_bytes());
    };
    // Earlier versions had sums of kinds of calls and of storage targets here.
    put_varint(out, 0);
    put_varint(out, 0);
    put_varint(out, functions.len() as u64);
    for FunctionSums { name, calls, bytes, seconds } in functions {
        put_varint(out, name.len() as u64);
        out.extend_from_slice(name.as_bytes());
        amounts(out, *calls, *bytes, *seconds);
    }
    put_varint(out, rank_parts.len() as u64);
    for RankPart { rank, bytes } in rank_parts {
        put_varint(out, zigzag(i64::from(rank.0)));
        out.extend_from_slice(&bytes.to_le_bytes());
    }
    put_varint(out, file_bytes.len() as u64);
    for FileBytes { file, read, written } in file_bytes {
        put_varint(out, u64::from(file.0));
        out.extend_from_slice(&read.to_le_bytes());
        out.extend_from_slice(&written.to_le_bytes());
    }
    put_varint(out, records.len() as u64);
    records.iter().for_each(|record| super::file_record::encode(out, record));
    put_varint(out, layouts.len() as u64);
    for FileLayout { file, targets } in layouts {
        put_varint(out, u64::from(file.0));
        put_varint(out, targets.len() as u64);
        targets.iter().for_each(|target| put_varint(out, u64::from(*target)));
    }
    put_varint(out, n_targets.map_or(0, |n| u64::from(n) + 1));
}

#[derive(Default)]
struct Lists {
    records: Vec<FileRecord>,
    layouts: Vec<FileLayout>,
    n_targets: Option<u32>,
    functions: Vec<FunctionSums>,
    rank_parts: Vec<RankPart>,
    file_bytes: Vec<FileBytes>,
}

fn decode_lists(bytes: &mut Bytes<'_>) -> Option<Lists> {
    fn amounts(bytes: &mut Bytes<'_>) -> Option<(u64, f64, f64)> {
        let calls = bytes.varint()?;
        let mut float = || Some(f64::from_le_bytes(bytes.take(8)?.try_into().ok()?));
        Some((calls, float()?, float()?))
    }
    // Sums of earlier versions, which nobody reads any more.
    for _ in 0..bytes.varint()? {
        bytes.byte()?;
        amounts(bytes)?;
        for _ in 0..bytes.varint()? {
            bytes.varint()?;
            bytes.varint()?;
            amounts(bytes)?;
        }
    }
    for _ in 0..bytes.varint()? {
        bytes.varint()?;
        amounts(bytes)?;
    }
    let mut functions = Vec::new();
    // Earlier versions end here.
    let n_functions = if bytes.0.is_empty() { 0 } else { bytes.varint()? };
    for _ in 0..n_functions {
        let length = usize::try_from(bytes.varint()?).ok()?;
        let name = String::from_utf8_lossy(bytes.take(length)?).into_owned();
        let (calls, bytes, seconds) = amounts(bytes)?;
        functions.push(FunctionSums { name, calls, bytes, seconds });
    }
    functions.sort_by(|a, b| a.name.cmp(&b.name));
    let mut rank_parts = Vec::new();
    let n_parts = if bytes.0.is_empty() { 0 } else { bytes.varint()? };
    for _ in 0..n_parts {
        let rank = Rank(unzigzag(bytes.varint()?).try_into().ok()?);
        rank_parts.push(RankPart { rank, bytes: f64::from_le_bytes(bytes.take(8)?.try_into().ok()?) });
    }
    rank_parts.sort_by_key(|part| part.rank);
    let mut file_bytes = Vec::new();
    let n_files = if bytes.0.is_empty() { 0 } else { bytes.varint()? };
    for _ in 0..n_files {
        let file = FileId(bytes.varint()?.try_into().ok()?);
        let mut float = || Some(f64::from_le_bytes(bytes.take(8)?.try_into().ok()?));
        file_bytes.push(FileBytes { file, read: float()?, written: float()? });
    }
    file_bytes.sort_by_key(|part| part.file);
    let mut lists = Lists { functions, rank_parts, file_bytes, ..Lists::default() };
    if !bytes.0.is_empty() {
        for _ in 0..bytes.varint()? {
            lists.records.push(super::file_record::decode(bytes)?);
        }
        for _ in 0..bytes.varint()? {
            let file = FileId(bytes.varint()?.try_into().ok()?);
            let mut targets = Vec::new();
            for _ in 0..bytes.varint()? {
                targets.push(bytes.varint()?.try_into().ok()?);
            }
            lists.layouts.push(FileLayout { file, targets });
        }
        lists.n_targets = bytes.varint()?.checked_sub(1).and_then(|n| n.try_into().ok());
    }
    Some(lists)
}

pub(super) fn decode(payload: &[u8]) -> Option<AccessFacts> {
    let mut bytes = Bytes(payload);
    let layer = *LAYERS.get(usize::from(bytes.byte()?))?;
    let mut numbers = Vec::new();
    let mut lists = Lists::default();
    while !bytes.0.is_empty() {
        let tag = bytes.byte()?;
        if tag == LISTS {
            lists = decode_lists(&mut bytes)?;
            break;
        }
        let place = usize::from(tag) - 1;
        let number = u64::from_le_bytes(bytes.take(8)?.try_into().ok()?);
        if numbers.len() <= place {
            numbers.resize(place + 1, None);
        }
        numbers[place] = Some(number);
    }
    let Lists { records, layouts, n_targets, functions, rank_parts, file_bytes } = lists;
    let lists = AccessFacts {
        records,
        layouts,
        n_targets,
        functions,
        rank_parts,
        file_bytes,
        ..AccessFacts::default()
    };
    let AccessFacts { reads, writes, shape, .. } = of_numbers(layer, &numbers);
    Some(AccessFacts { layer, reads, writes, shape, ..lists })
}

/// The facts in an order that is a promise: new ones go to the end. The patterns name every field, so that a new one is
/// not forgotten.
fn numbers_of(facts: &AccessFacts) -> Vec<Option<u64>> {
    let AccessFacts {
        layer: _,
        reads,
        writes,
        records: _,
        layouts: _,
        n_targets: _,
        functions: _,
        rank_parts: _,
        file_bytes: _,
        shape,
    } = facts;
    let mut numbers = Vec::new();
    let mut later = vec![None];
    for way in [*reads, *writes] {
        let WayFacts { calls, small, sequential, random, collective, independent, nonblocking } = way;
        numbers.extend([Some(calls), small, sequential, collective, independent]);
        later.extend([random, nonblocking]);
    }
    // Places of numbers that are no longer kept.
    later.push(None);
    numbers.extend([None; 8]);
    numbers.extend(later);
    numbers.extend(super::shape::numbers_of(shape));
    numbers
}

pub(super) fn of_numbers(layer: Layer, numbers: &[Option<u64>]) -> AccessFacts {
    let number = |i: usize| numbers.get(i).copied().flatten();
    let way = |i: usize, later: usize| WayFacts {
        calls: number(i).unwrap_or(0),
        small: number(i + 1),
        sequential: number(i + 2),
        random: number(later),
        collective: number(i + 3),
        independent: number(i + 4),
        nonblocking: number(later + 1),
    };
    AccessFacts {
        layer,
        reads: way(0, 19),
        writes: way(5, 21),
        shape: super::shape::of_numbers(numbers.get(24..).unwrap_or_default()),
        ..AccessFacts::default()
    }
}
