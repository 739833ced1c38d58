//! Our own method: what the rhythm engine finds, as an estimate.

use iotide_trace::{SampledSignal, Span, StepSignal};

use super::{
    Candidate, DftConfig, PeriodEstimate, Phase, Reason, Rhythm, StatedRun, Verdict, WeighedRhythm,
    correlation, next_beat_s, spectral,
};
use crate::rhythm::{self, Burst, Findings, Found, Rule, Steps, find_all_rhythms, find_rhythms};

/// Returns the rhythms of a sampled signal, each sample a step.
pub(crate) fn detect(signal: &SampledSignal, config: &DftConfig) -> PeriodEstimate {
    let mut estimate = rhythms_in(&Steps::sampled(signal), signal.start_s);
    add_waves(&mut estimate, signal, config);
    estimate
}

/// Adds what else there is to say of a signal on an even grid: its strongest waves and its autocorrelation.
pub(crate) fn add_waves(estimate: &mut PeriodEstimate, signal: &SampledSignal, config: &DftConfig) {
    estimate.autocorrelation = correlation::estimate(&signal.values, signal.rate_hz);
    estimate.waves = spectral::strongest_waves(signal, config.n_top);
}

/// Returns the rhythms of the part of `signal` within `window`, as far as its source bears them out.
///
/// Whoever names periods asks here, so that all name the same.
pub(crate) fn rhythms_of(signal: &StepSignal, window: Span, stated: &StatedRun) -> PeriodEstimate {
    let mut steps = Steps::within(signal, window);
    steps.resolution_s = stated.bin_s.unwrap_or(0.0);
    let mut estimate = rhythms_in(&steps, window.start.as_secs());
    stated.temper(&mut estimate);
    estimate
}

fn rhythms_in(steps: &Steps, origin_s: f64) -> PeriodEstimate {
    let findings = find_all_rhythms(steps);
    let end_s = origin_s + steps.duration_s();
    let rhythms: Vec<Rhythm> = findings.rhythms.iter().map(|found| as_rhythm(found, origin_s)).collect();
    let (verdict, reason, confidence) = verdict(&findings);
    let mut estimate = PeriodEstimate { verdict, reason, confidence, ..PeriodEstimate::default() };
    if let (Verdict::Periodic, Some(main)) = (verdict, rhythms.first()) {
        estimate.period_s = Some(main.period_s);
        // The autocorrelation has nothing to add to what the phases say.
        estimate.refined_confidence = Some(confidence);
        estimate.phases = main.phases.clone();
        // A rhythm that has ended is not expected to go on; the last one to hold is.
        let current = rhythms.iter().max_by(|a, b| a.end_s.total_cmp(&b.end_s)).unwrap_or(main);
        let current = if main.end_s + 2.0 * main.period_s >= end_s { main } else { current };
        estimate.next_phase_s =
            current.phases.last().map(|phase| next_beat_s(phase.start_s, current.period_s, end_s));
        estimate.rhythms = rhythms;
    }
    estimate.candidates = candidates(&findings, &estimate);
    estimate
}

/// Returns the verdict on the findings: with a rhythm, its probability; without, the probability that there is none.
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
    // A phase that runs on when the next is due ends there, as far as the beat is concerned.
    let ended = |phase: &Burst| Burst { end_s: phase.end_s.min(phase.start_s + found.beat_s), ..*phase };
    let phases: Vec<Phase> = found.phases.iter().map(|phase| as_phase(&ended(phase), origin_s)).collect();
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

/// Result of [`detect_cuts`].
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
