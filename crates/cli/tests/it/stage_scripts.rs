//! `stage.sh` and `stage-epilog.sh` without a batch system: signals and an environment are all that they get from it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use iotide_testkit::{FreshDir, is_root, program};

const IOTIDE: &str = env!("CARGO_BIN_EXE_iotide");

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/slurm").join(name)
}

/// Waits for something that happens while a script runs.
#[track_caller]
fn wait_while(script: &mut Child, dir: &FreshDir, happens: impl Fn() -> bool) {
    while !happens() {
        let ended = script.try_wait().unwrap();
        assert!(ended.is_none(), "it ended: {}", fs::read_to_string(dir.join("log")).unwrap());
        thread::sleep(Duration::from_millis(10));
    }
}

/// `stage.sh` with a program that is a script; it is in the buffer when it begins.
fn batch(dir: &FreshDir, options: &str, program: &str) -> Child {
    let log = fs::File::create(dir.join("log")).unwrap();
    let mut command = Command::new("bash");
    command.arg(shipped("stage.sh")).args(["buffer", "results", "sh", "-c"]);
    command.arg(format!("cd buffer || exit 1\n{program}"));
    command
        .current_dir(dir.path())
        .env("IOTIDE", IOTIDE)
        .env("IOTIDE_STAGE_OPTIONS", options)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log);
    command.spawn().unwrap()
}

fn signal(name: &str, process: &Child) {
    let sent = Command::new("kill").args(["-s", name, &process.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn what_is_closed_when_the_end_is_announced_is_safe_then_and_what_comes_later_in_the_end() {
    let dir = FreshDir::new("stage-script");
    let program = "echo 1 > first; until [ -e ../go ]; do sleep 0.02; done; echo 2 > second; exit 7";
    // Nothing goes before the end, or its announcement.
    let mut script = batch(&dir, "--policy end --quiet 50ms", program);
    let log = || fs::read_to_string(dir.join("log")).unwrap();
    wait_while(&mut script, &dir, || log().contains("SIGTERM ends it") && dir.join("buffer/first").exists());
    assert!(!dir.join("results/first").exists(), "{}", log());
    signal("USR1", &script);
    wait_while(&mut script, &dir, || {
        dir.join("results/first").exists() && log().contains("1 file of 2 B safe")
    });
    // The program goes on, and so does staging.
    assert!(!dir.join("results/second").exists());
    dir.write("go", "");
    // Its status is that of the program.
    assert_eq!(script.wait().unwrap().code(), Some(7), "{}", log());
    assert_eq!(fs::read_to_string(dir.join("results/second")).unwrap(), "2\n", "{}", log());
    assert!(!log().contains("not all"), "{}", log());
}

#[test]
fn a_program_that_ends_at_once_has_its_results_brought_away_and_what_cannot_be_is_reported() {
    let dir = FreshDir::new("stage-script-short");
    let mut script =
        batch(&dir, "--policy end --quiet 50ms", "until [ -e .iotide-stage ]; do :; done; echo 1 > first");
    let log = || fs::read_to_string(dir.join("log")).unwrap();
    assert_eq!(script.wait().unwrap().code(), Some(0), "{}", log());
    assert!(dir.join("results/first").exists() && !log().contains("not all"), "{}", log());

    // One that is told to end passes it on to its program. What it left open is said.
    let program = "sleep 1000 3>open & echo 2 > second; trap 'kill $!; exit 3' TERM; touch ../ready; wait";
    let left = format!("{program} # its child holds a file open");
    let mut script = batch(&dir, "--policy end --quiet 50ms --flag {}.done", &left);
    wait_while(&mut script, &dir, || log().contains("SIGTERM ends it") && dir.join("ready").exists());
    signal("TERM", &script);
    assert_eq!(script.wait().unwrap().code(), Some(3), "{}", log());
    assert!(log().contains("not all of buffer is safe in results"), "{}", log());
}

#[test]
fn the_epilog_brings_away_as_its_user_what_a_killed_job_left_for_as_long_as_it_may() {
    let Some(setpriv) = program("setpriv") else { return };
    if !is_root() {
        return;
    }
    let dir = FreshDir::new("stage-epilog");
    for folder in ["buffers", "buffers/17", "buffers/17/scratch", "results"] {
        fs::create_dir(dir.join(folder)).unwrap();
        std::os::unix::fs::chown(dir.join(folder), Some(65534), Some(65534)).unwrap();
    }
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // Where other users can reach it.
    let iotide = dir.join("iotide");
    fs::copy(IOTIDE, &iotide).unwrap();
    let user = |command: &[&str]| {
        let mut all = Command::new(&setpriv);
        all.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]).args(command);
        all.current_dir(dir.path()).env_clear().stdin(Stdio::null()).stdout(Stdio::null());
        all
    };
    let mut stager = user(&["./iotide", "stage", "out", "buffers/17", "results", "--policy", "end"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !dir.join("buffers/17/.iotide-stage/status.json").exists() {
        assert!(stager.try_wait().unwrap().is_none());
        thread::sleep(Duration::from_millis(5));
    }
    // The node kills everything.
    stager.kill().unwrap();
    stager.wait().unwrap();
    for name in ["buffers/17/one", "buffers/17/scratch/two"] {
        fs::write(dir.join(name), name).unwrap();
        std::os::unix::fs::chown(dir.join(name), Some(65534), Some(65534)).unwrap();
    }
    let epilog = |job: &str, uid: &str, deadline: &str| {
        let mut command = Command::new("sh");
        command.arg(shipped("stage-epilog.sh")).current_dir("/").stdin(Stdio::null());
        command.env("SLURM_JOB_ID", job).env("SLURM_JOB_UID", uid).env("IOTIDE_STAGE_DEADLINE", deadline);
        command.env("IOTIDE", &iotide).env("IOTIDE_BUFFERS", dir.join("buffers"));
        let output = command.output().unwrap();
        // A node whose epilog fails would be drained.
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    };
    // No time at all, another job's, and a user that there is not.
    epilog("17", "65534", "1us");
    let status = fs::read_to_string(dir.join("buffers/17/.iotide-stage/status.json")).unwrap();
    assert!(status.contains("a moment ago") || status.contains("before its turn"), "{status}");
    epilog("18", "65534", "10min");
    epilog("17", "4294967294", "10min");
    assert!(!dir.join("results/one").exists() && !dir.join("results/scratch/two").exists());
    epilog("17", "65534", "10min");
    for (name, was) in [("results/one", "buffers/17/one"), ("results/scratch/two", "buffers/17/scratch/two")]
    {
        assert_eq!(fs::read_to_string(dir.join(name)).unwrap(), was);
        assert_eq!(fs::metadata(dir.join(name)).unwrap().uid(), 65534);
    }
    assert!(
        Command::new(IOTIDE)
            .args(["stage", "verify"])
            .arg(dir.join("results"))
            .output()
            .unwrap()
            .status
            .success()
    );
}
