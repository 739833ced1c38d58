//! How long jobs that run think between requests and compute between phases: what is left of the time that was seen once the storage has had its part, which is found by
//! trying. Closed forms would do for requests without end on storage without limits for one stream; a few short runs of the net do for all, and agree with what is simulated afterwards.

use super::description::{Jobs, System};
use super::mva::{alone, busiest};
use super::running::RunningJob;
use super::{Settings, simulate_in_grains};

/// The first runs each correct all of the error that the one before had; those after them correct a half, a third and so on, so that their chances cancel out.
const WHOLE_STEPS: u32 = 5;
const STEPS: u32 = 12;
/// Tokens of a run: in all, of each job, and of each process.
const TOKENS: f64 = 20_000.0;
const TOKENS_A_JOB: f64 = 500.0;
const TOKENS_A_PROCESS: f64 = 30.0;
/// With more than this nothing is tried. So many jobs or processes wait for a small part of the time between their requests only, unless the storage is full, and then it decides.
const MOST_TOKENS: f64 = 200_000.0;
/// Of all runs of a search together, which ends there with what was found: a few tenths of a second.
const MOST_EVENTS: u64 = 3_000_000;
/// No more is tried when what a run would correct is less than this share of the time between requests or phases.
const CLOSE: f64 = 0.003;
/// The part of a run in which queues fill.
const WARM_UP: f64 = 0.2;
/// The same of jobs with phases. Whether phases meet is a matter of chance for a whole run, so that many runs say more than long ones.
const TOKENS_OF_PHASES: f64 = 20_000.0;
const STEPS_OF_PHASES: u32 = 24;
const WHOLE_STEPS_OF_PHASES: u32 = 3;

/// How much of an error is corrected.
fn gain(step: u32, whole_steps: u32) -> f64 {
    1.0 / f64::from(step.saturating_sub(whole_steps) + 1)
}

/// Has jobs without phases think as long as lets them move what they move now, beside all jobs that move something now. `jobs` are those of the system, in its order.
///
/// A job that is in a phase now takes part at the rate it has now: when the phase is over, others have more.
pub(super) fn fit_thinking(system: &mut System, jobs: &[&RunningJob]) {
    let is_steady = |index: &usize| system.templates[*index].requests.is_none();
    let moving: Vec<usize> = (0..jobs.len()).filter(|index| jobs[*index].moves_now()).collect();
    if !moving.iter().any(is_steady) {
        return;
    }
    let mut now = System { templates: Vec::new(), jobs: Vec::new(), ..system.clone() };
    // From a request of a process to its next.
    let mut round_s = Vec::new();
    for (template, index) in moving.iter().enumerate() {
        let mut of_job = system.templates[*index].clone();
        of_job.processes = of_job.in_flight();
        (of_job.requests, of_job.compute_s, of_job.think_s) = (None, 0.0, 0.0);
        round_s.push(of_job.processes as f64 * of_job.request_bytes / jobs[*index].rate_bps);
        now.templates.push(of_job);
        now.jobs.push(Jobs { template, count: 1, start_s: 0.0, next_phase_s: None });
    }
    begin_below(&mut now, &round_s);
    let grains = set_frame(&mut now, &round_s);
    let mut events_left = MOST_EVENTS;
    for step in 0..STEPS {
        let Some(grains) = &grains else { break };
        let settings = Settings { grain: None, interval_s: None, most_events: Some(events_left) };
        let Ok(run) = simulate_in_grains(&now, &settings, grains, u64::from(step)) else { break };
        events_left = events_left.saturating_sub(run.n_events);
        let mut farthest = 0.0f64;
        for (index, template) in now.templates.iter_mut().enumerate() {
            // Little's law.
            let response_s = (run.frame.at_op[index] + run.frame.moving[index]) / run.frame.iops[index];
            if response_s.is_finite() {
                let missing_s = (round_s[index] - response_s).max(0.0) - template.think_s;
                template.think_s += gain(step, WHOLE_STEPS) * missing_s;
                farthest = farthest.max(missing_s.abs() / round_s[index]);
            }
        }
        if farthest < CLOSE {
            break;
        }
    }
    for (index, found) in moving.iter().zip(&now.templates) {
        if system.templates[*index].requests.is_none() {
            system.templates[*index].think_s = found.think_s;
        }
    }
}

/// Has jobs think less than they do. The search goes upwards from there: on full storage many times would do, and of these the least are found, as jobs that fill a storage would use
/// more of it.
fn begin_below(now: &mut System, round_s: &[f64]) {
    let processes: Vec<f64> = now.templates.iter().map(|template| template.processes as f64).collect();
    let per_s: Vec<f64> = processes.iter().zip(round_s).map(|(n, round_s)| n / round_s).collect();
    let idle = (1.0 - busiest(now, &per_s)).max(0.0);
    // A request takes no longer than if all others were before it, nor than if requests came by chance.
    let most = processes.iter().sum::<f64>().min(1.0 / idle);
    for (index, round_s) in round_s.iter().enumerate() {
        now.templates[index].processes = 1;
        let least_s = alone(now, index).burst_s;
        now.templates[index].processes = processes[index] as u64;
        now.templates[index].think_s = (round_s - most * least_s).max(0.0);
    }
}

