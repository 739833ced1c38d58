//! TMIO's three forms, for tools that read TMIO.

use std::io::{self, Write};
use std::ops::ControlFlow;

use iotide_trace::{Event, EventSink, Loss, Op, Timestamp};

/// One of the forms that TMIO writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TmioForm {
    /// A line a mode, and a new one when it gets long, as TMIO does at each flush.
    JsonLines,
    /// One document, so that all requests are kept until the end.
    Json,
    /// An array a mode, and a new one when it gets long. Requests that went on beside the program keep when it waited for them.
    MessagePack,
}

/// Writes data events as TMIO does.
///
/// Each call is a request with the bandwidth it had. What the format cannot hold is left out: ranks, files, metadata calls and
/// losses. A request of zero length gets a nanosecond, or its bytes could not be written.
///
/// ```
/// use iotide_formats::TmioWriter;
/// use iotide_trace::{Event, EventSink, Op, Rank, Timestamp};
///
/// let mut writer = TmioWriter::new(Vec::new(), 4);
/// let [start, end] = [1.0, 3.0].map(|at_s| Timestamp::from_secs_since_start(at_s).unwrap());
/// let _ = writer.event(Event::data(Op::Write, Rank(0), start, end, 16.0));
/// let text = String::from_utf8(writer.finish()?).unwrap();
/// assert!(text.starts_with("\t{\"write_sync\":") && text.contains("\"b_rank_avr\": [8]"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct TmioWriter<W: Write> {
    out: W,
    n_ranks: u64,
    form: TmioForm,
    modes: [Mode; 6],
    failed: Option<io::Error>,
}

/// The requests of a mode that no line holds yet.
#[derive(Debug)]
struct Mode {
    name: &'static str,
    bytes: f64,
    rates_bps: Vec<f64>,
    starts: Vec<Timestamp>,
    ends: Vec<Timestamp>,
    /// When the program waited for each; empty where it never has to.
    waits: Vec<Timestamp>,
}

const READ_SYNC: usize = 0;
const READ_ASYNC_T: usize = 1;
const READ_ASYNC_B: usize = 2;
const WRITE_SYNC: usize = 3;
const WRITE_ASYNC_T: usize = 4;
const WRITE_ASYNC_B: usize = 5;
const NAMES: [&str; 6] =
    ["read_sync", "read_async_t", "read_async_b", "write_sync", "write_async_t", "write_async_b"];

impl<W: Write> TmioWriter<W> {
    /// Requests on a line.
    const LINE: usize = 1 << 14;

    /// Returns a writer of JSON Lines for a run of `n_ranks` ranks.
    pub fn new(out: W, n_ranks: u64) -> Self {
        Self::with_form(out, n_ranks, TmioForm::JsonLines)
    }

    /// Returns a writer of a form for a run of `n_ranks` ranks.
    pub fn with_form(out: W, n_ranks: u64, form: TmioForm) -> Self {
        let modes = NAMES.map(|name| Mode {
            name,
            bytes: 0.0,
            rates_bps: Vec::new(),
            starts: Vec::new(),
            ends: Vec::new(),
            waits: Vec::new(),
        });
        Self { out, n_ranks, form, modes, failed: None }
    }

    /// Writes what is left, and returns the output or the first error there was.
    pub fn finish(mut self) -> io::Result<W> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        if self.form == TmioForm::Json {
            write!(self.out, "{{\n\t")?;
            let mut separator = "";
            for mode in self.modes.iter_mut().filter(|mode| !mode.starts.is_empty()) {
                write!(self.out, "{separator}")?;
                mode.write_json(&mut self.out, self.n_ranks)?;
                separator = ",\n\t";
            }
            writeln!(self.out, "\n}}")?;
        } else {
            for mode in &mut self.modes {
                mode.write(&mut self.out, self.n_ranks, self.form)?;
            }
        }
        self.out.flush()?;
        Ok(self.out)
    }

    fn push(&mut self, mode: usize, event: &Event, end: Timestamp) -> ControlFlow<()> {
        let end = end.max(Timestamp::from_nanos_since_start(event.start.as_nanos().saturating_add(1)));
        let mode = &mut self.modes[mode];
        mode.bytes += event.bytes;
        mode.rates_bps.push(event.bytes / end.secs_since(event.start));
        mode.starts.push(event.start);
        mode.ends.push(end);
        if mode.starts.len() < Self::LINE || self.form == TmioForm::Json {
            return ControlFlow::Continue(());
        }
        match mode.write(&mut self.out, self.n_ranks, self.form) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }
}

