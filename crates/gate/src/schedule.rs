//! Data requests through the two-level queue: who is served when.
//!
//! At most so many requests as there are workers are with the backing store at once; the others wait in
//! [`iotide_sched::Queue`], whose policy says which is next. A request that need not wait is served by the thread that
//! read it from the kernel, out of the memory the kernel filled; one that must is copied, waits without holding a thread,
//! and is served by the [`Crew`]. So requests that wait never keep others from being read.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use iotide_sched::{
    HARDLY_NEW, IoProfile, JobId, LONGEST_TURN_S, PeriodSource, Queue, QueueConfig, Request, SetId,
};

use crate::allowance::Allowances;
use crate::asker::{Arbiters, Asker, Extent, Leave};
use crate::caller::Callers;
use crate::clock::JobClock;
use crate::crew::Crew;
use crate::device::Device;
use crate::job::JobName;
use crate::meter::Meter;
use crate::shares::{Shares, Use};

use crate::caller::Who;
use permit::{Hold, Wait};

pub use permit::{Permit, Ticket};

mod permit;

/// Lets data requests through.
#[derive(Clone)]
pub struct Scheduler {
    core: Arc<Core>,
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler").field("rules", &self.core.rules).finish_non_exhaustive()
    }
}

/// How requests are scheduled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub queue: QueueConfig,
    /// How many requests may be with the backing store at once.
    pub n_workers: usize,
    /// Requests of at most this size are not held up, as far as their user's allowance goes.
    pub bypass_bytes: u64,
    /// Pretend that the backing store is no faster than this.
    pub bandwidth_bps: Option<f64>,
    /// How many targets of that bandwidth.
    pub n_targets: usize,
    /// Seconds of the policy in one of ours.
    pub time_scale: f64,
}

/// Which way data go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the storage.
    Read,
    /// To the storage.
    Write,
}

/// A request that was served, for those who look for a rhythm in them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Served {
    pub direction: Direction,
    /// When it came, by the clock of its job.
    pub arrival_s: f64,
    pub end_s: f64,
    pub bytes: u64,
}

/// I/O of a job that was served since the last time somebody asked.
pub(crate) struct Heard {
    pub job: JobName,
    /// Time on its clock, in seconds.
    pub now_s: f64,
    pub served: Vec<Served>,
}

struct Core {
    rules: Rules,
    callers: Callers,
    crew: Crew,
    /// Whom to ask first, if others decide, too.
    asker: OnceLock<Asker>,
    began: Instant,
    state: Mutex<State>,
    timer: Mutex<Option<JoinHandle<()>>>,
    /// The queue may have to be asked again at another time than before.
    changed: Condvar,
}

struct State {
    queue: Queue,
    waiting: HashMap<u64, Waiting>,
    n_in_service: usize,
    n_requests: u64,
    n_made_up: u64,
    device: Option<Device>,
    allowances: Allowances,
    shares: Shares,
    ids: HashMap<JobName, JobId>,
    jobs: HashMap<JobId, Job>,
    /// How many jobs each user has.
    n_of_user: HashMap<Option<u32>, usize>,
    /// Jobs that had to make room since somebody asked.
    forgotten: Vec<JobName>,
    is_over: bool,
}

struct Job {
    name: JobName,
    clock: JobClock,
    meter: Meter,
    n_bytes: u64,
    last_seen_s: f64,
    source: Option<PeriodSource>,
    /// When a period that was given for a time is taken back.
    given_until_s: Option<f64>,
    served: Vec<Served>,
    /// How much it had moved and how long it had waited when shares were last looked at.
    counted: (u64, f64),
}

/// Requests of at most this size, this close to each other, are one to those who look for a rhythm. It is far below any grace period.
const JOINED_BYTES: u64 = 64 << 10;
const JOINED_WITHIN_S: f64 = 0.001;

impl Job {
    /// Notes a request that did not wait, with the times on the wall.
    fn note_at_once(&mut self, served: Served, now_s: f64) {
        let behind_s = self.clock.held_up_s(now_s);
        let (arrival_s, end_s) = (served.arrival_s - behind_s, served.end_s - behind_s);
        self.note(Served { arrival_s, end_s, ..served }, now_s);
    }

