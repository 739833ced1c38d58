//! Which periods an arbiter should be given.

use std::collections::HashMap;

use super::{JobFacts, NewPeriod, Rule};
use crate::known::{HARDLY_NEW, are_within};

/// A job as an arbiter or a mount sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct AtTarget {
    /// What it is called there: its id, or `uid:1000/ID`.
    pub name: String,
    /// The period it is taken to have.
    pub period_s: Option<f64>,
    /// Whether someone said so, rather than its own requests.
    pub is_given: bool,
}

/// Periods that have stayed what they are: a job that is held up by others, or has just begun, often seems to have another.
#[derive(Clone, Debug, Default)]
pub struct Steadiness {
    jobs: HashMap<String, Steady>,
}

#[derive(Clone, Copy, Debug)]
struct Steady {
    period_s: f64,
    since_s: f64,
    until_s: f64,
}

impl Steadiness {
    /// A period must have been the same for so many periods.
    const PERIODS: f64 = 1.5;

    /// Notes the periods of a look. A job without one is not steady any more.
    pub fn note(&mut self, now_s: f64, jobs: &[JobFacts], least_confidence: f64) {
        let mut former = std::mem::take(&mut self.jobs);
        for job in jobs {
            let Some(period_s) = job.sure_period_s(least_confidence) else { continue };
            let key = job.key();
            let since_s = former
                .remove(&key)
                .filter(|former| are_within(HARDLY_NEW, former.period_s, period_s))
                .map_or(now_s, |former| former.since_s);
            self.jobs.insert(key, Steady { period_s, since_s, until_s: now_s });
        }
    }

    /// The period of a job.
    pub fn period_s(&self, key: &str) -> Option<f64> {
        let job = self.jobs.get(key)?;
        let held_s = job.until_s - job.since_s;
        (held_s > 0.0 && held_s >= Self::PERIODS * job.period_s).then_some(job.period_s)
    }
}

/// Whether two periods are so close that a job's set hardly differs: sets are orders of magnitude, and a job at the border of two must not go to and fro.
fn is_same_set(a_s: f64, b_s: f64) -> bool {
    (a_s / b_s).log10().abs() < 0.5
}

/// What a target should be told of jobs: of those that a rule is about, those whose period it does not know, or takes for another. A period that
/// somebody else gave it is left alone; `held` are those that it was given by this rule.
pub fn period_changes(
    rule: &Rule,
    jobs: &[JobFacts],
    at_target: &[AtTarget],
    steadiness: &Steadiness,
    held: &HashMap<String, f64>,
) -> Vec<NewPeriod> {
    let mut changes = Vec::new();
    for job in jobs.iter().filter(|job| rule.scope.holds(job)) {
        let key = job.key();
        let seen = at_target.iter().find(|seen| seen.name == key);
        let Some(seen) = seen.or_else(|| at_target.iter().find(|seen| seen.name == job.id)) else { continue };
        let Some(period_s) = steadiness.period_s(&key) else { continue };
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
