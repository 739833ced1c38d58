//! Darshan logs as tables.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

use iotide_api::darshan_log_without_dxt_sums;
use iotide_cli::{Fault, FaultKind};
use iotide_formats::darshan::{DxtSegment, HeatmapRecord, Log, Module, ModuleData, Value};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;

use crate::columns::{Growing, Kind, Words};
use crate::table::{Field, RowSink, Table};
use crate::{exception, waiting, with_program};

/// A Darshan log that was opened: its tables are read when they are asked for.
#[pyclass(frozen, module = "iotide._iotide")]
pub(crate) struct Darshan {
    log: Arc<Log>,
    names: OnceLock<Arc<Paths>>,
}

/// The names of records, each with its place.
struct Paths {
    words: Arc<Words>,
    place: HashMap<u64, usize>,
}

impl Darshan {
    fn paths(&self) -> Arc<Paths> {
        let paths = || {
            let all: Vec<(u64, &str)> = self.log.names.iter().collect();
            let words = Arc::new(Words::of(all.iter().map(|(_, name)| *name)));
            Arc::new(Paths { words, place: all.iter().enumerate().map(|(at, (id, _))| (*id, at)).collect() })
        };
        Arc::clone(self.names.get_or_init(paths))
    }

    fn module_names(&self) -> Arc<Words> {
        Arc::new(Words::of(self.log.modules.iter().map(|module| &*module.name)))
    }
}

/// A text that few rows differ in, found again by its value.
fn lookup(words: impl IntoIterator<Item = String>) -> (Arc<Words>, HashMap<String, usize>) {
    let mut texts: Vec<String> = Vec::new();
    let mut place = HashMap::new();
    for text in words {
        if !place.contains_key(&text) {
            place.insert(text.clone(), texts.len());
            texts.push(text);
        }
    }
    (Arc::new(Words::of(texts.iter().map(String::as_str))), place)
}

fn name_of(column: &mut Growing, paths: &Paths, id: u64) {
    match paths.place.get(&id) {
        Some(&at) => column.word(at),
        None => column.null(),
    }
}

/// A fill that ends early if nobody takes any more: that is no fault.
fn done(_: ControlFlow<()>) -> Result<(), Fault> {
    Ok(())
}

/// Hands over each counter of a module: rank, record, name and value.
fn for_each_counter(
    module: &Module,
    mut take: impl FnMut(i64, u64, &str, Value) -> ControlFlow<()>,
) -> ControlFlow<()> {
    if let Some(table) = module.counters() {
        return table.for_each(|record| {
            record.counters().try_for_each(|(name, value)| take(record.rank, record.id, name, value))
        });
    }
    let ModuleData::Lustre(records) = &module.data else { return ControlFlow::Continue(()) };
    records.for_each(|record| {
        for (part, component) in record.components.iter().enumerate() {
            for (name, value) in &component.counters {
                // Where a file's layout has one part only, counters have their own names.
                match record.components.len() {
                    1 => take(record.rank, record.id, name, Value::Int(*value))?,
                    _ => take(record.rank, record.id, &format!("{name}[{part}]"), Value::Int(*value))?,
                }
            }
        }
        record.osts.iter().enumerate().try_for_each(|(i, ost)| {
            take(record.rank, record.id, &format!("LUSTRE_OST_ID_{i}"), Value::Int(*ost))
        })
    })
}

/// The names of all counters.
fn counters_of(log: &Log) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for module in &log.modules {
        match module.counters() {
            Some(table) => names.extend(table.totals().into_iter().map(|(name, _)| name.to_owned())),
            None => {
                let _ = for_each_counter(module, |_, _, name, _| {
                    if !names.contains(name) {
                        names.insert(name.to_owned());
                    }
                    ControlFlow::Continue(())
                });
            }
        }
    }
    names
}

/// Hands over each record of the heat map with its layer.
fn for_each_heat(
    log: &Log,
    mut take: impl FnMut(String, &HeatmapRecord) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let Some(ModuleData::Heatmap(records)) = log.module("HEATMAP").map(|module| &module.data) else {
        return ControlFlow::Continue(());
    };
    records.for_each(|record| {
        let layer = record.layer(&log.names).map_or_else(|| format!("{:#018x}", record.id), str::to_string);
        take(layer, record)
    })
}

