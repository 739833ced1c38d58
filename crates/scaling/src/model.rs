//! From the measurements of a metric to its model.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::design::Design;
use crate::measurement::{Measure, Measurement, Note, Series, Summary, usable};
use crate::multi::{model_grid, model_line};
use crate::search::ExtrapConfig;
use crate::term::Function;

/// How to find a model.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct FitConfig {
    /// Which figure stands for repeated values.
    pub measure: Measure,
    /// Which way.
    pub method: Method,
}

/// A way of finding models.
#[derive(Clone, Debug, PartialEq)]
pub enum Method {
    /// What Extra-P 4.2 does, step by step, for those who compare with it.
    Extrap(ExtrapConfig),
}

impl Default for Method {
    fn default() -> Self {
        Method::Extrap(ExtrapConfig::default())
    }
}

/// A function and how far it can be trusted.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// The function.
    pub function: Function,
    /// How far it is from the points.
    pub costs: Costs,
    /// How many points it rests on.
    pub n_points: usize,
    /// What a reader should know.
    pub notes: Vec<Note>,
}

/// How far a function is from the points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Residual sum of squares.
    pub rss: f64,
    /// Symmetric mean absolute percentage error, 0 to 200.
    pub smape: f64,
    /// Share of the variance explained, corrected for the number of terms.
    pub adjusted_r2: f64,
}

/// Why there is no model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FitError {
    /// Nothing to fit.
    #[error("no point has a usable value")]
    NoPoints,
}

/// Finds the model of one metric.
pub fn fit(measurements: &[Measurement], config: &FitConfig) -> Result<Model, FitError> {
    Fitter::new(config.clone()).fit(measurements)
}

/// Finds the models of many metrics on `n_threads` cores; the answer does not depend on how many.
pub fn fit_all(
    series: &[Series],
    config: &FitConfig,
    n_threads: NonZeroUsize,
) -> Vec<Result<Model, FitError>> {
    let chunk = series.len().div_ceil(n_threads.get()).max(1);
    let fit_chunk = |series: &[Series]| -> Vec<Result<Model, FitError>> {
        let mut fitter = Fitter::new(config.clone());
        series.iter().map(|series| fitter.fit(&series.measurements)).collect()
    };
    if series.len() <= chunk {
        return fit_chunk(series);
    }
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            series.chunks(chunk).map(|chunk| scope.spawn(move || fit_chunk(chunk))).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a fit does not panic")).collect()
    })
}

/// Finds models one after another, keeping what depends on the coordinates alone.
#[derive(Debug)]
pub struct Fitter {
    config: FitConfig,
    designs: HashMap<Vec<u64>, Arc<Design>>,
}

impl Fitter {
    /// Returns one that has seen nothing yet.
    pub fn new(config: FitConfig) -> Self {
        Self { config, designs: HashMap::new() }
    }

    /// Finds the model of one metric.
    pub fn fit(&mut self, measurements: &[Measurement]) -> Result<Model, FitError> {
        let n_parameters = measurements.first().map_or(0, |measurement| measurement.coordinate.len());
        let (measurements, notes) = usable(measurements, n_parameters);
        if measurements.is_empty() {
            return Err(FitError::NoPoints);
        }
        let summaries: Vec<Summary> =
            measurements.iter().map(|measurement| measurement.values.summary()).collect();
        match self.config.method.clone() {
            Method::Extrap(config) => {
                let design = self.design(&measurements, &config);
                let (function, costs) = if n_parameters == 1 {
                    let line = &design.lines[0];
                    let ys: Vec<f64> =
                        summaries.iter().map(|summary| summary.by(self.config.measure)).collect();
                    model_line(&line.xs, &ys, line, &config)
                } else {
                    model_grid(&design, &summaries, self.config.measure, &config)
                };
                let costs = Costs { rss: costs.rss, smape: costs.smape, adjusted_r2: costs.adjusted_r2 };
                Ok(Model { function, costs, n_points: measurements.len(), notes })
            }
        }
    }

    fn design(&mut self, measurements: &[Measurement], config: &ExtrapConfig) -> Arc<Design> {
        let key =
            measurements.iter().flat_map(|m| m.coordinate.iter().map(|x| (x + 0.0).to_bits())).collect();
        // Metrics of one experiment share their points; a set where each has its own must not grow without end.
        if self.designs.len() > 64 {
            self.designs.clear();
        }
        let design = self.designs.entry(key).or_insert_with(|| {
            Arc::new(Design::new(measurements.iter().map(|m| m.coordinate.clone()).collect(), config))
        });
        Arc::clone(design)
    }
}
