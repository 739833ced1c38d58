//! Chains: operations that follow each other at even distances.
//!
//! The period finder looks at bandwidth over time. A run of few operations has little of it: three checkpoints are three
//! pulses, and two checkpoints of different kinds, or a rhythm with beats left out, are as many pulses at odd distances.
//! What is known there is sharper: single operations with their volumes. So chains of them are proposed beside the
//! finder's rhythms, and every proposal, the finder's own as well, is weighed here by how much better even distances
//! explain it than chance does.

use iotide_num::ln_gamma;

use super::Operation;

/// Operations at even distances.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Chain {
    pub period_s: f64,
    /// Indices of the operations, ascending.
    pub members: Vec<usize>,
    /// How many times more probable even distances are than chance, as a logarithm, everything weighed in.
    pub log_odds: f64,
}

/// How to weigh.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weighing {
    /// The logarithm of how much more common runs without a rhythm are taken to be.
    pub prior: f64,
    /// Volumes and durations whose ratio is below this are of one class.
    pub class_ratio: f64,
}

/// Returns the chains among `operations`, the most probable first; no operation is in two of them.
pub(super) fn find(operations: &[Operation], weighing: Weighing) -> Vec<Chain> {
    let mut chains: Vec<Chain> = Vec::new();
    let mut left: Vec<usize> = (0..operations.len()).collect();
    // Two kinds of checkpoints and a log: more rhythms than that in one direction nobody has seen.
    while left.len() >= 3 && chains.len() < 4 {
        let mut best: Vec<Chain> = Vec::new();
        for class in classes(operations, &left, weighing.class_ratio) {
            let found = regimes(operations, &class, &left, weighing);
            let weight = |chains: &[Chain]| chains.iter().map(|chain| chain.log_odds).sum::<f64>();
            if !found.is_empty() && (best.is_empty() || weight(&found) > weight(&best)) {
                best = found;
            }
        }
        if best.is_empty() {
            break;
        }
        left.retain(|index| !best.iter().any(|chain| chain.members.contains(index)));
        chains.extend(best);
    }
    chains
}

/// All operations, and those of about one volume, or of one volume and one duration.
fn classes(operations: &[Operation], of: &[usize], ratio: f64) -> Vec<Vec<usize>> {
    let volume = |index: usize| operations[index].bytes.max(1e-9).ln();
    let duration = |index: usize| operations[index].duration_s().max(1e-9).ln();
    let mut classes = vec![of.to_vec()];
    for by_volume in split_at_jumps(of, volume, ratio) {
        for by_both in split_at_jumps(&by_volume, duration, ratio) {
            if by_both.len() >= 3 && by_both.len() < by_volume.len() {
                classes.push(by_both);
            }
        }
        if by_volume.len() >= 3 && by_volume.len() < of.len() {
            classes.push(by_volume);
        }
    }
    classes
}

/// Sorts by `key` and cuts where it jumps by more than `ln ratio`; each part is in order of time again.
fn split_at_jumps(of: &[usize], key: impl Fn(usize) -> f64, ratio: f64) -> Vec<Vec<usize>> {
    let mut sorted = of.to_vec();
    sorted.sort_by(|&a, &b| key(a).total_cmp(&key(b)));
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut last = f64::NEG_INFINITY;
    for index in sorted {
        if key(index) - last > ratio.ln() {
            parts.push(Vec::new());
        }
        last = key(index);
        if let Some(part) = parts.last_mut() {
            part.push(index);
        }
    }
    for part in &mut parts {
        part.sort_unstable();
    }
    parts
}

