//! The container of Darshan 3: a header, and regions that are read independently of each other.

use std::borrow::Cow;
use std::ops::{ControlFlow, Range};

use iotide_trace::Loss;

use super::bytes::{self, Cursor, Endian};
use super::counters::Layout;
use super::dxt::{DxtModule, DxtTotals};
use super::job::{Job, Names};
use super::packed::{Count, PackedRegion, Records, Take};
use super::records::{self, Apmpi, CounterTable, RowShape, SumRows};
use super::source::Source;
use super::streams::{self, Compression, Feed, RegionState, Unpacked};
use super::{
    Dxt, Limits, Log, Module, ModuleData, PackedDxt, Region, Segments, endian_of, heatmap, in_parallel,
    region_loss,
};
use crate::Place;
use crate::error::Fault;

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

/// Reads a log of Darshan 3.
pub(super) fn parse_container(source: Source, limits: Limits) -> Result<Log, Fault> {
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

/// Content of a region.
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

/// Properties that all regions of a log share.
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
