//! Answers of the engine about a trace, and the comparison of two answers.

use iotide_analysis::{
    PeriodEstimate, Phase, Reason, Rhythm, RunAnalysis, RunConfig, RunError, Verdict, analyse_run,
};
use iotide_trace::{Direction, StepSignal};

use crate::score::relative_error;
use crate::synthetic::change::Scale;
use crate::synthetic::trace::Trace;

/// An answer: of which bytes, and what.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// Which bytes were looked at; `None` if there is no answer.
    pub direction: Option<Direction>,
    pub estimate: PeriodEstimate,
    /// Why there is no answer.
    pub error: Option<RunError>,
}

/// Asks for the rhythm of a trace.
pub fn ask(trace: &Trace) -> Answer {
    ask_with(&trace.signals(), &RunConfig::default())
}

/// Asks for the rhythm of reads and writes.
pub fn ask_with((reads, writes): &(StepSignal, StepSignal), config: &RunConfig) -> Answer {
    match analyse_run(reads, writes, config) {
        Ok(RunAnalysis { direction, estimate, .. }) => {
            Answer { direction: Some(direction), estimate, error: None }
        }
        Err(error) => Answer { direction: None, estimate: PeriodEstimate::default(), error: Some(error) },
    }
}

impl Answer {
    pub fn is_periodic(&self) -> bool {
        self.estimate.verdict == Verdict::Periodic
    }

    pub fn headline(&self) -> Option<&Rhythm> {
        self.estimate.rhythms.first()
    }

    /// Whether the headline's beat is `beat_s`, or why not.
    pub fn has_headline(&self, beat_s: f64, tolerance: f64) -> Result<&Rhythm, String> {
        let Some(rhythm) = self.headline().filter(|_| self.is_periodic()) else {
            return Err(format!("no rhythm where the beat is {}", seconds(beat_s)));
        };
        if relative_error(rhythm.period_s, beat_s) > tolerance {
            return Err(format!("{} where the beat is {}", seconds(rhythm.period_s), seconds(beat_s)));
        }
        Ok(rhythm)
    }

    /// Whether one of the beats is `beat_s`, or that it is not.
    pub fn has_beat(&self, beat_s: f64, tolerance: f64) -> Result<(), String> {
        let near = |rhythm: &Rhythm| relative_error(rhythm.period_s, beat_s) <= tolerance;
        if self.is_periodic() && self.estimate.rhythms.iter().any(near) {
            return Ok(());
        }
        Err(format!("the beat of {} is not found", seconds(beat_s)))
    }

    /// The answer in one line.
    pub fn describe(&self) -> String {
        if let Some(error) = self.error {
            return format!("error: {error}");
        }
        let estimate = &self.estimate;
        let verdict = match (estimate.verdict, estimate.reason) {
            (Verdict::Periodic, _) => "periodic".to_owned(),
            (Verdict::NotPeriodic, _) => "not periodic".to_owned(),
            (Verdict::Unclear, reason) => format!("unclear ({})", reason.map_or("no reason", name_of)),
        };
        let rhythms: Vec<String> = estimate.rhythms.iter().map(describe_rhythm).collect();
        let candidates: Vec<String> = estimate
            .candidates
            .iter()
            .take(4)
            .map(|candidate| format!("{} ({:.3})", seconds(candidate.period_s), candidate.confidence))
            .collect();
        let listed = if rhythms.is_empty() { String::new() } else { format!(": {}", rhythms.join("; ")) };
        let considered = if candidates.is_empty() {
            String::new()
        } else {
            format!(" [considered {}]", candidates.join(", "))
        };
        format!("{verdict}, {:.4}{listed}{considered}", estimate.confidence)
    }
}

fn name_of(reason: Reason) -> &'static str {
    match reason {
        Reason::TooFewPhases => "too few phases",
        Reason::TooCoarse => "too coarse",
        Reason::MixedEvidence => "mixed evidence",
        Reason::PoorSamples => "poor samples",
        Reason::Loop => "a loop of requests",
    }
}

