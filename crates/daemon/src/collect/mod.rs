//! From the files of counter pages to the input of the machine.
//!
//! Everything in the directory of pages is somebody else's: it is opened past no link and waited for by nobody, its owner is asked of the
//! open file, and its contents are believed within bounds. The directory lies in memory; nothing else is asked here.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::{Duration, Instant};

use iotide_ledger::{
    About, Cell, Counters, JobId, Losses, Metric, Name, Parameters, Refusal, Trust, app_id, hex, is_rank,
};
use iotide_private::{OpenDir, Share, Shares};
use iotide_wire::page::{
    self, Counters as PageCounters, EXTENSION, HEADER_SIZE, LANE_SIZE, MAX_LANES, PageHeader, PageState,
    PageText,
};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::leaf::{Claim, Earlier, Leaf, PageId, Process};
use crate::memory;
pub use cgroups::{Cgroups, GroupJob, ReportedGroups};
pub use node::{NodeFiles, NodeReading};
pub use proc::Proc;
pub use proc::{user_name, user_number};

mod cgroups;
mod clients;
mod node;
mod proc;
mod scheduled;
mod servers;

/// A file that is not a whole page yet is looked at again for this many scans; then it is none.
const TRIES: u32 = 100;
/// Files of one user that are no pages, or wait for room; more are not looked at.
const STRANGERS_OF_USER: usize = 1024;
/// Looking for new files takes no more than one part in this many of the time, however many there are.
const SCAN_PART: u32 = 20;
/// How often pages are read. Looking for new files does not rest for less.
pub const ROUND: Duration = Duration::from_millis(100);
/// Nor does it rest for longer than this.
const LONGEST_REST: Duration = Duration::from_secs(5);
/// Lanes that are read in one round, shared by the users that have pages.
const LANES_A_ROUND: usize = 4096;
/// Of these, what a user may have however many users there are.
const LANES_OF_USER: usize = 128;
/// How many rounds lie between two looks at the room there is.
const FULL_ROUNDS: u64 = 10;
/// How often pages are tried again for which there was no room.
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// Rounds in which a page was not changed before it is read less often.
const IDLE_ROUNDS: u32 = 20;
/// Readings without a change after which a process that cannot be seen is taken for gone: an hour.
const LONG_IDLE: u32 = IDLE_ROUNDS + 3600;
/// No job has more ranks, whatever it says.
const MOST_RANKS: u32 = 1 << 24;
/// How much less often.
const IDLE_STRIDE: u64 = 10;

/// The directory of pages, and what is read in it.
#[derive(Debug)]
pub struct Collector {
    folder: OpenDir,
    proc: Proc,
    namespace: Option<u64>,
    pages: HashMap<OsString, Watched>,
    inodes: HashSet<u64>,
    /// By process: when the last of its programs that has a page began.
    newest: HashMap<u32, u64>,
    /// Pages that are counted, and could not be removed when the daemon was started.
    counted: HashSet<PageId>,
    /// Files that are no pages, or not yet.
    strangers: HashMap<OsString, Stranger>,
    /// Whether there was no room for another page when that was last asked.
    is_full: bool,
    /// Places of pages that are open: each takes two descriptors, one of the file and one of the process.
    descriptors: Shares,
    /// Who has processes in which name space of processes, as of a round.
    owners: Option<(u64, HashSet<(u64, u32)>)>,
    /// Whether files are tried again for which there was no room, and when that was done last.
    is_time_to_try: bool,
    tried: Option<Instant>,
    /// When new files are next looked for.
    rests_until: Option<Instant>,
    /// When the directory was last changed, as far as it was read.
    scanned: Option<(i64, i64)>,
    rounds: u64,
    buffer: Vec<u8>,
    counters: Box<PageCounters>,
}

/// A file that is not taken in.
#[derive(Debug)]
struct Stranger {
    inode: u64,
    uid: u32,
    tries: u32,
    /// A page for which there is no room; it is tried again as long as it is there.
    waits_for: Option<Refusal>,
}

