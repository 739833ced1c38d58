//! Where the programs are that iotide is measured against.

use std::path::PathBuf;

/// Returns where `program` is on `PATH`.
pub(crate) fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Returns the interpreter that `program` was installed for, from its first line: the one that can import its modules.
pub(crate) fn interpreter_of(program: &str) -> Option<PathBuf> {
    let text = std::fs::read_to_string(on_path(program)?).ok()?;
    Some(PathBuf::from(text.lines().next()?.strip_prefix("#!")?.trim()))
}
