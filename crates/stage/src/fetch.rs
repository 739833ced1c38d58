//! The other way: inputs into the buffer, in the order in which they will be read.

use std::collections::{BTreeSet, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::{FileType, Mode, mkdirat};

use crate::OWN;
use crate::batch::{Course, Failure, Task, What, ancestors};
use crate::closed::{How, Prober};
use crate::copy::Clones;
use crate::dirs::{Dirs, is_plain, name, parent};
use crate::durable::Whole;
use crate::error::StageError;
use crate::journal::{Direction, Entry, Journal, Safe};
use crate::metadata;
use crate::numbers::{Attributes, Numbers, kind};
use crate::owners::Owners;
use crate::pace::Pace;
use crate::stager::{Fault, is_nested, more_descriptors, new_id, own_folder, real, remove_temps};
use crate::tally::Tally;
use crate::walk::walk;

/// Which files are wanted, in order, as paths below the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The paths; a directory stands for all that is in it.
    pub paths: Vec<Vec<u8>>,
}

impl Wanted {
    /// Reads a list: a path on each line, or between zero bytes if there are any; below `src`, or with it before.
    pub fn parse(list: &[u8], src: &Path) -> Result<Self, String> {
        let separator = if list.contains(&0) { 0 } else { b'\n' };
        let top = [src.as_os_str().as_bytes(), b"/"].concat();
        let mut paths = Vec::new();
        for (number, line) in (1..).zip(list.split(|byte| *byte == separator)) {
            let path = line.strip_prefix(&top[..]).unwrap_or(line);
            let path = path.strip_prefix(b"./").unwrap_or(path);
            let path = path.strip_suffix(b"/").unwrap_or(path);
            if line.is_empty() {
                continue;
            }
            if !is_plain(path) {
                let shown = String::from_utf8_lossy(line);
                return Err(format!("line {number}: '{shown}' is no path below {}", src.display()));
            }
            paths.push(path.to_owned());
        }
        Ok(Self { paths })
    }
}

/// Limits of a batch: files get their names when all of it is there, so that what is needed first must not wait for much else.
const MAX_FILES: usize = 256;
const MAX_BYTES: u64 = 64 << 20;

/// How many of the next files make a batch: at least one.
fn n_in_batch(due: &[Task], max_files: usize) -> usize {
    let mut n_bytes = 0u64;
    let fits = |task: &&Task| {
        n_bytes = n_bytes.saturating_add(task.numbers.size);
        n_bytes <= MAX_BYTES
    };
    due.iter().take(max_files).take_while(fits).count().max(1)
}

/// How much may come.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Bytes of inputs in the buffer at most, those included that are there.
    pub max_bytes: u64,
    /// Bytes that are free in the buffer's file system.
    pub free_bytes: u64,
}

impl Room {
    /// Whether there is room for `size` bytes beside `total` of which `new` are not yet there.
    fn has(&self, total: u64, new: u64, size: u64) -> bool {
        let fits = |used: u64, limit| used.checked_add(size).is_some_and(|sum| sum <= limit);
        fits(total, self.max_bytes) && fits(new, self.free_bytes)
    }
}

/// A source of inputs and a buffer for them.
#[derive(Debug)]
pub struct Fetch {
    src: Dirs,
    dst: Dirs,
    journal: Journal,
    owners: Owners,
    id: u64,
    n_temps: AtomicU64,
    has_leftovers: Arc<AtomicBool>,
    clones: Clones,
    whole: Whole,
    n_jobs: usize,
    max_files: usize,
}

impl Fetch {
    /// Takes a source, of which nothing is changed, and a buffer.
    pub fn open(src: &Path, dst: &Path, n_jobs: usize) -> Result<Self, StageError> {
        let (src_path, dst_path) = (real(src)?, real(dst)?);
        if is_nested(&src_path, &dst_path) {
            return Err(StageError::Nested { src: src_path, dst: dst_path });
        }
        let src = Dirs::open(&src_path).map_err(StageError::io("cannot open", &src_path))?;
        let dst = Dirs::open(&dst_path).map_err(StageError::io("cannot open", &dst_path))?;
        let used = |error| StageError::io("cannot use", dst_path.join(OWN))(error);
        let own = own_folder(&dst, Mode::RWXU).map_err(used)?;
        let owners = Owners::of(&own).map_err(used)?;
        let journal = Journal::open(&own).map_err(used)?;
        let mut journal = journal.ok_or_else(|| StageError::Taken { path: dst_path.clone() })?;
        let other = src_path.as_os_str().as_bytes();
        let id = match &journal.known.head {
            Some((id, Direction::In, former)) if former == other => *id,
            Some((_, _, former)) => {
                let former = Path::new(std::ffi::OsStr::from_bytes(former)).to_owned();
                return Err(StageError::OtherDestination { path: dst_path, former });
            }
            None => {
                let id = new_id().map_err(used)?;
                journal.note(Entry::Head { id, direction: Direction::In, other: other.to_owned() });
                journal.sync().map_err(used)?;
                id
            }
        };
        let (n_temps, max_files) = (AtomicU64::new(0), more_descriptors());
        remove_temps(&dst, &journal, id, &Pace::free());
        let (clones, whole) = (Clones::default(), Whole::of(dst.top()));
        let has_leftovers = Arc::default();
        Ok(Self { src, dst, journal, owners, id, n_temps, has_leftovers, clones, whole, n_jobs, max_files })
    }

