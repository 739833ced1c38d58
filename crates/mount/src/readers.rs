//! How many threads wait for the kernel's requests: as few as will do, and the same ones again and again.
//!
//! The kernel hands requests to the threads that wait for them in turn. With one for every request that may be served at once, each
//! request of a lone job wakes another thread: one whose memory no cache holds any more, and on another core, since the system sees a
//! caller that wakes many and spreads them. A random read of 4 KiB took up to twice as long with twelve threads as with one.
//!
//! So a thread that is more than needed goes aside, and is called back at once when the last one that waits is about to do something that
//! may take long ([`may_block`]). A small read that the page cache answers is not such a thing: one thread serves those of a caller one after
//! the other. Requests of several callers are served at once.

use std::cell::{Cell, RefCell};
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, INodeNo, IoctlFlags, KernelConfig, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLock, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite,
    ReplyXattr, Request, TimeOrNow, WriteFlags,
};

/// After so many requests in a row for which nobody had to be called, one thread more than needed goes aside. To call it back costs more
/// than a small request.
const LONG: u32 = 64;

/// A read of at most this size may be quick: see [`may_block`].
pub(crate) const QUICK_BYTES: u32 = 16 << 10;

/// A file system whose requests are read by as few threads as will do.
pub(crate) struct FewReaders<F> {
    inner: F,
    readers: Arc<Readers>,
}

impl<F> FewReaders<F> {
    /// To be served by so many threads.
    pub(crate) fn new(inner: F, n_threads: usize) -> Self {
        Self { inner, readers: Arc::new(Readers::new(n_threads)) }
    }
}

/// Says that the calling thread is about to do something that may take long: somebody else is to wait for requests.
///
/// To be called by whoever serves a small read, before it waits for the backing file system. Every other request says so by itself.
pub(crate) fn may_block() {
    SERVED.with_borrow(|served| {
        if let Some(Ending(readers)) = served
            && !IS_AWAY.replace(true)
        {
            readers.leave();
        }
    });
}

/// Each of these takes the thread away from those that wait, and brings it back. One that were missing here would be one that the file
/// system does not have.
macro_rules! attended {
    ($(fn $name:ident($($arg:ident: $ty:ty),*);)*) => {
        $(fn $name(&self, $($arg: $ty),*) {
            self.readers.attend(|| {
                may_block();
                self.inner.$name($($arg),*);
            });
        })*
    };
}

#[rustfmt::skip] // a list
impl<F: Filesystem> Filesystem for FewReaders<F> {
    fn init(&mut self, request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        self.inner.init(request, config)
    }

    fn destroy(&mut self) {
        self.inner.destroy();
    }

    // Comes in heaps, waits for nothing, and is not answered.
    fn forget(&self, request: &Request, number: INodeNo, n_lookups: u64) {
        self.inner.forget(request, number, n_lookups);
    }

    fn read(&self, request: &Request, number: INodeNo, handle: FileHandle, offset: u64, size: u32, flags: OpenFlags, lock_owner: Option<LockOwner>, reply: ReplyData) {
        self.readers.attend(|| {
            if size > QUICK_BYTES || !self.readers.is_same_caller(request.pid()) {
                may_block();
            }
            self.inner.read(request, number, handle, offset, size, flags, lock_owner, reply);
        });
    }

