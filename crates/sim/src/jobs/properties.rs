//! Laws that hold for every policy, over random workloads.

use std::collections::BTreeMap;

use iotide_sched::jobs::{BatchJob, IoNodes, JobKind, JobPolicy, PolicyKnobs, ResizeCost, Speedup};
use proptest::prelude::*;

use super::*;

/// Features that a random workload may have.
#[derive(Clone, Copy)]
struct Spice {
    priorities: i64,
    failures: usize,
    cancels: bool,
    kinds: &'static [JobKind],
    has_storage: bool,
}

const ALL_KINDS: &[JobKind] = &[JobKind::Rigid, JobKind::Moldable, JobKind::Malleable, JobKind::Evolving];
const WITHOUT_EVOLVING: &[JobKind] =
    &[JobKind::Rigid, JobKind::Moldable, JobKind::Malleable, JobKind::Malleable];
const EVERYTHING: Spice =
    Spice { priorities: 3, failures: 4, cancels: true, kinds: ALL_KINDS, has_storage: false };
const QUIET: Spice =
    Spice { priorities: 1, failures: 0, cancels: false, kinds: WITHOUT_EVOLVING, has_storage: false };

fn jobs(nodes: u32, spice: Spice) -> impl Strategy<Value = SubmittedJob> {
    let times = (0..600i64, prop_oneof![Just(0.0), 1.0..300.0f64, 1.0..300.0f64], 0.5..3.0f64, 0.5..2.0f64);
    let sizes = (1..=nodes + 1, 0..4u32, 0..3u32, 0..spice.kinds.len(), 0..spice.priorities);
    let rest = (
        prop_oneof![Just(0.0), 0.0..0.5f64],
        prop::option::weighted(0.15, 0..900i64),
        any::<bool>(),
        prop::option::weighted(0.7, (1.0..4000.0f64, 1..5u32)),
        prop::collection::vec((0.0..0.99f64, 1..=nodes), 0..3),
    );
    (times, sizes, rest).prop_map(move |(times, sizes, rest)| {
        let (submit_s, runtime_s, limit, recorded) = times;
        let (wanted, less, more, kind, priority) = sizes;
        let (serial, cancel_s, has_limit, io, mut requests) = rest;
        let cancel_s = cancel_s.filter(|_| spice.cancels);
        let mut job = SubmittedJob::rigid(JobLabel::Number(0), submit_s as f64, wanted, runtime_s);
        let batch = &mut job.batch;
        batch.kind = spice.kinds[kind];
        if batch.kind != JobKind::Rigid {
            batch.nodes_min = (wanted >> less).max(1);
            batch.nodes_max = wanted << more;
        }
        batch.priority = priority;
        batch.speedup = Speedup::SerialFraction(serial);
        batch.recorded_ms = batch.runtime_ms * recorded;
        batch.io_bytes = io.map(|(bytes, _)| bytes);
        if has_limit {
            batch.walltime_ms = batch.runtime_ms * limit;
        }
        requests.sort_by(|a, b| a.0.total_cmp(&b.0));
        job.has_limit = has_limit;
        job.io_phases = io.map_or(1, |(_, phases)| phases);
        job.cancel_ms = cancel_s.map(|cancel_s| cancel_s * 1000);
        job.requests = requests;
        job
    })
}

fn workloads(spice: Spice) -> impl Strategy<Value = JobsWorkload> {
    (4..24u32).prop_flat_map(move |nodes| {
        let failures = prop::collection::vec((0..nodes, 0..1500i64, 0..300i64), 0..=spice.failures);
        let cost = prop_oneof![Just((0.0, 0.0)), (0.0..20e3f64, 0.0..500.0f64)];
        (prop::collection::vec(jobs(nodes, spice), 1..24), failures, cost).prop_map(
            move |(mut jobs, failures, cost)| {
                for (i, job) in jobs.iter_mut().enumerate() {
                    job.id = JobLabel::Number(i as u64);
                }
                let failure = |(node, at_s, repair_s): (u32, i64, i64)| NodeFailure {
                    node,
                    at_ms: at_s * 1000,
                    repair_ms: repair_s * 1000,
                };
                JobsWorkload {
                    nodes,
                    cost: ResizeCost { fixed_ms: cost.0, per_node_ms: cost.1 },
                    storage: spice.has_storage.then(|| SharedStorage::beside(40.0, 8.0)),
                    failures: failures.into_iter().map(failure).collect(),
                    jobs,
                }
            },
        )
    })
}

fn run(workload: &JobsWorkload, policy: JobPolicy) -> (Vec<BatchJob>, Schedule) {
    run_jobs(workload, policy, &PolicyKnobs::default(), true)
}

