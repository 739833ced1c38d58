//! The two-level queue: sets by credit, inside a set one job at a time, inside a job its requests in order.
//!
//! The queue knows no clock and holds no data: a server pushes a [`Request`] that carries a number of its own, pops the
//! one to serve next, and says when it is done. The same calls in the same order give the same answers.
//!
//! Every call costs O(log n) in the number of jobs with requests waiting ([`Exclusivity::Strict`]: also linear in the
//! number of sets whose turn it cannot be).

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use crate::ordered::Ordered;
use crate::{IoProfile, Policy, SetId};

/// Requests of many jobs, and whose turn it is.
#[derive(Clone, Debug)]
pub struct Queue {
    config: QueueConfig,
    jobs: Vec<Job>,
    free_jobs: Vec<usize>,
    job_of: HashMap<JobId, usize, BuildHasherDefault<IdHasher>>,
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
    pops_since_out_of_turn: u32,
    n_queued: usize,
    n_in_flight: usize,
    n_pushed: u64,
    n_phases: u64,
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
            job_of: HashMap::default(),
            sets: Vec::new(),
            free_sets: Vec::new(),
            set_of: HashMap::new(),
            turns: Ordered::new(),
            current: None,
            virtual_time: 0.0,
            n_rests: 0,
            longest_waiting: None,
            last_waiting: None,
            pops_since_out_of_turn: 0,
            n_queued: 0,
            n_in_flight: 0,
            n_pushed: 0,
            n_phases: 0,
        }
    }

    /// Adds a request. The first of a job after [`QueueConfig::phase_gap_s`] without any begins a phase.
    ///
    /// Requests are pushed in the order they arrive.
    pub fn push(&mut self, request: Request) {
        let Request { job: id, bytes, id: request_id, arrival_s } = request;
        let at = self.known(id);
        let seq = self.n_pushed;
        self.n_pushed += 1;
        self.n_queued += 1;
        let job = &mut self.jobs[at];
        let is_idle = job.requests.is_empty() && job.n_in_flight == 0;
        if job.phase.is_none() || is_idle && arrival_s - job.last_active_s > job.gap_s {
            self.leave_phase(at);
            self.n_phases += 1;
            let job = &mut self.jobs[at];
            job.phase = Some(Phase { number: self.n_phases, start_s: arrival_s });
            job.n_phases += 1;
        }
        let job = &mut self.jobs[at];
        job.last_active_s = job.last_active_s.max(arrival_s);
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
    pub fn pop(&mut self, now_s: f64) -> Option<Request> {
        if self.n_queued == 0 {
            return None;
        }
        let at = match self.overdue(now_s) {
            Some(at) => {
                self.pops_since_out_of_turn = 0;
                at
            }
            None => {
                let at = self.in_turn(now_s)?;
                self.pops_since_out_of_turn = self.pops_since_out_of_turn.saturating_add(1);
                at
            }
        };
        Some(self.take(at, now_s))
    }

    /// Notes that a request that was popped has been served.
    pub fn complete(&mut self, job: JobId, now_s: f64) {
        // A job may have been forgotten while its last request was under way.
        let Some(&at) = self.job_of.get(&job) else { return };
        let job = &mut self.jobs[at];
        job.last_active_s = job.last_active_s.max(now_s);
        if job.n_in_flight > 0 {
            job.n_in_flight -= 1;
            self.n_in_flight -= 1;
            self.rest_if_idle();
        }
    }

    /// Notes what is known of a job's rhythm from now on; its requests move to the set where it belongs.
    pub fn set_profile(&mut self, job: JobId, profile: Option<IoProfile>) {
        let at = self.known(job);
        let gap_s = self.config.phase_gap_s;
        self.jobs[at].profile = profile;
        self.jobs[at].gap_s = profile.map_or(gap_s, |profile| gap_s.min(profile.w_iter_s() / 10.0));
        let placement = self.config.policy.place(job, profile.as_ref());
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
        if let Some(&at) = self.job_of.get(&job)
            && self.jobs[at].requests.is_empty()
        {
            self.leave_phase(at);
        }
    }

    /// Forgets a job that has ended, and returns its requests that were not served.
    pub fn forget(&mut self, job: JobId) -> Vec<Request> {
        let Some(at) = self.job_of.remove(&job) else { return Vec::new() };
        if !self.jobs[at].requests.is_empty() {
            self.part(at);
            self.stop_waiting(at);
        }
        self.leave_phase(at);
        self.leave_set(at);
        self.free_jobs.push(at);
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
        let ends = self.turns.keys().filter_map(|turn| {
            let (_, holder) = self.sets[turn.set].holders.first()?;
            let job = &self.jobs[holder];
            (job.n_in_flight == 0).then(|| job.last_active_s + self.jobs[holder].gap_s)
        });
        ends.min_by(f64::total_cmp)
    }

    /// How many requests are queued.
    pub fn len(&self) -> usize {
        self.n_queued
    }

    /// Whether no request is queued.
    pub fn is_empty(&self) -> bool {
        self.n_queued == 0
    }

    /// How requests are served.
    pub fn config(&self) -> &QueueConfig {
        &self.config
    }

    /// What is known of a job.
    pub fn job(&self, job: JobId) -> Option<JobView> {
        self.job_of.get(&job).map(|&at| self.view(at))
    }

    /// What is known of every job, by id.
    pub fn jobs(&self) -> Vec<JobView> {
        let mut views: Vec<JobView> = self.job_of.values().map(|&at| self.view(at)).collect();
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
        }
    }

    /// The job's place in the list, which it gets if it is new.
    fn known(&mut self, id: JobId) -> usize {
        if let Some(&at) = self.job_of.get(&id) {
            return at;
        }
        let placement = self.config.policy.place(id, None);
        let job = Job {
            id,
            set: self.enter_set(placement.set, placement.priority),
            profile: None,
            gap_s: self.config.phase_gap_s,
            requests: VecDeque::new(),
            n_in_flight: 0,
            phase: None,
            n_phases: 0,
            key: 0,
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

    fn enter_set(&mut self, id: SetId, priority: f64) -> usize {
        if let Some(&at) = self.set_of.get(&id) {
            self.sets[at].n_jobs += 1;
            return at;
        }
        let set = Set {
            id,
            priority,
            n_jobs: 1,
            waiting: Ordered::new(),
            holders: Ordered::new(),
            finish: 0.0,
            n_rests: self.n_rests,
        };
        let at = match self.free_sets.pop() {
            Some(at) => {
                self.sets[at] = set;
                at
            }
            None => {
                self.sets.push(set);
                self.sets.len() - 1
            }
        };
        self.set_of.insert(id, at);
        at
    }

    fn leave_set(&mut self, job: usize) {
        let at = self.jobs[job].set;
        let set = &mut self.sets[at];
        set.n_jobs -= 1;
        if set.n_jobs == 0 {
            self.set_of.remove(&set.id);
            self.free_sets.push(at);
        }
    }

    /// The job has requests: it queues in its set, and the set among the sets.
    fn join(&mut self, at: usize) {
        let job = &mut self.jobs[at];
        job.key = match (self.config.policy.is_exclusive_in_sets(), self.config.order) {
            (false, _) => job.requests[0].seq,
            (true, Order::Id) => job.id.0,
            (true, Order::FirstCome) => job.phase.map_or(0, |phase| phase.number),
        };
        let set_at = job.set;
        let set = &mut self.sets[set_at];
        set.waiting.insert(job.key, at);
        if self.config.exclusivity == Exclusivity::Strict {
            set.holders.insert(job.key, at);
        }
        if set.waiting.len() == 1 {
            if set.n_rests != self.n_rests {
                set.n_rests = self.n_rests;
                set.finish = 0.0;
            }
            set.finish = set.finish.max(self.virtual_time);
            self.turns.insert(self.turn_of(set_at), ());
        }
    }

    /// The job has no requests any more, or belongs elsewhere.
    fn part(&mut self, at: usize) {
        let job = &self.jobs[at];
        let set = &mut self.sets[job.set];
        set.waiting.remove(&job.key);
        if set.waiting.is_empty() {
            let turn = self.turn_of(self.jobs[at].set);
            self.turns.remove(&turn);
        }
    }

    /// When the turn of a set comes.
    fn turn_of(&self, at: usize) -> Turn {
        let set = &self.sets[at];
        // Numbers that are not negative are ordered as their bits are.
        let finish = match self.config.credit {
            Credit::Requests => 0,
            Credit::Bytes => set.finish.to_bits(),
        };
        Turn { finish, higher_first: !set.priority.to_bits(), set: at }
    }

    fn leave_phase(&mut self, at: usize) {
        let job = &mut self.jobs[at];
        if job.phase.take().is_some() {
            self.sets[job.set].holders.remove(&job.key);
        }
    }

    /// The job that has waited too long, if it is time to heed that.
    fn overdue(&self, now_s: f64) -> Option<usize> {
        let Ageing { patience_s, every } = self.config.ageing?;
        let at = self.longest_waiting?;
        (self.pops_since_out_of_turn + 1 >= every.max(1)
            && now_s - self.jobs[at].waiting_since_s > patience_s)
            .then_some(at)
    }

    /// The job whose turn it is by credit and order.
    fn in_turn(&mut self, now_s: f64) -> Option<usize> {
        match self.config.credit {
            Credit::Bytes => {
                let (_, job) = self.first_free(None, now_s)?;
                Some(job)
            }
            Credit::Requests => {
                if let Some((turn, left)) = self.current
                    && left > 0
                    && self.turns.contains(&turn)
                    && let Some(job) = self.free_job(turn.set, now_s)
                {
                    self.current = Some((turn, left - 1));
                    return Some(job);
                }
                let after = self.current.map(|(turn, _)| turn);
                let (turn, job) = self.first_free(after, now_s)?;
                let least = self.turns.last().map_or(1.0, |(turn, ())| self.sets[turn.set].priority);
                let credit = (self.sets[turn.set].priority / least).round().max(1.0) as u64;
                self.current = Some((turn, credit - 1));
                Some(job)
            }
        }
    }

    /// The first set after a turn, all around, one of whose jobs may be served, and that job.
    fn first_free(&mut self, after: Option<Turn>, now_s: f64) -> Option<(Turn, usize)> {
        let mut turn = self.turn_after(after)?;
        for _ in 0..self.turns.len() {
            if let Some(job) = self.free_job(turn.set, now_s) {
                return Some((turn, job));
            }
            turn = self.turn_after(Some(turn))?;
        }
        None
    }

    /// The turn after another, all around.
    fn turn_after(&self, turn: Option<Turn>) -> Option<Turn> {
        let next = turn.and_then(|turn| self.turns.after(&turn));
        next.or_else(|| self.turns.first()).map(|(turn, ())| turn)
    }

    /// The job of a set that may be served now.
    fn free_job(&mut self, set: usize, now_s: f64) -> Option<usize> {
        if self.config.exclusivity == Exclusivity::Relaxed {
            return self.sets[set].waiting.first().map(|(_, job)| job);
        }
        loop {
            let (_, holder) = self.sets[set].holders.first()?;
            let job = &self.jobs[holder];
            if !job.requests.is_empty() {
                return Some(holder);
            }
            let is_over = job.n_in_flight == 0 && now_s >= job.last_active_s + self.jobs[holder].gap_s;
            if !is_over {
                return None;
            }
            self.leave_phase(holder);
        }
    }

    fn take(&mut self, at: usize, now_s: f64) -> Request {
        let set_at = self.jobs[at].set;
        let job = &mut self.jobs[at];
        let queued = job.requests.pop_front().expect("a job that waits has a request");
        job.n_in_flight += 1;
        job.last_active_s = job.last_active_s.max(now_s);
        job.waiting_since_s = now_s;
        job.bytes_served += queued.bytes;
        let is_served_out = job.requests.is_empty();
        let id = job.id;
        self.n_queued -= 1;
        self.n_in_flight += 1;

        if self.config.credit == Credit::Bytes {
            // Start-time fair queueing (Goyal, Vin, Cheng, 1996). A set that had to stand back has not saved up credit.
            self.turns.remove(&self.turn_of(set_at));
            let set = &mut self.sets[set_at];
            let start = set.finish.max(self.virtual_time);
            self.virtual_time = start;
            set.finish = start + queued.bytes.max(1) as f64 / set.priority;
            self.turns.insert(self.turn_of(set_at), ());
        }
        if is_served_out {
            self.part(at);
            self.stop_waiting(at);
        } else {
            if !self.config.policy.is_exclusive_in_sets() {
                let job = &mut self.jobs[at];
                let set = &mut self.sets[set_at];
                set.waiting.remove(&job.key);
                job.key = job.requests[0].seq;
                set.waiting.insert(job.key, at);
            }
            self.stop_waiting(at);
            self.wait_last(at);
        }
        queued.of(id)
    }

    fn rest_if_idle(&mut self) {
        if self.n_queued == 0 && self.n_in_flight == 0 {
            self.virtual_time = 0.0;
            self.n_rests += 1;
        }
    }

    fn wait_last(&mut self, at: usize) {
        if self.config.ageing.is_none() {
            return;
        }
        self.jobs[at].before = self.last_waiting;
        self.jobs[at].after = None;
        match self.last_waiting {
            Some(last) => self.jobs[last].after = Some(at),
            None => self.longest_waiting = Some(at),
        }
        self.last_waiting = Some(at);
    }

    fn stop_waiting(&mut self, at: usize) {
        if self.config.ageing.is_none() {
            return;
        }
        let (before, after) = (self.jobs[at].before.take(), self.jobs[at].after.take());
        match before {
            Some(before) => self.jobs[before].after = after,
            None => self.longest_waiting = after,
        }
        match after {
            Some(after) => self.jobs[after].before = before,
            None => self.last_waiting = before,
        }
    }
}

/// How requests are served.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueConfig {
    /// Which jobs share a set, and what the sets are worth.
    pub policy: Policy,
    /// What a set's share is counted in.
    pub credit: Credit,
    /// Which job of a set goes first.
    pub order: Order,
    /// What the others of a set do while the first has no request.
    pub exclusivity: Exclusivity,
    /// How jobs that wait long are helped; `None` lets them starve.
    pub ageing: Option<Ageing>,
    /// A job that was idle this long begins a new phase with its next request; of a job whose characteristic time is
    /// known, a tenth of that if it is shorter.
    pub phase_gap_s: f64,
}

