//! Actors that are told of jobs by a daemon or by a detector.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use iotide_testkit::FreshDir;

use crate::serve::{Daemon, IOTIDE, record};

/// A program that runs; killed when it goes.
pub(crate) struct Running {
    child: Child,
    /// What it says on stdout and stderr, line by line.
    lines: Receiver<String>,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (tell, lines) = channel();
        let (stdout, tell_too) = (child.stdout.take().unwrap(), tell.clone());
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| tell_too.send(line))
        });
        let stderr = child.stderr.take().unwrap();
        std::thread::spawn(move || {
            BufReader::new(stderr).lines().map_while(Result::ok).try_for_each(|line| tell.send(line))
        });
        Self { child, lines }
    }

    /// Waits for a line that has a text, and returns it with all before it.
    pub(crate) fn until(&self, text: &str) -> Vec<String> {
        let mut said = Vec::new();
        loop {
            let Ok(line) = self.lines.recv() else { panic!("it ended without {text:?}: {said:#?}") };
            let is_it = line.contains(text);
            said.push(line);
            if is_it {
                return said;
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a job with a period of half a second does, until it is killed (or all is over anyway). Requests of a MiB are large enough to ask an arbiter.
pub(crate) const HALF_A_SECOND: &str =
    "for i in $(seq 500); do dd if=/dev/zero of=out bs=1M count=3; sleep 0.5; done";

/// A group of processes, which are killed when this goes.
pub(crate) struct Job(Child);

impl Job {
    pub(crate) fn start(mut command: Command, script: &str) -> Self {
        Self(command.args(["sh", "-c", script]).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.0.id())]).status();
        let _ = self.0.wait();
    }
}

/// `iotide sets apply SOURCE…`, which writes priorities into a directory.
fn sets_apply(dir: &FreshDir, sources: &[&str]) -> Running {
    std::fs::create_dir(dir.join("iosets")).unwrap();
    let mut command = Command::new(IOTIDE);
    command.args(["sets", "apply"]).args(sources).current_dir(dir.path());
    command.args(["--controller", "configfs", "--root", "iosets", "--interval", "100ms"]);
    Running::start(&mut command)
}

/// The priority of a set whose period has this order of magnitude.
fn priority(order: i32) -> String {
    format!("echo {} > iosets/4711/priority", 10f64.powi(6 - order))
}

#[test]
fn sets_follow_a_daemon_and_a_table_when_it_is_gone() {
    let dir = FreshDir::new("sets-daemon");
    let daemon = Daemon::start(&dir);
    dir.write("jobs.csv", "4711,20\n");
    let _job = Job::start(record(&dir, "4711"), HALF_A_SECOND);
    daemon.job("4711", "running");
    let socket = format!("daemon:{}", dir.join("socket").display());
    let sets = sets_apply(&dir, &[&socket, "jobs.csv"]);
    // The table knows it first, the daemon better.
    sets.until(&priority(1));
    sets.until(&priority(0));
    daemon.kill();
    sets.until("does not answer");
    // What it said is relied on for ten seconds more.
    sets.until(&priority(1));
}

/// An arbiter that takes periods from a source, and its control socket.
fn arbiter(dir: &FreshDir, source: &str) -> Running {
    let mut command = Command::new(IOTIDE);
    let gate = format!("unix:{}", dir.join("gate").display());
    command.args(["arbiter", &gate, "--control", "control", "--periods", source]).current_dir(dir.path());
    let arbiter = Running::start(&mut command);
    arbiter.until("listening");
    arbiter
}

/// A job under an arbiter and a daemon.
fn gated(dir: &FreshDir) -> Job {
    let mut command = record(dir, "4711");
    command.env("IOTIDE_GATE", format!("unix:{}", dir.join("gate").display()));
    Job::start(command, HALF_A_SECOND)
}

/// Waits until the arbiter has the period of the job from there, and returns it.
fn period_from(dir: &FreshDir, source: &str) -> f64 {
    loop {
        let mut show = Command::new(IOTIDE);
        let shown =
            show.args(["sets", "show", "control", "--format", "json"]).current_dir(dir.path()).output();
        let shown: serde_json::Value = serde_json::from_slice(&shown.unwrap().stdout).unwrap();
        let job = &shown["runs"][0]["jobs"][0];
        if job["period_source"] == source {
            return job["period_s"].as_f64().unwrap();
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

#[test]
fn an_arbiter_goes_by_a_daemon_and_when_it_is_killed_by_what_it_sees() {
    let dir = FreshDir::new("arbiter-daemon");
    let daemon = Daemon::start(&dir);
    // Its socket alone says that it is a daemon's.
    let arbiter = arbiter(&dir, "socket");
    let _job = gated(&dir);
    let reported_s = period_from(&dir, "reported");
    assert!((0.45..0.7).contains(&reported_s), "{reported_s}");
    daemon.kill();
    arbiter.until("going by what is seen here");
    let seen_s = period_from(&dir, "predicted");
    assert!((0.45..0.7).contains(&seen_s), "{seen_s}");
    // One that is started anew is used again.
    let _again = Daemon::start(&dir);
    arbiter.until("answers again");
}

#[test]
fn an_arbiter_does_not_go_by_a_daemon_whose_periods_are_twice_those_it_sees() {
    use iotide_wire::{RpcHeader, RpcKind, RpcRhythm};
    use std::io::{Read, Write};
    let dir = FreshDir::new("arbiter-wrong");
    std::fs::create_dir(dir.join("pages")).unwrap();
    let listener = std::os::unix::net::UnixListener::bind(dir.join("wrong.rpc")).unwrap();
    std::thread::spawn(move || {
        for caller in listener.incoming() {
            let mut caller = caller.unwrap();
            let _ = caller.read(&mut [0; 64]);
            let mut payload = 1u32.to_le_bytes().to_vec();
            let rhythm = RpcRhythm {
                job: "4711",
                uid: rustix::process::getuid().as_raw(),
                period_s: 1.06,
                confidence: 0.99,
                age_s: 0.1,
                start_in_s: 0.1,
                earliest_in_s: 0.0,
                latest_in_s: 0.2,
                duration_s: 0.1,
                bytes: 3e6,
                idle_probability: 0.9,
            };
            rhythm.put(&mut payload);
            let head = RpcHeader { payload: payload.len(), kind: RpcKind::RhythmsNow as u8, flags: 0, id: 1 };
            let _ = caller.write_all(&[&head.encode()[..], &payload].concat());
        }
    });
    let arbiter = arbiter(&dir, &format!("daemon:{}", dir.join("wrong").display()));
    let _job = gated(&dir);
    assert_eq!(period_from(&dir, "reported"), 1.06);
    arbiter.until("job 4711: the daemon at ");
    let seen_s = period_from(&dir, "predicted");
    assert!((0.45..0.7).contains(&seen_s), "{seen_s}");
}
