//! Information about jobs from other programs, for those who act on it.
//!
//! ```text
//!  jobs.csv                       a table of jobs and periods, read anew each time
//!  PATH (a socket)                a mount or an arbiter (--control), a detector (detect --listen) or a daemon (serve)
//!  unix:PATH, tcp:HOST:PORT       a detector
//!  daemon, daemon:PATH            a daemon, at its socket of frames (PATH.rpc)
//! ```
//!
//! [`Source::ask`] asks once, and waits for two seconds at most. What is said is judged elsewhere: see [`iotide_sched::AcceptedHints`].
//!
//! **Invariant:** whatever answers, or does not, costs the asker bounded time and memory.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use iotide_live::Address;
use iotide_report::known_jobs;
use iotide_sched::{IoProfile, KnownJob, PeriodsError, parse_periods};

use crate::frames::Frames;
use crate::line::Line;

mod frames;
mod line;

/// Nobody is waited for longer.
const WITHIN: Duration = Duration::from_secs(2);
/// No table and no answer is longer.
const MAX_ANSWER: u64 = 16 << 20;

/// Somebody who knows jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A table `job,seconds`, or a JSON object; or a socket, of whatever is there when it is asked.
    Path(PathBuf),
    /// Where `iotide detect --listen` listens.
    Detector(Address),
    /// A daemon.
    Daemon {
        /// Its socket of HTTP; frames are at this name with `.rpc` behind it.
        socket: PathBuf,
        /// Whether to ask it only if it runs as this user or as root.
        is_ours: bool,
    },
}

/// A job that runs and may have another size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizedJob {
    /// Id of the job.
    pub id: String,
    /// How many nodes it has.
    pub nodes: u32,
    /// How many it may have at least …
    pub min: u32,
    /// … and at most.
    pub max: u32,
}

impl SizedJob {
    /// Up to 16 sizes that it may have, the smallest, the present and the largest among them.
    fn sizes(&self) -> Vec<u32> {
        let (min, max) = (self.min.min(self.nodes).max(1), self.max.max(self.nodes).max(1));
        let step = |i: u32| f64::from(min) * (f64::from(max) / f64::from(min)).powf(f64::from(i) / 14.0);
        let mut sizes: Vec<u32> = match max - min {
            0..15 => (min..=max).collect(),
            _ => (0..15).map(|i| (step(i).round() as u32).clamp(min, max)).chain([self.nodes]).collect(),
        };
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }
}

/// Why a source has nothing to say.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// Nobody is there, or does not answer in time.
    #[error("{name} does not answer: {cause}")]
    Silent {
        /// Who.
        name: String,
        /// Error of the system.
        cause: std::io::Error,
    },
    /// A table cannot be read.
    #[error("cannot read {}: {cause}", path.display())]
    Unread {
        /// The table.
        path: PathBuf,
        /// Error of the system.
        cause: std::io::Error,
    },
    /// A table is wrong.
    #[error("{}: {fault}", path.display())]
    Table {
        /// The table.
        path: PathBuf,
        /// Fault of the table.
        fault: PeriodsError,
    },
    /// Somebody is there who says something else.
    #[error("{name} gives no list of jobs: {what}")]
    Strange {
        /// Who.
        name: String,
        /// Content of the answer.
        what: String,
    },
}

impl Source {
    /// From what people write; `own` is where a daemon is that has no other place, and `is_ours` whether only this user or root may run it.
    pub fn parse(text: &str, own: impl FnOnce() -> (PathBuf, bool)) -> Result<Self, String> {
        if text == "daemon" {
            let (socket, is_ours) = own();
            return Ok(Self::Daemon { socket, is_ours });
        }
        if let Some(path) = text.strip_prefix("daemon:") {
            if path.is_empty() {
                return Err("a daemon is `daemon`, or `daemon:` and the path of its socket".to_owned());
            }
            return Ok(Self::Daemon { socket: path.into(), is_ours: false });
        }
        match text.parse() {
            Ok(Address::Zmq(_)) => {
                Err("a detector is asked at unix:PATH or tcp:HOST:PORT, not by ZeroMQ".to_owned())
            }
            Ok(address) => Ok(Self::Detector(address)),
            Err(_) if text.starts_with("tcp:") || text.starts_with("unix:") => {
                Err("an address is unix:PATH or tcp:HOST:PORT".to_owned())
            }
            Err(_) if text.is_empty() => Err("a source has a name".to_owned()),
            Err(_) => Ok(Self::Path(text.into())),
        }
    }

    /// Whether it is a table, which somebody has written.
    pub fn is_table(&self) -> bool {
        matches!(self, Self::Path(path) if !is_socket(path))
    }

