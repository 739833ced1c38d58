//! Runs that were given too high a confidence: their truth is known, and what cannot be known is not stated.

use iotide_analysis::{PeriodEstimate, Reason, RunConfig, StatedRun, Verdict, analyse_run};
use iotide_num::SplitMix64;
use iotide_trace::{Overlap, StepSignal, Timestamp};

/// A burst: start and end in seconds, bytes.
type Burst = (f64, f64, f64);

fn ask(bursts: impl IntoIterator<Item = Burst>, bin_s: Option<f64>) -> PeriodEstimate {
    let at = |secs: f64| Timestamp::from_secs_since_start(secs).unwrap();
    let mut overlap = Overlap::new();
    for (start_s, end_s, bytes) in bursts {
        overlap.add(at(start_s), at(end_s), bytes);
    }
    let stated = StatedRun { bin_s, ..StatedRun::default() };
    let config = RunConfig { stated, ..RunConfig::default() };
    analyse_run(&StepSignal::default(), &overlap.finish(), &config).unwrap().estimate
}

/// Returns what a source has that adds up bytes in bins.
fn binned(bursts: &[Burst], bin_s: f64, base_bps: f64) -> Vec<Burst> {
    let end_s = bursts.iter().map(|burst| burst.1).fold(0.0, f64::max);
    let mut bins = vec![base_bps * bin_s; (end_s / bin_s).ceil() as usize + 1];
    for &(start_s, end_s, bytes) in bursts {
        let (first, last) = ((start_s / bin_s) as usize, (end_s / bin_s) as usize);
        for (i, bin) in bins.iter_mut().enumerate().take(last + 1).skip(first) {
            let within_s = end_s.min((i + 1) as f64 * bin_s) - start_s.max(i as f64 * bin_s);
            *bin += bytes * (within_s / (end_s - start_s)).max(0.0);
        }
    }
    let bins = bins.into_iter().enumerate().filter(|(_, bytes)| *bytes > 0.0);
    bins.map(|(i, bytes)| (i as f64 * bin_s, (i + 1) as f64 * bin_s, bytes)).collect()
}

/// Equal bursts, one every `period_s`.
fn every(period_s: f64, n: usize, length_s: f64) -> Vec<Burst> {
    let start_s = |i: usize| (i as f64 + 0.3) * period_s;
    (0..n).map(|i| (start_s(i), start_s(i) + length_s, 1e9)).collect()
}

/// A bandwidth, second by second.
fn stream(rates_bps: impl IntoIterator<Item = f64>) -> Vec<Burst> {
    rates_bps.into_iter().enumerate().map(|(i, bps)| (i as f64, (i + 1) as f64, bps)).collect()
}

/// The answer, for messages.
fn told(estimate: &PeriodEstimate) -> String {
    let rhythms: Vec<_> = (estimate.rhythms.iter())
        .map(|rhythm| (rhythm.period_s, rhythm.phases.len(), rhythm.missed, rhythm.spread, rhythm.confidence))
        .collect();
    format!("{:?} {:?} {rhythms:?} {:?}", estimate.verdict, estimate.reason, estimate.candidates)
}

#[track_caller]
fn is_period(estimate: &PeriodEstimate, period_s: f64, tolerance: f64, case: &str) {
    let found_s = estimate.period_s.unwrap_or(0.0);
    assert!((found_s / period_s - 1.0).abs() <= tolerance, "{case}: {period_s} s, not {}", told(estimate));
}

#[test]
fn bins_wider_than_half_the_period_are_too_coarse() {
    for (per_beat, n) in [
        (0.81, 24),
        (0.847, 44),
        (0.893, 32),
        (1.204, 12),
        (1.245, 45),
        (1.355, 16),
        (1.465, 13),
        (1.7, 30),
        (2.34, 40),
    ] {
        for length in [0.02, 0.1, 0.3] {
            let bin_s = 60.0 / per_beat;
            let estimate = ask(binned(&every(60.0, n, 60.0 * length), bin_s, 0.0), Some(bin_s));
            let case = format!("{per_beat} bins a beat, {n} phases, {length}: {}", told(&estimate));
            assert_ne!(estimate.verdict, Verdict::Periodic, "{case}");
        }
    }
}

#[test]
fn periods_that_bins_cannot_tell_apart_are_all_candidates() {
    // Every fifth bin is empty: a phase of four bins every five, or a short one every bin and a quarter.
    let bin_s = 48.0;
    let estimate = ask(binned(&every(60.0, 60, 3.0), bin_s, 0.0), Some(bin_s));
    assert_eq!(
        (estimate.verdict, estimate.reason),
        (Verdict::Unclear, Some(Reason::TooCoarse)),
        "{}",
        told(&estimate)
    );
    let has = |period_s: f64| {
        estimate.candidates.iter().any(|candidate| (candidate.period_s / period_s - 1.0).abs() < 0.02)
    };
    assert!(has(60.0) && has(240.0), "{}", told(&estimate));
}

