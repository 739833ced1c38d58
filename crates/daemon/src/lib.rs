//! A long-running watcher of many jobs.
//!
//! Programs count what they do in pages (`iotide_wire::page`). [`serve`] reads the pages ten times a second, sums them up by job, keeps what
//! ended in a store, and answers questions over HTTP, on a unix socket and on loopback.
//!
//! - [`Leaf`](leaf::Leaf): the machine that decides. It is synchronous, without file or clock: a test needs no mock.
//! - `collect`: the files of pages become what the machine is told.
//! - [`store`]: jobs and their profiles in SQLite.
//! - [`models`]: how what runs of an application measure grows with their size.
//! - `series`: metrics of jobs and the machine over time.
//! - `alarms`: what people want to be told of, looked at each second.
//! - `events`: what happens, for those who listen.
//! - `below`: a daemon below, for those who ask it.
//! - `gather`: what daemons below have counted becomes part of the jobs, and what is counted here goes up.
//! - `predict`: when each job's next phase begins.
//! - [`Steering`]: where a controller in the same process sees jobs and shows its decisions.
//! - `memory`: what the allocator keeps.
//! - `run`: the one edge with threads, sockets and signals.
//! - [`client`]: asking a daemon.

pub use crate::run::{
    Addresses, Auth, Config, Key, KeyError, Leaves, Load, ProxyConfig, ProxyFrom, RedisAddress, RedisConfig,
    Secret, ServeError, Served, TokenRole, TreeConfig, WebConfig, bridge, group_of_pages, make_token,
    read_storage, rpc_socket, serve, write_key,
};

pub use crate::steering::{OperatorRequest, Steering};

mod alarms;
mod below;
pub mod client;
mod collect;
mod events;
mod gather;
mod gauges;
pub mod leaf;
mod memory;
pub mod models;
pub mod places;
mod predict;
mod priority;
mod run;
mod series;
mod steering;
pub mod store;

/// Feeds any bytes to whatever here reads text from outside, for the target `daemon` in `fuzz/`.
#[cfg(fuzzing)]
pub fn fuzz(bytes: &[u8]) {
    if let Ok(answer) = iotide_http::Answer::read(bytes, Some(1 << 20)) {
        assert!(answer.body.len() <= bytes.len());
    }
    let text = String::from_utf8_lossy(bytes);
    collect::fuzz(&text);
    run::fuzz(&text);
}
