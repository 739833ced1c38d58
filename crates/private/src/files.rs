//! Folders and files.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fstat, openat, renameat, unlinkat};
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
        if is_virtual(&self.fd) {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
            let file = File::from(self.openat(name.as_ref(), flags, Mode::from_raw_mode(0o666))?);
            let (folder, name) = (self.fd.try_clone()?, name.as_ref().to_owned());
            return Ok(Part { folder, file, part: name.clone(), name, is_finished: false });
        }
        let (part, file) = with_random_name(".iotide-", ".part", |part| {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
            let file = self.openat(part, flags, Mode::from_raw_mode(0o666))?;
            Ok((part.to_owned(), File::from(file)))
        })?;
        let folder = self.fd.try_clone()?;
        Ok(Part { folder, file, part, name: name.as_ref().to_owned(), is_finished: false })
    }

    /// Removes a file.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(unlinkat(&self.fd, name.as_ref(), AtFlags::empty())?)
    }

    /// Returns a new file that has no name. Virtual folders ([`is_virtual`]) have none: [`io::ErrorKind::Unsupported`].
    pub fn nameless(&self) -> io::Result<File> {
        if is_virtual(&self.fd) {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "files without a name do not exist here"));
        }
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        match openat(&self.fd, ".", flags, Mode::RUSR | Mode::WUSR) {
            // Not every file system can.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {}
            opened => return Ok(opened?.into()),
        }
        with_random_name(".iotide-", "", |name| {
            let file = self.create(name)?;
            self.remove(name)?;
            Ok(file)
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
    /// Gives the file its name.
    pub fn finish(mut self) -> io::Result<()> {
        if self.part != self.name {
            renameat(self.folder.as_fd(), &self.part, self.folder.as_fd(), &self.name)?;
        }
        self.is_finished = true;
        Ok(())
    }

    /// Makes sure that what was written survives a loss of power.
    pub fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
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

/// 80 bits of chance.
fn random_letters() -> io::Result<String> {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut bytes = [0; 16];
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
