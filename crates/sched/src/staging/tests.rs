//! One rule after the other, on jobs whose rhythm is known.

use super::*;

const GB: f64 = 1e9;

/// A phase of 20 GB in 10 s every 100 s, the next at `start_s` give or take 2 s.
fn every_100_s(at_s: f64, start_s: f64) -> Forecast {
    Forecast {
        at_s,
        confidence: 0.9,
        period_s: 100.0,
        start_s,
        start_interval_s: (start_s - 2.0, start_s + 2.0),
        bytes: 20.0 * GB,
        duration_s: 10.0,
        idle_probability: 1.0,
    }
}

fn seen(now_s: f64) -> Seen {
    Seen { now_s, used_bytes: 5.0 * GB, eligible_bytes: 5.0 * GB, ..Seen::default() }
}

fn gap() -> Controller {
    Controller::new(Settings::new(Policy::Gap))
}

/// A phase of ten seconds.
fn write(controller: &mut Controller, start_s: f64) {
    for n in 0..=100 {
        controller.activity(start_s + 0.1 * f64::from(n), 0.2 * GB);
    }
}

fn answer(controller: &mut Controller, now_s: f64) -> (State, Why) {
    let decision = controller.decide(&seen(now_s));
    (decision.state, decision.why)
}

#[test]
fn a_gap_is_used_from_its_beginning_until_shortly_before_the_next_phase() {
    let mut controller = gap();
    write(&mut controller, 90.0);
    controller.forecast(100.2, Some(every_100_s(100.2, 190.0)));
    assert_eq!(answer(&mut controller, 100.24), (State::Hold, Why::JobActive));
    let decision = controller.decide(&seen(100.26));
    assert_eq!((decision.state, decision.why, decision.basis), (State::Run, Why::Gap, Basis::Predictions));
    // Two chunks before the interval begins; nothing is waited for longer than half a minute.
    assert_eq!(decision.look_again_s, 130.26);
    assert_eq!(controller.decide(&seen(187.8)).look_again_s, 187.9);
    assert_eq!(answer(&mut controller, 187.9), (State::Hold, Why::PhaseExpected));
    // It comes, and then there is a gap again.
    write(&mut controller, 190.5);
    assert_eq!(answer(&mut controller, 200.6), (State::Hold, Why::JobActive));
    assert_eq!(answer(&mut controller, 200.8), (State::Run, Why::Gap));
    assert_eq!(answer(&mut controller, 288.5), (State::Hold, Why::PhaseExpected));
}

#[test]
fn two_false_alarms_turn_predictions_off_until_a_phase_comes_as_expected() {
    let mut controller = gap();
    controller.forecast(100.0, Some(every_100_s(100.0, 190.0)));
    assert_eq!(answer(&mut controller, 189.0), (State::Hold, Why::PhaseExpected));
    let until_s = 192.0 + 25.0;
    assert_eq!(answer(&mut controller, until_s - 0.01), (State::Hold, Why::PhaseExpected));
    assert_eq!(answer(&mut controller, until_s), (State::Run, Why::Gap));
    assert_eq!(answer(&mut controller, 288.0), (State::Hold, Why::PhaseExpected));
    let decision = controller.decide(&seen(until_s + 100.0));
    assert_eq!((decision.state, decision.basis), (State::Run, Basis::Wrong));
    // What comes is not waited for, and predictions are relied on again.
    assert_eq!(answer(&mut controller, 389.0), (State::Run, Why::Gap));
    controller.forecast(389.0, Some(every_100_s(389.0, 391.0)));
    write(&mut controller, 391.0);
    assert_eq!(controller.decide(&seen(402.0)).basis, Basis::Predictions);
    assert_eq!(answer(&mut controller, 489.5), (State::Hold, Why::PhaseExpected));
}

#[test]
fn where_nobody_counts_bytes_a_phase_is_known_by_its_time() {
    let mut controller = gap();
    for start_s in [190.0, 290.0, 390.0, 490.0] {
        controller.forecast(start_s - 50.0, Some(every_100_s(start_s - 50.0, start_s)));
        assert_eq!(answer(&mut controller, start_s - 1.0), (State::Hold, Why::PhaseExpected));
        (0..=100).for_each(|n| controller.activity(start_s + 0.1 * f64::from(n), 0.0));
        let decision = controller.decide(&seen(start_s + 40.0));
        assert_eq!((decision.state, decision.basis), (State::Run, Basis::Predictions), "{start_s}");
    }
}

