//! How turns are taken: the common settings of a mount and an arbiter.

use std::path::PathBuf;
use std::sync::Arc;

use iotide_sched::{Exclusivity, HintSource, Policy, QueueConfig, Rules};

/// Who is served when, and how that is known.
#[derive(Clone, Debug)]
pub struct Turns {
    /// Who is served when.
    pub policy: Policy,
    /// How many requests may be with the storage at once.
    pub n_workers: usize,
    /// A job that was idle for this long has ended its I/O phase: the next of its set has its turn.
    pub phase_gap_s: f64,
    /// So long the storage waits for the next request of the job whose turn it is, before another one of its set is served in between.
    pub lull_s: f64,
    /// A job of which no period is known has its turn for at most so long before the next of its set is served.
    pub turn_s: f64,
    /// Whose rules requests are served by; [`Rules::of`] has been asked about the policy.
    pub rules: Rules,
    /// Periods are multiplied by this before a policy judges them: above 1 in an experiment whose times were divided by it.
    pub time_scale: f64,
    /// Tell the periods of jobs from their own requests.
    pub predict: bool,
    /// A table of periods, looked at again when it changes: lines `job,seconds`, or a JSON object.
    pub periods: Option<PathBuf>,
    /// Another source of periods; where that is silent or wrong, those that are predicted from requests count.
    pub informant: Option<Arc<dyn HintSource>>,
    /// Where to make a socket by which others see the jobs and say their periods.
    pub control: Option<PathBuf>,
}

impl Turns {
    /// Returns the default settings.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            n_workers: 8,
            phase_gap_s: 0.25,
            lull_s: 0.02,
            turn_s: 2.0,
            rules: Rules::Iotide,
            time_scale: 1.0,
            predict: policy.needs_profiles(),
            periods: None,
            informant: None,
            control: None,
        }
    }

    /// How requests are served where they are real: one job of a set at a time, but nobody waits beside an idle storage for long.
    pub(crate) fn queue(&self) -> QueueConfig {
        let &Self { policy, phase_gap_s, lull_s, turn_s, time_scale, .. } = self;
        let queue = self.rules.queue(policy);
        if self.rules == Rules::Report {
            return QueueConfig { phase_gap_s, time_scale, ..queue };
        }
        let exclusivity = match policy {
            // A set of one job, or of all that take no turns, has nobody to wait for.
            Policy::Unscheduled | Policy::FairShare => Exclusivity::Relaxed,
            _ => Exclusivity::Strict,
        };
        QueueConfig { phase_gap_s, lull_s, turn_s, time_scale, exclusivity, idle_share: 0.5, ..queue }
    }
}
