//! Which of the proposed rhythms hold.

use super::evidence::{N_EVIDENCE, evidence, logit};
use super::explain::Stretch;
use super::propose::{Cut, Proposal, Rule, propose};
use super::steps::{Burst, Steps};

/// What the engine finds in a signal. Times are seconds since the signal's start.
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
    /// What its phases move that no rhythm before it has claimed.
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
    let choice = Choice { proposals: &proposals, candidates: &candidates, total_bytes };
    choice.findings(steps)
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
    let mut candidates = Vec::new();
    for (i, proposal) in proposals.iter().enumerate() {
        for (j, stretch) in proposal.stretches.iter().enumerate() {
            let evidence = evidence(proposal, stretch, total_bytes, |from_s, to_s| sums.between(from_s, to_s));
            let logit = logit(&evidence);
            candidates.push(Candidate { proposal: i, stretch: j, beat_s: stretch.beat_s, evidence, logit });
        }
    }
    let dropped: Vec<bool> = candidates
        .iter()
        .map(|one| candidates.iter().any(|other| explains(other, one, proposals)))
        .collect();
    let mut keep = dropped.iter().map(|dropped| !dropped);
    candidates.retain(|_| keep.next().unwrap_or(true));
    candidates
}

/// The odds from which a rhythm of whole phases explains the bursts within them.
const STRUCTURE_ODDS: f64 = 4.0;
/// The gaps between phases must be this many times those within.
const CLEAR_GAPS: f64 = 2.0;

/// Whether what `one` shows is nothing but the structure of `other`.
fn explains(other: &Candidate, one: &Candidate, proposals: &[Proposal]) -> bool {
    if other.logit <= 0.0 {
        return false;
    }
    let (whole, part) = (&proposals[other.proposal], &proposals[one.proposal]);
    let (of_whole, of_part) = (&whole.stretches[other.stretch], &part.stretches[one.stretch]);
    if of_whole.log_odds < STRUCTURE_ODDS {
        return false;
    }
    // Bursts within phases: the phases stand clearly apart, and the bursts lie within them.
    if whole.rule.cut() != Cut::Scale
        && whole.separation >= CLEAR_GAPS
        && whole.separation.is_finite()
        && other.beat_s > 1.3 * one.beat_s
        && of_whole.members.len() * 2 <= of_part.members.len()
        && shared(of_part, part, of_whole, whole) > 0.8
    {
        return true;
    }
    // Every second, third, … phase of a steady rhythm.
    let times = other.beat_s.recip() * one.beat_s;
    times > 1.5
        && (times - times.round()).abs() < 0.1
        && of_whole.spread < 0.2
        && of_whole.members.len() > of_part.members.len()
        && shared(of_part, part, of_whole, whole) > 0.8
        && evenly_every(of_part, part, of_whole, whole)
}

/// Whether (nearly) every phase of `part` begins where one of `whole` begins.
fn evenly_every(of_part: &Stretch, part: &Proposal, of_whole: &Stretch, whole: &Proposal) -> bool {
    let near_s = 0.1 * of_whole.beat_s;
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
    let inside = |burst: &Burst| {
        let middle_s = (burst.start_s + burst.end_s) / 2.0;
        let n_begun = of_other.members.partition_point(|&i| other.bursts[i].start_s <= middle_s);
        n_begun > 0 && other.bursts[of_other.members[n_begun - 1]].end_s >= middle_s
    };
    let n_inside = of_one.members.iter().filter(|&&i| inside(&one.bursts[i])).count();
    n_inside as f64 / of_one.members.len() as f64
}

/// Bytes up to any time.
struct Sums<'a> {
    steps: &'a Steps,
    until: Vec<f64>,
}

impl<'a> Sums<'a> {
    fn of(steps: &'a Steps) -> Self {
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

    fn between(&self, from_s: f64, to_s: f64) -> f64 {
        self.at(to_s) - self.at(from_s)
    }
}

struct Choice<'a> {
    proposals: &'a [Proposal],
    candidates: &'a [Candidate],
    total_bytes: f64,
}

