//! Small dense least squares: a handful of columns, any number of rows.

/// The coefficients of a fit and how many directions of the columns the data could tell apart.
#[derive(Clone, Debug, PartialEq)]
pub struct LeastSquares {
    /// One coefficient per column; where columns depend on each other, those of least norm.
    pub coefficients: Vec<f64>,
    /// How many singular values were kept.
    pub rank: usize,
}

/// Returns the `β` that minimises `‖y − Σ βⱼ columnⱼ‖`, by singular values of the columns as they are.
///
/// Singular values up to `cutoff` times the largest count as zero (numpy's `rcond`); the columns are not scaled first.
/// Householder reduction to a triangle, then one-sided Jacobi rotations on it (Golub & Van Loan, 5.2 and 8.6): slow for
/// many columns, accurate for few. Returns `None` if a number is not finite or a column's length differs from `y`'s.
pub fn least_squares(columns: &[&[f64]], y: &[f64], cutoff: f64) -> Option<LeastSquares> {
    let n_columns = columns.len();
    if columns.iter().any(|column| column.len() != y.len()) || !y.iter().all(|value| value.is_finite()) {
        return None;
    }
    if columns.iter().any(|column| column.iter().any(|value| !value.is_finite())) {
        return None;
    }
    // With fewer rows than columns, rows of zeros change nothing and keep the triangle square.
    let n_rows = y.len().max(n_columns);
    let padded = |x: &[f64]| {
        let mut x = x.to_vec();
        x.resize(n_rows, 0.0);
        x
    };
    let mut a: Vec<Vec<f64>> = columns.iter().map(|column| padded(column)).collect();
    let mut z = padded(y);
    triangularise(&mut a, &mut z);
    for (j, column) in a.iter_mut().enumerate() {
        column.truncate(n_columns);
        column[j + 1..].fill(0.0);
    }
    z.truncate(n_columns);
    Some(solve_by_singular_values(a, &z, cutoff))
}

/// Householder reflections: the columns become a triangle, `z` the same rotation of itself.
fn triangularise(a: &mut [Vec<f64>], z: &mut [f64]) {
    for j in 0..a.len() {
        let norm = norm(&a[j][j..]);
        if norm == 0.0 {
            continue;
        }
        let mut v = a[j][j..].to_vec();
        v[0] += norm.copysign(v[0]);
        let half_square = dot(&v, &v) / 2.0;
        for column in a[j..].iter_mut().map(Vec::as_mut_slice).chain([&mut *z]) {
            let tail = &mut column[j..];
            let along = dot(&v, tail) / half_square;
            tail.iter_mut().zip(&v).for_each(|(x, v)| *x -= along * v);
        }
    }
}

/// One-sided Jacobi: rotates columns until they are orthogonal; their lengths are the singular values.
fn solve_by_singular_values(mut a: Vec<Vec<f64>>, z: &[f64], cutoff: f64) -> LeastSquares {
    let k = a.len();
    let mut v: Vec<Vec<f64>> = (0..k).map(|j| (0..k).map(|i| f64::from(i == j)).collect()).collect();
    // Quadratic convergence: a handful of columns settle in well under ten sweeps.
    for _ in 0..40 {
        let mut rotated = false;
        for p in 0..k {
            for q in p + 1..k {
                let (alpha, beta, gamma) = (dot(&a[p], &a[p]), dot(&a[q], &a[q]), dot(&a[p], &a[q]));
                if gamma == 0.0 || gamma.abs() <= f64::EPSILON * (alpha * beta).sqrt() {
                    continue;
                }
                rotated = true;
                let zeta = (beta - alpha) / (2.0 * gamma);
                let tangent = zeta.signum() / (zeta.abs() + zeta.hypot(1.0));
                let cosine = 1.0 / tangent.hypot(1.0);
                rotate(&mut a, p, q, cosine, cosine * tangent);
                rotate(&mut v, p, q, cosine, cosine * tangent);
            }
        }
        if !rotated {
            break;
        }
    }
    let singular: Vec<f64> = a.iter().map(|column| norm(column)).collect();
    let largest = singular.iter().copied().fold(0.0, f64::max);
    let mut fit = LeastSquares { coefficients: vec![0.0; k], rank: 0 };
    for ((sigma, u), direction) in singular.iter().zip(&a).zip(&v) {
        if *sigma > cutoff * largest {
            fit.rank += 1;
            let weight = dot(u, z) / sigma / sigma;
            fit.coefficients.iter_mut().zip(direction).for_each(|(c, d)| *c += weight * d);
        }
    }
    fit
}

