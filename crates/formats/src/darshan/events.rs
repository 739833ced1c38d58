//! From a log to events: which layer, which source, and how a counter pair becomes an interval.
//!
//! The same bytes are seen by several layers (MPI-IO above POSIX) and, in one layer, by several sources (DXT, heatmap,
//! counters). An analysis wants them once. So one layer is chosen first, and for it the finest source:
//!
//! | | DXT | heatmap | counters |
//! |---|---|---|---|
//! | POSIX | DXT_POSIX | HEATMAP | POSIX |
//! | MPI-IO | DXT_MPIIO | HEATMAP | MPI-IO |
//! | STDIO | – | HEATMAP | STDIO |
//!
//! C streams go to the kernel by calls that Darshan does not see as POSIX, so STDIO adds to POSIX and is never the same
//! bytes. Metadata operations are known from counters alone and come from there whatever the source.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use iotide_trace::{
    AccessFacts, Event, EventSink, FileId, Grain, JobInfo, Layer, Loss, Op, Rank, TimeKind, TimeSpent,
    Timestamp, TraceInfo,
};

use super::facts::LayerFacts;
use super::packed::Records;
use super::records::{CounterTable, Record};
use super::source::Source as LogSource;
use super::{Compression, HeatmapRecord, Limits, Log, Module, ModuleData, read_limited};
use crate::error::Fault;
use crate::{Place, input::Input};

/// How to make events of a Darshan log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DarshanOptions {
    /// Where the reads and writes come from.
    pub source: DarshanSource,
    /// Which layers are wanted.
    pub layers: DarshanLayers,
}

/// Where the reads and writes come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DarshanSource {
    /// The finest the log has for a layer: DXT, else the heatmap, else counters.
    #[default]
    Auto,
    /// Calls with their own times.
    Dxt,
    /// Bytes per rank and time bin.
    Heatmap,
    /// A file's totals, spread over the time between its first and last access.
    Counters,
}

/// Which layers become events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DarshanLayers {
    /// Each byte once, as close to storage as the log goes: POSIX and STDIO, or MPI-IO and STDIO if POSIX moved nothing.
    #[default]
    Lowest,
    /// MPI-IO alone: what the program asked for, before it was gathered.
    MpiIo,
    /// All of them, apart by [`Event::layer`]; the same bytes may come twice.
    All,
}

/// Reads a log and pushes its events.
pub(crate) fn read(
    input: Input,
    options: DarshanOptions,
    sink: &mut dyn EventSink,
) -> Result<TraceInfo, Fault> {
    Ok(load_for_events(input)?.events(options, sink))
}

/// Reads a log, its sums of DXT segments included.
pub(crate) fn load(input: Input) -> Result<Log, Fault> {
    let mut log = load_for_events(input)?;
    log.sum_up_dxt();
    Ok(log)
}

/// Reads a log without the sums of its DXT segments, which will be streamed.
pub(crate) fn load_for_events(input: Input) -> Result<Log, Fault> {
    let limits = Limits::default();
    let (source, cut) = match input.file() {
        Some(file) => LogSource::of_file(Arc::clone(file), limits)?,
        None => {
            let (bytes, cut) = read_limited(input.into_read(), 0, limits)?;
            (LogSource::Memory(Arc::new(bytes)), cut)
        }
    };
    if source.len() == 0 {
        return Err(Fault::at(Place::Whole, "there is nothing in it"));
    }
    let mut log = Log::of_source(source, limits)?;
    log.losses.extend(cut);
    Ok(log)
}

impl Log {
    /// Pushes the log's events and losses into a sink; DXT segments are streamed from the log.
    ///
    /// Times count from the start of the job.
    pub fn events(&self, options: DarshanOptions, sink: &mut dyn EventSink) -> TraceInfo {
        let mut files = Files { log: self, ids: HashMap::new(), names: Vec::new(), hosts: HashSet::new() };
        for loss in &self.losses {
            sink.loss(loss.clone());
        }
        // A sink that has enough is no reason to leave out what the log says of itself.
        let _ = self.push_events(options, sink, &mut files);
        let n_nodes = Some(files.hosts.len() as u64).filter(|&n| n > 0);
        TraceInfo { job: JobInfo { n_nodes, ..self.job_info() }, files: files.names }
    }

