//! Owner, mode, times and extended attributes, access control lists among them.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{
    AtFlags, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags, chownat, fchmod, fchown, fgetxattr,
    flistxattr, flistxattr_query, fsetxattr, fstat, fstatvfs, futimens, statat, utimensat,
};
use rustix::io::Errno;

use iotide_private::is_virtual;

use crate::numbers::Attributes;

/// Limit on the bytes of an attribute and on those of the list of their names; the kernel allows no more.
const MAX_XATTR: usize = 64 << 10;

/// Makes `dst` as `src` is. Returns what could not be kept, of which the file system or a missing right is the cause.
pub(crate) fn copy(src: impl AsFd, dst: impl AsFd, attributes: &Attributes) -> io::Result<Option<String>> {
    if is_virtual(dst.as_fd()) {
        return apply(dst, attributes);
    }
    let Xattrs { mut lost, group } = copy_xattrs(src, dst.as_fd())?;
    let mut attributes = *attributes;
    if let Some(group) = group {
        attributes.mode &= !0o070 | group << 3;
    }
    if let Some(what) = apply(dst, &attributes)? {
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

/// The same for a symbolic link, which has no mode. Where it leads is all that counts: returns what could not be kept, whatever the reason.
pub(crate) fn apply_to_link(dir: &OwnedFd, name: &[u8], attributes: &Attributes) -> Option<String> {
    let owner = (attributes.uid, attributes.gid);
    let is_owner = |stat: rustix::fs::Stat| (stat.st_uid, stat.st_gid) == owner;
    let (uid, gid) = (Uid::from_raw(owner.0), Gid::from_raw(owner.1));
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let has_owner = statat(dir, name, flags).is_ok_and(is_owner)
        || chownat(dir, name, Some(uid), Some(gid), flags).is_ok();
    let has_times = utimensat(dir, name, &times(attributes), flags).is_ok();
    match (has_owner, has_times) {
        (true, true) => None,
        (false, _) => Some("owner or group".to_owned()),
        (true, false) => Some("times".to_owned()),
    }
}

fn times(attributes: &Attributes) -> Timestamps {
    let time = |ns: i64| Timespec {
        tv_sec: ns.div_euclid(1_000_000_000),
        tv_nsec: ns.rem_euclid(1_000_000_000) as _,
    };
    Timestamps { last_access: time(attributes.atime_ns), last_modification: time(attributes.mtime_ns) }
}

/// Result of copying extended attributes.
#[derive(Default)]
struct Xattrs {
    /// The first that could not be kept.
    lost: Option<String>,
    /// The rights of the owning group, if the access control list is lost: in its place the mode has those of all who are listed.
    group: Option<u32>,
}

fn copy_xattrs(src: impl AsFd, dst: impl AsFd) -> io::Result<Xattrs> {
    // Most files have no attributes.
    match flistxattr_query(src.as_fd()) {
        Ok(0) | Err(Errno::OPNOTSUPP) => return Ok(Xattrs::default()),
        Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    let mut names = Vec::with_capacity(MAX_XATTR);
    flistxattr(src.as_fd(), rustix::buffer::spare_capacity(&mut names))?;
    let mut xattrs = Xattrs::default();
    for name in names.split_inclusive(|byte| *byte == 0) {
        let Ok(name) = CStr::from_bytes_with_nul(name) else { continue };
        let mut value = Vec::with_capacity(MAX_XATTR);
        let copied = fgetxattr(src.as_fd(), name, rustix::buffer::spare_capacity(&mut value))
            .and_then(|_| fsetxattr(dst.as_fd(), name, &value, XattrFlags::empty()));
        match copied {
            Ok(()) | Err(Errno::NODATA) => continue,
            // Labels of a security module are the destination's own affair.
            Err(_) if name.to_bytes() == b"security.selinux" => continue,
            Err(Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS | Errno::INVAL | Errno::TOOBIG) => {}
            // Some say so of an attribute that is too large for them.
            Err(Errno::NOSPC) if has_room(dst.as_fd()) => {}
            Err(error) => return Err(error.into()),
        }
        if name.to_bytes() == b"system.posix_acl_access" {
            xattrs.group = Some(group_of(&value).unwrap_or(0));
        }
        xattrs.lost.get_or_insert_with(|| format!("attribute {}", name.to_string_lossy()));
    }
    Ok(xattrs)
}

/// The rights of the owning group in an access control list: a version, then entries of tag, rights and id.
fn group_of(list: &[u8]) -> Option<u32> {
    const GROUP: u16 = 4;
    let (entries, _) = list.get(4..)?.as_chunks::<8>();
    let word = |entry: &[u8; 8], at: usize| u16::from_le_bytes([entry[at], entry[at + 1]]);
    entries.iter().find(|entry| word(entry, 0) == GROUP).map(|entry| u32::from(word(entry, 2)) & 7)
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

    #[test]
    fn the_owning_group_is_found_in_an_access_control_list() {
        let entry =
            |tag: u16, rights: u16| [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &[0xff; 4]].concat();
        let list =
            [2u32.to_le_bytes().to_vec(), entry(1, 7), entry(2, 6), entry(4, 4), entry(0x10, 6)].concat();
        assert_eq!(group_of(&list), Some(4));
        assert_eq!(group_of(&list[..20]), None);
        assert_eq!(group_of(&[2]), None);
    }
}
