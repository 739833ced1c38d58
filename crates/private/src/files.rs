//! Folders and files.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, chmodat, fchmod, fstat, fsync, linkat, openat,
    renameat, renameat_with, statat, syncfs, unlinkat,
};
use rustix::io::Errno;

/// Whether a descriptor is of no file system that is mounted: a preloaded library serves it, GekkoFS's for example.
///
/// No name can be put in the place of another there, files without a name do not exist, and a lock locks nothing.
pub fn is_virtual(fd: impl AsFd) -> bool {
    // The kernel gives no file system the device 0.
    fstat(fd).is_ok_and(|stat| stat.st_dev == 0)
}

/// Where temporary files go: `TMPDIR`, or `/tmp`.
pub fn temporary_files() -> PathBuf {
    std::env::temp_dir()
}

/// A new folder that only its owner may look into. It is removed, with all that is in it, when dropped.
#[derive(Debug)]
pub struct PrivateDir {
    path: PathBuf,
    keep: bool,
}

impl PrivateDir {
    /// Makes one among the temporary files; its name begins with `iotide-` and `what`.
    pub fn new(what: &str) -> io::Result<Self> {
        Self::new_in(&temporary_files(), &format!("iotide-{what}"))
    }

    /// Makes one in `folder`; its name begins with `what`.
    pub fn new_in(folder: &Path, what: &str) -> io::Result<Self> {
        let folder = std::path::absolute(folder)?;
        let path = with_random_name(&format!("{what}-"), "", |name| {
            let path = folder.join(name);
            // Fails if there is anything of that name, a link included.
            DirBuilder::new().mode(0o700).create(&path).map(|()| path)
        })?;
        Ok(Self { path, keep: false })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves it where it is when this is dropped.
    pub fn keep(&mut self) {
        self.keep = true;
    }
}

impl Drop for PrivateDir {
    fn drop(&mut self) {
        if !self.keep {
            // Follows no links.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Returns a new temporary file that has no name, and so goes with its last descriptor.
pub fn nameless() -> io::Result<File> {
    nameless_in(&temporary_files())
}

/// Returns a new file in `folder` that has no name.
pub fn nameless_in(folder: &Path) -> io::Result<File> {
    OpenDir::open(folder)?.nameless()
}

/// Returns a new file in `folder` that has no name, opened with `O_DIRECT`. A file system that a program serves (FUSE) gets the flag when a file
/// is opened, and not when the flag is set later.
pub fn nameless_direct_in(folder: &Path) -> io::Result<File> {
    OpenDir::open(folder)?.nameless_direct()
}

/// Opens a file to read that the user named.
///
/// A named pipe that nobody writes to would be waited for without end: after `patience` that is an error. Those of a shell (`<(zcat x)`)
/// always have a writer.
pub fn open_to_read(path: &Path, patience: Duration) -> io::Result<File> {
    let is_of_shell = ["/dev/", "/proc/"].iter().any(|start| path.starts_with(start));
    if is_of_shell || !fs::metadata(path)?.file_type().is_fifo() {
        return File::open(path);
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let pipe = openat(CWD, path, flags, Mode::empty())?;
    let timeout = rustix::event::Timespec {
        tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: patience.subsec_nanos().into(),
    };
    // As long as nobody has written, nobody has hung up either.
    let mut fds = [PollFd::new(&pipe, PollFlags::IN)];
    let n_ready = loop {
        match poll(&mut fds, Some(&timeout)) {
            Err(Errno::INTR) => {}
            ready => break ready?,
        }
    };
    if n_ready == 0 {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "it is a pipe, and nobody writes to it"));
    }
    rustix::fs::fcntl_setfl(&pipe, OFlags::empty())?;
    Ok(pipe.into())
}

/// Opens an ordinary file to read, in a folder where there may be anything. Does not wait for the writer of a pipe.
pub fn open_ordinary(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(openat(CWD, path, flags, Mode::empty())?);
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no ordinary file"));
    }
    Ok(file)
}

/// A folder held by its descriptor: what happens to its name, or to a name on the way to it, changes nothing.
#[derive(Debug)]
pub struct OpenDir {
    fd: OwnedFd,
    path: PathBuf,
}

impl OpenDir {
    /// Opens a folder that the user named.
    pub fn open(path: &Path) -> io::Result<Self> {
        let here = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = match openat(CWD, here, flags | OFlags::RDONLY, Mode::empty()) {
            // One whose files nobody may list can be written to all the same.
            Err(Errno::ACCESS) => openat(CWD, here, flags | OFlags::PATH, Mode::empty())?,
            opened => opened?,
        };
        Ok(Self { fd, path: path.to_owned() })
    }

