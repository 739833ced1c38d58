//! Counters of jobs, as rows of one table.
//!
//! A row says what one node counted for one job in one epoch (one boot of the node): (node, epoch, job) → cumulative [`Counters`]. Rows are
//! carried as they are and summed where they are read, so a row that arrives twice, late or by another way changes no sum: see
//! [`tree::Hub`]. All counters are `u64` in base units (calls, bytes, nanoseconds), so sums are exact in any order.
//!
//! - [`JobId`], [`JobKey`], [`Trust`]: which job it is, and who says so.
//! - [`Metric`], [`Cell`], [`Counters`]: what is counted; [`SystemCounter`]: counters of the system, each declared once.
//! - [`About`]: what is known of a job; [`Parameters`]: what a run was asked to do.
//! - [`Limits`], [`Losses`]: what is refused, and how often it was.
//! - [`alarm`]: what alarms are about, and when they fire.
//! - [`series`]: metrics over time, in few bytes.
//! - [`tree`]: rows on their way from daemon to daemon.
//! - [`Exposition`]: the text that Prometheus scrapes; [`Exported`]: that text of others; [`write_requests`]: the same for receivers of its remote-write protocol.
//!
//! **Constraints:** no file, clock, environment variable or thread. Time comes in as an argument.

pub use crate::{
    about::About,
    counters::{Cell, Counters, IoCalls, IoSums, is_rank},
    digest::{app_id, hex},
    exported::Exported,
    exposition::{Exposition, Format, Kind},
    identity::{IdError, JobId, JobKey, JobState, Name, Trust},
    limits::{Limits, Losses, Refusal},
    metric::{CounterValue, Declaration, Measure, Metric, SampleFamily, SystemCounter, Word, Words},
    parameters::Parameters,
    remote_write::{STALE, WriteRequest, write_requests},
};

mod about;
pub mod alarm;
mod counters;
mod digest;
mod exported;
mod exposition;
mod identity;
mod limits;
mod metric;
mod parameters;
mod remote_write;
pub mod series;
pub mod tree;
