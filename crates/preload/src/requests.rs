//! Requests that are under way: begun by one call, completed by another, perhaps in another thread.

use core::cell::UnsafeCell;
use core::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use iotide_wire::{Flags, LossKind, Op, Record};

use crate::{clock, losses, sys};

/// Requests followed at a time; more are counted as lost.
const N_SLOTS: usize = 1 << 13;
/// How far a request may stand from where its hash points.
const MAX_PROBES: usize = 48;

/// A slot's key: free, being filled or emptied, or what the program calls the request.
const FREE: u64 = 0;
const BUSY: u64 = 1;

/// What is known of a request since it began.
#[derive(Clone, Copy)]
pub struct Request {
    /// Read or write.
    pub op: Op,
    /// Layer and kind.
    pub flags: Flags,
    /// The file.
    pub file: u32,
    /// When it began, in ticks.
    pub start: u64,
    /// Bytes asked for.
    pub asked: u64,
}

struct Slot {
    key: AtomicU64,
    /// When the program began to wait for it; 0 if it has not.
    waited_for_at: AtomicU64,
    request: UnsafeCell<Request>,
}

static SLOTS: AtomicPtr<Slot> = AtomicPtr::new(core::ptr::null_mut());
static N_UNDER_WAY: AtomicU32 = AtomicU32::new(0);

/// Keys of different kinds of requests do not meet: the kind is in the lowest bits, which a pointer leaves free.
#[derive(Clone, Copy)]
pub enum Key {
    /// An `MPI_Request`: a pointer, or a number.
    Mpi(u64),
    /// A split collective call, by its `MPI_File`.
    Split(u64),
    /// An `aiocb`, by its address.
    Aio(u64),
    /// A request of the kernel's own asynchronous I/O, by the address of its control block.
    Kernel(u64),
}

impl Key {
    fn code(self) -> u64 {
        let (value, kind) = match self {
            Key::Mpi(value) => (value, 1),
            Key::Split(value) => (value, 2),
            Key::Aio(value) => (value, 3),
            Key::Kernel(value) => (value, 0),
        };
        // A product with an odd number is a bijection: different requests stay different. 0 and 1 are taken.
        ((value << 2) | kind).wrapping_mul(0x9e37_79b9_7f4a_7c15).max(2)
    }
}

/// Prepares the table. Returns whether there was memory.
pub fn start() -> bool {
    let memory = sys::map_memory(N_SLOTS * size_of::<Slot>());
    SLOTS.store(memory.unwrap_or(core::ptr::null_mut()).cast(), Release);
    memory.is_some()
}

/// In a forked child: the parent's requests are the parent's.
pub fn forget_parent() {
    sys::advise_memory(SLOTS.load(Relaxed).cast(), N_SLOTS * size_of::<Slot>(), libc::MADV_DONTNEED);
    N_UNDER_WAY.store(0, Relaxed);
}

/// Whether any request is under way: most programs wait for messages only, and need no search.
#[inline(always)]
pub fn are_under_way() -> bool {
    N_UNDER_WAY.load(Acquire) != 0
}

/// Takes note of a request that has begun.
pub fn begin(key: Key, request: Request) {
    let code = key.code();
    for slot in probes(code) {
        if slot.key.compare_exchange(FREE, BUSY, Acquire, Relaxed).is_ok() {
            // SAFETY: a busy slot is ours alone.
            unsafe { *slot.request.get() = request };
            slot.waited_for_at.store(0, Relaxed);
            slot.key.store(code, Release);
            N_UNDER_WAY.fetch_add(1, Release);
            return;
        }
    }
    losses::count(LossKind::TooManyRequests, 1);
}

/// Takes note that the program begins to wait for a request now. Returns whether it is one of ours.
pub fn wait_begins(key: Key, now: u64) -> bool {
    let code = key.code();
    match probes(code).find(|slot| slot.key.load(Acquire) == code) {
        Some(slot) => {
            let _ = slot.waited_for_at.compare_exchange(0, now, Relaxed, Relaxed);
            true
        }
        None => false,
    }
}

/// Whether a request is one of ours.
pub fn is_known(key: Key) -> bool {
    let code = key.code();
    probes(code).any(|slot| slot.key.load(Acquire) == code)
}

/// Ends a request that was seen complete: `moved` bytes, or unknown. Returns its record.
pub fn complete(key: Key, moved: Option<u64>) -> Option<Record> {
    let (request, waited_for_at) = take(key)?;
    let now = clock::now();
    let flags = if moved.is_some() { request.flags } else { request.flags.with(Flags::ASKED) };
    let until_wait = if waited_for_at == 0 { now } else { waited_for_at }.saturating_sub(request.start);
    Some(Record {
        start: request.start,
        duration: now.saturating_sub(request.start),
        bytes: moved.unwrap_or(request.asked),
        position: until_wait,
        file: request.file,
        calls: 1,
        op: request.op,
        flags: flags.with(Flags::ASYNC),
    })
}

/// Ends a request without a record: it failed, was freed or cancelled.
pub fn take(key: Key) -> Option<(Request, u64)> {
    let code = key.code();
    // Open MPI gives one and the same request to all calls that had nothing to do: take any of them.
    let slot = probes(code).find(|slot| slot.key.compare_exchange(code, BUSY, Acquire, Relaxed).is_ok())?;
    // SAFETY: a busy slot is ours alone.
    let taken = (unsafe { *slot.request.get() }, slot.waited_for_at.load(Relaxed));
    slot.key.store(FREE, Release);
    N_UNDER_WAY.fetch_sub(1, Relaxed);
    Some(taken)
}

/// Ends all requests that nobody saw complete: the process ends, and what they asked for is all that is known of them.
pub fn give_up_all(mut push: impl FnMut(Record)) {
    let slots = SLOTS.load(Acquire);
    if slots.is_null() || !are_under_way() {
        return;
    }
    for i in 0..N_SLOTS {
        // SAFETY: the table has that many slots for good.
        let slot = unsafe { &*slots.add(i) };
        let code = slot.key.load(Acquire);
        if code > BUSY && slot.key.compare_exchange(code, BUSY, Acquire, Relaxed).is_ok() {
            // SAFETY: a busy slot is ours alone.
            let request = unsafe { *slot.request.get() };
            slot.key.store(FREE, Release);
            N_UNDER_WAY.fetch_sub(1, Relaxed);
            if request.flags.layer().is_none() || request.flags.0 >= 1 << 7 {
                continue; // one that is not recorded
            }
            let duration = clock::now().saturating_sub(request.start);
            push(Record {
                start: request.start,
                duration,
                bytes: request.asked,
                position: duration,
                file: request.file,
                calls: 1,
                op: request.op,
                flags: request.flags.with(Flags::ASYNC | Flags::ASKED),
            });
        }
    }
}

fn probes(code: u64) -> impl Iterator<Item = &'static Slot> {
    let slots = SLOTS.load(Acquire);
    let n_probes = if slots.is_null() { 0 } else { MAX_PROBES };
    let home = (code >> 40) as usize;
    // SAFETY: the table, if there, has `N_SLOTS` slots for good, and all zeroes is a free one.
    (0..n_probes).map(move |probe| unsafe { &*slots.add(home.wrapping_add(probe) % N_SLOTS) })
}
