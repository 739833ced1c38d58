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

/// The gap lengths at which joining changes the picture most: the widest breaks in the sorted (log) gaps.
pub(super) fn natural_gaps(pieces: &[Piece], most: usize) -> Vec<f64> {
    let mut gaps: Vec<f64> = pieces.windows(2).map(|pair| (pair[1].start - pair[0].end).max(1e-3)).collect();
    gaps.sort_unstable_by(f64::total_cmp);
    let mut breaks: Vec<(f64, f64)> = gaps
        .windows(2)
        .filter(|pair| pair[1] > pair[0] * 1.05)
        .map(|pair| ((pair[1] / pair[0]).ln(), (pair[0] * pair[1]).sqrt()))
        .collect();
    breaks.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    breaks.truncate(most);
    breaks.into_iter().map(|(_, gap)| gap).collect()
}

/// The volumes at which the pieces fall into two classes most clearly: the widest breaks in the sorted (log) volumes.
pub(super) fn natural_volumes(pieces: &[Piece], most: usize) -> Vec<f64> {
    let mut volumes: Vec<f64> =
        pieces.iter().map(|piece| piece.volume).filter(|&volume| volume > 0.0).collect();
    volumes.sort_unstable_by(f64::total_cmp);
    let mut breaks: Vec<(f64, f64)> = volumes
        .windows(2)
        .filter(|pair| pair[1] > pair[0] * 1.25)
        .map(|pair| ((pair[1] / pair[0]).ln(), (pair[0] * pair[1]).sqrt()))
        .collect();
    breaks.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
    breaks.truncate(most);
    breaks.into_iter().map(|(_, volume)| volume).collect()
}

/// The signal at halving resolutions: level `l` has means over `2^l` samples.
pub(super) struct Pyramid {
    levels: Vec<Vec<f64>>,
}

impl Pyramid {
    pub(super) fn new(x: &[f64]) -> Self {
        let mut levels = vec![x.to_vec()];
        while levels.last().is_some_and(|last| last.len() > 64) {
            let last = &levels[levels.len() - 1];
            let next = last.chunks(2).map(|pair| pair.iter().sum::<f64>() / 2.0).collect();
            levels.push(next);
        }
        Self { levels }
    }

    /// Phases at the scale of `period` samples: the signal is smoothed over a fraction of the period, and what still
    /// rises and falls clearly is a phase.
    ///
    /// If phases really come `period` apart, smoothing at that scale leaves them and takes everything finer; if they do
    /// not, their mean distance comes out different from what was put in, and the caller discards the answer.
    pub(super) fn phases_at(&self, period: f64) -> Vec<Piece> {
        let level = ((period / 96.0).log2().floor().max(0.0) as usize).min(self.levels.len() - 1);
        let step = (1usize << level) as f64;
        let smooth = smoothed(&self.levels[level], SMOOTHING * period / step);
        let centre = iotide_num::mean(&smooth);
        let spread =
            iotide_num::mean(&smooth.iter().map(|v| (v - centre).powi(2)).collect::<Vec<_>>()).sqrt();
        let valleys = valleys(&smooth, PROMINENCE * spread);
        let x = &self.levels[0];
        valleys
            .windows(2)
            .map(|pair| {
                let from = ((pair[0] as f64 * step) as usize).min(x.len());
                let to = ((pair[1] as f64 * step) as usize).min(x.len());
                core(x, from, to)
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

/// The part of `from..to` in which the middle 94 % of its volume move.
fn core(x: &[f64], from: usize, to: usize) -> Piece {
    let volume: f64 = x[from..to].iter().sum();
    let (mut first, mut last) = (from as f64, to as f64);
    let (low, high) = (0.03 * volume, 0.97 * volume);
    let mut sum = 0.0;
    for (i, value) in x[from..to].iter().enumerate() {
        let next = sum + value;
        let at = |level: f64| (from + i) as f64 + if *value > 0.0 { (level - sum) / value } else { 0.0 };
        if sum < low && next >= low {
            first = at(low);
        }
        if sum < high && next >= high {
            last = at(high);
        }
        sum = next;
    }
    Piece { start: first, end: last.max(first), volume }
}

/// Three passes of a moving mean: close to a Gaussian of the given standard deviation. Beyond the ends lies silence.
fn smoothed(x: &[f64], std: f64) -> Vec<f64> {
    // A box of width w has variance (w² − 1) / 12; three of them add up.
    let width = ((4.0 * std * std + 1.0).sqrt().round() as usize).max(1);
    let mut y = x.to_vec();
    for pass in 0..3 {
        let (left, right) = if pass % 2 == 0 {
            (width / 2, width - width / 2)
        } else {
            (width - width / 2 - 1, width / 2 + 1)
        };
        let mut sums = Vec::with_capacity(y.len() + 1);
        sums.push(0.0);
        for value in &y {
            sums.push(sums[sums.len() - 1] + value);
        }
        let n = y.len();
        for (i, value) in y.iter_mut().enumerate() {
            *value = (sums[(i + right).min(n)] - sums[i.saturating_sub(left)]) / width as f64;
        }
    }
    y
}

/// The lowest points between peaks that stand at least `rise` above them on both sides; the outermost are the ends.
fn valleys(y: &[f64], rise: f64) -> Vec<usize> {
    if rise.is_nan() || rise <= 0.0 {
        return Vec::new();
    }
    let mut valleys = Vec::new();
    let (mut lowest, mut highest) = ((0usize, 0.0f64), (0usize, f64::NEG_INFINITY));
    let mut climbing = false;
    for (i, &value) in y.iter().chain([&0.0]).enumerate() {
        if climbing {
            if value > highest.1 {
                highest = (i, value);
            } else if value < highest.1 - rise {
                climbing = false;
                lowest = (i, value);
            }
        } else if value < lowest.1 {
            lowest = (i, value);
        } else if value > lowest.1 + rise {
            valleys.push(lowest.0);
            climbing = true;
            highest = (i, value);
        }
    }
    if !valleys.is_empty() {
        // The last peak ends at the end; a peak still climbing there has been seen only in part, but it has begun.
        valleys.push(y.len());
    }
    valleys
}
