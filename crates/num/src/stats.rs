//! Means, spreads, quantiles.

use crate::student_t_quantile;

/// Returns the arithmetic mean, or 0 for no values.
pub fn mean(x: &[f64]) -> f64 {
    if x.is_empty() { 0.0 } else { x.iter().sum::<f64>() / x.len() as f64 }
}

/// Returns the standard deviation of the population (divide by `n`), or 0 for no values.
pub fn population_std(x: &[f64]) -> f64 {
    let centre = mean(x);
    mean(&x.iter().map(|value| (value - centre).powi(2)).collect::<Vec<_>>()).sqrt()
}

/// Returns the standard deviation over the mean, or `None` where the mean is not positive.
pub fn coefficient_of_variation(x: &[f64]) -> Option<f64> {
    let centre = mean(x);
    (centre > 0.0).then(|| population_std(x) / centre)
}

/// Returns half the width of the interval that holds the mean with this probability (Student, 1908), or `None` for fewer than two values.
pub fn mean_half_width(x: &[f64], confidence: f64) -> Option<f64> {
    let n = x.len() as f64;
    let centre = mean(x);
    let variance = x.iter().map(|value| (value - centre).powi(2)).sum::<f64>() / (n - 1.0);
    (x.len() > 1).then(|| student_t_quantile(0.5 * (1.0 + confidence), n - 1.0) * (variance / n).sqrt())
}

/// Returns the middle value, or `None` for no values.
pub fn median(x: &[f64]) -> Option<f64> {
    quantile(x, 0.5)
}

/// Returns the value below which a share `q` of the values lies, interpolated linearly (Hyndman & Fan, type 7), or
/// `None` for no values.
pub fn quantile(x: &[f64], q: f64) -> Option<f64> {
    let position = q.clamp(0.0, 1.0) * x.len().checked_sub(1)? as f64;
    // Two neighbours in order are all it takes, which is less work than the order of all.
    let mut values = x.to_vec();
    let (_, &mut below, rest) = values.select_nth_unstable_by(position as usize, f64::total_cmp);
    let above = if position.fract() > 0.0 { rest.iter().copied().min_by(f64::total_cmp) } else { None };
    Some(above.map_or(below, |above| below + (above - below) * position.fract()))
}

/// [`quantile`] of values that ascend already.
pub fn quantile_of_sorted(sorted: &[f64], q: f64) -> Option<f64> {
    let position = q.clamp(0.0, 1.0) * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    Some(below + (above - below) * position.fract())
}

/// Returns the [`quantile`]s of several series at each place, one series for each of `qs`, without the values that are NaN;
/// NaN where there is no other.
///
/// # Panics
/// If the series differ in length.
pub fn quantiles_across<const N: usize>(mut series: Vec<Vec<f64>>, qs: [f64; N]) -> [Vec<f64>; N] {
    let n = series.first().map_or(0, Vec::len);
    assert!(series.iter().all(|x| x.len() == n), "series of one length");
    // Where some value is not known the others have ranks of their own: these places are put right at the end.
    let mut is_known = vec![true; n];
    for x in &series {
        for (is_known, value) in is_known.iter_mut().zip(x) {
            *is_known &= !value.is_nan();
        }
    }
    let holes: Vec<(usize, [f64; N])> =
        (0..n).filter(|&i| !is_known[i]).map(|i| (i, quantiles_at(&series, i, qs))).collect();
    // Sorts all places at once: whole series are compared and exchanged, which the compiler makes vectors of. Of the order
    // only the lower ranks are wanted, up to the highest quantile.
    let Some(last) = series.len().checked_sub(1) else { return qs.map(|_| Vec::new()) };
    let position = |q: f64| q.clamp(0.0, 1.0) * last as f64;
    let highest = qs.iter().map(|&q| position(q).ceil() as usize).max().unwrap_or(0);
    for rank in 0..=highest {
        let (lower, others) = series.split_at_mut(rank + 1);
        for other in others {
            for (a, b) in lower[rank].iter_mut().zip(other) {
                (*a, *b) = if *b < *a { (*b, *a) } else { (*a, *b) };
            }
        }
    }
    let mut quantiles = qs.map(|q| {
        let (below, above) = (&series[position(q).floor() as usize], &series[position(q).ceil() as usize]);
        let fraction = position(q).fract();
        below.iter().zip(above).map(|(below, above)| below + (above - below) * fraction).collect::<Vec<_>>()
    });
    for (i, right) in holes {
        for (quantile, right) in quantiles.iter_mut().zip(right) {
            quantile[i] = right;
        }
    }
    quantiles
}

/// Returns [`quantiles_across`] at one place.
fn quantiles_at<const N: usize>(series: &[Vec<f64>], i: usize, qs: [f64; N]) -> [f64; N] {
    let mut column: Vec<f64> = series.iter().map(|x| x[i]).filter(|value| !value.is_nan()).collect();
    column.sort_unstable_by(f64::total_cmp);
    qs.map(|q| quantile_of_sorted(&column, q).unwrap_or(f64::NAN))
}

