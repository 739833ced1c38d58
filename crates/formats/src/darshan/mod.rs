//! Darshan logs: what Darshan noted of a job, by module, file and rank.
//!
//! [`Log::open`] reads a log whole, whatever its age: the container of Darshan 3 (both byte orders, zlib, bzip2 or not
//! packed at all), the single stream of Darshan 1 and 2, and the text of `darshan-parser` and `darshan-dxt-parser`.
//! DXT segments, and the records of a region that unpacks to more than [`Limits::region`], are too large to keep: they are
//! streamed from the log whenever they are wanted ([`Log::for_each_dxt_segment`], [`CounterTable::for_each`],
//! [`Records::for_each`]). So a log may have any number of records; what grows with them are the names of their files.
//!
//! ```no_run
//! use iotide_formats::darshan::{Log, ModuleData};
//!
//! let log = Log::open("job.darshan".as_ref())?;
//! for module in &log.modules {
//!     if let ModuleData::Counters(table) = &module.data {
//!         for (counter, total) in table.totals() {
//!             assert!(counter.len() > 3 && total.as_f64() >= 0.0);
//!         }
//!     }
//! }
//! # Ok::<(), iotide_formats::ReadError>(())
//! ```
//!
//! # What is read of a damaged log
//! A log is a header and regions: the job, the names, one per module. Regions are independent, and each is a row of
//! packed streams, about one per rank. Of a region we keep the streams before the first that does not unpack or fails
//! its checksum, and of these the records before the first that is not whole. Everything else is a [`Loss`] that names
//! the region and the place. Only a log whose header cannot be read is an error.

use std::borrow::Cow;
use std::io::{BufRead, Read};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use iotide_trace::Loss;

pub use self::{
    bytes::Endian,
    dxt::{DxtRecord, DxtSegment, DxtTotals},
    events::{DarshanLayers, DarshanOptions, DarshanSource},
    heatmap::{HeatmapRecord, HeatmapTotals, heatmap_totals},
    job::{Job, Mount, Names},
    packed::Records,
    records::{
        Apmpi, ApmpiHeader, CounterTable, LustreComponent, LustreRecord, LustreTotals, Record, Value,
        lustre_totals,
    },
    streams::{Compression, RegionState},
};

use self::{
    container::parse_container,
    dxt::{DxtDecoder, DxtModule},
    source::Source,
    streams::Part,
};
use crate::error::Fault;
use crate::{Place, ReadError};

mod bytes;
mod call_shape;
mod container;
mod counters;
mod dxt;
mod events;
mod facts;
mod file_records;
mod heatmap;
mod job;
mod legacy;
mod packed;
mod records;
mod source;
mod streams;
mod text;

pub(crate) use self::events::{load, load_for_events, read};

/// The number at byte 8 of a log, by which its byte order is told.
const MAGIC: u64 = 6_567_223;

/// A log, read whole but for its DXT segments.
#[derive(Debug)]
pub struct Log {
    /// The version of the log format, as it is written in the log ("3.41").
    pub version: String,
    /// The byte order; `None` for text.
    pub endian: Option<Endian>,
    /// How its regions are packed; `None` for text and for Darshan 1 and 2, which pack the whole file.
    pub compression: Option<Compression>,
    /// The job, if its record could be read.
    pub job: Option<Job>,
    /// Names of records.
    pub names: Names,
    /// Records of each module, in the order of Darshan's list of modules.
    pub modules: Vec<Module>,
    /// State of each region, in the order they are read. Empty unless it is a Darshan 3 log.
    pub regions: Vec<Region>,
    /// Data that is missing.
    pub losses: Vec<Loss>,
    /// The log itself, from which DXT segments are streamed.
    source: Source,
}

/// A part of a log, and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Region {
    /// "job", "names", or the name of a module.
    pub name: Cow<'static, str>,
    /// Where it begins in the file.
    pub offset: u64,
    /// How long it is there, packed.
    pub length: u64,
    /// How much of it could be unpacked.
    pub state: RegionState,
}

/// Records of one module of Darshan.
#[derive(Debug)]
pub struct Module {
    /// Its name, as `darshan-parser` prints it ("POSIX").
    pub name: Cow<'static, str>,
    /// The version of its records.
    pub version: u32,
    /// Whether it ran out of memory, so that files or calls are missing.
    pub partial: bool,
    /// Its records.
    pub data: ModuleData,
}

