//! Readings of the cgroups of jobs: processor time, memory and device I/O of all processes of a job, with or without a wrapper.
//!
//! A batch system puts the processes of a job into a cgroup `job_N`. Version 2 has all controllers in one tree; version 1 has a tree for each. Both are found
//! below `/sys/fs/cgroup`, also side by side. Only folders and small files of these are read, within bounds, and on a thread that nobody waits for.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use iotide_ledger::{
    About, Cell, Counters, JobId, JobKey, Measure, Metric, Name, Refusal, SystemCounter, Trust, app_id,
};

use super::proc::{text_of, user_name};
use crate::leaf::{Claim, Earlier, Leaf, PageId, Process};

/// No file that is read here is longer.
const MOST_BYTES: u64 = 64 << 10;
/// Folders that one search looks into, and how deep they lie.
const MOST_FOLDERS: usize = 4096;
const MOST_DEPTH: usize = 6;
/// Jobs beyond this are left out.
const MOST_JOBS: usize = 1024;
/// Processes of a job that are asked whose they are.
const MOST_ASKED: usize = 64;
/// Variables beyond this are not looked at.
const MOST_ENVIRONMENT: u64 = 256 << 10;
/// A job in which nobody but root is seen so often is root's.
const ROOTS_AFTER: u32 = 3;
/// Readings between two searches for folders that hold jobs; those that are known are looked at each time.
const SEARCH_EVERY: u64 = 5;
/// Folders that hold jobs, or did.
const MOST_PARENTS: usize = 1024;

/// Readings of the cgroups of one job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupReading {
    /// Nanoseconds of processor time, of programs and of the system for them.
    pub(crate) cpu_user_ns: Option<u64>,
    pub(crate) cpu_system_ns: Option<u64>,
    /// Bytes of memory now.
    pub memory_bytes: Option<u64>,
    /// The most there ever were.
    pub memory_peak_bytes: Option<u64>,
    /// Requests to devices that read, and their bytes.
    pub read: Option<(u64, u64)>,
    /// Requests to devices that wrote, and their bytes.
    pub written: Option<(u64, u64)>,
}

impl GroupReading {
    /// Takes over what another tree says of the same job.
    fn take(&mut self, other: Self) {
        let Self { cpu_user_ns, cpu_system_ns, memory_bytes, memory_peak_bytes, read, written } = other;
        self.cpu_user_ns = self.cpu_user_ns.or(cpu_user_ns);
        self.cpu_system_ns = self.cpu_system_ns.or(cpu_system_ns);
        self.memory_bytes = self.memory_bytes.or(memory_bytes);
        self.memory_peak_bytes = self.memory_peak_bytes.or(memory_peak_bytes);
        self.read = self.read.or(read);
        self.written = self.written.or(written);
    }
}

/// A job that has a cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupJob {
    /// Its id.
    pub id: JobId,
    /// Whose job it is.
    pub owner: GroupOwner,
    /// When its cgroup was made, in nanoseconds since 1970.
    pub start_ns: u64,
    /// Tells it from a later one of the same id.
    pub(crate) inode: u64,
    /// Its last reading.
    pub reading: GroupReading,
}

/// Whose a job is, and what a process of it says of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupOwner {
    pub uid: u32,
    /// Variables of the scheduler's; empty if there are none.
    pub cluster: Name,
    pub name: Name,
    pub partition: Name,
    pub(crate) n_tasks: Option<u32>,
}

/// The cgroups of jobs, looked at again and again.
#[derive(Debug)]
pub struct Cgroups {
    root: PathBuf,
    proc: PathBuf,
    /// Folders in which jobs were seen.
    parents: BTreeSet<PathBuf>,
    /// Whose a job is does not change, once it is known.
    owners: BTreeMap<PathBuf, (u64, GroupOwner)>,
    /// How often nobody but root was seen in one: the batch system itself is there before the job is.
    roots: BTreeMap<PathBuf, u32>,
    n_rounds: u64,
    /// The reading at which folders are searched again.
    next_search: u64,
}

impl Cgroups {
    /// Looks below a folder: `/sys/fs/cgroup`; and for owners of processes in another: `/proc`.
    pub fn new(root: PathBuf, proc: PathBuf) -> Self {
        Self {
            root,
            proc,
            parents: BTreeSet::new(),
            owners: BTreeMap::new(),
            roots: BTreeMap::new(),
            n_rounds: 0,
            next_search: 0,
        }
    }

