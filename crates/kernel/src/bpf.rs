//! The system call `bpf`, and the few others that go with it: the only place of this crate that is not safe.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Kinds of maps.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MapKind {
    Hash = 1,
    Array = 2,
    Programs = 3,
    Ring = 27,
    OfTasks = 29,
}

/// Only programs of ours read and write it; they change nothing that is marked read-only.
pub(crate) const READ_ONLY_TO_PROGRAMS: u32 = 1 << 7;
const NO_PREALLOCATION: u32 = 1;

#[derive(Clone, Copy)]
enum Request {
    MapCreate = 0,
    MapLookup = 1,
    MapUpdate = 2,
    ProgramLoad = 5,
    TracepointOpen = 17,
    BtfLoad = 18,
    MapFreeze = 22,
}

/// Arguments of a call, put together by place.
struct Arguments([u8; Self::SIZE]);

impl Arguments {
    const SIZE: usize = 128;

    fn new() -> Self {
        Self([0; Self::SIZE])
    }

    fn u32(mut self, at: usize, value: u32) -> Self {
        self.0[at..at + 4].copy_from_slice(&value.to_le_bytes());
        self
    }

    fn u64(mut self, at: usize, value: u64) -> Self {
        self.0[at..at + 8].copy_from_slice(&value.to_le_bytes());
        self
    }

    fn fd(self, at: usize, fd: &OwnedFd) -> Self {
        self.u32(at, fd.as_raw_fd() as u32)
    }

    fn name(mut self, at: usize) -> Self {
        self.0[at..at + 6].copy_from_slice(b"iotide");
        self
    }

    /// Makes the call. Memory that the arguments point to must be alive: all of it belongs to the functions below.
    fn call(&self, request: Request) -> io::Result<i32> {
        // SAFETY: the kernel checks every argument; pointers among them are to values of our callers, of the size that is stated.
        let result = unsafe { libc::syscall(libc::SYS_bpf, request as i32, self.0.as_ptr(), Self::SIZE) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
    }

    fn open(&self, request: Request) -> io::Result<OwnedFd> {
        // SAFETY: the requests this is called with return a descriptor that is nobody else's.
        self.call(request).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

/// Makes a map of `entries` entries; a ring of that many bytes.
pub(crate) fn make_map(kind: MapKind, key: u32, value: u32, entries: u32, flags: u32) -> io::Result<OwnedFd> {
    let sizes = Arguments::new().u32(0, kind as u32).u32(4, key).u32(8, value).u32(12, entries);
    sizes.u32(16, flags).name(28).open(Request::MapCreate)
}

/// Makes a map with one value of `n` numbers for each task that has one.
pub(crate) fn make_map_of_tasks(n: u32) -> io::Result<OwnedFd> {
    let types = crate::btf::of_task_value(n);
    let btf = Arguments::new().u64(0, types.as_ptr() as u64).u32(16, types.len() as u32);
    let btf = btf.open(Request::BtfLoad)?;
    let sizes = Arguments::new().u32(0, MapKind::OfTasks as u32).u32(4, 4).u32(8, 8 * n);
    sizes.u32(16, NO_PREALLOCATION).name(28).fd(48, &btf).u32(52, 1).u32(56, 3).open(Request::MapCreate)
}

/// Sets a value of a map.
pub(crate) fn update(map: &OwnedFd, key: u32, value: &[u8]) -> io::Result<()> {
    set(map, key, value, 0)
}

/// Sets a value of a map that has none for that key; otherwise the error says that there is one.
pub(crate) fn add(map: &OwnedFd, key: u32, value: &[u8]) -> io::Result<()> {
    set(map, key, value, 1)
}

fn set(map: &OwnedFd, key: u32, value: &[u8], flags: u64) -> io::Result<()> {
    let arguments = Arguments::new().fd(0, map).u64(8, &raw const key as u64).u64(24, flags);
    arguments.u64(16, value.as_ptr() as u64).call(Request::MapUpdate).map(drop)
}

/// Reads the value of an array at 0, which has `N` numbers.
pub(crate) fn look_up<const N: usize>(map: &OwnedFd) -> io::Result<[u64; N]> {
    let (key, mut value) = (0u32, [0; N]);
    let arguments = Arguments::new().fd(0, map).u64(8, &raw const key as u64);
    arguments.u64(16, value.as_mut_ptr() as u64).call(Request::MapLookup)?;
    Ok(value)
}

/// From now on only programs may use the map, and only as its flags allow.
pub(crate) fn freeze(map: &OwnedFd) -> io::Result<()> {
    Arguments::new().fd(0, map).call(Request::MapFreeze).map(drop)
}

/// Licence by which the kernel lets a program read memory: that of this crate, under a name it knows.
const LICENCE: &CStr = c"Dual MIT/GPL";
const TRACING: u32 = 26;
const RAW_TRACEPOINT: u32 = 23;

/// Loads a program for a tracepoint, by the number of its type. Where the verifier refuses it, the error ends with what it says.
pub(crate) fn load(code: &[[u8; 8]], tracepoint: u32) -> io::Result<OwnedFd> {
    let arguments = || {
        let code = Arguments::new().u32(0, TRACING).u32(4, code.len() as u32).u64(8, code.as_ptr() as u64);
        code.u64(16, LICENCE.as_ptr() as u64).name(48).u32(68, RAW_TRACEPOINT).u32(108, tracepoint)
    };
    let error = match arguments().open(Request::ProgramLoad) {
        Err(error) if error.raw_os_error() != Some(libc::EPERM) => error,
        result => return result,
    };
    // Again, with the verifier's log: it costs time that a program that loads need not spend.
    let mut log = vec![0u8; 1 << 20];
    let (size, place) = (log.len() as u32, log.as_mut_ptr() as u64);
    let _ = arguments().u32(24, 1).u32(28, size).u64(32, place).call(Request::ProgramLoad);
    let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
    let text = String::from_utf8_lossy(&log[..end]);
    if std::env::var_os("IOTIDE_KERNEL_LOG").is_some() {
        return Err(io::Error::new(error.kind(), format!("{error}: {text}")));
    }
    let said = text.lines().rev().find(|line| !line.is_empty() && !line.starts_with("processed"));
    Err(match said {
        Some(said) => io::Error::new(error.kind(), format!("{error} ({said})")),
        None => error,
    })
}

/// Attaches a loaded program to its tracepoint, for as long as the descriptor is open.
pub(crate) fn attach(program: &OwnedFd) -> io::Result<OwnedFd> {
    Arguments::new().fd(8, program).open(Request::TracepointOpen)
}

/// A descriptor of a process, or of a thread that is not the first of its process (6.9 and later).
pub(crate) fn process(tid: u32, is_first: bool) -> io::Result<OwnedFd> {
    let flags = if is_first { 0 } else { libc::O_EXCL };
    // SAFETY: takes two numbers and returns a descriptor that is nobody else's.
    unsafe {
        match libc::syscall(libc::SYS_pidfd_open, tid, flags) {
            fd if fd < 0 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd as i32)),
        }
    }
}

/// Memory shared with the kernel.
pub(crate) struct Shared {
    at: *mut u8,
    size: usize,
}

// SAFETY: whoever owns it is the only one on this side.
unsafe impl Send for Shared {}

impl Shared {
    /// Maps `size` bytes of a map from `offset` on.
    pub(crate) fn map(map: &OwnedFd, size: usize, offset: usize, is_writable: bool) -> io::Result<Self> {
        let protection = libc::PROT_READ | if is_writable { libc::PROT_WRITE } else { 0 };
        let fd = map.as_raw_fd();
        // SAFETY: a new mapping, at a place that the kernel chooses.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), size, protection, libc::MAP_SHARED, fd, offset as libc::off_t)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { at: at.cast(), size })
    }

