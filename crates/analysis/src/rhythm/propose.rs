//! Ways of cutting a signal into phases.

use super::explain::{LONG, Signal, Stretch, explain};
use super::rows::without_rounding;
use super::scale::{Pyramid, Scratch};
use super::steps::{Burst, Steps, join, natural_gaps, natural_volumes, usual};

/// Phases that might have a rhythm, and the stretches in which they keep a beat.
#[derive(Clone, Debug)]
pub(crate) struct Proposal {
    pub rule: Rule,
    pub bursts: Vec<Burst>,
    pub stretches: Vec<Stretch>,
    /// The shortest gap between its phases over the longest within them; infinite if phases have no gaps within.
    pub separation: f64,
    /// The share of the gaps between bursts that were closed.
    pub closed: f64,
    /// All bytes above the level of bandwidth at which it was cut.
    pub bytes_above: f64,
}

/// How phases were cut out of a signal, exactly enough to do it again. Lengths are in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rule {
    /// Stretches with more than `level_bps`, gaps shorter than `gap_s` closed; what then moves less than `least_bytes` is left out.
    Runs { level_bps: f64, gap_s: f64, least_bytes: f64 },
    /// Of these, before or after the gaps are closed, those that move more than `bytes` (or those that do not).
    Class { level_bps: f64, gap_s: f64, bytes: f64, upper: bool, before_closing: bool },
    /// Smoothed at the scale of `period_s`.
    Scale { period_s: f64 },
}

/// The kinds of [`Rule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    Runs,
    Class,
    Scale,
}

impl Rule {
    pub(crate) fn cut(self) -> Cut {
        match self {
            Self::Runs { .. } => Cut::Runs,
            Self::Class { .. } => Cut::Class,
            Self::Scale { .. } => Cut::Scale,
        }
    }
}

/// Cuts a signal into phases as `rule` says, whether they have a rhythm or not.
pub(crate) fn cut_by(steps: &Steps, rule: Rule) -> Vec<Burst> {
    match rule {
        Rule::Runs { level_bps, gap_s, least_bytes } => {
            let mut bursts = join(&steps.bursts_above(level_bps), gap_s);
            bursts.retain(|burst| burst.bytes >= least_bytes);
            bursts
        }
        Rule::Class { level_bps, gap_s, bytes, upper, before_closing } => {
            let mut bursts = steps.bursts_above(level_bps);
            let wanted = |burst: &Burst| (burst.bytes > bytes) == upper;
            if before_closing {
                bursts.retain(wanted);
                join(&bursts, gap_s)
            } else {
                let mut joined = join(&bursts, gap_s);
                joined.retain(wanted);
                joined
            }
        }
        Rule::Scale { period_s } => Scales::of(steps)
            .map_or_else(Vec::new, |scales| scales.phases_at(period_s, &mut Scratch::default()).0),
    }
}

/// All proposals with at least three phases.
pub(crate) fn propose(steps: &Steps) -> Vec<Proposal> {
    let mut proposals = Proposals {
        list: Vec::new(),
        signal: Signal { resolution_s: steps.resolution_s, is_brief: is_brief(&steps.bursts_above(0.0)) },
        row_s: steps.row_s,
        bytes_above: steps.bytes(),
        closed: 0.0,
        most_bursts: MOST_BURSTS,
    };
    let mut n_before = 0;
    for level_bps in steps.levels_bps() {
        let runs = steps.bursts_above(level_bps);
        // A loop of very many requests shows at every level: one look at it is enough.
        let is_known = runs.len() > LONG && runs.len().abs_diff(n_before) < runs.len() / 100;
        if runs.len() < 3 || is_known {
            continue;
        }
        n_before = runs.len();
        proposals.bytes_above = runs.iter().map(|run| run.bytes).sum();
        proposals.close_gaps(
            &runs,
            most_breaks(runs.len()),
            |gap_s| Rule::Runs { level_bps, gap_s, least_bytes: 0.0 },
            true,
            level_bps > 0.0,
        );
        // A log line between the bursts of a phase keeps their gaps apart: classes are told before gaps are closed, too.
        if runs.len() >= 6 {
            for cut in natural_volumes(&runs, 2) {
                for upper in [true, false] {
                    let Some(class) = class_of(&runs, cut.at, upper) else { continue };
                    let rule =
                        |gap_s| Rule::Class { level_bps, gap_s, bytes: cut.at, upper, before_closing: true };
                    // Closing gaps among the small ones would join whatever the large ones leave between them.
                    let most = if upper { 4.min(most_breaks(class.len())) } else { 0 };
                    proposals.close_gaps(&class, most, rule, false, level_bps > 0.0);
                }
            }
        }
    }
    if let Some(scales) = Scales::of(steps) {
        proposals.bytes_above = steps.bytes();
        scales.propose(&mut proposals);
    }
    proposals.list
}