fn describe_rhythm(rhythm: &Rhythm) -> String {
    format!(
        "{} × {} (mean {}, spread {:.3}, {} missed, {:.4e} B, {} to {}, {:.3})",
        seconds(rhythm.period_s),
        rhythm.phases.len(),
        seconds(rhythm.mean_distance_s),
        rhythm.spread,
        rhythm.missed,
        rhythm.bytes,
        seconds(rhythm.start_s),
        seconds(rhythm.end_s),
        rhythm.confidence,
    )
}

/// A time with five digits.
pub fn seconds(secs: f64) -> String {
    let (value, unit) = match secs.abs() {
        x if x >= 1.0 || x == 0.0 => (secs, "s"),
        x if x >= 1e-3 => (secs * 1e3, "ms"),
        x if x >= 1e-6 => (secs * 1e6, "µs"),
        _ => (secs * 1e9, "ns"),
    };
    let digits = (4 - value.abs().max(1.0).log10().floor() as i32).max(0) as usize;
    format!("{value:.digits$} {unit}")
}

/// How far answers may differ that should be the same.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Beats and bytes, relative.
    pub beat: f64,
    /// Starts of phases, in beats.
    pub start: f64,
    pub confidence: f64,
}

/// For the same bytes at the same times: rounding alone.
pub const ROUNDING: Tolerance = Tolerance { beat: 1e-3, start: 1e-2, confidence: 0.01 };

/// For the same run seen more or less finely.
pub const SAMPLING: Tolerance = Tolerance { beat: 1e-2, start: 5e-2, confidence: 0.02 };

/// Whether `after` is `before` but for scale, or the first difference.
pub fn same(before: &Answer, after: &Answer, scale: &Scale, tolerance: &Tolerance) -> Result<(), String> {
    let kind = |answer: &Answer| answer.error.map(|error| std::mem::discriminant(&error));
    if kind(before) != kind(after) {
        return Err("one has an answer and the other has none".to_owned());
    }
    if before.direction != after.direction {
        return Err(format!("{:?} looked at, then {:?}", before.direction, after.direction));
    }
    let (one, two) = (&before.estimate, &after.estimate);
    if one.verdict != two.verdict {
        return Err(format!("{:?}, then {:?}", one.verdict, two.verdict));
    }
    if one.reason != two.reason {
        return Err(format!("{:?}, then {:?}", one.reason, two.reason));
    }
    if (one.confidence - two.confidence).abs() > tolerance.confidence {
        return Err(format!("confidence {:.4}, then {:.4}", one.confidence, two.confidence));
    }
    if one.rhythms.len() != two.rhythms.len() {
        return Err(format!("{} rhythms, then {}", one.rhythms.len(), two.rhythms.len()));
    }
    for (one, two) in one.rhythms.iter().zip(&two.rhythms) {
        same_rhythm(one, two, scale, tolerance)?;
    }
    Ok(())
}

fn same_rhythm(one: &Rhythm, two: &Rhythm, scale: &Scale, tolerance: &Tolerance) -> Result<(), String> {
    let expected_s = one.period_s * scale.time;
    if relative_error(two.period_s, expected_s) > tolerance.beat {
        return Err(format!(
            "a beat of {} where {} was expected",
            seconds(two.period_s),
            seconds(expected_s)
        ));
    }
    if one.missed != two.missed {
        return Err(format!("{} missed beats, then {}", one.missed, two.missed));
    }
    if one.phases.len() != two.phases.len() {
        return Err(format!(
            "{} phases of {}, then {}",
            one.phases.len(),
            seconds(one.period_s),
            two.phases.len()
        ));
    }
    if (two.bytes - one.bytes * scale.bytes).abs() > tolerance.beat * one.bytes * scale.bytes {
        return Err(format!("{:e} bytes where {:e} were expected", two.bytes, one.bytes * scale.bytes));
    }
    for (i, (one, two)) in one.phases.iter().zip(&two.phases).enumerate() {
        same_phase(i, one, two, expected_s, scale, tolerance)?;
    }
    Ok(())
}

