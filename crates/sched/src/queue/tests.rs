//! Whose request is served when, by example. What holds for every order of calls is in `tests/it/laws.rs`.

use super::*;
use crate::{Policy, Rules, UnknownJobs};

const SET10: Policy = Policy::Set10(UnknownJobs::Together);

/// A queue whose job `n` has the nth characteristic time.
fn queue_of(config: QueueConfig, w_iter_s: &[f64]) -> Queue {
    let mut queue = Queue::new(config);
    for (job, &w_iter_s) in (1..).zip(w_iter_s) {
        queue.set_profile(JobId(job), Some(IoProfile::with_period(w_iter_s)));
    }
    queue
}

fn push(queue: &mut Queue, job: u64, n: usize, now_s: f64) {
    for id in 0..n as u64 {
        queue.push(Request { job: JobId(job), bytes: 1000, id, arrival_s: now_s });
    }
}

/// The jobs of the next `n` requests, all served at one moment.
fn pop(queue: &mut Queue, n: usize, now_s: f64) -> String {
    (0..n).map_while(|_| queue.pop(now_s)).map(|request| request.job.0.to_string()).collect()
}

#[test]
fn without_a_policy_requests_are_served_as_they_come() {
    let mut queue = queue_of(QueueConfig::new(Policy::Unscheduled), &[10.0, 100.0]);
    for job in [2, 1, 1, 2, 1, 2] {
        push(&mut queue, job, 1, 0.0);
    }
    assert_eq!(pop(&mut queue, 9, 0.0), "211212");
}

#[test]
fn a_fair_share_is_the_same_for_every_job() {
    let mut queue = queue_of(QueueConfig::new(Policy::FairShare), &[10.0, 100.0]);
    push(&mut queue, 1, 6, 0.0);
    push(&mut queue, 2, 3, 0.0);
    assert_eq!(pop(&mut queue, 9, 0.0), "121212111");
}

#[test]
fn inside_a_set_the_job_whose_phase_began_first_is_served_until_it_has_no_request() {
    for policy in [SET10, Policy::Exclusive] {
        let mut queue = queue_of(QueueConfig::new(policy), &[100.0, 100.0]);
        push(&mut queue, 2, 2, 0.0);
        push(&mut queue, 1, 2, 0.1);
        assert_eq!(pop(&mut queue, 3, 0.2), "221");
        // The first is back before its phase was over, and goes first again.
        push(&mut queue, 2, 1, 0.3);
        assert_eq!(pop(&mut queue, 3, 0.4), "21");
    }
}

#[test]
fn a_new_phase_queues_behind_the_others() {
    let mut queue = queue_of(QueueConfig::new(SET10), &[100.0, 100.0]);
    push(&mut queue, 2, 1, 0.0);
    assert_eq!(pop(&mut queue, 1, 0.0), "2");
    queue.complete(JobId(2), 0.5);
    push(&mut queue, 1, 2, 5.0);
    push(&mut queue, 2, 2, 5.1);
    assert_eq!(pop(&mut queue, 9, 5.1), "1122");
    assert_eq!(queue.job(JobId(2)).unwrap().n_phases, 2);
}

#[test]
fn a_phase_goes_on_while_a_request_is_under_way_and_ends_when_that_is_said() {
    let mut queue = queue_of(QueueConfig::new(SET10), &[100.0, 100.0]);
    push(&mut queue, 1, 1, 0.0);
    assert_eq!(pop(&mut queue, 1, 0.0), "1");
    // It took a minute to be served.
    push(&mut queue, 1, 1, 60.0);
    assert_eq!(queue.job(JobId(1)).unwrap().n_phases, 1);
    assert_eq!(pop(&mut queue, 1, 60.0), "1");
    queue.end_phase(JobId(1));
    push(&mut queue, 1, 1, 60.1);
    assert_eq!(queue.job(JobId(1)).unwrap().n_phases, 2);
}

