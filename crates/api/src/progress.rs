//! How far a question is that takes long.

use crate::Error;

/// What happens while a question is answered, for those who wait.
#[derive(Debug)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// One of several inputs is being read.
    Reading {
        /// Which.
        name: &'a str,
        /// Its number, from 1.
        nth: usize,
        /// How many there are.
        of: usize,
    },
    /// An input cannot be used; the question is answered without it.
    LeftOut {
        /// Which.
        name: &'a str,
        /// Why.
        why: Error,
    },
    /// One of several ways to model storage is being tried.
    Simulating {
        /// Which.
        scenario: &'a str,
    },
}
