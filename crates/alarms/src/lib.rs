//! Alarms: rules that are looked at each second, by a thread of their own.
//!
//! The thread takes the values of each second, and the rules that come and go; it leaves out a second that it has no time for. A change is on disk before any
//! receiver gets it, unless the disk fails: an alarm about a full disk is sent all the same. After a restart, what fired goes on firing, and is not sent again.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::Instant;

use iotide_analysis::Why;
use iotide_ledger::alarm::{Rule, RuleName};
use iotide_private::Limits;
use iotide_report::{AlarmList, AlarmRule, AlarmState};
use tokio::sync::oneshot;

use crate::store::{AlarmStore, Firing};
use iotide_daemon::collect::{GroupJob, NodeReading};
use iotide_daemon::events::Events;
use iotide_daemon::leaf::{JobView, View};
use iotide_daemon::predict::Expectations;
use iotide_daemon::series::Series;
use iotide_daemon::store::{Reader, StoreError};
use iotide_daemon::why::{AskedJob, Evidence};
use machine::Machine;
pub use names::check as check_names;
use routes::Outbox;
pub use routes::{Route, RouteFigures};
use values::Seen;

mod labels;
mod machine;
mod names;
mod routes;
mod slowdowns;
mod store;
mod values;

/// Rules in all and of one user; some are for the operator alone.
const RULES: Limits = Limits { places: 1024, per_user: 32, reserve: 128 };
/// Begins and ends that are shown.
const MOST_SHOWN: usize = 1000;
/// Changes that could not be stored yet.
const MOST_UNSAVED: usize = 1000;
/// Questions and seconds that wait for the thread.
const MOST_WAITING: usize = 64;

/// Why a rule cannot be changed.
#[derive(Debug)]
pub enum Refused {
    /// There is one of this name.
    Exists,
    /// There is none of this name.
    Unknown,
    /// There are too many.
    TooMany,
    /// It cannot be stored.
    Store(String),
    /// Too much is going on.
    Busy,
}

type Reply = oneshot::Sender<Result<(), Refused>>;

enum Work {
    Second(Second),
    Add(Box<Rule>, Reply),
    Delete(Option<u32>, RuleName, Reply),
    /// A receiver has taken something.
    Told,
}

/// State of jobs and machine in one second.
pub struct Second {
    /// The jobs.
    pub view: Arc<View>,
    /// The machine.
    pub node: Arc<NodeReading>,
    /// Jobs that have cgroups.
    pub groups: Arc<Vec<GroupJob>>,
}

/// Alarms as they are shown.
#[derive(Debug, Default)]
struct Shown {
    rules: Vec<Rule>,
    firing: Vec<AlarmState>,
    /// The latest last.
    history: Vec<AlarmState>,
}

/// Handle on the alarms: for questions, and for the state of each second.
#[derive(Debug)]
pub struct Alarms {
    work: SyncSender<Work>,
    shown: Arc<RwLock<Arc<Shown>>>,
    routes: Vec<Arc<Outbox>>,
    fault: Arc<Mutex<Option<String>>>,
    /// Threads of routes end when this is gone.
    alive: Arc<()>,
}

/// Inputs of the thread.
pub struct Needs {
    /// Whether the store had a database of alarms before.
    pub was_one: bool,
    /// The directory of the store.
    pub store: PathBuf,
    /// The name of this machine.
    pub node: String,
    /// Those who listen.
    pub events: Events,
    /// Predictions for jobs.
    pub expectations: Expectations,
    /// Metrics over time.
    pub series: Series,
    /// The receivers of the site.
    pub routes: Vec<Route>,
    /// Whether the receivers of the site get users' alarms, too.
    pub sends_users_alarms: bool,
}

impl Needs {
    /// Whether receivers get an alarm.
    fn sends(&self, state: &AlarmState) -> bool {
        state.owner.is_none() || self.sends_users_alarms
    }

