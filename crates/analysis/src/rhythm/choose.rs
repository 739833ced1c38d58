//! Which of the proposed rhythms hold.

use std::cell::OnceCell;

use super::evidence::{
    BY_SCALE, EVENNESS, MISSED, N_EVIDENCE, ODD_VOLUMES, UNCLEAR_BREAK, add_spectrum, compressed, evidence,
    logit, logit_at_most,
};
use super::explain::Stretch;
use super::propose::{Cut, Proposal, Rule, propose};
use super::spectrum::Spectrum;
use super::steps::{Burst, Steps, usual};

/// Findings of the engine in a signal. Times are seconds since the signal's start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Findings {
    /// Those that hold, the one that moves most bytes of its own first.
    pub rhythms: Vec<Found>,
    /// The probability that there is any.
    pub p_periodic: f64,
    /// All that were considered, best first, with their probability; one for each period.
    pub ranking: Vec<(f64, f64)>,
    /// The most phases that any way of cutting finds (up to a few): fewer than three can have no rhythm.
    pub n_phases: usize,
    /// The best way to see (nearly all of) the signal as three or four stretches of activity, if there is one.
    pub few: Option<Found>,
    /// The most probable rhythm, whether it holds or not.
    pub best: Option<Found>,
}

/// A rhythm.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub beat_s: f64,
    pub spread: f64,
    pub missed: usize,
    pub phases: Vec<Burst>,
    /// Bytes of its phases that no rhythm before it has claimed.
    pub own_bytes: f64,
    pub confidence: f64,
    pub rule: Rule,
}

/// A stretch of a proposal, with what speaks for it.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    proposal: usize,
    stretch: usize,
    pub beat_s: f64,
    pub evidence: [f64; N_EVIDENCE],
    logit: f64,
}

/// Returns the rhythms of a signal.
pub(crate) fn find_rhythms(steps: &Steps) -> Findings {
    let total_bytes = steps.bytes();
    if total_bytes <= 0.0 {
        return Findings::default();
    }
    let proposals = propose(steps);
    let candidates = candidates(steps, &proposals, total_bytes);
    Choice::of(&proposals, &candidates, total_bytes).findings()
}

/// Returns every rhythm that is taken into consideration.
pub(crate) fn weigh(steps: &Steps) -> Vec<Candidate> {
    let total_bytes = steps.bytes();
    if total_bytes <= 0.0 {
        return Vec::new();
    }
    candidates(steps, &propose(steps), total_bytes)
}

/// All stretches that keep a beat, with their evidence, less those whose structure another one explains.
fn candidates(steps: &Steps, proposals: &[Proposal], total_bytes: f64) -> Vec<Candidate> {
    let sums = Sums::of(steps);
    let spectrum = OnceCell::new();
    let mut candidates = Vec::new();
    for (i, proposal) in proposals.iter().enumerate() {
        for (j, stretch) in proposal.stretches.iter().enumerate() {
            // Among many bursts a few will always happen to be even.
            if stretch.members.len() < FEW && proposal.bursts.len() > 2 * stretch.members.len() {
                continue;
            }
            if !is_of_the_run(proposal, stretch, total_bytes, steps.duration_s()) || is_one_phase(proposal) {
                continue;
            }
            let mut evidence =
                evidence(proposal, stretch, total_bytes, |from_s, to_s| sums.between(from_s, to_s));
            if let Some(spectrum) = spectrum.get_or_init(|| Spectrum::of(steps)) {
                add_spectrum(&mut evidence, spectrum, stretch.beat_s);
            }
            // A pause, or what comes before and after, says nothing about the beat: such stretches are looked at alone, unless no
            // spectrum could save them.
            if logit_at_most(&evidence) > HOPELESS
                && let Some(parts) = stretch_parts(proposal, stretch, steps)
                && let Some(own) = Spectrum::fine_enough(&steps.only(&parts), stretch.beat_s)
            {
                add_spectrum(&mut evidence, &own, stretch.beat_s);
            }
            let logit = logit(&evidence);
            candidates.push(Candidate { proposal: i, stretch: j, beat_s: stretch.beat_s, evidence, logit });
        }
    }
    lift_equal_phases(&mut candidates, proposals);
    let mut dropped: Vec<bool> = candidates
        .iter()
        .map(|one| candidates.iter().any(|other| is_structure_of(other, one, proposals, steps.resolution_s)))
        .collect();
    // Large and small phases in turn are one rhythm, as probable as that of the large ones alone.
    for i in 0..candidates.len() {
        for j in 0..candidates.len() {
            let is_class = proposals[candidates[i].proposal].rule.cut() != Cut::Scale;
            if (is_class || candidates[j].logit > 0.0)
                && is_every_second(&candidates[j], &candidates[i], proposals, steps.resolution_s)
            {
                dropped[i] = true;
                if is_class {
                    candidates[j].logit = candidates[j].logit.max(candidates[i].logit);
                }
            }
        }
    }
    let mut keep = dropped.iter().map(|dropped| !dropped);
    candidates.retain(|_| keep.next().unwrap_or(true));
    candidates
}

