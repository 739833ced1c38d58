//! The directory of counter pages.

use std::fs::{DirBuilder, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use crate::config::ServeError;
use crate::serve::{in_directory, make_directory};

/// The group that the pages of a machine's daemon belong to, if there is such a group.
const GROUP: &str = "iotide";
/// Everyone may make files; nobody sees or removes another's.
const SHARED: u32 = 0o1733;
/// The same, and files belong to the directory's group: a daemon in it needs not be root to read them.
const GROUPED: u32 = 0o3733;

/// Returns the group of pages: the one that is named, or the usual one if it is there.
pub fn group_of_pages(named: Option<&str>) -> Result<Option<u32>, ServeError> {
    let name = named.unwrap_or(GROUP);
    match nix::unistd::Group::from_name(name) {
        Ok(Some(group)) => Ok(Some(group.gid.as_raw())),
        _ if named.is_none() => Ok(None),
        _ => Err(ServeError::Group(name.to_owned())),
    }
}

/// Makes the directory if there is none. One that is there keeps its mode, unless it was made here before there was a group.
pub(crate) fn make_pages_directory(path: &Path, group: Option<&str>) -> Result<(), ServeError> {
    if let Some(parent) = path.parent() {
        make_directory(parent)?;
    }
    let is_root = rustix::process::geteuid().is_root();
    let gid = if is_root { group_of_pages(group)? } else { None };
    let is_new = match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(in_directory(path)(error)),
    };
    let mode = match (is_root, gid) {
        (false, _) => 0o700,
        (true, None) => SHARED,
        (true, Some(_)) => GROUPED,
    };
    let was_made_here = |metadata: &Metadata| {
        let of_now = metadata.mode() & 0o7777;
        metadata.is_dir() && metadata.uid() == 0 && [SHARED, GROUPED].contains(&of_now)
    };
    (|| {
        let is_ours = is_new || is_root && was_made_here(&path.symlink_metadata()?);
        if !is_ours {
            return Ok(());
        }
        // The group first: without it, the bit would give files of users to root's group.
        std::os::unix::fs::chown(path, None, gid)?;
        // The umask does not count here.
        std::fs::set_permissions(path, Permissions::from_mode(mode))
    })()
    .map_err(in_directory(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;

    fn mode_and_group(path: &Path) -> (u32, u32) {
        let metadata = path.metadata().unwrap();
        (metadata.mode() & 0o7777, metadata.gid())
    }

    #[test]
    fn pages_belong_to_the_group_and_a_directory_of_the_sites_own_is_left_alone() {
        let dir = FreshDir::new("pages-group");
        if !rustix::process::geteuid().is_root() {
            make_pages_directory(&dir.join("own"), None).unwrap();
            assert_eq!(mode_and_group(&dir.join("own")).0, 0o700);
            return iotide_testkit::skip(iotide_testkit::Missing::Data, "rights of root, to serve all");
        }
        // A group that every machine has.
        let (name, gid) = ("daemon", group_of_pages(Some("daemon")).unwrap().unwrap());
        make_pages_directory(&dir.join("new"), Some(name)).unwrap();
        assert_eq!(mode_and_group(&dir.join("new")), (0o3733, gid));
        // One that was made before there was a group.
        let old = dir.join("old");
        std::fs::create_dir(&old).unwrap();
        std::fs::set_permissions(&old, Permissions::from_mode(0o1733)).unwrap();
        make_pages_directory(&old, Some(name)).unwrap();
        assert_eq!(mode_and_group(&old), (0o3733, gid));
        // A page in it belongs to the group.
        std::fs::write(old.join("1.page"), "").unwrap();
        assert_eq!(old.join("1.page").metadata().unwrap().gid(), gid);
        let sites = dir.join("sites");
        std::fs::create_dir(&sites).unwrap();
        std::fs::set_permissions(&sites, Permissions::from_mode(0o1777)).unwrap();
        make_pages_directory(&sites, Some(name)).unwrap();
        assert_eq!(mode_and_group(&sites), (0o1777, 0));
        let error = make_pages_directory(&dir.join("none"), Some("no-such-group")).unwrap_err();
        assert_eq!(error.to_string(), "there is no group 'no-such-group' on this machine");
        assert!(!dir.join("none").exists());
    }
}
