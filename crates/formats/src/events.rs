//! Tables of events that anyone can write, as CSV or JSON Lines.
//!
//! Columns `rank, op, start, end, bytes`, and if known `file, opens, seeks, layer, grain, calls`; a `duration` may stand for the end. See `docs/formats.md`.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};
use std::ops::ControlFlow;

use iotide_trace::{Event, EventSink, FileId, Grain, JobInfo, Layer, Loss, Op, Rank, Timestamp, TraceInfo};

use crate::{
    error::Fault,
    files::Files,
    input::Input,
    losses::{Losses, Nonsense, amount, interval},
    rows::{Rows, Syntax, quoted},
};

mod plain;

const COLUMNS: &[&str] =
    &["rank", "op", "start", "end", "bytes", "file", "opens", "seeks", "layer", "grain", "calls", "duration"];
const RANK: usize = 0;
const OP: usize = 1;
const START: usize = 2;
const END: usize = 3;
const BYTES: usize = 4;
const FILE: usize = 5;
/// Counts of metadata calls that go with a row, and what they are.
const COUNTS: [(usize, Op); 2] = [(6, Op::Open), (7, Op::Seek)];
const LAYER: usize = 8;
const GRAIN: usize = 9;
const CALLS: usize = 10;
const DURATION: usize = 11;
const TIMES: &[usize] = &[START, END, DURATION];

pub(crate) fn read<S: EventSink>(input: Input, syntax: Syntax, sink: &mut S) -> Result<TraceInfo, Fault> {
    let mut losses = Losses::default();
    let mut files = Files::default();
    let mut rows = Rows::open(input, syntax, COLUMNS, TIMES, &mut losses)?;
    rows.require([OP, START, if rows.has(DURATION) { DURATION } else { END }, BYTES])?;
    'rows: loop {
        if pass_plain_rows(&mut rows, &mut files, sink).is_break() || !rows.advance(&mut losses)? {
            break;
        }
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
    let files = files.into_paths(&mut losses);
    rows.report(losses, sink);
    Ok(TraceInfo { job: rows.job, files })
}

/// Reads rows as long as they are written plainly, which is nearly always; the next one is left to [`event`].
fn pass_plain_rows<S: EventSink>(rows: &mut Rows, files: &mut Files, sink: &mut S) -> ControlFlow<()> {
    let Some((header, text)) = rows.ahead().filter(|(header, _)| header.contains(&Some(END))) else {
        return ControlFlow::Continue(());
    };
    let (mut at, mut n_lines) = (0, 0);
    let mut flow = ControlFlow::Continue(());
    while flow.is_continue()
        && let Some((event, len)) = plain::row(&text[at..], header, files)
    {
        at += len;
        n_lines += 1;
        flow = sink.event(event);
    }
    rows.pass(at, n_lines);
    flow
}

fn event(rows: &Rows, files: &mut Files) -> Result<Event, Nonsense> {
    let (start, end) = span(rows)?;
    let op = op(rows.value(OP).unwrap_or_default())?;
    // A metadata operation moves nothing, and may leave the field empty.
    let bytes = match rows.value(BYTES) {
        None if !op.moves_data() => 0.0,
        _ => amount("bytes", rows.number(BYTES)?)?,
    };
    let file = match rows.value(FILE) {
        None => FileId::NONE,
        Some(path) => files.id(&String::from_utf8_lossy(if rows.is_csv() { unmarked(path) } else { path })),
    };
    let calls = if rows.value(CALLS).is_some() { count(rows, CALLS)? } else { 1 };
    Ok(Event {
        op,
        layer: named(rows, LAYER, Layer::from_name)?,
        grain: named(rows, GRAIN, Grain::from_name)?,
        rank: rank(rows)?,
        file,
        start,
        end,
        bytes,
        calls,
    })
}

