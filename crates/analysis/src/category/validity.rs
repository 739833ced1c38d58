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
    /// Records of the source made no sense to its reader: a count below zero, a time that is none, an end before its start.
    #[error("{n} records make no sense: {what}")]
    Senseless {
        /// How many.
        n: u64,
        /// The first of them.
        what: String,
    },
    /// The source ends, or can no longer be read, before its end.
    #[error("not whole: {what}")]
    Cut {
        /// Where, and what is missing.
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
    if let Some(cut) = faults.losses.iter().find(|loss| loss.cut) {
        return Some(Rejection::Cut { what: cut.what.clone() });
    }
    // A bad record costs itself, and many of them the trust in the others.
    let n_senseless: u64 = faults.losses.iter().filter_map(|loss| loss.records).sum();
    let n_records = (observed.tally.n_events + n_senseless) as f64;
    if n_senseless > 1 && n_senseless as f64 > thresholds.senseless_share * n_records
        || n_senseless > 0 && observed.tally.n_events == 0
    {
        let first = faults.losses.iter().find(|loss| loss.records.is_some_and(|n| n > 0));
        let what = first.map_or_else(String::new, |loss| loss.what.clone());
        return Some(Rejection::Senseless { n: n_senseless, what });
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

#[cfg(test)]
mod tests {
    use iotide_trace::{Event, EventSink, JobInfo, Loss, Op, Rank, Timestamp};

    use super::*;
    use crate::{CategoryConfig, categorize};

    fn reason(events: &[(f64, f64, f64)], losses: &[Loss]) -> Option<String> {
        let mut observed = Observed::new();
        let at = |secs| Timestamp::from_secs_since_start(secs).unwrap();
        for &(start_s, end_s, bytes) in events {
            let _ = observed.event(Event::data(Op::Write, Rank(0), at(start_s), at(end_s), bytes));
        }
        losses.iter().for_each(|loss| observed.loss(loss.clone()));
        let job = JobInfo { run_time_s: Some(100.0), ..JobInfo::default() };
        categorize(observed, &job, &CategoryConfig::default()).rejected.map(|reason| reason.to_string())
    }

    #[test]
    fn a_run_that_holds_together_is_not_rejected() {
        assert_eq!(reason(&[(0.0, 100.9, 5.0)], &[Loss::of_unknown_size("a remark")]), None);
    }

    #[test]
    fn what_cannot_have_happened_is_named() {
        assert_eq!(reason(&[(1.0, 2.0, -5.0)], &[]).unwrap(), "1 events moved fewer than zero bytes");
        assert_eq!(reason(&[(2.0, 1.0, 5.0)], &[]).unwrap(), "1 events end before they begin");
        assert_eq!(
            reason(&[(1.0, 102.0, 5.0)], &[]).unwrap(),
            "events lie between 1 s and 102 s, the run between 0 s and 100 s"
        );
        assert_eq!(
            reason(&[(1.0, 2.0, 5.0)], &[Loss::of_records(3, "line 4: -1 bytes")]).unwrap(),
            "3 records make no sense: line 4: -1 bytes"
        );
        // One of many costs itself.
        assert_eq!(reason(&[(1.0, 2.0, 5.0)], &[Loss::of_records(1, "line 4: -1 bytes")]), None);
        assert_eq!(reason(&[(1.0, 2.0, 5.0); 97], &[Loss::of_records(3, "line 4: -1 bytes")]), None);
        assert!(reason(&[(1.0, 2.0, 5.0); 40], &[Loss::of_records(3, "line 4: -1 bytes")]).is_some());
        let cut = [Loss::of_records(3, "line 4: -1 bytes"), Loss::of_the_rest("POSIX: the log is cut")];
        assert_eq!(reason(&[(1.0, 2.0, 5.0)], &cut).unwrap(), "not whole: POSIX: the log is cut");
        assert_eq!(reason(&[], &[]).unwrap(), "the trace has no events");
    }
}
