//! Records of files in the terms of the trace, out of Darshan's counters of any version.

use std::collections::HashMap;
use std::ops::ControlFlow;

use iotide_trace::{
    AccessFacts, FileId, FileLayout, FileRecord, FileRecords, Layer, Rank, RankShare, SIZE_RANGES,
    SmallCalls, WayRecord,
};

use super::events::{rank_of, table_prefix};
use super::records::{CounterTable, LustreRecord, Record};
use super::{Log, ModuleData};

/// Where the counters of a table stand.
pub(super) struct RecordColumns {
    /// The records that one row gives: one, or POSIX and MPI-IO side by side in Darshan 1 and 2.
    parts: Vec<Part>,
}

struct Part {
    layer: Layer,
    is_legacy: bool,
    reads: WayColumns,
    writes: WayColumns,
    opens: Vec<usize>,
    stats: Vec<usize>,
    syncs: Vec<usize>,
    maps: Option<usize>,
    metadata: Option<usize>,
    alignment: Option<usize>,
    misaligned: Option<usize>,
    /// Size and count of the commonest sizes.
    common: Vec<(usize, usize)>,
    /// Rank, bytes and time of the slowest and of the fastest rank.
    shares: [Option<(usize, usize, usize)>; 2],
    /// Calls through C streams that count as POSIX in this table.
    streams: Vec<usize>,
}

struct WayColumns {
    calls: Vec<usize>,
    bytes: Option<usize>,
    time: Option<usize>,
    sizes: Option<[usize; SIZE_RANGES.len()]>,
    sequential: Option<usize>,
    furthest: Option<usize>,
    collective: Vec<usize>,
    nonblocking: Option<usize>,
}

impl RecordColumns {
    pub(super) fn of(layer: Layer, table: &CounterTable) -> Self {
        let prefix = table_prefix(layer, table);
        let is_legacy = prefix == "CP_";
        let layers: &[Layer] = if is_legacy { &[Layer::Posix, Layer::MpiIo] } else { &[layer] };
        Self { parts: layers.iter().map(|layer| Part::of(*layer, prefix, table)).collect() }
    }

    /// Returns the records that a row gives.
    pub(super) fn records(
        &self,
        record: Record,
        file: FileId,
        n_procs: u64,
    ) -> impl Iterator<Item = FileRecord> {
        let of = move |part: &Part| part.record(record, file, n_procs);
        self.parts.iter().map(of).filter(|record| {
            record.seconds() > 0.0
                || [record.reads.calls, record.writes.calls, record.opens, record.stats]
                    .iter()
                    .any(|n| *n > 0)
                || record.reads.bytes.is_none_or(|bytes| bytes > 0.0)
        })
    }
}

