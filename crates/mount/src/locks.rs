//! Record locks (`fcntl`), passed on to the backing file system.
//!
//! The kernel names the owner of each lock: a process, or an open file (`F_OFD_SETLK`). For each owner that locks a file the
//! file is opened once more, and locked through that description. So the backing file system tells owners apart as the
//! kernel does; processes beside the mount see the locks, and on a shared file system so do other nodes. When this
//! program dies, its locks go.
//!
//! Who has to wait holds no thread. One thread, there while anyone waits, tries again when a lock was given up here, and
//! now and then for locks that were given up elsewhere. It also looks whether a signal waits for the caller, who is then
//! let go: the kernel would say so, but fuser does not pass it on. And it finds out those who wait for each other, of whom the one who came
//! last is told so (`EDEADLK`).

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use rustix::io::{Errno, Result};

/// A lock that someone wants, or wants to be rid of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LockRequest {
    /// The open file it is asked through.
    pub handle: u64,
    /// Who asks.
    pub owner: u64,
    /// The first and the last byte.
    pub start: u64,
    pub end: u64,
    /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
    pub kind: i32,
    /// The process, for those who ask who is in the way.
    pub process: u32,
}

/// A lock that is held, or `F_UNLCK` where none is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub start: u64,
    pub end: u64,
    pub kind: i32,
    /// The process that holds it; 0 if that is not known.
    pub process: u32,
}

impl Held {
    fn is_in_the_way(&self, wish: &LockRequest) -> bool {
        let overlaps = self.start <= wish.end && wish.start <= self.end;
        overlaps && (self.kind == libc::F_WRLCK || wish.kind == libc::F_WRLCK)
    }
}

/// Opens the file anew, for locks alone.
pub(crate) trait Open: Fn() -> Result<OwnedFd> + Send + 'static {}
impl<F: Fn() -> Result<OwnedFd> + Send + 'static> Open for F {}

/// The locks of all files.
#[derive(Clone, Default)]
pub(crate) struct Locks {
    table: Arc<Table>,
}

#[derive(Default)]
struct Table {
    files: Mutex<HashMap<u64, Arc<Mutex<Owners>>>>,
    line: Mutex<Line>,
    given_up: Condvar,
}

/// Those who have locked a file, or tried to.
#[derive(Default)]
struct Owners(HashMap<u64, Owner>);

struct Owner {
    file: OwnedFd,
    handles: Vec<u64>,
    held: Vec<Held>,
}

/// Those who wait, in the order in which they came.
#[derive(Default)]
struct Line {
    waiters: Vec<Waiter>,
    is_served: bool,
    /// Since those who wait were tried last, someone gave up a lock.
    is_moving: bool,
}

struct Waiter {
    number: u64,
    wish: LockRequest,
    thread: u32,
    open: Box<dyn Fn() -> Result<OwnedFd> + Send>,
    answer: Box<dyn FnOnce(Result<()>) + Send>,
    patience: Duration,
    try_at: Instant,
    look_at: Instant,
    /// Whether it is known not to wait for someone who waits for it.
    is_checked: bool,
}

/// How soon, and then how seldom, a lock that is held elsewhere is tried again.
const PATIENCE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(50));

/// How often it is looked whether a signal waits for someone who waits.
const LOOK: Duration = Duration::from_millis(100);

impl Locks {
    /// Does what is wished for, and answers; if the lock is held by another, at once or, with the number of the thread that
    /// waits, later.
    pub(crate) fn set(
        &self,
        number: u64,
        wish: LockRequest,
        waiting: Option<u32>,
        open: impl Open,
        answer: impl FnOnce(Result<()>) + Send + 'static,
    ) {
        match (self.table.attempt(number, &wish, &open), waiting) {
            (Err(Errno::AGAIN), Some(thread)) => {
                let now = Instant::now();
                self.table.queue(Waiter {
                    number,
                    wish,
                    thread,
                    open: Box::new(open),
                    answer: Box::new(answer),
                    patience: PATIENCE.0,
                    try_at: now + PATIENCE.0,
                    look_at: now + LOOK,
                    is_checked: false,
                });
            }
            (outcome, _) => {
                answer(outcome);
                if wish.kind != libc::F_WRLCK {
                    self.table.wake();
                }
            }
        }
    }

