//! What one run's signal means.
//!
//! - Does the I/O have a rhythm, which, and how sure is that? [`detect_period`]
//! - The same of a whole run, reads and writes, in one call: [`analyse_run`]
//! - What do its strongest waves look like in time? [`reconstruct`]
//! - How evenly do the periods resemble each other? [`score`]
//! - How fast would the storage have to be to hide asynchronous I/O? [`demand`]
//! - While the job runs: when does the next phase begin? [`online::Predictor`]
//!
//! **Invariant:** no file, clock, thread or terminal in here. A test needs a `Vec<f64>` and nothing else.

pub use crate::demand::{Demand, Need, demand, lost_s, required_bps, throughput_bps};
pub use crate::period::{
    AutocorrelationEstimate, Candidate, DftConfig, EVIDENCE_NAMES, EVIDENCE_WEIGHTS, Method, OutlierDetector,
    PeriodConfig, PeriodError, PeriodEstimate, Phase, Rhythm, Wave, WeighedRhythm, detect_period,
    reconstruct, weigh_rhythms,
};
pub use crate::run::{RunAnalysis, RunConfig, RunError, analyse_run, reconstruction_error};
pub use crate::scores::{Scores, score};

pub mod online;

mod demand;
mod period;
mod run;
mod scores;
mod substantial;
