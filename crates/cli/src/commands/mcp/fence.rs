//! Directories that may be read, and the way of a path into one of them.

use std::collections::BTreeSet;
use std::fs::{FileType, Metadata};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};

use crate::ui::Hint as _;

/// A folder holds no more entries than are looked at.
const MOST_ENTRIES: usize = 200_000;

/// Directories that may be read.
#[derive(Debug)]
pub(super) struct Fence {
    roots: Vec<Root>,
    /// Where the server was started, without links.
    here: PathBuf,
}

#[derive(Debug)]
struct Root {
    /// As it was named, but absolute.
    named: PathBuf,
    /// Without links.
    real: PathBuf,
}

impl Fence {
    /// Opens the directories that were named at the start; none is the current one.
    pub(super) fn new(roots: &[PathBuf]) -> anyhow::Result<Self> {
        let here = std::env::current_dir().and_then(|here| here.canonicalize());
        let here = here.context("cannot find the current directory")?;
        let root = |named: &PathBuf| {
            let real = named.canonicalize().with_context(|| named.display().to_string())?;
            if !real.is_dir() {
                bail!("{} is not a directory", named.display());
            }
            Ok(Root { named: std::path::absolute(named)?, real })
        };
        let roots = match roots {
            [] => vec![Root { named: here.clone(), real: here.clone() }],
            roots => roots.iter().map(root).collect::<anyhow::Result<_>>()?,
        };
        Ok(Self { roots, here })
    }

    /// The directories, without links.
    pub(super) fn roots(&self) -> impl Iterator<Item = &Path> {
        self.roots.iter().map(|root| root.real.as_path())
    }

    /// Returns a path that may be read: in one of the directories, without links, and with nothing in it that is not a file or a folder.
    ///
    /// A relative path is looked for in each directory. A path below the current directory is returned as seen from there.
    pub(super) fn admit(&self, path: &str) -> anyhow::Result<PathBuf> {
        let real = self.find(path).hint(format!("directories that can be read: {}", self.names()))?;
        match real.symlink_metadata().with_context(|| path.to_owned())? {
            kind if kind.is_dir() => self.check_below(&real).with_context(|| path.to_owned())?,
            kind => check_kind(&kind).with_context(|| path.to_owned())?,
        }
        let seen_from_here = real.strip_prefix(&self.here).ok().filter(|_| Path::new(path).is_relative());
        Ok(match seen_from_here {
            // A name that looks like an option, or like standard input, is a file all the same.
            Some(path) if path.as_os_str().as_encoded_bytes().starts_with(b"-") => Path::new(".").join(path),
            Some(path) if path.as_os_str().is_empty() => PathBuf::from("."),
            Some(path) => path.to_owned(),
            None => real,
        })
    }

    /// Names of the directories, for messages.
    pub(super) fn names(&self) -> String {
        let names: Vec<String> = self.roots().map(|root| root.display().to_string()).collect();
        names.join(", ")
    }

    fn find(&self, path: &str) -> anyhow::Result<PathBuf> {
        if path.is_empty() || path.contains('\0') {
            bail!("a path is missing");
        }
        if path.contains("://") {
            bail!("{path}: addresses are not read, only files");
        }
        let given = Path::new(path);
        if given.components().any(|part| part == Component::ParentDir) {
            bail!("{path}: a path must not contain `..`");
        }
        // Whether something exists elsewhere is not told.
        let outside = || anyhow!("{path} is outside of the directories that can be read");
        let candidates: Vec<PathBuf> = match given.is_absolute() {
            false => self.roots.iter().map(|root| root.real.join(given)).collect(),
            true => (self.roots.iter())
                .filter_map(|root| {
                    let below = given.strip_prefix(&root.named).or_else(|_| given.strip_prefix(&root.real));
                    Some(root.real.join(below.ok()?))
                })
                .collect(),
        };
        if candidates.is_empty() {
            return Err(outside());
        }
        let found = candidates.iter().find(|candidate| candidate.symlink_metadata().is_ok());
        let found = found.ok_or_else(|| anyhow!("{path} does not exist"))?;
        let real = found.canonicalize().map_err(|_| outside())?;
        if self.holds(&real) { Ok(real) } else { Err(outside()) }
    }

    fn holds(&self, real: &Path) -> bool {
        self.roots.iter().any(|root| real.starts_with(&root.real))
    }