    /// Whether it is what one of several processes left behind: Darshan packs a log when the run ends and puts those of all processes together.
    pub(crate) fn is_of_one_process(&self) -> bool {
        self.compression == Some(Compression::None)
            && self.job.as_ref().is_some_and(|job| job.end_s == 0 && job.n_procs > 1)
    }

    fn job_info(&self) -> JobInfo {
        let Some(job) = &self.job else { return JobInfo::default() };
        JobInfo {
            run_time_s: job.run_time_s().filter(|run_time_s| *run_time_s >= 0.0),
            n_procs: u64::try_from(job.n_procs).ok(),
            has_ranks: None,
            n_told: self.is_of_one_process().then_some(1),
            user: Some(job.uid.to_string()),
            exe: (!job.exe.is_empty()).then(|| job.exe.clone()),
            job_id: Some(job.job_id.to_string()),
            start_time_unix_s: Some(job.start_time_unix_s()),
            n_nodes: None,
            mounts: job.mounts.clone(),
        }
    }

    fn push_events(
        &self,
        options: DarshanOptions,
        sink: &mut dyn EventSink,
        files: &mut Files,
    ) -> ControlFlow<()> {
        let layers = self.layers(options, sink);
        let by_posix_alone = layers.by_posix_alone;
        let collective = self.collective_files();
        let n_procs = self.job.as_ref().and_then(|job| u64::try_from(job.n_procs).ok()).unwrap_or(1);
        let mut n_sources = 0;
        for layer in [Layer::Posix, Layer::MpiIo, Layer::Stdio] {
            let is_wanted = layers.whole.contains(&layer);
            let source = self.source(layer, options.source).filter(|_| is_wanted);
            n_sources += usize::from(source.is_some());
            // Of a layer that saw a part only, the files that no other layer saw.
            let partly = by_posix_alone.as_ref().filter(|_| layer == Layer::Posix);
            match &source {
                Some(Source::Dxt(module)) => self.push_dxt(layer, module, None, sink, files)?,
                Some(Source::Heatmap(records)) => self.push_heatmap(layer, records, sink)?,
                Some(Source::Counters(_)) | None => {}
            }
            if let (Some(others), Some(module)) = (partly, self.dxt(layer)) {
                self.push_dxt(layer, module, Some(others), sink, files)?;
            }
            let Some(table) = self.counters(layer) else { continue };
            let columns = Columns::of(layer, table, self);
            let mut facts = LayerFacts::new(layer, table, n_procs, &collective);
            let with_data = matches!(source, Some(Source::Counters(_)));
            let without_files = matches!(source, Some(Source::Heatmap(_)));
            let has_calls = matches!(source, Some(Source::Dxt(_)));
            let partly_with_data = partly.filter(|_| self.dxt(layer).is_none());
            let mut n_senseless = 0;
            let flow = table.for_each(|record| {
                let file = files.id(record.id);
                facts.add(record, file);
                let is_other = |others: &HashSet<u64>| !others.contains(&record.id);
                if is_wanted {
                    if without_files {
                        facts.add_file_bytes(record, file);
                    }
                    if with_data {
                        facts.add_rank_parts(record);
                    }
                    columns.push(record, with_data, file, sink, &mut n_senseless)?;
                    columns.push_times(record, has_calls, file, sink);
                } else if partly.is_some_and(is_other) {
                    let with_data = partly_with_data.is_some();
                    if with_data {
                        facts.add_rank_parts(record);
                    }
                    columns.push(record, with_data, file, sink, &mut n_senseless)?;
                    columns.push_times(record, !with_data, file, sink);
                }
                ControlFlow::Continue(())
            });
            report_senseless(n_senseless, prefix(layer).trim_end_matches('_'), sink);
            sink.access_facts(&facts.finish());
            flow?;
        }
        sink.access_facts(&self.layouts(|id| files.ids.get(&id).copied()));
        let by_name: HashMap<&str, FileId> =
            (0..).map(FileId).zip(&files.names).map(|(id, name)| (name.as_str(), id)).collect();
        let records = self.library_records(&by_name, n_procs);
        sink.access_facts(&AccessFacts { layer: Layer::Library, records, ..AccessFacts::default() });
        if n_sources == 0 && options.source != DarshanSource::Auto {
            let name = match options.source {
                DarshanSource::Dxt => "DXT records",
                DarshanSource::Heatmap => "heatmap",
                DarshanSource::Counters | DarshanSource::Auto => "counters",
            };
            sink.loss(Loss::of_unknown_size(format!(
                "the log has no {name} of the layers that were asked for"
            )));
        }
        ControlFlow::Continue(())
    }

