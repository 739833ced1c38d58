//! Which file of the backing directory a number of the kernel's stands for.
//!
//! A file is what it is by device, inode and time of birth, never by its path: renames and hard links do not confuse
//! it, and a number that the backing file system gives to a new file is not taken for the old one. The kernel is given
//! the inode number itself where that is free, so that `ls -i` says the same on both sides.
//!
//! A node keeps a descriptor (`O_PATH`) to its file, but the kernel may remember millions of files. So descriptors have
//! a budget: beyond it those unused for longest are closed, and opened again by the place where the file was last seen.
//! If it is not there any more, the answer is ESTALE, on which the kernel looks the path up anew. A file that is
//! removed through the mount keeps its descriptor for as long as the kernel knows it.

use std::collections::{HashMap, VecDeque};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Statx, StatxFlags, openat, statx};
use rustix::io::{Errno, Result};

use crate::backing::Backing;

/// The number by which the kernel calls the root.
pub(crate) const ROOT: u64 = 1;

/// Numbers we make up begin here: for files whose own is taken, on another device below the backing directory.
const MADE_UP: u64 = 1 << 63;

/// A path is at most 4096 bytes long, so no folder lies deeper than half of that.
const MAX_DEPTH: usize = 2048;

/// The files the kernel knows of.
#[derive(Debug)]
pub(crate) struct Nodes {
    table: RwLock<Table>,
    open: Mutex<VecDeque<Weak<Node>>>,
    max_open: usize,
    /// Where the root is found if its file system dies and comes back.
    backing: Option<Backing>,
}

#[derive(Debug, Default)]
struct Table {
    by_number: HashMap<u64, Arc<Node>>,
    by_identity: HashMap<Identity, Arc<Node>>,
    n_made_up: u64,
}

/// A file the kernel knows of.
#[derive(Debug)]
pub(crate) struct Node {
    /// Number of the file in the kernel.
    pub number: u64,
    /// Whether it is a file, a directory or a link; that never changes.
    pub kind: FileType,
    identity: Identity,
    n_lookups: AtomicU64,
    used: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    fd: Option<Arc<OwnedFd>>,
    /// Where it was seen last; the root has none.
    place: Option<Place>,
    /// It has no place any more, so the descriptor is all there is.
    pinned: bool,
}

#[derive(Debug)]
struct Place {
    parent: Arc<Node>,
    name: OsString,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Identity {
    device: (u32, u32),
    inode: u64,
    /// Zero on file systems that do not tell.
    born: (i64, u32),
}

impl Identity {
    fn of(stat: &Statx) -> Self {
        let born = if stat.stx_mask & StatxFlags::BTIME.bits() == 0 {
            (0, 0)
        } else {
            (stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec)
        };
        Self { device: (stat.stx_dev_major, stat.stx_dev_minor), inode: stat.stx_ino, born }
    }
}

impl Nodes {
    /// Begins with the backing directory; `max_open` descriptors are kept, and those of files that were removed.
    pub(crate) fn new(root: OwnedFd, backing: Option<Backing>, max_open: usize) -> Result<Self> {
        let stat = stat_fd(&root)?;
        let node = Arc::new(Node {
            number: ROOT,
            kind: FileType::Directory,
            identity: Identity::of(&stat),
            n_lookups: AtomicU64::new(1),
            used: AtomicBool::new(true),
            state: Mutex::new(State { fd: Some(Arc::new(root)), place: None, pinned: true }),
        });
        let mut table = Table::default();
        table.by_identity.insert(node.identity, Arc::clone(&node));
        table.by_number.insert(ROOT, node);
        Ok(Self { table: RwLock::new(table), open: Mutex::default(), max_open: max_open.max(16), backing })
    }

    /// Asks for something, and once more if the backing file system had died and was mounted again meanwhile.
    pub(crate) fn alive<T>(&self, ask: impl Fn() -> Result<T>) -> Result<T> {
        match ask() {
            Err(Errno::NOTCONN | Errno::STALE) if self.revive() => ask(),
            answer => answer,
        }
    }

    /// Begins anew with the directory that is mounted now. What is known of files below it is found by their names again, or is stale: then the
    /// kernel looks them up.
    fn revive(&self) -> bool {
        let Some(root) = self.backing.as_ref().and_then(Backing::reopened) else { return false };
        let table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        for node in table.by_number.values().filter(|node| node.number != ROOT) {
            node.state().fd = None;
        }
        table.by_number[&ROOT].state().fd = Some(Arc::new(root));
        true
    }

