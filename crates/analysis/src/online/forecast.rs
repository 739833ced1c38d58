//! From the phases seen to the next one.
//!
//! A job may keep its distances (compute, then write), keep a timetable (a checkpoint at every tenth minute), or drift.
//! Which of them it does shows in how well each reading would have foretold the phases that came: a handful of simple
//! readings is kept, and the one with the best record so far is believed (Dawid's prequential principle, 1984). The record
//! is also what the interval and the probabilities are made of.

use iotide_num::{mean, median, quantile, student_t_quantile};
use iotide_trace::SampledSignal;

use super::prediction::{IdleGap, NextPhase};
use crate::Phase;

/// Forecast of the next phase from the phases of one rhythm. Times are seconds on the signal's clock.
#[derive(Clone, Debug)]
pub(super) struct Forecast {
    /// From the last start to the next.
    pub period_s: f64,
    /// When the phase after the last one begins, were none missed.
    pub next_start_s: f64,
    /// Half the width of the interval around it.
    pub half_width_s: f64,
    pub duration_s: f64,
    /// Nine of ten phases are shorter.
    pub long_duration_s: f64,
    pub bytes: f64,
    /// Of the last (at most eight) phases, how many came within a quarter of a period of when they should.
    pub n_hits: usize,
    /// … and how many there were.
    pub n_foretold: usize,
}

/// Returns what `phases` (in order, at least two) say of the next one; the last one may be going on until `end_s`. Where the beat is known
/// (`beat_s`), phases that were missed are no longer distances.
pub(super) fn forecast(phases: &[Phase], beat_s: f64, end_s: f64, resolution_s: f64) -> Option<Forecast> {
    let starts = with_missed(phases, beat_s).0;
    let mut best: Option<(Record, Reading)> = None;
    for reading in READINGS {
        let record = Record::of(reading, &starts);
        // A reading that remembers less must be clearly better to be believed.
        if best.as_ref().is_none_or(|(before, _)| record.error < 0.95 * before.error) {
            best = Some((record, reading));
        }
    }
    let (record, reading) = best?;
    let period_s = reading.distance(&starts)?;
    let last = phases.last()?;
    let dof = record.weight + 1.0;
    let half_width = record.error * student_t_quantile(0.5 + NextPhase::INTERVAL_PROBABILITY / 2.0, dof);
    // A phase that reaches the end may not be over.
    let whole = if last.end_s >= end_s - resolution_s { &phases[..phases.len() - 1] } else { phases };
    let recent = &whole[whole.len().saturating_sub(16)..];
    let durations: Vec<f64> = recent.iter().map(|phase| phase.end_s - phase.start_s).collect();
    Some(Forecast {
        period_s,
        next_start_s: last.start_s + period_s,
        half_width_s: (half_width * period_s).max(resolution_s),
        duration_s: median(&durations)?,
        long_duration_s: quantile(&durations, 0.9)?,
        bytes: mean(&recent.iter().map(|phase| phase.bytes).collect::<Vec<_>>()),
        n_hits: record.n_hits,
        n_foretold: record.n_foretold,
    })
}

impl Forecast {
    /// The next `n` gaps between phases, from `at_s` on, with how often such a gap was silent so far.
    pub(super) fn gaps(
        &self,
        phases: &[Phase],
        signal: &SampledSignal,
        at_s: f64,
        confidence: f64,
        n: usize,
    ) -> Vec<IdleGap> {
        let Some(last) = phases.last() else { return Vec::new() };
        let is_over = last.end_s < at_s;
        let claim =
            |start_s: f64, next_s: f64, spread: f64| (start_s + self.long_duration_s, next_s - spread);
        let (mut kept, mut seen) = (0u32, 0u32);
        for pair in phases.windows(2).rev().take(12) {
            let (from_s, to_s) = claim(pair[0].start_s, pair[0].start_s + self.period_s, self.half_width_s);
            if from_s < to_s {
                seen += 1;
                kept += u32::from(volume_within(signal, from_s, to_s) < SILENT * self.bytes);
            }
        }
        let silent = (f64::from(kept) + 1.0) / (f64::from(seen) + 2.0);
        (0..n)
            .filter_map(|i| {
                let shift_s = i as f64 * self.period_s;
                let spread_s = self.half_width_s * (i as f64 + 1.0).sqrt();
                let next_s = self.next_start_s.max(at_s) + shift_s;
                let (mut start_s, end_s) = claim(next_s - self.period_s, next_s, spread_s);
                if i == 0 {
                    start_s = if is_over { at_s } else { start_s.max(at_s) };
                }
                let probability = confidence * silent.powi(i as i32 + 1);
                (end_s > start_s).then_some(IdleGap { start_s, end_s, probability })
            })
            .collect()
    }
}

