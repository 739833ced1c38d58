//! Numbers that tell one version of a file from another.

use rustix::fs::{FileType, Stat};

/// Inode, size and times: as long as none of them changes, the contents are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Numbers {
    /// Inode.
    pub ino: u64,
    /// Bytes.
    pub size: u64,
    /// Time of the last change of contents, in nanoseconds since 1970; programs may set it.
    pub mtime_ns: i64,
    /// Time of the last change of anything, in nanoseconds since 1970; nobody can set it.
    pub ctime_ns: i64,
}

impl Numbers {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            // In a virtual tree it is made of the name that a file was opened by.
            ino: if stat.st_dev == 0 { 0 } else { stat.st_ino },
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mtime_ns: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
            ctime_ns: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

/// Attributes that are kept of an entry beside its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Attributes {
    /// Permissions, with set-user-id and the like.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Time of the last change of contents, in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// Time of the last read, likewise.
    pub atime_ns: i64,
}

impl Numbers {
    /// Whether no time says that the contents changed: GekkoFS keeps none, unless it was built so.
    pub(crate) fn are_timeless(&self) -> bool {
        self.mtime_ns == 0 && self.ctime_ns == 0
    }
}

impl Attributes {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            gid: stat.st_gid,
            mtime_ns: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
            atime_ns: nanoseconds(stat.st_atime, stat.st_atime_nsec),
        }
    }
}

/// Whether what is in the destination has the size and the time of a version; some file systems keep whole seconds alone.
pub(crate) fn is_copy_of(there: &Stat, numbers: &Numbers) -> bool {
    const SECOND: i64 = 1_000_000_000;
    let there = Numbers::of(there);
    let is_rounded = there.mtime_ns.rem_euclid(SECOND) == 0
        && there.mtime_ns.div_euclid(SECOND) == numbers.mtime_ns.div_euclid(SECOND);
    there.size == numbers.size && (there.mtime_ns == numbers.mtime_ns || is_rounded)
}

pub(crate) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn nanoseconds(seconds: i64, part: impl TryInto<i64>) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(part.try_into().unwrap_or(0))
}
