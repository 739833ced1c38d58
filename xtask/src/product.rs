//! The program that is measured: iotide, as users run it.

use std::path::PathBuf;
use std::process::Command;

use crate::repository;

/// Builds iotide in release mode, and returns where it lies.
pub(crate) fn build() -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--package", "iotide"])
        .current_dir(repository())
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if status.success() { Ok(path()) } else { Err("iotide does not build".to_owned()) }
}

/// Returns where iotide lies once it is built.
pub(crate) fn path() -> PathBuf {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), PathBuf::from);
    target.join("release/iotide")
}
