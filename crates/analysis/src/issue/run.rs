//! A run as the checks look at it: each file once, at the highest layer that has a record of it.

use std::collections::{BTreeMap, HashMap, HashSet};

use iotide_trace::{ActivitySums, FileId, FileRecord, JobInfo, Layer, Mount, Rank, WayRecord};

use super::cost::Cost;
use super::no_io::{is_no_file, is_python_import, waits_like_a_fifo};
use super::phases::{Phase, phases};
use super::{IssueConfig, IssueThresholds};

/// Reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Way {
    Read,
    Write,
}

impl Way {
    pub(super) const BOTH: [Way; 2] = [Way::Read, Way::Write];

    pub(super) fn of(self, record: &FileRecord) -> &WayRecord {
        match self {
            Way::Read => &record.reads,
            Way::Write => &record.writes,
        }
    }
}

/// A run with its files.
pub(super) struct Run<'a> {
    pub(super) thresholds: &'a IssueThresholds,
    /// Wall time; `None` if it is not known, or the log is that of one process of several.
    pub(super) run_s: Option<f64>,
    /// Whether the wall time is in whole seconds.
    pub(super) whole_seconds: bool,
    pub(super) n_ranks: f64,
    pub(super) n_nodes: Option<u64>,
    pub(super) is_one_of_several: bool,
    pub(super) files: Vec<FileUse<'a>>,
    /// Storage targets of the file system.
    pub(super) n_targets: Option<u32>,
    /// Time in I/O by rank.
    pub(super) io: Cost,
    /// Best bytes per second of one rank, in reads and in writes.
    best_rank_bps: [f64; 2],
    /// Best bytes per second of one storage target, in reads and in writes.
    best_target_bps: [f64; 2],
    pub(super) phases: Vec<Phase>,
    /// How finely the ends of phases are known.
    pub(super) bin_s: f64,
    pub(super) n_imports: usize,
    mounts: Vec<Mount>,
}

/// Operations on one file, layer by layer.
pub(super) struct FileUse<'a> {
    pub(super) name: Option<&'a str>,
    pub(super) posix: Layered<'a>,
    pub(super) stdio: Layered<'a>,
    pub(super) mpi: Layered<'a>,
    pub(super) library: Layered<'a>,
    /// Storage targets that hold it.
    pub(super) targets: &'a [u32],
    pub(super) is_import: bool,
}

/// The records of one file in one layer.
#[derive(Default)]
pub(super) struct Layered<'a> {
    pub(super) records: Vec<&'a FileRecord>,
    /// Their sum.
    pub(super) sum: Option<FileRecord>,
}

impl<'a> Layered<'a> {
    fn push(&mut self, record: &'a FileRecord) {
        match &mut self.sum {
            Some(sum) => sum.join(record),
            None => self.sum = Some(*record),
        }
        self.records.push(record);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(super) fn way(&self, way: Way) -> WayRecord {
        self.sum.as_ref().map_or(WayRecord::default(), |sum| *way.of(sum))
    }

    pub(super) fn bytes(&self) -> f64 {
        self.sum.as_ref().map_or(0.0, FileRecord::bytes)
    }

    pub(super) fn seconds(&self) -> f64 {
        self.sum.as_ref().map_or(0.0, FileRecord::seconds)
    }

    /// Ranks that used it.
    pub(super) fn n_users(&self, n_ranks: f64) -> f64 {
        let of = |record: &&FileRecord| match (record.rank, record.n_ranks) {
            (Rank::ALL, 0) => n_ranks,
            (Rank::ALL, some) => f64::from(some),
            _ => 1.0,
        };
        self.records.iter().map(of).sum::<f64>().min(n_ranks)
    }

    /// The longest that a rank spends in it.
    pub(super) fn slowest_s(&self, n_ranks: f64) -> f64 {
        let mut cost = Cost::default();
        self.records.iter().for_each(|record| cost.add(record, record.seconds(), n_ranks));
        cost.busiest()
    }
}

impl<'a> FileUse<'a> {
    /// The layers whose time counts: MPI-IO, else POSIX and C streams, else a library.
    pub(super) fn top(&self) -> Vec<&'a FileRecord> {
        if self.mpi.seconds() > 0.0 {
            return self.mpi.records.clone();
        }
        let low: Vec<&FileRecord> = self.posix.records.iter().chain(&self.stdio.records).copied().collect();
        if low.is_empty() { self.library.records.clone() } else { low }
    }

