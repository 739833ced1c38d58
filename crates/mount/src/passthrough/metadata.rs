//! Metadata of a file.

use std::ffi::OsStr;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;

use fuser::{FileHandle, INodeNo, TimeOrNow};
use rustix::fs::{self, AtFlags, FileType, Gid, Mode, OFlags, Statx, Uid};
use rustix::io::{Errno, Result};

use super::files::Waits;
use super::{Shared, path_of};
use crate::attributes::times;
use crate::nodes::stat_fd;

/// Changes that `setattr` makes.
pub(super) struct Change {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<TimeOrNow>,
    pub mtime: Option<TimeOrNow>,
}

impl Shared {
    pub(super) fn stat(&self, number: INodeNo, handle: Option<FileHandle>) -> Result<Statx> {
        match handle.and_then(|handle| self.files.get(handle)) {
            Some(open) => stat_fd(&open.file),
            None => stat_fd(&*self.node_fd(number)?),
        }
    }

    pub(super) fn change(
        &self,
        user: u32,
        number: INodeNo,
        handle: Option<FileHandle>,
        change: &Change,
        waits: Waits,
    ) -> Result<Statx> {
        let node = self.nodes.get(number.0)?;
        let fd = self.nodes.fd(&node)?;
        let in_proc = fd.as_raw_fd().to_string();
        if change.uid.is_some() || change.gid.is_some() {
            let (uid, gid) = (change.uid.map(Uid::from_raw), change.gid.map(Gid::from_raw));
            fs::chownat(&*fd, c"", uid, gid, AtFlags::EMPTY_PATH)?;
        }
        if let Some(mode) = change.mode {
            if node.kind == FileType::Symlink {
                return Err(Errno::OPNOTSUPP);
            }
            fs::chmodat(&self.descriptors, &*in_proc, Mode::from_raw_mode(mode & 0o7777), AtFlags::empty())?;
        }
        if let Some(size) = change.size {
            let open = handle.and_then(|handle| self.files.get(handle));
            let cut = || match &open {
                Some(open) => fs::ftruncate(&open.file, size),
                None => {
                    let how = if waits == Waits::No { OFlags::NONBLOCK } else { OFlags::empty() };
                    fs::ftruncate(self.reopen(&*fd, OFlags::WRONLY | how)?, size)
                }
            };
            if user == 0 { cut()? } else { self.privilege.losing_set_id(cut)? }
        }
        if change.atime.is_some() || change.mtime.is_some() {
            let times = times(change.atime, change.mtime);
            if node.kind == FileType::Symlink {
                fs::utimensat(&*fd, c"", &times, AtFlags::EMPTY_PATH)?;
            } else {
                fs::utimensat(&self.descriptors, &*in_proc, &times, AtFlags::empty())?;
            }
        }
        stat_fd(&*fd)
    }

    /// Reads an extended attribute, and returns its size.
    pub(super) fn attribute(&self, number: INodeNo, name: &OsStr, value: &mut [u8]) -> Result<usize> {
        match self.with_attributes(number, |path| fs::getxattr(path, name, value)) {
            // Where there are no access control lists, no file has one. The kernel asks before it checks permissions, and takes any other
            // error for the caller's answer.
            Err(Errno::OPNOTSUPP) if name.as_bytes().starts_with(b"system.posix_acl_") => Err(Errno::NODATA),
            got => got,
        }
    }

    /// The names of a file's extended attributes, each with a zero behind it. Those of `trusted` are for the administrator alone: a file
    /// system does not list them to others, but to us it does.
    pub(super) fn attribute_names(&self, number: INodeNo, is_root: bool) -> Result<Vec<u8>> {
        let mut names = vec![0; USUAL_NAMES];
        let length = loop {
            match self.with_attributes(number, |path| fs::listxattr(path, &mut names[..])) {
                Ok(length) => break length,
                Err(Errno::RANGE) if names.len() < MOST_NAMES => names.resize(MOST_NAMES, 0),
                // Of a symbolic link there is none that users could have set.
                Err(Errno::OPNOTSUPP) => break 0,
                Err(error) => return Err(error),
            }
        };
        names.truncate(length);
        if !is_root {
            let listed = names.split_inclusive(|&byte| byte == 0);
            names = listed.filter(|name| !name.starts_with(b"trusted.")).flatten().copied().collect();
        }
        Ok(names)
    }

    /// Calls with a path by which the file's extended attributes can be reached.
    pub(super) fn with_attributes<T>(
        &self,
        number: INodeNo,
        call: impl FnOnce(&str) -> Result<T>,
    ) -> Result<T> {
        let node = self.nodes.get(number.0)?;
        if node.kind == FileType::Symlink {
            // No path leads to a symbolic link without following it; and attributes of users are not for links.
            return Err(Errno::OPNOTSUPP);
        }
        call(&path_of(&*self.nodes.fd(&node)?))
    }
}

/// Bytes that the names of a file's extended attributes usually need, and the most that Linux lists.
const USUAL_NAMES: usize = 1 << 10;
const MOST_NAMES: usize = 1 << 16;
