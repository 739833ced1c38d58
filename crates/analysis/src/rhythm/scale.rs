//! Phases at a scale: what still rises and falls when everything finer is smoothed away.
//!
//! Finds phases without silence between them, and ranks so far out of step that there is more silence within phases than
//! between. Positions are in samples here; the caller turns them into seconds.

use super::steps::Burst;

/// The signal at halving resolutions: level `l` has means over `2^l` samples.
pub(crate) struct Pyramid {
    levels: Vec<Vec<f64>>,
    /// `sums[i]` is the sum of the first `i` samples.
    sums: Vec<f64>,
}

impl Pyramid {
    pub(crate) fn new(x: Vec<f64>) -> Self {
        let mut sums = Vec::with_capacity(x.len() + 1);
        sums.push(0.0);
        for value in &x {
            sums.push(sums[sums.len() - 1] + value);
        }
        let mut levels = vec![x];
        while levels.last().is_some_and(|last| last.len() > 64) {
            let last = &levels[levels.len() - 1];
            let next = last.chunks(2).map(|pair| pair.iter().sum::<f64>() / 2.0).collect();
            levels.push(next);
        }
        Self { levels, sums }
    }

    /// Phases at the scale of `period` samples: the signal is smoothed over a fraction of the period, and what still
    /// rises and falls clearly is a phase.
    ///
    /// If phases really come `period` apart, smoothing at that scale leaves them and takes everything finer; if they do
    /// not, their mean distance comes out different from what was put in, and the caller discards the answer.
    ///
    /// Beside the phases: how far the smoothed signal falls between them, as a share of its crests. What smoothing leaves of
    /// a finer rhythm, or the grid's own beat against one, falls by a few per cent.
    pub(crate) fn phases_at(&self, period: f64) -> (Vec<Burst>, f64) {
        // 32 to 64 samples a period are enough to tell where a smoothed signal rises.
        let level = ((period / 32.0).log2().floor().max(0.0) as usize).min(self.levels.len() - 1);
        let step = (1usize << level) as f64;
        let smooth = smoothed(&self.levels[level], SMOOTHING * period / step);
        let spread = iotide_num::population_std(&smooth);
        let n = self.sums.len() - 1;
        let waves = waves(&smooth, PROMINENCE * spread);
        let crests: f64 = waves.iter().map(|wave| smooth[wave.peak]).sum();
        // The valley after the last crest is the end of the signal.
        let valleys: f64 = waves.iter().skip(1).map(|wave| smooth[wave.from]).sum();
        let n_waves = waves.len() as f64;
        let depth = if n_waves >= 2.0 { 1.0 - (valleys / (n_waves - 1.0)) / (crests / n_waves) } else { 0.0 };
        let phases = waves
            .into_iter()
            .map(|wave| {
                let sum_until = |position: usize| self.sums[((position as f64 * step) as usize).min(n)];
                let volume = sum_until(wave.to) - sum_until(wave.from);
                let start = crossing(&smooth, wave.from, wave.peak) * step;
                let end = crossing_down(&smooth, wave.peak, wave.to.min(smooth.len() - 1)) * step;
                Burst { start_s: start, end_s: end.max(start), bytes: volume }
            })
            .collect();
        (phases, depth)
    }
}

/// Width (standard deviation) of the smoothing kernel, in periods. A wave of that period keeps 64 % of its height, its
/// second harmonic 17 %.
const SMOOTHING: f64 = 0.15;

/// How far the smoothed signal must rise and fall to make a phase, in standard deviations of it. A sine's peaks stand
/// 2.8 above its valleys.
const PROMINENCE: f64 = 1.0;

/// Where `y` first rises through the middle between its values at `low` and at `peak`.
fn crossing(y: &[f64], low: usize, peak: usize) -> f64 {
    let level = (y[low] + y[peak]) / 2.0;
    let after = (low..=peak).find(|&i| y[i] >= level).unwrap_or(peak);
    if after == low { low as f64 } else { after as f64 - (y[after] - level) / (y[after] - y[after - 1]) }
}

/// Where `y` last falls through the middle between its values at `peak` and at `low`.
fn crossing_down(y: &[f64], peak: usize, low: usize) -> f64 {
    let level = (y[low] + y[peak]) / 2.0;
    let before = (peak..=low).rev().find(|&i| y[i] >= level).unwrap_or(peak);
    if before == low { low as f64 } else { before as f64 + (y[before] - level) / (y[before] - y[before + 1]) }
}

/// Three passes of a moving mean: close to a Gaussian of the given standard deviation. Beyond the ends lies silence.
fn smoothed(x: &[f64], std: f64) -> Vec<f64> {
    // A box of width w has variance (w² − 1) / 12; three of them add up.
    let width = ((4.0 * std * std + 1.0).sqrt().round() as usize).max(1);
    let mut y = x.to_vec();
    let n = y.len();
    let mut sums = Vec::with_capacity(n + 1);
    for pass in 0..3 {
        let (left, right) = if pass % 2 == 0 {
            (width / 2, width - width / 2)
        } else {
            (width - width / 2 - 1, width / 2 + 1)
        };
        sums.clear();
        let mut sum = 0.0;
        sums.push(sum);
        sums.extend(y.iter().map(|value| {
            sum += value;
            sum
        }));
        // Near the ends the box reaches into the silence; in between it does not, and no index has to be held back.
        let (head, tail) = (left.min(n), n.saturating_sub(right).max(left.min(n)));
        let at_an_end = |i: usize| (sums[(i + right).min(n)] - sums[i.saturating_sub(left)]) / width as f64;
        for i in (0..head).chain(tail..n) {
            y[i] = at_an_end(i);
        }
        if head < tail {
            let (from, to) = (&sums[head - left..tail - left], &sums[head + right..tail + right]);
            for ((value, from), to) in y[head..tail].iter_mut().zip(from).zip(to) {
                *value = (to - from) / width as f64;
            }
        }
    }
    y
}

/// A rise and fall of a smoothed signal: `from` and `to` are the lowest points around `peak`.
struct Wave {
    from: usize,
    peak: usize,
    to: usize,
}

/// The waves of `y` that rise and fall by at least `rise`. Beyond the end lies silence.
fn waves(y: &[f64], rise: f64) -> Vec<Wave> {
    let mut waves: Vec<Wave> = Vec::new();
    if rise.is_nan() || rise <= 0.0 {
        return waves;
    }
    let (mut lowest, mut highest) = ((0usize, y[0]), (0usize, y[0]));
    // A signal that begins high has begun before we looked: its first wave is on its way down already.
    let mut climbing = y[0] > rise;
    for (i, &value) in y.iter().chain([&0.0]).enumerate() {
        if climbing {
            if value > highest.1 {
                highest = (i, value);
            } else if value < highest.1 - rise {
                if let Some(last) = waves.last_mut() {
                    last.to = lowest.0;
                }
                waves.push(Wave { from: lowest.0, peak: highest.0, to: y.len() });
                climbing = false;
                lowest = (i, value);
            }
        } else if value < lowest.1 {
            lowest = (i, value);
        } else if value > lowest.1 + rise {
            climbing = true;
            highest = (i, value);
        }
    }
    waves
}
