//! What the counters of a layer say of how its calls went about their files.

use std::collections::{HashMap, HashSet};

use iotide_trace::{
    AccessFacts, FileBytes, FileId, FileStake, Layer, RankPart, Stake, StakeKind, Straggler, TargetTime,
    WayFacts,
};

use super::call_shape::ShapeSums;
use super::extents::{Extents, Moved};
use super::records::{CounterTable, LustreRecord, Record};

/// Collects the facts of a layer, one record after the other.
pub(super) struct LayerFacts<'a> {
    layer: Layer,
    columns: FactColumns,
    n_procs: u64,
    /// Files of which ranks write together by MPI-IO.
    collective: &'a HashSet<u64>,
    layouts: &'a Layouts,
    reads: WaySums,
    writes: WaySums,
    misaligned: Counted,
    most_misaligned: i64,
    file_alignment_bytes: Option<u64>,
    /// How far reads and writes went in each file.
    extents: [Extents; 2],
    straggler: Option<Straggler>,
    stakes: Vec<Stake>,
    targets: HashMap<i64, TargetTime>,
    /// What ranks moved of files that all of them use, as far as it is known.
    rank_parts: HashMap<i64, f64>,
    /// What was moved of each file, where events do not tell.
    file_bytes: HashMap<FileId, (f64, f64)>,
    /// By file: such calls of the one rank that was seen so far, until a second one shows that they share it.
    users: Vec<Option<OneUser>>,
    shape: ShapeSums,
}

/// Where a table has the counters that facts are made of.
struct FactColumns {
    reads: WayColumns,
    writes: WayColumns,
    opens: Vec<usize>,
    misaligned: Option<usize>,
    alignment: Option<usize>,
    /// The slowest and the fastest.
    ranks: [Option<usize>; 2],
    ranks_bytes: [Option<usize>; 2],
    ranks_times: [Option<usize>; 2],
}

struct WayColumns {
    /// Parts of the number of calls, all of which must be there.
    calls: Vec<usize>,
    small: Vec<usize>,
    sequential: Option<usize>,
    collective: Vec<usize>,
    independent: Vec<usize>,
    nonblocking: Option<usize>,
    bytes: Option<usize>,
    furthest: Option<usize>,
    /// A furthest offset that may be any further one.
    last_offset: Option<i64>,
    time: Option<usize>,
}

/// A counter's sum, unless a record does not have it: a counter below zero was not kept, and a sum that lacks one of its
/// parts is no sum.
#[derive(Clone, Copy)]
struct Counted(Option<u64>);

impl Counted {
    fn add(&mut self, part: Option<u64>) {
        self.0 = self.0.zip(part).map(|(sum, part)| sum.saturating_add(part));
    }
}

struct WaySums {
    calls: Counted,
    small: Counted,
    sequential: Counted,
    random: Counted,
    collective: Counted,
    independent: Counted,
    nonblocking: Counted,
}

/// What one record says of one direction.
struct WayOfRecord {
    calls: u64,
    small: Option<u64>,
    random: Option<u64>,
    independent: Option<u64>,
    nonblocking: Option<u64>,
    bytes: f64,
    seconds: f64,
    /// How far into the file, in bytes.
    up_to: Option<u64>,
}

#[derive(Clone, Copy)]
enum OneUser {
    One { rank: i64, calls: u32, bytes: f32, seconds: f32 },
    Several,
}