    fn note(&mut self, served: Served, now_s: f64) {
        self.meter.add(now_s, served.bytes);
        self.n_bytes += served.bytes;
        self.last_seen_s = now_s;
        // A job that reads page by page makes tens of thousands of requests a second, which a rhythm is not told from one by one.
        if let Some(last) = self.served.last_mut()
            && last.direction == served.direction
            && served.bytes <= JOINED_BYTES
            && served.end_s - last.arrival_s <= JOINED_WITHIN_S
            && served.arrival_s >= last.arrival_s
        {
            last.bytes += served.bytes;
            last.end_s = last.end_s.max(served.end_s);
            return;
        }
        // Whoever takes these has fallen far behind; a rhythm is told from fewer, too.
        if self.served.len() < 1 << 16 {
            self.served.push(served);
        }
    }
}

/// A request in the queue, or out of it before its data were copied.
struct Waiting {
    direction: Direction,
    position: u64,
    /// By the clock of its job.
    arrival_s: f64,
    grant: Option<Grant>,
    answer: Option<Answer>,
}

type Answer = Box<dyn FnOnce(Permit) + Send>;

#[derive(Clone, Copy, Debug)]
struct Grant {
    job: JobId,
    request: Served,
    /// Whether it counts among those that are with the backing store.
    is_in_service: bool,
    /// When the device that we pretend to have is through with it.
    through_at_s: Option<f64>,
}

impl Scheduler {
    /// Begins to let requests through; the thread that this starts has ended when [`Scheduler::stop`] returns.
    pub(crate) fn start(rules: Rules, callers: Callers, crew: Crew) -> std::io::Result<Self> {
        let state = State {
            queue: Queue::new(rules.queue),
            waiting: HashMap::new(),
            n_in_service: 0,
            n_requests: 0,
            n_made_up: 0,
            device: rules.bandwidth_bps.map(|bps| Device::new(bps, rules.n_targets)),
            allowances: Allowances::default(),
            shares: Shares::default(),
            ids: HashMap::new(),
            jobs: HashMap::new(),
            n_of_user: HashMap::new(),
            forgotten: Vec::new(),
            is_over: false,
        };
        let core = Core {
            rules: Rules { n_workers: rules.n_workers.max(1), ..rules },
            callers,
            crew,
            asker: OnceLock::new(),
            began: Instant::now(),
            state: Mutex::new(state),
            timer: Mutex::default(),
            changed: Condvar::new(),
        };
        let core = Arc::new(core);
        let timer = Arc::clone(&core);
        let timer =
            thread::Builder::new().name("iotide-timer".to_owned()).spawn(move || timer.keep_time())?;
        *core.timer.lock().unwrap_or_else(PoisonError::into_inner) = Some(timer);
        Ok(Self { core })
    }

    /// Ends, when nobody is left to ask.
    pub(crate) fn stop(&self) {
        let mut state = self.core.lock();
        state.is_over = true;
        // Answers to requests that wait may hold this scheduler, and it holds them.
        let unanswered = std::mem::take(&mut state.waiting);
        drop(state);
        drop(unanswered);
        if let Some(asker) = self.core.asker.get() {
            asker.stop();
        }
        self.core.changed.notify_all();
        let timer = self.core.timer.lock().unwrap_or_else(PoisonError::into_inner).take();
        let _ = timer.map(JoinHandle::join);
    }

    /// Returns a weak reference, to see whether all is gone when everyone has let go.
    #[cfg(test)]
    pub(crate) fn downgrade(&self) -> std::sync::Weak<impl Sized + use<>> {
        Arc::downgrade(&self.core)
    }

    /// From now on, arbiters are asked before anyone is let through here.
    pub fn ask_first(&self, arbiters: Arbiters) -> std::io::Result<()> {
        let asker = Asker::start(arbiters, self.core.crew.clone())?;
        self.core.asker.set(asker).map_err(|_| std::io::ErrorKind::AlreadyExists.into())
    }

    /// Has `answer` called when it is the request's turn: here and now, or later elsewhere.
    pub fn schedule(
        &self,
        who: Who,
        direction: Direction,
        position: u64,
        bytes: u64,
        answer: impl FnOnce(&Permit) + Send + 'static,
    ) {
        match self.ask(who, direction, position, bytes) {
            Ok(permit) => answer(&permit),
            Err(ticket) => ticket.wait(answer),
        }
    }

