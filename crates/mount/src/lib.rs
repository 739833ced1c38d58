//! A pass-through file system, and nothing else: who is served when, says the gate.
//!
//! ```text
//!  job's process ─▶ kernel ─▶ /dev/fuse ─▶ passthrough ─┬─ metadata, fsync ─────────────────────▶ backing directory
//!                                              │        └─ data ─▶ gate::Scheduler ───────────────▶
//!                                           readers                  ▲  asks arbiters elsewhere first, if told so (`arbiters`);
//!                                                                    └─ and may be asked by programs past the mount (`listen`)
//! ```
//!
//! Guarantees:
//! - Nothing is kept here: a write that was answered is with the backing file system, an fsync that was answered with its
//!   device. Killing this program loses nothing that a job was told is safe.
//! - Requests that wait for their turn hold no thread, so they never keep another job's metadata waiting.
//! - The kernel checks permissions, with the caller's own groups; new files belong to who made them, and are made with their groups.
//!
//! Start reading at [`mount`], then `passthrough`.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use fuser::{BackgroundSession, Config as SessionConfig, MountOption, Session, SessionACL};
use iotide_gate::{
    Arbiter, ArbiterConfig, Arbiters, Crew, Gate, GateError, JobStatus, Shares, Signals, Storage, Turns,
    raise_open_files,
};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::umask;

use crate::backing::Backing;
use crate::nodes::Nodes;
use crate::passthrough::PassThrough;
use crate::privilege::Privilege;
use crate::readers::FewReaders;

mod attributes;
mod backing;
mod groups;
mod locks;
mod nodes;
mod passthrough;
mod privilege;
mod readers;

/// So many requests may wait for something that users do (leases, locks, slow syncs) at once.
const MAY_WAIT: usize = 64;

/// Directories of a mount, and how requests are served.
#[derive(Clone, Debug)]
pub struct MountConfig {
    /// The directory that is shown.
    pub backing: PathBuf,
    /// Where it is shown. May be the backing directory itself: paths then stay as they were.
    pub mountpoint: PathBuf,
    /// Who is served when.
    pub turns: Turns,
    /// Requests of at most this size are never held up.
    pub bypass_bytes: u64,
    /// Pretend that the backing file system is no faster than this, in bytes per second.
    pub bandwidth_bps: Option<f64>,
    /// Pretend that it has so many targets of that bandwidth, with stripes of 1 MiB.
    pub n_targets: usize,
    /// For how long the kernel may believe what it was told about names and attributes. What changes through the mount is
    /// seen at once in any case; this is about what others change behind it.
    pub trust: Duration,
    /// Arbiters that are asked before requests are served.
    pub arbiters: Option<Arbiters>,
    /// Where programs ask for turns in the same queue, by which their data come past the mount.
    pub listen: Option<ArbiterConfig>,
}

impl MountConfig {
    /// Returns what is done unless told otherwise.
    pub fn new(backing: impl Into<PathBuf>, mountpoint: impl Into<PathBuf>, turns: Turns) -> Self {
        Self {
            backing: backing.into(),
            mountpoint: mountpoint.into(),
            turns,
            bypass_bytes: 16 << 10,
            bandwidth_bps: None,
            n_targets: 1,
            trust: Duration::from_secs(1),
            arbiters: None,
            listen: None,
        }
    }
}

/// Why nothing was mounted, or could not be unmounted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// The backing directory cannot be opened.
    #[error("cannot open {path}: {cause}")]
    Backing {
        /// The directory.
        path: PathBuf,
        /// Error of the system.
        cause: io::Error,
    },
    /// The mount point cannot be used.
    #[error("cannot mount on {path}: {cause}")]
    Mountpoint {
        /// The directory.
        path: PathBuf,
        /// Error of the system.
        cause: io::Error,
    },
    /// A mount whose program has ended is in the way.
    #[error("{path} is a mount whose program has ended")]
    Stale {
        /// The mount point.
        path: PathBuf,
    },
    /// The mount would show itself.
    #[error("{mountpoint} lies inside {backing}, so the mount would hold itself")]
    Inside {
        /// The backing directory.
        backing: PathBuf,
        /// The mount point.
        mountpoint: PathBuf,
    },
    /// There is no FUSE here.
    #[error("there is no /dev/fuse")]
    NoFuse,
    /// The system refused.
    #[error("cannot mount on {path}: {cause}")]
    Refused {
        /// The mount point.
        path: PathBuf,
        /// Error of the attempt to mount.
        cause: io::Error,
    },
    /// Requests cannot be scheduled.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// The session ended with an error.
    #[error("the mount ended: {0}")]
    Ended(io::Error),
}

/// A mount that is being served.
#[derive(Debug)]
pub struct Mounted {
    mountpoint: PathBuf,
    has_cleared: bool,
    events: Receiver<Event>,
    // Ends before the gate does.
    arbiter: Option<Arbiter>,
    gate: Gate,
}

/// Event that a mount waits for while it is served.
#[derive(Debug)]
enum Event {
    Signal,
    Ended(io::Result<()>),
}