/// A segment as a row of [`Darshan::dxt`].
fn segment_row(
    rows: &mut RowSink<'_>,
    (module, rank, id): (usize, i64, u64),
    (host, file): (usize, usize),
    nth: i64,
    segment: &DxtSegment,
) -> ControlFlow<()> {
    let columns = &mut rows.columns;
    columns[0].word(module);
    columns[1].int(rank);
    columns[2].word(usize::from(segment.is_write));
    columns[3].int(nth);
    match segment.offset {
        Some(offset) => columns[4].int(offset),
        None => columns[4].null(),
    }
    columns[5].int(segment.length);
    columns[6].float(segment.start_s);
    columns[7].float(segment.end_s);
    columns[8].word(host);
    columns[9].unsigned(id);
    columns[10].word(file);
    rows.end_row()
}

#[pymethods]
impl Darshan {
    /// Opens a log, whose path and reading options are arguments of the command line.
    #[new]
    #[pyo3(signature = (args, progress=None))]
    fn new(py: Python<'_>, args: Vec<OsString>, progress: Option<Py<PyAny>>) -> PyResult<Self> {
        let opened = waiting(py, progress, move |asker| {
            let (inputs, options) = iotide_cli::inputs(with_program(args), &asker)?;
            let [input] = inputs.as_slice() else {
                let message = "a Darshan log is one file".to_owned();
                return Err(Fault { kind: FaultKind::Usage, message, hint: None });
            };
            darshan_log_without_dxt_sums(input, &options).map_err(Fault::from)
        })?;
        let log = Arc::new(opened.map_err(|fault| exception(py, &fault))?);
        Ok(Self { log, names: OnceLock::new() })
    }

    /// The names of its modules.
    #[getter]
    fn modules(&self) -> Vec<String> {
        self.log.modules.iter().map(|module| module.name.to_string()).collect()
    }

    /// The job's metadata, as Darshan keeps it.
    #[getter]
    fn metadata(&self) -> Vec<(String, String)> {
        self.log.job.as_ref().map(|job| job.metadata.clone()).unwrap_or_default()
    }

    /// Record ids and their names.
    fn names(&self) -> Table {
        let paths = self.paths();
        let fields = vec![Field::new("id", Kind::Unsigned), Field::words("name", &paths.words)];
        let log = Arc::clone(&self.log);
        Table::new(fields, Some(self.log.names.len() as u64), move |rows| {
            done(log.names.iter().enumerate().try_for_each(|(at, (id, _))| {
                rows.columns[0].unsigned(id);
                rows.columns[1].word(at);
                rows.end_row()
            }))
        })
    }

    /// Every counter of every record, one a row.
    fn counters(&self, py: Python<'_>) -> PyResult<Table> {
        let (paths, modules) = (self.paths(), self.module_names());
        let log = Arc::clone(&self.log);
        let (words, place) = lookup(waiting(py, None, move |_| counters_of(&log))?);
        let log = Arc::clone(&self.log);
        let fields = vec![
            Field::words("module", &modules),
            Field::new("rank", Kind::Int),
            Field::new("id", Kind::Unsigned),
            Field::words("file", &paths.words),
            Field::words("counter", &words),
            Field::new("value", Kind::Float),
        ];
        Ok(Table::new(fields, None, move |rows| {
            done(log.modules.iter().enumerate().try_for_each(|(nth, module)| {
                for_each_counter(module, |rank, id, name, value| {
                    rows.columns[0].word(nth);
                    rows.columns[1].int(rank);
                    rows.columns[2].unsigned(id);
                    name_of(&mut rows.columns[3], &paths, id);
                    rows.columns[4].word(place.get(name).copied().unwrap_or(usize::MAX));
                    rows.columns[5].float(value.as_f64());
                    rows.end_row()
                })
            }))
        }))
    }