    attended! {
        fn lookup(request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry);
        fn getattr(request: &Request, number: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr);
        fn setattr(request: &Request, number: INodeNo, mode: Option<u32>, uid: Option<u32>, gid: Option<u32>, size: Option<u64>, atime: Option<TimeOrNow>, mtime: Option<TimeOrNow>, ctime: Option<SystemTime>, handle: Option<FileHandle>, crtime: Option<SystemTime>, chgtime: Option<SystemTime>, bkuptime: Option<SystemTime>, flags: Option<BsdFileFlags>, reply: ReplyAttr);
        fn readlink(request: &Request, number: INodeNo, reply: ReplyData);
        fn mknod(request: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, rdev: u32, reply: ReplyEntry);
        fn mkdir(request: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry);
        fn unlink(request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty);
        fn rmdir(request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty);
        fn symlink(request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry);
        fn rename(request: &Request, parent: INodeNo, name: &OsStr, new_parent: INodeNo, new_name: &OsStr, flags: RenameFlags, reply: ReplyEmpty);
        fn link(request: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry);
        fn open(request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen);
        fn write(request: &Request, number: INodeNo, handle: FileHandle, offset: u64, data: &[u8], write_flags: WriteFlags, flags: OpenFlags, lock_owner: Option<LockOwner>, reply: ReplyWrite);
        fn flush(request: &Request, number: INodeNo, handle: FileHandle, lock_owner: LockOwner, reply: ReplyEmpty);
        fn release(request: &Request, number: INodeNo, handle: FileHandle, flags: OpenFlags, lock_owner: Option<LockOwner>, flush: bool, reply: ReplyEmpty);
        fn fsync(request: &Request, number: INodeNo, handle: FileHandle, datasync: bool, reply: ReplyEmpty);
        fn opendir(request: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen);
        fn readdir(request: &Request, number: INodeNo, handle: FileHandle, offset: u64, reply: ReplyDirectory);
        fn readdirplus(request: &Request, number: INodeNo, handle: FileHandle, offset: u64, reply: ReplyDirectoryPlus);
        fn releasedir(request: &Request, number: INodeNo, handle: FileHandle, flags: OpenFlags, reply: ReplyEmpty);
        fn fsyncdir(request: &Request, number: INodeNo, handle: FileHandle, datasync: bool, reply: ReplyEmpty);
        fn statfs(request: &Request, number: INodeNo, reply: ReplyStatfs);
        fn setxattr(request: &Request, number: INodeNo, name: &OsStr, value: &[u8], flags: i32, position: u32, reply: ReplyEmpty);
        fn getxattr(request: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr);
        fn listxattr(request: &Request, number: INodeNo, size: u32, reply: ReplyXattr);
        fn removexattr(request: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty);
        fn create(request: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, flags: i32, reply: ReplyCreate);
        fn getlk(request: &Request, number: INodeNo, handle: FileHandle, lock_owner: LockOwner, start: u64, end: u64, kind: i32, process: u32, reply: ReplyLock);
        fn setlk(request: &Request, number: INodeNo, handle: FileHandle, lock_owner: LockOwner, start: u64, end: u64, kind: i32, process: u32, sleep: bool, reply: ReplyEmpty);
        fn ioctl(request: &Request, number: INodeNo, handle: FileHandle, flags: IoctlFlags, command: u32, in_data: &[u8], out_size: u32, reply: ReplyIoctl);
        fn fallocate(request: &Request, number: INodeNo, handle: FileHandle, offset: u64, length: u64, mode: i32, reply: ReplyEmpty);
        fn lseek(request: &Request, number: INodeNo, handle: FileHandle, offset: i64, whence: i32, reply: ReplyLseek);
        fn copy_file_range(request: &Request, number_in: INodeNo, handle_in: FileHandle, offset_in: u64, number_out: INodeNo, handle_out: FileHandle, offset_out: u64, n_bytes: u64, flags: CopyFileRangeFlags, reply: ReplyWrite);
    }
}

/// Threads that wait for requests, and those that are aside.
struct Readers {
    /// How many wait, how many have never served and how many are aside: [`Counts`] in one word, so that none of them is out of date.
    counts: AtomicU64,
    /// Requests since somebody was called, or went aside.
    n_calm: AtomicU32,
    /// Whose request was the last small read.
    caller: AtomicU32,
    aside: Mutex<Aside>,
    called: Condvar,
}

#[derive(Default)]
struct Aside {
    /// So many are called back.
    n_called: u64,
    /// A thread has ended: there are no more requests, and the others are to see for themselves.
    is_over: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    /// Those that wait for a request, or will in a moment.
    n_waiting: u64,
    /// Of those, how many have not served anything yet.
    n_new: u64,
    n_aside: u64,
}

impl Counts {
    const BITS: u32 = 20;

    fn of(word: u64) -> Self {
        let mask = (1 << Self::BITS) - 1;
        Self { n_waiting: word & mask, n_new: (word >> Self::BITS) & mask, n_aside: word >> (2 * Self::BITS) }
    }

    fn word(self) -> u64 {
        self.n_waiting | self.n_new << Self::BITS | self.n_aside << (2 * Self::BITS)
    }
}

