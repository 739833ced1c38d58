//! Whether a file is where it should be, for scripts that wait for it.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, openat};

use crate::OWN;
use crate::dirs::Dirs;
use crate::error::StageError;
use crate::journal::{Journal, Known};
use crate::numbers::{Numbers, kind};
use crate::walk::walk;

/// What is known of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// All of it is safe, or has arrived.
    Safe,
    /// Not yet, and a stager is at work.
    Working,
    /// Not yet, and nobody is.
    Nobody,
}

/// The buffer that a path is in: the next directory above it with a journal.
pub fn root_of(path: &Path) -> Result<(PathBuf, Vec<u8>), StageError> {
    let path = std::path::absolute(path).map_err(StageError::io("cannot find", path))?;
    // The name itself may be gone, or may not have come yet; what is above it is there.
    let (above, below): (PathBuf, Vec<_>) = (path.ancestors())
        .find_map(|above| {
            let rest = path.strip_prefix(above).ok()?.components();
            Some((std::fs::canonicalize(above).ok()?, rest.map(|name| name.as_os_str().to_owned()).collect()))
        })
        .ok_or_else(|| StageError::io("cannot find", &path)(io::ErrorKind::NotFound.into()))?;
    let whole = below.iter().fold(above, |path, name| path.join(name));
    let root = whole.ancestors().find(|root| root.join(OWN).join(Journal::NAME).is_file());
    let root = root.ok_or_else(|| {
        StageError::io("nothing was staged from or to", &path)(io::Error::new(
            io::ErrorKind::NotFound,
            format!("no directory above it has {OWN}/{}", Journal::NAME),
        ))
    })?;
    let relative = whole.strip_prefix(root).unwrap_or(&whole).as_os_str().as_bytes().to_owned();
    Ok((root.to_owned(), relative))
}

/// Whether a path of a buffer is safe: the version that is there now, or one that was removed.
pub fn is_safe(root: &Path, path: &[u8]) -> Result<Waited, StageError> {
    let failed = |error| StageError::io("cannot read", root.join(OWN))(error);
    let tree = Dirs::open(root).map_err(failed)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let own = openat(tree.top(), OWN, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
    let (known, is_taken) = Journal::look(&own).map_err(failed)?;
    Ok(match (is_known(&tree, &known, path), is_taken) {
        (true, _) => Waited::Safe,
        (false, true) => Waited::Working,
        (false, false) => Waited::Nobody,
    })
}

fn is_known(tree: &Dirs, known: &Known, path: &[u8]) -> bool {
    let is_version =
        |path: &[u8], numbers: Numbers| known.safe.get(path).is_some_and(|safe| safe.numbers == numbers);
    let Ok(stat) = tree.stat(path) else { return known.purged.contains(path) };
    match kind(&stat) {
        FileType::Directory => {
            let walked = walk(tree);
            let is_below = |other: &[u8]| {
                path.is_empty() || other.strip_prefix(path).is_some_and(|rest| rest.first() == Some(&b'/'))
            };
            let is_file = |kind| matches!(kind, FileType::RegularFile | FileType::Symlink);
            let mut files =
                walked.found.iter().filter(|found| is_below(&found.path) && is_file(kind(&found.stat)));
            walked.errors.is_empty() && files.all(|found| is_version(&found.path, Numbers::of(&found.stat)))
        }
        FileType::RegularFile | FileType::Symlink => is_version(path, Numbers::of(&stat)),
        // Never copied, so never waited for.
        _ => true,
    }
}