    /// Asks once.
    pub fn ask(&self) -> Result<Vec<KnownJob>, SourceError> {
        match self {
            Self::Path(path) if !is_socket(path) => read_table(path),
            Self::Path(path) if is_daemon(path) => self.frames(path, false),
            Self::Path(path) => self.line(&Address::Unix(path.clone())),
            Self::Detector(address) => self.line(address),
            Self::Daemon { socket, is_ours } => self.frames(socket, *is_ours),
        }
    }

    fn line(&self, address: &Address) -> Result<Vec<KnownJob>, SourceError> {
        let silent = |cause| SourceError::Silent { name: self.to_string(), cause };
        let mut line = Line::connect(address, WITHIN, MAX_ANSWER).map_err(silent)?;
        let answer = line.ask_line(b"jobs\n").map_err(silent)?;
        known_jobs(&answer, now_unix_s()).map_err(|error| self.strange(&answer, &error.to_string()))
    }

    fn frames(&self, socket: &Path, is_ours: bool) -> Result<Vec<KnownJob>, SourceError> {
        let silent = |cause| SourceError::Silent { name: self.to_string(), cause };
        let jobs = Frames::connect(socket, is_ours).and_then(|mut frames| frames.rhythms());
        jobs.map_err(silent)?.map_err(|why| self.strange(&why, &why))
    }

    /// Returns the times that running jobs take at some numbers of nodes, by the models of a daemon; nothing of a job that the daemon does not
    /// have, that has no model, or one that is not certain to within a factor of two.
    ///
    /// Processes are taken to be spread over nodes evenly, at any size as now.
    pub fn times(&self, jobs: &[SizedJob]) -> Result<Vec<Vec<(u32, f64)>>, SourceError> {
        let silent = |cause| SourceError::Silent { name: self.to_string(), cause };
        let (socket, is_ours) = match self {
            Self::Daemon { socket, is_ours } => (socket, *is_ours),
            Self::Path(path) => (path, false),
            Self::Detector(_) => return Err(self.strange("", "a detector has no models")),
        };
        let mut frames = Frames::connect(socket, is_ours).map_err(silent)?;
        let processes = frames.sizes().map_err(silent)?.map_err(|why| self.strange(&why, &why))?;
        let mut all = Vec::new();
        for job in jobs {
            let per_node =
                processes.get(job.id.as_str()).map(|n| f64::from(*n) / f64::from(job.nodes.max(1)));
            let sizes = job.sizes();
            let times = match per_node.filter(|per_node| *per_node > 0.0) {
                Some(per_node) => {
                    let at: Vec<f64> = sizes.iter().map(|nodes| f64::from(*nodes) * per_node).collect();
                    // A job without a model is no fault of the daemon's.
                    frames.times(&job.id, &at).map_err(silent)?.unwrap_or_default()
                }
                None => Vec::new(),
            };
            let is_certain = |[value, low, high]: &[f64; 3]| *value > 0.0 && *low > 0.0 && *high <= 2.0 * low;
            let is_certain = times.iter().all(is_certain);
            let times = sizes.into_iter().zip(times.into_iter().map(|[value, ..]| value));
            all.push(if is_certain { times.collect() } else { Vec::new() });
        }
        Ok(all)
    }

    fn strange(&self, said: &str, why: &str) -> SourceError {
        // One that was refused is told why.
        let what = if said.starts_with("{\"error\"") { said.trim() } else { why };
        let what = what.chars().take(200).collect();
        SourceError::Strange { name: self.to_string(), what }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => write!(f, "{}", path.display()),
            Self::Detector(address) => write!(f, "{address}"),
            Self::Daemon { socket, .. } => write!(f, "the daemon at {}", socket.display()),
        }
    }
}

fn read_table(path: &Path) -> Result<Vec<KnownJob>, SourceError> {
    let unread = |cause| SourceError::Unread { path: path.to_owned(), cause };
    let size = std::fs::metadata(path).map_err(unread)?.len();
    if size > MAX_ANSWER {
        return Err(unread(std::io::Error::other(format!("it has more than {MAX_ANSWER} bytes"))));
    }
    let text = std::fs::read_to_string(path).map_err(unread)?;
    let periods =
        parse_periods(&text).map_err(|fault| SourceError::Table { path: path.to_owned(), fault })?;
    let known = |(job, profile): (String, Option<IoProfile>)| KnownJob {
        job,
        period_s: profile.map(|profile| profile.w_iter_s()),
        ..KnownJob::default()
    };
    Ok(periods.into_iter().map(known).collect())
}

/// Whether a path is that of a daemon's socket: a daemon listens for frames beside it.
pub fn is_daemon(path: &Path) -> bool {
    is_socket(path) && is_socket(&frames::socket_of(path))
}

fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(path).is_ok_and(|about| about.file_type().is_socket())
}

fn now_unix_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64())
}

#[cfg(test)]
mod tests;
