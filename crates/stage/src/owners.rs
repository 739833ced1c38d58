//! Whose files a stager may use: its own ones in the folder of ours, and at the destination those of the user whose copy it brings.
//!
//! Root may write everywhere, and the trees it stages are shared. Without these rules a user could have root replace the files of another
//! user, open their directories, or believe a journal that nobody but the user has written.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fchmod, fstat, mkdirat, openat, unlinkat};
use rustix::io::Errno;

use crate::OWN;
use crate::batch::ancestors;
use crate::dirs::Dirs;
use crate::journal::Known;
use crate::numbers::kind;

/// Opens a file in a folder of ours. A pipe with its name is an error, and is not waited for.
pub(crate) fn open_own(folder: &OwnedFd, name: &str, flags: OFlags, mode: Mode) -> io::Result<File> {
    let always = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(openat(folder, name, flags | always, mode)?);
    if kind(&fstat(&file)?) != FileType::RegularFile {
        let what = format!("{OWN}/{name} is not a regular file; remove it");
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    Ok(file)
}

/// Opens a folder of our own, made if there is none.
pub(crate) fn make_own_folder(above: &OwnedFd, name: &str, mode: Mode) -> io::Result<OwnedFd> {
    match mkdirat(above, name, mode) {
        Ok(()) => rustix::fs::fsync(above)?,
        Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let folder = open_own_folder(above, name)?;
    if mode == Mode::RWXU && fstat(&folder)?.st_mode & 0o077 != 0 {
        fchmod(&folder, mode)?;
    }
    Ok(folder)
}

/// Opens a folder of our own that is there.
pub(crate) fn open_own_folder(above: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = openat(above, name, flags, Mode::empty())?;
    let owner = fstat(&folder)?.st_uid;
    let own = rustix::process::geteuid().as_raw();
    // Servers that map users give our files another owner, and the folder the same one.
    if owner != own && owner_of_new_files(&folder)? != owner {
        let what = format!("it belongs to uid {owner}; only a folder of uid {own} is used");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    Ok(folder)
}

/// The owner that the file system gives to files that we make.
fn owner_of_new_files(folder: &OwnedFd) -> io::Result<u32> {
    let name = format!("owner-test-{:016x}", crate::stager::new_id()?);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(folder, &*name, flags, Mode::RUSR | Mode::WUSR)?;
    let owner = fstat(&file).map(|stat| stat.st_uid);
    unlinkat(folder, &*name, AtFlags::empty())?;
    Ok(owner?)
}

/// Which entries of a destination may be replaced or changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owners {
    /// The owner of our own files there; `None` where the kernel decides for us, because we are not root.
    ours: Option<u32>,
}

impl Owners {
    /// Takes the rules for a destination with `folder` as the folder of our own.
    pub(crate) fn of(folder: &OwnedFd) -> io::Result<Self> {
        let is_root = rustix::process::geteuid().is_root();
        Ok(Self { ours: if is_root { Some(fstat(folder)?.st_uid) } else { None } })
    }

    /// Refuses an entry `there` of another user than `owner`, the owner of the entry in the source.
    pub(crate) fn check(&self, path: &[u8], there: &Stat, owner: u32, known: &Known) -> Result<(), String> {
        let Some(ours) = self.ours else { return Ok(()) };
        // One that could not be given to its owner, or was not yet, is ours. Where users are mapped, all that we could change is.
        let is_known = || known.directories.contains_key(path) || known.safe.contains_key(path);
        let is_ours = there.st_uid == ours && (ours != 0 || is_known());
        if there.st_uid == owner || is_ours {
            return Ok(());
        }
        let shown = String::from_utf8_lossy(path);
        Err(format!(
            "{shown} in the destination belongs to uid {}, not to {owner}; remove it there to replace it",
            there.st_uid
        ))
    }

    /// Refuses directories above `paths` that belong to another user in the destination than in the source, by their paths.
    pub(crate) fn refused_directories<'p>(
        &self,
        (src, dst): (&Dirs, &Dirs),
        paths: impl Iterator<Item = &'p [u8]>,
        known: &Known,
    ) -> HashMap<Vec<u8>, String> {
        let mut seen: HashMap<&[u8], Option<String>> = HashMap::new();
        if self.ours.is_none() {
            return HashMap::new();
        }
        for dir in paths.flat_map(ancestors).filter(|dir| !dir.is_empty()) {
            seen.entry(dir).or_insert_with(|| {
                // One that is missing has nothing in it that could be changed.
                let (there, here) = (dst.stat(dir).ok()?, src.stat(dir).ok()?);
                self.check(dir, &there, here.st_uid, known).err()
            });
        }
        seen.into_iter().filter_map(|(dir, why)| Some((dir.to_owned(), why?))).collect()
    }
}
