//! Directories of a tree by their path below its top, opened name by name from the top and past no link.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, fstat, openat, statat};

/// A tree, held by the descriptor of its top.
#[derive(Debug)]
pub(crate) struct Dirs {
    top: Arc<OwnedFd>,
    path: PathBuf,
    is_virtual: bool,
    open: Mutex<HashMap<Vec<u8>, Arc<OwnedFd>>>,
}

/// How many are kept open.
const MAX_OPEN: usize = 128;

const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

impl Dirs {
    /// Opens a tree that the user named, links on the way allowed.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = openat(CWD, path, flags, Mode::empty())?;
        let is_virtual = iotide_private::is_virtual(&top);
        Ok(Self { top: Arc::new(top), path: path.to_owned(), is_virtual, open: Mutex::default() })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn top(&self) -> &OwnedFd {
        &self.top
    }

    /// Whether it is of no file system that the kernel knows: a preloaded library serves it, GekkoFS's for example.
    ///
    /// There, descriptors of other processes cannot be seen, and no name can be put in the place of another.
    pub(crate) fn is_virtual(&self) -> bool {
        self.is_virtual
    }

    /// The directory `path` (bytes between slashes, empty for the top).
    pub(crate) fn dir(&self, path: &[u8]) -> io::Result<Arc<OwnedFd>> {
        if path.is_empty() {
            return Ok(Arc::clone(&self.top));
        }
        if let Some(dir) = self.kept().get(path) {
            return Ok(Arc::clone(dir));
        }
        // Not by recursion: there is no limit to how deep a tree is. From the deepest one that is open downward.
        let mut known = parent(path);
        let mut dir = loop {
            if known.is_empty() {
                break Arc::clone(&self.top);
            }
            if let Some(dir) = self.kept().get(known) {
                break Arc::clone(dir);
            }
            known = parent(known);
        };
        let rest = if known.is_empty() { path } else { &path[known.len() + 1..] };
        for name in rest.split(|byte| *byte == b'/') {
            dir = Arc::new(openat(&*dir, name, FLAGS, Mode::empty())?);
        }
        self.keep(path, &dir);
        Ok(dir)
    }

    /// Makes `path` known under a descriptor that was opened otherwise.
    pub(crate) fn keep(&self, path: &[u8], dir: &Arc<OwnedFd>) {
        let mut kept = self.kept();
        if kept.len() >= MAX_OPEN {
            kept.clear();
        }
        kept.insert(path.to_owned(), Arc::clone(dir));
    }

    /// Closes all but the top: names may lead elsewhere by now.
    pub(crate) fn forget(&self) {
        self.kept().clear();
    }

    /// Returns the status of the entry at `path`, links not followed.
    pub(crate) fn stat(&self, path: &[u8]) -> io::Result<Stat> {
        if path.is_empty() {
            return Ok(fstat(&*self.top)?);
        }
        let dir = self.dir(parent(path))?;
        Ok(statat(&*dir, name(path), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Arc<OwnedFd>>> {
        self.open.lock().unwrap_or_else(|broken| broken.into_inner())
    }
}

/// The path of the directory that holds `path`.
pub(crate) fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(&[], |at| &path[..at])
}

/// Its last name.
pub(crate) fn name(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(path, |at| &path[at + 1..])
}

/// The path of `name` in the directory `dir`.
pub(crate) fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    if dir.is_empty() { name.to_owned() } else { [dir, b"/", name].concat() }
}

/// Whether `path` is one that could be below a tree: names between single slashes, none of them `.` or `..`, none of ours.
pub(crate) fn is_plain(path: &[u8]) -> bool {
    let is_name = |name: &[u8]| {
        !name.is_empty() && name != b"." && name != b".." && name.len() <= 255 && !name.contains(&0)
    };
    path.len() <= MAX_PATH && path.split(|byte| *byte == b'/').all(is_name)
}

/// The longest path that is believed.
pub(crate) const MAX_PATH: usize = 1 << 20;
