use serde_json::{Value, json};

use crate::util::{Dir, Outcome, bursts};

/// Returns the answer of `detect --method dft` for a table.
#[track_caller]
fn dft(dir: &Dir, options: &[&str], status: i32) -> Value {
    let mut command = dir.command(["detect", "--method", "dft", "--format", "json", "run.csv"]);
    let outcome = Outcome::of(command.args(options).output().unwrap()).exits_with(status);
    outcome.json()["runs"][0].clone()
}

#[test]
fn a_window_is_taken_as_it_was_given_with_the_silence_at_its_ends() {
    let dir = Dir::new();
    dir.write("run.csv", bursts("write"));
    let run = dft(&dir, &["--window", "0:50"], 0);
    assert_eq!(run["settings"]["window_s"], json!([0.0, 50.0]));
    assert_eq!(run["settings"]["n_samples"], 500);
    assert_eq!(run["period"]["period_s"], 5.0);
    let cut = dft(&dir, &["--window", "0:50", "--as-ftio"], 0);
    assert_eq!(cut["settings"]["window_s"], json!([0.0, 46.0]));
    assert_eq!(dft(&dir, &[], 0)["settings"]["window_s"], json!([0.0, 46.0]));
    dir.write("run.csv", format!("# runtime_s=50\n{}", bursts("write")));
    assert_eq!(dft(&dir, &[], 0)["settings"]["window_s"], json!([0.0, 50.0]));
}

#[test]
fn samples_that_misstate_the_signal_leave_the_answer_unclear() {
    let dir = Dir::new();
    let rows: String = (0..60).map(|i| format!("0,write,{i},{i}.01,1000000\n")).collect();
    dir.write("run.csv", format!("rank,op,start,end,bytes\n{rows}"));
    let run = dft(&dir, &[], 1);
    assert_eq!(
        (&run["period"]["verdict"], &run["period"]["reason"]),
        (&json!("unclear"), &json!("poor_samples"))
    );
    assert_eq!(run["period"]["period_s"], Value::Null);
    assert!(!run["period"]["candidates"].as_array().unwrap().is_empty(), "{run}");
    assert!(run["settings"]["signal_error"].as_f64().unwrap() > 5.0, "{run}");
    let words = dir.iotide(["detect", "--method", "dft", "run.csv"]).exits_with(1).stdout;
    assert!(words.starts_with("run.csv: unclear: the samples misstate the signal by"), "{words}");
    dft(&dir, &["--as-ftio"], 0);
    // Two samples for the shortest step of 10 ms.
    let fine = dft(&dir, &["--freq", "auto"], 0);
    assert!((fine["settings"]["sample_rate_hz"].as_f64().unwrap() - 200.0).abs() < 1e-3, "{fine}");
    assert!((fine["period"]["period_s"].as_f64().unwrap() - 1.0).abs() < 0.01, "{fine}");
}

#[test]
fn harmonics_are_listed_and_bursts_are_said() {
    let dir = Dir::new();
    dir.write("run.csv", bursts("write"));
    let run = dft(&dir, &["--window", "0:50", "--tolerance", "0.5"], 0);
    let harmonics = run["period"]["harmonics"].as_array().unwrap();
    assert_eq!((&harmonics[0]["multiple"], &harmonics[0]["dropped"]), (&json!(2), &json!(true)), "{run}");
    assert!(harmonics[0]["power_share"].as_f64().unwrap() > 0.1, "{run}");
    assert_eq!(run["period"]["bursts"], true);
    let mut command = dir.command(["detect", "--method", "dft", "--window", "0:50", "run.csv"]);
    let words = Outcome::of(command.output().unwrap()).exits_with(0).stdout;
    assert!(words.contains("the I/O comes in bursts"), "{words}");
    let page = dir.command(["report", "--method", "dft", "--window", "0:50", "run.csv"]).output().unwrap();
    assert!(page.status.success(), "{page:?}");
    assert!(dir.read("report.html").contains("the I/O comes in bursts"));
}

#[test]
fn every_option_of_the_paper_is_taken_and_told() {
    let dir = Dir::new();
    dir.write("run.csv", bursts("write"));
    let options =
        ["--freq", "2", "--outliers", "zscore,peaks", "--harmonics", "two", "--substantial", "2MB/s"];
    let run = dft(&dir, &options, 0);
    let settings = &run["settings"];
    assert_eq!((&settings["outliers"], &settings["harmonics"]), (&json!("zscore,peaks"), &json!("two")));
    assert_eq!((&settings["substantial_bps"], &settings["as_ftio"]), (&json!(2e6), &json!(false)));
    assert_eq!(run["scores"]["io_time_ratio"], 0.0); // no burst is above 2 MB/s
    assert_eq!(run["period"]["bytes_per_phase"], Value::Null);
    assert_eq!(dft(&dir, &[], 0)["period"]["bytes_per_phase"], 1_000_000);
}

#[test]
fn a_heatmap_is_sampled_once_a_bin() {
    let Some(log) = iotide_testkit::shared_data("traces/darshan/e3sm_io_heatmap_only.darshan") else {
        return;
    };
    let dir = Dir::new();
    for options in [&[][..], &["--freq", "auto"]] {
        let mut command = dir.command(["detect", "--method", "dft", "--format", "json"]);
        let outcome = Outcome::of(command.args(options).arg(&log).output().unwrap()).exits_with(0);
        let run = &outcome.json()["runs"][0];
        assert_eq!(run["settings"]["sample_rate_hz"], 0.15625, "{run}"); // bins of 6.4 s
        // The run ends within the last bin, to the nanosecond.
        assert!(run["settings"]["signal_error"].as_f64().unwrap() < 1e-6, "{run}");
        assert!(run["period"]["confidence"].as_f64().unwrap() > 0.99, "{run}");
    }
}
