//! The paper's method (sections 5.1 to 5.4): each sample is smoothed by a wavelet and cut into bursts, each burst becomes
//! a point of a plane (when, and how much like the others), and where points of most samples lie close together is a burst
//! that they have in common.

use iotide_num::{mean, meyer_approximation, resample_linear};

use super::level::Level;
use super::prepare::Prepared;
use super::{Drawn, IosiConfig, SignatureConfig};

/// Draws the signature.
pub(super) fn draw(prepared: &Prepared, config: &SignatureConfig) -> Drawn {
    let level = Level::of(prepared, config.preprocess);
    let config = &config.iosi;
    let bursts = find_bursts(&level.samples, config);
    let common = common_bursts(&bursts, level.samples.len(), config);
    let n = level.samples.iter().map(Vec::len).max().unwrap_or(0);
    let mut bandwidth_bps = vec![0.0; n];
    // Where the signature's time is in each sample: as it is, but for the bursts, which were moved.
    let mut places: Vec<Vec<usize>> = vec![(0..n).collect(); level.samples.len()];
    for members in common {
        let at = mean(&members.iter().map(|&i| bursts[i].time).collect::<Vec<_>>());
        let share = 1.0 / members.len() as f64;
        for burst in members.iter().map(|&i| &bursts[i]) {
            let shift = (at - burst.time).round() as isize;
            for place in burst.from..burst.to {
                let moved = usize::try_from(place as isize + shift).ok().filter(|moved| *moved < n);
                if let Some(moved) = moved {
                    bandwidth_bps[moved] += share * level.samples[burst.sample][place];
                    places[burst.sample][moved] = place;
                }
            }
        }
    }
    Drawn {
        alignments: level.alignments(prepared, &places),
        bandwidth_bps,
        background_bps: level.background_bps,
        rejected: Vec::new(),
    }
}

/// A burst of a sample, as a point of the plane.
struct Point {
    sample: usize,
    from: usize,
    to: usize,
    /// Its centre of mass, or its crest.
    time: f64,
    /// Its correlation with the average burst, in [0, 1].
    likeness: f64,
}

/// The bursts of all samples.
fn find_bursts(samples: &[Vec<f64>], config: &IosiConfig) -> Vec<Point> {
    let mut bursts = Vec::new();
    for (sample, values) in samples.iter().enumerate() {
        let wave = meyer_approximation(values, config.wavelet_level);
        for (from, to) in cut(&wave) {
            let volume: f64 = values[from..to].iter().sum();
            let moment: f64 = values[from..to].iter().zip(from..).map(|(value, i)| value * i as f64).sum();
            if volume > 0.0 {
                let crest = (from..to).max_by(|a, b| wave[*a].total_cmp(&wave[*b])).unwrap_or(from);
                let time = if config.at_crest { crest as f64 } else { moment / volume };
                bursts.push(Point { sample, from, to, time, likeness: 0.0 });
            }
        }
    }
    let values = |burst: &Point| &samples[burst.sample][burst.from..burst.to];
    let length = mean(&bursts.iter().map(|burst| (burst.to - burst.from) as f64).collect::<Vec<_>>());
    let length = (length.round() as usize).max(2);
    let shapes: Vec<Vec<f64>> = bursts.iter().map(|burst| resample_linear(values(burst), length)).collect();
    let average: Vec<f64> =
        (0..length).map(|i| mean(&shapes.iter().map(|shape| shape[i]).collect::<Vec<_>>())).collect();
    for (burst, shape) in bursts.iter_mut().zip(&shapes) {
        burst.likeness = correlation(shape, &average).clamp(0.0, 1.0);
    }
    bursts
}

/// Cuts a wave at its troughs below the mean height of its crests, and returns the stretches that hold a crest of at
/// least that height.
fn cut(wave: &[f64]) -> Vec<(usize, usize)> {
    let n = wave.len();
    let before = |i: usize| if i == 0 { f64::NEG_INFINITY } else { wave[i - 1] };
    let after = |i: usize| wave.get(i + 1).copied().unwrap_or(f64::NEG_INFINITY);
    let crests: Vec<f64> =
        (0..n).filter(|&i| wave[i] > before(i) && wave[i] >= after(i)).map(|i| wave[i]).collect();
    let height = mean(&crests);
    let is_trough = |i: usize| wave[i] < wave[i - 1] && wave[i] <= wave[i + 1] && wave[i] < height;
    let mut borders = vec![0];
    borders.extend((1..n.saturating_sub(1)).filter(|&i| is_trough(i)));
    borders.push(n);
    borders
        .windows(2)
        .map(|pair| (pair[0], pair[1]))
        .filter(|&(from, to)| wave[from..to].iter().any(|value| *value >= height && *value > 0.0))
        .collect()
}

