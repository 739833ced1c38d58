use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use iotide_testkit::{FreshDir, Missing, program, skip};
use serde_json::Value;

/// A directory that is shown elsewhere, until this is dropped.
struct Mount {
    dir: FreshDir,
    child: Child,
}

impl Mount {
    /// Mounts with these options; `None` where there is no FUSE, which is said aloud.
    fn new(options: &[&str]) -> Option<Self> {
        let dir = FreshDir::new("mount");
        // Other users pass through.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::create_dir(dir.join("backing")).unwrap();
        fs::create_dir(dir.join("shown")).unwrap();
        let child = start(&dir, &["backing", "shown"], options)?;
        Some(Self { dir, child })
    }

    fn backing(&self) -> PathBuf {
        self.dir.join("backing")
    }

    fn shown(&self) -> PathBuf {
        self.dir.join("shown")
    }

    /// Asks for an end and waits for it.
    fn end(&mut self, signal: &str) -> std::process::ExitStatus {
        kill(self.child.id(), signal);
        self.child.wait().unwrap()
    }

    /// What the control socket says to a line.
    fn ask(&self, line: &str) -> Value {
        let mut socket = UnixStream::connect(self.dir.join("control")).unwrap();
        writeln!(socket, "{line}").unwrap();
        let mut answer = String::new();
        BufReader::new(socket).read_line(&mut answer).unwrap();
        serde_json::from_str(&answer).unwrap()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.child.try_wait().unwrap().is_none() {
            // Once to unmount, once more if a failed test left files open.
            kill(self.child.id(), "TERM");
            let asked = Instant::now();
            while self.child.try_wait().unwrap().is_none() && asked.elapsed() < Duration::from_secs(5) {
                std::thread::yield_now();
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        take_away(&self.shown());
    }
}

fn take_away(mountpoint: &Path) {
    let _ = Command::new("fusermount3").args(["-u", "-q", "-z"]).arg(mountpoint).output();
}

fn kill(process: u32, signal: &str) {
    assert!(Command::new("kill").args(["-s", signal, &process.to_string()]).status().unwrap().success());
}

/// Starts `iotide mount` and waits until the directory is there.
fn start(dir: &FreshDir, places: &[&str], options: &[&str]) -> Option<Child> {
    if !Path::new("/dev/fuse").exists() {
        skip(Missing::Program, "/dev/fuse");
        return None;
    }
    program("fusermount3")?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotide"));
    command.arg("mount").args(places).args(options).current_dir(dir.path());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    stderr.read_line(&mut said).unwrap();
    if !said.contains("is shown at") {
        let rest: String = stderr.lines().map_while(Result::ok).collect();
        let _ = child.wait();
        panic!("{said}{rest}");
    }
    // Nobody reads on, and nobody needs to: it says nothing more unless it fails.
    std::mem::forget(stderr);
    Some(child)
}

/// Runs one of the scripts beside this file.
fn python(script: &str, args: &[&str]) -> Option<Output> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/mount").join(script);
    Some(Command::new(program("python3")?).arg(path).args(args).output().unwrap())
}

#[track_caller]
fn last_line(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.stderr.is_empty(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text.lines().last().unwrap_or_default().to_owned()
}

#[track_caller]
fn passes_posix(dir: &Path) {
    let Some(output) = python("posix.py", &[dir.to_str().unwrap()]) else { return };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(last_line(&output).ends_with(" cases, 0 failed"), "{text}");
}

#[test]
fn what_posix_asks_holds_below_the_mount() {
    let Some(mount) = Mount::new(&[]) else { return };
    passes_posix(&mount.shown());
}

#[test]
fn and_with_requests_that_wait_for_their_turn() {
    let Some(mount) = Mount::new(&["--bypass", "1", "--workers", "1", "--phase-gap", "1ms"]) else { return };
    passes_posix(&mount.shown());
}

#[test]
fn and_on_a_plain_directory_so_the_cases_are_right() {
    let dir = FreshDir::new("plain");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    passes_posix(dir.path());
}

/// How many operations a run takes: `IOTIDE_FSX_OPERATIONS=1000000` for the long one.
fn n_operations() -> String {
    std::env::var("IOTIDE_FSX_OPERATIONS").unwrap_or_else(|_| "20000".to_owned())
}

#[test]
fn random_operations_give_what_they_give_on_a_plain_file() {
    let Some(mount) = Mount::new(&[]) else { return };
    let (mounted, plain) = (mount.shown().join("file"), mount.dir.join("plain"));
    let args = [mounted.to_str().unwrap(), plain.to_str().unwrap(), "7", &n_operations()];
    let Some(output) = python("fsx.py", &args) else { return };
    assert!(last_line(&output).ends_with("operations agree"), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(fs::read(mount.backing().join("file")).unwrap(), fs::read(plain).unwrap());
}

#[test]
fn attributes_are_those_of_the_backing_file() {
    let Some(mount) = Mount::new(&[]) else { return };
    fs::write(mount.backing().join("file"), "12345").unwrap();
    let (shown, backing) = (mount.shown().join("file"), mount.backing().join("file"));
    let (shown, backing) = (fs::metadata(shown).unwrap(), fs::metadata(backing).unwrap());
    let of = |file: &fs::Metadata| {
        (
            file.ino(),
            file.mode(),
            file.nlink(),
            file.uid(),
            file.gid(),
            file.size(),
            file.mtime_nsec(),
            file.blocks(),
        )
    };
    assert_eq!(of(&shown), of(&backing));
}

#[test]
fn what_fsync_confirmed_outlives_the_mount_that_is_killed() {
    let Some(mut mount) = Mount::new(&[]) else { return };
    let path = mount.shown().join("journal");
    let (confirmed, is_confirmed) = std::sync::mpsc::channel();
    let writer = std::thread::spawn(move || {
        let file = File::create(path).unwrap();
        for record in 0_u64.. {
            let written = file.write_all_at(&record.to_le_bytes().repeat(512), record * 4096);
            if written.and_then(|()| file.sync_data()).is_err() || confirmed.send(record).is_err() {
                return;
            }
        }
    });
    // Killed in the middle of it: while this reads, the writer writes on.
    let mut last = is_confirmed.iter().take(50).last().unwrap();
    let status = mount.end("KILL");
    assert!(!status.success());
    writer.join().unwrap();
    last = is_confirmed.try_iter().last().unwrap_or(last);
    let bytes = fs::read(mount.backing().join("journal")).unwrap();
    for record in 0..=last {
        let at = record as usize * 4096;
        assert_eq!(bytes[at..at + 4096], record.to_le_bytes().repeat(512), "record {record} of {last}");
    }
    // What is left in the tree is explained, and goes away.
    let again = Command::new(env!("CARGO_BIN_EXE_iotide"))
        .args(["mount", "backing", "shown"])
        .current_dir(mount.dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(said.contains("shown is a mount whose program has ended"), "{said}");
    assert!(said.contains("hint: take it away with `fusermount3 -u shown`"), "{said}");
    take_away(&mount.shown());
    assert_eq!(fs::read_dir(mount.shown()).unwrap().count(), 0);
}

#[test]
fn a_signal_unmounts_and_open_files_are_served_to_the_end() {
    let Some(mut mount) = Mount::new(&[]) else { return };
    let file = File::create(mount.shown().join("open")).unwrap();
    kill(mount.child.id(), "TERM");
    let asked = Instant::now();
    while mount.shown().join("open").exists() {
        assert!(asked.elapsed() < Duration::from_secs(20), "it is still there");
        std::thread::sleep(Duration::from_millis(1));
    }
    (&file).write_all(b"written after").unwrap();
    drop(file);
    assert!(mount.child.wait().unwrap().success());
    assert_eq!(fs::read(mount.backing().join("open")).unwrap(), b"written after");
}

#[test]
fn unmounted_by_someone_else_it_ends_well() {
    let Some(mut mount) = Mount::new(&[]) else { return };
    fs::write(mount.shown().join("file"), "x").unwrap();
    assert!(Command::new("fusermount3").arg("-u").arg(mount.shown()).status().unwrap().success());
    assert!(mount.child.wait().unwrap().success());
}

#[test]
fn a_directory_can_be_shown_in_its_own_place() {
    let dir = FreshDir::new("mount-over");
    fs::create_dir(dir.join("d")).unwrap();
    dir.write("d/before", "there");
    let Some(mut child) = start(&dir, &["d", "d"], &[]) else { return };
    let shown = fs::read(dir.join("d/before"));
    let written = fs::write(dir.join("d/after"), "new");
    kill(child.id(), "INT");
    assert!(child.wait().unwrap().success());
    take_away(&dir.join("d"));
    assert_eq!(shown.unwrap(), b"there");
    written.unwrap();
    assert_eq!(fs::read(dir.join("d/after")).unwrap(), b"new");
}

#[test]
fn what_cannot_be_mounted_is_explained() {
    let dir = FreshDir::new("mount-errors");
    fs::create_dir_all(dir.join("d/inside")).unwrap();
    dir.write("file", "");
    dir.write("periods.csv", "7,soon\n");
    for (args, message) in [
        (&["no", "d"][..], "cannot open no: No such file or directory"),
        (&["d", "no"], "cannot mount on no: No such file or directory"),
        (&["d", "file"], "cannot mount on file: not a directory"),
        (&["d", "d/inside"], "so the mount would hold itself"),
        (
            &["d", "d", "--periods", "periods.csv"],
            "cannot read the periods in periods.csv: '7,soon' has no number",
        ),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_iotide"))
            .arg("mount")
            .args(args)
            .current_dir(dir.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(message), "{said}");
        assert!(said.contains("hint: "), "{said}");
    }
}

/// Writes megabytes into a file below the mount as a process of a job.
fn write_as(mount: &Mount, name: &str, variable: Option<(&str, &str)>, uid: u32) -> Child {
    let mut command = Command::new("dd");
    command.args(["if=/dev/zero", "bs=1M", "count=4", "status=none"]);
    command.arg(format!("of={}", mount.shown().join(name).display()));
    command.env_clear().envs(variable);
    if uid != 0 {
        command.uid(uid).gid(uid);
    }
    command.spawn().unwrap()
}

#[test]
fn requests_are_told_apart_by_the_job_of_the_calling_process() {
    let Some(mount) = Mount::new(&["--control", "control"]) else { return };
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    fs::set_permissions(mount.backing(), fs::Permissions::from_mode(0o777)).unwrap();
    let other = if is_root { 65534 } else { 0 };
    let mut children = vec![
        write_as(&mount, "a", Some(("SLURM_JOB_ID", "4711")), 0),
        write_as(&mount, "b", Some(("IOSETS_JOB_ID", "4712")), 0),
        write_as(&mount, "c", Some(("SLURM_JOB_ID", "4713")), other),
        write_as(&mount, "d", None, other),
    ];
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    let answer = mount.ask("jobs");
    assert_eq!(answer["policy"], "set10");
    let jobs = answer["jobs"].as_array().unwrap();
    let bytes: Vec<(&str, u64)> =
        jobs.iter().map(|job| (job["job"].as_str().unwrap(), job["bytes"].as_u64().unwrap())).collect();
    for job in ["4711", "4712", "4713"] {
        assert!(bytes.contains(&(job, 4 << 20)), "{bytes:?}");
    }
    if is_root {
        assert!(bytes.contains(&("uid:65534", 4 << 20)), "{bytes:?}");
    }
    assert_eq!(mount.ask("period 4711 19.2"), serde_json::json!({"ok": true}));
    assert_eq!(mount.ask("period 99 1"), serde_json::json!({"error": "no job '99' has been seen"}));
    assert!(mount.ask("hello")["error"].as_str().unwrap().starts_with("expected 'jobs'"));
    let answer = mount.ask("jobs");
    let job = answer["jobs"].as_array().unwrap().iter().find(|job| job["job"] == "4711").unwrap();
    assert_eq!((&job["period_s"], &job["set"]), (&Value::from(19.2), &Value::from("1")));
    assert_eq!(job["period_source"], "given");
}

#[test]
fn a_job_with_a_rhythm_is_found_to_have_it() {
    let Some(mount) = Mount::new(&["--control", "control"]) else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotide"));
    command
        .args(["ioskel", "--period", "250ms", "--size", "8M", "--iterations", "24", "--dir"])
        .arg(mount.shown());
    let status = command.env("IOSETS_JOB_ID", "8").stdout(Stdio::null()).status().unwrap();
    assert!(status.success());
    let began = Instant::now();
    let period_s = loop {
        let answer = mount.ask("jobs");
        let job = answer["jobs"].as_array().unwrap().iter().find(|job| job["job"] == "8").unwrap().clone();
        if let Some(period_s) = job["period_s"].as_f64() {
            assert_eq!(job["period_source"], "predicted");
            break period_s;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "no period was found: {answer}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!((period_s - 0.25).abs() < 0.08, "{period_s}");
}

#[test]
fn metadata_do_not_wait_for_a_job_that_fills_the_device() {
    // Two seconds of the device for each of eight writers, one at a time.
    let options = ["--bandwidth", "2MiB", "--workers", "1", "--policy", "exclusive"];
    let Some(mount) = Mount::new(&options) else { return };
    let mut writers: Vec<Child> = (0..8)
        .map(|job| write_as(&mount, &format!("f{job}"), Some(("IOSETS_JOB_ID", &job.to_string())), 0))
        .collect();
    let waits = |path: &Path| fs::metadata(path).is_ok_and(|file| file.len() > 0);
    let began = Instant::now();
    while !(0..8).any(|job| waits(&mount.backing().join(format!("f{job}")))) {
        assert!(began.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(1));
    }
    let began = Instant::now();
    for index in 0..50 {
        fs::create_dir(mount.shown().join(format!("d{index}"))).unwrap();
    }
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert!(writers.iter_mut().any(|writer| writer.try_wait().unwrap().is_none()), "all are done already");
    for mut writer in writers {
        let _ = writer.kill();
        let _ = writer.wait();
    }
}
