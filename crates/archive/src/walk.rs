//! The logs of an archive, in an order that depends on nothing but their paths.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::shard::Shard;
use crate::sort::{Sorted, Sorter};

/// Where logs come from.
#[derive(Clone, Debug)]
pub enum Logs {
    /// Every file below these folders, and these files.
    ///
    /// Names that begin with a dot are passed over. A folder that is itself one trace (of Recorder, or of `iotide
    /// record`) is one log. Links to files are followed, links to folders are listed as rejected.
    Below(Vec<PathBuf>),
    /// The paths in this file, one a line.
    ListedIn(PathBuf),
}

/// One thing found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Log(Place),
    /// Something that cannot be a log, and why.
    Unusable {
        place: Place,
        why: String,
    },
}

/// Where a log is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its path as results name it, by which everything is sorted; a folder's ends with `/`.
    pub path: String,
    /// Where it really is, if its name is not valid UTF-8: results are text.
    pub real: Option<PathBuf>,
    /// The same below the folder that was given.
    relative_from: usize,
}

impl Place {
    pub(crate) fn relative(&self) -> &str {
        &self.path[self.relative_from..]
    }

    /// Where to open it.
    pub(crate) fn real(&self) -> &Path {
        self.real.as_deref().unwrap_or(Path::new(&self.path))
    }
}

/// A name as text; bytes that are not UTF-8 as `\xff`, so that no two names become the same.
fn as_text(name: &[u8]) -> Cow<'_, str> {
    if let Ok(name) = str::from_utf8(name) {
        return Cow::Borrowed(name);
    }
    let mut text = String::new();
    for chunk in name.utf8_chunks() {
        text.push_str(chunk.valid());
        chunk.invalid().iter().for_each(|byte| text.push_str(&format!("\\x{byte:02x}")));
    }
    Cow::Owned(text)
}

/// Walks the logs of a shard in the order of the bytes of their paths.
///
/// It keeps a level of names for each folder above the present one, each beyond a few MiB on disk, in `scratch`.
pub(crate) struct Walk {
    scratch: PathBuf,
    shard: Shard,
    /// Not to be looked into: where the results go.
    closed: Option<PathBuf>,
    levels: Vec<Level>,
}

/// Names of a folder that are still to be visited.
struct Level {
    /// Prefix of its names; ends with `/` unless it is empty.
    prefix: String,
    /// The folder itself, if its name is not valid UTF-8.
    real: Option<PathBuf>,
    relative_from: usize,
    /// Whether it names the logs themselves: a list.
    is_list: bool,
    /// Names, a folder's with a final `/`.
    names: Sorted,
    last: Vec<u8>,
}

impl Walk {
    pub(crate) fn new(logs: &Logs, shard: Shard, closed: Option<&Path>, scratch: &Path) -> io::Result<Self> {
        let mut names = Sorter::new(scratch);
        let is_list = match logs {
            Logs::Below(roots) => {
                for root in roots {
                    let mut name = root.as_os_str().as_encoded_bytes().to_vec();
                    while name.len() > 1 && name.last() == Some(&b'/') {
                        name.pop();
                    }
                    if fs::metadata(root)?.is_dir() && name.last() != Some(&b'/') {
                        name.push(b'/');
                    }
                    names.push(&name)?;
                }
                false
            }
            Logs::ListedIn(list) => {
                let mut lines: Box<dyn BufRead> = if list == Path::new("-") {
                    Box::new(io::stdin().lock())
                } else {
                    Box::new(io::BufReader::new(fs::File::open(list)?))
                };
                let mut line = Vec::new();
                while lines.read_until(b'\n', &mut line)? > 0 {
                    let name = line.trim_ascii();
                    if !name.is_empty() {
                        names.push(name)?;
                    }
                    line.clear();
                }
                true
            }
        };
        let top = Level {
            prefix: String::new(),
            real: None,
            relative_from: 0,
            is_list,
            names: names.finish()?,
            last: Vec::new(),
        };
        let closed = closed.and_then(|closed| closed.canonicalize().ok());
        Ok(Self { scratch: scratch.to_owned(), shard, closed, levels: vec![top] })
    }

    /// Returns the next thing found.
    pub(crate) fn next_found(&mut self) -> io::Result<Option<Found>> {
        loop {
            let depth = self.levels.len();
            let Some(level) = self.levels.last_mut() else { return Ok(None) };
            let Some(name) = level.names.next_record()? else {
                self.levels.pop();
                continue;
            };
            // Twice in a list, or a folder and one within it.
            if name == level.last || (depth == 1 && !level.is_list && is_within(&name, &level.last)) {
                continue;
            }
            let is_folder = name.last() == Some(&b'/') && !level.is_list;
            let text = as_text(&name);
            let path = format!("{}{text}", level.prefix);
            let is_text = matches!(text, Cow::Borrowed(_)) && level.real.is_none();
            let real = (!is_text).then(|| {
                let folder = level.real.as_deref().unwrap_or(Path::new(&level.prefix));
                folder.join(OsStr::from_bytes(&name))
            });
            // Of a root that is a folder, what matters is what is below it.
            let relative_from = if depth == 1 && is_folder { path.len() } else { level.relative_from };
            let place = Place { path, real, relative_from };
            level.last = name;
            if !is_folder && !self.shard.holds(place.relative()) {
                continue;
            }
            if !is_folder {
                return Ok(Some(Found::Log(place)));
            }
            if let Some(found) = self.enter(place)? {
                return Ok(Some(found));
            }
        }
    }

