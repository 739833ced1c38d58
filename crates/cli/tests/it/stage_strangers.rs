//! Obstacles that other users can put in the way of a stager, above all of one that root runs.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use iotide_testkit::{Missing, is_root, skip};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::stage::{ONCE, pair, stage};
use crate::stage_options::start;
use crate::util::Dir;

const USER: u32 = 65534;
const VICTIM: u32 = 65533;

fn write_as(path: &Path, contents: &str, owner: u32, mode: u32) {
    fs::write(path, contents).unwrap();
    give(path, owner, mode);
}

fn make_as(path: &Path, owner: u32, mode: u32) {
    fs::create_dir(path).unwrap();
    give(path, owner, mode);
}

fn give(path: &Path, owner: u32, mode: u32) {
    chown(path, Some(owner), Some(owner)).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
}

/// A file of 15 TiB that has no block, if the file system of `dir` has such ones.
fn hole(dir: &Dir) -> bool {
    let made = File::create(dir.path().join("src/hole")).unwrap().set_len(15 << 40);
    if made.is_err() {
        skip(Missing::Data, "of a file system with files of 15 TiB");
    }
    made.is_ok()
}

#[test]
fn a_hole_of_terabytes_is_given_up_at_the_deadline_and_when_asked() {
    let dir = pair();
    if !hole(&dir) {
        return;
    }
    let once = [&ONCE[..], &["--deadline", "300ms"]].concat();
    let left = stage(dir.path(), &once);
    assert_eq!(left.status, 1, "{}", left.stderr);
    assert!(left.stdout.contains("stopped before its turn"), "{}", left.stdout);
    let dir = pair();
    assert!(hole(&dir));
    let mut stager = start(&dir, ["stage", "out", "src", "dst", "--once", "--quiet", "30ms"]);
    crate::stage_options::wait_for(&dir.path().join("src/.iotide-stage/status.json"));
    let pid = rustix::process::Pid::from_child(&stager);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(stager.wait().unwrap().code(), Some(1));
    let names = fs::read_dir(dir.path().join("dst")).unwrap().flatten().map(|entry| entry.file_name());
    assert_eq!(names.collect::<Vec<_>>(), [".iotide-stage"]);
}

#[test]
fn pipes_in_the_folder_of_a_stager_keep_nobody_waiting() {
    for name in ["patterns.new", "status.json", "journal"] {
        let dir = pair();
        fs::write(dir.path().join("src/file"), "x").unwrap();
        let own = dir.path().join("src/.iotide-stage");
        fs::create_dir(&own).unwrap();
        pipe(&own.join(name));
        let staged = stage(dir.path(), &ONCE);
        if name == "journal" {
            assert_eq!(staged.status, 2);
            let why = ".iotide-stage/journal is not a regular file; remove it";
            assert!(staged.stderr.contains(why), "{}", staged.stderr);
            assert_eq!(stage(dir.path(), &["wait", "src/file"]).status, 2);
            continue;
        }
        assert_eq!(staged.status, 0, "{name}: {}", staged.stderr);
        assert_eq!(fs::read_to_string(dir.path().join("dst/file")).unwrap(), "x");
        assert!(fs::symlink_metadata(own.join(name)).is_ok_and(|it| it.is_file()) || name == "patterns.new");
    }
}

