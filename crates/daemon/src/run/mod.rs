//! The edge: threads, sockets, signals.
//!
//! One thread reads pages and writes the store, one speaks HTTP, a few work out answers, the first waits for signals. They share the last [`View`] and nothing else: who
//! asks never waits for the disk that the other writes to.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use iotide_http::Url;
use iotide_ledger::tree::Place;
use iotide_ledger::{Limits, Name};
use iotide_private::{OpenDir, OwnSocket, Shares};
use iotide_sched::act::JobFacts;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tokio_rustls::TlsAcceptor;

use crate::alarms::{Alarms, Needs, Route};
use crate::collect::{Collector, GroupJob, NodeFiles, NodeReading, Proc, ROUND};
use crate::events::Events;
use crate::gather::{Gathering, Tree};
use crate::leaf::{JobView, Leaf, View};
use crate::memory;
use crate::models::Models;
use crate::predict::Expectations;
use crate::series::{Sampling, Series};
use crate::steering::Steering;
use crate::store::{JobLimits, SeriesLimits, Store, StoreError};
pub(crate) use address::post;
use collecting::Collecting;
use doors::Doors;
pub use doors::{ProxyConfig, ProxyFrom, TokenRole, WebConfig, make_token};
use exporters::Exporters;
use forecast::Forecasts;
pub use forecast::read_storage;
use notify::Notify;
pub use pages::group_of_pages;
use pages::make_pages_directory;
pub use redis::{RedisAddress, RedisConfig};
pub use tree::{Auth, Key, KeyError, Leaves, Load, Secret, TreeConfig, bridge, write_key};

mod address;
mod alarm_answers;
mod answer;
mod collecting;
mod decision_answers;
mod doors;
mod exporters;
mod forecast;
mod groups;
mod http;
mod metrics;
mod model_answers;
mod notify;
mod owner;
mod pages;
mod redis;
mod refusal;
mod remote_write;
mod route_table;
mod routes;
mod rpc;
mod series;
mod silent;
mod stagers;
mod tls;
mod tree;
mod turns;
mod web;

/// What a daemon is told.
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
    /// What the storage can do: a ladder, or a system of `iotide templates`; see [`read_storage`].
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
    Series(#[from] crate::store::LimitsError),
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

/// A store that failed is tried again after this.
const RETRY: Duration = Duration::from_secs(1);
/// What threads have left to do at the end is done within this.
const END_WITHIN: Duration = Duration::from_secs(4);

/// Jobs at once of a daemon with others below it.
const MOST_JOBS_ABOVE: usize = 8192;

/// What the threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    config: Config,
    view: RwLock<Arc<View>>,
    /// When pages were last read, in nanoseconds since 1970: the sign of life.
    beat_ns: AtomicU64,
    started_ns: u64,
    /// Who may ask, over HTTP.
    doors: Doors,
    /// Where HTTP is answered over TCP.
    http: Option<SocketAddr>,
    store_fault: RwLock<Option<String>>,
    expectations: Expectations,
    events: Events,
    models: Models,
    series: Series,
    node: RwLock<Arc<NodeReading>>,
    tree: Option<Arc<Tree>>,
    /// Jobs that have cgroups, and how often they were read.
    groups: RwLock<Arc<Vec<GroupJob>>>,
    n_group_readings: AtomicU64,
    /// Whether something was answered since memory was last given back.
    has_answered: AtomicBool,
    /// What became of samples that were sent elsewhere.
    written: Vec<Arc<remote_write::Written>>,
    /// Metrics of others.
    exporters: Exporters,
    alarms: Alarms,
    /// What became of models for Redis.
    published: redis::Published,
    /// Where a controller is met.
    steering: Steering,
    /// The next minutes, while somebody looks.
    forecasts: Forecasts,
    /// Turns at working out answers over HTTP.
    turns: turns::Turns,
    /// Connections to the unix sockets, of HTTP and of controllers.
    connections: Shares,
    rpc_connections: Shares,
    /// Places of counter pages that are open.
    descriptors: Shares,
}

/// Shares out half of all descriptors for counter pages; each takes two. Where one user is served, they are all that one's.
fn shares_of_pages() -> Shares {
    let n_places = iotide_gate::raise_open_files() / 4;
    if rustix::process::geteuid().is_root() {
        Shares::among_users(n_places)
    } else {
        Shares::for_one(n_places)
    }
}

