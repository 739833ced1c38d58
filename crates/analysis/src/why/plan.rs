//! For which times the load of the storage is needed beside runs, and how counters become load on even steps.

use iotide_trace::ThroughputLog;

use super::load::{LoadGrid, ServerLoad};
use super::phases::RunFacts;

/// Time before and after a run for which the load is needed: to compare clocks, and to see what the storage carries.
const MARGIN_S: f64 = 300.0;
/// A log in memory has no more values: three months of seconds.
const MOST_CELLS: f64 = 8e6;

/// The times around runs for which the load of the storage is needed, and the grid that holds all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadPlan {
    /// The grid of the load.
    pub grid: LoadGrid,
    /// The times since 1970, multiples of the step, in order and apart.
    pub windows: Vec<(f64, f64)>,
    /// How many runs are too far from the first one.
    pub n_far: usize,
}

impl LoadPlan {
    /// Plans for a run and those that it is compared with; `None` if it is not known when that run was.
    pub fn around<'a>(runs: impl Iterator<Item = &'a RunFacts>, step_s: f64) -> Option<Self> {
        let spans: Vec<(f64, f64)> = runs.filter_map(RunFacts::span_unix_s).collect();
        let (windows, n_far) = windows(&spans, step_s);
        let start_s = windows.first()?.0;
        Some(Self { grid: LoadGrid { start_s, step_s }, windows, n_far })
    }

    /// Returns a load of which nothing is known yet.
    pub fn unknown(&self, is_same_clock: bool) -> ServerLoad {
        ServerLoad {
            grid: self.grid,
            read_bps: Vec::new(),
            written_bps: vec![f64::NAN; self.n_steps()],
            is_same_clock,
        }
    }

    fn n_steps(&self) -> usize {
        let end_s = self.windows.last().map_or(self.grid.start_s, |last| last.1);
        ((end_s - self.grid.start_s) / self.grid.step_s).round() as usize
    }
}

impl ServerLoad {
    /// Adds what was read in a time.
    pub fn put_read(&mut self, log: &ThroughputLog) {
        self.read_bps.resize(self.written_bps.len(), f64::NAN);
        self.grid.put(&mut self.read_bps, log);
    }

    /// Adds what was written in a time, or moved either way.
    pub fn put_written(&mut self, log: &ThroughputLog) {
        self.grid.put(&mut self.written_bps, log);
    }
}

impl LoadGrid {
    /// The grid on which runs are reduced before it is known when the load begins.
    pub fn of_step(step_s: f64) -> Self {
        Self { start_s: 0.0, step_s }
    }

    /// Puts the known part of a log on values of the grid. Logs of one source share their step; of others the nearest value counts.
    pub fn put(self, values: &mut [f64], log: &ThroughputLog) {
        let first = ((log.start_s - self.start_s) / self.step_s).round() as i64;
        for (i, value) in log.values.iter().enumerate().filter(|(_, value)| !value.is_nan()) {
            let is_same = log.interval_s == self.step_s;
            let at = if is_same { i as i64 } else { (i as f64 * log.interval_s / self.step_s) as i64 };
            if let Some(slot) = usize::try_from(first + at).ok().and_then(|at| values.get_mut(at)) {
                *slot = *value;
            }
        }
    }
}

/// Returns the times around runs, joined where they meet, in order, and how many runs are too far from the first one.
fn windows(spans: &[(f64, f64)], step_s: f64) -> (Vec<(f64, f64)>, usize) {
    let Some(own) = spans.first() else { return (Vec::new(), 0) };
    let around = |(from_s, until_s): (f64, f64)| {
        let steps = |at_s: f64| (at_s / step_s).floor() * step_s;
        (steps(from_s - MARGIN_S), steps(until_s + MARGIN_S) + step_s)
    };
    let reach_s = MOST_CELLS * step_s / 2.0;
    let is_near = |span: &&(f64, f64)| (span.0 - own.0).abs() < reach_s && span.1 - span.0 < reach_s;
    let mut all: Vec<(f64, f64)> = spans.iter().filter(is_near).copied().map(around).collect();
    let n_far = spans.len() - all.len();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut joined: Vec<(f64, f64)> = Vec::with_capacity(all.len());
    for window in all {
        match joined.last_mut() {
            Some(last) if window.0 <= last.1 => last.1 = last.1.max(window.1),
            _ => joined.push(window),
        }
    }
    (joined, n_far)
}

