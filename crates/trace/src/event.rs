//! The record that every source narrows to.

use crate::Timestamp;

/// Bytes moved, or calls made, by one rank in one interval.
///
/// A traced call, a Darshan counter pair, a heatmap bin and a bandwidth sample are all this; [`Grain`] keeps how fine
/// it was. The order of events means nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// The operation.
    pub op: Op,
    /// The software layer that saw it.
    pub layer: Layer,
    /// How fine the observation is.
    pub grain: Grain,
    /// Who did it.
    pub rank: Rank,
    /// To which file, as an index into [`crate::TraceInfo::files`].
    pub file: FileId,
    /// When it began.
    pub start: Timestamp,
    /// When it ended; never before `start`.
    pub end: Timestamp,
    /// Bytes moved. `f64`, because a bandwidth sample times an interval is no whole number; whole numbers are exact
    /// up to 9 PB, more than any single event.
    pub bytes: f64,
    /// How many calls this stands for (1 for a traced call).
    pub calls: u32,
}

impl Event {
    /// Returns one call that moved `bytes`, with nothing known of file and layer.
    pub fn data(op: Op, rank: Rank, start: Timestamp, end: Timestamp, bytes: f64) -> Self {
        Self {
            op,
            layer: Layer::Unknown,
            grain: Grain::Call,
            rank,
            file: FileId::NONE,
            start,
            end,
            bytes,
            calls: 1,
        }
    }
}

/// Operation of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    /// Moved bytes from storage.
    Read,
    /// Moved bytes to storage.
    Write,
    /// Opened or created a file.
    Open,
    /// Closed a file.
    Close,
    /// Moved a file position.
    Seek,
    /// Asked for attributes.
    Stat,
    /// Forced data to storage.
    Sync,
    /// Any other operation on names or attributes (rename, unlink, mkdir…).
    Other,
}

impl Op {
    /// All operations, in the order of their declaration.
    pub const ALL: [Op; 8] =
        [Op::Read, Op::Write, Op::Open, Op::Close, Op::Seek, Op::Stat, Op::Sync, Op::Other];

    /// The name used in tables and reports.
    pub fn name(self) -> &'static str {
        match self {
            Op::Read => "read",
            Op::Write => "write",
            Op::Open => "open",
            Op::Close => "close",
            Op::Seek => "seek",
            Op::Stat => "stat",
            Op::Sync => "sync",
            Op::Other => "other",
        }
    }

    /// The operation of that name, as [`Op::name`] writes it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.name() == name)
    }

    /// Whether it moves file contents (and so counts towards bandwidth).
    pub fn moves_data(self) -> bool {
        matches!(self, Op::Read | Op::Write)
    }
}

/// The software layer that saw an event. The same bytes may be seen by several; an analysis uses one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// The source does not say.
    #[default]
    Unknown,
    /// System calls.
    Posix,
    /// C streams.
    Stdio,
    /// MPI-IO.
    MpiIo,
    /// A library above MPI-IO (HDF5, netCDF).
    Library,
    /// Storage servers or node counters, below the program.
    Server,
}

impl Layer {
    /// All layers, in the order of their declaration.
    pub const ALL: [Layer; 6] =
        [Layer::Unknown, Layer::Posix, Layer::Stdio, Layer::MpiIo, Layer::Library, Layer::Server];

    /// The name used in tables and reports.
    pub fn name(self) -> &'static str {
        match self {
            Layer::Unknown => "unknown",
            Layer::Posix => "posix",
            Layer::Stdio => "stdio",
            Layer::MpiIo => "mpi-io",
            Layer::Library => "library",
            Layer::Server => "server",
        }
    }

    /// The layer of that name, as [`Layer::name`] writes it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|layer| layer.name() == name)
    }
}

/// How fine an observation is, finest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grain {
    /// One call with its own times.
    #[default]
    Call,
    /// One bin of an even grid.
    Bin,
    /// A file's totals spread over the time between its first and last access.
    Record,
}

impl Grain {
    /// All grains, finest first.
    pub const ALL: [Grain; 3] = [Grain::Call, Grain::Bin, Grain::Record];

    /// The name used in tables and reports.
    pub fn name(self) -> &'static str {
        match self {
            Grain::Call => "call",
            Grain::Bin => "bin",
            Grain::Record => "record",
        }
    }

    /// The grain of that name, as [`Grain::name`] writes it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|grain| grain.name() == name)
    }
}

/// A process of a parallel program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(pub i32);

impl Rank {
    /// All ranks together, where a source does not tell them apart.
    pub const ALL: Rank = Rank(-1);
}

/// A file of a trace, as an index into [`crate::TraceInfo::files`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

impl FileId {
    /// No file is known.
    pub const NONE: FileId = FileId(u32::MAX);
}
