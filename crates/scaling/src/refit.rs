//! A set of models that grows with its measurements: what did not change is not fitted again.

use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroUsize;

use crate::measurement::{Experiment, Series, Values};
use crate::model::{FitConfig, FitError, Model, fit_all};
use crate::store;

/// Models of one experiment, kept with the measurements they rest on.
#[derive(Clone, Debug)]
pub struct ModelSet {
    pub(crate) config: FitConfig,
    pub(crate) parameters: Vec<String>,
    pub(crate) series: Vec<Series>,
    pub(crate) models: Vec<Result<Model, FitError>>,
    /// Digests of the experiments that are in it.
    pub(crate) absorbed: BTreeSet<u64>,
    /// Whether those are kept; a set that answers one question and is not stored has no use for them.
    remembers: bool,
    pub(crate) by_name: HashMap<(String, String), usize>,
}

impl ModelSet {
    /// Returns an empty set.
    pub fn new(parameters: Vec<String>, config: FitConfig) -> Self {
        Self {
            config,
            parameters,
            series: Vec::new(),
            models: Vec::new(),
            absorbed: BTreeSet::new(),
            remembers: true,
            by_name: HashMap::new(),
        }
    }

    /// Returns an empty set that will not be stored: it does not keep track of which experiments are in it.
    pub fn for_one_question(parameters: Vec<String>, config: FitConfig) -> Self {
        Self { remembers: false, ..Self::new(parameters, config) }
    }

    /// Whether these very measurements are in the set already: absorbed once more they would count twice.
    pub fn has_absorbed(&self, experiment: &Experiment) -> bool {
        self.absorbed.contains(&store::digest(&experiment.parameters, &experiment.series))
    }

    /// Adds measurements and refits the metrics they belong to; returns which, as indices.
    ///
    /// Fails, and changes nothing, if the parameters of one of them are not those of the set.
    pub fn absorb(
        &mut self,
        experiments: Vec<Experiment>,
        n_threads: NonZeroUsize,
    ) -> Result<Vec<usize>, ParametersDiffer> {
        if let Some(other) = experiments.iter().find(|more| more.parameters != self.parameters) {
            let (ours, theirs) = (self.parameters.clone(), other.parameters.clone());
            return Err(ParametersDiffer { ours, theirs });
        }
        let mut changed: BTreeSet<usize> = BTreeSet::new();
        for more in experiments {
            if self.remembers {
                self.absorbed.insert(store::digest(&more.parameters, &more.series));
            }
            for series in more.series {
                let name = (series.callpath.clone(), series.metric.clone());
                match self.by_name.get(&name) {
                    Some(index) => {
                        merge(&mut self.series[*index], series);
                        changed.insert(*index);
                    }
                    None => {
                        changed.insert(self.series.len());
                        self.push(series, Err(FitError::NoPoints));
                    }
                }
            }
        }
        let changed: Vec<usize> = changed.into_iter().collect();
        if changed.len() == self.series.len() {
            self.refit_all(n_threads);
        } else {
            let stale: Vec<Series> = changed.iter().map(|index| self.series[*index].clone()).collect();
            for (index, model) in changed.iter().zip(fit_all(&stale, &self.config, n_threads)) {
                self.models[*index] = model;
            }
        }
        Ok(changed)
    }

    /// Adds a metric with its model as it is; returns whether it was new.
    pub(crate) fn push(&mut self, series: Series, model: Result<Model, FitError>) -> bool {
        let name = (series.callpath.clone(), series.metric.clone());
        let is_new = self.by_name.insert(name, self.series.len()).is_none();
        self.series.push(series);
        self.models.push(model);
        is_new
    }

    /// Fits every metric again; returns how many.
    pub(crate) fn refit_all(&mut self, n_threads: NonZeroUsize) -> usize {
        self.models = fit_all(&self.series, &self.config, n_threads);
        self.models.len()
    }

    /// Names of the parameters.
    pub fn parameters(&self) -> &[String] {
        &self.parameters
    }

    /// Every metric with its model, in the order first seen.
    pub fn iter(&self) -> impl Iterator<Item = (&Series, &Result<Model, FitError>)> {
        self.series.iter().zip(&self.models)
    }
}

/// Measurements of other parameters cannot join a set.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("the models are functions of {ours:?}, the measurements of {theirs:?}")]
pub struct ParametersDiffer {
    /// Parameters of the set.
    pub ours: Vec<String>,
    /// Parameters of the measurements.
    pub theirs: Vec<String>,
}

fn merge(into: &mut Series, more: Series) {
    for measurement in more.measurements {
        let known = into.measurements.iter_mut().find(|known| known.coordinate == measurement.coordinate);
        match (known.map(|known| &mut known.values), measurement.values) {
            (Some(Values::Each(values)), Values::Each(new)) => values.extend(new),
            // Summaries are pooled when the model is fitted.
            (_, values) => {
                into.measurements.push(crate::Measurement { coordinate: measurement.coordinate, values })
            }
        }
    }
    // Whether points are missing is a matter of the experiments that came in, not of the set.
    into.notes.clear();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read;

    fn experiment(text: &str) -> Experiment {
        read(text.as_bytes(), None).unwrap().1
    }

    #[test]
    fn only_metrics_with_new_measurements_are_fitted_again_and_as_if_all_had_come_at_once() {
        let mut set = ModelSet::new(vec!["p".into()], FitConfig::default());
        set.absorb(vec![experiment("p,a,b\n1,2,5\n2,4,5\n4,8,5\n8,16,5\n")], NonZeroUsize::MIN).unwrap();
        let changed = set.absorb(vec![experiment("p,a\n16,32\n1,2\n")], NonZeroUsize::MIN).unwrap();
        assert_eq!(changed, [0]);
        let at_once = experiment("p,a\n1,2\n2,4\n4,8\n8,16\n16,32\n1,2\n");
        let model = crate::fit(&at_once.series[0].measurements, &FitConfig::default()).unwrap();
        assert_eq!(set.iter().next().unwrap().1.as_ref().unwrap(), &model);
    }

    #[test]
    fn measurements_of_other_parameters_are_refused() {
        let mut set = ModelSet::new(vec!["p".into()], FitConfig::default());
        let error = set
            .absorb(vec![experiment("p,a\n1,2\n"), experiment("q,a\n1,2\n")], NonZeroUsize::MIN)
            .unwrap_err();
        assert_eq!(set.iter().count(), 0);
        assert_eq!(error.to_string(), r#"the models are functions of ["p"], the measurements of ["q"]"#);
    }
}