impl QueueConfig {
    /// Returns what iotide does unless told otherwise: shares in bytes, first come first served inside a set, a
    /// sixteenth of the requests for jobs that have not been served for a minute.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            credit: Credit::Bytes,
            order: Order::FirstCome,
            exclusivity: Exclusivity::Relaxed,
            ageing: Some(Ageing { patience_s: 60.0, every: 16 }),
            phase_gap_s: 1.0,
        }
    }

    /// Returns what the report's server does.
    pub fn as_in_the_report(policy: Policy) -> Self {
        Self { credit: Credit::Requests, order: Order::Id, ageing: None, ..Self::new(policy) }
    }
}

/// What a set's share is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credit {
    /// As in the report: each set in turn has so many requests served as its priority is larger than the least.
    Requests,
    /// Sets share bytes by priority, however large their requests are.
    Bytes,
}

/// Which job of a set goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The one whose phase began first.
    FirstCome,
    /// The one with the lowest id, as in the report. The highest one may starve.
    Id,
}

/// What the others of a set do while the first has no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exclusivity {
    /// They are served, as in the report: the storage is never idle while a request waits.
    Relaxed,
    /// They wait until its phase is over, as in IO-Sets proper: the storage may be idle.
    Strict,
}

/// How jobs that wait long are helped.
///
/// A job with requests is served at the latest after `patience_s` and then `every` requests for each job that has waited
/// longer; and what the policy decides still holds for all but one in `every` requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ageing {
    /// How long a job with requests may go without being served.
    pub patience_s: f64,
    /// Of so many requests at most one is served out of turn.
    pub every: u32,
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

