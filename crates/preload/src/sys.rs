//! The system, without the C library in between.
//!
//! System calls of the tracer itself go through here: they can then neither be traced by our own hooks, nor disturb another
//! preloaded library, nor touch `errno`. Every function returns what the kernel returned: a negative number is an error.

use core::ffi::CStr;

#[cfg(target_arch = "x86_64")]
#[inline]
fn syscall6(number: i64, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> isize {
    let result: isize;
    // SAFETY: the x86-64 Linux convention: number in rax, arguments in rdi, rsi, rdx, r10, r8, r9; rcx and r11 are
    // overwritten. What the arguments point to is the business of the callers below.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

#[cfg(target_arch = "aarch64")]
#[inline]
fn syscall6(number: i64, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> isize {
    let result: isize;
    // SAFETY: the AArch64 Linux convention: number in x8, arguments in x0 to x5, result in x0.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") number, inlateout("x0") a => result,
            in("x1") b, in("x2") c, in("x3") d, in("x4") e, in("x5") f,
            options(nostack),
        );
    }
    result
}

fn syscall3(number: i64, a: usize, b: usize, c: usize) -> isize {
    syscall6(number, a, b, c, 0, 0, 0)
}

/// Opens a file of our own.
pub fn open(path: &CStr, flags: i32, mode: u32) -> isize {
    let (flags, mode) = (flags as usize, mode as usize);
    syscall6(libc::SYS_openat, libc::AT_FDCWD as usize, path.as_ptr() as usize, flags, mode, 0, 0)
}

/// Where a descriptor stands in its file.
pub fn position(fd: i32) -> Option<u64> {
    u64::try_from(syscall3(libc::SYS_lseek, fd as usize, 0, libc::SEEK_CUR as usize)).ok()
}

/// How a descriptor was opened; 0 if it is none.
pub fn descriptor_flags(fd: i32) -> i32 {
    syscall3(libc::SYS_fcntl, fd as usize, libc::F_GETFL as usize, 0).max(0) as i32
}

/// Makes a directory.
pub fn mkdir(path: &CStr, mode: u32) -> isize {
    syscall3(libc::SYS_mkdirat, libc::AT_FDCWD as usize, path.as_ptr() as usize, mode as usize)
}

/// Closes a descriptor.
pub fn close(fd: i32) -> isize {
    syscall3(libc::SYS_close, fd as usize, 0, 0)
}

/// Moves a descriptor to a number that no program counts on, closed on exec, or leaves it where it is.
///
/// Best of all is one beyond what the program may use: it cannot put anything in its place, nor take all numbers there are. For the moment
/// it takes, the limit is raised.
pub fn move_away(fd: i32) -> i32 {
    const PROGRAMS_MOST: u64 = 1 << 16;
    let mut limit = [0u64; 2];
    let limit_at = &raw mut limit as usize;
    let resource = libc::RLIMIT_NOFILE as usize;
    let known = syscall6(libc::SYS_prlimit64, 0, resource, 0, limit_at, 0, 0) == 0;
    let [soft, hard] = limit;
    let mut moved = -1;
    if known && soft < hard && soft <= PROGRAMS_MOST {
        let raised = [hard.min(soft + 64), hard];
        syscall6(libc::SYS_prlimit64, 0, resource, &raw const raised as usize, 0, 0, 0);
        moved = dup_above(fd, soft as usize);
        syscall6(libc::SYS_prlimit64, 0, resource, limit_at, 0, 0, 0);
    }
    for lowest in [900, 200, 60] {
        if moved < 0 {
            moved = dup_above(fd, lowest);
        }
    }
    if moved < 0 {
        return fd;
    }
    close(fd);
    moved as i32
}

/// Copies a descriptor to the first free number from `lowest` on, closed on exec.
fn dup_above(fd: i32, lowest: usize) -> isize {
    syscall3(libc::SYS_fcntl, fd as usize, libc::F_DUPFD_CLOEXEC as usize, lowest)
}

/// Puts a copy of `fd` in the place of `over`, closed on exec.
pub fn dup_over(fd: i32, over: i32) -> isize {
    syscall3(libc::SYS_dup3, fd as usize, over as usize, libc::O_CLOEXEC as usize)
}

/// Ends a connection in both directions; its descriptor stays.
pub fn shut_down(fd: i32) -> isize {
    syscall3(libc::SYS_shutdown, fd as usize, libc::SHUT_RDWR as usize, 0)
}

/// Reads into `into`.
pub fn read(fd: i32, into: &mut [u8]) -> isize {
    syscall3(libc::SYS_read, fd as usize, into.as_mut_ptr() as usize, into.len())
}

/// Writes both parts in one call.
pub fn writev(fd: i32, parts: &[libc::iovec]) -> isize {
    syscall3(libc::SYS_writev, fd as usize, parts.as_ptr() as usize, parts.len())
}

/// Sends both parts in one call that neither blocks nor raises SIGPIPE.
pub fn send_nonblocking(fd: i32, parts: &mut [libc::iovec]) -> isize {
    // SAFETY: all zeroes is a valid msghdr: no name, no control data.
    let mut message: libc::msghdr = unsafe { core::mem::zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len() as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    syscall3(libc::SYS_sendmsg, fd as usize, &raw const message as usize, flags as usize)
}

/// Makes a socket.
pub fn socket(family: i32, kind: i32) -> isize {
    syscall3(libc::SYS_socket, family as usize, kind as usize, 0)
}

/// Connects a socket to an address of `len` bytes.
pub fn connect<A>(fd: i32, address: &A, len: usize) -> isize {
    syscall3(libc::SYS_connect, fd as usize, address as *const A as usize, len)
}

/// Waits until `fd` can be written to, for at most `timeout_ms`.
pub fn wait_writable(fd: i32, timeout_ms: i64) -> bool {
    let mut poll = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    let timeout = libc::timespec { tv_sec: timeout_ms / 1000, tv_nsec: timeout_ms % 1000 * 1_000_000 };
    let (poll_at, timeout_at) = (&raw mut poll as usize, &raw const timeout as usize);
    syscall6(libc::SYS_ppoll, poll_at, 1, timeout_at, 0, 8, 0) == 1 && poll.revents & libc::POLLOUT != 0
}

/// Waits until there is something to read at `fd`, for at most `timeout_ms`. A signal ends the wait early.
pub fn wait_readable(fd: i32, timeout_ms: i64) -> bool {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let timeout = libc::timespec { tv_sec: timeout_ms / 1000, tv_nsec: timeout_ms % 1000 * 1_000_000 };
    let (poll_at, timeout_at) = (&raw mut poll as usize, &raw const timeout as usize);
    syscall6(libc::SYS_ppoll, poll_at, 1, timeout_at, 0, 8, 0) == 1
}

/// Waits until another thread wakes those who wait at `word`, unless that is no longer `expected`; for at most `timeout_ms`.
pub fn wait_at(word: &core::sync::atomic::AtomicU32, expected: u32, timeout_ms: i64) {
    let timeout = libc::timespec { tv_sec: timeout_ms / 1000, tv_nsec: timeout_ms % 1000 * 1_000_000 };
    let operation = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
    let (word, timeout) = (word.as_ptr() as usize, &raw const timeout as usize);
    syscall6(libc::SYS_futex, word, operation, expected as usize, timeout, 0, 0);
}

/// Wakes one thread that waits at `word`.
pub fn wake_one(word: &core::sync::atomic::AtomicU32) {
    let operation = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize;
    syscall6(libc::SYS_futex, word.as_ptr() as usize, operation, 1, 0, 0, 0);
}

/// Reads entries of a directory, as the kernel lays them out.
pub fn read_directory(fd: i32, into: &mut [u8]) -> isize {
    syscall3(libc::SYS_getdents64, fd as usize, into.as_mut_ptr() as usize, into.len())
}

/// Writes at a place of a file.
pub fn pwrite(fd: i32, bytes: &[u8], at: u64) -> isize {
    let (from, n) = (bytes.as_ptr() as usize, bytes.len());
    syscall6(libc::SYS_pwrite64, fd as usize, from, n, at as usize, 0, 0)
}

/// Sets the flags of an open file that can be changed.
pub fn set_status_flags(fd: i32, flags: i32) {
    syscall3(libc::SYS_fcntl, fd as usize, libc::F_SETFL as usize, flags as usize);
}

/// Returns what `fd` is, or `None` if it is nothing.
pub fn stat(fd: i32) -> Option<libc::stat> {
    // SAFETY: all zeroes is a valid stat, and the kernel's layout is the C library's on both architectures.
    let mut stat: libc::stat = unsafe { core::mem::zeroed() };
    (syscall3(libc::SYS_fstat, fd as usize, &raw mut stat as usize, 0) == 0).then_some(stat)
}

/// Reads where a symbolic link points to.
pub fn readlink<'a>(path: &CStr, into: &'a mut [u8]) -> Option<&'a [u8]> {
    let at = into.as_mut_ptr() as usize;
    let (cwd, path) = (libc::AT_FDCWD as usize, path.as_ptr() as usize);
    let n = syscall6(libc::SYS_readlinkat, cwd, path, at, into.len(), 0, 0);
    into.get(..usize::try_from(n).ok()?)
}

