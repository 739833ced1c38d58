//! The crate from outside.
#![allow(clippy::print_stderr)] // a test that must be skipped says so

/// Models that Extra-P made of its own examples, reproduced.
mod golden;
/// Claims that a model makes, and claims that it must not make.
mod honest;
