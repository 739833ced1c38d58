//! Capacity of the storage, and the speed that the load of others left to the program.

use iotide_num::{median, quantile};

use super::Timed;
use super::load::{Beside, ServerLoad};

/// Capacity of the storage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Capacity {
    /// Bytes written per second, or moved where the log is one number.
    pub(super) bps: f64,
    /// How many bytes are read in the time in which one is written.
    pub(super) read_speed: f64,
    /// The I/O time over the expected time of an undisturbed phase.
    pub(super) level: f64,
    /// Samples that show the storage full while the program was idle.
    pub(super) n_full_idle: usize,
}

/// Which speed the load of others left to a run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Speeds {
    pub(super) phases: Vec<PhaseSpeed>,
    /// Load of others during the phases that the log covers.
    pub(super) others_bps: f64,
}

/// Which speed was left to a phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PhaseSpeed {
    pub(super) busy_s: f64,
    /// The share of the full speed that others left; `None` where the log does not tell.
    pub(super) left: Option<f64>,
    /// The same, from the load of others alone.
    pub(super) by_load: f64,
    pub(super) others_bps: f64,
}

impl Speeds {
    /// Takes the speed that the load alone leaves.
    pub(super) fn told_by_load(&mut self) {
        for phase in &mut self.phases {
            phase.left = phase.left.map(|_| phase.by_load);
        }
    }

    /// How much longer the known phases took than at full speed.
    pub(super) fn delay(&self) -> f64 {
        let known = || self.phases.iter().filter_map(|phase| Some((phase.busy_s, phase.left?)));
        let (busy_s, full_s) =
            known().fold((0.0, 0.0), |sum, (busy, left)| (sum.0 + busy, sum.1 + busy * left));
        if full_s > 0.0 { busy_s / full_s } else { 1.0 }
    }
}

/// So many samples above it, while the program was idle, prove that others filled the storage.
pub(super) const FULL_IDLE_SAMPLES: usize = 3;
/// A load above this share of the capacity is full.
const FULL: f64 = 0.92;
/// The load is averaged over this long before it is called full.
const SMOOTH_S: f64 = 8.0;
/// Samples within this share of the highest tell the capacity: a maximum is noise.
const NEAR_HIGHEST: f64 = 0.85;
/// The capacity differs from day to day by as much.
const DAILY: f64 = 0.08;
/// Least speed that is taken from a small difference of large numbers.
const LEAST_LEFT: f64 = 0.03;
/// Values that are sorted to find a capacity.
const MOST_SORTED: usize = 20_000;

/// A run with its place in the log, where the log knows it.
type Placed<'a> = (&'a Timed<'a>, Option<&'a Beside>);