/// What the queue knows of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JobView {
    /// The job.
    pub job: JobId,
    /// Its rhythm, if known.
    pub profile: Option<IoProfile>,
    /// Its set.
    pub set: SetId,
    /// What that is worth.
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
    /// What has been served to it.
    pub bytes_served: u64,
}

/// When a set's turn comes: sets are ordered as the fields are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    finish: u64,
    higher_first: u64,
    set: usize,
}

/// Spreads a job's number over all bits by one multiplication (Fibonacci hashing).
///
/// A job is looked up three times for each request, where the hash of the standard library would cost more than all the
/// rest. Whoever may choose job numbers to collide may send requests in any number, too.
#[derive(Clone, Copy, Debug, Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, number: u64) {
        // The table looks at the lowest and the highest bits; the highest are the best mixed.
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0 ^ u64::from(byte));
        }
    }
}

#[derive(Clone, Debug)]
struct Set {
    id: SetId,
    priority: f64,
    n_jobs: usize,
    /// Jobs with requests, in the order they are served.
    waiting: Ordered<u64, usize>,
    /// [`Exclusivity::Strict`]: jobs in a phase, in that order.
    holders: Ordered<u64, usize>,
    /// [`Credit::Bytes`]: what it has been served over its priority, or where the others are if it was idle.
    finish: f64,
    /// Which rest `finish` counts from.
    n_rests: u64,
}

