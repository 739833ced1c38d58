//! TAU event JSON: an array of complete events, one per line, as TAU's I/O wrappers write for `skel` replay.
//!
//! Not quite JSON: pointers stand bare (`"buf": 0x7ffe`), names are not escaped. `pid` is the rank; times count in
//! microseconds from the Unix epoch. What a call moved is what it returned.

use std::ops::ControlFlow;

use iotide_trace::{Event, EventSink, FileId, Grain, Layer, Rank, Timestamp, TraceInfo};

use crate::{
    Place,
    calls::{self, CallKind},
    error::Fault,
    files::Files,
    input::Input,
    lenient::{Broken, Depth, Value, visit_fields},
    losses::Losses,
    scanner::Scanner,
};

const LONGEST_LINE: usize = 1 << 20;

/// Whether a file begins like one of these.
pub(crate) fn recognises(head: &[u8]) -> bool {
    let Some(array) = head.trim_ascii_start().strip_prefix(b"[") else { return false };
    let record = array.trim_ascii_start();
    let line = &record[..memchr::memchr(b'\n', record).unwrap_or(record.len())];
    let has = |key: &[u8]| memchr::memmem::find(line, key).is_some();
    record.starts_with(b"{\"ts\":") && has(b"\"ph\":") && has(b"\"cat\":") && has(b"\"name\":")
}

#[derive(Default)]
struct Record<'a> {
    name: &'a [u8],
    phase: &'a [u8],
    rank: i64,
    ts: Option<i64>,
    dur: Option<i64>,
    returned: Option<i64>,
    path: &'a [u8],
    size: Option<i64>,
}

/// Reads one file.
pub(crate) fn read(input: Input, sink: &mut dyn EventSink) -> Result<TraceInfo, Fault> {
    let mut scanner = Scanner::new(input.into_read());
    let mut decoder =
        Decoder { files: Files::default(), losses: Losses::default(), first: None, whole: false };
    let (flow, number) = scanner.lines(LONGEST_LINE, |line, number| decoder.line(line, number, sink))?;
    if flow.is_continue() && !decoder.whole {
        decoder.losses.note_of_the_rest("end", Place::Line(number), || {
            "the closing bracket is missing: the end may be, too".into()
        });
    }
    let files = decoder.files.into_paths(&mut decoder.losses);
    decoder.losses.report(sink);
    let mut info = TraceInfo { files, ..TraceInfo::default() };
    info.job.start_time_unix_s = decoder.first.map(Timestamp::as_secs);
    Ok(info)
}

struct Decoder {
    files: Files,
    losses: Losses,
    first: Option<Timestamp>,
    /// The array was closed.
    whole: bool,
}

