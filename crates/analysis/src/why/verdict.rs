//! From three factors to a verdict that one may act on.

use std::collections::BTreeMap;

use iotide_num::{SplitMix64, median, population_std};

use super::capacity::PhaseSpeed;
use super::{Clue, LEAST_SLOWDOWN, Parts, PhaseCause, Seen, Timed, Usual, Verdict, Why};

/// A run against earlier ones.
#[derive(Clone, Debug)]
pub(super) struct Comparison {
    /// How much longer its requests take than those of the nearest earlier run.
    pub(super) own: f64,
    /// How much longer they took than such requests usually do.
    pub(super) rest: f64,
    /// Whether what it did lies outside of what earlier runs did.
    pub(super) requests_changed: bool,
    /// How much less speed others left than in earlier runs, if a log tells.
    delay: Option<f64>,
    /// Evidence against the load of others as a cause.
    doubts: Vec<Clue>,
    /// `rest` and `delay` of other draws of phases and earlier runs.
    draws: Vec<(f64, Option<f64>)>,
}

/// Conclusion.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) verdict: Verdict,
    pub(super) parts: Parts,
    pub(super) doubts: Vec<Clue>,
}

const N_DRAWS: usize = 200;
/// Any number; the answer is the same each time.
const SEED: u64 = 54;
/// A part of this size is a cause.
const A_THIRD: f64 = 1.0 / 3.0;
/// Requests of which the expected time differs by less are those of before.
const SAME_REQUESTS: f64 = 0.02;

impl Comparison {
    pub(super) fn of(this: &Timed<'_>, earlier: &[Timed<'_>], usual: &Usual, seen: Option<&Seen>) -> Self {
        let expected = || earlier.iter().map(|run| run.expected.seconds);
        let (least, most) =
            (expected().fold(f64::INFINITY, f64::min), expected().fold(f64::NEG_INFINITY, f64::max));
        let own = this.expected.seconds / this.expected.seconds.clamp(least, most);
        // What a run has not done yet is not less I/O.
        let own = if this.facts.goes_on { own.max(1.0) } else { own };
        let delay = seen.map(|seen| seen.ratio(seen.speeds.delay(), seen.usual_delay().unwrap_or(1.0)));
        Self {
            own,
            rest: this.ratio() / usual.ratio,
            requests_changed: own.ln().abs() > SAME_REQUESTS,
            delay,
            doubts: seen.map_or(Vec::new(), |seen| doubts(this, usual, seen)),
            draws: draws(this, earlier, seen),
        }
    }

    /// How much the load of others slowed the run down, where that is known.
    pub(super) fn others(&self) -> Option<f64> {
        self.delay.map(|delay| delay.min(self.rest))
    }

    /// How much slower the storage was, where that is known.
    pub(super) fn storage(&self) -> Option<f64> {
        self.others().map(|others| self.rest / others)
    }

    /// Whether others may be named as a cause.
    pub(super) fn others_proven(&self) -> bool {
        self.doubts.is_empty()
    }
}

