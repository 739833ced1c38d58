//! Ways of cutting a signal into phases. Each is a proposal; `evidence` judges them.
//!
//! Positions are in samples and may be fractional: a bin that is filled by a third means that the burst began at two
//! thirds of it.

/// A stretch of activity that a proposal takes for one phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Piece {
    pub start: f64,
    pub end: f64,
    /// Sum of the samples within.
    pub volume: f64,
}

/// Maximal runs of samples above `threshold`.
pub(super) fn runs_above(x: &[f64], threshold: f64) -> Vec<Piece> {
    let mut runs = Vec::new();
    let mut i = 0;
    while i < x.len() {
        if x[i] <= threshold {
            i += 1;
            continue;
        }
        let from = i;
        while i < x.len() && x[i] > threshold {
            i += 1;
        }
        runs.push(piece(x, from, i));
    }
    runs
}

/// The samples `from..to` as a piece whose ends are placed within their bins by how full these are.
pub(super) fn piece(x: &[f64], from: usize, to: usize) -> Piece {
    let volume = x[from..to].iter().sum();
    let filled = |edge: usize, inner: usize| if x[inner] > x[edge] { x[edge] / x[inner] } else { 1.0 };
    let (start, end) = if to - from >= 2 {
        ((from + 1) as f64 - filled(from, from + 1), (to - 1) as f64 + filled(to - 1, to - 2))
    } else {
        (from as f64, to as f64)
    };
    Piece { start, end, volume }
}

/// Joins pieces whose gap is shorter than `shortest_gap`.
pub(super) fn join(pieces: &[Piece], shortest_gap: f64) -> Vec<Piece> {
    let mut joined: Vec<Piece> = Vec::new();
    for piece in pieces {
        match joined.last_mut() {
            Some(last) if piece.start - last.end < shortest_gap => {
                last.end = piece.end;
                last.volume += piece.volume;
            }
            _ => joined.push(*piece),
        }
    }
    joined
}

/// The gap lengths at which joining changes the picture most.
pub(super) fn natural_gaps(pieces: &[Piece], most: usize) -> Vec<f64> {
    let gaps = pieces.windows(2).map(|pair| (pair[1].start - pair[0].end).max(1e-3)).collect();
    widest_breaks(gaps, 1.05, most)
}

/// The volumes at which the pieces fall into two classes most clearly.
pub(super) fn natural_volumes(pieces: &[Piece], most: usize) -> Vec<f64> {
    let volumes = pieces.iter().map(|piece| piece.volume).filter(|&volume| volume > 0.0).collect();
    widest_breaks(volumes, 1.25, most)
}

/// Where sorted values jump the most, as a ratio and by `least_ratio` or more: the middle of each jump, widest first.
fn widest_breaks(mut values: Vec<f64>, least_ratio: f64, most: usize) -> Vec<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let mut breaks: Vec<(f64, f64)> = values
        .windows(2)
        .filter(|pair| pair[1] > pair[0] * least_ratio)
        .map(|pair| (pair[1] / pair[0], (pair[0] * pair[1]).sqrt()))
        .collect();
    breaks.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    breaks.truncate(most);
    breaks.into_iter().map(|(_, middle)| middle).collect()
}

/// The signal at halving resolutions: level `l` has means over `2^l` samples.
pub(super) struct Pyramid<'a> {
    levels: Vec<Vec<f64>>,
    /// `sums[i]` is the sum of the first `i` samples.
    sums: &'a [f64],
}