impl<W: Write> EventSink for TmioWriter<W> {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        match event.op {
            Op::Read => self.push(READ_SYNC, &event, event.end),
            Op::Write => self.push(WRITE_SYNC, &event, event.end),
            _ => ControlFlow::Continue(()),
        }
    }

    fn async_event(&mut self, event: Event, waited: Timestamp) -> ControlFlow<()> {
        let (throughput, required) = match event.op {
            Op::Read => (READ_ASYNC_T, READ_ASYNC_B),
            Op::Write => (WRITE_ASYNC_T, WRITE_ASYNC_B),
            _ => return ControlFlow::Continue(()),
        };
        if self.form == TmioForm::MessagePack {
            // One request that holds both.
            self.modes[throughput].waits.push(waited);
            return self.push(throughput, &event, event.end);
        }
        self.push(throughput, &event, event.end)?;
        self.push(required, &event, waited)
    }

    fn loss(&mut self, _: Loss) {}

    fn time_spent(&mut self, _: iotide_trace::TimeSpent) {}

    fn access_facts(&mut self, _: &iotide_trace::AccessFacts) {}
}

impl Mode {
    /// Writes the requests and forgets them; nothing if there are none.
    fn write(&mut self, out: &mut dyn Write, n_ranks: u64, form: TmioForm) -> io::Result<()> {
        if self.starts.is_empty() {
            return Ok(());
        }
        match form {
            TmioForm::MessagePack => self.write_pack(out, n_ranks)?,
            TmioForm::JsonLines | TmioForm::Json => {
                write!(out, "\t{{")?;
                self.write_json(out, n_ranks)?;
                writeln!(out, "}}")?;
            }
        }
        self.bytes = 0.0;
        self.rates_bps.clear();
        self.starts.clear();
        self.ends.clear();
        self.waits.clear();
        Ok(())
    }

    /// Writes the requests as a name and what it stands for.
    fn write_json(&self, out: &mut dyn Write, n_ranks: u64) -> io::Result<()> {
        let n = self.starts.len();
        let total_s: f64 =
            self.starts.iter().zip(&self.ends).map(|(start, end)| end.secs_since(*start)).sum();
        let Self { name, bytes, .. } = self;
        write!(
            out,
            "\"{name}\":{{\"total_bytes\": {bytes},\"total_io_phases\": {n},\"total_io_ops\": {n},\
             \"number_of_ranks\": {n_ranks},\"bandwidth\": {{\"weighted_harmonic_mean\": {}",
            *bytes / total_s
        )?;
        // A call is a phase of its own here, so mean and sum of its calls are the same.
        for column in ["b_rank_avr", "b_rank_sum"] {
            write_column(out, column, self.rates_bps.iter().copied())?;
        }
        write_column(out, "t_rank_s", self.starts.iter().map(|at| at.as_secs()))?;
        write_column(out, "t_rank_e", self.ends.iter().map(|at| at.as_secs()))?;
        write!(out, "}}}}")
    }

    /// Writes the requests as an array: the mode, its sums, the number of ranks, and an array for each request.
    fn write_pack(&self, out: &mut dyn Write, n_ranks: u64) -> io::Result<()> {
        let name = self.name.strip_suffix("_t").unwrap_or(self.name);
        let n = self.starts.len() as u64;
        let sizes = || (0..self.starts.len()).map(|i| self.size(i));
        let largest = sizes().fold(0.0, f64::max);
        out.write_all(&[0x9e, 0xa0 | name.len() as u8])?;
        out.write_all(name.as_bytes())?;
        out.write_all(&[
            0xc2 | u8::from(name.ends_with("async")),
            0xc2 | u8::from(name.starts_with("write")),
        ])?;
        // Total bytes, the most of a rank and of a request; then phases and operations: of a rank, in all, of a phase, of a rank, in all.
        // What is not kept by rank here is told as if one rank had done it all.
        for value in [self.bytes, self.bytes, largest] {
            pack_number(out, value)?;
        }
        for count in [n, n, 1, n, n, n_ranks, n_ranks] {
            pack_count(out, count)?;
        }
        out.write_all(&[0xdd])?;
        out.write_all(&(n as u32).to_be_bytes())?;
        for i in 0..self.starts.len() {
            let rate = self.rates_bps[i];
            let waited = self.waits.get(i);
            let required = waited.map_or(0.0, |waited| {
                let until_s = waited.secs_since(self.starts[i]);
                if until_s > 0.0 { self.size(i) / until_s } else { 0.0 }
            });
            out.write_all(&[0x99])?;
            for value in [
                self.size(i),
                self.starts[i].as_secs(),
                self.ends[i].as_secs(),
                waited.map_or(0.0, |at| at.as_secs()),
                rate,
                rate,
                required,
                required,
            ] {
                pack_number(out, value)?;
            }
            pack_count(out, 1)?;
        }
        Ok(())
    }

