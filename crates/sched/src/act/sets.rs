//! Which periods an arbiter should be given.

use std::collections::HashMap;

use super::decision::is_near;
use super::{JobFacts, NewPeriod, Rule};

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

/// Periods that were the same at two looks in turn; others are not acted on.
#[derive(Clone, Debug, Default)]
pub struct Steadiness {
    last_s: HashMap<String, f64>,
    steady_s: HashMap<String, f64>,
}

impl Steadiness {
    /// Notes the periods of a look. A job without one is not steady any more.
    pub fn note(&mut self, jobs: &[JobFacts], least_confidence: f64) {
        let now: HashMap<String, f64> =
            jobs.iter().filter_map(|job| Some((job.key(), job.sure_period_s(least_confidence)?))).collect();
        self.steady_s = now
            .iter()
            .filter(|(key, period_s)| {
                self.last_s.get(*key).is_some_and(|last_s| is_near(*last_s, **period_s))
            })
            .map(|(key, period_s)| (key.clone(), *period_s))
            .collect();
        self.last_s = now;
    }

    /// The period of a job.
    pub fn period_s(&self, key: &str) -> Option<f64> {
        self.steady_s.get(key).copied()
    }
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
        if !is_anothers && !known_s.is_some_and(|known_s| is_near(known_s, period_s)) {
            changes.push(NewPeriod { job: key, at: seen.name.clone(), former_s: known_s, period_s });
        }
    }
    changes.sort_by(|a, b| a.job.cmp(&b.job));
    changes
}
