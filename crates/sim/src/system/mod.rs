//! Which state shared storage will be in: jobs whose requests queue at targets, as a stochastic net.
//!
//! A [`System`] is targets (operations that servers take from a queue, then bytes that streams share), templates (kinds of applications: compute, then a
//! burst of requests), jobs of these templates, jobs that arrive by chance, and changes at known times. [`simulate`] runs it once, event by event, exactly;
//! [`mean_field`] follows mean counts; [`long_run`] has what it comes to, in closed form. [`saturation`] says where it clogs, and with how many jobs.
//!
//! Left out: the network between nodes and targets, caches, and which bytes lie where.

pub use self::calibrate::{
    Cell, CellError, Fitted, Ladder, Storage, StorageError, fit_storage, requests_per_s,
};
pub use self::carry::{Limit, MostJobs, largest_within, passed};
pub use self::description::{
    Arrivals, Change, Jobs, System, Target, TargetErrors, Template, TemplateErrors, USUAL_HORIZON_S,
    WhatChanges,
};
pub use self::mean_field::mean_field;
pub use self::mva::{Alone, LongRun, Saturation, alone, long_run, saturation};
pub use self::running::{Continues, Phases, RunningJob, Watched};
pub use self::runs::{BinnedRun, BinnedRuns};

use iotide_num::SplitMix64;

use self::compiled::{Compiled, n_tokens, usual_grains};
use self::net::{Net, Timed};
use self::tally::Sums;

mod calibrate;
mod carry;
mod compiled;
mod description;
mod mean_field;
mod mva;
mod net;
mod pilot;
mod running;
mod runs;
mod tally;

/// More tokens than this at once are refused: a coarser granularity has the same result.
const MOST_TOKENS: f64 = 1e7;
/// More pieces of the state over time than a picture shows.
const MOST_INTERVALS: f64 = 100_000.0;

/// How a system is run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// How many requests a token stands for; `None` is as many as leave bursts their length.
    pub grain: Option<u64>,
    /// The distance between reported states, from the beginning to the end of the frame; `None`: none is reported.
    pub interval_s: Option<f64>,
    /// A run that has more events than this is given up; `None`: none is.
    pub most_events: Option<u64>,
}

/// Reason why a system cannot be run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SystemError {
    /// More comes than can be done.
    #[error("{place}: {utilization:.3} of what the target can do arrives: its queue grows without bound")]
    Unbounded {
        /// Where.
        place: String,
        /// Work that comes, as a share of what can be done.
        utilization: f64,
    },
    /// Jobs that arrive and never leave.
    #[error(
        "{place}: its jobs never leave (requests or iterations are null): they become more and more, without bound"
    )]
    Stays {
        /// Where.
        place: String,
    },
    /// Too many tokens.
    #[error("{tokens:.3e} requests would be out at once, more than 1e7: a coarser grain is needed")]
    TooMany {
        /// How many.
        tokens: f64,
    },
    /// Nobody is there.
    #[error("jobs: nobody is there, and nobody comes: nothing would happen")]
    Idle,
    /// A granularity of no request.
    #[error("grain 0: a token stands for at least one request")]
    Grain,
    /// Steps that are none, or too many.
    #[error("interval {0}: the frame would have no steps, or more than 100000")]
    Interval(f64),
    /// More events than were allowed.
    #[error("more than {most_events} events in one run: too many requests to follow")]
    TooLong {
        /// How many were allowed.
        most_events: u64,
    },
    /// A method that has no answer to this.
    #[error("{0}")]
    Method(&'static str),
}

/// Counts between two times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Means {
    /// From when to when.
    pub span_s: [f64; 2],
    /// Requests at operations, by template.
    pub at_op: Vec<f64>,
    /// Requests that move bytes, by template.
    pub moving: Vec<f64>,
    /// Requests beyond the servers, at all targets.
    pub waiting: f64,
    /// Share of the servers that are busy, by target.
    pub op_busy: Vec<f64>,
    /// Share of the bandwidth that is used, by target.
    pub move_busy: Vec<f64>,
    /// Requests done a second, by template.
    pub iops: Vec<f64>,
    /// Bytes moved a second, by template.
    pub bandwidth_bps: Vec<f64>,
    /// How long a burst took, by template; NaN where none ended.
    pub burst_s: Vec<f64>,
}

