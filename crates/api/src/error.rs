//! Why a question has no answer.

use iotide_analysis::RunError;
use iotide_formats::ReadError;
use iotide_report::Untrusted;

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An input could not be read.
    // Its message names the cause already, which is therefore not a source.
    #[error("{0}")]
    Read(ReadError),
    /// A setting does not fit the run.
    #[error("{}: {why}", path.for_terminal())]
    Analysis {
        /// The run.
        path: Untrusted,
        /// What does not fit.
        why: RunError,
    },
    /// What only a Darshan log has was asked of something else.
    #[error("{name} is not one Darshan log, and has no records of Darshan")]
    NotOneDarshanLog {
        /// The input.
        name: String,
    },
}

impl From<ReadError> for Error {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}
