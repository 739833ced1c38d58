//! Counters of the program's own, as `iotide.h` declares them.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

use iotide_wire::page::{MAX_USER_COUNTERS, UserCounter};

use crate::guard::KeepErrno;
use crate::{buffer, lifecycle, page, sys};

type Entry = [u8; UserCounter::SIZE];
struct Global(UnsafeCell<[Entry; MAX_USER_COUNTERS]>);
// SAFETY: touched only by whoever holds `LOCK`.
unsafe impl Sync for Global {}
/// Names are kept beside the page: a forked child has a page of its own, and the same counters.
static NAMES: Global = Global(UnsafeCell::new([[0; UserCounter::SIZE]; MAX_USER_COUNTERS]));
static N: AtomicUsize = AtomicUsize::new(0);
static LOCK: AtomicBool = AtomicBool::new(false);

/// Returns the number of a counter, which is made if there is none of that name; −1 if there is nothing to count in, the name is not one
/// (letters, digits and `_`, at most 48, a letter first), or there are too many.
///
/// # Safety
/// `name` and `unit` are null or C strings.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn iotide_counter_now(name: *const c_char, unit: *const c_char) -> c_int {
    let _errno = KeepErrno::now();
    if name.is_null() || !lifecycle::is_tracing() || !page::is_on() || lifecycle::is_in_vfork_child() {
        return -1;
    }
    let text = |text: *const c_char| {
        // SAFETY: the caller's promise.
        if text.is_null() { Ok("") } else { unsafe { CStr::from_ptr(text) }.to_str() }
    };
    let (Ok(name), Ok(unit)) = (text(name), text(unit)) else { return -1 };
    let Some(entry) = (UserCounter { place: 0, name, unit }).to_bytes() else { return -1 };
    // The same name is the same counter, whatever unit is given the second time.
    let name_of = |entry: &Entry| (entry[0], entry[2..].first_chunk::<{ UserCounter::MAX_NAME }>().copied());
    with_names(|names| {
        let n = N.load(Relaxed);
        if let Some(i) = names[..n].iter().position(|known| name_of(known) == name_of(&entry)) {
            return i as c_int;
        }
        let Some(place) = names.get_mut(n) else { return -1 };
        *place = entry;
        N.store(n + 1, Relaxed);
        page::name_user_counter(n, &entry);
        n as c_int
    })
}

/// Adds to a counter.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn iotide_add_now(counter: c_int, more: u64) {
    buffer::add_user(counter as usize, more);
}

/// Hands all names to a new page.
pub fn write_all(mut write: impl FnMut(usize, &Entry)) {
    with_names(|names| names.iter().take(N.load(Relaxed)).enumerate().for_each(|(i, entry)| write(i, entry)));
}

/// In a forked child: whoever held the lock is not here.
pub fn forget_parent() {
    LOCK.store(false, Relaxed);
}

fn with_names<T>(work: impl FnOnce(&mut [Entry; MAX_USER_COUNTERS]) -> T) -> T {
    // A handler that needs it too would wait for ever for the thread it interrupted.
    let _signals = sys::NoSignals::new();
    while LOCK.compare_exchange(false, true, Acquire, Relaxed).is_err() {
        sys::give_way();
    }
    // SAFETY: the lock is ours.
    let result = work(unsafe { &mut *NAMES.0.get() });
    LOCK.store(false, Release);
    result
}
