//! Every FUSE operation, done on the backing directory.
//!
//! Data requests (read, write, copy) go through the [`Scheduler`]; everything else is done at once, or by the [`Crew`]
//! where it may take long. Nothing is cached here: when a write is answered, the backing file system has it, and when an
//! fsync is answered, so has the device.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{
    self, AtFlags, CWD, FallocateFlags, FileType, Gid, Mode, OFlags, RawDir, SeekFrom, Statx, Uid,
    XattrFlags, openat,
};
use rustix::io::{Errno, Result, pread, pwrite};

use crate::attributes::{attributes, device, kind, times};
use crate::crew::Crew;
use crate::nodes::{Nodes, stat_fd};
use crate::privilege::Privilege;
use crate::schedule::{Direction, Permit, Scheduler, Who};

/// The largest request we ask the kernel for.
pub(crate) const MAX_REQUEST: u32 = 1 << 20;

/// The file system: a handle to what the threads share.
#[derive(Clone)]
pub(crate) struct PassThrough {
    shared: Arc<Shared>,
}

struct Shared {
    nodes: Nodes,
    files: Handles<OpenFile>,
    folders: Handles<OpenFolder>,
    /// `/proc/self/fd`, by which a descriptor that only names a file becomes one that reads and writes it.
    descriptors: OwnedFd,
    privilege: Privilege,
    crew: Crew,
    scheduler: Scheduler,
    /// For how long the kernel may believe what it was told about names and attributes.
    trust: Duration,
    /// The kernel looks at access control lists, and leaves the umask to us.
    has_acls: std::sync::OnceLock<bool>,
}

struct OpenFile {
    file: OwnedFd,
    /// The backing file is open with `O_DIRECT`, which wants aligned memory.
    is_direct: bool,
    /// Who opened it: whose are writes from mapped memory, which the kernel sends in nobody's name.
    opener: Who,
}

struct OpenFolder {
    folder: OwnedFd,
    /// Only one may move the position at a time.
    listing: Mutex<()>,
}

impl PassThrough {
    pub(crate) fn new(
        root: OwnedFd,
        max_open: usize,
        scheduler: Scheduler,
        crew: Crew,
        trust: Duration,
    ) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let shared = Shared {
            nodes: Nodes::new(root, max_open)?,
            files: Handles::default(),
            folders: Handles::default(),
            descriptors: openat(CWD, c"/proc/self/fd", flags, Mode::empty())?,
            privilege: Privilege::of_this_process(),
            crew,
            scheduler,
            trust,
            has_acls: std::sync::OnceLock::new(),
        };
        Ok(Self { shared: Arc::new(shared) })
    }
}

impl Shared {
    fn node_fd(&self, number: INodeNo) -> Result<Arc<OwnedFd>> {
        self.nodes.fd(&self.nodes.get(number.0)?)
    }

    /// Opens the file that `fd` names, with the flags that an open file can have.
    fn reopen(&self, fd: impl AsFd, flags: OFlags) -> Result<OwnedFd> {
        let name = fd.as_fd().as_raw_fd().to_string();
        let once = OFlags::NOFOLLOW | OFlags::CREATE | OFlags::EXCL | OFlags::TRUNC | OFlags::NOCTTY;
        openat(&self.descriptors, name, (flags - once) | OFlags::CLOEXEC, Mode::empty())
    }

    fn stat(&self, number: INodeNo, handle: Option<FileHandle>) -> Result<Statx> {
        match handle.and_then(|handle| self.files.get(handle)) {
            Some(open) => stat_fd(&open.file),
            None => stat_fd(&*self.node_fd(number)?),
        }
    }

    /// What a new file may be used for: without the umask, unless the folder says otherwise by a list of its own.
    fn mode(&self, parent: impl AsFd, mode: u32, umask: u32) -> Mode {
        let masked = || Mode::from_raw_mode(mode & 0o7777 & !umask);
        if self.has_acls.get() != Some(&true) {
            return masked();
        }
        match fs::getxattr(path_of(parent), c"system.posix_acl_default", &mut [0u8; 0][..]) {
            Ok(size) if size > 0 => Mode::from_raw_mode(mode & 0o7777),
            _ => masked(),
        }
    }