impl Choice<'_> {
    fn findings(&self, steps: &Steps) -> Findings {
        let mut order: Vec<usize> = (0..self.candidates.len()).collect();
        order.sort_by(|&a, &b| self.candidates[b].logit.total_cmp(&self.candidates[a].logit));
        let mut accepted: Vec<usize> = Vec::new();
        for &i in &order {
            let least = if accepted.is_empty() { 0.0 } else { BESIDE };
            if self.candidates[i].logit > least
                && accepted.len() < MOST_RHYTHMS
                && accepted.iter().all(|&other| self.compatible(i, other))
            {
                accepted.push(i);
            }
        }
        for rhythm in &mut accepted {
            *rhythm = self.sharper(*rhythm, &order);
        }
        let mut rhythms: Vec<Found> = self.with_own_bytes(&accepted);
        rhythms.retain(|rhythm| rhythm.own_bytes > NEGLIGIBLE * self.total_bytes);
        rhythms.sort_by(|a, b| b.own_bytes.total_cmp(&a.own_bytes));
        let best = order.first().copied();
        let p_periodic = best.map_or(0.0, |best| probability(self.candidates[best].logit));
        let mut ranking: Vec<(f64, f64)> = Vec::new();
        for &i in &order {
            let beat_s = self.candidates[i].beat_s;
            if ranking.len() < 5 && ranking.iter().all(|(other_s, _)| !agree(beat_s, *other_s)) {
                ranking.push((beat_s, probability(self.candidates[i].logit)));
            }
        }
        Findings {
            p_periodic,
            ranking,
            n_phases: self.proposals.iter().map(|proposal| proposal.bursts.len()).max().unwrap_or(0),
            few: self.few(steps),
            best: best.map(|best| self.found(best)),
            rhythms,
        }
    }

    fn stretch(&self, i: usize) -> (&Stretch, &Proposal) {
        let candidate = &self.candidates[i];
        let proposal = &self.proposals[candidate.proposal];
        (&proposal.stretches[candidate.stretch], proposal)
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
            missed: stretch.missed,
            own_bytes: phases.iter().map(|phase| phase.bytes).sum(),
            phases,
            confidence: probability(self.candidates[i].logit),
            rule: proposal.rule,
        }
    }

    /// Whether two rhythms can hold: they have phases of their own, at once or one after the other.
    fn compatible(&self, a: usize, b: usize) -> bool {
        let (of_a, in_a) = self.stretch(a);
        let (of_b, in_b) = self.stretch(b);
        let span = |of: &Stretch, within: &Proposal| {
            let last = of.members[of.members.len() - 1];
            (within.bursts[of.members[0]].start_s, within.bursts[last].end_s)
        };
        let (span_a, span_b) = (span(of_a, in_a), span(of_b, in_b));
        let apart = span_a.1 <= span_b.0 || span_b.1 <= span_a.0;
        if apart {
            return true;
        }
        let (beat_a, beat_b) = (of_a.beat_s, of_b.beat_s);
        if agree(beat_a, beat_b) || (beat_a / beat_b).ln().abs() < 0.14 {
            return false;
        }
        let runs_on = {
            let (short, long) = if beat_a < beat_b { (in_a, in_b) } else { (in_b, in_a) };
            (beat_a / beat_b).ln().abs() > 0.6
                && long.rule.cut() == Cut::Scale
                && short.rule.cut() != Cut::Scale
        };
        runs_on || (shared(of_a, in_a, of_b, in_b) < 0.25 && shared(of_b, in_b, of_a, in_a) < 0.25)
    }

    /// Smoothing finds a rhythm but blurs its edges: where sharper phases tell the same period, they are taken.
    fn sharper(&self, i: usize, order: &[usize]) -> usize {
        if self.stretch(i).1.rule.cut() != Cut::Scale {
            return i;
        }
        let same = |&&other: &&usize| {
            self.stretch(other).1.rule.cut() != Cut::Scale
                && self.candidates[other].logit > 0.0
                && agree(self.candidates[other].beat_s, self.candidates[i].beat_s)
        };
        order.iter().find(same).copied().unwrap_or(i)
    }

    /// What each rhythm moves that no rhythm before it (more probable than it) has claimed.
    fn with_own_bytes(&self, accepted: &[usize]) -> Vec<Found> {
        let mut rhythms: Vec<Found> = Vec::new();
        for &i in accepted {
            let mut found = self.found(i);
            found.own_bytes = found
                .phases
                .iter()
                .map(|phase| {
                    let claimed_s: f64 = rhythms
                        .iter()
                        .map(|other| {
                            let from = other.phases.partition_point(|o| o.end_s <= phase.start_s);
                            let meeting = other.phases[from..].iter().take_while(|o| o.start_s < phase.end_s);
                            meeting.map(|o| o.end_s.min(phase.end_s) - o.start_s.max(phase.start_s)).sum::<f64>()
                        })
                        .sum();
                    let share = if phase.duration_s() > 0.0 { claimed_s / phase.duration_s() } else { 0.0 };
                    phase.bytes * (1.0 - share).clamp(0.0, 1.0)
                })
                .sum();
            rhythms.push(found);
        }
        rhythms
    }

    fn few(&self, steps: &Steps) -> Option<Found> {
        let _ = steps;
        self.proposals
            .iter()
            .filter(|proposal| proposal.rule.cut() == Cut::Runs && proposal.bursts.len() <= 4)
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

fn agree(a_s: f64, b_s: f64) -> bool {
    (a_s / b_s - 1.0).abs() < 0.05
}

fn probability(logit: f64) -> f64 {
    1.0 / (1.0 + (-logit).exp())
}

/// The logit from which a second rhythm is believed beside the first.
const BESIDE: f64 = 1.0;
/// More rhythms than this in one direction nobody has seen.
const MOST_RHYTHMS: usize = 4;
/// A rhythm with a smaller share of the bytes is not worth a word.
const NEGLIGIBLE: f64 = 1e-4;
