//! The arbiter of the tracer's gate: programs ask before they move data, and are answered in the order a policy says.
//!
//! No mount and no root: programs run under the tracer with `IOTIDE_GATE` set to where this listens. One arbiter stands for one
//! storage target. It moves no data itself and keeps nothing on disk; if it goes, programs go on without it.
//!
//! A round trip for each request would cost more than many requests take. So a program that is alone gets a *lease*:
//! [`ArbiterConfig::lease_bytes`] to be used within [`ArbiterConfig::lease`] without asking. Whoever comes second waits for the end of a
//! lease at the longest. Once several jobs want the storage each request is granted by itself, small ones in bundles.

use std::collections::HashMap;
use std::io;
use std::net::{TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use iotide_live::Address;
use iotide_private::OwnSocket;
use iotide_sched::Policy;
use iotide_wire::{GATE_WAIT_EVERY_MS, GateChallenge, GateClaim, GateHello, GateKey, GateMessage, GateSide};

use crate::GateError;
use crate::crew::Crew;
use crate::door::{Desk, Door, Entrance, Line, NOBODY, Peer};
use crate::gate::{Gate, Storage};
use crate::job::JobName;
use crate::keys::{random, site_key};
use crate::process::{Background, Signals, raise_open_files};
use crate::schedule::{Direction, JobStatus, Permit, Scheduler, Served};
use crate::turns::Turns;
use iotide_private::{Share, Shares};

/// How an arbiter listens and decides.
#[derive(Clone, Debug)]
pub struct ArbiterConfig {
    /// Where programs ask.
    pub listen: Address,
    /// Who may ask there.
    pub access: Access,
    /// The file with the key by which callers from other machines prove who they are; needed at an address that they can reach.
    pub key: Option<PathBuf>,
    /// Who is let through when.
    pub turns: Turns,
    /// How much a program that is alone may move without asking again.
    pub lease_bytes: u64,
    /// For how long. Another job waits for that long at most before it has a say.
    pub lease: Duration,
    /// Where several jobs want the storage, requests smaller than this are granted in bundles of this size.
    pub bundle_bytes: u64,
    /// Pretend that the storage is no faster than this, in bytes per second: each request is granted when it would be through.
    pub bandwidth_bps: Option<f64>,
}

impl ArbiterConfig {
    /// Returns what is done unless told otherwise.
    pub fn new(listen: Address, turns: Turns) -> Self {
        Self {
            listen,
            access: Access::default(),
            key: None,
            turns,
            lease_bytes: 64 << 20,
            lease: Duration::from_millis(20),
            bundle_bytes: 1 << 20,
            bandwidth_bps: None,
        }
    }
}

/// Who may ask at a path; at an address whoever has the key may, or without one everybody on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The mode of the socket. Asking takes the right to write.
    pub mode: u32,
    /// The group the socket belongs to, by name or number; the arbiter's own if `None`.
    pub group: Option<String>,
}

impl Default for Access {
    /// The arbiter's own user.
    fn default() -> Self {
        Self { mode: 0o600, group: None }
    }
}

impl Access {
    fn bind(&self, path: &Path) -> Result<OwnSocket, GateError> {
        let refused = |cause| GateError::Listen { address: format!("unix:{}", path.display()), cause };
        let group = |name: &String| {
            let by_name =
                || nix::unistd::Group::from_name(name).ok().flatten().map(|group| group.gid.as_raw());
            name.parse().ok().or_else(by_name).ok_or_else(|| GateError::NoGroup(name.clone()))
        };
        let group = self.group.as_ref().map(group).transpose()?;
        OwnSocket::bind(path, self.mode, group).map_err(refused)
    }
}

/// A program that has connected says who it is within this time.
const HELLO_WITHIN: Duration = Duration::from_secs(5);

/// A thread of a program asks for one thing at a time, and gives up on few.
const MAX_WAITING: usize = 4096;