/// The records of a module.
#[derive(Debug)]
pub enum ModuleData {
    /// One row of counters per file and rank: POSIX, MPI-IO, STDIO and most others.
    Counters(CounterTable),
    /// Layouts of files on Lustre.
    Lustre(Records<LustreRecord>),
    /// MPI calls.
    Apmpi(Apmpi),
    /// Bytes over time.
    Heatmap(Records<HeatmapRecord>),
    /// Calls with their times.
    Dxt(Dxt),
    /// A module, or a version of one, that is not known.
    Unknown {
        /// How much it holds, unpacked.
        bytes: u64,
    },
}

impl Module {
    /// How many records it has; `None` if it is not known how to count them.
    pub fn n_records(&self) -> Option<u64> {
        match &self.data {
            ModuleData::Counters(table) => Some(table.len() as u64),
            ModuleData::Lustre(records) => Some(records.len()),
            ModuleData::Apmpi(apmpi) => Some(apmpi.n_records() as u64),
            ModuleData::Heatmap(records) => Some(records.len()),
            ModuleData::Dxt(dxt) => Some(dxt.totals.records),
            ModuleData::Unknown { .. } => None,
        }
    }

    /// Its counters, if it has any.
    pub fn counters(&self) -> Option<&CounterTable> {
        match &self.data {
            ModuleData::Counters(table) => Some(table),
            ModuleData::Apmpi(apmpi) => Some(&apmpi.ranks),
            _ => None,
        }
    }
}

/// A DXT module: its sums, and where its segments are.
#[derive(Debug)]
pub struct Dxt {
    /// The sums.
    pub totals: DxtTotals,
    segments: Segments,
}

#[derive(Debug)]
enum Segments {
    /// In the log, packed.
    Packed(PackedDxt),
    /// Read from text, and kept.
    Kept(Vec<(DxtRecord, Vec<DxtSegment>)>),
}

#[derive(Debug)]
struct PackedDxt {
    region: std::ops::Range<u64>,
    module: DxtModule,
    version: u32,
}

/// How much may be kept in memory.
///
/// Packed data can claim to hold a thousand times their size. The defaults keep a reader below 1 GiB beside the names of the
/// files, of which 512 MiB are kept. What does not fit is streamed, or else is a [`Loss`].
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a file of Darshan 3 that are kept; of a larger one the regions are read when they are wanted.
    pub in_memory: u64,
    /// Bytes of any other source: text, a pipe, a log of Darshan 1 or 2.
    pub file: usize,
    /// Bytes that a region may unpack to and be kept; the records of a larger one are streamed. For DXT, the bytes of a
    /// stream that are held back until its checksum is known.
    pub region: usize,
    /// Bytes that a log of Darshan 1 or 2 may unpack to.
    pub legacy: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { in_memory: 64 << 20, file: 512 << 20, region: 16 << 20, legacy: 1 << 30 }
    }
}

