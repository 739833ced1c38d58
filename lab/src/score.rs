//! Scores of answers: by how much a period is wrong, and whether answers are right as often as their confidence promises.

use std::ops::Range;

/// Returns by how much a value is wrong, relative to the true one.
pub fn relative_error(found: f64, truth: f64) -> f64 {
    (found / truth - 1.0).abs()
}

/// Returns by how much a value is wrong, relative to the nearest of the true ones; infinite if there are none.
pub fn least_error(found: f64, truths: &[f64]) -> f64 {
    truths.iter().map(|truth| relative_error(found, *truth)).fold(f64::INFINITY, f64::min)
}

/// Answers of similar confidence, and whether they are right.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    pub n: usize,
    pub mean_confidence: f64,
    pub share_right: f64,
}

impl Group {
    /// The group of these answers: the confidence of each, and whether it is right.
    pub fn of(answers: &[(f64, bool)]) -> Self {
        let n = answers.len();
        let mean_confidence = answers.iter().map(|answer| answer.0).sum::<f64>() / n.max(1) as f64;
        let share_right = answers.iter().filter(|answer| answer.1).count() as f64 / n.max(1) as f64;
        Self { n, mean_confidence, share_right }
    }

    /// The group of the answers whose confidence lies in this range.
    pub fn within(range: Range<f64>, answers: &[(f64, bool)]) -> Self {
        let within: Vec<_> = answers.iter().copied().filter(|answer| range.contains(&answer.0)).collect();
        Self::of(&within)
    }
}
