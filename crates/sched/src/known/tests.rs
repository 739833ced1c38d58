use proptest::prelude::*;

use super::*;
use crate::LEAST_CONFIDENCE;

fn measured(job: &str, period_s: f64) -> KnownJob {
    KnownJob {
        job: job.to_owned(),
        uid: Some(1000),
        period_s: Some(period_s),
        confidence: Some(0.9),
        ..KnownJob::default()
    }
}

/// Looks a second apart, at each of which a source says one period; what is gone by after each.
fn heeded(periods_s: &[f64]) -> Vec<Option<f64>> {
    let mut heeded = AcceptedHints::default();
    let each = periods_s.iter().enumerate().map(|(second, period_s)| {
        heeded.look(second as f64, Some(&[measured("7", *period_s)]));
        heeded.period_s("7", Some(1000))
    });
    each.collect()
}

#[test]
fn the_first_period_is_heeded_and_another_one_when_it_was_found_twice() {
    assert_eq!(heeded(&[10.0, 11.0, 20.0, 10.0, 20.0, 21.0]), [10.0, 10.0, 10.0, 10.0, 10.0, 21.0].map(Some));
}

#[test]
fn one_finding_that_is_asked_for_twice_is_one() {
    let mut heeded = AcceptedHints::default();
    heeded.look(0.0, Some(&[measured("7", 10.0)]));
    for quarter in 4..12 {
        // Always found at second 1.
        let age_s = f64::from(quarter) / 4.0 - 1.0;
        heeded.look(f64::from(quarter) / 4.0, Some(&[KnownJob { age_s, ..measured("7", 30.0) }]));
    }
    assert_eq!(heeded.period_s("7", Some(1000)), Some(10.0));
}

#[test]
fn who_decides_by_himself_waits_until_every_look_has_found_a_period_for_one_and_a_half() {
    let mut heeded = AcceptedHints::default();
    let mut steady = |second: f64, job: KnownJob| {
        heeded.look(second, Some(&[job]));
        heeded.steady_period_s("7", Some(1000))
    };
    let found = |period_s| measured("7", period_s);
    let unsure = KnownJob { confidence: Some(0.4), ..found(10.0) };
    assert_eq!([0.0, 14.0].map(|second| steady(second, found(10.0))), [None; 2]);
    assert_eq!(steady(15.0, found(11.0)), Some(10.0));
    // Another one once, and the first again.
    assert_eq!([steady(16.0, found(20.0)), steady(17.0, found(10.0))], [None; 2]);
    assert_eq!([steady(31.0, found(10.0)), steady(32.0, found(10.0))], [None, Some(10.0)]);
    // Not found, and found again.
    assert_eq!([steady(33.0, unsure), steady(34.0, found(10.0)), steady(48.0, found(10.0))], [None; 3]);
    assert_eq!(steady(49.0, found(10.0)), Some(10.0));
    // Another one from now on: since it was found first.
    assert_eq!([50.0, 51.0, 79.0].map(|second| steady(second, found(20.0))), [None; 3]);
    assert_eq!(steady(80.0, found(20.0)), Some(20.0));
    // One finding is one, however old it is and however often it is said.
    let mut heeded = AcceptedHints::default();
    for second in [100.0, 101.0] {
        heeded.look(second, Some(&[KnownJob { age_s: second - 70.0, ..found(10.0) }]));
        assert_eq!(heeded.steady_period_s("7", None), None);
    }
}

#[test]
fn what_a_person_says_holds_at_once_and_until_taken_back() {
    let given = |period_s| KnownJob { confidence: None, period_s, ..measured("7", 1.0) };
    let mut heeded = AcceptedHints::default();
    for (second, said, then) in [
        (0.0, Some(given(Some(10.0))), Some(10.0)),
        (1.0, Some(given(Some(500.0))), Some(500.0)),
        (1e6, None, Some(500.0)),
        (1e6 + 1.0, Some(given(None)), None),
    ] {
        heeded.look(second, said.as_ref().map(std::slice::from_ref));
        assert_eq!(heeded.period_s("7", Some(1000)), then, "{second}");
    }
}