    /// Has `answer` called when it is the turn of a request of `job`; the permit is the answer's to keep.
    pub(crate) fn schedule_for(
        &self,
        job: &JobName,
        direction: Direction,
        bytes: u64,
        answer: impl FnOnce(Permit) + Send + 'static,
    ) {
        match self.ask_for(job, direction, Extent { position: 0, bytes }) {
            Ok(permit) => answer(permit),
            Err(ticket) => ticket.keep(Box::new(answer)),
        }
    }

    /// Asks whether a request may be served at once.
    pub fn ask(&self, who: Who, direction: Direction, position: u64, bytes: u64) -> Result<Permit, Ticket> {
        let job = self.core.callers.job_of(who);
        let extent = Extent { position, bytes };
        match self.core.asker.get() {
            Some(asker) if bytes > self.core.rules.bypass_bytes && !asker.is_free(&job, extent) => {
                let wait = Wait::Leave { asker: asker.clone(), job, direction, extent };
                Err(Ticket { core: Arc::clone(&self.core), wait })
            }
            _ => self.ask_for(&job, direction, extent),
        }
    }

    fn ask_for(&self, name: &JobName, direction: Direction, extent: Extent) -> Result<Permit, Ticket> {
        let bytes = extent.bytes;
        let core = &self.core;
        let now_s = core.now_s();
        let request = Served { direction, arrival_s: now_s, end_s: now_s, bytes };
        let mut state = core.lock();
        if bytes <= core.rules.bypass_bytes && state.allowances.take(name.user(), bytes, now_s) {
            // It takes the device's time, but does not wait for it.
            if let Some(device) = &mut state.device {
                device.occupy(extent, now_s);
            }
            drop(state);
            let held = Hold::Nothing(name.clone(), request);
            return Ok(Permit { core: Arc::clone(core), held, leave: Leave::default() });
        }
        let job = state.job(name, now_s);
        let id = state.n_requests;
        state.n_requests += 1;
        state.queue.push(Request { job, bytes, id, arrival_s: now_s });
        let arrival_s = state.jobs.get_mut(&job).map_or(now_s, |job| job.clock.ask(now_s));
        state.waiting.insert(
            id,
            Waiting { direction, position: extent.position, arrival_s, grant: None, answer: None },
        );
        let ready = core.let_through(&mut state, now_s);
        let granted = state.take_grant(id);
        drop(state);
        core.serve(ready);
        match granted {
            Some(grant) => Ok(core.permit(grant)),
            None => Err(Ticket { core: Arc::clone(core), wait: Wait::Turn(id) }),
        }
    }

    /// For how long a job may be without a request before others are served.
    pub(crate) fn lull_s(&self) -> f64 {
        let queue = &self.core.rules.queue;
        queue.phase_gap_s.min(queue.lull_s)
    }

    /// The time since the start.
    pub(crate) fn now_s(&self) -> f64 {
        self.core.now_s()
    }

    /// Whether another job than `job` uses the storage, or did so within the last `late_s`.
    pub(crate) fn is_contended(&self, job: &JobName, late_s: f64) -> bool {
        let state = self.core.lock();
        let now_s = self.core.now_s();
        let own = state.ids.get(job).copied();
        state.queue.is_shared(own, now_s - late_s)
    }

    /// Notes data of a job that were moved without asking for each request, with the times on the wall.
    pub(crate) fn note_served(&self, job: &JobName, served: Served) {
        let mut state = self.core.lock();
        let now_s = self.core.now_s();
        let id = state.job(job, now_s);
        if let Some(job) = state.jobs.get_mut(&id) {
            job.note_at_once(served, now_s);
        }
    }

    /// Notes what someone says of the period of a job, by its name; of all that have the name. Returns whether there is one.
    pub(crate) fn set_period_of(&self, words: &str, period_s: Option<f64>, source: PeriodSource) -> bool {
        let called: Vec<JobName> =
            self.core.lock().ids.keys().filter(|job| job.is_called(words)).cloned().collect();
        // Each of them is told, not only the first.
        called.iter().filter(|job| self.set_period(job, period_s, source)).count() > 0
    }

    /// Notes the period of all jobs of a name for a time: whoever gives it must say it again, or it is as if nobody had.
    pub(crate) fn lend_period_of(&self, words: &str, period_s: f64, for_s: f64) -> bool {
        let is_known = self.set_period_of(words, Some(period_s), PeriodSource::Given);
        let mut state = self.core.lock();
        let until_s = self.core.now_s() + for_s;
        for job in state.jobs.values_mut().filter(|job| job.name.is_called(words)) {
            job.given_until_s = Some(until_s);
        }
        is_known
    }

