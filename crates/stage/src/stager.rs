//! One buffer and one destination: what is due, what is safe, what is left.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, renameat, unlinkat};

use crate::OWN;
use crate::batch::{Course, FROM_BEFORE, Failure, Task, What, is_temp_of};
use crate::boot::Boot;
use crate::closed::{How, Prober, with_writers_elsewhere};
use crate::copy::Clones;
use crate::dirs::{Dirs, join, name, parent};
use crate::durable::Whole;
use crate::error::StageError;
use crate::journal::{Direction, Entry, Journal, Safe};
use crate::numbers::{Attributes, Numbers, kind};
use crate::owners::{Owners, make_own_folder, open_own, open_own_folder};
use crate::pace::Pace;
use crate::purge::{Resting, Touched};
use crate::receipts::{Receipt, Receipts};
use crate::tally::{Lost, Order, Purge, Settings, Survey, Tally};
use crate::walk::walk;

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
    pub(crate) owners: Owners,
    prober: Prober,
    pub(crate) settings: Settings,
    id: u64,
    n_temps: AtomicU64,
    has_leftovers: Arc<AtomicBool>,
    clones: Clones,
    pub(crate) whole: Whole,
    pub(crate) src_whole: Whole,
    max_files: usize,
    /// Whether descriptors of the destination may be dead: a call with one of them failed.
    is_dst_suspect: bool,
    /// The size of the smallest file that the destination had no room for since the last look, and what it said.
    no_room: Option<(u64, Fault)>,
    /// Whether room is so short that files are copied one at a time.
    is_tight: bool,
    /// How things stood at the last look, and what came of it since.
    pub(crate) tally: Tally,
    pub(crate) lost: Lost,
    /// Files that somebody had open, or that cannot be copied, by the version that was tried.
    tried: HashMap<Vec<u8>, (Numbers, Trial)>,
    /// Since when a version has been there whose time of change lies in the future.
    seen: HashMap<Vec<u8>, (Numbers, Instant)>,
    /// Directories that were opened to us for the time being, or are new.
    pub(crate) unfinished: BTreeSet<Vec<u8>>,
    /// Files that are safe and may be removed, by age; those at which it failed are here again after the next look.
    pub(crate) removable: BTreeSet<(i64, Vec<u8>)>,
    /// Of how many names of an inode it is known that they are not safe yet: they will be links to the copy of the first one.
    pub(crate) half_linked: HashMap<u64, u32>,
    /// Files in the trash until they have been there for long enough.
    pub(crate) resting: VecDeque<Resting>,
    /// Directories of the buffer whose entries were moved, and their times before: to be made durable.
    pub(crate) touched: BTreeMap<Vec<u8>, Touched>,
    /// Whether something was moved to, from or out of the trash since it was last durable.
    pub(crate) is_trash_unsettled: bool,
    /// Files in the trash from before the machine went down that cannot be told from a version that counts.
    pub(crate) stranded: Vec<(u64, Vec<u8>)>,
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
    pub fn open(src: &Path, dst: &Path, settings: Settings, pace: &Pace) -> Result<Self, StageError> {
        let _begun = pace.begin();
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
        see_who_writes(&src, &settings)?;
        let own = own_folder(&src, Mode::RWXU).map_err(StageError::io("cannot use", src_path.join(OWN)))?;
        let journal_path = src_path.join(OWN).join(Journal::NAME);
        let journal = Journal::open(&own).map_err(StageError::io("cannot use", journal_path))?;
        let mut journal = journal.ok_or_else(|| StageError::Taken { path: src_path.clone() })?;
        // However long that took, it was no fault of the destination.
        pace.is_answered();
        let (id, receipts, owners) = meet(&src_path, &dst, &mut journal, Direction::Out)?;
        let boot = Boot::present().map_err(StageError::io("cannot read", "/proc"))?;
        journal
            .note_boot(&boot)
            .map_err(StageError::io("cannot write", src_path.join(OWN).join(Journal::NAME)))?;
        let trash = make_own_folder(&own, "trash", Mode::RWXU)
            .map_err(StageError::io("cannot use", src_path.join(OWN)))?;
        let prober = Prober::new(&own).map_err(StageError::io("cannot use", src_path.join(OWN)))?;
        let (whole, src_whole) = (Whole::of(dst.top()), Whole::of(src.top()));
        let mut stager = Self {
            src,
            dst,
            own,
            trash,
            journal,
            receipts,
            owners,
            prober,
            settings,
            id,
            n_temps: AtomicU64::new(0),
            has_leftovers: Arc::default(),
            clones: Clones::default(),
            whole,
            src_whole,
            max_files: more_descriptors(),
            is_dst_suspect: false,
            no_room: None,
            is_tight: false,
            tally: Tally::default(),
            lost: Lost::default(),
            tried: HashMap::new(),
            seen: HashMap::new(),
            unfinished: BTreeSet::new(),
            removable: BTreeSet::new(),
            half_linked: HashMap::new(),
            resting: VecDeque::new(),
            touched: BTreeMap::new(),
            is_trash_unsettled: false,
            stranded: Vec::new(),
            n_changed: 0,
        };
        let patterns = stager.own_path().join(PATTERNS);
        stager.note_patterns().map_err(StageError::io("cannot write", patterns))?;
        stager.clear_up(pace)?;
        Ok(stager)
    }

    /// Writes down which files are staged, for those who wait for a directory.
    fn note_patterns(&self) -> io::Result<()> {
        let new = if self.src.is_virtual() { PATTERNS.to_owned() } else { format!("{PATTERNS}.new") };
        // What a run that was cut off left, or somebody else put there.
        let _ = unlinkat(&self.own, &*new, AtFlags::empty());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let mut file = open_own(&self.own, &new, flags, Mode::RUSR | Mode::WUSR)?;
        file.write_all(&self.settings.filter.to_bytes())?;
        file.sync_all()?;
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
        self.lost.tell(&mut self.tally);
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
        (self.no_room, self.is_tight) = (None, false);
        let is_whole = walked.errors.is_empty();
        for (path, why) in walked.errors {
            self.tally.failed += 1;
            self.tally.leave(&path, why);
        }
        for (n, path) in &self.stranded {
            self.tally.failed += 1;
            self.tally.leave(path, format!("{FROM_BEFORE}; it is {OWN}/trash/{n} now"));
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
            if self.journal.known.purged.contains(&path) {
                // It is back, whole: its removal was not durable.
                self.journal.note(Entry::Safe { path: path.clone(), safe });
            } else {
                self.tally.safe += 1;
                self.tally.bytes_safe += numbers.size;
            }
            self.may_remove(&path, &safe);
            if found.stat.st_nlink > 1 {
                links.insert(numbers.ino, path);
            }
            return;
        }
        if self.remove_again(&path, &numbers) {
            self.tally.used_bytes -= numbers.size;
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
        let tasks = self.next_tasks(survey);
        for dir in tasks.iter().map(|task| parent(&task.path)).collect::<BTreeSet<_>>() {
            self.open_up(dir);
        }
        if !is_noted {
            self.keep_journal()?;
        }
        let (trees, paths) = ((&self.src, &self.dst), tasks.iter().map(|task| &task.path[..]));
        let refused_dirs = self.owners.refused_directories(trees, paths, &self.journal.known);
        let course = Course {
            src: &self.src,
            dst: &self.dst,
            prober: &self.prober,
            pace,
            id: self.id,
            n_temps: &self.n_temps,
            has_leftovers: &self.has_leftovers,
            clones: &self.clones,
            whole: &self.whole,
            synced_source: Some(&self.src_whole),
            known: &self.journal.known,
            owners: self.owners,
            refused_dirs,
            n_jobs: self.settings.n_jobs,
        };
        let outcomes = course.run(&tasks, &new);
        let (fault, mut without_room) = self.note(tasks, outcomes)?;
        if !without_room.is_empty() {
            self.is_tight = true;
            survey.due_bytes += without_room.iter().map(|task| task.numbers.size).sum::<u64>();
            survey.due.extend(without_room.drain(..));
            survey.due.make_contiguous().sort_by_key(|task| task.numbers.size);
        }
        let is_full = survey.due.is_empty();
        Ok(fault.or_else(|| self.no_room.take_if(|_| is_full).map(|(_, error)| error)))
    }

    /// Takes the next batch from a survey. Where room is short, it is one file at a time, and none as large as one that did not fit.
    fn next_tasks(&mut self, survey: &mut Survey) -> Vec<Task> {
        let max_files = if self.is_tight { 1 } else { self.max_files };
        let mut tasks = Vec::new();
        let mut n_bytes = 0;
        while let Some(task) = survey.due.front() {
            let size = task.numbers.size;
            if tasks.len() >= max_files || !tasks.is_empty() && n_bytes + size > BATCH_BYTES {
                break;
            }
            let Some(task) = survey.due.pop_front() else { break };
            survey.due_bytes = survey.due_bytes.saturating_sub(size);
            match self.no_room.as_ref().filter(|(smallest, _)| size >= *smallest) {
                Some((_, error)) => self.tally.leave(&task.path, error.to_string()),
                None => {
                    n_bytes += size;
                    tasks.push(task);
                }
            }
        }
        tasks
    }

    /// Writes down what came of a batch. Returns what keeps the destination from taking anything, and files that there was no room for beside others.
    fn note(
        &mut self,
        tasks: Vec<Task>,
        outcomes: Vec<Result<crate::batch::Landed, Failure>>,
    ) -> Result<(Option<Fault>, Vec<Task>), StageError> {
        let (mut fault, mut without_room) = (None, Vec::new());
        let mut landed = Vec::new();
        let is_alone = tasks.len() == 1;
        for (task, outcome) in tasks.into_iter().zip(outcomes) {
            match outcome {
                Ok(safe) => landed.push((task, safe)),
                Err(Failure::Fault(error)) if is_no_room(&error) && !is_alone => without_room.push(task),
                Err(Failure::Fault(error)) if is_no_room(&error) => {
                    self.tally.leave(&task.path, error.to_string());
                    self.no_room = Some((task.numbers.size, error));
                }
                Err(Failure::Fault(error)) => {
                    self.tally.leave(&task.path, error.to_string());
                    self.is_dst_suspect = true;
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
            self.is_dst_suspect = true;
            return Ok((Some(error), without_room));
        }
        for (task, landed) in landed {
            let size = task.numbers.size;
            self.tally.waiting = self.tally.waiting.saturating_sub(1);
            self.tally.safe += 1;
            self.tally.bytes_safe += size;
            self.tally.backlog_bytes = self.tally.backlog_bytes.saturating_sub(size);
            let lost = landed.lost.map(|what| format!("{what} could not be kept"));
            self.lost.note(&task.path, lost, &mut self.tally);
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
        Ok((fault, without_room))
    }

    fn may_remove(&mut self, path: &[u8], safe: &Safe) {
        let is_sure = match safe.how {
            How::Lease => self.prober.has_leases(),
            How::Flag => true,
            How::Scan => false,
        };
        // Where a link leads cannot be changed: another one takes its place.
        if (is_sure || safe.is_link) && self.settings.purge != Purge::Never {
            self.removable.insert((safe.numbers.mtime_ns, path.to_owned()));
        }
    }

    pub(crate) fn keep_journal(&mut self) -> Result<(), StageError> {
        self.journal.sync().map_err(StageError::io("cannot write", self.own_path().join(Journal::NAME)))
    }

    /// Whether the destination is still the one it was: its mark says so. A client that died and was mounted again is another file system, and
    /// what was open there is dead; then it is opened anew.
    pub(crate) fn check_destination(&mut self) -> io::Result<()> {
        let path = self.dst.path();
        let named = rustix::fs::stat(path)?;
        let mark = path.join(OWN).join(Receipts::name(self.id));
        if let Err(error) = rustix::fs::lstat(&mark) {
            let what = format!("its mark {} is missing: {error}", mark.display());
            return Err(io::Error::new(io::Error::from(error).kind(), what));
        }
        let is_held = fstat(self.dst.top()).is_ok_and(|held| {
            (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino) && held.st_nlink > 0
        });
        if is_held && !self.is_dst_suspect {
            return Ok(());
        }
        let dst = Dirs::open(path)?;
        let folder = open_own_folder(dst.top(), OWN)?;
        self.receipts = Receipts::open(&folder, self.id)?;
        self.owners = Owners::of(&folder)?;
        self.whole = Whole::of(dst.top());
        self.dst = dst;
        self.is_dst_suspect = false;
        Ok(())
    }

    /// Removes what an earlier run began, and returns what it was about to remove.
    fn clear_up(&mut self, pace: &Pace) -> Result<(), StageError> {
        let leftovers = remove_temps(&self.dst, &self.journal, self.id, pace);
        self.has_leftovers.store(!leftovers.is_empty(), Ordering::Relaxed);
        self.return_trash()
    }

    /// Removes temporary files that could not be removed when a copy failed, and reports those that still cannot.
    pub(crate) fn remove_leftovers(&mut self, pace: &Pace) {
        let _begun = pace.begin();
        if self.has_leftovers.load(Ordering::Relaxed) && self.check_destination().is_ok() {
            let leftovers = remove_temps(&self.dst, &self.journal, self.id, pace);
            self.has_leftovers.store(!leftovers.is_empty(), Ordering::Relaxed);
            self.tally.report_leftovers(leftovers);
        }
    }
}

/// Whether the destination has no room for a file, or for its owner; a smaller one may fit.
fn is_no_room(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
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

/// Refuses a buffer that other machines may write to, unless somebody says when its files are closed.
fn see_who_writes(src: &Dirs, settings: &Settings) -> Result<(), StageError> {
    if settings.flag.is_some() || settings.has_no_writers_elsewhere {
        return Ok(());
    }
    match with_writers_elsewhere(src.top()) {
        None => Ok(()),
        Some(file_system) => Err(StageError::WritersElsewhere { path: src.path().to_owned(), file_system }),
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
    make_own_folder(tree.top(), OWN, mode)
}

/// Finds the destination as the journal knows it, or introduces the two to each other.
pub(crate) fn meet(
    src: &Path,
    dst: &Dirs,
    journal: &mut Journal,
    direction: Direction,
) -> Result<(u64, Receipts, Owners), StageError> {
    let path = dst.path();
    let used = |error| StageError::io("cannot use", path.join(OWN))(error);
    if let Some((id, was, other)) = &journal.known.head {
        if other != path.as_os_str().as_bytes() || *was != direction {
            let former = PathBuf::from(OsString::from_vec(other.clone()));
            return Err(StageError::OtherDestination { path: src.to_owned(), former });
        }
        let receipts = open_own_folder(dst.top(), OWN)
            .and_then(|folder| Ok((Receipts::open(&folder, *id)?, Owners::of(&folder)?)));
        return match receipts {
            Ok((receipts, owners)) => Ok((*id, receipts, owners)),
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
    let owners = Owners::of(&folder).map_err(used)?;
    journal.note(Entry::Head { id, direction, other: path.as_os_str().as_bytes().to_owned() });
    journal.sync().map_err(StageError::io("cannot write", src.join(OWN).join(Journal::NAME)))?;
    Ok((id, receipts, owners))
}

/// A name for a pair of directories that no other has.
pub(crate) fn new_id() -> io::Result<u64> {
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_le_bytes(random))
}

/// Removes what an earlier run of this pair began in directories that its journal knows. Returns the directories in which that failed, and why.
pub(crate) fn remove_temps(dst: &Dirs, journal: &Journal, id: u64, pace: &Pace) -> Vec<(Vec<u8>, io::Error)> {
    let dirs = journal.known.directories.keys().map(Vec::as_slice).chain([&b""[..]]);
    let remove = |path: &[u8]| -> io::Result<()> {
        let dir = dst.dir(path)?;
        pace.is_answered();
        for entry in Dir::read_from(&*dir)? {
            let entry = entry?;
            if is_temp_of(id, entry.file_name().to_bytes()) {
                unlinkat(&*dir, entry.file_name(), AtFlags::empty())?;
            }
        }
        Ok(())
    };
    let failed = |path: &[u8]| Some((path.to_owned(), remove(path).err()?));
    dirs.filter_map(failed).filter(|(_, error)| error.kind() != io::ErrorKind::NotFound).collect()
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
