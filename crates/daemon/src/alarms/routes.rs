//! Who is told of alarms: an Alertmanager, a webhook.
//!
//! A thread for each sends what waits, in order, and tries again what was not taken, after a while that grows. Up to where it has come is stored: after a restart
//! it goes on there. What waits is bounded; beyond it the oldest go, and are counted.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use iotide_report::{AlarmState, alertmanager_json, webhook_json};

use crate::run::HttpAddress;

/// Changes that wait for a receiver.
pub(super) const MOST_WAITING: usize = 1000;
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How soon something new is sent, and an end is noticed.
const NAP: Duration = Duration::from_millis(100);

/// Where alarms are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// To an Alertmanager, by its API of version 2.
    Alertmanager(HttpAddress),
    /// To a program of the site's own.
    Webhook(HttpAddress),
}

impl Route {
    fn address(&self) -> &HttpAddress {
        match self {
            Self::Alertmanager(address) | Self::Webhook(address) => address,
        }
    }

    /// What it is called where it is stored.
    pub(crate) fn name(&self) -> String {
        format!("{}{}", self.shown(), self.address().path())
    }

    /// What it is called where it is shown: paths of webhooks are often secrets.
    fn shown(&self) -> String {
        let kind = match self {
            Self::Alertmanager(_) => "alertmanager",
            Self::Webhook(_) => "webhook",
        };
        format!("{kind} {}", self.address().shown())
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
        address.post(&path, "Content-Type: application/json\r\n", body.as_bytes())
    }
}

/// What waits for a receiver.
#[derive(Debug)]
pub(crate) struct Outbox {
    route: Route,
    node: String,
    waiting: Mutex<VecDeque<(u64, String)>>,
    /// Up to which change it has been told, and up to which that is stored.
    told: AtomicU64,
    stored: AtomicU64,
    n_sent: AtomicU64,
    n_lost: AtomicU64,
    is_failing: AtomicBool,
}

/// What became of what a receiver was told.
#[derive(Clone, Debug)]
pub(crate) struct RouteFigures {
    pub(crate) target: String,
    pub(crate) n_sent: u64,
    pub(crate) n_lost: u64,
    pub(crate) n_waiting: u64,
    pub(crate) is_failing: bool,
}

impl Outbox {
    pub(super) fn new(route: Route, node: String, told: u64) -> Self {
        Self {
            route,
            node,
            waiting: Mutex::default(),
            told: AtomicU64::new(told),
            stored: AtomicU64::new(told),
            n_sent: AtomicU64::new(0),
            n_lost: AtomicU64::new(0),
            is_failing: AtomicBool::new(false),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<(u64, String)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn name(&self) -> String {
        self.route.name()
    }

    /// Takes a begin or an end.
    pub(super) fn push(&self, state: &AlarmState) {
        let body = match self.route {
            Route::Alertmanager(_) => alertmanager_json(state, &self.node),
            Route::Webhook(_) => webhook_json(state, &self.node),
        };
        let mut waiting = self.waiting();
        waiting.push_back((state.id, body));
        if waiting.len() > MOST_WAITING {
            waiting.pop_front();
            self.n_lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Up to which change it has been told, if that is not stored yet.
    pub(super) fn take_told(&self) -> Option<u64> {
        let told = self.told.load(Ordering::Relaxed);
        (self.stored.swap(told, Ordering::Relaxed) != told).then_some(told)
    }

    pub(super) fn figures(&self) -> RouteFigures {
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
        let (id, body) = self.waiting().front().cloned()?;
        let sent = self.route.send(&body);
        self.is_failing.store(!matches!(sent, Ok(true)), Ordering::Relaxed);
        let Ok(is_taken) = sent else { return Some(false) };
        self.told.fetch_max(id, Ordering::Relaxed);
        told();
        let count = if is_taken { &self.n_sent } else { &self.n_lost };
        count.fetch_add(1, Ordering::Relaxed);
        let mut waiting = self.waiting();
        // It may have had to go meanwhile.
        if waiting.front().is_some_and(|(first, _)| *first == id) {
            waiting.pop_front();
        }
        Some(true)
    }
}

/// Sends as long as someone wants it to; `told` is called whenever something was taken.
pub(super) fn run(outbox: &Weak<Outbox>, is_wanted: impl Fn() -> bool, told: impl Fn()) {
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