    /// Returns the node the kernel means by `number`.
    pub(crate) fn get(&self, number: u64) -> Result<Arc<Node>> {
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.by_number.get(&number).cloned().ok_or(Errno::STALE)
    }

    /// Returns a descriptor of the node's file that names it and does no more (`O_PATH`).
    pub(crate) fn fd(&self, node: &Arc<Node>) -> Result<Arc<OwnedFd>> {
        // Up to the first folder that is open, then down again. A loop and no recursion: how deep folders lie is for others to say, and
        // a thread's stack is small. No lock is held on the way: two threads cannot wait for each other.
        let mut closed = Vec::new();
        let mut at = Arc::clone(node);
        let mut fd = loop {
            let parent = {
                let state = at.state();
                if let Some(fd) = &state.fd {
                    at.used.store(true, Ordering::Relaxed);
                    break Arc::clone(fd);
                }
                let place = state.place.as_ref().ok_or(Errno::STALE)?;
                closed.push((Arc::clone(&at), place.name.clone()));
                Arc::clone(&place.parent)
            };
            // Others may move folders behind the mount, so that what was seen at different times leads in a circle.
            if closed.len() > MAX_DEPTH {
                return Err(Errno::STALE);
            }
            at = parent;
        };
        while let Some((node, name)) = closed.pop() {
            fd = self.open_in(&fd, &node, &name)?;
        }
        Ok(fd)
    }

    /// Opens the closed `node`, which is `name` in `folder`.
    fn open_in(&self, folder: &OwnedFd, node: &Arc<Node>, name: &OsStr) -> Result<Arc<OwnedFd>> {
        let fd = open_path(folder, name).map_err(|error| match error {
            Errno::NOENT | Errno::NOTDIR => Errno::STALE,
            other => other,
        })?;
        if Identity::of(&stat_fd(&fd)?) != node.identity {
            return Err(Errno::STALE);
        }
        let fd = Arc::new(fd);
        {
            let mut state = node.state();
            if let Some(known) = &state.fd {
                return Ok(Arc::clone(known)); // another thread was faster
            }
            state.fd = Some(Arc::clone(&fd));
        }
        self.note_open(node);
        Ok(fd)
    }

    /// Looks `name` up in `parent`, for the kernel, which will say when to forget what it got.
    pub(crate) fn look_up(&self, parent: &Arc<Node>, name: &OsStr) -> Result<(Arc<Node>, Statx)> {
        let fd = open_path(&*self.fd(parent)?, name)?;
        self.remember(parent, name, fd)
    }

    /// Gives the file behind `fd` to the kernel as what `name` in `parent` is.
    pub(crate) fn remember(
        &self,
        parent: &Arc<Node>,
        name: &OsStr,
        fd: OwnedFd,
    ) -> Result<(Arc<Node>, Statx)> {
        let stat = stat_fd(&fd)?;
        let node = self.enter(parent, name, &stat);
        let is_new = {
            let mut state = node.state();
            let is_new = state.fd.is_none();
            if is_new {
                state.fd = Some(Arc::new(fd));
            }
            is_new
        };
        if is_new {
            self.note_open(&node);
        }
        Ok((node, stat))
    }

    /// The same without a descriptor, for listing directories; it is opened when needed.
    pub(crate) fn remember_listed(&self, parent: &Arc<Node>, name: &OsStr) -> Result<(Arc<Node>, Statx)> {
        let stat = stat_at(&*self.fd(parent)?, name)?;
        Ok((self.enter(parent, name, &stat), stat))
    }

