//! Starts that are known to within a row: a second of a log, a sample of a daemon, a bin.
//!
//! A beat of two and a half rows falls on rows that are 2, 3, 2, 3 apart, and this pattern keeps a beat of five rows exactly. Distances
//! that rounding explains say nothing against the beat.

use super::steps::{Burst, Steps, usual};

impl Steps {
    /// Returns the width of the rows that a signal consists of: its shortest step, if every change of the bandwidth is a whole number of those after the first.
    pub(crate) fn row_s(&self) -> Option<f64> {
        let mut edges_s = Vec::new();
        let mut before_bps = 0.0;
        for (&time_s, &rate_bps) in self.times_s.iter().zip(&self.rates_bps) {
            // The halves of a request that was cut in two are one row.
            if (rate_bps - before_bps).abs() > SAME_RATE * rate_bps.max(before_bps) {
                edges_s.push(time_s);
            }
            before_bps = rate_bps;
        }
        if edges_s.len() < LEAST_EDGES {
            return None;
        }
        let first_s = edges_s[0];
        let mut row_s = edges_s.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
        for edge_s in &edges_s[1..] {
            let rows = (edge_s - first_s) / row_s;
            if (rows - rows.round()).abs() > OFF_THE_ROWS {
                return None;
            }
            // The further away an edge is, the better it tells how wide the rows are.
            row_s = (edge_s - first_s) / rows.round();
        }
        Some(row_s)
    }
}

/// Returns the bursts where a steady beat has them, if their starts are those of one to within a row and vary for no other reason; `None` otherwise, or if
/// rows are too fine to matter.
pub(super) fn without_rounding(bursts: &[Burst], row_s: f64) -> Option<Vec<Burst>> {
    let n = bursts.len();
    if row_s <= 0.0 || n < FEWEST || are_run_together(bursts) {
        return None;
    }
    let beats = beats_of(bursts, row_s)?;
    let residuals_s =
        |beat_s: f64| bursts.iter().zip(&beats).map(move |(burst, beats)| burst.start_s - beats * beat_s);
    let range_s = |beat_s: f64| {
        let ends = |(least, most): (f64, f64), residual_s: f64| (least.min(residual_s), most.max(residual_s));
        let (least_s, most_s) = residuals_s(beat_s).fold((f64::INFINITY, f64::NEG_INFINITY), ends);
        most_s - least_s
    };
    // Both ends are known to within a row, so the beat to within this; how far starts are off is convex in it.
    let mean_s = (bursts[n - 1].start_s - bursts[0].start_s) / beats[n - 1];
    let off_s = 1.5 * row_s / beats[n - 1];
    let (mut low_s, mut high_s) = (mean_s - off_s, mean_s + off_s);
    for _ in 0..N_NARROWED {
        let third_s = (high_s - low_s) / 3.0;
        if range_s(low_s + third_s) < range_s(high_s - third_s) {
            high_s -= third_s;
        } else {
            low_s += third_s;
        }
    }
    let beat_s = (low_s + high_s) / 2.0;
    let mut sorted_s: Vec<f64> = residuals_s(beat_s).collect();
    sorted_s.sort_unstable_by(f64::total_cmp);
    // Rounding leaves less than a row, never a whole one: rows 2, 4, 2, 4 apart are no beat of three. A jitter adds to that, seldom and little.
    let n_within = |(from, least_s): (usize, &f64)| {
        sorted_s.partition_point(|&residual_s| residual_s < least_s + LESS_THAN_A_ROW * row_s) - from
    };
    let most_within = sorted_s.iter().enumerate().map(n_within).max()?;
    if most_within * 10 < n * 9 || sorted_s[n - 1] - sorted_s[0] > WITH_JITTER * row_s {
        return None;
    }
    let begin_s = sorted_s.iter().sum::<f64>() / n as f64;
    let on_the_beat = |(burst, beats): (&Burst, &f64)| {
        let start_s = begin_s + beats * beat_s;
        Burst { start_s, end_s: start_s + burst.duration_s().min(beat_s), bytes: burst.bytes }
    };
    Some(bursts.iter().zip(&beats).map(on_the_beat).collect())
}