#[test]
fn a_source_that_is_silent_for_a_few_periods_is_lost_and_heeded_again_when_it_is_back() {
    let mut heeded = AcceptedHints::default();
    heeded.look(0.0, Some(&[measured("7", 20.0)]));
    heeded.look(70.0, None);
    assert_eq!(heeded.period_s("7", None), Some(20.0));
    heeded.look(70.1, None);
    assert_eq!(heeded.period_s("7", None), None);
    heeded.look(71.0, Some(&[measured("7", 300.0)]));
    assert_eq!(heeded.period_s("7", None), Some(300.0));
    // One that answers, but has found nothing for long, is no better.
    heeded.look(72.0, Some(&[KnownJob { age_s: 5000.0, ..measured("7", 300.0) }]));
    heeded.look(5000.0, Some(&[KnownJob { age_s: 5000.0, ..measured("7", 300.0) }]));
    assert_eq!(heeded.period_s("7", None), None);
}

#[test]
fn what_is_seen_otherwise_three_times_is_wrong_until_it_is_seen_so_again() {
    let mut heeded = AcceptedHints::default();
    heeded.look(0.0, Some(&[measured("7", 20.0)]));
    let mut see = |period_s| (heeded.observe("7", Some(1000), period_s), heeded.period_s("7", Some(1000)));
    let right = (None, Some(20.0));
    assert_eq!([10.0, 10.0, 21.0, 10.0, 10.0].map(&mut see), [right; 5]);
    assert_eq!(see(10.0), (Some(true), None));
    assert_eq!([20.0, 19.0, 10.0, 20.0, 20.0].map(&mut see), [(None, None); 5]);
    assert_eq!(see(20.0), (Some(false), Some(20.0)));
    assert_eq!(see(f64::NAN), right);
}

#[test]
fn jobs_of_one_name_belong_to_their_users() {
    let of = |uid, period_s| KnownJob { uid, ..measured("7", period_s) };
    let mut heeded = AcceptedHints::default();
    heeded.look(0.0, Some(&[of(Some(1), 10.0), of(Some(2), 100.0)]));
    assert_eq!(
        [Some(1), Some(2), Some(3), None].map(|uid| heeded.period_s("7", uid)),
        [Some(10.0), Some(100.0), None, None]
    );
    // A source that knows no users means whoever's it is.
    heeded.look(1.0, Some(&[of(None, 5.0)]));
    assert_eq!(heeded.period_s("7", Some(1)), Some(5.0));
    // A run that was requeued has the number of the batch system, which is all that others know of it.
    heeded.look(2.0, Some(&[measured("8.r2", 5.0), measured("9.run", 5.0)]));
    assert_eq!(
        ["8", "8.r2", "9", "9.run"].map(|job| heeded.period_s(job, None).is_some()),
        [true, true, false, true]
    );
}

#[derive(Clone, Debug)]
enum Step {
    Said(Vec<KnownJob>),
    Silent,
    Observed(u8, f64),
}

fn job() -> impl Strategy<Value = KnownJob> {
    let period = prop_oneof![
        4 => (-20i32..60).prop_map(|tenth| 10f64.powf(f64::from(tenth) / 10.0)),
        1 => prop::sample::select(vec![0.0, -1.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE]),
    ];
    let age =
        prop_oneof![4 => 0.0..20.0, 1 => prop::sample::select(vec![-1.0, f64::NAN, f64::INFINITY, 1e9])];
    (0u8..4, prop::option::of(0u32..3), prop::option::of(period), prop::option::weighted(0.8, 0.0..1.0), age)
        .prop_map(|(job, uid, period_s, confidence, age_s)| KnownJob {
            job: job.to_string(),
            uid,
            period_s,
            confidence,
            age_s,
            ..KnownJob::default()
        })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop::collection::vec(job(), 0..6).prop_map(Step::Said),
        1 => Just(Step::Silent),
        2 => (0u8..4, 0.01..1e4).prop_map(|(job, period_s)| Step::Observed(job, period_s)),
    ]
}

