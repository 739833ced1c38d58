//! State that the threads of a daemon share: the last view of the jobs, and a handle on each machine.

use std::fs::File;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{SystemTime, UNIX_EPOCH};

use iotide_alarms::Alarms;
use iotide_daemon::collect::{GroupJob, NodeReading};
use iotide_daemon::events::Events;
use iotide_daemon::gather::Tree;
use iotide_daemon::leaf::{JobView, View};
use iotide_daemon::models::Models;
use iotide_daemon::predict::Expectations;
use iotide_daemon::series::Series;
use iotide_private::Shares;
use iotide_sched::act::JobFacts;

use crate::config::Config;
use crate::doors::Doors;
use crate::exporters::Exporters;
use crate::forecast::Forecasts;
use crate::steering::Steering;
use crate::why::Whys;
use crate::{redis, remote_write, turns};

/// State that the threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) view: RwLock<Arc<View>>,
    /// When pages were last read, in nanoseconds since 1970: the sign of life.
    pub(crate) beat_ns: AtomicU64,
    pub(crate) started_ns: u64,
    /// Who may ask, over HTTP.
    pub(crate) doors: Doors,
    /// Where HTTP is answered over TCP.
    pub(crate) http: Option<SocketAddr>,
    pub(crate) store_fault: RwLock<Option<String>>,
    pub(crate) expectations: Expectations,
    pub(crate) events: Events,
    pub(crate) models: Models,
    pub(crate) series: Series,
    pub(crate) node: RwLock<Arc<NodeReading>>,
    pub(crate) tree: Option<Arc<Tree>>,
    /// Jobs that have cgroups, and how often they were read.
    pub(crate) groups: RwLock<Arc<Vec<GroupJob>>>,
    pub(crate) n_group_readings: AtomicU64,
    /// Whether something was answered since memory was last given back.
    pub(crate) has_answered: AtomicBool,
    /// Outcome of sending samples elsewhere, for each receiver.
    pub(crate) written: Vec<Arc<remote_write::Written>>,
    /// Metrics of others.
    pub(crate) exporters: Exporters,
    pub(crate) alarms: Alarms,
    /// Outcome of publishing models to Redis.
    pub(crate) published: redis::Published,
    /// Where a controller is met.
    pub(crate) steering: Steering,
    /// The next minutes, while somebody looks.
    pub(crate) forecasts: Forecasts,
    /// Whether jobs were slow, and why, as it was found lately.
    pub(crate) whys: Whys,
    /// Turns at working out answers over HTTP.
    pub(crate) turns: turns::Turns,
    /// Connections to the unix sockets, of HTTP and of controllers.
    pub(crate) connections: Shares,
    pub(crate) rpc_connections: Shares,
    /// Places of counter pages that are open.
    pub(crate) descriptors: Shares,
}

/// Shares out half of all descriptors for counter pages; each takes two. Where one user is served, they are all that one's.
pub(crate) fn shares_of_pages() -> Shares {
    let n_places = iotide_gate::raise_open_files() / 4;
    if rustix::process::geteuid().is_root() {
        Shares::among_users(n_places)
    } else {
        Shares::for_one(n_places)
    }
}

/// Shares out connections: no more than a sixteenth of all descriptors is for those of one kind.
pub(crate) fn shares_of_connections(most: usize) -> Shares {
    Shares::among_users(most.min(iotide_gate::raise_open_files() / 16))
}

impl Shared {
    /// Returns the resources that are divided among users, by name.
    pub(crate) fn shares(&self) -> Vec<(&'static str, &Shares)> {
        let questions = self.tree.iter().map(|tree| ("questions", &tree.askers));
        let own = [
            ("http", &self.connections),
            ("rpc", &self.rpc_connections),
            ("models", &self.models.askers),
            ("descriptors", &self.descriptors),
        ];
        own.into_iter().chain(questions).collect()
    }

    pub(crate) fn groups(&self) -> Arc<Vec<GroupJob>> {
        Arc::clone(&self.groups.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The jobs that run, as a controller is shown them.
    pub(crate) fn job_facts(&self) -> Vec<JobFacts> {
        let of = |job: &JobView| {
            let expected = self.expectations.of(&job.key);
            let io = job.counters.io();
            JobFacts {
                id: job.key.id.as_str().to_owned(),
                uid: job.key.uid,
                user: job.about.user.as_str().to_owned(),
                program: job.about.program().to_owned(),
                partition: job.about.partition.as_str().to_owned(),
                n_processes: job.about.size,
                period_s: expected.and_then(|expected| expected.period_s),
                confidence: expected.map_or(0.0, |expected| expected.confidence),
                bytes_per_phase: expected.and_then(|expected| expected.bytes_per_phase),
                bytes: io.bytes(),
                io_s: io.moved().ns as f64 / 1e9,
                n_calls: io.moved().calls,
            }
        };
        self.view().jobs.iter().map(of).collect()
    }

    pub(crate) fn node(&self) -> Arc<NodeReading> {
        Arc::clone(&self.node.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The time, in nanoseconds since 1970.
pub(crate) fn now_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// Random bytes of the system.
pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut random = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(random)
}
