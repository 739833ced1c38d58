//! Descriptor → file, its path kept once.

use core::ffi::{CStr, c_char};
use core::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

use iotide_wire::{LossKind, NO_FILE, NO_POSITION};

use crate::buffer::Work;
use crate::config::{self, Bytes};
use crate::guard::KeepErrno;
use crate::{clock, gate, lifecycle, losses, mounts, page, sys, vfork};

/// Descriptors we follow.
const N_DESCRIPTORS: usize = 1 << 16;
/// Names we keep.
pub const N_NAMES: usize = 1 << 16;
/// How far a name may stand from where its hash points.
const MAX_PROBES: usize = 64;

/// Bits of the entry of a descriptor: 0 means that nothing is known yet.
const KNOWN: u32 = 1 << 31;
const IGNORED: u32 = 1 << 30;
const OF_MPI: u32 = 1 << 29;
/// It goes by the path it was opened with; what it is in truth is asked when data are moved.
const AS_GIVEN: u32 = 1 << 28;
/// The kernel does not know it: a library that stands before the system calls serves it (GekkoFS's, for example).
const VIRTUAL: u32 = 1 << 27;
const ID: u32 = (1 << 27) - 1;
/// Of an ignored descriptor, in the place of its number: left out because of its path.
const BY_PATH: u32 = 1;

/// Why a descriptor's calls are not recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// It is beyond the table.
    High,
    /// Its path is left out.
    Excluded,
    /// It is no regular file, or MPI's own.
    Other,
    /// Neither the kernel nor the tracer knows it.
    Unknown,
    /// It is no descriptor: a stream in memory.
    Nothing,
}

/// Returns why a descriptor's calls are not recorded.
pub fn class(fd: i32) -> Class {
    if !lifecycle::is_tracing() {
        return Class::Nothing; // there is no table to look at
    }
    match slot(fd).map(|slot| slot.load(Relaxed)) {
        None if fd < 0 => Class::Nothing,
        None => Class::High,
        Some(known) if known & IGNORED != 0 && known & ID == BY_PATH => Class::Excluded,
        Some(0) if sys::stat(fd).is_none() => Class::Unknown,
        Some(_) => Class::Other,
    }
}

static DESCRIPTORS: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());
static NAMES: AtomicPtr<AtomicU64> = AtomicPtr::new(core::ptr::null_mut());
/// Where descriptors stand in their files. Threads that use one descriptor at once, and processes that share it, may leave it a little off.
static PLACES: AtomicPtr<AtomicU64> = AtomicPtr::new(core::ptr::null_mut());

/// A file that is traced.
#[derive(Clone, Copy)]
pub struct File {
    /// Its number in the trace.
    pub id: u32,
    /// Whether MPI opened it for itself: then every call on it is made on behalf of an MPI-IO call.
    pub is_of_mpi: bool,
    /// Whether the kernel does not know its descriptor, and counts none of its bytes.
    pub is_virtual: bool,
}

impl File {
    /// The file of a descriptor of which this is known; `None` if its calls are not traced.
    #[inline(always)]
    fn of_known(known: u32) -> Option<Self> {
        let (is_of_mpi, is_virtual) = (known & OF_MPI != 0, known & VIRTUAL != 0);
        (known & IGNORED == 0).then_some(Self { id: known & ID, is_of_mpi, is_virtual })
    }
}

/// Prepares the tables. Returns whether there was memory.
pub fn start() -> bool {
    let (Some(descriptors), Some(names), Some(places)) = (
        sys::map_memory(N_DESCRIPTORS * 4),
        sys::map_memory(N_NAMES * 8),
        sys::map_memory(N_DESCRIPTORS * 8),
    ) else {
        return false;
    };
    PLACES.store(places.cast(), Release);
    DESCRIPTORS.store(descriptors.cast(), Release);
    NAMES.store(names.cast(), Release);
    true
}

/// In a forked child: no name has been written to its own file yet, and MPI does not reach there.
pub fn forget_parent() {
    sys::advise_memory(DESCRIPTORS.load(Relaxed).cast(), N_DESCRIPTORS * 4, libc::MADV_DONTNEED);
    sys::advise_memory(NAMES.load(Relaxed).cast(), N_NAMES * 8, libc::MADV_DONTNEED);
    working_directory::forget_parent();
}

