//! How evenly the periods of a signal resemble each other (section II-C of the FTIO paper).

use iotide_num::{mean, population_std};
use iotide_trace::SampledSignal;

use crate::Phase;
use crate::substantial::{Piece, Substantial};

/// Returns the scores of a signal for a period.
///
/// The paper cuts the trace into sub-traces as long as the period. Its end, where it is shorter than a period, belongs
/// to none; a sample that two sub-traces share is divided between them. A period shorter than two samples cannot be
/// seen in the signal, and one longer than the signal has no sub-trace: the deviations are then absent.
pub fn score(signal: &SampledSignal, period_s: Option<f64>) -> Scores {
    score_above(signal, period_s, None)
}

/// Returns the same with what exceeds `substantial_bps` as substantial I/O; the paper suggests a threshold of the system.
pub fn score_above(signal: &SampledSignal, period_s: Option<f64>, substantial_bps: Option<f64>) -> Scores {
    let parts = Substantial::of(signal, substantial_bps);
    let io_time_ratio = parts.time_ratio();
    let Substantial { io_bytes, io_time_s, .. } = parts;
    let mut scores = Scores {
        io_time_ratio,
        io_bandwidth_bps: (io_time_s > 0.0).then(|| io_bytes / io_time_s),
        ..Scores::default()
    };
    let period_s =
        period_s.filter(|period_s| *period_s * signal.rate_hz >= 2.0 - 1e-9 && period_s.is_finite());
    let (Some(period_s), Some(io_time_ratio)) = (period_s, io_time_ratio) else { return scores };

    scores.bytes_per_period = Some(io_bytes / parts.duration_s * period_s);
    if let Some(sigma_vol) = relative_spread(&per_period(&parts, period_s, |piece| piece.bytes)) {
        let times =
            per_period(&parts, period_s, |piece| if piece.is_substantial { piece.duration_s } else { 0.0 });
        let squares: Vec<f64> =
            times.iter().map(|time_s| (time_s / period_s - io_time_ratio).powi(2)).collect();
        scores.sigma_time = Some(mean(&squares).sqrt());
        scores.set_sigma_vol(sigma_vol);
    }
    scores
}

/// Returns the standard deviation over the largest value; `None` if nothing is above 0.
fn relative_spread(volumes: &[f64]) -> Option<f64> {
    let largest = volumes.iter().copied().fold(0.0, f64::max);
    let shares: Vec<f64> = volumes.iter().map(|volume| volume / largest).collect();
    (largest > 0.0).then(|| population_std(&shares))
}

/// The paper's characterisation of a signal; what needs a period is absent without one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scores {
    /// Standard deviation of the volume a phase moves, over the largest: the paper's `σ_vol`. Without phases it is that
    /// of the periods.
    pub sigma_vol: Option<f64>,
    /// Standard deviation of the share of a period spent on substantial I/O: the paper's `σ_time`.
    pub sigma_time: Option<f64>,
    /// `1 − sigma_vol − sigma_time`, not below 0.
    pub periodicity: Option<f64>,
    /// Share of the time with more than the mean bandwidth, or the threshold given: the paper's `R_IO`; 1 for a constant
    /// signal.
    pub io_time_ratio: Option<f64>,
    /// Mean bandwidth during that time, the paper's `B_IO`; absent if there is no such time.
    pub io_bandwidth_bps: Option<f64>,
    /// Bytes a period moves during that time: the paper's `V(S)/(L·f)`.
    pub bytes_per_period: Option<f64>,
}

impl Scores {
    /// Takes the spread of volumes from the phases of the period rather than from sub-traces.
    ///
    /// Sub-traces are cut blindly: a phase that lies on a border is divided, and equal phases seem to differ.
    pub(crate) fn of_phases(mut self, phases: &[Phase]) -> Self {
        let volumes: Vec<f64> = phases.iter().map(|phase| phase.bytes).collect();
        if let Some(sigma_vol) = relative_spread(&volumes).filter(|_| phases.len() > 1) {
            self.set_sigma_vol(sigma_vol);
        }
        self
    }