/// Returns the working directory.
pub fn current_directory(into: &mut [u8]) -> Option<&[u8]> {
    let n = syscall3(libc::SYS_getcwd, into.as_mut_ptr() as usize, into.len(), 0);
    into.get(..usize::try_from(n).ok()?.checked_sub(1)?) // the kernel counts the zero at the end
}

/// Returns zeroed memory of our own, or `None`.
pub fn map_memory(len: usize) -> Option<*mut u8> {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
    let at = syscall6(libc::SYS_mmap, 0, len, protection, flags, usize::MAX, 0);
    (at > 0).then_some(at as *mut u8)
}

/// Maps a file that is as long, for others to see what is written there; or `None`.
pub fn map_file(fd: i32, len: usize) -> Option<*mut u8> {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let at = syscall6(libc::SYS_mmap, 0, len, protection, libc::MAP_SHARED as usize, fd as usize, 0);
    (at > 0).then_some(at as *mut u8)
}

/// Gives memory back.
pub fn unmap_memory(at: *mut u8, len: usize) {
    syscall3(libc::SYS_munmap, at as usize, len, 0);
}

/// Sets a file's length.
pub fn truncate(fd: i32, len: u64) -> isize {
    syscall3(libc::SYS_ftruncate, fd as usize, len as usize, 0)
}