    /// The source, links on the way resolved.
    pub fn source(&self) -> &Path {
        self.src.path()
    }

    /// Bytes that are free in the buffer's file system; no limit if it does not say.
    pub fn free_bytes(&self) -> u64 {
        rustix::fs::fstatvfs(self.dst.top())
            .map_or(u64::MAX, |about| about.f_bavail.saturating_mul(about.f_frsize))
    }

    /// Brings the files that are wanted (all, without a list), in their order, as far as there is room.
    pub fn run(
        &mut self,
        wanted: Option<&Wanted>,
        room: Room,
        pace: &Pace,
    ) -> Result<(Tally, Option<Fault>), StageError> {
        let mut tally = Tally::default();
        let (tasks, dirs) = self.tasks(wanted, &mut tally);
        let mut due = Vec::new();
        let (mut total, mut new) = (0u64, 0u64);
        for task in tasks {
            let size = task.numbers.size;
            if self.is_there(&task) {
                tally.safe += 1;
                tally.bytes_safe += size;
                total = total.saturating_add(size);
            } else if !room.has(total, new, size) {
                tally.waiting += 1;
                tally.backlog_bytes += size;
                tally.leave(&task.path, "there is no room for it");
            } else {
                (total, new) = (total.saturating_add(size), new.saturating_add(size));
                due.push(task);
            }
        }
        // Written and read back.
        pace.expect(new.saturating_mul(2));
        let mut due = &due[..];
        while !due.is_empty() {
            let (tasks, later) = due.split_at(n_in_batch(due, self.max_files.min(MAX_FILES)));
            if let Some(fault) = self.bring(tasks, pace, &mut tally)? {
                self.finish_directories();
                return Ok((tally, Some(fault)));
            }
            due = later;
        }
        if let Err(error) = self.make_directories(&dirs) {
            return Ok((tally, Some(error)));
        }
        self.finish_directories();
        if self.has_leftovers.swap(false, Ordering::Relaxed) {
            tally.report_leftovers(remove_temps(&self.dst, &self.journal, self.id, pace));
        }
        tally.used_bytes = tally.bytes_safe;
        Ok((tally, None))
    }

    /// The files that are wanted, in their order, and the directories, those that are empty too.
    fn tasks(&self, wanted: Option<&Wanted>, tally: &mut Tally) -> (Vec<Task>, Vec<Vec<u8>>) {
        let whole = Wanted { paths: vec![Vec::new()] };
        let (mut tasks, mut dirs) = (Vec::new(), Vec::new());
        let mut seen = HashSet::new();
        for path in &wanted.unwrap_or(&whole).paths {
            let stat = match self.src.stat(path) {
                Ok(stat) => stat,
                Err(error) => {
                    tally.failed += 1;
                    tally.leave(path, error.to_string());
                    continue;
                }
            };
            if kind(&stat) != FileType::Directory {
                self.add(path.clone(), &stat, &mut tasks, &mut seen, tally);
                continue;
            }
            let walked = walk(&self.src);
            let is_below = |other: &[u8]| {
                path.is_empty()
                    || other.strip_prefix(&path[..]).is_some_and(|rest| rest.first() == Some(&b'/'))
            };
            for (path, why) in walked.errors.into_iter().filter(|(path, _)| is_below(path)) {
                tally.failed += 1;
                tally.leave(&path, why);
            }
            let mut found: Vec<_> = walked.found.into_iter().filter(|found| is_below(&found.path)).collect();
            found.sort_by(|one, other| one.path.cmp(&other.path));
            dirs.push(path.clone());
            for found in found {
                match kind(&found.stat) {
                    FileType::Directory => dirs.push(found.path),
                    _ => self.add(found.path, &found.stat, &mut tasks, &mut seen, tally),
                }
            }
        }
        (tasks, dirs)
    }

