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

use iotide_trace::{AccessFacts, Event, EventSink, FileId, Loss, Rank, TimeSpent, Timestamp, TraceInfo};

pub use crate::{
    census::{Census, RankCensus},
    error::{Place, ReadError},
    events::EventWriter,
    export::{Conversion, ConvertError, KeptPart, NameHasher, NameKind, Target, convert, convert_hashed},
    follow::{JobSinks, OneSink, Traced, TracedJob, TracedJobs, TracedStream},
    format::Format,
    jobs::{JobLog, JobLogOptions, date_unix_s, zone_offset_s},
    layers::LayerChoice,
    lustre::requests_by_job,
    messages::Messages,
    native::NativeWriter,
    prometheus::RangeAnswer,
    swf::{SubmissionLog, SwfJob, SwfLog},
    text::{PatternError, PatternSpec},
    tmio::write::{TmioForm, TmioWriter},
    tracer::Life,
    tracer_totals::{GateTotals, TracerTotals, tracer_totals},
    watch::Watch,
};

use crate::{
    budget::NameBudget,
    darshan::DarshanOptions,
    error::Fault,
    input::Input,
    layers::LayerFilter,
    one_run::{OneRun, Placement},
    processes::Processes,
    rows::Syntax,
    tmio::json::Shape,
};

mod budget;
mod calls;
mod census;
mod ceph;
mod column;
mod counters;
pub mod darshan;
mod detect;
mod dftracer;
mod directory;
mod error;
mod events;
mod export;
mod files;
mod follow;
mod format;
mod functions;
mod gekkofs;
mod gluster;
mod gzip;
mod input;
mod jobs;
mod json;
mod layers;
mod lenient;
mod lmt;
mod losses;
mod lustre;
mod messages;
mod metrics;
mod native;
mod number;
mod one_run;
mod processes;
mod prometheus;
mod proxy;
mod recorder;
mod rows;
mod scanner;
mod series;
mod strace;
mod swf;
mod tau;
#[cfg(test)]
mod testing;
mod text;
mod tmio;
mod tracer;
mod tracer_access;
mod tracer_totals;
mod watch;

/// Opens a trace whose format its content tells.
pub fn open(path: &Path) -> Result<Reader, ReadError> {
    OpenOptions::default().open(path)
}

/// Whether a directory is itself one trace (of Recorder, or of `iotide record`), and not a place where traces lie.
pub fn is_one_trace(directory: &Path) -> bool {
    recorder::recognises(directory) || tracer::is_trace(directory)
}

/// Opens several files of one run, one per rank or node, to be read as one trace.
///
/// The files may be of different formats. File tables are put one after the other; what the first file says of the
/// job holds, and the others fill in what it left open. A file of which nothing can be used is a loss, as long as
/// another one can. Files that name different jobs are read all the same, and a loss says so; a folder of such files is an error.
///
/// Darshan logs have clocks and ranks of their own. Their times are moved by the difference of their start times, so that
/// all count from the start of the first log given; their ranks follow those of the logs before.
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
    /// Which layers' events are wanted of a source that sees the same bytes at several.
    pub layers: LayerChoice,
    /// Which layers of a Darshan log become events, and from which of its sources.
    pub darshan: DarshanOptions,
    /// The metric that is looked at in the place of bytes moved, of a source that has metrics by name ([`Format::has_metrics`]).
    pub metric: Option<String>,
    /// Hears how many events have been read.
    pub watch: Option<Watch>,
}

impl OpenOptions {
    /// Opens a file or directory; `-` is standard input, and a file of that name is `./-`.
    ///
    /// A directory is one trace if its format says so. Otherwise it holds the files of one run: those in it that are
    /// traces of one format, in the order of their names and the numbers in them.
    pub fn open(&self, path: &Path) -> Result<Reader, ReadError> {
        if path == Path::new("-") {
            return self.from_stdin();
        }
        let input = Input::open(path)?;
        match input.directory() {
            Some(directory) if !is_one_trace(directory) => self.open_directory(directory),
            _ => self.reader_of(input),
        }
    }