#[test]
fn a_log_in_a_gap_is_no_phase() {
    let mut controller = gap();
    controller.forecast(100.0, Some(every_100_s(100.0, 190.0)));
    controller.activity(150.0, 1000.0);
    assert_eq!(answer(&mut controller, 150.1), (State::Hold, Why::JobActive));
    assert_eq!(answer(&mut controller, 150.3), (State::Run, Why::Gap));
    assert_eq!(answer(&mut controller, 188.5), (State::Hold, Why::PhaseExpected));
}

#[test]
fn predictions_that_stop_are_reported_as_lost_and_silence_must_last_longer() {
    let mut controller = gap();
    assert_eq!(controller.decide(&seen(0.0)).basis, Basis::Activity);
    controller.forecast(100.0, Some(every_100_s(100.0, 190.0)));
    write(&mut controller, 190.0);
    controller.forecast(200.1, None);
    let decision = controller.decide(&seen(200.5));
    assert_eq!((decision.state, decision.basis), (State::Hold, Basis::Lost));
    assert_eq!(answer(&mut controller, 201.0), (State::Run, Why::Gap));
    // A source that falls silent is lost, too.
    controller.forecast(210.0, Some(every_100_s(210.0, 290.0)));
    write(&mut controller, 290.0);
    assert_eq!(controller.decide(&seen(390.0)).basis, Basis::Predictions);
    assert_eq!(controller.decide(&seen(641.0)).basis, Basis::Lost);
}

#[test]
fn uncertain_predictions_and_impossible_ones_are_not_relied_on() {
    let mut controller = gap();
    controller.forecast(100.0, Some(Forecast { confidence: 0.49, ..every_100_s(100.0, 110.0) }));
    let decision = controller.decide(&seen(110.0));
    assert_eq!((decision.state, decision.basis), (State::Run, Basis::Uncertain));
    for wrong in [
        Forecast { period_s: 0.0, ..every_100_s(100.0, 110.0) },
        Forecast { start_s: f64::NAN, ..every_100_s(100.0, 110.0) },
        Forecast { bytes: f64::INFINITY, ..every_100_s(100.0, 110.0) },
        Forecast { start_interval_s: (120.0, 100.0), ..every_100_s(100.0, 110.0) },
        Forecast { confidence: 2.0, ..every_100_s(100.0, 110.0) },
    ] {
        controller.forecast(110.0, Some(wrong));
        assert_eq!(controller.decide(&seen(110.0)).state, State::Run, "{wrong:?}");
    }
}

#[test]
fn a_start_that_may_be_anywhere_leaves_most_of_the_gap_to_use() {
    let mut controller = gap();
    write(&mut controller, 90.0);
    let anywhere = Forecast { start_interval_s: (100.1, 280.0), ..every_100_s(100.1, 190.0) };
    controller.forecast(100.1, Some(anywhere));
    assert_eq!(answer(&mut controller, 101.0), (State::Run, Why::Gap));
    assert_eq!(answer(&mut controller, 190.0 - 90.0 / 4.0), (State::Hold, Why::PhaseExpected));
}

#[test]
fn room_that_runs_out_is_made_beside_the_job_no_faster_than_needed() {
    let settings = Settings { capacity_bytes: Some(20.0 * GB), ..Settings::new(Policy::Gap) };
    let mut controller = Controller::new(settings);
    controller.forecast(100.0, Some(every_100_s(100.0, 190.0)));
    controller.decide(&seen(150.0));
    controller.moved(0.5 * GB, 1.0);
    // 5 GB are there and 22 may come, 17 may stay; 40 s at 0.5 GB/s are enough.
    assert_eq!(controller.decide(&seen(150.0)).state, State::Run);
    for n in 0..=20 {
        controller.activity(190.0 + 0.1 * f64::from(n), 0.2 * GB);
    }
    // 4.2 GB of this phase are here, 17.8 may come, 17 fit: 5.8 too much, for which 8 s are left.
    let decision = controller.decide(&seen(192.0));
    assert_eq!((decision.state, decision.why), (State::Drain, Why::Deficit));
    assert!((decision.deficit_bytes - 5.8 * GB).abs() < 1.0, "{decision:?}");
    assert!((decision.limit_bps.unwrap() - 5.8 * GB / 8.0).abs() < 1.0, "{decision:?}");
    // 15 GB of room fill at 15.8/17.8 of the way.
    assert!((decision.full_at_s.unwrap() - (192.0 + 8.0 * 15.0 / (17.8 / 1.1))).abs() < 1e-6, "{decision:?}");
    // What is not removed after moving makes no room.
    let mut kept = Controller::new(Settings { is_purged: false, ..settings });
    kept.activity(192.0, GB);
    let full = Seen { used_bytes: 19.0 * GB, ..seen(192.0) };
    assert_eq!(kept.decide(&full).state, State::Hold);
}

