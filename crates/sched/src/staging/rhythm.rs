//! Activity of the job, and whether it matches the forecast.

use super::controller::Basis;
use super::forecast::Forecast;
use super::settings::Settings;
use crate::{LEAST_CONFIDENCE, LOST_AFTER_PERIODS};

/// After so many false alarms in a row nobody waits for phases any more, until one comes as expected.
const MOST_FALSE_ALARMS: u32 = 2;
/// Share of a phase's bytes below which a burst is not a phase.
const LEAST_OF_A_PHASE: f64 = 0.1;

/// The job's I/O so far, next to what is expected.
#[derive(Clone, Debug, Default)]
pub(super) struct Rhythm {
    forecast: Option<Expected>,
    /// Whether there was a forecast once.
    had_forecast: bool,
    burst: Option<Burst>,
    /// Whether anybody counts what the job moves. Without that, all that it does may be a phase.
    is_counted: bool,
    /// Data is held back for a phase that should come, until then at most.
    alarm_until_s: Option<f64>,
    n_false_alarms: u32,
}

/// A forecast, brought up to date by the phases that came since.
#[derive(Clone, Copy, Debug)]
struct Expected {
    forecast: Forecast,
    /// The next phase begins in here.
    interval_s: (f64, f64),
}

/// A stretch of the job's I/O.
#[derive(Clone, Copy, Debug)]
pub(super) struct Burst {
    pub(super) start_s: f64,
    pub(super) last_s: f64,
    pub(super) bytes: f64,
    /// Whether it counts as a phase.
    is_phase: bool,
}

impl Rhythm {
    /// A forecast has come; `None` says that there is no rhythm, or that predictions are lost.
    pub(super) fn forecast(&mut self, now_s: f64, forecast: Option<Forecast>) {
        let Some(forecast) = forecast.filter(Forecast::is_possible) else {
            self.forecast = None;
            self.end_in_vain();
            return;
        };
        self.had_forecast = true;
        // An early phase costs one chunk, a gap that is all waited through costs everything.
        let margin_s = forecast.gap_s() / 4.0;
        let interval_s = (
            forecast.start_interval_s.0.max(forecast.start_s - margin_s),
            forecast.start_interval_s.1.min(forecast.start_s + forecast.period_s),
        );
        let mut expected = Expected { forecast, interval_s };
        // A forecast that took its time to get here may be of a phase that has come meanwhile.
        if let Some(burst) = self.burst.filter(|burst| burst.is_phase && burst.start_s > forecast.at_s)
            && expected.is_as_told(burst.start_s)
        {
            expected.expect_after(burst.start_s);
        }
        expected.roll_to(now_s);
        self.forecast = Some(expected);
        if expected.interval_s.0 > now_s + forecast.period_s / 8.0 {
            self.end_in_vain();
        }
    }

    /// The phase that was waited for, if any, is not expected any more.
    fn end_in_vain(&mut self) {
        if self.alarm_until_s.take().is_some() {
            self.n_false_alarms = self.n_false_alarms.saturating_add(1);
        }
    }

    /// The job moved something.
    pub(super) fn activity(&mut self, now_s: f64, bytes: f64, settings: &Settings) {
        let apart_s = match &self.forecast {
            Some(Expected { forecast, .. }) => {
                (forecast.gap_s() / 4.0).min(forecast.period_s / 8.0).max(settings.recent_s)
            }
            None => settings.quiet_s,
        };
        self.is_counted |= bytes > 0.0;
        let forecast = self.forecast.filter(|_| self.is_counted);
        let least_bytes = forecast.map_or(0.0, |expected| LEAST_OF_A_PHASE * expected.forecast.bytes);
        let burst = match &mut self.burst {
            Some(burst) if now_s - burst.last_s <= apart_s => burst,
            _ => self.burst.insert(Burst { start_s: now_s, last_s: now_s, bytes: 0.0, is_phase: false }),
        };
        burst.last_s = burst.last_s.max(now_s);
        burst.bytes += bytes.max(0.0);
        if burst.is_phase || burst.bytes < least_bytes {
            return;
        }
        burst.is_phase = true;
        let start_s = burst.start_s;
        self.alarm_until_s = None;
        if let Some(expected) = &mut self.forecast {
            if expected.is_as_told(start_s) {
                self.n_false_alarms = 0;
            }
            expected.expect_after(start_s);
        }
    }

