//! A machine with jobs that run and jobs that wait, as decisions see it.

use std::collections::BTreeSet;

use super::job::{BatchJob, JobKind, ResizeCost, whole_ms};
use super::storage::IoNodes;
use super::tide;
use super::waiting::{Gap, Waiting};

/// Decision of a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A job that waited starts.
    Start {
        /// Which.
        job: usize,
        /// On how many nodes.
        nodes: u32,
    },
    /// A running job changes its size.
    Resize {
        /// Which.
        job: usize,
        /// The size it had.
        from: u32,
        /// The size it has from now on.
        to: u32,
    },
    /// The storage changes its number of I/O nodes.
    Storage {
        /// How many it had.
        from: u32,
        /// How many it has from now on.
        to: u32,
    },
}

/// A job that runs.
#[derive(Clone, Debug)]
pub struct JobRun {
    /// When it was started.
    pub start_ms: i64,
    /// Nodes it holds.
    pub nodes: u32,
    /// When its limit ends it if its size stays: what reservations count on.
    pub limit_end_ms: i64,
    /// Work that was done before the present size.
    banked: f64,
    /// When work goes on at the present size; later than now during a pause.
    since_ms: f64,
    /// Time of the whole job at the present size.
    time_ms: f64,
    /// Work done in fact, where it is not told by the clock alone.
    measured: Option<f64>,
    /// Whether its size may be changed at the moment.
    pub(super) is_open: bool,
    pub(super) first_change: Option<Change>,
    pub(super) started_in: u64,
    pub(super) resized_in: u64,
    /// How well it would use twice its nodes, to nine digits.
    pub(super) gain: f64,
}

/// Which way a size was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Grown,
    Shrunk,
}

impl JobRun {
    fn new(job: &BatchJob, now_ms: i64, nodes: u32, pass: u64) -> Self {
        let time_ms = job.time_ms(nodes);
        Self {
            start_ms: now_ms,
            nodes,
            limit_end_ms: now_ms + whole_ms(job.limit_share() * time_ms).max(0),
            banked: 0.0,
            since_ms: now_ms as f64,
            time_ms,
            measured: None,
            is_open: true,
            first_change: None,
            started_in: pass,
            resized_in: 0,
            gain: gain_of_doubling(job, nodes),
        }
    }

    /// Returns how much of its limit's work is behind it; without contention that is the work done.
    fn spent(&self, now_ms: i64) -> f64 {
        let worked_ms = (now_ms as f64 - self.since_ms).max(0.0);
        if self.time_ms > 0.0 { self.banked + worked_ms / self.time_ms } else { 1.0 }
    }

    /// Whether its size may be changed at the moment.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Returns how much of the work is done.
    pub fn done(&self, now_ms: i64) -> f64 {
        self.measured.unwrap_or_else(|| self.spent(now_ms))
    }

    /// Returns when `done` of the work will be done if its size stays.
    pub fn when_done_ms(&self, done: f64) -> i64 {
        whole_ms(self.since_ms + ((done - self.banked) * self.time_ms).max(0.0))
    }

    /// Returns when its limit would end it if it were resized now.
    pub(super) fn limit_end_after(&self, job: &BatchJob, now_ms: i64, to: u32, cost: ResizeCost) -> i64 {
        let (banked, since_ms) = self.pause(now_ms, to, cost);
        whole_ms(since_ms + ((job.limit_share() - banked) * job.time_ms(to)).max(0.0))
    }

    /// Returns the banked work and the time at which work goes on, if it is resized now: an unspent pause is added to the new one.
    fn pause(&self, now_ms: i64, to: u32, cost: ResizeCost) -> (f64, f64) {
        let unspent_ms = (self.since_ms - now_ms as f64).max(0.0);
        let banked = if self.time_ms > 0.0 { self.spent(now_ms) } else { 0.0 };
        (banked, now_ms as f64 + unspent_ms + cost.of(to.abs_diff(self.nodes)))
    }