/// A gap in which less than this share of a phase's bytes moves is silent.
const SILENT: f64 = 0.01;

/// Returns the bytes moved between two times, whole bins only: the edges of phases lie within bins.
pub(super) fn volume_within(signal: &SampledSignal, from_s: f64, to_s: f64) -> f64 {
    let index =
        |time_s: f64| ((time_s - signal.start_s) * signal.rate_hz).clamp(0.0, signal.values.len() as f64);
    let (from, to) = (index(from_s).ceil() as usize, index(to_s).floor() as usize);
    signal.values.get(from..to).map_or(0.0, |values| values.iter().sum::<f64>() / signal.rate_hz)
}

/// How far a distance may be from a whole number of beats, as a logarithm, to be so many beats.
const WHOLE_BEATS: f64 = 0.1;
/// So many beats in a row may be missed; more is a pause.
const MOST_MISSED: f64 = 3.0;

/// Returns the starts, with those of missed beats put in between, and how many those are.
///
/// That a beat was missed shows when the next one comes: a long distance between usual ones. Two long ones in a row may as well be another
/// beat, and are taken for it, unless the job has missed single beats before.
pub(super) fn with_missed(phases: &[Phase], beat_s: f64) -> (Vec<f64>, usize) {
    let beats = |i: usize| {
        let ratio = (phases[i].start_s - phases[i - 1].start_s) / beat_s;
        let whole = ratio.round();
        ((1.0..=MOST_MISSED + 1.0).contains(&whole) && (ratio / whole).ln().abs() < WHOLE_BEATS)
            .then_some(whole as usize)
    };
    let n = phases.len();
    let mut starts = Vec::with_capacity(n);
    let (mut n_missed, mut has_missed) = (0, false);
    for i in 0..n {
        if i > 0
            && let Some(n_beats) = beats(i).filter(|&n_beats| n_beats > 1)
        {
            let is_single = i + 1 < n && beats(i + 1) == Some(1) && (i == 1 || beats(i - 1) == Some(1));
            has_missed |= is_single;
            if has_missed {
                let (from_s, to_s) = (phases[i - 1].start_s, phases[i].start_s);
                starts.extend((1..n_beats).map(|k| from_s + (to_s - from_s) * k as f64 / n_beats as f64));
                n_missed += n_beats - 1;
            }
        }
        starts.push(phases[i].start_s);
    }
    (starts, n_missed)
}

/// A way to tell the next distance from the past starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reading {
    /// The mean of the last so many distances.
    Mean(usize),
    /// A timetable: the line through the last so many starts.
    Line(usize),
    /// A drift: the line through the last so many distances.
    Drift(usize),
}

/// Those with the longest memory first.
const READINGS: [Reading; 7] = [
    Reading::Mean(24),
    Reading::Line(16),
    Reading::Mean(8),
    Reading::Line(6),
    Reading::Mean(4),
    Reading::Drift(6),
    Reading::Mean(2),
];

/// Reading by which changes are found.
pub(super) const SHORT_MEMORY: Reading = Reading::Mean(4);

/// A distance that differs from the typical by more than this factor is a pause or an accident, and tells nothing.
const SAME_DISTANCE: f64 = 1.6;

