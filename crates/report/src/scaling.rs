//! Scaling models: their functions, their quality, the points they rest on, and what they predict.

use std::fmt::Write;

use iotide_look::Untrusted;
use iotide_scaling::{Advice, Factor, Function, Measurement, Model, Prediction, Series, usable};
use serde::{Serialize, Serializer};

use crate::document::Document;
use crate::{Ink, SCHEMA, text};

/// The answer of `iotide model`.
#[derive(Clone, Debug, Serialize)]
pub struct ScalingReport {
    schema: &'static str,
    /// The command that was asked.
    pub command: &'static str,
    /// Where the measurements are from.
    pub source: ScalingSource,
    /// How models were found: `auto` or `extrap`.
    pub method: &'static str,
    /// Names of the parameters.
    pub parameters: Vec<Untrusted>,
    /// One per call path and metric.
    pub models: Vec<ModelEntry>,
    /// Call paths and metrics without a model, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<ModelFailure>,
    /// Points worth measuring next, the best buy first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<AdviceEntry>,
    /// Inputs that could not be read.
    pub notes: Vec<String>,
    /// Whether models added from now on are drawn: a curve with its band asks for many predictions.
    #[serde(skip)]
    pub draws: bool,
    /// Whether models added from now on keep the points they were found from.
    #[serde(skip)]
    pub keeps_points: bool,
}

/// Where the measurements are from.
#[derive(Clone, Debug, Serialize)]
pub struct ScalingSource {
    /// The file.
    pub path: Untrusted,
    /// Its form.
    pub format: String,
}

/// One metric of one call path.
#[derive(Clone, Debug, Serialize)]
pub struct ModelEntry {
    /// Where in the program.
    pub callpath: Untrusted,
    /// The metric.
    pub metric: Untrusted,
    /// The function in all its digits. It has the parameters' names in it, as have the next three.
    pub function: Untrusted,
    /// The function to be read, in four digits.
    pub readable: Untrusted,
    /// The function as a Python expression.
    pub python: Untrusted,
    /// The function as LaTeX.
    pub latex: Untrusted,
    /// Part that is the same at any scale; `null` for a function in pieces.
    pub constant: Option<f64>,
    /// Terms that change with the parameters.
    pub terms: Vec<TermEntry>,
    /// Residual sum of squares.
    pub rss: Option<f64>,
    /// Share of the variance explained, corrected for the number of terms.
    pub adjusted_r2: Option<f64>,
    /// Symmetric mean absolute percentage error.
    pub smape: Option<f64>,
    /// How many points it rests on.
    pub n_points: usize,
    /// How probable this function is among those tried.
    pub probability: Option<f64>,
    /// How it grows where the parameters are large: its leading term without the coefficient.
    pub growth_class: Untrusted,
    /// Value at the point asked for over the value at the largest point measured.
    pub growth: Option<f64>,
    /// Values at the points asked for.
    pub predictions: Vec<PredictionEntry>,
    /// Notes about the model.
    pub notes: Vec<Untrusted>,
    /// The points it was found from, where they are asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<PointEntry>,
    /// Data for its chart, where that is asked for.
    #[serde(skip)]
    pub drawn: Option<DrawnModel>,
}

/// A model with what it was found from and what it predicts.
#[derive(Clone, Debug)]
pub struct DrawnModel {
    /// The measurements.
    pub series: Series,
    /// The model.
    pub model: Model,
    /// Values at the points asked for.
    pub predictions: Vec<Prediction>,
    /// The confidence of intervals.
    pub confidence: f64,
}

/// Measurements at one point.
#[derive(Clone, Debug, Serialize)]
pub struct PointEntry {
    /// The point, by parameter.
    pub at: PointAt,
    /// How many values there are.
    pub n: usize,
    /// Their mean.
    pub mean: f64,
    /// The middle one.
    pub median: f64,
    /// The least.
    pub minimum: f64,
    /// The greatest.
    pub maximum: f64,
    /// Their standard deviation.
    pub std: f64,
    /// How far the function is from the mean, as a share of it.
    #[serde(skip)]
    pub(crate) relative_gap: f64,
    #[serde(skip)]
    pub(crate) coordinate: Vec<f64>,
}

