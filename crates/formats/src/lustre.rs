//! Lustre `job_stats`: what each job asked of each server target, counted since the job was first seen.
//!
//! ```text
//! obdfilter.scratch-OST0000.job_stats=
//! job_stats:
//! - job_id:          4711
//!   snapshot_time:   1700000010.000000000 secs.nsecs
//!   start_time:      1700000000.000000000 secs.nsecs
//!   write_bytes:     { samples: 16, unit: bytes, min: 4096, max: 1048576, sum: 16777216 }
//!   setattr:         { samples: 1, unit: reqs }
//! ```
//!
//! A file holds one snapshot or many, of one target or many. Between two snapshots of one job on one target lies one
//! bin. What was counted before the first is spread from `start_time` on, which Lustre states since 2.15; without it
//! nobody knows when it was.
//!
//! Parsing of lines is in [`lines`], which also serves those who only count requests.

use std::collections::HashMap;
use std::ops::ControlFlow;

use iotide_trace::{Event, EventSink, FileId, Grain, Layer, Op, Rank, Timestamp, TraceInfo};
use iotide_wire::Fnv1a;

use crate::{
    Place, budget::NameBudget, error::Fault, files::Files, input::Input, losses::Losses, scanner::Scanner,
};

use self::lines::{Line, Totals, target_of};

pub use self::lines::requests_by_job;

mod lines;

const LONGEST_LINE: usize = 64 << 10;
/// Jobs times targets.
const MOST_SERIES: usize = 1 << 18;
/// Counters of one entry; Lustre has about 20.
const MOST_COUNTERS: usize = 256;

/// Whether a file begins like one of these.
pub(crate) fn recognises(head: &[u8]) -> bool {
    let mut lines = head.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    first == b"job_stats:" || target_of(first).is_some()
}

/// Reads one file.
pub(crate) fn read(input: Input, sink: &mut dyn EventSink) -> Result<TraceInfo, Fault> {
    let mut scanner = Scanner::new(input.into_read());
    let mut decoder = Decoder::default();
    let (flow, number) = scanner.lines(LONGEST_LINE, |line, number| decoder.line(line, number, sink))?;
    Ok(decoder.finish(number, flow, sink))
}

#[derive(Default)]
struct Decoder {
    target: Vec<u8>,
    entry: Option<Entry>,
    /// The last snapshot of each job on each target.
    known: HashMap<(Vec<u8>, Vec<u8>), Known>,
    budget: NameBudget,
    files: Files,
    losses: Losses,
}

/// One job's counters at one time.
#[derive(Default)]
struct Entry {
    job: Vec<u8>,
    snapshot: Option<Timestamp>,
    start: Option<Timestamp>,
    counters: Vec<(Counter, Totals)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counter {
    op: Op,
    /// Two counters may be of one kind (`mkdir`, `rmdir`): a hash of the name distinguishes them.
    name_hash: Fnv1a,
}

struct Known {
    snapshot: Timestamp,
    counters: Vec<(Counter, Totals)>,
    file: FileId,
    /// Counted before the first snapshot, at a time nobody stated.
    undated: bool,
    n_snapshots: u64,
}

impl Decoder {
    fn line(&mut self, line: &[u8], number: u64, sink: &mut dyn EventSink) -> ControlFlow<()> {
        match Line::of(line) {
            Line::Blank => {}
            Line::Target(target) => {
                let flow = self.end_of_entry(number, sink);
                self.target = target.to_vec();
                return flow;
            }
            Line::Job(job) => {
                let flow = self.end_of_entry(number, sink);
                self.entry = Some(Entry { job: job.to_vec(), ..Entry::default() });
                return flow;
            }
            Line::Field(name, value) if self.entry.is_some() => self.field(name, value, number),
            Line::Field(..) | Line::Other => {
                self.losses.note("line", Place::Line(number), || "not a line of job_stats".into());
            }
        }
        ControlFlow::Continue(())
    }

    /// Takes a field of the entry that has begun.
    fn field(&mut self, name: &[u8], value: &[u8], number: u64) {
        let Some(entry) = &mut self.entry else { return };
        match name {
            b"snapshot_time" => entry.snapshot = seconds(value),
            b"start_time" => entry.start = seconds(value),
            b"elapsed_time" => {}
            _ => {
                let Some(op) = op_of(name) else { return };
                let Some(totals) = Totals::of(value, op.moves_data()) else {
                    self.losses.note("counter", Place::Line(number), || {
                        "a counter without a number of samples".into()
                    });
                    return;
                };
                if entry.counters.len() < MOST_COUNTERS {
                    entry.counters.push((Counter { op, name_hash: Fnv1a::of(name) }, totals));
                }
            }
        }
    }

