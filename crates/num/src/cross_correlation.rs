//! How much one series resembles another some steps later.

use crate::dft::correlate;

/// Returns the lag at which two series resemble each other most, and how much: the largest of [`cross_correlation`] in
/// size of the lag's order (of equal ones the smallest lag); `None` if either series is empty or all zero.
pub fn largest_cross_correlation(a: &[f64], b: &[f64]) -> Option<(isize, f64)> {
    let correlation = cross_correlation(a, b)?;
    let first_lag = 1 - a.len() as isize;
    correlation
        .into_iter()
        .enumerate()
        .map(|(i, value)| (first_lag + i as isize, value))
        .max_by(|x, y| x.1.total_cmp(&y.1).then(y.0.abs().cmp(&x.0.abs())))
}

/// Returns `Σ aᵢbᵢ₊ₖ / √(Σ aᵢ² Σ bᵢ²)` for the lags `k = 1 − |a| … |b| − 1`, in `O(n log n)`.
///
/// Not centred: two series that are nowhere negative have values in [0, 1], and 1 means that they are the same but for a
/// factor. `None` if either series is empty or all zero.
pub fn cross_correlation(a: &[f64], b: &[f64]) -> Option<Vec<f64>> {
    let scale = scale(a, b)?;
    Some(correlate(a, b).into_iter().map(|sum| sum * scale).collect())
}

/// The slow twin of [`cross_correlation`], `O(n²)`: the definition, for tests and for teaching.
pub fn cross_correlation_by_definition(a: &[f64], b: &[f64]) -> Option<Vec<f64>> {
    let scale = scale(a, b)?;
    let at = |lag: isize| -> f64 {
        let other = |i: usize| usize::try_from(i as isize + lag).ok().and_then(|j| b.get(j));
        a.iter().enumerate().filter_map(|(i, x)| Some(x * other(i)?)).sum()
    };
    Some((1 - a.len() as isize..b.len() as isize).map(|lag| at(lag) * scale).collect())
}

fn scale(a: &[f64], b: &[f64]) -> Option<f64> {
    let power = |x: &[f64]| x.iter().map(|value| value * value).sum::<f64>();
    let product = power(a).sqrt() * power(b).sqrt();
    (product > 0.0).then(|| 1.0 / product)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_series_that_comes_later_is_found_at_its_lag() {
        let (lag, value) =
            largest_cross_correlation(&[0.0, 2.0, 1.0, 0.0], &[0.0, 0.0, 0.0, 4.0, 2.0]).unwrap();
        assert_eq!(lag, 2);
        assert!((value - 1.0).abs() < 1e-12);
    }

    #[test]
    fn silence_resembles_nothing() {
        assert_eq!(cross_correlation(&[0.0, 0.0], &[1.0]), None);
        assert_eq!(largest_cross_correlation(&[], &[1.0]), None);
    }

    proptest! {
        #[test]
        fn the_fast_form_equals_the_definition(
            a in prop::collection::vec(-1e3..1e3f64, 1..80),
            b in prop::collection::vec(-1e3..1e3f64, 1..80),
        ) {
            let (fast, slow) = (cross_correlation(&a, &b), cross_correlation_by_definition(&a, &b));
            prop_assert_eq!(fast.is_some(), slow.is_some());
            for (fast, slow) in fast.into_iter().flatten().zip(slow.into_iter().flatten()) {
                prop_assert!((fast - slow).abs() < 1e-9);
            }
        }
    }
}