/// Users of the directory, as one look at it finds them.
#[derive(Debug, Default)]
struct Users {
    strangers: HashMap<u32, usize>,
    /// Users for whose pages there is no room now.
    refused: HashSet<u32>,
    /// Files that are not looked at.
    n_ignored: u64,
}

impl Users {
    fn of(strangers: &HashMap<OsString, Stranger>) -> Self {
        let mut users = Self::default();
        strangers.values().for_each(|stranger| *users.strangers.entry(stranger.uid).or_default() += 1);
        users
    }

    /// Whether another file of a user is looked at.
    fn takes(&mut self, uid: u32) -> bool {
        let own = self.strangers.entry(uid).or_default();
        let takes = *own < STRANGERS_OF_USER || uid == 0;
        *own += usize::from(takes);
        self.n_ignored += u64::from(!takes);
        takes
    }
}

#[derive(Debug)]
struct Watched {
    id: PageId,
    uid: u32,
    inode: u64,
    file: File,
    /// The place of its descriptors.
    _place: Share,
    /// As it is numbered here.
    pid: Option<u32>,
    life: Watch,
    n_lanes: usize,
    digest: u64,
    n_idle: u32,
    is_gone: bool,
}

/// How the end of a process is noticed.
#[derive(Debug)]
enum Watch {
    /// By a descriptor that becomes readable when it ends.
    Pidfd(OwnedFd),
    /// By asking again, for kernels without.
    Asked { pid: u32, start_ticks: u64 },
    /// By what it says itself, and by long silence: it runs where it cannot be seen from here.
    Unseen,
    /// It is gone.
    Gone,
}

impl Collector {
    /// Reads the pages in a directory, as many at once as there are descriptors for.
    pub fn new(folder: OpenDir, proc: Proc, descriptors: Shares) -> Self {
        Self {
            folder,
            namespace: proc.own_namespace(),
            proc,
            pages: HashMap::new(),
            inodes: HashSet::new(),
            newest: HashMap::new(),
            counted: HashSet::new(),
            strangers: HashMap::new(),
            is_full: false,
            descriptors,
            owners: None,
            is_time_to_try: false,
            tried: None,
            rests_until: None,
            scanned: None,
            rounds: 0,
            buffer: Vec::new(),
            counters: Box::new(PageCounters::ZERO),
        }
    }

    /// Looks for new pages, and reads those that are known.
    pub fn round(
        &mut self,
        now_ns: u64,
        leaf: &mut Leaf,
        earlier: &mut dyn FnMut(&Name, u32, &JobId) -> Earlier,
    ) {
        self.rounds += 1;
        self.note_full(leaf);
        self.scan(now_ns, leaf, earlier);
        let strides = self.strides();
        let mut pages = std::mem::take(&mut self.pages);
        for (index, page) in pages.values_mut().filter(|page| !page.is_gone).enumerate() {
            // Before it is read: what it counted until its end is in there then.
            let is_gone = self.is_gone(&page.life, index as u64);
            let stride = strides.get(&page.uid).copied().unwrap_or(1);
            let stride = if page.n_idle >= IDLE_ROUNDS { stride * IDLE_STRIDE } else { stride };
            if is_gone || (self.rounds + index as u64).is_multiple_of(stride) {
                self.read(now_ns, page, is_gone, leaf);
            }
        }
        self.pages = pages;
    }

    /// Counts it as a loss when there is no more room for a page: programs that begin then have none.
    fn note_full(&mut self, leaf: &mut Leaf) {
        if !self.rounds.is_multiple_of(FULL_ROUNDS) {
            return;
        }
        let Ok(stat) = rustix::fs::fstatvfs(self.folder.fd()) else { return };
        let n_free = stat.f_bavail.saturating_mul(stat.f_frsize);
        // A file system without a number of files has no limit to it.
        let is_full = n_free < page::LEAST_ROOM as u64 || stat.f_files > 0 && stat.f_favail == 0;
        if is_full && !self.is_full {
            leaf.refuse(Refusal::Full, 1);
        }
        self.is_full = is_full;
    }