    /// Makes something in a folder in the caller's name, and gives it to the kernel.
    fn make(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        make: impl FnOnce(&OwnedFd) -> Result<()>,
    ) -> Result<(u64, Statx)> {
        let parent = self.nodes.get(parent.0)?;
        let folder = self.nodes.fd(&parent)?;
        self.privilege.as_caller((request.uid(), request.gid()), || make(&folder))?;
        let (node, stat) = self.nodes.look_up(&parent, name)?;
        Ok((node.number, stat))
    }

    fn remove(&self, parent: INodeNo, name: &OsStr, flags: AtFlags) -> Result<()> {
        let parent = self.nodes.get(parent.0)?;
        let folder = self.nodes.fd(&parent)?;
        self.nodes.pin(&parent, name);
        fs::unlinkat(&*folder, name, flags)
    }

    fn rename(&self, from: (INodeNo, &OsStr), to: (INodeNo, &OsStr), flags: RenameFlags) -> Result<()> {
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

    fn link(&self, number: INodeNo, parent: INodeNo, name: &OsStr) -> Result<(u64, Statx)> {
        let file = self.node_fd(number)?;
        let parent = self.nodes.get(parent.0)?;
        let folder = self.nodes.fd(&parent)?;
        // The name in /proc is a link to the file itself, so following it ends there, even at a symbolic link.
        fs::linkat(&self.descriptors, file.as_raw_fd().to_string(), &*folder, name, AtFlags::SYMLINK_FOLLOW)?;
        let (node, stat) = self.nodes.look_up(&parent, name)?;
        Ok((node.number, stat))
    }

    fn open(&self, request: &Request, number: INodeNo, flags: OpenFlags) -> Result<(FileHandle, FopenFlags)> {
        let flags = OFlags::from_bits_retain(flags.0 as u32);
        let file = self.reopen(&*self.node_fd(number)?, flags)?;
        Ok(self.opened(request, file, flags))
    }

    fn opened(&self, request: &Request, file: OwnedFd, flags: OFlags) -> (FileHandle, FopenFlags) {
        let opener = Who { thread: request.pid(), uid: request.uid() };
        let is_direct = flags.contains(OFlags::DIRECT);
        let handle = self.files.insert(OpenFile { file, is_direct, opener });
        // What is only written need not pass through the kernel's page cache first: it cannot be mapped, and the kernel
        // drops what it has of the pages. Others may have the same file open through the cache, and stay right.
        let is_only_written = flags & OFlags::ACCMODE == OFlags::WRONLY;
        let how = if is_only_written {
            FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES
        } else {
            FopenFlags::empty()
        };
        (handle, how)
    }

    fn create(
        &self,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        (mode, umask): (u32, u32),
        flags: OFlags,
    ) -> Result<(u64, Statx, FileHandle, FopenFlags)> {
        let parent = self.nodes.get(parent.0)?;
        let folder = self.nodes.fd(&parent)?;
        let mode = self.mode(&*folder, mode, umask);
        let new =
            (flags - OFlags::NOCTTY) | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made =
            self.privilege.as_caller((request.uid(), request.gid()), || openat(&*folder, name, new, mode));
        let file = match made {
            // Someone was faster. The kernel has not checked whether the caller may open what they made: it does when told
            // that what it knows is out of date.
            Err(Errno::EXIST) if !flags.contains(OFlags::EXCL) => return Err(Errno::STALE),
            made => made?,
        };
        let named = self.reopen(&file, OFlags::PATH)?;
        let (node, stat) = self.nodes.remember(&parent, name, named)?;
        let (handle, how) = self.opened(request, file, flags);
        Ok((node.number, stat, handle, how))
    }

    fn change(
        &self,
        request: &Request,
        number: INodeNo,
        handle: Option<FileHandle>,
        change: &Change,
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
                None => fs::ftruncate(self.reopen(&*fd, OFlags::WRONLY | OFlags::NONBLOCK)?, size),
            };
            if request.uid() == 0 { cut()? } else { self.privilege.losing_set_id(cut)? }
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

    fn list(&self, handle: FileHandle, offset: u64, mut add: impl FnMut(&Listed) -> bool) -> Result<()> {
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

    fn copy(&self, from: (FileHandle, u64), to: (FileHandle, u64), n_bytes: u64) -> Result<usize> {
        let source = self.files.get(from.0).ok_or(Errno::BADF)?;
        let target = self.files.get(to.0).ok_or(Errno::BADF)?;
        let (mut at, mut to_at) = (from.1, to.1);
        let n_bytes = usize::try_from(n_bytes.min(u64::from(MAX_REQUEST) * 16)).unwrap_or(usize::MAX);
        fs::copy_file_range(&source.file, Some(&mut at), &target.file, Some(&mut to_at), n_bytes)
    }
}

/// What `setattr` shall change.
struct Change {
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
    size: Option<u64>,
    atime: Option<TimeOrNow>,
    mtime: Option<TimeOrNow>,
}

/// An entry of a folder as the backing file system lists it.
struct Listed<'a> {
    name: &'a OsStr,
    inode: u64,
    kind: FileType,
    next: u64,
}

impl OpenFile {
    /// Reads into the thread's own memory, and shows what came.
    fn read<T>(&self, offset: u64, n_bytes: usize, show: impl FnOnce(Result<&[u8]>) -> T) -> T {
        DATA.with_borrow_mut(|memory| {
            let buffer = aligned(memory, n_bytes);
            let mut n_read = 0;
            while n_read < n_bytes {
                match pread(&self.file, &mut buffer[n_read..], offset + n_read as u64) {
                    Ok(0) => break,
                    Ok(n) => n_read += n,
                    Err(Errno::INTR) => {}
                    // What was read before the fault counts; whoever reads on gets the fault.
                    Err(_) if n_read > 0 => break,
                    Err(error) => return show(Err(error)),
                }
                if self.is_direct {
                    // The end of a file leaves the next offset unaligned, which would be refused.
                    break;
                }
            }
            show(Ok(&buffer[..n_read]))
        })
    }

