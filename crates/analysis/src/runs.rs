//! Which runs of a job log are of one application, and what a throughput log shows of each.

use std::collections::BTreeMap;

use iotide_trace::{JobOutcome, JobRun, ThroughputLog};

use crate::signature::{Extent, Sample};

/// How runs are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// A group of fewer runs is none.
    pub min_runs: usize,
    /// Whether runs on different numbers of nodes are one application.
    pub weak_scaling: bool,
    /// Whether runs count that failed or were cancelled.
    pub broken: bool,
}

impl Default for GroupConfig {
    fn default() -> Self {
        Self { min_runs: 3, weak_scaling: false, broken: false }
    }
}

/// Runs of one application: of one user, under one name, on as many nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunGroup {
    /// Who ran it.
    pub user: String,
    /// Its name.
    pub name: String,
    /// On how many nodes; if runs differ in it, the fewest.
    pub n_nodes: Option<u64>,
    /// The runs, by their place in the job log.
    pub runs: Vec<usize>,
}

/// Groups of the runs of a job log, and the runs left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grouping {
    /// The groups, by user, name and nodes.
    pub groups: Vec<RunGroup>,
    /// Runs that failed or were cancelled.
    pub n_broken: usize,
    /// Runs in groups that are too small.
    pub n_rare: usize,
}

/// Puts runs together that are of one application.
pub fn group_runs(runs: &[JobRun], config: &GroupConfig) -> Grouping {
    let mut grouping = Grouping::default();
    let mut groups: BTreeMap<(&str, &str, Option<u64>), Vec<usize>> = BTreeMap::new();
    for (i, run) in runs.iter().enumerate() {
        if run.outcome == JobOutcome::Broken && !config.broken {
            grouping.n_broken += 1;
            continue;
        }
        let n_nodes = if config.weak_scaling { None } else { run.n_nodes };
        groups.entry((&run.user, &run.name, n_nodes)).or_default().push(i);
    }
    for ((user, name, _), members) in groups {
        if members.len() < config.min_runs {
            grouping.n_rare += members.len();
            continue;
        }
        let n_nodes = members.iter().filter_map(|&i| runs[i].n_nodes).min();
        let (user, name) = (user.to_owned(), name.to_owned());
        grouping.groups.push(RunGroup { user, name, n_nodes, runs: members });
    }
    grouping
}

/// How samples are cut out of a log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CutConfig {
    /// A group gives no more samples than this, spread evenly over its runs.
    pub max_samples: usize,
    /// With so many runs that the log shows from start to end, those it shows in part are not used.
    pub enough_whole: usize,
    /// A sample has no more values than this; a longer run is averaged over longer steps.
    pub max_points: usize,
    /// A run of fewer values tells nothing.
    pub min_points: usize,
    /// A run of which the log knows a smaller share is not used.
    pub min_known: f64,
}

impl Default for CutConfig {
    fn default() -> Self {
        Self { max_samples: 16, enough_whole: 5, max_points: 8192, min_points: 8, min_known: 0.5 }
    }
}

/// Why the log has no sample of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoSample {
    /// The log does not reach it.
    NotLogged,
    /// The run, or what the log shows of it, is too short.
    TooShort,
    /// The log has a hole there.
    Unknown,
}

/// Samples that a log has of the runs of one application.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CutSamples {
    /// The samples, in the order of the log of jobs.
    pub samples: Vec<Sample>,
    /// Runs without a sample, and why.
    pub without: Vec<(usize, NoSample)>,
    /// Runs that were not looked at, because there are enough others.
    pub n_not_needed: usize,
}

