//! Who did what, to which file, in calls of which size: a run at a glance, in bounded memory.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;

use crate::{
    AccessFacts, Event, EventSink, FileBytes, FileId, FileLayout, FileRecord, FileRecords, Grain, Layer,
    Loss, Op, Rank, Span, TimeSpent, file_record::CallRecords,
};

use by_rank::ByRank;
use file_ranks::FileRanks;
use heat::Heat;
use levels::{Level, Levels, SeenBy};

pub use by_rank::{LayerSpeed, RankBytes, RankTimes};

mod by_rank;
mod file_ranks;
mod heat;
mod levels;
#[cfg(test)]
mod tests;

/// Adds up a trace while it streams past: bytes per rank and time, per file, calls per operation, access sizes, time.
///
/// Memory has a limit, whatever the trace: a heat map of [`Activity::MOST_ROWS`] rows and [`Activity::MOST_BINS`] bins
/// that get wider (and rows of more ranks) when the run outgrows them, and 56 bytes a file beside the file's name. What
/// does not fit is added to something coarser and never lost. What is coarser is decided by all that was seen, not by
/// what came first: the order of events means nothing.
///
/// ```
/// use iotide_trace::{Activity, Event, EventSink, Op, Rank, Timestamp, TraceInfo};
///
/// let mut activity = Activity::new();
/// let at = |secs| Timestamp::from_secs_since_start(secs).unwrap();
/// let _ = activity.event(Event::data(Op::Write, Rank(3), at(0.0), at(2.0), 4096.0));
/// let seen = activity.finish(&TraceInfo::default());
/// assert_eq!(seen.heat.rows[0].first, Rank(3));
/// assert!((seen.heat.rows[0].written.iter().sum::<f64>() - 4096.0).abs() < 1e-6);
/// assert_eq!(seen.writes.exact[12].calls, 1); // 2¹² bytes
/// ```
#[derive(Clone, Debug, Default)]
pub struct Activity {
    heat: Heat,
    /// By [`FileId`].
    files: Vec<FileEntry>,
    file_ranks: FileRanks,
    /// Sums over files with numbers beyond [`Activity::MOST_IDS`].
    other_files: FileSums,
    /// Who saw bytes of no known file.
    nameless: SeenBy,
    most_files: MostFiles,
    reads: AccessSizes,
    writes: AccessSizes,
    ops: BTreeMap<(Layer, Op), OpSums>,
    stated: BTreeMap<(Layer, TimeKind), f64>,
    access: Vec<AccessFacts>,
    records: FileRecords,
    call_records: CallRecords,
    layouts: Vec<FileLayout>,
    n_targets: Option<u32>,
    /// Bytes in sums over a file's life, which tell nothing of when they were moved.
    untimed_bytes: f64,
    by_rank: ByRank,
    ranks: HashSet<Rank>,
    last_rank: Option<Rank>,
    span: Option<Span>,
}

impl Activity {
    /// The most rows of the heat map, beside the one of [`Rank::ALL`].
    pub const MOST_ROWS: usize = 256;
    /// The most time bins of the heat map; after a doubling, half as many are in use.
    pub const MOST_BINS: usize = 400;
    /// How many files have sums of their own in the end: those that moved most bytes.
    pub const MOST_FILES: usize = 100_000;
    /// How many pairs of file and rank are told apart. Where there are more, neighbouring ranks count as one, and the ranks
    /// of a file are a lower bound.
    pub const MOST_PAIRS: usize = 1 << 20;
    /// Readers name no more files than this; what has a number beyond is added up.
    const MOST_IDS: usize = 1 << 22;

