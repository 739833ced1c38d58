//! Requests that are under way: begun by one call, completed by another, perhaps in another thread.

use core::cell::UnsafeCell;
use core::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use iotide_wire::{Call, Flags, LossKind, NO_FILE, NO_POSITION, Op, Record};

use crate::{buffer, clock, losses, sys};

/// Requests followed at a time; more are counted as lost.
const N_SLOTS: usize = 1 << 13;
/// How far a request may stand from where its hash points.
const MAX_PROBES: usize = 48;

/// A slot's key: free, being filled or emptied, or what the program calls the request.
const FREE: u64 = 0;
const BUSY: u64 = 1;

/// State of a request since it began.
#[derive(Clone, Copy)]
pub struct Request {
    /// The function that began it: a read or a write.
    pub call: Call,
    /// Layer and kind.
    pub flags: Flags,
    /// The file.
    pub file: u32,
    /// When it began, in ticks.
    pub start: u64,
    /// Bytes asked for.
    pub asked: u64,
    /// Where in the file, or [`NO_POSITION`].
    pub position: u64,
}

impl Request {
    /// The flags of a request that is not recorded; its file is the descriptor.
    pub const LEFT_OUT: Flags = Flags(0b11);

    /// Returns the records of a request that has ended: where it went, if that is known, and itself.
    fn ended(&self, duration: u64, until_wait: u64, bytes: u64, more: u8) -> Ended {
        let is_placed = self.position != NO_POSITION && self.file != NO_FILE;
        let flags = self.flags.with(Flags::ASYNC | more);
        let request = Record {
            start: self.start,
            duration,
            bytes,
            position: until_wait,
            file: self.file,
            calls: 1,
            call: self.call,
            flags: if is_placed { flags.with(Flags::PLACED) } else { flags },
        };
        let place = is_placed.then(|| Record {
            duration: 0,
            position: self.position,
            call: Call::of(Op::Place),
            flags: if self.call.op() == Op::Write { self.flags.with(Flags::PLACED) } else { self.flags },
            ..request
        });
        Ended { request, place }
    }
}

/// Records of a request that has ended.
pub struct Ended {
    /// The request.
    pub request: Record,
    /// Where it went.
    pub place: Option<Record>,
}

impl Ended {
    /// Records both.
    pub fn push(self) {
        self.place.into_iter().for_each(buffer::push);
        buffer::push(self.request);
    }
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

/// Ends a request that was seen complete: `moved` bytes, or unknown. Returns what there is to record.
pub fn complete(key: Key, moved: Option<u64>) -> Option<Ended> {
    let (request, waited_for_at) = take(key)?;
    let now = clock::now();
    let more = if moved.is_some() { 0 } else { Flags::ASKED };
    let until_wait = if waited_for_at == 0 { now } else { waited_for_at }.saturating_sub(request.start);
    Some(request.ended(now.saturating_sub(request.start), until_wait, moved.unwrap_or(request.asked), more))
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
            if request.flags == Request::LEFT_OUT {
                continue; // one that is not recorded
            }
            let duration = clock::now().saturating_sub(request.start);
            let ended = request.ended(duration, duration, request.asked, Flags::ASKED);
            ended.place.into_iter().for_each(&mut push);
            push(ended.request);
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
