//! The gate: a call that moves data waits until the arbiter of the storage lets it through.
//!
//! Off unless `IOTIDE_GATE` names an arbiter. Asking costs a round trip, so the arbiter gives *leases* where nobody else wants the
//! storage: so many bytes, good for so long, to be used without asking. A call under a lease costs three atomic operations and a
//! look at the clock. Requests of `IOTIDE_GATE_BYPASS` bytes or less do not ask at all: they are over before an answer could come.
//!
//! **The program comes first.** An arbiter that cannot be reached, that hangs up, or that says nothing for [`SILENCE_NS`] is left alone for a
//! while (one second at first, then twice as long each time, up to [`LONGEST_PAUSE_NS`]), and data move as they would without it. One that
//! is there may hold a call for `IOTIDE_GATE_PATIENCE` seconds, not longer. So an arbiter that has stopped costs a call at most a
//! second, and over time not more than a thirtieth of it.

use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

use iotide_wire::{GateHello, GateMessage, Op, Total};

use crate::connection::Connection;
use crate::lock::Lock;
use crate::{clock, config, lifecycle, sys};

/// An arbiter that keeps a program waiting says so five times a second; one that is silent for this long has stopped.
const SILENCE_NS: u64 = 1_000_000_000;
/// How long an arbiter that failed is left alone at first, and at most.
const SHORTEST_PAUSE_NS: u64 = 1_000_000_000;
const LONGEST_PAUSE_NS: u64 = 30_000_000_000;

static IS_ON: AtomicBool = AtomicBool::new(false);
static BYPASS: AtomicU64 = AtomicU64::new(0);

/// What is left of the lease, in bytes. May fall below nought: then there is nothing left.
static LEFT: AtomicI64 = AtomicI64::new(0);
/// When the lease ends, on the coarse clock.
static UNTIL_NS: AtomicU64 = AtomicU64::new(0);
/// The number of the ask that brought the lease, and what has been moved under it.
static LEASE: AtomicU64 = AtomicU64::new(0);
static MOVED: AtomicU64 = AtomicU64::new(0);

/// The connection; one thread at a time asks, and waits for the answer.
static ARBITER: Connection = Connection::new();
static ASKING: Lock = Lock::new();
/// The thread that asks. A signal handler that interrupts it must not wait for itself.
static ASKER: AtomicU32 = AtomicU32::new(0);
static N_ASKS: AtomicU64 = AtomicU64::new(0);

static RETRY_AT_NS: AtomicU64 = AtomicU64::new(0);
static PAUSE_NS: AtomicU64 = AtomicU64::new(SHORTEST_PAUSE_NS);

/// Times nobody could be asked: for want of permission, and for other reasons.
static N_DENIED: AtomicU64 = AtomicU64::new(0);
static N_UNREACHED: AtomicU64 = AtomicU64::new(0);
/// Requests that went on without leave, and how long others waited for theirs.
static N_SKIPPED: AtomicU64 = AtomicU64::new(0);
static WAITED_NS: AtomicU64 = AtomicU64::new(0);

/// The number of an ask after whose call the arbiter wants to hear; nought if it does not.
#[derive(Clone, Copy)]
pub struct Pass(u64);

impl Pass {
    pub const FREE: Pass = Pass(0);
}

/// Looks whether there is an arbiter to ask. Called once, before the first call is observed.
pub fn start() {
    BYPASS.store(config::get().gate_bypass, Relaxed);
    IS_ON.store(!config::get().gate.get().is_empty(), Relaxed);
}

/// What became of asking, so far.
pub fn totals() -> [(Total, u64); 4] {
    [
        (Total::GateDenied, N_DENIED.load(Relaxed)),
        (Total::GateUnreached, N_UNREACHED.load(Relaxed)),
        (Total::GateSkipped, N_SKIPPED.load(Relaxed)),
        (Total::GateNanos, WAITED_NS.load(Relaxed)),
    ]
}

/// Says what was moved under the last lease, before the process ends or becomes another program.
pub fn finish() {
    let id = LEASE.swap(0, Relaxed);
    if id != 0
        && let Some(fd) = ARBITER.fd()
    {
        LEFT.store(0, Relaxed);
        say(fd, &[GateMessage::Done { id, bytes: MOVED.swap(0, Relaxed) }]);
    }
}