    fn resize(&mut self, job: &BatchJob, now_ms: i64, to: u32, cost: ResizeCost) {
        (self.banked, self.since_ms) = self.pause(now_ms, to, cost);
        self.nodes = to;
        self.time_ms = job.time_ms(to);
        self.limit_end_ms = self.when_done_ms(job.limit_share());
        self.gain = gain_of_doubling(job, to);
    }

    /// Returns when work goes on: now, or after a pause.
    pub fn resumes_ms(&self) -> f64 {
        self.since_ms
    }
}

/// `t(a)/t(b) · a/b` for b = 2a or the most it can have: 1 is a job that loses nothing, 0 one that cannot grow.
fn gain_of_doubling(job: &BatchJob, nodes: u32) -> f64 {
    let more = nodes.saturating_mul(2).min(job.nodes_max);
    if job.kind != JobKind::Malleable || more <= nodes {
        return 0.0;
    }
    let (time, less) = (job.believed_ms(nodes), job.believed_ms(more));
    let gain = if less > 0.0 { time / less * f64::from(nodes) / f64::from(more) } else { 0.0 };
    (gain * 1e9).round() / 1e9
}

/// A machine with jobs that run and jobs that wait.
///
/// Whoever drives it, a simulator or a real batch system, reports what happens ([`Cluster::submit`], [`Cluster::end`] and so on) and
/// asks for decisions with [`super::schedule`]. Jobs are named by their index in the list it was made with.
#[derive(Clone, Debug)]
pub struct Cluster<'a> {
    pub(super) jobs: &'a [BatchJob],
    pub(super) cost: ResizeCost,
    pub(super) free: u32,
    /// Nodes that serve the storage, where their number may change.
    pub(super) io_nodes: Option<IoNodes>,
    rank_of: Vec<u32>,
    job_at: Vec<u32>,
    pub(super) waiting: Waiting,
    runs: Vec<Option<Box<JobRun>>>,
    /// Limits of all that run, the first to end first.
    by_limit: Vec<(i64, u32)>,
    /// Ranks of the malleable ones that run.
    pub(super) malleable: BTreeSet<u32>,
    pub(super) fills_malleable_only: bool,
    pub(super) fills_at_least_size: bool,
    pub(super) now_ms: i64,
    pub(super) pass: u64,
    pub(super) decisions: Vec<Decision>,
}

/// Promise to a waiting job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// When enough nodes will be free at the latest; `None` if never, as far as can be foreseen.
    pub at_ms: Option<i64>,
    /// Nodes that will be left over then.
    pub extra: u32,
}

impl<'a> Cluster<'a> {
    /// Returns a machine without jobs yet.
    pub fn new(jobs: &'a [BatchJob], n_nodes: u32, cost: ResizeCost) -> Self {
        let mut job_at: Vec<u32> = (0..jobs.len() as u32).collect();
        job_at.sort_by_key(|&job| {
            let at = &jobs[job as usize];
            (std::cmp::Reverse(at.priority), at.submit_ms, job)
        });
        let mut rank_of = vec![0; jobs.len()];
        for (rank, &job) in job_at.iter().enumerate() {
            rank_of[job as usize] = rank as u32;
        }
        Self {
            jobs,
            cost,
            free: n_nodes,
            io_nodes: None,
            rank_of,
            job_at,
            waiting: Waiting::new(jobs.len()),
            runs: vec![None; jobs.len()],
            by_limit: Vec::new(),
            malleable: BTreeSet::new(),
            fills_malleable_only: false,
            fills_at_least_size: false,
            now_ms: 0,
            pass: 0,
            decisions: Vec::new(),
        }
    }

    /// Some of the nodes serve the storage, and are not free.
    pub fn set_io_nodes(&mut self, io_nodes: IoNodes) {
        self.free -= io_nodes.now;
        self.io_nodes = Some(io_nodes);
    }

    /// Gives the storage another number of I/O nodes.
    pub(super) fn resize_storage(&mut self, to: u32) {
        let Some(io_nodes) = &mut self.io_nodes else { return };
        let from = std::mem::replace(&mut io_nodes.now, to);
        self.free = self.free + from - to;
        self.decisions.push(Decision::Storage { from, to });
    }

