//! Machine that decides about alarms: rules, and the targets that each of them watches.

use std::collections::BTreeSet;

use iotide_ledger::JobKey;
use iotide_ledger::alarm::{Change, On, Rule, RuleName, State, Subject, Watch};
use iotide_report::AlarmState;

use super::ByTarget;
use super::labels::Labels;
use super::slowdowns::Slowdowns;
use super::values::{self, Rates, Seen, Values, wanted};
use crate::store::Firing;
use iotide_daemon::leaf::JobView;
use iotide_daemon::series::Series;

/// Alarms of one rule that fire at once; beyond it none begins.
const MOST_FIRING: usize = 1000;
/// Alarms of all rules of one user.
const MOST_FIRING_OF_USER: usize = 1000;
/// After a start, jobs are not all known yet: nothing ends within this time.
const GRACE_NS: u64 = 10_000_000_000;
/// Targets that are no job.
const SUM: &str = "sum";
const NODE: &str = "node";

/// Rules, and how each stands on each of its targets.
#[derive(Debug)]
pub(super) struct Machine {
    rules: Vec<Rule>,
    /// Watches that are not quiet, rule by rule.
    watches: Vec<ByTarget<Held>>,
    rates: Rates,
    labels: Labels,
    slowdowns: Slowdowns,
    started_ns: u64,
}

#[derive(Clone, Debug)]
struct Held {
    watch: Watch,
    /// State reported at its begin, if it fires.
    begun: Option<AlarmState>,
}

impl Machine {
    pub fn new(started_ns: u64) -> Self {
        Self {
            rules: Vec::new(),
            watches: Vec::new(),
            rates: Rates::default(),
            labels: Labels::default(),
            slowdowns: Slowdowns::default(),
            started_ns,
        }
    }

    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Adds a rule of a name that is not there.
    pub fn add(&mut self, rule: Rule) {
        let key = |rule: &Rule| (rule.owner, rule.name.clone());
        let at = self.rules.partition_point(|known| key(known) < key(&rule));
        self.rules.insert(at, rule);
        self.watches.insert(at, ByTarget::new());
    }

    /// Takes up an alarm that fired before a restart. One whose rule is gone is forgotten.
    pub fn restore(&mut self, firing: Firing) {
        let Firing { target, state } = firing;
        let is_it = |rule: &Rule| rule.owner == state.owner && rule.name.as_str() == state.name.as_said();
        if let Some(index) = self.rules.iter().position(is_it) {
            let watch = Watch::firing((state.since_unix_s * 1e9) as u64);
            self.watches[index].insert(target, Held { watch, begun: Some(state) });
        }
    }

    /// Forgets a rule; what fires by it is over.
    pub fn delete(&mut self, at_ns: u64, owner: Option<u32>, name: &RuleName) -> Vec<Firing> {
        let Some(index) = self.rules.iter().position(|rule| rule.owner == owner && rule.name == *name) else {
            return Vec::new();
        };
        self.rules.remove(index);
        let held = self.watches.remove(index);
        held.into_iter()
            .filter_map(|(target, held)| over(target, &held, at_ns, None, "rule deleted"))
            .collect()
    }

    /// Remembers the number that a begin was given.
    pub fn number(&mut self, change: &Firing) {
        let is_it = |rule: &Rule| {
            rule.owner == change.state.owner && rule.name.as_str() == change.state.name.as_said()
        };
        let index = self.rules.iter().position(is_it);
        let held = index.and_then(|index| self.watches[index].get_mut(&change.target));
        if let Some(begun) = held.and_then(|held| held.begun.as_mut()) {
            begun.id = change.state.id;
        }
    }

    /// Returns the firing alarms, the earliest first.
    pub fn firing(&self) -> Vec<AlarmState> {
        let held = self.watches.iter().flat_map(ByTarget::values);
        let mut firing: Vec<AlarmState> = held.filter_map(|held| held.begun.clone()).collect();
        firing.sort_by_key(|state| state.id);
        firing
    }

