//! How far a question is that takes long.

use std::io;

use crate::{Error, Url};

/// Events while a question is answered, for those who wait.
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
    /// A server is asked for what it has.
    Asking {
        /// Which.
        server: &'a Url,
        /// How much of it has come.
        percent: u64,
    },
    /// A server did not answer, and is asked again.
    AskingAgain {
        /// Cause of the retry.
        why: io::Error,
    },
    /// One of several ways to model storage is being tried.
    Simulating {
        /// Which.
        scenario: &'a str,
    },
    /// One of them is being tried, once under each policy and again at random.
    Repeating {
        /// Which.
        scenario: &'a str,
        /// Number of the run, from 1.
        nth: usize,
        /// How many runs there are.
        of: usize,
    },
}
