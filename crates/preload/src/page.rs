//! Counters that others read while the program runs: a mapped file, a lane per thread ([`iotide_wire::page`]).
//!
//! With `IOTIDE_LIVE=DIR`, and then alone. The file is made at the first call that counts, anew in a forked child and after `exec`. Adding is a
//! load and a store per word, in memory that only the thread itself writes to. Threads beyond the last lane share one and add atomically.
//!
//! A store to a mapped file kills the program if the file system has no room for it. So room is made by a system call before a lane is used,
//! and a lane without room is not.

use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use iotide_wire::page::{
    About, FileSystem, HEADER_SIZE, LANE_SIZE, LANES_AT_START, LEAST_ROOM, MAGIC, MpiFunction, PageLayer,
    PageState, PageText, SHARED_LANE, Texts, UserCounter, at, lane_at, word,
};
use iotide_wire::{ClockKind, EndReason, Flags, Op, Record};

use crate::config::{self, Bytes};
use crate::opening::Opening;
use crate::{buffer, clock, elf, lifecycle, mounts, sink, sys, user};

/// Lanes of a page, the shared one among them.
const N_LANES: usize = 128;
const SIZE: usize = lane_at(N_LANES);

static IS_ON: AtomicBool = AtomicBool::new(false);
static STATE: Opening = Opening::new();
static BASE: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
/// Whose lanes they are; 0 if nobody's.
static OWNERS: [AtomicU32; N_LANES] = [const { AtomicU32::new(0) }; N_LANES];
/// Which lanes have room in the file.
static HAS_ROOM: [AtomicBool; N_LANES] = [const { AtomicBool::new(false) }; N_LANES];
/// Nanoseconds of a tick, times 2^32.
static RATE: AtomicU64 = AtomicU64::new(1 << 32);
/// Rank plus one and number of ranks, as the header has them; 0 if MPI has not said.
static RANK: AtomicU64 = AtomicU64::new(0);

/// How long the clock must have been watched to know its rate, in nanoseconds: two readings are off by some tens of them.
const WATCHED_NS: u64 = 50_000;

/// Whether anything is counted.
#[inline(always)]
pub fn is_on() -> bool {
    IS_ON.load(Relaxed)
}

/// Prepares to count, if the environment asks for it.
pub fn start() {
    IS_ON.store(!config::get().live.get().is_empty(), Relaxed);
}

/// In a forked child: the parent's page is the parent's.
pub fn forget_parent() {
    let base = BASE.swap(core::ptr::null_mut(), Relaxed);
    if !base.is_null() {
        sys::unmap_memory(base, SIZE);
    }
    OWNERS.iter().for_each(|owner| owner.store(0, Relaxed));
    HAS_ROOM.iter().for_each(|has_room| has_room.store(false, Relaxed));
    STATE.forget_parent();
    mounts::forget_parent();
    user::forget_parent();
    start();
}

/// A thread's lane: the address of its first word, and in the lowest bit whether it is shared. 0 for none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Lane(pub usize);

impl Lane {
    /// No lane.
    pub const NONE: Lane = Lane(0);

    #[inline(always)]
    fn word(self, i: usize) -> &'static AtomicU64 {
        // SAFETY: a lane has `LANE_SIZE` bytes that stay mapped as long as anyone holds it, aligned to its size; `i` comes from
        // `wire::page::word`, which stays within them.
        unsafe { &*((self.0 & !1) as *const AtomicU64).add(i) }
    }

    #[inline(always)]
    fn add_to(self, i: usize, more: u64) {
        let word = self.word(i);
        if self.0 & 1 == 0 {
            word.store(word.load(Relaxed).wrapping_add(more), Relaxed);
        } else {
            word.fetch_add(more, Relaxed);
        }
    }

    #[inline(always)]
    fn add_three(self, first: usize, calls: u64, bytes: u64, ns: u64) {
        self.add_to(first, calls);
        if bytes != 0 {
            self.add_to(first + 1, bytes);
        }
        if ns != 0 {
            self.add_to(first + 2, ns);
        }
    }

    /// Counts a call. What it moved beside the program took none of the program's time.
    #[inline(always)]
    pub fn count(self, record: &Record) {
        let fs = mounts::place_of(record.file);
        if let Some(first) = word::io(PageLayer::of(record.flags), record.op(), fs) {
            let bytes = if record.flags.has(Flags::FAILED) { 0 } else { record.bytes };
            let ns = if record.flags.has(Flags::ASYNC) { 0 } else { nanos_of(record.duration) };
            self.add_three(first, u64::from(record.calls), bytes, ns);
        }
    }

    /// Counts the time that it took to begin a request, which counts when it is seen complete.
    pub fn count_begun(self, op: Op, file: u32, ticks: u64) {
        if let Some(first) = word::io(PageLayer::MpiIo, op, mounts::place_of(file)) {
            self.add_to(first + 2, nanos_of(ticks));
        }
    }

    /// Counts a call of an MPI function.
    #[inline(always)]
    pub fn count_mpi(self, function: MpiFunction, bytes: u64, ticks: u64) {
        self.add_three(word::mpi(function), 1, bytes, nanos_of(ticks));
    }

    /// Adds to one of the program's own counters.
    #[inline(always)]
    pub fn add_user(self, counter: usize, more: u64) {
        if let Some(at) = word::user(counter) {
            self.add_to(at, more);
        }
    }

    /// The thread ends; its lane is for another to go on with.
    pub fn leave(self) {
        let Some(i) = self.index() else { return };
        let since = self.word(word::SINCE).swap(0, Relaxed);
        self.add_to(word::LIVED, clock::monotonic_nanos().saturating_sub(since));
        self.word(word::THREAD).store(0, Relaxed);
        OWNERS[i].store(0, Release);
    }

    /// Which lane it is, if it has a thread of its own.
    fn index(self) -> Option<usize> {
        let base = BASE.load(Relaxed) as usize;
        if self == Self::NONE || self.0 & 1 != 0 || base == 0 {
            return None;
        }
        Some(self.0.checked_sub(base + HEADER_SIZE)? / LANE_SIZE).filter(|&i| i < N_LANES)
    }
}

