//! Helpers for the tests of several crates: a fresh directory, the place of the shared data, skipping with a message.
//!
//! For `[dev-dependencies]` only. A test that lacks something returns early, and leaves a line in the file named by
//! `IOTIDE_SKIPPED_LOG`, which `./test` counts and shows:
//!
//! ```
//! # fn the_page_draws_in_a_browser() {
//! let Some(chromium) = iotide_testkit::program("chromium") else { return };
//! # let _ = chromium;
//! # }
//! ```
#![allow(clippy::print_stderr)] // skipping is said aloud

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A port of this machine that nobody has, and that the system gives to nobody who does not ask for it: another program can be set to listen there
/// later.
///
/// # Panics
/// If all are taken.
pub fn port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Below those of outgoing connections; tests run in processes of their own, side by side.
    const RANGE: std::ops::Range<u32> = 12_000..32_000;
    let n = RANGE.end - RANGE.start;
    let first = std::process::id().wrapping_mul(37).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
    let mut ports = (0..n).map(|i| (RANGE.start + first.wrapping_add(i) % n) as u16);
    let is_free = |port: &u16| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok();
    ports.find(is_free).expect("a port is free")
}

/// Returns where `name` is on `PATH`; if nowhere, says that this test is skipped.
///
/// In CI no test may be skipped for this reason: add the program and its package to `programs` in `./test`.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| is_executable(file));
    if found.is_none() {
        skip(Missing::Program, name);
    }
    found
}

/// Returns the file or folder `relative` of the data that lie beside the repository, not in it; if there is none, says
/// that this test is skipped.
///
/// The data are looked for as `shared/data` in the folders above the crate under test.
pub fn shared_data(relative: &str) -> Option<PathBuf> {
    let manifest_dir =
        std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from("."), PathBuf::from);
    let found =
        manifest_dir.ancestors().map(|dir| dir.join("shared/data").join(relative)).find(|path| path.exists());
    if found.is_none() {
        skip(Missing::Data, relative);
    }
    found
}

/// Why a test cannot run here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// A program that can be installed; a failure in CI.
    Program,
    /// Data that not everyone may have; never a failure.
    Data,
}

/// Says that the test of this thread is skipped for want of `what`.
pub fn skip(missing: Missing, what: &str) {
    let kind = match missing {
        Missing::Program => "program",
        Missing::Data => "data",
    };
    let test = test_name();
    eprintln!("SKIPPED {test}: no {kind} {what}");
    if let Some(log) = std::env::var_os("IOTIDE_SKIPPED_LOG") {
        // One short write to a file opened for appending: lines of tests that run at once do not mix.
        let line = format!("{kind}\t{test}\t{what}\n");
        let written = OpenOptions::new().create(true).append(true).open(&log);
        if let Err(error) = written.and_then(|mut file| file.write_all(line.as_bytes())) {
            panic!("cannot log a skipped test to {}: {error}", log.display());
        }
    }
}

/// Returns whether this test may act as another user, which needs root; if not, says that it is skipped.
#[cfg(unix)]
pub fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    if !is_root {
        skip(Missing::Data, "of another user: this needs root");
    }
    is_root
}

/// A process that is ended when this is dropped.
#[cfg(unix)]
#[derive(Debug)]
pub struct Alive(pub Child);

#[cfg(unix)]
impl Alive {
    /// Starts one of a user, which sleeps.
    ///
    /// # Panics
    /// If it cannot be started: only root can do so for another user.
    pub fn of(uid: u32) -> Self {
        use std::os::unix::process::CommandExt;
        let started = Command::new("sleep").arg("600").uid(uid).stdin(Stdio::null()).spawn();
        Self(started.unwrap_or_else(|error| panic!("cannot start sleep as user {uid}: {error}")))
    }
}

#[cfg(unix)]
impl Drop for Alive {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A directory of one test's own, removed when dropped; kept if the test fails, so that one can look.
#[derive(Debug)]
pub struct FreshDir {
    path: PathBuf,
}

impl FreshDir {
    /// Makes an empty directory whose name begins with `name`.
    pub fn new(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("iotide-test-{name}-{}-{count}", std::process::id()));
        // A test killed earlier under the same process id may have left its own.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap_or_else(|error| panic!("cannot make {}: {error}", path.display()));
        Self { path }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of `name` in it.
    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file into it and returns where.
    pub fn write(&self, name: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        fs::write(&path, contents).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
        path
    }

    /// Returns the names of what is in it, sorted.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.path).unwrap_or_else(|error| panic!("cannot list: {error}"));
        let mut names: Vec<String> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

impl Drop for FreshDir {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("kept for a look: {}", self.path.display());
        } else {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

fn test_name() -> String {
    // The test harness names the thread after the test, unless it runs on the main thread.
    match std::thread::current().name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => std::env::var("NEXTEST_TEST_NAME").unwrap_or_else(|_| "a test".to_owned()),
    }
}

#[cfg(unix)]
fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(file: &Path) -> bool {
    file.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_everyone_has_is_found() {
        assert!(program("sh").is_some());
    }

    #[test]
    fn a_fresh_directory_is_empty_and_goes_away() {
        let dir = FreshDir::new("testkit");
        dir.write("b", "1");
        dir.write("a", "2");
        assert_eq!(dir.names(), ["a", "b"]);
        let path = dir.path().to_owned();
        drop(dir);
        assert!(!path.exists());
    }

    #[test]
    fn two_fresh_directories_differ() {
        assert_ne!(FreshDir::new("same").path(), FreshDir::new("same").path());
    }
}
