//! Observations of a running job: sums, recent bandwidth, predictions, and the time on its clock.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::time::Instant;

use iotide_analysis::online::Prediction;
use iotide_trace::{Event, EventSink, Loss, Tally, Timestamp};

use super::Engine;

/// Observations of a running job.
///
/// Takes events as they come. The time on the job's clock is known from the source, or from how late events come at
/// most; silence counts as silence only for as long ago as data have come by now.
pub struct Watched {
    engine: Engine,
    predictions: Vec<Prediction>,
    tally: Tally,
    losses: Vec<Loss>,
    recent: Recent,
    clock: Clock,
    /// How many times a file had been replaced when this was last looked at.
    n_replaced: u64,
    /// Whether a clock that goes back begins another run.
    may_begin_anew: bool,
    began_anew: bool,
    has_news: bool,
    last_heard: Option<Instant>,
    newest_end: Option<Timestamp>,
    /// The earliest end among the events of this turn.
    oldest_end: Option<Timestamp>,
}

impl Watched {
    /// Losses that are kept.
    const MOST_LOSSES: usize = 1000;

    pub(super) fn new(engine: Engine) -> Self {
        Self {
            engine,
            predictions: Vec::new(),
            tally: Tally::default(),
            losses: Vec::new(),
            recent: Recent::default(),
            clock: Clock::default(),
            n_replaced: 0,
            may_begin_anew: false,
            began_anew: false,
            has_news: false,
            last_heard: None,
            newest_end: None,
            oldest_end: None,
        }
    }

    /// Takes note of what time it is, after a turn.
    pub(super) fn time_passed(&mut self, unix_s: f64, origin_unix_s: Option<f64>, is_over: bool) {
        let of_turn = self.oldest_end.take().zip(self.newest_end);
        let ends_s = of_turn.map(|(oldest, newest)| (oldest.as_secs(), newest.as_secs()));
        let is_news = std::mem::take(&mut self.has_news);
        self.clock.time_passed(unix_s, origin_unix_s, ends_s.filter(|_| is_news));
        if !is_over
            && let Some(certain_s) = self.clock.certain_s()
            && let Some(certain) = Timestamp::from_secs_since_start(certain_s)
        {
            self.predictions.extend(self.engine.advance_to(certain));
        }
    }

    /// Whether events have come since the time was last told.
    pub(super) fn has_news(&self) -> bool {
        self.has_news
    }

    /// When an event was last heard of.
    pub(super) fn last_heard(&self) -> Option<Instant> {
        self.last_heard
    }

    /// Says whether another run has begun since this was last asked, told how often files were replaced.
    pub(super) fn is_new_file(&mut self, n_replaced: u64) -> bool {
        self.may_begin_anew |= n_replaced > self.n_replaced;
        self.n_replaced = n_replaced;
        std::mem::take(&mut self.began_anew)
    }

    /// Whether data waits to be evaluated until no more of it comes.
    pub(super) fn is_owed(&self) -> bool {
        self.engine.is_owed()
    }

    /// No more data comes for now.
    pub(super) fn pause(&mut self) {
        self.predictions.extend(self.engine.pause());
    }

    /// Asks for a last prediction.
    pub fn last_word(&mut self) {
        self.predictions.extend(self.engine.last_word());
    }

    /// The predictions since this was last asked.
    pub fn take_predictions(&mut self) -> Vec<Prediction> {
        std::mem::take(&mut self.predictions)
    }

    /// Returns the sums over what was seen.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Returns the losses: those of the source, and data that did not count.
    pub fn losses(&self) -> Vec<Loss> {
        self.losses.iter().cloned().chain(self.engine.losses()).collect()
    }

    /// When the trace's clock began, in Unix time.
    pub fn origin_unix_s(&self) -> Option<f64> {
        self.clock.origin_unix_s
    }

    /// Now, on the trace's clock.
    pub fn now_s(&self) -> f64 {
        self.clock.now_s
    }

    /// The bandwidth up to now in so many columns, and how long that is.
    pub fn recent(&self, n_columns: usize, period_s: Option<f64>) -> (Vec<f64>, f64) {
        let span_s = period_s.map_or(60.0, |period_s| (8.0 * period_s).clamp(10.0, Recent::LENGTH_S));
        (self.recent.columns(self.clock.now_s, span_s, n_columns), span_s)
    }

