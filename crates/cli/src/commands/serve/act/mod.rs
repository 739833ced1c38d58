//! `[act]` of `iotide serve`: what is measured decides by itself, within rules.
//!
//! A thread beside the daemon looks at the jobs now and then, proposes what its rules permit, carries out what
//! [`iotide_sched::act::Controller`] decides, and writes all of it down. What it does elsewhere is lent: an arbiter that does not hear of it for
//! some seconds forgets it, so that nothing outlives a controller that was killed.

use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context;
use iotide_daemon::{Steering, Wish};
use iotide_report::DecisionList;
use iotide_sched::act::{Controller, Deed, JobFacts, Steadiness};

pub(super) use self::settings::ActSettings;

use self::log::Log;
use self::sets::Target;
use self::settings::Place;
use crate::commands::jobs::now_unix_s;

mod log;
mod sets;
mod settings;

/// A controller at work; dropped, it takes back what it did, and ends.
pub(super) struct Acting {
    until_dropped: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Acting {
    /// Begins to act. Decisions are written down in `store`.
    pub(super) fn start(settings: &ActSettings, steering: Steering, store: PathBuf) -> anyhow::Result<Self> {
        let log = Log::open(&store)
            .with_context(|| format!("cannot write down decisions in {}", store.display()))?;
        let actors: Vec<ActorOfRule> = settings.places.iter().map(ActorOfRule::new).collect();
        let mut work = Work {
            controller: Controller::new(settings.rules.clone(), settings.is_dry_run, log.next_id()),
            places: settings.places.iter().map(Place::in_words).collect(),
            troubles: vec![None; actors.len()],
            actors,
            steadiness: Steadiness::default(),
            steering,
            log,
            began: Instant::now(),
            began_unix_s: now_unix_s(),
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

/// Who carries out what a rule permits.
enum ActorOfRule {
    Sets(Target),
}

impl ActorOfRule {
    fn new(place: &Place) -> Self {
        match place {
            Place::Control { socket, bandwidth_bps } => {
                Self::Sets(Target::new(socket.clone(), *bandwidth_bps))
            }
        }
    }
}

struct Work {
    controller: Controller,
    actors: Vec<ActorOfRule>,
    places: Vec<String>,
    troubles: Vec<Option<String>>,
    steadiness: Steadiness,
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
            for wish in self.steering.take_wishes() {
                self.heed(&wish);
            }
            let deeds = self.controller.look(self.now_s(), &jobs);
            self.carry_out(deeds);
            let least = self.controller.rules().iter().map(|rule| rule.limits.least_confidence);
            let least = least.fold(1.0, f64::min);
            self.steadiness.note(self.now_s(), &jobs, least);
            for rule in 0..self.actors.len() {
                self.consider(rule, &jobs);
            }
        }
        self.lend();
        self.show();
    }

    /// Proposes what a rule would do now.
    fn consider(&mut self, rule: usize, jobs: &[JobFacts]) {
        let now_s = self.now_s();
        let proposed = match &mut self.actors[rule] {
            ActorOfRule::Sets(target) => {
                target.propose(now_s, rule, jobs, &self.controller, &self.steadiness)
            }
        };
        match proposed {
            Ok(proposals) => {
                self.troubles[rule] = None;
                let deeds: Vec<Deed> =
                    proposals.into_iter().filter_map(|it| self.controller.propose(now_s, it)).collect();
                self.carry_out(deeds);
            }
            Err(error) => self.troubles[rule] = Some(format!("{error:#}")),
        }
    }

    fn carry_out(&mut self, deeds: Vec<Deed>) {
        for deed in deeds {
            let (decision, is_undone) = match &deed {
                Deed::Do(decision) => (decision, false),
                Deed::Undo(decision) => (decision, true),
            };
            let lent_s = self.lent_s();
            let done = match &mut self.actors[decision.rule] {
                ActorOfRule::Sets(target) if is_undone => target.take_back(decision),
                ActorOfRule::Sets(target) => target.give(decision, lent_s),
            };
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
            match actor {
                ActorOfRule::Sets(target) => {
                    for decision in self.controller.standing(rule) {
                        if let Err(error) = target.give(decision, lent_s) {
                            self.troubles[rule] = Some(format!("{error:#}"));
                            break;
                        }
                    }
                }
            }
        }
    }

    fn heed(&mut self, wish: &Wish) {
        let rule_of = |name: &str| self.controller.rules().iter().position(|rule| rule.name == name);
        let now_s = self.now_s();
        let deeds = match wish {
            Wish::Undo(id) => self.controller.undo(now_s, *id, "somebody asked for it").into_iter().collect(),
            Wish::Stop(name) => match rule_of(name) {
                Some(rule) => self.controller.stop(rule, "somebody asked for it"),
                None => Vec::new(),
            },
            Wish::Resume(name) => {
                if let Some(rule) = rule_of(name) {
                    self.controller.resume(rule);
                }
                Vec::new()
            }
        };
        self.carry_out(deeds);
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
        let deeds = self.controller.withdraw("the controller ended");
        self.carry_out(deeds);
        self.show();
        self.steering.show(DecisionList::default());
    }
}