    /// Compares a running job with earlier runs, as `iotide why --job` does; `None` where the evidence cannot be read.
    fn why(&self, view: &View, job: &JobView) -> Option<Why> {
        let reader = Reader::open(&self.store).ok()?;
        let evidence = Evidence { reader: &reader, series: &self.series, view };
        let asked = AskedJob { key: &job.key, about: &job.about, end_ns: None };
        evidence.why(asked).ok().map(|answer| answer.why)
    }
}

impl Alarms {
    /// Opens what is stored and starts the threads. They end when this is dropped. Returns what was lost with a damaged database.
    pub fn start(needs: Needs, now_ns: u64) -> Result<(Self, Option<String>), StoreError> {
        let (mut store, loss) = AlarmStore::open(&needs.store, needs.was_one, now_ns)?;
        let mut outboxes = Vec::new();
        for route in &needs.routes {
            let told = store.told(&route.name())?;
            let unsent = store.changes(told, routes::MOST_WAITING)?;
            let outbox = Arc::new(Outbox::new(route.clone(), needs.node.clone(), told));
            let is_sent = |change: &&Firing| needs.sends(&change.state);
            unsent.iter().filter(is_sent).for_each(|change| outbox.push(&change.state));
            outboxes.push(outbox);
        }
        let mut machine = Machine::new(now_ns);
        for rule in store.rules()? {
            machine.add(rule);
        }
        for firing in store.firing()? {
            machine.restore(firing);
        }
        let mut history: Vec<AlarmState> =
            store.changes(0, MOST_SHOWN)?.into_iter().map(|it| it.state).collect();
        keep_latest(&mut history, MOST_SHOWN, |state| state.owner);
        let (work, todo) = sync_channel(MOST_WAITING);
        let alarms = Self {
            work,
            shown: Arc::default(),
            routes: outboxes.clone(),
            fault: Arc::default(),
            alive: Arc::new(()),
        };
        let last_id = store.last_id()?;
        let mut watching = Watching {
            store,
            machine,
            history,
            last_id,
            unsaved: Vec::new(),
            shown: Arc::clone(&alarms.shown),
            routes: outboxes,
            fault: Arc::clone(&alarms.fault),
            begun: (Instant::now(), now_ns),
            needs,
        };
        watching.show();
        for outbox in &alarms.routes {
            let (weak, alive) = (Arc::downgrade(outbox), Arc::downgrade(&alarms.alive));
            let told = alarms.work.clone();
            // It ends soon after these are dropped: nobody waits for a receiver that does not answer.
            let _ = thread::Builder::new().name("iotide-route".to_owned()).spawn(move || {
                let told = || drop(told.try_send(Work::Told));
                routes::run(&weak, || alive.strong_count() > 0, told);
            });
        }
        let _ = thread::Builder::new().name("iotide-alarms".to_owned()).spawn(move || watching.run(&todo));
        Ok((alarms, loss))
    }

    /// Tells what a second has shown; nobody waits.
    pub fn tell(&self, second: Second) {
        let _ = self.work.try_send(Work::Second(second));
    }

    /// Adds a rule; the answer comes when it is on disk.
    pub fn add(&self, rule: Rule) -> oneshot::Receiver<Result<(), Refused>> {
        self.ask(|reply| Work::Add(Box::new(rule), reply))
    }

    /// Deletes a rule. What fires by it is over.
    pub fn delete(&self, owner: Option<u32>, name: RuleName) -> oneshot::Receiver<Result<(), Refused>> {
        self.ask(|reply| Work::Delete(owner, name, reply))
    }

    fn ask(&self, work: impl FnOnce(Reply) -> Work) -> oneshot::Receiver<Result<(), Refused>> {
        let (reply, answer) = oneshot::channel();
        // What is not taken is dropped, and so is its reply.
        let _ = self.work.try_send(work(reply));
        answer
    }

