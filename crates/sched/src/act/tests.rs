use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;
use crate::act::controller::Proposal;
use crate::known::{AcceptedHints, KnownJob};

pub(super) fn rule(limits: Limits) -> Rule {
    Rule { name: "sets".to_owned(), actor: Actor::Sets, scope: Scope::default(), limits }
}

pub(super) fn job(id: &str, period_s: f64, bytes: u64, io_s: f64) -> JobFacts {
    JobFacts {
        id: id.to_owned(),
        uid: 1000,
        period_s: Some(period_s),
        confidence: 0.9,
        bytes,
        io_s,
        ..JobFacts::default()
    }
}

pub(super) fn periods(jobs: &[(&str, f64)]) -> Change {
    let new = |(id, period_s): &(&str, f64)| NewPeriod {
        job: format!("uid:1000/{id}"),
        at: (*id).to_owned(),
        former_s: None,
        period_s: *period_s,
    };
    Change::Periods(jobs.iter().map(new).collect())
}

pub(super) fn proposal(change: Change, gain: f64) -> Proposal {
    let concerned = change.jobs().into_iter().map(str::to_owned).collect();
    let expected = Effect { quantity: Quantity::IoTime, without: 2.0, with: 2.0 * (1.0 - gain) };
    Proposal {
        rule: 0,
        change,
        evidence: Vec::new(),
        expected: Some(expected),
        expected_losses: Vec::new(),
        measure: Measure::IoTime,
        concerned,
        window_s: 10.0,
    }
}

/// Two jobs that move a million bytes a second; a byte costs `cost_s` from 20 s on, and a millionth of a second before.
fn look_until(controller: &mut Controller, from_s: u32, to_s: u32, cost_s: f64) -> Vec<Step> {
    let mut steps = Vec::new();
    for second in from_s..to_s {
        let bytes = 1_000_000 * u64::from(second + 1);
        let io_s = f64::from(second.min(20)) + 1e6 * cost_s * f64::from(second.saturating_sub(20));
        steps.extend(
            controller.look(f64::from(second), &[job("a", 5.0, bytes, io_s), job("b", 50.0, bytes, io_s)]),
        );
    }
    steps
}

/// A decision at 20 s, after which a byte costs something else.
fn decided(cost_s: f64) -> (Controller, Vec<Step>) {
    let mut controller = Controller::new(vec![rule(Limits::default())], false, 1);
    assert_eq!(look_until(&mut controller, 0, 21, 1e-6), Vec::new());
    let step = controller.propose(20.0, proposal(periods(&[("a", 5.0), ("b", 50.0)]), 0.4));
    assert!(matches!(step, Some(Step::Do(_))));
    let steps = look_until(&mut controller, 21, 40, cost_s);
    (controller, steps)
}

#[test]
fn what_pays_stands_with_what_it_was_expected_to_bring_and_what_it_brought() {
    let (controller, steps) = decided(0.5e-6);
    assert_eq!(steps, Vec::new());
    let decision = controller.decisions().next().unwrap();
    assert_eq!(decision.state, State::Standing);
    let Verdict::Measured(effect) = &decision.verdict else { panic!("{decision:?}") };
    assert!((effect.change() + 0.5).abs() < 0.01, "{effect:?}");
    assert!((decision.expected.unwrap().change() + 0.4).abs() < 1e-12);
    assert_eq!(controller.held_periods(0)["uid:1000/b"], 50.0);
}

#[test]
fn what_makes_io_slower_is_taken_back_and_not_tried_again_soon() {
    let (mut controller, steps) = decided(1.1e-6);
    assert!(matches!(&steps[..], [Step::Undo(_)]), "{steps:?}");
    assert!(controller.held_periods(0).is_empty());
    let again = || proposal(periods(&[("a", 5.1), ("b", 49.0)]), 0.4);
    assert_eq!(controller.propose(100.0, again()), None, "as good as the same");
    let step = controller.propose(500.0, again());
    assert!(matches!(step, Some(Step::Do(_))), "after twenty windows");
}

#[test]
fn a_change_within_the_limit_of_harm_stands() {
    let (controller, steps) = decided(1.015e-6);
    assert_eq!(steps, Vec::new());
    assert_eq!(controller.decisions().next().unwrap().state, State::Standing);
}

