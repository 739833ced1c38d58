//! The thread that fits models. Users take turns at it: many applications of one are fitted between those of others, not before them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, TrySendError};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use iotide_ledger::{JobKey, Name};
use iotide_private::{Limits, Share};
use tokio::sync::oneshot;

use super::{Fitted, Kept, MOST_BYTES, MOST_KEPT, Source, Waited, Wanted, Watchers, Work};
use crate::events::Events;

/// An application rests for this many times as long as its fit took: many short runs cost a tenth of a core, not one.
const REST: u32 = 9;
/// Applications with runs that are not in their models yet. Others are fitted when they are asked for.
const DUE: Limits = Limits::among_users(4096);
/// Users whose last turn is remembered.
const MOST_REMEMBERED: usize = 4096;

/// A question that waits for models.
pub struct Question {
    pub wanted: Wanted,
    pub asker: u32,
    pub reply: oneshot::Sender<Waited>,
    /// Given back when it is worked on.
    pub place: Share,
}

/// When each user had a turn: the one whose last turn is longest ago is next.
#[derive(Default)]
struct Rounds {
    last: HashMap<u32, u64>,
    n_turns: u64,
}

impl Rounds {
    /// The turn that a user had last; root comes first.
    fn last(&self, user: u32) -> u64 {
        if user == 0 { 0 } else { self.last.get(&user).copied().unwrap_or(0) }
    }

    fn count(&mut self, user: u32) {
        self.n_turns += 1;
        if self.last.len() >= MOST_REMEMBERED {
            self.last.clear();
        }
        self.last.insert(user, self.n_turns);
    }
}

/// The thread.
pub(super) struct Fitting {
    pub source: Box<dyn Source>,
    pub has_fitted: Arc<AtomicBool>,
    pub events: Events,
    pub(super) watchers: Watchers,
    pub kept: Arc<RwLock<Arc<Kept>>>,
    /// Questions that wait, in the order in which they came.
    asked: Vec<Question>,
    turns_asked: Rounds,
    /// Applications with runs that are not in their models, and when these are to be fitted.
    due: HashMap<(u32, Name), Instant>,
    turns_due: Rounds,
    /// Until when an application rests.
    rests: HashMap<(u32, Name), Instant>,
}

impl Fitting {
    pub fn new(source: Box<dyn Source>, events: Events) -> Self {
        Self {
            source,
            has_fitted: Arc::default(),
            events,
            watchers: Watchers::default(),
            kept: Arc::default(),
            asked: Vec::new(),
            turns_asked: Rounds::default(),
            due: HashMap::new(),
            turns_due: Rounds::default(),
            rests: HashMap::new(),
        }
    }

    pub fn run(mut self, todo: &Receiver<Work>) {
        loop {
            let next = self.due.values().min().copied();
            let mut work = match next {
                _ if !self.asked.is_empty() => todo.try_recv().map_err(|_| RecvTimeoutError::Timeout),
                None => todo.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(at) => todo.recv_timeout(at.saturating_duration_since(Instant::now())),
            };
            // All that waits is known before it is said whose turn it is.
            while let Ok(known) = work {
                match known {
                    Work::Ended(key) => self.note_end(&key),
                    Work::Asked(question) => self.asked.push(question),
                }
                work = todo.try_recv().map_err(|_| RecvTimeoutError::Timeout);
            }
            if matches!(work, Err(RecvTimeoutError::Disconnected)) {
                return;
            }
            self.answer_next();
            self.refit_next(Instant::now());
        }
    }

    /// A run has ended: its application is to be fitted.
    fn note_end(&mut self, key: &JobKey) {
        let Some(app) = self.source.app_of(key) else { return };
        let own = self.due.keys().filter(|(uid, _)| *uid == key.uid).count();
        let application = (key.uid, app);
        if !self.due.contains_key(&application) && !DUE.allows(key.uid, own, self.due.len()) {
            // What is there says no longer how it is.
            self.forget(|wanted| wanted.is_of(application.0, &application.1));
            return;
        }
        let now = Instant::now();
        self.rests.retain(|_, until| *until > now);
        let at = self.rests.get(&application).copied().unwrap_or(now);
        self.due.entry(application).or_insert(at);
    }

