//! Which set a job belongs to, and what a set is worth.

pub use set10::UnknownJobs;

use crate::{IoProfile, JobId};

mod set10;

/// Who may use the storage, and how much of it.
///
/// A policy divides jobs into sets. Between sets bandwidth is shared by priority; inside a set one job at a time is
/// served (except with [`Policy::Unscheduled`], where requests are served as they come).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Requests are served as they come, whoever sent them: what a server does that knows no jobs.
    Unscheduled,
    /// Each job has the same share.
    FairShare,
    /// One job at a time, first come, first served.
    Exclusive,
    /// The sets of Set-10, all with the same priority: tells apart what the sets do from what the priorities do.
    EqualSets(UnknownJobs),
    /// Set-10: sets by the order of magnitude of the characteristic time, priority 10^−i.
    Set10(UnknownJobs),
}

impl Policy {
    /// All of them, unknown jobs sharing a set, from the plainest on.
    pub const ALL: [Policy; 5] = [
        Policy::Unscheduled,
        Policy::FairShare,
        Policy::Exclusive,
        Policy::EqualSets(UnknownJobs::Together),
        Policy::Set10(UnknownJobs::Together),
    ];

    /// Returns where a job belongs, given what is known of it.
    pub fn place(self, job: JobId, profile: Option<&IoProfile>) -> Placement {
        match self {
            Policy::Unscheduled | Policy::Exclusive => Placement { set: SetId::Everyone, priority: 1.0 },
            Policy::FairShare => Placement { set: SetId::Job(job), priority: 1.0 },
            Policy::EqualSets(unknown) => Placement { priority: 1.0, ..set10::place(job, profile, unknown) },
            Policy::Set10(unknown) => set10::place(job, profile, unknown),
        }
    }

    /// Returns where a job belongs that has had more than its share.
    pub(crate) fn place_behind(self, job: JobId, profile: Option<&IoProfile>) -> Placement {
        match self {
            // Whoever sends most has most; each job has the same.
            Policy::Unscheduled | Policy::FairShare => self.place(job, profile),
            _ => Placement { set: SetId::HeldBack, priority: BEHIND },
        }
    }

    /// Whether jobs of a set take turns; otherwise their requests are served as they come.
    pub fn is_exclusive_in_sets(self) -> bool {
        self != Policy::Unscheduled
    }

    /// Whether it matters what is known of a job.
    pub fn needs_profiles(self) -> bool {
        matches!(self, Policy::EqualSets(_) | Policy::Set10(_))
    }

    /// A word for it.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Unscheduled => "none",
            Policy::FairShare => "fair-share",
            Policy::Exclusive => "exclusive",
            Policy::EqualSets(_) => "equal-sets",
            Policy::Set10(_) => "set10",
        }
    }

    /// Help for those who choose one.
    pub fn help(self) -> &'static str {
        match self {
            Policy::Unscheduled => "Requests as they come",
            Policy::FairShare => "Each job has the same share",
            Policy::Exclusive => "One job at a time, first come, first served",
            Policy::EqualSets(_) => "The sets of set10, all with the same share",
            Policy::Set10(_) => {
                "Jobs with periods of the same order of magnitude take turns; those with short periods have the larger share"
            }
        }
    }

    /// Returns the same policy with another place for jobs whose rhythm is unknown.
    pub fn with_unknown(self, unknown: UnknownJobs) -> Self {
        match self {
            Policy::EqualSets(_) => Policy::EqualSets(unknown),
            Policy::Set10(_) => Policy::Set10(unknown),
            Policy::Unscheduled | Policy::FairShare | Policy::Exclusive => self,
        }
    }

    /// Returns the policy of that name, with unknown jobs sharing a set.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }
}

/// So far below every other set that nothing of it is served while others wait (but for those that have waited for too long).
const BEHIND: f64 = 1e-12;

/// Where a job belongs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placement {
    /// Its set.
    pub set: SetId,
    /// Priority of the set; positive. Sets that are active at the same time share bandwidth as `p_i / Σp`.
    pub priority: f64,
}

/// A set of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SetId {
    /// The one set of all jobs.
    Everyone,
    /// Jobs whose characteristic time is about 10^i seconds.
    Magnitude(i32),
    /// Jobs of which no rhythm is known yet.
    Unknown,
    /// One job alone.
    Job(JobId),
    /// Jobs of users who have had more than their share, while others wait; see [`crate::Queue::hold_back`].
    HeldBack,
}

impl std::fmt::Display for SetId {
    /// In a word, the same wherever sets are shown.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SetId::Everyone => f.pad("all"),
            SetId::Magnitude(magnitude) => f.pad(&magnitude.to_string()),
            SetId::Unknown => f.pad("unknown"),
            SetId::Job(_) => f.pad("own"),
            SetId::HeldBack => f.pad("held back"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_found_by_its_name() {
        for policy in Policy::ALL {
            assert_eq!(Policy::from_name(policy.name()), Some(policy));
        }
        assert_eq!(Policy::from_name("set11"), None);
    }

    #[test]
    fn plain_policies_do_not_look_at_profiles() {
        let profile = IoProfile::with_period(19.2);
        for policy in Policy::ALL {
            let known = policy.place(JobId(7), Some(&profile));
            assert_eq!(known != policy.place(JobId(7), None), policy.needs_profiles(), "{policy:?}");
        }
    }

    #[test]
    fn equal_sets_are_the_sets_of_set10_without_its_priorities() {
        let (equal, set10) = (Policy::EqualSets(UnknownJobs::Together), Policy::Set10(UnknownJobs::Together));
        for w_iter_s in [0.2, 19.2, 384.0, 5000.0] {
            let profile = IoProfile::with_period(w_iter_s);
            let place = |policy: Policy| policy.place(JobId(1), Some(&profile));
            assert_eq!(place(equal).set, place(set10).set);
            assert_eq!(place(equal).priority, 1.0);
        }
    }
}
