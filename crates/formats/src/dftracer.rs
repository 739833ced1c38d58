//! DFTracer: one record per line, like a Chrome trace, plain or gzip.
//!
//! Four generations, which a reader need not tell apart if it takes each value as it stands:
//! - **A** numbers as strings, the path in `fname`, a leading `[` and no `]`;
//! - **B** whole numbers, `ph` "X" or "M", paths as hashes that metadata records (`FH`, `HH`, `SH`) resolve;
//! - **C** the same with hashes above 2⁶³;
//! - **D** (2.x) no brackets, `ph` as a number (1 event, 2 counter, 3 aggregate, 4 metadata), hashes in hexadecimal, and
//!   the unit of time in a `CM` record.
//!
//! Hashes are kept as the bytes they are written with, so their width and base do not matter. Times count from the
//! Unix epoch.

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;

use iotide_trace::{Event, EventSink, FileId, Grain, Layer, Rank, Timestamp, TraceInfo};

use crate::{
    Place,
    budget::NameBudget,
    calls::{self, CallKind},
    census::{Census, NameCounts},
    error::Fault,
    files::Files,
    functions::Functions,
    input::Input,
    lenient::{Broken, Depth, Value, visit_fields},
    losses::Losses,
    processes::Processes,
    scanner::Scanner,
};

/// The tracer cuts lines at 16 KiB; merging tools do not.
const LONGEST_LINE: usize = 1 << 20;

/// How many aggregates wait for the record that tells their width.
const MOST_WAITING: usize = 1 << 18;

/// Whether a file begins like one of these.
pub(crate) fn recognises(head: &[u8]) -> bool {
    let record = skip_brackets(head);
    let line = &record[..memchr::memchr(b'\n', record).unwrap_or(record.len())];
    let has = |key: &[u8]| memchr::memmem::find(line, key).is_some();
    (record.starts_with(b"{\"id\":") || record.starts_with(b"{\"name\":"))
        && has(b"\"pid\":")
        && has(b"\"cat\":")
}

/// Reads one file, and adds what it holds to `census`.
pub(crate) fn read(
    input: Input,
    processes: &mut Processes,
    census: &mut Census,
    sink: &mut dyn EventSink,
) -> Result<TraceInfo, Fault> {
    let mut scanner = Scanner::new(input.into_read());
    let mut decoder = Decoder::new(processes);
    let _ = scanner.lines(LONGEST_LINE, |line, number| decoder.line(line, number, sink))?;
    let (info, counted) = decoder.finish(sink);
    census.add(counted);
    Ok(info)
}

/// Returns the line without the bytes before its record: the array's bracket, a comma, space.
fn skip_brackets(line: &[u8]) -> &[u8] {
    let n = line
        .iter()
        .take_while(|byte| matches!(byte, b'[' | b']' | b',' | b' ' | b'\t' | b'\r' | b'\n'))
        .count();
    &line[n..]
}

struct Decoder<'p> {
    processes: &'p mut Processes,
    files: Files,
    /// Hash → file, by process: a short hash means something only to the process that made it.
    hashed_files: HashMap<u64, HashMap<Vec<u8>, FileId>>,
    /// Hash → file, whoever said so: tools that merge traces keep one record per name.
    hashed_anywhere: HashMap<Vec<u8>, FileId>,
    strings: HashMap<Vec<u8>, String>,
    hash_budget: NameBudget,
    command_hash: Option<Vec<u8>>,
    unit_nanos: i64,
    window_nanos: i64,
    /// Aggregates name their window's beginning; its width stands in the last record of the file.
    waiting: Vec<Event>,
    names: NameCounts,
    functions: Functions,
    categories: NameCounts,
    census: Census,
    losses: Losses,
    first: Option<Timestamp>,
}

/// The fields of a record that mean something here.
#[derive(Default)]
struct Record<'a> {
    name: &'a [u8],
    category: &'a [u8],
    phase: &'a [u8],
    pid: u64,
    ts: Option<u64>,
    dur: Option<u64>,
    args: Args<'a>,
    /// Its `args` hold what only a record has: it was cut in the middle of a name and the next one was taken for the rest.
    runs_into_next: bool,
}

#[derive(Default)]
struct Args<'a> {
    host: &'a [u8],
    file_name: &'a [u8],
    file_hash: &'a [u8],
    /// `name` and `value` of a metadata record.
    name: &'a [u8],
    value: &'a [u8],
    command_hash: &'a [u8],
    config: &'a [u8],
    ret: Option<i64>,
    size: Option<i64>,
    ret_sum: Option<i64>,
    size_sum: Option<i64>,
    n_calls: Option<u64>,
}

