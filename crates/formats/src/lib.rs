//! The only place where foreign bytes become events.
//!
//! [`open`] looks at the first bytes of a file and tells its [`Format`]; [`Reader::read`] pushes its events into an
//! [`EventSink`] as they are parsed, so memory does not grow with the trace.
//!
//! ```
//! use iotide_formats::{Format, OpenOptions};
//! use iotide_trace::Trace;
//!
//! let table = "rank,op,start,end,bytes\n0,write,0.0,2.0,4096\n";
//! let reader = OpenOptions::default().from_read("table", table.as_bytes())?;
//! assert_eq!(reader.format(), Format::Csv);
//! let mut trace = Trace::default();
//! trace.info = reader.read(&mut trace)?;
//! assert_eq!(trace.events[0].bytes, 4096.0);
//! # Ok::<(), iotide_formats::ReadError>(())
//! ```
//!
//! # Design constraints
//! - Nothing in here panics, whatever the bytes. Every size read from a file is checked before it is used.
//! - Readers stream. What is kept while reading is bounded by a constant, plus the table of file names.
//! - Imperfect data is a [`iotide_trace::Loss`] beside the events. A record that makes no sense is left out and
//!   counted, and reading goes on; many of one kind become one loss. Only a file of which nothing can be used is a
//!   [`ReadError`].
//!
//! # To add a format
//! Copy `series.rs`, the smallest one: a function `read(input, sink) -> Result<TraceInfo, Fault>`. Then add an arm to
//! [`Format`] (the compiler lists what is missing), teach `detect.rs` its first bytes, give it a section in
//! `docs/formats.md` and a sample in `tests/it/samples.rs`, which makes the fuzz test and the golden test see it.

use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use iotide_trace::{Event, EventSink, FileId, JobInfo, Loss, TimeSpent, TraceInfo};

pub use crate::{
    error::{Place, ReadError},
    events::EventWriter,
    format::Format,
    native::NativeWriter,
    text::{PatternError, PatternSpec},
};

use crate::{darshan::DarshanOptions, error::Fault, input::Input, rows::Syntax, tmio::json::Shape};

mod column;
pub mod darshan;
mod detect;
mod error;
mod events;
mod files;
mod format;
mod input;
mod json;
mod losses;
mod native;
mod number;
mod rows;
mod scanner;
mod series;
#[cfg(test)]
mod testing;
mod text;
mod tmio;

/// Opens a trace whose format its content tells.
pub fn open(path: &Path) -> Result<Reader, ReadError> {
    OpenOptions::default().open(path)
}

/// Opens several files of one run, one per rank or node, to be read as one trace.
///
/// The files may be of different formats. File tables are put one after the other; what the first file says of the
/// job holds, and the others fill in what it left open. A file of which nothing can be used is a loss, as long as
/// another one can.
pub fn open_many<P: AsRef<Path>>(paths: &[P]) -> Result<Reader, ReadError> {
    OpenOptions::default().open_many(paths)
}

/// How to open a trace, for when its content does not say enough.
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    /// Read as this format, whatever the content looks like.
    pub input_format: Option<Format>,
    /// Where a free text has its numbers. If given, everything is read as [`Format::Text`] unless `input_format` says
    /// otherwise.
    pub pattern: Option<PatternSpec>,
    /// Which layers of a Darshan log become events, and from which of its sources.
    pub darshan: DarshanOptions,
}

impl OpenOptions {
    /// Opens a file or directory; `-` is standard input, and a file of that name is `./-`.
    pub fn open(&self, path: &Path) -> Result<Reader, ReadError> {
        if path == Path::new("-") {
            return self.from_stdin();
        }
        self.reader_of(Input::open(path)?)
    }

    /// Opens several files of one run; see [`open_many`].
    pub fn open_many<P: AsRef<Path>>(&self, paths: &[P]) -> Result<Reader, ReadError> {
        let mut parts = Vec::new();
        let mut unusable = Vec::new();
        for path in paths {
            match self.open(path.as_ref()) {
                Ok(reader) => parts.extend(reader.parts),
                // A rank that did nothing may leave an empty file.
                Err(error @ ReadError::Empty { .. }) => unusable.push(error),
                Err(error) => return Err(error),
            }
            // A run has more ranks than a process may have files open.
            if let Some(part) = parts.last_mut()
                && paths.len() > 1
            {
                part.close();
            }
        }
        if parts.is_empty() {
            return Err(unusable.into_iter().next().unwrap_or(ReadError::NoInput));
        }
        Ok(Reader { parts, unusable })
    }

    /// Opens standard input.
    pub fn from_stdin(&self) -> Result<Reader, ReadError> {
        self.from_read("standard input", std::io::stdin())
    }

    /// Opens a stream of bytes; `name` stands for it in messages.
    // Not a constructor of `Self`: the options are what it is called on, as in `std::fs::OpenOptions::open`.
    #[allow(clippy::wrong_self_convention)]
    pub fn from_read(
        &self,
        name: impl AsRef<Path>,
        read: impl Read + Send + 'static,
    ) -> Result<Reader, ReadError> {
        self.reader_of(Input::from_read(name.as_ref(), Box::new(read))?)
    }

    fn reader_of(&self, input: Input) -> Result<Reader, ReadError> {
        let format = match (self.input_format, &self.pattern) {
            (Some(format), _) => format,
            (None, Some(_)) => Format::Text,
            (None, None) => detect::format(&input)?,
        };
        let pattern = self.pattern.clone();
        let parts = vec![Part { source: Source::Open(input), format, pattern, darshan: self.darshan }];
        Ok(Reader { parts, unusable: Vec::new() })
    }
}

