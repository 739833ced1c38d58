//! Values and points that stand apart from the rest.

use crate::random::SplitMix64;
use crate::stats::{mean, median, median_absolute_deviation, population_std};

/// Returns the Z-scores `(xᵢ − x̄) / σ`, with the standard deviation of the population.
///
/// If all values are one value, as far as rounding can tell, there is no spread to measure by: returns `None`.
pub fn z_scores(x: &[f64]) -> Option<Vec<f64>> {
    let (centre, spread) = (mean(x), population_std(x));
    let largest = x.iter().fold(0.0f64, |most, value| most.max(value.abs()));
    (spread > largest * ROUNDING).then(|| x.iter().map(|value| (value - centre) / spread).collect())
}

/// Relative differences below this are the rounding of sums and transforms.
const ROUNDING: f64 = 1e-12;

/// Returns the modified Z-scores `0.6745 (xᵢ − x̃) / MAD` (Iglewicz & Hoaglin, 1993).
///
/// If more than half of `x` is one value, MAD is 0 and no score exists: returns `None`.
pub fn modified_z_scores(x: &[f64]) -> Option<Vec<f64>> {
    let (centre, spread) = (median(x)?, median_absolute_deviation(x)?);
    (spread > 0.0).then(|| x.iter().map(|value| 0.6745 * (value - centre) / spread).collect())
}

/// Returns the local outlier factor of each point with its `k` nearest neighbours (Breunig, Kriegel, Ng & Sander, 2000).
///
/// About 1 within a cluster of any density, larger for points whose neighbours live closer together than they do.
/// Exactly `k` neighbours count (of equally far ones those with the smaller x, then index); `k` is held to `1..n`.
/// Fewer than two points have no neighbours: all factors are 1. Points on top of each other are taken as a
/// ten-billionth of the extent apart, so that factors stay finite.
///
/// Neighbours are sought along x: `O(n log n + nk)` on a line or in a plane that is much wider than high, as spectra
/// are, and up to `O(n²)` for points above each other.
pub fn local_outlier_factors(points: &[(f64, f64)], k: usize) -> Vec<f64> {
    factors(points, k, nearest_along_x)
}

/// [`local_outlier_factors`] of points on a line, `O(n log n + nk)`.
pub fn local_outlier_factors_on_line(x: &[f64], k: usize) -> Vec<f64> {
    local_outlier_factors(&x.iter().map(|&x| (x, 0.0)).collect::<Vec<_>>(), k)
}

/// A neighbour: its distance, and its place in the points sorted by x.
type Neighbour = (f64, usize);

fn factors(
    points: &[(f64, f64)],
    k: usize,
    nearest: impl Fn(&[(f64, f64)], usize, usize, &mut Vec<Neighbour>),
) -> Vec<f64> {
    let n = points.len();
    if n < 2 {
        return vec![1.0; n];
    }
    let k = k.clamp(1, n - 1);
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| points[a].0.total_cmp(&points[b].0));
    let sorted: Vec<_> = order.iter().map(|&i| points[i]).collect();

    let mut neighbours: Vec<Neighbour> = Vec::with_capacity(n * k);
    let mut found = Vec::with_capacity(k + 1);
    for i in 0..n {
        nearest(&sorted, i, k, &mut found);
        neighbours.extend(&found);
    }
    let neighbours_of = |i: usize| &neighbours[i * k..(i + 1) * k];
    let k_distance = |i: usize| neighbours_of(i)[k - 1].0;

    let extent = |of: fn(&(f64, f64)) -> f64| {
        let (low, high) = sorted
            .iter()
            .map(of)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        high - low
    };
    let least = (extent(|point| point.0).max(extent(|point| point.1)) * 1e-10).max(f64::MIN_POSITIVE * 1e20);
    // How far it is to the neighbours, where nobody is closer than the other one's own neighbourhood is wide.
    let reach: Vec<f64> = (0..n)
        .map(|i| {
            let sum: f64 = neighbours_of(i).iter().map(|&(distance, j)| distance.max(k_distance(j))).sum();
            (sum / k as f64).max(least)
        })
        .collect();
    let mut factors = vec![1.0; n];
    for i in 0..n {
        // Density is 1 / reach, so the neighbours' density over the own is the own reach over theirs.
        let sum: f64 = neighbours_of(i).iter().map(|&(_, j)| reach[i] / reach[j]).sum();
        factors[order[i]] = sum / k as f64;
    }
    factors
}

