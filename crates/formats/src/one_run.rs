//! Several files of one run: whose clock, whose ranks, whose word on the job.

use iotide_trace::{EventSink, JobInfo, Loss};

use crate::darshan::Log;

/// Facts from the files of a run so far.
///
/// Files of most formats were written by one tracer with one clock, and are put together as they are. Darshan logs are
/// not: each process (or each step of the job) has a log of its own, which counts its times from its own start and its
/// ranks from 0. So the events of a log are moved by the difference of the start times, and its ranks come after those
/// of the logs before it.
#[derive(Debug, Default)]
pub(crate) struct OneRun {
    job: JobInfo,
    /// Start of the first log, in seconds and nanoseconds since the Unix epoch.
    zero: Option<(i64, i64)>,
    /// The time all logs together cover, in nanoseconds after `zero`; the end is unknown if that of any log is.
    covered: Option<(i64, Option<i64>)>,
    n_procs: u64,
    /// Of so many of them the logs tell.
    n_told: u64,
    /// Another job than that of the first file, and how many files are not of the first one's job.
    other_job: Option<(String, u64)>,
}

/// Where the events of a file go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Placement {
    pub(crate) shift_nanos: i64,
    pub(crate) rank_base: i32,
}

impl OneRun {
    /// Finds the place of a log among those before it.
    pub(crate) fn place(&mut self, log: &Log, sink: &mut dyn EventSink) -> Placement {
        let rank_base = i32::try_from(self.n_procs).unwrap_or(i32::MAX);
        let Some(job) = &log.job else {
            sink.loss(Loss::of_unknown_size(
                "job: nothing says when this log began; its clock is taken as it is",
            ));
            return Placement { shift_nanos: 0, rank_base };
        };
        let n_procs = u64::try_from(job.n_procs).unwrap_or(0);
        self.n_procs = self.n_procs.saturating_add(n_procs);
        self.n_told = self.n_told.saturating_add(if log.is_of_one_process() { 1 } else { n_procs });
        let zero = *self.zero.get_or_insert((job.start_s, job.start_ns));
        let secs = job.start_s.saturating_sub(zero.0);
        let shift_nanos =
            secs.saturating_mul(1_000_000_000).saturating_add(job.start_ns.saturating_sub(zero.1));
        let end = job.run_time_s().map(|run_time_s| shift_nanos.saturating_add((run_time_s * 1e9) as i64));
        self.covered = Some(match self.covered {
            None => (shift_nanos, end),
            Some((from, until)) => (from.min(shift_nanos), until.zip(end).map(|(a, b)| a.max(b))),
        });
        Placement { shift_nanos, rank_base }
    }

    /// Takes what a file says of its job: the first one's word holds, the others fill in what it left open.
    pub(crate) fn add(&mut self, job: JobInfo) {
        if let (Some(first), Some(other)) = (&self.job.job_id, &job.job_id)
            && first != other
        {
            self.other_job.get_or_insert((other.clone(), 0)).1 += 1;
        }
        let first = std::mem::take(&mut self.job);
        self.job = JobInfo {
            run_time_s: first.run_time_s.or(job.run_time_s),
            n_procs: first.n_procs.or(job.n_procs),
            has_ranks: first.has_ranks.or(job.has_ranks),
            n_told: first.n_told.or(job.n_told),
            user: first.user.or(job.user),
            exe: first.exe.or(job.exe),
            job_id: first.job_id.or(job.job_id),
            start_time_unix_s: first.start_time_unix_s.or(job.start_time_unix_s),
            n_nodes: first.n_nodes.or(job.n_nodes),
            mounts: if first.mounts.is_empty() { job.mounts } else { first.mounts },
        };
    }

    /// Two different jobs that files are of, if there are any: "4711, 4712".
    pub(crate) fn jobs(&self) -> Option<String> {
        let (other, _) = self.other_job.as_ref()?;
        Some(format!("{}, {other}", self.job.job_id.as_deref()?))
    }

    /// Returns the known facts about the job, all files together.
    pub(crate) fn finish(self, sink: &mut dyn EventSink) -> JobInfo {
        let Self { mut job, covered, n_procs, n_told, other_job, .. } = self;
        if let Some((other, n_files)) = other_job {
            let first = job.job_id.as_deref().unwrap_or_default();
            let more = if n_files > 1 {
                format!(", and {} more files not of {first}", n_files - 1)
            } else {
                String::new()
            };
            sink.loss(Loss::of_unknown_size(format!(
                "the files are of different jobs, {first} and {other}{more}: they may not be one run"
            )));
        }
        if let Some((from, until)) = covered {
            job.n_procs = Some(n_procs).filter(|n_procs| *n_procs > 0);
            job.n_told = Some(n_told).filter(|n_told| *n_told < n_procs);
            job.run_time_s =
                until.map(|until| until.saturating_sub(from) as f64 / 1e9).filter(|secs| *secs >= 0.0);
        }
        job
    }
}