/// Draws phases of the run, and earlier runs, as chance might have had them.
fn draws(this: &Timed<'_>, earlier: &[Timed<'_>], seen: Option<&Seen>) -> Vec<(f64, Option<f64>)> {
    let mut random = SplitMix64::new(SEED);
    let n_phases = this.facts.phases.len();
    let ratios: Vec<f64> = earlier.iter().map(Timed::ratio).collect();
    let delays: Vec<Option<f64>> = match seen {
        Some(seen) => seen.earlier.iter().map(|speeds| speeds.as_ref().map(super::Speeds::delay)).collect(),
        None => vec![None; earlier.len()],
    };
    let draw = |_| {
        let (mut busy_s, mut expected_s) = (0.0, 0.0);
        let (mut known_s, mut full_s) = (0.0, 0.0);
        for _ in 0..n_phases {
            let i = random.below(n_phases);
            busy_s += this.facts.phases[i].busy_s;
            expected_s += this.expected.phases[i];
            if let Some((phase, left)) =
                seen.and_then(|seen| seen.speeds.phases[i].left.map(|left| (i, left)))
            {
                known_s += this.facts.phases[phase].busy_s;
                full_s += this.facts.phases[phase].busy_s * left;
            }
        }
        let drawn: Vec<usize> = (0..earlier.len()).map(|_| random.below(earlier.len())).collect();
        let usual_ratio = median(&drawn.iter().map(|&i| ratios[i]).collect::<Vec<_>>()).unwrap_or(1.0);
        let usual_delay = median(&drawn.iter().filter_map(|&i| delays[i]).collect::<Vec<_>>())
            .or_else(|| seen.and_then(Seen::usual_delay))
            .unwrap_or(1.0);
        let delay = seen.map(|seen| {
            let delay = if full_s > 0.0 { known_s / full_s } else { seen.speeds.delay() };
            seen.ratio(delay, usual_delay)
        });
        (busy_s / expected_s / usual_ratio, delay)
    };
    (0..N_DRAWS).map(draw).collect()
}

/// Phases follow the load if it explains at least so much of their spread.
const FOLLOWS: f64 = 0.75;
/// Residuals of this size, and so many times the usual spread, are not chance.
const NOT_CHANCE: (f64, f64) = (0.2, 3.0);

/// The logarithms of what phases took over what they should, and of what the load explains of that.
fn logs(this: &Timed<'_>, phases: &[PhaseSpeed], by_load: bool) -> (Vec<f64>, Vec<f64>) {
    let pairs = phases.iter().zip(&this.expected.phases).filter_map(|(phase, expected_s)| {
        let left = phase.left?;
        Some(((phase.busy_s / expected_s).ln(), -if by_load { phase.by_load } else { left }.ln()))
    });
    pairs.unzip()
}

/// Evidence against the load of others as a cause.
fn doubts(this: &Timed<'_>, usual: &Usual, seen: &Seen) -> Vec<Clue> {
    let mut doubts = Vec::new();
    let (took, explained) = logs(this, &seen.speeds.phases, false);
    let rests: Vec<f64> = took.iter().zip(&explained).map(|(took, by_load)| took - by_load).collect();
    let rest_spread = population_std(&rests);
    if rest_spread > NOT_CHANCE.0 && rest_spread > NOT_CHANCE.1 * usual.spread {
        doubts.push(Clue::NotFollowed(rest_spread));
    }
    if !seen.is_proven {
        doubts.push(Clue::NoCeiling(seen.capacity.bps));
    }
    if seen.usual_delay().is_none() {
        let is_usual = |(phase, expected_s): (&PhaseSpeed, &f64)| {
            phase.busy_s / expected_s / usual.ratio < LEAST_SLOWDOWN && phase.by_load > 0.9
        };
        if !seen.speeds.phases.iter().zip(&this.expected.phases).any(is_usual) {
            doubts.push(Clue::NoUsual);
        }
    }
    doubts
}

/// Whether phases took longer where the load was higher. The load alone counts: what the program got explains itself.
pub(super) fn follows(this: &Timed<'_>, phases: &[PhaseSpeed]) -> bool {
    let (took, explained) = logs(this, phases, true);
    let rests: Vec<f64> = took.iter().zip(&explained).map(|(took, by_load)| took - by_load).collect();
    took.len() >= 3 && population_std(&rests) < FOLLOWS * population_std(&took)
}

/// The causes of one draw.
struct Causes {
    own: f64,
    rest: f64,
    delay: Option<f64>,
}

