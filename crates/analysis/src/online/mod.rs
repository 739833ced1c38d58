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
pub use evaluate::Work;
pub use iotide_num::ChangeDetectorKind;
pub use paper::PaperPredictor;
pub use prediction::{
    ExpectedRhythm, FrequencyInterval, IdleGap, NextPhase, Prediction, Reason, Regime, RegimeChange,
    RegimeChangeKind, SeenPhase, StreamCounts,
};

use self::ahead::{Ahead, Request};
use self::evaluate::{Evaluation, Evaluator};
use self::octaves::Octaves;
use crate::period::PeriodConfig;

mod adaptation;
mod ahead;
mod evaluate;
mod forecast;
mod merge;
mod octaves;
mod paper;
mod prediction;
mod regimes;
#[cfg(test)]
mod traps;

/// How to predict.
#[derive(Clone, Debug, PartialEq)]
pub struct PredictorConfig {
    /// Which events count.
    pub direction: Direction,
    /// Which stretch of the past an evaluation looks at.
    pub adaptation: Adaptation,
    /// How an evaluation finds the period; [`Adaptation::ChangePoints`] has its own way, from
    /// [`Method::Auto`](crate::Method::Auto).
    pub period: PeriodConfig,
    /// How many samples one window has, at most (64 to 2048): what one update may cost.
    pub most_samples: usize,
    /// Events that ended longer than this before the newest time seen are lost.
    pub horizon_s: f64,
    /// The finest time that is told apart; rounded down to a power of two of nanoseconds.
    pub resolution_s: f64,
    /// A beat faster than this is that of requests within a phase more often than that of phases: it is told once it has held for ten
    /// seconds, which few phases last. Whoever acts on a period has no use for the beat of a loop that is over by then.
    pub fast_s: f64,
    /// Evaluations are at least this far apart. One costs milliseconds, and a stream without a rhythm has something new all the time.
    pub apart_s: f64,
}

impl Default for PredictorConfig {
    fn default() -> Self {
        Self {
            direction: Direction::Both,
            adaptation: Adaptation::default(),
            period: PeriodConfig::default(),
            most_samples: 1024,
            horizon_s: 60.0,
            resolution_s: 1.1e-3,
            fast_s: 0.7,
            apart_s: 0.0,
        }
    }
}

/// Predicts the I/O phases of one running job.
///
/// # Bounds
/// - *Memory*: [`Predictor::memory_bytes`], under half a mebibyte whatever comes: 23 rings of up to 2048 bins, ten bytes for each that holds something.
/// - *An event* costs at most four bin writes for each doubling of its length over the resolution, and no more than 92 for the first hour of it; to
///   move time on costs at most two bin writes for every [`PredictorConfig::resolution_s`] that passed, and no more than 47104.
/// - *An evaluation* looks at no more than six windows of [`PredictorConfig::most_samples`] samples each, however long
///   the job has been running.
/// - *Evaluations* are at least [`PredictorConfig::apart_s`] and 64 times the resolution apart.
#[derive(Clone, Debug)]
pub struct Predictor {
    config: PredictorConfig,
    octaves: Octaves,
    evaluator: Evaluator,
    /// The start of the first event: zero of the clock in here, so that nothing depends on where the job's clock began.
    origin: Option<Timestamp>,
    /// The newest time seen, in nanoseconds since `origin`; likewise all times below.
    now: i64,
    /// When the I/O seen so far ends.
    active_until: i64,
    due: Due,
    /// Events so far ahead that their clock may be wrong.
    ahead: Ahead,
    stream: StreamCounts,
    n_predictions: u64,
    latest: Option<Prediction>,
}

/// When to evaluate next.
#[derive(Clone, Copy, Debug)]
struct Due {
    /// Not before this.
    earliest: i64,
    /// Until when there had been I/O at the last evaluation: without more of it, only what is overdue is news.
    active_until: i64,
    /// After a silence of this length a phase is over.
    silence: i64,
    /// When so much time has passed, silence or not.
    tick: i64,
    /// When silence itself is news: a phase should have come.
    overdue: Option<i64>,
}

