//! One yardstick for all functions: the probability of the data under a function whose coefficients are unknown.

use super::noise::Sample;

/// Most columns any candidate has, the constant included.
pub(crate) const MAX_COLUMNS: usize = 5;

/// How readily a constant part below zero is believed of a quantity that is a cost.
///
/// `p − 1` messages are a fact of life, so it cannot be nought; rare enough that noise does not bring it up.
const NEGATIVE_CONSTANT: f64 = 0.02;

/// A weighted least-squares fit of a few columns.
#[derive(Clone, Debug)]
pub(crate) struct Fit {
    pub(crate) n_columns: usize,
    /// How many of the columns have a coefficient that was fitted: all, or all but a constant that is not there.
    pub(crate) n_free: usize,
    /// In units of the columns as given.
    pub(crate) beta: [f64; MAX_COLUMNS],
    /// Inverse of `XᵀWX`; times `phi` it is the covariance of `beta`.
    pub(crate) inverse: [[f64; MAX_COLUMNS]; MAX_COLUMNS],
    /// Weighted residual sum of squares of the points.
    pub(crate) lack_ss: f64,
    /// The whole sum of squares, repetitions and rounding included.
    pub(crate) ss: f64,
    pub(crate) dof: f64,
    /// Natural logarithm of the evidence, up to a constant common to all fits of one sample.
    pub(crate) log_evidence: f64,
}

impl Fit {
    /// Fits `y ≈ Σ βⱼ columnⱼ`; the first column is the constant. `None` if the columns cannot be distinguished here, or no
    /// observation is left to evaluate them by.
    ///
    /// The evidence is `∫ p(y | β, σ) dβ dσ/σ` (MacKay, *Information Theory*, ch. 28), the constant spread evenly over the
    /// size of the largest value and each term's contribution over orders of magnitude below it: a further term pays
    /// by the share of that range its coefficient leaves open. Degrees of freedom, not counts, stand in the exponent, so that few points do not overrate a good fit.
    pub(crate) fn new(columns: &[&[f64]], sample: &Sample) -> Option<Self> {
        Self::within(columns, sample, f64::INFINITY)
    }

    /// The same, or `None` if it leaves a sum of squares beyond `most_ss`: most functions a search tries are distinguished from a
    /// good one by that alone, at half the cost.
    pub(crate) fn within(columns: &[&[f64]], sample: &Sample, most_ss: f64) -> Option<Self> {
        Self::of(columns, true, sample, most_ss)
    }

    /// Fits `y ≈ β column`, without a constant; it stands in the fit as nought, known for certain.
    pub(crate) fn proportional(column: &[f64], sample: &Sample, most_ss: f64) -> Option<Self> {
        let mut fit = Self::of(&[column], false, sample, most_ss)?;
        fit.n_columns = 2;
        fit.beta.swap(0, 1);
        let alone = std::mem::take(&mut fit.inverse[0][0]);
        fit.inverse[1][1] = alone;
        Some(fit)
    }

