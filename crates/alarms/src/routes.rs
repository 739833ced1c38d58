//! Who is told of alarms: an Alertmanager, a webhook.
//!
//! A thread for each sends what waits, in order, and tries again what was not taken, after a while that grows. Up to where it has come is stored: after a restart
//! it goes on there. What waits is bounded; beyond it the oldest go, and are counted. Alarms of the operator come first, and wait in a queue that no user
//! can fill; users take turns, and each has a quarter of what is left.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use iotide_http::{Url, post};
use iotide_private::Limits;
use iotide_report::{AlarmState, alertmanager_json, webhook_json};

/// Changes that wait for a receiver: of the operator's rules, and as many of all users'.
pub const MOST_WAITING: usize = 1000;
const OF_USERS: Limits = Limits::among_users(MOST_WAITING);
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How soon something new is sent, and an end is noticed.
const NAP: Duration = Duration::from_millis(100);

/// Where alarms are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// To an Alertmanager, by its API of version 2.
    Alertmanager(Url),
    /// To a program of the site's own.
    Webhook(Url),
}

impl Route {
    fn address(&self) -> &Url {
        match self {
            Self::Alertmanager(address) | Self::Webhook(address) => address,
        }
    }

    /// What it is called where it is stored.
    pub fn name(&self) -> String {
        format!("{}{}", self.shown(), self.address().path())
    }

    /// What it is called where it is shown: paths of webhooks are often secrets.
    fn shown(&self) -> String {
        let kind = match self {
            Self::Alertmanager(_) => "alertmanager",
            Self::Webhook(_) => "webhook",
        };
        format!("{kind} {}", self.address().authority())
    }

    /// Sends; `Ok(false)` if it will never be taken.
    fn send(&self, body: &str) -> io::Result<bool> {
        let address = self.address();
        let path = match self {
            // The address of the server is enough, as Prometheus has it.
            Self::Alertmanager(_) if !address.path().ends_with("/alerts") => {
                format!("{}/api/v2/alerts", address.path().trim_end_matches('/'))
            }
            _ => address.path().to_owned(),
        };
        post(address, &path, "Content-Type: application/json\r\n", body.as_bytes())
    }
}

/// What waits for a receiver.
#[derive(Debug)]
pub(crate) struct Outbox {
    route: Route,
    node: String,
    waiting: Mutex<Waiting>,
    /// Up to which change nothing is left to be told, and up to which that is stored.
    told: AtomicU64,
    stored: AtomicU64,
    n_sent: AtomicU64,
    n_lost: AtomicU64,
    is_failing: AtomicBool,
}

/// Changes by the owner of their rule; `None` is the operator, who comes first.
#[derive(Debug, Default)]
struct Waiting {
    by_owner: BTreeMap<Option<u32>, VecDeque<(u64, String)>>,
    /// The user whose turn was last.
    last_user: Option<u32>,
    /// The latest change that was to be told.
    last_id: u64,
}

impl Waiting {
    fn len(&self) -> usize {
        self.by_owner.values().map(VecDeque::len).sum()
    }

    /// Adds a change, and says whether an earlier one of the same owner, or of the user with the most, had to go.
    fn push(&mut self, owner: Option<u32>, id: u64, body: String) -> bool {
        self.last_id = self.last_id.max(id);
        let n_of = |waiting: &Self, owner| waiting.by_owner.get(&owner).map_or(0, VecDeque::len);
        let own = n_of(self, owner);
        let victim = match owner {
            None => (own >= MOST_WAITING).then_some(None),
            Some(_) if own >= OF_USERS.per_user => Some(owner),
            Some(_) => {
                let is_full = self.len() - n_of(self, None) >= OF_USERS.places;
                let users = self.by_owner.iter().filter(|(owner, _)| owner.is_some());
                let most = users.max_by_key(|(_, queue)| queue.len()).map(|(owner, _)| *owner);
                most.filter(|_| is_full)
            }
        };
        self.by_owner.entry(owner).or_default().push_back((id, body));
        if let Some(victim) = victim {
            self.remove(victim, None);
        }
        victim.is_some()
    }

    /// The next to be told: the operator's, else that of the user after the last one.
    fn next(&mut self) -> Option<(Option<u32>, u64, String)> {
        let after_last = self.by_owner.range((Excluded(Some(self.last_user.unwrap_or(0))), Unbounded));
        let users = || self.by_owner.range((Excluded(None), Unbounded));
        let operator = self.by_owner.get_key_value(&None);
        let chosen = operator.or_else(|| after_last.into_iter().next()).or_else(|| users().next());
        let (owner, queue) = chosen?;
        let (id, body) = queue.front()?;
        let next = (*owner, *id, body.clone());
        self.last_user = next.0.or(self.last_user);
        Some(next)
    }

    /// Removes the first of an owner's, if it is this change.
    fn remove(&mut self, owner: Option<u32>, id: Option<u64>) {
        let Some(queue) = self.by_owner.get_mut(&owner) else { return };
        // It may have had to go meanwhile.
        if queue.front().is_some_and(|(first, _)| id.is_none_or(|id| id == *first)) {
            queue.pop_front();
        }
        if queue.is_empty() {
            self.by_owner.remove(&owner);
        }
    }

    /// The change up to which nothing waits.
    fn told(&self) -> u64 {
        let first = self.by_owner.values().filter_map(|queue| queue.front()).map(|(id, _)| *id).min();
        first.map_or(self.last_id, |id| id.saturating_sub(1))
    }
}

