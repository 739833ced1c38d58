//! Plain cases that once broke, as a user meets them: what was seen is in the test's name, what is right in its body.
//!
//! Rows that need no program are in `crates/analysis/tests/it/rhythm_table.rs`.

use std::fmt::Write as _;

use iotide_formats::darshan::{Compression, Endian};
use serde_json::Value;

use crate::darshan_log::LogWriter;
use crate::util::Dir;

/// A table of writes: rank, start, end, bytes.
fn table(writes: &[(i32, f64, f64, u64)]) -> String {
    let mut table = String::from("rank,op,start,end,bytes\n");
    for (rank, start_s, end_s, bytes) in writes {
        writeln!(table, "{rank},write,{start_s},{end_s},{bytes}").unwrap();
    }
    table
}

fn bursts(n: usize, period_s: f64, length_s: f64, bytes: u64) -> Vec<(i32, f64, f64, u64)> {
    (0..n).map(|i| i as f64 * period_s).map(|start_s| (0, start_s, start_s + length_s, bytes)).collect()
}

/// Returns the answer of `detect` for a trace, as JSON.
fn detected(dir: &Dir, trace: &str) -> Value {
    dir.iotide(["detect", "--format", "json", trace]).json()["runs"][0].take()
}

/// Returns the answer of `detect` for a trace, as text.
fn words(dir: &Dir, trace: &str) -> String {
    dir.iotide(["detect", trace]).stdout
}

/// The periods of the writes by `categorize`.
fn categorized(dir: &Dir, trace: &str) -> Vec<f64> {
    let json = dir.iotide(["categorize", "--format", "json", trace]).json();
    let periods = json["runs"][0]["periods"]["write"].as_array().cloned().unwrap_or_default();
    periods.iter().map(|period| period["period_s"].as_f64().unwrap()).collect()
}

fn periods(run: &Value) -> Vec<f64> {
    run["period"]["periods_s"].as_array().unwrap().iter().map(|period| period.as_f64().unwrap()).collect()
}

fn near(found: &[f64], expected: &[f64], tolerance: f64) -> bool {
    let close = |(one, two): (&f64, &f64)| (one / two - 1.0).abs() <= tolerance;
    found.len() == expected.len() && found.iter().zip(expected).all(close)
}

#[track_caller]
fn is_unclear(run: &Value, reason: &str, case: &str) {
    let period = &run["period"];
    assert_eq!(
        (&period["verdict"], &period["reason"]),
        (&"unclear".into(), &reason.into()),
        "{case}: {period}"
    );
    assert_eq!(period["period_s"], Value::Null, "{case}: {period}");
}

// 100 equal bursts, every 60 s, 5 % duty: 60 s alone.

#[test]
fn a_hundred_equal_bursts_every_minute_are_60_s_alone_in_every_command() {
    let dir = Dir::new();
    for (n, period_s) in [(100, 60.0), (120, 60.0), (100, 7.5), (120, 0.02)] {
        dir.write("run.csv", table(&bursts(n, period_s, 0.05 * period_s, 2_000_000_000)));
        let run = detected(&dir, "run.csv");
        assert!(near(&periods(&run), &[period_s], 2e-3), "{n} × {period_s} s: {}", run["period"]);
        let labelled = categorized(&dir, "run.csv");
        assert!(near(&labelled, &[period_s], 2e-3), "{n} × {period_s} s, categorize: {labelled:?}");
        let text = words(&dir, "run.csv");
        let headline = text.lines().next().unwrap();
        assert!(!headline.contains(" and "), "{n} × {period_s} s: {headline}");
        assert!(headline.contains(&format!("{n} phases")), "{n} × {period_s} s: {headline}");
    }
}

// The same rows in reverse order: the order of rows never matters.

