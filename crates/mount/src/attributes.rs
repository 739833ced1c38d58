//! Attributes of a file, in the types of the backing file system and of FUSE.

use std::time::{Duration, SystemTime};

use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use rustix::fs::{self, Statx, StatxTimestamp, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};

/// Returns the attributes of a file under the number the kernel knows it by.
pub(crate) fn attributes(number: u64, stat: &Statx) -> FileAttr {
    FileAttr {
        ino: INodeNo(number),
        size: stat.stx_size,
        blocks: stat.stx_blocks,
        atime: system_time(&stat.stx_atime),
        mtime: system_time(&stat.stx_mtime),
        ctime: system_time(&stat.stx_ctime),
        crtime: system_time(&stat.stx_btime),
        kind: kind(fs::FileType::from_raw_mode(u32::from(stat.stx_mode))),
        perm: stat.stx_mode & 0o7777,
        nlink: stat.stx_nlink,
        uid: stat.stx_uid,
        gid: stat.stx_gid,
        rdev: device_number(stat.stx_rdev_major, stat.stx_rdev_minor),
        blksize: stat.stx_blksize,
        flags: 0,
    }
}

/// Returns the kind of a file as FUSE calls it.
pub(crate) fn kind(kind: fs::FileType) -> FileType {
    match kind {
        fs::FileType::Directory => FileType::Directory,
        fs::FileType::Symlink => FileType::Symlink,
        fs::FileType::Fifo => FileType::NamedPipe,
        fs::FileType::Socket => FileType::Socket,
        fs::FileType::CharacterDevice => FileType::CharDevice,
        fs::FileType::BlockDevice => FileType::BlockDevice,
        // A listing may not know; the kernel asks again before it matters.
        fs::FileType::RegularFile | fs::FileType::Unknown => FileType::RegularFile,
    }
}

/// The 32 bits in which the kernel passes a device number: 12 for the major, 20 for the minor, in three pieces.
fn device_number(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// Returns the device that those 32 bits stand for.
pub(crate) fn device(number: u32) -> fs::Dev {
    fs::makedev((number >> 8) & 0xfff, (number & 0xff) | ((number >> 12) & !0xff))
}

/// Returns the times to set, where `None` leaves one as it is.
pub(crate) fn times(atime: Option<TimeOrNow>, mtime: Option<TimeOrNow>) -> Timestamps {
    Timestamps { last_access: timespec(atime), last_modification: timespec(mtime) }
}

fn timespec(time: Option<TimeOrNow>) -> Timespec {
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(TimeOrNow::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(TimeOrNow::SpecificTime(time)) => match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => Timespec { tv_sec: after.as_secs() as i64, tv_nsec: after.subsec_nanos().into() },
            // Before 1970 fuser takes the nanoseconds, which count forward, for some that count backward: undone here.
            Err(before) => {
                let before = before.duration();
                Timespec { tv_sec: -(before.as_secs() as i64), tv_nsec: before.subsec_nanos().into() }
            }
        },
    }
}

fn system_time(time: &StatxTimestamp) -> SystemTime {
    let nanos = Duration::from_nanos(u64::from(time.tv_nsec));
    let seconds = Duration::from_secs(time.tv_sec.unsigned_abs());
    let whole = if time.tv_sec < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(seconds)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(seconds)
    };
    whole.and_then(|whole| whole.checked_add(nanos)).unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_passed_on_as_the_kernel_sent_them() {
        let spec = |time| timespec(Some(TimeOrNow::SpecificTime(time)));
        let after = spec(SystemTime::UNIX_EPOCH + Duration::new(3, 250));
        assert_eq!((after.tv_sec, after.tv_nsec), (3, 250));
        // The kernel's (-2 s, 750 ms), a second and a quarter before 1970, in the form that fuser gives it.
        let before = spec(SystemTime::UNIX_EPOCH - Duration::new(2, 750_000_000));
        assert_eq!((before.tv_sec, before.tv_nsec), (-2, 750_000_000));
        assert_eq!(timespec(None).tv_nsec, UTIME_OMIT);
    }

    #[test]
    fn device_numbers_survive_the_way_there_and_back() {
        for (major, minor) in [(0, 0), (1, 3), (8, 17), (259, 300), (4095, 0xf_ffff)] {
            let device = device(device_number(major, minor));
            assert_eq!((fs::major(device), fs::minor(device)), (major, minor));
        }
    }
}