    /// All that a user may see, or all.
    pub fn list(&self, only_uid: Option<u32>) -> AlarmList {
        let shown = Arc::clone(&self.shown.read().unwrap_or_else(PoisonError::into_inner));
        let sees = |owner: Option<u32>| only_uid.is_none() || owner == only_uid;
        let of = |states: &[AlarmState]| -> Vec<AlarmState> {
            states.iter().rev().filter(|state| sees(state.owner)).cloned().collect()
        };
        AlarmList {
            rules: shown.rules.iter().filter(|rule| sees(rule.owner)).map(AlarmRule::of).collect(),
            firing: of(&shown.firing),
            history: of(&shown.history),
        }
    }

    /// How many rules there are, and how many alarms fire.
    pub fn counts(&self) -> (usize, usize) {
        let shown = self.shown.read().unwrap_or_else(PoisonError::into_inner);
        (shown.rules.len(), shown.firing.len())
    }

    /// Returns the outcome of notifications, for each receiver.
    pub fn routes(&self) -> Vec<RouteFigures> {
        let mut all: Vec<RouteFigures> = Vec::new();
        for mut figures in self.routes.iter().map(|outbox| outbox.figures()) {
            while all.iter().any(|other| other.target == figures.target) {
                figures.target.push('+');
            }
            all.push(figures);
        }
        all
    }

    /// Why alarms cannot be stored.
    pub fn fault(&self) -> Option<String> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The thread.
struct Watching {
    needs: Needs,
    store: AlarmStore,
    machine: Machine,
    history: Vec<AlarmState>,
    last_id: u64,
    unsaved: Vec<Firing>,
    shown: Arc<RwLock<Arc<Shown>>>,
    routes: Vec<Arc<Outbox>>,
    fault: Arc<Mutex<Option<String>>>,
    /// When the thread was begun, by a clock that nobody sets, and by that of the machine.
    begun: (Instant, u64),
}

impl Watching {
    fn run(mut self, todo: &Receiver<Work>) {
        while let Ok(work) = todo.recv() {
            match work {
                Work::Second(second) => {
                    let at_ns = self.now_ns();
                    let seen = Seen {
                        view: &second.view,
                        node: &second.node,
                        groups: &second.groups,
                        expectations: &self.needs.expectations,
                        why: &|job| self.needs.why(&second.view, job),
                    };
                    let changes = self.machine.second(at_ns, &seen, &self.needs.series);
                    self.changed(changes);
                    self.save_told();
                }
                Work::Told => self.save_told(),
                Work::Add(rule, reply) => {
                    let _ = reply.send(self.add(*rule));
                }
                Work::Delete(owner, name, reply) => {
                    let _ = reply.send(self.delete(owner, &name));
                }
            }
        }
        self.save_told();
    }

    /// The time, which never goes back.
    fn now_ns(&self) -> u64 {
        self.begun.1 + u64::try_from(self.begun.0.elapsed().as_nanos()).unwrap_or(u64::MAX / 2)
    }

    fn add(&mut self, rule: Rule) -> Result<(), Refused> {
        let rules = self.machine.rules();
        if rules.iter().any(|known| (known.owner, &known.name) == (rule.owner, &rule.name)) {
            return Err(Refused::Exists);
        }
        let n_own = rules.iter().filter(|known| known.owner == rule.owner).count();
        if !RULES.allows(rule.owner.unwrap_or(0), n_own, rules.len()) {
            return Err(Refused::TooMany);
        }
        self.store.put(&rule).map_err(|error| Refused::Store(error.to_string()))?;
        self.machine.add(rule);
        self.show();
        Ok(())
    }

    fn delete(&mut self, owner: Option<u32>, name: &RuleName) -> Result<(), Refused> {
        let is_known = self.machine.rules().iter().any(|rule| rule.owner == owner && rule.name == *name);
        if !is_known {
            return Err(Refused::Unknown);
        }
        self.store.delete(owner, name.as_str()).map_err(|error| Refused::Store(error.to_string()))?;
        let at_ns = self.now_ns();
        let changes = self.machine.delete(at_ns, owner, name);
        self.changed(changes);
        self.show();
        Ok(())
    }

