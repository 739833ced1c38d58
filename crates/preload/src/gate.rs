//! The gate: a call that moves data waits until the arbiter of the storage lets it through.
//!
//! Off unless `IOTIDE_GATE` names an arbiter, or several ([`GateMap`]). Asking costs a round trip, so the arbiter gives *leases* where nobody else wants the
//! storage: so many bytes, good for so long, to be used without asking. A call under a lease costs three atomic operations and a
//! look at the clock. Requests of `IOTIDE_GATE_BYPASS` bytes or less do not ask at all: they are over before an answer could come.
//!
//! **The program comes first.** An arbiter that cannot be reached, that hangs up, or that says nothing for [`SILENCE_NS`] is left alone for a
//! while (one second at first, then twice as long each time, up to [`LONGEST_PAUSE_NS`]), and data move as they would without it. One that
//! is there may hold a call for `IOTIDE_GATE_PATIENCE` seconds, not longer. So an arbiter that has stopped costs a call at most a
//! second, and over time not more than a thirtieth of it.
//!
//! An arbiter on another machine wants to know who asks: `IOTIDE_GATE_KEY` names the file with the key that proves it ([`keys`]). It is read once, before the
//! first call is observed; a connection is proved once, before the first ask.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use iotide_wire::{GateHello, GateMap, GateMessage, GateRule, MAX_GATE_TARGETS, NO_POSITION, Op, Total};

use crate::connection::Connection;
use crate::lock::Lock;
use crate::{clock, config, files, lifecycle, sys};

use self::keys::Proof;

mod keys;

/// An arbiter that keeps a program waiting says so five times a second; one that is silent for this long has stopped.
const SILENCE_NS: u64 = 1_000_000_000;
/// How long an arbiter that failed is left alone at first, and at most.
const SHORTEST_PAUSE_NS: u64 = 1_000_000_000;
const LONGEST_PAUSE_NS: u64 = 30_000_000_000;

static IS_ON: AtomicBool = AtomicBool::new(false);
static BYPASS: AtomicU64 = AtomicU64::new(0);

/// An arbiter, and what it has let this program do.
struct Target {
    /// Bytes left of the lease. May fall below zero: then nothing is left.
    left: AtomicI64,
    /// When the lease ends, on the coarse clock.
    until_ns: AtomicU64,
    /// The number of the ask that brought the lease, and what has been moved under it.
    lease: AtomicU64,
    moved: AtomicU64,
    /// The connection; one thread at a time asks, and waits for the answer.
    arbiter: Connection,
    asking: Lock,
    /// The thread that asks. A signal handler that interrupts it must not wait for itself.
    asker: AtomicU32,
    retry_at_ns: AtomicU64,
    pause_ns: AtomicU64,
}

static TARGETS: [Target; MAX_GATE_TARGETS] = [const { Target::new() }; MAX_GATE_TARGETS];

