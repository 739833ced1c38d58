//! How much a series resembles itself some steps later.

use crate::dft::correlate_with_itself;
use crate::stats::mean;

/// Returns `ρ(k) = Σ (xᵢ − x̄)(xᵢ₊ₖ − x̄) / Σ (xᵢ − x̄)²` for `k = 0..n`, in `O(n log n)`.
///
/// The biased form (Box & Jenkins): fewer terms at long lags, so the value falls towards 0 there. A constant series
/// has no correlation: returns zeros.
pub fn autocorrelation(x: &[f64]) -> Vec<f64> {
    autocorrelation_and_powers(x).0
}

/// Returns [`autocorrelation`], and the powers `|X_k|² / n` of the series less its mean, which nearly come for free.
pub fn autocorrelation_and_powers(x: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let mean = mean(x);
    let (mut correlation, powers) = correlate_with_itself(x.iter().map(|value| value - mean).collect());
    normalise(&mut correlation, x);
    (correlation, powers)
}

/// The slow twin of [`autocorrelation`], `O(n²)`: the definition, for tests and for teaching.
pub fn autocorrelation_by_definition(x: &[f64]) -> Vec<f64> {
    let mean = mean(x);
    let mut correlation: Vec<f64> =
        (0..x.len()).map(|k| x.iter().zip(&x[k..]).map(|(a, b)| (a - mean) * (b - mean)).sum()).collect();
    normalise(&mut correlation, x);
    correlation
}

fn normalise(correlation: &mut [f64], x: &[f64]) {
    let Some(&power) = correlation.first() else { return };
    // What is left of a constant series after taking away its mean is rounding, not a signal.
    let rounding: f64 = x.iter().map(|value| (value * f64::EPSILON).powi(2)).sum();
    let scale = if power > 16.0 * rounding && power > 0.0 { 1.0 / power } else { 0.0 };
    for value in correlation {
        *value *= scale;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_fast_form_equals_the_definition(x in prop::collection::vec(-1e3..1e3f64, 1..150)) {
            for (fast, slow) in autocorrelation(&x).iter().zip(autocorrelation_by_definition(&x)) {
                prop_assert!((fast - slow).abs() < 1e-9);
            }
        }
    }

    proptest! {
        /// Of lengths that are padded to twice as much, and of others.
        #[test]
        fn the_powers_are_those_of_the_series_less_its_mean(
            x in prop_oneof![prop::collection::vec(-1e3..1e3f64, 64), prop::collection::vec(-1e3..1e3f64, 1..150)],
        ) {
            let mean = mean(&x);
            let centred: Vec<f64> = x.iter().map(|value| value - mean).collect();
            let (_, powers) = autocorrelation_and_powers(&x);
            let expected = crate::spectrum(&centred).powers();
            prop_assert_eq!(powers.len(), expected.len());
            for (power, expected) in powers.iter().zip(&expected) {
                prop_assert!((power - expected).abs() < 1e-6 * (1.0 + expected));
            }
        }
    }

    #[test]
    fn a_constant_series_has_no_correlation() {
        assert_eq!(autocorrelation(&[0.1; 7]), [0.0; 7]);
    }
}