    /// Whether strangers could replace what is in the folder: it is another user's than ours or root's, or others may write to it and remove what is
    /// not theirs.
    pub fn is_strangers(&self) -> io::Result<bool> {
        let stat = fstat(&self.fd)?;
        let is_ours = stat.st_uid == 0 || stat.st_uid == rustix::process::geteuid().as_raw();
        let (is_open, is_sticky) = (stat.st_mode & 0o022 != 0, stat.st_mode & 0o1000 != 0);
        Ok(!is_ours || is_open && !is_sticky)
    }

    /// Opens a folder that the user named; makes it, and those on the way to it, if there is none.
    pub fn make(path: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).create(path)?;
        Self::open(path)
    }

    /// Opens a folder for what others must not see; makes it, for its owner alone, if there is none, and those on the way to it.
    pub fn make_private(path: &Path) -> io::Result<Self> {
        if let Some(parent) = path.parent() {
            DirBuilder::new().recursive(true).create(parent)?;
        }
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Self::open(path),
        }
    }

    /// Closes the folder to all others, if everything in it has a name that `is_own` takes; one that is shared with other things stays as it is.
    ///
    /// Fails where others could replace files in it: it is another user's, or they may write to it and it cannot be closed.
    pub fn close_to_others(&self, is_own: impl Fn(&[u8]) -> bool) -> io::Result<()> {
        let stat = fstat(&self.fd)?;
        if stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & 0o077 != 0 {
            let mut names = Dir::read_from(&self.fd)?;
            let is_own = |name: &[u8]| matches!(name, b"." | b"..") || is_own(name);
            if names.all(|entry| entry.is_ok_and(|entry| is_own(entry.file_name().to_bytes()))) {
                return Ok(fchmod(&self.fd, Mode::RWXU)?);
            }
        }
        if self.is_strangers()? {
            let what = "other users may replace files in it; name a directory of your own with mode 700";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
        }
        Ok(())
    }

    /// Takes the rights of all others to a file away, if there is one of the name.
    ///
    /// The file is not opened: who closes a database loses all locks that its process has on it.
    pub fn close_file_to_others(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        let name = name.as_ref();
        let stat = match statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(()),
            stat => stat?,
        };
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        if is_file && stat.st_mode & 0o077 != 0 {
            chmodat(&self.fd, name, Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
        }
        Ok(())
    }

    /// Where it was when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file to add to, made if there is none. Refuses links, and whatever is no ordinary file of this folder alone.
    pub fn append(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        // Does not wait for a reader, should it be a pipe.
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK;
        let file = File::from(self.openat(name.as_ref(), flags, Mode::from_raw_mode(0o666))?);
        let stat = fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_nlink != 1 {
            let what = format!("{} is no ordinary file", self.path.join(name.as_ref()).display());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        Ok(file)
    }

    /// Opens an ordinary file to read. Follows no link and waits for no writer of a pipe.
    pub fn read(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::from(self.openat(name.as_ref(), flags, Mode::empty())?);
        if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no ordinary file"));
        }
        Ok(file)
    }

    /// Whose a file is, without opening it; `None` if it is gone.
    pub fn owner_of(&self, name: impl AsRef<OsStr>) -> Option<u32> {
        let stat = rustix::fs::statat(&self.fd, Path::new(name.as_ref()), AtFlags::SYMLINK_NOFOLLOW);
        stat.ok().map(|stat| stat.st_uid)
    }

