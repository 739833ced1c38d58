//! Owner, mode, times and extended attributes, access control lists among them.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{
    AtFlags, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags, chownat, fchmod, fchown, fgetxattr,
    flistxattr, flistxattr_query, fsetxattr, fstat, fstatvfs, futimens, utimensat,
};
use rustix::io::Errno;

use iotide_private::is_virtual;

use crate::numbers::Attributes;

/// What an attribute and the list of their names may take; the kernel allows no more.
const MAX_XATTR: usize = 64 << 10;

/// Makes `dst` as `src` is. Returns what could not be kept, of which the file system or a missing right is the cause.
pub(crate) fn copy(src: impl AsFd, dst: impl AsFd, attributes: &Attributes) -> io::Result<Option<String>> {
    if is_virtual(dst.as_fd()) {
        return apply(dst, attributes);
    }
    let mut lost = copy_xattrs(src, dst.as_fd())?;
    if let Some(what) = apply(dst, attributes)? {
        lost.get_or_insert(what);
    }
    Ok(lost)
}

/// Sets owner, mode and times, in this order: a change of owner takes set-user-id away.
pub(crate) fn apply(dst: impl AsFd, attributes: &Attributes) -> io::Result<Option<String>> {
    let now = fstat(dst.as_fd())?;
    // Nothing of it can be set in a virtual tree.
    if now.st_dev == 0 {
        return Ok(Some("owner, mode and times".to_owned()));
    }
    let mut lost = None;
    let mut mode = attributes.mode;
    if (now.st_uid, now.st_gid) != (attributes.uid, attributes.gid) {
        let (uid, gid) = (Uid::from_raw(attributes.uid), Gid::from_raw(attributes.gid));
        // The group alone may be changed by a member of it.
        let changed = fchown(dst.as_fd(), Some(uid), Some(gid)).or_else(|error| match error {
            Errno::PERM | Errno::INVAL => fchown(dst.as_fd(), None, Some(gid)).and(Err(error)),
            error => Err(error),
        });
        match changed {
            Ok(()) => {}
            Err(Errno::PERM | Errno::INVAL | Errno::OPNOTSUPP) => {
                lost = Some("owner or group".to_owned());
                // They would be somebody else's.
                mode &= !0o6000;
            }
            Err(error) => return Err(error.into()),
        }
    }
    fchmod(dst.as_fd(), Mode::from_raw_mode(mode))?;
    // A file that has no time keeps the one it was copied at.
    if (attributes.mtime_ns, attributes.atime_ns) != (0, 0) {
        futimens(dst, &times(attributes))?;
    }
    Ok(lost)
}

/// The same for a symbolic link, which has no mode.
pub(crate) fn apply_to_link(dir: &OwnedFd, name: &[u8], attributes: &Attributes) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(attributes.uid), Gid::from_raw(attributes.gid));
    match chownat(dir, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(()) | Err(Errno::PERM | Errno::INVAL | Errno::OPNOTSUPP) => {}
        Err(error) => return Err(error.into()),
    }
    match utimensat(dir, name, &times(attributes), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::INVAL) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn times(attributes: &Attributes) -> Timestamps {
    let time = |ns: i64| Timespec {
        tv_sec: ns.div_euclid(1_000_000_000),
        tv_nsec: ns.rem_euclid(1_000_000_000) as _,
    };
    Timestamps { last_access: time(attributes.atime_ns), last_modification: time(attributes.mtime_ns) }
}

fn copy_xattrs(src: impl AsFd, dst: impl AsFd) -> io::Result<Option<String>> {
    // Most files have no attributes.
    match flistxattr_query(src.as_fd()) {
        Ok(0) | Err(Errno::OPNOTSUPP) => return Ok(None),
        Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    let mut names = Vec::with_capacity(MAX_XATTR);
    flistxattr(src.as_fd(), rustix::buffer::spare_capacity(&mut names))?;
    let mut lost = None;
    for name in names.split_inclusive(|byte| *byte == 0) {
        let Ok(name) = CStr::from_bytes_with_nul(name) else { continue };
        let mut value = Vec::with_capacity(MAX_XATTR);
        let copied = fgetxattr(src.as_fd(), name, rustix::buffer::spare_capacity(&mut value))
            .and_then(|_| fsetxattr(dst.as_fd(), name, &value, XattrFlags::empty()));
        match copied {
            Ok(()) | Err(Errno::NODATA) => {}
            Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS | Errno::INVAL | Errno::TOOBIG) => {
                // Labels of a security module are the destination's own affair.
                if name.to_bytes() != b"security.selinux" {
                    lost.get_or_insert_with(|| format!("attribute {}", name.to_string_lossy()));
                }
            }
            // Some say so of an attribute that is too large for them.
            Err(Errno::NOSPC) if has_room(dst.as_fd()) => {
                lost.get_or_insert_with(|| format!("attribute {}", name.to_string_lossy()));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(lost)
}

/// Whether a file system has more room than any attribute needs.
fn has_room(file: impl AsFd) -> bool {
    fstatvfs(file).is_ok_and(|about| about.f_bavail.saturating_mul(about.f_frsize) > 1 << 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;
    use std::time::{Duration, SystemTime};

    #[test]
    fn a_copy_of_a_file_without_times_has_that_of_the_copy() {
        let dir = FreshDir::new("stage-times");
        let file = std::fs::File::create_new(dir.join("file")).unwrap();
        let stat = fstat(&file).unwrap();
        let of = |mtime_ns| Attributes { mtime_ns, atime_ns: mtime_ns, ..Attributes::of(&stat) };
        let modified = || file.metadata().unwrap().modified().unwrap();
        let made = modified();
        assert_eq!(apply(&file, &of(0)).unwrap(), None);
        assert_eq!(modified(), made);
        assert_eq!(apply(&file, &of(5_000_000_000)).unwrap(), None);
        assert_eq!(modified(), SystemTime::UNIX_EPOCH + Duration::from_secs(5));
    }
}
