//! Whose job it is, and what it is called.

use std::fmt;
use std::sync::Arc;

/// A job: its name on this machine (the number the batch system gave it, or `uid:1000`), and the user whose requests it makes.
///
/// Anybody can claim any name. So a name alone is no job: two users who claim the same are two, and neither gets the other's turn.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct JobName {
    name: Arc<str>,
    user: Option<u32>,
}

impl JobName {
    /// A job of a user; of nobody who is known, if it asks from another machine.
    pub(crate) fn new(name: &str, user: Option<u32>) -> Self {
        Self { name: name.into(), user }
    }

    /// Returns the name for the I/O of a user without a job.
    pub(crate) fn of_user(user: u32) -> Self {
        Self { name: format!("uid:{user}").into(), user: Some(user) }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn user(&self) -> Option<u32> {
        self.user
    }

    /// The name by which it is told from a job of the same name and another user.
    pub(crate) fn in_full(&self) -> String {
        self.user.map_or_else(|| self.name.to_string(), |user| format!("uid:{user}/{}", self.name))
    }

    /// Whether someone who says `words` means this job.
    pub(crate) fn is_called(&self, words: &str) -> bool {
        *self.name == *words || self.in_full() == words
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