#[test]
fn a_short_rhythm_has_short_gaps() {
    let mut queue = queue_of(QueueConfig::new(SET10), &[1.0]);
    for beat in 0..5 {
        push(&mut queue, 1, 1, f64::from(beat));
        assert_eq!(pop(&mut queue, 1, f64::from(beat)), "1");
        queue.complete(JobId(1), f64::from(beat) + 0.1);
    }
    assert_eq!(queue.job(JobId(1)).unwrap().n_phases, 5);
}

#[test]
fn by_id_the_lowest_goes_first_as_in_rr9537() {
    let mut queue = queue_of(Rules::Report.queue(SET10), &[100.0, 100.0, 100.0]);
    push(&mut queue, 3, 2, 0.0);
    push(&mut queue, 2, 2, 0.1);
    push(&mut queue, 1, 1, 0.2);
    assert_eq!(pop(&mut queue, 3, 0.2), "122");
    push(&mut queue, 1, 1, 0.3);
    assert_eq!(pop(&mut queue, 9, 0.3), "133");
}

#[test]
fn credits_by_request_are_scaled_so_that_the_least_has_one() {
    // Figure 3 of RR-9537 has two of one for each of the other; powers of ten have ten.
    let mut queue = queue_of(Rules::Report.queue(SET10), &[100.0, 10.0]);
    push(&mut queue, 1, 3, 0.0);
    push(&mut queue, 2, 25, 0.0);
    assert_eq!(pop(&mut queue, 40, 0.0), "2222222222122222222221222221");
}

#[test]
fn by_bytes_large_requests_have_no_advantage() {
    let config = QueueConfig { ageing: None, ..QueueConfig::new(SET10) };
    let mut queue = queue_of(config, &[100.0, 10.0]);
    for id in 0..4000 {
        queue.push(Request { job: JobId(1), bytes: 1 << 20, id, arrival_s: 0.0 });
        queue.push(Request { job: JobId(2), bytes: 1 << 14, id, arrival_s: 0.0 });
    }
    let mut bytes = [0u64; 3];
    while queue.job(JobId(2)).unwrap().n_queued > 0 {
        let request = queue.pop(0.0).unwrap();
        bytes[request.job.0 as usize] += request.bytes;
    }
    let ratio = bytes[2] as f64 / bytes[1] as f64;
    assert!((8.0..12.5).contains(&ratio), "{bytes:?}");
}

#[test]
fn an_idle_set_saves_no_credit_up() {
    let config = QueueConfig { ageing: None, ..QueueConfig::new(Policy::FairShare) };
    let mut queue = queue_of(config, &[10.0, 10.0]);
    push(&mut queue, 1, 100, 0.0);
    assert_eq!(pop(&mut queue, 50, 0.0).len(), 50);
    push(&mut queue, 2, 50, 1.0);
    assert_eq!(pop(&mut queue, 8, 1.0).matches('2').count(), 4);
}

#[test]
fn unknown_jobs_take_turns_or_share_as_told() {
    let served = |policy| {
        let mut queue = Queue::new(QueueConfig::new(policy));
        push(&mut queue, 1, 3, 0.0);
        push(&mut queue, 2, 3, 0.0);
        pop(&mut queue, 6, 0.0)
    };
    assert_eq!(served(Policy::Set10(UnknownJobs::Together)), "111222");
    assert_eq!(served(Policy::Set10(UnknownJobs::Apart)), "212121");
}

#[test]
fn a_job_whose_rhythm_becomes_known_moves_to_its_set_with_its_requests() {
    let mut queue = queue_of(Rules::Report.queue(SET10), &[100.0]);
    push(&mut queue, 1, 30, 0.0);
    push(&mut queue, 2, 30, 0.0);
    assert_eq!(pop(&mut queue, 6, 0.0), "221221"); // 1/50 against 1/100
    queue.set_profile(JobId(2), Some(IoProfile::with_period(10.0)));
    assert_eq!(pop(&mut queue, 22, 0.0).matches('2').count(), 20);
    assert_eq!(queue.job(JobId(2)).unwrap().set, SetId::Magnitude(1));
    queue.set_profile(JobId(2), Some(IoProfile::with_period(100.0)));
    assert_eq!(pop(&mut queue, 60, 0.0).len(), 32);
}