    /// The layers to read, so that no byte comes twice unless that was asked for.
    fn layers(&self, options: DarshanOptions, sink: &mut dyn EventSink) -> Layers {
        match options.layers {
            DarshanLayers::MpiIo => Layers { whole: vec![Layer::MpiIo], by_posix_alone: None },
            DarshanLayers::All => {
                Layers { whole: vec![Layer::Posix, Layer::Stdio, Layer::MpiIo], by_posix_alone: None }
            }
            DarshanLayers::Lowest => {
                let moves = |layer| self.moves_data(layer, options.source);
                if !moves(Layer::MpiIo) {
                    return Layers { whole: vec![Layer::Posix, Layer::Stdio], by_posix_alone: None };
                }
                let posix_is_enough = moves(Layer::Posix) && !self.is_unseen_by_posix(sink);
                if posix_is_enough {
                    return Layers { whole: vec![Layer::Posix, Layer::Stdio], by_posix_alone: None };
                }
                let by_mpi_io = self.counters(Layer::MpiIo).map(|table| {
                    let mut ids = HashSet::new();
                    let _: ControlFlow<()> = table.for_each(|record| {
                        ids.insert(record.id);
                        ControlFlow::Continue(())
                    });
                    ids
                });
                Layers { whole: vec![Layer::MpiIo, Layer::Stdio], by_posix_alone: by_mpi_io }
            }
        }
    }

    /// MPI libraries may move data by calls that Darshan does not wrap; POSIX then saw a part of it only.
    fn is_unseen_by_posix(&self, sink: &mut dyn EventSink) -> bool {
        let bytes = |layer| {
            let table = self.counters(layer)?;
            let sum = |name| Some(table.totals().iter().find(|(known, _)| *known == name)?.1.as_f64());
            let prefix = prefix(layer);
            Some(sum(format!("{prefix}BYTES_READ"))? + sum(format!("{prefix}BYTES_WRITTEN"))?)
        };
        let (Some(posix), Some(mpi_io)) = (bytes(Layer::Posix), bytes(Layer::MpiIo)) else { return false };
        if posix * 2.0 >= mpi_io {
            return false;
        }
        sink.loss(Loss::of_unknown_size(format!(
            "POSIX saw {posix} bytes where MPI-IO saw {mpi_io}: the MPI library moved data by calls that Darshan does not \
             see, so the MPI-IO layer was taken"
        )));
        true
    }

    /// The files of which ranks read or write together.
    fn collective_files(&self) -> HashSet<u64> {
        let mut ids = HashSet::new();
        let Some(table) = self.counters(Layer::MpiIo) else { return ids };
        let names = ["COLL_READS", "COLL_WRITES", "SPLIT_READS", "SPLIT_WRITES"];
        let columns: Vec<usize> =
            names.iter().filter_map(|name| table.int_column(&format!("MPIIO_{name}"))).collect();
        let _: ControlFlow<()> = table.for_each(|record| {
            if record.rank < 0 && columns.iter().any(|column| record.int(*column) > Some(0)) {
                ids.insert(record.id);
            }
            ControlFlow::Continue(())
        });
        ids
    }

