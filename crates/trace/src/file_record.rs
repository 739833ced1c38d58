//! Counters of one file, by one rank or by all ranks together, in one layer.

use std::collections::HashMap;

use crate::{Event, FileId, Grain, Layer, Op, Rank};

/// Requests below this size are small.
pub const SMALL_BELOW_BYTES: f64 = 1_048_576.0;

/// Counters of one file in one layer. A counter that the source does not keep is absent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FileRecord {
    /// The file; [`FileId::NONE`] for calls on files without a name.
    pub file: FileId,
    /// The rank; [`Rank::ALL`] if the counters are sums over several ranks.
    pub rank: Rank,
    /// The layer that counted.
    pub layer: Layer,
    /// Number of ranks in a sum over ranks; 0 stands for all ranks of the run.
    pub n_ranks: u32,
    /// Number of files in the record: 1, more where a run has too many to keep each, 0 if it is not known.
    pub n_files: u32,
    /// Reads.
    pub reads: WayRecord,
    /// Writes.
    pub writes: WayRecord,
    /// Opens.
    pub opens: u64,
    /// Requests for attributes.
    pub stats: u64,
    /// fsync, fdatasync, MPI_File_sync, fflush.
    pub syncs: u64,
    /// Mappings into memory: bytes moved by page faults are not counted.
    pub maps: u64,
    /// Time in calls that move no data, summed over the ranks.
    pub metadata_s: f64,
    /// Time in syncs, where it is kept apart; else it is part of the time of writes.
    pub sync_s: Option<f64>,
    /// The alignment of the file system.
    pub alignment: Option<u64>,
    /// Calls at offsets that are not a multiple of `alignment`.
    pub misaligned: Option<u64>,
    /// Of a sum over ranks: the rank that took longest.
    pub slowest: Option<RankShare>,
    /// Of a sum over ranks: the rank that took shortest.
    pub fastest: Option<RankShare>,
}

/// Reads, or writes, of a [`FileRecord`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WayRecord {
    /// Calls.
    pub calls: u64,
    /// Bytes; `None` if the counter is invalid.
    pub bytes: Option<f64>,
    /// Time, summed over the ranks.
    pub seconds: f64,
    /// Calls below [`SMALL_BELOW_BYTES`].
    pub small: Option<SmallCalls>,
    /// Calls that go back in the file; the first call of a rank after an open is not among them.
    pub random: Option<u64>,
    /// One more than the highest offset.
    pub up_to: Option<f64>,
    /// Calls that all ranks make together.
    pub collective: Option<u64>,
    /// Calls that return before the bytes are moved.
    pub nonblocking: Option<u64>,
    /// Time in the calls alone, where `seconds` has more (syncs, for instance) and calls were traced one by one.
    pub calls_s: Option<f64>,
}

/// Calls below [`SMALL_BELOW_BYTES`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SmallCalls {
    /// Calls.
    pub calls: u64,
    /// Bytes; an estimate where the source has ranges of sizes only.
    pub bytes: f64,
    /// Time, where calls were traced one by one.
    pub seconds: Option<f64>,
}

/// Part of one rank in a sum over ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankShare {
    /// The rank.
    pub rank: Rank,
    /// Its bytes.
    pub bytes: f64,
    /// Its time in all calls.
    pub seconds: f64,
}

/// Storage targets that hold a file.
#[derive(Clone, Debug, PartialEq)]
pub struct FileLayout {
    /// The file.
    pub file: FileId,
    /// Numbers of the targets.
    pub targets: Vec<u32>,
}

impl FileRecord {
    /// Returns a record of nothing.
    pub fn new(file: FileId, rank: Rank, layer: Layer) -> Self {
        Self {
            file,
            rank,
            layer,
            n_ranks: u32::from(rank != Rank::ALL),
            n_files: 1,
            reads: WayRecord::default(),
            writes: WayRecord::default(),
            opens: 0,
            stats: 0,
            syncs: 0,
            maps: 0,
            metadata_s: 0.0,
            sync_s: None,
            alignment: None,
            misaligned: None,
            slowest: None,
            fastest: None,
        }
    }

    /// Returns the bytes moved either way.
    pub fn bytes(&self) -> f64 {
        self.reads.bytes() + self.writes.bytes()
    }

    /// Returns the time in calls of any kind, summed over the ranks.
    pub fn seconds(&self) -> f64 {
        self.reads.seconds + self.writes.seconds + self.metadata_s + self.sync_s.unwrap_or(0.0)
    }

