//! How jobs fared that really ran, in words and for scripts.

use std::fmt::Write;

use iotide_analysis::Phase;
use iotide_look::{Untrusted, text};
use iotide_sim::{Outcome, RealJob};
use serde::Serialize;

use crate::run::Loss;
use crate::{Document, Ink, SCHEMA};

/// The answer of `iotide measure`.
#[derive(Clone, Debug, Serialize)]
pub struct MeasureDocument {
    schema: &'static str,
    command: &'static str,
    /// The figures.
    pub measure: MeasureEntry,
    /// Losses of the traces, and figures that cannot be had.
    pub losses: Vec<Loss>,
}

/// How jobs fared in a frame of time.
#[derive(Clone, Debug, Serialize)]
pub struct MeasureEntry {
    /// The stretch of time that was measured, in seconds since the first job began.
    pub frame_s: [f64; 2],
    /// Bandwidth of a job that is alone.
    pub bandwidth_bps: Option<f64>,
    /// The highest stretch of a job.
    pub max_stretch: Option<f64>,
    /// The geometric mean of the stretches.
    pub geomean_stretch: Option<f64>,
    /// The geometric mean of the I/O slowdowns.
    pub io_slowdown: Option<f64>,
    /// Share of the jobs' time that was spent computing.
    pub utilization: f64,
    /// The jobs, in the order given.
    pub jobs: Vec<MeasuredJobEntry>,
}

/// How one job fared.
#[derive(Clone, Debug, Serialize)]
pub struct MeasuredJobEntry {
    /// Name of its trace, or of the job.
    pub name: Untrusted,
    /// Its time over the time that it would have taken alone.
    pub stretch: Option<f64>,
    /// Its time outside computing over the time that its I/O would have taken alone.
    pub io_slowdown: Option<f64>,
    /// I/O phases in the frame.
    pub n_phases: u64,
    /// Time it spent computing.
    pub compute_s: f64,
    /// Time that its I/O would have taken alone.
    pub alone_io_s: Option<f64>,
    /// Time in the frame in which it was there.
    pub time_s: f64,
    /// Mean time between the starts of its I/O phases.
    pub w_iter_s: Option<f64>,
    /// Its phases, for a picture.
    #[serde(skip)]
    pub phases: Vec<Phase>,
}

impl MeasureDocument {
    /// Returns the answer about jobs that were measured in a frame.
    pub fn new(
        jobs: &[RealJob],
        outcome: &Outcome,
        frame_s: [f64; 2],
        bandwidth_bps: Option<f64>,
        losses: &[iotide_trace::Loss],
    ) -> Self {
        let entry = |(job, fared): (&RealJob, &iotide_sim::JobOutcome)| MeasuredJobEntry {
            name: (&job.name).into(),
            stretch: fared.stretch,
            io_slowdown: fared.io_slowdown,
            n_phases: fared.n_phases,
            compute_s: fared.compute_s,
            alone_io_s: bandwidth_bps.map(|_| fared.alone_io_s),
            time_s: fared.time_s,
            w_iter_s: fared.w_iter_s,
            phases: job.phases.clone(),
        };
        let measure = MeasureEntry {
            frame_s,
            bandwidth_bps,
            max_stretch: outcome.max_stretch,
            geomean_stretch: outcome.geomean_stretch,
            io_slowdown: outcome.io_slowdown,
            utilization: outcome.utilization,
            jobs: jobs.iter().zip(&outcome.jobs).map(entry).collect(),
        };
        Self { schema: SCHEMA, command: "measure", measure, losses: losses.iter().map(Loss::from).collect() }
    }
}

impl MeasureEntry {
    /// Returns the answer in one sentence without a full stop.
    pub fn headline(&self) -> String {
        let n = text::counted(self.jobs.len() as u64, "job");
        match (self.max_stretch, self.io_slowdown) {
            (Some(stretch), Some(slowdown)) => format!(
                "{n}: the I/O took {} times as long as alone, and the slowest job {} times as long as alone",
                text::digits(slowdown, 3),
                text::digits(stretch, 3)
            ),
            _ => format!("{n}: how long they would have taken alone is not known"),
        }
    }

    /// Returns the figures, each with its name.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let [from_s, to_s] = self.frame_s;
        let figure = |value: Option<f64>| value.map_or("–".to_owned(), |value| text::digits(value, 3));
        vec![
            (
                "frame",
                format!("{} to {} after the first job began", text::moment(from_s), text::moment(to_s)),
            ),
            ("bandwidth alone", self.bandwidth_bps.map_or("–".to_owned(), text::bandwidth)),
            ("highest stretch", figure(self.max_stretch)),
            ("mean stretch", figure(self.geomean_stretch)),
            ("I/O slowdown", figure(self.io_slowdown)),
            (
                "utilisation",
                format!("{} of the time in the frame was spent computing", text::percent(self.utilization)),
            ),
        ]
    }
}

impl Document for MeasureDocument {
    fn to_json(&self) -> String {
        text::json_document(self)
    }

    fn to_text(&self, width: usize, ink: Ink) -> String {
        let mut out = ink.bold(&text::wrap(&self.measure.headline(), width).join("\n"));
        out.push_str("\n\n");
        let mut rows = text::Rows::default();
        for (name, value) in self.measure.facts() {
            rows.row(name, value);
        }
        for loss in &self.losses {
            rows.row("losses", loss.what.for_terminal());
        }
        out.push_str(&rows.render(width, |name| ink.faint(name)));
        let head =
            format!("\n  {:>8} {:>12} {:>8} {:>10}  {}", "stretch", "I/O slowdown", "phases", "every", "job");
        let _ = writeln!(out, "{}", ink.faint(&head));
        let figure = |value: Option<f64>| value.map_or("–".to_owned(), |value| text::digits(value, 3));
        for job in &self.measure.jobs {
            let _ = writeln!(
                out,
                "  {:>8} {:>12} {:>8} {:>10}  {}",
                figure(job.stretch),
                figure(job.io_slowdown),
                text::count(job.n_phases),
                job.w_iter_s.map_or("–".to_owned(), text::seconds),
                job.name.for_terminal()
            );
        }
        out
    }
}
