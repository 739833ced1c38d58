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
use std::ops::{ControlFlow, Range};
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
    bytes::Cursor,
    counters::Layout,
    dxt::{DxtDecoder, DxtModule},
    packed::{Count, PackedRegion, Take},
    records::{RowShape, SumRows},
    source::Source,
    streams::{Feed, Part, Unpacked},
};
use crate::error::Fault;
use crate::{Place, ReadError};

mod bytes;
mod call_shape;
mod counters;
mod dxt;
mod events;
mod extents;
mod facts;
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
    /// What each module knows, in the order of Darshan's list of modules.
    pub modules: Vec<Module>,
    /// What became of each region, in the order they are read. Empty unless it is a Darshan 3 log.
    pub regions: Vec<Region>,
    /// What is missing.
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

/// What a module of Darshan noted.
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

/// The modules of Darshan, by the numbers they have in log format 3.41.
const MODULES: [&str; 18] = [
    "NULL",
    "POSIX",
    "MPI-IO",
    "H5F",
    "H5D",
    "PNETCDF_FILE",
    "PNETCDF_VAR",
    "BG/Q",
    "LUSTRE",
    "STDIO",
    "DXT_POSIX",
    "DXT_MPIIO",
    "MDHIM",
    "APXC",
    "APMPI",
    "HEATMAP",
    "DFS",
    "DAOS",
];

/// The header of a log, which is never packed.
struct Header {
    version: String,
    /// The digits after the point: 0, 10, 20, 21 or 41.
    minor: u32,
    endian: Endian,
    compression: Compression,
    len: usize,
    names: (u64, u64),
    modules: Vec<ModuleEntry>,
}

struct ModuleEntry {
    name: Cow<'static, str>,
    version: u32,
    partial: bool,
    offset: u64,
    length: u64,
}

impl Header {
    fn parse(bytes: &[u8]) -> Result<Self, Fault> {
        let endian = endian_of(bytes).ok_or_else(|| {
            Fault::at(Place::Byte(8), "this is no Darshan log: its magic number is missing")
        })?;
        let version = bytes::text(&bytes[..8]);
        let minor = version.strip_prefix("3.").and_then(|minor| minor.parse().ok()).ok_or_else(|| {
            Fault::at(
                Place::Byte(0),
                format!("Darshan log version \"{}\" is not known", version.escape_debug()),
            )
        })?;
        let cut = || Fault::at(Place::Byte(bytes.len() as u64), "the log ends within its header");
        let mut cursor = Cursor::new(bytes, endian);
        cursor.take(16).ok_or_else(cut)?;
        let compression = match cursor.take(1).ok_or_else(cut)?[0] {
            0 => Compression::Zlib,
            1 => Compression::Bzip2,
            2 => Compression::None,
            other => return Err(Fault::at(Place::Byte(16), format!("compression {other} is not known"))),
        };
        Self::parse_rest(&mut cursor, bytes.len(), version, minor, endian, compression).ok_or_else(cut)
    }

    fn parse_rest(
        cursor: &mut Cursor,
        file_len: usize,
        version: String,
        minor: u32,
        endian: Endian,
        compression: Compression,
    ) -> Option<Self> {
        // From 3.41 on there is room for 64 modules, and their flags take a word of 64 bits, aligned as such.
        let (partial, n_slots) = if minor >= 41 {
            cursor.take(7)?;
            (cursor.u64()?, 64)
        } else {
            cursor.take(3)?;
            (u64::from(cursor.u32()?), 16)
        };
        let names = (cursor.u64()?, cursor.u64()?);
        let maps: Vec<_> =
            (0..n_slots).map(|_| Some((cursor.u64()?, cursor.u64()?))).collect::<Option<_>>()?;
        let versions: Vec<_> = (0..n_slots).map(|_| cursor.u32()).collect::<Option<_>>()?;
        let slots = maps.into_iter().zip(versions).enumerate();
        let modules = slots.map(|(slot, ((offset, length), version))| ModuleEntry {
            name: module_name(slot, minor),
            version,
            partial: partial >> slot & 1 == 1,
            offset,
            length,
        });
        let modules = modules.filter(|module| module.length > 0 || module.partial).collect();
        let len = file_len - cursor.rest().len();
        Some(Self { version, minor, endian, compression, len, names, modules })
    }

