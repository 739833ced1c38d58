//! Models in a Redis database, for controllers that look there: a hash for each application, and a channel that says which has changed.
//!
//! A thread of its own. A server that is away is tried again, and has all that is known once it is back.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use iotide_http::{in_query, time_left};
use iotide_ledger::{Exposition, Kind, Name};
use iotide_wire::{RespLine, put_resp_command};

use crate::answer::{Answers, Viewer};
use crate::shared::{Shared, now_ns};
use iotide_daemon::collect::user_name;
use iotide_daemon::models::Wanted;

/// Nothing is waited for longer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// After a failure nothing is tried for so long; twice as long after each further one.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// How soon a thread notices that the daemon ends.
const NAP: Duration = Duration::from_millis(500);
/// Where changes are published.
const CHANNEL: &str = "iotide:models";
const KEY: &str = "iotide:model:";

/// Where a Redis server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedisAddress {
    /// At a host and a port.
    Tcp(String),
    /// At a unix socket.
    Unix(PathBuf),
}

impl std::str::FromStr for RedisAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.starts_with('/') {
            return Ok(Self::Unix(text.into()));
        }
        let is_address =
            text.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
        if is_address && text.len() < 300 {
            Ok(Self::Tcp(text.to_owned()))
        } else {
            Err("a host and a port, as in 127.0.0.1:6379, or the path of a socket")
        }
    }
}

/// Which server, and what it wants to hear first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisConfig {
    /// Where it is.
    pub address: RedisAddress,
    /// A file with the password, which nobody else can read.
    pub password: Option<PathBuf>,
}

impl RedisConfig {
    fn password(&self) -> io::Result<Option<String>> {
        let Some(path) = &self.password else { return Ok(None) };
        read_password(path).map(Some)
    }
}

fn read_password(path: &Path) -> io::Result<String> {
    let file = iotide_private::open_ordinary(path)?;
    let metadata = file.metadata()?;
    if metadata.mode() & 0o077 != 0 || !iotide_private::is_our_user(Some(metadata.uid())) {
        return Err(io::Error::other("the file of the password can be read by others: chmod 0400"));
    }
    let mut text = String::new();
    file.take(4096).read_to_string(&mut text)?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// What became of it.
#[derive(Debug, Default)]
pub(crate) struct Published {
    n_models: AtomicU64,
    is_failing: AtomicBool,
}

impl Published {
    /// As `/metrics` shows it.
    pub(crate) fn exposition(&self, text: &mut Exposition) {
        let name = "iotide_daemon_redis_published_total";
        text.family(name, Kind::Counter, "Models of applications that Redis took.")
            .sample(&[], self.n_models.load(Ordering::Relaxed));
        text.family("iotide_daemon_redis_failing", Kind::Gauge, "Whether Redis does not take models.")
            .sample(&[], self.is_failing.load(Ordering::Relaxed).into());
    }
}

/// Starts the thread, if models are to be published. It ends soon after the daemon has.
pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<()> {
    let Some(config) = shared.config.redis.clone() else { return Ok(()) };
    let changed = shared.models.watch();
    let mut publisher = Publisher {
        config,
        shared: Arc::downgrade(shared),
        server: None,
        waiting: BTreeSet::new(),
        wait: FIRST_WAIT,
        retry: Instant::now(),
    };
    thread::Builder::new().name("iotide-redis".to_owned()).spawn(move || publisher.run(&changed)).map(drop)
}

struct Publisher {
    config: RedisConfig,
    shared: Weak<Shared>,
    server: Option<Server>,
    /// Applications that have changed.
    waiting: BTreeSet<(u32, Name)>,
    wait: Duration,
    retry: Instant,
}

impl Publisher {
    fn run(&mut self, changed: &Receiver<(u32, Name)>) {
        loop {
            match changed.recv_timeout(NAP) {
                Ok(application) => drop(self.waiting.insert(application)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.waiting.extend(changed.try_iter());
            let Some(shared) = self.shared.upgrade() else { return };
            if Instant::now() < self.retry {
                continue;
            }
            let done = self.publish(&shared);
            shared.published.is_failing.store(done.is_err(), Ordering::Relaxed);
            match done {
                Ok(()) => self.wait = FIRST_WAIT,
                Err(_) => {
                    self.server = None;
                    self.retry = Instant::now() + self.wait;
                    self.wait = (self.wait * 2).min(LONGEST_WAIT);
                }
            }
        }
    }

    /// Publishes what has changed. A server that was away has forgotten, perhaps: it is given all that is in memory.
    fn publish(&mut self, shared: &Arc<Shared>) -> io::Result<()> {
        let server = match &mut self.server {
            Some(server) => {
                if self.waiting.is_empty() {
                    return server.is_there();
                }
                server
            }
            None => {
                let server = Server::connect(&self.config)?;
                self.waiting.extend(shared.models.applications());
                self.server.insert(server)
            }
        };
        while let Some((uid, app)) = self.waiting.first().cloned() {
            if let Some(hash) = hash_of(shared, uid, &app) {
                let user = user_name(uid);
                // Two users may have an application of one name: whoever ran it last has the short key.
                for key in [format!("{KEY}{app}"), format!("{KEY}{user}:{app}")] {
                    let mut command: Vec<&[u8]> = vec![b"HSET", key.as_bytes()];
                    command
                        .extend(hash.iter().flat_map(|(field, value)| [field.as_bytes(), value.as_bytes()]));
                    server.ask(&command)?;
                }
                server.ask(&[b"PUBLISH", CHANNEL.as_bytes(), app.as_str().as_bytes()])?;
                shared.published.n_models.fetch_add(1, Ordering::Relaxed);
            }
            self.waiting.remove(&(uid, app));
        }
        Ok(())
    }
}

/// The fields of a hash: three lists as in the ADMIRE project's script, in one order, and all as JSON.
fn hash_of(shared: &Arc<Shared>, uid: u32, app: &Name) -> Option<Vec<(&'static str, String)>> {
    let fitted = shared.models.now(&Wanted::all(uid, app.clone()))?;
    let (mut callpaths, mut metrics, mut models) = (String::new(), String::new(), String::new());
    for (series, model) in fitted.set.iter() {
        let Ok(model) = model else { continue };
        // A line end in a name would shift all that follow.
        let name = |text: &str| text.replace('\n', " ");
        callpaths.push_str(&format!("{}\n", name(&series.callpath)));
        metrics.push_str(&format!("{}\n", name(&series.metric)));
        models.push_str(&format!("{} --- ", model.function.to_text(fitted.set.parameters())));
    }
    let answers = Answers::new(Arc::clone(shared));
    let query = format!("app={}", in_query(app.as_str()));
    let reply = answers.reply(Viewer::User(uid), "/api/1/models", &query);
    let runtime = tokio::runtime::Builder::new_current_thread().build().ok()?;
    let answer = runtime.block_on(reply.wait());
    let json = String::from_utf8_lossy(&answer.body).trim_end().to_owned();
    Some(vec![
        ("callpath", callpaths),
        ("metric", metrics),
        ("model", models),
        ("parameters", fitted.set.parameters().join("\n")),
        ("user", user_name(uid).to_string()),
        ("runs", fitted.n_runs.to_string()),
        ("updated_unix_s", (now_ns() / 1_000_000_000).to_string()),
        ("json", if answer.status == 200 { json } else { String::new() }),
    ])
}

trait Connection: Read + Write + Send {
    /// Waits no longer for the next bytes.
    fn wait_at_most(&self, time: Duration) -> io::Result<()>;
}

impl Connection for TcpStream {
    fn wait_at_most(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))
    }
}

impl Connection for UnixStream {
    fn wait_at_most(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))
    }
}