/// Phases of as many bursts each are as probable as the beat of these bursts: what comes in equal groups was put into groups.
fn lift_equal_phases(candidates: &mut [Candidate], proposals: &[Proposal]) {
    for part in 0..candidates.len() {
        let logit = candidates[part].logit;
        if logit <= 0.0 {
            continue;
        }
        for whole in 0..candidates.len() {
            if candidates[whole].logit < logit
                && is_in_equal_groups(&candidates[part], &candidates[whole], proposals)
            {
                candidates[whole].logit = logit;
            }
        }
    }
}

/// Whether the bursts of `one` come in groups of as many each, and these groups are the phases of `other`.
fn is_in_equal_groups(one: &Candidate, other: &Candidate, proposals: &[Proposal]) -> bool {
    let (whole, part) = (&proposals[other.proposal], &proposals[one.proposal]);
    let (of_whole, of_part) = (&whole.stretches[other.stretch], &part.stretches[one.stretch]);
    let (n_groups, n_bursts) = (of_part.pauses.len() + 1, of_part.members.len());
    let n_each = n_bursts / n_groups;
    n_groups >= 3
        && of_whole.members.len() == n_groups
        && of_whole.missed == 0
        && of_whole.pauses.is_empty()
        && of_whole.log_odds >= STRUCTURE_ODDS / 2.0
        && n_each * n_groups == n_bursts
        && (2..=MOST_IN_A_GROUP).contains(&n_each)
        && of_part.pauses.iter().enumerate().all(|(group, &last)| last + 1 == (group + 1) * n_each)
        && of_part.members.chunks(n_each).zip(&of_whole.members).all(|(group, &phase)| {
            let phase = &whole.bursts[phase];
            group.iter().all(|&burst| {
                let burst = &part.bursts[burst];
                (phase.start_s..=phase.end_s).contains(&((burst.start_s + burst.end_s) / 2.0))
            })
        })
}

/// So many bursts at most make a phase of bursts; more are a run that pauses.
const MOST_IN_A_GROUP: usize = 8;

/// Whether a beat is one of the run, and not of what a program does for a moment, or now and then: a loop of requests within its
/// phases keeps a beat, too.
fn is_of_the_run(proposal: &Proposal, stretch: &Stretch, total_bytes: f64, duration_s: f64) -> bool {
    let (first, last) = stretch.ends();
    let held_s = proposal.bursts[last].end_s - proposal.bursts[first].start_s;
    let for_a_moment =
        held_s < LEAST_PART * duration_s && bytes_of(stretch, proposal) < LEAST_PART * total_bytes;
    let now_and_then =
        stretch.pauses.len() >= 2 && stretch.missed_in_pauses > MOSTLY_AWAY * stretch.members.len();
    !for_a_moment && !now_and_then
}

/// Whether a few bursts are one phase with dips: they last for nearly all of the time from one to the next.
fn is_one_phase(proposal: &Proposal) -> bool {
    let bursts = &proposal.bursts;
    let span_s = bursts[bursts.len() - 1].end_s - bursts[0].start_s;
    bursts.len() < FEW
        && proposal.rule.cut() == Cut::Runs
        && bursts.iter().map(Burst::duration_s).sum::<f64>() > ALL_BUT_DIPS * span_s
}

/// The share of the time that a few bursts of one phase last: the gaps between three of them are a tenth of their length. (At 0.9 one in 120 loops with long phases is
/// refused.)
const ALL_BUT_DIPS: f64 = 0.94;
/// A beat that holds for less of the time and of the bytes is none of the run's.
const LEAST_PART: f64 = 0.029_97;
/// How many beats may pass in pauses for each one that is there, where there are several pauses.
const MOSTLY_AWAY: usize = 2;

/// The parts of the signal in which a stretch holds, pauses left out; `None` if that is nearly all of it.
fn stretch_parts(proposal: &Proposal, stretch: &Stretch, steps: &Steps) -> Option<Vec<(f64, f64)>> {
    let start_s = |member: usize| proposal.bursts[stretch.members[member]].start_s;
    let end_s = steps.duration_s();
    let mut parts = Vec::new();
    let mut first = 0;
    for last in stretch.pauses.iter().copied().chain([stretch.members.len() - 1]) {
        parts.push((start_s(first), (start_s(last) + stretch.beat_s).min(end_s)));
        first = last + 1;
    }
    let held_s: f64 = parts.iter().map(|(from_s, to_s)| to_s - from_s).sum();
    (stretch.log_odds > 0.0 && held_s < 0.7997 * end_s && steps.len() < MANY_STEPS).then_some(parts)
}

/// Below this logit (one in a hundred) nobody asks which of two improbable rhythms is the more probable one.
const HOPELESS: f64 = -4.6;

/// So few phases can be even by chance.
const FEW: usize = 5;

/// Parts of longer signals are not looked at alone: it would cost more than it tells.
const MANY_STEPS: usize = 200_000;

/// The odds from which a rhythm of whole phases explains the bursts within them.
const STRUCTURE_ODDS: f64 = 4.0;
/// The gaps between phases must be more than this many times those within: one bin or two makes no clear difference.
const CLEAR_GAPS: f64 = 2.0003;

/// Below this spread a beat is steady: a longer distance would show.
const STEADY: f64 = 0.15;