/// So many asks of all programs wait or are remembered, those of programs that have gone included; a user among others has a share.
const MAX_ASKS: usize = 1 << 16;

/// A grant whose program never says that it is done is taken back after the time its bytes take at [`SLOWEST_BPS`], and this.
const LONGEST_GRANT: Duration = Duration::from_secs(2);
const SLOWEST_BPS: f64 = (16 << 20) as f64;

/// The system moves no more than this in one call, whatever a program asks for.
const LARGEST_REQUEST: u64 = 2 << 30;

/// For each grant that is late a user must give back so many in time, or that one in the end.
const GIVEN_BACK_FOR_LATE: u32 = 64;
/// One may happen to anybody, and a large request may be slow.
const MOST_UNRELIABLE: u32 = 2 * GIVEN_BACK_FOR_LATE;
const MOST_LEFT: u32 = 16 * MOST_UNRELIABLE;

/// Time for which a grant is remembered after its end.
const REMEMBERED: Duration = Duration::from_secs(120);

/// A job that has done nothing for this long does not count as one that wants the storage.
const LATE_S: f64 = 0.2;

/// An arbiter that listens; it stops when dropped.
#[derive(Debug)]
pub struct Arbiter {
    scheduler: Scheduler,
    /// Its own, if it has no other one's.
    gate: Option<Gate>,
    address: Address,
    door: Option<Door>,
    ticks: Option<Background>,
}

impl Arbiter {
    /// Begins to listen.
    pub fn start(config: &ArbiterConfig) -> Result<Self, GateError> {
        let storage = Storage { bandwidth_bps: config.bandwidth_bps, ..Storage::default() };
        let gate = Gate::open(&config.turns, storage, Crew::new(config.turns.n_workers))?;
        let mut arbiter = Self::before(gate.scheduler(), config)?;
        arbiter.gate = Some(gate);
        Ok(arbiter)
    }

    /// Begins to listen for those who ask a scheduler that others ask, too: one queue for all.
    pub fn before(scheduler: &Scheduler, config: &ArbiterConfig) -> Result<Self, GateError> {
        let refused = |cause| GateError::Listen { address: config.listen.to_string(), cause };
        let key = config.key.as_deref().map(site_key).transpose()?;
        // Each program is a descriptor.
        raise_open_files();
        let (address, entrance) = match &config.listen {
            Address::Unix(path) => (config.listen.clone(), Entrance::Unix(config.access.bind(path)?)),
            Address::Tcp(address) => {
                let mut places = address.to_socket_addrs().map_err(refused)?;
                if key.is_none() && !places.all(|place| place.ip().is_loopback()) {
                    return Err(GateError::NoKey(config.listen.to_string()));
                }
                let listener = TcpListener::bind(address).map_err(refused)?;
                let address = listener.local_addr().map_err(refused)?;
                (Address::Tcp(address.to_string()), Entrance::Tcp { listener, tells_users: key.is_some() })
            }
            Address::Zmq(_) => return Err(refused(io::ErrorKind::Unsupported.into())),
        };
        let asks = entrance.account(MAX_ASKS);
        let desk = Arc::new(Reception {
            scheduler: scheduler.clone(),
            key,
            config: config.clone(),
            programs: Mutex::default(),
            asks,
            unreliable: Mutex::default(),
        });
        let door = Door::open(entrance, Arc::clone(&desk), "iotide-door").map_err(refused)?;
        let desk = Arc::downgrade(&desk);
        let ticks = Background::start("iotide-ticks", move |until_dropped| tick(&desk, until_dropped))
            .map_err(GateError::Thread)?;
        let scheduler = scheduler.clone();
        Ok(Self { scheduler, gate: None, address, door: Some(door), ticks: Some(ticks) })
    }