impl Predictor {
    /// Returns a predictor that has seen nothing.
    pub fn new(config: PredictorConfig) -> Self {
        let finest_nanos = (config.resolution_s * 1e9).clamp(1.0, 1e12) as u64;
        let config =
            PredictorConfig { most_samples: config.most_samples.clamp(64, octaves::N_BINS), ..config };
        let mut predictor = Self {
            octaves: Octaves::new(finest_nanos.ilog2()),
            evaluator: Evaluator::new(config.adaptation),
            config,
            origin: None,
            now: 0,
            active_until: 0,
            due: Due { earliest: 0, active_until: -1, silence: 0, tick: 0, overdue: None },
            ahead: Ahead::default(),
            stream: StreamCounts::default(),
            n_predictions: 0,
            latest: None,
        };
        predictor.plan(0, &Evaluation::default());
        predictor
    }

    /// Takes the next event. Events may come in any order within [`PredictorConfig::horizon_s`].
    ///
    /// Several layers may see the same bytes: the caller chooses one. Of several predictions that one call gives rise to, the
    /// last one is returned; the changes of regime of all are in it.
    pub fn push_event(&mut self, event: &Event) -> Option<Prediction> {
        let counts = match event.op {
            Op::Read => self.config.direction != Direction::Write,
            Op::Write => self.config.direction != Direction::Read,
            _ => false,
        };
        if counts {
            self.add(event.start, event.end, event.bytes, event.rank.0);
        }
        self.latest.take()
    }

    /// Takes the mean bandwidth over a stretch of time, as counters or a monitor give it.
    pub fn push_sample(&mut self, span: Span, rate_bps: f64) -> Option<Prediction> {
        let bytes = rate_bps * span.duration_s();
        if bytes == 0.0 {
            self.origin.get_or_insert(span.start);
            self.stream.events += 1;
        } else {
            self.add(span.start, span.end, bytes, 0);
        }
        self.advance_to(span.end)
    }

    /// Takes note that time has passed: whatever was to come until `now` has come, so silence is silence.
    pub fn advance_to(&mut self, now: Timestamp) -> Option<Prediction> {
        if let Some(origin) = self.origin {
            let now = nanos_since(now, origin);
            self.release(now);
            self.pass_until(now);
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

    /// Returns the counts of the stream so far.
    pub fn stream(&self) -> StreamCounts {
        self.stream
    }

    /// Returns the losses (events and samples that did not count), for the end of a report.
    pub fn losses(&self) -> Vec<Loss> {
        let StreamCounts { late, senseless, ahead, .. } = self.stream;
        [
            (late, format!("too late to count: more than {} s behind the others", self.config.horizon_s)),
            (senseless, "ends before it starts, or bytes that are no number".to_owned()),
            (
                ahead,
                format!(
                    "a clock that nobody shares: more than {} s ahead of all others",
                    self.config.horizon_s
                ),
            ),
        ]
        .into_iter()
        .filter(|(records, _)| *records > 0)
        .map(|(records, what)| Loss::of_records(records, what))
        .collect()
    }

    /// Returns the cost so far.
    pub fn work(&self) -> Work {
        Work { bin_writes: self.octaves.writes(), ..self.evaluator.work }
    }

    /// Evaluates less often, or more often again, than [`PredictorConfig::apart_s`] said so far; from the next evaluation on.
    pub fn keep_apart(&mut self, apart_s: f64) {
        self.config.apart_s = apart_s;
    }

    /// Memory held; it is bounded, however long the stream is.
    pub fn memory_bytes(&self) -> usize {
        // Beside the rings there are short lists with fixed limits: rhythms known, changes, frequencies merged.
        size_of::<Self>() + self.octaves.heap_bytes() + self.evaluator.heap_bytes()
    }
}

/// Keeps the latest prediction for [`Predictor::take`].
impl EventSink for Predictor {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        let before = self.latest.take();
        self.latest = match (self.push_event(&event), before) {
            (Some(mut new), Some(before)) => {
                new.changes.splice(0..0, before.changes);
                Some(new)
            }
            (new, before) => new.or(before),
        };
        ControlFlow::Continue(())
    }
    fn loss(&mut self, _: Loss) {}

    fn async_event(&mut self, event: Event, _: iotide_trace::Timestamp) -> ControlFlow<()> {
        self.event(event)
    }

    fn time_spent(&mut self, _: iotide_trace::TimeSpent) {}

    fn access_facts(&mut self, _: &iotide_trace::AccessFacts) {}
}

fn nanos_since(time: Timestamp, origin: Timestamp) -> i64 {
    time.as_nanos() - origin.as_nanos()
}

/// Without a rhythm: the share of the window that must have passed, or been silent, before another look is worth it.
const SHARE_OF_WINDOW: f64 = 1.0 / 16.0;

impl Predictor {
    fn add(&mut self, start: Timestamp, end: Timestamp, bytes: f64, rank: i32) {
        if end < start || !bytes.is_finite() || bytes < 0.0 {
            self.stream.senseless += 1;
            return;
        }
        let horizon = (self.config.horizon_s * 1e9) as i64;
        if let Some(origin) = self.origin
            && self.stream.events == 1
            && self.now - nanos_since(end, origin) > horizon
        {
            // Of two clocks that far apart nobody knows which is right; if the later one is, it will be seen again.
            let stream = StreamCounts { events: 0, ahead: self.stream.ahead + 1, ..self.stream };
            *self = Self { stream, ..Self::new(self.config.clone()) };
        }
        let origin = *self.origin.get_or_insert(start);
        let request =
            Request { start: nanos_since(start, origin), end: nanos_since(end, origin), bytes, rank };
        if self.now - request.end > horizon {
            self.stream.late += 1;
            return;
        }
        if self.stream.events == 0 || request.start - self.now <= horizon {
            self.ahead.contradict(request.rank);
            self.count(&request);
            self.release(self.now);
            return;
        }
        // So far ahead of all others, it is a wrong clock, or time has really moved on: others will show.
        self.stream.ahead += 1;
        for request in self.ahead.set_aside(request, horizon) {
            self.stream.ahead -= 1;
            self.count(&request);
        }
    }

