//! One buffer and one destination: what is due, what is safe, what is left.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fchmod, fstat, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;

use crate::OWN;
use crate::batch::{Course, Failure, Task, What, is_temp_of};
use crate::closed::{How, Prober};
use crate::copy::Clones;
use crate::dirs::{Dirs, join, name, parent};
use crate::durable::{OPEN_AT_ONCE, Whole};
use crate::error::StageError;
use crate::filter::Filter;
use crate::journal::{Direction, Entry, Journal, Safe};
use crate::metadata;
use crate::numbers::{Attributes, Numbers, kind};
use crate::pace::Pace;
use crate::purge::Resting;
use crate::receipts::{Receipt, Receipts};
use crate::walk::walk;

/// What is staged, and how.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which files.
    pub filter: Filter,
    /// The name of a file that says that another is complete; `{}` stands for the name of that one.
    pub flag: Option<String>,
    /// Which of them first.
    pub order: Order,
    /// For how long a file must not have changed.
    pub quiet: Duration,
    /// What is removed once it is safe.
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

/// What is removed from the buffer.
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
    /// What is not safe and why, at most [`Tally::MAX_LEFT`] of them.
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

    pub(crate) fn leave(&mut self, path: &[u8], why: impl Into<String>) {
        if self.left.len() < Self::MAX_LEFT {
            self.left.push(Left { path: path.to_owned(), why: why.into() });
        }
    }
}

/// What a look found.
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

/// A destination that takes nothing at the moment.
pub type Fault = io::Error;

/// One buffer and one destination.
#[derive(Debug)]
pub struct Stager {
    pub(crate) src: Dirs,
    pub(crate) dst: Dirs,
    own: OwnedFd,
    pub(crate) trash: OwnedFd,
    pub(crate) journal: Journal,
    receipts: Receipts,
    prober: Prober,
    pub(crate) settings: Settings,
    id: u64,
    n_temps: AtomicU64,
    clones: Clones,
    whole: Whole,
    max_files: usize,
    /// How things stood at the last look, and what came of it since.
    pub(crate) tally: Tally,
    /// Files that somebody had open, or that cannot be copied, by the version that was tried.
    tried: HashMap<Vec<u8>, (Numbers, Trial)>,
    /// Since when a version has been there whose time of change lies in the future.
    seen: HashMap<Vec<u8>, (Numbers, Instant)>,
    /// Directories that were opened to us for the time being, or are new.
    unfinished: BTreeSet<Vec<u8>>,
    /// Files that are safe and may be removed, by age; those at which it failed are here again after the next look.
    pub(crate) removable: BTreeSet<(i64, Vec<u8>)>,
    /// Of how many names of an inode it is known that they are not safe yet: they will be links to the copy of the first one.
    pub(crate) half_linked: HashMap<u64, u32>,
    /// What is in the trash until it has been there for long enough.
    pub(crate) resting: VecDeque<Resting>,
    /// How many files were others than those that the last look had found, or gone, when they were copied.
    pub(crate) n_changed: u64,
}

#[derive(Clone, Debug)]
enum Trial {
    Open,
    Failed(String),
}

/// A batch: so many files, so many bytes.
const BATCH_FILES: usize = 1024;
const BATCH_BYTES: u64 = 256 << 20;
/// A virtual tree is walked so often.
const VIRTUAL_WALK: Duration = Duration::from_secs(2);
/// The file that says which files are staged, beside the journal.
pub(crate) const PATTERNS: &str = "patterns";
/// Below this, a second change might leave the time of change as it was: clocks of file systems tick every 4 ms or so.
const LEAST_QUIET: Duration = Duration::from_millis(20);

