//! Which ranks used which file, in bounded memory.

use std::collections::HashSet;

use super::Activity;
use crate::{FileId, Rank};

/// Pairs of file and rank. Where there are too many, neighbouring ranks are taken together until they fit: how many, is
/// decided by all pairs, not by their order.
#[derive(Clone, Debug)]
pub(super) struct FileRanks {
    most: usize,
    /// The file and the rank divided by 2 to the power of `shift`.
    pairs: HashSet<(u32, u32)>,
    shift: u32,
}

impl Default for FileRanks {
    fn default() -> Self {
        Self::up_to(Activity::MOST_PAIRS)
    }
}

impl FileRanks {
    /// Now all ranks are one.
    const ALL_AS_ONE: u32 = 31;

    pub(super) fn up_to(most: usize) -> Self {
        Self { most, pairs: HashSet::new(), shift: 0 }
    }

    /// Adds a rank of zero or more.
    pub(super) fn add(&mut self, file: FileId, rank: Rank) {
        if self.shift >= Self::ALL_AS_ONE {
            return; // then each file has one group, whatever comes
        }
        self.pairs.insert((file.0, rank.0 as u32 >> self.shift));
        while self.pairs.len() > self.most && self.shift < Self::ALL_AS_ONE {
            self.shift += 1;
            self.pairs =
                std::mem::take(&mut self.pairs).into_iter().map(|(file, group)| (file, group >> 1)).collect();
        }
        if self.shift >= Self::ALL_AS_ONE {
            self.pairs = HashSet::new();
        }
    }

    /// Whether a file may have been used by more ranks than [`FileRanks::count`] says.
    pub(super) fn are_more_than_counted(&self) -> bool {
        self.shift > 0
    }

    /// How many ranks, or groups of neighbours, used each of the first `n_files`.
    pub(super) fn count(&self, n_files: usize) -> Vec<u32> {
        let mut counts = vec![0; n_files];
        for &(file, _) in &self.pairs {
            if let Some(count) = counts.get_mut(file as usize) {
                *count += 1;
            }
        }
        counts
    }
}
