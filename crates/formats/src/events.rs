//! Tables of events that anyone can write, as CSV or JSON Lines.
//!
//! Columns `rank, op, start, end, bytes`, and if known `file, opens, seeks`; see `docs/formats.md`.

use std::io::{self, Write};

use iotide_trace::{Event, EventSink, FileId, Grain, JobInfo, Layer, Op, Rank, TraceInfo};

use crate::{
    error::Fault,
    files::Files,
    input::Input,
    losses::{Losses, Nonsense, amount, interval},
    rows::{Rows, Syntax, quoted},
};

const COLUMNS: &[&str] = &["rank", "op", "start", "end", "bytes", "file", "opens", "seeks"];
const RANK: usize = 0;
const OP: usize = 1;
const START: usize = 2;
const END: usize = 3;
const BYTES: usize = 4;
const FILE: usize = 5;
/// Counts of metadata calls that go with a row, and what they are.
const COUNTS: [(usize, Op); 2] = [(6, Op::Open), (7, Op::Seek)];

pub(crate) fn read(input: Input, syntax: Syntax, sink: &mut dyn EventSink) -> Result<TraceInfo, Fault> {
    let mut losses = Losses::default();
    let mut files = Files::default();
    let mut rows = Rows::open(input, syntax, COLUMNS, &mut losses)?;
    rows.require([RANK, OP, START, END, BYTES])?;
    'rows: while rows.advance(&mut losses)? {
        let event = match event(&rows, &mut files) {
            Ok(event) => event,
            Err(nonsense) => {
                losses.record(rows.place(), nonsense);
                continue;
            }
        };
        if sink.event(event).is_break() {
            break;
        }
        for (column, op) in COUNTS {
            let calls = match rows.value(column).map(|_| count(&rows, column)) {
                None | Some(Ok(0)) => continue,
                Some(Ok(calls)) => calls,
                Some(Err(nonsense)) => {
                    losses.record(rows.place(), nonsense);
                    continue;
                }
            };
            if sink.event(Event { op, bytes: 0.0, calls, ..event }).is_break() {
                break 'rows;
            }
        }
    }
    losses.report(sink);
    Ok(TraceInfo { job: rows.job, files: files.into_paths() })
}

fn event(rows: &Rows, files: &mut Files) -> Result<Event, Nonsense> {
    let (start, end) = interval(rows.number(START)?, rows.number(END)?)?;
    let op = op(rows.value(OP).unwrap_or_default())?;
    // A metadata operation moves nothing, and may leave the field empty.
    let bytes = match rows.value(BYTES) {
        None if !op.moves_data() => 0.0,
        _ => amount("bytes", rows.number(BYTES)?)?,
    };
    let file = match rows.value(FILE) {
        None => FileId::NONE,
        Some(path) => files.id(&String::from_utf8_lossy(path)).unwrap_or(FileId::NONE),
    };
    Ok(Event {
        op,
        layer: Layer::Unknown,
        grain: Grain::Call,
        rank: rank(rows)?,
        file,
        start,
        end,
        bytes,
        calls: 1,
    })
}

fn op(name: &[u8]) -> Result<Op, Nonsense> {
    let found = std::str::from_utf8(name).ok().and_then(Op::from_name);
    found
        .or_else(|| Op::from_name(&String::from_utf8_lossy(name).to_ascii_lowercase()))
        .ok_or_else(|| Nonsense::new("unknown op", format!("{} is not an operation", quoted(name))))
}

fn rank(rows: &Rows) -> Result<Rank, Nonsense> {
    let rank = rows.number(RANK)?;
    if rank.fract() == 0.0 && (-1.0..=f64::from(i32::MAX)).contains(&rank) {
        Ok(Rank(rank as i32))
    } else {
        Err(Nonsense::new("not a rank", format!("{rank} is not a rank")))
    }
}

fn count(rows: &Rows, column: usize) -> Result<u32, Nonsense> {
    let count = rows.number(column)?;
    if count.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&count) {
        Ok(count as u32)
    } else {
        Err(Nonsense::new("not a count", format!("{} {count} is not a count", COLUMNS[column])))
    }
}

/// Writes events as a table that [`crate::open`] reads: `rank,op,start,end,bytes,file`.
///
/// Times keep their nanoseconds. Layer, grain and number of calls have no column; the native trace keeps them.
///
/// ```
/// use iotide_formats::EventWriter;
/// use iotide_trace::{Event, JobInfo, Op, Rank, Timestamp};
///
/// let at = Timestamp::from_nanos_since_start;
/// let mut writer = EventWriter::new(Vec::new(), &JobInfo::default())?;
/// writer.write(&Event::data(Op::Write, Rank(3), at(0), at(1_500_000_000), 4096.0), None)?;
/// assert_eq!(writer.finish()?, b"rank,op,start,end,bytes,file\n3,write,0.000000000,1.500000000,4096,\n");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct EventWriter<W: Write> {
    out: W,
}

impl<W: Write> EventWriter<W> {
    /// Writes what is known of the job, and the header.
    pub fn new(mut out: W, job: &JobInfo) -> io::Result<Self> {
        // A line end in a command would begin a new row.
        let one_line = |text: &str| text.replace(['\n', '\r'], " ");
        if let Some(run_time_s) = job.run_time_s {
            writeln!(out, "# runtime_s={run_time_s}")?;
        }
        if let Some(n_procs) = job.n_procs {
            writeln!(out, "# nprocs={n_procs}")?;
        }
        for (name, fact) in [("user", &job.user), ("exe", &job.exe), ("jobid", &job.job_id)] {
            if let Some(fact) = fact {
                writeln!(out, "# {name}={}", one_line(fact))?;
            }
        }
        if let Some(start_time) = job.start_time_unix_s {
            writeln!(out, "# start_time={start_time}")?;
        }
        writeln!(out, "rank,op,start,end,bytes,file")?;
        Ok(Self { out })
    }

    /// Writes one row.
    pub fn write(&mut self, event: &Event, file: Option<&str>) -> io::Result<()> {
        let seconds = |nanos: i64| {
            let sign = if nanos < 0 { "-" } else { "" };
            let nanos = nanos.unsigned_abs();
            format!("{sign}{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
        };
        let (start, end) = (seconds(event.start.as_nanos()), seconds(event.end.as_nanos()));
        write!(self.out, "{},{},{start},{end},{},", event.rank.0, event.op.name(), event.bytes)?;
        match file {
            Some(path) if path.contains([',', '"', '\n', '\r', ' ']) => {
                writeln!(self.out, "\"{}\"", path.replace('"', "\"\""))
            }
            Some(path) => writeln!(self.out, "{path}"),
            None => writeln!(self.out),
        }
    }

    /// Flushes, and returns what was written to.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}
