//! Telling a system again and again. There is no Lustre here: a `lctl` of our own notes how it is called.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::util::{Dir, Outcome};

/// Notes each call, then does what `what` says.
fn lctl(dir: &Dir, what: &str) {
    std::fs::create_dir(dir.path().join("bin")).unwrap();
    lctl_again(dir, what);
}

fn lctl_again(dir: &Dir, what: &str) {
    dir.write("bin/lctl", format!("#!/bin/sh\necho \"$*\" >> calls\n{what}\n"));
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(dir.path().join("bin/lctl"), mode).unwrap();
}

fn command<const N: usize>(dir: &Dir, args: [&str; N]) -> Command {
    let mut command = dir.command(args);
    command.env("PATH", format!("{}/bin:/usr/bin:/bin", dir.path().display()));
    command
}

fn run<const N: usize>(dir: &Dir, args: [&str; N]) -> Outcome {
    Outcome::of(command(dir, args).output().unwrap())
}

/// Returns the arguments of the calls of `lctl`, without their common part.
fn told(dir: &Dir) -> String {
    dir.read("calls").replace("set_param ost.OSS.ost_io.nrs_", "")
}

/// Job 1 sends nothing; job 2 more and more.
const COUNTERS: &str = r#"case "$1" in get_param)
    n=$(cat n 2>/dev/null || echo 0); n=$((n + 1)); echo $n > n
    echo "job_stats:"
    echo "- job_id:          1"
    echo "  write_bytes:     { samples: 5, unit: bytes }"
    echo "- job_id:          2"
    echo "  write_bytes:     { samples: ${n}000000000, unit: bytes }" ;;
esac"#;

const TWO: &str = "job,period_s\n1,10\n2,100\n";

