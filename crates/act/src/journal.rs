//! What is under way, on disk: after a crash the next start takes it back.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use anyhow::{Context, bail};
use iotide_private::OpenDir;

/// Names of helper jobs that may exist, one a line. A name is written before its job is asked for, and goes after the job is gone.
pub(crate) struct Journal {
    folder: OpenDir,
    /// Held while this lives: two at once would resize the same jobs.
    _lock: File,
    names: Vec<String>,
}

/// The file in the folder.
const NAME: &str = "growing";
/// A name has fewer than 256 bytes, and there are never many.
const MOST_BYTES: u64 = 1 << 20;

/// All helper jobs have names that begin so.
pub(crate) const PREFIX: &str = "iotide-grow-";

impl Journal {
    /// Opens the journal in a folder of its own, with what an earlier run left in it.
    pub(crate) fn open(folder: &Path) -> anyhow::Result<Self> {
        let about = || format!("cannot use {}", folder.display());
        let folder = OpenDir::make_private(folder).with_context(about)?;
        let lock = folder.append("lock").with_context(about)?;
        if rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!("another `iotide resize apply` uses {}", folder.path().display());
        }
        folder.remove_parts().with_context(about)?;
        let mut text = String::new();
        match folder.read(NAME) {
            Ok(file) => drop(file.take(MOST_BYTES).read_to_string(&mut text).with_context(about)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(about),
        }
        let names = text.lines().filter(|name| is_ours(name)).map(str::to_owned).collect();
        Ok(Self { folder, _lock: lock, names })
    }

    /// Helper jobs that may exist.
    pub(crate) fn names(&self) -> Vec<String> {
        self.names.clone()
    }

    /// A helper job is about to be asked for.
    pub(crate) fn add(&mut self, name: &str) -> anyhow::Result<()> {
        self.names.push(name.to_owned());
        self.save()
    }

    /// A helper job is gone.
    pub(crate) fn remove(&mut self, name: &str) -> anyhow::Result<()> {
        self.names.retain(|other| other != name);
        self.save()
    }

    fn save(&self) -> anyhow::Result<()> {
        let save = || {
            if self.names.is_empty() {
                match self.folder.remove(NAME) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => return self.folder.sync(),
                }
            }
            let mut file = self.folder.replace_secret(NAME)?;
            self.names.iter().try_for_each(|name| writeln!(file, "{name}"))?;
            file.finish_durably()
        };
        save().with_context(|| format!("cannot write {}", self.folder.path().join(NAME).display()))
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