    /// The records of a module, a column for each counter.
    fn records(&self, module: &str) -> PyResult<Table> {
        let unknown = || PyKeyError::new_err(format!("{module}: no such module with counters in this log"));
        let at = self.log.modules.iter().position(|known| known.name == module).ok_or_else(unknown)?;
        let table = self.log.modules[at].counters().ok_or_else(unknown)?;
        let paths = self.paths();
        let mut fields = vec![
            Field::new("rank", Kind::Int),
            Field::new("id", Kind::Unsigned),
            Field::words("file", &paths.words),
        ];
        fields.extend(table.totals().into_iter().map(|(name, total)| match total {
            Value::Int(_) => Field::new(name, Kind::Int),
            Value::Float(_) => Field::new(name, Kind::Float),
        }));
        let n_rows = table.len() as u64;
        let log = Arc::clone(&self.log);
        Ok(Table::new(fields, Some(n_rows), move |rows| {
            let Some(table) = log.modules[at].counters() else { return Ok(()) };
            done(table.for_each(|record| {
                let [rank, id, file, counters @ ..] = rows.columns.as_mut_slice() else {
                    return ControlFlow::Break(());
                };
                rank.int(record.rank);
                id.unsigned(record.id);
                name_of(file, &paths, record.id);
                for (column, (_, value)) in counters.iter_mut().zip(record.counters()) {
                    match value {
                        Value::Int(value) => column.int(value),
                        Value::Float(value) => column.float(value),
                    }
                }
                rows.end_row()
            }))
        }))
    }

    /// Every DXT segment of every module, or of one.
    #[pyo3(signature = (module=None))]
    fn dxt(&self, module: Option<String>) -> Table {
        let (paths, modules) = (self.paths(), self.module_names());
        let log = Arc::clone(&self.log);
        let is_wanted = move |name: &str| match &module {
            Some(module) => name == module,
            None => true,
        };
        let ops = Arc::new(Words::of(["read", "write"]));
        let fields = vec![
            Field::words("module", &modules),
            Field::new("rank", Kind::Int),
            Field::words("op", &ops),
            Field::new("segment", Kind::Int),
            Field::new("offset", Kind::Int),
            Field::new("length", Kind::Int),
            Field::new("start", Kind::Float),
            Field::new("end", Kind::Float),
            // Names of nodes stand in the records, which are among the segments.
            Field::new("host", Kind::Words),
            Field::new("id", Kind::Unsigned),
            Field::words("file", &paths.words),
        ];
        Table::new(fields, None, move |rows| {
            let mut hosts = HashMap::<String, usize>::new();
            for (nth, module) in log.modules.iter().enumerate().filter(|(_, module)| is_wanted(&module.name))
            {
                let mut n_seen = [0, 0];
                let (mut host, mut file) = (usize::MAX, usize::MAX);
                let mut flow = ControlFlow::Continue(());
                log.for_each_dxt_segment(module, |record, segment| {
                    let Some(segment) = segment else {
                        n_seen = [0, 0];
                        let fresh = || rows.columns[8].new_word(&record.host);
                        host = *hosts.entry(record.host.clone()).or_insert_with(fresh);
                        file = paths.place.get(&record.id).copied().unwrap_or(usize::MAX);
                        return ControlFlow::Continue(());
                    };
                    let seen = &mut n_seen[usize::from(segment.is_write)];
                    flow = segment_row(rows, (nth, record.rank, record.id), (host, file), *seen, &segment);
                    *seen += 1;
                    flow
                });
                if flow.is_break() {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Bytes over time: each bin of each rank.
    fn heatmap(&self) -> Table {
        let log = Arc::clone(&self.log);
        let (words, place) = lookup(log.heatmap_totals().into_iter().map(|totals| totals.layer));
        let fields = vec![
            Field::words("module", &words),
            Field::new("rank", Kind::Int),
            Field::new("bin", Kind::Int),
            Field::new("start", Kind::Float),
            Field::new("end", Kind::Float),
            Field::new("read", Kind::Int),
            Field::new("write", Kind::Int),
        ];
        Table::new(fields, None, move |rows| {
            done(for_each_heat(&log, |layer, record| {
                let code = place.get(&layer).copied().unwrap_or(usize::MAX);
                (0..record.read.len().max(record.write.len())).try_for_each(|bin| {
                    rows.columns[0].word(code);
                    rows.columns[1].int(record.rank);
                    rows.columns[2].int(bin as i64);
                    rows.columns[3].float(bin as f64 * record.bin_width_s);
                    rows.columns[4].float((bin + 1) as f64 * record.bin_width_s);
                    rows.columns[5].int(record.read.get(bin).copied().unwrap_or(0));
                    rows.columns[6].int(record.write.get(bin).copied().unwrap_or(0));
                    rows.end_row()
                })
            }))
        })
    }
}