#[test]
fn the_same_rows_in_reverse_order_give_the_same_answer() {
    let dir = Dir::new();
    let mut rows: Vec<(i32, f64, f64, u64)> = (0..150)
        .flat_map(|phase| {
            (0..4000).map(move |i| {
                let start_s = 10.0 * f64::from(phase) + 0.0005 * f64::from(i);
                (i % 8, start_s, start_s + 0.0005, 100_000)
            })
        })
        .collect();
    dir.write("forward.csv", table(&rows));
    rows.reverse();
    dir.write("backward.csv", table(&rows));
    let (forward, backward) = (detected(&dir, "forward.csv"), detected(&dir, "backward.csv"));
    assert!(near(&periods(&forward), &[10.0], 1e-3), "{}", forward["period"]);
    assert!(near(&periods(&backward), &periods(&forward), 1e-6), "{}", backward["period"]);
    assert_eq!(backward["period"]["rhythms"][0]["n_phases"], 150, "{}", backward["period"]);
}

// One write; two writes: unclear, too little to tell.

#[test]
fn one_write_and_two_writes_are_too_little_to_tell() {
    let dir = Dir::new();
    for n in [1, 2] {
        dir.write("run.csv", table(&bursts(n, 10.0, 1.0, 1_000_000)));
        is_unclear(&detected(&dir, "run.csv"), "too_few_phases", &format!("{n} writes"));
        let text = words(&dir, "run.csv");
        let headline = text.lines().next().unwrap();
        assert!(headline.contains("unclear") && !headline.contains('%'), "{n} writes: {text}");
    }
}

// Counters-only log of a run whose DXT log has a clear period: unclear, the source is too coarse.

/// Twenty checkpoints of four ranks, one every 10 s: as counters, as a trace of calls, or both.
fn checkpoints(counters: bool, calls: bool) -> Vec<u8> {
    let mut log = LogWriter::new(41, Endian::Little, Compression::Zlib);
    log.end_s = log.start_s + 200;
    log.names = vec![(11, "/scratch/checkpoint")];
    let posix = |rank: i64| {
        let mut record = log.words(&[11, rank]);
        let mut ints = [0_i64; 69];
        // OPENS, WRITES, BYTES_WRITTEN.
        (ints[0], ints[4], ints[15]) = (1, 20, 20 * 100_000_000);
        let mut floats = [0.0; 17];
        // Opens 0.5 to 0.75, writes 1 to 192, closes 195.
        (floats[0], floats[2], floats[3]) = (0.5, 1.0, 195.0);
        (floats[4], floats[6], floats[7]) = (0.75, 192.0, 195.5);
        floats[9] = 20.0;
        record.extend(log.words(&ints));
        record.extend(log.floats(&floats));
        record
    };
    let dxt = |rank: i64| {
        let mut record = log.words(&[11, rank, 0]);
        record.extend([0; 64]);
        record.extend(log.words(&[20, 0]));
        for i in 0..20 {
            record.extend(log.words(&[i * 100_000_000, 100_000_000]));
            record.extend(log.floats(&[1.0 + 10.0 * i as f64, 2.0 + 10.0 * i as f64]));
        }
        record
    };
    let (posix, dxt): (Vec<u8>, Vec<u8>) = ((0..4).flat_map(posix).collect(), (0..4).flat_map(dxt).collect());
    if counters {
        log.push("POSIX", 4, false, vec![posix]);
    }
    if calls {
        log.push("DXT_POSIX", 1, false, vec![dxt]);
    }
    log.write()
}

#[test]
fn a_log_of_counters_alone_is_too_coarse_where_its_calls_have_a_period() {
    let dir = Dir::new();
    dir.write("calls.darshan", checkpoints(true, true));
    let run = detected(&dir, "calls.darshan");
    assert!(near(&periods(&run), &[10.0], 0.01), "with DXT: {}", run["period"]);
    dir.write("counters.darshan", checkpoints(true, false));
    is_unclear(&detected(&dir, "counters.darshan"), "too_coarse", "counters alone");
    let text = words(&dir, "counters.darshan");
    assert!(!text.contains("100 %: ") && !text.contains("no period"), "{text}");
}

