use super::*;

/// A system of one target, described.
fn system(text: &str) -> System {
    System::from_json(text).unwrap_or_else(|fault| panic!("{fault}: {text}"))
}

fn open(target: &str, templates: &[(f64, f64)], to_s: f64) -> System {
    let kinds: Vec<String> = (templates.iter().enumerate())
        .map(|(i, (bytes, _))| {
            format!(r#"{{"name": "{i}", "compute_s": 0, "requests": 1, "iterations": 1, "start": "io", "request_bytes": {bytes}}}"#)
        })
        .collect();
    let arrivals: Vec<String> = (templates.iter().enumerate())
        .map(|(i, (_, per_s))| format!(r#"{{"template": "{i}", "per_s": {per_s}}}"#))
        .collect();
    system(&format!(
        r#"{{"storage": {{"targets": [{target}]}}, "templates": [{}], "arrivals": [{}], "frame_s": [20, {to_s}]}}"#,
        kinds.join(","),
        arrivals.join(",")
    ))
}

fn ran(system: &System, seed: u64) -> Run {
    simulate(system, &Settings { grain: None, interval_s: None, most_events: None }, seed)
        .unwrap_or_else(|fault| panic!("{fault}"))
}

fn near(found: f64, wanted: f64, tolerance: f64) {
    assert!((found / wanted - 1.0).abs() <= tolerance, "{found}, but {wanted} is wanted");
}

#[test]
fn one_server_has_the_queue_that_theory_gives_it() {
    for (rho, tolerance) in [(0.5, 0.02), (0.8, 0.03)] {
        let system = open(r#"{"iops": 100}"#, &[(0.0, 100.0 * rho)], 20_000.0);
        let run = ran(&system, 1);
        near(run.frame.at_op[0], rho / (1.0 - rho), tolerance);
        near(run.frame.waiting, rho * rho / (1.0 - rho), 2.0 * tolerance);
        near(run.frame.op_busy[0], rho, 0.01);
        near(run.frame.burst_s[0], 1.0 / (100.0 * (1.0 - rho)), tolerance);
        // Little's law holds of every run, not on average.
        near(run.frame.at_op[0], run.frame.iops[0] * run.frame.burst_s[0], 0.001);
        let long = long_run(&system).unwrap();
        assert!(long.is_exact);
        near(long.means.at_op[0], rho / (1.0 - rho), 1e-12);
        near(long.means.burst_s[0], 1.0 / (100.0 * (1.0 - rho)), 1e-12);
    }
}

#[test]
fn several_servers_have_erlangs_queue() {
    let system = open(r#"{"iops": 60, "servers": 3}"#, &[(0.0, 51.0)], 40_000.0);
    // Erlang C of 3 servers at 0.85: 0.7302…; waiting = C ρ/(1 − ρ).
    let run = ran(&system, 2);
    let long = long_run(&system).unwrap().means;
    near(long.waiting, 4.138_800_792_864_22, 1e-9);
    near(run.frame.waiting, long.waiting, 0.04);
    near(run.frame.at_op[0], long.at_op[0], 0.03);
}

#[test]
fn streams_share_a_line_evenly_whatever_their_size() {
    let system = open(r#"{"bandwidth_bps": 1000}"#, &[(10.0, 35.0), (40.0, 10.0)], 20_000.0);
    let run = ran(&system, 3);
    near(run.frame.moving[0], 0.35 / 0.25, 0.04);
    near(run.frame.moving[1], 0.40 / 0.25, 0.04);
    near(run.frame.burst_s[1] / run.frame.burst_s[0], 4.0, 0.03);
    near(long_run(&system).unwrap().means.moving[1], 1.6, 1e-12);
}

#[test]
fn a_cap_for_each_stream_makes_servers_of_the_line() {
    // Three streams fill the line: as three servers do.
    let capped = open(r#"{"bandwidth_bps": 60, "stream_bps": 20}"#, &[(1.0, 51.0)], 20_000.0);
    let run = ran(&capped, 4);
    near(run.frame.moving[0], 4.138_800_792_864_22 + 2.55, 0.04);
    near(long_run(&capped).unwrap().means.moving[0], 4.138_800_792_864_22 + 2.55, 1e-9);
    // Without a common line nobody waits.
    let free = open(r#"{"stream_bps": 20}"#, &[(1.0, 51.0)], 4000.0);
    near(ran(&free, 5).frame.moving[0], 2.55, 0.02);
    near(long_run(&free).unwrap().means.moving[0], 2.55, 1e-12);
}

#[test]
fn machines_and_a_repairman() {
    let system = system(
        r#"{"storage": {"targets": [{"iops": 2}]}, "frame_s": [50, 20000], "jobs": [{"template": "a"}],
            "templates": [{"name": "a", "processes": 4, "requests": null, "think_s": 1.5}]}"#,
    );
    // The balance equations, by hand: each state is so many times as likely as the one before.
    let weights = [1.0, 4.0 / 3.0, 4.0 / 3.0, 8.0 / 9.0, 8.0 / 27.0];
    let sum: f64 = weights.iter().sum();
    let run = ran(&system, 6);
    let apart: f64 =
        (weights.iter().zip(&run.distribution_at_op)).map(|(w, found)| (w / sum - found).abs()).sum();
    assert!(apart / 2.0 < 0.01, "{:?}", run.distribution_at_op);
    let long = long_run(&system).unwrap();
    near(long.means.iops[0], 2.0 * (1.0 - weights[0] / sum), 1e-9);
    near(run.frame.iops[0], long.means.iops[0], 0.01);
    assert!(long.is_exact);
}

#[test]
fn a_closed_network_of_two_kinds_is_as_mean_value_analysis_has_it() {
    let system = system(
        r#"{"storage": {"targets": [{"iops": 6, "servers": 2, "bandwidth_bps": 4, "stream_bps": 3}]}, "frame_s": [50, 60000],
            "templates": [{"name": "a", "processes": 5, "requests": null, "request_bytes": 1, "think_s": 0.7},
                          {"name": "b", "processes": 2, "requests": null, "request_bytes": 3, "think_s": 2}],
            "jobs": [{"template": "a"}, {"template": "b"}]}"#,
    );
    let (run, long) = (ran(&system, 7).frame, long_run(&system).unwrap());
    assert!(long.is_exact);
    for t in 0..2 {
        near(run.iops[t], long.means.iops[t], 0.01);
        near(run.at_op[t] + run.moving[t], long.means.at_op[t] + long.means.moving[t], 0.015);
    }
    // Nobody is lost: at targets, or thinking (Little).
    let thinking = [0.7, 2.0];
    for (t, n) in [5.0, 2.0].into_iter().enumerate() {
        let means = &long.means;
        near(means.at_op[t] + means.moving[t] + means.iops[t] * thinking[t], n, 1e-9);
        near(run.at_op[t] + run.moving[t] + run.iops[t] * thinking[t], n, 0.01);
    }
}

#[test]
fn fifteen_jobs_in_step_take_fifteen_times_as_long() {
    let io = crate::Workload::from_json(
        r#"{"bandwidth_bps": 115343360, "frame_s": [0, 400], "jobs": [{"name": "low", "count": 15, "compute_s": 1e-9, "io_bytes": 2684354560, "iterations": 1}]}"#,
    )
    .unwrap();
    let system = System::of_periodic_jobs(&io).unwrap();
    assert_eq!((system.templates.len(), system.jobs[0].count), (1, 15));
    // 1 % less: a burst that gets ahead by chance ends before the others. One run deviates by 0.8 %.
    let took_s: Vec<f64> = (0..8).map(|seed| ran(&system, seed).frame.burst_s[0]).collect();
    near(iotide_num::mean(&took_s), 0.99 * 349.1, 0.012);
    near(alone(&system, 0).burst_s, 2_684_354_560.0 / 115_343_360.0, 1e-9);
    let field = mean_field(&system, &Settings { grain: None, interval_s: None, most_events: None }).unwrap();
    near(field.frame.bandwidth_bps[0] * 400.0, 15.0 * 2_684_354_560.0, 0.02);
}

#[test]
fn a_lost_target_takes_its_bandwidth_with_it_and_no_request() {
    let text = |events: &str| {
        format!(
            r#"{{"storage": {{"targets": [{{"bandwidth_bps": 500}}, {{"bandwidth_bps": 500}}]}}, "frame_s": [0, 400], "events": [{events}],
                "templates": [{{"name": "a", "processes": 32, "requests": null, "request_bytes": 1}}], "jobs": [{{"template": "a"}}]}}"#
        )
    };
    let lost = system(&text(r#"{"at_s": 100, "lose_target": 0}, {"at_s": 300, "restore_target": 0}"#));
    let run = ran(&lost, 9);
    let bandwidths: Vec<f64> = run.stretches.iter().map(|means| means.bandwidth_bps[0]).collect();
    // Each of T stations that n requests go round is busy for n/(n + T − 1).
    near(bandwidths[0], 1000.0 * 32.0 / 33.0, 0.02);
    near(bandwidths[1], 500.0, 0.02);
    near(bandwidths[2], 1000.0 * 32.0 / 33.0, 0.02);
    near(run.stretches[1].moving[0], 32.0, 1e-9);
    // With both gone they wait, and go on afterwards.
    let both = system(&text(
        r#"{"at_s": 100, "lose_target": 0}, {"at_s": 100, "lose_target": 1}, {"at_s": 300, "restore_target": 1}"#,
    ));
    let run = ran(&both, 10);
    assert_eq!(run.stretches[2].iops[0], 0.0);
    near(run.stretches[3].bandwidth_bps[0], 500.0, 0.03);
}

#[test]
fn grain_changes_the_number_of_events_and_no_mean() {
    let text = r#"{"storage": {"targets": [{"iops": 4000, "servers": 4, "bandwidth_bps": 4e6}]}, "frame_s": [0, 5000],
        "templates": [{"name": "a", "compute_s": 10, "processes": 8, "requests": 8000, "request_bytes": 1000}], "jobs": [{"template": "a", "count": 3}]}"#;
    let system = system(text);
    let with = |grain| {
        simulate(&system, &Settings { grain: Some(grain), interval_s: None, most_events: None }, 11).unwrap()
    };
    let (fine, coarse) = (with(1), with(20));
    assert!(fine.n_events > 14 * coarse.n_events, "{} {}", fine.n_events, coarse.n_events);
    near(coarse.frame.bandwidth_bps[0], fine.frame.bandwidth_bps[0], 0.02);
    near(coarse.frame.burst_s[0], fine.frame.burst_s[0], 0.03);
    near(coarse.frame.iops[0], fine.frame.iops[0], 0.02);
}

#[test]
fn a_seed_is_a_run() {
    let system = open(r#"{"iops": 100}"#, &[(0.0, 60.0)], 200.0);
    let settings = Settings { grain: None, interval_s: Some(10.0), most_events: None };
    let run = |seed| simulate(&system, &settings, seed).unwrap();
    assert_eq!(format!("{:?}", run(5)), format!("{:?}", run(5)));
    assert_ne!(run(5).frame.at_op, run(6).frame.at_op);
    // The steps make up the whole.
    let run = run(5);
    assert_eq!(run.state.len(), 20);
    let from_20_s: f64 = run.state[2..].iter().map(|means| means.at_op[0]).sum::<f64>() / 18.0;
    near(from_20_s, run.frame.at_op[0], 1e-9);
}

#[test]
fn bursts_of_jobs_end_with_their_last_request() {
    // One process, one request: a burst is a request. Computing is nearly regular.
    let system = system(
        r#"{"storage": {"targets": [{"bandwidth_bps": 100}]}, "frame_s": [0, 100000],
            "templates": [{"name": "a", "compute_s": 9, "compute_cv": 0.01, "processes": 1, "requests": 4, "request_bytes": 25}],
            "jobs": [{"template": "a", "next_phase_s": 0.5}]}"#,
    );
    let run = ran(&system, 12);
    near(run.frame.burst_s[0], 1.0, 0.02);
    near(run.frame.bandwidth_bps[0], 10.0, 0.01);
    near(run.entries[0].0, 10.0, 0.01);
    near(long_run(&system).unwrap().means.bandwidth_bps[0], 10.0, 0.001);
    let clogs = saturation(&system).unwrap();
    assert!(!clogs.is_op);
    near(clogs.knee_jobs, 10.0, 1e-6);
    assert_eq!(clogs.more_jobs, [9]);
}

#[test]
fn what_grows_without_bound_is_said_and_not_run() {
    let says = |target: &str, per_s| {
        let system = open(target, &[(10.0, per_s)], 100.0);
        let settings = Settings { grain: None, interval_s: None, most_events: None };
        simulate(&system, &settings, 0).unwrap_err().to_string()
    };
    let said = says(r#"{"iops": 10}"#, 10.0);
    assert_eq!(
        said,
        "storage.targets[0].iops: 1.000 of what the target can do arrives: its queue grows without bound"
    );
    assert!(says(r#"{"bandwidth_bps": 10}"#, 2.0).starts_with("storage.targets[0].bandwidth_bps: 2.000"));
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let says = |text: &str| System::from_json(text).unwrap_err().to_string();
    let whole = |targets: &str, templates: &str, rest: &str| {
        says(&format!(r#"{{"storage": {{"targets": {targets}}}, "templates": {templates}{rest}}}"#))
    };
    let kind = r#"[{"name": "a", "requests": 1, "request_bytes": 1}]"#;
    assert!(says("{").starts_with("is not JSON"));
    assert_eq!(says("{}"), "storage is missing");
    assert_eq!(whole("[]", kind, ""), "storage.targets is empty");
    assert_eq!(whole(r#"[{"iops": 0}]"#, kind, ""), "storage.targets[0].iops is 0, but must be positive");
    assert_eq!(whole(r#"[{"iops": 1}]"#, "[]", ""), "templates is empty");
    assert_eq!(whole(r#"[{"iops": 1}]"#, r#"[{"name": "a"}]"#, ""), "templates[0].requests is missing");
    assert_eq!(
        whole(r#"[{"iops": 1}]"#, kind, r#", "jobs": [{"template": "b"}]"#),
        r#"jobs[0].template is "b": there is no template of this name"#
    );
    assert_eq!(
        whole(
            r#"[{"iops": 1}]"#,
            kind,
            r#", "jobs": [{"template": "a"}], "events": [{"at_s": 1, "lose_target": 3}]"#
        ),
        "events[0].lose_target is 3: there are 1 targets, from 0"
    );
    assert!(
        whole("[{}]", kind, r#", "jobs": [{"template": "a"}]"#)
            .starts_with("templates[0] takes no time at storage.targets[0]")
    );
    assert!(whole(r#"[{"iops": 1, "speed": 2}]"#, kind, "").contains("unknown field \"speed\""));
    assert!(
        whole(
            r#"[{"iops": 1}]"#,
            &format!("[{0}, {0}]", &kind[1..kind.len() - 1]),
            r#", "jobs": [{"template": "a"}]"#
        )
        .contains("twice")
    );
}

#[test]
fn a_ladder_gives_back_the_target_it_was_made_of() {
    let mut random = SplitMix64::new(13);
    for (servers, iops, stream_bps, bandwidth_bps) in
        [(16, 16_000.0, 3.7e8, 1.7e9), (2, 11_500.0, 5.3e8, 1e10), (1, 300.0, 1e8, 4e8)]
    {
        let truth = Target {
            iops: Some(iops),
            servers,
            bandwidth_bps: Some(bandwidth_bps),
            stream_bps: Some(stream_bps),
            ..Target::default()
        };
        let mut cells = Vec::new();
        for request_bytes in [65_536.0, 4_194_304.0] {
            for n in [1, 2, 4, 8, 16, 32, 64] {
                let expected = 20.0 * requests_per_s(&truth, n, request_bytes);
                let completions = (expected + expected.sqrt() * random.normal()).round();
                cells.push(Cell { n, request_bytes, seconds: 20.0, completions });
            }
        }
        let fitted = fit_storage(&Ladder { cells }).unwrap();
        assert!(fitted.at_least.is_empty(), "{fitted:?}");
        near(fitted.target.iops.unwrap(), iops, 0.05);
        near(fitted.target.bandwidth_bps.unwrap(), bandwidth_bps, 0.05);
        near(fitted.target.stream_bps.unwrap(), stream_bps, 0.1);
        for n in [3, 12, 48] {
            for request_bytes in [262_144.0, 16_777_216.0] {
                let found = requests_per_s(&fitted.target, n, request_bytes);
                near(found, requests_per_s(&truth, n, request_bytes), 0.05);
            }
        }
    }
}

#[test]
fn operations_that_no_ladder_notices_make_no_request_slower() {
    // Bytes at one rate, however many requests there are and however large they are, as a paced directory has them.
    for (bandwidth_bps, seconds) in [(2e7f64, 2.0), (6e7, 2.0), (1e9, 1.0)] {
        let mut cells = Vec::new();
        for request_bytes in [262_144.0, 1_048_576.0] {
            for n in [1, 2, 4, 8, 16] {
                let completions = (bandwidth_bps * seconds / request_bytes).floor();
                cells.push(Cell { n, request_bytes, seconds, completions });
            }
        }
        let fitted = fit_storage(&Ladder { cells }).unwrap();
        assert!(fitted.at_least.contains(&"iops"), "{fitted:?}");
        for request_bytes in [262_144.0, 1_048_576.0] {
            let alone = requests_per_s(&fitted.target, 1, request_bytes);
            // Two standard deviations of 150 requests.
            near(alone, bandwidth_bps / request_bytes, 0.2);
        }
    }
}

#[test]
fn what_a_ladder_does_not_reach_is_a_bound() {
    // One request at a time, never more: nobody knows what all streams together would get.
    let cells = [65_536.0, 1_048_576.0, 16_777_216.0].map(|request_bytes| Cell {
        n: 1,
        request_bytes,
        seconds: 20.0,
        completions: 20.0 / (1e-3 + request_bytes / 1e9),
    });
    let fitted = fit_storage(&Ladder { cells: cells.to_vec() }).unwrap();
    assert!(fitted.at_least.contains(&"bandwidth_bps"), "{fitted:?}");
    near(fitted.target.bandwidth_bps.unwrap(), 16_777_216.0 / (1e-3 + 16_777_216.0 / 1e9), 0.01);
    assert_eq!(fit_storage(&Ladder { cells: cells[..2].to_vec() }), Err(CellError::TooFew(2)));
}

#[test]
fn templates_may_have_grains_of_their_own() {
    // Endless requests have means in closed form, which no grain changes, be it the same for all or not.
    let system = system(
        r#"{"storage": {"targets": [{"iops": 300, "servers": 3, "bandwidth_bps": 5000, "stream_bps": 2000}]}, "frame_s": [0, 8000],
            "templates": [{"name": "a", "processes": 4, "requests": null, "request_bytes": 30, "think_s": 0.02},
                          {"name": "b", "processes": 6, "requests": null, "request_bytes": 10}],
            "jobs": [{"template": "a"}, {"template": "b"}]}"#,
    );
    let exact = long_run(&system).unwrap();
    assert!(exact.is_exact);
    let settings = Settings { grain: None, interval_s: None, most_events: None };
    for (grains, seed) in [([1, 8], 21), ([8, 1], 22), ([4, 4], 23)] {
        let run = simulate_in_grains(&system, &settings, &grains, seed).unwrap().frame;
        for template in 0..2 {
            near(run.iops[template], exact.means.iops[template], 0.015);
            near(run.at_op[template], exact.means.at_op[template], 0.03);
            near(run.moving[template], exact.means.moving[template], 0.03);
        }
        near(run.op_busy[0], exact.means.op_busy[0], 0.015);
    }
}

#[test]
fn a_large_burst_has_a_coarse_grain_beside_a_small_one() {
    let usual = |target: &str, templates: &str| {
        let text = format!(
            r#"{{"storage": {{"targets": [{target}]}}, "templates": [{templates}], "jobs": [{{"template": "a"}}], "frame_s": [0, 400]}}"#
        );
        let system = system(&text);
        let settings = Settings { grain: None, interval_s: None, most_events: None };
        (grains(&system, &settings).unwrap(), system)
    };
    let a = |processes: u64| {
        format!(
            r#"{{"name": "a", "compute_s": 6, "processes": {processes}, "requests": 4000, "request_bytes": 4194304}}"#
        )
    };
    let small = r#"{"name": "b", "processes": 16, "requests": 1000, "request_bytes": 1048576}"#;
    let endless = r#"{"name": "c", "requests": null, "request_bytes": 1048576}"#;
    let target = r#"{"iops": 20000, "servers": 16, "bandwidth_bps": 5e9, "stream_bps": 1e9}"#;
    let (found, _) = usual(target, &format!("{}, {small}, {endless}", a(64)));
    assert_eq!(found, [8, 2, 1]);
    // Where every stream has a line of its own, or many share one, the last of many tokens would be waited for if they did not become finer.
    let (_, capped) = usual(r#"{"stream_bps": 1e8}"#, &a(64));
    let (_, mut shared) = usual(r#"{"bandwidth_bps": 5e9, "stream_bps": 1e9}"#, &a(64));
    shared.jobs[0].count = 6;
    for system in [capped, shared] {
        let settings = |grain| Settings { grain, interval_s: None, most_events: None };
        let took_s = |grain| -> f64 {
            let runs = (0..4).map(|seed| simulate(&system, &settings(grain), seed).unwrap());
            runs.map(|run| run.frame.burst_s[0]).sum::<f64>() / 4.0
        };
        near(took_s(None), took_s(Some(1)), 0.04);
    }
}