/// Returns the median distance from the median (MAD), or `None` for no values.
pub fn median_absolute_deviation(x: &[f64]) -> Option<f64> {
    let centre = median(x)?;
    median(&x.iter().map(|value| (value - centre).abs()).collect::<Vec<_>>())
}

/// Returns `Σ wᵢxᵢ / Σ wᵢ`, or `None` unless the weights add up to something positive.
///
/// # Panics
/// If there is not one weight for each value.
pub fn weighted_mean(x: &[f64], weights: &[f64]) -> Option<f64> {
    assert_eq!(x.len(), weights.len(), "one weight per value");
    let total: f64 = weights.iter().sum();
    (total > 0.0).then(|| x.iter().zip(weights).map(|(value, weight)| value * weight).sum::<f64>() / total)
}

/// Returns the standard deviation around the weighted mean, `√(Σ wᵢ(xᵢ − x̄)² / Σ wᵢ)`, or `None` unless the weights add
/// up to something positive.
///
/// # Panics
/// If there is not one weight for each value.
pub fn weighted_std(x: &[f64], weights: &[f64]) -> Option<f64> {
    let centre = weighted_mean(x, weights)?;
    let squares: Vec<f64> = x.iter().map(|value| (value - centre).powi(2)).collect();
    weighted_mean(&squares, weights).map(f64::sqrt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_interval_of_a_mean_is_students() {
        // Three degrees of freedom: 3.182 standard errors.
        let half = mean_half_width(&[-1.0, -0.5, 0.5, 1.0], 0.95).unwrap();
        assert!((half - 3.182_446 * (2.5f64 / 3.0 / 4.0).sqrt()).abs() < 1e-5, "{half}");
        assert_eq!(mean_half_width(&[5.0], 0.95), None);
        assert_eq!(mean_half_width(&[2.0, 2.0], 0.95), Some(0.0));
    }

    #[test]
    fn a_quantile_lies_between_its_neighbours() {
        assert_eq!(quantile(&[4.0, 1.0, 3.0, 2.0], 0.5), Some(2.5));
        assert_eq!(quantile(&[4.0, 1.0, 3.0, 2.0], 1.0), Some(4.0));
        assert_eq!(quantile(&[], 0.5), None);
    }

    proptest! {
        #[test]
        fn a_quantile_is_that_of_the_sorted_values(x in prop::collection::vec(-9.0..9.0f64, 1..40), q in 0.0..=1.0f64) {
            let mut sorted = x.clone();
            sorted.sort_unstable_by(f64::total_cmp);
            prop_assert_eq!(quantile(&x, q), quantile_of_sorted(&sorted, q));
        }

        #[test]
        fn quantiles_across_series_are_those_of_each_place(
            rows in prop::collection::vec(prop::collection::vec(prop::option::weighted(0.9, -9.0..9.0f64), 5), 1..12),
            qs in [0.0..=1.0f64, 0.0..=1.0f64],
        ) {
            let known = |value: Option<f64>| value.unwrap_or(f64::NAN);
            let rows: Vec<Vec<f64>> = rows.into_iter().map(|row| row.into_iter().map(known).collect()).collect();
            let [lows, highs] = quantiles_across(rows.clone(), qs);
            for (i, (low, high)) in lows.iter().zip(&highs).enumerate() {
                let by_place = quantiles_at(&rows, i, qs).map(f64::to_bits);
                prop_assert_eq!([low.to_bits(), high.to_bits()], by_place);
            }
        }
    }

    #[test]
    fn what_is_not_known_does_not_count_across_series() {
        let nan = f64::NAN;
        let [middle] = quantiles_across(vec![vec![1.0, nan, nan], vec![3.0, 5.0, nan]], [0.5]);
        assert_eq!(middle[..2], [2.0, 5.0]);
        assert!(middle[2].is_nan());
        assert_eq!(quantiles_across(Vec::new(), [0.5]), [Vec::new()]);
    }

    #[test]
    fn the_spread_of_a_mean_of_zero_is_undefined() {
        assert_eq!(coefficient_of_variation(&[0.0, 0.0]), None);
        assert_eq!(coefficient_of_variation(&[2.0, 4.0]), Some(1.0 / 3.0));
    }

    #[test]
    fn a_weight_of_two_counts_as_two_values() {
        let (once, weights) = ([1.0, 4.0], [2.0, 1.0]);
        let twice = [1.0, 1.0, 4.0];
        assert_eq!(weighted_mean(&once, &weights), Some(mean(&twice)));
        assert!((weighted_std(&once, &weights).unwrap() - population_std(&twice)).abs() < 1e-12);
    }

    #[test]
    fn weights_that_add_up_to_nothing_have_no_mean() {
        assert_eq!(weighted_mean(&[], &[]), None);
        assert_eq!(weighted_mean(&[1.0, 2.0], &[0.0, 0.0]), None);
        assert_eq!(weighted_std(&[1.0, 2.0], &[1.0, -1.0]), None);
    }

    #[test]
    fn half_of_the_values_lie_within_the_median_deviation() {
        assert_eq!(median_absolute_deviation(&[1.0, 1.0, 2.0, 2.0, 4.0, 6.0, 9.0]), Some(1.0));
        assert_eq!(median_absolute_deviation(&[]), None);
    }
}
