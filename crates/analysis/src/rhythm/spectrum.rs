//! Evidence of the whole signal about a beat: does it resemble itself one beat on, is its power on the beat's harmonics?

use iotide_num::autocorrelation_and_powers;

use super::steps::Steps;

/// A stretch of n phases is n beats long, so positions on the grid are often whole or half: they must not fall on either side
/// by rounding.
const NUDGE: f64 = 1e-3;

/// Sixteen bins would show eight harmonics; bursts that are shorter than a bin need not meet in the same one. No whole number: eight
/// beats must not lie now on this side of a power of two, now on the other.
const BINS_A_BEAT: f64 = 61.3;

/// A signal that varies by less than this share is constant.
const ROUNDING: f64 = 1e-9;

/// Autocorrelation and power spectrum of a signal on an even grid.
pub(crate) struct Spectrum {
    bin_s: f64,
    autocorrelation: Vec<f64>,
    powers: Vec<f64>,
}

impl Spectrum {
    /// A grid finer than this adds nothing to the first eight harmonics of a beat that matters.
    const MOST_BINS: usize = 1 << 13;

    pub(crate) fn of(steps: &Steps) -> Option<Self> {
        Self::in_at_most(Self::MOST_BINS, steps)
    }

    /// On no finer a grid than a beat of `beat_s` needs.
    pub(crate) fn fine_enough(steps: &Steps, beat_s: f64) -> Option<Self> {
        let n_bins = (BINS_A_BEAT * steps.duration_s() / beat_s) as usize;
        Self::in_at_most(n_bins.next_power_of_two().clamp(512, Self::MOST_BINS), steps)
    }

    fn in_at_most(most: usize, steps: &Steps) -> Option<Self> {
        let n = match steps.bin_s {
            Some(_) => steps.len().min(most),
            None => most,
        };
        let duration_s = steps.duration_s();
        if n < 8 || duration_s <= 0.0 {
            return None;
        }
        let bins = steps.in_bins(n);
        let (least, most) =
            bins.iter().fold((f64::INFINITY, 0.0f64), |(least, most), &bin| (least.min(bin), most.max(bin)));
        if most - least <= ROUNDING * most {
            return None; // nothing but rounding would resemble itself
        }
        let (autocorrelation, powers) = autocorrelation_and_powers(&bins);
        Some(Self { bin_s: duration_s / n as f64, autocorrelation, powers })
    }

    /// The highest autocorrelation within a tenth of the beat, corrected for the shorter overlap; `None` where the grid is too
    /// coarse for it.
    pub(crate) fn correlation_at(&self, beat_s: f64) -> Option<f64> {
        let beat = beat_s / self.bin_s;
        let n = self.autocorrelation.len();
        if beat < 6.0 || beat > 0.7 * n as f64 {
            return None;
        }
        let (from, to) = ((beat * 0.9 + NUDGE) as usize, (beat * 1.1 - NUDGE).ceil() as usize + 1);
        let highest = (from..to.min(n))
            .map(|lag| self.autocorrelation[lag] * n as f64 / (n - lag) as f64)
            .fold(0.0, f64::max);
        Some(highest.min(1.0))
    }

    /// The share of the power, up to the eighth harmonic, that lies on the harmonics, less what a flat spectrum puts there.
    pub(crate) fn comb(&self, beat_s: f64) -> Option<f64> {
        let beat = beat_s / self.bin_s;
        let n = (self.autocorrelation.len()) as f64;
        let step = n / beat;
        let n_harmonics = 8.0f64.min(((self.powers.len() - 1) as f64 / step + NUDGE).floor());
        if beat < 6.0 || n_harmonics < 1.0 || step < 2.5 {
            return None;
        }
        let reach = (step / 8.0 - NUDGE).max(1.0).round();
        let last = (((n_harmonics + 0.5) * step + NUDGE) as usize).min(self.powers.len() - 1);
        let first = (step / 2.0 - NUDGE).ceil() as usize;
        let total: f64 = self.powers[first..=last].iter().sum();
        if total <= 0.0 {
            return None;
        }
        let on: f64 = (1..=n_harmonics as usize)
            .map(|harmonic| {
                let centre = harmonic as f64 * step;
                let (from, to) = ((centre - reach).round() as usize, (centre + reach).round() as usize);
                self.powers[from.max(first)..=to.min(last)].iter().sum::<f64>()
            })
            .sum();
        let expected = (n_harmonics * (2.0 * reach + 1.0) / (last - first + 1) as f64).min(1.0);
        Some(on / total - expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rounding_leaves_of_a_constant_signal_has_no_spectrum() {
        let third = 1.0 / 3.0;
        let steps = |rates_bps: [f64; 3]| Steps {
            times_s: vec![0.0, third, 2.0 * third, 1.0],
            rates_bps: rates_bps.to_vec(),
            bin_s: None,
            resolution_s: 0.0,
            row_s: 0.0,
        };
        let rate_bps = 0.1 + 0.2;
        assert!(Spectrum::of(&steps([rate_bps, 0.3, rate_bps])).is_none());
        assert!(Spectrum::of(&steps([0.0; 3])).is_none());
        assert!(Spectrum::of(&steps([1.0, 2.0, 1.0])).is_some());
    }
}