    /// Checks a folder with all below it: readers open what they find there.
    fn check_below(&self, folder: &Path) -> anyhow::Result<()> {
        let mut folders = vec![folder.to_owned()];
        let mut seen = BTreeSet::from([folder.to_owned()]);
        let mut n_entries = 0;
        while let Some(folder) = folders.pop() {
            for entry in folder.read_dir().with_context(|| folder.display().to_string())? {
                n_entries += 1;
                if n_entries > MOST_ENTRIES {
                    bail!("it holds more than {MOST_ENTRIES} files");
                }
                let path = entry?.path();
                let shown = || path.display().to_string();
                let found = path.symlink_metadata().with_context(shown)?;
                if found.is_dir() {
                    if seen.insert(path.clone()) {
                        folders.push(path);
                    }
                } else if found.is_symlink() {
                    let real = path.canonicalize().ok().filter(|real| self.holds(real));
                    let real = real.ok_or_else(|| {
                        anyhow!("{} leads out of the directories that can be read", path.display())
                    })?;
                    let led_to = real.symlink_metadata().with_context(shown)?;
                    if !led_to.is_dir() {
                        check_kind(&led_to).with_context(shown)?;
                    } else if seen.insert(real.clone()) {
                        folders.push(real);
                    }
                } else {
                    check_kind(&found).with_context(shown)?;
                }
            }
        }
        Ok(())
    }
}

/// A pipe waits for ever, and reading a device may do something.
fn check_kind(found: &Metadata) -> anyhow::Result<()> {
    let is = |test: fn(&FileType) -> bool| test(&found.file_type());
    let what = match () {
        () if found.is_file() => return Ok(()),
        () if is(FileType::is_fifo) => "a pipe",
        () if is(FileType::is_socket) => "a socket",
        () => "a device",
    };
    bail!("it is {what}, not a file")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use iotide_testkit::FreshDir;

    use super::*;

    #[test]
    fn a_path_is_admitted_if_it_stays_inside() {
        let outside = FreshDir::new("mcp-outside");
        let secret = outside.write("secret.csv", "x");
        let root = FreshDir::new("mcp-root");
        let run = root.write("run.csv", "x").canonicalize().unwrap();
        root.write("-", "x");
        std::fs::create_dir(root.join("sub")).unwrap();
        symlink(&secret, root.join("leak.csv")).unwrap();
        symlink(&run, root.join("sub/again.csv")).unwrap();
        symlink("/nowhere/at/all", root.join("broken")).unwrap();
        let fence = Fence::new(&[root.join("")]).unwrap();
        let refused = |path: &str| format!("{:#}", fence.admit(path).unwrap_err());
        assert_eq!(fence.admit("run.csv").unwrap(), run);
        assert_eq!(fence.admit(run.to_str().unwrap()).unwrap(), run);
        assert_eq!(fence.admit("sub/again.csv").unwrap(), run);
        assert!(fence.admit("-").unwrap().is_absolute());
        assert_eq!(fence.admit("sub").unwrap(), run.with_file_name("sub"));
        assert!(refused("../mcp-outside/secret.csv").contains("must not contain `..`"));
        assert!(refused("sub/../run.csv").contains("must not contain `..`"));
        for path in ["leak.csv", "broken", secret.to_str().unwrap(), "/etc/passwd", "/no/such/file"] {
            assert!(refused(path).contains("outside of the directories"), "{path}: {}", refused(path));
        }
        assert!(refused("http://127.0.0.1/run.csv").contains("addresses are not read"));
        assert!(refused("none.csv").contains("does not exist"));
        assert!(refused("").contains("missing") && refused("a\0b").contains("missing"));
        // A folder with a way out in it is refused as a whole.
        assert!(refused(".").contains("leads out of"), "{}", refused("."));
        let siblings = format!("{}-sibling/x", run.parent().unwrap().display());
        assert!(refused(&siblings).contains("outside"));
    }

    #[test]
    fn pipes_and_devices_are_not_read() {
        let root = FreshDir::new("mcp-kinds");
        let pipe = root.join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        let fence = Fence::new(&[root.join(""), PathBuf::from("/dev")]).unwrap();
        let refused = |path: &str| format!("{:#}", fence.admit(path).unwrap_err());
        assert!(refused("pipe").contains("a pipe, not a file"));
        assert!(refused("null").contains("a device, not a file"));
        assert!(refused(root.join("").to_str().unwrap()).contains("a pipe, not a file"));
    }
}
