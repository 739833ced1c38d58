//! Operations: stretches in which bytes are moved, near ones taken together.

use iotide_trace::StepSignal;

use super::CategoryThresholds;

/// A stretch in which bytes are moved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operation {
    /// When it begins, in seconds since the run began.
    pub start_s: f64,
    /// When it ends.
    pub end_s: f64,
    /// Bytes it moves.
    pub bytes: f64,
}

impl Operation {
    /// How long it takes.
    pub fn duration_s(&self) -> f64 {
        self.end_s - self.start_s
    }
}

/// Returns the stretches in which the bandwidth is not zero: overlapping operations come as one.
pub(super) fn busy_stretches(signal: &StepSignal, zero_s: f64) -> impl Iterator<Item = Operation> {
    let mut pieces = signal.pieces().peekable();
    std::iter::from_fn(move || {
        let (start, mut until, rate_bps) = pieces.find(|(_, _, rate_bps)| *rate_bps > 0.0)?;
        let mut bytes = rate_bps * until.secs_since(start);
        while let Some((start, end, rate_bps)) = pieces.next_if(|(_, _, rate_bps)| *rate_bps > 0.0) {
            bytes += rate_bps * end.secs_since(start);
            until = end;
        }
        Some(Operation { start_s: start.as_secs() - zero_s, end_s: until.as_secs() - zero_s, bytes })
    })
}

/// Returns the stretches of constant bandwidth: how the bytes really lie, where operations overlap.
pub(super) fn even_stretches(signal: &StepSignal, zero_s: f64) -> impl Iterator<Item = Operation> {
    signal.pieces().filter(|(_, _, rate_bps)| *rate_bps > 0.0).map(move |(start, end, rate_bps)| Operation {
        start_s: start.as_secs() - zero_s,
        end_s: end.as_secs() - zero_s,
        bytes: rate_bps * end.secs_since(start),
    })
}

/// Joins operations whose gap is negligible, for the run or beside the operation before.
pub(super) fn merge_neighbours(
    operations: impl Iterator<Item = Operation>,
    run_time_s: f64,
    thresholds: &CategoryThresholds,
) -> Vec<Operation> {
    let mut merged: Vec<Operation> = Vec::new();
    for operation in operations {
        if let Some(last) = merged.last_mut() {
            let gap_s = operation.start_s - last.end_s;
            if gap_s < thresholds.merge_gap_of_run * run_time_s
                || gap_s < thresholds.merge_gap_of_neighbour * last.duration_s()
            {
                last.end_s = last.end_s.max(operation.end_s);
                last.bytes += operation.bytes;
                continue;
            }
        }
        merged.push(operation);
    }
    merged
}

#[cfg(test)]
mod tests {
    use iotide_trace::{Overlap, Timestamp};

    use super::*;

    fn merged(intervals: &[(f64, f64)]) -> Vec<(f64, f64, f64)> {
        let at = |secs| Timestamp::from_secs_since_start(secs).unwrap();
        let mut overlap = Overlap::new();
        for &(start_s, end_s) in intervals {
            overlap.add(at(start_s), at(end_s), 10.0);
        }
        let signal = overlap.finish();
        merge_neighbours(busy_stretches(&signal, 0.0), 1000.0, &CategoryThresholds::default())
            .iter()
            .map(|operation| (operation.start_s, operation.end_s, operation.bytes.round()))
            .collect()
    }

    #[test]
    fn operations_that_overlap_or_touch_are_one() {
        assert_eq!(merged(&[(10.0, 20.0), (15.0, 30.0), (30.0, 40.0)]), [(10.0, 40.0, 30.0)]);
    }

    #[test]
    fn a_gap_that_is_short_for_the_run_is_none() {
        assert_eq!(merged(&[(10.0, 20.0), (20.9, 30.0)]), [(10.0, 30.0, 20.0)]);
        assert_eq!(merged(&[(10.0, 20.0), (21.1, 30.0)]).len(), 2);
    }

    #[test]
    fn a_gap_that_is_short_beside_the_operation_before_is_none() {
        assert_eq!(merged(&[(10.0, 410.0), (413.0, 420.0)]).len(), 1);
        assert_eq!(merged(&[(10.0, 410.0), (415.0, 420.0)]).len(), 2);
    }
}
