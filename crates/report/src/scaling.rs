//! Scaling models: their functions, their quality, the points they rest on, and what they predict.

use std::fmt::Write;

use iotide_page::Untrusted;
use iotide_page::html::{FOOT, STYLE, escape, head};
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
    /// What could not be read.
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
    /// What was measured.
    pub metric: Untrusted,
    /// The function for people. It has the parameters' names in it, as have the next two.
    pub function: Untrusted,
    /// The function as a Python expression.
    pub python: Untrusted,
    /// The function as LaTeX.
    pub latex: Untrusted,
    /// What is there at any scale; `null` for a function in pieces.
    pub constant: Option<f64>,
    /// What changes with the parameters.
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
    /// Value at the point asked for over the value at the largest point measured.
    pub growth: Option<f64>,
    /// Values at the points asked for.
    pub predictions: Vec<PredictionEntry>,
    /// What to know about it.
    pub notes: Vec<Untrusted>,
    /// The points it was found from, where they are asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub points: Vec<PointEntry>,
    #[serde(skip)]
    picture: Option<Picture>,
}

/// What was measured at one point.
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
    /// What the factors are multiplied by.
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
    /// What was measured.
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
    /// What it would cost, in `cost_unit`.
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

    fn in_words(&self) -> String {
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
            python: function.to_python(names).into(),
            latex: function.to_latex(names).into(),
            constant: whole.then_some(function.constant).and_then(finite),
            terms: function.terms.iter().map(|term| term_entry(term, names)).collect(),
            rss: finite(model.costs.rss),
            adjusted_r2: finite(model.costs.adjusted_r2),
            smape: finite(model.costs.smape),
            n_points: model.n_points,
            probability: own.map(|alternative| alternative.probability),
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
            picture: self
                .draws
                .then(|| Picture::of(series, model, predictions, confidence, parameters))
                .flatten(),
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

    /// What was left out, as far as a person reads on, and how much more there is.
    fn notes_shown(&self) -> (&[String], usize) {
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
            let _ = writeln!(out, "  {}", entry.function.for_terminal());
            let mut quality = text::counted(entry.n_points as u64, "point");
            if let Some(smape) = entry.smape {
                let _ = write!(quality, ", SMAPE {} %", text::digits(smape, 3));
            }
            if let Some(r2) = entry.adjusted_r2 {
                let _ = write!(quality, ", adjusted R² {}", text::digits(r2, 4));
            }
            if let Some(rss) = entry.rss {
                let _ = write!(quality, ", RSS {}", text::digits(rss, 3));
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
                    text::digits(point.mean, 4),
                    text::digits(point.median, 4),
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
        iotide_page::text::json_document(self)
    }

    fn to_page(&self) -> Option<String> {
        let style = format!(
            "\n{STYLE}\n.models {{ display: block; }} .models svg {{ max-width: 100%; height: auto; background: #fff; }}\n\
             code {{ overflow-wrap: anywhere; }}\n"
        );
        let mut html = head(&format!("{} · iotide model", self.source.path.for_terminal()), &style, "");
        let _ = write!(
            html,
            "<main class=\"models\">\n<header><p class=\"path\">{}</p><h1>{}</h1></header>\n",
            self.source.path.for_html(),
            text::counted(self.models.len() as u64, "scaling model"),
        );
        for entry in &self.models {
            let _ = write!(
                html,
                "<section><h2>{} · {}</h2><p><code>{}</code></p>",
                entry.callpath.for_html(),
                entry.metric.for_html(),
                entry.function.for_html()
            );
            if let Some(picture) = &entry.picture {
                html.push_str(&picture.to_svg(entry));
            }
            html.push_str("<ul>");
            let predictions = entry.predictions.iter().map(prediction_line);
            let cautions = entry.predictions.iter().flat_map(|prediction| &prediction.cautions);
            for line in predictions.chain(entry.notes.iter().chain(cautions).map(Untrusted::for_terminal)) {
                let _ = write!(html, "<li>{}</li>", escape(&line));
            }
            html.push_str("</ul></section>\n");
        }
        let failures: Vec<String> = self.failures.iter().map(failure_line).collect();
        let advice: Vec<String> = self.advice.iter().map(advice_line).collect();
        let (shown, n_more) = self.notes_shown();
        let more = (n_more > 0).then(|| format!("{n_more} more; JSON lists them all"));
        let shown = shown.iter().map(|note| Untrusted::from(note).for_terminal());
        let left_out: Vec<String> = shown.chain(more).collect();
        for (title, lines) in
            [("No model", failures), ("Worth measuring next", advice), ("Left out", left_out)]
        {
            if lines.is_empty() {
                continue;
            }
            let items: String = lines.iter().map(|line| format!("<li>{}</li>", escape(line))).collect();
            let _ = writeln!(html, "<section><h2>{title}</h2><ul>{items}</ul></section>");
        }
        html.push_str(FOOT);
        Some(html)
    }

    fn pictures(&self) -> Vec<(String, String)> {
        let drawn = self.models.iter().filter_map(|entry| Some((entry, entry.picture.as_ref()?)));
        drawn.enumerate().map(|(i, (entry, picture))| (file_name(i, entry), picture.to_svg(entry))).collect()
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
    let value = prediction.value.map_or("no value".to_owned(), |value| text::digits(value, 4));
    let interval = prediction.interval.map_or(String::new(), |[low, high]| {
        format!(
            ", {:.0} % between {} and {}",
            100.0 * prediction.confidence,
            text::digits(low, 4),
            text::digits(high, 4)
        )
    });
    format!("at {}: {value}{interval}", prediction.at.in_words())
}

fn failure_line(ModelFailure { callpath, metric, error }: &ModelFailure) -> String {
    Untrusted::from(format!("{callpath} · {metric}: no model: {error}")).for_terminal()
}

fn advice_line(advice: &AdviceEntry) -> String {
    let cost = advice.cost.map_or(String::new(), |cost| {
        format!(", cost {} {}", text::digits(cost, 3), advice.cost_unit.for_terminal())
    });
    let share = text::digits(100.0 * advice.disagreement, 2);
    format!("{}: would settle {share} % of disagreement{cost}", advice.at.in_words())
}

fn file_name(index: usize, entry: &ModelEntry) -> String {
    let plain = |name: &str| -> String {
        let mapped = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
        mapped.take(40).collect::<String>().trim_matches('-').to_owned()
    };
    format!("{index:03}-{}-{}.svg", plain(entry.callpath.as_said()), plain(entry.metric.as_said()))
}

/// What is drawn of a model.
#[derive(Clone, Debug)]
enum Picture {
    /// One parameter: points, curve, and the band of its interval.
    Curve { parameter: Untrusted, points: Vec<(f64, f64)>, curve: Vec<(f64, f64, f64, f64)> },
    /// Two parameters: the value as colour, points as dots.
    Map { parameters: [Untrusted; 2], x: (f64, f64), y: (f64, f64), cells: Vec<f64>, points: Vec<(f64, f64)> },
}

/// Cells along each side of a map.
const CELLS: usize = 24;
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 76.0;
const BOTTOM: f64 = 44.0;
const TOP: f64 = 14.0;
const RIGHT: f64 = 16.0;

impl Picture {
    fn of(
        series: &Series,
        model: &Model,
        predictions: &[Prediction],
        confidence: f64,
        names: &[Untrusted],
    ) -> Option<Self> {
        let asked = |p: usize| predictions.iter().map(move |prediction| prediction.at[p]);
        let range = |p: usize| {
            let high = asked(p).fold(model.ranges[p].maximum * 2.0, f64::max);
            let low = asked(p).fold(model.ranges[p].minimum, f64::min);
            (low, high)
        };
        let spaced = |(low, high): (f64, f64), share: f64| {
            if low > 0.0 { low * (high / low).powf(share) } else { low + share * (high - low) }
        };
        match model.ranges.len() {
            1 => {
                let values = |m: &iotide_scaling::Measurement| match &m.values {
                    iotide_scaling::Values::Each(values) => values.clone(),
                    iotide_scaling::Values::Summary(summary) => vec![summary.mean],
                };
                let points: Vec<(f64, f64)> = series
                    .measurements
                    .iter()
                    .flat_map(|m| values(m).into_iter().map(|y| (m.coordinate[0], y)))
                    .filter(|(x, y)| x.is_finite() && y.is_finite())
                    .collect();
                let curve = (0..=60)
                    .map(|i| {
                        let x = spaced(range(0), f64::from(i) / 60.0);
                        let there = model.predict(&[x], confidence);
                        let (low, high) = there.interval.unwrap_or((there.value, there.value));
                        (x, there.value, low, high)
                    })
                    .filter(|(_, y, low, high)| y.is_finite() && low.is_finite() && high.is_finite())
                    .collect();
                Some(Self::Curve { parameter: names.first()?.clone(), points, curve })
            }
            2 => {
                let (x, y) = (range(0), range(1));
                let share = |i: usize| (i as f64 + 0.5) / CELLS as f64;
                let cells = (0..CELLS * CELLS)
                    .map(|i| model.function.at(&[spaced(x, share(i % CELLS)), spaced(y, share(i / CELLS))]))
                    .collect();
                let points = series.measurements.iter().map(|m| (m.coordinate[0], m.coordinate[1])).collect();
                Some(Self::Map {
                    parameters: [names.first()?.clone(), names.get(1)?.clone()],
                    x,
                    y,
                    cells,
                    points,
                })
            }
            _ => None,
        }
    }

    fn to_svg(&self, entry: &ModelEntry) -> String {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"#1d2a33\"><title>{} · {}: {}</title>",
            entry.callpath.for_html(),
            entry.metric.for_html(),
            entry.function.for_html()
        );
        match self {
            Self::Curve { parameter, points, curve } => {
                draw_curve(&mut svg, parameter, &entry.metric, points, curve)
            }
            Self::Map { parameters, x, y, cells, points } => {
                draw_map(&mut svg, parameters, *x, *y, cells, points)
            }
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// A number line: logarithmic where values allow, since sizes double.
struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    logarithmic: bool,
}

impl Scale {
    fn new(low: f64, high: f64, from: f64, to: f64, logarithmic: bool) -> Self {
        let high = if high > low { high } else { low + low.abs().max(1.0) };
        Self { low, high, from, to, logarithmic: logarithmic && low > 0.0 }
    }

    fn at(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share.clamp(-0.05, 1.05) * (self.to - self.from)
    }

    fn ticks(&self) -> Vec<f64> {
        (0..=4)
            .map(|i| {
                let share = f64::from(i) / 4.0;
                if self.logarithmic {
                    self.low * (self.high / self.low).powf(share)
                } else {
                    self.low + share * (self.high - self.low)
                }
            })
            .collect()
    }
}

fn draw_axes(svg: &mut String, x: &Scale, y: &Scale, x_name: &Untrusted, y_name: &Untrusted) {
    let floor = HEIGHT - BOTTOM;
    let _ =
        write!(svg, "<path d=\"M{LEFT} {TOP}V{floor}H{}\" fill=\"none\" stroke=\"#5b6972\"/>", WIDTH - RIGHT);
    for tick in x.ticks() {
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            x.at(tick),
            floor + 16.0,
            text::digits(tick, 3)
        );
    }
    for tick in y.ticks() {
        let _ = write!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            y.at(tick) + 4.0,
            text::digits(tick, 3)
        );
    }
    let middle = (LEFT + WIDTH - RIGHT) / 2.0;
    let _ = write!(
        svg,
        "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\" font-weight=\"600\">{}</text>",
        HEIGHT - 8.0,
        x_name.for_html()
    );
    let _ = write!(
        svg,
        "<text transform=\"translate(14 {}) rotate(-90)\" text-anchor=\"middle\" font-weight=\"600\">{}</text>",
        floor / 2.0,
        y_name.for_html()
    );
}

fn draw_curve(
    svg: &mut String,
    parameter: &Untrusted,
    metric: &Untrusted,
    points: &[(f64, f64)],
    curve: &[(f64, f64, f64, f64)],
) {
    let xs = || curve.iter().map(|c| c.0).chain(points.iter().map(|p| p.0));
    // The band may be endless far out; the picture is as high as twice what the curve and the points need.
    let top = curve.iter().map(|c| c.1).chain(points.iter().map(|p| p.1)).fold(f64::NEG_INFINITY, f64::max);
    let bottom = curve.iter().map(|c| c.1).chain(points.iter().map(|p| p.1)).fold(f64::INFINITY, f64::min);
    let band_top =
        curve.iter().map(|c| c.3).fold(top, f64::max).min(top + (top - bottom).abs().max(top.abs() * 0.2));
    let x = Scale::new(
        xs().fold(f64::INFINITY, f64::min),
        xs().fold(f64::NEG_INFINITY, f64::max),
        LEFT,
        WIDTH - RIGHT,
        true,
    );
    let y = Scale::new(bottom.min(0.0), band_top, HEIGHT - BOTTOM, TOP, false);
    let path = |points: &mut dyn Iterator<Item = (f64, f64)>| -> String {
        points.map(|(px, py)| format!("{:.1} {:.1}", x.at(px), y.at(py))).collect::<Vec<_>>().join("L")
    };
    let band = path(&mut curve.iter().map(|c| (c.0, c.3)).chain(curve.iter().rev().map(|c| (c.0, c.2))));
    let _ = write!(svg, "<path d=\"M{band}Z\" fill=\"#1f5c85\" fill-opacity=\".16\"/>");
    let line = path(&mut curve.iter().map(|c| (c.0, c.1)));
    let _ = write!(svg, "<path d=\"M{line}\" fill=\"none\" stroke=\"#1f5c85\" stroke-width=\"2\"/>");
    for (px, py) in points.iter().take(2000) {
        let _ = write!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"#b2452b\" fill-opacity=\".7\"/>",
            x.at(*px),
            y.at(*py)
        );
    }
    draw_axes(svg, &x, &y, parameter, metric);
}

