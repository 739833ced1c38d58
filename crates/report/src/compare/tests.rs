use super::*;

fn verdict(first: &[f64], other: &[f64], better: Option<Better>) -> Verdict {
    change(first, other, better, 0.05).verdict
}

#[test]
fn a_difference_counts_if_it_is_larger_than_threshold_and_noise() {
    let lower = Some(Better::Lower);
    assert_eq!(verdict(&[100.0], &[100.0], lower), Verdict::Same);
    assert_eq!(verdict(&[100.0], &[104.0], lower), Verdict::Same);
    assert_eq!(verdict(&[100.0], &[106.0], lower), Verdict::Worse);
    assert_eq!(verdict(&[106.0], &[100.0], lower), Verdict::Better);
    assert_eq!(verdict(&[100.0], &[106.0], Some(Better::Higher)), Verdict::Better);
    assert_eq!(verdict(&[100.0], &[106.0], None), Verdict::Changed);
    assert_eq!(verdict(&[], &[106.0], lower), Verdict::Unknown);
    // Three runs a side that do not stand in one order.
    assert_eq!(verdict(&[90.0, 100.0, 120.0], &[95.0, 110.0, 130.0], lower), Verdict::Noise);
    assert_eq!(verdict(&[99.0, 100.0, 101.0], &[108.0, 110.0, 112.0], lower), Verdict::Worse);
    // Two cannot be clear by the test, but all of one lie beyond all of the other.
    assert_eq!(verdict(&[99.0, 101.0], &[108.0, 112.0], lower), Verdict::Worse);
    assert_eq!(verdict(&[0.0], &[5.0], lower), Verdict::Worse);
}

#[test]
fn a_against_b_is_the_mirror_of_b_against_a() {
    let mut random = iotide_num::SplitMix64::new(3);
    for round in 0..300 {
        let mut draw =
            || -> Vec<f64> { (0..1 + round % 4).map(|_| (random.unit() * 20.0).floor()).collect() };
        let (a, b) = (draw(), draw());
        let (one, other) =
            (change(&a, &b, Some(Better::Lower), 0.1), change(&b, &a, Some(Better::Lower), 0.1));
        let mirrored = match one.verdict {
            Verdict::Worse => Verdict::Better,
            Verdict::Better => Verdict::Worse,
            same => same,
        };
        assert_eq!(other.verdict, mirrored, "{a:?} {b:?}");
        assert_eq!(one.difference, other.difference.map(|difference| 0.0 - difference), "{a:?} {b:?}");
    }
}

/// How often chance alone is called worse, and how often a change is seen: the figures of docs/compare.md.
#[test]
fn false_alarms_are_rare_and_real_changes_are_seen() {
    let mut random = iotide_num::SplitMix64::new(17);
    let mut share_worse = |n_runs: usize, factor: f64| {
        let rounds = 4000;
        let n_worse = (0..rounds)
            .filter(|_| {
                // Runs that differ by 5 % (standard deviation).
                let mut side = |factor: f64| -> Vec<f64> {
                    (0..n_runs).map(|_| factor * (1.0 + 0.05 * random.normal())).collect()
                };
                let (a, b) = (side(1.0), side(factor));
                change(&a, &b, Some(Better::Lower), 0.1).verdict == Verdict::Worse
            })
            .count();
        n_worse as f64 / f64::from(rounds)
    };
    let figures: Vec<(f64, f64)> = [1, 3, 5].map(|n| (share_worse(n, 1.0), share_worse(n, 1.2))).to_vec();
    let shown: Vec<String> =
        figures.iter().map(|(a, b)| format!("{:.0} % {:.0} %", a * 100.0, b * 100.0)).collect();
    insta::assert_snapshot!(shown.join(", "), @"9 % 89 %, 1 % 94 %, 0 % 99 %");
}

#[test]
fn names_of_sides_do_not_run_out() {
    assert_eq!([0, 25, 26, 53].map(side_name), ["A", "Z", "A1", "B2"]);
}

#[test]
fn quantities_are_known_by_the_names_of_the_json() {
    for quantity in Quantity::ALL {
        assert_eq!(text::json(&quantity), format!("\"{}\"", quantity.key()));
        assert_eq!(Quantity::from_key(quantity.key()), Some(quantity));
    }
}

#[test]
fn changes_are_said_as_people_say_them() {
    let said = |before: f64, after: f64| change(&[before], &[after], None, 0.05).in_words();
    assert_eq!(said(100.0, 100.0), "=");
    assert_eq!(said(100.0, 125.0), "+25 %");
    assert_eq!(said(100.0, 98.0), "−2.0 %");
    assert_eq!(said(1.0, 12_049.0), "12\u{202f}049 times");
    assert_eq!(said(45_400.0, 1.0), "to 1/45\u{202f}400");
    assert_eq!(said(0.0, 5.0), "from none");
    assert_eq!(said(5.0, 0.0), "to none");
}
