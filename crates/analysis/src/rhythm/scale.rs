//! Phases at a scale: what still rises and falls when everything finer is smoothed away.
//!
//! Finds phases without silence between them, and ranks so far out of step that there is more silence within phases than
//! between. Positions are in samples here; the caller turns them into seconds.

use std::ops::Range;

use super::steps::Burst;

/// The signal at halving resolutions: level `l` has sums over `2^l` samples.
///
/// Samples are whole numbers, the largest [`LARGEST`]: sums of them are exact in any order, and adding them up is quick.
pub(crate) struct Pyramid {
    levels: Vec<Level>,
    /// `sums[i]` is the sum of the first `i` samples as they were given.
    sums: Vec<f64>,
}

/// Value that the largest sample is scaled to. 2¹⁴ of them, smoothed by three boxes of up to 19 samples, still fit.
const LARGEST: f64 = (1u64 << 35) as f64;

struct Level {
    /// The samples, less the middle of long silences.
    samples: Vec<i64>,
    /// Of each piece that is left: its first sample among these, and how many were left out before it.
    pieces: Vec<(usize, usize)>,
    /// How many samples there are with the silence.
    n: usize,
}

impl Level {
    fn of(whole: &[i64]) -> Self {
        let mut pieces: Vec<Range<usize>> = Vec::new();
        for i in (0..whole.len()).filter(|&i| whole[i] != 0) {
            let around = i.saturating_sub(SMOOTHING_REACH)..(i + SMOOTHING_REACH + 1).min(whole.len());
            match pieces.last_mut() {
                Some(last) if around.start <= last.end => last.end = around.end,
                _ => pieces.push(around),
            }
        }
        let mut level =
            Self { samples: Vec::new(), pieces: Vec::with_capacity(pieces.len()), n: whole.len() };
        for piece in pieces {
            level.pieces.push((level.samples.len(), piece.start - level.samples.len()));
            level.samples.extend_from_slice(&whole[piece]);
        }
        level
    }

    /// Where the sample at `index` among those that are left lies in the whole.
    fn place(&self, index: f64) -> f64 {
        let at = self.pieces.partition_point(|(first, _)| *first as f64 <= index).max(1) - 1;
        index + self.pieces[at].1 as f64
    }
}

/// Buffers of [`Pyramid::phases_at`], kept from one scale to the next.
#[derive(Default)]
pub(crate) struct Scratch {
    smooth: Vec<i64>,
    sums: Vec<i64>,
}