    /// Goes into a folder, unless it is a log itself or cannot be entered.
    fn enter(&mut self, place: Place) -> io::Result<Option<Found>> {
        let folder = place.real();
        if let Some(closed) = &self.closed
            && folder.canonicalize().is_ok_and(|folder| folder == *closed)
        {
            return Ok(None);
        }
        if iotide_formats::is_one_trace(folder) {
            return Ok(self.shard.holds(place.relative()).then_some(Found::Log(place)));
        }
        match self.names_in(folder) {
            Ok(names) => {
                let Place { path: prefix, real, relative_from } = place;
                self.levels.push(Level {
                    prefix,
                    real,
                    relative_from,
                    is_list: false,
                    names,
                    last: Vec::new(),
                });
                Ok(None)
            }
            Err(error) => {
                let why = format!("the folder cannot be listed: {error}");
                Ok(self.shard.holds(place.relative()).then_some(Found::Unusable { place, why }))
            }
        }
    }

    fn names_in(&self, folder: &Path) -> io::Result<Sorted> {
        let mut names = Sorter::new(&self.scratch);
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let mut name = entry.file_name().into_encoded_bytes();
            if name.starts_with(b".") {
                continue;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                name.push(b'/');
            }
            names.push(&name)?;
        }
        names.finish()
    }
}

fn is_within(name: &[u8], folder: &[u8]) -> bool {
    folder.last() == Some(&b'/') && name.starts_with(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;

    fn walked(logs: &Logs, shard: Shard, closed: Option<&Path>, dir: &FreshDir) -> Vec<String> {
        let mut walk = Walk::new(logs, shard, closed, dir.path()).unwrap();
        let mut found = Vec::new();
        let here = format!("{}/", dir.path().display());
        while let Some(next) = walk.next_found().unwrap() {
            found.push(match next {
                Found::Log(place) => place.path.replace(&here, ""),
                Found::Unusable { place, why } => format!("{} ({why})", place.path.replace(&here, "")),
            });
        }
        found
    }

    fn tree() -> FreshDir {
        let dir = FreshDir::new("walk");
        for folder in ["a", "a/b", "a-x", "results", "rec"] {
            fs::create_dir(dir.join(folder)).unwrap();
        }
        for file in
            ["a/b/2", "a/b/1", "a/z", "a.csv", "a-x/3", ".hidden", "results/runs.jsonl", "rec/recorder.mt"]
        {
            dir.write(file, "x");
        }
        dir
    }

    #[test]
    fn logs_come_in_the_order_of_their_paths() {
        let dir = tree();
        let logs = Logs::Below(vec![dir.path().to_owned()]);
        let found = walked(&logs, Shard::WHOLE, Some(&dir.join("results")), &dir);
        assert_eq!(found, ["a-x/3", "a.csv", "a/b/1", "a/b/2", "a/z", "rec/"]);
        let mut sorted = found.clone();
        sorted.sort();
        assert_eq!(found, sorted, "as bytes sort them: resuming relies on it");
    }

    #[test]
    fn a_folder_within_another_is_walked_once() {
        let dir = tree();
        let logs = Logs::Below(vec![dir.join("a/b"), dir.join("a"), dir.join("a.csv"), dir.join("a")]);
        assert_eq!(walked(&logs, Shard::WHOLE, None, &dir), ["a.csv", "a/b/1", "a/b/2", "a/z"]);
    }

    #[test]
    fn a_list_may_be_in_any_order_and_name_things_twice() {
        let dir = tree();
        let list = dir.write("list", "b.csv\n\n a.csv\nc d.csv\r\nb.csv\n");
        assert_eq!(walked(&Logs::ListedIn(list), Shard::WHOLE, None, &dir), ["a.csv", "b.csv", "c d.csv"]);
    }

    #[test]
    fn shards_are_the_same_wherever_the_archive_lies() {
        let (here, there) = (tree(), tree());
        let mut all = Vec::new();
        for part in 0..3 {
            let shard = Shard::new(part, 3).unwrap();
            let found = |dir: &FreshDir| walked(&Logs::Below(vec![dir.path().to_owned()]), shard, None, dir);
            assert_eq!(found(&here), found(&there));
            all.extend(found(&here));
        }
        all.sort();
        assert_eq!(all, ["a-x/3", "a.csv", "a/b/1", "a/b/2", "a/z", "rec/", "results/runs.jsonl"]);
    }

    #[test]
    fn a_name_that_is_no_text_is_found_under_a_name_that_is() {
        let dir = FreshDir::new("walk-bytes");
        fs::create_dir(dir.join(OsStr::from_bytes(b"d\xfe"))).unwrap();
        for name in [&b"\xff.csv"[..], b"\xfe.csv", b"d\xfe/a.csv"] {
            dir.write(OsStr::from_bytes(name), "x");
        }
        let logs = Logs::Below(vec![dir.path().to_owned()]);
        assert_eq!(walked(&logs, Shard::WHOLE, None, &dir), ["d\\xfe/a.csv", "\\xfe.csv", "\\xff.csv"]);
        let mut walk = Walk::new(&logs, Shard::WHOLE, None, dir.path()).unwrap();
        while let Some(Found::Log(place)) = walk.next_found().unwrap() {
            assert_eq!(fs::read(place.real()).unwrap(), b"x");
        }
    }

    #[test]
    fn a_root_that_is_not_there_is_an_error() {
        let dir = FreshDir::new("walk-none");
        assert!(Walk::new(&Logs::Below(vec![dir.join("no")]), Shard::WHOLE, None, dir.path()).is_err());
    }
}