impl<'a> LayerFacts<'a> {
    pub(super) fn new(
        layer: Layer,
        table: &CounterTable,
        n_procs: u64,
        collective: &'a HashSet<u64>,
        layouts: &'a Layouts,
    ) -> Self {
        let columns = FactColumns::of(layer, table);
        let (reads, writes) = (WaySums::of(&columns.reads), WaySums::of(&columns.writes));
        // Kinds that the layer tells apart, so that none of a kind differs from not known.
        let kinds: &[StakeKind] = match layer {
            Layer::MpiIo => StakeKind::OF_MPI,
            Layer::Posix if !columns.reads.small.is_empty() => StakeKind::OF_PLACES,
            _ => &[],
        };
        Self {
            layer,
            n_procs: n_procs.max(1),
            collective,
            layouts,
            reads,
            writes,
            misaligned: Counted(columns.misaligned.map(|_| 0)),
            columns,
            most_misaligned: 0,
            file_alignment_bytes: None,
            extents: Default::default(),
            straggler: None,
            stakes: kinds.iter().copied().map(Stake::of).collect(),
            targets: HashMap::new(),
            rank_parts: HashMap::new(),
            file_bytes: HashMap::new(),
            users: Vec::new(),
            shape: ShapeSums::of(layer, table),
        }
    }

    pub(super) fn add(&mut self, record: Record, file: FileId) {
        let at = |column: Option<usize>| record.int(column?);
        let opens = sum(record, &self.columns.opens).unwrap_or(0);
        // The first call of a rank goes back from nowhere, and so does the first one after the file was opened again.
        let n_first = opens.max(if record.rank < 0 { self.n_procs } else { 1 });
        let reads = self.reads.add(record, &self.columns.reads, n_first);
        let writes = self.writes.add(record, &self.columns.writes, n_first);
        let (calls, seconds) = (reads.calls.saturating_add(writes.calls), reads.seconds + writes.seconds);
        let rank = super::events::rank_of(record.rank);
        let part = |way: &WayOfRecord, calls: Option<u64>| {
            let calls = calls.filter(|calls| *calls > 0)?;
            let share = (calls as f64 / way.calls.max(1) as f64).min(1.0);
            Some(FileStake { file, rank, calls, bytes: share * way.bytes, seconds: share * way.seconds })
        };
        if self.layer == Layer::MpiIo {
            for way in [&reads, &writes] {
                // A file that one rank has for itself cannot be written together.
                self.shared(StakeKind::Independent, record.rank, part(way, way.independent));
                let blocking = way.nonblocking.map(|nonblocking| way.calls.saturating_sub(nonblocking));
                self.stake(StakeKind::Blocking, part(way, blocking));
            }
        } else {
            self.stake(StakeKind::RandomReads, part(&reads, reads.random));
            self.stake(StakeKind::RandomWrites, part(&writes, writes.random));
            let small = [part(&reads, reads.small), part(&writes, writes.small)];
            self.stake(StakeKind::SmallReads, small[0]);
            self.stake(StakeKind::SmallWrites, small[1]);
            self.shared(StakeKind::SmallShared, record.rank, small.into_iter().flatten().reduce(joined));
            let misaligned = at(self.columns.misaligned).and_then(|calls| u64::try_from(calls).ok());
            let both =
                WayOfRecord { calls, bytes: reads.bytes + writes.bytes, seconds, ..WayOfRecord::nothing() };
            self.stake(StakeKind::Misaligned, part(&both, misaligned));
        }
        for (extents, way) in self.extents.iter_mut().zip([&reads, &writes]) {
            let WayOfRecord { calls, bytes, seconds, up_to, .. } = *way;
            extents.add(file, rank, Moved { calls, bytes, seconds, up_to });
        }
        self.misaligned.add(at(self.columns.misaligned).and_then(|calls| u64::try_from(calls).ok()));
        if let (Some(misaligned), Some(alignment @ 1..)) =
            (at(self.columns.misaligned), at(self.columns.alignment))
            && misaligned > self.most_misaligned
        {
            (self.most_misaligned, self.file_alignment_bytes) = (misaligned, u64::try_from(alignment).ok());
        }
        self.add_straggler(record, file);
        self.shape.add(record);
        if self.layer == Layer::Posix {
            self.add_targets(record, reads.bytes + writes.bytes, seconds);
        }
    }

