//! Report: who did what, to which file, in calls of which size.

use iotide_look::Untrusted;
use iotide_trace::{AccessSizes, ActivitySums, FileSums, Layer, LayerTimes, Op, OpActivity, Rank, SizeBin};
use serde::Serialize;

use crate::Source;
use crate::zero::Zero;

/// Sums over the activity of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Activity {
    /// How many ranks the shares of time are of.
    pub n_ranks: u64,
    /// How long the run was.
    pub run_time_s: f64,
    /// Bytes per rank and time; `None` if nothing was moved.
    pub heat_map: Option<HeatMap>,
    /// The heaviest files, at most [`Activity::MOST_FILES`].
    pub files: Vec<File>,
    /// How many more files there were.
    pub n_more_files: u64,
    /// Bytes moved from and to those files.
    pub bytes_of_more_files: f64,
    /// How large calls were, in powers of two.
    pub access_sizes: Vec<SizeRow>,
    /// Calls that moved nothing.
    pub empty_calls: u64,
    /// Bytes of which the calls were not counted.
    pub bytes_of_unknown_size: f64,
    /// How often what was done.
    pub operations: Vec<Operation>,
    /// Time in calls per layer, where it is known.
    pub time: Vec<LayerTime>,
}

/// Bytes per rank and time.
#[derive(Clone, Debug, Serialize)]
pub struct HeatMap {
    /// When the first bin begins.
    pub start_s: f64,
    /// How long a bin is.
    pub bin_s: f64,
    /// How many bins a row has.
    pub n_bins: usize,
    /// How many ranks a row stands for.
    pub ranks_per_row: u32,
    /// The rows; ranks that moved nothing have no numbers, if they have a row.
    pub rows: Vec<HeatRow>,
    /// Origin of its times on a page.
    #[serde(skip)]
    pub zero: Zero,
}

impl HeatMap {
    /// Whether a quarter of the ranks moved most of the bytes.
    pub fn is_uneven(&self) -> bool {
        /// A quarter has a quarter where all do the same.
        const MOST: f64 = 0.6;
        let ranks = self.rows.iter().filter(|row| row.first_rank >= 0);
        let mut bytes: Vec<f64> =
            ranks.map(|row| row.bytes_read.iter().chain(&row.bytes_written).sum()).collect();
        bytes.sort_unstable_by(f64::total_cmp);
        let n = bytes.len();
        n >= 4 && bytes[n - n / 4..].iter().sum::<f64>() > MOST * bytes.iter().sum::<f64>()
    }
}

/// Bytes over time of one rank or a few.
#[derive(Clone, Debug, Serialize)]
pub struct HeatRow {
    /// The first rank, −1 for all together.
    pub first_rank: i32,
    /// The last rank.
    pub last_rank: i32,
    /// Bytes read per bin.
    pub bytes_read: Vec<f64>,
    /// Bytes written per bin.
    pub bytes_written: Vec<f64>,
}

/// Activity on a file.
#[derive(Clone, Debug, Default, Serialize)]
pub struct File {
    /// Its name.
    pub path: Untrusted,
    /// Bytes moved from it.
    pub bytes_read: f64,
    /// Bytes moved to it.
    pub bytes_written: f64,
    /// Calls of any kind.
    pub calls: u64,
    /// How often it was opened.
    pub opens: u64,
    /// Time in calls, summed over ranks.
    pub time_s: Option<f64>,
    /// How many ranks used it; `None` if the source does not tell them apart.
    pub n_ranks: Option<u32>,
    /// Whether there may be more.
    pub more_ranks: bool,
}

/// The calls of `from_bytes` up to twice that.
#[derive(Clone, Debug, Serialize)]
pub struct SizeRow {
    /// The smallest size, a power of two.
    pub from_bytes: f64,
    /// Reads that were seen one by one.
    pub reads: u64,
    /// Writes that were seen one by one.
    pub writes: u64,
    /// Reads that are known as sums of about this size on average.
    pub reads_on_average: u64,
    /// Writes that are known as sums of about this size on average.
    pub writes_on_average: u64,
    /// Bytes of all these reads.
    pub bytes_read: f64,
    /// Bytes of all these writes.
    pub bytes_written: f64,
}

/// How often one thing was done in one layer.
#[derive(Clone, Debug, Serialize)]
pub struct Operation {
    /// The software layer that saw it, `None` if the source does not say.
    pub layer: Option<&'static str>,
    /// The operation.
    pub op: &'static str,
    /// How often, where it was counted.
    pub calls: Option<u64>,
    /// Bytes moved.
    pub bytes: f64,
}

