//! The next ten minutes of the storage, as the daemon foretells them to programs and on the page of the load.

use std::process::Command;
use std::time::Duration;

use iotide_testkit::FreshDir;
use serde_json::{Value, json};

use super::{Daemon, IOTIDE, kill_all, record, unix_get};
use crate::sources::Job;

/// A job that the daemon sees and that moves nothing.
const RESTS: &str = ": > opened; sleep 1000; true";

fn forecast(dir: &FreshDir) -> Value {
    let (status, body) = unix_get(dir, "/api/1/forecast");
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

/// Asks until an answer is as it should be: jobs begin, move something and show a period in their own time.
fn until(dir: &FreshDir, is_there: impl Fn(&Value) -> bool) -> Value {
    loop {
        let answer = forecast(dir);
        if is_there(&answer) {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// The page, once the forecast of an answer is on it.
fn page_with(dir: &FreshDir, part: &str) -> String {
    loop {
        let (status, page) = unix_get(dir, "/load");
        assert_eq!(status, 200);
        if page.contains(part) {
            return page;
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn the_next_ten_minutes_of_a_periodic_job_have_bands_on_storage_that_was_measured() {
    let dir = FreshDir::new("forecast-periodic");
    let cells = [(1, 60.0), (4, 220.0), (16, 250.0)]
        .map(|(n, per_s)| json!({"n": n, "request_bytes": 4e6, "seconds": 10, "completions": per_s * 10.0}));
    let ladder = dir.write("ladder.json", json!({"cells": cells}).to_string());
    let options = ["--storage", ladder.to_str().unwrap()];
    let daemon = Daemon::start_with(&dir, Command::new(IOTIDE), &options);
    let idle = forecast(&dir);
    assert_eq!((&idle["reason"], &idle["state"]), (&json!("no job runs"), &json!([])));
    page_with(&dir, "Nothing can be foretold: no job runs.");

    let mut rests = record(&dir, "rests").args(["sh", "-c", RESTS]).spawn().unwrap();
    let resting = until(&dir, |answer| answer["n_jobs"] == 1);
    let reason = resting["reason"].as_str().unwrap();
    assert!(reason.starts_with("no job that runs has a period, and none moves anything now"), "{reason}");
    assert_eq!(resting["storage"]["source"], "file");

    // One that writes three files of a MiB each second, until it is dropped.
    let _job = Job::start(&dir, record(&dir, "beats"));
    while !daemon.job("beats", "running")["period_s"].is_number() {
        std::thread::sleep(Duration::from_millis(100));
    }
    let answer = until(&dir, |answer| answer["jobs"][0]["continues"] == "phases");
    let page = page_with(&dir, "forecast-bandwidth");
    kill_all(&mut rests);
    assert_eq!(answer["jobs"][0]["job"], "beats");
    assert_eq!((&answer["n_jobs"], &answer["n_foretold"]), (&json!(2), &json!(1)));
    assert_eq!((&answer["horizon_s"], &answer["confidence"]), (&json!(600.0), &json!(0.9)));
    assert_eq!((&answer["storage"]["source"], &answer["reason"]), (&json!("file"), &Value::Null));
    let state = answer["state"].as_array().unwrap();
    assert_eq!((state.len(), &state[59]["time_s"]), (60, &json!(600.0)));
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{answer:#}"));
    for step in state {
        for name in ["bandwidth_bps", "requests", "waiting"] {
            let Value::Array(band) = &step[name]["interval"] else { panic!("{step:#}") };
            assert!(number(&band[0]) <= number(&band[1]), "{step:#}");
        }
    }
    let bps = number(&answer["bandwidth_bps"]["mean"]);
    assert!((1e6..6e6).contains(&bps), "{bps}");
    assert!((number(&answer["jobs"][0]["bandwidth_bps"]) / bps - 1.0).abs() < 0.01, "{answer:#}");
    assert!(number(&answer["jobs"][0]["slowdown"]) > 0.0);
    for part in
        ["forecast-requests", "the band holds 90 % of them", "Storage as the setting storage describes it"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn what_is_not_known_of_jobs_and_storage_is_said() {
    let dir = FreshDir::new("forecast-unknown");
    let daemon = Daemon::start(&dir);
    let mut rests = record(&dir, "rests").args(["sh", "-c", RESTS]).spawn().unwrap();
    daemon.job("rests", "running");
    let unknown = until(&dir, |answer| answer["n_jobs"] == 1);
    assert_eq!(unknown["storage"], Value::Null);
    assert!(
        unknown["reason"].as_str().unwrap().starts_with("nothing is known of the storage"),
        "{unknown:#}"
    );
    page_with(&dir, "Nothing can be foretold: nothing is known of the storage");

    // One that moves something all the time continues so, whether it has a period or not.
    let script = "while :; do dd if=/dev/zero of=out bs=100000 count=$(($$ % 7 + 3)) status=none; done";
    let mut moves = record(&dir, "moves").args(["sh", "-c", script]).spawn().unwrap();
    let answer = until(&dir, |answer| answer["n_foretold"].as_u64() > Some(0));
    let page = page_with(&dir, "Assumed: storage as fast as the jobs that run were at their fastest");
    for child in [&mut rests, &mut moves] {
        kill_all(child);
    }
    let continues = |job: &str| {
        let jobs = answer["jobs"].as_array().unwrap();
        jobs.iter().find(|known| known["job"] == job).unwrap()["continues"].clone()
    };
    assert_eq!(continues("rests"), "unknown");
    assert!(["steady", "phases"].contains(&continues("moves").as_str().unwrap()), "{answer:#}");
    assert_eq!(answer["storage"]["at_least"], json!(["bandwidth_bps", "stream_bps"]));
    assert!(page.contains("move nothing now:") && page.contains("rests"), "{page}");
}

#[test]
fn storage_that_cannot_be_read_is_named_before_the_daemon_starts() {
    let dir = FreshDir::new("forecast-wrong");
    dir.write("ladder.json", r#"{"cells": []}"#);
    let settings = dir.write("serve.toml", "storage = \"ladder.json\"\n");
    let check = || {
        let mut command = Command::new(IOTIDE);
        command.args(["serve", "check", "--config"]).arg(&settings).current_dir(dir.path());
        for (option, name) in [("--socket", "socket"), ("--store", "store"), ("--pages", "pages")] {
            command.arg(option).arg(dir.join(name));
        }
        command.output().unwrap()
    };
    let refused = check();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("ladder.json") && said.contains("cells is empty"), "{said}");
    dir.write(
        "ladder.json",
        r#"{"storage": {"targets": [{"bandwidth_bps": 1e9}]}, "templates": [{"requests": 1, "request_bytes": 5}]}"#,
    );
    let checked = check();
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(checked.status.success() && said.contains("ladder.json"), "{checked:?}");
}