    /// The folder itself, to ask for what is in it.
    pub fn fd(&self) -> impl AsFd + '_ {
        &self.fd
    }

    /// Makes a file for its owner alone. Fails if the name is taken.
    pub fn create(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
        Ok(self.openat(name.as_ref(), flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Begins a file that will have that name once it is whole. It then replaces what has the name now, be it a link.
    ///
    /// In a virtual folder ([`is_virtual`]) it has the name at once.
    pub fn replace(&self, name: impl AsRef<OsStr>) -> io::Result<Part> {
        self.begin(name.as_ref(), Mode::from_raw_mode(0o666))
    }

    /// Begins a file that only its owner can read.
    pub fn replace_secret(&self, name: impl AsRef<OsStr>) -> io::Result<Part> {
        self.begin(name.as_ref(), Mode::RUSR | Mode::WUSR)
    }

    fn begin(&self, name: &OsStr, mode: Mode) -> io::Result<Part> {
        if is_virtual(&self.fd) {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
            let file = File::from(self.openat(name, flags, mode)?);
            let (folder, name) = (self.fd.try_clone()?, name.to_owned());
            return Ok(Part { folder, file, part: name.clone(), name, is_finished: false });
        }
        let (part, file) = with_random_name(PART_START, PART_END, |part| {
            let file = self.openat(part, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, mode)?;
            Ok((part.to_owned(), File::from(file)))
        })?;
        let folder = self.fd.try_clone()?;
        Ok(Part { folder, file, part, name: name.to_owned(), is_finished: false })
    }

    /// Removes unfinished files that a crash left, and returns their number. Only the holder of the folder's lock may call this: a file that
    /// somebody else writes right now would go, too.
    pub fn remove_parts(&self) -> io::Result<usize> {
        let mut n_removed = 0;
        for entry in Dir::read_from(&self.fd)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if is_part(name) && matches!(entry.file_type(), FileType::RegularFile | FileType::Unknown) {
                n_removed += usize::from(unlinkat(&self.fd, entry.file_name(), AtFlags::empty()).is_ok());
            }
        }
        Ok(n_removed)
    }

    /// Syncs the files of this folder whose names end so, with their names: they survive a loss of power.
    pub fn sync_files(&self, ending: &str) -> io::Result<()> {
        // Each costs a wait for the disk; of many, one wait for everything on that file system is shorter.
        const MOST_EACH: usize = 64;
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd)? {
            let name = entry?.file_name().to_owned();
            names.extend(name.to_bytes().ends_with(ending.as_bytes()).then_some(name));
        }
        if names.len() > MOST_EACH {
            syncfs(&self.fd)?;
        } else {
            for name in &names {
                self.read(OsStr::from_bytes(name.to_bytes()))?.sync_all()?;
            }
        }
        self.sync()
    }

    /// Syncs names that were given or removed in this folder: the change survives a loss of power.
    pub fn sync(&self) -> io::Result<()> {
        sync_names(&self.fd, None)
    }

    /// Removes a file.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(unlinkat(&self.fd, name.as_ref(), AtFlags::empty())?)
    }

    /// Returns a new file that has no name. Virtual folders ([`is_virtual`]) have none: [`io::ErrorKind::Unsupported`].
    pub fn nameless(&self) -> io::Result<File> {
        self.nameless_with(OFlags::empty())
    }

    /// Returns a new file that has no name, opened with `O_DIRECT`. Fails where the file system has no such files.
    pub fn nameless_direct(&self) -> io::Result<File> {
        self.nameless_with(OFlags::DIRECT)
    }

    fn nameless_with(&self, how: OFlags) -> io::Result<File> {
        if is_virtual(&self.fd) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "files without a name do not exist here"));
        }
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        match openat(&self.fd, ".", flags | how, Mode::RUSR | Mode::WUSR) {
            // Not every file system can.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {}
            opened => return Ok(opened?.into()),
        }
        with_random_name(".iotide-", "", |name| {
            let file = self.create(name)?;
            // Opened once more, before the name goes: what is refused while it is made would leave the file behind.
            let file = if how.is_empty() {
                Ok(file)
            } else {
                self.openat(name, OFlags::RDWR | how, Mode::empty()).map(File::from)
            };
            self.remove(name)?;
            file
        })
    }

    fn openat(&self, name: &OsStr, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        // A name, not a way: nothing is looked up elsewhere.
        if Path::new(name).file_name() != Some(name) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{} is no name", name.display()),
            ));
        }
        Ok(openat(&self.fd, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, mode)?)
    }
}

/// A file that gets its name when it is whole; if it is dropped before, nothing is left of it.
#[derive(Debug)]
pub struct Part {
    folder: OwnedFd,
    file: File,
    part: OsString,
    name: OsString,
    is_finished: bool,
}

impl Part {
    /// Gives the file its name. After a loss of power the name may be gone, or the file may be empty: for results that can be made again.
    pub fn finish(mut self) -> io::Result<()> {
        self.rename()
    }

    fn rename(&mut self) -> io::Result<()> {
        if self.part != self.name {
            renameat(self.folder.as_fd(), &self.part, self.folder.as_fd(), &self.name)?;
        }
        self.is_finished = true;
        Ok(())
    }