/// Whether what `one` shows is nothing but the structure of `other`.
fn is_structure_of(other: &Candidate, one: &Candidate, proposals: &[Proposal], resolution_s: f64) -> bool {
    explains(other, one, proposals) || comes_again(other, one, proposals, resolution_s)
}

/// Whether the bursts of `fine` come again one beat of `slow` later, and closer to that than they keep a beat of their own: weak and strong phases in
/// turn, the passes of an epoch. Phases that are late each for itself are late by as much for both.
fn comes_again(slow: &Candidate, fine: &Candidate, proposals: &[Proposal], resolution_s: f64) -> bool {
    let (in_slow, in_fine) = (&proposals[slow.proposal], &proposals[fine.proposal]);
    let (of_slow, of_fine) = (&in_slow.stretches[slow.stretch], &in_fine.stretches[fine.stretch]);
    // Smoothing makes any beat steadier.
    if slow.logit <= 0.0
        || in_slow.rule.cut() == Cut::Scale
        || slow.beat_s < 1.3003 * fine.beat_s
        || of_fine.spread * fine.beat_s < (UNEVEN * fine.beat_s).max(resolution_s)
        || of_slow.members.len() < FEW
        || of_slow.spread * slow.beat_s > CLOSER * of_fine.spread * fine.beat_s
    {
        return false;
    }
    let starts_s: Vec<f64> = of_fine.members.iter().map(|&i| in_fine.bursts[i].start_s).collect();
    // Half of a pair may be left over at either end, and the last pair has two. (What smoothing leaves of a phase begins a little early or late.)
    let (first, last) = of_slow.ends();
    let about_s = 0.2997 * fine.beat_s;
    let (from_s, to_s) = (in_slow.bursts[first].start_s - about_s, in_slow.bursts[last].start_s + about_s);
    let n_before = starts_s.partition_point(|&start_s| start_s < from_s);
    let n_after = starts_s.len() - starts_s.partition_point(|&start_s| start_s < to_s);
    if n_before > 1 || n_after > 2 {
        return false;
    }
    let last_s = starts_s[starts_s.len() - 1] - slow.beat_s;
    let near_s = 0.0997 * fine.beat_s;
    let comes_at = |at_s: f64| {
        let next = starts_s.partition_point(|&start_s| start_s < at_s - near_s);
        starts_s.get(next).is_some_and(|&start_s| start_s < at_s + near_s)
    };
    let n_tried = starts_s.partition_point(|&start_s| start_s <= last_s);
    let n_again = starts_s[..n_tried].iter().filter(|&&start_s| comes_at(start_s + slow.beat_s)).count();
    n_tried > 0 && n_again * 5 >= n_tried * 4
}

/// Distances that differ in turn have this spread at least, and differ by more than a bin: a beat need not be a whole number of bins.
const UNEVEN: f64 = 0.05;
/// Distances that differ in turn add up to one that differs less than by half.
const CLOSER: f64 = 0.5;

/// Whether `one` shows bursts within the phases of `other`.
fn explains(other: &Candidate, one: &Candidate, proposals: &[Proposal]) -> bool {
    if other.logit <= 0.0 {
        return false;
    }
    let (whole, part) = (&proposals[other.proposal], &proposals[one.proposal]);
    let (of_whole, of_part) = (&whole.stretches[other.stretch], &part.stretches[one.stretch]);
    // Bursts within phases: many bursts lie within few phases, which stand clearly apart, or the bursts pause with them.
    if other.beat_s <= 1.3003 * one.beat_s || of_whole.log_odds < STRUCTURE_ODDS / 2.0 {
        return false;
    }
    let (n_inside, n_phases) = inside(of_part, part, of_whole, whole);
    // A beat that goes on from one phase to the next is none of theirs.
    let n_breaks = of_part.pauses.len() + of_part.missed;
    let least_odds = if n_breaks + 1 >= n_phases { STRUCTURE_ODDS / 2.0 } else { STRUCTURE_ODDS };
    if of_whole.log_odds < least_odds {
        return false;
    }
    if of_part.spread < STEADY && n_phases > 2 && 2 * (n_breaks + 1) < n_phases {
        return false;
    }
    let pauses_with_them = if whole.rule.cut() == Cut::Scale {
        n_breaks * 3 >= n_phases * 2
    } else {
        whole.separation.is_finite() && whole.separation >= CLEAR_GAPS
            || of_part.pauses.len() >= 2
            || of_part.missed + 1 >= n_phases
            || n_phases <= 2
    };
    pauses_with_them && n_inside * 5 > of_part.members.len() * 4 && n_phases * 5 <= n_inside * 3
}

