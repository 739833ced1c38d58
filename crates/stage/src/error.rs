//! Why nothing was begun, or nothing can go on.

use std::io;
use std::path::PathBuf;

/// Why staging fails as a whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StageError {
    /// Something cannot be opened or written.
    #[error("{what} {path}: {error}")]
    Io {
        /// Action that failed.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// One tree lies in the other, or they are one.
    #[error("{src} and {dst} must be two directories, neither inside the other")]
    Nested {
        /// From here.
        src: PathBuf,
        /// To there.
        dst: PathBuf,
    },
    /// Other machines may write to the buffer, and nobody has said how it is known that they do not.
    #[error(
        "{path} is on {file_system}, to which other nodes may write: whether they have closed a file cannot be seen from here; \
         use --flag '{{}}.done' for files that say so themselves, or --policy end to copy when the job is over"
    )]
    WritersElsewhere {
        /// The buffer.
        path: PathBuf,
        /// Its file system.
        file_system: String,
    },
    /// Another stager is at work.
    #[error("{path} is being staged by another process already")]
    Taken {
        /// The tree with the journal.
        path: PathBuf,
    },
    /// The mark that was left in the destination is not there.
    #[error(
        "{path} is not the destination it was before: its mark {mark} is missing, so nothing is written or removed"
    )]
    NoMark {
        /// The destination.
        path: PathBuf,
        /// The file that is missed.
        mark: String,
    },
    /// A mount point of /etc/fstab that has nothing mounted.
    #[error(
        "nothing is mounted at {path}, which /etc/fstab has as a mount point, so nothing is written or removed"
    )]
    NotMounted {
        /// The mount point.
        path: PathBuf,
    },
    /// A buffer that a preloaded library serves, asked for what nobody knows there.
    #[error(
        "{path} is not a mounted file system but served by a preloaded library (GekkoFS), where nobody can tell which files are open: \
         it is staged with --flag, and without --purge"
    )]
    Virtual {
        /// The buffer.
        path: PathBuf,
    },
    /// A destination that a preloaded library serves.
    #[error(
        "{path} is served by a preloaded library (GekkoFS), where nothing is durable: results cannot go there"
    )]
    VirtualDestination {
        /// The destination.
        path: PathBuf,
    },
    /// The journal is of other directories.
    #[error(
        "{path} was staged to {former} before; finish that, or remove {path}/.iotide-stage once all is safe"
    )]
    OtherDestination {
        /// The tree with the journal.
        path: PathBuf,
        /// Where it went.
        former: PathBuf,
    },
    /// Nothing was ever brought to a directory, so nothing can be said of it.
    #[error("{path} has no receipts: it is not where `iotide stage` brought anything")]
    NoReceipts {
        /// The directory.
        path: PathBuf,
    },
    /// The journal cannot be read.
    #[error("{path} is no journal of this program: {why}")]
    Journal {
        /// The file.
        path: PathBuf,
        /// The fault.
        why: String,
    },
}

impl StageError {
    pub(crate) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| Self::Io { what, path, error }
    }
}