impl<'a> Record<'a> {
    fn set(&mut self, depth: Depth, key: &[u8], value: Value<'a>) {
        let args = &mut self.args;
        match (depth, key) {
            (Depth::Record, b"name") => self.name = value.bytes(),
            (Depth::Record, b"cat") => self.category = value.bytes(),
            (Depth::Record, b"ph") => self.phase = value.bytes(),
            (Depth::Record, b"pid") => self.pid = value.as_u64().unwrap_or(0),
            (Depth::Record, b"ts") => self.ts = value.as_u64(),
            (Depth::Record, b"dur") => self.dur = value.as_u64(),
            (Depth::Args, b"ph" | b"cat" | b"tid") => self.runs_into_next = true,
            (Depth::Args, b"hhash" | b"hostname") => args.host = value.bytes(),
            (Depth::Args, b"fname") => args.file_name = value.bytes(),
            (Depth::Args, b"fhash") => args.file_hash = value.bytes(),
            (Depth::Args, b"name") => args.name = value.bytes(),
            (Depth::Args, b"value") => args.value = value.bytes(),
            (Depth::Args, b"cmd_hash") => args.command_hash = value.bytes(),
            (Depth::Args, b"cfg") => args.config = value.bytes(),
            (Depth::Args, b"ret") => args.ret = value.as_i64(),
            (Depth::Args, b"size") => args.size = value.as_i64(),
            (Depth::Args, b"ret_sum") => args.ret_sum = value.as_i64(),
            (Depth::Args, b"size_sum") => args.size_sum = value.as_i64(),
            (Depth::Args, b"dft_cnt") => args.n_calls = value.as_u64(),
            _ => {}
        }
    }
}

impl<'p> Decoder<'p> {
    fn new(processes: &'p mut Processes) -> Self {
        Self {
            processes,
            files: Files::default(),
            hashed_files: HashMap::new(),
            hashed_anywhere: HashMap::new(),
            strings: HashMap::new(),
            hash_budget: NameBudget::new(NameBudget::FILES),
            command_hash: None,
            unit_nanos: 1_000,
            window_nanos: 1_000_000_000,
            waiting: Vec::new(),
            names: NameCounts::default(),
            functions: Functions::default(),
            categories: NameCounts::default(),
            census: Census::default(),
            losses: Losses::default(),
            first: None,
        }
    }

    fn line(&mut self, line: &[u8], number: u64, sink: &mut dyn EventSink) -> ControlFlow<()> {
        let line = skip_brackets(line);
        if line.is_empty() {
            return ControlFlow::Continue(());
        }
        // A record that was cut may have the next one right behind it, with the rest of the line to itself. It has few
        // beginnings within itself, so only the last ones in a line are tried: a line of broken records costs its length.
        let mut starts = RecentStarts::default();
        let mut start = Some(0);
        let mut broken = match self.record_of(line, number, sink) {
            Ok(flow) => return flow,
            Err(broken) => broken,
        };
        while let Some(at) = start {
            starts.push(at);
            start = next_record(&line[at..]).map(|ahead| at + ahead);
        }
        let mut n_broken = starts.n_forgotten.max(1);
        for &at in starts.kept.iter().filter(|at| **at > 0) {
            match self.record_of(&line[at..], number, sink) {
                Ok(flow) => {
                    self.note_broken(n_broken, number, &broken);
                    return flow;
                }
                Err(why) => {
                    n_broken += 1;
                    broken = if n_broken == 1 { why } else { broken };
                }
            }
        }
        self.note_broken(n_broken, number, &broken);
        ControlFlow::Continue(())
    }

    /// Reads a record that is all of `text`.
    fn record_of(
        &mut self,
        text: &[u8],
        number: u64,
        sink: &mut dyn EventSink,
    ) -> Result<ControlFlow<()>, Broken> {
        let mut record = Record::default();
        visit_fields(text, |depth, key, value| record.set(depth, key, value))?;
        if record.runs_into_next {
            return Err(Broken::Cut);
        }
        Ok(self.record(&record, number, sink))
    }

    fn note_broken(&mut self, n_broken: u64, number: u64, broken: &Broken) {
        self.census.unusable += n_broken;
        self.losses.notes(n_broken, "broken", Place::Line(number), || broken.to_string());
    }