impl Part {
    fn of(layer: Layer, prefix: &str, table: &CounterTable) -> Self {
        let is_legacy = prefix == "CP_";
        let is_mpi = layer == Layer::MpiIo;
        let int = |name: &str| table.int_column(&format!("{prefix}{name}"));
        let ints = |names: &[&str]| names.iter().filter_map(|name| int(name)).collect::<Vec<usize>>();
        let float = |name: &str| table.float_column(&format!("{prefix}F_{name}"));
        let time = |name: &str| match (is_legacy, is_mpi) {
            (true, true) => float(&format!("MPI_{name}")),
            (true, false) => float(&format!("POSIX_{name}")),
            _ => float(name),
        };
        let way = |word: &str, moved: &str| {
            let posix = if is_legacy { "POSIX_" } else { "" };
            let calls = match is_mpi {
                true => ["INDEP_", "COLL_", "SPLIT_", "NB_"].map(|kind| format!("{kind}{word}S")).to_vec(),
                false => vec![format!("{posix}{word}S"), format!("{posix}F{word}S")],
            };
            let aggregated = if is_mpi { "AGG_" } else { "" };
            let ranges = [
                "0_100", "100_1K", "1K_10K", "10K_100K", "100K_1M", "1M_4M", "4M_10M", "10M_100M", "100M_1G",
                "1G_PLUS",
            ];
            let sizes = ranges.map(|range| int(&format!("SIZE_{word}_{aggregated}{range}")));
            WayColumns {
                calls: calls.iter().filter_map(|name| int(name)).collect(),
                // Darshan 1 and 2 count the bytes of POSIX alone.
                bytes: int(&format!("BYTES_{moved}")).filter(|_| !(is_legacy && is_mpi)),
                time: time(&format!("{word}_TIME")),
                sizes: sizes.iter().all(Option::is_some).then(|| sizes.map(Option::unwrap_or_default)),
                sequential: int(&format!("SEQ_{word}S")).filter(|_| !is_mpi),
                furthest: int(&format!("MAX_BYTE_{moved}")).filter(|_| !is_mpi),
                collective: ints(&[&format!("COLL_{word}S"), &format!("SPLIT_{word}S")]),
                nonblocking: int(&format!("NB_{word}S")),
            }
        };
        let numbered = |name: &str| {
            (1..=4).filter_map(|i| int(&name.replace('#', &i.to_string()))).collect::<Vec<usize>>()
        };
        let share = |who: &str| {
            let rank = int(&format!("{who}_RANK"))?;
            Some((rank, int(&format!("{who}_RANK_BYTES"))?, float(&format!("{who}_RANK_TIME"))?))
        };
        Self {
            layer,
            is_legacy,
            reads: way("READ", "READ"),
            writes: way("WRITE", "WRITTEN"),
            opens: match is_mpi {
                true => ints(&["INDEP_OPENS", "COLL_OPENS"]),
                false => ints(&["OPENS", "FOPENS", "FDOPENS", "POSIX_OPENS", "POSIX_FOPENS"]),
            },
            stats: if is_mpi { Vec::new() } else { ints(&["STATS", "POSIX_STATS"]) },
            syncs: match (is_mpi, is_legacy) {
                (true, _) => ints(&["SYNCS"]),
                (false, true) => ints(&["POSIX_FSYNCS", "POSIX_FDSYNCS"]),
                _ => ints(&["FSYNCS", "FDSYNCS", "FLUSHES"]),
            },
            maps: if is_mpi { None } else { int("MMAPS").or_else(|| int("POSIX_MMAPS")) },
            metadata: time("META_TIME"),
            alignment: int("FILE_ALIGNMENT").filter(|_| !is_mpi),
            misaligned: int("FILE_NOT_ALIGNED").filter(|_| !is_mpi),
            common: numbered("ACCESS#_ACCESS").into_iter().zip(numbered("ACCESS#_COUNT")).collect(),
            shares: [share("SLOWEST"), share("FASTEST")],
            streams: if is_mpi { Vec::new() } else { ints(&["POSIX_FREADS", "POSIX_FWRITES"]) },
        }
    }

