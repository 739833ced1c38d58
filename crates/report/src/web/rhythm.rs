//! Phases in rates that were sampled each second or so.

/// A stretch of time in which much was moved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// When it began, in seconds after the first rate.
    pub from_s: f64,
    /// When it ended.
    pub to_s: f64,
    /// What was moved in it.
    pub bytes: f64,
}

/// More than this share of the highest rate is a phase.
const LEVEL: f64 = 0.1;
/// Who is in phases for longer than this share of the time has none.
const MOST_TIME: f64 = 0.8;

/// Returns the stretches in which the rate is above a tenth of the highest. None are told of a job that is almost always that busy.
pub fn phases_of(rates_bps: &[f64], step_s: f64) -> Vec<Phase> {
    let most = rates_bps.iter().copied().fold(0.0, f64::max);
    let mut phases: Vec<Phase> = Vec::new();
    if most <= 0.0 {
        return phases;
    }
    let mut is_open = false;
    for (i, &bps) in rates_bps.iter().enumerate() {
        let at_s = i as f64 * step_s;
        match (bps > LEVEL * most, phases.last_mut()) {
            (true, Some(phase)) if is_open => {
                phase.to_s = at_s + step_s;
                phase.bytes += bps * step_s;
            }
            (true, _) => phases.push(Phase { from_s: at_s, to_s: at_s + step_s, bytes: bps * step_s }),
            (false, _) => {}
        }
        is_open = bps > LEVEL * most;
    }
    let busy_s: f64 = phases.iter().map(|phase| phase.to_s - phase.from_s).sum();
    if busy_s > MOST_TIME * rates_bps.len() as f64 * step_s { Vec::new() } else { phases }
}

/// How long a phase usually is: that of the one in the middle.
pub(super) fn usual_length_s(phases: &[Phase]) -> Option<f64> {
    let mut lengths: Vec<f64> = phases.iter().map(|phase| phase.to_s - phase.from_s).collect();
    lengths.sort_by(f64::total_cmp);
    lengths.get(lengths.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_are_stretches_above_a_tenth_of_the_highest_rate() {
        let rates = [0.0, 100.0, 50.0, 1.0, 0.0, 80.0, 0.0, 0.0];
        let phases = phases_of(&rates, 2.0);
        assert_eq!(
            phases,
            [
                Phase { from_s: 2.0, to_s: 6.0, bytes: 300.0 },
                Phase { from_s: 10.0, to_s: 12.0, bytes: 160.0 }
            ]
        );
        assert_eq!(usual_length_s(&phases), Some(4.0));
        assert!(phases_of(&[0.0; 5], 1.0).is_empty() && phases_of(&[], 1.0).is_empty());
        // Always busy is no phase.
        assert!(phases_of(&[1.0; 20], 1.0).is_empty());
        assert_eq!(usual_length_s(&[]), None);
    }
}