    /// Listens until a signal asks for an end; `ready` is called once programs can ask.
    ///
    /// Takes over SIGINT, SIGTERM and SIGHUP of this process: to be called before it starts threads.
    pub fn run(config: &ArbiterConfig, ready: impl FnOnce(&Self)) -> Result<(), GateError> {
        let signals = Signals::block();
        let arbiter = Self::start(config)?;
        ready(&arbiter);
        match signals {
            Some(signals) => drop(signals.wait()),
            None => thread::park(),
        }
        Ok(())
    }

    /// Where programs find it: `IOTIDE_GATE` must be this.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Returns the jobs that were seen of late.
    pub fn jobs(&self) -> Vec<JobStatus> {
        self.scheduler.jobs()
    }
}

impl Drop for Arbiter {
    fn drop(&mut self) {
        // Nobody asks any more, then nobody is answered; the gate goes last.
        drop(self.door.take());
        drop(self.ticks.take());
        drop(self.gate.take());
    }
}

/// Where programs ask.
struct Reception {
    scheduler: Scheduler,
    /// The key of the site, where callers have to prove who they are.
    key: Option<[u8; 32]>,
    config: ArbiterConfig,
    programs: Mutex<Vec<Weak<Program>>>,
    asks: Shares,
    /// Users with grants that are late, and how many they have yet to give back before others wait for theirs again.
    unreliable: Mutex<HashMap<u32, u32>>,
}

/// Someone who has connected, and who that is once it was said.
struct Caller {
    line: Arc<Line>,
    stage: Stage,
}

enum Stage {
    /// Has said nothing.
    Stranger,
    /// Has said who it is, and has to prove it.
    Claimed { claim: GateClaim, key: GateKey, nonce: [u8; 32] },
    /// Is known.
    Program(Arc<Program>),
}

/// A program that asks.
struct Program {
    job: JobName,
    user: u32,
    line: Arc<Line>,
    asked: Mutex<Asked>,
}

impl Program {
    /// Lets others in beside requests that take longer than a turn: a place at the storage is not kept by saying nothing. They count as under
    /// way until they are done, all the same.
    fn make_room(&self, late: Vec<(u64, Permit)>) {
        for (id, mut permit) in late {
            permit.leave_service();
            // Whoever is done by now needs it no more.
            if let Some(granted) = lock(&self.asked).granted.get_mut(&id) {
                granted.permit = Some(permit);
            }
        }
    }
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
    /// Bytes that were noted as moved already, when it was granted.
    bytes_noted: u64,
    since_s: f64,
    until: Instant,
    is_lease: bool,
    /// Whether it has outlasted a turn.
    is_late: bool,
    _place: Share,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Desk for Reception {
    type Caller = Caller;
    /// More programs than this are not listened to; they go on as if there were no arbiter.
    const MAX_CALLERS: usize = 4096;
    const MAX_UNHEARD: usize = GateClaim::SIZE + GateMessage::SIZE;
    const MAX_UNREAD: usize = 64 << 10;

    fn greet(self: &Arc<Self>, line: &Arc<Line>) -> Caller {
        Caller { line: Arc::clone(line), stage: Stage::Stranger }
    }

    fn hear(self: &Arc<Self>, caller: &mut Caller, said: &[u8]) -> Option<usize> {
        match &caller.stage {
            Stage::Stranger if self.key.is_some() => self.hear_claim(caller, said),
            Stage::Stranger => {
                let Some(hello) = said.first_chunk::<{ GateHello::SIZE }>() else { return Some(0) };
                let peer = caller.line.peer();
                let job = self.job_of(&GateHello::decode(hello)?, peer);
                self.admit(caller, job, peer.map_or(NOBODY, |peer| peer.user));
                Some(GateHello::SIZE)
            }
            Stage::Claimed { claim, key, nonce } => {
                let Some(proof) = said.first_chunk::<32>() else { return Some(0) };
                if !key.is_proof(GateSide::Program, claim, nonce, proof) {
                    return None;
                }
                let (job, user) = (job_claimed(&claim.hello, Some(claim.user)), claim.user);
                self.admit(caller, job, user);
                Some(proof.len())
            }
            Stage::Program(program) => {
                let Some(message) = said.first_chunk::<{ GateMessage::SIZE }>() else { return Some(0) };
                match GateMessage::decode(message)? {
                    GateMessage::Ask { id, bytes, is_write } => self.ask(program, id, bytes, is_write)?,
                    GateMessage::Done { id, bytes } => self.done(program, id, bytes),
                    GateMessage::Grant { .. } | GateMessage::Wait => return None,
                }
                Some(GateMessage::SIZE)
            }
        }
    }

    fn proven_user(&self, caller: &Caller) -> Option<u32> {
        match &caller.stage {
            Stage::Program(program) if self.key.is_some() => Some(program.user),
            _ => None,
        }
    }

    fn may_be_silent_for(&self, caller: &Caller) -> Option<Duration> {
        // A program may compute for days.
        (!matches!(caller.stage, Stage::Program(_))).then_some(HELLO_WITHIN)
    }

    fn leave(self: &Arc<Self>, caller: Caller) {
        // What it held is free; what it still waits for will be granted to nobody.
        let Stage::Program(program) = caller.stage else { return };
        let mut asked = lock(&program.asked);
        asked.is_gone = true;
        let held = std::mem::take(&mut asked.granted);
        drop(asked);
        drop(held);
    }
}

impl Reception {
    /// As in a mount: what the system says, else the name that is claimed, else the process's own. The kernel says which user asks, so that
    /// nobody can take another one's turn by naming a job that is not theirs.
    fn job_of(&self, hello: &GateHello, peer: Option<Peer>) -> JobName {
        let user = peer.map(|peer| peer.user);
        if let Some(vouched) = peer.and_then(|peer| self.scheduler.vouched(peer.process)) {
            return JobName::new(&vouched, user);
        }
        let hello = &GateHello::new(peer.map_or(hello.process, |peer| peer.process), hello.job());
        job_claimed(hello, user)
    }