impl Log {
    /// Reads a log from a file.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        Self::open_with(path, Limits::default())
    }

    /// Reads a log from a file, with other limits.
    pub fn open_with(path: &Path, limits: Limits) -> Result<Self, ReadError> {
        let fault = |fault| ReadError::from_fault(path, fault);
        let file = std::fs::File::open(path).map_err(|error| fault(error.into()))?;
        let (source, cut) = Source::of_file(Arc::new(file), limits).map_err(fault)?;
        let mut log = Self::of_source(source, limits).map_err(fault)?;
        log.sum_up_dxt();
        log.losses.extend(cut);
        Ok(log)
    }

    /// Reads a log from bytes; `name` stands for it in messages.
    pub fn parse(name: impl AsRef<Path>, bytes: Vec<u8>) -> Result<Self, ReadError> {
        Self::parse_with(name, bytes, Limits::default())
    }

    /// Reads a log from bytes, with other limits.
    pub fn parse_with(name: impl AsRef<Path>, bytes: Vec<u8>, limits: Limits) -> Result<Self, ReadError> {
        Self::from_bytes(bytes, limits).map_err(|fault| ReadError::from_fault(name.as_ref(), fault))
    }

    fn from_bytes(bytes: Vec<u8>, limits: Limits) -> Result<Self, Fault> {
        let mut log = Self::of_source(Source::Memory(Arc::new(bytes)), limits)?;
        log.sum_up_dxt();
        Ok(log)
    }

    /// Reads everything but the sums of DXT modules, which take most of the time.
    fn of_source(source: Source, limits: Limits) -> Result<Self, Fault> {
        let bytes = match &source {
            Source::File { .. } => return parse_container(source, limits),
            Source::Memory(bytes) => bytes,
        };
        if legacy::is_unpacked(bytes) {
            legacy::parse_unpacked(bytes, limits)
        } else if endian_of(bytes).is_some() {
            parse_container(source, limits)
        } else if legacy::is_packed(bytes) {
            legacy::parse(bytes, limits)
        } else if text::is_text(bytes) {
            text::parse(bytes)
        } else {
            Err(Fault::at(Place::Byte(8), "this is no Darshan log: its magic number is missing"))
        }
    }

    /// The module of that name.
    pub fn module(&self, name: &str) -> Option<&Module> {
        self.modules.iter().find(|module| module.name == name)
    }

    /// The Darshan library that wrote the log, as it names itself.
    pub fn library_version(&self) -> Option<&str> {
        let metadata = &self.job.as_ref()?.metadata;
        metadata.iter().find(|(key, _)| key == "lib_ver").map(|(_, value)| value.as_str())
    }

    /// The layer-by-layer sums of the heatmap; empty if there is none.
    pub fn heatmap_totals(&self) -> Vec<HeatmapTotals> {
        match self.module("HEATMAP").map(|module| &module.data) {
            Some(ModuleData::Heatmap(records)) => heatmap_totals(records, &self.names),
            _ => Vec::new(),
        }
    }

    /// Streams the records of a DXT module, each first with no segment and then with each of its segments.
    ///
    /// `take` may ask to stop. Returns what could not be read.
    pub fn for_each_dxt_segment(
        &self,
        module: &Module,
        mut take: impl FnMut(&DxtRecord, Option<DxtSegment>) -> ControlFlow<()>,
    ) -> Vec<Loss> {
        let ModuleData::Dxt(dxt) = &module.data else { return Vec::new() };
        self.stream_dxt(&module.name, dxt, Limits::default(), &mut take)
    }

    fn stream_dxt(
        &self,
        name: &str,
        dxt: &Dxt,
        limits: Limits,
        take: &mut impl FnMut(&DxtRecord, Option<DxtSegment>) -> ControlFlow<()>,
    ) -> Vec<Loss> {
        let packed = match &dxt.segments {
            Segments::Packed(packed) => packed,
            Segments::Kept(records) => {
                for (record, segments) in records {
                    let mut each = || {
                        take(record, None)?;
                        segments.iter().try_for_each(|segment| take(record, Some(*segment)))
                    };
                    if each().is_break() {
                        break;
                    }
                }
                return Vec::new();
            }
        };
        let (compression, mut region, mut decoder) = self.packed_dxt(packed);
        let mut stopped = false;
        let state = streams::for_each_stream(compression, &mut *region, limits.region, |piece| {
            let flow = decoder.feed(piece, take);
            stopped = flow.is_break();
            flow
        });
        if stopped { Vec::new() } else { dxt_losses(name, packed, &state, &decoder) }
    }

    /// Sums up a DXT module. The sums of a stream count once its checksum is known to agree.
    fn dxt_totals(&self, name: &str, packed: &PackedDxt) -> (DxtTotals, RegionState, Vec<Loss>) {
        let (compression, mut region, mut decoder) = self.packed_dxt(packed);
        let mut totals = DxtTotals::default();
        let mut trusted = (totals.clone(), decoder.clone());
        let state = streams::for_each_part(compression, &mut *region, |part| {
            match part {
                Part::Bytes(piece) => {
                    return decoder.feed(piece, &mut |_, segment| {
                        match &segment {
                            Some(segment) => totals.add(segment),
                            None => totals.records += 1,
                        }
                        ControlFlow::Continue(())
                    });
                }
                Part::End => trusted = (totals.clone(), decoder.clone()),
                Part::Damaged => (totals, decoder) = trusted.clone(),
            }
            ControlFlow::Continue(())
        });
        let losses = dxt_losses(name, packed, &state, &decoder);
        (totals, state, losses)
    }

    fn packed_dxt(&self, packed: &PackedDxt) -> (Compression, Box<dyn BufRead + '_>, DxtDecoder) {
        let compression = self.compression.unwrap_or(Compression::None);
        let bytes = self.source.region(packed.region.clone());
        let decoder = DxtDecoder::new(self.endian.unwrap_or(Endian::Little), packed.module, packed.version);
        (compression, bytes, decoder)
    }

    /// Fills in the sums of DXT modules, the modules in parallel.
    fn sum_up_dxt(&mut self) {
        let packed: Vec<usize> = (0..self.modules.len())
            .filter(|at| matches!(&self.modules[*at].data, ModuleData::Dxt(_)))
            .collect();
        let log = &*self;
        let sums = in_parallel(&packed, log.source.len(), |at| {
            let module = &log.modules[*at];
            match &module.data {
                ModuleData::Dxt(Dxt { segments: Segments::Packed(packed), .. }) => {
                    Some(log.dxt_totals(&module.name, packed))
                }
                _ => None,
            }
        });
        for (at, sum) in packed.into_iter().zip(sums) {
            let Some((totals, state, losses)) = sum else { continue };
            let module = &mut self.modules[at];
            if let Some(region) = self.regions.iter_mut().find(|region| region.name == module.name) {
                region.state = state;
            }
            self.losses.extend(losses);
            if let ModuleData::Dxt(dxt) = &mut module.data {
                dxt.totals = totals;
            }
        }
    }
}