    /// Gives the file its name. Contents and name survive a loss of power once this returns; before, the old file does.
    pub fn finish_durably(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        self.rename()?;
        sync_names(&self.folder, Some(&self.file))
    }

    /// Does the same as [`Part::finish_durably`], but fails if the name is taken.
    pub fn finish_new_durably(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        let (folder, part, name) = (self.folder.as_fd(), &self.part, &self.name);
        match renameat_with(folder, part, folder, name, RenameFlags::NOREPLACE) {
            // Not every file system can: there the file has two names for a moment.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                linkat(folder, part, folder, name, AtFlags::empty())?;
                unlinkat(folder, part, AtFlags::empty())?;
            }
            renamed => renamed?,
        }
        self.is_finished = true;
        sync_names(&self.folder, Some(&self.file))
    }

    /// The file, to set its owner or its mode.
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl Write for Part {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.is_finished {
            let _ = unlinkat(self.folder.as_fd(), &self.part, AtFlags::empty());
        }
    }
}

/// Names of unfinished files begin and end so.
const PART_START: &str = ".iotide-";
const PART_END: &str = ".part";

fn is_part(name: &[u8]) -> bool {
    let random =
        name.strip_prefix(PART_START.as_bytes()).and_then(|rest| rest.strip_suffix(PART_END.as_bytes()));
    random.is_some_and(|random| random.len() == N_LETTERS && random.iter().all(|byte| LETTERS.contains(byte)))
}

/// Syncs the names in a folder. `file` is one of its files.
fn sync_names(folder: &OwnedFd, file: Option<&File>) -> io::Result<()> {
    match (fsync(folder), file) {
        // A folder whose names may not be listed is held by a descriptor that cannot be synced.
        (Err(Errno::BADF), Some(file)) => Ok(syncfs(file)?),
        // Some file systems cannot sync a folder; names are durable there as soon as they are given, or never.
        (Err(Errno::INVAL | Errno::NOTSUP), _) => Ok(()),
        (synced, _) => Ok(synced?),
    }
}

/// Calls `make` with names that nobody can guess until one is free.
pub(crate) fn with_random_name<T>(
    before: &str,
    after: &str,
    mut make: impl FnMut(&OsStr) -> io::Result<T>,
) -> io::Result<T> {
    // Taken once by accident is taken by malice the next time, or the folder is full of them.
    const TRIES: usize = 8;
    let mut taken = io::Error::from(io::ErrorKind::AlreadyExists);
    for _ in 0..TRIES {
        let name = format!("{before}{}{after}", random_letters()?);
        match make(OsStr::new(&name)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
            made => return made,
        }
    }
    Err(taken)
}

const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const N_LETTERS: usize = 16;