    fn end_of_entry(&mut self, number: u64, sink: &mut dyn EventSink) -> ControlFlow<()> {
        let Some(entry) = self.entry.take() else { return ControlFlow::Continue(()) };
        let Some(snapshot) = entry.snapshot else {
            self.losses.note("time", Place::Line(number), || "an entry without a snapshot_time".into());
            return ControlFlow::Continue(());
        };
        let key = (self.target.clone(), entry.job);
        if let Some(known) = self.known.get_mut(&key) {
            if snapshot <= known.snapshot {
                if snapshot < known.snapshot || entry.counters != known.counters {
                    self.losses.note("order", Place::Line(number), || {
                        "a snapshot that is not after the one before".into()
                    });
                }
                return ControlFlow::Continue(());
            }
            let span = (known.snapshot, snapshot);
            let before = std::mem::replace(&mut known.counters, entry.counters);
            known.snapshot = snapshot;
            known.n_snapshots += 1;
            for &(counter, now) in &known.counters {
                let then =
                    before.iter().find(|(it, _)| *it == counter).map_or(Totals::default(), |(_, then)| *then);
                emit(counter.op, since(then, now), Grain::Bin, known.file, span, sink)?;
            }
            return ControlFlow::Continue(());
        }
        let fits = self.budget.takes(&key.0) && self.budget.takes(&key.1);
        if self.known.len() >= MOST_SERIES || !fits {
            self.losses.note("many", Place::Line(number), || "too many jobs and targets to follow".into());
            return ControlFlow::Continue(());
        }
        let file = self.files.id_of_bytes(&[&key.0[..], b":", &key.1].concat());
        let start = entry.start.filter(|&start| start <= snapshot);
        if let Some(start) = start {
            for &(counter, totals) in &entry.counters {
                emit(counter.op, totals, Grain::Record, file, (start, snapshot), sink)?;
            }
        }
        let undated = start.is_none() && entry.counters.iter().any(|(_, totals)| totals.samples > 0);
        self.known.insert(key, Known { snapshot, counters: entry.counters, file, undated, n_snapshots: 1 });
        ControlFlow::Continue(())
    }

