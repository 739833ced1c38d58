//! Why a run's I/O took longer than that of earlier runs.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use iotide_analysis::{
    LoadGrid, Request, RunFacts, RunRequests, ServerLoad, Why, counts_from_1970, why as compare,
};
use iotide_formats::{JobLog, OpenOptions, ReadError};
use iotide_report::{Source, WhyDocument, WhyEntry, WhyRun};
use iotide_trace::{
    AccessFacts, Direction, Event, EventSink, Grain, JobRun, Loss, Tally, ThroughputConfig, ThroughputLog,
    ThroughputSink, TimeSpent, Timestamp, TraceInfo,
};

use crate::signature::silence_of;
use crate::{Error, Input, Progress};

/// Data that a run is compared with.
#[derive(Debug, Default)]
pub struct WhyOptions {
    /// How traces are opened.
    pub open: OpenOptions,
    /// Earlier runs of the same program.
    pub history: Vec<Input>,
    /// The log of the servers, of one file or of several that are added up.
    pub storage: Option<Input>,
    /// Who ran what, and when.
    pub jobs: Option<JobLog>,
}

/// Tells whether a run was slower than earlier ones, and whether its own requests, the load of others or the storage made it so.
///
/// A run without requests of its own times is an error; an earlier one that cannot be used is left out, and stands among the losses.
pub fn why(
    run: &Input,
    options: &WhyOptions,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<WhyDocument, Error> {
    let of = options.history.len() + 1;
    let load = options.storage.as_ref().map(|log| server_load(log, &options.open)).transpose()?;
    let (load, mut log_losses) = load.unzip();
    let grid = load.as_ref().map(|load| load.grid);
    progress(Progress::Reading { name: &run.name(), nth: 1, of });
    let read = read_run(run, &options.open, grid)?;
    let mut losses = read.losses;
    losses.extend(log_losses.take().unwrap_or_default());
    let mut history = Vec::new();
    for (i, earlier) in options.history.iter().enumerate() {
        progress(Progress::Reading { name: &earlier.name(), nth: i + 2, of });
        match read_run(earlier, &options.open, grid) {
            Ok(earlier) => history.push(earlier.facts),
            Err(why) => {
                losses.push(Loss::of_unknown_size(format!("left out of the history: {}", why.with_causes())));
                progress(Progress::LeftOut { name: &earlier.name(), why });
            }
        }
    }
    let answer = compare(&read.facts, &history, load.as_ref());
    let entry = WhyEntry::new(&answer);
    let entry = match &options.jobs {
        Some(jobs) => {
            entry.with_jobs(&suspects(&read.facts, read.job_id.as_deref(), &history, &answer, &jobs.runs))
        }
        None => entry,
    };
    Ok(WhyDocument::new(vec![WhyRun::new(read.source, &losses, entry, &answer)]))
}

/// A run as it was read.
struct ReadRun {
    facts: RunFacts,
    source: Source,
    job_id: Option<String>,
    losses: Vec<Loss>,
}

fn read_run(input: &Input, open: &OpenOptions, grid: Option<LoadGrid>) -> Result<ReadRun, Error> {
    let reader = input.open(open)?;
    let format = reader.format();
    let mut sink = Requests::default();
    let info = reader.read(&mut sink)?;
    let Requests { requests, n_coarse, tally, mut losses } = sink;
    if requests.is_empty() {
        return Err(Error::NoRequests { name: input.name() });
    }
    if n_coarse > 0 {
        losses.push(Loss::of_records(n_coarse, "sums without the times of single requests, not looked at"));
    }
    let TraceInfo { job, .. } = &info;
    let run = RunRequests { zero_unix_s: job.start_time_unix_s, run_s: job.run_time_s, requests };
    let facts = RunFacts::of(run, grid);
    if facts.phases.is_empty() {
        return Err(Error::NoRequests { name: input.name() });
    }
    Ok(ReadRun {
        facts,
        source: Source::new(input.name(), format.name(), &tally, job),
        job_id: job.job_id.clone(),
        losses,
    })
}

/// Keeps the requests of a run.
#[derive(Default)]
struct Requests {
    requests: Vec<Request>,
    /// Events that stand for many requests at unknown times.
    n_coarse: u64,
    tally: Tally,
    losses: Vec<Loss>,
}

impl EventSink for Requests {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        self.tally.add(&event);
        if event.grain == Grain::Call {
            self.requests.push(Request {
                op: event.op,
                rank: event.rank.0,
                start_s: event.start.as_secs(),
                end_s: event.end.as_secs(),
                bytes: event.bytes,
                calls: f64::from(event.calls.max(1)),
            });
        } else {
            self.n_coarse += 1;
        }
        ControlFlow::Continue(())
    }

    fn async_event(&mut self, event: Event, _: Timestamp) -> ControlFlow<()> {
        self.event(event)
    }

    fn time_spent(&mut self, _: TimeSpent) {}

    fn access_facts(&mut self, _: &AccessFacts) {}

    fn loss(&mut self, loss: Loss) {
        self.losses.push(loss);
    }
}

