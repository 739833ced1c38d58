//! Programs in the kernel, for as long as a [`Tracer`] lives.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command};

use crate::bpf::{self, MapKind};
use crate::btf::Btf;
use crate::calls;
use crate::event::Event;
use crate::layout::Layout;
use crate::programs::{self, Code, Maps, lost, request, task};
use crate::ring::Ring;

/// The kernel's description of its own types.
const DESCRIPTION: &str = "/sys/kernel/btf/vmlinux";
/// Bytes of the ring: 100,000 events, which the reader takes each few milliseconds.
const RING_SIZE: usize = 8 << 20;
/// Requests that can be under way at once.
const REQUESTS: u32 = 16_384;

/// Why the kernel cannot be asked.
#[derive(Debug)]
pub enum Missing {
    /// It is another processor's than the one we know.
    Processor,
    /// It does not describe its types.
    Description(String),
    /// It refuses, for want of rights.
    Rights(io::Error),
    /// It cannot do something.
    Feature {
        /// Name of it.
        what: &'static str,
        /// Answer of the kernel.
        error: io::Error,
    },
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Missing::Processor => f.write_str("tracing by the kernel works on x86-64 only"),
            Missing::Description(what) => {
                write!(f, "the kernel does not describe its types ({DESCRIPTION}: {what})")
            }
            Missing::Rights(_) => f.write_str(
                "no permission to trace by the kernel: it takes root, or CAP_BPF and CAP_PERFMON (and CAP_SYS_PTRACE for names)",
            ),
            Missing::Feature { what, error } => write!(f, "the kernel has no {what}: {error}"),
        }
    }
}

impl std::error::Error for Missing {}

impl Missing {
    fn of(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::Rights(error),
            _ => Self::Feature { what, error },
        }
    }
}

/// Calls that were not recorded, by the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// The ring was full.
    pub ring_full: u64,
    /// Calls that move data of programs of 32 bits.
    pub foreign: u64,
    /// Requests of libaio in batches that are too long.
    pub batch: u64,
    /// Requests that found no room among those under way.
    pub requests: u64,
}

/// Events of our programs, from when they were attached.
pub struct Events(Ring);

impl Events {
    /// Hands over what has happened since. Returns how many events that were.
    pub fn drain(&mut self, mut take: impl FnMut(&Event<'_>)) -> usize {
        self.0.drain(|bytes| {
            if let Some(event) = Event::decode(bytes) {
                take(&event);
            }
        })
    }
}

/// Our programs in the kernel.
pub struct Tracer {
    maps: Maps,
    /// Each program's place at its tracepoint; closing it takes the program away.
    _links: Vec<OwnedFd>,
    /// Why requests of `io_uring` are not seen, if they are not.
    uring: Result<(), String>,
}

impl Tracer {
    /// Puts programs at the tracepoints of this kernel. They look at nobody until a process is marked.
    pub fn attach() -> Result<(Self, Events), Missing> {
        Self::attach_with_ring(RING_SIZE)
    }

    /// The same with a ring of `size` bytes, a power of two.
    pub fn attach_with_ring(size: usize) -> Result<(Self, Events), Missing> {
        Self::attach_to(&layout(Path::new(DESCRIPTION))?, size)
    }

    fn attach_to(layout: &Layout, ring_size: usize) -> Result<(Self, Events), Missing> {
        let maps = maps(ring_size)?;
        let ring = Ring::open(&maps.ring, ring_size).map_err(Missing::of("ring buffer"))?;
        let program = |what: &'static str, code: Option<Code>, tracepoint: u32| {
            let code = code.ok_or_else(|| Missing::Description(format!("no program for {what}")))?;
            bpf::load(&code, tracepoint).map_err(Missing::of(what))
        };
        let points = &layout.tracepoints;
        let walks = [
            (0, 0, programs::batch_begins(layout, &maps), points.enter),
            (1, 0, programs::batch_refused(layout, &maps), points.exit),
            (1, 1, programs::batch_ends(layout, &maps), points.exit),
        ];
        for (list, place, code, tracepoint) in walks {
            let program = program("program for libaio", code, tracepoint)?;
            let fd = program.as_raw_fd().to_le_bytes();
            bpf::update(&maps.batches[list], place, &fd).map_err(Missing::of("list of programs"))?;
        }
        // Those that note what will end come last: nothing ends that has not begun.
        let standing = [
            ("program where tasks end", programs::end(layout, &maps), points.end),
            ("program where programs begin", programs::exec(layout, &maps), points.exec),
            ("program where tasks begin", programs::new_task(layout, &maps), points.new_task),
            ("program where system calls end", programs::exit(layout, &maps), points.exit),
            ("program where system calls begin", programs::enter(layout, &maps), points.enter),
        ];
        let mut links = Vec::new();
        for (what, code, tracepoint) in standing {
            let program = program(what, code, tracepoint)?;
            links.push(bpf::attach(&program).map_err(Missing::of(what))?);
        }
        let uring = attach_to_uring(layout, &maps, &mut links);
        Ok((Self { maps, _links: links, uring }, Events(ring)))
    }

