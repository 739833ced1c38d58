//! Measurements: values of one quantity at points of the parameter space, repeated.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use iotide_num::{mean, median, population_std};

/// Measurements of one or many quantities at one set of parameters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Experiment {
    /// Names of the parameters, in the order of the coordinates.
    pub parameters: Vec<String>,
    /// One series per call path and metric, in the order they were first seen.
    pub series: Vec<Series>,
    /// Input that could not be read, and why.
    pub notes: Vec<Note>,
}

/// One metric of one call path at several points.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Where in the program, parts joined by `->`.
    pub callpath: String,
    /// Name of the quantity measured there.
    pub metric: String,
    /// The points, in the order they were first seen.
    pub measurements: Vec<Measurement>,
    /// Parts missing in this series.
    pub notes: Vec<Note>,
}

/// The values seen at one point.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// One number per parameter.
    pub coordinate: Vec<f64>,
    /// Values measured there.
    pub values: Values,
}

impl Measurement {
    /// Returns the values of repeated runs at one point.
    pub fn new(coordinate: impl Into<Vec<f64>>, values: impl Into<Vec<f64>>) -> Self {
        Self { coordinate: coordinate.into(), values: Values::Each(values.into()) }
    }
}

/// Repeated values, one by one or as somebody else summed them up.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Every repetition.
    Each(Vec<f64>),
    /// A summary; the values themselves were not kept.
    Summary(Summary),
}

impl Values {
    /// Sums the repetitions up; all figures are NaN if there are none.
    pub fn summary(&self) -> Summary {
        match self {
            Values::Summary(summary) => *summary,
            Values::Each(values) if values.is_empty() => Summary {
                n: 0,
                mean: f64::NAN,
                median: f64::NAN,
                minimum: f64::NAN,
                maximum: f64::NAN,
                std: f64::NAN,
            },
            Values::Each(values) => Summary {
                n: values.len(),
                mean: mean(values),
                median: median(values).unwrap_or(f64::NAN),
                minimum: values.iter().copied().fold(f64::INFINITY, f64::min),
                maximum: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                std: population_std(values),
            },
        }
    }
}

/// Repetitions summed up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// How many repetitions.
    pub n: usize,
    /// Their arithmetic mean.
    pub mean: f64,
    /// The middle one.
    pub median: f64,
    /// The least.
    pub minimum: f64,
    /// The greatest.
    pub maximum: f64,
    /// Their standard deviation (divide by `n`).
    pub std: f64,
}

impl Summary {
    /// Returns the figure that stands for the repetitions.
    pub fn by(&self, measure: Measure) -> f64 {
        match measure {
            Measure::Mean => self.mean,
            Measure::Median => self.median,
            Measure::Minimum => self.minimum,
            Measure::Maximum => self.maximum,
        }
    }

    /// The same in units of `unit`.
    pub(crate) fn in_units_of(&self, unit: f64) -> Self {
        Self {
            n: self.n,
            mean: self.mean / unit,
            median: self.median / unit,
            minimum: self.minimum / unit,
            maximum: self.maximum / unit,
            std: self.std / unit,
        }
    }
}

/// Which figure stands for the repetitions at a point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Measure {
    /// The arithmetic mean.
    #[default]
    Mean,
    /// The middle value.
    Median,
    /// The least value.
    Minimum,
    /// The greatest value.
    Maximum,
}

/// Something a reader of a model should know about the data or the model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Note {
    /// Values that are no numbers were left out.
    NotANumber {
        /// How many.
        n_values: usize,
    },
    /// Points without a single usable value, or with a coordinate that is no number, were left out.
    UnusablePoints {
        /// How many.
        n_points: usize,
    },
    /// One point was given more than once; the values were pooled.
    PooledDuplicates {
        /// How many points.
        n_points: usize,
    },
    /// Other series of the experiment have points that this one lacks.
    MissingPoints {
        /// How many.
        n_points: usize,
    },
    /// A part of the input could not be used.
    Skipped {
        /// Where in the input, counted from 1 (0: not in a line).
        line: usize,
        /// Why.
        reason: String,
    },
    /// Five points a parameter are the least that carry a shape.
    FewPoints {
        /// Which parameter, as an index.
        parameter: usize,
        /// How many different values it took.
        n_points: usize,
    },
    /// Logarithms were left out because a coordinate lies below 1.
    NoLogarithms {
        /// Which parameter, as an index.
        parameter: usize,
    },
    /// A parameter never changed, so it cannot be modelled.
    FixedParameter {
        /// Which parameter, as an index.
        parameter: usize,
    },
    /// Two parameters were always changed together, so their effects cannot be told apart.
    TiedParameters {
        /// The parameter whose effect is in the model, as an index.
        kept: usize,
        /// The parameter that follows it, as an index.
        dropped: usize,
    },
    /// The points cannot tell whether the parameters' effects add up or multiply.
    SumOrProduct,
    /// Several functions explain the points about as well as the one shown.
    Ambiguous {
        /// How probable the shape shown is among those tried, in [0, 1].
        probability: f64,
    },
    /// The values shrink or grow in a way no function tried here explains within their spread.
    PoorFit {
        /// The typical relative gap between function and values.
        relative_gap: f64,
    },
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.with_names(&[] as &[&str]))
    }
}