    fn of(columns: &[&[f64]], has_constant: bool, sample: &Sample, most_ss: f64) -> Option<Self> {
        let (k, n) = (columns.len(), sample.y.len());
        let dof = sample.n() - k as f64;
        if k > MAX_COLUMNS || k > n || dof < 1.0 {
            return None;
        }
        let mut largest = [0.0; MAX_COLUMNS];
        for (largest, column) in largest.iter_mut().zip(columns) {
            *largest = column.iter().fold(0.0_f64, |m, t| m.max(t.abs()));
            if !(largest.is_finite() && *largest > 0.0) {
                return None;
            }
        }
        let mut shrink = [0.0; MAX_COLUMNS];
        shrink.iter_mut().zip(&largest[..k]).for_each(|(shrink, largest)| *shrink = 1.0 / largest);
        let mut normal = [[0.0; MAX_COLUMNS]; MAX_COLUMNS];
        let mut right = [0.0; MAX_COLUMNS];
        for a in 0..k {
            right[a] = weighted_dot(&sample.weight, columns[a], &sample.y) * shrink[a];
            for b in 0..=a {
                normal[a][b] = weighted_dot(&sample.weight, columns[a], columns[b]) * (shrink[a] * shrink[b]);
            }
        }
        // A first column of ones has the sum of the weights for its square sum.
        let factor = cholesky(&normal, k, normal[0][0])?;
        let mut beta = solve(&factor, k, right);
        // Residuals from the columns themselves: differences of large sums would drown a near-perfect fit.
        let mut steps = [0.0; MAX_COLUMNS];
        steps
            .iter_mut()
            .zip(beta.iter().zip(&shrink))
            .for_each(|(step, (beta, shrink))| *step = beta * shrink);
        let lack_ss = match columns {
            [one] => residual_ss([one], &steps, sample),
            [one, a] => residual_ss([one, a], &steps, sample),
            [one, a, b] => residual_ss([one, a, b], &steps, sample),
            [one, a, b, c] => residual_ss([one, a, b, c], &steps, sample),
            [one, a, b, c, d, ..] => residual_ss([one, a, b, c, d], &steps, sample),
            [] => return None,
        };
        let ss = lack_ss + sample.pure_ss + sample.floor_ss;
        if ss > most_ss {
            return None;
        }
        let mut inverse = [[0.0; MAX_COLUMNS]; MAX_COLUMNS];
        for j in 0..k {
            let mut unit = [0.0; MAX_COLUMNS];
            unit[j] = 1.0;
            let column = solve(&factor, k, unit);
            for i in 0..k {
                inverse[i][j] = column[i] / (largest[i] * largest[j]);
            }
        }
        for j in 0..k {
            beta[j] /= largest[j];
        }
        let (range, log_range) = (sample.range, sample.log_range);
        let log_determinant = 2.0 * (0..k).map(|i| factor[i][i]).product::<f64>().ln();
        let mut log_evidence = sample.ln_gamma_of_half(k)
            - dof / 2.0 * (std::f64::consts::PI * ss).ln()
            - 0.5 * log_determinant
            - k as f64 * log_range;
        for (beta, largest) in beta[..k].iter().zip(&largest).skip(usize::from(has_constant)) {
            log_evidence += log_prior((beta * largest).abs() / range);
        }
        if sample.non_negative && has_constant && k > 1 {
            let error = (ss / dof * inverse[0][0]).sqrt();
            let share = about_student_t_cdf(beta[0] / error, dof);
            log_evidence += (NEGATIVE_CONSTANT + (1.0 - NEGATIVE_CONSTANT) * share).ln();
        }
        log_evidence.is_finite().then_some(Self {
            n_columns: k,
            n_free: k,
            beta,
            inverse,
            lack_ss,
            ss,
            dof,
            log_evidence,
        })
    }

    /// The factor common to all variances, as this fit sees it.
    pub(crate) fn phi(&self) -> f64 {
        self.ss / self.dof
    }

    /// Whether every term but the constant adds to the value.
    pub(crate) fn adds_up(&self) -> bool {
        self.beta[1..self.n_columns].iter().all(|beta| *beta > 0.0)
    }
}

/// `Σ wᵢ aᵢ bᵢ`, in four sums side by side: a search spends most of its time here.
fn weighted_dot(w: &[f64], a: &[f64], b: &[f64]) -> f64 {
    let (w, w_rest) = w.as_chunks::<4>();
    let (a, a_rest) = a.as_chunks::<4>();
    let (b, b_rest) = b.as_chunks::<4>();
    let mut lanes = [0.0; 4];
    for ((w, a), b) in w.iter().zip(a).zip(b) {
        for lane in 0..4 {
            lanes[lane] += w[lane] * a[lane] * b[lane];
        }
    }
    let rest: f64 = w_rest.iter().zip(a_rest).zip(b_rest).map(|((w, a), b)| w * a * b).sum();
    (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]) + rest
}