/// Finds the capacity that explains the times of phases best, and what it left to each run; the first run is the one in question.
pub(super) fn fit(runs: &[Placed<'_>], load: &ServerLoad) -> (Capacity, Vec<Option<Speeds>>) {
    let level = undisturbed(runs);
    let mut best: Option<(f64, View, f64)> = None;
    for &read_speed in read_speeds(runs, load) {
        let view = View::of(runs, load, read_speed, level);
        for scale in [1.0, 0.99, 1.01, 0.98, 1.02] {
            let misfit = view.misfit(runs, load, scale);
            // The first that is as good: what makes no difference stays as it is.
            if best.as_ref().is_none_or(|(least, ..)| misfit < 0.995 * least) {
                best = Some((misfit, view.clone(), scale));
            }
        }
    }
    let Some((_, mut view, scale)) = best else {
        return (Capacity { bps: 0.0, read_speed: 1.0, level, n_full_idle: 0 }, Vec::new());
    };
    view.ceilings.iter_mut().for_each(|ceiling| *ceiling *= scale);
    view.capacity.bps *= scale;
    let speeds = view.speeds(runs, load);
    if let Some(level) = level_of(runs, &speeds) {
        view.capacity.level = level;
    }
    view.capacity.n_full_idle = view.n_full_idle(runs, load);
    let speeds = view.speeds(runs, load);
    (view.capacity, speeds)
}

/// Which speeds of reads, against writes, are tried.
fn read_speeds(runs: &[Placed<'_>], load: &ServerLoad) -> &'static [f64] {
    let reads = |run: &Timed<'_>| run.facts.phases.iter().any(|phase| phase.read_bytes > 0.0);
    let has_reads = || load.read_bps.iter().any(|bps| *bps > 0.0) || runs.iter().any(|(run, _)| reads(run));
    // Where nobody reads, all of them explain the times alike.
    if load.is_combined() || !has_reads() {
        return &[1.0];
    }
    &[1.0, 0.95, 1.05, 0.9, 1.1, 0.85, 1.15, 0.8, 1.2, 1.25, 1.3, 1.35, 1.4]
}

/// Phases of earlier runs; without these, of the run itself.
fn reference<'a, 'b>(runs: &'b [Placed<'a>]) -> &'b [Placed<'a>] {
    if runs.len() > 1 { &runs[1..] } else { runs }
}

/// A guess at the level of an undisturbed phase: that of the quickest.
fn undisturbed(runs: &[Placed<'_>]) -> f64 {
    let ratios: Vec<f64> = reference(runs).iter().flat_map(|(run, _)| phase_ratios(run)).collect();
    quantile(&ratios, 0.2).unwrap_or(1.0)
}

/// The median level of phases that others did not slow down, if there are some.
fn level_of(runs: &[Placed<'_>], speeds: &[Option<Speeds>]) -> Option<f64> {
    let first = runs.len() - reference(runs).len();
    let mut ratios = Vec::new();
    let mut n = 0;
    for ((run, _), speeds) in runs.iter().zip(speeds).skip(first) {
        n += run.facts.phases.len();
        let phases = speeds.iter().flat_map(|speeds| &speeds.phases);
        let free =
            phases.zip(phase_ratios(run)).filter(|(phase, _)| phase.left.is_some_and(|left| left > 0.97));
        ratios.extend(free.map(|(_, ratio)| ratio));
    }
    if ratios.len() >= 3 && 10 * ratios.len() >= n { median(&ratios) } else { None }
}

fn phase_ratios(run: &Timed<'_>) -> impl Iterator<Item = f64> {
    run.facts.phases.iter().zip(&run.expected.phases).map(|(phase, expected_s)| phase.busy_s / expected_s)
}

/// The log at one speed of reads.
#[derive(Clone, Debug)]
struct View {
    capacity: Capacity,
    /// Capacity of the storage on the day of each run.
    ceilings: Vec<f64>,
    /// The load around each run, averaged, from a cell on.
    smooth: Vec<(i64, Vec<f64>)>,
}

impl View {
    fn of(runs: &[Placed<'_>], load: &ServerLoad, read_speed: f64, level: f64) -> Self {
        let units = |(read, written): (f64, f64)| written + read / read_speed;
        let half = half_window(load);
        let all = without_gaps((0..load.len() as i64).map(|cell| units(load.at(cell))), 2 * half + 1);
        let alone = reference(runs).iter().flat_map(|(run, _)| &run.facts.phases);
        let alone_bps = alone
            .filter(|phase| phase.busy_s > 2.0 * load.grid.step_s)
            .map(|phase| units((phase.read_bytes, phase.written_bytes)) / phase.busy_s)
            .fold(0.0, f64::max);
        let ceiling_bps = ceiling(&smoothed(&all, half)).map_or(0.0, |(bps, _)| bps);
        let bps = ceiling_bps.max(alone_bps);
        let (mut ceilings, mut smooth) = (Vec::new(), Vec::new());
        for (_, beside) in runs {
            let Some(beside) = beside else {
                ceilings.push(bps);
                smooth.push((0, Vec::new()));
                continue;
            };
            let first = beside.own.first - 4;
            let cells = first - half as i64..beside.own.end() + 4 + half as i64;
            let around: Vec<f64> = cells.map(|cell| units(load.at(cell))).collect();
            let mut around = smoothed(&around, half);
            around.drain(..half.min(around.len()));
            let plateau = ceiling(&around).filter(|(_, n)| *n >= 3).map(|(bps, _)| bps);
            ceilings.push(plateau.filter(|own| (own / bps).ln().abs() < DAILY).unwrap_or(bps));
            smooth.push((first, around));
        }
        Self { capacity: Capacity { bps, read_speed, level, n_full_idle: 0 }, ceilings, smooth }
    }

    /// How badly the load explains why some phases took longer than others of the same run.
    fn misfit(&self, runs: &[Placed<'_>], load: &ServerLoad, scale: f64) -> f64 {
        let (mut sum, mut weight) = (1e-9, 1e-9);
        for (i, (run, beside)) in runs.iter().enumerate() {
            let Some(beside) = beside else { continue };
            let speeds = self.of_run(i, run, beside, load, scale);
            let rests: Vec<f64> = speeds
                .phases
                .iter()
                .zip(phase_ratios(run))
                .map(|(phase, ratio)| ratio.ln() + phase.by_load.ln())
                .collect();
            let Some(level) = median(&rests) else { continue };
            for (rest, phase) in rests.iter().zip(&speeds.phases) {
                sum += phase.busy_s * (rest - level).abs().min(0.5);
                weight += phase.busy_s;
            }
        }
        sum / weight
    }

    fn speeds(&self, runs: &[Placed<'_>], load: &ServerLoad) -> Vec<Option<Speeds>> {
        let of_run = |(i, (run, beside)): (usize, &Placed<'_>)| {
            (*beside).map(|beside| self.of_run(i, run, beside, load, 1.0))
        };
        runs.iter().enumerate().map(of_run).collect()
    }

    fn of_run(&self, i: usize, run: &Timed<'_>, beside: &Beside, load: &ServerLoad, scale: f64) -> Speeds {
        let mut phases = Vec::with_capacity(run.facts.phases.len());
        let (mut others, mut known_s) = (0.0, 0.0);
        for (phase, expected_s) in run.facts.phases.iter().zip(&run.expected.phases) {
            let units = phase.written_bytes
                + phase.read_bytes / if load.is_combined() { 1.0 } else { self.capacity.read_speed };
            let asked_bps = units / (expected_s * self.capacity.level);
            let mut sums = CellSums::default();
            for (cell, seconds) in beside.cells(phase, run.facts, load.grid) {
                self.add_cell(i, beside, load, cell, seconds, scale, asked_bps, &mut sums);
            }
            let speed = sums.speed(phase.busy_s, phase.end_s - phase.start_s, asked_bps);
            if speed.left.is_some() {
                others += sums.others_bytes;
                known_s += sums.known_s;
            }
            phases.push(speed);
        }
        Speeds { phases, others_bps: if known_s > 0.0 { others / known_s } else { 0.0 } }
    }

    #[expect(clippy::too_many_arguments, reason = "the innermost step of a loop over cells")]
    fn add_cell(
        &self,
        i: usize,
        beside: &Beside,
        load: &ServerLoad,
        cell: i64,
        seconds: f64,
        scale: f64,
        asked_bps: f64,
        sums: &mut CellSums,
    ) {
        let ((read, written), (own_read, own_written)) = (load.at(cell), beside.own.at(cell));
        if read.is_nan() || written.is_nan() {
            return;
        }
        let units = |read: f64, written: f64| written + read / self.capacity.read_speed;
        let ceiling = self.ceilings[i] * scale;
        let others = units(read - own_read, written - own_written).max(0.0);
        let by_load = ((ceiling - others) / asked_bps).clamp(LEAST_LEFT, 1.0);
        sums.known_s += seconds;
        sums.others_bytes += (read + written - own_read - own_written).max(0.0) * seconds;
        sums.by_load += by_load * seconds;
        let (first, smooth) = &self.smooth[i];
        let around = usize::try_from(cell - first).ok().and_then(|at| smooth.get(at).copied());
        if around.is_some_and(|around| around > FULL * ceiling) {
            // The difference of two large numbers tells nothing; what the program got does.
            sums.full_s += seconds;
            sums.full_own += units(own_read, own_written) * load.grid.step_s;
        } else {
            sums.free += by_load * seconds;
        }
    }

    /// How many samples show the storage full while none of the runs moved anything.
    fn n_full_idle(&self, runs: &[Placed<'_>], load: &ServerLoad) -> usize {
        let mut busy = vec![false; load.len()];
        for (_, beside) in runs {
            let Some(beside) = beside else { continue };
            for cell in beside.own.first..beside.own.end() {
                let (read, written) = beside.own.at(cell);
                if read + written > 0.0 {
                    // The clocks are known to a quarter of a step: the neighbours may be busy, too.
                    for near in cell - 1..=cell + 1 {
                        if let Some(busy) = usize::try_from(near).ok().and_then(|near| busy.get_mut(near)) {
                            *busy = true;
                        }
                    }
                }
            }
        }
        let is_full = |cell: usize| {
            let (read, written) = load.at(cell as i64);
            written + read / self.capacity.read_speed > FULL * self.capacity.bps
        };
        (0..load.len()).filter(|&cell| !busy[cell] && is_full(cell)).count()
    }
}

/// Sums over the cells of a phase.
#[derive(Clone, Copy, Debug, Default)]
struct CellSums {
    known_s: f64,
    others_bytes: f64,
    by_load: f64,
    /// The speed left, times seconds, where the storage was not full.
    free: f64,
    full_s: f64,
    full_own: f64,
}

impl CellSums {
    fn speed(&self, busy_s: f64, length_s: f64, asked_bps: f64) -> PhaseSpeed {
        if self.known_s < 0.5 * length_s || asked_bps <= 0.0 {
            return PhaseSpeed { busy_s, left: None, by_load: 1.0, others_bps: 0.0 };
        }
        let full = (self.full_own / asked_bps).min(self.full_s);
        PhaseSpeed {
            busy_s,
            left: Some(((self.free + full) / self.known_s).clamp(LEAST_LEFT, 1.0)),
            by_load: self.by_load / self.known_s,
            others_bps: self.others_bytes / self.known_s,
        }
    }
}

/// Shortens stretches of which nothing is known to so many values: logs of single runs lie days apart.
fn without_gaps(values: impl Iterator<Item = f64>, longest: usize) -> Vec<f64> {
    let mut n_unknown = 0;
    let is_kept = |value: &f64| {
        n_unknown = if value.is_nan() { n_unknown + 1 } else { 0 };
        n_unknown <= longest
    };
    values.filter(is_kept).collect()
}

/// How many cells on each side are averaged.
fn half_window(load: &ServerLoad) -> usize {
    (0.5 * (SMOOTH_S / load.grid.step_s - 1.0)).round().max(0.0) as usize
}

/// Averages what is known around each value.
fn smoothed(values: &[f64], half: usize) -> Vec<f64> {
    if half == 0 {
        return values.to_vec();
    }
    let (mut sum, mut n) = (0.0, 0_usize);
    let mut take = |value: f64, sign: f64| {
        if !value.is_nan() {
            sum += sign * value;
            n = if sign > 0.0 { n + 1 } else { n - 1 };
        }
        (sum, n)
    };
    let mut out = Vec::with_capacity(values.len());
    for value in &values[..half.min(values.len())] {
        take(*value, 1.0);
    }
    for i in 0..values.len() {
        if let Some(&next) = values.get(i + half) {
            take(next, 1.0);
        }
        let (sum, n) = match i.checked_sub(half + 1) {
            Some(gone) => take(values[gone], -1.0),
            None => take(f64::NAN, 1.0),
        };
        out.push(if n > half && !values[i].is_nan() { sum / n as f64 } else { f64::NAN });
    }
    out
}

/// Returns where values near the highest crowd, and how many are near it.
fn ceiling(values: &[f64]) -> Option<(f64, usize)> {
    let highest = values.iter().copied().filter(|value| !value.is_nan()).max_by(f64::total_cmp)?;
    let near: Vec<f64> = values.iter().copied().filter(|value| *value >= NEAR_HIGHEST * highest).collect();
    let n = near.len();
    let mut near: Vec<f64> = near.into_iter().step_by(n.div_ceil(MOST_SORTED).max(1)).collect();
    near.sort_unstable_by(f64::total_cmp);
    Some((half_sample_mode(&near)?, n))
}

/// Returns the mode of ascending values: again and again the shortest interval that holds half of them (Robertson & Cryer, 1974).
fn half_sample_mode(sorted: &[f64]) -> Option<f64> {
    let mut values = sorted;
    while values.len() > 3 {
        let half = values.len().div_ceil(2);
        let from = (0..=values.len() - half).min_by(|&a, &b| {
            (values[a + half - 1] - values[a]).total_cmp(&(values[b + half - 1] - values[b]))
        })?;
        values = &values[from..from + half];
    }
    match *values {
        [] => None,
        [a, b, c] if b - a < c - b => Some(0.5 * (a + b)),
        [a, b, c] if b - a > c - b => Some(0.5 * (b + c)),
        [_, b, _] => Some(b),
        _ => Some(values.iter().sum::<f64>() / values.len() as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_lies_where_values_crowd() {
        assert_eq!(half_sample_mode(&[]), None);
        assert_eq!(half_sample_mode(&[3.0]), Some(3.0));
        let mode = half_sample_mode(&[1.0, 5.0, 5.1, 5.2, 9.0, 12.0]);
        assert!(mode.is_some_and(|mode| (5.0..=5.2).contains(&mode)), "{mode:?}");
    }

    #[test]
    fn what_is_not_known_is_not_averaged() {
        let values = [1.0, 2.0, f64::NAN, 4.0, 6.0];
        let smooth = smoothed(&values, 1);
        assert_eq!(smooth[0], 1.5);
        assert_eq!(smooth[1], 1.5);
        assert!(smooth[2].is_nan());
        assert_eq!(smooth[3..], [5.0, 5.0]);
    }
}