#[test]
fn a_job_that_waits_long_is_served_now_and_then() {
    let ageing = Some(Ageing { patience_s: 10.0, every: 4 });
    let mut queue = queue_of(QueueConfig { ageing, ..QueueConfig::new(SET10) }, &[100.0, 100.0, 100.0]);
    for job in 1..=3 {
        push(&mut queue, job, 20, 0.0);
    }
    assert_eq!(pop(&mut queue, 4, 5.0), "1111");
    assert_eq!(pop(&mut queue, 12, 11.0), "211131111111");
    // One in four at most, however many wait.
    assert_eq!(pop(&mut queue, 8, 30.0), "21113111");
}

#[test]
fn strictly_others_wait_until_the_phase_is_over() {
    let config = QueueConfig { exclusivity: Exclusivity::Strict, ageing: None, ..QueueConfig::new(SET10) };
    let mut queue = queue_of(config, &[100.0, 100.0]);
    push(&mut queue, 1, 1, 0.0);
    push(&mut queue, 2, 1, 0.0);
    assert_eq!(pop(&mut queue, 9, 0.0), "1");
    assert_eq!((queue.pop(0.1), queue.next_wake_s()), (None, None)); // under way
    queue.complete(JobId(1), 0.5);
    assert_eq!((queue.pop(0.6), queue.next_wake_s()), (None, Some(1.5)));
    push(&mut queue, 1, 1, 0.7);
    assert_eq!(pop(&mut queue, 9, 0.8), "1");
    queue.complete(JobId(1), 1.0);
    assert_eq!(queue.pop(1.9), None);
    assert_eq!(pop(&mut queue, 9, 2.0), "2");
}

#[test]
fn in_a_lull_another_is_served_and_the_turn_stays() {
    let config = QueueConfig {
        exclusivity: Exclusivity::Strict,
        lull_s: 0.1,
        ageing: None,
        ..QueueConfig::new(SET10)
    };
    let mut queue = queue_of(config, &[100.0, 100.0, 100.0]);
    for job in 1..=3 {
        push(&mut queue, job, 1, 0.0);
    }
    push(&mut queue, 2, 3, 0.0);
    assert_eq!(pop(&mut queue, 9, 0.0), "1");
    queue.complete(JobId(1), 0.5);
    assert_eq!((queue.pop(0.55), queue.next_wake_s()), (None, Some(0.6)));
    assert_eq!(pop(&mut queue, 1, 0.61), "2");
    // The first is late, not over: it goes before the rest of the second.
    push(&mut queue, 1, 1, 0.7);
    assert_eq!(pop(&mut queue, 1, 0.75), "1");
    queue.complete(JobId(2), 0.8);
    queue.complete(JobId(1), 0.8);
    assert_eq!((queue.pop(0.85), queue.next_wake_s()), (None, Some(0.9)));
    assert_eq!(pop(&mut queue, 1, 0.91), "2");
    // When its phase is over at last, its next request begins another, behind those who wait.
    push(&mut queue, 1, 1, 2.0);
    assert_eq!(pop(&mut queue, 2, 2.0), "22");
    queue.complete(JobId(2), 2.1);
    queue.complete(JobId(2), 2.1);
    queue.complete(JobId(2), 2.1);
    assert_eq!(pop(&mut queue, 1, 2.3), "3");
}

#[test]
fn strictly_those_whom_nobody_waits_for_any_more_are_passed_over_once_and_keep_their_place() {
    let config = QueueConfig {
        exclusivity: Exclusivity::Strict,
        lull_s: 0.02,
        phase_gap_s: 1000.0,
        ..QueueConfig::new(SET10)
    };
    let mut queue = Queue::new(config);
    for job in 1..=100 {
        let now_s = job as f64;
        push(&mut queue, job, 1, now_s);
        assert_eq!(pop(&mut queue, 1, now_s), job.to_string());
        queue.complete(JobId(job), now_s);
    }
    push(&mut queue, 101, 2, 200.0);
    assert_eq!(pop(&mut queue, 1, 200.0), "101");
    assert_eq!(queue.sets[0].holders.len(), 1);
    // One of them is back while its phase lasts.
    push(&mut queue, 7, 1, 200.01);
    assert_eq!(pop(&mut queue, 1, 200.01), "7");
}

