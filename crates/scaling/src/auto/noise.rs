//! How much each point can be trusted: the spread of repetitions, smoothed by a law.
//!
//! Five repetitions tell a spread to within a factor of two, so a weight taken from them alone would do more harm than
//! none. Spreads of measured costs follow their size, though; so a law `spread ∝ size^θ` is chosen by likelihood, and each
//! point's own spread counts only as far as the points differ from the law by more than chance (the moderated variance of
//! Smyth, 2004, <https://doi.org/10.2202/1544-6115.1027>).

use iotide_num::ln_gamma;

use crate::measurement::{Measure, Summary};

/// A spread this far below the size of a value is rounding; it does not distinguish models.
const ROUNDING: f64 = 1e-9;

/// Where values reach zero, the spread there as a share of the mean value: counts of zero and one are no better known
/// than the other counts.
const ZERO_SPREAD: f64 = 0.3;

/// The values at the points, with their variances.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// The value that stands for each point.
    pub(crate) y: Vec<f64>,
    /// Variance of each value, up to a factor common to all.
    pub(crate) variance: Vec<f64>,
    /// Sum of squares of the repetitions about their points, in units of that factor.
    pub(crate) pure_ss: f64,
    /// Its degrees of freedom.
    pub(crate) pure_dof: f64,
    /// Sum of squares that rounding alone may leave, in the same units.
    pub(crate) floor_ss: f64,
    /// The exponent θ of the law `spread ∝ size^θ`.
    pub(crate) theta: f64,
    /// Variance of a point of size one under the law, in units of the common factor.
    pub(crate) unit_variance: f64,
    /// Whether values are costs, which are never negative.
    pub(crate) non_negative: bool,
    /// One over each variance.
    pub(crate) weight: Vec<f64>,
    /// The size of the largest value, and its logarithm.
    pub(crate) range: f64,
    pub(crate) log_range: f64,
    /// `ln Γ((n − k) / 2)` for `k` columns; every fit of the sample needs one of them.
    ln_gamma: [f64; 8],
}

impl Sample {
    /// `sizes` stand for the true values where the spread follows the size: the values themselves, or a fit to them.
    pub(crate) fn new(summaries: &[Summary], measure: Measure, sizes: &[f64]) -> Self {
        let y: Vec<f64> = summaries.iter().map(|summary| summary.by(measure)).collect();
        let scale = y.iter().map(|y| y.abs()).sum::<f64>() / y.len() as f64;
        let non_negative = y.iter().all(|y| *y >= 0.0);
        // Where values reach zero, a spread proportional to them would trust those points beyond reason.
        let offset = if sizes.iter().all(|size| *size > 0.0) { 0.0 } else { ZERO_SPREAD * scale };
        let sizes: Vec<f64> = sizes.iter().map(|size| (size.abs() + offset).max(f64::MIN_POSITIVE)).collect();

        // Repetitions that are all alike are one observation of something exact, not many of something noisy.
        let spreads: Vec<(f64, f64)> = summaries
            .iter()
            .map(|summary| {
                let n = summary.n.max(1) as f64;
                let variance = if n > 1.0 { summary.std.powi(2) * n / (n - 1.0) } else { 0.0 };
                if variance.sqrt() > ROUNDING * summary.mean.abs() { (n - 1.0, variance) } else { (0.0, 0.0) }
            })
            .collect();
        let repeated = spreads.iter().filter(|(dof, _)| *dof > 0.0).count() * 2 > y.len();
        let theta = if repeated { choose_law(&spreads, &sizes) } else { 1.0 };
        let mut law: Vec<f64> =
            sizes.iter().map(|size| (size / scale.max(f64::MIN_POSITIVE)).powf(2.0 * theta)).collect();
        let (mut pure_ss, mut pure_dof) = (0.0, 0.0);
        if repeated {
            let dof: f64 = spreads.iter().map(|(dof, _)| dof).sum();
            let factor = spreads.iter().zip(&law).map(|((dof, s2), law)| dof * s2 / law).sum::<f64>() / dof;
            law.iter_mut().for_each(|law| *law *= factor);
            moderate(&mut law, &spreads);
            pure_ss = spreads.iter().zip(&law).map(|((dof, s2), law)| dof * s2 / law).sum();
            pure_dof = dof;
        }
        let variance: Vec<f64> = law
            .iter()
            .zip(summaries)
            .map(|(law, summary)| if repeated { law / summary.n.max(1) as f64 } else { *law })
            .collect();
        // Points weigh in by their logarithm: one that was hardly spread at all must not stand for the rest.
        let unit_variance = {
            let logs = variance.iter().zip(&sizes).map(|(v, size)| v.ln() - 2.0 * theta * size.ln());
            (logs.sum::<f64>() / variance.len() as f64).exp()
        };
        let floor_ss =
            y.iter().zip(&variance).map(|(y, v)| (ROUNDING * (y.abs() + 1e-3 * scale)).powi(2) / v).sum();
        let weight = variance.iter().map(|variance| 1.0 / variance).collect();
        let range = y.iter().fold(0.0_f64, |most, y| most.max(y.abs())).max(f64::MIN_POSITIVE);
        let (log_range, ln_gamma) = (range.ln(), [0.0; 8]);
        Self {
            y,
            variance,
            pure_ss,
            pure_dof,
            floor_ss,
            theta,
            unit_variance,
            non_negative,
            weight,
            range,
            log_range,
            ln_gamma,
        }
        .prepared()
    }