    /// Counts what was ahead of its time, and no longer is.
    fn release(&mut self, now: i64) {
        for request in self.ahead.until(now) {
            self.stream.ahead -= 1;
            self.count(&request);
        }
    }

    fn count(&mut self, &Request { start, end, bytes, .. }: &Request) {
        self.stream.events += 1;
        // What comes late was not silence, but nobody knew.
        self.pass_until(start);
        self.evaluator.note_io(start as f64 * 1e-9);
        self.now = self.now.max(end);
        self.octaves.advance(self.now.max(1));
        self.octaves.add(start, end, bytes);
        self.active_until = self.active_until.max(end);
        if self.now >= self.due.tick {
            self.evaluate_at(self.now, Reason::TimePassed);
        }
    }

    /// Lets time pass without I/O.
    fn pass_until(&mut self, until: i64) {
        loop {
            let news = self.active_until > self.due.active_until;
            let (at, reason) = if news {
                ((self.active_until + self.due.silence).max(self.due.earliest), Reason::PhaseEnded)
            } else if let Some(overdue) = self.due.overdue {
                (overdue, Reason::Overdue)
            } else {
                break;
            };
            if at > until {
                break;
            }
            self.now = self.now.max(at);
            self.octaves.advance(self.now.max(1));
            self.evaluate_at(at, reason);
        }
        self.now = self.now.max(until);
        self.octaves.advance(self.now.max(1));
    }

    fn evaluate_at(&mut self, at: i64, reason: Reason) {
        let evaluation = self.evaluator.evaluate(&self.octaves, at as f64 * 1e-9, &self.config);
        self.plan(at, &evaluation);
        // Another look at what has no rhythm is no news.
        let nothing_new = evaluation.period_s.is_none() && reason == Reason::TimePassed;
        let mut changes = self.evaluator.regimes.take_changes();
        if nothing_new && changes.is_empty() {
            return;
        }
        let origin_s = self.origin.map_or(0.0, Timestamp::as_secs);
        changes.iter_mut().for_each(|change| change.at_s += origin_s);
        if let Some(before) = self.latest.take() {
            changes.splice(0..0, before.changes);
        }
        self.n_predictions += 1;
        self.latest = Some(Prediction { changes, ..self.told(at, reason, &evaluation) });
    }

