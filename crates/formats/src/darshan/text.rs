//! Output of `darshan-parser` and `darshan-dxt-parser`, for logs that were handed on as text.
//!
//! Times of DXT segments are rounded to 0.1 ms there, and a log older than its parser has −1 for counters it does not
//! know. Both are kept as printed.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use iotide_trace::Loss;

use super::dxt::{DxtRecord, DxtSegment, DxtTotals};
use super::heatmap::HeatmapRecord;
use super::job::{Job, Mount, Names};
use super::records::{CounterTable, LustreComponent, LustreRecord};
use super::source::Source;
use super::{Dxt, Log, Module, ModuleData, Segments};
use crate::Place;
use crate::error::Fault;
use crate::losses::{Losses, Nonsense};

/// How both texts begin.
const FIRST_LINE: &[u8] = b"# darshan log version:";

/// Whether this begins like either text.
pub(super) fn is_text(head: &[u8]) -> bool {
    head.trim_ascii_start().starts_with(FIRST_LINE)
}

/// Whether a text is that of `darshan-dxt-parser`.
pub(super) fn is_dxt_text(head: &[u8]) -> bool {
    memchr::memmem::find(head, b"\n# DXT, ").is_some()
        || memchr::memmem::find(head, b"\n# DXT_POSIX module data").is_some()
        || memchr::memmem::find(head, b"\n# DXT_MPIIO module data").is_some()
}

/// Reads either text.
pub(super) fn parse(bytes: &[u8]) -> Result<Log, Fault> {
    let mut text = Text::default();
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches('\r');
        let place = Place::Line(index as u64 + 1);
        if let Some(comment) = line.strip_prefix('#') {
            text.comment(comment.trim_start_matches(' '));
        } else if line.contains('\t') {
            text.counter(line, place);
        } else if !line.trim().is_empty() {
            text.segment(line, place);
        }
    }
    text.finish()
}

#[derive(Default)]
struct Text {
    version: Option<String>,
    job: Job,
    run_time_s: Option<f64>,
    names: Names,
    modules: Vec<TextModule>,
    /// The record the last lines were about.
    open: Option<OpenRecord>,
    /// The DXT record the next segments belong to, and whether a segment has come.
    dxt: DxtRecord,
    dxt_has_begun: bool,
    losses: Losses,
}

#[derive(Default)]
struct TextModule {
    name: String,
    version: u32,
    partial: bool,
    counters: Option<CounterTable>,
    lustre: Vec<LustreRecord>,
    heatmap: Vec<HeatmapRecord>,
    dxt: Vec<(DxtRecord, Vec<DxtSegment>)>,
}

/// Lines of one record follow each other.
struct OpenRecord {
    module: usize,
    id: u64,
    rank: i64,
    place: Place,
    counters: Vec<(String, String)>,
}

impl Text {
    fn comment(&mut self, comment: &str) {
        let comment = comment.trim_end();
        if let Some(dxt) = comment.strip_prefix("DXT, ") {
            return self.dxt_comment(dxt);
        }
        if let Some(rest) = comment.strip_prefix("*WARNING*: The ") {
            if let Some((module, _)) = rest.split_once(" module contains incomplete data") {
                let module = self.module(module);
                self.modules[module].partial = true;
            }
            return;
        }
        let Some((key, value)) = comment.split_once(':') else { return };
        let value = value.trim_start_matches(' ');
        let number = || value.trim().parse::<i64>().unwrap_or(0);
        match key {
            "darshan log version" => self.version = Some(value.trim().to_string()),
            "exe" => self.job.exe = value.to_string(),
            "uid" => self.job.uid = number(),
            "jobid" => self.job.job_id = number(),
            "start_time" => self.job.start_s = number(),
            "end_time" => self.job.end_s = number(),
            "nprocs" => self.job.n_procs = number(),
            "run time" => {
                self.run_time_s = value.trim().parse().ok().filter(|run_time: &f64| run_time.is_finite())
            }
            "metadata" => {
                if let Some((key, value)) = value.split_once(" = ") {
                    self.job.metadata.push((key.to_string(), value.to_string()));
                }
            }
            "mount entry" => {
                // Darshan 2 prints the device first; either way the last two are path and kind.
                let fields: Vec<_> = value.trim_start_matches('\t').split('\t').collect();
                if let [.., path, kind] = fields[..] {
                    self.job.mounts.push(Mount { kind: kind.to_string(), path: path.to_string() });
                }
            }
            _ => {
                if let (Some(module), Some((_, version))) =
                    (key.strip_suffix(" module"), value.split_once("ver="))
                {
                    let module = self.module(module);
                    self.modules[module].version = version.trim().parse().unwrap_or(0);
                }
            }
        }
    }

