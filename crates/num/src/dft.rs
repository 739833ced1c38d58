//! The discrete Fourier transform of real samples.

use realfft::RealFftPlanner;
use realfft::num_complex::Complex64;

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

/// The transform itself; empty for no samples.
pub(crate) fn transform(mut x: Vec<f64>) -> Vec<Complex64> {
    if x.is_empty() {
        return Vec::new();
    }
    let forward = RealFftPlanner::<f64>::new().plan_fft_forward(x.len());
    let mut bins = forward.make_output_vec();
    forward.process(&mut x, &mut bins).expect("buffers were made by the plan");
    bins
}

/// Turns a one-sided spectrum of `n` samples back into them, times `n`.
pub(crate) fn inverse_transform(mut bins: Vec<Complex64>, n: usize) -> Vec<f64> {
    let inverse = RealFftPlanner::<f64>::new().plan_fft_inverse(n);
    let mut x = inverse.make_output_vec();
    // Rounding may leave the two purely real bins with a trace of an imaginary part, which the inverse refuses.
    bins[0].im = 0.0;
    if n.is_multiple_of(2) {
        bins[n / 2].im = 0.0;
    }
    inverse.process(&mut bins, &mut x).expect("buffers were made by the plan");
    x
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
    fn no_samples_have_no_spectrum() {
        assert!(spectrum(&[]).magnitudes.is_empty());
    }
}