    /// Marks a process that has one thread: from now on it is seen, and all that it starts.
    pub fn mark(&self, pid: u32) -> io::Result<()> {
        self.mark_thread(pid, true)
    }

    fn mark_thread(&self, tid: u32, is_first: bool) -> io::Result<()> {
        let thread = bpf::process(tid, is_first)?;
        match bpf::add(&self.maps.tasks, thread.as_raw_fd() as u32, &[0; 8 * task::N_NUMBERS as usize]) {
            // Made by one that was marked before.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            result => result,
        }
    }

    /// Marks a process that runs already, with all its threads. Returns them, and how many of them cannot be marked in this kernel. A call that
    /// is under way is not seen.
    pub fn mark_running(&self, pid: u32) -> io::Result<(Vec<u32>, usize)> {
        let (mut threads, mut n_missed) = (Vec::<u32>::new(), 0);
        // Those that a thread makes after it was marked are marked; the others are found by looking again.
        loop {
            let entries = std::fs::read_dir(format!("/proc/{pid}/task"))?;
            let tids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
            let new: Vec<u32> = tids.filter(|tid| !threads.contains(tid)).collect();
            if new.is_empty() {
                return Ok((threads, n_missed));
            }
            for tid in new {
                match self.mark_thread(tid, tid == pid) {
                    Err(error) if tid == pid => return Err(error),
                    // Not gone meanwhile: this kernel has no descriptors of threads.
                    Err(error) if error.raw_os_error() == Some(libc::EINVAL) => n_missed += 1,
                    _ => {}
                }
                threads.push(tid);
            }
        }
    }

    /// Starts a program whose process is marked before it begins.
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        bpf::spawn(command, |pid| self.mark(pid))
    }

    /// Losses so far.
    pub fn lost(&self) -> Lost {
        let counts: [u64; lost::N] = bpf::look_up(&self.maps.lost).unwrap_or_default();
        let of = |place: i16| counts[place as usize / 8];
        Lost {
            ring_full: of(lost::RING_FULL),
            foreign: of(lost::FOREIGN),
            batch: of(lost::BATCH),
            requests: of(lost::REQUESTS),
        }
    }

    /// Whether requests of `io_uring` are seen; if not, why.
    pub fn uring(&self) -> Result<(), &str> {
        self.uring.as_ref().copied().map_err(String::as_str)
    }
}

fn layout(description: &Path) -> Result<Layout, Missing> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Missing::Processor);
    }
    let bytes = std::fs::read(description).map_err(|error| Missing::Description(error.to_string()))?;
    let btf = Btf::parse(bytes).map_err(|error| Missing::Description(error.to_owned()))?;
    Layout::of(&btf).map_err(Missing::Description)
}

fn maps(ring_size: usize) -> Result<Maps, Missing> {
    let map = |what, kind, key, value, n, flags| {
        bpf::make_map(kind, key, value, n, flags).map_err(Missing::of(what))
    };
    let classes = calls::classes();
    let maps = Maps {
        classes: map("map", MapKind::Array, 4, classes.len() as u32, 1, bpf::READ_ONLY_TO_PROGRAMS)?,
        lost: map("map", MapKind::Array, 4, 8 * lost::N as u32, 1, 0)?,
        requests: map("map", MapKind::Hash, request::KEY_SIZE, request::SIZE, REQUESTS, 0)?,
        batches: [
            map("list of programs", MapKind::Programs, 4, 4, 1, 0)?,
            map("list of programs", MapKind::Programs, 4, 4, 2, 0)?,
        ],
        ring: map("ring buffer (5.8 and later)", MapKind::Ring, 0, 0, ring_size as u32, 0)?,
        tasks: bpf::make_map_of_tasks(task::N_NUMBERS)
            .map_err(Missing::of("storage of tasks (5.11 and later)"))?,
    };
    bpf::update(&maps.classes, 0, &classes).map_err(Missing::of("map"))?;
    bpf::freeze(&maps.classes).map_err(Missing::of("map"))?;
    Ok(maps)
}

