//! The edge of the tree: sockets, keys, timeouts. What is said is in [`iotide_ledger::tree`].
//!
//! One thread for all connections. Each has two tasks, one that reads and one that writes, so that neither waits for the other; and each is its own:
//! a peer that hangs is waited for by nobody else.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, ready};
use std::time::Duration;

use iotide_ledger::Name;
use iotide_ledger::tree::{Downlink, Frame, Hello, Inbox, LinkError, Uplink, Welcome};
use iotide_private::Shares;
use iotide_wire::Fnv1a;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::answer::{Answers, Viewer};
use crate::http::address_number;
use crate::rpc;
use crate::shared::{now_ns, random};
use crate::silent::Silent;
use asking::Samples;
pub use controllers::bridge;
use iotide_daemon::below::Below;
use iotide_daemon::gather::{Tree, lock};
pub use keys::{Auth, Key, KeyError, Secret, write_key};
use keys::{Session, Side, Tls};
pub use load::{Leaves, Load};

pub(super) mod asking;
mod controllers;
mod keys;
mod load;
mod topology;

/// Feeds any text to what reads Slurm's topology and answers of munge.
#[cfg(fuzzing)]
pub(super) fn fuzz(text: &str) {
    if let Ok(gatherers) = topology::gatherers(text, "n1") {
        assert!(gatherers.len() <= 2);
    }
    let _ = (topology::slurm_port(text), TreeConfig::is_parent(text), keys::unmunged(text));
}

/// Where a daemon stands in a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeConfig {
    /// Daemons above, as HOST:PORT, or `slurm[:PORT]` for those that Slurm's topology says; one of them is sent to. None: this is the root.
    pub parents: Vec<String>,
    /// Where daemons below connect to.
    pub children: Option<SocketAddr>,
    /// How daemons of the tree know each other.
    pub auth: Auth,
    /// Daemons below at once.
    pub most_children: usize,
}

impl TreeConfig {
    /// Daemons below at once, unless someone says otherwise.
    pub const MOST_CHILDREN: usize = 1024;

    /// Whether a parent can be one: an address, or what stands for those that Slurm's topology says.
    pub fn is_parent(parent: &str) -> bool {
        let is_address = |(host, port): (&str, &str)| {
            !host.is_empty() && host != topology::SLURM && port.parse::<u16>().is_ok()
        };
        topology::slurm_port(parent).is_some() || parent.rsplit_once(':').is_some_and(is_address)
    }

    /// The parents that are named by their addresses, without those that Slurm's topology says.
    pub fn named_parents(&self) -> Vec<String> {
        let is_named = |parent: &&String| topology::slurm_port(parent).is_none();
        self.parents.iter().filter(is_named).cloned().collect()
    }
}

/// A peer has said who it is after this.
const GREET_WITHIN: Duration = Duration::from_secs(5);
/// A peer that says nothing for so long is lost: a child asks every two seconds, and is answered.
const SILENT: Duration = Duration::from_secs(5);
/// What cannot be sent within this is not waited for.
const SEND_WITHIN: Duration = Duration::from_secs(5);
/// How often rows are sent.
const TICK: Duration = Duration::from_secs(1);
/// … and how far apart at least, however much comes from below.
const SPACING: Duration = Duration::from_millis(100);
/// A parent that cannot be reached is tried again after this, and after twice as long each time.
const RETRY: Duration = Duration::from_millis(200);
/// … but not after more than this: whoever comes back is to be found soon.
const MOST_RETRY: Duration = Duration::from_secs(2);
/// Who is not at its first parent tries that again so often.
const HOME: Duration = Duration::from_secs(60);
/// Rows are sent in pieces of about this size.
const PIECE: usize = 48 << 10;
/// What peers say is taken in in pieces of this size: more than one usually says at a time.
const PIECE_IN: usize = 4 << 10;
/// When there are no descriptors left, others have this long to close some.
const BREATHER: Duration = Duration::from_millis(50);
/// Peers that have not said yet who they are. As many again have places of their own: those at a port that only root of their machine can use.
const MOST_STRANGERS: usize = 256;
/// Ports that only root can use begin below this one.
const PRIVILEGED: u16 = 1024;
/// Such ports that are tried before any other is used.
const MOST_TRIED: u16 = 8;

