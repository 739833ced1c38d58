//! Open files and their data.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use fuser::{FileHandle, FopenFlags, INodeNo, OpenFlags, Request};
use rustix::fs::{self, CWD, Mode, OFlags, SeekFrom, Statx, openat};
use rustix::io::{Errno, ReadWriteFlags, Result, pread, preadv2, pwrite};

use super::{MAX_REQUEST, Shared, path_of};
use crate::readers::{QUICK_BYTES, may_block};
use iotide_gate::Share;
use iotide_gate::Who;

/// Whether opening a file waits for those who have a lease on it. A thread that reads the kernel's requests must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    No,
    ForLeases,
}

/// A file that someone has open.
pub(super) struct OpenFile {
    pub file: OwnedFd,
    /// The backing file is open with `O_DIRECT`, which wants aligned memory.
    pub is_direct: bool,
    /// Whether small reads may have to wait: [`TRIED_FIRST`] and what follows.
    reads: AtomicU8,
    /// Counted among what its user has open.
    _place: Share,
    /// Who opened it: whose are writes from mapped memory, which the kernel sends in nobody's name.
    pub opener: Who,
}

impl Shared {
    /// Opens a file. Unless it `waits`, `EAGAIN` if someone has a lease on it, who is asked to give it up.
    pub(super) fn open(
        &self,
        opener: Who,
        number: INodeNo,
        flags: OpenFlags,
        waits: Waits,
    ) -> Result<(FileHandle, FopenFlags)> {
        let place = self.open_files.take(opener.uid).ok_or(Errno::MFILE)?;
        let flags = OFlags::from_bits_retain(flags.0 as u32);
        // To an ordinary file, and the kernel asks us of no other, it says nothing but this.
        let how = if waits == Waits::No { flags | OFlags::NONBLOCK } else { flags };
        let file = self.reopen(&*self.node_fd(number)?, how)?;
        if how != flags {
            // Once it is open it means other things to some file systems.
            fs::fcntl_setfl(&file, flags & (OFlags::APPEND | OFlags::DIRECT | OFlags::NOATIME))?;
        }
        Ok(self.opened(opener, place, file, flags))
    }

