//! How each metric scales with the parameters.

use std::num::NonZeroUsize;

use iotide_report::{ModelFailure, ScalingReport};
use iotide_scaling::{
    Experiment, FitConfig, FitError, Measure, Method, Model, ModelSet, Prediction, Search, Series, advise,
};

use crate::Error;

pub use self::measurements::{MeasuredIn, Measurements, measurements};

mod cube;
mod extrap;
mod from_traces;
mod measurements;

/// How models are found.
#[derive(Clone, Debug, Default)]
pub struct FitOptions {
    /// Which figure stands for repeated values.
    pub measure: Measure,
    /// Whose method.
    pub method: FitMethod,
    /// Which metrics of which call paths are wanted.
    pub choice: Choice,
    /// Models of earlier measurements.
    pub store: Store,
    /// How many cores to use; `None` is all. The answer does not depend on it.
    pub threads: Option<NonZeroUsize>,
}

/// Whose method models are found by.
#[derive(Clone, Debug, Default)]
pub enum FitMethod {
    /// Ours.
    #[default]
    Auto,
    /// Step by step what Extra-P 4.2 does.
    Extrap {
        /// The search for models of one parameter.
        search: Search,
        /// Options and their values under Extra-P's own names.
        options: Vec<(String, String)>,
    },
}

impl FitMethod {
    /// Its name in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Extrap { .. } => "extrap",
        }
    }

    fn config(&self, measure: Measure, n_parameters: usize) -> Result<FitConfig, Error> {
        let method = match self {
            Self::Auto => Method::Auto,
            Self::Extrap { search, options } => {
                Method::Extrap(extrap::config(*search, options, n_parameters)?)
            }
        };
        Ok(FitConfig { measure, method })
    }
}

/// Metrics by parts of their names; what is not said is not asked for.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Only call paths that contain this.
    pub callpath: Option<String>,
    /// Only metrics that contain this.
    pub metric: Option<String>,
}

impl Choice {
    fn has(&self, series: &Series) -> bool {
        let contains =
            |name: &str, part: &Option<String>| part.as_ref().is_none_or(|part| name.contains(part.as_str()));
        contains(&series.callpath, &self.callpath) && contains(&series.metric, &self.metric)
    }
}

/// Whether models are kept, to be added to later.
#[derive(Clone, Debug, Default)]
pub enum Store {
    /// They are not.
    #[default]
    None,
    /// They will be, and none are yet.
    New,
    /// They are; these are the bytes of [`Models::to_store`], called by a name for messages.
    Known {
        /// Name for messages.
        name: String,
        /// Contents of the store.
        bytes: Vec<u8>,
    },
}

/// Models, and what became of a store on the way.
#[derive(Clone, Debug)]
pub struct Models {
    set: ModelSet,
    choice: Choice,
    source: String,
    form: &'static str,
    method: &'static str,
    notes: Vec<String>,
    /// Models of the store that had been fitted another way, and were fitted again.
    pub n_refitted: usize,
    /// Inputs that were in the store already, and so counted once.
    pub n_known: usize,
    /// Metrics that were fitted because measurements came in.
    pub n_changed: usize,
}

/// Fits a function to each metric; with a store, joins what is new to what is known.
pub fn fit(measured: Measurements, options: &FitOptions) -> Result<Models, Error> {
    let Measurements { source, form, mut experiments } = measured;
    let threads =
        options.threads.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    let notes: Vec<String> =
        experiments.iter().flat_map(|experiment| &experiment.notes).map(ToString::to_string).collect();
    let parameters = experiments.first().map_or_else(Vec::new, |first| first.parameters.clone());
    let config = |n_parameters| options.method.config(options.measure, n_parameters);
    let mut n_refitted = 0;
    let mut set = match &options.store {
        Store::None => {
            // Nothing is kept, so nothing need be fitted that is not asked for.
            let choose = |experiment: &mut Experiment| {
                experiment.series.retain(|series| options.choice.has(series));
            };
            experiments.iter_mut().for_each(choose);
            let config = config(parameters.len())?;
            ModelSet::for_one_question(parameters, config)
        }
        Store::New => {
            let config = config(parameters.len())?;
            ModelSet::new(parameters, config)
        }
        Store::Known { name, bytes } => {
            let failed = |source| Error::Store { name: name.clone(), source };
            let n_parameters = ModelSet::parameters_in(bytes).map_err(failed)?;
            let (set, n) = ModelSet::from_bytes(bytes, config(n_parameters)?, threads).map_err(failed)?;
            n_refitted = n;
            set
        }
    };
    let n_given = experiments.len();
    experiments.retain(|experiment| !set.has_absorbed(experiment));
    let n_known = n_given - experiments.len();
    let n_changed = set.absorb(experiments, threads).map_err(Error::Parameters)?.len();
    let (choice, method) = (options.choice.clone(), options.method.name());
    Ok(Models { set, choice, source, form, method, notes, n_refitted, n_known, n_changed })
}

