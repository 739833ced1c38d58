//! Why a run's I/O took longer than that of earlier runs.

use std::ops::ControlFlow;

use iotide_analysis::{LoadGrid, Request, RunCounts, RunFacts, RunRequests, Why, why as compare};
use iotide_formats::{JobLog, OpenOptions, ReadError};
use iotide_report::{Source, WhyDocument, WhyEntry, WhyRun};
use iotide_trace::{
    AccessFacts, Event, EventSink, Grain, JobInfo, Layer, Loss, Rank, Tally, TimeSpent, Timestamp, TraceInfo,
};

use crate::{Error, Input, Progress};

pub use self::archive::{ArchiveRun, why_archive};
use self::load::Begun;
pub use self::load::{LoadPiece, LoadSource, PrometheusLoad, StorageLoad};

mod archive;
mod load;
mod suspects;

/// A run that can be compared.
#[derive(Clone, Debug)]
pub enum ComparedRun {
    /// A trace of calls.
    Trace(Input),
    /// A run as a daemon counted it.
    Counted(Box<CountedRun>),
}

/// A run as a daemon counted it.
#[derive(Clone, Debug)]
pub struct CountedRun {
    /// Name of the run in answers and messages.
    pub name: String,
    /// Facts of its job.
    pub job: JobInfo,
    /// Its counters over time.
    pub counts: RunCounts,
    /// Data that is missing.
    pub losses: Vec<Loss>,
}

impl ComparedRun {
    fn name(&self) -> String {
        match self {
            Self::Trace(input) => input.name(),
            Self::Counted(run) => run.name.clone(),
        }
    }

    fn counts(&self) -> Option<&RunCounts> {
        match self {
            Self::Trace(_) => None,
            Self::Counted(run) => Some(&run.counts),
        }
    }
}

impl From<CountedRun> for ComparedRun {
    fn from(run: CountedRun) -> Self {
        Self::Counted(Box::new(run))
    }
}

impl From<Input> for ComparedRun {
    fn from(input: Input) -> Self {
        Self::Trace(input)
    }
}

/// Data that a run is compared with.
#[derive(Debug, Default)]
pub struct WhyOptions {
    /// How traces are opened.
    pub open: OpenOptions,
    /// Earlier runs of the same program.
    pub history: Vec<ComparedRun>,
    /// The load of the storage.
    pub storage: Option<StorageLoad>,
    /// Who ran what, and when.
    pub jobs: Option<JobLog>,
    /// Evidence that is missing, as far as the caller knows.
    pub losses: Vec<Loss>,
}

/// Tells whether a run was slower than earlier ones, and whether its own requests, the load of others or the storage made it so.
///
/// A run without requests of its own times is an error; an earlier one that cannot be used is left out, and stands among the losses.
pub fn why(
    run: &ComparedRun,
    options: &WhyOptions,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<WhyDocument, Error> {
    let of = options.history.len() + 1;
    let begun = options.storage.as_ref().map(|storage| storage.begin(&options.open)).transpose()?;
    let Begun { mut load, grid, losses: mut log_losses } = begun.unwrap_or_default();
    let counted = options.history.iter().chain([run]).filter_map(ComparedRun::counts);
    let concurrency = counted.map(RunCounts::concurrency).fold(1.0, f64::max);
    let reading = Reading { open: &options.open, grid, concurrency };
    progress(Progress::Reading { name: &run.name(), nth: 1, of });
    let mut read = reading.read(run)?;
    let mut losses = std::mem::take(&mut read.losses);
    losses.extend(options.losses.iter().cloned());
    let mut history = Vec::new();
    for (i, earlier) in options.history.iter().enumerate() {
        progress(Progress::Reading { name: &earlier.name(), nth: i + 2, of });
        match reading.read(earlier) {
            Ok(earlier) => history.push(earlier.facts),
            Err(why) => {
                losses.push(Loss::of_unknown_size(format!("left out of the history: {}", why.with_causes())));
                progress(Progress::LeftOut { name: &earlier.name(), why });
            }
        }
    }
    if let Some(StorageLoad::Asked(source)) = &options.storage {
        let mut runs: Vec<&mut RunFacts> = std::iter::once(&mut read.facts).chain(&mut history).collect();
        (load, log_losses) = load::asked(source.as_ref(), &mut runs, progress)?;
    }
    losses.extend(log_losses);
    let answer = compare(&read.facts, &history, load.as_ref());
    let entry = entry_of(options, &read, &history, &answer);
    Ok(WhyDocument::new(vec![WhyRun::new(read.source, &losses, entry, &answer)]))
}

/// The answer with what else is known: who was asked, and who ran meanwhile.
fn entry_of(options: &WhyOptions, read: &ReadRun, history: &[RunFacts], answer: &Why) -> WhyEntry {
    let mut entry = WhyEntry::new(answer);
    if let Some(jobs) = &options.jobs {
        let suspects = suspects::suspects(&read.facts, read.job_id.as_deref(), history, answer, &jobs.runs);
        entry = entry.with_jobs(&suspects);
    }
    match &options.storage {
        Some(StorageLoad::Asked(source)) => entry.with_source(source.asked()),
        _ => entry,
    }
}

/// A run as it was read.
struct ReadRun {
    facts: RunFacts,
    source: Source,
    job_id: Option<String>,
    losses: Vec<Loss>,
}

/// How runs are read.
struct Reading<'a> {
    open: &'a OpenOptions,
    grid: Option<LoadGrid>,
    /// How many calls are under way at once, of runs that were counted.
    concurrency: f64,
}

impl Reading<'_> {
    fn read(&self, run: &ComparedRun) -> Result<ReadRun, Error> {
        match run {
            ComparedRun::Trace(input) => read_run(input, self.open, self.grid),
            ComparedRun::Counted(run) => self.counted(run),
        }
    }

    fn counted(&self, run: &CountedRun) -> Result<ReadRun, Error> {
        let requests = run.counts.requests(self.concurrency);
        let mut tally = Tally::default();
        let at = Timestamp::from_secs_since_start;
        for request in &requests.requests {
            if let (Some(start), Some(end)) = (at(request.start_s), at(request.end_s)) {
                let calls = request.calls as u32;
                let event = Event::data(request.op, Rank::ALL, start, end, request.bytes);
                tally.add(&Event { layer: Layer::Posix, calls, ..event });
            }
        }
        let facts = RunFacts::of(requests, self.grid);
        if facts.phases.is_empty() {
            return Err(Error::NoRequests { name: run.name.clone() });
        }
        Ok(ReadRun {
            facts,
            source: Source::new(run.name.as_str(), "counters", &tally, &run.job),
            job_id: run.job.job_id.clone(),
            losses: run.losses.clone(),
        })
    }
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
    let run = RunRequests {
        zero_unix_s: job.start_time_unix_s,
        run_s: job.run_time_s,
        requests,
        ..RunRequests::default()
    };
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
