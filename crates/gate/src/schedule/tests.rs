use super::*;
use iotide_sched::{Exclusivity, Policy, UnknownJobs};
use iotide_testkit::FreshDir;
use std::sync::mpsc::{Receiver, channel};

const MIB: u64 = 1 << 20;

fn scheduler(policy: Policy, n_workers: usize, bandwidth_bps: Option<f64>) -> Scheduler {
    let queue = QueueConfig {
        exclusivity: Exclusivity::Strict,
        phase_gap_s: 0.02,
        turn_s: 0.02,
        ..QueueConfig::new(policy)
    };
    let rules =
        Rules { queue, n_workers, bypass_bytes: 16 << 10, bandwidth_bps, n_targets: 1, time_scale: 1.0 };
    let no_proc = FreshDir::new("no-proc");
    Scheduler::start(rules, Callers::new(no_proc.path().to_owned()), Crew::new(8)).unwrap()
}

/// Without a `/proc` each user is a job.
fn user(uid: u32) -> Who {
    Who { thread: 0, uid }
}

/// Takes the storage when whoever had it before is done.
fn hold(scheduler: &Scheduler) -> Permit {
    loop {
        match scheduler.ask(user(99), Direction::Write, 0, MIB) {
            Ok(permit) => return permit,
            Err(ticket) => {
                let (done, is_done) = channel();
                ticket.wait(move |_| done.send(()).unwrap());
                is_done.recv().unwrap();
            }
        }
    }
}

/// Holds the storage while requests of users queue up; returns what holds it, and who is served after.
fn queue_up(scheduler: &Scheduler, users: &[u32]) -> (Permit, Receiver<u32>) {
    let held = hold(scheduler);
    let (served, all_served) = channel();
    for &uid in users {
        let served = served.clone();
        scheduler.schedule(user(uid), Direction::Write, 0, MIB, move |_| served.send(uid).unwrap());
    }
    (held, all_served)
}

/// Queues requests of users while the storage is held, and returns the order in which they are served after.
fn order(scheduler: &Scheduler, users: &[u32]) -> Vec<u32> {
    let (held, all_served) = queue_up(scheduler, users);
    drop(held);
    all_served.iter().take(users.len()).collect()
}

#[test]
fn without_a_policy_requests_are_served_as_they_come() {
    let scheduler = scheduler(Policy::Unscheduled, 1, None);
    assert_eq!(order(&scheduler, &[1, 2, 1, 3, 2, 1]), [1, 2, 1, 3, 2, 1]);
    scheduler.stop();
}

#[test]
fn jobs_of_one_set_are_served_one_after_the_other() {
    let scheduler = scheduler(Policy::Set10(UnknownJobs::Together), 1, None);
    assert_eq!(order(&scheduler, &[1, 2, 1, 3, 2, 1]), [1, 1, 1, 2, 2, 3]);
    scheduler.stop();
}

/// The order in which requests of jobs, by number and MiB, are served by somebody's rules, one at a time.
fn order_by(by: iotide_sched::Rules, known: bool, asked: &[(u64, u64)]) -> Vec<u64> {
    let turns = crate::Turns { rules: by, ..crate::Turns::new(by.set10()) };
    let rules = Rules {
        queue: turns.queue(),
        n_workers: 1,
        bypass_bytes: 0,
        bandwidth_bps: None,
        n_targets: 1,
        time_scale: 1.0,
    };
    let no_proc = FreshDir::new("no-proc");
    let scheduler = Scheduler::start(rules, Callers::new(no_proc.path().to_owned()), Crew::new(1)).unwrap();
    let held = hold(&scheduler);
    let (served, all_served) = channel();
    for &(number, mib) in asked {
        let (served, job) = (served.clone(), JobName::new(&number.to_string(), Some(1)));
        scheduler.schedule_for(&job, Direction::Write, mib * MIB, move |permit| {
            served.send(number).unwrap();
            drop(permit);
        });
        if known {
            assert!(scheduler.set_period(&job, Some(10.0), PeriodSource::Given));
        }
    }
    drop(held);
    let order = all_served.iter().take(asked.len()).collect();
    scheduler.stop();
    order
}

#[test]
fn by_the_reports_rules_the_lowest_id_of_a_set_goes_first() {
    let asked = [(30, 1), (4, 1), (30, 1), (4, 1)];
    assert_eq!(order_by(iotide_sched::Rules::Iotide, true, &asked), [30, 30, 4, 4]);
    assert_eq!(order_by(iotide_sched::Rules::Report, true, &asked), [4, 4, 30, 30]);
}