#[test]
fn bins_a_fourth_of_the_period_wide_are_fine_enough() {
    for (per_beat, length) in [(4.0, 0.1), (4.3, 0.1), (5.0, 0.3), (6.5, 0.3), (9.1, 0.2)] {
        let bin_s = 60.0 / per_beat;
        let estimate = ask(binned(&every(60.0, 40, 60.0 * length), bin_s, 0.0), Some(bin_s));
        is_period(&estimate, 60.0, 0.02, &format!("{per_beat} bins a beat"));
    }
}

#[test]
fn weak_and_strong_phases_in_turn_have_the_period_of_both() {
    for (bin_s, dip_s) in [(0.15, 0.8), (0.16, 1.5), (0.189, 1.56), (0.179, 1.57)] {
        let mut random = SplitMix64::new(3);
        let bursts: Vec<Burst> = (0..30)
            .flat_map(|i| {
                let start_s = 7.8 * (f64::from(i) + 0.2 + 0.01 * random.normal());
                [(start_s, start_s + 2.0, 0.8e9), (start_s + 2.0 + dip_s, start_s + 3.5 + dip_s, 1.8e9)]
            })
            .collect();
        let estimate = ask(binned(&bursts, bin_s, 0.1e9), Some(bin_s));
        is_period(&estimate, 7.8, 0.02, &format!("bins of {bin_s} s, a dip of {dip_s} s"));
    }
}

#[test]
fn a_stream_whose_level_swings_has_a_rhythm_and_its_depth() {
    let mut random = SplitMix64::new(7);
    for noise in [0.0, 0.01, 0.03] {
        let level = |i: usize| 1025e6 - 125e6 * (std::f64::consts::TAU * i as f64 / 71.0).cos();
        let rates: Vec<f64> = (0..710).map(|i| level(i) * (1.0 + noise * random.normal())).collect();
        let estimate = ask(stream(rates), Some(1.0));
        is_period(&estimate, 71.0, 0.02, &format!("noise {noise}"));
        let rhythm = &estimate.rhythms[0];
        assert!((0.1..0.25).contains(&rhythm.depth), "{}: {}", rhythm.depth, told(&estimate));
        assert!(rhythm.bytes > 0.4 * 710.0 * 1025e6, "all that the phases move: {}", rhythm.bytes);
    }
}

#[test]
fn a_stream_that_wanders_has_none() {
    for seed in 0..20 {
        let mut random = SplitMix64::new(seed);
        let (mut off, keeps) = (0.0, if seed % 2 == 0 { 0.99 } else { 0.0 });
        let mut level = || {
            off = keeps * off + 0.03 * random.normal();
            1e9 * (1.0 + off).max(0.6)
        };
        let estimate = ask(stream((0..700).map(|_| level())), Some(1.0));
        assert_ne!(estimate.verdict, Verdict::Periodic, "seed {seed}: {}", told(&estimate));
    }
}

#[test]
fn phases_with_silence_in_between_are_as_deep_as_can_be() {
    let estimate = ask(every(10.0, 20, 1.0), None);
    let rhythm = &estimate.rhythms[0];
    for share in [rhythm.depth, rhythm.byte_share, rhythm.time_share] {
        assert!((0.99..=1.0).contains(&share), "{rhythm:?}");
    }
}

#[test]
fn a_rhythm_that_explains_half_of_its_beats_is_less_certain() {
    let (mut n_stated, mut confidence) = (0, 0.0);
    for seed in 0..20 {
        let mut random = SplitMix64::new(seed);
        let kept: Vec<f64> = (0..88).filter(|_| random.unit() < 0.53).map(|i| f64::from(i) * 10.0).collect();
        let estimate = ask(kept.iter().map(|start_s| (*start_s, start_s + 1.0, 1e9)), None);
        // Phases that are missing so often may as well be no beat at all.
        let Some(period_s) = estimate.period_s else { continue };
        n_stated += 1;
        confidence += estimate.confidence;
        assert!((period_s - 10.0).abs() < 0.1, "seed {seed}: {}", told(&estimate));
        let share = estimate.rhythms[0].time_share;
        assert!((share - kept.len() as f64 / 88.0).abs() < 0.1, "seed {seed}: {share}");
    }
    assert!(n_stated > 5 && confidence / f64::from(n_stated) < 0.9, "{n_stated} of 20, {confidence}");
}