    fn enter(&self, parent: &Arc<Node>, name: &OsStr, stat: &Statx) -> Arc<Node> {
        let identity = Identity::of(stat);
        let place = || Place { parent: Arc::clone(parent), name: name.to_owned() };
        {
            let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(node) = table.by_identity.get(&identity) {
                node.n_lookups.fetch_add(1, Ordering::Relaxed);
                node.move_to(place);
                return Arc::clone(node);
            }
        }
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = table.by_identity.get(&identity) {
            node.n_lookups.fetch_add(1, Ordering::Relaxed);
            node.move_to(place);
            return Arc::clone(node);
        }
        let root = &table.by_number[&ROOT].identity;
        let is_free = identity.device == root.device
            && (ROOT + 1..MADE_UP).contains(&stat.stx_ino)
            && !table.by_number.contains_key(&stat.stx_ino);
        let number = if is_free {
            stat.stx_ino
        } else {
            table.n_made_up += 1;
            MADE_UP + table.n_made_up
        };
        let node = Arc::new(Node {
            number,
            kind: FileType::from_raw_mode(u32::from(stat.stx_mode)),
            identity,
            n_lookups: AtomicU64::new(1),
            used: AtomicBool::new(true),
            state: Mutex::new(State { fd: None, place: Some(place()), pinned: false }),
        });
        table.by_identity.insert(identity, Arc::clone(&node));
        table.by_number.insert(number, Arc::clone(&node));
        node
    }

    /// Notes that the kernel has forgotten `n` of the times it was given `number`.
    pub(crate) fn forget(&self, number: u64, n: u64) {
        if number == ROOT {
            return;
        }
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let Some(node) = table.by_number.get(&number) else { return };
        let left = node.n_lookups.load(Ordering::Relaxed).saturating_sub(n);
        node.n_lookups.store(left, Ordering::Relaxed);
        if left == 0 {
            let identity = node.identity;
            table.by_number.remove(&number);
            table.by_identity.remove(&identity);
        }
    }

    /// Makes sure that what is called `name` in `parent`, if the kernel knows it, outlives the name.
    pub(crate) fn pin(&self, parent: &Arc<Node>, name: &OsStr) {
        let Some(node) = self.known_at(parent, name) else { return };
        if self.fd(&node).is_ok() {
            node.state().pinned = true;
        }
    }

    /// Notes where what is now called `name` in `parent` has gone.
    pub(crate) fn moved(&self, parent: &Arc<Node>, name: &OsStr) {
        if let Some(node) = self.known_at(parent, name) {
            node.move_to(|| Place { parent: Arc::clone(parent), name: name.to_owned() });
        }
    }

    fn known_at(&self, parent: &Arc<Node>, name: &OsStr) -> Option<Arc<Node>> {
        let stat = stat_at(&*self.fd(parent).ok()?, name).ok()?;
        let table = self.table.read().unwrap_or_else(PoisonError::into_inner);
        table.by_identity.get(&Identity::of(&stat)).cloned()
    }

    /// Keeps the budget: each node that is passed over because it was used since gets a second chance.
    fn note_open(&self, node: &Arc<Node>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.push_back(Arc::downgrade(node));
        let mut chances = open.len();
        while open.len() > self.max_open && chances > 0 {
            chances -= 1;
            let Some(oldest) = open.pop_front().and_then(|oldest| oldest.upgrade()) else { continue };
            if oldest.used.swap(false, Ordering::Relaxed) {
                open.push_back(Arc::downgrade(&oldest));
            } else if let Ok(mut state) = oldest.state.try_lock()
                && !state.pinned
            {
                state.fd = None;
            }
        }
    }