    /// In which rounds pages are read, by user: in every second only, or in every third, if they have more lanes than their share.
    fn strides(&self) -> HashMap<u32, u64> {
        let mut lanes: HashMap<u32, usize> = HashMap::new();
        for page in self.pages.values().filter(|page| !page.is_gone) {
            *lanes.entry(page.uid).or_default() += page.n_lanes;
        }
        let share = (LANES_A_ROUND / lanes.len().max(1)).max(LANES_OF_USER);
        lanes.into_iter().map(|(uid, n_lanes)| (uid, 1 + (n_lanes / share) as u64)).collect()
    }

    /// After a restart: pages that the store knows and that are no longer there are gone with what was last kept of them.
    pub fn settle(&mut self, now_ns: u64, leaf: &mut Leaf) {
        let here: HashSet<&PageId> = self.pages.values().map(|page| &page.id).collect();
        let is_missing = |page: &&PageId| !page.is_group() && !here.contains(page);
        let missing: Vec<PageId> = leaf.pages().filter(is_missing).cloned().collect();
        for page in missing {
            leaf.gone(now_ns, &page, Some(Refusal::PageGone));
        }
    }

    /// At the start: removes pages that are counted already. Returns those that are no longer there.
    pub fn remove_counted(&mut self, pages: Vec<PageId>) -> Vec<PageId> {
        let (removed, left) = pages.into_iter().partition(|page| self.remove(page));
        self.counted = HashSet::from_iter::<Vec<PageId>>(left);
        removed
    }

    /// Removes the file of a page that is stored. Returns whether it is no longer there.
    pub fn remove(&mut self, id: &PageId) -> bool {
        if id.is_group() {
            return true; // it was never a file
        }
        let Some((name, inode)) = file_of(id) else { return true };
        // Whoever has taken the name since keeps it.
        let is_it = self
            .folder
            .read(&name)
            .and_then(|file| file.metadata())
            .is_ok_and(|metadata| metadata.ino() == inode);
        let is_removed = !is_it || self.folder.remove(&name).is_ok();
        if is_removed && let Some(page) = self.pages.remove(&name) {
            self.inodes.remove(&page.inode);
            memory::shrink(&mut self.pages);
        }
        is_removed
    }

    /// Looks for new files.
    fn scan(&mut self, now_ns: u64, leaf: &mut Leaf, earlier: &mut dyn FnMut(&Name, u32, &JobId) -> Earlier) {
        let Ok(stat) = rustix::fs::fstat(self.folder.fd()) else { return };
        let changed = (stat.st_mtime, stat.st_mtime_nsec);
        // Two changes may bear one time, so it is read once more after the last; files that are not whole yet do not change the directory.
        let is_settled = self.scanned == Some(changed) && self.strangers.is_empty();
        if is_settled && !self.rounds.is_multiple_of(10) {
            return;
        }
        let began = Instant::now();
        if self.rests_until.is_some_and(|until| began < until) {
            return;
        }
        self.scanned = Some(changed);
        let Ok(entries) = rustix::fs::Dir::read_from(self.folder.fd()) else { return };
        let mut there = HashSet::new();
        let mut users = Users::of(&self.strangers);
        self.is_time_to_try = self.tried.is_none_or(|tried| began - tried >= TRY_AGAIN);
        if self.is_time_to_try {
            self.tried = Some(began);
        }
        for entry in entries.flatten() {
            use std::os::unix::ffi::OsStringExt;
            let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
            let is_page = name
                .as_encoded_bytes()
                .strip_suffix(EXTENSION.as_bytes())
                .is_some_and(|stem| stem.ends_with(b"."));
            if !is_page || name.len() > Name::MAX_BYTES || name.to_str().is_none() {
                continue;
            }
            if !self.pages.contains_key(&name) {
                self.meet(now_ns, &name, entry.ino(), &mut users, leaf, earlier);
            }
            there.insert(name);
        }
        let mut waiting = Losses::default();
        waiting.add(Refusal::FilesOfUser, users.n_ignored);
        self.strangers.retain(|name, stranger| {
            let is_there = there.contains(name);
            match stranger.waits_for {
                // Nobody has read what it had counted.
                Some(refusal) if !is_there => leaf.refuse(refusal, 1),
                Some(refusal) => waiting.add(refusal, 1),
                None => {}
            }
            is_there
        });
        memory::shrink(&mut self.strangers);
        leaf.waiting(waiting);
        // A page that is gone while its process runs has been counted as far as it was read.
        let removed: Vec<OsString> =
            self.pages.keys().filter(|name| !there.contains(*name)).cloned().collect();
        for name in removed {
            if let Some(page) = self.pages.remove(&name) {
                self.inodes.remove(&page.inode);
                let loss = (!matches!(page.life, Watch::Gone)).then_some(Refusal::PageGone);
                if loss.is_some()
                    && let Some(pid) = page.pid
                {
                    self.newest.remove(&pid);
                }
                leaf.gone(now_ns, &page.id, loss);
            }
        }
        let rest = SCAN_PART * began.elapsed();
        self.rests_until = (rest > ROUND).then(|| Instant::now() + rest.min(LONGEST_REST));
    }