/// Shows the backing directory on the mount point, and returns as soon as it is there.
///
/// Takes over SIGINT, SIGTERM and SIGHUP, the umask and the limit on open files of this process: it is to be called by a
/// program that does nothing else, before it starts threads.
pub fn mount(config: &MountConfig) -> Result<Mounted, MountError> {
    let has_cleared = clear(&config.mountpoint);
    let (root, backing, mountpoint) = open(config)?;
    let signals = Signals::block();
    let n_descriptors = raise_open_files();

    // A mount without root serves one user.
    let shares =
        if Privilege::of_this_process().may_serve_others() { Shares::among_users } else { Shares::for_one };
    let crew = Crew::with_places(config.turns.n_workers + 8 + MAY_WAIT, shares(MAY_WAIT));
    let MountConfig { bypass_bytes, bandwidth_bps, n_targets, .. } = *config;
    let storage = Storage { bypass_bytes, bandwidth_bps, n_targets };
    let gate = Gate::open(&config.turns, storage, crew.clone())?;
    if let Some(arbiters) = &config.arbiters {
        gate.scheduler().ask_first(arbiters.clone()).map_err(GateError::Thread)?;
    }
    let arbiter =
        (config.listen.as_ref()).map(|listen| Arbiter::before(gate.scheduler(), listen)).transpose()?;
    let refused = |cause| MountError::Refused { path: config.mountpoint.clone(), cause };
    // Half of the descriptors name files, a few are sockets and the like, the others are what callers have open.
    let open_files = shares((n_descriptors / 2).saturating_sub(256).max(16));
    let nodes = Nodes::new(root, backing, n_descriptors / 2).map_err(|error| refused(error.into()))?;
    let file_system = PassThrough::new(nodes, open_files, gate.scheduler().clone(), crew, config.trust)
        .map_err(|error| refused(error.into()))?;
    let file_system = FewReaders::new(file_system, n_readers(config));
    // Modes come from callers, with their umask. Not before the socket is there, which is not for everyone.
    umask(Mode::empty());
    let session = Session::new(file_system, &mountpoint, &session_config(config)).and_then(Session::spawn);
    let session = session.map_err(|source| match Path::new("/dev/fuse").exists() {
        true => refused(source),
        false => MountError::NoFuse,
    })?;

    let (sender, events) = channel();
    watch(session, signals, sender).map_err(refused)?;
    Ok(Mounted { mountpoint, has_cleared, events, arbiter, gate })
}

impl Mounted {
    /// Serves until the directory is unmounted, by someone else or because a signal asks for it.
    ///
    /// If files are still open when the signal comes, the mount is taken out of the tree and goes on to serve them until
    /// they are closed; a second signal ends that.
    pub fn serve(self) -> Result<(), MountError> {
        let mut n_signals = 0;
        loop {
            match self.events.recv() {
                Ok(Event::Ended(result)) => return result.map_err(MountError::Ended),
                Err(_) => return Ok(()),
                Ok(Event::Signal) if n_signals > 0 => return Ok(()),
                Ok(Event::Signal) => {
                    n_signals += 1;
                    take_down(&self.mountpoint).map_err(MountError::Ended)?;
                }
            }
        }
    }

    /// Whether what was left of an earlier mount, whose program had ended, was taken away first.
    pub fn has_cleared(&self) -> bool {
        self.has_cleared
    }

    /// Where programs ask for turns in the same queue.
    pub fn arbiter(&self) -> Option<&Arbiter> {
        self.arbiter.as_ref()
    }

    /// Returns the jobs that were seen of late.
    pub fn jobs(&self) -> Vec<JobStatus> {
        self.gate.jobs()
    }
}

/// Takes away mounts of ours on `mountpoint` whose program has ended, as after a crash; nobody can be using them. Whatever
/// else is in the way is left for [`open`] to explain.
fn clear(mountpoint: &Path) -> bool {
    let mut has_cleared = false;
    // One may lie on the other.
    while let Some(left_over) = left_over(mountpoint) {
        if take_down(&left_over).is_err() {
            break;
        }
        has_cleared = true;
    }
    has_cleared
}

/// Returns where a mount of ours that nobody serves is in the tree.
fn left_over(mountpoint: &Path) -> Option<PathBuf> {
    if !is_dead(mountpoint) {
        return None;
    }
    // The mount cannot be asked where it is, but what it is in can.
    let absolute = std::path::absolute(mountpoint).ok()?;
    let path = absolute.parent()?.canonicalize().ok()?.join(absolute.file_name()?);
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    is_ours(&mounts, &path).then_some(path)
}

/// Whether nobody serves what is mounted on a path. Of all questions this is one that the kernel never answers from memory.
fn is_dead(path: &Path) -> bool {
    matches!(rustix::fs::statvfs(path), Err(rustix::io::Errno::NOTCONN))
}