    /// Takes back what was given for a time that is over.
    pub(crate) fn take_back_lent(&self) {
        let late: Vec<JobName> = {
            let state = self.core.lock();
            let now_s = self.core.now_s();
            let is_late = |job: &&Job| job.given_until_s.is_some_and(|until_s| until_s < now_s);
            state.jobs.values().filter(is_late).map(|job| job.name.clone()).collect()
        };
        for job in late {
            self.set_period(&job, None, PeriodSource::Given);
        }
    }

    /// The job that the system says a process belongs to.
    pub(crate) fn vouched(&self, process: u32) -> Option<String> {
        self.core.callers.vouched(process)
    }

    /// Notes the period of a job; `None` if it has none any more. Returns whether the job is known.
    pub(crate) fn set_period(&self, job: &JobName, period_s: Option<f64>, source: PeriodSource) -> bool {
        let core = &self.core;
        let mut guard = core.lock();
        let state = &mut *guard;
        let Some(&id) = state.ids.get(job) else { return false };
        let Some(known) = state.jobs.get_mut(&id) else { return false };
        // What a person said is not overruled by what was seen.
        if source != PeriodSource::Given && known.source == Some(PeriodSource::Given) {
            return true;
        }
        known.given_until_s = None;
        let scale = core.rules.time_scale;
        let former = state.queue.job(id).and_then(|view| view.profile);
        let profile = period_s.and_then(|period_s| IoProfile::checked(period_s * scale));
        let is_known = former == profile && state.queue.job(id).is_some();
        known.source = profile.map(|_| source);
        let is_hardly_new = || {
            former.zip(profile).is_some_and(|(former, new)| {
                (new.w_iter_s() / former.w_iter_s()).ln().abs() < HARDLY_NEW.ln()
            })
        };
        if is_known || source != PeriodSource::Given && is_hardly_new() {
            return true;
        }
        state.queue.set_profile(id, profile);
        let ready = core.let_through(state, core.now_s());
        drop(guard);
        core.serve(ready);
        true
    }

    /// Takes what was served since the last time, by job, and what each job's clock shows.
    pub(crate) fn take_served(&self) -> Vec<Heard> {
        let mut state = self.core.lock();
        let now_s = self.core.now_s();
        let heard = state.jobs.values_mut().map(|job| Heard {
            job: job.name.clone(),
            now_s: job.clock.at(now_s),
            served: std::mem::take(&mut job.served),
        });
        heard.collect()
    }

    /// Holds those back who have had more than their share, and no one else.
    pub(crate) fn heed_shares(&self) {
        let core = &self.core;
        let mut guard = core.lock();
        let state = &mut *guard;
        let now_s = core.now_s();
        let queue = &state.queue;
        let uses = state.jobs.iter_mut().map(|(id, job)| {
            let view = queue.job(*id);
            let w_iter_s = view.and_then(|view| view.profile).map_or(0.0, |profile| profile.w_iter_s());
            let patience_s = (w_iter_s / core.rules.time_scale / 2.0).min(LONGEST_TURN_S);
            let now = (job.n_bytes, job.clock.held_up_s(now_s));
            let before = std::mem::replace(&mut job.counted, now);
            Use {
                user: job.name.user(),
                bytes: now.0 - before.0,
                is_active: view.is_some_and(|view| view.n_queued + view.n_in_flight > 0),
                waited_s: now.1 - before.1,
                patience_s: patience_s.max(core.rules.queue.turn_s),
            }
        });
        let uses: Vec<Use> = uses.collect();
        let behind = state.shares.look(now_s, &uses);
        for (id, job) in &state.jobs {
            state.queue.hold_back(*id, behind.contains(&job.name.user()));
        }
        let ready = core.let_through(state, now_s);
        drop(guard);
        core.serve(ready);
    }

    /// Forgets jobs that have not been seen for a while, and returns their names and those that had to make room.
    pub(crate) fn forget_idle(&self, for_s: f64) -> Vec<JobName> {
        let mut state = self.core.lock();
        let before_s = self.core.now_s() - for_s;
        let gone: Vec<JobId> = state
            .jobs
            .iter()
            .filter(|(id, job)| job.last_seen_s < before_s && state.is_idle(**id))
            .map(|(id, _)| *id)
            .collect();
        for id in gone {
            state.forget(id);
        }
        std::mem::take(&mut state.forgotten)
    }

