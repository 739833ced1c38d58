//! What one run's signal means.
//!
//! - Does the I/O have a rhythm, which, and how sure is that? [`detect_period`]
//! - The same of a whole run, reads and writes, in one call: [`analyse_run`]
//! - How evenly do the periods resemble each other? [`score`]
//!
//! **Invariant:** no file, clock, thread or terminal in here. A test needs a `Vec<f64>` and nothing else.

pub use crate::period::{
    AutocorrelationEstimate, Candidate, DftConfig, Method, OutlierDetector, PeriodConfig, PeriodError,
    PeriodEstimate, Phase, Rhythm, Wave, WeighedRhythm, detect_period, weigh_rhythms, EVIDENCE_NAMES, EVIDENCE_WEIGHTS,
};
pub use crate::run::{RunAnalysis, RunConfig, RunError, analyse_run, reconstruction_error};
pub use crate::scores::{Scores, score};

mod period;
mod run;
mod scores;