impl Stager {
    /// Takes a buffer and its destination, and clears up after an earlier run that was cut off.
    pub fn open(src: &Path, dst: &Path, settings: Settings) -> Result<Self, StageError> {
        let (src_path, dst_path) = (real(src)?, real(dst)?);
        if is_nested(&src_path, &dst_path) {
            return Err(StageError::Nested { src: src_path, dst: dst_path });
        }
        let src = Dirs::open(&src_path).map_err(StageError::io("cannot open", &src_path))?;
        if src.is_virtual() && (settings.flag.is_none() || settings.purge != Purge::Never) {
            return Err(StageError::Virtual { path: src_path });
        }
        let dst = Dirs::open(&dst_path).map_err(StageError::io("cannot open", &dst_path))?;
        if dst.is_virtual() {
            return Err(StageError::VirtualDestination { path: dst_path });
        }
        let own = own_folder(&src, Mode::RWXU).map_err(StageError::io("cannot use", src_path.join(OWN)))?;
        let journal_path = src_path.join(OWN).join(Journal::NAME);
        let journal = Journal::open(&own).map_err(StageError::io("cannot use", journal_path))?;
        let mut journal = journal.ok_or_else(|| StageError::Taken { path: src_path.clone() })?;
        let (id, receipts) = meet(&src_path, &dst, &mut journal, Direction::Out)?;
        let trash = sub_folder(&own, "trash").map_err(StageError::io("cannot use", src_path.join(OWN)))?;
        let prober = Prober::new(&own).map_err(StageError::io("cannot use", src_path.join(OWN)))?;
        let whole = Whole::of(dst.top());
        let mut stager = Self {
            src,
            dst,
            own,
            trash,
            journal,
            receipts,
            prober,
            settings,
            id,
            n_temps: AtomicU64::new(0),
            clones: Clones::default(),
            whole,
            max_files: more_descriptors(),
            tally: Tally::default(),
            tried: HashMap::new(),
            seen: HashMap::new(),
            unfinished: BTreeSet::new(),
            removable: BTreeSet::new(),
            half_linked: HashMap::new(),
            resting: VecDeque::new(),
            n_changed: 0,
        };
        let patterns = stager.own_path().join(PATTERNS);
        stager.note_patterns().map_err(StageError::io("cannot write", patterns))?;
        stager.clear_up()?;
        Ok(stager)
    }

    /// Writes down which files are staged, for those who wait for a directory.
    fn note_patterns(&self) -> io::Result<()> {
        let new = if self.src.is_virtual() { PATTERNS.to_owned() } else { format!("{PATTERNS}.new") };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = fs::File::from(openat(&self.own, &*new, flags, Mode::RUSR | Mode::WUSR)?);
        file.write_all(&self.settings.filter.to_bytes())?;
        if new == PATTERNS { Ok(()) } else { Ok(renameat(&self.own, &*new, &self.own, PATTERNS)?) }
    }

    /// How things stand.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Whether the file system tells of writers by leases; otherwise nothing is removed.
    pub fn has_leases(&self) -> bool {
        self.prober.has_leases()
    }

    /// Whether a preloaded library serves the buffer: the kernel knows nothing of it.
    pub fn is_virtual(&self) -> bool {
        self.src.is_virtual()
    }

    #[cfg(test)]
    pub(crate) fn distrust_leases(&mut self) {
        self.prober.distrust_leases();
    }

    /// The name of this pair of directories: that of its receipts.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The folder of our own in the buffer.
    pub fn own_path(&self) -> PathBuf {
        self.src.path().join(OWN)
    }