thread_local! {
    /// Set in a thread that has served. When it ends, the mount has.
    static SERVED: RefCell<Option<Ending>> = const { RefCell::new(None) };
    /// Whether the thread is not counted among those that wait.
    static IS_AWAY: Cell<bool> = const { Cell::new(false) };
}

struct Ending(Arc<Readers>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.called.notify_all();
    }
}

impl Readers {
    fn new(n_threads: usize) -> Self {
        let n_threads = (n_threads as u64).min((1 << Counts::BITS) - 1);
        let counts = Counts { n_waiting: n_threads, n_new: n_threads, n_aside: 0 };
        Self {
            counts: AtomicU64::new(counts.word()),
            n_calm: AtomicU32::new(0),
            caller: AtomicU32::new(0),
            aside: Mutex::default(),
            called: Condvar::new(),
        }
    }

    fn is_same_caller(&self, thread: u32) -> bool {
        self.caller.swap(thread, Ordering::Relaxed) == thread
    }

    /// Serves a request that this thread has read, and returns when it is to wait for the next.
    fn attend(self: &Arc<Self>, serve: impl FnOnce()) {
        SERVED.with_borrow_mut(|served| {
            served.get_or_insert_with(|| {
                self.update(|counts| counts.n_new = counts.n_new.saturating_sub(1));
                Ending(Arc::clone(self))
            });
        });
        IS_AWAY.set(false);
        serve();
        if !self.comes_back(IS_AWAY.get()) {
            self.wait_to_be_called();
        }
    }

    /// One less waits. If it was the last, another is called back.
    fn leave(&self) {
        let mut calls = false;
        self.update(|counts| {
            counts.n_waiting = counts.n_waiting.saturating_sub(1);
            calls = counts.n_waiting == 0 && counts.n_aside > 0;
            if calls {
                counts.n_waiting += 1;
                counts.n_aside -= 1;
            }
        });
        if calls {
            self.n_calm.store(0, Ordering::Relaxed);
            self.lock().n_called += 1;
            self.called.notify_one();
        }
    }

    /// Whether this thread is to wait for requests; otherwise it is aside. One that has served waits at any time, unless all are busy:
    /// only such a one says when the mount ends.
    fn comes_back(&self, was_away: bool) -> bool {
        let is_calm = self.n_calm.fetch_add(1, Ordering::Relaxed) >= LONG;
        if !was_away && !is_calm {
            return true;
        }
        let mut waits = true;
        self.update(|counts| {
            let n_others = counts.n_waiting.saturating_sub(u64::from(!was_away));
            waits = !is_calm || n_others <= counts.n_new;
            counts.n_waiting = n_others + u64::from(waits);
            counts.n_aside += u64::from(!waits);
        });
        if !waits {
            self.n_calm.store(0, Ordering::Relaxed);
        }
        waits
    }

    fn update(&self, mut change: impl FnMut(&mut Counts)) {
        let _ = self.counts.fetch_update(Ordering::AcqRel, Ordering::Acquire, |word| {
            let mut counts = Counts::of(word);
            change(&mut counts);
            Some(counts.word())
        });
    }

    fn wait_to_be_called(&self) {
        let mut aside = self.lock();
        while aside.n_called == 0 && !aside.is_over {
            aside = self.called.wait(aside).unwrap_or_else(PoisonError::into_inner);
        }
        aside.n_called = aside.n_called.saturating_sub(1);
    }

    fn lock(&self) -> MutexGuard<'_, Aside> {
        self.aside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::sync::Barrier;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread::{self, JoinHandle};

    type Request = Box<dyn FnOnce() + Send>;

    /// A kernel: hands its requests to the threads that wait for them in turn, until there are no more.
    struct Kernel {
        device: Arc<Mutex<Device>>,
        readers: Arc<Readers>,
        threads: Vec<JoinHandle<usize>>,
    }

    #[derive(Default)]
    struct Device {
        waiting: VecDeque<Sender<Request>>,
        requests: VecDeque<Request>,
        is_over: bool,
    }

    impl Device {
        /// The next request, or where it will come.
        fn take(&mut self) -> Result<Request, Receiver<Request>> {
            self.requests.pop_front().ok_or_else(|| {
                let (sender, comes) = channel();
                if !self.is_over {
                    self.waiting.push_back(sender);
                }
                comes
            })
        }
    }