    /// Adds another record of the same file and layer; the sum is one over ranks unless both are of the same rank.
    pub fn join(&mut self, other: &Self) {
        if self.rank != other.rank || self.rank == Rank::ALL {
            let pick = |one: Option<RankShare>, two: Option<RankShare>, longer: bool| match (one, two) {
                (Some(a), Some(b)) if (b.seconds > a.seconds) == longer => Some(b),
                (a, b) => a.or(b),
            };
            let ((slowest, fastest), (slower, faster)) = (self.shares(), other.shares());
            (self.slowest, self.fastest) = (pick(slowest, slower, true), pick(fastest, faster, false));
            self.n_ranks = match (self.n_ranks, other.n_ranks) {
                (0, _) | (_, 0) => 0,
                (a, b) if self.file == other.file => a.saturating_add(b),
                (a, b) => a.max(b),
            };
            self.rank = Rank::ALL;
        }
        if self.file != other.file {
            (self.file, self.n_files) = (FileId::NONE, self.n_files.saturating_add(other.n_files));
        }
        self.reads.join(&other.reads);
        self.writes.join(&other.writes);
        self.opens = self.opens.saturating_add(other.opens);
        self.stats = self.stats.saturating_add(other.stats);
        self.syncs = self.syncs.saturating_add(other.syncs);
        self.maps = self.maps.saturating_add(other.maps);
        self.metadata_s += other.metadata_s;
        self.sync_s = sum(self.sync_s, other.sync_s);
        self.alignment = self.alignment.max(other.alignment);
        self.misaligned = sum_calls(self.misaligned, other.misaligned);
    }

    /// Returns the slowest and the fastest rank, which are the rank itself in a record of one.
    pub fn shares(&self) -> (Option<RankShare>, Option<RankShare>) {
        if self.rank == Rank::ALL {
            return (self.slowest, self.fastest);
        }
        let own = RankShare { rank: self.rank, bytes: self.bytes(), seconds: self.seconds() };
        (Some(own), Some(own))
    }

    /// Adds one call with its own times; `seconds` is the time that the program waited for it.
    fn add_call(&mut self, event: &Event, seconds: f64) {
        let calls = u64::from(event.calls);
        let way = match event.op {
            Op::Read => &mut self.reads,
            Op::Write => &mut self.writes,
            op => {
                match op {
                    Op::Open => self.opens += calls,
                    Op::Stat => self.stats += calls,
                    Op::Sync => self.syncs += calls,
                    _ => {}
                }
                if op == Op::Sync {
                    *self.sync_s.get_or_insert(0.0) += seconds;
                } else {
                    self.metadata_s += seconds;
                }
                return;
            }
        };
        way.calls += calls;
        *way.bytes.get_or_insert(0.0) += event.bytes;
        way.seconds += seconds;
        let small = way.small.get_or_insert_default();
        let small_s = small.seconds.get_or_insert(0.0);
        if event.bytes < SMALL_BELOW_BYTES * f64::from(event.calls) {
            small.calls += calls;
            small.bytes += event.bytes;
            *small_s += seconds;
        }
    }
}

impl WayRecord {
    /// Returns the bytes, 0 if they are unknown.
    pub fn bytes(&self) -> f64 {
        self.bytes.unwrap_or(0.0)
    }

    fn join(&mut self, other: &Self) {
        if other.calls == 0 && other.seconds == 0.0 && other.bytes.is_none() {
            return;
        }
        if self.calls == 0 && self.seconds == 0.0 && self.bytes.is_none() {
            *self = *other;
            return;
        }
        let (is_first, is_last) = (self.calls == 0, other.calls == 0);
        self.calls = self.calls.saturating_add(other.calls);
        self.bytes = self.bytes.zip(other.bytes).map(|(a, b)| a + b);
        self.seconds += other.seconds;
        // A direction without calls knows everything of them.
        let pick = |a: Option<u64>, b: Option<u64>| match (is_first, is_last) {
            (true, _) => b,
            (_, true) => a,
            _ => a.zip(b).map(|(a, b)| a.saturating_add(b)),
        };
        self.random = pick(self.random, other.random);
        self.collective = pick(self.collective, other.collective);
        self.nonblocking = pick(self.nonblocking, other.nonblocking);
        self.small = match (is_first, is_last) {
            (true, _) => other.small,
            (_, true) => self.small,
            _ => self.small.zip(other.small).map(|(a, b)| SmallCalls {
                calls: a.calls.saturating_add(b.calls),
                bytes: a.bytes + b.bytes,
                seconds: a.seconds.zip(b.seconds).map(|(a, b)| a + b),
            }),
        };
        self.calls_s = self.calls_s.zip(other.calls_s).map(|(a, b)| a + b);
        self.up_to = match (self.up_to, other.up_to) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (known, None) | (None, known) => known,
        };
    }
}

/// Records of a run in bounded memory: beyond [`FileRecords::MOST`], those of single ranks are added up by file, and then those of files.
#[derive(Clone, Debug, Default)]
pub struct FileRecords(Vec<FileRecord>);

impl FileRecords {
    /// The most records that are kept of a layer.
    pub const MOST: usize = 1 << 16;

    /// Adds a record.
    pub fn push(&mut self, record: FileRecord) {
        if self.0.len() >= Self::MOST {
            self.fold();
        }
        self.0.push(record);
    }