    /// Decides when to evaluate next.
    fn plan(&mut self, at: i64, evaluation: &Evaluation) {
        let nanos = |seconds: f64| (seconds * 1e9) as i64;
        let least = nanos(self.config.apart_s).max(64 * (self.config.resolution_s * 1e9).max(1.0) as i64);
        let started_s = self.evaluator.window_start_s().max(0.0);
        let at_s = at as f64 * 1e-9;
        self.due = match (evaluation.period_s, &evaluation.next_phase) {
            (Some(period_s), Some(next)) => {
                let silence_s = ((period_s - next.duration_s) / 4.0).min(period_s / 8.0).max(0.0);
                let tick_s = (next.start_s + next.duration_s + silence_s).max(at_s + period_s / 4.0);
                // First when the phase is late, then when it must be taken for missed.
                let late_s = next.start_interval_s.1 + silence_s;
                Due {
                    earliest: at + nanos(period_s / 8.0).max(least),
                    active_until: self.active_until,
                    silence: nanos(silence_s).max(least / 8),
                    tick: nanos(tick_s).max(at + least),
                    overdue: Some(nanos(late_s.max(at_s + period_s / 2.0)).max(at + least)),
                }
            }
            _ => {
                let wait = nanos((at_s - started_s) * SHARE_OF_WINDOW);
                Due {
                    earliest: at + least.max(wait / 2),
                    active_until: self.active_until,
                    silence: wait.max(least / 8),
                    tick: at + wait.max(least),
                    overdue: None,
                }
            }
        };
    }

