//! Asking a daemon: HTTP on its unix socket.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use iotide_http::{Answer, in_query};
use iotide_http::{AnswerLimits, Request};

use crate::places;

/// No answer is longer.
const MOST_BYTES: u64 = 256 << 20;
/// A daemon that says nothing for so long has none.
const TIMEOUT: Duration = Duration::from_secs(30);
/// A whole answer takes no longer.
const LONGEST: Duration = Duration::from_secs(600);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// Nobody is there.
    #[error("no daemon answers at {}: {cause}", socket.display())]
    Unreached {
        /// Where.
        socket: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// Somebody is there who speaks something else.
    #[error("the answer from {} is not HTTP", socket.display())]
    NotHttp {
        /// Where.
        socket: PathBuf,
    },
}

/// Asks for a path, with its query.
pub fn get(socket: &Path, path: &str) -> Result<Answer, AskError> {
    send(socket, "GET", path, b"")
}

/// Asks by another method, with a body.
pub fn send(socket: &Path, method: &str, path: &str, body: &[u8]) -> Result<Answer, AskError> {
    let failed = |cause| AskError::Unreached { socket: socket.to_owned(), cause };
    let stream = iotide_private::connect_within(socket, TIMEOUT).map_err(failed)?;
    // In a place of one's own only oneself and root can answer; anyone else has put that place there.
    let is_own = socket == places::socket();
    if is_own && !iotide_private::is_our_user(iotide_private::peer_user(&stream)) {
        return Err(failed(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "another user's program listens there",
        )));
    }
    let limits = AnswerLimits { silence: TIMEOUT, whole: LONGEST, body: Some(MOST_BYTES) };
    let request = Request { method, target: path, headers: "", body };
    iotide_http::ask_on(stream, &request, limits).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => AskError::NotHttp { socket: socket.to_owned() },
        _ => failed(error),
    })
}
