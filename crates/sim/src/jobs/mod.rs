//! Jobs on a machine under a policy, event by event, in whole milliseconds.
//!
//! In one millisecond come ends, repairs, failures, cancellations, requests of evolving jobs and submissions, in this order; then the
//! policy makes one pass. Jobs that take no time end at once, and there is another pass.

pub use io_table::{IoKnown, IoTable};
pub use nodes::NodeRange;
pub use outcome::{Held, History, JobFate, JobState, JobsMetrics, Load, Resized, Schedule};
pub use variants::Mistakes;
pub use variants::{JobsMix, Malleability};
pub use workload::{
    FigureClass, JobLabel, JobsWorkload, MOST_JOBS, MOST_NODES, NodeFailure, SharedStorage, SubmittedJob,
};

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use iotide_sched::jobs::{BatchJob, Cluster, Decision, JobKind, JobPolicy, PolicyKnobs, schedule};

use self::nodes::FreeNodes;
use self::transfers::Transfers;

#[cfg(test)]
mod by_hand;
#[cfg(test)]
mod golden;
mod io_table;
mod nodes;
mod outcome;
#[cfg(test)]
mod properties;
mod transfers;
mod variants;
mod workload;

/// Runs a workload under a policy. `keeps_history`: whether who held what, and the load, are wanted, too.
pub fn run_jobs(
    workload: &JobsWorkload,
    policy: JobPolicy,
    knobs: &PolicyKnobs,
    keeps_history: bool,
) -> (Vec<BatchJob>, Schedule) {
    let jobs = cut_to_machine(workload);
    let schedule = Simulation::new(workload, &jobs, policy, *knobs, keeps_history).run();
    (jobs, schedule)
}

/// Jobs as the scheduler sees them: preferred and largest sizes are cut to the machine.
fn cut_to_machine(workload: &JobsWorkload) -> Vec<BatchJob> {
    let cut = |job: &SubmittedJob| {
        let batch = &job.batch;
        BatchJob {
            nodes: batch.nodes.min(workload.compute_nodes()),
            nodes_max: batch.nodes_max.min(workload.compute_nodes()),
            ..batch.clone()
        }
    };
    workload.jobs.iter().map(cut).collect()
}

/// Event at a time that is not known from the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A run ends.
    End { job: usize },
    /// A run goes on to move data.
    Computed { job: usize },
    /// A node is back.
    Repair { node: u32 },
    /// An evolving job asks for another size.
    Request { job: usize, index: usize },
}

/// State of a job in the simulator, beyond the part that the scheduler sees.
#[derive(Clone, Debug)]
struct Tale {
    fate: JobFate,
    nodes: Vec<NodeRange>,
    /// Events of former sizes and runs are void.
    version: u32,
    /// Since when it holds what it holds.
    held_since_ms: i64,
    is_over: bool,
    next_request: usize,
}

struct Simulation<'a> {
    workload: &'a JobsWorkload,
    jobs: &'a [BatchJob],
    policy: JobPolicy,
    knobs: PolicyKnobs,
    cluster: Cluster<'a>,
    now_ms: i64,
    free: FreeNodes,
    /// Nodes that serve the storage.
    io_nodes: Vec<NodeRange>,
    storage_resizes: Vec<Resized>,
    down: HashMap<u32, i64>,
    n_down: u32,
    tales: Vec<Tale>,
    events: BinaryHeap<Reverse<(i64, Event, u32)>>,
    transfers: Option<Transfers>,
    busy: u32,
    accounted_ms: i64,
    busy_node_ms: u128,
    down_node_ms: u128,
    io_node_ms: u128,
    /// When nodes were last given back, and how long nodes were down and served the storage until then.
    last_release: Option<(i64, u128, u128)>,
    history: Option<History>,
    /// The head of the queue after each pass, and when it starts at the latest.
    #[cfg(test)]
    promises: Option<Vec<(usize, i64)>>,
}