struct Global(UnsafeCell<GateMap<'static>>);
// SAFETY: written once by `start`, before anyone is told that there is something to look at; only read after that.
unsafe impl Sync for Global {}
static MAP: Global = Global(UnsafeCell::new(GateMap::new()));

/// Whom to ask about what.
fn map() -> &'static GateMap<'static> {
    // SAFETY: see `Global`.
    unsafe { &*MAP.0.get() }
}

static N_ASKS: AtomicU64 = AtomicU64::new(0);

/// The rule of each name, by its number, counted from 1; 0 is that of all other files.
static RULES: [AtomicU8; files::N_NAMES + 1] = [const { AtomicU8::new(0) }; files::N_NAMES + 1];

/// Times nobody could be asked: for want of permission, and for other reasons.
static N_DENIED: AtomicU64 = AtomicU64::new(0);
static N_UNREACHED: AtomicU64 = AtomicU64::new(0);
/// Requests that went on without leave, and how long others waited for theirs.
static N_SKIPPED: AtomicU64 = AtomicU64::new(0);
static WAITED_NS: AtomicU64 = AtomicU64::new(0);

/// An ask after whose call arbiters want to hear.
#[derive(Clone, Copy)]
pub struct Pass {
    id: u64,
    position: u64,
    /// The targets of the rule that want to hear, a bit each.
    targets: u32,
    rule: u8,
}

impl Pass {
    pub const FREE: Pass = Pass { id: 0, position: 0, targets: 0, rule: 0 };
}

/// Looks whether there is an arbiter to ask. Called once, before the first call is observed.
pub fn start() {
    BYPASS.store(config::get().gate_bypass, Relaxed);
    // SAFETY: see `Global`: this is the one write, and nobody looks yet.
    let map = unsafe { &mut *MAP.0.get() };
    map.read(config::get().gate.get());
    if map.n_targets > 0 {
        keys::read(config::get().gate_key.as_c_str());
    }
    IS_ON.store(map.n_targets > 0, Relaxed);
}

/// Finds out whom to ask about a file that has just got its number.
pub fn learn(file: u32, path: &[u8]) {
    if IS_ON.load(Relaxed)
        && let Some(slot) = RULES.get(file as usize)
    {
        slot.store(map().rule_of(path), Relaxed);
    }
}

/// Returns the totals of requests to arbiters so far.
pub fn totals() -> [(Total, u64); 4] {
    [
        (Total::GateDenied, N_DENIED.load(Relaxed)),
        (Total::GateUnreached, N_UNREACHED.load(Relaxed)),
        (Total::GateSkipped, N_SKIPPED.load(Relaxed)),
        (Total::GateNanos, WAITED_NS.load(Relaxed)),
    ]
}

/// Says what was moved under the last leases, before the process ends or becomes another program.
pub fn finish() {
    for target in used() {
        let id = target.lease.swap(0, Relaxed);
        if id != 0
            && let Some(fd) = target.arbiter.fd()
        {
            target.left.store(0, Relaxed);
            say(fd, &[GateMessage::Done { id, bytes: target.moved.swap(0, Relaxed) }]);
        }
    }
}

/// Waits until up to `size` bytes of a file may be moved, from `position` on.
#[inline(always)]
pub fn pass(op: Op, file: u32, position: impl FnOnce() -> u64, size: impl FnOnce() -> usize) -> Pass {
    if !IS_ON.load(Relaxed) {
        return Pass::FREE;
    }
    let bytes = size() as u64;
    if bytes <= BYPASS.load(Relaxed) {
        return Pass::FREE;
    }
    let learnt = RULES.get(file as usize).map_or(0, |rule| rule.load(Relaxed));
    let number = if learnt == 0 { map().of_others } else { learnt };
    let Some(rule) = map().rule(number) else { return Pass::FREE };
    if rule.n_targets == 1 && TARGETS[rule.first].take_from_lease(bytes) {
        return Pass::FREE;
    }
    // Of a write to the end of a file nobody knows where that is: it asks where the file begins.
    let position =
        if rule.n_targets == 1 { 0 } else { Some(position()).filter(|&at| at != NO_POSITION).unwrap_or(0) };
    ask(op, number, rule, position, bytes)
}

/// Says that the call is over.
#[inline(always)]
pub fn passed(pass: Pass, moved: isize) {
    if pass.targets != 0 {
        done(pass, moved.max(0) as u64);
    }
}

#[cold]
fn done(pass: Pass, moved: u64) {
    let Some(rule) = map().rule(pass.rule) else { return };
    for n in (0..rule.n_targets).filter(|n| pass.targets & (1 << n) != 0) {
        let target = &TARGETS[rule.first + n];
        let bytes = rule.share(n, pass.position, moved);
        if let Some(fd) = target.arbiter.fd()
            && !say(fd, &[GateMessage::Done { id: pass.id, bytes }])
        {
            N_UNREACHED.fetch_add(1, Relaxed);
            target.pause();
        }
    }
}

/// In a forked child: the parent's connections and its leases are the parent's.
pub fn forget_parent() {
    for target in used() {
        target.arbiter.forget();
        target.left.store(0, Relaxed);
        target.lease.store(0, Relaxed);
        target.asker.store(0, Relaxed);
        target.asking.reset();
    }
    for count in [&N_DENIED, &N_UNREACHED, &N_SKIPPED, &WAITED_NS] {
        count.store(0, Relaxed);
    }
}

/// Whether this is the number of one of our connections.
pub fn is_our_descriptor(fd: i32) -> bool {
    used().iter().any(|target| target.arbiter.owns(fd))
}

fn used() -> &'static [Target] {
    &TARGETS[..if IS_ON.load(Relaxed) { map().n_targets } else { 0 }]
}