/// One term.
#[derive(Clone, Debug, Serialize)]
pub struct TermEntry {
    /// Number that the factors are multiplied by.
    pub coefficient: f64,
    /// Its factors.
    pub factors: Vec<FactorEntry>,
}

/// One factor of a term.
#[derive(Clone, Debug, Serialize)]
pub struct FactorEntry {
    /// Which parameter.
    pub parameter: Untrusted,
    /// Its exponent, `null` for a function in pieces.
    pub exponent: Option<String>,
    /// Exponent of its logarithm to the base 2.
    pub log_exponent: Option<String>,
    /// A function in pieces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pieces: Vec<PieceEntry>,
}

/// One piece of a function.
#[derive(Clone, Debug, Serialize)]
pub struct PieceEntry {
    /// The function there.
    pub function: Untrusted,
    /// From where, if it has a beginning.
    pub from: Option<f64>,
    /// To where, if it has an end.
    pub to: Option<f64>,
}

/// A value at a point.
#[derive(Clone, Debug, Serialize)]
pub struct PredictionEntry {
    /// The point, by parameter.
    pub at: PointAt,
    /// The value.
    pub value: Option<f64>,
    /// Between which values the truth lies.
    pub interval: Option<[f64; 2]>,
    /// With which probability.
    pub confidence: f64,
    /// Reasons to be careful.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cautions: Vec<Untrusted>,
}

/// A metric without a model.
#[derive(Clone, Debug, Serialize)]
pub struct ModelFailure {
    /// Where in the program.
    pub callpath: String,
    /// The metric.
    pub metric: String,
    /// Why there is none.
    pub error: String,
}

/// A point worth measuring.
#[derive(Clone, Debug, Serialize)]
pub struct AdviceEntry {
    /// The point, by parameter.
    pub at: PointAt,
    /// How far the functions still possible disagree there, as a share of the value.
    pub disagreement: f64,
    /// Its cost, in `cost_unit`.
    pub cost: Option<f64>,
    /// Of what the cost is counted.
    pub cost_unit: Untrusted,
}

/// A point: a value for each parameter, by its name.
#[derive(Clone, Debug, Default)]
pub struct PointAt(Vec<(Untrusted, f64)>);

impl PointAt {
    fn of(names: &[Untrusted], at: &[f64]) -> Self {
        Self(names.iter().cloned().zip(at.iter().copied()).collect())
    }

    /// Returns the parameters with their values.
    pub fn in_words(&self) -> String {
        let each = self.0.iter().map(|(name, value)| format!("{}={}", name.for_terminal(), number(*value)));
        each.collect::<Vec<_>>().join(", ")
    }
}

impl Serialize for PointAt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, number(*value))))
    }
}

/// A size is a whole number to its reader.
fn number(x: f64) -> serde_json::Value {
    if x.fract() == 0.0 && x.abs() < 9e15 { serde_json::json!(x as i64) } else { serde_json::json!(x) }
}

impl ScalingReport {
    /// Returns a report without models yet.
    pub fn new(path: &str, format: &str, method: &'static str, parameters: &[String]) -> Self {
        Self {
            schema: SCHEMA,
            command: "model",
            source: ScalingSource { path: path.into(), format: format.to_owned() },
            method,
            parameters: parameters.iter().map(Untrusted::from).collect(),
            models: Vec::new(),
            failures: Vec::new(),
            advice: Vec::new(),
            notes: Vec::new(),
            draws: false,
            keeps_points: false,
        }
    }

