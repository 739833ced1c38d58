//! Job scheduling policies side by side: what became of the jobs, and what that comes to against the first policy.

use std::fmt::Write;

use iotide_look::Untrusted;
use iotide_num::{mean, mean_half_width};
use iotide_sim::jobs::{JobLabel, JobState, JobsMetrics, JobsWorkload, Resized, Schedule};
use serde::{Serialize, Serializer};

use crate::document::Document;
use crate::{Ink, SCHEMA, text};

mod words;

pub use words::Figure;

/// The answer of `iotide simulate jobs`.
#[derive(Clone, Debug, Serialize)]
pub struct JobsReport {
    schema: &'static str,
    /// The command that was asked.
    pub command: &'static str,
    /// Machine and jobs that were simulated.
    pub workload: MachineEntry,
    /// With how many seeds.
    pub seeds: usize,
    /// The first of them.
    pub seed: u64,
    /// The policy that the others are compared against.
    pub baseline: &'static str,
    /// Figures that decisions are based on, where each comes from, and how far off it was made.
    pub figures: Vec<FigureSource>,
    /// How the jobs fared: share by share, and in each policy by policy.
    pub policies: Vec<JobPolicyEntry>,
    /// Parts of the log that could not be used.
    pub losses: Vec<crate::Loss>,
    /// Runs that are shown over time.
    #[serde(skip)]
    pub drawn: Vec<DrawnSchedule>,
}

/// A machine and its jobs in brief.
#[derive(Clone, Debug, Serialize)]
pub struct MachineEntry {
    /// Where it is from: a file, or the name of a built-in one.
    pub source: Untrusted,
    /// How many jobs it has.
    pub n_jobs: usize,
    /// How many nodes the machine has.
    pub nodes: u32,
    /// Cost of a change of size for a job, in seconds.
    pub alpha_s: f64,
    /// Cost for each node on top of that, in seconds.
    pub alpha_per_node_s: f64,
    /// How many consecutive jobs each seed runs; `null` is all of them.
    pub window: Option<usize>,
}

/// A figure that decisions are based on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FigureSource {
    /// Which.
    pub figure: &'static str,
    /// Who says so: `resource manager`, `earlier runs` or `user`.
    pub source: &'static str,
    /// Standard deviation of the logarithm of the error that was injected.
    pub spread: f64,
    /// How far runs of one name lie apart, the same way, where there are several.
    pub measured_spread: Option<f64>,
    /// Of how many jobs of the log.
    pub jobs: usize,
}

/// How the jobs fared under a policy.
#[derive(Clone, Debug, Serialize)]
pub struct JobPolicyEntry {
    /// The policy.
    pub policy: &'static str,
    /// Which share of the jobs was made malleable; `null` leaves them as the log has them.
    pub malleable: Option<f64>,
    /// From the first submission to the last end.
    pub makespan_s: Figure,
    /// From submission to the last start.
    pub mean_wait_s: Figure,
    /// The longest of these.
    pub max_wait_s: Figure,
    /// Time from submission to end over the time alone, 1 at the least.
    pub mean_bounded_slowdown: Figure,
    /// From submission to end.
    pub mean_turnaround_s: Figure,
    /// Share of the nodes' time that jobs held.
    pub utilization: Figure,
    /// Node time that jobs held.
    pub node_hours: Figure,
    /// Changes of size.
    pub n_resizes: Figure,
    /// I/O time over what it would have been alone; `null` without a shared storage.
    pub io_slowdown: Option<Figure>,
    /// Energy that the nodes used, if their power is known.
    pub energy_kwh: Option<Figure>,
    /// Each against the first policy with the same seeds: 0.9 is a tenth less.
    pub ratio: Option<Ratios>,
    /// Outcome of each job; only if there is one run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jobs: Option<Vec<JobFateEntry>>,
    /// Changes of the number of nodes that serve the storage; only if there is one run, and it can change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub storage_resizes: Vec<ResizeEntry>,
}

/// Against another policy, pair by pair: geometric mean and a 95 % interval.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Ratios {
    /// Of the mean wait.
    pub mean_wait: Option<Figure>,
    /// Of the longest wait.
    pub max_wait: Option<Figure>,
    /// Of the makespan.
    pub makespan: Option<Figure>,
    /// Of the mean bounded slowdown.
    pub mean_bounded_slowdown: Option<Figure>,
    /// Of the mean turnaround.
    pub mean_turnaround: Option<Figure>,
}