impl Decoder {
    fn line(&mut self, line: &[u8], number: u64, sink: &mut dyn EventSink) -> ControlFlow<()> {
        let text = line.trim_ascii();
        let text = text.strip_prefix(b"[").unwrap_or(text).trim_ascii_start();
        self.whole |= text.ends_with(b"]");
        if matches!(text, b"" | b"]" | b",") {
            return ControlFlow::Continue(());
        }
        let mut record = Record::default();
        let parsed = visit_fields(text, |depth, key, value: Value<'_>| match (depth, key) {
            (Depth::Record, b"name") => record.name = value.bytes(),
            (Depth::Record, b"ph") => record.phase = value.bytes(),
            (Depth::Record, b"pid") => record.rank = value.as_i64().unwrap_or(0),
            (Depth::Record, b"ts") => record.ts = value.as_i64(),
            (Depth::Record, b"dur") => record.dur = value.as_i64(),
            (Depth::Record, b"return") => record.returned = value.as_i64(),
            (Depth::Record, b"pathname") | (Depth::Args, b"path" | b"pathname") if record.path.is_empty() => {
                record.path = value.bytes();
            }
            (Depth::Args, b"size") => record.size = value.as_i64(),
            _ => {}
        });
        let lost: &dyn Fn() -> String = match (&parsed, record.ts) {
            (Ok(()), Some(ts)) => return self.record(&record, ts, number, sink),
            (Ok(()), None) => &|| "an event without a time".to_owned(),
            (Err(broken), _) => &move || Broken::to_string(broken),
        };
        self.losses.note("broken", Place::Line(number), lost);
        ControlFlow::Continue(())
    }

    fn record(
        &mut self,
        record: &Record<'_>,
        ts: i64,
        number: u64,
        sink: &mut dyn EventSink,
    ) -> ControlFlow<()> {
        let nanos = |micros: i64| Timestamp::from_nanos_since_start(micros.saturating_mul(1000));
        let start = nanos(ts);
        let end = nanos(ts.saturating_add(record.dur.unwrap_or(0).max(0)));
        self.first = Some(self.first.map_or(start, |first| first.min(start)));
        let kind = std::str::from_utf8(record.name).ok().and_then(calls::kind_of);
        let Some(CallKind { op, layer }) = kind.filter(|_| record.phase == b"X") else {
            return ControlFlow::Continue(());
        };
        let bytes = match (op.moves_data(), record.returned) {
            (false, _) => 0.0,
            (true, Some(returned)) if matches!(layer, Layer::Posix | Layer::Stdio) => {
                let items = matches!(record.name, b"fread" | b"fwrite");
                let item_bytes = if items { record.size.unwrap_or(1).max(0) } else { 1 };
                returned.max(0) as f64 * item_bytes as f64
            }
            _ => {
                self.losses.note("no bytes", Place::Line(number), || {
                    "a call that does not say how many bytes it moved, taken as none".into()
                });
                0.0
            }
        };
        let file = if record.path.is_empty() { FileId::NONE } else { self.files.id_of_bytes(record.path) };
        let rank = Rank(i32::try_from(record.rank).unwrap_or(Rank::ALL.0));
        sink.event(Event { op, layer, grain: Grain::Call, rank, file, start, end, bytes, calls: 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_trace::{Op, Trace};

    fn read_text(text: &str) -> Trace {
        assert!(recognises(text.as_bytes()));
        crate::testing::read_by(read, text)
    }

    const FOUR: &str = r#"[
{"ts": 1000, "dur": 616, "ph": "X", "tid": 0, "pid": 3, "step": 0, "cat": "POSIX", "name": "fopen", "args": {"path": "log", "mode": "w"}, "return": "0x2ea32c0"},
{"ts": 2000, "dur": 33, "ph": "X", "tid": 0, "pid": 3, "step": 0, "cat": "POSIX", "name": "fwrite", "args": {"ptr": "0xa5", "size": 4, "nmemb": 27, "stream": "0x7f"}, "pathname": "log", "return": 27},
{"ts": 3000, "dur": 6, "ph": "X", "tid": 0, "pid": 3, "step": 0, "cat": "POSIX", "name": "read", "args": {"fd": 38, "buf": 0x7fffbe8cd490, "count": 8}, "pathname": "/sys/x", "return": 18446744073709551615},
{"ts": 4000, "dur": 1, "ph": "X", "tid": 0, "pid": 3, "step": 0, "cat": "TAU", "name": "program exit"}
]
"#;

    #[test]
    fn items_times_size_were_written_and_minus_one_was_not_read() {
        let trace = read_text(FOUR);
        let shown: Vec<_> = trace.events.iter().map(|it| (it.op, it.layer, it.bytes, it.rank.0)).collect();
        assert_eq!(
            shown,
            [
                (Op::Open, Layer::Stdio, 0.0, 3),
                (Op::Write, Layer::Stdio, 108.0, 3),
                (Op::Read, Layer::Posix, 0.0, 3)
            ]
        );
        assert_eq!(trace.info.files, ["log", "/sys/x"]);
        assert_eq!(trace.losses, []);
    }

    #[test]
    fn a_file_without_its_end_says_so() {
        let trace = read_text(&FOUR[..FOUR.len() - 60]);
        assert_eq!((trace.events.len(), trace.losses.len()), (3, 2));
    }
}
