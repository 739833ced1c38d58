//! The file that starts this program again.

use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

static STATED: OnceLock<PathBuf> = OnceLock::new();

/// Returns the file that starts this program again: what runs, unless it is something that runs others, and said so.
pub fn own_program() -> io::Result<PathBuf> {
    match STATED.get() {
        Some(program) => Ok(program.clone()),
        None => std::env::current_exe(),
    }
}

/// States the file that starts this program again, where what runs is an interpreter. The first word counts.
pub fn set_own_program(program: PathBuf) {
    let _ = STATED.set(program);
}
