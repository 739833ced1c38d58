//! Known truths against what the methods find.

pub mod scaling;
