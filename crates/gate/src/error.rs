//! Errors before anyone is let through.

use std::io;
use std::path::PathBuf;

/// Why a gate could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GateError {
    /// The table of periods cannot be read.
    #[error("cannot read the periods in {path}: {reason}")]
    Periods {
        /// The table.
        path: PathBuf,
        /// Reason of the failure.
        reason: String,
    },
    /// The control socket cannot be made.
    #[error("cannot listen at {path}: {cause}")]
    Control {
        /// The socket.
        path: PathBuf,
        /// Error of the system.
        cause: io::Error,
    },
    /// No group has that name.
    #[error("there is no group {0}")]
    NoGroup(String),
    /// The arbiter cannot listen.
    #[error("cannot listen at {address}: {cause}")]
    Listen {
        /// Where.
        address: String,
        /// Error of the system.
        cause: io::Error,
    },
    /// The key cannot be used.
    #[error("the key {}: {reason}", path.display())]
    Key {
        /// Its file.
        path: PathBuf,
        /// Reason of the failure.
        reason: String,
    },
    /// A map of arbiters makes no sense.
    #[error("the arbiters {text:?}: {reason}")]
    Map {
        /// The map.
        text: String,
        /// Reason of the failure.
        reason: String,
    },
    /// Others could ask, and nobody would know who they are.
    #[error(
        "{0} can be reached from other machines, and those who ask there must prove who they are: a key is needed, or a loopback address"
    )]
    NoKey(String),
    /// No thread could be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}
