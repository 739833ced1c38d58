//! Who did what, to which file, in calls of which size: a run at a glance, in bounded memory.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;

use crate::{
    AccessFacts, Event, EventSink, FileId, Grain, Layer, Loss, Op, Rank, Span, TimeSpent, Timestamp,
};

/// Adds up a trace while it streams past: bytes per rank and time, per file, calls per operation, access sizes, time.
///
/// Memory has a limit, whatever the trace: a heat map of [`Activity::MOST_ROWS`] rows and [`Activity::MOST_BINS`] bins
/// that get wider (and rows of more ranks) when the run outgrows them, and [`Activity::MOST_FILES`] files. What does
/// not fit is added to something coarser and never lost.
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
    files: HashMap<FileId, FileSums>,
    /// Which ranks used which file, up to [`Activity::MOST_PAIRS`].
    pairs: HashSet<(FileId, Rank)>,
    /// Sums over the files that came after the table was full.
    other_files: FileSums,
    reads: AccessSizes,
    writes: AccessSizes,
    ops: BTreeMap<(Layer, Op), OpSums>,
    stated: BTreeMap<(Layer, TimeKind), f64>,
    access: Vec<AccessFacts>,
    /// Time in calls per rank, up to [`Activity::MOST_RANKS`].
    rank_times: HashMap<Rank, f64>,
    ranks: HashSet<Rank>,
    last_rank: Option<Rank>,
    span: Option<Span>,
}

impl Activity {
    /// The most rows of the heat map, beside the one of [`Rank::ALL`].
    pub const MOST_ROWS: usize = 256;
    /// The most time bins of the heat map; after a doubling, half as many are in use.
    pub const MOST_BINS: usize = 400;
    /// How many files have sums of their own.
    pub const MOST_FILES: usize = 100_000;
    /// How many pairs of file and rank are told apart; beyond that, the ranks of a file are a lower bound.
    pub const MOST_PAIRS: usize = 1 << 20;

    /// How many ranks have their time in calls told apart.
    pub const MOST_RANKS: usize = 1 << 16;

    /// Returns a sum of nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the sums, with the files' names out of `info`.
    pub fn finish(self, info: &crate::TraceInfo) -> ActivitySums {
        let Self {
            heat,
            files,
            other_files,
            reads,
            writes,
            ops,
            stated,
            access,
            rank_times,
            ranks,
            span,
            ..
        } = self;
        let n_kept = files.len();
        let mut by_path: HashMap<&str, FileSums> = HashMap::new();
        for (id, sums) in files {
            let Some(path) = info.files.get(id.0 as usize) else { continue };
            by_path.entry(path).or_default().join(&sums);
        }
        let mut files: Vec<FileActivity> =
            by_path.into_iter().map(|(path, sums)| FileActivity { path: path.to_owned(), sums }).collect();
        files.sort_unstable_by(|a, b| {
            let (one, other) = (&a.sums, &b.sums);
            (other.bytes().total_cmp(&one.bytes()))
                .then(other.calls.cmp(&one.calls))
                .then_with(|| a.path.cmp(&b.path))
        });
        let n_other_files = if other_files.is_empty() { 0 } else { info.files.len().saturating_sub(n_kept) };
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
            times: layer_times(&stated),
            rank_times: RankTimes::of(&rank_times),
            access,
        }
    }

    fn add_to_file(&mut self, event: &Event, seconds: f64) {
        let is_full = self.files.len() >= Self::MOST_FILES;
        let sums = match self.files.get_mut(&event.file) {
            Some(sums) => sums,
            None if is_full => &mut self.other_files,
            None => self.files.entry(event.file).or_default(),
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
        if event.rank == Rank::ALL {
            sums.all_ranks = true;
        } else if sums.last_rank != Some(event.rank) {
            // Sources write one rank's events of a file in a row: the set is asked only when the rank changes.
            sums.last_rank = Some(event.rank);
            if self.pairs.len() >= Self::MOST_PAIRS {
                sums.more_ranks |= !self.pairs.contains(&(event.file, event.rank));
            } else if self.pairs.insert((event.file, event.rank)) {
                sums.n_ranks += 1;
            }
        }
    }
}

