//! The rhythm of a stream that never pauses: its level rises and falls.
//!
//! No cut tells phases from what goes on between them where the bandwidth hardly changes. Less the level that it never falls below, the same
//! signal is one with phases and pauses. Noise has none that are even, and a level that wanders resembles itself no beat later.

use super::choose::{Found, Sums, find_rhythms};
use super::spectrum::Spectrum;
use super::steps::Steps;

/// Returns the rhythm in the level of a signal that is never silent, with all that its phases move.
pub(super) fn rhythm_of_the_level(steps: &Steps) -> Option<Found> {
    let floor_bps = floor_bps(steps)?;
    let mut above = steps.clone();
    for rate_bps in &mut above.rates_bps {
        *rate_bps = (*rate_bps - floor_bps).max(0.0);
    }
    let mut found = find_rhythms(&above).rhythms.into_iter().next()?;
    let n = found.phases.len();
    let is_plain = n >= ENOUGH
        && found.confidence > CERTAIN
        && found.spread < STEADY
        && n as f64 * found.beat_s > NEARLY_ALL * steps.duration_s()
        && found.own_bytes > LEAST_OF_IT * above.bytes();
    if !is_plain || Spectrum::of(&above)?.correlation_at(found.beat_s)? < RESEMBLES {
        return None;
    }
    let sums = Sums::of(steps);
    for phase in &mut found.phases {
        phase.bytes = sums.between(phase.start_s, phase.end_s);
    }
    found.own_bytes = found.phases.iter().map(|phase| phase.bytes).sum();
    Some(found)
}

/// The bandwidth that a signal hardly ever falls below; `None` if that is next to nothing, for then phases show as they are.
fn floor_bps(steps: &Steps) -> Option<f64> {
    let mut by_rate: Vec<(f64, f64)> =
        (0..steps.len()).map(|i| (steps.rates_bps[i], steps.times_s[i + 1] - steps.times_s[i])).collect();
    by_rate.sort_by(|a, b| a.0.total_cmp(&b.0));
    let duration_s = steps.duration_s();
    let mut held_s = 0.0;
    let floor_bps = by_rate
        .into_iter()
        .find(|(_, length_s)| {
            held_s += length_s;
            held_s > HARDLY_EVER * duration_s
        })?
        .0;
    (floor_bps * duration_s > NEVER_SILENT * steps.bytes()).then_some(floor_bps)
}

/// A lower bandwidth is held for this share of the time at most: one bin cut short is not the floor.
const HARDLY_EVER: f64 = 0.02;
/// A stream never falls below this share of its mean. (Below, phases are found as they are: smoothing looks for a fall by a quarter.)
const NEVER_SILENT: f64 = 0.5;
/// Twice as many phases as make a rhythm: nothing but their evenness speaks for this one.
const ENOUGH: usize = 6;
/// … and so it has to be this certain,
const CERTAIN: f64 = 0.99;
/// … this even,
const STEADY: f64 = 0.15;
/// … hold for this share of the run,
const NEARLY_ALL: f64 = 0.75;
/// … be this share of what rises above the floor, for noise does so all the time,
const LEAST_OF_IT: f64 = 0.3;
/// … and the level must resemble itself one beat later: noise as strong as the swing leaves half.
const RESEMBLES: f64 = 0.6;
