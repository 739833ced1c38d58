//! The discrete Fourier transform of real samples.

use std::cell::RefCell;
use std::sync::Arc;

use realfft::num_complex::Complex64;
use realfft::{RealFftPlanner, RealToComplex};

thread_local! {
    // Making a plan costs more than using it once, and the same few lengths come again and again.
    static PLANS: RefCell<RealFftPlanner<f64>> = RefCell::new(RealFftPlanner::new());
}

/// How to transform `n` samples.
fn forward(n: usize) -> Arc<dyn RealToComplex<f64>> {
    if n > LONGEST_KEPT {
        return RealFftPlanner::new().plan_fft_forward(n);
    }
    PLANS.with_borrow_mut(|plans| plans.plan_fft_forward(n))
}

/// Plans of more samples are not kept: they are as large as the samples.
const LONGEST_KEPT: usize = 1 << 15;

/// One-sided spectrum of `n` real samples: bin `k` lies at `k / n` cycles a sample, `k = 0..=n/2`.
#[derive(Clone, Debug, PartialEq)]
pub struct Spectrum {
    /// How many samples it was made of.
    pub n: usize,
    /// `|X_k|`.
    pub magnitudes: Vec<f64>,
    /// `arg X_k`, in radians.
    pub phases: Vec<f64>,
}

impl Spectrum {
    /// Power `p_k = |X_k|² / n`.
    pub fn powers(&self) -> Vec<f64> {
        self.magnitudes.iter().map(|x| x * x / self.n as f64).collect()
    }

    /// Frequency of bin `k`, in cycles a sample.
    pub fn frequency(&self, k: usize) -> f64 {
        k as f64 / self.n as f64
    }
}

/// Returns the one-sided spectrum `X_k = Σ xₙ exp(−2πi kn/N)` in `O(n log n)`.
pub fn spectrum(x: &[f64]) -> Spectrum {
    let bins = transform(x.to_vec());
    Spectrum {
        n: x.len(),
        magnitudes: bins.iter().map(|bin| bin.norm()).collect(),
        phases: bins.iter().map(|bin| bin.arg()).collect(),
    }
}

/// Returns [`Spectrum::powers`] alone, which costs less than the spectrum: no phases.
fn powers(x: &[f64]) -> Vec<f64> {
    transform(x.to_vec()).iter().map(|bin| bin.norm_sqr() / x.len() as f64).collect()
}

/// The transform itself; empty for no samples.
pub(crate) fn transform(mut x: Vec<f64>) -> Vec<Complex64> {
    if x.is_empty() {
        return Vec::new();
    }
    let forward = forward(x.len());
    let mut bins = forward.make_output_vec();
    forward.process(&mut x, &mut bins).expect("buffers were made by the plan");
    bins
}

/// Returns `Σ xᵢxᵢ₊ₖ` for `k = 0..n` (Wiener–Khinchin), and the powers `|X_k|² / n`; empty for no samples.
pub(crate) fn correlate_with_itself(mut x: Vec<f64>) -> (Vec<f64>, Vec<f64>) {
    let n = x.len();
    if n == 0 {
        return (Vec::new(), Vec::new());
    }
    // Twice as long, padded with zeros: the circular correlation of the transform becomes the linear one.
    let padded = fast_length(2 * n);
    let own_powers = (padded != 2 * n).then(|| powers(&x));
    x.resize(padded, 0.0);
    let forward = forward(padded);
    let mut bins = forward.make_output_vec();
    forward.process(&mut x, &mut bins).expect("buffers were made by the plan");
    // Every second bin of a series that is padded to twice its length is one of the series itself.
    let powers =
        own_powers.unwrap_or_else(|| bins.iter().step_by(2).map(|bin| bin.norm_sqr() / n as f64).collect());
    // Powers are real and even, so the forward transform turns them back as well: making a plan costs as much as using
    // it, and this way there is one.
    for (k, bin) in bins.iter().enumerate() {
        x[k] = bin.norm_sqr();
    }
    for k in 1..padded / 2 {
        x[padded - k] = x[k];
    }
    forward.process(&mut x, &mut bins).expect("buffers were made by the plan");
    let correlation = bins[..n].iter().map(|bin| bin.re / padded as f64).collect();
    (correlation, powers)
}

