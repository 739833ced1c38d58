//! Synthetic traces, jobs and logs, made from a seed, with what is true of them.

pub mod change;
pub mod doubtful;
pub mod family;
pub mod held_out;
pub mod job;
pub mod labelled;
pub mod random;
pub mod regular;
pub mod server_log;
pub mod slow_run;
pub mod trace;
pub mod workload;