/// Returns the file behind a descriptor if its calls are traced, for a call that moves no data: by the path it was opened with.
#[inline(always)]
pub fn as_given(fd: i32) -> Option<File> {
    if !lifecycle::is_tracing() {
        return None;
    }
    let slot = slot(fd)?;
    let known = slot.load(Relaxed);
    if known & KNOWN == 0 || vfork::is_child() {
        return of(fd);
    }
    File::of_known(known)
}

/// Takes note of a file that was just opened by its path, and returns it if it is traced. The system is asked only whether it is a regular
/// file, where the path says enough: links are followed when data are moved.
pub fn opened(fd: i32, directory: i32, path: *const c_char, flags: i32) -> Option<File> {
    if !lifecycle::is_tracing() {
        return None;
    }
    let slot = slot(fd)?;
    if vfork::is_child() || flags & (libc::O_DIRECTORY | libc::O_PATH) != 0 || path.is_null() {
        forget(fd);
        return of(fd);
    }
    // SAFETY: not null, and a C string since the call has accepted it.
    let given = given(directory, unsafe { CStr::from_ptr(path) }.to_bytes());
    let stat = given.filter(|known| known & IGNORED == 0).map(|_| sys::stat(fd));
    match (given, stat) {
        (None, _) | (_, Some(None)) => {
            forget(fd);
            of(fd).or_else(|| keep_virtual(fd, directory, path, flags & libc::O_APPEND != 0))
        }
        // Directories, pipes and devices can be opened by a path, too.
        (Some(_), Some(Some(stat))) if !is_regular(&stat) => {
            slot.store(KNOWN | IGNORED, Relaxed);
            None
        }
        (Some(known), _) => {
            slot.store(KNOWN | AS_GIVEN | known, Relaxed);
            begin_at(fd, flags & libc::O_APPEND != 0);
            File::of_known(known)
        }
    }
}

/// Takes note of a descriptor that was just opened by a path and that the kernel does not know: it keeps that path for as long as it is
/// open. `None` if the kernel knows it.
///
/// Below a directory that is open, its path is not known, and it goes without a name.
#[cold]
pub fn keep_virtual(fd: i32, directory: i32, path: *const c_char, appends: bool) -> Option<File> {
    if path.is_null() || !lifecycle::is_tracing() || vfork::is_child() || sys::stat(fd).is_some() {
        return None;
    }
    let slot = slot(fd)?;
    let work = Work::begin()?;
    if work.is_hushed() {
        return None;
    }
    // SAFETY: not null, and a C string since the call has accepted it.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    let (memory, _) = work.path_memory();
    let known = match whole_path(directory, path, memory) {
        Some(path) if !config::wants(path) => IGNORED | BY_PATH,
        Some(path) => name(&work, path),
        None => NO_FILE,
    };
    let known = KNOWN | VIRTUAL | in_mpi(&work, known);
    slot.store(known, Relaxed);
    begin_at(fd, appends);
    File::of_known(known)
}

/// A path from the root on. The working directory is the one that the C library knows: it may be virtual, too.
fn whole_path<'a>(directory: i32, path: &'a [u8], memory: &'a mut [u8]) -> Option<&'a [u8]> {
    if path.first() == Some(&b'/') {
        return Some(path);
    }
    if directory != libc::AT_FDCWD {
        return None;
    }
    let _errno = KeepErrno::now();
    // SAFETY: memory of that size.
    let found = unsafe { libc::getcwd(memory.as_mut_ptr().cast(), memory.len()) };
    let n = memory.iter().position(|&byte| byte == 0).filter(|_| !found.is_null())?;
    let path = path.strip_prefix(b"./").unwrap_or(path);
    *memory.get_mut(n)? = b'/';
    memory.get_mut(n + 1..n + 1 + path.len())?.copy_from_slice(path);
    memory.get(..n + 1 + path.len())
}

/// Takes note that `new` is another name of the open file `old`. What the kernel says of it is asked when it is used.
pub fn duplicated(old: i32, new: i32) {
    if !lifecycle::is_tracing() {
        return;
    }
    forget(new);
    let (Some(from), Some(to)) = (slot(old), slot(new)) else { return };
    let known = from.load(Relaxed);
    if known & VIRTUAL != 0 && !vfork::is_child() {
        to.store(known, Relaxed);
        if let (Some(from), Some(to)) = (place(old), place(new)) {
            to.store(from.load(Relaxed), Relaxed);
        }
    }
}