    fn finish(mut self, number: u64, flow: ControlFlow<()>, sink: &mut dyn EventSink) -> TraceInfo {
        let mut flow = if flow.is_continue() { self.end_of_entry(number, sink) } else { flow };
        let jobs: std::collections::BTreeSet<&[u8]> =
            self.known.keys().map(|(_, job)| job.as_slice()).collect();
        let mut info = TraceInfo::default();
        if let (1, Some(job)) = (jobs.len(), jobs.first()) {
            info.job.job_id = Some(String::from_utf8_lossy(job).into_owned());
        }
        // In the order of the file table, so that a run is its input.
        let mut known: Vec<&Known> = self.known.values().filter(|known| known.undated).collect();
        known.sort_by_key(|known| known.file);
        for known in known {
            if known.n_snapshots > 1 {
                self.losses.note_of_unknown_size("undated", Place::Whole, || {
                    "what was counted before the first snapshot is left out: no start_time says when it was".into()
                });
                continue;
            }
            self.losses.note_of_unknown_size("single", Place::Whole, || {
                "one snapshot without a start_time: all of it is put at the time of the snapshot".into()
            });
            for &(counter, totals) in &known.counters {
                if flow.is_continue() {
                    flow = emit(
                        counter.op,
                        totals,
                        Grain::Record,
                        known.file,
                        (known.snapshot, known.snapshot),
                        sink,
                    );
                }
            }
        }
        info.files = self.files.into_paths(&mut self.losses);
        self.losses.report(sink);
        info
    }
}

fn emit(
    op: Op,
    totals: Totals,
    grain: Grain,
    file: FileId,
    (start, end): (Timestamp, Timestamp),
    sink: &mut dyn EventSink,
) -> ControlFlow<()> {
    if totals == Totals::default() {
        return ControlFlow::Continue(());
    }
    let calls = u32::try_from(totals.samples).unwrap_or(u32::MAX);
    let bytes = totals.bytes as f64;
    sink.event(Event { op, layer: Layer::Server, grain, rank: Rank::ALL, file, start, end, bytes, calls })
}

/// Returns the counts between two snapshots. Fewer than before: the counters were cleared in between.
fn since(then: Totals, now: Totals) -> Totals {
    if now.samples < then.samples || now.bytes < then.bytes {
        return now;
    }
    Totals { samples: now.samples - then.samples, bytes: now.bytes - then.bytes }
}

/// Returns the operation that a counter counts; `None` for latencies and for what is no operation.
fn op_of(name: &[u8]) -> Option<Op> {
    Some(match name {
        b"read_bytes" => Op::Read,
        b"write_bytes" => Op::Write,
        b"open" => Op::Open,
        b"close" => Op::Close,
        b"getattr" | b"statfs" | b"get_info" => Op::Stat,
        b"sync" => Op::Sync,
        b"setattr"
        | b"punch"
        | b"create"
        | b"destroy"
        | b"mknod"
        | b"link"
        | b"unlink"
        | b"mkdir"
        | b"rmdir"
        | b"rename"
        | b"getxattr"
        | b"setxattr"
        | b"samedir_rename"
        | b"parallel_rename_file"
        | b"parallel_rename_dir"
        | b"crossdir_rename"
        | b"set_info"
        | b"quotactl"
        | b"prealloc"
        | b"migrate"
        | b"fallocate" => Op::Other,
        _ => return None,
    })
}

/// "1700000010.5 secs.nsecs", "1700000010"
fn seconds(value: &[u8]) -> Option<Timestamp> {
    let number = value.split(|&byte| byte == b' ').next()?;
    Timestamp::from_secs_since_start(crate::number::parse_f64(number)?).filter(|at| at.as_nanos() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_trace::Trace;

    fn read_text(text: &str) -> Trace {
        assert!(recognises(text.as_bytes()));
        crate::testing::read_by(read, text)
    }

    fn snapshot(job: &str, at: u64, start: Option<u64>, written: u64, opens: u64) -> String {
        let start =
            start.map_or(String::new(), |at| format!("  start_time:      {at}.000000000 secs.nsecs\n"));
        format!(
            "job_stats:\n- job_id:          {job}\n  snapshot_time:   {at}.000000000 secs.nsecs\n{start}  \
             read_bytes:      {{ samples:           0, unit: bytes, min:       0, max:       0, sum:               0 }}\n  \
             write_bytes:     {{ samples:          {}, unit: bytes, min: 4096, max: 4096, sum: {written}, sumsq: 9 }}\n  \
             write:           {{ samples:          {}, unit: usecs, min: 1, max: 2, sum: 5000 }}\n  \
             open:            {{ samples:          {opens}, unit:  reqs }}\n",
            written / 4096,
            written / 4096,
        )
    }

    fn shown(trace: &Trace) -> Vec<String> {
        trace
            .events
            .iter()
            .map(|event| {
                let Event { op, grain, start, end, bytes, calls, .. } = event;
                let file = &trace.info.files[event.file.0 as usize];
                format!(
                    "{} {grain:?} {}..{} {bytes} x{calls} {file}",
                    op.name(),
                    start.as_secs(),
                    end.as_secs()
                )
            })
            .collect()
    }

    #[test]
    fn between_two_snapshots_lies_one_bin() {
        let text = [
            "obdfilter.fs-OST0001.job_stats=\n".to_owned(),
            snapshot("77", 110, Some(100), 4096, 1),
            snapshot("77", 120, Some(100), 12288, 1),
            snapshot("77", 130, Some(100), 12288, 3),
        ]
        .concat();
        let trace = read_text(&text);
        assert_eq!(
            shown(&trace),
            [
                "write Record 100..110 4096 x1 fs-OST0001:77",
                "open Record 100..110 0 x1 fs-OST0001:77",
                "write Bin 110..120 8192 x2 fs-OST0001:77",
                "open Bin 120..130 0 x2 fs-OST0001:77",
            ]
        );
        assert_eq!(trace.info.job.job_id.as_deref(), Some("77"));
        assert_eq!(trace.losses, []);
    }

    #[test]
    fn what_was_before_the_first_snapshot_is_a_loss_if_nobody_says_since_when() {
        let trace =
            read_text(&[snapshot("a", 110, None, 4096, 0), snapshot("a", 120, None, 8192, 0)].concat());
        assert_eq!(shown(&trace), ["write Bin 110..120 4096 x1 :a"]);
        assert_eq!(trace.losses.len(), 1);
        let trace = read_text(&snapshot("a", 110, None, 4096, 0));
        assert_eq!(shown(&trace), ["write Record 110..110 4096 x1 :a"]);
        assert_eq!(trace.losses.len(), 1);
    }

    #[test]
    fn counters_that_were_cleared_begin_again() {
        let texts = [snapshot("a", 10, Some(1), 8192, 5), snapshot("a", 20, Some(1), 4096, 6)];
        let trace = read_text(&texts.concat());
        assert_eq!(shown(&trace)[2..], ["write Bin 10..20 4096 x1 :a", "open Bin 10..20 0 x1 :a"]);
    }
}