    impl Kernel {
        fn with_threads(n_threads: usize) -> Self {
            let device = Arc::new(Mutex::new(Device::default()));
            let readers = Arc::new(Readers::new(n_threads));
            let thread = |_| {
                let (device, readers) = (Arc::clone(&device), Arc::clone(&readers));
                thread::spawn(move || {
                    let mut n_served = 0;
                    loop {
                        let taken = device.lock().unwrap().take();
                        let Ok(request) = taken.or_else(|comes| comes.recv()) else { return n_served };
                        n_served += 1;
                        readers.attend(request);
                    }
                })
            };
            let threads = (0..n_threads).map(thread).collect();
            while device.lock().unwrap().waiting.len() < n_threads {
                thread::yield_now();
            }
            Self { device, readers, threads }
        }

        fn serve(&self, request: impl FnOnce() + Send + 'static) {
            let mut device = self.device.lock().unwrap();
            match device.waiting.pop_front() {
                Some(thread) => thread.send(Box::new(request)).unwrap(),
                None => device.requests.push_back(Box::new(request)),
            }
        }

        /// Returns how many requests each thread has served; none of them stays behind.
        fn end(self) -> Vec<usize> {
            let mut device = self.device.lock().unwrap();
            device.is_over = true;
            device.waiting.clear();
            drop(device);
            self.threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        }
    }

    fn is_all_back(kernel: &Kernel) -> bool {
        let counts = Counts::of(kernel.readers.counts.load(Ordering::Acquire));
        counts.n_waiting + counts.n_aside == kernel.threads.len() as u64
    }

    /// Serves requests one at a time, each when all is quiet.
    fn serve_one_by_one(kernel: &Kernel, n_requests: u32, is_quick: bool) {
        for _ in 0..n_requests {
            let (done, is_done) = channel();
            kernel.serve(move || {
                if !is_quick {
                    may_block();
                }
                done.send(()).unwrap();
            });
            is_done.recv().unwrap();
            // The answer is there before the thread is back.
            while !is_all_back(kernel) {
                thread::yield_now();
            }
        }
    }

    #[test]
    fn requests_one_at_a_time_are_served_by_one_or_two() {
        for (is_quick, few) in [(true, 1), (false, 2)] {
            let kernel = Kernel::with_threads(12);
            serve_one_by_one(&kernel, 20 * (LONG + 1), is_quick);
            let counts = Counts::of(kernel.readers.counts.load(Ordering::Acquire));
            assert!((1..=few).contains(&counts.n_waiting), "{counts:?}");
            assert_eq!(kernel.end().iter().sum::<usize>(), 20 * (LONG as usize + 1));
        }
    }

    #[test]
    fn requests_that_take_long_keep_nobody_else_waiting_while_a_thread_is_left() {
        let kernel = Kernel::with_threads(12);
        serve_one_by_one(&kernel, 20 * LONG, true);
        // Eleven that wait for each other and for one more.
        let all = Arc::new(Barrier::new(12));
        for _ in 0..11 {
            let all = Arc::clone(&all);
            kernel.serve(move || {
                may_block();
                all.wait();
            });
        }
        for _ in 0..100 {
            let (done, is_done) = channel();
            kernel.serve(move || {
                may_block();
                done.send(()).unwrap();
            });
            is_done.recv().unwrap();
        }
        all.wait();
        serve_one_by_one(&kernel, 1, false);
        assert!(kernel.end().iter().all(|n| *n > 0));
    }

    #[test]
    fn those_aside_see_the_end_also_if_the_others_have_never_served() {
        for n_requests in (0..20).map(|step| step * LONG / 2) {
            let kernel = Kernel::with_threads(6);
            serve_one_by_one(&kernel, n_requests, n_requests % 3 == 0);
            assert_eq!(kernel.end().iter().sum::<usize>(), n_requests as usize);
        }
    }

    #[test]
    fn requests_of_one_caller_are_told_from_those_of_several() {
        let readers = Readers::new(1);
        let callers = [7, 7, 8, 7, 7].map(|caller| readers.is_same_caller(caller));
        assert_eq!(callers, [false, true, false, false, true]);
    }
}