    /// Returns a sum of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the sums, with the files' names out of `info`.
    pub fn finish(mut self, info: &crate::TraceInfo) -> ActivitySums {
        let counted: Vec<FileBytes> =
            self.access.iter().flat_map(|facts| &facts.file_bytes).copied().collect();
        for FileBytes { file, read, written } in counted {
            let sums = match self.file(file) {
                Some(entry) => &mut entry.sums,
                None => &mut self.other_files,
            };
            sums.bytes_read += read;
            sums.bytes_written += written;
        }
        let Self {
            heat,
            files,
            file_ranks,
            other_files,
            nameless,
            most_files: MostFiles(most_files),
            reads,
            writes,
            ops,
            stated,
            mut access,
            records,
            call_records,
            layouts,
            n_targets,
            untimed_bytes,
            by_rank,
            ranks,
            span,
            ..
        } = self;
        let mut files = ByPath::of(files, &file_ranks, other_files, info);
        let overlap = files.overlap || nameless.is_several();
        files.keep_largest(most_files);
        let ByPath { files, other_files, n_other_files, .. } = files;
        let files = files.into_iter().map(|(path, sums)| FileActivity { path: path.to_owned(), sums });
        let files: Vec<FileActivity> = files.collect();
        let n_other_files = n_other_files + info.files.len().saturating_sub(Self::MOST_IDS);
        access.sort_by_key(|facts| facts.layer);
        let mut by_level = [0.0; 3];
        for ((layer, _), sums) in ops.iter().filter(|((_, op), _)| op.moves_data()) {
            by_level[Level::of(*layer) as usize] += sums.bytes;
        }
        let mut layer_bytes: BTreeMap<Layer, f64> = BTreeMap::new();
        for ((layer, _), sums) in ops.iter().filter(|((_, op), _)| op.moves_data()) {
            *layer_bytes.entry(*layer).or_default() += sums.bytes;
        }
        let heat_bytes: f64 = by_level.iter().sum();
        let records = call_records.finish(records.finish());
        let levels = Levels::of(by_level, overlap);
        ActivitySums {
            span,
            n_ranks: ranks.len(),
            heat: heat.finish(),
            files,
            other_files,
            n_other_files,
            reads,
            writes,
            ops: ops.into_iter().map(|((layer, op), sums)| OpActivity { layer, op, sums }).collect(),
            speeds: by_rank.speeds(&layer_bytes, &access),
            times: layer_times(&stated),
            bytes: levels.sum(by_level),
            rank_times: by_rank.times(levels, &access),
            rank_bytes: by_rank.bytes(levels, &access),
            has_phases: heat_bytes > 0.0 && untimed_bytes <= 0.1 * heat_bytes,
            named_files: named_files(&records, info),
            records,
            layouts,
            n_targets,
            access,
        }
    }

    /// The sums of a file.
    #[inline]
    fn file(&mut self, file: FileId) -> Option<&mut FileEntry> {
        let id = file.0 as usize;
        if id >= self.files.len() {
            if id >= Self::MOST_IDS {
                return None;
            }
            self.files.resize_with(id + 1, FileEntry::default);
        }
        let entry = &mut self.files[id];
        entry.is_used = true;
        Some(entry)
    }

    fn add_to_file(&mut self, event: &Event, seconds: f64) {
        let (sums, is_new_rank) = match self.file(event.file) {
            Some(entry) => {
                // Sources write one rank's events of a file in a row: the set is asked only when the rank changes.
                let is_new_rank = event.rank != Rank::ALL && entry.last_rank != Some(event.rank);
                if is_new_rank {
                    entry.last_rank = Some(event.rank);
                }
                if event.bytes > 0.0 && event.op.moves_data() {
                    entry.seen_by.add(event.op, event.layer);
                }
                (&mut entry.sums, is_new_rank)
            }
            None => (&mut self.other_files, false),
        };
        match event.op {
            Op::Read => sums.bytes_read += event.bytes,
            Op::Write => sums.bytes_written += event.bytes,
            _ => {}
        }
        if event.grain != Grain::Bin {
            sums.calls += u64::from(event.calls);
            if event.op == Op::Open {
                sums.opens += u64::from(event.calls);
            }
        }
        if seconds > 0.0 {
            *sums.time_s.get_or_insert(0.0) += seconds;
        }
        sums.all_ranks |= event.rank == Rank::ALL;
        if is_new_rank {
            self.file_ranks.add(event.file, event.rank);
        }
    }
}

