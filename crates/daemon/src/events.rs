//! What happens, for those who want to be told: jobs that begin and end, what is expected of them, models that were fitted anew, alarms.
//!
//! Who does not read in time misses events and nothing else: nobody waits for a listener. How many were missed is the first thing it reads then.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use iotide_ledger::{About, JobKey, Name};
use iotide_report::{
    AlarmState, JobEvent, MissedEvents, ModelEvent, PredictionEvent, RatesEvent, answer_json,
};
use tokio::sync::mpsc::{Receiver, Sender, channel, error::TrySendError};

use crate::leaf::{Act, JobView, View};
use crate::memory;
use crate::predict::Expected;

/// Events that wait for a listener.
const MOST_WAITING: usize = 64;
/// In silence a listener is sent something after this time, so that one that is gone is noticed.
const SILENCE: Duration = Duration::from_secs(15);

/// Jobs whose rates are told at once: the busiest.
const MOST_RATES: usize = 500;

/// What a listener is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hears {
    /// Everything.
    All,
    /// What happens to one user.
    User(u32),
    /// Which models were fitted anew, of everyone.
    Models,
}

impl Hears {
    fn of(self, uid: u32, kind: &str) -> bool {
        match self {
            Self::All => true,
            Self::User(own) => own == uid,
            Self::Models => kind == "model",
        }
    }
}

/// Where events are told, and heard of.
#[derive(Clone, Debug, Default)]
pub struct Events(Arc<Mutex<Listeners>>);

#[derive(Debug, Default)]
struct Listeners {
    listeners: Vec<Listener>,
    /// Jobs that have begun and not ended.
    running: HashMap<JobKey, About>,
    said: Option<Instant>,
}

#[derive(Debug)]
struct Listener {
    hears: Hears,
    /// Whether it is told each second what jobs move.
    wants_rates: bool,
    queue: Sender<Bytes>,
    n_missed: u64,
}

impl Events {
    fn lock(&self) -> std::sync::MutexGuard<'_, Listeners> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Listens to what happens from now on, until what is returned is dropped. The first piece is there at once.
    pub fn listen(&self, hears: Hears, wants_rates: bool) -> Receiver<Bytes> {
        let (queue, events) = channel(MOST_WAITING);
        // A browser that is cut off comes back after a second.
        let _ = queue.try_send(Bytes::from_static(b"retry: 1000\n\n"));
        self.lock().listeners.push(Listener { hears, wants_rates, queue, n_missed: 0 });
        events
    }

    /// What the machine has decided, and the store has.
    pub fn acted(&self, acts: &[Act]) {
        let mut listeners = self.lock();
        for act in acts {
            match act {
                // Something new is known of a job that is known.
                Act::Job { key, about } => {
                    let known = listeners.running.insert(key.clone(), about.clone());
                    if known.is_none() {
                        listeners.job(key, about, "begun", key.start_ns);
                    }
                }
                Act::End { key, end_ns, .. } => {
                    if let Some(about) = listeners.running.remove(key) {
                        listeners.job(key, &about, "ended", *end_ns);
                        memory::shrink(&mut listeners.running);
                    }
                }
                _ => {}
            }
        }
    }

    /// Something else than before is expected of a job.
    pub fn expected(&self, key: &JobKey, expected: &Expected) {
        let event = PredictionEvent {
            job: key.id.as_str().into(),
            period_s: expected.period_s,
            confidence: expected.confidence,
            next_phase_unix_s: expected.next_phase_unix_s,
            bytes_per_phase: expected.bytes_per_phase,
        };
        self.lock().tell(key.uid, "prediction", &answer_json(&event));
    }

    /// Models of an application were fitted anew.
    pub fn fitted(&self, uid: u32, app: &Name, n_runs: usize) {
        let event = ModelEvent { app: app.as_str().into(), runs: n_runs };
        self.lock().tell(uid, "model", &answer_json(&event));
    }

    /// What jobs move now.
    pub fn rates(&self, view: &View) {
        let mut listeners = self.lock();
        // One text for all who see the same.
        let mut told: HashMap<Hears, Bytes> = HashMap::new();
        listeners.listeners.retain_mut(|listener| {
            if !listener.wants_rates || listener.hears == Hears::Models {
                return true;
            }
            let event = told.entry(listener.hears).or_insert_with(|| rates_of(view, listener.hears));
            listener.offer(event)
        });
    }

