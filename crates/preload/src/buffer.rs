//! Each thread's own buffer of records, written out when it is full, when it is old, and at the end.
//!
//! One buffer per thread rather than one shared: a lock here would serialise the program's own threads, and the order across threads
//! is restored from timestamps when the trace is read. The owner alone adds records and publishes them by `committed`; whoever holds
//! `writer` writes out what is published. So a thread that still runs, or sleeps for ever, can be written out by the one that exits.

use core::cell::UnsafeCell;
use core::ptr::null_mut;
use core::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    compiler_fence,
};

use iotide_wire::page::MpiFunction;
use iotide_wire::{BlockKind, Call, Flags, LossKind, Op, PathEntry, Record};

use crate::guard::stack_position;
use crate::page::Lane;
use crate::{clock, config, lifecycle, losses, mine, page, sink, sys};

/// Records a buffer holds: 64 KB of them.
pub const CAPACITY: u32 = 1638;
const NAMES_CAPACITY: usize = 16 * 1024;
/// How many requests one call can complete and still be followed.
pub const SCRATCH: usize = 4096;
/// Bytes of the largest `MPI_Status` known (Open MPI's).
pub const STATUS_SIZE: usize = 24;

/// A thread's share of the tracer. Lives in memory of its own, from the system; given to another thread when this one ends.
#[repr(C)]
pub struct Thread {
    next: AtomicPtr<Thread>,
    /// Whose it is; 0 if nobody's.
    owner: AtomicU32,
    /// 1 while someone writes it out.
    writer: AtomicU32,
    committed: AtomicU32,
    written: AtomicU32,
    names_committed: AtomicU32,
    names_written: AtomicU32,
    /// 1 while the record at `committed` is one that further small stream calls may still join.
    joining: AtomicU32,
    /// Where the stack stood when the owner began to work in here; 0 if it does not.
    working_at: AtomicUsize,
    /// Where the stack stood when the owner entered an MPI call; 0 if it is in none.
    in_mpi_at: AtomicUsize,
    /// 1 while that call is one whose own I/O is nobody's business (`MPI_Init`).
    hushed: AtomicU32,
    last_written_at: AtomicU64,
    /// Bytes that passed the hooks of calls of the system: read, written. The owner's alone, and so never exchanged.
    seen: [AtomicU64; 2],
    /// Ticks spent in our own work, estimated.
    hook_ticks: AtomicU64,
    /// Where it counts for others to see ([`Lane`]).
    lane: AtomicUsize,
    records: UnsafeCell<[Record; CAPACITY as usize]>,
    names: UnsafeCell<[u8; NAMES_CAPACITY]>,
    path: UnsafeCell<[u8; 2 * PathEntry::MAX_PATH]>,
    requests: UnsafeCell<[(u64, u32); SCRATCH]>,
    statuses: UnsafeCell<[u8; SCRATCH * STATUS_SIZE]>,
}

static ALL: AtomicPtr<Thread> = AtomicPtr::new(null_mut());
/// Says when a thread ends.
static KEY: AtomicU32 = AtomicU32::new(u32::MAX);
/// How many ticks a record may wait; guessed for a counter of 2 GHz until two pairs tell better.
static PATIENCE: AtomicU64 = AtomicU64::new(2_000_000_000);
static FIRST_PAIR: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Of so many records one is asked how long our own work on it took.
const SAMPLE_EVERY: u32 = 64;
/// More ticks than our own work ever takes: the thread has lost its processor meanwhile.
const SAMPLE_BELOW: u64 = 20_000;

/// Small stream calls join if no more than this share of the flush interval lies between them (with the usual second: a millisecond).
const JOIN_WITHIN: u64 = 1000;
/// Of so many characters that are joined, one is timed.
const TIMED_EVERY: u16 = 16;
/// Larger stream calls stay as they are: they do not wait in the stream's own buffer.
const JOIN_BELOW: u64 = 4096;