    fn dxt_comment(&mut self, comment: &str) {
        if let Some(rest) = comment.strip_prefix("file_id: ") {
            self.dxt = DxtRecord::default();
            self.dxt_has_begun = false;
            let (id, name) = rest.split_once(", file_name: ").unwrap_or((rest, ""));
            if let Ok(id) = id.trim().parse() {
                self.dxt.id = id;
                self.names.insert(id, name);
            }
        } else if let Some(rest) = comment.strip_prefix("rank: ") {
            let (rank, host) = rest.split_once(", hostname: ").unwrap_or((rest, ""));
            self.dxt.rank = rank.trim().parse().unwrap_or(-1);
            self.dxt.host = host.trim().to_string();
        } else if let Some(rest) = comment.strip_prefix("write_count: ") {
            let (writes, reads) = rest.split_once(", read_count: ").unwrap_or((rest, "0"));
            self.dxt.n_writes = writes.trim().parse().unwrap_or(0);
            self.dxt.n_reads = reads.trim().parse().unwrap_or(0);
        }
    }

    /// A line of columns: module (not in Darshan 2), rank, record, counter, value, name, mount point, kind.
    fn counter(&mut self, line: &str, place: Place) {
        let mut fields: Vec<&str> = line.split('\t').collect();
        if fields.first().is_some_and(|first| first.parse::<i64>().is_ok()) {
            fields.insert(0, "CP");
        }
        let parsed = match fields[..] {
            [module, rank, id, counter, value, ref rest @ ..] => (|| {
                Some((
                    module,
                    rank.trim().parse::<i64>().ok()?,
                    id.trim().parse::<u64>().ok()?,
                    counter,
                    value,
                    rest,
                ))
            })(),
            _ => None,
        };
        let Some((module, rank, id, counter, value, rest)) = parsed else {
            return self.losses.record(place, Nonsense::new("columns", "this is no line of a counter"));
        };
        let module = self.module(module);
        let belongs = self.open.as_ref().is_some_and(|open| {
            (open.module, open.rank, open.id) == (module, rank, id)
                && open.counters.first().is_none_or(|(first, _)| first != counter)
        });
        if !belongs {
            self.close_record();
            self.names.insert(id, rest.first().copied().unwrap_or_default());
        }
        let open =
            self.open.get_or_insert_with(|| OpenRecord { module, id, rank, place, counters: Vec::new() });
        open.counters.push((counter.to_string(), value.trim().to_string()));
    }

    fn close_record(&mut self) {
        let Some(open) = self.open.take() else { return };
        let module = &mut self.modules[open.module];
        let place = open.place;
        let complete = match module.name.as_str() {
            "HEATMAP" => open.heatmap().map(|record| module.heatmap.push(record)),
            "LUSTRE" => open.lustre().map(|record| module.lustre.push(record)),
            _ => open.push_counters(module.counters.get_or_insert_with(|| open.columns())),
        };
        if complete.is_none() {
            let what = "this record does not have the counters that its module's others have";
            self.losses.record(place, Nonsense::new("record", what));
        }
    }