    /// Reads all jobs there are now. A job whose processes cannot be asked whose they are is left out until they can.
    pub fn read(&mut self) -> Vec<GroupJob> {
        if self.n_rounds >= self.next_search {
            let began = Instant::now();
            // One without jobs may have some again.
            self.parents.retain(|parent| parent.is_dir());
            let mut n_left = MOST_FOLDERS;
            search(&self.root, MOST_DEPTH, &mut n_left, &mut self.parents);
            // One that takes long is made less often: a reading, which is a second, for each of its milliseconds.
            let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.next_search = self.n_rounds + SEARCH_EVERY.max(took_ms.min(600));
        }
        self.n_rounds += 1;
        // The folders of a job: one in each tree.
        let mut folders: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        for parent in &self.parents {
            for (name, path) in folders_in(parent) {
                if is_job(&name) && (folders.len() < MOST_JOBS || folders.contains_key(&name)) {
                    folders.entry(name).or_default().push(path);
                }
            }
        }
        let there: BTreeSet<&PathBuf> = folders.values().flatten().collect();
        self.owners.retain(|path, _| there.contains(path));
        self.roots.retain(|path, _| there.contains(path));
        let jobs = folders.into_iter().filter_map(|(name, paths)| self.job(&name, &paths));
        jobs.collect()
    }

    fn job(&mut self, name: &str, paths: &[PathBuf]) -> Option<GroupJob> {
        let id = JobId::new(name.strip_prefix("job_")?).ok()?;
        let mut reading = GroupReading::default();
        let mut found: Option<(u64, u64, GroupOwner)> = None;
        for path in paths {
            let Ok(metadata) = path.symlink_metadata() else { continue };
            // Users make folders where a part of the tree was given to them.
            if !iotide_private::is_our_user(Some(metadata.uid())) {
                continue;
            }
            let made_ns = nanoseconds(metadata.ctime(), metadata.ctime_nsec());
            let known = self.owners.get(path).filter(|(inode, _)| *inode == metadata.ino());
            let owner = known.map(|(_, owner)| owner.clone()).or_else(|| self.owner(path));
            if let Some(owner) = owner {
                self.owners.insert(path.clone(), (metadata.ino(), owner.clone()));
                // Folders of one job are made one after another: the first tells when it began.
                if found.as_ref().is_none_or(|(start_ns, ..)| made_ns < *start_ns) {
                    found = Some((made_ns, metadata.ino(), owner));
                }
            }
            reading.take(read_folder(path));
        }
        let (start_ns, inode, owner) = found?;
        Some(GroupJob { id, owner, start_ns, inode, reading })
    }

    /// Whose a job is: that of the first process that is not root's. If there is none for some time, `uid_N` in the path, which the batch system made, or root's.
    fn owner(&mut self, path: &Path) -> Option<GroupOwner> {
        let mut folders = vec![path.to_owned()];
        let (mut n_asked, mut n_folders, mut is_roots) = (0, 0, false);
        while let Some(folder) = folders.pop().filter(|_| n_asked.max(n_folders) < MOST_ASKED) {
            n_folders += 1;
            for pid in text_of(&folder.join("cgroup.procs"), MOST_BYTES).lines().take(MOST_ASKED) {
                let Ok(pid) = pid.parse::<u32>() else { continue };
                let process = self.proc.join(pid.to_string());
                n_asked += 1;
                match real_uid(&text_of(&process.join("status"), MOST_BYTES)) {
                    Some(0) => is_roots = true,
                    Some(uid) => {
                        let environment = text_of(&process.join("environ"), MOST_ENVIRONMENT);
                        return Some(GroupOwner { uid, ..owner_of(&environment) });
                    }
                    None => {}
                }
            }
            folders.extend(folders_in(&folder).map(|(_, path)| path).take(MOST_ASKED));
        }
        let named = path
            .components()
            .find_map(|folder| folder.as_os_str().to_str()?.strip_prefix("uid_")?.parse::<u32>().ok());
        let uid = named.or(is_roots.then_some(0))?;
        let n_times = self.roots.entry(path.to_owned()).or_default();
        *n_times += 1;
        (*n_times >= ROOTS_AFTER).then(|| GroupOwner { uid, ..GroupOwner::default() })
    }
}

