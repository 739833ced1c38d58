//! Runs made of counters, for tests.

use iotide_trace::{
    ActivitySums, FileId, FileLayout, FileRecord, HeatMap, HeatRow, JobInfo, Layer, Rank, RankShare,
    SmallCalls, WayRecord,
};

use super::{Issue, IssueConfig, Issues, issues};

pub(super) const MIB: f64 = 1_048_576.0;

/// A run of some ranks and seconds.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) seen: ActivitySums,
    pub(super) job: JobInfo,
}

impl Made {
    pub(super) fn new(n_ranks: u64, run_s: f64) -> Self {
        // Not a whole number of seconds, which would widen intervals.
        let job = JobInfo { n_procs: Some(n_ranks), run_time_s: Some(run_s), ..JobInfo::default() };
        Self { seen: ActivitySums { n_ranks: n_ranks as usize, ..ActivitySums::default() }, job }
    }

    /// Adds a record of a file, by name.
    pub(super) fn with(mut self, name: &str, record: FileRecord) -> Self {
        let known = self.seen.named_files.iter().find(|(_, known)| *known == name).map(|(file, _)| *file);
        let file = known.unwrap_or(FileId(self.seen.named_files.len() as u32));
        self.seen.named_files.insert(file, name.to_owned());
        self.seen.records.push(FileRecord { file, ..record });
        self
    }

    /// Puts a file on storage targets, of `known`.
    pub(super) fn on(mut self, name: &str, targets: &[u32], known: u32) -> Self {
        let file = self.seen.named_files.iter().find(|(_, known)| *known == name).map(|(file, _)| *file);
        self.seen.layouts.push(FileLayout { file: file.unwrap(), targets: targets.to_vec() });
        self.seen.n_targets = Some(known);
        self
    }

    /// Gives the run write phases of so many seconds each, one every ten seconds.
    pub(super) fn with_phases(mut self, seconds: &[usize]) -> Self {
        let mut written = vec![0.0; 10 * seconds.len()];
        for (i, length) in seconds.iter().enumerate() {
            written[10 * i..10 * i + length].fill(1e9 / *length as f64);
        }
        let n_bins = written.len();
        let row = HeatRow { first: Rank(0), last: Rank(0), read: vec![0.0; n_bins], written };
        self.seen.heat = HeatMap { start_s: 0.0, bin_s: 1.0, n_bins, ranks_per_row: 1, rows: vec![row] };
        self.seen.has_phases = true;
        self
    }

    pub(super) fn judged(&self) -> Issues {
        issues(&self.seen, &self.job, &[], &IssueConfig::default())
    }

    pub(super) fn find(&self, id: &str) -> Option<Issue> {
        self.judged().found.into_iter().find(|issue| issue.id.name() == id)
    }

    /// The gain of an issue; 0 if it is not there.
    pub(super) fn gain(&self, id: &str) -> f64 {
        self.find(id).map_or(0.0, |issue| issue.gain.unwrap().of_run)
    }

    /// The ids, sorted.
    pub(super) fn ids(&self) -> Vec<&'static str> {
        let mut ids: Vec<_> = self.judged().found.iter().map(|issue| issue.id.name()).collect();
        ids.sort_unstable();
        ids
    }
}

/// Calls of one size, one after the other.
pub(super) fn calls(calls: u64, request: f64, seconds: f64) -> WayRecord {
    let bytes = calls as f64 * request;
    let small = if request < MIB { calls } else { 0 };
    WayRecord {
        calls,
        bytes: Some(bytes),
        seconds,
        small: Some(SmallCalls { calls: small, bytes: if small > 0 { bytes } else { 0.0 }, seconds: None }),
        random: Some(0),
        up_to: Some(bytes),
        ..WayRecord::default()
    }
}

/// Writes of a rank by POSIX.
pub(super) fn writes(rank: i32, of: WayRecord) -> FileRecord {
    FileRecord { writes: of, opens: 1, ..FileRecord::new(FileId::NONE, Rank(rank), Layer::Posix) }
}

/// Reads of a rank by POSIX.
pub(super) fn reads(rank: i32, of: WayRecord) -> FileRecord {
    FileRecord { reads: of, opens: 1, ..FileRecord::new(FileId::NONE, Rank(rank), Layer::Posix) }
}

/// The same in another layer.
pub(super) fn in_layer(record: FileRecord, layer: Layer) -> FileRecord {
    FileRecord { layer, ..record }
}

/// All of a run's ranks together, each with the same.
pub(super) fn shared(record: FileRecord, n_ranks: u64) -> FileRecord {
    let times = |way: WayRecord| WayRecord {
        calls: way.calls * n_ranks,
        bytes: way.bytes.map(|bytes| bytes * n_ranks as f64),
        seconds: way.seconds * n_ranks as f64,
        small: way.small.map(|small| SmallCalls {
            calls: small.calls * n_ranks,
            bytes: small.bytes * n_ranks as f64,
            seconds: small.seconds.map(|seconds| seconds * n_ranks as f64),
        }),
        random: way.random.map(|random| random * n_ranks),
        up_to: way.up_to,
        collective: way.collective.map(|calls| calls * n_ranks),
        nonblocking: way.nonblocking.map(|calls| calls * n_ranks),
        calls_s: way.calls_s.map(|seconds| seconds * n_ranks as f64),
    };
    let one = RankShare { rank: Rank(0), bytes: record.bytes(), seconds: record.seconds() };
    FileRecord {
        rank: Rank::ALL,
        n_ranks: 0,
        reads: times(record.reads),
        writes: times(record.writes),
        opens: record.opens * n_ranks,
        stats: record.stats * n_ranks,
        syncs: record.syncs * n_ranks,
        metadata_s: record.metadata_s * n_ranks as f64,
        sync_s: record.sync_s.map(|seconds| seconds * n_ranks as f64),
        misaligned: record.misaligned.map(|calls| calls * n_ranks),
        slowest: Some(one),
        fastest: Some(one),
        ..record
    }
}
