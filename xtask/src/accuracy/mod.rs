//! How right the answers are, on data whose truth is known.
pub mod random;
pub mod workload;
pub mod period;