/// Shares out connections: no more than a sixteenth of all descriptors is for those of one kind.
fn shares_of_connections(most: usize) -> Shares {
    Shares::among_users(most.min(iotide_gate::raise_open_files() / 16))
}

impl Shared {
    /// What is divided among users, by its name.
    fn shares(&self) -> Vec<(&'static str, &Shares)> {
        let questions = self.tree.iter().map(|tree| ("questions", &tree.askers));
        let own = [
            ("http", &self.connections),
            ("rpc", &self.rpc_connections),
            ("models", &self.models.askers),
            ("descriptors", &self.descriptors),
        ];
        own.into_iter().chain(questions).collect()
    }

    fn groups(&self) -> Arc<Vec<GroupJob>> {
        Arc::clone(&self.groups.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn view(&self) -> Arc<View> {
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

    fn node(&self) -> Arc<NodeReading> {
        Arc::clone(&self.node.read().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(crate) fn now_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// Serves until a signal asks for the end; `ready` is called once questions are answered, with the address of HTTP over TCP.
///
/// What an operator should know while it runs is handed to `say`; a controller meets it at `steering`.
pub fn serve(
    config: Config,
    steering: Steering,
    ready: impl FnOnce(&Addresses),
    mut say: impl FnMut(&str),
) -> Result<Served, ServeError> {
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let daemon = Daemon::start(config, steering)?;
    ready(&daemon.addresses);
    let mut notify = Notify::from_environment();
    notify.ready();
    let every = notify.watchdog().unwrap_or(Duration::from_secs(1)).min(Duration::from_secs(1));
    let served = loop {
        match signals.pending().next() {
            Some(SIGHUP) => break Served::Reload,
            Some(_) => break Served::Ended,
            None => {}
        }
        if daemon.is_alive() {
            notify.alive();
        }
        for notice in daemon.shared.tree.iter().flat_map(|tree| tree.take_notices()) {
            say(&notice);
        }
        thread::sleep(every.min(Duration::from_millis(200)));
    };
    match served {
        Served::Reload => notify.reloading(),
        Served::Ended => notify.stopping(),
    }
    daemon.stop();
    Ok(served)
}

/// Where a daemon is found.
#[derive(Clone, Copy, Debug, Default)]
pub struct Addresses {
    /// HTTP over TCP.
    pub http: Option<SocketAddr>,
    /// For daemons below.
    pub children: Option<SocketAddr>,
}

/// The threads of a daemon.
#[derive(Debug)]
struct Daemon {
    shared: Arc<Shared>,
    addresses: Addresses,
    tree: Option<Stoppable>,
    collector: Option<(Sender<()>, JoinHandle<()>)>,
    answers: Option<Stoppable>,
    rpc: Option<Stoppable>,
}

/// A thread, and what tells it to end.
type Stoppable = (tokio::sync::watch::Sender<bool>, JoinHandle<()>);

/// Starts a thread that works until it is told to end.
fn until_told(
    name: &str,
    work: impl FnOnce(tokio::sync::watch::Receiver<bool>) + Send + 'static,
) -> std::io::Result<Stoppable> {
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let thread = thread::Builder::new().name(name.to_owned()).spawn(move || work(stopped))?;
    Ok((stop, thread))
}

/// Where a daemon listens.
struct Listening {
    socket: OwnSocket,
    rpc_socket: OwnSocket,
    tcp: Option<TcpListener>,
    /// For daemons below.
    below: Option<TcpListener>,
}

impl Listening {
    /// Listens where the settings say, unless somebody else could put something into a directory that must be the daemon's own.
    fn open(config: &Config) -> Result<Self, ServeError> {
        let folder = config.socket.parent().unwrap_or(Path::new("/"));
        make_directory(folder)?;
        for path in [folder, &config.pages, &config.store] {
            let is_strangers = OpenDir::open(path).and_then(|folder| folder.is_strangers());
            if is_strangers.map_err(in_directory(path))? {
                return Err(ServeError::Strangers(path.to_owned()));
            }
        }
        // Everyone may ask; what they see depends on who they are.
        let bind = |path: &Path| {
            OwnSocket::bind(path, 0o666, None)
                .map_err(|cause| ServeError::Listen { at: path.display().to_string(), cause })
        };
        Ok(Self {
            socket: bind(&config.socket)?,
            rpc_socket: bind(&rpc_socket(&config.socket))?,
            tcp: config.http.map(listen).transpose()?,
            below: config.tree.as_ref().and_then(|tree| tree.children).map(listen).transpose()?,
        })
    }
}

/// What a daemon in a tree needs to speak with others.
struct Climbing {
    config: TreeConfig,
    key: Arc<Secret>,
    below: Option<TcpListener>,
}

impl Climbing {
    fn start(self, tree: Arc<Tree>, shared: &Arc<Shared>) -> std::io::Result<Stoppable> {
        let answers = answer::Answers::new(Arc::clone(shared));
        until_told("iotide-tree", move |stopped| {
            tree::run(&tree, &self.config, &self.key, self.below, answers, stopped);
        })
    }
}

/// What this node knows, with the jobs that ran when an earlier daemon ended.
fn restored_leaf(config: &Config, node: Name, store: &Store, now: u64) -> Result<Leaf, ServeError> {
    // Where the jobs of many machines meet, there are more.
    let is_above = config.tree.as_ref().is_some_and(|tree| tree.children.is_some());
    let limits = Limits::default().with_jobs(if is_above { MOST_JOBS_ABOVE } else { Limits::default().jobs });
    let limits = if rustix::process::geteuid().is_root() { limits } else { limits.of_one_user() };
    let mut leaf = Leaf::new(node, limits);
    for earlier in store.running()? {
        leaf.restore(now, earlier);
    }
    Ok(leaf)
}

/// Where this daemon stands in a tree, and how it reaches what is above and below; `None` if it stands alone.
fn place_in_tree(
    config: &Config,
    node: Name,
    store: &mut Store,
    below: Option<TcpListener>,
) -> Result<Option<(Arc<Tree>, Climbing)>, ServeError> {
    let Some(tree) = &config.tree else { return Ok(None) };
    let instance = store.instance(random_number()?)?;
    let climbing = Climbing { config: tree.clone(), key: Arc::new(tree.auth.load()?), below };
    Ok(Some((Arc::new(Tree::new(Place { node, instance }, !tree.parents.is_empty())), climbing)))
}

impl Daemon {
    fn start(config: Config, steering: Steering) -> Result<Self, ServeError> {
        config.check_http()?;
        let tls = config.web.tls.as_ref().map(tls::acceptor).transpose()?;
        let node = Name::new(&config.node).ok_or(ServeError::Node)?;
        memory::share_one_heap();
        config.series.check()?;
        let storage = config.storage.as_deref().map(read_storage).transpose()?;
        make_pages_directory(&config.pages, config.group.as_deref())?;
        let pages = OpenDir::open(&config.pages).map_err(in_directory(&config.pages))?;
        let mut store = Store::open(&config.store, &config.node, now_ns())?;
        let token = doors::own_token(&config.store).map_err(in_directory(&config.store))?;
        let mut listening = Listening::open(&config)?;
        let below = listening.below.take();
        let address = |listener: &Option<TcpListener>| listener.as_ref().and_then(|it| it.local_addr().ok());
        let addresses = Addresses { http: address(&listening.tcp), children: address(&below) };
        let doors =
            Doors::open(&config.store, token, &config.web, addresses.http.map(|address| address.port()))
                .map_err(in_directory(&config.store))?;

        let (now, expectations) = (now_ns(), Expectations::default());
        let mut leaf = restored_leaf(&config, node.clone(), &store, now)?;
        let (tree, climbing) = place_in_tree(&config, node, &mut store, below)?.unzip();
        let gathering = match &tree {
            None => None,
            Some(tree) => {
                Some(Gathering::start(Arc::clone(tree), expectations.clone(), now, &store, &mut leaf)?)
            }
        };
        let descriptors = shares_of_pages();
        let mut collector = Collector::new(pages, Proc("/proc".into()), descriptors.clone());
        let removed = collector.remove_counted(store.done_pages()?);
        store.forget_pages(&removed)?;
        let (sampling, series) =
            Sampling::start(&config.store, config.series).map_err(in_directory(&config.store))?;
        let events = Events::default();
        let alarms = start_alarms(&config, &events, &expectations, &series, &mut store)?;
        let shared = Arc::new(Shared {
            view: RwLock::new(Arc::new(leaf.view(now))),
            beat_ns: AtomicU64::new(now),
            started_ns: now,
            doors,
            http: addresses.http,
            store_fault: RwLock::default(),
            expectations,
            alarms,
            published: redis::Published::default(),
            steering: steering.clone(),
            forecasts: Forecasts::new(storage),
            turns: turns::Turns::default(),
            connections: shares_of_connections(http::MOST_CONNECTIONS),
            rpc_connections: shares_of_connections(rpc::MOST_CONNECTIONS),
            descriptors,
            models: Models::start(config.store.clone(), events.clone())?,
            events,
            series,
            node: RwLock::default(),
            tree: tree.clone(),
            groups: RwLock::default(),
            n_group_readings: AtomicU64::new(0),
            has_answered: AtomicBool::new(false),
            written: remote_write::written(&config.remote_write),
            exporters: Exporters::new(&config.scrape),
            config,
        });
        steering.begin(&shared);
        let mut work = Collecting::begin(&shared, leaf, collector, store, sampling, gathering)?;
        work.round();
        work.collector.settle(now_ns(), &mut work.leaf);
        Self::run(shared, work, listening, tls, tree.zip(climbing), addresses)
    }

    /// Starts what goes on in threads of its own.
    fn run(
        shared: Arc<Shared>,
        work: Collecting,
        Listening { socket, rpc_socket, tcp, .. }: Listening,
        tls: Option<TlsAcceptor>,
        tree: Option<(Arc<Tree>, Climbing)>,
        addresses: Addresses,
    ) -> Result<Self, ServeError> {
        let (running, until_stopped) = channel();
        let thread = thread::Builder::new().name("iotide-collect".to_owned());
        let collecting = thread.spawn(move || work.run(&until_stopped))?;
        let of_http = Arc::clone(&shared);
        let answers = until_told("iotide-http", move |stopped| {
            http::run(&of_http, socket, tcp.map(|tcp| (tcp, tls)), stopped);
        })?;
        let of_rpc = Arc::clone(&shared);
        let rpc = until_told("iotide-rpc", move |stopped| rpc::run(&of_rpc, rpc_socket, stopped))?;
        watch_node(&shared)?;
        groups::watch(&shared)?;
        remote_write::start(&shared)?;
        Exporters::start(&shared)?;
        redis::start(&shared)?;
        let tree = tree.map(|(tree, climbing)| climbing.start(tree, &shared)).transpose()?;
        Ok(Self {
            shared,
            addresses,
            tree,
            collector: Some((running, collecting)),
            answers: Some(answers),
            rpc: Some(rpc),
        })
    }

    /// Whether pages are read and questions answered.
    fn is_alive(&self) -> bool {
        let beat = Duration::from_nanos(now_ns().saturating_sub(self.shared.beat_ns.load(Ordering::Relaxed)));
        let threads = [
            self.collector.as_ref().map(|(_, thread)| thread),
            self.answers.as_ref().map(|(_, thread)| thread),
            self.rpc.as_ref().map(|(_, thread)| thread),
            self.tree.as_ref().map(|(_, thread)| thread),
        ];
        beat < Duration::from_secs(10) && threads.into_iter().flatten().all(|thread| !thread.is_finished())
    }

    /// Ends the threads: what they have to store is stored.
    fn stop(mut self) {
        let mut threads = Vec::new();
        if let Some((running, thread)) = self.collector.take() {
            drop(running);
            threads.push(thread);
        }
        for (stop, thread) in [self.answers.take(), self.rpc.take(), self.tree.take()].into_iter().flatten() {
            let _ = stop.send(true);
            threads.push(thread);
        }
        let begun = std::time::Instant::now();
        // A disk that does not answer must not keep the machine from shutting down.
        while threads.iter().any(|thread| !thread.is_finished()) && begun.elapsed() < END_WITHIN {
            thread::sleep(Duration::from_millis(5));
        }
        for thread in threads.into_iter().filter(JoinHandle::is_finished) {
            let _ = thread.join();
        }
        self.shared.forecasts.end();
    }
}

/// Feeds any text to what reads queries, forms, tokens, topologies and answers over HTTP.
#[cfg(fuzzing)]
pub(crate) fn fuzz(text: &str) {
    if let Ok(asked) = answer::Asked::parse(text) {
        let again =
            answer::Asked::parse(&format!("job={}", crate::client::in_query(asked.get("job").unwrap_or(""))));
        assert!(again.is_ok_and(|again| again.get("job") == Some(asked.get("job").unwrap_or(""))));
    }
    let _ = (doors::tokens_of(text), web::link_in(text));
    let _ = (text.parse::<Url>(), ProxyFrom::parse(text), TokenRole::parse(text));
    for viewer in [answer::Viewer::All, answer::Viewer::Sums] {
        let _ = routes::find("GET", text).map(|route| route.check(viewer, false));
    }
    tree::fuzz(text);
}

/// Where controllers ask: beside the socket of HTTP.
pub fn rpc_socket(http: &Path) -> PathBuf {
    let mut name = http.as_os_str().to_owned();
    name.push(".");
    name.push(rpc::SUFFIX);
    name.into()
}

/// Starts what watches for alarms. What a damaged database of rules held is a loss.
fn start_alarms(
    config: &Config,
    events: &Events,
    expectations: &Expectations,
    series: &Series,
    store: &mut Store,
) -> Result<Alarms, ServeError> {
    let alertmanagers = config.alertmanagers.iter().cloned().map(Route::Alertmanager);
    let needs = Needs {
        was_one: store.note_alarms()?,
        store: config.store.clone(),
        node: config.node.clone(),
        events: events.clone(),
        expectations: expectations.clone(),
        series: series.clone(),
        routes: alertmanagers.chain(config.webhooks.iter().cloned().map(Route::Webhook)).collect(),
        sends_users_alarms: config.sends_users_alarms,
    };
    let (alarms, loss) = Alarms::start(needs, now_ns())?;
    if let Some(loss) = loss {
        store.lose(now_ns(), None, &loss)?;
    }
    Ok(alarms)
}

fn in_directory(path: &Path) -> impl Fn(io::Error) -> ServeError + use<> {
    let path = path.to_owned();
    move |cause| ServeError::Directory { path: path.clone(), cause }
}

fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address)
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
        .map_err(|cause| ServeError::Listen { at: address.to_string(), cause })
}

/// Makes a directory of the machine's, or of a user's own, if there is none.
fn make_directory(path: &Path) -> Result<(), ServeError> {
    let made =
        if rustix::process::geteuid().is_root() { OpenDir::make(path) } else { OpenDir::make_private(path) };
    made.map(drop).map_err(in_directory(path))
}

/// Starts the threads that read what the machine does. They end soon after the daemon has, unless a disk does not answer: nobody waits for them.
fn watch_node(shared: &Arc<Shared>) -> io::Result<()> {
    let files = NodeFiles::default();
    let spawn = |name: &str, every: Duration, read: fn(&NodeFiles) -> NodeReading, take: Take| {
        let (files, shared) = (files.clone(), Arc::downgrade(shared));
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            loop {
                let reading = read(&files);
                let Some(shared) = shared.upgrade() else { return };
                let mut held = shared.node.write().unwrap_or_else(PoisonError::into_inner);
                take(Arc::make_mut(&mut held), reading);
                drop(held);
                drop(shared);
                thread::sleep(every);
            }
        })
    };
    spawn("iotide-node", Duration::from_secs(1), NodeFiles::read, NodeReading::take_machine)?;
    let of_file_systems = NodeFiles::read_file_systems;
    spawn("iotide-space", Duration::from_secs(5), of_file_systems, NodeReading::take_file_systems)?;
    spawn("iotide-servers", Duration::from_secs(1), NodeFiles::read_servers, NodeReading::take_servers)?;
    Ok(())
}

/// How a reading becomes part of what is known.
type Take = fn(&mut NodeReading, NodeReading);

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut random = [0; N];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(random)
}

fn random_number() -> io::Result<u64> {
    random().map(u64::from_le_bytes)
}