    fn stake(&mut self, kind: StakeKind, part: Option<FileStake>) {
        let Some(part) = part else { return };
        let at = self.stakes.iter().position(|stake| stake.kind == kind).unwrap_or_else(|| {
            self.stakes.push(Stake::of(kind));
            self.stakes.len() - 1
        });
        self.stakes[at].add(part);
    }

    /// Adds calls on files that several ranks use. That a file has several may show when its second rank comes.
    fn shared(&mut self, kind: StakeKind, rank: i64, part: Option<FileStake>) {
        let Some(part) = part else { return };
        if self.n_procs < 2 {
            return;
        }
        if rank < 0 {
            return self.stake(kind, Some(part));
        }
        let id = part.file.0 as usize;
        if part.file == FileId::NONE {
            return;
        }
        if id >= self.users.len() {
            self.users.resize(id + 1, None);
        }
        match self.users[id] {
            None => {
                self.users[id] = Some(OneUser::One {
                    rank,
                    calls: u32::try_from(part.calls).unwrap_or(u32::MAX),
                    bytes: part.bytes as f32,
                    seconds: part.seconds as f32,
                });
            }
            Some(OneUser::One { rank: known, calls, bytes, seconds }) if known != rank => {
                self.users[id] = Some(OneUser::Several);
                let first = FileStake {
                    file: part.file,
                    rank: super::events::rank_of(known),
                    calls: calls.into(),
                    bytes: bytes.into(),
                    seconds: seconds.into(),
                };
                self.stake(kind, Some(first));
                self.stake(kind, Some(part));
            }
            Some(OneUser::One { calls, bytes, seconds, .. }) => {
                self.users[id] = Some(OneUser::One {
                    rank,
                    calls: calls.saturating_add(u32::try_from(part.calls).unwrap_or(u32::MAX)),
                    bytes: bytes + part.bytes as f32,
                    seconds: seconds + part.seconds as f32,
                });
            }
            Some(OneUser::Several) => self.stake(kind, Some(part)),
        }
    }

    /// The slowest rank of a shared file, if another moved about as much in less time.
    fn add_straggler(&mut self, record: Record, file: FileId) {
        // In a collective call ranks wait for each other.
        if record.rank >= 0 || (self.layer == Layer::MpiIo && self.collective.contains(&record.id)) {
            return;
        }
        let time = |column: Option<usize>| record.float(column?).filter(|seconds| *seconds > 0.0);
        let bytes = |column: Option<usize>| record.int(column?).filter(|bytes| *bytes >= 0);
        let [Some(slowest_s), Some(fastest_s)] = self.columns.ranks_times.map(time) else { return };
        let [Some(slowest_bytes), Some(fastest_bytes)] = self.columns.ranks_bytes.map(bytes) else { return };
        // A rank that has more to do takes longer, and one that leaves its bytes to an aggregator is no measure.
        let is_measure = 2 * i128::from(fastest_bytes) >= i128::from(slowest_bytes) && fastest_bytes > 0;
        if !is_measure
            || self.straggler.is_some_and(|known| slowest_s - fastest_s <= known.slowest_s - known.fastest_s)
        {
            return;
        }
        self.straggler = Some(Straggler {
            file,
            slowest_rank: self.columns.ranks[0].and_then(|column| record.int(column)).unwrap_or(-1),
            slowest_s,
            fastest_s,
            slowest_bytes: slowest_bytes as f64,
            fastest_bytes: fastest_bytes as f64,
        });
    }

