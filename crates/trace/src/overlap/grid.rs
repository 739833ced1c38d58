//! Requests of any number → their bandwidth on an even grid, in bounded memory.

use super::sweep::CompensatedSum;
use crate::{StepSignal, Timestamp};

/// Volume on an even grid whose width doubles whenever the run outgrows it.
///
/// Time is cut into cells of `width` nanoseconds, counted from the clock's zero. A byte is divided among the cell in which it
/// was moved and its two neighbours, the nearer one gets the larger share (a quadratic B-spline, as particle codes have it).
/// Two properties make this the right grid:
///
/// * Splines of twice the width are sums of splines (¼, ¾, ¾, ¼), so it does not matter at which width a request was added:
///   the result is a function of all requests, not of their order.
/// * Requests that come at a pace near that of the grid leave a ripple of the order (width / ripple's period)³ of the mean,
///   where plain bins, into which one more or one less request falls, leave one of the first order.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    /// At most this many cells; a power of two.
    most: usize,
    /// The width is 2 to this power, in nanoseconds: the smallest with which the run fits.
    shift: u32,
    /// One over the width.
    per_width: f64,
    /// Bytes by number of the cell modulo `most`.
    volumes: Vec<f64>,
    /// Where anything was ever put, chunk by chunk of cells. Most of a run is silence, which need not be looked at.
    touched: Touched,
    /// Whole cells within long requests; there are none in a trace of short calls.
    ramps: Option<Ramps>,
    /// When the first request begins and the last one ends.
    reach: Option<(i64, i64)>,
}

/// Where the whole cells within long requests begin (+) and end (−), by number of the cell modulo [`Grid::most`].
#[derive(Clone, Debug)]
struct Ramps {
    /// The bytes for each cell.
    bytes: Vec<f64>,
    /// How many requests.
    opened: Vec<i32>,
}

/// Which chunks of cells were used.
#[derive(Clone, Debug)]
struct Touched {
    /// A chunk has 2 to this power cells.
    bits: u32,
    /// By chunk of slots.
    chunks: Vec<bool>,
}

impl Touched {
    /// A page of volumes: what is not touched is not even there.
    const MOST_BITS: u32 = 9;

    fn new(n_slots: usize) -> Self {
        let bits = n_slots.ilog2().saturating_sub(4).clamp(1, Self::MOST_BITS);
        Self { bits, chunks: vec![false; (n_slots >> bits).max(1)] }
    }

    /// Takes note that cells from `first` to `last` are used.
    #[inline]
    fn mark(&mut self, first: i64, last: i64) {
        let wrap = self.chunks.len() - 1;
        for chunk in (first >> self.bits)..=(last >> self.bits) {
            self.chunks[chunk as usize & wrap] = true;
        }
    }

    /// How many cells from this one on are untouched: those of its chunk if it is the first of one.
    #[inline]
    fn silent_from(&self, slot: usize) -> i64 {
        let n = 1 << self.bits;
        let is_first = slot & (n - 1) == 0;
        if is_first && !self.chunks[slot >> self.bits] { n as i64 } else { 0 }
    }
}

impl Grid {
    /// Requests over more cells than this go through `ramps`, so that one request costs O(1) whatever its length.
    const LONG: i64 = 8;

    pub(super) fn new(most: usize) -> Self {
        let most = most.next_power_of_two();
        Self {
            most,
            shift: 0,
            per_width: 1.0,
            volumes: vec![0.0; most],
            touched: Touched::new(most),
            ramps: None,
            reach: None,
        }
    }

    pub(super) fn width_s(&self) -> f64 {
        (1i64 << self.shift) as f64 * 1e-9
    }