    /// Adds a model with its predictions; `confidence` is that of the intervals.
    pub fn add(&mut self, series: &Series, model: &Model, predictions: &[Prediction], confidence: f64) {
        let parameters = &self.parameters;
        let names: Vec<String> = parameters.iter().map(|name| name.as_said().to_owned()).collect();
        let names = names.as_slice();
        let function = &model.function;
        let last: Vec<f64> = model.ranges.iter().map(|range| range.maximum).collect();
        let growth =
            predictions.first().map(|there| there.value / function.at(&last)).filter(|g| g.is_finite());
        let text = function.to_text(names);
        let own = model.alternatives.iter().find(|alternative| same_shape(&alternative.function, function));
        let whole =
            function.terms.iter().all(|term| term.factors.iter().all(|f| matches!(f, Factor::Smooth { .. })));
        self.models.push(ModelEntry {
            callpath: (&series.callpath).into(),
            metric: (&series.metric).into(),
            function: text.into(),
            readable: function.to_readable(names).into(),
            python: function.to_python(names).into(),
            latex: function.to_latex(names).into(),
            constant: whole.then_some(function.constant).and_then(finite),
            terms: function.terms.iter().map(|term| term_entry(term, names)).collect(),
            rss: finite(model.costs.rss),
            adjusted_r2: finite(model.costs.adjusted_r2),
            smape: finite(model.costs.smape),
            n_points: model.n_points,
            probability: own.map(|alternative| alternative.probability),
            growth_class: function.growth_class(names).into(),
            growth,
            predictions: predictions
                .iter()
                .map(|prediction| PredictionEntry {
                    at: PointAt::of(parameters, &prediction.at),
                    value: finite(prediction.value),
                    interval: prediction
                        .interval
                        .filter(|(low, high)| low.is_finite() && high.is_finite())
                        .map(|(low, high)| [low, high]),
                    confidence,
                    cautions: prediction
                        .cautions
                        .iter()
                        .map(|caution| caution.with_names(names).into())
                        .collect(),
                })
                .collect(),
            notes: model.notes.iter().map(|note| note.with_names(names).into()).collect(),
            points: if self.keeps_points { points_of(series, function, parameters) } else { Vec::new() },
            drawn: self.draws.then(|| DrawnModel {
                series: series.clone(),
                model: model.clone(),
                predictions: predictions.to_vec(),
                confidence,
            }),
        });
    }

    /// Adds a piece of advice.
    pub fn advise(&mut self, advice: &Advice, cost_unit: &str) {
        self.advice.push(AdviceEntry {
            at: PointAt::of(&self.parameters, &advice.at),
            disagreement: advice.disagreement,
            cost: finite(advice.cost),
            cost_unit: cost_unit.into(),
        });
    }

    /// Puts the metrics first that grow most towards the point asked for.
    pub fn rank_by_growth(&mut self) {
        self.models.sort_by(|a, b| b.growth.unwrap_or(0.0).total_cmp(&a.growth.unwrap_or(0.0)));
    }

    /// Puts the metrics first whose value at the point asked for is largest.
    pub fn rank_by_value(&mut self) {
        let value =
            |entry: &ModelEntry| entry.predictions.first().and_then(|there| there.value).unwrap_or(f64::MIN);
        self.models.sort_by(|a, b| value(b).total_cmp(&value(a)));
    }

    /// Returns the first of the notes, as many as a person reads, and the number of the others.
    pub fn notes_shown(&self) -> (&[String], usize) {
        const MOST_SHOWN: usize = 20;
        let shown = &self.notes[..self.notes.len().min(MOST_SHOWN)];
        (shown, self.notes.len() - shown.len())
    }
}

