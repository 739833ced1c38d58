//! The two-level queue: sets by credit, inside a set one job at a time, inside a job its requests in order.
//!
//! The queue knows no clock and holds no data: a server pushes a [`Request`] that carries a number of its own, pops the
//! one to serve next, and says when it is done. The same calls in the same order give the same answers.
//!
//! Every call costs O(log n) in the number of jobs with requests waiting ([`Exclusivity::Strict`]: also linear in the
//! number of sets whose turn it cannot be, and of jobs that became idle within the last [`QueueConfig::lull_s`]).

use std::collections::{HashMap, VecDeque};

use crate::{IoProfile, SetId};

pub use config::{Ageing, Credit, Exclusivity, LONGEST_TURN_S, Order, QueueConfig};
use index::Index;
use ordered::Ordered;
use sets::{Set, Turn};
use usage::Usage;

mod config;
mod index;
mod ordered;
mod sets;
mod usage;
mod waiting;

/// Requests of many jobs, and whose turn it is.
#[derive(Clone, Debug)]
pub struct Queue {
    config: QueueConfig,
    jobs: Vec<Job>,
    free_jobs: Vec<usize>,
    job_of: Index,
    sets: Vec<Set>,
    free_sets: Vec<usize>,
    set_of: HashMap<SetId, usize>,
    /// The sets with requests waiting, by [`Set::turn`].
    turns: Ordered<Turn, ()>,
    /// [`Credit::Requests`]: whose turn it is, and how many requests of it are left.
    current: Option<(Turn, u64)>,
    /// [`Credit::Bytes`]: the turn of the set that was served last.
    virtual_time: f64,
    /// How often nothing was left to do: turns then begin anew, so that their numbers stay small.
    n_rests: u64,
    /// Jobs with requests waiting, by how long they have not been served: the first and the last of a linked list.
    longest_waiting: Option<usize>,
    last_waiting: Option<usize>,
    /// The two jobs that became idle last, the latest first.
    idle_last: [Option<usize>; 2],
    pops_since_out_of_turn: u32,
    n_queued: usize,
    n_in_flight: usize,
    n_pushed: u64,
    /// How many turns have begun: with a phase, or because the one before had lasted long enough.
    n_turns: u64,
    /// For which job the storage is idle while others wait, and since when.
    idle_for: Option<(JobId, f64)>,
    /// The job that kept others from being served, the last time nobody was.
    awaited: Option<usize>,
    /// How long it may yet be idle, whoever is waited for; and since when it is busy.
    idle_left_s: f64,
    busy_since_s: f64,
}

impl Queue {
    /// Returns an empty queue.
    pub fn new(mut config: QueueConfig) -> Self {
        if !config.policy.is_exclusive_in_sets() {
            config.exclusivity = Exclusivity::Relaxed;
        }
        Self {
            config,
            jobs: Vec::new(),
            free_jobs: Vec::new(),
            job_of: Index::new(),
            sets: Vec::new(),
            free_sets: Vec::new(),
            set_of: HashMap::new(),
            turns: Ordered::new(),
            current: None,
            virtual_time: 0.0,
            n_rests: 0,
            longest_waiting: None,
            last_waiting: None,
            idle_last: [None; 2],
            pops_since_out_of_turn: 0,
            n_queued: 0,
            n_in_flight: 0,
            n_pushed: 0,
            n_turns: 0,
            idle_for: None,
            awaited: None,
            idle_left_s: usage::MOST_LULLS * config.lull_s,
            busy_since_s: 0.0,
        }
    }

