//! Whether bytes are moved periodically, in which periods, and how busy those are.

use iotide_trace::StepSignal;

use super::{BusyTime, CategoryThresholds, Magnitude, Operation};
use crate::period::{Phase, StatedRun, rhythms_of};

/// A period that holds.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundPeriod {
    /// How long it is.
    pub period_s: f64,
    /// How sure that is, in [0, 1].
    pub confidence: f64,
    /// The share of a period in which bytes are moved.
    pub busy_share: f64,
    /// Bytes its operations move, less those that other periods' operations move at the same time.
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

/// A period and the operations that follow it.
pub(super) type Rhythm = (FoundPeriod, Vec<Operation>);

/// Returns the periods that hold, the one that moves most bytes of its own first, with the operations of each.
///
/// They are those of the rhythm engine, which `iotide detect` asks as well: both name the same periods.
pub(super) fn find(signal: &StepSignal, zero_s: f64, stated: &StatedRun) -> Vec<Rhythm> {
    let Some(span) = signal.span() else { return Vec::new() };
    let member = |phase: &Phase| Operation {
        start_s: phase.start_s - zero_s,
        end_s: phase.end_s - zero_s,
        bytes: phase.bytes,
    };
    rhythms_of(signal, span, stated)
        .rhythms
        .iter()
        .map(|found| {
            let members = found.phases.iter().map(member).collect();
            let (mut period, members) = rhythm(found.period_s, found.confidence, members);
            period.bytes = found.bytes;
            (period, members)
        })
        .collect()
}

pub(super) fn rhythm(period_s: f64, confidence: f64, members: Vec<Operation>) -> Rhythm {
    let busy_s: f64 = members.iter().map(Operation::duration_s).sum();
    let period = FoundPeriod {
        period_s,
        confidence,
        busy_share: (busy_s / members.len() as f64 / period_s).min(1.0),
        bytes: members.iter().map(|member| member.bytes).sum(),
        n_operations: members.len(),
    };
    (period, members)
}

/// Returns the operations as they would be if each beat of a rhythm had gone on until the next.
///
/// Checkpoints every tenth of a run are as steady as checkpoints can be, though most of the run passes between them. So each
/// operation of a rhythm is spread from half a period before it until the next one's share begins; and a rhythm that leaves
/// no room for another beat before its first, or after its last, reaches to that end of the run.
pub(super) fn spread_over_periods(
    stretches: impl Iterator<Item = Operation>,
    rhythms: &[Rhythm],
    run_time_s: f64,
) -> impl Iterator<Item = Operation> {
    let mut beats: Vec<&Operation> = rhythms.iter().flat_map(|(_, members)| members).collect();
    beats.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
    let out_of_rhythm = move |stretch: &Operation| {
        let middle_s = (stretch.start_s + stretch.end_s) / 2.0;
        let n_begun = beats.partition_point(|beat| beat.start_s <= middle_s);
        n_begun == 0 || middle_s > beats[n_begun - 1].end_s
    };
    let mut spread = Vec::new();
    for (period, members) in rhythms {
        let (Some(first), Some(last)) = (members.first(), members.last()) else { continue };
        let half_s = 0.5 * period.period_s;
        let (from_s, to_s) = (first.start_s - half_s, last.start_s + half_s);
        // No longer a wait than it had in between.
        let longest_s = members.windows(2).map(|pair| pair[1].start_s - pair[0].start_s).fold(0.0, f64::max);
        let room_s = (1.0 + BEAT_TOLERANCE) * longest_s.max(period.period_s);
        let start_s = if first.start_s < room_s { 0.0 } else { from_s };
        let end_s = if run_time_s - last.start_s < room_s + last.duration_s() { run_time_s } else { to_s };
        let place = |time_s: f64| start_s + (time_s - from_s) / (to_s - from_s) * (end_s - start_s);
        for (i, member) in members.iter().enumerate() {
            let until_s = members.get(i + 1).map_or(to_s, |next| next.start_s - half_s);
            spread.push(Operation {
                start_s: place(member.start_s - half_s),
                end_s: place(until_s),
                bytes: member.bytes,
            });
        }
    }
    stretches.filter(out_of_rhythm).chain(spread)
}

/// A beat may be late by this share of the period.
const BEAT_TOLERANCE: f64 = 0.1;

#[cfg(test)]
mod tests {
    use iotide_trace::{Overlap, Timestamp};

    use super::*;

    fn at(secs: f64) -> Timestamp {
        Timestamp::from_secs_since_start(secs).unwrap()
    }

    #[test]
    fn phases_that_rise_out_of_a_steady_log_are_found_though_nothing_ever_stops() {
        let mut overlap = Overlap::new();
        overlap.add(at(0.0), at(1000.0), 1e8);
        for i in 0..25 {
            let start_s = 10.0 + 39.0 * f64::from(i);
            overlap.add(at(start_s), at(start_s + 6.0), 1e9);
        }
        let found = find(&overlap.finish(), 0.0, &StatedRun::default());
        assert_eq!(found.len(), 1, "{found:?}");
        assert!((found[0].0.period_s - 39.0).abs() < 0.5);
    }

    #[test]
    fn a_rhythm_that_leaves_no_room_for_another_beat_fills_the_run() {
        let members: Vec<Operation> = [200.0, 450.0, 700.0]
            .map(|start_s| Operation { start_s, end_s: start_s + 30.0, bytes: 1e9 })
            .to_vec();
        let rhythms = [rhythm(250.0, 0.9, members.clone())];
        let spread = |run_time_s: f64| -> Vec<Operation> {
            spread_over_periods(members.iter().copied(), &rhythms, run_time_s).collect()
        };
        let (spread, early) = (spread(980.0), spread(3000.0));
        assert_eq!((spread[0].start_s, spread[2].end_s), (0.0, 980.0));
        assert_eq!((early[0].start_s, early[2].end_s), (0.0, 825.0));
    }

    #[test]
    fn borders_belong_to_the_shorter_magnitude_and_to_what_is_remarkable() {
        let thresholds = CategoryThresholds::default();
        let of = |period_s: f64, busy_share: f64| FoundPeriod {
            period_s,
            confidence: 1.0,
            busy_share,
            bytes: 1.0,
            n_operations: 3,
        };
        let magnitudes = [30.0, 30.1, 1800.0, 1801.0, 43200.0, 43201.0]
            .map(|period_s| of(period_s, 0.5).magnitude(&thresholds));
        use Magnitude::{DayOrMore, Hour, Minute, Second};
        assert_eq!(magnitudes, [Second, Minute, Minute, Hour, Hour, DayOrMore]);
        let busy = [0.25, 0.26, 0.74, 0.75].map(|busy_share| of(1.0, busy_share).busy(&thresholds));
        assert_eq!(busy, [Some(BusyTime::Low), None, None, Some(BusyTime::High)]);
    }
}