/// Returns the owner and other facts of a job from the environment of one of its processes; `uid` is left 0.
pub fn owner_of(environment: &str) -> GroupOwner {
    let variable = |name: &str| {
        environment.split('\0').find_map(|said| said.strip_prefix(name)?.strip_prefix('=')).unwrap_or("")
    };
    let name = |variable: &str| Name::cut(variable.as_bytes());
    GroupOwner {
        uid: 0,
        cluster: name(variable("SLURM_CLUSTER_NAME")),
        name: name(variable("SLURM_JOB_NAME")),
        partition: name(variable("SLURM_JOB_PARTITION")),
        n_tasks: variable("SLURM_NTASKS").parse().ok(),
    }
}

impl GroupReading {
    /// Returns the values of the reading that only grow.
    fn counters(&self) -> Counters {
        let time = |ns: Option<u64>| ns.map(|ns| Measure::Time.cell(ns));
        let requests =
            |done: Option<(u64, u64)>| done.map(|(calls, bytes)| Cell { calls, bytes, ..Cell::default() });
        let read = [
            (SystemCounter::CpuUser, time(self.cpu_user_ns)),
            (SystemCounter::CpuSystem, time(self.cpu_system_ns)),
            (SystemCounter::DeviceRead, requests(self.read)),
            (SystemCounter::DeviceWrite, requests(self.written)),
        ];
        read.into_iter().filter_map(|(counter, cell)| Some((Metric::System(counter.into()), cell?))).collect()
    }
}

impl GroupJob {
    fn page(&self) -> PageId {
        PageId::of_group(self.id.as_str(), self.inode)
    }

    fn process(&self) -> Process {
        let GroupOwner { uid, cluster, name, partition, n_tasks } = &self.owner;
        let app = Name::cut(app_id([name.as_str().as_bytes()], &[]).as_bytes());
        Process {
            uid: *uid,
            cluster: cluster.clone(),
            claim: Claim::Cgroup(self.id.clone()),
            start_ns: self.start_ns,
            rank: None,
            n_ranks: None,
            about: About {
                user: Name::cut(user_name(*uid).as_bytes()),
                app,
                name: name.clone(),
                partition: partition.clone(),
                size: n_tasks.unwrap_or(1).clamp(1, super::MOST_RANKS),
                trust: Trust::Cgroup,
                ..About::default()
            },
        }
    }

    /// The one of these that is known by a key.
    pub fn of<'a>(groups: &'a [Self], key: &JobKey) -> Option<&'a Self> {
        groups.iter().find(|group| group.id == key.id && group.owner.uid == key.uid)
    }
}

/// Readings of jobs that were passed to the machine.
#[derive(Debug, Default)]
pub struct ReportedGroups {
    readings: BTreeMap<PageId, GroupReading>,
    is_begun: bool,
}

impl ReportedGroups {
    /// Tells the machine what the cgroups of jobs have come to: each is a page of its job that no process has made.
    pub fn tell(
        &mut self,
        now_ns: u64,
        jobs: &[GroupJob],
        leaf: &mut Leaf,
        earlier: &mut dyn FnMut(&Name, u32, &JobId) -> Earlier,
    ) {
        let mut readings = BTreeMap::new();
        for job in jobs {
            let page = job.page();
            if !leaf.knows(&page)
                && leaf
                    .adopt(now_ns, page.clone(), job.process(), |cluster, uid, id| earlier(cluster, uid, id))
                    .is_err()
            {
                continue;
            }
            if self.readings.get(&page) != Some(&job.reading) {
                leaf.count(&page, &job.reading.counters());
            }
            readings.insert(page, job.reading.clone());
        }
        let is_gone = |page: &&PageId| page.is_group() && !readings.contains_key(*page);
        let gone: Vec<PageId> = leaf.pages().filter(is_gone).cloned().collect();
        for page in gone {
            // One that went while no daemon ran has counted more than is known.
            let loss = (!self.is_begun).then_some(Refusal::PageGone);
            leaf.gone(now_ns, &page, loss);
        }
        (self.readings, self.is_begun) = (readings, true);
    }
}

/// Finds folders that hold folders of jobs.
fn search(folder: &Path, depth: usize, n_left: &mut usize, parents: &mut BTreeSet<PathBuf>) {
    if depth == 0 || *n_left == 0 {
        return;
    }
    *n_left -= 1;
    for (name, path) in folders_in(folder) {
        if is_job(&name) {
            if parents.len() < MOST_PARENTS {
                parents.insert(folder.to_owned());
            }
        } else {
            search(&path, depth - 1, n_left, parents);
        }
    }
}