/// Whether the last thing mounted on a path, in a table of mounts, is of our kind.
fn is_ours(mounts: &str, path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    // Where blanks are between fields, those in names are written by their number.
    let mut written = Vec::new();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => written.extend(format!("\\{byte:03o}").into_bytes()),
            other => written.push(other),
        }
    }
    let mut here = mounts.lines().filter_map(|line| {
        let (source, rest) = line.split_once(' ')?;
        (rest.split(' ').next()?.as_bytes() == written).then_some(source)
    });
    here.next_back().is_some_and(|source| source.split(':').next() == Some(SOURCE))
}

/// Source of our mounts in the table of mounts: `iotide:/lustre/scratch`. As root, fuser does not set the kind.
const SOURCE: &str = "iotide";

/// Checks that the two directories go together, and opens the backing one before the mount can hide it.
fn open(config: &MountConfig) -> Result<(OwnedFd, Option<Backing>, PathBuf), MountError> {
    let backing_error = |cause| MountError::Backing { path: config.backing.clone(), cause };
    let mountpoint_error = |cause| MountError::Mountpoint { path: config.mountpoint.clone(), cause };
    if is_dead(&config.mountpoint) {
        return Err(MountError::Stale { path: config.mountpoint.clone() });
    }
    let mountpoint = config.mountpoint.canonicalize().map_err(mountpoint_error)?;
    if !mountpoint.metadata().map_err(mountpoint_error)?.is_dir() {
        return Err(mountpoint_error(io::ErrorKind::NotADirectory.into()));
    }
    let backing = config.backing.canonicalize().map_err(backing_error)?;
    if mountpoint != backing && mountpoint.starts_with(&backing) {
        return Err(MountError::Inside { backing, mountpoint });
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, &backing, flags, Mode::empty()).map_err(|error| backing_error(error.into()))?;
    let by_path = Backing::of(&root, &backing, &mountpoint);
    Ok((root, by_path, mountpoint))
}

/// How many threads read the kernel's requests. Each request that is let through may occupy one; the others are for metadata.
fn n_readers(config: &MountConfig) -> usize {
    config.turns.n_workers + 4
}

fn session_config(config: &MountConfig) -> SessionConfig {
    let is_root = rustix::process::geteuid().is_root();
    // Others who read the table of mounts are in other directories.
    let source = std::path::absolute(&config.backing).unwrap_or_else(|_| config.backing.clone());
    let source = source.to_string_lossy().into_owned();
    let mut session = SessionConfig::default();
    session.mount_options = vec![
        // The kernel splits options at commas.
        MountOption::FSName(if source.contains(',') {
            SOURCE.to_owned()
        } else {
            format!("{SOURCE}:{source}")
        }),
        MountOption::Subtype("iotide".to_owned()),
        MountOption::DefaultPermissions,
        MountOption::NoSuid,
        MountOption::NoDev,
    ];
    session.acl = if is_root { SessionACL::All } else { SessionACL::Owner };
    session.n_threads = Some(n_readers(config));
    session.clone_fd = true;
    session
}

/// Sends what happens to whoever serves the mount.
fn watch(session: BackgroundSession, signals: Option<Signals>, sender: Sender<Event>) -> io::Result<()> {
    if let Some(signals) = signals {
        let sender = sender.clone();
        thread::Builder::new().name("iotide-signals".to_owned()).spawn(move || {
            while signals.wait() {
                if sender.send(Event::Signal).is_err() {
                    return;
                }
            }
        })?;
    }
    thread::Builder::new().name("iotide-session".to_owned()).spawn(move || {
        let ended = session.join();
        let _ = sender.send(Event::Ended(ended));
    })?;
    Ok(())
}

/// Takes the mount out of the tree of directories.
fn take_down(mountpoint: &Path) -> io::Result<()> {
    match unmount(mountpoint, UnmountFlags::empty()) {
        Ok(()) => return Ok(()),
        // Not there any more: someone else was faster.
        Err(rustix::io::Errno::INVAL) => return Ok(()),
        Err(rustix::io::Errno::PERM) => {}
        Err(_) => return unmount(mountpoint, UnmountFlags::DETACH).map_err(io::Error::from),
    }
    // Without root only fusermount3 may.
    for lazily in [None, Some("-z")] {
        let mut command = std::process::Command::new("fusermount3");
        let status = command.args(["-u", "-q"]).args(lazily).arg("--").arg(mountpoint).status()?;
        if status.success() {
            return Ok(());
        }
    }
    Err(io::Error::other("fusermount3 could not unmount it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_of_ours_is_told_from_others_in_the_same_place() {
        let mounts = "/dev/vda / ext4 rw 0 0\n\
                      iotide:/backing /scratch fuse rw 0 0\n\
                      iotide /my\\040files fuse.iotide rw 0 0\n\
                      iotide:/backing /covered fuse rw 0 0\n\
                      /backing /covered fuse rw 0 0\n";
        let is_ours = |path: &str| is_ours(mounts, Path::new(path));
        assert!(is_ours("/scratch"));
        assert!(is_ours("/my files"));
        assert!(!is_ours("/covered"));
        assert!(!is_ours("/"));
        assert!(!is_ours("/elsewhere"));
    }
}
