//! Sums beside the records: what was left out, what the kernel says was moved, what the tracer itself took.
//!
//! The kernel counts the bytes of every call of a process (`/proc/self/task/*/io`). What passed our hooks, recorded or left out, is counted here. The
//! difference is what programs moved behind our back: by system calls of their own, from code that was linked statically.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use iotide_wire::{LossKind, Op, Total, Totals};

use crate::config::{self, Bytes};
use crate::files::Class;
use crate::{buffer, files, gate, lifecycle, losses, sink, sys};

static EXCLUDED_CALLS: AtomicU64 = AtomicU64::new(0);
static EXCLUDED_BYTES: AtomicU64 = AtomicU64::new(0);
static MAPPINGS: AtomicU64 = AtomicU64::new(0);
static MAPPED_BYTES: AtomicU64 = AtomicU64::new(0);
static RINGS: AtomicU64 = AtomicU64::new(0);
/// Kernel's counts when tracing began: read, written. `u64::MAX` if the kernel does not report them.
static AT_START: [AtomicU64; 2] = [const { AtomicU64::new(u64::MAX) }; 2];

/// Takes note of what the kernel has counted so far.
pub fn start() {
    if !config::get().traces {
        return;
    }
    let (read, written) = kernel_count().unwrap_or((u64::MAX, u64::MAX));
    AT_START[0].store(read, Relaxed);
    AT_START[1].store(written, Relaxed);
}

/// In a forked child: everything begins anew, the kernel's count too.
pub fn forget_parent() {
    for sum in [&EXCLUDED_CALLS, &EXCLUDED_BYTES, &MAPPINGS, &MAPPED_BYTES, &RINGS, &ENDED[0], &ENDED[1]] {
        sum.store(0, Relaxed);
    }
    start();
}

/// Counts a call that moved bytes through a descriptor and is not recorded.
pub fn left_out(op: Op, fd: i32, bytes: u64) {
    if !lifecycle::is_tracing() {
        return;
    }
    // It may be closed by now: that nobody knows it says nothing.
    let class = match files::class(fd) {
        Class::Unknown => Class::Other,
        class => class,
    };
    left_out_of(class, op, bytes);
}

/// The same, by what was known of the descriptor before the call.
pub fn left_out_of(class: Class, op: Op, bytes: u64) {
    if bytes == 0 {
        return;
    }
    match class {
        Class::Unknown => losses::count(LossKind::UnknownDescriptor, 1),
        Class::High => losses::count(LossKind::HighDescriptor, 1),
        Class::Excluded => {
            excluded(1, bytes);
            buffer::add_seen(op, bytes);
        }
        Class::Other => buffer::add_seen(op, bytes),
        Class::Nothing => {}
    }
}

/// Counts calls on files that are left out because of their path.
pub fn excluded(calls: u64, bytes: u64) {
    EXCLUDED_CALLS.fetch_add(calls, Relaxed);
    EXCLUDED_BYTES.fetch_add(bytes, Relaxed);
}

/// Counts a file that was mapped shared and writable: what is written through memory nobody sees.
pub fn mapped(bytes: u64) {
    MAPPINGS.fetch_add(1, Relaxed);
    MAPPED_BYTES.fetch_add(bytes, Relaxed);
}

/// Counts an `io_uring` that was set up: what it moves nobody sees.
#[cold]
pub fn ring() {
    if !config::get().is_beside_kernel {
        RINGS.fetch_add(1, Relaxed);
    }
}

/// Whether there is anything to report though no call was recorded.
pub fn are_telling() -> bool {
    RINGS.load(Relaxed) != 0 || MAPPINGS.load(Relaxed) != 0
}

/// The sums so far.
pub fn now() -> Totals {
    let mut totals = Totals::default();
    let (own_bytes, flush_ticks) = sink::own_cost();
    let seen = buffer::seen();
    if let Some((read, written)) = kernel_count()
        && AT_START[0].load(Relaxed) != u64::MAX
    {
        totals.set(Total::KernelRead, read.saturating_sub(AT_START[0].load(Relaxed)));
        let written = written.saturating_sub(AT_START[1].load(Relaxed));
        totals.set(Total::KernelWritten, written.saturating_sub(own_bytes));
    }
    totals.set(Total::SeenRead, seen.read);
    totals.set(Total::SeenWritten, seen.written);
    totals.set(Total::ExcludedCalls, EXCLUDED_CALLS.load(Relaxed));
    totals.set(Total::ExcludedBytes, EXCLUDED_BYTES.load(Relaxed));
    totals.set(Total::Mappings, MAPPINGS.load(Relaxed));
    totals.set(Total::MappedBytes, MAPPED_BYTES.load(Relaxed));
    totals.set(Total::Rings, RINGS.load(Relaxed));
    totals.set(Total::HookNanos, buffer::nanos_of(seen.hook_ticks));
    totals.set(Total::FlushNanos, buffer::nanos_of(flush_ticks));
    for (total, value) in gate::totals() {
        totals.set(total, value);
    }
    totals
}

/// Kernel's counts of threads that have ended: read, written.
static ENDED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Keeps the kernel's count of the calling thread, which ends.
pub fn thread_ends() {
    if !config::get().traces {
        return;
    }
    if let Some((read, written)) = count_of(c"/proc/thread-self/io") {
        ENDED[0].fetch_add(read, Relaxed);
        ENDED[1].fetch_add(written, Relaxed);
    }
}

/// Bytes that this process has read and written by calls, as the kernel counts them: the sum over its threads. (What it says of the
/// process as a whole counts in the children that it has waited for.)
fn kernel_count() -> Option<(u64, u64)> {
    let fd = sys::open(c"/proc/self/task", libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC, 0) as i32;
    if fd < 0 {
        return None;
    }
    let mut sum = [ENDED[0].load(Relaxed), ENDED[1].load(Relaxed)];
    let mut is_known = false;
    let mut entries = [0; 2048];
    loop {
        let n = usize::try_from(sys::read_directory(fd, &mut entries)).unwrap_or(0);
        let mut rest = entries.get(..n).unwrap_or(&[]);
        if rest.is_empty() {
            break;
        }
        // An entry: inode and offset (8 bytes each), its length (2), a type (1), the name.
        while let Some(length) = rest.get(16..18) {
            let length = usize::from(u16::from_le_bytes([length[0], length[1]]));
            let Some((entry, more)) = rest.split_at_checked(length.max(19)) else { break };
            rest = more;
            let name = entry[19..].split(|&byte| byte == 0).next().unwrap_or(&[]);
            if !name.iter().all(u8::is_ascii_digit) {
                continue;
            }
            let mut path: Bytes<64> = Bytes::new();
            path.push(b"/proc/self/task/");
            path.push(name);
            path.push(b"/io");
            if let Some((read, written)) = count_of(path.as_c_str()) {
                is_known = true;
                sum = [sum[0] + read, sum[1] + written];
            }
        }
    }
    sys::close(fd);
    is_known.then_some((sum[0], sum[1]))
}

fn count_of(path: &CStr) -> Option<(u64, u64)> {
    let fd = sys::open(path, libc::O_RDONLY | libc::O_CLOEXEC, 0) as i32;
    if fd < 0 {
        return None;
    }
    let mut text = [0; 256];
    let n = sys::read(fd, &mut text);
    sys::close(fd);
    let text = text.get(..usize::try_from(n).ok()?)?;
    let number = |name: &[u8]| {
        let line = text.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(name))?;
        line.iter().try_fold(0u64, |sum, &digit| {
            digit.is_ascii_digit().then(|| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
        })
    };
    Some((number(b"rchar: ")?, number(b"wchar: ")?))
}
