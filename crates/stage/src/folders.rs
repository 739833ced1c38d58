//! Directories of the destination: made before what is in them, and given their modes and times after it.

use std::collections::BTreeSet;
use std::io;

use rustix::fs::{AtFlags, FileType, Mode, fstat, mkdirat};

use crate::dirs::{join, name, parent};
use crate::durable::OPEN_AT_ONCE;
use crate::error::StageError;
use crate::journal::Entry;
use crate::metadata;
use crate::numbers::kind;
use crate::pace::Pace;
use crate::stager::{Fault, Handle, Stager};
use crate::tally::Survey;

impl Stager {
    /// Makes the directories of the buffer in the destination, those that are empty too.
    pub(crate) fn make_directories(
        &mut self,
        survey: &mut Survey,
        new: &mut BTreeSet<Vec<u8>>,
        is_noted: &mut bool,
    ) -> io::Result<()> {
        for (path, attributes) in &survey.directories {
            // Those above come first.
            if self.journal.known.directories.get(path) == Some(attributes) {
                continue;
            }
            let dir = self.dst.dir(parent(path));
            let made = dir.and_then(|dir| Ok(mkdirat(&*dir, name(path), Mode::RWXU)?));
            match made {
                Ok(()) => drop(new.insert(parent(path).to_owned())),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    // One of another user stays as it is; each file in it says so, and an empty one is named here.
                    let there = self.dst.stat(path)?;
                    if let Err(why) = self.owners.check(path, &there, attributes.uid, &self.journal.known) {
                        self.tally.failed += 1;
                        self.tally.leave(path, why);
                        continue;
                    }
                }
                // Something else has the name; each file in it will say so.
                Err(error)
                    if matches!(
                        error.raw_os_error(),
                        Some(libc::ENOTDIR | libc::ELOOP | libc::ENAMETOOLONG)
                    ) =>
                {
                    continue;
                }
                Err(error) => return Err(error),
            }
            self.unfinished.insert(path.clone());
            self.journal.note(Entry::Directory { path: path.clone(), attributes: *attributes });
            *is_noted = false;
        }
        survey.directories.clear();
        Ok(())
    }

    /// Lets us write to a directory of the destination that has the mode of a read-only one already.
    pub(crate) fn open_up(&mut self, dir: &[u8]) {
        if self.journal.known.directories.contains_key(dir) {
            self.unfinished.insert(dir.to_owned());
        }
        if rustix::process::geteuid().is_root() {
            return;
        }
        for dir in crate::batch::ancestors(&join(dir, b"x")).collect::<Vec<_>>().into_iter().rev() {
            let Ok(stat) = self.dst.stat(dir) else { return };
            if kind(&stat) == FileType::Directory && stat.st_mode & 0o700 != 0o700 && !dir.is_empty() {
                let Ok(above) = self.dst.dir(parent(dir)) else { return };
                let mode = Mode::from_raw_mode(stat.st_mode & 0o7777 | 0o700);
                let _ = rustix::fs::chmodat(&*above, name(dir), mode, AtFlags::empty());
                self.unfinished.insert(dir.to_owned());
            }
        }
    }

    /// Gives directories the modes and times they have in the buffer: last, for what is made in them changes their times.
    pub fn finish_directories(
        &mut self,
        survey: &mut Survey,
        pace: &Pace,
    ) -> Result<Option<Fault>, StageError> {
        let _begun = pace.begin();
        if let Err(error) = self.check_destination() {
            return Ok(Some(error));
        }
        let (mut new, mut is_noted) = (BTreeSet::new(), true);
        let made = self.make_directories(survey, &mut new, &mut is_noted);
        if !is_noted {
            self.keep_journal()?;
        }
        // The deepest first: above it, the right to go there may go.
        let known = &self.journal.known.directories;
        let paths = std::mem::take(&mut self.unfinished).into_iter().rev();
        let paths: Vec<Vec<u8>> = paths.filter(|path| known.contains_key(path)).collect();
        for paths in paths.chunks(OPEN_AT_ONCE) {
            let (dirs, lost): (Vec<io::Result<Handle>>, Vec<Option<String>>) =
                paths.iter().map(|path| self.finished(path)).inspect(|_| pace.is_answered()).unzip();
            let synced = self.whole.sync_open(self.dst.top(), &dirs, || pace.is_answered());
            for ((path, synced), lost) in paths.iter().zip(synced).zip(lost) {
                let why = match synced {
                    Ok(()) => lost.map(|what| format!("{what} could not be kept")),
                    Err(error) => {
                        // Tried again when the next ones are finished.
                        self.unfinished.insert(path.clone());
                        Some(format!("mode and times could not be kept: {error}"))
                    }
                };
                self.lost.note(path, why, &mut self.tally);
            }
        }
        if let Err(error) = made {
            return Ok(Some(error));
        }
        let new: Vec<Vec<u8>> = new.into_iter().collect();
        Ok(self.whole.sync_directories(&self.dst, &new, || {}).into_iter().find_map(Result::err))
    }

    /// A directory of the destination that now has the mode and times it has in the buffer, and what it has not. It is open: that it can be
    /// opened again is not said.
    fn finished(&self, path: &[u8]) -> (io::Result<Handle>, Option<String>) {
        let finish = || {
            let dir = self.dst.dir(path)?;
            let known = &self.journal.known;
            let Some(attributes) = known.directories.get(path) else { return Ok((dir, None)) };
            // Another may have its name by now.
            self.owners
                .check(path, &fstat(&*dir)?, attributes.uid, known)
                .map_err(|why| io::Error::new(io::ErrorKind::PermissionDenied, why))?;
            let lost = match self.src.dir(path) {
                Ok(src) => metadata::copy(&*src, &*dir, attributes)?,
                Err(_) => metadata::apply(&*dir, attributes)?,
            };
            Ok((dir, lost))
        };
        match finish() {
            Ok((dir, lost)) => (Ok(dir), lost),
            Err(error) => (Err(error), None),
        }
    }
}
