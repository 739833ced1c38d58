//! A client of arbiters: a mount asks them before it moves data, so that mounts on several nodes know of each other.
//!
//! As the tracer's gate does ([`iotide_wire::GateMessage`]), for many jobs at once: each job has a connection of its own to each storage target it uses, and
//! says there whose it is. One thread hears all of them; a request that waits holds none. **Data come first:** an arbiter that cannot be reached,
//! hangs up or says nothing for [`SILENCE`] is left alone for a while, and its target's data move as they would without it.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use iotide_wire::{GateChallenge, GateClaim, GateHello, GateKeyText, GateMessage, GateRule};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send, socket_with, sockopt};

pub use self::places::{Arbiters, Place};
use crate::crew::Crew;
use crate::job::JobName;
use crate::keys::random;
use crate::schedule::Direction;

mod places;

/// An arbiter that keeps someone waiting says so five times a second; one that is silent for this long has stopped.
const SILENCE: Duration = Duration::from_secs(1);
/// How long an arbiter that failed is left alone at first, and at most.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A connection that nobody has used for so long is ended.
const IDLE: Duration = Duration::from_secs(60);
/// A connection comes about within this time.
const CONNECT_WITHIN: Duration = Duration::from_millis(500);
/// So many connections, and so many requests that wait at one of them.
const MAX_LINKS: usize = 4096;
const MAX_WAITING: usize = 1024;

/// Asks arbiters; ends when the last of it is dropped or it is stopped.
#[derive(Clone)]
pub(crate) struct Asker {
    core: Arc<Core>,
}

struct Core {
    arbiters: Arbiters,
    crew: Crew,
    poll: OwnedFd,
    bell: OwnedFd,
    state: Mutex<State>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct State {
    links: HashMap<u64, Link>,
    of_job: HashMap<(usize, JobName), u64>,
    targets: Vec<Target>,
    n_links: u64,
    n_asks: u64,
    is_over: bool,
}

/// State of an arbiter.
#[derive(Clone, Copy)]
struct Target {
    left_alone_until: Instant,
    pause: Duration,
}

/// The connection of a job to an arbiter.
struct Link {
    target: usize,
    job: JobName,
    socket: OwnedFd,
    stage: Stage,
    heard: Vec<u8>,
    unsent: Vec<u8>,
    waiting: VecDeque<Pending>,
    lease: Option<Lease>,
    heard_at: Instant,
    used_at: Instant,
}

enum Stage {
    Connecting,
    /// Has said whose it is, and waits to be told what to prove.
    Claimed(GateClaim),
    Ready,
}

struct Lease {
    id: u64,
    left: u64,
    moved: u64,
    until: Instant,
}

struct Pending {
    id: u64,
    bytes: u64,
    direction: Direction,
    until: Instant,
    answer: Answer,
}

type Answer = Box<dyn FnOnce(Option<Given>) + Send>;
/// Answers to be given once nobody holds the lock.
type Answers = Vec<(Answer, Option<Given>)>;

/// Permission of an arbiter.
#[derive(Clone, Copy)]
enum Given {
    /// One request, by this number on this connection; the arbiter wants to hear when it is over.
    Once { link: u64, id: u64, bytes: u64 },
    /// It is part of a lease.
    Lease,
}

/// Leave to move data; arbiters hear that it is over when this is dropped.
#[derive(Default)]
pub(crate) struct Leave {
    core: Weak<Core>,
    given: Vec<Given>,
}

/// A request to move data of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub position: u64,
    pub bytes: u64,
}

