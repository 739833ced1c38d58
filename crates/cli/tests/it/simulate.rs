use crate::util::{Dir, Outcome};

pub const JOBS: &str = r#"{"bandwidth_bps": 100e6, "frame_s": [100, 2000], "jobs": [
    {"name": "often", "compute_s": 9, "io_bytes": 1e8},
    {"name": "seldom", "count": 3, "compute_s": 90, "io_bytes": 2e9}]}"#;

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn policies_stand_side_by_side() {
    let dir = Dir::new();
    dir.write("jobs.json", JOBS);
    let told = dir
        .iotide([
            "simulate",
            "io",
            "jobs.json",
            "--model",
            "fluid",
            "--policies",
            "fair-share,exclusive,set10",
        ])
        .exits_with(0);
    insta::assert_snapshot!(told.stdout, @r"
    jobs.json: 4 jobs on 100 MB/s, wanting 65 % of its time; measured from 100 s to 33 min 20 s,
    10 repetitions with seed 0

    ideal: fluid model, in a set the first come goes first, jobs without a prediction in one set
      policy           max stretch     mean stretch    I/O slowdown    utilisation
      fair-share       1.43            1.34            2.92            63 %
      exclusive        1.61 (+13 %)    1.13 (−15 %)    1.69 (−42 %)    75 % (+19 %)
      set10            1.04 (−27 %)    1.02 (−24 %)    1.13 (−61 %)    82 % (+30 %)
      medians; in brackets the change against fair-share
    ");
}

#[test]
fn scripts_get_the_numbers_of_every_model_and_policy() {
    let dir = Dir::new();
    dir.write("jobs.json", JOBS);
    let args =
        ["simulate", "io", "jobs.json", "--format", "json", "--repetitions", "2", "--request-size", "4M"];
    let answer = json(&dir.iotide(args).exits_with(0).stdout);
    let policies = answer["policies"].as_array().unwrap();
    let names: Vec<&str> = policies.iter().map(|entry| entry["policy"].as_str().unwrap()).collect();
    let each = ["none", "fair-share", "exclusive", "equal-sets", "set10", "set10-predicted", "set10-error"];
    assert_eq!(names, [each, each].concat());
    assert_eq!(answer["scenarios"].as_array().unwrap().len(), 2);
    for entry in policies {
        assert!(entry["max_stretch"].as_f64().unwrap() >= entry["geomean_stretch"].as_f64().unwrap());
        assert!(entry["io_slowdown"].as_f64().unwrap() >= 0.99, "{entry}");
        assert!((0.0..=1.0).contains(&entry["utilization"].as_f64().unwrap()));
        assert_eq!(entry["jobs"].as_array().unwrap().len(), 4);
        assert!(entry["published"].is_null(), "nothing was published of this workload");
    }
    assert_eq!(answer, json(&dir.iotide(args).exits_with(0).stdout), "a run is its inputs");
}

#[test]
fn the_reports_workload_stands_beside_what_was_published() {
    let args = ["simulate", "io", "rr9537", "--model", "fluid", "--format", "json"];
    let answer = json(&Dir::new().iotide(args).exits_with(0).stdout);
    let set10 =
        answer["policies"].as_array().unwrap().iter().find(|entry| entry["policy"] == "set10").unwrap();
    assert_eq!(answer["repetitions"], 10);
    assert_eq!(set10["published"]["io_slowdown"], -0.63);
    // An ideal storage overshoots.
    let change = |name: &str| set10["change"][name].as_f64().unwrap();
    for (name, expected) in
        [("max_stretch", -0.38), ("geomean_stretch", -0.38), ("io_slowdown", -0.85), ("utilization", 0.60)]
    {
        assert!((change(name) - expected).abs() < 0.03, "{name}: {}", change(name));
    }
}

#[test]
fn a_page_and_pictures_come_on_request() {
    let dir = Dir::new();
    dir.write("jobs.json", JOBS);
    let page = ["simulate", "io", "jobs.json", "--model", "fluid", "-o", "page.html", "--svg", "pictures"];
    assert_eq!(dir.iotide(page).exits_with(0).stdout, "");
    assert_eq!(dir.read("page.html").matches("<svg").count(), 8);
    assert!(dir.read("pictures/0-ideal-set10.svg").contains("bandwidth of each job"));
}

#[test]
fn mixes_are_generated() {
    let args = [
        "simulate",
        "io",
        "mix",
        "--jobs",
        "12",
        "--load",
        "0.7",
        "--model",
        "fluid",
        "--repetitions",
        "1",
        "--format",
        "json",
    ];
    let answer = json(&Dir::new().iotide(args).exits_with(0).stdout);
    assert_eq!(answer["workload"]["n_jobs"], 12);
    assert!((answer["workload"]["load"].as_f64().unwrap() - 0.7).abs() < 1e-9);
}

#[test]
fn traces_become_jobs() {
    let dir = Dir::new();
    let bursts: String = (0..30).map(|i| format!("0,write,{},{},5000000\n", i * 10, i * 10 + 2)).collect();
    dir.write("app.csv", format!("rank,op,start,end,bytes\n{bursts}"));
    dir.write("once.csv", "rank,op,start,end,bytes\n0,write,0,1,100\n");
    let args = [
        "simulate",
        "io",
        "--from-traces",
        "app.csv",
        "once.csv",
        "--copies",
        "3",
        "--model",
        "fluid",
        "--format",
        "json",
    ];
    let told = dir.iotide(args).exits_with(0);
    assert_eq!(told.stderr, "once.csv: no period, left out\n");
    let answer = json(&told.stdout);
    assert_eq!(answer["workload"]["n_jobs"], 3);
    // 2.5 MB/s for two of ten seconds, three times.
    assert!((answer["workload"]["load"].as_f64().unwrap() - 0.6).abs() < 0.05, "{}", answer["workload"]);
    dir.iotide(["simulate", "io", "--from-traces", "once.csv"]).exits_with(1);
}

#[test]
fn what_is_wrong_with_a_workload_is_said() {
    let dir = Dir::new();
    dir.write("jobs.json", JOBS.replace("compute_s", "compute"));
    let told = dir.iotide(["simulate", "io", "jobs.json"]).exits_with(2);
    insta::assert_snapshot!(told.stderr, @r#"
    iotide: jobs.json: jobs[0] has an unknown field "compute"; there are name, count, compute_s, io_bytes, iterations, start_s, jitter
    hint: docs/scheduling.md says how a workload is written
    "#);
    let told = dir.iotide(["simulate", "io", "none.json"]).exits_with(2);
    assert!(
        told.stderr.contains("cannot read none.json") && told.stderr.contains("hint: "),
        "{}",
        told.stderr
    );
    let told = dir.iotide(["simulate", "io", "report", "--policies", "set11"]).exits_with(2);
    assert!(told.stderr.contains("known policies are none, fair-share"), "{}", told.stderr);
    let told = dir.iotide(["simulate", "io", "report", "--leak", "1"]).exits_with(2);
    assert!(told.stderr.contains("leak is 1, but must be 0 or more and below 1"), "{}", told.stderr);
    let refused = |args: &[&str], fault: &str| {
        let told = Outcome::of(dir.command(["simulate", "io"]).args(args).output().unwrap()).exits_with(2);
        assert!(told.stderr.starts_with(&format!("iotide: {fault}")), "{}", told.stderr);
    };
    refused(
        &["report", "--error", "nan"],
        "the error of predictions is NaN, but must be 0 or more and below 1",
    );
    refused(&["report", "--error", "1"], "the error of predictions is 1, but");
    refused(&["report", "--timeout", "nan"], "--timeout NaN is not a number of seconds");
    refused(&["report", "--copies", "2"], "--copies is about --from-traces");
    refused(&["mix", "--iterations", "0"], "--iterations 0 leaves nothing to do");
    for copies in ["0", "99999999999"] {
        refused(
            &["--from-traces", "a.csv", "--copies", copies],
            &format!("--copies {copies} makes no job, or"),
        );
    }
}

#[test]
fn what_cannot_be_compared_is_not_a_number_and_stdin_and_stdout_have_names() {
    let dir = Dir::new();
    // Nobody does anything in the frame: there is no share to be changed.
    let late = JOBS.replace("\"compute_s\"", "\"start_s\": 1e6, \"compute_s\"");
    let args = ["simulate", "io", "-", "--model", "fluid", "--policies", "none,set10", "-o", "-"];
    let told = dir.iotide_reading(&late, args).exits_with(0);
    assert!(told.stdout.starts_with("stdin: 4 jobs"), "{}", told.stdout);
    assert!(!told.stdout.contains("NaN"), "{}", told.stdout);
    assert!(!dir.path().join("-").exists());
}