/// Whether bursts are usually short beside the distance from one to the next.
fn is_brief(bursts: &[Burst]) -> bool {
    let distances_s: Vec<f64> = bursts.windows(2).map(|pair| pair[1].start_s - pair[0].start_s).collect();
    !distances_s.is_empty()
        && usual(bursts.iter().map(Burst::duration_s).collect()) < BRIEF * usual(distances_s)
}

/// The share of the usual distance below which a phase is short. (From 0.1 to 0.35 nothing changes in `accuracy period` and in law 10.)
const BRIEF: f64 = 0.1497;

/// The bursts that move more than `bytes`, or those that do not; `None` if a beat among them is not asked for: they are too few, or
/// very many small ones beside larger ones.
fn class_of(bursts: &[Burst], bytes: f64, upper: bool) -> Option<Vec<Burst>> {
    let is_in = |burst: &&Burst| (burst.bytes > bytes) == upper;
    let n = bursts.iter().filter(is_in).count();
    (n >= 3 && (upper || n <= LONG)).then(|| bursts.iter().filter(is_in).copied().collect())
}

/// How clearly bursts above a level stand apart: a dip of the bandwidth within a phase makes two of one, with a gap that is
/// short beside the usual one. As a separation: infinite without such dips, 1 if they are arbitrarily short.
fn dips(bursts: &[Burst]) -> f64 {
    let gaps: Vec<f64> = bursts.windows(2).map(|pair| pair[1].start_s - pair[0].end_s).collect();
    if gaps.is_empty() {
        return f64::INFINITY;
    }
    let shortest = gaps.iter().copied().fold(f64::INFINITY, f64::min);
    let share = shortest / usual(gaps) / SHORT_DIP;
    if share >= 1.0 { f64::INFINITY } else { 1.0 + 2.0 * share }
}

/// A gap shorter than this share of the usual one may be a dip within a phase.
const SHORT_DIP: f64 = 0.2997;

/// How many breaks to try: the more bursts there are, the more each costs, and the clearer the few widest stand out.
fn most_breaks(n_bursts: usize) -> usize {
    match n_bursts {
        0..=20_000 => 10,
        20_001..=100_000 => 5,
        _ => 3,
    }
}

/// Enough for half a million phases, cut in two ways.
const MOST_BURSTS: usize = 1 << 20;

struct Proposals {
    list: Vec<Proposal>,
    signal: Signal,
    row_s: f64,
    bytes_above: f64,
    closed: f64,
    /// So many bursts may still be looked at in proposals of more than [`LONG`].
    most_bursts: usize,
}

impl Proposals {
    /// Proposes `bursts` as they are and with gaps closed at each natural break; with `classes`, also the large and the small ones
    /// of each.
    fn close_gaps(
        &mut self,
        bursts: &[Burst],
        most: usize,
        rule: impl Fn(f64) -> Rule,
        classes: bool,
        above_zero: bool,
    ) {
        // As they are first: what comes out the same later is not proposed again.
        let mut levels = vec![(0.0, if above_zero { dips(bursts) } else { f64::INFINITY })];
        // Gaps that only rounding makes differ have no break.
        let most = if without_rounding(bursts, self.row_s).is_some() { 0 } else { most };
        levels.extend(natural_gaps(bursts, most).into_iter().map(|gap| (gap.at, gap.ratio)));
        for (gap_s, separation) in levels {
            let mut pieces = join(bursts, gap_s);
            if pieces.len() < 3 {
                continue;
            }
            let mut whole = rule(gap_s);
            if classes
                && pieces.len() >= 6
                && let Rule::Runs { level_bps, gap_s, .. } = whole
            {
                for cut in natural_volumes(&pieces, 4.min(most)) {
                    for upper in [true, false] {
                        let Some(class) = class_of(&pieces, cut.at, upper) else { continue };
                        let rule =
                            Rule::Class { level_bps, gap_s, bytes: cut.at, upper, before_closing: false };
                        self.add(rule, class, separation);
                    }
                }
            }
            self.closed = 1.0 - (pieces.len() - 1) as f64 / (bursts.len() - 1) as f64;
            if let Rule::Runs { least_bytes, .. } = &mut whole
                && let Some(least) = least_of_a_phase(&pieces)
            {
                *least_bytes = least;
                pieces.retain(|piece| piece.bytes >= least);
            }
            self.add(whole, pieces, separation);
            self.closed = 0.0;
        }
    }

    fn explain(&self, bursts: &[Burst]) -> Vec<Stretch> {
        let steady = without_rounding(bursts, self.row_s);
        explain(steady.as_deref().unwrap_or(bursts), self.signal)
    }

