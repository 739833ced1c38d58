//! Summaries of jobs at their end: the scripts for schedulers, beside stand-ins that say what these would.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use iotide_testkit::FreshDir;
use serde_json::Value;

use crate::serve::{Daemon, IOTIDE, ask, record};

/// A program of the scheduler's, or of the site's.
fn stand_in(dir: &FreshDir, name: &str, script: &str) {
    let path = dir.write(name, format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// The script of a scheduler, with its variables, in the directory of a daemon.
fn epilog(dir: &FreshDir, script: &str, args: &[&str], variables: &[(&str, &str)]) -> Command {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/epilog");
    let mut command = Command::new(scripts.join(script));
    let path = format!("{}:/usr/bin:/bin", dir.path().display());
    command.args(args).env_clear().env("PATH", path).envs(variables.iter().copied());
    command.env("IOTIDE", IOTIDE).env("IOTIDE_CONFIG", "").env("IOTIDE_DAEMON", dir.join("socket"));
    command.env("IOTIDE_SUMMARY_LOG", dir.join("log.jsonl")).env("IOTIDE_SUMMARY_MAIL", dir.join("mail"));
    command.stdin(Stdio::null());
    command
}

/// Runs a job whose id the scheduler's variable has.
fn job(dir: &FreshDir, (name, id): (&str, &str)) {
    let write = ["dd", "if=/dev/zero", "of=out", "bs=100000", "count=20", "status=none"];
    let done = record(dir, "").env_remove("IOTIDE_JOB_ID").env(name, id).args(write).status().unwrap();
    assert!(done.success());
}

/// The nth summary and the mail to it: the script may leave them to a process that goes on.
fn nth_summary(dir: &FreshDir, n: usize) -> (Value, String) {
    let ends_with_details = |mail: &String| mail.contains("details");
    loop {
        let log = fs::read_to_string(dir.join("log.jsonl")).unwrap_or_default();
        let mailed = fs::read_to_string(dir.join("mailed")).ok().filter(ends_with_details);
        if let (Some(line), true, Some(mailed)) = (log.lines().nth(n), log.ends_with('\n'), mailed) {
            return (serde_json::from_str(line).unwrap(), mailed);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A script, the id by which the daemon knows the job, arguments, variables, and the processor time that the scheduler measured.
type Case<'a> = (&'a str, &'a str, &'a [&'a str], Vec<(&'a str, &'a str)>, Option<f64>);

#[test]
fn each_scheduler_has_a_job_summed_up_at_its_end() {
    let dir = FreshDir::new("epilog");
    let _daemon = Daemon::start(&dir);
    stand_in(&dir, "mail", "{ echo \"$@\"; cat; } > \"${0%/*}/mailed\"");
    stand_in(
        &dir,
        "scontrol",
        "[ \"$*\" = '-o show job 4711' ] && echo 'JobId=4711 JobName=x RunTime=00:00:40 TimeLimit=01:00:00 NumNodes=2 NumCPUs=8 \
         NumTasks=8 TRES=cpu=8,mem=16G,node=2 Restarts=0 StdErr=/dev/null'",
    );
    stand_in(
        &dir,
        "bjobs",
        "[ \"$4\" = '4713[2]' ] && echo '8|2|60.0 min|16 Gbytes|40 second(s)|80.0 second(s)|4 Gbytes|ada'",
    );
    stand_in(
        &dir,
        "flux",
        "case $1 in getattr) echo 3 ;; jobs) echo '2|8|3600.0|40|ada|[3-4]|ƒ2Sk|f2Sk|4714' ;; esac",
    );
    let pbs = [
        "4712[5].server",
        "ada",
        "users",
        "x",
        "77",
        "walltime=01:00:00,ncpus=8,nodect=2,mem=16gb,place=scatter",
        "cput=00:01:20,mem=4gb,vmem=5gb,walltime=00:00:40",
        "workq",
        "none",
        "0",
    ];
    let both = |name: &'static str, value: &'static str| (name, value);
    let cases: [Case<'_>; 4] = [
        ("slurm.sh", "4711", &[], vec![both("SLURM_JOB_ID", "4711"), both("SLURM_JOB_USER", "ada")], None),
        ("pbs.sh", "4712_5_.server", &pbs, vec![both("PBS_JOBID", "4712[5].server")], Some(80.0)),
        ("lsf.sh", "4713", &[], vec![both("LSB_JOBID", "4713"), both("LSB_JOBINDEX", "2")], Some(80.0)),
        ("flux.sh", "f2Sk", &[], vec![both("FLUX_JOB_ID", "f2Sk")], None),
    ];
    for (n, (script, id, args, variables, cpu_s)) in cases.into_iter().enumerate() {
        job(&dir, variables[0]);
        assert!(epilog(&dir, script, args, &variables).status().unwrap().success());
        let (line, mailed) = nth_summary(&dir, n);
        assert_eq!((&line["job"], &line["state"]), (&id.into(), &"ended".into()), "{script}: {line:#}");
        assert_eq!(line["io"]["bytes_written"], 2_000_000, "{script}: {line:#}");
        let asked = &line["asked"];
        assert_eq!(
            (&asked["time_s"], &asked["cpus"], &asked["nodes"]),
            (&3600.0.into(), &8.into(), &2.into()),
            "{script}: {line:#}"
        );
        assert_eq!(line["used"]["time_s"], 40.0, "{script}: {line:#}");
        assert_eq!(line["used"]["cpu_s"].as_f64(), cpu_s, "{script}: {line:#}");
        if script != "flux.sh" {
            assert_eq!(asked["memory_bytes"], 16.0 * 1_073_741_824.0, "{script}: {line:#}");
        }
        let subject = format!("-s Job {id} (dd) of ");
        assert!(mailed.starts_with(&subject) && mailed.contains(" ada\n"), "{script}: {mailed}");
        assert!(mailed.contains("asked for") && mailed.contains("2 MB written"), "{script}: {mailed}");
        fs::remove_file(dir.join("mailed")).unwrap();
    }
    // On another node of the job, Flux's script leaves it to the first one.
    let n_lines = || fs::read_to_string(dir.join("log.jsonl")).unwrap().lines().count();
    stand_in(
        &dir,
        "flux",
        "case $1 in getattr) echo 4 ;; jobs) echo '2|8|0|40|ada|[3-4]|ƒ2Sk|f2Sk|4714' ;; esac",
    );
    assert!(epilog(&dir, "flux.sh", &[], &[both("FLUX_JOB_ID", "f2Sk")]).status().unwrap().success());
    assert_eq!(n_lines(), 4);
    // A job that nobody counted, a user who is an option, an id that is a command: no failure, and nothing is said.
    for (id, user) in [("4999", "ada"), ("4711", "--all"), ("$(touch x)", "ada")] {
        let brief = [("IOTIDE_SUMMARY_WAIT", "100ms")];
        assert!(epilog(&dir, "summary.sh", &[id, user, "", ""], &brief).status().unwrap().success());
        assert!(!dir.join("mailed").exists() && !dir.join("x").exists(), "{id} {user}");
    }
    assert_eq!(n_lines(), 5, "4711 is known, whoever it is mailed to");
}

#[test]
fn a_summary_waits_for_the_end_of_a_job_and_says_what_it_lacks() {
    let dir = FreshDir::new("epilog-wait");
    let daemon = Daemon::start(&dir);
    let script = "head -c 300000 /dev/zero > out; read x; true";
    let mut running = record(&dir, "4711").args(["sh", "-c", script]).stdin(Stdio::piped()).spawn().unwrap();
    daemon.job("4711", "running");
    let so_far = ask(&dir, &["job", "4711", "--summary"]);
    assert!(String::from_utf8_lossy(&so_far.stdout).contains("runs for"), "{so_far:?}");
    let waits = Command::new(IOTIDE)
        .args(["job", "4711", "--summary", "--wait", "60s", "--format", "json"])
        .env("IOTIDE_DAEMON", dir.join("socket"))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(running.stdin.take());
    assert!(running.wait().unwrap().success());
    let summary: Value = serde_json::from_slice(&waits.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(summary["state"], "ended", "{summary:#}");
    assert_eq!(summary["efficiency"]["time"], Value::Null, "nobody said what was asked for: {summary:#}");
    let bad = ask(&dir, &["job", "4711", "--summary", "--asked", "cores=3"]);
    assert_eq!(bad.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&bad.stderr).contains("'cores=3' is not one of"), "{bad:?}");
}

#[test]
fn letters_of_a_policy_are_shown_in_a_dry_run_and_sent_once() {
    let dir = FreshDir::new("policy");
    let daemon = Daemon::start(&dir);
    // A second and a half in writes of one byte.
    let script = "import os, time\nend = time.time() + 1.5\nf = os.open('out', os.O_CREAT | os.O_WRONLY)\nwhile time.time() < end:\n    \
                  for _ in range(1000): os.write(f, b'x')\n";
    let Some(python) = iotide_testkit::program("python3") else { return };
    assert!(record(&dir, "4711").arg(python).args(["-c", script]).status().unwrap().success());
    daemon.job("4711", "ended");
    let policy = "[[policy]]\nname = \"small\"\nissue = \"small_writes\"\nsubject = \"{n} of {program}\"\n\
                  text = \"Dear {user}, {jobs}: {issue}. {advice}\"\n";
    dir.write("policies.toml", policy);
    stand_in(&dir, "mail", "{ echo \"$@\"; cat; } >> \"${0%/*}/mailed\"");
    let path = |name: &str| dir.join(name).display().to_string();
    let (file, mail, sent) = (path("policies.toml"), path("mail"), path("sent"));
    let dry = ask(&dir, &["policy", &file, "--format", "json"]);
    let letters: Value = serde_json::from_slice(&dry.stdout).unwrap_or_else(|_| panic!("{dry:?}"));
    let letter = &letters["letters"][0];
    assert_eq!((&letter["state"], &letter["jobs"][0]), (&"not_sent".into(), &"4711".into()), "{letters:#}");
    assert!(letter["subject"].as_str().unwrap().starts_with("1 run of python3"), "{letters:#}");
    assert!(!dir.join("mailed").exists() && !dir.join("sent").exists(), "a dry run sends nothing");
    for state in ["; sent)", "; sent before, not again yet)"] {
        let output = ask(&dir, &["policy", &file, "--send", &mail, "--sent", &sent]);
        assert!(output.status.success(), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stdout).contains(state), "{output:?}");
    }
    let mailed = fs::read_to_string(dir.join("mailed")).unwrap();
    assert_eq!(mailed.matches("Dear ").count(), 1, "{mailed}");
    assert!(mailed.starts_with("-s 1 run of python3"), "{mailed}");
    // A mail program that fails is a failure, and a policy that cannot be read, too.
    let failed = ask(&dir, &["policy", &file, "--send", "false", "--sent", &path("other")]);
    assert_eq!(failed.status.code(), Some(2), "{failed:?}");
    dir.write("policies.toml", policy.replace("small_writes", "nothing"));
    let bad = ask(&dir, &["policy", &file]);
    assert!(String::from_utf8_lossy(&bad.stderr).contains("there is no issue 'nothing'"), "{bad:?}");
}
