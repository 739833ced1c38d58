//! The crate from outside.

/// Models that Extra-P made of its own examples, reproduced.
mod golden;
