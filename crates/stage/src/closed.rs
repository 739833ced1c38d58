//! Whether anybody can still write to a file.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

use iotide_private::FileSystem;
use rustix::fs::{AtFlags, Mode, OFlags, fstat, fstatfs, openat, unlinkat};
use rustix::io::Errno;

use crate::sys::Lease;

/// How it is told that a file is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The kernel grants a lease on it: no descriptor and no mapping can write.
    Lease,
    /// Its flag file is there.
    Flag,
    /// No process that we can see has it open to write, and it has been quiet.
    Scan,
}

/// Tells closed files from open ones in one tree.
#[derive(Debug)]
pub(crate) struct Prober {
    has_leases: bool,
    /// Nobody is asked: files are taken as closed.
    is_trusting: bool,
    /// Files that processes have open to write, as (device, inode); looked up when first needed.
    open: OnceLock<HashSet<(u64, u64)>>,
}

/// File systems on which a lease tells of every writer: they are this machine's alone. ext2 to 4, XFS, Btrfs, F2FS, tmpfs, ramfs.
const LOCAL: [i64; 6] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994, 0x8584_58f6];

/// The file system of a folder, if programs on other machines may write to it for all that can be seen here. Leases and `/proc` tell of this machine's.
pub(crate) fn with_writers_elsewhere(folder: &OwnedFd) -> Option<String> {
    match FileSystem::of_descriptor(folder) {
        Ok(found) => found.is_shared.then_some(found.kind),
        Err(_) => Some("an unknown file system".to_owned()),
    }
}

impl Prober {
    /// Tries leases out in `folder`, which is ours and on the file system in question.
    pub(crate) fn new(folder: &OwnedFd) -> io::Result<Self> {
        // The kernel sends SIGIO when somebody wants to write; unhandled it would end us.
        static HANDLED: OnceLock<bool> = OnceLock::new();
        let is_handled = *HANDLED.get_or_init(|| {
            let heard = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
            // A file above the limit of its size is a file that cannot be copied, and no reason to end either.
            let _ = signal_hook::flag::register(libc::SIGXFSZ, std::sync::Arc::clone(&heard));
            signal_hook::flag::register(libc::SIGIO, heard).is_ok()
        });
        let is_local = is_of_type(folder, &LOCAL)?;
        let has_leases = is_handled && is_local && matches!(self_test(folder), Ok(true));
        Ok(Self { has_leases, is_trusting: false, open: OnceLock::new() })
    }

    /// Takes every file as closed: for inputs, of which it counts alone that they did not change while they were copied.
    pub(crate) fn trusting() -> Self {
        Self { has_leases: false, is_trusting: true, open: OnceLock::new() }
    }

    /// Whether the file system has leases that can be trusted.
    pub(crate) fn has_leases(&self) -> bool {
        self.has_leases
    }

    #[cfg(test)]
    pub(crate) fn distrust_leases(&mut self) {
        self.has_leases = false;
    }

    /// Forgets what processes had open.
    pub(crate) fn look_again(&mut self) {
        self.open = OnceLock::new();
    }

    /// How it is known that nobody can write to the file; `None` if somebody can. The file must be open to read only.
    pub(crate) fn probe(&self, file: &File, is_flagged: bool) -> io::Result<Option<How>> {
        if self.has_leases {
            match Lease::take(file) {
                Ok(lease) => return Ok(lease.map(|_| How::Lease)),
                // Somebody else's file: only its owner may.
                Err(error)
                    if matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM | libc::EINVAL)) => {}
                Err(error) => return Err(error),
            }
        }
        if is_flagged {
            return Ok(Some(How::Flag));
        }
        if self.is_trusting {
            return Ok(Some(How::Scan));
        }
        let stat = fstat(file)?;
        let open = self.open.get_or_init(open_to_write);
        Ok((!open.contains(&(stat.st_dev, stat.st_ino))).then_some(How::Scan))
    }
}

/// Whether a directory is on one of these types of file systems.
pub(crate) fn is_of_type(folder: &OwnedFd, types: &[i64]) -> io::Result<bool> {
    Ok(types.contains(&(fstatfs(folder)?.f_type as i64 & 0xffff_ffff)))
}

/// Whether a lease is refused while a writer is there, granted when it has gone, and broken when it comes back.
fn self_test(folder: &OwnedFd) -> io::Result<bool> {
    const NAME: &str = "lease-test";
    let _ = unlinkat(folder, NAME, AtFlags::empty());
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = flags | OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let writer = openat(folder, NAME, made, Mode::RUSR | Mode::WUSR)?;
    let reader = File::from(openat(folder, NAME, flags | OFlags::RDONLY, Mode::empty())?);
    let is_refused = Lease::take(&reader)?.is_none();
    drop(writer);
    let lease = Lease::take(&reader)?;
    let again = openat(folder, NAME, flags | OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty());
    let is_broken = lease.as_ref().is_some_and(|lease| !lease.is_unbroken());
    unlinkat(folder, NAME, AtFlags::empty())?;
    Ok(is_refused && is_broken && matches!(again, Err(Errno::WOULDBLOCK)))
}

