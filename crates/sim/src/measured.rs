//! How jobs fared that really ran beside each other, by the definitions that the simulator goes by.

use iotide_analysis::Phase;

use crate::metrics::{Effort, JobOutcome, Outcome};

/// A job that ran.
#[derive(Clone, Debug, PartialEq)]
pub struct RealJob {
    /// Its name.
    pub name: String,
    /// When it began and ended, on the clock of all jobs.
    pub there_s: [f64; 2],
    /// Its I/O phases, in order of time, apart from each other.
    pub phases: Vec<Phase>,
}

/// Pauses that are shorter than this share of the usual one lie within a phase.
const HOLE: f64 = 0.1;

/// Joins requests to phases: what is apart by much less than the usual pause is one phase.
///
/// The usual pause is the one that half of the time without I/O lies in: very many short pauses between the requests of a phase do not count for more than
/// the time they take.
pub fn phases_of(mut requests: Vec<Phase>) -> Vec<Phase> {
    requests.sort_unstable_by(|a, b| a.start_s.total_cmp(&b.start_s));
    let busy = joined(&requests, 0.0);
    let mut pauses_s: Vec<f64> = busy.windows(2).map(|pair| pair[1].start_s - pair[0].end_s).collect();
    pauses_s.sort_unstable_by(f64::total_cmp);
    let half_s = pauses_s.iter().sum::<f64>() / 2.0;
    let mut sum_s = 0.0;
    let usual_s = pauses_s.into_iter().find(|pause_s| {
        sum_s += pause_s;
        sum_s >= half_s
    });
    joined(&busy, HOLE * usual_s.unwrap_or(0.0))
}

fn joined(phases: &[Phase], longest_hole_s: f64) -> Vec<Phase> {
    let mut joined: Vec<Phase> = Vec::new();
    for phase in phases {
        match joined.last_mut() {
            Some(last) if phase.start_s - last.end_s <= longest_hole_s => {
                last.end_s = last.end_s.max(phase.end_s);
                last.bytes += phase.bytes;
            }
            _ => joined.push(*phase),
        }
    }
    joined
}

/// Returns the time in which all jobs were there; if there is none, the time from the first beginning to the last end. `None` without a job.
pub fn common_frame_s(jobs: &[RealJob]) -> Option<[f64; 2]> {
    let over = |end: usize, pick: fn(f64, f64) -> f64| jobs.iter().map(|job| job.there_s[end]).reduce(pick);
    let all_there = [over(0, f64::max)?, over(1, f64::min)?];
    let any_there = [over(0, f64::min)?, over(1, f64::max)?];
    let frame_s = if all_there[0] < all_there[1] { all_there } else { any_there };
    (frame_s[0] < frame_s[1]).then_some(frame_s)
}

/// Returns the median bandwidth of the phases during which no other job of the same run had one, over all runs.
pub fn bandwidth_alone_bps<'a>(runs: impl IntoIterator<Item = &'a [RealJob]>) -> Option<f64> {
    let mut alone_bps = Vec::new();
    for jobs in runs {
        // Each job's phases are in order: what is apart from those of all others is found in one pass over all of them.
        let mut all: Vec<(usize, Phase)> = (jobs.iter().enumerate())
            .flat_map(|(job, of_job)| of_job.phases.iter().map(move |phase| (job, *phase)))
            .collect();
        all.sort_unstable_by(|a, b| a.1.start_s.total_cmp(&b.1.start_s).then(a.0.cmp(&b.0)));
        let mut is_shared = vec![false; all.len()];
        // Of each job one at most.
        let mut open: Vec<usize> = Vec::new();
        for i in 0..all.len() {
            open.retain(|&earlier| all[earlier].1.end_s > all[i].1.start_s);
            for &earlier in open.iter().filter(|&&earlier| all[earlier].0 != all[i].0) {
                (is_shared[earlier], is_shared[i]) = (true, true);
            }
            open.push(i);
        }
        let rate = |phase: &Phase| phase.bytes / (phase.end_s - phase.start_s);
        alone_bps.extend(
            (all.iter().zip(is_shared))
                .filter(|((_, phase), is_shared)| {
                    !is_shared && phase.bytes > 0.0 && phase.end_s > phase.start_s
                })
                .map(|((_, phase), _)| rate(phase)),
        );
    }
    iotide_num::median(&alone_bps)
}