/// Returns `Σ aᵢbᵢ₊ₖ` for `k = 1 − |a| … |b| − 1`; empty if either is.
pub(crate) fn correlate(a: &[f64], b: &[f64]) -> Vec<f64> {
    if a.is_empty() || b.is_empty() {
        return Vec::new();
    }
    let n_lags = a.len() + b.len() - 1;
    // As long as there are lags, padded with zeros: the circular correlation of the transform becomes the linear one.
    let padded = fast_length(n_lags);
    let mut planner = RealFftPlanner::<f64>::new();
    let (forward, inverse) = (planner.plan_fft_forward(padded), planner.plan_fft_inverse(padded));
    let transformed = |values: &mut dyn Iterator<Item = f64>| {
        let mut x: Vec<f64> = values.collect();
        x.resize(padded, 0.0);
        let mut bins = forward.make_output_vec();
        forward.process(&mut x, &mut bins).expect("buffers were made by the plan");
        bins
    };
    // Correlating is convolving with the reversed series.
    let mut product = transformed(&mut a.iter().rev().copied());
    for (bin, other) in product.iter_mut().zip(transformed(&mut b.iter().copied())) {
        *bin *= other;
    }
    // Of real series these two bins are real; rounding must not say otherwise.
    for edge in [0, padded / 2] {
        product[edge].im = 0.0;
    }
    let mut sums = inverse.make_output_vec();
    inverse.process(&mut product, &mut sums).expect("buffers were made by the plan");
    sums[..n_lags].iter().map(|sum| sum / padded as f64).collect()
}

/// The shortest even length of at least `n` that is a power of two, or three or five times one: fast to transform.
fn fast_length(n: usize) -> usize {
    let power = n.next_power_of_two().max(8);
    [power / 8 * 5, power / 4 * 3]
        .into_iter()
        .find(|&length| length >= n && length.is_multiple_of(2))
        .unwrap_or(power)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The slow twin: the definition, term by term.
    fn spectrum_by_definition(x: &[f64]) -> Vec<(f64, f64)> {
        let n = x.len();
        (0..=n / 2)
            .map(|k| {
                x.iter().enumerate().fold((0.0, 0.0), |(re, im), (i, value)| {
                    let angle = -std::f64::consts::TAU * ((k * i) % n) as f64 / n as f64;
                    (re + value * angle.cos(), im + value * angle.sin())
                })
            })
            .collect()
    }

    proptest! {
        #[test]
        fn the_fast_transform_equals_its_definition(x in prop::collection::vec(-1e3..1e3f64, 1..200)) {
            let fast = spectrum(&x);
            for (k, (re, im)) in spectrum_by_definition(&x).into_iter().enumerate() {
                prop_assert!((fast.magnitudes[k] - re.hypot(im)).abs() < 1e-7);
                if re.hypot(im) > 1e-3 {
                    let gap = Complex64::from_polar(1.0, fast.phases[k]) - Complex64::from_polar(1.0, im.atan2(re));
                    prop_assert!(gap.norm() < 1e-6);
                }
            }
        }
    }

    #[test]
    fn fast_lengths_are_even_and_not_much_longer_than_asked() {
        for n in 1..3000 {
            let length = fast_length(n);
            assert!(
                length >= n && length.is_multiple_of(2) && (length <= n + n / 3 || length <= 8),
                "{n}: {length}"
            );
        }
        assert_eq!([9, 11, 13, 1 << 19].map(fast_length), [10, 12, 16, 1 << 19]);
    }

    #[test]
    fn no_samples_have_no_spectrum() {
        assert!(spectrum(&[]).magnitudes.is_empty());
    }
}