    /// Returns a lock that is in the way of a wish.
    pub(crate) fn find(
        &self,
        number: u64,
        wish: &LockRequest,
        open: impl FnOnce() -> Result<OwnedFd>,
    ) -> Result<Held> {
        let file = self.table.file(number);
        let owners = lock(&file);
        if let Some(held) = owners.in_the_way(wish) {
            return Ok(held);
        }
        match owners.0.get(&wish.owner) {
            Some(owner) => find_in(&owner.file, wish),
            None => find_in(&open()?, wish),
        }
    }

    /// Takes away the locks of those owners of a file of whom `is_over` says so, by owner and the open files they used.
    pub(crate) fn give_up(&self, number: u64, is_over: impl Fn(u64, &[u64]) -> bool) {
        let Some(file) = lock(&self.table.files).get(&number).cloned() else { return };
        // With their descriptors go their locks.
        let n_gone = lock(&file).0.extract_if(|owner, of| is_over(*owner, &of.handles)).count();
        drop(file);
        let mut files = lock(&self.table.files);
        let is_unused = |file: &Arc<Mutex<Owners>>| Arc::strong_count(file) == 1 && lock(file).0.is_empty();
        if files.get(&number).is_some_and(is_unused) {
            files.remove(&number);
        }
        drop(files);
        if n_gone > 0 {
            self.table.wake();
        }
    }
}

impl Table {
    fn file(&self, number: u64) -> Arc<Mutex<Owners>> {
        Arc::clone(lock(&self.files).entry(number).or_default())
    }

