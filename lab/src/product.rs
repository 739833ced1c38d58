//! The program that is measured: iotide, as users run it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{chores, repository};

/// Builds iotide in release mode, and returns where it lies.
pub(crate) fn build() -> Result<PathBuf, String> {
    build_packages(&["iotide", "iotide-preload"]).map(|()| path())
}

/// Builds the module of Python in release mode.
pub(crate) fn build_module() -> Result<(), String> {
    build_packages(&["iotide", "iotide-preload", "iotide-python"])
}

fn build_packages(packages: &[&str]) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--locked"])
        .args(packages.iter().flat_map(|package| ["--package", package]))
        .current_dir(repository())
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if status.success() { Ok(()) } else { Err("iotide does not build".to_owned()) }
}

/// Returns where iotide lies once it is built.
pub(crate) fn path() -> PathBuf {
    chores::target().join("release/iotide")
}

/// Sends a signal to a process, if it is still there.
pub(crate) fn signal(process: u32, name: &str) {
    let _ = Command::new("kill").args(["-s", name, &process.to_string()]).status();
}

/// A folder for an experiment. Gone when dropped.
pub(crate) struct Bed {
    pub(crate) folder: PathBuf,
}

impl Bed {
    /// Makes one in memory, if there is room for that: then pacing alone is the storage.
    pub(crate) fn make(name: &str) -> Result<Self, String> {
        let memory = Path::new("/dev/shm");
        Self::below(if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }, name)
    }

    /// Makes one among temporary files: what is written to memory is no I/O.
    pub(crate) fn on_disk(name: &str) -> Result<Self, String> {
        Self::below(std::env::temp_dir(), name)
    }

    fn below(parent: PathBuf, name: &str) -> Result<Self, String> {
        let folder = parent.join(format!("iotide-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        Ok(Self { folder })
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A mount or an arbiter that runs; ended when dropped.
pub(crate) struct Server {
    child: Child,
    /// Where a mount is shown.
    shown: Option<PathBuf>,
}

impl Server {
    /// Starts a program that says `ready` in its first line, and returns it with what it says after that.
    pub(crate) fn start(
        mut command: Command,
        shown: Option<PathBuf>,
        ready: &str,
    ) -> Result<(Self, BufReader<ChildStderr>), String> {
        let mut child = command.stderr(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
        let mut stderr = BufReader::new(child.stderr.take().ok_or("no stderr")?);
        let server = Self { child, shown };
        let mut said = String::new();
        stderr.read_line(&mut said).map_err(|error| error.to_string())?;
        if said.contains(ready) { Ok((server, stderr)) } else { Err(format!("iotide: {}", said.trim())) }
    }

    /// A program that was started already.
    pub(crate) fn of(child: Child) -> Self {
        Self { child, shown: None }
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        signal(self.child.id(), "TERM");
        let asked = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && asked.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(shown) = &self.shown {
            let _ = Command::new("umount").arg("-l").arg(shown).stderr(Stdio::null()).status();
        }
    }
}