/// A step of which less is known does not tell.
const LEAST_KNOWN: f64 = 0.5;

/// Growth of a counter, brought onto even steps.
#[derive(Clone, Debug)]
pub struct StepGrowth {
    from_s: f64,
    step_s: f64,
    grown: Vec<f64>,
    known_s: Vec<f64>,
}

impl StepGrowth {
    /// Nothing is known yet between two times.
    pub fn new((from_s, until_s): (f64, f64), step_s: f64) -> Self {
        let n = ((until_s - from_s) / step_s).round().clamp(0.0, MOST_CELLS) as usize;
        Self { from_s, step_s, grown: vec![0.0; n], known_s: vec![0.0; n] }
    }

    /// Adds the growth between two samples, spread evenly, as far as it lies in the steps.
    pub fn add(&mut self, from_s: f64, until_s: f64, growth: f64) {
        let (begin_s, end_s) = (from_s - self.from_s, until_s - self.from_s);
        if end_s <= begin_s {
            return;
        }
        let first = (begin_s / self.step_s).max(0.0) as usize;
        for cell in first..self.grown.len() {
            let cell_s = cell as f64 * self.step_s;
            let inside_s = end_s.min(cell_s + self.step_s) - begin_s.max(cell_s);
            if inside_s <= 0.0 {
                break;
            }
            self.grown[cell] += growth * inside_s / (end_s - begin_s);
            self.known_s[cell] += inside_s;
        }
    }

    /// Returns the growth per second, NaN where it is not known; `None` if nothing is.
    pub fn finish(self) -> Option<ThroughputLog> {
        let Self { from_s, step_s, grown, known_s } = self;
        if known_s.iter().all(|known_s| *known_s == 0.0) {
            return None;
        }
        let value = |(grown, known_s): (&f64, &f64)| {
            if *known_s >= LEAST_KNOWN * step_s { grown / known_s } else { f64::NAN }
        };
        let values = grown.iter().zip(&known_s).map(value).collect();
        Some(ThroughputLog { start_s: from_s, interval_s: step_s, values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_spread_over_its_time_and_a_hole_is_no_zero() {
        let mut growth = StepGrowth::new((100.0, 110.0), 2.0);
        growth.add(99.0, 101.0, 10.0);
        growth.add(101.0, 104.0, 30.0);
        growth.add(107.5, 108.0, 4.0);
        growth.add(109.0, 120.0, 11.0);
        let log = growth.finish().unwrap();
        assert_eq!((log.start_s, log.interval_s, log.values.len()), (100.0, 2.0, 5));
        assert_eq!(log.values[..2], [7.5, 10.0], "5 and 10 in the first step, 20 in the second");
        assert!(log.values[2].is_nan() && log.values[3].is_nan(), "half a second of two tells nothing");
        assert_eq!(log.values[4], 1.0);
        assert_eq!(StepGrowth::new((0.0, 10.0), 1.0).finish().map(|log| log.values), None);
    }

    #[test]
    fn windows_that_meet_are_one_and_far_runs_are_left_out() {
        let (windows, n_far) = windows(&[(1e9, 1e9 + 50.0), (1e9 + 400.0, 1e9 + 500.0), (0.0, 10.0)], 1.0);
        assert_eq!((windows, n_far), (vec![(1e9 - 300.0, 1e9 + 801.0)], 1));
    }
}
