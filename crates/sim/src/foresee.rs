//! Estimated effect of a decision, before it is taken.

use std::collections::HashMap;

use iotide_sched::Policy;
use iotide_sched::act::{Effect, Quantity};
use iotide_sched::jobs::{JobPolicy, ListedJob, PolicyKnobs, ResizeCost, WantedResize};
use iotide_sched::staging::Policy as Staging;

use crate::jobs::{JobLabel, JobsWorkload, SubmittedJob, run_jobs};
use crate::staging::{Part, StagingSettings, StagingWorkload, run_staging};
use crate::workload::{JobSpec, Workload};
use crate::{Contender, IoSettings, Knowledge, simulate};

/// A job as it is measured now, beside others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredJob {
    /// How far apart its I/O phases are.
    pub period_s: f64,
    /// How long a phase lasts now.
    pub phase_s: f64,
    /// Bytes it moves.
    pub phase_bytes: f64,
}

/// Estimated effect of a decision on jobs that share a storage.
#[derive(Clone, Debug, PartialEq)]
pub struct Foreseen {
    /// The geometric mean of their I/O slowdowns.
    pub effect: Effect,
    /// By which share of its time each job would be slower, in the order in which they were given; less than 0 if it would be faster.
    pub time_lost: Vec<f64>,
}

/// How jobs would share a storage if a policy knew the periods of all of them rather than of the first `n_known`. `None` if that cannot be told.
pub fn foresee_periods(
    jobs: &[MeasuredJob],
    n_known: usize,
    bandwidth_bps: f64,
    policy: Policy,
) -> Option<Foreseen> {
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
    let run = |knowledge, seed| {
        simulate(&workload, &Contender { policy, knowledge }, &IoSettings::ideal(), seed).ok()
    };
    let (mut without, mut with) = (0.0, 0.0);
    let mut time_lost = vec![0.0; jobs.len()];
    for seed in 0..N_RUNS {
        let runs = [run(Knowledge::GivenOfFirst(n_known), seed)?, run(Knowledge::Given, seed)?];
        without += runs[0].io_slowdown? / N_RUNS as f64;
        with += runs[1].io_slowdown? / N_RUNS as f64;
        for (n, lost) in time_lost.iter_mut().enumerate() {
            // One that moves nothing in the simulated time cannot be slowed down.
            if let [Some(before), Some(after)] = runs.each_ref().map(|run| run.jobs.get(n)?.stretch) {
                *lost += (after / before - 1.0) / N_RUNS as f64;
            }
        }
    }
    Some(Foreseen { effect: Effect { quantity: Quantity::IoTime, without, with }, time_lost })
}

/// How often jobs are simulated: each time they compute a little longer or shorter.
const N_RUNS: u64 = 3;

/// How long after its end all that a job wrote would be safe if it were staged out in the gaps between its phases, rather than after its end; the job's run time, if that would become
/// longer. It is taken to have `n_phases` more of them. `None` if that cannot be told.
pub fn foresee_staging(job: &MeasuredJob, n_phases: u64, destination_bps: f64) -> Option<Effect> {
    let figures = [job.period_s, job.phase_s, job.phase_bytes, destination_bps];
    if n_phases == 0 || !figures.iter().all(|figure| figure.is_finite() && *figure > 0.0) {
        return None;
    }
    let part = Part {
        compute_s: (job.period_s - job.phase_s).max(0.0),
        phase_bytes: job.phase_bytes,
        phases: n_phases.min(MOST_PHASES),
    };
    let workload = StagingWorkload {
        parts: vec![part],
        jitter: 0.05,
        buffer_bps: job.phase_bytes / job.phase_s,
        pfs_bps: destination_bps,
        capacity_bytes: None,
        is_purged: false,
        ..StagingWorkload::example()
    };
    let [gap, end] =
        [Staging::Gap, Staging::End].map(|policy| run_staging(&workload, &StagingSettings::new(policy)));
    let (gap, end) = (gap?, end?);
    let (longer_s, alone_s) = (gap.run_time_s?, end.run_time_s?);
    if longer_s > alone_s * 1.01 {
        return Some(Effect { quantity: Quantity::RunTime, without: alone_s, with: longer_s });
    }
    Some(Effect {
        quantity: Quantity::UntilSafe,
        without: end.safe_after_end_s?,
        with: gap.safe_after_end_s?,
    })
}

/// A job that has written so often may write on for as long as it likes: more than this is not tried.
const MOST_PHASES: u64 = 1000;