    /// When the job last moved something.
    pub(super) fn last_activity_s(&self) -> Option<f64> {
        self.burst.map(|burst| burst.last_s)
    }

    /// The phase that goes on, if one does.
    pub(super) fn phase(&self, now_s: f64, recent_s: f64) -> Option<Burst> {
        self.burst.filter(|burst| burst.is_phase && now_s - burst.last_s < recent_s)
    }

    /// Returns the basis of decisions.
    pub(super) fn basis(&self, now_s: f64) -> Basis {
        match &self.forecast {
            None if self.had_forecast => Basis::Lost,
            None => Basis::Activity,
            Some(expected) if expected.is_lost(now_s) => Basis::Lost,
            Some(_) if self.n_false_alarms >= MOST_FALSE_ALARMS => Basis::Wrong,
            Some(expected) if expected.forecast.confidence < LEAST_CONFIDENCE => Basis::Uncertain,
            Some(_) => Basis::Predictions,
        }
    }

    /// Returns the forecast that is relied on, and when the next phase begins.
    pub(super) fn expected(&self, now_s: f64) -> Option<(Forecast, (f64, f64))> {
        let expected = self.forecast.filter(|_| self.basis(now_s) == Basis::Predictions)?;
        Some((expected.forecast, expected.interval_s))
    }

    /// Until when to hold data back for a phase that should come about now.
    pub(super) fn alarm(&mut self, now_s: f64, margin_s: f64) -> Option<f64> {
        if self.alarm_until_s.is_some_and(|until_s| now_s >= until_s) {
            self.end_in_vain();
            if let Some(expected) = &mut self.forecast {
                expected.roll_past(now_s);
            }
        }
        let Some((forecast, interval_s)) = self.expected(now_s) else {
            self.alarm_until_s = None;
            return None;
        };
        if self.alarm_until_s.is_none() && now_s >= interval_s.0 - margin_s {
            let until_s = interval_s.1 + forecast.period_s / 4.0;
            if now_s < until_s {
                self.alarm_until_s = Some(until_s);
            } else if let Some(expected) = &mut self.forecast {
                // Nobody asked while it should have come.
                expected.roll_past(now_s);
            }
        }
        self.alarm_until_s
    }
}

impl Expected {
    /// Whether a phase that began then is the one that was expected, or the one before that.
    fn is_as_told(&self, start_s: f64) -> bool {
        let slack_s = self.forecast.period_s / 4.0;
        let (from_s, to_s) = self.interval_s;
        from_s - slack_s <= start_s && start_s <= to_s + slack_s
    }

    /// A phase began; the next one follows a period later.
    fn expect_after(&mut self, start_s: f64) {
        let forecast = &self.forecast;
        let (from_s, to_s) = self.interval_s;
        let half_s = (to_s - from_s) / 2.0;
        let next_s = start_s + forecast.period_s;
        self.interval_s = (next_s - half_s.min(forecast.gap_s() / 4.0), next_s + half_s);
    }

    /// Goes on to the first phase that can still come.
    fn roll_to(&mut self, now_s: f64) {
        let late_s = now_s - (self.interval_s.1 + self.forecast.period_s / 4.0);
        if late_s > 0.0 {
            self.roll_by((late_s / self.forecast.period_s).ceil());
        }
    }

    /// Goes on to the first phase that is not expected yet.
    fn roll_past(&mut self, now_s: f64) {
        let late_s = now_s - self.interval_s.0;
        if late_s >= 0.0 {
            self.roll_by((late_s / self.forecast.period_s).floor() + 1.0);
        }
    }

    fn roll_by(&mut self, n_periods: f64) {
        let by_s = n_periods * self.forecast.period_s;
        self.interval_s = (self.interval_s.0 + by_s, self.interval_s.1 + by_s);
    }

    fn is_lost(&self, now_s: f64) -> bool {
        let forecast = &self.forecast;
        now_s - forecast.at_s.max(forecast.start_s) > LOST_AFTER_PERIODS * forecast.period_s
    }
}
