//! What the allocator keeps of memory that was given back to it.
//!
//! A daemon runs for months, and jobs come and go by the thousand: what their rows took is free again, but lies between what is still in use, in
//! as many heaps as there are threads. The GNU allocator returns only the end of a heap to the system by itself, so over 10,000 short jobs it
//! kept 40 MB that nobody used. With other C libraries nothing is done about that here.
//!
//! The database library keeps pages that it has read, for each connection up to a limit. Most are of jobs that have ended and that nobody asks for
//! again, so that memory grew with every job until the limits of all connections were reached, thousands of jobs later.

/// How often memory is given back, if jobs have ended or questions were answered since.
pub(crate) const GIVE_BACK_NS: u64 = 5_000_000_000;

/// So often after jobs have ended: their samples are written and their models fitted some seconds later, by other threads.
pub(crate) const TIMES: u32 = 4;

/// One heap for all threads: what one frees another can use. They allocate little at a time when they work, and wait for each other no longer than that takes.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code)]
pub(crate) fn share_one_heap() {
    // SAFETY: mallopt changes settings of the allocator and touches no memory of ours; any value is allowed.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}

/// Returns what nobody uses to the system: a millisecond or two.
pub(crate) fn give_back() {
    forget_pages_of_databases();
    trim();
}

/// Lets go of pages of all databases that are as on disk and that no statement reads now. Who needs one again finds it in the system's memory.
#[allow(unsafe_code)]
fn forget_pages_of_databases() {
    // SAFETY: the library takes its own locks; any thread may call it, also while others use their connections.
    unsafe { rusqlite::ffi::sqlite3_release_memory(i32::MAX) };
}

/// Returns whole pages of memory that are in no allocation.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code)]
fn trim() {
    // SAFETY: malloc_trim gives back pages that are in no allocation, under the allocator's own lock.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
pub(crate) fn share_one_heap() {}

#[cfg(not(target_env = "gnu"))]
fn trim() {}
