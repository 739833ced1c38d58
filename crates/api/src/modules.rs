//! Counts of each module of a Darshan log.

use std::collections::HashMap;
use std::ops::ControlFlow;

use iotide_formats::darshan::{CounterTable, Log, Record};
use iotide_report::{CommonSize, FilesByUse, LogModules, ModuleCalls, ModuleCounts, ModuleFacts, UsedFiles};

/// Names of the kinds of calls in words, by the ending of their counter.
const KINDS: [(&str, &str); 29] = [
    ("OPENS", "opens"),
    ("FOPENS", "fopens"),
    ("READS", "reads"),
    ("WRITES", "writes"),
    ("FREADS", "freads"),
    ("FWRITES", "fwrites"),
    ("SEEKS", "seeks"),
    ("FSEEKS", "fseeks"),
    ("STATS", "stats"),
    ("MMAPS", "mmaps"),
    ("FSYNCS", "fsyncs"),
    ("FDSYNCS", "fdatasyncs"),
    ("FLUSHES", "flushes"),
    ("INDEP_OPENS", "independent opens"),
    ("COLL_OPENS", "collective opens"),
    ("INDEP_READS", "independent reads"),
    ("INDEP_WRITES", "independent writes"),
    ("COLL_READS", "collective reads"),
    ("COLL_WRITES", "collective writes"),
    ("SPLIT_READS", "split reads"),
    ("SPLIT_WRITES", "split writes"),
    ("NB_READS", "nonblocking reads"),
    ("NB_WRITES", "nonblocking writes"),
    ("SYNCS", "syncs"),
    ("CREATES", "creates"),
    ("REDEFS", "redefinitions"),
    ("INDEP_WAITS", "independent waits"),
    ("COLL_WAITS", "collective waits"),
    ("REMOVES", "removals"),
];

/// As many as Darshan names itself for a file.
const MOST_COMMON: usize = 4;

/// More sizes than are common in any run; a size that comes later is counted nowhere.
const MOST_SIZES: usize = 1 << 16;

pub(crate) fn modules(log: &Log) -> LogModules {
    let facts = log.modules.iter().map(|module| {
        let region = log.regions.iter().find(|region| region.name == module.name);
        ModuleFacts {
            name: module.name.to_string(),
            version: module.version,
            partial: module.partial,
            packed_bytes: region.map(|region| region.length),
            counted: module.counters().map(|table| counted(&module.name, table)),
        }
    });
    LogModules {
        version: log.version.as_str().into(),
        library_version: log.library_version().map(Into::into),
        modules: facts.collect(),
    }
}

