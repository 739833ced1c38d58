//! Known rhythm of a job.

use iotide_analysis::{PeriodEstimate, Scores};

/// The rhythm of a job's I/O, as a scheduler needs it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IoProfile {
    /// The characteristic time `w_iter`: mean time between the starts of consecutive I/O phases. Positive and finite.
    w_iter_s: f64,
    /// Bytes that a phase moves, where known.
    pub bytes_per_phase: Option<f64>,
    /// Share of the time spent in I/O, where known.
    pub io_share: Option<f64>,
}

impl IoProfile {
    /// Returns a profile of which only the characteristic time is known.
    ///
    /// # Panics
    /// If the time is not positive and finite; [`IoProfile::from_estimate`] never is.
    pub fn with_period(w_iter_s: f64) -> Self {
        Self::checked(w_iter_s).expect("a characteristic time is positive and finite")
    }

    /// Returns a profile of which only the characteristic time is known, or `None` if that is no time to live by.
    pub fn checked(w_iter_s: f64) -> Option<Self> {
        (w_iter_s.is_finite() && w_iter_s > 0.0).then_some(Self {
            w_iter_s,
            bytes_per_phase: None,
            io_share: None,
        })
    }

    /// Returns the profile of a run whose period was looked for, or `None` if there is none.
    ///
    /// Where the phases could be told apart, the characteristic time is the mean distance of their starts, as IO-Sets
    /// defines it; else it is the period.
    pub fn from_estimate(estimate: &PeriodEstimate, scores: &Scores) -> Option<Self> {
        let period_s = estimate.period_s?;
        let phases = &estimate.phases;
        let apart_s = match (phases.first(), phases.last()) {
            // A handful of phases may have missed one; the period knows better.
            (Some(first), Some(last)) if phases.len() > 3 => {
                Some((last.start_s - first.start_s) / (phases.len() - 1) as f64)
            }
            _ => None,
        };
        // Phases that were told apart too finely or too coarsely do not overrule what was found.
        let apart_s = apart_s.filter(|apart_s| (0.5..=2.0).contains(&(apart_s / period_s)));
        let mut profile = Self::checked(apart_s.unwrap_or(period_s))?;
        profile.bytes_per_phase = scores.bytes_per_period;
        profile.io_share = scores.io_time_ratio;
        Some(profile)
    }

    /// The characteristic time.
    pub fn w_iter_s(&self) -> f64 {
        self.w_iter_s
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_analysis::Phase;

    fn phases(starts_s: &[f64]) -> Vec<Phase> {
        starts_s.iter().map(|&start_s| Phase { start_s, end_s: start_s + 1.0, bytes: 1.0 }).collect()
    }

    #[test]
    fn a_run_without_a_period_has_no_profile() {
        assert_eq!(IoProfile::from_estimate(&PeriodEstimate::default(), &Scores::default()), None);
    }

    #[test]
    fn the_characteristic_time_is_the_mean_distance_of_phase_starts() {
        let mut estimate = PeriodEstimate { period_s: Some(20.0), ..PeriodEstimate::default() };
        let w_iter_s = |estimate: &PeriodEstimate| {
            IoProfile::from_estimate(estimate, &Scores::default()).unwrap().w_iter_s()
        };
        assert_eq!(w_iter_s(&estimate), 20.0);
        estimate.phases = phases(&[0.0, 19.0, 40.0, 63.0]);
        assert_eq!(w_iter_s(&estimate), 21.0);
        estimate.phases = phases(&[0.0, 2.0, 4.0, 6.0]);
        assert_eq!(w_iter_s(&estimate), 20.0, "phases told apart too finely do not count");
    }

    #[test]
    fn what_a_phase_moves_and_how_long_it_takes_come_from_the_scores() {
        let estimate = PeriodEstimate { period_s: Some(20.0), ..PeriodEstimate::default() };
        let scores = Scores { bytes_per_period: Some(5e9), io_time_ratio: Some(0.25), ..Scores::default() };
        let profile = IoProfile::from_estimate(&estimate, &scores).unwrap();
        assert_eq!((profile.bytes_per_phase, profile.io_share), (Some(5e9), Some(0.25)));
    }

    #[test]
    fn no_time_is_no_profile() {
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(IoProfile::checked(wrong), None, "{wrong}");
        }
    }
}