/// Walks away from `i` on both sides until nothing closer can come.
fn nearest_along_x(sorted: &[(f64, f64)], i: usize, k: usize, found: &mut Vec<Neighbour>) {
    found.clear();
    let here = sorted[i];
    let (mut below, mut above) = (i, i + 1);
    loop {
        let left = below.checked_sub(1).map(|j| (here.0 - sorted[j].0, j));
        let right = (above < sorted.len()).then(|| (sorted[above].0 - here.0, above));
        let (gap, j) = match (left, right) {
            (Some(left), Some(right)) if left.0 <= right.0 => left,
            (Some(left), None) => left,
            (_, Some(right)) => right,
            (None, None) => return,
        };
        if found.len() == k && gap > found[k - 1].0 {
            return;
        }
        if j < i {
            below -= 1;
        } else {
            above += 1;
        }
        let neighbour = (distance(here, sorted[j]), j);
        if found.len() < k || is_closer(&neighbour, &found[k - 1]) {
            let at = found.partition_point(|other| is_closer(other, &neighbour));
            found.insert(at, neighbour);
            found.truncate(k);
        }
    }
}

fn distance(a: (f64, f64), b: (f64, f64)) -> f64 {
    let (dx, dy) = (a.0 - b.0, a.1 - b.1);
    (dx * dx + dy * dy).sqrt()
}

fn is_closer(a: &Neighbour, b: &Neighbour) -> bool {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)).is_lt()
}

/// Returns the anomaly score of each point in an isolation forest (Liu, Ting & Zhou, 2008): the closer to 1, the fewer
/// random cuts set the point apart; well below 0.5 for points deep inside.
///
/// As published: 100 trees, each grown on 256 points drawn without repetition to a depth of log₂ 256; each cut picks a
/// coordinate at random among those that still vary, and a value uniformly between its extremes. The same seed gives
/// the same scores. Fewer than two points cannot be set apart: all scores are 0.5.
pub fn isolation_scores(points: &[(f64, f64)], seed: u64) -> Vec<f64> {
    const N_TREES: usize = 100;
    const SAMPLE: usize = 256;

    if points.len() < 2 {
        return vec![0.5; points.len()];
    }
    let mut random = SplitMix64::new(seed);
    let sample_size = points.len().min(SAMPLE);
    let most_cuts = sample_size.next_power_of_two().trailing_zeros();
    let mut depths = vec![0.0; points.len()];
    let mut deck: Vec<usize> = (0..points.len()).collect();
    for _ in 0..N_TREES {
        // The first cards of a shuffle; the deck may stay as it is, any order is as good a start.
        for i in 0..sample_size {
            let j = i + random.below(deck.len() - i);
            deck.swap(i, j);
        }
        let mut sample: Vec<_> = deck[..sample_size].iter().map(|&i| points[i]).collect();
        let tree = Tree::grow(&mut sample, most_cuts, &mut random);
        for (depth, &point) in depths.iter_mut().zip(points) {
            *depth += tree.depth_of(point);
        }
    }
    let usual = usual_depth(sample_size);
    depths.iter().map(|depth| (-depth / N_TREES as f64 / usual).exp2()).collect()
}

/// The mean depth at which a search for one of `n` values in a random binary tree ends without finding it.
fn usual_depth(n: usize) -> f64 {
    const EULER_GAMMA: f64 = 0.577_215_664_901_532_9;
    match n {
        0 | 1 => 0.0,
        2 => 1.0,
        n => {
            let n = n as f64;
            2.0 * ((n - 1.0).ln() + EULER_GAMMA) - 2.0 * (n - 1.0) / n
        }
    }
}

struct Tree(Vec<Node>);

enum Node {
    /// Points with less than `at` in the coordinate go to the next node, the others to node `right`.
    Cut { in_y: bool, at: f64, right: usize },
    /// Where the search ends: how deep that is, with what the cuts left together would have taken.
    Leaf { depth: f64 },
}

impl Tree {
    fn grow(sample: &mut [(f64, f64)], most_cuts: u32, random: &mut SplitMix64) -> Self {
        let mut nodes = Vec::with_capacity(2 * sample.len());
        Self::grow_into(&mut nodes, sample, 0, most_cuts, random);
        Self(nodes)
    }

    fn grow_into(
        nodes: &mut Vec<Node>,
        sample: &mut [(f64, f64)],
        depth: u32,
        most_cuts: u32,
        random: &mut SplitMix64,
    ) {
        let range = |of: fn(&(f64, f64)) -> f64| {
            sample.iter().map(of).fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
                (low.min(value), high.max(value))
            })
        };
        let (x, y) = (range(|point| point.0), range(|point| point.1));
        let in_y = match (x.0 < x.1, y.0 < y.1) {
            (true, true) => random.next() & 1 == 1,
            (false, true) => true,
            (true, false) => false,
            (false, false) => return nodes.push(Node::leaf(depth, sample.len())),
        };
        if depth == most_cuts {
            return nodes.push(Node::leaf(depth, sample.len()));
        }
        let (low, high) = if in_y { y } else { x };
        // Never the lowest value itself, so that both sides have points.
        let at = (low + (high - low) * (1.0 - random.unit())).min(high);
        let n_left = {
            let mut n_left = 0;
            for i in 0..sample.len() {
                if value(sample[i], in_y) < at {
                    sample.swap(i, n_left);
                    n_left += 1;
                }
            }
            n_left
        };
        let this = nodes.len();
        nodes.push(Node::Cut { in_y, at, right: 0 });
        let (left, right) = sample.split_at_mut(n_left);
        Self::grow_into(nodes, left, depth + 1, most_cuts, random);
        let first_right = nodes.len();
        if let Node::Cut { right, .. } = &mut nodes[this] {
            *right = first_right;
        }
        Self::grow_into(nodes, right, depth + 1, most_cuts, random);
    }

    fn depth_of(&self, point: (f64, f64)) -> f64 {
        let mut i = 0;
        loop {
            match self.0[i] {
                Node::Cut { in_y, at, right } => i = if value(point, in_y) < at { i + 1 } else { right },
                Node::Leaf { depth } => return depth,
            }
        }
    }
}