/// `Σ wᵢ (yᵢ − Σ stepⱼ columnⱼᵢ)²`, likewise.
fn residual_ss<const K: usize>(columns: [&[f64]; K], steps: &[f64; MAX_COLUMNS], sample: &Sample) -> f64 {
    let (y, y_rest) = sample.y.as_chunks::<4>();
    let (w, w_rest) = sample.weight.as_chunks::<4>();
    let chunks = columns.map(|column| column.as_chunks::<4>());
    let mut lanes = [0.0; 4];
    for (i, (y, w)) in y.iter().zip(w).enumerate() {
        let mut gap = *y;
        for (column, step) in chunks.iter().zip(steps) {
            gap.iter_mut().zip(&column.0[i]).for_each(|(gap, t)| *gap -= step * t);
        }
        for lane in 0..4 {
            lanes[lane] += gap[lane] * gap[lane] * w[lane];
        }
    }
    let mut rest = 0.0;
    for (i, (y, w)) in y_rest.iter().zip(w_rest).enumerate() {
        let value: f64 = chunks.iter().zip(steps).map(|(column, step)| step * column.1[i]).sum();
        rest += (y - value).powi(2) * w;
    }
    (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]) + rest
}

/// Student's t as a normal deviate (Abramowitz & Stegun, 26.7.8), and its share by a logistic curve, to two digits: it
/// enters a prior, once for every candidate, and the exact one would cost more than the fit.
fn about_student_t_cdf(t: f64, dof: f64) -> f64 {
    let z = t * (1.0 - 0.25 / dof) / (1.0 + t * t / (2.0 * dof)).sqrt();
    1.0 / (1.0 + (-1.5976 * z - 0.070_56 * z.powi(3)).exp())
}

/// Logarithm of the belief that a term makes up `share` of the largest value: even over orders of magnitude down to a
/// hundredth, even below.
fn log_prior(share: f64) -> f64 {
    const LEAST: f64 = 0.01;
    -((share + LEAST) * (1.0 / LEAST).ln_1p()).ln()
}

type Square = [[f64; MAX_COLUMNS]; MAX_COLUMNS];

/// Lower triangle `L` with `L Lᵀ = a`, or `None` if `a` is singular to the eye.
fn cholesky(a: &Square, k: usize, scale: f64) -> Option<Square> {
    let mut l = [[0.0; MAX_COLUMNS]; MAX_COLUMNS];
    for i in 0..k {
        for j in 0..=i {
            let sum = a[i][j] - (0..j).map(|m| l[i][m] * l[j][m]).sum::<f64>();
            if i == j {
                let visible = sum > 1e-13 * a[i][i] && sum > 1e-15 * scale;
                if !visible {
                    return None;
                }
                l[i][i] = sum.sqrt();
            } else {
                l[i][j] = sum / l[j][j];
            }
        }
    }
    Some(l)
}

fn solve(l: &Square, k: usize, mut b: [f64; MAX_COLUMNS]) -> [f64; MAX_COLUMNS] {
    for i in 0..k {
        let sum: f64 = (0..i).map(|m| l[i][m] * b[m]).sum();
        b[i] = (b[i] - sum) / l[i][i];
    }
    for i in (0..k).rev() {
        let sum: f64 = (i + 1..k).map(|m| l[m][i] * b[m]).sum();
        b[i] = (b[i] - sum) / l[i][i];
    }
    b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quick_share_is_the_exact_one_to_two_digits() {
        for dof in [5.0, 23.0, 100.0] {
            for t in [-4.0, -1.0, 0.0, 0.3, 2.0, 5.0] {
                let exact = iotide_num::student_t_cdf(t, dof);
                assert!((about_student_t_cdf(t, dof) - exact).abs() < 6e-3, "{t} {dof}");
            }
        }
    }
}
