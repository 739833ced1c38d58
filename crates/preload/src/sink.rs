//! Where full buffers go: a listener if one is there and keeps up, else this process's file in the trace directory.
//!
//! The file is made when there is something to write, so a process that does no I/O leaves none. It is appended to with one call per
//! block, which the kernel does not interleave, so threads need no lock among themselves.

use core::cell::UnsafeCell;
use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use iotide_wire::{
    BlockHeader, BlockKind, End, EndReason, Facts, LossEntries, LossKind, Note, Record, StreamHeader, Totals,
};

use crate::config::Bytes;
use crate::opening::Opening;
use crate::{buffer, clock, config, gate, lifecycle, losses, stream, sys};

static STATE: Opening = Opening::new();
static FD: AtomicI32 = AtomicI32::new(-1);
static DEVICE: AtomicU64 = AtomicU64::new(0);
static INODE: AtomicU64 = AtomicU64::new(0);
static SEQUENCE: AtomicU64 = AtomicU64::new(0);
static N_RECORDS: AtomicU64 = AtomicU64::new(0);
static STARTED_NS: AtomicU64 = AtomicU64::new(0);
/// Where in the file room is kept for the last words; 0 if nowhere.
static RESERVE_AT: AtomicU64 = AtomicU64::new(0);
/// Bytes that the tracer itself has written.
static OWN_BYTES: AtomicU64 = AtomicU64::new(0);
/// Ticks it took to write them.
static FLUSH_TICKS: AtomicU64 = AtomicU64::new(0);
/// The rank as MPI says it, plus one; 0 if it has not.
static MPI_RANK: AtomicU32 = AtomicU32::new(0);
static MPI_N_RANKS: AtomicU32 = AtomicU32::new(0);

struct Shared {
    path: Bytes<3072>,
    host: Bytes<256>,
    exe: Bytes<1024>,
    command: Bytes<1024>,
    mpi: Bytes<256>,
    facts: [u8; Facts::MAX_SIZE],
    /// When the process began: (ticks, nanoseconds).
    start: (u64, u64),
}
struct Global(UnsafeCell<Shared>);
// SAFETY: touched only by `start`, in a forked child that has one thread, and by whoever holds `LOCK`.
unsafe impl Sync for Global {}
static SHARED: Global = Global(UnsafeCell::new(Shared {
    path: Bytes::new(),
    host: Bytes::new(),
    exe: Bytes::new(),
    command: Bytes::new(),
    mpi: Bytes::new(),
    facts: [0; Facts::MAX_SIZE],
    start: (0, 0),
}));
static LOCK: AtomicBool = AtomicBool::new(false);

/// Gathers what does not change in the life of a process, and chooses the file's name. Also called in a forked child.
pub fn start() {
    with_shared(|shared| {
        shared.start = clock::pair();
        STARTED_NS.store(shared.start.1, Relaxed);
        shared.host.clear();
        if let Some(names) = sys::system_names() {
            for &byte in names.nodename.iter().take_while(|&&byte| byte != 0) {
                shared.host.push(&[byte as u8]);
            }
        }
        let mut exe = [0; 1024];
        shared.exe.clear();
        shared.exe.push(sys::readlink(c"/proc/self/exe", &mut exe).unwrap_or(b""));
        let mut command = [0; 1024];
        shared.command.clear();
        shared.command.push(sys::read_small(c"/proc/self/cmdline", &mut command).unwrap_or(b""));
        shared.path.clear();
        shared.path.push(config::get().directory.get());
        shared.path.push(b"/");
        // Sorted by name, a directory is sorted by host, process and time. The time tells a program from the one it replaced by exec.
        for &byte in shared.host.get() {
            shared.path.push(&[if byte == b'/' { b'_' } else { byte }]);
        }
        shared.path.push(b".");
        shared.path.push_number(u64::from(sys::process_id()), 10);
        shared.path.push(b".");
        shared.path.push_number(shared.start.1, 16);
        shared.path.push(b".iot");
    });
}