    /// Whether most MPI-IO calls of a direction are collective.
    pub(super) fn is_collective(&self, way: Way) -> bool {
        let mpi = self.mpi.way(way);
        mpi.calls > 0 && mpi.collective.is_some_and(|collective| 2 * collective >= mpi.calls)
    }

    /// Whether POSIX saw what MPI-IO asked for.
    pub(super) fn is_seen_beneath(&self) -> bool {
        let known = |way: WayRecord| way.calls == 0 || way.bytes.is_some();
        let asked = self.mpi.bytes();
        !self.posix.is_empty()
            && Way::BOTH.into_iter().all(|way| known(self.mpi.way(way)))
            && self.posix.bytes() >= 0.9 * asked
    }

    /// Ranks that move the bytes beneath collective calls: those with at least a hundredth of the largest.
    pub(super) fn n_aggregators(&self, way: Way, n_ranks: f64) -> f64 {
        // Where reads find nothing, those who write are the ones who read.
        let moves = self.posix.way(way).bytes() > 0.0;
        let bytes_of = |record: &FileRecord| if moves { way.of(record).bytes() } else { record.bytes() };
        let mut k = 0.0;
        let largest = self.posix.records.iter().map(|record| bytes_of(record)).fold(0.0, f64::max);
        for record in &self.posix.records {
            let bytes = bytes_of(record);
            if record.rank != Rank::ALL {
                k += f64::from(bytes > 0.0 && 100.0 * bytes >= largest);
            } else if let Some(slowest) = record.slowest.filter(|slowest| slowest.bytes > 0.0) {
                k += (record.bytes() / slowest.bytes).round().clamp(1.0, n_ranks);
            } else {
                k += n_ranks;
            }
        }
        k.clamp(1.0, n_ranks)
    }

    /// The folder it is in.
    pub(super) fn directory(&self) -> Option<&'a str> {
        self.name?.rsplit_once('/').map(|(directory, _)| directory).filter(|directory| !directory.is_empty())
    }
}

impl<'a> Run<'a> {
    pub(super) fn of(seen: &'a ActivitySums, job: &JobInfo, config: &'a IssueConfig) -> Self {
        let is_one_of_several = job.n_told.is_some_and(|told| job.n_procs.is_some_and(|n| told < n));
        let n_ranks = job.n_compared().map_or(seen.n_ranks as f64, |n| n as f64).max(1.0);
        let span_s = seen.span.map(|span| span.end.secs_since(span.start));
        let run_s = job.run_time_s.into_iter().chain(span_s).fold(0.0, f64::max);
        let run_s = Some(run_s).filter(|run_s| *run_s > 0.0 && !is_one_of_several);
        let whole_seconds =
            job.run_time_s.is_some_and(|stated| run_s == Some(stated) && stated.fract() == 0.0);
        let files = files_of(seen, run_s, n_ranks);
        let mut io = Cost::default();
        for record in files.iter().flat_map(FileUse::top) {
            io.add(record, record.seconds(), n_ranks);
        }
        let mut run = Self {
            thresholds: &config.thresholds,
            run_s,
            whole_seconds,
            n_ranks,
            n_nodes: job.n_nodes,
            is_one_of_several,
            n_imports: files.iter().filter(|file| file.is_import).count(),
            files,
            n_targets: seen.n_targets,
            io,
            best_rank_bps: [config.thresholds.rank_bps; 2],
            best_target_bps: [config.thresholds.target_bps; 2],
            phases: phases(seen),
            bin_s: seen.heat.bin_s,
            mounts: job.mounts.clone(),
        };
        run.find_best_rates();
        run
    }