#[test]
fn a_real_log_of_counters_alone_is_too_coarse() {
    let Some(log) = iotide_testkit::shared_data("traces/darshan/noposix.darshan") else { return };
    let dir = Dir::new();
    let run = &dir.iotide(["detect", "--format", "json", log.to_str().unwrap()]).json()["runs"][0];
    // Whatever moved there, moved in records from first to last call.
    if run["not_analysed"].is_null() {
        assert_ne!(run["period"]["verdict"], "not_periodic", "{}", run["period"]);
    }
}

// T = 10 s × 20, a pause, T = 10 s × 20: 10 s, with a pause. 10 s until 305 s, then 25 s: both, each with its stretch.

#[test]
fn a_pause_is_reported_in_words() {
    let dir = Dir::new();
    for pause_s in [100.0, 400.0] {
        let mut rows = bursts(20, 10.0, 1.0, 1_000_000_000);
        let later = bursts(20, 10.0, 1.0, 1_000_000_000);
        rows.extend(later.iter().map(|row| (0, row.1 + 200.0 + pause_s, row.2 + 200.0 + pause_s, row.3)));
        dir.write("run.csv", table(&rows));
        let run = detected(&dir, "run.csv");
        let period_s = run["period"]["period_s"].as_f64().unwrap_or(f64::NAN);
        assert!((period_s / 10.0 - 1.0).abs() < 0.01, "{pause_s} s: {}", run["period"]);
        let text = words(&dir, "run.csv");
        assert!(text.contains("pause"), "a pause of {pause_s} s is reported: {text}");
        let labelled = categorized(&dir, "run.csv");
        assert!(near(&labelled, &periods(&run), 1e-6), "one engine: {labelled:?}, {}", run["period"]);
    }
}

#[test]
fn a_change_of_the_period_is_reported_in_words() {
    let dir = Dir::new();
    let mut rows = bursts(31, 10.0, 1.0, 1_000_000_000);
    rows.extend((1..=20).map(|i| 300.0 + 25.0 * f64::from(i)).map(|s| (0, s, s + 1.0, 1_000_000_000)));
    dir.write("run.csv", table(&rows));
    let run = detected(&dir, "run.csv");
    let mut found = periods(&run);
    found.sort_by(f64::total_cmp);
    assert!(near(&found, &[10.0, 25.0], 0.02), "{}", run["period"]);
    let text = words(&dir, "run.csv");
    assert!(text.contains("10 s until") && text.contains("then 25 s"), "{text}");
}

// Missing beats: the beat is 20 s, so many were missed.

#[test]
fn missed_beats_are_counted_in_words() {
    let dir = Dir::new();
    let rows: Vec<_> = bursts(60, 20.0, 2.0, 1_000_000_000)
        .into_iter()
        .enumerate()
        .filter(|(i, _)| ![7, 19, 20, 33, 48].contains(i))
        .map(|(_, row)| row)
        .collect();
    dir.write("run.csv", table(&rows));
    let run = detected(&dir, "run.csv");
    assert!(near(&periods(&run), &[20.0], 0.01), "{}", run["period"]);
    assert_eq!(run["period"]["rhythms"][0]["missed"], 5, "{}", run["period"]);
    let text = words(&dir, "run.csv");
    assert!(text.contains("5 ") && text.contains("missed"), "{text}");
}

// Distances 6, 14, 6, 14; 8 MB every 1 s for many phases; 8 s + exponential 8 s: one engine.

