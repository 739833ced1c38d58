//! Names that come, go and move.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use fuser::{INodeNo, RenameFlags, Request};
use iotide_gate::Who;
use rustix::fs::{self, AtFlags, Mode, Statx};
use rustix::io::Result;

use super::{Shared, path_of};

impl Shared {
    /// Returns the permissions of a new file: without the bits of the umask, unless the folder has a default list of its own.
    pub(super) fn mode(&self, parent: impl AsFd, mode: u32, umask: u32) -> Mode {
        let masked = || Mode::from_raw_mode(mode & 0o7777 & !umask);
        if self.has_acls.get() != Some(&true) {
            return masked();
        }
        match fs::getxattr(path_of(parent), c"system.posix_acl_default", &mut [0u8; 0][..]) {
            Ok(size) if size > 0 => Mode::from_raw_mode(mode & 0o7777),
            _ => masked(),
        }
    }

    /// Runs `make` in the caller's name.
    pub(super) fn as_caller<T>(&self, request: &Request, make: impl FnOnce() -> Result<T>) -> Result<T> {
        let who = Who { thread: request.pid(), uid: request.uid() };
        self.privilege.as_caller(who, request.gid(), &self.groups, make)
    }

    /// Makes something in a folder in the caller's name, and gives it to the kernel.
    pub(super) fn make(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        make: impl FnOnce(&OwnedFd) -> Result<()>,
    ) -> Result<(u64, Statx)> {
        let parent = self.nodes.get(parent.0)?;
        let folder = self.nodes.fd(&parent)?;
        self.as_caller(request, || make(&folder))?;
        let (node, stat) = self.nodes.look_up(&parent, name)?;
        Ok((node.number, stat))
    }

    pub(super) fn remove(&self, parent: INodeNo, name: &OsStr, flags: AtFlags) -> Result<()> {
        let parent = self.nodes.get(parent.0)?;
        let folder = self.nodes.fd(&parent)?;
        self.nodes.pin(&parent, name);
        fs::unlinkat(&*folder, name, flags)
    }

    pub(super) fn rename(
        &self,
        from: (INodeNo, &OsStr),
        to: (INodeNo, &OsStr),
        flags: RenameFlags,
    ) -> Result<()> {
        let (old, new) = (self.nodes.get(from.0.0)?, self.nodes.get(to.0.0)?);
        let (old_folder, new_folder) = (self.nodes.fd(&old)?, self.nodes.fd(&new)?);
        let is_exchange = flags.contains(RenameFlags::RENAME_EXCHANGE);
        if !is_exchange {
            // It is about to lose its name, if it is there.
            self.nodes.pin(&new, to.1);
        }
        let flags = fs::RenameFlags::from_bits_retain(flags.bits());
        fs::renameat_with(&*old_folder, from.1, &*new_folder, to.1, flags)?;
        self.nodes.moved(&new, to.1);
        if is_exchange {
            self.nodes.moved(&old, from.1);
        }
        Ok(())
    }

    pub(super) fn link(&self, number: INodeNo, parent: INodeNo, name: &OsStr) -> Result<(u64, Statx)> {
        let file = self.node_fd(number)?;
        let parent = self.nodes.get(parent.0)?;
        let folder = self.nodes.fd(&parent)?;
        // The name in /proc is a link to the file itself, so following it ends there, even at a symbolic link.
        fs::linkat(&self.descriptors, file.as_raw_fd().to_string(), &*folder, name, AtFlags::SYMLINK_FOLLOW)?;
        let (node, stat) = self.nodes.look_up(&parent, name)?;
        Ok((node.number, stat))
    }
}
