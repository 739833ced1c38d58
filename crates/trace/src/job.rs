//! Jobs in the log of a scheduler.

/// One run of a job, as a job log has it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobRun {
    /// The scheduler's name for the job; empty if the log has none.
    pub job_id: String,
    /// Who ran it; empty if the log does not say.
    pub user: String,
    /// Name of the job; empty if the log does not have it.
    pub name: String,
    /// On how many nodes.
    pub n_nodes: Option<u64>,
    /// When it began, on the clock of the throughput log (in most: since the Unix epoch).
    pub start_s: f64,
    /// When it ended, not before `start_s`; `None` if it was running when the log was written.
    pub end_s: Option<f64>,
    /// How it ended.
    pub outcome: JobOutcome,
    /// When it was submitted, on the same clock.
    pub submit_s: Option<f64>,
    /// How long it was allowed to run.
    pub limit_s: Option<f64>,
    /// Its priority: higher goes first.
    pub priority: Option<i64>,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobOutcome {
    /// The log does not say.
    #[default]
    Unknown,
    /// It had not ended.
    Running,
    /// By itself, with success.
    Completed,
    /// Its time was over, as long runs that continue from checkpoints plan it.
    TimedOut,
    /// In any other way: failed, cancelled, preempted, lost its node.
    Broken,
}
