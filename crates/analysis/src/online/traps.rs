//! Streams that have led the predictor astray.

use iotide_trace::{Event, Op, Rank, Timestamp};

use super::{Prediction, Predictor, PredictorConfig};

fn write(start_s: f64, length_s: f64, bytes: f64) -> Event {
    let at = |secs| Timestamp::from_secs_since_start(secs).unwrap();
    Event::data(Op::Write, Rank(0), at(start_s), at(start_s + length_s), bytes)
}

/// Streams the events, and in between tells the time, as whoever follows a job does.
fn predictions(mut events: Vec<Event>) -> Vec<Prediction> {
    events.sort_by_key(|event| event.end);
    let mut predictor = Predictor::new(PredictorConfig::default());
    let mut told = Vec::new();
    for event in &events {
        told.extend(predictor.advance_to(event.start));
        told.extend(predictor.push_event(event));
    }
    told
}

/// Even numbers between 0 and 1.
fn random(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn share(told: &[&Prediction], is_so: impl Fn(&Prediction) -> bool) -> f64 {
    told.iter().filter(|told| is_so(told)).count() as f64 / told.len().max(1) as f64
}

fn names(period_s: f64) -> impl Fn(&Prediction) -> bool {
    move |told| told.period_s.is_some_and(|told_s| (told_s / period_s - 1.0).abs() < 0.1)
}

/// Phases of 1 GB every `period_s`, and lines of a log every `every_s` with `share` of the bytes, from `first_s` on.
fn beside_a_log(period_s: f64, n: usize, first_s: f64, every_s: f64, share: f64) -> Vec<Event> {
    let end_s = first_s + period_s * n as f64;
    let n_lines = (end_s / every_s) as usize;
    let line = share * 1e9 * n as f64 / n_lines as f64;
    let mut events: Vec<Event> = (0..n_lines).map(|i| write(i as f64 * every_s, 0.002, line)).collect();
    events.extend((0..n).map(|i| write(first_s + period_s * i as f64, 0.08 * period_s, 1e9)));
    events
}

#[test]
fn a_log_hides_no_phases() {
    for (period_s, first_s, every_s, log) in [
        (60.0, 0.0, 1.0, 0.009),
        (60.0, 200.0, 1.0, 0.005),
        (300.0, 7.0, 1.0, 0.001),
        (60.0, 30.0, 0.1, 0.002),
    ] {
        let told = predictions(beside_a_log(period_s, 20, first_s, every_s, log));
        let later: Vec<&Prediction> =
            told.iter().filter(|told| told.at_s > first_s + 3.5 * period_s).collect();
        let right = share(&later, names(period_s));
        let wrong: Vec<_> =
            later.iter().filter(|t| !names(period_s)(t)).map(|t| (t.at_s, t.period_s)).take(9).collect();
        assert!(
            right > 0.9,
            "{period_s} s beside {every_s} s from {first_s} s: {right} of {}; {wrong:?}",
            later.len()
        );
    }
}

#[test]
fn requests_of_the_first_phases_are_no_rhythm() {
    for (period_s, length_s, n_requests, busy) in [
        (10.0, 1.0, 40, 0.9),
        (10.0, 1.0, 3, 0.9),
        (10.0, 1.0, 3, 0.6),
        (10.0, 1.0, 200, 0.95),
        (10.0, 1.0, 20, 0.5),
        (10.0, 4.0, 10, 0.2),
        (20.0, 2.0, 5, 0.1),
        (60.0, 6.0, 100, 0.5),
    ] {
        let step_s = length_s / f64::from(n_requests);
        let start_s = |phase: i32, i: i32| period_s * f64::from(phase) + step_s * f64::from(i);
        let events: Vec<Event> = (0..8)
            .flat_map(|phase| (0..n_requests).map(move |i| write(start_s(phase, i), busy * step_s, 1e7)))
            .collect();
        let told = predictions(events);
        for told in &told {
            let early = told.at_s < 2.0 * period_s && told.period_s.is_some();
            assert!(!early, "{n_requests} requests: {:?} s at {} s", told.period_s, told.at_s);
        }
        let third: Vec<&Prediction> = told.iter().filter(|told| told.at_s >= 2.0 * period_s).collect();
        assert_eq!(share(&third, names(period_s)), 1.0, "{n_requests} requests: {third:?}");
    }
}

#[test]
fn a_phase_a_second_is_told_from_the_third_on() {
    for seed in 1..=5 {
        let mut random = random(seed);
        let events: Vec<Event> =
            (0..12).map(|i| write(f64::from(i) + 0.04 * random() - 0.02, 0.1, 1e8)).collect();
        let told = predictions(events);
        let third: Vec<&Prediction> = told.iter().filter(|told| told.at_s > 2.3).collect();
        assert_eq!(share(&third, names(1.0)), 1.0, "seed {seed}: {third:?}");
        assert!(third[0].at_s < 3.5);
    }
}

#[test]
fn a_fast_beat_is_told_once_it_has_held_for_long() {
    let events: Vec<Event> = (0..200).map(|i| write(0.25 * f64::from(i), 0.05, 1e8)).collect();
    let told = predictions(events);
    let named: Vec<&Prediction> = told.iter().filter(|told| told.period_s.is_some()).collect();
    assert!(named[0].at_s > 9.0 && named[0].at_s < 15.0, "{:?}", named[0]);
    assert_eq!(share(&named, names(0.25)), 1.0);
}

/// Returns the shares of the time in which a period is reported with a confidence above one half, and above 0.8.
fn time_told(seed: u64, mut wait_s: impl FnMut(f64) -> f64) -> (f64, f64) {
    let mut random = random(seed);
    let mut at_s = 0.0;
    let events: Vec<Event> = (0..150)
        .map(|_| {
            at_s += 0.6 + wait_s(random());
            write(at_s, 0.5, 1e9)
        })
        .collect();
    let told = predictions(events);
    let mut above = (0.0, 0.0);
    for (i, prediction) in told.iter().enumerate() {
        let length_s = told.get(i + 1).map_or(at_s, |next| next.at_s) - prediction.at_s;
        if prediction.period_s.is_some() && prediction.confidence > 0.5 {
            above.0 += length_s / at_s;
        }
        if prediction.period_s.is_some() && prediction.confidence > 0.8 {
            above.1 += length_s / at_s;
        }
    }
    above
}

#[test]
fn arrivals_without_memory_are_hardly_ever_told_a_period() {
    let n = 10;
    let (mut likely, mut sure) = (0.0, 0.0);
    for seed in 1..=n {
        let told = time_told(seed, |unit| -10.0 * (1.0 - unit).ln());
        likely += told.0 / n as f64;
        sure += told.1 / n as f64;
        assert!(told.0 < 0.35, "seed {seed}: {told:?}");
    }
    assert!(likely < 0.12 && sure < 0.04, "{likely} {sure}");
}

#[test]
fn missing_beats_leave_the_beat() {
    for seed in 1..=10 {
        let mut random = random(seed);
        let events: Vec<Event> =
            (0..100).filter(|_| random() > 0.2).map(|i| write(20.0 * f64::from(i), 2.0, 1e9)).collect();
        let told = predictions(events);
        let later: Vec<&Prediction> = told.iter().filter(|told| told.at_s > 400.0).collect();
        let right = share(&later, names(20.0));
        let wrong: Vec<_> =
            later.iter().filter(|t| !names(20.0)(t)).map(|t| (t.at_s, t.period_s)).take(9).collect();
        assert!(right > 0.9, "seed {seed}: {right}; {wrong:?}");
    }
}

/// Ranks hand over what they have done when it suits them: of a phase, some come at once and the others with one of the next phases. What is
/// there of four phases always has the beat.
#[test]
fn ranks_that_hand_over_late_leave_the_beat() {
    let mut random = random(11);
    let mut wrong = Vec::new();
    for run in 0..1000 {
        let at_once = [0.3, 0.5, 0.7][run % 3];
        // (when it is handed over, what)
        let mut handed: Vec<(f64, Event)> = Vec::new();
        for rank in 0..4 {
            let mut held: Vec<Event> = Vec::new();
            for phase in 0..8 {
                let start_s = 0.107 + f64::from(phase) + 0.0003 * f64::from(rank);
                held.push(write(start_s, 0.001, 262_144.0));
                if random() < at_once || phase == 7 {
                    handed.extend(held.drain(..).map(|event| (start_s + 0.1, event)));
                }
            }
        }
        handed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.end.cmp(&b.1.end)));
        let mut predictor = Predictor::new(PredictorConfig::default());
        let mut told = Vec::new();
        for (at_s, event) in &handed {
            told.extend(predictor.push_event(event));
            told.extend(predictor.advance_to(Timestamp::from_secs_since_start(*at_s).unwrap()));
        }
        for prediction in told {
            if prediction.period_s.is_some_and(|found_s| (found_s - 1.0).abs() > 0.1) {
                wrong.push((run, prediction.at_s, prediction.period_s, prediction.confidence));
            }
        }
    }
    assert!(wrong.is_empty(), "{}: {wrong:#?}", wrong.len());
}

