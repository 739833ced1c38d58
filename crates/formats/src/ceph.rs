//! Ceph: what its object storage daemons count, as their admin sockets tell it (`perf dump`).
//!
//! ```text
//! # 1700000001.250000000 osd.0
//! { "osd": { "op_in_bytes": 33554432, "op_out_bytes": 0, "op_r": 0, "op_w": 8, … } }
//! ```
//!
//! A line with a time and the daemon's name stands before each dump. Counters are bytes that clients sent and got since the daemon was started:
//! copies to other daemons are counted apart (`subop_…`), so the sum over daemons is what clients moved.

use std::ops::ControlFlow;

use iotide_trace::{EventSink, Op, Timestamp, TraceInfo};
use memchr::memmem;

use crate::{
    Place,
    counters::{Counters, Redundancy, Sample, Total, mark},
    error::Fault,
    input::Input,
    lenient::parse_u64,
    losses::Losses,
    scanner::Scanner,
};

/// A whole dump may be one line.
const LONGEST_LINE: usize = 1 << 20;

/// Counters, where their values stand: bytes and calls, read and written.
const NAMES: [&[u8]; 4] = [b"op_out_bytes", b"op_in_bytes", b"op_r", b"op_w"];

/// Whether a file begins like one of these.
pub(crate) fn recognises(head: &[u8]) -> bool {
    let has = |text: &str| memmem::find(head, text.as_bytes()).is_some();
    has("\"op_in_bytes\"") && has("\"op_out_bytes\"")
}

/// Reads one file.
pub(crate) fn read(input: Input, sink: &mut dyn EventSink) -> Result<TraceInfo, Fault> {
    let mut scanner = Scanner::new(input.into_read());
    let mut decoder = Decoder::default();
    let (flow, number) = scanner
        .lines(LONGEST_LINE, |line, number| decoder.line(line.trim_ascii(), Place::Line(number), sink))?;
    if flow.is_continue() {
        let _ = decoder.end_of_dump(Place::Line(number), sink);
    }
    if !decoder.is_dated {
        let fault = "no line '# SECONDS NAME' says when this was counted, and by whom: let `date +'# %s.%N osd.0'` write one before each";
        return Err(Fault::at(Place::Whole, fault));
    }
    let Decoder { counters, mut losses, .. } = decoder;
    let files = counters.files.into_paths(&mut losses);
    losses.report(sink);
    Ok(TraceInfo { files, ..TraceInfo::default() })
}

#[derive(Default)]
struct Decoder {
    time: Option<Timestamp>,
    /// Whether any dump had a time.
    is_dated: bool,
    daemon: Vec<u8>,
    /// Objects that have begun and not ended.
    depth: i64,
    /// In the order of [`NAMES`].
    values: [Option<u64>; 4],
    counters: Counters,
    losses: Losses,
}

impl Decoder {
    fn line(&mut self, line: &[u8], place: Place, sink: &mut dyn EventSink) -> ControlFlow<()> {
        if line.starts_with(b"#") {
            self.end_of_dump(place, sink)?;
            let mark = mark(line);
            if mark.is_none() {
                self.losses.note("mark", place, || "not a time in seconds behind #".into());
            }
            self.time = mark.map(|(time, _)| time);
            self.daemon = mark.map(|(_, daemon)| daemon.to_vec()).unwrap_or_default();
            return ControlFlow::Continue(());
        }
        for field in line.split(|byte| matches!(byte, b',' | b'{' | b'}')) {
            let Some((name, value)) = field_of(field) else { continue };
            let Some(at) = NAMES.iter().position(|known| *known == name) else { continue };
            match parse_u64(value) {
                Some(value) => self.values[at] = Some(value),
                None => self.losses.note("counter", place, || "a counter that is not a whole number".into()),
            }
        }
        let n_of = |wanted: u8| line.iter().filter(|byte| **byte == wanted).count() as i64;
        self.depth += n_of(b'{') - n_of(b'}');
        // Whoever follows the log need not wait for the next dump.
        if self.depth <= 0 { self.end_of_dump(place, sink) } else { ControlFlow::Continue(()) }
    }

    fn end_of_dump(&mut self, place: Place, sink: &mut dyn EventSink) -> ControlFlow<()> {
        self.depth = 0;
        let [read, written, reads, writes] = std::mem::take(&mut self.values);
        if read.is_none() && written.is_none() {
            return ControlFlow::Continue(());
        }
        let Some(time) = self.time else {
            self.losses.note("time", place, || "counted behind no line with a time".into());
            return ControlFlow::Continue(());
        };
        self.is_dated = true;
        for (op, bytes, calls) in [(Op::Read, read, reads), (Op::Write, written, writes)] {
            let Some(bytes) = bytes else { continue };
            let total = Total { bytes, calls };
            let sample =
                Sample { target: &self.daemon, time, op, total, redundancy: Redundancy::NONE, place };
            let label = || String::from_utf8_lossy(&self.daemon).into_owned();
            self.counters.sample(sample, label, &mut self.losses, sink)?;
        }
        ControlFlow::Continue(())
    }
}

/// `"name": value`.
fn field_of(field: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = field.trim_ascii().strip_prefix(b"\"")?;
    let (name, rest) = rest.split_at(memchr::memchr(b'"', rest)?);
    Some((name, rest[1..].trim_ascii().strip_prefix(b":")?.trim_ascii()))
}

#[cfg(test)]
mod tests {
    use crate::testing::check;

    fn dump(mark: &str, read: u64, written: u64) -> String {
        format!(
            "# {mark}\n{{\n    \"osd\": {{\n        \"op_wip\": 0,\n        \"op_in_bytes\": {written},\n        \"op_out_bytes\": {read},\n        \
             \"op_latency\": {{\n            \"avgcount\": 36,\n            \"sum\": 0.03\n        }},\n        \"op_r\": {read},\n        \
             \"op_r_out_bytes\": 1,\n        \"op_w\": 2\n    }}\n}}\n"
        )
    }

    #[test]
    fn between_two_dumps_of_a_daemon_lies_one_bin() {
        check(
            [
                dump("1.5 osd.0", 0, 100),
                dump("1.6 osd.1", 0, 7),
                dump("2.5 osd.0", 4, 150),
                dump("2.6 osd.1", 0, 8),
            ]
            .concat(),
            "r-1 read 1.5..2.5 4B \"osd.0\" bin
             r-1 write 1.5..2.5 50B \"osd.0\" bin
             r-1 read 1.6..2.6 0B \"osd.1\" bin
             r-1 write 1.6..2.6 1B \"osd.1\" bin",
        );
    }

    #[test]
    fn a_dump_may_be_one_line_and_a_daemon_may_be_started_again() {
        let line =
            |at: &str, n: u64| format!("# {at}\n{{\"osd\":{{\"op_in_bytes\":{n},\"op_out_bytes\":0}}}}\n");
        check(
            [line("1", 5), line("2", 9), line("3", 1), line("4", 2)].concat(),
            "r-1 read 1..2 0B bin
             r-1 write 1..2 4B bin
             r-1 read 2..3 0B bin
             r-1 read 3..4 0B bin
             r-1 write 3..4 1B bin
             loss of 1: line 6: the counter went from 9 to 1; nobody knows what was moved in between",
        );
    }

    #[test]
    fn a_dump_without_a_time_says_how_to_get_one() {
        check(
            "{\"osd\": {\"op_in_bytes\": 5, \"op_out_bytes\": 0}}",
            "error: input, as a whole: no line '# SECONDS NAME' says when this was counted, and by whom: let `date +'# %s.%N osd.0'` write one before each",
        );
    }
}