    /// Returns the jobs that were seen of late, by name.
    pub fn jobs(&self) -> Vec<JobStatus> {
        let state = self.core.lock();
        let now_s = self.core.now_s();
        let views = state.queue.jobs();
        let is_active = |view: &iotide_sched::JobView| {
            view.n_queued + view.n_in_flight > 0 || now_s - view.last_active_s < 1.0
        };
        let active: HashMap<SetId, f64> =
            views.iter().filter(|view| is_active(view)).map(|view| (view.set, view.priority)).collect();
        let total: f64 = active.values().sum();
        // Where several users claim one name, it is said whose it is.
        let mut n_called: HashMap<&str, usize> = HashMap::new();
        state.jobs.values().for_each(|job| *n_called.entry(job.name.name()).or_default() += 1);
        let shown = |name: &JobName| match n_called.get(name.name()) {
            Some(2..) => name.in_full(),
            _ => name.to_string(),
        };
        let mut all: Vec<JobStatus> = state
            .jobs
            .iter()
            .map(|(id, job)| {
                // A job whose requests were all small never came into the queue.
                let view = state.queue.job(*id);
                JobStatus {
                    job: shown(&job.name),
                    period_s: view
                        .and_then(|view| Some(view.profile?.w_iter_s() / self.core.rules.time_scale)),
                    source: job.source,
                    set: view.map(|view| view.set.to_string()),
                    share: view.filter(is_active).map(|view| view.priority / total),
                    n_waiting: view.map_or(0, |view| view.n_queued),
                    waits_for: view
                        .and_then(|view| state.jobs.get(&view.waits_for?))
                        .map(|job| shown(&job.name)),
                    n_phases: view.map_or(0, |view| view.n_phases),
                    bandwidth_bps: job.meter.rate_bps(now_s),
                    bytes: job.n_bytes,
                }
            })
            .collect();
        all.sort_by(|a, b| a.job.cmp(&b.job));
        all
    }
}

/// A job as the scheduler sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct JobStatus {
    /// Its number in the batch system, or `uid:1000`.
    pub job: String,
    /// Time from the start of one I/O phase to the next, if known.
    pub period_s: Option<f64>,
    /// Where that comes from.
    pub source: Option<PeriodSource>,
    /// Its set: the order of magnitude of the period, `unknown`, `all` or `own`; `None` if all its requests were small.
    pub set: Option<String>,
    /// The share of the bandwidth its set has now; `None` if it is idle.
    pub share: Option<f64>,
    /// Requests that wait.
    pub n_waiting: usize,
    /// The job of the same set whose turn it is, while requests wait.
    pub waits_for: Option<String>,
    /// I/O phases so far.
    pub n_phases: u64,
    /// Bytes per second of late.
    pub bandwidth_bps: f64,
    /// Bytes in all.
    pub bytes: u64,
}

type Ready = (Grant, Answer);

