//! Open folders and what is listed of them.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use fuser::{FileAttr, FileHandle, INodeNo};
use rustix::fs::{self, FileType, OFlags, RawDir, SeekFrom, Statx};
use rustix::io::{Errno, Result};

use super::Shared;
use crate::attributes::kind;
use crate::nodes::Node;
use iotide_gate::Share;

/// A folder that is being listed.
pub(super) struct OpenFolder {
    pub folder: OwnedFd,
    /// Counted among what its user has open.
    _place: Share,
    /// Only one may move the position at a time.
    listing: Mutex<()>,
}

/// An entry of a folder as the backing file system lists it.
pub(super) struct Listed<'a> {
    pub name: &'a OsStr,
    pub inode: u64,
    pub kind: FileType,
    pub next: u64,
}

/// Room for a listing; a name takes at most 280 bytes of it.
const LISTING_BYTES: usize = 32 << 10;

thread_local! {
    static LISTING: RefCell<Vec<MaybeUninit<u8>>> =
        RefCell::new(vec![MaybeUninit::uninit(); LISTING_BYTES]);
}

impl Shared {
    pub(super) fn open_folder(&self, user: u32, number: INodeNo) -> Result<FileHandle> {
        let place = self.open_files.take(user).ok_or(Errno::MFILE)?;
        let folder = self.reopen(&*self.node_fd(number)?, OFlags::RDONLY | OFlags::DIRECTORY)?;
        Ok(self.folders.insert(OpenFolder { folder, _place: place, listing: Mutex::new(()) }))
    }

    pub(super) fn list(
        &self,
        handle: FileHandle,
        offset: u64,
        mut add: impl FnMut(&Listed) -> bool,
    ) -> Result<()> {
        let open = self.folders.get(handle).ok_or(Errno::BADF)?;
        let _one_at_a_time = open.listing.lock().unwrap_or_else(PoisonError::into_inner);
        // An offset is what the backing file system calls the place after an entry, so that a listing stays right while
        // names come and go, as far as it does there.
        fs::seek(&open.folder, SeekFrom::Start(offset))?;
        LISTING.with_borrow_mut(|buffer| {
            let mut entries = RawDir::new(&open.folder, &mut buffer[..]);
            while let Some(entry) = entries.next() {
                let entry = entry?;
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                let listed = Listed {
                    name,
                    inode: entry.ino(),
                    kind: entry.file_type(),
                    next: entry.next_entry_cookie(),
                };
                if add(&listed) {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Looks at a name that was listed, for the kernel, which will say when to forget it.
    pub(super) fn remember_listed(&self, folder: INodeNo, name: &OsStr) -> Result<(Arc<Node>, Statx)> {
        self.nodes.remember_listed(&self.nodes.get(folder.0)?, name)
    }
}

/// Returns the attributes of a listed name that are available without a look at the file: its inode and kind.
pub(super) fn nameless(entry: &Listed) -> FileAttr {
    FileAttr {
        ino: INodeNo(entry.inode),
        size: 0,
        blocks: 0,
        atime: SystemTime::UNIX_EPOCH,
        mtime: SystemTime::UNIX_EPOCH,
        ctime: SystemTime::UNIX_EPOCH,
        crtime: SystemTime::UNIX_EPOCH,
        kind: kind(entry.kind),
        perm: 0,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}
