//! Whether a job was slow, and why, by what this daemon has counted: the job, earlier runs of its application, and the load of all jobs.
//!
//! The same comparison answers `iotide why --job`, whose evidence comes over HTTP, the page of a job, and alarms on its slowdown.

use std::collections::BTreeMap;
use std::io;

use iotide_analysis::{
    CountedComparison, LoadPlan, MOST_EARLIER, RunCounts, ServerLoad, StepGrowth, Why, comparable,
};
use iotide_ledger::series::{MAX_POINTS, Points, Sample};
use iotide_ledger::{About, JobKey, JobState, Name};
use iotide_report::{JobMetrics, Source, WhyEntry, WhyRun};
use iotide_trace::{JobInfo, Loss, ThroughputLog};

use crate::leaf::View;
use crate::series::{Found, Owner, Series, of_metric};
use crate::store::{Query, Reader, StoreError, StoredJob};

/// Jobs of an application that are looked at to find earlier runs.
const MOST_LISTED: usize = 1000;
/// Days of which the load is read: those of the latest runs.
const MOST_DAYS: usize = 32;
const DAY_S: u64 = 86_400;

/// Reason why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoWhy {
    /// The job moved nothing that was sampled.
    #[error("no I/O of the job was sampled")]
    NoIo,
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The samples cannot be read.
    #[error("the series cannot be read: {0}")]
    Series(#[from] io::Error),
}

/// A job in question.
#[derive(Clone, Copy, Debug)]
pub struct AskedJob<'a> {
    /// Which it is.
    pub key: &'a JobKey,
    /// Facts about it.
    pub about: &'a About,
    /// When it ended; `None` while it runs.
    pub end_ns: Option<u64>,
}

impl<'a> From<&'a StoredJob> for AskedJob<'a> {
    fn from(job: &'a StoredJob) -> Self {
        let end_ns = job.end_ns.filter(|_| job.state != JobState::Running);
        Self { key: &job.key, about: &job.about, end_ns }
    }
}

/// The answer, as it was found and in the words of the report.
#[derive(Clone, Debug)]
pub struct WatchedWhy {
    /// As it was found.
    pub why: Why,
    /// In the words of the report.
    pub run: WhyRun,
}

/// All that this daemon knows.
#[derive(Debug)]
pub struct Evidence<'a> {
    /// Jobs that ended.
    pub reader: &'a Reader,
    /// Metrics over time.
    pub series: &'a Series,
    /// Jobs that run here and below.
    pub view: &'a View,
}