    fn add(&mut self, rule: Rule, bursts: Vec<Burst>, separation: f64) {
        if bursts.len() < 3 {
            return;
        }
        // The same loop of requests shows at every level: a few looks at it are enough.
        if bursts.len() > LONG {
            match self.most_bursts.checked_sub(bursts.len()) {
                Some(left) => self.most_bursts = left,
                None => return,
            }
        }
        // The same phases come out at several levels; the ones that hold more of the bytes stand for all.
        if rule.cut() == Cut::Runs
            && let Some(apart) = taken_apart(&bursts)
            && !self.list.iter().any(|other| same(other, rule, &apart))
        {
            let stretches = self.explain(&apart);
            self.list.push(Proposal {
                rule,
                bursts: apart,
                stretches,
                separation,
                bytes_above: self.bytes_above,
                closed: self.closed,
            });
        }
        if let Some(twin) = self.list.iter().position(|other| same(other, rule, &bursts)) {
            let bytes = |bursts: &[Burst]| bursts.iter().map(|burst| burst.bytes).sum::<f64>();
            if bytes(&self.list[twin].bursts) >= bytes(&bursts) * (1.0 - 1e-9) {
                return;
            }
            self.list.remove(twin);
        }
        let stretches = self.explain(&bursts);
        self.list.push(Proposal {
            rule,
            bursts,
            stretches,
            separation,
            bytes_above: self.bytes_above,
            closed: self.closed,
        });
    }
}

/// Returns the least bytes of a phase, where one or another moves next to nothing beside the others: a line of a log, a lock file. It is no
/// phase of theirs, wherever it falls, and among few of them it would be the one that decides. (Where there are many, they have a rhythm of
/// their own, or none: classes show it.)
fn least_of_a_phase(bursts: &[Burst]) -> Option<f64> {
    let least = NO_PHASE * usual(bursts.iter().map(|burst| burst.bytes).collect());
    let n_small = bursts.iter().filter(|burst| burst.bytes < least).count();
    let n_phases = bursts.len() - n_small;
    (n_small > 0 && n_phases >= 3 && n_small <= n_phases / PHASES_FOR_ONE).then_some(least)
}

/// Share of the usual phase below which a burst is not a phase,
const NO_PHASE: f64 = 0.010_03;
/// if there are so many phases for each of its kind.
const PHASES_FOR_ONE: usize = 3;

/// Whether a proposal cuts out the same phases.
fn same(other: &Proposal, rule: Rule, bursts: &[Burst]) -> bool {
    let same = |(one, two): (&Burst, &Burst)| {
        let longer_s = one.duration_s().max(two.duration_s());
        (one.start_s - two.start_s).abs() <= SAME_START * longer_s
            && (one.end_s - two.end_s).abs() <= SAME_END * longer_s
    };
    let n = bursts.len();
    other.bursts.len() == n
        && (other.rule.cut() == Cut::Scale) == (rule.cut() == Cut::Scale)
        && [0, n / 2, n - 1].iter().all(|&i| same((&other.bursts[i], &bursts[i])))
        && other.bursts.iter().zip(bursts).all(same)
}

/// How far starts of the same phase may lie apart, as a share of its length: starts are what keeps a beat. (Here and below no ratio of small
/// whole numbers: times are often whole numbers of bins, and what lies on the very border would be decided by their last digit.)
const SAME_START: f64 = 0.1003;
/// … and ends.
const SAME_END: f64 = 0.3003;

/// Two phases that ran into each other last for more than this share of twice the usual time.
const LONG_ENOUGH: f64 = 0.6003;

/// Phases that ran into each other taken apart: a burst of twice the usual volume and length is two.
///
/// `None` unless nearly all volumes are whole multiples of the usual one, and some are multiples.
fn taken_apart(bursts: &[Burst]) -> Option<Vec<Burst>> {
    let usual_of = |of: fn(&Burst) -> f64| usual(bursts.iter().map(of).collect());
    let (usual, usual_s) = (usual_of(|burst| burst.bytes), usual_of(Burst::duration_s));
    if usual <= 0.0 || usual_s <= 0.0 {
        return None;
    }
    let count = |burst: &Burst| {
        let by_bytes = (burst.bytes / usual).round().max(1.0);
        let long_enough = burst.duration_s() > LONG_ENOUGH * by_bytes * usual_s;
        if long_enough { by_bytes } else { 1.0 }
    };
    let n = bursts.len() as f64;
    let n_single = bursts.iter().filter(|burst| count(burst) == 1.0).count() as f64;
    let n_fitting = bursts
        .iter()
        .filter(|burst| (burst.bytes / usual - count(burst)).abs() < 0.12 * count(burst).sqrt())
        .count() as f64;
    let believed = n_fitting >= 0.9 * n
        && n_single >= 0.6 * n
        && n_single < n
        && bursts.iter().all(|burst| count(burst) <= 4.0);
    believed.then(|| {
        let parts = |burst: &Burst| {
            let (n, burst) = (count(burst), *burst);
            let part_s = burst.duration_s() / n;
            (0..n as usize).map(move |i| Burst {
                start_s: burst.start_s + i as f64 * part_s,
                end_s: burst.start_s + (i + 1) as f64 * part_s,
                bytes: burst.bytes / n,
            })
        };
        bursts.iter().flat_map(parts).collect()
    })
}

