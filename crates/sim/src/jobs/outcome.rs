//! How a schedule went: what became of each job, and what it comes to.

use iotide_sched::jobs::BatchJob;

use super::nodes::NodeRange;

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// All its work is done.
    Completed,
    /// Its limit ended it.
    Timeout,
    /// Its user took it back.
    Cancelled,
    /// It needs more nodes than there are.
    Rejected,
    /// It was still waiting when nothing could happen any more.
    Stuck,
}

/// Outcome of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct JobFate {
    /// How it ended.
    pub state: JobState,
    /// When its last run started; `None` if it never ran.
    pub start_ms: Option<i64>,
    /// When its last run ended.
    pub end_ms: Option<i64>,
    /// The size at which its last run started.
    pub nodes: Option<u32>,
    /// How often a failure made it begin again.
    pub restarts: u32,
    /// Changes of size in its last run.
    pub resizes: Vec<Resized>,
}

/// A change of size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resized {
    /// When.
    pub at_ms: i64,
    /// The size before.
    pub from: u32,
    /// The size after.
    pub to: u32,
}

/// A stretch of time in which a job held the same nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Which job.
    pub job: usize,
    /// From when.
    pub from_ms: i64,
    /// To when.
    pub to_ms: i64,
    /// Which nodes.
    pub nodes: Vec<NodeRange>,
}

/// Load from a time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// From when.
    pub at_ms: i64,
    /// Nodes that jobs hold.
    pub busy: u32,
    /// Jobs that wait.
    pub queue: u32,
}

/// Course of a schedule over time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Who held what.
    pub held: Vec<Held>,
    /// Busy nodes and waiting jobs, where they change.
    pub load: Vec<Load>,
}

/// How a schedule went.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Outcome of each job, in the order of the workload.
    pub jobs: Vec<JobFate>,
    /// Node-milliseconds that jobs held, lost runs and pauses included.
    pub busy_node_ms: u128,
    /// Node-milliseconds in which a node was down.
    pub down_node_ms: u128,
    /// Node-milliseconds in which a node was there for nobody.
    pub idle_node_ms: u128,
    /// Node-milliseconds in which a node served the storage.
    pub io_node_ms: u128,
    /// Changes of the number of nodes that serve the storage.
    pub storage_resizes: Vec<Resized>,
    /// How many times longer I/O took than it would have alone: the geometric mean over jobs with I/O on the shared storage.
    pub io_slowdown: Option<f64>,
    /// How it went over time, if asked for.
    pub history: Option<History>,
}

/// Metrics of a schedule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JobsMetrics {
    /// From the first submission to the last end.
    pub makespan_s: f64,
    /// From submission to the last start, over jobs that ran.
    pub mean_wait_s: f64,
    /// The longest of them.
    pub max_wait_s: f64,
    /// Mean of `max(1, (end − submit) / max(10 s, t(preferred)))`.
    pub mean_bounded_slowdown: f64,
    /// From submission to the end, over jobs that ran.
    pub mean_turnaround_s: f64,
    /// Share of the nodes' time that jobs held.
    pub utilization: f64,
    /// Node time that jobs held.
    pub node_hours: f64,
    /// Changes of size.
    pub n_resizes: usize,
}

impl Schedule {
    /// Returns what it comes to; `jobs` as the simulator saw them, `nodes` of the machine.
    pub fn metrics(&self, jobs: &[BatchJob], nodes: u32) -> JobsMetrics {
        let first_ms = jobs.iter().map(|job| job.submit_ms).min().unwrap_or(0);
        let last_ms = self.jobs.iter().filter_map(|fate| fate.end_ms).max().unwrap_or(first_ms);
        let makespan_s = (last_ms - first_ms) as f64 / 1e3;
        let (mut n_ran, mut n_resizes) = (0usize, 0);
        let (mut waits_ms, mut longest_ms, mut turnarounds_ms, mut slowdowns) = (0i128, 0, 0i128, 0.0);
        for (job, fate) in jobs.iter().zip(&self.jobs) {
            n_resizes += fate.resizes.len();
            let (Some(start_ms), Some(end_ms)) = (fate.start_ms, fate.end_ms) else { continue };
            n_ran += 1;
            waits_ms += i128::from(start_ms - job.submit_ms);
            longest_ms = longest_ms.max(start_ms - job.submit_ms);
            turnarounds_ms += i128::from(end_ms - job.submit_ms);
            let alone_ms = job.time_ms(job.nodes).max(10_000.0);
            slowdowns += ((end_ms - job.submit_ms) as f64 / alone_ms).max(1.0);
        }
        let mean = |sum: f64| if n_ran > 0 { sum / n_ran as f64 } else { 0.0 };
        let all_node_s = f64::from(nodes) * makespan_s;
        JobsMetrics {
            makespan_s,
            mean_wait_s: mean(waits_ms as f64 / 1e3),
            max_wait_s: longest_ms as f64 / 1e3,
            mean_bounded_slowdown: mean(slowdowns),
            mean_turnaround_s: mean(turnarounds_ms as f64 / 1e3),
            utilization: if all_node_s > 0.0 { self.busy_node_ms as f64 / 1e3 / all_node_s } else { 0.0 },
            node_hours: self.busy_node_ms as f64 / 3.6e6,
            n_resizes,
        }
    }
}
