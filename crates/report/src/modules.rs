//! Counts of each module of a Darshan log, beside the analysis of all of them.

use iotide_look::Untrusted;
use iotide_trace::SIZE_RANGES;
use serde::Serialize;

use crate::patterns::CommonSize;

/// A Darshan log as its modules left it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LogModules {
    /// The version of its format.
    pub version: Untrusted,
    /// The Darshan library that wrote it.
    pub library_version: Option<Untrusted>,
    /// Its modules, in Darshan's order.
    pub modules: Vec<ModuleFacts>,
}

/// Facts that one module recorded.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ModuleFacts {
    /// Its name, as Darshan has it.
    pub name: String,
    /// The version of its records.
    pub version: u32,
    /// Whether it ran out of memory, so that files or calls are missing.
    pub partial: bool,
    /// How long its part of the log is, packed.
    pub packed_bytes: Option<u64>,
    /// Sums over its counters, where it has any.
    pub counted: Option<ModuleCounts>,
}

/// Sums over the counters of a module. Values that it does not count are absent.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ModuleCounts {
    /// Files; of H5D data sets, of PNETCDF_VAR variables.
    pub files: u64,
    /// Bytes read.
    pub bytes_read: Option<f64>,
    /// Bytes written.
    pub bytes_written: Option<f64>,
    /// Time in reads, writes and metadata, summed over ranks.
    pub times_s: Option<[f64; 3]>,
    /// The mean of the highest offsets that files were used up to.
    pub mean_extent_bytes: Option<f64>,
    /// The highest of them.
    pub largest_extent_bytes: Option<f64>,
    /// The files by what was done to them.
    pub files_by_use: Option<FilesByUse>,
    /// Calls by kind; those that were made.
    pub calls: Vec<ModuleCalls>,
    /// Reads and writes in each of Darshan's ranges of sizes.
    pub sizes: Option<[[u64; SIZE_RANGES.len()]; 2]>,
    /// The commonest sizes, the commonest first.
    pub common_sizes: Vec<CommonSize>,
}

/// Files of a module by the bytes that it saw moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FilesByUse {
    /// Only read.
    pub read_only: UsedFiles,
    /// Only written.
    pub write_only: UsedFiles,
    /// Read and written.
    pub read_write: UsedFiles,
    /// Opened or asked about, and no bytes moved.
    pub untouched: UsedFiles,
}

/// Files that were used alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct UsedFiles {
    /// How many.
    pub files: u64,
    /// The mean of the highest offsets that they were used up to, where the module notes offsets.
    pub mean_extent_bytes: Option<f64>,
    /// The highest of them.
    pub largest_extent_bytes: Option<f64>,
}

/// Calls of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ModuleCalls {
    /// Kind of the calls, in words.
    pub kind: &'static str,
    /// How often.
    pub calls: u64,
}
