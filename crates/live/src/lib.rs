//! Events as they happen: files that grow, sockets that listen.
//!
//! [`Live`] is given traces to follow and addresses to listen on. Each [`Live::turn`] waits until something comes, and pushes the
//! events of each job into an [`EventSink`](iotide_trace::EventSink) of its own:
//!
//! - [`Live::follow`]: the directory the tracer writes, one of its files, or a file of any format that is written as the job goes
//!   on. Files that are not there yet are waited for; only whole records are taken; a file that was cut or replaced is noticed.
//! - [`Live::listen`]: the tracer's stream on a Unix or TCP socket, or messages of TMIO and GekkoFS by ZeroMQ. The same sockets answer
//!   those who ask for the latest prediction, see [`Live::answer`].
//!
//! [`Jobs`] is such a set of sinks: it keeps what was seen of each job, tells what time it is there, and predicts.
//! [`Follower`] runs both to the end.
//!
//! Data that the tracer sends by socket and data that it writes to its files may overlap and come in any order: blocks are numbered, and
//! count once. A follower that is started again reads its files from the beginning, which gives the same events.
//!
//! # Design constraints
//! - Memory is bounded: by [`Limits`] for connections, by a constant for each file.
//! - Nothing a peer sends can do more than end its own connection, which is then noted.
//! - Predictions are made by `analysis`, one engine a job ([`Jobs`]); nothing is printed.

pub use crate::{
    address::{Address, AddressError},
    follower::{End, Follower},
    jobs::{Engine, Job, Jobs, Watched},
    live::{Limits, Live, LiveError, Settings, Summary},
    zmtp::ZmtpFault,
};

mod address;
mod connection;
mod directory;
mod follower;
mod jobs;
mod live;
mod outbox;
mod tail;
mod watch;
pub mod zmtp;
