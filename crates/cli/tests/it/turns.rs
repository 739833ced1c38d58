//! Turns across machines: arbiters with a key, mounts that ask them, mounts that are asked.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use iotide_testkit::{Missing, program, skip};

use crate::mount::has_fuse;
use crate::util::{Dir, Networks};

/// A mount or an arbiter; ended when it goes.
struct Running {
    child: Child,
    shown: Option<String>,
}

impl Running {
    /// Starts one, and returns what it says first.
    fn start(mut command: Command) -> (Self, String) {
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        stderr.read_line(&mut said).unwrap();
        if said.contains("is shown at") && command.get_args().any(|word| word == "--listen-gate") {
            stderr.read_line(&mut said).unwrap();
        }
        let shown = said.split_once(" is shown at ").map(|(_, rest)| rest.lines().next().unwrap().to_owned());
        (Self { child, shown }, said)
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(shown) = &self.shown {
            let _ = Command::new("fusermount3").args(["-u", "-q", "-z", shown]).output();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The address in what an arbiter says when it listens.
fn address(said: &str) -> String {
    said.rsplit_once("IOTIDE_GATE=").unwrap_or_else(|| panic!("{said}")).1.trim().to_owned()
}

/// Makes the key of a site, and that of a user from it.
fn keys(dir: &Dir) {
    dir.iotide(["serve", "key", "site.key"]).exits_with(0);
    dir.iotide(["sets", "key", "site.key", "--user", "0", "root.key"]).exits_with(0);
}

/// How much an arbiter or a mount has seen of a job, in MiB.
fn seen_mib(dir: &Dir, control: &str, job: &str) -> u64 {
    let json = dir.iotide(["sets", "show", control, "--format", "json"]).exits_with(0).json();
    let jobs = json["runs"][0]["jobs"].as_array().unwrap().clone();
    jobs.iter().filter(|seen| seen["job"] == job).map(|seen| seen["bytes"].as_u64().unwrap() >> 20).sum()
}

/// Whether each has seen so much of a job; what was moved under a lease is reported when that is over.
fn have_seen(dir: &Dir, job: &str, expected: &[(&str, u64)]) -> bool {
    (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        expected.iter().all(|(control, mib)| seen_mib(dir, control, job) == *mib)
    })
}

/// Has something tried with jobs of different names until it goes well: on a machine that is too busy, an arbiter that does not answer for a
/// second is not waited for.
fn goes_well(what: &str, attempt: impl Fn(&str) -> bool) {
    let jobs = (1..=5).map(|n| format!("{what}-{n}"));
    assert!(jobs.into_iter().any(|job| attempt(&job)), "{what}");
}

#[test]
fn arbiters_on_other_machines_hold_those_who_have_the_key_and_no_cable_holds_anybody() {
    if program("ip").is_none() {
        return;
    }
    let Some(networks) = Networks::new(3) else {
        return skip(Missing::Data, "networks of our own: this needs root and network namespaces");
    };
    let dir = Dir::new();
    keys(&dir);
    dir.iotide(["serve", "key", "other.key"]).exits_with(0);
    let on = |machine: usize, words: &[&str]| {
        let mut command = Command::new("ip");
        command.current_dir(dir.path()).args(["netns", "exec", &networks.machines[machine - 1]]);
        command.arg(env!("CARGO_BIN_EXE_iotide")).args(words);
        command
    };
    let refused = on(1, &["arbiter", "tcp:10.77.0.1:7070"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("a key is needed"), "{refused:?}");
    let _arbiters = [1, 2].map(|machine| {
        let (address, control) = (format!("tcp:10.77.0.{machine}:7070"), format!("control-{machine}"));
        let words = ["arbiter", &address, "--key", "site.key", "--control", &control];
        let (running, said) = Running::start(on(machine, &words));
        assert!(said.starts_with("listening"), "{said}");
        running
    });
    // 4 MiB, of which each of two arbiters is asked for a half; returns what `record` says of the gate.
    let write = |key: &str, job: &str| {
        let mut command = on(3, &["record", "-o", &format!("trace-{job}"), "--"]);
        command.args(["dd", "if=/dev/zero", "of=file", "bs=1M", "count=4", "status=none"]);
        command.env("IOTIDE_GATE", "tcp:10.77.0.1:7070,tcp:10.77.0.2:7070@1M").env("IOTIDE_JOB_ID", job);
        let output = command.env("IOTIDE_GATE_KEY", dir.path().join(key)).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    for key in ["site.key", "root.key"] {
        goes_well(key, |job| {
            !write(key, job).contains("went on without")
                && have_seen(&dir, job, &[("control-1", 2), ("control-2", 2)])
        });
    }
    for (key, job) in [("other.key", "3"), ("missing.key", "4")] {
        let said = write(key, job);
        assert!(
            said.contains("gate: 4 requests went on without") && said.contains("no permission"),
            "{said}"
        );
    }
    fs::set_permissions(dir.path().join("root.key"), fs::Permissions::from_mode(0o440)).unwrap();
    let said = write("root.key", "5");
    assert!(said.contains("no permission"), "others could read the key: {said}");
    networks.set(2, "down");
    goes_well("cut", |job| {
        let said = write("site.key", job);
        said.contains("gate: 2 requests went on without") && have_seen(&dir, job, &[("control-1", 2)])
    });
    for job in ["3", "4", "5"] {
        assert_eq!([seen_mib(&dir, "control-1", job), seen_mib(&dir, "control-2", job)], [0, 0]);
    }
}

/// Writes through a mount, as a job without tracer.
fn dd(dir: &Dir, job: &str, file: &str, mib: u32) {
    let mut command = Command::new("dd");
    command.args(["if=/dev/zero", "bs=1M", "status=none", &format!("of={file}"), &format!("count={mib}")]);
    let status = command.current_dir(dir.path()).env("IOSETS_JOB_ID", job).status().unwrap();
    assert!(status.success());
    let written = fs::metadata(dir.path().join(file)).unwrap().len();
    assert_eq!(written, u64::from(mib) << 20);
}

#[test]
fn mounts_ask_the_same_arbiters_and_go_on_when_one_dies() {
    if !has_fuse() {
        return;
    }
    let dir = Dir::new();
    keys(&dir);
    let mut arbiters = ["control-a", "control-b"].map(|control| {
        let words = ["arbiter", "tcp:127.0.0.1:0", "--key", "site.key", "--control", control];
        Running::start(dir.command(words))
    });
    let map = format!("{},{}@1M", address(&arbiters[0].1), address(&arbiters[1].1));
    let _mounts = ["1", "2"].map(|n| {
        for folder in ["backing", "shown"] {
            fs::create_dir(dir.path().join(format!("{folder}-{n}"))).unwrap();
        }
        let (backing, shown) = (format!("backing-{n}"), dir.path().join(format!("shown-{n}")));
        let shown = shown.to_str().unwrap();
        let (running, said) =
            Running::start(dir.command(["mount", &backing, shown, "--gate", &map, "--key", "site.key"]));
        assert!(said.contains("is shown at"), "{said}");
        running
    });
    for shown in ["shown-1", "shown-2"] {
        goes_well(shown, |job| {
            dd(&dir, job, &format!("{shown}/file"), 8);
            have_seen(&dir, job, &[("control-a", 4), ("control-b", 4)])
        });
    }
    arbiters[0].0.kill();
    goes_well("alone", |job| {
        dd(&dir, job, "shown-1/file", 8);
        have_seen(&dir, job, &[("control-b", 4)])
    });
    for (map, why) in [("/elsewhere=unix:/x", "names no arbiter"), ("tcp:here:1", "is no unix:/path")] {
        let said = dir.iotide(["mount", "backing-1", "shown-1", "--gate", map]).exits_with(2).complaint();
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn one_queue_serves_a_mount_and_programs_that_ask_it() {
    if !has_fuse() {
        return;
    }
    let dir = Dir::new();
    keys(&dir);
    for folder in ["backing", "shown"] {
        fs::create_dir(dir.path().join(folder)).unwrap();
    }
    let shown = dir.path().join("shown");
    let words = ["mount", "backing", shown.to_str().unwrap(), "--control", "control", "--key", "site.key"];
    let mut command = dir.command(words);
    command.args(["--listen-gate", "tcp:127.0.0.1:0"]);
    let (_mount, said) = Running::start(command);
    goes_well("through", |job| {
        dd(&dir, job, "shown/file", 3);
        have_seen(&dir, job, &[("control", 3)])
    });
    goes_well("past", |job| {
        let trace = format!("trace-{job}");
        let mut command =
            dir.command(["record", "-o", &trace, "--", "dd", "if=/dev/zero", "of=backing/other"]);
        command.args(["bs=1M", "count=5", "status=none"]).env("IOTIDE_JOB_ID", job);
        command.env("IOTIDE_GATE", address(&said)).env("IOTIDE_GATE_KEY", dir.path().join("root.key"));
        command.output().unwrap().status.success() && have_seen(&dir, job, &[("control", 5)])
    });
    // A second one cannot reach beyond this machine without a key.
    let refused = dir.iotide(["mount", "backing", "shown", "--listen-gate", "tcp:0.0.0.0:0"]).exits_with(2);
    assert!(refused.stderr.contains("a key is needed"), "{}", refused.stderr);
}

/// A program of this name that prints a text, before all others on the path; answers of tools as their documentation has them.
fn tool(dir: &Dir, name: &str, prints: &str) {
    let _ = fs::create_dir(dir.path().join("bin"));
    let path = dir.path().join("bin").join(name);
    fs::write(&path, format!("#!/bin/sh\necho \"$@\" >>asked\ncat <<'END'\n{prints}\nEND\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn maps_follow_the_layouts_that_the_tools_of_lustre_and_beegfs_say() {
    let dir = Dir::new();
    let here = dir.path().canonicalize().unwrap();
    fs::create_dir(here.join("run")).unwrap();
    dir.write("file", "");
    let path = format!("{}:{}", here.join("bin").display(), std::env::var("PATH").unwrap());
    let map = |place: &str, system: &str, targets: [u32; 2]| {
        let mut command = dir.command(["sets", "map", place, "--layout", system]);
        for (target, arbiter) in targets.iter().zip(["unix:/a", "unix:/b"]) {
            command.args(["--target", &format!("{target}={arbiter}")]);
        }
        crate::util::Outcome::of(command.env("PATH", &path).output().unwrap())
    };
    let shown = |path: &Path| path.display().to_string();
    let objects = "lmm_stripe_count:  2\nlmm_stripe_size:   4194304\nlmm_pattern:       raid0\nlmm_layout_gen:    0\n\
                   lmm_stripe_offset: 1\nlmm_objects:\n      - l_ost_idx: 1\n        l_fid:     0x100010000:0x2:0x0\n      \
                   - l_ost_idx: 0\n        l_fid:     0x100000000:0x3:0x0";
    tool(&dir, "lfs", objects);
    let file = shown(&here.join("file"));
    assert_eq!(
        map("file", "lustre", [0, 1]).exits_with(0).stdout,
        format!("{file}=unix:/b,unix:/a@4194304\n")
    );
    let said = map("file", "lustre", [0, 2]).exits_with(2).stderr;
    assert!(said.contains("has stripes at target 1, which has no arbiter"), "{said}");
    let run = shown(&here.join("run"));
    tool(&dir, "lfs", "stripe_count:  1 stripe_size:   1048576 pattern:       raid0 stripe_offset: 1");
    assert_eq!(map("run", "lustre", [0, 1]).exits_with(0).stdout, format!("{run}=unix:/b\n"));
    tool(&dir, "lfs", "stripe_count:  2 stripe_size:   1048576 pattern:       raid0 stripe_offset: -1");
    let outcome = map("run", "lustre", [0, 1]).exits_with(0);
    assert_eq!(outcome.stdout, format!("{run}=unix:/a,unix:/b@1048576\n"));
    assert!(outcome.stderr.contains("is chosen when it is made"), "{}", outcome.stderr);
    tool(&dir, "lfs", "  lcm_layout_gen:    3\n  lcm_entry_count:   2");
    assert!(map("file", "lustre", [0, 1]).exits_with(2).stderr.contains("a composite layout"));
    let asked = dir.read("asked");
    assert_eq!(asked.lines().next(), Some(format!("getstripe -y {file}").as_str()));
    assert!(asked.contains(&format!("getstripe -d -y {run}")), "{asked}");

    let entry = "Entry type: file\nEntryID: 0-5D285750-1\nMetadata node: node1 [ID: 1]\nStripe pattern details:\n+ Type: RAID0\n\
                 + Chunksize: 512K\n+ Number of storage targets: desired: 2; actual: 2\n+ Storage targets:\n  \
                 + 201 @ node2 [ID: 2]\n  + 101 @ node1 [ID: 1]";
    tool(&dir, "beegfs-ctl", entry);
    assert_eq!(
        map("file", "beegfs", [101, 201]).exits_with(0).stdout,
        format!("{file}=unix:/b,unix:/a@524288\n")
    );
    tool(&dir, "beegfs-ctl", "Unable to find metadata node");
    assert!(
        map("file", "beegfs", [101, 201])
            .exits_with(2)
            .stderr
            .contains("it does not say how large stripes are")
    );
    // Here no file system knows, so it is round robin.
    assert_eq!(map("run", "auto", [0, 1]).exits_with(0).stdout, format!("{run}=unix:/a,unix:/b@1048576\n"));
}
