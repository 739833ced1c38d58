//! The bandwidth asynchronous I/O would have needed to stay hidden behind the computing.
//!
//! After TMIO (ADMIRE deliverable 5.5, section 3.4.4). A phase lasts from the first non-blocking request on an empty queue until
//! all are done. Had its bytes moved by the time the program first waited for them, the program would have lost nothing: that
//! bandwidth is what the phase *required*, beside the *throughput* it had.

use std::collections::BTreeMap;

use iotide_trace::{AsyncPhase, Op, Rank};

/// Returns what the asynchronous phases of a run required and got; `None` if there were none.
///
/// A rank's figure is all its bytes over all its time in phases (or until it waited), and the application's is the sum over its ranks.
/// Where a source does not tell ranks apart, phases that overlap are taken for different ranks'.
pub fn demand(phases: &[AsyncPhase]) -> Option<Demand> {
    let of = |op: Op| need(phases.iter().filter(|phase| phase.op == op));
    let demand = Demand { read: of(Op::Read), write: of(Op::Write), phases: phases.to_vec() };
    (demand.read.is_some() || demand.write.is_some()).then_some(demand)
}

/// Bandwidth that asynchronous I/O required and got.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// Of reads.
    pub read: Option<Need>,
    /// Of writes.
    pub write: Option<Need>,
    /// Each phase, as it came.
    pub phases: Vec<AsyncPhase>,
}

/// Bandwidth that the phases of one kind required and got, for the application.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Need {
    /// How many phases.
    pub n_phases: u64,
    /// Bytes they moved.
    pub bytes: f64,
    /// The bandwidth they had; `None` if they took no time.
    pub throughput_bps: Option<f64>,
    /// The bandwidth that would have hidden them; `None` if the program waited at once.
    pub required_bps: Option<f64>,
    /// Time spent waiting, over all ranks.
    pub lost_s: f64,
    /// Time spent waiting by the rank that waited most.
    pub longest_lost_s: f64,
}

impl Need {
    /// Whether the program had to wait because the storage was slower than required.
    pub fn is_unmet(&self) -> bool {
        match (self.throughput_bps, self.required_bps) {
            (Some(throughput_bps), Some(required_bps)) => throughput_bps < required_bps,
            _ => self.lost_s > 0.0,
        }
    }
}

/// The bandwidth a phase had.
pub fn throughput_bps(phase: &AsyncPhase) -> Option<f64> {
    rate(phase.bytes, phase.end.secs_since(phase.start))
}

/// The bandwidth that would have hidden a phase.
pub fn required_bps(phase: &AsyncPhase) -> Option<f64> {
    rate(phase.bytes, phase.waited.secs_since(phase.start))
}

/// The time from the first wait until a phase was over. With several waits in a phase this counts what the program did between
/// them, too, as TMIO does.
pub fn lost_s(phase: &AsyncPhase) -> f64 {
    phase.end.secs_since(phase.waited).max(0.0)
}

fn rate(bytes: f64, over_s: f64) -> Option<f64> {
    (over_s > 0.0).then(|| bytes / over_s)
}

#[derive(Default)]
struct RankSums {
    bytes: f64,
    phases_s: f64,
    until_waited_s: f64,
    lost_s: f64,
}