#[test]
fn a_rule_that_does_not_pay_three_times_is_used_no_more_until_someone_says_so() {
    let mut controller = Controller::new(vec![rule(Limits::default())], false, 1);
    let effect = |with| Verdict::Measured(Effect { quantity: Quantity::UntilSafe, without: 1.0, with });
    let stage = |n: u32| Change::Stage { job: format!("uid:0/{n}"), from: "/a".into(), to: "/b".into() };
    let mut take = |n: u32, with: f64| {
        let proposal = Proposal { concerned: Vec::new(), ..proposal(stage(n), 0.5) };
        let Some(Step::Do(decision)) = controller.propose(f64::from(n), proposal) else { panic!("{n}") };
        controller.ended(f64::from(n), decision.id, effect(with), true)
    };
    take(1, 1.01);
    take(2, 1.01);
    take(3, 0.5);
    take(4, 1.0);
    // One good one among them carried it; now there is none.
    take(5, 1.1);
    take(6, 1.0);
    assert!(controller.state(0).stopped.as_ref().unwrap().contains("+3.3 %"), "{:?}", controller.state(0));
    assert_eq!(controller.propose(7.0, proposal(stage(7), 0.5)), None);
    controller.resume(0);
    assert!(controller.propose(8.0, proposal(stage(7), 0.5)).is_some());
}

#[test]
fn what_is_measured_beside_one_that_ended_is_measured_from_then_on() {
    for is_undone in [false, true] {
        let mut controller = Controller::new(vec![rule(Limits::default())], false, 1);
        let mut io_s = 0.0;
        for second in 0..60u32 {
            // The first decision changes nothing; the second makes everything three times as slow as long as it lasts.
            io_s += if (24..28).contains(&second) { 3.0 } else { 1.0 };
            let (now_s, bytes) = (f64::from(second), 1_000_000 * u64::from(second + 1));
            let facts = [job("a", 5.0, bytes, io_s), job("b", 50.0, bytes, io_s)];
            assert_eq!(controller.look(now_s, &facts), Vec::new(), "{second}");
            let concerned = facts.iter().map(JobFacts::key).collect();
            let take = |change| {
                let step = controller.propose(now_s, Proposal { concerned, ..proposal(change, 0.4) });
                assert!(matches!(step, Some(Step::Do(_))), "{second}");
            };
            match second {
                20 => take(periods(&[("a", 5.0)])),
                23 => take(periods(&[("b", 50.0)])),
                27 if is_undone => assert!(controller.undo(now_s, 2, "somebody asked for it").is_some()),
                27 => controller.failed(now_s, 2, "no answer"),
                _ => {}
            }
        }
        let first = controller.decisions().next().unwrap();
        assert_eq!(first.state, State::Standing);
        let Verdict::Measured(effect) = &first.verdict else { panic!("{first:?}") };
        assert!(effect.change().abs() < 1e-9, "{effect:?}");
    }
}

#[test]
fn a_job_that_is_not_seen_for_a_moment_is_given_its_size_back_and_one_that_has_ended_is_not() {
    for (unseen_s, is_given_back) in [(1, true), (40, true), (90, false)] {
        let mut controller = Controller::new(vec![rule(Limits::default())], false, 1);
        let facts = |second: u32| [job("a", 5.0, 1_000_000 * u64::from(second + 1), f64::from(second))];
        for second in 0..20 {
            controller.look(f64::from(second), &facts(second));
        }
        let change = Change::Resize { job: "uid:1000/a".to_owned(), from: 2, to: 4 };
        let resize = Proposal { measure: Measure::Progress, ..proposal(change, 0.4) };
        assert!(controller.propose(20.0, resize).is_some());
        for second in 20..20 + unseen_s {
            assert_eq!(controller.look(f64::from(second), &[]), Vec::new());
        }
        if is_given_back {
            controller.look(f64::from(20 + unseen_s), &facts(20 + unseen_s));
        }
        assert_eq!(controller.withdraw("the end").len(), usize::from(is_given_back), "{unseen_s}");
    }
}

