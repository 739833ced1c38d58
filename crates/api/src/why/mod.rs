//! Why a run's I/O took longer than that of earlier runs.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{OnceLock, mpsc};
use std::thread;

use iotide_analysis::{LoadGrid, Request, RunCounts, RunFacts, RunRequests, ServerLoad, Why, why as compare};
use iotide_formats::{JobLog, OpenOptions, ReadError};
use iotide_report::{Source, WhyDocument, WhyEntry, WhyRun};
use iotide_trace::{
    AccessFacts, Event, EventSink, Grain, JobInfo, Loss, Mount, Tally, TimeSpent, Timestamp, TraceInfo,
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
    let mut answers = why_each(std::slice::from_ref(run), options, progress)?;
    let answer = answers.pop().unwrap_or_else(|| Err(Error::NoRequests { name: run.name() }))?;
    Ok(WhyDocument::new(vec![answer]))
}

/// Tells the same of several runs, each by itself: earlier runs and a log are read once.
pub fn why_each(
    runs: &[ComparedRun],
    options: &WhyOptions,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Vec<Result<WhyRun, Error>>, Error> {
    let of = options.history.len() + runs.len();
    let counted = options.history.iter().chain(runs).filter_map(ComparedRun::counts);
    let concurrency = counted.map(RunCounts::concurrency).fold(1.0, f64::max);
    let reading = Reading::new(&options.open, options.storage.as_ref(), concurrency);
    let all: Vec<&ComparedRun> = runs.iter().chain(&options.history).collect();
    let mut read =
        reading.read_all(&all, |nth, run| progress(Progress::Reading { name: &run.name(), nth, of }));
    let Begun { load, losses: log_losses, .. } = reading.into_log()?;
    let mut evidence = Earlier { options, load, history: Vec::new(), losses: options.losses.clone() };
    let history = read.split_off(runs.len());
    if read.iter().any(Result::is_ok) {
        for (earlier, read) in options.history.iter().zip(history) {
            match read {
                Ok(earlier) => evidence.history.push(earlier.facts),
                Err(why) => {
                    let left_out = format!("left out of the history: {}", why.with_causes());
                    evidence.losses.push(Loss::of_unknown_size(left_out));
                    progress(Progress::LeftOut { name: &earlier.name(), why });
                }
            }
        }
    }
    evidence.losses.extend(log_losses);
    Ok(read.into_iter().map(|run| evidence.compare(run?, progress)).collect())
}

/// Data that runs are compared with, as it was read.
struct Earlier<'a> {
    options: &'a WhyOptions,
    load: Option<ServerLoad>,
    history: Vec<RunFacts>,
    losses: Vec<Loss>,
}

impl Earlier<'_> {
    fn compare(&self, mut read: ReadRun, progress: &mut dyn FnMut(Progress<'_>)) -> Result<WhyRun, Error> {
        let mut losses = std::mem::take(&mut read.losses);
        losses.extend(self.losses.iter().cloned());
        let Some(StorageLoad::Asked(source)) = &self.options.storage else {
            return Ok(self.answer(read, &self.history, self.load.as_ref(), &losses));
        };
        // Which times are asked for depends on the run.
        let mut history = self.history.clone();
        let mut runs: Vec<&mut RunFacts> = std::iter::once(&mut read.facts).chain(&mut history).collect();
        let (load, lost) = load::asked(source.as_ref(), &mut runs, progress)?;
        losses.extend(lost);
        Ok(self.answer(read, &history, load.as_ref(), &losses))
    }

    fn answer(
        &self,
        read: ReadRun,
        history: &[RunFacts],
        load: Option<&ServerLoad>,
        losses: &[Loss],
    ) -> WhyRun {
        let answer = compare(&read.facts, history, load);
        let entry = entry_of(self.options, &read, history, &answer);
        WhyRun::new(read.source, losses, entry, &answer)
    }
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
    /// The file system on which it moved most bytes.
    file_system: Option<String>,
    source: Source,
    job_id: Option<String>,
    losses: Vec<Loss>,
}

/// How runs are read, beside the storage's log.
struct Reading<'a> {
    open: &'a OpenOptions,
    storage: Option<&'a StorageLoad>,
    /// The storage's log, once it was read.
    log: OnceLock<Result<Begun, Error>>,
    /// How many calls are under way at once, of runs that were counted.
    concurrency: f64,
}

impl<'a> Reading<'a> {
    fn new(open: &'a OpenOptions, storage: Option<&'a StorageLoad>, concurrency: f64) -> Self {
        Self { open, storage, log: OnceLock::new(), concurrency }
    }

    /// Reads the storage's log, or waits until another thread has read it.
    fn log(&self) -> &Result<Begun, Error> {
        self.log.get_or_init(|| match self.storage {
            Some(storage) => storage.begin(self.open),
            None => Ok(Begun::default()),
        })
    }

    fn into_log(self) -> Result<Begun, Error> {
        self.log();
        self.log.into_inner().unwrap_or_else(|| Ok(Begun::default()))
    }

    /// The grid on which runs are reduced, once the log was read.
    fn grid(&self) -> Option<LoadGrid> {
        self.log().as_ref().ok()?.grid
    }