/// The class as one chain or, if that is more probable, as one after another with a change of period between.
fn regimes(operations: &[Operation], class: &[usize], all: &[usize], weighing: Weighing) -> Vec<Chain> {
    let gaps = gaps(operations, class);
    let likeness = likeness(operations, class, all);
    let chain = |beats: Beats, members: &[usize]| Chain {
        period_s: beats.period_s,
        members: members.to_vec(),
        log_odds: beats.log_odds + likeness - weighing.prior,
    };
    let whole = even_beats(&gaps);
    // A change of period needs as many beats before and after as would make a chain of their own.
    let mut best_split: Option<(f64, usize, Beats, Beats)> = None;
    if gaps.len() <= MOST_SPLIT && gaps.len() >= 2 * LEAST_REGIME {
        for at in LEAST_REGIME..=gaps.len() - LEAST_REGIME {
            let (Some(before), Some(after)) = (even_beats(&gaps[..at]), even_beats(&gaps[at..])) else {
                continue;
            };
            let odds = before.log_odds + after.log_odds - (gaps.len() as f64).ln();
            let changes = (before.period_s / after.period_s).ln().abs() > 0.2;
            if changes && best_split.as_ref().is_none_or(|best| odds > best.0) {
                best_split = Some((odds, at, before, after));
            }
        }
    }
    let whole_odds = whole.as_ref().map_or(f64::NEG_INFINITY, |whole| whole.log_odds);
    let mut found = match (best_split, whole) {
        (Some((odds, at, before, after)), _) if odds - weighing.prior > whole_odds => {
            vec![chain(before, &class[..=at]), chain(after, &class[at + 1..])]
        }
        (_, Some(whole)) => vec![chain(whole, class)],
        (_, None) => Vec::new(),
    };
    found.retain(|chain| chain.log_odds > 0.0);
    found
}

/// The fewest gaps on either side of a change of period.
const LEAST_REGIME: usize = 3;
/// A change of period is looked for among at most so many gaps: it costs their square.
const MOST_SPLIT: usize = 128;

/// What the volumes say: members that resemble each other are no chance selection.
///
/// Likeness cannot make up for uneven distances, so it counts for little beyond what the selection costs.
pub(super) fn likeness(operations: &[Operation], class: &[usize], all: &[usize]) -> f64 {
    let n_all = all.len();
    let volumes: Vec<f64> = class.iter().map(|&index| operations[index].bytes.max(1e-9).ln()).collect();
    let m = volumes.len() as f64;
    // One normal distribution of unknown mean and width, against an even one over all volumes there are.
    let (low, high) = all.iter().fold((f64::INFINITY, 0.0f64), |(low, high), &index| {
        (low.min(operations[index].bytes), high.max(operations[index].bytes))
    });
    let range = (high / low.max(1e-9)).ln().clamp(LEAST_RANGE, 1000f64.ln());
    let alike = one_normal(&volumes) + (m - 1.0) * range.ln();
    let selection = if class.len() == n_all {
        0.0
    } else {
        // Classes are intervals of sorted volumes: so many there are.
        (n_all as f64 * (n_all as f64 + 1.0) / 2.0).ln()
    };
    let alike = if class.len() == n_all { alike.max(-LIKENESS) } else { alike };
    (alike - selection).min(LIKENESS)
}

/// Even where all volumes are alike they might have differed by as much as this.
const LEAST_RANGE: f64 = 2.3; // a decade

/// How much volumes may speak for or against a chain, as a logarithm of odds.
const LIKENESS: f64 = 2.0;

/// From one operation to the next.
#[derive(Clone, Copy, Debug)]
struct Gap {
    start_to_start_s: f64,
    /// Of which nothing was going on.
    idle_s: f64,
}

fn gaps(operations: &[Operation], class: &[usize]) -> Vec<Gap> {
    class
        .windows(2)
        .map(|pair| (&operations[pair[0]], &operations[pair[1]]))
        .map(|(one, next)| Gap {
            start_to_start_s: next.start_s - one.start_s,
            idle_s: next.start_s - one.end_s,
        })
        .collect()
}

/// A period and how well it explains gaps.
#[derive(Clone, Copy, Debug)]
struct Beats {
    period_s: f64,
    log_odds: f64,
}

