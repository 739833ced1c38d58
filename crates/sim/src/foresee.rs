//! What would come of a decision, before it is taken.

use iotide_sched::Policy;
use iotide_sched::act::{Effect, Quantity};

use crate::workload::{JobSpec, Workload};
use crate::{Contender, IoSettings, Knowledge, simulate};

/// A job as it is measured now, beside others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredJob {
    /// How far apart its I/O phases are.
    pub period_s: f64,
    /// How long a phase lasts now.
    pub phase_s: f64,
    /// What it moves.
    pub phase_bytes: f64,
}

/// How jobs would share a storage if a policy knew the periods of all of them rather than of the first `n_known`: the geometric mean of their I/O
/// slowdowns. `None` if that cannot be told.
pub fn foresee_periods(
    jobs: &[MeasuredJob],
    n_known: usize,
    bandwidth_bps: f64,
    policy: Policy,
) -> Option<Effect> {
    let longest_s = jobs.iter().map(|job| job.period_s).fold(0.0, f64::max);
    let is_usable = |job: &MeasuredJob| {
        [job.period_s, job.phase_s, job.phase_bytes].iter().all(|figure| figure.is_finite() && *figure > 0.0)
    };
    if jobs.is_empty() || !jobs.iter().all(is_usable) || !(bandwidth_bps.is_finite() && bandwidth_bps > 0.0) {
        return None;
    }
    let spec = |(n, job): (usize, &MeasuredJob)| JobSpec {
        name: n.to_string(),
        // However long its phases take now, it computes between them; a little, if others leave it no time at all.
        compute_s: (job.period_s - job.phase_s).max(0.01 * job.period_s),
        io_bytes: job.phase_bytes,
        iterations: None,
        // Where in its period each is, nobody says: they are spread by the golden ratio, which lines none of them up.
        start_s: (n as f64 * 0.618_033_988_749_895).fract() * job.period_s,
        jitter: 0.05,
    };
    let workload = Workload {
        bandwidth_bps,
        frame_s: [longest_s, 9.0 * longest_s],
        jobs: jobs.iter().enumerate().map(spec).collect(),
    };
    let slowdown = |knowledge| {
        let contender = Contender { policy, knowledge };
        let outcomes =
            (0..3).map(|seed| simulate(&workload, &contender, &IoSettings::ideal(), seed).ok()?.io_slowdown);
        let slowdowns: Option<Vec<f64>> = outcomes.collect();
        slowdowns.map(|all| all.iter().sum::<f64>() / all.len() as f64)
    };
    Some(Effect {
        quantity: Quantity::IoTime,
        without: slowdown(Knowledge::GivenOfFirst(n_known))?,
        with: slowdown(Knowledge::Given)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_sched::UnknownJobs;

    const SET10: Policy = Policy::Set10(UnknownJobs::Together);

    /// A job with short phases beside others with long ones, which together fill the storage by two thirds.
    fn mixed() -> Vec<MeasuredJob> {
        let job = |period_s: f64, phase_bytes: f64| MeasuredJob {
            period_s,
            phase_s: phase_bytes / 1e8,
            phase_bytes,
        };
        vec![job(5.0, 5e7), job(60.0, 1.2e9), job(60.0, 1.2e9), job(60.0, 1.2e9)]
    }

    #[test]
    fn a_short_job_among_long_ones_gains_by_being_known() {
        let effect = foresee_periods(&mixed(), 0, 1e8, SET10).unwrap();
        assert!(effect.change() < -0.2, "{effect:?}");
        assert!(effect.with >= 1.0, "{effect:?}");
    }

    #[test]
    fn one_job_and_jobs_that_are_known_gain_nothing() {
        let alone = foresee_periods(&mixed()[..1], 0, 1e8, SET10).unwrap();
        assert!(alone.change().abs() < 1e-9, "{alone:?}");
        let known = foresee_periods(&mixed(), 4, 1e8, SET10).unwrap();
        assert_eq!(known.change(), 0.0);
        let unscheduled = foresee_periods(&mixed(), 0, 1e8, Policy::Unscheduled).unwrap();
        assert_eq!(unscheduled.change(), 0.0, "who heeds no periods gains nothing by them");
    }

    #[test]
    fn what_makes_no_sense_is_not_foreseen() {
        let broken = MeasuredJob { period_s: f64::NAN, ..mixed()[0] };
        for (jobs, bandwidth_bps) in
            [(vec![], 1e8), (vec![broken], 1e8), (mixed(), 0.0), (mixed(), f64::INFINITY)]
        {
            assert_eq!(foresee_periods(&jobs, 0, bandwidth_bps, SET10), None);
        }
    }
}
