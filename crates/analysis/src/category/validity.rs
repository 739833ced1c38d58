//! Runs whose trace cannot be trusted.

use super::{CategoryThresholds, Observed, Run};

/// Why the labels of a run should not be counted.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// A count is below zero.
    #[error("{n} events moved fewer than zero bytes")]
    NegativeCount {
        /// How many.
        n: u64,
    },
    /// An interval runs backward.
    #[error("{n} events end before they begin")]
    EndBeforeStart {
        /// How many.
        n: u64,
    },
    /// Something happens before the run begins or after it ends.
    #[error("events lie between {first_s} s and {last_s} s, the run between 0 s and {run_time_s} s")]
    OutsideRun {
        /// When the first event begins, in seconds since the run began.
        first_s: f64,
        /// When the last event ends.
        last_s: f64,
        /// How long the run took.
        run_time_s: f64,
    },
    /// A part of the trace is missing.
    #[error("the trace is not whole: {what}")]
    Incomplete {
        /// What is missing.
        what: String,
    },
    /// There is nothing in the trace.
    #[error("the trace has no events")]
    Empty,
}

/// Returns the first reason to distrust the run.
pub(super) fn rejection(
    observed: &Observed,
    run: &Run,
    thresholds: &CategoryThresholds,
) -> Option<Rejection> {
    let faults = &observed.faults;
    if faults.negative > 0 {
        return Some(Rejection::NegativeCount { n: faults.negative });
    }
    if faults.backward > 0 {
        return Some(Rejection::EndBeforeStart { n: faults.backward });
    }
    let (Some(start), Some(end)) = (observed.tally.start, observed.tally.end) else {
        return Some(Rejection::Empty);
    };
    let (first_s, last_s) = (start.as_secs() - run.zero_s, end.as_secs() - run.zero_s);
    if first_s < -thresholds.outside_run_s || last_s > run.time_s + thresholds.outside_run_s {
        return Some(Rejection::OutsideRun { first_s, last_s, run_time_s: run.time_s });
    }
    None
}