/// Prepares what all threads share.
pub fn start(flush_ns: u64) {
    let mut key = 0;
    // SAFETY: the key is ours; the destructor has the signature that is asked for.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(thread_ends)) } == 0 {
        KEY.store(key, Relaxed);
    }
    let (ticks, nanos) = clock::pair();
    FIRST_PAIR[0].store(ticks, Relaxed);
    FIRST_PAIR[1].store(nanos, Relaxed);
    PATIENCE.store(
        if clock::kind() == iotide_wire::ClockKind::CycleCounter {
            flush_ns.saturating_mul(2)
        } else {
            flush_ns
        },
        Relaxed,
    );
}

/// Calculates how many ticks the flush interval is, now that some time has passed.
fn learn_patience(ticks: u64, nanos: u64) {
    let d_nanos = nanos.saturating_sub(FIRST_PAIR[1].load(Relaxed));
    let d_ticks = ticks.saturating_sub(FIRST_PAIR[0].load(Relaxed));
    if d_nanos > 1_000_000 {
        let patience = u128::from(crate::config::get().flush_ns) * u128::from(d_ticks) / u128::from(d_nanos);
        PATIENCE.store(u64::try_from(patience).unwrap_or(u64::MAX), Relaxed);
    }
}

/// The calling thread's work on its own buffer. While it lives, a signal handler's calls pass by unseen (and are counted).
pub struct Work {
    thread: &'static Thread,
}

impl Work {
    /// Adds ticks of our own work that were measured: questions to the system take much longer than all the rest.
    pub fn spent(&self, ticks: u64) {
        self.thread.spent(ticks);
    }

    /// Begins to work, unless this is a signal handler that interrupted just that, or no memory can be had.
    #[inline(always)]
    pub fn begin() -> Option<Self> {
        let mut mine = mine::get::<Thread>();
        if mine.is_null() {
            mine = adopt()?;
        }
        // SAFETY: `mine` is a `Thread` that is never unmapped, and ours until this thread ends.
        let mut thread = unsafe { &*mine };
        if thread.owner.load(Relaxed) == 0 {
            thread = after_fork()?;
        }
        let here = stack_position();
        let working_at = thread.working_at.load(Relaxed);
        // Work that began higher up the stack than where we stand now was left behind by a longjmp.
        if working_at != 0 && here < working_at {
            losses::count(LossKind::InSignal, 1);
            page::lost();
            return None;
        }
        thread.working_at.store(here, Relaxed);
        compiler_fence(SeqCst);
        Some(Self { thread })
    }

    /// Adds a record.
    #[inline(always)]
    pub fn push(&self, mut record: Record) {
        let thread = self.thread;
        if thread.hushed.load(Relaxed) != 0 && self.is_in_mpi() {
            return;
        }
        if record.flags.layer() != Some(iotide_wire::Layer::MpiIo) && self.is_in_mpi() {
            record.flags = record.flags.with(Flags::NESTED);
        }
        if page::is_on() {
            thread.lane().count(&record);
        }
        if !config::get().traces {
            return;
        }
        if thread.joining.load(Relaxed) != 0 {
            thread.commit_joined();
        }
        let mut n = thread.committed.load(Relaxed);
        if n == 0 {
            sink::open_early();
        }
        if n >= CAPACITY {
            n = match thread.make_room() {
                Some(n) => n,
                None => return losses::count(LossKind::BufferBusy, 1),
            };
        }
        // SAFETY: `n < CAPACITY`, and records from `committed` on are the owner's alone.
        unsafe { thread.record(n).write(record) };
        thread.committed.store(n + 1, Release);
        thread.add_seen(&record);
        let end = record.start.wrapping_add(record.duration);
        // What an open takes is measured each time.
        if n.is_multiple_of(SAMPLE_EVERY) && record.op() != Op::Open {
            thread.sample(end);
        }
        let age = end.wrapping_sub(thread.last_written_at.load(Relaxed)) as i64;
        if age > PATIENCE.load(Relaxed) as i64 || lifecycle::is_late() {
            self.write_out_old(end);
        } else if matches!(record.op(), Op::Close | Op::Sync) && age > PATIENCE.load(Relaxed) as i64 / 8 {
            // A burst often ends so, and then the process may be silent for long.
            thread.write_out(true);
        }
    }