/// Returns which beat each burst is, the first being 0; `None` if its rows are too fine to matter, or cannot be those of one beat, hardly ever missed.
fn beats_of(bursts: &[Burst], row_s: f64) -> Option<Vec<f64>> {
    let distances_s: Vec<f64> = bursts.windows(2).map(|pair| pair[1].start_s - pair[0].start_s).collect();
    let usual_s = usual(distances_s.clone());
    let near: Vec<f64> = distances_s.iter().copied().filter(|d| (d - usual_s).abs() < 1.5 * row_s).collect();
    let beat_s = near.iter().sum::<f64>() / near.len() as f64;
    let (mut beats, mut differ_s) = (vec![0.0], 0.0f64);
    for distance_s in &distances_s {
        let n = (distance_s / beat_s).round().max(1.0);
        differ_s = differ_s.max((distance_s - n * beat_s).abs());
        beats.push(beats[beats.len() - 1] + n);
    }
    let missed = beats[beats.len() - 1] - distances_s.len() as f64;
    let matters = differ_s > UNEVEN * beat_s && differ_s < WITH_JITTER * row_s;
    (matters && missed <= SELDOM * bursts.len() as f64).then_some(beats)
}

/// Whether the longer bursts move as many times the bytes of the shorter ones: then they are several phases in rows side by side, of a faster beat.
fn are_run_together(bursts: &[Burst]) -> bool {
    let shortest_s = bursts.iter().map(Burst::duration_s).fold(f64::INFINITY, f64::min);
    let mean_bytes = |long: bool| {
        let (n, bytes) = (bursts.iter().filter(|burst| (burst.duration_s() > 1.5 * shortest_s) == long))
            .fold((0.0, 0.0), |(n, bytes), burst| (n + 1.0, bytes + burst.bytes));
        bytes / n
    };
    mean_bytes(true) > 1.5 * mean_bytes(false)
}

/// Bandwidths that differ by less than this share are the same.
const SAME_RATE: f64 = 1e-9;
/// Fewer changes are whole numbers of the shortest step at random.
const LEAST_EDGES: usize = 8;
/// How far an edge is from a whole number of rows at most: times are rounded to nanoseconds, and a short row lasts a few of them.
const OFF_THE_ROWS: f64 = 0.01;
/// Fewer starts may lie within a row of a beat at random.
const FEWEST: usize = 6;
/// Distances that differ by less are even enough as they are.
const UNEVEN: f64 = 0.05;
/// Halving of thirds that leaves 10⁻⁷ of a row.
const N_NARROWED: usize = 40;
/// Rounding leaves less of a row than this, whatever the last digit says,
const LESS_THAN_A_ROW: f64 = 0.99;
/// and a jitter seldom more.
const WITH_JITTER: f64 = 1.25;
/// A tenth of the beats may be missing. More, and any pattern of rows is one of some beat.
const SELDOM: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_num::SplitMix64;

    fn rows(starts: impl IntoIterator<Item = f64>) -> Vec<Burst> {
        starts.into_iter().map(|start_s| Burst { start_s, end_s: start_s + 1.0, bytes: 1e6 }).collect()
    }

    #[test]
    fn rounding_of_a_steady_beat_is_taken_back_whatever_pattern_it_makes() {
        for beat_s in [2.1, 2.25, 2.5, 8.0 / 3.0, 3.3, 3.5, 4.75, 6.5, 7.123, 9.5] {
            for offset in [0.0, 0.3, 0.77] {
                for n in [7, 12, 60, 301] {
                    let bursts = rows((0..n).map(|i| (f64::from(i) * beat_s + offset).floor()));
                    if bursts.windows(2).all(|pair| pair[1].start_s - pair[0].start_s == beat_s.round()) {
                        continue;
                    }
                    let found = without_rounding(&bursts, 1.0).unwrap_or_else(|| panic!("{beat_s} s, {n}"));
                    let found_s = found[1].start_s - found[0].start_s;
                    assert!(
                        (found_s - beat_s).abs() < 1.0 / f64::from(n - 1),
                        "{beat_s} s: {found_s} s of {n}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_beat_may_be_missed_and_a_jitter_reach_into_the_next_row() {
        let mut random = SplitMix64::new(3);
        for _ in 0..50 {
            let mut starts: Vec<f64> =
                (0..60).map(|i| (f64::from(i) * 2.5 + 0.3 + 0.05 * random.normal()).floor()).collect();
            starts.remove(20 + (random.next() % 20) as usize);
            let found = without_rounding(&rows(starts), 1.0).unwrap();
            assert!((found[1].start_s - found[0].start_s - 2.5).abs() < 0.01);
        }
    }

    #[test]
    fn what_rounding_cannot_explain_stays() {
        let in_turn =
            |a: f64, b: f64| rows((0..40).map(|i| f64::from(i / 2) * (a + b) + f64::from(i % 2) * a));
        for (a, b) in [(2.0, 4.0), (3.0, 5.0), (2.0, 8.0), (72.0, 48.0), (4.0, 7.0)] {
            assert_eq!(without_rounding(&in_turn(a, b), 1.0), None, "{a} and {b} rows in turn");
        }
        // Nor without rows.
        assert_eq!(without_rounding(&in_turn(2.0, 3.0), 0.0), None);
    }
}