#[test]
fn a_job_that_comes_or_goes_makes_the_measurement_unclear() {
    for change_at in [false, true] {
        let mut controller = Controller::new(vec![rule(Limits::default())], false, 1);
        let facts = |id: &str, second: u64| job(id, 5.0, 1_000_000 * (second + 1), second as f64);
        for second in 0..20 {
            controller.look(second as f64, &[facts("a", second), facts("b", second)]);
        }
        controller.propose(19.0, proposal(periods(&[("a", 5.0), ("b", 5.0)]), 0.4)).unwrap();
        for second in 20..40 {
            let mut jobs = vec![facts("a", second)];
            match change_at {
                false => {}
                true => jobs.extend([facts("b", second), facts("c", second)]),
            }
            assert_eq!(controller.look(second as f64, &jobs), Vec::new());
        }
        let decision = controller.decisions().next().unwrap();
        let Verdict::Unclear(why) = &decision.verdict else { panic!("{decision:?}") };
        assert_eq!(why, if change_at { "job c came meanwhile" } else { "job b ended meanwhile" });
        assert_eq!(decision.state, State::Standing, "what cannot be judged is no harm");
    }
}

#[test]
fn what_is_not_expected_to_pay_or_beyond_the_limits_is_declined_and_told_once() {
    let limits = Limits { most_jobs: 1, most_per_hour: 2, ..Limits::default() };
    let mut controller = Controller::new(vec![rule(limits)], false, 1);
    let mut why = |now_s: f64, proposal: Proposal| {
        assert_eq!(controller.propose(now_s, proposal), None);
        let last = controller.decisions().next_back().unwrap();
        (last.state.reason().unwrap_or_default().to_owned(), controller.decisions().count())
    };
    let small = || proposal(periods(&[("a", 5.0)]), 0.04);
    assert_eq!(
        why(0.0, small()),
        ("it would change the time in I/O per byte by -4.0 %; a decision must save 5.0 %".into(), 1)
    );
    assert_eq!(why(10.0, small()).1, 1, "put off");
    assert_eq!(why(100.0, small()).1, 1, "declined again, and told once");
    let unknown = Proposal { expected: None, ..proposal(periods(&[("b", 5.0)]), 0.0) };
    assert_eq!(why(0.0, unknown).0, "nobody can tell what would come of it");
    let nonsense = proposal(periods(&[("x", 5.0)]), f64::NAN);
    assert_eq!(why(0.0, nonsense).0, "nobody can tell what would come of it");
    let two = proposal(periods(&[("c", 5.0), ("d", 5.0)]), 0.5);
    assert_eq!(why(0.0, two).0, "the rule may hold 1 jobs at once");
    for now_s in [1.0, 2.0] {
        let step = controller.propose(now_s, proposal(periods(&[("e", 5.0 * now_s)]), 0.5));
        assert!(step.is_some(), "{now_s}");
    }
    assert_eq!(controller.propose(3.0, proposal(periods(&[("e", 50.0)]), 0.5)), None);
    assert!(controller.propose(3603.0, proposal(periods(&[("e", 50.0)]), 0.5)).is_some(), "an hour later");
}

#[test]
fn a_dry_run_does_nothing_and_says_what_it_would_do() {
    let mut controller = Controller::new(vec![rule(Limits::default())], true, 7);
    assert_eq!(controller.propose(0.0, proposal(periods(&[("a", 5.0)]), 0.5)), None);
    let decision = controller.decisions().next().unwrap();
    assert_eq!((decision.id, &decision.state), (7, &State::DryRun));
    assert_eq!(controller.withdraw("the end"), Vec::new());
}