    fn source(&self, layer: Layer, wanted: DarshanSource) -> Option<Source<'_>> {
        let dxt = || self.dxt(layer).map(Source::Dxt);
        let heatmap = || self.heatmap(layer).map(Source::Heatmap);
        let counters = || self.counters(layer).map(Source::Counters);
        match wanted {
            DarshanSource::Auto => dxt().or_else(heatmap).or_else(counters),
            DarshanSource::Dxt => dxt(),
            DarshanSource::Heatmap => heatmap(),
            DarshanSource::Counters => counters(),
        }
    }

    fn moves_data(&self, layer: Layer, wanted: DarshanSource) -> bool {
        match self.source(layer, wanted) {
            Some(Source::Dxt(_)) => true,
            Some(Source::Heatmap(_)) => true,
            Some(Source::Counters(table)) => {
                let names = ["BYTES_READ", "BYTES_WRITTEN"];
                let columns = names.map(|name| table.int_column(&format!("{}{name}", prefix(layer))));
                let moved =
                    |record: Record| columns.iter().flatten().any(|column| record.int(*column) > Some(0));
                let flow = table.for_each(|record| match moved(record) {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                });
                flow.is_break()
            }
            None => false,
        }
    }

    fn dxt(&self, layer: Layer) -> Option<&Module> {
        let name = match layer {
            Layer::Posix => "DXT_POSIX",
            Layer::MpiIo => "DXT_MPIIO",
            _ => return None,
        };
        self.module(name).filter(|module| matches!(module.data, ModuleData::Dxt(_)))
    }

    /// When the run ended, if the log says so.
    fn run_end(&self) -> Option<Timestamp> {
        let run_time_s = self.job.as_ref()?.run_time_s()?;
        Timestamp::from_secs_since_start(run_time_s).filter(|end| *end > Timestamp::default())
    }

    /// The heatmap of one layer, if any of it is not zero.
    fn heatmap(&self, layer: Layer) -> Option<Heatmap<'_>> {
        let ModuleData::Heatmap(records) = &self.module("HEATMAP")?.data else { return None };
        let name = match layer {
            Layer::Posix => "POSIX",
            Layer::MpiIo => "MPIIO",
            Layer::Stdio => "STDIO",
            _ => return None,
        };
        let moved = |record: &HeatmapRecord| record.read.iter().chain(&record.write).any(|bytes| *bytes > 0);
        let flow =
            records.for_each(|record| match record.layer(&self.names) == Some(name) && moved(record) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            });
        flow.is_break().then_some(Heatmap { records, name })
    }

    fn counters(&self, layer: Layer) -> Option<&CounterTable> {
        let names: &[&str] = match layer {
            Layer::Posix => &["POSIX", "CP"],
            Layer::MpiIo => &["MPI-IO"],
            Layer::Stdio => &["STDIO"],
            _ => return None,
        };
        names.iter().find_map(|name| self.module(name)?.counters()).filter(|table| !table.is_empty())
    }

    /// Pushes the segments of a module, but for those of the files in `others`.
    fn push_dxt(
        &self,
        layer: Layer,
        module: &Module,
        others: Option<&HashSet<u64>>,
        sink: &mut dyn EventSink,
        files: &mut Files,
    ) -> ControlFlow<()> {
        let mut flow = ControlFlow::Continue(());
        let mut n_senseless = 0;
        let (mut rank, mut file) = (Rank::ALL, FileId::NONE);
        let losses = self.for_each_dxt_segment(module, |record, segment| {
            if others.is_some_and(|others| others.contains(&record.id)) {
                return ControlFlow::Continue(());
            }
            let Some(segment) = segment else {
                rank = rank_of(record.rank);
                file = files.id(record.id);
                files.note_host(&record.host);
                return ControlFlow::Continue(());
            };
            let times = (
                Timestamp::from_secs_since_start(segment.start_s),
                Timestamp::from_secs_since_start(segment.end_s),
            );
            let (Some(start), Some(end), 0..) = (times.0, times.1, segment.length) else {
                n_senseless += 1;
                return ControlFlow::Continue(());
            };
            let op = if segment.is_write { Op::Write } else { Op::Read };
            flow = sink.event(Event {
                op,
                layer,
                grain: Grain::Call,
                rank,
                file,
                start,
                // Clocks of different cores may disagree by less than a call takes.
                end: end.max(start),
                bytes: segment.length as f64,
                calls: 1,
            });
            flow
        });
        losses.into_iter().for_each(|loss| sink.loss(loss));
        report_senseless(n_senseless, &module.name, sink);
        flow
    }

    fn push_heatmap(&self, layer: Layer, heatmap: &Heatmap, sink: &mut dyn EventSink) -> ControlFlow<()> {
        let run_end = self.run_end();
        let mut n_senseless = 0;
        let flow = heatmap.records.for_each(|record| match record.layer(&self.names) == Some(heatmap.name) {
            true => push_bins(layer, record, run_end, &mut n_senseless, sink),
            false => ControlFlow::Continue(()),
        });
        report_senseless(n_senseless, "HEATMAP", sink);
        flow
    }
}

/// Files to read of each layer.
struct Layers {
    /// Read whole.
    whole: Vec<Layer>,
    /// Of POSIX, all files but these.
    by_posix_alone: Option<HashSet<u64>>,
}