    /// Adds a small call of a stream: joined to the one before if that was alike and just now.
    #[inline(always)]
    pub fn push_joining(&self, record: Record) {
        let thread = self.thread;
        let n = thread.committed.load(Relaxed);
        if thread.joining.load(Relaxed) != 0 {
            // SAFETY: while `joining`, `n < CAPACITY` and the record there is the owner's alone.
            let last = unsafe { &mut *thread.record(n) };
            let gap = record.start.wrapping_sub(last.start.wrapping_add(last.duration));
            // Where different functions take turns, a record for each call would be more than the file itself: their names go.
            let mixed = Call::of(record.op());
            let takes_turns = last.calls == 1 && last.op() == record.op();
            let alike = last.file == record.file
                && (last.call == record.call || last.call == mixed || takes_turns)
                && last.flags.0 & !Flags::NESTED == record.flags.0;
            if alike
                && record.bytes < JOIN_BELOW
                && last.calls < u16::MAX
                && gap < PATIENCE.load(Relaxed) / JOIN_WITHIN
            {
                if last.call != record.call {
                    last.call = mixed;
                }
                last.bytes += record.bytes;
                last.calls += 1;
                last.duration = record.start.wrapping_add(record.duration).wrapping_sub(last.start);
                if page::is_on() {
                    thread.lane().count(&Record { flags: last.flags, ..record });
                }
                return;
            }
        }
        self.push(record);
        let n = thread.committed.load(Relaxed);
        // Take the record back from publication, so that the next one may join it; unless it has been written out already.
        if n > thread.written.load(Relaxed) && thread.writer.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
        {
            if n > thread.written.load(Relaxed) && record.bytes < JOIN_BELOW {
                thread.committed.store(n - 1, Relaxed);
                thread.joining.store(1, Relaxed);
            }
            thread.writer.store(0, Release);
        }
    }

    /// Joins a character to those before it, without asking the clock. Returns whether that could be done.
    #[inline(always)]
    pub fn join_character(&self, call: Call, file: u32) -> bool {
        let thread = self.thread;
        if thread.joining.load(Relaxed) == 0 {
            return false;
        }
        // SAFETY: while `joining`, `n < CAPACITY` and the record there is the owner's alone.
        let last = unsafe { &mut *thread.record(thread.committed.load(Relaxed)) };
        let is_named_so = last.call == call || last.call == Call::of(call.op());
        let is_alike = last.file == file && is_named_so && !last.calls.is_multiple_of(TIMED_EVERY);
        if is_alike && last.flags.layer() == Some(iotide_wire::Layer::Stdio) {
            last.bytes += 1;
            last.calls += 1;
            if page::is_on() {
                thread.lane().count(&Record { bytes: 1, calls: 1, duration: 0, ..*last });
            }
            return true;
        }
        false
    }

    /// Adds the name of a file.
    pub fn push_name(&self, file: u32, path: &[u8]) {
        if !config::get().traces {
            return;
        }
        let thread = self.thread;
        for _ in 0..2 {
            let at = thread.names_committed.load(Relaxed) as usize;
            // SAFETY: names from `names_committed` on are the owner's alone.
            let rest = unsafe {
                core::slice::from_raw_parts_mut(thread.names.get().cast::<u8>().add(at), NAMES_CAPACITY - at)
            };
            let entry = PathEntry { file, path };
            if let Some(n) = entry.encode(rest) {
                thread.names_committed.store((at + n) as u32, Release);
                return;
            }
            thread.write_out(true);
        }
        losses::count(LossKind::TooManyFiles, 1);
    }

    /// Two halves of memory for putting paths together; the thread's own, because its stack may be a small one for signals.
    #[allow(clippy::mut_from_ref)] // one `Work` exists per thread at a time, and callers use it once
    pub fn path_memory(&self) -> (&mut [u8], &mut [u8]) {
        // SAFETY: only the owner touches it, and only while it works.
        unsafe { (&mut *self.thread.path.get()).split_at_mut(PathEntry::MAX_PATH) }
    }

