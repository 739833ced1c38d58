//! Density clustering: groups of points that lie close to many others (Ester, Kriegel, Sander & Xu, 1996).
//!
//! A point with at least `min_points` points (itself among them) no further than `eps` away is a core. Cores no
//! further apart than `eps` share a cluster; any other point within `eps` of a core joins its cluster; the rest is noise.

use std::collections::HashMap;

/// Returns the cluster of each value, or `None` for noise, in `O(n log n)`.
///
/// Clusters are numbered by their first core in the order given, and a value on the border of two joins the lower
/// number, as in the original. Without reach (`eps` not positive) only equal values meet.
pub fn dbscan_line(x: &[f64], eps: f64, min_points: usize) -> Vec<Option<usize>> {
    let eps = eps.max(0.0);
    let mut order: Vec<usize> = (0..x.len()).collect();
    order.sort_unstable_by(|&a, &b| x[a].total_cmp(&x[b]));
    let sorted: Vec<f64> = order.iter().map(|&i| x[i]).collect();

    // Two fingers: `from..to` are the values within reach of the one in the middle.
    let (mut from, mut to) = (0, 0);
    let is_core: Vec<bool> = sorted
        .iter()
        .enumerate()
        .map(|(i, &value)| {
            while from < i && value - sorted[from] > eps {
                from += 1;
            }
            to = to.max(i + 1);
            while to < sorted.len() && sorted[to] - value <= eps {
                to += 1;
            }
            to - from >= min_points
        })
        .collect();

    // Neighbouring cores belong together if they are within reach; everything between them does as well.
    let mut groups = vec![None; x.len()];
    let mut n_groups = 0;
    let mut last_core: Option<usize> = None;
    for i in (0..sorted.len()).filter(|&i| is_core[i]) {
        if last_core.is_none_or(|last| sorted[i] - sorted[last] > eps) {
            n_groups += 1;
        }
        groups[order[i]] = Some(n_groups - 1);
        last_core = Some(i);
    }
    let numbers = number_by_first(&groups, n_groups);
    let mut labels: Vec<Option<usize>> =
        groups.iter().map(|group| group.map(|group| numbers[group])).collect();

    for i in (0..sorted.len()).filter(|&i| !is_core[i]) {
        // Fewer than `min_points` values are within reach, so those beside it in order are all there can be.
        labels[order[i]] = (i.saturating_sub(min_points)..(i + 1 + min_points).min(sorted.len()))
            .filter(|&j| is_core[j] && (sorted[j] - sorted[i]).abs() <= eps)
            .filter_map(|j| groups[order[j]].map(|group| numbers[group]))
            .min();
    }
    labels
}

/// Returns the cluster of each point of the plane, or `None` for noise.
///
/// Numbered as in [`dbscan_line`]. The plane is cut into squares whose diagonal is `eps` (Gunawan, 2013): points of one
/// square are all within reach of each other, so a dense cluster costs its squares and not its pairs. Near `O(n log n)`
/// unless many squares with few points lie side by side.
pub fn dbscan_plane(points: &[(f64, f64)], eps: f64, min_points: usize) -> Vec<Option<usize>> {
    let furthest = points.iter().fold(0.0f64, |most, point| most.max(point.0.abs()).max(point.1.abs()));
    // Squares must be countable. Where they are not (no reach at all, or none beside the coordinates), pairs are.
    if !(eps > furthest * 1e-12 && eps.is_finite()) {
        return dbscan_by_definition(points, eps, min_points);
    }
    let squares = Squares::new(points, eps);
    let is_near = |a: usize, b: usize| is_near(points[a], points[b], eps);

    let mut is_core = vec![false; points.len()];
    for (s, members) in squares.members.iter().enumerate() {
        for &i in members {
            is_core[i] = members.len() >= min_points
                || squares
                    .around(s)
                    .flat_map(|t| squares.within_x(t, points, i, eps))
                    .filter(|&&j| is_near(i, j))
                    .nth(min_points.saturating_sub(1))
                    .is_some();
        }
    }

    let mut groups = Groups::new(squares.members.len());
    for (s, members) in squares.members.iter().enumerate() {
        if !members.iter().any(|&i| is_core[i]) {
            continue;
        }
        for t in squares.around(s).filter(|&t| t != s) {
            // Most neighbours are joined already, through the squares between them.
            if groups.root(s) == groups.root(t) {
                continue;
            }
            let touch =
                members.iter().rev().filter(|&&i| is_core[i]).any(|&i| {
                    squares.within_x(t, points, i, eps).iter().any(|&j| is_core[j] && is_near(i, j))
                });
            if touch {
                groups.join(s, t);
            }
        }
    }

    let by_core: Vec<Option<usize>> =
        (0..points.len()).map(|i| is_core[i].then(|| groups.root(squares.of_point[i]))).collect();
    let numbers = number_by_first(&by_core, squares.members.len());
    (0..points.len())
        .map(|i| match by_core[i] {
            Some(group) => Some(numbers[group]),
            None => squares
                .around(squares.of_point[i])
                .flat_map(|t| squares.within_x(t, points, i, eps))
                .filter(|&&j| is_core[j] && is_near(i, j))
                .filter_map(|&j| by_core[j].map(|group| numbers[group]))
                .min(),
        })
        .collect()
}

