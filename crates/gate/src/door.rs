//! One thread that listens at a socket and to everyone who has connected there.
//!
//! Nobody can hold it up, however little they say and however little they read: callers cost a descriptor and a buffer, never a thread.
//! Whoever does not say who they are in time, says too much, or does not read what they are told, is hung up on.

use std::collections::HashMap;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{io, mem};

use iotide_private::OwnSocket;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, SocketFlags, accept_with, recv, send, shutdown, sockopt};

use iotide_private::{Share, Shares};

/// Messages at a door, and the callers who send them.
pub(crate) trait Desk: Send + Sync + 'static {
    /// A caller, and what is known of it.
    type Caller: Send;

    /// More callers than this are hung up on at once.
    const MAX_CALLERS: usize;
    /// A caller who has said more than this and still makes no sense is hung up on.
    const MAX_UNHEARD: usize;
    /// A caller who leaves more than this unread is hung up on.
    const MAX_UNREAD: usize;

    /// Someone has connected.
    fn greet(self: &Arc<Self>, line: &Arc<Line>) -> Self::Caller;

    /// Looks at what a caller has said, and returns how much of it was a whole message; `None` hangs up.
    fn hear(self: &Arc<Self>, caller: &mut Self::Caller, said: &[u8]) -> Option<usize>;

    /// How long a caller may say nothing; `None` is for ever.
    fn may_be_silent_for(&self, caller: &Self::Caller) -> Option<Duration>;

    /// The user that a caller has proved to be, where the system does not say who it is.
    fn proven_user(&self, _caller: &Self::Caller) -> Option<u32> {
        None
    }

    /// A caller has gone.
    fn leave(self: &Arc<Self>, caller: Self::Caller);
}

/// A door that is open until it is dropped; then everyone is hung up on and the thread has ended.
#[derive(Debug)]
pub(crate) struct Door {
    bell: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

/// Where callers come from.
pub(crate) enum Entrance {
    Unix(OwnSocket),
    Tcp {
        listener: TcpListener,
        /// Whether callers prove who they are ([`Desk::proven_user`]).
        tells_users: bool,
    },
}

impl Entrance {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Entrance::Unix(socket) => socket.listener().as_fd(),
            Entrance::Tcp { listener, .. } => listener.as_fd(),
        }
    }

    /// An account of so many places: where users come that can be told apart, nobody has more than a share; one who listens alone has all.
    pub(crate) fn account(&self, n_places: usize) -> Shares {
        match self {
            Entrance::Unix(socket) if socket.is_for_many() => Shares::among_users(n_places),
            Entrance::Tcp { tells_users: true, .. } => Shares::among_users(n_places),
            _ => Shares::for_one(n_places),
        }
    }
}

impl Door {
    pub(crate) fn open<D: Desk>(entrance: Entrance, desk: Arc<D>, name: &str) -> io::Result<Self> {
        match &entrance {
            Entrance::Unix(socket) => socket.listener().set_nonblocking(true)?,
            Entrance::Tcp { listener, .. } => listener.set_nonblocking(true)?,
        }
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let poll = Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        epoll::add(&poll, &bell, EventData::new_u64(BELL), EventFlags::IN)?;
        epoll::add(&poll, entrance.fd(), EventData::new_u64(ENTRANCE), EventFlags::IN)?;
        let places = entrance.account(D::MAX_CALLERS);
        let keeper = Keeper { entrance, poll, desk, guests: HashMap::new(), n_guests: ENTRANCE, places };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || keeper.run())?;
        Ok(Self { bell, thread: Some(thread) })
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A connection, to say something at.
#[derive(Debug)]
pub(crate) struct Line {
    socket: OwnedFd,
    poll: Arc<OwnedFd>,
    number: u64,
    max_unread: usize,
    /// Bytes that the other end has not taken yet.
    unsent: Mutex<Vec<u8>>,
}

impl Line {
    /// Says something, without waiting for it to be read.
    pub(crate) fn say(&self, bytes: &[u8]) {
        let mut unsent = self.unsent.lock().unwrap_or_else(PoisonError::into_inner);
        let is_behind = !unsent.is_empty();
        let n_sent = if is_behind { Ok(0) } else { self.send(bytes) };
        match n_sent {
            Ok(n) if n == bytes.len() => {}
            Ok(n) if unsent.len() + bytes.len() - n <= self.max_unread => {
                unsent.extend_from_slice(&bytes[n..]);
                if !is_behind {
                    self.watch(EventFlags::IN | EventFlags::OUT);
                }
            }
            _ => self.hang_up(),
        }
    }

