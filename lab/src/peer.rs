//! Where the programs are that iotide is measured against.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::repository;

pub(crate) mod ftio;

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

/// Returns an interpreter for which `probe` runs: the one on `PATH`, or one of its own with `package` from PyPI, which is made below `target` once. Says why if there is
/// none.
pub(crate) fn python_with(package: &str, probe: &str) -> Option<PathBuf> {
    let knows = |python: &Path| {
        Command::new(python).args(["-c", probe]).output().is_ok_and(|output| output.status.success())
    };
    let python = on_path("python3");
    if let Some(python) = python.clone().filter(|python| knows(python)) {
        return Some(python);
    }
    let made = python.ok_or_else(|| "there is no python3 on PATH".to_owned()).and_then(|python| {
        let folder = repository().join("target/peers").join(package);
        let own = folder.join("bin/python3");
        if own.is_file() && knows(&own) {
            return Ok(own);
        }
        ran(Command::new(python).args(["-m", "venv", "--clear"]).arg(&folder))?;
        ran(Command::new(&own).args(["-m", "pip", "install", "--quiet", package]))?;
        if knows(&own) { Ok(own) } else { Err(format!("it does not work: {probe}")) }
    });
    made.inspect_err(|why| eprintln!("no {package} for Python: {why}; measuring iotide alone")).ok()
}

fn ran(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or_default().trim();
    if output.status.success() { Ok(()) } else { Err(last.to_owned()) }
}
