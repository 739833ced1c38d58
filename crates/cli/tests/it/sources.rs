//! Actors that are told of jobs by a daemon or by a detector.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use iotide_testkit::FreshDir;

use crate::mount::{has_fuse, take_away};
use crate::serve::{Daemon, IOTIDE, record};

/// A program that runs; killed when it goes.
pub(crate) struct Running {
    child: Child,
    /// Lines that it prints on stdout and stderr.
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

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
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

/// Script of a job with a period of a second, until it is killed (or all is over anyway): small files into a buffer. Requests of a MiB are
/// large enough to ask an arbiter.
const EACH_SECOND: &str = "for i in $(seq 250); do dd if=/dev/zero of=src/out$i bs=1M count=3; sleep 1; done";

/// A group of processes, which are killed when this goes.
pub(crate) struct Job(Child);

impl Job {
    pub(crate) fn start(dir: &FreshDir, mut command: Command) -> Self {
        std::fs::create_dir_all(dir.join("src")).unwrap();
        // Only what is killed as a group is killed whole.
        command.process_group(0);
        Self(command.args(["sh", "-c", EACH_SECOND]).stderr(Stdio::null()).spawn().unwrap())
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
    Job::start(dir, command)
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
fn nobody_goes_by_a_daemon_whose_periods_are_twice_those_that_are_seen() {
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
                period_s: 2.1,
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
    let wrong = format!("daemon:{}", dir.join("wrong").display());
    let arbiter = arbiter(&dir, &wrong);
    let _job = gated(&dir);
    assert_eq!(period_from(&dir, "reported"), 2.1);
    let sets = sets_apply(&dir, &[&wrong, "control"]);
    arbiter.until("job 4711: the daemon at ");
    let seen_s = period_from(&dir, "predicted");
    assert!((0.95..1.35).contains(&seen_s), "{seen_s}");
    // Who asks the arbiter, too, hears what that sees.
    sets.until("but they are seen to be");
}

/// Waits until what staging goes by is this.
fn basis_is(dir: &FreshDir, basis: &str) {
    loop {
        let status = std::fs::read(dir.join("src/.iotide-stage/status.json")).unwrap_or_default();
        let status: serde_json::Value = serde_json::from_slice(&status).unwrap_or_default();
        if status["basis"] == basis {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn stage_out(dir: &FreshDir, source: &str) -> Running {
    for name in ["src", "dst"] {
        std::fs::create_dir_all(dir.join(name)).unwrap();
    }
    let mut command = Command::new(IOTIDE);
    command.args(["stage", "out", "src", "dst", "--purge", "staged", "--quiet", "50ms", "--job", "4711"]);
    // Nothing is waited for here: what it says of the source may come before that it stages.
    Running::start(command.args(["--predictions", source]).current_dir(dir.path()))
}

#[test]
fn all_go_by_a_daemon_and_by_what_else_they_know_when_it_is_killed() {
    let dir = FreshDir::new("sources-daemon");
    let daemon = Daemon::start(&dir);
    let named = format!("daemon:{}", dir.join("socket").display());
    // Its socket alone says that it is a daemon's.
    let arbiter = arbiter(&dir, "socket");
    let staging = stage_out(&dir, &named);
    staging.until("knows no job 4711");
    dir.write("jobs.csv", "4711,20\n");
    let sets = sets_apply(&dir, &[&named, "jobs.csv"]);
    sets.until(&priority(1));
    let _job = gated(&dir);
    // The table knew it first, the daemon knows better.
    sets.until(&priority(0));
    let reported_s = period_from(&dir, "reported");
    assert!((0.95..1.35).contains(&reported_s), "{reported_s}");
    basis_is(&dir, "predictions");
    daemon.kill();
    for actor in [&arbiter, &staging, &sets] {
        actor.until("does not answer");
    }
    basis_is(&dir, "activity, predictions lost");
    // What it said of periods is relied on for ten seconds more.
    sets.until(&priority(1));
    period_from(&dir, "predicted");
    // One that is started anew is heard again.
    let _again = Daemon::start(&dir);
    arbiter.until("answers again");
}

/// A mount at `src`; taken away when this goes.
struct Mounted<'a>(&'a FreshDir, Running);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        take_away(&self.0.join("src"));
    }
}

/// How many files are there whose data have come.
fn n_written(dir: &FreshDir) -> usize {
    let files = std::fs::read_dir(dir.join("backing")).unwrap().map(|file| file.unwrap().metadata().unwrap());
    files.filter(|file| file.len() == 3 << 20).count()
}

#[test]
fn a_mount_goes_by_a_daemon_and_by_what_it_sees_when_that_is_killed() {
    if !has_fuse() {
        return;
    }
    let dir = FreshDir::new("mount-daemon");
    for name in ["backing", "src"] {
        std::fs::create_dir(dir.join(name)).unwrap();
    }
    let daemon = Daemon::start(&dir);
    let named = format!("daemon:{}", dir.join("socket").display());
    let mut command = Command::new(IOTIDE);
    command.args(["mount", "backing", "src", "--control", "control", "--periods", &named]);
    let mount = Mounted(&dir, Running::start(command.current_dir(dir.path())));
    mount.1.until("is shown at");
    // The daemon knows a job by one variable, the mount by another.
    let mut command = record(&dir, "4711");
    command.env("IOSETS_JOB_ID", "4711");
    let _job = Job::start(&dir, command);
    let reported_s = period_from(&dir, "reported");
    // What the machine is busy with comes on top of the second.
    assert!(reported_s > 0.9, "{reported_s}");
    daemon.kill();
    mount.1.until("does not answer");
    let seen_s = period_from(&dir, "predicted");
    assert!(seen_s > 0.9, "{seen_s}");
    let n_before = n_written(&dir);
    while n_written(&dir) < n_before + 2 {
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

#[test]
fn staging_and_sets_go_by_the_predictions_of_a_detector() {
    let dir = FreshDir::new("stage-detector");
    let mut detect = Command::new(IOTIDE);
    let detector = Running::start(detect.args(["detect", "--listen", "unix:tide"]).current_dir(dir.path()));
    detector.until("listening");
    let _staging = stage_out(&dir, "unix:tide");
    let sets = sets_apply(&dir, &["tide"]);
    let mut record = Command::new(IOTIDE);
    let stream = format!("unix:{}", dir.join("tide").display());
    record.args(["record", "-q", "-o", "trace", "--stream", &stream, "--"]).current_dir(dir.path());
    record.env_remove("LD_PRELOAD").env("IOTIDE_JOB_ID", "4711").stdout(Stdio::null());
    let _job = Job::start(&dir, record);
    sets.until(&priority(0));
    basis_is(&dir, "predictions");
    drop(detector);
    sets.until("does not answer");
    basis_is(&dir, "activity, predictions lost");
}
