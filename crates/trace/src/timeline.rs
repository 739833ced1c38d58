//! When each rank read and wrote, as far as calls have times of their own: a picture that can be zoomed into.
//!
//! However many calls, a few thousand stretches are kept. Calls of a rank that are closer together than the granularity are one
//! stretch, and the granularity doubles whenever there are too many; so does the number of ranks in a row.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::{Event, EventSink, Grain, Loss, Op, Rank};

/// Collects the calls of a run.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// By row and whether it is a write.
    rows: BTreeMap<(i32, bool), Vec<Stretch>>,
    n: usize,
    /// Calls no further apart are one stretch.
    gap_ns: i64,
    ranks_per_row_log2: u32,
}

/// A stretch of a row in which bytes were moved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    /// When it begins, in nanoseconds on the trace's clock.
    pub start_ns: i64,
    /// When it ends.
    pub end_ns: i64,
    /// Bytes moved.
    pub bytes: f64,
    /// By how many calls.
    pub calls: u64,
}

/// Rows of a timeline, and their scale.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimelineRows {
    /// How many ranks a row stands for.
    pub ranks_per_row: u32,
    /// Calls no further apart than this are one stretch.
    pub gap_s: f64,
    /// The rows, ascending by rank.
    pub rows: Vec<TimelineRow>,
}

/// The stretches of one rank or a few.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimelineRow {
    /// The first rank.
    pub first: Rank,
    /// Stretches of reads, ascending.
    pub reads: Vec<Stretch>,
    /// Stretches of writes, ascending.
    pub writes: Vec<Stretch>,
}

impl Timeline {
    /// The most stretches in the end.
    pub const MOST_STRETCHES: usize = 10_000;
    /// The most rows.
    pub const MOST_ROWS: usize = 64;

    /// Returns what was collected; `None` if no call had a rank and times of its own.
    pub fn finish(mut self) -> Option<TimelineRows> {
        self.widen_rows();
        self.rows.values_mut().for_each(|row| join(row, self.gap_ns));
        self.count();
        while self.n > Self::MOST_STRETCHES {
            self.coarsen();
        }
        if self.rows.is_empty() {
            return None;
        }
        let mut rows: BTreeMap<i32, TimelineRow> = BTreeMap::new();
        for ((row, is_write), stretches) in self.rows {
            let known = rows.entry(row).or_default();
            known.first = Rank(row << self.ranks_per_row_log2);
            *(if is_write { &mut known.writes } else { &mut known.reads }) = stretches;
        }
        Some(TimelineRows {
            ranks_per_row: 1 << self.ranks_per_row_log2,
            gap_s: self.gap_ns as f64 * 1e-9,
            rows: rows.into_values().collect(),
        })
    }

    fn count(&mut self) {
        self.n = self.rows.values().map(Vec::len).sum();
    }

    /// Puts ranks together until there are few rows.
    fn widen_rows(&mut self) {
        while let Some(((last, _), _)) = self.rows.last_key_value()
            && *last as usize >= Self::MOST_ROWS
        {
            self.ranks_per_row_log2 += 1;
            let mut rows: BTreeMap<(i32, bool), Vec<Stretch>> = BTreeMap::new();
            for ((row, is_write), stretches) in std::mem::take(&mut self.rows) {
                rows.entry((row >> 1, is_write)).or_default().extend(stretches);
            }
            self.rows = rows;
        }
    }

    fn coarsen(&mut self) {
        let all = || self.rows.values().flatten();
        let start_ns = all().map(|stretch| stretch.start_ns).min().unwrap_or(0);
        let end_ns = all().map(|stretch| stretch.end_ns).max().unwrap_or(0);
        // What is no further apart than a hundred-thousandth of the run is not told apart by any screen.
        let least_ns = end_ns.saturating_sub(start_ns) / 100_000;
        self.gap_ns = self.gap_ns.saturating_mul(2).max(least_ns).max(1);
        self.rows.values_mut().for_each(|row| join(row, self.gap_ns));
        self.count();
    }
}

impl Stretch {
    /// Makes one of this and a later one.
    fn take_in(&mut self, later: Self) {
        self.end_ns = self.end_ns.max(later.end_ns);
        self.bytes += later.bytes;
        self.calls += later.calls;
    }
}