#[derive(Clone, Debug)]
struct Job {
    id: JobId,
    set: usize,
    profile: Option<IoProfile>,
    /// How long it must be idle before its phase is over.
    gap_s: f64,
    requests: VecDeque<Queued>,
    n_in_flight: usize,
    phase: Option<Phase>,
    n_phases: u64,
    /// Its place among the jobs of its set.
    key: u64,
    last_active_s: f64,
    /// Since when it has had requests and none was served.
    waiting_since_s: f64,
    before: Option<usize>,
    after: Option<usize>,
    bytes_served: u64,
}

#[derive(Clone, Copy, Debug)]
struct Phase {
    number: u64,
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
mod tests {
    use super::*;
    use crate::UnknownJobs;

    const SET10: Policy = Policy::Set10(UnknownJobs::Together);

    /// A queue whose job `n` has the nth characteristic time.
    fn queue_of(config: QueueConfig, w_iter_s: &[f64]) -> Queue {
        let mut queue = Queue::new(config);
        for (job, &w_iter_s) in (1..).zip(w_iter_s) {
            queue.set_profile(JobId(job), Some(IoProfile::with_period(w_iter_s)));
        }
        queue
    }

    fn push(queue: &mut Queue, job: u64, n: usize, now_s: f64) {
        for id in 0..n as u64 {
            queue.push(Request { job: JobId(job), bytes: 1000, id, arrival_s: now_s });
        }
    }

