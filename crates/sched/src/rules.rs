//! Whose rules requests are served by: the one place that says where ours differ from those of RR-9537.

use crate::{Ageing, Credit, Exclusivity, JobId, Order, Policy, QueueConfig, UnknownJobs};

/// Whose rules requests are served by. The simulator, mounts, arbiters and controllers take them from here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rules {
    /// Ours: shares in bytes, first come, first served inside a set, one set for jobs without a known period, nobody starves.
    #[default]
    Iotide,
    /// Those of RR-9537: credits by request, order by id, each job without a known period in a set of its own.
    Report,
}

impl Rules {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Iotide, Self::Report];

    /// The name people use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Iotide => "iotide",
            Self::Report => "report",
        }
    }

    /// The rules that people mean by a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rules| rules.name() == name)
    }

    /// Returns the rule for jobs whose rhythm is not known yet.
    pub fn unknown_jobs(self) -> UnknownJobs {
        match self {
            Self::Iotide => UnknownJobs::Together,
            Self::Report => UnknownJobs::Apart,
        }
    }

    /// Set-10 by these rules.
    pub fn set10(self) -> Policy {
        Policy::Set10(self.unknown_jobs())
    }

    /// The same policy by these rules.
    pub fn of(self, policy: Policy) -> Policy {
        policy.with_unknown(self.unknown_jobs())
    }

    /// Returns the unit in which a set's share is counted.
    pub fn credit(self) -> Credit {
        match self {
            Self::Iotide => Credit::Bytes,
            Self::Report => Credit::Requests,
        }
    }

    /// Which job of a set goes first.
    pub fn order(self) -> Order {
        match self {
            Self::Iotide => Order::FirstCome,
            Self::Report => Order::Id,
        }
    }

    /// How jobs that wait long are helped.
    pub fn ageing(self) -> Option<Ageing> {
        match self {
            Self::Iotide => Some(Ageing { patience_s: 60.0, every: 16 }),
            Self::Report => None,
        }
    }

    /// A queue by these rules, for this policy as it is.
    pub fn queue(self, policy: Policy) -> QueueConfig {
        QueueConfig {
            policy,
            credit: self.credit(),
            order: self.order(),
            exclusivity: Exclusivity::Relaxed,
            ageing: self.ageing(),
            phase_gap_s: 1.0,
            lull_s: f64::INFINITY,
            idle_share: f64::INFINITY,
            turn_s: f64::INFINITY,
            time_scale: 1.0,
        }
    }
}

impl JobId {
    /// The number of a job that the batch system calls by one, so that an order by id is the order of submission.
    pub fn of_name(name: &str) -> Option<Self> {
        name.parse().ok().filter(|&number: &u64| number < MADE_UP).map(Self)
    }

    /// The `n`th number for jobs that have none: after all that do.
    pub fn made_up(n: u64) -> Self {
        Self(MADE_UP + n % MADE_UP)
    }
}

/// Numbers from here on are no batch system's.
const MADE_UP: u64 = 1 << 63;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SetId;

    #[test]
    fn rules_are_found_by_their_names() {
        for rules in Rules::ALL {
            assert_eq!(Rules::from_name(rules.name()), Some(rules));
        }
        assert_eq!(Rules::from_name("mine"), None);
    }

    #[test]
    fn by_the_reports_rules_each_unknown_job_is_a_set_of_its_own_worth_a_fiftieth() {
        let place = |rules: Rules, job| rules.of(Rules::Iotide.set10()).place(JobId(job), None);
        assert_eq!(place(Rules::Iotide, 4).set, place(Rules::Iotide, 5).set);
        for job in [4, 5] {
            let placement = place(Rules::Report, job);
            assert_eq!(placement.set, SetId::Job(JobId(job)));
            assert!((placement.priority - 1.0 / 50.0).abs() < 1e-4, "{placement:?}");
        }
    }

    #[test]
    fn jobs_without_a_number_come_after_those_that_have_one() {
        assert_eq!(JobId::of_name("4711"), Some(JobId(4711)));
        for name in ["", "uid:0", "-1", "99999999999999999999", "18446744073709551615"] {
            assert_eq!(JobId::of_name(name), None, "{name}");
        }
        assert!(JobId::made_up(1) > JobId(4711) && JobId::made_up(2) > JobId::made_up(1));
    }
}