/// Nobody has a node while another has it, and all time of all nodes is accounted for.
fn check_nodes(workload: &JobsWorkload, schedule: &Schedule) -> Result<(), TestCaseError> {
    let history = schedule.history.as_ref().unwrap();
    let mut by_node: BTreeMap<u32, Vec<(i64, i64)>> = BTreeMap::new();
    let mut held_ms = 0u128;
    for held in &history.held {
        for node in held.nodes.iter().flat_map(|range| range.0..range.1) {
            prop_assert!(node < workload.nodes);
            by_node.entry(node).or_default().push((held.from_ms, held.to_ms));
            held_ms += (held.to_ms - held.from_ms) as u128;
        }
    }
    for stretches in by_node.values_mut() {
        stretches.sort_unstable();
        prop_assert!(stretches.windows(2).all(|pair| pair[0].1 <= pair[1].0), "a node is held twice");
    }
    prop_assert_eq!(held_ms, schedule.busy_node_ms);
    let first_ms = workload.jobs.iter().map(|job| job.batch.submit_ms).min().unwrap();
    let ends = schedule.jobs.iter().filter_map(|fate| fate.end_ms);
    let last_ms = ends.chain(history.held.iter().map(|held| held.to_ms)).max().unwrap_or(first_ms);
    let all = u128::from(workload.nodes) * (last_ms - first_ms) as u128;
    let spent = schedule.busy_node_ms + schedule.idle_node_ms + schedule.down_node_ms + schedule.io_node_ms;
    prop_assert_eq!(spent, all);
    Ok(())
}

/// Sizes stay within their bounds, and a run does all its work, or as much as its limit allows.
fn check_work(workload: &JobsWorkload, jobs: &[BatchJob], schedule: &Schedule) -> Result<(), TestCaseError> {
    for (job, fate) in jobs.iter().zip(&schedule.jobs) {
        prop_assert!(fate.state != JobState::Stuck, "{fate:?}");
        let (Some(start_ms), Some(end_ms), Some(mut nodes)) = (fate.start_ms, fate.end_ms, fate.nodes) else {
            prop_assert!(matches!(fate.state, JobState::Cancelled | JobState::Rejected));
            continue;
        };
        prop_assert!(start_ms >= job.submit_ms && end_ms >= start_ms);
        let (mut done, mut since) = (0.0, start_ms as f64);
        let work = |nodes: u32, from: f64, to: f64| (to - from).max(0.0) / job.time_ms(nodes).max(1e-9);
        prop_assert!((job.nodes_min..=job.nodes_max).contains(&nodes));
        for resize in &fate.resizes {
            prop_assert_eq!(resize.from, nodes);
            prop_assert!((job.nodes_min..=job.nodes_max).contains(&resize.to) && resize.to != nodes);
            prop_assert!(job.kind == JobKind::Malleable || job.kind == JobKind::Evolving);
            let at = resize.at_ms as f64;
            done += work(nodes, since, at);
            since = since.max(at) + workload.cost.of(resize.to.abs_diff(nodes));
            nodes = resize.to;
        }
        done += work(nodes, since, end_ms as f64);
        let (due, slack) = (job.limit_share().min(1.0), 2.0 / job.time_ms(nodes).max(1e-9));
        match fate.state {
            JobState::Cancelled => {}
            // Only the pause of a resize takes time then.
            _ if job.runtime_ms == 0.0 => prop_assert!(start_ms == end_ms || !fate.resizes.is_empty()),
            _ => prop_assert!(done >= due - 1e-6 && done <= due + slack + 1e-6, "{done} of {due}: {fate:?}"),
        }
        prop_assert_eq!(fate.state == JobState::Timeout, due < 1.0 && fate.state != JobState::Cancelled);
    }
    Ok(())
}

fn is_careful(policy: JobPolicy) -> bool {
    policy == JobPolicy::Easy || policy.name().ends_with('+')
}