/// Begins to follow where a descriptor stands that was just opened.
fn begin_at(fd: i32, appends: bool) {
    if let Some(place) = place(fd) {
        place.store(if appends { NO_POSITION } else { 0 }, Relaxed);
    }
}

/// Returns the entry of a path as it stands; `None` if the system must be asked.
fn given(directory: i32, path: &[u8]) -> Option<u32> {
    let work = Work::begin()?;
    if work.is_in_mpi() {
        return None;
    }
    let (whole, _) = work.path_memory();
    let whole = if path.first() == Some(&b'/') {
        path
    } else {
        if directory != libc::AT_FDCWD || path.is_empty() {
            return None;
        }
        let n = working_directory::get(whole)?;
        let path = path.strip_prefix(b"./").unwrap_or(path);
        *whole.get_mut(n)? = b'/';
        whole.get_mut(n + 1..n + 1 + path.len())?.copy_from_slice(path);
        &whole[..n + 1 + path.len()]
    };
    let hash = hash(whole);
    if let Some(id) = known_name(hash) {
        return Some(id);
    }
    let is_excluded = EXCLUDED[hash as usize % EXCLUDED.len()].load(Relaxed) == hash;
    if is_excluded {
        return Some(IGNORED | BY_PATH);
    }
    // Detours, and links to what a process has open already: what stands there is not the file's name.
    let is_detour = whole.windows(2).any(|pair| pair == b"//" || pair == b"/.");
    if is_detour || [&b"/dev/std"[..], b"/dev/fd", b"/proc/"].iter().any(|start| whole.starts_with(start)) {
        return None;
    }
    if !config::wants(whole) {
        EXCLUDED[hash as usize % EXCLUDED.len()].store(hash, Relaxed);
        return Some(IGNORED | BY_PATH);
    }
    Some(name(&work, whole))
}

/// Hashes of paths that are left out, the latest of each place.
static EXCLUDED: [AtomicU64; 512] = [const { AtomicU64::new(0) }; 512];

/// The working directory, asked for once until it changes.
pub mod working_directory {
    use core::cell::UnsafeCell;
    use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

    use crate::sys;

    struct Place(UnsafeCell<[u8; 1024]>);
    // SAFETY: touched only by whoever holds `LOCK`.
    unsafe impl Sync for Place {}
    static PLACE: Place = Place(UnsafeCell::new([0; 1024]));
    /// Bytes of it; 0 if it is not known.
    static LEN: AtomicUsize = AtomicUsize::new(0);
    static LOCK: AtomicBool = AtomicBool::new(false);

    /// Writes it to the front of `into` and returns how long it is.
    pub fn get(into: &mut [u8]) -> Option<usize> {
        if LOCK.compare_exchange(false, true, Acquire, Relaxed).is_err() {
            return sys::current_directory(into).map(<[u8]>::len);
        }
        // SAFETY: the lock is ours.
        let place = unsafe { &mut *PLACE.0.get() };
        let mut n = LEN.load(Relaxed);
        if n == 0 {
            n = sys::current_directory(place).map_or(0, <[u8]>::len);
            LEN.store(n, Relaxed);
        }
        let copied = into.get_mut(..n).map(|into| into.copy_from_slice(&place[..n]));
        LOCK.store(false, Release);
        // The root is the one directory whose name ends with a slash.
        (n > 1).then_some(()).and(copied).map(|()| n)
    }

    /// It has changed.
    pub fn forget() {
        LEN.store(0, Relaxed);
    }

    /// In a forked child: whoever held the lock is not here.
    pub fn forget_parent() {
        LOCK.store(false, Relaxed);
        forget();
    }
}

/// Returns the file behind a descriptor if its calls are traced.
#[inline(always)]
pub fn of(fd: i32) -> Option<File> {
    if !lifecycle::is_tracing() {
        return None;
    }
    let slot = slot(fd)?;
    let mut known = slot.load(Relaxed);
    if known & (KNOWN | AS_GIVEN) != KNOWN || vfork::is_child() {
        known = look_up(fd, slot);
    }
    File::of_known(known)
}