    /// Whether an MPI call is under way in this thread.
    #[inline(always)]
    pub fn is_in_mpi(&self) -> bool {
        self.thread.is_in_mpi(stack_position())
    }

    /// Whether that call is one whose own files are nobody's business.
    pub fn is_hushed(&self) -> bool {
        self.thread.hushed.load(Relaxed) != 0 && self.is_in_mpi()
    }

    #[cold]
    fn write_out_old(&self, now: u64) {
        self.thread.write_out(true);
        let (ticks, nanos) = clock::pair();
        learn_patience(ticks, nanos);
        for other in threads() {
            let age = now.wrapping_sub(other.last_written_at.load(Relaxed)) as i64;
            if age > PATIENCE.load(Relaxed) as i64 && other.has_unwritten() {
                other.write_out(false);
            }
        }
        losses::write_out(lifecycle::is_late().then_some(iotide_wire::EndReason::Exit));
    }
}

impl Drop for Work {
    #[inline(always)]
    fn drop(&mut self) {
        compiler_fence(SeqCst);
        self.thread.working_at.store(0, Relaxed);
    }
}

/// The calling thread's stay in an MPI call: what the layers below do meanwhile is done on its behalf.
pub struct InMpi {
    thread: &'static Thread,
}

impl InMpi {
    /// Enters the call, unless it was made by another MPI call, or there is nothing to record it in.
    pub fn enter(hushed: bool) -> Option<Self> {
        let mut mine = mine::get::<Thread>();
        if mine.is_null() {
            mine = adopt()?;
        }
        // SAFETY: as in `Work::begin`.
        let thread = unsafe { &*mine };
        let here = stack_position();
        if thread.working_at.load(Relaxed) != 0 || thread.is_in_mpi(here) {
            return None;
        }
        thread.in_mpi_at.store(here, Relaxed);
        thread.hushed.store(u32::from(hushed), Relaxed);
        Some(Self { thread })
    }

    /// Leaves the call. Not a destructor: an exception or a cancelled thread may pass through here, and the next entry notices.
    pub fn leave(&self) {
        self.thread.in_mpi_at.store(0, Relaxed);
        self.thread.hushed.store(0, Relaxed);
    }

    /// Counts a call of an MPI function that has ended.
    pub fn count(&self, function: MpiFunction, bytes: u64, ticks: u64) {
        if page::is_on() {
            self.thread.lane().count_mpi(function, bytes, ticks);
        }
    }

    /// Counts the time of a call that has only begun a request.
    pub fn count_begun(&self, op: Op, file: u32, ticks: u64) {
        if page::is_on() {
            self.thread.lane().count_begun(op, file, ticks);
        }
    }

    /// Memory for the requests a call may complete: (the request, its index in the call's array).
    #[allow(clippy::mut_from_ref)] // one `InMpi` exists per thread at a time, and callers use it once
    pub fn request_memory(&self) -> &mut [(u64, u32); SCRATCH] {
        // SAFETY: only the owner touches it, and only in its outermost MPI call.
        unsafe { &mut *self.thread.requests.get() }
    }

    /// Memory for statuses the program did not ask for.
    pub fn status_memory(&self) -> *mut u8 {
        self.thread.statuses.get().cast()
    }
}

impl Thread {
    /// Where it counts for others to see.
    #[inline(always)]
    fn lane(&self) -> Lane {
        let lane = Lane(self.lane.load(Relaxed));
        if lane == Lane::NONE { self.adopt_lane() } else { lane }
    }

    #[cold]
    fn adopt_lane(&self) -> Lane {
        let lane = page::adopt();
        if lane == Lane::NONE {
            return page::nowhere();
        }
        self.lane.store(lane.0, Relaxed);
        lane
    }

    /// Where record `n` stands. Raw, because one thread may write out the front while the owner adds to the back.
    #[inline(always)]
    fn record(&self, n: u32) -> *mut Record {
        self.records.get().cast::<Record>().wrapping_add(n as usize)
    }