/// Returns 80 random bits.
fn random_letters() -> io::Result<String> {
    let mut bytes = [0; N_LETTERS];
    let n = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty())?;
    if n < bytes.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;
    use std::io::{Read, Seek};
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_private_folder_is_new_closed_to_others_and_goes_with_all_that_is_in_it() {
        let here = FreshDir::new("private-dir");
        let (one, other) =
            (PrivateDir::new_in(here.path(), "x").unwrap(), PrivateDir::new_in(here.path(), "x").unwrap());
        assert_ne!(one.path(), other.path());
        assert_eq!(fs::metadata(one.path()).unwrap().permissions().mode() & 0o7777, 0o700);
        fs::write(one.path().join("file"), "x").unwrap();
        drop((one, other));
        assert!(here.names().is_empty());
    }

    #[test]
    fn names_that_are_taken_are_never_used() {
        let mut n = 0;
        let failed = with_random_name("a", "b", |_| -> io::Result<()> {
            n += 1;
            Err(io::ErrorKind::AlreadyExists.into())
        });
        assert_eq!((failed.unwrap_err().kind(), n), (io::ErrorKind::AlreadyExists, 8));
    }

    #[test]
    fn links_that_someone_planted_lead_nowhere() {
        let here = FreshDir::new("private-links");
        let victim = here.write("victim", "precious");
        let folder = here.join("results");
        let dir = OpenDir::make(&folder).unwrap();
        for name in ["log", "new", "whole"] {
            symlink(&victim, folder.join(name)).unwrap();
        }
        fs::hard_link(&victim, folder.join("hard")).unwrap();
        assert!(dir.append("log").is_err());
        assert!(dir.append("hard").is_err());
        assert!(dir.create("new").is_err());
        let mut part = dir.replace("whole").unwrap();
        part.write_all(b"result").unwrap();
        part.finish().unwrap();
        assert_eq!(fs::read_to_string(folder.join("whole")).unwrap(), "result");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    }

    #[test]
    fn a_folder_that_others_can_change_is_told() {
        let here = FreshDir::new("private-strangers");
        for (mode, is_strangers) in
            [(0o700, false), (0o755, false), (0o777, true), (0o1777, false), (0o775, true)]
        {
            fs::set_permissions(here.path(), fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(OpenDir::open(here.path()).unwrap().is_strangers().unwrap(), is_strangers, "{mode:o}");
        }
    }

    #[test]
    fn a_folder_that_is_swapped_for_a_link_is_still_the_one_that_was_opened() {
        let here = FreshDir::new("private-swap");
        let (folder, elsewhere) = (here.join("results"), here.join("elsewhere"));
        let dir = OpenDir::make(&folder).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        fs::rename(&folder, here.join("moved")).unwrap();
        symlink(&elsewhere, &folder).unwrap();
        dir.append("log").unwrap().write_all(b"x").unwrap();
        assert_eq!(fs::read_to_string(here.join("moved/log")).unwrap(), "x");
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    }

    #[test]
    fn a_pipe_is_read_once_someone_writes_and_not_waited_for_without_end() {
        let here = FreshDir::new("private-pipe");
        let path = here.join("pipe");
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(CWD, &path, kind, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let error = open_to_read(&path, Duration::from_millis(50)).unwrap_err();
        assert!(error.to_string().contains("nobody writes"), "{error}");
        let there = path.clone();
        let writer = std::thread::spawn(move || fs::write(there, "events"));
        let mut read = String::new();
        open_to_read(&path, Duration::from_secs(600)).unwrap().read_to_string(&mut read).unwrap();
        writer.join().unwrap().unwrap();
        assert_eq!(read, "events");
    }

    #[test]
    fn a_way_is_no_name() {
        let here = FreshDir::new("private-way");
        let dir = OpenDir::open(here.path()).unwrap();
        for way in ["", "..", ".", "../x", "/tmp/x", "a/b"] {
            assert!(dir.append(way).is_err(), "{way}");
            assert!(dir.create(way).is_err(), "{way}");
        }
    }

    #[test]
    fn a_new_name_never_replaces_an_old_one() {
        let here = FreshDir::new("private-new");
        let dir = OpenDir::open(here.path()).unwrap();
        for (text, is_new) in [("one", true), ("two", false)] {
            let mut part = dir.replace_secret("key").unwrap();
            part.write_all(text.as_bytes()).unwrap();
            assert_eq!(part.finish_new_durably().is_ok(), is_new);
        }
        assert_eq!(here.names(), ["key"]);
        assert_eq!(fs::read_to_string(here.join("key")).unwrap(), "one");
        assert_eq!(fs::metadata(here.join("key")).unwrap().permissions().mode() & 0o777, 0o600);
        let mut part = dir.replace("key").unwrap();
        part.write_all(b"three").unwrap();
        part.finish_durably().unwrap();
        assert_eq!(fs::read_to_string(here.join("key")).unwrap(), "three");
    }

    #[test]
    fn unfinished_files_of_a_crash_are_removed_and_nothing_else() {
        let here = FreshDir::new("private-parts");
        let dir = OpenDir::open(here.path()).unwrap();
        std::mem::forget(dir.replace("x").unwrap());
        let kept = [".iotide-mine.part", ".iotide-abcdefghijklmno1.part", "abc.part"];
        for name in kept {
            here.write(name, "x");
        }
        fs::create_dir(here.join(".iotide-aaaaaaaaaaaaaaaa.part")).unwrap();
        assert_eq!((here.names().len(), dir.remove_parts().unwrap()), (5, 1));
        assert_eq!(here.names().len(), 4);
    }

    #[test]
    fn a_part_that_is_given_up_leaves_nothing_and_a_nameless_file_is_never_seen() {
        let here = FreshDir::new("private-part");
        let dir = OpenDir::open(here.path()).unwrap();
        drop(dir.replace("x").unwrap());
        let mut file = dir.nameless().unwrap();
        file.write_all(b"events").unwrap();
        assert!(here.names().is_empty());
        file.rewind().unwrap();
        let mut read = String::new();
        file.read_to_string(&mut read).unwrap();
        assert_eq!(read, "events");
    }
}
