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
    let position = q.clamp(0.0, 1.0) * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (sorted[position.floor() as usize], sorted[position.ceil() as usize]);
    Some(below + (above - below) * position.fract())
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
}
