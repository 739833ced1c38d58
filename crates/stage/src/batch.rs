//! Some files at a time: copied, synced, read back, renamed, noted.
//!
//! The order is what makes it safe. A copy gets its final name after its bytes are durable and were read back, and after the source was found
//! unchanged and closed a second time; it is noted as safe after the directory with that name is durable.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, fstat, linkat, openat, readlinkat, renameat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use crate::OWN;
use crate::checksum::Checksum;
use crate::closed::{How, Prober};
use crate::copy::{Clones, CopyError, ReadBack, Target, contents, is_sparse, read_back};
use crate::dirs::{Dirs, name, parent};
use crate::durable::{SYNCING, Whole};
use crate::journal::Known;
use crate::metadata;
use crate::numbers::{Attributes, Numbers, is_copy_of, kind};
use crate::owners::Owners;
use crate::pace::Pace;
use crate::parallel;
use crate::sys::write_back;

/// A file to be copied.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) path: Vec<u8>,
    pub(crate) numbers: Numbers,
    pub(crate) attributes: Attributes,
    pub(crate) what: What,
    /// Its flag file is there.
    pub(crate) is_flagged: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    File,
    SymbolicLink,
    /// Another name of a file that is safe under this one, with this checksum.
    HardLink(Vec<u8>, Checksum),
}

/// Why a file was not copied.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It is gone or another one; whoever looks again will see.
    Changed,
    /// Somebody can write to it.
    Open,
    /// We were told to stop.
    Stopped,
    /// It cannot be copied, and trying again soon will not help.
    Left(String),
    /// The destination takes nothing now.
    Fault(io::Error),
}

/// A file that is under its final name, and durable.
#[derive(Debug)]
pub(crate) struct Landed {
    pub(crate) checksum: Checksum,
    pub(crate) how: How,
    /// Metadata that could not be kept; `None` if all of it was.
    pub(crate) lost: Option<String>,
}

/// Where files go from and to, and how.
pub(crate) struct Course<'a> {
    pub(crate) src: &'a Dirs,
    pub(crate) dst: &'a Dirs,
    pub(crate) prober: &'a Prober,
    pub(crate) pace: &'a Pace,
    /// Names of what is not yet whole begin so.
    pub(crate) id: u64,
    pub(crate) n_temps: &'a AtomicU64,
    /// Set when something under a name of ours could not be removed.
    pub(crate) has_leftovers: &'a Arc<AtomicBool>,
    pub(crate) clones: &'a Clones,
    pub(crate) whole: &'a Whole,
    /// The file system of the source, if what is copied is to be durable there as well.
    pub(crate) synced_source: Option<&'a Whole>,
    /// State by our journal.
    pub(crate) known: &'a Known,
    /// Whose entries of the destination may be replaced.
    pub(crate) owners: Owners,
    /// Directories of the destination that nothing may be put into, and why.
    pub(crate) refused_dirs: HashMap<Vec<u8>, String>,
    pub(crate) n_jobs: usize,
}

/// Why a version is left of which nobody knows whether the last power failure left all of it.
pub(crate) const FROM_BEFORE: &str = "it changed before the machine was last started and may be incomplete; \
    `touch` it to replace the copy, or remove it to keep that";

/// Files of so many bytes on average are small: they are read by one call each.
const SMALL: u64 = 128 << 10;
/// So many small ones are made while those before them are synced and read back.
const SMALL_AT_ONCE: usize = 256;

