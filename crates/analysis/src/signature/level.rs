//! The paper's preprocessing (section 5.1): samples refined, brought to one duration, and freed of the background.

use iotide_num::mean;

use super::Alignment;
use super::prepare::Prepared;

/// Samples of one length, on the grid of the signature.
pub(super) struct Level {
    /// Without background; all as long as the shortest, if they were prepared.
    pub(super) samples: Vec<Vec<f64>>,
    /// For each sample, which of its refined points were kept.
    kept: Vec<Vec<usize>>,
    pub(super) background_bps: f64,
}

impl Level {
    /// Refined; with `preprocess` also shortened and freed of the background.
    pub(super) fn of(prepared: &Prepared, preprocess: bool) -> Self {
        let refined: Vec<Vec<f64>> = prepared
            .samples
            .iter()
            .map(|ready| refine(&ready.sample.bandwidth_bps, ready.sample.interval_s / prepared.interval_s))
            .collect();
        if !preprocess {
            let kept = refined.iter().map(|values| (0..values.len()).collect()).collect();
            return Self { samples: refined, kept, background_bps: 0.0 };
        }
        let shortest = refined.iter().map(Vec::len).min().unwrap_or(0);
        let kept: Vec<Vec<usize>> = refined.iter().map(|values| shrink(values.len(), shortest)).collect();
        let mut samples: Vec<Vec<f64>> = refined
            .iter()
            .zip(&kept)
            .map(|(values, kept)| kept.iter().map(|&i| values[i]).collect())
            .collect();
        let background_bps = background(&samples);
        for value in samples.iter_mut().flatten() {
            *value = (*value - background_bps).max(0.0);
        }
        Self { samples, kept, background_bps }
    }

    /// Where the points of a signature lie in each sample, given their places in the shortened samples.
    pub(super) fn alignments(&self, prepared: &Prepared, places: &[Vec<usize>]) -> Vec<Alignment> {
        places
            .iter()
            .enumerate()
            .map(|(sample, places)| {
                let lead_s = prepared.samples[sample].lead_s;
                let time_s = |&place: &usize| {
                    let kept = self.kept[sample].get(place).copied().unwrap_or(place);
                    lead_s + (kept as f64 + 0.5) * prepared.interval_s
                };
                Alignment { sample, times_s: places.iter().map(time_s).collect() }
            })
            .collect()
    }
}

/// `ratio` values for each one, interpolated linearly; a hole is bridged by what lies around it.
fn refine(values: &[f64], ratio: f64) -> Vec<f64> {
    let mut whole = values.to_vec();
    let mut known = whole.iter().position(|value| !value.is_nan()).unwrap_or(0);
    let first = whole.get(known).copied().unwrap_or(0.0);
    whole[..known].fill(first);
    while known < whole.len() {
        let next = (known + 1..whole.len()).find(|&i| !whole[i].is_nan());
        let (from, to) = (whole[known], next.map_or(whole[known], |i| whole[i]));
        let end = next.unwrap_or(whole.len());
        for (step, value) in whole[known + 1..end].iter_mut().enumerate() {
            *value = from + (to - from) * (step + 1) as f64 / (end - known) as f64;
        }
        known = end;
    }
    let n = (whole.len() as f64 * ratio).round() as usize;
    (0..n)
        .map(|i| {
            let place = (i as f64 / ratio).min(whole.len() as f64 - 1.0);
            let (below, fraction) = (place as usize, place.fract());
            let above = whole[(below + 1).min(whole.len() - 1)];
            whole[below] + (above - whole[below]) * fraction
        })
        .collect()
}

/// Which of `n` points to keep so that `target` are left: those dropped lie at regular intervals, the first one first.
fn shrink(n: usize, target: usize) -> Vec<usize> {
    let n_dropped = n.saturating_sub(target);
    let mut next = 0;
    let mut kept = Vec::with_capacity(target);
    for i in 0..n {
        if next < n_dropped && i == next * n / n_dropped.max(1) {
            next += 1;
        } else {
            kept.push(i);
        }
    }
    kept
}

/// The mean of all points below the mean of all points.
fn background(samples: &[Vec<f64>]) -> f64 {
    let all: Vec<f64> = samples.iter().flatten().copied().collect();
    let overall = mean(&all);
    mean(&all.into_iter().filter(|value| *value < overall).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_four_per_cent_too_long_loses_every_26th_point_from_the_first_on() {
        let kept = shrink(104, 100);
        let dropped: Vec<usize> = (0..104).filter(|i| !kept.contains(i)).collect();
        assert_eq!(dropped, [0, 26, 52, 78]);
        assert_eq!(shrink(3, 3), [0, 1, 2]);
        assert_eq!(shrink(2, 5), [0, 1]);
    }

    #[test]
    fn refining_puts_the_mean_of_two_neighbours_between_them() {
        assert_eq!(refine(&[2.0, 4.0, 0.0], 2.0), [2.0, 3.0, 4.0, 2.0, 0.0, 0.0]);
    }

    #[test]
    fn a_hole_is_bridged() {
        let nan = f64::NAN;
        assert_eq!(refine(&[nan, 1.0, nan, nan, 4.0, nan], 1.0), [1.0, 1.0, 2.0, 3.0, 4.0, 4.0]);
    }

    #[test]
    fn the_background_is_the_mean_of_what_lies_below_the_mean() {
        assert_eq!(background(&[vec![1.0, 3.0, 20.0], vec![2.0, 30.0]]), 2.0);
        assert_eq!(background(&[vec![0.0; 3]]), 0.0);
    }
}
