//! Room in the buffer: what is safe elsewhere goes, unless somebody wants to write to it.

use std::fs::File;
use std::io;
use std::thread;
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, fstat, openat, renameat_with, statat, unlinkat};

use crate::dirs::{name, parent};
use crate::error::StageError;
use crate::journal::{Entry, Safe};
use crate::numbers::{Attributes, Numbers};
use crate::stager::{Handle, Stager};
use crate::sys::Lease;

/// How many files are on their way out at a time; those who want to write to one of them wait meanwhile.
const GROUP: usize = 64;
/// Who had found a file by its name just before it went has asked for it by then.
const GRACE: Duration = Duration::from_millis(2);

/// A file in the trash, and where it came from.
struct Trashed<'a> {
    n: u64,
    path: &'a [u8],
    numbers: Numbers,
    dir: Handle,
    file: &'a File,
    lease: Lease<'a>,
}

impl Stager {
    /// Removes safe files, the oldest first, until `n_bytes` have gone. Returns how many have.
    pub fn purge(&mut self, n_bytes: u64) -> Result<u64, StageError> {
        if !self.has_leases() || self.check_destination().is_err() {
            return Ok(0);
        }
        self.src.forget();
        let known = &self.journal.known;
        let is_there = |path: &Vec<u8>| !known.purged.contains(path);
        let mut safe: Vec<(Vec<u8>, Safe)> = (known.safe.iter())
            .filter(|(path, safe)| safe.is_sure && !safe.is_link && is_there(path))
            .map(|(path, safe)| (path.clone(), *safe))
            .collect();
        safe.sort_by(|one, other| {
            (one.1.numbers.mtime_ns, &one.0).cmp(&(other.1.numbers.mtime_ns, &other.0))
        });
        let mut gone = 0;
        for group in safe.chunks(GROUP) {
            if gone >= n_bytes {
                break;
            }
            gone += self.purge_group(group, n_bytes - gone)?;
        }
        self.tally.purged_bytes = self.journal.known.purged_bytes;
        self.tally.used_bytes = self.tally.used_bytes.saturating_sub(gone);
        Ok(gone)
    }

    fn purge_group(&mut self, group: &[(Vec<u8>, Safe)], n_bytes: u64) -> Result<u64, StageError> {
        let mut files: Vec<(u64, &[u8], Safe, Handle, File)> = Vec::new();
        let mut planned = 0;
        for (path, safe) in group {
            if planned >= n_bytes && n_bytes != u64::MAX {
                break;
            }
            let Some((dir, file)) = self.still_there(path, safe) else { continue };
            if !self.is_still_copied(path, safe) {
                continue;
            }
            let n = self.journal.known.next_trash;
            self.journal.note(Entry::Purging { n, path: path.clone(), numbers: safe.numbers });
            planned += safe.numbers.size;
            files.push((n, path, *safe, dir, file));
        }
        if files.is_empty() {
            return Ok(0);
        }
        // Durable before anything moves: after a crash it says where what is in the trash belongs.
        self.keep_journal()?;
        let mut trashed = Vec::new();
        for (n, path, safe, dir, file) in &files {
            match self.to_trash(*n, path, safe, dir, file) {
                Some(one) => trashed.push(one),
                None => self.journal.note(Entry::Back { n: *n }),
            }
        }
        thread::sleep(GRACE);
        let mut gone = 0;
        for one in trashed {
            gone += self.decide(one);
        }
        // Whether this is durable does not matter: what is not in the trash has gone.
        self.journal.write().map_err(StageError::io("cannot write", self.own_path()))?;
        Ok(gone)
    }

    /// Opens a file that is the version that is safe.
    fn still_there(&self, path: &[u8], safe: &Safe) -> Option<(Handle, File)> {
        let dir = self.src.dir(parent(path)).ok()?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(openat(&*dir, name(path), flags, Mode::empty()).ok()?);
        (Numbers::of(&fstat(&file).ok()?) == safe.numbers).then_some((dir, file))
    }

    /// Whether the copy is where it was put.
    fn is_still_copied(&self, path: &[u8], safe: &Safe) -> bool {
        self.dst.stat(path).is_ok_and(|stat| {
            let attributes = Attributes::of(&stat);
            (Numbers::of(&stat).size, attributes.mtime_ns) == (safe.numbers.size, safe.numbers.mtime_ns)
        })
    }