/// Questions to models.
#[derive(Clone, Debug)]
pub struct ModelQuestions {
    /// Where to predict, each point as parameters and their values.
    pub at: Vec<Vec<(String, f64)>>,
    /// How often the interval of a prediction is to hold the truth.
    pub confidence: f64,
    /// The order of the answers.
    pub rank_by: RankBy,
    /// Whether to say where to measure next.
    pub advise: bool,
    /// Whether pictures are wanted.
    pub draws: bool,
    /// Whether the points are listed.
    pub points: bool,
}

impl Default for ModelQuestions {
    fn default() -> Self {
        let (at, rank_by) = (Vec::new(), RankBy::Input);
        Self { at, confidence: 0.9, rank_by, advise: false, draws: false, points: false }
    }
}

/// The order of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankBy {
    /// As in the input.
    Input,
    /// Value at the first point asked for over the value at the largest sizes measured.
    Growth,
    /// Value at the first point asked for.
    Value,
}

impl Models {
    /// Names of the parameters.
    pub fn parameters(&self) -> &[String] {
        self.set.parameters()
    }

    /// How many metrics there are.
    pub fn n_metrics(&self) -> usize {
        self.set.iter().count()
    }

    /// How many of them are wanted.
    pub fn n_chosen(&self) -> usize {
        self.chosen().count()
    }

    /// All models with their measurements, for [`Store::Known`].
    pub fn to_store(&self) -> Vec<u8> {
        self.set.to_bytes()
    }

    /// The wanted measurements as JSON Lines, as Extra-P reads them.
    pub fn to_json_lines(&self) -> String {
        iotide_scaling::to_json_lines(self.parameters(), self.chosen().map(|(series, _)| series))
    }

    /// The wanted measurements as an experiment that Extra-P opens.
    pub fn to_extra_p(&self) -> Vec<u8> {
        iotide_scaling::to_extra_p(self.parameters(), self.chosen().map(|(series, _)| series))
    }

    /// Returns the time at a size, with an interval, by the model that grows largest of those called a time; `None` if there is none,
    /// or the size is not its only parameter.
    pub fn time_at(&self, size: f64, confidence: f64) -> Option<(f64, Option<[f64; 2]>)> {
        let model = self.time_model(None)?;
        let predicted = model.predict(&[size], confidence);
        let is_time = predicted.value.is_finite() && predicted.value > 0.0;
        is_time
            .then(|| (predicted.value, predicted.interval.map(|(low, high)| [low.max(0.0), high.max(0.0)])))
    }

    /// Returns the time with this name (of a call path or a metric) at a size.
    pub fn named_time_at(&self, name: &str, size: f64) -> Option<f64> {
        let value = self.time_model(Some(name))?.function.at(&[size]);
        (value.is_finite() && value > 0.0).then_some(value)
    }

    /// The sizes that were measured, from the least to the largest.
    pub fn measured_sizes(&self) -> Option<[f64; 2]> {
        let range = self.time_model(None)?.ranges.first()?;
        Some([range.minimum, range.maximum])
    }

    fn time_model(&self, name: Option<&str>) -> Option<&Model> {
        let is_meant = |series: &Series| match name {
            Some(name) => series.callpath == name || series.metric == name,
            None => series.metric.to_lowercase().contains("time") || self.n_chosen() == 1,
        };
        let top = |model: &Model| -> Vec<f64> { model.ranges.iter().map(|range| range.maximum).collect() };
        self.chosen()
            .filter(|(series, _)| is_meant(series))
            .filter_map(|(_, model)| model.as_ref().ok())
            .filter(|model| model.ranges.len() == 1)
            .max_by(|a, b| a.function.at(&top(a)).total_cmp(&b.function.at(&top(b))))
    }

