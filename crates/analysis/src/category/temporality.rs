//! When in the run bytes are moved.

use super::{CategoryThresholds, Operation, Temporality};

/// How the bytes lie in the run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Placement {
    pub when: Temporality,
    pub confidence: f64,
    /// Distance to the label's own curve, as a share of the run.
    pub distance: f64,
    /// Distance to the next best label's.
    pub runner_up: f64,
}

/// Returns the label whose byte curve is nearest to that of the operations.
///
/// A run's bytes, put in order of time, are a distribution over the run, and every label stands for one: even over the
/// first quarter, over all but the first quarter, and so on. The nearest is the one to which the fewest bytes must be
/// moved over the shortest time (the Wasserstein-1 distance: the area between the cumulative curves). Bytes that lie
/// across the border of a quarter then cost little, where sums per quarter tip over; and by how much the nearest is
/// nearer than the next is the confidence.
pub(super) fn nearest(operations: impl IntoIterator<Item = Operation>, run_time_s: f64) -> Placement {
    let curve = cumulative(operations, run_time_s);
    let mut distances: Vec<(Temporality, f64)> =
        PROTOTYPES.iter().map(|(when, parts)| (*when, distance(&curve, parts))).collect();
    distances.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (when, distance) = distances[0];
    let runner_up = distances[1].1;
    let confidence = if runner_up > 0.0 { 1.0 - 0.5 * distance / runner_up } else { 0.5 };
    Placement { when, confidence, distance, runner_up }
}

/// A share of the bytes, even over a part of the run.
struct Part {
    from: f64,
    to: f64,
    share: f64,
}

const fn part(from: f64, to: f64, share: f64) -> Part {
    Part { from, to, share }
}

const PROTOTYPES: [(Temporality, &[Part]); 7] = [
    (Temporality::OnStart, &[part(0.0, 0.25, 1.0)]),
    (Temporality::OnEnd, &[part(0.75, 1.0, 1.0)]),
    (Temporality::AfterStart, &[part(0.25, 1.0, 1.0)]),
    (Temporality::BeforeEnd, &[part(0.0, 0.75, 1.0)]),
    (Temporality::AfterStartBeforeEnd, &[part(0.25, 0.75, 1.0)]),
    (Temporality::OnStartAndOnEnd, &[part(0.0, 0.25, 0.5), part(0.75, 1.0, 0.5)]),
    (Temporality::Steady, &[part(0.0, 1.0, 1.0)]),
];

/// How finely the run is divided.
const STEPS: usize = 400;

/// The share of the bytes moved until each step of the run, `STEPS + 1` values from 0 to 1.
fn cumulative(operations: impl IntoIterator<Item = Operation>, run_time_s: f64) -> Vec<f64> {
    let steps = STEPS as f64;
    let mut bytes = vec![0.0; STEPS];
    // Operations that fill whole steps are kept as changes of a level.
    let mut levels = vec![0.0; STEPS + 1];
    let mut total = 0.0;
    for operation in operations {
        total += operation.bytes;
        let at = |time_s: f64| (time_s / run_time_s * steps).clamp(0.0, steps);
        let (from, to) = (at(operation.start_s), at(operation.end_s));
        let (first, last) = ((from as usize).min(STEPS - 1), (to as usize).min(STEPS - 1));
        if first == last || to <= from {
            bytes[first] += operation.bytes;
            continue;
        }
        let per_step = operation.bytes / (to - from);
        bytes[first] += per_step * ((first + 1) as f64 - from);
        bytes[last] += per_step * (to - last as f64);
        levels[first + 1] += per_step;
        levels[last] -= per_step;
    }
    let (mut level, mut sum) = (0.0, 0.0);
    let mut curve = Vec::with_capacity(STEPS + 1);
    curve.push(0.0);
    for (bytes, change) in bytes.iter().zip(&levels) {
        level += change;
        sum += bytes + level;
        curve.push(sum / total);
    }
    curve
}

/// The area between a cumulative curve and that of `parts`, over a run of length 1.
fn distance(curve: &[f64], parts: &[Part]) -> f64 {
    let share_until = |time: f64| -> f64 {
        parts.iter().map(|p| p.share * ((time - p.from) / (p.to - p.from)).clamp(0.0, 1.0)).sum()
    };
    let n = (curve.len() - 1) as f64;
    let gaps: Vec<f64> =
        curve.iter().enumerate().map(|(i, value)| (value - share_until(i as f64 / n)).abs()).collect();
    gaps.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0).sum::<f64>() / n
}