/// Cuts the samples of one application out of a log.
///
/// Runs that the log shows in part stand in where there are few others. All samples get one step: that
/// of the log, or a multiple of it if the longest run would have too many values.
pub fn cut_samples(log: &ThroughputLog, runs: &[JobRun], group: &RunGroup, config: &CutConfig) -> CutSamples {
    let mut cut = CutSamples::default();
    let mut usable: Vec<(usize, Piece)> = Vec::new();
    for &i in &group.runs {
        match piece_of(log, &runs[i], config) {
            Ok(piece) => usable.push((i, piece)),
            Err(why) => cut.without.push((i, why)),
        }
    }
    let n_usable = usable.len();
    let n_whole = usable.iter().filter(|(_, piece)| piece.extent == Extent::Whole).count();
    if n_whole >= config.enough_whole.min(config.max_samples) {
        usable.retain(|(_, piece)| piece.extent == Extent::Whole);
    }
    let chosen: Vec<(usize, Piece)> = spread_evenly(usable, config.max_samples);
    cut.n_not_needed = n_usable - chosen.len();
    let longest = chosen.iter().map(|(_, piece)| piece.cells.len()).max().unwrap_or(0);
    let per_step = longest.div_ceil(config.max_points.max(1)).max(1);
    cut.samples = chosen
        .into_iter()
        .map(|(i, piece)| {
            let run = &runs[i];
            let name = if run.job_id.is_empty() { format!("run {}", i + 1) } else { run.job_id.clone() };
            Sample {
                name,
                interval_s: log.interval_s * per_step as f64,
                bandwidth_bps: log.values[piece.cells].chunks(per_step).map(mean_of_known).collect(),
                extent: piece.extent,
                n_nodes: run.n_nodes.map(|n_nodes| n_nodes.min(u64::from(u32::MAX)) as u32),
            }
        })
        .collect();
    cut
}

struct Piece {
    cells: std::ops::Range<usize>,
    extent: Extent,
}

fn piece_of(log: &ThroughputLog, run: &JobRun, config: &CutConfig) -> Result<Piece, NoSample> {
    let end_s = run.end_s.unwrap_or(f64::INFINITY);
    if end_s <= log.start_s || run.start_s >= log.end_s() {
        return Err(NoSample::NotLogged);
    }
    let cells = log.cells(run.start_s, end_s.min(log.end_s()));
    if cells.len() < config.min_points.max(1) {
        return Err(NoSample::TooShort);
    }
    let values = &log.values[cells.clone()];
    let n_known = values.iter().filter(|value| !value.is_nan()).count();
    if (n_known as f64) < config.min_known * values.len() as f64 {
        return Err(NoSample::Unknown);
    }
    let missed_s = log.start_s - run.start_s;
    let is_whole = missed_s < log.interval_s && end_s < log.end_s() + log.interval_s;
    let extent = if is_whole { Extent::Whole } else { Extent::Part { offset_s: missed_s.max(0.0) } };
    Ok(Piece { cells, extent })
}

/// Keeps `n` of the items: the first, the last, and others at even distances.
fn spread_evenly<T>(items: Vec<T>, n: usize) -> Vec<T> {
    let len = items.len();
    if len <= n {
        return items;
    }
    // Item i is kept if the number of those kept grows there.
    let kept_before = |i: usize| (i * n).div_ceil(len);
    items
        .into_iter()
        .enumerate()
        .filter(|(i, _)| kept_before(i + 1) > kept_before(*i))
        .map(|(_, item)| item)
        .collect()
}

