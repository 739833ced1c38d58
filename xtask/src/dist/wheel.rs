//! The Python package: module, program and library in one file, for any Python since 3.9.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{GLIBC, Release, output};
use crate::chores::repository;

/// Packs the wheel, and has auditwheel confirm its tag: old symbols, and libraries that every system has.
pub(super) fn pack(release: &Release, module: &Path, out: &Path) -> Result<PathBuf, String> {
    let tag = format!("manylinux_{}_{}_x86_64", GLIBC.0, GLIBC.1);
    let python = release.venv(&["maturin==1.16.0", "auditwheel==6.8.2"])?.join("bin/python3");
    let mut pack = Command::new(&python);
    pack.arg(repository().join("crates/python/wheel.py"))
        .arg(module)
        .arg(out)
        // Its name since 2019, and the one that pip of that time knows.
        .arg(format!("{tag}.manylinux2014_x86_64"))
        .env("SOURCE_DATE_EPOCH", &release.time);
    let wheel = PathBuf::from(output(&mut pack)?.trim());
    let said = output(Command::new(&python).args(["-m", "auditwheel", "show"]).arg(&wheel))?;
    match glibc_of(&said) {
        Some(found) if found <= GLIBC => Ok(wheel),
        _ => Err(format!("{} is not a wheel for {tag}: {said}", wheel.display())),
    }
}

/// Returns the C library that a wheel needs, as auditwheel says it.
fn glibc_of(said: &str) -> Option<(u32, u32)> {
    let (_, rest) = said.split_once("\"manylinux_")?;
    let mut parts = rest.split('_');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::glibc_of;

    #[test]
    fn the_first_tag_that_auditwheel_names_counts() {
        let said = "is consistent with the following platform tag:\n\"manylinux_2_35_x86_64\".\n\nconstrains to \"manylinux_2_5_x86_64\"";
        assert_eq!(glibc_of(said), Some((2, 35)));
        assert_eq!(glibc_of("\"linux_x86_64\""), None);
    }
}
