//! Trying a decision out: periodic jobs on shared storage.
//!
//! [`simulate`] runs a [`Workload`] under a [`Contender`] (a policy, and what it knows of the jobs) and says how the jobs
//! fared; [`compare`] repeats that for several. Two models:
//!
//! - [`Model::Fluid`]: bandwidth is divided as the policy says, at once and without loss. It leaves out requests, workers
//!   and queues, so it shows what a policy could do at best. Very fast.
//! - [`Model::Requests`]: each job keeps so many requests at a server, whose workers take them from the very
//!   [`iotide_sched::Queue`] that real schedulers run, and which share a device. It leaves out the network, caches,
//!   and how a device slows down under mixed requests.
//!
//! Jobs that really ran are measured by the same definitions: [`measure`].
//!
//! **Invariant:** no file, clock, environment variable, thread or terminal in here. A run is its inputs and its seed.

pub use crate::{
    checkpoint::{Checkpoints, SimulatedWaste},
    fields::WorkloadError,
    foresee::{Foreseen, MeasuredJob, foresee_periods, foresee_resize, foresee_staging},
    io::{Contender, IoSettings, Knowledge, MOST_PREDICTORS, Model, SimulationError, compare, simulate},
    measured::{RealJob, bandwidth_alone_bps, common_frame_s, measure, phases_of},
    metrics::{JobOutcome, Outcome, Timeline},
    workload::{JobSpec, Mix, Workload},
};

pub mod jobs;
pub mod staging;

mod checkpoint;
mod engine;
mod fields;
mod foresee;
mod io;
mod measured;
mod metrics;
mod storage;
pub mod system;
mod workload;