fn rotate(columns: &mut [Vec<f64>], p: usize, q: usize, cosine: f64, sine: f64) {
    let (left, right) = columns.split_at_mut(q);
    for (x, y) in left[p].iter_mut().zip(&mut right[0]) {
        (*x, *y) = (cosine * *x - sine * *y, sine * *x + cosine * *y);
    }
}

/// Sums in four lanes: one sum would have each addition wait for the last.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a_quads, a_rest) = a.as_chunks::<4>();
    let (b_quads, b_rest) = b.as_chunks::<4>();
    let mut lanes = [0.0; 4];
    for (a, b) in a_quads.iter().zip(b_quads) {
        for ((lane, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *lane += a * b;
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    lanes[0] + lanes[1] + (lanes[2] + lanes[3]) + rest
}

/// Length without overflow: columns may hold `x³ log² x` at the size of a machine.
fn norm(x: &[f64]) -> f64 {
    let square = dot(x, x);
    if square.is_normal() {
        return square.sqrt();
    }
    let largest = x.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
    if largest == 0.0 { 0.0 } else { largest * x.iter().map(|v| (v / largest).powi(2)).sum::<f64>().sqrt() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_through_its_points_is_found() {
        let fit = least_squares(&[&[1.0; 4], &[1.0, 2.0, 3.0, 4.0]], &[5.0, 7.0, 9.0, 11.0], 1e-15).unwrap();
        assert_eq!(fit.rank, 2);
        assert!((fit.coefficients[0] - 3.0).abs() < 1e-12 && (fit.coefficients[1] - 2.0).abs() < 1e-12);
    }

    #[test]
    fn dependent_columns_share_the_weight() {
        let fit = least_squares(&[&[1.0, 1.0], &[1.0, 1.0]], &[4.0, 4.0], 1e-12).unwrap();
        assert_eq!(fit.rank, 1);
        assert!(fit.coefficients.iter().all(|c| (c - 2.0).abs() < 1e-12));
    }

    #[test]
    fn fewer_rows_than_columns_give_the_shortest_answer() {
        let fit = least_squares(&[&[3.0], &[4.0]], &[25.0], 1e-12).unwrap();
        assert!((fit.coefficients[0] - 3.0).abs() < 1e-12 && (fit.coefficients[1] - 4.0).abs() < 1e-12);
    }

    #[test]
    fn what_is_not_finite_has_no_fit() {
        assert_eq!(least_squares(&[&[f64::NAN]], &[1.0], 0.0), None);
        assert_eq!(least_squares(&[&[1.0, 2.0]], &[1.0], 0.0), None);
    }

    proptest! {
        #[test]
        fn the_residual_is_orthogonal_to_every_column(
            rows in prop::collection::vec((-9.0..9.0f64, -9.0..9.0f64, -9.0..9.0f64), 4..20),
        ) {
            let (a, (b, y)): (Vec<f64>, (Vec<f64>, Vec<f64>)) = rows.into_iter().map(|(a, b, y)| (a, (b, y))).unzip();
            let fit = least_squares(&[&a, &b], &y, 1e-14).unwrap();
            let residual: Vec<f64> =
                (0..y.len()).map(|i| y[i] - fit.coefficients[0] * a[i] - fit.coefficients[1] * b[i]).collect();
            prop_assert!(dot(&residual, &a).abs() < 1e-8 && dot(&residual, &b).abs() < 1e-8);
        }
    }
}