    /// A line " X_POSIX 0 write 3 offset length start end [ost] thread".
    fn segment(&mut self, line: &str, place: Place) {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let module = match fields.first() {
            Some(&"X_POSIX") => "DXT_POSIX",
            Some(&"X_MPIIO") => "DXT_MPIIO",
            // Sums and other tables that the parsers print on demand.
            _ => return,
        };
        let parsed = (|| {
            let [_, rank, op, _, offset, length, start, end, ref rest @ ..] = fields[..] else { return None };
            let is_write = match op {
                "write" => true,
                "read" => false,
                _ => return None,
            };
            let segment = DxtSegment {
                is_write,
                offset: offset.parse().ok().filter(|offset| *offset >= 0),
                length: length.parse().ok()?,
                start_s: start.parse().ok()?,
                end_s: end.parse().ok()?,
                thread: rest.last().and_then(|thread| thread.parse().ok()),
            };
            Some((rank.parse::<i64>().ok()?, segment))
        })();
        let Some((rank, segment)) = parsed else {
            return self.losses.record(place, Nonsense::new("segment", "this is no line of a DXT segment"));
        };
        self.dxt.rank = rank;
        let module = self.module(module);
        let records = &mut self.modules[module].dxt;
        if !self.dxt_has_begun || records.is_empty() {
            self.dxt_has_begun = true;
            records.push((self.dxt.clone(), Vec::new()));
        }
        if let Some((_, segments)) = records.last_mut() {
            segments.push(segment);
        }
    }

    fn module(&mut self, name: &str) -> usize {
        let known = self.modules.iter().position(|module| module.name == name);
        known.unwrap_or_else(|| {
            self.modules.push(TextModule { name: name.to_string(), ..TextModule::default() });
            self.modules.len() - 1
        })
    }

    fn finish(mut self) -> Result<Log, Fault> {
        self.close_record();
        let version = self
            .version
            .ok_or_else(|| Fault::at(Place::Line(1), "the line with the log version is missing"))?;
        let mut job = self.job;
        let minor = version.split_once('.').and_then(|(_, minor)| minor.parse::<u32>().ok()).unwrap_or(0);
        job.whole_seconds = !version.starts_with("3.") || minor < 41;
        if let Some(run_time_s) = self.run_time_s.filter(|_| !job.whole_seconds && job.end_s != 0) {
            // The parser prints whole seconds and, apart, how long it took; what is missing is put into the fraction.
            let whole_s = job.end_s.saturating_sub(job.start_s) as f64;
            job.end_ns = ((run_time_s - whole_s) * 1e9).round() as i64;
        }
        let mut losses = Vec::new();
        let mut modules = Vec::new();
        for module in self.modules {
            if module.partial {
                losses.push(Loss::of_unknown_size(format!(
                    "{}: the module ran out of memory while the job ran, so records are missing",
                    module.name
                )));
            }
            losses.extend(missing_segments(&module));
            if let Some(module) = module.finish() {
                modules.push(module);
            }
        }
        let mut collected = iotide_trace::Trace::default();
        self.losses.report(&mut collected);
        losses.extend(collected.losses);
        Ok(Log {
            version,
            endian: None,
            compression: None,
            job: Some(job),
            names: self.names,
            modules,
            regions: Vec::new(),
            losses,
            source: Source::Memory(Arc::default()),
        })
    }
}

/// Segments that a record announced and that did not come.
fn missing_segments(module: &TextModule) -> Option<Loss> {
    let announced: u64 = module
        .dxt
        .iter()
        .map(|(record, _)| record.n_writes.saturating_add(record.n_reads))
        .fold(0, u64::saturating_add);
    let came: u64 = module.dxt.iter().map(|(_, segments)| segments.len() as u64).sum();
    let missing = announced.checked_sub(came).filter(|missing| *missing > 0)?;
    Some(Loss::of_records(
        missing,
        format!("{}: {came} of {announced} segments are in the text", module.name),
    ))
}

impl TextModule {
    /// `None` if nothing was said of the module but that it exists.
    fn finish(self) -> Option<Module> {
        let data = if let Some(counters) = self.counters {
            ModuleData::Counters(counters)
        } else if !self.lustre.is_empty() {
            ModuleData::Lustre(self.lustre.into())
        } else if !self.heatmap.is_empty() {
            ModuleData::Heatmap(self.heatmap.into())
        } else if !self.dxt.is_empty() {
            let mut totals = DxtTotals { records: self.dxt.len() as u64, ..DxtTotals::default() };
            self.dxt.iter().flat_map(|(_, segments)| segments).for_each(|segment| totals.add(segment));
            ModuleData::Dxt(Dxt { totals, segments: Segments::Kept(self.dxt) })
        } else {
            return None;
        };
        Some(Module { name: self.name.into(), version: self.version, partial: self.partial, data })
    }
}