    /// A caller that has to prove who it is says who; it is told what to prove.
    fn hear_claim(&self, caller: &mut Caller, said: &[u8]) -> Option<usize> {
        // Who says something else is not waited for.
        let n_magic = said.len().min(GateClaim::MAGIC.len());
        if said[..n_magic] != GateClaim::MAGIC[..n_magic] {
            return None;
        }
        let Some(claim) = said.first_chunk::<{ GateClaim::SIZE }>() else { return Some(0) };
        let claim = GateClaim::decode(claim)?;
        let key = GateKey::of_user(&self.key?, claim.user);
        let nonce = random().ok()?;
        caller.line.say(&GateChallenge::new(&key, &claim, nonce).encode());
        caller.stage = Stage::Claimed { claim, key, nonce };
        Some(GateClaim::SIZE)
    }

    /// A caller is known from now on.
    fn admit(&self, caller: &mut Caller, job: JobName, user: u32) {
        let line = Arc::clone(&caller.line);
        let program = Arc::new(Program { job, user, line, asked: Mutex::default() });
        lock(&self.programs).push(Arc::downgrade(&program));
        caller.stage = Stage::Program(program);
    }

    /// Asks the scheduler. `None` if the program asks for too much at once, or its user does.
    fn ask(self: &Arc<Self>, program: &Arc<Program>, id: u64, bytes: u64, is_write: bool) -> Option<()> {
        let direction = if is_write { Direction::Write } else { Direction::Read };
        let bytes = bytes.min(LARGEST_REQUEST);
        let mut asked = lock(&program.asked);
        if asked.n_waiting >= MAX_WAITING || asked.granted.len() >= MAX_WAITING {
            return None;
        }
        let place = self.asks.take(program.user)?;
        asked.n_waiting += 1;
        drop(asked);
        let (desk, asker) = (Arc::clone(self), Arc::clone(program));
        // Charged for what it will get, so that sets share what is moved and not what is asked.
        let is_paced = self.config.bandwidth_bps.is_some();
        let charged = if is_paced { bytes } else { bytes.max(self.config.bundle_bytes) };
        self.scheduler.schedule_for(&program.job, direction, charged, move |mut permit| {
            let config = &desk.config;
            permit.pace();
            // Of a storage that is slower than the real one each request must be seen.
            let is_alone = !is_paced
                && (config.turns.policy == Policy::Unscheduled
                    || !desk.scheduler.is_contended(&asker.job, LATE_S));
            let n_granted = match (is_paced, is_alone) {
                (true, _) => bytes,
                (false, true) => bytes.max(config.lease_bytes),
                (false, false) => bytes.max(config.bundle_bytes),
            };
            let is_lease = n_granted > bytes;
            permit.set_moved(bytes);
            if is_alone || desk.is_unreliable(asker.user) {
                // Its other processes are not to wait for each other; nor is anybody to wait for what may never be given back.
                permit.leave_service();
            }
            let granted = Granted {
                // The first request is what began the phase: it is noted now, when the permit goes.
                permit: Some(permit),
                direction,
                bytes_noted: bytes,
                since_s: desk.scheduler.now_s(),
                until: Instant::now() + if is_lease { config.lease } else { longest_grant(bytes) },
                is_lease,
                is_late: false,
                _place: place,
            };
            let lease_ns = if is_lease { config.lease.as_nanos() as u64 } else { 0 };
            let mut asked = lock(&asker.asked);
            asked.n_waiting -= 1;
            if asked.is_gone {
                return;
            }
            asked.granted.insert(id, granted);
            drop(asked);
            asker.line.say(&GateMessage::Grant { id, bytes: n_granted, lease_ns }.encode());
        });
        Some(())
    }

