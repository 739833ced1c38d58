//! The I/O of jobs on the storage they share.
//!
//! Every node takes as much as any other, and no more than it can: with weights that are numbers of nodes all transfers are either
//! bounded by the storage or all by their nodes, so [`Fluid`] divides `min(B, nodes · node_bps)`.

use iotide_sched::jobs::BatchJob;
use iotide_sched::{Placement, SetId};

use super::workload::SharedStorage;
use crate::storage::{Fluid, Inside, Transfer};

pub(super) struct Transfers {
    storage: SharedStorage,
    /// Bandwidth with the usual number of I/O nodes: times of jobs refer to it.
    usual_bps: f64,
    fluid: Fluid,
    /// Nodes of all that move data.
    active_nodes: f64,
    states: Vec<Option<State>>,
    /// Jobs between two phases.
    between: Vec<usize>,
    n_jobs_done: usize,
    log_slowdowns: f64,
}

#[derive(Clone, Debug)]
struct State {
    n_done: u32,
    /// When computing ends; `None` while data are moved or between phases.
    computed_ms: Option<i64>,
    /// Since when and by how many nodes data are moved.
    moving: Option<(i64, u32)>,
    io_ms: f64,
    alone_ms: f64,
}

/// One set for all: nobody has priority.
const ALL: SetId = SetId::Everyone;

impl Transfers {
    pub(super) fn new(storage: &SharedStorage, n_jobs: usize) -> Self {
        Self {
            fluid: Fluid::new(storage.bandwidth_bps, 0.0),
            usual_bps: storage.bandwidth_bps,
            storage: storage.clone(),
            active_nodes: 0.0,
            states: vec![None; n_jobs],
            between: Vec::new(),
            n_jobs_done: 0,
            log_slowdowns: 0.0,
        }
    }

    fn alone_bps(&self, nodes: u32) -> f64 {
        self.usual_bps.min(f64::from(nodes) * self.storage.node_bps)
    }

    /// The storage gives more, or less, from now on.
    pub(super) fn set_bandwidth(&mut self, now_ms: i64, bandwidth_bps: f64) {
        self.storage.bandwidth_bps = bandwidth_bps;
        self.set_active(now_ms, self.active_nodes);
    }

    fn set_active(&mut self, now_ms: i64, nodes: f64) {
        self.active_nodes = nodes;
        let bps = self.storage.bandwidth_bps.min(nodes.max(1.0) * self.storage.node_bps);
        self.fluid.set_capacity(now_ms as f64 / 1e3, bps);
    }

    /// A job starts.
    pub(super) fn enter(&mut self, job: usize) {
        self.states[job] =
            Some(State { n_done: 0, computed_ms: None, moving: None, io_ms: 0.0, alone_ms: 0.0 });
        self.between.push(job);
    }

    pub(super) fn take_between(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.between)
    }

    /// A job computes. Returns until when.
    pub(super) fn begin_phase(
        &mut self,
        at: &BatchJob,
        job: usize,
        n_phases: u32,
        nodes: u32,
        resumes_ms: f64,
        now_ms: i64,
    ) -> i64 {
        let io_ms = 1e3 * at.io_bytes.unwrap_or(0.0) / self.alone_bps(nodes);
        let compute_ms = ((at.time_ms(nodes) - io_ms) / f64::from(n_phases)).max(0.0);
        let from_ms = resumes_ms.max(now_ms as f64);
        let computed_ms = ((from_ms + compute_ms - 1e-4).ceil() as i64).max(now_ms);
        if let Some(state) = &mut self.states[job] {
            state.computed_ms = Some(computed_ms);
        }
        computed_ms
    }

    /// When computing ends, while a job computes.
    pub(super) fn computed_ms(&self, job: usize) -> Option<i64> {
        self.states[job].as_ref()?.computed_ms
    }

    pub(super) fn n_done(&self, job: usize) -> u32 {
        self.states[job].as_ref().map_or(0, |state| state.n_done)
    }

    /// A job moves the data of a phase.
    pub(super) fn start(&mut self, job: usize, bytes: f64, nodes: u32, now_ms: i64) {
        self.set_active(now_ms, self.active_nodes + f64::from(nodes));
        let transfer = Transfer { job, bytes, key: job as u64, weight: f64::from(nodes) };
        let placement = Placement { set: ALL, priority: 1.0 };
        self.fluid.start(now_ms as f64 / 1e3, transfer, placement, Inside::Shared);
        let alone_ms = 1e3 * bytes / self.alone_bps(nodes);
        if let Some(state) = &mut self.states[job] {
            state.computed_ms = None;
            state.moving = Some((now_ms, nodes));
            state.alone_ms += alone_ms;
        }
    }

    /// When the next transfer ends if none begins before.
    pub(super) fn next_end_ms(&self) -> Option<i64> {
        self.fluid.next_end_s().map(|end_s| (end_s * 1e3 - 1e-4).ceil() as i64)
    }

    /// The next transfer that is over by now.
    pub(super) fn finish(&mut self, now_ms: i64) -> Option<usize> {
        if self.next_end_ms()? > now_ms {
            return None;
        }
        let (end_s, job) = self.fluid.finish()?;
        let (since_ms, nodes) = self.states[job].as_mut()?.moving.take()?;
        if let Some(state) = &mut self.states[job] {
            state.io_ms += end_s * 1e3 - since_ms as f64;
        }
        self.active_nodes -= f64::from(nodes);
        let bps = self.storage.bandwidth_bps.min(self.active_nodes.max(1.0) * self.storage.node_bps);
        self.fluid.set_capacity(end_s, bps);
        Some(job)
    }

    /// A phase is over. Returns how many are.
    pub(super) fn phase_done(&mut self, job: usize) -> u32 {
        self.between.push(job);
        let Some(state) = &mut self.states[job] else { return 0 };
        state.n_done += 1;
        state.n_done
    }

    /// A run is over, wherever it was.
    pub(super) fn abort(&mut self, job: usize, now_ms: i64) {
        let Some(state) = self.states[job].take() else { return };
        if let Some((_, nodes)) = state.moving {
            self.fluid.abort(now_ms as f64 / 1e3, ALL, job as u64);
            self.set_active(now_ms, self.active_nodes - f64::from(nodes));
        } else if state.alone_ms > 0.0 && state.computed_ms.is_none() {
            self.n_jobs_done += 1;
            self.log_slowdowns += (state.io_ms / state.alone_ms).max(1e-9).ln();
        }
        self.between.retain(|&other| other != job);
    }

    pub(super) fn mean_slowdown(&self) -> Option<f64> {
        (self.n_jobs_done > 0).then(|| (self.log_slowdowns / self.n_jobs_done as f64).exp())
    }
}
