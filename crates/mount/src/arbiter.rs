//! The arbiter of the tracer's gate: programs ask before they move data, and are answered in the order a policy says.
//!
//! No mount and no root: programs run under the tracer with `IOTIDE_GATE` set to where this listens. One arbiter stands for one
//! storage target. It moves no data itself and keeps nothing on disk; if it goes, programs go on without it.
//!
//! A round trip for each request would cost more than many requests take. So a program that is alone gets a *lease*:
//! [`ArbiterConfig::lease_bytes`] to be used within [`ArbiterConfig::lease`] without asking. Whoever comes second waits for the end of a
//! lease at the longest. Once several jobs want the storage each request is granted by itself, small ones in bundles.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use iotide_sched::{Policy, QueueConfig};
use iotide_wire::{GATE_WAIT_EVERY_MS, GateHello, GateMessage};

use crate::caller::{Callers, JobName};
use crate::control::Control;
use crate::crew::Crew;
use crate::rhythm::{Rhythm, check_periods};
use crate::schedule::{Direction, JobStatus, Permit, Rules, Scheduler, Served};
use crate::{MountConfig, MountError};

/// How an arbiter listens and decides.
#[derive(Clone, Debug)]
pub struct ArbiterConfig {
    /// Where programs ask.
    pub listen: Listen,
    /// Who is let through when.
    pub policy: Policy,
    /// How many requests may be with the storage at once.
    pub n_workers: usize,
    /// A job that was idle for this long has ended its I/O phase: the next of its set has its turn.
    pub phase_gap_s: f64,
    /// So long the storage waits for the next request of the job whose turn it is, before another one of its set is let through in between.
    pub lull_s: f64,
    /// How much a program that is alone may move without asking again.
    pub lease_bytes: u64,
    /// For how long. Another job waits for that long at most before it has a say.
    pub lease: Duration,
    /// Where several jobs want the storage, requests smaller than this are granted in bundles of this size.
    pub bundle_bytes: u64,
    /// Periods are multiplied by this before a policy judges them: above 1 in an experiment whose times were divided by it.
    pub time_scale: f64,
    /// Tell the periods of jobs from their own requests.
    pub predict: bool,
    /// A table of periods, looked at again when it changes.
    pub periods: Option<PathBuf>,
    /// Where to make a socket by which others see the jobs and say their periods.
    pub control: Option<PathBuf>,
}

impl ArbiterConfig {
    /// Returns what is done unless told otherwise.
    pub fn new(listen: Listen, policy: Policy) -> Self {
        Self {
            listen,
            policy,
            n_workers: 8,
            phase_gap_s: 0.25,
            lull_s: 0.02,
            lease_bytes: 64 << 20,
            lease: Duration::from_millis(20),
            bundle_bytes: 1 << 20,
            time_scale: 1.0,
            predict: policy.needs_profiles(),
            periods: None,
            control: None,
        }
    }

    fn queue(&self) -> QueueConfig {
        let (phase_gap_s, lull_s) = (self.phase_gap_s, self.lull_s);
        MountConfig { phase_gap_s, lull_s, ..MountConfig::new("", "", self.policy) }.queue()
    }
}

/// Where an arbiter listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// At a path.
    Unix(PathBuf),
    /// At an address and port; port 0 chooses one.
    Tcp(String),
}

impl Listen {
    /// Reads `unix:/path` or `tcp:address:port`.
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once(':')? {
            ("unix", path) if !path.is_empty() => Some(Listen::Unix(path.into())),
            ("tcp", address) if address.contains(':') => Some(Listen::Tcp(address.to_owned())),
            _ => None,
        }
    }
}

/// More programs than this are not listened to; they go on as if there were no arbiter.
const MAX_PROGRAMS: usize = 4096;

/// A grant whose program never says that it is done is taken back after this long.
const LONGEST_GRANT: Duration = Duration::from_secs(120);

/// A job that has done nothing for this long does not count as one that wants the storage.
const LATE_S: f64 = 0.2;