    /// The process and the user at the other end, as the kernel knows them.
    pub(crate) fn peer(&self) -> Option<Peer> {
        let peer = sockopt::socket_peercred(&self.socket).ok()?;
        Some(Peer { process: peer.pid.as_raw_nonzero().get() as u32, user: peer.uid.as_raw() })
    }

    /// Goes on with what was not taken before. Returns whether the connection stands.
    fn go_on(&self) -> bool {
        let mut unsent = self.unsent.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(n) = self.send(&unsent) else { return false };
        unsent.drain(..n);
        if unsent.is_empty() {
            *unsent = Vec::new();
            self.watch(EventFlags::IN);
        }
        true
    }

    fn send(&self, bytes: &[u8]) -> Result<usize, Errno> {
        loop {
            match send(&self.socket, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Err(Errno::AGAIN) => return Ok(0),
                Err(Errno::INTR) => {}
                sent => return sent,
            }
        }
    }

    fn watch(&self, flags: EventFlags) {
        let _ = epoll::modify(&self.poll, &self.socket, EventData::new_u64(self.number), flags);
    }

    /// Ends the connection; the thread at the door will notice.
    pub(crate) fn hang_up(&self) {
        let _ = shutdown(&self.socket, Shutdown::Both);
    }
}

/// Who is at the other end of a connection on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub process: u32,
    pub user: u32,
}

/// Stands for callers whose user nobody knows.
pub(crate) const NOBODY: u32 = u32::MAX;

const BELL: u64 = 0;
const ENTRANCE: u64 = 1;

/// How often it is looked at who has said nothing for too long.
const ROUND: Duration = Duration::from_millis(500);

/// A moment to get descriptors back, when there are none left.
const BREATHER: Duration = Duration::from_millis(10);

struct Keeper<D: Desk> {
    entrance: Entrance,
    poll: Arc<OwnedFd>,
    desk: Arc<D>,
    guests: HashMap<u64, Guest<D::Caller>>,
    n_guests: u64,
    places: Shares,
}

struct Guest<C> {
    line: Arc<Line>,
    caller: C,
    unheard: Vec<u8>,
    heard_at: Instant,
    place: Share,
}

impl<D: Desk> Keeper<D> {
    fn run(mut self) {
        let mut events = Vec::with_capacity(64);
        let mut rounded = Instant::now();
        let round = Timespec { tv_sec: 0, tv_nsec: ROUND.subsec_nanos().into() };
        loop {
            let waited = epoll::wait(&self.poll, spare_capacity(&mut events), Some(&round));
            if waited.is_err_and(|error| error != Errno::INTR) {
                break;
            }
            for event in events.drain(..) {
                let (number, flags) = (event.data, event.flags);
                match number.u64() {
                    BELL => return self.close(),
                    ENTRANCE => self.let_in(),
                    number => self.attend(number, flags),
                }
            }
            if rounded.elapsed() >= ROUND {
                rounded = Instant::now();
                self.go_round();
            }
        }
        self.close();
    }

    fn close(mut self) {
        for (_, guest) in mem::take(&mut self.guests) {
            self.see_off(guest);
        }
    }

