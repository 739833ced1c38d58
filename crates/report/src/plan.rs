//! Jobs with their sets, and what a file system is told of them.

use std::collections::BTreeMap;
use std::fmt::Write;

use iotide_sched::{ControlledJob, IoProfile, SetId};
use serde::Serialize;

use crate::document::Document;
use crate::{Ink, SCHEMA, text};
use iotide_look::Untrusted;

/// The answer of `iotide sets plan`.
#[derive(Clone, Debug, Serialize)]
pub struct PlanReport {
    schema: &'static str,
    /// The command that was asked.
    pub command: &'static str,
    /// Each job with its set.
    pub jobs: Vec<PlanEntry>,
    /// Actions for the file system, as one would type them.
    pub actions: Vec<String>,
    /// Whether it was told.
    #[serde(rename = "done")]
    pub is_done: bool,
}

/// A job with its set.
#[derive(Clone, Debug, Serialize)]
pub struct PlanEntry {
    /// Its id.
    pub job: Untrusted,
    /// Its characteristic time, if known.
    pub w_iter_s: Option<f64>,
    /// Its set: an order of magnitude, or `unknown`.
    pub set: String,
    /// Priority of the set.
    pub priority: f64,
    /// Share of the storage that the set has if jobs of all sets do I/O.
    pub share: f64,
}

impl PlanReport {
    /// Returns a report on jobs with what is known of each; nothing is to be done yet.
    pub fn new<'a>(jobs: impl Iterator<Item = (&'a ControlledJob, Option<&'a IoProfile>)> + Clone) -> Self {
        let sets: BTreeMap<SetId, f64> =
            jobs.clone().map(|(job, _)| (job.placement.set, job.placement.priority)).collect();
        let sum: f64 = sets.values().sum();
        let entry = |(job, profile): (&ControlledJob, Option<&IoProfile>)| PlanEntry {
            job: Untrusted::from(&job.id),
            w_iter_s: profile.map(IoProfile::w_iter_s),
            set: job.placement.set.to_string(),
            priority: job.placement.priority,
            share: job.placement.priority / sum,
        };
        let jobs = jobs.map(entry).collect();
        Self { schema: SCHEMA, command: "sets plan", jobs, actions: Vec::new(), is_done: false }
    }
}

impl Document for PlanReport {
    fn to_json(&self) -> String {
        iotide_look::text::json_document(self)
    }

    fn to_text(&self, _: usize, _: Ink) -> String {
        let mut out =
            format!("{:<20} {:>10} {:>8} {:>10} {:>8}\n", "job", "period", "set", "priority", "share");
        for entry in &self.jobs {
            let _ = writeln!(
                out,
                "{:<20} {:>10} {:>8} {:>10} {:>8}",
                entry.job.for_terminal(),
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
