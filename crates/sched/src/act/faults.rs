//! Outcome of decisions when something fails at any moment: laws, on a small model of a storage whose arbiter is lent periods.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::tests::{job, periods, proposal, rule};
use super::*;

const N_JOBS: usize = 4;
const IDS: [&str; N_JOBS] = ["a", "b", "c", "d"];
/// How long it takes until one can tell, in looks.
const WINDOW: u32 = 3;
/// For how many looks the arbiter is lent a period.
const LENT: u32 = 5;
/// How often harm puts a change off, in windows, the first time.
const PUT_OFF: u32 = 20;

/// Failure of a part.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    /// The daemon says nothing of jobs.
    NoData,
    /// All counters begin anew.
    BackToZero,
    /// Periods are twice as long as they should be, or half as long.
    WrongPeriods(usize),
    /// Nothing is moved for a while; calls that wait end when it is over.
    Stalled,
    /// Everything takes twenty times as long for a while.
    Slow,
    /// The arbiter does not hear what it is given …
    NotDone,
    /// … or hears it, and its answer is lost, …
    AnswerLost,
    /// … or does not hear what is taken back.
    NotTakenBack,
    /// The controller is killed, and another one begins.
    Killed,
}

const FAULTS: [Fault; 11] = [
    Fault::None,
    Fault::NoData,
    Fault::BackToZero,
    Fault::WrongPeriods(1),
    Fault::WrongPeriods(2),
    Fault::Stalled,
    Fault::Slow,
    Fault::NotDone,
    Fault::AnswerLost,
    Fault::NotTakenBack,
    Fault::Killed,
];

/// A run, from its beginning to its end.
#[derive(Clone, Debug)]
struct Case {
    fault: Fault,
    at: u32,
    n_looks: u32,
    /// When the controller ends.
    end: u32,
    /// When a person takes back what was decided last.
    undo: u32,
    /// By what factor I/O of all takes longer if a job has its period, one of twice the length, or one of half the length.
    factors: [[f64; 3]; N_JOBS],
    /// Of which job it takes longer still if a job has any period, and by what factor.
    victims: [(usize, f64); N_JOBS],
    /// Which share of their time jobs are in I/O.
    shares: [f64; N_JOBS],
    /// From when on the period of a job is known.
    wanted_from: [u32; N_JOBS],
}

impl Case {
    /// By what factor I/O of a job takes longer if another has a period.
    fn factor(&self, of: usize, (job, kind): (usize, usize)) -> f64 {
        let (victim, more) = self.victims[job];
        self.factors[job][kind] * if victim == of { more } else { 1.0 }
    }
}

/// Decisions that are measured together, as the law has it.
#[derive(Clone, Debug)]
struct Group {
    /// Numbers of decisions, and which period of which job each gives.
    members: BTreeMap<u64, (usize, usize)>,
    begun: u32,
    last: u32,
}

struct World {
    case: Case,
    controller: Controller,
    /// Periods at the arbiter: a job's period, by whom, and until when.
    lent: BTreeMap<usize, (usize, u64, u32)>,
    bytes: [u64; N_JOBS],
    io_s: [f64; N_JOBS],
    waiting_s: f64,
    done: BTreeSet<u64>,
    undone: BTreeSet<u64>,
    /// Harmful decisions: when one may be tried again, and how often it did harm.
    put_off: BTreeMap<(usize, usize), (u32, u32)>,
    groups: Vec<Group>,
    n_harms: u32,
    /// Whether a person took back what had been measured: what was measured after it is what it was measured to be no more.
    is_meddled: bool,
}

impl World {
    fn new(case: Case) -> Self {
        Self {
            case,
            controller: Controller::new(vec![rule(Limits::default())], false, 1),
            lent: BTreeMap::new(),
            bytes: [1; N_JOBS],
            io_s: [0.0; N_JOBS],
            waiting_s: 0.0,
            done: BTreeSet::new(),
            undone: BTreeSet::new(),
            put_off: BTreeMap::new(),
            groups: Vec::new(),
            n_harms: 0,
            is_meddled: false,
        }
    }

    fn is_now(&self, now: u32, fault: Fault) -> bool {
        self.case.fault == fault && (self.case.at..self.case.at + self.case.n_looks).contains(&now)
    }