#[test]
fn by_the_reports_rules_unknown_jobs_are_served_a_request_each_however_large() {
    let asked = [(30, 8), (30, 8), (30, 8), (4, 1), (4, 1), (4, 1)];
    assert_eq!(order_by(iotide_sched::Rules::Iotide, false, &asked), [30, 30, 30, 4, 4, 4]);
    let order = order_by(iotide_sched::Rules::Report, false, &asked);
    assert!(order.chunks(2).all(|pair| pair[0] != pair[1]), "{order:?}");
}

#[test]
fn a_given_period_puts_a_job_ahead_and_is_not_overruled() {
    let scheduler = scheduler(Policy::Set10(UnknownJobs::Together), 1, None);
    assert!(!scheduler.set_period_of("uid:1", Some(1.0), PeriodSource::Given), "nobody has seen it yet");
    for uid in [1, 2] {
        scheduler.schedule(user(uid), Direction::Write, 0, MIB, |_| {});
    }
    assert!(scheduler.set_period_of("uid:1", Some(1000.0), PeriodSource::Given));
    assert!(scheduler.set_period_of("uid:2", Some(1.0), PeriodSource::Predicted));
    assert!(scheduler.set_period_of("uid:1", Some(0.1), PeriodSource::Predicted));
    let order = order(&scheduler, &[1, 1, 2, 2, 2]);
    assert_eq!(order.iter().rposition(|&uid| uid == 2), Some(3), "{order:?}");
    let jobs = scheduler.jobs();
    assert_eq!(jobs[0].job, "uid:1");
    assert_eq!((jobs[0].period_s, jobs[0].source), (Some(1000.0), Some(PeriodSource::Given)));
    assert_eq!(jobs[0].set.as_deref(), Some("3"));
    assert_eq!(jobs[1].set.as_deref(), Some("0"));
    scheduler.stop();
}

#[test]
fn a_period_that_is_lent_goes_when_nobody_says_it_again() {
    let scheduler = scheduler(Policy::Set10(UnknownJobs::Together), 1, None);
    assert!(!scheduler.lend_period_of("uid:1", 1.0, 1.0), "nobody has seen it yet");
    scheduler.schedule(user(1), Direction::Write, 0, MIB, |_| {});
    let period_s = || scheduler.jobs()[0].period_s;
    assert!(scheduler.lend_period_of("uid:1", 10.0, 3600.0));
    scheduler.take_back_lent();
    assert_eq!(period_s(), Some(10.0));
    assert!(scheduler.lend_period_of("uid:1", 10.0, 0.01));
    thread::sleep(Duration::from_millis(30));
    scheduler.take_back_lent();
    assert_eq!(period_s(), None);
    // What was given for good stays, whatever was lent before.
    assert!(scheduler.lend_period_of("uid:1", 10.0, 0.01));
    assert!(scheduler.set_period_of("uid:1", Some(20.0), PeriodSource::Given));
    thread::sleep(Duration::from_millis(30));
    scheduler.take_back_lent();
    assert_eq!(period_s(), Some(20.0));
    scheduler.stop();
}

/// Lets a user have more and more while others wait, until one of the user's jobs is held back: it may be ahead by what the storage moves in a turn.
fn hold_back(scheduler: &Scheduler, uid: u32, job: &str) {
    for _ in 0..20_000 {
        let jobs = scheduler.jobs();
        if jobs.iter().any(|known| known.job == job && known.set.as_deref() == Some("held back")) {
            return;
        }
        {
            let mut state = scheduler.core.lock();
            let greedy = state.ids[&JobName::of_user(uid)];
            state.jobs.get_mut(&greedy).unwrap().n_bytes += 1 << 20;
        }
        thread::sleep(Duration::from_millis(1));
        scheduler.heed_shares();
    }
    panic!("{job} is not held back");
}

#[test]
fn whoever_had_more_than_the_share_goes_after_those_who_wait() {
    let scheduler = scheduler(Policy::Set10(UnknownJobs::Together), 1, None);
    for uid in [1, 2] {
        scheduler.schedule(user(uid), Direction::Write, 0, MIB, |_| {});
    }
    // One of them writes all the time, and looks like a job that is served first.
    assert!(scheduler.set_period_of("uid:1", Some(0.01), PeriodSource::Predicted));
    assert!(scheduler.set_period_of("uid:2", Some(0.1), PeriodSource::Predicted));
    scheduler.heed_shares();
    let queued = order(&scheduler, &[2, 1, 1]);
    assert_eq!(queued[0], 1, "{queued:?}");
    let (held, all_served) = queue_up(&scheduler, &[2, 1, 1]);
    hold_back(&scheduler, 1, "uid:1");
    drop(held);
    assert_eq!(all_served.iter().take(3).collect::<Vec<_>>(), [2, 1, 1]);
    scheduler.stop();
}