impl Means {
    /// The same of all templates together, which takes less room.
    pub fn summed(&self) -> Self {
        let sum = |values: &[f64]| vec![values.iter().sum()];
        Self {
            at_op: sum(&self.at_op),
            moving: sum(&self.moving),
            iops: sum(&self.iops),
            bandwidth_bps: sum(&self.bandwidth_bps),
            burst_s: Vec::new(),
            ..self.clone()
        }
    }
}

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Over the frame.
    pub frame: Means,
    /// How much of the frame so many requests were at operations.
    pub distribution_at_op: Vec<f64>,
    /// From one step to the next.
    pub state: Vec<Means>,
    /// Before the first change, between changes, after the last; empty without changes.
    pub stretches: Vec<Means>,
    /// By entry of jobs: bytes a second of one job, and how long its bursts took.
    pub entries: Vec<(f64, f64)>,
    /// How many events there were.
    pub n_events: u64,
}

impl Run {
    /// Of a method that has means alone.
    pub fn of_means(frame: Means) -> Self {
        Self {
            frame,
            distribution_at_op: Vec::new(),
            state: Vec::new(),
            stretches: Vec::new(),
            entries: Vec::new(),
            n_events: 0,
        }
    }
}

/// How many requests a token of each template stands for at most.
pub fn grains(system: &System, settings: &Settings) -> Result<Vec<u64>, SystemError> {
    let grains = match settings.grain {
        Some(0) => return Err(SystemError::Grain),
        Some(grain) => vec![grain; system.templates.len()],
        None => usual_grains(system),
    };
    if system.jobs.is_empty() && system.arrivals.is_empty() && system.changes.is_empty() {
        return Err(SystemError::Idle);
    }
    let tokens = n_tokens(system);
    if tokens > MOST_TOKENS { Err(SystemError::TooMany { tokens }) } else { Ok(grains) }
}

/// Runs a system once.
pub fn simulate(system: &System, settings: &Settings, seed: u64) -> Result<Run, SystemError> {
    simulate_in_grains(system, settings, &grains(system, settings)?, seed)
}

/// Runs a system once, with grains that [`grains`] found of it or of one like it.
pub fn simulate_in_grains(
    system: &System,
    settings: &Settings,
    grains: &[u64],
    seed: u64,
) -> Result<Run, SystemError> {
    mva::check_open(system)?;
    let (timed, marks) = times(system, settings)?;
    let compiled = Compiled::new(system, grains);
    // Seeds that are neighbours begin far apart.
    let seed = SplitMix64::new(seed).next();
    let most_events = settings.most_events.unwrap_or(u64::MAX);
    let walked = Net::new(&compiled, seed)
        .walk(&timed, system.frame_s[0], most_events)
        .ok_or(SystemError::TooLong { most_events })?;
    let at = |index: usize| &walked.marks[index];
    let means = |from: usize, to: usize| means(system, &compiled, at(from), at(to));
    let frame = means(marks.frame[0], marks.frame[1]);
    let (from, to) = (at(marks.frame[0]), at(marks.frame[1]));
    let span_s = to.at_s - from.at_s;
    let entries = (system.jobs.iter().enumerate())
        .map(|(group, jobs)| {
            let bytes = system.templates[jobs.template].request_bytes
                * (to.completed[group] - from.completed[group]) as f64;
            let bursts = to.bursts[group].0 - from.bursts[group].0;
            (bytes / span_s / jobs.count as f64, (to.bursts[group].1 - from.bursts[group].1) / bursts as f64)
        })
        .collect();
    let mut distribution_at_op: Vec<f64> = walked.distribution_s.iter().map(|sum_s| sum_s / span_s).collect();
    let n_used = distribution_at_op.iter().rposition(|share| *share > 0.0).map_or(0, |last| last + 1);
    distribution_at_op.truncate(n_used);
    Ok(Run {
        frame,
        distribution_at_op,
        state: marks.state.windows(2).map(|pair| means(pair[0], pair[1])).collect(),
        stretches: marks.stretches.windows(2).map(|pair| means(pair[0], pair[1])).collect(),
        entries,
        n_events: walked.n_events,
    })
}

/// Which mark is what.
struct Marks {
    frame: [usize; 2],
    state: Vec<usize>,
    stretches: Vec<usize>,
}