    /// Adds a request. The first of a job after [`QueueConfig::phase_gap_s`] without any begins a phase.
    ///
    /// Requests are pushed in the order they arrive.
    #[inline]
    pub fn push(&mut self, request: Request) {
        let Request { job: id, bytes, id: request_id, arrival_s } = request;
        let at = self.job_of.get(id).unwrap_or_else(|| self.welcome(id));
        let seq = self.n_pushed;
        self.n_pushed += 1;
        self.n_queued += 1;
        let job = &mut self.jobs[at];
        let is_idle = job.requests.is_empty() && job.n_in_flight == 0;
        if job.phase.is_none() || is_idle && arrival_s - job.last_active_s > job.gap_s {
            self.leave_phase(at);
            self.n_turns += 1;
            let job = &mut self.jobs[at];
            job.phase = Some(Phase { turn: self.n_turns, start_s: arrival_s });
            job.n_phases += 1;
            job.usage.begin_turn(arrival_s);
        } else if is_idle {
            job.usage.note_gap(arrival_s - job.last_active_s);
        }
        let job = &mut self.jobs[at];
        job.last_active_s = later(job.last_active_s, arrival_s);
        job.requests.push_back(Queued { bytes, id: request_id, arrival_s, seq });
        if job.requests.len() == 1 {
            job.waiting_since_s = arrival_s;
            self.join(at);
            self.wait_last(at);
        }
    }

    /// Takes the request to serve next, if any may be served now.
    ///
    /// With [`Exclusivity::Relaxed`] there is one whenever one is queued. With [`Exclusivity::Strict`] all may have to
    /// wait for a job that holds the storage; [`Queue::next_wake_s`] then says when to ask again.
    #[inline]
    pub fn pop(&mut self, now_s: f64) -> Option<Request> {
        if self.n_queued == 0 { None } else { self.pop_one_of_some(now_s) }
    }

    #[inline]
    fn pop_one_of_some(&mut self, now_s: f64) -> Option<Request> {
        let at = match self.overdue(now_s) {
            Some(at) => {
                self.pops_since_out_of_turn = 0;
                at
            }
            None => {
                let Some(at) = self.in_turn(now_s) else {
                    self.note_idle_storage(now_s);
                    return None;
                };
                self.pops_since_out_of_turn = self.pops_since_out_of_turn.saturating_add(1);
                at
            }
        };
        self.charge_idle_storage(now_s);
        Some(self.take(at, now_s))
    }

    /// Notes that a request that was popped has been served.
    #[inline]
    pub fn complete(&mut self, job: JobId, now_s: f64) {
        // A job may have been forgotten while its last request was under way.
        let Some(at) = self.job_of.get(job) else { return };
        let job = &mut self.jobs[at];
        job.last_active_s = later(job.last_active_s, now_s);
        if job.n_in_flight > 0 {
            job.n_in_flight -= 1;
            self.n_in_flight -= 1;
            if job.n_in_flight == 0 {
                job.usage.end_service(now_s, &self.config);
            }
            let is_idle = job.n_in_flight == 0 && job.requests.is_empty();
            if self.n_in_flight == 0 {
                self.earn_idle_time(now_s);
            }
            if is_idle {
                self.note_idle(at);
                self.rest_if_idle();
            }
        }
    }

    /// Notes what is known of a job's rhythm from now on; its requests move to the set where it belongs.
    pub fn set_profile(&mut self, job: JobId, profile: Option<IoProfile>) {
        let at = self.job_of.get(job).unwrap_or_else(|| self.welcome(job));
        let gap_s = self.config.phase_gap_s;
        self.jobs[at].profile = profile;
        let w_iter_s = profile.map(|profile| profile.w_iter_s() / self.config.time_scale);
        self.jobs[at].gap_s = w_iter_s.map_or(gap_s, |w_iter_s| gap_s.min(w_iter_s / 10.0));
        self.move_to_set(at);
    }

    /// Lets a job go last from now on, or no longer: one that has had more than its share.
    pub fn hold_back(&mut self, job: JobId, is_held_back: bool) {
        if let Some(at) = self.job_of.get(job)
            && self.jobs[at].is_held_back != is_held_back
        {
            self.jobs[at].is_held_back = is_held_back;
            self.move_to_set(at);
        }
    }

