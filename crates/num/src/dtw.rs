//! Dynamic time warping: two series laid along each other, where either may wait for the other.

/// Returns the pairs of points on the cheapest path from both first points to both last points, and its cost
/// `Σ (aᵢ − bⱼ)²` (Sakoe & Chiba, 1978; steps (1,1), (1,0), (0,1) at equal weight).
///
/// With a `band`, pairs lie at most so far from the straight line between the corners (and as far as the line itself
/// jumps, so that there always is a path). Of equally cheap ways the diagonal is taken. `O(|a| · band)` in time and space;
/// `None` if either series is empty.
pub fn dtw_path(a: &[f64], b: &[f64], band: Option<usize>) -> Option<(f64, Vec<(usize, usize)>)> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let slope = b.len() as f64 / a.len() as f64;
    let reach = band.map_or(b.len(), |band| band.max(slope.ceil() as usize + 1).min(b.len()));
    let first_of = |i: usize| ((i as f64 * slope) as usize).saturating_sub(reach).min(b.len() - 1);
    let width = (2 * reach + slope.ceil() as usize + 2).min(b.len());
    // Steps back: 0 diagonal, 1 from the same b, 2 from the same a.
    let mut steps = vec![0u8; a.len() * width];
    // One row of costs, kept by place in b.
    let mut above = vec![f64::INFINITY; b.len() + 1];
    let mut row = vec![f64::INFINITY; b.len() + 1];
    for (i, x) in a.iter().enumerate() {
        let first = first_of(i);
        let end = (first + width).min(b.len());
        row.fill(f64::INFINITY);
        for j in first..end {
            // Place j of `b` is at j + 1, so that there is something before the first.
            let (diagonal, same_b, same_a) = (above[j], above[j + 1], row[j]);
            let (before, step) = if i == 0 && j == 0 {
                (0.0, 0)
            } else if diagonal <= same_b && diagonal <= same_a {
                (diagonal, 0)
            } else if same_b <= same_a {
                (same_b, 1)
            } else {
                (same_a, 2)
            };
            row[j + 1] = before + (x - b[j]).powi(2);
            steps[i * width + j - first] = step;
        }
        std::mem::swap(&mut row, &mut above);
    }
    let cost = above[b.len()];
    let (mut i, mut j) = (a.len() - 1, b.len() - 1);
    let mut path = vec![(i, j)];
    while (i, j) != (0, 0) {
        match steps[i * width + j - first_of(i)] {
            0 => (i, j) = (i - 1, j - 1),
            1 => i -= 1,
            _ => j -= 1,
        }
        path.push((i, j));
    }
    path.reverse();
    Some((cost, path))
}

/// Returns the series of the length of `start` whose summed warped distance to all series is small (DTW barycentre
/// averaging: Petitjean, Ketterlin & Gançarski, 2011).
///
/// Each round lays every series along the average and makes each point the mean of all that fell on it; it ends when
/// nothing changes, or after `rounds`. Empty series do not count.
pub fn dtw_barycentre(series: &[&[f64]], start: &[f64], band: Option<usize>, rounds: usize) -> Vec<f64> {
    let mut average = start.to_vec();
    for _ in 0..rounds {
        let mut sums = vec![(0.0, 0.0); average.len()];
        for x in series {
            for (i, j) in dtw_path(&average, x, band).map_or(Vec::new(), |(_, path)| path) {
                sums[i].0 += x[j];
                sums[i].1 += 1.0;
            }
        }
        let next: Vec<f64> =
            sums.iter().zip(&average).map(|(&(sum, n), &old)| if n > 0.0 { sum / n } else { old }).collect();
        if next == average {
            break;
        }
        average = next;
    }
    average
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The slow twin: the recursion as it is defined.
    fn cost_by_definition(a: &[f64], b: &[f64]) -> f64 {
        match (a, b) {
            ([], []) => 0.0,
            ([], _) | (_, []) => f64::INFINITY,
            ([rest_a @ .., x], [rest_b @ .., y]) => {
                let before = cost_by_definition(rest_a, rest_b)
                    .min(cost_by_definition(rest_a, b))
                    .min(cost_by_definition(a, rest_b));
                before + (x - y).powi(2)
            }
        }
    }

    #[test]
    fn a_burst_that_comes_later_is_waited_for() {
        let (cost, path) = dtw_path(&[0.0, 5.0, 0.0, 0.0], &[0.0, 0.0, 5.0, 0.0], None).unwrap();
        assert_eq!(cost, 0.0);
        assert!(path.contains(&(1, 2)));
        assert_eq!((path[0], path[path.len() - 1]), ((0, 0), (3, 3)));
    }

    #[test]
    fn a_band_limits_how_long_one_may_wait() {
        let (a, b) = ([[5.0].as_slice(), &[0.0; 19]].concat(), [[0.0; 19].as_slice(), &[5.0]].concat());
        let (_, path) = dtw_path(&a, &b, Some(3)).unwrap();
        assert!(path.iter().all(|&(i, j)| i.abs_diff(j) <= 5), "{path:?}");
    }

    #[test]
    fn nothing_cannot_be_laid_along_anything() {
        assert_eq!(dtw_path(&[], &[1.0], None), None);
        assert_eq!(dtw_barycentre(&[&[]], &[1.0], None, 3), [1.0]);
    }

    #[test]
    fn the_barycentre_of_shifted_bursts_is_one_burst() {
        let (a, b) = ([0.0, 4.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 4.0, 0.0]);
        assert_eq!(dtw_barycentre(&[&a, &b], &a, None, 10), a);
    }

    proptest! {
        #[test]
        fn the_cost_equals_its_definition(
            a in prop::collection::vec(-9.0..9.0f64, 1..7),
            b in prop::collection::vec(-9.0..9.0f64, 1..7),
        ) {
            let (cost, path) = dtw_path(&a, &b, None).unwrap();
            prop_assert!((cost - cost_by_definition(&a, &b)).abs() < 1e-9);
            let along: f64 = path.iter().map(|&(i, j)| (a[i] - b[j]).powi(2)).sum();
            prop_assert!((cost - along).abs() < 1e-9);
        }

        #[test]
        fn a_path_goes_from_corner_to_corner_whatever_the_band(
            a in prop::collection::vec(-9.0..9.0f64, 1..60),
            b in prop::collection::vec(-9.0..9.0f64, 1..60),
            band in 0usize..9,
        ) {
            let (cost, path) = dtw_path(&a, &b, Some(band)).unwrap();
            prop_assert!(cost.is_finite());
            prop_assert_eq!((path[0], path[path.len() - 1]), ((0, 0), (a.len() - 1, b.len() - 1)));
            for pair in path.windows(2) {
                let step = (pair[1].0 - pair[0].0, pair[1].1 - pair[0].1);
                prop_assert!([(1, 1), (1, 0), (0, 1)].contains(&step));
            }
        }
    }
}
