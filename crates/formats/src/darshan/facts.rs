//! Access facts of a layer, from its counters.

use std::collections::{HashMap, HashSet};

use iotide_trace::{AccessFacts, FileBytes, FileId, FileRecords, Layer, RankPart, WayFacts};

use super::call_shape::ShapeSums;
use super::file_records::RecordColumns;
use super::records::{CounterTable, Record};

/// Collects the facts of a layer, one record after the other.
pub(super) struct LayerFacts<'a> {
    layer: Layer,
    columns: FactColumns,
    n_procs: u64,
    /// Files of which ranks write together by MPI-IO.
    collective: &'a HashSet<u64>,
    reads: WaySums,
    writes: WaySums,
    records: FileRecords,
    record_columns: RecordColumns,
    /// Bytes that ranks moved of files that all of them use, as far as they are known.
    rank_parts: HashMap<i64, f64>,
    /// Bytes moved of each file, where events do not have them.
    file_bytes: HashMap<FileId, (f64, f64)>,
    shape: ShapeSums,
}

/// Where a table has the counters that facts are made of.
struct FactColumns {
    reads: WayColumns,
    writes: WayColumns,
    opens: Vec<usize>,
    /// The slowest and the fastest.
    ranks: [Option<usize>; 2],
    ranks_bytes: [Option<usize>; 2],
}

struct WayColumns {
    /// Parts of the number of calls, all of which must be there.
    calls: Vec<usize>,
    small: Vec<usize>,
    sequential: Option<usize>,
    collective: Vec<usize>,
    independent: Vec<usize>,
    nonblocking: Option<usize>,
    bytes: Option<usize>,
}

/// A counter's sum, unless a record does not have it: a counter below zero was not kept, and a sum that lacks one of its
/// parts is no sum.
#[derive(Clone, Copy)]
struct Counted(Option<u64>);

impl Counted {
    fn add(&mut self, part: Option<u64>) {
        self.0 = self.0.zip(part).map(|(sum, part)| sum.saturating_add(part));
    }
}

struct WaySums {
    calls: Counted,
    small: Counted,
    sequential: Counted,
    random: Counted,
    collective: Counted,
    independent: Counted,
    nonblocking: Counted,
}

impl<'a> LayerFacts<'a> {
    pub(super) fn new(
        layer: Layer,
        table: &CounterTable,
        n_procs: u64,
        collective: &'a HashSet<u64>,
    ) -> Self {
        let columns = FactColumns::of(layer, table);
        let (reads, writes) = (WaySums::of(&columns.reads), WaySums::of(&columns.writes));
        Self {
            layer,
            n_procs: n_procs.max(1),
            collective,
            reads,
            writes,
            columns,
            records: FileRecords::default(),
            record_columns: RecordColumns::of(layer, table),
            rank_parts: HashMap::new(),
            file_bytes: HashMap::new(),
            shape: ShapeSums::of(layer, table),
        }
    }

    pub(super) fn add(&mut self, record: Record, file: FileId) {
        let opens = sum(record, &self.columns.opens).unwrap_or(0);
        // The first call of a rank goes back from nowhere, and so does the first one after the file was opened again.
        let n_first = opens.max(if record.rank < 0 { self.n_procs } else { 1 });
        self.reads.add(record, &self.columns.reads, n_first);
        self.writes.add(record, &self.columns.writes, n_first);
        self.record_columns.records(record, file, self.n_procs).for_each(|record| self.records.push(record));
        self.shape.add(record);
    }

    /// Takes note of what the slowest and the fastest rank moved of a file whose bytes are summed over all ranks.
    pub(super) fn add_rank_parts(&mut self, record: Record) {
        if record.rank >= 0 {
            return;
        }
        let n_procs = i64::try_from(self.n_procs).unwrap_or(i64::MAX);
        let part = |i: usize| {
            let rank = record.int(self.columns.ranks[i]?).filter(|rank| (0..n_procs).contains(rank))?;
            Some((rank, record.int(self.columns.ranks_bytes[i]?).filter(|bytes| *bytes > 0)? as f64))
        };
        let [slowest, fastest] = [part(0), part(1)];
        // One rank may be both, where only one has used the file or all took as long.
        let fastest = fastest.filter(|(rank, _)| slowest.is_none_or(|(slowest, _)| slowest != *rank));
        // What ranks move together is moved by few of them on purpose, but not by one.
        let is_collective = self.collective.contains(&record.id);
        let ways = [&self.columns.reads, &self.columns.writes];
        let moved =
            ways.map(|way| way.bytes.and_then(|column| record.int(column)).unwrap_or(0).max(0) as f64);
        let all: f64 = moved.iter().sum();
        for (rank, bytes) in [slowest, fastest].into_iter().flatten() {
            if !is_collective || bytes > 0.9 * all {
                *self.rank_parts.entry(rank).or_default() += bytes;
            }
        }
    }

    /// Takes note of what was moved of a file whose bytes come as events without its name.
    pub(super) fn add_file_bytes(&mut self, record: Record, file: FileId) {
        /// More files than a person asks for.
        const MOST_FILES: usize = 1 << 18;
        let bytes =
            |way: &WayColumns| way.bytes.and_then(|column| record.int(column)).unwrap_or(0).max(0) as f64;
        let (read, written) = (bytes(&self.columns.reads), bytes(&self.columns.writes));
        let has_room = self.file_bytes.len() < MOST_FILES || self.file_bytes.contains_key(&file);
        if file != FileId::NONE && read + written > 0.0 && has_room {
            let sums = self.file_bytes.entry(file).or_default();
            *sums = (sums.0 + read, sums.1 + written);
        }
    }

