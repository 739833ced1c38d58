//! Jobs with their sets, and what a file system is told of them.

use std::collections::BTreeMap;
use std::fmt::Write;

use iotide_sched::{ControlledJob, IoProfile, SetId};
use serde::Serialize;

use crate::{SCHEMA, text};

/// The answer of `iotide sets plan`.
#[derive(Clone, Debug, Serialize)]
pub struct PlanReport {
    schema: &'static str,
    /// The command that was asked.
    pub command: &'static str,
    /// Each job with its set.
    pub jobs: Vec<PlanEntry>,
    /// What a file system is told, as one would type it.
    pub actions: Vec<String>,
    /// Whether it was told.
    #[serde(rename = "done")]
    pub is_done: bool,
}

/// A job with its set.
#[derive(Clone, Debug, Serialize)]
pub struct PlanEntry {
    /// Its id.
    pub job: String,
    /// Its characteristic time, if known.
    pub w_iter_s: Option<f64>,
    /// Its set: an order of magnitude, or `unknown`.
    pub set: String,
    /// What the set is worth.
    pub priority: f64,
    /// What share of the storage the set has if jobs of all sets do I/O.
    pub share: f64,
}

impl PlanReport {
    /// Returns a report without jobs yet.
    pub fn new() -> Self {
        Self { schema: SCHEMA, command: "sets plan", jobs: Vec::new(), actions: Vec::new(), is_done: false }
    }

    /// Adds a job.
    pub fn add(&mut self, job: &ControlledJob, profile: Option<&IoProfile>) {
        self.jobs.push(PlanEntry {
            job: job.id.clone(),
            w_iter_s: profile.map(IoProfile::w_iter_s),
            set: match job.placement.set {
                SetId::Magnitude(magnitude) => magnitude.to_string(),
                SetId::Unknown => "unknown".to_owned(),
                SetId::Everyone => "everyone".to_owned(),
                SetId::Job(_) => "its own".to_owned(),
            },
            priority: job.placement.priority,
            share: 0.0,
        });
        let sets: BTreeMap<String, f64> =
            self.jobs.iter().map(|entry| (entry.set.clone(), entry.priority)).collect();
        let sum: f64 = sets.values().sum();
        for entry in &mut self.jobs {
            entry.share = entry.priority / sum;
        }
    }

    /// Returns the report as JSON, with a final newline.
    pub fn to_json(&self) -> String {
        let mut json = serde_json::to_string_pretty(self).expect("a report is made of names and numbers");
        json.push('\n');
        json
    }

    /// Returns the report for people.
    pub fn to_text(&self) -> String {
        let mut out =
            format!("{:<20} {:>10} {:>8} {:>10} {:>8}\n", "job", "period", "set", "priority", "share");
        for entry in &self.jobs {
            let _ = writeln!(
                out,
                "{:<20} {:>10} {:>8} {:>10} {:>8}",
                text::printable(&entry.job),
                entry.w_iter_s.map_or("–".to_owned(), text::seconds),
                entry.set,
                text::digits(entry.priority, 3),
                text::percent(entry.share)
            );
        }
        if !self.actions.is_empty() {
            let _ = writeln!(out, "\n{}", if self.is_done { "done:" } else { "would be done:" });
            for action in &self.actions {
                let _ = writeln!(out, "  {action}");
            }
        }
        out
    }
}

impl Default for PlanReport {
    fn default() -> Self {
        Self::new()
    }
}