    fn let_in(&mut self) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = match accept_with(self.entrance.fd(), flags) {
            Ok(socket) => socket,
            Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                return thread::sleep(BREATHER);
            }
            Err(_) => return,
        };
        // Those from other machines are nobody in particular, until they prove who they are.
        let user = iotide_private::peer_user(&socket).unwrap_or(NOBODY);
        let Some(place) = self.places.take(user) else {
            return; // hanging up tells them to go on alone
        };
        if matches!(self.entrance, Entrance::Tcp { .. }) {
            let _ = sockopt::set_tcp_nodelay(&socket, true);
            // A node that is gone does not say so.
            let _ = sockopt::set_socket_keepalive(&socket, true);
        }
        self.n_guests += 1;
        let number = self.n_guests;
        if epoll::add(&self.poll, socket.as_fd(), EventData::new_u64(number), EventFlags::IN).is_err() {
            return;
        }
        let line = Arc::new(Line {
            socket,
            poll: Arc::clone(&self.poll),
            number,
            max_unread: D::MAX_UNREAD,
            unsent: Mutex::default(),
        });
        let caller = self.desk.greet(&line);
        self.guests
            .insert(number, Guest { line, caller, unheard: Vec::new(), heard_at: Instant::now(), place });
    }

    fn attend(&mut self, number: u64, flags: EventFlags) {
        let Some(guest) = self.guests.get_mut(&number) else { return };
        let mut stays = (!flags.contains(EventFlags::OUT) || guest.line.go_on())
            && (!flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR)
                || listen(&self.desk, guest));
        if stays
            && let Some(user) = self.desk.proven_user(&guest.caller)
            && !guest.place.is_of(user)
        {
            match self.places.take(user) {
                Some(place) => guest.place = place,
                None => stays = false,
            }
        }
        if !stays && let Some(guest) = self.guests.remove(&number) {
            self.see_off(guest);
        }
    }

    fn go_round(&mut self) {
        let is_too_silent = |guest: &Guest<D::Caller>| {
            let allowed = self.desk.may_be_silent_for(&guest.caller);
            allowed.is_some_and(|allowed| guest.heard_at.elapsed() > allowed)
        };
        let silent: Vec<u64> =
            self.guests.iter().filter(|(_, guest)| is_too_silent(guest)).map(|(number, _)| *number).collect();
        for number in silent {
            if let Some(guest) = self.guests.remove(&number) {
                self.see_off(guest);
            }
        }
    }

    fn see_off(&self, guest: Guest<D::Caller>) {
        // Others may hold the line for a while yet: it is at an end all the same.
        let _ = epoll::delete(&self.poll, &guest.line.socket);
        guest.line.hang_up();
        self.desk.leave(guest.caller);
    }
}