    /// Where the job record is: between the header and whatever comes first after it.
    fn job_region(&self, file_len: u64) -> (u64, u64) {
        let after_header = self.len as u64;
        let first_module =
            self.modules.iter().filter(|module| module.length > 0).map(|module| module.offset).min();
        let names = (self.names.1 > 0).then_some(self.names.0);
        // Offsets that point into the header are damage.
        let end = [names, first_module].into_iter().flatten().find(|end| *end > after_header);
        (after_header, end.unwrap_or(file_len).min(file_len).saturating_sub(after_header))
    }
}

/// The name of the module in a slot. Slots were inserted for H5D (3.20) and PNETCDF_VAR (3.41).
fn module_name(slot: usize, minor: u32) -> Cow<'static, str> {
    let mut id = slot;
    if minor < 20 && id >= 4 {
        id += 1;
    }
    if minor < 41 && id >= 6 {
        id += 1;
    }
    MODULES.get(id).map_or_else(|| Cow::Owned(format!("MODULE_{slot}")), |name| Cow::Borrowed(*name))
}

fn parse_container(source: Source, limits: Limits) -> Result<Log, Fault> {
    /// More than a header is long.
    const HEAD: usize = 4 << 10;
    let file_len = source.len();
    let header = Header::parse(&source.head(HEAD)?)?;
    let Header { minor, endian, compression, .. } = header;
    let mut losses = Vec::new();
    if minor > 41 {
        losses.push(Loss::of_unknown_size(format!(
            "log version {} is newer than 3.41, as which it is read",
            header.version
        )));
    }

    let (job_at, job_len) = header.job_region(file_len);
    let mut wanted = vec![
        Wanted { name: "job".into(), offset: job_at, length: job_len, kind: Kind::Job },
        Wanted { name: "names".into(), offset: header.names.0, length: header.names.1, kind: Kind::Names },
    ];
    let modules = header.modules.iter().filter(|module| module.length > 0);
    wanted.extend(modules.map(|module| Wanted {
        name: module.name.clone(),
        offset: module.offset,
        length: module.length,
        kind: Kind::of_module(&module.name, module.version),
    }));

    let context = Context { source: &source, minor, endian, compression, limits };
    let found = in_parallel(&wanted, file_len, |wanted| context.parse_region(wanted));

    let mut log = Log {
        version: header.version,
        endian: Some(endian),
        compression: Some(compression),
        job: None,
        names: Names::default(),
        modules: Vec::new(),
        regions: Vec::new(),
        losses,
        source: source.clone(),
    };
    let mut entries = header.modules.into_iter();
    for (wanted, Found { content, state, losses }) in wanted.into_iter().zip(found) {
        log.losses.extend(losses);
        let Wanted { name, offset, length, .. } = wanted;
        log.regions.push(Region { name, offset, length, state });
        match content {
            Content::Job(job) => log.job = job,
            Content::Names(names) => log.names = names,
            Content::Module(data) => {
                for entry in entries.by_ref() {
                    log.losses.extend(entry.partial_loss());
                    if entry.length > 0 {
                        let ModuleEntry { name, version, partial, .. } = entry;
                        log.modules.push(Module { name, version, partial, data });
                        break;
                    }
                }
            }
        }
    }
    log.losses.extend(entries.filter_map(|entry| entry.partial_loss()));
    if let Some(n_procs) = log.job.as_ref().map(|job| job.n_procs).filter(|_| log.is_of_one_process()) {
        log.losses.push(Loss::of_unknown_size(format!(
            "the run broke off and this is what one of its {n_procs} processes left: what the others did is not in it"
        )));
    }
    Ok(log)
}

impl ModuleEntry {
    fn partial_loss(&self) -> Option<Loss> {
        self.partial.then(|| {
            Loss::of_unknown_size(format!(
                "{}: the module ran out of memory while the job ran, so records are missing",
                self.name
            ))
        })
    }
}

/// A region to be read.
struct Wanted {
    name: Cow<'static, str>,
    offset: u64,
    length: u64,
    kind: Kind,
}