impl Document for ScalingReport {
    fn to_text(&self, width: usize, _: Ink) -> String {
        let mut out = String::new();
        for entry in &self.models {
            let _ = writeln!(out, "{} · {}", entry.callpath.for_terminal(), entry.metric.for_terminal());
            let _ = writeln!(out, "  {}", entry.readable.for_terminal());
            let mut quality = text::counted(entry.n_points as u64, "point");
            if let Some(smape) = entry.smape {
                let _ = write!(quality, ", SMAPE {}", per_cent(smape));
            }
            if let Some(r2) = entry.adjusted_r2 {
                let _ = write!(quality, ", adjusted R² {}", text::digits(r2, 4));
            }
            if let Some(rss) = entry.rss {
                let _ = write!(quality, ", RSS {}", figure(rss));
            }
            if let Some(probability) = entry.probability {
                let _ = write!(quality, ", probability {:.0} %", 100.0 * probability);
            }
            let _ = writeln!(out, "  {quality}");
            for point in &entry.points {
                let _ = writeln!(
                    out,
                    "  measured at {}: mean {}, median {}, {}",
                    point.at.in_words(),
                    figure(point.mean),
                    figure(point.median),
                    text::counted(point.n as u64, "value")
                );
            }
            for prediction in &entry.predictions {
                let _ = writeln!(out, "  {}", prediction_line(prediction));
            }
            let cautions = entry.predictions.iter().flat_map(|prediction| &prediction.cautions);
            for note in entry.notes.iter().chain(cautions) {
                for (i, line) in
                    text::wrap(&note.for_terminal(), width.saturating_sub(4).max(20)).iter().enumerate()
                {
                    let _ = writeln!(out, "  {} {line}", if i == 0 { "!" } else { " " });
                }
            }
            out.push('\n');
        }
        for failure in &self.failures {
            let _ = writeln!(out, "{}", failure_line(failure));
        }
        if !self.advice.is_empty() {
            let _ = writeln!(out, "worth measuring next, the best buy first:");
            for advice in &self.advice {
                let _ = writeln!(out, "  {}", advice_line(advice));
            }
        }
        let (shown, n_more) = self.notes_shown();
        for note in shown {
            let _ = writeln!(out, "left out: {}", Untrusted::from(note).for_terminal());
        }
        if n_more > 0 {
            let _ = writeln!(out, "left out: {n_more} more; JSON lists them all");
        }
        out
    }

    fn to_json(&self) -> String {
        iotide_look::text::json_document(self)
    }
}

/// Four digits, as a power of ten where it would be long: 21084858 is `2.108e7`.
pub fn figure(x: f64) -> String {
    if x == 0.0 || (1e-3..1e6).contains(&x.abs()) || !x.is_finite() {
        return text::digits(x, 4);
    }
    let rounded = format!("{x:.3e}");
    let (digits, exponent) = rounded.split_once('e').unwrap_or((&rounded, "0"));
    format!("{}e{exponent}", digits.trim_end_matches('0').trim_end_matches('.'))
}

/// A distance in per cent; what is left of rounding is none.
pub fn per_cent(x: f64) -> String {
    match x {
        x if x < 1e-9 => "0 %".to_owned(),
        x if x < 1e-3 => "< 0.001 %".to_owned(),
        x => format!("{} %", text::digits(x, 3)),
    }
}

fn finite(x: f64) -> Option<f64> {
    x.is_finite().then_some(x)
}

fn same_shape(a: &Function, b: &Function) -> bool {
    a.terms.len() == b.terms.len() && a.terms.iter().zip(&b.terms).all(|(a, b)| a.factors == b.factors)
}

fn term_entry(term: &iotide_scaling::Term, names: &[String]) -> TermEntry {
    let factors = term.factors.iter().map(|factor| {
        let parameter = names.get(factor.parameter()).map(Untrusted::from).unwrap_or_default();
        match factor {
            Factor::Smooth { shape, .. } => FactorEntry {
                parameter,
                exponent: Some(shape.power.to_string()),
                log_exponent: Some(shape.log.to_string()),
                pieces: Vec::new(),
            },
            Factor::Piecewise(pieces) => FactorEntry {
                parameter,
                exponent: None,
                log_exponent: None,
                pieces: vec![
                    PieceEntry {
                        function: pieces.lower.to_text(names).into(),
                        from: None,
                        to: Some(pieces.lower_end),
                    },
                    PieceEntry {
                        function: pieces.upper.to_text(names).into(),
                        from: Some(pieces.upper_start),
                        to: None,
                    },
                ],
            },
        }
    });
    TermEntry { coefficient: term.coefficient, factors: factors.collect() }
}