/// The slow twin of [`dbscan_plane`], `O(n²)`: the definition, for tests and for teaching.
pub fn dbscan_by_definition(points: &[(f64, f64)], eps: f64, min_points: usize) -> Vec<Option<usize>> {
    let near = |i: usize| (0..points.len()).filter(move |&j| is_near(points[i], points[j], eps));
    let is_core: Vec<bool> = (0..points.len()).map(|i| near(i).count() >= min_points).collect();
    let mut labels = vec![None; points.len()];
    let mut n_clusters = 0;
    for seed in 0..points.len() {
        if labels[seed].is_some() || !is_core[seed] {
            continue;
        }
        labels[seed] = Some(n_clusters);
        let mut open = vec![seed];
        while let Some(i) = open.pop() {
            for j in near(i) {
                if labels[j].is_none() {
                    labels[j] = Some(n_clusters);
                    if is_core[j] {
                        open.push(j);
                    }
                }
            }
        }
        n_clusters += 1;
    }
    labels
}

fn is_near(a: (f64, f64), b: (f64, f64), eps: f64) -> bool {
    // A point is always near itself, whatever `eps`; NaN is near nothing else.
    a == b || (a.0 - b.0).hypot(a.1 - b.1) <= eps
}

/// Numbers groups by the first point that belongs to them.
fn number_by_first(groups: &[Option<usize>], n_groups: usize) -> Vec<usize> {
    let mut numbers = vec![usize::MAX; n_groups];
    let mut n_seen = 0;
    for &group in groups.iter().flatten() {
        if numbers[group] == usize::MAX {
            numbers[group] = n_seen;
            n_seen += 1;
        }
    }
    numbers
}

/// The plane cut into squares with a diagonal of `eps`; only those with points exist.
struct Squares {
    cells: Vec<(i64, i64)>,
    by_cell: HashMap<(i64, i64), usize>,
    /// The points of each square, by ascending x.
    members: Vec<Vec<usize>>,
    of_point: Vec<usize>,
}

impl Squares {
    fn new(points: &[(f64, f64)], eps: f64) -> Self {
        // A hair smaller than eps/√2, so that rounding never puts two points of a square out of reach.
        let side = eps / std::f64::consts::SQRT_2 * (1.0 - 1e-9);
        let mut order: Vec<usize> = (0..points.len()).collect();
        order.sort_unstable_by(|&a, &b| points[a].0.total_cmp(&points[b].0));
        let mut squares = Self {
            cells: Vec::new(),
            by_cell: HashMap::new(),
            members: Vec::new(),
            of_point: vec![0; points.len()],
        };
        for i in order {
            let cell = ((points[i].0 / side).floor() as i64, (points[i].1 / side).floor() as i64);
            let s = *squares.by_cell.entry(cell).or_insert_with(|| {
                squares.cells.push(cell);
                squares.members.push(Vec::new());
                squares.members.len() - 1
            });
            squares.members[s].push(i);
            squares.of_point[i] = s;
        }
        squares
    }

