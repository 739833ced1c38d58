//! Any trace in another form.
//!
//! Rows of a table name their file and stand behind the facts of the job, but a reader knows both for certain only at
//! its end. So events are kept in a temporary native trace (about ten bytes each) and written from there: memory does not
//! grow with the trace, and a pipe can be converted like a file.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Seek, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use iotide_private::{nameless, temporary_files};
use iotide_trace::{AccessFacts, Event, EventSink, JobInfo, Loss, TimeSpent, Timestamp, TraceInfo};

pub use self::names::{KeptPart, NameHasher, NameKind};
#[cfg(not(fuzzing))]
use self::parquet::ParquetWriter;
use self::{chrome::ChromeWriter, jsonl::JsonlWriter};
use crate::tmio::write::{TmioForm, TmioWriter};
use crate::{EventWriter, NativeWriter, ReadError, Reader, input::Input, native};

mod chrome;
mod json;
mod jsonl;
mod names;
#[cfg(not(fuzzing))]
mod parquet;

/// A form that traces can be written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Target {
    /// iotide's own trace, which keeps everything.
    Native,
    /// A table of events, values separated by commas.
    Csv,
    /// The same table, one JSON object a line.
    Jsonl,
    /// The JSON that Perfetto and `chrome://tracing` open.
    Chrome,
    /// The same table, by columns, for data frames and databases.
    Parquet,
    /// TMIO's JSON, one document.
    TmioJson,
    /// TMIO's JSON Lines.
    TmioJsonl,
    /// TMIO's MessagePack.
    TmioMsgpack,
}

impl Target {
    /// All forms, in the order of the documentation.
    pub const ALL: &[Target] = &[
        Target::Native,
        Target::Csv,
        Target::Jsonl,
        Target::Chrome,
        Target::Parquet,
        Target::TmioJson,
        Target::TmioJsonl,
        Target::TmioMsgpack,
    ];

    /// The name used on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Target::Native => "native",
            Target::Csv => "csv",
            Target::Jsonl => "jsonl",
            Target::Chrome => "chrome",
            Target::Parquet => "parquet",
            Target::TmioJson => "tmio-json",
            Target::TmioJsonl => "tmio-jsonl",
            Target::TmioMsgpack => "tmio-msgpack",
        }
    }

    /// The form of that name, as [`Target::name`] writes it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|target| target.name() == name)
    }

    /// Whether it is no text, and so nothing for a terminal.
    pub fn is_binary(self) -> bool {
        matches!(self, Target::Native | Target::Parquet | Target::TmioMsgpack)
    }

    fn tmio(self) -> Option<TmioForm> {
        match self {
            Target::TmioJson => Some(TmioForm::Json),
            Target::TmioJsonl => Some(TmioForm::JsonLines),
            Target::TmioMsgpack => Some(TmioForm::MessagePack),
            _ => None,
        }
    }
}

/// Outcome of a conversion of a trace into another form.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conversion {
    /// How many events were written.
    pub n_events: u64,
    /// Known facts about the run.
    pub info: TraceInfo,
    /// Losses. Native traces, CSV and JSON Lines carry them along, so that they are there when they are read again;
    /// Chrome traces and Parquet hold it as metadata.
    pub losses: Vec<Loss>,
}

/// Why a trace could not be written in another form.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// It could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It could not be written.
    #[error("cannot write: {0}")]
    Write(io::Error),
    /// There was no room for its events.
    #[error("cannot keep the events in {}: {cause}", dir.display())]
    Spool {
        /// The folder for temporary files.
        dir: PathBuf,
        /// Error of the system.
        cause: io::Error,
    },
}

