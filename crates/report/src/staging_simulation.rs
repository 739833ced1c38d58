//! Staging policies side by side: what they cost the job, and when its data is safe.

use std::fmt::Write;

use iotide_look::Untrusted;
use iotide_sched::staging::State;
use iotide_sim::staging::{Outcome, Sample, StagingWorkload};
use serde::Serialize;

use crate::document::Document;
use crate::job_schedule::Figure;
use crate::{Ink, SCHEMA, text};

/// The answer of `iotide simulate staging`.
#[derive(Clone, Debug, Serialize)]
pub struct StagingReport {
    schema: &'static str,
    /// The command that was asked.
    pub command: &'static str,
    /// Workload that was simulated.
    pub workload: StagingBrief,
    /// Where figures of it come from, if from models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelledAt>,
    /// With how many seeds.
    pub seeds: usize,
    /// The first of them.
    pub seed: u64,
    /// By how much predicted starts are wrong: standard deviation, in periods.
    pub error: f64,
    /// How job and data fare, policy by policy.
    pub policies: Vec<StagingEntry>,
}

/// A job and its storages in brief.
#[derive(Clone, Debug, Serialize)]
pub struct StagingBrief {
    /// Where it is from: a file, or the name of a built-in one.
    pub source: Untrusted,
    /// How many phases it has.
    pub phases: u64,
    /// Bytes that it writes in all.
    pub bytes: f64,
    /// Bandwidth of the buffer for reads and writes together, in bytes per second.
    pub buffer_bps: f64,
    /// Bandwidth of writes to the file system behind, in bytes per second.
    pub pfs_bps: f64,
    /// Capacity of the buffer; `null` is without limit.
    pub capacity_bytes: Option<f64>,
    /// The share of it that should not be exceeded.
    pub high_water: f64,
    /// Whether what was moved is removed.
    pub purge: bool,
    /// Nodes that hold the buffer.
    pub nodes: u64,
    /// Relative deviation of computing times.
    pub jitter: f64,
}

/// Figures of a workload that models gave.
#[derive(Clone, Debug, Serialize)]
pub struct ModelledAt {
    /// The file of the models.
    pub source: Untrusted,
    /// The point, as it was asked for.
    pub at: Untrusted,
    /// The figures.
    pub figures: Vec<ModelledFigure>,
}

/// One figure of a workload.
#[derive(Clone, Debug, Serialize)]
pub struct ModelledFigure {
    /// Which.
    pub figure: &'static str,
    /// By which metric.
    pub metric: Untrusted,
    /// Its value there.
    pub value: f64,
    /// Between which values the truth lies.
    pub interval: Option<[f64; 2]>,
}

/// How a job and its data fare under a policy. A figure is `null` where the job hangs with a full buffer.
#[derive(Clone, Debug, Serialize)]
pub struct StagingEntry {
    /// The policy.
    pub policy: &'static str,
    /// How long the job runs.
    pub run_time_s: Option<Figure>,
    /// That over the time it runs without staging.
    pub inflation: Option<Figure>,
    /// How long after its end everything is safe.
    pub safe_after_end_s: Option<Figure>,
    /// The most bytes in the buffer.
    pub peak_buffer: Figure,
    /// How long data is moved while the job writes.
    pub interference_s: Figure,
    /// Time that the job loses because the buffer is full.
    pub stalled_s: Figure,
    /// Bytes lost in a crash.
    pub lost_at_crash: LossEntry,
    /// How often moving begins in a run.
    pub flushes: Figure,
    /// How long data is moved in all.
    pub moving_s: Figure,
    /// The highest rate of it.
    pub peak_rate_bps: Figure,
    /// The capacity with which the buffer never exceeds its high-water mark.
    pub capacity_needed_bytes: Figure,
    /// The same of each node, if each holds its part.
    pub capacity_needed_per_node_bytes: Figure,
    /// How long each state lasts, in the first run.
    pub states_s: StateTimes,
    /// Its first run over time.
    #[serde(skip)]
    pub drawn: DrawnStaging,
}

/// Bytes lost in a crash: those that are nowhere but in the buffer.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LossEntry {
    /// On average over the time until everything is safe.
    pub mean_bytes: Figure,
    /// At the worst moment.
    pub max_bytes: Figure,
}

/// Seconds in each state of the controller.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct StateTimes {
    /// Everything goes: the job is over.
    pub flush: f64,
    /// There is nothing to move.
    pub idle: f64,
    /// Data is moved beside the job, because room runs out.
    pub drain: f64,
    /// Nothing is moved, because the job writes or is about to.
    pub hold: f64,
    /// Data is moved.
    pub run: f64,
}