    fn attempt(&self, number: u64, wish: &LockRequest, open: &dyn Fn() -> Result<OwnedFd>) -> Result<()> {
        let file = self.file(number);
        let mut owners = lock(&file);
        if wish.kind == libc::F_UNLCK && !owners.0.contains_key(&wish.owner) {
            return Ok(());
        }
        if wish.kind != libc::F_UNLCK && owners.in_the_way(wish).is_some() {
            return Err(Errno::AGAIN);
        }
        let owner = match owners.0.entry(wish.owner) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Owner { file: open()?, handles: Vec::new(), held: Vec::new() }),
        };
        if !owner.handles.contains(&wish.handle) {
            owner.handles.push(wish.handle);
        }
        match fcntl(&owner.file, FcntlArg::F_OFD_SETLK(&as_flock(wish))) {
            Ok(_) => {
                note(&mut owner.held, wish);
                Ok(())
            }
            Err(nix::errno::Errno::EACCES) => Err(Errno::AGAIN),
            Err(error) => Err(Errno::from_raw_os_error(error as i32)),
        }
    }

    fn queue(self: &Arc<Self>, waiter: Waiter) {
        let mut line = lock(&self.line);
        line.waiters.push(waiter);
        if !line.is_served {
            let table = Arc::clone(self);
            let started = thread::Builder::new().name("iotide-locks".to_owned()).spawn(move || table.serve());
            line.is_served = started.is_ok();
        }
        if !line.is_served
            && let Some(waiter) = line.waiters.pop()
        {
            drop(line);
            (waiter.answer)(Err(Errno::NOLCK));
        }
    }

    fn wake(&self) {
        let mut line = lock(&self.line);
        if line.is_served {
            line.is_moving = true;
            self.given_up.notify_one();
        }
    }

    /// Serves those who wait until nobody does.
    fn serve(&self) {
        let mut line = lock(&self.line);
        while !line.waiters.is_empty() {
            let is_moving = std::mem::take(&mut line.is_moving);
            let waiters = std::mem::take(&mut line.waiters);
            drop(line);
            let mut left: Vec<Waiter> =
                waiters.into_iter().filter_map(|waiter| self.serve_one(waiter, is_moving)).collect();
            line = lock(&self.line);
            left.append(&mut line.waiters);
            line.waiters = left;
            // Who gets a lock may be in the way of others from then on.
            while (is_moving || line.waiters.iter().any(|waiter| !waiter.is_checked))
                && let Some(at) = self.last_of_a_circle(&line.waiters)
            {
                (line.waiters.remove(at).answer)(Err(Errno::DEADLK));
            }
            line.waiters.iter_mut().for_each(|waiter| waiter.is_checked = true);
            let next = line.waiters.iter().map(|waiter| waiter.try_at.min(waiter.look_at)).min();
            if let Some(next) = next.filter(|_| !line.is_moving) {
                let left = next.saturating_duration_since(Instant::now());
                line = self.given_up.wait_timeout(line, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        line.is_served = false;
    }

    /// Returns the last to come of those who wait for each other.
    fn last_of_a_circle(&self, waiters: &[Waiter]) -> Option<usize> {
        let before: Vec<Vec<u64>> = waiters.iter().map(|waiter| self.who_is_before(waiter)).collect();
        (0..waiters.len()).rev().find(|&at| {
            let own = waiters[at].wish.owner;
            let mut reached = HashSet::new();
            let mut next = before[at].clone();
            while let Some(owner) = next.pop() {
                if owner == own {
                    return true;
                }
                if reached.insert(owner) {
                    let waits = |(waiter, _): &(&Waiter, &Vec<u64>)| waiter.wish.owner == owner;
                    next.extend(waiters.iter().zip(&before).filter(waits).flat_map(|(_, before)| before));
                }
            }
            false
        })
    }

    /// The owners whose locks someone waits for.
    fn who_is_before(&self, waiter: &Waiter) -> Vec<u64> {
        let file = self.file(waiter.number);
        let owners = lock(&file);
        let others = owners.0.iter().filter(|(owner, _)| **owner != waiter.wish.owner);
        let is_before = |owner: &Owner| owner.held.iter().any(|held| held.is_in_the_way(&waiter.wish));
        others.filter(|(_, owner)| is_before(owner)).map(|(owner, _)| *owner).collect()
    }

    /// Returns the waiter who has to wait on.
    fn serve_one(&self, mut waiter: Waiter, is_moving: bool) -> Option<Waiter> {
        let now = Instant::now();
        if is_moving || now >= waiter.try_at {
            match self.attempt(waiter.number, &waiter.wish, &waiter.open) {
                Err(Errno::AGAIN) => {
                    waiter.patience = (waiter.patience * 2).min(PATIENCE.1);
                    waiter.try_at = now + waiter.patience;
                }
                outcome => {
                    (waiter.answer)(outcome);
                    return None;
                }
            }
        }
        if now >= waiter.look_at {
            waiter.look_at = now + LOOK;
            if has_signal(Path::new("/proc"), waiter.thread) {
                (waiter.answer)(Err(Errno::INTR));
                return None;
            }
        }
        Some(waiter)
    }
}

impl Owners {
    /// Returns a lock of someone else that a wish has to wait for.
    fn in_the_way(&self, wish: &LockRequest) -> Option<Held> {
        let others = self.0.iter().filter(|(owner, _)| **owner != wish.owner);
        others.flat_map(|(_, owner)| &owner.held).find(|held| held.is_in_the_way(wish)).copied()
    }
}

/// Writes a wish that was granted into what its owner holds: of the same bytes, the last wish counts.
fn note(held: &mut Vec<Held>, wish: &LockRequest) {
    let mut rest = Vec::with_capacity(held.len() + 2);
    for lock in held.drain(..) {
        if lock.end < wish.start || wish.end < lock.start {
            rest.push(lock);
            continue;
        }
        if lock.start < wish.start {
            rest.push(Held { end: wish.start - 1, ..lock });
        }
        if wish.end < lock.end {
            rest.push(Held { start: wish.end + 1, ..lock });
        }
    }
    if wish.kind != libc::F_UNLCK {
        rest.push(Held { start: wish.start, end: wish.end, kind: wish.kind, process: wish.process });
    }
    *held = rest;
}

/// The last byte that a file can have, which stands for its end, wherever that will be.
const LAST: u64 = i64::MAX as u64;

fn as_flock(wish: &LockRequest) -> libc::flock {
    // All the way is a length of 0.
    let length = if wish.end >= LAST { 0 } else { wish.end.saturating_sub(wish.start) + 1 };
    libc::flock {
        l_type: wish.kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: wish.start as i64,
        l_len: length as i64,
        l_pid: 0,
    }
}

fn find_in(file: &OwnedFd, wish: &LockRequest) -> Result<Held> {
    let mut found = as_flock(wish);
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut found)).map_err(|error| Errno::from_raw_os_error(error as i32))?;
    let start = found.l_start.max(0) as u64;
    let end = if found.l_len == 0 { LAST } else { start + found.l_len as u64 - 1 };
    let process = u32::try_from(found.l_pid).unwrap_or(0);
    Ok(Held { start, end, kind: i32::from(found.l_type), process })
}

