//! Which job it is, and who says so.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The id of a job as a scheduler or a user names it: `[A-Za-z0-9_+-][A-Za-z0-9._+-]{0,63}`.
///
/// So it is a file name that leads nowhere, a label, and a part of a URL without escapes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(Arc<str>);

/// Why a text is no job id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// There is nothing.
    #[error("a job id cannot be empty")]
    Empty,
    /// There is too much.
    #[error("a job id has at most {most} bytes, this one {n_bytes}", most = JobId::MAX_BYTES)]
    TooLong {
        /// Its length.
        n_bytes: usize,
    },
    /// There is something that may not be there.
    #[error(
        "a job id consists of letters, digits, '_', '+', '-' and, not first, '.'; byte {index} is {byte:#04x}"
    )]
    BadByte {
        /// Where.
        index: usize,
        /// Value of the byte.
        byte: u8,
    },
}

impl JobId {
    /// The longest id.
    pub const MAX_BYTES: usize = 64;

    /// Returns the id, if the bytes are one.
    pub fn new(bytes: impl AsRef<[u8]>) -> Result<Self, IdError> {
        let bytes = bytes.as_ref();
        if bytes.is_empty() {
            return Err(IdError::Empty);
        }
        if bytes.len() > Self::MAX_BYTES {
            return Err(IdError::TooLong { n_bytes: bytes.len() });
        }
        let fits = |index: usize, byte: u8| {
            byte.is_ascii_alphanumeric() || b"_+-".contains(&byte) || byte == b'.' && index > 0
        };
        if let Some((index, &byte)) = bytes.iter().enumerate().find(|&(index, &byte)| !fits(index, byte)) {
            return Err(IdError::BadByte { index, byte });
        }
        let text: String = bytes.iter().copied().map(char::from).collect();
        Ok(Self(text.into()))
    }

    /// Returns the id that a scheduler gave, as it writes it: brackets of arrays of PBS, and the letter that ids of Flux begin with, are `_`.
    pub fn of_scheduler(bytes: impl AsRef<[u8]>) -> Result<Self, IdError> {
        let bytes = bytes.as_ref();
        let is_of_scheduler = |c: char| c.is_ascii_alphanumeric() || "._+-[]ƒ".contains(c);
        match (Self::new(bytes), std::str::from_utf8(bytes)) {
            (Err(IdError::BadByte { .. }), Ok(text)) if text.chars().all(is_of_scheduler) => {
                Ok(Self::made_of(text))
            }
            (id, _) => id,
        }
    }

    /// Returns an id made of a text that may be anything: what does not fit is replaced by `_`, what is too long is cut.
    pub fn made_of(text: &str) -> Self {
        let mut id: String =
            text.bytes()
                .take(Self::MAX_BYTES)
                .map(|byte| {
                    if byte.is_ascii_alphanumeric() || b"._+-".contains(&byte) {
                        char::from(byte)
                    } else {
                        '_'
                    }
                })
                .collect();
        if id.is_empty() || id.starts_with('.') {
            id.insert(0, '_');
            id.truncate(Self::MAX_BYTES);
        }
        Self(id.into())
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One run of a job. Schedulers use ids again, and two users may claim the same one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobKey {
    /// The cluster, empty where there is no name for it.
    pub cluster: Name,
    /// Whose it is.
    pub uid: u32,
    /// Its id.
    pub id: JobId,
    /// When it was first seen, in nanoseconds since 1970.
    pub start_ns: u64,
}

/// Whether a job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", serde(rename_all = "snake_case"))]
pub enum JobState {
    /// It runs.
    Running,
    /// It has ended.
    Ended,
    /// It has ended, and not all of its counts are known.
    #[cfg_attr(feature = "schema", serde(other))]
    Partial,
}

impl JobState {
    /// All states.
    pub const ALL: [Self; 3] = [Self::Running, Self::Ended, Self::Partial];

    /// As it is shown and stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ended => "ended",
            Self::Partial => "partial",
        }
    }

