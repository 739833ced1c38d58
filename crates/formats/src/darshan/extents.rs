//! How far into each file calls went, over the records of all ranks, and how many bytes they moved.

use iotide_trace::{FileId, FileStake, Rank};

/// What the ranks moved of each file, one direction of one layer. A file that every rank reads as a whole is read many times,
/// although each record for itself says once.
#[derive(Default)]
pub(super) struct Extents {
    /// By number of the file; 32 bytes each.
    files: Vec<Extent>,
    /// What the records of all ranks together say, each for itself.
    whole: Vec<FileStake>,
    bytes_again: f64,
    is_known: bool,
}

/// What one record says.
#[derive(Clone, Copy)]
pub(super) struct Moved {
    pub(super) calls: u64,
    pub(super) bytes: f64,
    pub(super) seconds: f64,
    /// How far into the file, in bytes; `None` if it was not kept.
    pub(super) up_to: Option<u64>,
}

#[derive(Clone, Copy)]
struct Extent {
    bytes: f64,
    /// [`NOT_KNOWN`] if a record of the file does not tell.
    up_to: u64,
    calls: u32,
    seconds: f32,
    /// Who moved them; [`Rank::ALL`] if several did.
    rank: Option<Rank>,
}

const NOT_KNOWN: u64 = u64::MAX;

impl Extents {
    pub(super) fn add(&mut self, file: FileId, rank: Rank, moved: Moved) {
        self.is_known |= moved.up_to.is_some();
        if moved.bytes <= 0.0 {
            return;
        }
        let up_to = moved.up_to.unwrap_or(NOT_KNOWN);
        if rank == Rank::ALL || file == FileId::NONE {
            self.take(file, rank, moved.calls, moved.bytes, moved.seconds, up_to);
            return;
        }
        let id = file.0 as usize;
        if id >= self.files.len() {
            let none = Extent { bytes: 0.0, up_to: 0, calls: 0, seconds: 0.0, rank: None };
            self.files.resize(id + 1, none);
        }
        let known = &mut self.files[id];
        known.bytes += moved.bytes;
        known.up_to = known.up_to.max(up_to);
        known.calls = known.calls.saturating_add(u32::try_from(moved.calls).unwrap_or(u32::MAX));
        known.seconds += moved.seconds as f32;
        known.rank = Some(if known.rank.is_none_or(|known| known == rank) { rank } else { Rank::ALL });
    }

    fn take(&mut self, file: FileId, rank: Rank, calls: u64, bytes: f64, seconds: f64, up_to: u64) {
        let again = bytes - up_to as f64;
        if up_to == NOT_KNOWN || again <= 0.0 {
            return;
        }
        self.bytes_again += again;
        let share = again / bytes;
        let calls = (share * calls as f64).ceil() as u64;
        self.whole.push(FileStake { file, rank, calls, bytes: again, seconds: share * seconds });
    }

    /// The bytes that were moved although as many as the file's extent had been moved already, and the part of each file; no
    /// bytes if no record tells how far calls went.
    pub(super) fn finish(mut self) -> (Option<f64>, Vec<FileStake>) {
        for (id, extent) in (0..).zip(std::mem::take(&mut self.files)) {
            if let Some(rank) = extent.rank {
                let (calls, seconds) = (u64::from(extent.calls), f64::from(extent.seconds));
                self.take(FileId(id), rank, calls, extent.bytes, seconds, extent.up_to);
            }
        }
        (self.is_known.then_some(self.bytes_again), self.whole)
    }
}