    /// Moves a file to the trash, under a lease.
    fn to_trash<'a>(
        &self,
        n: u64,
        path: &'a [u8],
        safe: &Safe,
        dir: &Handle,
        file: &'a File,
    ) -> Option<Trashed<'a>> {
        let lease = Lease::take(file).ok()??;
        let is_it = Numbers::of(&fstat(file).ok()?) == safe.numbers
            && statat(&**dir, name(path), AtFlags::SYMLINK_NOFOLLOW).ok()?.st_ino == safe.numbers.ino;
        if !is_it {
            return None;
        }
        let trash = n.to_string();
        renameat_with(&**dir, name(path), &self.trash, &trash, RenameFlags::NOREPLACE).ok()?;
        let trashed = Trashed { n, path, numbers: safe.numbers, dir: Handle::clone(dir), file, lease };
        // Somebody may have put another file in its place just then.
        let moved = statat(&self.trash, &trash, AtFlags::SYMLINK_NOFOLLOW);
        if moved.is_ok_and(|moved| moved.st_ino == safe.numbers.ino) {
            return Some(trashed);
        }
        self.put_back(&trashed).ok();
        None
    }

    /// Removes a file in the trash if nobody has asked for it, and returns how many bytes went.
    fn decide(&mut self, one: Trashed<'_>) -> u64 {
        let stat = fstat(one.file);
        let is_same = stat.as_ref().is_ok_and(|stat| {
            let now = Numbers::of(stat);
            // The move itself changed the time of change.
            (now.ino, now.size, now.mtime_ns) == (one.numbers.ino, one.numbers.size, one.numbers.mtime_ns)
        });
        if !one.lease.is_unbroken() || !is_same {
            if self.put_back(&one).is_ok() {
                self.journal.note(Entry::Back { n: one.n });
            }
            return 0;
        }
        if unlinkat(&self.trash, one.n.to_string(), AtFlags::empty()).is_err() {
            return 0;
        }
        self.journal.note(Entry::Purged { n: one.n });
        if let Some(stat) = fstat(one.file).ok().filter(|stat| stat.st_nlink > 0) {
            self.rename_others(one.numbers, Numbers::of(&stat));
        }
        one.numbers.size
    }

    /// Other names of the same file have another time of change now, and nothing else has changed.
    fn rename_others(&mut self, before: Numbers, now: Numbers) {
        let others: Vec<(Vec<u8>, Safe)> = (self.journal.known.safe.iter())
            .filter(|(path, safe)| safe.numbers == before && !self.journal.known.purged.contains(*path))
            .map(|(path, safe)| (path.clone(), Safe { numbers: now, ..*safe }))
            .collect();
        for (path, safe) in others {
            self.journal.note(Entry::Safe { path, safe });
        }
    }

    fn put_back(&self, one: &Trashed<'_>) -> io::Result<()> {
        let (trash, to) = (one.n.to_string(), name(one.path));
        Ok(renameat_with(&self.trash, trash, &*one.dir, to, RenameFlags::NOREPLACE)?)
    }

    /// Returns what an earlier run had in the trash when it was killed.
    pub(crate) fn return_trash(&mut self) -> Result<(), StageError> {
        for (n, (path, numbers)) in self.journal.known.purging.clone() {
            let trash = n.to_string();
            let Ok(stat) = statat(&self.trash, &trash, AtFlags::SYMLINK_NOFOLLOW) else {
                // Never moved, put back, or removed.
                let is_there = self.src.stat(&path).is_ok();
                self.journal.note(if is_there { Entry::Back { n } } else { Entry::Purged { n } });
                continue;
            };
            let back = self.src.dir(parent(&path)).and_then(|dir| {
                Ok(renameat_with(&self.trash, &trash, &*dir, name(&path), RenameFlags::NOREPLACE)?)
            });
            let now = Numbers::of(&stat);
            let is_same = (now.ino, now.size, now.mtime_ns) == (numbers.ino, numbers.size, numbers.mtime_ns);
            match back {
                Ok(()) => self.journal.note(Entry::Back { n }),
                // A newer file has the name, and this version is safe.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_same => {
                    let _ = unlinkat(&self.trash, &trash, AtFlags::empty());
                    self.journal.note(Entry::Back { n });
                }
                // Its directory went, and it is safe.
                Err(error) if error.kind() == io::ErrorKind::NotFound && is_same => {
                    let _ = unlinkat(&self.trash, &trash, AtFlags::empty());
                    self.journal.note(Entry::Purged { n });
                }
                // Somebody wrote to it while it was on its way out: it stays where it is.
                Err(_) => {}
            }
        }
        self.keep_journal()
    }
}