    /// Looks at a file that is not known as a page.
    fn meet(
        &mut self,
        now_ns: u64,
        name: &OsString,
        inode: u64,
        users: &mut Users,
        leaf: &mut Leaf,
        earlier: &mut dyn FnMut(&Name, u32, &JobId) -> Earlier,
    ) {
        if self.inodes.contains(&inode) {
            return; // another name of a page that is known
        }
        let known = self.strangers.get(name).filter(|known| known.inode == inode);
        let rests = known.is_some_and(|known| match known.waits_for {
            Some(_) => !self.is_time_to_try || users.refused.contains(&known.uid),
            None => known.tries >= TRIES,
        });
        if rests {
            return;
        }
        let uid = match known.map(|known| known.uid) {
            Some(uid) => uid,
            None => match self.folder.owner_of(name) {
                Some(uid) if users.takes(uid) => uid,
                _ => return,
            },
        };
        match self.open(now_ns, name, uid, leaf, earlier) {
            Ok(page) => {
                self.strangers.remove(name);
                self.inodes.insert(page.inode);
                self.pages.insert(name.clone(), page);
            }
            Err(refusal) => {
                let new = || Stranger { inode, uid, tries: 0, waits_for: None };
                let known = self.strangers.entry(name.clone()).or_insert_with(new);
                if known.inode != inode {
                    *known = new();
                }
                known.waits_for = Some(refusal).filter(|refusal| refusal.is_limit());
                if known.waits_for.is_some() {
                    users.refused.insert(uid);
                }
                known.tries = known.tries.saturating_add(u32::from(known.waits_for.is_none()));
                if known.tries == TRIES && refusal == Refusal::NoPage {
                    leaf.refuse(Refusal::NoPage, 1);
                }
            }
        }
    }