/// Time in one layer's calls, summed over ranks, and as a share of ranks × run time.
#[derive(Clone, Debug, Serialize)]
pub struct LayerTime {
    /// The software layer that saw it, `None` if the source does not say.
    pub layer: Option<&'static str>,
    /// Time in reads.
    pub read_s: Option<f64>,
    /// Time in writes.
    pub write_s: Option<f64>,
    /// Time in all other calls.
    pub metadata_s: Option<f64>,
    /// The share of reads. Threads of one rank may spend more time than passes.
    pub read_share: Option<f64>,
    /// The share of writes.
    pub write_share: Option<f64>,
    /// The share of all other calls.
    pub metadata_share: Option<f64>,
}

impl Activity {
    /// Time in I/O calls as a share of ranks × run time. What passes through several layers counts once, with the layer that took longest;
    /// C streams go beside the others.
    pub(crate) fn io_time_share(&self) -> Option<f64> {
        let of = |time: &LayerTime| {
            let shares = [time.read_share, time.write_share, time.metadata_share];
            shares.into_iter().flatten().reduce(|a, b| a + b)
        };
        let is_stdio = |time: &&LayerTime| time.layer == Some("STDIO");
        let longest = self.time.iter().filter(|time| !is_stdio(time)).filter_map(of).reduce(f64::max);
        let streams = self.time.iter().filter(is_stdio).filter_map(of).reduce(f64::max);
        longest.map(|share| share + streams.unwrap_or(0.0)).or(streams)
    }

    /// The most files that are named; a page is read by a person.
    pub const MOST_FILES: usize = 500;

    /// Returns the sums in the words of the report. The job's own word on its processes and run time is asked first.
    pub(crate) fn new(sums: &ActivitySums, source: &Source) -> Self {
        let n_ranks = source.job.nprocs.unwrap_or(0).max(sums.n_ranks as u64).max(1);
        let seen_s = sums.span.map_or(0.0, |span| span.duration_s());
        let run_time_s = source.job.run_time_s.unwrap_or(0.0).max(seen_s);
        let share = |time_s: Option<f64>| {
            time_s.map(|time_s| time_s / (run_time_s * n_ranks as f64)).filter(|share| share.is_finite())
        };
        let (named, more) = sums.files.split_at(sums.files.len().min(Self::MOST_FILES));
        Self {
            n_ranks,
            run_time_s,
            heat_map: heat_map(sums, source.job.nprocs, source.zero()),
            files: named.iter().map(|file| File::new(&file.path, &file.sums)).collect(),
            n_more_files: (more.len() + sums.n_other_files) as u64,
            bytes_of_more_files: more.iter().map(|file| file.sums.bytes()).sum::<f64>()
                + sums.other_files.bytes(),
            access_sizes: size_rows(&sums.reads, &sums.writes),
            empty_calls: sums.reads.empty + sums.writes.empty,
            bytes_of_unknown_size: sums.reads.bytes_uncounted + sums.writes.bytes_uncounted,
            operations: (sums.ops.iter())
                .map(|op| Operation {
                    layer: layer_name(op.layer),
                    op: op.op.name(),
                    calls: if op.sums.n_bins == 0 { Some(op.sums.calls) } else { counted_calls(sums, op) },
                    bytes: op.sums.bytes,
                })
                .collect(),
            time: (layer_times(sums).iter())
                .map(|times| LayerTime {
                    layer: layer_name(times.layer),
                    read_s: times.read_s,
                    write_s: times.write_s,
                    metadata_s: times.metadata_s,
                    read_share: share(times.read_s),
                    write_share: share(times.write_s),
                    metadata_share: share(times.metadata_s),
                })
                .collect(),
        }
    }
}

impl File {
    fn new(path: &str, sums: &FileSums) -> Self {
        Self {
            path: path.into(),
            bytes_read: sums.bytes_read,
            bytes_written: sums.bytes_written,
            calls: sums.calls,
            opens: sums.opens,
            time_s: sums.time_s,
            n_ranks: (!sums.all_ranks && sums.n_ranks > 0).then_some(sums.n_ranks),
            more_ranks: sums.more_ranks,
        }
    }
}

/// How many calls the source counted where its events are sums over time.
fn counted_calls(sums: &ActivitySums, op: &OpActivity) -> Option<u64> {
    let facts = sums.access.iter().find(|facts| facts.layer == op.layer)?;
    let way = match op.op {
        Op::Read => facts.reads,
        Op::Write => facts.writes,
        _ => return None,
    };
    (way.calls > 0).then_some(way.calls)
}