/// Data for a picture of the first run.
#[derive(Clone, Debug)]
pub struct DrawnStaging {
    /// The buffer over time.
    pub samples: Vec<Sample>,
    /// When the job writes.
    pub phases_s: Vec<(f64, f64)>,
}

impl StagingReport {
    /// Returns a report without policies.
    pub fn new(name: &str, workload: &StagingWorkload, seeds: usize, seed: u64, error: f64) -> Self {
        Self {
            schema: SCHEMA,
            command: "simulate staging",
            workload: StagingBrief {
                source: Untrusted::from(name),
                phases: workload.n_phases(),
                bytes: workload.bytes(),
                buffer_bps: workload.buffer_bps,
                pfs_bps: workload.pfs_bps,
                capacity_bytes: workload.capacity_bytes,
                high_water: workload.high_water,
                purge: workload.is_purged,
                nodes: workload.nodes,
                jitter: workload.jitter,
            },
            model: None,
            seeds,
            seed,
            error,
            policies: Vec::new(),
        }
    }

    /// Adds a policy: its runs, and the same in a buffer without limit. Both have at least one.
    pub fn add_policy(&mut self, policy: &'static str, runs: Vec<Outcome>, unlimited: &[Outcome]) {
        let figure = |of: fn(&Outcome) -> f64| Figure::of(&runs.iter().map(of).collect::<Vec<f64>>());
        // One run that never ends has no time, and neither has the mean.
        let time = |of: fn(&Outcome) -> Option<f64>| {
            let times: Option<Vec<f64>> = runs.iter().map(of).collect();
            times.map(|times| Figure::of(&times))
        };
        let needed: Vec<f64> =
            unlimited.iter().map(|outcome| outcome.peak_buffer_bytes / self.workload.high_water).collect();
        let per_node: Vec<f64> = needed.iter().map(|bytes| bytes / self.workload.nodes as f64).collect();
        let Some(first) = runs.first() else { return };
        let in_state = |state: State| {
            State::ALL.iter().zip(first.states_s).find(|(one, _)| **one == state).map_or(0.0, |(_, s)| s)
        };
        let entry = StagingEntry {
            policy,
            run_time_s: time(|outcome| outcome.run_time_s),
            inflation: time(|outcome| Some(outcome.run_time_s? / outcome.alone_s)),
            safe_after_end_s: time(|outcome| outcome.safe_after_end_s),
            peak_buffer: figure(|outcome| outcome.peak_buffer_bytes),
            interference_s: figure(|outcome| outcome.interference_s),
            stalled_s: figure(|outcome| outcome.stalled_s),
            lost_at_crash: LossEntry {
                mean_bytes: figure(|outcome| outcome.mean_loss_bytes),
                max_bytes: figure(|outcome| outcome.max_loss_bytes),
            },
            flushes: figure(|outcome| outcome.flushes as f64),
            moving_s: figure(|outcome| outcome.moving_s),
            peak_rate_bps: figure(|outcome| outcome.peak_rate_bps),
            capacity_needed_bytes: Figure::of(&needed),
            capacity_needed_per_node_bytes: Figure::of(&per_node),
            states_s: StateTimes {
                flush: in_state(State::Flush),
                idle: in_state(State::Idle),
                drain: in_state(State::Drain),
                hold: in_state(State::Hold),
                run: in_state(State::Run),
            },
            drawn: DrawnStaging { samples: first.samples.clone(), phases_s: first.phases_s.clone() },
        };
        self.policies.push(entry);
    }

    /// Returns the workload in words.
    pub fn in_words(&self) -> String {
        let workload = &self.workload;
        let room = match workload.capacity_bytes {
            None => "without limit".to_owned(),
            Some(bytes) => format!("of {}", text::bytes(bytes)),
        };
        let runs = match self.seeds {
            1 => "one run".to_owned(),
            n => format!("{n} seeds from {}", self.seed),
        };
        format!(
            "{} of {} into a buffer {room} at {}, from there to a file system at {}; {runs}",
            text::counted(workload.phases, "phase"),
            text::bytes(workload.bytes / workload.phases.max(1) as f64),
            text::bandwidth(workload.buffer_bps),
            text::bandwidth(workload.pfs_bps),
        )
    }

