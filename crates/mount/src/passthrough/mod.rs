//! Every FUSE operation, done on the backing directory.
//!
//! Data requests (read, write, copy) go through the [`Scheduler`]; everything else is done at once, or by the [`Crew`]
//! where it may take long. Nothing is cached here: when a write is answered, the backing file system has it, and when an
//! fsync is answered, so has the device.
//!
//! Here is what the kernel asks and in which words it is answered; what is done stands by theme in the modules below.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLock, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{self, AtFlags, CWD, FallocateFlags, FileType, Mode, OFlags, Statx, XattrFlags, openat};
use rustix::io::{Errno, Result};

use self::files::{OpenFile, Waits, sync};
use self::folders::{OpenFolder, nameless};
use self::handles::Handles;
use self::metadata::Change;
use self::replies::{Refuse, answer, attribute, done};
use crate::attributes::{attributes, device, kind};
use crate::groups::Groups;
use crate::locks::{LockRequest, Locks};
use crate::nodes::Nodes;
use crate::privilege::Privilege;
use iotide_gate::Crew;
use iotide_gate::Shares;
use iotide_gate::{Direction, Permit, Scheduler, Who};

mod files;
mod folders;
mod handles;
mod metadata;
mod names;
mod replies;

/// The largest request we ask the kernel for.
pub(crate) const MAX_REQUEST: u32 = 1 << 20;

/// As in `open(2)`: whoever says so gets `EAGAIN` rather than wait.
const O_NONBLOCK: i32 = OFlags::NONBLOCK.bits() as i32;

/// The file system: a handle to what the threads share.
#[derive(Clone)]
pub(crate) struct PassThrough {
    shared: Arc<Shared>,
}

struct Shared {
    nodes: Nodes,
    files: Handles<OpenFile>,
    /// Shares of the open files, by user.
    open_files: Shares,
    folders: Handles<OpenFolder>,
    /// `/proc/self/fd`, by which a descriptor that only names a file becomes one that reads and writes it.
    descriptors: OwnedFd,
    privilege: Privilege,
    groups: Groups,
    crew: Crew,
    locks: Locks,
    scheduler: Scheduler,
    /// For how long the kernel may believe what it was told about names and attributes.
    trust: Duration,
    /// The kernel looks at access control lists, and leaves the umask to us.
    has_acls: OnceLock<bool>,
}

impl PassThrough {
    pub(crate) fn new(
        nodes: Nodes,
        open_files: Shares,
        scheduler: Scheduler,
        crew: Crew,
        trust: Duration,
    ) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let shared = Shared {
            nodes,
            files: Handles::default(),
            open_files,
            folders: Handles::default(),
            descriptors: openat(CWD, c"/proc/self/fd", flags, Mode::empty())?,
            privilege: Privilege::of_this_process(),
            groups: Groups::of_callers(),
            crew,
            locks: Locks::default(),
            scheduler,
            trust,
            has_acls: OnceLock::new(),
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
}

/// A path that leads to the file behind a descriptor, for calls that take no descriptor.
fn path_of(fd: impl AsFd) -> String {
    format!("/proc/self/fd/{}", fd.as_fd().as_raw_fd())
}

/// Every file has the same generation: a number that comes back stands for a file that was forgotten.
const GENERATION: Generation = Generation(0);

impl PassThrough {
    fn entry(&self, found: Result<(u64, Statx)>, reply: ReplyEntry) {
        answer(reply, found, |reply, (number, stat)| {
            reply.entry(&self.shared.trust, &attributes(number, &stat), GENERATION);
        });
    }

    fn attributes(&self, number: INodeNo, found: Result<Statx>, reply: ReplyAttr) {
        answer(reply, found, |reply, stat| {
            reply.attr(&self.shared.trust, &attributes(number.0, &stat));
        });
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
            // Record locks come to us, who pass them on. `flock` stays with the kernel: fuser does not tell the two apart.
            InitFlags::FUSE_POSIX_LOCKS,
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
        // job that has ended.
        let _ = config.set_max_write(MAX_REQUEST);
        let _ = config.set_max_readahead(MAX_REQUEST);
        let _ = config.set_max_background(64);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let nodes = &self.shared.nodes;
        let found = nodes.alive(|| nodes.get(parent.0).and_then(|parent| nodes.look_up(&parent, name)));
        self.entry(found.map(|(node, stat)| (node.number, stat)), reply);
    }

    fn forget(&self, _request: &Request, number: INodeNo, n_lookups: u64) {
        self.shared.nodes.forget(number.0, n_lookups);
    }