    /// Stores, shows and reports changes.
    fn changed(&mut self, mut changes: Vec<Firing>) {
        if changes.is_empty() && self.unsaved.is_empty() {
            return;
        }
        for change in &mut changes {
            self.last_id += 1;
            change.state.id = self.last_id;
            self.machine.number(change);
        }
        self.unsaved.extend(changes.iter().cloned());
        match self.store.change(&self.unsaved) {
            Ok(()) => self.unsaved.clear(),
            Err(error) => {
                keep_latest(&mut self.unsaved, MOST_UNSAVED, |change| change.state.owner);
                self.set_fault(Some(error.to_string()));
            }
        }
        if self.unsaved.is_empty() {
            self.set_fault(None);
        }
        for change in &changes {
            if self.needs.sends(&change.state) {
                self.routes.iter().for_each(|outbox| outbox.push(&change.state));
            }
            self.needs.events.alarm(&change.state);
        }
        if !changes.is_empty() {
            self.history.extend(changes.into_iter().map(|change| change.state));
            keep_latest(&mut self.history, MOST_SHOWN, |state| state.owner);
            self.show();
        }
    }

    fn set_fault(&self, fault: Option<String>) {
        *self.fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// Stores the last change that each route has delivered.
    fn save_told(&mut self) {
        for outbox in &self.routes {
            if let Some(id) = outbox.take_told()
                && let Err(error) = self.store.set_told(&outbox.name(), id)
            {
                self.set_fault(Some(error.to_string()));
            }
        }
    }

    fn show(&mut self) {
        let shown = Shown {
            rules: self.machine.rules().to_vec(),
            firing: self.machine.firing(),
            history: self.history.clone(),
        };
        *self.shown.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(shown);
    }
}

/// Keeps `most` of a list in order of time. The oldest of the owner who has most go, those of the operator last.
fn keep_latest<T>(list: &mut Vec<T>, most: usize, owner_of: impl Fn(&T) -> Option<u32>) {
    let Some(mut n_over) = list.len().checked_sub(most).filter(|n| *n > 0) else { return };
    let mut n_of: HashMap<Option<u32>, usize> = HashMap::new();
    list.iter().for_each(|item| *n_of.entry(owner_of(item)).or_default() += 1);
    let mut n_gone: HashMap<Option<u32>, usize> = HashMap::new();
    while n_over > 0 {
        let Some((owner, n)) = n_of.iter_mut().max_by_key(|(owner, n)| (**n, owner.is_some(), **owner))
        else {
            return;
        };
        *n -= 1;
        *n_gone.entry(*owner).or_default() += 1;
        n_over -= 1;
    }
    list.retain(|item| match n_gone.get_mut(&owner_of(item)) {
        Some(n) if *n > 0 => {
            *n -= 1;
            false
        }
        _ => true,
    });
}

/// Firing alarms by rule and target.
type ByTarget<T> = HashMap<String, T>;

#[cfg(test)]
mod tests {
    use super::keep_latest;

    #[test]
    fn who_fills_a_list_loses_what_is_own_and_the_latest_stay() {
        let mut list: Vec<(Option<u32>, u32)> = vec![(None, 0), (Some(7), 1)];
        list.extend((2..3000).map(|at| (Some(1000), at)));
        keep_latest(&mut list, 1000, |(owner, _)| *owner);
        assert_eq!(
            (list.len(), list[0], list[1], list[2]),
            (1000, (None, 0), (Some(7), 1), (Some(1000), 2002))
        );
        keep_latest(&mut list, 2, |(owner, _)| *owner);
        assert_eq!(list, [(None, 0), (Some(7), 1)]);
    }
}