/// Outcome of a job.
#[derive(Clone, Debug, Serialize)]
pub struct JobFateEntry {
    /// Its name in the log.
    #[serde(serialize_with = "label")]
    pub id: JobLabel,
    /// `completed`, `timeout`, `cancelled`, `rejected` or `stuck`.
    pub state: &'static str,
    /// When its last run started.
    pub start_s: Option<f64>,
    /// When it ended.
    pub end_s: Option<f64>,
    /// The size at which it started.
    pub nodes: Option<u32>,
    /// How often a failure made it begin again.
    pub restarts: u32,
    /// Changes of size in the last run.
    pub resizes: Vec<ResizeEntry>,
}

/// A change of size.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ResizeEntry {
    /// When.
    pub at_s: f64,
    /// The size before.
    pub from: u32,
    /// The size after.
    pub to: u32,
}

impl ResizeEntry {
    fn of(resized: &Resized) -> Self {
        Self { at_s: resized.at_ms as f64 / 1e3, from: resized.from, to: resized.to }
    }
}

/// One run of a policy.
#[derive(Clone, Copy, Debug)]
pub struct JobsRun {
    /// Metrics of the run.
    pub metrics: JobsMetrics,
    /// How much slower I/O was than alone.
    pub io_slowdown: Option<f64>,
    /// Energy that the nodes used, if their power is known.
    pub energy_kwh: Option<f64>,
}

/// A run that is shown over time.
#[derive(Clone, Debug)]
pub struct DrawnSchedule {
    /// The policy.
    pub policy: &'static str,
    /// The share of the jobs that was made malleable.
    pub malleable: Option<f64>,
    /// The number of nodes.
    pub nodes: u32,
    /// The names of the jobs.
    pub ids: Vec<String>,
    /// Their kinds.
    pub kinds: Vec<&'static str>,
    /// When and where they ran.
    pub schedule: Schedule,
}

impl JobsReport {
    /// Returns a report without policies yet.
    pub fn new(
        source: &str,
        workload: &JobsWorkload,
        seeds: usize,
        seed: u64,
        window: Option<usize>,
    ) -> Self {
        Self {
            schema: SCHEMA,
            command: "simulate jobs",
            workload: MachineEntry {
                source: source.into(),
                n_jobs: workload.jobs.len(),
                nodes: workload.nodes,
                alpha_s: workload.cost.fixed_ms / 1e3,
                alpha_per_node_s: workload.cost.per_node_ms / 1e3,
                window,
            },
            seeds,
            seed,
            baseline: "",
            figures: Vec::new(),
            policies: Vec::new(),
            losses: Vec::new(),
            drawn: Vec::new(),
        }
    }

    /// Adds the runs of a policy at a share, seed by seed. `baseline` has those of the first policy with the same seeds.
    pub fn add_policy(
        &mut self,
        policy: &'static str,
        malleable: Option<f64>,
        runs: &[JobsRun],
        baseline: Option<&[JobsRun]>,
    ) {
        if self.policies.is_empty() {
            self.baseline = policy;
        }
        let figure = |of: fn(&JobsMetrics) -> f64| {
            Figure::of(&runs.iter().map(|run| of(&run.metrics)).collect::<Vec<f64>>())
        };
        let known = |of: fn(&JobsRun) -> Option<f64>| {
            let values: Vec<f64> = runs.iter().filter_map(of).collect();
            (!values.is_empty()).then(|| Figure::of(&values))
        };
        self.policies.push(JobPolicyEntry {
            policy,
            malleable,
            makespan_s: figure(|metrics| metrics.makespan_s),
            mean_wait_s: figure(|metrics| metrics.mean_wait_s),
            max_wait_s: figure(|metrics| metrics.max_wait_s),
            mean_bounded_slowdown: figure(|metrics| metrics.mean_bounded_slowdown),
            mean_turnaround_s: figure(|metrics| metrics.mean_turnaround_s),
            utilization: figure(|metrics| metrics.utilization),
            node_hours: figure(|metrics| metrics.node_hours),
            n_resizes: figure(|metrics| metrics.n_resizes as f64),
            io_slowdown: known(|run| run.io_slowdown),
            energy_kwh: known(|run| run.energy_kwh),
            ratio: baseline.map(|baseline| Ratios::of(runs, baseline)),
            jobs: None,
            storage_resizes: Vec::new(),
        });
    }

