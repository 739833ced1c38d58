//! How much slower running jobs are than earlier runs of their applications, and by what.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use iotide_analysis::{Why, WhyVerdict};
use iotide_daemon::leaf::{JobView, View};
use iotide_ledger::JobKey;
use iotide_ledger::alarm::SlowedBy;

/// A job is compared when it is so old, and again after each such time.
const FIRST_NS: u64 = 30_000_000_000;
const AGAIN_NS: u64 = 60_000_000_000;
/// Pause after a comparison, as a multiple of the time that it took.
const REST: u32 = 9;

/// A comparison that takes no longer needs no rest.
const AT_ONCE: Duration = Duration::from_millis(10);

/// Answers about running jobs, as far as rules ask for them.
#[derive(Debug, Default)]
pub(crate) struct Slowdowns {
    jobs: HashMap<JobKey, Compared>,
    /// Nothing is compared before this.
    rests_until: Option<Instant>,
}

#[derive(Debug)]
struct Compared {
    at_ns: u64,
    why: Option<Box<Why>>,
}

impl Slowdowns {
    /// By how much a job is slowed down; `None` if that is not known.
    pub(crate) fn of(&self, key: &JobKey, by: SlowedBy) -> Option<f64> {
        let cause = match by {
            SlowedBy::All => None,
            SlowedBy::Own => Some(WhyVerdict::Own),
            SlowedBy::Others => Some(WhyVerdict::Others),
            SlowedBy::Storage => Some(WhyVerdict::Storage),
        };
        self.jobs.get(key)?.why.as_ref()?.slowed_by(cause)
    }

    /// Forgets jobs that are gone, and compares one that was not compared for longest, if there is time.
    pub(crate) fn renew(
        &mut self,
        view: &View,
        is_wanted: impl Fn(&JobView) -> bool,
        compare: &dyn Fn(&JobView) -> Option<Why>,
    ) {
        let wanted: HashMap<&JobKey, &JobView> =
            view.jobs.iter().filter(|job| is_wanted(job)).map(|job| (&job.key, job)).collect();
        self.jobs.retain(|key, _| wanted.contains_key(key));
        if self.rests_until.is_some_and(|until| Instant::now() < until) {
            return;
        }
        let due_ns = |job: &JobView| match self.jobs.get(&job.key) {
            Some(compared) => compared.at_ns.saturating_add(AGAIN_NS),
            None => job.key.start_ns.saturating_add(FIRST_NS),
        };
        let due = wanted.into_values().filter(|job| due_ns(job) <= view.at_ns);
        let Some(job) = due.min_by_key(|job| (due_ns(job), job.key.clone())) else { return };
        let begun = Instant::now();
        let why = compare(job).map(Box::new);
        self.jobs.insert(job.key.clone(), Compared { at_ns: view.at_ns, why });
        let took = begun.elapsed();
        let rest = took.checked_mul(REST).filter(|_| took > AT_ONCE);
        self.rests_until = rest.and_then(|rest| Instant::now().checked_add(rest));
    }
}