/// Waits until up to `size` bytes may be moved.
#[inline(always)]
pub fn pass(op: Op, size: impl FnOnce() -> usize) -> Pass {
    if !IS_ON.load(Relaxed) {
        return Pass::FREE;
    }
    let bytes = size() as u64;
    if bytes <= BYPASS.load(Relaxed) || take_from_lease(bytes) { Pass::FREE } else { ask(op, bytes) }
}

/// Says that the call is over.
#[inline(always)]
pub fn passed(pass: Pass, moved: isize) {
    if pass.0 != 0
        && let Some(fd) = ARBITER.fd()
        && !say(fd, &[GateMessage::Done { id: pass.0, bytes: moved.max(0) as u64 }])
    {
        N_UNREACHED.fetch_add(1, Relaxed);
        pause();
    }
}

/// In a forked child: the parent's connection and its lease are the parent's.
pub fn forget_parent() {
    ARBITER.forget();
    LEFT.store(0, Relaxed);
    LEASE.store(0, Relaxed);
    ASKER.store(0, Relaxed);
    ASKING.reset();
    for count in [&N_DENIED, &N_UNREACHED, &N_SKIPPED, &WAITED_NS] {
        count.store(0, Relaxed);
    }
}

/// Whether this is the number of our connection.
pub fn is_our_descriptor(fd: i32) -> bool {
    ARBITER.owns(fd)
}

fn take_from_lease(bytes: u64) -> bool {
    let bytes = bytes.min(1 << 62) as i64;
    if LEFT.load(Relaxed) < bytes || LEFT.fetch_sub(bytes, Relaxed) < bytes {
        return false;
    }
    if clock::coarse_nanos() >= UNTIL_NS.load(Relaxed) {
        LEFT.store(0, Relaxed);
        return false;
    }
    MOVED.fetch_add(bytes as u64, Relaxed);
    true
}

#[cold]
fn ask(op: Op, bytes: u64) -> Pass {
    let thread = sys::thread_id();
    if lifecycle::is_in_vfork_child() || ASKER.load(Relaxed) == thread {
        return Pass::FREE;
    }
    let began_ns = clock::monotonic_nanos();
    let pass = if is_due() { wait(thread, op, bytes, began_ns) } else { None };
    if pass.is_none() {
        N_SKIPPED.fetch_add(1, Relaxed);
    }
    WAITED_NS.fetch_add(clock::monotonic_nanos().saturating_sub(began_ns), Relaxed);
    pass.unwrap_or(Pass::FREE)
}

/// Waits for leave; `None` if there will be none.
fn wait(thread: u32, op: Op, bytes: u64, began_ns: u64) -> Option<Pass> {
    let deadline_ns = began_ns.saturating_add(config::get().gate_patience_ns);
    if !ASKING.lock_until(deadline_ns) {
        return None;
    }
    ASKER.store(thread, Relaxed);
    // While this one waited, another may have got a lease, or found that nobody answers.
    let pass = if take_from_lease(bytes) {
        Some(Pass::FREE)
    } else if is_due() {
        converse(op, bytes, deadline_ns)
    } else {
        None
    };
    ASKER.store(0, Relaxed);
    ASKING.unlock();
    pass
}

/// Whether the arbiter is there, or it is time to look for it again.
fn is_due() -> bool {
    ARBITER.is_up() || clock::monotonic_nanos() >= RETRY_AT_NS.load(Relaxed)
}

