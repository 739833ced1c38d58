//! Requests that follow each other faster than they are sampled.
//!
//! A loop of 55 ms, sampled every 100 ms, has one or two rounds in a sample, in turns of half a second. That is a rhythm of the sampling and not of
//! the job: a period can be seen only where the gaps between phases are.

use std::collections::VecDeque;

/// Counters are read this often.
const READING_S: f64 = 0.1;

/// What a job moved in the last readings of its counters.
#[derive(Debug, Default)]
pub struct Readings(VecDeque<u64>);

impl Readings {
    /// A minute of readings, ten a second.
    const MOST: usize = 600;
    /// Fewer say nothing.
    const LEAST: usize = 40;
    /// A gap shorter than so many readings may be one of the sampling.
    const GAP: usize = 3;
    /// … and the shortest period that can be told from its neighbours, in seconds.
    const SHORTEST_S: f64 = 0.3;

    pub fn add(&mut self, bytes: u64) {
        if self.0.len() == Self::MOST {
            self.0.pop_front();
        }
        self.0.push_back(bytes);
    }

    /// Whether a period is one of the sampling: shorter than can be told, or of readings that are steady over several of it.
    pub(super) fn explain(&self, period_s: f64) -> bool {
        // Readings within one long phase are steady, too, and say nothing of the gaps between phases.
        let n_of_three = 3.0 * period_s / READING_S;
        period_s < Self::SHORTEST_S || n_of_three <= self.0.len() as f64 && self.are_steady()
    }

    /// Whether all that differs between readings is a round of a loop more or less.
    ///
    /// Then there are hardly any gaps, no reading stands out, and sums of several readings differ by no more than single ones do: what one
    /// has more, its neighbour has less. Phases that last longer than a reading make such sums differ by their number.
    fn are_steady(&self) -> bool {
        if self.0.len() < Self::LEAST {
            return false;
        }
        let mut single: Vec<u64> = self.0.iter().copied().collect();
        let mut sums: Vec<u64> = single.windows(Self::GAP).map(|some| some.iter().sum()).collect();
        let n_idle = sums.iter().filter(|sum| **sum == 0).count();
        let mean = single.iter().map(|bytes| *bytes as f64).sum::<f64>() / single.len() as f64;
        // A round more or less may be rare in single readings; in sums of three it is three times as frequent.
        let (low, high) = spread(&mut single, 0.01);
        let (low_sum, high_sum) = spread(&mut sums, 0.05);
        // A loop of up to three readings has one round in one of them, and none in the others.
        n_idle * 20 < sums.len() && high <= 3.2 * mean && high_sum - low_sum <= 1.9 * (high - low)
    }
}

/// Returns the values below and above which this part of them lies.
fn spread(values: &mut [u64], part: f64) -> (f64, f64) {
    values.sort_unstable();
    let at = |part: f64| values[((values.len() - 1) as f64 * part).round() as usize] as f64;
    (at(part), at(1.0 - part))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings every 100 ms of a program that moves `bytes_at` at some milliseconds.
    fn readings(ms: u64, bytes_at: impl Fn(u64) -> u64) -> Readings {
        let mut readings = Readings::default();
        for reading in 0..ms / 100 {
            readings.add((reading * 100..reading * 100 + 100).map(&bytes_at).sum());
        }
        readings
    }

    fn is_steady(bytes_at: impl Fn(u64) -> u64) -> bool {
        readings(60_000, bytes_at).are_steady()
    }

    #[test]
    fn a_loop_that_is_faster_than_the_readings_is_steady_whatever_its_beat_with_them() {
        for loop_ms in (1..=290).filter(|ms| ms % 3 == 1 || *ms == 55) {
            assert!(is_steady(|ms| if ms % loop_ms == 0 { 163_840 } else { 0 }), "every {loop_ms} ms");
        }
    }

    #[test]
    fn phases_with_gaps_that_can_be_seen_are_not_steady() {
        for period_ms in [400, 500, 800, 2000, 9000] {
            for phase_ms in [1, 60, period_ms / 10, period_ms / 4] {
                let bytes_at = |ms: u64| if ms % period_ms < phase_ms { 1000 } else { 0 };
                assert!(!is_steady(bytes_at), "{phase_ms} of {period_ms} ms");
            }
        }
        // Phases above a steady background, and long ones with short gaps.
        assert!(!is_steady(|ms| if ms % 2000 < 500 { 5000 } else { 1000 }));
        assert!(!is_steady(|ms| if ms % 9000 < 7000 { 1000 } else { 0 }));
        assert!(!is_steady(|ms| if ms % 1000 == 0 { 1_000_000 } else { 1000 }));
    }

    #[test]
    fn a_steady_phase_says_nothing_of_a_long_period() {
        // 40 s of a loop, 50 s of nothing: at the end of a phase the last readings hold no gap.
        let readings = readings(130_000, |ms| if ms % 90_000 < 40_000 && ms % 55 == 0 { 1000 } else { 0 });
        assert!(!readings.explain(90.0) && readings.explain(0.2));
    }

    #[test]
    fn few_readings_say_nothing() {
        assert!(!readings(3_000, |_| 1000).are_steady());
    }
}
