//! Data that the page's script needs to draw a model: its terms, its points, and its curve with the band of the interval.

use iotide_report::DrawnModel;
use iotide_scaling::{Factor, Function, Model, Prediction, usable};
use serde::Serialize;

/// Data that the page's script draws.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ChartData {
    /// The function, to be evaluated anywhere; `null` for a function in pieces, of which the curve is drawn.
    function: Option<Terms>,
    /// Coordinates of each point, then mean, lowest and highest value.
    points: Vec<Vec<f64>>,
    /// One parameter: where, the value, and between which values the truth lies.
    curve: Vec<[f64; 4]>,
}

/// A constant, and terms: a coefficient and its factors (parameter, exponent, exponent of the logarithm).
#[derive(Clone, Debug, Serialize)]
struct Terms(f64, Vec<(f64, Factors)>);

type Factors = Vec<(usize, f64, f64)>;

/// Places along the curve.
const STEPS: u32 = 48;

/// A chart with more points is a cloud.
const MOST_POINTS: usize = 200;

impl ChartData {
    pub(super) fn of(drawn: &DrawnModel) -> Self {
        let DrawnModel { series, model, predictions, confidence } = drawn;
        let n_parameters = model.ranges.len();
        let (points, _) = usable(&series.measurements, n_parameters);
        let points = points.iter().take(MOST_POINTS).map(|measurement| {
            let summary = measurement.values.summary();
            let mut point: Vec<f64> = measurement.coordinate.clone();
            point.extend([summary.mean, summary.minimum, summary.maximum].map(rounded));
            point
        });
        Self {
            function: terms(&model.function),
            points: points.collect(),
            curve: if n_parameters == 1 { curve(model, predictions, *confidence) } else { Vec::new() },
        }
    }
}

fn terms(function: &Function) -> Option<Terms> {
    let factor = |factor: &Factor| match factor {
        Factor::Smooth { parameter, shape } => Some((*parameter, shape.power.value(), shape.log.value())),
        Factor::Piecewise(_) => None,
    };
    let terms = function.terms.iter().map(|term| {
        let factors: Option<Factors> = term.factors.iter().map(factor).collect();
        Some((term.coefficient, factors?))
    });
    Some(Terms(function.constant, terms.collect::<Option<_>>()?))
}

/// From half the smallest point to twice the largest, or as far as was asked; even on a logarithmic axis.
fn curve(model: &Model, predictions: &[Prediction], confidence: f64) -> Vec<[f64; 4]> {
    let range = model.ranges[0];
    let asked = || predictions.iter().map(|prediction| prediction.at[0]);
    let (low, high) = (asked().fold(range.minimum, f64::min), asked().fold(range.maximum * 2.0, f64::max));
    let at = |step: u32| {
        let share = f64::from(step) / f64::from(STEPS);
        if low > 0.0 { low * (high / low).powf(share) } else { low + share * (high - low) }
    };
    let there = |x: f64| {
        let there = model.predict(&[x], confidence);
        let (low, high) = there.interval.unwrap_or((there.value, there.value));
        [x, there.value, low, high]
    };
    (0..=STEPS)
        .map(|step| there(at(step)))
        .filter(|row| row.iter().all(|x| x.is_finite()))
        .map(|row| row.map(rounded))
        .collect()
}

/// Five digits: more than a screen shows.
fn rounded(x: f64) -> f64 {
    format!("{x:.5e}").parse().unwrap_or(x)
}