    fn begin_anew(&mut self) {
        self.engine.begin_anew();
        self.recent = Recent::default();
        self.clock = Clock::default();
        (self.newest_end, self.oldest_end) = (None, None);
        self.began_anew = true;
    }
}

impl EventSink for Watched {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        if std::mem::take(&mut self.may_begin_anew)
            && self.newest_end.is_some_and(|newest| event.start < newest)
        {
            self.begin_anew();
        }
        self.tally.add(&event);
        if !std::mem::replace(&mut self.has_news, true) {
            self.last_heard = Some(Instant::now());
        }
        if event.op.moves_data() {
            self.recent.add(&event);
        }
        let n_ahead = self.engine.n_ahead();
        self.predictions.extend(self.engine.push_event(&event));
        // What may have a wrong clock does not tell the time.
        if self.engine.n_ahead() <= n_ahead {
            self.newest_end = Some(self.newest_end.map_or(event.end, |newest| newest.max(event.end)));
            self.oldest_end = Some(self.oldest_end.map_or(event.end, |oldest| oldest.min(event.end)));
        }
        ControlFlow::Continue(())
    }

    fn loss(&mut self, loss: Loss) {
        if self.losses.len() < Self::MOST_LOSSES {
            self.losses.push(loss);
        }
    }

    fn async_event(&mut self, event: Event, _: iotide_trace::Timestamp) -> ControlFlow<()> {
        self.event(event)
    }

    fn time_spent(&mut self, _: iotide_trace::TimeSpent) {}

    fn access_facts(&mut self, _: &iotide_trace::AccessFacts) {}
}

/// Time on the trace's clock, and the time up to which all has come.
#[derive(Default)]
struct Clock {
    /// When the trace's clock began: as the source says, or as late as the events allow.
    origin_unix_s: Option<f64>,
    now_s: f64,
    /// How late the events of the last turns came.
    delays_s: VecDeque<f64>,
    n_turns: u64,
}

impl Clock {
    /// How many turns with news are looked back at.
    const TURNS: usize = 16;
    /// Time that data may be under way although nothing was ever that late, in seconds.
    const SLACK_S: f64 = 0.2;

    fn time_passed(&mut self, unix_s: f64, stated: Option<f64>, ends_s: Option<(f64, f64)>) {
        // Nothing is seen before it happened, so the clock cannot have begun later than this.
        let at_most = ends_s.map(|(_, newest_s)| unix_s - newest_s);
        let known = [self.origin_unix_s, at_most].into_iter().flatten().reduce(f64::min);
        self.origin_unix_s = stated.or(known);
        let Some(origin_s) = self.origin_unix_s else { return };
        self.now_s = unix_s - origin_s;
        if let Some((oldest_s, _)) = ends_s {
            self.n_turns += 1;
            // The first turn catches up with the past: that is no delay.
            if self.n_turns > 1 {
                self.delays_s.push_back(self.now_s - oldest_s);
                self.delays_s.drain(..self.delays_s.len().saturating_sub(Self::TURNS));
            }
        }
    }

    /// Up to when silence is silence: data come late, because tracers buffer, and from now on no later than of late.
    fn certain_s(&self) -> Option<f64> {
        let latest = self.delays_s.iter().copied().reduce(f64::max)?;
        Some(self.now_s - 1.25 * latest - Self::SLACK_S)
    }
}

/// The bandwidth of the last hour, in even bins.
struct Recent {
    /// The number of the first bin since the clock's zero.
    first: i64,
    bytes: VecDeque<f64>,
}

impl Default for Recent {
    fn default() -> Self {
        Self { first: i64::MIN, bytes: VecDeque::new() }
    }
}

impl Recent {
    const BIN_S: f64 = 0.05;
    const LENGTH_S: f64 = 3600.0;
    const MOST_BINS: i64 = (Self::LENGTH_S / Self::BIN_S) as i64;

