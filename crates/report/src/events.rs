//! Events that a daemon sends to its listeners.

use iotide_look::Untrusted;
use serde::Serialize;

/// A job has begun or ended.
#[derive(Clone, Debug, Serialize)]
pub struct JobEvent {
    /// Its id.
    pub job: Untrusted,
    /// Whose it is.
    pub user: Untrusted,
    /// Its application.
    pub app: Untrusted,
    /// The name of its program.
    pub name: Untrusted,
    /// `begun` or `ended`.
    pub event: &'static str,
    /// When, in seconds since 1970.
    pub unix_s: f64,
}

/// Prediction for a job.
#[derive(Clone, Debug, Serialize)]
pub struct PredictionEvent {
    /// Its id.
    pub job: Untrusted,
    /// How far apart its phases are.
    pub period_s: Option<f64>,
    /// With which confidence.
    pub confidence: f64,
    /// When the next one begins, in seconds since 1970.
    pub next_phase_unix_s: Option<f64>,
    /// Bytes per phase.
    pub bytes_per_phase: Option<f64>,
}

/// Models of an application were fitted anew.
#[derive(Clone, Debug, Serialize)]
pub struct ModelEvent {
    /// Which.
    pub app: Untrusted,
    /// How many runs they rest on.
    pub runs: usize,
}

/// A listener has not read in time.
#[derive(Clone, Debug, Serialize)]
pub struct MissedEvents {
    /// How many events it has missed.
    pub events: u64,
}

/// Current bandwidth of the jobs.
#[derive(Clone, Debug, Serialize)]
pub struct RatesEvent<'a> {
    /// When.
    pub unix_s: f64,
    /// Bytes read and written per second, by job.
    pub jobs: std::collections::BTreeMap<&'a str, [f64; 2]>,
}

/// Link that logs someone in.
#[derive(Clone, Debug, Serialize, serde::Deserialize)]
pub struct LoginLink {
    /// Where, without the address of the daemon.
    pub path: String,
    /// The address of the daemon, if it answers over TCP.
    pub http: Option<String>,
    /// How long it is good for.
    pub seconds: u64,
}

impl LoginLink {
    /// Reads what a daemon answered.
    pub fn from_json(json: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(json).map_err(|error| error.to_string())
    }
}
