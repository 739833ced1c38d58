//! The period of the I/O phases.

use iotide_trace::{SampledSignal, StepSignal};

use crate::rhythm::{self, Steps};

pub(crate) use auto::{CutEstimate, CutRhythm, add_waves, cut_by, detect_cuts, rhythms_of};
pub use spectral::reconstruct;
pub use stated::StatedRun;

mod auto;
mod coarse;
mod correlation;
pub(crate) mod dft_run;
mod spectral;
mod stated;
mod wander;

/// Returns the period of the signal's phases, or that there is none, with a confidence.
pub fn detect_period(signal: &SampledSignal, config: &PeriodConfig) -> Result<PeriodEstimate, PeriodError> {
    if signal.values.iter().any(|value| !value.is_finite()) {
        return Err(PeriodError::NotANumber);
    }
    match config.method {
        Method::Auto => Ok(auto::detect(signal, &config.dft)),
        Method::Dft => spectral::detect(signal, &config.dft),
    }
}

/// The first beat after `end_s` of a rhythm whose last phase began at `last_start_s`.
fn next_beat_s(last_start_s: f64, period_s: f64, end_s: f64) -> f64 {
    // A phase due at the very end is the next one, whatever the last digit says.
    let n_periods = ((end_s - last_start_s) / period_s - 1e-6).ceil().max(1.0);
    last_start_s + n_periods * period_s
}

/// Evidence for one possible rhythm of a signal; see [`weigh_rhythms`].
#[derive(Clone, Debug, PartialEq)]
pub struct WeighedRhythm {
    /// Its period.
    pub period_s: f64,
    /// The numbers that [`Method::Auto`] weighs, in the order of [`EVIDENCE_NAMES`].
    pub evidence: Vec<f64>,
}

/// Returns every rhythm that [`Method::Auto`] takes into consideration, with its evidence.
pub fn weigh_rhythms(signal: &SampledSignal) -> Vec<WeighedRhythm> {
    auto::weigh(&Steps::sampled(signal))
}

/// The same of a signal that is known exactly.
pub fn weigh_exact_rhythms(signal: &StepSignal) -> Vec<WeighedRhythm> {
    signal.span().map_or_else(Vec::new, |span| auto::weigh(&Steps::within(signal, span)))
}

/// Names of the numbers in [`WeighedRhythm::evidence`].
pub const EVIDENCE_NAMES: &[&str] = &rhythm::NAMES;

/// Weights by which [`Method::Auto`] multiplies them.
pub const EVIDENCE_WEIGHTS: &[f64] = &rhythm::WEIGHTS;

/// How to look for a period.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct PeriodConfig {
    /// Which method.
    pub method: Method,
    /// Settings of [`Method::Dft`]; of these, [`Method::Auto`] heeds the number of waves.
    pub dft: DftConfig,
}

/// A way of finding the period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Evidence from time and frequency together; see `docs/methods.md`.
    #[default]
    Auto,
    /// The method of the FTIO paper (Tarraf et al., IPDPS 2024).
    Dft,
}

/// Settings of the FTIO paper's method.
#[derive(Clone, Debug, PartialEq)]
pub struct DftConfig {
    /// An outlying frequency is a candidate if its Z-score reaches this share of the highest.
    pub tolerance: f64,
    /// Detectors of outlying powers; of several, all must agree.
    pub detectors: Vec<OutlierDetector>,
    /// Which multiples of a candidate are its harmonics.
    pub harmonics: Harmonics,
    /// How many of the strongest waves to return beside the mean.
    pub n_top: usize,
    /// Above this bandwidth I/O is substantial; `None`: the mean bandwidth `V/L`, as in the paper.
    pub substantial_bps: Option<f64>,
    /// Without a given rate: two samples for the shortest step, in place of FTIO's 10 Hz.
    pub automatic_rate: bool,
    /// Cut the window at changes of bandwidth and trust the samples whatever their error, as FTIO 0.0.9 does.
    pub as_ftio: bool,
}

impl Default for DftConfig {
    fn default() -> Self {
        Self {
            tolerance: 0.8,
            detectors: vec![OutlierDetector::ZScore],
            harmonics: Harmonics::All,
            n_top: 3,
            substantial_bps: None,
            automatic_rate: false,
            as_ftio: false,
        }
    }
}

/// Which multiples of a candidate are dropped as its harmonics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Harmonics {
    /// Every multiple, as FTIO 0.0.9.
    #[default]
    All,
    /// Multiples of two only (2, 4, 6, …), as the paper has it.
    Two,
}

/// Detector of outlying powers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutlierDetector {
    /// Powers three standard deviations above the mean.
    #[default]
    ZScore,
    /// Powers that belong to no dense cluster.
    Dbscan,
    /// Powers that few random cuts set apart.
    IsolationForest {
        /// Seed of the cuts.
        seed: u64,
    },
    /// Powers whose neighbours are denser than they are.
    LocalOutlierFactor,
    /// Prominent peaks.
    Peaks,
}

