//! Law 9: what must be true of any answer, whatever the trace.

use iotide_analysis::{PeriodEstimate, Phase, Rhythm, Verdict};

use crate::answer::{Answer, seconds};
use crate::score::relative_error;
use crate::synthetic::trace::Trace;

/// Whether an answer agrees with itself and with the trace, or the first contradiction.
pub fn check(answer: &Answer, trace: &Trace) -> Result<(), String> {
    let estimate = &answer.estimate;
    if answer.error.is_some() {
        return Ok(());
    }
    verdict_fits(estimate)?;
    let (first, last) = trace.span();
    for rhythm in &estimate.rhythms {
        rhythm_fits(rhythm)
            .map_err(|why| format!("{why} (of the rhythm of {})", seconds(rhythm.period_s)))?;
        let slack_s = 1e-6 * (last - first) as f64 * 1e-9 + 0.02 * rhythm.period_s;
        let (first_s, last_s) = (first as f64 * 1e-9 - slack_s, last as f64 * 1e-9 + slack_s);
        if rhythm.phases.iter().any(|phase| phase.start_s < first_s || phase.end_s > last_s) {
            return Err("a phase lies outside the run".to_owned());
        }
    }
    let total: f64 = estimate.rhythms.iter().map(|rhythm| rhythm.bytes).sum();
    if total > 1.01 * trace.bytes() {
        return Err(format!("the rhythms move {total:.4e} bytes, the run {:.4e}", trace.bytes()));
    }
    if let [headline, others @ ..] = estimate.rhythms.as_slice()
        && others.iter().any(|other| other.bytes > headline.bytes * (1.0 + 1e-9))
    {
        return Err("the headline is not the rhythm that moves most bytes".to_owned());
    }
    Ok(())
}

fn verdict_fits(estimate: &PeriodEstimate) -> Result<(), String> {
    let is_periodic = estimate.verdict == Verdict::Periodic;
    if is_periodic != estimate.period_s.is_some() || is_periodic == estimate.rhythms.is_empty() {
        return Err(format!(
            "{:?}, but a period of {:?} and {} rhythms",
            estimate.verdict,
            estimate.period_s,
            estimate.rhythms.len()
        ));
    }
    if (estimate.verdict == Verdict::Unclear) != estimate.reason.is_some() {
        return Err(format!("{:?} with the reason {:?}", estimate.verdict, estimate.reason));
    }
    let confidences = estimate.rhythms.iter().map(|rhythm| rhythm.confidence);
    let confidences = confidences.chain(estimate.candidates.iter().map(|candidate| candidate.confidence));
    if confidences.chain([estimate.confidence]).any(|confidence| !(0.0..=1.0).contains(&confidence)) {
        return Err("a confidence is no probability".to_owned());
    }
    let Some(headline) = estimate.rhythms.first() else { return Ok(()) };
    if estimate.period_s != Some(headline.period_s) {
        return Err(format!("the period is {:?}, the headline {}", estimate.period_s, headline.period_s));
    }
    if estimate.phases != headline.phases {
        return Err(format!(
            "{} phases listed, {} of the headline, or others",
            estimate.phases.len(),
            headline.phases.len()
        ));
    }
    let accepted = |period_s: f64| {
        estimate.rhythms.iter().any(|rhythm| relative_error(rhythm.period_s, period_s) < 0.01)
    };
    for candidate in &estimate.candidates {
        if !accepted(candidate.period_s) && candidate.confidence > estimate.confidence + 1e-9 {
            return Err(format!(
                "{} was rejected with a confidence of {:.4}, above that of the answer, {:.4}",
                seconds(candidate.period_s),
                candidate.confidence,
                estimate.confidence
            ));
        }
    }
    Ok(())
}

fn rhythm_fits(rhythm: &Rhythm) -> Result<(), String> {
    let phases = &rhythm.phases;
    let beat_s = rhythm.period_s;
    if !(beat_s.is_finite() && beat_s > 0.0) {
        return Err("a beat that is no time".to_owned());
    }
    let [first, .., last] = phases.as_slice() else {
        return Err(format!("{} phases", phases.len()));
    };
    let n = phases.len();
    if phases.windows(2).any(|pair| pair[0].start_s >= pair[1].start_s) {
        return Err("phases out of order".to_owned());
    }
    let length_s = |phase: &Phase| phase.end_s - phase.start_s;
    let longest_s = phases.iter().map(length_s).fold(0.0, f64::max);
    if longest_s > beat_s * (1.0 + 1e-6) {
        return Err(format!("a phase of {}", seconds(longest_s)));
    }
    let mean_s = (last.start_s - first.start_s) / (n - 1) as f64;
    if relative_error(rhythm.mean_distance_s, mean_s) > 1e-3 {
        return Err(format!(
            "a mean distance of {} where the phases are {} apart",
            seconds(rhythm.mean_distance_s),
            seconds(mean_s)
        ));
    }
    let bytes: f64 = phases.iter().map(|phase| phase.bytes).sum();
    if relative_error(rhythm.bytes, bytes) > 1e-3 {
        return Err(format!("{:.5e} bytes where the phases move {bytes:.5e}", rhythm.bytes));
    }
    let slack_s = 1e-3 * beat_s;
    if rhythm.start_s > first.start_s + slack_s || rhythm.end_s < last.start_s - slack_s {
        return Err("phases outside the stretch in which it holds".to_owned());
    }
    spans_its_beats(rhythm, first.start_s, last.start_s)
}