/// Time in calls of every layer: of those whose calls were read, and of others as the source counted it.
fn layer_times(sums: &ActivitySums) -> Vec<LayerTimes> {
    let mut times = sums.times.clone();
    for facts in &sums.access {
        let is_known = times.iter().any(|known| known.layer == facts.layer);
        if let (false, Some([read_s, write_s, metadata_s])) = (is_known, facts.shape.times_s)
            && read_s + write_s + metadata_s > 0.0
        {
            let some = |seconds: f64| (seconds > 0.0).then_some(seconds);
            let (read_s, write_s, metadata_s) = (some(read_s), some(write_s), some(metadata_s));
            times.push(LayerTimes { layer: facts.layer, read_s, write_s, metadata_s });
        }
    }
    times.sort_by_key(|times| times.layer);
    times
}

/// The rows that moved data, and between them those that did not, as long as that is no fence of blanks.
fn heat_map(sums: &ActivitySums, n_procs: Option<u64>, zero: Zero) -> Option<HeatMap> {
    let heat = &sums.heat;
    let (last, per_row) = (heat.rows.last()?.last, i64::from(heat.ranks_per_row));
    let mut rows: Vec<HeatRow> = (heat.rows.iter())
        .map(|row| HeatRow {
            first_rank: row.first.0,
            last_rank: row.last.0,
            bytes_read: row.read.clone(),
            bytes_written: row.written.clone(),
        })
        .collect();
    let most = iotide_trace::Activity::MOST_ROWS as i64;
    let n_needed = (i64::from(last.0) + 1).div_euclid(per_row);
    let n_known =
        i64::try_from(n_procs.unwrap_or(0)).unwrap_or(i64::MAX).saturating_add(per_row - 1) / per_row;
    let n_rows = if n_known <= most { n_known.max(n_needed) } else { n_needed };
    if last != Rank::ALL && n_rows <= most {
        for i in 0..n_rows {
            let first = (i * per_row) as i32;
            if let Err(at) = rows.binary_search_by_key(&first, |row| row.first_rank) {
                let last_rank = first + (per_row - 1) as i32;
                let (bytes_read, bytes_written) = (Vec::new(), Vec::new());
                rows.insert(at, HeatRow { first_rank: first, last_rank, bytes_read, bytes_written });
            }
        }
    }
    // The last row of a run of 100 ranks in rows of 32 ends at 99.
    if let (Some(n_procs), Some(row)) = (n_procs.and_then(|n| i32::try_from(n).ok()), rows.last_mut())
        && n_procs > row.first_rank
    {
        row.last_rank = row.last_rank.min(n_procs - 1);
    }
    let &iotide_trace::HeatMap { start_s, bin_s, n_bins, ranks_per_row, .. } = heat;
    Some(HeatMap { start_s, bin_s, n_bins, ranks_per_row, rows, zero })
}

fn size_rows(reads: &AccessSizes, writes: &AccessSizes) -> Vec<SizeRow> {
    let row = |k: usize| {
        let [reads_exact, reads_averaged, writes_exact, writes_averaged]: [SizeBin; 4] =
            [reads.exact[k], reads.averaged[k], writes.exact[k], writes.averaged[k]];
        SizeRow {
            from_bytes: 2f64.powi(k as i32),
            reads: reads_exact.calls,
            writes: writes_exact.calls,
            reads_on_average: reads_averaged.calls,
            writes_on_average: writes_averaged.calls,
            bytes_read: reads_exact.bytes + reads_averaged.bytes,
            bytes_written: writes_exact.bytes + writes_averaged.bytes,
        }
    };
    let rows: Vec<SizeRow> = (0..AccessSizes::BINS).map(row).collect();
    let is_used = |row: &SizeRow| row.n_reads() + row.n_writes() > 0;
    let Some(first) = rows.iter().position(is_used) else { return Vec::new() };
    let last = rows.iter().rposition(is_used).unwrap_or(first);
    rows[first..=last].to_vec()
}

impl SizeRow {
    /// Returns how many reads there are.
    pub fn n_reads(&self) -> u64 {
        self.reads + self.reads_on_average
    }

    /// Returns how many writes there are.
    pub fn n_writes(&self) -> u64 {
        self.writes + self.writes_on_average
    }
}

pub(crate) fn layer_name(layer: Layer) -> Option<&'static str> {
    match layer {
        Layer::Unknown => None,
        Layer::Posix => Some("POSIX"),
        Layer::Stdio => Some("STDIO"),
        Layer::MpiIo => Some("MPI-IO"),
        Layer::Library => Some("library"),
        Layer::Server => Some("server"),
    }
}