/// In a forked child: the parent's file is the parent's.
pub fn forget_parent() {
    LOCK.store(false, Relaxed);
    let fd = FD.swap(-1, Relaxed);
    if fd >= 0 && is_ours(fd) {
        sys::close(fd);
    }
    stream::forget_parent();
    gate::forget_parent();
    STATE.forget_parent();
    for count in [&SEQUENCE, &N_RECORDS, &RESERVE_AT, &OWN_BYTES, &FLUSH_TICKS] {
        count.store(0, Relaxed);
    }
    start();
}

/// Makes the file when there is a first record, long before it is written: a process that is killed then has left at least who it
/// was, and that it has no end.
#[inline(always)]
pub fn open_early() {
    if STATE.is_closed() && config::get().traces && !lifecycle::is_in_vfork_child() {
        open_once(&sys::NoSignals::new());
    }
}

/// Writes records of a thread; if that fails, they are counted as lost.
pub fn write_records(thread: u32, records: &[u8]) {
    let n = (records.len() / Record::SIZE) as u64;
    if write_block(BlockKind::Records, thread, records) {
        N_RECORDS.fetch_add(n, Relaxed);
    } else {
        losses::count(LossKind::NotWritten, n);
    }
}

/// Writes the counters of losses, the totals, and the end mark if there is a reason for one. A process that has written nothing else
/// needs none of them.
pub fn write_last(losses: &[u8], totals: &Totals, reason: Option<EndReason>) {
    if STATE.is_closed() || lifecycle::is_in_vfork_child() {
        return;
    }
    let end = reason.map(|reason| {
        let n_records = N_RECORDS.load(Relaxed);
        End { reason, n_records, realtime_offset_ns: clock::realtime_offset_ns() }.to_bytes()
    });
    let totals = totals.to_bytes();
    let arrived = write_block(BlockKind::Losses, 0, losses)
        && write_block(BlockKind::Totals, 0, &totals)
        && end.is_none_or(|end| write_block(BlockKind::End, 0, &end));
    if !arrived {
        use_reserve(losses, &totals, end.as_ref().map_or(&[], |end| &end[..]));
    }
}

/// Writes a note. A child of `vfork` may do so too, in its parent's name: nothing but the file and the next number change.
pub fn write_note(note: &Note<'_>) {
    let mut payload = [0; Note::MAX_SIZE];
    let n = note.encode(&mut payload);
    if !lifecycle::is_in_vfork_child() {
        write_block(BlockKind::Note, 0, &payload[..n]);
    } else if STATE.is_open() && is_ours(FD.load(Relaxed)) {
        let signals = sys::NoSignals::new();
        append(&seal(BlockKind::Note, 0, &payload[..n]), &payload[..n], &signals);
    }
}

/// Keeps room for the last words: blocks of the numbers 1 to 3 that say nothing.
fn reserve(signals: &sys::NoSignals) {
    let at = sys::stat(FD.load(Relaxed)).map_or(0, |stat| stat.st_size as u64);
    let blocks: [(BlockKind, &[u8]); 3] = [
        (BlockKind::Reserve, &[0; LossKind::COUNT * LossEntries::ENTRY_SIZE]),
        (BlockKind::Reserve, &[0; Totals::SIZE]),
        (BlockKind::Reserve, &[0; End::SIZE]),
    ];
    let kept = blocks.iter().all(|(kind, payload)| append(&seal(*kind, 0, payload), payload, signals));
    RESERVE_AT.store(if kept { at } else { 0 }, Relaxed);
}

