//! Readers tried on what nobody here made, and on what is larger than anyone hands out.

pub mod large;
pub mod round_trip;