/// Asks, and waits for the answer; `None` if it does not come.
fn converse(op: Op, bytes: u64, deadline_ns: u64) -> Option<Pass> {
    let fd = connected()?;
    let id = N_ASKS.fetch_add(1, Relaxed) + 1;
    let ask = GateMessage::Ask { id, bytes, is_write: op == Op::Write };
    let used = GateMessage::Done { id: LEASE.swap(0, Relaxed), bytes: MOVED.swap(0, Relaxed) };
    let is_said = match used {
        GateMessage::Done { id: 0, .. } => say(fd, &[ask]),
        used => say(fd, &[used, ask]),
    };
    if !is_said {
        return no_answer();
    }
    let mut heard_ns = clock::monotonic_nanos();
    loop {
        let now_ns = clock::monotonic_nanos();
        if now_ns >= deadline_ns {
            return None; // its grant, should it come yet, is given back at the next ask
        }
        let until_ns = deadline_ns.min(heard_ns.saturating_add(SILENCE_NS));
        if now_ns >= until_ns {
            return no_answer();
        }
        if !sys::wait_readable(fd, ((until_ns - now_ns) / 1_000_000) as i64 + 1) {
            continue; // too long, or a signal
        }
        match hear(fd) {
            Some(GateMessage::Grant { id: granted, bytes: n_granted, lease_ns }) if granted == id => {
                PAUSE_NS.store(SHORTEST_PAUSE_NS, Relaxed);
                if lease_ns == 0 {
                    return Some(Pass(id));
                }
                UNTIL_NS.store(clock::coarse_nanos().saturating_add(lease_ns), Relaxed);
                MOVED.store(bytes, Relaxed);
                LEASE.store(id, Relaxed);
                LEFT.store(n_granted.saturating_sub(bytes).min(1 << 62) as i64, Relaxed);
                return Some(Pass::FREE);
            }
            // Of an ask that was given up.
            Some(GateMessage::Grant { id, .. }) => {
                say(fd, &[GateMessage::Done { id, bytes: 0 }]);
            }
            Some(_) => {}
            None => return no_answer(),
        }
        heard_ns = clock::monotonic_nanos();
    }
}

fn connected() -> Option<i32> {
    if let Some(fd) = ARBITER.fd() {
        return Some(fd);
    }
    let config = config::get();
    let hello = GateHello::new(sys::process_id(), config.job_id.get());
    let fd = ARBITER.dial(config.gate.get(), |fd| send_all(fd, &hello.encode()));
    if fd.is_none() {
        let is_denied = matches!(ARBITER.last_error(), libc::EACCES | libc::EPERM);
        let count = if is_denied { &N_DENIED } else { &N_UNREACHED };
        count.fetch_add(1, Relaxed);
        pause();
    }
    fd
}

/// The arbiter hung up, or says nothing.
fn no_answer() -> Option<Pass> {
    N_UNREACHED.fetch_add(1, Relaxed);
    pause();
    None
}

/// Hangs up, and leaves the arbiter alone for a while.
fn pause() {
    ARBITER.hang_up();
    LEFT.store(0, Relaxed);
    LEASE.store(0, Relaxed);
    let pause_ns = PAUSE_NS.load(Relaxed);
    PAUSE_NS.store((2 * pause_ns).min(LONGEST_PAUSE_NS), Relaxed);
    RETRY_AT_NS.store(clock::monotonic_nanos().saturating_add(pause_ns), Relaxed);
}

fn say(fd: i32, messages: &[GateMessage]) -> bool {
    let mut bytes = [0; 2 * GateMessage::SIZE];
    let mut n = 0;
    for message in messages.iter().take(2) {
        bytes[n..n + GateMessage::SIZE].copy_from_slice(&message.encode());
        n += GateMessage::SIZE;
    }
    send_all(fd, &bytes[..n])
}

/// So few bytes go as a whole or, if the arbiter reads nothing any more, not at all.
fn send_all(fd: i32, bytes: &[u8]) -> bool {
    let mut parts = [libc::iovec { iov_base: bytes.as_ptr() as *mut _, iov_len: bytes.len() }];
    sys::send_nonblocking(fd, &mut parts) == bytes.len() as isize
}

/// Reads one message; `None` if the arbiter has gone or makes no sense.
fn hear(fd: i32) -> Option<GateMessage> {
    let mut bytes = [0; GateMessage::SIZE];
    let mut n = 0;
    while n < bytes.len() {
        match sys::read(fd, &mut bytes[n..]) {
            read if read > 0 => n += read as usize,
            read if read == -(libc::EINTR as isize) => {}
            // The rest of a message is on its way.
            read if read == -(libc::EAGAIN as isize) && sys::wait_readable(fd, 100) => {}
            _ => return None,
        }
    }
    GateMessage::decode(&bytes)
}