/// beat · (n − 1 + missed) = last start − first start, within the spread.
///
/// The mean of `n − 1` distances is off by spread/√(n − 1) beats, which all of them add up to spread · √(n − 1); four
/// of these are allowed, and a twentieth of a beat for the first and last edge. A gap is a whole number of missed beats
/// only to the nearest: half a beat for each.
fn spans_its_beats(rhythm: &Rhythm, first_s: f64, last_s: f64) -> Result<(), String> {
    let beat_s = rhythm.period_s;
    let n = rhythm.phases.len();
    let n_gaps =
        rhythm.phases.windows(2).filter(|pair| pair[1].start_s - pair[0].start_s > 1.5 * beat_s).count();
    let beats = (n - 1 + rhythm.missed) as f64;
    let allowed = 0.05 + 4.0 * rhythm.spread * ((n - 1) as f64).sqrt() + 0.5 * n_gaps as f64;
    let off = (beats - (last_s - first_s) / beat_s).abs();
    if off > allowed + 1e-3 * beats {
        return Err(format!(
            "{n} phases and {} missed beats of {} span {}",
            rhythm.missed,
            seconds(beat_s),
            seconds(last_s - first_s)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use iotide_analysis::Candidate;
    use iotide_trace::Direction;

    use super::super::law::plain_run;
    use super::*;

    fn answer(trace: &Trace) -> Answer {
        let phases: Vec<Phase> = (trace.phases().iter())
            .map(|&(start, end)| Phase { start_s: start as f64 * 1e-9, end_s: end as f64 * 1e-9, bytes: 1.0 })
            .collect();
        let n = phases.len();
        let rhythm = Rhythm {
            period_s: 10.0,
            mean_distance_s: 10.0,
            bytes: n as f64,
            start_s: phases[0].start_s,
            end_s: phases[n - 1].end_s,
            confidence: 0.9,
            phases: phases.clone(),
            ..Rhythm::default()
        };
        let estimate = PeriodEstimate {
            verdict: Verdict::Periodic,
            period_s: Some(10.0),
            confidence: 0.9,
            rhythms: vec![rhythm],
            phases,
            ..PeriodEstimate::default()
        };
        Answer { direction: Some(Direction::Write), estimate, error: None }
    }

    #[test]
    fn an_answer_that_agrees_with_itself_passes_and_each_contradiction_is_named() {
        let trace = plain_run(12);
        check(&answer(&trace), &trace).unwrap();
        let wrong = |change: &dyn Fn(&mut PeriodEstimate)| {
            let mut answer = answer(&trace);
            change(&mut answer.estimate);
            check(&answer, &trace).unwrap_err()
        };
        let same_list = |e: &mut PeriodEstimate| e.phases = e.rhythms[0].phases.clone();
        assert!(wrong(&|e| e.rhythms.clear()).contains("0 rhythms"));
        assert!(wrong(&|e| e.verdict = Verdict::NotPeriodic).contains("NotPeriodic, but"));
        assert!(wrong(&|e| e.confidence = 1.2).contains("no probability"));
        assert!(wrong(&|e| e.period_s = Some(20.0)).contains("the headline 10"));
        assert!(wrong(&|e| e.phases.truncate(11)).contains("11 phases listed"));
        assert!(
            wrong(&|e| e.candidates = vec![Candidate { period_s: 5.0, confidence: 0.95 }])
                .contains("rejected")
        );
        assert!(
            wrong(&|e| {
                e.rhythms[0].period_s = 11.0;
                e.period_s = Some(11.0);
            })
            .contains("span 110.00 s")
        );
        assert!(wrong(&|e| e.rhythms[0].missed = 3).contains("3 missed beats"));
        assert!(wrong(&|e| e.rhythms[0].mean_distance_s = 12.0).contains("mean distance"));
        assert!(wrong(&|e| e.rhythms[0].bytes = 20.0).contains("bytes where"));
        assert!(
            wrong(&|e| {
                e.rhythms[0].phases[3].end_s += 11.0;
                same_list(e);
            })
            .contains("a phase of 12.000 s")
        );
        assert!(
            wrong(&|e| {
                e.rhythms[0].phases.clear();
                same_list(e);
            })
            .contains("0 phases")
        );
    }

    #[test]
    fn unclear_needs_a_reason() {
        let trace = plain_run(12);
        let estimate = PeriodEstimate { verdict: Verdict::Unclear, ..PeriodEstimate::default() };
        let answer = Answer { direction: Some(Direction::Write), estimate, error: None };
        assert_eq!(check(&answer, &trace).unwrap_err(), "Unclear with the reason None");
    }
}
