//! The backing directory by its path: the client of a network file system may die, and be mounted there again.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{CWD, Mode, OFlags, fstat, openat, stat};

/// Where the backing directory is, and what is mounted there.
#[derive(Debug)]
pub(crate) struct Backing {
    path: PathBuf,
    mounted: Mounted,
    /// The device of the mount that is in use.
    device: Mutex<u64>,
}

/// A kind of file system, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mounted {
    kind: String,
    source: String,
}

impl Backing {
    /// `None` where the path leads through the mount point, and so to ourselves.
    pub(crate) fn of(root: &OwnedFd, path: &Path, mountpoint: &Path) -> Option<Self> {
        if path.starts_with(mountpoint) {
            return None;
        }
        let device = fstat(root).ok()?.st_dev;
        let mounted = mounted_with(&fs::read_to_string("/proc/self/mountinfo").ok()?, device)?;
        Some(Self { path: path.to_owned(), mounted, device: Mutex::new(device) })
    }

    /// Opens the directory anew if the same file system was mounted there once more. A bare mount point is not taken for it.
    pub(crate) fn reopened(&self) -> Option<OwnedFd> {
        let mut device = self.device.lock().unwrap_or_else(PoisonError::into_inner);
        if stat(&self.path).ok()?.st_dev == *device {
            return None;
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = openat(CWD, &self.path, flags, Mode::empty()).ok()?;
        let new = fstat(&root).ok()?.st_dev;
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        if mounted_with(&mounts, new)? != self.mounted {
            return None;
        }
        *device = new;
        Some(root)
    }
}

/// `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - fuse.sshfs host:/dir rw`
fn mounted_with(mountinfo: &str, device: u64) -> Option<Mounted> {
    let wanted = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let mut mounts = mountinfo.lines().filter(|line| line.split(' ').nth(2) == Some(&wanted));
    let mut words = mounts.next_back()?.split_once(" - ")?.1.split(' ');
    Some(Mounted { kind: words.next()?.to_owned(), source: words.next()?.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mounted_is_known_by_its_kind_and_source() {
        let mounts = "36 35 98:0 / /a rw master:1 - ext4 /dev/root rw\n\
            40 35 0:41 / /b rw shared:7 - fuse.sshfs host:/dir rw\n";
        let mounted = mounted_with(mounts, rustix::fs::makedev(0, 41)).unwrap();
        assert_eq!((&mounted.kind[..], &mounted.source[..]), ("fuse.sshfs", "host:/dir"));
        assert_eq!(mounted_with(mounts, rustix::fs::makedev(0, 42)), None);
        assert_eq!(mounted_with("36 35 98:0 / /a", rustix::fs::makedev(98, 0)), None);
    }

    #[test]
    fn a_directory_that_is_still_the_same_is_not_opened_again() {
        let here = std::env::temp_dir().canonicalize().unwrap();
        let root: OwnedFd = fs::File::open(&here).unwrap().into();
        assert!(Backing::of(&root, &here, &here).is_none());
        let backing = Backing::of(&root, &here, Path::new("/elsewhere"));
        assert!(backing.is_none_or(|backing| backing.reopened().is_none()));
    }
}