/// Returns how jobs fared in a frame of time, where `bandwidth_bps` is what a job has when it is alone.
///
/// Phases that reach over an end of the frame count for the part inside.
pub fn measure(jobs: &[RealJob], frame_s: [f64; 2], bandwidth_bps: f64) -> Outcome {
    let outcomes = jobs.iter().map(|job| {
        let mut effort = Effort::default();
        let mut computes_from_s = job.there_s[0];
        for phase in &job.phases {
            effort.computes(frame_s, computes_from_s, phase.start_s);
            effort.moves(frame_s, phase.start_s, phase.end_s, phase.bytes);
            if phase.end_s > frame_s[0] && phase.start_s < frame_s[1] {
                effort.begins_phase(phase.start_s);
            }
            computes_from_s = phase.end_s;
        }
        effort.computes(frame_s, computes_from_s, job.there_s[1]);
        effort.outcome(job.name.clone(), frame_s, job.there_s, bandwidth_bps)
    });
    let outcomes: Vec<JobOutcome> = outcomes.collect();
    let n_phases = outcomes.iter().map(|job| job.n_phases).sum();
    Outcome { n_phases, ..Outcome::of(outcomes, frame_s) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(start_s: f64, end_s: f64, bytes: f64) -> Phase {
        Phase { start_s, end_s, bytes }
    }

    fn job(there_s: [f64; 2], phases: &[Phase]) -> RealJob {
        RealJob { name: "job".to_owned(), there_s, phases: phases.to_vec() }
    }

    #[test]
    fn a_job_alone_is_not_stretched() {
        let phases: Vec<Phase> =
            (0..10).map(|n| f64::from(n) * 10.0).map(|at_s| phase(at_s + 8.0, at_s + 10.0, 200.0)).collect();
        let outcome = measure(&[job([0.0, 100.0], &phases)], [20.0, 80.0], 100.0);
        for value in [outcome.max_stretch, outcome.geomean_stretch, outcome.io_slowdown] {
            assert!((value.unwrap() - 1.0).abs() < 1e-9, "{outcome:?}");
        }
        assert!((outcome.utilization - 0.8).abs() < 1e-9);
        assert_eq!((outcome.n_phases, outcome.jobs[0].w_iter_s), (6, Some(10.0)));
    }

    #[test]
    fn phases_over_the_edge_count_for_the_part_inside() {
        // Computes 0–8, I/O 8–12 at half the bandwidth; the frame cuts the phase in the middle.
        let outcome = measure(&[job([0.0, 12.0], &[phase(8.0, 12.0, 200.0)])], [0.0, 10.0], 100.0);
        assert!((outcome.io_slowdown.unwrap() - 2.0).abs() < 1e-9);
        assert!((outcome.max_stretch.unwrap() - 10.0 / 9.0).abs() < 1e-9);
    }

    #[test]
    fn only_phases_that_nobody_shared_tell_the_bandwidth() {
        let run = [
            job([0.0, 9.0], &[phase(0.0, 1.0, 100.0), phase(5.0, 7.0, 100.0)]),
            job([0.0, 9.0], &[phase(6.0, 8.0, 100.0)]),
        ];
        assert_eq!(bandwidth_alone_bps([&run[..]]), Some(100.0));
        assert_eq!(bandwidth_alone_bps([]), None);
        // A long phase is shared by what begins long before its end, whatever comes in between.
        let long = [
            job([0.0, 99.0], &[phase(0.0, 50.0, 100.0)]),
            job([0.0, 99.0], &[phase(1.0, 2.0, 9.0), phase(40.0, 41.0, 9.0), phase(60.0, 62.0, 9.0)]),
        ];
        assert_eq!(bandwidth_alone_bps([&long[..]]), Some(4.5));
    }

    #[test]
    fn requests_of_a_phase_are_joined_and_phases_are_not() {
        let mut requests = Vec::new();
        for step in 0..5 {
            // A thousand requests with as many pauses of a millisecond, and a minute of work.
            requests.extend((0..1000).map(|i| {
                let at_s = 60.0 * f64::from(step) + 0.002 * f64::from(i);
                phase(at_s, at_s + 0.001, 1.0)
            }));
        }
        requests.reverse();
        let phases = phases_of(requests);
        assert_eq!(phases.len(), 5, "{phases:?}");
        assert!(phases.iter().all(|phase| phase.bytes == 1000.0));
        assert_eq!(phases_of(vec![phase(0.0, 2.0, 1.0), phase(1.0, 3.0, 1.0)]), [phase(0.0, 3.0, 2.0)]);
        assert_eq!(phases_of(Vec::new()), []);
    }

    #[test]
    fn the_frame_is_where_all_jobs_are_there() {
        let at = |from_s, to_s| job([from_s, to_s], &[]);
        assert_eq!(common_frame_s(&[at(0.0, 10.0), at(4.0, 12.0)]), Some([4.0, 10.0]));
        assert_eq!(common_frame_s(&[at(0.0, 3.0), at(4.0, 12.0)]), Some([0.0, 12.0]));
        assert_eq!(common_frame_s(&[]), None);
        assert_eq!(common_frame_s(&[at(3.0, 3.0)]), None);
    }
}