/// Asks every target that the call will touch, one after the other and always in the same order, so that no two programs wait for each
/// other. One that does not answer costs its own turn and nothing else.
#[cold]
fn ask(op: Op, number: u8, rule: &GateRule, position: u64, bytes: u64) -> Pass {
    let thread = sys::thread_id();
    let is_inside = (0..rule.n_targets).any(|n| TARGETS[rule.first + n].asker.load(Relaxed) == thread);
    if lifecycle::is_in_vfork_child() || is_inside {
        return Pass::FREE;
    }
    let began_ns = clock::monotonic_nanos();
    let deadline_ns = began_ns.saturating_add(config::get().gate_patience_ns);
    let id = N_ASKS.fetch_add(1, Relaxed) + 1;
    let mut pass = Pass { id, position, targets: 0, rule: number };
    for n in 0..rule.n_targets {
        let share = rule.share(n, position, bytes);
        let at = rule.first + n;
        let target = &TARGETS[at];
        if share == 0 || target.take_from_lease(share) {
            continue;
        }
        let leave = if target.is_due() { target.wait(at, thread, op, id, share, deadline_ns) } else { None };
        match leave {
            Some(Leave::Once) => pass.targets |= 1 << n,
            Some(Leave::Lease) => {}
            None => drop(N_SKIPPED.fetch_add(1, Relaxed)),
        }
    }
    WAITED_NS.fetch_add(clock::monotonic_nanos().saturating_sub(began_ns), Relaxed);
    pass
}

/// Permission from an arbiter.
enum Leave {
    /// This request; it wants to hear when that is over.
    Once,
    /// This one and some more.
    Lease,
}

impl Target {
    const fn new() -> Self {
        Self {
            left: AtomicI64::new(0),
            until_ns: AtomicU64::new(0),
            lease: AtomicU64::new(0),
            moved: AtomicU64::new(0),
            arbiter: Connection::new(),
            asking: Lock::new(),
            asker: AtomicU32::new(0),
            retry_at_ns: AtomicU64::new(0),
            pause_ns: AtomicU64::new(SHORTEST_PAUSE_NS),
        }
    }

    fn take_from_lease(&self, bytes: u64) -> bool {
        let bytes = bytes.min(1 << 62) as i64;
        if self.left.load(Relaxed) < bytes || self.left.fetch_sub(bytes, Relaxed) < bytes {
            return false;
        }
        if clock::coarse_nanos() >= self.until_ns.load(Relaxed) {
            self.left.store(0, Relaxed);
            return false;
        }
        self.moved.fetch_add(bytes as u64, Relaxed);
        true
    }

    /// Waits for leave; `None` if there will be none.
    fn wait(&self, at: usize, thread: u32, op: Op, id: u64, bytes: u64, deadline_ns: u64) -> Option<Leave> {
        if !self.asking.lock_until(deadline_ns) {
            return None;
        }
        self.asker.store(thread, Relaxed);
        // While this one waited, another may have got a lease, or found that nobody answers.
        let leave = if self.take_from_lease(bytes) {
            Some(Leave::Lease)
        } else if self.is_due() {
            self.converse(at, op, id, bytes, deadline_ns)
        } else {
            None
        };
        self.asker.store(0, Relaxed);
        self.asking.unlock();
        leave
    }

    /// Whether the arbiter is there, or it is time to look for it again.
    fn is_due(&self) -> bool {
        self.arbiter.is_up() || clock::monotonic_nanos() >= self.retry_at_ns.load(Relaxed)
    }