    fn write(&self, offset: u64, data: &[u8], from_cache: bool) -> Result<usize> {
        if !self.is_direct {
            return write_all(&self.file, offset, data);
        }
        let written = DATA.with_borrow_mut(|memory| {
            let buffer = aligned(memory, data.len());
            buffer.copy_from_slice(data);
            write_all(&self.file, offset, buffer)
        });
        match written {
            // Pages of mapped memory end where the file does, and are written through whatever handle there is.
            Err(Errno::INVAL) if from_cache => {
                let name = path_of(&self.file);
                let plain = openat(CWD, name, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
                write_all(&plain, offset, data)
            }
            written => written,
        }
    }
}

fn write_all(file: impl AsFd, offset: u64, data: &[u8]) -> Result<usize> {
    let mut n_written = 0;
    while n_written < data.len() {
        match pwrite(&file, &data[n_written..], offset + n_written as u64) {
            Ok(0) => break,
            Ok(n) => n_written += n,
            Err(Errno::INTR) => {}
            Err(_) if n_written > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(n_written)
}

/// What `O_DIRECT` asks of memory: no storage wants more than a page.
const ALIGNMENT: usize = 4096;

/// Room for a listing; a name takes at most 280 bytes of it.
const LISTING_BYTES: usize = 32 << 10;

thread_local! {
    static DATA: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static LISTING: RefCell<Vec<MaybeUninit<u8>>> =
        RefCell::new(vec![MaybeUninit::uninit(); LISTING_BYTES]);
}

fn aligned(memory: &mut Vec<u8>, n_bytes: usize) -> &mut [u8] {
    if memory.len() < n_bytes + ALIGNMENT {
        memory.resize(n_bytes + ALIGNMENT, 0);
    }
    let start = memory.as_ptr().align_offset(ALIGNMENT);
    &mut memory[start..start + n_bytes]
}

/// A path that leads to the file behind a descriptor, for calls that take no descriptor.
fn path_of(fd: impl AsFd) -> String {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())
}

/// What the kernel has open, by the numbers it was given.
struct Handles<T> {
    open: RwLock<HashMap<u64, Arc<T>>>,
    next: AtomicU64,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self { open: RwLock::default(), next: AtomicU64::new(1) }
    }
}

impl<T> Handles<T> {
    fn insert(&self, value: T) -> FileHandle {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.open.write().unwrap_or_else(PoisonError::into_inner).insert(number, Arc::new(value));
        FileHandle(number)
    }

    fn get(&self, handle: FileHandle) -> Option<Arc<T>> {
        self.open.read().unwrap_or_else(PoisonError::into_inner).get(&handle.0).cloned()
    }

