//! How jobs fared that really ran beside each other.

use std::ops::ControlFlow;

use iotide_analysis::{Phase, counts_from_1970};
use iotide_formats::OpenOptions;
use iotide_report::MeasureDocument;
use iotide_sim::{RealJob, bandwidth_alone_bps, common_frame_s, measure, phases_of};
use iotide_trace::{AccessFacts, Event, EventSink, Grain, Loss, TimeSpent, Timestamp, TraceInfo};

use crate::{Error, Input, Progress};

/// How jobs are measured.
#[derive(Clone, Debug, Default)]
pub struct MeasureOptions {
    /// How inputs are opened.
    pub open: OpenOptions,
    /// The stretch of time that is measured, in seconds since the first job began; `None` is the time in which all jobs were there.
    pub frame_s: Option<[f64; 2]>,
    /// Bandwidth of a job that is alone; `None` is the median of the phases that no other job shared.
    pub bandwidth_bps: Option<f64>,
}

/// Measures jobs that ran on the same storage: stretch, I/O slowdown and utilisation by the definitions of `simulate io`.
///
/// An input that cannot be read is an error, and so is one without times of its I/O: without one of its jobs, the answer would be another one.
pub fn measure_jobs(
    inputs: &[Input],
    options: &MeasureOptions,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<MeasureDocument, Error> {
    let mut jobs = Vec::new();
    let mut losses = Vec::new();
    for (i, input) in inputs.iter().enumerate() {
        progress(Progress::Reading { name: &input.name(), nth: i + 1, of: inputs.len() });
        let (job, lost) = read_job(input, &options.open)?;
        jobs.push(job);
        losses.extend(lost);
    }
    let jobs = on_one_clock(jobs)?;
    let Some(frame_s) = options.frame_s.or_else(|| common_frame_s(&jobs)) else {
        return Err(Error::NoTime);
    };
    let bandwidth_bps = options.bandwidth_bps.or_else(|| bandwidth_alone_bps([&jobs[..]]));
    if bandwidth_bps.is_none() {
        losses.push(Loss::of_unknown_size(
            "the bandwidth of a job alone: each phase shared the storage with one of another job".to_owned(),
        ));
    }
    // Without a bandwidth there is no time that the I/O would take alone.
    let outcome = measure(&jobs, frame_s, bandwidth_bps.unwrap_or(f64::NAN));
    Ok(MeasureDocument::new(&jobs, &outcome, frame_s, bandwidth_bps, &losses))
}

/// A job on its own clock.
struct OwnClock {
    job: RealJob,
    /// When that clock was zero, since 1970.
    zero_unix_s: Option<f64>,
}

fn read_job(input: &Input, open: &OpenOptions) -> Result<(OwnClock, Vec<Loss>), Error> {
    let mut sink = Busy::default();
    let info = input.open(open)?.read(&mut sink)?;
    let Busy { requests, losses } = sink;
    let phases = phases_of(requests);
    let (Some(first), Some(last)) = (phases.first(), phases.last()) else {
        return Err(Error::NoRequests { name: input.name() });
    };
    let TraceInfo { job, .. } = &info;
    // The run began with its clock, if what it moved lies within its run time.
    let there_s = match job.run_time_s {
        Some(run_s) if first.start_s >= 0.0 && last.end_s <= run_s => [0.0, run_s],
        _ => [first.start_s, last.end_s],
    };
    let zero_unix_s = if counts_from_1970(first.start_s) { Some(0.0) } else { job.start_time_unix_s };
    Ok((OwnClock { job: RealJob { name: input.name(), there_s, phases }, zero_unix_s }, losses))
}

/// Puts jobs on the clock that is zero when the first of them begins. Where none says when it began, all their clocks are the same.
fn on_one_clock(jobs: Vec<OwnClock>) -> Result<Vec<RealJob>, Error> {
    let is_known = |job: &OwnClock| job.zero_unix_s.is_some();
    if jobs.iter().any(is_known)
        && let Some(unknown) = jobs.iter().find(|job| !is_known(job))
    {
        return Err(Error::NoStartTime { name: unknown.job.name.clone() });
    }
    let begin_s = |job: &OwnClock| job.zero_unix_s.unwrap_or(0.0) + job.job.there_s[0];
    let first_s = jobs.iter().map(begin_s).fold(f64::INFINITY, f64::min);
    let moved = |OwnClock { mut job, zero_unix_s }: OwnClock| {
        let by_s = zero_unix_s.unwrap_or(0.0) - first_s;
        job.there_s = job.there_s.map(|at_s| at_s + by_s);
        for phase in &mut job.phases {
            (phase.start_s, phase.end_s) = (phase.start_s + by_s, phase.end_s + by_s);
        }
        job
    };
    Ok(jobs.into_iter().map(moved).collect())
}

/// When I/O was under way. Totals of files do not say.
#[derive(Default)]
struct Busy {
    requests: Vec<Phase>,
    losses: Vec<Loss>,
}

impl EventSink for Busy {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        let (start_s, end_s) = (event.start.as_secs(), event.end.as_secs());
        if event.grain != Grain::Record && start_s.is_finite() && end_s >= start_s {
            let bytes = if event.op.moves_data() { event.bytes } else { 0.0 };
            self.requests.push(Phase { start_s, end_s, bytes });
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
