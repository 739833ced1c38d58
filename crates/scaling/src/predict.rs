//! Prediction of a model at a point nobody measured, and its uncertainty.

use std::fmt;

use iotide_num::{student_t_cdf, student_t_quantile};

use crate::auto::Alternative;
use crate::measurement::parameter_name;
use crate::model::Model;
use crate::term::Function;

/// A value at a point.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// Where.
    pub at: Vec<f64>,
    /// Value of the function.
    pub value: f64,
    /// Between which values the truth lies with the confidence asked for; `None` if the method cannot say.
    pub interval: Option<(f64, f64)>,
    /// Reasons to be careful.
    pub cautions: Vec<Caution>,
}

/// A reason to be careful with a prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Caution {
    /// The point lies far outside the measured range of a parameter.
    Far {
        /// Which parameter, as an index.
        parameter: usize,
        /// How many times beyond the end of the range.
        times: f64,
    },
    /// The model rests on fewer than five values of a parameter.
    FewPoints {
        /// Which parameter, as an index.
        parameter: usize,
        /// How many values it took.
        n_points: usize,
    },
    /// A parameter that was always above zero is not there: sizes do not go on below it.
    NotASize {
        /// Which parameter, as an index.
        parameter: usize,
    },
    /// The function is not defined there, or the value is not a number.
    Undefined,
}

impl fmt::Display for Caution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.with_names(&[] as &[&str]))
    }
}

impl Caution {
    /// Returns the caution with parameters under their names; one without a name is told by its place.
    pub fn with_names(&self, parameters: &[impl AsRef<str>]) -> String {
        let name = |index: usize| parameter_name(parameters, index);
        match self {
            Caution::Far { parameter, times } => {
                format!("{times:.0} times beyond the measured range of {}", name(*parameter))
            }
            Caution::FewPoints { parameter, n_points } => {
                let values = if *n_points == 1 { "value" } else { "values" };
                format!("{} was measured at {n_points} {values} only", name(*parameter))
            }
            Caution::NotASize { parameter } => {
                format!("{} was always above zero; the function means nothing here", name(*parameter))
            }
            Caution::Undefined => "the function has no value there".into(),
        }
    }
}

/// Beyond this many times the measured range a prediction carries a caution: four doublings are common practice, and the
/// error of good models grows quickly after them.
const FAR: f64 = 16.0;

impl Model {
    /// Returns the value at a point, with the interval that holds the truth with probability `confidence`.
    ///
    /// The interval is about the quantity itself, not about one noisy run of it. It takes in what the coefficients leave
    /// open and what other functions, each weighed by how well it explains the measurements, would have said.
    ///
    /// # Panics
    /// If the point has fewer coordinates than there are parameters.
    pub fn predict(&self, at: &[f64], confidence: f64) -> Prediction {
        let value = self.function.at(at);
        let mut cautions = Vec::new();
        for (parameter, range) in self.ranges.iter().enumerate() {
            let times = (at[parameter] / range.maximum).max(range.minimum / at[parameter]);
            if range.minimum > 0.0 && at[parameter] <= 0.0 {
                cautions.push(Caution::NotASize { parameter });
            } else if times > FAR {
                cautions.push(Caution::Far { parameter, times });
            }
            // Where a parameter never changed, nothing is known anywhere else.
            let is_fixed_elsewhere = range.n_values == 1 && at[parameter] != range.minimum;
            if (2..5).contains(&range.n_values) || is_fixed_elsewhere {
                cautions.push(Caution::FewPoints { parameter, n_points: range.n_values });
            }
        }
        if !value.is_finite() {
            cautions.push(Caution::Undefined);
        }
        let interval = mixture_interval(&self.alternatives, at, self.edges.doublings_beyond(at), confidence)
            .map(|(low, high)| {
                let low = if self.non_negative { low.max(0.0) } else { low };
                (low.min(value), high.max(value))
            });
        Prediction { at: at.to_vec(), value, interval, cautions }
    }
}

/// The middle part of a mixture of Student's t distributions, one per alternative.
fn mixture_interval(
    alternatives: &[Alternative],
    at: &[f64],
    doublings: f64,
    confidence: f64,
) -> Option<(f64, f64)> {
    let parts: Vec<(f64, f64, f64, f64)> = alternatives
        .iter()
        .map(|alternative| {
            let centre = alternative.function.at(at);
            let error =
                (variance(alternative, at) + alternative.scatter.variance_at(centre, doublings)).sqrt();
            (alternative.probability, centre, error, alternative.dof)
        })
        .filter(|(_, centre, error, _)| centre.is_finite() && error.is_finite())
        .collect();
    let total: f64 = parts.iter().map(|(probability, ..)| probability).sum();
    if parts.is_empty() || total <= 0.0 {
        return None;
    }
    let tail = (1.0 - confidence) / 2.0;
    let quantile = |p: f64| {
        let below = |value: f64| {
            let share = |(probability, centre, error, dof): &(f64, f64, f64, f64)| {
                let position =
                    if *error > 0.0 { (value - centre) / error } else { (value - centre) * f64::INFINITY };
                let position = if position.is_nan() { 0.0 } else { position.clamp(-1e12, 1e12) };
                probability * student_t_cdf(position, *dof)
            };
            parts.iter().map(share).sum::<f64>() / total
        };
        // Every part's own quantile bounds the mixture's.
        let own = parts.iter().map(|(_, centre, error, dof)| centre + error * student_t_quantile(p, *dof));
        let (mut low, mut high) =
            own.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), q| (l.min(q), h.max(q)));
        // Fifty halvings leave a billionth of a millionth of the bracket.
        for _ in 0..50 {
            let middle = 0.5 * (low + high);
            if below(middle) < p { low = middle } else { high = middle }
        }
        0.5 * (low + high)
    };
    Some((quantile(tail), quantile(1.0 - tail)))
}

/// Variance of a function's value at a point, from the covariance of its coefficients.
fn variance(alternative: &Alternative, at: &[f64]) -> f64 {
    let row = row_at(&alternative.function, at);
    let variance: f64 = row
        .iter()
        .zip(&alternative.covariance)
        .map(|(a, covariances)| a * row.iter().zip(covariances).map(|(b, c)| b * c).sum::<f64>())
        .sum();
    variance.max(0.0)
}

/// Returns the factors of the constant and of each coefficient at a point.
fn row_at(function: &Function, at: &[f64]) -> Vec<f64> {
    let terms = function.terms.iter().map(|term| term.factors.iter().map(|factor| factor.at(at)).product());
    std::iter::once(1.0).chain(terms).collect()
}