/// Whether `one` is every second phase of `other`, a steady rhythm: a class of the very same phases, or what smoothing leaves of
/// them (of exact ones, at any multiple). (Every fifth one larger is a dump that a checkpoint joined.)
fn is_every_second(other: &Candidate, one: &Candidate, proposals: &[Proposal], resolution_s: f64) -> bool {
    let (whole, part) = (&proposals[other.proposal], &proposals[one.proposal]);
    let (of_whole, of_part) = (&whole.stretches[other.stretch], &part.stretches[one.stretch]);
    if of_whole.log_odds < 2.0 * STRUCTURE_ODDS || comes_again(one, other, proposals, resolution_s) {
        return false;
    }
    let times = one.beat_s / other.beat_s;
    if part.rule.cut() == Cut::Scale
        && times > 1.3003
        && is_exact(other, of_whole)
        && holds_throughout(of_whole, whole, of_part, part)
    {
        return true;
    }
    let same_phases = match (whole.rule, part.rule) {
        (
            Rule::Runs { level_bps, gap_s, .. },
            Rule::Class { level_bps: level, gap_s: gap, before_closing, .. },
        ) => level_bps == level && gap_s == gap && (!before_closing || gap_s == 0.0),
        // The large ones alone stand above a higher level; or gaps were closed that are hardly shorter than the others.
        (
            Rule::Runs { level_bps: low, gap_s: short, .. },
            Rule::Runs { level_bps: high, gap_s: long, .. },
        ) => low < high || (low == high && short < long && part.separation < 1.4997),
        (Rule::Runs { .. }, Rule::Scale { .. }) => true,
        _ => false,
    };
    let seconds = times < 2.5 || part.rule.cut() == Cut::Scale;
    same_phases
        && seconds
        && takes_nearly_all(of_whole)
        && times > 1.5
        && (times - times.round()).abs() < 0.1
        && of_whole.spread < 0.2
        && is_there_too(of_whole.members.len(), of_part.members.len(), times)
        && (part.rule.cut() == Cut::Scale || evenly_every(of_part, part, of_whole, whole))
}

/// Whether nearly all bursts from its first phase to its last are phases of a beat: where others lie between them, they are every second of something else.
fn takes_nearly_all(stretch: &Stretch) -> bool {
    let (first, last) = stretch.ends();
    stretch.members.len() * 5 >= (last - first + 1) * 4
}

/// Whether what comes between every so many phases is there more than a quarter of the time: one burst that happened to fall between four of them, or
/// more, is no beat.
fn is_there_too(n_whole: usize, n_part: usize, times: f64) -> bool {
    n_whole as f64 > n_part as f64 * (3.0 + times) / 4.0
}

/// Whether the phases are the same and on time, without exception: smoothing finds nothing slower in them, but the grid's own
/// beat against theirs.
fn is_exact(candidate: &Candidate, stretch: &Stretch) -> bool {
    candidate.evidence[EVENNESS] > 2.9
        && candidate.evidence[ODD_VOLUMES] == 0.0
        && stretch.spread < 0.05
        && stretch.missed == 0
        && stretch.pauses.is_empty()
}

/// Whether a beat holds wherever another one does.
fn holds_throughout(of_one: &Stretch, one: &Proposal, of_other: &Stretch, other: &Proposal) -> bool {
    let span = |stretch: &Stretch, proposal: &Proposal| {
        let (first, last) = stretch.ends();
        (proposal.bursts[first].start_s, proposal.bursts[last].start_s)
    };
    let ((from_s, to_s), (other_from_s, other_to_s)) = (span(of_one, one), span(of_other, other));
    from_s <= other_from_s + of_other.beat_s && to_s >= other_to_s - of_other.beat_s
}

/// Whether (nearly) every phase of `part` begins where one of `whole` begins.
fn evenly_every(of_part: &Stretch, part: &Proposal, of_whole: &Stretch, whole: &Proposal) -> bool {
    let near_s = 0.0997 * of_whole.beat_s;
    let starts: Vec<f64> = of_whole.members.iter().map(|&i| whole.bursts[i].start_s).collect();
    let same = |start_s: f64| {
        let at = starts.partition_point(|&other_s| other_s < start_s - near_s);
        starts.get(at).is_some_and(|&other_s| other_s < start_s + near_s)
    };
    let n_same = of_part.members.iter().filter(|&&i| same(part.bursts[i].start_s)).count();
    n_same * 10 >= of_part.members.len() * 9
}

/// The share of `one`'s phases that lie within phases of `other`.
fn shared(of_one: &Stretch, one: &Proposal, of_other: &Stretch, other: &Proposal) -> f64 {
    inside(of_one, one, of_other, other).0 as f64 / of_one.members.len() as f64
}

/// How many of `one`'s phases lie within phases of `other`, and within how many of these.
fn inside(of_one: &Stretch, one: &Proposal, of_other: &Stretch, other: &Proposal) -> (usize, usize) {
    let (mut n_inside, mut n_phases, mut last) = (0, 0, None);
    for &i in &of_one.members {
        let middle_s = (one.bursts[i].start_s + one.bursts[i].end_s) / 2.0;
        let n_begun = of_other.members.partition_point(|&i| other.bursts[i].start_s <= middle_s);
        if n_begun > 0 && other.bursts[of_other.members[n_begun - 1]].end_s >= middle_s {
            n_inside += 1;
            if last != Some(n_begun) {
                (n_phases, last) = (n_phases + 1, Some(n_begun));
            }
        }
    }
    (n_inside, n_phases)
}

/// Returns the usual bytes of a phase of the stretch.
fn median_bytes(stretch: &Stretch, proposal: &Proposal) -> f64 {
    usual(stretch.members.iter().map(|&i| proposal.bursts[i].bytes).collect())
}

