//! Labels and I/O issues of running jobs, from their counters and their metrics over time.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use iotide_analysis::{CategoryConfig, Observed, Severity, categorize};
use iotide_ledger::JobKey;
use iotide_ledger::series::{Rows, Sample, points};
use iotide_report::issues_of_counters;
use iotide_trace::{Event, EventSink, FileId, Grain, JobInfo, Layer, Op, Rank, Timestamp};

use iotide_daemon::leaf::{JobView, View};
use iotide_daemon::series::{Owner, Series};

/// A job is labelled after this, and anew after it.
const ANEW_NS: u64 = 30_000_000_000;
/// In one second, labels take no longer than this; jobs that are left are next.
const BUDGET: Duration = Duration::from_millis(200);
/// Points of a job's metrics that labels rest on.
const MOST_POINTS: usize = 4096;
/// Metrics over time that labels rest on, with what they are.
const COLUMNS: [(&str, Op); 5] = [
    ("read_bytes", Op::Read),
    ("write_bytes", Op::Write),
    ("open_calls", Op::Open),
    ("close_calls", Op::Close),
    ("seek_calls", Op::Seek),
];

/// Labels of jobs, as far as rules ask for them.
#[derive(Debug, Default)]
pub(crate) struct Labels(HashMap<JobKey, Labelled>);

#[derive(Debug)]
struct Labelled {
    at_ns: u64,
    labels: BTreeSet<&'static str>,
    /// Issues of medium severity or above.
    issues: BTreeSet<&'static str>,
    /// Checks that lack the numbers they need.
    not_judged: BTreeSet<&'static str>,
}

impl Labels {
    /// Whether a job has a label; `None` if that is not known yet.
    pub(crate) fn has_label(&self, key: &JobKey, name: &str) -> Option<bool> {
        self.0.get(key).map(|known| known.labels.contains(name))
    }

    /// Whether a job has an I/O issue of medium severity or above.
    pub(crate) fn has_issue(&self, key: &JobKey, name: &str) -> Option<bool> {
        let known = self.0.get(key).filter(|known| !known.not_judged.contains(name))?;
        Some(known.issues.contains(name))
    }

    /// Forgets jobs that are gone, and labels those that were not labelled for longest, as far as there is time.
    pub(crate) fn renew(&mut self, view: &View, series: &Series, is_wanted: impl Fn(&JobView) -> bool) {
        let wanted: HashMap<&JobKey, &JobView> =
            view.jobs.iter().filter(|job| is_wanted(job)).map(|job| (&job.key, job)).collect();
        self.0.retain(|key, _| wanted.contains_key(key));
        let mut due: Vec<(u64, &JobView)> = (wanted.into_values())
            .map(|job| (self.0.get(&job.key).map_or(job.key.start_ns, |known| known.at_ns), job))
            .filter(|(at_ns, _)| view.at_ns.saturating_sub(*at_ns) >= ANEW_NS)
            .collect();
        due.sort_by_key(|(at_ns, job)| (*at_ns, job.key.start_ns));
        let begun = Instant::now();
        for (_, job) in due {
            if begun.elapsed() >= BUDGET {
                break;
            }
            let labels = labels_of(job, view.at_ns, series);
            let [issues, not_judged] = issues_of(job, view.at_ns);
            let labelled = Labelled { at_ns: view.at_ns, labels, issues, not_judged };
            self.0.insert(job.key.clone(), labelled);
        }
    }
}

fn info(job: &JobView, now_ns: u64) -> JobInfo {
    JobInfo {
        n_procs: Some(u64::from(job.about.size.max(1))),
        run_time_s: Some(now_ns.saturating_sub(job.key.start_ns) as f64 / 1e9),
        ..JobInfo::default()
    }
}

fn event(
    op: Op,
    (layer, rank): (Layer, Rank),
    grain: Grain,
    (start, end): (Timestamp, Timestamp),
    (bytes, calls): (f64, u64),
) -> Event {
    let calls = u32::try_from(calls).unwrap_or(u32::MAX);
    Event { op, layer, grain, rank, file: FileId::NONE, start, end, bytes, calls }
}