impl Node {
    fn leaf(depth: u32, n_left_together: usize) -> Self {
        Self::Leaf { depth: f64::from(depth) + usual_depth(n_left_together) }
    }
}

fn value(point: (f64, f64), in_y: bool) -> f64 {
    if in_y { point.1 } else { point.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn z_scores_are_counted_in_standard_deviations() {
        assert_eq!(z_scores(&[1.0, 3.0]), Some(vec![-1.0, 1.0]));
    }

    #[test]
    fn values_without_spread_have_no_scores() {
        for x in [&[][..], &[5.0], &[0.1, 0.1, 0.1], &[0.0; 4]] {
            assert_eq!(z_scores(x), None, "{x:?}");
            assert_eq!(modified_z_scores(x), None, "{x:?}");
        }
    }

    #[test]
    fn one_wild_value_does_not_hide_itself_from_the_modified_score() {
        let x = [2.1, 2.6, 2.4, 2.5, 2.3, 2.1, 2.3, 2.6, 8.2, 8.3];
        let scores = modified_z_scores(&x).unwrap();
        assert!(scores[..8].iter().all(|score| score.abs() < 3.5));
        assert!(scores[8..].iter().all(|&score| score > 3.5));
        assert!(z_scores(&x).unwrap().iter().all(|score| score.abs() < 3.0));
    }

    fn points() -> impl Strategy<Value = Vec<(f64, f64)>> {
        let coordinate = || prop_oneof![(0..6i32).prop_map(f64::from), 0.0..6.0f64];
        prop::collection::vec((coordinate(), coordinate()), 0..50)
    }

    /// The slow twin: all distances, sorted.
    fn nearest_by_definition(sorted: &[(f64, f64)], i: usize, k: usize, found: &mut Vec<Neighbour>) {
        found.clear();
        found.extend((0..sorted.len()).filter(|&j| j != i).map(|j| (distance(sorted[i], sorted[j]), j)));
        found.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        found.truncate(k);
    }

    proptest! {
        #[test]
        fn neighbours_along_x_are_the_nearest_of_all(points in points(), k in 1..12usize) {
            let fast = local_outlier_factors(&points, k);
            prop_assert!(fast.iter().all(|factor| factor.is_finite() && *factor > 0.0));
            prop_assert_eq!(fast, factors(&points, k, nearest_by_definition));
        }

        #[test]
        fn isolation_scores_are_repeatable_shares(points in points(), seed in any::<u64>()) {
            let scores = isolation_scores(&points, seed);
            prop_assert!(scores.iter().all(|score| (0.0..=1.0).contains(score)));
            prop_assert_eq!(scores, isolation_scores(&points, seed));
        }
    }

    #[test]
    fn a_point_beside_a_dense_group_is_a_local_outlier() {
        // A dense group, a wide one, and a point that is near the dense one by the wide one's measure.
        let mut x: Vec<f64> = (0..30).map(|i| f64::from(i) * 0.01).collect();
        x.extend((0..30).map(|i| 100.0 + f64::from(i)));
        x.push(1.3);
        let factors = local_outlier_factors_on_line(&x, 5);
        assert!(factors[60] > 10.0);
        assert!(factors[..60].iter().all(|&factor| factor < 1.8));
    }

    #[test]
    fn points_on_top_of_each_other_are_no_outliers() {
        assert_eq!(local_outlier_factors_on_line(&[3.0; 9], 4), [1.0; 9]);
        assert!(isolation_scores(&[(1.0, 1.0); 9], 0).iter().all(|score| (score - 0.5).abs() < 1e-12));
    }

    #[test]
    fn one_point_far_from_all_others_is_set_apart_first() {
        let mut points: Vec<_> = (0..200).map(|i| (f64::from(i) / 200.0, 0.01 * f64::from(i % 7))).collect();
        points[123].1 = 1.0;
        let scores = isolation_scores(&points, 42);
        let highest = (0..points.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap();
        assert_eq!(highest, 123);
        assert!(scores[123] > 0.6 && scores[60] < 0.5, "{} {}", scores[123], scores[60]);
    }
}
