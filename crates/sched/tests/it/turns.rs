//! Jobs that share a set, on a clock that only this test moves: nobody is shut out, and the storage is not left idle.

use std::collections::BTreeMap;

use iotide_sched::{Exclusivity, IoProfile, JobId, Policy, Queue, QueueConfig, Request, UnknownJobs};

const MIB: u64 = 1 << 20;

/// Returns the settings that mounts and arbiters use.
fn config() -> QueueConfig {
    QueueConfig {
        exclusivity: Exclusivity::Strict,
        phase_gap_s: 0.25,
        lull_s: 0.02,
        idle_share: 1.0 / 16.0,
        turn_s: 2.0,
        ..QueueConfig::new(Policy::Set10(UnknownJobs::Together))
    }
}

/// A program that writes a request, pauses, and so on; after `n_in_burst` requests it computes.
#[derive(Clone, Copy)]
struct Program {
    bytes: u64,
    pause_s: f64,
    n_in_burst: u64,
    compute_s: f64,
    /// After every so many requests the next is late by so much.
    late_every: u64,
    late_s: f64,
}

impl Program {
    /// Writes all the time.
    fn steady(bytes: u64, pause_s: f64) -> Self {
        Self { bytes, pause_s, n_in_burst: u64::MAX, compute_s: 0.0, late_every: u64::MAX, late_s: 0.0 }
    }

    fn with_phases(n_requests: u64, pause_s: f64, compute_s: f64) -> Self {
        Self { n_in_burst: n_requests, compute_s, ..Self::steady(MIB, pause_s) }
    }
}

/// Outcome of a run.
#[derive(Clone, Debug, Default)]
struct Outcome {
    n_written: Vec<u64>,
    longest_wait_s: Vec<f64>,
    /// How long each phase took.
    phases_s: Vec<Vec<f64>>,
    /// How long the storage had nothing to do while a request waited.
    idle_s: f64,
    busy_s: f64,
}

enum Event {
    Ask(usize),
    Done(usize),
}

/// Runs programs for a while on a storage that serves one request after the other, up to four of which may be with it.
fn run(mut queue: Queue, programs: &[Program], bandwidth_bps: f64, until_s: f64) -> Outcome {
    let n = programs.len();
    let mut told = Outcome {
        n_written: vec![0; n],
        longest_wait_s: vec![0.0; n],
        phases_s: vec![Vec::new(); n],
        ..Outcome::default()
    };
    // By time in nanoseconds, then in the order they were planned.
    let mut events: BTreeMap<(u64, u64), Event> = BTreeMap::new();
    let mut n_events = 0;
    let mut plan = |events: &mut BTreeMap<_, _>, at_s: f64, event| {
        n_events += 1;
        events.insert(((at_s * 1e9).ceil() as u64, n_events), event);
    };
    let mut phase_began_s = vec![0.0; n];
    for program in 0..n {
        plan(&mut events, 1e-6 * program as f64, Event::Ask(program));
    }
    let (mut now_s, mut n_in_service, mut free_from_s) = (0.0, 0, 0.0_f64);
    while now_s < until_s {
        let next_s = events.first_key_value().map(|((at_ns, _), _)| *at_ns as f64 * 1e-9);
        let wake_s = queue.next_wake_s().filter(|_| !queue.is_empty() && n_in_service < 4);
        let then_s = match (next_s, wake_s) {
            (Some(next_s), Some(wake_s)) => next_s.min(wake_s.max(now_s + 1e-9)),
            (Some(at_s), None) | (None, Some(at_s)) => at_s,
            (None, None) => panic!("nothing will ever happen again, with {} requests waiting", queue.len()),
        };
        if n_in_service == 0 && !queue.is_empty() {
            told.idle_s += then_s - now_s;
        } else if n_in_service > 0 {
            told.busy_s += then_s - now_s;
        }
        now_s = then_s;
        if next_s == Some(then_s) {
            match events.pop_first().unwrap().1 {
                Event::Ask(program) => {
                    let job = JobId(program as u64 + 1);
                    queue.push(Request { job, bytes: programs[program].bytes, id: 0, arrival_s: now_s });
                }
                Event::Done(program) => {
                    n_in_service -= 1;
                    queue.complete(JobId(program as u64 + 1), now_s);
                    told.n_written[program] += 1;
                    let Program { pause_s, n_in_burst, compute_s, late_every, late_s, .. } =
                        programs[program];
                    let is_over = told.n_written[program].is_multiple_of(n_in_burst);
                    let is_late = told.n_written[program].is_multiple_of(late_every);
                    let pause_s = if is_late { late_s } else { pause_s };
                    let next_s = now_s + if is_over { compute_s } else { pause_s };
                    if is_over {
                        told.phases_s[program].push(now_s - phase_began_s[program]);
                        phase_began_s[program] = next_s;
                    }
                    plan(&mut events, next_s, Event::Ask(program));
                    // A program that does not pause asks before anybody else is looked at.
                    if next_s == now_s {
                        continue;
                    }
                }
            }
        }
        while n_in_service < 4
            && let Some(request) = queue.pop(now_s)
        {
            let program = request.job.0 as usize - 1;
            let wait_s = now_s - request.arrival_s;
            told.longest_wait_s[program] = told.longest_wait_s[program].max(wait_s);
            free_from_s = free_from_s.max(now_s) + request.bytes as f64 / bandwidth_bps;
            plan(&mut events, free_from_s, Event::Done(program));
            n_in_service += 1;
        }
    }
    told
}