proptest! {
    #[test]
    fn whatever_is_said_only_what_was_said_with_confidence_is_gone_by(steps in prop::collection::vec(step(), 1..60)) {
        let mut heeded = AcceptedHints::default();
        let mut certain = Vec::new();
        for (second, step) in steps.into_iter().enumerate() {
            let now_s = second as f64;
            match step {
                Step::Said(jobs) => {
                    let is_certain = |job: &&KnownJob| job.confidence.is_none_or(|it| it >= LEAST_CONFIDENCE);
                    certain.extend(jobs.iter().filter(is_certain).filter_map(|job| {
                        Some((job.job.clone(), job.uid, job.period_s?))
                    }));
                    heeded.look(now_s, Some(&jobs));
                    prop_assert!(heeded.jobs().all(|(job, uid, _)| jobs.iter().any(|it| it.job == job && it.uid == uid)));
                    // In another order it says the same.
                    let (mut again, mut other) = (heeded.clone(), heeded.clone());
                    again.look(now_s, Some(&jobs));
                    other.look(now_s, Some(&jobs.iter().rev().cloned().collect::<Vec<_>>()));
                    prop_assert!(again.jobs().eq(other.jobs()));
                }
                Step::Silent => heeded.look(now_s, None),
                Step::Observed(job, period_s) => drop(heeded.observe(&job.to_string(), None, period_s)),
            }
            for (job, uid, period_s) in heeded.jobs() {
                let Some(period_s) = period_s else { continue };
                prop_assert!(period_s.is_finite() && period_s > 0.0);
                prop_assert!(certain.iter().any(|(a, b, c)| a == job && *b == uid && *c == period_s));
            }
        }
    }

    #[test]
    fn a_period_changes_by_more_than_a_little_and_not_at_each_look(tenths in prop::collection::vec(0u32..30, 2..80)) {
        let periods: Vec<f64> = tenths.iter().map(|tenth| 10f64.powf(f64::from(*tenth) / 10.0)).collect();
        let gone_by = heeded(&periods);
        let mut n_changes = 0;
        for pair in gone_by.windows(2) {
            let [Some(before), Some(after)] = pair[..] else { continue };
            if before != after {
                n_changes += 1;
                prop_assert!(!are_within(HARDLY_NEW, before, after), "{before} {after}");
            }
        }
        prop_assert!(2 * n_changes < gone_by.len().max(2), "{n_changes} in {}", gone_by.len());
    }

    #[test]
    fn what_is_steady_was_found_at_every_look_for_one_and_a_half_periods(tenths in prop::collection::vec((0u32..12, 0u32..3), 2..120)) {
        let mut heeded = AcceptedHints::default();
        let mut looks: Vec<Option<f64>> = Vec::new();
        let mut tenth = 5;
        for (second, (other, repeat)) in tenths.iter().enumerate() {
            // Mostly the same as before.
            tenth = if *repeat == 0 { *other } else { tenth };
            let period_s = 10f64.powf(f64::from(tenth) / 10.0);
            let confidence = if *other == 11 { 0.4 } else { 0.9 };
            looks.push(Some(period_s).filter(|_| confidence > 0.5));
            heeded.look(second as f64, Some(&[KnownJob { confidence: Some(confidence), ..measured("7", period_s) }]));
            let Some(steady_s) = heeded.steady_period_s("7", Some(1000)) else { continue };
            prop_assert_eq!(heeded.period_s("7", Some(1000)), Some(steady_s));
            let n_looks = (1.5 * steady_s).ceil() as usize + 1;
            prop_assert!(looks.len() >= n_looks);
            for found in &looks[looks.len() - n_looks..] {
                prop_assert!(found.is_some_and(|found_s| are_within(HARDLY_NEW, found_s, steady_s)), "{looks:?}");
            }
        }
    }

    #[test]
    fn a_source_that_is_wrong_by_a_factor_of_two_is_found_out_at_the_third_look(period_s in 0.01..1e5, is_half: bool, seen in prop::array::uniform3(0.9f64..1.1)) {
        let mut heeded = AcceptedHints::default();
        let said_s = if is_half { period_s / 2.0 } else { 2.0 * period_s };
        heeded.look(0.0, Some(&[measured("7", said_s)]));
        let found = seen.map(|factor| heeded.observe("7", None, factor * period_s));
        prop_assert_eq!(found, [None, None, Some(true)]);
        prop_assert_eq!(heeded.period_s("7", None), None);
    }

    #[test]
    fn a_source_that_is_right_to_within_a_little_is_never_wrong(period_s in 0.01..1e5, seen in prop::collection::vec(0.81f64..1.24, 1..50)) {
        let mut heeded = AcceptedHints::default();
        heeded.look(0.0, Some(&[measured("7", period_s)]));
        for factor in seen {
            prop_assert_eq!(heeded.observe("7", None, factor * period_s), None);
            prop_assert_eq!(heeded.period_s("7", None), Some(period_s));
        }
    }
}
