//! Everything that is followed and listened to, one turn at a time.

use std::collections::HashSet;
use std::io::{self, Read};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use iotide_formats::{
    Format, JobSinks, Life, Messages, OpenOptions, ReadError, Traced, TracedJob, TracedJobs, TracedStream,
};
use iotide_private::{OwnSocket, is_our_user, peer_user};
use iotide_trace::{JobInfo, Loss};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::address::Address;
use crate::connection::{Answers, Connection, Shared, Socket};
use crate::directory::Streams;
use crate::outbox::Word;
use crate::tail::Tail;
use crate::watch::{Change, Watch};

/// Optional settings of a follower.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// How to read files, and messages by ZeroMQ.
    pub open: OpenOptions,
    /// Look this often instead of being told by the kernel.
    pub look_every: Option<Duration>,
    /// Limits for peers.
    pub limits: Limits,
}

/// Limits for peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at once; who comes later is turned away.
    pub connections: usize,
    /// Bytes kept for all of them together; who makes it more is closed.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connections: 8192, bytes: 256 << 20 }
    }
}

/// Why something cannot be followed or listened to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveError {
    /// An address cannot be had.
    #[error("cannot listen on {address}: {cause}")]
    Listen {
        /// The address.
        address: String,
        /// Error of the system.
        cause: io::Error,
    },
    /// A file cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The system does not do what it must.
    #[error("cannot wait for events: {0}")]
    Wait(io::Error),
}

impl From<io::Error> for LiveError {
    fn from(error: io::Error) -> Self {
        Self::Wait(error)
    }
}

/// Follows files and listens on sockets.
pub struct Live {
    settings: Settings,
    watch: Watch,
    /// Not there yet, or empty.
    awaited: Vec<PathBuf>,
    streams: Vec<Streams>,
    tails: Vec<(PathBuf, Tail)>,
    listeners: Vec<Listener>,
    connections: Vec<Connection>,
    /// How many peers were turned away.
    n_refused: u64,
    jobs: TracedJobs,
    messages: Messages,
    answers: Answers,
    notices: Vec<String>,
    n_replaced: u64,
    format: Option<Format>,
    wake: UnixStream,
    waker: UnixStream,
    last_look: Option<Instant>,
    last_news: Instant,
    buffer: Vec<u8>,
}

struct Listener {
    socket: Listening,
    address: Address,
}

enum Listening {
    /// Only its owner can connect.
    Unix(OwnSocket),
    Tcp(TcpListener),
}