fn need<'a>(phases: impl Iterator<Item = &'a AsyncPhase>) -> Option<Need> {
    let mut phases: Vec<&AsyncPhase> = phases.collect();
    phases.sort_by_key(|phase| phase.start);
    let mut ranks: BTreeMap<(Rank, usize), RankSums> = BTreeMap::new();
    let mut lanes = Vec::new();
    for phase in &phases {
        let lane = if phase.rank == Rank::ALL { free_lane(&mut lanes, phase) } else { 0 };
        let sums = ranks.entry((phase.rank, lane)).or_default();
        sums.bytes += phase.bytes;
        sums.phases_s += phase.end.secs_since(phase.start);
        sums.until_waited_s += phase.waited.secs_since(phase.start);
        sums.lost_s += lost_s(phase);
    }
    // One rank without a rate leaves the application without one: a sum that lacks it would say too little.
    let sum =
        |of: fn(&RankSums) -> f64| ranks.values().map(|sums| rate(sums.bytes, of(sums))).sum::<Option<f64>>();
    (!phases.is_empty()).then(|| Need {
        n_phases: phases.len() as u64,
        bytes: phases.iter().map(|phase| phase.bytes).sum(),
        throughput_bps: sum(|sums| sums.phases_s),
        required_bps: sum(|sums| sums.until_waited_s),
        lost_s: ranks.values().map(|sums| sums.lost_s).sum(),
        longest_lost_s: ranks.values().map(|sums| sums.lost_s).fold(0.0, f64::max),
    })
}

/// The first stand-in for a rank that has nothing under way; `lanes` has when each is done.
fn free_lane(lanes: &mut Vec<iotide_trace::Timestamp>, phase: &AsyncPhase) -> usize {
    let lane = lanes.iter().position(|done| *done <= phase.start).unwrap_or_else(|| {
        lanes.push(phase.end);
        lanes.len() - 1
    });
    lanes[lane] = phase.end;
    lane
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_trace::Timestamp;

    fn phase(op: Op, rank: i32, [start_s, waited_s, end_s]: [f64; 3], bytes: f64) -> AsyncPhase {
        let [start, waited, end] =
            [start_s, waited_s, end_s].map(|at_s| Timestamp::from_secs_since_start(at_s).unwrap());
        AsyncPhase { op, rank: Rank(rank), start, waited, end, bytes, n_requests: 1 }
    }

    #[test]
    fn a_run_without_asynchronous_io_demands_nothing() {
        assert_eq!(demand(&[]), None);
    }

    #[test]
    fn ranks_that_wait_required_more_than_they_got() {
        let phases = [
            phase(Op::Write, 0, [0.0, 2.0, 4.0], 8.0),
            phase(Op::Write, 0, [10.0, 12.0, 14.0], 8.0),
            phase(Op::Write, 1, [0.0, 4.0, 5.0], 20.0),
            phase(Op::Read, 1, [6.0, 7.0, 7.0], 3.0),
        ];
        let demand = demand(&phases).unwrap();
        let write = demand.write.unwrap();
        assert_eq!((write.n_phases, write.bytes), (3, 36.0));
        assert_eq!(write.throughput_bps, Some(16.0 / 8.0 + 20.0 / 5.0));
        assert_eq!(write.required_bps, Some(16.0 / 4.0 + 20.0 / 4.0));
        assert_eq!((write.lost_s, write.longest_lost_s), (5.0, 4.0));
        assert!(write.is_unmet());
        let read = demand.read.unwrap();
        assert_eq!((read.throughput_bps, read.required_bps, read.lost_s), (Some(3.0), Some(3.0), 0.0));
        assert!(!read.is_unmet(), "hidden entirely");
    }

    #[test]
    fn waiting_at_once_requires_no_bandwidth_that_could_be_named() {
        let demand = demand(&[phase(Op::Write, 0, [1.0, 1.0, 3.0], 8.0)]).unwrap();
        let write = demand.write.unwrap();
        assert_eq!((write.required_bps, write.lost_s), (None, 2.0));
        assert!(write.is_unmet());
    }

    #[test]
    fn phases_of_unnamed_ranks_that_overlap_are_of_different_ranks() {
        let phases = [[0.0, 2.0, 2.0], [1.0, 3.0, 3.0], [2.0, 4.0, 4.0]];
        let phases = phases.map(|times| phase(Op::Write, -1, times, 8.0));
        assert_eq!(demand(&phases).unwrap().write.unwrap().throughput_bps, Some(16.0 / 4.0 + 8.0 / 2.0));
    }
}
