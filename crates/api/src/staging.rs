//! A job, its buffer, and when to move its results to the file system behind.

use iotide_report::{ModelledAt, ModelledFigure, StagingReport};
use iotide_sched::staging::Policy;
use iotide_sim::staging::{Outcome, StagingSettings, StagingWorkload, run_staging};

use crate::{Error, ModelQuestions, Models, Progress};

/// A job and its storages, with a name for reports.
#[derive(Clone, Debug)]
pub struct StagingJob {
    /// Name for reports.
    pub name: String,
    /// The job and its storages.
    pub workload: StagingWorkload,
    modelled: Option<ModelledAt>,
}

/// Figures of a workload that a model may give.
const FIGURES: [&str; 6] = ["phase_bytes", "compute_s", "phases", "buffer_bps", "pfs_bps", "nodes"];

impl StagingJob {
    /// One whose figures are easy to check by hand: 10 phases of 20 GB into 2 GB/s after 90 s each, 0.5 GB/s behind.
    pub fn example() -> Self {
        Self { name: "example".to_owned(), workload: StagingWorkload::example(), modelled: None }
    }

    /// One that is described in JSON; see docs/staging-simulation.md.
    pub fn from_json(name: &str, text: &str) -> Result<Self, Error> {
        let workload =
            StagingWorkload::from_json(text).map_err(|why| Error::Workload { name: name.to_owned(), why })?;
        Ok(Self { name: name.to_owned(), workload, modelled: None })
    }

    /// The same at another scale: figures are those of models at a point.
    ///
    /// A model belongs to the figure that its metric is named after; `names` says it of others, as figure and metric. A single
    /// metric is taken for the bytes of a phase.
    pub fn at(
        mut self,
        source: &str,
        models: &Models,
        point: &[(String, f64)],
        names: &[(String, String)],
    ) -> Result<Self, Error> {
        let fault = |fault: String| Error::Setting { fault };
        if let Some((figure, _)) = names.iter().find(|(figure, _)| !FIGURES.contains(&figure.as_str())) {
            return Err(fault(format!(
                "metric {figure} is no figure of a workload; there are {}",
                FIGURES.join(", ")
            )));
        }
        let [part] = &mut self.workload.parts[..] else {
            return Err(fault("model is of one rhythm, and the workload has several parts".to_owned()));
        };
        let report =
            models.report(&ModelQuestions { at: vec![point.to_vec()], ..ModelQuestions::default() })?;
        let mut figures = Vec::new();
        for figure in FIGURES {
            let named = names.iter().find(|(name, _)| name == figure).map(|(_, metric)| metric.as_str());
            let is_meant = |metric: &str| match named {
                Some(name) => metric == name,
                None => {
                    metric == figure || (figure == FIGURES[0] && report.models.len() == 1 && names.is_empty())
                }
            };
            let Some(model) = report.models.iter().find(|model| is_meant(model.metric.as_said())) else {
                match named {
                    Some(metric) => {
                        return Err(fault(format!("metric {figure}={metric}: there is no model of that")));
                    }
                    None => continue,
                }
            };
            let predicted =
                model.predictions.first().and_then(|at| at.value.map(|value| (value, at.interval)));
            let Some((value, interval)) = predicted.filter(|(value, _)| value.is_finite() && *value > 0.0)
            else {
                return Err(fault(format!("at: the model of {figure} has no positive value there")));
            };
            match figure {
                "phase_bytes" => part.phase_bytes = value,
                "compute_s" => part.compute_s = value,
                "phases" => part.phases = value.round().max(1.0) as u64,
                "buffer_bps" => self.workload.buffer_bps = value,
                "pfs_bps" => self.workload.pfs_bps = value,
                _ => self.workload.nodes = value.ceil().max(1.0) as u64,
            }
            figures.push(ModelledFigure { figure, metric: model.metric.clone(), value, interval });
        }
        if figures.is_empty() {
            let metrics: Vec<&str> = report.models.iter().map(|model| model.metric.as_said()).collect();
            let said = format!("model has none of {}, but {}", FIGURES.join(", "), metrics.join(", "));
            return Err(fault(said));
        }
        let at: Vec<String> = point.iter().map(|(name, value)| format!("{name}={value}")).collect();
        self.modelled = Some(ModelledAt { source: source.into(), at: at.join(",").into(), figures });
        self.check()
    }