    /// The evaluation on the clock of the events.
    fn told(&self, at: i64, reason: Reason, evaluation: &Evaluation) -> Prediction {
        let origin_s = self.origin.map_or(0.0, Timestamp::as_secs);
        let shifted = |(from_s, to_s): (f64, f64)| (origin_s + from_s, origin_s + to_s);
        Prediction {
            at_s: origin_s + at as f64 * 1e-9,
            number: self.n_predictions,
            reason,
            window_s: shifted(evaluation.window_s),
            period_s: evaluation.period_s,
            confidence: evaluation.confidence,
            rhythms: evaluation
                .rhythms
                .iter()
                .map(|r| ExpectedRhythm { next_start_s: origin_s + r.next_start_s, ..*r })
                .collect(),
            next_phase: evaluation.next_phase.map(|next| NextPhase {
                start_s: origin_s + next.start_s,
                start_interval_s: shifted(next.start_interval_s),
                ..next
            }),
            idle_gaps: evaluation
                .idle_gaps
                .iter()
                .map(|gap| IdleGap { start_s: origin_s + gap.start_s, end_s: origin_s + gap.end_s, ..*gap })
                .collect(),
            intervals: self.evaluator.merged.intervals(),
            last_phase: evaluation.last_phase.map(|phase| SeenPhase {
                start_s: origin_s + phase.start_s,
                end_s: origin_s + phase.end_s,
                ..phase
            }),
            regime: self
                .evaluator
                .regimes
                .shown()
                .map(|regime| Regime { since_s: origin_s + regime.since_s, ..regime }),
            changes: Vec::new(),
            stream: self.stream,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_trace::Rank;
    use proptest::prelude::*;

    fn at(secs: f64) -> Timestamp {
        Timestamp::from_secs_since_start(secs).unwrap()
    }

    fn write(rank: i32, start_s: f64, end_s: f64, bytes: f64) -> Event {
        Event::data(Op::Write, Rank(rank), at(start_s), at(end_s), bytes)
    }

    /// Four ranks write at each of `starts_s`, for a tenth of `period_s`.
    fn phases(starts_s: &[f64], period_s: f64) -> Vec<Event> {
        let mut events: Vec<Event> = starts_s
            .iter()
            .flat_map(|&start_s| (0..8).map(move |i| (start_s, i)))
            .map(|(start_s, i)| {
                let from_s = start_s + 0.05 * period_s * f64::from(i / 4);
                write(i % 4, from_s, from_s + 0.048 * period_s, 1e8)
            })
            .collect();
        events.sort_by_key(|event| event.end);
        events
    }

    fn every(period_s: f64, n: usize) -> Vec<f64> {
        (0..n).map(|i| 2.0 + period_s * i as f64).collect()
    }

    fn predictions(events: &[Event]) -> Vec<Prediction> {
        let mut predictor = Predictor::new(PredictorConfig::default());
        events.iter().filter_map(|event| predictor.push_event(event)).collect()
    }

    #[test]
    fn the_next_phase_is_foretold_with_its_length_and_volume() {
        let told = predictions(&phases(&every(10.0, 12), 10.0)).pop().unwrap();
        assert!((told.period_s.unwrap() - 10.0).abs() < 0.05, "{told:?}");
        let next = told.next_phase.unwrap();
        assert!((next.start_s - 112.0).abs() < 0.1, "{next:?}");
        assert!(next.start_interval_s.0 <= 112.0 && next.start_interval_s.1 >= 112.0);
        assert!((next.bytes / 8e8 - 1.0).abs() < 0.05 && (next.duration_s - 0.98).abs() < 0.15, "{next:?}");
        let gap = told.idle_gaps[0];
        assert!(gap.start_s < 104.5 && gap.end_s > 110.5 && gap.probability > 0.7, "{gap:?}");
        assert_eq!(told.regime.unwrap().id, 1);
    }

    #[test]
    fn nothing_is_said_before_the_first_event() {
        let mut predictor = Predictor::new(PredictorConfig::default());
        assert_eq!(predictor.advance_to(at(100.0)), None);
        assert_eq!(predictor.evaluate(), None);
    }

    #[test]
    fn a_phase_that_stays_away_is_told_by_silence_alone() {
        let mut predictor = Predictor::new(PredictorConfig::default());
        for event in phases(&every(10.0, 12), 10.0) {
            predictor.push_event(&event);
        }
        let overdue = predictor.advance_to(at(128.0)).unwrap();
        assert_eq!(overdue.reason, Reason::Overdue);
        assert!(overdue.period_s.is_some());
        let left = predictor.advance_to(at(300.0)).unwrap();
        assert_eq!(left.period_s, None);
        assert_eq!(left.changes.last().unwrap().kind, RegimeChangeKind::Left);
        assert_eq!(predictor.advance_to(at(1e6)), None);
    }

    #[test]
    fn a_rhythm_that_returns_after_a_pause_is_recognised_by_its_second_phase() {
        let mut starts_s = every(10.0, 12);
        starts_s.extend([400.0, 410.0, 420.0]);
        let told = predictions(&phases(&starts_s, 10.0));
        let back = told
            .iter()
            .find(|told| told.changes.iter().any(|c| c.kind == RegimeChangeKind::Returned))
            .unwrap();
        assert!(back.at_s < 420.0, "{}", back.at_s);
        assert!((back.period_s.unwrap() - 10.0).abs() < 0.2);
    }

    #[test]
    fn a_jump_is_followed_within_three_phases() {
        let mut starts_s = every(10.0, 15);
        starts_s.extend((1..10).map(|i| 142.0 + 4.0 * f64::from(i)));
        let told = predictions(&phases(&starts_s, 4.0));
        let known = told.iter().find(|told| told.period_s.is_some_and(|s| (s - 4.0).abs() < 0.3)).unwrap();
        assert!(known.at_s < 142.0 + 3.0 * 4.0, "{}", known.at_s);
    }

    #[test]
    fn what_comes_too_late_or_makes_no_sense_is_counted() {
        let mut predictor = Predictor::new(PredictorConfig::default());
        predictor.push_event(&write(0, 100.0, 101.0, 1.0));
        predictor.push_event(&write(0, 60.0, 61.0, 1.0)); // within the horizon of a minute
        predictor.push_event(&write(0, 10.0, 11.0, 1.0));
        predictor.push_event(&write(0, 100.0, 101.0, f64::NAN));
        predictor.push_event(&Event { end: at(50.0), ..write(0, 100.0, 101.0, 1.0) });
        assert_eq!(predictor.stream(), StreamCounts { events: 2, late: 1, senseless: 2, ahead: 0 });
    }

    #[test]
    fn a_bad_clock_is_set_aside_and_told_as_a_loss() {
        for n_bad in 1..=5 {
            let mut predictor = Predictor::new(PredictorConfig::default());
            let mut last = None;
            for (i, event) in phases(&every(10.0, 30), 10.0).iter().enumerate() {
                if i == 80 {
                    // One rank's clock is two hours ahead, for some requests in a row.
                    for k in 0..n_bad {
                        let start_s = 7200.0 + f64::from(k);
                        assert_eq!(predictor.push_event(&write(3, start_s, start_s + 0.1, 1e8)), None);
                    }
                }
                last = predictor.push_event(event).or(last);
            }
            let stream = predictor.stream();
            assert_eq!((stream.late, stream.ahead), (0, n_bad as u64), "{n_bad}");
            assert_eq!(predictor.losses()[0].records, Some(n_bad as u64));
            assert!((last.unwrap().period_s.unwrap() - 10.0).abs() < 0.1, "{n_bad}");
        }
    }

    #[test]
    fn a_first_event_with_a_bad_clock_is_no_origin() {
        let mut predictor = Predictor::new(PredictorConfig::default());
        predictor.push_event(&write(3, 7200.0, 7200.1, 1e8));
        let events = phases(&every(10.0, 12), 10.0);
        let last = events.iter().filter_map(|event| predictor.push_event(event)).last();
        assert_eq!(predictor.stream(), StreamCounts { events: 96, late: 0, senseless: 0, ahead: 1 });
        assert!((last.unwrap().period_s.unwrap() - 10.0).abs() < 0.1);
    }

    #[test]
    fn time_that_really_moves_on_is_believed() {
        let mut predictor = Predictor::new(PredictorConfig::default());
        let _ = predictor.push_event(&write(0, 0.0, 1.0, 1e8));
        let _ = predictor.push_event(&write(0, 600.0, 601.0, 1e8));
        assert_eq!((predictor.stream().events, predictor.stream().ahead), (1, 1));
        let _ = predictor.push_event(&write(0, 601.0, 602.0, 1e8)); // the only rank there is
        assert_eq!((predictor.stream().events, predictor.stream().ahead), (3, 0));
        let _ = predictor.push_event(&write(0, 1200.0, 1201.0, 1e8));
        let _ = predictor.advance_to(at(1205.0)); // the clock itself says so
        assert_eq!((predictor.stream().events, predictor.stream().ahead), (4, 0));
    }

    #[test]
    fn samples_tell_what_events_tell() {
        let mut predictor = Predictor::new(PredictorConfig::default());
        let mut last = None;
        for i in 0..1200 {
            let rate_bps = if i % 100 < 12 { 1e9 } else { 0.0 };
            let span = Span { start: at(0.1 * f64::from(i)), end: at(0.1 * f64::from(i + 1)) };
            last = predictor.push_sample(span, rate_bps).or(last);
        }
        assert!((last.unwrap().period_s.unwrap() - 10.0).abs() < 0.2);
    }

    #[test]
    fn a_sink_keeps_the_latest_prediction() {
        let mut predictor = Predictor::new(PredictorConfig::default());
        for event in phases(&every(10.0, 12), 10.0) {
            let _ = EventSink::event(&mut predictor, event);
        }
        let told = predictor.take().unwrap();
        assert!(told.changes.iter().any(|change| change.kind == RegimeChangeKind::Entered));
        assert_eq!(predictor.take(), None);
    }

    #[test]
    fn reads_do_not_count_where_writes_were_asked_for() {
        let config = PredictorConfig { direction: Direction::Write, ..PredictorConfig::default() };
        let mut predictor = Predictor::new(config);
        predictor.push_event(&Event { op: Op::Read, ..write(0, 0.0, 1.0, 1e9) });
        assert_eq!(predictor.stream().events, 0);
    }

    #[test]
    fn cost_and_memory_do_not_grow_with_the_history() {
        let mut predictor = Predictor::new(PredictorConfig::default());
        let fresh = predictor.memory_bytes();
        let mut before = Work::default();
        let mut most_samples = 0;
        for phase in 0..1500 {
            for rank in 0..4 {
                let start_s = 5.0 * f64::from(phase);
                predictor.push_event(&write(rank, start_s, start_s + 0.7, 1e8));
            }
            let work = predictor.work();
            let evaluations = work.evaluations - before.evaluations;
            assert!(evaluations <= 12, "{evaluations} evaluations in one phase");
            most_samples = most_samples.max((work.samples - before.samples) / evaluations.max(1));
            // 5 s are 4768 bins of 2²⁰ ns, each moved on once per octave, half as many at each; four requests besides.
            let writes = work.bin_writes - before.bin_writes;
            assert!(writes <= 2 * 4768 + 4 * 92, "{writes} bin writes in one phase");
            before = work;
        }
        assert!(most_samples <= 4 * 1024 + 1024, "{most_samples}");
        assert!(predictor.memory_bytes() < 512 * 1024, "{}", predictor.memory_bytes());
        assert!(fresh < 8 * 1024, "{fresh}");
    }

    #[test]
    fn a_job_with_few_requests_is_cheap_to_remember_and_a_dense_one_is_not_dear() {
        // Memory is what counts here, and evaluations take their time.
        let config = PredictorConfig { apart_s: 60.0, ..PredictorConfig::default() };
        let mut sparse = Predictor::new(config.clone());
        for i in 0..6000 {
            let start_s = 0.1 * f64::from(i);
            sparse.push_event(&write(0, start_s, start_s + 0.001, 1e6));
        }
        assert!(sparse.memory_bytes() < 64 * 1024, "{}", sparse.memory_bytes());
        let mut dense = Predictor::new(config);
        for i in 0..200_000 {
            let start_s = 0.0011 * f64::from(i);
            dense.push_event(&write(0, start_s, start_s + 0.0009, 1e6));
        }
        assert!(dense.memory_bytes() < 192 * 1024, "{}", dense.memory_bytes());
        // What a burst took is given back when it is long over.
        dense.advance_to(at(1e6));
        assert!(dense.memory_bytes() < 16 * 1024, "{}", dense.memory_bytes());
    }

    #[test]
    fn evaluations_can_be_kept_further_apart_while_it_listens() {
        let mut predictor = Predictor::new(PredictorConfig::default());
        let mut at_s = 0.0;
        let mut hear = |predictor: &mut Predictor, n: u32| {
            let before = predictor.work().evaluations;
            for i in 0..n {
                at_s += 0.002 + 0.016 * f64::from(i.wrapping_mul(2_654_435_761) >> 16) / 65536.0;
                predictor.push_event(&write(0, at_s, at_s + 0.001, 4096.0));
            }
            predictor.work().evaluations - before
        };
        // Five seconds each; one that was due already is made all the same.
        let often = hear(&mut predictor, 500);
        predictor.keep_apart(2.0);
        let rarely = hear(&mut predictor, 500);
        assert!(rarely <= 4 && often > 2 * rarely, "{often} {rarely}");
    }

    #[test]
    fn a_stream_without_rhythm_is_not_looked_at_more_often_than_asked_for() {
        let evaluations = |apart_s| {
            let mut predictor = Predictor::new(PredictorConfig { apart_s, ..PredictorConfig::default() });
            let mut at_s = 0.0;
            for i in 0..6000u32 {
                at_s += 0.002 + 0.016 * f64::from(i.wrapping_mul(2_654_435_761) >> 16) / 65536.0;
                predictor.push_event(&write(0, at_s, at_s + 0.001, 4096.0));
            }
            (predictor.work().evaluations, at_s)
        };
        let (n, lasted_s) = evaluations(2.0);
        assert!(n as f64 <= lasted_s / 2.0 + 1.0, "{n} in {lasted_s} s");
        assert!(evaluations(0.0).0 > n);
    }

    /// Returns the parts of predictions that must not depend on how the stream was cut up, shifted or scaled.
    fn gist(told: &[Prediction], shift_s: f64) -> Vec<(f64, Option<f64>, Option<f64>, usize)> {
        let rounded = |x: f64| (x * 1e4).round() / 1e4;
        told.iter()
            .map(|told| {
                let next = told.next_phase.map(|next| rounded(next.start_s - shift_s));
                (rounded(told.at_s - shift_s), told.period_s.map(rounded), next, told.changes.len())
            })
            .collect()
    }

    fn starts() -> impl Strategy<Value = Vec<f64>> {
        (2.0..40.0f64, prop::collection::vec(0.95..1.05f64, 8..16)).prop_map(|(period_s, jitter)| {
            jitter
                .iter()
                .scan(1.0, |at_s, jitter| {
                    *at_s += period_s * jitter;
                    Some(*at_s)
                })
                .collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]

        #[test]
        fn a_time_shift_shifts_the_predictions_and_nothing_else(starts_s in starts(), shift_s in -1000..1000i32) {
            let shift_s = f64::from(shift_s);
            let events = phases(&starts_s, 2.0);
            let nanos = (shift_s * 1e9) as i64;
            let shifted: Vec<Event> = events
                .iter()
                .map(|e| Event { start: e.start.plus_nanos(nanos), end: e.end.plus_nanos(nanos), ..*e })
                .collect();
            prop_assert_eq!(gist(&predictions(&events), 0.0), gist(&predictions(&shifted), shift_s));
        }

        #[test]
        fn more_bytes_do_not_change_the_rhythm(starts_s in starts(), doublings in -20..20i32) {
            let events = phases(&starts_s, 2.0);
            let scaled: Vec<Event> =
                events.iter().map(|e| Event { bytes: e.bytes * 2f64.powi(doublings), ..*e }).collect();
            prop_assert_eq!(gist(&predictions(&events), 0.0), gist(&predictions(&scaled), 0.0));
        }

        #[test]
        fn telling_the_time_in_between_changes_nothing(starts_s in starts(), steps in 1..5u8) {
            let events = phases(&starts_s, 2.0);
            let mut predictor = Predictor::new(PredictorConfig::default());
            let mut told = Vec::new();
            for event in &events {
                // Time goes up to where the next request begins: until then nothing came.
                let (from, to) = (predictor.now, nanos_since(event.start, *predictor.origin.get_or_insert(event.start)));
                for step in 1..=i64::from(steps) {
                    let now = predictor.origin.unwrap().plus_nanos(from + (to - from) * step / i64::from(steps));
                    told.extend(predictor.advance_to(now));
                }
                told.extend(predictor.push_event(event));
            }
            let all = predictions(&events);
            prop_assert_eq!(told.last().map(|t| t.period_s), all.last().map(|t| t.period_s));
            prop_assert_eq!(told.last().map(|t| t.at_s), all.last().map(|t| t.at_s));
            prop_assert!(told.len() >= all.len());
        }

        #[test]
        fn no_stream_breaks_it(
            raw in prop::collection::vec((-1e4..1e4f64, prop_oneof![Just(0.0), 0.0..1e3f64], prop::num::f64::ANY), 0..200),
        ) {
            let mut predictor = Predictor::new(PredictorConfig { horizon_s: 1e6, ..PredictorConfig::default() });
            for (start_s, length_s, bytes) in raw {
                if let Some(told) = predictor.push_event(&write(0, start_s, start_s + length_s, bytes.abs())) {
                    prop_assert!((0.0..=1.0).contains(&told.confidence));
                    prop_assert!(told.period_s.is_none_or(|s| s.is_finite() && s > 0.0));
                    prop_assert!(told.next_phase.is_none_or(|next| next.start_s >= told.at_s));
                    prop_assert!(told.idle_gaps.iter().all(|gap| gap.start_s < gap.end_s));
                }
            }
        }
    }
}