    #[inline(always)]
    fn is_in_mpi(&self, here: usize) -> bool {
        let in_mpi_at = self.in_mpi_at.load(Relaxed);
        in_mpi_at != 0 && here < in_mpi_at
    }

    /// Counts the bytes of a call of the system.
    #[inline(always)]
    fn add_seen(&self, record: &Record) {
        let seen = match record.op() {
            Op::Read => &self.seen[0],
            Op::Write => &self.seen[1],
            _ => return,
        };
        if record.flags.0 & (0b11 | Flags::FAILED) == iotide_wire::Layer::Posix as u8 {
            seen.store(seen.load(Relaxed).wrapping_add(record.bytes), Relaxed);
        }
    }

    /// Estimates what our own work costs: from the end of the call until now, for this record and those that are not asked.
    fn sample(&self, end: u64) {
        let ticks = clock::now().wrapping_sub(end);
        if ticks < SAMPLE_BELOW {
            self.spent(ticks * u64::from(SAMPLE_EVERY));
        }
    }

    /// Adds to the time of our own work.
    fn spent(&self, ticks: u64) {
        self.hook_ticks.store(self.hook_ticks.load(Relaxed).wrapping_add(ticks), Relaxed);
    }

    fn has_unwritten(&self) -> bool {
        self.committed.load(Relaxed) > self.written.load(Relaxed)
            || self.names_committed.load(Relaxed) > self.names_written.load(Relaxed)
    }

    fn commit_joined(&self) {
        self.joining.store(0, Relaxed);
        self.committed.store(self.committed.load(Relaxed) + 1, Release);
    }

    /// Writes the full buffer out. Returns where the next record goes, or `None` if there is no room yet.
    #[cold]
    fn make_room(&self) -> Option<u32> {
        self.write_out(true);
        let n = self.committed.load(Relaxed);
        (n < CAPACITY).then_some(n)
    }

    /// Writes out what is published; the owner then begins anew. Whoever finds another writer at it gives up, the owner only after
    /// many tries.
    #[cold]
    fn write_out(&self, is_owner: bool) {
        // What a child of `vfork` finds here is its parent's, who will write it out itself.
        if lifecycle::is_in_vfork_child() {
            return;
        }
        let signals = sys::NoSignals::new();
        let mut tries = if is_owner { 200 } else { 1 };
        while self.writer.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            tries -= 1;
            if tries == 0 {
                return;
            }
            sys::give_way();
        }
        let owner = self.owner.load(Relaxed);
        let (start, end) = (self.names_written.load(Relaxed), self.names_committed.load(Acquire));
        if start < end {
            // SAFETY: names up to `names_committed` are published and stay as they are until `names_written` reaches them.
            let names = unsafe {
                core::slice::from_raw_parts(
                    self.names.get().cast::<u8>().add(start as usize),
                    (end - start) as usize,
                )
            };
            sink::write_block(BlockKind::Paths, owner, names);
            self.names_written.store(end, Relaxed);
        }
        let (start, end) = (self.written.load(Relaxed), self.committed.load(Acquire));
        if start < end {
            // SAFETY: records up to `committed` are published and stay as they are; a record is 40 bytes without padding, and
            // its bytes on a little-endian machine are those of the format.
            let records = unsafe {
                core::slice::from_raw_parts(
                    self.record(start).cast::<u8>(),
                    (end - start) as usize * Record::SIZE,
                )
            };
            sink::write_records(owner, records);
            self.written.store(end, Relaxed);
        }
        if is_owner {
            // A record that is still being joined stands at `committed`; it moves to the front with it.
            if self.joining.load(Relaxed) != 0 && end != 0 {
                // SAFETY: `end < CAPACITY` while `joining`, and both places are the owner's now.
                unsafe { self.record(0).write(self.record(end).read()) };
            }
            self.names_committed.store(0, Relaxed);
            self.names_written.store(0, Relaxed);
            self.committed.store(0, Relaxed);
            self.written.store(0, Relaxed);
        }
        self.last_written_at.store(clock::now(), Relaxed);
        self.writer.store(0, Release);
        drop(signals);
    }

    fn forget(&self) {
        for field in [
            &self.writer,
            &self.committed,
            &self.written,
            &self.names_committed,
            &self.names_written,
            &self.joining,
            &self.hushed,
        ] {
            field.store(0, Relaxed);
        }
        self.working_at.store(0, Relaxed);
        self.in_mpi_at.store(0, Relaxed);
        self.lane.store(0, Relaxed);
        for sum in [&self.seen[0], &self.seen[1], &self.hook_ticks] {
            sum.store(0, Relaxed);
        }
    }
}