#[test]
fn detect_and_categorize_name_the_same_periods() {
    let dir = Dir::new();
    let pairs: Vec<f64> = (0..30).flat_map(|i| [20.0 * f64::from(i), 20.0 * f64::from(i) + 6.0]).collect();
    let (mut state, mut at_s) = (12345u64, 0.0);
    let random: Vec<f64> = (0..60)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let unit = (state >> 11) as f64 / (1u64 << 53) as f64;
            at_s += 8.0 - 8.0 * (1.0 - unit).ln();
            at_s
        })
        .collect();
    let seconds = |n: usize| (0..n).map(|i| i as f64).collect::<Vec<_>>();
    let cases = [
        ("6 and 14 s", pairs, Some(20.0)),
        ("8 s + exponential 8 s", random, None),
        ("810 phases", seconds(810), Some(1.0)),
        ("1200 phases", seconds(1200), Some(1.0)),
        ("2000 phases", seconds(2000), Some(1.0)),
        ("100,000 phases", seconds(100_000), Some(1.0)),
    ];
    for (name, starts_s, truth_s) in cases {
        let rows: Vec<_> = starts_s.iter().map(|&s| (0, s, s + 0.1, 8_000_000)).collect();
        dir.write("run.csv", table(&rows));
        let run = detected(&dir, "run.csv");
        let labelled = categorized(&dir, "run.csv");
        assert!(near(&labelled, &periods(&run), 1e-6), "{name}: {labelled:?}, {}", run["period"]);
        if let Some(truth_s) = truth_s {
            assert!(near(&periods(&run), &[truth_s], 0.01), "{name}: {}", run["period"]);
        }
    }
}

// Four ranks write once each, one after the other: one phase; one call per rank is no rhythm.

#[test]
fn one_call_per_rank_one_after_the_other_is_no_rhythm() {
    let dir = Dir::new();
    for (n, step_s, length_s) in [(4, 0.0239, 0.02), (4, 0.0239, 0.0239), (8, 1.5, 1.0), (16, 0.1, 0.099)] {
        let rows: Vec<_> = (0..n)
            .map(|rank| (rank, f64::from(rank) * step_s, f64::from(rank) * step_s + length_s, 200_000_000))
            .collect();
        dir.write("run.csv", table(&rows));
        let (run, case) = (detected(&dir, "run.csv"), format!("{n} ranks, {step_s} s apart"));
        assert_ne!(run["period"]["verdict"], "periodic", "{case}: {}", run["period"]);
        let labelled = categorized(&dir, "run.csv");
        assert!(labelled.is_empty(), "{case}, categorize: {labelled:?}");
    }
}

// 6 equal bursts of 20 ms: 6 phases. Three writes of 100 kB: 100 kB per phase.

#[test]
fn phases_and_their_bytes_are_counted_in_words() {
    let dir = Dir::new();
    let starts_s = [0.0, 0.40, 0.97, 1.44, 1.96, 2.40];
    dir.write("six.csv", table(&starts_s.map(|s| (0, s, s + 0.02, 1_000_000))));
    let text = words(&dir, "six.csv");
    assert!(text.lines().next().unwrap().contains("6 phases of about 1 MB"), "{text}");
    dir.write("three.csv", table(&bursts(3, 5.0, 0.5, 100_000)));
    let text = words(&dir, "three.csv");
    assert!(text.lines().next().unwrap().contains("3 phases of about 100 kB"), "{text}");
    let per = text.lines().find(|line| line.trim_start().starts_with("per ")).unwrap_or("");
    assert!(per.contains("100 kB"), "the mean over phases, not {per:?}: {text}");
}

// Heatmap bins of 25.6 s, true period 60 s: 60 ± a bin, or unclear.

