//! Where processes keep their counters for others to read.

use std::env;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, Mode, OFlags, accessat, mkdirat, open, openat};
use rustix::io::Errno;

/// Where a machine's daemon keeps the pages of all users: whoever may write there may not remove what is another's.
pub const SITE_PAGES: &str = "/run/iotide/pages";

/// Returns the directory of counter pages: what `IOTIDE_LIVE` says, else that of the machine if it takes ours, else one of the user's own,
/// in `XDG_RUNTIME_DIR` or in `/tmp`. It is there, and no stranger can have put it there.
pub fn pages_directory() -> io::Result<PathBuf> {
    if let Some(stated) = env::var_os("IOTIDE_LIVE").filter(|stated| !stated.is_empty()) {
        let stated = std::path::absolute(PathBuf::from(stated))?;
        if !stated.exists() {
            own_folders(
                stated.parent().unwrap_or(Path::new("/")),
                &[stated.file_name().unwrap_or_default()],
            )?;
        }
        return Ok(stated);
    }
    if is_shared(Path::new(SITE_PAGES)) {
        return Ok(PathBuf::from(SITE_PAGES));
    }
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|runtime| is_private(runtime));
    pages_of_user(runtime.as_deref(), Path::new("/tmp"))
}

/// The user's own directory of pages, made if it is not there.
fn pages_of_user(runtime: Option<&Path>, temporary: &Path) -> io::Result<PathBuf> {
    if let Some(runtime) = runtime
        && let Ok(pages) = own_folders(runtime, &["iotide".as_ref(), "pages".as_ref()])
    {
        return Ok(pages);
    }
    let name = format!("iotide-{}", rustix::process::getuid().as_raw());
    own_folders(temporary, &[name.as_ref(), "pages".as_ref()])
}

/// Whether all users can keep files there, and none can remove those of others.
fn is_shared(path: &Path) -> bool {
    let is_sticky = fs::symlink_metadata(path)
        .is_ok_and(|folder| folder.is_dir() && folder.permissions().mode() & 0o1000 != 0);
    is_sticky
        && accessat(rustix::fs::CWD, path, Access::WRITE_OK | Access::EXEC_OK, rustix::fs::AtFlags::empty())
            .is_ok()
}

/// Whether a folder is this user's and nobody else's.
fn is_private(path: &Path) -> bool {
    path.is_absolute()
        && fs::symlink_metadata(path).is_ok_and(|folder| folder.is_dir() && is_ours_alone(&folder))
}

fn is_ours_alone(folder: &fs::Metadata) -> bool {
    folder.uid() == rustix::process::getuid().as_raw() && folder.permissions().mode() & 0o077 == 0
}

/// Makes folders within each other for this user alone, or finds them so. Follows no link: in `/tmp` anybody may have put one there.
fn own_folders(within: &Path, names: &[&std::ffi::OsStr]) -> io::Result<PathBuf> {
    let mut path = within.to_owned();
    let folder = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let mut here = File::from(open(within, folder, Mode::empty())?);
    for name in names {
        path.push(name);
        match mkdirat(&here, *name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        here = File::from(openat(&here, *name, folder | OFlags::NOFOLLOW, Mode::empty())?);
        let there = here.metadata()?;
        if !there.is_dir() || !is_ours_alone(&there) {
            let what = format!("{} is not this user's alone (mode 0700)", path.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
        }
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::PrivateDir;

    #[test]
    fn a_directory_is_made_for_its_user_alone_and_found_again() {
        let dir = PrivateDir::new("pages").unwrap();
        let pages = pages_of_user(Some(dir.path()), Path::new("/nowhere")).unwrap();
        assert_eq!(pages, dir.path().join("iotide/pages"));
        assert_eq!(fs::metadata(&pages).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(pages_of_user(Some(dir.path()), Path::new("/nowhere")).unwrap(), pages);
        let in_tmp = pages_of_user(None, dir.path()).unwrap();
        assert!(in_tmp.starts_with(dir.path()) && in_tmp.ends_with("pages"));
    }

    #[test]
    fn what_others_could_have_put_there_is_refused() {
        let dir = PrivateDir::new("pages").unwrap();
        let name = format!("iotide-{}", rustix::process::getuid().as_raw());
        symlink(dir.path(), dir.path().join(&name)).unwrap();
        assert!(pages_of_user(None, dir.path()).is_err(), "a link");
        fs::remove_file(dir.path().join(&name)).unwrap();
        fs::create_dir(dir.path().join(&name)).unwrap();
        fs::set_permissions(dir.path().join(&name), fs::Permissions::from_mode(0o777)).unwrap();
        let error = pages_of_user(None, dir.path()).unwrap_err();
        assert!(error.to_string().contains("is not this user's alone"), "{error}");
    }

    #[test]
    fn a_shared_directory_is_one_where_nobody_removes_what_is_anothers() {
        let dir = PrivateDir::new("pages").unwrap();
        let pages = dir.path().join("pages");
        assert!(!is_shared(&pages));
        fs::create_dir(&pages).unwrap();
        assert!(!is_shared(&pages), "not sticky");
        fs::set_permissions(&pages, fs::Permissions::from_mode(0o3733)).unwrap();
        assert!(is_shared(&pages));
    }
}