impl Activity {
    fn add(&mut self, event: Event, waited: Option<crate::Timestamp>) -> ControlFlow<()> {
        let mut event = event;
        if !(event.bytes > 0.0 && event.bytes.is_finite()) {
            event.bytes = 0.0;
        }
        event.rank = event.rank.max(Rank::ALL); // below it there is nobody
        let end = event.end.max(event.start);
        self.span = Some(match self.span {
            None => Span { start: event.start, end },
            Some(span) => Span { start: span.start.min(event.start), end: span.end.max(end) },
        });
        if self.last_rank != Some(event.rank) && event.rank != Rank::ALL {
            self.ranks.insert(event.rank);
            self.last_rank = Some(event.rank);
        }
        // A call's interval was spent in it; a sum's interval is only where its calls lie.
        let seconds = if event.grain == Grain::Call { end.secs_since(event.start) } else { 0.0 };
        // The program waits for a request beside it only at its end.
        let waits_s = waited.map_or(seconds, |waited| end.secs_since(waited.clamp(event.start, end)));
        self.call_records.add(&event, waits_s);
        if event.op.moves_data() {
            self.untimed_bytes += if event.grain == Grain::Record { event.bytes } else { 0.0 };
            self.heat.add(event.rank, event.op, event.start, end, event.bytes);
            self.by_rank.add(event.rank, event.layer, event.bytes, 0.0);
            let sizes = if event.op == Op::Read { &mut self.reads } else { &mut self.writes };
            sizes.add(&event);
        }
        let op = self.ops.entry((event.layer, event.op)).or_default();
        op.bytes += event.bytes;
        match event.grain {
            Grain::Bin => op.n_bins += 1,
            Grain::Call | Grain::Record => op.calls += u64::from(event.calls),
        }
        if event.grain == Grain::Call {
            op.time_s += seconds;
            self.by_rank.add(event.rank, event.layer, 0.0, seconds);
            *self.stated.entry((event.layer, TimeKind::of(event.op))).or_default() += seconds;
        }
        if event.file != FileId::NONE {
            self.add_to_file(&event, seconds);
        } else if event.bytes > 0.0 && event.op.moves_data() && event.layer != Layer::Stdio {
            // C streams move other bytes than the calls of MPI-IO, and logs that name no file have both.
            self.nameless.add(event.op, event.layer);
        }
        ControlFlow::Continue(())
    }
}

impl EventSink for Activity {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        self.add(event, None)
    }

    fn async_event(&mut self, event: Event, waited: crate::Timestamp) -> ControlFlow<()> {
        self.add(event, Some(waited))
    }

    fn loss(&mut self, _: Loss) {}

    fn access_facts(&mut self, facts: &AccessFacts) {
        facts.records.iter().for_each(|record| self.records.push(*record));
        self.layouts.extend_from_slice(&facts.layouts);
        self.n_targets = self.n_targets.max(facts.n_targets);
        let facts =
            &AccessFacts { records: Vec::new(), layouts: Vec::new(), n_targets: None, ..facts.clone() };
        if *facts == (AccessFacts { layer: facts.layer, ..AccessFacts::default() }) {
            return;
        }
        match self.access.iter_mut().find(|known| known.layer == facts.layer) {
            Some(known) => known.join(facts),
            None => self.access.push(facts.clone()),
        }
    }

    fn time_spent(&mut self, spent: TimeSpent) {
        if !(spent.seconds > 0.0 && spent.seconds.is_finite()) {
            return;
        }
        *self.stated.entry((spent.layer, spent.kind)).or_default() += spent.seconds;
        self.by_rank.add(spent.rank, spent.layer, 0.0, spent.seconds);
        if spent.file == FileId::NONE {
            return;
        }
        let sums = match self.file(spent.file) {
            Some(entry) => &mut entry.sums,
            None => &mut self.other_files,
        };
        *sums.time_s.get_or_insert(0.0) += spent.seconds;
    }
}