    /// Asks, and waits for the answer; `None` if it does not come.
    fn converse(&self, at: usize, op: Op, id: u64, bytes: u64, deadline_ns: u64) -> Option<Leave> {
        let fd = self.connected(at)?;
        let ask = GateMessage::Ask { id, bytes, is_write: op == Op::Write };
        let used = GateMessage::Done { id: self.lease.swap(0, Relaxed), bytes: self.moved.swap(0, Relaxed) };
        let is_said = match used {
            GateMessage::Done { id: 0, .. } => say(fd, &[ask]),
            used => say(fd, &[used, ask]),
        };
        if !is_said {
            return self.no_answer();
        }
        let mut heard_ns = clock::monotonic_nanos();
        loop {
            let now_ns = clock::monotonic_nanos();
            if now_ns >= deadline_ns {
                return None; // its grant, should it come yet, is given back at the next ask
            }
            let until_ns = deadline_ns.min(heard_ns.saturating_add(SILENCE_NS));
            if now_ns >= until_ns {
                return self.no_answer();
            }
            if !sys::wait_readable(fd, ((until_ns - now_ns) / 1_000_000) as i64 + 1) {
                continue; // too long, or a signal
            }
            match hear(fd) {
                Some(GateMessage::Grant { id: granted, bytes: n_granted, lease_ns }) if granted == id => {
                    return Some(self.granted(id, bytes, n_granted, lease_ns));
                }
                // Of an ask that was given up.
                Some(GateMessage::Grant { id, .. }) => {
                    say(fd, &[GateMessage::Done { id, bytes: 0 }]);
                }
                Some(_) => {}
                None => return self.no_answer(),
            }
            heard_ns = clock::monotonic_nanos();
        }
    }

    fn granted(&self, id: u64, bytes: u64, n_granted: u64, lease_ns: u64) -> Leave {
        self.pause_ns.store(SHORTEST_PAUSE_NS, Relaxed);
        if lease_ns == 0 {
            return Leave::Once;
        }
        self.until_ns.store(clock::coarse_nanos().saturating_add(lease_ns), Relaxed);
        self.moved.store(bytes, Relaxed);
        self.lease.store(id, Relaxed);
        self.left.store(n_granted.saturating_sub(bytes).min(1 << 62) as i64, Relaxed);
        Leave::Lease
    }

    fn connected(&self, at: usize) -> Option<i32> {
        if let Some(fd) = self.arbiter.fd() {
            return Some(fd);
        }
        let hello = GateHello::new(sys::process_id(), config::get().job_id.get());
        let address = map().address(at);
        let mut proof = Proof::Given;
        let fd = self.arbiter.dial(address, |fd| {
            if !address.starts_with(b"tcp:") || !keys::is_wanted() {
                return send_all(fd, &hello.encode());
            }
            proof = keys::prove(fd, hello);
            proof == Proof::Given
        });
        if fd.is_none() {
            let is_denied = proof == Proof::Refused
                || proof == Proof::Given && matches!(self.arbiter.last_error(), libc::EACCES | libc::EPERM);
            let count = if is_denied { &N_DENIED } else { &N_UNREACHED };
            count.fetch_add(1, Relaxed);
            self.pause();
        }
        fd
    }

    /// The arbiter hung up, or says nothing.
    fn no_answer(&self) -> Option<Leave> {
        N_UNREACHED.fetch_add(1, Relaxed);
        self.pause();
        None
    }

    /// Hangs up, and leaves the arbiter alone for a while.
    fn pause(&self) {
        self.arbiter.hang_up();
        self.left.store(0, Relaxed);
        self.lease.store(0, Relaxed);
        let pause_ns = self.pause_ns.load(Relaxed);
        self.pause_ns.store((2 * pause_ns).min(LONGEST_PAUSE_NS), Relaxed);
        self.retry_at_ns.store(clock::monotonic_nanos().saturating_add(pause_ns), Relaxed);
    }
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
    // The rest of a message is on its way.
    hear_all(fd, &mut bytes, clock::monotonic_nanos().saturating_add(100_000_000))
        .then(|| GateMessage::decode(&bytes))?
}

/// Reads so many bytes. Returns whether they came in time.
fn hear_all(fd: i32, bytes: &mut [u8], until_ns: u64) -> bool {
    let mut n = 0;
    while n < bytes.len() {
        match sys::read(fd, &mut bytes[n..]) {
            read if read > 0 => n += read as usize,
            read if read == -(libc::EINTR as isize) => {}
            read if read == -(libc::EAGAIN as isize) => {
                let left_ns = until_ns.saturating_sub(clock::monotonic_nanos());
                if left_ns == 0 {
                    return false;
                }
                sys::wait_readable(fd, (left_ns / 1_000_000) as i64 + 1);
            }
            _ => return false,
        }
    }
    true
}
