//! Hooks of the ends of a process: what it leaves behind must be written before.

use core::ffi::{c_char, c_int, c_void};
use core::ptr::null;

use iotide_wire::EndReason;

use crate::exec::{self, Prepared, Strings};
use crate::guard::KeepErrno;
use crate::lifecycle;
use crate::next::hooks;
use crate::page;

hooks! {
    fn _exit(status: c_int) -> c_int |next| { finish(EndReason::Exit); next(status) }
    fn _Exit(status: c_int) -> c_int |next| { finish(EndReason::Exit); next(status) }
    fn quick_exit(status: c_int) -> c_int |next| { finish(EndReason::Exit); next(status) }
    fn abort() -> c_int |next| { finish(EndReason::Abort); next() }

    fn execve(path: *const c_char, arguments: Strings, environment: Strings) -> c_int |next| {
        leave(path, Named::Path, environment, |environment| next(path, arguments, environment))
    }
    fn execvpe(file: *const c_char, arguments: Strings, environment: Strings) -> c_int |next| {
        leave(file, Named::Searched, environment, |environment| next(file, arguments, environment))
    }
    fn fexecve(fd: c_int, arguments: Strings, environment: Strings) -> c_int |next| {
        leave(null(), Named::Path, environment, |environment| next(fd, arguments, environment))
    }
    fn execveat(at: c_int, path: *const c_char, arguments: Strings, environment: Strings, flags: c_int) -> c_int |next| {
        leave(null(), Named::Path, environment, |environment| next(at, path, arguments, environment, flags))
    }
    // These two hand on the environment of the process. It is changed by a program that calls `clearenv`, so it is handed on in so many words.
    fn execv(path: *const c_char, arguments: Strings) -> c_int |next| {
        leave(path, Named::Path, exec::environ(), |environment| if environment == exec::environ() { next(path, arguments) } else { libc::execve(path, arguments, environment) })
    }
    fn execvp(file: *const c_char, arguments: Strings) -> c_int |next| {
        leave(file, Named::Searched, exec::environ(), |environment| if environment == exec::environ() { next(file, arguments) } else { libc::execvpe(file, arguments, environment) })
    }

    fn posix_spawn(child: *mut c_int, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Strings, environment: Strings) -> c_int |next| {
        prepared(path, Named::Path, environment, |environment| next(child, path, actions, attributes, arguments, environment))
    }
    fn posix_spawnp(child: *mut c_int, file: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Strings, environment: Strings) -> c_int |next| {
        prepared(file, Named::Searched, environment, |environment| next(child, file, actions, attributes, arguments, environment))
    }
}

/// How a program is named: by its path, or by a name that is looked for along `PATH`.
enum Named {
    Path,
    Searched,
}

/// Lets a process become another program.
fn leave(
    path: *const c_char,
    named: Named,
    environment: Strings,
    call: impl FnOnce(Strings) -> c_int,
) -> c_int {
    prepared(path, named, environment, |environment| {
        finish(EndReason::Exec);
        let result = call(environment);
        // Only one that could not become another program comes here.
        let _errno = KeepErrno::now();
        page::goes_on();
        result
    })
}

/// Starts a program with the tracer in its environment, and takes note if that is of no use.
fn prepared(
    path: *const c_char,
    named: Named,
    environment: Strings,
    call: impl FnOnce(Strings) -> c_int,
) -> c_int {
    let kept = KeepErrno::now();
    let mut room = Prepared::new();
    let environment = room.with_ours(environment);
    exec::look_at(path, matches!(named, Named::Searched), environment);
    drop(kept);
    call(environment)
}

fn finish(reason: EndReason) {
    let _errno = KeepErrno::now();
    lifecycle::finish(reason);
}

/// Called by the trampolines of `execl`, `execlp` and `execle` before they go on. Their environment is left as it is.
pub fn before_exec(path: *const c_char, searched: bool) {
    let _errno = KeepErrno::now();
    exec::look_at(path, searched, exec::environ());
    lifecycle::finish(EndReason::Exec);
}

/// Writes out what has been recorded so far: for programs that mark the end of an I/O phase, as TMIO's users do.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn iotide_flush() {
    let _errno = KeepErrno::now();
    lifecycle::flush();
}

/// The same under the name that `iotide.h` looks for: there, `iotide_flush` is a function that does nothing without us.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn iotide_flush_now() {
    iotide_flush();
}

/// The same for Fortran: `call iotide_flush()`.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub extern "C" fn iotide_flush_() {
    iotide_flush();
}