    /// The jobs of the next `n` requests, all served at one moment.
    fn pop(queue: &mut Queue, n: usize, now_s: f64) -> String {
        (0..n).map_while(|_| queue.pop(now_s)).map(|request| request.job.0.to_string()).collect()
    }

    #[test]
    fn without_a_policy_requests_are_served_as_they_come() {
        let mut queue = queue_of(QueueConfig::new(Policy::Unscheduled), &[10.0, 100.0]);
        for job in [2, 1, 1, 2, 1, 2] {
            push(&mut queue, job, 1, 0.0);
        }
        assert_eq!(pop(&mut queue, 9, 0.0), "211212");
    }

    #[test]
    fn a_fair_share_is_the_same_for_every_job() {
        let mut queue = queue_of(QueueConfig::new(Policy::FairShare), &[10.0, 100.0]);
        push(&mut queue, 1, 6, 0.0);
        push(&mut queue, 2, 3, 0.0);
        assert_eq!(pop(&mut queue, 9, 0.0), "121212111");
    }

    #[test]
    fn inside_a_set_the_job_whose_phase_began_first_is_served_until_it_has_no_request() {
        for policy in [SET10, Policy::Exclusive] {
            let mut queue = queue_of(QueueConfig::new(policy), &[100.0, 100.0]);
            push(&mut queue, 2, 2, 0.0);
            push(&mut queue, 1, 2, 0.1);
            assert_eq!(pop(&mut queue, 3, 0.2), "221");
            // The first is back before its phase was over, and goes first again.
            push(&mut queue, 2, 1, 0.3);
            assert_eq!(pop(&mut queue, 3, 0.4), "21");
        }
    }

    #[test]
    fn a_new_phase_queues_behind_the_others() {
        let mut queue = queue_of(QueueConfig::new(SET10), &[100.0, 100.0]);
        push(&mut queue, 2, 1, 0.0);
        assert_eq!(pop(&mut queue, 1, 0.0), "2");
        queue.complete(JobId(2), 0.5);
        push(&mut queue, 1, 2, 5.0);
        push(&mut queue, 2, 2, 5.1);
        assert_eq!(pop(&mut queue, 9, 5.1), "1122");
        assert_eq!(queue.job(JobId(2)).unwrap().n_phases, 2);
    }