    /// Takes note of what the slowest and the fastest rank moved of a file whose bytes are summed over all ranks.
    pub(super) fn add_rank_parts(&mut self, record: Record) {
        if record.rank >= 0 {
            return;
        }
        let n_procs = i64::try_from(self.n_procs).unwrap_or(i64::MAX);
        let part = |i: usize| {
            let rank = record.int(self.columns.ranks[i]?).filter(|rank| (0..n_procs).contains(rank))?;
            Some((rank, record.int(self.columns.ranks_bytes[i]?).filter(|bytes| *bytes > 0)? as f64))
        };
        let [slowest, fastest] = [part(0), part(1)];
        // One rank may be both, where only one has used the file or all took as long.
        let fastest = fastest.filter(|(rank, _)| slowest.is_none_or(|(slowest, _)| slowest != *rank));
        // What ranks move together is moved by few of them on purpose, but not by one.
        let is_collective = self.collective.contains(&record.id);
        let ways = [&self.columns.reads, &self.columns.writes];
        let moved =
            ways.map(|way| way.bytes.and_then(|column| record.int(column)).unwrap_or(0).max(0) as f64);
        let all: f64 = moved.iter().sum();
        for (rank, bytes) in [slowest, fastest].into_iter().flatten() {
            if !is_collective || bytes > 0.9 * all {
                *self.rank_parts.entry(rank).or_default() += bytes;
            }
        }
    }

    /// Takes note of what was moved of a file whose bytes come as events without its name.
    pub(super) fn add_file_bytes(&mut self, record: Record, file: FileId) {
        /// More files than a person asks for.
        const MOST_FILES: usize = 1 << 18;
        let bytes =
            |way: &WayColumns| way.bytes.and_then(|column| record.int(column)).unwrap_or(0).max(0) as f64;
        let (read, written) = (bytes(&self.columns.reads), bytes(&self.columns.writes));
        let has_room = self.file_bytes.len() < MOST_FILES || self.file_bytes.contains_key(&file);
        if file != FileId::NONE && read + written > 0.0 && has_room {
            let sums = self.file_bytes.entry(file).or_default();
            *sums = (sums.0 + read, sums.1 + written);
        }
    }

    fn add_targets(&mut self, record: Record, bytes: f64, seconds: f64) {
        /// More storage targets than any file system has.
        const MOST_TARGETS: usize = 1 << 16;
        let osts = self.layouts.of(record.id);
        if osts.is_empty() || seconds <= 0.0 || bytes <= 0.0 {
            return;
        }
        let share = 1.0 / osts.len() as f64;
        for &target in osts {
            let target = i64::from(target);
            if self.targets.len() >= MOST_TARGETS && !self.targets.contains_key(&target) {
                continue;
            }
            let none = TargetTime { target, files: 0, bytes: 0.0, seconds: 0.0 };
            let known = self.targets.entry(target).or_insert(none);
            known.files += 1;
            known.bytes += share * bytes;
            known.seconds += share * seconds;
        }
    }

    pub(super) fn finish(mut self) -> AccessFacts {
        /// Of a larger file system those targets that took longest for what they moved, of more ranks those that moved most.
        const MOST_TOLD: usize = 4096;
        let mut targets: Vec<TargetTime> = std::mem::take(&mut self.targets).into_values().collect();
        let slowness = |target: &TargetTime| target.seconds / target.bytes;
        targets.sort_unstable_by(|a, b| slowness(b).total_cmp(&slowness(a)).then(a.target.cmp(&b.target)));
        targets.truncate(MOST_TOLD);
        let mut rank_parts: Vec<RankPart> = std::mem::take(&mut self.rank_parts)
            .into_iter()
            .map(|(rank, bytes)| RankPart { rank: super::events::rank_of(rank), bytes })
            .collect();
        rank_parts.sort_unstable_by(|a, b| b.bytes.total_cmp(&a.bytes).then(a.rank.cmp(&b.rank)));
        rank_parts.truncate(MOST_TOLD);
        rank_parts.sort_unstable_by_key(|part| part.rank);
        let mut file_bytes: Vec<FileBytes> = (std::mem::take(&mut self.file_bytes).into_iter())
            .map(|(file, (read, written))| FileBytes { file, read, written })
            .collect();
        file_bytes.sort_unstable_by_key(|part| part.file);
        let [reads_again, writes_again] = std::mem::take(&mut self.extents).map(Extents::finish);
        if self.layer != Layer::MpiIo {
            reads_again.1.into_iter().for_each(|part| self.stake(StakeKind::Rereads, Some(part)));
            writes_again.1.into_iter().for_each(|part| self.stake(StakeKind::Rewrites, Some(part)));
        }
        let mut stakes = self.stakes;
        stakes.sort_by_key(|stake| stake.kind);
        AccessFacts {
            layer: self.layer,
            reads: self.reads.finish(),
            writes: self.writes.finish(),
            misaligned_in_file: self.misaligned.0,
            file_alignment_bytes: self.file_alignment_bytes,
            reread_bytes: reads_again.0,
            rewritten_bytes: writes_again.0,
            straggler: self.straggler,
            stakes,
            targets,
            functions: Vec::new(),
            rank_parts,
            file_bytes,
            shape: self.shape.finish(),
        }
    }
}

