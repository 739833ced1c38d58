//! A function of one parameter with fitted coefficients and its cost, computed once and never unset.

use iotide_num::least_squares;

use crate::term::{Function, Shape};

/// One shape fitted to a line of points; it exists only once it is fitted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hypothesis {
    pub(crate) constant: f64,
    /// Coefficient and shape of the term, or `None` for a constant function.
    pub(crate) term: Option<(f64, Shape)>,
    pub(crate) costs: Costs,
}

impl Hypothesis {
    pub(crate) fn function(&self) -> Function {
        match self.term {
            Some((coefficient, shape)) => Function::of_one(self.constant, coefficient, shape),
            None => Function::constant(self.constant),
        }
    }
}

/// How far a function is from the points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Costs {
    /// Residual sum of squares.
    pub(crate) rss: f64,
    /// Symmetric mean absolute percentage error, 0 to 200.
    pub(crate) smape: f64,
    /// Root of the RSS over the mean of the values; cross-validated: summed over folds as Extra-P does.
    pub(crate) normalised_rss: f64,
    /// Share of the variance explained, corrected for the number of terms.
    pub(crate) adjusted_r2: f64,
}

/// The points of one line, with what every hypothesis on it needs.
pub(crate) struct Line<'a> {
    pub(crate) xs: &'a [f64],
    pub(crate) ys: &'a [f64],
    ones: Vec<f64>,
    folds: Vec<Fold>,
}

/// The values without one of them.
struct Fold {
    mean: f64,
    minimum: f64,
}

impl<'a> Line<'a> {
    pub(crate) fn new(xs: &'a [f64], ys: &'a [f64]) -> Self {
        let others =
            |left_out: usize| ys.iter().enumerate().filter(move |(j, _)| *j != left_out).map(|(_, y)| *y);
        let folds = (0..ys.len())
            .map(|i| Fold {
                mean: others(i).sum::<f64>() / (ys.len() as f64 - 1.0),
                minimum: others(i).fold(f64::INFINITY, f64::min),
            })
            .collect();
        Self { xs, ys, ones: vec![1.0; ys.len()], folds }
    }

    pub(crate) fn constant(&self) -> Hypothesis {
        let constant = self.ys.iter().sum::<f64>() / self.ys.len() as f64;
        let costs = in_sample_costs(self.ys.iter().map(|y| (constant, *y)), self.ys.len());
        Hypothesis { constant, term: None, costs: Costs { adjusted_r2: 1.0, ..costs } }
    }

    /// Fits `constant + coefficient · shape`, costs by leaving out one point at a time.
    ///
    /// `column` is the shape at every `x`. The RSS and adjusted R² are those of the points left out.
    pub(crate) fn cross_validated(&self, shape: Shape, column: &[f64], constant_rss: f64) -> Hypothesis {
        let n = self.ys.len();
        let mut costs = Costs { rss: 0.0, smape: 0.0, normalised_rss: 0.0, adjusted_r2: 0.0 };
        for (left_out, fold) in self.folds.iter().enumerate() {
            let (mut constant, coefficient) = self.straight_line(column, Some(left_out), fold.mean);
            if is_negligible_constant(constant, fold.minimum, 5e-4) {
                constant = 0.0;
            }
            let (predicted, actual) = (constant + coefficient * column[left_out], self.ys[left_out]);
            let gap = predicted - actual;
            costs.rss += gap * gap;
            costs.normalised_rss += costs.rss.sqrt() / fold.mean / n as f64;
            let size = predicted.abs() + actual.abs();
            if size != 0.0 {
                costs.smape += (gap.abs() / size * 2.0) / n as f64 * 100.0;
            }
        }
        let mean = self.ys.iter().sum::<f64>() / n as f64;
        let (constant, coefficient) = self.straight_line(column, None, mean);
        costs.adjusted_r2 = adjusted_r2(costs.rss, constant_rss, n, 1);
        Hypothesis { constant, term: Some((coefficient, shape)), costs }
    }