#[test]
fn strictly_a_set_that_must_wait_does_not_hold_up_another() {
    let config = QueueConfig { exclusivity: Exclusivity::Strict, ageing: None, ..QueueConfig::new(SET10) };
    for credit in [Credit::Bytes, Credit::Requests] {
        let mut queue = queue_of(QueueConfig { credit, ..config }, &[10.0, 10.0, 1000.0]);
        push(&mut queue, 1, 1, 0.0);
        push(&mut queue, 2, 1, 0.0);
        push(&mut queue, 3, 3, 0.0);
        assert_eq!(pop(&mut queue, 9, 0.0), "1333");
        queue.end_phase(JobId(1));
        assert_eq!(pop(&mut queue, 9, 0.0), "2");
    }
}

#[test]
fn a_forgotten_job_hands_its_requests_back() {
    let mut queue = queue_of(QueueConfig::new(SET10), &[100.0, 100.0]);
    push(&mut queue, 1, 3, 0.0);
    push(&mut queue, 2, 1, 0.0);
    assert_eq!(pop(&mut queue, 1, 0.0), "1");
    let left = queue.forget(JobId(1));
    assert_eq!(left.iter().map(|request| request.id).collect::<Vec<_>>(), [1, 2]);
    queue.complete(JobId(1), 1.0); // too late to matter
    assert_eq!((queue.len(), queue.job(JobId(1))), (1, None));
    assert_eq!(pop(&mut queue, 9, 0.0), "2");
    assert!(queue.is_empty() && queue.forget(JobId(1)).is_empty());
}

#[test]
fn the_storage_is_shared_while_others_have_requests_and_a_while_after() {
    let mut queue = queue_of(QueueConfig::new(SET10), &[100.0; 3]);
    let is_shared = |queue: &Queue, job, since_s| queue.is_shared(Some(JobId(job)), since_s);
    push(&mut queue, 1, 1, 10.0);
    assert!(!is_shared(&queue, 1, 0.0) && is_shared(&queue, 2, 0.0) && queue.is_shared(None, 0.0));
    assert_eq!(pop(&mut queue, 1, 10.0), "1");
    assert!(!is_shared(&queue, 1, 0.0) && is_shared(&queue, 2, 11.0), "it is under way");
    queue.complete(JobId(1), 12.0);
    assert!(!is_shared(&queue, 1, 0.0) && is_shared(&queue, 2, 11.0) && !is_shared(&queue, 2, 12.0));
    for (job, now_s) in [(2, 20.0), (3, 30.0), (1, 40.0)] {
        push(&mut queue, job, 1, now_s);
        pop(&mut queue, 1, now_s);
        queue.complete(JobId(job), now_s + 1.0);
    }
    assert!(is_shared(&queue, 1, 30.5) && !is_shared(&queue, 1, 31.0));
    assert!(is_shared(&queue, 3, 40.5));
    // A job that has ended shares nothing, and those before it are remembered.
    queue.forget(JobId(3));
    assert!(is_shared(&queue, 1, 20.5) && !is_shared(&queue, 1, 21.0));
    queue.forget(JobId(2));
    assert!(!is_shared(&queue, 1, 0.0) && !is_shared(&queue, 7, 41.0) && is_shared(&queue, 7, 40.5));
}

#[test]
fn jobs_that_come_and_go_leave_nothing_behind() {
    let mut queue = Queue::new(QueueConfig::new(Policy::FairShare));
    for job in 0..1000 {
        push(&mut queue, job, 1, job as f64);
        assert_eq!(pop(&mut queue, 1, job as f64).len(), job.to_string().len());
        queue.complete(JobId(job), job as f64);
        queue.forget(JobId(job));
    }
    assert_eq!((queue.jobs.len(), queue.sets.len()), (1, 1));
    assert!(queue.jobs().is_empty());
}