fn points_of(series: &Series, function: &Function, names: &[Untrusted]) -> Vec<PointEntry> {
    let (points, _) = usable(&series.measurements, names.len());
    let entry = |measurement: &Measurement| {
        let summary = measurement.values.summary();
        PointEntry {
            at: PointAt::of(names, &measurement.coordinate),
            n: summary.n,
            mean: summary.mean,
            median: summary.median,
            minimum: summary.minimum,
            maximum: summary.maximum,
            std: summary.std,
            relative_gap: ((function.at(&measurement.coordinate) - summary.mean) / summary.mean).abs(),
            coordinate: measurement.coordinate.clone(),
        }
    };
    points.iter().map(entry).collect()
}

/// A line for a terminal; a page escapes it once more.
fn prediction_line(prediction: &PredictionEntry) -> String {
    let value = prediction.value.map_or("no value".to_owned(), figure);
    let interval = prediction.interval.map_or(String::new(), |[low, high]| {
        format!(", {:.0} % between {} and {}", 100.0 * prediction.confidence, figure(low), figure(high))
    });
    format!("at {}: {value}{interval}", prediction.at.in_words())
}

/// Returns a line for a terminal; a page escapes it once more.
pub fn failure_line(ModelFailure { callpath, metric, error }: &ModelFailure) -> String {
    Untrusted::from(format!("{callpath} · {metric}: no model: {error}")).for_terminal()
}

/// Returns a line for a terminal; a page escapes it once more.
pub fn advice_line(advice: &AdviceEntry) -> String {
    let cost = advice
        .cost
        .map_or(String::new(), |cost| format!(", cost {} {}", figure(cost), advice.cost_unit.for_terminal()));
    let share = text::digits(100.0 * advice.disagreement, 2);
    format!("{}: would settle {share} % of disagreement{cost}", advice.at.in_words())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::scaling as report;

    #[test]
    fn a_model_has_the_promised_names() {
        let json: serde_json::Value = serde_json::from_str(&report(1).to_json()).unwrap();
        assert_eq!(json["schema"], "iotide/1");
        assert_eq!(json["command"], "model");
        let model = &json["models"][0];
        assert_eq!((&model["callpath"], &model["metric"]), (&"main->io".into(), &"time".into()));
        assert_eq!(
            model["terms"][0]["factors"][0],
            serde_json::json!({"parameter": "p", "exponent": "1", "log_exponent": "0"})
        );
        assert!((model["constant"].as_f64().unwrap() - 3.0).abs() < 1e-6);
        assert!((model["terms"][0]["coefficient"].as_f64().unwrap() - 2.0).abs() < 1e-6);
        assert_eq!(model["n_points"], 5);
        for name in ["function", "rss", "adjusted_r2", "smape"] {
            assert!(!model[name].is_null(), "{name}");
        }
        let there = &model["predictions"][0];
        assert_eq!(there["at"], serde_json::json!({"p": 64}));
        assert!((there["value"].as_f64().unwrap() - 131.0).abs() < 1e-6);
        assert!(there["interval"][0].as_f64().unwrap() <= there["interval"][1].as_f64().unwrap());
    }

    #[test]
    fn figures_are_short_whatever_their_size() {
        assert_eq!(
            [0.0, 1234.56, 21_084_858.0, 1e300, -2.5e-7].map(figure),
            ["0", "1235", "2.108e7", "1e300", "-2.5e-7"]
        );
        assert_eq!([1e-15, 1e-5, 2.71].map(per_cent), ["0 %", "< 0.001 %", "2.71 %"]);
    }

    #[test]
    fn people_are_told_the_function_and_the_prediction() {
        let text = report(1).to_text(80, Ink::Plain);
        assert!(text.starts_with("main->io · time\n  "), "{text}");
        assert!(text.contains("3 + 2 · p\n") && text.contains("at p=64: 131, 90 % between"), "{text}");
    }
}