    fn record(&mut self, record: &Record<'_>, number: u64, sink: &mut dyn EventSink) -> ControlFlow<()> {
        match record.phase {
            b"M" | b"4" => {
                self.census.metadata += 1;
                self.metadata(record);
                ControlFlow::Continue(())
            }
            b"C" | b"2" => {
                self.census.counters += 1;
                ControlFlow::Continue(())
            }
            b"3" => self.aggregate(record, number, sink),
            _ => self.call(record, number, sink),
        }
    }

    fn metadata(&mut self, record: &Record<'_>) {
        let Args { name, value, .. } = record.args;
        match record.name {
            // Hashes are short; each is kept twice.
            b"FH" | b"SH" if !self.hash_budget.takes(value) || !self.hash_budget.takes(value) => {}
            b"SH" if !self.hash_budget.takes(name) => {}
            b"FH" => {
                let id = self.files.id_of_bytes(name);
                self.hashed_files.entry(record.pid).or_default().insert(value.to_vec(), id);
                self.hashed_anywhere.insert(value.to_vec(), id);
            }
            b"SH" => {
                self.strings.insert(value.to_vec(), String::from_utf8_lossy(name).into_owned());
            }
            b"CM" if name == b"time_metric" => {
                self.unit_nanos = match value {
                    b"NS" => 1,
                    b"MS" => 1_000_000,
                    b"S" | b"SEC" => 1_000_000_000,
                    _ => 1_000,
                };
            }
            _ => {}
        }
    }

    fn times(&self, record: &Record<'_>) -> Option<(Timestamp, Timestamp)> {
        let nanos = |ticks: u64| i64::try_from(ticks).ok()?.checked_mul(self.unit_nanos);
        let start = nanos(record.ts?)?;
        let end = start.checked_add(nanos(record.dur.unwrap_or(0))?)?;
        if end > Timestamp::MAX.as_nanos() {
            return None;
        }
        Some((Timestamp::from_nanos_since_start(start), Timestamp::from_nanos_since_start(end)))
    }

    fn call(&mut self, record: &Record<'_>, number: u64, sink: &mut dyn EventSink) -> ControlFlow<()> {
        let Some((start, end)) = self.times(record) else {
            self.census.unusable += 1;
            self.losses.note("no time", Place::Line(number), || "a call without a time".into());
            return ControlFlow::Continue(());
        };
        let rank = self.processes.rank_of(record.args.host, record.pid);
        self.census.records += 1;
        self.census.rank_call(rank, start, end);
        self.names.add(record.name);
        self.categories.add(record.category);
        self.first = Some(self.first.map_or(start, |first| first.min(start)));
        if record.category == b"dftracer" {
            self.note_of_the_tracer(record);
            return ControlFlow::Continue(());
        }
        let Some(kind) = io_kind(record) else { return ControlFlow::Continue(()) };
        let bytes = match record.args.ret {
            _ if !kind.op.moves_data() => 0.0,
            Some(ret) => bytes_moved(record.name, ret, record.args.size.unwrap_or(1) as f64),
            // Line by line (`fgets`): its length says how long the string is, not what was read.
            None if kind.layer == Layer::Stdio => 0.0,
            None => {
                self.losses.note("no bytes", Place::Line(number), || {
                    "a call that does not say how many bytes it moved, taken as none".into()
                });
                0.0
            }
        };
        let file = self.file_of(record);
        let event = event(kind, Grain::Call, rank, file, (start, end), bytes, 1);
        self.functions.add(&String::from_utf8_lossy(record.name), &event);
        sink.event(event)
    }

    fn aggregate(&mut self, record: &Record<'_>, number: u64, sink: &mut dyn EventSink) -> ControlFlow<()> {
        let Some((start, end)) = self.times(record) else {
            self.census.unusable += 1;
            self.losses.note("no time", Place::Line(number), || "an aggregate without a time".into());
            return ControlFlow::Continue(());
        };
        let args = &record.args;
        let n_calls = args.n_calls.unwrap_or(1);
        self.census.aggregated += 1;
        self.census.aggregated_calls = self.census.aggregated_calls.saturating_add(n_calls);
        self.first = Some(self.first.map_or(start, |first| first.min(start)));
        let rank = self.processes.rank_of(args.host, record.pid);
        let Some(kind) = io_kind(record) else { return ControlFlow::Continue(()) };
        let bytes = match args.ret_sum.or(args.ret) {
            Some(ret) if kind.op.moves_data() => {
                let size = match (args.size, args.size_sum) {
                    (Some(size), _) => size as f64,
                    (None, Some(sum)) => sum as f64 / n_calls.max(1) as f64,
                    (None, None) => 1.0,
                };
                bytes_moved(record.name, ret, size)
            }
            _ => 0.0,
        };
        let file = self.file_of(record);
        let calls = u32::try_from(n_calls).unwrap_or(u32::MAX);
        let event = event(kind, Grain::Bin, rank, file, (start, end), bytes, calls);
        self.functions.add(&String::from_utf8_lossy(record.name), &event);
        self.waiting.push(event);
        if self.waiting.len() >= MOST_WAITING { self.flush(sink) } else { ControlFlow::Continue(()) }
    }