impl Source {
    /// A file, kept in memory unless it is a large log of Darshan 3.
    fn of_file(file: Arc<std::fs::File>, limits: Limits) -> Result<(Self, Option<Loss>), Fault> {
        let len = file.metadata().map_or(0, |metadata| metadata.len());
        if len > limits.in_memory {
            let source = Source::File { file: Arc::clone(&file), len };
            let head = source.head(16)?;
            if endian_of(&head).is_some() && !legacy::is_unpacked(&head) {
                return Ok((source, None));
            }
        }
        let all = Source::File { file, len };
        let (bytes, cut) = read_limited(all.region(0..len), len, limits)?;
        Ok((Source::Memory(Arc::new(bytes)), cut))
    }
}

/// Reads at most as many bytes as the limit allows; more than that is a loss. `len` is how many there should be.
fn read_limited(read: impl Read, len: u64, limits: Limits) -> Result<(Vec<u8>, Option<Loss>), Fault> {
    let expected = usize::try_from(len).unwrap_or(usize::MAX).min(limits.file);
    let mut bytes = Vec::with_capacity(expected + 1);
    read.take(limits.file as u64 + 1).read_to_end(&mut bytes)?;
    let cut = bytes.len() > limits.file;
    bytes.truncate(limits.file);
    let loss = cut
        .then(|| Loss::of_the_rest(format!("only the first {} MiB of the log were read", limits.file >> 20)));
    Ok((bytes, loss))
}

/// The byte order of a Darshan 3 log; `None` if it is none.
pub(crate) fn endian_of(head: &[u8]) -> Option<Endian> {
    let magic = head.get(8..16)?.first_chunk()?;
    [Endian::Little, Endian::Big].into_iter().find(|endian| endian.u64(*magic) == MAGIC)
}

/// Whether this begins like a log of Darshan 1 or 2.
pub(crate) fn is_legacy(head: &[u8]) -> bool {
    legacy::is_legacy(head)
}

/// Whether this begins like the text of `darshan-parser`, and whether it is that of `darshan-dxt-parser`.
pub(crate) fn text_kind(head: &[u8]) -> Option<bool> {
    text::is_text(head).then(|| text::is_dxt_text(head))
}

fn region_loss(name: &str, offset: u64, state: &RegionState) -> Option<Loss> {
    let (into, fault) = state.fault.as_ref()?;
    let at = offset.saturating_add(*into);
    Some(Loss::of_the_rest(format!("{name}: from byte {at} on the region could not be unpacked: {fault}")))
}

fn dxt_losses(name: &str, packed: &PackedDxt, state: &RegionState, decoder: &DxtDecoder) -> Vec<Loss> {
    let mut losses = Vec::from_iter(region_loss(name, packed.region.start, state));
    let (bytes, segments) = decoder.left_over();
    if bytes > 0 || segments > 0 {
        losses.push(Loss {
            what: format!("{name}: the region ends before its last record does"),
            records: (segments > 0).then_some(segments),
            since: None,
            cut: true,
        });
    }
    losses
}

/// Applies `work` to each item and returns the results in the same order.
///
/// Small logs are done here: starting a thread costs more than it would save.
fn in_parallel<T: Sync, R: Send>(items: &[T], log_len: u64, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    /// Bounds what decompressors hold at the same time; see [`Limits`].
    const MAX_THREADS: usize = 4;
    const WORTH_A_THREAD: u64 = 256 << 10;
    let worthwhile = log_len.div_ceil(WORTH_A_THREAD).min(MAX_THREADS.min(items.len()) as u64);
    // The system is asked last: it reads files to know.
    let n_threads = match worthwhile {
        0 | 1 => 1,
        most => std::thread::available_parallelism().map_or(1, |cores| cores.get().min(most as usize)),
    };
    if n_threads <= 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(items.len()));
    std::thread::scope(|scope| {
        for _ in 0..n_threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(at) else { break };
                    let result = work(item);
                    results.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((at, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    results.sort_unstable_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}