    fn add(
        &self,
        path: Vec<u8>,
        stat: &rustix::fs::Stat,
        tasks: &mut Vec<Task>,
        seen: &mut HashSet<Vec<u8>>,
        tally: &mut Tally,
    ) {
        let what = match kind(stat) {
            FileType::RegularFile => What::File,
            FileType::Symlink => What::SymbolicLink,
            _ => return tally.special.push(path),
        };
        if seen.insert(path.clone()) {
            let (numbers, attributes) = (Numbers::of(stat), Attributes::of(stat));
            tasks.push(Task { path, numbers, attributes, what, is_flagged: false });
        }
    }

    /// Whether the version of the source is in the buffer, brought by us and unchanged since.
    fn is_there(&self, task: &Task) -> bool {
        let Ok(stat) = self.dst.stat(&task.path) else { return false };
        let now = Numbers::of(&stat);
        // Where copies have no times, nothing tells of a source that changed since: it is brought again.
        self.journal.known.safe.get(&task.path).is_some_and(|safe| safe.numbers == now)
            && !now.are_timeless()
            && (now.size, now.mtime_ns) == (task.numbers.size, task.numbers.mtime_ns)
    }

    fn bring(&mut self, tasks: &[Task], pace: &Pace, tally: &mut Tally) -> Result<Option<Fault>, StageError> {
        let journal_path = self.dst.path().join(OWN).join(Journal::NAME);
        let failed = |error| StageError::io("cannot write", &journal_path)(error);
        let mut new = BTreeSet::new();
        let dirs: BTreeSet<&[u8]> = tasks.iter().flat_map(|task| ancestors(&task.path)).collect();
        for dir in dirs.into_iter().filter(|dir| !dir.is_empty()) {
            if let Err(error) = self.make_directory(dir, &mut new) {
                return Ok(Some(error));
            }
        }
        if !new.is_empty() {
            self.journal.sync().map_err(failed)?;
        }
        let prober = Prober::trusting();
        let (trees, paths) = ((&self.src, &self.dst), tasks.iter().map(|task| &task.path[..]));
        let refused_dirs = self.owners.refused_directories(trees, paths, &self.journal.known);
        let course = Course {
            src: &self.src,
            dst: &self.dst,
            prober: &prober,
            pace,
            id: self.id,
            n_temps: &self.n_temps,
            has_leftovers: &self.has_leftovers,
            clones: &self.clones,
            whole: &self.whole,
            synced_source: None,
            known: &self.journal.known,
            owners: self.owners,
            refused_dirs,
            n_jobs: self.n_jobs,
        };
        let mut fault = None;
        for (task, outcome) in tasks.iter().zip(course.run(tasks, &new)) {
            let size = task.numbers.size;
            match outcome {
                Ok(landed) => {
                    let Ok(stat) = self.dst.stat(&task.path) else { continue };
                    tally.safe += 1;
                    tally.bytes_safe += size;
                    let is_link = task.what == What::SymbolicLink;
                    let safe = Safe {
                        numbers: Numbers::of(&stat),
                        checksum: landed.checksum,
                        how: How::Scan,
                        is_link,
                    };
                    self.journal.note(Entry::Safe { path: task.path.clone(), safe });
                    continue;
                }
                Err(Failure::Fault(error)) => {
                    tally.failed += 1;
                    tally.leave(&task.path, error.to_string());
                    fault.get_or_insert(error);
                }
                Err(Failure::Left(why)) => {
                    tally.failed += 1;
                    tally.leave(&task.path, why);
                }
                Err(Failure::Open | Failure::Changed) => {
                    tally.waiting += 1;
                    tally.leave(&task.path, "it changed while it was copied");
                }
                Err(Failure::Stopped) => {
                    tally.waiting += 1;
                    tally.leave(&task.path, "stopped before its turn");
                }
            }
            tally.backlog_bytes += size;
        }
        self.journal.sync().map_err(failed)?;
        Ok(fault)
    }

    /// Makes directories that no file has brought with it, durably.
    fn make_directories(&mut self, dirs: &[Vec<u8>]) -> io::Result<()> {
        let mut new = BTreeSet::new();
        for dir in dirs.iter().filter(|dir| !dir.is_empty()) {
            let above: Vec<&[u8]> = ancestors(dir).filter(|above| !above.is_empty()).collect();
            for dir in above.into_iter().rev().chain([&dir[..]]) {
                self.make_directory(dir, &mut new)?;
            }
        }
        let new: Vec<Vec<u8>> = new.into_iter().collect();
        self.whole.sync_directories(&self.dst, &new, || {}).into_iter().collect::<io::Result<()>>()?;
        self.journal.sync()
    }