    /// Sends the aggregates off, each as long as the window.
    fn flush(&mut self, sink: &mut dyn EventSink) -> ControlFlow<()> {
        for mut event in self.waiting.drain(..) {
            if event.end <= event.start {
                event.end = event.start.plus_nanos(self.window_nanos);
            }
            sink.event(event)?;
        }
        ControlFlow::Continue(())
    }

    /// `start` says what ran, `end` how it was traced.
    fn note_of_the_tracer(&mut self, record: &Record<'_>) {
        if !record.args.command_hash.is_empty() {
            self.command_hash.get_or_insert_with(|| record.args.command_hash.to_vec());
        }
        const KEY: &[u8] = b"\"trace_interval_ms\":";
        if let Some(at) = memchr::memmem::find(record.args.config, KEY) {
            let digits = &record.args.config[at + KEY.len()..];
            let len = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
            if let Some(millis) = crate::lenient::parse_i64(&digits[..len])
                && let Some(nanos) = millis.checked_mul(1_000_000)
                && nanos > 0
            {
                self.window_nanos = nanos;
            }
        }
    }

    fn file_of(&mut self, record: &Record<'_>) -> FileId {
        let Args { file_name, file_hash, .. } = record.args;
        if !file_name.is_empty() {
            return self.files.id_of_bytes(file_name);
        }
        if file_hash.is_empty() {
            return FileId::NONE;
        }
        let own = self.hashed_files.get(&record.pid).and_then(|files| files.get(file_hash));
        match own.or_else(|| self.hashed_anywhere.get(file_hash)) {
            Some(&id) => id,
            // The record that would name it is missing; calls to one file still belong together.
            None => self.files.id_of_bytes(&[b"#", file_hash].concat()),
        }
    }

    fn finish(mut self, sink: &mut dyn EventSink) -> (TraceInfo, Census) {
        let _ = self.flush(sink);
        let files = self.files.into_paths(&mut self.losses);
        self.losses.report(sink);
        self.functions.tell(sink);
        let mut info = TraceInfo { files, ..TraceInfo::default() };
        info.job.start_time_unix_s = self.first.map(Timestamp::as_secs);
        // The words of a command are joined by semicolons.
        info.job.exe =
            self.command_hash.and_then(|hash| self.strings.remove(&hash)).map(|it| it.replace(';', " "));
        self.census.functions = self.names.into_map();
        self.census.categories = self.categories.into_map();
        (info, self.census)
    }
}

/// Returns the I/O operation of the call; the program's own functions (`"cat":"reader"`) may be called `read`, too.
fn io_kind(record: &Record<'_>) -> Option<CallKind> {
    let known = [&b"POSIX"[..], b"STDIO", b"MPI", b"MPIIO", b"MPI-IO", b"HDF5", b"NETCDF", b"PNETCDF"];
    known.contains(&record.category).then_some(())?;
    calls::kind_of(std::str::from_utf8(record.name).ok()?)
}

/// Returns the bytes of a call by its return value: streams return a number of items.
fn bytes_moved(name: &[u8], ret: i64, item_bytes: f64) -> f64 {
    let item_bytes = if name.starts_with(b"f") { item_bytes.max(0.0) } else { 1.0 };
    ret.max(0) as f64 * item_bytes
}

fn event(
    kind: CallKind,
    grain: Grain,
    rank: Rank,
    file: FileId,
    (start, end): (Timestamp, Timestamp),
    bytes: f64,
    calls: u32,
) -> Event {
    let CallKind { op, layer } = kind;
    Event { op, layer, grain, rank, file, start, end, bytes, calls }
}

/// Where in a broken line the next record may begin.
fn next_record(line: &[u8]) -> Option<usize> {
    let after = line.get(1..)?;
    // One search for both: a search for the one that is not there would go to the end of the line each time.
    memchr::memchr_iter(b'{', after)
        .find(|&at| after[at..].starts_with(b"{\"id\":") || after[at..].starts_with(b"{\"name\":\""))
        .map(|at| at + 1)
}