    /// Lists what became of each job under the policy that was added last.
    pub fn list_jobs(&mut self, workload: &JobsWorkload, schedule: &Schedule) {
        let Some(entry) = self.policies.last_mut() else { return };
        let second = |at_ms: Option<i64>| at_ms.map(|at_ms| at_ms as f64 / 1e3);
        let listed = workload.jobs.iter().zip(&schedule.jobs).map(|(job, fate)| JobFateEntry {
            id: job.id.clone(),
            state: state_name(fate.state),
            start_s: second(fate.start_ms),
            end_s: second(fate.end_ms),
            nodes: fate.nodes,
            restarts: fate.restarts,
            resizes: fate.resizes.iter().map(ResizeEntry::of).collect(),
        });
        entry.jobs = Some(listed.collect());
        entry.storage_resizes = schedule.storage_resizes.iter().map(ResizeEntry::of).collect();
    }

    /// Adds a run that is to be shown over time.
    pub fn draw(
        &mut self,
        policy: &'static str,
        malleable: Option<f64>,
        workload: &JobsWorkload,
        schedule: Schedule,
    ) {
        self.drawn.push(DrawnSchedule {
            policy,
            malleable,
            nodes: workload.nodes,
            ids: workload.jobs.iter().map(|job| text::printable(&job.id.to_string())).collect(),
            kinds: workload.jobs.iter().map(|job| job.batch.kind.name()).collect(),
            schedule,
        });
    }
}

impl Ratios {
    fn of(runs: &[JobsRun], baseline: &[JobsRun]) -> Self {
        let ratio = |of: fn(&JobsMetrics) -> f64| {
            let pairs: Vec<(f64, f64)> = (runs.iter().zip(baseline))
                .map(|(run, base)| (of(&run.metrics), of(&base.metrics)))
                .collect();
            // Nothing has no ratio to something: a second more on both sides has, where nobody waits with one seed.
            let is_nothing = pairs.iter().any(|&(ours, theirs)| ours == 0.0 || theirs == 0.0);
            let more = if is_nothing { 1.0 } else { 0.0 };
            let logs: Vec<f64> =
                pairs.iter().map(|&(ours, theirs)| ((ours + more) / (theirs + more)).ln()).collect();
            (!logs.is_empty()).then(|| Figure::of(&logs).map(f64::exp))
        };
        Self {
            mean_wait: ratio(|metrics| metrics.mean_wait_s),
            max_wait: ratio(|metrics| metrics.max_wait_s),
            makespan: ratio(|metrics| metrics.makespan_s),
            mean_bounded_slowdown: ratio(|metrics| metrics.mean_bounded_slowdown),
            mean_turnaround: ratio(|metrics| metrics.mean_turnaround_s),
        }
    }
}

/// The mean and a 95 % interval of it (Student, 1908); none if there is one value, or all are the same.
fn mean_and_interval(values: &[f64]) -> (f64, Option<[f64; 2]>) {
    let mean = mean(values);
    if values.len() < 2 || values.iter().all(|&value| value == values[0]) {
        return (values.first().copied().unwrap_or(0.0), None);
    }
    (mean, mean_half_width(values, 0.95).map(|half| [mean - half, mean + half]))
}

fn state_name(state: JobState) -> &'static str {
    match state {
        JobState::Completed => "completed",
        JobState::Timeout => "timeout",
        JobState::Cancelled => "cancelled",
        JobState::Rejected => "rejected",
        JobState::Stuck => "stuck",
    }
}

fn label<S: Serializer>(label: &JobLabel, serializer: S) -> Result<S::Ok, S::Error> {
    match label {
        JobLabel::Number(number) => serializer.serialize_u64(*number),
        JobLabel::Text(text) => serializer.serialize_str(text),
    }
}

impl Document for JobsReport {
    fn to_text(&self, width: usize, _: Ink) -> String {
        let mut out = String::new();
        for line in text::wrap(&self.in_words(), width) {
            let _ = writeln!(out, "{line}");
        }
        for malleable in self.shares() {
            let _ = writeln!(out);
            if let Some(share) = malleable {
                let _ = writeln!(out, "{} of the jobs malleable", text::percent(share));
            }
            let rows = self.rows(malleable);
            let widths: Vec<usize> = (0..rows[0].len())
                .map(|i| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0))
                .collect();
            for row in rows {
                let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
                let _ = writeln!(out, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end());
            }
        }
        let _ = writeln!(out);
        for verdict in self.verdicts() {
            for line in text::wrap(&verdict, width) {
                let _ = writeln!(out, "{line}");
            }
        }
        for loss in &self.losses {
            let _ = writeln!(out, "lost: {}", loss.what.for_terminal());
        }
        out
    }

    fn to_json(&self) -> String {
        iotide_look::text::json_document(self)
    }
}