impl Live {
    /// Returns a follower of nothing.
    pub fn new(settings: Settings) -> Result<Self, LiveError> {
        let (wake, waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        waker.set_nonblocking(true)?;
        Ok(Self {
            watch: Watch::new(settings.look_every),
            messages: Messages::new(settings.open.clone()),
            settings,
            awaited: Vec::new(),
            streams: Vec::new(),
            tails: Vec::new(),
            listeners: Vec::new(),
            connections: Vec::new(),
            n_refused: 0,
            jobs: TracedJobs::default(),
            answers: Answers::default(),
            notices: Vec::new(),
            n_replaced: 0,
            format: None,
            wake,
            waker,
            last_look: None,
            last_news: Instant::now(),
            buffer: vec![0; 64 << 10],
        })
    }

    /// Follows a directory of the tracer's or a file; what is not there yet is waited for.
    pub fn follow(&mut self, path: &Path) {
        self.watch.add(parent_of(path));
        self.awaited.push(path.to_path_buf());
    }

    /// Listens on an address; returns where it is, with the port the system chose.
    pub fn listen(&mut self, address: &Address) -> Result<Address, LiveError> {
        let failed = |cause| LiveError::Listen { address: address.to_string(), cause };
        let socket = match address {
            Address::Unix(path) => {
                let socket = OwnSocket::bind(path, 0o600, None).map_err(failed)?;
                socket.listener().set_nonblocking(true).map_err(failed)?;
                Listening::Unix(socket)
            }
            Address::Tcp(host) | Address::Zmq(host) => {
                let listener = TcpListener::bind(host).map_err(failed)?;
                listener.set_nonblocking(true).map_err(failed)?;
                Listening::Tcp(listener)
            }
        };
        let bound = match (&socket, address) {
            (Listening::Tcp(listener), Address::Zmq(_)) => {
                Address::Zmq(listener.local_addr().map_err(failed)?.to_string())
            }
            (Listening::Tcp(listener), _) => Address::Tcp(listener.local_addr().map_err(failed)?.to_string()),
            _ => address.clone(),
        };
        self.listeners.push(Listener { socket, address: bound.clone() });
        Ok(bound)
    }

    /// Something to write to that ends a turn early; also from another thread or a signal handler.
    pub fn waker(&self) -> io::Result<UnixStream> {
        self.waker.try_clone()
    }

    /// Sets what is told to those who ask for a job, and tells those who watch.
    pub fn answer(&mut self, job: usize, line: &str) {
        let name = self.job_name(job).to_owned();
        self.answers.set(name, line);
        for connection in self.connections.iter_mut().filter(|connection| connection.watches()) {
            connection.tell(line);
            connection.closing |= !connection.send();
        }
    }

    /// Waits for at most `timeout` until something comes, and hands over its events. Returns whether anything came.
    pub fn turn(&mut self, timeout: Duration, sinks: &mut dyn JobSinks) -> Result<bool, LiveError> {
        let mut is_news = self.look_if_due(sinks)?;
        let until_look = self
            .last_look
            .map_or(Duration::ZERO, |last| self.watch.look_every.saturating_sub(last.elapsed()));
        let timeout = if is_news { Duration::ZERO } else { timeout.min(until_look) };
        let ready = self.wait(timeout)?;
        while self.wake.read(&mut self.buffer).is_ok_and(|n| n > 0) {}
        is_news |= self.take_changes(sinks)?;
        is_news |= self.take_words(sinks)?;
        is_news |= self.hear(&ready, sinks);
        self.accept();
        if is_news {
            self.last_news = Instant::now();
        }
        Ok(is_news)
    }

    /// Takes what is there by now and needs no waiting, the last time.
    pub fn finish(&mut self, sinks: &mut dyn JobSinks) -> Result<Summary, LiveError> {
        self.look_at_all(sinks)?;
        // What peers have sent by now, though they may go on sending.
        for _ in 0..Self::LAST_TURNS {
            self.accept();
            let ready = self.wait(Duration::ZERO)?;
            if ready.is_empty() || !self.hear(&ready, sinks) {
                break;
            }
        }
        for (_, tail) in &self.tails {
            tail.stop();
        }
        while !self.tails.is_empty() {
            self.wait(Duration::from_millis(50))?;
            while self.wake.read(&mut self.buffer).is_ok_and(|n| n > 0) {}
            self.take_words(sinks)?;
        }
        // What a connection was cut in the middle of is no damage: the tracer has put that block into its file.
        self.connections.clear();
        for streams in std::mem::take(&mut self.streams) {
            streams.end(&mut self.jobs, sinks);
        }
        let host = host_name();
        let life = |process: &Traced<'_>| match (Some(process.host) == host.as_deref(), is_alive(process.pid))
        {
            (true, true) => Life::Running,
            (true, false) => Life::Gone,
            (false, _) => Life::Unknown,
        };
        for (job, traced) in self.jobs.jobs().iter().enumerate() {
            for loss in traced.losses_by(life) {
                sinks.of_job(job).loss(loss);
            }
        }
        if let Some(loss) = self.jobs.loss() {
            sinks.of_job(Self::WITHOUT_NAME).loss(loss);
        }
        if self.n_refused > 0 {
            let what =
                format!("connections turned away: {} are open already", self.settings.limits.connections);
            sinks.of_job(Self::WITHOUT_NAME).loss(Loss { records: None, ..Loss::of_unknown_size(what) });
        }
        let jobs = (0..self.n_jobs()).map(|job| self.job_info(job)).collect();
        Ok(Summary { jobs, format: self.format, notices: std::mem::take(&mut self.notices) })
    }

    /// Takes the notices for the user, so that each is issued once.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// How many times a file was replaced by another one, or overwritten. Events that follow may be of another run.
    pub fn n_replaced(&self) -> u64 {
        self.n_replaced
    }

    /// How long nothing has come.
    pub fn quiet_for(&self) -> Duration {
        self.last_news.elapsed()
    }

    /// How many jobs were heard of; at least the one that everything without a name counts to.
    pub fn n_jobs(&self) -> usize {
        self.jobs.jobs().len().max(1)
    }

    /// Returns the name of a job; empty if nobody has named it.
    pub fn job_name(&self, job: usize) -> &str {
        self.jobs.jobs().get(job).map_or("", TracedJob::name)
    }

    /// When the clock of a job's events began, in seconds since the Unix epoch, if the source says so.
    pub fn origin_unix_s(&self, job: usize) -> Option<f64> {
        self.jobs.jobs().get(job)?.origin_unix_ns().map(|origin_ns| origin_ns as f64 * 1e-9)
    }

    /// Returns the facts about a job.
    pub fn job_info(&self, job: usize) -> JobInfo {
        let is_known = |job: &&TracedJob| job.origin_unix_ns().is_some();
        self.jobs.jobs().get(job).filter(is_known).map_or_else(JobInfo::default, TracedJob::job)
    }

    /// The format of what is followed, once it is known.
    pub fn format(&self) -> Option<Format> {
        self.format.or_else(|| self.origin_unix_s(Self::WITHOUT_NAME).map(|_| Format::Native))
    }

    /// Whether a job under the tracer is over: every process has said so, or is gone from this node.
    ///
    /// Never true of other sources, which have no end mark.
    pub fn job_is_over(&self, job: usize) -> bool {
        let Some(job) = self.jobs.jobs().get(job) else { return false };
        let host = host_name();
        let is_gone = |name: &str, pid: u32| Some(name) == host.as_deref() && !is_alive(pid);
        let mut n_processes = 0;
        let mut ranks = HashSet::new();
        let mut n_ranks = 0;
        for process in job.processes() {
            n_processes += 1;
            ranks.extend(process.rank);
            n_ranks = n_ranks.max(process.n_ranks.unwrap_or(0));
            let is_over = process.has_ended && !process.goes_on;
            if !is_over && !is_gone(process.host, process.pid) {
                return false;
            }
        }
        // A rank that has not begun has not ended. One that does no I/O is never heard of, so this can be wrong only by waiting.
        n_processes > 0 && (ranks.len() as u32 >= n_ranks || self.quiet_for() > Self::SILENT_RANKS)
    }

    /// The job that files and messages count to which name none: the first.
    pub(crate) const WITHOUT_NAME: usize = 0;

    /// How often those who still send are heard once all is to end.
    const LAST_TURNS: usize = 1000;

    /// How long to leave those alone who cannot be let in.
    const BREATH: Duration = Duration::from_millis(20);

    /// How long ranks that were never heard of are waited for once all others have ended.
    const SILENT_RANKS: Duration = Duration::from_secs(10);

    /// Waits for something to come, and returns which connections it came from, or can be sent to again.
    fn wait(&self, timeout: Duration) -> Result<Vec<usize>, LiveError> {
        let mut fds = vec![PollFd::new(&self.wake, PollFlags::IN)];
        let watch = self.watch.fd();
        fds.extend(watch.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        for listener in &self.listeners {
            fds.push(match &listener.socket {
                Listening::Unix(socket) => PollFd::from_borrowed_fd(socket.listener().as_fd(), PollFlags::IN),
                Listening::Tcp(socket) => PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN),
            });
        }
        let first = fds.len();
        for connection in &self.connections {
            let flags =
                if connection.wants_to_send() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            fds.push(PollFd::from_borrowed_fd(connection.fd(), flags));
        }
        let timeout = Timespec { tv_sec: timeout.as_secs() as _, tv_nsec: timeout.subsec_nanos() as _ };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(LiveError::Wait(error.into())),
        }
        let of_connections = fds[first..].iter().enumerate();
        Ok(of_connections.filter(|(_, fd)| !fd.revents().is_empty()).map(|(index, _)| index).collect())
    }

