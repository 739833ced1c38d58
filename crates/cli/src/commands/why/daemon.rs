//! Runs and the load of the storage as a daemon counted them.

use std::path::{Path, PathBuf};

use iotide_analysis::{MOST_EARLIER, RunCounts, StepGrowth, comparable};
use iotide_api::{
    ComparedRun, CountedRun, Error, LoadPiece, LoadSource, Loss, Progress, StorageLoad, ThroughputLog,
};
use iotide_report::{CounterOverTime, JobDocument, JobList, JobMetrics, JobState, Untrusted, WatchedJob};
use iotide_trace::JobInfo;

use crate::commands::asking::{ask_at, find_at, in_query, unreadable};
use crate::ui::Ui;

/// A job with the earlier runs of its application.
pub(super) struct Watched {
    pub(super) run: ComparedRun,
    pub(super) earlier: Vec<ComparedRun>,
    pub(super) losses: Vec<Loss>,
    /// How long a value of the load holds beside it.
    load_step_s: f64,
}

/// A daemon that names more jobs of an application is not asked on.
const MOST_LISTED: usize = 1000;

/// Asks the daemon for a job and for earlier runs of its application with as many processes.
pub(super) fn watched(ui: &mut Ui, socket: &Path, id: &str) -> anyhow::Result<Watched> {
    let body = ask_at(socket, &format!("/api/1/jobs/{}", in_query(id)))?;
    let job = JobDocument::from_json(&body).map_err(unreadable)?;
    let entry = &job.entry;
    let mut run = counted(socket, entry)?;
    run.losses.extend(entry.losses.iter().map(|loss| Loss::of_unknown_size(loss.as_said())));
    let (same, mut losses) = comparable(
        runs_before(socket, &entry.app, entry)?,
        || runs_before(socket, entry.program(), entry),
        |other| other.size == entry.size,
    )?;
    let mut earlier: Vec<ComparedRun> = Vec::new();
    let mut seen = vec![entry.job.clone()];
    for other in &same {
        if earlier.len() == MOST_EARLIER {
            break;
        }
        // Of several jobs with one id, the daemon shows the latest.
        if seen.contains(&other.job) {
            continue;
        }
        seen.push(other.job.clone());
        ui.progress(format_args!("asking the daemon for job {}", other.job.for_terminal()));
        match counted(socket, other) {
            Ok(run) => earlier.push(run.into()),
            Err(why) => losses.push(Loss::of_unknown_size(format!(
                "job {} is left out of the history: {why:#}",
                other.job.for_terminal()
            ))),
        }
    }
    let load_step_s = run.counts.load_step_s();
    Ok(Watched { run: run.into(), earlier, losses, load_step_s })
}

/// Lists runs of an application, by id or program name, that ended and began before a job, the latest first.
fn runs_before(socket: &Path, app: &Untrusted, job: &WatchedJob) -> anyhow::Result<Vec<WatchedJob>> {
    let app = in_query(app.as_said()).to_string();
    let list = ask_at(socket, &format!("/api/1/jobs?app={app}&limit={MOST_LISTED}"))?;
    let list = JobList::from_json(&list).map_err(unreadable)?;
    let is_before = |other: &WatchedJob| {
        other.state != JobState::Running && other.user == job.user && other.start_unix_s < job.start_unix_s
    };
    Ok(list.jobs.into_iter().filter(is_before).collect())
}

impl Watched {
    /// The load of the storage as this daemon counted it.
    pub(super) fn load(&self, socket: &Path) -> StorageLoad {
        let step_s = self.load_step_s;
        StorageLoad::Asked(Box::new(DaemonLoad { step_s, counted_runs: true, ..DaemonLoad::new(socket) }))
    }
}

fn counted(socket: &Path, job: &WatchedJob) -> anyhow::Result<CountedRun> {
    let id = in_query(job.job.as_said()).to_string();
    let metrics = ask_at(socket, &format!("/trace/read?job={id}"))?;
    let metrics = JobMetrics::from_json(&metrics).map_err(unreadable)?;
    let run_s = job.end_unix_s.map(|end_s| end_s - job.start_unix_s);
    // Samples count from the whole second in which the job began.
    let goes_on = job.state == JobState::Running;
    let counts = RunCounts { goes_on, ..metrics.counts(job.start_unix_s.floor(), run_s) };
    let said = |text: &Untrusted| Some(text.as_said().to_owned()).filter(|text| !text.is_empty());
    Ok(CountedRun {
        name: format!("job {}", job.job.for_terminal()),
        job: JobInfo {
            run_time_s: run_s,
            n_procs: Some(u64::from(job.size)),
            user: said(&job.user),
            exe: said(job.program()),
            job_id: said(&job.job),
            start_time_unix_s: Some(job.start_unix_s),
            n_nodes: Some(job.nodes.len() as u64).filter(|n| *n > 0),
            ..JobInfo::default()
        },
        counts,
        losses: Vec::new(),
    })
}

/// Bytes of all jobs that a daemon and those below it counted.
#[derive(Debug)]
pub(super) struct DaemonLoad {
    socket: PathBuf,
    step_s: f64,
    /// Whether it counted the runs, too.
    counted_runs: bool,
}

impl DaemonLoad {
    pub(super) fn new(socket: impl Into<PathBuf>) -> Self {
        Self { socket: socket.into(), step_s: 1.0, counted_runs: false }
    }

    /// The growth of a counter of all jobs, on steps.
    fn rate(
        &self,
        metric: &str,
        (from_s, until_s): (f64, f64),
    ) -> anyhow::Result<(Option<ThroughputLog>, Vec<Loss>)> {
        let mut growth = StepGrowth::new((from_s, until_s), self.step_s);
        let mut losses = Vec::new();
        let mut at_s = from_s;
        while at_s < until_s {
            let to_s = (at_s + MOST_SECONDS).min(until_s);
            // The growth until the first sample needs the one before.
            let path = format!(
                "/api/1/jobs/main/series?metric={metric}&from={:.0}&to={:.0}&points={MOST_POINTS}",
                (at_s - 2.0).max(0.0),
                to_s.ceil()
            );
            if let Some(body) = find_at(&self.socket, &path)? {
                let counter = CounterOverTime::from_json(&body).map_err(unreadable)?;
                counter.for_each_growth(|from, until, grown| {
                    if from >= at_s && until <= to_s {
                        growth.add(from, until, grown);
                    }
                });
                losses.extend(counter.losses.iter().map(|loss| Loss::of_unknown_size(loss.as_said())));
            }
            at_s = to_s;
        }
        Ok((growth.finish(), losses))
    }
}

/// Seconds of one question, and points that a daemon answers with at most.
const MOST_SECONDS: f64 = 9_000.0;
const MOST_POINTS: usize = 10_000;

impl LoadSource for DaemonLoad {
    fn asked(&self) -> String {
        format!(
            "the load is what all jobs moved that the daemon at {} counted, on any file system, in steps of {} s",
            self.socket.display(),
            self.step_s
        )
    }

    fn step_s(&self) -> f64 {
        self.step_s
    }

    fn is_same_clock(&self) -> bool {
        self.counted_runs
    }

    fn load(&self, from_s: f64, until_s: f64, _: &mut dyn FnMut(Progress<'_>)) -> Result<LoadPiece, Error> {
        let ask = |metric| {
            self.rate(metric, (from_s, until_s)).map_err(|why| Error::LoadSource { why: format!("{why:#}") })
        };
        let ((read, mut losses), (written, lost)) = (ask("read_bytes")?, ask("write_bytes")?);
        losses.extend(lost);
        Ok(LoadPiece { read, written, losses })
    }
}
