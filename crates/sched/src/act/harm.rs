//! Cost of a decision for single jobs, whatever it brings the others.

use super::tests::{job, periods, proposal, rule};
use super::*;

/// A job that moves a million bytes a second.
#[derive(Clone, Copy)]
struct Model {
    name: &'static str,
    /// The share of its time that it is in I/O.
    share: f64,
    /// By what factor its I/O takes longer from 20 s on.
    factor: f64,
    /// The standard deviation of what its I/O takes in a second, as a share.
    noise: f64,
}

const SHORT: [Model; 2] = [model("short-1", 0.3, 0.4), model("short-2", 0.3, 0.4)];

const fn model(name: &'static str, share: f64, factor: f64) -> Model {
    Model { name, share, factor, noise: 0.0 }
}

/// Numbers that nobody arranged: about normal, of mean 0 and standard deviation 1.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> f64 {
        let mut uniform = || {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 11) as f64 / (1u64 << 53) as f64
        };
        (0..12).map(|_| uniform()).sum::<f64>() - 6.0
    }
}

fn controller(n_rules: usize) -> Controller {
    let rules = (0..n_rules).map(|n| Rule { name: n.to_string(), ..rule(Limits::default()) }).collect();
    Controller::new(rules, false, 1)
}

/// Actions of jobs, second by second, and the decisions meanwhile: `act` sees each second, and the jobs as they are then.
struct Play {
    models: Vec<Model>,
    controller: Controller,
    steps: Vec<Step>,
    io_s: Vec<f64>,
    chance: Chance,
}

impl Play {
    fn new(models: &[Model], controller: Controller, seed: u64) -> Self {
        let io_s = vec![0.0; models.len()];
        Self { models: models.to_vec(), controller, steps: Vec::new(), io_s, chance: Chance(seed) }
    }

    fn run(
        &mut self,
        seconds: std::ops::Range<u32>,
        mut act: impl FnMut(u32, &mut Controller, &[Model]) -> Vec<Step>,
    ) {
        for second in seconds {
            for (model, io_s) in self.models.iter().zip(&mut self.io_s) {
                let factor = if second > 20 { model.factor } else { 1.0 };
                *io_s += model.share * factor * (1.0 + model.noise * self.chance.next());
            }
            let facts: Vec<JobFacts> = self
                .models
                .iter()
                .zip(&self.io_s)
                .map(|(model, io_s)| job(model.name, 5.0, 1_000_000 * u64::from(second + 1), *io_s))
                .collect();
            self.steps.extend(self.controller.look(f64::from(second), &facts));
            self.steps.extend(act(second, &mut self.controller, &self.models));
        }
    }
}

/// A proposal that concerns all jobs, as all that share a storage are concerned.
fn for_all(models: &[Model], change: Change) -> Proposal {
    let concerned = models.iter().map(|model| format!("uid:1000/{}", model.name)).collect();
    Proposal { concerned, ..proposal(change, 0.4) }
}

/// Decides something about the first job at 20 s.
fn decided(models: &[Model], seed: u64) -> Play {
    let mut play = Play::new(models, controller(1), seed);
    play.run(0..40, |second, controller, models| match second {
        20 => {
            let change = periods(&[(models[0].name, 5.0)]);
            controller.propose(20.0, for_all(models, change)).into_iter().collect()
        }
        _ => Vec::new(),
    });
    play
}

fn undone(steps: &[Step]) -> Vec<u64> {
    let id = |step: &Step| match step {
        Step::Undo(decision) => Some(decision.id),
        Step::Do(_) => None,
    };
    steps.iter().filter_map(id).collect()
}

#[test]
fn what_helps_the_mean_and_costs_one_job_five_percent_of_its_time_is_taken_back_for_its_sake() {
    let [a, b] = SHORT;
    let mut play = decided(&[a, b, model("long", 0.5, 1.1)], 1);
    assert_eq!(undone(&play.steps), [1]);
    let decision = play.controller.decisions().next().unwrap().clone();
    let Verdict::Measured(effect) = &decision.verdict else { panic!("{decision:?}") };
    assert!(effect.change() < -0.4, "the mean says nothing of it: {effect:?}");
    assert_eq!(decision.state, State::Undone("it cost job long 5.0 % of its time".to_owned()));
    let [JobLoss { job, time, error, io_change }] = &decision.harmed[..] else { panic!("{decision:?}") };
    assert_eq!(job, "uid:1000/long");
    assert!((time - 0.05).abs() < 1e-9 && *error < 1e-9 && (io_change - 0.1).abs() < 1e-9, "{decision:?}");
    // Nothing is left of it, and it is not tried again soon.
    assert_eq!(play.controller.standing(0).count(), 0);
    let again = || for_all(&play.models, periods(&[("short-1", 5.0)]));
    assert_eq!(play.controller.propose(100.0, again()), None);
    assert!(play.controller.propose(300.0, again()).is_some());
}