/// From when to when, by the end or, without one, by the duration.
fn span(rows: &Rows) -> Result<(Timestamp, Timestamp), Nonsense> {
    let by_duration = rows.value(END).is_none() && rows.value(DURATION).is_some();
    let last = if by_duration { DURATION } else { END };
    if let (Some(start), Some(last)) = (rows.nanos(START), rows.nanos(last)) {
        // Each is at most half of what a timestamp holds.
        let end = if by_duration { start + last } else { last };
        if start <= end {
            return Ok((Timestamp::from_nanos_since_start(start), Timestamp::from_nanos_since_start(end)));
        }
    }
    // An exponent, too many digits, or something that is wrong and will be said so.
    let (start_s, last_s) = (rows.number(START)?, rows.number(last)?);
    if by_duration && (last_s.is_nan() || last_s < 0.0) {
        return Err(Nonsense::new("not a duration", format!("duration {last_s} is not a duration")));
    }
    interval(start_s, if by_duration { start_s + last_s } else { last_s })
}

/// Returns the value that an optional column names; the default if it names nothing.
fn named<T: Default>(rows: &Rows, column: usize, of_name: fn(&str) -> Option<T>) -> Result<T, Nonsense> {
    let Some(name) = rows.value(column) else { return Ok(T::default()) };
    std::str::from_utf8(name).ok().and_then(of_name).ok_or_else(|| {
        let fault = format!("{} is not a {}", quoted(name), COLUMNS[column]);
        Nonsense::new("unknown layer or granularity", fault)
    })
}

fn op(name: &[u8]) -> Result<Op, Nonsense> {
    let found = std::str::from_utf8(name).ok().and_then(Op::from_name);
    found
        .or_else(|| Op::from_name(&String::from_utf8_lossy(name).to_ascii_lowercase()))
        .ok_or_else(|| Nonsense::new("unknown op", format!("{} is not an operation", quoted(name))))
}

/// All together where the table has no ranks.
fn rank(rows: &Rows) -> Result<Rank, Nonsense> {
    if rows.value(RANK).is_none() && !rows.has_everywhere(RANK) {
        return Ok(Rank::ALL);
    }
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
/// Times keep their nanoseconds. With [`EventWriter::detailed`] nothing is left out; without, layer, grain and number of
/// calls are.
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
    detailed: bool,
}

impl<W: Write> EventWriter<W> {
    /// Writes what is known of the job, and the header.
    pub fn new(mut out: W, job: &JobInfo) -> io::Result<Self> {
        write_job(&mut out, job)?;
        writeln!(out, "rank,op,start,end,bytes,file")?;
        Ok(Self { out, detailed: false })
    }

    /// The same with columns `layer,grain,calls`, and with what is missing.
    pub fn detailed(mut out: W, job: &JobInfo, losses: &[Loss]) -> io::Result<Self> {
        write_job(&mut out, job)?;
        for Loss { what, records, since, cut } in losses {
            let unknown = if *cut { "cut" } else { "" };
            let records = records.map_or(unknown.to_owned(), |records| records.to_string());
            let since = since.map(|since| Seconds(since).to_string()).unwrap_or_default();
            writeln!(out, "# loss={records},{since},{}", one_line(what))?;
        }
        writeln!(out, "rank,op,start,end,bytes,file,layer,grain,calls")?;
        Ok(Self { out, detailed: true })
    }

    /// Writes one row.
    pub fn write(&mut self, event: &Event, file: Option<&str>) -> io::Result<()> {
        let Event { op, layer, grain, rank, start, end, bytes, calls, .. } = event;
        write!(self.out, "{},{},{},{},{bytes},", rank.0, op.name(), Seconds(*start), Seconds(*end))?;
        let mark = if file.is_some_and(|path| begins_formula(path.as_bytes())) { "'" } else { "" };
        match file.map(shown).as_deref() {
            Some(path) if path.contains([',', '"', '\n', '\r', ' ', '\t']) => {
                write!(self.out, "\"{mark}{}\"", path.replace('"', "\"\""))?;
            }
            Some(path) => write!(self.out, "{mark}{path}")?,
            None => {}
        }
        if self.detailed {
            // What is usual is left empty: it is most of the table.
            let layer = if *layer == Layer::Unknown { "" } else { layer.name() };
            let grain = if *grain == Grain::Call { "" } else { grain.name() };
            write!(self.out, ",{layer},{grain},")?;
            if *calls != 1 {
                write!(self.out, "{calls}")?;
            }
        }
        writeln!(self.out)
    }