impl EventSink for Activity {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
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
        if event.op.moves_data() {
            self.heat.add(event.rank, event.op, event.start, end, event.bytes);
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
            if event.rank != Rank::ALL
                && (self.rank_times.len() < Self::MOST_RANKS || self.rank_times.contains_key(&event.rank))
            {
                *self.rank_times.entry(event.rank).or_default() += seconds;
            }
            *self.stated.entry((event.layer, TimeKind::of(event.op))).or_default() += seconds;
        }
        if event.file != FileId::NONE {
            self.add_to_file(&event, seconds);
        }
        ControlFlow::Continue(())
    }

    fn loss(&mut self, _: Loss) {}

    fn access_facts(&mut self, facts: &AccessFacts) {
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
        let is_full = self.files.len() >= Self::MOST_FILES;
        let sums = match self.files.get_mut(&spent.file) {
            Some(sums) => sums,
            None if spent.file == FileId::NONE => return,
            None if is_full => &mut self.other_files,
            None => self.files.entry(spent.file).or_default(),
        };
        *sums.time_s.get_or_insert(0.0) += spent.seconds;
    }
}

/// What a run did, in sums.
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
    /// Time in calls per layer; layers of which no time is known are left out.
    pub times: Vec<LayerTimes>,
    /// How the time in calls differs between ranks, where calls were seen one by one.
    pub rank_times: Option<RankTimes>,
    /// What the source counted beside times, by layer.
    pub access: Vec<AccessFacts>,
}

/// Time in calls, rank by rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankTimes {
    /// How many ranks made calls.
    pub n_ranks: usize,
    /// Who spent most.
    pub slowest: Rank,
    /// How much that was.
    pub slowest_s: f64,
    /// The mean over those ranks.
    pub mean_s: f64,
}

impl RankTimes {
    fn of(times: &HashMap<Rank, f64>) -> Option<Self> {
        // The lower rank on a tie: a table has no order of its own.
        let (&slowest, &slowest_s) =
            times.iter().max_by(|a, b| a.1.total_cmp(b.1).then_with(|| b.0.cmp(a.0)))?;
        let mut all: Vec<f64> = times.values().copied().collect();
        all.sort_unstable_by(f64::total_cmp); // the same sum, however the table lies
        let mean_s = all.iter().sum::<f64>() / all.len() as f64;
        Some(Self { n_ranks: times.len(), slowest, slowest_s, mean_s })
    }
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

/// What was done to one file.
#[derive(Clone, Debug, PartialEq)]
pub struct FileActivity {
    /// Its name.
    pub path: String,
    /// What was done to it.
    pub sums: FileSums,
}

/// What was done to a file, or to several.
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
    last_rank: Option<Rank>,
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
            (Grain::Call, 1) => &mut self.exact,
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
        Self { exact: none, averaged: none, empty: 0, n_uncounted: 0, bytes_uncounted: 0.0 }
    }
}

/// The calls of about one size.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SizeBin {
    /// How many.
    pub calls: u64,
    /// What they moved together.
    pub bytes: f64,
}

/// How often something was done in one layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OpActivity {
    /// The layer that saw it.
    pub layer: Layer,
    /// What was done.
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

/// What time was spent on.
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
    /// What a call of that operation spends its time on.
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

/// The heat map while it grows: bins are numbered from the clock's zero, so that folding two into one is a division.
#[derive(Clone, Debug)]
struct Heat {
    /// A power of two, in nanoseconds.
    bin_nanos: i64,
    /// The numbers of the first bin in use and of the last.
    bins: Option<(i64, i64)>,
    /// A power of two.
    ranks_per_row: u32,
    /// By rank / `ranks_per_row`; every row has [`Activity::MOST_BINS`] bins from the first in use.
    rows: BTreeMap<u32, HeatSums>,
    all_ranks: Option<HeatSums>,
}