    fn is_unreliable(&self, user: u32) -> bool {
        lock(&self.unreliable).get(&user).is_some_and(|n_left| *n_left >= MOST_UNRELIABLE)
    }

    /// Grants that were no leases have not been given back for a turn, or for too long: whoever has such is not waited for.
    fn note_late(&self, user: u32, n_late: u32) {
        if n_late > 0 {
            let mut unreliable = lock(&self.unreliable);
            let n_left = unreliable.entry(user).or_default();
            *n_left = n_left.saturating_add(n_late.saturating_mul(GIVEN_BACK_FOR_LATE)).min(MOST_LEFT);
        }
    }

    fn note_given_back(&self, user: u32, was_late: bool) {
        let mut unreliable = lock(&self.unreliable);
        if let Some(n_left) = unreliable.get_mut(&user) {
            *n_left = n_left.saturating_sub(if was_late { GIVEN_BACK_FOR_LATE } else { 1 });
            if *n_left == 0 {
                unreliable.remove(&user);
            }
        }
    }

    fn done(&self, program: &Program, id: u64, bytes: u64) {
        let Some(granted) = lock(&program.asked).granted.remove(&id) else { return };
        if !granted.is_lease {
            self.note_given_back(program.user, granted.is_late);
        }
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

/// The job that a program says it is of, else its own.
fn job_claimed(hello: &GateHello, user: Option<u32>) -> JobName {
    match std::str::from_utf8(hello.job()).ok().filter(|name| !name.is_empty()) {
        Some(name) => JobName::new(name, user),
        None => JobName::new(&format!("pid:{}", hello.process), user),
    }
}

fn longest_grant(bytes: u64) -> Duration {
    LONGEST_GRANT + Duration::from_secs_f64((bytes as f64 / SLOWEST_BPS).min(3600.0))
}

/// Takes leases back when their time is over, and tells those who wait that they do.
fn tick(desk: &Weak<Reception>, until_dropped: &Receiver<()>) {
    let wait_every = Duration::from_millis(GATE_WAIT_EVERY_MS);
    let mut said = Instant::now();
    while let Some(desk) = desk.upgrade() {
        let (now, now_s) = (Instant::now(), desk.scheduler.now_s());
        let is_time_to_say = now.duration_since(said) >= wait_every;
        let programs: Vec<Arc<Program>> = {
            let mut programs = lock(&desk.programs);
            programs.retain(|program| program.strong_count() > 0);
            programs.iter().filter_map(Weak::upgrade).collect()
        };
        let mut n_granted = 0;
        for program in &programs {
            let (mut over, mut late, mut n_late) = (Vec::new(), Vec::new(), 0);
            let mut asked = lock(&program.asked);
            for (id, granted) in asked.granted.iter_mut().filter(|(_, granted)| granted.permit.is_some()) {
                n_granted += 1;
                if now >= granted.until {
                    over.extend(granted.permit.take());
                    n_late += u32::from(!granted.is_lease && !granted.is_late);
                } else if !granted.is_late && now_s >= granted.since_s + desk.config.turns.turn_s {
                    granted.is_late = true;
                    n_late += 1;
                    late.extend(granted.permit.take().map(|permit| (*id, permit)));
                }
            }
            let is_waiting = asked.n_waiting > 0;
            // A lease whose use nobody has told yet is remembered, but not for ever.
            asked.granted.retain(|_, granted| now < granted.until + REMEMBERED);
            drop(asked);
            drop(over);
            desk.note_late(program.user, n_late);
            program.make_room(late);
            if is_waiting && is_time_to_say {
                program.line.say(&GateMessage::Wait.encode());
            }
        }
        if is_time_to_say {
            said = now;
        }
        let lease = desk.config.lease;
        drop(programs);
        drop(desk);
        // Leases are short, so while there are any they are looked at often.
        let pause = if n_granted > 0 { (lease / 4).min(wait_every / 4) } else { wait_every / 4 };
        if until_dropped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;
    use std::fs;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;

    fn connect(path: &Path, job: &str) -> UnixStream {
        let mut program = UnixStream::connect(path).unwrap();
        program.write_all(&GateHello::new(1, job.as_bytes()).encode()).unwrap();
        program
    }

    fn ask(program: &mut UnixStream, id: u64) {
        program.write_all(&GateMessage::Ask { id, bytes: 1 << 20, is_write: true }.encode()).unwrap();
    }

    fn hear(program: &mut UnixStream) -> Option<GateMessage> {
        let mut message = [0; GateMessage::SIZE];
        program.read_exact(&mut message).ok()?;
        GateMessage::decode(&message)
    }

    #[test]
    fn an_arbiter_that_is_dropped_stops_and_leaves_nothing_behind() {
        let dir = FreshDir::new("arbiter-drop");
        let path = dir.path().join("gate");
        let config = ArbiterConfig::new(Address::Unix(path.clone()), Turns::new(Policy::Exclusive));
        let arbiter = Arbiter::start(&config).unwrap();
        let (mut first, mut second) = (connect(&path, "1"), connect(&path, "2"));
        ask(&mut first, 1);
        assert!(matches!(hear(&mut first), Some(GateMessage::Grant { id: 1, .. })));
        // Waits for a turn that will not come any more.
        ask(&mut second, 1);
        assert!(matches!(hear(&mut second), Some(GateMessage::Wait | GateMessage::Grant { .. })));
        let core = arbiter.scheduler.downgrade();
        drop(arbiter);
        while hear(&mut first).is_some() {}
        while hear(&mut second).is_some() {}
        assert!(UnixStream::connect(&path).is_err() && !path.exists());
        // Only the crew may still be about to let go.
        while core.strong_count() > 0 {
            thread::yield_now();
        }
    }

    #[test]
    fn the_socket_is_for_whom_it_was_made() {
        let dir = FreshDir::new("arbiter-access");
        let path = dir.path().join("gate");
        let mut config = ArbiterConfig::new(Address::Unix(path.clone()), Turns::new(Policy::Exclusive));
        let mode = |config: &ArbiterConfig| {
            let _arbiter = Arbiter::start(config).unwrap();
            fs::metadata(&path).unwrap().permissions().mode() & 0o777
        };
        assert_eq!(mode(&config), 0o600);
        let own_group = rustix::process::getgid().as_raw().to_string();
        config.access = Access { mode: 0o660, group: Some(own_group) };
        assert_eq!(mode(&config), 0o660);
        config.access.group = Some("no such group".to_owned());
        assert!(matches!(Arbiter::start(&config), Err(GateError::NoGroup(_))));
        assert!(!path.exists(), "nothing is left where nobody listens");
    }

    #[test]
    fn an_address_that_programs_cannot_ask_at_is_refused() {
        let listen = "zmq:tcp://127.0.0.1:0".parse().unwrap();
        let refused = Arbiter::start(&ArbiterConfig::new(listen, Turns::new(Policy::Exclusive)));
        assert!(matches!(refused, Err(GateError::Listen { .. })));
    }
    /// An arbiter at a TCP port, with a key, and how to connect to it.
    fn keyed(dir: &FreshDir) -> (Arbiter, impl Fn() -> TcpStream + use<>) {
        let key = dir.join("key");
        iotide_private::write_secret(&key, &"5a".repeat(32), None).unwrap();
        let listen = "tcp:127.0.0.1:0".parse().unwrap();
        let config =
            ArbiterConfig { key: Some(key), ..ArbiterConfig::new(listen, Turns::new(Policy::Exclusive)) };
        let arbiter = Arbiter::start(&config).unwrap();
        let Address::Tcp(address) = arbiter.address().clone() else { panic!("{}", arbiter.address()) };
        (arbiter, move || TcpStream::connect(&address).unwrap())
    }

    fn claim(user: u32) -> GateClaim {
        GateClaim { hello: GateHello::new(1, b"4711"), user, nonce: [1; 32] }
    }

    /// Returns the proof that a program has a key, to be sent after its claim; `None` if the arbiter hangs up or does not prove itself.
    fn proof(program: &mut TcpStream, claim: &GateClaim, key: &GateKey) -> Option<[u8; 32]> {
        program.write_all(&claim.encode()).unwrap();
        let mut challenge = [0; GateChallenge::SIZE];
        program.read_exact(&mut challenge).ok()?;
        GateChallenge::answer(&challenge, key, claim)
    }

    /// Whether the first ask is granted; otherwise the arbiter hangs up without a word.
    fn is_granted(program: &mut TcpStream) -> bool {
        let asked = program.write_all(&GateMessage::Ask { id: 1, bytes: 1, is_write: true }.encode());
        let mut answer = Vec::new();
        let mut message = [0; GateMessage::SIZE];
        if asked.is_ok() && program.read_exact(&mut message).is_ok() {
            return matches!(GateMessage::decode(&message), Some(GateMessage::Grant { id: 1, .. }));
        }
        let _ = program.read_to_end(&mut answer);
        assert!(answer.is_empty());
        false
    }

    #[test]
    fn whoever_has_the_key_of_a_user_asks_for_that_user() {
        let dir = FreshDir::new("arbiter-key");
        let (arbiter, connect) = keyed(&dir);
        for user in [1000, 1001] {
            let mut program = connect();
            let key = GateKey::of_user(&[0x5a; 32], user);
            let proof = proof(&mut program, &claim(user), &key).unwrap();
            program.write_all(&proof).unwrap();
            assert!(is_granted(&mut program));
        }
        let mut jobs: Vec<String> = arbiter.jobs().into_iter().map(|job| job.job).collect();
        jobs.sort();
        assert_eq!(jobs, ["uid:1000/4711", "uid:1001/4711"]);
    }

    #[test]
    fn whoever_has_no_key_or_another_users_gets_nothing() {
        let dir = FreshDir::new("arbiter-wrong-key");
        let (arbiter, connect) = keyed(&dir);
        let own = GateKey::of_user(&[0x5a; 32], 1000);
        // The arbiter's answer to the claim of another user cannot be checked with one's own key, and what one says to it proves nothing.
        for (user, key) in [(1001, own), (1000, GateKey::of_user(&[0x5b; 32], 1000))] {
            let mut program = connect();
            assert_eq!(proof(&mut program, &claim(user), &key), None);
            program.write_all(&key.proof(GateSide::Program, &claim(user), &[0; 32])).unwrap();
            assert!(!is_granted(&mut program));
        }
        // Programs from before there were keys, those who skip the proof, and noise.
        let hello = GateHello::new(1, b"4711").encode().to_vec();
        let unproved = [claim(1000).encode().to_vec(), [0; 32].to_vec()].concat();
        for said in [hello, unproved, b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![0; 4096]] {
            let mut program = connect();
            let _ = program.write_all(&said);
            let _ = program.read_to_end(&mut Vec::new());
        }
        assert!(arbiter.jobs().is_empty());
    }

    #[test]
    fn what_a_program_said_before_is_worth_nothing_when_it_is_said_again() {
        let dir = FreshDir::new("arbiter-replay");
        let (_arbiter, connect) = keyed(&dir);
        let key = GateKey::of_user(&[0x5a; 32], 1000);
        let mut program = connect();
        let proof = proof(&mut program, &claim(1000), &key).unwrap();
        program.write_all(&proof).unwrap();
        assert!(is_granted(&mut program));
        let mut thief = connect();
        thief.write_all(&claim(1000).encode()).unwrap();
        thief.read_exact(&mut [0; GateChallenge::SIZE]).unwrap();
        thief.write_all(&proof).unwrap();
        assert!(!is_granted(&mut thief));
        assert!(is_granted_again(&mut program), "the program itself goes on");
    }

    fn is_granted_again(program: &mut TcpStream) -> bool {
        program.write_all(&GateMessage::Ask { id: 2, bytes: 1, is_write: true }.encode()).unwrap();
        let mut message = [0; GateMessage::SIZE];
        program.read_exact(&mut message).is_ok()
    }

    #[test]
    fn an_address_that_others_can_reach_needs_a_key() {
        let start = |listen: &str, key: Option<PathBuf>| {
            let listen = listen.parse().unwrap();
            let turns = Turns::new(Policy::Exclusive);
            Arbiter::start(&ArbiterConfig { key, ..ArbiterConfig::new(listen, turns) }).map(drop)
        };
        for listen in ["tcp:0.0.0.0:0", "tcp:[::]:0", "tcp:192.0.2.1:7070"] {
            assert!(matches!(start(listen, None), Err(GateError::NoKey(_))), "{listen}");
        }
        start("tcp:127.0.0.1:0", None).unwrap();
        let dir = FreshDir::new("arbiter-needs-key");
        let site = dir.write("open", "5a".repeat(32));
        fs::set_permissions(&site, fs::Permissions::from_mode(0o644)).unwrap();
        let said = start("tcp:0.0.0.0:0", Some(site.clone())).unwrap_err().to_string();
        assert!(said.contains("others can read it"), "{said}");
        fs::set_permissions(&site, fs::Permissions::from_mode(0o600)).unwrap();
        start("tcp:0.0.0.0:0", Some(site.clone())).unwrap();
        let user = dir.join("user");
        crate::write_user_key(&site, rustix::process::geteuid().as_raw(), &user).unwrap();
        let said = start("tcp:0.0.0.0:0", Some(user)).unwrap_err().to_string();
        assert!(said.contains("the user") && said.contains("takes the key of the site"), "{said}");
        assert!(start("tcp:0.0.0.0:0", Some(dir.join("none"))).is_err());
    }
}
