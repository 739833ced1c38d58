use std::io::Write as _;
use std::process::Stdio;

use serde_json::json;

use crate::util::{Dir, Outcome, bursts, once};

#[test]
fn a_burst_every_five_seconds_is_a_period_of_five_seconds() {
    let dir = Dir::new();
    dir.write("run.csv", bursts("write"));
    let outcome = dir.iotide(["detect", "run.csv"]).exits_with(0);
    assert_eq!(outcome.stderr, "");
    insta::assert_snapshot!(outcome.stdout, @r#"
    run.csv: period 5 s, confidence > 99 %: 10 phases of about 1 MB written

      ██▂       ▃█▅        ██▂       ▆█▅       ▂██        ▆█▃       ▃██        ██▃       ▄█▆        ██
      0 s                                      up to 1 MB/s                                       46 s

      source           csv, 1 rank, 10 events
      volume           0 B read, 10 MB written
      analysed         writes from 0 s to 46 s, as 4096 samples at 89 Hz
      phases           10, on average 1 s long and 1 MB
      next phase       expected at 50 s, 4 s after the end of the data
      periodicity      0.98, very regular: bytes per period vary by < 1 %, I/O time by 2 %
      active I/O       22 % of the run, 993 kB/s on average
      per phase        1 MB
      candidates       5 s (> 99 %, accepted)
      autocorrelation  5 s (100 %); all evidence together: > 99 %
      losses           none
    "#);
}

#[test]
fn json_has_the_names_that_scripts_rely_on() {
    let dir = Dir::new();
    dir.write("run.csv", bursts("write"));
    let document = dir.iotide(["detect", "--format", "json", "run.csv"]).exits_with(0).json();
    assert_eq!((&document["schema"], &document["command"]), (&json!("iotide/1"), &json!("detect")));
    let run = &document["runs"][0];
    assert_eq!(run["source"]["path"], "run.csv");
    assert_eq!(run["source"]["format"], "csv");
    assert_eq!(run["source"]["n_ranks"], 1);
    assert_eq!(run["source"]["n_events"], 10);
    assert_eq!(run["source"]["bytes_read"].to_string(), "0");
    assert_eq!(run["source"]["bytes_written"].to_string(), "10000000");
    assert_eq!((run["source"]["start_s"].as_f64(), run["source"]["end_s"].as_f64()), (Some(0.0), Some(46.0)));
    assert_eq!((&run["settings"]["method"], &run["settings"]["mode"]), (&json!("auto"), &json!("write")));
    assert!(run["settings"]["sample_rate_hz"].as_f64().unwrap() > 0.0);
    assert_eq!(run["settings"]["window_s"], json!([0.0, 46.0]));
    let period = &run["period"];
    let period_s = period["period_s"].as_f64().unwrap();
    assert!((period_s - 5.0).abs() < 0.05, "{period}");
    assert!((period["frequency_hz"].as_f64().unwrap() * period_s - 1.0).abs() < 1e-9);
    assert!((0.5..=1.0).contains(&period["confidence"].as_f64().unwrap()), "{period}");
    assert!((period["next_phase_s"].as_f64().unwrap() - 50.0).abs() < 0.5, "{period}");
    assert!((period["periods_s"][0].as_f64().unwrap() - period_s).abs() < 1e-9, "{period}");
    assert!(period["candidates"][0]["period_s"].is_f64() && period["candidates"][0]["confidence"].is_f64());
    for (part, names) in [
        (period, ["autocorrelation", "refined_confidence", "next_phase_s"].as_slice()),
        (
            &run["scores"],
            &[
                "sigma_vol",
                "sigma_time",
                "periodicity",
                "io_time_ratio",
                "io_bandwidth_bps",
                "bytes_per_period",
            ],
        ),
    ] {
        for name in names {
            assert!(part.get(name).is_some(), "{name} is missing: {part}");
        }
    }
    assert!(run["scores"]["periodicity"].as_f64().unwrap() > 0.8);
    assert_eq!(run["losses"], json!([]));
}

/// How many waves are listed beside the mean.
fn n_waves(run: &serde_json::Value) -> usize {
    run["waves"].as_array().unwrap().iter().filter(|wave| wave["period_s"].is_f64()).count()
}

#[test]
fn the_paper_s_method_finds_it_too() {
    let dir = Dir::new();
    dir.write("run.csv", bursts("write"));
    for outliers in ["zscore", "dbscan", "forest", "lof", "peaks"] {
        let args = [
            "detect",
            "--method",
            "dft",
            "--freq",
            "2",
            "--outliers",
            outliers,
            "--format",
            "json",
            "run.csv",
        ];
        let run = &dir.iotide(args).json()["runs"][0];
        assert_eq!(run["settings"]["outliers"], outliers);
        assert_eq!(run["settings"]["method"], "dft");
        assert_eq!(run["settings"]["sample_rate_hz"], 2.0);
        assert_eq!(n_waves(run), 3);
    }
    let args = ["detect", "--method", "dft", "--freq", "2", "--format", "json", "run.csv"];
    let period_s = dir.iotide(args).exits_with(0).json()["runs"][0]["period"]["period_s"].as_f64().unwrap();
    assert!((period_s - 5.0).abs() < 0.3, "{period_s}");
}

#[test]
fn the_direction_that_moves_more_is_looked_at_unless_told_otherwise() {
    let dir = Dir::new();
    let both = bursts("read") + bursts("write").replace("1000000", "10").split_once('\n').unwrap().1;
    dir.write("run.csv", both);
    for (asked, used) in [("auto", "read"), ("read", "read"), ("write", "write"), ("both", "both")] {
        let run = dir.iotide(["detect", "--mode", asked, "--format", "json", "run.csv"]).exits_with(0).json();
        assert_eq!(run["runs"][0]["settings"]["mode"], used);
    }
}

#[test]
fn a_rhythm_in_the_smaller_direction_is_found_if_the_larger_has_none() {
    let dir = Dir::new();
    dir.write("run.csv", bursts("read") + "0,write,3,4,900000000\n");
    let run = dir.iotide(["detect", "--format", "json", "run.csv"]).exits_with(0).json();
    assert_eq!(run["runs"][0]["settings"]["mode"], "read");
}

#[test]
fn a_window_and_waves_can_be_asked_for() {
    let dir = Dir::new();
    dir.write("run.csv", bursts("write"));
    let args = ["detect", "--window", ":31", "--top", "2", "--format", "json", "run.csv"];
    let run = &dir.iotide(args).json()["runs"][0];
    assert_eq!(run["settings"]["window_s"], json!([0.0, 31.0]));
    assert_eq!(n_waves(run), 2);
    assert!((0.0..=1.0).contains(&run["reconstruction_error"].as_f64().unwrap()));
    let args = ["detect", "--skip-first-phase", "--format", "json", "run.csv"];
    let start_s = dir.iotide(args).json()["runs"][0]["settings"]["window_s"][0].as_f64().unwrap();
    assert!((start_s - 5.0).abs() < 0.3, "{start_s}");
}

#[test]
fn a_run_without_rhythm_is_told_apart_from_a_failure() {
    let dir = Dir::new();
    dir.write("once.csv", once());
    let outcome = dir.iotide(["detect", "once.csv"]).exits_with(1);
    assert!(outcome.stdout.starts_with("once.csv: unclear: fewer than three phases"), "{outcome:?}");
    let period =
        &dir.iotide(["detect", "--format", "json", "once.csv"]).exits_with(1).json()["runs"][0]["period"];
    assert_eq!(
        (&period["period_s"], &period["frequency_hz"], &period["next_phase_s"], &period["periods_s"]),
        (&json!(null), &json!(null), &json!(null), &json!([]))
    );
}

#[test]
fn a_trace_that_moves_nothing_has_nothing_to_analyse() {
    let dir = Dir::new();
    dir.write("opens.csv", "rank,op,start,end,bytes\n0,open,0,1,0\n0,close,5,6,0\n");
    let outcome = dir.iotide(["detect", "opens.csv"]).exits_with(1);
    insta::assert_snapshot!(outcome.stdout, @r#"
    opens.csv: nothing to analyse: no bytes were read or written

      source  csv, 1 rank, 2 events
      volume  0 B read, 0 B written
      losses  none
    "#);
    let run = &dir.iotide(["detect", "--format", "json", "opens.csv"]).exits_with(1).json()["runs"][0];
    assert_eq!(run["not_analysed"], "no bytes were read or written");
    assert_eq!(
        (&run["settings"]["sample_rate_hz"], &run["scores"]["io_time_ratio"]),
        (&json!(null), &json!(null))
    );
}

#[test]
fn the_answer_can_go_to_a_file() {
    let dir = Dir::new();
    dir.write("run.csv", bursts("write"));
    let outcome = dir.iotide(["detect", "run.csv", "--format", "json", "-o", "answer.json"]).exits_with(0);
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("", "written to answer.json\n"));
    assert!(dir.read("answer.json").starts_with("{\n  \"schema\": \"iotide/1\""));
    let outcome = dir.iotide(["detect", "run.csv", "-o", "no/such/place.txt"]).exits_with(2);
    assert!(outcome.stderr.starts_with("iotide: cannot write no/such/place.txt: "), "{outcome:?}");
}

#[test]
fn stdin_is_a_trace_like_any_other() {
    let outcome =
        Dir::new().iotide_reading(&bursts("write"), ["detect", "-", "--format", "json"]).exits_with(0);
    let run = &outcome.json()["runs"][0];
    assert_eq!((&run["source"]["path"], &run["source"]["n_events"]), (&json!("-"), &json!(10)));
}

#[test]
fn files_of_one_run_are_added_up() {
    let dir = Dir::new();
    dir.write("rank0.csv", bursts("write"));
    dir.write("rank1.csv", bursts("write").replace("\n0,", "\n1,"));
    let run = dir
        .iotide(["detect", "--one-run", "rank0.csv", "rank1.csv", "--format", "json"])
        .exits_with(0)
        .json();
    assert_eq!(run["runs"].as_array().unwrap().len(), 1);
    assert_eq!(run["runs"][0]["source"]["n_ranks"], 2);
    assert_eq!(run["runs"][0]["source"]["bytes_written"], 20_000_000);
    let runs = dir.iotide(["detect", "rank0.csv", "rank1.csv", "--format", "json"]).exits_with(0).json();
    assert_eq!(runs["runs"].as_array().unwrap().len(), 2);
}

#[test]
fn a_pattern_reads_free_text() {
    let dir = Dir::new();
    dir.write("pattern", "line = \"{op} {bytes} from {start} to {end}\"\n");
    let text: String = (0..10).map(|i| format!("write 1000 from {} to {}\n", i * 5, i * 5 + 1)).collect();
    dir.write("log.txt", text);
    let run = &dir
        .iotide(["detect", "--pattern", "pattern", "log.txt", "--format", "json"])
        .exits_with(0)
        .json()["runs"][0];
    assert_eq!((&run["source"]["format"], &run["source"]["n_events"]), (&json!("text"), &json!(10)));
    dir.write("pattern", "what = is this\n");
    let outcome = dir.iotide(["detect", "--pattern", "pattern", "log.txt"]).exits_with(2);
    assert!(outcome.stderr.starts_with("iotide: pattern: line 1 of the pattern: "), "{outcome:?}");
}

#[test]
fn what_cannot_be_read_is_named_with_its_fault() {
    let dir = Dir::new();
    dir.write("empty.csv", "");
    dir.write("garbage", [0xde, 0xad, 0xbe, 0xef, 0x00, 0x01, 0x02, 0xff].repeat(40));
    std::fs::create_dir(dir.path().join("folder")).unwrap();
    let said = |outcome: Outcome| outcome.exits_with(2).complaint();
    insta::assert_snapshot!(said(dir.iotide(["detect", "missing.csv"])), @"iotide: missing.csv: No such file or directory (os error 2)");
    insta::assert_snapshot!(said(dir.iotide(["detect", "empty.csv"])), @"iotide: empty.csv is empty");
    insta::assert_snapshot!(said(dir.iotide(["detect", "garbage"])), @r#"
    iotide: garbage is not a trace in any known format (it starts with "\xde\xad\xbe\xef\x00\x01\x02\xff\xde\xad\xbe\xef\x00\x01\x02\xff")
    hint: `--input-format` names it if you know better; known are (formats)
    "#);
    insta::assert_snapshot!(said(dir.iotide(["detect", "folder"])), @"iotide: folder is a directory, and not a trace in any known format");
    insta::assert_snapshot!(said(dir.iotide(["detect", "--format", "json", "missing.csv"])), @"iotide: missing.csv: No such file or directory (os error 2)");
}

#[test]
fn a_rate_that_would_not_fit_is_refused_with_advice() {
    let dir = Dir::new();
    dir.write("run.csv", bursts("write"));
    insta::assert_snapshot!(dir.iotide(["detect", "--freq", "1e9", "run.csv"]).exits_with(2).stderr, @r#"
    iotide: run.csv: 4.600e10 samples are more than the 67108864 that fit
    hint: `--freq auto` chooses a rate that fits; `--window` makes the run shorter
    "#);
}

#[test]
fn a_cut_trace_is_analysed_and_the_loss_is_told() {
    let dir = Dir::new();
    let whole = bursts("write");
    dir.write("cut.csv", &whole[..whole.len() - 9]);
    let run = &dir.iotide(["detect", "--format", "json", "cut.csv"]).exits_with(0).json()["runs"][0];
    assert_eq!(run["source"]["n_events"], 9);
    assert_eq!(run["losses"].as_array().unwrap().len(), 1, "{}", run["losses"]);
    let text = dir.iotide(["detect", "cut.csv"]).exits_with(0).stdout;
    assert!(text.lines().last().unwrap().trim_start().starts_with("losses"), "{text}");
}

#[test]
fn more_requests_than_are_kept_exactly_cost_resolution_and_that_is_told() {
    let dir = Dir::new();
    // 55 phases of 10,000 writes each, every 100 s.
    let rows = (0..55u32).flat_map(|phase| {
        (0..10_000u32).map(move |i| {
            let start_s = f64::from(phase) * 100.0 + f64::from(i) * 1e-3;
            format!("0,write,{start_s:.6},{:.6},4096\n", start_s + 1e-3)
        })
    });
    let header = "rank,op,start,end,bytes\n".to_owned();
    dir.write("run.csv", std::iter::once(header).chain(rows).collect::<String>());
    let document = dir.iotide(["detect", "--format", "json", "run.csv"]).exits_with(0).json();
    let run = &document["runs"][0];
    assert!((run["period"]["period_s"].as_f64().unwrap() - 100.0).abs() < 0.02, "{run}");
    let resolution_s = run["source"]["resolution_s"].as_f64().unwrap();
    assert!(resolution_s > 1e-3 && resolution_s < 0.02, "{resolution_s}");
    let outcome = dir.iotide(["detect", "run.csv"]).exits_with(0);
    assert!(outcome.stdout.contains("events, times to "), "{}", outcome.stdout);
}

#[test]
fn one_bad_file_does_not_hide_the_others_nor_is_it_hidden() {
    let dir = Dir::new();
    dir.write("run.csv", bursts("write"));
    let outcome = dir.iotide(["detect", "missing.csv", "run.csv", "--format", "json"]).exits_with(2);
    let document = outcome.json();
    assert_eq!(document["runs"].as_array().unwrap().len(), 1);
    assert_eq!(document["failures"][0]["path"], "missing.csv");
    assert_eq!(outcome.stderr.matches("missing.csv").count(), 1, "{outcome:?}");
    let text = dir.iotide(["detect", "missing.csv", "run.csv"]).exits_with(2).stdout;
    assert!(text.contains("1 input could not be analysed:\n  missing.csv: "), "{text}");
}

#[test]
fn a_file_name_cannot_steer_the_terminal() {
    let dir = Dir::new();
    dir.write("a\x1b[31m.csv", bursts("write"));
    let good = dir.iotide(["detect", "a\x1b[31m.csv"]).exits_with(0);
    let bad = dir.iotide(["detect", "b\x1b[31m.csv"]).exits_with(2);
    assert!(!good.stdout.contains('\x1b') && !bad.stderr.contains('\x1b'), "{good:?} {bad:?}");
}

#[test]
fn a_reader_that_went_away_is_no_failure() {
    let dir = Dir::new();
    let mut child = (dir.command(["detect", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The program cannot answer before it has read everything, and by then nobody listens.
    drop(child.stdout.take());
    child.stdin.take().unwrap().write_all(bursts("write").as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), b"".as_slice()));
}

#[test]
fn options_that_the_method_does_not_have_are_named() {
    let dir = Dir::new();
    dir.write("run.csv", bursts("write"));
    let outcome =
        dir.iotide(["detect", "run.csv", "--tolerance", "0.5", "--outliers", "dbscan"]).exits_with(0);
    assert!(outcome.stderr.contains("--tolerance, --outliers: of `--method dft` only"), "{outcome:?}");
    let outcome = dir.iotide(["detect", "run.csv", "--method", "dft", "--tolerance", "0.5"]).exits_with(0);
    assert!(!outcome.stderr.contains("--tolerance"), "{outcome:?}");
}

#[test]
fn nothing_but_words_goes_to_a_pipe() {
    let dir = Dir::new();
    dir.write("run.csv", bursts("write"));
    let outcome = dir.iotide(["detect", "run.csv", "run.csv", "missing.csv"]).exits_with(2);
    assert!(!outcome.stdout.contains('\x1b') && !outcome.stderr.contains('\x1b'), "{outcome:?}");
    assert!(!outcome.stderr.contains('\r'), "{outcome:?}");
}

/// Metrics sampled every second for two minutes: time in MPI that is spent in the first two of every ten seconds, and a load that moves otherwise.
fn sampled_metrics() -> Vec<(u32, f64, f64)> {
    let mut mpi_s = 3.0;
    let sample = |t: u32| {
        mpi_s += if t % 10 < 2 { 0.4 } else { 0.0 };
        (t, mpi_s, if t % 15 < 3 { 8.0 } else { 0.5 })
    };
    (0..120).map(sample).collect()
}

fn period_of(outcome: &Outcome) -> f64 {
    let json: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    json["runs"][0]["period"]["period_s"].as_f64().unwrap_or_else(|| panic!("{json:#}"))
}

#[test]
fn phases_of_any_metric_by_name_in_files_of_the_proxy_and_of_prometheus() {
    let dir = Dir::new();
    let pairs = |value: &dyn Fn(&(u32, f64, f64)) -> String| -> String {
        let pairs: Vec<String> =
            sampled_metrics().iter().map(|of| format!("[{}, {}]", of.0, value(of))).collect();
        pairs.join(", ")
    };
    let (mpi, load) = (pairs(&|of| of.1.to_string()), pairs(&|of| of.2.to_string()));
    dir.write(
        "proxy.json",
        format!(r#"{{"metrics": {{"write_size": [[0, 1]], "mpi_time": [{mpi}], "load": [{load}]}}}}"#),
    );
    let (mpi, load) = (pairs(&|of| format!("\"{}\"", of.1)), pairs(&|of| format!("\"{}\"", of.2)));
    let series = |name: &str, values: &str| {
        format!(r#"{{"metric": {{"__name__": "{name}", "node": "n1"}}, "values": [{values}]}}"#)
    };
    dir.write(
        "prometheus.json",
        format!(
            r#"{{"status": "success", "data": {{"resultType": "matrix", "result": [{}, {}]}}}}"#,
            series("mpi_time", &mpi),
            series("load", &load)
        ),
    );
    for file in ["proxy.json", "prometheus.json"] {
        for (metric, expected_s) in [("mpi_time", 10.0), ("load", 15.0)] {
            let found = dir.iotide(["detect", "--metric", metric, "--format", "json", file]).exits_with(0);
            let period_s = period_of(&found);
            assert!((period_s - expected_s).abs() < 0.02 * expected_s, "{file} {metric}: {period_s}");
        }
        let mistaken = dir.iotide(["detect", "--metric", "mpitime", file]).exits_with(2);
        let complaint = mistaken.complaint();
        assert!(
            complaint.contains("no metric is called mpitime; there are") && complaint.contains("load"),
            "{complaint}"
        );
    }
    dir.write("run.csv", "start,end,bytes\n0,1,5\n");
    let none = dir.iotide(["detect", "--metric", "load", "run.csv"]).exits_with(2);
    assert!(none.complaint().contains("has no metrics by name"), "{}", none.complaint());
    let both = dir.iotide(["detect", "--job", "4711", "run.csv"]).exits_with(2);
    assert!(both.stderr.contains("cannot be used with"), "{}", both.stderr);
}
