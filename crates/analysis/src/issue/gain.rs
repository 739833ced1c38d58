//! The share of a run that goes away with an issue, and the interval it lies in.

use super::cost::Cost;
use super::run::{Run, Way};

/// Seconds of the run that go away: cautious, likely, optimistic.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Saved {
    pub(super) cautious: f64,
    pub(super) likely: f64,
    pub(super) optimistic: f64,
}

impl Saved {
    /// An assumed share of the time: half of it is the cautious end, all of it the optimistic one.
    pub(super) fn assumed(factor: f64, mean_s: f64, busiest_s: f64, most_s: f64) -> Self {
        Self {
            cautious: 0.5 * factor * mean_s.min(busiest_s),
            likely: factor * busiest_s,
            optimistic: most_s.max(busiest_s),
        }
    }

    /// The same, from a cost by rank.
    pub(super) fn of_cost(factor: f64, cost: &Cost, n_ranks: f64) -> Self {
        Self::assumed(factor, cost.mean(n_ranks), cost.busiest(), cost.busiest())
    }

    /// An assumed factor over another saving.
    pub(super) fn scaled(self, factor: f64) -> Self {
        Self {
            cautious: 0.5 * factor * self.cautious,
            likely: factor * self.likely,
            optimistic: self.optimistic,
        }
    }
}

/// Calls of one kind: their time between two bounds, and what limits them after a fix.
#[derive(Clone, Debug, Default)]
pub(super) struct Pattern {
    low: Cost,
    likely: Cost,
    high: Cost,
    bytes: Cost,
    /// Least time of the storage targets for these bytes.
    targets: Cost,
    pub(super) calls: f64,
    pub(super) moved: f64,
}

/// Time of some calls of a record.
pub(super) struct Part {
    pub(super) low: f64,
    pub(super) likely: f64,
    pub(super) high: f64,
    pub(super) bytes: f64,
    pub(super) calls: f64,
}

impl Part {
    /// Calls of a kind, `calls` of all with `bytes` of all, in a record that took `seconds`; `exact` if the time is known.
    pub(super) fn of(
        (calls, all_calls): (f64, f64),
        (bytes, all_bytes): (f64, f64),
        seconds: f64,
        exact: Option<f64>,
    ) -> Self {
        let by_calls = if all_calls > 0.0 { (calls / all_calls).min(1.0) } else { 0.0 };
        let by_bytes = if all_bytes > 0.0 { (bytes / all_bytes).min(1.0) } else { by_calls };
        let (low, high) = (by_calls.min(by_bytes), by_calls.max(by_bytes));
        let part = |share: f64| exact.unwrap_or(share * seconds);
        Self { low: part(low), likely: part((low * high).sqrt()), high: part(high), bytes, calls }
    }
}

impl Pattern {
    /// Adds calls that a rank makes for itself.
    pub(super) fn add(&mut self, record: &iotide_trace::FileRecord, part: &Part, n_ranks: f64) {
        self.low.add(record, part.low, n_ranks);
        self.likely.add(record, part.likely, n_ranks);
        self.high.add(record, part.high, n_ranks);
        self.bytes.add_bytes(record, part.bytes, n_ranks);
        self.count(part);
    }

    /// Adds calls beneath collective ones: all ranks wait for `k` that move the bytes, of which the slowest takes `slowest_s`.
    pub(super) fn add_beneath(&mut self, part: &Part, k: f64, slowest_s: f64, n_ranks: f64) {
        // The mean of those who move the bytes is at most the slowest of them.
        let each = |seconds: f64| (seconds / k).min(slowest_s);
        self.low.add_to_all(each(part.low), n_ranks);
        self.likely.add_to_all(each(part.likely), n_ranks);
        self.high.add_to_all(slowest_s.min(part.high), n_ranks);
        self.bytes.add_to_all(part.bytes / k, n_ranks);
        self.count(part);
    }

    fn count(&mut self, part: &Part) {
        self.calls += part.calls;
        self.moved += part.bytes;
    }

    /// Adds what the targets of a file need at least for its bytes. All ranks wait for a file they share.
    pub(super) fn limit(&mut self, record: Option<&iotide_trace::FileRecord>, seconds: f64, n_ranks: f64) {
        match record {
            Some(record) => self.targets.add(record, seconds, n_ranks),
            None => self.targets.add_to_all(seconds, n_ranks),
        }
    }

    pub(super) fn busiest_s(&self) -> f64 {
        self.likely.busiest()
    }

    pub(super) fn busiest_rank(&self) -> Option<iotide_trace::Rank> {
        self.likely.busiest_rank()
    }

    pub(super) fn total_s(&self) -> f64 {
        self.likely.total()
    }

    /// Mean size of a request.
    pub(super) fn request_bytes(&self) -> f64 {
        if self.calls > 0.0 { self.moved / self.calls } else { 0.0 }
    }

    /// The time that is saved when the same bytes move in requests of a mebibyte.
    pub(super) fn saved(&self, run: &Run, way: Way) -> Saved {
        const MEBIBYTE: f64 = 1_048_576.0;
        let size = (self.request_bytes() / MEBIBYTE).min(1.0);
        let after = |time_s: f64, least: f64, bytes: f64, targets_s: f64| {
            (time_s * least.max(size)).max(bytes / run.rank_bps(way)).max(targets_s)
        };
        let of = |time_s: f64, least: f64, bytes: f64, targets_s: f64| {
            (time_s - after(time_s, least, bytes, targets_s)).max(0.0)
        };
        let (bytes, targets_s) = (self.bytes.busiest(), self.targets.busiest());
        let n = run.n_ranks;
        Saved {
            cautious: of(self.low.mean(n), 0.1, self.bytes.mean(n), self.targets.mean(n)),
            likely: of(self.likely.busiest(), 0.1, bytes, targets_s),
            optimistic: of(self.high.busiest(), 0.0, bytes, targets_s),
        }
    }
}