#[test]
fn heatmap_bins_of_25_6_s_tell_60_s_within_a_bin_or_are_unclear() {
    let dir = Dir::new();
    for (bin_s, period_s) in [(25.6, 60.0), (51.2, 60.0), (12.8, 60.0), (6.4, 60.0)] {
        let n_bins = 160;
        let mut log = LogWriter::new(41, Endian::Little, Compression::Zlib);
        log.end_s = log.start_s + (bin_s * n_bins as f64) as i64;
        log.n_procs = 1;
        log.names = vec![(14, "heatmap:POSIX")];
        let mut bins = vec![0_i64; n_bins];
        let mut start_s = 3.0;
        while start_s < bin_s * n_bins as f64 {
            bins[(start_s / bin_s) as usize] += 1_000_000_000;
            start_s += period_s;
        }
        let mut record = log.words(&[14, 0]);
        record.extend(log.floats(&[bin_s]));
        record.extend(log.words(&[n_bins as i64, -1, -1]));
        record.extend(log.words(&bins));
        record.extend(log.words(&vec![0; n_bins]));
        log.push("HEATMAP", 1, false, vec![record]);
        dir.write("heat.darshan", log.write());
        let run = detected(&dir, "heat.darshan");
        assert!(run["source"]["bytes_written"].as_f64().unwrap() > 0.0, "{}", run["source"]);
        let period = &run["period"];
        match period["verdict"].as_str() {
            Some("unclear") => {}
            Some("periodic") => {
                let found_s = period["period_s"].as_f64().unwrap();
                assert!((found_s - period_s).abs() <= bin_s, "bins of {bin_s} s: {period}");
            }
            _ => panic!("bins of {bin_s} s: {period}"),
        }
    }
}

// A 10 s constant write: busy 100 % of the time.

#[test]
fn a_constant_write_of_10_s_is_busy_100_percent_of_the_time() {
    let dir = Dir::new();
    for n in [1, 10] {
        let length_s = 10.0 / n as f64;
        dir.write("run.csv", table(&bursts(n, length_s, length_s, 1_000_000_000)));
        let run = detected(&dir, "run.csv");
        let busy = run["scores"]["io_time_ratio"].as_f64().unwrap_or(0.0);
        assert!(busy > 0.99, "{n} writes: busy {busy}");
        let text = words(&dir, "run.csv");
        let line = text.lines().find(|line| line.trim_start().starts_with("active I/O")).unwrap_or("");
        assert!(line.contains("100 %"), "{n} writes: {text}");
    }
}

// 100 Python writes in a loop: a steady stream.

#[test]
fn a_hundred_writes_in_a_loop_have_no_period() {
    let dir = Dir::new();
    let (mut state, mut at_s) = (99u64, 0.0);
    let rows: Vec<_> = (0..100)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let unit = (state >> 11) as f64 / (1u64 << 53) as f64;
            let start_s = at_s;
            at_s += 6.0e-6 + 0.8e-6 * unit;
            (0, start_s, start_s + 5.0e-6, 4096)
        })
        .collect();
    dir.write("run.csv", table(&rows));
    let run = detected(&dir, "run.csv");
    assert_ne!(run["period"]["verdict"], "periodic", "{}", run["period"]);
}

// Loops of requests: a steady stream, and no period to any command.

#[test]
fn a_loop_of_requests_has_no_period_in_any_command_and_is_said_to_be_one() {
    let dir = Dir::new();
    let few_us_apart = bursts(2000, 5e-6, 2e-6, 2_000_000);
    let without_gaps = bursts(2000, 1e-3, 0.8e-3, 2_000_000);
    let mut for_a_moment = bursts(2000, 2e-4, 1e-4, 2_000_000);
    for_a_moment.push((0, 60.0, 60.2, 1000));
    for (case, rows) in
        [("5 us apart", few_us_apart), ("without gaps", without_gaps), ("for a moment", for_a_moment)]
    {
        dir.write("run.csv", table(&rows));
        let run = detected(&dir, "run.csv");
        let period = &run["period"];
        assert_eq!(
            (&period["verdict"], &period["reason"]),
            (&"not_periodic".into(), &"loop".into()),
            "{case}"
        );
        let candidates = period["candidates"].as_array().unwrap();
        let is_rejected = |candidate: &Value| candidate["confidence"].as_f64().unwrap() < 0.01;
        assert!(candidates.iter().all(is_rejected), "{case}: {candidates:?}");
        assert!(
            words(&dir, "run.csv").contains("single requests follow each other in a steady stream"),
            "{case}"
        );
        let labelled = categorized(&dir, "run.csv");
        assert!(labelled.is_empty(), "{case}, categorize: {labelled:?}");
    }
}

