//! Distributed file systems, brought up for one test each: who serves them is real, and where they are is nobody else's.
//!
//! They need root, FUSE and the programs of the file system; without, a test is skipped and says so.

mod ceph;
mod gluster;

mod counters;
mod laddered;
mod mounted;
mod staged;

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use iotide_testkit::{is_root, program};

pub(crate) use ceph::Ceph;
pub(crate) use gluster::Gluster;

/// How long a server may take to come up on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(120);

/// Whether servers and their clients can be started here.
fn has_servers(programs: &[&str]) -> bool {
    is_root() && crate::mount::has_fuse() && programs.iter().all(|name| program(name).is_some())
}

/// Takes away what a test has started and mounted when the test is over, also if it is killed.
///
/// It is a shell that waits for the end of its input, which is the end of the test.
struct Janitor {
    shell: Child,
}

impl Janitor {
    /// Will run `script` with the folder of the test as `$1` and another word as `$2`.
    fn hire(script: &str, folder: &Path, word: &str) -> Self {
        let mut shell = Command::new("sh");
        // In a group of its own: who ends the test by its group does not end this.
        shell
            .args(["-c", &format!("cat >/dev/null; {script}"), "janitor"])
            .arg(folder)
            .arg(word)
            .process_group(0);
        let shell = shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        Self { shell }
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        let _ = self.shell.wait();
    }
}

/// Runs a command that must succeed, and returns what it wrote.
#[track_caller]
fn succeeds(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{command:?}: {status}: {said}{}", String::from_utf8_lossy(&stderr));
    said
}

/// Waits until something holds.
#[track_caller]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "not within {} s: {what}", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Whether something is mounted there and answers.
fn is_mounted(at: &Path) -> bool {
    let above = at.parent().unwrap();
    match (rustix::fs::stat(at), rustix::fs::stat(above)) {
        (Ok(here), Ok(above)) => here.st_dev != above.st_dev,
        _ => false,
    }
}

/// Makes a folder of the test's own that other users may pass through.
fn folder(above: &Path, name: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = above.join(name);
    std::fs::create_dir_all(&path).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Writes a file whose contents are its own.
fn write(path: &Path, n_bytes: usize) {
    let name = path.file_name().unwrap().to_string_lossy();
    let line: Vec<u8> = name.bytes().chain([b'\n']).cycle().take(n_bytes).collect();
    std::fs::File::create(path).and_then(|mut file| file.write_all(&line)).unwrap();
}
