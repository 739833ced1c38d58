mod remounted;
mod strangers;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use iotide_testkit::{FreshDir, Missing, is_root, program, skip};
use serde_json::Value;

/// A directory that is shown elsewhere, until this is dropped.
pub(crate) struct Mount {
    dir: FreshDir,
    child: Child,
}

impl Mount {
    /// Mounts with these options; `None` where there is no FUSE, which is printed.
    fn new(options: &[&str]) -> Option<Self> {
        Self::with(options, |backing| fs::create_dir(backing).unwrap())
    }

    /// Shows a directory that is there.
    pub(crate) fn over(backing: &Path) -> Option<Self> {
        Self::with(&[], |link| std::os::unix::fs::symlink(backing, link).unwrap())
    }

    fn with(options: &[&str], make_backing: impl FnOnce(&Path)) -> Option<Self> {
        let dir = FreshDir::new("mount");
        // Other users pass through.
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        make_backing(&dir.join("backing"));
        fs::create_dir(dir.join("shown")).unwrap();
        let child = start(&dir, &["backing", "shown"], options)?;
        Some(Self { dir, child })
    }

    fn backing(&self) -> PathBuf {
        self.dir.join("backing")
    }

    pub(crate) fn shown(&self) -> PathBuf {
        self.dir.join("shown")
    }

    /// Asks for an end and waits for it.
    fn end(&mut self, signal: &str) -> std::process::ExitStatus {
        kill(self.child.id(), signal);
        self.child.wait().unwrap()
    }

