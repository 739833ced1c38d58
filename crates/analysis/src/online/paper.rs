//! The FTIO paper's own online mode (section II-D): whenever data has come, its method on a window of the past.
//!
//! Unlike [`Predictor`](super::Predictor) it works on the requests themselves, at the sampling rate that was asked for, so that its answers are
//! those of FTIO step by step. Memory is that of two [`Overlap`]s: exact up to half a million requests each, coarser beyond.

use std::ops::ControlFlow;

use iotide_trace::{
    AccessFacts, Direction, Event, EventSink, Loss, Op, Overlap, Span, Tally, TimeSpent, Timestamp,
};

use super::adaptation::{Adaptation, WindowStart};
use super::merge::Merged;
use super::prediction::{ExpectedRhythm, NextPhase, Prediction, Reason, SeenPhase, StreamCounts};
use crate::run::{RunAnalysis, RunConfig, analyse_run};
use crate::{DftConfig, Method, Phase, StatedRun};

/// Predicts as the FTIO paper does.
#[derive(Clone, Debug)]
pub struct PaperPredictor {
    config: RunConfig,
    reads: Overlap,
    writes: Overlap,
    tally: Tally,
    window: WindowStart,
    merged: Merged,
    stream: StreamCounts,
    n_predictions: u64,
    has_news: bool,
}

impl PaperPredictor {
    /// Returns a predictor that has seen nothing.
    ///
    /// Of `config`, the window bounds what is looked at, and the method is the paper's in any case. The window is cut at changes of bandwidth, and
    /// samples are trusted, as FTIO does ([`DftConfig::as_ftio`]): a window that moves has no other ends.
    /// [`Adaptation::ChangePoints`] is not the paper's; it looks at everything.
    pub fn new(config: RunConfig, adaptation: Adaptation) -> Self {
        let mut config = config;
        config.period.method = Method::Dft;
        config.period.dft = DftConfig { as_ftio: true, ..config.period.dft };
        Self {
            config,
            reads: Overlap::new(),
            writes: Overlap::new(),
            tally: Tally::default(),
            window: WindowStart::new(adaptation),
            merged: Merged::default(),
            stream: StreamCounts::default(),
            n_predictions: 0,
            has_news: false,
        }
    }

    /// Takes the next event; in any order.
    pub fn push_event(&mut self, event: &Event) {
        let counts = match event.op {
            Op::Read => self.config.direction != Some(Direction::Write),
            Op::Write => self.config.direction != Some(Direction::Read),
            _ => false,
        };
        if !counts {
            return;
        }
        if event.end < event.start || !event.bytes.is_finite() || event.bytes < 0.0 {
            self.stream.senseless += 1;
            return;
        }
        self.stream.events += 1;
        self.has_news = true;
        self.tally.add(event);
        let overlap = if event.op == Op::Read { &mut self.reads } else { &mut self.writes };
        overlap.add(event.start, event.end, event.bytes);
    }

    /// Whether data has come since the last evaluation.
    pub fn has_news(&self) -> bool {
        self.has_news
    }

    /// Evaluates what has come so far; `None` if nothing has.
    pub fn evaluate(&mut self) -> Option<Prediction> {
        self.has_news = false;
        let direction =
            self.config.direction.unwrap_or(match self.tally.bytes_read > self.tally.bytes_written {
                true => Direction::Read,
                false => Direction::Write,
            });
        let (reads, writes) = (self.reads.clone().finish(), self.writes.clone().finish());
        let span = match direction {
            Direction::Read => reads.span(),
            Direction::Write => writes.span(),
            Direction::Both => match (reads.span(), writes.span()) {
                (Some(a), Some(b)) => Some(Span { start: a.start.min(b.start), end: a.end.max(b.end) }),
                (one, other) => one.or(other),
            },
        }?;
        let end_s = span.end.as_secs();
        let start_s = self.window.before(end_s).map(|start_s| as_ftio_hands_it_on(start_s, end_s));
        let from_s = match (self.config.from_s, start_s) {
            (Some(given_s), Some(start_s)) => Some(given_s.max(start_s)),
            (given_s, start_s) => given_s.or(start_s),
        };
        let stated = StatedRun { bin_s: self.tally.bin_width_s(), ..StatedRun::default() };
        let config = RunConfig { direction: Some(direction), from_s, stated, ..self.config.clone() };
        let found = analyse_run(&reads, &writes, &config).ok();
        let (window_start_s, window_end_s) = match &found {
            Some(run) => (run.window.start.as_secs(), run.window.end.as_secs()),
            None => (from_s.unwrap_or(span.start.as_secs()), end_s),
        };
        // Two candidates are an answer, but no hit.
        let hit_s = found.as_ref().and_then(|run| match run.estimate.candidates.as_slice() {
            [_] => run.estimate.period_s,
            _ => None,
        });
        self.window.note(window_end_s, hit_s);
        if let Some(period_s) = found.as_ref().and_then(|run| run.estimate.period_s) {
            self.merged.note(1.0 / period_s, (window_end_s - window_start_s).max(1e-9));
        }
        self.n_predictions += 1;
        let nothing = Prediction {
            at_s: window_end_s,
            number: self.n_predictions,
            reason: Reason::NewData,
            window_s: (window_start_s, window_end_s),
            period_s: None,
            confidence: 0.0,
            rhythms: Vec::new(),
            next_phase: None,
            idle_gaps: Vec::new(),
            intervals: self.merged.intervals(),
            last_phase: None,
            regime: None,
            changes: Vec::new(),
            stream: self.stream,
        };
        Some(found.map_or(nothing.clone(), |run| told(nothing, &run)))
    }
}

