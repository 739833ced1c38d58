//! `[act]` of `iotide serve`: decisions, and what is left of them when the daemon ends, is killed, or is asked to stop.

use std::process::{Command, Stdio};
use std::time::Duration;

use iotide_testkit::FreshDir;
use serde_json::Value;

use crate::serve::{Daemon, IOTIDE, record};
use crate::sources::{Job, Running};

/// Settings with a rule for an arbiter that knows of no periods itself; any decision that does not hurt is taken.
pub(crate) fn settings(dir: &FreshDir, dry_run: bool) {
    dir.write(
        "serve.toml",
        format!(
            "[act]\ndry_run = {dry_run}\nevery = \"200ms\"\n[[act.rule]]\nname = \"scratch\"\nactor = \"sets\"\ncontrol = \"{}\"\nbandwidth = \"100MB\"\nleast_gain = 0\n",
            dir.join("control").display()
        ),
    );
}

pub(crate) fn acting(dir: &FreshDir) -> Daemon<'_> {
    let config = dir.join("serve.toml").display().to_string();
    Daemon::start_with(dir, Command::new(IOTIDE), &["--config", &config])
}

pub(crate) fn arbiter(dir: &FreshDir) -> Running {
    dir.write("periods.json", "{}");
    let mut command = Command::new(IOTIDE);
    let gate = format!("unix:{}", dir.join("gate").display());
    command
        .args(["arbiter", &gate, "--control", "control", "--periods", "periods.json"])
        .current_dir(dir.path());
    let arbiter = Running::start(&mut command);
    arbiter.until("listening");
    arbiter
}

pub(crate) fn job(dir: &FreshDir) -> Job {
    let mut command = record(dir, "4711");
    command.env("IOTIDE_GATE", format!("unix:{}", dir.join("gate").display()));
    Job::start(dir, command)
}

/// Returns the output of `iotide decisions`.
pub(crate) fn decisions(dir: &FreshDir) -> Value {
    let mut command = Command::new(IOTIDE);
    command.args(["decisions", "--format", "json"]).env("IOTIDE_DAEMON", dir.join("socket"));
    let output = command.stderr(Stdio::null()).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}