#[test]
fn what_costs_a_job_one_percent_of_its_time_stands() {
    let [a, b] = SHORT;
    // Little more I/O of one that is in it for half of its time, or much more of one that hardly is.
    for long in [model("long", 0.5, 1.02), model("long", 0.01, 2.0)] {
        let play = decided(&[a, b, long], 1);
        assert_eq!(undone(&play.steps), Vec::<u64>::new());
        let decision = play.controller.decisions().next().unwrap();
        assert_eq!((&decision.state, &decision.harmed[..]), (&State::Standing, &[][..]));
    }
}

#[test]
fn several_jobs_are_named_who_lost_most_first() {
    let [a, b] = SHORT;
    let play =
        decided(&[a, b, model("less", 0.3, 1.1), model("most", 0.5, 1.1), model("least", 0.3, 1.08)], 1);
    let decision = play.controller.decisions().next().unwrap();
    let names: Vec<&str> = decision.harmed.iter().map(|loss| id_of(&loss.job)).collect();
    assert_eq!(names, ["most", "less", "least"]);
    assert_eq!(decision.state.reason(), Some("it cost job most 5.0 % of its time, and 2 others too much"));
}

#[test]
fn noise_of_a_job_that_is_hardly_in_io_undoes_nothing() {
    let [a, b] = SHORT;
    for seed in 0..100 {
        let noisy = Model { noise: 0.1, ..model("noisy", 0.01, 1.0) };
        let play = decided(&[a, b, noisy], seed);
        assert_eq!(undone(&play.steps), Vec::<u64>::new(), "{seed}");
    }
}

#[test]
fn of_many_noisy_jobs_one_that_is_slow_by_chance_seldom_undoes_anything() {
    const NAMES: [&str; 16] =
        ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"];
    let noisy = |name| Model { noise: 0.2, ..model(name, 0.5, 1.0) };
    let mut models: Vec<Model> = NAMES.map(noisy).to_vec();
    // Those who gain keep the mean from saying anything.
    models.extend(SHORT);
    models.iter_mut().filter(|model| model.noise == 0.0).for_each(|model| model.factor = 0.1);
    let n_undone = (0..60).filter(|seed| !undone(&decided(&models, *seed).steps).is_empty()).count();
    // By two standard errors each, half of all decisions would be.
    assert!(n_undone <= 6, "{n_undone} of 60");
    // What is no chance is found among them.
    models[3].factor = 3.0;
    let n_undone = (0..60).filter(|seed| !undone(&decided(&models, *seed).steps).is_empty()).count();
    assert!(n_undone >= 54, "{n_undone} of 60");
}

#[test]
fn what_was_measured_together_is_taken_back_together_and_what_others_decided_stands() {
    let [a, b] = SHORT;
    let models = [a, b, model("long", 0.5, 1.1)];
    let mut play = Play::new(&models, controller(2), 1);
    play.run(0..60, |second, controller, models| {
        let change = match second {
            20 => periods(&[("short-1", 5.0)]),
            23 => periods(&[("short-2", 5.0)]),
            _ => return Vec::new(),
        };
        let mut proposals = vec![for_all(models, change)];
        if second == 20 {
            // Another rule, about a job that gains.
            let staged = Change::Stage { job: "uid:1000/short-2".into(), from: "/a".into(), to: "/b".into() };
            proposals.push(Proposal { rule: 1, measure: Measure::Harm, ..proposal(staged, 0.5) });
        }
        proposals.into_iter().filter_map(|it| controller.propose(f64::from(second), it)).collect()
    });
    // The latest first, each once.
    assert_eq!(undone(&play.steps), [3, 1]);
    for id in [1, 3] {
        let decision = play.controller.decisions().find(|it| it.id == id).unwrap();
        assert_eq!(decision.state.reason(), Some("it cost job long 5.0 % of its time"));
    }
    assert_eq!(play.controller.standing(0).count(), 0);
    assert_eq!(play.controller.standing(1).count(), 1);
    assert_eq!(play.controller.withdraw("the end").len(), 1, "only what still stands is undone");
}