/// Writes a trace in another form. Memory does not grow with the trace, but for its table of file names.
///
/// ```
/// use iotide_formats::{OpenOptions, Target, convert};
///
/// let table = OpenOptions::default().from_read("table", &b"rank,op,start,end,bytes\n0,write,0,2,4096\n"[..])?;
/// let mut lines = Vec::new();
/// let conversion = convert(table, Target::Jsonl, &mut lines)?;
/// assert_eq!(conversion.n_events, 1);
/// let line = r#"{"rank":0,"op":"write","start":0.000000000,"end":2.000000000,"bytes":4096}"#;
/// assert_eq!(String::from_utf8_lossy(&lines), format!("{line}\n"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn convert(reader: Reader, target: Target, out: impl Write + Send) -> Result<Conversion, ConvertError> {
    convert_with(reader, target, out, None)
}

/// The same with hashes in the place of names, also in what is returned. Temporary files have no names either.
///
/// ```
/// use iotide_formats::{NameHasher, NameKind, OpenOptions, Target, convert_hashed};
///
/// let table = "rank,op,start,end,bytes,file\n0,write,0,2,4096,/home/kuhn/out.h5\n";
/// let table = OpenOptions::default().from_read("table", table.as_bytes())?;
/// let mut names = NameHasher::new([7; 32], NameKind::NAMES, &[]);
/// let mut lines = Vec::new();
/// convert_hashed(table, Target::Jsonl, &mut lines, &mut names)?;
/// let lines = String::from_utf8_lossy(&lines).into_owned();
/// assert!(lines.contains(".h5\"") && !lines.contains("kuhn") && !lines.contains("home"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn convert_hashed(
    reader: Reader,
    target: Target,
    out: impl Write + Send,
    names: &mut NameHasher,
) -> Result<Conversion, ConvertError> {
    convert_with(reader, target, out, Some(names))
}

fn convert_with(
    reader: Reader,
    target: Target,
    out: impl Write + Send,
    names: Option<&mut NameHasher>,
) -> Result<Conversion, ConvertError> {
    let mut out = BufWriter::with_capacity(256 << 10, out);
    if target == Target::Native {
        return to_native(reader, out, names, ConvertError::Write);
    }
    let spool_failed = |cause| ConvertError::Spool { dir: temporary_files(), cause };
    let spool = nameless().map_err(spool_failed)?;
    let conversion = to_native(reader, BufWriter::with_capacity(256 << 10, &spool), names, spool_failed)?;
    (&spool).rewind().map_err(spool_failed)?;
    let events = spool;

    let Conversion { info, losses, .. } = &conversion;
    if let Some(form) = target.tmio() {
        let mut writer = TmioWriter::with_form(&mut out, info.job.n_procs.unwrap_or(1), form);
        read_spool(events, &mut writer)?;
        writer.finish().map_err(ConvertError::Write)?;
        return Ok(conversion);
    }
    let rows = row_writer(target, &mut out, &info.job, losses).map_err(ConvertError::Write)?;
    write_rows(events, rows, &info.files)?;
    out.flush().map_err(ConvertError::Write)?;
    Ok(conversion)
}

fn row_writer<'a>(
    target: Target,
    out: &'a mut (impl Write + Send),
    job: &JobInfo,
    losses: &[Loss],
) -> io::Result<Box<dyn RowWriter + 'a>> {
    Ok(match target {
        // A native trace is its own first pass; it never comes here.
        // Nor do TMIO's forms, which have no rows.
        Target::Csv | Target::Native | Target::TmioJson | Target::TmioJsonl | Target::TmioMsgpack => {
            Box::new(EventWriter::detailed(out, job, losses)?)
        }
        Target::Jsonl => Box::new(JsonlWriter::new(out, job, losses)?),
        Target::Chrome => Box::new(ChromeWriter::new(out, job, losses)?),
        #[cfg(not(fuzzing))]
        Target::Parquet => Box::new(ParquetWriter::new(out, job, losses)?),
        #[cfg(fuzzing)]
        Target::Parquet => return Err(io::ErrorKind::Unsupported.into()),
    })
}

