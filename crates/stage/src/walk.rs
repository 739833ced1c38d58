//! Entries of a tree.

use rustix::fs::{AtFlags, Dir, FileType, Stat, statat};
use rustix::io::Errno;

use crate::OWN;
use crate::dirs::{Dirs, join};
use crate::numbers::kind;

/// An entry below the top.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) path: Vec<u8>,
    pub(crate) stat: Stat,
}

/// Result of a walk.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    /// Files, links, directories and the rest, directories before what is in them.
    pub(crate) found: Vec<Found>,
    /// Entries that could not be looked at, and why. They are not absent.
    pub(crate) errors: Vec<(Vec<u8>, String)>,
}

/// Lists a tree. What is ours is left out, and so are other file systems that are mounted in it, which are named.
pub(crate) fn walk(tree: &Dirs) -> Walked {
    let mut walked = Walked::default();
    let device = match tree.stat(&[]) {
        Ok(stat) => stat.st_dev,
        Err(error) => {
            walked.errors.push((Vec::new(), error.to_string()));
            return walked;
        }
    };
    let mut todo = vec![Vec::new()];
    while let Some(path) = todo.pop() {
        let mut below = Vec::new();
        if let Err(error) = list(tree, &path, device, &mut walked, &mut below) {
            // A directory that went since it was seen is no fault.
            if error.kind() != std::io::ErrorKind::NotFound || path.is_empty() {
                walked.errors.push((path, error.to_string()));
            }
        }
        todo.append(&mut below);
    }
    walked
}

fn list(
    tree: &Dirs,
    path: &[u8],
    device: u64,
    walked: &mut Walked,
    below: &mut Vec<Vec<u8>>,
) -> std::io::Result<()> {
    let dir = tree.dir(path)?;
    for entry in Dir::read_from(&*dir)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." || name.starts_with(OWN.as_bytes()) {
            continue;
        }
        let path = join(path, name);
        let stat = match statat(&*dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => continue,
            Err(error) => {
                walked.errors.push((path, error.to_string()));
                continue;
            }
        };
        if kind(&stat) == FileType::Directory {
            if stat.st_dev != device {
                walked.errors.push((path, "another file system is mounted here".to_owned()));
                continue;
            }
            below.push(path.clone());
        }
        walked.found.push(Found { path, stat });
    }
    Ok(())
}
