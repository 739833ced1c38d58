//! The file that starts this program again, and the arguments it was started with.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

/// A program that runs in an interpreter.
#[derive(Clone, Debug, Default)]
struct Stated {
    program: Option<PathBuf>,
    arguments: Vec<OsString>,
}

static STATED: OnceLock<Stated> = OnceLock::new();

/// Returns the file that starts this program again: what runs, unless that is an interpreter.
pub fn own_program() -> io::Result<PathBuf> {
    match STATED.get().and_then(|stated| stated.program.clone()) {
        Some(program) => Ok(program),
        None => std::env::current_exe(),
    }
}

/// Returns the arguments of this program, without its name.
pub fn own_arguments() -> Vec<OsString> {
    match STATED.get() {
        Some(stated) => stated.arguments.clone(),
        None => std::env::args_os().skip(1).collect(),
    }
}

/// States both where what runs is an interpreter. The first statement counts.
pub fn set_own_program(program: Option<PathBuf>, arguments: Vec<OsString>) {
    let _ = STATED.set(Stated { program, arguments });
}