impl OpenRecord {
    /// The columns of a table, told by its first record. Text values (a pool, a node) have no column.
    fn columns(&self) -> CounterTable {
        let of_kind = |wanted: fn(&str) -> bool| {
            let names = self.counters.iter().filter(move |(_, value)| wanted(value));
            names.map(|(name, _)| Cow::<'static, str>::Owned(name.clone())).collect::<Vec<_>>()
        };
        CounterTable::new(of_kind(|value| int(value).is_some()), of_kind(is_float))
    }

    fn push_counters(&self, table: &mut CounterTable) -> Option<()> {
        let (mut ints, mut floats) = (Vec::new(), Vec::new());
        for (name, value) in &self.counters {
            // A column is looked for where it is expected, which is where it is unless the text was touched.
            if let Some(value) = int(value) {
                (table.int_name(ints.len()) == Some(name)).then_some(())?;
                ints.push(value);
            } else if is_float(value) {
                (table.float_name(floats.len()) == Some(name)).then_some(())?;
                floats.push(value.parse().ok()?);
            }
        }
        let complete = table.int_name(ints.len()).is_none() && table.float_name(floats.len()).is_none();
        complete.then(|| table.push(self.id, self.rank, &ints, &floats))
    }

    fn heatmap(&self) -> Option<HeatmapRecord> {
        let (mut width, mut read, mut write) = (None, Vec::new(), Vec::new());
        for (name, value) in &self.counters {
            if name == "HEATMAP_F_BIN_WIDTH_SECONDS" {
                width = value.parse().ok();
            } else if name.starts_with("HEATMAP_READ_BIN_") {
                read.push(int(value)?);
            } else if name.starts_with("HEATMAP_WRITE_BIN_") {
                write.push(int(value)?);
            }
        }
        (read.len() == write.len()).then_some(HeatmapRecord {
            id: self.id,
            rank: self.rank,
            bin_width_s: width?,
            write,
            read,
        })
    }

    fn lustre(&self) -> Option<LustreRecord> {
        let mut osts = Vec::new();
        let mut components: Vec<LustreComponent> = Vec::new();
        let mut by_number: HashMap<String, usize> = HashMap::new();
        for (name, value) in &self.counters {
            if name.contains("OST_ID_") {
                osts.push(int(value)?);
                continue;
            }
            if matches!(name.as_str(), "LUSTRE_NUM_COMPONENTS" | "LUSTRE_NUM_STRIPES") {
                continue;
            }
            // "LUSTRE_COMP2_STRIPE_SIZE" is of the second component; version 1 has one, without a number.
            let rest = name.strip_prefix("LUSTRE_COMP").map(|rest| rest.trim_start_matches('_'));
            let number: String = rest.unwrap_or("").chars().take_while(char::is_ascii_digit).collect();
            let at = *by_number.entry(number).or_insert_with(|| {
                components.push(LustreComponent { counters: Vec::new(), pool: None });
                components.len() - 1
            });
            match int(value) {
                Some(value) => components[at].counters.push((name.clone().into(), value)),
                None if name.ends_with("_POOL_NAME") => {
                    components[at].pool = (value != "N/A").then(|| value.clone())
                }
                // Patterns and flags are printed in words.
                None => {}
            }
        }
        Some(LustreRecord { id: self.id, rank: self.rank, components, osts })
    }
}

/// Some counters are unsigned; they keep their bits.
fn int(value: &str) -> Option<i64> {
    value.parse().ok().or_else(|| value.parse::<u64>().ok().map(|value| value as i64))
}

/// "%f" prints a point, or says that it is no number.
fn is_float(value: &str) -> bool {
    int(value).is_none() && value.parse::<f64>().is_ok()
}