enum Source<'a> {
    Dxt(&'a Module),
    Heatmap(Heatmap<'a>),
    Counters(&'a CounterTable),
}

/// The heatmap of one layer.
struct Heatmap<'a> {
    records: &'a Records<HeatmapRecord>,
    name: &'static str,
}

fn prefix(layer: Layer) -> &'static str {
    match layer {
        Layer::MpiIo => "MPIIO_",
        Layer::Stdio => "STDIO_",
        _ => "POSIX_",
    }
}

/// How the counters of a table begin.
pub(super) fn table_prefix(layer: Layer, table: &CounterTable) -> &'static str {
    if table.int_column("CP_BYTES_READ").is_some() { "CP_" } else { prefix(layer) }
}

pub(super) fn rank_of(rank: i64) -> Rank {
    i32::try_from(rank).ok().filter(|rank| *rank >= 0).map_or(Rank::ALL, Rank)
}

fn report_senseless(n_senseless: u64, module: &str, sink: &mut dyn EventSink) {
    if n_senseless > 0 {
        let what = format!("{module}: a time that is no time, or a size below zero");
        sink.loss(Loss::of_records(n_senseless, what));
    }
}

/// A bin in which the run ends holds what was moved until then: it is cut to `run_end`, as bins overhang the run.
fn push_bins(
    layer: Layer,
    record: &HeatmapRecord,
    run_end: Option<Timestamp>,
    n_senseless: &mut u64,
    sink: &mut dyn EventSink,
) -> ControlFlow<()> {
    let edge = |bin: usize| Timestamp::from_secs_since_start(bin as f64 * record.bin_width_s);
    if record.bin_width_s.is_nan() || record.bin_width_s <= 0.0 {
        *n_senseless += 1;
        return ControlFlow::Continue(());
    }
    for (op, bins) in [(Op::Write, &record.write), (Op::Read, &record.read)] {
        for (bin, &bytes) in bins.iter().enumerate().filter(|(_, bytes)| **bytes != 0) {
            let (Some(start), Some(end), 1..) = (edge(bin), edge(bin + 1), bytes) else {
                *n_senseless += 1;
                continue;
            };
            let end = run_end.filter(|run_end| start < *run_end).map_or(end, |run_end| end.min(run_end));
            let rank = rank_of(record.rank);
            let (grain, file, bytes) = (Grain::Bin, FileId::NONE, bytes as f64);
            sink.event(Event { op, layer, grain, rank, file, start, end, bytes, calls: 1 })?;
        }
    }
    ControlFlow::Continue(())
}

/// Record ids → entries of the file table, made when an event first needs one.
struct Files<'a> {
    log: &'a Log,
    ids: HashMap<u64, FileId>,
    names: Vec<String>,
    /// The nodes that DXT names.
    hosts: HashSet<String>,
}

impl Files<'_> {
    fn note_host(&mut self, host: &str) {
        /// More nodes than any machine has.
        const MOST_HOSTS: usize = 1 << 20;
        if !host.is_empty() && self.hosts.len() < MOST_HOSTS && !self.hosts.contains(host) {
            self.hosts.insert(host.to_owned());
        }
    }

    fn id(&mut self, record: u64) -> FileId {
        if let Some(id) = self.ids.get(&record) {
            return *id;
        }
        let Ok(next) = u32::try_from(self.names.len()) else { return FileId::NONE };
        let name = self.log.names.get(record).filter(|name| !name.is_empty());
        // Darshan's own tools drop such records; their bytes were moved all the same.
        self.names.push(name.map_or_else(|| format!("<unnamed {record:#018x}>"), str::to_string));
        self.ids.insert(record, FileId(next));
        FileId(next)
    }
}

/// Where a table has what events are made of. Counters of other versions have other names; what is absent is `None`.
struct Columns {
    layer: Layer,
    read: Data,
    write: Data,
    open: Interval,
    close: Interval,
    opens: Vec<usize>,
    /// Time in reads, writes and all other calls.
    times: Vec<(TimeKind, usize)>,
    /// Operations without times of their own.
    others: Vec<(Op, Vec<usize>)>,
    run_time_s: Option<f64>,
    /// Time to subtract from every time: see [`legacy_clock_zero_s`].
    zero_s: f64,
}

struct Data {
    op: Op,
    bytes: Option<usize>,
    calls: Vec<usize>,
    interval: Interval,
}

#[derive(Clone, Copy)]
struct Interval {
    start: Option<usize>,
    end: Option<usize>,
}