    fn open(
        &mut self,
        now_ns: u64,
        name: &OsString,
        owner: u32,
        leaf: &mut Leaf,
        earlier: &mut dyn FnMut(&Name, u32, &JobId) -> Earlier,
    ) -> Result<Watched, Refusal> {
        let place = self.descriptors.take(owner).ok_or(Refusal::Descriptors)?;
        let file =
            self.folder.read(name).map_err(|why| match why.raw_os_error().map(Errno::from_raw_os_error) {
                Some(Errno::MFILE | Errno::NFILE) => Refusal::Descriptors,
                _ => Refusal::NoPage,
            })?;
        let metadata = file.metadata().map_err(|_| Refusal::NoPage)?;
        let (least, most) = (HEADER_SIZE as u64, page::lane_at(MAX_LANES) as u64);
        if !(least..=most).contains(&metadata.len()) {
            return Err(Refusal::NoPage);
        }
        let mut head = [0; HEADER_SIZE];
        file.read_exact_at(&mut head, 0).map_err(|_| Refusal::NoPage)?;
        let header = PageHeader::decode(&head).map_err(|_| Refusal::NoPage)?;
        let (uid, inode) = (metadata.uid(), metadata.ino());
        let id = PageId::new(format!("{}:{inode}", name.display()));
        if self.counted.contains(&id) {
            return Err(Refusal::PageGone);
        }
        let (pid, life) = self.watch(&header, uid);
        if !leaf.knows(&id) {
            let process = self.process(now_ns, &header, uid, pid, leaf);
            leaf.adopt(now_ns, id.clone(), process, |cluster, uid, job| earlier(cluster, uid, job))?;
        }
        let n_lanes = header.lanes_used + 1;
        if let Some(pid) = pid {
            let newest = self.newest.entry(pid).or_default();
            *newest = header.about.start_unix_ns.max(*newest);
        }
        Ok(Watched {
            id,
            uid,
            inode,
            file,
            _place: place,
            pid,
            life,
            n_lanes,
            digest: 0,
            n_idle: 0,
            is_gone: false,
        })
    }

    /// Begins to watch a process: one of the page's owner, and the one that made the page.
    fn watch(&mut self, header: &PageHeader<'_>, uid: u32) -> (Option<u32>, Watch) {
        let about = &header.about;
        let is_ours = about.pid_namespace == 0 || self.namespace.is_none_or(|own| own == about.pid_namespace);
        if !is_ours && !self.may_run_in(about.pid_namespace, uid) {
            return (None, Watch::Gone);
        }
        let pid = match is_ours {
            true => Some(about.pid),
            false => self.proc.in_namespace(about.pid, uid, about.start_ticks),
        };
        let Some(pid) = pid else { return (None, Watch::Unseen) };
        // The descriptor first, so that what is asked below is asked of the same process.
        let pidfd = i32::try_from(pid)
            .ok()
            .and_then(Pid::from_raw)
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let is_owners = uid == 0 || self.proc.belongs_to(pid, uid);
        let is_it = is_owners && self.proc.started(pid) == Some(about.start_ticks);
        match (is_it, pidfd) {
            (false, _) => (None, Watch::Gone),
            (true, Some(pidfd)) => (Some(pid), Watch::Pidfd(pidfd)),
            (true, None) => (Some(pid), Watch::Asked { pid, start_ticks: about.start_ticks }),
        }
    }

    /// Whether a user may have a process in a name space of processes. Where all processes are seen, there must be one.
    fn may_run_in(&mut self, namespace: u64, uid: u32) -> bool {
        if self.namespace != Some(Proc::FIRST_NAMESPACE) || !rustix::process::geteuid().is_root() {
            return true;
        }
        if self.owners.as_ref().is_none_or(|(round, _)| *round != self.rounds) {
            self.owners = Some((self.rounds, self.proc.owners_by_namespace()));
        }
        self.owners.as_ref().is_some_and(|(_, owners)| owners.contains(&(namespace, uid)))
    }

