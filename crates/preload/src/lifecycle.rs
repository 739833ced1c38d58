//! Loaded, running, in a forked child, exiting: one small state machine.

use core::sync::atomic::{
    AtomicPtr, AtomicU8, AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use iotide_wire::EndReason;

use crate::{
    buffer, clock, config, exec, files, gate, losses, next, page, requests, sink, sys, totals, vfork,
};

/// Nobody has called yet.
const UNBORN: u8 = 0;
/// Someone is preparing everything; other threads' calls pass by.
const STARTING: u8 = 1;
/// Switched off, for good.
const OFF: u8 = 2;
/// Tracing.
const RUNNING: u8 = 3;
/// After the end mark: what is still called is written at once, with a new end mark.
const LATE: u8 = 4;

static STATE: AtomicU8 = AtomicU8::new(UNBORN);
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// A page that is zero in a forked child and 1 otherwise: tells `fork` (memory of its own) from `vfork` (the parent's memory).
static MARK: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());

/// Whether calls are traced. The first call of all prepares everything, though `main` may be far.
#[inline(always)]
pub fn is_tracing() -> bool {
    let state = STATE.load(Acquire);
    state >= RUNNING || (state == UNBORN && start())
}

/// Whether the end mark has been written.
#[inline(always)]
pub fn is_late() -> bool {
    STATE.load(Relaxed) == LATE
}

/// Prepares everything. Returns whether calls are traced now.
#[cold]
pub fn start() -> bool {
    if STATE.compare_exchange(UNBORN, STARTING, AcqRel, Relaxed).is_err() {
        return false;
    }
    let _errno = crate::guard::KeepErrno::now();
    next::find_all();
    // The environment belongs to whoever started the program: one with rights of its own must not write where it says.
    let ready = !sys::has_rights_of_its_own() && config::read() && {
        clock::start();
        buffer::start(config::get().flush_ns);
        files::start() && requests::start()
    };
    if ready {
        PROCESS.store(sys::process_id(), Relaxed);
        sink::start();
        totals::start();
        page::start();
        exec::start();
        gate::start();
        mark_this_memory();
        // SAFETY: the handler has the signature that is asked for and stays loaded as long as the process lives.
        unsafe { libc::pthread_atfork(None, None, Some(in_forked_child)) };
    }
    STATE.store(if ready { RUNNING } else { OFF }, Release);
    ready
}

/// Writes out everything and says good-bye, before the process ends or becomes another program.
pub fn finish(reason: EndReason) {
    let state = STATE.load(Acquire);
    if state < OFF || is_in_vfork_child() {
        return;
    }
    if state != OFF {
        if reason != EndReason::Exec {
            requests::give_up_all(buffer::push_beside);
        }
        page::ends(reason);
        buffer::write_out_all();
        gate::finish();
        if totals::are_telling() {
            sink::open_early();
        }
    }
    losses::write_out(Some(reason));
    if reason != EndReason::Exec {
        let _ = STATE.compare_exchange(RUNNING, LATE, AcqRel, Relaxed);
    }
}

/// Writes out everything, because the program asks for it.
pub fn flush() {
    if STATE.load(Acquire) >= RUNNING && !is_in_vfork_child() {
        buffer::write_out_all();
        losses::write_out(None);
    }
}

/// Whether this process borrows its parent's memory, as between `vfork` and `exec`: then nothing here is ours to change.
///
/// A child that was forked behind the C library's back is noticed here too, and made a process of its own.
pub fn is_in_vfork_child() -> bool {
    if sys::process_id() == PROCESS.load(Relaxed) {
        return false;
    }
    // SAFETY: the mark is null or a byte in a page of ours.
    let forked = unsafe { MARK.load(Relaxed).as_ref() }.is_some_and(|&mark| mark == 0);
    if forked {
        in_forked_child_of_any_kind();
    }
    !forked
}

unsafe extern "C" fn in_forked_child() {
    in_forked_child_of_any_kind();
}

fn in_forked_child_of_any_kind() {
    if STATE.load(Acquire) < OFF {
        return;
    }
    PROCESS.store(sys::process_id(), Relaxed);
    mark_this_memory();
    vfork::forget_parent();
    losses::forget();
    totals::forget_parent();
    page::forget_parent();
    buffer::forget_parent();
    files::forget_parent();
    requests::forget_parent();
    sink::forget_parent();
    // A child forked late (by an exit handler) lives on and is traced like any other.
    let _ = STATE.compare_exchange(LATE, RUNNING, AcqRel, Relaxed);
}

fn mark_this_memory() {
    const PAGE: usize = 4096;
    let mut page = MARK.load(Relaxed);
    if page.is_null() {
        match sys::map_memory(PAGE) {
            // A kernel before 4.14 does not know the advice; then only the C library's own fork is noticed.
            Some(fresh) if sys::advise_memory(fresh, PAGE, libc::MADV_WIPEONFORK) == 0 => page = fresh,
            _ => return,
        }
    }
    // SAFETY: the page is ours and writable.
    unsafe { page.write(1) };
    MARK.store(page, Relaxed);
}

#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
#[cfg_attr(not(test), used)]
#[cfg_attr(test, allow(dead_code))]
static ON_LOAD: extern "C" fn() = {
    extern "C" fn on_load() {
        is_tracing();
    }
    on_load
};

#[cfg_attr(not(test), unsafe(link_section = ".fini_array"))]
#[cfg_attr(not(test), used)]
#[cfg_attr(test, allow(dead_code))]
static ON_EXIT: extern "C" fn() = {
    extern "C" fn on_exit() {
        let _errno = crate::guard::KeepErrno::now();
        if is_tracing() && !is_in_vfork_child() {
            crate::stdio::exits();
        }
        finish(EndReason::Exit);
    }
    on_exit
};