#[test]
fn a_job_whose_first_large_request_comes_while_its_user_is_held_back_is_held_back_too() {
    let scheduler = scheduler(Policy::Set10(UnknownJobs::Together), 1, None);
    let (held, _served) = queue_up(&scheduler, &[2, 1]);
    let other = JobName::new("other", Some(1));
    // So small that it never comes into the queue.
    scheduler.schedule_for(&other, Direction::Write, 1, drop);
    hold_back(&scheduler, 1, "uid:1");
    scheduler.schedule_for(&other, Direction::Write, MIB, drop);
    hold_back(&scheduler, 1, "other");
    drop(held);
    scheduler.stop();
}

#[test]
fn names_that_one_user_makes_up_push_out_their_own_and_no_others() {
    let scheduler = scheduler(Policy::Set10(UnknownJobs::Together), 1, None);
    let victim = JobName::new("7", Some(1000));
    scheduler.schedule_for(&victim, Direction::Write, MIB, drop);
    for i in 0..4 * MAX_JOBS_OF_USER {
        scheduler.schedule_for(&JobName::new(&format!("x{i}"), Some(1001)), Direction::Write, 1, drop);
    }
    let jobs = scheduler.jobs();
    assert_eq!(jobs.len(), MAX_JOBS_OF_USER + 1);
    assert!(jobs.iter().any(|job| job.job == "7"));
    let forgotten = scheduler.forget_idle(1e9);
    assert_eq!(forgotten.len(), 3 * MAX_JOBS_OF_USER);
    assert!(scheduler.forget_idle(1e9).is_empty());
    // Someone who claims the name of another's job is another job.
    scheduler.schedule_for(&JobName::new("7", Some(1001)), Direction::Write, MIB, drop);
    let called: Vec<String> =
        scheduler.jobs().into_iter().map(|job| job.job).filter(|job| job.ends_with("/7")).collect();
    assert_eq!(called, ["uid:1000/7", "uid:1001/7"]);
    scheduler.stop();
}

#[test]
fn small_requests_do_not_wait_and_are_counted() {
    let scheduler = scheduler(Policy::Exclusive, 1, None);
    let held = scheduler.ask(user(1), Direction::Write, 0, MIB).ok().unwrap();
    assert!(scheduler.ask(user(2), Direction::Write, 0, 4096).is_ok());
    assert!(scheduler.ask(user(2), Direction::Read, 0, MIB).is_err());
    drop(held);
    let jobs = scheduler.jobs();
    assert_eq!(jobs.iter().map(|job| job.bytes).collect::<Vec<_>>(), [MIB, 4096]);
    scheduler.stop();
}

#[test]
fn small_requests_close_to_each_other_are_one_to_a_rhythm() {
    let mut job = Job {
        name: JobName::of_user(1),
        clock: JobClock::default(),
        meter: Meter::default(),
        n_bytes: 0,
        last_seen_s: 0.0,
        given_until_s: None,
        source: None,
        served: Vec::new(),
        counted: (0, 0.0),
    };
    let mut note = |direction, arrival_s: f64, bytes| {
        let end_s = arrival_s + 1e-5;
        job.note(Served { direction, arrival_s, end_s, bytes }, end_s);
    };
    for page in 0..1000 {
        note(Direction::Read, 1.0 + f64::from(page) * 2e-5, 4096);
    }
    note(Direction::Write, 1.02, 4096);
    note(Direction::Write, 1.0201, MIB);
    assert_eq!(job.n_bytes, 1001 * 4096 + MIB);
    assert_eq!(job.served.iter().map(|served| served.bytes).sum::<u64>(), job.n_bytes);
    assert!((20..30).contains(&job.served.len()), "{}", job.served.len());
    assert!(job.served.iter().all(|served| served.end_s - served.arrival_s <= JOINED_WITHIN_S));
    let [.., page, large] = &job.served[..] else { panic!() };
    assert_eq!((page.direction, page.bytes, large.bytes), (Direction::Write, 4096, MIB));
}

#[test]
fn a_paced_device_answers_at_its_bandwidth() {
    let scheduler = scheduler(Policy::Unscheduled, 2, Some(100.0 * MIB as f64));
    let began = Instant::now();
    for _ in 0..10 {
        scheduler.schedule(user(1), Direction::Write, 0, MIB, Permit::pace);
    }
    let (done, is_done) = channel();
    scheduler.schedule(user(1), Direction::Write, 0, MIB, move |permit| {
        permit.pace();
        done.send(()).unwrap();
    });
    is_done.recv().unwrap();
    // Eleven times ten milliseconds.
    assert!(began.elapsed() >= Duration::from_millis(105), "{:?}", began.elapsed());
    scheduler.stop();
}
