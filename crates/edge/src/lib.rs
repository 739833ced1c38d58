//! The edge of a daemon: threads, sockets and signals; who asks what, and how it is answered.
//!
//! [`serve`] starts the threads. One reads counter pages and writes the store, one speaks HTTP, a few work out answers, the first waits for signals. `route_table` lists
//! every question with its handler; HTTP, RPC, Redis and the old names of the metric proxy are adapters over the same handlers.
//!
//! - `answer`, `alarm_answers`, `decision_answers`, `model_answers`, `series`, `metrics`, `web`, `why`: the handlers.
//! - `routes`: who may ask, and how a question finds its answer; `refusal`: why there is none.
//! - `doors`: who is who; `turns`: whose answer is worked out next.
//! - `tree`: connections to daemons above and below.
//! - `collecting`: the thread that reads and writes.
//! - [`Steering`]: where a controller in the same process sees jobs and shows its decisions.
//! - [`client`]: asking a daemon; [`places`]: where one is found.

mod address;
mod alarm_answers;
mod answer;
pub mod client;
mod collecting;
mod config;
mod decision_answers;
mod doors;
mod exporters;
mod forecast;
#[cfg(fuzzing)]
mod fuzzing;
mod groups;
mod http;
mod metrics;
mod model_answers;
mod notify;
mod owner;
mod pages;
pub mod places;
mod redis;
mod refusal;
mod remote_write;
mod route_table;
mod routes;
mod rpc;
mod series;
mod serve;
mod shared;
mod silent;
mod stagers;
mod steering;
mod tls;
mod tree;
mod turns;
mod web;
mod why;

pub use config::{Config, ServeError, Served};
pub use doors::{ProxyConfig, ProxyFrom, TokenRole, WebConfig, make_token};
pub use forecast::read_storage;
#[cfg(fuzzing)]
pub use fuzzing::fuzz;
pub use pages::group_of_pages;
pub use redis::{RedisAddress, RedisConfig};
pub use serve::{Addresses, rpc_socket, serve};
pub use steering::{OperatorRequest, Steering};
pub use tree::{Auth, Key, KeyError, Leaves, Load, Secret, TreeConfig, bridge, write_key};