enum Kind {
    Job,
    Names,
    Counters(&'static Layout),
    Mdhim(&'static Layout),
    Lustre(u32),
    Apmpi,
    Heatmap,
    Dxt(DxtModule, u32),
    Unknown,
}

impl Kind {
    fn of_module(name: &str, version: u32) -> Self {
        if let Some(module) = DxtModule::of_name(name) {
            let known = 1..=module.newest_version();
            return if known.contains(&version) { Kind::Dxt(module, version) } else { Kind::Unknown };
        }
        match (name, version, Layout::of(name, version)) {
            ("MDHIM", _, Some(layout)) => Kind::Mdhim(layout),
            (_, _, Some(layout)) => Kind::Counters(layout),
            ("LUSTRE", 1 | 2, _) => Kind::Lustre(version),
            ("APMPI", 1, _) => Kind::Apmpi,
            ("HEATMAP", 1, _) => Kind::Heatmap,
            _ => Kind::Unknown,
        }
    }
}

/// What was in a region.
struct Found {
    content: Content,
    state: RegionState,
    losses: Vec<Loss>,
}

enum Content {
    Job(Option<Job>),
    Names(Names),
    Module(ModuleData),
}

/// What all regions of a log have in common.
#[derive(Clone, Copy)]
struct Context<'a> {
    source: &'a Source,
    minor: u32,
    endian: Endian,
    compression: Compression,
    limits: Limits,
}

impl Context<'_> {
    fn parse_region(self, wanted: &Wanted) -> Found {
        let Wanted { name, offset, length, kind } = wanted;
        let mut losses = Vec::new();
        let file_len = self.source.len();
        let end = offset.saturating_add(*length);
        if end > file_len {
            let there = file_len.saturating_sub(*offset);
            losses.push(Loss::of_the_rest(format!(
                "{name}: the log is cut: the region needs {length} bytes from byte {offset} on, {there} are there"
            )));
        }
        let range = (*offset).min(file_len)..end.min(file_len);
        if let Kind::Dxt(module, version) = kind {
            let segments = Segments::Packed(PackedDxt { region: range, module: *module, version: *version });
            let data = ModuleData::Dxt(Dxt { totals: DxtTotals::default(), segments });
            return Found { content: Content::Module(data), state: RegionState::default(), losses };
        }

        let (content, left, state) = self.parse_content(kind, range);
        losses.extend(region_loss(name, *offset, &state));
        // The job record is padded, and a module that is not known is not looked into.
        if left > 0 && !matches!(kind, Kind::Job | Kind::Unknown) {
            let at = state.good_bytes.saturating_sub(left);
            losses.push(Loss::of_the_rest(format!(
                "{name}: {left} bytes from byte {at} of the unpacked region on are no whole record"
            )));
        }
        if matches!(kind, Kind::Unknown) {
            losses.push(Loss::of_unknown_size(format!(
                "{name}: this module, or its version, is not known; {left} bytes were not read"
            )));
        }
        if let Content::Names(names) = &content
            && names.n_dropped() > 0
        {
            let what = format!("{name}: there is no room for {} more names", names.n_dropped());
            losses.push(Loss::of_unknown_size(what));
        }
        if matches!(content, Content::Job(None)) && state.fault.is_none() {
            losses.push(Loss::of_the_rest("job: the record is cut"));
        }
        Found { content, state, losses }
    }

