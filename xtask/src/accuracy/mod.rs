//! How right the answers are, on data whose truth is known.
pub mod period;
pub mod random;
pub mod workload;