/// Whose heads have a reservation that never moves to a later time.
fn keeps_promises(policy: JobPolicy) -> bool {
    is_careful(policy) || matches!(policy, JobPolicy::EasyShortest | JobPolicy::Tide)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn no_node_is_held_twice_and_all_work_is_done(workload in workloads(EVERYTHING)) {
        for policy in JobPolicy::ALL {
            let (jobs, schedule) = run(&workload, policy);
            check_nodes(&workload, &schedule)?;
            check_work(&workload, &jobs, &schedule).map_err(|error| TestCaseError::fail(format!("{}: {error}", policy.name())))?;
            prop_assert_eq!(run(&workload, policy).1, schedule, "the same input, the same schedule");
        }
    }

    #[test]
    fn nodes_are_accounted_for_where_jobs_share_a_storage(workload in workloads(Spice { has_storage: true, ..EVERYTHING })) {
        for policy in JobPolicy::ALL {
            let (jobs, schedule) = run(&workload, policy);
            check_nodes(&workload, &schedule)?;
            for (job, fate) in jobs.iter().zip(&schedule.jobs) {
                prop_assert!(fate.state != JobState::Stuck);
                if let (JobState::Completed, Some(start_ms), Some(end_ms)) = (fate.state, fate.start_ms, fate.end_ms) {
                    // Contention only ever adds, and nobody is faster than at the largest size.
                    let least_ms = job.time_ms(job.nodes_max.max(job.nodes)) - 2.0 - 1e-6 * job.runtime_ms;
                    prop_assert!((end_ms - start_ms) as f64 >= least_ms, "{fate:?} {job:?}");
                }
            }
            prop_assert!(schedule.io_slowdown.is_none_or(|slowdown| slowdown >= 1.0 - 1e-6));
        }
    }

    #[test]
    fn nodes_that_serve_the_storage_are_nobody_elses(
        workload in workloads(Spice { has_storage: true, failures: 0, ..EVERYTHING }),
        (usual, less, more) in (1..3u32, 0..2u32, 0..4u32),
        mistaken in 0.0..1.0f64,
    ) {
        let bandwidths = vec![(1, 20.0), (3, 60.0)];
        let (min, max) = (usual.saturating_sub(less).max(1), (usual + more).min(workload.nodes - 1));
        let io_nodes = IoNodes { now: usual, usual, min, max, bandwidths };
        let bandwidth_bps = io_nodes.bandwidth_bps(usual);
        let storage = SharedStorage { io_nodes: Some(io_nodes), ..SharedStorage::beside(bandwidth_bps, 8.0) };
        let mut workload = JobsWorkload { storage: Some(storage), ..workload };
        workload.mistake(&Mistakes { runs: mistaken, user: mistaken, ..Mistakes::default() }, 1);
        for policy in JobPolicy::ALL {
            let (_, schedule) = run(&workload, policy);
            check_nodes(&workload, &schedule)?;
            prop_assert!(schedule.jobs.iter().all(|fate| fate.state != JobState::Stuck), "{}", policy.name());
            let resizes = &schedule.storage_resizes;
            prop_assert!(policy == JobPolicy::IoBalance || resizes.is_empty());
            let mut now = usual;
            for resize in resizes {
                prop_assert_eq!(resize.from, now);
                prop_assert!((min..=max).contains(&resize.to), "{resize:?} of {min} to {max}");
                now = resize.to;
            }
        }
    }

    #[test]
    fn a_head_keeps_its_reservation(workload in workloads(QUIET)) {
        let free_of_charge = JobsWorkload { cost: ResizeCost::default(), ..workload.clone() };
        for policy in JobPolicy::ALL.into_iter().filter(|&policy| keeps_promises(policy)) {
            // Pauses are not foreseen by our own.
            let workload = if policy == JobPolicy::Tide { &free_of_charge } else { &workload };
            let jobs = cut_to_machine(workload);
            let mut simulation = Simulation::new(workload, &jobs, policy, PolicyKnobs::default(), false);
            simulation.promises = Some(Vec::new());
            let promises = simulation.run_and_keep_promises();
            for pair in promises.windows(2).filter(|pair| pair[0].0 == pair[1].0) {
                prop_assert!(pair[1].1 <= pair[0].1, "{}: {pair:?}", policy.name());
            }
        }
    }

    #[test]
    fn nobody_is_shrunk_below_preference_but_for_higher_priority(workload in workloads(Spice { failures: 0, kinds: WITHOUT_EVOLVING, ..EVERYTHING })) {
        for policy in JobPolicy::ALL.into_iter().filter(|&policy| is_careful(policy)) {
            let (jobs, schedule) = run(&workload, policy);
            for (job, fate) in jobs.iter().zip(&schedule.jobs) {
                for resize in fate.resizes.iter().filter(|resize| resize.to < resize.from && resize.to < job.nodes) {
                    let has_reason = jobs.iter().zip(&schedule.jobs).any(|(other, fate)| {
                        other.priority > job.priority && fate.start_ms == Some(resize.at_ms)
                    });
                    prop_assert!(has_reason, "{}: {job:?} {fate:?}", policy.name());
                }
            }
        }
    }

    #[test]
    fn without_malleable_jobs_the_corrected_policies_are_easy(workload in workloads(Spice { kinds: &[JobKind::Rigid], ..EVERYTHING })) {
        let easy = run(&workload, JobPolicy::Easy).1;
        for policy in JobPolicy::ALL.into_iter().filter(|&policy| is_careful(policy)) {
            prop_assert_eq!(&run(&workload, policy).1, &easy, "{}", policy.name());
        }
        prop_assert_eq!(run(&workload, JobPolicy::Tide).1, run(&workload, JobPolicy::EasyShortest).1);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC*") {
        let _ = JobsWorkload::from_json(&text);
        let _ = IoTable::from_json(&text);
    }
}