fn joined(one: FileStake, other: FileStake) -> FileStake {
    FileStake {
        calls: one.calls.saturating_add(other.calls),
        bytes: one.bytes + other.bytes,
        seconds: one.seconds + other.seconds,
        ..one
    }
}

/// The sum of counters; `None` if one of them was not kept.
fn sum(record: Record, columns: &[usize]) -> Option<u64> {
    columns
        .iter()
        .try_fold(0u64, |sum, column| Some(sum.saturating_add(u64::try_from(record.int(*column)?).ok()?)))
}

impl FactColumns {
    fn of(layer: Layer, table: &CounterTable) -> Self {
        let prefix = super::events::table_prefix(layer, table);
        let int = |name: &str| table.int_column(&format!("{prefix}{name}"));
        let float = |name: &str| table.float_column(&format!("{prefix}F_{name}"));
        let all = |names: &[String]| -> Option<Vec<usize>> { names.iter().map(|name| int(name)).collect() };
        let way = |word: &str, size: &str, bytes: &str, furthest: &str, time: &str| {
            let named = |before: &str| format!("{before}{word}");
            let aggregated = if layer == Layer::MpiIo { "AGG_" } else { "" };
            let small = ["0_100", "100_1K", "1K_10K", "10K_100K", "100K_1M"]
                .map(|range| format!("{size}{aggregated}{range}"));
            let collective = all(&[named("COLL_"), named("SPLIT_")]);
            let independent = all(&[named("INDEP_"), named("NB_")]);
            let of_mpi = || Some([collective.clone()?, independent.clone()?].concat());
            WayColumns {
                calls: all(&[named("")])
                    .or_else(|| all(&[named("POSIX_")]))
                    .or_else(of_mpi)
                    .unwrap_or_default(),
                small: all(&small).unwrap_or_default(),
                sequential: int(&named("SEQ_")),
                collective: collective.clone().unwrap_or_default(),
                independent: independent.clone().unwrap_or_default(),
                nonblocking: int(&named("NB_")),
                bytes: int(bytes),
                furthest: int(furthest),
                // Logs before version 3 come from machines of 32 bits, too, whose offsets end here however long the file is.
                last_offset: (prefix == "CP_").then_some(i32::MAX.into()),
                time: float(&format!("{time}_TIME")).or_else(|| float(&format!("POSIX_{time}_TIME"))),
            }
        };
        let opens = ["OPENS", "FOPENS", "POSIX_OPENS", "POSIX_FOPENS"];
        Self {
            reads: way("READS", "SIZE_READ_", "BYTES_READ", "MAX_BYTE_READ", "READ"),
            writes: way("WRITES", "SIZE_WRITE_", "BYTES_WRITTEN", "MAX_BYTE_WRITTEN", "WRITE"),
            opens: opens.iter().filter_map(|name| int(name)).collect(),
            misaligned: int("FILE_NOT_ALIGNED"),
            alignment: int("FILE_ALIGNMENT"),
            ranks: [int("SLOWEST_RANK"), int("FASTEST_RANK")],
            ranks_bytes: [int("SLOWEST_RANK_BYTES"), int("FASTEST_RANK_BYTES")],
            ranks_times: [float("SLOWEST_RANK_TIME"), float("FASTEST_RANK_TIME")],
        }
    }
}