    fn prepared(mut self) -> Self {
        let n = self.n();
        self.ln_gamma =
            std::array::from_fn(|k| if n - k as f64 > 0.0 { ln_gamma((n - k as f64) / 2.0) } else { 0.0 });
        self
    }

    /// `ln Γ` of half the degrees of freedom that `k` columns leave.
    pub(crate) fn ln_gamma_of_half(&self, k: usize) -> f64 {
        self.ln_gamma[k]
    }

    /// The same with one observation more than there is, so that a lone value has a fit.
    pub(crate) fn with_one_more(&self) -> Self {
        Self { pure_dof: 1.0, ..self.clone() }.prepared()
    }

    /// The same values with the repetitions forgotten: the scatter of the points about the model is all there is.
    pub(crate) fn without_repetitions(mut self) -> Self {
        (self.pure_ss, self.pure_dof) = (0.0, 0.0);
        self.prepared()
    }

    /// How many independent numbers there are.
    pub(crate) fn n(&self) -> f64 {
        self.y.len() as f64 + self.pure_dof
    }
}

/// The exponent θ of `spread ∝ size^θ` under which the spreads seen are most likely.
fn choose_law(spreads: &[(f64, f64)], sizes: &[f64]) -> f64 {
    let dof: f64 = spreads.iter().map(|(dof, _)| dof).sum();
    let badness = |theta: f64| {
        let law = |size: &f64| size.powf(2.0 * theta);
        let factor =
            spreads.iter().zip(sizes).map(|((dof, s2), size)| dof * s2 / law(size)).sum::<f64>() / dof;
        spreads.iter().zip(sizes).map(|((dof, _), size)| dof * (factor * law(size)).ln()).sum::<f64>()
    };
    // Relative noise is the rule; the others must be clearly more likely.
    let candidates = [(1.0, 0.0), (0.5, 4.0), (0.0, 4.0)];
    candidates
        .into_iter()
        .min_by(|(a, handicap_a), (b, handicap_b)| {
            (badness(*a) + handicap_a).total_cmp(&(badness(*b) + handicap_b))
        })
        .map_or(1.0, |(theta, _)| theta)
}

/// Moves each point's variance from the law towards its own spread, as far as spreads differ by more than chance.
fn moderate(law: &mut [f64], spreads: &[(f64, f64)]) {
    let known: Vec<(f64, f64)> = spreads
        .iter()
        .zip(law.iter())
        .filter(|((dof, s2), _)| *dof > 0.0 && *s2 > 0.0)
        .map(|((dof, s2), law)| (*dof, (s2 / law).ln() - digamma(dof / 2.0) + (dof / 2.0).ln()))
        .collect();
    if known.len() < 4 {
        return;
    }
    let n = known.len() as f64;
    let centre = known.iter().map(|(_, e)| e).sum::<f64>() / n;
    let spread = known.iter().map(|(_, e)| (e - centre).powi(2)).sum::<f64>() / (n - 1.0);
    let chance = known.iter().map(|(dof, _)| trigamma(dof / 2.0)).sum::<f64>() / n;
    // With few points the spread of spreads is itself uncertain: only what exceeds twice the chance counts.
    let excess = spread - 2.0 * chance;
    if excess <= 0.0 {
        return;
    }
    let prior_dof = 2.0 * inverse_trigamma(excess);
    for (law, (dof, s2)) in law.iter_mut().zip(spreads) {
        *law = (prior_dof * *law + dof * s2) / (prior_dof + dof);
    }
}

