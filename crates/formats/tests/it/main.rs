//! The readers as their users see them.

/// Any trace in another form, and back.
mod convert;
/// Broken input of every format: no panic, no endless loop, no error without a reason.
mod damage;
/// Darshan logs: against an independent reader, made by ourselves, and damaged.
mod darshan;
/// Several files as one run; files against streams.
mod files;
/// Sources that are still being written: pieces of any length, records as soon as they are whole.
mod follow;
/// Real traces of other tools against what another reader found.
mod foreign;
/// Sums over each function, by its own name, where a source names them.
mod functions;
/// Darshan logs of one job: clocks and ranks.
mod one_run;
/// Recorder's directories, made here in each of their layouts, whole and damaged.
mod recorder;
/// One small source of each format, made here.
mod samples;
/// Sources that others made, where they are at hand.
mod shared_data;
/// Sink that hands events and losses to functions of a test.
mod sink;