    /// Reads runs and the log on all cores, and returns the runs in their order; calls `each` after every run with the number of runs read
    /// so far. If the log cannot be read, runs are missing: they are of no use then.
    fn read_all(
        &self,
        runs: &[&ComparedRun],
        mut each: impl FnMut(usize, &ComparedRun),
    ) -> Vec<Result<ReadRun, Error>> {
        let n_threads = thread::available_parallelism().map_or(1, usize::from).min(runs.len());
        let next = AtomicUsize::new(0);
        let mut all = Vec::with_capacity(runs.len());
        thread::scope(|scope| {
            let (found, results) = mpsc::channel();
            scope.spawn(|| self.log());
            for _ in 0..n_threads {
                let (found, next) = (found.clone(), &next);
                scope.spawn(move || {
                    loop {
                        let i = next.fetch_add(1, Relaxed);
                        let Some(run) = runs.get(i) else { break };
                        if matches!(self.log.get(), Some(Err(_))) {
                            break;
                        }
                        // Nobody receives any more if the caller was interrupted.
                        if found.send((i, self.read(run))).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(found);
            for (i, read) in results {
                all.push((i, read));
                each(all.len(), runs[i]);
            }
        });
        all.sort_unstable_by_key(|(i, _)| *i);
        all.into_iter().map(|(_, read)| read).collect()
    }

    fn read(&self, run: &ComparedRun) -> Result<ReadRun, Error> {
        match run {
            ComparedRun::Trace(input) => self.traced(input),
            ComparedRun::Counted(run) => self.counted(run),
        }
    }

    fn counted(&self, run: &CountedRun) -> Result<ReadRun, Error> {
        let requests = run.counts.requests(self.concurrency);
        let source = Source::counted(run.name.as_str(), &requests, &run.job);
        let facts = RunFacts::once_known(requests, || self.grid());
        if facts.phases.is_empty() {
            return Err(Error::NoRequests { name: run.name.clone() });
        }
        let (job_id, losses) = (run.job.job_id.clone(), run.losses.clone());
        Ok(ReadRun { facts, file_system: None, source, job_id, losses })
    }

    fn traced(&self, input: &Input) -> Result<ReadRun, Error> {
        let reader = input.open(self.open)?;
        let format = reader.format();
        let mut sink = Requests::default();
        let info = reader.read(&mut sink)?;
        let Requests { requests, n_coarse, tally, bytes_by_file, mut losses } = sink;
        if requests.is_empty() {
            return Err(Error::NoRequests { name: input.name() });
        }
        if n_coarse > 0 {
            losses
                .push(Loss::of_records(n_coarse, "sums without the times of single requests, not looked at"));
        }
        let TraceInfo { job, .. } = &info;
        let run = RunRequests {
            zero_unix_s: job.start_time_unix_s,
            run_s: job.run_time_s,
            requests,
            ..RunRequests::default()
        };
        let facts = RunFacts::once_known(run, || self.grid());
        if facts.phases.is_empty() {
            return Err(Error::NoRequests { name: input.name() });
        }
        Ok(ReadRun {
            facts,
            file_system: file_system(&info, &bytes_by_file),
            source: Source::new(input.name(), format.name(), &tally, job),
            job_id: job.job_id.clone(),
            losses,
        })
    }
}

/// The file system on which most bytes were moved: by the mounts that the source knows, else by the first folder of paths.
fn file_system(info: &TraceInfo, bytes_by_file: &[f64]) -> Option<String> {
    let mut bytes: BTreeMap<String, f64> = BTreeMap::new();
    for (path, moved) in info.files.iter().zip(bytes_by_file) {
        if let Some(mount) = mount_of(path, &info.job.mounts) {
            *bytes.entry(mount).or_default() += moved;
        }
    }
    let most = bytes.into_iter().filter(|(_, moved)| *moved > 0.0).max_by(|a, b| a.1.total_cmp(&b.1));
    most.map(|(mount, _)| mount)
}

/// Files beyond this number tell nothing of the file system.
const MOST_FILES: usize = 1 << 20;

fn mount_of(path: &str, mounts: &[Mount]) -> Option<String> {
    let holds = |mount: &&Mount| {
        let rest = path.strip_prefix(mount.path.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if let Some(mount) = mounts.iter().filter(holds).max_by_key(|mount| mount.path.len()) {
        return Some(mount.path.clone());
    }
    let first = path.strip_prefix('/')?.split_once('/')?.0;
    (!first.is_empty()).then(|| format!("/{first}"))
}

/// Keeps the requests of a run.
#[derive(Default)]
struct Requests {
    requests: Vec<Request>,
    /// Events that stand for many requests at unknown times.
    n_coarse: u64,
    tally: Tally,
    /// Bytes moved, by the number of the file.
    bytes_by_file: Vec<f64>,
    losses: Vec<Loss>,
}

impl EventSink for Requests {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        self.tally.add(&event);
        let file = event.file.0 as usize;
        if event.op.moves_data() && file < MOST_FILES {
            if file >= self.bytes_by_file.len() {
                self.bytes_by_file.resize(file + 1, 0.0);
            }
            self.bytes_by_file[file] += event.bytes;
        }
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
