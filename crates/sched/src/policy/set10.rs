//! Set-10: the set is the order of magnitude of the characteristic time, its priority a power of ten.

use super::{Placement, SetId};
use crate::{IoProfile, JobId};

/// Returns the set `i = [log₁₀ w_iter]` (to the nearest integer) with priority `10^−i`.
pub(super) fn place(job: JobId, profile: Option<&IoProfile>, unknown: UnknownJobs) -> Placement {
    match (profile, unknown) {
        (Some(profile), _) => {
            // From microseconds to decades; beyond that a period is a mistake, and must not take or lose everything.
            let magnitude = profile.w_iter_s().log10().round().clamp(-6.0, 9.0) as i32;
            Placement { set: SetId::Magnitude(magnitude), priority: 10f64.powi(-magnitude) }
        }
        (None, UnknownJobs::Together) => Placement { set: SetId::Unknown, priority: UNKNOWN_PRIORITY },
        (None, UnknownJobs::Apart) => {
            let own = (job.0 % 1000) as f64 * 1e-6;
            Placement { set: SetId::Job(job), priority: UNKNOWN_PRIORITY + own }
        }
    }
}

/// Between those of the sets around 10 and 100 seconds, as in RR-9537.
const UNKNOWN_PRIORITY: f64 = 1.0 / 50.0;

/// Rule for jobs whose rhythm is not known yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownJobs {
    /// They share one set and so take turns. Better than RR-9537's rule: jobs that start together stagger at once.
    #[default]
    Together,
    /// Each has a set of its own, as in RR-9537: 1/50 and a small value from its id.
    Apart,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set_of(w_iter_s: f64) -> (SetId, f64) {
        let profile = IoProfile::with_period(w_iter_s);
        let Placement { set, priority } = place(JobId(1), Some(&profile), UnknownJobs::Together);
        (set, priority)
    }

    #[test]
    fn the_set_is_the_nearest_order_of_magnitude() {
        // The report: from 4 to 31 s in set 1, from 32 to 316 s in set 2.
        for (w_iter_s, magnitude, priority) in [
            (1.0, 0, 1.0),
            (4.0, 1, 0.1),
            (19.2, 1, 0.1),
            (31.0, 1, 0.1),
            (32.0, 2, 0.01),
            (316.0, 2, 0.01),
            (384.0, 3, 0.001),
        ] {
            let (set, worth) = set_of(w_iter_s);
            assert_eq!(set, SetId::Magnitude(magnitude), "{w_iter_s}");
            assert!((worth / priority - 1.0).abs() < 1e-12, "{w_iter_s}: {worth}");
        }
    }

    #[test]
    fn unknown_jobs_share_a_set_or_have_one_each() {
        let of = |job, unknown| place(JobId(job), None, unknown);
        assert_eq!(of(1, UnknownJobs::Together), of(2, UnknownJobs::Together));
        let (first, second) = (of(1, UnknownJobs::Apart), of(2, UnknownJobs::Apart));
        assert_ne!(first.set, second.set);
        assert_ne!(first.priority, second.priority);
        assert!((first.priority - 0.02).abs() < 1e-4);
    }

    proptest! {
        #[test]
        fn a_longer_period_never_has_a_higher_priority(a in 1e-9..1e12f64, b in 1e-9..1e12f64) {
            let (short, long) = (a.min(b), a.max(b));
            prop_assert!(set_of(short).1 >= set_of(long).1);
            prop_assert!(set_of(long).1 > 0.0 && set_of(short).1.is_finite());
        }
    }
}