/// A file's sums while they grow.
#[derive(Clone, Debug, Default)]
struct FileEntry {
    sums: FileSums,
    last_rank: Option<Rank>,
    is_used: bool,
    seen_by: SeenBy,
}

/// Files by their names: several numbers may mean one file.
struct ByPath<'a> {
    files: Vec<(&'a str, FileSums)>,
    /// Sums over files that have no name, or are not kept.
    other_files: FileSums,
    n_other_files: usize,
    /// Whether several layers saw the same bytes.
    overlap: bool,
}

impl<'a> ByPath<'a> {
    fn of(
        files: Vec<FileEntry>,
        file_ranks: &FileRanks,
        other_files: FileSums,
        info: &'a crate::TraceInfo,
    ) -> Self {
        let mut sums = Self { files: Vec::new(), other_files, n_other_files: 0, overlap: false };
        let n_ranks = file_ranks.count(files.len());
        let mut by_path: HashMap<&str, (FileSums, SeenBy)> = HashMap::new();
        for ((id, entry), n_ranks) in files.into_iter().enumerate().zip(n_ranks) {
            if !entry.is_used {
                continue;
            }
            // A rank that was seen is one, however many are taken together.
            let n_ranks = n_ranks.max(u32::from(entry.last_rank.is_some()));
            let Some(path) = info.files.get(id) else {
                sums.overlap |= entry.seen_by.is_several();
                sums.add_other(&entry.sums);
                continue;
            };
            let file = FileSums {
                n_ranks,
                more_ranks: n_ranks > 0 && file_ranks.are_more_than_counted(),
                ..entry.sums
            };
            let (known, seen_by) = by_path.entry(path).or_default();
            known.join(&file);
            seen_by.join(entry.seen_by);
        }
        sums.overlap |= by_path.values().any(|(_, seen_by)| seen_by.is_several());
        sums.files = by_path.into_iter().map(|(path, (sums, _))| (path, sums)).collect();
        sums
    }

    /// Orders files by what they moved, and keeps so many.
    fn keep_largest(&mut self, most_files: usize) {
        self.files.sort_unstable_by(|(one_path, one), (other_path, other)| {
            (other.bytes().total_cmp(&one.bytes()))
                .then(other.calls.cmp(&one.calls))
                .then_with(|| one_path.cmp(other_path))
        });
        for (_, file) in self.files.split_off(self.files.len().min(most_files)) {
            self.add_other(&file);
        }
    }

    fn add_other(&mut self, file: &FileSums) {
        self.other_files.join(file);
        self.n_other_files += 1;
    }
}

#[derive(Clone, Copy, Debug)]
struct MostFiles(usize);

impl Default for MostFiles {
    fn default() -> Self {
        Self(Activity::MOST_FILES)
    }
}

/// Activity of a run, in sums.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ActivitySums {
    /// From the first event to the last.
    pub span: Option<Span>,
    /// How many different ranks were named.
    pub n_ranks: usize,
    /// Bytes per rank and time.
    pub heat: HeatMap,
    /// The files, those that moved most bytes first.
    pub files: Vec<FileActivity>,
    /// Sums over the files that are not in `files`.
    pub other_files: FileSums,
    /// How many those are.
    pub n_other_files: usize,
    /// How large reads were.
    pub reads: AccessSizes,
    /// How large writes were.
    pub writes: AccessSizes,
    /// Calls and bytes per layer and operation.
    pub ops: Vec<OpActivity>,
    /// Bytes moved. Where layers saw the same bytes, those of the lowest layer that saw them all.
    pub bytes: f64,
    /// Time in calls per layer; layers of which no time is known are left out.
    pub times: Vec<LayerTimes>,
    /// How fast each layer moved its bytes by its slowest rank, where times are known by rank.
    pub speeds: Vec<LayerSpeed>,
    /// How the time in calls differs between ranks, where it is known by rank.
    pub rank_times: Option<RankTimes>,
    /// How the bytes differ between ranks, as far as they are known by rank.
    pub rank_bytes: Option<RankBytes>,
    /// Whether the heat map tells when bytes were moved, and not only between which times.
    pub has_phases: bool,
    /// Operations of each rank, or of all together, on each file, layer by layer.
    pub records: Vec<FileRecord>,
    /// Which files are on which storage targets.
    pub layouts: Vec<FileLayout>,
    /// How many storage targets the file system has, as far as the source tells.
    pub n_targets: Option<u32>,
    /// The names of the files that `records` mentions.
    pub named_files: BTreeMap<FileId, String>,
    /// Counts of the source beside times, by layer.
    pub access: Vec<AccessFacts>,
}