#[inline(always)]
fn nanos_of(ticks: u64) -> u64 {
    ((u128::from(ticks) * u128::from(RATE.load(Relaxed))) >> 32) as u64
}

/// Where those count that have no lane: nobody reads it.
pub fn nowhere() -> Lane {
    #[repr(align(8))]
    struct Sink([AtomicU64; LANE_SIZE / 8]);
    static SINK: Sink = Sink([const { AtomicU64::new(0) }; LANE_SIZE / 8]);
    Lane(&raw const SINK.0 as usize | 1)
}

/// Gives the calling thread a lane. The first makes the page. [`Lane::NONE`] if there is none to be had.
#[cold]
pub fn adopt() -> Lane {
    if lifecycle::is_in_vfork_child() {
        return Lane::NONE;
    }
    let thread = sys::thread_id();
    let signals = sys::NoSignals::new();
    if !open_once(&signals) {
        return Lane::NONE;
    }
    learn_rate();
    let base = BASE.load(Acquire);
    // SAFETY: the mapping has that many lanes.
    let lane = |i: usize| unsafe { base.add(lane_at(i)) } as usize;
    let mine =
        (SHARED_LANE + 1..N_LANES).find(|&i| OWNERS[i].compare_exchange(0, thread, AcqRel, Relaxed).is_ok());
    let Some(i) = mine else { return Lane(lane(SHARED_LANE) | 1) };
    if i >= LANES_AT_START && !HAS_ROOM[i].load(Relaxed) && !make_room(i) {
        OWNERS[i].store(0, Release);
        return Lane(lane(SHARED_LANE) | 1);
    }
    HAS_ROOM[i].store(true, Relaxed);
    header(at::LANES_USED).fetch_max(i as u64 + 1, Relaxed);
    let mine = Lane(lane(i));
    mine.word(word::THREAD).store(u64::from(thread), Relaxed);
    let is_first = thread == sys::process_id();
    let since = if is_first { sink::started_ns() } else { clock::monotonic_nanos() };
    mine.word(word::SINCE).store(since, Relaxed);
    mine
}

/// Makes room for a lane in the file.
fn make_room(i: usize) -> bool {
    // SAFETY: the mapping has that many lanes.
    let lane = unsafe { BASE.load(Relaxed).add(lane_at(i)) };
    if sys::advise_memory(lane, LANE_SIZE, libc::MADV_POPULATE_WRITE) == 0 {
        return true;
    }
    // Kernels before 5.14 do not know this; then by the file's name.
    let mut path = Bytes::new();
    if !name(&mut path, header(at::RANDOM).load(Relaxed)) {
        return false;
    }
    let fd = sys::open(path.as_c_str(), libc::O_RDWR | libc::O_NOFOLLOW | libc::O_CLOEXEC, 0) as i32;
    if fd < 0 {
        return false;
    }
    let is_made = allocate(fd, lane_at(i), LANE_SIZE);
    sys::close(fd);
    is_made
}

/// Learns how long a tick is, from the whole time since the tracer began.
fn learn_rate() {
    if clock::kind() == ClockKind::MonotonicNanos {
        return;
    }
    loop {
        let (ticks, nanos) = buffer::since_start();
        if nanos >= WATCHED_NS && ticks > 0 {
            let rate = (u128::from(nanos) << 32) / u128::from(ticks);
            RATE.store(u64::try_from(rate).unwrap_or(u64::MAX), Relaxed);
            return;
        }
        core::hint::spin_loop();
    }
}

