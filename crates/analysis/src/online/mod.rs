//! While the job runs: what its I/O will do next.
//!
//! A [`Predictor`] is given events (or samples) as they come and told that time has passed; when there is something new,
//! it hands back a [`Prediction`]. It has no clock, thread or file: a stream that is replayed gives what it gave live.
//!
//! ```
//! use iotide_analysis::online::{Predictor, PredictorConfig};
//! use iotide_trace::{Event, Op, Rank, Timestamp};
//!
//! let at = |secs| Timestamp::from_secs_since_start(secs).unwrap();
//! let mut predictor = Predictor::new(PredictorConfig::default());
//! for phase in 0..6 {
//!     let start_s = 20.0 * f64::from(phase);
//!     predictor.push_event(&Event::data(Op::Write, Rank(0), at(start_s), at(start_s + 3.0), 1e9));
//! }
//! let prediction = predictor.advance_to(at(110.0)).unwrap();
//! assert!((prediction.period_s.unwrap() - 20.0).abs() < 0.5);
//! assert!((prediction.next_phase.unwrap().start_s - 120.0).abs() < 1.0);
//! ```

use std::ops::ControlFlow;

use iotide_trace::{Direction, Event, EventSink, Loss, Op, Span, Timestamp};

pub use adaptation::Adaptation;
pub use iotide_num::ChangeDetectorKind;
pub use prediction::{
    ExpectedRhythm, FrequencyInterval, IdleGap, NextPhase, Prediction, Reason, Regime, RegimeChange,
    RegimeChangeKind, SeenPhase, StreamCounts,
};

use self::octaves::Octaves;
use crate::period::{PeriodConfig, detect_period};

mod adaptation;
mod octaves;
mod prediction;

/// How to predict.
#[derive(Clone, Debug, PartialEq)]
pub struct PredictorConfig {
    /// Which events count.
    pub direction: Direction,
    /// How an evaluation finds the period.
    pub period: PeriodConfig,
    /// Which stretch of the past an evaluation looks at.
    pub adaptation: Adaptation,
    /// How many samples an evaluation looks at, at most (64 to 2048): what one update may cost.
    pub most_samples: usize,
    /// Events that ended longer than this before the newest time seen are lost.
    pub horizon_s: f64,
    /// The finest time that is told apart; rounded down to a power of two of nanoseconds.
    pub resolution_s: f64,
}

impl Default for PredictorConfig {
    fn default() -> Self {
        Self {
            direction: Direction::Both,
            period: PeriodConfig::default(),
            adaptation: Adaptation::default(),
            most_samples: 1024,
            horizon_s: 60.0,
            resolution_s: 1e-3,
        }
    }
}

/// Predicts the I/O phases of one running job.
#[derive(Clone, Debug)]
pub struct Predictor {
    config: PredictorConfig,
    octaves: Octaves,
    /// The start of the first event: zero of the clock in here, so that nothing depends on where the job's clock began.
    origin: Option<Timestamp>,
    /// The newest time seen, in nanoseconds since `origin`; likewise the fields below.
    now: i64,
    /// When the I/O seen so far ends.
    active_until: i64,
    /// When the last evaluation was, and until when there had been I/O by then.
    evaluated: Option<(i64, i64)>,
    stream: StreamCounts,
    n_predictions: u64,
    latest: Option<Prediction>,
}

impl Predictor {
    /// Returns a predictor that has seen nothing.
    pub fn new(config: PredictorConfig) -> Self {
        let finest_nanos = (config.resolution_s * 1e9).clamp(1.0, 1e12) as u64;
        Self {
            octaves: Octaves::new(finest_nanos.ilog2()),
            config,
            origin: None,
            now: 0,
            active_until: 0,
            evaluated: None,
            stream: StreamCounts::default(),
            n_predictions: 0,
            latest: None,
        }
    }

    /// Takes the next event. Events may come in any order within [`PredictorConfig::horizon_s`].
    ///
    /// Of several predictions that one call gives rise to, the last one is returned; the regime changes of all are in it.
    pub fn push_event(&mut self, event: &Event) -> Option<Prediction> {
        let counts = match event.op {
            Op::Read => self.config.direction != Direction::Write,
            Op::Write => self.config.direction != Direction::Read,
            _ => false,
        };
        if counts {
            self.add(event.start, event.end, event.bytes);
        }
        self.latest.take()
    }

