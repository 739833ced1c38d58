//! Room in the buffer: what is safe elsewhere goes, unless somebody wants to write to it.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{
    AtFlags, Mode, OFlags, RenameFlags, Timespec, Timestamps, UTIME_OMIT, fstat, futimens, openat,
    readlinkat, renameat_with, statat, unlinkat,
};

use crate::batch::stored;
use crate::checksum::Checksum;
use crate::closed::How;
use crate::dirs::{name, parent};
use crate::error::StageError;
use crate::journal::{Entry, Safe};
use crate::numbers::{Numbers, is_copy_of};
use crate::stager::{Handle, Stager};
use crate::sys::Lease;

/// How many files are on their way out at a time; those who want to write to one of them wait meanwhile.
const GROUP: usize = 64;
/// Who had found a file by its name just before it went has asked for it by then.
const GRACE: Duration = Duration::from_millis(2);

/// A file that is about to go: its name in the trash, where it is, and it itself unless it is a symbolic link.
type Leaving<'a> = (u64, &'a [u8], Safe, Handle, Option<File>);

/// A file in the trash, and where it came from.
struct Trashed<'a> {
    n: u64,
    path: &'a [u8],
    numbers: Numbers,
    dir: Handle,
    /// `None` of a symbolic link, which nobody can write to.
    file: Option<&'a File>,
    lease: Option<Lease<'a>>,
}

/// A directory of the buffer that files were moved from or to.
#[derive(Debug)]
pub(crate) struct Touched {
    dir: Handle,
    /// Its time of change before, and after the last of our moves.
    before: Timespec,
    after: Timespec,
}

/// A file in the trash of which no lease tells whether somebody writes to it: time does.
#[derive(Debug)]
pub(crate) struct Resting {
    n: u64,
    path: Vec<u8>,
    pub(crate) numbers: Numbers,
    since: Instant,
}

impl Stager {
    /// Removes safe files, the oldest first, until `n_bytes` have gone. Returns how many have.
    pub fn purge(&mut self, n_bytes: u64) -> Result<u64, StageError> {
        if self.check_destination().is_err() {
            return Ok(0);
        }
        self.src.forget();
        let mut gone = self.remove_rested()?;
        // What will go by itself counts as if it had.
        let mut planned = gone + self.resting.iter().map(|one| one.numbers.size).sum::<u64>();
        while planned < n_bytes && !self.removable.is_empty() {
            let group = self.next_group();
            if group.is_empty() {
                break;
            }
            let (removed, begun) = self.purge_group(&group, n_bytes - planned)?;
            gone += removed;
            planned += removed + begun;
        }
        self.tally.purged_bytes = self.journal.known.purged_bytes;
        self.tally.used_bytes = self.tally.used_bytes.saturating_sub(gone);
        Ok(gone)
    }

    /// The oldest files that may be removed, as far as they are still safe and there.
    fn next_group(&mut self) -> Vec<(Vec<u8>, Safe)> {
        let mut group = Vec::new();
        let (mut inodes, mut later) = (HashSet::new(), Vec::new());
        while group.len() < GROUP
            && let Some((age, path)) = self.removable.pop_first()
        {
            let known = &self.journal.known;
            let safe = known.safe.get(&path).copied().filter(|_| !known.purged.contains(&path));
            let Some(safe) = safe else { continue };
            let ino = safe.numbers.ino;
            // Another name of one of them: removing that changes this one's time of change.
            match !self.half_linked.contains_key(&ino) && inodes.insert(ino) {
                true => group.push((path, safe)),
                false => later.push((age, path)),
            }
        }
        self.removable.extend(later);
        group
    }