#[test]
fn harm_to_one_job_with_which_its_rule_ends_is_undone_once() {
    let mut play = Play::new(&[model("a", 0.5, 1.0), model("b", 0.5, 1.2)], controller(1), 1);
    let in_vain = |controller: &mut Controller, n: u32| {
        let change = Change::Resize { job: format!("uid:0/{n}"), from: 2, to: 1 };
        let proposal = Proposal { concerned: Vec::new(), ..proposal(change, 0.5) };
        let Some(Step::Do(decision)) = controller.propose(f64::from(n), proposal) else { panic!("{n}") };
        let effect = Effect { quantity: Quantity::Wait, without: 1.0, with: 1.01 };
        controller.ended(f64::from(n), decision.id, Verdict::Measured(effect), true)
    };
    play.run(0..60, |second, controller, models| match second {
        1 | 2 => in_vain(controller, second),
        20 => {
            let step = controller.propose(20.0, for_all(models, periods(&[("a", 5.0)])));
            step.into_iter().collect()
        }
        _ => Vec::new(),
    });
    assert!(play.controller.state(0).stopped.is_some());
    assert_eq!(undone(&play.steps), [3]);
    let last = play.controller.decisions().next_back().unwrap();
    assert_eq!(last.harmed.len(), 1, "whom it harmed is known all the same");
    assert_eq!(play.controller.standing(0).count(), 0);
    assert_eq!(play.controller.withdraw("the end"), Vec::new());
}

#[test]
fn what_several_decisions_cost_a_job_adds_up() {
    // Each costs the job 1.5 % of its time.
    let mut play = Play::new(&[model("a", 0.3, 0.5), model("long", 0.5, 1.03)], controller(1), 1);
    play.run(0..32, |second, controller, models| match second {
        20 => controller.propose(20.0, for_all(models, periods(&[("a", 5.0)]))).into_iter().collect(),
        _ => Vec::new(),
    });
    assert_eq!(undone(&play.steps), Vec::<u64>::new());
    // One that is expected to cost it a little more is not begun with; one that is not stays to be measured.
    let loses = |job: &str, lost: f64| vec![(format!("uid:1000/{job}"), lost)];
    let second = |models: &[Model], losses| Proposal {
        expected_losses: losses,
        ..for_all(models, periods(&[("long", 50.0)]))
    };
    let models = play.models.clone();
    assert_eq!(play.controller.propose(31.0, second(&models, loses("long", 0.01))), None);
    let declined = play.controller.decisions().next_back().unwrap();
    let why = "it would cost job long 1.0 % of its time, and it loses 1.5 % by others already; no job may lose more than 2 %";
    assert_eq!(declined.state, State::Declined(why.to_owned()));
    play.run(32..100, |_, _, _| Vec::new());
    play.models[1].factor = 1.06;
    let step = play.controller.propose(99.0, second(&models, loses("a", 0.01)));
    assert!(step.is_some());
    play.run(100..120, |_, _, _| Vec::new());
    let standing: Vec<u64> = play.controller.standing(0).map(|decision| decision.id).collect();
    assert_eq!(standing, [1], "the first costs what it may");
    let last = play.controller.decisions().next_back().unwrap();
    assert_eq!(last.state, State::Undone("it cost job long 1.5 % of its time".to_owned()));
}

#[test]
fn what_was_taken_back_costs_a_job_nothing_any_more() {
    let mut play = Play::new(&[model("a", 0.3, 0.5), model("long", 0.5, 1.03)], controller(1), 1);
    let propose = |play: &mut Play, now_s: f64, name: &str| {
        let proposal = for_all(&play.models, periods(&[(name, 5.0)]));
        assert!(play.controller.propose(now_s, proposal).is_some(), "{name}");
    };
    play.run(0..21, |_, _, _| Vec::new());
    propose(&mut play, 20.0, "a");
    play.run(21..41, |_, _, _| Vec::new());
    assert!(play.controller.undo(40.0, 1, "somebody asked for it").is_some());
    play.models[1].factor = 1.0;
    play.run(41..80, |_, _, _| Vec::new());
    propose(&mut play, 79.0, "long");
    play.models[1].factor = 1.03;
    play.run(80..100, |_, _, _| Vec::new());
    assert_eq!(undone(&play.steps), Vec::<u64>::new());
    assert_eq!(play.controller.standing(0).count(), 1, "it costs the job 1.5 %, and nothing else does");
}

