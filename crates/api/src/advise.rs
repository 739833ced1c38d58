//! At which size to run a program: its scaling model against the waits of a machine.

use std::collections::HashSet;

use iotide_report::{ResizeAdvice, SizeAdvice};
use iotide_sched::jobs::{JobPolicy, PolicyKnobs};
use iotide_sim::jobs::{JobLabel, JobsWorkload, SubmittedJob, run_jobs};

use crate::{Error, JobsLog, Models};

/// How a size is looked for.
#[derive(Clone, Debug)]
pub struct AdviseOptions {
    /// Sizes to look at; none are powers of two, from the least that was measured to the machine.
    pub sizes: Vec<u32>,
    /// How the machine schedules.
    pub policy: JobPolicy,
    /// How many probe jobs are submitted, evenly over the log.
    pub n_probes: usize,
    /// How often intervals are to hold the truth.
    pub confidence: f64,
}

impl Default for AdviseOptions {
    fn default() -> Self {
        Self { sizes: Vec::new(), policy: JobPolicy::Easy, n_probes: 30, confidence: 0.95 }
    }
}

/// Says for each size how long a program takes, what that costs, and how long it would have waited on a machine.
pub fn resize_advise(models: &Models, log: &JobsLog, options: &AdviseOptions) -> Result<ResizeAdvice, Error> {
    let setting = |fault: String| Error::Setting { fault };
    if !(options.confidence > 0.0 && options.confidence < 1.0) {
        return Err(Error::Confidence { confidence: options.confidence });
    }
    if !(1..=10_000).contains(&options.n_probes) {
        return Err(setting(format!("probes {} is not between 1 and 10000", options.n_probes)));
    }
    let [least, most] = models.measured_sizes().ok_or(Error::NoTimeModel)?;
    // Nodes that serve the storage are for no job.
    let nodes = log.workload.compute_nodes();
    let sizes: Vec<u32> = match options.sizes.is_empty() {
        false => {
            let mut seen = HashSet::new();
            options.sizes.iter().copied().filter(|&size| seen.insert(size)).collect()
        }
        true => std::iter::successors(Some((least.max(1.0) as u32).next_power_of_two()), |size| {
            size.checked_mul(2)
        })
        .take_while(|&size| size <= nodes)
        .collect(),
    };
    if let Some(wrong) = sizes.iter().find(|&&size| size == 0 || size > nodes) {
        return Err(setting(format!("sizes {wrong} is not between 1 and the machine's {nodes} nodes")));
    }
    let first = *sizes.first().ok_or_else(|| setting("sizes names none".to_owned()))?;
    let (first_s, _) = models.time_at(f64::from(first), options.confidence).ok_or(Error::NoTimeModel)?;
    let mut report =
        ResizeAdvice::new(&log.name, nodes, options.policy.name(), options.n_probes, options.confidence);
    for size in sizes {
        let Some((time_s, interval)) = models.time_at(f64::from(size), options.confidence) else { continue };
        let waits = probe_waits(&log.workload, size, time_s, options);
        let efficiency = first_s * f64::from(first) / (time_s * f64::from(size));
        let is_extrapolated = f64::from(size) > most || f64::from(size) < least;
        report.add(SizeAdvice::of(size, time_s, interval, efficiency, &waits, is_extrapolated));
    }
    report.losses = log.losses.iter().map(Into::into).collect();
    Ok(report)
}

/// How long a job of a size and a time would have waited, had it been submitted at one time or another.
fn probe_waits(workload: &JobsWorkload, size: u32, time_s: f64, options: &AdviseOptions) -> Vec<f64> {
    let submits = || workload.jobs.iter().map(|job| job.batch.submit_ms);
    let (first_ms, last_ms) = (submits().min().unwrap_or(0), submits().max().unwrap_or(0));
    (0..options.n_probes)
        .map(|i| {
            let share = (i as f64 + 0.5) / options.n_probes as f64;
            let at_ms = first_ms + ((last_ms - first_ms) as f64 * share) as i64;
            let mut probed = workload.clone();
            let label = JobLabel::Text("probe".to_owned());
            probed.jobs.push(SubmittedJob::rigid(label, at_ms as f64 / 1e3, size, time_s));
            let (_, schedule) = run_jobs(&probed, options.policy, &PolicyKnobs::default(), false);
            let start_ms = schedule.jobs.last().and_then(|fate| fate.start_ms).unwrap_or(at_ms);
            (start_ms - at_ms) as f64 / 1e3
        })
        .collect()
}