    /// Returns the records, at most [`FileRecords::MOST`].
    pub fn finish(mut self) -> Vec<FileRecord> {
        if self.0.len() > Self::MOST {
            self.fold();
        }
        self.0
    }

    fn fold(&mut self) {
        self.0 = joined_by(&self.0, |record| (record.file, record.layer));
        if self.0.len() > Self::MOST / 2 {
            // The files with most time stay; the rest is one record for each layer.
            self.0.sort_by(|a, b| b.seconds().total_cmp(&a.seconds()).then(a.file.cmp(&b.file)));
            let rest = self.0.split_off(Self::MOST / 4);
            let mut rest = joined_by(&rest, |record| (FileId::NONE, record.layer));
            rest.iter_mut().for_each(|record| record.file = FileId::NONE);
            self.0.append(&mut rest);
        }
    }
}

fn joined_by(records: &[FileRecord], key: impl Fn(&FileRecord) -> (FileId, Layer)) -> Vec<FileRecord> {
    let mut places: HashMap<(FileId, Layer), usize> = HashMap::new();
    let mut joined: Vec<FileRecord> = Vec::new();
    for record in records {
        let place = *places.entry(key(record)).or_insert(joined.len());
        match joined.get_mut(place) {
            Some(known) => known.join(record),
            None => joined.push(*record),
        }
    }
    joined
}

/// Makes records of calls that come one by one.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallRecords {
    records: Vec<FileRecord>,
    places: HashMap<(FileId, Rank, Layer), usize>,
    last: Option<usize>,
}

impl CallRecords {
    /// Adds a call, for whose end the program waited `seconds`.
    #[inline]
    pub(crate) fn add(&mut self, event: &Event, seconds: f64) {
        if event.grain != Grain::Call {
            return;
        }
        let key = (event.file, event.rank, event.layer);
        let place = match self.last {
            Some(last)
                if {
                    let record = &self.records[last];
                    (record.file, record.rank, record.layer) == key
                } =>
            {
                last
            }
            _ => self.place(key),
        };
        self.last = Some(place);
        self.records[place].add_call(event, seconds);
    }

    fn place(&mut self, key: (FileId, Rank, Layer)) -> usize {
        if self.records.len() >= 4 * FileRecords::MOST && !self.places.contains_key(&key) {
            // Too many to keep: the calls on further files are those of one.
            let rest = (FileId::NONE, Rank::ALL, key.2);
            let n_records = self.records.len();
            let place = *self.places.entry(rest).or_insert(n_records);
            if place == n_records {
                self.records.push(FileRecord::new(FileId::NONE, Rank::ALL, key.2));
            }
            return place;
        }
        let n_records = self.records.len();
        let place = *self.places.entry(key).or_insert(n_records);
        if place == n_records {
            self.records.push(FileRecord::new(key.0, key.1, key.2));
        }
        place
    }

    /// Returns the records of layers whose source has none of its own, and adds exact times to those of the others.
    pub(crate) fn finish(self, mut counted: Vec<FileRecord>) -> Vec<FileRecord> {
        let mut layers: Vec<Layer> = counted.iter().map(|record| record.layer).collect();
        layers.sort_unstable();
        layers.dedup();
        let mut traced: HashMap<(FileId, Layer), FileRecord> = HashMap::new();
        let mut own = FileRecords::default();
        let mut records = self.records;
        // In any order of the calls the same.
        records.sort_unstable_by_key(|record| (record.layer, record.file, record.rank));
        for record in records {
            if !layers.contains(&record.layer) {
                own.push(record);
            } else if record.reads.calls > 0 || record.writes.calls > 0 {
                traced
                    .entry((record.file, record.layer))
                    .and_modify(|known| known.join(&record))
                    .or_insert(record);
            }
        }
        for record in counted.iter_mut().filter(|record| record.file != FileId::NONE) {
            if let Some(traced) = traced.get(&(record.file, record.layer)) {
                record.reads.refine(&traced.reads);
                record.writes.refine(&traced.writes);
            }
        }
        counted.append(&mut own.finish());
        counted
    }
}

impl WayRecord {
    /// Takes over how the calls of a file, traced one by one, divide its time. Only if most calls were traced.
    fn refine(&mut self, traced: &Self) {
        let Some((small, traced_small)) = self.small.as_mut().zip(traced.small) else { return };
        if small.seconds.is_some() || traced.seconds <= 0.0 || self.calls == 0 {
            return;
        }
        let traced_s = self.seconds.min(traced.seconds * self.calls as f64 / traced.calls.max(1) as f64);
        small.seconds = traced_small.seconds.map(|seconds| traced_s * seconds / traced.seconds);
        self.calls_s = Some(traced_s);
    }
}

fn sum(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(a), Some(b)) => Some(a + b),
        (known, None) | (None, known) => known,
    }
}

fn sum_calls(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (known, None) | (None, known) => known,
    }
}