/// Says the last words where room was kept for them: the disk is full, or the file as long as it may be.
fn use_reserve(losses: &[u8], totals: &[u8], end: &[u8]) {
    let (fd, mut at) = (FD.load(Relaxed), RESERVE_AT.load(Relaxed));
    if at == 0 || fd < 0 || !is_ours(fd) {
        return;
    }
    let _signals = sys::NoSignals::new();
    // A file that is appended to is written at its end, wherever one says.
    sys::set_status_flags(fd, 0);
    let (ticks, nanos) = clock::pair();
    for (sequence, (kind, payload, room)) in [
        (BlockKind::Losses, losses, losses.len()),
        (BlockKind::Totals, totals, totals.len()),
        (BlockKind::End, end, End::SIZE),
    ]
    .into_iter()
    .enumerate()
    {
        if payload.len() == room {
            let header = BlockHeader {
                kind,
                payload_len: payload.len() as u32,
                thread: 0,
                sequence: sequence as u64 + 1,
                ticks,
                nanos,
            }
            .seal(payload);
            sys::pwrite(fd, &header, at);
            sys::pwrite(fd, payload, at + BlockHeader::SIZE as u64);
        }
        at += (BlockHeader::SIZE + room) as u64;
    }
    sys::set_status_flags(fd, libc::O_APPEND);
}

/// Bytes that the tracer itself has written, and the ticks that took.
pub fn own_cost() -> (u64, u64) {
    (OWN_BYTES.load(Relaxed), FLUSH_TICKS.load(Relaxed))
}

/// When this process began, on the monotonic clock.
pub fn started_ns() -> u64 {
    STARTED_NS.load(Relaxed)
}

/// Takes note of what MPI says of itself; the facts are stated again if they have been before.
pub fn set_mpi(rank: u32, n_ranks: u32, version: &[u8]) {
    MPI_RANK.store(rank.wrapping_add(1), Relaxed);
    MPI_N_RANKS.store(n_ranks, Relaxed);
    with_shared(|shared| {
        shared.mpi.clear();
        shared.mpi.push(version);
    });
    if STATE.is_open() {
        let (mut payload, mut n) = ([0; Facts::MAX_SIZE], 0);
        with_shared(|shared| {
            let facts = facts(shared);
            n = facts.len();
            payload[..n].copy_from_slice(facts);
        });
        write_block(BlockKind::Facts, 0, &payload[..n]);
    }
}

/// Writes one block. Returns whether it arrived anywhere.
pub fn write_block(kind: BlockKind, thread: u32, payload: &[u8]) -> bool {
    if !config::get().traces || lifecycle::is_in_vfork_child() {
        return false;
    }
    let signals = sys::NoSignals::new();
    let opened = open_once(&signals);
    if stream::is_time_to_try_again() {
        with_shared(|shared| {
            let payload = facts(shared);
            stream::connect(|| seal(BlockKind::Facts, 0, payload), payload);
        });
    }
    let header = seal(kind, thread, payload);
    let sent = stream::send(&header, payload);
    if sent && !config::get().keep {
        return true;
    }
    let arrived = sent | (opened && append(&header, payload, &signals));
    if !arrived {
        STATE.fail();
    }
    arrived
}

fn seal(kind: BlockKind, thread: u32, payload: &[u8]) -> [u8; BlockHeader::SIZE] {
    let (ticks, nanos) = clock::pair();
    let sequence = SEQUENCE.fetch_add(1, Relaxed);
    BlockHeader { kind, payload_len: payload.len() as u32, thread, sequence, ticks, nanos }.seal(payload)
}

/// Makes the file, or waits until another thread has. Returns whether it is there.
fn open_once(signals: &sys::NoSignals) -> bool {
    STATE.once(|| open(signals))
}

fn open(signals: &sys::NoSignals) -> bool {
    let mut opened = false;
    with_shared(|shared| {
        sys::mkdir(config::get().directory.as_c_str(), 0o777); // may be there already
        if !reopen(shared, libc::O_CREAT | libc::O_EXCL) {
            return;
        }
        // The pair of the first block is the process's beginning, not the moment of writing: the records that follow at once
        // are then between two pairs, far enough apart to tell the rate of the clock.
        let (ticks, nanos) = shared.start;
        let payload = facts(shared);
        let sequence = SEQUENCE.fetch_add(1, Relaxed);
        let payload_len = payload.len() as u32;
        let header = BlockHeader { kind: BlockKind::Facts, payload_len, thread: 0, sequence, ticks, nanos }
            .seal(payload);
        let stream_header = StreamHeader { version: StreamHeader::VERSION }.to_bytes();
        stream::connect(|| header, payload);
        // Facts stand in the file too: what the listener does not take will need them.
        opened = append(&stream_header, &[], signals) && append(&header, payload, signals);
        if opened {
            reserve(signals);
        }
    });
    opened
}