impl Causes {
    /// The parts of a slowdown; without a log only that of the program's own requests.
    fn parts(&self) -> Parts {
        let above = |factor: f64| factor.ln().max(0.0);
        let own = above(self.own);
        let Some(delay) = self.delay else {
            let sum = own + above(self.rest);
            let own = (sum > 0.0).then(|| own / sum);
            // Where nothing is left to explain, nothing else is a cause.
            let none = if own == Some(1.0) { Some(0.0) } else { None };
            return Parts { own, others: none, storage: none };
        };
        let others = delay.min(self.rest);
        let (others, storage) = (above(others), above(self.rest / others));
        let sum = own + others + storage;
        let part = |of: f64| (sum > 0.0).then(|| of / sum);
        Parts { own: part(own), others: part(others), storage: part(storage) }
    }

    fn verdict(&self, threshold: f64, others_proven: bool) -> Verdict {
        if (self.own * self.rest).ln() <= threshold {
            return Verdict::Usual;
        }
        let parts = self.parts();
        let own = parts.own.unwrap_or(0.0);
        let (Some(others), Some(storage)) = (parts.others, parts.storage) else {
            // The rest may be one cause or two.
            return if own >= 1.0 - A_THIRD { Verdict::Own } else { Verdict::Unknown };
        };
        let is_cause = [own, others, storage].map(|part| part >= A_THIRD - 1e-9);
        if is_cause[1] && !others_proven {
            return Verdict::Unknown;
        }
        match is_cause {
            [true, false, false] => Verdict::Own,
            [false, true, false] => Verdict::Others,
            [false, false, true] => Verdict::Storage,
            _ => Verdict::Mixed,
        }
    }
}

/// The most frequent verdict of the draws, if it is frequent enough, with the parts of what was measured.
pub(super) fn decide(comparison: &Comparison, usual: &Usual) -> Outcome {
    let (threshold, proven) = (usual.threshold(), comparison.others_proven());
    let measured = Causes { own: comparison.own, rest: comparison.rest, delay: comparison.delay };
    let mut counts: BTreeMap<Verdict, usize> = BTreeMap::new();
    for &(rest, delay) in &comparison.draws {
        let verdict = Causes { own: comparison.own, rest, delay }.verdict(threshold, proven);
        *counts.entry(verdict).or_default() += 1;
    }
    let n = comparison.draws.len();
    let most = counts.iter().max_by_key(|(verdict, count)| (**count, std::cmp::Reverse(**verdict)));
    let (mut verdict, count) = most.map_or((Verdict::Unknown, 0), |(verdict, count)| (*verdict, *count));
    let with_mixed = count + counts.get(&Verdict::Mixed).copied().unwrap_or(0);
    let is_cause = matches!(verdict, Verdict::Own | Verdict::Others | Verdict::Storage);
    if 2 * count < n && !(is_cause && 10 * with_mixed >= 9 * n) {
        verdict = Verdict::Unknown;
    }
    let mut parts = measured.parts();
    let part = match verdict {
        Verdict::Own => parts.own,
        Verdict::Others => parts.others,
        Verdict::Storage => parts.storage,
        _ => Some(1.0),
    };
    if part.is_none_or(|part| part < A_THIRD) {
        verdict = Verdict::Unknown;
    }
    match verdict {
        Verdict::Usual => parts = Parts::default(),
        // What others and the storage did is what cannot be told.
        Verdict::Unknown if parts.own != Some(1.0) => {
            let is_told = measured.verdict(threshold, proven) != Verdict::Usual;
            parts = Parts { own: parts.own.filter(|_| is_told), others: None, storage: None };
        }
        _ => {}
    }
    let blames_others =
        verdict == Verdict::Unknown && measured.parts().others.is_none_or(|part| part >= A_THIRD);
    Outcome { verdict, parts, doubts: if blames_others { comparison.doubts.clone() } else { Vec::new() } }
}

