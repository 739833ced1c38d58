//! Hints about jobs from other sources, and how far an actor relies on them.
//!
//! An actor (a mount, an arbiter, whoever tells a file system) can see jobs itself, and be told of them by somebody who sees more: a daemon, a detector, a
//! table. What it is told is a [`KnownJob`] per job and look; [`AcceptedHints`] makes of many looks the periods to go by.
//!
//! - Below [`LEAST_CONFIDENCE`](crate::LEAST_CONFIDENCE) nothing is heeded.
//! - A period that is heeded changes if another one, [different enough](HARDLY_NEW), was found twice.
//! - Who decides by himself waits until every look has found it for one and a half periods.
//! - One of which nothing new is heard for a few periods is lost.
//! - One that the actor itself sees otherwise, three times in a row, is wrong until it sees it so again as often.

use std::fmt;

use crate::staging::Forecast;

pub use accepted::AcceptedHints;

mod accepted;
#[cfg(test)]
mod tests;

/// A period that differs by less than this factor from the last one changes nothing: a job whose period lies between two orders of magnitude must not go to
/// and fro between their sets.
pub const HARDLY_NEW: f64 = 1.25;

/// After so many periods without anything new, whoever predicted is taken for lost.
pub const LOST_AFTER_PERIODS: f64 = 3.5;

/// Hint of another source about a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownJob {
    /// Name of the job there: as in the batch system, with `.r1` behind it if it was requeued.
    pub job: String,
    /// Whose it is, if that is known.
    pub uid: Option<u32>,
    /// How far the starts of its I/O phases are apart, if it has a period.
    pub period_s: Option<f64>,
    /// How certain that is; `None` if it was not measured but said, or has been heeded by somebody already.
    pub confidence: Option<f64>,
    /// How long ago that was found.
    pub age_s: f64,
    /// Its next phase, on a clock that is 0 now.
    pub forecast: Option<Forecast>,
    /// Load of the job on the storage, if the source measures it.
    pub load: Option<Load>,
}

/// Load of a job on a storage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Whether it wants something.
    pub is_active: bool,
    /// Bandwidth of late, in bytes per second.
    pub bandwidth_bps: f64,
    /// How far its phases are seen to be apart there, where nobody has said so.
    pub seen_period_s: Option<f64>,
}

/// Somebody who knows jobs, and can be asked again and again. Waits for an answer for a few seconds at most.
pub trait HintSource: fmt::Debug + Send + Sync {
    /// Returns its name.
    fn name(&self) -> String;

    /// Returns the present hints, or the reason why there are none.
    fn ask(&self) -> Result<Vec<KnownJob>, String>;

    /// Is told what became of it, for those who look on: that it is silent, or wrong, or heeded again.
    fn note(&self, _news: &str) {}
}

/// The id of a batch system without the mark of a run that was requeued: `4711` of `4711.r1`.
pub fn batch_id(job: &str) -> &str {
    match job.rsplit_once(".r") {
        Some((id, n)) if !id.is_empty() && !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()) => id,
        _ => job,
    }
}

/// Whether two periods differ by less than a factor.
pub(crate) fn are_within(factor: f64, a_s: f64, b_s: f64) -> bool {
    (a_s / b_s).ln().abs() < factor.ln()
}
