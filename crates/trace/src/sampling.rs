//! Bandwidth at given times → bandwidth on an even grid.

use crate::{SampledSignal, Span, StepSignal};

/// How a signal is put on an even grid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Samples per second.
    pub rate_hz: f64,
    /// Meaning of a sample.
    pub kind: SamplingKind,
}

/// Meaning of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SamplingKind {
    /// The mean over its bin: the volume is kept, and sliding the grid by less than a sample changes little.
    #[default]
    Mean,
    /// The value at the instant its bin begins, as the FTIO paper has it. Bursts between two instants vanish.
    Hold,
}

/// Why a signal could not be sampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SamplingError {
    /// The window holds less than two samples at this rate.
    TooShort {
        /// Length of the window.
        duration_s: f64,
        /// The rate that was asked for.
        rate_hz: f64,
    },
    /// The window holds more samples than is sensible to keep.
    TooMany {
        /// How many it would be.
        n: f64,
        /// How many are allowed.
        most: usize,
    },
    /// The rate is not a positive number.
    NotARate(f64),
}

impl std::fmt::Display for SamplingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooShort { duration_s, rate_hz } => {
                // Four digits: more of a sum of times would be noise.
                let duration_s = format!("{duration_s:.3e}").parse().unwrap_or(*duration_s);
                write!(f, "{duration_s} s of I/O are less than two samples at {rate_hz} Hz")
            }
            Self::TooMany { n, most } => write!(f, "{n:.3e} samples are more than the {most} that fit"),
            Self::NotARate(rate_hz) => write!(f, "{rate_hz} Hz is not a sampling rate"),
        }
    }
}

impl std::error::Error for SamplingError {}

/// The most samples a signal may have: 512 MiB of `f64`.
const MOST_SAMPLES: usize = 1 << 26;

/// Returns the signal on an even grid that begins where `window` begins.
///
/// With [`SamplingKind::Mean`] the last bin may reach beyond the window (its value counts only what lies within), so
/// that `volume_bytes` is the volume of the window; with [`SamplingKind::Hold`] only whole bins are kept.
pub fn sample(signal: &StepSignal, window: Span, sampling: Sampling) -> Result<SampledSignal, SamplingError> {
    let Sampling { rate_hz, kind } = sampling;
    if !(rate_hz.is_finite() && rate_hz > 0.0) {
        return Err(SamplingError::NotARate(rate_hz));
    }
    let duration_s = window.duration_s();
    let n_exact = duration_s * rate_hz;
    if n_exact > MOST_SAMPLES as f64 {
        return Err(SamplingError::TooMany { n: n_exact, most: MOST_SAMPLES });
    }
    if n_exact.is_nan() || n_exact < 2.0 - 1e-6 {
        return Err(SamplingError::TooShort { duration_s, rate_hz });
    }
    let values = match kind {
        SamplingKind::Mean => bin_means(signal, window, rate_hz, (n_exact - 1e-6).ceil() as usize),
        SamplingKind::Hold => held_values(signal, window, rate_hz, (n_exact + 1e-6).floor() as usize),
    };
    Ok(SampledSignal { start_s: window.start.as_secs(), rate_hz, values, duration_s })
}

fn bin_means(signal: &StepSignal, window: Span, rate_hz: f64, n: usize) -> Vec<f64> {
    let mut values = vec![0.0; n];
    for (start, end, rate_bps) in signal.pieces() {
        if rate_bps == 0.0 || end <= window.start || start >= window.end {
            continue;
        }
        // Positions on the grid, in bins; the difference of means over bins is what a piece adds to each.
        let from = start.max(window.start).secs_since(window.start) * rate_hz;
        let to = (end.min(window.end).secs_since(window.start) * rate_hz).min(n as f64);
        let (left, right) = ((from as usize).min(n - 1), (to as usize).min(n - 1));
        if left == right {
            values[left] += rate_bps * (to - from);
        } else {
            values[left] += rate_bps * ((left + 1) as f64 - from);
            for value in &mut values[left + 1..right] {
                *value += rate_bps;
            }
            values[right] += rate_bps * (to - right as f64);
        }
    }
    values
}