    /// Returns the answer of the control socket to a line.
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

pub(crate) fn take_away(mountpoint: &Path) {
    let _ = Command::new("fusermount3").args(["-u", "-q", "-z"]).arg(mountpoint).output();
}

fn kill(process: u32, signal: &str) {
    assert!(Command::new("kill").args(["-s", signal, &process.to_string()]).status().unwrap().success());
}

/// Starts `iotide mount` and waits until the directory is there.
fn start(dir: &FreshDir, places: &[&str], options: &[&str]) -> Option<Child> {
    has_fuse().then_some(())?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotide"));
    command.arg("mount").args(places).args(options).current_dir(dir.path());
    Some(started(command).0)
}

/// Whether FUSE is here. If not, the test is skipped; in CI that is a failure where it could be had.
pub(crate) fn has_fuse() -> bool {
    match File::options().read(true).write(true).open("/dev/fuse") {
        Ok(_) => program("fusermount3").is_some(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && knows_fuse() => {
            skip(Missing::Program, "/dev/fuse (`mknod -m 666 /dev/fuse c 10 229`)");
            false
        }
        Err(error) => {
            skip(Missing::Data, &format!("of FUSE: {error}"));
            false
        }
    }
}

/// Whether the kernel has FUSE, with or without a device node for it.
fn knows_fuse() -> bool {
    let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    known.lines().any(|line| line.ends_with("\tfuse"))
}

/// Runs a command that mounts, and returns once it has, with what it said until then.
#[track_caller]
fn started(mut command: Command) -> (Child, String) {
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    while !said.contains("is shown at") {
        if stderr.read_line(&mut said).unwrap() == 0 {
            let _ = child.wait();
            panic!("{said}");
        }
    }
    // Nobody reads on, and nobody needs to: it says nothing more unless it fails.
    std::mem::forget(stderr);
    (child, said)
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

/// Returns a setting of a run of random operations: `IOTIDE_FSX_OPERATIONS=1000000` for the long one, `IOTIDE_FSX_SEED` for others.
fn from_environment(name: &str, otherwise: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| otherwise.to_owned())
}

/// Does random operations below a mount and beside it.
#[track_caller]
fn agrees(script: &str) -> Option<Mount> {
    let mount = Mount::new(&[])?;
    let (mounted, plain) = (mount.shown().join("mounted"), mount.dir.join("plain"));
    let seed = from_environment("IOTIDE_FSX_SEED", "7");
    let n_operations = from_environment("IOTIDE_FSX_OPERATIONS", "20000");
    let output = python(script, &[mounted.to_str()?, plain.to_str()?, &seed, &n_operations])?;
    assert!(last_line(&output).ends_with("operations agree"), "{}", String::from_utf8_lossy(&output.stdout));
    Some(mount)
}

#[test]
fn random_operations_give_what_they_give_on_a_plain_file() {
    let Some(mount) = agrees("fsx.py") else { return };
    assert_eq!(
        fs::read(mount.backing().join("mounted")).unwrap(),
        fs::read(mount.dir.join("plain")).unwrap()
    );
}

#[test]
fn random_operations_on_names_give_what_they_give_on_a_plain_directory() {
    agrees("tree.py");
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
    // What is left in the tree is in the way of nobody: mounting again takes it away, says so, and goes on.
    let gone = fs::metadata(mount.shown()).unwrap_err();
    assert_eq!(gone.kind(), std::io::ErrorKind::NotConnected);
    let mut again = Command::new(env!("CARGO_BIN_EXE_iotide"));
    again.args(["mount", "backing", "shown"]).current_dir(mount.dir.path());
    let (child, said) = started(again);
    mount.child = child;
    assert!(said.contains("took away what was left of an earlier mount at shown"), "{said}");
    assert_eq!(fs::read(mount.shown().join("journal")).unwrap().len(), bytes.len());
}

#[test]
fn a_dead_mount_of_another_kind_is_left_alone_and_explained() {
    let Some(bindfs) = program("bindfs") else { return };
    if !has_fuse() {
        return;
    }
    let dir = FreshDir::new("mount-foreign");
    for name in ["backing", "shown"] {
        fs::create_dir(dir.join(name)).unwrap();
    }
    let is_mounted =
        || fs::metadata(dir.join("shown")).unwrap().dev() != fs::metadata(dir.path()).unwrap().dev();
    let mut other = Command::new(bindfs);
    let other = other.arg("-f").args(["backing", "shown"]).current_dir(dir.path()).stderr(Stdio::null());
    let mut other = other.spawn().unwrap();
    let began = Instant::now();
    while !is_mounted() && other.try_wait().unwrap().is_none() {
        assert!(began.elapsed() < Duration::from_secs(20), "bindfs does not mount");
        std::thread::sleep(Duration::from_millis(5));
    }
    let was_mounted = is_mounted();
    other.kill().unwrap();
    other.wait().unwrap();
    if !was_mounted {
        return skip(Missing::Data, "of a bindfs that may mount");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_iotide"))
        .args(["mount", "backing", "shown"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    take_away(&dir.join("shown"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("shown is a mount whose program has ended"), "{said}");
    assert!(said.contains("hint: take it away with `fusermount3 -u shown`"), "{said}");
}

#[test]
fn a_second_signal_ends_it_while_files_are_open() {
    let Some(mut mount) = Mount::new(&[]) else { return };
    let file = File::create(mount.shown().join("open")).unwrap();
    (&file).write_all(b"written before").unwrap();
    kill(mount.child.id(), "TERM");
    let asked = Instant::now();
    while mount.shown().join("open").exists() {
        assert!(asked.elapsed() < Duration::from_secs(20), "it is still there");
        std::thread::sleep(Duration::from_millis(1));
    }
    kill(mount.child.id(), "TERM");
    assert!(mount.child.wait().unwrap().success());
    assert!((&file).write_all(b"!").is_err(), "nobody is there to take it");
    assert_eq!(fs::read(mount.backing().join("open")).unwrap(), b"written before");
}

/// A whole-file record lock, taken by another process through `path` for as long as it lives.
fn locked(path: &Path) -> Option<Child> {
    let script = "import fcntl, sys, time\nf = open(sys.argv[1], 'r+b')\nfcntl.lockf(f, fcntl.LOCK_EX)\n\
                  print('locked', flush=True)\ntime.sleep(600)";
    let mut command = Command::new(program("python3")?);
    let mut child = command.args(["-c", script]).arg(path).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "locked\n");
    Some(child)
}

/// Whether someone else's lock is in the way of one through `path`.
fn is_locked(path: &Path) -> bool {
    let script = "import fcntl, sys\ntry: fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB)\n\
                  except OSError: sys.exit(7)";
    let status = Command::new("python3").args(["-c", script]).arg(path).status().unwrap();
    assert!(matches!(status.code(), Some(0 | 7)), "{status}");
    status.code() == Some(7)
}

#[test]
fn record_locks_hold_between_the_mount_and_whoever_is_beside_it() {
    let Some(mount) = Mount::new(&[]) else { return };
    fs::write(mount.backing().join("file"), "x").unwrap();
    let (shown, backing) = (mount.shown().join("file"), mount.backing().join("file"));
    for (holder, other) in [(&shown, &backing), (&backing, &shown)] {
        let Some(mut child) = locked(holder) else { return };
        assert!(is_locked(other), "{}", other.display());
        // Someone waits for it at the other side.
        let mut waiter = Command::new("python3");
        waiter.args(["-c", "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX)"]);
        let mut waiter = waiter.arg(other).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(100));
        assert!(waiter.try_wait().unwrap().is_none(), "it did not wait");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(waiter.wait().unwrap().success());
        assert!(!is_locked(other), "{}", other.display());
    }
}

#[test]
fn a_store_that_is_full_or_not_to_be_written_says_so() {
    let Some(mount) = Mount::new(&[]) else { return };
    let store = mount.backing().join("store");
    fs::create_dir(&store).unwrap();
    let mount_tmpfs = |options: &str| {
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", options, "none"]).arg(&store).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !mount_tmpfs("size=256k") {
        return skip(Missing::Data, "of a tmpfs: no right to mount one");
    }
    let shown = mount.shown().join("store");
    let full = fs::write(shown.join("large"), vec![1; 1 << 20]);
    let kept = fs::metadata(store.join("large")).unwrap().len();
    // The system says that a file was closed some time after the program did; until then this is refused.
    let began = Instant::now();
    let mut read_only = mount_tmpfs("remount,ro");
    while !read_only && began.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(5));
        read_only = mount_tmpfs("remount,ro");
    }
    let made = File::create(shown.join("other"));
    let removed = fs::remove_file(shown.join("large"));
    let seen = fs::metadata(shown.join("large")).map(|file| file.len());
    let mut unmount = Command::new("umount");
    assert!(unmount.arg("-l").arg(&store).status().unwrap().success());
    assert_eq!(full.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    assert!((4096..=256 << 10).contains(&kept), "{kept}");
    assert_eq!(seen.unwrap(), kept);
    assert!(read_only);
    for refused in [made.map(drop), removed] {
        assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    }
}

#[test]
fn a_directory_can_be_shown_on_one_that_holds_it() {
    let dir = FreshDir::new("mount-above");
    fs::create_dir_all(dir.join("d/inside")).unwrap();
    dir.write("d/inside/file", "there");
    let Some(mut child) = start(&dir, &["d/inside", "d"], &[]) else { return };
    let shown = fs::read(dir.join("d/file"));
    let written = fs::write(dir.join("d/new"), "new");
    kill(child.id(), "TERM");
    assert!(child.wait().unwrap().success());
    take_away(&dir.join("d"));
    assert_eq!(shown.unwrap(), b"there");
    written.unwrap();
    assert_eq!(fs::read(dir.join("d/inside/new")).unwrap(), b"new");
}

/// A mount namespace in which `/dev/fuse` is open to everyone, whatever it is outside; gone when dropped.
struct OwnFuse {
    /// Lives in it, and keeps it.
    keeper: Child,
}

impl OwnFuse {
    /// `None`, which is printed, where there is no FUSE or no right to make such a place.
    fn new() -> Option<Self> {
        let [_, _, _] = [program("fusermount3")?, program("unshare")?, program("nsenter")?];
        if !Path::new("/dev/fuse").exists() {
            has_fuse();
            return None;
        }
        // A tmpfs, because the place where tests keep their files may not allow device nodes.
        let script =
            "t=$(mktemp -d) && mount -t tmpfs none $t && mknod -m 666 $t/fuse c 10 229 && : <>$t/fuse &&
            mount --bind $t/fuse /dev/fuse && umount -l $t && rmdir $t && echo made && exec cat";
        let mut unshare = Command::new("unshare");
        unshare.args(["-m", "sh", "-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut keeper = unshare.stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line == "made\n" {
            return Some(Self { keeper });
        }
        let output = keeper.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        skip(Missing::Data, &format!("of a /dev/fuse of its own: {said}"));
        None
    }

    /// Returns a command that will run in it.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--mount=/proc/{}/ns/mnt", self.keeper.id())).arg("--").arg(program);
        command
    }
}

impl Drop for OwnFuse {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

#[test]
fn without_root_it_serves_the_one_who_mounts() {
    if !is_root() {
        return;
    }
    let Some(fuse) = OwnFuse::new() else { return };
    const NOBODY: u32 = 65534;
    let dir = FreshDir::new("mount-nobody");
    // Where everyone can run it.
    fs::copy(env!("CARGO_BIN_EXE_iotide"), dir.join("iotide")).unwrap();
    for name in ["", "backing", "shown"] {
        let _ = fs::create_dir(dir.join(name));
        std::os::unix::fs::chown(dir.join(name), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let as_nobody = |script: &str| {
        let mut command = fuse.command("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c"]);
        command.arg(format!("cd '{}' && {script}", dir.path().display()));
        command
    };
    let (mut child, _) = started(as_nobody("exec ./iotide mount backing shown"));
    let used = as_nobody(
        "echo text > shown/file && mkdir shown/d && mv shown/file shown/d && chmod 600 shown/d/file && cat shown/d/file",
    );
    let used = { used }.output().unwrap();
    let denied = fuse.command("ls").arg(dir.join("shown")).output().unwrap();
    kill(child.id(), "TERM");
    let ended = child.wait().unwrap();
    assert_eq!(String::from_utf8_lossy(&used.stdout), "text\n", "{}", String::from_utf8_lossy(&used.stderr));
    assert!(!denied.status.success(), "others, even root, are not served");
    assert!(ended.success());
    let file = fs::metadata(dir.join("backing/d/file")).unwrap();
    assert_eq!((file.uid(), file.mode() & 0o777), (NOBODY, 0o600));
}

#[test]
fn without_fuse_it_says_so() {
    let dir = FreshDir::new("mount-no-fuse");
    for name in ["backing", "shown"] {
        fs::create_dir(dir.join(name)).unwrap();
    }
    // A /dev of its own, with nothing in it.
    let script = "mount -t tmpfs none /dev && exec \"$0\" mount backing shown";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, env!("CARGO_BIN_EXE_iotide")]).current_dir(dir.path());
    let Ok(output) = command.output() else { return skip(Missing::Program, "unshare") };
    let said = String::from_utf8_lossy(&output.stderr);
    if !said.contains("iotide:") {
        return skip(Missing::Data, "in a /dev of its own: no right to mount one");
    }
    assert!(said.contains("there is no /dev/fuse"), "{said}");
    assert!(said.contains("hint: load the kernel module"), "{said}");
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
            "cannot read the periods in periods.csv: line 1: \"soon\" is no positive time",
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
    let mut expected = vec![("4711", 4 << 20), ("4712", 4 << 20), ("4713", 4 << 20)];
    if is_root {
        expected.push(("uid:65534", 4 << 20));
    }
    // A request is counted just after it was answered.
    let began = Instant::now();
    loop {
        let answer = mount.ask("jobs");
        assert_eq!(answer["policy"], "set10");
        let jobs = answer["jobs"].as_array().unwrap().iter();
        let bytes: Vec<(&str, u64)> =
            jobs.map(|job| (job["job"].as_str().unwrap(), job["bytes"].as_u64().unwrap())).collect();
        if expected.iter().all(|job| bytes.contains(job)) {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{bytes:?}");
        std::thread::sleep(Duration::from_millis(5));
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