    /// A second passes.
    fn pass(&mut self, now: u32) {
        self.lent.retain(|_, (.., until)| *until > now);
        let lent = || self.lent.iter().map(|(job, (kind, ..))| (*job, *kind));
        let of_job = |of: usize| lent().map(|lent| self.case.factor(of, lent)).product::<f64>();
        let busy_s: [f64; N_JOBS] = std::array::from_fn(|of| self.case.shares[of] * of_job(of));
        if self.is_now(now, Fault::Stalled) {
            self.waiting_s += 1.0;
            return;
        }
        let slow = if self.is_now(now, Fault::Slow) { 20.0 } else { 1.0 };
        let waited_s = std::mem::take(&mut self.waiting_s);
        for ((bytes, io_s), busy_s) in self.bytes.iter_mut().zip(&mut self.io_s).zip(busy_s) {
            let moved = 1e6 / slow;
            *bytes += moved as u64;
            *io_s += 1e-6 * moved * busy_s * slow + waited_s;
        }
    }

    /// Which period of which job a decision gives.
    fn kind(&self, decision: &Decision) -> (usize, usize) {
        let Change::Periods(periods) = &decision.change else { unreachable!() };
        let job = IDS.iter().position(|id| *id == periods[0].at).unwrap();
        (
            job,
            [1.0, 2.0, 0.5].iter().position(|factor| period_s(job) * factor == periods[0].period_s).unwrap(),
        )
    }