impl Core {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_s(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Takes as many requests from the queue as may be served, and returns those that can be.
    fn let_through(&self, state: &mut State, now_s: f64) -> Vec<Ready> {
        let mut ready = Vec::new();
        while state.n_in_service < self.rules.n_workers {
            let Some(Request { job, bytes, id, .. }) = state.queue.pop(now_s) else {
                if !state.queue.is_empty() {
                    self.changed.notify_all();
                }
                break;
            };
            state.n_in_service += 1;
            let position = state.waiting.get(&id).map_or(0, |waiting| waiting.position);
            let extent = Extent { position, bytes };
            let through_at_s = state.device.as_mut().map(|device| device.occupy(extent, now_s));
            if let Some(job) = state.jobs.get_mut(&job) {
                job.clock.begin(now_s);
            }
            let Some(waiting) = state.waiting.get_mut(&id) else { continue };
            let Waiting { direction, arrival_s, .. } = *waiting;
            let request = Served { direction, arrival_s, end_s: arrival_s, bytes };
            let grant = Grant { job, request, is_in_service: true, through_at_s };
            match waiting.answer.take() {
                Some(answer) => {
                    state.waiting.remove(&id);
                    ready.push((grant, answer));
                }
                None => waiting.grant = Some(grant),
            }
        }
        ready
    }

    fn permit(self: &Arc<Self>, grant: Grant) -> Permit {
        Permit { core: Arc::clone(self), held: Hold::Place(grant), leave: Leave::default() }
    }

    fn serve(self: &Arc<Self>, ready: Vec<Ready>) {
        for (grant, answer) in ready {
            let permit = self.permit(grant);
            self.crew.run(Box::new(move || answer(permit)));
        }
    }

    /// Asks the queue again when a job that held the storage has been idle for long enough.
    fn keep_time(self: Arc<Self>) {
        let mut state = self.lock();
        while !state.is_over {
            let is_held = !state.queue.is_empty() && state.n_in_service < self.rules.n_workers;
            let wake_s = if is_held { state.queue.next_wake_s() } else { None };
            let wait_s = wake_s.map_or(1.0, |wake_s| (wake_s - self.now_s()).clamp(0.001, 1.0));
            let waited = self.changed.wait_timeout(state, Duration::from_secs_f64(wait_s));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            let now_s = self.now_s();
            let ready = self.let_through(&mut state, now_s);
            if !ready.is_empty() {
                drop(state);
                self.serve(ready);
                state = self.lock();
            }
        }
    }
}

impl State {
    fn job(&mut self, name: &JobName, now_s: f64) -> JobId {
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let name = &self.make_room_for(name);
        if let Some(&id) = self.ids.get(name) {
            return id;
        }
        let id = JobId::of_name(name.name()).filter(|id| !self.jobs.contains_key(id));
        let id = id.unwrap_or_else(|| {
            self.n_made_up += 1;
            JobId::made_up(self.n_made_up)
        });
        self.ids.insert(name.clone(), id);
        *self.n_of_user.entry(name.user()).or_default() += 1;
        let job = Job {
            name: name.clone(),
            clock: JobClock::default(),
            meter: Meter::default(),
            n_bytes: 0,
            last_seen_s: now_s,
            source: None,
            given_until_s: None,
            served: Vec::new(),
            counted: (0, 0.0),
        };
        self.jobs.insert(id, job);
        id
    }

    /// Forgets jobs until there is room for another of its user, least recently used first. Returns what it is to be counted as: itself, or
    /// whatever else its user does if all of the others have requests.
    fn make_room_for(&mut self, name: &JobName) -> JobName {
        let of_user = |user: Option<u32>| self.n_of_user.get(&user).copied().unwrap_or(0);
        let is_too_many = of_user(name.user()) >= MAX_JOBS_OF_USER;
        if !is_too_many && self.jobs.len() < MAX_JOBS {
            return name.clone();
        }
        // If not this user has too many, then it is whoever has most.
        let most = self.n_of_user.iter().max_by_key(|(_, n)| **n).map(|(user, _)| *user);
        let whose = if is_too_many { Some(name.user()) } else { most };
        let oldest = (self.jobs.iter())
            .filter(|(id, job)| Some(job.name.user()) == whose && self.is_idle(**id))
            .min_by(|(_, a), (_, b)| a.last_seen_s.total_cmp(&b.last_seen_s))
            .map(|(id, _)| *id);
        match oldest {
            Some(id) => {
                self.forget(id);
                name.clone()
            }
            None => name.user().map_or_else(|| JobName::new("others", None), JobName::of_user),
        }
    }

    fn forget(&mut self, id: JobId) {
        self.queue.forget(id);
        let Some(job) = self.jobs.remove(&id) else { return };
        self.ids.remove(&job.name);
        if let Some(n) = self.n_of_user.get_mut(&job.name.user()) {
            *n -= 1;
            if *n == 0 {
                self.n_of_user.remove(&job.name.user());
            }
        }
        self.forgotten.push(job.name);
    }

    fn take_grant(&mut self, id: u64) -> Option<Grant> {
        let grant = self.waiting.get(&id)?.grant?;
        self.waiting.remove(&id);
        Some(grant)
    }

    fn is_idle(&self, id: JobId) -> bool {
        self.queue.job(id).is_none_or(|view| view.n_queued + view.n_in_flight == 0)
    }
}

/// So many jobs are known at once, and of one user. A machine runs fewer; a name costs nothing to claim.
const MAX_JOBS: usize = 4096;
const MAX_JOBS_OF_USER: usize = 256;

#[cfg(test)]
mod tests;