/// Returns the labels that `iotide categorize` would give the job so far.
fn labels_of(job: &JobView, now_ns: u64, series: &Series) -> BTreeSet<&'static str> {
    let owner = Owner::Job(job.key.clone());
    let Ok(found) = series.find(&owner, |name| COLUMNS.iter().any(|(known, _)| *known == name)) else {
        return BTreeSet::new();
    };
    let start_s = job.key.start_ns / 1_000_000_000;
    let second = |s: u64| {
        Timestamp::from_nanos_since_start((s.saturating_sub(start_s) as i64).saturating_mul(1_000_000_000))
    };
    let mut observed = Observed::new();
    for (name, op) in COLUMNS {
        let Some((id, _)) = found.columns.find(name) else { continue };
        let folds = found.pieces.iter().map(Rows::folds).max().unwrap_or(0);
        let mut column = Rows::new(folds);
        found.pieces.iter().for_each(|rows| column.append_column(0, rows, id));
        let Some(points) = points([&column].into_iter(), 0, (0, u64::MAX), MOST_POINTS) else { continue };
        let mut before = 0;
        for (n, value) in points.values.iter().enumerate() {
            let Some((Sample::Counter(value), _)) = value else { continue };
            let grown = value.saturating_sub(before);
            before = *value;
            if grown == 0 {
                continue;
            }
            let at = points.start_s() + n as u64 * points.period_s();
            // A sample has what was counted until it was taken.
            let span = (second(at.saturating_sub(points.period_s())), second(at));
            let what = if op.moves_data() { (grown as f64, 1) } else { (0.0, grown) };
            let grain = if op.moves_data() { Grain::Bin } else { Grain::Call };
            // Calls are counted over all ranks: they are not those of each.
            let rank = if op.moves_data() { Rank::ALL } else { Rank(0) };
            let ControlFlow::Continue(()) =
                observed.event(event(op, (Layer::Unknown, rank), grain, span, what))
            else {
                break;
            };
        }
    }
    let found = categorize(observed, &info(job, now_ns), &CategoryConfig::default());
    found.labels.iter().map(|label| label.category.name()).collect()
}

/// Returns the issues that `iotide report` would find in the job's counts so far, and the checks that lack numbers.
fn issues_of(job: &JobView, now_ns: u64) -> [BTreeSet<&'static str>; 2] {
    let run_s = now_ns.saturating_sub(job.key.start_ns) as f64 / 1e9;
    let judged = issues_of_counters(&job.counters, u64::from(job.about.size.max(1)), run_s);
    let grave = judged.found.iter().filter(|issue| issue.severity != Severity::Low);
    [grave.map(|issue| issue.id.name()).collect(), judged.not_judged.iter().map(|not| not.id).collect()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_ledger::{About, Cell, Counters, JobId, Metric, Name};
    use std::sync::Arc;

    fn job(bytes: u64, calls: u64) -> JobView {
        let name = |text: &str| Name::cut(text.as_bytes());
        let mut counters = Counters::default();
        let metric = Metric::Io { op: "write".into(), layer: "posix".into(), fs: name("/scratch") };
        counters.add(metric, Cell { calls, bytes, ns: 60_000_000_000 });
        JobView {
            key: JobKey { cluster: Name::default(), uid: 7, id: JobId::new("a").unwrap(), start_ns: 1 },
            about: About { size: 4, ..About::default() },
            counters: Arc::new(counters),
            n_running: 1,
            nodes: Arc::new([]),
            read_bps: 0.0,
            write_bps: 0.0,
        }
    }

    #[test]
    fn a_job_of_many_small_writes_has_that_issue_and_one_of_large_ones_does_not() {
        let after_ns = 100_000_000_001;
        let [found, not_judged] = issues_of(&job(1 << 30, 1 << 20), after_ns);
        assert!(found.contains("small_writes"), "{found:?}");
        assert!(not_judged.contains("misaligned"), "offsets are not counted: {not_judged:?}");
        let [found, not_judged] = issues_of(&job(64 << 30, 1 << 10), after_ns);
        assert!(!found.contains("small_writes") && !not_judged.contains("small_writes"), "{found:?}");
    }
}