    fn open_directory(&self, directory: &Path) -> Result<Reader, ReadError> {
        let mut run: Option<Reader> = None;
        let of_directory = Some(directory.to_path_buf());
        let entries = directory::entries_of(directory)?;
        for path in entries.files {
            // What is not a trace at all (an index, a note, nothing) is nobody's loss.
            let Ok(mut file) = Input::open(&path).and_then(|input| self.reader_of(input)) else { continue };
            file.parts.iter_mut().for_each(Part::close);
            match &mut run {
                None => run = Some(Reader { directory: of_directory.clone(), ..file }),
                Some(run) if run.format() == file.format() => run.parts.append(&mut file.parts),
                Some(run) => {
                    let (format, rest) = (file.format(), run.format());
                    run.unusable.push(ReadError::OtherFormat { path, format, rest });
                }
            }
        }
        let mut run = run.ok_or_else(|| ReadError::UnknownDirectory { path: directory.to_path_buf() })?;
        let others = entries.folders.into_iter().filter(|folder| is_one_trace(folder));
        run.unusable.extend(others.map(|path| ReadError::AnotherRun { path }));
        Ok(run)
    }

    /// Opens several files of one run; see [`open_many`].
    pub fn open_many<P: AsRef<Path>>(&self, paths: &[P]) -> Result<Reader, ReadError> {
        let mut parts = Vec::new();
        let mut unusable = Vec::new();
        for path in paths {
            match self.open(path.as_ref()) {
                Ok(reader) => {
                    parts.extend(reader.parts);
                    unusable.extend(reader.unusable);
                }
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
        Ok(Reader { parts, unusable, layers: self.layers, directory: None, watch: self.watch.clone() })
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

    /// Opens a source that is still being written: `read` waits where a file would end, until there is more or all is over.
    ///
    /// Events are pushed as soon as their record is whole. Only a format that is written as the job goes on can be
    /// followed, see [`Format::can_be_followed`].
    #[allow(clippy::wrong_self_convention)] // as above
    pub fn from_live(
        &self,
        name: impl AsRef<Path>,
        read: impl Read + Send + 'static,
    ) -> Result<Reader, ReadError> {
        let is_enough = |head: &[u8]| match self.input_format {
            Some(Format::Csv | Format::Jsonl) | None if self.pattern.is_none() => detect::is_told(head),
            Some(format) => format.is_binary() || detect::has_a_line(head),
            None => !head.is_empty(),
        };
        let input = Input::from_live(name.as_ref(), Box::new(read), is_enough)?;
        let reader = self.reader_of(input)?;
        match reader.format() {
            format if format.can_be_followed() => Ok(reader),
            format => Err(ReadError::NotFollowed { path: name.as_ref().to_path_buf(), format }),
        }
    }

    fn reader_of(&self, input: Input) -> Result<Reader, ReadError> {
        let input = detect::unzipped(input)?;
        let format = match (self.input_format, &self.pattern) {
            (Some(format), _) => format,
            (None, Some(_)) => Format::Text,
            (None, None) => detect::format(&input)?,
        };
        let pattern = self.pattern.clone();
        if self.metric.is_some() && !format.has_metrics() {
            return Err(ReadError::NoMetrics { path: input.name().to_path_buf(), format });
        }
        let (darshan, metric) = (self.darshan, self.metric.clone());
        let parts = vec![Part { source: Source::Open(input), format, pattern, darshan, metric }];
        let (layers, watch) = (self.layers, self.watch.clone());
        Ok(Reader { parts, unusable: Vec::new(), layers, directory: None, watch })
    }
}

/// A trace that was opened and not yet read.
#[derive(Debug)]
pub struct Reader {
    /// The files of the run; never empty.
    parts: Vec<Part>,
    /// Why further files of the run are not among them.
    unusable: Vec<ReadError>,
    layers: LayerChoice,
    /// Where the files were found, if nobody named them.
    directory: Option<PathBuf>,
    watch: Option<Watch>,
}

#[derive(Debug)]
struct Part {
    source: Source,
    format: Format,
    pattern: Option<PatternSpec>,
    darshan: DarshanOptions,
    metric: Option<String>,
}

#[derive(Debug)]
enum Source {
    Open(Input),
    /// To be opened again when its turn comes.
    Closed(PathBuf),
}

impl Source {
    fn into_input(self) -> Result<Input, ReadError> {
        match self {
            Source::Open(input) => Ok(input),
            Source::Closed(path) => detect::unzipped(Input::open(&path)?),
        }
    }
}

impl Part {
    fn close(&mut self) {
        if let Source::Open(input) = &self.source
            && input.can_be_reopened()
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
        self.read_with_census(sink).map(|(info, _)| info)
    }

    /// Reads as [`Reader::read`] does, and counts all that a tracer recorded beside I/O; `None` for formats that hold
    /// nothing else.
    pub fn read_with_census(
        self,
        sink: &mut dyn EventSink,
    ) -> Result<(TraceInfo, Option<Census>), ReadError> {
        let numbers_processes = self.format().numbers_processes();
        let Reader { parts, mut unusable, layers, directory, watch } = self;
        let n_files = parts.len() + unusable.len();
        let several_layers = parts.iter().any(|part| part.format.sees_several_layers());
        let mut filter = LayerFilter::new(sink, layers, several_layers);
        let mut files = Vec::new();
        let (mut budget, mut n_unnamed) = (NameBudget::new(NameBudget::FILES), 0_u64);
        let mut run = Run::default();
        for part in parts {
            let mut counted = Counted {
                sink: filter.entrance(),
                file_base: files.len() as u32,
                placement: Placement::default(),
                source: None,
                n_events: 0,
                first_loss: None,
                stopped: false,
                watch: watch.as_ref(),
            };
            match read_part(part, n_files > 1, &mut run, &mut counted) {
                Ok(part_info) => {
                    for name in part_info.files {
                        let is_kept = budget.takes(name.as_bytes());
                        n_unnamed += u64::from(!is_kept);
                        files.push(if is_kept { name } else { String::new() });
                    }
                    run.one_run.add(part_info.job);
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
            filter.loss(Loss::of_unknown_size(error.to_string()));
        }
        if n_unnamed > 0 {
            let bytes = NameBudget::FILES;
            let what =
                format!("names of more than {bytes} bytes in all, {n_unnamed} files are without theirs");
            filter.loss(Loss::of_unknown_size(what));
        }
        let Run { processes, census, one_run } = run;
        // Files that somebody names are one run if they say so; those that lie in a folder need not be.
        if let (Some(path), Some(jobs)) = (directory, one_run.jobs()) {
            return Err(ReadError::SeveralRuns { path, jobs });
        }
        let mut job = one_run.finish(&mut filter);
        filter.finish(&files);
        if numbers_processes && processes.len() > 0 {
            job.n_procs = Some(processes.len() as u64);
        }
        Ok((TraceInfo { job, files }, census))
    }

    /// Reads all that a Darshan log holds, not its events alone; of several files, the first.
    ///
    /// Fails if it is no Darshan log, which [`Format::is_darshan`] tells.
    pub fn into_darshan_log(self) -> Result<darshan::Log, ReadError> {
        self.load_darshan(darshan::load)
    }

    /// Reads as [`Reader::into_darshan_log`] does, but for the sums of DXT modules, which take most of the time: they are 0, and what
    /// their segments lack is not among the losses.
    pub fn into_darshan_log_without_dxt_sums(self) -> Result<darshan::Log, ReadError> {
        self.load_darshan(darshan::load_for_events)
    }

    fn load_darshan(
        mut self,
        load: fn(Input) -> Result<darshan::Log, Fault>,
    ) -> Result<darshan::Log, ReadError> {
        let input = self.parts.swap_remove(0).source.into_input()?;
        let path = input.name().to_path_buf();
        load(input).map_err(|fault| ReadError::from_fault(&path, fault))
    }
}

/// State shared by the files of a run.
#[derive(Default)]
struct Run {
    processes: Processes,
    census: Option<Census>,
    one_run: OneRun,
}

/// Reads one file of a run.
fn read_part(
    part: Part,
    one_of_several: bool,
    run: &mut Run,
    sink: &mut Counted<'_>,
) -> Result<TraceInfo, ReadError> {
    let Part { source, format, pattern, darshan, metric } = part;
    let input = source.into_input()?;
    let path = input.name().to_path_buf();
    let trouble = input.trouble();
    sink.source = one_of_several.then(|| path.display().to_string());
    let info = if one_of_several && format.is_darshan() {
        darshan::load_for_events(input).map(|log| {
            sink.placement = run.one_run.place(&log, sink);
            log.events(darshan, sink)
        })
    } else {
        match (format, metric.as_deref()) {
            (Format::Proxy, metric @ Some(_)) => proxy::read_json(input, metric, sink),
            (Format::ProxyMsgpack, metric @ Some(_)) => proxy::read_msgpack(input, metric, sink),
            (Format::Prometheus, metric @ Some(_)) => prometheus::read_metric(input, metric, sink),
            _ => read_as(format, input, pattern, darshan, run, sink),
        }
    };
    let info = info.map_err(|fault| ReadError::from_fault(&path, fault))?;
    if let Some(what) = trouble.as_ref().and_then(|trouble| trouble.get()) {
        sink.loss(Loss::of_the_rest(what.clone()));
    }
    match &sink.first_loss {
        Some(loss) if sink.n_events == 0 => Err(ReadError::NothingUsable { path, first: loss.what.clone() }),
        _ => Ok(info),
    }
}

/// Calls the reader of that format: the one place that has them all. (Those of the formats that have most events are generic over the sink, so that an event
/// costs them no call.)
fn read_as<S: EventSink>(
    format: Format,
    input: Input,
    pattern: Option<PatternSpec>,
    darshan: DarshanOptions,
    run: &mut Run,
    sink: &mut S,
) -> Result<TraceInfo, Fault> {
    let is_series = detect::is_series(input.head());
    match format {
        Format::Csv if is_series => series::read(input, Syntax::Csv, sink),
        Format::Jsonl if is_series => series::read(input, Syntax::JsonLines, sink),
        Format::Csv => events::read(input, Syntax::Csv, sink),
        Format::Jsonl => events::read(input, Syntax::JsonLines, sink),
        Format::TmioJson | Format::FtioJson => tmio::json::read(input, Shape::Document, sink),
        Format::TmioJsonl => tmio::json::read(input, Shape::Lines, sink),
        Format::TmioMsgpack => tmio::msgpack::read(input, sink),
        Format::Text => text::read(input, pattern, sink),
        Format::Native if input.directory().is_some() || input.head().starts_with(tracer::MAGIC) => {
            tracer::read(input, sink)
        }
        Format::Native => native::read(input, &mut run.census, sink),
        Format::Recorder => recorder::read(input, run.census.get_or_insert_default(), sink),
        Format::DfTracer => {
            dftracer::read(input, &mut run.processes, run.census.get_or_insert_default(), sink)
        }
        Format::Strace => strace::read(input, &mut run.processes, sink),
        Format::Tau => tau::read(input, sink),
        Format::Gekkofs => gekkofs::read_json(input, &mut run.processes, sink),
        Format::GekkofsMsgpack => gekkofs::read_msgpack(input, &mut run.processes, sink),
        Format::Proxy => proxy::read_json(input, None, sink),
        Format::ProxyMsgpack => proxy::read_msgpack(input, None, sink),
        Format::LustreJobStats => lustre::read(input, sink),
        Format::Lmt => lmt::read(input, sink),
        Format::Gluster => gluster::read(input, sink),
        Format::Ceph => ceph::read(input, sink),
        Format::Prometheus => prometheus::read(input, sink),
        Format::Darshan | Format::DarshanParserText | Format::DarshanDxtText => {
            darshan::read(input, darshan, sink)
        }
    }
}

/// The caller's sink, seen by one file's reader: counts, and moves file ids behind those of the files before.
struct Counted<'a> {
    sink: &'a mut dyn EventSink,
    file_base: u32,
    placement: Placement,
    /// Named in losses if there are several files.
    source: Option<String>,
    n_events: u64,
    first_loss: Option<Loss>,
    stopped: bool,
    watch: Option<&'a Watch>,
}

impl EventSink for Counted<'_> {
    #[inline]
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        let event = self.count(event);
        let flow = self.sink.event(event);
        self.stopped |= flow.is_break();
        flow
    }

    fn async_event(&mut self, event: Event, waited: Timestamp) -> ControlFlow<()> {
        let event = self.count(event);
        let waited = waited.plus_nanos(self.placement.shift_nanos);
        let flow = self.sink.async_event(event, waited);
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
        if spent.rank != Rank::ALL {
            spent.rank = Rank(spent.rank.0.saturating_add(self.placement.rank_base));
        }
        self.sink.time_spent(spent);
    }

    fn access_facts(&mut self, facts: &AccessFacts) {
        if self.file_base == 0 {
            return self.sink.access_facts(facts);
        }
        let mut facts = facts.clone();
        facts.renumber_files(self.file_base);
        self.sink.access_facts(&facts);
    }
}

impl Counted<'_> {
    /// Counts the event and moves it to its place in the run.
    #[inline]
    fn count(&mut self, mut event: Event) -> Event {
        self.n_events += 1;
        if self.n_events.is_multiple_of(Watch::EVERY)
            && let Some(watch) = self.watch
        {
            watch.tell(Watch::EVERY);
        }
        if event.file != FileId::NONE {
            event.file = FileId(event.file.0.saturating_add(self.file_base));
        }
        let Placement { shift_nanos, rank_base } = self.placement;
        if shift_nanos != 0 {
            (event.start, event.end) =
                (event.start.plus_nanos(shift_nanos), event.end.plus_nanos(shift_nanos));
        }
        if event.rank != Rank::ALL {
            event.rank = Rank(event.rank.0.saturating_add(rank_base));
        }
        event
    }
}
