//! Tests of the crate from outside, as one binary.

/// Numbers that FTIO 0.0.9 found for its own example traces, from its own samples.
mod golden;
/// Its steps while these traces grew.
mod online;
/// Its answers for these traces, from the files.
mod traces;

/// Runs that were given too high a confidence.
mod rhythm_doubts;
/// Plain cases that once broke, row by row, with what is right.
mod rhythm_table;

/// Signatures out of noisy logs, against the truth.
mod signature;

/// I/O issues of real logs.
mod issues;
