//! Periodicity as the MOSAIC paper has it: groups of segments of about the same duration and volume.
//!
//! A segment reaches from the start of one operation to the start of the next, so the last operation begins none. Mean Shift (Fukunaga &
//! Hostetler, 1975, which the paper cites: each point moves to the mean of the points around it until it stands still) gathers the
//! segments around the modes of their density, and a group of more than one is periodic, however its members lie in time. The
//! paper says "comparable duration and data size" and no units or thresholds; seconds and bytes as they are let the bytes decide alone, so both
//! are taken as logarithms: what is comparable is a ratio.

use std::collections::BTreeMap;

use super::periodicity::{Rhythm, rhythm};
use super::{CategoryThresholds, Operation};

/// Returns the groups, the one that moves most bytes first.
pub(super) fn find(operations: &[Operation], thresholds: &CategoryThresholds) -> Vec<Rhythm> {
    let width = thresholds.mosaic_bandwidth.ln();
    let durations_s: Vec<f64> = operations.windows(2).map(|pair| pair[1].start_s - pair[0].start_s).collect();
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
            rhythm(period_s, 1.0, group.iter().map(|&i| operations[i]).collect())
        })
        .collect();
    rhythms.sort_by(|a, b| b.0.bytes.total_cmp(&a.0.bytes));
    rhythms
}

/// The mode each point climbs to.
///
/// Operations lie further apart than a thousandth of the run, so there are at most a thousand points.
fn modes(points: &[[f64; 2]], width: f64) -> Vec<usize> {
    let near = |a: &[f64; 2], b: &[f64; 2]| (a[0] - b[0]).hypot(a[1] - b[1]) <= width;
    let mut tops: Vec<[f64; 2]> = Vec::new();
    points
        .iter()
        .map(|&start| {
            let mut at = start;
            for _ in 0..MOST_STEPS {
                let (mut n, mut sum) = (0.0, [0.0; 2]);
                for point in points.iter().filter(|point| near(point, &at)) {
                    n += 1.0;
                    sum[0] += point[0];
                    sum[1] += point[1];
                }
                let next = sum.map(|x| x / n);
                let still = (next[0] - at[0]).hypot(next[1] - at[1]) < 1e-3 * width;
                at = next;
                if still {
                    break;
                }
            }
            tops.iter().position(|top| near(top, &at)).unwrap_or_else(|| {
                tops.push(at);
                tops.len() - 1
            })
        })
        .collect()
}

/// Mean Shift converges long before.
const MOST_STEPS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn found(starts_s: &[f64]) -> Vec<(f64, usize)> {
        let operations: Vec<Operation> =
            starts_s.iter().map(|&start_s| Operation { start_s, end_s: start_s + 1.0, bytes: 1e9 }).collect();
        let found = find(&operations, &CategoryThresholds::default());
        found.iter().map(|(period, _)| (period.period_s, period.n_operations)).collect()
    }

    #[test]
    fn segments_alike_are_a_group_wherever_they_lie() {
        assert_eq!(found(&[0.0, 10.0, 20.0, 300.0, 310.0]), [(10.0, 3)]);
    }

    #[test]
    fn the_last_operation_begins_no_segment() {
        assert!(found(&[0.0, 10.0]).is_empty());
        assert_eq!(found(&[0.0, 10.0, 20.0]), [(10.0, 2)]);
        assert!(found(&[5.0]).is_empty() && found(&[]).is_empty());
    }

    #[test]
    fn segments_that_all_differ_are_no_group() {
        assert!(found(&[0.0, 10.0, 30.0, 70.0, 150.0]).is_empty());
    }

    #[test]
    fn each_segment_climbs_by_itself() {
        // 10, 11.5, 13.2: each is comparable with its neighbour, and the three meet at the one in the middle.
        assert_eq!(found(&[0.0, 10.0, 21.5, 34.7]).len(), 1);
    }
}