    pub(super) fn finish(mut self) -> AccessFacts {
        /// Of more ranks, those that moved most.
        const MOST_TOLD: usize = 4096;
        let mut rank_parts: Vec<RankPart> = std::mem::take(&mut self.rank_parts)
            .into_iter()
            .map(|(rank, bytes)| RankPart { rank: super::events::rank_of(rank), bytes })
            .collect();
        rank_parts.sort_unstable_by(|a, b| b.bytes.total_cmp(&a.bytes).then(a.rank.cmp(&b.rank)));
        rank_parts.truncate(MOST_TOLD);
        rank_parts.sort_unstable_by_key(|part| part.rank);
        let mut file_bytes: Vec<FileBytes> = (std::mem::take(&mut self.file_bytes).into_iter())
            .map(|(file, (read, written))| FileBytes { file, read, written })
            .collect();
        file_bytes.sort_unstable_by_key(|part| part.file);
        AccessFacts {
            layer: self.layer,
            reads: self.reads.finish(),
            writes: self.writes.finish(),
            records: self.records.finish(),
            layouts: Vec::new(),
            n_targets: None,
            functions: Vec::new(),
            rank_parts,
            file_bytes,
            shape: self.shape.finish(),
        }
    }
}

/// The sum of counters; `None` if one of them was not kept.
fn sum(record: Record, columns: &[usize]) -> Option<u64> {
    columns
        .iter()
        .try_fold(0u64, |sum, column| Some(sum.saturating_add(u64::try_from(record.int(*column)?).ok()?)))
}

impl FactColumns {
    fn of(layer: Layer, table: &CounterTable) -> Self {
        let prefix = super::events::table_prefix(layer, table);
        let int = |name: &str| table.int_column(&format!("{prefix}{name}"));
        let all = |names: &[String]| -> Option<Vec<usize>> { names.iter().map(|name| int(name)).collect() };
        let way = |word: &str, size: &str, bytes: &str| {
            let named = |before: &str| format!("{before}{word}");
            let aggregated = if layer == Layer::MpiIo { "AGG_" } else { "" };
            let small = ["0_100", "100_1K", "1K_10K", "10K_100K", "100K_1M"]
                .map(|range| format!("{size}{aggregated}{range}"));
            let collective = all(&[named("COLL_"), named("SPLIT_")]);
            let independent = all(&[named("INDEP_"), named("NB_")]);
            let of_mpi = || Some([collective.clone()?, independent.clone()?].concat());
            WayColumns {
                calls: all(&[named("")])
                    .or_else(|| all(&[named("POSIX_")]))
                    .or_else(of_mpi)
                    .unwrap_or_default(),
                small: all(&small).unwrap_or_default(),
                sequential: int(&named("SEQ_")),
                collective: collective.clone().unwrap_or_default(),
                independent: independent.clone().unwrap_or_default(),
                nonblocking: int(&named("NB_")),
                bytes: int(bytes),
            }
        };
        let opens = ["OPENS", "FOPENS", "POSIX_OPENS", "POSIX_FOPENS"];
        Self {
            reads: way("READS", "SIZE_READ_", "BYTES_READ"),
            writes: way("WRITES", "SIZE_WRITE_", "BYTES_WRITTEN"),
            opens: opens.iter().filter_map(|name| int(name)).collect(),
            ranks: [int("SLOWEST_RANK"), int("FASTEST_RANK")],
            ranks_bytes: [int("SLOWEST_RANK_BYTES"), int("FASTEST_RANK_BYTES")],
        }
    }
}

impl WaySums {
    fn of(columns: &WayColumns) -> Self {
        let counted = |is_there: bool| Counted(is_there.then_some(0));
        Self {
            calls: counted(!columns.calls.is_empty()),
            small: counted(!columns.small.is_empty()),
            sequential: counted(columns.sequential.is_some()),
            random: counted(columns.sequential.is_some() && !columns.calls.is_empty()),
            collective: counted(!columns.collective.is_empty()),
            independent: counted(!columns.independent.is_empty()),
            nonblocking: counted(columns.nonblocking.is_some()),
        }
    }

    fn add(&mut self, record: Record, columns: &WayColumns, n_first: u64) {
        let of = |columns: &[usize]| if columns.is_empty() { None } else { sum(record, columns) };
        let one = |column: Option<usize>| u64::try_from(record.int(column?)?).ok();
        let calls = of(&columns.calls);
        let small = of(&columns.small);
        let sequential = one(columns.sequential);
        let random = calls
            .zip(sequential)
            .map(|(calls, sequential)| calls.saturating_sub(sequential).saturating_sub(n_first));
        let (collective, independent) = (of(&columns.collective), of(&columns.independent));
        let nonblocking = one(columns.nonblocking);
        self.calls.add(calls);
        self.small.add(small);
        self.sequential.add(sequential);
        self.random.add(random);
        self.collective.add(collective);
        self.independent.add(independent);
        self.nonblocking.add(nonblocking);
    }

    fn finish(self) -> WayFacts {
        WayFacts {
            calls: self.calls.0.unwrap_or(0),
            small: self.small.0,
            sequential: self.sequential.0,
            random: self.random.0,
            collective: self.collective.0,
            independent: self.independent.0,
            nonblocking: self.nonblocking.0,
        }
    }
}
