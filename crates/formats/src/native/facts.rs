//! What a source counted of its accesses, as a list of numbers, each behind the one it is known by.

use iotide_trace::{
    AccessFacts, FileBytes, FileId, FileStake, FunctionSums, Layer, Rank, RankPart, Stake, StakeKind,
    Straggler, TargetTime, WayFacts,
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
    let AccessFacts { stakes, targets, functions, rank_parts, file_bytes, .. } = facts;
    let has_lists =
        !stakes.is_empty() || !targets.is_empty() || !functions.is_empty() || !rank_parts.is_empty();
    if has_lists || !file_bytes.is_empty() {
        out.push(LISTS);
        encode_lists(&mut out, facts);
    }
    out
}

/// The order of the kinds is a promise: new ones go to the end.
const KINDS: [StakeKind; 10] = StakeKind::ALL;

fn encode_lists(out: &mut Vec<u8>, facts: &AccessFacts) {
    let AccessFacts { stakes, targets, functions, rank_parts, file_bytes, .. } = facts;
    let amounts = |out: &mut Vec<u8>, calls: u64, bytes: f64, seconds: f64| {
        put_varint(out, calls);
        out.extend_from_slice(&bytes.to_le_bytes());
        out.extend_from_slice(&seconds.to_le_bytes());
    };
    put_varint(out, stakes.len() as u64);
    for Stake { kind, calls, bytes, seconds, worst } in stakes {
        out.push(KINDS.iter().position(|known| known == kind).unwrap_or(KINDS.len()) as u8);
        amounts(out, *calls, *bytes, *seconds);
        put_varint(out, worst.len() as u64);
        for FileStake { file, rank, calls, bytes, seconds } in worst {
            put_varint(out, u64::from(file.0));
            put_varint(out, zigzag(i64::from(rank.0)));
            amounts(out, *calls, *bytes, *seconds);
        }
    }
    put_varint(out, targets.len() as u64);
    for TargetTime { target, files, bytes, seconds } in targets {
        put_varint(out, zigzag(*target));
        amounts(out, *files, *bytes, *seconds);
    }
    if functions.is_empty() && rank_parts.is_empty() && file_bytes.is_empty() {
        return;
    }
    put_varint(out, functions.len() as u64);
    for FunctionSums { name, calls, bytes, seconds } in functions {
        put_varint(out, name.len() as u64);
        out.extend_from_slice(name.as_bytes());
        amounts(out, *calls, *bytes, *seconds);
    }
    if rank_parts.is_empty() && file_bytes.is_empty() {
        return;
    }
    put_varint(out, rank_parts.len() as u64);
    for RankPart { rank, bytes } in rank_parts {
        put_varint(out, zigzag(i64::from(rank.0)));
        out.extend_from_slice(&bytes.to_le_bytes());
    }
    if file_bytes.is_empty() {
        return;
    }
    put_varint(out, file_bytes.len() as u64);
    for FileBytes { file, read, written } in file_bytes {
        put_varint(out, u64::from(file.0));
        out.extend_from_slice(&read.to_le_bytes());
        out.extend_from_slice(&written.to_le_bytes());
    }
}

#[derive(Default)]
struct Lists {
    stakes: Vec<Stake>,
    targets: Vec<TargetTime>,
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
    let mut stakes = Vec::new();
    for _ in 0..bytes.varint()? {
        let kind = KINDS.get(usize::from(bytes.byte()?)).copied();
        let (calls, moved, seconds) = amounts(bytes)?;
        let mut worst = Vec::new();
        for _ in 0..bytes.varint()? {
            let file = FileId(bytes.varint()?.try_into().ok()?);
            let rank = Rank(unzigzag(bytes.varint()?).try_into().ok()?);
            let (calls, bytes, seconds) = amounts(bytes)?;
            worst.push(FileStake { file, rank, calls, bytes, seconds });
        }
        // A kind that a later version may know.
        stakes.extend(kind.map(|kind| Stake { kind, calls, bytes: moved, seconds, worst }));
    }
    let mut targets = Vec::new();
    for _ in 0..bytes.varint()? {
        let target = unzigzag(bytes.varint()?);
        let (files, bytes, seconds) = amounts(bytes)?;
        targets.push(TargetTime { target, files, bytes, seconds });
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
    Some(Lists { stakes, targets, functions, rank_parts, file_bytes })
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
    let Lists { stakes, targets, functions, rank_parts, file_bytes } = lists;
    Some(AccessFacts { stakes, targets, functions, rank_parts, file_bytes, ..of_numbers(layer, &numbers) })
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
        rewritten_bytes,
        straggler,
        stakes: _,
        targets: _,
        functions: _,
        rank_parts: _,
        file_bytes: _,
        shape,
    } = facts;
    let mut numbers = Vec::new();
    let mut later = vec![rewritten_bytes.map(f64::to_bits)];
    for way in [*reads, *writes] {
        let WayFacts { calls, small, sequential, random, collective, independent, nonblocking } = way;
        numbers.extend([Some(calls), small, sequential, collective, independent]);
        later.extend([random, nonblocking]);
    }
    later.push(straggler.map(|straggler| u64::from(straggler.file.0)));
    numbers.extend([*misaligned_in_file, *file_alignment_bytes, reread_bytes.map(f64::to_bits)]);
    let straggler = straggler.map(
        |Straggler { file: _, slowest_rank, slowest_s, fastest_s, slowest_bytes, fastest_bytes }| {
            [
                slowest_rank as u64,
                slowest_s.to_bits(),
                fastest_s.to_bits(),
                slowest_bytes.to_bits(),
                fastest_bytes.to_bits(),
            ]
        },
    );
    match straggler {
        Some(straggler) => numbers.extend(straggler.map(Some)),
        None => numbers.extend([None; 5]),
    }
    numbers.extend(later);
    numbers.extend(super::shape::numbers_of(shape));
    numbers
}

pub(super) fn of_numbers(layer: Layer, numbers: &[Option<u64>]) -> AccessFacts {
    let number = |i: usize| numbers.get(i).copied().flatten();
    let float = |i: usize| number(i).map(f64::from_bits);
    let way = |i: usize, later: usize| WayFacts {
        calls: number(i).unwrap_or(0),
        small: number(i + 1),
        sequential: number(i + 2),
        random: number(later),
        collective: number(i + 3),
        independent: number(i + 4),
        nonblocking: number(later + 1),
    };
    let straggler = || {
        Some(Straggler {
            file: number(23).and_then(|file| file.try_into().ok()).map_or(FileId::NONE, FileId),
            slowest_rank: number(13)? as i64,
            slowest_s: float(14)?,
            fastest_s: float(15)?,
            slowest_bytes: float(16)?,
            fastest_bytes: float(17)?,
        })
    };
    AccessFacts {
        layer,
        reads: way(0, 19),
        writes: way(5, 21),
        misaligned_in_file: number(10),
        file_alignment_bytes: number(11),
        reread_bytes: float(12),
        rewritten_bytes: float(18),
        straggler: straggler(),
        stakes: Vec::new(),
        targets: Vec::new(),
        functions: Vec::new(),
        rank_parts: Vec::new(),
        file_bytes: Vec::new(),
        shape: super::shape::of_numbers(numbers.get(24..).unwrap_or_default()),
    }
}
