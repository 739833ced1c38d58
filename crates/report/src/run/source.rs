//! Source of a run, and what it lacks.

use iotide_look::{Untrusted, text};
use iotide_trace::{Event, JobInfo, Layer, Rank, Tally, Timestamp};
use serde::Serialize;

use super::whole_bytes;
use crate::zero::Zero;

/// Source of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Source {
    /// Where it was read from.
    pub path: Untrusted,
    /// The format it was in.
    pub format: String,
    /// How many ranks moved bytes or, if the source tells no ranks apart, how many processes the job had.
    pub n_ranks: Option<u64>,
    /// How many events it held.
    pub n_events: u64,
    /// All bytes read.
    #[serde(serialize_with = "whole_bytes")]
    pub bytes_read: f64,
    /// All bytes written.
    #[serde(serialize_with = "whole_bytes")]
    pub bytes_written: f64,
    /// When the first event began.
    pub start_s: Option<f64>,
    /// When the last one ended.
    pub end_s: Option<f64>,
    /// Bandwidth: bytes moved over the wall time in which at least one process was reading or writing. Absent where the source has totals of files
    /// only, and does not say when they were moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth_bps: Option<f64>,
    /// To what times were rounded, where there were more requests than are kept exactly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resolution_s: Option<f64>,
    /// Its job, as the source states it.
    pub job: Job,
}

/// Job of a run, as the source states it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Job {
    /// The scheduler's name for it.
    pub jobid: Option<Untrusted>,
    /// The command.
    pub exe: Option<Untrusted>,
    /// Who ran it.
    pub user: Option<Untrusted>,
    /// The number of processes.
    pub nprocs: Option<u64>,
    /// Whether these are known not to be ranks of a parallel program.
    #[serde(skip)]
    pub is_serial: bool,
    /// Its wall-clock time.
    pub run_time_s: Option<f64>,
    /// When it began, in seconds since the Unix epoch.
    pub start_time: Option<f64>,
    /// The number of nodes it was seen on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u64>,
}

impl Source {
    /// Returns the origin of its times for readers.
    pub fn zero(&self) -> Zero {
        Zero::of(self.start_s, self.job.start_time)
    }

    /// Returns what a reader counted.
    pub fn new(path: impl Into<Untrusted>, format: impl Into<String>, tally: &Tally, job: &JobInfo) -> Self {
        Self {
            path: path.into(),
            format: format.into(),
            n_ranks: Some(tally.n_ranks() as u64).filter(|&n| n > 0).or(job.n_procs),
            n_events: tally.n_events,
            bytes_read: tally.bytes_read,
            bytes_written: tally.bytes_written,
            start_s: tally.start.map(|start| start.as_secs()),
            end_s: tally.end.map(|end| end.as_secs()),
            bandwidth_bps: None,
            resolution_s: None,
            job: Job {
                jobid: job.job_id.as_ref().map(Untrusted::from),
                exe: job.exe.as_ref().map(Untrusted::from),
                user: job.user.as_ref().map(Untrusted::from),
                nprocs: job.n_procs,
                is_serial: job.has_ranks == Some(false),
                run_time_s: job.run_time_s,
                start_time: job.start_time_unix_s,
                nodes: job.n_nodes,
            },
        }
    }

    /// Returns what a run is of which counters alone are known.
    pub fn counted(name: impl Into<Untrusted>, run: &iotide_analysis::RunRequests, job: &JobInfo) -> Self {
        let mut tally = Tally::default();
        let at = Timestamp::from_secs_since_start;
        for request in &run.requests {
            if let (Some(start), Some(end)) = (at(request.start_s), at(request.end_s)) {
                let event = Event::data(request.op, Rank::ALL, start, end, request.bytes);
                tally.add(&Event { layer: Layer::Posix, calls: request.calls as u32, ..event });
            }
        }
        Self::new(name, "counters", &tally, job)
    }

    /// The word for one of its processes.
    pub(crate) fn process_noun(&self) -> &'static str {
        if self.job.is_serial { "process" } else { "rank" }
    }

    pub(crate) fn in_words(&self) -> String {
        let ranks =
            self.n_ranks.map(|n| format!(", {}", text::counted(n, self.process_noun()))).unwrap_or_default();
        let exe = self.job.exe.as_ref();
        let exe = exe.map(|exe| format!(" of {}", exe.shortened(80).for_terminal())).unwrap_or_default();
        let id = self.job.jobid.as_ref().map(|id| format!(", job {}", id.for_terminal())).unwrap_or_default();
        let rounded =
            self.resolution_s.map(|s| format!(", times to {}", text::seconds(s))).unwrap_or_default();
        format!("{}{exe}{id}{ranks}, {}{rounded}", self.format, text::counted(self.n_events, "event"))
    }
}

/// Something known to be missing.
#[derive(Clone, Debug, Serialize)]
pub struct Loss {
    /// Kind and place of the loss.
    pub what: Untrusted,
    /// How many records.
    pub records: Option<u64>,
    /// Since when.
    pub since_s: Option<f64>,
}

impl From<&iotide_trace::Loss> for Loss {
    fn from(loss: &iotide_trace::Loss) -> Self {
        Self {
            what: Untrusted::from(&loss.what),
            records: loss.records,
            since_s: loss.since.map(|since| since.as_secs()),
        }
    }
}

impl Loss {
    /// Returns the loss in words.
    pub fn in_words(&self) -> String {
        let records = self.records.map(|n| format!(" ({})", text::counted(n, "record"))).unwrap_or_default();
        let since = self.since_s.map(|s| format!(", since {}", text::moment(s))).unwrap_or_default();
        format!("{}{records}{since}", self.what.for_terminal())
    }
}
