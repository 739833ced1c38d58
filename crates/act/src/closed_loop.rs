//! `[act]` of `iotide serve`: what is measured decides by itself, within rules.
//!
//! A thread beside the daemon looks at the jobs now and then, proposes what its rules permit, carries out what
//! [`iotide_sched::act::Controller`] decides, and writes all of it down. What it does elsewhere is lent: an arbiter that does not hear of it for
//! some seconds forgets it, those who stage end with it, and a helper job of Slurm is cancelled by the next, so that nothing is left half-done by a
//! controller that was killed.

use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use iotide_edge::{OperatorRequest, Steering};
use iotide_report::{DecisionList, RulePlace, text};
use iotide_sched::act::{Change, Controller, Decision, JobFacts, Proposal, Step, Verdict};
use iotide_sched::{AcceptedHints, KnownJob};

use crate::log::Log;
use crate::resizer::Resizer;
use crate::settings::{ActSettings, Place};
use crate::stagers::Stagers;
use crate::target::Target;

/// The daemon that a controller belongs to.
#[derive(Clone, Debug)]
pub struct Seat {
    /// Where it is asked.
    pub socket: PathBuf,
    /// Where jobs count.
    pub pages: PathBuf,
    /// Where decisions are written down.
    pub store: PathBuf,
}

/// What there is to see when a rule is considered.
pub(crate) struct Look<'a> {
    pub(crate) now_s: f64,
    pub(crate) rule: usize,
    pub(crate) jobs: &'a [JobFacts],
    pub(crate) controller: &'a Controller,
    pub(crate) accepted: &'a AcceptedHints,
}

impl Look<'_> {
    /// The period of a job, if it has stayed the same for long enough to decide by it.
    pub(crate) fn period_s(&self, job: &JobFacts) -> Option<f64> {
        self.accepted.steady_period_s(&job.id, Some(job.uid))
    }
}

/// What has become of a decision since the last look.
pub(crate) enum News {
    /// It is in force only now.
    Begun(u64),
    /// It could not be carried out.
    Failed(u64, String),
    /// This came of it; and if it is over, there is nothing left to take back.
    Ended { id: u64, verdict: Verdict, is_over: bool },
}