fn least_and_most(counts: &[u64]) -> (u64, u64) {
    (*counts.iter().min().unwrap(), *counts.iter().max().unwrap())
}

const SLOW_BPS: f64 = 110.0 * MIB as f64;
const FAST_BPS: f64 = 1000.0 * MIB as f64;

#[test]
fn three_jobs_that_trickle_get_the_same() {
    for bandwidth_bps in [SLOW_BPS, FAST_BPS] {
        for policy in [Policy::Set10(UnknownJobs::Together), Policy::Exclusive] {
            let queue = Queue::new(QueueConfig { policy, ..config() });
            let told = run(queue, &[Program::steady(MIB, 0.005); 3], bandwidth_bps, 100.0);
            let (least, most) = least_and_most(&told.n_written);
            assert!(least as f64 >= 0.8 * most as f64, "{told:?}");
            assert!(told.longest_wait_s.iter().all(|wait_s| *wait_s < 1.0), "{told:?}");
        }
    }
}

#[test]
fn ten_jobs_that_write_back_to_back_get_the_same() {
    for pause_s in [0.0, 0.0002] {
        let told = run(Queue::new(config()), &[Program::steady(MIB, pause_s); 10], SLOW_BPS, 200.0);
        let (least, most) = least_and_most(&told.n_written);
        assert!(least as f64 >= 0.8 * most as f64, "{told:?}");
        // Nine turns of two seconds.
        assert!(told.longest_wait_s.iter().all(|wait_s| *wait_s < 19.0), "{told:?}");
    }
}

