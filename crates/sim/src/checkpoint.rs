//! How often to write checkpoints: what they cost against what a failure loses.
//!
//! Failures come without memory, on average every M. A stretch of work τ ends with a checkpoint that takes C; a failure within the two loses the stretch, and
//! the restart takes R. The expected time of a stretch is then M·e^(R/M)·(e^((τ+C)/M) − 1) (Daly 2006), and the time that is lost is what it
//! takes beyond τ.

use iotide_num::SplitMix64;

/// Times that decide how often to write checkpoints.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Checkpoints {
    /// Time of a checkpoint.
    pub cost_s: f64,
    /// Time from a failure until work goes on.
    pub restart_s: f64,
    /// Mean time between failures.
    pub mtbf_s: f64,
}

/// The share of time that failures and checkpoints took in a simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize))]
pub struct SimulatedWaste {
    /// The share.
    pub waste: f64,
    /// Its standard error.
    pub error: f64,
}

/// So many stretches of work are simulated, in groups that tell the error.
const STRETCHES: usize = 40_000;
const GROUPS: usize = 40;
/// A stretch that fails more often than this, on average, would never end.
const MOST_ATTEMPTS: f64 = 100.0;

impl Checkpoints {
    /// Returns the share of the time that is no progress if a checkpoint is written after every `work_s` of work.
    pub fn waste(&self, work_s: f64) -> f64 {
        let Self { cost_s, restart_s, mtbf_s } = *self;
        let spent_s = mtbf_s * (restart_s / mtbf_s).exp() * ((work_s + cost_s) / mtbf_s).exp_m1();
        1.0 - work_s / spent_s
    }

    /// Returns the time of work between checkpoints that wastes least.
    pub fn best_s(&self) -> f64 {
        // The waste has one minimum: it lies below the mean time between failures, and far above 0 unless checkpoints cost nothing.
        let (mut low, mut high) = (0.0, self.mtbf_s);
        let golden = (5f64.sqrt() - 1.0) / 2.0;
        for _ in 0..200 {
            let (left, right) = (high - golden * (high - low), low + golden * (high - low));
            if self.waste(left) < self.waste(right) {
                high = right;
            } else {
                low = left;
            }
        }
        (low + high) / 2.0
    }

    /// Returns the same by Young's formula, which neglects what is small beside the mean time between failures.
    pub fn young_s(&self) -> f64 {
        (2.0 * self.cost_s * self.mtbf_s).sqrt()
    }

    /// Returns the least and the most work between checkpoints that waste at most `more` beyond the best, as a share of the time.
    pub fn good_enough_s(&self, more: f64) -> [f64; 2] {
        let best_s = self.best_s();
        let limit = self.waste(best_s) + more;
        let edge = |mut inside: f64, mut outside: f64| {
            for _ in 0..100 {
                let middle = (inside + outside) / 2.0;
                if self.waste(middle) <= limit {
                    inside = middle;
                } else {
                    outside = middle;
                }
            }
            inside
        };
        let mut far_s = 2.0 * best_s;
        while self.waste(far_s) <= limit && far_s < 100.0 * self.mtbf_s {
            far_s *= 2.0;
        }
        [edge(best_s, 0.0), edge(best_s, far_s)]
    }

    /// Tries out a checkpoint after every `work_s` of work with failures drawn at random; `None` where hardly a stretch would end.
    pub fn simulate(&self, work_s: f64, seed: u64) -> Option<SimulatedWaste> {
        if ((work_s + self.cost_s) / self.mtbf_s).exp() > MOST_ATTEMPTS {
            return None;
        }
        let mut random = SplitMix64::new(seed);
        let mut wastes = Vec::with_capacity(GROUPS);
        for _ in 0..GROUPS {
            let mut spent_s = 0.0;
            for _ in 0..STRETCHES / GROUPS {
                spent_s += self.stretch_s(work_s, &mut random);
            }
            wastes.push(1.0 - work_s * (STRETCHES / GROUPS) as f64 / spent_s);
        }
        let n = GROUPS as f64;
        let mean = wastes.iter().sum::<f64>() / n;
        let squares: f64 = wastes.iter().map(|waste| (waste - mean).powi(2)).sum();
        Some(SimulatedWaste { waste: mean, error: (squares / (n - 1.0) / n).sqrt() })
    }

    /// Time until a stretch of work and its checkpoint are done. Failures hit restarts, too.
    fn stretch_s(&self, work_s: f64, random: &mut SplitMix64) -> f64 {
        let mut spent_s = 0.0;
        let mut needs_s = work_s + self.cost_s;
        loop {
            let fails_after_s = self.mtbf_s * random.exponential();
            if fails_after_s >= needs_s {
                return spent_s + needs_s;
            }
            spent_s += fails_after_s;
            needs_s = self.restart_s + work_s + self.cost_s;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_S: f64 = 3600.0;

    fn plan(cost_s: f64, mtbf_s: f64) -> Checkpoints {
        Checkpoints { cost_s, restart_s: cost_s, mtbf_s }
    }

    #[test]
    fn the_best_is_near_youngs_where_failures_are_rare_and_wastes_least() {
        for cost_s in [1.0, 30.0, 600.0] {
            let checkpoints = plan(cost_s, 1e4 * HOUR_S);
            let best_s = checkpoints.best_s();
            assert!((best_s / checkpoints.young_s() - 1.0).abs() < 0.02, "{cost_s}: {best_s}");
            for other_s in [0.5 * best_s, 0.9 * best_s, 1.1 * best_s, 2.0 * best_s] {
                assert!(checkpoints.waste(other_s) > checkpoints.waste(best_s));
            }
            let [least_s, most_s] = checkpoints.good_enough_s(0.01);
            assert!(least_s < best_s && best_s < most_s);
            assert!((checkpoints.waste(most_s) - checkpoints.waste(best_s) - 0.01).abs() < 1e-6);
        }
        // Young's formula is far off where checkpoints cost much of the time between failures.
        let hard = plan(1800.0, 2.0 * HOUR_S);
        assert!(hard.best_s() < 0.9 * hard.young_s(), "{} of {}", hard.best_s(), hard.young_s());
    }

    #[test]
    fn what_is_simulated_is_what_the_formula_says() {
        for (cost_s, mtbf_s, factor) in
            [(30.0, 8.0 * HOUR_S, 1.0), (300.0, HOUR_S, 1.0), (60.0, 2.0 * HOUR_S, 4.0)]
        {
            let checkpoints = plan(cost_s, mtbf_s);
            let work_s = factor * checkpoints.best_s();
            let simulated = checkpoints.simulate(work_s, 3).unwrap();
            let off = (simulated.waste - checkpoints.waste(work_s)).abs();
            assert!(
                off < 4.0 * simulated.error && simulated.error < 0.01,
                "{simulated:?}, {}",
                checkpoints.waste(work_s)
            );
        }
        assert_eq!(plan(1.0, 10.0).simulate(1000.0, 1), None);
    }

    #[test]
    fn the_unit_of_time_does_not_matter() {
        let (seconds, minutes) = (plan(60.0, 4.0 * HOUR_S), plan(1.0, 240.0));
        // The minimum is flat: half of the digits tell its place.
        assert!((seconds.best_s() / 60.0 / minutes.best_s() - 1.0).abs() < 1e-5);
        assert!((seconds.waste(600.0) - minutes.waste(10.0)).abs() < 1e-12);
    }
}