    fn record(&self, row: Record, file: FileId, n_procs: u64) -> FileRecord {
        let count = |column: usize| row.int(column).and_then(|value| u64::try_from(value).ok());
        let sum = |columns: &[usize]| {
            columns.iter().filter_map(|column| count(*column)).fold(0u64, u64::saturating_add)
        };
        let seconds = |column: Option<usize>| {
            row.float(column?).filter(|seconds| *seconds > 0.0 && seconds.is_finite())
        };
        // The only process of a run is a rank like any other.
        let rank = if n_procs == 1 { Rank(0) } else { rank_of(row.rank) };
        let opens = sum(&self.opens);
        let n_first = opens.max(if rank == Rank::ALL { n_procs } else { 1 });
        let common: Vec<(u64, u64)> =
            self.common.iter().filter_map(|&(size, calls)| Some((count(size)?, count(calls)?))).collect();
        let is_of_streams = {
            let all = sum(&self.reads.calls).saturating_add(sum(&self.writes.calls));
            self.is_legacy && all > 0 && sum(&self.streams) == all
        };
        let layer = if is_of_streams { Layer::Stdio } else { self.layer };
        let is_seen = |way: &WayColumns| sum(&way.calls) > 0;
        // Only the layer that a program called has the times of single ranks in Darshan 1 and 2.
        let has_shares = rank == Rank::ALL
            && (!self.is_legacy
                || (self.layer == Layer::MpiIo) == (is_seen(&self.reads) || is_seen(&self.writes)));
        let share = |columns: Option<(usize, usize, usize)>| {
            let (rank, bytes, time) = columns.filter(|_| has_shares)?;
            Some(RankShare {
                rank: rank_of(row.int(rank)?),
                bytes: row.int(bytes).filter(|bytes| *bytes >= 0)? as f64,
                seconds: seconds(Some(time))?,
            })
        };
        let ways = [&self.reads, &self.writes].map(|columns| columns.sizes.map(|sizes| sizes.map(count)));
        let way = |columns: &WayColumns, sizes: Option<[Option<u64>; SIZE_RANGES.len()]>, others: usize| {
            let calls = sum(&columns.calls);
            let bytes = columns.bytes.and_then(|column| row.int(column)).filter(|bytes| *bytes >= 0);
            let sizes = sizes.map(|sizes| sizes.map(|calls| calls.unwrap_or(0)));
            let others = ways[others].map(|sizes| sizes.map(|calls| calls.unwrap_or(0)));
            let furthest = columns.furthest.and_then(count).filter(|furthest| {
                // Logs before version 3 come from machines of 32 bits, too, whose offsets end here.
                !self.is_legacy || *furthest != i32::MAX as u64
            });
            let bytes = bytes.map(|bytes| bytes as f64);
            WayRecord {
                calls,
                bytes,
                seconds: seconds(columns.time).unwrap_or(0.0),
                small: sizes.map(|sizes| small_calls(sizes, others.unwrap_or_default(), &common, bytes)),
                random: columns
                    .sequential
                    .and_then(count)
                    .filter(|_| layer == Layer::Posix)
                    .map(|sequential| calls.saturating_sub(sequential).saturating_sub(n_first)),
                up_to: furthest.filter(|_| bytes.is_some() && calls > 0).map(|at| at as f64 + 1.0),
                collective: (!columns.collective.is_empty() && layer == Layer::MpiIo)
                    .then(|| sum(&columns.collective)),
                nonblocking: columns.nonblocking.and_then(count).filter(|_| layer == Layer::MpiIo),
                calls_s: None,
            }
        };
        FileRecord {
            reads: way(&self.reads, ways[0], 1),
            writes: way(&self.writes, ways[1], 0),
            opens,
            stats: sum(&self.stats),
            syncs: sum(&self.syncs),
            maps: self.maps.and_then(count).unwrap_or(0),
            metadata_s: seconds(self.metadata).unwrap_or(0.0),
            alignment: self.alignment.and_then(count).filter(|alignment| *alignment > 0),
            misaligned: self.misaligned.and_then(count),
            slowest: share(self.shares[0]),
            fastest: share(self.shares[1]),
            ..FileRecord::new(file, rank, layer)
        }
    }
}

/// Ranges below a mebibyte, and its last one, which has requests of exactly a mebibyte as well.
const SMALL_RANGES: usize = 5;
const MEBIBYTE: u64 = 1 << 20;