/// Keeps nothing but what came; to be asked by [`PaperPredictor::evaluate`].
impl EventSink for PaperPredictor {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        self.push_event(&event);
        ControlFlow::Continue(())
    }
    fn loss(&mut self, _: Loss) {}
    fn async_event(&mut self, event: Event, _: Timestamp) -> ControlFlow<()> {
        self.event(event)
    }
    fn time_spent(&mut self, _: TimeSpent) {}
    fn access_facts(&mut self, _: &AccessFacts) {}
}

/// FTIO hands the start of a window to its next evaluation in hundredths of a second, and a request may begin in between. In windows of less than a
/// second a hundredth is too much.
fn as_ftio_hands_it_on(start_s: f64, end_s: f64) -> f64 {
    if end_s - start_s < 1.0 {
        return start_s;
    }
    (start_s * 100.0).round() / 100.0
}

/// Adds what an analysis of the window found.
fn told(nothing: Prediction, run: &RunAnalysis) -> Prediction {
    let (estimate, at_s) = (&run.estimate, nothing.at_s);
    let last_phase = estimate.phases.last().map(|phase| SeenPhase {
        start_s: phase.start_s,
        end_s: phase.end_s,
        bytes: phase.bytes,
        is_over: phase.end_s < at_s - 1.0 / run.signal.rate_hz,
    });
    let Some(period_s) = estimate.period_s else { return Prediction { last_phase, ..nothing } };
    let next_s = estimate.next_phase_s.unwrap_or(at_s + period_s).max(at_s);
    let mean = |of: &dyn Fn(&Phase) -> f64| match estimate.phases.as_slice() {
        [] => None,
        phases => Some(phases.iter().map(of).sum::<f64>() / phases.len() as f64),
    };
    let bytes = mean(&|phase| phase.bytes).or(run.scores.bytes_per_period).unwrap_or(0.0);
    let duration_s = mean(&|phase| phase.end_s - phase.start_s).unwrap_or(0.5 * period_s);
    // The paper has no interval; this is half the step of its frequency grid.
    let half_s = 0.5 * period_s * period_s / run.window.duration_s().max(1e-9);
    Prediction {
        period_s: Some(period_s),
        confidence: estimate.confidence,
        rhythms: vec![ExpectedRhythm {
            period_s,
            confidence: estimate.confidence,
            bytes_per_phase: bytes,
            next_start_s: next_s,
        }],
        next_phase: Some(NextPhase {
            start_s: next_s,
            start_interval_s: ((next_s - half_s).max(at_s), next_s + half_s),
            bytes,
            duration_s,
        }),
        last_phase,
        ..nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PeriodConfig;
    use iotide_trace::{Rank, SamplingKind, Timestamp};

    fn write(start_s: f64, end_s: f64) -> Event {
        let at = |secs| Timestamp::from_secs_since_start(secs).unwrap();
        Event::data(Op::Write, Rank(0), at(start_s), at(end_s), 1e9)
    }

    fn predictor(adaptation: Adaptation) -> PaperPredictor {
        let period = PeriodConfig { method: Method::Dft, ..PeriodConfig::default() };
        PaperPredictor::new(
            RunConfig { period, sampling: SamplingKind::Hold, ..RunConfig::default() },
            adaptation,
        )
    }

    #[test]
    fn a_window_shrinks_to_three_periods_after_more_than_three_hits() {
        let mut predictor = predictor(Adaptation::Hits { hits: 3 });
        assert_eq!(predictor.evaluate(), None);
        let mut told = Vec::new();
        for i in 0..12 {
            predictor.push_event(&write(8.0 * f64::from(i), 8.0 * f64::from(i) + 2.0));
            assert!(predictor.has_news());
            told.extend(predictor.evaluate());
        }
        let last = told.last().unwrap();
        assert!((last.period_s.unwrap() - 8.0).abs() < 1.5, "{last:?}");
        assert!(last.window_s.1 - last.window_s.0 < 40.0, "{last:?}");
        assert_eq!((last.number, last.reason), (12, Reason::NewData));
        let next = last.next_phase.unwrap();
        assert!(next.start_s >= last.at_s && (next.bytes - 1e9).abs() < 1e6 + 0.1 * 1e9, "{next:?}");
    }

    #[test]
    fn everything_and_a_fixed_length_are_what_they_say() {
        let window_of = |adaptation| {
            let mut predictor = predictor(adaptation);
            (0..12).for_each(|i| predictor.push_event(&write(8.0 * f64::from(i), 8.0 * f64::from(i) + 2.0)));
            predictor.evaluate().unwrap().window_s
        };
        assert_eq!(window_of(Adaptation::Everything), (0.0, 90.0));
        assert_eq!(window_of(Adaptation::Length { seconds: 30.0 }), (64.0, 90.0)); // the first change after 60 s
    }
}