/// The period that explains the gaps best, beats left out allowed, with its odds against chance.
///
/// *Even*: every gap is a whole number of periods, give or take a normal deviation of unknown width; how many beats are left
/// out follows a geometric distribution of unknown rate. *Chance*: idle times between operations as of a Poisson process of
/// unknown rate; an operation that lasts keeps the next one off, which must not pass for a rhythm. All unknowns
/// are integrated out under priors that know no scale, so that the ratio needs no units.
fn even_beats(gaps: &[Gap]) -> Option<Beats> {
    if gaps.len() < 2 || gaps.iter().any(|gap| gap.idle_s <= 0.0) {
        return None;
    }
    let n = gaps.len() as f64;
    let idle_s: f64 = gaps.iter().map(|gap| gap.idle_s).sum();
    let gaps: Vec<f64> = gaps.iter().map(|gap| gap.start_to_start_s).collect();
    let total: f64 = gaps.iter().sum();
    let chance = ln_gamma(n) + gaps.iter().map(|gap| (gap / idle_s).ln()).sum::<f64>();
    let mut sorted = gaps.clone();
    sorted.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share).round() as usize];
    let mut best: Option<Beats> = None;
    let first_guesses = [at(0.0), at(0.1), at(0.25), at(0.5), at(0.75), total / n];
    for guess in first_guesses {
        let mut period_s = guess;
        let mut fit = None;
        for _ in 0..4 {
            let beats: Vec<f64> = gaps.iter().map(|gap| (gap / period_s).round().max(1.0)).collect();
            period_s = total / beats.iter().sum::<f64>();
            fit = Some(beats);
        }
        let beats = fit.unwrap_or_default();
        let n_missed: f64 = beats.iter().sum::<f64>() - n;
        // Where most beats would be missing, there is no rhythm to speak of.
        if n_missed > n {
            continue;
        }
        let deviations: Vec<f64> = gaps
            .iter()
            .zip(&beats)
            .map(|(gap, beats)| (gap / period_s - (beats - 1.0)).max(0.05).ln())
            .collect();
        let missing = if n_missed == 0.0 {
            0.0
        } else {
            // The beta integral over the rate of missing beats, and that there may be such a rate at all.
            ln_gamma(n + 1.0) + ln_gamma(n_missed + 1.0) - ln_gamma(n + n_missed + 2.0) - 2f64.ln()
        };
        let stretch: f64 = beats.iter().map(|beats| beats.ln()).sum();
        let log_odds = one_normal(&deviations) + missing + stretch - chance;
        if best.is_none_or(|best| log_odds > best.log_odds) {
            best = Some(Beats { period_s, log_odds });
        }
    }
    best
}

/// The log density of values under one normal distribution, its mean integrated out over the line and its width over
/// `DECADES` decades, `1/σ` each.
fn one_normal(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let mean = iotide_num::mean(values);
    let squares: f64 =
        values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() + (n - 1.0) * LEAST_WIDTH.powi(2);
    let half = (n - 1.0) / 2.0;
    ln_gamma(half)
        - 2f64.ln()
        - half * (std::f64::consts::PI * squares).ln()
        - 0.5 * n.ln()
        - (DECADES * 10f64.ln()).ln()
}

/// No program keeps time, or volume, better than to a hundredth.
const LEAST_WIDTH: f64 = 0.01;
const DECADES: f64 = 2.0;

/// About so many ways of cutting a signal into phases the period finder tries: four thresholds, ten gaps each, some scales.
const WAYS_TO_CUT: f64 = 60.0;