    fn carry_out(&mut self, now: u32, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Do(decision) => self.carry_out_one(now, &decision),
                Step::Undo(decision) => self.take_back(now, &decision),
            }
        }
    }

    fn carry_out_one(&mut self, now: u32, decision: &Decision) {
        assert!(self.done.insert(decision.id), "{} is done twice", decision.id);
        let (job, kind) = self.kind(decision);
        if let Some((until, n)) = self.put_off.get(&(job, kind)) {
            assert!(
                now >= *until,
                "{} did harm {n} times, and is tried again at {now}, not {until}",
                IDS[job]
            );
        }
        if !self.is_now(now, Fault::NotDone) {
            self.lent.insert(job, (kind, decision.id, now + LENT));
        }
        let open = self.groups.last_mut().filter(|open| !open.members.is_empty() && now < open.last + WINDOW);
        match open {
            Some(open) => {
                assert!(now < open.begun + WINDOW, "nobody can tell of {open:?} yet, and it goes on");
                open.members.insert(decision.id, (job, kind));
                open.last = now;
            }
            None => {
                let members = [(decision.id, (job, kind))].into();
                self.groups.push(Group { members, begun: now, last: now });
            }
        }
        if self.is_now(now, Fault::NotDone) || self.is_now(now, Fault::AnswerLost) {
            self.controller.failed(f64::from(now), decision.id, "no answer");
            self.done.remove(&decision.id);
            self.leave_group(now, decision.id);
        }
    }

    fn take_back(&mut self, now: u32, decision: &Decision) {
        assert!(self.done.contains(&decision.id), "{} was not done", decision.id);
        assert!(self.undone.insert(decision.id), "{} is undone twice", decision.id);
        if !self.is_now(now, Fault::NotTakenBack) {
            let (job, _) = self.kind(decision);
            self.lent.remove(&job);
        }
        let is_harm = |why: &str| why.starts_with("it changed") || why.starts_with("it cost");
        if decision.state.reason().is_some_and(is_harm) {
            self.n_harms += 1;
            let (until, n) = self.put_off.entry(self.kind(decision)).or_default();
            *until = now + PUT_OFF * WINDOW * 2u32.pow(*n);
            *n += 1;
        }
        self.leave_group(now, decision.id);
    }

    fn leave_group(&mut self, now: u32, id: u64) {
        for group in &mut self.groups {
            if group.members.remove(&id).is_some() {
                group.last = now;
            }
        }
    }

    fn look(&mut self, now: u32) {
        if !self.is_now(now, Fault::NoData) {
            let facts: Vec<JobFacts> =
                (0..N_JOBS).map(|i| job(IDS[i], 5.0, self.bytes[i], self.io_s[i])).collect();
            let steps = self.controller.look(f64::from(now), &facts);
            self.carry_out(now, steps);
            self.judge_the_judge(now);
            let held = self.controller.held_periods(0);
            for i in 0..N_JOBS {
                // Nobody knows the period of a job that was not seen for longer than this.
                let since_s = self.controller.history().since_s(&facts[i].key()).unwrap_or_default();
                let is_known = now >= self.case.wanted_from[i] && f64::from(now - WINDOW) >= since_s;
                if !is_known || held.contains_key(&facts[i].key()) {
                    continue;
                }
                let kind = match self.case.fault {
                    Fault::WrongPeriods(kind) if self.is_now(now, Fault::WrongPeriods(kind)) => kind,
                    _ => 0,
                };
                let change = periods(&[(IDS[i], period_s(i) * [1.0, 2.0, 0.5][kind])]);
                let proposal = Proposal {
                    concerned: facts.iter().map(JobFacts::key).collect(),
                    window_s: f64::from(WINDOW),
                    ..proposal(change, 0.4)
                };
                let step = self.controller.propose(f64::from(now), proposal);
                self.carry_out(now, step.into_iter().collect());
            }
        }
        // What stands is said again.
        let standing: Vec<Decision> = self.controller.standing(0).cloned().collect();
        for decision in standing {
            assert!(!self.undone.contains(&decision.id), "{} was taken back", decision.id);
            let (job, kind) = self.kind(&decision);
            self.lent.insert(job, (kind, decision.id, now + LENT));
        }
    }

    /// Harm that could be measured is gone at the end of its window.
    fn judge_the_judge(&self, now: u32) {
        // What fails outside it, and what was lent and not taken back, cannot be made out.
        let is_blurred = |group: &Group| {
            let is_brief = matches!(self.case.fault, Fault::None | Fault::WrongPeriods(_));
            let over = self.case.at + self.case.n_looks + LENT;
            !is_brief && self.case.at <= now && group.begun < over + WINDOW
        };
        let factor = |group: &Group, of: usize| {
            group.members.values().map(|lent| self.case.factor(of, *lent)).product::<f64>()
        };
        let told: Vec<&Group> = self.groups.iter().filter(|group| now >= group.last + WINDOW).collect();
        for group in told.iter().filter(|group| !is_blurred(group)) {
            let mean = (0..N_JOBS).map(|of| factor(group, of).ln()).sum::<f64>() / N_JOBS as f64;
            assert!(mean.exp() < 1.0201, "{group:?} makes all slower by {} at {now}", mean.exp());
        }
        // Nor does any job lose more of its time by all of them together.
        let is_clear = |group: &Group| group.members.is_empty() || !is_blurred(group);
        if self.is_meddled || !self.groups.iter().all(is_clear) {
            return;
        }
        for (of, share) in self.case.shares.iter().enumerate() {
            let lost = share * (told.iter().map(|group| factor(group, of)).product::<f64>() - 1.0);
            assert!(lost < 0.0201, "{} loses {lost} of its time by {told:?} at {now}", IDS[of]);
        }
    }

    fn run(&mut self) {
        for now in 0..self.case.end {
            self.pass(now);
            if self.case.fault == Fault::BackToZero && now == self.case.at {
                (self.bytes, self.io_s) = ([1; N_JOBS], [0.0; N_JOBS]);
            }
            if self.case.fault == Fault::Killed && now == self.case.at {
                let next_id = self.done.last().map_or(1, |id| id + 1);
                self.controller = Controller::new(vec![rule(Limits::default())], false, next_id);
                self.put_off.clear();
                self.groups.clear();
            }
            self.look(now);
            let latest = self.controller.standing(0).last().map(|decision| decision.id);
            if let Some(id) = latest.filter(|_| now == self.case.undo) {
                // Those that were measured together with it are what they were measured to be no more; that is the person's doing.
                let is_told = |group: &Group| now >= group.last + WINDOW && group.members.contains_key(&id);
                self.is_meddled |= self.groups.iter().any(is_told);
                self.groups.retain(|group| now < group.last + WINDOW || !group.members.contains_key(&id));
                let step = self.controller.undo(f64::from(now), id, "somebody asked for it");
                self.carry_out(now, step.into_iter().collect());
            }
            for (job, (_, id, until)) in &self.lent {
                let is_standing = self.controller.standing(0).any(|decision| decision.id == *id);
                assert!(is_standing || *until <= now + LENT, "job {job} has its period for ever");
            }
        }
        let steps = self.controller.withdraw("the end");
        self.carry_out(self.case.end, steps);
        assert_eq!(self.controller.standing(0).count(), 0);
        for id in self.lent.values().map(|(_, id, _)| id) {
            let is_lost = matches!(self.case.fault, Fault::NotTakenBack | Fault::AnswerLost | Fault::Killed);
            assert!(is_lost, "decision {id} was not taken back");
        }
        // What nobody took back runs out.
        self.pass(self.case.end + LENT);
        assert!(self.lent.is_empty(), "{:?}", self.lent);
    }
}