    fn size(&self, i: usize) -> f64 {
        (self.rates_bps[i] * self.ends[i].secs_since(self.starts[i])).round()
    }
}

fn pack_number(out: &mut dyn Write, value: f64) -> io::Result<()> {
    out.write_all(&[0xcb])?;
    out.write_all(&value.to_be_bytes())
}

fn pack_count(out: &mut dyn Write, value: u64) -> io::Result<()> {
    out.write_all(&[0xcf])?;
    out.write_all(&value.to_be_bytes())
}

fn write_column(out: &mut dyn Write, name: &str, values: impl Iterator<Item = f64>) -> io::Result<()> {
    write!(out, ",\"{name}\": [")?;
    for (i, value) in values.enumerate() {
        // Shortest digits that read back as the same number.
        write!(out, "{}{value}", if i > 0 { ", " } else { "" })?;
    }
    write!(out, "]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, OpenOptions};
    use iotide_trace::{Rank, ReadWrite};

    fn events() -> Vec<Event> {
        let at = Timestamp::from_nanos_since_start;
        // More than one line holds, of lengths from 0 to 96 ns and up to a few ms, some at the same time.
        (0..40_000)
            .map(|i| {
                let start = i * 40_001;
                let length = if i % 3 == 0 { i % 97 } else { i * 131 % 7_000_003 };
                let op = if i % 5 == 0 { Op::Read } else { Op::Write };
                Event::data(op, Rank((i % 4) as i32), at(start), at(start + length), (i % 8192) as f64)
            })
            .collect()
    }

    #[test]
    fn what_is_written_reads_back_as_the_same_signal() {
        for (form, format) in [
            (TmioForm::JsonLines, Format::TmioJsonl),
            (TmioForm::Json, Format::TmioJson),
            (TmioForm::MessagePack, Format::TmioMsgpack),
        ] {
            reads_back(form, format);
        }
    }

    fn reads_back(form: TmioForm, format: Format) {
        let (mut writer, mut seen) = (TmioWriter::with_form(Vec::new(), 4, form), ReadWrite::default());
        for (i, event) in events().into_iter().enumerate() {
            let halfway =
                Timestamp::from_nanos_since_start(event.start.as_nanos().midpoint(event.end.as_nanos()));
            for sink in [&mut writer as &mut dyn EventSink, &mut seen] {
                let flow = match i % 2 {
                    0 => sink.event(event),
                    _ => sink.async_event(event, halfway),
                };
                assert!(flow.is_continue());
            }
        }
        let reader =
            OpenOptions::default().from_read("written", io::Cursor::new(writer.finish().unwrap())).unwrap();
        assert_eq!(reader.format(), format);
        let mut again = ReadWrite::default();
        let info = reader.read(&mut again).unwrap();
        assert_eq!(info.job.n_procs, Some(4));
        assert_eq!(again.losses, []);
        assert_eq!(again.tally.n_events, seen.tally.n_events);
        for (wrote, read) in [(seen.write, again.write), (seen.read, again.read)] {
            let (wrote, read) = (wrote.finish(), read.finish());
            assert_eq!(wrote.span(), read.span());
            let gap = (wrote.volume_bytes() - read.volume_bytes()).abs() / wrote.volume_bytes();
            assert!(gap < 1e-12, "{} written, {} read", wrote.volume_bytes(), read.volume_bytes());
        }
    }

    #[test]
    fn an_asynchronous_request_has_its_throughput_and_what_it_would_have_needed() {
        let at = Timestamp::from_nanos_since_start;
        let mut writer = TmioWriter::new(Vec::new(), 1);
        let request = Event::data(Op::Read, Rank(0), at(0), at(4_000_000_000), 8.0);
        assert!(writer.async_event(request, at(1_000_000_000)).is_continue());
        let text = String::from_utf8(writer.finish().unwrap()).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].contains("read_async_t") && lines[0].contains("\"b_rank_avr\": [2]"), "{text}");
        assert!(lines[1].contains("read_async_b") && lines[1].contains("\"b_rank_avr\": [8]"), "{text}");
        assert!(lines[1].contains("\"t_rank_e\": [1]"), "{text}");
    }

    #[test]
    fn an_output_that_fails_is_an_error_at_the_end() {
        let full: &mut [u8] = &mut [0; 10];
        let mut writer = TmioWriter::new(full, 1);
        for event in events() {
            let _ = writer.event(event);
        }
        assert!(writer.finish().is_err());
    }
}
