//! Ways of cutting a signal into phases.

use super::explain::{Stretch, explain};
use super::scale::Pyramid;
use super::steps::{Burst, Steps, join, natural_gaps, natural_volumes};

/// Phases that might have a rhythm, and the stretches in which they keep a beat.
#[derive(Clone, Debug)]
pub(crate) struct Proposal {
    pub rule: Rule,
    pub bursts: Vec<Burst>,
    pub stretches: Vec<Stretch>,
    /// The shortest gap between its phases over the longest within them; infinite if phases have no gaps within.
    pub separation: f64,
}

/// How phases were cut out of a signal, exactly enough to do it again. Lengths are in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rule {
    /// Stretches with more than `level_bps`, gaps shorter than `gap_s` closed.
    Runs { level_bps: f64, gap_s: f64 },
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
        Rule::Runs { level_bps, gap_s } => join(&steps.bursts_above(level_bps), gap_s),
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
        Rule::Scale { period_s } => Scales::of(steps).map_or_else(Vec::new, |scales| scales.phases_at(period_s).0),
    }
}

/// All proposals with at least three phases.
pub(crate) fn propose(steps: &Steps) -> Vec<Proposal> {
    let mut proposals = Proposals { list: Vec::new(), resolution_s: steps.resolution_s };
    for level_bps in steps.levels_bps() {
        let runs = steps.bursts_above(level_bps);
        if runs.len() < 3 {
            continue;
        }
        proposals.close_gaps(&runs, most_breaks(runs.len()), |gap_s| Rule::Runs { level_bps, gap_s }, true);
        // A log line between the bursts of a phase keeps their gaps apart: classes are told before gaps are closed, too.
        if runs.len() >= 6 {
            for cut in natural_volumes(&runs, 2) {
                for upper in [true, false] {
                    let class: Vec<Burst> =
                        runs.iter().filter(|run| (run.bytes > cut.at) == upper).copied().collect();
                    let rule = |gap_s| Rule::Class {
                        level_bps,
                        gap_s,
                        bytes: cut.at,
                        upper,
                        before_closing: true,
                    };
                    proposals.close_gaps(&class, 4.min(most_breaks(class.len())), rule, false);
                }
            }
        }
    }
    if let Some(scales) = Scales::of(steps) {
        scales.propose(&mut proposals);
    }
    proposals.list
}

/// How many breaks to try: the more bursts there are, the more each costs, and the clearer the few widest stand out.
fn most_breaks(n_bursts: usize) -> usize {
    match n_bursts {
        0..=20_000 => 10,
        20_001..=100_000 => 5,
        _ => 3,
    }
}

struct Proposals {
    list: Vec<Proposal>,
    resolution_s: f64,
}

impl Proposals {
    /// Proposes `bursts` as they are and with gaps closed at each natural break; with `classes`, also the large and the small ones
    /// of each.
    fn close_gaps(&mut self, bursts: &[Burst], most: usize, rule: impl Fn(f64) -> Rule, classes: bool) {
        let mut levels: Vec<(f64, f64)> =
            natural_gaps(bursts, most).into_iter().map(|gap| (gap.at, gap.ratio)).collect();
        levels.push((0.0, f64::INFINITY));
        for (gap_s, separation) in levels {
            let pieces = join(bursts, gap_s);
            if pieces.len() < 3 {
                continue;
            }
            let whole = rule(gap_s);
            if classes
                && pieces.len() >= 6
                && let Rule::Runs { level_bps, gap_s } = whole
            {
                for cut in natural_volumes(&pieces, 4.min(most)) {
                    for upper in [true, false] {
                        let class: Vec<Burst> =
                            pieces.iter().filter(|piece| (piece.bytes > cut.at) == upper).copied().collect();
                        let rule = Rule::Class {
                            level_bps,
                            gap_s,
                            bytes: cut.at,
                            upper,
                            before_closing: false,
                        };
                        self.add(rule, class, separation);
                    }
                }
            }
            self.add(whole, pieces, separation);
        }
    }

    fn add(&mut self, rule: Rule, bursts: Vec<Burst>, separation: f64) {
        if bursts.len() < 3 {
            return;
        }
        // The same phases come out at several levels; the ones that hold more of the bytes stand for all.
        let same = |other: &Proposal| {
            other.bursts.len() == bursts.len()
                && (other.rule.cut() == Cut::Scale) == (rule.cut() == Cut::Scale)
                && [0, bursts.len() / 2, bursts.len() - 1].iter().all(|&i| {
                    let (one, two) = (&other.bursts[i], &bursts[i]);
                    two.start_s < one.end_s && one.start_s < two.end_s
                })
        };
        if let Some(twin) = self.list.iter().position(same) {
            let bytes = |bursts: &[Burst]| bursts.iter().map(|burst| burst.bytes).sum::<f64>();
            if bytes(&self.list[twin].bursts) >= bytes(&bursts) * (1.0 - 1e-9) {
                return;
            }
            self.list.remove(twin);
        }
        let stretches = explain(&bursts, self.resolution_s);
        self.list.push(Proposal { rule, bursts, stretches, separation });
    }
}

/// The signal on an even grid, at halving resolutions.
struct Scales {
    pyramid: Pyramid,
    bin_s: f64,
    n_bins: usize,
}

impl Scales {
    /// More samples than this show no scale better.
    const MOST_BINS: usize = 1 << 14;

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
        let bins =
            if n_bins == steps.len() && steps.bin_s.is_some() { steps.rates_bps.clone() } else { steps.in_bins(n_bins) };
        Some(Self { pyramid: Pyramid::new(bins), bin_s: duration_s / n_bins as f64, n_bins })
    }

    fn phases_at(&self, period_s: f64) -> (Vec<Burst>, f64) {
        let period = period_s / self.bin_s;
        if !(2.0..=self.n_bins as f64).contains(&period) {
            return (Vec::new(), 0.0);
        }
        let (mut phases, depth) = self.pyramid.phases_at(period);
        for phase in &mut phases {
            phase.start_s *= self.bin_s;
            phase.end_s *= self.bin_s;
            phase.bytes *= self.bin_s;
        }
        (phases, depth)
    }

    fn propose(&self, proposals: &mut Proposals) {
        let mut period = 6.0;
        while period < self.n_bins as f64 / 2.0 {
            let (phases, depth) = self.phases_at(period * self.bin_s);
            if phases.len() >= 3 {
                let found_s = (phases[phases.len() - 1].start_s - phases[0].start_s) / (phases.len() - 1) as f64;
                // A rhythm survives smoothing at its own scale. What rises and falls by a few per cent is no phase: it is
                // what smoothing leaves of a finer rhythm, or the grid's own beat against it.
                if (found_s / (period * self.bin_s)).ln().abs() < 0.3 && depth > LEAST_DEPTH {
                    proposals.add(Rule::Scale { period_s: period * self.bin_s }, phases, 1.0);
                }
            }
            period *= 1.25;
        }
    }
}

/// How far the smoothed signal must fall between phases, as a share of its crests. A sine that touches zero falls by 0.78 at
/// its own scale.
const LEAST_DEPTH: f64 = 0.25;
