//! A second opinion that does not know the spectrum: distances between the peaks of the autocorrelation.

use iotide_num::{
    PeakConditions, autocorrelation, find_peaks, mean, population_std, weighted_mean, weighted_std,
};

use super::AutocorrelationEstimate;

/// Peaks of the autocorrelation below this are noise (section II-C of the FTIO paper).
const LEAST_CORRELATION: f64 = 0.15;

/// Distances further from their weighted mean than this many weighted standard deviations are outliers. The paper names
/// no number; this is the one of the authors' program.
const MOST_DEVIATIONS: f64 = 1.0;

/// Returns the period the autocorrelation of `x` suggests, or `None` if it has less than two peaks.
///
/// Distances between neighbouring peaks are candidates; each weighs as much as its two peaks are high on average, and
/// outliers are dropped by the weighted Z-score. What remains gives the period (mean) and the confidence `1 − σ/mean`.
pub(super) fn estimate(x: &[f64], rate_hz: f64) -> Option<AutocorrelationEstimate> {
    let conditions = PeakConditions { height: Some(LEAST_CORRELATION), ..PeakConditions::default() };
    let peaks = find_peaks(&autocorrelation(x), &conditions);
    let (distances_s, weights): (Vec<f64>, Vec<f64>) = peaks
        .windows(2)
        .map(|pair| {
            let distance_s = (pair[1].index - pair[0].index) as f64 / rate_hz;
            (distance_s, f64::midpoint(pair[0].height, pair[1].height))
        })
        .unzip();
    let candidates_s = without_outliers(&distances_s, &weights)?;
    let period_s = mean(&candidates_s);
    Some(AutocorrelationEstimate { period_s, confidence: agreement(&candidates_s), candidates_s })
}

/// Returns how much the autocorrelation's candidates and the spectrum's period are alike: the paper's `c_s`.
pub(super) fn similarity(estimate: &AutocorrelationEstimate, period_s: f64) -> f64 {
    let mut all_s = estimate.candidates_s.clone();
    all_s.push(period_s);
    agreement(&all_s)
}

/// `1 − σ/mean`, not below 0.
fn agreement(periods_s: &[f64]) -> f64 {
    (1.0 - population_std(periods_s) / mean(periods_s)).max(0.0)
}

fn without_outliers(distances: &[f64], weights: &[f64]) -> Option<Vec<f64>> {
    let (centre, spread) = (weighted_mean(distances, weights)?, weighted_std(distances, weights)?);
    // The squared scores average to 1, so never are all of them outliers; the margin keeps that true after rounding.
    let furthest = spread * MOST_DEVIATIONS * (1.0 + 1e-9) + centre * 1e-12;
    Some(distances.iter().copied().filter(|distance| (distance - centre).abs() <= furthest).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pulses(period: usize, n: usize) -> Vec<f64> {
        (0..n).map(|i| if i % period < 3 { 1.0 } else { 0.0 }).collect()
    }

    #[test]
    fn even_pulses_have_their_distance_as_period() {
        let estimate = estimate(&pulses(20, 200), 10.0).unwrap();
        assert!((estimate.period_s - 2.0).abs() < 1e-12);
        assert!((estimate.confidence - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_has_less_than_two_peaks_gives_no_estimate() {
        for x in [&[][..], &[1.0], &[1.0, 1.0, 1.0], &pulses(20, 30)] {
            assert_eq!(estimate(x, 1.0), None);
        }
    }

    #[test]
    fn one_odd_distance_is_dropped() {
        let kept = without_outliers(&[2.0, 2.1, 1.9, 5.0, 2.0], &[0.8, 0.7, 0.6, 0.2, 0.2]).unwrap();
        assert_eq!(kept, [2.0, 2.1, 1.9, 2.0]);
    }

    #[test]
    fn two_equal_weights_keep_both_distances() {
        assert_eq!(without_outliers(&[1.0, 3.0], &[0.3, 0.3]), Some(vec![1.0, 3.0]));
    }

    #[test]
    fn similarity_falls_as_the_spectrum_disagrees() {
        let estimate =
            AutocorrelationEstimate { period_s: 2.0, confidence: 1.0, candidates_s: vec![2.0, 2.0] };
        assert_eq!(similarity(&estimate, 2.0), 1.0);
        // {2, 2, 5}: the mean is 3, the deviation √2.
        assert!((similarity(&estimate, 5.0) - (1.0 - 2f64.sqrt() / 3.0)).abs() < 1e-12);
        assert_eq!(similarity(&estimate, 1e6), 0.0);
    }
}