/// Sums over all threads.
pub struct Seen {
    /// Bytes read by calls of the system.
    pub read: u64,
    /// Bytes written by calls of the system.
    pub written: u64,
    /// Ticks of our own work, estimated.
    pub hook_ticks: u64,
}

/// Bytes seen by threads that have no buffer: they have recorded nothing.
static SEEN_WITHOUT: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Returns what all threads have seen so far.
pub fn seen() -> Seen {
    let [read, written] = &SEEN_WITHOUT;
    let mut seen = Seen { read: read.load(Relaxed), written: written.load(Relaxed), hook_ticks: 0 };
    for thread in threads() {
        seen.read += thread.seen[0].load(Relaxed);
        seen.written += thread.seen[1].load(Relaxed);
        seen.hook_ticks += thread.hook_ticks.load(Relaxed);
    }
    seen
}

/// Counts bytes of a call of the system that is not recorded.
#[inline(always)]
pub fn add_seen(op: Op, bytes: u64) {
    let which = usize::from(op == Op::Write);
    // SAFETY: null, or a `Thread` that is never unmapped, and ours until this thread ends.
    match unsafe { mine::get::<Thread>().as_ref() } {
        Some(thread) => {
            let seen = &thread.seen[which];
            seen.store(seen.load(Relaxed).wrapping_add(bytes), Relaxed);
        }
        None => {
            SEEN_WITHOUT[which].fetch_add(bytes, Relaxed);
        }
    }
}

/// Adds what passed since then to the time of our own work.
pub fn spent_since(ticks: u64) {
    if let Some(work) = Work::begin() {
        work.spent(clock::now().wrapping_sub(ticks));
    }
}

/// Adds a record of bytes that the kernel does not count as those of a call: they are not among what was seen of those.
pub fn push_beside(record: Record) {
    push(record);
    add_seen(record.op(), record.bytes.wrapping_neg());
}

/// How many ticks, and how many nanoseconds, have passed since the tracer began.
pub fn since_start() -> (u64, u64) {
    let (now, nanos) = clock::pair();
    (now.saturating_sub(FIRST_PAIR[0].load(Relaxed)), nanos.saturating_sub(FIRST_PAIR[1].load(Relaxed)))
}

/// Adds to one of the program's own counters. A handler that interrupts another's adding may be lost.
#[inline(always)]
pub fn add_user(counter: usize, more: u64) {
    if page::is_on()
        && let Some(work) = Work::begin()
    {
        work.thread.lane().add_user(counter, more);
    }
}

/// How many nanoseconds so many ticks are.
pub fn nanos_of(ticks: u64) -> u64 {
    let (now, nanos) = clock::pair();
    let d_ticks = now.saturating_sub(FIRST_PAIR[0].load(Relaxed));
    let d_nanos = nanos.saturating_sub(FIRST_PAIR[1].load(Relaxed));
    (u128::from(ticks) * u128::from(d_nanos) / u128::from(d_ticks.max(1))) as u64
}

/// Adds a record of the calling thread.
#[inline(always)]
pub fn push(record: Record) {
    if let Some(work) = Work::begin() {
        work.push(record);
    }
}

