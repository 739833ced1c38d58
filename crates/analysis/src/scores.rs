//! How evenly the periods of a signal resemble each other (section II-C of the FTIO paper).
use iotide_trace::SampledSignal;

/// The paper's characterisation of a signal; what needs a period is absent without one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scores {
    /// Standard deviation of the volume a period moves, over the largest.
    pub sigma_vol: Option<f64>,
    /// Standard deviation of the share of a period spent on substantial I/O.
    pub sigma_time: Option<f64>,
    /// `1 − sigma_vol − sigma_time`.
    pub periodicity: Option<f64>,
    /// Share of the time with more than the mean bandwidth.
    pub io_time_ratio: Option<f64>,
    /// Mean bandwidth during that time.
    pub io_bandwidth_bps: Option<f64>,
    /// Bytes a period moves during that time.
    pub bytes_per_period: Option<f64>,
}

/// Returns the scores of a signal for a period.
pub fn score(_signal: &SampledSignal, _period_s: Option<f64>) -> Scores {
    Scores::default()
}
