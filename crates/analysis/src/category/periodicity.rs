//! Whether bytes are moved periodically, in which periods, and how busy those are.

use iotide_trace::{Direction, StepSignal};

use super::{BusyTime, CategoryConfig, CategoryThresholds, Magnitude, Operation};
use crate::{RunConfig, analyse_run};

/// A period that holds.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundPeriod {
    /// How long it is.
    pub period_s: f64,
    /// How sure that is, in [0, 1].
    pub confidence: f64,
    /// The share of a period in which bytes are moved.
    pub busy_share: f64,
    /// What its operations move together.
    pub bytes: f64,
    /// How many operations it has.
    pub n_operations: usize,
}

impl FoundPeriod {
    /// How long it is, roughly.
    pub fn magnitude(&self, thresholds: &CategoryThresholds) -> Magnitude {
        match self.period_s {
            period_s if period_s <= thresholds.longest_second_s => Magnitude::Second,
            period_s if period_s <= thresholds.longest_minute_s => Magnitude::Minute,
            period_s if period_s <= thresholds.longest_hour_s => Magnitude::Hour,
            _ => Magnitude::DayOrMore,
        }
    }

    /// How busy it is, where that is remarkable.
    pub fn busy(&self, thresholds: &CategoryThresholds) -> Option<BusyTime> {
        if self.busy_share <= thresholds.low_busy_share {
            Some(BusyTime::Low)
        } else if self.busy_share >= thresholds.high_busy_share {
            Some(BusyTime::High)
        } else {
            None
        }
    }
}

pub(super) fn find(
    signal: &StepSignal,
    operations: &[Operation],
    _zero_s: f64,
    _run_time_s: f64,
    config: &CategoryConfig,
) -> Vec<FoundPeriod> {
    if (operations.len() as f64) < config.thresholds.least_operations {
        return Vec::new();
    }
    let duration_s = signal.span().map_or(0.0, iotide_trace::Span::duration_s);
    let run = RunConfig {
        direction: Some(Direction::Write),
        rate_hz: Some(config.thresholds.most_samples / duration_s),
        ..RunConfig::default()
    };
    let Ok(found) = analyse_run(signal, signal, &run) else { return Vec::new() };
    let busy_s: f64 = operations.iter().map(Operation::duration_s).sum();
    let n = found.estimate.phases.len();
    found
        .estimate
        .rhythms
        .iter()
        .map(|rhythm| FoundPeriod {
            period_s: rhythm.period_s,
            confidence: rhythm.confidence,
            busy_share: (busy_s / operations.len() as f64 / rhythm.period_s).min(1.0),
            bytes: rhythm.bytes,
            n_operations: n,
        })
        .collect()
}

pub(super) fn spread_over_periods(
    _signal: &StepSignal,
    stretches: &[Operation],
    _periods: &[FoundPeriod],
    _zero_s: f64,
) -> Vec<Operation> {
    stretches.to_vec()
}