impl Asker {
    pub(crate) fn start(arbiters: Arbiters, crew: Crew) -> io::Result<Self> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&poll, &bell, EventData::new_u64(BELL), EventFlags::IN)?;
        let target = Target { left_alone_until: Instant::now(), pause: SHORTEST_PAUSE };
        let targets = vec![target; arbiters.places.len()];
        let state = Mutex::new(State { targets, ..State::default() });
        let core = Arc::new(Core { arbiters, crew, poll, bell, state, thread: Mutex::default() });
        let weak = Arc::downgrade(&core);
        let thread = thread::Builder::new().name("iotide-asker".to_owned()).spawn(move || hear(&weak))?;
        *lock(&core.thread) = Some(thread);
        Ok(Self { core })
    }

    /// Ends: nobody is answered any more.
    pub(crate) fn stop(&self) {
        let mut state = lock(&self.core.state);
        state.is_over = true;
        state.of_job.clear();
        let links = std::mem::take(&mut state.links);
        drop(state);
        drop(links);
        self.core.ring();
        let thread = lock(&self.core.thread).take();
        let _ = thread.map(JoinHandle::join);
    }

    /// Whether the request may go on at once: all its parts lie under leases, or nobody is there to ask.
    pub(crate) fn is_free(&self, job: &JobName, extent: Extent) -> bool {
        let core = &self.core;
        let mut state = lock(&core.state);
        let now = Instant::now();
        let parts: Vec<(usize, u64)> = core.parts(extent).collect();
        let may_go = parts.iter().all(|&(target, share)| {
            if state.targets[target].left_alone_until > now {
                return true;
            }
            let number = state.of_job.get(&(target, job.clone())).copied();
            let link = number.and_then(|number| state.links.get(&number));
            link.is_some_and(|link| link.lease.as_ref().is_some_and(|lease| lease.covers(share, now)))
        });
        for (target, share) in parts.into_iter().filter(|_| may_go) {
            let number = state.of_job.get(&(target, job.clone())).copied();
            if let Some(link) = number.and_then(|number| state.links.get_mut(&number)) {
                link.take_from_lease(share, now);
            }
        }
        may_go
    }

    /// Has `go` called by the crew once every target has given leave, one after the other and always in the same order, so that no two wait for
    /// each other. One that does not answer costs its own turn and nothing else.
    pub(crate) fn ask(
        &self,
        job: &JobName,
        direction: Direction,
        extent: Extent,
        go: impl FnOnce(Leave) + Send + 'static,
    ) {
        let parts: VecDeque<(usize, u64)> = self.core.parts(extent).collect();
        let until = Instant::now() + self.core.arbiters.patience;
        let leave = Leave { core: Arc::downgrade(&self.core), given: Vec::new() };
        let round = Round { job: job.clone(), direction, until, parts, leave, go: Box::new(go) };
        round.go_on(&self.core);
    }
}

/// A request on its way from one arbiter to the next.
struct Round {
    job: JobName,
    direction: Direction,
    until: Instant,
    parts: VecDeque<(usize, u64)>,
    leave: Leave,
    go: Box<dyn FnOnce(Leave) + Send>,
}

impl Round {
    fn go_on(mut self, core: &Arc<Core>) {
        let Some((target, bytes)) = self.parts.pop_front() else {
            let Self { go, leave, .. } = self;
            return core.crew.run(Box::new(move || go(leave)));
        };
        let (job, direction, until) = (self.job.clone(), self.direction, self.until);
        let next = Arc::downgrade(core);
        let answer = Box::new(move |given: Option<Given>| {
            self.leave.given.extend(given);
            if let Some(core) = next.upgrade() {
                self.go_on(&core);
            }
        });
        let mut state = lock(&core.state);
        if state.is_over {
            return;
        }
        state.n_asks += 1;
        let pending = Pending { id: state.n_asks, bytes, direction, until, answer };
        let answers = core.ask_one(&mut state, target, &job, pending);
        drop(state);
        reply(answers);
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        let Some(core) = self.core.upgrade() else { return };
        let mut state = lock(&core.state);
        let mut answers = Vec::new();
        for given in self.given.drain(..) {
            let Given::Once { link, id, bytes } = given else { continue };
            answers.extend(core.say(&mut state, link, &[GateMessage::Done { id, bytes }]));
        }
        drop(state);
        reply(answers);
    }
}