    /// Raises the assumed rates to those that the log shows for requests of a mebibyte or more.
    fn find_best_rates(&mut self) {
        const LARGE: f64 = 1_048_576.0;
        let (mut ranks, mut targets) = (self.best_rank_bps, self.best_target_bps);
        for file in &self.files {
            for (i, way) in Way::BOTH.into_iter().enumerate() {
                let layered = if file.posix.is_empty() { &file.mpi } else { &file.posix };
                for record in &layered.records {
                    let moved = way.of(record);
                    if moved.calls > 0 && moved.bytes() >= LARGE * moved.calls as f64 && moved.seconds > 0.0 {
                        ranks[i] = ranks[i].max(moved.bytes() / moved.seconds);
                    }
                }
                let moved = layered.way(way);
                let slowest_s = layered.slowest_s(self.n_ranks);
                let is_large = moved.calls > 0 && moved.bytes() >= LARGE * moved.calls as f64;
                if is_large && !file.targets.is_empty() && slowest_s > 0.0 {
                    targets[i] = targets[i].max(moved.bytes() / slowest_s / file.targets.len() as f64);
                }
            }
        }
        (self.best_rank_bps, self.best_target_bps) = (ranks, targets);
    }

    pub(super) fn rank_bps(&self, way: Way) -> f64 {
        self.best_rank_bps[way as usize]
    }

    pub(super) fn target_bps(&self, way: Way) -> f64 {
        self.best_target_bps[way as usize]
    }

    /// Time in I/O of the busiest rank, at most the run.
    pub(super) fn io_s(&self) -> f64 {
        self.io.busiest().min(self.run_s.unwrap_or(f64::INFINITY))
    }

    /// The kind of the file system that a folder is on, where the mounts are known.
    pub(super) fn file_system(&self, directory: &str) -> Option<&str> {
        let holds = |mount: &&Mount| {
            let rest = directory.strip_prefix(mount.path.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.mounts.iter().filter(holds).max_by_key(|mount| mount.path.len()).map(|mount| mount.kind.as_str())
    }

    /// Files that are data of the program.
    pub(super) fn data_files(&self) -> impl Iterator<Item = (usize, &FileUse<'a>)> {
        self.files.iter().enumerate().filter(|(_, file)| !file.is_import)
    }
}

fn files_of<'a>(seen: &'a ActivitySums, run_s: Option<f64>, n_ranks: f64) -> Vec<FileUse<'a>> {
    let mut no_files: HashSet<FileId> = HashSet::new();
    for (file, name) in &seen.named_files {
        if is_no_file(name) {
            no_files.insert(*file);
        }
    }
    if let Some(run_s) = run_s {
        for record in &seen.records {
            let members = if record.rank == Rank::ALL { n_ranks } else { 1.0 };
            if waits_like_a_fifo(record, run_s * members) && record.file != FileId::NONE {
                no_files.insert(record.file);
            }
        }
    }
    let targets: HashMap<FileId, &[u32]> =
        seen.layouts.iter().map(|layout| (layout.file, layout.targets.as_slice())).collect();
    // One name may have several numbers, in runs put together of several logs.
    let mut places: BTreeMap<(Option<&str>, FileId), usize> = BTreeMap::new();
    let mut files: Vec<FileUse> = Vec::new();
    for record in seen.records.iter().filter(|record| !no_files.contains(&record.file)) {
        let name = seen.named_files.get(&record.file).map(String::as_str);
        let key = (name, if name.is_some() { FileId::NONE } else { record.file });
        let place = *places.entry(key).or_insert(files.len());
        if place == files.len() {
            files.push(FileUse {
                name,
                posix: Layered::default(),
                stdio: Layered::default(),
                mpi: Layered::default(),
                library: Layered::default(),
                targets: targets.get(&record.file).copied().unwrap_or_default(),
                is_import: name.is_some_and(is_python_import),
            });
        }
        let file = &mut files[place];
        match record.layer {
            Layer::MpiIo => file.mpi.push(record),
            Layer::Stdio => file.stdio.push(record),
            Layer::Library => file.library.push(record),
            Layer::Posix | Layer::Unknown => file.posix.push(record),
            Layer::Server => {}
        }
    }
    files
}