/// The files that processes have open to write or mapped to write, as far as we may see.
fn open_to_write() -> HashSet<(u64, u64)> {
    let mut open = HashSet::new();
    let is_process =
        |entry: &fs::DirEntry| entry.file_name().to_string_lossy().bytes().all(|b| b.is_ascii_digit());
    let own = std::process::id().to_string();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten().filter(is_process) {
        if process.file_name() == own.as_str() {
            continue;
        }
        let path = process.path();
        for fd in fs::read_dir(path.join("fd")).into_iter().flatten().flatten() {
            let Ok(stat) =
                fs::metadata(fd.path()).as_ref().map(|stat| (stat.dev(), stat.ino(), stat.is_file()))
            else {
                continue;
            };
            let about = fs::read_to_string(path.join("fdinfo").join(fd.file_name())).unwrap_or_default();
            if stat.2 && may_write(&about) {
                open.insert((stat.0, stat.1));
            }
        }
        let maps = fs::read_to_string(path.join("maps")).unwrap_or_default();
        open.extend(maps.lines().filter_map(mapped_to_write));
    }
    open
}

/// Whether the flags of /proc/PID/fdinfo let a descriptor write; one that says nothing might.
fn may_write(fdinfo: &str) -> bool {
    let flags = fdinfo.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_none_or(|flags| flags & 3 != 0)
}

/// The file of a shared mapping that can write: `7f12…-7f13… rw-s 00000000 fe:00 1234 /path`.
fn mapped_to_write(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split_ascii_whitespace();
    let (_, permissions, _, device, ino) =
        (words.next()?, words.next()?, words.next()?, words.next()?, words.next()?);
    if !(permissions.contains('w') && permissions.ends_with('s')) {
        return None;
    }
    let (major, minor) = device.split_once(':')?;
    let number = |digits| u32::from_str_radix(digits, 16).ok();
    Some((rustix::fs::makedev(number(major)?, number(minor)?), ino.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;

    #[test]
    fn a_file_is_closed_when_its_last_writer_is() {
        let dir = FreshDir::new("stage-closed");
        let folder: OwnedFd = File::open(dir.path()).unwrap().into();
        let prober = Prober::new(&folder).unwrap();
        assert!(prober.has_leases(), "tests run on a local file system");
        let path = dir.write("file", "x");
        let writer = File::options().append(true).open(&path).unwrap();
        let reader = File::open(&path).unwrap();
        assert_eq!(prober.probe(&reader, false).unwrap(), None);
        // What the kernel says counts for more than a flag.
        assert_eq!(prober.probe(&reader, true).unwrap(), None);
        drop(writer);
        assert_eq!(prober.probe(&reader, false).unwrap(), Some(How::Lease));
        assert_eq!(dir.names(), ["file"]);
    }

    #[test]
    fn without_leases_the_writers_of_other_processes_are_found_by_their_descriptors() {
        let dir = FreshDir::new("stage-scan");
        let path = dir.write("file", "x");
        let mut prober = Prober { has_leases: false, is_trusting: false, open: OnceLock::new() };
        let mut child = std::process::Command::new("sh")
            .args(["-c", "exec 3>>\"$1\"; echo; read _", "sh"])
            .arg(&path)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let reader = File::open(&path).unwrap();
        assert_eq!(prober.probe(&reader, false).unwrap(), None);
        drop(child.stdin.take());
        child.wait().unwrap();
        prober.look_again();
        assert_eq!(prober.probe(&reader, false).unwrap(), Some(How::Scan));
    }

    #[test]
    fn a_local_file_system_has_no_writers_elsewhere() {
        let here: OwnedFd = File::open(std::env::temp_dir()).unwrap().into();
        assert_eq!(with_writers_elsewhere(&here), None, "tests run on a local file system");
    }

    #[test]
    fn shared_mappings_that_write_are_read_from_maps() {
        let device = rustix::fs::makedev(0xfe, 1);
        assert_eq!(mapped_to_write("7f00-7f01 rw-s 00000000 fe:01 1234 /a b"), Some((device, 1234)));
        assert_eq!(mapped_to_write("7f00-7f01 rw-p 00000000 fe:01 1234 /a"), None);
        assert_eq!(mapped_to_write("7f00-7f01 r--s 00000000 fe:01 1234 /a"), None);
        assert!(may_write("pos:\t0\nflags:\t0100001\n") && !may_write("flags:\t0100000\n"));
    }
}