    /// Moves a job and its requests to the set where it belongs.
    fn move_to_set(&mut self, at: usize) {
        let Job { id, profile, is_held_back, .. } = self.jobs[at];
        let policy = self.config.policy;
        let placement = match is_held_back {
            false => policy.place(id, profile.as_ref()),
            true => policy.place_behind(id, profile.as_ref()),
        };
        if self.sets[self.jobs[at].set].id != placement.set {
            let is_waiting = !self.jobs[at].requests.is_empty();
            let holds = self.jobs[at].phase.is_some();
            if is_waiting {
                self.part(at);
            }
            let key = self.jobs[at].key;
            self.sets[self.jobs[at].set].holders.remove(&key);
            self.leave_set(at);
            self.jobs[at].set = self.enter_set(placement.set, placement.priority);
            if is_waiting {
                self.join(at);
            } else if holds && self.config.exclusivity == Exclusivity::Strict {
                let set = self.jobs[at].set;
                self.sets[set].holders.insert(key, at);
            }
        }
    }

    /// Notes that a job's phase is over, where that is known: others of its set need not wait for the gap.
    pub fn end_phase(&mut self, job: JobId) {
        if let Some(at) = self.job_of.get(job)
            && self.jobs[at].requests.is_empty()
        {
            self.leave_phase(at);
        }
    }

    /// Forgets a job that has ended, and returns its requests that were not served.
    pub fn forget(&mut self, job: JobId) -> Vec<Request> {
        let Some(at) = self.job_of.remove(job) else { return Vec::new() };
        if !self.jobs[at].requests.is_empty() {
            self.part(at);
            self.stop_waiting(at);
        }
        self.leave_phase(at);
        self.leave_set(at);
        self.free_jobs.push(at);
        self.forget_idle(at);
        let left: Vec<Request> = self.jobs[at].requests.drain(..).map(|queued| queued.of(job)).collect();
        self.n_queued -= left.len();
        self.n_in_flight -= self.jobs[at].n_in_flight;
        self.rest_if_idle();
        left
    }

    /// When to ask again if [`Queue::pop`] gave nothing although requests are queued, and nothing else happens before.
    ///
    /// A request under way may free the storage earlier or later; that is what [`Queue::complete`] is for.
    pub fn next_wake_s(&self) -> Option<f64> {
        if self.config.exclusivity != Exclusivity::Strict {
            return None;
        }
        let ends = self.turns.keys().map(|turn| self.free_from_s(turn.set));
        ends.filter(|end_s| end_s.is_finite()).min_by(f64::total_cmp)
    }

    /// When those of a set need no longer wait for jobs without requests that come before them.
    fn free_from_s(&self, set: usize) -> f64 {
        let holders = &self.sets[set].holders;
        let mut free_s = f64::NEG_INFINITY;
        let mut next = holders.first();
        while let Some((key, holder)) = next {
            let job = &self.jobs[holder];
            if !job.requests.is_empty() {
                break;
            }
            let is_served = job.n_in_flight > 0;
            let until_s = if is_served { self.turn_ends_s(holder) } else { self.grace_ends_s(holder) };
            free_s = later(free_s, until_s);
            next = holders.after(&key);
        }
        free_s
    }

    /// How many requests are queued.
    pub fn len(&self) -> usize {
        self.n_queued
    }

    /// Whether no request is queued.
    pub fn is_empty(&self) -> bool {
        self.n_queued == 0
    }

    /// Whether another job than `job` has requests here, or had one after `since_s`. Does not look at every job.
    pub fn is_shared(&self, job: Option<JobId>, since_s: f64) -> bool {
        let own = job.and_then(|job| self.job_of.get(job));
        let n_own = own.map_or(0, |at| self.jobs[at].requests.len() + self.jobs[at].n_in_flight);
        // A job without requests was last active when it became idle.
        let was_active = |at: &usize| Some(*at) != own && self.jobs[*at].last_active_s > since_s;
        self.n_queued + self.n_in_flight > n_own || self.idle_last.iter().flatten().any(was_active)
    }

