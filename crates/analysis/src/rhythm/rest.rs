//! A second look at what a rhythm leaves of a signal.
//!
//! Where two programs write at once, phases of one meet those of the other now and then, and no single cut shows the second beat whole: what is
//! left when the phases of the first are taken out does.

use super::choose::{Findings, Found, SAME_BEAT, find_rhythms, heaviest_first};
use super::propose::Cut;
use super::steps::{Burst, Steps, usual};
use super::swing::rhythm_of_the_level;

/// Returns the rhythms of a signal, with those that show only when the phases of another are taken away.
pub(crate) fn find_all_rhythms(steps: &Steps) -> Findings {
    let mut findings = find_rhythms(steps);
    if findings.rhythms.is_empty()
        && let Some(found) = rhythm_of_the_level(steps)
    {
        findings.p_periodic = found.confidence;
        findings.n_phases = found.phases.len();
        findings.ranking.insert(0, (found.beat_s, found.confidence));
        findings.rhythms.push(found);
        return findings;
    }
    let total_bytes = steps.bytes();
    for i in 0..findings.rhythms.len() {
        if is_clear(&findings.rhythms[i])
            && let Some(second) = beside(steps, &findings.rhythms, i, total_bytes)
        {
            add(&mut findings.rhythms, i, second);
            break;
        }
    }
    findings
}

/// Whether a rhythm is so plain that taking its phases away leaves what is not its own.
fn is_clear(rhythm: &Found) -> bool {
    let n = rhythm.phases.len();
    rhythm.rule.cut() != Cut::Scale
        && n >= ENOUGH
        && rhythm.confidence > CERTAIN
        && rhythm.spread < STEADY
        && rhythm.missed as f64 <= SELDOM_MISSED * n as f64
}

/// The rhythm that shows when the phases of rhythm `i` are taken away, if nothing that was found is it.
fn beside(steps: &Steps, rhythms: &[Found], i: usize, total_bytes: f64) -> Option<Found> {
    let first = &rhythms[i];
    let rest = without(steps, &first.phases);
    if rest.bytes() < LEAST_PART * total_bytes {
        return None;
    }
    find_rhythms(&rest).rhythms.into_iter().find(|second| {
        // Large and small phases in turn are one rhythm, not two that meet each time: it has phases of its own beside every rhythm that stays.
        let is_beside = |other: &Found| {
            2 * second.phases.iter().filter(|phase| meets(&other.phases, phase)).count() < second.phases.len()
        };
        is_clear(second)
            && second.own_bytes >= LEAST_PART * total_bytes
            && rhythms.iter().enumerate().all(|(j, other)| {
                (second.beat_s / other.beat_s).ln().abs() > SAME_BEAT
                    && (is_beside(other) || (j != i && are_theirs(&other.phases, first, second)))
            })
    })
}

/// Adds a rhythm that was found beside rhythm `i`, in place of what these two explain better.
fn add(rhythms: &mut Vec<Found>, i: usize, second: Found) {
    let first = &mut rhythms[i];
    let usual_bytes = usual_bytes(&first.phases);
    for phase in first.phases.iter_mut().filter(|phase| phase.bytes > LARGER * usual_bytes) {
        phase.bytes = usual_bytes;
    }
    first.own_bytes = first.phases.iter().map(|phase| phase.bytes).sum();
    let first = rhythms.swap_remove(i);
    rhythms.retain(|other| !are_theirs(&other.phases, &first, &second));
    rhythms.extend([first, second]);
    heaviest_first(rhythms);
}

/// Whether nearly all of `phases` are those of one of two rhythms.
fn are_theirs(phases: &[Burst], one: &Found, other: &Found) -> bool {
    let n_theirs =
        phases.iter().filter(|phase| meets(&one.phases, phase) || meets(&other.phases, phase)).count();
    n_theirs * 10 >= phases.len() * 9
}

/// Returns the usual bytes of one of the phases; bytes beyond that in some phases belong to another rhythm.
fn usual_bytes(phases: &[Burst]) -> f64 {
    usual(phases.iter().map(|phase| phase.bytes).collect())
}

/// The signal without these phases.
fn without(steps: &Steps, phases: &[Burst]) -> Steps {
    let usual_bytes = usual_bytes(phases);
    let mut rest = steps.clone();
    for phase in phases {
        let part = if phase.bytes > LARGER * usual_bytes { 1.0 - usual_bytes / phase.bytes } else { 0.0 };
        let from = rest.times_s.partition_point(|&time_s| time_s < phase.start_s);
        let to = rest.times_s.partition_point(|&time_s| time_s < phase.end_s).min(rest.rates_bps.len());
        for rate_bps in &mut rest.rates_bps[from..to.max(from)] {
            *rate_bps *= part;
        }
    }
    rest
}

/// Whether any of `phases` (in order of time) and `other` have a time in common.
fn meets(phases: &[Burst], other: &Burst) -> bool {
    let next = phases.partition_point(|phase| phase.end_s <= other.start_s);
    phases.get(next).is_some_and(|phase| phase.start_s < other.end_s)
}

