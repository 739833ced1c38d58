//! `iotide why --job` and the daemon: the run, earlier runs of its application, and the load of all jobs.

use super::*;

/// Runs a program three times for a second or two; each time it writes a megabyte.
fn run_jobs(dir: &FreshDir) {
    for id in ["run1", "run2", "run3"] {
        let script =
            "for n in 1 2 3 4 5; do dd if=/dev/zero of=out bs=20000 count=10 status=none; sleep 0.3; done";
        assert!(record(dir, id).args(["sh", "-c", script]).status().unwrap().success());
    }
}

fn why(dir: &FreshDir, args: &[&str]) -> (Option<i32>, Value) {
    let output = ask(dir, &[&["why", "--format", "json"], args].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or(Value::String(said)))
}

#[test]
fn a_job_is_compared_with_earlier_ones_by_counters_alone() {
    let dir = FreshDir::new("serve-why");
    let daemon = Daemon::start(&dir);
    run_jobs(&dir);
    let job = daemon.job("run3", "ended");
    // The last sample of a job is written soon after its end.
    let json = loop {
        let (status, json) = why(&dir, &["--job", "run3"]);
        assert!(matches!(status, Some(0 | 1)), "{json}");
        let source = &json["runs"][0]["source"];
        if source["bytes_written"].as_f64() == job["io"]["bytes_written"].as_f64()
            && json["runs"][0]["why"]["n_history"] == 2
        {
            break json;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let run = &json["runs"][0];
    assert_eq!((&run["source"]["path"], &run["source"]["format"]), (&"job run3".into(), &"counters".into()));
    let evidence = run["why"]["evidence"].as_array().unwrap();
    assert!(evidence.iter().any(|one| one["kind"] == "load_source"), "{run:#}");
    assert!(run["why"]["slowdown"]["factor"].as_f64().unwrap() > 0.0, "{run:#}");
    let losses = run["losses"].to_string();
    assert!(losses.contains("sums over processes"), "{losses}");

    // The daemon says the same by the same comparison: over HTTP, on the page of the job, and in short.
    let (_, body) = unix_get(&dir, "/api/1/jobs/run3/why");
    let same: Value = serde_json::from_str(&body).unwrap();
    for of in ["verdict", "slowdown", "parts", "phases", "n_history", "usual_until"] {
        assert_eq!(same["runs"][0]["why"][of], run["why"][of], "{of}: {same:#} and {run:#}");
    }
    assert_eq!(same["runs"][0]["source"]["bytes_written"], run["source"]["bytes_written"]);
    let (_, page) = unix_get(&dir, "/jobs/run3");
    let factor = run["why"]["slowdown"]["factor"].as_f64().unwrap();
    assert!(page.contains("Was it slow, and why?") && page.contains("Earlier runs of the program"));
    assert!(page.contains(&format!("{factor:.2}")[..3]), "{factor} is not on the page");
    let short: Value =
        serde_json::from_slice(&ask(&dir, &["job", "run3", "--format", "json"]).stdout).unwrap();
    assert_eq!((&short["why"]["verdict"], &short["why"]["n_history"]), (&run["why"]["verdict"], &2.into()));
    let text = ask(&dir, &["job", "run3"]).stdout;
    assert!(String::from_utf8_lossy(&text).contains("Beside earlier runs\n  verdict"), "{short:#}");

    // The first has nothing before it.
    let (status, json) = why(&dir, &["--job", "run1"]);
    assert_eq!((status, &json["runs"][0]["why"]["n_history"]), (Some(1), &0.into()), "{json:#}");
    // A trace beside the load of the daemon: by its name, by its socket.
    dir.write("run.csv", "# start_time=1700000000\nrank,op,start,end,bytes\n0,write,0,1,5\n0,write,9,10,5\n");
    let trace = dir.join("run.csv").display().to_string();
    let by_socket = format!("daemon:{}", dir.join("socket").display());
    for storage in ["daemon", &by_socket] {
        let (status, json) = why(&dir, &[&trace, "--storage", storage]);
        assert_eq!((status, &json["runs"][0]["why"]["verdict"]), (Some(1), &"unknown".into()), "{json:#}");
    }
    let (status, said) = why(&dir, &["--job", "nobody"]);
    assert_eq!(status, Some(2));
    assert!(said.as_str().unwrap().contains("no job nobody is known"), "{said}");
}