/// Short phases on a machine with much else to do, reported turn by turn as a follower does it. Windows that grow have wider bins, in which such
/// phases have less bandwidth: a rhythm that was found once is never lost by that.
#[test]
fn a_beat_that_was_found_stays_found_while_bins_grow() {
    let mut random = random(5);
    let mut wrong = Vec::new();
    for run in 0..600 {
        // (when it is handed over, what)
        let mut handed: Vec<(f64, Event)> = Vec::new();
        let load_s = [0.1, 0.5, 1.5][run % 3];
        let jitter_s: Vec<f64> = (0..8).map(|_| 0.004 * random()).collect();
        for _rank in 0..4 {
            let mut free_s = 0.0_f64;
            for (phase, jitter_s) in jitter_s.iter().enumerate() {
                let start_s = 0.087 + phase as f64 + jitter_s + 0.004 * random();
                free_s = free_s.max(start_s + 0.05 + load_s * random() * random() * random());
                handed.push((free_s, write(start_s, 0.001, 262_144.0)));
            }
        }
        handed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.end.cmp(&b.1.end)));
        let mut predictor = Predictor::new(PredictorConfig::default());
        let mut handed = handed.into_iter().peekable();
        let (mut n_known, mut delay_s, mut was_found) = (0, 0.0_f64, false);
        for turn in 0..158 {
            let turn_s = 0.05 * f64::from(turn);
            let mut told = Vec::new();
            while let Some((_, event)) = handed.next_if(|(at_s, _)| *at_s <= turn_s) {
                delay_s = delay_s.max(turn_s - event.end.as_secs());
                n_known += 1;
                told.extend(predictor.push_event(&event));
            }
            let certain_s = turn_s - delay_s - 0.2;
            told.extend(Timestamp::from_secs_since_start(certain_s).and_then(|at| predictor.advance_to(at)));
            for prediction in told {
                let is_right = prediction.period_s.is_some_and(|found_s| (found_s - 1.0).abs() < 0.1);
                if !is_right && (was_found || n_known >= 12) {
                    wrong.push((run, prediction.at_s, prediction.reason, prediction.period_s));
                }
                was_found |= is_right;
            }
        }
    }
    assert!(wrong.is_empty(), "{}: {wrong:#?}", wrong.len());
}