/// The last places in a line at which a record may begin.
#[derive(Default)]
struct RecentStarts {
    kept: VecDeque<usize>,
    n_forgotten: u64,
}

impl RecentStarts {
    const MOST: usize = 16;

    fn push(&mut self, at: usize) {
        if self.kept.len() == Self::MOST {
            self.kept.pop_front();
            self.n_forgotten += 1;
        }
        self.kept.push_back(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_trace::Trace;
    use std::path::Path;

    fn read_text(text: &str) -> (Trace, Census) {
        let input = Input::from_read(Path::new("test"), Box::new(std::io::Cursor::new(text.to_owned())))
            .ok()
            .unwrap();
        let (mut trace, mut census) = (Trace::default(), Census::default());
        trace.info = read(input, &mut Processes::default(), &mut census, &mut trace).unwrap();
        (trace, census)
    }

    /// Events as "rank op layer start..end bytes file", times in nanoseconds.
    fn shown(trace: &Trace) -> Vec<String> {
        let shown = |event: &Event| {
            let file = trace.info.files.get(event.file.0 as usize).map_or("-", String::as_str);
            let Event { op, layer, start, end, bytes, calls, .. } = event;
            let (start, end) = (start.as_nanos(), end.as_nanos());
            format!("{} {} {layer:?} {start}..{end} {bytes} x{calls} {file}", event.rank.0, op.name())
        };
        trace.events.iter().map(shown).collect()
    }

    #[test]
    fn numbers_as_strings_and_the_path_inline() {
        let text = r#"[
 {"id":"0","name":"open","cat":"POSIX","pid":"7","tid":"8","ts":"10","dur":"2","ph":"X","args":{"hostname":"n","ret":3,"fname":"/a"}}
{"id":"1","name":"write","cat":"POSIX","pid":"7","tid":"8","ts":"20","dur":"5","ph":"X","args":{"hostname":"n","ret":"100","count":"200","fname":"/a","fd":3}}
{"id":"2","name":"step","cat":"app","pid":"7","tid":"8","ts":"30","dur":"5","ph":"X","args":{"hostname":"n"}}
"#;
        let (trace, census) = read_text(text);
        assert_eq!(
            shown(&trace),
            ["0 open Posix 10000..12000 0 x1 /a", "0 write Posix 20000..25000 100 x1 /a"]
        );
        assert_eq!((census.records, census.functions["step"]), (3, 1));
        assert_eq!(trace.losses, []);
    }

    #[test]
    fn hashes_above_two_to_the_63_find_their_names() {
        let text = r#"[
{"id":1,"name":"SH","cat":"dftracer","pid":5,"tid":5,"ph":"M","args":{"hhash":9509357668201227806,"name":"python;a.py","value":17868160079272185648}}
{"id":2,"name":"start","cat":"dftracer","pid":5,"tid":5,"ts":1,"dur":0,"ph":"X","args":{"hhash":9509357668201227806,"cmd_hash":17868160079272185648}}
{"id":3,"name":"FH","cat":"dftracer","pid":5,"tid":5,"ph":"M","args":{"hhash":9509357668201227806,"name":"/data/f","value":17868160079272185649}}
{"id":4,"name":"pread","cat":"POSIX","pid":5,"tid":5,"ts":7,"dur":1,"ph":"X","args":{"hhash":9509357668201227806,"fhash":17868160079272185649,"ret":8,"count":8}}
{"id":5,"name":"read","cat":"POSIX","pid":5,"tid":5,"ts":9,"dur":1,"ph":"X","args":{"hhash":9509357668201227806,"fhash":17868160079272185650,"ret":-1}}
]"#;
        let (trace, census) = read_text(text);
        assert_eq!(
            shown(&trace),
            ["0 read Posix 7000..8000 8 x1 /data/f", "0 read Posix 9000..10000 0 x1 #17868160079272185650"]
        );
        assert_eq!(trace.info.job.exe.as_deref(), Some("python a.py"));
        assert_eq!((census.records, census.metadata), (3, 2));
    }

    #[test]
    fn the_unit_of_time_is_what_the_trace_says() {
        let text = r#"{"name":"CM","cat":"dftracer","type":1,"pid":5,"tid":5,"ph":4,"args":{"hhash":"ab","name":"time_metric","value":"NS"}}
{"id":2,"name":"fread","cat":"STDIO","type":3,"pid":5,"tid":5,"ts":1794702682044670000,"dur":11000,"ph":1,"args":{"hhash":"ab","ret":10,"count":20,"size":4}}
"#;
        let (trace, _) = read_text(text);
        assert_eq!(shown(&trace), ["0 read Stdio 1794702682044670000..1794702682044681000 40 x1 -"]);
    }

    #[test]
    fn an_aggregate_fills_its_window() {
        let text = r#"{"name":"write","cat":"POSIX","type":3,"ts":2000000,"ph":3,"pid":5,"tid":5,"args":{"hhash":"ab","dur_sum":7,"ret_max":10,"ret_min":1,"ret_sum":500,"dft_cnt":60}}
{"name":"read","cat":"POSIX","type":3,"ts":2000000,"ph":3,"pid":5,"tid":5,"args":{"hhash":"ab","dur":2,"ret":80,"count":80,"dft_cnt":1}}
{"id":9,"name":"end","cat":"dftracer","type":1,"pid":5,"tid":5,"ts":3,"dur":0,"ph":1,"args":{"hhash":"ab","cfg":{"enable":1,"trace_interval_ms":500,"bind":1}}}
"#;
        let (trace, census) = read_text(text);
        assert_eq!(
            shown(&trace),
            ["0 write Posix 2000000000..2500000000 500 x60 -", "0 read Posix 2000000000..2500000000 80 x1 -"]
        );
        assert!(trace.events.iter().all(|event| event.grain == Grain::Bin));
        assert_eq!((census.records, census.aggregated, census.aggregated_calls), (1, 2, 61));
    }

    #[test]
    fn a_cut_record_is_lost_and_the_one_behind_it_is_not() {
        let whole = r#"{"id":1,"name":"write","cat":"POSIX","pid":5,"tid":5,"ts":7,"dur":1,"ph":"X","args":{"ret":8}}"#;
        let named = r#"{"id":1,"name":"write","cat":"POSIX","pid":5,"ph":"X","args":{"fname":"/a/very/long"#;
        let text = format!("{named}{whole}\n{}{whole}\n{whole}\n{}", &whole[..60], &whole[..70]);
        let (trace, census) = read_text(&text);
        assert_eq!((trace.events.len(), census.unusable), (3, 3));
        assert_eq!(trace.losses[0].records, Some(3));
        assert_eq!(trace.losses[0].what, "line 1: the record is cut off, and 2 more like it");
    }

    #[test]
    fn a_line_of_broken_records_costs_its_length() {
        let broken = r#"{"id":1,"name":"write","cat":"POSIX","ph":"X","args":{"fname":"#.repeat(10_000);
        let whole = r#"{"id":2,"name":"write","cat":"POSIX","pid":1,"tid":1,"ts":10,"dur":5,"ph":"X","args":{"fname":"/a","ret":7}}"#;
        let (trace, census) = read_text(&format!("[\n{whole}\n{broken}{whole}\n"));
        assert_eq!((trace.events.len(), census.unusable), (2, 10_000));
    }

    #[test]
    fn a_time_that_no_clock_shows_is_a_loss() {
        let line = |ts: u64| {
            format!(
                r#"{{"id":2,"name":"write","cat":"POSIX","pid":1,"tid":1,"ts":{ts},"dur":5,"ph":"X","args":{{"fname":"/a","ret":7}}}}"#
            )
        };
        let (trace, census) = read_text(&format!("[\n{}\n{}\n", line(10), line(9_127_387_328_738_889)));
        assert_eq!((trace.events.len(), census.unusable), (1, 1));
    }

    #[test]
    fn bytes_nobody_names_are_a_loss() {
        let text = r#"{"id":1,"name":"read","cat":"POSIX","pid":5,"tid":5,"ts":7,"dur":1,"ph":"X"}"#;
        let (trace, _) = read_text(text);
        assert_eq!((trace.events[0].bytes, trace.losses.len()), (0.0, 1));
    }

    #[test]
    fn a_file_is_recognised_by_its_first_record() {
        assert!(recognises(b"[\n   {\"id\":\"0\",\"name\":\"x\",\"cat\":\"POSIX\",\"pid\":\"1\"}"));
        assert!(recognises(b"{\"name\":\"HH\",\"cat\":\"dftracer\",\"type\":1,\"pid\":26732}"));
        assert!(!recognises(b"{\"id\":1}\n{\"pid\":1,\"cat\":2}"));
        assert!(!recognises(b"{\"ts\": 1, \"cat\": \"POSIX\", \"pid\": 3}"));
        assert!(!recognises(b""));
    }
}