    /// The same on so many nodes; if each has a buffer of its own, the workload describes one of them.
    pub fn on_nodes(mut self, nodes: Option<u64>, is_per_node: bool) -> Result<Self, Error> {
        if let Some(nodes) = nodes {
            self.workload.nodes = nodes;
        }
        if is_per_node {
            let nodes = self.workload.nodes as f64;
            self.workload.buffer_bps *= nodes;
            self.workload.capacity_bytes = self.workload.capacity_bytes.map(|bytes| bytes * nodes);
        }
        self.check()
    }

    fn check(self) -> Result<Self, Error> {
        match self.workload.check() {
            Ok(()) => Ok(self),
            Err(why) => Err(Error::Workload { name: self.name, why }),
        }
    }
}

/// Settings of a staging simulation.
#[derive(Clone, Debug)]
pub struct StagingOptions {
    /// The policies, in the order of the answer.
    pub policies: Vec<Policy>,
    /// How often to repeat, with other chances.
    pub seeds: usize,
    /// Where chances begin.
    pub seed: u64,
    /// Settings of each run; policy and seed are set for each.
    pub run: StagingSettings,
}

impl Default for StagingOptions {
    fn default() -> Self {
        Self {
            policies: vec![Policy::Immediate, Policy::End, Policy::Gap, Policy::Deadline],
            seeds: 1,
            seed: 0,
            run: StagingSettings::new(Policy::Gap),
        }
    }
}

impl StagingOptions {
    fn check(&self) -> Result<(), Error> {
        const MOST_SEEDS: usize = 100_000;
        let share = |name: &str, value: f64| {
            (!(value.is_finite() && value >= 0.0)).then(|| format!("{name} {value} is not 0 or more"))
        };
        let run = &self.run;
        let fault = if !(1..=MOST_SEEDS).contains(&self.seeds) {
            Some(format!("seeds {} is not between 1 and {MOST_SEEDS}", self.seeds))
        } else if let Some(bps) = run.bandwidth_bps.filter(|bps| !(bps.is_finite() && *bps > 0.0)) {
            Some(format!("bandwidth {bps} is not positive"))
        } else {
            share("error", run.error)
                .or_else(|| share("jitter", run.jitter.unwrap_or(0.0)))
                .or_else(|| share("quiet", run.quiet_s))
                .or_else(|| share("recent", run.recent_s))
        };
        fault.map_or(Ok(()), |fault| Err(Error::Setting { fault }))
    }
}

/// Runs a job under each policy, and says what that costs it and when its data is safe.
pub fn simulate_staging(
    job: &StagingJob,
    options: &StagingOptions,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<StagingReport, Error> {
    options.check()?;
    let workload = &job.workload;
    let jitter = options.run.jitter.unwrap_or(workload.jitter);
    // Without chances, one run is like the other.
    let n_seeds = if options.run.error > 0.0 || jitter > 0.0 { options.seeds } else { 1 };
    let shown = StagingWorkload { jitter, ..workload.clone() };
    let mut report = StagingReport::new(&job.name, &shown, n_seeds, options.seed, options.run.error);
    report.model = job.modelled.clone();
    let unlimited = StagingWorkload { capacity_bytes: None, ..workload.clone() };
    for &policy in &options.policies {
        progress(Progress::Simulating { scenario: policy.name() });
        let runs = |workload: &StagingWorkload| -> Result<Vec<Outcome>, Error> {
            (0..n_seeds as u64)
                .map(|n| {
                    let seed = options.seed.wrapping_add(n);
                    let settings = StagingSettings { policy, seed, ..options.run };
                    let mut outcome = run_staging(workload, &settings).ok_or_else(|| Error::Setting {
                        fault: format!("policies {}: the run takes too many steps", policy.name()),
                    })?;
                    if n > 0 {
                        // Only the first run is drawn.
                        (outcome.samples, outcome.phases_s) = (Vec::new(), Vec::new());
                    }
                    Ok(outcome)
                })
                .collect()
        };
        let limited = runs(workload)?;
        let unlimited = if workload.capacity_bytes.is_some() { runs(&unlimited)? } else { limited.clone() };
        report.add_policy(policy.name(), limited, &unlimited);
    }
    Ok(report)
}