/// Returns the bytes of all phases of the stretch.
fn bytes_of(stretch: &Stretch, proposal: &Proposal) -> f64 {
    stretch.members.iter().map(|&i| proposal.bursts[i].bytes).sum()
}

/// Bytes up to any time.
pub(crate) struct Sums<'a> {
    steps: &'a Steps,
    until: Vec<f64>,
}

impl<'a> Sums<'a> {
    pub(crate) fn of(steps: &'a Steps) -> Self {
        let mut until = Vec::with_capacity(steps.len() + 1);
        until.push(0.0);
        for i in 0..steps.len() {
            until.push(until[i] + steps.rates_bps[i] * (steps.times_s[i + 1] - steps.times_s[i]));
        }
        Self { steps, until }
    }

    fn at(&self, time_s: f64) -> f64 {
        let n_begun = self.steps.times_s.partition_point(|&begun_s| begun_s <= time_s);
        if n_begun == 0 {
            return 0.0;
        }
        let i = n_begun - 1;
        let rate_bps = self.steps.rates_bps.get(i).copied().unwrap_or(0.0);
        self.until[i] + rate_bps * (time_s - self.steps.times_s[i])
    }

    pub(crate) fn between(&self, from_s: f64, to_s: f64) -> f64 {
        self.at(to_s) - self.at(from_s)
    }
}

struct Choice<'a> {
    proposals: &'a [Proposal],
    candidates: &'a [Candidate],
    total_bytes: f64,
    /// Whether each candidate moves a share of the bytes that is worth the headline; needed for every pair, so computed once.
    matters: Vec<bool>,
}

impl<'a> Choice<'a> {
    fn of(proposals: &'a [Proposal], candidates: &'a [Candidate], total_bytes: f64) -> Self {
        let matters = |candidate: &Candidate| {
            let proposal = &proposals[candidate.proposal];
            bytes_of(&proposal.stretches[candidate.stretch], proposal) > LEAST_SHARE * total_bytes
        };
        let matters = candidates.iter().map(matters).collect();
        Self { proposals, candidates, total_bytes, matters }
    }

    fn findings(&self) -> Findings {
        let support: Vec<f64> = (0..self.candidates.len()).map(|i| self.support(i)).collect();
        let order = self.ordered(&support);
        let mut accepted: Vec<usize> = Vec::new();
        if let Some(&first) = order.first()
            && support[first] > HOLDS
        {
            accepted.push(self.best_of(first));
            // Beside it, odds that leave no doubt count for as much as everything else.
            let beside: Vec<f64> =
                (0..support.len()).map(|i| support[i].max(self.beside_by_odds(i).unwrap_or(0.0))).collect();
            for i in self.ordered(&beside) {
                if beside[i] <= BESIDE || accepted.len() == MOST_RHYTHMS {
                    continue;
                }
                let enough = support[i] > BESIDE || self.stretch(i).0.members.len() >= ENOUGH_BESIDE;
                let fits = |i: &usize| {
                    let beside = |other| (enough || self.apart(*i, other)) && self.compatible(*i, other);
                    accepted.iter().all(|&other| beside(other))
                };
                if let Some(fitting) = [self.best_of(i), i].into_iter().find(fits) {
                    accepted.push(fitting);
                }
            }
        }
        let mut rhythms: Vec<Found> = self.with_own_bytes(&accepted);
        // As probable as the evidence by which it was found.
        if let (Some(rhythm), Some(&first)) = (rhythms.first_mut(), order.first()) {
            rhythm.confidence = rhythm.confidence.max(probability(support[first]));
        }
        rhythms.retain(|rhythm| rhythm.own_bytes > NEGLIGIBLE * self.total_bytes);
        heaviest_first(&mut rhythms);
        let best = order.first().copied();
        let p_periodic = support.iter().copied().map(probability).fold(0.0, f64::max);
        let mut ranking: Vec<(f64, f64)> = Vec::new();
        for &i in &order {
            let beat_s = self.candidates[i].beat_s;
            if ranking.len() < 5 && ranking.iter().all(|(other_s, _)| !agree(beat_s, *other_s)) {
                ranking.push((beat_s, probability(support[i])));
            }
        }
        Findings {
            p_periodic,
            ranking,
            n_phases: self
                .proposals
                .iter()
                .map(|proposal| if is_one_phase(proposal) { 1 } else { proposal.bursts.len() })
                .max()
                .unwrap_or(0),
            few: self.few(),
            best: best.map(|best| self.found(best)),
            rhythms,
        }
    }