/// The true period of a job.
fn period_s(job: usize) -> f64 {
    [5.0, 50.0, 500.0, 20.0][job]
}

fn cases(
    faults: &'static [Fault],
    factors: &'static [f64],
    victims: &'static [f64],
) -> impl Strategy<Value = Case> {
    let factors = prop::array::uniform4(prop::array::uniform3(prop::sample::select(factors)));
    let victims = prop::array::uniform4((0..N_JOBS, prop::sample::select(victims)));
    let shares = prop::array::uniform4(prop::sample::select(&[0.01, 0.1, 0.3, 1.0][..]));
    let wanted_from = prop::array::uniform4(WINDOW..60);
    let times = (0u32..120, 1u32..40, 60u32..250, 0u32..120);
    (prop::sample::select(faults), times, factors, victims, shares, wanted_from).prop_map(
        |(fault, (at, n_looks, end, undo), factors, victims, shares, wanted_from)| Case {
            fault,
            at,
            n_looks,
            end,
            undo,
            factors,
            victims,
            shares,
            wanted_from,
        },
    )
}

const ANY_FACTORS: [f64; 9] = [0.5, 0.8, 0.95, 1.0, 1.01, 1.05, 1.1, 1.5, 2.0];
const ANY_VICTIMS: [f64; 5] = [1.0, 1.015, 1.06, 1.25, 3.0];

proptest! {
    /// Whatever fails, and whenever: nothing is done twice, nothing undone that was not done, harm that can be measured, to all or to a single job, is gone
    /// after its window and not tried again before it may, and in the end nothing is left.
    #[test]
    fn nothing_is_left_half_done_and_harm_is_taken_back_whatever_fails(case in cases(&FAULTS, &ANY_FACTORS, &ANY_VICTIMS)) {
        World::new(case).run();
    }

    /// Bounds the loss of a single job: a decision that pays for all but one stands only if that one loses next to nothing, so no job is
    /// slower by more than 2 % of its time for longer than the measurement takes.
    #[test]
    fn no_job_is_slower_by_more_than_it_may_be_for_longer_than_it_takes_to_tell(
        case in cases(&[Fault::None], &[0.5, 0.8, 1.0], &ANY_VICTIMS)
    ) {
        World::new(Case { undo: 250, ..case }).run();
    }

    /// Decisions that do not pay end with their rule.
    #[test]
    fn a_rule_whose_decisions_only_do_harm_stops_after_three_times(case in cases(&[Fault::None, Fault::WrongPeriods(1), Fault::NoData], &[1.05, 1.5], &ANY_VICTIMS)) {
        let mut world = World::new(Case { end: 300, undo: 300, ..case });
        world.run();
        prop_assert!(world.controller.state(0).stopped.is_some());
        prop_assert!(world.controller.state(0).judged.len() == 3);
    }

    /// A storage that stalls once is no reason to use a rule no more, whose decisions pay.
    #[test]
    fn one_stall_stops_no_rule_that_pays(case in cases(&[Fault::Stalled, Fault::Slow], &[0.5, 0.7, 0.9], &[1.0])) {
        let mut world = World::new(Case { end: 250, undo: 250, ..case });
        world.run();
        prop_assert_eq!(&world.controller.state(0).stopped, &None);
        prop_assert!(world.n_harms as usize <= N_JOBS, "{} decisions were taken back", world.n_harms);
    }
}

/// Jobs whose results are staged, each by a decision of its own; all of them are slower by a factor from a moment on.
fn staged(n_jobs: usize, factor: f64) -> (Controller, Vec<Step>) {
    let names: Vec<String> = (0..n_jobs).map(|n| format!("job{n}")).collect();
    let mut controller = Controller::new(vec![rule(Limits::default())], false, 1);
    let (mut io_s, mut steps) = (0.0, Vec::new());
    for second in 0..40u32 {
        io_s += if second < 25 { 1.0 } else { factor };
        let facts: Vec<JobFacts> =
            names.iter().map(|name| job(name, 5.0, 1_000_000 * u64::from(second + 1), io_s)).collect();
        steps.extend(controller.look(f64::from(second), &facts));
        for facts in facts.iter().filter(|_| second == 20) {
            let change = Change::Stage { job: facts.key(), from: "/a".into(), to: "/b".into() };
            let staging = Proposal { measure: Measure::Harm, ..proposal(change, 0.5) };
            assert!(controller.propose(20.0, staging).is_some());
        }
    }
    (controller, steps)
}

