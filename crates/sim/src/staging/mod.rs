//! A job that writes into a buffer, from which data is staged out to a parallel file system.
//!
//! [`run_staging`] runs a [`StagingWorkload`] under a policy, with the very [`iotide_sched::staging::Controller`] that
//! `iotide stage` runs. Bytes flow evenly: what is read from the buffer to be staged out is missing from the bandwidth that
//! the job writes with, and files close evenly or after so many bytes. It leaves out metadata, and how rates vary.

pub use run::{Outcome, Sample, run_staging};
pub use workload::{Part, StagingWorkload};

mod run;
#[cfg(test)]
mod tests;
mod workload;

use iotide_sched::staging::Policy;

/// Settings of a run beside its workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StagingSettings {
    /// When data is moved.
    pub policy: Policy,
    /// Without predictions: how long the job has to be silent before data is moved.
    pub quiet_s: f64,
    /// The same with predictions.
    pub recent_s: f64,
    /// How long one piece takes to move; what was begun is not interrupted.
    pub chunk_s: f64,
    /// The highest rate at which data may be moved.
    pub bandwidth_bps: Option<f64>,
    /// Standard deviation of the time by which predicted starts are wrong, in periods.
    pub error: f64,
    /// Relative standard deviation of computing times, on top of what the workload says.
    pub jitter: Option<f64>,
    /// Predictions begin after so many phases.
    pub warm_up_phases: u64,
    /// Predictions stop after so many phases.
    pub lost_after_phases: Option<u64>,
    /// Where chances begin.
    pub seed: u64,
}

impl StagingSettings {
    /// Returns the settings of a policy that notices everything at once and predicts well.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            quiet_s: 0.0,
            recent_s: 0.0,
            chunk_s: 0.05,
            bandwidth_bps: None,
            error: 0.0,
            jitter: None,
            warm_up_phases: 3,
            lost_after_phases: None,
            seed: 0,
        }
    }
}
