//! Predictions of a [`Predictor`](super::Predictor).
//!
//! All times are seconds on the clock of the events.

/// Expected I/O of a running job, as of one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The moment: what happened later is not in here.
    pub at_s: f64,
    /// Counts from 1.
    pub number: u64,
    /// Reason for the prediction.
    pub reason: Reason,
    /// The window it is based on.
    pub window_s: (f64, f64),
    /// The period of the main rhythm, or `None` if there is none (yet, or any more).
    pub period_s: Option<f64>,
    /// Confidence of the period, in [0, 1]; without a period, of there being none.
    pub confidence: f64,
    /// All rhythms that hold at once, the one that moves most bytes first; empty without a period.
    pub rhythms: Vec<ExpectedRhythm>,
    /// The next phase of the main rhythm.
    pub next_phase: Option<NextPhase>,
    /// When nothing will be going on, in order of time: first the gap that is on or comes next.
    pub idle_gaps: Vec<IdleGap>,
    /// Joint result of all predictions so far: where the frequency lies, with which probability; the most probable first.
    pub intervals: Vec<FrequencyInterval>,
    /// The last phase seen (it may be going on).
    pub last_phase: Option<SeenPhase>,
    /// The stretch of stable behaviour the job is in, if any.
    pub regime: Option<Regime>,
    /// Changes since the last prediction that was handed out.
    pub changes: Vec<RegimeChange>,
    /// Counts of the stream so far.
    pub stream: StreamCounts,
}

/// Reason for a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize))]
#[cfg_attr(feature = "schema", serde(rename_all = "snake_case"))]
pub enum Reason {
    /// A phase seems to be over.
    PhaseEnded,
    /// As much time as a period (or a good part of the window) went by since the last one.
    TimePassed,
    /// A phase was expected and did not come.
    Overdue,
    /// [`Predictor::evaluate`](super::Predictor::evaluate) was called.
    Asked,
    /// Data has come ([`PaperPredictor`](super::PaperPredictor)).
    NewData,
}

/// One of several rhythms that hold at once.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize))]
pub struct ExpectedRhythm {
    /// Its period.
    pub period_s: f64,
    /// Confidence, in [0, 1].
    pub confidence: f64,
    /// Bytes that one of its phases moves.
    pub bytes_per_phase: f64,
    /// When its next phase is expected.
    pub next_start_s: f64,
}

/// The next phase of the main rhythm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NextPhase {
    /// When it is expected to begin; not before the prediction.
    pub start_s: f64,
    /// It begins in here with a probability of [`NextPhase::INTERVAL_PROBABILITY`], if it comes at all.
    pub start_interval_s: (f64, f64),
    /// How many bytes it is expected to move: the mean of the rhythm's phases.
    pub bytes: f64,
    /// How long it is expected to last.
    pub duration_s: f64,
}

impl NextPhase {
    /// How often [`NextPhase::start_interval_s`] should hold the start.
    pub const INTERVAL_PROBABILITY: f64 = 0.8;
}

/// A stretch without I/O that is to come, or that is on.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize))]
pub struct IdleGap {
    /// From when on.
    pub start_s: f64,
    /// Until when.
    pub end_s: f64,
    /// How probable it is that nothing happens in all that time.
    pub probability: f64,
}

/// Where the frequency lies, by what all predictions found.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize))]
pub struct FrequencyInterval {
    /// The lowest frequency of the cluster.
    pub low_hz: f64,
    /// The highest.
    pub high_hz: f64,
    /// Which share of all predictions (that found a frequency) is in it.
    pub probability: f64,
}

/// A phase that was seen.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize))]
pub struct SeenPhase {
    /// When it began.
    pub start_s: f64,
    /// When it ended, or the end of the window if it is still going on.
    pub end_s: f64,
    /// Bytes it moved so far.
    pub bytes: f64,
    /// Whether it is over.
    pub is_over: bool,
}

/// A stretch of stable behaviour.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize))]
pub struct Regime {
    /// Which one; a rhythm that returns has its old number. Counts from 1.
    pub id: u32,
    /// Since when it holds.
    pub since_s: f64,
    /// Phases seen since then.
    pub n_phases: u32,
}

/// A step of the automaton of stable behaviour.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize))]
pub struct RegimeChange {
    /// When it took place, as far as the data show now.
    pub at_s: f64,
    /// Which step.
    pub kind: RegimeChangeKind,
    /// The regime it is about.
    pub regime: u32,
    /// That regime's period, by what is known now.
    pub period_s: f64,
}

/// Kind of a [`RegimeChange`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize))]
#[cfg_attr(feature = "schema", serde(rename_all = "snake_case"))]
pub enum RegimeChangeKind {
    /// A rhythm was found that was not there before.
    Entered,
    /// The rhythm has ended: another one is beginning, or nothing.
    Left,
    /// The job went back to a rhythm that it had before.
    Returned,
}

/// Counts of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize))]
pub struct StreamCounts {
    /// Events and samples that counted.
    pub events: u64,
    /// Those that came later than the horizon allows, and are lost.
    pub late: u64,
    /// Those that made no sense (an end before the start, bytes that are no number), and are lost.
    pub senseless: u64,
    /// Those so far ahead of all others that their clock must be wrong: set aside until others confirm that time has moved on.
    pub ahead: u64,
}
