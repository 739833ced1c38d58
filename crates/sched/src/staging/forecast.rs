//! Forecast of a job's phases.

use iotide_analysis::online::{NextPhase, Prediction};

/// The next I/O phase of a job, and the rhythm in which others follow. All times are on the clock of the caller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// When it was made.
    pub at_s: f64,
    /// How certain the rhythm is, in [0, 1].
    pub confidence: f64,
    /// The time between the starts of two phases.
    pub period_s: f64,
    /// When the next phase begins.
    pub start_s: f64,
    /// Between these times it begins very probably.
    pub start_interval_s: (f64, f64),
    /// Bytes that a phase writes.
    pub bytes: f64,
    /// How long a phase lasts.
    pub duration_s: f64,
    /// How probable it is that a gap between two phases is idle from end to end.
    pub idle_probability: f64,
}

impl Forecast {
    /// Takes what staging needs from a prediction; `None` if that has no rhythm.
    ///
    /// Times stay on the prediction's clock; [`Forecast::shifted`] puts them onto another.
    pub fn of(prediction: &Prediction) -> Option<Self> {
        let forecast = Self::of_phase(
            prediction.at_s,
            prediction.confidence,
            prediction.period_s?,
            &prediction.next_phase?,
            prediction.idle_gaps.first().map(|gap| gap.probability),
        );
        forecast.is_possible().then_some(forecast)
    }

    /// Of the next phase of a rhythm. Without a gap that may be idle, that is as probable as the rhythm is certain.
    pub fn of_phase(
        at_s: f64,
        confidence: f64,
        period_s: f64,
        next: &NextPhase,
        idle_probability: Option<f64>,
    ) -> Self {
        let NextPhase { start_s, start_interval_s, bytes, duration_s } = *next;
        let idle_probability = idle_probability.unwrap_or(confidence);
        Self { at_s, confidence, period_s, start_s, start_interval_s, bytes, duration_s, idle_probability }
    }

    /// The same with all times later by so much.
    pub fn shifted(self, by_s: f64) -> Self {
        Self {
            at_s: self.at_s + by_s,
            start_s: self.start_s + by_s,
            start_interval_s: (self.start_interval_s.0 + by_s, self.start_interval_s.1 + by_s),
            ..self
        }
    }

    /// Whether its figures can be those of a rhythm. A controller ignores others.
    pub fn is_possible(&self) -> bool {
        let (from_s, to_s) = self.start_interval_s;
        let figures = [self.at_s, self.period_s, self.start_s, from_s, to_s, self.bytes, self.duration_s];
        figures.iter().all(|figure| figure.is_finite())
            && self.period_s > 0.0
            && self.bytes >= 0.0
            && self.duration_s >= 0.0
            && from_s <= self.start_s
            && self.start_s <= to_s
            && (0.0..=1.0).contains(&self.confidence)
            && (0.0..=1.0).contains(&self.idle_probability)
    }

    /// How long nothing goes on between two phases.
    pub(super) fn gap_s(&self) -> f64 {
        (self.period_s - self.duration_s).max(0.0)
    }
}
