//! Recorder: a directory of traces, one per rank or one compressed for all.
//!
//! Three layouts in ten years; the files that are there tell which one it is, as version numbers were not always
//! raised with the layout:
//! - **2.0–2.2** (`peephole`): `N.mt` and `N.itf`, records that may be differences against one of the last three;
//! - **2.3–2.4** (`grammar`): `N.cst` (call signatures), `N.cfg` (a Sequitur grammar over them), `N.ts` (times);
//! - **2.5**: the same, zlib-compressed and merged over ranks: `recorder.cst`, `ug.cfg`, `ug.mt`, `recorder.ts`.
//!
//! `recorder.mt` holds the number of ranks, the resolution of time, and the names of the functions.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use iotide_private::open_ordinary;
use iotide_trace::{Event, EventSink, FileId, Grain, Layer, Loss, Rank, Timestamp, TraceInfo};

use crate::{
    Place,
    calls::{self, CallKind},
    census::{Census, NameCounts},
    error::Fault,
    files::Files,
    functions::Functions,
    input::Input,
    lenient::{parse_i64, parse_u64},
    losses::Losses,
};

mod grammar;
mod peephole;

/// Whether a directory holds such a trace.
pub(crate) fn recognises(directory: &Path) -> bool {
    directory.join("recorder.mt").is_file()
}

/// Reads a directory, and adds what it holds to `census`.
pub(crate) fn read(input: Input, census: &mut Census, sink: &mut dyn EventSink) -> Result<TraceInfo, Fault> {
    let Some(path) = input.directory() else {
        return Err(Fault::at(Place::Whole, "a Recorder trace is a directory, with recorder.mt in it"));
    };
    let directory = Directory::open(path)?;
    let mut output = Output {
        sink,
        files: Files::default(),
        census: Census::default(),
        names: NameCounts::default(),
        functions: Functions::default(),
        losses: Losses::default(),
    };
    let start_time_unix_s = match directory.layout {
        Layout::Peephole => peephole::read(&directory, &mut output)?,
        Layout::PerRank | Layout::Merged => grammar::read(&directory, &mut output)?,
    };
    let Output { sink, files, census: mut counted, names, functions, mut losses } = output;
    let files = files.into_paths(&mut losses);
    losses.report(sink);
    functions.tell(sink);
    let missing = u64::from(directory.n_ranks).saturating_sub(directory.ranks.len() as u64);
    if missing > 0 {
        sink.loss(Loss::of_unknown_size(format!(
            "the files of {missing} of {} ranks are missing",
            directory.n_ranks
        )));
    }
    let mut info = TraceInfo { files, ..TraceInfo::default() };
    info.job.n_procs = (directory.n_ranks > 0).then_some(u64::from(directory.n_ranks));
    info.job.start_time_unix_s = start_time_unix_s;
    counted.functions = names.into_map();
    census.add(counted);
    Ok(info)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// `N.itf`
    Peephole,
    /// `N.cst`, `N.cfg`, `N.ts`
    PerRank,
    /// `recorder.cst`, `ug.cfg`, `recorder.ts`
    Merged,
}

/// Facts from `recorder.mt` and the names of the files.
struct Directory {
    path: PathBuf,
    layout: Layout,
    /// How many there were, present or not.
    n_ranks: u32,
    /// Those whose files are here.
    ranks: BTreeSet<u32>,
    resolution_s: f64,
    /// When the trace began; 2.0–2.2 keep that per rank.
    start_unix_s: Option<f64>,
    /// One grammar may serve several ranks.
    shared_grammars: bool,
    functions: Vec<Function>,
}

struct Function {
    name: String,
    kind: Option<CallKind>,
}

impl Directory {
    /// More ranks than any machine has.
    const MOST_RANKS: i32 = 1 << 26;