    /// The reverse of [`Self::as_str`].
    pub fn of(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// Who says that a process belongs to a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "schema", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "schema", serde(rename_all = "snake_case", from = "String"))]
pub enum Trust {
    /// The process itself. Nobody else can say so of another user's process.
    #[default]
    Claimed,
    /// The system, by a cgroup that only it can make.
    Cgroup,
}

impl Trust {
    /// As it is shown and stored.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Cgroup => "cgroup",
        }
    }

    /// The reverse of [`Self::as_str`]; what is unknown is only claimed.
    pub fn of(text: &str) -> Self {
        if text == "cgroup" { Self::Cgroup } else { Self::Claimed }
    }
}

impl From<String> for Trust {
    fn from(text: String) -> Self {
        Self::of(&text)
    }
}

/// A name or the value of a label: at most 128 bytes of any text.
///
/// A copy takes no memory: a job has dozens of names, and is copied for all who look at it.
#[derive(Clone)]
pub struct Name(Text);

#[derive(Clone)]
enum Text {
    /// Part of the program.
    Ours(&'static str),
    Shared(Arc<str>),
}

impl Name {
    /// The longest name.
    pub const MAX_BYTES: usize = 128;

    /// Returns the name; `None` if it is too long.
    pub fn new(text: &str) -> Option<Self> {
        (text.len() <= Self::MAX_BYTES).then(|| Self::whole(text))
    }

    /// Returns the name, cut where it is too long. Bytes that are no text become `U+FFFD`.
    pub fn cut(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(Self::MAX_BYTES)]);
        // What was replaced takes three bytes where there was one.
        Self::whole(iotide_wire::cut_text(&text, Self::MAX_BYTES))
    }

    /// Returns a name of the program's own, which has at most 128 bytes.
    pub const fn ours(text: &'static str) -> Self {
        assert!(text.len() <= Self::MAX_BYTES);
        Self(Text::Ours(text))
    }

    fn whole(text: &str) -> Self {
        if text.is_empty() { Self::default() } else { Self(Text::Shared(text.into())) }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Text::Ours(text) => text,
            Text::Shared(text) => text,
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.as_str().is_empty()
    }
}

impl Default for Name {
    fn default() -> Self {
        Self::ours("")
    }
}

/// So that a map of names can be asked for a text.
impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Name {}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Name").field(&self.as_str()).finish()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ids_that_lead_elsewhere_or_inject_lines_are_refused_with_the_place() {
        for id in ["1288306689", "x", "-1", "a.b+c_d-e", "123_4+0", &"x".repeat(64)] {
            assert_eq!(JobId::new(id).unwrap().as_str(), id);
        }
        assert_eq!(JobId::new("../../evil"), Err(IdError::BadByte { index: 0, byte: b'.' }));
        assert_eq!(JobId::new("a\nb"), Err(IdError::BadByte { index: 1, byte: b'\n' }));
        assert_eq!(JobId::new("a/b"), Err(IdError::BadByte { index: 1, byte: b'/' }));
        assert_eq!(JobId::new("é"), Err(IdError::BadByte { index: 0, byte: 0xc3 }));
        assert_eq!(JobId::new(vec![b'x'; 10 << 20]), Err(IdError::TooLong { n_bytes: 10 << 20 }));
        assert_eq!(JobId::new(""), Err(IdError::Empty));
        for (written, id) in [("4712[5].server", "4712_5_.server"), ("ƒ2Qx9", "__2Qx9"), ("4711", "4711")] {
            assert_eq!(JobId::of_scheduler(written).unwrap().as_str(), id);
        }
        assert_eq!(JobId::of_scheduler("a/b"), Err(IdError::BadByte { index: 1, byte: b'/' }));
        assert!(JobId::new("a\nb").unwrap_err().to_string().ends_with("byte 1 is 0x0a"));
    }

    proptest! {
        #[test]
        fn an_id_that_is_made_is_an_id(text in any::<String>(), tail in "[.a-z/]{0,80}") {
            let made = JobId::made_of(&format!("{text}{tail}"));
            prop_assert_eq!(JobId::new(made.as_str()), Ok(made.clone()));
        }

        #[test]
        fn a_cut_name_is_a_name(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let name = Name::cut(&bytes);
            prop_assert_eq!(Name::new(name.as_str()), Some(name.clone()));
        }
    }
}