    fn is_gone(&self, life: &Watch, index: u64) -> bool {
        match life {
            Watch::Gone => true,
            Watch::Unseen => false,
            Watch::Pidfd(pidfd) => {
                use rustix::event::{PollFd, PollFlags, Timespec, poll};
                let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
                poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|n| n > 0)
            }
            Watch::Asked { pid, start_ticks } => {
                (self.rounds + index).is_multiple_of(5) && self.proc.started(*pid) != Some(*start_ticks)
            }
        }
    }

    /// Returns a process as its page and the system describe it.
    fn process(
        &self,
        now_ns: u64,
        header: &PageHeader<'_>,
        uid: u32,
        pid: Option<u32>,
        leaf: &mut Leaf,
    ) -> Process {
        let text = |which| header.text(which);
        let mut id_of = |which: PageText| {
            let said = text(which);
            if said.is_empty() {
                return None;
            }
            let id = JobId::of_scheduler(said);
            if id.is_err() {
                leaf.refuse(Refusal::JobId, 1);
            }
            id.ok()
        };
        let mut claim = pid
            .and_then(|pid| self.proc.job_in_cgroup(pid))
            .map(Claim::Cgroup)
            .or_else(|| id_of(PageText::Job).map(Claim::Job))
            .or_else(|| id_of(PageText::Run).map(Claim::Run))
            .unwrap_or(Claim::Siblings { parent_pid: header.about.parent_pid });
        let scheduled =
            scheduled::look_up(&self.folder, &mut claim, text(PageText::JobSource), uid).unwrap_or_default();
        let or = |known: Name, claimed: &[u8]| if known.is_empty() { Name::cut(claimed) } else { known };
        let argv: Vec<&[u8]> = header.arguments().collect();
        let base = |path: &[u8]| Name::cut(path.rsplit(|&byte| byte == b'/').next().unwrap_or(path));
        let program = argv.first().copied().unwrap_or(text(PageText::Exe));
        let name = About::name_of_job(text(PageText::JobName)).unwrap_or_else(|| base(program));
        let app = match text(PageText::App) {
            [] => Name::cut(app_id(argv.iter().copied(), &[]).as_bytes()),
            own => Name::cut(own),
        };
        let words: Vec<_> = argv.iter().map(|word| String::from_utf8_lossy(word)).collect();
        let said_ns = header.about.start_unix_ns;
        let day_ns = 86_400_000_000_000;
        Process {
            uid,
            cluster: Name::cut(text(PageText::Cluster)),
            start_ns: if (now_ns.saturating_sub(400 * day_ns)..=now_ns).contains(&said_ns) {
                said_ns
            } else {
                now_ns
            },
            rank: header.rank,
            n_ranks: header.n_ranks.map(|n| n.min(MOST_RANKS)),
            about: About {
                user: or(scheduled.user, user_name(uid).as_bytes()),
                app,
                name,
                command: words.join(" "),
                run_dir: String::from_utf8_lossy(text(PageText::Directory)).into_owned(),
                partition: or(scheduled.partition, text(PageText::Partition)),
                account: scheduled.account,
                alias: or(scheduled.alias, text(PageText::Alias)),
                size: header.n_ranks.unwrap_or(1).min(MOST_RANKS),
                trust: if matches!(claim, Claim::Cgroup(_)) { Trust::Cgroup } else { Trust::Claimed },
                build: Name::cut(hex(text(PageText::BuildId)).as_bytes()),
                parameters: Parameters::read(text(PageText::Params)),
            },
            claim,
        }
    }

    /// Reads what a process has counted. One that is gone has counted all it ever will.
    fn read(&mut self, now_ns: u64, page: &mut Watched, is_gone: bool, leaf: &mut Leaf) {
        let read = self.read_lanes(page);
        let mut loss = None;
        let mut is_replaced = false;
        match read.and_then(|digest| Some((digest, PageHeader::decode(&self.buffer).ok()?))) {
            None => loss = Some(Refusal::PageGone),
            Some((digest, header)) => {
                let is_silent = match header.state {
                    PageState::Running => page.n_idle >= LONG_IDLE,
                    _ => page.n_idle >= IDLE_ROUNDS,
                };
                let is_unseen = matches!(page.life, Watch::Unseen);
                // The program that came after may not count anything: then this page stands for the process until its end.
                let has_newer = page.pid.and_then(|pid| self.newest.get(&pid));
                let is_followed = is_unseen || has_newer > Some(&header.about.start_unix_ns);
                is_replaced = header.state == PageState::Replaced && is_followed || is_unseen && is_silent;
                if digest == page.digest && !is_gone && !is_replaced {
                    page.n_idle = page.n_idle.saturating_add(1);
                    return;
                }
                (page.digest, page.n_idle) = (digest, 0);
                page.n_lanes = header.lanes_used + 1;
                *self.counters = PageCounters::ZERO;
                for lane in 0..header.lanes_used {
                    let end = page::lane_at(lane + 1).min(self.buffer.len());
                    self.counters.add_lane(&self.buffer[page::lane_at(lane).min(end)..end]);
                }
                // On the clock of the page, as far as the two have gone on alike.
                let about = &header.about;
                let clock_ns = about.start_ns.saturating_add(now_ns.saturating_sub(about.start_unix_ns));
                let until_ns = header.end_ns.filter(|_| is_gone || is_replaced).unwrap_or(clock_ns);
                let mut counters = Counters::of_page(&header, &self.counters, until_ns.min(clock_ns));
                if is_gone && matches!(header.state, PageState::Running | PageState::Aborted) {
                    let killed = Metric::Killed { is_rank: is_rank(&header) };
                    counters.add(killed, Cell { calls: 1, ..Cell::default() });
                }
                leaf.count(&page.id, &counters);
                if until_ns < clock_ns {
                    leaf.ended(
                        about.start_unix_ns.saturating_add(until_ns.saturating_sub(about.start_ns)),
                        &page.id,
                    );
                }
            }
        }
        if is_gone && let Some(pid) = page.pid {
            self.newest.remove(&pid);
        }
        if is_replaced {
            leaf.replaced(&page.id);
        }
        if is_gone || is_replaced {
            leaf.gone(now_ns, &page.id, loss);
            page.is_gone = true;
            page.life = Watch::Gone;
        }
    }

    /// Reads header and lanes into the buffer; returns what changes when they do.
    fn read_lanes(&mut self, page: &mut Watched) -> Option<u64> {
        // As many lanes as it had the last time; more, if it says so.
        loop {
            let n_bytes = page::lane_at(page.n_lanes.saturating_sub(1).min(MAX_LANES));
            self.buffer.resize(n_bytes, 0);
            let n_read = read_up_to(&page.file, &mut self.buffer)?;
            self.buffer.truncate(n_read);
            let n_lanes = PageHeader::decode(&self.buffer).ok()?.lanes_used;
            if n_lanes < page.n_lanes || n_read < n_bytes {
                break;
            }
            page.n_lanes = n_lanes + 1;
        }
        // A large page is no reason to hold as much for ever.
        self.buffer.shrink_to(64 * LANE_SIZE);
        let words = self.buffer.as_chunks::<8>().0;
        Some(words.iter().fold(1, |digest: u64, word| {
            (digest ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
        }))
    }
}

