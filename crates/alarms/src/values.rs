//! Values that rules watch, each second.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use iotide_analysis::Why;
use iotide_ledger::JobKey;
use iotide_ledger::alarm::{On, Rule, Subject, Window};
use iotide_ledger::series::{Sample, samples_of_job};

use iotide_daemon::collect::{GroupJob, NodeReading};
use iotide_daemon::leaf::{JobView, View};
use iotide_daemon::predict::Expectations;
use iotide_daemon::series::samples_of_node;

/// State of jobs and machine in one second.
pub(crate) struct Seen<'a> {
    pub view: &'a View,
    pub node: &'a NodeReading,
    pub groups: &'a [GroupJob],
    pub expectations: &'a Expectations,
    /// Compares a job with earlier runs; `None` if none of its I/O was sampled.
    pub why: &'a dyn Fn(&JobView) -> Option<Why>,
}

/// Values by subject, as far as rules ask for them.
#[derive(Debug, Default)]
pub struct Values(HashMap<Subject, f64>);

impl Values {
    /// A value; `None` if it is not known.
    pub fn of(&self, subject: &Subject) -> Option<f64> {
        self.0.get(subject).copied()
    }

    /// Adds another's to it: what is not known of one is not there.
    pub fn add(&mut self, other: &Self) {
        for (subject, value) in &other.0 {
            *self.0.entry(subject.clone()).or_default() += value;
        }
    }

    pub fn set(&mut self, subject: Subject, value: f64) {
        self.0.insert(subject, value);
    }
}

/// Values kept from second to second, which rates need.
#[derive(Debug, Default)]
pub struct Rates(HashMap<(Option<JobKey>, Subject), (Window, u64)>);

impl Rates {
    fn push(&mut self, of: Option<&JobKey>, subject: &Subject, at_ns: u64, value: f64) -> Option<f64> {
        let (window, seen_ns) = self.0.entry((of.cloned(), subject.clone())).or_default();
        *seen_ns = at_ns;
        window.push(at_ns, value)
    }

    /// Forgets what was not looked at in this second.
    pub(crate) fn keep_only(&mut self, at_ns: u64) {
        self.0.retain(|_, (_, seen_ns)| *seen_ns == at_ns);
    }
}

/// The subjects that rules ask for, of jobs or of the machine.
pub fn wanted<'r>(rules: impl IntoIterator<Item = &'r Rule>, of_node: bool) -> BTreeSet<Subject> {
    let rules = rules.into_iter().filter(|rule| (rule.on == On::Node) == of_node);
    rules.map(|rule| rule.subject.clone()).collect()
}

fn as_number(sample: Sample) -> f64 {
    match sample {
        Sample::Counter(value) => value as f64,
        Sample::Gauge(value) => value,
    }
}

fn take(
    values: &mut Values,
    rates: &mut Rates,
    (of, at_ns): (Option<&JobKey>, u64),
    samples: &[(Cow<'static, str>, Sample)],
    wanted: &BTreeSet<Subject>,
) {
    for subject in wanted {
        let find = |name: &str| samples.iter().find(|(known, _)| known == name).map(|(_, it)| as_number(*it));
        let value = match subject {
            Subject::Metric(name) => find(name.as_str()),
            Subject::Rate(name) => {
                find(name.as_str()).and_then(|value| rates.push(of, subject, at_ns, value))
            }
            _ => None,
        };
        if let Some(value) = value {
            values.set(subject.clone(), value);
        }
    }
}

/// Returns the values of a job.
pub(crate) fn of_job(
    seen: &Seen<'_>,
    rates: &mut Rates,
    job: &JobView,
    wanted: &BTreeSet<Subject>,
) -> Values {
    let mut values = Values::default();
    let mut samples = samples_of_job(&job.counters, job.n_running);
    let memory = GroupJob::of(seen.groups, &job.key).and_then(|it| it.reading.memory_bytes);
    samples.extend(memory.map(|bytes| ("memory_bytes".into(), Sample::Gauge(bytes as f64))));
    take(&mut values, rates, (Some(&job.key), seen.view.at_ns), &samples, wanted);
    if wanted.contains(&Subject::PredictedLoad) {
        values.set(Subject::PredictedLoad, seen.expectations.load_bps(job, seen.view.at_ns));
    }
    values
}

/// Returns the values of the machine.
pub(crate) fn of_node(seen: &Seen<'_>, rates: &mut Rates, wanted: &BTreeSet<Subject>) -> Values {
    let mut values = Values::default();
    let mut samples = samples_of_node(seen.node);
    let n_pages = u32::try_from(seen.view.n_pages).unwrap_or(u32::MAX);
    samples.extend(samples_of_job(&seen.view.total, n_pages));
    take(&mut values, rates, (None, seen.view.at_ns), &samples, wanted);
    if wanted.contains(&Subject::PredictedLoad) {
        let loads = seen.view.jobs.iter().map(|job| seen.expectations.load_bps(job, seen.view.at_ns));
        values.set(Subject::PredictedLoad, loads.sum());
    }
    values
}