    #[cfg(test)]
    fn n_open(&self) -> usize {
        let table = self.table.read().unwrap();
        table.by_number.values().filter(|node| node.state().fd.is_some()).count()
    }
}

impl Node {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A name that is found again, or was just given, is a place to come back to.
    fn move_to(&self, place: impl FnOnce() -> Place) {
        if self.number != ROOT {
            let mut state = self.state();
            state.place = Some(place());
            state.pinned = false;
        }
    }
}

/// Opens a file so that it is named and nothing else: no permission is needed, nothing is followed.
fn open_path(parent: impl AsFd, name: &OsStr) -> Result<OwnedFd> {
    openat(parent, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

const WANTED: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

/// Returns the status of the file behind a descriptor.
pub(crate) fn stat_fd(fd: impl AsFd) -> Result<Statx> {
    statx(fd, c"", AtFlags::EMPTY_PATH, WANTED)
}

fn stat_at(parent: impl AsFd, name: &OsStr) -> Result<Statx> {
    statx(parent, name, AtFlags::SYMLINK_NOFOLLOW, WANTED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;
    use rustix::fs::CWD;

    fn nodes(dir: &FreshDir, max_open: usize) -> (Nodes, Arc<Node>) {
        let root = openat(CWD, dir.path(), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let nodes = Nodes::new(root, None, max_open).unwrap();
        let root = nodes.get(ROOT).unwrap();
        (nodes, root)
    }

    #[test]
    fn places_that_lead_in_a_circle_are_stale() {
        let dir = FreshDir::new("nodes-circle");
        std::fs::create_dir_all(dir.join("a/b")).unwrap();
        let (nodes, root) = nodes(&dir, 100);
        let (a, _) = nodes.look_up(&root, OsStr::new("a")).unwrap();
        let (b, _) = nodes.look_up(&a, OsStr::new("b")).unwrap();
        // As if the two had changed places behind the mount, and were looked at in between.
        a.move_to(|| Place { parent: Arc::clone(&b), name: "a".into() });
        a.state().fd = None;
        b.state().fd = None;
        assert_eq!(nodes.fd(&a).unwrap_err(), Errno::STALE);
        a.state().place = None; // breaks the circle, so that nothing is left behind
    }

    #[test]
    fn two_names_of_one_file_are_one_node() {
        let dir = FreshDir::new("nodes-links");
        let file = dir.write("a", "");
        std::fs::hard_link(&file, dir.join("b")).unwrap();
        let (nodes, root) = nodes(&dir, 100);
        let (a, stat) = nodes.look_up(&root, OsStr::new("a")).unwrap();
        let (b, _) = nodes.look_up(&root, OsStr::new("b")).unwrap();
        assert!(Arc::ptr_eq(&a, &b));
        assert_eq!(a.number, stat.stx_ino);
    }

    #[test]
    fn a_node_lives_until_every_lookup_is_forgotten() {
        let dir = FreshDir::new("nodes-forget");
        dir.write("a", "");
        let (nodes, root) = nodes(&dir, 100);
        let (a, _) = nodes.look_up(&root, OsStr::new("a")).unwrap();
        nodes.look_up(&root, OsStr::new("a")).unwrap();
        nodes.forget(a.number, 1);
        assert!(nodes.get(a.number).is_ok());
        nodes.forget(a.number, 1);
        assert_eq!(nodes.get(a.number).unwrap_err(), Errno::STALE);
        nodes.forget(ROOT, 1000);
        assert!(nodes.get(ROOT).is_ok());
    }

    #[test]
    fn descriptors_beyond_the_budget_are_closed_and_come_back() {
        let dir = FreshDir::new("nodes-budget");
        let (nodes, root) = nodes(&dir, 20);
        let known: Vec<Arc<Node>> = (0..200)
            .map(|index| {
                let name = format!("file-{index}");
                dir.write(&name, "");
                nodes.look_up(&root, OsStr::new(&name)).unwrap().0
            })
            .collect();
        assert!(nodes.n_open() <= 22, "{} are open", nodes.n_open());
        for node in &known {
            let stat = stat_fd(&*nodes.fd(node).unwrap()).unwrap();
            assert_eq!(stat.stx_ino, node.number);
        }
        assert!(nodes.n_open() <= 22, "{} are open", nodes.n_open());
    }

    #[test]
    fn a_closed_file_is_found_after_its_folder_moved_and_stale_once_gone() {
        let dir = FreshDir::new("nodes-moved");
        std::fs::create_dir(dir.join("old")).unwrap();
        dir.write("old/file", "");
        dir.write("old/kept", "");
        let (nodes, root) = nodes(&dir, 16);
        let (folder, _) = nodes.look_up(&root, OsStr::new("old")).unwrap();
        let (file, _) = nodes.remember_listed(&folder, OsStr::new("file")).unwrap();
        let (kept, _) = nodes.remember_listed(&folder, OsStr::new("kept")).unwrap();
        std::fs::rename(dir.join("old"), dir.join("new")).unwrap();
        nodes.moved(&root, OsStr::new("new"));
        folder.state().fd = None;
        assert!(nodes.fd(&file).is_ok());
        file.state().fd = None;
        nodes.pin(&folder, OsStr::new("kept"));
        std::fs::remove_file(dir.join("new/file")).unwrap();
        std::fs::remove_file(dir.join("new/kept")).unwrap();
        dir.write("new/file", "another one");
        assert_eq!(nodes.fd(&file).unwrap_err(), Errno::STALE);
        assert!(nodes.fd(&kept).is_ok(), "what was pinned before it was removed is still there");
    }
}
