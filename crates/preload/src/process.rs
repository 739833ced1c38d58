//! Hooks of the ends of a process: what it leaves behind must be written before.

use core::ffi::{c_char, c_int, c_void};

use iotide_wire::EndReason;

use crate::guard::KeepErrno;
use crate::lifecycle;
use crate::next::hooks;

hooks! {
    fn _exit(status: c_int) -> c_int |next| { finish(EndReason::Exit); next(status) }
    fn _Exit(status: c_int) -> c_int |next| { finish(EndReason::Exit); next(status) }
    fn quick_exit(status: c_int) -> c_int |next| { finish(EndReason::Exit); next(status) }
    fn abort() -> c_int |next| { finish(EndReason::Abort); next() }

    fn execve(path: *const c_char, arguments: *const c_void, environment: *const c_void) -> c_int |next| { finish(EndReason::Exec); next(path, arguments, environment) }
    fn execv(path: *const c_char, arguments: *const c_void) -> c_int |next| { finish(EndReason::Exec); next(path, arguments) }
    fn execvp(file: *const c_char, arguments: *const c_void) -> c_int |next| { finish(EndReason::Exec); next(file, arguments) }
    fn execvpe(file: *const c_char, arguments: *const c_void, environment: *const c_void) -> c_int |next| { finish(EndReason::Exec); next(file, arguments, environment) }
    fn fexecve(fd: c_int, arguments: *const c_void, environment: *const c_void) -> c_int |next| { finish(EndReason::Exec); next(fd, arguments, environment) }
    fn execveat(at: c_int, path: *const c_char, arguments: *const c_void, environment: *const c_void, flags: c_int) -> c_int |next| {
        finish(EndReason::Exec);
        next(at, path, arguments, environment, flags)
    }
}

fn finish(reason: EndReason) {
    let _errno = KeepErrno::now();
    lifecycle::finish(reason);
}

/// Called by the trampolines of `execl`, `execlp` and `execle` before they go on.
pub extern "C" fn before_exec() {
    finish(EndReason::Exec);
}

/// Writes out what has been recorded so far: for programs that mark the end of an I/O phase, as TMIO's users do.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn iotide_flush() {
    let _errno = KeepErrno::now();
    lifecycle::flush();
}

/// The same for Fortran: `call iotide_flush()`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn iotide_flush_() {
    iotide_flush();
}