    /// Fits `constant + coefficient · shape`, costs at the points themselves.
    pub(crate) fn in_sample(&self, shape: Shape, column: &[f64], constant_rss: f64) -> Hypothesis {
        let n = self.ys.len();
        let mean = self.ys.iter().sum::<f64>() / n as f64;
        let (mut constant, coefficient) = self.straight_line(column, None, mean);
        let minimum = self.ys.iter().copied().fold(f64::INFINITY, f64::min);
        if is_negligible_constant(constant, minimum, 1e-3) {
            constant = 0.0;
        }
        let pairs = column.iter().zip(self.ys).map(|(t, y)| (constant + coefficient * t, *y));
        let mut costs = in_sample_costs(pairs, n);
        costs.adjusted_r2 = adjusted_r2(costs.rss, constant_rss, n, 1);
        Hypothesis { constant, term: Some((coefficient, shape)), costs }
    }

    /// The most that the term makes up of any value; NaN if that is undefined somewhere.
    pub(crate) fn contribution(&self, coefficient: f64, column: &[f64]) -> f64 {
        largest_share(coefficient, column, self.ys)
    }

    /// Least squares of `y ≈ c₀ + c₁ t`, with the point `left_out` left out and `y_mean` the mean of the rest.
    fn straight_line(&self, column: &[f64], left_out: Option<usize>, y_mean: f64) -> (f64, f64) {
        let n = (column.len() - usize::from(left_out.is_some())) as f64;
        let skip = left_out.unwrap_or(usize::MAX);
        let mut sum = 0.0;
        for (j, t) in column.iter().enumerate() {
            if j != skip {
                sum += t;
            }
        }
        let t_mean = sum / n;
        let (mut tt, mut ty) = (0.0, 0.0);
        for (j, (t, y)) in column.iter().zip(self.ys).enumerate() {
            if j != skip {
                let t = t - t_mean;
                tt += t * t;
                ty += t * (y - y_mean);
            }
        }
        // Singular values of the columns [1, t]: σ₁² + σ₂² is their square sum, (σ₁ σ₂)² their determinant n·tt.
        let squares = n + tt + n * t_mean * t_mean;
        let largest = 0.5 * (squares + (squares * squares - 4.0 * n * tt).max(0.0).sqrt());
        let cutoff = f64::EPSILON * n.max(2.0);
        if (n * tt).sqrt() > cutoff * largest {
            let coefficient = ty / tt;
            return (y_mean - coefficient * t_mean, coefficient);
        }
        // The columns look alike, or one dwarfs the other: the answer of least norm.
        let rest = |x: &[f64]| -> Vec<f64> {
            x.iter().enumerate().filter(|(j, _)| *j != skip).map(|(_, x)| *x).collect()
        };
        let (ones, t, y) = (rest(&self.ones), rest(column), rest(self.ys));
        match least_squares(&[&ones, &t], &y, cutoff) {
            Some(fit) => (fit.coefficients[0], fit.coefficients[1]),
            None => (f64::NAN, f64::NAN),
        }
    }
}

/// A constant far below the least value is rounding, not a cost.
fn is_negligible_constant(constant: f64, minimum: f64, share: f64) -> bool {
    if minimum == 0.0 { constant.abs() < share } else { (constant / minimum).abs() < share }
}

/// Costs at the points themselves, from pairs of predicted and actual value; adjusted R² is left at 0.
pub(crate) fn in_sample_costs(pairs: impl Iterator<Item = (f64, f64)>, n: usize) -> Costs {
    let (mut rss, mut smape, mut sum) = (0.0, 0.0, 0.0);
    for (predicted, actual) in pairs {
        let gap = predicted - actual;
        rss += gap * gap;
        sum += actual;
        let size = predicted.abs() + actual.abs();
        if size != 0.0 {
            smape += gap.abs() / size * 2.0;
        }
    }
    let n = n as f64;
    Costs { rss, smape: smape / n * 100.0, normalised_rss: rss.sqrt() / (sum / n), adjusted_r2: 0.0 }
}

/// `1 − (RSS / TSS) (n − 1) / (n − k − 1)`.
pub(crate) fn adjusted_r2(rss: f64, total: f64, n: usize, k: usize) -> f64 {
    1.0 - (rss / total) * (n as f64 - 1.0) / (n as f64 - k as f64 - 1.0)
}

/// The largest `|c t / y|`; NaN if one of them is.
pub(crate) fn largest_share(coefficient: f64, column: &[f64], ys: &[f64]) -> f64 {
    let mut largest = 0.0;
    for (t, y) in column.iter().zip(ys) {
        let share = (coefficient * t / y).abs();
        if share.is_nan() {
            return f64::NAN;
        }
        largest = f64::max(largest, share);
    }
    largest
}