impl<'a> Pyramid<'a> {
    pub(super) fn new(x: &[f64], sums: &'a [f64]) -> Self {
        let mut levels = vec![x.to_vec()];
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
    pub(super) fn phases_at(&self, period: f64) -> Vec<Piece> {
        // 32 to 64 samples a period are enough to tell where a smoothed signal rises.
        let level = ((period / 32.0).log2().floor().max(0.0) as usize).min(self.levels.len() - 1);
        let step = (1usize << level) as f64;
        let smooth = smoothed(&self.levels[level], SMOOTHING * period / step);
        let spread = iotide_num::population_std(&smooth);
        let n = self.sums.len() - 1;
        waves(&smooth, PROMINENCE * spread)
            .into_iter()
            .map(|wave| {
                let sum_until = |position: usize| self.sums[((position as f64 * step) as usize).min(n)];
                let volume = sum_until(wave.to) - sum_until(wave.from);
                let start = crossing(&smooth, wave.from, wave.peak) * step;
                let end = crossing_down(&smooth, wave.peak, wave.to.min(smooth.len() - 1)) * step;
                Piece { start, end: end.max(start), volume }
            })
            .collect()
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
    let mut sums = vec![0.0; n + 1];
    for pass in 0..3 {
        let (left, right) = if pass % 2 == 0 {
            (width / 2, width - width / 2)
        } else {
            (width - width / 2 - 1, width / 2 + 1)
        };
        let mut sum = 0.0;
        for (until, value) in sums[1..].iter_mut().zip(&y) {
            sum += value;
            *until = sum;
        }
        // The box reaches over an end near the ends alone; in between there is nothing to ask, which is most of the work here.
        let clipped = |i: usize| (sums[(i + right).min(n)] - sums[i.saturating_sub(left)]) / width as f64;
        let (from, to) = (left.min(n), (n + 1).saturating_sub(right).max(left).min(n));
        for i in (0..from).chain(to..n) {
            y[i] = clipped(i);
        }
        let ends = sums.get(from + right..).unwrap_or_default();
        for ((value, end), start) in y[from..to].iter_mut().zip(ends).zip(&sums) {
            *value = (end - start) / width as f64;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn starts(pieces: &[Piece]) -> Vec<f64> {
        pieces.iter().map(|piece| piece.start).collect()
    }

    #[test]
    fn a_burst_begins_within_its_first_bin_by_how_full_that_is() {
        let runs = runs_above(&[0.0, 2.5, 10.0, 10.0, 5.0, 0.0, 7.0], 0.0);
        assert_eq!(
            runs,
            [Piece { start: 1.75, end: 4.5, volume: 27.5 }, Piece { start: 6.0, end: 7.0, volume: 7.0 }]
        );
    }

    #[test]
    fn short_gaps_are_closed_and_volumes_kept() {
        let runs = runs_above(&[1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0], 0.0);
        let joined = join(&runs, 2.0);
        assert_eq!(starts(&joined), [0.0, 6.0]);
        assert_eq!(joined.iter().map(|piece| piece.volume).sum::<f64>(), 3.0);
    }

    #[test]
    fn the_widest_break_comes_first() {
        let breaks = widest_breaks(vec![100.0, 1.0, 10.0, 1.01, 9.9], 1.05, 5);
        assert_eq!(breaks.len(), 2);
        assert!((breaks[0] - (10.0f64 * 100.0).sqrt()).abs() < 1e-9);
        assert!((breaks[1] - (1.01f64 * 9.9).sqrt()).abs() < 1e-9);
    }

    #[test]
    fn smoothing_is_three_moving_means_also_at_the_ends() {
        let mean_by_definition = |x: &[f64], left: usize, right: usize| -> Vec<f64> {
            let within = |i: usize| &x[i.saturating_sub(left)..(i + right).min(x.len())];
            (0..x.len()).map(|i| within(i).iter().sum::<f64>() / (left + right) as f64).collect()
        };
        for n in [1, 2, 3, 7, 40] {
            let x: Vec<f64> = (0..n).map(|i| f64::from(i * i % 11)).collect();
            for std in [0.1, 0.6, 1.0, 3.0, 9.0, 100.0] {
                let width = ((4.0 * std * std + 1.0f64).sqrt().round() as usize).max(1);
                let (half, rest) = (width / 2, width - width / 2);
                let once = mean_by_definition(&x, half, rest);
                let twice = mean_by_definition(&once, rest - 1, half + 1);
                let thrice = mean_by_definition(&twice, half, rest);
                for (fast, slow) in smoothed(&x, std).iter().zip(thrice) {
                    assert!((fast - slow).abs() < 1e-9, "{n} samples, {std}: {fast} {slow}");
                }
            }
        }
    }

    #[test]
    fn smoothing_at_the_scale_of_the_period_leaves_its_phases() {
        // Each phase of 40 samples has five bursts.
        let x: Vec<f64> = (0..800).map(|i| if i % 40 < 20 && i % 4 < 2 { 1.0 } else { 0.0 }).collect();
        let sums: Vec<f64> = std::iter::once(0.0)
            .chain(x.iter().scan(0.0, |sum, value| {
                *sum += value;
                Some(*sum)
            }))
            .collect();
        let phases = Pyramid::new(&x, &sums).phases_at(40.0);
        assert_eq!(phases.len(), 20);
        assert_eq!(phases.iter().map(|phase| phase.volume).sum::<f64>(), sums[800]);
        for pair in phases[1..19].windows(2) {
            assert!((pair[1].start - pair[0].start - 40.0).abs() < 0.5);
        }
    }
}
