//! Plain cases that once broke, by name: what was seen in the test's name, what is right in its body.
//!
//! Rows that speak of the command line, of labels or of real logs are in `crates/cli/tests/it/rhythm_table.rs`.

use iotide_analysis::online::{Prediction, Predictor, PredictorConfig};
use iotide_analysis::{
    CategoryConfig, Observed, PeriodEstimate, Reason, Rhythm, RunConfig, StatedRun, Verdict, analyse_run,
    categorize,
};
use iotide_trace::{Event, EventSink, JobInfo, Op, Overlap, Rank, StepSignal, Timestamp};

/// A write of one rank: start and end in seconds, bytes.
type Write = (f64, f64, f64);

fn at(secs: f64) -> Timestamp {
    Timestamp::from_secs_since_start(secs).unwrap()
}

fn writes_of(writes: impl IntoIterator<Item = Write>) -> StepSignal {
    let mut overlap = Overlap::new();
    for (start_s, end_s, bytes) in writes {
        overlap.add(at(start_s), at(end_s), bytes);
    }
    overlap.finish()
}

#[track_caller]
fn detect(writes: &[Write]) -> PeriodEstimate {
    let signal = writes_of(writes.iter().copied());
    analyse_run(&StepSignal::default(), &signal, &RunConfig::default()).unwrap().estimate
}

/// The same of a source that states more than its events.
#[track_caller]
fn detect_stated(writes: &[Write], stated: StatedRun) -> PeriodEstimate {
    let config = RunConfig { stated, ..RunConfig::default() };
    let signal = writes_of(writes.iter().copied());
    analyse_run(&StepSignal::default(), &signal, &config).unwrap().estimate
}

/// `n` equal bursts, one every `period_s`, each as long as `duty` of it.
fn bursts(n: usize, period_s: f64, duty: f64, bytes: f64) -> Vec<Write> {
    (0..n).map(|i| i as f64 * period_s).map(|start_s| (start_s, start_s + duty * period_s, bytes)).collect()
}

/// Bursts at these times.
fn bursts_at(starts_s: &[f64], length_s: f64, bytes: f64) -> Vec<Write> {
    starts_s.iter().map(|&start_s| (start_s, start_s + length_s, bytes)).collect()
}