/// Makes room in a file, so that writing there cannot fail for want of it.
pub fn allocate(fd: i32, at: u64, len: u64) -> isize {
    syscall6(libc::SYS_fallocate, fd as usize, 0, at as usize, len as usize, 0, 0)
}

/// Sets who may do what with a file.
pub fn set_mode(fd: i32, mode: u32) -> isize {
    syscall3(libc::SYS_fchmod, fd as usize, mode as usize, 0)
}

/// Removes a name.
pub fn unlink(path: &CStr) -> isize {
    syscall3(libc::SYS_unlinkat, libc::AT_FDCWD as usize, path.as_ptr() as usize, 0)
}

/// Reads a file of the kernel's from its beginning, as much as there is room for.
pub fn read_small<'a>(path: &CStr, into: &'a mut [u8]) -> Option<&'a [u8]> {
    let fd = open(path, libc::O_RDONLY | libc::O_CLOEXEC, 0) as i32;
    if fd < 0 {
        return None;
    }
    let mut n = 0;
    while n < into.len() {
        match usize::try_from(read(fd, &mut into[n..])) {
            Ok(more) if more > 0 => n += more,
            _ => break,
        }
    }
    close(fd);
    Some(&into[..n])
}

/// A number that nobody can foresee; the time, where the kernel has none.
pub fn random() -> u64 {
    let mut number = 0u64;
    let n = syscall3(libc::SYS_getrandom, &raw mut number as usize, 8, libc::GRND_NONBLOCK as usize);
    if n == 8 { number } else { crate::clock::monotonic_nanos() }
}

/// Advises the kernel about our own memory.
pub fn advise_memory(at: *mut u8, len: usize, advice: i32) -> isize {
    syscall3(libc::SYS_madvise, at as usize, len, advice as usize)
}

/// The process.
pub fn process_id() -> u32 {
    syscall3(libc::SYS_getpid, 0, 0, 0) as u32
}

/// The process that started this one.
pub fn parent_process_id() -> u32 {
    syscall3(libc::SYS_getppid, 0, 0, 0) as u32
}

/// The thread.
pub fn thread_id() -> u32 {
    syscall3(libc::SYS_gettid, 0, 0, 0) as u32
}

/// Whether this program has rights that whoever started it may not have (set-user-id, set-group-id, capabilities), as the kernel says.
pub fn has_rights_of_its_own() -> bool {
    // SAFETY: reads what the kernel left for the loader.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// The user.
pub fn user_id() -> u32 {
    syscall3(libc::SYS_getuid, 0, 0, 0) as u32
}

/// The user whose rights this program has.
pub fn effective_user_id() -> u32 {
    syscall3(libc::SYS_geteuid, 0, 0, 0) as u32
}

/// The group.
pub fn group_id() -> u32 {
    syscall3(libc::SYS_getgid, 0, 0, 0) as u32
}

/// Lets other threads run.
pub fn give_way() {
    syscall3(libc::SYS_sched_yield, 0, 0, 0);
}

/// Fills in the system's names.
pub fn system_names() -> Option<libc::utsname> {
    // SAFETY: all zeroes is a valid utsname.
    let mut names: libc::utsname = unsafe { core::mem::zeroed() };
    (syscall3(libc::SYS_uname, &raw mut names as usize, 0, 0) == 0).then_some(names)
}

/// Holds all signals of this thread back while it lives.
pub struct NoSignals {
    before: u64,
}

impl NoSignals {
    /// Blocks all signals.
    pub fn new() -> Self {
        let (all, mut before) = (u64::MAX, 0u64);
        let (all_at, before_at) = (&raw const all as usize, &raw mut before as usize);
        syscall6(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK as usize, all_at, before_at, 8, 0, 0);
        Self { before }
    }

    /// Takes back a SIGXFSZ that our own write beyond the file size limit has raised: it is not the program's.
    pub fn take_back_file_size_signal(&self) {
        let set = 1u64 << (libc::SIGXFSZ - 1);
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let (set_at, now_at) = (&raw const set as usize, &raw const now as usize);
        syscall6(libc::SYS_rt_sigtimedwait, set_at, 0, now_at, 8, 0, 0);
    }
}

impl Drop for NoSignals {
    fn drop(&mut self) {
        let before_at = &raw const self.before as usize;
        syscall6(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK as usize, before_at, 0, 8, 0, 0);
    }
}
