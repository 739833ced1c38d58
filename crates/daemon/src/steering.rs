//! What a controller in the same process shares with the daemon: it is shown the jobs, and shows its decisions; those who ask the daemon see them,
//! and say what they wish.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use iotide_report::DecisionList;
use iotide_sched::act::JobFacts;

use crate::run::Shared;

/// What someone wants of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// One decision is taken back.
    Undo(u64),
    /// A rule is used no more, and what it did is taken back.
    Stop(String),
    /// A rule is used again.
    Resume(String),
}

/// Where controller and daemon meet.
#[derive(Clone, Debug, Default)]
pub struct Steering(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    daemon: RwLock<Weak<Shared>>,
    decisions: RwLock<Arc<DecisionList>>,
    wishes: Mutex<VecDeque<Wish>>,
}

impl Steering {
    /// Wishes that wait; who has more is told to try again.
    const MOST_WISHES: usize = 64;

    pub(crate) fn begin(&self, shared: &Arc<Shared>) {
        *self.0.daemon.write().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(shared);
    }

    /// The jobs that run; `None` if there is no daemon now.
    pub fn jobs(&self) -> Option<Vec<JobFacts>> {
        let shared = self.0.daemon.read().unwrap_or_else(PoisonError::into_inner).upgrade()?;
        Some(shared.job_facts())
    }

    /// Shows what was decided.
    pub fn show(&self, decisions: DecisionList) {
        *self.0.decisions.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(decisions);
    }

    pub(crate) fn decisions(&self) -> Arc<DecisionList> {
        Arc::clone(&self.0.decisions.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Passes a wish on; returns whether there was room.
    pub(crate) fn wish(&self, wish: Wish) -> bool {
        let mut wishes = self.0.wishes.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = wishes.len() < Self::MOST_WISHES;
        if has_room {
            wishes.push_back(wish);
        }
        has_room
    }

    /// Takes what is wished for.
    pub fn take_wishes(&self) -> Vec<Wish> {
        self.0.wishes.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }
}