#[derive(Clone, Debug)]
struct HeatSums {
    read: Vec<f64>,
    written: Vec<f64>,
}

impl Default for HeatSums {
    fn default() -> Self {
        let none = vec![0.0; Activity::MOST_BINS];
        Self { read: none.clone(), written: none }
    }
}

impl Default for Heat {
    fn default() -> Self {
        Self { bin_nanos: 1, bins: None, ranks_per_row: 1, rows: BTreeMap::new(), all_ranks: None }
    }
}

impl Heat {
    fn add(&mut self, rank: Rank, op: Op, start: Timestamp, end: Timestamp, bytes: f64) {
        if bytes <= 0.0 {
            return;
        }
        // A request of no length is one nanosecond long.
        let (start, end) = (start.as_nanos(), end.as_nanos().max(start.as_nanos() + 1));
        let first = self.make_room(start, end);
        let bin_nanos = self.bin_nanos;
        let row = self.row(rank);
        let volumes = if op == Op::Read { &mut row.read } else { &mut row.written };
        let (from, to) = (start.div_euclid(bin_nanos), (end - 1).div_euclid(bin_nanos));
        let (left, right) = ((from - first) as usize, (to - first) as usize);
        if left == right {
            volumes[left] += bytes;
            return;
        }
        let per_nano = bytes / (end - start) as f64;
        volumes[left] += per_nano * ((from + 1) * bin_nanos - start) as f64;
        volumes[right] += per_nano * (end - to * bin_nanos) as f64;
        for volume in &mut volumes[left + 1..right] {
            *volume += per_nano * bin_nanos as f64;
        }
    }

    /// Makes the bins reach from `start` to `end` and returns the number of the first.
    fn make_room(&mut self, start: i64, end: i64) -> i64 {
        const MOST: i64 = Activity::MOST_BINS as i64;
        loop {
            let (from, to) = (start.div_euclid(self.bin_nanos), (end - 1).div_euclid(self.bin_nanos));
            let Some((first, last)) = self.bins else {
                if to - from < MOST {
                    self.bins = Some((from, to));
                    return from;
                }
                self.bin_nanos *= 2;
                continue;
            };
            let (wanted, until) = (first.min(from), last.max(to));
            if until - wanted < MOST {
                let shift = (first - wanted) as usize;
                if shift > 0 {
                    // What is pushed out at the end was never in use.
                    self.each_row(|volumes| volumes.rotate_right(shift));
                }
                self.bins = Some((wanted, until));
                return wanted;
            }
            self.bin_nanos *= 2;
            let odd = first.rem_euclid(2) as usize;
            self.bins = Some((first.div_euclid(2), last.div_euclid(2)));
            self.each_row(|volumes| {
                let mut folded = vec![0.0; Activity::MOST_BINS];
                for (i, volume) in volumes.iter().enumerate() {
                    folded[(i + odd) / 2] += volume;
                }
                *volumes = folded;
            });
        }
    }

    fn each_row(&mut self, mut change: impl FnMut(&mut Vec<f64>)) {
        for row in self.rows.values_mut().chain(&mut self.all_ranks) {
            change(&mut row.read);
            change(&mut row.written);
        }
    }

    fn row(&mut self, rank: Rank) -> &mut HeatSums {
        let Ok(rank) = u32::try_from(rank.0) else { return self.all_ranks.get_or_insert_default() };
        while self.rows.len() >= Activity::MOST_ROWS && !self.rows.contains_key(&(rank / self.ranks_per_row))
        {
            self.ranks_per_row *= 2;
            for (key, row) in std::mem::take(&mut self.rows) {
                let joined = self.rows.entry(key / 2).or_default();
                joined.read.iter_mut().zip(&row.read).for_each(|(sum, bytes)| *sum += bytes);
                joined.written.iter_mut().zip(&row.written).for_each(|(sum, bytes)| *sum += bytes);
            }
        }
        self.rows.entry(rank / self.ranks_per_row).or_default()
    }

