//! Which files have changed: told by the kernel where it can, found by looking where it cannot.

use std::collections::HashMap;
use std::ffi::OsString;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::inotify;
use rustix::io::Errno;

/// Watches directories.
pub(crate) struct Watch {
    inotify: Option<OwnedFd>,
    directories: HashMap<i32, PathBuf>,
    /// How often everything is looked at regardless.
    pub(crate) look_every: Duration,
}

/// Change in a directory.
pub(crate) enum Change {
    /// This name in this directory.
    File(PathBuf, OsString),
    /// Anything: more changed than the kernel could tell.
    Anything,
}

impl Watch {
    /// How often a file system that tells of all changes is looked at all the same.
    const SAFETY: Duration = Duration::from_secs(5);
    /// How often one that may not is.
    const BLIND: Duration = Duration::from_secs(1);

    /// Returns a watch of nothing. With `look_every`, the kernel is not asked at all.
    pub(crate) fn new(look_every: Option<Duration>) -> Self {
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let inotify = if look_every.is_none() { inotify::init(flags).ok() } else { None };
        let look_every = look_every.unwrap_or(if inotify.is_some() { Self::SAFETY } else { Self::BLIND });
        Self { inotify, directories: HashMap::new(), look_every }
    }

    /// Watches a directory, if it is there. One that is watched already stays so.
    pub(crate) fn add(&mut self, directory: &Path) {
        use inotify::WatchFlags as Flag;
        let Some(inotify) = &self.inotify else { return };
        if self.directories.values().any(|known| known == directory) {
            return;
        }
        let flags = Flag::MODIFY | Flag::CREATE | Flag::MOVED_TO | Flag::CLOSE_WRITE | Flag::DELETE_SELF;
        match inotify::add_watch(inotify, directory, flags) {
            Ok(number) => {
                self.directories.insert(number, directory.to_path_buf());
            }
            // Too many watches, or not yet there: then by looking.
            Err(_) => self.look_every = self.look_every.min(Self::BLIND),
        }
        if !tells_of_remote_changes(directory) {
            self.look_every = self.look_every.min(Self::BLIND);
        }
    }

    /// Returns the descriptor to wait for.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inotify.as_ref().map(|fd| fd.as_fd())
    }

    /// Returns the changes since the last call.
    pub(crate) fn changes(&mut self) -> Vec<Change> {
        let Some(inotify) = &self.inotify else { return Vec::new() };
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        let mut reader = inotify::Reader::new(inotify, &mut buffer);
        let mut changes: Vec<Change> = Vec::new();
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::INTR) => continue,
                Err(_) => return changes, // nothing more for now
            };
            use inotify::ReadFlags as Flag;
            if event.events().intersects(Flag::QUEUE_OVERFLOW | Flag::IGNORED | Flag::DELETE_SELF) {
                if event.events().contains(Flag::IGNORED) {
                    self.directories.remove(&event.wd());
                }
                changes.push(Change::Anything);
                continue;
            }
            let directory = self.directories.get(&event.wd());
            if let (Some(directory), Some(name)) = (directory, event.file_name()) {
                let name = std::ffi::OsStr::from_bytes(name.to_bytes());
                let is_known = changes.iter().any(|change| {
                    matches!(change, Change::File(known, known_name) if known_name == name && known == directory)
                });
                if !is_known {
                    changes.push(Change::File(directory.clone(), name.to_owned()));
                }
            }
        }
    }
}

/// Whether the kernel sees what other nodes write into a directory. Network file systems take a watch and say nothing.
fn tells_of_remote_changes(directory: &Path) -> bool {
    // The numbers of statfs(2): NFS, SMB, SMB2, Lustre, GPFS, BeeGFS, FUSE, Ceph, AFS, 9P, OrangeFS.
    const BLIND: [u64; 11] = [
        0x6969,
        0x517b,
        0xfe53_4d42,
        0x0bd0_0bd0,
        0x4750_4653,
        0x1983_0326,
        0x6573_5546,
        0x00c3_6400,
        0x5346_414f,
        0x0102_1997,
        0x2003_0528,
    ];
    rustix::fs::statfs(directory).is_ok_and(|stat| !BLIND.contains(&(stat.f_type as u64)))
}