/// An arbiter that listens; it stops when dropped.
#[derive(Debug)]
pub struct Arbiter {
    scheduler: Scheduler,
    address: String,
    socket: Option<PathBuf>,
    _rhythm: Rhythm,
    _control: Option<Control>,
}

impl Arbiter {
    /// Begins to listen.
    pub fn start(config: &ArbiterConfig) -> Result<Self, MountError> {
        if let Some(path) = &config.periods {
            check_periods(path).map_err(|reason| MountError::Periods { path: path.clone(), reason })?;
        }
        let refused = |source| MountError::Listen { address: shown(&config.listen), source };
        let rules = Rules {
            queue: config.queue(),
            n_workers: config.n_workers,
            bypass_bytes: 0,
            bandwidth_bps: None,
            time_scale: config.time_scale,
        };
        let scheduler = Scheduler::start(rules, Callers::new("/proc".into()), Crew::new(config.n_workers))
            .map_err(refused)?;
        let desk = Arc::new(Desk {
            scheduler: scheduler.clone(),
            config: config.clone(),
            programs: Mutex::default(),
            n_programs: AtomicUsize::new(0),
        });
        let (address, socket) = listen(&config.listen, &desk).map_err(refused)?;
        let ticking = Arc::downgrade(&desk);
        thread::Builder::new()
            .name("iotide-ticks".to_owned())
            .spawn(move || tick(&ticking))
            .map_err(refused)?;
        let rhythm =
            Rhythm::start(scheduler.clone(), config.predict, config.periods.clone()).map_err(refused)?;
        let control = config.control.as_ref().map(|path| {
            Control::listen(path, config.policy.name(), scheduler.clone())
                .map_err(|source| MountError::Control { path: path.clone(), source })
        });
        Ok(Self { scheduler, address, socket, _rhythm: rhythm, _control: control.transpose()? })
    }

    /// Listens until a signal asks for an end; `ready` is called once programs can ask.
    ///
    /// Takes over SIGINT, SIGTERM and SIGHUP of this process: to be called before it starts threads.
    pub fn run(config: &ArbiterConfig, ready: impl FnOnce(&Self)) -> Result<(), MountError> {
        let signals = crate::block_signals();
        let arbiter = Self::start(config)?;
        ready(&arbiter);
        match signals {
            Some(signals) => drop(signals.wait()),
            None => thread::park(),
        }
        Ok(())
    }

    /// What `IOTIDE_GATE` must be for programs to find it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the jobs that were seen of late.
    pub fn jobs(&self) -> Vec<JobStatus> {
        self.scheduler.jobs()
    }
}

impl Drop for Arbiter {
    fn drop(&mut self) {
        self.scheduler.stop();
        if let Some(path) = &self.socket {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn shown(listen: &Listen) -> String {
    match listen {
        Listen::Unix(path) => format!("unix:{}", path.display()),
        Listen::Tcp(address) => format!("tcp:{address}"),
    }
}

fn listen(listen: &Listen, desk: &Arc<Desk>) -> io::Result<(String, Option<PathBuf>)> {
    let desk = Arc::clone(desk);
    let threads = thread::Builder::new().name("iotide-door".to_owned());
    match listen {
        Listen::Unix(path) => {
            let listener = crate::control::bind(path)?;
            threads.spawn(move || {
                for program in listener.incoming().flatten() {
                    desk.attend(Line::Unix(program));
                }
            })?;
            Ok((shown(listen), Some(path.clone())))
        }
        Listen::Tcp(address) => {
            let listener = TcpListener::bind(address)?;
            let address = listener.local_addr()?;
            threads.spawn(move || {
                for program in listener.incoming().flatten() {
                    let _ = program.set_nodelay(true);
                    desk.attend(Line::Tcp(program));
                }
            })?;
            Ok((format!("tcp:{address}"), None))
        }
    }
}

/// A connection of either kind.
enum Line {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Line {
    fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        match self {
            Line::Unix(line) => line.read_exact(bytes),
            Line::Tcp(line) => line.read_exact(bytes),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Line::Unix(line) => line.write_all(bytes),
            Line::Tcp(line) => line.write_all(bytes),
        }
    }

    fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Line::Unix(line) => Line::Unix(line.try_clone()?),
            Line::Tcp(line) => Line::Tcp(line.try_clone()?),
        })
    }