    /// All candidates, those that matter and have the highest score first. Equals are ordered by what they hold, not by
    /// their last digits.
    fn ordered(&self, scores: &[f64]) -> Vec<usize> {
        let key = |i: usize| {
            let rounded = |value: f64| (value * 1e6).round();
            (
                self.matters[i],
                rounded(scores[i]),
                rounded(self.candidates[i].logit),
                self.stretch(i).0.members.len(),
            )
        };
        let mut order: Vec<usize> = (0..self.candidates.len()).collect();
        order.sort_by(|&a, &b| {
            let (a, b) = (key(b), key(a));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2)).then(a.3.cmp(&b.3))
        });
        order
    }

    /// The logit that the odds of the beat alone give a rhythm beside another; `None` if they leave a doubt.
    fn beside_by_odds(&self, i: usize) -> Option<f64> {
        let log_odds = self.stretch(i).0.log_odds;
        (log_odds > CLEARLY_BESIDE).then_some(log_odds / 6.0)
    }

    fn stretch(&self, i: usize) -> (&Stretch, &Proposal) {
        let candidate = &self.candidates[i];
        let proposal = &self.proposals[candidate.proposal];
        (&proposal.stretches[candidate.stretch], proposal)
    }

    /// The logit of a rhythm by all the candidates that tell the same beat at the same time.
    fn support(&self, i: usize) -> f64 {
        let top = self.candidates[i].logit;
        let same = (0..self.candidates.len()).filter(|&j| self.tells_the_same(i, j));
        let sum: f64 = same.map(|j| (self.candidates[j].logit - top).min(50.0).exp()).sum();
        top + sum.ln()
    }

    /// From when to when a candidate holds.
    fn span(&self, i: usize) -> (f64, f64) {
        let (stretch, proposal) = self.stretch(i);
        let (first, last) = stretch.ends();
        (proposal.bursts[first].start_s, proposal.bursts[last].end_s)
    }

    fn phases(&self, i: usize) -> Vec<Burst> {
        let (stretch, proposal) = self.stretch(i);
        stretch.members.iter().map(|&member| proposal.bursts[member]).collect()
    }

    fn found(&self, i: usize) -> Found {
        let (stretch, proposal) = self.stretch(i);
        let phases = self.phases(i);
        Found {
            beat_s: stretch.beat_s,
            spread: stretch.spread,
            missed: stretch.missed + stretch.missed_in_pauses,
            own_bytes: phases.iter().map(|phase| phase.bytes).sum(),
            phases,
            confidence: probability(self.support(i)),
            rule: proposal.rule,
        }
    }

    /// Whether one ends before the other begins.
    fn apart(&self, a: usize, b: usize) -> bool {
        let (a, b) = (self.span(a), self.span(b));
        a.1 <= b.0 || b.1 <= a.0
    }

    /// Whether two rhythms can hold: they have phases of their own, at once or one after the other.
    fn compatible(&self, a: usize, b: usize) -> bool {
        let (of_a, in_a) = self.stretch(a);
        let (of_b, in_b) = self.stretch(b);
        if self.apart(a, b) {
            return true;
        }
        let (slow, fast) = if of_a.beat_s > of_b.beat_s {
            ((of_a, in_a), (of_b, in_b))
        } else {
            ((of_b, in_b), (of_a, in_a))
        };
        let times = slow.0.beat_s / fast.0.beat_s;
        if agree(of_a.beat_s, of_b.beat_s) || times.ln() < SAME_BEAT {
            return false;
        }
        let (slow_cut, fast_cut) = (slow.1.rule.cut(), fast.1.rule.cut());
        // What smoothing leaves of a rhythm at a half or a third of its beat keeps no beat of its own.
        if fast_cut == Cut::Scale && fast.0.spread > STEADY {
            return false;
        }
        let runs_on = slow_cut == Cut::Scale
            && fast_cut != Cut::Scale
            && times.ln() > 0.6
            && fast.1.bursts.iter().map(|burst| burst.bytes).sum::<f64>() < 0.9 * self.total_bytes;
        // Phases of a slow rhythm may meet those of a fast one now and then; not the other way round.
        let slow_in_fast = shared(slow.0, slow.1, fast.0, fast.1);
        let fast_in_slow = shared(fast.0, fast.1, slow.0, slow.1);
        // A checkpoint may join every fifth dump, and then holds one of five.
        let fast_bytes = median_bytes(fast.0, fast.1);
        let joined = times.ln() > 2.5f64.ln()
            && slow_cut != Cut::Scale
            && median_bytes(slow.0, slow.1) > 1.25 * fast_bytes
            && bytes_of(slow.0, slow.1) - slow.0.members.len() as f64 * fast_bytes
                > LEAST_JOINED * self.total_bytes;
        let one_in_each = joined && fast_in_slow < 0.5 && fast_in_slow * times < 2.5;
        runs_on || ((slow_in_fast < 0.5 || joined) && (fast_in_slow < 0.25 || one_in_each))
    }

    /// The most probable of the candidates that tell the same beat at the same time. Smoothing finds a rhythm but blurs its
    /// edges: where sharper phases tell the very same, they are taken.
    fn best_of(&self, i: usize) -> usize {
        let same: Vec<usize> = (0..self.candidates.len()).filter(|&j| self.tells_the_same(i, j)).collect();
        let top = same.iter().map(|&j| self.candidates[j].logit).fold(f64::NEG_INFINITY, f64::max);
        let likely = same.into_iter().filter(|&j| self.candidates[j].logit > top - UNLIKELY);
        let best = self.most_probable(likely).unwrap_or(i);
        let (beat_s, logit) = (self.candidates[best].beat_s, self.candidates[best].logit);
        // One phase more or less, and it is another cut, not a sharper one.
        let sharper = (0..self.candidates.len())
            .filter(|&j| self.stretch(j).1.rule.cut() != Cut::Scale && self.tells_the_same(best, j))
            .filter(|&j| (self.candidates[j].beat_s / beat_s - 1.0).abs() < SAME_PHASES)
            .filter(|&j| self.candidates[j].logit > (logit - BLURRED).min(CERTAIN));
        let best = self.most_probable(sharper).unwrap_or(best);
        self.steadier_than(best).unwrap_or(best)
    }

    /// The steady rhythm of which smoothing has left candidate `i`, a looser one of nearly the same beat: where a phase of another rhythm falls between two of
    /// its own, the three become one, and the mean distance grows.
    fn steadier_than(&self, i: usize) -> Option<usize> {
        let (smooth, proposal) = self.stretch(i);
        if proposal.rule.cut() != Cut::Scale {
            return None;
        }
        let is_steadier = |&j: &usize| {
            let (sharp, proposal) = self.stretch(j);
            proposal.rule.cut() != Cut::Scale
                && (sharp.beat_s / smooth.beat_s).ln().abs() < SAME_BEAT
                && sharp.spread < STEADIER * smooth.spread
                && sharp.members.len() >= smooth.members.len()
                && self.candidates[j].logit > CERTAIN
        };
        self.most_probable((0..self.candidates.len()).filter(is_steadier))
    }

    /// The most probable of some candidates, and of those that are, the one whose phases keep the beat best.
    fn most_probable(&self, some: impl Iterator<Item = usize>) -> Option<usize> {
        // Equals are told apart by what they hold, not by their last digits.
        let key = |j: &usize| {
            let stretch = self.stretch(*j).0;
            // To smooth, to join what stands apart, or to leave beats out makes any phases more even.
            let candidate = &self.candidates[*j];
            let forced =
                candidate.evidence[BY_SCALE] + candidate.evidence[UNCLEAR_BREAK] + candidate.evidence[MISSED];
            let score = candidate.logit + KEEPS_BEST * (compressed(stretch.log_odds) - forced);
            ((score * 1e6).round(), stretch.members.len())
        };
        some.max_by(|a, b| {
            let (a, b) = (key(a), key(b));
            a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
        })
    }

    /// Whether two candidates tell the same beat at the same time.
    fn tells_the_same(&self, i: usize, j: usize) -> bool {
        let (one, other) = (self.span(i), self.span(j));
        self.matters[i] == self.matters[j]
            && agree(self.candidates[i].beat_s, self.candidates[j].beat_s)
            && one.0 < other.1
            && other.0 < one.1
    }

    /// Returns the rhythms with the bytes that each moves of its own: where phases of two rhythms meet, the lighter one counts as usual and
    /// the heavier one for the rest.
    fn with_own_bytes(&self, accepted: &[usize]) -> Vec<Found> {
        let mut rhythms: Vec<Found> = accepted.iter().map(|&i| self.found(i)).collect();
        // A rhythm that holds beside another for its odds alone is as probable as these make it.
        for (rhythm, &i) in rhythms.iter_mut().zip(accepted).skip(1) {
            if let Some(logit) = self.beside_by_odds(i) {
                rhythm.confidence = rhythm.confidence.max(probability(logit));
            }
        }
        let usual: Vec<f64> = accepted
            .iter()
            .map(|&i| {
                let (stretch, proposal) = self.stretch(i);
                median_bytes(stretch, proposal)
            })
            .collect();
        let mut shares: Vec<Vec<f64>> = Vec::new();
        // Of two that move the same, the first has what they share.
        let is_heavier = |i: usize, j: usize| {
            if (usual[i] / usual[j] - 1.0).abs() < SAME_BYTES { i > j } else { usual[i] > usual[j] }
        };
        for i in 0..rhythms.len() {
            let own: Vec<f64> = rhythms[i]
                .phases
                .iter()
                .map(|phase| {
                    let mut own = phase.bytes;
                    for (j, other) in rhythms.iter().enumerate().filter(|&(j, _)| j != i) {
                        let from = other.phases.partition_point(|o| o.end_s <= phase.start_s);
                        let n_met = other.phases[from..].partition_point(|o| o.start_s < phase.end_s);
                        if n_met > 0 && is_heavier(i, j) {
                            own = (own - n_met as f64 * usual[j]).max(0.0);
                        } else if n_met > 0 {
                            own = own.min(usual[i]);
                        }
                    }
                    own
                })
                .collect();
            rhythms[i].own_bytes = own.iter().sum();
            shares.push(own);
        }
        // Phases that were found by smoothing reach into each other; together they move no more than the run.
        let mut left = self.total_bytes;
        for (rhythm, shares) in rhythms.iter_mut().zip(shares) {
            let part = if rhythm.own_bytes > left { left / rhythm.own_bytes } else { 1.0 };
            rhythm.own_bytes *= part;
            left -= rhythm.own_bytes;
            for (phase, own) in rhythm.phases.iter_mut().zip(shares) {
                phase.bytes = part * own;
            }
        }
        rhythms
    }

    /// Nearly all of the signal as three or four stretches of activity.
    fn few(&self) -> Option<Found> {
        self.proposals
            .iter()
            .filter(|proposal| proposal.rule.cut() == Cut::Runs && proposal.bursts.len() <= 4)
            // What stands no further apart than its pieces is no phase.
            .filter(|proposal| proposal.separation >= CLEAR_GAPS)
            .filter(|proposal| {
                proposal.bursts.iter().map(|burst| burst.bytes).sum::<f64>() > 0.95 * self.total_bytes
            })
            .max_by(|a, b| a.separation.total_cmp(&b.separation))
            .map(|proposal| {
                let bursts = &proposal.bursts;
                let n = bursts.len();
                Found {
                    beat_s: (bursts[n - 1].start_s - bursts[0].start_s) / (n - 1) as f64,
                    spread: 0.0,
                    missed: 0,
                    own_bytes: bursts.iter().map(|burst| burst.bytes).sum(),
                    phases: bursts.clone(),
                    confidence: 0.0,
                    rule: proposal.rule,
                }
            })
    }
}