    fn open(path: &Path) -> Result<Self, Fault> {
        let mut ranks = BTreeSet::new();
        let (mut itf, mut merged) = (false, false);
        for entry in fs::read_dir(path)? {
            let name = entry?.file_name();
            let Some((stem, extension)) = name.to_str().and_then(|name| name.rsplit_once('.')) else {
                continue;
            };
            merged |= (stem, extension) == ("recorder", "ts");
            if let ("itf" | "ts", Ok(rank)) = (extension, stem.parse::<u32>()) {
                itf |= extension == "itf";
                ranks.insert(rank);
            }
        }
        let layout = match (itf, merged) {
            (true, _) => Layout::Peephole,
            (false, true) => Layout::Merged,
            (false, false) => Layout::PerRank,
        };
        let header = read_small(&path.join("recorder.mt"))?;
        // The list of functions begins with this one in every version; what is before it grew by and by.
        let names_at = memchr::memmem::find(&header, b"creat\n")
            .ok_or_else(|| Fault::at(Place::Byte(0), "recorder.mt holds no list of functions"))?;
        let (fields, names) = header.split_at(names_at);
        let function = |name: &[u8]| {
            let name = String::from_utf8_lossy(name).into_owned();
            Function { kind: calls::kind_of(&name), name }
        };
        let functions = names.split(|&byte| byte == b'\n').map(function).collect();
        let short = || Fault::at(Place::Byte(0), "recorder.mt is too short");
        let f64_at = |at: usize| Some(f64::from_le_bytes(fields.get(at..at + 8)?.try_into().ok()?));
        let i32_at = |at: usize| Some(i32::from_le_bytes(fields.get(at..at + 4)?.try_into().ok()?));
        let is_resolution = |&it: &f64| it > 1e-13 && it <= 10.0;
        let is_epoch = |&it: &f64| it > 1e8 && it < 1e11;
        let (n_ranks_at, start_at, resolution_at) = match layout {
            Layout::Peephole => (8, None, 0),
            _ if f64_at(8).filter(is_epoch).is_some() && f64_at(16).filter(is_resolution).is_some() => {
                (0, Some(8), 16)
            }
            _ => (0, Some(16), 24),
        };
        let n_ranks = i32_at(n_ranks_at).ok_or_else(short)?;
        if !(0..=Self::MOST_RANKS).contains(&n_ranks) {
            return Err(Fault::at(
                Place::Byte(n_ranks_at as u64),
                format!("recorder.mt claims {n_ranks} ranks"),
            ));
        }
        let resolution_s = f64_at(resolution_at).filter(is_resolution).ok_or_else(|| {
            Fault::at(Place::Byte(resolution_at as u64), "recorder.mt holds no resolution of time")
        })?;
        let shared_grammars = match layout {
            Layout::Peephole => false,
            // 2.4: a whole number after the algorithm of time compression; the files tell it as well.
            Layout::PerRank => path.join("ug.mt").is_file(),
            Layout::Merged => true,
        };
        if layout == Layout::Merged {
            // Each has at least its size in the table of times.
            let most = fs::metadata(path.join("recorder.ts"))?.len() / 8;
            ranks = (0..n_ranks as u32).take(usize::try_from(most).unwrap_or(usize::MAX)).collect();
        }
        Ok(Self {
            path: path.to_path_buf(),
            layout,
            n_ranks: n_ranks as u32,
            ranks,
            resolution_s,
            start_unix_s: start_at.and_then(f64_at).filter(is_epoch),
            shared_grammars,
            functions,
        })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The moment `ticks` after the trace's zero.
    fn timestamp(&self, ticks: i64) -> Timestamp {
        Timestamp::from_nanos_since_start((ticks as f64 * self.resolution_s * 1e9).round() as i64)
    }
}

/// Reads a file that is small in every sane trace; beyond the limit it counts as damaged.
fn read_small(path: &Path) -> Result<Vec<u8>, Fault> {
    const MOST: u64 = 256 << 20;
    let mut bytes = Vec::new();
    open_ordinary(path)?.take(MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST {
        return Err(Fault::at(Place::Byte(MOST), format!("{} is larger than 256 MiB", path.display())));
    }
    Ok(bytes)
}

/// Where decoded calls go.
struct Output<'s> {
    sink: &'s mut dyn EventSink,
    files: Files,
    census: Census,
    names: NameCounts,
    functions: Functions,
    losses: Losses,
}

/// A call whose meaning is known: all that is missing is who and when.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Meaning {
    kind: CallKind,
    bytes: u64,
    file: FileId,
}

