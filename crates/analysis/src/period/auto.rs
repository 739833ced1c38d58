//! Our own method: what the rhythm engine finds, as an estimate.

use iotide_trace::{SampledSignal, Span, StepSignal};

use super::wander::is_part_of_wandering;
use super::{
    Candidate, DftConfig, MOST_CANDIDATES, PeriodEstimate, Phase, Reason, Rhythm, StatedRun, Verdict,
    WeighedRhythm, coarse, correlation, next_beat_s, spectral,
};
use crate::rhythm::{
    self, Burst, Findings, Found, MOST_CERTAIN, Rule, Steps, Sums, find_all_rhythms, find_rhythms,
};

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

/// Returns the rhythms of the part of `signal` within `window`, as far as its source supports them.
///
/// Whoever names periods asks here, so that all name the same.
pub(crate) fn rhythms_of(signal: &StepSignal, window: Span, stated: &StatedRun) -> PeriodEstimate {
    let mut steps = Steps::within(signal, window);
    steps.resolution_s = stated.bin_s.unwrap_or(0.0);
    steps.row_s = stated.bin_s.or_else(|| steps.row_s()).unwrap_or(0.0);
    let mut estimate = rhythms_in(&steps, window.start.as_secs());
    let faster_s = match (stated.bin_s, estimate.rhythms.first()) {
        (Some(bin_s), Some(main)) => coarse::faster_periods_s(&steps, main, window.start.as_secs(), bin_s),
        _ => Vec::new(),
    };
    stated.temper(&mut estimate, &faster_s);
    estimate
}

fn rhythms_in(steps: &Steps, origin_s: f64) -> PeriodEstimate {
    let findings = find_all_rhythms(steps);
    let end_s = origin_s + steps.duration_s();
    let mut rhythms: Vec<Rhythm> = findings.rhythms.iter().map(|found| as_rhythm(found, origin_s)).collect();
    add_shares(&mut rhythms, steps, origin_s);
    discount(&mut rhythms, data_s(steps));
    let (verdict, reason, confidence) = verdict(&findings, &rhythms);
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
fn verdict(findings: &Findings, rhythms: &[Rhythm]) -> (Verdict, Option<Reason>, f64) {
    if findings.n_phases < 3 {
        return (Verdict::Unclear, Some(Reason::TooFewPhases), 0.0);
    }
    match rhythms.first() {
        Some(main) => (Verdict::Periodic, None, main.confidence),
        None => {
            let confidence = (1.0 - findings.p_periodic).min(MOST_CERTAIN);
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
    all.truncate(MOST_CANDIDATES);
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
        byte_share: 1.0,
        time_share: 1.0,
        depth: 1.0,
        start_s: first.start_s,
        end_s: last.end_s,
        confidence: found.confidence,
        phases,
    }
}

/// Adds how much of the signal each rhythm explains, and how clearly it stands out.
pub(super) fn add_shares(rhythms: &mut [Rhythm], steps: &Steps, origin_s: f64) {
    if rhythms.is_empty() {
        return;
    }
    let sums = Sums::of(steps);
    let (bytes, duration_s) = (sums.between(0.0, steps.duration_s()), steps.duration_s());
    for rhythm in rhythms {
        rhythm.byte_share = (rhythm.bytes / bytes).min(1.0);
        rhythm.time_share = (rhythm.phases.len() as f64 * rhythm.period_s / duration_s).min(1.0);
        rhythm.depth = depth(&rhythm.phases, |from_s, to_s| sums.between(from_s - origin_s, to_s - origin_s));
    }
}

/// How far the bandwidth falls between phases, as a share of that within them.
fn depth(phases: &[Phase], bytes_between: impl Fn(f64, f64) -> f64) -> f64 {
    let [first, .., last] = phases else { return 1.0 };
    let busy_s: f64 = phases.iter().map(|phase| phase.end_s - phase.start_s).sum();
    let within: f64 = phases.iter().map(|phase| bytes_between(phase.start_s, phase.end_s)).sum();
    let idle_s = last.end_s - first.start_s - busy_s;
    let between = (bytes_between(first.start_s, last.end_s) - within).max(0.0);
    if idle_s <= 0.0 || busy_s <= 0.0 || within <= 0.0 {
        return 1.0;
    }
    1.0 - ((between / idle_s) / (within / busy_s)).min(1.0)
}

/// Returns the time from the first to the last data.
fn data_s(steps: &Steps) -> f64 {
    let moves = |&rate_bps: &f64| rate_bps > 0.0;
    match (steps.rates_bps.iter().position(moves), steps.rates_bps.iter().rposition(moves)) {
        (Some(first), Some(last)) => steps.times_s[last + 1] - steps.times_s[first],
        _ => 0.0,
    }
}

/// Takes from the confidence of rhythms that explain little of the run, down to a half: what keeps a beat in a part of it may be what happens to be even there.
fn discount(rhythms: &mut [Rhythm], data_s: f64) {
    let explained: f64 = rhythms.iter().map(|rhythm| rhythm.byte_share).sum();
    let moved = (explained / MOVES_ENOUGH).min(1.0);
    let wander: Vec<bool> =
        rhythms.iter().map(|rhythm| is_part_of_wandering(rhythm, rhythms, data_s)).collect();
    for (rhythm, wanders) in rhythms.iter_mut().zip(wander).filter(|(rhythm, _)| rhythm.confidence > 0.5) {
        let kept =
            (1.0 - 2.0 * (missed_share(rhythm) - OFTEN_MISSED)).min(if wanders { WANDERS } else { 1.0 });
        rhythm.confidence = 0.5 + (rhythm.confidence - 0.5) * moved.min(kept);
    }
}

/// The share of the beats that were missed. The longest gap is left out: one pause says nothing about the beat.
fn missed_share(rhythm: &Rhythm) -> f64 {
    let missed = (rhythm.phases.windows(2))
        .map(|pair| ((pair[1].start_s - pair[0].start_s) / rhythm.period_s).round() - 1.0)
        .filter(|missed| (1.0..MOST_MISSED).contains(missed));
    let (sum, longest) = missed.fold((0.0, 0.0f64), |(sum, longest), n| (sum + n, longest.max(n)));
    (sum - longest) / (sum - longest + rhythm.phases.len() as f64)
}

/// More beats in a row are a pause, as in the engine.
const MOST_MISSED: f64 = 12.0;
/// A program that skips beats skips three in ten at most (law 4 and the calibration go so far). Where eight in ten are missing, nothing is certain.
const OFTEN_MISSED: f64 = 0.3;
/// Share of the confidence, beyond a half, that a rhythm keeps which is a part of one that wanders: of 26 such answers 2 were right.
const WANDERS: f64 = 0.2;
/// Rhythms that move less than this share of the bytes together leave most of the run unexplained.
const MOVES_ENOUGH: f64 = 0.25;

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