    fn remove(&self, handle: FileHandle) {
        let removed = self.open.write().unwrap_or_else(PoisonError::into_inner).remove(&handle.0);
        drop(removed); // closed here, after the lock is gone
    }
}

fn errno(error: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(error.raw_os_error())
}

/// Every file has the same generation: a number that comes back stands for a file that was forgotten.
const GENERATION: Generation = Generation(0);

impl PassThrough {
    fn entry(&self, found: Result<(u64, Statx)>, reply: ReplyEntry) {
        match found {
            Ok((number, stat)) => reply.entry(&self.shared.trust, &attributes(number, &stat), GENERATION),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn empty(done: Result<()>, reply: ReplyEmpty) {
        match done {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }
}

impl Filesystem for PassThrough {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Each only if the kernel has it.
        for wanted in [
            InitFlags::FUSE_ASYNC_DIO,
            InitFlags::FUSE_AUTO_INVAL_DATA,
            InitFlags::FUSE_PARALLEL_DIROPS,
            // Else the kernel asks for an attribute (security.capability) before each write.
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
            InitFlags::FUSE_CACHE_SYMLINKS,
        ] {
            let _ = config.add_capabilities(wanted);
        }
        // Whoever may list a folder may not have the right to look at what is in it; then names must do.
        if self.shared.privilege.may_serve_others() {
            let _ =
                config.add_capabilities(InitFlags::FUSE_DO_READDIRPLUS | InitFlags::FUSE_READDIRPLUS_AUTO);
        }
        let acls = InitFlags::FUSE_POSIX_ACL | InitFlags::FUSE_DONT_MASK;
        let _ = self.shared.has_acls.set(config.add_capabilities(acls).is_ok());
        // Never FUSE_WRITEBACK_CACHE: what the kernel writes later, it writes in nobody's name, and after the fsync of a
        // job that has ended. Locks are the kernel's own: it knows every process of this mount, and which was killed.
        let _ = config.set_max_write(MAX_REQUEST);
        let _ = config.set_max_readahead(MAX_REQUEST);
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let nodes = &self.shared.nodes;
        let found = nodes.get(parent.0).and_then(|parent| nodes.look_up(&parent, name));
        self.entry(found.map(|(node, stat)| (node.number, stat)), reply);
    }

    fn forget(&self, _request: &Request, number: INodeNo, n_lookups: u64) {
        self.shared.nodes.forget(number.0, n_lookups);
    }

    fn getattr(&self, _request: &Request, number: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        match self.shared.stat(number, handle) {
            Ok(stat) => reply.attr(&self.shared.trust, &attributes(number.0, &stat)),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        number: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = Change { mode, uid, gid, size, atime, mtime };
        match self.shared.change(request, number, handle, &change) {
            Ok(stat) => reply.attr(&self.shared.trust, &attributes(number.0, &stat)),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readlink(&self, _request: &Request, number: INodeNo, reply: ReplyData) {
        let target = self.shared.node_fd(number).and_then(|fd| fs::readlinkat(&*fd, c"", Vec::new()));
        match target {
            Ok(target) => reply.data(target.as_bytes()),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let kind = FileType::from_raw_mode(mode);
        let made = self.shared.make(request, parent, name, |folder| {
            fs::mknodat(folder, name, kind, self.shared.mode(folder, mode, umask), device(rdev))
        });
        self.entry(made, reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let made = self.shared.make(request, parent, name, |folder| {
            fs::mkdirat(folder, name, self.shared.mode(folder, mode, umask))
        });
        self.entry(made, reply);
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        Self::empty(self.shared.remove(parent, name, AtFlags::empty()), reply);
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        Self::empty(self.shared.remove(parent, name, AtFlags::REMOVEDIR), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let made = self.shared.make(request, parent, name, |folder| fs::symlinkat(target, folder, name));
        self.entry(made, reply);
    }

    fn rename(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        Self::empty(self.shared.rename((parent, name), (new_parent, new_name), flags), reply);
    }

    fn link(&self, _request: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(self.shared.link(number, parent, name), reply);
    }

    fn open(&self, request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.shared.open(request, number, flags) {
            Ok((handle, how)) => reply.opened(handle, how),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn read(
        &self,
        request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Some(open) = self.shared.files.get(handle) else { return reply.error(fuser::Errno::EBADF) };
        let who = Who { thread: request.pid(), uid: request.uid() };
        let answer = move |permit: &Permit| {
            open.read(offset, size as usize, |read| {
                permit.pace();
                match read {
                    Ok(data) => reply.data(data),
                    Err(error) => reply.error(errno(error)),
                }
            });
        };
        self.shared.scheduler.schedule(who, Direction::Read, u64::from(size), answer);
    }

    fn write(
        &self,
        request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let Some(open) = self.shared.files.get(handle) else { return reply.error(fuser::Errno::EBADF) };
        let from_cache = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let loses_set_id = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let who = if from_cache { open.opener } else { Who { thread: request.pid(), uid: request.uid() } };
        let privilege = self.shared.privilege;
        let answer = move |data: &[u8], reply: ReplyWrite, permit: &Permit| {
            let write = || open.write(offset, data, from_cache);
            let written = if loses_set_id { privilege.losing_set_id(write) } else { write() };
            permit.pace();
            match written {
                Ok(n_written) => reply.written(n_written as u32),
                Err(error) => reply.error(errno(error)),
            }
        };
        let n_bytes = data.len() as u64;
        match self.shared.scheduler.ask(who, Direction::Write, n_bytes) {
            // The common case: done here, from the memory the kernel filled.
            Ok(permit) => answer(data, reply, &permit),
            Err(ticket) => {
                let data = data.to_vec();
                ticket.wait(move |permit| answer(&data, reply, permit));
            }
        }
    }

    fn flush(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        // Closing a copy of the descriptor brings up what the backing file system says on close.
        let closed = self
            .shared
            .files
            .get(handle)
            .ok_or(Errno::BADF)
            .and_then(|open| rustix::io::fcntl_dupfd_cloexec(&open.file, 0).map(drop));
        Self::empty(closed, reply);
    }

    fn release(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.shared.files.remove(handle);
        reply.ok();
    }

    fn fsync(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        let Some(open) = self.shared.files.get(handle) else { return reply.error(fuser::Errno::EBADF) };
        self.shared.crew.run(Box::new(move || Self::empty(sync(&open.file, datasync), reply)));
    }

    fn opendir(&self, _request: &Request, number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        match self.shared.node_fd(number).and_then(|fd| self.shared.reopen(&*fd, flags)) {
            Ok(folder) => {
                let handle = self.shared.folders.insert(OpenFolder { folder, listing: Mutex::new(()) });
                reply.opened(handle, FopenFlags::empty());
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdir(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.shared.list(handle, offset, |entry| {
            reply.add(INodeNo(entry.inode), entry.next, kind(entry.kind), entry.name)
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdirplus(
        &self,
        _request: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let shared = &self.shared;
        let parent = match shared.nodes.get(number.0) {
            Ok(parent) => parent,
            Err(error) => return reply.error(errno(error)),
        };
        let listed = shared.list(handle, offset, |entry| {
            // The kernel does not count these as looked up.
            let known = if entry.name == "." || entry.name == ".." {
                None
            } else {
                match shared.nodes.remember_listed(&parent, entry.name) {
                    Ok(known) => Some(known),
                    Err(_) => return false, // gone since it was listed
                }
            };
            let (inode, attributes) = match &known {
                Some((node, stat)) => (node.number, attributes(node.number, stat)),
                None => (entry.inode, nameless(entry)),
            };
            let full =
                reply.add(INodeNo(inode), entry.next, entry.name, &shared.trust, &attributes, GENERATION);
            if let Some((node, _)) = known.filter(|_| full) {
                shared.nodes.forget(node.number, 1);
            }
            full
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn releasedir(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.shared.folders.remove(handle);
        reply.ok();
    }

    fn fsyncdir(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        let Some(open) = self.shared.folders.get(handle) else { return reply.error(fuser::Errno::EBADF) };
        self.shared.crew.run(Box::new(move || Self::empty(sync(&open.folder, datasync), reply)));
    }

    fn statfs(&self, _request: &Request, number: INodeNo, reply: ReplyStatfs) {
        match self.shared.node_fd(number).and_then(|fd| fs::fstatvfs(&*fd)) {
            Ok(stat) => reply.statfs(
                stat.f_blocks,
                stat.f_bfree,
                stat.f_bavail,
                stat.f_files,
                stat.f_ffree,
                stat.f_bsize as u32,
                stat.f_namemax as u32,
                stat.f_frsize as u32,
            ),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn setxattr(
        &self,
        _request: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let flags = XattrFlags::from_bits_retain(flags as u32);
        let done = self.shared.with_attributes(number, |path| fs::setxattr(path, name, value, flags));
        Self::empty(done, reply);
    }

    fn getxattr(&self, _request: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let mut value = vec![0; size as usize];
        let got = self.shared.with_attributes(number, |path| fs::getxattr(path, name, &mut value[..]));
        answer_attribute(got, &value, reply);
    }

    fn listxattr(&self, _request: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        let mut names = vec![0; size as usize];
        let got = self.shared.with_attributes(number, |path| fs::listxattr(path, &mut names[..]));
        answer_attribute(got, &names, reply);
    }

    fn removexattr(&self, _request: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        Self::empty(self.shared.with_attributes(number, |path| fs::removexattr(path, name)), reply);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let flags = OFlags::from_bits_retain(flags as u32);
        match self.shared.create(request, (parent, name), (mode, umask), flags) {
            Ok((number, stat, handle, how)) => {
                reply.created(&self.shared.trust, &attributes(number, &stat), GENERATION, handle, how);
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn ioctl(
        &self,
        _request: &Request,
        _number: INodeNo,
        _handle: FileHandle,
        _flags: IoctlFlags,
        _command: u32,
        _in_data: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(fuser::Errno::ENOTTY);
    }

    fn fallocate(
        &self,
        request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let Some(open) = self.shared.files.get(handle) else { return reply.error(fuser::Errno::EBADF) };
        let (privilege, is_root) = (self.shared.privilege, request.uid() == 0);
        // Zeroing a large range may take as long as writing it.
        self.shared.crew.run(Box::new(move || {
            let flags = FallocateFlags::from_bits_retain(mode as u32);
            let allocate = || fs::fallocate(&open.file, flags, offset, length);
            let done = if is_root { allocate() } else { privilege.losing_set_id(allocate) };
            Self::empty(done, reply);
        }));
    }

    fn lseek(
        &self,
        _request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        // The kernel asks for nothing else: it keeps positions itself.
        const SEEK_DATA: i32 = 3;
        const SEEK_HOLE: i32 = 4;
        let found = u64::try_from(offset).map_err(|_| Errno::NXIO).and_then(|offset| {
            let to = match whence {
                SEEK_DATA => SeekFrom::Data(offset),
                SEEK_HOLE => SeekFrom::Hole(offset),
                _ => return Err(Errno::INVAL),
            };
            fs::seek(&self.shared.files.get(handle).ok_or(Errno::BADF)?.file, to)
        });
        match found {
            Ok(offset) => reply.offset(offset as i64),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn copy_file_range(
        &self,
        request: &Request,
        _number_in: INodeNo,
        handle_in: FileHandle,
        offset_in: u64,
        _number_out: INodeNo,
        handle_out: FileHandle,
        offset_out: u64,
        n_bytes: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let who = Who { thread: request.pid(), uid: request.uid() };
        let n_bytes = n_bytes.min(u64::from(MAX_REQUEST) * 16);
        let shared = Arc::clone(&self.shared);
        let answer = move |permit: &Permit| {
            let copied = shared.copy((handle_in, offset_in), (handle_out, offset_out), n_bytes);
            permit.pace();
            match copied {
                Ok(n_copied) => reply.written(n_copied as u32),
                Err(error) => reply.error(errno(error)),
            }
        };
        self.shared.scheduler.schedule(who, Direction::Write, n_bytes, answer);
    }
}

impl Shared {
    /// Calls with a path by which the file's extended attributes can be reached.
    fn with_attributes<T>(&self, number: INodeNo, call: impl FnOnce(&str) -> Result<T>) -> Result<T> {
        let node = self.nodes.get(number.0)?;
        if node.kind == FileType::Symlink {
            // No path leads to a symbolic link without following it; and attributes of users are not for links.
            return Err(Errno::OPNOTSUPP);
        }
        call(&path_of(&*self.nodes.fd(&node)?))
    }
}

/// The kernel asks twice: for the size with room for nothing, then for the value.
fn answer_attribute(got: Result<usize>, value: &[u8], reply: ReplyXattr) {
    match got {
        Ok(size) if value.is_empty() => reply.size(size as u32),
        Ok(size) => reply.data(&value[..size]),
        Err(error) => reply.error(errno(error)),
    }
}

fn sync(file: impl AsFd, data_only: bool) -> Result<()> {
    if data_only { fs::fdatasync(file) } else { fs::fsync(file) }
}

/// What can be said of a listed name without looking: its inode and kind.
fn nameless(entry: &Listed) -> FileAttr {
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