/// Who carries out what a rule permits. None of this waits for others for more than a second.
pub(crate) trait Executor: Send {
    /// What could be decided now; an error is what keeps the rule from acting at all.
    fn propose(&mut self, look: &Look<'_>) -> anyhow::Result<Vec<Proposal>>;

    /// Does it. What is lent is lent for so long.
    fn carry_out(&mut self, decision: &Decision, lent_s: f64) -> anyhow::Result<()>;

    /// Says again what was lent.
    fn lend(&mut self, _decision: &Decision, _lent_s: f64) -> anyhow::Result<()> {
        Ok(())
    }

    fn take_back(&mut self, decision: &Decision) -> anyhow::Result<()>;

    /// What has become of decisions; these are the jobs that run.
    fn news(&mut self, _jobs: &[JobFacts]) -> Vec<News> {
        Vec::new()
    }

    /// Waits until what was taken back is.
    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// A job as evidence has it.
pub(crate) fn in_words(job: &JobFacts) -> String {
    let program = if job.program.is_empty() { String::new() } else { format!(" ({})", job.program) };
    format!(
        "{}{program}: period {}, confidence {}, {} a phase",
        job.id,
        job.period_s.map_or("unknown".to_owned(), text::seconds),
        text::percent(job.confidence),
        job.bytes_per_phase.map_or("unknown".to_owned(), text::bytes),
    )
}

/// A controller at work; dropped, it takes back what it did, and ends.
pub struct Acting {
    until_dropped: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Acting {
    /// Begins to act.
    pub fn start(settings: &ActSettings, steering: Steering, seat: &Seat) -> anyhow::Result<Self> {
        let log = Log::open(&seat.store)
            .with_context(|| format!("cannot write down decisions in {}", seat.store.display()))?;
        let actors: Vec<Box<dyn Executor>> =
            (0..settings.places.len()).map(|rule| executor(settings, rule, seat)).collect();
        let mut work = Work {
            controller: Controller::new(settings.rules.clone(), settings.is_dry_run, log.next_id()),
            places: settings.places.iter().map(Place::shown).collect(),
            troubles: vec![None; actors.len()],
            actors,
            accepted: settings
                .rules
                .iter()
                .map(|rule| AcceptedHints::above(rule.limits.least_confidence))
                .collect(),
            steering,
            log,
            began: Instant::now(),
            began_unix_s: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0.0, |since| since.as_secs_f64()),
            every_s: settings.every_s,
        };
        work.show();
        let (until_dropped, is_dropped) = mpsc::channel();
        let every = Duration::from_secs_f64(settings.every_s);
        let thread = thread::Builder::new().name("iotide-act".to_owned()).spawn(move || {
            while is_dropped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                work.look();
            }
            work.end();
        })?;
        Ok(Self { until_dropped: Some(until_dropped), thread: Some(thread) })
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        drop(self.until_dropped.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn executor(settings: &ActSettings, rule: usize, seat: &Seat) -> Box<dyn Executor> {
    match &settings.places[rule] {
        Place::Control { socket, bandwidth_bps } => Box::new(Target::new(socket.clone(), *bandwidth_bps)),
        Place::Stage(place) => Box::new(Stagers::new(place.clone(), seat.clone())),
        Place::Resize(place) => {
            let partition = settings.rules[rule].scope.only_partition().map(str::to_owned);
            Box::new(Resizer::new(place, partition, settings.every_s, seat, rule))
        }
    }
}

struct Work {
    controller: Controller,
    actors: Vec<Box<dyn Executor>>,
    places: Vec<RulePlace>,
    troubles: Vec<Option<String>>,
    /// The periods that each rule goes by.
    accepted: Vec<AcceptedHints>,
    steering: Steering,
    log: Log,
    began: Instant,
    began_unix_s: f64,
    every_s: f64,
}

impl Work {
    /// What is lent is lent for so many looks, so that one that comes late costs nothing.
    const LENT_FOR: f64 = 5.0;
    const LEAST_LENT_S: f64 = 5.0;

    fn now_s(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    fn look(&mut self) {
        // Without a daemon (it begins, or reads its settings again) there is nothing to decide on; what stands is lent on.
        if let Some(jobs) = self.steering.jobs() {
            for request in self.steering.take_requests() {
                self.answer(&request);
            }
            let steps = self.controller.look(self.now_s(), &jobs);
            self.carry_out(steps);
            let (now_s, known) = (self.now_s(), jobs.iter().map(KnownJob::from).collect::<Vec<_>>());
            self.accepted.iter_mut().for_each(|accepted| accepted.look(now_s, Some(&known)));
            for rule in 0..self.actors.len() {
                self.take_news(rule, &jobs);
                self.consider(rule, &jobs);
            }
        }
        self.lend();
        self.show();
    }

    /// Notes what has become of decisions.
    fn take_news(&mut self, rule: usize, jobs: &[JobFacts]) {
        let now_s = self.now_s();
        for news in self.actors[rule].news(jobs) {
            let steps = match news {
                News::Begun(id) => {
                    self.controller.begun(now_s, id);
                    if let Some(Change::Resize { job, .. }) = self.controller.change(id) {
                        self.steering.was_resized(job);
                    }
                    Vec::new()
                }
                News::Failed(id, why) => {
                    self.controller.failed(now_s, id, &why);
                    Vec::new()
                }
                News::Ended { id, verdict, is_over } => self.controller.ended(now_s, id, verdict, is_over),
            };
            self.carry_out(steps);
        }
    }

    /// Proposes what a rule would do now.
    fn consider(&mut self, rule: usize, jobs: &[JobFacts]) {
        let now_s = self.now_s();
        let look = Look { now_s, rule, jobs, controller: &self.controller, accepted: &self.accepted[rule] };
        match self.actors[rule].propose(&look) {
            Ok(proposals) => {
                self.troubles[rule] = None;
                let steps: Vec<Step> =
                    proposals.into_iter().filter_map(|it| self.controller.propose(now_s, it)).collect();
                self.carry_out(steps);
            }
            Err(error) => self.troubles[rule] = Some(format!("{error:#}")),
        }
    }

    fn carry_out(&mut self, steps: Vec<Step>) {
        for step in steps {
            let (decision, is_undone) = match &step {
                Step::Do(decision) => (decision, false),
                Step::Undo(decision) => (decision, true),
            };
            let lent_s = self.lent_s();
            let actor = &mut self.actors[decision.rule];
            let done = if is_undone { actor.take_back(decision) } else { actor.carry_out(decision, lent_s) };
            match done {
                Ok(()) => {}
                // What is not said again is forgotten there.
                Err(error) if is_undone => self.troubles[decision.rule] = Some(format!("{error:#}")),
                Err(error) => self.controller.failed(self.now_s(), decision.id, &format!("{error:#}")),
            }
        }
    }

    fn lent_s(&self) -> f64 {
        (Self::LENT_FOR * self.every_s).max(Self::LEAST_LENT_S)
    }

    /// Says again what stands.
    fn lend(&mut self) {
        let lent_s = self.lent_s();
        for (rule, actor) in self.actors.iter_mut().enumerate() {
            for decision in self.controller.standing(rule) {
                if let Err(error) = actor.lend(decision, lent_s) {
                    self.troubles[rule] = Some(format!("{error:#}"));
                    break;
                }
            }
        }
    }

    /// Does what an operator asks for.
    fn answer(&mut self, request: &OperatorRequest) {
        let rule_of = |name: &str| self.controller.rules().iter().position(|rule| rule.name == name);
        let now_s = self.now_s();
        let steps = match request {
            OperatorRequest::Undo(id) => {
                self.controller.undo(now_s, *id, "somebody asked for it").into_iter().collect()
            }
            OperatorRequest::Stop(name) => match rule_of(name) {
                Some(rule) => self.controller.stop(rule, "somebody asked for it"),
                None => Vec::new(),
            },
            OperatorRequest::Resume(name) => {
                if let Some(rule) = rule_of(name) {
                    self.controller.resume(rule);
                }
                Vec::new()
            }
        };
        self.carry_out(steps);
    }

    /// Shows what was decided to those who ask the daemon, and writes it down.
    fn show(&mut self) {
        let list = DecisionList::of(
            &self.controller,
            &self.places,
            &self.troubles,
            self.began_unix_s,
            self.log.before(),
        );
        self.log.write(&list.decisions);
        self.steering.show(list);
    }

    fn end(&mut self) {
        let steps = self.controller.withdraw("the controller ended");
        self.carry_out(steps);
        for (actor, trouble) in self.actors.iter_mut().zip(&mut self.troubles) {
            if let Err(error) = actor.finish() {
                *trouble = Some(format!("{error:#}"));
            }
        }
        self.show();
        self.steering.show(DecisionList::default());
    }
}