fn held_values(signal: &StepSignal, window: Span, rate_hz: f64, n: usize) -> Vec<f64> {
    let (times, rates) = (signal.times(), signal.rates_bps());
    let mut next = 0;
    let mut value = 0.0;
    (0..n)
        .map(|i| {
            let instant = window.start.plus_nanos((i as f64 / rate_hz * 1e9).round() as i64);
            // Edges of bins and instants of the grid are each rounded to the nanosecond: what should meet may miss by one.
            while next < times.len() && times[next].as_nanos() <= instant.as_nanos() + 1 {
                value = rates[next];
                next += 1;
            }
            value
        })
        .collect()
}

/// Returns `|Σ xₙ/fs − V| / V`: how much of the window's volume the samples misstate.
pub fn abstraction_error(signal: &StepSignal, window: Span, sampled: &SampledSignal) -> Option<f64> {
    let volume = signal.volume_in(window);
    (volume > 0.0).then(|| (sampled.volume_bytes() - volume).abs() / volume)
}

/// Returns `∫ |x − xₙ| dt / V`: how far the samples, each held until the next, lie from the signal itself.
///
/// Unlike the [`abstraction_error`], too much here does not make up for too little there.
pub fn signal_error(signal: &StepSignal, window: Span, sampled: &SampledSignal) -> Option<f64> {
    let volume = signal.volume_in(window);
    if volume.is_nan() || volume <= 0.0 {
        return None;
    }
    let duration_s = window.duration_s();
    let mut walk = Walk { sampled, i: 0, at_s: 0.0, duration_s, missed: 0.0 };
    for (start, end, rate_bps) in signal.pieces() {
        if end > window.start && start < window.end {
            walk.until(start.secs_since(window.start), 0.0);
            walk.until(end.secs_since(window.start), rate_bps);
        }
    }
    walk.until(duration_s, 0.0);
    Some(walk.missed / volume)
}

/// Goes over a window, piece by piece and sample by sample at once.
struct Walk<'a> {
    sampled: &'a SampledSignal,
    i: usize,
    at_s: f64,
    duration_s: f64,
    missed: f64,
}

impl Walk<'_> {
    fn until(&mut self, until_s: f64, rate_bps: f64) {
        let until_s = until_s.min(self.duration_s);
        let step_s = 1.0 / self.sampled.rate_hz;
        while self.at_s < until_s {
            let (from_s, to_s) = (self.i as f64 * step_s, (self.i + 1) as f64 * step_s);
            // A last bin that reaches beyond the window holds what lies within.
            let within = (self.duration_s.min(to_s) - from_s) / step_s;
            let value = self.sampled.values.get(self.i).map_or(0.0, |value| value / within);
            let next_s = if self.i < self.sampled.values.len() { to_s.min(until_s) } else { until_s };
            self.missed += (rate_bps - value).abs() * (next_s - self.at_s).max(0.0);
            if to_s <= next_s {
                self.i += 1;
            }
            self.at_s = next_s.max(self.at_s);
        }
    }
}

/// Returns the shortest time between two changes of bandwidth in the window.
pub fn shortest_step_s(signal: &StepSignal, window: Span) -> Option<f64> {
    let within = signal.pieces().filter(|&(start, end, _)| end > window.start && start < window.end);
    within.map(|(start, end, _)| end.secs_since(start)).min_by(f64::total_cmp)
}

