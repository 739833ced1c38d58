//! From the measurements of a metric to its model.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::auto::{self, Alternative, AutoDesign};
use crate::design::Design;
use crate::hypothesis::{adjusted_r2, in_sample_costs};
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
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Method {
    /// Ours: see the documentation of the crate.
    #[default]
    Auto,
    /// Method of Extra-P 4.2, step by step, for those who compare with it.
    Extrap(ExtrapConfig),
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
    /// Where the points lie, parameter by parameter.
    pub ranges: Vec<Range>,
    /// The points at its edges.
    pub edges: Edges,
    /// Functions that explain the points, this one among them, the most probable first; empty if the method does not ask.
    pub alternatives: Vec<Alternative>,
    /// Whether no value was negative, so that no prediction should be.
    pub non_negative: bool,
    /// Notes for the reader.
    pub notes: Vec<Note>,
}

/// The values a parameter took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// The least.
    pub minimum: f64,
    /// The greatest.
    pub maximum: f64,
    /// How many different ones.
    pub n_values: usize,
}

/// Points beyond which nothing was measured.
///
/// With several parameters their ranges do not tell: at the far corner of a grid every parameter is within its range, and yet the point lies
/// beyond all others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Edges {
    /// Points that no other exceeds in every parameter.
    pub largest: Vec<Vec<f64>>,
    /// Points that exceed no other in every parameter.
    pub smallest: Vec<Vec<f64>>,
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
    /// Squares of the values are beyond what numbers of 64 bits hold.
    #[error("the values are too large or too small to be fitted")]
    OutOfRange,
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
        series
            .iter()
            .map(|series| {
                let mut model = fitter.fit(&series.measurements)?;
                model.notes.splice(0..0, series.notes.iter().cloned());
                Ok(model)
            })
            .collect()
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
    auto_designs: HashMap<Vec<u64>, Arc<AutoDesign>>,
}

impl Fitter {
    /// Returns one that has seen nothing yet.
    pub fn new(config: FitConfig) -> Self {
        Self { config, designs: HashMap::new(), auto_designs: HashMap::new() }
    }

    /// Finds the model of one metric.
    pub fn fit(&mut self, measurements: &[Measurement]) -> Result<Model, FitError> {
        let n_parameters = measurements.first().map_or(0, |measurement| measurement.coordinate.len());
        let (measurements, mut notes) = usable(measurements, n_parameters);
        if measurements.is_empty() {
            return Err(FitError::NoPoints);
        }
        let summaries: Vec<Summary> =
            measurements.iter().map(|measurement| measurement.values.summary()).collect();
        let measure = self.config.measure;
        let ys: Vec<f64> = summaries.iter().map(|summary| summary.by(measure)).collect();
        let (function, costs, alternatives) = match self.config.method.clone() {
            Method::Auto => {
                let design = self.auto_design(&measurements);
                let found = auto::search(&design, &summaries, measure).ok_or(FitError::OutOfRange)?;
                notes.extend(found.notes);
                let costs = costs_at_points(&found.function, &measurements, &ys);
                (found.function, costs, found.alternatives)
            }
            Method::Extrap(config) => {
                let design = self.design(&measurements, &config);
                let (function, costs) = if n_parameters == 1 {
                    let line = &design.lines[0];
                    model_line(&line.xs, &ys, line, &config)
                } else {
                    model_grid(&design, &summaries, measure, &config)
                };
                let costs = Costs { rss: costs.rss, smape: costs.smape, adjusted_r2: costs.adjusted_r2 };
                (function, costs, Vec::new())
            }
        };
        if !function.is_finite() {
            return Err(FitError::OutOfRange);
        }
        Ok(Model {
            function,
            costs,
            n_points: measurements.len(),
            ranges: (0..n_parameters).map(|parameter| range_of(&measurements, parameter)).collect(),
            edges: Edges::of(&measurements),
            alternatives,
            non_negative: ys.iter().all(|y| *y >= 0.0),
            notes,
        })
    }

    fn auto_design(&mut self, measurements: &[Measurement]) -> Arc<AutoDesign> {
        if self.auto_designs.len() > 64 {
            self.auto_designs.clear();
        }
        let design = self.auto_designs.entry(key_of(measurements)).or_insert_with(|| {
            Arc::new(AutoDesign::new(measurements.iter().map(|m| m.coordinate.clone()).collect()))
        });
        Arc::clone(design)
    }

    fn design(&mut self, measurements: &[Measurement], config: &ExtrapConfig) -> Arc<Design> {
        // Metrics of one experiment share their points; a set where each has its own must not grow without end.
        if self.designs.len() > 64 {
            self.designs.clear();
        }
        let design = self.designs.entry(key_of(measurements)).or_insert_with(|| {
            Arc::new(Design::new(measurements.iter().map(|m| m.coordinate.clone()).collect(), config))
        });
        Arc::clone(design)
    }
}

/// The coordinates, told apart to the last bit.
fn key_of(measurements: &[Measurement]) -> Vec<u64> {
    let n_parameters = measurements.first().map_or(0, |measurement| measurement.coordinate.len());
    let bits = measurements.iter().flat_map(|m| m.coordinate.iter().map(|x| (x + 0.0).to_bits()));
    std::iter::once(n_parameters as u64).chain(bits).collect()
}