/// Sorts stretches, and makes one of those that are close together.
fn join(stretches: &mut Vec<Stretch>, gap_ns: i64) {
    stretches.sort_unstable_by_key(|stretch| stretch.start_ns);
    let mut joined: Vec<Stretch> = Vec::new();
    for stretch in stretches.drain(..) {
        match joined.last_mut() {
            Some(last) if stretch.start_ns.saturating_sub(last.end_ns) <= gap_ns => {
                last.take_in(stretch);
            }
            _ => joined.push(stretch),
        }
    }
    *stretches = joined;
}

impl EventSink for Timeline {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        if event.grain != Grain::Call || event.rank < Rank(0) || !event.op.moves_data() {
            return ControlFlow::Continue(());
        }
        let (start_ns, end_ns) = (event.start.as_nanos(), event.end.max(event.start).as_nanos());
        let bytes = if event.bytes > 0.0 && event.bytes.is_finite() { event.bytes } else { 0.0 };
        let stretch = Stretch { start_ns, end_ns, bytes, calls: u64::from(event.calls) };
        let row =
            self.rows.entry((event.rank.0 >> self.ranks_per_row_log2, event.op == Op::Write)).or_default();
        // Sources mostly write the calls of a rank in order.
        match row.last_mut() {
            Some(last)
                if start_ns >= last.start_ns && start_ns.saturating_sub(last.end_ns) <= self.gap_ns =>
            {
                last.take_in(stretch);
            }
            _ => {
                row.push(stretch);
                self.n += 1;
            }
        }
        if self.n > 8 * Self::MOST_STRETCHES {
            self.widen_rows();
            while self.n > 4 * Self::MOST_STRETCHES {
                self.coarsen();
            }
        }
        ControlFlow::Continue(())
    }

    fn loss(&mut self, _: Loss) {}

    fn async_event(&mut self, event: Event, _: crate::Timestamp) -> ControlFlow<()> {
        self.event(event)
    }

    fn time_spent(&mut self, _: crate::TimeSpent) {}
    fn access_facts(&mut self, _: &crate::AccessFacts) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;

    #[test]
    fn however_many_calls_few_stretches_keep_all_bytes() {
        let mut timeline = Timeline::default();
        let (mut bytes, n) = (0.0, 300_000u32);
        for i in 0..n {
            let dice = u64::from(i).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let start = Timestamp::from_nanos_since_start((dice % 3_600_000_000_000) as i64);
            let op = if dice & (1 << 40) == 0 { Op::Read } else { Op::Write };
            let rank = Rank((dice >> 48) as i32 % 3000);
            let _ = timeline.event(Event::data(op, rank, start, start.plus_nanos(1000), 7.0));
            bytes += 7.0;
        }
        let told = timeline.finish().unwrap();
        let stretches = || told.rows.iter().flat_map(|row| row.reads.iter().chain(&row.writes));
        assert!(told.rows.len() <= Timeline::MOST_ROWS && told.ranks_per_row == 64);
        assert!(stretches().count() <= Timeline::MOST_STRETCHES, "{}", stretches().count());
        assert_eq!(stretches().map(|stretch| stretch.bytes).sum::<f64>(), bytes);
        assert_eq!(stretches().map(|stretch| stretch.calls).sum::<u64>(), u64::from(n));
    }

    #[test]
    fn calls_that_do_not_touch_are_told_apart_where_there_is_room() {
        let mut timeline = Timeline::default();
        for (rank, start) in [(1, 0), (1, 10), (3, 5), (1, 11)] {
            let start = Timestamp::from_nanos_since_start(start);
            let _ = timeline.event(Event::data(Op::Write, Rank(rank), start, start.plus_nanos(1), 1.0));
        }
        let told = timeline.finish().unwrap();
        let seen: Vec<_> =
            told.rows.iter().map(|row| (row.first.0, row.writes.len(), row.reads.len())).collect();
        assert_eq!(seen, [(1, 2, 0), (3, 1, 0)]);
        assert_eq!(Timeline::default().finish(), None);
    }
}