/// A trace that was opened and not yet read.
#[derive(Debug)]
pub struct Reader {
    /// The files of the run; never empty.
    parts: Vec<Part>,
    /// Why further files of the run are not among them.
    unusable: Vec<ReadError>,
}

#[derive(Debug)]
struct Part {
    source: Source,
    format: Format,
    pattern: Option<PatternSpec>,
    darshan: DarshanOptions,
}

#[derive(Debug)]
enum Source {
    Open(Input),
    /// To be opened again when its turn comes.
    Closed(PathBuf),
}

impl Part {
    fn close(&mut self) {
        if let Source::Open(input) = &self.source
            && input.file().is_some()
        {
            self.source = Source::Closed(input.name().to_path_buf());
        }
    }
}

impl Reader {
    /// The format it will be read as; of several files, the first one's.
    pub fn format(&self) -> Format {
        self.parts[0].format
    }

    /// Reads all of it, pushing events and losses into `sink` as they are found.
    ///
    /// Returns early, without an error, if the sink breaks. Fails if the source holds records but not one of them
    /// could be used; a trace that is whole and holds nothing is fine.
    pub fn read(self, sink: &mut dyn EventSink) -> Result<TraceInfo, ReadError> {
        let Reader { parts, mut unusable } = self;
        let n_files = parts.len() + unusable.len();
        let mut info = TraceInfo::default();
        for part in parts {
            let mut counted = Counted {
                sink: &mut *sink,
                file_base: info.files.len() as u32,
                source: None,
                n_events: 0,
                first_loss: None,
                stopped: false,
            };
            match read_part(part, n_files > 1, &mut counted) {
                Ok(part_info) => {
                    info.files.extend(part_info.files);
                    info.job = joined(info.job, part_info.job);
                }
                Err(error) => unusable.push(error),
            }
            if counted.stopped {
                break;
            }
        }
        if unusable.len() == n_files {
            return Err(unusable.swap_remove(0));
        }
        for error in unusable {
            sink.loss(Loss::of_unknown_size(error.to_string()));
        }
        Ok(info)
    }
}

/// Reads one file of a run.
fn read_part(part: Part, one_of_several: bool, sink: &mut Counted<'_>) -> Result<TraceInfo, ReadError> {
    let Part { source, format, pattern, darshan } = part;
    let input = match source {
        Source::Open(input) => input,
        Source::Closed(path) => Input::open(&path)?,
    };
    let path = input.name().to_path_buf();
    sink.source = one_of_several.then(|| path.display().to_string());
    let info = read_as(format, input, pattern, darshan, sink)
        .map_err(|fault| ReadError::from_fault(&path, fault))?;
    match &sink.first_loss {
        Some(loss) if sink.n_events == 0 => Err(ReadError::NothingUsable { path, first: loss.what.clone() }),
        _ => Ok(info),
    }
}

/// Calls the reader of that format: the one place that knows them all.
fn read_as(
    format: Format,
    input: Input,
    pattern: Option<PatternSpec>,
    darshan: DarshanOptions,
    sink: &mut dyn EventSink,
) -> Result<TraceInfo, Fault> {
    let table = if detect::is_series(input.head()) { series::read } else { events::read };
    match format {
        Format::Csv => table(input, Syntax::Csv, sink),
        Format::Jsonl => table(input, Syntax::JsonLines, sink),
        Format::TmioJson | Format::FtioJson => tmio::json::read(input, Shape::Document, sink),
        Format::TmioJsonl => tmio::json::read(input, Shape::Lines, sink),
        Format::TmioMsgpack => tmio::msgpack::read(input, sink),
        Format::Text => text::read(input, pattern, sink),
        Format::Native => native::read(input, sink),
        Format::Darshan | Format::DarshanParserText | Format::DarshanDxtText => {
            darshan::read(input, darshan, sink)
        }
    }
}

/// The caller's sink, seen by one file's reader: counts, and moves file ids behind those of the files before.
struct Counted<'a> {
    sink: &'a mut dyn EventSink,
    file_base: u32,
    /// Named in losses if there are several files.
    source: Option<String>,
    n_events: u64,
    first_loss: Option<Loss>,
    stopped: bool,
}

impl EventSink for Counted<'_> {
    fn event(&mut self, mut event: Event) -> ControlFlow<()> {
        self.n_events += 1;
        if event.file != FileId::NONE {
            event.file = FileId(event.file.0.saturating_add(self.file_base));
        }
        let flow = self.sink.event(event);
        self.stopped |= flow.is_break();
        flow
    }

    fn loss(&mut self, mut loss: Loss) {
        if self.first_loss.is_none() {
            self.first_loss = Some(loss.clone());
        }
        if let Some(source) = &self.source {
            loss.what = format!("{source}: {}", loss.what);
        }
        self.sink.loss(loss);
    }

    fn time_spent(&mut self, mut spent: TimeSpent) {
        if spent.file != FileId::NONE {
            spent.file = FileId(spent.file.0.saturating_add(self.file_base));
        }
        self.sink.time_spent(spent);
    }
}

/// What two files of one run say of their job: the first one's word holds.
fn joined(first: JobInfo, second: JobInfo) -> JobInfo {
    JobInfo {
        run_time_s: first.run_time_s.or(second.run_time_s),
        n_procs: first.n_procs.or(second.n_procs),
        user: first.user.or(second.user),
        exe: first.exe.or(second.exe),
        job_id: first.job_id.or(second.job_id),
        start_time_unix_s: first.start_time_unix_s.or(second.start_time_unix_s),
    }
}