/// Returns the estimated effect of changes of size, taken together. If jobs wait for them: the time until those start, or the mean time
/// until all running and waiting jobs have ended if that would become longer. Otherwise the time until the first of the jobs itself ends.
/// Running jobs are assumed to need the rest of their limit. `None` if the effect cannot be estimated.
pub fn foresee_resize(
    listed: &[ListedJob],
    free: u32,
    resizes: &[WantedResize],
    cost: ResizeCost,
) -> Option<Effect> {
    let left_s = |job: &ListedJob| (job.limit_s - job.elapsed_s.unwrap_or(0.0)).max(1.0);
    let of_resize = |resize: &WantedResize| {
        let job = listed.iter().find(|job| job.id == resize.id)?;
        let with_s = left_s(job) * job.time_ratio(resize.from, resize.to)? + cost.fixed_ms / 1e3;
        Some((job.id.as_str(), (resize.to, left_s(job), with_s)))
    };
    let resized: HashMap<&str, (u32, f64, f64)> = resizes.iter().map(of_resize).collect::<Option<_>>()?;
    let first = resizes.first()?;
    if first.starts.is_empty() {
        let (_, without, with) = *resized.get(first.id.as_str())?;
        return Some(Effect { quantity: Quantity::RunTime, without, with });
    }
    let held: u32 = listed.iter().filter(|job| job.elapsed_s.is_some()).map(|job| job.nodes).sum();
    let nodes = free.saturating_add(held);
    let submitted = |is_resized: bool| {
        let one = |(n, job): (usize, &ListedJob)| {
            let is_running = job.elapsed_s.is_some();
            let changed = resized.get(job.id.as_str()).filter(|_| is_resized);
            let (nodes, runtime_s) =
                changed.map_or((job.nodes, left_s(job)), |&(nodes, _, with_s)| (nodes, with_s));
            let mut submitted = SubmittedJob::rigid(
                JobLabel::Number(n as u64),
                if is_running { 0.0 } else { 0.001 },
                nodes,
                runtime_s,
            );
            submitted.batch.priority = if is_running { i64::MAX } else { job.priority };
            submitted
        };
        listed.iter().enumerate().map(one).collect()
    };
    let of = |is_resized: bool| {
        let workload =
            JobsWorkload { nodes, cost, storage: None, failures: Vec::new(), jobs: submitted(is_resized) };
        let (_, schedule) = run_jobs(&workload, JobPolicy::Easy, &PolicyKnobs::default(), false);
        let seconds = |ms: i64| ms as f64 / 1e3;
        let mut waits_s = Vec::new();
        let mut ends_s = Vec::new();
        for (job, fate) in listed.iter().zip(&schedule.jobs) {
            ends_s.extend(fate.end_ms.map(seconds));
            if first.starts.contains(&job.id) {
                waits_s.push(seconds(fate.start_ms?));
            }
        }
        let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len().max(1) as f64;
        Some((mean(&waits_s), mean(&ends_s)))
    };
    let ((wait_s, end_s), (resized_wait_s, resized_end_s)) = (of(false)?, of(true)?);
    if resized_end_s > end_s {
        return Some(Effect { quantity: Quantity::Turnaround, without: end_s, with: resized_end_s });
    }
    Some(Effect { quantity: Quantity::Wait, without: wait_s, with: resized_wait_s })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_sched::UnknownJobs;
    use iotide_sched::jobs::MalleableMark;

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
        let effect = foresee_periods(&mixed(), 0, 1e8, SET10).unwrap().effect;
        assert!(effect.change() < -0.2, "{effect:?}");
        assert!(effect.with >= 1.0, "{effect:?}");
    }

    #[test]
    fn what_a_short_job_gains_costs_each_of_the_others_some_of_its_time() {
        // The sooner it is through, the sooner it is back: it takes more of the storage than before.
        let lost = foresee_periods(&mixed(), 0, 1e8, SET10).unwrap().time_lost;
        assert!(lost[0] < -0.3, "{lost:?}");
        assert!(lost[1..].iter().all(|lost| (0.02..0.03).contains(lost)), "{lost:?}");
        // One that moves a fifth as much costs them a fifth as much.
        let mut jobs = mixed();
        (jobs[0].phase_s, jobs[0].phase_bytes) = (0.1, 1e7);
        let lost = foresee_periods(&jobs, 0, 1e8, SET10).unwrap().time_lost;
        assert!(lost[1..].iter().all(|lost| (0.002..0.006).contains(lost)), "{lost:?}");
    }

    #[test]
    fn one_job_and_jobs_that_are_known_gain_nothing() {
        let alone = foresee_periods(&mixed()[..1], 0, 1e8, SET10).unwrap().effect;
        assert!(alone.change().abs() < 1e-9, "{alone:?}");
        let known = foresee_periods(&mixed(), 4, 1e8, SET10).unwrap();
        assert_eq!((known.effect.change(), known.time_lost), (0.0, vec![0.0; 4]));
        let unscheduled = foresee_periods(&mixed(), 0, 1e8, Policy::Unscheduled).unwrap();
        assert_eq!(
            (unscheduled.effect.change(), unscheduled.time_lost),
            (0.0, vec![0.0; 4]),
            "who heeds no periods gains nothing by them"
        );
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

    #[test]
    fn what_is_staged_in_gaps_is_safe_soon_after_the_end() {
        // 90 s of computing, 10 s at 2 GB/s; the file system behind takes a phase in 40 s.
        let job = MeasuredJob { period_s: 100.0, phase_s: 10.0, phase_bytes: 20e9 };
        let effect = foresee_staging(&job, 10, 0.5e9).unwrap();
        assert_eq!(effect.quantity, Quantity::UntilSafe);
        assert!((effect.without - 400.0).abs() < 2.0, "ten phases after the end: {effect:?}");
        assert!(effect.with < 50.0, "the last phase after the end: {effect:?}");
        // The first phases pass before there are predictions, and so does the only one.
        let once = foresee_staging(&job, 1, 0.5e9).unwrap();
        assert!(once.change() > -0.05, "{once:?}");
        for broken in [
            foresee_staging(&job, 0, 1e9),
            foresee_staging(&job, 5, 0.0),
            foresee_staging(&MeasuredJob { phase_s: f64::NAN, ..job }, 5, 1e9),
        ] {
            assert_eq!(broken, None);
        }
    }

    fn listed(id: &str, nodes: u32, elapsed_s: Option<f64>, mark: Option<&str>) -> ListedJob {
        ListedJob {
            id: id.to_owned(),
            nodes,
            elapsed_s,
            limit_s: 1000.0,
            submit_s: 0.0,
            priority: 1,
            mark: mark.map(|mark| MalleableMark::parse(mark).unwrap().unwrap()),
            is_busy: false,
            times: Vec::new(),
        }
    }

    fn resize(from: u32, to: u32, starts: &[&str]) -> [WantedResize; 1] {
        let starts = starts.iter().map(|&id| id.to_owned()).collect();
        [WantedResize { id: "a".to_owned(), from, to, starts }]
    }

    #[test]
    fn who_gives_nodes_to_one_that_waits_ends_later_and_the_other_starts_at_once() {
        let cost = ResizeCost { fixed_ms: 5e3, per_node_ms: 0.0 };
        let marked = listed("a", 4, Some(100.0), Some("iotide:min=1,max=4,serial=0"));
        let short = ListedJob { limit_s: 300.0, ..listed("b", 2, None, None) };
        let effect = foresee_resize(&[marked.clone(), short], 0, &resize(4, 2, &["b"]), cost).unwrap();
        assert_eq!(effect.quantity, Quantity::Turnaround, "900 s become 1805, 1200 become 300: {effect:?}");
        assert!((effect.without - 1050.0).abs() < 0.01 && (effect.with - 1052.5).abs() < 0.01, "{effect:?}");
        let late = ListedJob { elapsed_s: Some(600.0), ..marked.clone() };
        let short = ListedJob { limit_s: 30.0, ..listed("b", 2, None, None) };
        let effect = foresee_resize(&[late, short], 0, &resize(4, 3, &["b"]), cost);
        assert_eq!(effect.unwrap().quantity, Quantity::Turnaround, "b needs two nodes");
        // Who gains little from its nodes gives them away for little.
        let flat = listed("a", 4, Some(100.0), Some("iotide:min=1,max=4,serial=0.9"));
        let short = ListedJob { limit_s: 30.0, ..listed("b", 2, None, None) };
        let effect = foresee_resize(&[flat, short], 0, &resize(4, 2, &["b"]), cost).unwrap();
        assert_eq!(effect.quantity, Quantity::Wait);
        assert!(effect.without > 899.0 && effect.with < 0.01, "{effect:?}");
    }

    #[test]
    fn who_grows_ends_sooner_as_far_as_it_scales() {
        let cost = ResizeCost { fixed_ms: 5e3, per_node_ms: 0.0 };
        let linear = listed("a", 2, Some(100.0), Some("iotide:min=1,max=4,serial=0"));
        let effect = foresee_resize(&[linear], 2, &resize(2, 4, &[]), cost).unwrap();
        assert_eq!((effect.quantity, effect.without, effect.with), (Quantity::RunTime, 900.0, 455.0));
        let serial = listed("a", 2, Some(100.0), Some("iotide:min=1,max=4,serial=1"));
        assert!(foresee_resize(&[serial], 2, &resize(2, 4, &[]), cost).unwrap().change() > 0.0);
        let strange = listed("b", 2, Some(100.0), None);
        assert_eq!(foresee_resize(&[strange], 2, &resize(2, 4, &[]), cost), None);
    }
}