/// MOSAIC's rules on the bytes per quarter of the run; several may hold, the first in their order is taken.
pub(super) fn by_quarters(
    operations: &[Operation],
    run_time_s: f64,
    thresholds: &CategoryThresholds,
) -> Option<(Temporality, [f64; 4])> {
    let curve = cumulative(operations.iter().copied(), run_time_s);
    let until = |quarter: usize| curve[quarter * STEPS / 4];
    let q: [f64; 4] = std::array::from_fn(|i| until(i + 1) - until(i));
    let (start, middle, end) = (q[0], q[1] + q[2], q[3]);
    let even = |values: &[f64]| {
        iotide_num::coefficient_of_variation(values).is_some_and(|cv| cv < thresholds.mosaic_even)
    };
    let CategoryThresholds { mosaic_dominant, mosaic_avoided, mosaic_middle, .. } = *thresholds;
    let rules = [
        (Temporality::OnStart, start > mosaic_dominant * (middle + end)),
        (Temporality::OnEnd, end > mosaic_dominant * (start + middle)),
        (Temporality::AfterStartBeforeEnd, middle > mosaic_middle * (start + end)),
        (Temporality::OnStartAndOnEnd, start + end > mosaic_middle * middle && even(&[start, end])),
        (Temporality::AfterStart, start < (middle + end) / mosaic_avoided && even(&q[1..])),
        (Temporality::BeforeEnd, end < (start + middle) / mosaic_avoided && even(&q[..3])),
        (Temporality::Steady, even(&q)),
    ];
    rules.into_iter().find(|(_, holds)| *holds).map(|(when, _)| (when, q))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn operation(start_s: f64, end_s: f64, bytes: f64) -> Operation {
        Operation { start_s, end_s, bytes }
    }

    #[test]
    fn bytes_that_lie_as_a_label_says_bear_that_label() {
        for (when, parts) in PROTOTYPES {
            let operations: Vec<Operation> =
                parts.iter().map(|p| operation(100.0 * p.from, 100.0 * p.to, 1e9 * p.share)).collect();
            let found = nearest(operations, 100.0);
            assert_eq!(found.when, when);
            assert!(found.distance < 1e-9 && found.confidence > 0.99, "{found:?}");
        }
    }

    #[test]
    fn bytes_across_the_border_of_a_quarter_tip_nothing_over() {
        // More than a third of the bytes are outside the first quarter: sums per quarter know no label for that.
        let operations = [operation(2.0, 37.0, 1e9)];
        assert_eq!(nearest(operations, 100.0).when, Temporality::OnStart);
        assert_eq!(
            by_quarters(&operations, 100.0, &CategoryThresholds::default()).map(|found| found.0),
            None
        );
    }

    #[test]
    fn the_rules_of_the_paper_hold_on_clear_cases() {
        let thresholds = CategoryThresholds::default();
        for (when, parts) in PROTOTYPES {
            let operations: Vec<Operation> =
                parts.iter().map(|p| operation(100.0 * p.from, 100.0 * p.to, 1e9 * p.share)).collect();
            assert_eq!(by_quarters(&operations, 100.0, &thresholds).map(|found| found.0), Some(when));
        }
    }

    #[test]
    fn the_paper_compares_four_chunks_and_not_three() {
        // A quarter, nothing, a half, a quarter: MOSAIC's code adds the two in the middle up and calls that steady.
        let operations = [operation(0.0, 25.0, 1e9), operation(50.0, 75.0, 2e9), operation(75.0, 100.0, 1e9)];
        let found = |operations: &[Operation]| {
            by_quarters(operations, 100.0, &CategoryThresholds::default()).map(|found| found.0)
        };
        assert_eq!(found(&operations), None);
        assert_eq!(found(&[operation(0.0, 100.0, 1e9)]), Some(Temporality::Steady));
    }

    #[test]
    fn the_curve_ends_at_all_bytes_wherever_they_lie() {
        let curve = cumulative(
            [operation(-5.0, 10.0, 3.0), operation(99.0, 120.0, 2.0), operation(50.0, 50.0, 1.0)],
            100.0,
        );
        assert!((curve[STEPS] - 1.0).abs() < 1e-9);
        assert!(curve.windows(2).all(|pair| pair[1] >= pair[0] - 1e-12));
    }

    proptest! {
        #[test]
        fn neither_the_scale_of_time_nor_that_of_bytes_matters(
            parts in prop::collection::vec((0.0..0.9f64, 0.001..0.1f64, 1.0..100.0f64), 1..12),
            time in 1e-3..1e6f64, bytes in 1e-3..1e9f64,
        ) {
            let at = |run_s: f64, bytes: f64| {
                let operations: Vec<Operation> = parts
                    .iter()
                    .map(|(start, length, volume)| operation(start * run_s, (start + length) * run_s, volume * bytes))
                    .collect();
                nearest(operations, run_s)
            };
            let (one, other) = (at(1.0, 1.0), at(time, bytes));
            prop_assert!((one.distance - other.distance).abs() < 1e-6);
            prop_assert!(one.when == other.when || one.runner_up - one.distance < 1e-6);
        }
    }
}