/// A value of a log holds for its step; after that, nobody knows.
const LONGEST_HOLD: f64 = 1.5;

/// Reads what servers read and wrote, each way for itself.
fn server_load(input: &Input, open: &OpenOptions) -> Result<(ServerLoad, Vec<Loss>), Error> {
    let reader = input.open(open)?;
    let silence = silence_of(reader.format());
    let config = |direction| ThroughputConfig {
        direction,
        interval_s: None,
        silence,
        longest_hold: Some(LONGEST_HOLD),
    };
    let mut sinks = (
        ThroughputSink::new(config(Direction::Read)),
        (ThroughputSink::new(config(Direction::Write)), SampleTimes::default()),
    );
    let info = reader.read(&mut sinks)?;
    let (read, (written, times)) = sinks;
    if times.n == 0 {
        return Err(Error::NoServerLog { name: input.name() });
    }
    let ((read, _), (written, losses)) = (read.finish(), written.finish());
    let zero_s = match info.job.start_time_unix_s {
        Some(start) if !counts_from_1970(times.first_s.unwrap_or(0.0)) => start,
        _ => 0.0,
    };
    Ok((
        side_by_side(read, written, zero_s).ok_or_else(|| Error::NothingMoved { name: input.name() })?,
        losses,
    ))
}

/// Puts reads and writes on one grid.
fn side_by_side(
    read: Option<ThroughputLog>,
    written: Option<ThroughputLog>,
    zero_s: f64,
) -> Option<ServerLoad> {
    let alone = |log: ThroughputLog| ServerLoad {
        grid: LoadGrid { start_s: zero_s + log.start_s, step_s: log.interval_s },
        read_bps: Vec::new(),
        written_bps: log.values,
    };
    let (read, written) = match (read, written) {
        (Some(read), Some(written)) => (read, written),
        (Some(one), None) | (None, Some(one)) => return Some(alone(one)),
        (None, None) => return None,
    };
    let step_s = written.interval_s;
    let start_s = read.start_s.min(written.start_s);
    let n = ((read.end_s().max(written.end_s()) - start_s) / step_s).round() as usize;
    let on_grid = |log: &ThroughputLog| {
        let mut values = vec![f64::NAN; n];
        let first = ((log.start_s - start_s) / step_s).round() as usize;
        for (i, value) in log.values.iter().enumerate() {
            // Logs of one source share their step; of others the nearest value counts.
            let at = if log.interval_s == step_s { i } else { (i as f64 * log.interval_s / step_s) as usize };
            if let Some(slot) = values.get_mut(first + at) {
                *slot = *value;
            }
        }
        values
    };
    Some(ServerLoad {
        grid: LoadGrid { start_s: zero_s + start_s, step_s },
        read_bps: on_grid(&read),
        written_bps: on_grid(&written),
    })
}

/// When the first sample of a log was taken, and how many there are.
#[derive(Default)]
struct SampleTimes {
    n: u64,
    first_s: Option<f64>,
}