/// Waits until the latest decision is in a state.
pub(crate) fn until_decided(dir: &FreshDir, state: &str) -> Value {
    loop {
        let list = decisions(dir);
        let latest = &list["decisions"][0];
        if latest["state"] == state {
            return latest.clone();
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Waits until the arbiter was given the period of the job, or has none any more.
pub(crate) fn until_given(dir: &FreshDir, is_given: bool) {
    loop {
        let mut show = Command::new(IOTIDE);
        let shown =
            show.args(["sets", "show", "control", "--format", "json"]).current_dir(dir.path()).output();
        let shown: Value = serde_json::from_slice(&shown.unwrap().stdout).unwrap();
        if (shown["runs"][0]["jobs"][0]["period_source"] == "given") == is_given {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// `iotide sets show` of the daemon, by each of its names: the job as the daemon knows it, and the arbiter that its rule acts on.
fn shows_all(dir: &FreshDir) {
    let socket = dir.join("socket").display().to_string();
    let control = dir.join("control").display().to_string();
    let show = |words: &[&str]| {
        let mut show = Command::new(IOTIDE);
        show.args(["sets", "show"]).args(words).env("IOTIDE_DAEMON", &socket).output().unwrap()
    };
    for name in ["daemon", &format!("daemon:{socket}"), &socket] {
        let shown: Value = serde_json::from_slice(&show(&[name, "--format", "json"]).stdout).unwrap();
        let daemon = &shown["runs"][0];
        assert_eq!(daemon["source"], format!("the daemon at {socket}").as_str(), "{shown}");
        assert_eq!(daemon["targets"][0], serde_json::json!({"control": control, "rules": ["scratch"]}));
        let job = &daemon["jobs"][0];
        assert_eq!((&job["job"], &job["set"]), (&"4711".into(), &"0".into()), "{shown}");
        assert!(job["period_s"].is_f64() && job["confidence"].as_f64() > Some(0.5), "{shown}");
        let target = &shown["runs"][1];
        assert_eq!(
            (&target["control"], &target["jobs"][0]["job"]),
            (&control.as_str().into(), &"4711".into())
        );
    }
    let text = String::from_utf8(show(&["daemon"]).stdout).unwrap();
    assert!(text.contains(&format!("target {control} (rule scratch)")), "{text}");
    assert!(text.contains("set: order of magnitude"), "{text}");
}

#[test]
fn a_daemon_that_acts_gives_periods_takes_them_back_and_leaves_nothing_when_it_is_killed() {
    let dir = FreshDir::new("act");
    let _arbiter = arbiter(&dir);
    settings(&dir, false);
    let daemon = acting(&dir);
    let _job = job(&dir);
    let taken = until_decided(&dir, "standing");
    assert_eq!(taken["jobs"][0], "4711");
    assert!(taken["change"].as_str().unwrap().starts_with("period of 4711: none → "), "{taken}");
    assert!(taken["evidence"][0].as_str().unwrap().contains("confidence"), "{taken}");
    assert_eq!(taken["expected"]["quantity"], "io_time");
    until_given(&dir, true);
    shows_all(&dir);
    // Somebody wants it otherwise.
    let wish = |words: &[&str]| {
        let mut command = Command::new(IOTIDE);
        command.arg("decisions").args(words).env("IOTIDE_DAEMON", dir.join("socket"));
        command.stderr(Stdio::null()).status().unwrap().code()
    };
    assert_eq!(wish(&["undo", "4711"]), Some(2), "there is no such decision");
    assert_eq!(wish(&["stop", "nothing"]), Some(2));
    assert_eq!(wish(&["stop", "scratch"]), Some(0));
    let undone = until_decided(&dir, "undone");
    assert_eq!(undone["reason"], "somebody asked for it");
    until_given(&dir, false);
    assert_eq!(wish(&["resume", "scratch"]), Some(0));
    until_decided(&dir, "standing");
    until_given(&dir, true);
    // Killed, it can take nothing back; what it lent runs out.
    daemon.kill();
    until_given(&dir, false);
    // The next one knows what became of it, and goes on.
    let daemon = acting(&dir);
    let list = decisions(&dir);
    assert_eq!(list["decisions"][0]["state"], "over", "{list}");
    until_decided(&dir, "standing");
    until_given(&dir, true);
    // Asked to end, it takes back what it did.
    daemon.stop();
    let mut show = Command::new(IOTIDE);
    let shown =
        show.args(["sets", "show", "control", "--format", "json"]).current_dir(dir.path()).output().unwrap();
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["runs"][0]["jobs"][0]["period_source"], Value::Null, "{shown}");
}

#[test]
fn a_dry_run_decides_and_does_nothing_and_an_arbiter_that_is_away_is_named() {
    let dir = FreshDir::new("act-dry");
    settings(&dir, true);
    let _daemon = acting(&dir);
    let away = loop {
        let list = decisions(&dir);
        if let Some(trouble) = list["rules"][0]["trouble"].as_str() {
            break trouble.to_owned();
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(away.contains("cannot connect to"), "{away}");
    // What the daemon knows is shown all the same.
    let mut show = Command::new(IOTIDE);
    show.args(["sets", "show", "daemon"]).env("IOTIDE_DAEMON", dir.join("socket"));
    let shown = show.output().unwrap();
    assert_eq!(shown.status.code(), Some(2), "{shown:?}");
    assert!(String::from_utf8_lossy(&shown.stdout).contains("no job runs that it knows"), "{shown:?}");
    assert!(String::from_utf8_lossy(&shown.stderr).contains("cannot connect to"), "{shown:?}");
    let _arbiter = arbiter(&dir);
    let _job = job(&dir);
    until_decided(&dir, "dry run");
    assert_eq!(decisions(&dir)["rules"][0]["trouble"], Value::Null);
    let mut show = Command::new(IOTIDE);
    let shown =
        show.args(["sets", "show", "control", "--format", "json"]).current_dir(dir.path()).output().unwrap();
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["runs"][0]["jobs"][0]["period_source"], Value::Null, "{shown}");
}