impl WaySums {
    fn of(columns: &WayColumns) -> Self {
        let counted = |is_there: bool| Counted(is_there.then_some(0));
        Self {
            calls: counted(!columns.calls.is_empty()),
            small: counted(!columns.small.is_empty()),
            sequential: counted(columns.sequential.is_some()),
            random: counted(columns.sequential.is_some() && !columns.calls.is_empty()),
            collective: counted(!columns.collective.is_empty()),
            independent: counted(!columns.independent.is_empty()),
            nonblocking: counted(columns.nonblocking.is_some()),
        }
    }

    fn add(&mut self, record: Record, columns: &WayColumns, n_first: u64) -> WayOfRecord {
        let of = |columns: &[usize]| if columns.is_empty() { None } else { sum(record, columns) };
        let one = |column: Option<usize>| u64::try_from(record.int(column?)?).ok();
        let calls = of(&columns.calls);
        let small = of(&columns.small);
        let sequential = one(columns.sequential);
        let random = calls
            .zip(sequential)
            .map(|(calls, sequential)| calls.saturating_sub(sequential).saturating_sub(n_first));
        let (collective, independent) = (of(&columns.collective), of(&columns.independent));
        let nonblocking = one(columns.nonblocking);
        self.calls.add(calls);
        self.small.add(small);
        self.sequential.add(sequential);
        self.random.add(random);
        self.collective.add(collective);
        self.independent.add(independent);
        self.nonblocking.add(nonblocking);
        let bytes = columns.bytes.and_then(|column| record.int(column));
        let furthest = columns.furthest.and_then(|column| record.int(column));
        let furthest = furthest.filter(|furthest| Some(*furthest) != columns.last_offset);
        let up_to = match (bytes, furthest) {
            (Some(0..), Some(furthest @ 0..)) => Some(furthest.unsigned_abs() + 1),
            _ => None,
        };
        let seconds = columns.time.and_then(|column| record.float(column)).filter(|seconds| *seconds > 0.0);
        WayOfRecord {
            calls: calls.unwrap_or(0),
            small,
            random,
            independent,
            nonblocking,
            bytes: bytes.map_or(0.0, |bytes| bytes.max(0) as f64),
            seconds: seconds.filter(|seconds| seconds.is_finite()).unwrap_or(0.0),
            up_to,
        }
    }

    fn finish(self) -> WayFacts {
        WayFacts {
            calls: self.calls.0.unwrap_or(0),
            small: self.small.0,
            sequential: self.sequential.0,
            random: self.random.0,
            collective: self.collective.0,
            independent: self.independent.0,
            nonblocking: self.nonblocking.0,
        }
    }
}

impl WayOfRecord {
    fn nothing() -> Self {
        Self {
            calls: 0,
            small: None,
            random: None,
            independent: None,
            nonblocking: None,
            bytes: 0.0,
            seconds: 0.0,
            up_to: None,
        }
    }
}

/// Which file is on which storage targets.
#[derive(Debug, Default)]
pub(super) struct Layouts {
    by_id: HashMap<u64, (u32, u32)>,
    osts: Vec<u32>,
}

impl Layouts {
    /// How many targets of files are kept, 4 bytes each.
    const MOST: usize = 1 << 24;

    pub(super) fn add(&mut self, record: &LustreRecord) {
        if self.osts.len() + record.osts.len() > Self::MOST || record.osts.is_empty() {
            return;
        }
        let start = self.osts.len() as u32;
        self.osts.extend(record.osts.iter().filter_map(|ost| u32::try_from(*ost).ok()));
        self.by_id.entry(record.id).or_insert((start, self.osts.len() as u32));
    }

    fn of(&self, id: u64) -> &[u32] {
        let span = self.by_id.get(&id).map(|&(start, end)| start as usize..end as usize);
        span.and_then(|span| self.osts.get(span)).unwrap_or_default()
    }
}