    fn getattr(&self, _request: &Request, number: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        let found = self.shared.nodes.alive(|| self.shared.stat(number, handle));
        self.attributes(number, found, reply);
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
        let user = request.uid();
        match self.shared.change(user, number, handle, &change, Waits::No) {
            // Someone has a lease on a file that is to be cut; see `open`.
            Err(Errno::AGAIN) if size.is_some() => {
                let this = self.clone();
                let wait = move || this.shared.change(user, number, handle, &change, Waits::ForLeases);
                let this = self.clone();
                self.shared.crew.run_for(user, Box::new(move || this.attributes(number, wait(), reply)));
            }
            changed => self.attributes(number, changed, reply),
        }
    }

    fn readlink(&self, _request: &Request, number: INodeNo, reply: ReplyData) {
        let target = self.shared.node_fd(number).and_then(|fd| fs::readlinkat(&*fd, c"", Vec::new()));
        answer(reply, target, |reply, target| reply.data(target.as_bytes()));
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
        done(reply, self.shared.remove(parent, name, AtFlags::empty()));
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(reply, self.shared.remove(parent, name, AtFlags::REMOVEDIR));
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
        done(reply, self.shared.rename((parent, name), (new_parent, new_name), flags));
    }

    fn link(&self, _request: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(self.shared.link(number, parent, name), reply);
    }