    /// Walks the buffer.
    pub fn look(&mut self) -> Survey {
        self.src.forget();
        self.prober.look_again();
        let walked = walk(&self.src);
        let mut survey = Survey::default();
        let known = &self.journal.known;
        self.tally = Tally { purged_bytes: known.purged_bytes, ..Tally::default() };
        let purged = known.purged.iter().filter_map(|path| known.safe.get(path));
        for safe in purged {
            self.tally.safe += 1;
            self.tally.bytes_safe += safe.numbers.size;
        }
        for one in &self.resting {
            self.tally.safe += 1;
            self.tally.bytes_safe += one.numbers.size;
            self.tally.used_bytes += one.numbers.size;
        }
        self.removable.clear();
        self.half_linked.clear();
        self.n_changed = 0;
        let is_whole = walked.errors.is_empty();
        for (path, why) in walked.errors {
            self.tally.failed += 1;
            self.tally.leave(&path, why);
        }
        let flags = Flags::new(self.settings.flag.as_deref(), &walked.found);
        let now_ns = since_1970_ns();
        let mut links: HashMap<u64, Vec<u8>> = HashMap::new();
        let mut present = HashSet::new();
        for found in walked.found {
            match kind(&found.stat) {
                FileType::Directory => survey.directories.push((found.path, Attributes::of(&found.stat))),
                FileType::RegularFile | FileType::Symlink => {
                    present.insert(found.path.clone());
                    self.consider(&mut survey, found, &flags, now_ns, &mut links);
                }
                _ if self.tally.special.len() < Tally::MAX_LEFT => self.tally.special.push(found.path),
                _ => {}
            }
        }
        self.tried.retain(|path, _| present.contains(path));
        self.seen.retain(|path, _| present.contains(path));
        if is_whole {
            // It can be done the next time if it cannot now: all is noted either way.
            let _ = self.journal.compact(&self.own, |path| present.contains(path));
        }
        self.sort(&mut survey.due);
        if self.src.is_virtual() {
            // Nobody reports changes there.
            survey.next_due = Some(survey.next_due.map_or(VIRTUAL_WALK, |due| due.min(VIRTUAL_WALK)));
        }
        survey
    }

    fn consider(
        &mut self,
        survey: &mut Survey,
        found: crate::walk::Found,
        flags: &Flags,
        now_ns: i64,
        links: &mut HashMap<u64, Vec<u8>>,
    ) {
        let (path, numbers) = (found.path, Numbers::of(&found.stat));
        if !self.settings.filter.takes(&path) {
            return;
        }
        self.tally.used_bytes += numbers.size;
        if let Some(safe) = self.journal.known.safe.get(&path).copied().filter(|safe| safe.numbers == numbers)
        {
            self.tally.safe += 1;
            self.tally.bytes_safe += numbers.size;
            self.may_remove(&path, &safe);
            if found.stat.st_nlink > 1 {
                links.insert(numbers.ino, path);
            }
            return;
        }
        self.tally.backlog_bytes += numbers.size;
        if let Some((tried, trial)) = self.tried.get(&path) {
            match trial {
                Trial::Failed(why) if *tried == numbers => {
                    self.tally.failed += 1;
                    let why = why.clone();
                    return self.tally.leave(&path, why);
                }
                _ => {}
            }
        }
        if !flags.has(&path) {
            self.tally.waiting += 1;
            return self.tally.leave(&path, "its flag file is not there");
        }
        let is_link = kind(&found.stat) == FileType::Symlink;
        if let Some(due) = self.due_in(&path, &numbers, now_ns).filter(|_| !is_link) {
            self.tally.waiting += 1;
            survey.n_unquiet += 1;
            survey.next_due = Some(survey.next_due.map_or(due, |next| next.min(due)));
            if survey.unquiet.len() < Tally::MAX_LEFT {
                survey.unquiet.push(path);
            }
            return;
        }
        self.tally.waiting += 1;
        let mut what = if is_link { What::SymbolicLink } else { What::File };
        if found.stat.st_nlink > 1 && !is_link {
            match links.get(&numbers.ino) {
                // Copied as a file, and found under its name at the next look.
                None => drop(links.insert(numbers.ino, path.clone())),
                Some(first) => {
                    *self.half_linked.entry(numbers.ino).or_insert(0) += 1;
                    match self.journal.known.safe.get(first) {
                        Some(safe) if safe.numbers == numbers => {
                            what = What::HardLink(first.clone(), safe.checksum)
                        }
                        _ => {
                            survey.n_unquiet += 1;
                            survey.next_due = Some(Duration::ZERO);
                            return;
                        }
                    }
                }
            }
        }
        survey.due_bytes += numbers.size;
        survey.due.push_back(Task {
            path,
            numbers,
            attributes: Attributes::of(&found.stat),
            what,
            is_flagged: self.settings.flag.is_some(),
        });
    }

