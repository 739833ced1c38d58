//! Settings of a daemon, and why it cannot serve by them.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use iotide_daemon::store::{JobLimits, LimitsError, SeriesLimits, StoreError};
use iotide_http::Url;
use iotide_ledger::Name;

use crate::doors::WebConfig;
use crate::redis::RedisConfig;
use crate::tree::{KeyError, TreeConfig};

/// Settings of a daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where HTTP is answered over TCP; `None` for nowhere.
    pub http: Option<SocketAddr>,
    /// The unix socket.
    pub socket: PathBuf,
    /// The directory of the store.
    pub store: PathBuf,
    /// The directory of counter pages.
    pub pages: PathBuf,
    /// The name of this machine.
    pub node: String,
    /// Where it stands in a tree of daemons; `None`: it is alone.
    pub tree: Option<TreeConfig>,
    /// How much of metrics over time is kept.
    pub series: SeriesLimits,
    /// How many jobs are kept.
    pub jobs: JobLimits,
    /// The group that pages belong to when root serves all; `None` for the usual one, if it is there.
    pub group: Option<String>,
    /// Where the cgroups of jobs are looked for: `/sys/fs/cgroup`; `None` for nowhere.
    pub cgroups: Option<PathBuf>,
    /// Where samples are sent by Prometheus' remote-write protocol, and how often.
    pub remote_write: Vec<Url>,
    /// How far apart samples are that are sent.
    pub remote_write_every: Duration,
    /// Exporters of others that are asked for their metrics.
    pub scrape: Vec<Url>,
    /// How often they are.
    pub scrape_every: Duration,
    /// How pages and answers over HTTP are reached.
    pub web: WebConfig,
    /// Alertmanagers that are told of alarms.
    pub alertmanagers: Vec<Url>,
    /// Others that are.
    pub webhooks: Vec<Url>,
    /// Whether these are told of users' alarms, too; otherwise only of the operator's.
    pub sends_users_alarms: bool,
    /// Where models are published.
    pub redis: Option<RedisConfig>,
    /// What the storage can do: a ladder, or a system of `iotide templates`; see [`read_storage`](crate::read_storage).
    pub storage: Option<PathBuf>,
}

impl Config {
    /// Refuses to answer other machines in the open.
    pub fn check_http(&self) -> Result<(), ServeError> {
        let is_open = |address: &SocketAddr| !address.ip().is_loopback() && self.web.tls.is_none();
        match self.http.filter(is_open) {
            Some(address) => Err(ServeError::NotLoopback(address)),
            None => Ok(()),
        }
    }
}

/// Why a daemon cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A directory cannot be used.
    #[error("cannot use the directory {}: {cause}", path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// A directory in which others could replace what is ours.
    #[error("{}: another user could replace what the daemon keeps there", .0.display())]
    Strangers(PathBuf),
    /// A socket cannot be listened to.
    #[error("cannot listen at {at}: {cause}")]
    Listen {
        /// Where.
        at: String,
        /// Why.
        cause: io::Error,
    },
    /// Limits that cannot be kept.
    #[error(transparent)]
    Series(#[from] LimitsError),
    /// A group that is not there.
    #[error("there is no group '{0}' on this machine")]
    Group(String),
    /// The name of the machine is too long.
    #[error("the name of a node has at most {} bytes", Name::MAX_BYTES)]
    Node,
    /// An address that others reach.
    #[error(
        "{0} can be reached from other machines, and answers are not encrypted: use a loopback address, or a certificate (--http-cert, --http-key)"
    )]
    NotLoopback(SocketAddr),
    /// The certificate for HTTP cannot be used.
    #[error("the certificate for HTTP: {0}")]
    Certificate(String),
    /// What the storage can do cannot be read.
    #[error("cannot read what the storage can do in {}: {why}", path.display())]
    Storage {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The key of the tree cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The system denies a thread or a signal handler.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

/// Why a daemon has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// It was asked to.
    Ended,
    /// It was asked to read its configuration again.
    Reload,
}
