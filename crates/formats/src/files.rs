//! File names of a trace, each kept once.

use std::collections::HashMap;

use iotide_trace::FileId;

use crate::{
    Place,
    budget::NameBudget,
    losses::{Losses, Nonsense},
};

/// Gives each path its [`FileId`].
#[derive(Default)]
pub(crate) struct Files {
    ids: HashMap<String, FileId>,
    paths: Vec<String>,
    /// Sources name one file many times in a row.
    last: Option<FileId>,
    budget: Budget,
    n_unnamed: u64,
}

struct Budget(NameBudget);

impl Default for Budget {
    fn default() -> Self {
        Self(NameBudget::new(NameBudget::FILES))
    }
}

impl Files {
    /// At most this many files have a name; a trace with more keeps its events and loses further names.
    pub(crate) const MOST: usize = 1 << 22;

    /// The id of `path`.
    pub(crate) fn id(&mut self, path: &str) -> FileId {
        if let Some(last) = self.last
            && self.paths[last.0 as usize] == path
        {
            return last;
        }
        let id = match self.ids.get(path) {
            Some(&id) => id,
            None if self.paths.len() >= Self::MOST || !self.budget.0.takes(path.as_bytes()) => {
                self.n_unnamed += 1;
                return FileId::NONE;
            }
            None => {
                let id = FileId(self.paths.len() as u32);
                self.ids.insert(path.to_owned(), id);
                self.paths.push(path.to_owned());
                id
            }
        };
        self.last = Some(id);
        id
    }

    /// The id of a path as a tracer wrote it, in whatever encoding; [`FileId::NONE`] for no path at all.
    pub(crate) fn id_of_bytes(&mut self, path: &[u8]) -> FileId {
        if path.is_empty() {
            return FileId::NONE;
        }
        self.id(&String::from_utf8_lossy(path))
    }

    /// The table of paths, by id.
    pub(crate) fn into_paths(self, losses: &mut Losses) -> Vec<String> {
        if self.n_unnamed > 0 {
            let (files, bytes) = (Self::MOST, NameBudget::FILES);
            let fault = format!(
                "more than {files} files, or names of more than {bytes} bytes, {} events are without theirs",
                self.n_unnamed
            );
            losses.unknown_size(Place::Whole, Nonsense::new("too many files", fault));
        }
        self.paths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_number_of_bytes_and_what_exceeds_it_is_a_loss() {
        let mut files = Files::default();
        let long = "x".repeat(NameBudget::LONGEST - 8);
        let named = (0..6000).filter(|i| files.id(&format!("{i:08}{long}")) != FileId::NONE).count();
        assert_eq!(named, NameBudget::FILES / NameBudget::LONGEST);
        assert_eq!(files.id(&"y".repeat(NameBudget::LONGEST + 1)), FileId::NONE);
        let mut losses = Losses::default();
        assert_eq!(files.into_paths(&mut losses).len(), named);
        let mut trace = iotide_trace::Trace::default();
        losses.report(&mut trace);
        assert!(trace.losses[0].what.contains("are without theirs"), "{:?}", trace.losses);
    }
}