#[test]
fn phases_that_move_a_tenth_of_what_is_written_without_pause_are_less_certain() {
    let mut random = SplitMix64::new(13);
    let rates = (0..800).map(|i| {
        let phase = if i % 20 < 2 { 0.3e9 } else { 0.0 };
        1e9 * (1.0 + 0.02 * random.normal()) + phase
    });
    let estimate = ask(stream(rates.collect::<Vec<_>>()), None);
    is_period(&estimate, 20.0, 0.02, "a tenth of the bytes");
    let rhythm = &estimate.rhythms[0];
    assert!((0.1..0.2).contains(&rhythm.byte_share), "{}: {}", rhythm.byte_share, told(&estimate));
    assert!((0.5..0.9).contains(&estimate.confidence), "{}", told(&estimate));
}

#[test]
fn long_phases_back_to_back_are_one_phase_with_dips() {
    for (n, length_s, gap_s) in [(3, 60.0, 1.0), (4, 100.0, 3.0), (4, 100.0, 8.0)] {
        let starts_s = (0..n).map(|i| f64::from(i) * (length_s + gap_s));
        let requests = starts_s.flat_map(|start_s| {
            (0..100).map(move |i| {
                let part_s = length_s / 100.0;
                (start_s + f64::from(i) * part_s, start_s + f64::from(i + 1) * part_s, 1e9)
            })
        });
        let estimate = ask(requests.collect::<Vec<_>>(), None);
        assert_eq!(
            (estimate.verdict, estimate.reason),
            (Verdict::Unclear, Some(Reason::TooFewPhases)),
            "{}",
            told(&estimate)
        );
    }
}

#[test]
fn nobody_is_certain_beyond_doubt() {
    for estimate in [
        ask(every(10.0, 200, 1.0), None),
        ask([(0.0, 1.0, 1e9), (3.0, 3.1, 1e9), (50.0, 51.0, 2e7), (300.0, 310.0, 1e9)], None),
    ] {
        assert!(estimate.confidence < 1.0, "{}", told(&estimate));
        assert!(
            estimate.candidates.iter().all(|candidate| candidate.confidence < 1.0),
            "{}",
            told(&estimate)
        );
    }
}

/// Calls whose times are whole rows of this width.
fn in_rows(starts: impl IntoIterator<Item = f64>, row_s: f64) -> Vec<Burst> {
    starts.into_iter().map(|start| (start.floor() * row_s, (start.floor() + 1.0) * row_s, 1e8)).collect()
}

#[test]
fn a_beat_seen_through_coarse_rows_is_the_beat_and_not_the_pattern_that_rounding_makes() {
    for beat in [2.2, 2.5, 8.0 / 3.0, 3.4, 3.5, 4.5, 5.25, 7.5] {
        for offset in [0.0, 0.3, 0.9] {
            for row_s in [1e-3, 1.0, 60.0] {
                let estimate = ask(in_rows((0..60).map(|i| f64::from(i) * beat + offset), row_s), None);
                let case = format!("{beat} rows of {row_s} s from {offset}");
                is_period(&estimate, beat * row_s, 0.01, &case);
            }
        }
    }
    // Samples tell how wide they are, and then what so few to a beat leave open is said.
    let estimate = ask(in_rows((0..60).map(|i| f64::from(i) * 2.5), 1.0), Some(1.0));
    assert_eq!(estimate.reason, Some(Reason::TooCoarse), "{}", told(&estimate));
    let best = estimate.candidates[0];
    assert!((best.period_s / 2.5 - 1.0).abs() < 0.01 && best.confidence < 0.5, "{}", told(&estimate));
    let estimate = ask(in_rows((0..60).map(|i| f64::from(i) * 3.5), 1.0), Some(1.0));
    is_period(&estimate, 3.5, 0.01, "3.5 samples");
}

#[test]
fn distances_in_turn_that_rows_cannot_explain_repeat_with_both() {
    for (one, other) in [(2.0, 4.0), (3.0, 5.0), (3.0, 8.0), (9.0, 12.0)] {
        let starts = (0..60).map(|i| f64::from(i / 2) * (one + other) + f64::from(i % 2) * one);
        let estimate = ask(in_rows(starts, 1.0), None);
        is_period(&estimate, one + other, 0.01, &format!("{one} and {other} rows in turn"));
    }
}