/// Everything that happens at a known time, in order, and which mark is what.
fn times(system: &System, settings: &Settings) -> Result<(Vec<(f64, Timed)>, Marks), SystemError> {
    let [from_s, to_s] = system.frame_s;
    let steps = steps(to_s, settings.interval_s)?;
    // What is counted before a change belongs to before.
    let mut timed: Vec<(f64, Timed)> = vec![(0.0, Timed::Mark), (from_s, Timed::Mark)];
    timed.extend(steps.iter().map(|at_s| (*at_s, Timed::Mark)));
    let within = system.changes.iter().enumerate().filter(|(_, change)| change.at_s < to_s);
    timed.extend(within.map(|(index, change)| (change.at_s, Timed::Change(index))));
    timed.push((to_s, Timed::End));
    timed.sort_by(|a, b| {
        let order = |timed: &Timed| match timed {
            Timed::Mark => 0,
            Timed::Change(index) => 1 + index,
            Timed::End => usize::MAX,
        };
        a.0.total_cmp(&b.0).then(order(&a.1).cmp(&order(&b.1)))
    });
    let index_at = |at_s: f64| timed.iter().position(|(known_s, _)| *known_s == at_s).unwrap_or(0);
    let last = timed.len() - 1;
    let changes: Vec<usize> = (timed.iter().enumerate())
        .filter(|(_, (_, timed))| matches!(timed, Timed::Change(_)))
        .map(|(index, _)| index)
        .collect();
    let stretches = if changes.is_empty() {
        Vec::new()
    } else {
        // The state before the frame counts if the first change is before it.
        let first_s = system.changes.first().map_or(0.0, |change| change.at_s);
        let begin = if first_s > from_s { index_at(from_s) } else { 0 };
        std::iter::once(begin).chain(changes).chain([last]).collect()
    };
    let state = if steps.is_empty() {
        Vec::new()
    } else {
        std::iter::once(0).chain(steps.iter().map(|at_s| index_at(*at_s))).chain([last]).collect()
    };
    let marks = Marks { frame: [index_at(from_s), last], state, stretches };
    Ok((timed, marks))
}

/// Where steps end, but for the last.
fn steps(to_s: f64, interval_s: Option<f64>) -> Result<Vec<f64>, SystemError> {
    let Some(interval_s) = interval_s else { return Ok(Vec::new()) };
    let n = (to_s / interval_s).ceil();
    if !(interval_s > 0.0 && (1.0..=MOST_INTERVALS).contains(&n)) {
        return Err(SystemError::Interval(interval_s));
    }
    Ok((1..n as u64).map(|step| step as f64 * interval_s).filter(|at_s| *at_s < to_s).collect())
}

fn means(system: &System, compiled: &Compiled, from: &Sums, to: &Sums) -> Means {
    let span_s = to.at_s - from.at_s;
    let mean = |from: &[f64], to: &[f64]| -> Vec<f64> {
        from.iter().zip(to).map(|(from, to)| ((to - from) / span_s).max(0.0)).collect()
    };
    let n_templates = system.templates.len();
    let (mut iops, mut bursts) = (vec![0.0; n_templates], vec![(0, 0.0); n_templates]);
    for (group, kind) in compiled.groups.iter().enumerate() {
        let kind = *kind as usize;
        iops[kind] += (to.completed[group] - from.completed[group]) as f64 / span_s;
        bursts[kind].0 += to.bursts[group].0 - from.bursts[group].0;
        bursts[kind].1 += to.bursts[group].1 - from.bursts[group].1;
    }
    let bandwidth_bps =
        iops.iter().zip(&system.templates).map(|(per_s, template)| per_s * template.request_bytes).collect();
    Means {
        span_s: [from.at_s, to.at_s],
        at_op: mean(&from.at_op, &to.at_op),
        moving: mean(&from.moving, &to.moving),
        waiting: ((to.waiting - from.waiting) / span_s).max(0.0),
        op_busy: mean(&from.op_busy, &to.op_busy),
        move_busy: mean(&from.move_busy, &to.move_busy),
        iops,
        bandwidth_bps,
        burst_s: bursts.iter().map(|(n, sum_s)| sum_s / *n as f64).collect(),
    }
}

#[cfg(test)]
mod tests;