    fn look_if_due(&mut self, sinks: &mut dyn JobSinks) -> Result<bool, LiveError> {
        if self.last_look.is_some_and(|last| last.elapsed() < self.watch.look_every) {
            return Ok(false);
        }
        self.look_at_all(sinks)
    }

    fn look_at_all(&mut self, sinks: &mut dyn JobSinks) -> Result<bool, LiveError> {
        self.last_look = Some(Instant::now());
        let mut is_news = self.welcome_awaited(sinks)?;
        for streams in &mut self.streams {
            self.watch.add(&streams.directory);
            is_news |= streams.look_at_all(&mut self.jobs, sinks, &mut self.notices);
        }
        self.tails.iter().for_each(|(_, tail)| tail.look());
        Ok(is_news)
    }

    /// Begins with what was waited for and is there now.
    fn welcome_awaited(&mut self, sinks: &mut dyn JobSinks) -> Result<bool, LiveError> {
        let mut is_news = false;
        let mut awaited = std::mem::take(&mut self.awaited);
        awaited.retain(|path| {
            let Some(kind) = what_is_at(path) else {
                self.watch.add(parent_of(path));
                return true;
            };
            let mut streams = match kind {
                There::Directory => Streams::of_directory(path.clone()),
                There::Stream => Streams::of_file(path),
                There::Other => {
                    if let Ok(waker) = self.waker.try_clone() {
                        let options = self.settings.open.clone();
                        let tail = Tail::new(path.clone(), options, self.watch.look_every, waker);
                        self.tails.push((path.clone(), tail));
                    }
                    return false;
                }
            };
            self.watch.add(&streams.directory);
            is_news |= streams.look_at_all(&mut self.jobs, sinks, &mut self.notices);
            self.streams.push(streams);
            false
        });
        self.awaited = awaited;
        Ok(is_news)
    }