    pub(super) fn add(&mut self, start: i64, end: i64, bytes: f64) {
        self.make_room(start, end);
        let (left, right) = (start >> self.shift, (end - 1) >> self.shift);
        if left == right {
            self.touched.mark(left - 1, left + 1);
            return self.divide(left, start, end, bytes);
        }
        let per_nano = bytes / (end - start) as f64;
        let until = (left + 1) << self.shift;
        let from = right << self.shift;
        self.divide(left, start, until, per_nano * (until - start) as f64);
        self.divide(right, from, end, per_nano * (end - from) as f64);
        let whole = per_nano * (1i64 << self.shift) as f64;
        if right - left > Self::LONG {
            self.touched.mark(left - 1, left + 1);
            self.touched.mark(right - 1, right + 1);
            let (begin, end) = (self.slot(left + 1), self.slot(right));
            let most = self.most;
            let ramps =
                self.ramps.get_or_insert_with(|| Ramps { bytes: vec![0.0; most], opened: vec![0; most] });
            for (slot, bytes, n) in [(begin, whole, 1), (end, -whole, -1)] {
                ramps.bytes[slot] += bytes;
                ramps.opened[slot] += n;
            }
        } else {
            self.touched.mark(left - 1, right + 1);
            for cell in left + 1..right {
                self.divide_whole(cell, whole);
            }
        }
    }

    /// Divides what was moved from `start` to `end`, both in one cell.
    #[inline(always)]
    fn divide(&mut self, cell: i64, start: i64, end: i64, bytes: f64) {
        let zero = cell << self.shift;
        // A power of two: to multiply by its inverse is as exact as to divide by it, and divisions are most of what a request costs.
        let per_width = self.per_width;
        let (from, to) = ((start - zero) as f64 * per_width, (end - zero) as f64 * per_width);
        // The means of x and of x² between the two: shares are (1 − x)² / 2, x² / 2, and what is left.
        let (mean, mean_square) = (0.5 * (from + to), (from * from + from * to + to * to) * (1.0 / 3.0));
        let (before, after) = (0.5 * (1.0 - 2.0 * mean + mean_square), 0.5 * mean_square);
        self.put(cell, [bytes * before, bytes * (1.0 - before - after), bytes * after]);
    }

    #[inline]
    fn divide_whole(&mut self, cell: i64, bytes: f64) {
        self.put(cell, [bytes / 6.0, bytes * (4.0 / 6.0), bytes / 6.0]);
    }

    #[inline(always)]
    fn put(&mut self, cell: i64, bytes: [f64; 3]) {
        let first = self.slot(cell - 1);
        if let Some([one, two, three]) =
            self.volumes.get_mut(first..).and_then(|slots| slots.first_chunk_mut())
        {
            *one += bytes[0];
            *two += bytes[1];
            *three += bytes[2];
            return;
        }
        // Around the end.
        for (cell, bytes) in (cell - 1..=cell + 1).zip(bytes) {
            let slot = self.slot(cell);
            self.volumes[slot] += bytes;
        }
    }

    /// Cells in use are fewer than `most` apart, so no two of them share a slot.
    #[inline]
    fn slot(&self, cell: i64) -> usize {
        cell as usize & (self.most - 1)
    }

    /// The first cell in use and the last.
    fn ends(&self, (first, last): (i64, i64)) -> (i64, i64) {
        ((first >> self.shift) - 1, ((last - 1) >> self.shift) + 1)
    }

    /// Makes the cells reach from `start` to `end`.
    #[inline]
    pub(super) fn make_room(&mut self, start: i64, end: i64) {
        if !self.reach.is_some_and(|(first, last)| first <= start && end <= last) {
            self.extend(start, end);
        }
    }

    #[cold]
    fn extend(&mut self, start: i64, end: i64) {
        let wanted = self.reach.map_or((start, end), |(first, last)| (first.min(start), last.max(end)));
        loop {
            let (first, last) = self.ends(wanted);
            if last - first < self.most as i64 {
                break;
            }
            self.double_width();
        }
        self.reach = Some(wanted);
    }

