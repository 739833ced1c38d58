//! Files that nobody else can read.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

use crate::OpenDir;

/// Opens a file of ours, or of root, that nobody else can read; `None` if others can.
pub fn open_secret(path: &Path) -> io::Result<Option<File>> {
    let file = crate::open_ordinary(path)?;
    let metadata = file.metadata()?;
    let is_ours = crate::is_our_user(Some(metadata.uid()));
    Ok((is_ours && metadata.mode() & 0o077 == 0).then_some(file))
}

/// Makes a file that only its owner can read: us, or the user that is named. It exists whole or not at all, also after a full disk or a loss of
/// power.
pub fn write_secret(path: &Path, text: &str, owner: Option<u32>) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut part = OpenDir::open(path.parent().unwrap_or(Path::new("")))?.replace_secret(name)?;
    part.write_all(text.as_bytes())?;
    part.file().set_permissions(Permissions::from_mode(0o400))?;
    let is_ours = owner.is_none_or(|owner| owner == rustix::process::geteuid().as_raw());
    if !is_ours && rustix::process::geteuid().is_root() {
        fchown(part.file(), owner, None)?;
    }
    part.finish_new_durably()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;
    use std::fs::set_permissions;
    use std::io::Read;

    #[test]
    fn a_secret_that_others_could_read_is_not_read() {
        let dir = FreshDir::new("secrets");
        let path = dir.join("key");
        write_secret(&path, "text", None).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o400);
        let mut text = String::new();
        open_secret(&path).unwrap().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "text");
        assert!(write_secret(&path, "other", None).is_err(), "nothing is replaced");
        for mode in [0o440, 0o404, 0o420, 0o401] {
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert!(open_secret(&path).unwrap().is_none(), "{mode:o}");
        }
    }
}
