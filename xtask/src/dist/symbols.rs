//! Versions of symbols that a program asks of the C library.

use std::path::Path;

/// Fails if a file names a symbol of a newer C library than `most`.
pub(super) fn check(file: &Path, most: (u32, u32)) -> Result<(), String> {
    let bytes = std::fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    match newest(&bytes) {
        None => Err(format!("{} names no version of the C library", file.display())),
        Some(found) if found > most => Err(format!(
            "{} needs GLIBC_{}.{}, newer than {}.{}; `objdump -T` lists its symbols",
            file.display(),
            found.0,
            found.1,
            most.0,
            most.1
        )),
        Some(_) => Ok(()),
    }
}

/// Returns the newest version that is named anywhere in a file. A name that is no symbol's counts, too: that errs on the safe side.
fn newest(bytes: &[u8]) -> Option<(u32, u32)> {
    const NAME: &[u8] = b"GLIBC_";
    let names = bytes.windows(NAME.len()).enumerate().filter(|(_, window)| *window == NAME);
    let versions = names.filter_map(|(at, _)| {
        let rest = &bytes[at + NAME.len()..];
        let end = rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.').unwrap_or(rest.len());
        let mut parts = std::str::from_utf8(&rest[..end]).ok()?.split('.');
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    });
    versions.max()
}

#[cfg(test)]
mod tests {
    use super::newest;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(newest(b"\0GLIBC_2.9\0GLIBC_2.17\0GLIBC_2.2.5\0GLIBC_PRIVATE\0"), Some((2, 17)));
        assert_eq!(newest(b"\x7fELF"), None);
    }
}