    /// An alarm begins or is over: its owner and those who see all are told.
    pub fn alarm(&self, state: &AlarmState) {
        // A number that no user has: listeners to everyone's events hear it.
        self.lock().tell(state.owner.unwrap_or(u32::MAX), "alarm", &answer_json(state));
    }

    /// Gives a sign of life if nothing happens, and forgets those who are gone.
    pub fn tick(&self) {
        let mut listeners = self.lock();
        if listeners.said.is_none_or(|said| said.elapsed() >= SILENCE) {
            listeners.said = Some(Instant::now());
            listeners.send_all(&Bytes::from_static(b":\n\n"));
        }
    }
}

impl Listeners {
    fn job(&mut self, key: &JobKey, about: &About, event: &'static str, at_ns: u64) {
        let event = JobEvent {
            job: key.id.as_str().into(),
            user: about.user.as_str().into(),
            app: about.app.as_str().into(),
            name: about.name.as_str().into(),
            event,
            unix_s: at_ns as f64 / 1e9,
        };
        self.tell(key.uid, "job", &answer_json(&event));
    }

    fn tell(&mut self, uid: u32, kind: &str, json: &str) {
        if self.listeners.is_empty() {
            return;
        }
        let event = piece(kind, json);
        self.listeners.retain_mut(|listener| !listener.hears.of(uid, kind) || listener.offer(&event));
    }

    /// Sends something about nobody to all.
    fn send_all(&mut self, event: &Bytes) {
        self.listeners.retain_mut(|listener| listener.offer(event));
    }
}

impl Listener {
    /// Puts an event into the queue; says whether there still is someone who listens.
    fn offer(&mut self, event: &Bytes) -> bool {
        if self.n_missed > 0 {
            let missed = answer_json(&MissedEvents { events: self.n_missed });
            match self.queue.try_send(piece("missed", &missed)) {
                Ok(()) => self.n_missed = 0,
                Err(TrySendError::Full(_)) => {}
                Err(TrySendError::Closed(_)) => return false,
            }
        }
        match self.queue.try_send(event.clone()) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => {
                self.n_missed += 1;
                true
            }
            Err(TrySendError::Closed(_)) => false,
        }
    }
}

fn rates_of(view: &View, hears: Hears) -> Bytes {
    let mut jobs: Vec<&JobView> = view.jobs.iter().filter(|job| hears.of(job.key.uid, "rates")).collect();
    if jobs.len() > MOST_RATES {
        jobs.sort_by(|a, b| (b.read_bps + b.write_bps).total_cmp(&(a.read_bps + a.write_bps)));
        jobs.truncate(MOST_RATES);
    }
    let jobs =
        jobs.into_iter().map(|job| (job.key.id.as_str(), [job.read_bps.round(), job.write_bps.round()]));
    piece("rates", &answer_json(&RatesEvent { unix_s: view.at_ns as f64 / 1e9, jobs: jobs.collect() }))
}