    fn add(&mut self, event: &Event) {
        let (start, end) = (event.start.as_secs() / Self::BIN_S, event.end.as_secs() / Self::BIN_S);
        let (first, last) = (start.floor() as i64, (end.ceil() as i64 - 1).max(start.floor() as i64));
        if self.bytes.is_empty() {
            self.first = first.max(last - Self::MOST_BINS + 1);
        }
        let n_bins = last - self.first + 1;
        if n_bins > self.bytes.len() as i64 {
            let n_old = (n_bins - Self::MOST_BINS).max(0);
            self.bytes.drain(..self.bytes.len().min(n_old as usize));
            self.first += n_old;
            self.bytes.resize((last - self.first + 1) as usize, 0.0);
        }
        for bin in first.max(self.first)..=last {
            let share = overlap((start, end), (bin as f64, bin as f64 + 1.0));
            if let Some(bytes) = self.bytes.get_mut((bin - self.first) as usize) {
                *bytes += share * event.bytes;
            }
        }
    }

    /// The mean rates of `n` even stretches of the last `span_s` seconds.
    fn columns(&self, now_s: f64, span_s: f64, n: usize) -> Vec<f64> {
        let width_s = span_s / n as f64;
        let mut columns = vec![0.0; n];
        let begin_s = now_s - span_s;
        let skipped = ((begin_s / Self::BIN_S).floor() as i64).saturating_sub(self.first).max(0) as usize;
        for (i, bytes) in self.bytes.iter().enumerate().skip(skipped) {
            let start = ((self.first + i as i64) as f64 * Self::BIN_S - begin_s) / width_s;
            let bin = (start, start + Self::BIN_S / width_s);
            let (first, last) = (bin.0.floor().max(0.0) as usize, bin.1.ceil().max(0.0) as usize);
            for (column, sum) in columns.iter_mut().enumerate().take(last).skip(first) {
                *sum += overlap(bin, (column as f64, column as f64 + 1.0)) * bytes / width_s;
            }
        }
        columns
    }
}

/// Which share of a stretch lies in a window; all of a stretch without length.
fn overlap(stretch: (f64, f64), window: (f64, f64)) -> f64 {
    let length = stretch.1 - stretch.0;
    if length <= 0.0 {
        return 1.0;
    }
    (stretch.1.min(window.1) - stretch.0.max(window.0)).max(0.0) / length
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_trace::{Op, Rank};

    fn write(start_s: f64, end_s: f64, bytes: f64) -> Event {
        let at = |s| Timestamp::from_secs_since_start(s).unwrap();
        Event::data(Op::Write, Rank(0), at(start_s), at(end_s), bytes)
    }

    #[test]
    fn the_recent_past_keeps_its_volume_and_forgets_the_rest() {
        let mut recent = Recent::default();
        recent.add(&write(0.0, 0.5, 100.0));
        recent.add(&write(9.0, 9.9, 50.0));
        let columns = recent.columns(10.0, 10.0, 20);
        assert!((columns.iter().sum::<f64>() * 0.5 - 150.0).abs() < 1e-9, "{columns:?}");
        recent.add(&write(3605.0, 3605.0, 7.0));
        assert!(recent.bytes.len() <= Recent::MOST_BINS as usize);
        assert!(
            (recent.bytes.iter().sum::<f64>() - 57.0).abs() < 1e-9,
            "{}",
            recent.bytes.iter().sum::<f64>()
        );
        recent.add(&write(1.0, 1e6, 1.0));
        assert!(recent.bytes.len() <= Recent::MOST_BINS as usize);
    }

    #[test]
    fn silence_is_believed_only_as_far_back_as_data_come_late() {
        let mut clock = Clock::default();
        assert_eq!(clock.certain_s(), None);
        clock.time_passed(1000.0, None, Some((0.0, 10.0))); // catching up
        assert_eq!((clock.origin_unix_s, clock.now_s, clock.certain_s()), (Some(990.0), 10.0, None));
        clock.time_passed(1005.0, None, Some((13.0, 14.0)));
        assert_eq!(clock.now_s, 15.0);
        assert_eq!(clock.certain_s(), Some(15.0 - 2.5 - 0.2));
        clock.time_passed(1010.0, None, None);
        assert_eq!(clock.certain_s(), Some(20.0 - 2.5 - 0.2));
    }
}
