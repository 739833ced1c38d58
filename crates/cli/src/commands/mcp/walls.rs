//! Processes that work on one call each, and what the kernel refuses them.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, PipeReader, Write as _};
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use rustix::process::{Pid, Resource, Rlimit, setrlimit};

/// Most memory of a call.
const MOST_MEMORY: u64 = 4 << 30;
/// Largest temporary file of a call.
const MOST_FILE: u64 = 1 << 30;

/// Work in a process of its own: it can be ended at any time, and shares nothing with the next one.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) pid: Pid,
    /// Its answer comes here.
    pub(super) answer: PipeReader,
}

/// Starts a process that may read below `roots`, change files below `scratch`, and start nothing; its answer is what `work` returns.
///
/// The caller has one thread only: the copy of a process has no other.
pub(super) fn start<'a>(
    roots: impl Iterator<Item = &'a Path>,
    scratch: Option<&Path>,
    work: impl FnOnce() -> String,
) -> io::Result<Worker> {
    let (answer, mut to_caller) = io::pipe()?;
    // SAFETY: this process has one thread, so that no lock is held by another one that the copy lacks.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    if let Some(pid) = Pid::from_raw(pid) {
        return Ok(Worker { pid, answer });
    }
    drop(answer);
    let status = catch_unwind(AssertUnwindSafe(|| {
        enclose(roots, scratch)?;
        to_caller.write_all(work().as_bytes())
    }));
    std::process::exit(i32::from(!matches!(status, Ok(Ok(())))));
}

/// Takes from this process what a call does not need.
fn enclose<'a>(roots: impl Iterator<Item = &'a Path>, scratch: Option<&Path>) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the default action needs no handler.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // Messages of the protocol are the caller's: nothing here reads or writes them.
    let nothing = File::open("/dev/null")?;
    replace(libc::STDIN_FILENO, nothing.as_raw_fd())?;
    replace(libc::STDOUT_FILENO, libc::STDERR_FILENO)?;
    for (resource, most) in [(Resource::Data, MOST_MEMORY), (Resource::Fsize, MOST_FILE), (Resource::Core, 0)]
    {
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    #[cfg(target_os = "linux")]
    landlock::enclose(roots, scratch)?;
    #[cfg(not(target_os = "linux"))]
    let _ = (roots, scratch);
    Ok(())
}

fn replace(fd: i32, by: i32) -> io::Result<()> {
    // SAFETY: both are open, and nobody here owns standard input and output.
    if unsafe { libc::dup2(by, fd) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The kernel's own fence (Landlock, since Linux 5.13): it holds even where a path changes after it was checked.
#[cfg(target_os = "linux")]
mod landlock {
    use std::io;
    use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
    use std::path::Path;

    use rustix::fs::{CWD, Mode, OFlags};

    /// `struct landlock_ruleset_attr`, as far as it is used.
    #[repr(C)]
    struct Ruleset {
        handled_files: u64,
        handled_net: u64,
    }

    /// `struct landlock_path_beneath_attr`.
    #[repr(C, packed)]
    struct Beneath {
        allowed: u64,
        parent: i32,
    }

    const READ_FILE: u64 = 1 << 2;
    const READ_DIR: u64 = 1 << 3;
    const EXECUTE: u64 = 1;
    /// `LANDLOCK_CREATE_RULESET_VERSION`.
    const VERSION: u32 = 1;
    /// `LANDLOCK_RULE_PATH_BENEATH`.
    const PATH_BENEATH: u32 = 1;

    /// Rights on files that a version of Landlock knows.
    fn files(version: libc::c_long) -> u64 {
        let n_rights = match version {
            ..=1 => 13,
            2 => 14,
            3..=4 => 15,
            _ => 16,
        };
        (1 << n_rights) - 1
    }

    /// Restricts this process for good; does nothing where the kernel has no Landlock.
    pub(super) fn enclose<'a>(
        roots: impl Iterator<Item = &'a Path>,
        scratch: Option<&Path>,
    ) -> io::Result<()> {
        let null = std::ptr::null::<Ruleset>();
        // SAFETY: with this flag, the call looks at no memory.
        let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, null, 0_usize, VERSION) };
        if version < 1 {
            return Ok(());
        }
        let all = files(version);
        // Connections: to no address. Sockets of this machine stay, for the daemon.
        let ruleset = Ruleset { handled_files: all, handled_net: if version >= 4 { 0b11 } else { 0 } };
        let size = if version >= 4 { size_of::<Ruleset>() } else { size_of::<u64>() };
        // SAFETY: the structure is as the kernel has it, and outlives the call.
        let made =
            unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &raw const ruleset, size, 0_u32) };
        // SAFETY: a descriptor that was just made has no other owner.
        let ruleset = unsafe { OwnedFd::from_raw_fd(checked(made)? as i32) };
        let readable = roots.map(|root| (root, READ_FILE | READ_DIR));
        for (folder, allowed) in readable.chain(scratch.map(|scratch| (scratch, all & !EXECUTE))) {
            let parent = rustix::fs::openat(CWD, folder, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            let rule = Beneath { allowed, parent: parent.as_raw_fd() };
            let ruleset = ruleset.as_raw_fd();
            // SAFETY: the structure is as the kernel has it, and outlives the call.
            checked(unsafe {
                libc::syscall(libc::SYS_landlock_add_rule, ruleset, PATH_BENEATH, &raw const rule, 0_u32)
            })?;
        }
        rustix::thread::set_no_new_privs(true)?;
        // SAFETY: the call takes a descriptor and no memory.
        checked(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0_u32) })?;
        Ok(())
    }

    fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
    }
}

/// Descriptor that is borrowed for a wait.
pub(super) fn borrowed(worker: &Worker) -> BorrowedFd<'_> {
    std::os::fd::AsFd::as_fd(&worker.answer)
}