impl Pyramid {
    pub(crate) fn new(x: &[f64]) -> Self {
        let mut sums = Vec::with_capacity(x.len() + 1);
        let mut sum = 0.0;
        sums.push(sum);
        sums.extend(x.iter().map(|value| {
            sum += value;
            sum
        }));
        let largest = x.iter().copied().fold(0.0, f64::max);
        let unit = if largest > 0.0 { LARGEST / largest } else { 0.0 };
        // Times and volumes at the ends of what a number can be make rates that are none: they count for nothing.
        let mut whole: Vec<i64> =
            x.iter().map(|value| (value * unit).round().clamp(0.0, LARGEST) as i64).collect();
        let mut levels = vec![Level::of(&whole)];
        while whole.len() > 64 {
            whole = whole.chunks(2).map(|pair| pair.iter().sum()).collect();
            levels.push(Level::of(&whole));
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
    pub(crate) fn phases_at(&self, period: f64, scratch: &mut Scratch) -> (Vec<Burst>, f64) {
        // 32 to 64 samples a period are enough to tell where a smoothed signal rises.
        let level = ((period / 32.0).log2().floor().max(0.0) as usize).min(self.levels.len() - 1);
        let step = (1usize << level) as f64;
        let level = &self.levels[level];
        smooth(&level.samples, SMOOTHING * period / step, scratch);
        let smooth = &scratch.smooth[..];
        let waves = waves(smooth, PROMINENCE * spread(smooth, level.n));
        let crests: f64 = waves.iter().map(|wave| smooth[wave.peak] as f64).sum();
        // The valley after the last crest is the end of the signal.
        let valleys: f64 = waves.iter().skip(1).map(|wave| smooth[wave.from] as f64).sum();
        let n_waves = waves.len() as f64;
        let depth = if n_waves >= 2.0 { 1.0 - (valleys / (n_waves - 1.0)) / (crests / n_waves) } else { 0.0 };
        let n = self.sums.len() - 1;
        let sum_until = |index: usize| {
            if index == smooth.len() {
                self.sums[n]
            } else {
                self.sums[((level.place(index as f64) * step) as usize).min(n)]
            }
        };
        let phases = waves
            .iter()
            .map(|wave| {
                let start = level.place(crossing(smooth, wave.from, wave.peak)) * step;
                let end = level.place(crossing_down(smooth, wave.peak, wave.to.min(smooth.len() - 1))) * step;
                Burst {
                    start_s: start,
                    end_s: end.max(start),
                    bytes: sum_until(wave.to) - sum_until(wave.from),
                }
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

/// Smoothing takes no sample further than this many to either side: three boxes of up to 19 samples, a kernel for a period of 64.
const SMOOTHING_REACH: usize = 32;

/// Where `y` first rises through the middle between its values at `low` and at `peak`.
fn crossing(y: &[i64], low: usize, peak: usize) -> f64 {
    let level = middle(y[low], y[peak]);
    let after = (low..=peak).find(|&i| y[i] as f64 >= level).unwrap_or(peak);
    if after == low {
        return low as f64;
    }
    after as f64 - (y[after] as f64 - level) / (y[after] - y[after - 1]) as f64
}

/// Where `y` last falls through the middle between its values at `peak` and at `low`.
fn crossing_down(y: &[i64], peak: usize, low: usize) -> f64 {
    let level = middle(y[low], y[peak]);
    let before = (peak..=low).rev().find(|&i| y[i] as f64 >= level).unwrap_or(peak);
    if before == low {
        return low as f64;
    }
    before as f64 + (y[before] as f64 - level) / (y[before] - y[before + 1]) as f64
}

fn middle(one: i64, other: i64) -> f64 {
    (one as f64 + other as f64) / 2.0
}

/// Three passes of a moving sum: close to a Gaussian of the given standard deviation, times a factor that nobody asks for. Beyond
/// the ends lies silence.
fn smooth(x: &[i64], std: f64, scratch: &mut Scratch) {
    // A box of width w has variance (w² − 1) / 12; three of them add up.
    let width = ((4.0 * std * std + 1.0).sqrt().round() as usize).max(1);
    debug_assert!(3 * (width / 2 + 1) <= SMOOTHING_REACH, "silence was cut for narrower boxes than {width}");
    let Scratch { smooth: y, sums } = scratch;
    y.clear();
    y.extend_from_slice(x);
    let n = y.len();
    for pass in 0..3 {
        let (left, right) = if pass % 2 == 0 {
            (width / 2, width - width / 2)
        } else {
            (width - width / 2 - 1, width / 2 + 1)
        };
        sums.resize(n + 1, 0);
        let mut sum = 0i64;
        for (until, value) in sums[1..].iter_mut().zip(y.iter()) {
            sum += value;
            *until = sum;
        }
        // Near the ends the box reaches into the silence; in between it does not, and no index has to be held back.
        let (head, tail) = (left.min(n), n.saturating_sub(right).max(left.min(n)));
        let at_an_end = |i: usize| sums[(i + right).min(n)] - sums[i.saturating_sub(left)];
        for i in (0..head).chain(tail..n) {
            y[i] = at_an_end(i);
        }
        if head < tail {
            let (from, to) = (&sums[head - left..tail - left], &sums[head + right..tail + right]);
            for ((value, from), to) in y[head..tail].iter_mut().zip(from).zip(to) {
                *value = to - from;
            }
        }
    }
}

/// Standard deviation of `n` samples, of which all but `y` are zero.
fn spread(y: &[i64], n: usize) -> f64 {
    let mean = total(y, |value| value) / n as f64;
    let squares = total(y, |value| (value - mean) * (value - mean)) + (n - y.len()) as f64 * mean * mean;
    (squares / n as f64).sqrt()
}

/// Sums up `of(value)`: several sums side by side, of which none waits for another.
fn total(y: &[i64], of: impl Fn(f64) -> f64) -> f64 {
    let mut sums = [0.0f64; 8];
    let chunks = y.chunks_exact(8);
    let rest: f64 = chunks.remainder().iter().map(|&value| of(value as f64)).sum();
    for chunk in chunks {
        for (sum, &value) in sums.iter_mut().zip(chunk) {
            *sum += of(value as f64);
        }
    }
    rest + sums.iter().sum::<f64>()
}

/// A rise and fall of a smoothed signal: `from` and `to` are the lowest points around `peak`.
struct Wave {
    from: usize,
    peak: usize,
    to: usize,
}

/// The waves of `y` that rise and fall by at least `rise`. Beyond the end lies silence.
fn waves(y: &[i64], rise: f64) -> Vec<Wave> {
    let mut waves: Vec<Wave> = Vec::new();
    let rise = rise as i64;
    if rise <= 0 || y.is_empty() {
        return waves;
    }
    let (mut lowest, mut highest) = ((0usize, y[0]), (0usize, y[0]));
    // A signal that begins high has begun before we looked: its first wave is on its way down already.
    let mut climbing = y[0] > rise;
    for (i, &value) in y.iter().chain([&0]).enumerate() {
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
    use proptest::prelude::*;

    proptest! {
        /// Samples with long silences between them, looked at with the silence and without.
        #[test]
        fn silence_that_is_left_out_changes_nothing(
            bursts in prop::collection::vec((0usize..200, prop::collection::vec(0.0..10.0f64, 1..12)), 1..20),
            period in 6.0..400.0f64,
        ) {
            let x: Vec<f64> = bursts
                .iter()
                .flat_map(|(silence, burst)| std::iter::repeat_n(0.0, *silence).chain(burst.iter().copied()))
                .collect();
            let cut = Pyramid::new(&x);
            prop_assume!(period < x.len() as f64 / 2.0);
            let whole = |level: &Level| {
                let mut samples = vec![0; level.n];
                for (i, &sample) in level.samples.iter().enumerate() {
                    samples[level.place(i as f64) as usize] = sample;
                }
                Level { samples, pieces: vec![(0, 0)], n: level.n }
            };
            let uncut =
                Pyramid { levels: cut.levels.iter().map(whole).collect(), sums: cut.sums.clone() };
            let ((phases, depth), (expected, expected_depth)) = (
                cut.phases_at(period, &mut Scratch::default()),
                uncut.phases_at(period, &mut Scratch::default()),
            );
            prop_assert_eq!(phases.len(), expected.len());
            prop_assert!((depth - expected_depth).abs() < 1e-9);
            for (phase, expected) in phases.iter().zip(&expected) {
                prop_assert!((phase.start_s - expected.start_s).abs() < 1e-6, "{phase:?} {expected:?}");
                prop_assert!((phase.end_s - expected.end_s).abs() < 1e-6, "{phase:?} {expected:?}");
                prop_assert!((phase.bytes - expected.bytes).abs() < 1e-6, "{phase:?} {expected:?}");
            }
        }
    }
}