/// Serves until it is told to stop.
pub(super) fn run(
    tree: &Arc<Tree>,
    config: &TreeConfig,
    key: &Arc<Secret>,
    listener: Option<TcpListener>,
    answers: Answers,
    mut stopped: watch::Receiver<bool>,
) {
    // Threads for munge, of which few are needed at a time.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(8).build();
    let Ok(runtime) = runtime else { return };
    let tls = match Tls::new(key) {
        Ok(tls) => Arc::new(tls),
        Err(why) => return tree.note(format!("no part of a tree: {why}")),
    };
    let shared = Arc::clone(&answers.shared);
    let samples = Samples::new(move |question| shared.answer_above(question));
    runtime.block_on(async {
        if let Some(listener) = listener {
            let most = config.most_children;
            let controllers = (Arc::new(answers), Arc::new(tokio::sync::Semaphore::new(controllers::MOST)));
            let peers = (Arc::clone(tree), Arc::clone(key), Arc::clone(&tls));
            tokio::spawn(accept(listener, most, peers, controllers));
        }
        if !config.parents.is_empty() {
            tokio::spawn(climb(config.parents.clone(), Arc::clone(tree), Arc::clone(key), tls, samples));
        }
        let _ = stopped.changed().await;
        // What is final is under way at once; what is not acknowledged is sent again after the next start.
        tokio::time::sleep(Duration::from_millis(200)).await;
    });
    runtime.shutdown_timeout(Duration::from_millis(100));
}

type Controllers = (Arc<Answers>, Arc<tokio::sync::Semaphore>);

async fn accept(
    listener: TcpListener,
    most: usize,
    (tree, key, tls): (Arc<Tree>, Arc<Secret>, Arc<Tls>),
    controllers: Controllers,
) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let mut strangers = [false, true].map(|_| (Shares::among_users(MOST_STRANGERS), Silent::default()));
    let children = Arc::new(tokio::sync::Semaphore::new(most));
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            tokio::time::sleep(BREATHER).await;
            continue;
        };
        let number = address_number(&peer);
        let (shares, silent) = &mut strangers[usize::from(peer.port() < PRIVILEGED)];
        let Some(place) = silent.place(shares, number).await else { continue };
        let was_greeted = Arc::new(AtomicBool::new(false));
        let greeting = Arc::clone(&was_greeted);
        let (tree, key, tls) = (Arc::clone(&tree), Arc::clone(&key), Arc::clone(&tls));
        let (children, controllers) = (Arc::clone(&children), controllers.clone());
        let task = tokio::spawn(async move {
            // In a place of its own, which is given back: thousands are here for long after they were greeted.
            let greeted = Box::pin(timeout(GREET_WITHIN, greet_child(stream, &tree, &key, &tls))).await;
            greeting.store(true, Ordering::Relaxed);
            drop(place);
            match greeted {
                Ok(Ok(Greeted::Controller(stream))) => {
                    let (answers, room) = controllers;
                    if let Ok(_room) = room.try_acquire() {
                        // Who has the key of the tree speaks for all of it.
                        let _ = rpc::attend(stream, Viewer::All, answers).await;
                    }
                }
                Ok(Ok(Greeted::Child(stream, below, session))) => {
                    let Ok(_room) = children.try_acquire() else {
                        tree.note(format!("a daemon is turned away: {most} are below already"));
                        return;
                    };
                    let speaks_for = |node: &Name| key.speaks_for(&session, node);
                    attend_child(stream, &below, &tree, &speaks_for).await;
                }
                Ok(Err(why)) => tree.note(format!("a peer at {} is refused: {why}", peer.ip())),
                Err(_) => tree.note(format!("a peer at {} is refused: it says nothing", peer.ip())),
            }
        });
        silent.add(number, task.abort_handle(), was_greeted, MOST_STRANGERS);
    }
}