/// Where the counters that are told stand in a table.
struct Columns {
    bytes: [Option<usize>; 2],
    extents: Vec<usize>,
    times: Option<[usize; 3]>,
    calls: Vec<(&'static str, usize)>,
    sizes: Option<[[usize; 10]; 2]>,
    common: Vec<(usize, usize)>,
}

impl Columns {
    fn of(module: &str, table: &CounterTable) -> Self {
        // MPI-IO is the one module whose counters spell its name in another way.
        let prefix = module.replace("MPI-IO", "MPIIO");
        let int = |name: &str| table.int_column(&format!("{prefix}_{name}"));
        let float = |name: &str| table.float_column(&format!("{prefix}_F_{name}"));
        let all =
            |found: [Option<usize>; 3]| -> Option<[usize; 3]> { Some([found[0]?, found[1]?, found[2]?]) };
        let ranges = [
            "0_100", "100_1K", "1K_10K", "10K_100K", "100K_1M", "1M_4M", "4M_10M", "10M_100M", "100M_1G",
            "1G_PLUS",
        ];
        let sizes = |way: &str| -> Option<[usize; 10]> {
            let of = |infix: &str| {
                let found = ranges.map(|range| int(&format!("SIZE_{way}_{infix}{range}")));
                found.iter().all(Option::is_some).then(|| found.map(Option::unwrap_or_default))
            };
            of("").or_else(|| of("AGG_"))
        };
        let numbered = |i: u32, ending: &str| int(&format!("ACCESS{i}_{ending}"));
        Self {
            bytes: [int("BYTES_READ"), int("BYTES_WRITTEN")],
            extents: ["MAX_BYTE_READ", "MAX_BYTE_WRITTEN"].iter().filter_map(|name| int(name)).collect(),
            times: all([float("READ_TIME"), float("WRITE_TIME"), float("META_TIME")]),
            calls: KINDS.iter().filter_map(|&(ending, kind)| Some((kind, int(ending)?))).collect(),
            sizes: sizes("READ").zip(sizes("WRITE")).map(|(reads, writes)| [reads, writes]),
            common: (1..=4).filter_map(|i| Some((numbered(i, "ACCESS")?, numbered(i, "COUNT")?))).collect(),
        }
    }
}

fn counted(module: &str, table: &CounterTable) -> ModuleCounts {
    let columns = Columns::of(module, table);
    let mut sums = ModuleCounts {
        calls: columns.calls.iter().map(|&(kind, _)| ModuleCalls { kind, calls: 0 }).collect(),
        sizes: columns.sizes.map(|_| Default::default()),
        times_s: columns.times.map(|_| Default::default()),
        bytes_read: columns.bytes[0].map(|_| 0.0),
        bytes_written: columns.bytes[1].map(|_| 0.0),
        ..ModuleCounts::default()
    };
    let mut files: HashMap<u64, FileUse> = HashMap::new();
    let mut common: HashMap<u64, u64> = HashMap::new();
    let _ = table.for_each(|record| {
        add(&mut sums, &columns, record);
        files.entry(record.id).or_default().add(&columns, record);
        let count = |column: usize| record.int(column).and_then(|n| u64::try_from(n).ok());
        for &(size, calls) in &columns.common {
            if let (Some(size), Some(calls @ 1..)) = (count(size), count(calls))
                && (common.len() < MOST_SIZES || common.contains_key(&size))
            {
                let known = common.entry(size).or_default();
                *known = known.saturating_add(calls);
            }
        }
        ControlFlow::<()>::Continue(())
    });
    sums.calls.retain(|kind| kind.calls > 0);
    let notes_extents = !columns.extents.is_empty();
    let all = used(files.values(), notes_extents);
    sums.files = all.files;
    sums.mean_extent_bytes = all.mean_extent_bytes;
    sums.largest_extent_bytes = all.largest_extent_bytes;
    sums.files_by_use = columns.bytes.iter().all(Option::is_some).then(|| {
        let alike = |read: bool, written: bool| {
            used(files.values().filter(|file| (file.read, file.written) == (read, written)), notes_extents)
        };
        FilesByUse {
            read_only: alike(true, false),
            write_only: alike(false, true),
            read_write: alike(true, true),
            untouched: alike(false, false),
        }
    });
    sums.common_sizes = common.into_iter().map(|(bytes, calls)| CommonSize { bytes, calls }).collect();
    sums.common_sizes.sort_unstable_by_key(|size| (std::cmp::Reverse(size.calls), size.bytes));
    sums.common_sizes.truncate(MOST_COMMON);
    sums
}

/// Use of one file by all ranks.
#[derive(Default)]
struct FileUse {
    read: bool,
    written: bool,
    extent_bytes: f64,
}

impl FileUse {
    fn add(&mut self, columns: &Columns, record: Record<'_>) {
        let count = |column: usize| record.int(column).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
        let [read, written] = columns.bytes.map(|column| column.is_some_and(|column| count(column) > 0));
        self.read |= read;
        self.written |= written;
        let highest = columns.extents.iter().map(|&column| count(column)).max().unwrap_or(0);
        // The offset is that of the last byte, and zero of a file of one byte as of one that was only opened.
        if highest > 0 || read || written {
            self.extent_bytes = self.extent_bytes.max(highest as f64 + 1.0);
        }
    }
}

fn used<'a>(files: impl Iterator<Item = &'a FileUse>, notes_extents: bool) -> UsedFiles {
    let (mut n, mut sum_bytes, mut largest_bytes) = (0u64, 0.0, 0f64);
    for file in files {
        n += 1;
        sum_bytes += file.extent_bytes;
        largest_bytes = largest_bytes.max(file.extent_bytes);
    }
    let noted = notes_extents && n > 0;
    UsedFiles {
        files: n,
        mean_extent_bytes: noted.then(|| sum_bytes / n as f64),
        largest_extent_bytes: noted.then_some(largest_bytes),
    }
}

fn add(sums: &mut ModuleCounts, columns: &Columns, record: Record<'_>) {
    let count = |column: usize| record.int(column).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
    for (sum, column) in [&mut sums.bytes_read, &mut sums.bytes_written].into_iter().zip(columns.bytes) {
        if let (Some(sum), Some(column)) = (sum, column) {
            *sum += count(column) as f64;
        }
    }
    for (sum, &(_, column)) in sums.calls.iter_mut().zip(&columns.calls) {
        sum.calls = sum.calls.saturating_add(count(column));
    }
    if let (Some(sums), Some(columns)) = (&mut sums.sizes, columns.sizes) {
        for (sum, column) in sums.iter_mut().flatten().zip(columns.into_iter().flatten()) {
            *sum = sum.saturating_add(count(column));
        }
    }
    if let (Some(sums), Some(columns)) = (&mut sums.times_s, columns.times) {
        for (sum, column) in sums.iter_mut().zip(columns) {
            *sum += record.float(column).filter(|s| *s > 0.0 && s.is_finite()).unwrap_or(0.0);
        }
    }
}
