//! Laws that hold whatever happens.

use proptest::prelude::*;

use super::*;

/// Something that happens, after so many 64ths of a second.
#[derive(Clone, Copy, Debug)]
struct Step {
    wait: u32,
    what: Event,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Activity {
        bytes: f64,
    },
    Moved {
        bytes: f64,
        seconds: f64,
    },
    /// In 64ths of a second: when the next phase begins, how far off it may be, the period, the duration.
    Forecast {
        start: i32,
        off: u32,
        period: u32,
        duration: u32,
        bytes: f64,
        confidence: f64,
    },
    NoForecast,
    Ask {
        used_bytes: f64,
        eligible_bytes: f64,
        has_fault: bool,
    },
}

/// Numbers of few bits: sums and products with powers of two are exact.
fn bytes() -> impl Strategy<Value = f64> {
    (0u32..4096).prop_map(|mib| f64::from(mib) * 1_048_576.0)
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => bytes().prop_map(|bytes| Event::Activity { bytes }),
        2 => (bytes(), 1u32..64).prop_map(|(bytes, n)| Event::Moved { bytes, seconds: f64::from(n) / 16.0 }),
        2 => (-256i32..4096, 0u32..512, 16u32..8192, 0u32..2048, bytes(), 0u32..=8).prop_map(
            |(start, off, period, duration, bytes, confidence)| Event::Forecast {
                start, off, period, duration, bytes, confidence: f64::from(confidence) / 8.0,
            }
        ),
        1 => Just(Event::NoForecast),
        4 => (bytes(), bytes(), prop::bool::weighted(0.1)).prop_map(|(used_bytes, eligible_bytes, has_fault)| {
            Event::Ask { used_bytes, eligible_bytes: eligible_bytes.min(used_bytes), has_fault }
        }),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0u32..400, event()).prop_map(|(wait, what)| Step { wait, what }), 1..60)
}

fn settings() -> impl Strategy<Value = Settings> {
    let policy = prop::sample::select(Policy::ALL.to_vec());
    (policy, prop::option::weighted(0.7, bytes()), prop::bool::weighted(0.8), 0u32..4).prop_map(
        |(policy, capacity_bytes, is_purged, quiet)| Settings {
            capacity_bytes,
            high_water: 0.875,
            is_purged,
            quiet_s: f64::from(quiet) / 2.0,
            chunk_s: 1.0 / 16.0,
            ..Settings::new(policy)
        },
    )
}

/// Runs all steps on a clock that began at `from_s`, with all bytes times `scale`.
fn run(settings: &Settings, steps: &[Step], from_s: f64, scale: f64) -> (Controller, Vec<(Seen, Decision)>) {
    let settings =
        Settings { capacity_bytes: settings.capacity_bytes.map(|bytes| bytes * scale), ..*settings };
    let mut controller = Controller::new(settings);
    let mut answers = Vec::new();
    let mut now_s = from_s;
    for step in steps {
        now_s += f64::from(step.wait) / 64.0;
        match step.what {
            Event::Activity { bytes } => controller.activity(now_s, bytes * scale),
            Event::Moved { bytes, seconds } => controller.moved(bytes * scale, seconds),
            Event::NoForecast => controller.forecast(now_s, None),
            Event::Forecast { start, off, period, duration, bytes, confidence } => {
                let start_s = now_s + f64::from(start) / 64.0;
                let off_s = f64::from(off) / 64.0;
                let forecast = Forecast {
                    at_s: now_s,
                    confidence,
                    period_s: f64::from(period) / 64.0,
                    start_s,
                    start_interval_s: (start_s - off_s, start_s + off_s),
                    bytes: bytes * scale,
                    duration_s: f64::from(duration) / 64.0,
                    idle_probability: confidence,
                };
                controller.forecast(now_s, Some(forecast));
            }
            Event::Ask { used_bytes, eligible_bytes, has_fault } => {
                let seen = Seen {
                    now_s,
                    used_bytes: used_bytes * scale,
                    eligible_bytes: eligible_bytes * scale,
                    is_over: false,
                    has_fault,
                };
                answers.push((seen, controller.decide(&seen)));
            }
        }
    }
    (controller, answers)
}

fn is_close(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1.0),
        (a, b) => a == b,
    }
}