fn header(at: usize) -> &'static AtomicU64 {
    // SAFETY: asked only while the page is there; `at` is a place of a word in its header.
    unsafe { &*BASE.load(Relaxed).add(at).cast::<AtomicU64>() }
}

/// Counts a call that could not be counted where it belongs.
#[cold]
pub fn lost() {
    if STATE.is_open() {
        header(at::LOST).fetch_add(1, Relaxed);
    }
}

/// Takes note of what MPI says of itself.
pub fn set_mpi(rank: u32, n_ranks: u32, version: &[u8]) {
    RANK.store(u64::from(rank.wrapping_add(1)) | u64::from(n_ranks) << 32, Relaxed);
    if !STATE.is_open() {
        return;
    }
    header(at::RANK).store(RANK.load(Relaxed), Relaxed);
    let version = &version[..version.len().min(at::MPI_MAX)];
    // SAFETY: the place of a byte of length and so many of text, which nobody else writes; a reader that comes between sees a shorter text.
    unsafe {
        let to = BASE.load(Relaxed).add(at::MPI);
        core::ptr::copy_nonoverlapping(version.as_ptr(), to.add(1), version.len());
        to.write_volatile(version.len() as u8);
    }
}

/// The process ends, or becomes another program.
pub fn ends(reason: EndReason) {
    if STATE.is_open() {
        header(at::END_NS).store(clock::monotonic_nanos(), Relaxed);
        let state = match reason {
            EndReason::Exec => PageState::Replaced,
            EndReason::Abort => PageState::Aborted,
            _ => PageState::Exiting,
        };
        header(at::STATE).store(state as u64, Release);
    }
}

/// It has not become another program.
pub fn goes_on() {
    if STATE.is_open()
        && header(at::STATE).load(Relaxed) == PageState::Replaced as u64
        && !lifecycle::is_in_vfork_child()
    {
        header(at::STATE).store(PageState::Running as u64, Release);
    }
}

/// Writes the name of a file system that was met for the first time.
pub fn name_file_system(fs: &FileSystem<'_>) {
    if STATE.is_open() {
        write_file_system(fs);
    }
}

fn write_file_system(fs: &FileSystem<'_>) {
    if let Some(at) = FileSystem::at(fs.place) {
        let entry = fs.to_bytes();
        // SAFETY: the place of such an entry, written by whoever holds the lock of the table.
        unsafe { core::ptr::copy_nonoverlapping(entry.as_ptr(), BASE.load(Relaxed).add(at), entry.len()) };
        header(at::FILE_SYSTEMS).fetch_max(fs.place as u64, Release);
    }
}

/// Writes the name of one of the program's own counters.
pub fn name_user_counter(place: usize, entry: &[u8; UserCounter::SIZE]) {
    if STATE.is_open() {
        write_user_counter(place, entry);
    }
}

fn write_user_counter(place: usize, entry: &[u8; UserCounter::SIZE]) {
    if let Some(at) = UserCounter::at(place) {
        // SAFETY: the place of such an entry, written by whoever holds the lock of the table.
        unsafe { core::ptr::copy_nonoverlapping(entry.as_ptr(), BASE.load(Relaxed).add(at), entry.len()) };
        header(at::USER_COUNTERS).fetch_max(place as u64 + 1, Release);
    }
}

/// Makes the page, or waits until another thread has. Returns whether it is there.
fn open_once(signals: &sys::NoSignals) -> bool {
    let mut is_made = false;
    let is_there = STATE.once(|| {
        is_made = open(signals).is_some();
        is_made
    });
    if !is_there {
        IS_ON.store(false, Relaxed);
    }
    // Only now: what others meet from here on they write themselves.
    if is_made {
        mounts::write_all(write_file_system);
        user::write_all(write_user_counter);
    }
    is_there
}

fn name(path: &mut Bytes<2200>, random: u64) -> bool {
    let directory = config::get().live.get();
    path.push(directory);
    path.push(b"/");
    path.push_number(u64::from(sys::process_id()), 10);
    path.push(b"-");
    path.push_number(start_ticks(), 10);
    path.push(b"-");
    path.push_number(random, 16);
    path.push(b".page");
    path.get().ends_with(b".page")
}

