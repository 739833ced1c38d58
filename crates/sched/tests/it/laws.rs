//! Laws that hold for every order of requests, answers and new periods.

use std::collections::{BTreeMap, VecDeque};

use iotide_sched::{
    Ageing, Credit, Exclusivity, IoProfile, JobId, Order, Policy, Queue, QueueConfig, Request, SetId,
    UnknownJobs,
};
use proptest::prelude::*;

/// Something that happens at a server.
#[derive(Clone, Copy, Debug)]
enum Step {
    Push { job: u64, bytes: u64 },
    Pop,
    Complete,
    Profile { job: u64, w_iter_s: Option<f64> },
    EndPhase { job: u64 },
    Wait { seconds: f64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let job = 1..6u64;
    let step = prop_oneof![
        6 => (job.clone(), 1..2_000_000u64).prop_map(|(job, bytes)| Step::Push { job, bytes }),
        5 => Just(Step::Pop),
        3 => Just(Step::Complete),
        1 => (job.clone(), prop::option::of(prop::sample::select(vec![3.0, 20.0, 90.0, 400.0])))
            .prop_map(|(job, w_iter_s)| Step::Profile { job, w_iter_s }),
        1 => job.prop_map(|job| Step::EndPhase { job }),
        1 => prop::sample::select(vec![0.01, 0.4, 2.0, 100.0]).prop_map(|seconds| Step::Wait { seconds }),
    ];
    prop::collection::vec(step, 1..250)
}

fn configs() -> impl Strategy<Value = QueueConfig> {
    let policies = vec![
        Policy::Unscheduled,
        Policy::FairShare,
        Policy::Exclusive,
        Policy::EqualSets(UnknownJobs::Apart),
        Policy::Set10(UnknownJobs::Together),
        Policy::Set10(UnknownJobs::Apart),
    ];
    (
        prop::sample::select(policies),
        prop::sample::select(vec![Credit::Requests, Credit::Bytes]),
        prop::sample::select(vec![Order::FirstCome, Order::Id]),
        prop::sample::select(vec![Exclusivity::Relaxed, Exclusivity::Strict]),
        prop::option::of(Just(Ageing { patience_s: 1.0, every: 3 })),
        prop::sample::select(vec![f64::INFINITY, 0.1]),
        prop::sample::select(vec![f64::INFINITY, 1.0 / 16.0]),
        prop::sample::select(vec![f64::INFINITY, 2.0]),
    )
        .prop_map(|(policy, credit, order, exclusivity, ageing, lull_s, idle_share, turn_s)| {
            QueueConfig {
                lull_s,
                idle_share,
                turn_s,
                credit,
                order,
                exclusivity,
                ageing,
                ..QueueConfig::new(policy)
            }
        })
}

/// Requests pushed and not yet popped, by job in order, kept beside the queue.
#[derive(Default)]
struct Ledger {
    queued: BTreeMap<u64, VecDeque<u64>>,
    in_flight: VecDeque<u64>,
    n_pushed: u64,
}

impl Ledger {
    fn n_queued(&self) -> usize {
        self.queued.values().map(VecDeque::len).sum()
    }
}

/// Takes a step with both, and hands a popped request to `check` before the ledger knows of it.
fn take(
    queue: &mut Queue,
    ledger: &mut Ledger,
    now_s: &mut f64,
    step: Step,
    mut check: impl FnMut(&Queue, &Ledger, f64, Option<Request>),
) {
    match step {
        Step::Push { job, bytes } => {
            queue.push(Request { job: JobId(job), bytes, id: ledger.n_pushed, arrival_s: *now_s });
            ledger.queued.entry(job).or_default().push_back(ledger.n_pushed);
            ledger.n_pushed += 1;
        }
        Step::Pop => {
            let popped = queue.pop(*now_s);
            check(queue, ledger, *now_s, popped);
            if let Some(request) = popped {
                let first = ledger.queued.get_mut(&request.job.0).and_then(VecDeque::pop_front);
                assert_eq!(first, Some(request.id), "a job's requests are served in order, each once");
                ledger.in_flight.push_back(request.job.0);
            }
        }
        Step::Complete => {
            if let Some(job) = ledger.in_flight.pop_front() {
                queue.complete(JobId(job), *now_s);
            }
        }
        Step::Profile { job, w_iter_s } => {
            queue.set_profile(JobId(job), w_iter_s.map(IoProfile::with_period));
        }
        Step::EndPhase { job } => queue.end_phase(JobId(job)),
        Step::Wait { seconds } => *now_s += seconds,
    }
}

proptest! {
    #[test]
    fn nothing_is_lost_or_served_twice(config in configs(), steps in steps()) {
        let (mut queue, mut ledger, mut now_s) = (Queue::new(config), Ledger::default(), 0.0);
        for step in steps {
            take(&mut queue, &mut ledger, &mut now_s, step, |_, _, _, _| {});
            prop_assert_eq!(queue.len(), ledger.n_queued());
        }
        // And all of it comes out in the end, though strict turns may have to be waited for.
        let mut n_idle = 0;
        while ledger.n_queued() > 0 {
            let before = ledger.n_queued();
            take(&mut queue, &mut ledger, &mut now_s, Step::Pop, |_, _, _, _| {});
            while !ledger.in_flight.is_empty() {
                take(&mut queue, &mut ledger, &mut now_s, Step::Complete, |_, _, _, _| {});
            }
            if ledger.n_queued() == before {
                n_idle += 1;
                now_s = queue.next_wake_s().expect("if nothing may be served, it is known when").max(now_s);
            }
            prop_assert!(n_idle < 1000);
        }
        prop_assert!(queue.is_empty());
    }

    #[test]
    fn the_server_is_never_idle_while_a_request_waits(config in configs(), steps in steps()) {
        let config = QueueConfig { exclusivity: Exclusivity::Relaxed, ..config };
        let (mut queue, mut ledger, mut now_s) = (Queue::new(config), Ledger::default(), 0.0);
        for step in steps {
            take(&mut queue, &mut ledger, &mut now_s, step, |_, ledger, _, popped| {
                assert_eq!(popped.is_some(), ledger.n_queued() > 0);
            });
        }
    }

    #[test]
    fn inside_a_set_nobody_is_served_before_the_one_whose_turn_it_is(
        order in prop::sample::select(vec![Order::FirstCome, Order::Id]),
        credit in prop::sample::select(vec![Credit::Requests, Credit::Bytes]),
        steps in steps(),
    ) {
        let policy = Policy::Set10(UnknownJobs::Together);
        let config = QueueConfig { order, credit, ageing: None, ..QueueConfig::new(policy) };
        let (mut queue, mut ledger, mut now_s) = (Queue::new(config), Ledger::default(), 0.0);
        for step in steps {
            // Views are from before the pop: phases and sets do not change by it.
            let before: BTreeMap<u64, (SetId, Option<f64>)> =
                queue.jobs().iter().map(|view| (view.job.0, (view.set, view.phase_start_s))).collect();
            take(&mut queue, &mut ledger, &mut now_s, step, |_, ledger, _, popped| {
                let Some(request) = popped else { return };
                let (set, since_s) = before[&request.job.0];
                for (&job, waiting) in &ledger.queued {
                    let (its_set, its_since_s) = before[&job];
                    if waiting.is_empty() || job == request.job.0 || its_set != set {
                        continue;
                    }
                    match order {
                        Order::Id => assert!(request.job.0 < job),
                        Order::FirstCome => assert!(since_s <= its_since_s, "{since_s:?} after {its_since_s:?}"),
                    }
                }
            });
        }
    }

    #[test]
    fn shares_are_by_priority_in_bytes_whatever_the_sizes(
        sizes in prop::collection::vec(100_000..4_000_000u64, 3),
        seed: u64,
    ) {
        // Sets around 10, 100 and 1000 s, always with requests: 100 : 10 : 1.
        let config = QueueConfig { ageing: None, ..QueueConfig::new(Policy::Set10(UnknownJobs::Together)) };
        let mut queue = Queue::new(config);
        let mut random = seed;
        let mut push = |queue: &mut Queue, job: u64| {
            // Sizes vary by a factor of two from request to request.
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let size = sizes[job as usize - 1];
            let bytes = size + (random >> 33) % size;
            queue.push(Request { job: JobId(job), bytes, id: 0, arrival_s: 0.0 });
        };
        for job in 1..=3 {
            queue.set_profile(JobId(job), Some(IoProfile::with_period(10f64.powi(job as i32))));
            push(&mut queue, job);
            push(&mut queue, job);
        }
        let mut served = [0.0; 3];
        let largest = *sizes.iter().max().unwrap() as f64 * 2.0;
        // Until even the least has been served twenty of the largest requests.
        while served[2] < 20.0 * largest {
            let request = queue.pop(0.0).unwrap();
            served[request.job.0 as usize - 1] += request.bytes as f64;
            queue.complete(request.job, 0.0);
            push(&mut queue, request.job.0);
        }
        let total: f64 = served.iter().sum();
        for (served, expected) in served.iter().zip([100.0 / 111.0, 10.0 / 111.0, 1.0 / 111.0]) {
            prop_assert!((served / total / expected - 1.0).abs() < 0.12, "{served} of {total}, not {expected}");
        }
    }

    #[test]
    fn with_ageing_nobody_starves(
        n_jobs in 2..12u64,
        every in 2..20u32,
        credit in prop::sample::select(vec![Credit::Requests, Credit::Bytes]),
        order in prop::sample::select(vec![Order::FirstCome, Order::Id]),
    ) {
        // Everybody always has requests, and all but one are ahead of the last in its own set.
        let ageing = Some(Ageing { patience_s: 0.5, every });
        let config =
            QueueConfig { ageing, credit, order, ..QueueConfig::new(Policy::Set10(UnknownJobs::Together)) };
        let mut queue = Queue::new(config);
        let mut served_at = vec![0u64; n_jobs as usize + 1];
        for job in 1..=n_jobs {
            queue.push(Request { job: JobId(job), bytes: 1000, id: 0, arrival_s: 0.0 });
            queue.push(Request { job: JobId(job), bytes: 1000, id: 0, arrival_s: 0.0 });
        }
        // A request takes a hundredth of a second: patience is fifty of them.
        let longest = 50 + u64::from(every) * (n_jobs + 1);
        for n in 1..4000u64 {
            let now_s = n as f64 * 0.01;
            let request = queue.pop(now_s).unwrap();
            queue.complete(request.job, now_s);
            queue.push(Request { arrival_s: now_s, ..request });
            served_at[request.job.0 as usize] = n;
            for (job, &at) in served_at.iter().enumerate().skip(1) {
                prop_assert!(n - at <= longest, "job {job} has waited for {} requests", n - at);
            }
        }
    }

    #[test]
    fn the_same_calls_give_the_same_answers(config in configs(), steps in steps()) {
        let run = || {
            let (mut queue, mut ledger, mut now_s) = (Queue::new(config), Ledger::default(), 0.0);
            let mut answers = Vec::new();
            for &step in &steps {
                take(&mut queue, &mut ledger, &mut now_s, step, |_, _, _, popped| answers.push(popped));
            }
            answers
        };
        prop_assert_eq!(run(), run());
    }
}