/// Why nothing came of a connection.
#[derive(Debug, thiserror::Error)]
enum PeerError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error("it does not prove that it belongs here")]
    Key,
    #[error("another daemon named {0} is connected here: set another --node for one of them")]
    Taken(Name),
    #[error("it says nothing")]
    Silent,
    #[error("the connection ended")]
    Ended,
}

/// In one place, however often it is handed on: it is large.
type Encrypted = Box<tokio_rustls::TlsStream<TcpStream>>;

/// Reads until the first frame is there.
async fn first_frame<T>(
    stream: &mut (impl AsyncRead + Unpin),
    inbox: &mut Inbox,
    mut wanted: impl FnMut(&Frame<'_>) -> Option<T>,
) -> Result<T, PeerError> {
    let mut buffer = [0; 2048];
    let mut found = None;
    loop {
        let n = stream.read(&mut buffer).await?;
        if n == 0 {
            return Err(PeerError::Ended);
        }
        inbox.take(&buffer[..n], |frame| {
            if found.is_some() {
                return Err(LinkError::Protocol("it speaks before it is answered"));
            }
            if let Frame::Bye(why) = frame {
                return Err(LinkError::Bye(why.clone()));
            }
            found = Some(wanted(frame).ok_or(LinkError::Protocol("it does not say hello"))?);
            Ok(())
        })?;
        if let Some(found) = found {
            return Ok(found);
        }
    }
}

/// Hands on what a peer says, until it says nothing for too long.
async fn hear(
    stream: &mut (impl AsyncRead + Unpin),
    mut take: impl FnMut(&[u8]) -> Result<(), LinkError>,
) -> Result<(), PeerError> {
    loop {
        // Only whoever is read has a buffer: thousands wait.
        let next = poll_fn(|context| {
            let mut space = [0; PIECE_IN];
            let mut buffer = ReadBuf::new(&mut space);
            ready!(Pin::new(&mut *stream).poll_read(context, &mut buffer))?;
            Poll::Ready(match buffer.filled() {
                [] => Err(PeerError::Ended),
                bytes => take(bytes).map_err(PeerError::from),
            })
        });
        timeout(SILENT, next).await.map_err(|_| PeerError::Silent)??;
    }
}

async fn send(stream: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> Result<(), PeerError> {
    match timeout(SEND_WITHIN, async {
        stream.write_all(bytes).await?;
        stream.flush().await
    })
    .await
    {
        Ok(sent) => Ok(sent?),
        Err(_) => Err(PeerError::Silent),
    }
}

/// Who has been greeted.
enum Greeted {
    Child(Encrypted, Arc<Below>, Session),
    Controller(Encrypted),
}

/// Takes a child in, if it knows the key and may be below; or hears a controller.
async fn greet_child(stream: TcpStream, tree: &Tree, key: &Secret, tls: &Tls) -> Result<Greeted, PeerError> {
    stream.set_nodelay(true)?;
    let stream = tls.accept(stream).await?;
    let session = Session::of(stream.get_ref().1)?;
    let is_controller = stream.get_ref().1.alpn_protocol() == Some(controllers::PROTOCOL);
    let mut stream: Encrypted = Box::new(stream.into());
    if is_controller {
        controllers::greet(&mut stream, &session, tree, key).await?;
        return Ok(Greeted::Controller(stream));
    }
    let mut inbox = Inbox::default();
    let hello: Hello = first_frame(&mut stream, &mut inbox, |frame| match frame {
        Frame::Hello(hello) => Some(hello.clone()),
        _ => None,
    })
    .await?;
    if !key.is_proof(Side::Child, &session, &hello.place, &hello.proof).await? {
        return Err(PeerError::Key);
    }
    let own = tree.hub().own.clone();
    let proof = key.prove(Side::Parent, &session, &own).await?;
    let (begun, answer) = {
        let hub = tree.hub();
        match Downlink::begin(&hub, &hello).map_err(PeerError::from) {
            Ok(_) if tree.is_taken(&hello.place) => {
                let why = PeerError::Taken(hello.place.node.clone());
                let text = Name::cut(why.to_string().as_bytes());
                (Err(why), Frame::Bye(text))
            }
            Ok((down, version)) => {
                (Ok(down), Frame::Welcome(Welcome { version, path: Downlink::path(&hub), proof }))
            }
            Err(why) => {
                let text = Name::cut(why.to_string().as_bytes());
                (Err(why), Frame::Bye(text))
            }
        }
    };
    let mut bytes = Vec::new();
    answer.write(&mut bytes);
    send(&mut stream, &bytes).await?;
    Ok(Greeted::Child(stream, Below::new(begun?), session))
}

/// Hears a child until it is lost.
async fn attend_child(
    stream: Encrypted,
    below: &Arc<Below>,
    tree: &Tree,
    speaks_for: &(dyn Fn(&Name) -> bool + Sync),
) {
    let node = &below.child().node;
    if let Err(why) = tree.joined(below) {
        return tree.note(format!("a peer is refused: {}", PeerError::Taken(why)));
    }
    let (mut reading, mut writing) = tokio::io::split(stream);
    let mut inbox = Inbox::default();
    let hear = hear(&mut reading, |bytes| {
        below.heard(|down| {
            let mut hub = tree.hub();
            inbox.take(bytes, |frame| {
                let of = match frame {
                    Frame::Open { row, .. } => Some(&row.node),
                    Frame::Node(news) => Some(&news.node),
                    _ => None,
                };
                if of.is_some_and(|of| of != node && !speaks_for(of)) {
                    return Err(LinkError::Protocol("its certificate does not let it speak for others"));
                }
                down.heard(now_ns(), frame, &mut hub)
            })
        })?;
        tree.has_rows.notify_one();
        Ok(())
    });
    let answer = async {
        let mut bytes = Vec::new();
        loop {
            below.has_answers.notified().await;
            tree.fill(below, &mut bytes);
            send(&mut writing, &bytes).await?;
            bytes.clear();
        }
    };
    let ended: Result<(), PeerError> = tokio::select! {
        ended = hear => ended,
        ended = answer => ended,
        () = below.leave.notified() => Ok(()),
    };
    tree.left(below);
    if let Err(PeerError::Link(why)) = ended
        && !matches!(why, LinkError::Bye(_))
    {
        tree.note(format!("{node} is cut off: {why}"));
    }
}

/// Finds a parent, again and again.
async fn climb(
    parents: Vec<String>,
    tree: Arc<Tree>,
    key: Arc<Secret>,
    tls: Arc<Tls>,
    samples: Arc<Samples>,
) {
    // Each child prefers another one, and always the same: so they spread, and come back to where they were.
    let own = tree.hub().own.clone();
    let weight = |parent: &String| {
        let mut hash = Fnv1a::of(own.node.as_str().as_bytes());
        hash.write(parent.as_bytes());
        hash.value()
    };
    let mut named = parents;
    named.sort_by_key(|parent| std::cmp::Reverse(weight(parent)));
    let mut parents = Parents::new(named);
    let jitter = |n: u64| Duration::from_millis(Fnv1a::of(&(own.instance ^ n).to_le_bytes()).value() % 100);
    let (mut wait, mut which) = (RETRY, 0);
    for n in 0.. {
        let all = parents.now(&tree).await;
        if all.is_empty() {
            tokio::time::sleep(MOST_RETRY + jitter(n)).await;
            continue;
        }
        which %= all.len();
        let reached = timeout(GREET_WITHIN, greet_parent(&all[which], &tree, &key, &tls)).await;
        let why = match reached {
            Ok(Ok((stream, up))) => {
                wait = RETRY;
                tree.note_again();
                let parent = tree.hub().path().first().map(|parent| parent.node.clone()).unwrap_or_default();
                tree.note(format!("connected to the daemon above, {parent} at {}", all[which]));
                let until = (which > 0).then(|| Instant::now() + HOME);
                attend_parent(stream, up, &tree, &samples, until).await
            }
            Ok(Err(why)) => Some(why),
            Err(_) => Some(PeerError::Silent),
        };
        tree.hub().set_path(Vec::new());
        match why {
            None => which = 0,
            Some(why) => {
                tree.note(format!("no connection to {}: {why}", all[which]));
                which = (which + 1) % all.len();
            }
        }
        tokio::time::sleep(wait + jitter(n)).await;
        wait = (wait * 2).min(MOST_RETRY);
    }
}

/// Who may be above.
struct Parents {
    /// As they were named, in the order in which they are preferred.
    named: Vec<String>,
    /// The port of those that Slurm's topology says, if these are wanted.
    slurm: Option<u16>,
    /// What it said, and when that was.
    gatherers: Vec<String>,
    asked: Option<Instant>,
}

/// Slurm's topology is asked for again so often while nobody is found above, and after it did not answer.
const ASK_AGAIN: Duration = Duration::from_secs(60);

impl Parents {
    fn new(mut named: Vec<String>) -> Self {
        let slurm = named.iter().find_map(|parent| topology::slurm_port(parent));
        named.retain(|parent| topology::slurm_port(parent).is_none());
        Self { named, slurm, gatherers: Vec::new(), asked: None }
    }

    /// Those that are preferred first: who gathers for the switch, then those that are named.
    async fn now(&mut self, tree: &Tree) -> Vec<String> {
        if let Some(port) = self.slurm
            && self.asked.is_none_or(|asked| asked.elapsed() >= ASK_AGAIN)
        {
            self.asked = Some(Instant::now());
            let node = tree.hub().own.node.to_string();
            match timeout(SCONTROL_WITHIN, topology::ask(&node, port)).await {
                Ok(Ok(gatherers)) => self.gatherers = gatherers,
                // What it said before still holds.
                Ok(Err(why)) => tree.note(format!("no parent by Slurm's topology: {why}")),
                Err(_) => tree.note("no parent by Slurm's topology: scontrol does not answer".to_owned()),
            }
        }
        self.gatherers.iter().chain(&self.named).cloned().collect()
    }
}

/// Longer than this nobody waits for `scontrol`.
const SCONTROL_WITHIN: Duration = Duration::from_secs(10);

async fn greet_parent(
    address: &str,
    tree: &Tree,
    key: &Secret,
    tls: &Tls,
) -> Result<(Encrypted, Uplink), PeerError> {
    let stream = connect(address).await?;
    stream.set_nodelay(true)?;
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host.trim_matches(['[', ']']));
    let stream = tls.connect(stream, host).await?;
    let session = Session::of(stream.get_ref().1)?;
    let mut stream: Encrypted = Box::new(stream.into());
    let mut bytes = Vec::new();
    let own = tree.hub().own.clone();
    let proof = key.prove(Side::Child, &session, &own).await?;
    Uplink::hello(&tree.hub(), proof).write(&mut bytes);
    send(&mut stream, &bytes).await?;
    let welcome: Welcome = first_frame(&mut stream, &mut Inbox::default(), |frame| match frame {
        Frame::Welcome(welcome) => Some(welcome.clone()),
        _ => None,
    })
    .await?;
    let parent = welcome.path.first().cloned().unwrap_or_default();
    if !key.is_proof(Side::Parent, &session, &parent, &welcome.proof).await? {
        return Err(PeerError::Key);
    }
    let up = Uplink::begin(&mut tree.hub(), &welcome)?;
    Ok((stream, up))
}

/// Connects from a port that only root can use, where that can be: at the other end, such ports have places that no user can take.
async fn connect(address: &str) -> io::Result<TcpStream> {
    if rustix::process::geteuid().is_root() {
        let [first] = random::<1>()?;
        for target in tokio::net::lookup_host(address).await? {
            for n in 0..MOST_TRIED {
                let socket = if target.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
                let any: IpAddr = if target.is_ipv4() {
                    Ipv4Addr::UNSPECIFIED.into()
                } else {
                    Ipv6Addr::UNSPECIFIED.into()
                };
                let port = PRIVILEGED - 1 - (u16::from(first) + 31 * n) % 256;
                if socket.bind((any, port).into()).is_err() {
                    continue;
                }
                match socket.connect(target).await {
                    Err(why) if is_port_in_use(&why) => {}
                    Err(_) => break,
                    connected => return connected,
                }
            }
        }
    }
    TcpStream::connect(address).await
}

fn is_port_in_use(why: &io::Error) -> bool {
    matches!(why.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable)
}

/// Sends rows to a parent and answers what it asks, until it is lost, or until it is time to go home.
async fn attend_parent(
    stream: Encrypted,
    up: Uplink,
    tree: &Arc<Tree>,
    samples: &Arc<Samples>,
    until: Option<Instant>,
) -> Option<PeerError> {
    let (mut reading, mut writing) = tokio::io::split(stream);
    let up = Arc::new(Mutex::new(up));
    let mut inbox = Inbox::default();
    // What is worked on ends with the connection it was asked on.
    let mut answering = JoinSet::new();
    let has_answers = Arc::new(Notify::new());
    let hear = hear(&mut reading, |bytes| {
        let asked = {
            let (mut up, mut hub) = (lock(&up), tree.hub());
            inbox.take(bytes, |frame| up.heard(now_ns(), frame, &mut hub))?;
            tree.set_skew(up.skew());
            up.take_asked()
        };
        while answering.try_join_next().is_some() {}
        for ask in asked {
            let (tree, samples, up) = (Arc::clone(tree), Arc::clone(samples), Arc::clone(&up));
            let has_answers = Arc::clone(&has_answers);
            answering.spawn(async move {
                let id = ask.id;
                let answered = asking::answer(&tree, samples, ask).await;
                lock(&up).answer(id, answered);
                has_answers.notify_one();
            });
        }
        Ok(())
    });
    let tell = async {
        let mut bytes = Vec::new();
        loop {
            let begun = Instant::now();
            let mut is_all = false;
            while !is_all {
                bytes.clear();
                is_all = lock(&up).fill(now_ns(), &tree.hub(), PIECE, &mut bytes)?;
                send(&mut writing, &bytes).await?;
            }
            // What has come meanwhile is sent soon; what has not changed is not sent.
            let mut pause = pin!(async {
                tokio::time::sleep(SPACING).await;
                let _ = timeout(TICK.saturating_sub(begun.elapsed()), tree.has_rows.notified()).await;
            });
            // Answers have the time in between. Rows wait for one piece of them at most.
            loop {
                tokio::select! {
                    biased;
                    () = &mut pause => break,
                    () = has_answers.notified() => {}
                }
                bytes.clear();
                if !lock(&up).fill_answers(PIECE, &mut bytes) {
                    has_answers.notify_one();
                }
                send(&mut writing, &bytes).await?;
            }
        }
    };
    let home = async {
        match until {
            Some(until) => tokio::time::sleep_until(until).await,
            None => std::future::pending().await,
        }
    };
    let ended: Result<(), PeerError> = tokio::select! {
        ended = hear => ended,
        ended = tell => ended,
        () = home => Ok(()),
    };
    ended.err()
}