    /// How long until a file has been quiet; `None` if it has.
    fn due_in(&mut self, path: &[u8], numbers: &Numbers, now_ns: i64) -> Option<Duration> {
        let quiet = self.settings.quiet.max(LEAST_QUIET);
        let age_ns = now_ns.saturating_sub(numbers.ctime_ns);
        if let Ok(age_ns) = u64::try_from(age_ns)
            && !numbers.are_timeless()
        {
            return quiet.checked_sub(Duration::from_nanos(age_ns)).filter(|left| !left.is_zero());
        }
        // Changed in the future (somebody set the clock), or at a time that nobody notes. Then what we see ourselves counts.
        let since = match self.seen.get(path) {
            Some((seen, since)) if seen == numbers => *since,
            _ => {
                let now = Instant::now();
                self.seen.insert(path.to_owned(), (*numbers, now));
                now
            }
        };
        quiet.checked_sub(since.elapsed()).filter(|left| !left.is_zero())
    }

    fn sort(&self, due: &mut VecDeque<Task>) {
        let (filter, order) = (&self.settings.filter, self.settings.order);
        due.make_contiguous().sort_by_cached_key(|task| {
            let numbers = &task.numbers;
            let by = match order {
                Order::Oldest => i128::from(numbers.mtime_ns),
                Order::Newest => -i128::from(numbers.mtime_ns),
                Order::Smallest => i128::from(numbers.size),
            };
            (filter.rank(&task.path), by, task.path.clone())
        });
    }

    /// Copies the next files of a survey. Returns what keeps the destination from taking anything, if something does.
    pub fn stage(&mut self, survey: &mut Survey, pace: &Pace) -> Result<Option<Fault>, StageError> {
        let _begun = pace.begin();
        if let Err(error) = self.check_destination() {
            return Ok(Some(error));
        }
        let mut new = BTreeSet::new();
        let mut is_noted = true;
        if let Err(error) = self.make_directories(survey, &mut new, &mut is_noted) {
            return Ok(Some(error));
        }
        let mut tasks = Vec::new();
        let mut n_bytes = 0;
        while let Some(task) = survey.due.front() {
            if tasks.len() >= self.max_files || !tasks.is_empty() && n_bytes + task.numbers.size > BATCH_BYTES
            {
                break;
            }
            n_bytes += task.numbers.size;
            if let Some(task) = survey.due.pop_front() {
                tasks.push(task);
            }
        }
        survey.due_bytes = survey.due_bytes.saturating_sub(n_bytes);
        for dir in tasks.iter().map(|task| parent(&task.path)).collect::<BTreeSet<_>>() {
            self.open_up(dir);
        }
        if !is_noted {
            self.keep_journal()?;
        }
        let course = Course {
            src: &self.src,
            dst: &self.dst,
            prober: &self.prober,
            pace,
            id: self.id,
            n_temps: &self.n_temps,
            clones: &self.clones,
            whole: &self.whole,
            n_jobs: self.settings.n_jobs,
        };
        let outcomes = course.run(&tasks, &new);
        self.note(tasks, outcomes)
    }

