//! Closed forms, and laws of any run.

use iotide_sched::staging::Policy;
use proptest::prelude::*;

use super::*;

const GB: f64 = 1e9;

fn outcome(workload: &StagingWorkload, policy: Policy) -> Outcome {
    run_staging(workload, &StagingSettings::new(policy)).unwrap()
}

fn assert_near(is: f64, expected: f64) {
    assert!((is - expected).abs() <= 1e-5 * expected.abs().max(1.0), "{is} is not {expected}");
}

/// Run time, time until safe, peak, mean loss, in s and GB.
fn figures(outcome: &Outcome) -> [f64; 4] {
    [
        outcome.run_time_s.unwrap(),
        outcome.safe_after_end_s.unwrap(),
        outcome.peak_buffer_bytes / GB,
        outcome.mean_loss_bytes / GB,
    ]
}

#[test]
fn the_example_has_the_figures_of_its_closed_form() {
    let check = |policy, expected: [f64; 4], interference_s, flushes| {
        let outcome = outcome(&StagingWorkload::example(), policy);
        for (is, expected) in figures(&outcome).into_iter().zip(expected) {
            assert_near(is, expected);
        }
        assert_near(outcome.interference_s, interference_s);
        assert_eq!((outcome.flushes, outcome.stalled_s), (flushes, 0.0));
        assert_near(outcome.alone_s, 1000.0);
    };
    // Nothing is moved in phases of 10 s; 20 GB take 40 s, and are lost at a crash until then: a triangle each.
    check(Policy::Gap, [1000.0, 40.0, 20.0, 10.0 * (100.0 + 400.0) / 1040.0], 0.0, 10);
    // Stairs of 20 GB, and 400 s in which all goes.
    check(Policy::End, [1000.0, 400.0, 200.0, (81_000.0 + 10_000.0 + 40_000.0) / 1400.0], 0.0, 1);
    // A phase has 1.5 GB/s and lasts 40/3 s, in which 20/3 GB go; 40/3 GB are left, for which 80/3 s are needed.
    let (phase_s, left) = (40.0 / 3.0, 40.0 / 3.0);
    let run_time_s = 10.0 * (90.0 + phase_s);
    let safe_s = 80.0 / 3.0;
    let loss = 10.0 * (phase_s + safe_s) * left / 2.0 / (run_time_s + safe_s);
    check(Policy::Immediate, [run_time_s, safe_s, left, loss], 10.0 * phase_s, 10);
}

#[test]
fn deadline_is_slower_and_as_harmless() {
    let outcome = outcome(&StagingWorkload::example(), Policy::Deadline);
    assert_near(outcome.run_time_s.unwrap(), 1000.0);
    assert_eq!(outcome.interference_s, 0.0);
    // The first three gaps have no prediction, and the end has no time; between them it takes nearly all of 90 s.
    assert!(outcome.moving_s > 3.0 * 40.0 + 6.0 * 85.0 + 39.0, "{outcome:?}");
    assert!(outcome.mean_loss_bytes > 5.0 * GB);
}

#[test]
fn a_file_that_closes_at_the_end_leaves_immediate_nothing_to_move_in_the_phase() {
    let workload = StagingWorkload { files: Some(1), ..StagingWorkload::example() };
    let figures = figures(&outcome(&workload, Policy::Immediate));
    for (is, expected) in figures.into_iter().zip([1000.0, 40.0, 20.0, 5000.0 / 1040.0]) {
        assert_near(is, expected);
    }
    // With many files it is nearly as if they closed evenly.
    let many = StagingWorkload { files: Some(1000), ..StagingWorkload::example() };
    let run_time_s = outcome(&many, Policy::Immediate).run_time_s.unwrap();
    assert!((run_time_s - 1033.3).abs() < 1.0, "{run_time_s}");
}

#[test]
fn a_buffer_of_two_and_a_half_phases_never_fills() {
    let workload = StagingWorkload { capacity_bytes: Some(50.0 * GB), ..StagingWorkload::example() };
    let gap = outcome(&workload, Policy::Gap);
    assert_near(gap.run_time_s.unwrap(), 1000.0);
    assert_eq!((gap.stalled_s, gap.interference_s), (0.0, 0.0));
    // Who waits for the end has to make room beside the job.
    let end = outcome(&workload, Policy::End);
    assert!(end.peak_buffer_bytes <= 50.0 * GB * (1.0 + 1e-9));
    assert!(end.run_time_s.unwrap() < 1040.0, "{end:?}");
}

#[test]
fn a_buffer_that_is_too_small_is_drained_beside_the_job_before_it_is_full() {
    // 20 GB do not fit into 16: 4 GB and what lies above the mark have to go while the job writes.
    let workload = StagingWorkload { capacity_bytes: Some(16.0 * GB), ..StagingWorkload::example() };
    let gap = outcome(&workload, Policy::Gap);
    assert!(gap.peak_buffer_bytes <= 16.0 * GB * (1.0 + 1e-9), "{gap:?}");
    assert!(gap.interference_s > 50.0 && gap.interference_s < 140.0, "{gap:?}");
    assert!(gap.run_time_s.unwrap() < 1070.0, "{gap:?}");
    // Where nothing is removed the job hangs, and that is what is said.
    let kept = StagingWorkload { is_purged: false, ..workload };
    assert_eq!(outcome(&kept, Policy::Gap).run_time_s, None);
}