impl Note {
    /// Returns the note with parameters under their names; one without a name is told by its place.
    pub fn with_names(&self, parameters: &[impl AsRef<str>]) -> String {
        let name = |index: usize| parameter_name(parameters, index);
        let counted = |n: usize, one: &str, many: &str| {
            if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
        };
        match self {
            Note::NotANumber { n_values } => {
                counted(*n_values, "value is no number and was", "values are no numbers and were")
                    + " left out"
            }
            Note::UnusablePoints { n_points } => {
                counted(
                    *n_points,
                    "point has no usable value and was",
                    "points have no usable value and were",
                ) + " left out"
            }
            Note::PooledDuplicates { n_points } => {
                counted(*n_points, "point was", "points were")
                    + " given more than once; the values were pooled"
            }
            Note::MissingPoints { n_points } => {
                counted(*n_points, "point that other metrics have is", "points that other metrics have are")
                    + " missing"
            }
            Note::Skipped { line: 0, reason } => reason.clone(),
            Note::Skipped { line, reason } => format!("line {line}: {reason}"),
            Note::FewPoints { parameter, n_points: 2 } => {
                let name = name(*parameter);
                format!(
                    "cannot tell how it changes with {name}: two values of {name} show no shape; five are the least"
                )
            }
            Note::FewPoints { parameter, n_points } => {
                format!(
                    "{} took only {n_points} values; five are the least that carry a shape",
                    name(*parameter)
                )
            }
            Note::NoLogarithms { parameter } => {
                format!("{} has values below 1, so logarithms were left out", name(*parameter))
            }
            Note::FixedParameter { parameter } => {
                format!("{} never changes, so it cannot be modelled", name(*parameter))
            }
            Note::TiedParameters { kept, dropped } => {
                let (kept, dropped) = (name(*kept), name(*dropped));
                format!("{kept} and {dropped} were always changed together; the model blames {kept}")
            }
            Note::SumOrProduct => {
                "these points cannot tell a sum of the parameters' effects from a product; \
                                   measure a point where both are large"
                    .into()
            }
            Note::Ambiguous { probability } => format!(
                "other functions explain the points about as well (this one: {:.0} %)",
                probability * 100.0
            ),
            Note::PoorFit { relative_gap } => format!(
                "no function tried fits within the spread of the values (typical gap {:.0} %)",
                relative_gap * 100.0
            ),
        }
    }
}

/// Returns the name of a parameter, or its place among them.
pub(crate) fn parameter_name(names: &[impl AsRef<str>], index: usize) -> String {
    names.get(index).map_or_else(|| format!("parameter {}", index + 1), |name| name.as_ref().to_owned())
}

/// Returns the measurements a model can rest on, and notes on what was left out or pooled.
///
/// Per series, so that one bad value costs one value and never the file.
pub fn usable(measurements: &[Measurement], n_parameters: usize) -> (Cow<'_, [Measurement]>, Vec<Note>) {
    if is_usable(measurements, n_parameters) {
        return (Cow::Borrowed(measurements), Vec::new());
    }
    let mut kept: Vec<Measurement> = Vec::with_capacity(measurements.len());
    let mut seen: HashMap<Vec<u64>, usize> = HashMap::with_capacity(measurements.len());
    let (mut n_not_numbers, mut n_unusable, mut n_pooled) = (0, 0, 0);
    for measurement in measurements {
        let located = measurement.coordinate.len() == n_parameters
            && measurement.coordinate.iter().all(|x| x.is_finite());
        let values = match &measurement.values {
            Values::Each(values) => {
                let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
                n_not_numbers += values.len() - finite.len();
                (!finite.is_empty()).then_some(Values::Each(finite))
            }
            Values::Summary(summary) => {
                let finite = summary.mean.is_finite() && summary.median.is_finite();
                n_not_numbers += usize::from(!finite);
                finite.then_some(Values::Summary(*summary))
            }
        };
        let (true, Some(values)) = (located, values) else {
            n_unusable += 1;
            continue;
        };
        // +0.0 makes -0 and 0 one point.
        let key = measurement.coordinate.iter().map(|x| (x + 0.0).to_bits()).collect();
        match seen.entry(key) {
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(kept.len());
                kept.push(Measurement { coordinate: measurement.coordinate.clone(), values });
            }
            std::collections::hash_map::Entry::Occupied(entry) => {
                n_pooled += 1;
                pool(&mut kept[*entry.get()].values, values);
            }
        }
    }
    let mut notes = Vec::new();
    if n_not_numbers > 0 {
        notes.push(Note::NotANumber { n_values: n_not_numbers });
    }
    if n_unusable > 0 {
        notes.push(Note::UnusablePoints { n_points: n_unusable });
    }
    if n_pooled > 0 {
        notes.push(Note::PooledDuplicates { n_points: n_pooled });
    }
    (Cow::Owned(kept), notes)
}