    fn set_sigma_vol(&mut self, sigma_vol: f64) {
        self.sigma_vol = Some(sigma_vol);
        self.periodicity = self.sigma_time.map(|sigma_time| (1.0 - sigma_vol - sigma_time).clamp(0.0, 1.0));
    }
}

/// Adds up something over each whole period; a piece on the border gives each side its part.
fn per_period(parts: &Substantial, period_s: f64, of: impl Fn(&Piece) -> f64) -> Vec<f64> {
    // A signal of exactly three periods has three, whatever the last digit of the quotient says.
    let n_periods = (parts.duration_s / period_s + 1e-9).floor() as usize;
    let mut sums = vec![0.0; n_periods];
    let (mut i, mut from_s) = (0, 0.0);
    for piece in parts.pieces() {
        let border_s = (i + 1) as f64 * period_s;
        let to_s = from_s + piece.duration_s;
        let amount = of(&piece);
        // A piece is at most half as long as a period, so it has parts in two of them at most.
        let share = if to_s < border_s { 1.0 } else { (border_s - from_s) / piece.duration_s };
        if let Some(sum) = sums.get_mut(i) {
            *sum += amount * share;
        }
        if to_s >= border_s {
            i += 1;
            if let Some(sum) = sums.get_mut(i) {
                *sum += amount * (1.0 - share);
            }
        }
        from_s = to_s;
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn signal(values: &[f64]) -> SampledSignal {
        SampledSignal { start_s: 7.0, rate_hz: 1.0, values: values.to_vec(), duration_s: values.len() as f64 }
    }

    #[test]
    fn phases_alike_are_alike_wherever_the_periods_are_cut() {
        // A cut every 4 s goes through the phases, which last from 3 s to 5 s.
        let signal = signal(&[0.0, 0.0, 0.0, 6.0, 2.0, 0.0, 0.0, 6.0, 2.0, 0.0, 0.0, 6.0]);
        let phase = |start_s, bytes| Phase { start_s, end_s: start_s + 2.0, bytes };
        let cut = score(&signal, Some(4.0));
        assert!(cut.sigma_vol.unwrap() > 0.0);
        let alike = cut.of_phases(&[phase(3.0, 8.0), phase(7.0, 8.0)]);
        assert_eq!((alike.sigma_vol, alike.sigma_time), (Some(0.0), cut.sigma_time));
        assert_eq!(alike.periodicity, Some(1.0 - cut.sigma_time.unwrap()));
        assert_eq!(cut.of_phases(&[phase(3.0, 8.0), phase(7.0, 4.0)]).sigma_vol, Some(0.25));
        assert_eq!(cut.of_phases(&[phase(3.0, 8.0)]), cut);
    }

    #[test]
    fn equal_periods_have_no_deviation() {
        let scores = score(&signal(&[6.0, 2.0, 0.0, 0.0].repeat(5)), Some(4.0));
        assert_eq!(scores.sigma_vol, Some(0.0));
        assert_eq!(scores.sigma_time, Some(0.0));
        assert_eq!(scores.periodicity, Some(1.0));
        // The mean is 2, and 2 is not more than that.
        assert_eq!(scores.io_time_ratio, Some(0.25));
        assert_eq!(scores.io_bandwidth_bps, Some(6.0));
        assert_eq!(scores.bytes_per_period, Some(6.0));
    }

    #[test]
    fn the_deviations_are_those_of_the_paper() {
        // V = 12 and L = 6, so the threshold is 2: one and two samples above it, R_IO = 3/6.
        let scores = score(&signal(&[4.0, 0.0, 0.0, 4.0, 4.0, 0.0]), Some(3.0));
        assert_eq!(scores.sigma_vol, Some(0.25)); // of {4/8, 8/8}
        assert!((scores.sigma_time.unwrap() - 1.0 / 6.0).abs() < 1e-12); // of {1/3, 2/3} around 1/2
        assert!((scores.periodicity.unwrap() - (1.0 - 0.25 - 1.0 / 6.0)).abs() < 1e-12);
        assert_eq!(scores.bytes_per_period, Some(6.0)); // V(S) = 12 over two periods
    }

    #[test]
    fn a_sample_on_the_border_of_two_periods_is_divided() {
        let scores = score(&signal(&[2.0, 0.0, 2.0, 0.0, 2.0]), Some(2.5));
        assert!(scores.sigma_vol.unwrap() < 1e-12);
    }

    #[test]
    fn a_threshold_of_the_system_may_take_the_place_of_the_mean() {
        let signal = signal(&[6.0, 2.0, 0.0, 0.0].repeat(5));
        let above = |bps| score_above(&signal, Some(4.0), Some(bps));
        assert_eq!(above(1.0).io_time_ratio, Some(0.5));
        assert_eq!(above(1.0).io_bandwidth_bps, Some(4.0));
        assert_eq!(above(1.0).bytes_per_period, Some(8.0));
        assert_eq!(above(2.0), score(&signal, Some(4.0)));
        assert_eq!(above(7.0).io_time_ratio, Some(0.0));
    }

    #[test]
    fn without_a_period_only_what_needs_none_is_there() {
        let scores = score(&signal(&[4.0, 0.0]), None);
        let expected = Scores { io_time_ratio: Some(0.5), io_bandwidth_bps: Some(4.0), ..Scores::default() };
        assert_eq!(scores, expected);
    }

    #[test]
    fn periods_that_cannot_be_seen_are_not_scored() {
        let signal = signal(&[4.0, 0.0, 4.0, 0.0]);
        for period_s in [0.0, -1.0, 1e-300, f64::NAN, f64::INFINITY, 1.9] {
            assert_eq!(score(&signal, Some(period_s)), score(&signal, None), "{period_s}");
        }
        assert_eq!(score(&signal, Some(5.0)).sigma_vol, None);
    }

    #[test]
    fn silence_and_nothing_at_all_have_no_bandwidth() {
        assert_eq!(score(&signal(&[]), Some(2.0)), Scores::default());
        let silent = Scores { io_time_ratio: Some(0.0), bytes_per_period: Some(0.0), ..Scores::default() };
        assert_eq!(score(&signal(&[0.0; 8]), Some(2.0)), silent);
    }

    #[test]
    fn all_of_a_constant_signal_is_io() {
        let scores = score(&signal(&[0.1; 9]), None);
        assert_eq!(scores.io_time_ratio, Some(1.0));
        assert!((scores.io_bandwidth_bps.unwrap() - 0.1).abs() < 1e-12);
        assert_eq!(score_above(&signal(&[0.1; 9]), None, Some(0.2)).io_time_ratio, Some(0.0));
    }

    #[test]
    fn a_last_bin_that_reaches_beyond_the_end_counts_only_its_part() {
        // Half a bin at full bandwidth: the value is the mean over the bin.
        let half = SampledSignal { start_s: 0.0, rate_hz: 1.0, values: vec![4.0, 0.0, 2.0], duration_s: 2.5 };
        let scores = score(&half, None);
        assert_eq!(scores.io_time_ratio, Some(0.6));
        assert_eq!(scores.io_bandwidth_bps, Some(4.0));
    }

    proptest! {
        #[test]
        fn scores_stay_within_the_bounds_the_paper_states(
            values in prop::collection::vec(0.0..1e10f64, 0..80),
            rate_hz in 0.1..20.0f64,
            period_s in 0.01..60.0f64,
            cut in 0.0..1.0f64,
        ) {
            let duration_s = (values.len() as f64 - cut).max(0.0) / rate_hz;
            let signal = SampledSignal { start_s: 0.0, rate_hz, values, duration_s };
            let scores = score(&signal, Some(period_s));
            for deviation in [scores.sigma_vol, scores.sigma_time].into_iter().flatten() {
                prop_assert!((0.0..=1.0).contains(&deviation));
            }
            prop_assert!(scores.sigma_vol.is_none_or(|sigma| sigma <= 0.5));
            for share in [scores.periodicity, scores.io_time_ratio].into_iter().flatten() {
                prop_assert!((0.0..=1.0).contains(&share));
            }
            let bandwidth = scores.io_bandwidth_bps.unwrap_or(0.0);
            prop_assert!(bandwidth.is_finite() && bandwidth >= 0.0);
        }
    }
}