#[test]
fn a_target_is_told_what_it_does_not_know_and_nothing_that_another_told_it() {
    let jobs =
        [job("a", 5.0, 0, 0.0), job("b", 50.0, 0, 0.0), job("c", 500.0, 0, 0.0), job("d", 9.0, 0, 0.0)];
    let seen = |name: &str, period_s, is_given| AtTarget { name: name.to_owned(), period_s, is_given };
    let target = [
        seen("uid:1000/a", None, false),
        seen("b", Some(51.0), false),
        seen("c", Some(5.0), true),
        seen("d", Some(90.0), false),
        seen("stranger", None, false),
    ];
    let mut heeded = AcceptedHints::default();
    let known: Vec<KnownJob> = jobs.iter().map(KnownJob::from).collect();
    let changes = |heeded: &AcceptedHints, held: &HashMap<String, f64>| -> Vec<(String, Option<f64>, f64)> {
        let changes = period_changes(&rule(Limits::default()), &jobs, &target, heeded, held);
        changes.into_iter().map(|new| (new.at, new.former_s, new.period_s)).collect()
    };
    heeded.look(0.0, Some(&known));
    assert_eq!(changes(&heeded, &HashMap::new()), Vec::new(), "seen once only");
    heeded.look(13.0, Some(&known));
    assert_eq!(
        changes(&heeded, &HashMap::new()),
        [("uid:1000/a".into(), None, 5.0)],
        "longer than its period"
    );
    heeded.look(1000.0, Some(&known));
    let told = changes(&heeded, &HashMap::new());
    assert_eq!(told, [("uid:1000/a".into(), None, 5.0), ("d".into(), Some(90.0), 9.0)]);
    let held = HashMap::from([("uid:1000/a".to_owned(), 5.2), ("uid:1000/c".to_owned(), 5.0)]);
    assert_eq!(changes(&heeded, &held), [("c".into(), Some(5.0), 500.0), ("d".into(), Some(90.0), 9.0)]);
}

#[test]
fn a_star_stands_for_anything() {
    for (pattern, name, fits) in [
        ("lmp*", "lmp_mpi", true),
        ("*", "", true),
        ("", "", true),
        ("", "a", false),
        ("a*b*c", "a--b-b-c", true),
        ("a*b*c", "a--b-b-", false),
        ("*.x", "run.x", true),
        ("lmp", "lmp_mpi", false),
        ("é*", "été", true),
    ] {
        assert_eq!(Pattern::new(pattern).fits(name), fits, "{pattern} {name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever is proposed, measured and said: what was done is undone at most once, nothing is undone that was not done, limits hold, and in
    /// the end nothing stands.
    #[test]
    fn everything_that_was_done_is_undone_or_over(steps in proptest::collection::vec((0u8..6, 0usize..4, 0.01f64..2.0), 1..80)) {
        let limits = Limits { most_jobs: 2, most_per_hour: 10, ..Limits::default() };
        let mut controller = Controller::new(vec![rule(limits)], false, 1);
        let ids = ["a", "b", "c", "d"];
        let (mut bytes, mut io_s) = ([1u64; 4], [0.0; 4]);
        let mut present = [true; 4];
        let mut done: HashSet<u64> = HashSet::new();
        let mut n_done = 0;
        for (n, (kind, which, figure)) in steps.into_iter().enumerate() {
            let now_s = 3.0 * n as f64;
            let mut steps = Vec::new();
            match kind {
                0 => steps.extend(controller.propose(now_s, proposal(periods(&[(ids[which], 10.0 * figure)]), figure / 2.0))),
                1 => present[which] = !present[which],
                2 => steps.extend(controller.undo(now_s, which as u64 + 1, "asked for")),
                3 if which == 0 => steps.extend(controller.stop(0, "asked for")),
                3 => controller.resume(0),
                4 => controller.failed(now_s, which as u64 + 1, "no"),
                _ => {
                    bytes[which] += (1e6 * figure) as u64;
                    io_s[which] += figure;
                }
            }
            let jobs: Vec<JobFacts> = (0..4).filter(|i| present[*i]).map(|i| job(ids[i], 10.0, bytes[i], io_s[i])).collect();
            steps.extend(controller.look(now_s, &jobs));
            for step in steps {
                match step {
                    Step::Do(decision) => {
                        prop_assert!(done.insert(decision.id));
                        n_done += 1;
                    }
                    Step::Undo(decision) => prop_assert!(done.remove(&decision.id), "{} was not done", decision.id),
                }
            }
            prop_assert!(n_done <= 10, "within this hour");
            prop_assert!(controller.held_periods(0).len() <= 2);
            if controller.state(0).stopped.is_some() {
                prop_assert_eq!(controller.standing(0).count(), 0);
            }
        }
        controller.withdraw("the end");
        prop_assert_eq!(controller.standing(0).count(), 0);
    }
}