/// Puts the rhythm that moves most bytes of its own first; of those that move the same, the one that begins first, and not the one that is ahead in the last digit.
pub(super) fn heaviest_first(rhythms: &mut [Found]) {
    let most = rhythms.iter().map(|rhythm| rhythm.own_bytes).fold(f64::MIN_POSITIVE, f64::max);
    let share = |rhythm: &Found| (rhythm.own_bytes / most / SAME_BYTES).round();
    let start_s = |rhythm: &Found| rhythm.phases.first().map_or(0.0, |phase| phase.start_s);
    rhythms.sort_by(|a, b| share(b).total_cmp(&share(a)).then(start_s(a).total_cmp(&start_s(b))));
}

fn agree(a_s: f64, b_s: f64) -> bool {
    (a_s / b_s - 1.0).abs() < 0.05
}

fn probability(logit: f64) -> f64 {
    (1.0 / (1.0 + (-SHARPNESS * logit).exp())).min(MOST_CERTAIN)
}

/// Nobody is more certain than this of anything: no evaluation has had so many cases that more could be said.
pub(crate) const MOST_CERTAIN: f64 = 0.9999;

/// Logits times this read as probabilities (`cargo xtask accuracy period --fit-confidence`: 1.4 to 2.2 by seed, more where next to nothing is wrong).
const SHARPNESS: f64 = 1.9;

