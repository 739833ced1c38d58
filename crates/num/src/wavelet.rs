//! The discrete Meyer wavelet: what is left of a series without its fine detail.

use std::f64::consts::{PI, SQRT_2};
use std::sync::OnceLock;

/// How far the low-pass filter reaches to either side: 61 taps, and one of zero beside them, are the 62 of the usual tables.
const REACH: usize = 30;

/// Returns the low-pass filter of the discrete Meyer wavelet, taps −30 to 30 (symmetric, `Σ h = √2`).
///
/// From its definition in the frequency domain (Meyer, 1990; Daubechies, 1992): the filter passes everything up to a
/// sixth of the sampling rate, nothing from a third on, and between goes along `cos(π/2 · ν(…))` with
/// `ν(x) = x⁴ (35 − 84x + 70x² − 20x³)`. Its taps are the Fourier coefficients of that, cut off where they are small.
pub fn meyer_low_pass() -> [f64; 2 * REACH + 1] {
    static TAPS: OnceLock<[f64; 2 * REACH + 1]> = OnceLock::new();
    *TAPS.get_or_init(make_low_pass)
}

fn make_low_pass() -> [f64; 2 * REACH + 1] {
    // The integrand is smooth and even, so the trapezoid rule over the whole circle converges faster than any power.
    const N_STEPS: usize = 512;
    let mut taps = [0.0; 2 * REACH + 1];
    for (i, tap) in taps.iter_mut().enumerate() {
        let n = i as f64 - REACH as f64;
        let sum: f64 = (0..N_STEPS)
            .map(|step| {
                let omega = PI * (2.0 * step as f64 / N_STEPS as f64 - 1.0);
                meyer_response(omega) * (omega * n).cos()
            })
            .sum();
        *tap = sum / N_STEPS as f64;
    }
    // What was cut off must not change the mean of a series.
    let sum: f64 = taps.iter().sum();
    taps.map(|tap| tap * SQRT_2 / sum)
}

/// `|H(ω)| / √2` for |ω| ≤ π.
fn meyer_response(omega: f64) -> f64 {
    let x = 3.0 * omega.abs() / PI - 1.0;
    let nu = |x: f64| x.powi(4) * (35.0 - 84.0 * x + 70.0 * x * x - 20.0 * x.powi(3));
    match x {
        x if x <= 0.0 => 1.0,
        x if x >= 1.0 => 0.0,
        x => (PI / 2.0 * nu(x)).cos(),
    }
}

/// Returns the low-frequency part of a series: decomposed `level` times with the discrete Meyer wavelet, and put together
/// again with all details at zero.
///
/// Beyond its ends the series is taken to go on mirrored (`… x₁ x₀ | x₀ x₁ …`). Level 0 is the series itself.
pub fn meyer_approximation(x: &[f64], level: usize) -> Vec<f64> {
    if level == 0 || x.is_empty() {
        return x.to_vec();
    }
    let taps = meyer_low_pass();
    let (coarse, first) = halve(x, &taps);
    let coarse = meyer_approximation(&coarse, level - 1);
    double(&coarse, first, x.len(), &taps)
}

/// Every second value of the filtered series, with those beyond the ends that [`double`] needs; and the place of the first.
fn halve(x: &[f64], taps: &[f64]) -> (Vec<f64>, isize) {
    let reach = REACH as isize;
    let first = -reach / 2;
    let last = (x.len() as isize - 1 + reach) / 2;
    let extended: Vec<f64> = (2 * first - reach..=2 * last + reach).map(|place| mirrored(x, place)).collect();
    let filtered = |k: usize| taps.iter().zip(&extended[2 * k..]).map(|(tap, value)| tap * value).sum();
    ((0..=(last - first) as usize).map(filtered).collect(), first)
}

/// `n` values out of half as many.
fn double(coarse: &[f64], first: isize, n: usize, taps: &[f64]) -> Vec<f64> {
    let reach = REACH as isize;
    (0..n as isize)
        .map(|m| {
            // Place 2k is reached by tap m − 2k.
            let from = (m - reach).div_euclid(2) + (m - reach).rem_euclid(2);
            (from..=(m + reach).div_euclid(2))
                .filter_map(|k| {
                    let value = coarse.get(usize::try_from(k - first).ok()?)?;
                    Some(value * taps[(m - 2 * k + reach) as usize])
                })
                .sum()
        })
        .collect()
}

