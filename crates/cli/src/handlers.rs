//! Signals, taken back from libraries that were loaded with us.

use signal_hook::consts::{SIGINT, SIGTERM};

/// Undoes handlers of SIGINT and SIGTERM that are there before `main`: libraries have set them.
///
/// Those of Omni-Path, which come with GekkoFS's library, end the program with status 1 as soon as all other handlers have run: nothing could be brought
/// to a good end.
#[allow(unsafe_code)]
pub(crate) fn take_signals_back() {
    for signal in [SIGINT, SIGTERM] {
        // SAFETY: all zeroes is a valid action, the pointers are of that type or null, and the default action needs no handler.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let is_known = libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0;
            if is_known && ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction) {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
    }
}