    /// The first number, which the kernel may change at any time.
    pub(crate) fn counter(&self) -> &std::sync::atomic::AtomicU64 {
        // SAFETY: a page at least, aligned to one.
        unsafe { &*self.at.cast() }
    }

    /// The number of 32 bits at `at`, which the kernel may change at any time.
    pub(crate) fn word(&self, at: usize) -> Option<&std::sync::atomic::AtomicU32> {
        // SAFETY: within the mapping, and aligned.
        (at.is_multiple_of(4) && at + 4 <= self.size).then(|| unsafe { &*self.at.add(at).cast() })
    }

    /// Some bytes that the kernel leaves alone until we have moved on.
    pub(crate) fn bytes(&self, at: usize, n: usize) -> Option<&[u8]> {
        let is_within = at.checked_add(n).is_some_and(|end| end <= self.size);
        // SAFETY: within the mapping; the ring's protocol keeps the kernel from writing there.
        is_within.then(|| unsafe { std::slice::from_raw_parts(self.at.add(at), n) })
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: our own mapping; nothing borrowed from it outlives it.
        unsafe { libc::munmap(self.at.cast(), self.size) };
    }
}

/// Nanoseconds of the monotonic clock, and what is to be added to get Unix time.
pub(crate) fn now() -> (u64, i64) {
    let read = |clock| {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes to a value of ours.
        unsafe { libc::clock_gettime(clock, &raw mut time) };
        time.tv_sec * 1_000_000_000 + time.tv_nsec
    };
    let (before, real, after) =
        (read(libc::CLOCK_MONOTONIC), read(libc::CLOCK_REALTIME), read(libc::CLOCK_MONOTONIC));
    (after as u64, real - (before + (after - before) / 2))
}

/// Starts a program that waits, before it begins, until `mark` has seen to its process.
pub(crate) fn spawn(
    command: &mut Command,
    mark: impl FnOnce(u32) -> io::Result<()> + Send,
) -> io::Result<Child> {
    let (ours, theirs) = UnixStream::pair()?;
    let socket = theirs.as_raw_fd();
    // SAFETY: between `fork` and `exec`, with memory that is there: three calls of the system, and no allocation.
    unsafe {
        command.pre_exec(move || {
            let pid = libc::getpid().to_ne_bytes();
            let mut answer = [0u8];
            if libc::write(socket, pid.as_ptr().cast(), pid.len()) != pid.len() as isize {
                return Err(io::Error::last_os_error());
            }
            loop {
                match libc::read(socket, answer.as_mut_ptr().cast(), 1) {
                    1 if answer[0] == 1 => return Ok(()),
                    -1 if *libc::__errno_location() == libc::EINTR => {}
                    _ => return Err(io::Error::from_raw_os_error(libc::EPERM)),
                }
            }
        });
    }
    std::thread::scope(|scope| {
        let marked = scope.spawn(move || {
            let mut ours = ours;
            let mut pid = [0; 4];
            // Nobody: the process could not be made.
            ours.read_exact(&mut pid)?;
            let marked = match u32::from_ne_bytes(pid) {
                0 => return Ok(()),
                pid => mark(pid),
            };
            ours.write_all(&[u8::from(marked.is_ok())])?;
            marked
        });
        let child = command.spawn();
        if child.is_err() {
            let _ = (&theirs).write_all(&[0; 4]);
        }
        let marked = marked.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
        marked.and(child)
    })
}