/// The odds of a chain that another way of looking has proposed, whose members hold `share` of all bytes.
pub(super) fn weigh(members: &[Operation], share: f64, weighing: Weighing) -> Option<Chain> {
    let all: Vec<usize> = (0..members.len()).collect();
    let beats = even_beats(&gaps(members, &all))?;
    // The proposal is the best of many ways to cut the run, and pays for that; and for the bytes it leaves out.
    let selection = WAYS_TO_CUT.ln() - share.clamp(1e-3, 1.0).ln() * members.len() as f64;
    let log_odds = beats.log_odds + likeness(members, &all, &all) - selection - weighing.prior;
    Some(Chain { period_s: beats.period_s, members: all, log_odds })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WEIGHING: Weighing = Weighing { prior: 3.25, class_ratio: 1.25 };

    fn operations(of: &[(f64, f64, f64)]) -> Vec<Operation> {
        let mut all: Vec<Operation> = of
            .iter()
            .map(|&(start_s, duration_s, bytes)| Operation { start_s, end_s: start_s + duration_s, bytes })
            .collect();
        all.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
        all
    }

    fn every(period_s: f64, n: usize, duration_s: f64, bytes: f64) -> Vec<(f64, f64, f64)> {
        (0..n).map(|i| (5.0 + i as f64 * period_s, duration_s, bytes)).collect()
    }

    fn periods(of: &[(f64, f64, f64)]) -> Vec<f64> {
        find(&operations(of), WEIGHING).iter().map(|chain| (chain.period_s * 10.0).round() / 10.0).collect()
    }

    #[test]
    fn three_even_checkpoints_are_a_chain_and_two_are_not() {
        assert_eq!(periods(&every(100.0, 3, 5.0, 1e9)), [100.0]);
        assert!(periods(&every(100.0, 2, 5.0, 1e9)).is_empty());
    }

    #[test]
    fn beats_left_out_do_not_break_a_chain() {
        let mut beats = every(100.0, 14, 5.0, 1e9);
        for missing in [11, 7, 6, 2] {
            beats.remove(missing);
        }
        assert_eq!(periods(&beats), [100.0]);
    }

    #[test]
    fn two_kinds_of_checkpoints_are_two_chains() {
        let mut both = every(40.0, 25, 2.0, 1e9);
        both.extend(
            every(250.0, 4, 20.0, 9e9)
                .iter()
                .map(|&(start, duration, bytes)| (start + 15.0, duration, bytes)),
        );
        assert_eq!(periods(&both), [40.0, 250.0]);
    }

    #[test]
    fn a_change_of_period_makes_two_chains() {
        let mut beats = every(30.0, 9, 2.0, 1e9);
        beats.extend((1..9).map(|i| (5.0 + 240.0 + f64::from(i) * 55.0, 2.0, 1e9)));
        assert_eq!(periods(&beats), [30.0, 55.0]);
    }

    #[test]
    fn waiting_times_without_memory_are_no_chain() {
        // Exponential gaps by their quantiles, shuffled: as irregular as chance, with no luck involved.
        let mut at = 0.0;
        let starts: Vec<(f64, f64, f64)> = (0..20)
            .map(|i| {
                at += -60.0 * (1.0 - (f64::from((i * 7) % 20) + 0.5) / 20.0).ln() + 1.0;
                (at, 1.0, 1e9)
            })
            .collect();
        assert!(periods(&starts).is_empty());
    }

    proptest! {
        #[test]
        fn odds_know_no_units(
            beats in prop::collection::vec((1.0..100.0f64, 0.1..0.9f64, 1e8..1e11f64), 3..20),
            time in 1e-2..1e4f64, doublings in -20..20i32,
        ) {
            let chains = |time: f64, bytes: f64| {
                let mut at = 0.0;
                let all: Vec<(f64, f64, f64)> = beats
                    .iter()
                    .map(|(gap, busy, volume)| { at += gap; (at * time, busy * time, volume * bytes) })
                    .collect();
                find(&operations(&all), WEIGHING)
            };
            let (one, other) = (chains(1.0, 1.0), chains(time, 2f64.powi(doublings)));
            // Odds of almost exactly one may fall on either side.
            prop_assume!(one.iter().chain(&other).all(|chain| chain.log_odds > 1e-6));
            prop_assert_eq!(one.len(), other.len());
            for (a, b) in one.iter().zip(&other) {
                prop_assert!((a.period_s * time / b.period_s - 1.0).abs() < 1e-6);
                prop_assert!((a.log_odds - b.log_odds).abs() < 1e-6 * (1.0 + a.log_odds));
            }
        }
    }
}