    /// Nobody is waited for who does not read, or who connects and says nothing.
    fn set_limits(&self) -> io::Result<()> {
        let within = Some(Duration::from_secs(1));
        match self {
            Line::Unix(line) => line.set_write_timeout(within),
            Line::Tcp(line) => line.set_write_timeout(within),
        }
    }
}

/// Where programs ask.
struct Desk {
    scheduler: Scheduler,
    config: ArbiterConfig,
    programs: Mutex<Vec<Weak<Program>>>,
    n_programs: AtomicUsize,
}

/// A program that asks.
struct Program {
    job: JobName,
    line: Mutex<Line>,
    asked: Mutex<Asked>,
}

#[derive(Default)]
struct Asked {
    /// Asks that wait for their turn.
    n_waiting: usize,
    granted: HashMap<u64, Granted>,
    is_gone: bool,
}

struct Granted {
    /// Given back when the program is done, or when the time is over.
    permit: Option<Permit>,
    direction: Direction,
    /// What was noted as moved already, when it was granted.
    bytes_noted: u64,
    since_s: f64,
    until: Instant,
    is_lease: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Desk {
    /// Listens to one program, on a thread of its own.
    fn attend(self: &Arc<Self>, line: Line) {
        if self.n_programs.fetch_add(1, Ordering::Relaxed) >= MAX_PROGRAMS {
            self.n_programs.fetch_sub(1, Ordering::Relaxed);
            return; // hanging up tells it to go on alone
        }
        let desk = Arc::clone(self);
        let threads = thread::Builder::new().name("iotide-program".to_owned()).stack_size(128 << 10);
        let spawned = threads.spawn(move || {
            let _ = desk.converse(line);
            desk.n_programs.fetch_sub(1, Ordering::Relaxed);
        });
        if spawned.is_err() {
            self.n_programs.fetch_sub(1, Ordering::Relaxed);
        }
    }

    fn converse(self: &Arc<Self>, mut line: Line) -> io::Result<()> {
        line.set_limits()?;
        let mut hello = [0; GateHello::SIZE];
        line.read_exact(&mut hello)?;
        let hello = GateHello::decode(&hello).ok_or(io::ErrorKind::InvalidData)?;
        let program = Arc::new(Program {
            job: job_name(&hello),
            line: Mutex::new(line.try_clone()?),
            asked: Mutex::default(),
        });
        lock(&self.programs).push(Arc::downgrade(&program));
        let mut message = [0; GateMessage::SIZE];
        let ended = loop {
            if let Err(error) = line.read_exact(&mut message) {
                break Err(error);
            }
            match GateMessage::decode(&message) {
                Some(GateMessage::Ask { id, bytes, is_write }) => self.ask(&program, id, bytes, is_write),
                Some(GateMessage::Done { id, bytes }) => self.done(&program, id, bytes),
                _ => break Err(io::ErrorKind::InvalidData.into()),
            }
        };
        // What it held is free; what it still waits for will be granted to nobody.
        let mut asked = lock(&program.asked);
        asked.is_gone = true;
        let held = std::mem::take(&mut asked.granted);
        drop(asked);
        drop(held);
        ended
    }

    fn ask(self: &Arc<Self>, program: &Arc<Program>, id: u64, bytes: u64, is_write: bool) {
        let direction = if is_write { Direction::Write } else { Direction::Read };
        lock(&program.asked).n_waiting += 1;
        let (desk, asker) = (Arc::clone(self), Arc::clone(program));
        // Charged for what it will get, so that sets share what is moved and not what is asked.
        let charged = bytes.max(self.config.bundle_bytes);
        self.scheduler.schedule_for(&program.job, direction, charged, move |mut permit| {
            let config = &desk.config;
            let is_alone =
                config.policy == Policy::Unscheduled || !desk.scheduler.is_contended(&asker.job, LATE_S);
            let n_granted =
                if is_alone { bytes.max(config.lease_bytes) } else { bytes.max(config.bundle_bytes) };
            let is_lease = n_granted > bytes;
            permit.set_moved(bytes);
            if is_alone {
                // Its other processes are not to wait for each other.
                permit.leave_service();
            }
            let granted = Granted {
                // The first request is what began the phase: it is noted now, when the permit goes.
                permit: Some(permit),
                direction,
                bytes_noted: bytes,
                since_s: desk.scheduler.now_s(),
                until: Instant::now() + if is_lease { config.lease } else { LONGEST_GRANT },
                is_lease,
            };
            let lease_ns = if is_lease { config.lease.as_nanos() as u64 } else { 0 };
            let mut asked = lock(&asker.asked);
            asked.n_waiting -= 1;
            if asked.is_gone {
                return;
            }
            asked.granted.insert(id, granted);
            drop(asked);
            asker.say(GateMessage::Grant { id, bytes: n_granted, lease_ns });
        });
    }

    fn done(&self, program: &Program, id: u64, bytes: u64) {
        let Some(granted) = lock(&program.asked).granted.remove(&id) else { return };
        let more = bytes.saturating_sub(granted.bytes_noted);
        if granted.is_lease && more > 0 {
            let end_s = self.scheduler.now_s().min(granted.since_s + self.config.lease.as_secs_f64());
            let end_s = end_s.max(granted.since_s);
            let served =
                Served { direction: granted.direction, arrival_s: granted.since_s, end_s, bytes: more };
            self.scheduler.note_served(&program.job, served);
        }
        let Granted { permit, bytes_noted, .. } = granted;
        if let Some(mut permit) = permit {
            permit.set_moved(bytes.min(bytes_noted));
        }
    }
}

impl Program {
    fn say(&self, message: GateMessage) {
        // A program that reads nothing any more is about to hang up; its thread will notice.
        let _ = lock(&self.line).write_all(&message.encode());
    }
}

/// As in a mount: the batch system's name, else the process's own.
fn job_name(hello: &GateHello) -> JobName {
    match std::str::from_utf8(hello.job()) {
        Ok(name) if !name.is_empty() => name.into(),
        _ => format!("pid:{}", hello.process).into(),
    }
}

/// Takes leases back when their time is over, and tells those who wait that they do.
fn tick(desk: &Weak<Desk>) {
    let wait_every = Duration::from_millis(GATE_WAIT_EVERY_MS);
    let mut said = Instant::now();
    while let Some(desk) = desk.upgrade() {
        let now = Instant::now();
        let is_time_to_say = now.duration_since(said) >= wait_every;
        let programs: Vec<Arc<Program>> = {
            let mut programs = lock(&desk.programs);
            programs.retain(|program| program.strong_count() > 0);
            programs.iter().filter_map(Weak::upgrade).collect()
        };
        let mut n_granted = 0;
        for program in &programs {
            let mut over = Vec::new();
            let mut asked = lock(&program.asked);
            for granted in asked.granted.values_mut().filter(|granted| granted.permit.is_some()) {
                n_granted += 1;
                if now >= granted.until {
                    over.extend(granted.permit.take());
                }
            }
            let is_waiting = asked.n_waiting > 0;
            // A lease whose use nobody has told yet is remembered, but not for ever.
            asked.granted.retain(|_, granted| now < granted.until + LONGEST_GRANT);
            drop(asked);
            drop(over);
            if is_waiting && is_time_to_say {
                program.say(GateMessage::Wait);
            }
        }
        if is_time_to_say {
            said = now;
        }
        let lease = desk.config.lease;
        drop(programs);
        drop(desk);
        // Leases are short, so while there are any they are looked at often.
        thread::sleep(if n_granted > 0 { (lease / 4).min(wait_every / 4) } else { wait_every / 4 });
    }
}
