//! All jobs of a node or a machine, within limits.

use std::collections::BTreeMap;

use crate::counters::Counters;
use crate::identity::{JobKey, Name};
use crate::job::{About, Job, Row};

/// How much is taken in. Beyond it, things are refused and counted as [`Losses`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Jobs at once.
    pub jobs: usize,
    /// Counter pages at once.
    pub pages: usize,
    /// Of these, pages of one user.
    pub pages_of_user: usize,
    /// Metrics of a job.
    pub metrics: usize,
    /// Of these, metrics that the program defined itself.
    pub own_metrics: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { jobs: 1024, pages: 8192, pages_of_user: 1024, metrics: 1024, own_metrics: 64 }
    }
}

/// What was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Refusal {
    /// Too many jobs at once.
    Jobs,
    /// Too many counter pages at once.
    Pages,
    /// Too many counter pages of one user.
    PagesOfUser,
    /// Too many metrics in a job.
    Metrics,
    /// A file in the directory of counter pages that is none.
    NoPage,
    /// An id that is none.
    JobId,
    /// A page that went away, or was cut, while its process ran.
    PageGone,
}

impl Refusal {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Jobs,
        Self::Pages,
        Self::PagesOfUser,
        Self::Metrics,
        Self::NoPage,
        Self::JobId,
        Self::PageGone,
    ];

    /// As a label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Jobs => "too_many_jobs",
            Self::Pages => "too_many_pages",
            Self::PagesOfUser => "too_many_pages_of_user",
            Self::Metrics => "too_many_metrics",
            Self::NoPage => "not_a_page",
            Self::JobId => "bad_job_id",
            Self::PageGone => "page_removed",
        }
    }

    /// In words that follow a number.
    pub fn what(self) -> &'static str {
        match self {
            Self::Jobs => "processes not counted because there were too many jobs",
            Self::Pages => "processes not counted because there were too many",
            Self::PagesOfUser => "processes not counted because their user had too many",
            Self::Metrics => "values not counted because their job had too many metrics",
            Self::NoPage => "files in the page directory that are no counter pages",
            Self::JobId => "processes that named an invalid job id",
            Self::PageGone => "counter pages removed or cut while their process ran",
        }
    }
}

/// How often something was refused.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses(BTreeMap<Refusal, u64>);

impl Losses {
    /// Counts refusals.
    pub fn add(&mut self, what: Refusal, n: u64) {
        if n > 0 {
            *self.0.entry(what).or_default() += n;
        }
    }

    /// How often.
    pub fn get(&self, what: Refusal) -> u64 {
        self.0.get(&what).copied().unwrap_or(0)
    }

    /// All that were refused.
    pub fn iter(&self) -> impl Iterator<Item = (Refusal, u64)> + '_ {
        self.0.iter().map(|(&what, &n)| (what, n))
    }
}

/// The jobs that are known now.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    limits: Limits,
    jobs: BTreeMap<JobKey, Job>,
    /// What was refused so far.
    pub losses: Losses,
}

impl Ledger {
    /// Returns a ledger without jobs.
    pub fn new(limits: Limits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// What it takes in.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Begins a job, or changes what is known of it. Returns whether there is room.
    pub fn describe(&mut self, key: &JobKey, about: About) -> bool {
        if let Some(job) = self.jobs.get_mut(key) {
            job.about = about;
        } else if self.jobs.len() < self.limits.jobs {
            self.jobs.insert(key.clone(), Job::new(about));
        } else {
            self.losses.add(Refusal::Jobs, 1);
            return false;
        }
        true
    }

    /// Takes over a row of a job that was described. Returns whether there is such a job.
    pub fn merge(&mut self, key: &JobKey, node: &Name, epoch: u64, row: &Row) -> bool {
        let Some(job) = self.jobs.get_mut(key) else { return false };
        let n_before = job.n_refused();
        job.merge(node, epoch, row, &self.limits);
        self.losses.add(Refusal::Metrics, job.n_refused() - n_before);
        true
    }

    /// Forgets a job: it has ended, and its counts are stored.
    pub fn forget(&mut self, key: &JobKey) -> Option<Job> {
        self.jobs.remove(key)
    }

    /// A job.
    pub fn job(&self, key: &JobKey) -> Option<&Job> {
        self.jobs.get(key)
    }

    /// All jobs.
    pub fn jobs(&self) -> impl Iterator<Item = (&JobKey, &Job)> {
        self.jobs.iter()
    }

    /// The sum over all jobs, by node.
    pub fn by_node(&self) -> BTreeMap<Name, Counters> {
        let mut nodes: BTreeMap<Name, Counters> = BTreeMap::new();
        for job in self.jobs.values() {
            for (node, counters) in job.by_node() {
                nodes.entry(node.clone()).or_default().add_all(&counters);
            }
        }
        nodes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::JobId;

    fn key(id: &str) -> JobKey {
        JobKey { cluster: Name::default(), uid: 1000, id: JobId::new(id).unwrap(), start_ns: 5 }
    }

    fn about() -> About {
        About { user: Name::cut(b"ada"), size: 1, ..About::default() }
    }

    #[test]
    fn jobs_beyond_the_limit_are_refused_until_others_have_ended() {
        let mut ledger = Ledger::new(Limits { jobs: 2, ..Limits::default() });
        assert!(ledger.describe(&key("1"), about()) && ledger.describe(&key("2"), about()));
        assert!(!ledger.describe(&key("3"), about()));
        assert!(ledger.describe(&key("1"), about()), "one that is known may change");
        assert!(!ledger.merge(&key("3"), &Name::default(), 0, &Row::default()));
        assert_eq!(ledger.losses.iter().collect::<Vec<_>>(), [(Refusal::Jobs, 1)]);
        ledger.forget(&key("1"));
        assert!(ledger.describe(&key("3"), about()));
    }
}