    fn open(&self, request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let who = Who { thread: request.pid(), uid: request.uid() };
        let show = |reply: ReplyOpen, (handle, how)| reply.opened(handle, how);
        match self.shared.open(who, number, flags, Waits::No) {
            // Someone has a lease on it, and may take as long as they like to give it up.
            Err(Errno::AGAIN) if flags.0 & O_NONBLOCK == 0 => {
                let shared = Arc::clone(&self.shared);
                let task = move || answer(reply, shared.open(who, number, flags, Waits::ForLeases), show);
                self.shared.crew.run_for(who.uid, Box::new(task));
            }
            opened => answer(reply, opened, show),
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
        let Some(open) = self.shared.files.get(handle) else { return reply.refuse(Errno::BADF) };
        let who = Who { thread: request.pid(), uid: request.uid() };
        let serve = move |permit: &Permit| {
            open.read(offset, size as usize, |read| {
                permit.pace();
                answer(reply, read, |reply, data| reply.data(data));
            });
        };
        self.shared.scheduler.schedule(who, Direction::Read, offset, u64::from(size), serve);
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
        let Some(open) = self.shared.files.get(handle) else { return reply.refuse(Errno::BADF) };
        let from_cache = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let loses_set_id = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let who = if from_cache { open.opener } else { Who { thread: request.pid(), uid: request.uid() } };
        let privilege = self.shared.privilege;
        let serve = move |data: &[u8], reply: ReplyWrite, permit: &Permit| {
            let write = || open.write(offset, data, from_cache);
            let written = if loses_set_id { privilege.losing_set_id(write) } else { write() };
            permit.pace();
            answer(reply, written, |reply, n_written| reply.written(n_written as u32));
        };
        let n_bytes = data.len() as u64;
        match self.shared.scheduler.ask(who, Direction::Write, offset, n_bytes) {
            // The common case: done here, from the memory the kernel filled.
            Ok(permit) => serve(data, reply, &permit),
            Err(ticket) => {
                let data = data.to_vec();
                ticket.wait(move |permit| serve(&data, reply, permit));
            }
        }
    }

    fn flush(
        &self,
        _request: &Request,
        number: INodeNo,
        handle: FileHandle,
        lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        // A process that closes any descriptor of a file gives its record locks on it up.
        self.shared.locks.give_up(number.0, |owner, _| owner == lock_owner.0);
        // Closing a copy of the descriptor brings up what the backing file system says on close.
        let open = self.shared.files.get(handle).ok_or(Errno::BADF);
        done(reply, open.and_then(|open| rustix::io::fcntl_dupfd_cloexec(&open.file, 0).map(drop)));
    }

    fn release(
        &self,
        _request: &Request,
        number: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        // Locks that belong to the open file itself end with it.
        self.shared.locks.give_up(number.0, |_, handles| handles.contains(&handle.0));
        self.shared.files.remove(handle);
        reply.ok();
    }

    fn getlk(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        lock_owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        process: u32,
        reply: ReplyLock,
    ) {
        let wish = LockRequest { handle: handle.0, owner: lock_owner.0, start, end, kind, process };
        let shared = Arc::clone(&self.shared);
        // The backing file system may have to ask another machine.
        self.shared.crew.run_for(
            request.uid(),
            Box::new(move || {
                let found = shared.locks.find(number.0, &wish, || shared.open_for_locks(number));
                answer(reply, found, |reply, held| {
                    reply.locked(held.start, held.end, held.kind, held.process)
                });
            }),
        );
    }

    fn setlk(
        &self,
        request: &Request,
        number: INodeNo,
        handle: FileHandle,
        lock_owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        process: u32,
        sleep: bool,
        reply: ReplyEmpty,
    ) {
        let wish = LockRequest { handle: handle.0, owner: lock_owner.0, start, end, kind, process };
        let (shared, thread) = (Arc::clone(&self.shared), request.pid());
        self.shared.crew.run_for(
            request.uid(),
            Box::new(move || {
                let (locks, open) = (shared.locks.clone(), move || shared.open_for_locks(number));
                let waiting = sleep.then_some(thread);
                locks.set(number.0, wish, waiting, open, move |outcome| done(reply, outcome));
            }),
        );
    }

    fn fsync(
        &self,
        request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        let Some(open) = self.shared.files.get(handle) else { return reply.refuse(Errno::BADF) };
        self.shared.crew.run_for(request.uid(), Box::new(move || done(reply, sync(&open.file, datasync))));
    }

    fn opendir(&self, request: &Request, number: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        answer(reply, self.shared.open_folder(request.uid(), number), |reply, handle| {
            reply.opened(handle, FopenFlags::empty());
        });
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
        answer(reply, listed, |reply, ()| reply.ok());
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
        let listed = shared.list(handle, offset, |entry| {
            // The kernel does not count these as looked up.
            let is_counted = entry.name != "." && entry.name != "..";
            let known = match is_counted.then(|| shared.remember_listed(number, entry.name)).transpose() {
                Ok(known) => known,
                Err(_) => return false, // gone since it was listed
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
        answer(reply, listed, |reply, ()| reply.ok());
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
        request: &Request,
        _number: INodeNo,
        handle: FileHandle,
        datasync: bool,
        reply: ReplyEmpty,
    ) {
        let Some(open) = self.shared.folders.get(handle) else { return reply.refuse(Errno::BADF) };
        self.shared.crew.run_for(request.uid(), Box::new(move || done(reply, sync(&open.folder, datasync))));
    }

    fn statfs(&self, _request: &Request, number: INodeNo, reply: ReplyStatfs) {
        let stat = self.shared.node_fd(number).and_then(|fd| fs::fstatvfs(&*fd));
        answer(reply, stat, |reply, stat| {
            let (block, name, fragment) = (stat.f_bsize, stat.f_namemax, stat.f_frsize);
            reply.statfs(
                stat.f_blocks,
                stat.f_bfree,
                stat.f_bavail,
                stat.f_files,
                stat.f_ffree,
                block as u32,
                name as u32,
                fragment as u32,
            );
        });
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
        done(reply, self.shared.with_attributes(number, |path| fs::setxattr(path, name, value, flags)));
    }

    fn getxattr(&self, _request: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let mut value = vec![0; size as usize];
        attribute(reply, self.shared.attribute(number, name, &mut value), &value);
    }

    fn listxattr(&self, request: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        let names = self.shared.attribute_names(number, request.uid() == 0);
        answer(reply, names, |reply, names| match names.len() as u32 {
            length if size == 0 => reply.size(length),
            length if length > size => reply.refuse(Errno::RANGE),
            _ => reply.data(&names),
        });
    }

    fn removexattr(&self, _request: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(reply, self.shared.with_attributes(number, |path| fs::removexattr(path, name)));
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
        let created = self.shared.create(request, (parent, name), (mode, umask), flags);
        answer(reply, created, |reply, (number, stat, handle, how)| {
            reply.created(&self.shared.trust, &attributes(number, &stat), GENERATION, handle, how);
        });
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
        let Some(open) = self.shared.files.get(handle) else { return reply.refuse(Errno::BADF) };
        let (privilege, is_root) = (self.shared.privilege, request.uid() == 0);
        // Zeroing a large range may take as long as writing it.
        self.shared.crew.run_for(
            request.uid(),
            Box::new(move || {
                let flags = FallocateFlags::from_bits_retain(mode as u32);
                let allocate = || fs::fallocate(&open.file, flags, offset, length);
                done(reply, if is_root { allocate() } else { privilege.losing_set_id(allocate) });
            }),
        );
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
        let found =
            self.shared.files.get(handle).ok_or(Errno::BADF).and_then(|open| open.seek(offset, whence));
        answer(reply, found, |reply, offset| reply.offset(offset as i64));
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
        let (shared, is_root) = (Arc::clone(&self.shared), request.uid() == 0);
        let serve = move |permit: &Permit| {
            let copy = || shared.copy((handle_in, offset_in), (handle_out, offset_out), n_bytes);
            let copied = if is_root { copy() } else { shared.privilege.losing_set_id(copy) };
            permit.pace();
            answer(reply, copied, |reply, n_copied| reply.written(n_copied as u32));
        };
        self.shared.scheduler.schedule(who, Direction::Write, offset_out, n_bytes, serve);
    }
}
