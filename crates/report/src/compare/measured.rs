//! A run in the numbers by which it is compared.

use std::collections::BTreeMap;

use iotide_look::Untrusted;
use iotide_trace::{AccessSizes, ActivitySums, Layer, Op, StepSignal};

use super::Quantity;
use crate::activity::Activity;
use crate::issue::Issue;
use crate::{LabelledRun, Run};

/// A run in the numbers by which it is compared.
#[derive(Clone, Debug)]
pub struct MeasuredRun {
    pub(super) path: Untrusted,
    pub(super) format: String,
    /// Its rhythm, in one sentence.
    pub(super) rhythm: String,
    pub(super) n_losses: usize,
    pub(super) issues: Vec<MeasuredIssue>,
    pub(super) labels: Vec<&'static str>,
    /// Label of the baseline that its figures are from, if they are from one: then nothing is known of its files.
    pub(super) baseline: Option<Untrusted>,
    pub(super) application: Option<Untrusted>,
    pub(super) quantities: BTreeMap<Quantity, f64>,
    pub(super) files: Vec<MeasuredFile>,
    pub(super) n_more_files: usize,
    /// Requests by powers of two.
    pub(super) sizes: Vec<u64>,
    pub(super) outline: Outline,
    /// Whether nobody could look at the files one by one.
    pub(super) rhythms_unknown: bool,
}

/// An I/O issue of a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MeasuredIssue {
    pub(super) id: &'static str,
    pub(super) severity: &'static str,
    /// The share of the run that a fix would save; 0 if it is not known.
    pub(super) gain: f64,
    pub(super) text: String,
    pub(super) advice: String,
}

/// Use of one file of a run.
#[derive(Clone, Debug)]
pub(super) struct MeasuredFile {
    pub(super) path: Untrusted,
    pub(super) bytes_read: f64,
    pub(super) bytes_written: f64,
    pub(super) time_s: Option<f64>,
    pub(super) rhythm: Option<FileRhythm>,
}

/// How often a file is used.
#[derive(Clone, Debug, PartialEq)]
pub struct FileRhythm {
    /// Which file.
    pub path: Untrusted,
    /// The period.
    pub period_s: f64,
    /// Of which of its bytes: `read` or `write`.
    pub direction: &'static str,
    /// How many phases it has.
    pub n_phases: u64,
}

/// Bandwidth over time in a few columns, from the beginning of the run.
#[derive(Clone, Debug, Default)]
pub struct Outline {
    /// How long it is.
    pub length_s: f64,
    /// Bandwidth of reads, column by column.
    pub read_bps: Vec<f64>,
    /// Bandwidth of writes, column by column.
    pub write_bps: Vec<f64>,
}

/// As many columns as a strip of the page shows.
const COLUMNS: usize = 360;

/// How many files of a run are compared one by one.
const MOST_FILES: usize = 2000;

impl MeasuredRun {
    /// Returns the numbers of a run; `rhythms` is `None` if its files could not be looked at one by one.
    pub fn new(
        run: Run,
        labels: &LabelledRun,
        sums: &ActivitySums,
        rhythms: Option<Vec<FileRhythm>>,
        (reads, writes): (&StepSignal, &StepSignal),
    ) -> Self {
        let by_path: BTreeMap<&str, &FileRhythm> =
            rhythms.iter().flatten().map(|rhythm| (rhythm.path.as_said(), rhythm)).collect();
        let files = (sums.files.iter().take(MOST_FILES))
            .map(|file| MeasuredFile {
                path: Untrusted::from(&file.path),
                bytes_read: file.sums.bytes_read,
                bytes_written: file.sums.bytes_written,
                time_s: file.sums.time_s,
                rhythm: by_path.get(file.path.as_str()).map(|rhythm| (*rhythm).clone()),
            })
            .collect();
        Self {
            application: labels.application.clone(),
            quantities: quantities(&run, labels, sums),
            files,
            n_more_files: sums.files.len().saturating_sub(MOST_FILES) + sums.n_other_files,
            sizes: sizes(sums),
            outline: Outline::of(reads, writes),
            rhythms_unknown: rhythms.is_none(),
            issues: run.issues.iter().flat_map(|found| &found.issues).map(MeasuredIssue::from).collect(),
            labels: run.categories.clone().unwrap_or_default(),
            rhythm: run.headline(),
            n_losses: run.losses.len(),
            baseline: None,
            path: run.source.path,
            format: run.source.format,
        }
    }

    /// The program, by which runs are put together.
    pub fn application(&self) -> Option<&Untrusted> {
        self.application.as_ref()
    }
}

impl From<&Issue> for MeasuredIssue {
    fn from(issue: &Issue) -> Self {
        Self {
            id: issue.id,
            severity: issue.severity,
            gain: issue.gain.map_or(0.0, |gain| gain.of_run),
            text: issue.text.clone(),
            advice: issue.advice.to_owned(),
        }
    }
}