#[test]
fn what_an_idle_job_leaves_the_other_gets_and_all_is_taken_back() {
    let dir = Dir::new();
    dir.write("jobs.csv", TWO);
    lctl(&dir, COUNTERS);
    run(
        &dir,
        [
            "sets",
            "apply",
            "jobs.csv",
            "--controller",
            "lustre-tbf",
            "--capacity",
            "1100",
            "--interval",
            "10ms",
            "--rounds",
            "3",
        ],
    )
    .exits_with(0);
    insta::assert_snapshot!(told(&dir), @r"
    get_param -n ost.OSS.ost_io.nrs_policies
    get_param -n obdfilter.*.job_stats
    policies=tbf jobid
    tbf_rule=start iotide1 jobid={1} rate=992
    tbf_rule=start iotide2 jobid={2} rate=108
    get_param -n obdfilter.*.job_stats
    tbf_rule=change iotide1 rate=10
    tbf_rule=change iotide2 rate=1090
    get_param -n obdfilter.*.job_stats
    tbf_rule=stop iotide1
    tbf_rule=stop iotide2
    policies=fifo
    ");
}

#[test]
fn a_dry_run_runs_nothing() {
    let dir = Dir::new();
    dir.write("jobs.csv", TWO);
    lctl(&dir, COUNTERS);
    let shown =
        run(&dir, ["sets", "apply", "jobs.csv", "--controller", "lustre-tbf", "--dry-run", "--rounds", "1"])
            .exits_with(0);
    insta::assert_snapshot!(shown.stdout, @r"
    lctl set_param 'ost.OSS.ost_io.nrs_policies=tbf jobid'
    lctl set_param 'ost.OSS.ost_io.nrs_tbf_rule=start iotide1 jobid={1} rate=9083'
    lctl set_param 'ost.OSS.ost_io.nrs_tbf_rule=start iotide2 jobid={2} rate=917'
    lctl set_param 'ost.OSS.ost_io.nrs_tbf_rule=stop iotide1'
    lctl set_param 'ost.OSS.ost_io.nrs_tbf_rule=stop iotide2'
    lctl set_param ost.OSS.ost_io.nrs_policies=fifo
    ");
    assert!(!dir.path().join("calls").exists());
}

#[test]
fn a_rule_that_fails_is_tried_under_another_name() {
    let dir = Dir::new();
    dir.write("jobs.csv", "job,period_s\n1,10\n");
    // As if an earlier run had left its first rule behind.
    lctl(&dir, r#"case "$*" in *"start iotide1 "*) echo "File exists" >&2; exit 17 ;; esac"#);
    let done = run(
        &dir,
        ["sets", "apply", "jobs.csv", "--controller", "lustre-tbf", "--interval", "10ms", "--rounds", "2"],
    )
    .exits_with(0);
    assert!(done.stderr.contains("lctl failed: exit status: 17"), "{}", done.stderr);
    insta::assert_snapshot!(told(&dir), @r"
    get_param -n ost.OSS.ost_io.nrs_policies
    get_param -n obdfilter.*.job_stats
    policies=tbf jobid
    tbf_rule=start iotide1 jobid={1} rate=10000
    get_param -n obdfilter.*.job_stats
    tbf_rule=stop iotide1
    tbf_rule=start iotide2 jobid={1} rate=10
    tbf_rule=stop iotide2
    policies=fifo
    ");
}

#[test]
fn a_program_that_hangs_is_ended_and_what_is_left_is_named() {
    let dir = Dir::new();
    dir.write("jobs.csv", TWO);
    lctl(&dir, r#"case "$1" in set_param) exec sleep 600 ;; esac"#);
    let hung = run(
        &dir,
        ["sets", "apply", "jobs.csv", "--controller", "lustre-tbf", "--timeout", "200ms", "--rounds", "1"],
    )
    .exits_with(2);
    insta::assert_snapshot!(hung.stderr, @r"
    the server does not say which policy it uses; fifo will be set in the end
    2 jobs, 3 to do
    lctl set_param 'ost.OSS.ost_io.nrs_policies=tbf jobid': lctl did not end within 0.2 s
    lctl set_param 'ost.OSS.ost_io.nrs_tbf_rule=stop iotide1': lctl did not end within 0.2 s
    this could not be taken back:
      lctl set_param 'ost.OSS.ost_io.nrs_tbf_rule=stop iotide1'
      lctl set_param 'ost.OSS.ost_io.nrs_tbf_rule=stop iotide2'
    ");
}

#[test]
fn without_lctl_nothing_is_begun() {
    let dir = Dir::new();
    dir.write("jobs.csv", TWO);
    let failed = dir.iotide(["sets", "apply", "jobs.csv", "--controller", "lustre-tbf"]).exits_with(2);
    assert!(
        failed.stderr.contains("iotide: cannot see what jobs send: cannot start lctl: "),
        "{}",
        failed.stderr
    );
    let failed = dir.iotide(["sets", "apply", "none.csv", "--controller", "configfs"]).exits_with(2);
    assert!(failed.stderr.starts_with("iotide: cannot read none.csv: "), "{}", failed.stderr);
}

#[test]
fn a_control_socket_says_who_is_active_and_a_signal_takes_all_back() {
    let dir = Dir::new();
    lctl(&dir, "");
    let listener = UnixListener::bind(dir.path().join("control")).unwrap();
    thread::spawn(move || {
        for caller in listener.incoming() {
            let mut caller = caller.unwrap();
            BufReader::new(caller.try_clone().unwrap()).read_line(&mut String::new()).unwrap();
            let job = |name, share| {
                format!(
                    "{{\"job\":\"{name}\",\"period_s\":10,\"period_source\":\"given\",\"set\":\"1\",\"share\":{share},\
                     \"bandwidth_bps\":1e12,\"bytes\":1,\"waiting\":0,\"phases\":1}}"
                )
            };
            let jobs = [job("busy", "1"), job("idle", "null"), job("../odd", "1")].join(",");
            caller.write_all(format!("{{\"policy\":\"set10\",\"jobs\":[{jobs}]}}\n").as_bytes()).unwrap();
        }
    });
    let mut child =
        command(&dir, ["sets", "apply", "control", "--controller", "lustre-tbf", "--interval", "1h"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let started: Vec<String> = lines.by_ref().map(Result::unwrap).take(3).collect();
    // A deed is said before it is done, and what a signal finds half done is ended.
    let began = Instant::now();
    while told(&dir).lines().count() < 4 && began.elapsed() < Duration::from_secs(20) {
        thread::sleep(Duration::from_millis(5));
    }
    let kill = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let stopped: Vec<String> = lines.map(Result::unwrap).collect();
    let ended = Outcome::of(child.wait_with_output().unwrap()).exits_with(0);
    assert!(ended.stderr.contains("job \"../odd\" is left alone"), "{}", ended.stderr);
    assert_eq!(started.len() + stopped.len(), 6, "{started:?} {stopped:?}");
    insta::assert_snapshot!(told(&dir), @r"
    get_param -n ost.OSS.ost_io.nrs_policies
    policies=tbf jobid
    tbf_rule=start iotide1 jobid={busy} rate=9990
    tbf_rule=start iotide2 jobid={idle} rate=10
    tbf_rule=stop iotide1
    tbf_rule=stop iotide2
    policies=fifo
    ");
}

#[test]
fn priorities_follow_the_table_and_go_with_us() {
    let dir = Dir::new();
    dir.write("jobs.csv", TWO);
    std::fs::create_dir(dir.path().join("iosets")).unwrap();
    let done = dir
        .iotide([
            "sets",
            "apply",
            "jobs.csv",
            "--controller",
            "configfs",
            "--root",
            "iosets",
            "--interval",
            "10ms",
            "--rounds",
            "2",
        ])
        .exits_with(0);
    insta::assert_snapshot!(done.stdout, @r"
    mkdir iosets/1
    echo 100000 > iosets/1/priority
    mkdir iosets/2
    echo 10000 > iosets/2/priority
    rmdir iosets/1
    rmdir iosets/2
    ");
    assert_eq!(std::fs::read_dir(dir.path().join("iosets")).unwrap().count(), 0);
}

#[test]
fn what_a_program_leaves_running_is_not_waited_for() {
    let dir = Dir::new();
    dir.write("jobs.csv", TWO);
    // It ends at once, but what it started keeps its output open. (Not that for errors, which is ours, too.)
    lctl(&dir, r#"case "$1" in set_param) sleep 20 2>/dev/null & ;; esac"#);
    let began = std::time::Instant::now();
    run(&dir, ["sets", "apply", "jobs.csv", "--controller", "lustre-tbf", "--rounds", "1"]).exits_with(0);
    assert!(began.elapsed().as_secs() < 15, "{:?}", began.elapsed());
    lctl_again(&dir, r#"case "$1" in get_param) sleep 20 2>/dev/null & ;; esac"#);
    let args =
        ["sets", "apply", "jobs.csv", "--controller", "lustre-tbf", "--rounds", "1", "--timeout", "200ms"];
    let unseen = run(&dir, args).exits_with(2);
    assert!(
        unseen.stderr.ends_with("iotide: cannot see what jobs send: lctl did not end within 0.2 s\n"),
        "{}",
        unseen.stderr
    );
}