#[test]
fn a_buffer_of_two_and_a_half_phases_needs_no_drain() {
    let settings = Settings { capacity_bytes: Some(50.0 * GB), ..Settings::new(Policy::Gap) };
    let mut controller = Controller::new(settings);
    controller.moved(0.5 * GB, 1.0);
    controller.forecast(100.0, Some(every_100_s(100.0, 190.0)));
    for n in 0..=100 {
        let now_s = 190.0 + 0.1 * f64::from(n);
        controller.activity(now_s, 0.2 * GB);
        let bytes = 0.2 * GB * f64::from(n);
        let decision =
            controller.decide(&Seen { now_s, used_bytes: bytes, eligible_bytes: bytes, ..Seen::default() });
        assert_ne!(decision.state, State::Drain, "{decision:?}");
        assert_eq!(decision.full_at_s, None);
    }
}

#[test]
fn the_other_policies_wait_for_nothing_for_room_or_for_the_end() {
    let ask = |policy, used_bytes| {
        let settings =
            Settings { capacity_bytes: Some(20.0 * GB), is_purged: false, ..Settings::new(policy) };
        let mut controller = Controller::new(settings);
        controller.activity(10.0, GB);
        let decision = |controller: &mut Controller, now_s| {
            let decision = controller.decide(&Seen { used_bytes, ..seen(now_s) });
            (decision.state, decision.why)
        };
        [decision(&mut controller, 10.1), decision(&mut controller, 12.0)]
    };
    assert_eq!(ask(Policy::Immediate, GB), [(State::Run, Why::Always); 2]);
    assert_eq!(ask(Policy::End, GB), [(State::Hold, Why::JobNotOver); 2]);
    assert_eq!(ask(Policy::Space, GB), [(State::Hold, Why::JobActive), (State::Hold, Why::EnoughRoom)]);
    assert_eq!(
        ask(Policy::Space, 18.0 * GB),
        [(State::Hold, Why::JobActive), (State::Run, Why::AboveHighWater)]
    );
}

#[test]
fn deadline_takes_all_the_time_there_is() {
    let mut controller = Controller::new(Settings::new(Policy::Deadline));
    controller.forecast(100.0, Some(every_100_s(100.0, 190.0)));
    let decision = controller.decide(&seen(137.9));
    assert_eq!((decision.state, decision.limit_bps), (State::Run, Some(5.0 * GB / 50.0)));
    // Without predictions there is no time to be done by.
    assert_eq!(Controller::new(Settings::new(Policy::Deadline)).decide(&seen(0.0)).limit_bps, None);
}

#[test]
fn moving_beside_the_job_is_counted_and_says_nothing_of_the_rate_in_gaps() {
    let mut controller = Controller::new(Settings::new(Policy::Immediate));
    controller.activity(9.9, GB);
    controller.decide(&seen(10.0));
    controller.moved(0.1 * GB, 1.0);
    controller.activity(10.5, GB);
    controller.decide(&seen(11.0));
    assert_eq!((controller.interference_s(), controller.rate_bps()), (1.0, None));
    controller.decide(&seen(20.0));
    for bps in [5.0, 1.0, 4.0, 2.0, 3.0, 9.0, 8.0, 7.0, 6.0, 10.0, 11.0] {
        controller.moved(bps, 1.0);
    }
    controller.moved(0.0, 0.0);
    controller.decide(&seen(21.0));
    assert_eq!((controller.interference_s(), controller.rate_bps()), (1.0, Some(2.0)));
}

#[test]
fn without_predictions_the_buffer_is_full_when_it_goes_on_as_it_did() {
    let settings = Settings { capacity_bytes: Some(100.0), ..Settings::new(Policy::End) };
    let mut controller = Controller::new(settings);
    let mut full_at_s = None;
    for n in 0..=500 {
        let now_s = 0.1 * f64::from(n);
        full_at_s = controller.decide(&Seen { now_s, used_bytes: now_s, ..Seen::default() }).full_at_s;
    }
    assert!((full_at_s.unwrap() - 100.0).abs() < 1e-6, "{full_at_s:?}");
}

#[test]
fn a_clock_that_goes_back_or_is_no_number_does_no_harm() {
    let mut controller = gap();
    controller.activity(f64::NAN, f64::NAN);
    controller.activity(10.0, 1.0);
    controller.activity(5.0, -1.0);
    assert_eq!(answer(&mut controller, 2.0), (State::Hold, Why::JobActive));
    assert_eq!(answer(&mut controller, 11.0), (State::Run, Why::Gap));
}
