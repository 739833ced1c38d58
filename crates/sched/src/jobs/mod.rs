//! Which job starts, on how many nodes, and which running job gives or gets some.
//!
//! [`schedule`] makes one pass over a [`Cluster`] under a [`JobPolicy`] and returns its [`Decision`]s. The simulator and `iotide resize`,
//! which talks to a real batch system, run the same passes.

pub use cluster::{Cluster, Decision, JobRun, Reservation};
pub use job::{BatchJob, EstimateErrors, JobKind, ResizeCost, Speedup};
pub use policy::{JobPolicy, MebfForm, MebfWay, PolicyKnobs, schedule};
pub use site::{ListedJob, MalleableMark, WantedResize, wanted_resizes};
pub use storage::IoNodes;

mod balance;
mod cluster;
mod conservative;
mod job;
mod mebf;
mod plan;
mod policy;
mod pool;
mod site;
mod storage;
mod tide;
mod waiting;