/// Returns a rate that shows the signal's finest steps where that costs little.
///
/// Twice the inverse of the shortest step (Nyquist), but at least 4096 samples over the window and at most 10 Hz —
/// unless the window is so short that even 2^14 samples need more than that, or so long that 10 Hz would be over 2^18.
/// A step of a nanosecond therefore asks for no more memory than any other.
pub fn automatic_rate_hz(signal: &StepSignal, window: Span) -> f64 {
    let duration_s = window.duration_s();
    let shortest = signal.pieces().min_by_key(|(start, end, _)| end.as_nanos() - start.as_nanos());
    let shortest_s = shortest.map_or(f64::INFINITY, |(start, end, _)| end.secs_since(start));
    let most = (10.0 * duration_s).clamp(16_384.0, 262_144.0);
    (2.0 / shortest_s).clamp(4096.0 / duration_s, most / duration_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;
    use proptest::prelude::*;

    fn step_signals() -> impl Strategy<Value = StepSignal> {
        prop::collection::vec((1..2_000_000_000i64, 0.0..1e9f64), 2..80).prop_map(|steps| {
            let mut at = 1_000_000_000;
            let (times, rates) = steps
                .into_iter()
                .map(|(length, rate)| {
                    let time = Timestamp::from_nanos_since_start(at);
                    at += length;
                    (time, rate)
                })
                .unzip();
            StepSignal::new(times, rates)
        })
    }

    proptest! {
        #[test]
        fn sampling_keeps_the_volume(signal in step_signals(), rate_hz in 0.5..2000.0f64) {
            let window = signal.span().unwrap();
            if let Ok(sampled) = sample(&signal, window, Sampling { rate_hz, kind: SamplingKind::Mean }) {
                let gap = (sampled.volume_bytes() - signal.volume_bytes()).abs() / signal.volume_bytes().max(1.0);
                prop_assert!(gap < 1e-9, "relative gap {gap}");
                prop_assert!(abstraction_error(&signal, window, &sampled).unwrap_or(0.0) < 1e-9);
            }
        }

        #[test]
        fn a_time_shift_changes_nothing_but_the_start(signal in step_signals(), shift in -1_000_000_000_000i64..1_000_000_000_000) {
            let shifted = StepSignal::new(
                signal.times().iter().map(|time| time.plus_nanos(shift)).collect(),
                signal.rates_bps().to_vec(),
            );
            let sampling = Sampling { rate_hz: 10.0, kind: SamplingKind::Mean };
            let here = sample(&signal, signal.span().unwrap(), sampling);
            let there = sample(&shifted, shifted.span().unwrap(), sampling);
            match (here, there) {
                (Ok(here), Ok(there)) => prop_assert_eq!(here.values, there.values),
                (here, there) => prop_assert_eq!(here.is_err(), there.is_err()),
            }
        }
    }

    fn two_steps() -> (StepSignal, Span) {
        let at = |secs| Timestamp::from_secs_since_start(secs).unwrap();
        let signal = StepSignal::new(vec![at(1.0), at(2.5), at(4.0)], vec![10.0, 30.0, 0.0]);
        let window = signal.span().unwrap();
        (signal, window)
    }

    #[test]
    fn the_mean_over_a_bin_and_the_value_at_its_start_differ() {
        let (signal, window) = two_steps();
        let sampled = |kind| sample(&signal, window, Sampling { rate_hz: 1.0, kind }).unwrap().values;
        assert_eq!(sampled(SamplingKind::Mean), [10.0, 20.0, 30.0]);
        assert_eq!(sampled(SamplingKind::Hold), [10.0, 10.0, 30.0]);
    }

    #[test]
    fn samples_that_miss_here_what_they_add_there_are_far_from_the_signal() {
        let at = |secs| Timestamp::from_secs_since_start(secs).unwrap();
        // Two bursts of half a second: one is held for a whole one, the other falls between two samples.
        let signal = StepSignal::new(
            vec![at(0.0), at(0.5), at(2.25), at(2.75), at(4.0), at(4.1)],
            vec![8.0, 0.0, 8.0, 0.0, 0.0, 0.0],
        );
        let window = Span { start: at(0.0), end: at(4.0) };
        let error_of = |kind| {
            let sampled = sample(&signal, window, Sampling { rate_hz: 1.0, kind }).unwrap();
            (
                abstraction_error(&signal, window, &sampled).unwrap(),
                signal_error(&signal, window, &sampled).unwrap(),
            )
        };
        assert_eq!(error_of(SamplingKind::Hold), (0.0, 1.0));
        assert_eq!(error_of(SamplingKind::Mean), (0.0, 1.0)); // 4 B/s for a second in place of 8 for half of it, twice
        let fine = sample(&signal, window, Sampling { rate_hz: 4.0, kind: SamplingKind::Hold }).unwrap();
        assert_eq!(signal_error(&signal, window, &fine), Some(0.0));
        assert_eq!(shortest_step_s(&signal, window), Some(0.5));
    }

    #[test]
    fn a_cut_last_bin_is_compared_with_what_lies_within() {
        let at = |secs| Timestamp::from_secs_since_start(secs).unwrap();
        let signal = StepSignal::new(vec![at(0.0), at(2.5)], vec![6.0, 0.0]);
        let window = signal.span().unwrap();
        let sampled = sample(&signal, window, Sampling { rate_hz: 1.0, kind: SamplingKind::Mean }).unwrap();
        assert!(signal_error(&signal, window, &sampled).unwrap() < 1e-12);
        let held = sample(&signal, window, Sampling { rate_hz: 1.0, kind: SamplingKind::Hold }).unwrap();
        assert!((signal_error(&signal, window, &held).unwrap() - 0.2).abs() < 1e-12); // the half second that is cut
    }

    #[test]
    fn bins_are_held_bin_by_bin_wherever_the_nanoseconds_are_rounded() {
        let width_s = 0.1 / 3.0;
        let at = |i: usize| Timestamp::from_secs_since_start(i as f64 * width_s).unwrap();
        let signal = StepSignal::new((7..400).map(at).collect(), (7..400).map(|i| i as f64).collect());
        let window = signal.span().unwrap();
        let sampling = Sampling { rate_hz: 1.0 / width_s, kind: SamplingKind::Hold };
        let sampled = sample(&signal, window, sampling).unwrap();
        assert!(
            sampled.values.iter().zip(7..399).all(|(&value, i)| value == f64::from(i)),
            "{:?}",
            sampled.values
        );
    }

    #[test]
    fn a_rate_that_makes_no_sense_is_refused() {
        let (signal, window) = two_steps();
        let refused =
            |rate_hz| sample(&signal, window, Sampling { rate_hz, kind: SamplingKind::Mean }).unwrap_err();
        assert!(matches!(refused(f64::NAN), SamplingError::NotARate(_)));
        assert!(matches!(refused(-1.0), SamplingError::NotARate(_)));
        assert!(matches!(refused(1e12), SamplingError::TooMany { .. }));
        assert!(matches!(refused(0.01), SamplingError::TooShort { .. }));
    }

    #[test]
    fn a_window_that_is_too_short_is_told_in_four_digits() {
        let short = |duration_s| SamplingError::TooShort { duration_s, rate_hz: 0.1 }.to_string();
        assert_eq!(short(0.49941393100000003), "0.4994 s of I/O are less than two samples at 0.1 Hz");
        assert_eq!(short(3.0), "3 s of I/O are less than two samples at 0.1 Hz");
    }

    #[test]
    fn a_step_of_a_nanosecond_does_not_ask_for_billions_of_samples() {
        let at = Timestamp::from_nanos_since_start;
        let signal = StepSignal::new(vec![at(0), at(1), at(60_000_000_000)], vec![1e9, 5.0, 0.0]);
        let window = signal.span().unwrap();
        assert!(automatic_rate_hz(&signal, window) * window.duration_s() <= 16_384.0 + 1e-6);
    }
}