impl Reading {
    /// The distance from the last of `starts` to the next start.
    pub(super) fn distance(self, starts: &[f64]) -> Option<f64> {
        let n = starts.len();
        let memory = match self {
            Self::Mean(memory) | Self::Line(memory) | Self::Drift(memory) => memory,
        };
        let distances: Vec<f64> =
            starts[n.saturating_sub(memory + 1)..].windows(2).map(|pair| pair[1] - pair[0]).collect();
        let typical = typical_distance(starts)?;
        let usual = |distance: f64| (distance / typical).ln().abs() < SAME_DISTANCE.ln();
        let plain: Vec<f64> = distances.iter().copied().filter(|&distance| usual(distance)).collect();
        // Since the last pause, for readings that need an unbroken row.
        let n_unbroken = distances.iter().rev().take_while(|&&distance| usual(distance)).count();
        let found = match self {
            Self::Line(_) if n_unbroken >= 3 => {
                let row = &starts[n - n_unbroken - 1..];
                let (slope, at_last) = line(row);
                at_last + slope - row[row.len() - 1]
            }
            Self::Drift(_) if n_unbroken >= 4 => {
                let (slope, at_last) = line(&distances[distances.len() - n_unbroken..]);
                at_last + slope
            }
            _ if plain.is_empty() => typical,
            _ => mean(&plain),
        };
        Some(if usual(found) { found } else { typical })
    }
}

/// The median of the last three distances; of two, the last: the first phase of a job is often held up.
fn typical_distance(starts: &[f64]) -> Option<f64> {
    let distances: Vec<f64> =
        starts[starts.len().saturating_sub(4)..].windows(2).map(|pair| pair[1] - pair[0]).collect();
    let typical = if distances.len() < 3 { distances.last().copied() } else { median(&distances) };
    typical.filter(|&distance| distance > 0.0)
}

/// The slope of the least-squares line through `y` (at 0, 1, 2…), and its value at the last one.
fn line(y: &[f64]) -> (f64, f64) {
    let n = y.len() as f64;
    let (centre, level) = ((n - 1.0) / 2.0, mean(y));
    let (mut xy, mut xx) = (0.0, 0.0);
    for (i, value) in y.iter().enumerate() {
        let x = i as f64 - centre;
        xy += x * (value - level);
        xx += x * x;
    }
    let slope = if xx > 0.0 { xy / xx } else { 0.0 };
    (slope, level + slope * (n - 1.0 - centre))
}

/// How well a reading would have foretold the starts that came.
struct Record {
    /// Root mean square of the errors, in periods; late ones weigh more.
    error: f64,
    /// The sum of the weights.
    weight: f64,
    n_hits: usize,
    n_foretold: usize,
}

/// Factor on the weight of an error for each phase that came after it.
const FORGETTING: f64 = 0.88;
/// Before there is a record: an error of a twentieth, weighing as much as one.
const PRIOR_ERROR: f64 = 0.05;