impl Columns {
    fn of(layer: Layer, table: &CounterTable, log: &Log) -> Self {
        let prefix = table_prefix(layer, table);
        let is_legacy = prefix == "CP_";
        let ints = |names: &[&str]| -> Vec<usize> {
            names.iter().filter_map(|name| table.int_column(&format!("{prefix}{name}"))).collect()
        };
        let float = |names: &[&str]| {
            names.iter().find_map(|name| table.float_column(&format!("{prefix}F_{name}_TIMESTAMP")))
        };
        let data = |op: Op, bytes: &str, calls: &[&str], start: &str, end: &str| Data {
            op,
            bytes: table.int_column(&format!("{prefix}{bytes}")),
            calls: ints(calls),
            interval: Interval { start: float(&[start]), end: float(&[end]) },
        };
        let (reads, writes, opens): (&[&str], &[&str], &[&str]) = match (layer, is_legacy) {
            (_, true) => (
                &["POSIX_READS", "POSIX_FREADS"],
                &["POSIX_WRITES", "POSIX_FWRITES"],
                &["POSIX_OPENS", "POSIX_FOPENS"],
            ),
            (Layer::MpiIo, _) => (
                &["INDEP_READS", "COLL_READS", "SPLIT_READS", "NB_READS"],
                &["INDEP_WRITES", "COLL_WRITES", "SPLIT_WRITES", "NB_WRITES"],
                &["INDEP_OPENS", "COLL_OPENS"],
            ),
            // The first version of the POSIX module counted C streams as well.
            _ => (&["READS", "FREADS"], &["WRITES", "FWRITES"], &["OPENS", "FOPENS", "FDOPENS"]),
        };
        let others: [(Op, &[&str]); 4] = [
            (Op::Seek, &["SEEKS", "FSEEKS", "POSIX_SEEKS", "POSIX_FSEEKS"]),
            (Op::Stat, &["STATS", "POSIX_STATS"]),
            (Op::Sync, &["FSYNCS", "FDSYNCS", "FLUSHES", "SYNCS", "POSIX_FSYNCS", "POSIX_FDSYNCS"]),
            (Op::Other, &["RENAME_SOURCES"]),
        ];
        let mut columns = Self {
            layer,
            read: data(Op::Read, "BYTES_READ", reads, "READ_START", "READ_END"),
            write: data(Op::Write, "BYTES_WRITTEN", writes, "WRITE_START", "WRITE_END"),
            open: Interval { start: float(&["OPEN_START", "OPEN"]), end: float(&["OPEN_END", "OPEN"]) },
            close: Interval { start: float(&["CLOSE_START", "CLOSE"]), end: float(&["CLOSE_END", "CLOSE"]) },
            opens: ints(opens),
            times: [(TimeKind::Read, "READ"), (TimeKind::Write, "WRITE"), (TimeKind::Metadata, "META")]
                .into_iter()
                .filter_map(|(kind, name)| {
                    let posix = if is_legacy { "POSIX_" } else { "" };
                    Some((kind, table.float_column(&format!("{prefix}F_{posix}{name}_TIME"))?))
                })
                .collect(),
            others: others.into_iter().map(|(op, names)| (op, ints(names))).collect(),
            run_time_s: log.job.as_ref().and_then(|job| job.run_time_s()),
            zero_s: 0.0,
        };
        if is_legacy {
            columns.zero_s = legacy_clock_zero_s(table, &columns);
        }
        columns
    }