impl EventSink for SampleTimes {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        if event.grain == Grain::Bin {
            self.n += 1;
            let at_s = event.start.as_secs();
            self.first_s = Some(self.first_s.map_or(at_s, |first| first.min(at_s)));
        }
        ControlFlow::Continue(())
    }

    fn async_event(&mut self, event: Event, _: Timestamp) -> ControlFlow<()> {
        self.event(event)
    }

    fn time_spent(&mut self, _: TimeSpent) {}

    fn access_facts(&mut self, _: &AccessFacts) {}

    fn loss(&mut self, _: Loss) {}
}

/// So many jobs are named.
const MOST_SUSPECTS: usize = 3;
/// A job that ran in less of the slow phases explains little.
const LEAST_SHARE: f64 = 0.25;

/// Returns who ran in the slow phases and not during earlier runs, with the share of the slow phases, the largest first.
fn suspects(
    run: &RunFacts,
    job_id: Option<&str>,
    history: &[RunFacts],
    answer: &Why,
    jobs: &[JobRun],
) -> Vec<(String, f64)> {
    let Some(zero_s) = run.zero_unix_s() else { return Vec::new() };
    let slow_from = answer.usual_until.unwrap_or(1.3);
    let slow: Vec<(f64, f64)> = (answer.phases.iter())
        .filter(|phase| phase.factor.is_some_and(|factor| factor > slow_from))
        .map(|phase| (zero_s + phase.start_s, zero_s + phase.end_s))
        .collect();
    let all_s: f64 = slow.iter().map(|(from, until)| until - from).sum();
    let earlier: Vec<(f64, f64)> = history.iter().filter_map(RunFacts::span_unix_s).collect();
    let during = |job: &JobRun, (from, until): (f64, f64)| {
        (job.end_s.unwrap_or(f64::INFINITY).min(until) - job.start_s.max(from)).max(0.0)
    };
    let who = |job: &JobRun| (job.user.clone(), job.name.clone());
    let known: BTreeSet<(String, String)> =
        jobs.iter().filter(|job| earlier.iter().any(|&span| during(job, span) > 0.0)).map(who).collect();
    let own_span = run.span_unix_s();
    let is_itself = |job: &JobRun| {
        job_id.is_some_and(|id| id == job.job_id)
            || own_span.is_some_and(|(from, until)| {
                // The job of a run begins shortly before it and ends shortly after.
                let margin_s = 0.1 * (until - from) + 60.0;
                job.start_s <= from
                    && from - job.start_s < margin_s
                    && job.end_s.is_some_and(|end_s| end_s >= until && end_s - until < margin_s)
            })
    };
    let mut shares: std::collections::BTreeMap<(String, String), f64> = std::collections::BTreeMap::new();
    for job in jobs.iter().filter(|job| !known.contains(&who(job)) && !is_itself(job)) {
        let seconds: f64 = slow.iter().map(|&phase| during(job, phase)).sum();
        *shares.entry(who(job)).or_default() += seconds / all_s.max(1e-9);
    }
    let mut named: Vec<(String, f64)> = (shares.into_iter())
        .filter(|(_, share)| *share >= LEAST_SHARE)
        .map(|((user, name), share)| (format!("{user} · {name}"), share.min(1.0)))
        .collect();
    named.sort_by(|a, b| b.1.total_cmp(&a.1));
    named.truncate(MOST_SUSPECTS);
    named
}

/// Tells how a trace names its program, without reading all of it.
pub fn program_of(input: &Input, open: &OpenOptions) -> Result<Option<String>, Error> {
    /// Stops at the first event: what a trace says of its job stands before.
    struct Head;
    impl EventSink for Head {
        fn event(&mut self, _: Event) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
        fn async_event(&mut self, _: Event, _: Timestamp) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
        fn time_spent(&mut self, _: TimeSpent) {}
        fn access_facts(&mut self, _: &AccessFacts) {}
        fn loss(&mut self, _: Loss) {}
    }
    let info: Result<TraceInfo, ReadError> = input.open(open)?.read(&mut Head);
    Ok(info?.job.exe.as_deref().and_then(crate::application))
}