impl Course<'_> {
    /// Copies files whose directories exist. `new` are directories that got an entry otherwise and must be durable, too.
    pub(crate) fn run(&self, tasks: &[Task], new: &BTreeSet<Vec<u8>>) -> Vec<Result<Landed, Failure>> {
        let _begun = self.pace.begin();
        // While the disk has some, the next are made.
        let part = if are_small(tasks) { SMALL_AT_ONCE } else { tasks.len().max(1) };
        let mut parts = tasks.chunks(part);
        let mut named = Vec::with_capacity(tasks.len());
        let mut made = parts.next().map(|part| (part, self.make_all(part)));
        while let Some((part, some)) = made {
            let mut finished = Vec::new();
            made = thread::scope(|scope| {
                let next = parts.next().map(|part| (part, scope.spawn(|| self.make_all(part))));
                finished = self.finish(part, some);
                next.map(|(part, making)| {
                    (part, making.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause)))
                })
            });
            named.extend(finished);
        }
        self.make_names_durable(tasks, named, new)
    }

    fn make_all(&self, tasks: &[Task]) -> Vec<Result<Made, Failure>> {
        parallel::each(self.n_jobs, tasks, |task| self.make(task))
    }

    /// Makes copies durable, reads them back and gives them their names.
    fn finish(&self, tasks: &[Task], made: Vec<Result<Made, Failure>>) -> Vec<Result<Landed, Failure>> {
        let synced = match self.is_synced_whole(tasks, &made) {
            true => made,
            false => self.each(made, SYNCING, |_, made| match &made.file {
                Some(file) => {
                    let synced = file.sync_all().map_err(fault);
                    self.pace.is_answered();
                    synced
                }
                None => Ok(()),
            }),
        };
        let stored = self.store_sources(tasks, synced);
        let checked = self.each(stored, self.n_reading(tasks), |at, made| self.check(&tasks[at], made));
        (tasks.iter().zip(checked)).map(|(task, made)| self.name(task, made?)).collect()
    }

    /// Makes the sources of copies durable under their names: a version that is noted as safe is found again after a power failure.
    fn store_sources(&self, tasks: &[Task], made: Vec<Result<Made, Failure>>) -> Vec<Result<Made, Failure>> {
        let Some(whole) = self.synced_source else { return made };
        let sources =
            || (tasks.iter().zip(&made)).filter_map(|(task, made)| Some((task, made.as_ref().ok()?)));
        let n_bytes = sources().map(|(task, _)| task.numbers.size).sum();
        let device = |made: &Made| made.src.as_ref()?.metadata().ok().map(|stat| stat.dev());
        let devices = sources().filter(|(_, made)| made.src.is_some()).map(|(_, made)| device(made));
        let devices = devices.map(|device| device.unwrap_or(u64::MAX));
        let is_synced = whole.sync(self.src.top(), sources().count(), n_bytes, devices);
        self.pace.is_answered();
        if is_synced {
            return made;
        }
        let dirs: BTreeSet<&[u8]> = sources().flat_map(|(task, _)| ancestors(&task.path)).collect();
        let dirs: Vec<Vec<u8>> = dirs.into_iter().map(<[u8]>::to_vec).collect();
        let made = self.each(made, SYNCING, |_, made| match &made.src {
            Some(src) => stored(self.sync_source(src)).map_err(not_stored),
            None => Ok(()),
        });
        let synced = whole.sync_directories(self.src, &dirs, || self.pace.is_answered());
        let failed: HashMap<&[u8], io::Error> = (dirs.iter().zip(synced))
            .filter_map(|(dir, synced)| Some((&dir[..], stored(synced).err()?)))
            .collect();
        self.each(made, 1, |at, _| match ancestors(&tasks[at].path).find_map(|dir| failed.get(dir)) {
            Some(error) => Err(not_stored(again(error))),
            None => Ok(()),
        })
    }

    /// Syncs a file of the source, a part at a time: however long that takes, it is no fault of the destination.
    fn sync_source(&self, src: &File) -> io::Result<()> {
        const PART: u64 = 64 << 20;
        let size = src.metadata()?.len();
        for at in (0..size).step_by(PART as usize) {
            write_back(src, at, PART, true);
            self.pace.is_answered();
        }
        src.sync_all()?;
        self.pace.is_answered();
        Ok(())
    }

    /// Makes the directories of files that have their names durable, and `new` ones.
    fn make_names_durable(
        &self,
        tasks: &[Task],
        named: Vec<Result<Landed, Failure>>,
        new: &BTreeSet<Vec<u8>>,
    ) -> Vec<Result<Landed, Failure>> {
        let mut dirs = new.clone();
        dirs.extend(
            tasks
                .iter()
                .zip(&named)
                .filter(|(_, named)| named.is_ok())
                .map(|(task, _)| parent(&task.path).to_owned()),
        );
        let dirs: Vec<Vec<u8>> = dirs.into_iter().collect();
        let synced = self.whole.sync_directories(self.dst, &dirs, || self.pace.is_answered());
        let failed: HashMap<&[u8], &io::Error> = (dirs.iter().zip(&synced))
            .filter_map(|(dir, synced): (_, &io::Result<()>)| Some((&dir[..], synced.as_ref().err()?)))
            .collect();
        let is_durable =
            |task: &Task, landed: Landed| match ancestors(&task.path).find_map(|dir| failed.get(dir)) {
                Some(error) => Err(Failure::Fault(again(error))),
                None => Ok(landed),
            };
        tasks.iter().zip(named).map(|(task, named)| is_durable(task, named?)).collect()
    }

    /// How many files are read back at once. Of small ones each read is waited for longer than it takes to sum it up.
    fn n_reading(&self, tasks: &[Task]) -> usize {
        if are_small(tasks) { self.n_jobs.max(SYNCING) } else { self.n_jobs }
    }

    /// Makes many files durable by one call, with all else on their file system.
    fn is_synced_whole(&self, tasks: &[Task], made: &[Result<Made, Failure>]) -> bool {
        let files = || {
            (tasks.iter().zip(made))
                .filter_map(|(task, made)| Some((task, made.as_ref().ok()?.file.as_ref()?)))
        };
        let n_bytes = files().map(|(task, _)| task.numbers.size).sum();
        // What cannot be asked is on no device that is known.
        let devices = files().map(|(_, file)| fstat(file).map_or(u64::MAX, |stat| stat.st_dev));
        let is_synced = self.whole.sync(self.dst.top(), files().count(), n_bytes, devices);
        self.pace.is_answered();
        is_synced
    }

    /// Does something with all that have come so far; those for which it fails are dropped, and what was begun of them with them.
    fn each(
        &self,
        made: Vec<Result<Made, Failure>>,
        n_threads: usize,
        act: impl Fn(usize, &Made) -> Result<(), Failure> + Sync,
    ) -> Vec<Result<Made, Failure>> {
        let items: Vec<(usize, &Made)> =
            made.iter().enumerate().filter_map(|(at, made)| Some((at, made.as_ref().ok()?))).collect();
        let answers = parallel::each(n_threads, &items, |(at, made)| act(*at, made));
        let mut failures: HashMap<usize, Failure> = (items.iter().map(|(at, _)| *at).zip(answers))
            .filter_map(|(at, answer)| Some((at, answer.err()?)))
            .collect();
        let keep = |(at, made): (usize, Result<Made, Failure>)| match failures.remove(&at) {
            Some(failure) => Err(failure),
            None => made,
        };
        made.into_iter().enumerate().map(keep).collect()
    }

    /// Copies a file under a name of our own, beside its final one.
    fn make(&self, task: &Task) -> Result<Made, Failure> {
        if self.pace.is_stopped() {
            return Err(Failure::Stopped);
        }
        let dir = self.dst.dir(parent(&task.path)).map_err(fault)?;
        self.check_owner(task)?;
        self.check_replaced(task)?;
        match &task.what {
            What::File => self.make_file(task, dir),
            What::SymbolicLink => self.make_link(task, dir),
            What::HardLink(first, checksum) => {
                let (src, how, _) = self.open_closed(task)?;
                let temp = self.temp(task, dir, |dir, name| {
                    let from = self.dst.dir(parent(first))?;
                    let old = self.dst.stat(first)?;
                    if !is_copy_of(&old, &task.numbers) {
                        return Err(Errno::STALE.into());
                    }
                    Ok(linkat(&*from, crate::dirs::name(first), dir, name, AtFlags::empty())?)
                });
                match temp {
                    Ok((temp, ())) => {
                        let (src, checksum) = (Some(src), *checksum);
                        Ok(Made {
                            temp,
                            src,
                            file: None,
                            reading: Mutex::default(),
                            checksum,
                            how,
                            lost: None,
                        })
                    }
                    // A file system without links, or too many: then it is one more file.
                    Err(_) => {
                        let made = self.make_file(task, self.dst.dir(parent(&task.path)).map_err(fault)?)?;
                        let link = format!("hard link to {}", String::from_utf8_lossy(first));
                        Ok(Made { lost: made.lost.or(Some(link)), ..made })
                    }
                }
            }
        }
    }

    /// Refuses to replace an entry of another user, or to put one into such a user's directory.
    fn check_owner(&self, task: &Task) -> Result<(), Failure> {
        if let Some(why) = ancestors(&task.path).find_map(|dir| self.refused_dirs.get(dir)) {
            return Err(Failure::Left(why.clone()));
        }
        match self.dst.stat(&task.path) {
            Ok(there) => {
                self.owners.check(&task.path, &there, task.attributes.uid, self.known).map_err(Failure::Left)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(fault(error)),
        }
    }

    /// Refuses a version from before this boot that would replace anything but its own copy: it may be what a power failure left of it.
    ///
    /// Symbolic links come back whole or not at all.
    fn check_replaced(&self, task: &Task) -> Result<(), Failure> {
        let is_from_before = self.known.is_from_before(&task.numbers);
        if !is_from_before || task.what == What::SymbolicLink {
            return Ok(());
        }
        match self.dst.stat(&task.path) {
            Ok(there) if is_copy_of(&there, &task.numbers) => Ok(()),
            Ok(_) => Err(Failure::Left(FROM_BEFORE.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(fault(error)),
        }
    }

    fn make_file(&self, task: &Task, dir: Arc<OwnedFd>) -> Result<Made, Failure> {
        let (src, how, stat) = self.open_closed(task)?;
        let (temp, file) = self
            .temp(task, dir, |dir, name| {
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                Ok(File::from(openat(dir, name, flags, Mode::RUSR | Mode::WUSR)?))
            })
            .map_err(fault)?;
        let may_be_direct = self.whole.takes_direct_writes();
        let target = Target { file: &file, dir: &temp.dir, name: &temp.name, may_be_direct };
        let (checksum, reading) =
            contents(&src, &target, task.numbers.size, is_sparse(&stat), self.clones, self.pace)?;
        let lost = metadata::copy(&src, &file, &task.attributes).map_err(fault)?;
        let reading = Mutex::new(reading);
        Ok(Made { temp, src: Some(src), file: Some(file), reading, checksum, how, lost })
    }

    fn make_link(&self, task: &Task, dir: Arc<OwnedFd>) -> Result<Made, Failure> {
        let from = self.src.dir(parent(&task.path)).map_err(|_| Failure::Changed)?;
        let target = readlinkat(&*from, name(&task.path), Vec::new()).map_err(|_| Failure::Changed)?;
        let (temp, ()) =
            self.temp(task, dir, |dir, name| Ok(symlinkat(target.as_c_str(), dir, name)?)).map_err(fault)?;
        let lost = metadata::apply_to_link(&temp.dir, &temp.name, &task.attributes);
        let checksum = Checksum::of(target.to_bytes());
        let how = How::Lease;
        Ok(Made { temp, src: None, file: None, reading: Mutex::default(), checksum, how, lost })
    }

    /// Opens a file of the source to read, if it is closed and the version that was seen.
    fn open_closed(&self, task: &Task) -> Result<(File, How, Stat), Failure> {
        let dir = self.src.dir(parent(&task.path)).map_err(gone)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match openat(&*dir, name(&task.path), flags, Mode::empty()) {
            Ok(file) => File::from(file),
            // Somebody has a lease to write.
            Err(Errno::WOULDBLOCK) => return Err(Failure::Open),
            Err(error) => return Err(gone(error.into())),
        };
        let how = self.probe(task, &file)?;
        let stat = fstat(&file).map_err(|error| left(error.into()))?;
        // What is no file by now has another inode.
        if Numbers::of(&stat) != task.numbers || kind(&stat) != FileType::RegularFile {
            return Err(Failure::Changed);
        }
        Ok((file, how, stat))
    }

    fn probe(&self, task: &Task, file: &File) -> Result<How, Failure> {
        match self.prober.probe(file, task.is_flagged) {
            Ok(how) => how.ok_or(Failure::Open),
            // Of something that is no file nobody can say.
            Err(error) => match fstat(file) {
                Ok(stat) if kind(&stat) != FileType::RegularFile => Err(Failure::Changed),
                _ => Err(left(error)),
            },
        }
    }

    /// Reads the copy back, and sees that the source is closed and as it was, and still has the name.
    fn check(&self, task: &Task, made: &Made) -> Result<(), Failure> {
        // A further name may have become a file of its own.
        if made.file.is_some() {
            let begun = made.reading.lock().unwrap_or_else(|broken| broken.into_inner()).take();
            let read = read_back(&made.temp.dir, &made.temp.name, task.numbers.size, begun, self.pace)?;
            if read != made.checksum {
                let what = format!("read back {read} where {} was written", made.checksum);
                return Err(Failure::Fault(io::Error::new(io::ErrorKind::InvalidData, what)));
            }
        }
        if let Some(src) = &made.src {
            self.probe(task, src)?;
        }
        let stat = self.src.stat(&task.path).map_err(gone)?;
        if Numbers::of(&stat) == task.numbers { Ok(()) } else { Err(Failure::Changed) }
    }

    fn name(&self, task: &Task, mut made: Made) -> Result<Landed, Failure> {
        let Temp { dir, name: temp, .. } = &made.temp;
        if temp == name(&task.path) {
            made.temp.is_named = true;
            return Ok(Landed { checksum: made.checksum, how: made.how, lost: made.lost });
        }
        // Somebody may have put a file there while this one was copied.
        self.check_owner(task)?;
        match renameat(&**dir, &temp[..], &**dir, name(&task.path)) {
            Ok(()) => {}
            Err(error @ (Errno::ISDIR | Errno::NOTEMPTY | Errno::EXIST)) => return Err(left(error.into())),
            Err(error) => return Err(fault(error.into())),
        }
        // Two names of one file: the call then does nothing, and ours goes when it is dropped.
        made.temp.is_named = !matches!(task.what, What::HardLink(..));
        Ok(Landed { checksum: made.checksum, how: made.how, lost: made.lost })
    }

    /// Begins something under a name of our own; in a virtual tree, where none replaces another, under its final one.
    fn temp<T>(
        &self,
        task: &Task,
        dir: Arc<OwnedFd>,
        make: impl Fn(&OwnedFd, &[u8]) -> io::Result<T>,
    ) -> io::Result<(Temp, T)> {
        if self.dst.is_virtual() {
            let name = name(&task.path).to_owned();
            let _ = unlinkat(&*dir, &name[..], AtFlags::empty());
            let made = make(&dir, &name)?;
            let has_leftovers = Arc::clone(self.has_leftovers);
            return Ok((Temp { dir, name, is_named: false, has_leftovers }, made));
        }
        loop {
            let n = self.n_temps.fetch_add(1, Ordering::Relaxed);
            let name = temp_name(self.id, n).into_bytes();
            match make(&dir, &name) {
                Ok(made) => {
                    let has_leftovers = Arc::clone(self.has_leftovers);
                    return Ok((Temp { dir, name, is_named: false, has_leftovers }, made));
                }
                // Left by an earlier run whose names began elsewhere.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    self.has_leftovers.fetch_or(may_be_done(&error), Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
    }
}

/// Whether files are small on average.
fn are_small(tasks: &[Task]) -> bool {
    let n_bytes: u64 = tasks.iter().map(|task| task.numbers.size).sum();
    n_bytes / (tasks.len() as u64).max(1) <= SMALL
}

/// A name of ours: 16 digits, of which the first eight say whose.
fn temp_name(id: u64, n: u64) -> String {
    format!("{OWN}-{:08x}{:08x}", id as u32, n as u32)
}

/// Whether a name is one that `temp_name` made for this pair of directories.
pub(crate) fn is_temp_of(id: u64, name: &[u8]) -> bool {
    let begin = format!("{OWN}-{:08x}", id as u32);
    name.strip_prefix(begin.as_bytes()).is_some_and(|rest| {
        rest.len() == 8 && rest.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}

/// A file that was begun. It goes if it does not get its final name.
#[derive(Debug)]
struct Temp {
    dir: Arc<OwnedFd>,
    name: Vec<u8>,
    is_named: bool,
    has_leftovers: Arc<AtomicBool>,
}

impl Drop for Temp {
    fn drop(&mut self) {
        if self.is_named {
            return;
        }
        match unlinkat(&*self.dir, &self.name[..], AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(_) => self.has_leftovers.store(true, Ordering::Relaxed),
        }
    }
}

struct Made {
    temp: Temp,
    /// The source, unless it is a symbolic link.
    src: Option<File>,
    file: Option<File>,
    /// How far it was read back while it was written.
    reading: Mutex<Option<ReadBack>>,
    checksum: Checksum,
    how: How,
    lost: Option<String>,
}

impl From<CopyError> for Failure {
    fn from(error: CopyError) -> Self {
        match error {
            CopyError::Source(error) => left(error),
            CopyError::Destination(error) => fault(error),
            CopyError::Changed => Failure::Changed,
            CopyError::Stopped => Failure::Stopped,
        }
    }
}

/// Returns the failure for an error of the source about a file that was there a moment ago.
fn gone(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Failure::Changed,
        _ if error.raw_os_error() == Some(libc::ELOOP) => Failure::Changed,
        _ => left(error),
    }
}

fn left(error: io::Error) -> Failure {
    Failure::Left(error.to_string())
}

/// Returns the result of a sync of the buffer, less the errors of file systems that have nothing to sync, or may not be written to.
pub(crate) fn stored(synced: io::Result<()>) -> io::Result<()> {
    match synced.as_ref().map_err(io::Error::raw_os_error) {
        Err(Some(libc::EINVAL | libc::ENOSYS | libc::EOPNOTSUPP | libc::EROFS | libc::EBADF)) => Ok(()),
        _ => synced,
    }
}

/// Returns the failure of a sync of the buffer: the bytes read may not be the bytes written.
fn not_stored(error: io::Error) -> Failure {
    Failure::Left(format!("the buffer could not store it: {error}"))
}

/// Returns the failure for an error of the destination: of this one name, or of everything.
fn fault(error: io::Error) -> Failure {
    match error.raw_os_error() {
        Some(
            libc::ENAMETOOLONG
            | libc::ENOTDIR
            | libc::EISDIR
            | libc::ELOOP
            | libc::EINVAL
            | libc::EFBIG
            | libc::EOPNOTSUPP,
        ) => Failure::Left(format!("in the destination: {error}")),
        _ => Failure::Fault(error),
    }
}

/// Whether an error may be that of the answer alone: a server did what it was asked, and its client died before it could say so.
fn may_be_done(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    let is_reset = matches!(number, Some(libc::ECONNABORTED | libc::ECONNRESET | libc::EPIPE | libc::EINTR));
    is_reset || matches!(number, Some(libc::ENOTCONN | libc::ESTALE | libc::EIO | libc::ETIMEDOUT))
}

pub(crate) fn again(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

/// The directories above `path`, the top included.
pub(crate) fn ancestors(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::successors(Some(parent(path)), |dir| (!dir.is_empty()).then(|| parent(dir)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_ones_own_are_ones_own() {
        let name = temp_name(0x1122_3344_5566_7788, 255);
        assert_eq!(name, ".iotide-stage-55667788000000ff");
        assert!(is_temp_of(0x5566_7788, name.as_bytes()));
        assert!(!is_temp_of(0x5566_7789, name.as_bytes()));
        assert!(!is_temp_of(0x5566_7788, b".iotide-stage-55667788000000fg"));
        assert!(!is_temp_of(0x5566_7788, b".iotide-stage-55667788000000ff0"));
        assert_eq!(ancestors(b"a/b/c").collect::<Vec<_>>(), [&b"a/b"[..], b"a", b""]);
    }
}