    /// Looks at a second; returns what begins and what is over.
    pub fn second(&mut self, at_ns: u64, seen: &Seen<'_>, series: &Series) -> Vec<Firing> {
        if self.rules.is_empty() {
            return Vec::new();
        }
        let of_jobs = wanted(&self.rules, false);
        self.renew_labels(&of_jobs, seen, series);
        self.renew_slowdowns(&of_jobs, seen);
        let mut changes = Vec::new();
        let mut sums: Vec<(Values, bool)> = self.rules.iter().map(|_| Default::default()).collect();
        let mut there: BTreeSet<String> = BTreeSet::new();
        for job in &seen.view.jobs {
            let about: Vec<usize> = (0..self.rules.len())
                .filter(|&index| {
                    self.rules[index].on != On::Node && self.rules[index].is_about(&job.key, &job.about)
                })
                .collect();
            if about.is_empty() {
                continue;
            }
            let mut values = values::of_job(seen, &mut self.rates, job, &of_jobs);
            self.take_labels(&of_jobs, &job.key, &mut values);
            let target = target_of(&job.key);
            for index in about {
                let rule = &self.rules[index];
                if rule.on == On::Sum {
                    sums[index].0.add(&values);
                    sums[index].1 = true;
                } else {
                    let value = values.of(&rule.subject);
                    changes.extend(self.tell(index, &target, at_ns, value, Some(job)));
                }
            }
            there.insert(target);
        }
        let of_node = wanted(&self.rules, true);
        let node = if of_node.is_empty() {
            Values::default()
        } else {
            values::of_node(seen, &mut self.rates, &of_node)
        };
        for (index, (sum, has_jobs)) in sums.iter().enumerate() {
            let subject = &self.rules[index].subject;
            let (target, value) = match self.rules[index].on {
                // Nothing is moved where nothing runs; of what runs, nothing may be known yet.
                On::Sum => (SUM, sum.of(subject).or((!has_jobs).then_some(0.0))),
                On::Node => (NODE, node.of(subject)),
                On::Job => continue,
            };
            changes.extend(self.tell(index, target, at_ns, value, None));
        }
        changes.extend(self.end_of_jobs(at_ns, &there));
        self.rates.keep_only(seen.view.at_ns);
        changes
    }

    fn renew_labels(&mut self, of_jobs: &BTreeSet<Subject>, seen: &Seen<'_>, series: &Series) {
        let is_label = |subject: &Subject| matches!(subject, Subject::Label(_) | Subject::Issue(_));
        if !of_jobs.iter().any(is_label) {
            return;
        }
        let rules: Vec<&Rule> = self.rules.iter().filter(|rule| is_label(&rule.subject)).collect();
        let is_wanted = |job: &JobView| rules.iter().any(|rule| rule.is_about(&job.key, &job.about));
        self.labels.renew(seen.view, series, is_wanted);
    }

    fn renew_slowdowns(&mut self, of_jobs: &BTreeSet<Subject>, seen: &Seen<'_>) {
        let is_slowdown = |subject: &Subject| matches!(subject, Subject::Slowdown(_));
        if !of_jobs.iter().any(is_slowdown) {
            return;
        }
        let rules: Vec<&Rule> = self.rules.iter().filter(|rule| is_slowdown(&rule.subject)).collect();
        let is_wanted = |job: &JobView| rules.iter().any(|rule| rule.is_about(&job.key, &job.about));
        self.slowdowns.renew(seen.view, is_wanted, seen.why);
    }

    /// Adds the values that are found now and then: labels, issues and slowdowns.
    fn take_labels(&self, of_jobs: &BTreeSet<Subject>, key: &JobKey, values: &mut Values) {
        for subject in of_jobs {
            let as_number = |has: bool| if has { 1.0 } else { 0.0 };
            let value = match subject {
                Subject::Label(name) => self.labels.has_label(key, name.as_str()).map(as_number),
                Subject::Issue(name) => self.labels.has_issue(key, name.as_str()).map(as_number),
                Subject::Slowdown(by) => self.slowdowns.of(key, *by),
                _ => None,
            };
            if let Some(value) = value {
                values.set(subject.clone(), value);
            }
        }
    }

