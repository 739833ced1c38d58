//! Settings of a stager, and its state.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::time::Duration;

use crate::batch::Task;
use crate::filter::Filter;
use crate::numbers::Attributes;

/// Settings of a stager: which files, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which files.
    pub filter: Filter,
    /// The name of a file that says that another is complete; `{}` stands for the name of that one.
    pub flag: Option<String>,
    /// Whether somebody has said that no other machine writes to a file when it is copied. On file systems that several share, that or flags are
    /// asked for: what others have open cannot be seen.
    pub has_no_writers_elsewhere: bool,
    /// Which of them first.
    pub order: Order,
    /// For how long a file must not have changed.
    pub quiet: Duration,
    /// Files that are removed once they are safe.
    pub purge: Purge,
    /// How many files are copied at once.
    pub n_jobs: usize,
    /// How long a file of which no lease tells who writes to it is in the trash before it is removed.
    pub in_trash: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            filter: Filter::default(),
            flag: None,
            has_no_writers_elsewhere: false,
            order: Order::Oldest,
            quiet: Duration::from_secs(1),
            purge: Purge::Never,
            n_jobs: 2,
            in_trash: Duration::from_secs(60),
        }
    }
}

/// Which file comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The one that was written longest ago.
    Oldest,
    /// The one that was written last.
    Newest,
    /// The one with the fewest bytes.
    Smallest,
}

/// Files to be removed from the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purge {
    /// Nothing.
    Never,
    /// The oldest safe files when room is needed.
    Space,
    /// Every safe file.
    Staged,
}

/// A file that is not safe, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Which.
    pub path: Vec<u8>,
    /// Why.
    pub why: String,
}

/// How things stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Files that are safe, those that were removed included.
    pub safe: u64,
    /// Files that are due, or will be when they have been quiet.
    pub waiting: u64,
    /// Files that somebody can write to.
    pub open: u64,
    /// Files that cannot be copied.
    pub failed: u64,
    /// Bytes that are safe.
    pub bytes_safe: u64,
    /// Bytes that are not.
    pub backlog_bytes: u64,
    /// Bytes that were removed from the buffer.
    pub purged_bytes: u64,
    /// Bytes of files in the buffer.
    pub used_bytes: u64,
    /// Files that are not safe and why, at most [`Tally::MAX_LEFT`] of them.
    pub left: Vec<Left>,
    /// Pipes, sockets and devices, which are never opened; at most [`Tally::MAX_LEFT`].
    pub special: Vec<Vec<u8>>,
    /// Files whose owner, attributes or the like could not be kept.
    pub plain_copies: u64,
    /// The first of them, and what it lost.
    pub first_plain: Option<Left>,
}

impl Tally {
    /// How many reasons are kept.
    pub const MAX_LEFT: usize = 1000;

    /// Reports temporary files that could not be removed, and why.
    pub(crate) fn report_leftovers(&mut self, leftovers: Vec<(Vec<u8>, io::Error)>) {
        for (path, error) in leftovers {
            self.failed += 1;
            self.leave(&path, format!("temporary files of ours cannot be removed there: {error}"));
        }
    }

    pub(crate) fn leave(&mut self, path: &[u8], why: impl Into<String>) {
        if self.left.len() < Self::MAX_LEFT {
            self.left.push(Left { path: path.to_owned(), why: why.into() });
        }
    }
}

/// Files of which something could not be kept beside their contents, over all looks of a run.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    paths: HashSet<Vec<u8>>,
    first: Option<Left>,
}

impl Lost {
    /// Notes what a file or a directory lost; that of a later version replaces it.
    pub(crate) fn note(&mut self, path: &[u8], why: Option<String>, tally: &mut Tally) {
        let Some(why) = why else {
            self.paths.remove(path);
            self.first.take_if(|first| first.path == path);
            return self.tell(tally);
        };
        self.paths.insert(path.to_owned());
        self.first.get_or_insert_with(|| Left { path: path.to_owned(), why });
        self.tell(tally);
    }

    /// Puts it into a tally that was begun anew.
    pub(crate) fn tell(&self, tally: &mut Tally) {
        tally.plain_copies = self.paths.len() as u64;
        tally.first_plain.clone_from(&self.first);
    }
}

/// Result of a look.
#[derive(Debug, Default)]
pub struct Survey {
    pub(crate) due: VecDeque<Task>,
    pub(crate) directories: Vec<(Vec<u8>, Attributes)>,
    /// Bytes of the files that are due.
    pub due_bytes: u64,
    /// When the first of those that are not yet quiet will be.
    pub next_due: Option<Duration>,
    /// Files that are not yet quiet.
    pub n_unquiet: u64,
    /// The first of them.
    pub(crate) unquiet: Vec<Vec<u8>>,
}

impl Survey {
    /// How many files are due.
    pub fn n_due(&self) -> usize {
        self.due.len()
    }
}