/// What became of what a receiver was told.
#[derive(Clone, Debug)]
pub struct RouteFigures {
    /// Which receiver.
    pub target: String,
    /// Changes that it has taken.
    pub n_sent: u64,
    /// Changes that it will never take, or that there was no room for.
    pub n_lost: u64,
    /// Changes that wait for it.
    pub n_waiting: u64,
    /// Whether it did not take the last one.
    pub is_failing: bool,
}

impl Outbox {
    pub fn new(route: Route, node: String, told: u64) -> Self {
        Self {
            route,
            node,
            waiting: Mutex::new(Waiting { last_id: told, ..Waiting::default() }),
            told: AtomicU64::new(told),
            stored: AtomicU64::new(told),
            n_sent: AtomicU64::new(0),
            n_lost: AtomicU64::new(0),
            is_failing: AtomicBool::new(false),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn name(&self) -> String {
        self.route.name()
    }

    /// Takes a begin or an end.
    pub fn push(&self, state: &AlarmState) {
        let body = match self.route {
            Route::Alertmanager(_) => alertmanager_json(state, &self.node),
            Route::Webhook(_) => webhook_json(state, &self.node),
        };
        let is_one_lost = self.waiting().push(state.owner, state.id, body);
        self.n_lost.fetch_add(is_one_lost.into(), Ordering::Relaxed);
    }

    /// Up to which change it has been told, if that is not stored yet.
    pub(super) fn take_told(&self) -> Option<u64> {
        let told = self.told.load(Ordering::Relaxed);
        (self.stored.swap(told, Ordering::Relaxed) != told).then_some(told)
    }

    pub fn figures(&self) -> RouteFigures {
        RouteFigures {
            target: self.route.shown(),
            n_sent: self.n_sent.load(Ordering::Relaxed),
            n_lost: self.n_lost.load(Ordering::Relaxed),
            n_waiting: self.waiting().len() as u64,
            is_failing: self.is_failing.load(Ordering::Relaxed),
        }
    }

    /// Sends what waits longest; says whether there was something and it is gone. `told` is called before it counts as sent.
    fn send(&self, told: &impl Fn()) -> Option<bool> {
        let (owner, id, body) = self.waiting().next()?;
        let sent = self.route.send(&body);
        self.is_failing.store(!matches!(sent, Ok(true)), Ordering::Relaxed);
        let Ok(is_taken) = sent else { return Some(false) };
        let mut waiting = self.waiting();
        waiting.remove(owner, Some(id));
        self.told.fetch_max(waiting.told(), Ordering::Relaxed);
        drop(waiting);
        told();
        let count = if is_taken { &self.n_sent } else { &self.n_lost };
        count.fetch_add(1, Ordering::Relaxed);
        Some(true)
    }
}

/// Sends as long as someone wants it to; `told` is called whenever something was taken.
pub(crate) fn run(outbox: &Weak<Outbox>, is_wanted: impl Fn() -> bool, told: impl Fn()) {
    let (mut wait, mut retry) = (FIRST_WAIT, Instant::now());
    while is_wanted() {
        let Some(outbox) = outbox.upgrade() else { return };
        if Instant::now() >= retry {
            match outbox.send(&told) {
                Some(true) => {
                    wait = FIRST_WAIT;
                    continue;
                }
                Some(false) => {
                    retry = Instant::now() + wait;
                    wait = (wait * 2).min(LONGEST_WAIT);
                }
                None => {}
            }
        }
        drop(outbox);
        thread::sleep(NAP);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_who_floods_a_receiver_loses_own_alarms_and_nobody_elses() {
        let mut waiting = Waiting::default();
        let mut n_lost = 0;
        waiting.push(None, 1, "operator".to_owned());
        waiting.push(Some(7), 2, "victim".to_owned());
        for id in 3..5000 {
            n_lost += u64::from(waiting.push(Some(1000), id, String::new()));
        }
        assert_eq!((waiting.len(), n_lost), (2 + OF_USERS.per_user, 4997 - OF_USERS.per_user as u64));
        // Nothing after the first that waits counts as told.
        assert_eq!(waiting.told(), 0);
        let mut order = Vec::new();
        for _ in 0..4 {
            let (owner, id, _) = waiting.next().unwrap();
            waiting.remove(owner, Some(id));
            order.push(owner);
        }
        assert_eq!(order, [None, Some(7), Some(1000), Some(1000)]);
        // Users with many accounts take room from the one who has most.
        for user in 2000..3000 {
            waiting.push(Some(user), 6000, String::new());
        }
        assert_eq!(waiting.len(), MOST_WAITING);
        assert!(!waiting.push(None, 6001, "operator".to_owned()));
        assert_eq!(waiting.next().unwrap().0, None);
    }

    #[test]
    fn all_is_told_in_order_and_then_nothing_is_left() {
        let mut waiting = Waiting { last_id: 4, ..Waiting::default() };
        assert_eq!(waiting.told(), 4);
        for (owner, id) in [(None, 5), (Some(1), 6), (Some(2), 7), (Some(1), 8)] {
            assert!(!waiting.push(owner, id, String::new()));
        }
        let mut told = Vec::new();
        while let Some((owner, id, _)) = waiting.next() {
            waiting.remove(owner, Some(id));
            told.push((id, waiting.told()));
        }
        assert_eq!(told, [(5, 5), (6, 6), (7, 7), (8, 8)]);
    }
}