impl<'a> Simulation<'a> {
    fn new(
        workload: &'a JobsWorkload,
        jobs: &'a [BatchJob],
        policy: JobPolicy,
        knobs: PolicyKnobs,
        keeps_history: bool,
    ) -> Self {
        let mut cluster = Cluster::new(jobs, workload.nodes, workload.cost);
        cluster.prepare(policy);
        let io_nodes = workload.storage.as_ref().and_then(|storage| storage.io_nodes.as_ref());
        if let Some(io_nodes) = io_nodes {
            cluster.set_io_nodes(io_nodes.clone());
        }
        let fate = JobFate {
            state: JobState::Stuck,
            start_ms: None,
            end_ms: None,
            nodes: None,
            restarts: 0,
            resizes: Vec::new(),
        };
        let tale =
            Tale { fate, nodes: Vec::new(), version: 0, held_since_ms: 0, is_over: false, next_request: 0 };
        let first_ms = jobs.iter().map(|job| job.submit_ms).min().unwrap_or(0);
        Self {
            workload,
            jobs,
            policy,
            knobs,
            cluster,
            now_ms: first_ms,
            free: FreeNodes::new(workload.compute_nodes()),
            io_nodes: io_nodes.map(|_| (workload.compute_nodes(), workload.nodes)).into_iter().collect(),
            storage_resizes: Vec::new(),
            down: HashMap::new(),
            n_down: 0,
            tales: vec![tale; jobs.len()],
            events: BinaryHeap::new(),
            transfers: workload.storage.as_ref().map(|storage| Transfers::new(storage, jobs.len())),
            busy: 0,
            accounted_ms: first_ms,
            busy_node_ms: 0,
            down_node_ms: 0,
            io_node_ms: 0,
            last_release: None,
            history: keeps_history.then(History::default),
            #[cfg(test)]
            promises: None,
        }
    }

    fn run(mut self) -> Schedule {
        self.run_all();
        self.finish()
    }

    #[cfg(test)]
    fn run_and_keep_promises(mut self) -> Vec<(usize, i64)> {
        self.run_all();
        self.promises.take().unwrap_or_default()
    }

    #[cfg(test)]
    fn note_promise(&mut self) {
        let head = self.cluster.waiting().next();
        if let (Some(promises), Some(head)) = (&mut self.promises, head) {
            let at_ms = self.cluster.promise_ms(self.policy);
            promises.push((head, at_ms.unwrap_or(i64::MAX)));
        }
    }

    fn run_all(&mut self) {
        let by_time = |times: Vec<(i64, usize)>| {
            let mut times = times;
            times.sort_unstable();
            times.into_iter().peekable()
        };
        let submits = self.jobs.iter().enumerate().map(|(job, at)| (at.submit_ms, job));
        let mut submits = by_time(submits.collect());
        let cancels = self.workload.jobs.iter().enumerate();
        let mut cancels = by_time(cancels.filter_map(|(job, at)| Some((at.cancel_ms?, job))).collect());
        let failures = self.workload.failures.iter().enumerate();
        let mut failures = by_time(failures.map(|(i, failure)| (failure.at_ms, i)).collect());
        let mut n_open = self.jobs.len();
        loop {
            self.forget_void_events();
            let planned = self.events.peek().map(|Reverse((at_ms, ..))| *at_ms);
            let moved = self.transfers.as_ref().and_then(Transfers::next_end_ms);
            let known = [submits.peek(), cancels.peek(), failures.peek()];
            let known = known.into_iter().flatten().map(|&(at_ms, _)| at_ms).min();
            let Some(now_ms) = [planned, moved, known].into_iter().flatten().min() else { break };
            if n_open == 0 && submits.peek().is_none() {
                break;
            }
            self.advance(now_ms);
            self.end_what_is_due();
            while let Some((_, index)) = failures.next_if(|&(at_ms, _)| at_ms <= now_ms) {
                self.fail(index);
            }
            while let Some((_, job)) = cancels.next_if(|&(at_ms, _)| at_ms <= now_ms) {
                self.cancel(job);
            }
            self.grant_requests();
            while let Some((_, job)) = submits.next_if(|&(at_ms, _)| at_ms <= now_ms) {
                self.submit(job);
            }
            loop {
                self.pass();
                if !self.end_what_is_due() {
                    break;
                }
            }
            self.begin_phases();
            self.note_load();
            #[cfg(test)]
            self.note_promise();
            n_open = self.cluster.n_waiting() + self.cluster.n_running();
        }
    }

    /// Whether a job's I/O goes through the shared storage.
    fn is_coupled(&self, job: usize) -> bool {
        self.transfers.is_some() && self.jobs[job].io_bytes.is_some_and(|bytes| bytes > 0.0)
    }