    fn opened(&self, opener: Who, place: Share, file: OwnedFd, flags: OFlags) -> (FileHandle, FopenFlags) {
        let is_direct = flags.contains(OFlags::DIRECT);
        let handle = self.files.insert(OpenFile {
            file,
            is_direct,
            reads: AtomicU8::new(TRIED_FIRST),
            _place: place,
            opener,
        });
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

    pub(super) fn create(
        &self,
        request: &Request,
        (parent, name): (INodeNo, &OsStr),
        (mode, umask): (u32, u32),
        flags: OFlags,
    ) -> Result<(u64, Statx, FileHandle, FopenFlags)> {
        let opener = Who { thread: request.pid(), uid: request.uid() };
        let place = self.open_files.take(opener.uid).ok_or(Errno::MFILE)?;
        let parent = self.nodes.get(parent.0)?;
        let folder = self.nodes.fd(&parent)?;
        let mode = self.mode(&*folder, mode, umask);
        let new =
            (flags - OFlags::NOCTTY) | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = self.as_caller(request, || openat(&*folder, name, new, mode));
        let file = match made {
            // Someone was faster. The kernel has not checked whether the caller may open what they made: it does when told
            // that what it knows is out of date.
            Err(Errno::EXIST) if !flags.contains(OFlags::EXCL) => return Err(Errno::STALE),
            made => made?,
        };
        let named = self.reopen(&file, OFlags::PATH)?;
        let (node, stat) = self.nodes.remember(&parent, name, named)?;
        let (handle, how) = self.opened(opener, place, file, flags);
        Ok((node.number, stat, handle, how))
    }

    /// Opens a file anew to hold locks by: a lock belongs to the description it was made through.
    pub(super) fn open_for_locks(&self, number: INodeNo) -> Result<OwnedFd> {
        let fd = self.node_fd(number)?;
        let mut outcome = Err(Errno::BADF);
        for flags in [OFlags::RDWR, OFlags::RDONLY, OFlags::WRONLY] {
            outcome = self.reopen(&*fd, flags | OFlags::NONBLOCK);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    pub(super) fn copy(&self, from: (FileHandle, u64), to: (FileHandle, u64), n_bytes: u64) -> Result<usize> {
        let source = self.files.get(from.0).ok_or(Errno::BADF)?;
        let target = self.files.get(to.0).ok_or(Errno::BADF)?;
        let (mut at, mut to_at) = (from.1, to.1);
        let n_bytes = usize::try_from(n_bytes.min(u64::from(MAX_REQUEST) * 16)).unwrap_or(usize::MAX);
        fs::copy_file_range(&source.file, Some(&mut at), &target.file, Some(&mut to_at), n_bytes)
    }
}

/// Small reads are tried without waiting, for what the page cache has.
const TRIED_FIRST: u8 = 0;
/// The backing file system lies in memory and never waits.
const IN_MEMORY: u8 = 1;
/// It does not say whether a read would wait.
const MAY_WAIT: u8 = 2;

/// Type of tmpfs in `statfs`. It cannot be asked whether a read would wait, and need not be.
const TMPFS: i64 = 0x0102_1994;

impl OpenFile {
    /// Reads what is there without waiting, if anything.
    fn read_at_once(&self, buffer: &mut [u8], offset: u64) -> Option<usize> {
        match preadv2(&self.file, &mut [IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT) {
            Ok(n) => return Some(n),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => {
                let is_in_memory = fs::fstatfs(&self.file).is_ok_and(|stat| stat.f_type == TMPFS);
                self.reads.store(if is_in_memory { IN_MEMORY } else { MAY_WAIT }, Relaxed);
            }
        }
        None
    }

    /// Reads into the thread's own memory, and shows what came.
    pub(super) fn read<T>(&self, offset: u64, n_bytes: usize, show: impl FnOnce(Result<&[u8]>) -> T) -> T {
        DATA.with_borrow_mut(|memory| {
            let buffer = aligned(memory, n_bytes);
            let mut n_read = 0;
            match self.reads.load(Relaxed) {
                _ if n_bytes > QUICK_BYTES as usize => may_block(),
                IN_MEMORY => {}
                TRIED_FIRST => match self.read_at_once(buffer, offset) {
                    Some(n) if n == n_bytes || n == 0 => return show(Ok(&buffer[..n])),
                    n => {
                        n_read = n.unwrap_or(0);
                        may_block();
                    }
                },
                _ => may_block(),
            }
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

    pub(super) fn write(&self, offset: u64, data: &[u8], from_cache: bool) -> Result<usize> {
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

    /// Finds data or a hole; the kernel asks for nothing else, it keeps positions itself.
    pub(super) fn seek(&self, offset: i64, whence: i32) -> Result<u64> {
        const SEEK_DATA: i32 = 3;
        const SEEK_HOLE: i32 = 4;
        let offset = u64::try_from(offset).map_err(|_| Errno::NXIO)?;
        let to = match whence {
            SEEK_DATA => SeekFrom::Data(offset),
            SEEK_HOLE => SeekFrom::Hole(offset),
            _ => return Err(Errno::INVAL),
        };
        fs::seek(&self.file, to)
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

/// Alignment of memory for `O_DIRECT`: no storage needs more than a page.
const ALIGNMENT: usize = 4096;

thread_local! {
    static DATA: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

fn aligned(memory: &mut Vec<u8>, n_bytes: usize) -> &mut [u8] {
    if memory.len() < n_bytes + ALIGNMENT {
        memory.resize(n_bytes + ALIGNMENT, 0);
    }
    let start = memory.as_ptr().align_offset(ALIGNMENT);
    &mut memory[start..start + n_bytes]
}

pub(super) fn sync(file: impl AsFd, data_only: bool) -> Result<()> {
    if data_only { fs::fdatasync(file) } else { fs::fsync(file) }
}
