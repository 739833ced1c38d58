//! Moves files between a buffer and a parallel file system, each checked and durable before anything is removed.
//!
//! [`Stager`] keeps one directory tree (SRC) copied to another (DST), file by file as they are closed. What it promises:
//! - A final name in DST only ever holds a version that was closed, checked and synced.
//! - After any kill, SRC and DST together hold the last closed version of each file.
//! - Nothing is removed from SRC before its copy was read back, found equal, and is durable under its name.
//! - Who writes to SRC never sees an error because of it.
//!
//! A pass is [`Stager::look`] (which files are due), [`Stager::stage`] (copy, sync, check, rename, note) and [`Stager::purge`]
//! (make room). When to do which is decided by the caller, who also holds the [`Pace`]. Names are bytes, ways are walked by `openat`,
//! and no link is followed.

pub use crate::{
    checksum::Checksum,
    closed::How,
    error::StageError,
    fetch::{Fetch, Room, Wanted},
    filter::{Filter, Pattern, PatternError},
    journal::{Direction, Entry, Journal, Known, Safe, replay},
    numbers::Numbers,
    pace::Pace,
    receipts::{Receipt, ReceiptLine, Receipts, parse_line},
    run::{Hint, Plan, Progress, fetch_in_gaps, run, run_once},
    stager::Stager,
    tally::{Left, Order, Purge, Settings, Survey, Tally},
    verify::{Checked, Fault as VerifyFault, Verified, verify},
    wait::{Waited, is_being_staged, is_safe, root_of},
};

mod stager;

mod batch;
mod boot;
mod checksum;
mod closed;
mod copy;
mod dirs;
mod durable;
mod error;
mod fetch;
mod filter;
mod folders;
mod journal;
mod metadata;
mod numbers;
mod owners;
mod pace;
mod parallel;
mod purge;
mod receipts;
mod run;
mod sys;
mod tally;
mod timeless;
mod verify;
mod wait;
mod walk;
mod watch;

/// The folder of our own in SRC and DST, and how names of what is not yet whole begin.
pub const OWN: &str = ".iotide-stage";