/// The signal on an even grid, at halving resolutions.
struct Scales {
    pyramid: Pyramid,
    bin_s: f64,
    n_bins: usize,
}

impl Scales {
    /// More samples than this show no scale better.
    const MOST_BINS: usize = 1 << 13;

    fn of(steps: &Steps) -> Option<Self> {
        let duration_s = steps.duration_s();
        if duration_s <= 0.0 {
            return None;
        }
        let n_bins = match steps.bin_s {
            Some(_) => steps.len().min(Self::MOST_BINS),
            None => Self::MOST_BINS,
        };
        if n_bins < 8 {
            return None;
        }
        let bins = if n_bins == steps.len() && steps.bin_s.is_some() {
            steps.rates_bps.clone()
        } else {
            steps.in_bins(n_bins)
        };
        Some(Self { pyramid: Pyramid::new(&bins), bin_s: duration_s / n_bins as f64, n_bins })
    }

    fn phases_at(&self, period_s: f64, scratch: &mut Scratch) -> (Vec<Burst>, f64) {
        let period = period_s / self.bin_s;
        if !(2.0..=self.n_bins as f64).contains(&period) {
            return (Vec::new(), 0.0);
        }
        let (mut phases, depth) = self.pyramid.phases_at(period, scratch);
        for phase in &mut phases {
            phase.start_s *= self.bin_s;
            phase.end_s *= self.bin_s;
            phase.bytes *= self.bin_s;
        }
        (phases, depth)
    }

    fn propose(&self, proposals: &mut Proposals) {
        let mut scratch = Scratch::default();
        let mut period = 6.0;
        while period < self.n_bins as f64 / 2.0 {
            let (phases, depth) = self.phases_at(period * self.bin_s, &mut scratch);
            if phases.len() >= 3 {
                let found_s =
                    (phases[phases.len() - 1].start_s - phases[0].start_s) / (phases.len() - 1) as f64;
                // A rhythm survives smoothing at its own scale. What rises and falls by a few per cent is no phase: it is
                // what smoothing leaves of a finer rhythm, or the grid's own beat against it.
                if (found_s / (period * self.bin_s)).ln().abs() < 0.3 && depth > LEAST_DEPTH {
                    proposals.add(Rule::Scale { period_s: period * self.bin_s }, phases, f64::INFINITY);
                }
            }
            period *= 1.25;
        }
    }
}

/// How far the smoothed signal must fall between phases, as a share of its crests. A sine that touches zero falls by 0.78 at
/// its own scale.
const LEAST_DEPTH: f64 = 0.25;

#[cfg(test)]
mod tests {
    use super::*;

    /// Phases that begin and end in the middle of nothing but whole bins, compared with the same ones a few bins apart, at a scale of time.
    fn are_same(length: u32, late: u32, longer: u32, times: f64) -> bool {
        let bin_s = 2.0 * times;
        let rule = Rule::Runs { level_bps: 1.0, gap_s: 0.0, least_bytes: 0.0 };
        let bursts = |late: u32, longer: u32| -> Vec<Burst> {
            let burst = |i: u32| {
                let start = 100 * i + late;
                let (start_s, end_s) =
                    (f64::from(start) * bin_s, f64::from(start + length + longer - late) * bin_s);
                Burst { start_s, end_s, bytes: 1e6 }
            };
            (3..9).map(burst).collect()
        };
        let one = Proposal {
            rule,
            bursts: bursts(0, 0),
            stretches: Vec::new(),
            separation: 1.0,
            closed: 0.0,
            bytes_above: 6e6,
        };
        same(&one, rule, &bursts(late, longer))
    }

    #[test]
    fn phases_of_whole_bins_are_the_same_at_any_scale_of_time() {
        for length in 1..60 {
            for late in 0..(length / 5).min(length) {
                for longer in 0..length / 2 {
                    let at = |times| are_same(length, late, longer, times);
                    for times in [1e-6, 1e-3, 0.01, 0.3, 0.7, 1.1, 1.3, 10.0, 1e4] {
                        assert_eq!(
                            at(times),
                            at(1.0),
                            "{length} bins, {late} late, {longer} longer: × {times}"
                        );
                    }
                }
            }
        }
    }
}