/// Where the next call on a descriptor goes that states no place; [`NO_POSITION`] if that is the end of the file.
#[inline(always)]
pub fn stands_at(fd: i32) -> u64 {
    place(fd).map_or(NO_POSITION, |place| place.load(Relaxed))
}

/// Takes note that a descriptor moved on from where it stood.
#[inline(always)]
pub fn moves_on(fd: i32, from: u64, moved: isize) {
    if moved > 0
        && from != NO_POSITION
        && let Some(place) = place(fd)
        && !vfork::is_child()
    {
        place.store(from.wrapping_add(moved as u64), Relaxed);
    }
}

/// Takes note of where a descriptor stands now. One that always writes to the end goes on doing so.
#[inline(always)]
pub fn stand_at(fd: i32, position: u64) {
    if let Some(place) = place(fd)
        && place.load(Relaxed) != NO_POSITION
        && !vfork::is_child()
    {
        place.store(position, Relaxed);
    }
}

#[inline(always)]
fn place(fd: i32) -> Option<&'static AtomicU64> {
    let places = PLACES.load(Relaxed);
    if (fd as u32) < N_DESCRIPTORS as u32 && !places.is_null() {
        // SAFETY: the table, once there, stays and has that many entries.
        Some(unsafe { &*places.add(fd as usize) })
    } else {
        None
    }
}

/// Begins to follow where a descriptor stands, which the system says.
fn follow(fd: i32) {
    let Some(place) = place(fd) else { return };
    let is_appending = sys::descriptor_flags(fd) & libc::O_APPEND != 0;
    place.store(if is_appending { NO_POSITION } else { sys::position(fd).unwrap_or(0) }, Relaxed);
}

/// Forgets a descriptor: it has been closed, or given to another file.
pub fn forget(fd: i32) {
    if lifecycle::is_tracing()
        && let Some(slot) = slot(fd)
        && slot.load(Relaxed) != 0
        && !vfork::is_child()
    {
        slot.store(0, Relaxed);
    }
}

/// Forgets the descriptors from `first` to `last`.
pub fn forget_range(first: u32, last: u32) {
    for fd in first..=last.min(N_DESCRIPTORS as u32 - 1) {
        forget(fd as i32);
    }
}

/// Returns the file of a path if it is traced. `directory` is where a relative path begins (`AT_FDCWD`: the working directory).
pub fn of_path(directory: i32, path: &CStr) -> Option<File> {
    if !lifecycle::is_tracing() {
        return None;
    }
    let path = path.to_bytes();
    let work = Work::begin()?;
    if work.is_hushed() {
        return None;
    }
    let (whole, _) = work.path_memory();
    let mut len = 0;
    if path.first() != Some(&b'/') {
        len = if directory == libc::AT_FDCWD {
            sys::current_directory(whole)?.len()
        } else {
            path_of_descriptor(directory, whole)?.len()
        };
        *whole.get_mut(len)? = b'/';
        len += 1;
    }
    let path = path.strip_prefix(b"./").unwrap_or(path);
    whole.get_mut(len..len + path.len())?.copy_from_slice(path);
    let whole = &whole[..len + path.len()];
    config::wants(whole).then(|| File { id: name(&work, whole), is_of_mpi: false, is_virtual: false })
}

#[inline(always)]
fn slot(fd: i32) -> Option<&'static AtomicU32> {
    if (fd as u32) < N_DESCRIPTORS as u32 {
        // SAFETY: the table is there since tracing began, and has that many entries.
        Some(unsafe { &*DESCRIPTORS.load(Relaxed).add(fd as usize) })
    } else {
        None
    }
}