/// The series mirrored at its ends, over and over.
fn mirrored(x: &[f64], place: isize) -> f64 {
    let n = x.len() as isize;
    let inner = place.rem_euclid(2 * n);
    x[if inner < n { inner } else { 2 * n - 1 - inner } as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_filter_is_symmetric_and_nearly_orthogonal_to_its_even_shifts() {
        let taps = meyer_low_pass();
        for i in 0..taps.len() {
            assert!((taps[i] - taps[taps.len() - 1 - i]).abs() < 1e-15);
        }
        for shift in 0..10 {
            let product: f64 = taps.iter().zip(&taps[2 * shift..]).map(|(a, b)| a * b).sum();
            let expected = if shift == 0 { 1.0 } else { 0.0 };
            assert!((product - expected).abs() < 2e-4, "shift {shift}: {product}");
        }
    }

    #[test]
    fn the_taps_are_the_fourier_coefficients_of_the_response() {
        // The slow twin: the integral by the midpoint rule, a hundred thousand steps.
        let by_definition = |n: f64| {
            let steps = 100_000;
            let width = PI / steps as f64;
            let middle = |i: usize| (i as f64 + 0.5) * width;
            (0..steps).map(|i| meyer_response(middle(i)) * (middle(i) * n).cos()).sum::<f64>() * width / PI
                * SQRT_2
        };
        let taps = meyer_low_pass();
        for n in [0, 1, 2, 7, 30] {
            assert!((taps[REACH + n] - by_definition(n as f64)).abs() < 1e-4, "tap {n}");
        }
    }

    #[test]
    fn slow_waves_pass_and_fast_ones_do_not() {
        let wave = |period: f64| -> Vec<f64> {
            (0..600).map(|i| (std::f64::consts::TAU * i as f64 / period).cos()).collect()
        };
        for (level, period, passes) in
            [(1, 7.0, true), (1, 2.9, false), (2, 13.0, true), (2, 5.8, false), (3, 26.0, true)]
        {
            let x = wave(period);
            let smooth = meyer_approximation(&x, level);
            for i in 100..500 {
                let expected = if passes { x[i] } else { 0.0 };
                assert!((smooth[i] - expected).abs() < 0.01, "level {level}, period {period}, at {i}");
            }
        }
    }

    #[test]
    fn the_details_are_what_the_approximation_leaves_out() {
        // The other half of the transform, term by term: g_n = (−1)ⁿ h_{1−n}.
        let x: Vec<f64> = (0..200).map(|i| ((i * i) % 37) as f64).collect();
        let taps = meyer_low_pass();
        let h = |n: isize| {
            taps.get(usize::try_from(n + REACH as isize).unwrap_or(usize::MAX)).copied().unwrap_or(0.0)
        };
        let g = |n: isize| if n.rem_euclid(2) == 0 { h(1 - n) } else { -h(1 - n) };
        let coefficient = |k: isize| (-40..=40).map(|n| g(n) * mirrored(&x, 2 * k + n)).sum::<f64>();
        let details: Vec<f64> = (-40..160).map(coefficient).collect();
        let low = meyer_approximation(&x, 1);
        for m in 80..120isize {
            let detail: f64 = (-40..160).map(|k| g(m - 2 * k) * details[(k + 40) as usize]).sum();
            let whole = low[m as usize] + detail;
            assert!((whole - x[m as usize]).abs() < 0.02, "{m}: {whole} {}", x[m as usize]);
        }
    }

    proptest! {
        #[test]
        fn a_constant_stays_whatever_its_length(value in -1e3..1e3f64, n in 1usize..200, level in 0usize..4) {
            for smooth in meyer_approximation(&vec![value; n], level) {
                prop_assert!((smooth - value).abs() < 2e-3 * value.abs().max(1.0));
            }
        }
    }
}