fn open(signals: &sys::NoSignals) -> Option<()> {
    let random = sys::random();
    let mut path = Bytes::new();
    if !name(&mut path, random) {
        return None;
    }
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    let fd = sys::open(path.as_c_str(), flags, 0o600) as i32;
    if fd < 0 {
        return None;
    }
    // A directory of the whole machine gives its group to what is made there, and that is the daemon's: it may read.
    if sys::stat(fd).is_some_and(|stat| stat.st_gid != sys::group_id()) {
        sys::set_mode(fd, 0o640);
    }
    let has_room = sys::truncate(fd, SIZE as u64) == 0 && allocate(fd, 0, LEAST_ROOM);
    signals.take_back_file_size_signal();
    let base = if has_room { sys::map_file(fd, SIZE) } else { None };
    sys::close(fd);
    let Some(base) = base else {
        sys::unlink(path.as_c_str());
        return None;
    };
    fill_in(base);
    BASE.store(base, Release);
    header(at::RANDOM).store(random, Relaxed);
    header(at::LANES_USED).store(1, Relaxed);
    let config = config::get();
    let of_launcher = u64::from(config.rank.map_or(0, |rank| rank.wrapping_add(1)));
    let of_launcher = of_launcher | u64::from(config.n_ranks.unwrap_or(0)) << 32;
    let of_mpi = RANK.load(Relaxed);
    header(at::RANK).store(if of_mpi != 0 { of_mpi } else { of_launcher }, Relaxed);
    // Whoever finds the magic finds the rest.
    header(0).store(u64::from_le_bytes(MAGIC), Release);
    Some(())
}

/// Makes room in a file. One that cannot be asked for room is given zeros.
fn allocate(fd: i32, from: usize, n: usize) -> bool {
    match -sys::allocate(fd, from as u64, n as u64) as i32 {
        0 => true,
        libc::EOPNOTSUPP | libc::ENOSYS => {
            let zeros = [0; 1024];
            (from..from + n)
                .step_by(zeros.len())
                .all(|at| sys::pwrite(fd, &zeros, at as u64) == zeros.len() as isize)
        }
        _ => false,
    }
}

fn fill_in(base: *mut u8) {
    let config = config::get();
    let mut texts = Texts::default();
    let (mut exe, mut directory, mut command) = ([0; 480], [0; 480], [0; 1024]);
    texts.set(PageText::Exe, sys::readlink(c"/proc/self/exe", &mut exe).unwrap_or(b""));
    // A path that does not fit is none.
    texts.set(PageText::Directory, sys::current_directory(&mut directory).unwrap_or(b""));
    texts.set(PageText::Command, sys::read_small(c"/proc/self/cmdline", &mut command).unwrap_or(b""));
    let mut stand_in = [0; 8];
    texts.set(PageText::BuildId, elf::build_id(&mut stand_in));
    texts.set(PageText::Job, config.job_id.get());
    texts.set(PageText::JobSource, config.job_source.get());
    texts.set(PageText::Run, config.run.get());
    for (text, value) in config::page_texts() {
        texts.set(text, value);
    }
    let names = sys::system_names();
    let host = names.as_ref().map_or(&[][..], |names| {
        // SAFETY: an array of C characters, which are bytes.
        unsafe { core::slice::from_raw_parts(names.nodename.as_ptr().cast::<u8>(), names.nodename.len()) }
    });
    texts.set(PageText::Host, host.split(|&byte| byte == 0).next().unwrap_or(b""));
    let start_ns = sink::started_ns();
    let about = About {
        n_lanes: N_LANES as u32,
        pid: sys::process_id(),
        parent_pid: sys::parent_process_id(),
        uid: sys::user_id(),
        start_ticks: start_ticks(),
        pid_namespace: pid_namespace(),
        start_ns,
        start_unix_ns: start_ns.saturating_add_signed(clock::realtime_offset_ns()),
        texts,
    };
    // SAFETY: the mapping has a header, and nobody else has it yet.
    about.encode(unsafe { &mut *base.cast::<[u8; HEADER_SIZE]>() });
}

/// When this process began, in ticks of the system since it booted.
fn start_ticks() -> u64 {
    let mut text = [0; 1024];
    let text = sys::read_small(c"/proc/self/stat", &mut text).unwrap_or(b"");
    // The second field is the program's name in brackets, which may hold anything, brackets too.
    let after_name = text.iter().rposition(|&byte| byte == b')').map_or(&[][..], |at| &text[at + 1..]);
    let field = after_name.split(|&byte| byte == b' ').filter(|field| !field.is_empty()).nth(19);
    field.and_then(config::number).unwrap_or(0)
}

/// The number of this process's name space of processes: `pid:[4026531836]`.
fn pid_namespace() -> u64 {
    let mut link = [0; 64];
    let link = sys::readlink(c"/proc/self/ns/pid", &mut link).unwrap_or(b"");
    let digits = link.split(|byte| !byte.is_ascii_digit()).find(|digits| !digits.is_empty());
    digits.and_then(config::number).unwrap_or(0)
}