#[test]
fn the_epilog_waits_for_no_pipe_of_its_user() {
    let dir = Dir::new();
    let own = dir.path().join("17/.iotide-stage");
    fs::create_dir_all(&own).unwrap();
    pipe(&own.join("status.json"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/slurm/stage-epilog.sh");
    let uid = rustix::process::geteuid().as_raw().to_string();
    let mut epilog = Command::new("sh");
    epilog.arg(script).stdin(Stdio::null()).env("SLURM_JOB_ID", "17").env("SLURM_JOB_UID", uid);
    epilog.env("IOTIDE", env!("CARGO_BIN_EXE_iotide")).env("IOTIDE_BUFFERS", dir.path());
    // One that waits would do so until the test is ended.
    let status = epilog.env("IOTIDE_STAGE_LIMIT", "1").status().unwrap();
    assert!(status.success());
}

/// A source of one user, and a destination in which another has entries of the same names.
fn trees_of_two() -> Dir {
    let dir = pair();
    let (src, dst) = (dir.path().join("src"), dir.path().join("dst"));
    make_as(&src.join("other"), USER, 0o777);
    write_as(&src.join("other/planted"), "x", USER, 0o644);
    write_as(&src.join("B.dat"), "of the attacker", USER, 0o644);
    make_as(&dst.join("other"), VICTIM, 0o700);
    write_as(&dst.join("other/secret"), "secret", VICTIM, 0o600);
    write_as(&dst.join("B.dat"), "of the victim", VICTIM, 0o644);
    dir
}

fn assert_victim_keeps_all(dst: &Path) {
    let there = fs::metadata(dst.join("other")).unwrap();
    assert_eq!((there.uid(), there.mode() & 0o7777), (VICTIM, 0o700));
    assert_eq!(fs::read_to_string(dst.join("other/secret")).unwrap(), "secret");
    assert!(!dst.join("other/planted").exists());
    assert_eq!(fs::read_to_string(dst.join("B.dat")).unwrap(), "of the victim");
    assert_eq!(fs::metadata(dst.join("B.dat")).unwrap().uid(), VICTIM);
}

#[test]
fn root_brings_nothing_into_the_directory_of_another_user_and_replaces_none_of_their_files() {
    if !is_root() {
        return;
    }
    let dir = trees_of_two();
    let (src, dst) = (dir.path().join("src"), dir.path().join("dst"));
    write_as(&src.join("fine"), "fine", USER, 0o600);
    for round in 0..2 {
        std::thread::sleep(Duration::from_millis(40));
        let staged = stage(dir.path(), &ONCE);
        assert_eq!(staged.status, 1, "{}", staged.stderr);
        for named in [
            "B.dat in the destination belongs to uid 65533, not to 65534; remove it there to replace it",
            "other in the destination belongs to uid 65533, not to 65534",
        ] {
            assert!(staged.stdout.contains(named), "round {round}: {}", staged.stdout);
        }
        assert_victim_keeps_all(&dst);
        assert_eq!(fs::read_to_string(dst.join("fine")).unwrap(), "fine");
        // A new version of one's own file replaces the old one.
        write_as(&src.join("fine"), "fine", USER, 0o644);
        write_as(&src.join("other/planted"), "xy", USER, 0o644);
    }
    // With the other user's entries out of the way, all is brought.
    fs::remove_dir_all(dst.join("other")).unwrap();
    fs::remove_file(dst.join("B.dat")).unwrap();
    std::thread::sleep(Duration::from_millis(40));
    let staged = stage(dir.path(), &ONCE);
    assert_eq!(staged.status, 0, "{}{}", staged.stdout, staged.stderr);
    assert_eq!(fs::metadata(dst.join("other")).unwrap().uid(), USER);
    assert_eq!(fs::read_to_string(dst.join("other/planted")).unwrap(), "xy");
}

#[test]
fn root_fetches_nothing_over_the_files_of_another_user() {
    if !is_root() {
        return;
    }
    let dir = trees_of_two();
    let fetched = stage(dir.path(), &["in", "src", "dst"]);
    assert_eq!(fetched.status, 1, "{}", fetched.stderr);
    assert_victim_keeps_all(&dir.path().join("dst"));
}

#[test]
fn root_believes_no_journal_and_no_mark_that_a_user_has_written() {
    if !is_root() {
        return;
    }
    let dir = pair();
    let (src, dst) = (dir.path().join("src"), dir.path().join("dst"));
    write_as(&src.join("file"), "right", USER, 0o644);
    std::thread::sleep(Duration::from_millis(40));
    assert_eq!(stage(dir.path(), &ONCE).status, 0);
    // The user wrote the journal, and something else into the copy.
    for own in [src.join(".iotide-stage"), dst.join(".iotide-stage")] {
        fs::write(dst.join("file"), "wrong").unwrap();
        chown(&own, Some(USER), Some(USER)).unwrap();
        let staged = stage(dir.path(), &ONCE);
        assert_eq!(staged.status, 2, "{}", staged.stdout);
        assert!(
            staged.stderr.contains("it belongs to uid 65534; only a folder of uid 0 is used"),
            "{}",
            staged.stderr
        );
        chown(&own, Some(0), Some(0)).unwrap();
    }
    assert_eq!(stage(dir.path(), &ONCE).status, 0);
}