    /// How requests are served.
    pub fn config(&self) -> &QueueConfig {
        &self.config
    }

    /// Returns the state of a job; `None` if the queue has no such job.
    pub fn job(&self, job: JobId) -> Option<JobView> {
        self.job_of.get(job).map(|at| self.view(at))
    }

    /// Returns the state of every job, by id.
    pub fn jobs(&self) -> Vec<JobView> {
        let mut views: Vec<JobView> = self.job_of.places().map(|at| self.view(at)).collect();
        views.sort_by_key(|view| view.job);
        views
    }

    fn view(&self, at: usize) -> JobView {
        let job = &self.jobs[at];
        let set = &self.sets[job.set];
        JobView {
            job: job.id,
            profile: job.profile,
            set: set.id,
            priority: set.priority,
            n_queued: job.requests.len(),
            n_in_flight: job.n_in_flight,
            n_phases: job.n_phases,
            phase_start_s: job.phase.map(|phase| phase.start_s),
            last_active_s: job.last_active_s,
            bytes_served: job.bytes_served,
            waits_for: self.who_is_before(at),
        }
    }

    /// The job of the same set whose turn it is while this one waits.
    fn who_is_before(&self, at: usize) -> Option<JobId> {
        let job = &self.jobs[at];
        if job.requests.is_empty() || !self.config.policy.is_exclusive_in_sets() {
            return None;
        }
        let set = &self.sets[job.set];
        let is_strict = self.config.exclusivity == Exclusivity::Strict;
        let (_, first) = if is_strict { set.holders.first() } else { set.waiting.first() }?;
        (first != at).then(|| self.jobs[first].id)
    }

    /// Gives a new job a place in the list.
    #[cold]
    fn welcome(&mut self, id: JobId) -> usize {
        let placement = self.config.policy.place(id, None);
        let job = Job {
            id,
            set: self.enter_set(placement.set, placement.priority),
            profile: None,
            is_held_back: false,
            gap_s: self.config.phase_gap_s,
            requests: VecDeque::new(),
            n_in_flight: 0,
            phase: None,
            n_phases: 0,
            key: 0,
            usage: Usage::new(&self.config),
            last_active_s: f64::NEG_INFINITY,
            waiting_since_s: f64::NEG_INFINITY,
            before: None,
            after: None,
            bytes_served: 0,
        };
        let at = match self.free_jobs.pop() {
            Some(at) => {
                self.jobs[at] = job;
                at
            }
            None => {
                self.jobs.push(job);
                self.jobs.len() - 1
            }
        };
        self.job_of.insert(id, at);
        at
    }

    fn leave_phase(&mut self, at: usize) {
        let job = &mut self.jobs[at];
        if job.phase.take().is_some() {
            self.sets[job.set].holders.remove(&job.key);
        }
    }

    #[inline]
    fn take(&mut self, at: usize, now_s: f64) -> Request {
        let set_at = self.jobs[at].set;
        let job = &mut self.jobs[at];
        let queued = job.requests.pop_front().expect("a job that waits has a request");
        if job.n_in_flight == 0 {
            job.usage.begin_service(now_s);
        }
        job.n_in_flight += 1;
        job.last_active_s = later(job.last_active_s, now_s);
        job.waiting_since_s = now_s;
        job.bytes_served += queued.bytes;
        let is_served_out = job.requests.is_empty();
        let id = job.id;
        if self.n_in_flight == 0 {
            self.busy_since_s = now_s;
        }
        self.n_queued -= 1;
        self.n_in_flight += 1;

        if is_served_out {
            self.part(at);
            self.stop_waiting(at);
        } else {
            if !self.config.policy.is_exclusive_in_sets() {
                let job = &mut self.jobs[at];
                let seq = job.requests[0].seq;
                self.sets[set_at].waiting.rekey(&job.key, seq);
                job.key = seq;
            }
            if self.last_waiting != Some(at) {
                self.stop_waiting(at);
                self.wait_last(at);
            }
        }
        if self.config.credit == Credit::Bytes {
            // Start-time fair queueing (Goyal, Vin, Cheng, 1996). A set that had to stand back has not saved up credit.
            let turn = self.turn_of(set_at);
            let set = &mut self.sets[set_at];
            let start = later(set.finish, self.virtual_time);
            self.virtual_time = start;
            set.finish = start + queued.bytes.max(1) as f64 / set.priority;
            if !set.waiting.is_empty() {
                self.turns.rekey(&turn, self.turn_of(set_at));
            }
        }
        queued.of(id)
    }

