//! Files that nobody else can read.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::Path;

/// Opens a file of ours, or of root, that nobody else can read; `None` if others can.
pub fn open_secret(path: &Path) -> io::Result<Option<File>> {
    let file = crate::open_ordinary(path)?;
    let metadata = file.metadata()?;
    let is_ours = crate::is_our_user(Some(metadata.uid()));
    Ok((is_ours && metadata.mode() & 0o077 == 0).then_some(file))
}

/// Makes a file that only its owner can read: us, or the user that is named.
pub fn write_secret(path: &Path, text: &str, owner: Option<u32>) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o400)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    let is_ours = owner.is_none_or(|owner| owner == rustix::process::geteuid().as_raw());
    if !is_ours && rustix::process::geteuid().is_root() {
        fchown(&file, owner, None)?;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;
    use std::fs::{Permissions, set_permissions};
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;

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