/// Bytes per rank and time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeatMap {
    /// When the first bin begins, in seconds on the trace's clock.
    pub start_s: f64,
    /// How long a bin is.
    pub bin_s: f64,
    /// How many bins each row has.
    pub n_bins: usize,
    /// How many ranks a row stands for.
    pub ranks_per_row: u32,
    /// The rows of those ranks that moved data, [`Rank::ALL`] first, then ascending.
    pub rows: Vec<HeatRow>,
}

/// Bytes over time of one rank, or of `first` to `last` together.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatRow {
    /// The first rank of this row.
    pub first: Rank,
    /// The last one it may stand for.
    pub last: Rank,
    /// Bytes read in each bin.
    pub read: Vec<f64>,
    /// Bytes written in each bin.
    pub written: Vec<f64>,
}

/// Operations on one file.
#[derive(Clone, Debug, PartialEq)]
pub struct FileActivity {
    /// Its name.
    pub path: String,
    /// Sums over the operations on it.
    pub sums: FileSums,
}

/// Sums over the operations on a file, or on several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileSums {
    /// Bytes moved from it.
    pub bytes_read: f64,
    /// Bytes moved to it.
    pub bytes_written: f64,
    /// Calls of any kind.
    pub calls: u64,
    /// How often it was opened.
    pub opens: u64,
    /// Time in calls, summed over ranks, where it is known.
    pub time_s: Option<f64>,
    /// How many ranks used it, as far as they were told apart.
    pub n_ranks: u32,
    /// Whether there may be more ranks than `n_ranks`.
    pub more_ranks: bool,
    /// Whether the source says that all ranks used it.
    pub all_ranks: bool,
}

impl FileSums {
    /// Bytes moved either way.
    pub fn bytes(&self) -> f64 {
        self.bytes_read + self.bytes_written
    }

    /// Whether nothing was ever done.
    pub fn is_empty(&self) -> bool {
        self.calls == 0 && self.bytes() == 0.0 && self.time_s.is_none()
    }

    /// Adds the sums of the same file out of another part of the run.
    fn join(&mut self, other: &Self) {
        let is_first = self.is_empty() && self.n_ranks == 0;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.calls += other.calls;
        self.opens += other.opens;
        if let Some(time_s) = other.time_s {
            *self.time_s.get_or_insert(0.0) += time_s;
        }
        // Parts of a run may or may not be of different ranks.
        self.more_ranks |= other.more_ranks || !is_first;
        self.n_ranks = self.n_ranks.max(other.n_ranks);
        self.all_ranks |= other.all_ranks;
    }
}

/// How large the calls of one direction were.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessSizes {
    /// Calls that were seen one by one: `exact[k]` has those of 2ᵏ to 2ᵏ⁺¹ − 1 bytes.
    pub exact: [SizeBin; AccessSizes::BINS],
    /// Calls of which only sums are known, where the mean size of their sum falls.
    pub averaged: [SizeBin; AccessSizes::BINS],
    /// Calls that moved nothing.
    pub empty: u64,
    /// Sums over time bins, whose calls nobody counted.
    pub n_uncounted: u64,
    /// Bytes in these.
    pub bytes_uncounted: f64,
    /// Calls that were seen one by one, in each of [`crate::SIZE_RANGES`].
    pub ranges: [u64; crate::SIZE_RANGES.len()],
}