/// Folders in a folder, past no link.
fn folders_in(folder: &Path) -> impl Iterator<Item = (String, PathBuf)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.take(MOST_FOLDERS).filter_map(|entry| {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        is_folder.then(|| Some((entry.file_name().into_string().ok()?, entry.path())))?
    })
}

/// `job_N`.
fn is_job(name: &str) -> bool {
    name.strip_prefix("job_").is_some_and(|id| {
        !id.is_empty() && id.len() <= JobId::MAX_BYTES && id.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Reads the files of one folder, of either version.
fn read_folder(folder: &Path) -> GroupReading {
    let text = |name: &str| text_of(&folder.join(name), MOST_BYTES);
    let number = |name: &str| text(name).trim().parse::<u64>().ok();
    let cpu = text("cpu.stat");
    let usec = |name: &str| field(&cpu, name)?.checked_mul(1000);
    let io = io_stat(&text("io.stat"))
        .or_else(|| blkio(&text("blkio.throttle.io_service_bytes"), &text("blkio.throttle.io_serviced")));
    GroupReading {
        cpu_user_ns: usec("user_usec").or_else(|| number("cpuacct.usage_user")),
        cpu_system_ns: usec("system_usec").or_else(|| number("cpuacct.usage_sys")),
        memory_bytes: number("memory.current").or_else(|| number("memory.usage_in_bytes")),
        memory_peak_bytes: number("memory.peak").or_else(|| number("memory.max_usage_in_bytes")),
        read: io.map(|[read, _]| read),
        written: io.map(|[_, written]| written),
    }
}

/// A line `name number`.
pub fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

/// Requests and bytes read and written, over all devices: lines `8:0 rbytes=1 wbytes=2 rios=3 wios=4 …`. `None` if no line is one.
pub(super) fn io_stat(text: &str) -> Option<[(u64, u64); 2]> {
    let mut sums: Option<[(u64, u64); 2]> = None;
    for line in text.lines() {
        for word in line.split_ascii_whitespace() {
            let Some((name, value)) = word.split_once('=') else { continue };
            let Ok(value) = value.parse::<u64>() else { continue };
            let sums = sums.get_or_insert_default();
            let sum = match name {
                "rios" => &mut sums[0].0,
                "rbytes" => &mut sums[0].1,
                "wios" => &mut sums[1].0,
                "wbytes" => &mut sums[1].1,
                _ => continue,
            };
            *sum = sum.saturating_add(value);
        }
    }
    sums
}

/// The same of version 1: lines `8:0 Read 1` in two files.
pub(super) fn blkio(bytes: &str, requests: &str) -> Option<[(u64, u64); 2]> {
    let sum = |text: &str, what: &str| {
        let values = text.lines().filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let device = words.next()?;
            (device.contains(':') && words.next()? == what).then(|| words.next()?.parse::<u64>().ok())?
        });
        values.fold(0, u64::saturating_add)
    };
    // Without any request there is a line with their sum, and no other.
    bytes
        .lines()
        .any(|line| line.starts_with("Total "))
        .then(|| ["Read", "Write"].map(|what| (sum(requests, what), sum(bytes, what))))
}

/// The first number after `Uid:`.
pub(super) fn real_uid(status: &str) -> Option<u32> {
    super::proc::uids(status).next()
}

fn nanoseconds(seconds: i64, nanoseconds: i64) -> u64 {
    let seconds = u64::try_from(seconds).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(nanoseconds).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;
    use proptest::prelude::*;

    fn tree(dir: &FreshDir, files: &[(&str, &str)]) {
        for (path, text) in files {
            std::fs::create_dir_all(dir.join(path).parent().unwrap()).unwrap();
            std::fs::write(dir.join(path), text).unwrap();
        }
    }

    #[test]
    fn a_job_of_version_2_is_read_with_its_owner() {
        let dir = FreshDir::new("cgroup-2");
        let job = "cgroup/system.slice/slurmstepd.scope/job_42";
        tree(
            &dir,
            &[
                (&format!("{job}/cpu.stat"), "usage_usec 30\nuser_usec 21\nsystem_usec 9\nnr_periods 0\n"),
                (&format!("{job}/memory.current"), "8192\n"),
                (&format!("{job}/memory.peak"), "16384\n"),
                (
                    &format!("{job}/io.stat"),
                    "8:0 rbytes=100 wbytes=200 rios=1 wios=2 dbytes=0 dios=0\n253:1 rbytes=5 wbytes=6 rios=7 wios=8\n",
                ),
                (&format!("{job}/cgroup.procs"), ""),
                (&format!("{job}/step_extern/slurm/cgroup.procs"), "10\n"),
                (&format!("{job}/step_0/user/task_0/cgroup.procs"), "11\n12\n"),
                ("proc/10/status", "Name:\tslurmstepd\nUid:\t0\t0\t0\t0\n"),
                (
                    "proc/11/environ",
                    "HOME=/\0SLURM_CLUSTER_NAME=tide\0SLURM_JOB_NAME=flow\0SLURM_NTASKS=64\0",
                ),
                ("proc/11/status", "Name:\tsim\nUid:\t1000\t1000\t1000\t1000\n"),
                ("cgroup/system.slice/job_evil/cpu.stat", "user_usec 1\n"),
                ("cgroup/system.slice/slurmstepd.scope/job_43/cgroup.procs", "99\n"),
            ],
        );
        let mut cgroups = Cgroups::new(dir.join("cgroup"), dir.join("proc"));
        let jobs = cgroups.read();
        assert_eq!(jobs.len(), 1, "nobody knows whose job_43 is: {jobs:?}");
        assert_eq!(jobs[0].id.as_str(), "42");
        let owner = GroupOwner {
            uid: 1000,
            cluster: Name::cut(b"tide"),
            name: Name::cut(b"flow"),
            partition: Name::default(),
            n_tasks: Some(64),
        };
        assert_eq!(jobs[0].owner, owner);
        let expected = GroupReading {
            cpu_user_ns: Some(21_000),
            cpu_system_ns: Some(9_000),
            memory_bytes: Some(8192),
            memory_peak_bytes: Some(16_384),
            read: Some((8, 105)),
            written: Some((10, 206)),
        };
        assert_eq!(jobs[0].reading, expected);
        // The owner stays known when its processes are between two steps.
        std::fs::remove_dir_all(dir.join("proc")).unwrap();
        assert_eq!(cgroups.read(), jobs);
        std::fs::remove_dir_all(dir.join(job)).unwrap();
        assert!(cgroups.read().is_empty());
    }

    #[test]
    fn the_trees_of_version_1_are_one_job() {
        let dir = FreshDir::new("cgroup-1");
        let in_tree = |tree: &str, file: &str| format!("cgroup/{tree}/slurm/uid_1001/job_7/{file}");
        tree(
            &dir,
            &[
                (&in_tree("cpuacct", "cpuacct.usage_user"), "5000\n"),
                (&in_tree("cpuacct", "cpuacct.usage_sys"), "70\n"),
                (&in_tree("memory", "memory.usage_in_bytes"), "4096\n"),
                (&in_tree("memory", "memory.max_usage_in_bytes"), "9000\n"),
                (
                    &in_tree("blkio", "blkio.throttle.io_service_bytes"),
                    "8:0 Read 10\n8:0 Write 20\n8:0 Sync 30\n8:0 Total 30\nTotal 30\n",
                ),
                (&in_tree("blkio", "blkio.throttle.io_serviced"), "8:0 Read 1\n8:0 Write 2\nTotal 3\n"),
            ],
        );
        let mut cgroups = Cgroups::new(dir.join("cgroup"), dir.join("proc"));
        assert_eq!((cgroups.read(), cgroups.read()), (vec![], vec![]), "a process may still come");
        let jobs = cgroups.read();
        assert_eq!(jobs.len(), 1);
        assert_eq!((jobs[0].id.as_str(), jobs[0].owner.uid), ("7", 1001));
        let expected = GroupReading {
            cpu_user_ns: Some(5000),
            cpu_system_ns: Some(70),
            memory_bytes: Some(4096),
            memory_peak_bytes: Some(9000),
            read: Some((1, 10)),
            written: Some((2, 20)),
        };
        assert_eq!(jobs[0].reading, expected);
    }

    #[test]
    fn what_is_large_or_endless_is_bounded() {
        let dir = FreshDir::new("cgroup-large");
        let parent = dir.join("cgroup/slurm/uid_5");
        for n in 0..MOST_JOBS + 20 {
            std::fs::create_dir_all(parent.join(format!("job_{n}"))).unwrap();
        }
        std::fs::create_dir_all(parent.join(format!("job_{}", "9".repeat(200)))).unwrap();
        std::fs::write(parent.join("job_1/cpu.stat"), "user_usec 1\n".repeat(100_000)).unwrap();
        std::os::unix::fs::symlink(&parent, parent.join("job_77777")).unwrap();
        std::os::unix::fs::symlink("..", dir.join("cgroup/loop")).unwrap();
        let mut cgroups = Cgroups::new(dir.join("cgroup"), dir.join("proc"));
        let n_jobs = (0..ROOTS_AFTER).map(|_| cgroups.read().len()).last();
        assert_eq!(n_jobs, Some(MOST_JOBS));
    }

    #[test]
    fn a_cgroup_and_the_pages_of_its_processes_are_one_job() {
        let name = |text: &str| Name::cut(text.as_bytes());
        let reading = |ns| GroupReading { cpu_user_ns: Some(ns), ..GroupReading::default() };
        let job = |ns| GroupJob {
            id: JobId::new("42").unwrap(),
            owner: GroupOwner { uid: 1000, name: name("batch"), ..GroupOwner::default() },
            start_ns: 100,
            inode: 5,
            reading: reading(ns),
        };
        let mut leaf = Leaf::new(name("n1"), iotide_ledger::Limits::default());
        let mut groups = ReportedGroups::default();
        let mut earlier = |_: &Name, _: u32, _: &JobId| Earlier::default();
        groups.tell(200, &[job(7)], &mut leaf, &mut earlier);
        // A process of it says what it is, and which cluster this is.
        let about = About {
            name: name("sim"),
            command: "sim -x".to_owned(),
            size: 1,
            trust: Trust::Cgroup,
            ..About::default()
        };
        let process = Process { cluster: name("tide"), start_ns: 300, about, ..job(0).process() };
        leaf.adopt(300, PageId::new("1.page:1"), process, |_, _, _| Earlier::default()).unwrap();
        groups.tell(400, &[job(9)], &mut leaf, &mut earlier);
        let view = leaf.view(500);
        assert_eq!((view.jobs.len(), view.n_pages), (1, 1));
        let shown = &view.jobs[0];
        assert_eq!((shown.about.name.as_str(), shown.n_running), ("sim", 1));
        assert_eq!(shown.counters.get(&Metric::System(SystemCounter::CpuUser.into())).ns, 9);
        let acts = leaf.tick(500);
        leaf.stored(&acts);
        // It ends when both are gone, with what it had come to.
        leaf.gone(600, &PageId::new("1.page:1"), None);
        groups.tell(700, &[], &mut leaf, &mut earlier);
        let acts = leaf.tick(700);
        assert!(
            acts.iter().any(
                |act| matches!(act, crate::leaf::Act::Finish { loss: None, page, .. } if page.is_group())
            )
        );
        leaf.stored(&acts);
        assert!(leaf.tick(2_000_000_000).iter().any(|act| act.ended().is_some()));
        assert_eq!(leaf.view(0).jobs[0].counters.get(&Metric::System(SystemCounter::CpuUser.into())).ns, 9);
    }

    #[test]
    fn a_cgroup_that_went_while_no_daemon_ran_is_a_loss() {
        let key = JobKey { cluster: Name::default(), uid: 1000, id: JobId::new("42").unwrap(), start_ns: 5 };
        let page = PageId::of_group("42", 5);
        let mut leaf = Leaf::new(Name::default(), iotide_ledger::Limits::default());
        let known = Earlier {
            job: Some((key, About::default())),
            pages: vec![(page.clone(), Counters::default())],
            ..Earlier::default()
        };
        leaf.restore(100, known);
        assert_eq!(leaf.view(100).jobs[0].n_running, 0);
        ReportedGroups::default().tell(200, &[], &mut leaf, &mut |_, _, _| Earlier::default());
        assert!(
            leaf.tick(200)
                .iter()
                .any(|act| matches!(act, crate::leaf::Act::Finish { loss: Some(Refusal::PageGone), .. }))
        );
    }

    proptest! {
        #[test]
        fn any_text_comes_to_an_end(text in "\\PC{0,200}", other in "[0-9: =a-zA-Z\n]{0,200}") {
            for text in [&text, &other] {
                let _ = (io_stat(text), blkio(text, text), field(text, "user_usec"), real_uid(text), is_job(text));
            }
        }

        #[test]
        fn sums_saturate(a in any::<u64>(), b in any::<u64>()) {
            let text = format!("8:0 rbytes={a} wbytes={b}\n8:1 rbytes={b} wbytes={a} rios=x\n");
            let sum = a.saturating_add(b);
            prop_assert_eq!(io_stat(&text), Some([(0, sum), (0, sum)]));
        }
    }
}