    fn advance(&mut self, now_ms: i64) {
        let passed_ms = (now_ms - self.accounted_ms).max(0) as u128;
        self.busy_node_ms += passed_ms * u128::from(self.busy);
        self.down_node_ms += passed_ms * u128::from(self.n_down);
        let n_io: u32 = self.io_nodes.iter().map(|range| range.1 - range.0).sum();
        self.io_node_ms += passed_ms * u128::from(n_io);
        self.accounted_ms = now_ms.max(self.accounted_ms);
        self.now_ms = now_ms;
    }

    fn forget_void_events(&mut self) {
        while let Some(Reverse((at_ms, event, version))) = self.events.peek() {
            let is_void = match event {
                Event::End { job } | Event::Computed { job } | Event::Request { job, .. } => {
                    self.tales[*job].version != *version
                }
                Event::Repair { node } => self.down.get(node) != Some(at_ms),
            };
            if !is_void {
                break;
            }
            self.events.pop();
        }
    }

    /// The next event that is due, unless it is a request.
    fn next_due(&mut self) -> Option<Event> {
        self.forget_void_events();
        let &Reverse((at_ms, event, _)) = self.events.peek()?;
        if at_ms > self.now_ms || matches!(event, Event::Request { .. }) {
            return None;
        }
        self.events.pop();
        Some(event)
    }

    /// Ends runs and phases, and brings nodes back. Returns whether nodes became free.
    fn end_what_is_due(&mut self) -> bool {
        let mut is_freed = false;
        while let Some(job) = self.transfers.as_mut().and_then(|transfers| transfers.finish(self.now_ms)) {
            is_freed |= self.end_phase(job);
        }
        while let Some(event) = self.next_due() {
            match event {
                Event::End { job } => {
                    let is_short = self.jobs[job].limit_share() < 1.0 || self.is_coupled(job);
                    let state = if is_short { JobState::Timeout } else { JobState::Completed };
                    self.end_run(job, state);
                    is_freed = true;
                }
                Event::Computed { job } => self.begin_transfer(job),
                Event::Repair { node } => {
                    self.down.remove(&node);
                    self.n_down -= 1;
                    self.free.give((node, node + 1));
                    self.cluster.regain_node();
                    is_freed = true;
                }
                Event::Request { .. } => {}
            }
        }
        is_freed
    }

    fn end_run(&mut self, job: usize, state: JobState) {
        self.release(job);
        let tale = &mut self.tales[job];
        tale.fate.state = state;
        tale.fate.end_ms = Some(self.now_ms);
        tale.is_over = true;
    }

    /// Takes all nodes from a job that runs.
    fn release(&mut self, job: usize) {
        self.note_held(job);
        if let Some(transfers) = &mut self.transfers {
            transfers.abort(job, self.now_ms);
        }
        self.cluster.end(job);
        self.last_release = Some((self.now_ms, self.down_node_ms, self.io_node_ms));
        let tale = &mut self.tales[job];
        tale.version += 1;
        for range in std::mem::take(&mut tale.nodes) {
            self.busy -= range.1 - range.0;
            self.free.give(range);
        }
    }

    fn submit(&mut self, job: usize) {
        let tale = &mut self.tales[job];
        if tale.is_over {
            return;
        }
        if self.jobs[job].nodes_min > self.workload.compute_nodes() {
            tale.fate.state = JobState::Rejected;
            tale.is_over = true;
            return;
        }
        self.cluster.submit(job);
    }

    fn cancel(&mut self, job: usize) {
        if self.tales[job].is_over {
            return;
        }
        if self.cluster.run(job).is_some() {
            self.end_run(job, JobState::Cancelled);
            return;
        }
        self.cluster.withdraw(job);
        let tale = &mut self.tales[job];
        tale.fate.state = JobState::Cancelled;
        tale.is_over = true;
    }

    fn fail(&mut self, index: usize) {
        let NodeFailure { node, repair_ms, .. } = self.workload.failures[index];
        let back_ms = self.now_ms + repair_ms;
        if let Some(until_ms) = self.down.get_mut(&node) {
            *until_ms = back_ms.max(*until_ms);
            self.events.push(Reverse((*until_ms, Event::Repair { node }, 0)));
            return;
        }
        if !self.free.remove(node) {
            let holds = |tale: &Tale| tale.nodes.iter().any(|range| (range.0..range.1).contains(&node));
            let holder = self.cluster.running().find(|&job| holds(&self.tales[job]));
            let Some(job) = holder else { return };
            let from = self.cluster.run(job).map_or(0, |run| run.nodes);
            self.note_held(job);
            if self.cluster.lose_node_of(job, self.now_ms) {
                nodes::remove(&mut self.tales[job].nodes, node);
                self.busy -= 1;
                self.tales[job].fate.resizes.push(Resized { at_ms: self.now_ms, from, to: from - 1 });
                self.plan(job);
            } else {
                self.restart(job);
                self.free.remove(node);
                self.cluster.lose_free_node();
            }
        } else {
            self.cluster.lose_free_node();
        }
        self.n_down += 1;
        self.down.insert(node, back_ms);
        self.events.push(Reverse((back_ms, Event::Repair { node }, 0)));
    }

