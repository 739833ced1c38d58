//! The readers as their users see them.

/// Broken input of every format: no panic, no endless loop, no error without a reason.
mod damage;
/// Several files as one run; files against streams.
mod files;
/// One small source of each format, made here.
mod samples;
/// Sources that others made, where they are at hand.
mod shared_data;