#[test]
fn wrong_and_lost_predictions_cost_little() {
    let workload = StagingWorkload {
        parts: vec![Part { compute_s: 90.0, phase_bytes: 80.0 * GB, phases: 20 }],
        pfs_bps: 1.0 * GB,
        ..StagingWorkload::example()
    };
    let run = |error, lost_after_phases| {
        let settings = StagingSettings { error, lost_after_phases, ..StagingSettings::new(Policy::Gap) };
        run_staging(&workload, &settings).unwrap()
    };
    for outcome in [run(0.0, None), run(0.1, None), run(0.5, None), run(0.0, Some(5))] {
        // A piece of 50 ms at the beginning of a phase is all that is moved beside the job.
        assert!(outcome.interference_s <= 20.0 * 0.05 + 1e-9, "{outcome:?}");
        assert!(outcome.run_time_s.unwrap() <= outcome.alone_s + 20.0 * 0.05, "{outcome:?}");
    }
}

#[test]
fn a_rhythm_that_changes_is_followed() {
    let part = |compute_s, phases| Part { compute_s, phase_bytes: 20.0 * GB, phases };
    let workload = StagingWorkload {
        parts: vec![part(90.0, 6), part(30.0, 10), part(150.0, 6)],
        ..StagingWorkload::example()
    };
    let outcome = outcome(&workload, Policy::Gap);
    assert!(outcome.interference_s <= 22.0 * 0.05, "{outcome:?}");
    assert!(outcome.run_time_s.unwrap() - outcome.alone_s < 0.5);
}

#[test]
fn what_is_wrong_with_a_workload_is_said_with_its_place() {
    let says = |text: &str| StagingWorkload::from_json(text).unwrap_err().to_string();
    let with = |more: &str| {
        says(&format!(
            r#"{{"compute_s": 9, "phase_bytes": 1, "phases": 2, "buffer_bps": 2, "pfs_bps": 1{more}}}"#
        ))
    };
    assert!(says("{").starts_with("is not JSON: "));
    assert_eq!(says("{}"), "compute_s is missing");
    assert_eq!(says(r#"{"parts": []}"#), "parts is an empty list");
    assert_eq!(says(r#"{"parts": [{"compute_s": 1}]}"#), "parts[0].phase_bytes is missing");
    assert_eq!(
        says(r#"{"parts": [{"compute_s": 1}], "phases": 3}"#),
        "phases is said beside parts; say it in each part"
    );
    assert_eq!(with(r#", "high_water": 1.5"#), "high_water is 1.5, but must be at most 1");
    assert_eq!(with(r#", "purge": 1"#), "purge is not true or false");
    assert_eq!(with(r#", "files": 2000000"#), "files are more than 1000000");
    assert_eq!(
        says(r#"{"compute_s": 9, "phase_bytes": 1, "phases": 2, "buffer_bps": 2, "pfs_bps": 2}"#),
        "pfs_bps is 2, but must be below buffer_bps (2)"
    );
    assert!(
        with(r#", "capacity": 1"#).starts_with(r#"has an unknown field "capacity"; there are compute_s, "#)
    );
    assert_eq!(
        says(r#"{"compute_s": 9, "phase_bytes": 1, "phases": 9999999, "buffer_bps": 2, "pfs_bps": 1}"#),
        "phases are more than 1000000"
    );
    let plain =
        r#"{"compute_s": 90, "phase_bytes": 20e9, "phases": 10, "buffer_bps": 2e9, "pfs_bps": 0.5e9}"#;
    assert_eq!(StagingWorkload::from_json(plain), Ok(StagingWorkload::example()));
}

fn workloads() -> impl Strategy<Value = StagingWorkload> {
    let part = (0.0..200f64, 0.1..50f64, 1u64..6).prop_map(|(compute_s, gb, phases)| Part {
        compute_s,
        phase_bytes: gb * GB,
        phases,
    });
    let capacity = prop::option::of((1.0..200f64).prop_map(|gb| gb * GB));
    let files = prop::option::of(1u64..20);
    (prop::collection::vec(part, 1..4), 0.5..4f64, 0.05..0.95f64, capacity, files, 0.0..0.3f64).prop_map(
        |(parts, buffer, share, capacity_bytes, files, jitter)| StagingWorkload {
            parts,
            jitter,
            buffer_bps: buffer * GB,
            pfs_bps: share * buffer * GB,
            capacity_bytes,
            files,
            ..StagingWorkload::example()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_byte_becomes_safe_and_no_figure_contradicts_another(
        workload in workloads(), policy in prop::sample::select(Policy::ALL.to_vec()), error in 0.0..1f64, seed: u64,
    ) {
        let settings = StagingSettings { error, seed, ..StagingSettings::new(policy) };
        let outcome = run_staging(&workload, &settings).unwrap();
        // One file that is larger than the buffer can neither be written nor moved.
        let Some(run_time_s) = outcome.run_time_s else {
            prop_assert!(workload.capacity_bytes.is_some());
            return Ok(());
        };
        let total = workload.bytes();
        let close = 1e-6 * (1.0 + run_time_s);
        prop_assert!(run_time_s >= outcome.alone_s - close);
        let beside_s = outcome.interference_s * workload.pfs_bps / workload.buffer_bps;
        prop_assert!(run_time_s <= outcome.alone_s + beside_s + outcome.stalled_s + close, "{outcome:?}");
        prop_assert!(outcome.moving_s >= total / workload.pfs_bps - close);
        prop_assert!(outcome.mean_loss_bytes <= outcome.max_loss_bytes * (1.0 + 1e-9));
        prop_assert!(outcome.max_loss_bytes <= outcome.peak_buffer_bytes * (1.0 + 1e-9));
        if let Some(capacity_bytes) = workload.capacity_bytes {
            prop_assert!(outcome.peak_buffer_bytes <= capacity_bytes * (1.0 + 1e-6));
        }
        let whole_s = run_time_s + outcome.safe_after_end_s.unwrap();
        prop_assert!((outcome.states_s.iter().sum::<f64>() - whole_s).abs() <= close);
        prop_assert_eq!(run_staging(&workload, &settings).unwrap(), outcome);
    }
}
