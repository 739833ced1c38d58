//! File names of a trace, each kept once.

use std::collections::HashMap;

use iotide_trace::FileId;

/// Gives each path its [`FileId`].
#[derive(Default)]
pub(crate) struct Files {
    ids: HashMap<String, FileId>,
    paths: Vec<String>,
    /// Sources name one file many times in a row.
    last: Option<FileId>,
}

impl Files {
    /// At most this many files have a name; a trace with more keeps its events and loses further names.
    const MOST: usize = 1 << 22;

    /// The id of `path`; `None` if there are too many files.
    pub(crate) fn id(&mut self, path: &str) -> Option<FileId> {
        if let Some(last) = self.last
            && self.paths[last.0 as usize] == path
        {
            return Some(last);
        }
        let id = match self.ids.get(path) {
            Some(&id) => id,
            None if self.paths.len() >= Self::MOST => return None,
            None => {
                let id = FileId(self.paths.len() as u32);
                self.ids.insert(path.to_owned(), id);
                self.paths.push(path.to_owned());
                id
            }
        };
        self.last = Some(id);
        Some(id)
    }

    /// The table of paths, by id.
    pub(crate) fn into_paths(self) -> Vec<String> {
        self.paths
    }
}
