//! Which periods an arbiter should be given.

use std::collections::HashMap;

use super::{JobFacts, NewPeriod, Rule};
use crate::known::{AcceptedHints, KnownJob};

/// A job as an arbiter or a mount sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct AtTarget {
    /// Its name there: its id, or `uid:1000/ID`.
    pub name: String,
    /// The period it is taken to have.
    pub period_s: Option<f64>,
    /// Whether someone said so, rather than its own requests.
    pub is_given: bool,
}

impl From<&JobFacts> for KnownJob {
    /// Takes over the present measurements of a job.
    fn from(job: &JobFacts) -> Self {
        Self {
            job: job.id.clone(),
            uid: Some(job.uid),
            period_s: job.period_s,
            confidence: Some(job.confidence),
            ..Self::default()
        }
    }
}

/// Whether two periods are so close that a job's set hardly differs: sets are orders of magnitude, and a job at the border of two must not go to and fro.
fn is_same_set(a_s: f64, b_s: f64) -> bool {
    (a_s / b_s).log10().abs() < 0.5
}

/// Returns the periods to send to a target: of jobs that a rule is about, those whose period the target does not have, or has wrong. A
/// period from another source is left alone; `held` are those that the target has from this rule.
pub fn period_changes(
    rule: &Rule,
    jobs: &[JobFacts],
    at_target: &[AtTarget],
    heeded: &AcceptedHints,
    held: &HashMap<String, f64>,
) -> Vec<NewPeriod> {
    let mut changes = Vec::new();
    for job in jobs.iter().filter(|job| rule.scope.holds(job)) {
        let key = job.key();
        let seen = at_target.iter().find(|seen| seen.name == key);
        let Some(seen) = seen.or_else(|| at_target.iter().find(|seen| seen.name == job.id)) else { continue };
        let Some(period_s) = heeded.steady_period_s(&job.id, Some(job.uid)) else { continue };
        let held_s = held.get(&key).copied();
        let is_anothers = seen.is_given && held_s.is_none();
        // What it was given by us counts, whatever it has become there meanwhile.
        let known_s = held_s.or(seen.period_s);
        if !is_anothers && !known_s.is_some_and(|known_s| is_same_set(known_s, period_s)) {
            changes.push(NewPeriod { job: key, at: seen.name.clone(), former_s: known_s, period_s });
        }
    }
    changes.sort_by(|a, b| a.job.cmp(&b.job));
    changes
}