    /// Answers one question, of the user whose turn it is.
    fn answer_next(&mut self) {
        // The asker may have hung up.
        self.asked.retain(|question| !question.reply.is_closed());
        let turn = |index: &usize| self.turns_asked.last(self.asked[*index].asker);
        let Some(next) = (0..self.asked.len()).min_by_key(turn) else { return };
        let Question { wanted, asker, reply, place } = self.asked.remove(next);
        drop(place);
        self.turns_asked.count(asker);
        let known = self.kept.read().unwrap_or_else(PoisonError::into_inner).get(&wanted).cloned();
        let answer = match known {
            Some(known) => Ok(known),
            None => {
                let fitted = self.source.fit(&wanted);
                self.has_fitted.store(true, Ordering::Relaxed);
                if let Ok(fitted) = &fitted {
                    self.keep(wanted, Arc::clone(fitted), |_| false);
                }
                fitted
            }
        };
        let _ = reply.send(answer);
    }

    /// Fits one application that is due, of the user whose turn it is.
    fn refit_next(&mut self, now: Instant) {
        let ready = self.due.iter().filter(|(_, at)| **at <= now);
        let next = ready.min_by_key(|((uid, _), at)| (self.turns_due.last(*uid), **at));
        if let Some((uid, app)) = next.map(|(key, _)| key.clone()) {
            self.turns_due.count(uid);
            self.refit(uid, app);
        }
    }

    fn refit(&mut self, uid: u32, app: Name) {
        let wanted = Wanted::all(uid, app.clone());
        let begun = Instant::now();
        let fitted = self.source.fit(&wanted);
        self.has_fitted.store(true, Ordering::Relaxed);
        self.due.remove(&(uid, app.clone()));
        self.rests.insert(
            (uid, app.clone()),
            Instant::now() + REST * begun.elapsed().max(Duration::from_millis(1)),
        );
        if let Ok(fitted) = fitted {
            let n_runs = fitted.n_runs;
            // Other choices of its runs are no longer what they say.
            self.keep(wanted.clone(), fitted, |other| other.is_of(uid, &app) && *other != wanted);
            self.events.fitted(uid, &app, n_runs);
            self.watchers.lock().unwrap_or_else(PoisonError::into_inner).retain(|watcher| {
                !matches!(watcher.try_send((uid, app.clone())), Err(TrySendError::Disconnected(_)))
            });
        }
    }

    /// Shows models to readers in the place of those that were there. For room, those go that were not used for longest, of the user who has most.
    pub fn keep(&self, wanted: Wanted, fitted: Arc<Fitted>, is_stale: impl Fn(&Wanted) -> bool) {
        let mut kept = Kept::clone(&self.kept.read().unwrap_or_else(PoisonError::into_inner));
        kept.retain(|other, _| !is_stale(other));
        let newest = kept.values().map(|known| known.used.load(Ordering::Relaxed)).max().unwrap_or(0);
        fitted.used.store(newest, Ordering::Relaxed);
        kept.insert(wanted.clone(), fitted);
        loop {
            let (mut total, mut by_user) = (0, HashMap::<u32, (usize, usize)>::new());
            for (of, known) in &kept {
                let (n_bytes, n_models) = by_user.entry(of.uid).or_default();
                *n_bytes += known.n_bytes;
                *n_models += 1;
                total += known.n_bytes;
            }
            if kept.len() <= MOST_KEPT && total <= MOST_BYTES {
                break;
            }
            // Of what was asked for just now nothing goes, whatever its size.
            let others = || kept.iter().filter(|(other, _)| **other != wanted);
            let most = others().map(|(other, _)| other.uid).max_by_key(|uid| by_user.get(uid).copied());
            let oldest = (others().filter(|(other, _)| Some(other.uid) == most))
                .min_by_key(|(_, known)| known.used.load(Ordering::Relaxed))
                .map(|(other, _)| other.clone());
            let Some(oldest) = oldest else { break };
            kept.remove(&oldest);
        }
        *self.kept.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(kept);
    }

    /// Shows some models to readers no longer.
    fn forget(&self, is_one: impl Fn(&Wanted) -> bool) {
        let mut kept = Kept::clone(&self.kept.read().unwrap_or_else(PoisonError::into_inner));
        kept.retain(|other, _| !is_one(other));
        *self.kept.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(kept);
    }
}
