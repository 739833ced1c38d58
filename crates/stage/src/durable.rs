//! Many files or directories made durable by one call, where that is as good as one call for each.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{fstat, fsync, syncfs};

use crate::batch::again;
use crate::closed::is_of_type;
use crate::dirs::Dirs;
use crate::parallel;

/// File systems of which `syncfs` is known to return after all data and names are on the disk: ext2 to 4, XFS, Btrfs. Others may do less
/// (FUSE passes it to nobody), or wait for a whole cluster.
const WHOLE: [i64; 3] = [EXT, XFS, 0x9123_683e];
const EXT: i64 = 0xef53;
const XFS: i64 = 0x5846_5342;
/// … and those of which long files are written past the cache: not Btrfs, which compresses only what comes through it.
const DIRECT: [i64; 2] = [EXT, XFS];
/// For fewer than this, a call for each costs no more.
const LEAST: usize = 64;
/// How many wait for the disk at once: a journalling file system makes them durable together.
pub(crate) const SYNCING: usize = 16;
/// Each directory that waits to be synced is open.
pub(crate) const OPEN_AT_ONCE: usize = 512;
/// Bytes that others have written and not synced are waited for as well; if they are more than this, one call for each file is quicker.
const MAX_OTHERS: u64 = 64 << 20;

/// A file system, and whether all of it can be synced at once.
#[derive(Debug)]
pub(crate) struct Whole {
    /// Its device, if it can.
    device: Option<u64>,
    takes_direct_writes: bool,
}

impl Whole {
    /// The file system of `top`.
    pub(crate) fn of(top: &OwnedFd) -> Self {
        let is_known = is_of_type(top, &WHOLE).unwrap_or(false);
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let device = fstat(top).ok().filter(|_| is_known && reports_errors(&release)).map(|stat| stat.st_dev);
        Self { device, takes_direct_writes: is_of_type(top, &DIRECT).unwrap_or(false) }
    }

    /// Whether long files are to be written past the cache.
    pub(crate) fn takes_direct_writes(&self) -> bool {
        self.takes_direct_writes
    }

    /// Syncs everything, if `n` things of `n_bytes` on `devices` are worth it. `false` says that nothing is known to be durable.
    ///
    /// `top` must have been opened before they were written: an error since then is reported.
    pub(crate) fn sync(
        &self,
        top: &OwnedFd,
        n: usize,
        n_bytes: u64,
        devices: impl Iterator<Item = u64>,
    ) -> bool {
        let Some(device) = self.device.filter(|_| n >= LEAST) else { return false };
        let others = || std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| dirty(&text));
        devices.into_iter().all(|other| other == device)
            && others().is_some_and(|dirty| dirty.saturating_sub(n_bytes) <= MAX_OTHERS)
            && syncfs(top).is_ok()
    }

    /// Makes directories durable, with all names in them, by one call if they are many. `answered` is called whenever the disk has answered.
    pub(crate) fn sync_directories(
        &self,
        tree: &Dirs,
        paths: &[Vec<u8>],
        answered: impl Fn() + Sync,
    ) -> Vec<io::Result<()>> {
        let of_some = |paths: &[Vec<u8>]| {
            let dirs: Vec<io::Result<Arc<OwnedFd>>> = paths.iter().map(|path| tree.dir(path)).collect();
            self.sync_open(tree.top(), &dirs, &answered)
        };
        paths.chunks(OPEN_AT_ONCE).flat_map(of_some).collect()
    }

    /// The same of directories that were opened, or could not be.
    pub(crate) fn sync_open(
        &self,
        top: &OwnedFd,
        dirs: &[io::Result<Arc<OwnedFd>>],
        answered: impl Fn() + Sync,
    ) -> Vec<io::Result<()>> {
        // What cannot be asked is on no device that is known.
        let devices = dirs.iter().flatten().map(|dir| fstat(dir).map_or(u64::MAX, |stat| stat.st_dev));
        let are_synced = self.sync(top, dirs.len(), 0, devices);
        parallel::each(if are_synced { 1 } else { SYNCING }, dirs, |dir| {
            let dir = dir.as_ref().map_err(again)?;
            let synced = if are_synced { Ok(()) } else { fsync(dir) };
            answered();
            Ok(synced?)
        })
    }
}

/// Whether `syncfs` of a kernel reports that something could not be written: since 5.8.
fn reports_errors(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|digits| digits.parse::<u32>().ok());
    let version = (numbers.next().flatten(), numbers.next().flatten());
    matches!(version, (Some(major), Some(minor)) if (major, minor) >= (5, 8))
}

/// Bytes that are written and not on a disk, from `/proc/meminfo`.
fn dirty(meminfo: &str) -> Option<u64> {
    let of = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
    };
    of("Dirty:")?.checked_add(of("Writeback:")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_hide_errors_and_file_systems_that_nobody_knows_are_not_synced_whole() {
        let known = ["5.8.0", "6.1.0-28-amd64", "10.0"];
        assert!(known.into_iter().all(reports_errors));
        for release in ["5.7.19", "4.18.0-553.el8_10.x86_64", "", "six", "6"] {
            assert!(!reports_errors(release), "{release}");
        }
        let proc: OwnedFd = std::fs::File::open("/proc").unwrap().into();
        assert_eq!(Whole::of(&proc).device, None);
    }

    #[test]
    fn dirty_bytes_are_those_that_wait_and_those_on_their_way() {
        assert_eq!(
            dirty("MemFree:  7 kB\nDirty:    3 kB\nWriteback:  2 kB\nWritebackTmp: 9 kB\n"),
            Some(5 << 10)
        );
        assert_eq!(dirty("Dirty: 3 kB\n"), None);
        assert!(dirty(&std::fs::read_to_string("/proc/meminfo").unwrap()).is_some());
    }
}
