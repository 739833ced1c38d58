//! How requests are served.

use crate::{Policy, Rules};

/// How requests are served.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueueConfig {
    /// Which jobs share a set, and what the sets are worth.
    pub policy: Policy,
    /// Unit in which a set's share is counted.
    pub credit: Credit,
    /// Which job of a set goes first.
    pub order: Order,
    /// Rule for the others of a set while the first has no request.
    pub exclusivity: Exclusivity,
    /// How jobs that wait long are helped; `None` lets them starve.
    pub ageing: Option<Ageing>,
    /// A job that was idle this long begins a new phase with its next request; of a job whose characteristic time is
    /// known, a tenth of that if it is shorter.
    pub phase_gap_s: f64,
    /// [`Exclusivity::Strict`]: how long the storage waits for the next request of the job whose turn it is before it serves another one
    /// of the set in between. The job keeps its turn until its phase is over; with infinity nobody is served in between.
    pub lull_s: f64,
    /// [`Exclusivity::Strict`]: while requests wait, the storage is idle at most this part of the time it is busy (and five times
    /// [`QueueConfig::lull_s`] once), for each job at most this part of the time it served that job. A job that takes longer to send its
    /// next request is not waited for. Infinity sets no bound.
    pub idle_share: f64,
    /// How long a job of which no rhythm is known is served before the next one of its set has its turn; half the characteristic time if
    /// that is known, up to [`LONGEST_TURN_S`]. A turn is over, too, when the gaps in it add up to half of
    /// [`QueueConfig::phase_gap_s`] and an eighth of the time served. Infinity sets no bound. Not with [`Order::Id`].
    pub turn_s: f64,
    /// Characteristic times are so many times as long as on the queue's clock: above 1 in an experiment whose times were divided by it.
    pub time_scale: f64,
}

/// No turn of a job is longer, whatever its characteristic time.
pub const LONGEST_TURN_S: f64 = 60.0;

impl QueueConfig {
    /// Returns what iotide does unless told otherwise: shares in bytes, first come first served inside a set, a
    /// sixteenth of the requests for jobs that have not been served for a minute.
    pub fn new(policy: Policy) -> Self {
        Rules::Iotide.queue(policy)
    }
}

/// Unit in which a set's share is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credit {
    /// As in RR-9537: each set in turn has so many requests served as its priority is larger than the least.
    Requests,
    /// Sets share bytes by priority, however large their requests are.
    Bytes,
}

/// Which job of a set goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The one whose phase began first.
    FirstCome,
    /// The one with the lowest id, as in RR-9537. The highest one may starve.
    Id,
}

/// Rule for the others of a set while the first has no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exclusivity {
    /// They are served, as in RR-9537: the storage is never idle while a request waits.
    Relaxed,
    /// They wait until its phase is over, as in IO-Sets proper, or for [`QueueConfig::lull_s`]: the storage may be idle, as far as
    /// [`QueueConfig::idle_share`] allows.
    Strict,
}

/// How jobs that wait long are helped.
///
/// A job with requests is served at the latest after `patience_s` and then `every` requests for each job that has waited
/// longer; and what the policy decides still holds for all but one in `every` requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ageing {
    /// How long a job with requests may go without being served.
    pub patience_s: f64,
    /// Of so many requests at most one is served out of turn.
    pub every: u32,
}