fn range_of(measurements: &[Measurement], parameter: usize) -> Range {
    let mut values: Vec<f64> = measurements.iter().map(|m| m.coordinate[parameter]).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    Range { minimum: values[0], maximum: values[values.len() - 1], n_values: values.len() }
}

impl Edges {
    fn of(measurements: &[Measurement]) -> Edges {
        let reaches = |far: &[f64], near: &[f64]| far.iter().zip(near).all(|(far, near)| far >= near);
        let edge = |is_inside: &dyn Fn(&[f64], &[f64]) -> bool| {
            let mut edge: Vec<&[f64]> = Vec::new();
            for point in measurements.iter().map(|m| m.coordinate.as_slice()) {
                if !edge.iter().any(|known| is_inside(point, known)) {
                    edge.retain(|known| !is_inside(known, point));
                    edge.push(point);
                }
            }
            edge.into_iter().map(<[f64]>::to_vec).collect()
        };
        Edges {
            largest: edge(&|point, other| reaches(other, point)),
            smallest: edge(&|point, other| reaches(point, other)),
        }
    }

    /// How many doublings a point lies beyond the edges, over all parameters.
    pub(crate) fn doublings_beyond(&self, at: &[f64]) -> f64 {
        let doublings = |far: f64, near: f64| (far / near).log2().max(0.0);
        let up = |edge: &Vec<f64>| at.iter().zip(edge).map(|(x, end)| doublings(*x, *end)).sum();
        let down = |edge: &Vec<f64>| at.iter().zip(edge).map(|(x, end)| doublings(*end, *x)).sum();
        let nearest =
            |distances: &mut dyn Iterator<Item = f64>| distances.filter(|d| d.is_finite()).reduce(f64::min);
        nearest(&mut self.largest.iter().map(up)).unwrap_or(0.0)
            + nearest(&mut self.smallest.iter().map(down)).unwrap_or(0.0)
    }
}

fn costs_at_points(function: &Function, measurements: &[Measurement], ys: &[f64]) -> Costs {
    let n = ys.len();
    let pairs =
        measurements.iter().zip(ys).map(|(measurement, y)| (function.at(&measurement.coordinate), *y));
    let costs = in_sample_costs(pairs, n);
    let mean = iotide_num::mean(ys);
    let total: f64 = ys.iter().map(|y| (y - mean).powi(2)).sum();
    // Of values that do not differ there is nothing to explain.
    let adjusted_r2 =
        if function.is_constant() { 0.0 } else { adjusted_r2(costs.rss, total, n, function.terms.len()) };
    Costs { rss: costs.rss, smape: costs.smape, adjusted_r2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model_of(points: &[(f64, f64)]) -> Result<Model, FitError> {
        let measurements: Vec<Measurement> =
            points.iter().map(|(x, y)| Measurement::new([*x], [*y])).collect();
        fit(&measurements, &FitConfig::default())
    }

    #[test]
    fn the_far_corner_of_a_grid_lies_beyond_its_points() {
        let without_corner = [[2.0, 10.0], [4.0, 10.0], [8.0, 10.0], [2.0, 30.0], [4.0, 30.0]];
        let edges = Edges::of(&without_corner.map(|at| Measurement::new(at, [1.0])));
        assert_eq!(edges.largest, [[8.0, 10.0], [4.0, 30.0]]);
        assert_eq!(edges.smallest, [[2.0, 10.0]]);
        assert_eq!(edges.doublings_beyond(&[8.0, 30.0]), 1.0);
        assert_eq!(edges.doublings_beyond(&[4.0, 20.0]), 0.0);
        assert_eq!(edges.doublings_beyond(&[1.0, 40.0]), 1.0 + (40.0_f64 / 30.0).log2());
        assert_eq!(edges.doublings_beyond(&[0.0, 10.0]), 0.0, "nothing doubles from zero");
    }

    #[test]
    fn zeros_everywhere_are_the_constant_zero() {
        let model = model_of(&[(2.0, 0.0), (4.0, 0.0), (8.0, 0.0), (16.0, 0.0), (32.0, 0.0)]).unwrap();
        assert_eq!(model.function, Function::constant(0.0));
        assert_eq!(model.predict(&[64.0], 0.9).interval, Some((0.0, 0.0)));
    }

    #[test]
    fn one_value_has_no_interval() {
        let model = model_of(&[(4.0, 5.0)]).unwrap();
        assert_eq!((model.function.constant, model.predict(&[8.0], 0.9).interval), (5.0, None));
    }

    #[test]
    fn values_whose_squares_overflow_are_fitted_as_others_are() {
        for unit in [1.0, 1e300, 1e-300] {
            let points = [2.0, 4.0, 8.0, 16.0, 32.0].map(|x| (x, 3.0 * unit * x));
            let model = model_of(&points).unwrap();
            assert_eq!(model.function.terms.len(), 1, "{unit}: {:?}", model.function);
            assert!((model.function.terms[0].coefficient / (3.0 * unit) - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn values_beyond_numbers_are_told_apart_from_values_that_are_not_there() {
        let infinite_mean = [Measurement::new([2.0], [f64::MAX, f64::MAX]), Measurement::new([4.0], [1.0])];
        for method in [Method::Auto, Method::Extrap(ExtrapConfig::default())] {
            let config = FitConfig { method, ..FitConfig::default() };
            assert_eq!(fit(&infinite_mean, &config), Err(FitError::OutOfRange));
            assert_eq!(fit(&[], &config), Err(FitError::NoPoints));
        }
    }
}