    /// Writes down what came of a batch.
    fn note(
        &mut self,
        tasks: Vec<Task>,
        outcomes: Vec<Result<crate::batch::Landed, Failure>>,
    ) -> Result<Option<Fault>, StageError> {
        let mut fault = None;
        let mut landed = Vec::new();
        for (task, outcome) in tasks.into_iter().zip(outcomes) {
            match outcome {
                Ok(safe) => landed.push((task, safe)),
                Err(Failure::Fault(error)) => {
                    self.tally.leave(&task.path, error.to_string());
                    fault.get_or_insert(error);
                }
                Err(Failure::Open) => {
                    self.tally.waiting = self.tally.waiting.saturating_sub(1);
                    self.tally.open += 1;
                    self.tally.leave(&task.path, "a process has it open to write");
                    self.tried.insert(task.path, (task.numbers, Trial::Open));
                }
                Err(Failure::Left(why)) => {
                    self.tally.waiting = self.tally.waiting.saturating_sub(1);
                    self.tally.failed += 1;
                    self.tally.leave(&task.path, why.clone());
                    self.tried.insert(task.path, (task.numbers, Trial::Failed(why)));
                }
                Err(Failure::Changed) => {
                    self.n_changed += 1;
                    self.tally.leave(&task.path, "it changed while it was copied");
                }
                Err(Failure::Stopped) => self.tally.leave(&task.path, "stopped before its turn"),
            }
        }
        let time_ns = since_1970_ns().unsigned_abs();
        let receipts = landed.iter().map(|(task, landed)| Receipt {
            path: task.path.clone(),
            size: task.numbers.size,
            checksum: landed.checksum,
            is_link: task.what == What::SymbolicLink,
            time_ns,
        });
        if let Err(error) = self.receipts.add(receipts) {
            return Ok(Some(error));
        }
        for (task, landed) in landed {
            let size = task.numbers.size;
            self.tally.waiting = self.tally.waiting.saturating_sub(1);
            self.tally.safe += 1;
            self.tally.bytes_safe += size;
            self.tally.backlog_bytes = self.tally.backlog_bytes.saturating_sub(size);
            if let Some(what) = landed.lost {
                self.tally.plain_copies += 1;
                let why = format!("{what} could not be kept");
                self.tally.first_plain.get_or_insert_with(|| Left { path: task.path.clone(), why });
            }
            self.tried.remove(&task.path);
            let safe = Safe {
                numbers: task.numbers,
                checksum: landed.checksum,
                how: landed.how,
                is_link: task.what == What::SymbolicLink,
            };
            if matches!(task.what, What::HardLink(..)) {
                let n_left = self.half_linked.entry(task.numbers.ino).or_insert(1);
                *n_left -= 1;
                if *n_left == 0 {
                    self.half_linked.remove(&task.numbers.ino);
                }
            }
            self.may_remove(&task.path, &safe);
            self.journal.note(Entry::Safe { path: task.path, safe });
        }
        self.keep_journal()?;
        Ok(fault)
    }

    fn may_remove(&mut self, path: &[u8], safe: &Safe) {
        let is_sure = match safe.how {
            How::Lease => self.prober.has_leases(),
            How::Flag => true,
            How::Scan => false,
        };
        if is_sure && !safe.is_link && self.settings.purge != Purge::Never {
            self.removable.insert((safe.numbers.mtime_ns, path.to_owned()));
        }
    }

    pub(crate) fn keep_journal(&mut self) -> Result<(), StageError> {
        self.journal.sync().map_err(StageError::io("cannot write", self.own_path().join(Journal::NAME)))
    }