fn attach_to_uring(layout: &Layout, maps: &Maps, links: &mut Vec<OwnedFd>) -> Result<(), String> {
    let uring = layout.ring.as_ref().map_err(ToString::to_string)?;
    for (code, tracepoint) in [
        (programs::uring_complete(layout, uring, maps), uring.complete),
        (programs::uring_submit(layout, uring, maps), uring.submit),
    ] {
        let code = code.ok_or("no program for it")?;
        let program = bpf::load(&code, tracepoint).map_err(|error| error.to_string())?;
        links.push(bpf::attach(&program).map_err(|error| error.to_string())?);
    }
    Ok(())
}

/// Something that tracing by the kernel takes, and whether this machine has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ability {
    /// It.
    pub what: &'static str,
    /// Why not, if not.
    pub works: Result<(), String>,
    /// Whether nothing works without it.
    pub is_needed: bool,
}

/// Tries out what this machine can do, by doing it.
pub fn check() -> Vec<Ability> {
    let needed = |what, works: Result<(), String>| Ability { what, works, is_needed: true };
    let described = layout(Path::new(DESCRIPTION)).map(drop).map_err(|missing| missing.to_string());
    let mut abilities = vec![needed("description of the kernel's types", described)];
    match Tracer::attach() {
        Ok((tracer, _)) => {
            abilities.push(needed("programs at tracepoints", Ok(())));
            let works = tracer.uring().map_err(str::to_owned);
            abilities.push(Ability { what: "requests of io_uring", works, is_needed: false });
        }
        Err(missing) => abilities.push(needed("programs at tracepoints", Err(missing.to_string()))),
    }
    let works = has_own_numbers();
    abilities.push(Ability { what: "names and ranks of processes", works, is_needed: false });
    abilities
}

/// Whether processes have the same numbers here and in the kernel: `/proc` says nothing of them otherwise.
pub(crate) fn has_own_numbers() -> Result<(), String> {
    /// Inode of the namespace of processes that a machine begins with.
    const FIRST: &str = "pid:[4026531836]";
    match std::fs::read_link("/proc/self/ns/pid") {
        Ok(link) if link.as_os_str() == FIRST => Ok(()),
        Ok(_) => Err("processes have other numbers in this container than in the kernel".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::What;
    use iotide_testkit::{FreshDir, skip};

    /// Kernels before 6.2 have no function that makes a number a pointer: there each field is read by a helper.
    #[test]
    fn without_casts_the_same_is_seen() {
        let Ok(mut layout) = layout(Path::new(DESCRIPTION)) else {
            return skip(iotide_testkit::Missing::Data, "description of the kernel's types");
        };
        let dir = FreshDir::new("kernel-casts");
        let seen = |layout: &Layout| {
            let (tracer, mut events) = match Tracer::attach_to(layout, 1 << 20) {
                Ok(attached) => attached,
                Err(Missing::Rights(_)) => return None,
                Err(missing) => panic!("{missing}"),
            };
            assert_eq!(tracer.uring(), Ok(()));
            let mut command = Command::new("sh");
            command.args(["-c", "printf 1234567 > file; cat file file > copy"]).current_dir(dir.path());
            assert!(tracer.spawn(&mut command).unwrap().wait().unwrap().success());
            let mut seen = Vec::new();
            events.drain(|event| {
                if let What::Ended(ended) = event.what {
                    seen.push((
                        ended.call,
                        ended.result,
                        ended.position,
                        ended.inode,
                        ended.device,
                        ended.fd,
                    ));
                }
            });
            // Those are where memory was free.
            seen.retain(|(call, ..)| *call != 9);
            Some(seen)
        };
        let Some(with) = seen(&layout) else {
            return skip(iotide_testkit::Missing::Data, "rights to trace by the kernel");
        };
        layout.cast = None;
        let without = seen(&layout).unwrap_or_default();
        assert!(with.iter().any(|(call, result, ..)| (*call, *result) == (1, 7)), "{with:?}");
        assert_eq!(with, without);
    }
}
