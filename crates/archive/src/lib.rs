//! Thousands of logs: walked, in parallel, resumable, in shards.
//!
//! [`run`] labels every log of a [`Job`] and adds a line for each to a [`Folder`]; [`Folder::finish`] makes of the lines what
//! people look at. [`merge`] does so for the folders of several shards, [`compare`] sets one run beside the earlier ones of
//! its application.
//!
//! # Design constraints
//! - Memory does not grow with the number of logs. Paths come from a walk that knows one folder a level, results go to
//!   disk at once, and what must be in order is sorted on disk. What does grow, by a few hundred bytes each, is the table of
//!   applications in the statistics.
//! - Whatever is written last is derived from lines sorted by path. So it does not matter how often the work was
//!   interrupted, how many threads did it, or in which shards.
//! - A log is known by path, size and time of last change. One that changed is read again; the latest line counts.
//! - One log cannot hold up the rest: see [`Limits`].

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use iotide_api::Labelling;
use iotide_formats::OpenOptions;
use iotide_private::{OpenDir, PrivateDir};
use iotide_report::{LogIdentity, RejectedLog};

pub use crate::{
    folder::{Folder, Outputs, RUNS, for_each_run, merge},
    history::compare,
    label::Limits,
    sample::sample,
    shard::{Shard, ShardError},
    statistics::statistics_of,
    walk::Logs,
};

use crate::label::{Labelled, identity_at, label_log};
use crate::suspects::Suspects;
use crate::walk::{Found, Walk};

mod folder;
mod history;
mod label;
mod load;
mod parquet;
mod pool;
mod sample;
mod shard;
mod sort;
mod statistics;
mod suspects;
mod walk;

/// Logs to be labelled, and how.
#[derive(Clone, Debug)]
pub struct Job {
    /// Where the logs come from.
    pub logs: Logs,
    /// Which part of them.
    pub shard: Shard,
    /// How they are opened.
    pub options: OpenOptions,
    /// Settings of the labels.
    pub labelling: Labelling,
    /// Limits on the cost of one log.
    pub limits: Limits,
    /// How many are read at once.
    pub n_workers: usize,
    /// Whether to count the logs beside the work, so that the remaining time can be reported.
    pub count_ahead: bool,
}

impl Job {
    /// Returns the input of [`Folder::open`]: the settings as text, and which part of the archive.
    pub fn made_with(&self, settings: &str) -> String {
        folder::with_shard(settings, self.shard)
    }
}

/// How far the work is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Logs labelled by now.
    pub n_labelled: u64,
    /// Logs rejected by now.
    pub n_rejected: u64,
    /// Logs that were done before.
    pub n_known: u64,
    /// How many there are in all, once that is known.
    pub n_total: Option<u64>,
    /// How long it took so far.
    pub elapsed_s: f64,
    /// Whether it was stopped before the end.
    pub stopped: bool,
}

impl Progress {
    /// Logs that are done.
    pub fn n_done(&self) -> u64 {
        self.n_labelled + self.n_rejected + self.n_known
    }

    /// Logs read per second.
    pub fn per_s(&self) -> f64 {
        (self.n_labelled + self.n_rejected) as f64 / self.elapsed_s.max(1e-3)
    }

    /// How long the rest will take at the rate so far.
    pub fn left_s(&self) -> Option<f64> {
        let left = self.n_total?.saturating_sub(self.n_done());
        let per_s = self.n_done() as f64 / self.elapsed_s.max(1e-3);
        (per_s > 0.0).then(|| left as f64 / per_s)
    }
}

/// Why the work could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// Something could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Path that could not be read.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Results could not be written.
    #[error("cannot write results to {}", folder.display())]
    Write {
        /// Where to.
        folder: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// Another process adds to the same results.
    #[error("another process is writing results to {}", folder.display())]
    Busy {
        /// Where.
        folder: PathBuf,
    },
    /// The folder holds results that were made with other settings.
    #[error("the results in {} were made with another method, other settings or another shard", folder.display())]
    OtherSettings {
        /// Where.
        folder: PathBuf,
    },
    /// Two parts were made with different settings.
    #[error("the results in {} and in {} were made with different settings", folder.display(), other.display())]
    Different {
        /// One.
        folder: PathBuf,
        /// The other.
        other: PathBuf,
    },
    /// A part is not finished.
    #[error("the results in {} are not finished", folder.display())]
    Unfinished {
        /// Which.
        folder: PathBuf,
    },
    /// A shard is missing.
    #[error("shard {index}/{count} is missing")]
    MissingShard {
        /// Which, from 0.
        index: u64,
        /// Of how many.
        count: u64,
    },
    /// A folder holds no results.
    #[error("{} holds no results of `iotide categorize`", path.display())]
    NoResults {
        /// Which.
        path: PathBuf,
    },
    /// A line of results makes no sense.
    #[error("{path}: {fault}")]
    BadLine {
        /// The file, or the log that the line is about.
        path: String,
        /// Fault of the line.
        fault: String,
    },
}