fn quantities(run: &Run, labels: &LabelledRun, sums: &ActivitySums) -> BTreeMap<Quantity, f64> {
    let source = &run.source;
    let n_ranks = source.job.nprocs.or(source.n_ranks).unwrap_or(0).max(sums.n_ranks as u64) as f64;
    let run_time_s = labels.run_time_s;
    // As a run's own page has it.
    let activity = run.activity.as_ref();
    let io_share = activity.and_then(Activity::io_time_share).filter(|share| *share > 0.0);
    let per_rank_s = activity.zip(io_share).map(|(activity, share)| share * activity.run_time_s);
    let [reads, writes, others] = calls(sums);
    let mean = |sizes: &AccessSizes| {
        let bins = || sizes.exact.iter().chain(&sizes.averaged);
        let calls: u64 = bins().map(|bin| bin.calls).sum();
        (calls > 0).then(|| bins().map(|bin| bin.bytes).sum::<f64>() / calls as f64)
    };
    // A rank of which only a part is known by itself spends less than the mean.
    let slowest = (sums.rank_times)
        .filter(|times| times.n_ranks >= 2 && per_rank_s.is_some_and(|mean| times.slowest_s >= mean));
    let n_phases = (run.is_periodic() && !run.phases.is_empty()).then_some(run.phases.len() as f64);
    let n_files = (sums.files.len() + sums.n_other_files) as f64;
    let told = [
        (Quantity::RunTime, (run_time_s > 0.0).then_some(run_time_s)),
        (Quantity::IoTimePerRank, per_rank_s),
        (Quantity::SlowestRank, slowest.map(|times| times.slowest_s)),
        (Quantity::IoShare, io_share),
        (Quantity::Bandwidth, source.bandwidth_bps),
        (Quantity::BytesRead, Some(source.bytes_read)),
        (Quantity::BytesWritten, Some(source.bytes_written)),
        (Quantity::ReadCalls, reads),
        (Quantity::WriteCalls, writes),
        (Quantity::MetadataCalls, others),
        (Quantity::ReadRequestBytes, mean(&sums.reads)),
        (Quantity::WriteRequestBytes, mean(&sums.writes)),
        (Quantity::Period, run.period.period_s),
        (Quantity::Phases, n_phases),
        (Quantity::BytesPerPhase, run.period.bytes_per_phase.filter(|_| run.is_periodic())),
        (Quantity::Ranks, (n_ranks > 0.0).then_some(n_ranks)),
        (Quantity::Files, (n_files > 0.0).then_some(n_files)),
    ];
    told.into_iter().filter_map(|(quantity, value)| Some((quantity, value?))).collect()
}

/// Which layers are called by the program's libraries and which by the program: calls of one contain those of the other.
fn is_low(layer: Layer) -> bool {
    !matches!(layer, Layer::MpiIo | Layer::Library)
}

/// Reads, writes and all other calls, each of the lowest layers that saw any; `None` where a part was not counted.
fn calls(sums: &ActivitySums) -> [Option<f64>; 3] {
    let kind = |op: Op| match op {
        Op::Read => 0,
        Op::Write => 1,
        _ => 2,
    };
    [0, 1, 2].map(|wanted| {
        let of_kind = || {
            sums.ops.iter().filter(|op| kind(op.op) == wanted && (op.sums.calls > 0 || op.sums.n_bins > 0))
        };
        let has_low = of_kind().any(|op| is_low(op.layer));
        of_kind()
            .filter(|op| is_low(op.layer) == has_low)
            .try_fold(0.0, |sum, op| (op.sums.n_bins == 0).then_some(sum + op.sums.calls as f64))
    })
}

fn sizes(sums: &ActivitySums) -> Vec<u64> {
    let of = |sizes: &AccessSizes, bin: usize| sizes.exact[bin].calls + sizes.averaged[bin].calls;
    (0..AccessSizes::BINS).map(|bin| of(&sums.reads, bin) + of(&sums.writes, bin)).collect()
}

impl Outline {
    fn of(reads: &StepSignal, writes: &StepSignal) -> Self {
        let spans: Vec<_> = [reads, writes].into_iter().filter_map(StepSignal::span).collect();
        let Some(start) = spans.iter().map(|span| span.start).min() else { return Self::default() };
        let end = spans.iter().map(|span| span.end).max().unwrap_or(start);
        let length_s = end.secs_since(start);
        let columns = |signal: &StepSignal| {
            let mut bytes = vec![0.0; COLUMNS];
            let per_column_s = length_s / COLUMNS as f64;
            for (from, to, rate) in signal.pieces().filter(|(_, _, rate)| *rate > 0.0) {
                let (from_s, to_s) = (from.secs_since(start), to.secs_since(start));
                let first = ((from_s / per_column_s) as usize).min(COLUMNS - 1);
                let last = ((to_s / per_column_s) as usize).min(COLUMNS - 1);
                for (i, column) in bytes.iter_mut().enumerate().take(last + 1).skip(first) {
                    let (begin, end) = (i as f64 * per_column_s, (i + 1) as f64 * per_column_s);
                    *column += rate * (to_s.min(end) - from_s.max(begin)).max(0.0);
                }
            }
            bytes.into_iter().map(|bytes| bytes / per_column_s).collect()
        };
        Self { length_s, read_bps: columns(reads), write_bps: columns(writes) }
    }

    /// The highest bandwidth of either direction.
    pub fn highest(&self) -> f64 {
        self.read_bps.iter().chain(&self.write_bps).copied().fold(0.0, f64::max)
    }
}