/// The groups of bursts that most samples have, by the grid that explains most points; of equally good ones the narrowest.
fn common_bursts(bursts: &[Point], n_samples: usize, config: &IosiConfig) -> Vec<Vec<usize>> {
    let mean_length = mean(&bursts.iter().map(|burst| (burst.to - burst.from) as f64).collect::<Vec<_>>());
    let gaps: Vec<f64> = bursts
        .windows(2)
        .filter(|pair| pair[0].sample == pair[1].sample)
        .map(|pair| pair[1].time - pair[0].time)
        .collect();
    let (narrowest, widest) = (mean_length.max(1.0), mean(&gaps).max(mean_length).max(1.0));
    let n = config.n_settings.max(1);
    let between = |low: f64, high: f64, i: usize| low + (high - low) * i as f64 / (n - 1).max(1) as f64;
    let mut best: Vec<Vec<usize>> = Vec::new();
    let mut most = 0;
    for width in (0..n).map(|i| between(narrowest, widest, i)) {
        for height in (0..n).map(|i| between(config.heights.0, config.heights.1, i)) {
            let groups = dense_groups(bursts, n_samples, (width, height), config);
            let explained = groups.iter().map(Vec::len).sum::<usize>();
            if explained > most {
                (best, most) = (groups, explained);
            }
        }
    }
    best
}

/// The groups of one grid: densest cells first, each with its eight neighbours; every point is used once.
fn dense_groups(
    bursts: &[Point],
    n_samples: usize,
    (width, height): (f64, f64),
    config: &IosiConfig,
) -> Vec<Vec<usize>> {
    let cell_of = |burst: &Point| ((burst.time / width) as i64, (burst.likeness / height.max(1e-9)) as i64);
    let needed = |share: f64| (share * n_samples as f64 - 1e-9).ceil().max(1.0) as usize;
    let (needed_in_cell, needed_around) = (needed(config.density), needed(config.neighbourhood_density));
    let mut free: Vec<usize> = (0..bursts.len()).collect();
    let mut groups = Vec::new();
    let mut cells: Vec<(i64, i64)> = bursts.iter().map(cell_of).collect();
    cells.sort_unstable();
    cells.dedup();
    let density = |of: &[usize]| {
        let mut samples: Vec<usize> = of.iter().map(|&i| bursts[i].sample).collect();
        samples.sort_unstable();
        samples.dedup();
        samples.len()
    };
    let inside = |free: &[usize], (x, y): (i64, i64), reach: i64| -> Vec<usize> {
        let is_near = |burst: &Point| {
            let (i, j) = cell_of(burst);
            (i - x).abs() <= reach && (j - y).abs() <= reach
        };
        free.iter().copied().filter(|&i| is_near(&bursts[i])).collect()
    };
    let mut by_density: Vec<(usize, (i64, i64))> =
        cells.iter().map(|&cell| (density(&inside(&free, cell, 0)), cell)).collect();
    by_density.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    for (_, cell) in by_density {
        // What others took may have thinned it out.
        if density(&inside(&free, cell, 0)) < needed_in_cell {
            continue;
        }
        let around = inside(&free, cell, 1);
        if density(&around) < needed_around {
            continue;
        }
        let group = vote(bursts, &around, (width, height));
        free.retain(|i| !group.contains(i));
        groups.push(group);
    }
    groups
}

/// One point of each sample: that with the least summed distance to all others.
fn vote(bursts: &[Point], candidates: &[usize], (width, height): (f64, f64)) -> Vec<usize> {
    let distance = |a: &Point, b: &Point| {
        ((a.time - b.time) / width).hypot((a.likeness - b.likeness) / height.max(1e-9))
    };
    let summed = |i: usize| candidates.iter().map(|&j| distance(&bursts[i], &bursts[j])).sum::<f64>();
    let mut ranked: Vec<(f64, usize)> = candidates.iter().map(|&i| (summed(i), i)).collect();
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut chosen: Vec<usize> = Vec::new();
    for (_, i) in ranked {
        if chosen.iter().all(|&other| bursts[other].sample != bursts[i].sample) {
            chosen.push(i);
        }
    }
    chosen
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let (mean_a, mean_b) = (mean(a), mean(b));
    let sum = |x: &[f64], mx: f64, y: &[f64], my: f64| -> f64 {
        x.iter().zip(y).map(|(x, y)| (x - mx) * (y - my)).sum()
    };
    let scale = (sum(a, mean_a, a, mean_a) * sum(b, mean_b, b, mean_b)).sqrt();
    if scale > 0.0 { sum(a, mean_a, b, mean_b) / scale } else { 0.0 }
}