/// Whether nothing is to be left out or pooled, as far as that can be told quickly.
fn is_usable(measurements: &[Measurement], n_parameters: usize) -> bool {
    /// Beyond this, comparing every point with every other takes longer than an index.
    const FEW: usize = 128;
    let is_number = |measurement: &Measurement| match &measurement.values {
        Values::Each(values) => !values.is_empty() && values.iter().all(|value| value.is_finite()),
        Values::Summary(summary) => summary.mean.is_finite() && summary.median.is_finite(),
    };
    let is_located = |measurement: &Measurement| {
        measurement.coordinate.len() == n_parameters && measurement.coordinate.iter().all(|x| x.is_finite())
    };
    measurements.len() <= FEW
        && measurements.iter().all(|measurement| is_located(measurement) && is_number(measurement))
        && measurements.iter().enumerate().all(|(i, measurement)| {
            measurements[..i].iter().all(|earlier| earlier.coordinate != measurement.coordinate)
        })
}

fn pool(into: &mut Values, more: Values) {
    if let (Values::Each(into), Values::Each(more)) = (&mut *into, &more) {
        into.extend(more);
        return;
    }
    let (a, b) = (into.summary(), more.summary());
    let (n_a, n_b) = (a.n.max(1) as f64, b.n.max(1) as f64);
    let n = n_a + n_b;
    let mean = (a.mean * n_a + b.mean * n_b) / n;
    let square = (n_a * (a.std.powi(2) + (a.mean - mean).powi(2))
        + n_b * (b.std.powi(2) + (b.mean - mean).powi(2)))
        / n;
    *into = Values::Summary(Summary {
        n: n as usize,
        mean,
        // The middle of a pool cannot be had from two middles; the weighted one is the best guess left.
        median: (a.median * n_a + b.median * n_b) / n,
        minimum: a.minimum.min(b.minimum),
        maximum: a.maximum.max(b.maximum),
        std: square.sqrt(),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_value_costs_one_value_and_a_bad_point_one_point() {
        let given = [
            Measurement::new([1.0], [2.0, f64::NAN]),
            Measurement::new([2.0], [f64::INFINITY]),
            Measurement::new([f64::NAN], [1.0]),
            Measurement::new([4.0, 1.0], [1.0]),
        ];
        let (kept, notes) = usable(&given, 1);
        assert_eq!(*kept, [Measurement::new([1.0], [2.0])]);
        assert_eq!(notes, [Note::NotANumber { n_values: 2 }, Note::UnusablePoints { n_points: 3 }]);
    }

    #[test]
    fn a_point_given_twice_is_one_point() {
        let given = [Measurement::new([1.0], [2.0]), Measurement::new([1.0], [4.0])];
        let (kept, notes) = usable(&given, 1);
        assert_eq!(*kept, [Measurement::new([1.0], [2.0, 4.0])]);
        assert_eq!(notes, [Note::PooledDuplicates { n_points: 1 }]);
    }

    #[test]
    fn pooled_summaries_are_the_summary_of_the_pool() {
        let (a, b) = (Values::Each(vec![1.0, 2.0, 6.0]), Values::Each(vec![4.0, 5.0]));
        let mut pooled = Values::Summary(a.summary());
        pool(&mut pooled, Values::Summary(b.summary()));
        let whole = Values::Each(vec![1.0, 2.0, 6.0, 4.0, 5.0]).summary();
        let pooled = pooled.summary();
        assert!((pooled.mean - whole.mean).abs() < 1e-12 && (pooled.std - whole.std).abs() < 1e-12);
        assert_eq!((pooled.n, pooled.minimum, pooled.maximum), (5, 1.0, 6.0));
    }
}