/// A connection to a server.
struct Server(Box<dyn Connection>);

impl Server {
    fn connect(config: &RedisConfig) -> io::Result<Self> {
        let stream: Box<dyn Connection> = match &config.address {
            RedisAddress::Unix(path) => Box::new(iotide_private::connect_within(path, TIMEOUT)?),
            RedisAddress::Tcp(address) => {
                let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
                let found = address.to_socket_addrs()?.find_map(|address| {
                    TcpStream::connect_timeout(&address, TIMEOUT).map_err(|error| last = error).ok()
                });
                let stream = found.ok_or(last)?;
                stream.set_read_timeout(Some(TIMEOUT))?;
                stream.set_write_timeout(Some(TIMEOUT))?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
        };
        let mut server = Self(stream);
        if let Some(password) = config.password()? {
            server.ask(&[b"AUTH", password.as_bytes()])?;
        }
        Ok(server)
    }

    /// One that went away is noticed before something is to be said.
    fn is_there(&mut self) -> io::Result<()> {
        self.ask(&[b"PING"])
    }

    fn ask(&mut self, command: &[&[u8]]) -> io::Result<()> {
        self.ask_within(TIMEOUT, command)
    }

    /// Asks; an answer that comes byte by byte has no more time than any other.
    fn ask_within(&mut self, within: Duration, command: &[&[u8]]) -> io::Result<()> {
        let until = Instant::now() + within;
        let mut out = Vec::new();
        put_resp_command(&mut out, command);
        self.0.write_all(&out)?;
        let mut answer = Vec::new();
        loop {
            let mut piece = [0; 512];
            self.0.wait_at_most(time_left(until)?)?;
            let n = self.0.read(&mut piece)?;
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            answer.extend_from_slice(&piece[..n]);
            match RespLine::decode(&answer) {
                Ok(None) => {}
                // More than was asked for would pass for the answer to what is asked next.
                Ok(Some((RespLine::Done(_), n))) if n < answer.len() => {
                    return Err(io::Error::other("there is more than one answer"));
                }
                Ok(Some((RespLine::Done(_), _))) => return Ok(()),
                Ok(Some((RespLine::Refused(why), _))) => {
                    return Err(io::Error::other(String::from_utf8_lossy(why).into_owned()));
                }
                Err(()) => return Err(io::Error::other("the answer is not that of Redis")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends a byte now and then to one who connects, for as long as somebody listens.
    fn dripping() -> std::net::SocketAddr {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            while stream.write_all(b"+").is_ok() {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        address
    }

    #[test]
    fn a_server_that_drips_or_answers_too_much_is_failing() {
        let stream = TcpStream::connect(dripping()).unwrap();
        let error = Server(Box::new(stream)).ask_within(Duration::from_millis(100), &[b"PING"]).unwrap_err();
        assert!(matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{error}");
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"+PONG\r\n+OK\r\n").unwrap();
        assert!(Server(Box::new(ours)).ask(&[b"PING"]).is_err());
    }
}