/// `ψ(x)` by recurrence and its asymptotic series (A & S, 6.3.18).
fn digamma(mut x: f64) -> f64 {
    let mut below = 0.0;
    while x < 8.0 {
        below -= 1.0 / x;
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    below + x.ln() - 0.5 / x - y * (1.0 / 12.0 - y * (1.0 / 120.0 - y / 252.0))
}

/// `ψ′(x)` by recurrence and its asymptotic series (A & S, 6.4.12).
fn trigamma(mut x: f64) -> f64 {
    let mut below = 0.0;
    while x < 8.0 {
        below += 1.0 / (x * x);
        x += 1.0;
    }
    let y = 1.0 / (x * x);
    below + 1.0 / x + 0.5 * y + y / x * (1.0 / 6.0 - y * (1.0 / 30.0 - y / 42.0))
}

/// The `x` with `ψ′(x) = y`, by bisection: `ψ′` falls from ∞ to 0.
fn inverse_trigamma(y: f64) -> f64 {
    let (mut low, mut high) = (1e-6_f64, 1e6_f64);
    for _ in 0..80 {
        let middle = (low * high).sqrt();
        if trigamma(middle) > y { low = middle } else { high = middle }
    }
    (low * high).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::Values;

    fn sample(points: &[&[f64]]) -> Sample {
        let summaries: Vec<Summary> =
            points.iter().map(|values| Values::Each(values.to_vec()).summary()).collect();
        let sizes: Vec<f64> = summaries.iter().map(|summary| summary.mean).collect();
        Sample::new(&summaries, Measure::Mean, &sizes)
    }

    #[test]
    fn spreads_that_follow_the_size_weigh_by_size() {
        let sample = sample(&[&[9.0, 10.0, 11.0], &[90.0, 100.0, 110.0], &[900.0, 1000.0, 1100.0]]);
        let shares: Vec<f64> = sample.y.iter().zip(&sample.variance).map(|(y, v)| v.sqrt() / y).collect();
        assert!(shares.iter().all(|share| (share - shares[0]).abs() < 1e-12), "{shares:?}");
        assert_eq!(sample.pure_dof, 6.0);
    }

    #[test]
    fn spreads_that_do_not_follow_the_size_weigh_alike() {
        let sample = sample(&[&[9.0, 10.0, 11.0], &[99.0, 100.0, 101.0], &[999.0, 1000.0, 1001.0]]);
        assert!((sample.variance[2] / sample.variance[0] - 1.0).abs() < 1e-12);
    }

    #[test]
    fn exact_repetitions_are_one_observation() {
        let sample = sample(&[&[5.0, 5.0, 5.0], &[7.0, 7.0, 7.0]]);
        assert_eq!((sample.n(), sample.pure_dof), (2.0, 0.0));
    }

    #[test]
    fn a_point_with_a_wild_repetition_counts_less() {
        let calm: &[f64] = &[99.0, 100.0, 101.0, 100.5, 99.5];
        let wild: &[f64] = &[40.0, 100.0, 160.0, 100.0, 100.0];
        let sample = sample(&[calm, calm, wild, calm, calm]);
        assert!(sample.variance[2] > 5.0 * sample.variance[0]);
    }

    #[test]
    fn the_gamma_family_has_its_known_values() {
        assert!((digamma(1.0) + 0.577_215_664_901_532_9).abs() < 1e-9);
        assert!((trigamma(1.0) - std::f64::consts::PI.powi(2) / 6.0).abs() < 1e-8);
        assert!((trigamma(inverse_trigamma(0.3)) - 0.3).abs() < 1e-9);
    }
}