/// Whether a thread that waits in the kernel has a signal to take, or is gone.
fn has_signal(proc: &Path, thread: u32) -> bool {
    if thread == 0 {
        return false; // cannot be seen from here
    }
    let Ok(status) = std::fs::read_to_string(proc.join(thread.to_string()).join("status")) else {
        return true;
    };
    let field = |name: &str| status.lines().find_map(|line| Some(line.strip_prefix(name)?.trim()));
    let signals = |name: &str| field(name).and_then(|set| u64::from_str_radix(set, 16).ok()).unwrap_or(0);
    // A signal to the whole process may be for another of its threads; one that ends it is for each of them.
    let of_process = if field("Threads:") == Some("1") { signals("ShdPnd:") } else { 0 };
    (signals("SigPnd:") | of_process) & !signals("SigBlk:") != 0
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;
    use std::sync::mpsc::channel;

    fn wish(owner: u64, kind: i32, start: u64, end: u64) -> LockRequest {
        LockRequest { handle: owner, owner, start, end, kind, process: owner as u32 }
    }

    fn opener(dir: &FreshDir) -> impl Open + Clone + use<> {
        let path = dir.path().join("file");
        move || {
            let mut options = std::fs::OpenOptions::new();
            let file = options.read(true).write(true).create(true).truncate(false).open(&path);
            file.map(OwnedFd::from).map_err(|error| Errno::from_io_error(&error).unwrap())
        }
    }

    /// Returns the outcome of a request whose caller does not wait.
    fn outcome(locks: &Locks, wish: LockRequest, open: impl Open) -> Result<()> {
        let (answer, answered) = channel();
        locks.set(7, wish, None, open, move |outcome| answer.send(outcome).unwrap());
        answered.recv().unwrap()
    }

    #[test]
    fn of_the_same_bytes_the_last_wish_counts() {
        let mut held = Vec::new();
        note(&mut held, &wish(1, libc::F_WRLCK, 10, 29));
        note(&mut held, &wish(1, libc::F_RDLCK, 15, 19));
        note(&mut held, &wish(1, libc::F_UNLCK, 25, LAST));
        let mut ranges: Vec<_> = held.iter().map(|lock| (lock.start, lock.end, lock.kind)).collect();
        ranges.sort_unstable();
        assert_eq!(ranges, [(10, 14, libc::F_WRLCK), (15, 19, libc::F_RDLCK), (20, 24, libc::F_WRLCK)]);
    }

    #[test]
    fn a_lock_is_seen_by_other_owners_and_beside_the_table() {
        let dir = FreshDir::new("locks");
        let (locks, open) = (Locks::default(), opener(&dir));
        outcome(&locks, wish(1, libc::F_WRLCK, 10, 19), open.clone()).unwrap();
        assert_eq!(outcome(&locks, wish(2, libc::F_RDLCK, 15, LAST), open.clone()), Err(Errno::AGAIN));
        outcome(&locks, wish(2, libc::F_RDLCK, 20, LAST), open.clone()).unwrap();
        let found = locks.find(7, &wish(2, libc::F_RDLCK, 0, LAST), open.clone()).unwrap();
        assert_eq!(found, Held { start: 10, end: 19, kind: libc::F_WRLCK, process: 1 });
        let beside = open().unwrap();
        assert_eq!(find_in(&beside, &wish(3, libc::F_WRLCK, 0, 12)).unwrap().kind, libc::F_WRLCK);
        locks.give_up(7, |owner, _| owner == 1);
        assert_eq!(find_in(&beside, &wish(3, libc::F_WRLCK, 0, 12)).unwrap().kind, libc::F_UNLCK);
        locks.give_up(7, |_, handles| handles.contains(&2));
        assert!(lock(&locks.table.files).is_empty());
    }

    #[test]
    fn who_waits_gets_the_lock_from_owners_here_and_from_others() {
        let dir = FreshDir::new("locks-wait");
        let (locks, open) = (Locks::default(), opener(&dir));
        let beside = open().unwrap();
        outcome(&locks, wish(1, libc::F_WRLCK, 0, 9), open.clone()).unwrap();
        fcntl(&beside, FcntlArg::F_OFD_SETLK(&as_flock(&wish(9, libc::F_WRLCK, 10, 19)))).unwrap();
        let (answer, answered) = channel();
        for owner in [2, 3] {
            let answer = answer.clone();
            let wanted = wish(owner, libc::F_WRLCK, (owner - 2) * 10, (owner - 2) * 10);
            locks
                .set(7, wanted, Some(0), open.clone(), move |outcome| answer.send((owner, outcome)).unwrap());
        }
        assert!(answered.recv_timeout(Duration::from_millis(20)).is_err(), "both are held");
        outcome(&locks, wish(1, libc::F_UNLCK, 0, LAST), open.clone()).unwrap();
        assert_eq!(answered.recv().unwrap(), (2, Ok(())));
        drop(beside);
        assert_eq!(answered.recv().unwrap(), (3, Ok(())));
    }

    #[test]
    fn of_those_who_wait_for_each_other_the_last_is_told_so() {
        let dir = FreshDir::new("locks-circle");
        let (locks, open) = (Locks::default(), opener(&dir));
        let (answer, answered) = channel();
        let wait = |owner: u64, byte: u64| {
            let answer = answer.clone();
            let wanted = wish(owner, libc::F_WRLCK, byte, byte);
            locks
                .set(7, wanted, Some(0), open.clone(), move |outcome| answer.send((owner, outcome)).unwrap());
        };
        // Each holds its own byte, and the first three want that of the next; the fourth only stands in line.
        for owner in 1..=3 {
            outcome(&locks, wish(owner, libc::F_WRLCK, owner, owner), open.clone()).unwrap();
        }
        wait(1, 2);
        wait(2, 3);
        wait(4, 1);
        assert!(answered.recv_timeout(Duration::from_millis(20)).is_err(), "nobody waits in a circle yet");
        wait(3, 1);
        assert_eq!(answered.recv().unwrap(), (3, Err(Errno::DEADLK)));
        // Who is told so gives up what it has, and the others go on.
        locks.give_up(7, |owner, _| owner == 3);
        assert_eq!(answered.recv().unwrap(), (2, Ok(())));
        locks.give_up(7, |owner, _| owner == 2);
        assert_eq!(answered.recv().unwrap(), (1, Ok(())));
        locks.give_up(7, |owner, _| owner == 1);
        assert_eq!(answered.recv().unwrap(), (4, Ok(())));
    }

    #[test]
    fn a_thread_with_a_signal_to_take_is_told_from_one_without() {
        let dir = FreshDir::new("locks-proc");
        std::fs::create_dir(dir.join("40")).unwrap();
        for (threads, own, shared, blocked, expected) in [
            (1, 0, 0, 0, false),
            (1, 0, 1, 0, true),
            (2, 0, 1, 0, false),
            (2, 0x100, 0, 0, true),
            (1, 2, 2, 2, false),
        ] {
            let status = format!(
                "Name:\tx\nThreads:\t{threads}\nSigPnd:\t{own:016x}\nShdPnd:\t{shared:016x}\nSigBlk:\t{blocked:016x}\n"
            );
            dir.write("40/status", status);
            assert_eq!(has_signal(dir.path(), 40), expected, "{threads} {own} {shared} {blocked}");
        }
        assert!(has_signal(dir.path(), 41), "it is gone");
        assert!(!has_signal(dir.path(), 0), "it was never seen");
    }
}