    #[test]
    fn a_phase_goes_on_while_a_request_is_under_way_and_ends_when_that_is_said() {
        let mut queue = queue_of(QueueConfig::new(SET10), &[100.0, 100.0]);
        push(&mut queue, 1, 1, 0.0);
        assert_eq!(pop(&mut queue, 1, 0.0), "1");
        // It took a minute to be served.
        push(&mut queue, 1, 1, 60.0);
        assert_eq!(queue.job(JobId(1)).unwrap().n_phases, 1);
        assert_eq!(pop(&mut queue, 1, 60.0), "1");
        queue.end_phase(JobId(1));
        push(&mut queue, 1, 1, 60.1);
        assert_eq!(queue.job(JobId(1)).unwrap().n_phases, 2);
    }

    #[test]
    fn a_short_rhythm_has_short_gaps() {
        let mut queue = queue_of(QueueConfig::new(SET10), &[1.0]);
        for beat in 0..5 {
            push(&mut queue, 1, 1, f64::from(beat));
            assert_eq!(pop(&mut queue, 1, f64::from(beat)), "1");
            queue.complete(JobId(1), f64::from(beat) + 0.1);
        }
        assert_eq!(queue.job(JobId(1)).unwrap().n_phases, 5);
    }

    #[test]
    fn by_id_the_lowest_goes_first_as_in_the_report() {
        let mut queue = queue_of(QueueConfig::as_in_the_report(SET10), &[100.0, 100.0, 100.0]);
        push(&mut queue, 3, 2, 0.0);
        push(&mut queue, 2, 2, 0.1);
        push(&mut queue, 1, 1, 0.2);
        assert_eq!(pop(&mut queue, 3, 0.2), "122");
        push(&mut queue, 1, 1, 0.3);
        assert_eq!(pop(&mut queue, 9, 0.3), "133");
    }

    #[test]
    fn credits_by_request_are_scaled_so_that_the_least_has_one() {
        // Figure 3 of the report has two of one for each of the other; powers of ten have ten.
        let mut queue = queue_of(QueueConfig::as_in_the_report(SET10), &[100.0, 10.0]);
        push(&mut queue, 1, 3, 0.0);
        push(&mut queue, 2, 25, 0.0);
        assert_eq!(pop(&mut queue, 40, 0.0), "2222222222122222222221222221");
    }

    #[test]
    fn by_bytes_large_requests_have_no_advantage() {
        let config = QueueConfig { ageing: None, ..QueueConfig::new(SET10) };
        let mut queue = queue_of(config, &[100.0, 10.0]);
        for id in 0..4000 {
            queue.push(Request { job: JobId(1), bytes: 1 << 20, id, arrival_s: 0.0 });
            queue.push(Request { job: JobId(2), bytes: 1 << 14, id, arrival_s: 0.0 });
        }
        let mut bytes = [0u64; 3];
        while queue.job(JobId(2)).unwrap().n_queued > 0 {
            let request = queue.pop(0.0).unwrap();
            bytes[request.job.0 as usize] += request.bytes;
        }
        let ratio = bytes[2] as f64 / bytes[1] as f64;
        assert!((8.0..12.5).contains(&ratio), "{bytes:?}");
    }

    #[test]
    fn an_idle_set_saves_no_credit_up() {
        let config = QueueConfig { ageing: None, ..QueueConfig::new(Policy::FairShare) };
        let mut queue = queue_of(config, &[10.0, 10.0]);
        push(&mut queue, 1, 100, 0.0);
        assert_eq!(pop(&mut queue, 50, 0.0).len(), 50);
        push(&mut queue, 2, 50, 1.0);
        assert_eq!(pop(&mut queue, 8, 1.0).matches('2').count(), 4);
    }

    #[test]
    fn unknown_jobs_take_turns_or_share_as_told() {
        let served = |policy| {
            let mut queue = Queue::new(QueueConfig::new(policy));
            push(&mut queue, 1, 3, 0.0);
            push(&mut queue, 2, 3, 0.0);
            pop(&mut queue, 6, 0.0)
        };
        assert_eq!(served(Policy::Set10(UnknownJobs::Together)), "111222");
        assert_eq!(served(Policy::Set10(UnknownJobs::Apart)), "212121");
    }

