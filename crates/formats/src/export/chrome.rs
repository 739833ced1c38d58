//! Events as the Trace Event JSON of Chrome, which Perfetto opens: one process a rank, one slice an event.
//!
//! Slices of one thread must not overlap unless one holds the other: Perfetto drops those that do. A rank's events may
//! (several threads, several files, counters spread over time), and come in any order. So each goes to the first lane of
//! its rank that it lies wholly before or after, and a lane is shown as a thread.

use std::collections::HashMap;
use std::io::{self, Write};

use iotide_trace::{Event, JobInfo, Loss, Rank};

use super::RowWriter;
use super::json::{Number, Quoted, job_members, loss_object};

pub(super) struct ChromeWriter<W: Write> {
    out: W,
    is_first: bool,
    lanes: HashMap<Rank, Vec<Lane>>,
}

/// The nanoseconds from the first start to the last end in a lane.
type Lane = (i64, i64);

/// A rank has at most this many lanes; what finds no room is drawn in the last one. Bounds memory, and the search.
const MOST_LANES: usize = 256;

/// A rank's threads are numbered this far apart, its first one like the rank itself, so that no two ranks share one. All
/// numbers fit into 32 bits, as Perfetto wants them, for up to 8 million ranks.
const LANE_STRIDE: i64 = 1 << 23;

/// All ranks together have no number of their own, and numbers of processes are not negative.
const ALL_RANKS: i64 = LANE_STRIDE - 1;

impl<W: Write> ChromeWriter<W> {
    pub(super) fn new(mut out: W, job: &JobInfo, losses: &[Loss]) -> io::Result<Self> {
        let mut about = job_members(job);
        let losses: Vec<_> = losses.iter().map(loss_object).collect();
        about.push(format!("\"losses\":[{}]", losses.join(",")));
        write!(
            out,
            "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{{}}},\n\"traceEvents\":[",
            about.join(",")
        )?;
        Ok(Self { out, is_first: true, lanes: HashMap::new() })
    }

    /// Returns the lane that an event goes to, and whether it is new.
    fn lane(&mut self, event: &Event) -> (usize, bool) {
        let (start, end) = (event.start.as_nanos(), event.end.as_nanos());
        let lanes = self.lanes.entry(event.rank).or_default();
        if let Some(at) = lanes.iter().position(|lane| start >= lane.1 || end <= lane.0) {
            lanes[at] = (lanes[at].0.min(start), lanes[at].1.max(end));
            return (at, false);
        }
        if lanes.len() < MOST_LANES {
            lanes.push((start, end));
            return (lanes.len() - 1, true);
        }
        (MOST_LANES - 1, false)
    }

    fn separate(&mut self) -> io::Result<()> {
        self.out.write_all(if std::mem::take(&mut self.is_first) { b"\n" } else { b",\n" })
    }

    /// Says what to call a rank or one of its lanes.
    fn name(&mut self, what: &str, pid: i64, tid: i64, name: &str) -> io::Result<()> {
        self.separate()?;
        write!(
            self.out,
            "{{\"name\":\"{what}\",\"ph\":\"M\",\"ts\":0,\"dur\":0,\"pid\":{pid},\"tid\":{tid},\"args\":{{\"name\":{}}}}}",
            Quoted(name)
        )
    }
}

impl<W: Write> RowWriter for ChromeWriter<W> {
    fn write(&mut self, event: &Event, file: Option<&str>) -> io::Result<()> {
        let (lane, is_new) = self.lane(event);
        let pid = match event.rank {
            Rank::ALL => ALL_RANKS,
            Rank(rank) => i64::from(rank).clamp(0, ALL_RANKS),
        };
        let tid = pid + lane as i64 * LANE_STRIDE;
        if is_new {
            let process = if event.rank == Rank::ALL {
                "all ranks".to_owned()
            } else {
                format!("rank {}", event.rank.0)
            };
            if lane == 0 {
                self.name("process_name", pid, tid, &process)?;
            }
            self.name("thread_name", pid, tid, &format!("{process} lane {}", lane + 1))?;
        }
        self.separate()?;
        let start = event.start.as_nanos();
        write!(
            self.out,
            "{{\"name\":\"{}\",\"cat\":\"{},{}\",\"ph\":\"X\",\"ts\":{},\"dur\":{},\"pid\":{pid},\"tid\":{tid},\
             \"args\":{{\"rank\":{},\"bytes\":{},\"calls\":{}",
            event.op.name(),
            event.layer.name(),
            event.grain.name(),
            Micros(start),
            Micros(event.end.as_nanos().saturating_sub(start)),
            event.rank.0,
            Number(event.bytes),
            event.calls,
        )?;
        if let Some(file) = file {
            write!(self.out, ",\"file\":{}", Quoted(file))?;
        }
        write!(self.out, "}}}}")
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        writeln!(self.out, "\n]}}")?;
        self.out.flush()
    }
}

/// Nanoseconds as microseconds, the unit of the format, with nothing rounded.
struct Micros(i64);

impl std::fmt::Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let nanos = self.0.unsigned_abs();
        write!(f, "{sign}{}.{:03}", nanos / 1000, nanos % 1000)
    }
}
