//! The traces a question is about, and the way from a file to bandwidths.

use std::io::Cursor;
use std::path::PathBuf;
use std::sync::Arc;

use iotide_analysis::{Demand, StatedRun, demand};
use iotide_formats::{Format, OpenOptions, ReadError, Reader};
use iotide_report::{Source, Untrusted};
use iotide_trace::{EventSink, Loss, ReadWrite, StepSignal, TraceInfo};

use crate::Error;

/// The trace of one run: its files, or its bytes.
#[derive(Clone, Debug)]
pub struct Input(Place);

#[derive(Clone, Debug)]
enum Place {
    Files(Vec<PathBuf>),
    Memory { name: String, bytes: Arc<[u8]> },
}

impl Input {
    /// A file or directory; `-` is standard input.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self(Place::Files(vec![path.into()]))
    }

    /// Several files of one run, one per rank or node; see [`iotide_formats::open_many`].
    pub fn files(paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        Self(Place::Files(paths.into_iter().map(Into::into).collect()))
    }

    /// Returns an input of bytes that are in memory; `name` stands for it in answers and messages.
    pub fn bytes(name: impl Into<String>, bytes: impl AsRef<[u8]>) -> Self {
        Self(Place::Memory { name: name.into(), bytes: bytes.as_ref().into() })
    }

    /// Returns its name for answers and messages.
    pub fn name(&self) -> String {
        match &self.0 {
            Place::Memory { name, .. } => name.clone(),
            Place::Files(paths) => match paths.as_slice() {
                [] => String::new(),
                [one] => one.display().to_string(),
                [first, rest @ ..] => format!("{} and {} more", first.display(), rest.len()),
            },
        }
    }

    /// Its files; none if it is in memory.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        match &self.0 {
            Place::Files(paths) => paths,
            Place::Memory { .. } => &[],
        }
    }

    /// Whether it is standard input, which can be read once.
    pub(crate) fn is_stdin(&self) -> bool {
        self.paths().iter().any(|path| path.as_os_str() == "-")
    }

    /// Whether it is made of several files.
    pub fn is_several(&self) -> bool {
        matches!(&self.0, Place::Files(paths) if paths.len() != 1)
    }

    /// Opens it.
    pub fn open(&self, options: &OpenOptions) -> Result<Reader, Error> {
        Ok(match &self.0 {
            Place::Memory { name, bytes } => options.from_read(name, Cursor::new(bytes.clone())),
            Place::Files(paths) => match paths.as_slice() {
                [path] => options.open(path),
                paths => options.open_many(paths),
            },
        }?)
    }
}

/// Activity of a run, in numbers.
#[derive(Clone, Debug)]
pub struct Observed<B = ()> {
    /// Source that was read, in the words of the report.
    pub source: Source,
    /// Its format.
    pub format: Format,
    /// The bandwidth of reads.
    pub reads: StepSignal,
    /// The bandwidth of writes.
    pub writes: StepSignal,
    /// Required and actual bandwidth of asynchronous I/O, if there was any.
    pub demand: Option<Demand>,
    /// Data known to be missing.
    pub losses: Vec<Loss>,
    /// Further sink that got the same events.
    pub beside: B,
    /// Information that the source states about itself.
    pub info: TraceInfo,
    /// Part of that information that the analysis uses.
    pub stated: StatedRun,
}

/// Reads a trace, adding up bandwidths as the events stream past.
///
/// `B` is a sink that sees the events in the same pass; `()` is none.
pub fn observe<B: EventSink + Default>(input: &Input, options: &OpenOptions) -> Result<Observed<B>, Error> {
    Ok(Observed::read(input.open(options)?, input.name())?)
}

/// Bytes over the wall time in which at least one process was reading or writing.
fn bandwidth(reads: &StepSignal, writes: &StepSignal) -> Option<f64> {
    let both = reads.plus(writes);
    Some(both.volume_bytes() / both.busy_s()).filter(|bps| bps.is_finite() && *bps > 0.0)
}

impl<B: EventSink + Default> Observed<B> {
    /// Reads a trace called `name` that is open already.
    pub fn read(reader: Reader, name: impl Into<Untrusted>) -> Result<Self, ReadError> {
        let format = reader.format();
        let mut sinks = (ReadWrite::default(), B::default());
        let info = reader.read(&mut sinks)?;
        let (sink, beside) = sinks;
        let resolution_s =
            sink.read.resolution_s().into_iter().chain(sink.write.resolution_s()).reduce(f64::max);
        let (reads, writes) = (sink.read.finish(), sink.write.finish());
        let source = Source::new(name, format.name(), &sink.tally, &info.job);
        let bandwidth_bps = (sink.tally.share_by_file() == 0.0).then(|| bandwidth(&reads, &writes)).flatten();
        Ok(Self {
            source: Source { resolution_s, bandwidth_bps, ..source },
            format,
            reads,
            writes,
            demand: demand(&sink.async_phases.finish()),
            losses: sink.losses,
            beside,
            stated: StatedRun::of(&sink.tally, &info.job),
            info,
        })
    }
}