proptest! {
    #[test]
    fn the_first_rule_that_holds_decides(settings in settings(), steps in steps()) {
        let (_, answers) = run(&settings, &steps, 0.0, 1.0);
        for (seen, decision) in answers {
            prop_assert!(decision.look_again_s > seen.now_s && decision.look_again_s.is_finite());
            prop_assert!(decision.limit_bps.is_none_or(|bps| bps >= 0.0 && bps.is_finite()));
            let expected = if seen.has_fault {
                Some(State::Stuck)
            } else if seen.eligible_bytes <= 0.0 {
                Some(State::Idle)
            } else if decision.deficit_bytes > 0.0 && settings.is_purged {
                Some(State::Drain)
            } else {
                match settings.policy {
                    Policy::Immediate => Some(State::Run),
                    Policy::End => Some(State::Hold),
                    _ => None,
                }
            };
            match expected {
                Some(state) => prop_assert_eq!(decision.state, state),
                None => prop_assert!(matches!(decision.state, State::Hold | State::Run)),
            }
        }
    }

    #[test]
    fn after_the_end_everything_goes_whatever_happened(settings in settings(), steps in steps(), has_fault: bool) {
        let (mut controller, _) = run(&settings, &steps, 0.0, 1.0);
        let seen = Seen { now_s: 1e5, used_bytes: 1.0, eligible_bytes: 1.0, is_over: true, has_fault };
        let decision = controller.decide(&seen);
        prop_assert_eq!((decision.state, decision.limit_bps), (State::Flush, None));
    }

    #[test]
    fn while_the_job_does_io_nothing_is_moved(steps in steps(), quiet in 0u32..4) {
        let settings = Settings { quiet_s: f64::from(quiet) / 2.0 + 0.25, ..Settings::new(Policy::Gap) };
        let (mut controller, answers) = run(&settings, &steps, 0.0, 1.0);
        let now_s = steps.iter().map(|step| f64::from(step.wait) / 64.0).sum::<f64>();
        prop_assert!(answers.iter().all(|(_, decision)| decision.state != State::Drain));
        controller.activity(now_s, 1.0);
        for after_s in [0.0, 0.1, 0.2, 0.249] {
            let seen = Seen { now_s: now_s + after_s, used_bytes: 1.0, eligible_bytes: 1.0, ..Seen::default() };
            prop_assert_eq!(controller.decide(&seen).state, State::Hold);
        }
    }

    /// Whoever predicts may be as wrong as can be, and change its mind at any time.
    #[test]
    fn nothing_is_held_for_ever(
        settings in settings(), steps in steps(),
        wrong in prop::collection::vec((0u32..64, event()), 0..200),
    ) {
        let settings = Settings { policy: Policy::Gap, ..settings };
        let silent: Vec<Step> = wrong
            .into_iter()
            .filter(|(_, what)| !matches!(what, Event::Activity { .. } | Event::Ask { .. }))
            .flat_map(|(wait, what)| {
                let ask = Event::Ask { used_bytes: 1.0, eligible_bytes: 1.0, has_fault: false };
                [Step { wait, what }, Step { wait: 0, what: ask }]
            })
            .collect();
        let all: Vec<Step> = steps.iter().chain(&silent).copied().collect();
        let (_, answers) = run(&settings, &all, 0.0, 1.0);
        let silent_from_s = steps.iter().map(|step| f64::from(step.wait) / 64.0).sum::<f64>();
        let n_asked = silent.len() / 2;
        let mut held_s = 0.0;
        let mut before_s = silent_from_s;
        for (seen, decision) in &answers[answers.len() - n_asked..] {
            if decision.state == State::Hold {
                held_s += seen.now_s - before_s;
            }
            before_s = seen.now_s;
        }
        // Two alarms, each a period, a quarter of it before and after, and some steps in which nobody asked.
        let longest_period_s = 128.0;
        prop_assert!(held_s <= settings.quiet_s + 2.0 * (1.5 * longest_period_s + 1.0) + 4.0, "{held_s}");
    }

    #[test]
    fn another_clock_changes_nothing(settings in settings(), steps in steps(), hours in -1000i32..100_000) {
        let by_s = f64::from(hours) * 4096.0;
        let (here, plain) = run(&settings, &steps, 0.0, 1.0);
        let (there, shifted) = run(&settings, &steps, by_s, 1.0);
        prop_assert_eq!(here.interference_s(), there.interference_s());
        for ((_, a), (_, b)) in plain.iter().zip(&shifted) {
            prop_assert_eq!((a.state, a.why, a.basis), (b.state, b.why, b.basis));
            prop_assert!(is_close(a.limit_bps, b.limit_bps));
            prop_assert!((a.look_again_s + by_s - b.look_again_s).abs() < 1e-6);
            prop_assert!(is_close(a.full_at_s.map(|at_s| at_s + by_s), b.full_at_s));
        }
    }

    #[test]
    fn bytes_of_another_size_change_nothing(settings in settings(), steps in steps(), power in -8i32..20) {
        let scale = 2f64.powi(power);
        let (_, plain) = run(&settings, &steps, 0.0, 1.0);
        let (_, scaled) = run(&settings, &steps, 0.0, scale);
        for ((_, a), (_, b)) in plain.iter().zip(&scaled) {
            prop_assert_eq!((a.state, a.why, a.basis), (b.state, b.why, b.basis));
            prop_assert_eq!((a.look_again_s, a.full_at_s), (b.look_again_s, b.full_at_s));
            prop_assert_eq!(a.limit_bps.map(|bps| bps * scale), b.limit_bps);
            prop_assert_eq!(a.deficit_bytes * scale, b.deficit_bytes);
        }
    }
}