impl Record {
    fn of(reading: Reading, starts: &[f64]) -> Self {
        let (mut squares, mut weight) = (PRIOR_ERROR * PRIOR_ERROR, 1.0);
        let (mut n_hits, mut n_foretold) = (0, 0);
        for i in 2..starts.len() {
            let Some(distance) = reading.distance(&starts[..i]) else { continue };
            let error = (starts[i] - starts[i - 1] - distance) / distance;
            // A pause is nobody's fault: it counts among the misses, but no reading is judged by it.
            if error.abs() < SAME_DISTANCE {
                squares = FORGETTING * squares + error.clamp(-0.5, 0.5).powi(2);
                weight = FORGETTING * weight + 1.0;
            }
            if i + 8 >= starts.len() {
                n_foretold += 1;
                n_hits += usize::from(error.abs() < 0.25);
            }
        }
        Self { error: (squares / weight).sqrt(), weight, n_hits, n_foretold }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phases(starts: &[f64]) -> Vec<Phase> {
        starts.iter().map(|&start_s| Phase { start_s, end_s: start_s + 2.0, bytes: 1e9 }).collect()
    }

    fn foretold(starts: &[f64]) -> Forecast {
        forecast(&phases(starts), f64::INFINITY, starts[starts.len() - 1] + 5.0, 0.01).unwrap()
    }

    #[test]
    fn even_starts_go_on_evenly() {
        let found = foretold(&[3.0, 13.0, 23.0, 33.0, 43.0, 53.0]);
        assert!((found.next_start_s - 63.0).abs() < 1e-9 && (found.period_s - 10.0).abs() < 1e-9);
        assert!(found.half_width_s < 1.0, "{found:?}");
        assert_eq!((found.n_hits, found.n_foretold), (4, 4));
        assert_eq!((found.duration_s, found.bytes), (2.0, 1e9));
    }

    #[test]
    fn a_pause_does_not_change_the_distance() {
        assert!((foretold(&[0.0, 10.0, 20.0, 30.0, 140.0]).next_start_s - 150.0).abs() < 1e-9);
        assert!((foretold(&[0.0, 10.0, 20.0, 30.0, 140.0, 150.0]).next_start_s - 160.0).abs() < 1e-9);
    }

    #[test]
    fn of_two_distances_that_differ_the_last_counts() {
        assert!((foretold(&[4.1, 20.8, 28.5]).period_s - 7.7).abs() < 1e-9);
    }

    #[test]
    fn a_timetable_is_kept_though_single_phases_are_late() {
        let late = [0.0, 1.5, 0.2, 0.9, 0.0, 1.3, 0.4, 1.6, 0.1, 0.8, 1.9, 0.0, 1.1, 0.3, 1.4, 0.6];
        let starts: Vec<f64> = late.iter().enumerate().map(|(i, late)| 20.0 * i as f64 + late).collect();
        let found = foretold(&starts);
        assert!((found.next_start_s - 320.8).abs() < 0.7, "{found:?}");
    }

    #[test]
    fn distances_that_grow_are_foretold_to_grow() {
        let mut starts = vec![0.0];
        let mut distance = 10.0;
        for _ in 0..20 {
            starts.push(starts[starts.len() - 1] + distance);
            distance *= 1.03;
        }
        let found = foretold(&starts);
        assert!((found.period_s / distance - 1.0).abs() < 0.02, "{} {distance}", found.period_s);
    }

    #[test]
    fn beats_that_were_missed_are_put_in_between() {
        let beats = |starts: &[f64]| with_missed(&phases(starts), 20.0);
        assert_eq!(beats(&[0.0, 20.0, 60.0, 80.0]), (vec![0.0, 20.0, 40.0, 60.0, 80.0], 1));
        // Known to miss some: two long distances in a row are no news, …
        assert_eq!(beats(&[0.0, 20.0, 60.0, 80.0, 120.0, 160.0]).1, 3);
        // … else they are another beat; and a pause is no missed beat.
        assert_eq!(beats(&[0.0, 20.0, 40.0, 80.0, 120.0]).1, 0);
        assert_eq!(beats(&[0.0, 20.0, 320.0, 340.0]).1, 0);
    }

    #[test]
    fn gaps_are_told_with_how_often_they_were_silent() {
        let mut values = vec![0.0; 550];
        for start in (0..6).map(|i| 100 * i) {
            values[start..start + 20].fill(1e8);
        }
        let mut signal = SampledSignal { start_s: 0.0, rate_hz: 10.0, values, duration_s: 55.0 };
        let phases = phases(&[0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
        let found = forecast(&phases, 10.0, 55.0, 0.1).unwrap();
        let gaps = found.gaps(&phases, &signal, 55.0, 1.0, 2);
        assert_eq!(gaps[0].start_s, 55.0);
        assert!(gaps[0].end_s > 58.5 && gaps[0].end_s <= 60.0, "{gaps:?}");
        assert!(gaps[1].start_s >= 62.0 && gaps[1].end_s <= 70.0, "{gaps:?}");
        assert!(gaps[0].probability > 0.8);
        signal.values.iter_mut().for_each(|value| *value += 1e7); // something else is always on
        assert!(found.gaps(&phases, &signal, 55.0, 1.0, 2)[0].probability < 0.2);
    }
}
