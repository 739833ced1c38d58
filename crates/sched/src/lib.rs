//! From a job's profile to a decision: sets, priorities, and the order in which requests are served.
//!
//! - What is known of a job's rhythm: [`IoProfile`]
//! - Which set a job belongs to, and what a set is worth: [`Policy`]
//! - Whose request is served next: [`Queue`], by whose [`Rules`]
//! - Periods as people write them: [`parse_periods`]
//! - What others know of jobs, and how far to go by it: [`KnownJob`], [`AcceptedHints`]
//! - How to tell a file system that has a queue of its own: [`Controller`]
//! - Where a file system says that stripes lie: [`Layout`]
//! - When data may leave a buffer: [`staging::Controller`]
//!
//! The model is that of IO-Sets (Boito, Pallez, Teylo, Vidal: *IO-Sets: Simple and Efficient Approaches for I/O
//! Bandwidth Management*, 2023), with the server of its BeeGFS form (Barthélemy et al., research report Inria 9537, 2024,
//! "RR-9537" below). The same queue runs in the simulator and in the schedulers that hold real requests.
//!
//! ```
//! use iotide_sched::{IoProfile, JobId, Policy, Queue, QueueConfig, Request, UnknownJobs};
//!
//! let mut queue = Queue::new(QueueConfig::new(Policy::Set10(UnknownJobs::Together)));
//! queue.set_profile(JobId(1), Some(IoProfile::with_period(384.0)));
//! queue.set_profile(JobId(2), Some(IoProfile::with_period(19.2)));
//! for id in 0..20 {
//!     let job = JobId(1 + id % 2);
//!     queue.push(Request { job, bytes: 1 << 20, id, arrival_s: 0.0 });
//! }
//! // Of the first eleven requests ten belong to the job with the short period.
//! let served: Vec<u64> = (0..11).filter_map(|_| queue.pop(0.0)).map(|request| request.job.0).collect();
//! assert_eq!(served.iter().filter(|&&job| job == 2).count(), 10);
//! ```
//!
//! **Invariant:** no file, clock, environment variable, thread or terminal in here; time comes in as an argument.

pub mod act;
pub mod jobs;
pub mod staging;

pub use crate::{
    actuate::{
        Action, ConfigFs, ControlledJob, Controller, LustreTbf, TbfSettings, divide, former_policies,
        is_plain_id,
    },
    known::{AcceptedHints, HARDLY_NEW, HintSource, KnownJob, LOST_AFTER_PERIODS, Load, batch_id},
    layout::{Layout, LayoutError},
    periods::{Fault, PeriodSource, PeriodsError, parse_periods},
    policy::{Placement, Policy, SetId, UnknownJobs},
    profile::IoProfile,
    queue::{
        Ageing, Credit, Exclusivity, JobId, JobView, LONGEST_TURN_S, Order, Queue, QueueConfig, Request,
    },
    rules::Rules,
};

/// Below this confidence a prediction is a guess, on which nobody acts.
pub const LEAST_CONFIDENCE: f64 = 0.5;

mod actuate;
mod known;
mod layout;
mod periods;
mod policy;
mod profile;
mod queue;
mod rules;