    fn chosen(&self) -> impl Iterator<Item = (&Series, &Result<Model, FitError>)> {
        self.set.iter().filter(|(series, _)| self.choice.has(series))
    }

    /// Says how each wanted metric scales, and what else was asked.
    pub fn report(&self, asked: &ModelQuestions) -> Result<ScalingReport, Error> {
        if !(asked.confidence > 0.0 && asked.confidence < 1.0) {
            return Err(Error::Confidence { confidence: asked.confidence });
        }
        let points = self.points(&asked.at)?;
        let mut report = ScalingReport::new(&self.source, self.form, self.method, self.parameters());
        (report.draws, report.keeps_points) = (asked.draws, asked.points);
        report.notes = self.notes.clone();
        for (series, model) in self.chosen() {
            match model {
                Ok(model) => {
                    let far = model.ranges.iter().map(|range| 16.0 * range.maximum).collect();
                    let default = (asked.rank_by != RankBy::Input && points.is_empty()).then_some(far);
                    let predictions: Vec<Prediction> =
                        points.iter().chain(&default).map(|at| model.predict(at, asked.confidence)).collect();
                    report.add(series, model, &predictions, asked.confidence);
                }
                Err(error) => report.failures.push(ModelFailure {
                    callpath: series.callpath.clone(),
                    metric: series.metric.clone(),
                    error: error.to_string(),
                }),
            }
        }
        match asked.rank_by {
            RankBy::Input => {}
            RankBy::Growth => report.rank_by_growth(),
            RankBy::Value => report.rank_by_value(),
        }
        if asked.advise {
            self.add_advice(&mut report);
        }
        Ok(report)
    }

    /// The points asked for, in the order of the parameters.
    fn points(&self, asked: &[Vec<(String, f64)>]) -> Result<Vec<Vec<f64>>, Error> {
        let parameters = self.parameters();
        let point = |(nth, named): (usize, &Vec<(String, f64)>)| {
            let failed = |fault| Error::Point { nth, fault };
            let mut at = vec![f64::NAN; parameters.len()];
            for (name, value) in named {
                let parameter = parameters.iter().position(|parameter| parameter == name);
                let parameter = parameter.ok_or_else(|| {
                    failed(format!("there is no parameter {name:?}, only {}", parameters.join(", ")))
                })?;
                if !value.is_finite() {
                    return Err(failed(format!("{value} is no number")));
                }
                if !at[parameter].is_nan() {
                    return Err(failed(format!("{} is there twice", parameters[parameter])));
                }
                at[parameter] = *value;
            }
            match at.iter().position(|x| x.is_nan()) {
                Some(missing) => Err(failed(format!("the parameter {} is missing", parameters[missing]))),
                None => Ok(at),
            }
        };
        asked.iter().enumerate().map(point).collect()
    }

    /// Adds points worth measuring. The cost of a run is its time on all its processes, where both are known; otherwise its size.
    fn add_advice(&self, report: &mut ScalingReport) {
        let fitted: Vec<&Model> = self.chosen().filter_map(|(_, model)| model.as_ref().ok()).collect();
        let mut measured: Vec<Vec<f64>> = Vec::new();
        for measurement in self.chosen().flat_map(|(series, _)| &series.measurements) {
            if !measured.contains(&measurement.coordinate) {
                measured.push(measurement.coordinate.clone());
            }
        }
        let top = |model: &Model| -> Vec<f64> { model.ranges.iter().map(|range| range.maximum).collect() };
        let timed = self
            .chosen()
            .filter(|(series, _)| series.metric.to_lowercase().contains("time"))
            .filter_map(|(_, model)| model.as_ref().ok())
            .max_by(|a, b| a.function.at(&top(a)).total_cmp(&b.function.at(&top(b))));
        let advice = match timed {
            Some(time) => {
                advise(&fitted, &measured, |at| at.first().copied().unwrap_or(1.0) * time.function.at(at))
            }
            None => advise(&fitted, &measured, |at| at.iter().product()),
        };
        let first = self.parameters().first().cloned().unwrap_or_default();
        let unit = if timed.is_some() {
            format!("time × {first}")
        } else {
            format!("= {}", self.parameters().join(" × "))
        };
        advice.iter().take(5).for_each(|advice| report.advise(advice, &unit));
    }
}
