//! Events of many ranks → bandwidth over time.

use std::ops::ControlFlow;

use crate::{AsyncPhases, Event, EventSink, Loss, Op, StepSignal, Tally, Timestamp};

use grid::Grid;
use sweep::Requests;

mod grid;
mod sweep;
#[cfg(test)]
mod tests;

/// Adds up requests that overlap: each contributes `bytes / duration` while it lasts.
///
/// Exact up to [`Overlap::EXACT_REQUESTS`] requests. Beyond that they are poured onto an even grid of half a million to a
/// million cells, so memory stays flat however long the trace; volume is still kept, and times are then known to
/// [`Overlap::resolution_s`], about a millionth of the run.
///
/// The result is a function of the requests, whatever their order: to the last bit while it is exact, to rounding on the
/// grid. For that reason it is their number that decides which of the two it is, and not whether those that came first
/// happened to touch and could be joined.
///
/// A request of zero length is spread over one nanosecond. Requests need not be sorted.
#[derive(Clone, Debug, Default)]
pub struct Overlap {
    exact: Requests,
    grid: Option<Grid>,
    limits: Limits,
    reach: Reach,
}

/// From the first request to the last, in nanoseconds: requests that moved nothing count here.
#[derive(Clone, Copy, Debug)]
struct Reach {
    first: i64,
    last: i64,
}

impl Default for Reach {
    fn default() -> Self {
        Self { first: i64::MAX, last: i64::MIN }
    }
}

/// How much is kept.
#[derive(Clone, Copy, Debug)]
struct Limits {
    requests: usize,
    cells: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { requests: Overlap::EXACT_REQUESTS, cells: 1 << 20 }
    }
}

impl Overlap {
    /// How many requests are kept exactly (16 bytes for each of the usual ones, 24 for those that last longer than four
    /// seconds or move more than 4 GB). To sort and to sweep them is what costs most of a large trace: twice as many would
    /// double the time for a million.
    pub const EXACT_REQUESTS: usize = 1 << 19;

    /// More bytes than this in one request are held to it: rates must stay finite, whatever a table claims.
    const MOST_BYTES: f64 = 1e270;

    /// Returns an empty sum.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a request that moved `bytes` from `start` to `end`. One that moved nothing still says that the run lasted.
    #[inline]
    pub fn add(&mut self, start: Timestamp, end: Timestamp, bytes: f64) {
        // At the end of time, the one nanosecond is that before.
        let start = start.min(Timestamp::MAX.plus_nanos(-1)).as_nanos();
        let end = end.as_nanos().max(start + 1);
        self.reach = Reach { first: self.reach.first.min(start), last: self.reach.last.max(end) };
        if bytes <= 0.0 || !bytes.is_finite() {
            return;
        }
        let bytes = bytes.min(Self::MOST_BYTES);
        match &mut self.grid {
            Some(grid) => grid.add(start, end, bytes),
            None => {
                self.exact.push(start, end, bytes);
                if self.exact.len() > self.limits.requests {
                    self.pour();
                }
            }
        }
    }

    /// To what the times of the result are known: `None` if exactly, else the width of the grid's cells. A change of
    /// bandwidth may then appear up to two of them earlier or later, and what repeats within a few of them is not to be
    /// told from a steady stream.
    pub fn resolution_s(&self) -> Option<f64> {
        self.grid.as_ref().map(Grid::width_s)
    }

    /// Returns the bandwidth over time.
    pub fn finish(self) -> StepSignal {
        let signal = match self.grid {
            Some(grid) => grid.finish(),
            None => self.exact.sweep(),
        };
        let Reach { first, last } = self.reach;
        signal.stretched(Timestamp::from_nanos_since_start(first), Timestamp::from_nanos_since_start(last))
    }

    #[cold]
    fn pour(&mut self) {
        let exact = std::mem::take(&mut self.exact);
        let mut reach = Reach::default();
        exact.for_each(|start, end, _| {
            reach = Reach { first: reach.first.min(start), last: reach.last.max(end) };
        });
        // At once as wide as it has to be.
        let mut grid = Grid::new(self.limits.cells);
        grid.make_room(reach.first, reach.last);
        exact.for_each(|start, end, bytes| grid.add(start, end, bytes));
        self.grid = Some(grid);
    }
}

impl EventSink for Overlap {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        if event.op.moves_data() {
            self.add(event.start, event.end, event.bytes);
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

/// Which way the bytes went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From storage.
    Read,
    /// To storage.
    Write,
    /// Either way.
    Both,
}

/// The bandwidth of reads and of writes, the sums and the losses of one trace: what most questions need of it.
#[derive(Clone, Debug, Default)]
pub struct ReadWrite {
    /// Reads so far.
    pub read: Overlap,
    /// Writes so far.
    pub write: Overlap,
    /// Counts so far.
    pub tally: Tally,
    /// Asynchronous phases so far.
    pub async_phases: AsyncPhases,
    /// Losses so far.
    pub losses: Vec<Loss>,
}

impl EventSink for ReadWrite {
    #[inline]
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        self.tally.add(&event);
        match event.op {
            Op::Read => self.read.add(event.start, event.end, event.bytes),
            Op::Write => self.write.add(event.start, event.end, event.bytes),
            _ => {}
        }
        ControlFlow::Continue(())
    }
    fn loss(&mut self, loss: Loss) {
        self.losses.push(loss);
    }
    fn async_event(&mut self, event: Event, waited: Timestamp) -> ControlFlow<()> {
        self.async_phases.add(&event, waited);
        self.event(event)
    }

    fn time_spent(&mut self, _: crate::TimeSpent) {}

    fn access_facts(&mut self, _: &crate::AccessFacts) {}
}