    fn take_changes(&mut self, sinks: &mut dyn JobSinks) -> Result<bool, LiveError> {
        let changes = self.watch.changes();
        let mut is_news = false;
        if !changes.is_empty() && !self.awaited.is_empty() {
            is_news |= self.welcome_awaited(sinks)?;
        }
        for change in changes {
            let Change::File(directory, name) = change else {
                is_news |= self.look_at_all(sinks)?;
                continue;
            };
            for streams in &mut self.streams {
                if streams.has(&directory, &name) {
                    is_news |= streams.look_at(&name, &mut self.jobs, sinks, &mut self.notices);
                }
            }
            for (path, tail) in &self.tails {
                if path.file_name() == Some(&name) && parent_of(path) == directory {
                    tail.look();
                }
            }
        }
        Ok(is_news)
    }

    fn take_words(&mut self, sinks: &mut dyn JobSinks) -> Result<bool, LiveError> {
        let mut is_news = false;
        let mut failed = None;
        let sink = sinks.of_job(Self::WITHOUT_NAME);
        let (notices, format, n_replaced) = (&mut self.notices, &mut self.format, &mut self.n_replaced);
        self.tails.retain(|(_, tail)| {
            loop {
                match tail.words.try_recv() {
                    Ok(Word::Events(events)) => {
                        is_news = true;
                        for (event, waited) in events {
                            let _ = match waited {
                                Some(waited) => sink.async_event(event, waited),
                                None => sink.event(event),
                            };
                        }
                    }
                    Ok(Word::Loss(loss)) => sink.loss(loss),
                    Ok(Word::Replaced(notice)) => {
                        notices.push(notice);
                        *n_replaced += 1;
                        // What comes next is of another file: whoever wants to know has a chance to ask.
                        is_news = true;
                        return true;
                    }
                    Ok(Word::Format(found)) => *format = Some(found),
                    Ok(Word::Failed(error)) => failed = Some(error),
                    Err(TryRecvError::Empty) => return true,
                    Err(TryRecvError::Disconnected) => return false,
                }
            }
        });
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(is_news),
        }
    }

    fn hear(&mut self, ready: &[usize], sinks: &mut dyn JobSinks) -> bool {
        let mut is_news = false;
        let mut closed = Vec::new();
        let most = self.settings.limits.bytes;
        let mut n_waiting: usize = self.connections.iter().map(Connection::n_waiting).sum();
        for &index in ready {
            if n_waiting > most {
                break; // the others are heard once there is room again
            }
            let Some(connection) = self.connections.get_mut(index) else { continue };
            let mut shared = Shared {
                jobs: &mut self.jobs,
                messages: &mut self.messages,
                answers: &self.answers,
                notices: &mut self.notices,
            };
            n_waiting -= connection.n_waiting();
            let heard = connection.hear(&mut self.buffer, &mut shared, sinks);
            is_news |= heard.is_news;
            if !heard.is_open || !connection.send() {
                closed.push(index);
            }
            n_waiting += connection.n_waiting();
        }
        let is_slow = |(index, connection): (usize, &Connection)| connection.closing.then_some(index);
        closed.extend(self.connections.iter().enumerate().filter_map(is_slow));
        while n_waiting > most
            && let Some((index, connection)) = (self.connections.iter().enumerate())
                .filter(|(index, _)| !closed.contains(index))
                .max_by_key(|(_, connection)| connection.n_waiting())
        {
            self.notices.push("a connection is closed: too much waits to become whole".to_owned());
            n_waiting -= connection.n_waiting();
            closed.push(index);
        }
        closed.sort_unstable();
        closed.dedup();
        for index in closed.into_iter().rev() {
            self.connections.swap_remove(index);
        }
        is_news
    }

    fn accept(&mut self) {
        for listener in &self.listeners {
            loop {
                let socket = match &listener.socket {
                    Listening::Unix(socket) => socket.listener().accept().map(|(it, _)| Socket::Unix(it)),
                    Listening::Tcp(socket) => socket.accept().map(|(stream, _)| Socket::Tcp(stream)),
                };
                let socket = match socket {
                    Ok(socket) => socket,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(_) => {
                        // No descriptor is left, say: whoever waits there must not keep us from all else.
                        std::thread::sleep(Self::BREATH);
                        break;
                    }
                };
                if let Socket::Unix(stream) = &socket
                    && !is_our_user(peer_user(stream))
                {
                    continue;
                }
                if self.connections.len() >= self.settings.limits.connections {
                    if self.n_refused == 0 {
                        let most = self.settings.limits.connections;
                        self.notices.push(format!("a connection is turned away: {most} are open already"));
                    }
                    self.n_refused += 1;
                    continue;
                }
                if let Ok(connection) = Connection::new(socket, matches!(listener.address, Address::Zmq(_))) {
                    self.connections.push(connection);
                }
            }
        }
    }
}

/// Summary of the jobs that were followed, at the end.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Facts about each job.
    pub jobs: Vec<JobInfo>,
    /// The format of its files.
    pub format: Option<Format>,
    /// Notices since they were last asked for.
    pub notices: Vec<String>,
}

enum There {
    Directory,
    Stream,
    Other,
}

/// Returns the kind of file at a path; `None` if there is none, or too little to tell.
fn what_is_at(path: &Path) -> Option<There> {
    if path.metadata().ok()?.is_dir() {
        return Some(There::Directory);
    }
    let mut head = Vec::new();
    iotide_private::open_ordinary(path).ok()?.take(8).read_to_end(&mut head).ok()?;
    match (TracedStream::may_begin(&head), head.len()) {
        (_, 0) => None,
        (true, 8) => Some(There::Stream),
        (true, _) => None,
        (false, _) => Some(There::Other),
    }
}

fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Whether a process of this node runs. One that has ended and that nobody has asked for yet does not.
fn is_alive(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The state stands behind the name, which may hold parentheses itself.
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    !matches!(state, Some('Z' | 'X' | 'x'))
}

fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim_end().to_owned())
}

#[cfg(test)]
mod tests;
