//! By how much the log's clock is ahead of those of the runs.

use super::load::{FINE, ServerLoad};
use super::phases::RunFacts;

/// The offset of each run, in fine cells.
#[derive(Clone, Debug)]
pub(super) struct Clocks {
    pub(super) shifts: Vec<i64>,
}

/// Clocks are at most so far apart.
const REACH_S: f64 = 20.0;
/// Less than nothing is worse than rough.
const BELOW_ZERO: f64 = 3.0;
/// A run has a clock of its own where that leaves so much less.
const OWN_CLOCK: f64 = 0.88;
/// A clock is ahead only where that leaves less by this: a program that is small in the log does not tell.
const WORTH_MOVING: f64 = 0.99;
/// Of a log with steps of milliseconds not all are tried.
const MOST_SHIFTS: i64 = 1000;
/// So many cells of a run are enough to tell.
const MOST_CELLS: i64 = 8192;

impl Clocks {
    /// Taking off the program's own bytes leaves the smoothest rest where the clocks agree.
    pub(super) fn of(runs: &[&RunFacts], load: &ServerLoad) -> Self {
        if load.is_same_clock {
            return Self { shifts: vec![0; runs.len()] };
        }
        let reach = ((REACH_S / load.grid.fine_s()) as i64).min(MOST_SHIFTS);
        let roughness: Vec<Option<Vec<f64>>> = runs.iter().map(|run| roughness(run, load, reach)).collect();
        let n_shifts = (2 * reach + 1) as usize;
        let mut all = vec![0.0; n_shifts];
        for of_run in roughness.iter().flatten() {
            all.iter_mut().zip(of_run).for_each(|(sum, rough)| *sum += rough);
        }
        let common = smoothest(&all, reach);
        let common = if all[common as usize] < WORTH_MOVING * all[reach as usize] { common } else { reach };
        let shifts = roughness.iter().map(|of_run| {
            let Some(of_run) = of_run else { return common - reach };
            let best = smoothest(of_run, reach);
            if of_run[best as usize] < OWN_CLOCK * of_run[common as usize] {
                best - reach
            } else {
                common - reach
            }
        });
        Self { shifts: shifts.collect() }
    }
}

/// Of equals the one nearest to no shift.
fn smoothest(roughness: &[f64], reach: i64) -> i64 {
    let by_distance = |i: &i64| (i - reach).abs();
    (0..roughness.len() as i64)
        .min_by(|a, b| {
            roughness[*a as usize]
                .total_cmp(&roughness[*b as usize])
                .then(by_distance(a).cmp(&by_distance(b)))
        })
        .unwrap_or(reach)
}

/// How rough the rest is at each shift; `None` where the log says too little.
fn roughness(run: &RunFacts, load: &ServerLoad, reach: i64) -> Option<Vec<f64>> {
    if run.moved.read.is_empty() {
        return None;
    }
    let margin = reach / FINE + 2;
    let first = run.moved.first.div_euclid(FINE) - margin;
    let end = (run.moved.first + run.moved.read.len() as i64).div_euclid(FINE) + 1 + margin;
    let cells = first..end.min(first + MOST_CELLS);
    let logged: Vec<(f64, f64)> = cells.clone().map(|cell| load.at(cell)).collect();
    let n_known = logged.iter().filter(|(read, written)| !read.is_nan() && !written.is_nan()).count();
    if 2 * n_known < logged.len() {
        return None;
    }
    let (read, written) = (RunningSum::of(&run.moved.read), RunningSum::of(&run.moved.written));
    let at_shift = |shift: i64| {
        let mut rough = 0.0;
        let mut before: Option<(f64, f64)> = None;
        for (cell, (logged_read, logged_written)) in cells.clone().zip(&logged) {
            if logged_read.is_nan() || logged_written.is_nan() {
                before = None;
                continue;
            }
            let from = cell * FINE - shift - run.moved.first;
            let own = (read.between(from, from + FINE), written.between(from, from + FINE));
            let own = if load.is_combined() { (0.0, own.0 + own.1) } else { own };
            let rest = (logged_read - own.0 / load.grid.step_s, logged_written - own.1 / load.grid.step_s);
            if let Some(before) = before {
                rough += (rest.0 - before.0).abs() + (rest.1 - before.1).abs();
            }
            rough += BELOW_ZERO * ((-rest.0).max(0.0) + (-rest.1).max(0.0));
            before = Some(rest);
        }
        rough
    };
    Some((-reach..=reach).map(at_shift).collect())
}

/// Sums of the values before each place: a sum between two places is one subtraction, at whatever shift.
struct RunningSum(Vec<f64>);

impl RunningSum {
    fn of(values: &[f64]) -> Self {
        let mut sum = 0.0;
        let sums = values.iter().map(|value| {
            sum += value;
            sum
        });
        Self(std::iter::once(0.0).chain(sums).collect())
    }

    fn between(&self, from: i64, until: i64) -> f64 {
        let last = self.0.len() as i64 - 1;
        let before = |place: i64| self.0[place.clamp(0, last) as usize];
        before(until) - before(from)
    }
}