impl Evidence<'_> {
    /// Compares a job with earlier runs of its application and user. The cost is bounded: as many runs and days are read as are useful.
    pub fn why(&self, job: AskedJob<'_>) -> Result<WatchedWhy, NoWhy> {
        let counts = self.counts(job)?;
        let (same, mut losses) = comparable(
            self.runs_before(job, job.about.app.as_str())?,
            || self.runs_before(job, job.about.program()),
            |earlier| earlier.about.size == job.about.size,
        )?;
        let mut earlier: Vec<RunCounts> = Vec::new();
        for run in &same {
            if earlier.len() == MOST_EARLIER {
                break;
            }
            match self.counts(run.into()) {
                Ok(counts) if !counts.calls.is_empty() => earlier.push(counts),
                Ok(_) | Err(NoWhy::NoIo) => losses.push(left_out(&run.key, "no samples of it are left")),
                Err(fault) => losses.push(left_out(&run.key, &fault.to_string())),
            }
        }
        let comparison = CountedComparison::of(&counts, &earlier).ok_or(NoWhy::NoIo)?;
        let (load, lost) = comparison.plan().map_or((None, Vec::new()), |plan| self.load(&plan));
        losses.extend(lost);
        let why = comparison.judge(load.as_ref());
        let source = Source::counted(format!("job {}", job.key.id), &counts.requests(1.0), &info(job));
        let entry = WhyEntry::new(&why).with_source(format!(
            "the load is what all jobs moved that this daemon counted, on any file system, in steps of {} s",
            counts.load_step_s()
        ));
        Ok(WatchedWhy { run: WhyRun::new(source, &losses, entry, &why), why })
    }

    /// Lists runs of an application and the job's user that ended and began before the job, the latest first.
    fn runs_before(&self, job: AskedJob<'_>, app: &str) -> Result<Vec<StoredJob>, NoWhy> {
        let query = Query {
            only_uid: Some(job.key.uid),
            app: Some(app.to_owned()),
            before: Some((job.key.start_ns, 0)),
            limit: MOST_LISTED,
            ..Query::default()
        };
        let mut runs = self.reader.jobs(&query)?;
        runs.retain(|run| run.state != JobState::Running);
        Ok(runs)
    }

    /// Counters of a job over time.
    fn counts(&self, job: AskedJob<'_>) -> Result<RunCounts, NoWhy> {
        let found = [self.series.find(&Owner::Job(job.key.clone()), JobMetrics::is_compared_by)?];
        let start_s = job.key.start_ns / 1_000_000_000;
        let mut metrics = JobMetrics::default();
        for (_, name, _) in found[0].columns.iter() {
            if let Some(points) = of_metric(&found, name, (0, u64::MAX), MAX_POINTS).and_then(|it| it.points)
            {
                metrics.add(name.as_str(), &points, start_s);
            }
        }
        let counts = metrics.counts(start_s as f64, run_s(job));
        Ok(RunCounts { goes_on: job.end_ns.is_none(), ..counts })
    }

    /// Reads the load of all jobs around runs, that around the latest first; what cannot be read is a hole.
    fn load(&self, plan: &LoadPlan) -> (Option<ServerLoad>, Vec<Loss>) {
        let mut load = plan.unknown(true);
        let mut losses = Vec::new();
        let mut days: BTreeMap<u64, Found> = BTreeMap::new();
        let (mut n_days, mut n_known) = (0, 0);
        for &(from_s, until_s) in plan.windows.iter().rev() {
            // The growth until the first sample needs the one before.
            let span = ((from_s - 2.0).max(0.0) as u64, until_s.ceil() as u64);
            let (first, last) = (span.0 / DAY_S, span.1 / DAY_S);
            days.retain(|day, _| *day <= last);
            let missing: Vec<u64> = (first..=last).filter(|day| !days.contains_key(day)).collect();
            n_days += missing.len();
            if n_days > MOST_DAYS {
                losses.push(Loss::of_unknown_size(format!(
                    "the load is read of {MOST_DAYS} days; that beside earlier runs is not looked at"
                )));
                break;
            }
            for day in missing {
                match self.series.find(&Owner::of_all(self.view, day), |name| LOADS.contains(&name)) {
                    Ok(found) => drop(days.insert(day, found)),
                    Err(fault) => losses.push(Loss::of_unknown_size(format!("load of a day: {fault}"))),
                }
            }
            let found: Vec<&Found> = days.range(first..=last).map(|(_, found)| found).collect();
            let [read, written] = LOADS.map(|name| {
                let points = of_metric(&found, &Name::ours(name), span, usize::MAX)?.points?;
                rate(&points, (from_s, until_s), plan.grid.step_s)
            });
            read.iter().for_each(|read| load.put_read(read));
            written.iter().for_each(|written| load.put_written(written));
            n_known += usize::from(read.is_some() || written.is_some());
        }
        ((n_known > 0).then_some(load), losses)
    }
}

/// Metrics of all jobs that are their load.
const LOADS: [&str; 2] = ["read_bytes", "write_bytes"];

fn left_out(key: &JobKey, why: &str) -> Loss {
    Loss::of_unknown_size(format!("job {} is left out of the history: {why}", key.id))
}

/// The growth of a counter on steps.
fn rate(points: &Points, span: (f64, f64), step_s: f64) -> Option<ThroughputLog> {
    let mut growth = StepGrowth::new(span, step_s);
    for (n, pair) in points.values.windows(2).enumerate() {
        let until_s = (points.start_s() + (n as u64 + 1) * points.period_s()) as f64;
        if let [Some((Sample::Counter(before), _)), Some((Sample::Counter(now), _))] = *pair
            && now >= before
        {
            growth.add(until_s - points.period_s() as f64, until_s, (now - before) as f64);
        }
    }
    growth.finish()
}

fn run_s(job: AskedJob<'_>) -> Option<f64> {
    job.end_ns.map(|end_ns| end_ns.saturating_sub(job.key.start_ns) as f64 / 1e9)
}

fn info(job: AskedJob<'_>) -> JobInfo {
    let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    JobInfo {
        run_time_s: run_s(job),
        n_procs: Some(u64::from(job.about.size)),
        user: known(job.about.user.as_str()),
        exe: known(job.about.program()),
        job_id: known(job.key.id.as_str()),
        start_time_unix_s: Some(job.key.start_ns as f64 / 1e9),
        ..JobInfo::default()
    }
}