    /// Flushes, and returns what was written to.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

fn write_job(out: &mut impl Write, job: &JobInfo) -> io::Result<()> {
    if let Some(run_time_s) = job.run_time_s {
        writeln!(out, "# runtime_s={run_time_s}")?;
    }
    if let Some(n_procs) = job.n_procs {
        writeln!(out, "# nprocs={n_procs}")?;
    }
    if let Some(has_ranks) = job.has_ranks {
        writeln!(out, "# has_ranks={}", u8::from(has_ranks))?;
    }
    if let Some(n_told) = job.n_told {
        writeln!(out, "# nprocs_told={n_told}")?;
    }
    for (name, fact) in [("user", &job.user), ("exe", &job.exe), ("jobid", &job.job_id)] {
        if let Some(fact) = fact {
            writeln!(out, "# {name}={}", one_line(fact))?;
        }
    }
    if let Some(start_time) = job.start_time_unix_s {
        writeln!(out, "# start_time={start_time}")?;
    }
    if let Some(n_nodes) = job.n_nodes {
        writeln!(out, "# nodes={n_nodes}")?;
    }
    if let Some(mounts) = crate::rows::mounts_of(job) {
        writeln!(out, "# mounts={}", one_line(&mounts))?;
    }
    Ok(())
}

/// Whether a spreadsheet would take a name for a formula. Such a name has an apostrophe before it in a table, which is how one says "text" to
/// a spreadsheet; so has one that looks as if it had been given one, so that it is read as it was.
fn begins_formula(name: &[u8]) -> bool {
    let n_marks = name.iter().take_while(|letter| **letter == b'\'').count();
    matches!(name[n_marks..].trim_ascii_start().first(), Some(b'=' | b'+' | b'-' | b'@'))
}

/// A name of a table as it was before it was written.
fn unmarked(name: &[u8]) -> &[u8] {
    match name.strip_prefix(b"'") {
        Some(rest) if begins_formula(rest) => rest,
        _ => name,
    }
}

/// A line end in a command would begin a new row.
fn one_line(text: &str) -> String {
    shown(&text.replace(['\n', '\r'], " ")).into_owned()
}

/// A name in which nothing steers the terminal that shows the table; a table has no other way to write such a character. Line ends and tabs
/// have one: they stand in quotes.
fn shown(name: &str) -> Cow<'_, str> {
    let must_escape = |c: char| !matches!(c, '\n' | '\t') && iotide_wire::steers(c);
    if !name.contains(must_escape) {
        return Cow::Borrowed(name);
    }
    let mut shown = String::with_capacity(name.len() + 8);
    for c in name.chars() {
        match must_escape(c) {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// A moment as seconds with all its nanoseconds, as tables have it.
pub(crate) struct Seconds(pub(crate) Timestamp);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.as_nanos();
        let sign = if nanos < 0 { "-" } else { "" };
        let nanos = nanos.unsigned_abs();
        write!(f, "{sign}{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check, check_with, read};
    use crate::{Format, OpenOptions};

    #[test]
    fn a_table_is_its_events() {
        check(
            "rank,op,start,end,bytes\n0,write,0.5,1.5,1000\n-1,read,2,3,7\n3,open,0,0.25,\n",
            "r0 write 0.5..1.5 1000B
             r-1 read 2..3 7B
             r3 open 0..0.25 0B",
        );
    }

    #[test]
    fn tables_have_other_separators_and_numbers_with_commas() {
        let events = "r0 write 0.5..1.5 1000B
             r-1 read 2..3 7B";
        check("rank;op;start;end;bytes\n0;write;0.5;1.5;1000\n-1;read;2;3;7\n", events);
        check("rank;op;start;end;bytes\n0;write;0,5;1,5;1000\n-1;read;2,0;3;7\n", events);
        check("rank\top\tstart\tend\tbytes\n0\twrite\t0.5\t1.5\t1000\n-1\tread\t2\t3\t7\n", events);
        // A comma between numbers is none in them.
        check(
            "rank;op;start;end;bytes\n0;write;0,5;1,5;1,000,000\n-1;read;2;3;7\n",
            "r-1 read 2..3 7B
             loss of 1: line 2: bytes is \"1,000,000\", not a number",
        );
    }

    #[test]
    fn a_time_may_have_its_unit_in_its_name() {
        let events = "r0 write 0.5..1.5 1000B
             r-1 read 2..3 7B";
        check("rank,op,start_ms,end_ms,bytes\n0,write,500,1500,1000\n-1,read,2e3,3000.0,7\n", events);
        check(
            "rank,op,Start_us,End_us,bytes\n0,write,500000,1500000,1000\n-1,read,2000000,3000000,7\n",
            events,
        );
        check("rank,op,start_s,end_s,bytes\n0,write,0.5,1.5,1000\n-1,read,2,3,7\n", events);
        // Whichever column comes first, the plain one counts.
        check("rank,start_ns,op,start,end,bytes\n0,7,write,0.5,1.5,1000\n-1,7,read,2,3,7\n", events);
        check(
            "{\"rank\":0,\"op\":\"write\",\"start_ns\":500000000,\"end_ns\":1500000000,\"bytes\":1000}\n\
             {\"rank\":-1,\"op\":\"read\",\"start\":2,\"end\":3,\"bytes\":7}\n",
            events,
        );
    }

    #[test]
    fn nanoseconds_since_1970_are_kept_to_the_last() {
        let table = b"op,start_ns,duration_ns,bytes\nwrite,1700000000123456789,1,5\n";
        let event = read(&OpenOptions::default(), table).unwrap().events[0];
        assert_eq!(event.start.as_nanos(), 1_700_000_000_123_456_789);
        assert_eq!(event.end.as_nanos(), 1_700_000_000_123_456_790);
        // No time is further away than a timestamp can tell.
        for (start, last) in [("-9223372036854775808", "1"), ("1", "9223372036854775807")] {
            let table = format!("op,start_ns,duration_ns,bytes\nwrite,{start},{last},5\nread,1,1,7\n");
            let trace = read(&OpenOptions::default(), table.as_bytes()).unwrap();
            assert_eq!((trace.events.len(), trace.losses.len()), (1, 1), "{start} {last}");
        }
    }

    #[test]
    fn a_duration_stands_for_the_end_and_no_rank_for_all() {
        check(
            "op,start,duration,bytes\nwrite,0.5,1,1000\nread,2,1e0,7\nread,3,-1,7\nread,0,0,1\n",
            "r-1 write 0.5..1.5 1000B
             r-1 read 2..3 7B
             r-1 read 0..0 1B
             loss of 1: line 4: duration -1 is not a duration",
        );
        // An end says it itself.
        check("rank,op,start,end,duration,bytes\n0,write,1,2,9,5\n", "r0 write 1..2 5B");
        check(
            "{\"op\":\"write\",\"start\":1,\"duration\":1,\"bytes\":5}\n{\"op\":\"write\",\"start\":3,\"end\":4,\"bytes\":5}\n",
            "r-1 write 1..2 5B
             r-1 write 3..4 5B",
        );
    }

    #[test]
    fn no_name_steers_the_terminal_that_shows_a_table() {
        let at = Timestamp::from_nanos_since_start;
        let event = Event::data(Op::Write, Rank(0), at(0), at(1), 1.0);
        let job = JobInfo { exe: Some("a\x1b]0;x\x07\nb".to_owned()), ..JobInfo::default() };
        let mut writer = EventWriter::new(Vec::new(), &job).unwrap();
        writer.write(&event, Some("/a\x1b[2J\u{9b}\u{202e}\rb\n\tö")).unwrap();
        let table = String::from_utf8(writer.finish().unwrap()).unwrap();
        assert!(table.contains("# exe=a\\u{1b}]0;x\\u{7} b\n"), "{table}");
        assert!(table.contains("\"/a\\u{1b}[2J\\u{9b}\\u{202e}\\rb\n\tö\""), "{table}");
    }

    #[test]
    fn a_name_is_no_formula_to_a_spreadsheet_and_is_read_as_it_was() {
        let at = Timestamp::from_nanos_since_start;
        let event = Event::data(Op::Write, Rank(0), at(0), at(1), 1.0);
        let names = ["=1+1", "+x", "-x", "@x", " =x", "'=x", "''-x", "'x", "/plain", "=a,\"b\""];
        let mut writer = EventWriter::new(Vec::new(), &JobInfo::default()).unwrap();
        for name in names {
            writer.write(&event, Some(name)).unwrap();
        }
        let table = String::from_utf8(writer.finish().unwrap()).unwrap();
        for row in table.lines().skip(1) {
            let cell = row.splitn(6, ',').nth(5).unwrap().trim_start_matches('"').trim_start();
            assert!(!cell.starts_with(['=', '+', '-', '@']), "{row}");
        }
        let options = OpenOptions { input_format: Some(Format::Csv), ..OpenOptions::default() };
        let reader = options.from_read("table", std::io::Cursor::new(table.into_bytes())).unwrap();
        let info = reader.read(&mut iotide_trace::Trace::default()).unwrap();
        assert_eq!(info.files, names);
    }

    #[test]
    fn a_loss_without_words_is_told_in_some() {
        let read = OpenOptions::default().from_read(
            "table",
            std::io::Cursor::new(b"# loss=\n# loss=3,,\nrank,op,start,end,bytes\n0,write,0,1,5\n".to_vec()),
        );
        let mut trace = iotide_trace::Trace::default();
        read.unwrap().read(&mut trace).unwrap();
        let words: Vec<&str> = trace.losses.iter().map(|loss| loss.what.as_str()).collect();
        assert_eq!(words, ["something that the table does not name"; 2]);
        assert_eq!(trace.losses[1].records, Some(3));
    }

    #[test]
    fn columns_come_in_any_order_among_others() {
        check("bytes, note, END ,start,op,rank\n10,hello,2,1,write,4\n", "r4 write 1..2 10B");
    }

    #[test]
    fn leading_lines_state_facts_about_the_job() {
        check(
            "# runtime_s=12.5\n#nprocs = 64\n# user=ada\n# exe=./a.out -n 3\n# jobid=77\n# start_time=1700000000\n\
             # just a remark\nrank,op,start,end,bytes\n0,write,0,1,5\n",
            "r0 write 0..1 5B
             run time: 12.5
             procs: 64
             user: ada
             exe: ./a.out -n 3
             job: 77
             start time: 1700000000",
        );
    }

    #[test]
    fn windows_line_ends_blank_lines_and_a_byte_order_mark_are_fine() {
        check(
            "\u{feff}rank,op,start,end,bytes\r\n\r\n0,write,0,1,5\r\n   \r\n1,write,0,1,6",
            "r0 write 0..1 5B
             r1 write 0..1 6B",
        );
    }

    #[test]
    fn quoted_fields_hold_commas_quotes_and_line_ends() {
        check(
            "rank,op,start,end,bytes,file\n0,write,0,1,5,\"/a,b\"\n0,write,1,2,5,\"say \"\"hi\"\"\"\n\
             0,write,2,3,5,\"two\nlines\"\n0,\"write\",3,4,5,/a\n",
            r#"r0 write 0..1 5B "/a,b"
               r0 write 1..2 5B "say \"hi\""
               r0 write 2..3 5B "two\nlines"
               r0 write 3..4 5B "/a""#,
        );
    }

    #[test]
    fn a_quote_that_does_not_end_costs_its_row_only() {
        check(
            "rank,op,start,end,bytes,file\n0,write,0,1,5,\"oops\n1,write,0,1,6,/b\n",
            r#"r1 write 0..1 6B "/b"
               loss of 1: line 2: a quote that does not end"#,
        );
    }

    #[test]
    fn counts_of_metadata_calls_become_events_of_their_own() {
        check(
            "rank,op,start,end,bytes,opens,seeks\n0,write,0,1,5,2,30\n0,read,1,2,5,0,\n0,read,2,3,5,1.5,1\n",
            "r0 write 0..1 5B
             r0 open 0..1 0B ×2
             r0 seek 0..1 0B ×30
             r0 read 1..2 5B
             r0 read 2..3 5B
             r0 seek 2..3 0B
             loss of 1: line 4: opens 1.5 is not a count",
        );
    }

    #[test]
    fn rows_that_make_no_sense_are_losses_and_reading_goes_on() {
        check(
            "rank,op,start,end,bytes\n0,write,3,1,5\n0,write,0,1,-5\n0,scribble,0,1,5\n0,write,nan,1,5\n0,write,0,1\n\
             0,write,0,1,x\n0.5,write,0,1,1\n0,write,9,8,5\n7,write,0,1,5\n0,write,,1,5\n",
            "r7 write 0..1 5B
             loss of 2: line 2: end 1 is before start 3, and 1 more like it
             loss of 1: line 3: bytes -5 is not an amount
             loss of 1: line 4: \"scribble\" is not an operation
             loss of 1: line 5: start NaN is not a time
             loss of 1: line 6: 4 fields where the header has 5
             loss of 1: line 7: bytes is \"x\", not a number
             loss of 1: line 8: 0.5 is not a rank
             loss of 1: line 11: no value for start",
        );
    }

    #[test]
    fn a_table_without_a_usable_row_is_an_error() {
        check(
            "rank,op,start,end,bytes\n0,write,3,1,5\n",
            "error: input holds no record that can be used: line 2: end 1 is before start 3",
        );
    }

    #[test]
    fn a_table_without_rows_is_a_run_that_did_nothing() {
        check("rank,op,start,end,bytes\n", "");
    }

    #[test]
    fn missing_and_doubled_columns_are_named() {
        check(
            "# x\nrank,op,start,bytes\n0,write,0,1\n",
            "error: input, line 2: the header has no column end",
        );
        check(
            "rank,op,start,end,bytes,start\n",
            "error: input, line 1: the header has two columns \"start\"",
        );
        let csv = OpenOptions { input_format: Some(Format::Csv), ..OpenOptions::default() };
        check_with(&csv, "# nothing\n", "error: input, line 1: there is no header line");
    }

    #[test]
    fn json_lines_have_the_same_names() {
        check(
            r#"{"nprocs": 4, "exe": "a \"b\""}
               {"rank": 0, "op": "write", "start": 0.5, "end": 1.5, "bytes": 1e3, "file": "/\u00e9", "extra": [1, {"a": "]"}]}
               {"bytes": 7, "end": 3, "start": 2, "op": "read", "rank": -1, "seeks": 2}
               {"rank": 0, "op": "write", "start": 0.5}
               {"rank": 0, "op": "write", "start": 0.5
               not json
            "#,
            "r0 write 0.5..1.5 1000B \"/é\"
             r-1 read 2..3 7B
             r-1 seek 2..3 0B ×2
             procs: 4
             exe: a \"b\"
             loss of 1: line 4: no value for end
             loss of 2: line 5: not a JSON object: it does not end, and 1 more like it",
        );
    }

    #[test]
    fn what_is_written_is_read_again() {
        let at = Timestamp::from_nanos_since_start;
        let events = [
            Event::data(Op::Write, Rank(3), at(-1_500_000_001), at(1), 4096.0),
            Event::data(Op::Sync, Rank::ALL, at(123_456_789), at(123_456_790), 0.0),
            Event::data(Op::Read, Rank(0), at(0), at(10_000_000_000), 0.125),
        ];
        let job = JobInfo {
            n_procs: Some(4),
            n_told: Some(1),
            exe: Some("a\nb".into()),
            run_time_s: Some(2.5),
            ..JobInfo::default()
        };
        let paths = [None, Some("/plain"), Some(" with, all \"kinds\"\nof things")];
        let mut writer = EventWriter::new(Vec::new(), &job).unwrap();
        for (event, path) in events.iter().zip(paths) {
            writer.write(event, path).unwrap();
        }
        let trace = read(&OpenOptions::default(), &writer.finish().unwrap()).unwrap();
        assert_eq!(trace.losses, []);
        assert_eq!(trace.info.files, ["/plain", " with, all \"kinds\"\nof things"]);
        assert_eq!(trace.info.job, JobInfo { exe: Some("a b".into()), ..job });
        for ((found, written), path) in trace.events.iter().zip(&events).zip(paths) {
            assert_eq!(Event { file: FileId::NONE, ..*found }, *written);
            assert_eq!(path, trace.info.files.get(found.file.0 as usize).map(String::as_str));
        }
    }
}