/// Writes the events of a native trace as rows.
fn write_rows(events: File, rows: Box<dyn RowWriter + '_>, files: &[String]) -> Result<(), ConvertError> {
    let mut replay = Replay { rows, files, failed: None };
    read_spool(events, &mut replay)?;
    let Replay { rows, failed, .. } = replay;
    failed.map_or_else(|| rows.finish(), Err).map_err(ConvertError::Write)
}

fn read_spool(events: File, mut sink: &mut dyn EventSink) -> Result<(), ConvertError> {
    let name = Path::new("temporary trace");
    let input = Input::from_read(name, Box::new(BufReader::new(events)))?;
    native::read(input, &mut None, &mut sink).map_err(|fault| ReadError::from_fault(name, fault))?;
    Ok(())
}

/// Writes events one by one, as rows that need nothing but themselves.
trait RowWriter {
    fn write(&mut self, event: &Event, file: Option<&str>) -> io::Result<()>;
    fn finish(self: Box<Self>) -> io::Result<()>;
}

impl<W: Write> RowWriter for EventWriter<W> {
    fn write(&mut self, event: &Event, file: Option<&str>) -> io::Result<()> {
        self.write(event, file)
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        EventWriter::finish(*self).map(drop)
    }
}

/// Pours a reader into a native trace, and keeps what is not events.
fn to_native<W: Write>(
    reader: Reader,
    out: W,
    names: Option<&mut NameHasher>,
    failed: impl Fn(io::Error) -> ConvertError,
) -> Result<Conversion, ConvertError> {
    let writer = NativeWriter::new(out).map_err(&failed)?;
    let mut kept = Kept { writer, names, n_events: 0, losses: Vec::new() };
    let read = reader.read_with_census(&mut kept);
    let Kept { mut writer, names, n_events, losses } = kept;
    let (mut info, mut census) = read?;
    if let Some(names) = names {
        names.info(&mut info);
        census.iter_mut().for_each(|census| names.census(census));
    }
    census.iter().for_each(|census| writer.census(census));
    writer.finish(&info).map_err(failed)?;
    Ok(Conversion { n_events, info, losses })
}

struct Kept<'a, W: Write> {
    writer: NativeWriter<W>,
    /// Where names are not to be kept.
    names: Option<&'a mut NameHasher>,
    n_events: u64,
    losses: Vec<Loss>,
}

impl<W: Write> EventSink for Kept<'_, W> {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        self.n_events += 1;
        self.writer.event(event)
    }

    fn async_event(&mut self, event: Event, waited: Timestamp) -> ControlFlow<()> {
        self.n_events += 1;
        self.writer.async_event(event, waited)
    }

    fn time_spent(&mut self, spent: TimeSpent) {
        self.writer.time_spent(spent);
    }

    fn access_facts(&mut self, facts: &AccessFacts) {
        match &mut self.names {
            Some(names) => {
                let mut facts = facts.clone();
                names.access_facts(&mut facts);
                self.writer.access_facts(&facts);
            }
            None => self.writer.access_facts(facts),
        }
    }

    fn loss(&mut self, loss: Loss) {
        let loss = match &self.names {
            Some(names) => names.loss(loss),
            None => loss,
        };
        self.losses.push(loss.clone());
        self.writer.loss(loss);
    }
}

struct Replay<'a> {
    rows: Box<dyn RowWriter + 'a>,
    files: &'a [String],
    failed: Option<io::Error>,
}

impl EventSink for Replay<'_> {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        let file = self.files.get(event.file.0 as usize).map(String::as_str);
        match self.rows.write(&event, file) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failed = Some(error);
                ControlFlow::Break(())
            }
        }
    }

    /// A row has no place for when it was waited for.
    fn async_event(&mut self, event: Event, _: Timestamp) -> ControlFlow<()> {
        self.event(event)
    }

    /// Sums that belong to no row.
    fn time_spent(&mut self, _: TimeSpent) {}
    fn access_facts(&mut self, _: &AccessFacts) {}

    /// They are known from the first pass.
    fn loss(&mut self, _: Loss) {}
}