/// A rhythm has so many phases.
const ENOUGH: usize = 8;
/// … this confidence,
const CERTAIN: f64 = 0.99;
/// … this spread at most,
const STEADY: f64 = 0.1;
/// … and misses no more beats than this share of its phases.
const SELDOM_MISSED: f64 = 0.1;
/// It moves this share of the run's bytes.
const LEAST_PART: f64 = 0.045;
/// A phase that moves so many times the usual has met another's.
const LARGER: f64 = 1.25;

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_num::SplitMix64;

    /// Returns the sum of programs that each write `bytes` within `length_s`, every `beat_s` from `at_s` on, `n` times.
    fn together(programs: &[(f64, f64, usize, f64, f64)]) -> Steps {
        let mut changes: Vec<(f64, f64)> = Vec::new();
        for &(at_s, beat_s, n, length_s, bytes) in programs {
            for i in 0..n {
                let start_s = at_s + i as f64 * beat_s;
                changes.extend([(start_s, bytes / length_s), (start_s + length_s, -bytes / length_s)]);
            }
        }
        changes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut times_s, mut rates_bps, mut n_open, mut rate_bps) = (vec![0.0], vec![0.0], 0, 0.0);
        for (time_s, change_bps) in changes {
            n_open += if change_bps > 0.0 { 1 } else { -1 };
            rate_bps = if n_open == 0 { 0.0 } else { rate_bps + change_bps };
            times_s.push(time_s);
            rates_bps.push(rate_bps);
        }
        times_s.push(times_s[times_s.len() - 1] + 1.0);
        Steps { times_s, rates_bps, bin_s: None, resolution_s: 0.0, row_s: 0.0 }
    }

    /// Whether these are the beats, the shortest first.
    fn are_beats(findings: &Findings, expected_s: &[f64]) -> bool {
        let mut beats_s: Vec<f64> = findings.rhythms.iter().map(|rhythm| rhythm.beat_s).collect();
        beats_s.sort_by(f64::total_cmp);
        beats_s.len() == expected_s.len()
            && beats_s.iter().zip(expected_s).all(|(found_s, beat_s)| (found_s / beat_s - 1.0).abs() < 0.01)
    }

    #[test]
    fn a_beat_whose_phases_meet_those_of_another_is_found_in_what_that_one_leaves() {
        let steps = together(&[(1.0, 10.33, 16, 1.24, 2e9), (3.0, 15.17, 11, 1.36, 9e8)]);
        // No cut of the whole shows it: every second of its phases meets one of the other.
        assert!(!are_beats(&find_rhythms(&steps), &[10.33, 15.17]));
        let findings = find_all_rhythms(&steps);
        assert!(are_beats(&findings, &[10.33, 15.17]));
        let bytes: f64 = findings.rhythms.iter().map(|rhythm| rhythm.own_bytes).sum();
        assert!((bytes / steps.bytes() - 1.0).abs() < 0.05, "{bytes:e} of {:e}", steps.bytes());
        assert_eq!(findings.rhythms[0].phases.len(), 16);
        assert_eq!(findings.rhythms[1].phases.len(), 11);
    }

    #[test]
    fn a_few_phases_of_as_many_bursts_each_are_the_rhythm() {
        // The distances from phase to phase are not even enough for a beat by themselves.
        let phase = |at_s: f64| (at_s, 6.5, 3, 3.9, 1e9);
        let steps = together(&[phase(5.0), phase(76.0), phase(155.0), (27.0, 16.3, 10, 1.6, 2e6)]);
        let findings = find_all_rhythms(&steps);
        assert!((findings.rhythms[0].beat_s / 75.0 - 1.0).abs() < 0.01, "{:?}", findings.rhythms);
        assert_eq!(findings.rhythms[0].phases.len(), 3);
    }

    #[test]
    fn a_dump_and_a_checkpoint_every_four_dumps_are_two_rhythms_wherever_they_fall() {
        let mut random = SplitMix64::new(5);
        for _ in 0..130 {
            let short_s = 10.0 + 10.0 * random.unit();
            let dumps = (short_s, 48, 0.05 + 0.15 * random.unit(), 2e9);
            let checkpoints = (4.0 * short_s, 12, 0.05 + 0.1 * random.unit(), 4e9 + 56e9 * random.unit());
            let mut bursts = Vec::new();
            for (beat_s, n, busy, bytes) in [dumps, checkpoints] {
                let mut at_s = beat_s * random.unit();
                for _ in 0..n {
                    let length_s = beat_s * busy * (0.9 + 0.2 * random.unit());
                    bursts.push((at_s, beat_s, 1, length_s, bytes * (0.95 + 0.1 * random.unit())));
                    at_s += beat_s * (1.0 + 0.01 * random.normal());
                }
            }
            let findings = find_all_rhythms(&together(&bursts));
            assert!(are_beats(&findings, &[short_s, 4.0 * short_s]), "{short_s} s: {findings:?}");
        }
    }

    #[test]
    fn a_checkpoint_between_two_dumps_does_not_slow_them_down() {
        // Smoothed at the scale of the dumps, a checkpoint and the dumps around it are one phase.
        let dumps = (8.43, 10.48, 120, 0.86, 2e9);
        let checkpoints = (64.5, 83.84, 15, 2.46, 1.02e10);
        assert!(are_beats(&find_all_rhythms(&together(&[dumps, checkpoints])), &[10.48, 83.84]));
    }

    #[test]
    fn large_and_small_phases_in_turn_are_one_rhythm() {
        let steps = together(&[(1.0, 105.0, 20, 10.0, 1e9), (1.0, 210.0, 10, 10.0, 2e9)]);
        assert!(are_beats(&find_all_rhythms(&steps), &[105.0]));
    }
}