/// Writes out all threads' buffers: before an end, or because the program asks for it.
pub fn write_out_all() {
    let mine = mine::get::<Thread>();
    for thread in threads() {
        let is_owner = core::ptr::eq(thread, mine);
        // At the end, what another thread was joining is taken as it is.
        if thread.joining.load(Relaxed) != 0 && (is_owner || thread.working_at.load(Acquire) == 0) {
            thread.commit_joined();
        }
        if thread.has_unwritten() {
            thread.write_out(is_owner);
        }
    }
}

/// In a forked child: forgets the parent's records and its other threads.
pub fn forget_parent() {
    let mine = mine::get::<Thread>();
    ALL.store(mine, Relaxed);
    SEEN_WITHOUT.iter().for_each(|sum| sum.store(0, Relaxed));
    // SAFETY: null, or a `Thread` that is never unmapped.
    if let Some(thread) = unsafe { mine.as_ref() } {
        thread.forget();
        thread.next.store(null_mut(), Relaxed);
        thread.last_written_at.store(clock::now(), Relaxed);
        thread.owner.store(sys::thread_id(), Relaxed);
    }
}

/// The buffer has been wiped: this is a child that was forked behind the C library's back, without a notification to us yet.
#[cold]
fn after_fork() -> Option<&'static Thread> {
    lifecycle::is_in_vfork_child();
    // SAFETY: as everywhere, null or a `Thread`.
    let thread = unsafe { mine::get::<Thread>().as_ref() }?;
    (thread.owner.load(Relaxed) != 0).then_some(thread)
}

/// Gives the calling thread a buffer: one that an ended thread left, or a new one.
#[cold]
fn adopt() -> Option<*mut Thread> {
    let owner = sys::thread_id();
    let free = threads().find(|thread| thread.owner.compare_exchange(0, owner, AcqRel, Relaxed).is_ok());
    let thread = match free {
        Some(thread) => thread,
        None => {
            let Some(memory) = sys::map_memory(size_of::<Thread>()) else {
                losses::count(LossKind::NoMemory, 1);
                page::lost();
                return None;
            };
            // A child of fork finds it zeroed, so that it cannot take the parent's records for its own. An old kernel refuses; then
            // only the C library's own fork is noticed.
            sys::advise_memory(memory, size_of::<Thread>(), libc::MADV_WIPEONFORK);
            // SAFETY: fresh zeroed memory, large enough and aligned to a page; all zeroes is a valid `Thread`, because nobody
            // reads a record that was not written first.
            let thread = unsafe { &*memory.cast::<Thread>() };
            thread.owner.store(owner, Relaxed);
            let mut first = ALL.load(Relaxed);
            loop {
                thread.next.store(first, Relaxed);
                match ALL.compare_exchange_weak(first, memory.cast(), Release, Relaxed) {
                    Ok(_) => break,
                    Err(now) => first = now,
                }
            }
            thread
        }
    };
    thread.last_written_at.store(clock::now(), Relaxed);
    let thread = core::ptr::from_ref(thread).cast_mut();
    mine::set(thread);
    let key = KEY.load(Relaxed);
    if key != u32::MAX {
        // SAFETY: the key is ours. The first 32 keys of a process need no allocation, and ours is among the first.
        unsafe { libc::pthread_setspecific(key, thread.cast()) };
    }
    Some(thread)
}

/// The end of a thread: its buffer is written out and free for another.
unsafe extern "C" fn thread_ends(thread: *mut core::ffi::c_void) {
    // SAFETY: the value set for our key is always a `Thread`, which is never unmapped.
    let thread = unsafe { &*thread.cast::<Thread>() };
    if thread.joining.load(Relaxed) != 0 {
        thread.commit_joined();
    }
    thread.write_out(true);
    crate::totals::thread_ends();
    Lane(thread.lane.swap(0, Relaxed)).leave();
    mine::set::<Thread>(null_mut());
    thread.owner.store(0, Release);
}

fn threads() -> impl Iterator<Item = &'static Thread> {
    let mut next = ALL.load(Acquire);
    core::iter::from_fn(move || {
        // SAFETY: every pointer in the list is null or a `Thread` that is never unmapped.
        let thread = unsafe { next.as_ref() }?;
        next = thread.next.load(Relaxed);
        Some(thread)
    })
}
