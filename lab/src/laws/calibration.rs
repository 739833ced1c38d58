//! `cargo xtask laws --calibration`: of the answers with a confidence of p, are p right?

use iotide_analysis::Verdict;

use crate::Outcome;
use crate::answer::{Answer, ask};
use crate::parallel;
use crate::score::{Group, least_error};
use crate::synthetic::held_out::{FAMILIES, PER_FAMILY, make};
use crate::synthetic::trace::{Trace, Truth};

/// Asks about the frozen set and prints how often each confidence is right.
pub fn run(show: usize) -> Outcome {
    let judged: Vec<Judged> = parallel::map(FAMILIES.len() * PER_FAMILY, |i| {
        let trace = make(i / PER_FAMILY, i % PER_FAMILY);
        let answer = ask(&trace);
        Judged::of(i / PER_FAMILY, &trace, &answer)
    });
    println!("{:<32} {:>7} {:>7} {:>7} {:>8}", "family", "traces", "right", "wrong", "unclear");
    for (family, (name, _)) in FAMILIES.iter().enumerate() {
        let of = |right: Option<bool>| {
            judged.iter().filter(|one| one.family == family && one.right == right).count()
        };
        println!("{name:<32} {PER_FAMILY:>7} {:>7} {:>7} {:>8}", of(Some(true)), of(Some(false)), of(None));
        let wrong =
            judged.iter().enumerate().filter(|(_, one)| one.family == family && one.right == Some(false));
        for (i, one) in wrong.take(show) {
            println!("    #{}: {}", i % PER_FAMILY, one.text);
        }
    }
    let answers: Vec<(f64, bool)> =
        judged.iter().filter_map(|one| one.right.map(|right| (one.confidence, right))).collect();
    let n_unclear = judged.len() - answers.len();
    println!("\nunclear: {n_unclear} of {} ({:.1} %)", judged.len(), percent(n_unclear, judged.len()));
    let mut good = sure_ones(&judged);
    good &= print_groups("answers by confidence", &by_tenths(&answers));
    good &= print_groups("answers in ten equal parts, the least confident first", &by_rank(answers));
    if good { Outcome::Good } else { Outcome::Wanting }
}

/// A period counts as right within this of a true beat.
const NEAR: f64 = 0.05;
/// From here on an answer is as good as certain …
const SURE: f64 = 0.99;
/// … and so many of these must be right.
const SURE_RIGHT: f64 = 0.98;
/// How far confidence and share may be apart.
const APART: f64 = 0.07;
/// Fewer answers than this say nothing: their share is off by seven points by chance alone.
const FEWEST: usize = 50;

/// An answer and whether it is right.
struct Judged {
    family: usize,
    confidence: f64,
    verdict: Verdict,
    /// `None` if the answer is "unclear", or none.
    right: Option<bool>,
    text: String,
}

impl Judged {
    fn of(family: usize, trace: &Trace, answer: &Answer) -> Self {
        let estimate = &answer.estimate;
        let right = match (estimate.verdict, &trace.truth) {
            _ if answer.error.is_some() => None,
            (Verdict::Unclear, _) => None,
            (Verdict::Periodic, Truth::Beats(beats)) => {
                let near = |period_s: f64| least_error(period_s, beats) <= NEAR;
                Some(estimate.period_s.is_some_and(near))
            }
            (Verdict::NotPeriodic, Truth::None) => Some(true),
            (Verdict::Periodic | Verdict::NotPeriodic, _) => Some(false),
        };
        let text = format!("{:?}: {}", trace.truth, answer.describe());
        Self { family, confidence: estimate.confidence, verdict: estimate.verdict, right, text }
    }
}

/// Answers from 0.99 on, of both verdicts and of each.
fn sure_ones(judged: &[Judged]) -> bool {
    let share = |name: &str, verdict: Option<Verdict>| {
        let sure: Vec<bool> = judged
            .iter()
            .filter(|one| one.confidence >= SURE && verdict.is_none_or(|verdict| one.verdict == verdict))
            .filter_map(|one| one.right)
            .collect();
        let n_right = sure.iter().filter(|right| **right).count();
        println!("{name}: {n_right} of {} right ({:.1} %)", sure.len(), percent(n_right, sure.len()));
        sure.is_empty() || n_right as f64 >= SURE_RIGHT * sure.len() as f64
    };
    let good = share("at a confidence of 0.99 and above (required: 98 %)", None);
    share("  periodic", Some(Verdict::Periodic));
    share("  not periodic", Some(Verdict::NotPeriodic));
    good
}