fn reply(answers: Answers) {
    for (answer, given) in answers {
        answer(given);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lease {
    fn covers(&self, bytes: u64, now: Instant) -> bool {
        self.left >= bytes && now < self.until
    }
}

impl Link {
    fn take_from_lease(&mut self, bytes: u64, now: Instant) -> bool {
        match &mut self.lease {
            Some(lease) if lease.covers(bytes, now) => {
                lease.left -= bytes;
                lease.moved += bytes;
                self.used_at = now;
                true
            }
            _ => false,
        }
    }

    /// Ends the lease, if there is one; returns the message with the bytes moved under it.
    fn end_lease(&mut self) -> Option<GateMessage> {
        self.lease.take().map(|lease| GateMessage::Done { id: lease.id, bytes: lease.moved })
    }

    /// Handles a grant; returns the answers to be given, and a message for the arbiter, if there is one.
    fn granted(&mut self, number: u64, id: u64, bytes: u64, lease_ns: u64) -> (Answers, Option<GateMessage>) {
        let Some(at) = self.waiting.iter().position(|pending| pending.id == id) else {
            // Of an ask that was given up.
            return (Vec::new(), Some(GateMessage::Done { id, bytes: 0 }));
        };
        let Some(pending) = self.waiting.remove(at) else { return (Vec::new(), None) };
        if lease_ns == 0 {
            let given = Given::Once { link: number, id, bytes: pending.bytes };
            return (vec![(pending.answer, Some(given))], None);
        }
        let former = self.end_lease();
        let until = Instant::now() + Duration::from_nanos(lease_ns);
        let left = bytes.saturating_sub(pending.bytes);
        self.lease = Some(Lease { id, left, moved: pending.bytes, until });
        (vec![(pending.answer, Some(Given::Lease))], former)
    }
}

impl Core {
    fn ring(&self) {
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// How much of a request lies at which target.
    fn parts(&self, extent: Extent) -> impl Iterator<Item = (usize, u64)> + '_ {
        let n_targets = self.arbiters.places.len();
        let rule = GateRule { prefix: b"", first: 0, n_targets, stripe: self.arbiters.stripe };
        let share = move |target| (target, rule.share(target, extent.position, extent.bytes));
        (0..n_targets).map(share).filter(|(_, share)| *share > 0)
    }

    /// Asks one arbiter. What can be answered at once is returned.
    fn ask_one(&self, state: &mut State, target: usize, job: &JobName, pending: Pending) -> Answers {
        let now = Instant::now();
        if state.targets[target].left_alone_until > now {
            return vec![(pending.answer, None)];
        }
        let known = state.of_job.get(&(target, job.clone())).copied();
        let number = match known {
            Some(number) => number,
            None => match self.connect(state, target, job) {
                Ok(number) => number,
                Err(_) => {
                    state.leave_alone(target);
                    return vec![(pending.answer, None)];
                }
            },
        };
        let Some(link) = state.links.get_mut(&number) else { return vec![(pending.answer, None)] };
        if link.take_from_lease(pending.bytes, now) {
            return vec![(pending.answer, Some(Given::Lease))];
        }
        if link.waiting.len() >= MAX_WAITING {
            return vec![(pending.answer, None)];
        }
        if link.waiting.is_empty() {
            link.heard_at = now;
        }
        link.used_at = now;
        let is_write = pending.direction == Direction::Write;
        let ask = GateMessage::Ask { id: pending.id, bytes: pending.bytes, is_write };
        link.waiting.push_back(pending);
        if !matches!(link.stage, Stage::Ready) {
            // Asked once the connection stands.
            return Vec::new();
        }
        let used = link.end_lease();
        let said: Vec<GateMessage> = used.into_iter().chain([ask]).collect();
        self.say(state, number, &said)
    }

    /// Begins a connection for a job.
    fn connect(&self, state: &mut State, target: usize, job: &JobName) -> io::Result<u64> {
        if state.links.len() >= MAX_LINKS {
            return Err(io::ErrorKind::QuotaExceeded.into());
        }
        let place = &self.arbiters.places[target];
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(place.family(), SocketType::STREAM, flags, None)?;
        let begun = match place {
            Place::Unix(address) => connect(&socket, address),
            Place::Tcp(address) => connect(&socket, address),
        };
        match begun {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        if matches!(place, Place::Tcp(_)) {
            sockopt::set_tcp_nodelay(&socket, true)?;
        }
        state.n_links += 1;
        let number = state.n_links;
        epoll::add(&self.poll, &socket, EventData::new_u64(number), EventFlags::IN | EventFlags::OUT)?;
        let now = Instant::now();
        let link = Link {
            target,
            job: job.clone(),
            socket,
            stage: Stage::Connecting,
            heard: Vec::new(),
            unsent: Vec::new(),
            waiting: VecDeque::new(),
            lease: None,
            heard_at: now,
            used_at: now,
        };
        state.links.insert(number, link);
        state.of_job.insert((target, job.clone()), number);
        Ok(number)
    }

    /// Says something on a link; one that takes nothing more is at an end.
    fn say(&self, state: &mut State, number: u64, messages: &[GateMessage]) -> Answers {
        let bytes: Vec<u8> = messages.iter().flat_map(GateMessage::encode).collect();
        let Some(link) = state.links.get_mut(&number) else { return Vec::new() };
        if self.send(link, number, &bytes) { Vec::new() } else { self.fail(state, number) }
    }

    fn send(&self, link: &mut Link, number: u64, bytes: &[u8]) -> bool {
        link.unsent.extend_from_slice(bytes);
        let sent = loop {
            match send(&link.socket, &link.unsent, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break 0,
                Ok(n) => break n,
                Err(_) => return false,
            }
        };
        link.unsent.drain(..sent);
        let out = if link.unsent.is_empty() { EventFlags::empty() } else { EventFlags::OUT };
        let _ = epoll::modify(&self.poll, &link.socket, EventData::new_u64(number), EventFlags::IN | out);
        link.unsent.len() <= MAX_WAITING * 2 * GateMessage::SIZE
    }

    /// Ends a link whose arbiter has gone; all who wait there go on, and it is left alone.
    fn fail(&self, state: &mut State, number: u64) -> Answers {
        let Some(link) = state.links.remove(&number) else { return Vec::new() };
        state.of_job.remove(&(link.target, link.job.clone()));
        let _ = epoll::delete(&self.poll, &link.socket);
        state.leave_alone(link.target);
        link.waiting.into_iter().map(|pending| (pending.answer, None)).collect()
    }

    /// Something has happened on a link.
    fn attend(&self, state: &mut State, number: u64, flags: EventFlags) -> Answers {
        let Some(link) = state.links.get_mut(&number) else { return Vec::new() };
        if matches!(link.stage, Stage::Connecting) {
            let stands = sockopt::socket_error(&link.socket).is_ok_and(|error| error.is_ok())
                && flags.contains(EventFlags::OUT)
                && self.greet(link, number);
            return if stands { Vec::new() } else { self.fail(state, number) };
        }
        let mut is_well = true;
        if flags.contains(EventFlags::OUT) {
            is_well &= self.send(link, number, &[]);
        }
        let mut answers = Vec::new();
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            let mut said = [0; 4096];
            match recv(&link.socket, &mut said[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => is_well = false,
                Ok((n, _)) => {
                    link.heard.extend_from_slice(&said[..n]);
                    link.heard_at = Instant::now();
                    is_well &= self.listen(link, number, &mut answers);
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => is_well = false,
            }
        }
        if answers.iter().any(|(_, given)| given.is_some()) {
            let target = link.target;
            state.targets[target].pause = SHORTEST_PAUSE;
        }
        if !is_well {
            answers.extend(self.fail(state, number));
        }
        answers
    }

    /// Says whose link it is, and asks what waits for it if that needs no proof.
    fn greet(&self, link: &mut Link, number: u64) -> bool {
        let name = match (&self.arbiters.places[link.target], &self.arbiters.key) {
            (Place::Tcp(_), Some(key)) => return self.claim(link, number, key),
            // The arbiter takes the mount's user for all: jobs of several users are told apart by their names.
            _ if link.job.user() == Some(rustix::process::geteuid().as_raw()) => link.job.name().to_owned(),
            _ => link.job.in_full(),
        };
        let hello = GateHello::new(std::process::id(), name.as_bytes());
        self.send(link, number, &hello.encode()) && self.ask_all(link, number)
    }

    fn claim(&self, link: &mut Link, number: u64, key: &GateKeyText) -> bool {
        let user = link.job.user().unwrap_or(rustix::process::geteuid().as_raw());
        let Ok(nonce) = random() else { return false };
        if key.of_user(user).is_none() {
            return false;
        }
        let hello = GateHello::new(std::process::id(), link.job.name().as_bytes());
        let claim = GateClaim { hello, user, nonce };
        link.stage = Stage::Claimed(claim);
        self.send(link, number, &claim.encode())
    }

    fn ask_all(&self, link: &mut Link, number: u64) -> bool {
        link.stage = Stage::Ready;
        let ask = |pending: &Pending| {
            let is_write = pending.direction == Direction::Write;
            GateMessage::Ask { id: pending.id, bytes: pending.bytes, is_write }.encode()
        };
        let asks: Vec<u8> = link.waiting.iter().flat_map(ask).collect();
        self.send(link, number, &asks)
    }

    /// Goes through what was heard. Returns whether it makes sense.
    fn listen(&self, link: &mut Link, number: u64, answers: &mut Answers) -> bool {
        loop {
            if let Stage::Claimed(claim) = link.stage {
                let Some(challenge) = link.heard.first_chunk() else { return true };
                let key = self.arbiters.key.as_ref().and_then(|key| key.of_user(claim.user));
                let proof = key.and_then(|key| GateChallenge::answer(challenge, &key, &claim));
                let Some(proof) = proof else { return false };
                link.heard.drain(..GateChallenge::SIZE);
                if !(self.send(link, number, &proof) && self.ask_all(link, number)) {
                    return false;
                }
            }
            let Some(message) = link.heard.first_chunk::<{ GateMessage::SIZE }>() else { return true };
            let message = GateMessage::decode(message);
            link.heard.drain(..GateMessage::SIZE);
            match message {
                Some(GateMessage::Grant { id, bytes, lease_ns }) => {
                    let (answered, done) = link.granted(number, id, bytes, lease_ns);
                    answers.extend(answered);
                    if let Some(done) = done
                        && !self.send(link, number, &done.encode())
                    {
                        return false;
                    }
                }
                Some(GateMessage::Wait) => {}
                _ => return false,
            }
        }
    }

    /// Looks who has waited for too long, which leases are over and which links nobody uses. Returns whether it should be looked again soon.
    fn tick(&self, state: &mut State) -> (Answers, bool) {
        let now = Instant::now();
        let (mut answers, mut is_busy, mut failed, mut idle, mut done) =
            (Vec::new(), false, Vec::new(), Vec::new(), Vec::new());
        for (&number, link) in &mut state.links {
            while link.waiting.front().is_some_and(|pending| now >= pending.until) {
                answers.extend(link.waiting.pop_front().map(|pending| (pending.answer, None)));
            }
            let silence = if matches!(link.stage, Stage::Connecting) { CONNECT_WITHIN } else { SILENCE };
            if !link.waiting.is_empty() && now.duration_since(link.heard_at) >= silence {
                failed.push(number);
                continue;
            }
            if link.lease.as_ref().is_some_and(|lease| now >= lease.until) {
                done.extend(link.end_lease().map(|message| (number, message)));
            }
            is_busy |= !link.waiting.is_empty() || link.lease.is_some();
            if link.waiting.is_empty() && now.duration_since(link.used_at) >= IDLE {
                idle.push(number);
            }
        }
        for number in failed {
            answers.extend(self.fail(state, number));
        }
        for (number, message) in done {
            answers.extend(self.say(state, number, &[message]));
        }
        for number in idle {
            if let Some(link) = state.links.remove(&number) {
                state.of_job.remove(&(link.target, link.job.clone()));
                let _ = epoll::delete(&self.poll, link.socket.as_fd());
            }
        }
        (answers, is_busy)
    }
}

impl State {
    /// An arbiter that failed is left alone for a while, longer each time.
    fn leave_alone(&mut self, target: usize) {
        let target = &mut self.targets[target];
        let now = Instant::now();
        if target.left_alone_until <= now {
            target.left_alone_until = now + target.pause;
            target.pause = (2 * target.pause).min(LONGEST_PAUSE);
        }
    }
}

const BELL: u64 = 0;

/// How often it is looked who waits for too long, while anybody does, and otherwise.
const OFTEN: Duration = Duration::from_millis(50);
const SELDOM: Duration = Duration::from_secs(1);

/// Hears what arbiters say, until nobody asks any more.
fn hear(core: &Weak<Core>) {
    let mut events = Vec::with_capacity(64);
    let mut pause = SELDOM;
    let mut looked = Instant::now();
    loop {
        let Some(core) = core.upgrade() else { return };
        let wait = Timespec { tv_sec: pause.as_secs() as i64, tv_nsec: pause.subsec_nanos().into() };
        let waited = epoll::wait(&core.poll, spare_capacity(&mut events), Some(&wait));
        if waited.is_err_and(|error| error != Errno::INTR) {
            return;
        }
        let mut state = lock(&core.state);
        if state.is_over {
            return;
        }
        let mut answers = Vec::new();
        for event in events.drain(..) {
            let (number, flags) = (event.data, event.flags);
            match number.u64() {
                BELL => drop(rustix::io::read(&core.bell, &mut [0; 8][..])),
                number => answers.extend(core.attend(&mut state, number, flags)),
            }
        }
        if looked.elapsed() >= pause.min(OFTEN) {
            looked = Instant::now();
            let (more, is_busy) = core.tick(&mut state);
            answers.extend(more);
            pause = if is_busy { OFTEN } else { SELDOM };
        } else {
            pause = OFTEN;
        }
        drop(state);
        reply(answers);
    }
}

#[cfg(test)]
mod tests;
