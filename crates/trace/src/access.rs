//! Counts of how bytes were accessed, for sources without single calls and their offsets.

use crate::{FileId, FileLayout, FileRecord, Layer, Rank};

/// Counters of one layer, summed over its records. What the source does not count is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccessFacts {
    /// The layer that counted.
    pub layer: Layer,
    /// Reads.
    pub reads: WayFacts,
    /// Writes.
    pub writes: WayFacts,
    /// Operations of each rank, or of all together, on each file; other layers' records may come with those of this one.
    pub records: Vec<FileRecord>,
    /// Which files are on which storage targets.
    pub layouts: Vec<FileLayout>,
    /// How many storage targets the file system has, as far as the source tells.
    pub n_targets: Option<u32>,
    /// Sums over each function of the layer, by its own name, where the source has names; ascending by name.
    pub functions: Vec<FunctionSums>,
    /// Bytes that single ranks moved of files of which only the bytes of all ranks together come as events; ascending by rank. Others
    /// may have moved more.
    pub rank_parts: Vec<RankPart>,
    /// Bytes moved of each file, where the bytes come as events that name none; ascending by file.
    pub file_bytes: Vec<FileBytes>,
    /// Sizes and order of calls, as Darshan counts them.
    pub shape: crate::CallShape,
}

/// Bytes moved of one file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FileBytes {
    /// The file.
    pub file: FileId,
    /// Bytes read.
    pub read: f64,
    /// Bytes written.
    pub written: f64,
}

/// Bytes that one rank moved of files that ranks share, as far as the source reports them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankPart {
    /// The rank.
    pub rank: Rank,
    /// Its bytes, read and written.
    pub bytes: f64,
}

/// Sums over the calls of one function: `pwrite64`, `MPI_File_write_at_all`.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionSums {
    /// Its name.
    pub name: String,
    /// How often it was called.
    pub calls: u64,
    /// Bytes they moved.
    pub bytes: f64,
    /// Time in it, summed over the ranks; 0 if the source does not tell.
    pub seconds: f64,
}

/// Counters of reads, or of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WayFacts {
    /// All calls.
    pub calls: u64,
    /// Calls of less than a megabyte.
    pub small: Option<u64>,
    /// Calls at a higher offset than the one before.
    pub sequential: Option<u64>,
    /// Calls that go back in their file. The first call of a rank after it opened the file goes back from nowhere, and is
    /// not among them.
    pub random: Option<u64>,
    /// Calls that all ranks make together.
    pub collective: Option<u64>,
    /// Calls that a rank makes on its own.
    pub independent: Option<u64>,
    /// Calls that return before their bytes are moved.
    pub nonblocking: Option<u64>,
}

impl AccessFacts {
    /// Adds what another part of the run counted in the same layer.
    pub fn join(&mut self, other: &Self) {
        self.reads.join(other.reads);
        self.writes.join(other.writes);
        self.records.extend_from_slice(&other.records);
        self.layouts.extend_from_slice(&other.layouts);
        self.n_targets = self.n_targets.max(other.n_targets);
        for function in &other.functions {
            match self.functions.binary_search_by(|known| known.name.cmp(&function.name)) {
                Ok(at) => {
                    let known = &mut self.functions[at];
                    known.calls = known.calls.saturating_add(function.calls);
                    known.bytes += function.bytes;
                    known.seconds += function.seconds;
                }
                Err(at) => self.functions.insert(at, function.clone()),
            }
        }
        for part in &other.rank_parts {
            match self.rank_parts.binary_search_by_key(&part.rank, |known| known.rank) {
                Ok(at) => self.rank_parts[at].bytes += part.bytes,
                Err(at) => self.rank_parts.insert(at, *part),
            }
        }
        for part in &other.file_bytes {
            match self.file_bytes.binary_search_by_key(&part.file, |known| known.file) {
                Ok(at) => {
                    self.file_bytes[at].read += part.read;
                    self.file_bytes[at].written += part.written;
                }
                Err(at) => self.file_bytes.insert(at, *part),
            }
        }
        self.shape.join(&other.shape);
    }

    /// The number that every file has in a run of which this is a part: `base` is added to each.
    pub fn renumber_files(&mut self, base: u32) {
        let renumber = |file: &mut FileId| {
            if *file != FileId::NONE {
                *file = FileId(file.0.saturating_add(base));
            }
        };
        self.records.iter_mut().for_each(|record| renumber(&mut record.file));
        self.layouts.iter_mut().for_each(|layout| renumber(&mut layout.file));
        self.file_bytes.iter_mut().for_each(|part| renumber(&mut part.file));
    }
}

impl WayFacts {
    fn join(&mut self, other: Self) {
        self.calls += other.calls;
        self.small = sum(self.small, other.small);
        self.sequential = sum(self.sequential, other.sequential);
        self.random = sum(self.random, other.random);
        self.collective = sum(self.collective, other.collective);
        self.independent = sum(self.independent, other.independent);
        self.nonblocking = sum(self.nonblocking, other.nonblocking);
    }
}

/// The sum of what is known.
fn sum(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (known, None) | (None, known) => known,
    }
}