    /// A job whose node failed begins again, from the queue.
    fn restart(&mut self, job: usize) {
        self.release(job);
        let fate = &mut self.tales[job].fate;
        fate.restarts += 1;
        (fate.start_ms, fate.end_ms, fate.nodes) = (None, None, None);
        fate.resizes.clear();
        self.cluster.submit(job);
    }

    fn grant_requests(&mut self) {
        loop {
            self.forget_void_events();
            let Some(&Reverse((at_ms, Event::Request { job, index }, _))) = self.events.peek() else {
                return;
            };
            if at_ms > self.now_ms {
                return;
            }
            self.events.pop();
            self.tales[job].next_request = index + 1;
            let from = self.cluster.run(job).map_or(0, |run| run.nodes);
            let at = &self.jobs[job];
            let to = self.workload.jobs[job].requests[index].1.clamp(at.nodes_min, at.nodes_max);
            self.note_held(job);
            if self.cluster.grant(job, to, self.now_ms) {
                self.move_nodes(job, from, to);
            } else {
                self.plan_request(job);
            }
        }
    }

    fn pass(&mut self) {
        for decision in schedule(&mut self.cluster, self.policy, &self.knobs, self.now_ms) {
            match decision {
                Decision::Start { job, nodes } => {
                    let tale = &mut self.tales[job];
                    self.free.take(nodes, &mut tale.nodes);
                    tale.held_since_ms = self.now_ms;
                    tale.next_request = 0;
                    tale.fate.start_ms = Some(self.now_ms);
                    tale.fate.nodes = Some(nodes);
                    self.busy += nodes;
                    if self.is_coupled(job)
                        && let Some(transfers) = &mut self.transfers
                    {
                        transfers.enter(job);
                    }
                    self.plan(job);
                }
                Decision::Resize { job, from, to } => {
                    self.note_held(job);
                    self.move_nodes(job, from, to);
                }
                Decision::Storage { from, to } => self.resize_storage(from, to),
            }
        }
    }

    /// The storage is served by another number of nodes.
    fn resize_storage(&mut self, from: u32, to: u32) {
        if to > from {
            self.free.take(to - from, &mut self.io_nodes);
        } else {
            self.free.take_back(from - to, &mut self.io_nodes);
        }
        let io_nodes = self.workload.storage.as_ref().and_then(|storage| storage.io_nodes.as_ref());
        if let (Some(transfers), Some(io_nodes)) = (&mut self.transfers, io_nodes) {
            transfers.set_bandwidth(self.now_ms, io_nodes.bandwidth_bps(to));
        }
        self.storage_resizes.push(Resized { at_ms: self.now_ms, from, to });
    }

    /// A running job has got another size: its nodes follow.
    fn move_nodes(&mut self, job: usize, from: u32, to: u32) {
        let tale = &mut self.tales[job];
        if to > from {
            self.free.take(to - from, &mut tale.nodes);
        } else {
            self.free.take_back(from - to, &mut tale.nodes);
        }
        self.busy = self.busy + to - from;
        tale.fate.resizes.push(Resized { at_ms: self.now_ms, from, to });
        self.plan(job);
    }

    /// Plans the end of a run, and what an evolving job will ask for; what was planned before is void.
    fn plan(&mut self, job: usize) {
        let Some(run) = self.cluster.run(job) else { return };
        let end_ms = if self.is_coupled(job) {
            // Its work ends when its last transfer does; its limit may end it before.
            self.workload.jobs[job].has_limit.then_some(run.limit_end_ms)
        } else {
            Some(run.when_done_ms(self.jobs[job].limit_share().min(1.0)))
        };
        let version = self.tales[job].version + 1;
        self.tales[job].version = version;
        if let Some(end_ms) = end_ms {
            self.events.push(Reverse((end_ms.max(self.now_ms), Event::End { job }, version)));
        }
        self.plan_request(job);
        if let Some(at_ms) = self.transfers.as_ref().and_then(|transfers| transfers.computed_ms(job)) {
            self.events.push(Reverse((at_ms, Event::Computed { job }, version)));
        }
    }