    /// Returns what was found, how many bytes at the end were not used, and what became of the region.
    fn parse_content(self, kind: &Kind, range: Range<u64>) -> (Content, u64, RegionState) {
        let Self { endian, minor, .. } = self;
        match kind {
            Kind::Job => {
                let (unpacked, state) = self.unpack(&range, First::default());
                let bytes = match unpacked {
                    Unpacked::Whole(bytes) => bytes,
                    Unpacked::Large(First(bytes)) => bytes,
                };
                (Content::Job(Job::parse(&bytes, endian, minor)), 0, state)
            }
            Kind::Names => {
                let (unpacked, state) = self.unpack(&range, Ignored);
                let mut names = Names::default();
                let left = match unpacked {
                    Unpacked::Whole(bytes) => names.parse(&bytes, endian, minor),
                    Unpacked::Large(Ignored) => {
                        let mut left = state.good_bytes;
                        let _: ControlFlow<()> = self.packed(range, &state).for_each(|cursor| {
                            let before = cursor.rest().len();
                            names.take(cursor, minor)?;
                            left -= (before - cursor.rest().len()) as u64;
                            Some(ControlFlow::Continue(()))
                        });
                        left
                    }
                };
                (Content::Names(names), left, state)
            }
            Kind::Counters(layout) => self.parse_table(layout, RowShape::Layout(layout), range),
            Kind::Mdhim(layout) => self.parse_table(layout, RowShape::Mdhim(layout), range),
            Kind::Lustre(version) => {
                self.parse_records(range, records::take_lustre(*version), ModuleData::Lustre)
            }
            Kind::Heatmap => self.parse_records(range, heatmap::take_record, ModuleData::Heatmap),
            Kind::Apmpi => {
                let sums = SumRows::new(Apmpi::table(), RowShape::Apmpi, endian);
                let (unpacked, state) = self.unpack(&range, sums);
                let (apmpi, left) = match unpacked {
                    Unpacked::Whole(bytes) => Apmpi::parse(&bytes, endian),
                    Unpacked::Large(sums) => {
                        let (ranks, left) = sums.finish(self.packed(range, &state));
                        (Apmpi { ranks, ..Apmpi::default() }, left)
                    }
                };
                (Content::Module(ModuleData::Apmpi(apmpi)), left, state)
            }
            // DXT never comes here: its segments are streamed.
            Kind::Dxt(..) | Kind::Unknown => {
                let (_, state) = self.unpack(&range, Ignored);
                let bytes = state.good_bytes;
                (Content::Module(ModuleData::Unknown { bytes }), bytes, state)
            }
        }
    }

    fn parse_table(
        self,
        layout: &'static Layout,
        shape: RowShape,
        range: Range<u64>,
    ) -> (Content, u64, RegionState) {
        let sums = SumRows::new(CounterTable::of_layout(layout), shape, self.endian);
        let (unpacked, state) = self.unpack(&range, sums);
        let (table, left) = match unpacked {
            Unpacked::Whole(bytes) => records::parse_counters(&bytes, self.endian, layout, shape),
            Unpacked::Large(sums) => sums.finish(self.packed(range, &state)),
        };
        (Content::Module(ModuleData::Counters(table)), left, state)
    }

    fn parse_records<T: Clone>(
        self,
        range: Range<u64>,
        take: Take<T>,
        module: fn(Records<T>) -> ModuleData,
    ) -> (Content, u64, RegionState) {
        let (unpacked, state) = self.unpack(&range, Count::new(self.endian, take));
        let (records, left) = match unpacked {
            Unpacked::Whole(bytes) => Records::of_bytes(&bytes, self.endian, take),
            Unpacked::Large(Count { carry, len, .. }) => {
                (Records::of_region(self.packed(range, &state), take, len), carry.left())
            }
        };
        (Content::Module(module(records)), left, state)
    }

    fn unpack<L: Feed>(self, range: &Range<u64>, large: L) -> (Unpacked<L>, RegionState) {
        let mut region = self.source.region(range.clone());
        streams::unpack(self.compression, &mut *region, self.limits.region, large)
    }

    /// A region that was unpacked once, to be unpacked again.
    fn packed(self, range: Range<u64>, state: &RegionState) -> PackedRegion {
        let Self { source, compression, endian, .. } = self;
        PackedRegion { source: source.clone(), range, compression, endian, good_bytes: state.good_bytes }
    }
}

/// Wants nothing of a large region.
#[derive(Clone)]
struct Ignored;

impl Feed for Ignored {
    fn feed(&mut self, _: &[u8]) {}
}

/// Keeps the first bytes of a region: more than a job record has.
#[derive(Clone, Default)]
struct First(Vec<u8>);

impl Feed for First {
    fn feed(&mut self, piece: &[u8]) {
        const ENOUGH: usize = 64 << 10;
        let left = ENOUGH.saturating_sub(self.0.len()).min(piece.len());
        self.0.extend_from_slice(&piece[..left]);
    }
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