impl ArchiveError {
    fn write(folder: &Path, source: io::Error) -> Self {
        ArchiveError::Write { folder: folder.to_owned(), source }
    }
}

/// Labels every log of a job that is not in `folder` yet, and adds a line for each.
///
/// Set `stop` to end early: logs being read are dropped, everything else is kept, and the next call goes on. `tell` is
/// called several times a second.
pub fn run(
    job: &Job,
    folder: &mut Folder,
    stop: &Arc<AtomicBool>,
    mut tell: impl FnMut(&Progress),
) -> Result<Progress, ArchiveError> {
    let scratch = folder.path().to_owned();
    let spool = Spool::of(&job.logs, &scratch)?;
    let logs = spool.logs.clone();
    let unreadable = |source| match &job.logs {
        Logs::ListedIn(list) => ArchiveError::Read { path: list.clone(), source },
        Logs::Below(roots) => {
            let missing = roots.iter().find(|root| std::fs::metadata(root).is_err()).or(roots.first());
            ArchiveError::Read { path: missing.cloned().unwrap_or_default(), source }
        }
    };
    let walk = || Walk::new(&logs, job.shard, Some(&scratch), &scratch);
    let total = Arc::new(Total::default());
    if job.count_ahead
        && let Ok(mut walk) = walk()
    {
        let (total, stop) = (total.clone(), stop.clone());
        std::thread::spawn(move || total.count(&mut walk, &stop));
    }
    let written_to = |source| ArchiveError::write(&scratch, source);
    let worker = Arc::new(Labeller {
        options: job.options.clone(),
        labelling: job.labelling.clone(),
        limits: job.limits,
        stop: stop.clone(),
        journal: folder.journal().map_err(written_to)?,
        suspects: folder.suspects().clone(),
    });
    let fed = Arc::new(Mutex::new(None));
    // Whatever may have ended an earlier process is read alone, before the others.
    let passes = if worker.suspects.is_empty() { &[false][..] } else { &[true, false][..] };
    let mut keeper = Keeper::new(folder, stop, total);
    for &alone in passes {
        let feed =
            feed(walk().map_err(unreadable)?, keeper.folder.known()?, alone, worker.clone(), fed.clone());
        // A reader that is asked to stop and does so in time says so itself; the pool waits a little longer.
        let patience = job.limits.time + Duration::from_secs(2);
        let n_workers = if alone { 1 } else { job.n_workers };
        pool::run(worker.clone(), n_workers, patience, stop.clone(), feed, |outcome| {
            keeper.take(outcome);
            keeper.tell_now_and_then(&mut tell);
        });
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    let progress = keeper.finish()?;
    if let Some(source) = fed.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(unreadable(source));
    }
    folder.append(&suspects::ended()).map_err(written_to)?;
    folder.sync().map_err(written_to)?;
    Ok(progress)
}

/// Writes what the workers find, and counts it.
struct Keeper<'a> {
    folder: &'a mut Folder,
    stop: &'a AtomicBool,
    total: Arc<Total>,
    progress: Progress,
    began: Instant,
    told: Instant,
    synced: Instant,
    failure: Option<io::Error>,
}

impl<'a> Keeper<'a> {
    /// How often what was written is made to reach the disk.
    const SYNC_EVERY: Duration = Duration::from_secs(10);
    const TELL_EVERY: Duration = Duration::from_millis(100);

    fn new(folder: &'a mut Folder, stop: &'a AtomicBool, total: Arc<Total>) -> Self {
        let (progress, now) = (Progress::default(), Instant::now());
        Self { folder, stop, total, progress, began: now, told: now, synced: now, failure: None }
    }