impl Output<'_> {
    /// Counts a call and passes it on if it concerns storage.
    fn call(
        &mut self,
        rank: u32,
        name: &str,
        meaning: Option<Meaning>,
        (start, end): (Timestamp, Timestamp),
        shift_nanos: i64,
    ) -> ControlFlow<()> {
        let rank = Rank(i32::try_from(rank).unwrap_or(i32::MAX));
        self.census.records += 1;
        self.census.rank_call(rank, start, end);
        self.names.add(name.as_bytes());
        let Some(Meaning { kind: CallKind { op, layer }, bytes, file }) = meaning else {
            return ControlFlow::Continue(());
        };
        if layer == Layer::Posix {
            match op {
                iotide_trace::Op::Read => {
                    self.census.posix_bytes_read = self.census.posix_bytes_read.saturating_add(bytes)
                }
                iotide_trace::Op::Write => {
                    self.census.posix_bytes_written = self.census.posix_bytes_written.saturating_add(bytes)
                }
                _ => {}
            }
        }
        let (start, end) = (start.plus_nanos(shift_nanos), end.plus_nanos(shift_nanos));
        let bytes = if op.moves_data() { bytes as f64 } else { 0.0 };
        let event =
            Event { op, layer, grain: Grain::Call, rank, file, start, end: end.max(start), bytes, calls: 1 };
        self.functions.add(name, &event);
        self.sink.event(event)
    }
}

/// Reference of an argument to the file of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileRef<'a> {
    None,
    Path(&'a [u8]),
    /// Of a process, since 2.3 only where the path was not known.
    Descriptor(i64),
    /// MPI's, as Recorder numbers them ("0-1").
    Handle(&'a [u8]),
    /// `MPI_File_open`: from now on the handle stands for the path.
    OpensHandle {
        path: &'a [u8],
        handle: &'a [u8],
    },
}

/// Tells which file a call is about.
fn file_ref<'a>(name: &str, kind: CallKind, args: &[&'a [u8]]) -> FileRef<'a> {
    let arg = |at: usize| args.get(at).copied().unwrap_or_default();
    if kind.layer == Layer::MpiIo {
        return match name {
            "MPI_File_open" => FileRef::OpensHandle { path: arg(1), handle: arg(4) },
            "MPI_File_delete" => FileRef::Path(arg(0)),
            _ => FileRef::Handle(arg(0)),
        };
    }
    let named = match name {
        "fread" | "fwrite" => arg(3),
        "__xstat" | "__xstat64" | "__lxstat" | "__lxstat64" | "__fxstat" | "__fxstat64" | "mknod"
        | "readlinkat" | "faccessat" | "linkat" => arg(1),
        "mknodat" => arg(2),
        "msync" | "tmpfile" => b"",
        _ if kind.layer == Layer::Library && !matches!(name, "H5Fcreate" | "H5Fopen") => b"",
        _ => arg(0),
    };
    match parse_i64(named) {
        Some(descriptor) => FileRef::Descriptor(descriptor),
        None if named.is_empty() || named.starts_with(b"%") || named.starts_with(b"???") => FileRef::None,
        None => FileRef::Path(named),
    }
}

/// How many bytes a call asked for; `None` if its arguments do not tell.
fn bytes_asked(name: &str, kind: CallKind, args: &[&[u8]]) -> Option<u64> {
    if !kind.op.moves_data() {
        return Some(0);
    }
    let number = |at: usize| parse_u64(args.get(at)?);
    match kind.layer {
        Layer::MpiIo => {
            // (fh, buf, count, type, …), or (fh, offset, buf, count, type, …).
            let count_at = if name.contains("_at") { 3 } else { 2 };
            let type_name = std::str::from_utf8(args.get(count_at + 1)?).ok()?;
            number(count_at)?.checked_mul(calls::mpi_type_bytes(type_name)?)
        }
        Layer::Library => None,
        _ => match name {
            "fread" | "fwrite" => number(1)?.checked_mul(number(2)?),
            // Recorder gives what was printed, and the sum of the vector.
            "vfprintf" | "readv" | "writev" | "preadv" | "pwritev" => number(1),
            _ => number(2),
        },
    }
}

/// The names of the standard streams, as Darshan writes them.
fn standard_stream(descriptor: i64) -> Option<&'static [u8]> {
    match descriptor {
        0 => Some(b"<STDIN>"),
        1 => Some(b"<STDOUT>"),
        2 => Some(b"<STDERR>"),
        _ => None,
    }
}

impl Losses {
    fn no_size(&mut self, kind: CallKind, name: &str, rank: u32) {
        // HDF5 hides sizes in its types by design; the layers below have the bytes.
        if kind.layer != Layer::Library {
            self.note("unknown size", Place::Whole, || {
                format!(
                    "rank {rank}: {name} moved data of a type whose size is not in the trace, taken as none"
                )
            });
        }
    }
}