    fn tell(
        &mut self,
        index: usize,
        target: &str,
        at_ns: u64,
        value: Option<f64>,
        job: Option<&JobView>,
    ) -> Option<Firing> {
        let is_met = value.is_some_and(|value| self.rules[index].is_met(value));
        // Most are quiet, and nothing is kept of them.
        if !self.watches[index].contains_key(target) && (!is_met || self.is_full(index)) {
            return None;
        }
        let (rule, held) = (&self.rules[index], &mut self.watches[index]);
        let Some(known) = held.get_mut(target) else {
            let mut watch = Watch::default();
            let begun = watch.tell(rule, at_ns, value).map(|_| begin(rule, at_ns, value, job));
            held.insert(target.to_owned(), Held { watch, begun: begun.clone() });
            return Some(Firing { target: target.to_owned(), state: begun? });
        };
        let is_firing = matches!(known.watch.state(), State::Firing { .. });
        if is_firing && at_ns.saturating_sub(self.started_ns) < GRACE_NS {
            return None;
        }
        let change = known.watch.tell(rule, at_ns, value);
        match change {
            Some(Change::Begun) => {
                let state = begin(rule, at_ns, value, job);
                known.begun = Some(state.clone());
                Some(Firing { target: target.to_owned(), state })
            }
            Some(Change::Over) => {
                let held = held.remove(target)?;
                over(target.to_owned(), &held, at_ns, value, "cleared")
            }
            None => {
                if known.watch.is_quiet() {
                    held.remove(target);
                }
                None
            }
        }
    }

    /// Whether no further alarm of a rule may begin.
    fn is_full(&self, index: usize) -> bool {
        let owner = self.rules[index].owner;
        let of_rules = || self.rules.iter().zip(&self.watches).filter(|(rule, _)| rule.owner == owner);
        let n_of_user = || of_rules().map(|(_, held)| held.len()).sum::<usize>();
        self.watches[index].len() >= MOST_FIRING || owner.is_some() && n_of_user() >= MOST_FIRING_OF_USER
    }

    /// Jobs that are gone have no alarms.
    fn end_of_jobs(&mut self, at_ns: u64, there: &BTreeSet<String>) -> Vec<Firing> {
        if at_ns.saturating_sub(self.started_ns) < GRACE_NS {
            return Vec::new();
        }
        let mut changes = Vec::new();
        for (rule, held) in self.rules.iter().zip(&mut self.watches).filter(|(rule, _)| rule.on == On::Job) {
            let gone: Vec<String> = held.keys().filter(|target| !there.contains(*target)).cloned().collect();
            debug_assert!(rule.on == On::Job);
            for target in gone {
                let known = held.remove(&target);
                changes.extend(known.and_then(|known| over(target, &known, at_ns, None, "job ended")));
            }
        }
        changes
    }
}

fn target_of(key: &JobKey) -> String {
    format!("job {} {} {} {}", key.id, key.uid, key.start_ns, key.cluster)
}

fn begin(rule: &Rule, at_ns: u64, value: Option<f64>, job: Option<&JobView>) -> AlarmState {
    let of = |text: &str| (!text.is_empty()).then(|| text.into());
    AlarmState {
        id: 0,
        name: rule.name.as_str().into(),
        owner: rule.owner,
        state: "firing".to_owned(),
        expr: rule.expr().into(),
        value: value.filter(|value| value.is_finite()),
        job: job.map(|job| job.key.id.as_str().into()),
        user: job.and_then(|job| of(job.about.user.as_str())),
        app: job.and_then(|job| of(job.about.app.as_str())),
        program: job.and_then(|job| of(job.about.program())),
        severity: rule.severity.as_str().into(),
        since_unix_s: at_ns as f64 / 1e9,
        end_unix_s: None,
        why: None,
    }
}

fn over(target: String, held: &Held, at_ns: u64, value: Option<f64>, why: &str) -> Option<Firing> {
    let begun = held.begun.as_ref()?;
    let state = AlarmState {
        state: "resolved".to_owned(),
        value: value.filter(|value| value.is_finite()),
        end_unix_s: Some((at_ns as f64 / 1e9).max(begun.since_unix_s)),
        why: Some(why.to_owned()),
        ..begun.clone()
    };
    Some(Firing { target, state })
}

#[cfg(test)]
mod tests;
