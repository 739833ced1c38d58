//! Means, spreads, quantiles.

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

/// Returns the middle value, or `None` for no values.
pub fn median(x: &[f64]) -> Option<f64> {
    quantile(x, 0.5)
}

/// Returns the value below which a share `q` of the values lies, interpolated linearly (Hyndman & Fan, type 7), or
/// `None` for no values.
pub fn quantile(x: &[f64], q: f64) -> Option<f64> {
    let mut sorted = x.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    quantile_of_sorted(&sorted, q)
}

/// [`quantile`] of values that ascend already.
pub fn quantile_of_sorted(sorted: &[f64], q: f64) -> Option<f64> {
    let position = q.clamp(0.0, 1.0) * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    Some(below + (above - below) * position.fract())
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

    #[test]
    fn a_quantile_lies_between_its_neighbours() {
        assert_eq!(quantile(&[4.0, 1.0, 3.0, 2.0], 0.5), Some(2.5));
        assert_eq!(quantile(&[4.0, 1.0, 3.0, 2.0], 1.0), Some(4.0));
        assert_eq!(quantile(&[], 0.5), None);
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
