//! The log of the servers, and what remains of it without the program's own bytes.

use super::OthersSeries;
use super::capacity::Capacity;
use super::phases::{PhaseFacts, RunFacts};

/// Where the values of a log lie in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadGrid {
    /// When the first value begins.
    pub start_s: f64,
    /// How long each holds.
    pub step_s: f64,
}

/// A step has so many fine cells: clocks are compared as finely.
pub(super) const FINE: i64 = 4;

impl LoadGrid {
    pub(super) fn fine_s(self) -> f64 {
        self.step_s / FINE as f64
    }
}

/// Load of servers, at even steps; NaN where their log has nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerLoad {
    /// Where the values lie.
    pub grid: LoadGrid,
    /// Bytes per second read; empty if the log does not tell reads and writes apart.
    pub read_bps: Vec<f64>,
    /// Bytes per second written, or moved either way.
    pub written_bps: Vec<f64>,
    /// Whether the runs and the log were counted by one clock, in the same moments.
    pub is_same_clock: bool,
}

impl ServerLoad {
    /// Bytes read and written in a cell; NaN beyond the log.
    pub(super) fn at(&self, cell: i64) -> (f64, f64) {
        let of = |values: &[f64]| usize::try_from(cell).ok().and_then(|i| values.get(i).copied());
        let read = if self.is_combined() { Some(0.0) } else { of(&self.read_bps) };
        (read.unwrap_or(f64::NAN), of(&self.written_bps).unwrap_or(f64::NAN))
    }

    /// Whether reads and writes are one number.
    pub(super) fn is_combined(&self) -> bool {
        self.read_bps.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.written_bps.len()
    }
}

/// The program's own rates on the cells of a log, at a shift of the clocks.
#[derive(Clone, Debug)]
pub(super) struct OwnRates {
    /// The first cell.
    pub(super) first: i64,
    pub(super) read_bps: Vec<f64>,
    pub(super) written_bps: Vec<f64>,
}

impl OwnRates {
    /// `shift` is by how many fine cells the log's clock is ahead.
    pub(super) fn of(run: &RunFacts, load: &ServerLoad, shift: i64) -> Self {
        let moved = &run.moved;
        let first = (moved.first + shift).div_euclid(FINE);
        let lead = (moved.first + shift - first * FINE) as usize;
        let n = (moved.read.len() + lead).div_ceil(FINE as usize);
        let mut rates = Self { first, read_bps: vec![0.0; n], written_bps: vec![0.0; n] };
        for (i, (read, written)) in moved.read.iter().zip(&moved.written).enumerate() {
            let cell = (i + lead) / FINE as usize;
            if load.is_combined() {
                rates.written_bps[cell] += (read + written) / load.grid.step_s;
            } else {
                rates.read_bps[cell] += read / load.grid.step_s;
                rates.written_bps[cell] += written / load.grid.step_s;
            }
        }
        rates
    }

    /// Bytes read and written in a cell.
    pub(super) fn at(&self, cell: i64) -> (f64, f64) {
        let i = usize::try_from(cell - self.first).ok();
        let of = |values: &[f64]| i.and_then(|i| values.get(i).copied()).unwrap_or(0.0);
        (of(&self.read_bps), of(&self.written_bps))
    }

    pub(super) fn end(&self) -> i64 {
        self.first + self.read_bps.len() as i64
    }
}

/// A run beside a log.
#[derive(Clone, Debug)]
pub(super) struct Beside {
    pub(super) own: OwnRates,
    pub(super) shift: i64,
    /// The share of the phases of which the log knows at least half.
    pub(super) known_share: f64,
    /// The share of the program's bytes that the log lacks, where it knows anything.
    pub(super) missing: f64,
}

impl Beside {
    pub(super) fn of(run: &RunFacts, load: &ServerLoad, shift: i64) -> Self {
        let own = OwnRates::of(run, load, shift);
        let (mut missing, mut bytes) = (0.0, 0.0);
        for cell in own.first..own.end() {
            let ((read, written), (own_read, own_written)) = (load.at(cell), own.at(cell));
            if read.is_nan() || written.is_nan() {
                continue;
            }
            missing += (own_read - read).max(0.0) + (own_written - written).max(0.0);
            bytes += own_read + own_written;
        }
        let beside =
            Self { own, shift, known_share: 0.0, missing: if bytes > 0.0 { missing / bytes } else { 0.0 } };
        let n_known = run.phases.iter().filter(|phase| beside.known_of(phase, run, load) >= 0.5).count();
        Self { known_share: n_known as f64 / run.phases.len().max(1) as f64, ..beside }
    }

    /// The share of a phase that the log knows.
    fn known_of(&self, phase: &PhaseFacts, run: &RunFacts, load: &ServerLoad) -> f64 {
        let (mut known, mut all) = (0.0, 0.0);
        for (cell, seconds) in self.cells(phase, run, load.grid) {
            let (read, written) = load.at(cell);
            all += seconds;
            known += if read.is_nan() || written.is_nan() { 0.0 } else { seconds };
        }
        if all > 0.0 { known / all } else { 0.0 }
    }

    /// The cells of a phase, and for how long it was in each.
    pub(super) fn cells(
        &self,
        phase: &PhaseFacts,
        run: &RunFacts,
        grid: LoadGrid,
    ) -> impl Iterator<Item = (i64, f64)> + use<> {
        let zero_s = run.zero_unix_s.unwrap_or(f64::NAN) - grid.start_s + self.shift as f64 * grid.fine_s();
        let (from, until) = ((zero_s + phase.start_s) / grid.step_s, (zero_s + phase.end_s) / grid.step_s);
        // NaN is no place: such a phase has no cells.
        let (first, last) = (from.floor() as i64, if from.is_nan() { -1 } else { until.ceil() as i64 - 1 });
        (first..=last.min(first + MOST_CELLS)).map(move |cell| {
            let inside = (until.min(cell as f64 + 1.0) - from.max(cell as f64)).max(0.0);
            (cell, inside * grid.step_s)
        })
    }

    /// Load of others around the run.
    pub(super) fn others(&self, run: &RunFacts, load: &ServerLoad, capacity: &Capacity) -> OthersSeries {
        let n = self.own.end() - self.own.first;
        let margin = (n / 40).max(2);
        let first = self.own.first - margin;
        let cells = first..(self.own.end() + margin).min(first + MOST_CELLS);
        let zero_s =
            run.zero_unix_s.unwrap_or(0.0) - load.grid.start_s + self.shift as f64 * load.grid.fine_s();
        let bps = cells.map(|cell| {
            let ((read, written), (own_read, own_written)) = (load.at(cell), self.own.at(cell));
            let rest = read + written - own_read - own_written;
            if rest.is_nan() { rest } else { rest.max(0.0) }
        });
        OthersSeries {
            start_s: first as f64 * load.grid.step_s - zero_s,
            step_s: load.grid.step_s,
            bps: bps.collect(),
            capacity_bps: capacity.bps,
        }
    }
}

/// A phase has no more steps than this.
const MOST_CELLS: i64 = 8 << 20;
