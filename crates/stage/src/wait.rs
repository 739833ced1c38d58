//! Whether a file is where it should be, for scripts that wait for it.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, openat};

use crate::OWN;
use crate::dirs::Dirs;
use crate::error::StageError;
use crate::filter::Filter;
use crate::journal::{Journal, Known};
use crate::numbers::{Numbers, kind};
use crate::stager::PATTERNS;
use crate::walk::{Found, walk};

/// State of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// All of it is safe, or has arrived.
    Safe,
    /// Not yet, and a stager is at work.
    Working,
    /// Not yet, and nobody is.
    Nobody,
    /// It is a file that is left out, and so never will be.
    LeftOut,
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
    let filter = filter_of(&own);
    let is_left_out = || !filter.takes(path) && !is_directory(&tree, path);
    Ok(match (is_known(&tree, &known, &filter, path), is_taken) {
        (true, _) => Waited::Safe,
        (false, _) if is_left_out() => Waited::LeftOut,
        (false, true) => Waited::Working,
        (false, false) => Waited::Nobody,
    })
}

/// Whether a stager is at work on a buffer; nobody is if that cannot be seen.
pub fn is_being_staged(root: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let own = Dirs::open(root).and_then(|tree| Ok(openat(tree.top(), OWN, flags, Mode::empty())?));
    own.and_then(|own| Journal::is_taken(&own)).unwrap_or(false)
}

/// More than this are no patterns of ours.
const MAX_PATTERNS: u64 = 1 << 20;

/// Which files are staged, as far as the one who stages has said; all, if nobody has.
fn filter_of(own: &OwnedFd) -> Filter {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let read = || {
        let mut bytes = Vec::new();
        let file = File::from(openat(own, PATTERNS, flags, Mode::empty()).ok()?);
        file.take(MAX_PATTERNS).read_to_end(&mut bytes).ok()?;
        Filter::from_bytes(&bytes)
    };
    read().unwrap_or_default()
}

fn is_directory(tree: &Dirs, path: &[u8]) -> bool {
    tree.stat(path).is_ok_and(|stat| kind(&stat) == FileType::Directory)
}

fn is_known(tree: &Dirs, known: &Known, filter: &Filter, path: &[u8]) -> bool {
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
            let is_meant = |found: &&Found| {
                is_below(&found.path) && is_file(kind(&found.stat)) && filter.takes(&found.path)
            };
            let mut files = walked.found.iter().filter(is_meant);
            walked.errors.is_empty() && files.all(|found| is_version(&found.path, Numbers::of(&found.stat)))
        }
        FileType::RegularFile | FileType::Symlink => is_version(path, Numbers::of(&stat)),
        // Never copied, so never waited for.
        _ => true,
    }
}
