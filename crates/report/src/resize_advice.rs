//! At which size to run: time, cost, wait and turnaround, size by size.

use std::fmt::Write;

use iotide_look::Untrusted;
use serde::Serialize;

use crate::document::Document;
use crate::job_schedule::Figure;
use crate::{Ink, SCHEMA, text};

/// The answer of `iotide resize advise`.
#[derive(Clone, Debug, Serialize)]
pub struct ResizeAdvice {
    schema: &'static str,
    /// The command that was asked.
    pub command: &'static str,
    /// The log of the machine.
    pub log: Untrusted,
    /// How many nodes the machine has.
    pub nodes: u32,
    /// How it schedules.
    pub policy: &'static str,
    /// How many probe jobs were submitted for each size.
    pub probes: usize,
    /// How often intervals hold the truth.
    pub confidence: f64,
    /// Results for each size.
    pub sizes: Vec<SizeAdvice>,
    /// The size with the least turnaround.
    pub best: Option<u32>,
    /// Parts of the log that could not be used.
    pub losses: Vec<crate::Loss>,
}

/// Results for one size.
#[derive(Clone, Debug, Serialize)]
pub struct SizeAdvice {
    /// How many nodes.
    pub nodes: u32,
    /// How long the program takes, by its model.
    pub time_s: f64,
    /// Between which values that lies.
    pub time_interval_s: Option<[f64; 2]>,
    /// How well nodes are used, against the first size.
    pub efficiency: f64,
    /// Its cost, in node hours.
    pub node_hours: f64,
    /// How long it waits: mean over the probes, and a 95 % interval of it.
    pub wait_s: Figure,
    /// From submission to end; the interval holds that of the time and that of the wait.
    pub turnaround_s: f64,
    /// Between which values that lies.
    pub turnaround_interval_s: Option<[f64; 2]>,
    /// Whether the model was not measured there.
    pub is_extrapolated: bool,
}

impl SizeAdvice {
    /// Returns what is known, from the model and from the waits of probes.
    pub fn of(
        nodes: u32,
        time_s: f64,
        time_interval_s: Option<[f64; 2]>,
        efficiency: f64,
        waits_s: &[f64],
        is_extrapolated: bool,
    ) -> Self {
        let wait_s = Figure::of(waits_s);
        let wait_ends = wait_s.interval.unwrap_or([wait_s.mean; 2]);
        // One probe says nothing of how far waits lie apart.
        let turnaround_interval_s = time_interval_s
            .filter(|_| waits_s.len() > 1)
            .map(|[low, high]| [low + wait_ends[0].max(0.0), high + wait_ends[1]]);
        Self {
            nodes,
            time_s,
            time_interval_s,
            efficiency,
            node_hours: f64::from(nodes) * time_s / 3600.0,
            turnaround_s: time_s + wait_s.mean,
            wait_s,
            turnaround_interval_s,
            is_extrapolated,
        }
    }
}

impl ResizeAdvice {
    /// Returns advice without sizes yet.
    pub fn new(log: &str, nodes: u32, policy: &'static str, probes: usize, confidence: f64) -> Self {
        Self {
            schema: SCHEMA,
            command: "resize advise",
            log: log.into(),
            nodes,
            policy,
            probes,
            confidence,
            sizes: Vec::new(),
            best: None,
            losses: Vec::new(),
        }
    }

    /// Adds a size.
    pub fn add(&mut self, size: SizeAdvice) {
        self.sizes.push(size);
        let best = self.sizes.iter().min_by(|a, b| a.turnaround_s.total_cmp(&b.turnaround_s));
        self.best = best.map(|size| size.nodes);
    }

    /// Returns the recommendation, in one sentence without a full stop.
    pub fn verdict(&self) -> String {
        let Some(best) = self.sizes.iter().find(|size| Some(size.nodes) == self.best) else {
            return "no size has a time".to_owned();
        };
        let unsure: Vec<String> = self
            .sizes
            .iter()
            .filter(|size| size.nodes != best.nodes)
            .filter(|size| match (size.turnaround_interval_s, best.turnaround_interval_s) {
                (Some(other), Some(best)) => other[0] <= best[1],
                _ => false,
            })
            .map(|size| size.nodes.to_string())
            .collect();
        let unsure = match unsure.is_empty() {
            true => String::new(),
            false => format!("; within their intervals {} may do as well", unsure.join(", ")),
        };
        format!(
            "{} take {} from submission to end{unsure}",
            text::counted(u64::from(best.nodes), "node"),
            text::seconds(best.turnaround_s)
        )
    }
}

impl Document for ResizeAdvice {
    fn to_text(&self, width: usize, _: Ink) -> String {
        let mut out = String::new();
        // Waits always have 95 %.
        let of_times = if self.confidence == 0.95 { "" } else { " of times, 95 % of waits" };
        let about = format!(
            "{}: {} nodes under {}, {} a size; {} intervals{of_times}",
            self.log.for_terminal(),
            self.nodes,
            self.policy,
            text::counted(self.probes as u64, "probe"),
            text::percent(self.confidence)
        );
        for line in text::wrap(&about, width) {
            let _ = writeln!(out, "{line}");
        }
        let span = |mean: f64, ends: Option<[f64; 2]>| match ends {
            None => text::seconds(mean),
            Some([low, high]) => {
                format!("{} [{}, {}]", text::seconds(mean), text::seconds(low.max(0.0)), text::seconds(high))
            }
        };
        let mut rows =
            vec![["nodes", "time", "efficiency", "node-hours", "wait", "turnaround"].map(str::to_owned)];
        for size in &self.sizes {
            let star = if size.is_extrapolated { "*" } else { "" };
            rows.push([
                format!("{}{star}", size.nodes),
                span(size.time_s, size.time_interval_s),
                text::percent(size.efficiency),
                text::digits(size.node_hours, 3),
                span(size.wait_s.mean, size.wait_s.interval),
                span(size.turnaround_s, size.turnaround_interval_s),
            ]);
        }
        let widths: Vec<usize> =
            (0..6).map(|i| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0)).collect();
        for row in &rows {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            let _ = writeln!(out, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end());
        }
        if self.sizes.iter().any(|size| size.is_extrapolated) {
            let _ = writeln!(out, "  * beyond what was measured");
        }
        let _ = writeln!(out, "{}", self.verdict());
        for loss in &self.losses {
            let _ = writeln!(out, "lost: {}", loss.what.for_terminal());
        }
        out
    }

    fn to_json(&self) -> String {
        iotide_look::text::json_document(self)
    }
}
