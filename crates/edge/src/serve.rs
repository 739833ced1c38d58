//! Starts the threads of a daemon, waits for a signal, and ends them.
//!
//! One thread reads pages and writes the store, one speaks HTTP, a few work out answers, the first waits for signals. They share [`Shared`] and nothing else: who
//! asks never waits for the disk that the other writes to.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use iotide_ledger::tree::Place;
use iotide_ledger::{Limits, Name};
use iotide_private::{OpenDir, OwnSocket};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tokio_rustls::TlsAcceptor;

use iotide_alarms::{Alarms, Needs, Route};
use iotide_daemon::collect::{Collector, NodeFiles, NodeReading, Proc};
use iotide_daemon::events::Events;
use iotide_daemon::gather::{Gathering, Tree};
use iotide_daemon::leaf::Leaf;
use iotide_daemon::memory;
use iotide_daemon::models::Models;
use iotide_daemon::predict::Expectations;
use iotide_daemon::series::{Sampling, Series};
use iotide_daemon::store::Store;

use crate::answer::Answers;
use crate::collecting::Collecting;
use crate::config::{Config, ServeError, Served};
use crate::doors::Doors;
use crate::exporters::Exporters;
use crate::forecast::{Forecasts, read_storage};
use crate::notify::Notify;
use crate::pages::make_pages_directory;
use crate::shared::{Shared, now_ns, random, shares_of_connections, shares_of_pages};
use crate::steering::Steering;
use crate::tree::{Secret, TreeConfig};
use crate::why::Whys;
use crate::{doors, groups, http, redis, remote_write, rpc, tls, tree, turns};

/// A store that failed is tried again after this.
pub(crate) const RETRY: Duration = Duration::from_secs(1);
/// Time within which threads finish their remaining work at the end.
const END_WITHIN: Duration = Duration::from_secs(4);

/// Jobs at once of a daemon with others below it.
const MOST_JOBS_ABOVE: usize = 8192;

/// Serves until a signal asks for the end; `ready` is called once questions are answered, with the address of HTTP over TCP.
///
/// Messages for the operator while it runs go to `say`; a controller meets it at `steering`.
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

/// Starts a thread that works until it is stopped.
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

/// Parts that a daemon in a tree needs to speak with others.
struct Climbing {
    config: TreeConfig,
    key: Arc<Secret>,
    below: Option<TcpListener>,
}

impl Climbing {
    fn start(self, tree: Arc<Tree>, shared: &Arc<Shared>) -> std::io::Result<Stoppable> {
        let answers = Answers::new(Arc::clone(shared));
        until_told("iotide-tree", move |stopped| {
            tree::run(&tree, &self.config, &self.key, self.below, answers, stopped);
        })
    }
}

/// Returns the leaf of this node, with the jobs that ran when an earlier daemon ended.
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
            whys: Whys::default(),
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

pub(crate) fn in_directory(path: &Path) -> impl Fn(io::Error) -> ServeError + use<> {
    let path = path.to_owned();
    move |cause| ServeError::Directory { path: path.clone(), cause }
}

fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address)
        .and_then(|listener| listener.set_nonblocking(true).map(|()| listener))
        .map_err(|cause| ServeError::Listen { at: address.to_string(), cause })
}

/// Makes a directory of the machine's, or of a user's own, if there is none.
pub(crate) fn make_directory(path: &Path) -> Result<(), ServeError> {
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

fn random_number() -> io::Result<u64> {
    random().map(u64::from_le_bytes)
}