    #[test]
    fn a_job_whose_rhythm_becomes_known_moves_to_its_set_with_its_requests() {
        let mut queue = queue_of(QueueConfig::as_in_the_report(SET10), &[100.0]);
        push(&mut queue, 1, 30, 0.0);
        push(&mut queue, 2, 30, 0.0);
        assert_eq!(pop(&mut queue, 6, 0.0), "221221"); // 1/50 against 1/100
        queue.set_profile(JobId(2), Some(IoProfile::with_period(10.0)));
        assert_eq!(pop(&mut queue, 22, 0.0).matches('2').count(), 20);
        assert_eq!(queue.job(JobId(2)).unwrap().set, SetId::Magnitude(1));
        queue.set_profile(JobId(2), Some(IoProfile::with_period(100.0)));
        assert_eq!(pop(&mut queue, 60, 0.0).len(), 32);
    }

    #[test]
    fn a_job_that_waits_long_is_served_now_and_then() {
        let ageing = Some(Ageing { patience_s: 10.0, every: 4 });
        let mut queue = queue_of(QueueConfig { ageing, ..QueueConfig::new(SET10) }, &[100.0, 100.0, 100.0]);
        for job in 1..=3 {
            push(&mut queue, job, 20, 0.0);
        }
        assert_eq!(pop(&mut queue, 4, 5.0), "1111");
        assert_eq!(pop(&mut queue, 12, 11.0), "211131111111");
        // One in four at most, however many wait.
        assert_eq!(pop(&mut queue, 8, 30.0), "21113111");
    }

    #[test]
    fn strictly_others_wait_until_the_phase_is_over() {
        let config =
            QueueConfig { exclusivity: Exclusivity::Strict, ageing: None, ..QueueConfig::new(SET10) };
        let mut queue = queue_of(config, &[100.0, 100.0]);
        push(&mut queue, 1, 1, 0.0);
        push(&mut queue, 2, 1, 0.0);
        assert_eq!(pop(&mut queue, 9, 0.0), "1");
        assert_eq!((queue.pop(0.1), queue.next_wake_s()), (None, None)); // under way
        queue.complete(JobId(1), 0.5);
        assert_eq!((queue.pop(0.6), queue.next_wake_s()), (None, Some(1.5)));
        push(&mut queue, 1, 1, 0.7);
        assert_eq!(pop(&mut queue, 9, 0.8), "1");
        queue.complete(JobId(1), 1.0);
        assert_eq!(queue.pop(1.9), None);
        assert_eq!(pop(&mut queue, 9, 2.0), "2");
    }

    #[test]
    fn strictly_a_set_that_must_wait_does_not_hold_up_another() {
        let config =
            QueueConfig { exclusivity: Exclusivity::Strict, ageing: None, ..QueueConfig::new(SET10) };
        for credit in [Credit::Bytes, Credit::Requests] {
            let mut queue = queue_of(QueueConfig { credit, ..config }, &[10.0, 10.0, 1000.0]);
            push(&mut queue, 1, 1, 0.0);
            push(&mut queue, 2, 1, 0.0);
            push(&mut queue, 3, 3, 0.0);
            assert_eq!(pop(&mut queue, 9, 0.0), "1333");
            queue.end_phase(JobId(1));
            assert_eq!(pop(&mut queue, 9, 0.0), "2");
        }
    }

    #[test]
    fn a_forgotten_job_hands_its_requests_back() {
        let mut queue = queue_of(QueueConfig::new(SET10), &[100.0, 100.0]);
        push(&mut queue, 1, 3, 0.0);
        push(&mut queue, 2, 1, 0.0);
        assert_eq!(pop(&mut queue, 1, 0.0), "1");
        let left = queue.forget(JobId(1));
        assert_eq!(left.iter().map(|request| request.id).collect::<Vec<_>>(), [1, 2]);
        queue.complete(JobId(1), 1.0); // too late to matter
        assert_eq!((queue.len(), queue.job(JobId(1))), (1, None));
        assert_eq!(pop(&mut queue, 9, 0.0), "2");
        assert!(queue.is_empty() && queue.forget(JobId(1)).is_empty());
    }

    #[test]
    fn jobs_that_come_and_go_leave_nothing_behind() {
        let mut queue = Queue::new(QueueConfig::new(Policy::FairShare));
        for job in 0..1000 {
            push(&mut queue, job, 1, job as f64);
            assert_eq!(pop(&mut queue, 1, job as f64).len(), job.to_string().len());
            queue.complete(JobId(job), job as f64);
            queue.forget(JobId(job));
        }
        assert_eq!((queue.jobs.len(), queue.sets.len()), (1, 1));
        assert!(queue.jobs().is_empty());
    }
}