    /// Where figures come from, if from models.
    pub fn model_in_words(&self) -> Option<String> {
        let model = self.model.as_ref()?;
        let figures: Vec<String> = (model.figures.iter())
            .map(|figure| {
                let value = shown(figure.figure, figure.value);
                match figure.interval {
                    None => format!("{} {value}", figure.figure),
                    Some([low, high]) => format!(
                        "{} {value} ({} to {})",
                        figure.figure,
                        shown(figure.figure, low),
                        shown(figure.figure, high)
                    ),
                }
            })
            .collect();
        Some(format!(
            "at {} by the models of {}: {}",
            model.at.for_terminal(),
            model.source.for_terminal(),
            figures.join(", ")
        ))
    }

    /// The one sentence to remember.
    pub fn verdict(&self) -> String {
        let safest = (self.policies.iter())
            .filter(|entry| entry.inflation.is_some_and(|inflation| inflation.mean < 1.005))
            .min_by(|a, b| a.lost_at_crash.mean_bytes.mean.total_cmp(&b.lost_at_crash.mean_bytes.mean));
        match safest {
            Some(entry) => format!(
                "{} costs the job no time and a crash {} on average",
                entry.policy,
                text::bytes(entry.lost_at_crash.mean_bytes.mean)
            ),
            None => "every policy costs the job time".to_owned(),
        }
    }

    /// Returns how the job fares, policy by policy.
    pub fn rows(&self) -> Vec<[String; COLUMNS.len()]> {
        let seconds =
            |figure: Option<Figure>| figure.map_or("never".to_owned(), |figure| text::seconds(figure.mean));
        (self.policies.iter())
            .map(|entry| {
                [
                    entry.policy.to_owned(),
                    seconds(entry.run_time_s),
                    entry.inflation.map_or("–".to_owned(), |inflation| format!("×{:.3}", inflation.mean)),
                    seconds(entry.safe_after_end_s),
                    text::bytes(entry.peak_buffer.mean),
                    text::bytes(entry.lost_at_crash.mean_bytes.mean),
                    text::bytes(entry.lost_at_crash.max_bytes.mean),
                    text::seconds(entry.interference_s.mean),
                    text::seconds(entry.stalled_s.mean),
                ]
            })
            .collect()
    }

    /// Returns which buffer is needed, policy by policy.
    pub fn size_rows(&self) -> Vec<[String; SIZE_COLUMNS.len()]> {
        (self.policies.iter())
            .map(|entry| {
                [
                    entry.policy.to_owned(),
                    text::bytes(entry.capacity_needed_bytes.mean),
                    text::bytes(entry.capacity_needed_per_node_bytes.mean),
                    text::digits(entry.flushes.mean, 4),
                    text::bandwidth(entry.peak_rate_bps.mean),
                ]
            })
            .collect()
    }
}

/// The heads of [`StagingReport::rows`].
pub const COLUMNS: [&str; 9] = [
    "policy",
    "run time",
    "inflation",
    "safe after end",
    "peak",
    "lost at crash",
    "at worst",
    "interference",
    "stalled",
];

/// The heads of [`StagingReport::size_rows`].
pub const SIZE_COLUMNS: [&str; 5] = ["policy", "shared buffer", "on each node", "flushes", "highest rate"];

/// A figure of a workload in its unit.
fn shown(figure: &str, value: f64) -> String {
    match figure {
        name if name.ends_with("_bytes") => text::bytes(value),
        name if name.ends_with("_bps") => text::bandwidth(value),
        name if name.ends_with("_s") => text::seconds(value),
        _ => text::digits(value, 5),
    }
}

fn write_table<const N: usize>(out: &mut String, head: [&str; N], rows: Vec<[String; N]>) {
    let rows: Vec<[String; N]> = std::iter::once(head.map(str::to_owned)).chain(rows).collect();
    let widths: [usize; N] =
        std::array::from_fn(|i| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0));
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        let _ = writeln!(out, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}

impl Document for StagingReport {
    fn to_text(&self, width: usize, _: Ink) -> String {
        let mut out = String::new();
        let lines = std::iter::once(self.in_words()).chain(self.model_in_words());
        for line in lines.flat_map(|words| text::wrap(&words, width)) {
            let _ = writeln!(out, "{line}");
        }
        out.push('\n');
        write_table(&mut out, COLUMNS, self.rows());
        let _ = writeln!(
            out,
            "\nbuffer that never exceeds {} of itself",
            text::percent(self.workload.high_water)
        );
        write_table(&mut out, SIZE_COLUMNS, self.size_rows());
        let _ = writeln!(out, "\n{}", self.verdict());
        out
    }

    fn to_json(&self) -> String {
        iotide_look::text::json_document(self)
    }
}
