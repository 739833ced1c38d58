//! The core of a long-running watcher of many jobs, as synchronous machines. It knows no HTTP and starts no thread but those that fit models.
//!
//! Programs count what they do in pages (`iotide_wire::page`). The pages are read ten times a second and summed up by job; what ended is kept in a store.
//!
//! - [`Leaf`](leaf::Leaf): the machine that decides. It is without file or clock: a test needs no mock.
//! - [`collect`]: the files of pages become the input of the machine.
//! - [`store`]: jobs and their profiles in SQLite.
//! - [`models`]: how what runs of an application measure grows with their size.
//! - [`series`]: metrics of jobs and the machine over time.
//! - [`events`]: what happens, for those who listen.
//! - [`below`]: a daemon below, for those who ask it.
//! - [`gather`]: what daemons below have counted becomes part of the jobs, and what is counted here goes up.
//! - [`predict`]: when each job's next phase begins.
//! - [`why`]: whether a job was slow, and why.
//! - [`memory`]: what the allocator keeps.

pub mod below;
pub mod collect;
pub mod events;
pub mod gather;
pub mod gauges;
pub mod leaf;
pub mod memory;
pub mod models;
pub mod predict;
pub mod priority;
pub mod series;
pub mod store;
pub mod why;

/// Feeds any bytes to whatever here reads text from outside, for the target `daemon` in `fuzz/`.
#[cfg(fuzzing)]
pub fn fuzz(bytes: &[u8]) {
    collect::fuzz(&String::from_utf8_lossy(bytes));
}