#[test]
fn one_loss_that_two_rules_measure_at_once_counts_once() {
    let mut play = Play::new(&[model("a", 0.3, 0.5), model("long", 0.5, 1.03)], controller(2), 1);
    play.run(0..60, |second, controller, models| {
        if second != 20 {
            return Vec::new();
        }
        let staged = Change::Stage { job: "uid:1000/long".into(), from: "/a".into(), to: "/b".into() };
        let both = [
            for_all(models, periods(&[("a", 5.0)])),
            Proposal { rule: 1, measure: Measure::Harm, ..proposal(staged, 0.5) },
        ];
        both.into_iter().filter_map(|it| controller.propose(20.0, it)).collect()
    });
    assert_eq!(undone(&play.steps), Vec::<u64>::new());
    assert_eq!(play.controller.standing(0).chain(play.controller.standing(1)).count(), 2);
}

#[test]
fn what_would_cost_a_single_job_too_much_is_declined_whatever_it_brings_the_others() {
    let mut controller = controller(1);
    let losses = |lost: f64| vec![("uid:1000/b".to_owned(), -0.3), ("uid:1000/c".to_owned(), lost)];
    let propose = |lost| Proposal { expected_losses: losses(lost), ..proposal(periods(&[("b", 5.0)]), 0.4) };
    assert_eq!(controller.propose(0.0, propose(0.034)), None);
    let why = "it would cost job c 3.4 % of its time; no job may lose more than 2 %";
    assert_eq!(controller.decisions().next().unwrap().state, State::Declined(why.to_owned()));
    assert!(controller.propose(100.0, propose(0.019)).is_some());
}

/// A job of so many processes, of which so many write for 3 s of every 10 s, in calls of one length; from 40 s on it takes longer by a factor.
fn parallel_loss(n_processes: u32, n_writers: u32, call_s: f64, factor: f64) -> Vec<JobLoss> {
    let mut history = History::default();
    // What has ended by a time of the calls of one process.
    let ended = |at_s: f64| {
        let (mut io_s, mut n_calls) = (0.0, 0);
        let mut begin_s = 5.0;
        while begin_s < at_s {
            let length_s = call_s * if begin_s > 40.0 { factor } else { 1.0 };
            let n =
                (0..(3.0 / call_s).round() as u32).filter(|n| begin_s + f64::from(n + 1) * length_s <= at_s);
            let n = n.count() as u64;
            io_s += n as f64 * length_s;
            n_calls += n;
            begin_s += 10.0;
        }
        (io_s, n_calls)
    };
    for second in 0..=80 {
        let (io_s, n_calls) = ended(f64::from(second));
        let n_writers = u64::from(n_writers);
        let facts = JobFacts {
            n_processes,
            n_calls: n_writers * n_calls,
            ..job("a", 10.0, 1_000_000 * n_writers * n_calls, n_writers as f64 * io_s)
        };
        history.note(f64::from(second), &[facts]);
    }
    history.losses(&["uid:1000/a".to_owned()], [0.0, 40.0], [40.0, 80.0])
}

#[test]
fn what_processes_lose_side_by_side_a_job_loses_once() {
    for (n_processes, n_writers, call_s) in
        [(1, 1, 0.1), (64, 64, 0.1), (64, 1, 0.1), (64, 64, 3.0), (64, 1, 3.0)]
    {
        let losses = parallel_loss(n_processes, n_writers, call_s, 1.2);
        let [loss] = &losses[..] else { panic!("{n_processes} {n_writers} {call_s}: {losses:?}") };
        // 0.6 s of every 10 s: no less, and not many times as much.
        assert!((0.058..0.09).contains(&loss.time), "{n_processes} {n_writers} {call_s}: {loss:?}");
    }
    // As many threads as they like in one process are one process.
    let losses = parallel_loss(1, 4, 0.1, 1.2);
    assert!((losses[0].time - 0.24).abs() < 0.01, "{losses:?}");
}