    /// Takes the mean bandwidth over a stretch of time, as counters or a monitor give it.
    pub fn push_sample(&mut self, span: Span, rate_bps: f64) -> Option<Prediction> {
        self.add(span.start, span.end, rate_bps * span.duration_s());
        self.advance_to(span.end)
    }

    /// Takes note that time has passed: whatever was to come until `now` has come, so silence is silence.
    pub fn advance_to(&mut self, now: Timestamp) -> Option<Prediction> {
        if let Some(origin) = self.origin {
            self.pass_until(nanos_since(now, origin));
        }
        self.latest.take()
    }

    /// Evaluates now, whether there is anything new or not; `None` only before the first event.
    pub fn evaluate(&mut self) -> Option<Prediction> {
        self.origin?;
        self.evaluate_at(self.now, Reason::Asked);
        self.latest.take()
    }

    /// Returns the prediction that was made since the last one was handed out, for who feeds this as an [`EventSink`].
    pub fn take(&mut self) -> Option<Prediction> {
        self.latest.take()
    }

    /// What was seen of the stream so far.
    pub fn stream(&self) -> StreamCounts {
        self.stream
    }
}

/// Keeps the latest prediction for [`Predictor::take`].
impl EventSink for Predictor {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        let before = self.latest.take();
        self.latest = self.push_event(&event).or(before);
        ControlFlow::Continue(())
    }
    fn loss(&mut self, _: Loss) {}
}

fn nanos_since(time: Timestamp, origin: Timestamp) -> i64 {
    time.as_nanos() - origin.as_nanos()
}

impl Predictor {
    fn add(&mut self, start: Timestamp, end: Timestamp, bytes: f64) {
        if end < start || !bytes.is_finite() || bytes < 0.0 {
            self.stream.senseless += 1;
            return;
        }
        let origin = *self.origin.get_or_insert(start);
        let (start, end) = (nanos_since(start, origin), nanos_since(end, origin));
        if ((self.now - end) as f64) > self.config.horizon_s * 1e9 {
            self.stream.late += 1;
            return;
        }
        self.stream.events += 1;
        self.pass_until(start);
        self.now = self.now.max(end);
        self.octaves.advance(self.now.max(1));
        self.octaves.add(start, end, bytes);
        self.active_until = self.active_until.max(end);
    }

    fn pass_until(&mut self, until: i64) {
        let due = self.active_until + self.active_until / 16;
        if self.evaluated.is_none_or(|(_, active)| active < self.active_until) && due <= until {
            self.now = self.now.max(due);
            self.evaluate_at(due, Reason::PhaseEnded);
        }
        self.now = self.now.max(until);
        self.octaves.advance(self.now.max(1));
    }

    fn evaluate_at(&mut self, at: i64, reason: Reason) {
        self.evaluated = Some((at, self.active_until));
        self.n_predictions += 1;
        let origin_s = self.origin.map_or(0.0, Timestamp::as_secs);
        let signal = self.octaves.window(0, at.max(1), self.config.most_samples);
        let Ok(estimate) = detect_period(&signal, &self.config.period) else { return };
        let typical = |of: fn(&crate::Phase) -> f64| {
            iotide_num::mean(&estimate.phases.iter().map(of).collect::<Vec<_>>())
        };
        let next_phase = estimate.period_s.zip(estimate.next_phase_s).map(|(period_s, start_s)| NextPhase {
            start_s: origin_s + start_s,
            start_interval_s: (origin_s + start_s - 0.1 * period_s, origin_s + start_s + 0.1 * period_s),
            bytes: typical(|phase| phase.bytes),
            duration_s: typical(|phase| phase.end_s - phase.start_s),
        });
        self.latest = Some(Prediction {
            at_s: origin_s + at as f64 * 1e-9,
            number: self.n_predictions,
            reason,
            window_s: (origin_s + signal.start_s, origin_s + signal.end_s()),
            period_s: estimate.period_s,
            confidence: estimate.confidence,
            rhythms: Vec::new(),
            next_phase,
            idle_gaps: Vec::new(),
            intervals: Vec::new(),
            last_phase: None,
            regime: None,
            changes: Vec::new(),
            stream: self.stream,
        });
    }
}