fn same_phase(
    i: usize,
    one: &Phase,
    two: &Phase,
    beat_s: f64,
    scale: &Scale,
    tolerance: &Tolerance,
) -> Result<(), String> {
    for (what, before_s, after_s) in [("begins", one.start_s, two.start_s), ("ends", one.end_s, two.end_s)] {
        let expected_s = before_s * scale.time + scale.shift_s;
        // Seconds since 1970 are known to a quarter of a microsecond.
        let known_s = 2.0 * f64::EPSILON * expected_s.abs();
        if (after_s - expected_s).abs() > tolerance.start * beat_s + known_s {
            return Err(format!(
                "phase {i} {what} at {} where {} was expected",
                seconds(after_s),
                seconds(expected_s)
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::change::SAME;

    fn answer(beat_s: f64, n: usize, confidence: f64) -> Answer {
        let phases: Vec<Phase> = (0..n)
            .map(|i| Phase { start_s: i as f64 * beat_s, end_s: (i as f64 + 0.1) * beat_s, bytes: 1e6 })
            .collect();
        let rhythm = Rhythm {
            period_s: beat_s,
            mean_distance_s: beat_s,
            bytes: n as f64 * 1e6,
            confidence,
            end_s: phases[n - 1].end_s,
            phases: phases.clone(),
            ..Rhythm::default()
        };
        let estimate = PeriodEstimate {
            verdict: Verdict::Periodic,
            period_s: Some(beat_s),
            confidence,
            rhythms: vec![rhythm],
            phases,
            ..PeriodEstimate::default()
        };
        Answer { direction: Some(Direction::Write), estimate, error: None }
    }

    #[test]
    fn an_answer_is_the_same_as_itself_scaled() {
        let (one, ten) = (answer(2.0, 10, 0.99), answer(20.0, 10, 0.99));
        same(&one, &one, &SAME, &ROUNDING).unwrap();
        same(&one, &ten, &Scale { time: 10.0, ..SAME }, &ROUNDING).unwrap();
    }

    #[test]
    fn every_kind_of_difference_is_seen() {
        let one = answer(2.0, 10, 0.99);
        let differs = |other: &Answer, scale: &Scale| same(&one, other, scale, &ROUNDING).unwrap_err();
        assert_eq!(differs(&answer(2.01, 10, 0.99), &SAME), "a beat of 2.0100 s where 2.0000 s was expected");
        assert_eq!(differs(&answer(2.0, 11, 0.99), &SAME), "10 phases of 2.0000 s, then 11");
        assert_eq!(differs(&answer(2.0, 10, 0.9), &SAME), "confidence 0.9900, then 0.9000");
        let none = Answer {
            estimate: PeriodEstimate { verdict: Verdict::NotPeriodic, ..PeriodEstimate::default() },
            ..one.clone()
        };
        assert_eq!(differs(&none, &SAME), "Periodic, then NotPeriodic");
        assert_eq!(
            differs(&Answer { direction: Some(Direction::Read), ..one.clone() }, &SAME),
            "Some(Write) looked at, then Some(Read)"
        );
        assert!(differs(&one, &Scale { time: 2.0, ..SAME }).contains("4.0000 s was expected"));
        assert!(differs(&one, &Scale { shift_s: 5.0, ..SAME }).contains("phase 0 begins at 0.0000 s"));
        assert!(differs(&one, &Scale { bytes: 3.0, ..SAME }).contains("bytes where"));
        let mut twice = one.clone();
        twice.estimate.rhythms.push(twice.estimate.rhythms[0].clone());
        assert_eq!(differs(&twice, &SAME), "1 rhythms, then 2");
        let mut missed = one.clone();
        missed.estimate.rhythms[0].missed = 1;
        assert_eq!(differs(&missed, &SAME), "0 missed beats, then 1");
        let failed = Answer { error: Some(RunError::OnePhase), ..one.clone() };
        assert_eq!(differs(&failed, &SAME), "one has an answer and the other has none");
    }

    #[test]
    fn a_headline_must_be_the_true_beat() {
        let answer = answer(2.0, 10, 0.99);
        answer.has_headline(2.02, 0.03).unwrap();
        assert_eq!(answer.has_headline(4.0, 0.03).unwrap_err(), "2.0000 s where the beat is 4.0000 s");
        assert_eq!(answer.has_beat(4.0, 0.03).unwrap_err(), "the beat of 4.0000 s is not found");
    }
}