#[test]
fn the_storage_is_not_idle_while_a_request_waits() {
    // Not at all for programs that send the next request at once.
    let told = run(Queue::new(config()), &[Program::steady(MIB, 0.0); 4], SLOW_BPS, 50.0);
    // Times are rounded to nanoseconds here.
    assert!(told.idle_s < 1e-5, "{told:?}");
    // Otherwise for the time in which the next request is sent: less than a sixteenth of the time it is busy, and 100 ms once.
    let mixed = [
        Program::steady(MIB, 0.0001),
        Program::steady(4 * MIB, 0.001),
        Program::steady(MIB, 0.005),
        Program::with_phases(30, 0.0005, 0.7),
        Program::with_phases(5, 0.015, 0.05),
        Program::steady(64 << 10, 0.019),
    ];
    for bandwidth_bps in [SLOW_BPS, FAST_BPS] {
        for first in 0..mixed.len() {
            for second in 0..mixed.len() {
                let programs = [mixed[first], mixed[second], mixed[(first + second) % mixed.len()]];
                let told = run(Queue::new(config()), &programs, bandwidth_bps, 50.0);
                let allowed_s = told.busy_s / 16.0 + 0.1;
                assert!(told.idle_s <= allowed_s, "{first} {second}: {told:?}");
            }
        }
    }
    // A trickle is found out, and not waited for any more.
    let told = run(Queue::new(config()), &[Program::steady(MIB, 0.005); 3], FAST_BPS, 50.0);
    assert!(told.idle_s < 0.1, "{told:?}");
}

#[test]
fn jobs_with_phases_still_have_the_storage_for_themselves() {
    // As in the experiment: 128 MiB every 18 s, on a machine where the next request comes after half a millisecond.
    let programs = [Program::with_phases(128, 0.0005, 18.0); 5];
    for is_known in [false, true] {
        let mut queue = Queue::new(config());
        for job in 1..=5 {
            queue.set_profile(JobId(job), is_known.then(|| IoProfile::with_period(19.2)));
        }
        let told = run(queue, &programs, SLOW_BPS, 200.0);
        let alone_s = 128.0 * (MIB as f64 / SLOW_BPS + 0.0005);
        // All begin at once; from the second phase on they are out of each other's way.
        for (program, phases_s) in told.phases_s.iter().enumerate() {
            assert!(phases_s[0] < (program as f64 + 1.3) * alone_s, "{told:?}");
            assert!(phases_s[1..].iter().all(|phase_s| *phase_s < 1.1 * alone_s), "{told:?}");
        }
    }
}

#[test]
fn a_job_that_a_busy_machine_delays_now_and_then_keeps_its_turn() {
    // Every eighth request comes 40 ms late: in a phase of 128 that is more than all pauses of a turn may add up to.
    let late = Program { late_every: 8, late_s: 0.04, ..Program::with_phases(128, 0.0002, 18.0) };
    let told = run(Queue::new(config()), &[late; 3], SLOW_BPS, 60.0);
    let alone_s = 128.0 * MIB as f64 / SLOW_BPS + 16.0 * 0.04;
    // Others are served while it is late, one request each time; its turn is not taken from it.
    assert!(told.phases_s[0][0] < 1.3 * alone_s, "{told:?}");
}

#[test]
fn a_job_that_stops_in_the_middle_of_a_request_does_not_hold_the_others() {
    let mut queue = Queue::new(config());
    queue.push(Request { job: JobId(1), bytes: MIB, id: 0, arrival_s: 0.0 });
    queue.push(Request { job: JobId(2), bytes: MIB, id: 1, arrival_s: 0.0 });
    assert_eq!(queue.pop(0.0).map(|request| request.id), Some(0));
    assert_eq!((queue.pop(0.1), queue.next_wake_s()), (None, Some(2.0)));
    assert_eq!(queue.pop(2.0).map(|request| request.id), Some(1));
}

#[test]
fn a_longer_period_has_a_longer_turn() {
    // The phases of both take five seconds.
    let programs = [Program::with_phases(550, 0.0, 40.0); 2];
    let first_phases_s = |w_iter_s: Option<f64>| {
        let mut queue = Queue::new(config());
        for job in [1, 2] {
            queue.set_profile(JobId(job), w_iter_s.map(IoProfile::with_period));
        }
        let told = run(queue, &programs, SLOW_BPS, 20.0);
        [told.phases_s[0][0].round(), told.phases_s[1][0].round()]
    };
    assert_eq!(first_phases_s(Some(45.0)), [5.0, 10.0]);
    assert_eq!(first_phases_s(None), [9.0, 10.0]);
}