impl AccessSizes {
    /// Up to 2⁶³ bytes.
    pub const BINS: usize = 64;

    fn add(&mut self, event: &Event) {
        let bins = match (event.grain, event.calls) {
            (Grain::Bin, _) | (_, 0) => {
                self.n_uncounted += 1;
                self.bytes_uncounted += event.bytes;
                return;
            }
            (Grain::Call, 1) => {
                self.ranges[crate::size_range(event.bytes)] += 1;
                &mut self.exact
            }
            (Grain::Call | Grain::Record, _) => &mut self.averaged,
        };
        let size = event.bytes / f64::from(event.calls);
        if size <= 0.0 {
            self.empty += u64::from(event.calls);
            return;
        }
        // A mean of less than a byte stands with the single bytes. Beyond 2⁶⁴ the conversion holds to the last bin.
        let bin = &mut bins[(size.max(1.0) as u64).ilog2() as usize];
        bin.calls += u64::from(event.calls);
        bin.bytes += event.bytes;
    }
}

impl Default for AccessSizes {
    fn default() -> Self {
        let none = [SizeBin::default(); Self::BINS];
        let ranges = [0; crate::SIZE_RANGES.len()];
        Self { exact: none, averaged: none, empty: 0, n_uncounted: 0, bytes_uncounted: 0.0, ranges }
    }
}

/// The calls of about one size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SizeBin {
    /// How many.
    pub calls: u64,
    /// Bytes they moved together.
    pub bytes: f64,
}

/// How often something was done in one layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OpActivity {
    /// The layer that saw it.
    pub layer: Layer,
    /// The operation.
    pub op: Op,
    /// How often.
    pub sums: OpSums,
}

/// Sums over one kind of operation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OpSums {
    /// Calls, where they were counted.
    pub calls: u64,
    /// Sums over time bins, whose calls nobody counted.
    pub n_bins: u64,
    /// Bytes moved.
    pub bytes: f64,
    /// Time in those calls that were seen one by one.
    pub time_s: f64,
}

/// Time in calls of one layer, summed over ranks. What the source does not tell is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LayerTimes {
    /// The layer that saw it.
    pub layer: Layer,
    /// Time in reads.
    pub read_s: Option<f64>,
    /// Time in writes.
    pub write_s: Option<f64>,
    /// Time in all other calls.
    pub metadata_s: Option<f64>,
}

/// Kind of activity that time was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TimeKind {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// All other calls.
    Metadata,
}

impl TimeKind {
    /// Returns the kind of time that a call of that operation spends.
    pub fn of(op: Op) -> Self {
        match op {
            Op::Read => TimeKind::Read,
            Op::Write => TimeKind::Write,
            _ => TimeKind::Metadata,
        }
    }
}

fn layer_times(stated: &BTreeMap<(Layer, TimeKind), f64>) -> Vec<LayerTimes> {
    let mut times: Vec<LayerTimes> = Vec::new();
    for (&(layer, kind), &seconds) in stated {
        if times.last().is_none_or(|last| last.layer != layer) {
            times.push(LayerTimes { layer, ..LayerTimes::default() });
        }
        let Some(last) = times.last_mut() else { continue };
        match kind {
            TimeKind::Read => last.read_s = Some(seconds),
            TimeKind::Write => last.write_s = Some(seconds),
            TimeKind::Metadata => last.metadata_s = Some(seconds),
        }
    }
    times
}

fn named_files(records: &[FileRecord], info: &crate::TraceInfo) -> BTreeMap<FileId, String> {
    let files = records.iter().map(|record| record.file);
    files.filter_map(|file| Some((file, info.files.get(file.0 as usize)?.clone()))).collect()
}