fn read_up_to(file: &File, buffer: &mut [u8]) -> Option<usize> {
    let mut n_read = 0;
    while n_read < buffer.len() {
        match file.read_at(&mut buffer[n_read..], n_read as u64) {
            Ok(0) => break,
            Ok(n) => n_read += n,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    Some(n_read)
}

/// The file name and the inode of a page.
fn file_of(id: &PageId) -> Option<(OsString, u64)> {
    let (name, inode) = id.as_str().rsplit_once(':')?;
    Some((name.into(), inode.parse().ok()?))
}

/// Feeds any text to whatever reads files of the system and of schedulers.
#[cfg(fuzzing)]
pub fn fuzz(text: &str) {
    if let Some(scheduled) = scheduled::parse(text, 1000) {
        assert!(scheduled.user.as_str().len() <= Name::MAX_BYTES);
    }
    let _ = (cgroups::owner_of(text), cgroups::io_stat(text), cgroups::blkio(text, text));
    let _ = (cgroups::field(text, "usage_usec"), cgroups::real_uid(text), proc::uids(text).count());
    let _ = (node::cpu(text), node::load(text), node::memory(text), node::disks(text, |_| true));
    let _ = (node::network(text), node::local_mounts(text), clients::llite(text), clients::mountstats(text));
    let _ = (servers::brick(text), servers::daemon(text));
}

#[cfg(test)]
mod tests;