fn draw_map(
    svg: &mut String,
    parameters: &[Untrusted; 2],
    x: (f64, f64),
    y: (f64, f64),
    cells: &[f64],
    points: &[(f64, f64)],
) {
    let known = || cells.iter().copied().filter(|value| value.is_finite());
    let (low, high) = (known().fold(f64::INFINITY, f64::min), known().fold(f64::NEG_INFINITY, f64::max));
    let colour = Scale::new(low, high, 0.0, 1.0, true);
    let (x_axis, y_axis) =
        (Scale::new(x.0, x.1, LEFT, WIDTH - RIGHT, true), Scale::new(y.0, y.1, HEIGHT - BOTTOM, TOP, true));
    let (cell_width, cell_height) =
        ((WIDTH - RIGHT - LEFT) / CELLS as f64, (HEIGHT - BOTTOM - TOP) / CELLS as f64);
    for (i, value) in cells.iter().enumerate().filter(|(_, value)| value.is_finite()) {
        let (column, row) = ((i % CELLS) as f64, (i / CELLS) as f64);
        // From pale to deep blue, in one hue so that it reads in grey, too.
        let light = 94.0 - 64.0 * colour.at(*value).clamp(0.0, 1.0);
        let _ = write!(
            svg,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"hsl(205 60% {light:.0}%)\"><title>{}</title></rect>",
            LEFT + column * cell_width,
            HEIGHT - BOTTOM - (row + 1.0) * cell_height,
            cell_width + 0.5,
            cell_height + 0.5,
            text::digits(*value, 4)
        );
    }
    for (px, py) in points.iter().take(2000) {
        let _ = write!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"#b2452b\" stroke=\"#fff\"/>",
            x_axis.at(*px),
            y_axis.at(*py)
        );
    }
    draw_axes(svg, &x_axis, &y_axis, &parameters[0], &parameters[1]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_scaling::{FitConfig, Measurement, fit};

    fn report(n_parameters: usize) -> ScalingReport {
        let names = ["p".to_owned(), "size<b>".to_owned()];
        let mut report = ScalingReport::new("m.csv", "csv", "auto", &names[..n_parameters]);
        report.draws = true;
        let values = [2.0, 4.0, 8.0, 16.0, 32.0];
        let measurements = if n_parameters == 1 {
            values.map(|p| Measurement::new([p], [3.0 + 2.0 * p])).to_vec()
        } else {
            values.iter().flat_map(|p| values.map(|s| Measurement::new([*p, s], [3.0 + p * s]))).collect()
        };
        let series =
            Series { callpath: "main->io".into(), metric: "time".into(), measurements, ..Series::default() };
        let model = fit(&series.measurements, &FitConfig::default()).unwrap();
        let predictions = [model.predict(&[64.0, 64.0][..n_parameters], 0.9)];
        report.add(&series, &model, &predictions, 0.9);
        report
    }

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
    fn one_parameter_is_a_curve_and_two_are_a_map() {
        let (curve, map) = (report(1), report(2));
        assert!(curve.pictures()[0].1.contains("<path") && curve.pictures()[0].0 == "000-main--io-time.svg");
        assert!(map.pictures()[0].1.matches("<rect").count() == CELLS * CELLS);
        iotide_page::policy::assert_keeps_its_policy(&map.to_page().unwrap());
        assert!(
            map.to_page().unwrap().contains("size&lt;b&gt;") && !map.to_page().unwrap().contains("size<b>")
        );
    }

    #[test]
    fn names_of_others_steer_neither_terminal_nor_page() {
        use crate::steering::hostile as name;
        let names = [name("p")];
        let mut report = ScalingReport::new(&name("file"), "csv", "auto", &names);
        (report.draws, report.keeps_points) = (true, true);
        let measurements =
            [2.0, 4.0, 8.0, 16.0, 32.0].map(|p| Measurement::new([p], [3.0 + 2.0 * p])).to_vec();
        let series =
            Series { callpath: name("main"), metric: name("time"), measurements, ..Series::default() };
        let model = fit(&series.measurements, &FitConfig::default()).unwrap();
        report.add(&series, &model, &[model.predict(&[64.0], 0.9)], 0.9);
        let (callpath, metric) = (name("a"), name("b"));
        report.failures.push(ModelFailure { callpath, metric, error: name("error") });
        report.advise(&Advice { at: vec![64.0], disagreement: 0.1, cost: 2.0 }, &name("unit"));
        report.notes.push(name("note"));
        crate::steering::assert_steers_nothing(&report);
        for format in
            ["all", "functions-latex", "functions-python", "parameters", "{points}", "{measurements}"]
        {
            crate::steering::assert_plain(&report.print(format).unwrap(), "\n\t");
        }
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(json["models"][0]["callpath"], series.callpath, "JSON means what was said");
        assert_eq!(json["models"][0]["predictions"][0]["at"][&names[0]], 64);
    }

    #[test]
    fn people_are_told_the_function_and_the_prediction() {
        let text = report(1).to_text(80, Ink::Plain);
        assert!(text.starts_with("main->io · time\n  "), "{text}");
        assert!(text.contains("* p^(1)") && text.contains("at p=64: 131, 90 % between"), "{text}");
    }
}