    /// The squares that may hold points within reach of square `s`, itself first, then the nearest.
    fn around(&self, s: usize) -> impl Iterator<Item = usize> + '_ {
        let (x, y) = self.cells[s];
        NEAREST_FIRST.iter().filter_map(move |&(dx, dy)| {
            self.by_cell.get(&(x.saturating_add(dx), y.saturating_add(dy))).copied()
        })
    }

    /// The points of square `t` whose x lies within `eps` of point `i`.
    fn within_x(&self, t: usize, points: &[(f64, f64)], i: usize, eps: f64) -> &[usize] {
        let members = &self.members[t];
        let x = points[i].0;
        let from = members.partition_point(|&j| x - points[j].0 > eps);
        let to = members.partition_point(|&j| points[j].0 - x <= eps);
        &members[from.min(to)..to]
    }
}

/// Offsets of the 5 × 5 squares around one, by distance. The corners can lie within reach only by rounding, and cost
/// little.
const NEAREST_FIRST: [(i64, i64); 25] = [
    (0, 0),
    (-1, 0),
    (1, 0),
    (0, -1),
    (0, 1),
    (-1, -1),
    (-1, 1),
    (1, -1),
    (1, 1),
    (-2, 0),
    (2, 0),
    (0, -2),
    (0, 2),
    (-2, -1),
    (-2, 1),
    (2, -1),
    (2, 1),
    (-1, -2),
    (-1, 2),
    (1, -2),
    (1, 2),
    (-2, -2),
    (-2, 2),
    (2, -2),
    (2, 2),
];

/// Disjoint sets with path halving.
struct Groups(Vec<usize>);

impl Groups {
    fn new(n: usize) -> Self {
        Self((0..n).collect())
    }

    fn root(&mut self, mut i: usize) -> usize {
        while self.0[i] != i {
            self.0[i] = self.0[self.0[i]];
            i = self.0[i];
        }
        i
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.0[a.max(b)] = a.min(b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn two_groups_and_a_loner() {
        let x = [10.0, 1.0, 1.5, 99.0, 10.4, 2.0];
        assert_eq!(dbscan_line(&x, 0.5, 2), [Some(0), Some(1), Some(1), None, Some(0), Some(1)]);
    }

    #[test]
    fn no_points_have_no_clusters() {
        assert!(dbscan_line(&[], 1.0, 2).is_empty());
        assert!(dbscan_plane(&[], 1.0, 2).is_empty());
    }

    #[test]
    fn without_reach_only_equal_points_meet() {
        assert_eq!(dbscan_line(&[1.0, 1.0, 2.0], 0.0, 2), [Some(0), Some(0), None]);
        assert_eq!(dbscan_plane(&[(1.0, 0.0), (1.0, 0.0), (2.0, 0.0)], 0.0, 2), [Some(0), Some(0), None]);
    }

    proptest! {
        #[test]
        fn the_line_equals_the_definition(
            x in prop::collection::vec(prop_oneof![(0..40i32).prop_map(f64::from), 0.0..40.0f64], 0..60),
            eps in 0.0..4.0f64,
            min_points in 1..6usize,
        ) {
            let points: Vec<_> = x.iter().map(|&x| (x, 0.0)).collect();
            prop_assert_eq!(dbscan_line(&x, eps, min_points), dbscan_by_definition(&points, eps, min_points));
        }

        #[test]
        fn the_plane_equals_the_definition(
            points in prop::collection::vec((-6.0..6.0f64, -6.0..6.0f64), 0..80),
            eps in 0.1..3.0f64,
            min_points in 1..6usize,
        ) {
            prop_assert_eq!(dbscan_plane(&points, eps, min_points), dbscan_by_definition(&points, eps, min_points));
        }
    }
}