    /// Takes what a worker found; if that cannot be written, all of them are to stop.
    fn take(&mut self, outcome: Option<Outcome>) {
        let line = match outcome {
            Some(Outcome::Run(line)) => {
                self.progress.n_labelled += 1;
                Some(line)
            }
            Some(Outcome::Rejected(line)) => {
                self.progress.n_rejected += 1;
                Some(line)
            }
            Some(Outcome::Known) => {
                self.progress.n_known += 1;
                None
            }
            Some(Outcome::Stopped) | None => None,
        };
        let mut written = line.map_or(Ok(()), |line| self.folder.append(&line));
        if written.is_ok() && self.synced.elapsed() > Self::SYNC_EVERY {
            written = self.folder.sync();
            self.synced = Instant::now();
        }
        if let Err(error) = written
            && self.failure.is_none()
        {
            self.failure = Some(error);
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    fn tell_now_and_then(&mut self, tell: &mut impl FnMut(&Progress)) {
        if self.told.elapsed() > Self::TELL_EVERY {
            self.progress.elapsed_s = self.began.elapsed().as_secs_f64();
            self.progress.n_total = self.total.known();
            tell(&self.progress);
            self.told = Instant::now();
        }
    }

    fn finish(mut self) -> Result<Progress, ArchiveError> {
        if let Some(source) = self.failure {
            return Err(ArchiveError::write(self.folder.path(), source));
        }
        self.progress.elapsed_s = self.began.elapsed().as_secs_f64();
        self.progress.stopped = self.stop.load(Ordering::Relaxed);
        Ok(self.progress)
    }
}

/// Returns what hands the logs of a walk on: those that are read alone, or all others.
fn feed(
    mut logs: Walk,
    mut known: folder::Known,
    alone: bool,
    labeller: Arc<Labeller>,
    failed: Arc<Mutex<Option<io::Error>>>,
) -> impl FnOnce(SyncSender<Task>) + Send + 'static {
    let mut next = move || -> io::Result<Option<Task>> {
        while let Some(found) = logs.next_found()? {
            let task = match found {
                Found::Log(place) => {
                    let known = known.look_up(&place.path)?;
                    Task { known, path: place.path, real: place.real, why_not: None }
                }
                Found::Unusable { place, why } => {
                    Task { path: place.path, real: None, known: None, why_not: Some(why) }
                }
            };
            if labeller.suspects.contains(&task.path) == alone {
                return Ok(Some(task));
            }
        }
        Ok(None)
    };
    move |out| {
        loop {
            match next() {
                Ok(Some(task)) => {
                    if out.send(task).is_err() {
                        return;
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    return;
                }
            }
        }
    }
}

/// How many logs there are, as far as they were counted.
#[derive(Default)]
struct Total {
    n: AtomicU64,
    complete: AtomicBool,
}

impl Total {
    fn count(&self, walk: &mut Walk, stop: &AtomicBool) {
        while let (false, Ok(found)) = (stop.load(Ordering::Relaxed), walk.next_found()) {
            match found {
                Some(_) => self.n.fetch_add(1, Ordering::Relaxed),
                None => return self.complete.store(true, Ordering::Release),
            };
        }
    }

    fn known(&self) -> Option<u64> {
        self.complete.load(Ordering::Acquire).then(|| self.n.load(Ordering::Relaxed))
    }
}

/// A list on standard input can be read once; it is put where it can be read again.
struct Spool {
    logs: Logs,
    _folder: Option<PrivateDir>,
}

impl Spool {
    fn of(logs: &Logs, scratch: &Path) -> Result<Self, ArchiveError> {
        if !matches!(logs, Logs::ListedIn(list) if list == Path::new("-")) {
            return Ok(Self { logs: logs.clone(), _folder: None });
        }
        let failed = |source| ArchiveError::write(scratch, source);
        let folder = PrivateDir::new_in(scratch, ".list").map_err(failed)?;
        let file = OpenDir::open(folder.path()).and_then(|folder| folder.create("list"));
        file.and_then(|mut file| io::copy(&mut io::stdin().lock(), &mut file)).map_err(failed)?;
        Ok(Self { logs: Logs::ListedIn(folder.path().join("list")), _folder: Some(folder) })
    }
}

#[derive(Clone)]
struct Task {
    /// As results name it.
    path: String,
    /// Where it really is, if its name is not text.
    real: Option<PathBuf>,
    /// Identity of the log when it was last read; `None` if it was not.
    known: Option<LogIdentity>,
    /// Why it is no log, if that is known already.
    why_not: Option<String>,
}

enum Outcome {
    Run(String),
    Rejected(String),
    Known,
    Stopped,
}

struct Labeller {
    options: OpenOptions,
    labelling: Labelling,
    limits: Limits,
    stop: Arc<AtomicBool>,
    journal: File,
    suspects: Suspects,
}

impl pool::Work for Labeller {
    type Task = Task;
    type Outcome = Outcome;

    fn work(&self, task: &Task) -> Outcome {
        if let Some(why) = &task.why_not {
            return self.failed(task, why.clone());
        }
        let Self { options, labelling, limits, stop, journal, suspects } = self;
        if suspects.is_guilty(&task.path) {
            let log = identity_at(task.real.as_deref().unwrap_or(Path::new(&task.path)));
            let why =
                "iotide terminated abnormally whenever it read this log, as when there is no memory left";
            return Outcome::Rejected(RejectedLog::new(&task.path, log, why).to_line());
        }
        // One write to a file that is open for appending: lines do not mix. Without it nothing is lost but the name of a suspect.
        let begin = || {
            let _ = (&*journal).write_all(suspects::reading(&task.path).as_bytes());
        };
        let (log, labelled) =
            label_log(&task.path, task.real.as_deref(), task.known, options, labelling, limits, stop, &begin);
        match labelled {
            Labelled::Run(run) => Outcome::Run(run.to_line()),
            Labelled::Rejected { why } => {
                Outcome::Rejected(RejectedLog::new(&task.path, log, &why).to_line())
            }
            Labelled::Known => Outcome::Known,
            Labelled::Stopped => Outcome::Stopped,
        }
    }

    fn failed(&self, task: &Task, why: String) -> Outcome {
        // Without the file's identity: the next call tries again.
        Outcome::Rejected(RejectedLog::new(&task.path, None, &why).to_line())
    }
}