/// The verdict on each phase, by the same rules.
pub(super) fn phases(
    this: &Timed<'_>,
    usual_ratio: f64,
    threshold: f64,
    comparison: &Comparison,
    seen: Option<&Seen>,
) -> Vec<PhaseCause> {
    let usual_delay = seen.and_then(Seen::usual_delay).unwrap_or(1.0);
    let of_phase = |(i, phase): (usize, &super::PhaseFacts)| {
        let speed = known_speed(seen, i);
        let factor = phase.busy_s / this.expected.phases[i] / usual_ratio;
        let delay = seen
            .zip(speed.and_then(|speed| speed.left))
            .map(|(seen, left)| seen.ratio(1.0 / left, usual_delay));
        let causes = Causes { own: comparison.own, rest: factor, delay };
        cause_of(phase, factor, speed, causes.verdict(threshold, comparison.others_proven()))
    };
    this.facts.phases.iter().enumerate().map(of_phase).collect()
}

/// The speed that others left in a phase, if the log covers it.
fn known_speed(seen: Option<&Seen>, phase: usize) -> Option<PhaseSpeed> {
    seen.map(|seen| seen.speeds.phases[phase]).filter(|speed| speed.left.is_some())
}

fn cause_of(
    phase: &super::PhaseFacts,
    factor: f64,
    speed: Option<PhaseSpeed>,
    verdict: Verdict,
) -> PhaseCause {
    PhaseCause {
        start_s: phase.start_s,
        end_s: phase.end_s,
        bytes: phase.bytes(),
        factor: Some(factor),
        others_bps: speed.map(|speed| speed.others_bps),
        verdict,
    }
}

/// Phases of one run that differ by less, or a load that slows the run down by less, do not tell a cause.
const DIFFERENT: f64 = 1.3;
/// Nor do fewer.
const FEWEST_PHASES: usize = 4;

/// Concludes from a run without any to compare it with: at most that others slowed some of its phases down.
pub(super) fn alone(this: &Timed<'_>, seen: Option<&Seen>, mut clues: Vec<Clue>) -> Why {
    let ratios: Vec<f64> = this
        .facts
        .phases
        .iter()
        .zip(&this.expected.phases)
        .map(|(phase, expected_s)| phase.busy_s / expected_s)
        .collect();
    let (least, most) =
        (ratios.iter().copied().fold(f64::INFINITY, f64::min), ratios.iter().copied().fold(0.0, f64::max));
    let mut verdict = Verdict::Unknown;
    if let Some(seen) = seen {
        let proven = follows(this, &seen.speeds.phases);
        let (took, explained) = logs(this, &seen.speeds.phases, false);
        let rests: Vec<f64> = took.iter().zip(&explained).map(|(took, by_load)| took - by_load).collect();
        if !proven {
            clues.push(Clue::NotFollowed(population_std(&rests)));
        }
        let is_slowed = most > DIFFERENT * least && seen.speeds.delay() > DIFFERENT;
        if proven && is_slowed && ratios.len() >= FEWEST_PHASES && population_std(&rests) < NOT_CHANCE.0 {
            verdict = Verdict::Others;
        }
        let delay = seen.speeds.delay();
        clues.insert(
            0,
            Clue::OthersLoad {
                bps: seen.speeds.others_bps,
                usual_bps: None,
                left: 1.0 / delay,
                usual_left: None,
            },
        );
        if seen.offset_s != 0.0 {
            clues.push(Clue::Offset(seen.offset_s));
        }
    }
    let level = seen.map_or(iotide_num::quantile(&ratios, 0.2).unwrap_or(1.0), |seen| seen.capacity.level);
    let phase = |(i, phase): (usize, &super::PhaseFacts)| {
        let factor = ratios[i] / level;
        let verdict = if factor > DIFFERENT { verdict } else { Verdict::Unknown };
        cause_of(phase, factor, known_speed(seen, i), verdict)
    };
    Why {
        verdict,
        slowdown: None,
        parts: Parts::default(),
        own_factor: None,
        phases: this.facts.phases.iter().enumerate().map(phase).collect(),
        clues,
        n_history: 0,
        usual_until: None,
        earlier: Vec::new(),
        others: seen.map(|seen| seen.others.clone()),
    }
}