    fn note_idle(&mut self, at: usize) {
        if self.idle_last[0] != Some(at) {
            self.idle_last = [Some(at), self.idle_last[0]];
        }
    }

    /// A job that is no more was not idle last; who was, is looked for among all, which is rare.
    fn forget_idle(&mut self, at: usize) {
        if self.idle_last.contains(&Some(at)) {
            let mut idle: Vec<usize> = self.job_of.places().collect();
            idle.retain(|&at| self.jobs[at].n_phases > 0);
            idle.sort_by(|&a, &b| self.jobs[b].last_active_s.total_cmp(&self.jobs[a].last_active_s));
            self.idle_last = [idle.first().copied(), idle.get(1).copied()];
        }
    }

    fn rest_if_idle(&mut self) {
        if self.n_queued == 0 && self.n_in_flight == 0 {
            self.virtual_time = 0.0;
            self.n_rests += 1;
        }
    }
}

/// The later of two times; `f64::max` would heed NaN, too, at three times the cost.
#[inline]
fn later(a_s: f64, b_s: f64) -> f64 {
    if b_s > a_s { b_s } else { a_s }
}

/// A request to read or write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Whose it is.
    pub job: JobId,
    /// How much it moves.
    pub bytes: u64,
    /// The caller's number for it.
    pub id: u64,
    /// When it came, in seconds of the caller's clock.
    pub arrival_s: f64,
}

/// A job, by the number it has in the caller's system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// State of a job in the queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JobView {
    /// The job.
    pub job: JobId,
    /// Its rhythm, if known.
    pub profile: Option<IoProfile>,
    /// Its set.
    pub set: SetId,
    /// Priority of that set.
    pub priority: f64,
    /// Requests that wait.
    pub n_queued: usize,
    /// Requests that are being served.
    pub n_in_flight: usize,
    /// How many phases it has begun.
    pub n_phases: u64,
    /// When the one it is in, or was in last, began.
    pub phase_start_s: Option<f64>,
    /// When it last sent a request or had one served.
    pub last_active_s: f64,
    /// Bytes served to it.
    pub bytes_served: u64,
    /// The job of its set whose turn it is, while requests of this one wait.
    pub waits_for: Option<JobId>,
}

#[derive(Clone, Debug)]
struct Job {
    id: JobId,
    set: usize,
    profile: Option<IoProfile>,
    is_held_back: bool,
    /// How long it must be idle before its phase is over.
    gap_s: f64,
    requests: VecDeque<Queued>,
    n_in_flight: usize,
    phase: Option<Phase>,
    n_phases: u64,
    /// Its place among the jobs of its set.
    key: u64,
    usage: Usage,
    last_active_s: f64,
    /// Since when it has had requests and none was served.
    waiting_since_s: f64,
    before: Option<usize>,
    after: Option<usize>,
    bytes_served: u64,
}

#[derive(Clone, Copy, Debug)]
struct Phase {
    /// The number of its turn.
    turn: u64,
    start_s: f64,
}

#[derive(Clone, Copy, Debug)]
struct Queued {
    bytes: u64,
    id: u64,
    arrival_s: f64,
    seq: u64,
}

impl Queued {
    fn of(self, job: JobId) -> Request {
        Request { job, bytes: self.bytes, id: self.id, arrival_s: self.arrival_s }
    }
}

#[cfg(test)]
mod tests;