    fn make_directory(&mut self, path: &[u8], new: &mut BTreeSet<Vec<u8>>) -> io::Result<()> {
        if self.dst.dir(path).is_ok() {
            return Ok(());
        }
        let above = self.dst.dir(parent(path))?;
        match mkdirat(&*above, name(path), Mode::RWXU) {
            Ok(()) => {}
            Err(rustix::io::Errno::EXIST) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        new.insert(parent(path).to_owned());
        let attributes = self.src.stat(path).map(|stat| Attributes::of(&stat)).unwrap_or_default();
        self.journal.note(Entry::Directory { path: path.to_owned(), attributes });
        Ok(())
    }

    /// Gives directories that we made the modes they have in the source, last.
    fn finish_directories(&self) {
        let mut dirs: Vec<_> = self.journal.known.directories.iter().collect();
        dirs.sort_by(|one, other| other.0.cmp(one.0));
        for (path, attributes) in dirs {
            let is_ours = |dir: &OwnedFd| {
                let there = rustix::fs::fstat(dir).ok();
                there.is_some_and(|there| {
                    self.owners.check(path, &there, attributes.uid, &self.journal.known).is_ok()
                })
            };
            if let Ok(dir) = self.dst.dir(path)
                && is_ours(&dir)
            {
                let _ = metadata::apply(&*dir, attributes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;

    #[test]
    fn what_comes_first_is_there_before_much_else_has_come() {
        let task = |size| Task {
            path: b"x".to_vec(),
            numbers: Numbers { size, ..Numbers::default() },
            attributes: Attributes::default(),
            what: What::File,
            is_flagged: false,
        };
        let of = |sizes: &[u64]| n_in_batch(&sizes.iter().map(|size| task(*size)).collect::<Vec<_>>(), 3);
        assert_eq!(of(&[MAX_BYTES * 9, 1]), 1);
        assert_eq!(of(&[1, MAX_BYTES - 1, 1]), 2);
        assert_eq!(of(&[0, 0, 0, 0]), 3);
    }

    #[test]
    fn nothing_comes_while_the_job_does_io_and_nothing_more_once_it_is_over() {
        use crate::run::{Hint, Plan, fetch_in_gaps};
        use iotide_sched::staging::{Controller, Policy, Settings};
        use std::sync::{Arc, atomic::AtomicBool, mpsc};
        let dir = FreshDir::new("stage-fetch-gaps");
        for name in ["src", "dst"] {
            std::fs::create_dir(dir.join(name)).unwrap();
        }
        dir.write("src/input", "x");
        let mut fetch = Fetch::open(&dir.join("src"), &dir.join("dst"), 1).unwrap();
        let room = Room { max_bytes: 1, free_bytes: fetch.free_bytes() };
        let mut run = |first: Hint, ends: bool| {
            let (tell, hints) = mpsc::channel();
            tell.send(first).unwrap();
            let controller = Controller::new(Settings { quiet_s: 1e6, ..Settings::new(Policy::Gap) });
            let (is_over, is_draining) = (Arc::new(AtomicBool::new(false)), Arc::default());
            let began = std::time::Instant::now();
            let plan = Plan {
                controller,
                began,
                hints,
                is_over,
                deadline: None,
                is_withdrawn: Arc::default(),
                is_draining,
            };
            let pace = Pace::free();
            let pace = &pace;
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    while ends && pace.unanswered_for().is_none() {
                        std::thread::yield_now();
                    }
                    // It has asked for leave, and gets none.
                    std::thread::sleep(std::time::Duration::from_millis(if ends { 1000 } else { 0 }));
                    let _ = if ends { tell.send(Hint::JobOver) } else { Ok(()) };
                });
                fetch_in_gaps(&mut fetch, None, room, plan, pace).unwrap().0
            })
        };
        let tally = run(Hint::Activity(1.0), true);
        assert_eq!((tally.safe, tally.waiting, &tally.left[0].why[..]), (0, 1, "stopped before its turn"));
        assert!(!dir.join("dst/input").exists());
        // Silent from the beginning.
        assert_eq!(run(Hint::Forecast(None), false).safe, 1);
    }

    #[test]
    fn lists_have_lines_or_zero_bytes_and_lead_nowhere_else() {
        let src = Path::new("/pfs/run");
        let parsed = |list: &[u8]| Wanted::parse(list, src).map(|wanted| wanted.paths);
        assert_eq!(parsed(b"a/b\n./c\n\n/pfs/run/d/\n").unwrap(), [&b"a/b"[..], b"c", b"d"]);
        assert_eq!(parsed(b"a\nb\0\xffc\0").unwrap(), [&b"a\nb"[..], b"\xffc"]);
        assert_eq!(parsed(b"a\n../b").unwrap_err(), "line 2: '../b' is no path below /pfs/run");
        assert!(parsed(b"/etc/passwd").is_err());
    }
}