/// As `text/event-stream` has it. An answer is one line, with its end.
fn piece(kind: &str, answer: &str) -> Bytes {
    format!("event: {kind}\ndata: {answer}\n").into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_ledger::JobId;

    fn key(uid: u32) -> JobKey {
        JobKey { cluster: Name::default(), uid, id: JobId::new("a").unwrap(), start_ns: 5_000_000_000 }
    }

    fn begun(uid: u32) -> Act {
        let name = |text: &str| Name::cut(text.as_bytes());
        let about = About {
            user: name("ada"),
            app: name("app"),
            name: name("lmp\nevent: evil"),
            size: 1,
            ..About::default()
        };
        Act::Job { key: key(uid), about }
    }

    fn heard(events: &mut Receiver<Bytes>) -> Vec<String> {
        std::iter::from_fn(|| events.try_recv().ok())
            .map(|piece| String::from_utf8(piece.to_vec()).unwrap())
            .collect()
    }

    #[test]
    fn a_job_begins_once_and_ends_once_and_is_nobody_elses_business() {
        let events = Events::default();
        let (mut all, mut own, mut other) = (
            events.listen(Hears::All, false),
            events.listen(Hears::User(1), false),
            events.listen(Hears::User(2), false),
        );
        events.acted(&[begun(1)]);
        events.acted(&[
            begun(1),
            Act::End { key: key(1), end_ns: 7_500_000_000, silent: Vec::new(), own: None },
        ]);
        let told = heard(&mut own);
        assert_eq!(told.len(), 3, "{told:?}");
        assert_eq!(told[0], "retry: 1000\n\n");
        assert!(told[1].contains("\"begun\"") && told[2].contains("\"ended\""), "{told:?}");
        assert!(told[2].contains("7.5"), "{told:?}");
        // Whatever a program is called, it makes no event.
        let n_events = |piece: &String| piece.lines().filter(|line| line.starts_with("event:")).count();
        assert!(told[1..].iter().all(|piece| n_events(piece) == 1), "{told:?}");
        assert_eq!(heard(&mut all), told);
        assert_eq!(heard(&mut other).len(), 1);
    }

    #[test]
    fn who_does_not_read_misses_events_and_learns_how_many() {
        let events = Events::default();
        let mut slow = events.listen(Hears::All, false);
        for _ in 0..MOST_WAITING + 10 {
            events.fitted(1, &Name::default(), 3);
        }
        assert_eq!(heard(&mut slow).len(), MOST_WAITING);
        events.fitted(1, &Name::default(), 4);
        let told = heard(&mut slow);
        assert!(told[0].starts_with("event: missed\n") && told[0].contains("11"), "{told:?}");
        assert!(told[1].starts_with("event: model\n"), "{told:?}");
    }

    #[test]
    fn rates_are_for_those_who_ask_and_of_jobs_they_may_see() {
        let events = Events::default();
        let (mut all, mut own, mut models, mut quiet) = (
            events.listen(Hears::All, true),
            events.listen(Hears::User(1), true),
            events.listen(Hears::Models, true),
            events.listen(Hears::All, false),
        );
        let job = |uid: u32, id: &str| JobView {
            key: JobKey { id: JobId::new(id).unwrap(), ..key(uid) },
            about: About::default(),
            counters: Arc::default(),
            n_running: 1,
            nodes: Arc::from([]),
            read_bps: 1.0,
            write_bps: 2.0,
        };
        events.rates(&View { jobs: vec![job(1, "mine"), job(2, "theirs")], ..View::default() });
        let (of_all, of_own) = (heard(&mut all), heard(&mut own));
        assert!(of_all[1].contains("\"mine\":[1.0,2.0]") && of_all[1].contains("theirs"), "{of_all:?}");
        assert!(of_own[1].contains("mine") && !of_own[1].contains("theirs"), "{of_own:?}");
        assert_eq!((heard(&mut models).len(), heard(&mut quiet).len()), (1, 1));
        // A controller hears of models, and of no job.
        events.acted(&[begun(1)]);
        events.fitted(1, &Name::default(), 3);
        let told = heard(&mut models);
        assert!(told.len() == 1 && told[0].starts_with("event: model\n"), "{told:?}");
    }

    #[test]
    fn who_is_gone_is_forgotten() {
        let events = Events::default();
        drop(events.listen(Hears::All, false));
        events.tick();
        assert!(events.lock().listeners.is_empty());
    }

    #[test]
    fn of_thousands_of_jobs_that_have_ended_no_room_is_kept() {
        let events = Events::default();
        let key = |n: u32| JobKey { id: JobId::made_of(&n.to_string()), ..key(7) };
        let begun: Vec<Act> = (0..3000).map(|n| Act::Job { key: key(n), about: About::default() }).collect();
        events.acted(&begun);
        assert!(events.lock().running.capacity() >= 3000);
        let end = |n| Act::End { key: key(n), end_ns: 9, silent: Vec::new(), own: None };
        events.acted(&(0..3000).map(end).collect::<Vec<_>>());
        let listeners = events.lock();
        assert_eq!(listeners.running.len(), 0);
        assert!(listeners.running.capacity() < 200, "{}", listeners.running.capacity());
    }
}