    /// Returns how many bytes have gone, and how many will when they have been in the trash for long enough.
    fn purge_group(&mut self, group: &[(Vec<u8>, Safe)], n_bytes: u64) -> Result<(u64, u64), StageError> {
        let mut files: Vec<Leaving<'_>> = Vec::new();
        let mut planned = 0;
        for (path, safe) in group {
            if planned >= n_bytes {
                // Not needed now.
                self.removable.insert((safe.numbers.mtime_ns, path.clone()));
                continue;
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
            return Ok((0, 0));
        }
        // Durable before anything moves: after a crash it says where what is in the trash belongs.
        self.keep_journal()?;
        let mut trashed = Vec::new();
        let mut begun = 0;
        for (n, path, safe, dir, file) in &files {
            self.touch(parent(path), dir);
            let one = self.to_trash(*n, path, safe, dir, file.as_ref());
            self.has_moved(parent(path));
            match one {
                Some(one) if one.lease.is_some() || one.file.is_none() => trashed.push(one),
                Some(_) => {
                    begun += safe.numbers.size;
                    self.resting.push_back(Resting {
                        n: *n,
                        path: path.to_vec(),
                        numbers: safe.numbers,
                        since: Instant::now(),
                    });
                }
                None => self.journal.note(Entry::Back { n: *n }),
            }
        }
        if !trashed.is_empty() {
            thread::sleep(GRACE);
        }
        let mut gone = 0;
        let mut still_linked = HashMap::new();
        for one in trashed {
            gone += self.decide(one, &mut still_linked);
        }
        self.rename_others(&still_linked);
        self.settle()?;
        // Whether this is durable does not matter: what is not in the trash has gone.
        self.journal.write().map_err(StageError::io("cannot write", self.own_path()))?;
        Ok((gone, begun))
    }

    /// How long until the first file in the trash has been there for long enough; `None` if there is none.
    pub(crate) fn rests_for(&self) -> Option<Duration> {
        self.resting.front().map(|one| self.settings.in_trash.saturating_sub(one.since.elapsed()))
    }

    /// Removes what has been in the trash for long enough without a change, and returns how many bytes went. What changed goes back.
    pub(crate) fn remove_rested(&mut self) -> Result<u64, StageError> {
        let mut gone = 0;
        while self.rests_for().is_some_and(|left| left.is_zero())
            && let Some(one) = self.resting.pop_front()
        {
            let stat = statat(&self.trash, one.n.to_string(), AtFlags::SYMLINK_NOFOLLOW);
            if stat.is_ok_and(|stat| is_same_but_moved(&Numbers::of(&stat), &one.numbers)) {
                if unlinkat(&self.trash, one.n.to_string(), AtFlags::empty()).is_ok() {
                    self.is_trash_unsettled = true;
                    self.journal.note(Entry::Purged { n: one.n });
                    gone += one.numbers.size;
                }
            } else {
                self.bring_back(&one);
            }
        }
        self.settle()?;
        self.journal.write().map_err(StageError::io("cannot write", self.own_path()))?;
        Ok(gone)
    }

    /// Returns what has not been in the trash for long enough.
    pub(crate) fn return_resting(&mut self) -> Result<(), StageError> {
        for one in std::mem::take(&mut self.resting) {
            self.bring_back(&one);
        }
        self.settle()?;
        self.journal.write().map_err(StageError::io("cannot write", self.own_path()))
    }

    /// Puts a file back where it was. If that cannot be, it stays in the trash, and the next run tries.
    fn bring_back(&mut self, one: &Resting) {
        if self.return_one(one.n, &one.path).is_ok() {
            self.journal.note(Entry::Back { n: one.n });
            self.know_again(&one.path, &one.numbers);
        }
    }

    fn return_one(&mut self, n: u64, path: &[u8]) -> io::Result<()> {
        let dir = self.src.dir(parent(path))?;
        self.touch(parent(path), &dir);
        let back = renameat_with(&self.trash, n.to_string(), &*dir, name(path), RenameFlags::NOREPLACE);
        self.has_moved(parent(path));
        Ok(back?)
    }

    /// Remembers a directory that files are about to be moved from or to.
    fn touch(&mut self, path: &[u8], dir: &Handle) {
        self.is_trash_unsettled = true;
        if !self.touched.contains_key(path)
            && let Some(before) = changed_at(dir)
        {
            self.touched.insert(path.to_owned(), Touched { dir: Handle::clone(dir), before, after: before });
        }
    }

    fn has_moved(&mut self, path: &[u8]) {
        if let Some(touched) = self.touched.get_mut(path)
            && let Some(after) = changed_at(&touched.dir)
        {
            touched.after = after;
        }
    }

    /// Makes all moves durable. Directories get the times they had, unless others changed them since: that files went is our own doing.
    fn settle(&mut self) -> Result<(), StageError> {
        if !std::mem::take(&mut self.is_trash_unsettled) {
            return Ok(());
        }
        let touched = std::mem::take(&mut self.touched);
        for one in touched.values().filter(|one| changed_at(&one.dir) == Some(one.after)) {
            let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
            let _ = futimens(&one.dir, &Timestamps { last_access, last_modification: one.before });
        }
        let dirs: Vec<io::Result<Handle>> = touched.into_values().map(|one| Ok(one.dir)).collect();
        let synced = self.src_whole.sync_open(self.src.top(), &dirs, || {});
        let trash = rustix::fs::fsync(&self.trash).map_err(io::Error::from);
        (synced.into_iter().chain([trash]))
            .try_for_each(stored)
            .map_err(StageError::io("cannot store what was moved in", self.src.path()))
    }

    /// Removes a file once more that came back after a power failure, though it had been removed. Its copy stands; what came back may not be all of it.
    ///
    /// Returns whether it has gone. A later file may have got its inode, and somebody may write to it by now: those stay.
    pub(crate) fn remove_again(&mut self, path: &[u8], numbers: &Numbers) -> bool {
        let known = &self.journal.known;
        let is_back = known.purged.contains(path) && known.is_from_before(numbers);
        let is_it = |safe: &Safe| is_back && is_of_the_past(numbers, &safe.numbers);
        let Some(safe) = known.safe.get(path).copied().filter(is_it) else { return false };
        if !self.is_still_copied(path, &safe) {
            return false;
        }
        let now = Safe { numbers: *numbers, ..safe };
        let Some((dir, file)) = self.still_there(path, &now) else { return false };
        let file = file.as_ref().filter(|_| self.has_leases());
        let lease = file.map(|file| Lease::take(file).ok().flatten());
        if matches!(lease, Some(None)) {
            return false;
        }
        self.touch(parent(path), &dir);
        let is_gone = unlinkat(&*dir, name(path), AtFlags::empty()).is_ok();
        self.has_moved(parent(path));
        is_gone && self.settle().is_ok()
    }

    /// Whether an empty file is all that a power failure left of one that was about to be removed, and its copy stands.
    fn is_remnant(&self, path: &[u8], now: &Numbers, noted: &Numbers) -> bool {
        let known = &self.journal.known;
        now.size == 0
            && noted.size > 0
            && known.is_from_before(now)
            && known.safe.get(path).is_some_and(|safe| self.is_still_copied(path, safe))
    }

    /// A file that is where it was has another time of change. If that is all, it is as safe as before.
    fn know_again(&mut self, path: &[u8], before: &Numbers) {
        let Ok(stat) = self.src.stat(path) else { return };
        let numbers = Numbers::of(&stat);
        let safe = self.journal.known.safe.get(path).filter(|safe| safe.numbers == *before);
        if let Some(safe) = safe.copied().filter(|_| is_same_but_moved(&numbers, before)) {
            self.journal.note(Entry::Safe { path: path.to_owned(), safe: Safe { numbers, ..safe } });
        }
    }

    /// Opens a file that is the version that is safe; a link cannot be opened, and need not.
    fn still_there(&self, path: &[u8], safe: &Safe) -> Option<(Handle, Option<File>)> {
        let dir = self.src.dir(parent(path)).ok()?;
        if safe.is_link {
            let stat = statat(&*dir, name(path), AtFlags::SYMLINK_NOFOLLOW).ok()?;
            return (Numbers::of(&stat) == safe.numbers).then_some((dir, None));
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(openat(&*dir, name(path), flags, Mode::empty()).ok()?);
        (Numbers::of(&fstat(&file).ok()?) == safe.numbers).then_some((dir, Some(file)))
    }

    /// Whether the copy is where it was put.
    fn is_still_copied(&self, path: &[u8], safe: &Safe) -> bool {
        if safe.is_link {
            let read = |dir: Handle| Ok(readlinkat(&*dir, name(path), Vec::new())?);
            let target: io::Result<_> = self.dst.dir(parent(path)).and_then(read);
            return target.is_ok_and(|target| Checksum::of(target.to_bytes()) == safe.checksum);
        }
        self.dst.stat(path).is_ok_and(|stat| is_copy_of(&stat, &safe.numbers))
    }

    /// Moves a file to the trash, under a lease.
    fn to_trash<'a>(
        &self,
        n: u64,
        path: &'a [u8],
        safe: &Safe,
        dir: &Handle,
        file: Option<&'a File>,
    ) -> Option<Trashed<'a>> {
        let lease = match file {
            // Where leases work, they count for more than a flag.
            Some(file) if safe.how == How::Lease || self.has_leases() => Some(Lease::take(file).ok()??),
            _ => None,
        };
        let named = statat(&**dir, name(path), AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let is_it = match file {
            Some(file) => Numbers::of(&fstat(file).ok()?) == safe.numbers && named.st_ino == safe.numbers.ino,
            None => Numbers::of(&named) == safe.numbers,
        };
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
    fn decide(&mut self, one: Trashed<'_>, still_linked: &mut HashMap<u64, (Numbers, Numbers)>) -> u64 {
        let stat = match one.file {
            Some(file) => fstat(file),
            None => statat(&self.trash, one.n.to_string(), AtFlags::SYMLINK_NOFOLLOW),
        };
        let is_same = stat.is_ok_and(|stat| is_same_but_moved(&Numbers::of(&stat), &one.numbers));
        let is_wanted = one.file.is_some() && !one.lease.as_ref().is_some_and(Lease::is_unbroken);
        if is_wanted || !is_same {
            let is_back = self.put_back(&one).is_ok();
            self.has_moved(parent(one.path));
            if is_back {
                self.journal.note(Entry::Back { n: one.n });
            }
            return 0;
        }
        if unlinkat(&self.trash, one.n.to_string(), AtFlags::empty()).is_err() {
            return 0;
        }
        self.is_trash_unsettled = true;
        self.journal.note(Entry::Purged { n: one.n });
        let left = one.file.and_then(|file| fstat(file).ok());
        if let Some(stat) = left.filter(|stat| stat.st_nlink > 0) {
            let entry = still_linked.entry(one.numbers.ino).or_insert((one.numbers, one.numbers));
            entry.1 = Numbers::of(&stat);
        }
        one.numbers.size
    }

    /// Other names of the same files have another time of change now, and nothing else has changed.
    fn rename_others(&mut self, still_linked: &HashMap<u64, (Numbers, Numbers)>) {
        if still_linked.is_empty() {
            return;
        }
        let known = &self.journal.known;
        let others: Vec<(Vec<u8>, Safe)> = (known.safe.iter())
            .filter_map(|(path, safe)| {
                let (before, now) = still_linked.get(&safe.numbers.ino)?;
                (safe.numbers == *before && !known.purged.contains(path))
                    .then(|| (path.clone(), Safe { numbers: *now, ..*safe }))
            })
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
                self.note_untrashed(n, &path, &numbers);
                continue;
            };
            let now = Numbers::of(&stat);
            let is_same = is_same_but_moved(&now, &numbers);
            if self.is_remnant(&path, &now, &numbers) {
                let _ = unlinkat(&self.trash, &trash, AtFlags::empty());
                self.is_trash_unsettled = true;
                self.journal.note(Entry::Purged { n });
                continue;
            }
            // Moved back, it would look like a version of this boot.
            if !is_same && self.journal.known.is_from_before(&now) {
                self.stranded.push((n, path));
                continue;
            }
            match self.return_one(n, &path) {
                Ok(()) => {
                    self.journal.note(Entry::Back { n });
                    self.know_again(&path, &numbers);
                }
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
        self.settle()?;
        self.keep_journal()
    }

    /// Notes what became of a file that is not in the trash: it was never moved, was put back, or was removed.
    fn note_untrashed(&mut self, n: u64, path: &[u8], numbers: &Numbers) {
        let there = self.src.stat(path).ok().map(|stat| Numbers::of(&stat));
        let is_remnant = there
            .is_some_and(|there| is_of_the_past(&there, numbers) && self.is_remnant(path, &there, numbers));
        if is_remnant && let Ok(dir) = self.src.dir(parent(path)) {
            self.touch(parent(path), &dir);
            let _ = unlinkat(&*dir, name(path), AtFlags::empty());
            self.has_moved(parent(path));
        }
        let is_back = there.is_some() && !is_remnant;
        self.journal.note(if is_back { Entry::Back { n } } else { Entry::Purged { n } });
    }
}

/// When the entries of a directory last changed.
fn changed_at(dir: &Handle) -> Option<Timespec> {
    let stat = fstat(dir).ok()?;
    Some(Timespec { tv_sec: stat.st_mtime, tv_nsec: stat.st_mtime_nsec as _ })
}

/// Whether this is what a disk had of a version that was noted, or had before; whoever gets the inode later has a later time.
fn is_of_the_past(now: &Numbers, noted: &Numbers) -> bool {
    now.ino == noted.ino && now.ctime_ns <= noted.ctime_ns
}

/// Whether nothing has changed but the time of change: a move changes that.
fn is_same_but_moved(now: &Numbers, before: &Numbers) -> bool {
    (now.ino, now.size, now.mtime_ns) == (before.ino, before.size, before.mtime_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::Pace;
    use crate::tally::{Purge, Settings};
    use iotide_testkit::FreshDir;
    use std::fs;
    use std::path::Path;

    /// A buffer on a file system without leases, with files that have their flags.
    fn flagged(dir: &FreshDir, in_trash: Duration) -> Stager {
        for name in ["src", "dst"] {
            fs::create_dir(dir.join(name)).unwrap();
        }
        for name in ["a", "a.done", "b", "b.done", "c"] {
            dir.write(Path::new("src").join(name), name);
        }
        let settings = Settings {
            flag: Some("{}.done".to_owned()),
            quiet: Duration::from_millis(20),
            purge: Purge::Staged,
            in_trash,
            ..Settings::default()
        };
        let mut stager = Stager::open(&dir.join("src"), &dir.join("dst"), settings, &Pace::free()).unwrap();
        stager.distrust_leases();
        thread::sleep(Duration::from_millis(25));
        let mut survey = stager.look();
        stager.stage(&mut survey, &Pace::free()).unwrap();
        stager
    }

    fn names(dir: &FreshDir) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(dir.join("src")).unwrap().flatten().map(|one| one.file_name()).collect();
        names.sort();
        names
            .into_iter()
            .map(|name| name.into_string().unwrap())
            .filter(|name| !name.starts_with('.'))
            .collect()
    }

    #[test]
    fn without_leases_a_flagged_file_rests_in_the_trash_and_goes_unless_it_changes_there() {
        let dir = FreshDir::new("stage-rest");
        let mut stager = flagged(&dir, Duration::from_millis(200));
        let mut writer = File::options().append(true).open(dir.join("src/b")).unwrap();
        assert_eq!(stager.purge(u64::MAX).unwrap(), 0);
        // One without a flag was not copied, and stays.
        assert_eq!((names(&dir), stager.resting.len()), (vec!["c".to_owned()], 4));
        io::Write::write_all(&mut writer, b" and more").unwrap();
        while !stager.resting.is_empty() {
            thread::sleep(stager.rests_for().unwrap());
            stager.remove_rested().unwrap();
        }
        assert_eq!(names(&dir), ["b", "c"]);
        assert_eq!(fs::read_to_string(dir.join("src/b")).unwrap(), "b and more");
        assert_eq!(stager.journal.known.purged.len(), 3);
    }

    #[test]
    fn what_rested_too_short_comes_back_at_the_end_and_after_a_kill() {
        let dir = FreshDir::new("stage-rest-back");
        let mut stager = flagged(&dir, Duration::from_secs(3600));
        stager.purge(u64::MAX).unwrap();
        assert_eq!(names(&dir), ["c"]);
        assert_eq!(stager.look().n_due(), 0);
        assert_eq!(stager.tally().safe, 4);
        stager.return_resting().unwrap();
        assert_eq!(names(&dir), ["a", "a.done", "b", "b.done", "c"]);
        stager.look();
        stager.purge(u64::MAX).unwrap();
        assert_eq!(names(&dir), ["c"]);
        let settings = stager.settings.clone();
        drop(stager);
        drop(Stager::open(&dir.join("src"), &dir.join("dst"), settings, &Pace::free()).unwrap());
        assert_eq!(names(&dir), ["a", "a.done", "b", "b.done", "c"]);
    }
}
