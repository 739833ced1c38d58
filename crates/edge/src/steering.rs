//! What a controller in the same process shares with the daemon: it is shown the jobs, and shows its decisions; those who ask the daemon see them,
//! and say what they request.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

use iotide_ledger::JobKey;
use iotide_report::DecisionList;
use iotide_sched::act::JobFacts;

use crate::shared::Shared;
use iotide_daemon::models::RESIZES;
use iotide_daemon::store::Figure;

/// What someone wants of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperatorRequest {
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
    requests: Mutex<VecDeque<OperatorRequest>>,
    /// How often running jobs were given another size, by [`JobFacts::key`].
    resizes: Mutex<HashMap<String, u32>>,
}

/// As [`JobFacts::key`] has it.
fn facts_key(key: &JobKey) -> String {
    JobFacts { id: key.id.as_str().to_owned(), uid: key.uid, ..JobFacts::default() }.key()
}

impl Steering {
    /// Requests that wait; who has more is told to try again.
    const MOST_REQUESTS: usize = 64;
    /// Jobs that run and were given another size.
    const MOST_RESIZED: usize = 10_000;

    pub(crate) fn begin(&self, shared: &Arc<Shared>) {
        *self.0.daemon.write().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(shared);
    }

    /// The jobs that run; `None` if there is no daemon now.
    pub fn jobs(&self) -> Option<Vec<JobFacts>> {
        let shared = self.0.daemon.read().unwrap_or_else(PoisonError::into_inner).upgrade()?;
        Some(shared.job_facts())
    }

    /// Notes that a job that runs was given another size.
    pub fn was_resized(&self, job: &str) {
        let mut resizes = self.0.resizes.lock().unwrap_or_else(PoisonError::into_inner);
        if resizes.len() < Self::MOST_RESIZED || resizes.contains_key(job) {
            *resizes.entry(job.to_owned()).or_default() += 1;
        }
    }

    /// How often a job that ends was given another size, if it was.
    pub(crate) fn resizes_of(&self, key: &JobKey) -> Option<Figure> {
        let resizes = self.0.resizes.lock().unwrap_or_else(PoisonError::into_inner);
        let n = *resizes.get(&facts_key(key))?;
        let (callpath, metric) = RESIZES;
        Some(Figure { callpath: callpath.to_owned(), metric: metric.to_owned(), value: f64::from(n) })
    }

    /// A job has ended, and is written down.
    pub(crate) fn forget_resizes(&self, key: &JobKey) {
        self.0.resizes.lock().unwrap_or_else(PoisonError::into_inner).remove(&facts_key(key));
    }

    /// Shows what was decided.
    pub fn show(&self, decisions: DecisionList) {
        *self.0.decisions.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(decisions);
    }

    pub(crate) fn decisions(&self) -> Arc<DecisionList> {
        Arc::clone(&self.0.decisions.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Passes a request on; returns whether there was room.
    pub(crate) fn request(&self, request: OperatorRequest) -> bool {
        let mut requests = self.0.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = requests.len() < Self::MOST_REQUESTS;
        if has_room {
            requests.push_back(request);
        }
        has_room
    }

    /// Takes the requests that wait.
    pub fn take_requests(&self) -> Vec<OperatorRequest> {
        self.0.requests.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
    }
}