    fn finish(self) -> HeatMap {
        let Self { bin_nanos, bins, ranks_per_row, rows, all_ranks } = self;
        let Some((first, last)) = bins else { return HeatMap::default() };
        let n_bins = (last - first + 1) as usize;
        let cut = |mut volumes: Vec<f64>| {
            volumes.truncate(n_bins);
            volumes
        };
        let told = |first: i32, last: i32, sums: HeatSums| HeatRow {
            first: Rank(first),
            last: Rank(last),
            read: cut(sums.read),
            written: cut(sums.written),
        };
        let ranks = rows.into_iter().map(|(key, sums)| {
            // A rank is at most `i32::MAX`, and so is the first of its row; the last may not be.
            let first = key * ranks_per_row;
            let last = first.saturating_add(ranks_per_row - 1).min(i32::MAX as u32);
            told(first as i32, last as i32, sums)
        });
        HeatMap {
            start_s: Timestamp::from_nanos_since_start(first * bin_nanos).as_secs(),
            bin_s: bin_nanos as f64 * 1e-9,
            n_bins,
            ranks_per_row,
            rows: all_ranks.into_iter().map(|sums| told(-1, -1, sums)).chain(ranks).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TraceInfo;
    use proptest::prelude::*;

    fn at(secs: f64) -> Timestamp {
        Timestamp::from_secs_since_start(secs).unwrap()
    }

    fn write(rank: i32, start_s: f64, end_s: f64, bytes: f64) -> Event {
        Event::data(Op::Write, Rank(rank), at(start_s), at(end_s), bytes)
    }

    fn seen(events: impl IntoIterator<Item = Event>, files: &[&str]) -> ActivitySums {
        let mut activity = Activity::new();
        for event in events {
            let _ = activity.event(event);
        }
        let files = files.iter().map(|&path| path.to_owned()).collect();
        activity.finish(&TraceInfo { files, ..TraceInfo::default() })
    }

    fn volume(heat: &HeatMap) -> (f64, f64) {
        let of = |volumes: fn(&HeatRow) -> &Vec<f64>| heat.rows.iter().flat_map(volumes).sum::<f64>();
        (of(|row| &row.read), of(|row| &row.written))
    }

    #[test]
    fn each_rank_is_a_row_and_all_ranks_together_are_the_first() {
        let sums = seen([write(7, 0.0, 1.0, 8.0), write(-1, 0.0, 1.0, 2.0), write(0, 1.0, 2.0, 4.0)], &[]);
        let rows: Vec<_> = sums
            .heat
            .rows
            .iter()
            .map(|row| (row.first.0, row.last.0, row.written.iter().sum::<f64>().round()))
            .collect();
        assert_eq!(rows, [(-1, -1, 2.0), (0, 0, 4.0), (7, 7, 8.0)]);
        assert_eq!(sums.n_ranks, 2);
    }

    #[test]
    fn a_request_is_spread_over_the_bins_it_lasts() {
        let sums = seen([write(0, 0.0, 0.5, 1.0), write(0, 0.0, 100.0, 1000.0)], &[]);
        let heat = &sums.heat;
        assert!((200..=400).contains(&heat.n_bins), "{}", heat.n_bins);
        let per_bin = 10.0 * heat.bin_s;
        for (i, &bytes) in heat.rows[0].written[2..heat.n_bins - 1].iter().enumerate() {
            assert!((bytes - per_bin).abs() < 1e-9 * per_bin, "bin {i}: {bytes}, not {per_bin}");
        }
    }

    #[test]
    fn many_ranks_share_rows() {
        let sums = seen((0..5000).map(|rank| write(rank, 0.0, 1.0, 1.0)), &[]);
        assert_eq!((sums.heat.ranks_per_row, sums.heat.rows.len()), (32, 157));
        assert_eq!((sums.heat.rows[1].first, sums.heat.rows[1].last), (Rank(32), Rank(63)));
        assert_eq!(sums.n_ranks, 5000);
    }

    #[test]
    fn a_rank_out_of_all_proportion_does_not_squeeze_the_others() {
        let sums = seen([0, 1, 2, i32::MAX].map(|rank| write(rank, 0.0, 1.0, 1.0)), &[]);
        assert_eq!((sums.heat.ranks_per_row, sums.heat.rows.len()), (1, 4));
        let crowd = (0..300).chain([i32::MAX, i32::MAX - 1]);
        let sums = seen(crowd.map(|rank| write(rank, 0.0, 1.0, 1.0)), &[]);
        assert_eq!((sums.heat.ranks_per_row, sums.heat.rows.last().unwrap().last), (2, Rank(i32::MAX)));
    }

    #[test]
    fn the_ends_of_time_have_room() {
        let (first, last) =
            (Timestamp::from_nanos_since_start(i64::MIN), Timestamp::from_nanos_since_start(i64::MAX));
        let event = |start, end| Event { start, end, ..write(0, 0.0, 0.0, 1.0) };
        let sums = seen([event(first, first), event(last, last), event(first, last)], &[]);
        assert!((volume(&sums.heat).1 - 3.0).abs() < 1e-9);
    }

    #[test]
    fn sizes_fall_between_powers_of_two() {
        let sums = seen([0.0, 1.0, 1023.0, 1024.0, 1e30].map(|bytes| write(0, 0.0, 1.0, bytes)), &[]);
        let found: Vec<_> = (0..64).filter(|&k| sums.writes.exact[k].calls > 0).collect();
        assert_eq!((found, sums.writes.empty), (vec![0, 9, 10, 63], 1));
    }

    #[test]
    fn a_sum_of_calls_has_a_mean_size_and_no_time() {
        let record = Event { grain: Grain::Record, calls: 10, ..write(0, 0.0, 5.0, 40_960.0) };
        let bin = Event { grain: Grain::Bin, ..write(0, 0.0, 5.0, 7.0) };
        let sums = seen([record, bin], &[]);
        assert_eq!(sums.writes.averaged[12], SizeBin { calls: 10, bytes: 40_960.0 });
        assert_eq!((sums.writes.n_uncounted, sums.writes.bytes_uncounted), (1, 7.0));
        assert_eq!(sums.times, []);
        assert_eq!((sums.ops[0].sums.calls, sums.ops[0].sums.n_bins), (10, 1));
    }

    #[test]
    fn time_is_kept_per_layer_and_kind_whoever_states_it() {
        let mut activity = Activity::new();
        let _ = activity.event(write(0, 0.0, 2.0, 1.0));
        let _ = activity.event(Event { op: Op::Open, ..write(0, 2.0, 2.5, 0.0) });
        activity.time_spent(TimeSpent {
            layer: Layer::Posix,
            kind: TimeKind::Metadata,
            file: FileId(0),
            seconds: 3.0,
        });
        let sums = activity.finish(&TraceInfo { files: vec!["f".into()], ..TraceInfo::default() });
        let expected = [
            LayerTimes { layer: Layer::Unknown, read_s: None, write_s: Some(2.0), metadata_s: Some(0.5) },
            LayerTimes { layer: Layer::Posix, read_s: None, write_s: None, metadata_s: Some(3.0) },
        ];
        assert_eq!(sums.times, expected);
        assert_eq!(sums.files[0].sums.time_s, Some(3.0));
    }

    #[test]
    fn files_have_their_sums_the_heaviest_first() {
        let on = |file: u32, event: Event| Event { file: FileId(file), ..event };
        let open = |rank| Event { op: Op::Open, ..write(rank, 0.0, 0.25, 0.0) };
        let read = |rank| Event { op: Op::Read, ..write(rank, 1.0, 2.0, 5.0) };
        let sums = seen(
            [
                on(0, open(0)),
                on(1, open(1)),
                on(1, read(0)),
                on(1, read(1)),
                on(1, read(0)),
                write(5, 0.0, 1.0, 9.0),
            ],
            &["small", "large"],
        );
        let told: Vec<_> = (sums.files.iter())
            .map(|FileActivity { path, sums }| {
                (path.as_str(), sums.bytes_read, sums.calls, sums.opens, sums.time_s, sums.n_ranks)
            })
            .collect();
        assert_eq!(told, [("large", 15.0, 4, 1, Some(3.25), 2), ("small", 0.0, 1, 1, Some(0.25), 1)]);
    }

    #[test]
    fn parts_of_a_run_that_name_the_same_file_mean_the_same_file() {
        let on = |file: u32| Event { file: FileId(file), ..write(0, 0.0, 1.0, 5.0) };
        let sums = seen([on(0), on(1)], &["f", "f"]);
        assert_eq!((sums.files.len(), sums.files[0].sums.bytes_written), (1, 10.0));
    }

    #[test]
    fn what_comes_after_the_file_table_is_full_is_added_up() {
        let n_files = Activity::MOST_FILES + 50_000;
        let names: Vec<String> = (0..n_files).map(|i| format!("f{i}")).collect();
        let mut activity = Activity::new();
        for i in 0..n_files {
            let _ = activity.event(Event { file: FileId(i as u32), ..write(0, 0.0, 1.0, 2.0) });
        }
        let sums = activity.finish(&TraceInfo { files: names, ..TraceInfo::default() });
        assert_eq!((sums.files.len(), sums.n_other_files), (Activity::MOST_FILES, 50_000));
        assert_eq!(sums.other_files.bytes_written, 100_000.0);
    }

    fn events() -> impl Strategy<Value = Vec<Event>> {
        let edge = prop_oneof![0..50i64, -5_000_000_000..5_000_000_000i64, -(1i64 << 61)..(1i64 << 61)];
        let length = prop_oneof![0..4i64, 0..1_000_000i64, 0..20_000_000_000i64];
        let rank = prop_oneof![-1..4i32, 0..2000i32, 0..=i32::MAX];
        let event = (any::<bool>(), rank, edge, length, 0.0..1e9f64).prop_map(
            |(is_read, rank, start, length, bytes)| {
                let op = if is_read { Op::Read } else { Op::Write };
                let start = Timestamp::from_nanos_since_start(start);
                Event::data(op, Rank(rank), start, start.plus_nanos(length), bytes)
            },
        );
        prop::collection::vec(event, 1..700)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn the_heat_map_holds_the_bytes_of_the_trace_and_stays_within_its_bounds(events in events()) {
            let of = |op| events.iter().filter(|event| event.op == op).map(|event| event.bytes).sum::<f64>();
            let (read, written) = (of(Op::Read), of(Op::Write));
            let sums = seen(events.iter().copied(), &[]);
            let found = volume(&sums.heat);
            prop_assert!((found.0 - read).abs() <= 1e-9 * read, "{} read, not {read}", found.0);
            prop_assert!((found.1 - written).abs() <= 1e-9 * written, "{} written, not {written}", found.1);
            prop_assert!(sums.heat.n_bins <= Activity::MOST_BINS && sums.heat.rows.len() <= Activity::MOST_ROWS + 1);
            prop_assert!(sums.heat.rows.iter().all(|row| row.read.len() == sums.heat.n_bins));
            let n_sized: u64 = [&sums.reads, &sums.writes].iter()
                .map(|sizes| sizes.exact.iter().map(|bin| bin.calls).sum::<u64>() + sizes.empty).sum();
            prop_assert_eq!(n_sized, events.len() as u64);
        }

        #[test]
        fn the_order_of_events_means_nothing(events in events()) {
            let forwards = seen(events.iter().copied(), &[]);
            let backwards = seen(events.iter().rev().copied(), &[]);
            prop_assert_eq!(forwards.heat.rows.len(), backwards.heat.rows.len());
            prop_assert_eq!(forwards.heat.bin_s, backwards.heat.bin_s);
            prop_assert_eq!(forwards.heat.start_s, backwards.heat.start_s);
        }
    }
}