    fn plan_request(&mut self, job: usize) {
        let index = self.tales[job].next_request;
        let is_evolving = self.jobs[job].kind == JobKind::Evolving;
        let request = self.workload.jobs[job].requests.get(index).filter(|_| is_evolving);
        let (Some(&(at, _)), Some(run)) = (request, self.cluster.run(job)) else { return };
        let at_ms = match self.is_coupled(job) {
            false => run.when_done_ms(at).max(self.now_ms),
            // Sizes change between phases alone.
            true if run.is_open() && run.done(self.now_ms) >= at && at > 0.0 => self.now_ms,
            true => return,
        };
        self.events.push(Reverse((at_ms, Event::Request { job, index }, self.tales[job].version)));
    }

    fn begin_transfer(&mut self, job: usize) {
        let bytes = self.jobs[job].io_bytes.unwrap_or(0.0) / f64::from(self.workload.jobs[job].io_phases);
        let nodes = self.cluster.run(job).map_or(1, |run| run.nodes);
        if let Some(transfers) = &mut self.transfers {
            transfers.start(job, bytes, nodes, self.now_ms);
        }
    }

    /// A phase's data are moved. Returns whether that was the job's last phase.
    fn end_phase(&mut self, job: usize) -> bool {
        let n_phases = self.workload.jobs[job].io_phases;
        let Some(transfers) = &mut self.transfers else { return false };
        let n_done = transfers.phase_done(job);
        if n_done >= n_phases {
            self.end_run(job, JobState::Completed);
            return true;
        }
        self.cluster.set_progress(job, f64::from(n_done) / f64::from(n_phases), true);
        self.plan_request(job);
        false
    }

    /// Jobs between two phases go on: from here to the next end of a phase their size stays.
    fn begin_phases(&mut self) {
        let between = self.transfers.as_mut().map(Transfers::take_between).unwrap_or_default();
        for job in between {
            let Some(run) = self.cluster.run(job) else { continue };
            let (nodes, resumes_ms) = (run.nodes, run.resumes_ms());
            let Some(transfers) = &mut self.transfers else { continue };
            let n_phases = self.workload.jobs[job].io_phases;
            let at_ms = transfers.begin_phase(&self.jobs[job], job, n_phases, nodes, resumes_ms, self.now_ms);
            let done = f64::from(transfers.n_done(job)) / f64::from(n_phases);
            self.cluster.set_progress(job, done, false);
            self.events.push(Reverse((at_ms, Event::Computed { job }, self.tales[job].version)));
        }
    }

    /// Moves the nodes that a job has held so far into the history.
    fn note_held(&mut self, job: usize) {
        let tale = &mut self.tales[job];
        let from_ms = std::mem::replace(&mut tale.held_since_ms, self.now_ms);
        if let Some(history) = self.history.as_mut().filter(|_| from_ms < self.now_ms) {
            history.held.push(Held { job, from_ms, to_ms: self.now_ms, nodes: tale.nodes.clone() });
        }
    }

    fn note_load(&mut self) {
        let load = Load { at_ms: self.now_ms, busy: self.busy, queue: self.cluster.n_waiting() as u32 };
        if let Some(history) = &mut self.history {
            history.load.push(load);
        }
    }

    fn finish(self) -> Schedule {
        let first_ms = self.jobs.iter().map(|job| job.submit_ms).min().unwrap_or(0);
        // What comes after the last release is nobody's time, whatever is down by then.
        let (released_ms, down_node_ms, io_node_ms) = self.last_release.unwrap_or((first_ms, 0, 0));
        let all = u128::from(self.workload.nodes) * (released_ms - first_ms).max(0) as u128;
        let idle_node_ms = all.saturating_sub(self.busy_node_ms + down_node_ms + io_node_ms);
        let io_slowdown = self.transfers.as_ref().and_then(Transfers::mean_slowdown);
        Schedule {
            jobs: self.tales.into_iter().map(|tale| tale.fate).collect(),
            busy_node_ms: self.busy_node_ms,
            down_node_ms,
            idle_node_ms,
            io_node_ms,
            storage_resizes: self.storage_resizes,
            io_slowdown,
            history: self.history,
        }
    }
}
