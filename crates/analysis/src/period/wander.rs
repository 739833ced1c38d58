//! Stretches of a beat that wanders.
//!
//! A loop whose steps take longer and longer, then shorter again, keeps one beat loosely. Where it stays near one length for a while that
//! looks like a beat of its own, kept well: the next stretch seems to have another. A change of the program is sudden, though, and the jitter of a
//! beat differs from one distance to the next.

use super::Rhythm;

/// Whether a rhythm that holds for a part of the data is a stretch of a beat that wanders.
pub(super) fn is_part_of_wandering(rhythm: &Rhythm, all: &[Rhythm], data_s: f64) -> bool {
    let distances_s = distances_s(rhythm);
    if rhythm.end_s - rhythm.start_s > NEARLY_ALL * data_s
        || rhythm.spread < STEADY
        || distances_s.len() < ENOUGH
    {
        return false;
    }
    let n = distances_s.len() as f64;
    von_neumann(&distances_s) < 2.0 - SURE / n.sqrt()
        || all.iter().any(|other| turns_into(rhythm, other) || turns_into(other, rhythm))
}

/// Whether the beat of a rhythm becomes that of the next step by step.
fn turns_into(one: &Rhythm, next: &Rhythm) -> bool {
    let ratio = next.period_s / one.period_s;
    let wait_s = next.start_s - one.phases[one.phases.len() - 1].start_s;
    let follows = wait_s > 0.0 && wait_s < 2.0 * one.period_s.max(next.period_s);
    if !follows || !(1.0 / MOST_APART..MOST_APART).contains(&ratio) {
        return false;
    }
    let (before_s, after_s) = (distances_s(one), distances_s(next));
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let last_s = mean(&before_s[before_s.len().saturating_sub(AT_THE_BORDER)..]);
    let first_s = mean(&after_s[..after_s.len().min(AT_THE_BORDER)]);
    (first_s - last_s) / (next.period_s - one.period_s) < SUDDEN
}

/// Von Neumann's ratio: the mean square of successive differences over the variance. It is 2 where each value is drawn for itself, more where a late phase makes one distance longer and the next
/// shorter, and less where values wander.
fn von_neumann(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    values.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum::<f64>() / squares
}

/// Distances from phase to phase, for each beat in them.
fn distances_s(rhythm: &Rhythm) -> Vec<f64> {
    let distances_s = rhythm.phases.windows(2).map(|pair| pair[1].start_s - pair[0].start_s);
    distances_s.map(|distance_s| distance_s / (distance_s / rhythm.period_s).round().max(1.0)).collect()
}

/// A beat that holds for more of the data is that of the run.
const NEARLY_ALL: f64 = 0.95;
/// A beat with less spread does not wander.
const STEADY: f64 = 0.03;
/// Fewer distances tell nothing of how they follow each other.
const ENOUGH: usize = 8;
/// A standard deviation of von Neumann's ratio, times the root of the number of values.
const SURE: f64 = 2.0;
/// Beats that differ by a larger factor are two.
const MOST_APART: f64 = 2.0;
/// How many distances on either side of a border show how the beat changes there.
const AT_THE_BORDER: usize = 3;
/// The share of the change between two stretches that happens at once where a program changes.
const SUDDEN: f64 = 0.7;