/// Sets how long is simulated so that the slowest job makes enough requests; gives grains with which the others do not make many more, or `None` where that is too much.
fn set_frame(system: &mut System, round_s: &[f64]) -> Option<Vec<u64>> {
    let of_job = TOKENS_A_JOB.max(TOKENS / round_s.len() as f64);
    let processes = || system.templates.iter().map(|template| template.processes as f64);
    let tokens: Vec<f64> = processes().map(|n| of_job.max(TOKENS_A_PROCESS * n)).collect();
    if tokens.iter().sum::<f64>() > MOST_TOKENS {
        return None;
    }
    let horizon_s = (processes().zip(round_s).zip(&tokens))
        .map(|((n, round_s), tokens)| tokens * round_s / n)
        .fold(0.0, f64::max);
    let grains = (processes().zip(round_s).zip(&tokens))
        .map(|((n, round_s), tokens)| {
            let grain = (n * horizon_s / round_s / tokens).clamp(1.0, 2f64.powi(40)) as u64;
            1 << grain.ilog2()
        })
        .collect();
    system.frame_s = [WARM_UP * horizon_s, horizon_s];
    Some(grains)
}

/// Has jobs with phases compute for what is left of their period beside a phase, which takes as long as it does beside the others.
pub(super) fn fit_computing(system: &mut System, jobs: &[&RunningJob]) {
    let periods: Vec<(usize, f64)> = (jobs.iter().enumerate())
        .filter_map(|(index, job)| Some((index, job.known_phases()?.period_s)))
        .collect();
    for (index, period_s) in &periods {
        system.templates[*index].compute_s = (period_s - alone(system, *index).burst_s).max(0.0);
    }
    // One alone is as it was.
    if periods.is_empty() || jobs.len() == 1 {
        return;
    }
    let mut events_left = MOST_EVENTS;
    for step in 0..STEPS_OF_PHASES {
        let grains = system.grains_within(TOKENS_OF_PHASES);
        let settings = Settings { grain: None, interval_s: None, most_events: Some(events_left) };
        let Ok(run) = simulate_in_grains(system, &settings, &grains, u64::from(step)) else { break };
        events_left = events_left.saturating_sub(run.n_events);
        let mut farthest = 0.0f64;
        for (index, period_s) in &periods {
            let burst_s = run.frame.burst_s[*index];
            if burst_s.is_finite() {
                let template = &mut system.templates[*index];
                let missing_s = (period_s - burst_s).max(0.0) - template.compute_s;
                template.compute_s += gain(step, WHOLE_STEPS_OF_PHASES) * missing_s;
                farthest = farthest.max(missing_s.abs() / period_s);
            }
        }
        if farthest < CLOSE {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::description::Target;
    use super::super::running::Phases;
    use super::*;
    use iotide_num::SplitMix64;

    const HORIZON_S: f64 = 600.0;

    /// A storage of 1 GB/s.
    fn target() -> Target {
        Target { servers: 1, bandwidth_bps: Some(1e9), ..Target::default() }
    }

    /// Returns the bytes that each moves in the next minutes, relative to `expected`.
    fn forecast(jobs: &[RunningJob], targets: &[Target], expected: &[f64], runs: u64) -> Vec<f64> {
        let (system, _) = System::of_running(jobs, targets.to_vec(), HORIZON_S);
        moved(&system, runs).iter().zip(expected).map(|(found, expected)| found / expected).collect()
    }

    fn moved(system: &System, n_runs: u64) -> Vec<f64> {
        let settings = Settings { grain: None, interval_s: None, most_events: None };
        let grains = system.grains_within(20_000.0);
        let runs: Vec<_> = (100..100 + n_runs)
            .map(|seed| simulate_in_grains(system, &settings, &grains, seed).unwrap())
            .collect();
        (0..system.templates.len())
            .map(|index| {
                runs.iter().map(|run| run.frame.bandwidth_bps[index]).sum::<f64>() / runs.len() as f64
            })
            .collect()
    }

    fn streams(processes: u64, request_bytes: f64, rate_bps: f64) -> RunningJob {
        RunningJob {
            name: "streams".to_owned(),
            processes,
            request_bytes: Some(request_bytes),
            rate_bps,
            phases: None,
        }
    }

    fn beats(processes: u64, period_s: f64, bytes: f64, next_in_s: f64) -> RunningJob {
        let phases = Some(Phases { period_s, bytes, next_in_s: Some(next_in_s) });
        RunningJob { phases, ..streams(processes, 4e6, 0.0) }
    }

    #[track_caller]
    fn assert_all_near_1(shares: &[f64], by: f64, what: &str) {
        let sum = shares.iter().sum::<f64>() / shares.len() as f64;
        assert!((sum - 1.0).abs() < by, "{what}: {shares:.3?}");
        assert!(shares.iter().all(|share| (share - 1.0).abs() < 2.0 * by), "{what}: {shares:.3?}");
    }

    #[test]
    fn jobs_that_go_on_as_they_are_move_what_they_move_now() {
        for load in [0.1, 0.3, 0.6, 0.85] {
            for (n_jobs, processes) in [(1, 4), (2, 1), (6, 2)] {
                let rate_bps = load * 1e9 / f64::from(n_jobs);
                let jobs = vec![streams(processes, 4e6, rate_bps); n_jobs as usize];
                let shares = forecast(&jobs, &[target()], &vec![rate_bps; jobs.len()], 2);
                assert_all_near_1(&shares, 0.02, &format!("{n_jobs} jobs of {processes} at {load}"));
            }
        }
    }

    #[test]
    fn so_do_different_jobs_on_any_storage() {
        let mut random = SplitMix64::new(7);
        for case in 0..12 {
            let load = [0.1, 0.3, 0.6, 0.85][case % 4];
            let n_jobs = 1 + (random.unit() * 6.0) as usize;
            let n_targets = 1 + (random.unit() * 3.0) as usize;
            let request_bytes = 10f64.powf(5.0 + 2.0 * random.unit());
            let stream_bps = (random.unit() < 0.5).then_some(4e8);
            let iops = (random.unit() < 0.5).then_some(3e9 / request_bytes);
            let target = Target { servers: 1 + (random.unit() * 4.0) as u32, iops, stream_bps, ..target() };
            let weights: Vec<f64> = (0..n_jobs).map(|_| 0.5 + random.unit()).collect();
            let whole_bps = load * 1e9 * n_targets as f64 / weights.iter().sum::<f64>();
            let rates: Vec<f64> = weights.iter().map(|weight| weight * whole_bps).collect();
            // Enough of them that the jobs can do it.
            let processes = 8 * n_targets as u64;
            let jobs: Vec<RunningJob> =
                rates.iter().map(|rate_bps| streams(processes, request_bytes, *rate_bps)).collect();
            let shares = forecast(&jobs, &vec![target; n_targets], &rates, 2);
            assert_all_near_1(&shares, 0.03, &format!("case {case}, {n_jobs} jobs at {load}"));
        }
    }

    #[test]
    fn jobs_with_phases_keep_their_period_beside_others() {
        for load in [0.1, 0.3, 0.6, 0.85] {
            for n_jobs in [1, 3] {
                let bytes = load * 20.0 * 1e9 / f64::from(n_jobs);
                // Some at once, some not.
                let next_in_s = |index: i32| 5.0 * f64::from(index % 2);
                let jobs: Vec<RunningJob> =
                    (0..n_jobs).map(|index| beats(4, 20.0, bytes, next_in_s(index))).collect();
                let shares = forecast(&jobs, &[target()], &vec![bytes / 20.0; jobs.len()], 16);
                assert_all_near_1(&shares, 0.03, &format!("{n_jobs} jobs at {load}"));
            }
        }
    }

    /// Checks that a job moves more or less than its average while others compute or do I/O.
    #[test]
    fn a_job_gets_more_when_the_phases_of_others_are_over_and_less_when_they_begin() {
        let (settings, seed) = (Settings { grain: Some(1), interval_s: None, most_events: None }, 5);
        let first_of =
            |system: &System| super::super::simulate(system, &settings, seed).unwrap().frame.bandwidth_bps[0];
        // Half of the time of the one is spent in phases of the other.
        let other = beats(4, 40.0, 1e10, 10.0);
        let (mut truth, _) =
            System::of_running(&[streams(2, 4e6, 5e8), other.clone()], vec![target()], HORIZON_S);
        truth.templates[0].think_s = 0.004;
        let expected_bps = first_of(&truth);
        let mut quiet = truth.clone();
        quiet.jobs.truncate(1);
        let mut busy = truth.clone();
        (busy.templates[1].requests, busy.templates[1].compute_s) = (None, 0.0);
        for (now, others_bps) in [(&quiet, 0.0), (&busy, 1e9 - first_of(&busy))] {
            let rate_bps = first_of(now);
            assert!((rate_bps / expected_bps - 1.0).abs() > 0.1, "{rate_bps} {expected_bps}");
            let jobs = [streams(2, 4e6, rate_bps), RunningJob { rate_bps: others_bps, ..other.clone() }];
            let shares = forecast(&jobs, &[target()], &[expected_bps, 1e10 / 40.0], 4);
            // On full storage a little more or less to think about changes little, so little is known of it.
            assert_all_near_1(&shares, 0.05, &format!("others move {others_bps}"));
        }
    }

    #[test]
    fn full_storage_gives_what_it_can() {
        for rates in [vec![1e9], vec![0.5e9, 0.5e9], vec![1.2e9, 0.8e9, 0.4e9]] {
            let jobs: Vec<RunningJob> = rates.iter().map(|rate_bps| streams(4, 4e6, *rate_bps)).collect();
            let (system, _) = System::of_running(&jobs, vec![target()], HORIZON_S);
            let sum: f64 = moved(&system, 1).iter().sum();
            assert!((sum / 1e9 - 1.0).abs() < 0.03, "{rates:?}: {sum}");
        }
    }
}
