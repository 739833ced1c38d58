//! I/O issues of a job that a daemon counts: the same checks as for a log, on the counters there are.

use std::collections::BTreeMap;

use iotide_analysis::{IssueConfig, Issues, issues};
use iotide_ledger::{Counters, Metric};
use iotide_look::text::Rows;
use iotide_trace::{
    ActivitySums, FileId, FileRecord, JobInfo, Layer, Rank, SMALL_BELOW_BYTES, SmallCalls, WayRecord,
};

use crate::issue::RunIssues;
use crate::jobs::JobDocument;

/// Calls of one kind, on one file system.
struct Counted<'a> {
    op: &'a str,
    layer: &'a str,
    fs: &'a str,
    calls: u64,
    bytes: f64,
    seconds: f64,
}

/// Returns the issues of a job of `n_ranks` processes that has run for `run_s`, from what it has counted.
pub fn issues_of_counters(counters: &Counters, n_ranks: u64, run_s: f64) -> Issues {
    let cells = counters.iter().filter_map(|(metric, cell)| match metric {
        Metric::Io { op, layer, fs } => Some(Counted {
            op: op.as_str(),
            layer: layer.as_str(),
            fs: fs.as_str(),
            calls: cell.calls,
            bytes: cell.bytes as f64,
            seconds: cell.ns as f64 / 1e9,
        }),
        _ => None,
    });
    judged(cells, n_ranks, run_s)
}

impl JobDocument {
    /// Returns the I/O issues of the job so far; `None` if nobody knows how long it has run.
    pub fn judged(&self) -> Option<RunIssues> {
        let cells = self.io.by.iter().map(|cell| Counted {
            op: cell.op.as_said(),
            layer: cell.layer.as_said(),
            fs: cell.fs.as_said(),
            calls: cell.calls,
            bytes: cell.bytes as f64,
            seconds: cell.seconds,
        });
        Some(RunIssues::from(&judged(cells, self.entry.size.max(1).into(), self.run_time_s?)))
    }

    /// Returns its issues as a section of the text; empty if nobody knows how long it has run.
    pub(crate) fn issues_in_words(&self, width: usize) -> String {
        let Some(found) = self.judged() else { return String::new() };
        let mut rows = Rows::default();
        found.add_rows(&mut rows);
        format!("\nI/O issues\n{}", rows.render(width, str::to_owned))
    }
}

fn judged<'a>(cells: impl Iterator<Item = Counted<'a>>, n_ranks: u64, run_s: f64) -> Issues {
    let mut names: BTreeMap<FileId, String> = BTreeMap::new();
    let mut ids: BTreeMap<(&str, bool), FileId> = BTreeMap::new();
    let mut records: BTreeMap<(FileId, Layer), FileRecord> = BTreeMap::new();
    for cell in cells {
        let layer = match cell.layer {
            "posix" | "beneath" => Layer::Posix,
            "stdio" => Layer::Stdio,
            "mpiio" => Layer::MpiIo,
            _ => continue,
        };
        // MPI-IO and what is beneath it move the same bytes; other calls on that file system move others.
        let is_mpi = matches!(cell.layer, "mpiio" | "beneath");
        let next = FileId(ids.len() as u32);
        let file = *ids.entry((cell.fs, is_mpi)).or_insert(next);
        names.entry(file).or_insert_with(|| cell.fs.to_owned());
        // Nothing tells files apart, so no count by file can be judged.
        let empty = FileRecord { n_files: 0, ..FileRecord::new(file, Rank::ALL, layer) };
        let record = records.entry((file, layer)).or_insert(empty);
        match cell.op {
            "read" => record.reads = way(&cell),
            "write" => record.writes = way(&cell),
            "sync" => {
                record.syncs += cell.calls;
                *record.sync_s.get_or_insert(0.0) += cell.seconds;
            }
            op => {
                record.opens += if op == "open" { cell.calls } else { 0 };
                record.metadata_s += cell.seconds;
            }
        }
    }
    let seen = ActivitySums {
        n_ranks: n_ranks as usize,
        records: records.into_values().collect(),
        named_files: names,
        ..ActivitySums::default()
    };
    let job = JobInfo { n_procs: Some(n_ranks), run_time_s: Some(run_s), ..JobInfo::default() };
    issues(&seen, &job, &[], &IssueConfig::default())
}

/// Reads or writes; of the sizes only the mean is known, so at least so many calls are small.
fn way(cell: &Counted) -> WayRecord {
    let n_large = ((cell.bytes / SMALL_BELOW_BYTES) as u64).min(cell.calls);
    let calls = cell.calls - n_large;
    let bytes = if n_large == 0 { cell.bytes } else { 0.0 };
    let mean = cell.bytes / cell.calls.max(1) as f64;
    let bytes = bytes.max(calls as f64 * mean.min(SMALL_BELOW_BYTES)).min(cell.bytes);
    WayRecord {
        calls: cell.calls,
        bytes: Some(cell.bytes),
        seconds: cell.seconds,
        small: Some(SmallCalls { calls, bytes, seconds: None }),
        ..WayRecord::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_ledger::{Cell, Name};

    fn job(op: &str, calls: u64, bytes: u64, seconds: u64) -> Issues {
        let name = |text: &str| Name::cut(text.as_bytes());
        let mut counters = Counters::default();
        let metric = Metric::Io { op: op.into(), layer: "posix".into(), fs: name("/scratch") };
        counters.add(metric, Cell { calls, bytes, ns: seconds * 1_000_000_000 });
        issues_of_counters(&counters, 4, 100.0)
    }

    #[test]
    fn many_small_writes_of_a_running_job_are_an_issue_with_a_gain_and_large_ones_are_not() {
        // 4 ranks, 60 s each of 100 s, 1 KiB a call.
        let found = job("write", 1 << 20, 1 << 30, 240);
        let issue = &found.found[0];
        assert_eq!(issue.id.name(), "small_writes");
        // All but the 1024 calls that could be of a mebibyte.
        assert!((issue.gain.unwrap().of_run - 0.54).abs() < 1e-3, "{issue:?}");
        let large = job("write", 1 << 10, 64 << 30, 240);
        assert!(large.found.iter().all(|issue| issue.id.name() != "small_writes"), "{large:?}");
        assert!(large.not_judged.iter().any(|not| not.id == "misaligned"));
    }

    #[test]
    fn syncs_at_the_end_of_each_file_are_not_too_many() {
        let name = |text: &str| Name::cut(text.as_bytes());
        let of = |opens: u64| {
            let mut counters = Counters::default();
            for (op, calls, bytes) in [("open", opens, 0), ("write", 1000, 1 << 30), ("sync", 1000, 0)] {
                let metric = Metric::Io { op: op.into(), layer: "posix".into(), fs: name("/scratch") };
                counters.add(metric, Cell { calls, bytes, ns: 40_000_000_000 });
            }
            let found = issues_of_counters(&counters, 4, 100.0).found;
            found.iter().any(|issue| issue.id.name() == "excessive_sync")
        };
        assert!(of(1) && !of(1000));
    }

    #[test]
    fn metadata_of_a_running_job_is_judged_by_its_time() {
        let found = job("open", 1000, 0, 200);
        assert_eq!(found.found[0].id.name(), "metadata_time");
        assert!((found.found[0].gain.unwrap().of_run - 0.3).abs() < 1e-9);
    }
}