/// Whether the I/O has a rhythm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize))]
#[cfg_attr(feature = "schema", serde(rename_all = "snake_case"))]
pub enum Verdict {
    /// It has one or several.
    Periodic,
    /// It has none: there is enough to tell, and it does not repeat evenly.
    NotPeriodic,
    /// It cannot be determined.
    #[default]
    Unclear,
}

/// Why a verdict is [`Verdict::Unclear`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize))]
#[cfg_attr(feature = "schema", serde(rename_all = "snake_case"))]
pub enum Reason {
    /// There are fewer than three phases.
    TooFewPhases,
    /// The source tells when bytes moved only to within a time as long as the phases are apart.
    TooCoarse,
    /// As much speaks for a rhythm as against it.
    MixedEvidence,
    /// The samples misstate the signal by more than half of its volume ([`Method::Dft`]).
    PoorSamples,
    /// Single requests follow each other without a gap that means anything: a steady stream, and no phases.
    Loop,
}

/// Result of the detection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PeriodEstimate {
    /// Whether there is a rhythm.
    pub verdict: Verdict,
    /// Why that cannot be determined, where it cannot; or why what repeats evenly is no rhythm.
    pub reason: Option<Reason>,
    /// The period, or `None` if the signal is not periodic.
    pub period_s: Option<f64>,
    /// Confidence, in [0, 1]; for "not periodic", that of there being no period ([`Method::Auto`]) or 0 ([`Method::Dft`]).
    pub confidence: f64,
    /// All periods that were considered seriously, best first.
    pub candidates: Vec<Candidate>,
    /// Outlying frequencies that are multiples of a candidate, the lowest first ([`Method::Dft`]).
    pub harmonics: Vec<Harmonic>,
    /// Whether the harmonics of the period decay, as they do where the I/O comes in bursts ([`Method::Dft`]).
    pub has_bursts: bool,
    /// All periods that hold at once, the one that moves most bytes first; empty if not periodic.
    pub rhythms: Vec<Rhythm>,
    /// Estimate from the autocorrelation alone.
    pub autocorrelation: Option<AutocorrelationEstimate>,
    /// The confidence after the autocorrelation was heard.
    pub refined_confidence: Option<f64>,
    /// When the next phase is expected to begin, on the trace's clock.
    pub next_phase_s: Option<f64>,
    /// The phases the period stands for, where they could be separated.
    pub phases: Vec<Phase>,
    /// The mean (a wave of frequency 0), then the strongest waves by power; empty without samples.
    pub waves: Vec<Wave>,
}

/// Periods beyond the best few that were considered are of no use to anybody.
const MOST_CANDIDATES: usize = 5;

/// A period that was considered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The period.
    pub period_s: f64,
    /// Confidence, in [0, 1].
    pub confidence: f64,
}

/// A multiple of a candidate's frequency whose power stands out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Harmonic {
    /// Its frequency.
    pub frequency_hz: f64,
    /// How many times the candidate's frequency that is.
    pub multiple: usize,
    /// Its share of the signal's power without the mean.
    pub power_share: f64,
    /// Whether it would have been a candidate itself, and was dropped.
    pub was_dropped: bool,
}

/// One of several rhythms that hold, at once or one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rhythm {
    /// Its beat: the time from one phase to the next where none was missed.
    pub period_s: f64,
    /// Mean distance between the starts of consecutive phases.
    pub mean_distance_s: f64,
    /// How much the distances differ from the beat (standard deviation over the beat).
    pub spread: f64,
    /// How many beats passed without a phase.
    pub missed: usize,
    /// Its own phases, in order of time.
    pub phases: Vec<Phase>,
    /// How many bytes its phases move over the run.
    pub bytes: f64,
    /// The share of the window's bytes that these are.
    pub byte_share: f64,
    /// The share of the window that its phases stand for: one beat each.
    pub time_share: f64,
    /// How far the bandwidth falls between its phases, as a share of that within them: 1 is silence in between.
    pub depth: f64,
    /// When it begins to hold.
    pub start_s: f64,
    /// When it ends.
    pub end_s: f64,
    /// How probable it is, in [0, 1].
    pub confidence: f64,
}

/// The autocorrelation's own estimate.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize))]
pub struct AutocorrelationEstimate {
    /// Mean distance of neighbouring peaks, outliers dropped.
    pub period_s: f64,
    /// `1 − σ/mean` of those distances, not below 0.
    pub confidence: f64,
    /// The distances.
    pub candidates_s: Vec<f64>,
}

/// A stretch of I/O.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// When it begins, on the trace's clock.
    pub start_s: f64,
    /// When it ends.
    pub end_s: f64,
    /// Bytes it moves.
    pub bytes: f64,
}

/// A cosine wave `amplitude · cos(2π · frequency · (t − t₀) + phase)`, where `t₀` is the start of the signal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wave {
    /// Its frequency; 0 is the mean.
    pub frequency_hz: f64,
    /// Its amplitude.
    pub amplitude_bps: f64,
    /// Its phase at the start of the signal.
    pub phase_rad: f64,
    /// Its share of the signal's power without the mean; 0 for the mean itself.
    pub power_share: f64,
}

/// Why no answer exists.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PeriodError {
    /// A sample is NaN or infinite.
    #[error("the signal holds a value that is not a number")]
    NotANumber,
}