    fn push(
        &self,
        record: Record,
        with_data: bool,
        file: FileId,
        sink: &mut dyn EventSink,
        n_senseless: &mut u64,
    ) -> ControlFlow<()> {
        let mut push = |op: Op, interval: Option<(f64, f64)>, bytes: i64, calls: u64| {
            let times = interval.and_then(|(start_s, end_s)| {
                let start = Timestamp::from_secs_since_start(start_s)?;
                Some((start, Timestamp::from_secs_since_start(end_s)?.max(start)))
            });
            let Some((start, end)) = times else {
                *n_senseless += 1;
                return ControlFlow::Continue(());
            };
            sink.event(Event {
                op,
                layer: self.layer,
                grain: Grain::Record,
                rank: rank_of(record.rank),
                file,
                start,
                end,
                bytes: bytes as f64,
                calls: u32::try_from(calls).unwrap_or(u32::MAX),
            })
        };
        for data in [&self.read, &self.write] {
            let bytes = data.bytes.and_then(|column| record.int(column)).unwrap_or(0);
            if with_data && bytes > 0 {
                let interval = self.times(record, data.interval).or_else(|| self.life(record));
                push(data.op, interval, bytes, sum(record, &data.calls).max(1))?;
            }
        }
        let opens = sum(record, &self.opens);
        if opens > 0 {
            push(Op::Open, self.times(record, self.open).or_else(|| self.life(record)), 0, opens)?;
        }
        // Closes are not counted, but what was opened and has a time of closing was closed.
        if let (1.., Some(interval)) = (opens, self.times(record, self.close)) {
            push(Op::Close, Some(interval), 0, opens)?;
        }
        for (op, columns) in &self.others {
            let calls = sum(record, columns);
            if calls > 0 {
                push(*op, self.life(record), 0, calls)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// States the time in calls; that of reads and writes only if those do not come as calls with times of their own.
    fn push_times(&self, record: Record, has_calls: bool, file: FileId, sink: &mut dyn EventSink) {
        for &(kind, column) in &self.times {
            if has_calls && kind != TimeKind::Metadata {
                continue;
            }
            // Zero is "none", -1 is "not monitored".
            if let Some(seconds) = record.float(column).filter(|seconds| *seconds > 0.0) {
                let rank = rank_of(record.rank);
                sink.time_spent(TimeSpent { layer: self.layer, kind, file, rank, seconds });
            }
        }
    }

    /// An interval the record has; `None` if it was never set. One end alone stands for both.
    fn times(&self, record: Record, interval: Interval) -> Option<(f64, f64)> {
        let at = |column: Option<usize>| {
            let time_s = record.float(column?)?;
            // Zero is "never", -1 is "not monitored".
            (time_s > 0.0).then_some(time_s - self.zero_s)
        };
        match (at(interval.start), at(interval.end)) {
            (Some(start), Some(end)) => Some((start.min(end), start.max(end))),
            (Some(only), None) | (None, Some(only)) => Some((only, only)),
            (None, None) => None,
        }
    }

    /// From the first thing known of the record to the last, or the whole job if nothing is.
    fn life(&self, record: Record) -> Option<(f64, f64)> {
        let known = [self.open, self.read.interval, self.write.interval, self.close];
        let known = known.into_iter().filter_map(|interval| self.times(record, interval));
        let life = known.reduce(|whole, next| (whole.0.min(next.0), whole.1.max(next.1)));
        life.or(self.run_time_s.filter(|run_time_s| *run_time_s >= 0.0).map(|run_time_s| (0.0, run_time_s)))
    }
}

fn sum(record: Record, columns: &[usize]) -> u64 {
    // -1 is "not monitored".
    columns.iter().filter_map(|column| u64::try_from(record.int(*column)?).ok()).fold(0, u64::saturating_add)
}

/// Returns the earliest time of a table whose clock did not count from the start of the job, else 0.
///
/// Before 2.2.9 Darshan stored `MPI_Wtime` as it was, which on some machines counts from boot.
fn legacy_clock_zero_s(table: &CounterTable, columns: &Columns) -> f64 {
    let (mut first, mut last) = (f64::MAX, 0.0);
    let _: ControlFlow<()> = table.for_each(|record| {
        if let Some(life) = columns.life(record) {
            (first, last) = (life.0.min(first), life.1.max(last));
        }
        ControlFlow::Continue(())
    });
    let run_time_s = columns.run_time_s.unwrap_or(f64::MAX);
    if first < f64::MAX && last > run_time_s + 1.0 { first } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_bin_of_a_heatmap_ends_with_the_run() {
        let record =
            HeatmapRecord { id: 0, rank: 3, bin_width_s: 25.6, write: vec![5, 7, 9], read: vec![0, 0, 0] };
        let at = |secs| Timestamp::from_secs_since_start(secs).unwrap();
        let mut trace = iotide_trace::Trace::default();
        assert!(push_bins(Layer::Posix, &record, Some(at(60.0)), &mut 0, &mut trace).is_continue());
        let spans: Vec<_> = trace.events.iter().map(|event| (event.start, event.end, event.bytes)).collect();
        assert_eq!(spans, [(at(0.0), at(25.6), 5.0), (at(25.6), at(51.2), 7.0), (at(51.2), at(60.0), 9.0)]);
    }
}