#[test]
fn two_distances_in_turn_repeat_with_both_from_wherever_and_at_any_scale() {
    for (one, other) in [(72.0, 48.0), (70.0, 50.0), (80.0, 40.0), (90.0, 30.0)] {
        for n in [9, 10, 24, 41] {
            for (from_s, times) in [(0.0, 1.0), (1e5, 1.0), (17.3, 1e-4), (3.0, 1e3)] {
                for (first, second) in [(one, other), (other, one)] {
                    for bytes in [1e9, 2e9] {
                        let burst = |i: i32| {
                            let start_s = f64::from(i / 2) * 120.0 + f64::from(i % 2) * first;
                            let at = |secs: f64| from_s + times * secs;
                            (at(start_s), at(start_s + 0.7), if i % 2 == 0 { 1e9 } else { bytes })
                        };
                        let estimate = ask((0..n).map(burst), None);
                        let case = format!(
                            "{n} phases {first} and {second} s apart, from {from_s} s, × {times}, {bytes}"
                        );
                        is_period(&estimate, 120.0 * times, 0.01, &case);
                    }
                }
            }
        }
    }
}

/// Phases of a second after distances that are changed from one to the next, at most by 30 %.
fn wandering(seed: u64) -> Vec<Burst> {
    let mut random = SplitMix64::new(seed);
    let (mut at_s, mut off) = (0.0, 0.6 * random.unit() - 0.3);
    let mut next = || {
        let start_s = at_s;
        off = (off + 0.1 * random.normal()).clamp(-0.3, 0.3);
        at_s += 60.0 * (1.0 + off);
        (start_s, start_s + 1.0, 1e9)
    };
    (0..40).map(|_| next()).collect()
}

#[test]
fn a_stretch_of_a_beat_that_wanders_is_not_certain() {
    let (mut n_wrong, mut n_certain) = (0, 0);
    for seed in 0..200 {
        let bursts = wandering(seed);
        let mean_s = bursts[39].0 / 39.0;
        let estimate = ask(bursts, None);
        if estimate.period_s.is_some_and(|period_s| (period_s / mean_s - 1.0).abs() > 0.06) {
            n_wrong += 1;
            n_certain += usize::from(estimate.confidence > 0.95);
        }
    }
    assert!(n_wrong > 20 && n_certain * 4 < n_wrong, "{n_certain} of {n_wrong} with a high confidence");
}

#[test]
fn a_program_that_changes_its_beat_is_certain_of_both() {
    for (before_s, after_s, jitter) in
        [(10.0, 16.0, 0.0), (10.0, 16.0, 0.04), (10.0, 25.0, 0.05), (15.0, 10.0, 0.05)]
    {
        let mut n_certain = 0;
        for seed in 0..40 {
            let mut random = SplitMix64::new(seed);
            let mut start_s = |i: u32| {
                let steady_s = f64::from(i.min(30)) * before_s + f64::from(i.max(30) - 30) * after_s;
                steady_s + jitter * before_s * random.normal() + 1.0
            };
            let starts_s: Vec<f64> = (0..60).map(&mut start_s).collect();
            let estimate = ask(starts_s.into_iter().map(|start_s| (start_s, start_s + 0.5, 1e9)), None);
            n_certain += usize::from(
                estimate.rhythms.len() == 2 && estimate.rhythms.iter().all(|rhythm| rhythm.confidence > 0.99),
            );
        }
        assert!(n_certain >= 36, "{before_s} s, then {after_s} s, jitter {jitter}: {n_certain} of 40");
    }
}

#[test]
fn long_phases_have_a_beat_if_the_gaps_between_them_are_no_dips() {
    for (gap, is_periodic) in [(0.1, true), (0.15, true), (0.05, false), (0.01, false)] {
        let phase = |i: u32| {
            let start_s = f64::from(i) * 100.0 * (1.0 + gap) + 5.0;
            (start_s, start_s + 100.0, 1e11)
        };
        let estimate = ask((0..3).map(phase), None);
        assert_eq!(estimate.verdict == Verdict::Periodic, is_periodic, "{gap}: {}", told(&estimate));
    }
}

#[test]
fn a_beat_is_found_though_six_in_ten_phases_are_missing() {
    let mut n_right = 0;
    for seed in 0..60 {
        let mut random = SplitMix64::new(seed);
        let phases: Vec<u32> = (0..80).filter(|_| random.unit() > 0.57).collect();
        let estimate =
            ask(phases.iter().map(|&i| (f64::from(i) * 12.0, f64::from(i) * 12.0 + 1.2, 1e9)), None);
        n_right +=
            usize::from(estimate.period_s.is_some_and(|period_s| (period_s / 12.0 - 1.0).abs() < 0.02));
        assert!(estimate.period_s.is_none() || estimate.confidence < 0.99, "{}", told(&estimate));
    }
    assert!(n_right >= 50, "{n_right} of 60");
}