    fn double_width(&mut self) {
        if self.reach.is_none() {
            self.widen(); // there is nothing yet to be put together
            return;
        }
        self.flatten();
        let fine = std::mem::replace(&mut self.volumes, vec![0.0; self.most]);
        let touched = std::mem::replace(&mut self.touched, Touched::new(self.most));
        let used = self.reach.map(|reach| self.ends(reach));
        self.widen();
        let Some((first, last)) = used else { return };
        let mut next = first;
        while next <= last {
            let cell = next;
            let n_silent = touched.silent_from(self.slot(cell));
            next += n_silent.max(1);
            if n_silent > 0 {
                continue;
            }
            let volume = fine[self.slot(cell)];
            // Three quarters go to the cell it lies in, one quarter to the nearer neighbour.
            let (within, beside) = (cell >> 1, (cell >> 1) + if cell & 1 == 0 { -1 } else { 1 });
            self.touched.mark(within.min(beside), within.max(beside));
            let (within, beside) = (self.slot(within), self.slot(beside));
            self.volumes[within] += 0.75 * volume;
            self.volumes[beside] += 0.25 * volume;
        }
    }

    fn widen(&mut self) {
        self.shift += 1;
        self.per_width *= 0.5;
    }

    /// Pours the ramps into the volumes.
    fn flatten(&mut self) {
        let (Some(ramps), Some(reach)) = (self.ramps.take(), self.reach) else { return };
        let (first, last) = self.ends(reach);
        let (mut whole, mut n_open) = (CompensatedSum::default(), 0);
        let mut next = first;
        while next <= last {
            let cell = next;
            let slot = self.slot(cell);
            let n_silent = if n_open == 0 { self.touched.silent_from(slot) } else { 0 };
            next += n_silent.max(1);
            if n_silent > 0 {
                continue;
            }
            whole.add(ramps.bytes[slot]);
            n_open += ramps.opened[slot];
            if n_open == 0 {
                whole = CompensatedSum::default();
            } else {
                self.touched.mark(cell - 1, cell + 1);
                self.divide_whole(cell, whole.value().max(0.0));
            }
        }
    }

    /// Each cell's volume, spread over its time.
    pub(super) fn finish(mut self) -> StepSignal {
        self.flatten();
        let Some(reach) = self.reach else { return StepSignal::default() };
        let (first, last) = self.ends(reach);
        let half = ((1i64 << self.shift) / 2).max(1);
        let n_most = (last - first + 2) as usize;
        let (mut times, mut rates_bps) = (Vec::with_capacity(n_most), Vec::with_capacity(n_most));
        let mut step = |start: i64, end: i64, bytes: f64| {
            let rate_bps = bytes / ((end - start) as f64 * 1e-9);
            if rates_bps.last() != Some(&rate_bps) {
                times.push(Timestamp::from_nanos_since_start(start));
                rates_bps.push(rate_bps);
            }
        };
        // The outermost cells are cut to where the first request began and the last one ended, and where less than half a cell is
        // left of one, it is joined with its neighbour: so each waits for the next.
        let mut waiting: Option<(i64, f64)> = None;
        let (mut from, mut carried) = (reach.0, 0.0);
        let mut next = first;
        while next <= last {
            let cell = next;
            let n_silent = self.touched.silent_from(self.slot(cell));
            // Nothing waits to be joined, and the last cell, which may be cut, is not among them.
            let is_between = waiting.is_some() && carried == 0.0 && from == cell << self.shift;
            if n_silent > 1 && is_between && cell + n_silent <= last {
                next = cell + n_silent;
                let last_start = (next - 1) << self.shift;
                if let Some((start, bytes)) = waiting.replace((last_start, 0.0)) {
                    step(start, from, bytes);
                }
                step(from, last_start, 0.0);
                from = next << self.shift;
                continue;
            }
            next += 1;
            let until = ((cell + 1) << self.shift).min(reach.1);
            carried += self.volumes[self.slot(cell)];
            if until - from >= half {
                if let Some((start, bytes)) = waiting.replace((from, carried)) {
                    step(start, from, bytes);
                }
                (from, carried) = (until, 0.0);
            }
        }
        let (start, bytes) = waiting.map_or((from, carried), |(start, bytes)| (start, bytes + carried));
        step(start, reach.1, bytes);
        times.push(Timestamp::from_nanos_since_start(reach.1));
        rates_bps.push(0.0);
        StepSignal::new(times, rates_bps)
    }
}