/// Estimates the calls below a mebibyte and their bytes from ranges of sizes and the commonest sizes of both directions.
fn small_calls(
    sizes: [u64; SIZE_RANGES.len()],
    others: [u64; SIZE_RANGES.len()],
    common: &[(u64, u64)],
    bytes: Option<f64>,
) -> SmallCalls {
    let mut small = SmallCalls::default();
    for range in 0..SMALL_RANGES {
        let (from, to) = (SIZE_RANGES[range] as f64, SIZE_RANGES[range + 1] as f64);
        let calls = sizes[range];
        if calls == 0 {
            continue;
        }
        // The commonest sizes are of reads and writes together: this direction has its share of the calls in the range.
        let share = calls as f64 / (calls as f64 + others[range] as f64);
        let (mut known, mut known_bytes, mut whole) = (0.0, 0.0, 0.0);
        for &(size, n) in common.iter().filter(|&&(size, n)| n > 0 && size as f64 <= to && size as f64 > from)
        {
            let n = (share * n as f64).min(calls as f64 - known);
            known += n;
            known_bytes += n * size as f64;
            whole += if size == MEBIBYTE { n } else { 0.0 };
        }
        let middle = (from.max(1.0) * to).sqrt();
        let rest = calls as f64 - known;
        small.calls = small.calls.saturating_add((calls as f64 - whole).round() as u64);
        small.bytes += known_bytes - whole * MEBIBYTE as f64 + rest * middle;
    }
    let n_calls: u64 = sizes.iter().fold(0, |sum, calls| sum.saturating_add(*calls));
    if let Some(bytes) = bytes {
        let large: f64 = sizes[SMALL_RANGES..]
            .iter()
            .zip(&SIZE_RANGES[SMALL_RANGES..])
            .map(|(calls, from)| *calls as f64 * *from as f64)
            .sum();
        small.bytes = if small.calls == n_calls { bytes } else { small.bytes.min((bytes - large).max(0.0)) };
    }
    small
}

impl Log {
    /// The layouts of files on Lustre, and how many targets the file system has.
    pub(super) fn layouts(&self, file_of: impl Fn(u64) -> Option<FileId>) -> AccessFacts {
        /// Targets of files that are kept, 4 bytes each.
        const MOST: usize = 1 << 22;
        let mut facts = AccessFacts { layer: Layer::Posix, ..AccessFacts::default() };
        let Some(ModuleData::Lustre(records)) = self.module("LUSTRE").map(|module| &module.data) else {
            return facts;
        };
        let mut n_kept = 0;
        let _: ControlFlow<()> = records.for_each(|record: &LustreRecord| {
            let targets: Vec<u32> = record.osts.iter().filter_map(|ost| u32::try_from(*ost).ok()).collect();
            let counted = record.components.iter().flat_map(|part| &part.counters);
            let n_targets = counted.filter(|(name, _)| name == "LUSTRE_OSTS").map(|(_, n)| *n).max();
            let n_targets = n_targets.and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0);
            let highest = targets.iter().max().map(|target| target.saturating_add(1));
            facts.n_targets = facts.n_targets.max(n_targets.or(highest));
            n_kept += targets.len();
            if let Some(file) = file_of(record.id).filter(|_| n_kept <= MOST && !targets.is_empty()) {
                facts.layouts.push(FileLayout { file, targets });
            }
            ControlFlow::Continue(())
        });
        facts
    }

    /// Returns the requests of libraries above MPI-IO, by file: HDF5 and PnetCDF count by dataset, DAOS by file.
    pub(super) fn library_records(&self, files: &HashMap<&str, FileId>, n_procs: u64) -> Vec<FileRecord> {
        let mut sums: HashMap<(FileId, Rank), FileRecord> = HashMap::new();
        for (module, prefix) in [("H5D", "H5D_"), ("PNETCDF_VAR", "PNETCDF_VAR_"), ("DFS", "DFS_")] {
            let Some(table) = self.module(module).and_then(|module| module.counters()) else { continue };
            let part = Part::of(Layer::Library, prefix, table);
            let _: ControlFlow<()> = table.for_each(|row| {
                let name = self.names.get(row.id).unwrap_or_default();
                // "file:dataset", and both may have colons.
                let of_file = std::iter::once(name.len())
                    .chain(name.rmatch_indices(':').map(|(at, _)| at))
                    .find_map(|end| files.get(&name[..end]).copied());
                let file = of_file.unwrap_or(FileId::NONE);
                let record = part.record(row, file, n_procs);
                sums.entry((file, record.rank)).and_modify(|known| known.join(&record)).or_insert(record);
                ControlFlow::Continue(())
            });
        }
        let mut sorted: Vec<FileRecord> = sums.into_values().collect();
        sorted.sort_by_key(|record| (record.file, record.rank));
        let mut records = FileRecords::default();
        sorted.into_iter().for_each(|record| records.push(record));
        records.finish()
    }
}