#[test]
fn what_slows_all_staged_jobs_at_once_is_one_reason_and_not_as_many_as_there_are_jobs() {
    let (controller, steps) = staged(5, 4.0);
    assert_eq!(steps.len(), 5, "all are taken back");
    assert_eq!(controller.state(0).judged.len(), 1);
    assert_eq!(controller.state(0).stopped, None);
}

#[test]
fn what_costs_a_staged_job_next_to_nothing_of_its_time_is_no_harm() {
    // Three times as slow: of a job that is in I/O for a thousandth of its time, and of one that is for a fifth.
    for (share, is_taken_back) in [(0.001, false), (0.2, true)] {
        let mut controller = Controller::new(vec![rule(Limits::default())], false, 1);
        let (mut io_s, mut steps) = (0.0, Vec::new());
        for second in 0..40u32 {
            io_s += if second < 21 { share } else { 3.0 * share };
            let facts = [job("a", 5.0, 1_000_000 * u64::from(second + 1), io_s)];
            steps.extend(controller.look(f64::from(second), &facts));
            if second == 20 {
                let change = Change::Stage { job: facts[0].key(), from: "/a".into(), to: "/b".into() };
                let staging = Proposal { measure: Measure::Harm, ..proposal(change, 0.5) };
                assert!(controller.propose(20.0, staging).is_some());
            }
        }
        assert_eq!(steps.len(), usize::from(is_taken_back), "{share}: {steps:?}");
    }
}

#[test]
fn harm_is_put_off_twice_as_long_each_time_whatever_else_keeps_it_from_being_tried() {
    let mut controller = Controller::new(vec![rule(Limits::default())], false, 1);
    let (mut bytes, mut io_s) = (1, 0.0);
    let mut taken = Vec::new();
    // One that pays among them keeps the rule in use.
    let mut n_good = 0;
    for second in 0..2000u32 {
        let is_held = controller.held_periods(0).contains_key("uid:1000/a");
        bytes += 1_000_000;
        io_s += if is_held { 1.1 } else { 1.0 };
        let now_s = f64::from(second);
        controller.look(now_s, &[job("a", 5.0, bytes, io_s)]);
        if second < 20 || controller.held_periods(0).contains_key("uid:1000/a") {
            continue;
        }
        // Now and then it is not expected to pay, which is declined.
        let gain = if second % 7 == 0 { 0.0 } else { 0.4 };
        if let Some(Step::Do(decision)) = controller.propose(now_s, proposal(periods(&[("a", 5.0)]), gain)) {
            taken.push(second);
            let effect = Effect { quantity: Quantity::Wait, without: 1.0, with: 0.1 };
            let change = Change::Resize { job: format!("uid:0/{n_good}"), from: 2, to: 1 };
            let good = Proposal { concerned: Vec::new(), ..proposal(change, 0.5) };
            let Some(Step::Do(good)) = controller.propose(now_s, good) else { panic!("{decision:?}") };
            controller.ended(now_s, good.id, Verdict::Measured(effect), true);
            n_good += 1;
        }
    }
    let apart: Vec<u32> = taken.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // A window until one can tell, and 20, 40, 80 of them; once it was declined in between, for a minute.
    assert_eq!(apart.len(), 3, "{taken:?}");
    for (apart, windows) in apart.iter().zip([20, 40, 80]) {
        assert!((10 * (windows + 1)..10 * (windows + 1) + 70).contains(apart), "{taken:?}");
    }
}

#[test]
fn what_a_slow_job_does_can_be_measured_however_often_one_looks() {
    for every_s in [0.2, 2.0] {
        let mut history = History::default();
        let n_looks = (3900.0 / every_s) as u32;
        for look in 0..n_looks {
            let at_s = f64::from(look) * every_s;
            // From half of the time on, a byte takes twice as long.
            let io_s = at_s + (at_s - 1950.0).max(0.0);
            history.note(at_s, &[job("a", 900.0, (1e6 * at_s) as u64, io_s)]);
        }
        let end_s = f64::from(n_looks - 1) * every_s;
        let effect = history.change(&["uid:1000/a".to_owned()], [150.0, 1950.0], [1950.0, end_s]).unwrap();
        assert!((effect.change() - 1.0).abs() < 0.02, "{every_s}: {effect:?}");
        assert!(
            history
                .change(&["uid:1000/a".to_owned()], [end_s - 2.0, end_s - 1.0], [end_s - 1.0, end_s])
                .is_some()
                == (every_s < 1.0)
        );
    }
}
