//! Our own method: what the rhythm engine finds, as an estimate.

use iotide_trace::SampledSignal;

use super::{
    Candidate, DftConfig, PeriodEstimate, Phase, Reason, Rhythm, Verdict, WeighedRhythm, correlation,
    next_beat_s, spectral,
};
use crate::rhythm::{self, Burst, Findings, Found, Rule, Steps, find_rhythms};

/// Returns the rhythms of `steps`; `signal` is the same on an even grid, for the waves and the autocorrelation.
pub(crate) fn detect(steps: &Steps, signal: &SampledSignal, config: &DftConfig) -> PeriodEstimate {
    let findings = find_rhythms(steps);
    let origin_s = signal.start_s;
    let rhythms: Vec<Rhythm> = findings.rhythms.iter().map(|found| as_rhythm(found, origin_s)).collect();
    let (verdict, reason, confidence) = verdict(&findings);
    let mut estimate = PeriodEstimate {
        verdict,
        reason,
        confidence,
        autocorrelation: correlation::estimate(&signal.values, signal.rate_hz),
        waves: spectral::strongest_waves(signal, config.n_top),
        ..PeriodEstimate::default()
    };
    if let (Verdict::Periodic, Some(main)) = (verdict, rhythms.first()) {
        estimate.period_s = Some(main.period_s);
        // The autocorrelation has nothing to add to what the phases say.
        estimate.refined_confidence = Some(confidence);
        estimate.phases = main.phases.clone();
        // A rhythm that has ended is not expected to go on; the last one to hold is.
        let current = rhythms.iter().max_by(|a, b| a.end_s.total_cmp(&b.end_s)).unwrap_or(main);
        let current = if main.end_s + 2.0 * main.period_s >= signal.end_s() { main } else { current };
        estimate.next_phase_s =
            current.phases.last().map(|phase| next_beat_s(phase.start_s, current.period_s, signal.end_s()));
        estimate.rhythms = rhythms;
    }
    estimate.candidates = candidates(&findings, &estimate);
    estimate
}

/// What the findings come to: with a rhythm, how probable it is; without, how probable that there is none.
fn verdict(findings: &Findings) -> (Verdict, Option<Reason>, f64) {
    if findings.n_phases < 3 {
        return (Verdict::Unclear, Some(Reason::TooFewPhases), 0.0);
    }
    match findings.rhythms.first() {
        Some(main) => (Verdict::Periodic, None, main.confidence),
        None => {
            let confidence = 1.0 - findings.p_periodic;
            if confidence < 0.5 {
                (Verdict::Unclear, Some(Reason::MixedEvidence), confidence)
            } else {
                (Verdict::NotPeriodic, None, confidence)
            }
        }
    }
}

/// The accepted periods, then the others; none is more probable than the answer.
fn candidates(findings: &Findings, estimate: &PeriodEstimate) -> Vec<Candidate> {
    let accepted = estimate
        .rhythms
        .iter()
        .map(|rhythm| Candidate { period_s: rhythm.period_s, confidence: rhythm.confidence });
    let mut all: Vec<Candidate> = accepted.collect();
    let most = match estimate.verdict {
        Verdict::Periodic => estimate.confidence.min(1.0 - estimate.confidence),
        _ => 1.0 - estimate.confidence,
    };
    for &(period_s, probability) in &findings.ranking {
        if all.iter().all(|known| (known.period_s / period_s - 1.0).abs() > 0.05) {
            all.push(Candidate { period_s, confidence: probability.min(most) });
        }
    }
    all.truncate(5);
    all
}

fn as_rhythm(found: &Found, origin_s: f64) -> Rhythm {
    let phases: Vec<Phase> = found.phases.iter().map(|phase| as_phase(phase, origin_s)).collect();
    let (first, last) = (phases[0], phases[phases.len() - 1]);
    Rhythm {
        period_s: found.beat_s,
        mean_distance_s: (last.start_s - first.start_s) / (phases.len() - 1) as f64,
        spread: found.spread,
        missed: found.missed,
        bytes: found.own_bytes,
        start_s: first.start_s,
        end_s: last.end_s,
        confidence: found.confidence,
        phases,
    }
}

fn as_phase(burst: &Burst, origin_s: f64) -> Phase {
    Phase { start_s: origin_s + burst.start_s, end_s: origin_s + burst.end_s, bytes: burst.bytes }
}

/// Returns every rhythm that is taken into consideration, with its evidence.
pub(crate) fn weigh(steps: &Steps) -> Vec<WeighedRhythm> {
    rhythm::weigh(steps)
        .into_iter()
        .map(|candidate| WeighedRhythm { period_s: candidate.beat_s, evidence: candidate.evidence.to_vec() })
        .collect()
}

/// Returns the rhythms that hold, each with its phases and with how these were cut out of the signal.
pub(crate) fn detect_cuts(signal: &SampledSignal) -> CutEstimate {
    let findings = find_rhythms(&Steps::sampled(signal));
    let as_cut = |found: &Found| CutRhythm {
        period_s: found.beat_s,
        confidence: found.confidence,
        phases: found.phases.iter().map(|phase| as_phase(phase, signal.start_s)).collect(),
        rule: found.rule,
    };
    CutEstimate {
        p_periodic: findings.p_periodic,
        rhythms: findings.rhythms.iter().map(as_cut).collect(),
        best: findings.best.as_ref().map(as_cut),
        few: findings.few.as_ref().map(as_cut),
    }
}

/// Cuts a signal into phases as `rule` says, whether they have a rhythm or not.
pub(crate) fn cut_by(signal: &SampledSignal, rule: &Rule) -> Vec<Phase> {
    rhythm::cut_by(&Steps::sampled(signal), *rule)
        .iter()
        .map(|phase| as_phase(phase, signal.start_s))
        .collect()
}

/// What [`detect_cuts`] finds.
#[derive(Clone, Debug, Default)]
pub(crate) struct CutEstimate {
    /// Probability that there is any rhythm.
    pub p_periodic: f64,
    /// Those that hold at once, the one that moves most bytes first.
    pub rhythms: Vec<CutRhythm>,
    /// The most probable one, whether it holds or not; of three phases or more.
    pub best: Option<CutRhythm>,
    /// The best way to see (nearly all of) the signal as three or four stretches of activity, if there is one.
    pub few: Option<CutRhythm>,
}

/// A rhythm and its phases.
#[derive(Clone, Debug)]
pub(crate) struct CutRhythm {
    pub period_s: f64,
    pub confidence: f64,
    pub phases: Vec<Phase>,
    pub rule: Rule,
}