/// Takes what a guest has said. Returns whether it stays.
fn listen<D: Desk>(desk: &Arc<D>, guest: &mut Guest<D::Caller>) -> bool {
    let mut said = [0; 4096];
    match recv(&guest.line.socket, &mut said[..], RecvFlags::DONTWAIT) {
        Ok((0, _)) => return false,
        Ok((n, _)) => guest.unheard.extend_from_slice(&said[..n]),
        Err(Errno::AGAIN | Errno::INTR) => return true,
        Err(_) => return false,
    }
    let mut n_heard = 0;
    loop {
        match desk.hear(&mut guest.caller, &guest.unheard[n_heard..]) {
            None => return false,
            Some(0) => break,
            Some(n) => n_heard += n,
        }
    }
    if n_heard > 0 {
        // A byte now and then is as good as nothing.
        guest.heard_at = Instant::now();
    }
    guest.unheard.drain(..n_heard);
    guest.unheard.len() <= D::MAX_UNHEARD
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;
    use std::io::{Read, Write};
    use std::os::unix::net::{UnixListener, UnixStream};

    /// Says everything back, line by line; who has said nothing yet may be silent for a moment only.
    struct Echo;

    struct Talker {
        line: Arc<Line>,
        has_spoken: bool,
    }

    impl Desk for Echo {
        type Caller = Talker;
        const MAX_CALLERS: usize = 20;
        const MAX_UNHEARD: usize = 100;
        const MAX_UNREAD: usize = 1 << 20;

        fn greet(self: &Arc<Self>, line: &Arc<Line>) -> Talker {
            Talker { line: Arc::clone(line), has_spoken: false }
        }

        fn hear(self: &Arc<Self>, caller: &mut Talker, said: &[u8]) -> Option<usize> {
            let end = said.iter().position(|&byte| byte == b'\n').map_or(0, |at| at + 1);
            if end > 0 {
                caller.has_spoken = true;
                caller.line.say(&said[..end]);
            }
            Some(end)
        }

        fn may_be_silent_for(&self, caller: &Talker) -> Option<Duration> {
            (!caller.has_spoken).then_some(Duration::from_millis(100))
        }

        fn leave(self: &Arc<Self>, _: Talker) {}
    }

    fn door(name: &str) -> (FreshDir, Door, impl Fn() -> UnixStream) {
        let dir = FreshDir::new(name);
        let path = dir.path().join("door");
        let entrance = Entrance::Unix(OwnSocket::bind(&path, 0o600, None).unwrap());
        let door = Door::open(entrance, Arc::new(Echo), "iotide-test").unwrap();
        (dir, door, move || UnixStream::connect(&path).unwrap())
    }

    fn says_back(caller: &mut UnixStream, line: &[u8]) {
        caller.write_all(line).unwrap();
        let mut answer = vec![0; line.len()];
        caller.read_exact(&mut answer).unwrap();
        assert_eq!(answer, line);
    }

    /// Returns when the other end has hung up; a test that fails waits for ever.
    fn wait_for_the_end(caller: &mut UnixStream) {
        // Reset or ended, by whether it had something left to read.
        let _ = caller.read_to_end(&mut Vec::new());
    }

    #[test]
    fn many_are_heard_beside_those_who_say_nothing_and_the_silent_are_hung_up_on() {
        let (_dir, _door, connect) = door("door-many");
        let mut silent: Vec<UnixStream> = (0..10).map(|_| connect()).collect();
        let mut talkers: Vec<UnixStream> = (0..10).map(|_| connect()).collect();
        for talker in &mut talkers {
            says_back(talker, b"hello\n");
        }
        silent.iter_mut().for_each(wait_for_the_end);
        // Who has spoken may be silent from then on.
        for talker in &mut talkers {
            says_back(talker, b"still there\n");
        }
    }

    #[test]
    fn one_too_many_is_hung_up_on_until_another_has_gone() {
        let (_dir, _door, connect) = door("door-full");
        let mut talkers: Vec<UnixStream> = (0..20).map(|_| connect()).collect();
        talkers.iter_mut().for_each(|talker| says_back(talker, b"hello\n"));
        wait_for_the_end(&mut connect());
        drop(talkers.pop());
        says_back(&mut talkers[0], b"the others stay\n");
    }

    #[test]
    fn who_says_too_much_or_does_not_read_is_hung_up_on() {
        let (_dir, _door, connect) = door("door-greedy");
        let mut babbler = connect();
        let _ = babbler.write_all(&[b'x'; 5000]);
        wait_for_the_end(&mut babbler);
        let mut deaf = connect();
        let line = [&[b'x'; 99][..], b"\n"].concat();
        // Far more than the sockets' buffers and ours hold.
        while deaf.write_all(&line).is_ok() {}
    }

    #[test]
    fn a_door_that_is_dropped_is_closed() {
        let (dir, door, connect) = door("door-drop");
        let mut talker = connect();
        says_back(&mut talker, b"hello\n");
        drop(door);
        wait_for_the_end(&mut talker);
        assert!(UnixStream::connect(dir.path().join("door")).is_err());
    }

    #[test]
    fn the_kernel_says_who_is_there() {
        let dir = FreshDir::new("door-peer");
        let path = dir.path().join("door");
        let listener = UnixListener::bind(&path).unwrap();
        let _caller = UnixStream::connect(&path).unwrap();
        let line = Line {
            socket: listener.accept().unwrap().0.into(),
            poll: Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC).unwrap()),
            number: 2,
            max_unread: 0,
            unsent: Mutex::default(),
        };
        let user = rustix::process::getuid().as_raw();
        assert_eq!(line.peer(), Some(Peer { process: std::process::id(), user }));
    }
}