/// Whether as many are right as the confidence says.
fn is_good((_, group): &(String, Group)) -> bool {
    group.n < FEWEST || (group.mean_confidence - group.share_right).abs() <= APART
}

fn by_tenths(answers: &[(f64, bool)]) -> Vec<(String, Group)> {
    (0..10)
        .map(|tenth| {
            let within: Vec<(f64, bool)> = answers
                .iter()
                .copied()
                .filter(|(confidence, _)| ((10.0 * confidence) as usize).min(9) == tenth)
                .collect();
            let name = format!("{:.1} to {:.1}", tenth as f64 / 10.0, (tenth + 1) as f64 / 10.0);
            (name, Group::of(&within))
        })
        .filter(|(_, group)| group.n > 0)
        .collect()
}

fn by_rank(mut answers: Vec<(f64, bool)>) -> Vec<(String, Group)> {
    // Right or wrong must not decide which of equal confidences comes first; the order of the traces does.
    answers.sort_by(|one, two| one.0.total_cmp(&two.0));
    let n = answers.len();
    (0..10)
        .map(|tenth| {
            let part = &answers[n * tenth / 10..n * (tenth + 1) / 10];
            (format!("part {}", tenth + 1), Group::of(part))
        })
        .filter(|(_, group)| group.n > 0)
        .collect()
}

fn print_groups(title: &str, groups: &[(String, Group)]) -> bool {
    println!("\n{title} (within {:.0} points from {FEWEST} answers on):", 100.0 * APART);
    for named in groups {
        let (name, group) = named;
        let mark = match (group.n < FEWEST, is_good(named)) {
            (true, _) => "  (too few to tell)",
            (false, true) => "",
            (false, false) => "  ✗",
        };
        println!(
            "  {:<12} {:>5} answers, mean confidence {:>5.1} %, right {:>5.1} %{mark}",
            name,
            group.n,
            100.0 * group.mean_confidence,
            100.0 * group.share_right
        );
    }
    groups.iter().all(is_good)
}

fn percent(part: usize, whole: usize) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use iotide_analysis::PeriodEstimate;
    use iotide_trace::Direction;

    use super::*;

    fn judge(truth: Truth, verdict: Verdict, period_s: Option<f64>) -> Option<bool> {
        let trace = Trace { family: String::new(), requests: Vec::new(), truth };
        let estimate = PeriodEstimate { verdict, period_s, ..PeriodEstimate::default() };
        Judged::of(0, &trace, &Answer { direction: Some(Direction::Write), estimate, error: None }).right
    }

    #[test]
    fn an_answer_is_right_if_it_is_a_true_beat_or_rightly_none() {
        let beats = || Truth::Beats(vec![10.0, 3.0]);
        assert_eq!(judge(beats(), Verdict::Periodic, Some(10.4)), Some(true));
        assert_eq!(judge(beats(), Verdict::Periodic, Some(3.1)), Some(true));
        assert_eq!(judge(beats(), Verdict::Periodic, Some(10.6)), Some(false));
        assert_eq!(judge(beats(), Verdict::NotPeriodic, None), Some(false));
        assert_eq!(judge(beats(), Verdict::Unclear, None), None);
        assert_eq!(judge(Truth::None, Verdict::NotPeriodic, None), Some(true));
        assert_eq!(judge(Truth::None, Verdict::Periodic, Some(10.0)), Some(false));
    }

    #[test]
    fn confidence_that_promises_too_much_is_seen() {
        let honest: Vec<(f64, bool)> = (0..1000).map(|i| (0.75, i % 4 != 0)).collect();
        assert!(by_tenths(&honest).iter().all(is_good));
        assert!(by_rank(honest).iter().all(is_good));
        let boastful: Vec<(f64, bool)> = (0..1000).map(|i| (0.95, i % 4 != 0)).collect();
        assert!(!by_tenths(&boastful).iter().all(is_good));
        assert!(!by_rank(boastful).iter().all(is_good));
    }

    #[test]
    fn sure_answers_must_be_right() {
        let one = |right| Judged {
            family: 0,
            confidence: 0.995,
            verdict: Verdict::Periodic,
            right: Some(right),
            text: String::new(),
        };
        let of = |n_wrong: usize| (0..100).map(|i| one(i >= n_wrong)).collect::<Vec<_>>();
        assert!(sure_ones(&of(2)));
        assert!(!sure_ones(&of(3)));
    }
}