    /// Nodes that nobody holds.
    pub fn free(&self) -> u32 {
        self.free
    }

    /// How many jobs wait.
    pub fn n_waiting(&self) -> usize {
        self.waiting.len()
    }

    /// How many jobs run.
    pub fn n_running(&self) -> usize {
        self.by_limit.len()
    }

    /// The jobs that wait, the first to be served first.
    pub fn waiting(&self) -> impl Iterator<Item = usize> + '_ {
        self.waiting.iter().map(|rank| self.at_rank(rank))
    }

    /// The run of a job, if it runs.
    pub fn run(&self, job: usize) -> Option<&JobRun> {
        self.runs[job].as_deref()
    }

    /// The jobs that run, by the end of their limits.
    pub fn running(&self) -> impl Iterator<Item = usize> + '_ {
        self.by_limit.iter().map(|&(_, job)| job as usize)
    }

    /// A job begins to wait.
    pub fn submit(&mut self, job: usize) {
        let at = &self.jobs[job];
        let is_filled_in = !self.fills_malleable_only || at.kind == JobKind::Malleable;
        let nodes = if self.fills_at_least_size { tide::least_size(at) } else { at.nodes };
        let size = is_filled_in.then(|| (nodes, at.limit_ms(nodes)));
        self.waiting.insert(self.rank_of[job], size);
    }

    /// A job waits no longer, and does not run either. Returns whether it waited.
    pub fn withdraw(&mut self, job: usize) -> bool {
        let rank = self.rank_of[job];
        let did_wait = self.waiting.contains(rank);
        if did_wait {
            self.waiting.remove(rank);
        }
        did_wait
    }

    /// A run is over; its nodes are free. Returns it.
    pub fn end(&mut self, job: usize) -> Option<JobRun> {
        let run = self.runs[job].take()?;
        self.forget_limit(run.limit_end_ms, job);
        self.malleable.remove(&self.rank_of[job]);
        self.free += run.nodes;
        Some(*run)
    }

    /// Puts a job that is known to run already in its place: `done` of it is done.
    pub fn adopt(&mut self, job: usize, start_ms: i64, nodes: u32, done: f64, now_ms: i64) {
        self.now_ms = now_ms;
        self.begin(job, nodes);
        let at = &self.jobs[job];
        if let Some(run) = self.runs[job].as_deref_mut() {
            let former = run.limit_end_ms;
            run.start_ms = start_ms;
            run.banked = done;
            run.started_in = 0;
            run.limit_end_ms = run.when_done_ms(at.limit_share());
            let limit_end_ms = run.limit_end_ms;
            self.forget_limit(former, job);
            self.keep_limit(limit_end_ms, job);
        }
    }

    /// A node that nobody holds is gone.
    pub fn lose_free_node(&mut self) {
        self.free -= 1;
    }

    /// A node is there again.
    pub fn regain_node(&mut self) {
        self.free += 1;
    }

    /// A node of a running job is gone: a malleable job above its minimum goes on without it. Returns whether it does.
    pub fn lose_node_of(&mut self, job: usize, now_ms: i64) -> bool {
        self.now_ms = now_ms;
        let at = &self.jobs[job];
        match self.run(job) {
            Some(run) if at.kind == JobKind::Malleable && run.nodes > at.nodes_min => {
                let to = run.nodes - 1;
                self.change_size(job, to);
                self.free -= 1;
                true
            }
            _ => false,
        }
    }

    /// A running job is given another size because it asks for it. Returns whether there was room.
    pub fn grant(&mut self, job: usize, to: u32, now_ms: i64) -> bool {
        self.now_ms = now_ms;
        let Some(run) = self.run(job) else { return false };
        let is_possible = to >= 1 && to != run.nodes && to.saturating_sub(run.nodes) <= self.free;
        if is_possible {
            self.change_size(job, to);
        }
        is_possible
    }

    /// Says how much of a job is done in fact, and whether its size may be changed at the moment.
    pub fn set_progress(&mut self, job: usize, done: f64, is_open: bool) {
        if let Some(run) = self.runs[job].as_deref_mut() {
            run.measured = Some(done);
            run.is_open = is_open;
        }
    }

    /// Returns the promise to the first of the queue, given that it needs `nodes`.
    pub fn reservation(&self, nodes: u32) -> Reservation {
        if nodes <= self.free {
            return Reservation { at_ms: Some(self.now_ms), extra: self.free - nodes };
        }
        let mut free = self.free;
        let mut limits = self.by_limit.iter().peekable();
        while let Some(&(end_ms, job)) = limits.next() {
            free += self.nodes_of(job as usize);
            // All that end together are counted before the surplus is known.
            if free >= nodes && limits.peek().is_none_or(|&&(next_ms, _)| next_ms > end_ms) {
                // Who is over its limit and still there may go any moment, but is not gone.
                let at_ms = if end_ms < self.now_ms { self.now_ms + 1 } else { end_ms };
                return Reservation { at_ms: Some(at_ms), extra: free - nodes };
            }
        }
        Reservation { at_ms: None, extra: 0 }
    }

    pub(super) fn at_rank(&self, rank: u32) -> usize {
        self.job_at[rank as usize] as usize
    }

    pub(super) fn rank(&self, job: usize) -> u32 {
        self.rank_of[job]
    }

    pub(super) fn head(&self) -> Option<usize> {
        self.waiting.first().map(|rank| self.at_rank(rank))
    }

    pub(super) fn nodes_of(&self, job: usize) -> u32 {
        self.runs[job].as_deref().map_or(0, |run| run.nodes)
    }

    pub(super) fn limits(&self) -> &[(i64, u32)] {
        &self.by_limit
    }

    pub(super) fn gap(&self, reserved: Reservation) -> Gap {
        let window_ms = reserved.at_ms.map_or(i64::MAX, |at_ms| at_ms - self.now_ms);
        Gap { free: self.free, window_ms, extra: reserved.extra }
    }

    /// Starts a job that waits.
    pub(super) fn start(&mut self, job: usize, nodes: u32) {
        self.waiting.remove(self.rank_of[job]);
        self.begin(job, nodes);
        self.decisions.push(Decision::Start { job, nodes });
    }

    fn begin(&mut self, job: usize, nodes: u32) {
        let run = JobRun::new(&self.jobs[job], self.now_ms, nodes, self.pass);
        self.keep_limit(run.limit_end_ms, job);
        self.runs[job] = Some(Box::new(run));
        if self.jobs[job].kind == JobKind::Malleable {
            self.malleable.insert(self.rank_of[job]);
        }
        self.free -= nodes;
    }

    /// Gives a running job another size.
    pub(super) fn resize(&mut self, job: usize, to: u32) {
        let from = self.nodes_of(job);
        self.change_size(job, to);
        let pass = self.pass;
        if let Some(run) = self.runs[job].as_deref_mut() {
            let change = if to > from { Change::Grown } else { Change::Shrunk };
            run.first_change.get_or_insert(change);
            run.resized_in = pass;
        }
        self.decisions.push(Decision::Resize { job, from, to });
    }

    fn change_size(&mut self, job: usize, to: u32) {
        let Some(run) = self.runs[job].as_deref_mut() else { return };
        let (former, from) = (run.limit_end_ms, run.nodes);
        run.resize(&self.jobs[job], self.now_ms, to, self.cost);
        let limit_end_ms = run.limit_end_ms;
        self.free = self.free + from - to;
        self.forget_limit(former, job);
        self.keep_limit(limit_end_ms, job);
    }

    fn keep_limit(&mut self, end_ms: i64, job: usize) {
        let entry = (end_ms, job as u32);
        let at = self.by_limit.partition_point(|other| *other < entry);
        self.by_limit.insert(at, entry);
    }

    fn forget_limit(&mut self, end_ms: i64, job: usize) {
        if let Ok(at) = self.by_limit.binary_search(&(end_ms, job as u32)) {
            self.by_limit.remove(at);
        }
    }
}