/// The logit from which a rhythm is reported; below, as many would be wrong as right.
const HOLDS: f64 = 0.0;
/// The logit from which a second rhythm is believed beside the first.
const BESIDE: f64 = 1.5;
/// The odds from which a beat is believed beside another, whatever else is or is not known of it.
const CLEARLY_BESIDE: f64 = 12.0;
/// … if there are so many phases, or they come before or after it: a few of many will happen to be even.
const ENOUGH_BESIDE: usize = 8;
/// Smooth phases must be this much more probable than sharp ones, and these less than [`CERTAIN`].
const BLURRED: f64 = 8.0;
/// Least share of the bytes from which on the surplus of every few phases over the others is a rhythm of its own.
const LEAST_JOINED: f64 = 0.045;
/// The logit from which nothing sharper or more probable is needed.
const CERTAIN: f64 = 2.0;
/// A cut that is so much less probable than another one of the same beat is not taken for keeping it better.
const UNLIKELY: f64 = 3.0;
/// How much the odds of the beat count among cuts that tell the same beat.
const KEEPS_BEST: f64 = 4.0;
/// Volumes that differ by less are the same.
const SAME_BYTES: f64 = 1e-6;
/// A beat whose spread is less than this share of another's is steadier by far.
const STEADIER: f64 = 0.4997;
/// Beats that differ by less come from the same phases.
const SAME_PHASES: f64 = 0.02;
/// Of two rhythms at once, the logarithms of the beats differ by more.
pub(super) const SAME_BEAT: f64 = 0.14;
/// More rhythms than this in one direction nobody has seen.
const MOST_RHYTHMS: usize = 4;
/// A rhythm below this share of the bytes is not the headline while one above exists.
const LEAST_SHARE: f64 = 0.01;
/// A rhythm with a smaller share of the bytes is not worth a word.
const NEGLIGIBLE: f64 = 1e-4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_rhythms_that_move_the_same_the_one_that_begins_first_is_first() {
        let found = |start_s: f64, own_bytes: f64| Found {
            beat_s: 10.0,
            spread: 0.0,
            missed: 0,
            phases: vec![Burst { start_s, end_s: start_s + 1.0, bytes: own_bytes }],
            own_bytes,
            confidence: 1.0,
            rule: Rule::Scale { period_s: 10.0 },
        };
        let a_digit_more = 1.0 + f64::EPSILON;
        for (early, late) in [(1e9, 1e9), (1e9 * a_digit_more, 1e9), (1e9, 1e9 * a_digit_more)] {
            for mut rhythms in [
                [found(500.0, late), found(0.0, early), found(200.0, 2e9)],
                [found(0.0, early), found(200.0, 2e9), found(500.0, late)],
            ] {
                heaviest_first(&mut rhythms);
                assert_eq!(rhythms.map(|rhythm| rhythm.phases[0].start_s), [200.0, 0.0, 500.0]);
            }
        }
    }
}