/// Asks the system what a descriptor is. Only regular files are traced: no terminal, pipe, socket or device.
#[cold]
fn look_up(fd: i32, slot: &AtomicU32) -> u32 {
    let Some(work) = Work::begin() else { return IGNORED };
    let begun = clock::now();
    let (memory, _) = work.path_memory();
    let path = path_of_descriptor(fd, memory);
    let given = slot.load(Relaxed);
    // One that still has the path it was opened with was found to be regular then. Each question less counts where the kernel has to ask
    // a server.
    let is_as_given = given & (AS_GIVEN | IGNORED) == AS_GIVEN
        && path.and_then(|it| known_name(hash(it))) == Some(given & ID);
    let is_traced = if is_as_given {
        true
    } else {
        // Not kept: by the same number the kernel may know another descriptor soon, which no hook saw being opened.
        let Some(stat) = sys::stat(fd) else { return IGNORED };
        is_regular(&stat)
    };
    let known = match path {
        _ if !is_traced || work.is_hushed() => IGNORED,
        Some(path) if !config::wants(path) => IGNORED | BY_PATH,
        Some(path) => name(&work, path),
        None => NO_FILE,
    };
    work.spent(clock::now().wrapping_sub(begun));
    let known = KNOWN | in_mpi(&work, known);
    // In a child of `vfork` the number may stand for another file than in the parent, whose table this is.
    if !vfork::is_child() {
        // One that was opened by its path began at its beginning, and has been followed since.
        if known & IGNORED == 0 && slot.load(Relaxed) & AS_GIVEN == 0 {
            follow(fd);
        }
        slot.store(known, Relaxed);
    }
    known
}

/// Returns the entry of a descriptor that is looked at now, in a call of MPI or not.
fn in_mpi(work: &Work, known: u32) -> u32 {
    match (work.is_in_mpi(), config::get().nested) {
        (false, _) => known,
        (true, true) => known | OF_MPI,
        // The same bytes again, at the price of a second record: only for those who want to see below MPI-IO.
        (true, false) => (known | OF_MPI | IGNORED) & !ID,
    }
}

fn is_regular(stat: &libc::stat) -> bool {
    stat.st_mode & libc::S_IFMT == libc::S_IFREG
}

fn path_of_descriptor(fd: i32, memory: &mut [u8]) -> Option<&[u8]> {
    let mut link: Bytes<40> = Bytes::new();
    link.push(b"/proc/self/fd/");
    link.push_number(fd as u64, 10);
    let path = sys::readlink(link.as_c_str(), memory)?;
    Some(path.strip_suffix(b" (deleted)").unwrap_or(path))
}

/// Returns the number of a name that has been used before.
fn known_name(hash: u64) -> Option<u32> {
    let names = NAMES.load(Acquire);
    for probe in 0..MAX_PROBES {
        let at = (hash as usize).wrapping_add(probe) % N_NAMES;
        // SAFETY: the table is there since tracing began, and has that many entries.
        match unsafe { &*names.add(at) }.load(Relaxed) {
            0 => return None,
            there if there == hash => return Some(at as u32 + 1),
            _ => {}
        }
    }
    None
}

/// Returns the number of a name, which is its place in the table. The first to use a name writes it to the trace.
fn name(work: &Work, path: &[u8]) -> u32 {
    let hash = hash(path);
    let names = NAMES.load(Acquire);
    for probe in 0..MAX_PROBES {
        let at = (hash as usize).wrapping_add(probe) % N_NAMES;
        // SAFETY: the table is there since tracing began, and has that many entries.
        let slot = unsafe { &*names.add(at) };
        let id = at as u32 + 1;
        match slot.compare_exchange(0, hash, Relaxed, Relaxed) {
            Ok(_) => {
                if page::is_on() {
                    mounts::learn(id, path);
                }
                gate::learn(id, path);
                work.push_name(id, path);
                return id;
            }
            Err(there) if there == hash => return id,
            Err(_) => {}
        }
    }
    losses::count(LossKind::TooManyFiles, 1);
    NO_FILE
}

/// Eight bytes at a time, each mixed in by a product. Two of 65536 names share a hash once in 10^10 processes; they would then share a
/// number.
fn hash(path: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| {
        let product = u128::from(hash ^ word).wrapping_mul(u128::from(FACTOR));
        (product as u64) ^ (product >> 64) as u64
    };
    let (words, rest) = path.as_chunks::<8>();
    let mut hash = (path.len() as u64 + 1).wrapping_mul(0xcbf2_9ce4_8422_2325);
    for word in words {
        hash = mix(hash, u64::from_le_bytes(*word)).wrapping_add(FACTOR);
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    hash = mix(hash, u64::from_le_bytes(last));
    mix(hash, FACTOR.rotate_left(32)).max(1)
}
