//! Periodicity as the MOSAIC paper has it: groups of segments of about the same duration and volume.
//!
//! A segment reaches from the start of one operation to the start of the next. Mean Shift (Comaniciu & Meer, 2002) gathers
//! segments around the modes of their density, and a group of more than one is periodic, however its members lie in time.
//! The paper does not say in which units; seconds and bytes as they are let the bytes decide alone, so both are taken as
//! logarithms, with a flat kernel.

use std::collections::BTreeMap;

use super::periodicity::{Rhythm, rhythm};
use super::{CategoryThresholds, Operation};

/// Returns the groups, the one that moves most bytes first.
pub(super) fn find(
    operations: &[Operation],
    run_time_s: f64,
    thresholds: &CategoryThresholds,
) -> Vec<Rhythm> {
    let width = thresholds.mosaic_bandwidth.ln();
    let durations_s: Vec<f64> = (0..operations.len())
        .map(|i| operations.get(i + 1).map_or(run_time_s, |next| next.start_s) - operations[i].start_s)
        .collect();
    let points: Vec<[f64; 2]> = operations
        .iter()
        .zip(&durations_s)
        .map(|(operation, duration_s)| [duration_s.max(1e-9).ln(), operation.bytes.max(1e-9).ln()])
        .collect();
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (i, mode) in modes(&points, width).into_iter().enumerate() {
        groups.entry(mode).or_default().push(i);
    }
    let mut rhythms: Vec<Rhythm> = groups
        .into_values()
        .filter(|group| group.len() > 1)
        .map(|group| {
            let period_s = group.iter().map(|&i| durations_s[i]).sum::<f64>() / group.len() as f64;
            // The paper knows no degree of belief.
            rhythm(period_s, f64::INFINITY, group.iter().map(|&i| operations[i]).collect())
        })
        .collect();
    rhythms.sort_by(|a, b| b.0.bytes.total_cmp(&a.0.bytes));
    rhythms
}

/// The mode each point climbs to.
///
/// Points of one cell of an eighth of the width climb together, so that the cost is bounded by how much the points differ
/// and not by how many there are.
fn modes(points: &[[f64; 2]], width: f64) -> Vec<usize> {
    let cell_of = |point: &[f64; 2]| point.map(|x| (x / (width / 8.0)).floor() as i64);
    let mut cells: BTreeMap<[i64; 2], (f64, [f64; 2])> = BTreeMap::new();
    for point in points {
        let (weight, sum) = cells.entry(cell_of(point)).or_default();
        *weight += 1.0;
        sum[0] += point[0];
        sum[1] += point[1];
    }
    let crowd: Vec<(f64, [f64; 2])> =
        cells.values().map(|&(weight, sum)| (weight, sum.map(|x| x / weight))).collect();
    let near = |a: &[f64; 2], b: &[f64; 2]| (a[0] - b[0]).hypot(a[1] - b[1]) <= width;
    let mut tops: Vec<[f64; 2]> = Vec::new();
    let mut top_of_cell: BTreeMap<[i64; 2], usize> = BTreeMap::new();
    for (cell, &(_, start)) in cells.keys().zip(&crowd) {
        let mut at = start;
        for _ in 0..MOST_STEPS {
            let (mut weight, mut sum) = (0.0, [0.0; 2]);
            for (w, point) in crowd.iter().filter(|(_, point)| near(point, &at)) {
                weight += w;
                sum[0] += w * point[0];
                sum[1] += w * point[1];
            }
            let next = sum.map(|x| x / weight);
            let still = (next[0] - at[0]).hypot(next[1] - at[1]) < 1e-3 * width;
            at = next;
            if still {
                break;
            }
        }
        let top = tops.iter().position(|top| near(top, &at)).unwrap_or_else(|| {
            tops.push(at);
            tops.len() - 1
        });
        top_of_cell.insert(*cell, top);
    }
    points.iter().map(|point| top_of_cell[&cell_of(point)]).collect()
}

/// Mean Shift converges long before.
const MOST_STEPS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_alike_are_a_group_wherever_they_lie() {
        let starts = [0.0, 10.0, 20.0, 300.0, 310.0];
        let operations: Vec<Operation> =
            starts.iter().map(|&start_s| Operation { start_s, end_s: start_s + 1.0, bytes: 1e9 }).collect();
        let found = find(&operations, 320.0, &CategoryThresholds::default());
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].0.period_s, found[0].0.n_operations), (10.0, 4));
    }

    #[test]
    fn segments_that_all_differ_are_no_group() {
        let operations: Vec<Operation> = [0.0, 10.0, 30.0, 70.0]
            .iter()
            .map(|&start_s| Operation { start_s, end_s: start_s + 1.0, bytes: 1e9 })
            .collect();
        assert!(find(&operations, 200.0, &CategoryThresholds::default()).is_empty());
    }
}