/// Numbers in [0, 1) that are the same every time (a linear congruence).
fn random(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn near(found: f64, expected: f64, tolerance: f64) -> bool {
    (found / expected - 1.0).abs() <= tolerance
}

/// The answer in a line, for messages.
fn told(estimate: &PeriodEstimate) -> String {
    let rhythms: Vec<String> = (estimate.rhythms.iter())
        .map(|r| {
            format!(
                "{:.4} s × {} (mean {:.4} s, {} missed, {:.3e} B, {:.1} to {:.1} s, {:.3})",
                r.period_s,
                r.phases.len(),
                r.mean_distance_s,
                r.missed,
                r.bytes,
                r.start_s,
                r.end_s,
                r.confidence
            )
        })
        .collect();
    format!(
        "{:?} {:?} at {:.3}: [{}], considered {:?}",
        estimate.verdict,
        estimate.reason,
        estimate.confidence,
        rhythms.join("; "),
        estimate.candidates.iter().take(5).collect::<Vec<_>>()
    )
}

/// Exactly one rhythm of that beat.
#[track_caller]
fn only_beat(estimate: &PeriodEstimate, beat_s: f64, tolerance: f64, case: &str) -> Rhythm {
    assert_eq!(estimate.verdict, Verdict::Periodic, "{case}: {}", told(estimate));
    assert_eq!(estimate.rhythms.len(), 1, "{case}: one rhythm of {beat_s} s, not {}", told(estimate));
    headline(estimate, beat_s, tolerance, case)
}

/// The first rhythm has that beat, and the answer agrees with it.
#[track_caller]
fn headline(estimate: &PeriodEstimate, beat_s: f64, tolerance: f64, case: &str) -> Rhythm {
    assert_eq!(estimate.verdict, Verdict::Periodic, "{case}: {}", told(estimate));
    let rhythm = estimate.rhythms[0].clone();
    assert!(near(rhythm.period_s, beat_s, tolerance), "{case}: {beat_s} s, not {}", told(estimate));
    assert_eq!(estimate.period_s, Some(rhythm.period_s), "{case}: {}", told(estimate));
    assert_eq!(estimate.phases, rhythm.phases, "{case}: the phases listed are the headline's");
    rhythm
}

/// One of the rhythms has that beat.
#[track_caller]
fn has_beat(estimate: &PeriodEstimate, beat_s: f64, tolerance: f64, case: &str) -> Rhythm {
    let found = estimate.rhythms.iter().find(|rhythm| near(rhythm.period_s, beat_s, tolerance));
    found.unwrap_or_else(|| panic!("{case}: {beat_s} s is missing: {}", told(estimate))).clone()
}

#[track_caller]
fn counts(found: usize, expected: usize, case: &str, estimate: &PeriodEstimate) {
    assert_eq!(found, expected, "{case}: {expected} phases, not {}", told(estimate));
}

// 100 equal bursts, every 60 s, 5 % duty (any period; many n, e.g. 100, 120): 60 s alone.

#[test]
fn a_hundred_equal_bursts_every_minute_are_60_s_alone() {
    let estimate = detect(&bursts(100, 60.0, 0.05, 2e9));
    let rhythm = only_beat(&estimate, 60.0, 1e-3, "100 bursts");
    counts(rhythm.phases.len(), 100, "100 bursts", &estimate);
    assert!(estimate.confidence > 0.99, "{}", told(&estimate));
}

#[test]
fn equal_bursts_are_one_rhythm_for_any_number_period_and_duty_cycle() {
    for n in [4, 5, 8, 13, 50, 100, 120, 173, 360, 700] {
        for period_s in [0.002, 0.7, 60.0, 3600.0] {
            for duty in [0.003, 0.05, 0.3, 0.6] {
                let case = format!("{n} × {period_s} s, {duty} busy");
                let estimate = detect(&bursts(n, period_s, duty, 1e9));
                let rhythm = only_beat(&estimate, period_s, 2e-3, &case);
                counts(rhythm.phases.len(), n, &case, &estimate);
                assert_eq!(rhythm.missed, 0, "{case}: {}", told(&estimate));
                assert!(near(rhythm.bytes, n as f64 * 1e9, 1e-3), "{case}: {}", told(&estimate));
            }
        }
    }
}

#[test]
fn two_million_events_every_thirty_seconds_are_30_s_alone() {
    // 2000 writes in each of 1000 phases: more than are kept exactly.
    let writes = (0..1000).flat_map(|phase| {
        (0..2000).map(move |i| {
            let start_s = 30.0 * f64::from(phase) + 0.001 * f64::from(i);
            (start_s, start_s + 0.001, 1e6)
        })
    });
    let signal = writes_of(writes);
    let estimate = analyse_run(&StepSignal::default(), &signal, &RunConfig::default()).unwrap().estimate;
    let rhythm = only_beat(&estimate, 30.0, 1e-3, "two million");
    counts(rhythm.phases.len(), 1000, "two million", &estimate);
}

// The same rows in reverse order (150 phases × 8000 writes): the order of rows never matters.

#[test]
fn the_same_rows_in_reverse_order_are_the_same_rhythm() {
    let rows: Vec<Write> = (0..150)
        .flat_map(|phase| {
            (0..8000).map(move |i| {
                let start_s = 10.0 * f64::from(phase) + 0.00025 * f64::from(i);
                (start_s, start_s + 0.00025, 1e5)
            })
        })
        .collect();
    let mut shuffled = rows.clone();
    let mut random = random(3);
    for i in (1..shuffled.len()).rev() {
        shuffled.swap(i, (random() * (i + 1) as f64) as usize);
    }
    let forward = detect(&rows);
    for (order, rows) in
        [("reversed", rows.iter().rev().copied().collect::<Vec<_>>()), ("shuffled", shuffled)]
    {
        let other = detect(&rows);
        let rhythm = only_beat(&other, 10.0, 1e-3, order);
        counts(rhythm.phases.len(), 150, order, &other);
        assert!((other.confidence - forward.confidence).abs() < 0.01, "{order}: {}", told(&other));
    }
    only_beat(&forward, 10.0, 1e-3, "in order");
}

// Equal writes every 1 ms, 400,000 of them; 1,000,000: 1 ms, or a steady stream; never a beat of the sampling grid.

#[test]
fn equal_writes_every_millisecond_are_1_ms_or_a_steady_stream() {
    for n in [30_000, 400_000, 1_000_000] {
        for busy in [0.1, 0.5, 0.9] {
            let signal = writes_of((0..n).map(|i| {
                let start_s = f64::from(i) * 1e-3;
                (start_s, start_s + busy * 1e-3, 4096.0)
            }));
            let estimate =
                analyse_run(&StepSignal::default(), &signal, &RunConfig::default()).unwrap().estimate;
            for rhythm in &estimate.rhythms {
                assert!(
                    near(rhythm.period_s, 1e-3, 0.01),
                    "{n} writes, {busy} busy: 1 ms or none, not {}",
                    told(&estimate)
                );
            }
        }
    }
}

// One write; two writes: unclear, too little to tell.

#[test]
fn one_write_and_two_writes_are_unclear_for_lack_of_phases() {
    for n in [1, 2] {
        for (period_s, duty, bytes) in [(10.0, 0.1, 1e6), (0.001, 0.5, 1.0), (3600.0, 0.01, 1e12)] {
            let estimate = detect(&bursts(n, period_s, duty, bytes));
            let case = format!("{n} writes, {period_s} s apart");
            assert_eq!(estimate.verdict, Verdict::Unclear, "{case}: {}", told(&estimate));
            assert_eq!(estimate.reason, Some(Reason::TooFewPhases), "{case}: {}", told(&estimate));
            assert_eq!(estimate.period_s, None, "{case}: {}", told(&estimate));
        }
    }
}

// T = 10 s × 20, a pause of ≥ 100 s, T = 10 s × 20: 10 s, with a pause.

#[test]
fn twenty_phases_a_pause_and_twenty_more_are_10_s_with_a_pause() {
    for pause_s in [37.0, 100.0, 400.0, 5000.0] {
        for n in [8, 20] {
            let mut starts_s: Vec<f64> = (0..n).map(|i| 10.0 * f64::from(i)).collect();
            let again_s = 10.0 * f64::from(n) + pause_s;
            starts_s.extend((0..n).map(|i| again_s + 10.0 * f64::from(i)));
            let estimate = detect(&bursts_at(&starts_s, 1.0, 1e9));
            let case = format!("2 × {n} phases, a pause of {pause_s} s");
            headline(&estimate, 10.0, 0.01, &case);
            let near_10_s = |rhythm: &&Rhythm| near(rhythm.period_s, 10.0, 0.01);
            let n_found: usize = estimate.rhythms.iter().filter(near_10_s).map(|r| r.phases.len()).sum();
            counts(n_found, 2 * n as usize, &case, &estimate);
            // The pause shows: as missed beats, or as two stretches with nothing between them.
            let told_of =
                estimate.rhythms.iter().any(|rhythm| rhythm.missed > 0) || estimate.rhythms.len() == 2;
            assert!(told_of, "{case}: the pause is reported: {}", told(&estimate));
        }
    }
}

// 200 perfect phases of 15 s, one result file 300 s later: 15 s until then.

#[test]
fn two_hundred_phases_and_a_late_result_file_are_15_s_until_then() {
    for (n, late_s, volume) in [(200, 300.0, 1.0), (200, 300.0, 50.0), (40, 1000.0, 3.0), (12, 200.0, 0.5)] {
        let mut writes = bursts(n, 15.0, 0.1, 1e9);
        let result_s = 15.0 * n as f64 + late_s;
        writes.push((result_s, result_s + 5.0, volume * 1e9));
        let estimate = detect(&writes);
        let case = format!("{n} phases, {volume} of a phase's volume {late_s} s later");
        let rhythm = headline(&estimate, 15.0, 0.01, &case);
        counts(rhythm.phases.len(), n, &case, &estimate);
        assert!(rhythm.end_s < 15.0 * n as f64 + 1.0, "{case}: {}", told(&estimate));
    }
}

// 10 s until 305 s, then 25 s: both, each with its stretch of time.

#[test]
fn ten_seconds_then_twenty_five_are_both_each_with_its_stretch() {
    for (first_s, n, second_s, m) in
        [(10.0, 31, 25.0, 20), (10.0, 20, 4.0, 40), (2.0, 12, 7.0, 12), (600.0, 15, 1500.0, 15)]
    {
        let change_s = first_s * f64::from(n - 1) + second_s;
        let mut starts_s: Vec<f64> = (0..n).map(|i| first_s * f64::from(i)).collect();
        starts_s.extend((0..m).map(|i| change_s + second_s * f64::from(i)));
        let estimate = detect(&bursts_at(&starts_s, 0.1 * first_s.min(second_s), 1e9));
        let case = format!("{n} × {first_s} s, then {m} × {second_s} s");
        assert_eq!(estimate.verdict, Verdict::Periodic, "{case}: {}", told(&estimate));
        assert_eq!(estimate.rhythms.len(), 2, "{case}: {}", told(&estimate));
        let before = has_beat(&estimate, first_s, 0.02, &case);
        let after = has_beat(&estimate, second_s, 0.02, &case);
        let slack_s = 1.1 * first_s.max(second_s);
        assert!((before.end_s - change_s).abs() <= slack_s, "{case}: {}", told(&estimate));
        assert!((after.start_s - change_s).abs() <= slack_s, "{case}: {}", told(&estimate));
        assert!(before.start_s < before.end_s && before.end_s <= after.start_s + slack_s, "{case}");
        assert!(before.phases.len().abs_diff(n as usize) <= 1, "{case}: {}", told(&estimate));
        assert!(after.phases.len().abs_diff(m as usize) <= 1, "{case}: {}", told(&estimate));
    }
}

// First checkpoint 2–3 times the volume of the rest, 3–5 phases: the period.

#[test]
fn a_larger_first_checkpoint_keeps_the_period_of_three_to_five_phases() {
    for n in [3, 4, 5, 8] {
        for factor in [2.0, 2.5, 3.0, 8.0] {
            for longer in [false, true] {
                let mut writes = bursts(n, 120.0, 0.05, 1e9);
                writes[0].2 *= factor;
                if longer {
                    writes[0].1 = writes[0].0 + factor * 6.0;
                }
                let estimate = detect(&writes);
                let case = format!("{n} phases, the first {factor} times as large, longer: {longer}");
                let rhythm = only_beat(&estimate, 120.0, 0.02, &case);
                counts(rhythm.phases.len(), n, &case, &estimate);
            }
        }
    }
}

// T = 20 s, 5 % of the beats missing; 20–30 % missing: the beat is 20 s, so many were missed.

#[test]
fn missing_beats_leave_the_beat_at_20_s_and_are_counted() {
    for share in [0.05, 0.1, 0.2, 0.3] {
        for seed in 1..6 {
            let mut random = random(seed);
            let n = 60;
            let present: Vec<bool> = (0..n).map(|i| i == 0 || i + 1 == n || random() >= share).collect();
            let starts_s: Vec<f64> = (0..n).filter(|&i| present[i]).map(|i| 20.0 * i as f64).collect();
            let n_missed = n - starts_s.len();
            let estimate = detect(&bursts_at(&starts_s, 2.0, 1e9));
            let case = format!("{n_missed} of {n} beats missing (seed {seed})");
            let rhythm = only_beat(&estimate, 20.0, 0.01, &case);
            assert_eq!(rhythm.missed, n_missed, "{case}: {}", told(&estimate));
            counts(rhythm.phases.len(), starts_s.len(), &case, &estimate);
        }
    }
}

#[test]
fn missing_beats_of_uneven_phases_leave_the_beat_too() {
    for seed in 1..8 {
        let mut random = random(seed);
        let starts_s: Vec<f64> = (0..50)
            .filter(|_| random() > 0.15)
            .collect::<Vec<_>>()
            .into_iter()
            .map(|i| 20.0 * f64::from(i) + 1.2 * (random() - 0.5))
            .collect();
        let estimate = detect(&bursts_at(&starts_s, 2.0, 1e9));
        headline(&estimate, 20.0, 0.02, &format!("seed {seed}, {} of 50", starts_s.len()));
    }
}

// Big, small, big, small phases every 105 s: phases every 105 s; every second one is big.

#[test]
fn big_and_small_phases_in_turn_are_every_105_s() {
    for ratio in [2.0, 3.0, 10.0] {
        for n in [8, 20, 41] {
            let mut writes = bursts(n, 105.0, 0.06, 4e9);
            for small in writes.iter_mut().skip(1).step_by(2) {
                small.2 /= ratio;
            }
            let estimate = detect(&writes);
            let case = format!("{n} phases, big {ratio} × small");
            let rhythm = headline(&estimate, 105.0, 0.01, &case);
            counts(rhythm.phases.len(), n, &case, &estimate);
            let longest_s = rhythm.phases.iter().map(|p| p.end_s - p.start_s).fold(0.0, f64::max);
            assert!(longest_s < 10.0, "{case}: a phase of {longest_s} s: {}", told(&estimate));
        }
    }
}

#[test]
fn big_and_small_phases_may_also_differ_in_length() {
    for ratio in [2.0, 4.0] {
        let mut writes = bursts(24, 105.0, 0.12, 4e9);
        for small in writes.iter_mut().skip(1).step_by(2) {
            small.2 /= ratio;
            small.1 = small.0 + (small.1 - small.0) / ratio;
        }
        let estimate = detect(&writes);
        let rhythm = headline(&estimate, 105.0, 0.01, &format!("ratio {ratio}"));
        counts(rhythm.phases.len(), 24, &format!("ratio {ratio}"), &estimate);
    }
}

// Distances 6, 14, 6, 14: 20 (two phases in each).

#[test]
fn distances_of_6_and_14_are_a_beat_of_20() {
    for (short_s, long_s, n) in [(6.0, 14.0, 15), (6.0, 14.0, 40), (3.0, 7.0, 20), (120.0, 480.0, 12)] {
        let beat_s = short_s + long_s;
        let starts_s: Vec<f64> =
            (0..n).flat_map(|i| [beat_s * f64::from(i), beat_s * f64::from(i) + short_s]).collect();
        let estimate = detect(&bursts_at(&starts_s, 0.05 * beat_s, 1e9));
        let case = format!("distances of {short_s} s and {long_s} s, {n} times");
        headline(&estimate, beat_s, 0.01, &case);
        for rhythm in &estimate.rhythms {
            assert!(near(rhythm.period_s, beat_s, 0.01), "{case}: {}", told(&estimate));
        }
        assert_eq!(categorized(&bursts_at(&starts_s, 0.05 * beat_s, 1e9)), periods(&estimate), "{case}");
    }
}

// 8 MB every 1 s for 810, 1200, 2000, 10⁵ phases: 1 s, one engine.

/// The periods that the labels of the run are based on.
fn categorized(writes: &[Write]) -> Vec<f64> {
    let mut observed = Observed::new();
    for &(start_s, end_s, bytes) in writes {
        let _ = observed.event(Event::data(Op::Write, Rank(0), at(start_s), at(end_s), bytes));
    }
    let found = categorize(observed, &JobInfo::default(), &CategoryConfig::default());
    found.write.periods.iter().map(|period| period.period_s).collect()
}

fn periods(estimate: &PeriodEstimate) -> Vec<f64> {
    estimate.rhythms.iter().map(|rhythm| rhythm.period_s).collect()
}

#[test]
fn eight_megabytes_every_second_are_1_s_in_detect_and_categorize() {
    for n in [50, 810, 1200, 2000, 100_000] {
        for duty in [0.01, 0.2] {
            let writes = bursts(n, 1.0, duty, 8e6);
            let (estimate, case) = (detect(&writes), format!("{n} phases, {duty} busy"));
            let rhythm = only_beat(&estimate, 1.0, 2e-3, &case);
            counts(rhythm.phases.len(), n, &case, &estimate);
            assert_eq!(categorized(&writes), periods(&estimate), "{case}: one engine");
        }
    }
}

// The same for sequences so long that only their parts are tried with every guess.

#[test]
fn twenty_thousand_phases_that_change_their_beat_have_both() {
    let mut starts_s: Vec<f64> = (0..10_000).map(|i| 10.0 * f64::from(i)).collect();
    starts_s.extend((1..10_000).map(|i| 99_990.0 + 25.0 * f64::from(i)));
    let writes: Vec<Write> = starts_s.iter().map(|&start_s| (start_s, start_s + 1.0, 1e8)).collect();
    let mut found = periods(&detect(&writes));
    found.sort_by(f64::total_cmp);
    assert!(found.len() == 2 && (found[0] - 10.0).abs() < 0.1 && (found[1] - 25.0).abs() < 0.2, "{found:?}");
}

#[test]
fn thirty_thousand_waits_without_memory_are_not_periodic() {
    let mut random = random(7);
    let mut at_s = 0.0;
    let writes: Vec<Write> = (0..30_000)
        .map(|_| {
            at_s += 0.01 - 10.0 * (1.0 - random()).ln();
            (at_s, at_s + 0.005, 1e8)
        })
        .collect();
    let estimate = detect(&writes);
    assert_eq!(estimate.verdict, Verdict::NotPeriodic, "{:?}", periods(&estimate));
}

// 8 s + exponential 8 s; Pareto 1.3: the mean distance, or none.

#[test]
fn waits_with_chance_in_them_are_the_mean_distance_or_none() {
    for seed in 1..12 {
        for kind in ["8 s + exponential 8 s", "Pareto 1.3"] {
            let mut random = random(seed);
            let mut starts_s = vec![0.0];
            for _ in 0..60 {
                let wait_s = match kind {
                    "Pareto 1.3" => 5.0 * (1.0 - random()).powf(-1.0 / 1.3),
                    _ => 8.0 - 8.0 * (1.0 - random()).ln(),
                };
                starts_s.push(starts_s[starts_s.len() - 1] + wait_s);
            }
            let writes = bursts_at(&starts_s, 0.2, 1e9);
            let mean_s = starts_s[60] / 60.0;
            let estimate = detect(&writes);
            let case = format!("{kind}, seed {seed}, mean {mean_s:.2} s");
            for rhythm in &estimate.rhythms {
                assert!(near(rhythm.period_s, mean_s, 0.1), "{case}: {}", told(&estimate));
            }
            assert_eq!(categorized(&writes), periods(&estimate), "{case}: one engine");
        }
    }
}

// Dumps every 15–19 s with 99.8 % of the bytes beside a log line every 1.2 s: the dumps; the log is listed after them.

#[test]
fn dumps_with_nearly_all_bytes_beside_a_log_are_the_headline() {
    for (seed, every_s) in [(1, 1.2), (2, 1.2), (3, 0.25), (4, 5.0)] {
        let mut random = random(seed);
        let mut starts_s = vec![1.0];
        for _ in 0..39 {
            starts_s.push(starts_s[starts_s.len() - 1] + 15.0 + 4.0 * random());
        }
        let (n, mean_s) = (starts_s.len(), (starts_s[39] - starts_s[0]) / 39.0);
        let mut writes = bursts_at(&starts_s, 1.5, 1e9);
        let n_lines = ((starts_s[39] + 10.0) / every_s) as usize;
        let line = 0.002 * 1e9 * n as f64 / n_lines as f64;
        writes.extend((0..n_lines).map(|i| (i as f64 * every_s, i as f64 * every_s + 0.001, line)));
        let estimate = detect(&writes);
        let case = format!("dumps every {mean_s:.2} s, a line every {every_s} s");
        let rhythm = headline(&estimate, mean_s, 0.05, &case);
        counts(rhythm.phases.len(), n, &case, &estimate);
        for other in &estimate.rhythms[1..] {
            assert!(near(other.period_s, every_s, 0.05), "{case}: {}", told(&estimate));
            assert!(other.bytes < rhythm.bytes, "{case}: {}", told(&estimate));
        }
    }
}

// … online: the dumps, not only the log line.

fn predictions(mut events: Vec<Event>) -> Vec<Prediction> {
    events.sort_by_key(|event| event.end);
    let mut predictor = Predictor::new(PredictorConfig::default());
    events.iter().filter_map(|event| predictor.push_event(event)).collect()
}

fn events_of(writes: &[Write]) -> Vec<Event> {
    writes.iter().map(|w| Event::data(Op::Write, Rank(0), at(w.0), at(w.1), w.2)).collect()
}

#[test]
fn a_log_line_every_second_hides_no_dumps_online() {
    for (period_s, every_s) in [(60.0, 1.0), (17.0, 1.2), (300.0, 5.0)] {
        let n = 30;
        let mut writes = bursts(n, period_s, 0.08, 1e9);
        let n_lines = (period_s * n as f64 / every_s) as usize;
        let line = 0.002 * 1e9 * n as f64 / n_lines as f64;
        writes.extend((0..n_lines).map(|i| (i as f64 * every_s, i as f64 * every_s + 0.002, line)));
        let told = predictions(events_of(&writes));
        // From the sixth dump on it is known.
        let settled: Vec<&Prediction> = told.iter().filter(|t| t.at_s > 6.0 * period_s).collect();
        let right = settled.iter().filter(|t| t.period_s.is_some_and(|s| near(s, period_s, 0.1))).count();
        assert!(
            !settled.is_empty() && right * 10 >= settled.len() * 9,
            "dumps every {period_s} s beside a line every {every_s} s: {right} of {} predictions name the dumps; the \
             last: {:?}",
            settled.len(),
            settled.last().map(|t| (t.at_s, t.period_s, t.confidence))
        );
    }
}

// A training loop with an evaluation pass between epochs: the period.

#[test]
fn an_evaluation_pass_between_epochs_does_not_halve_the_period() {
    for (epoch_s, n, train, evaluation) in
        [(100.0, 12, 0.5, 0.1), (100.0, 12, 0.4, 0.3), (30.0, 25, 0.6, 0.15), (1800.0, 8, 0.45, 0.05)]
    {
        for bytes in [0.1, 0.5] {
            let mut writes = Vec::new();
            for epoch in 0..n {
                let start_s = epoch_s * f64::from(epoch);
                writes.push((start_s, start_s + train * epoch_s, 1e10));
                // The pass begins where half the epoch is over, or a little later.
                let pass_s = start_s + (train + 0.08) * epoch_s;
                writes.push((pass_s, pass_s + evaluation * epoch_s * 0.8, bytes * 1e10));
            }
            let estimate = detect(&writes);
            let case =
                format!("{n} epochs of {epoch_s} s, train {train}, evaluation {evaluation} with {bytes}");
            headline(&estimate, epoch_s, 0.02, &case);
            for rhythm in &estimate.rhythms {
                assert!(near(rhythm.period_s, epoch_s, 0.02), "{case}: {}", told(&estimate));
            }
        }
    }
}

// Four ranks write once each, one after the other: one phase; one call per rank is no rhythm.
// (A signal does not know ranks: four stretches are too few to tell, whoever wrote them. The row by ranks is in `cli`.)

// Period 600.7 s above a list of phases that are 667 s apart: period and list agree, always.

#[test]
fn period_and_list_of_phases_agree() {
    for (n, last) in [(10, 1.0), (10, 3.0), (7, 2.2), (20, 5.0)] {
        // A long last phase, as a run that ends with a dump of everything.
        let mut writes = bursts(n, 667.0, 0.2, 1e9);
        let end = writes.last_mut().unwrap();
        (end.1, end.2) = (end.0 + last * 0.2 * 667.0, last * 1e9);
        let estimate = detect(&writes);
        let case = format!("{n} phases, the last {last} times as long");
        let rhythm = headline(&estimate, 667.0, 0.01, &case);
        counts(rhythm.phases.len(), n, &case, &estimate);
        let span_s = rhythm.phases[n - 1].start_s - rhythm.phases[0].start_s;
        let spanned_s = rhythm.period_s * (n - 1 + rhythm.missed) as f64;
        assert!(near(spanned_s, span_s, 0.01), "{case}: {}", told(&estimate));
    }
}

#[test]
fn uneven_phases_agree_with_their_period_too() {
    for seed in 1..30 {
        let mut random = random(seed);
        let n = 8 + (random() * 20.0) as usize;
        let mut starts_s = vec![0.0];
        for _ in 1..n {
            starts_s.push(starts_s[starts_s.len() - 1] + 60.0 * (0.85 + 0.3 * random()));
        }
        let estimate = detect(&bursts_at(&starts_s, 4.0, 1e9));
        let case = format!("seed {seed}, {n} phases");
        let mean_s = starts_s[n - 1] / (n - 1) as f64;
        let rhythm = headline(&estimate, mean_s, 0.06, &case);
        counts(rhythm.phases.len(), n, &case, &estimate);
        assert!(near(rhythm.mean_distance_s, mean_s, 0.01), "{case}: {}", told(&estimate));
    }
}

// 6 equal bursts of 20 ms, 0.4–0.57 s apart: 6 phases.

#[test]
fn six_equal_bursts_of_20_ms_are_six_phases() {
    for distances_s in [
        [0.40, 0.57, 0.47, 0.52, 0.44],
        [0.57, 0.40, 0.57, 0.40, 0.50],
        [0.45, 0.45, 0.50, 0.55, 0.48],
        [0.50, 0.50, 0.50, 0.50, 0.50],
    ] {
        let mut starts_s = vec![0.0];
        for distance_s in distances_s {
            starts_s.push(starts_s[starts_s.len() - 1] + distance_s);
        }
        let estimate = detect(&bursts_at(&starts_s, 0.02, 1e8));
        let case = format!("distances {distances_s:?}");
        let mean_s = starts_s[5] / 5.0;
        let rhythm = headline(&estimate, mean_s, 0.1, &case);
        counts(rhythm.phases.len(), 6, &case, &estimate);
        for phase in &rhythm.phases {
            assert!(near(phase.end_s - phase.start_s, 0.02, 0.1), "{case}: {phase:?}");
        }
    }
}

#[test]
fn twenty_bursts_with_jitter_are_twenty_phases() {
    for jitter in [0.05, 0.1, 0.2] {
        for seed in 1..8 {
            let mut random = random(seed);
            let starts_s: Vec<f64> =
                (0..20).map(|i| 12.0 * f64::from(i) + 12.0 * jitter * (2.0 * random() - 1.0)).collect();
            let estimate = detect(&bursts_at(&starts_s, 0.6, 1e9));
            let case = format!("jitter {jitter}, seed {seed}");
            let rhythm = headline(&estimate, 12.0, 0.05, &case);
            counts(rhythm.phases.len(), 20, &case, &estimate);
        }
    }
}

// Three writes of 100 kB: 100 kB, the mean over phases.

#[test]
fn bytes_per_phase_are_the_mean_over_phases() {
    for (n, bytes) in [(3, 1e5), (4, 1e9), (10, 7.5e6), (100, 2e9)] {
        let estimate = detect(&bursts(n, 5.0, 0.1, bytes));
        let case = format!("{n} phases of {bytes} B");
        let rhythm = only_beat(&estimate, 5.0, 0.01, &case);
        counts(rhythm.phases.len(), n, &case, &estimate);
        assert!(near(rhythm.bytes / n as f64, bytes, 1e-3), "{case}: {}", told(&estimate));
        for phase in &rhythm.phases {
            assert!(near(phase.bytes, bytes, 1e-2), "{case}: {phase:?}");
        }
    }
}

// Heatmap bins of 25.6 s, true period 60 s: 60 ± a bin, or unclear.

#[test]
fn bins_of_25_6_s_tell_60_s_within_a_bin_or_nothing() {
    for (bin_s, period_s) in [(25.6, 60.0), (51.2, 60.0), (12.8, 60.0), (25.6, 90.0), (6.4, 17.0)] {
        let n_bins = 240;
        let mut bins = vec![0.0; n_bins];
        let mut start_s = 3.0;
        while start_s < bin_s * n_bins as f64 {
            bins[(start_s / bin_s) as usize] += 1e9;
            start_s += period_s;
        }
        let writes: Vec<Write> = (bins.iter().enumerate())
            .filter(|(_, bytes)| **bytes > 0.0)
            .map(|(i, &bytes)| (i as f64 * bin_s, (i + 1) as f64 * bin_s, bytes))
            .collect();
        let estimate = detect_stated(&writes, StatedRun { bin_s: Some(bin_s), ..StatedRun::default() });
        match estimate.verdict {
            Verdict::Unclear => {}
            Verdict::Periodic => {
                let found_s = estimate.period_s.unwrap();
                assert!(
                    (found_s - period_s).abs() <= bin_s,
                    "bins of {bin_s} s, {period_s} s: {}",
                    told(&estimate)
                );
            }
            Verdict::NotPeriodic => panic!("bins of {bin_s} s, {period_s} s: {}", told(&estimate)),
        }
    }
}

// A 10 s constant write: busy 100 % of the time. (The words are in `cli`.)

#[test]
fn a_constant_write_is_busy_all_the_time() {
    for (n, length_s) in [(1, 10.0), (10, 1.0), (1000, 0.01)] {
        let writes: Vec<Write> =
            (0..n).map(|i| (f64::from(i) * length_s, f64::from(i + 1) * length_s, 1e8)).collect();
        let signal = writes_of(writes);
        let run = analyse_run(&StepSignal::default(), &signal, &RunConfig::default()).unwrap();
        let busy = run.scores.io_time_ratio.unwrap_or(0.0);
        assert!((busy - 1.0).abs() < 0.01, "{n} writes of {length_s} s: busy {busy}");
        assert_ne!(run.estimate.verdict, Verdict::Periodic, "{}", told(&run.estimate));
    }
}

// 100 Python writes in a loop: a steady stream; a period is stated only if its gaps mean something.

#[test]
fn a_hundred_writes_in_a_loop_are_a_steady_stream() {
    for seed in 1..10 {
        let mut random = random(seed);
        for (n, step_s) in [(100, 6.4e-6), (100, 40e-6), (1000, 6.4e-6), (300, 1e-3)] {
            // As a loop leaves them: a call takes most of each turn, with a little of chance in both.
            let mut at_s = 0.0;
            let writes: Vec<Write> = (0..n)
                .map(|_| {
                    let (call_s, gap_s) =
                        (step_s * (0.75 + 0.1 * random()), step_s * (0.15 + 0.1 * random()));
                    let start_s = at_s;
                    at_s += call_s + gap_s;
                    (start_s, start_s + call_s, 4096.0)
                })
                .collect();
            // What tells a loop from phases is that each of them is one request.
            let stated = StatedRun { n_requests: n as u64, ..StatedRun::default() };
            let estimate = detect_stated(&writes, stated);
            assert_ne!(
                estimate.verdict,
                Verdict::Periodic,
                "{n} writes every {step_s} s: {}",
                told(&estimate)
            );
        }
    }
}

#[test]
fn requests_that_follow_each_other_for_a_moment_of_a_run_are_one_phase() {
    let writes = bursts(80, 5e-5, 0.3, 4096.0);
    let stated = |told_s| StatedRun { n_requests: 80, told_s, ..StatedRun::default() };
    let moment = detect_stated(&writes, stated(1.0));
    assert_eq!(moment.verdict, Verdict::NotPeriodic, "{}", told(&moment));
    assert!(moment.rhythms.is_empty() && moment.period_s.is_none());
    // Where that is the whole run, it is its beat.
    assert_eq!(detect_stated(&writes, stated(4e-3)).verdict, Verdict::Periodic);
}

// An event with a bad clock at 7200 s in a 300 s job, online: one outlier never stops a predictor.

#[test]
fn one_event_with_a_bad_clock_stops_no_predictor() {
    for (outlier_s, after) in [(7200.0, 9), (7200.0, 3), (1e6, 12), (400.0, 9)] {
        let mut predictor = Predictor::new(PredictorConfig::default());
        let mut last = None;
        for (i, event) in events_of(&bursts(30, 10.0, 0.1, 1e9)).iter().enumerate() {
            if i == after {
                let bad = Event::data(Op::Write, Rank(3), at(outlier_s), at(outlier_s + 0.1), 1e6);
                let _ = predictor.push_event(&bad);
            }
            last = predictor.push_event(event).or(last);
        }
        let stream = predictor.stream();
        let case = format!("a write at {outlier_s} s after {after} phases");
        assert!(stream.late <= 1, "{case}: {stream:?}");
        let last: Prediction = last.unwrap_or_else(|| panic!("{case}: nothing predicted"));
        assert!(last.at_s > 250.0 && last.at_s < 310.0, "{case}: the last prediction is of {} s", last.at_s);
        assert!(last.period_s.is_some_and(|s| near(s, 10.0, 0.05)), "{case}: {:?}", last.period_s);
    }
}

// Transformed regular runs that keep their beat: a stream beside, reads between the writes.

#[test]
fn a_stream_beside_and_reads_between_change_nothing() {
    for share in [0.1, 0.5, 0.9] {
        let mut writes = bursts(20, 30.0, 0.1, 3e9);
        writes.push((0.0, 573.0, share * 1e9 * 573.0));
        let estimate = detect(&writes);
        let case = format!("a stream at {share} of the phases' bandwidth");
        let rhythm = only_beat(&estimate, 30.0, 0.01, &case);
        counts(rhythm.phases.len(), 20, &case, &estimate);
    }
    let writes = writes_of(bursts(20, 30.0, 0.1, 3e9));
    let reads = writes_of((0..19).map(|i| (30.0 * f64::from(i) + 11.0, 30.0 * f64::from(i) + 16.0, 2e9)));
    let estimate = analyse_run(&reads, &writes, &RunConfig::default()).unwrap().estimate;
    only_beat(&estimate, 30.0, 0.01, "reads between");
}
