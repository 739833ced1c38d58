//! What is under way, on disk: after a crash the next start takes it back.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// Names of helper jobs that may exist, one a line. A name is written before its job is asked for, and goes after the job is gone.
pub(super) struct Journal {
    file: PathBuf,
    /// Held while this lives: two at once would resize the same jobs.
    _lock: File,
    names: Vec<String>,
}

/// All helper jobs have names that begin so.
pub(super) const PREFIX: &str = "iotide-grow-";

impl Journal {
    /// Opens the journal in a folder of its own, with what an earlier run left in it.
    pub(super) fn open(folder: &Path) -> anyhow::Result<Self> {
        let about = || format!("cannot use {}", folder.display());
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).with_context(about)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(folder.join("lock"))
            .with_context(about)?;
        if rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!("another `iotide resize apply` uses {}", folder.display());
        }
        let file = folder.join("growing");
        let names = match fs::read_to_string(&file) {
            Ok(text) => text.lines().filter(|name| is_ours(name)).map(str::to_owned).collect(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error).with_context(about),
        };
        Ok(Self { file, _lock: lock, names })
    }

    /// Helper jobs that may exist.
    pub(super) fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// A helper job is about to be asked for.
    pub(super) fn add(&mut self, name: &str) -> anyhow::Result<()> {
        self.names.push(name.to_owned());
        self.save()
    }

    /// A helper job is gone.
    pub(super) fn remove(&mut self, name: &str) -> anyhow::Result<()> {
        self.names.retain(|other| other != name);
        self.save()
    }

    fn save(&self) -> anyhow::Result<()> {
        let about = || format!("cannot write {}", self.file.display());
        if self.names.is_empty() {
            return match fs::remove_file(&self.file) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).with_context(about),
                _ => Ok(()),
            };
        }
        let new = self.file.with_extension("new");
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(&new)
            .with_context(about)?;
        let text: String = self.names.iter().map(|name| format!("{name}\n")).collect();
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).with_context(about)?;
        fs::rename(&new, &self.file).with_context(about)
    }
}

/// Whether a name is one that we give: a line that somebody else wrote cancels no job.
fn is_ours(name: &str) -> bool {
    name.strip_prefix(PREFIX)
        .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_under_way_is_known_after_a_crash_and_nothing_else() {
        let folder = iotide_testkit::FreshDir::new("resize-journal");
        let mut journal = Journal::open(folder.path()).unwrap();
        journal.add("iotide-grow-1-a").unwrap();
        journal.add("iotide-grow-2-b").unwrap();
        journal.remove("iotide-grow-1-a").unwrap();
        assert!(Journal::open(folder.path()).is_err(), "it is in use");
        drop(journal);
        std::fs::write(folder.join("growing"), "iotide-grow-2-b\nother job\niotide-grow-\n").unwrap();
        let mut journal = Journal::open(folder.path()).unwrap();
        assert_eq!(journal.names(), ["iotide-grow-2-b"]);
        journal.remove("iotide-grow-2-b").unwrap();
        assert!(!folder.join("growing").exists());
    }
}