/// Opens the file at a number that no program counts on.
fn reopen(shared: &Shared, flags: i32) -> bool {
    let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CLOEXEC | libc::O_NOFOLLOW | flags;
    let fd = sys::open(shared.path.as_c_str(), flags, 0o644) as i32;
    if fd < 0 {
        return false;
    }
    let fd = sys::move_away(fd);
    let Some(stat) = sys::stat(fd) else { return false };
    DEVICE.store(stat.st_dev, Relaxed);
    INODE.store(stat.st_ino, Relaxed);
    FD.store(fd, Relaxed);
    true
}

/// Whether the descriptor still is our file: a program that closes all descriptors it does not know closes ours, and may then open
/// its own at the same number.
fn is_ours(fd: i32) -> bool {
    sys::stat(fd)
        .is_some_and(|stat| stat.st_dev == DEVICE.load(Relaxed) && stat.st_ino == INODE.load(Relaxed))
}

/// Whether this is the number of our own file: the program's `close` of it must not reach us.
pub fn is_our_descriptor(fd: i32) -> bool {
    fd >= 0
        && (fd == FD.load(Relaxed) && is_ours(fd)
            || stream::is_our_descriptor(fd)
            || gate::is_our_descriptor(fd))
}

fn append(header: &[u8], payload: &[u8], signals: &sys::NoSignals) -> bool {
    let part = |bytes: &[u8]| libc::iovec { iov_base: bytes.as_ptr() as *mut _, iov_len: bytes.len() };
    for _ in 0..3 {
        let fd = FD.load(Relaxed);
        if fd < 0 || !is_ours(fd) {
            let mut reopened = false;
            // While opening, the lock is ours already, and the file cannot have been closed.
            if STATE.is_open() {
                with_shared(|shared| reopened = reopen(shared, 0));
            }
            if !reopened {
                return false;
            }
            continue;
        }
        let began = clock::now();
        let written = sys::writev(fd, &[part(header), part(payload)]);
        FLUSH_TICKS.fetch_add(clock::now().wrapping_sub(began), Relaxed);
        OWN_BYTES.fetch_add(written.max(0) as u64, Relaxed);
        if written == -(libc::EFBIG as isize) {
            signals.take_back_file_size_signal();
        }
        if written != -(libc::EINTR as isize) {
            return written == (header.len() + payload.len()) as isize;
        }
    }
    false
}

fn facts(shared: &mut Shared) -> &[u8] {
    let config = config::get();
    let mpi_rank = MPI_RANK.load(Relaxed);
    let facts = Facts {
        rank: mpi_rank.checked_sub(1).or(config.rank),
        n_ranks: if mpi_rank == 0 { config.n_ranks } else { Some(MPI_N_RANKS.load(Relaxed)) },
        pid: sys::process_id(),
        parent_pid: sys::parent_process_id(),
        uid: sys::user_id(),
        buffer_records: buffer::CAPACITY,
        realtime_offset_ns: clock::realtime_offset_ns(),
        start_ns: shared.start.1,
        clock: clock::kind(),
        host: shared.host.get(),
        job_id: config.job_id.get(),
        exe: shared.exe.get(),
        mpi: shared.mpi.get(),
        run: config.run.get(),
        command: shared.command.get(),
    };
    let n = facts.encode(&mut shared.facts).unwrap_or(0);
    &shared.facts[..n]
}

/// Works on what is shared, one thread at a time. Rare: at the start, at `MPI_Init`, when the file was closed under us.
fn with_shared(work: impl FnOnce(&mut Shared)) {
    // A handler that needs it too would wait for ever for the thread it interrupted.
    let _signals = sys::NoSignals::new();
    while LOCK.compare_exchange(false, true, Acquire, Relaxed).is_err() {
        sys::give_way();
    }
    // SAFETY: the lock is ours.
    work(unsafe { &mut *SHARED.0.get() });
    LOCK.store(false, Release);
}
