//! A bandwidth that hardly varies.

use iotide_num::{mean, population_std};
use iotide_trace::SampledSignal;

/// Up to this variation (standard deviation over mean) a bandwidth is steady. Bursts with pauses as long as themselves
/// have 1, a sine that reaches 0 has 0.7.
const STEADY: f64 = 0.25;

/// How much of the time bytes move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stream {
    /// Share of the time in which they do.
    pub(crate) active_ratio: f64,
    /// The mean bandwidth, if it hardly varies.
    pub(crate) steady_bps: Option<f64>,
}

impl Stream {
    /// `None` without samples.
    pub(crate) fn of(signal: &SampledSignal) -> Option<Self> {
        // The last bin may reach beyond the end: its value is no bandwidth.
        let n = if signal.n_whole() > 0 { signal.n_whole() } else { signal.values.len() };
        let values = &signal.values[..n];
        if values.is_empty() {
            return None;
        }
        let n_active = values.iter().filter(|&&value| value > 0.0).count();
        let bps = mean(values);
        let is_steady = bps > 0.0 && population_std(values) <= STEADY * bps;
        Some(Self {
            active_ratio: n_active as f64 / n as f64,
            steady_bps: is_steady
                .then(|| signal.values.iter().sum::<f64>() / signal.rate_hz / signal.duration_s),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> Stream {
        let duration_s = values.len() as f64;
        Stream::of(&SampledSignal { start_s: 0.0, rate_hz: 1.0, values: values.to_vec(), duration_s })
            .unwrap()
    }

    #[test]
    fn a_constant_bandwidth_is_steady_and_bursts_are_not() {
        assert_eq!(of(&[2.0; 10]), Stream { active_ratio: 1.0, steady_bps: Some(2.0) });
        assert_eq!(of(&[2.0, 0.0, 2.0, 0.0]), Stream { active_ratio: 0.5, steady_bps: None });
        assert_eq!(of(&[0.0, 0.0]), Stream { active_ratio: 0.0, steady_bps: None });
        assert_eq!(of(&[1.9, 2.1, 2.0, 2.0]).steady_bps, Some(2.0));
    }
}