#[test]
fn a_hundred_writes_of_a_real_python_have_no_period() {
    let Some(python) = iotide_testkit::program("python3") else { return };
    let dir = Dir::new();
    let script = "import os\nf = os.open('out', os.O_CREAT | os.O_WRONLY)\nfor i in range(100):\n    os.write(f, b'x' * 4096)\n";
    dir.write("loop.py", script);
    let outcome = dir.iotide(["record", "-o", "run.iot", "--", python.to_str().unwrap(), "loop.py"]);
    assert_eq!(outcome.status, 0, "{outcome:?}");
    // Neither to `record` itself, nor to whoever reads what it wrote.
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(!said.contains("period "), "{said}");
    let run = detected(&dir, "run.iot");
    assert_ne!(run["period"]["verdict"], "periodic", "{}", run["period"]);
    let labelled = categorized(&dir, "run.iot");
    assert!(labelled.is_empty(), "categorize: {labelled:?}");
}

// A training loop with an evaluation pass; dumps beside a log: the headline in words.

#[test]
fn dumps_beside_a_log_are_the_headline_in_words() {
    let dir = Dir::new();
    let mut rows = bursts(40, 17.0, 1.5, 1_000_000_000);
    let n_lines = 560;
    rows.extend((0..n_lines).map(|i| 1.2 * f64::from(i)).map(|s| (1, s, s + 0.001, 140_000)));
    dir.write("run.csv", table(&rows));
    let run = detected(&dir, "run.csv");
    let found = periods(&run);
    assert!(found.first().is_some_and(|s| (s / 17.0 - 1.0).abs() < 0.01), "{}", run["period"]);
    let text = words(&dir, "run.csv");
    assert!(text.lines().next().unwrap().contains("periods 17 s and 1.2 s"), "{text}");
}

#[test]
fn a_few_bytes_between_before_or_after_few_phases_change_nothing() {
    let dir = Dir::new();
    for (n, period_s, length_s) in [(4, 5.765, 0.866), (5, 0.152, 0.0065), (7, 164.6, 37.0)] {
        let bytes = 200_000_000;
        for at in [-1.1, -0.5, 0.5, 1.5, 2.33, n as f64 - 0.5, n as f64 + 0.1] {
            let start_s = at * period_s;
            let mut rows = bursts(n, period_s, length_s, bytes);
            rows.push((0, start_s, start_s + 1e-4, 100));
            dir.write("run.csv", table(&rows));
            let run = detected(&dir, "run.csv");
            let case = format!("{n} phases every {period_s} s, {at}: {}", run["period"]);
            assert!(near(&periods(&run), &[period_s], 0.01), "{case}");
            assert!(near(&categorized(&dir, "run.csv"), &[period_s], 0.01), "{case}");
        }
    }
}

#[test]
fn one_late_phase_is_late_and_no_beat_is_missed() {
    let dir = Dir::new();
    for n in [5, 6, 8, 12, 40] {
        for late in [0.03, 0.05, 0.1, 0.2, 0.3, 0.4] {
            let mut rows = bursts(n, 10.0, 0.5, 200_000_000);
            let (_, start_s, end_s, _) = &mut rows[2];
            *start_s += 10.0 * late;
            *end_s += 10.0 * late;
            dir.write("run.csv", table(&rows));
            let run = detected(&dir, "run.csv");
            let case = format!("{n} phases, one late by {late} beats: {}", run["period"]);
            assert!(near(&periods(&run), &[10.0], 0.01), "{case}");
            let rhythm = &run["period"]["rhythms"][0];
            assert_eq!(
                (rhythm["n_phases"].as_u64(), rhythm["missed"].as_u64()),
                (Some(n as u64), Some(0)),
                "{case}"
            );
            assert!(near(&categorized(&dir, "run.csv"), &[10.0], 0.01), "{case}");
        }
    }
}
