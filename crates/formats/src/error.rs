//! Errors of reading, and their places.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a trace could not be read at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The operating system refused.
    #[error("{}: {cause}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        cause: io::Error,
    },
    /// There is not one byte.
    #[error("{} is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// No format begins like this.
    #[error("{} is not a trace in any known format (it starts with {head})", path.display())]
    UnknownFormat {
        /// The file.
        path: PathBuf,
        /// Its first bytes, printable ones as text.
        head: String,
    },
    /// A directory that is no trace.
    #[error("{} is a directory, and not a trace in any known format", path.display())]
    UnknownDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// A directory of traces of different jobs, which are no single run.
    #[error("{} has logs of several runs (jobs {jobs})", path.display())]
    SeveralRuns {
        /// The directory.
        path: PathBuf,
        /// Two of their jobs.
        jobs: String,
    },
    /// A directory of traces holds one that is of another format than the rest.
    #[error("{} is of format {format} and the traces beside it are of {rest}; it is left out", path.display())]
    OtherFormat {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: crate::Format,
        /// Theirs.
        rest: crate::Format,
    },
    /// A directory of traces holds a folder that is the trace of another run.
    #[error("{} is the trace of another run; it is left out", path.display())]
    AnotherRun {
        /// The folder.
        path: PathBuf,
    },
    /// The format is clear but the content breaks its rules from the start.
    #[error("{}, {place}: {fault}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where in it.
        place: Place,
        /// Fault, in lower case and without a full stop.
        fault: String,
    },
    /// There are records, but each of them makes no sense.
    #[error("{} holds no record that can be used: {first}", path.display())]
    NothingUsable {
        /// The file.
        path: PathBuf,
        /// The first thing that was wrong.
        first: String,
    },
    /// A trace that is written when the job is over cannot be read before.
    #[error("{} is of format {format}, which is not written while the job runs: it cannot be followed", path.display())]
    NotFollowed {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: crate::Format,
    },
    /// A metric was asked for by name where there are none.
    #[error("{} is of format {format}, which has no metrics by name", path.display())]
    NoMetrics {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: crate::Format,
    },
    /// No file was named.
    #[error("no input was given")]
    NoInput,
}

impl ReadError {
    pub(crate) fn from_fault(path: &Path, fault: Fault) -> Self {
        let path = path.to_path_buf();
        match fault {
            Fault::Io(cause) => ReadError::Io { path, cause },
            Fault::At(place, fault) => ReadError::Malformed { path, place, fault },
        }
    }
}

/// A place in a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// A line, counted from 1.
    Line(u64),
    /// An offset in bytes, counted from 0.
    Byte(u64),
    /// The source as a whole.
    Whole,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(line) => write!(f, "line {line}"),
            Place::Byte(byte) => write!(f, "byte {byte}"),
            Place::Whole => write!(f, "as a whole"),
        }
    }
}

/// Fault that a format's reader reports; [`crate::Reader`] adds the path.
#[derive(Debug)]
pub(crate) enum Fault {
    Io(io::Error),
    At(Place, String),
}

impl Fault {
    pub(crate) fn at(place: Place, fault: impl Into<String>) -> Self {
        Fault::At(place, fault.into())
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Fault::Io(error)
    }
}