/// The mean of what is known; NaN if that is less than half.
fn mean_of_known(values: &[f64]) -> f64 {
    let (mut sum, mut n) = (0.0, 0usize);
    for value in values.iter().filter(|value| !value.is_nan()) {
        sum += value;
        n += 1;
    }
    if 2 * n >= values.len().max(1) { sum / n as f64 } else { f64::NAN }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(user: &str, name: &str, n_nodes: u64, start_s: f64, end_s: f64) -> JobRun {
        JobRun {
            job_id: format!("{start_s}"),
            user: user.into(),
            name: name.into(),
            n_nodes: Some(n_nodes),
            start_s,
            end_s: Some(end_s),
            outcome: JobOutcome::Completed,
            submit_s: None,
            limit_s: None,
            priority: None,
        }
    }

    fn log(n: usize) -> ThroughputLog {
        ThroughputLog { start_s: 100.0, interval_s: 2.0, values: (0..n).map(|i| i as f64).collect() }
    }

    fn group_of(runs: &[JobRun]) -> RunGroup {
        RunGroup { user: "a".into(), name: "x".into(), n_nodes: None, runs: (0..runs.len()).collect() }
    }

    #[test]
    fn runs_of_one_user_name_and_size_are_one_application() {
        let mut runs = vec![
            run("a", "x", 4, 0.0, 1.0),
            run("a", "x", 4, 2.0, 3.0),
            run("a", "x", 8, 4.0, 5.0),
            run("b", "x", 4, 6.0, 7.0),
            run("a", "x", 4, 8.0, 9.0),
            run("a", "x", 4, 10.0, 11.0),
        ];
        runs[5].outcome = JobOutcome::Broken;
        let found = |config: &GroupConfig| {
            let Grouping { groups, n_broken, n_rare } = group_runs(&runs, config);
            let groups: Vec<_> =
                groups.iter().map(|g| format!("{}×{:?} {:?}", g.user, g.n_nodes, g.runs)).collect();
            (groups.join(", "), n_broken, n_rare)
        };
        let config = GroupConfig::default();
        assert_eq!(found(&config), ("a×Some(4) [0, 1, 4]".into(), 1, 2));
        assert_eq!(
            found(&GroupConfig { weak_scaling: true, broken: true, ..config }),
            ("a×Some(4) [0, 1, 2, 4, 5]".into(), 0, 1)
        );
        assert_eq!(found(&GroupConfig { min_runs: 4, ..config }), (String::new(), 1, 5));
    }

    #[test]
    fn a_run_that_the_log_shows_in_part_says_which() {
        let runs = [
            run("a", "x", 1, 90.0, 120.0),
            run("a", "x", 1, 120.0, 160.0),
            run("a", "x", 1, 180.0, 500.0),
            run("a", "x", 1, 10.0, 60.0),
            run("a", "x", 1, 120.0, 123.0),
            JobRun { end_s: None, ..run("a", "x", 1, 150.0, 0.0) },
        ];
        let cut = cut_samples(&log(50), &runs, &group_of(&runs), &CutConfig::default());
        let shown: Vec<_> =
            cut.samples.iter().map(|s| (s.bandwidth_bps[0], s.bandwidth_bps.len(), s.extent)).collect();
        assert_eq!(
            shown,
            [
                (0.0, 10, Extent::Part { offset_s: 10.0 }),
                (10.0, 20, Extent::Whole),
                (40.0, 10, Extent::Part { offset_s: 0.0 }),
                (25.0, 25, Extent::Part { offset_s: 0.0 }),
            ]
        );
        assert_eq!(cut.without, [(3, NoSample::NotLogged), (4, NoSample::TooShort)]);
    }

    #[test]
    fn a_hole_stays_one_unless_it_hides_most_of_the_run() {
        let mut log = log(50);
        log.values[5..12].fill(f64::NAN);
        let runs = [run("a", "x", 1, 100.0, 140.0), run("a", "x", 1, 108.0, 126.0)];
        let cut = cut_samples(&log, &runs, &group_of(&runs), &CutConfig::default());
        assert_eq!(cut.without, [(1, NoSample::Unknown)]);
        assert_eq!(cut.samples[0].bandwidth_bps.iter().filter(|value| value.is_nan()).count(), 7);
    }

    #[test]
    fn of_many_runs_some_are_used_and_whole_ones_first() {
        let mut runs: Vec<JobRun> = (0..10).map(|i| run("a", "x", 1, 100.0 + f64::from(i), 140.0)).collect();
        runs[0].start_s = 50.0;
        let config = CutConfig { max_samples: 4, ..CutConfig::default() };
        let cut = cut_samples(&log(50), &runs, &group_of(&runs), &config);
        let names: Vec<_> = cut.samples.iter().map(|sample| sample.name.as_str()).collect();
        assert_eq!((names, cut.n_not_needed), (vec!["101", "103", "105", "107"], 6));
    }

    #[test]
    fn a_long_run_is_told_in_longer_steps() {
        let runs = [run("a", "x", 1, 100.0, 200.0), run("a", "x", 1, 100.0, 120.0)];
        let config = CutConfig { max_points: 25, ..CutConfig::default() };
        let cut = cut_samples(&log(50), &runs, &group_of(&runs), &config);
        assert_eq!(
            cut.samples.iter().map(|s| (s.interval_s, s.bandwidth_bps.len())).collect::<Vec<_>>(),
            [(4.0, 25), (4.0, 5)]
        );
        assert_eq!(cut.samples[0].bandwidth_bps[..2], [0.5, 2.5]);
    }
}
