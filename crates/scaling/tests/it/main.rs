//! The crate from outside.
#![allow(clippy::print_stderr)] // a test that must be skipped says so

/// Models that Extra-P made of its own examples, reproduced.
mod golden;
/// What a model claims, and what it must not claim.
mod honest;