    /// Makes the directories of the buffer in the destination, those that are empty too.
    fn make_directories(
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
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
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
    fn open_up(&mut self, dir: &[u8]) {
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
    pub fn finish_directories(&mut self, survey: &mut Survey) -> Result<Option<Fault>, StageError> {
        if let Err(error) = self.check_destination() {
            return Ok(Some(error));
        }
        let (mut new, mut is_noted) = (BTreeSet::new(), true);
        if let Err(error) = self.make_directories(survey, &mut new, &mut is_noted) {
            return Ok(Some(error));
        }
        if !is_noted {
            self.keep_journal()?;
        }
        // The deepest first: above it, the right to go there may go.
        let known = &self.journal.known.directories;
        let paths = std::mem::take(&mut self.unfinished).into_iter().rev();
        let paths: Vec<Vec<u8>> = paths.filter(|path| known.contains_key(path)).collect();
        for paths in paths.chunks(OPEN_AT_ONCE) {
            let dirs: Vec<io::Result<Arc<OwnedFd>>> = paths.iter().map(|path| self.finished(path)).collect();
            let synced = self.whole.sync_open(self.dst.top(), &dirs, || {});
            for (path, error) in
                paths.iter().zip(synced).filter_map(|(path, synced)| Some((path, synced.err()?)))
            {
                self.tally.plain_copies += 1;
                let why = format!("mode and times could not be kept: {error}");
                self.tally.first_plain.get_or_insert_with(|| Left { path: path.clone(), why });
            }
        }
        let new: Vec<Vec<u8>> = new.into_iter().collect();
        Ok(self.whole.sync_directories(&self.dst, &new, || {}).into_iter().find_map(Result::err))
    }

    /// A directory of the destination that now has the mode and times it has in the buffer. It is open: that it can be opened again is not said.
    fn finished(&self, path: &[u8]) -> io::Result<Arc<OwnedFd>> {
        let dir = self.dst.dir(path)?;
        let Some(attributes) = self.journal.known.directories.get(path) else { return Ok(dir) };
        match self.src.dir(path) {
            Ok(src) => metadata::copy(&*src, &*dir, attributes)?,
            Err(_) => metadata::apply(&*dir, attributes)?,
        };
        Ok(dir)
    }

    /// Whether the destination is still the one it was.
    pub(crate) fn check_destination(&self) -> io::Result<()> {
        let gone = |what: String| io::Error::new(io::ErrorKind::NotFound, what);
        let path = self.dst.path();
        let (held, named) = (fstat(self.dst.top())?, rustix::fs::stat(path)?);
        if (held.st_dev, held.st_ino) != (named.st_dev, named.st_ino) || held.st_nlink == 0 {
            return Err(gone(format!("{} is another directory now", path.display())));
        }
        let mark = path.join(OWN).join(Receipts::name(self.id));
        rustix::fs::lstat(&mark).map_err(|_| gone(format!("its mark {} is missing", mark.display())))?;
        Ok(())
    }

    /// Removes what an earlier run began, and returns what it was about to remove.
    fn clear_up(&mut self) -> Result<(), StageError> {
        remove_temps(&self.dst, &self.journal, self.id);
        self.return_trash()
    }
}

/// Which files have their flag.
struct Flags {
    affixes: Option<(Vec<u8>, Vec<u8>)>,
    paths: HashSet<Vec<u8>>,
}

impl Flags {
    fn new(pattern: Option<&str>, found: &[crate::walk::Found]) -> Self {
        let affixes = pattern.map(|pattern| {
            let (before, after) = pattern.split_once("{}").unwrap_or(("", pattern));
            (before.as_bytes().to_owned(), after.as_bytes().to_owned())
        });
        let paths = match &affixes {
            Some(_) => found.iter().map(|found| found.path.clone()).collect(),
            None => HashSet::new(),
        };
        Self { affixes, paths }
    }

    /// Whether the flag of a file is there; flags need none.
    fn has(&self, path: &[u8]) -> bool {
        let Some((before, after)) = &self.affixes else { return true };
        let last = name(path);
        let is_flag = last
            .strip_prefix(&before[..])
            .is_some_and(|rest| rest.ends_with(after) && rest.len() > after.len());
        is_flag || self.paths.contains(&join(parent(path), &[before, last, after].concat()))
    }
}

/// Where a path leads, whatever links are on the way.
pub(crate) fn real(path: &Path) -> Result<PathBuf, StageError> {
    match fs::canonicalize(path) {
        // In a virtual tree nobody says what is a link and what is not.
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => std::path::absolute(path),
        found => found,
    }
    .map_err(StageError::io("cannot open", path))
}

/// Whether one directory is the other or lies in it.
pub(crate) fn is_nested(one: &Path, other: &Path) -> bool {
    let number = |path: &Path| fs::metadata(path).map(|stat| (stat.dev(), stat.ino())).ok();
    let is_in = |inner: &Path, outer: &Path| {
        let outer = number(outer);
        outer.is_some() && inner.ancestors().any(|above| number(above) == outer)
    };
    is_in(one, other) || is_in(other, one)
}

/// Opens the folder of our own at the top of a tree, made if there is none.
pub(crate) fn own_folder(tree: &Dirs, mode: Mode) -> io::Result<OwnedFd> {
    folder(tree.top(), OWN, mode)
}

fn sub_folder(own: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    folder(own, name, Mode::RWXU)
}

fn folder(above: &OwnedFd, name: &str, mode: Mode) -> io::Result<OwnedFd> {
    match mkdirat(above, name, mode) {
        Ok(()) => rustix::fs::fsync(above)?,
        Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = openat(above, name, flags, Mode::empty())?;
    let stat = fstat(&folder)?;
    let own = rustix::process::geteuid();
    if stat.st_uid != own.as_raw() && !own.is_root() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to somebody else"));
    }
    if mode == Mode::RWXU && stat.st_mode & 0o077 != 0 {
        fchmod(&folder, mode)?;
    }
    Ok(folder)
}

/// Finds the destination as the journal knows it, or introduces the two to each other.
pub(crate) fn meet(
    src: &Path,
    dst: &Dirs,
    journal: &mut Journal,
    direction: Direction,
) -> Result<(u64, Receipts), StageError> {
    let path = dst.path();
    let used = |error| StageError::io("cannot use", path.join(OWN))(error);
    if let Some((id, was, other)) = &journal.known.head {
        if other != path.as_os_str().as_bytes() || *was != direction {
            let former = PathBuf::from(OsString::from_vec(other.clone()));
            return Err(StageError::OtherDestination { path: src.to_owned(), former });
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let receipts = openat(dst.top(), OWN, flags, Mode::empty())
            .map_err(io::Error::from)
            .and_then(|folder| Receipts::open(&folder, *id));
        return match receipts {
            Ok(receipts) => Ok((*id, receipts)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(StageError::NoMark {
                path: path.to_owned(),
                mark: format!("{OWN}/{}", Receipts::name(*id)),
            }),
            Err(error) => Err(used(error)),
        };
    }
    if let Some(mount_point) = bare_mount_point(path, &fs::read_to_string("/etc/fstab").unwrap_or_default()) {
        return Err(StageError::NotMounted { path: mount_point });
    }
    let id = new_id().map_err(used)?;
    let mode = Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH;
    let folder = own_folder(dst, mode).map_err(used)?;
    let receipts = Receipts::create(&folder, id, src.as_os_str().as_bytes()).map_err(used)?;
    journal.note(Entry::Head { id, direction, other: path.as_os_str().as_bytes().to_owned() });
    journal.sync().map_err(StageError::io("cannot write", src.join(OWN).join(Journal::NAME)))?;
    Ok((id, receipts))
}

/// A name for a pair of directories that no other has.
pub(crate) fn new_id() -> io::Result<u64> {
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_le_bytes(random))
}

/// Removes what an earlier run of this pair began in directories that its journal knows.
pub(crate) fn remove_temps(dst: &Dirs, journal: &Journal, id: u64) {
    let dirs = journal.known.directories.keys().map(Vec::as_slice).chain([&b""[..]]);
    for dir in dirs.filter_map(|path| dst.dir(path).ok()) {
        let Ok(entries) = Dir::read_from(&*dir) else { continue };
        for entry in entries.flatten().filter(|entry| is_temp_of(id, entry.file_name().to_bytes())) {
            let _ = unlinkat(&*dir, entry.file_name(), AtFlags::empty());
        }
    }
}

/// The mount point of fstab at or above `path` at which nothing is mounted.
fn bare_mount_point(path: &Path, fstab: &str) -> Option<PathBuf> {
    let device = |path: &Path| fs::metadata(path).map(|stat| stat.dev()).ok();
    let points = fstab.lines().filter(|line| !line.trim_start().starts_with('#'));
    let points = points
        .filter_map(|line| line.split_ascii_whitespace().nth(1))
        .map(|point| point.replace("\\040", " "));
    points
        .map(PathBuf::from)
        .filter(|point| point.parent().is_some() && path.starts_with(point))
        .find(|point| device(point) == device(point.parent().unwrap_or(Path::new("/"))))
}

pub(crate) fn since_1970_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Asks for as many descriptors as we may have, and returns how many files a batch may hold open.
pub(crate) fn more_descriptors() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(4096).min(4096);
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(wanted);
        let _ = setrlimit(Resource::Nofile, limit);
    }
    let current = getrlimit(Resource::Nofile).current.unwrap_or(4096);
    usize::try_from(current.saturating_sub(300) / 2).unwrap_or(BATCH_FILES).clamp(16, BATCH_FILES)
}

pub(crate) type Handle = Arc<OwnedFd>;
