//! Contents of a trace, as they are reported.

use iotide_look::Untrusted;
use iotide_look::text::{self, Rows};
use serde::{Serialize, Serializer};

use crate::run::{Loss, whole_bytes, whole_bytes_if_any};
use crate::{Ink, Tell};

/// Contents of one trace.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Info {
    /// Source that was read.
    pub source: InfoSource,
    /// Its job, as the source states it.
    pub job: InfoJob,
    /// Fields of Darshan logs only.
    #[serde(flatten)]
    pub darshan: Option<DarshanInfo>,
    /// Events by operation; `None` where they were not counted.
    pub operations: Option<Map<Operation>>,
    /// Sums over each function, those with most time first; `None` if the source has no names of functions.
    pub functions: Option<Vec<Function>>,
    /// How many files it names.
    pub n_files: u64,
    /// Data known to be missing.
    pub losses: Vec<Loss>,
}

/// Source that was read. Events of a Darshan log are counted only if a source for them was asked for.
#[derive(Clone, Debug, Default, Serialize)]
pub struct InfoSource {
    /// Where it was read from.
    pub path: Untrusted,
    /// The format it was in.
    pub format: String,
    /// How many ranks moved bytes or, if the source tells no ranks apart, how many processes the job had.
    pub n_ranks: Option<u64>,
    /// Whether these are known not to be ranks of a parallel program.
    #[serde(skip)]
    pub is_serial: bool,
    /// How many events it held.
    pub n_events: Option<u64>,
    /// All bytes read.
    #[serde(serialize_with = "whole_bytes_if_any")]
    pub bytes_read: Option<f64>,
    /// All bytes written.
    #[serde(serialize_with = "whole_bytes_if_any")]
    pub bytes_written: Option<f64>,
    /// When the first event began.
    pub start_s: Option<f64>,
    /// When the last one ended.
    pub end_s: Option<f64>,
}

/// Job of a trace, as the source states it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct InfoJob {
    /// The scheduler's name for it.
    pub jobid: Option<JobId>,
    /// The number of the user.
    pub uid: Option<i64>,
    /// The user, as the source has it.
    pub user: Option<Untrusted>,
    /// The number of processes.
    pub nprocs: Option<u64>,
    /// When it began, in seconds since the Unix epoch.
    #[serde(serialize_with = "whole_seconds_if_so")]
    pub start_time: Option<f64>,
    /// When it ended.
    #[serde(serialize_with = "whole_seconds_if_so")]
    pub end_time: Option<f64>,
    /// Its wall-clock time.
    pub run_time_s: Option<f64>,
    /// The command.
    pub exe: Option<Untrusted>,
    /// The version of the log's format.
    pub log_version: Option<Untrusted>,
}

/// Most logs know whole seconds only, and say so by an integer.
fn whole_seconds_if_so<S: Serializer>(time: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) if time.fract() == 0.0 && time.abs() < 1e15 => serializer.serialize_i64(*time as i64),
        time => time.serialize(serializer),
    }
}

/// The scheduler's name for a job: Darshan has a number, others a text.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum JobId {
    /// A number.
    Number(i64),
    /// Anything else.
    Name(Untrusted),
}

/// Names and what they stand for, in the order they were put in; a JSON object.
#[derive(Clone, Debug)]
pub struct Map<T>(pub Vec<(String, T)>);

impl<T> Default for Map<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Serialize> Serialize for Map<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// Sums over the events of one operation.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Operation {
    /// How many events.
    pub events: u64,
    /// How many calls they stand for; 0 where the source counts none.
    pub calls: u64,
    /// How many bytes they moved.
    #[serde(serialize_with = "whole_bytes")]
    pub bytes: f64,
}

/// Sums over the calls of one function. They include the functions that it calls.
#[derive(Clone, Debug, Serialize)]
pub struct Function {
    /// The layer it belongs to.
    pub layer: &'static str,
    /// Its name.
    pub name: Untrusted,
    /// How often it was called.
    pub calls: u64,
    /// How many bytes it moved.
    #[serde(serialize_with = "whole_bytes")]
    pub bytes: f64,
    /// The time in it, summed over the ranks; `None` if the source does not tell.
    pub time_s: Option<f64>,
}

impl Function {
    fn in_words(&self) -> String {
        let Self { layer, name, calls, bytes, time_s } = self;
        let bytes = if *bytes > 0.0 { format!(", {}", text::bytes(*bytes)) } else { String::new() };
        let time = time_s.map(|time_s| format!(", {}", text::seconds(time_s))).unwrap_or_default();
        format!("{} ({layer}): {}{bytes}{time}", name.for_terminal(), text::counted(*calls, "call"))
    }
}

/// Fields of Darshan logs only.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DarshanInfo {
    /// The log itself.
    pub log: LogInfo,
    /// Its modules by name.
    pub modules: Map<Module>,
    /// Sums over its DXT modules.
    pub dxt: Map<Dxt>,
    /// Sums over its heatmap, by layer.
    pub heatmap: Map<Heatmap>,
}

/// The log itself.
#[derive(Clone, Debug, Default, Serialize)]
pub struct LogInfo {
    /// `little` or `big`; absent for text.
    pub byte_order: Option<&'static str>,
    /// `zlib`, `bzip2` or `none`; absent where the whole file is packed.
    pub compression: Option<&'static str>,
    /// The Darshan library that wrote it.
    pub library_version: Option<Untrusted>,
    /// How many records have a name.
    pub names: u64,
    /// How many file systems were mounted.
    pub mounts: u64,
}

/// Contents of a module of Darshan.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Module {
    /// The version of its records.
    pub version: u32,
    /// How many there are, where it is known how to count them.
    pub records: Option<u64>,
    /// Whether it ran out of memory while the job ran.
    pub partial: bool,
    /// Each counter summed over the records as stored.
    pub totals: Map<Number>,
    /// The layouts, for LUSTRE.
    #[serde(flatten)]
    pub lustre: Option<Lustre>,
}

/// Sums over the layouts on Lustre.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Lustre {
    /// Parts of layouts.
    pub components: u64,
    /// Stripes of all files.
    pub stripes: u64,
    /// Different storage targets.
    pub unique_osts: u64,
}

/// A counter's value.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
pub enum Number {
    /// A count, a size, a rank.
    Int(i64),
    /// Seconds, or a variance.
    Float(f64),
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Number::Int(value) => value.fmt(f),
            Number::Float(value) => value.fmt(f),
        }
    }
}

/// Sums over a DXT module.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Dxt {
    /// Pairs of a file and a rank.
    pub records: u64,
    /// Calls that read.
    pub read_segments: u64,
    /// Calls that wrote.
    pub write_segments: u64,
    /// Bytes read.
    pub bytes_read: i64,
    /// Bytes written.
    pub bytes_written: i64,
    /// When the first call began.
    pub first_start_s: Option<f64>,
    /// When the last one ended.
    pub last_end_s: Option<f64>,
}

/// Sums over the heatmap of a layer.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Heatmap {
    /// How many ranks it has.
    pub ranks: u64,
    /// The length of a bin.
    pub bin_width_s: f64,
    /// How many bins, of the rank that has most.
    pub n_bins: u64,
    /// Bytes read.
    pub bytes_read: i64,
    /// Bytes written.
    pub bytes_written: i64,
}

/// One record of a Darshan module, as a line.
#[derive(Clone, Debug, Serialize)]
pub struct RecordLine<'a> {
    /// The module.
    pub module: &'a str,
    /// Who saw it; -1 if all ranks did.
    pub rank: i64,
    /// The record.
    pub id: u64,
    /// Its name.
    pub file: Option<&'a str>,
    /// Its counters.
    pub counters: Map<Number>,
}

impl RecordLine<'_> {
    /// As one line of JSON.
    pub fn to_json(&self) -> String {
        json_line(self)
    }

    /// As lines of columns, one per counter: module, rank, record, counter, value, file.
    pub fn to_text(&self) -> String {
        let Self { module, rank, id, file, counters } = self;
        let file = text::printable(file.unwrap_or("-"));
        counters
            .0
            .iter()
            .map(|(name, value)| format!("{module}\t{rank}\t{id}\t{name}\t{value}\t{file}\n"))
            .collect()
    }

    /// Line above the columns.
    pub const HEADER: &'static str = "module\trank\trecord\tcounter\tvalue\tfile\n";
}

/// One segment of a DXT module, as a line.
#[derive(Clone, Debug, Serialize)]
pub struct SegmentLine<'a> {
    /// The module.
    pub module: &'a str,
    /// Who did it.
    pub rank: i64,
    /// `read` or `write`.
    pub op: &'static str,
    /// Which of the rank's calls of that kind to that file.
    pub segment: u64,
    /// Where in the file.
    pub offset: Option<i64>,
    /// How many bytes.
    pub length: i64,
    /// When it began.
    pub start_s: f64,
    /// When it ended.
    pub end_s: f64,
    /// The node it ran on.
    pub host: &'a str,
    /// The record.
    pub id: u64,
    /// Its name.
    pub file: Option<&'a str>,
}

impl SegmentLine<'_> {
    /// As one line of JSON.
    pub fn to_json(&self) -> String {
        json_line(self)
    }

    /// As one line of columns.
    pub fn to_text(&self) -> String {
        let Self { module, rank, op, segment, offset, length, start_s, end_s, host, file, .. } = self;
        let offset = offset.map_or_else(|| "-".to_owned(), |offset| offset.to_string());
        let (host, file) = (text::printable(host), text::printable(file.unwrap_or("-")));
        format!("{module}\t{rank}\t{op}\t{segment}\t{offset}\t{length}\t{start_s}\t{end_s}\t{host}\t{file}\n")
    }

    /// Line above the columns.
    pub const HEADER: &'static str = "module\trank\top\tsegment\toffset\tlength\tstart\tend\thost\tfile\n";
}

fn json_line(value: &impl Serialize) -> String {
    let mut line = iotide_look::text::json(value);
    line.push('\n');
    line
}

impl Info {
    /// Keeps what is missing, in the words of the report.
    pub fn set_losses(&mut self, losses: &[iotide_trace::Loss]) {
        self.losses = losses.iter().map(Loss::from).collect();
    }

    /// Keeps what each function of each layer did.
    pub fn set_functions(&mut self, access: &[iotide_trace::AccessFacts]) {
        let of_layer = |facts: &iotide_trace::AccessFacts| {
            let layer = facts.layer.name();
            let function = |sums: &iotide_trace::FunctionSums| Function {
                layer,
                name: (&sums.name).into(),
                calls: sums.calls,
                bytes: sums.bytes,
                time_s: (sums.seconds > 0.0).then_some(sums.seconds),
            };
            facts.functions.iter().map(function).collect::<Vec<_>>()
        };
        let mut functions: Vec<Function> = access.iter().flat_map(of_layer).collect();
        let time_s = |function: &Function| function.time_s.unwrap_or(0.0);
        // Those that took no known time by what they did; the sort is stable, so that the rest goes by layer and name.
        functions.sort_by(|a, b| {
            (time_s(b).total_cmp(&time_s(a))).then(b.bytes.total_cmp(&a.bytes)).then(b.calls.cmp(&a.calls))
        });
        self.functions = (!functions.is_empty()).then_some(functions);
    }

    /// "darshan log 3.41 of ./a.out, job 77".
    fn headline(&self) -> String {
        let InfoJob { jobid, exe, log_version, .. } = &self.job;
        let version =
            log_version.as_ref().map(|version| format!(" {}", version.for_terminal())).unwrap_or_default();
        let exe = exe.as_ref().map(|exe| format!(" of {}", exe.for_terminal())).unwrap_or_default();
        let id = match jobid {
            Some(JobId::Number(id)) => format!(", job {id}"),
            Some(JobId::Name(id)) => format!(", job {}", id.for_terminal()),
            None => String::new(),
        };
        let what = match self.source.n_events {
            Some(n_events) => format!(", {}", text::counted(n_events, "event")),
            None => String::new(),
        };
        format!("{}{version}{exe}{id}{what}", self.source.format)
    }

    fn facts(&self) -> Rows {
        let mut rows = Rows::default();
        if let Some(job) = self.job.in_words() {
            rows.row("job", job);
        }
        let InfoSource { n_ranks, is_serial, bytes_read, bytes_written, start_s, end_s, .. } = &self.source;
        if let (None, Some(n_ranks)) = (&self.darshan, n_ranks) {
            rows.row(if *is_serial { "processes" } else { "ranks" }, text::count(*n_ranks));
        }
        if let (Some(start_s), Some(end_s)) = (start_s, end_s) {
            let span = text::seconds(end_s - start_s);
            rows.row("time", format!("{} to {}, {span}", text::moment(*start_s), text::moment(*end_s)));
        }
        if let (Some(read), Some(written)) = (bytes_read, bytes_written) {
            rows.row("volume", format!("{} read, {} written", text::bytes(*read), text::bytes(*written)));
        }
        for (name, Operation { events, calls, bytes }) in self.operations.iter().flat_map(|map| &map.0) {
            let calls = if calls == events {
                String::new()
            } else {
                format!(" for {}", text::counted(*calls, "call"))
            };
            let bytes = if *bytes > 0.0 { format!(", {}", text::bytes(*bytes)) } else { String::new() };
            rows.row(name, format!("{}{calls}{bytes}", text::counted(*events, "event")));
        }
        if let Some(functions) = &self.functions {
            /// As many as a person reads; JSON has them all.
            const MOST_TOLD: usize = 15;
            let mut lines: Vec<String> = functions.iter().take(MOST_TOLD).map(Function::in_words).collect();
            if functions.len() > MOST_TOLD {
                lines.push(format!("and {} more", functions.len() - MOST_TOLD));
            }
            rows.row("functions", lines.join("\n"));
        }
        if self.n_files > 0 && self.darshan.is_none() {
            rows.row("files", text::count(self.n_files));
        }
        if let Some(darshan) = &self.darshan {
            darshan.add_to(&mut rows);
        }
        let losses: Vec<_> = self.losses.iter().map(Loss::in_words).collect();
        rows.row("losses", if losses.is_empty() { "none".to_owned() } else { losses.join("\n") });
        rows
    }
}

impl Tell for Info {
    fn tell(&self, width: usize, ink: Ink) -> String {
        let name = self.source.path.for_terminal();
        let headline = text::wrap(&format!("{name}: {}", self.headline()), width).join("\n");
        let facts = self.facts().render(width, |name| ink.faint(name));
        format!("{}\n\n{facts}", ink.bold(&headline))
    }
}

impl InfoJob {
    fn in_words(&self) -> Option<String> {
        let user = match (&self.user, self.uid) {
            (Some(user), _) => Some(format!("user {}", user.for_terminal())),
            (None, Some(uid)) => Some(format!("user {uid}")),
            (None, None) => None,
        };
        let words = [
            self.nprocs.map(|n| {
                if n == 1 { "1 process".to_owned() } else { format!("{} processes", text::count(n)) }
            }),
            user,
            self.start_time.map(|start| format!("began {}", text::date(start))),
            self.run_time_s.map(|run_time_s| format!("ran for {}", text::seconds(run_time_s))),
        ];
        let words: Vec<_> = words.into_iter().flatten().collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}

impl DarshanInfo {
    fn add_to(&self, rows: &mut Rows) {
        let LogInfo { byte_order, compression, library_version, names, mounts } = &self.log;
        let words = [
            library_version.as_ref().map(|version| format!("written by Darshan {}", version.for_terminal())),
            byte_order.map(|order| format!("{order}-endian")),
            compression.map(|packing| {
                if packing == "none" { "not packed".to_owned() } else { format!("packed with {packing}") }
            }),
            Some(text::counted(*names, "name")),
            Some(text::counted(*mounts, "mount")),
        ];
        rows.row("log", words.into_iter().flatten().collect::<Vec<_>>().join(", "));
        for (name, module) in &self.modules.0 {
            let sums = self.dxt.0.iter().find(|(dxt, _)| dxt == name).map(|(_, dxt)| dxt.in_words());
            rows.row(&Untrusted::from(name).for_terminal(), module.in_words(sums));
        }
        for (layer, Heatmap { bin_width_s, n_bins, bytes_read, bytes_written, .. }) in &self.heatmap.0 {
            rows.row(
                &format!("heatmap {}", Untrusted::from(layer).for_terminal()),
                format!(
                    "{} of {}: {} read, {} written",
                    text::counted(*n_bins, "bin"),
                    text::seconds(*bin_width_s),
                    text::bytes(*bytes_read as f64),
                    text::bytes(*bytes_written as f64)
                ),
            );
        }
    }
}

impl Module {
    /// Records, and of the totals those that every layer has; JSON has them all.
    fn in_words(&self, sums: Option<String>) -> String {
        let total = |ending: &str| {
            let of_name =
                |(name, _): &&(String, Number)| name.split_once('_').is_some_and(|(_, rest)| rest == ending);
            match self.totals.0.iter().find(of_name) {
                Some((_, Number::Int(total))) => Some(*total),
                _ => None,
            }
        };
        let counted = |noun: &str, ending: &str| {
            let n = total(ending).and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0)?;
            Some(text::counted(n, noun))
        };
        let moved = |way: &str, ending: &str| Some(format!("{} {way}", text::bytes(total(ending)? as f64)));
        let words = [
            sums,
            moved("read", "BYTES_READ"),
            moved("written", "BYTES_WRITTEN"),
            counted("open", "OPENS"),
            counted("read", "READS"),
            counted("write", "WRITES"),
            self.lustre.map(|Lustre { components, stripes, unique_osts }| {
                format!(
                    "{}, {}, {}",
                    text::counted(components, "component"),
                    text::counted(stripes, "stripe"),
                    text::counted(unique_osts, "storage target")
                )
            }),
        ];
        let words: Vec<_> = words.into_iter().flatten().collect();
        let records = self.records.map_or_else(|| "not known".to_owned(), |n| text::counted(n, "record"));
        let partial = if self.partial { ", not all" } else { "" };
        let words = if words.is_empty() { String::new() } else { format!(": {}", words.join(", ")) };
        format!("version {}, {records}{partial}{words}", self.version)
    }
}

impl Dxt {
    fn in_words(&self) -> String {
        let span = match (self.first_start_s, self.last_end_s) {
            (Some(start_s), Some(end_s)) => format!(", {} to {}", text::moment(start_s), text::moment(end_s)),
            _ => String::new(),
        };
        format!(
            "{} of {}, {} of {}{span}",
            text::counted(self.read_segments, "read"),
            text::bytes(self.bytes_read as f64),
            text::counted(self.write_segments, "write"),
            text::bytes(self.bytes_written as f64)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Document, Report};

    fn log() -> Info {
        let totals = [
            ("POSIX_OPENS", 2),
            ("POSIX_READS", 0),
            ("POSIX_BYTES_READ", 1100),
            ("POSIX_BYTES_WRITTEN", 2200),
        ];
        let posix = Module {
            version: 4,
            records: Some(2),
            partial: true,
            totals: Map(totals.map(|(name, total)| (name.to_owned(), Number::Int(total))).to_vec()),
            lustre: None,
        };
        let lustre = Module {
            version: 1,
            records: Some(1),
            lustre: Some(Lustre { components: 1, stripes: 4, unique_osts: 3 }),
            ..Module::default()
        };
        let dxt = Dxt {
            records: 1,
            write_segments: 2,
            bytes_written: 200,
            first_start_s: Some(3.0),
            last_end_s: Some(5.0),
            ..Dxt::default()
        };
        let dxt_module = Module { version: 1, records: Some(1), ..Module::default() };
        let heatmap = Heatmap { ranks: 4, bin_width_s: 0.1, n_bins: 34, bytes_read: 0, bytes_written: 32 };
        let mut info = Info {
            source: InfoSource {
                path: "a.darshan".into(),
                format: "darshan".into(),
                n_ranks: Some(4),
                ..InfoSource::default()
            },
            job: InfoJob {
                jobid: Some(JobId::Number(77)),
                uid: Some(1000),
                nprocs: Some(4),
                start_time: Some(1_600_000_000.25),
                end_time: Some(1_600_000_009.0),
                run_time_s: Some(8.75),
                exe: Some("./a.out -x".into()),
                log_version: Some("3.41".into()),
                user: None,
            },
            darshan: Some(DarshanInfo {
                log: LogInfo {
                    byte_order: Some("little"),
                    compression: Some("zlib"),
                    library_version: None,
                    names: 1,
                    mounts: 2,
                },
                modules: Map(vec![
                    ("POSIX".into(), posix),
                    ("LUSTRE".into(), lustre),
                    ("DXT_POSIX".into(), dxt_module),
                ]),
                dxt: Map(vec![("DXT_POSIX".into(), dxt)]),
                heatmap: Map(vec![("POSIX".into(), heatmap)]),
            }),
            ..Info::default()
        };
        info.set_losses(&[iotide_trace::Loss::of_unknown_size("POSIX: cut")]);
        info
    }

    #[test]
    fn a_log_is_told_module_by_module() {
        insta::assert_snapshot!(log().tell(90, Ink::Plain), @r#"
        a.darshan: darshan 3.41 of ./a.out -x, job 77

          job            4 processes, user 1000, began 2020-09-13 12:26:40 UTC, ran for 8.75 s
          log            little-endian, packed with zlib, 1 name, 2 mounts
          POSIX          version 4, 2 records, not all: 1.1 kB read, 2.2 kB written, 2 opens
          LUSTRE         version 1, 1 record: 1 component, 4 stripes, 3 storage targets
          DXT_POSIX      version 1, 1 record: 0 reads of 0 B, 2 writes of 200 B, 3 s to 5 s
          heatmap POSIX  34 bins of 100 ms: 0 B read, 32 B written
          losses         POSIX: cut
        "#);
    }

    #[test]
    fn functions_are_told_by_time_and_bytes() {
        let function = |name: &str, calls, bytes, seconds| iotide_trace::FunctionSums {
            name: name.into(),
            calls,
            bytes,
            seconds,
        };
        let facts = |layer, functions| iotide_trace::AccessFacts {
            layer,
            functions,
            ..iotide_trace::AccessFacts::default()
        };
        let mut info = Info::default();
        info.set_functions(&[facts(iotide_trace::Layer::Stdio, Vec::new())]);
        assert!(info.functions.is_none(), "no names are not no functions");
        info.set_functions(&[
            facts(
                iotide_trace::Layer::Posix,
                vec![function("close", 2, 0.0, 0.0), function("pwrite64", 4, 8e6, 2.5)],
            ),
            facts(iotide_trace::Layer::MpiIo, vec![function("MPI_\u{1b}[31m<b>", 1, 8e6, 4.0)]),
        ]);
        insta::assert_snapshot!(info.facts().render(90, str::to_owned), @r#"
        functions  MPI_\u{1b}[31m<b> (mpi-io): 1 call, 8 MB, 4 s
                   pwrite64 (posix): 4 calls, 8 MB, 2.5 s
                   close (posix): 2 calls
        losses     none
        "#);
        let report = Report { runs: vec![info], ..Report::new("info") };
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        let functions = &json["runs"][0]["functions"];
        assert_eq!(
            functions[1],
            serde_json::json!({"layer": "posix", "name": "pwrite64", "calls": 4, "bytes": 8_000_000, "time_s": 2.5})
        );
        assert!(functions[2]["time_s"].is_null());
    }

    #[test]
    fn json_has_the_promised_names() {
        let report = Report { runs: vec![log()], ..Report::new("info") };
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        let run = &json["runs"][0];
        assert_eq!(run["job"]["jobid"], 77);
        assert_eq!(run["job"]["end_time"].to_string(), "1600000009");
        assert_eq!(run["job"]["start_time"], 1_600_000_000.25);
        assert_eq!(run["modules"]["POSIX"]["totals"]["POSIX_BYTES_READ"], 1100);
        assert_eq!(run["modules"]["POSIX"]["partial"], true);
        assert_eq!(run["modules"]["LUSTRE"]["unique_osts"], 3);
        assert!(run["modules"]["POSIX"].get("stripes").is_none());
        assert_eq!(run["dxt"]["DXT_POSIX"]["write_segments"], 2);
        assert_eq!(run["heatmap"]["POSIX"]["n_bins"], 34);
        assert!(run["source"]["n_events"].is_null() && run["operations"].is_null());
        assert!(run["functions"].is_null());
        assert_eq!(run["losses"][0]["what"], "POSIX: cut");
    }

    #[test]
    fn a_line_holds_a_record_or_a_segment() {
        let record = RecordLine {
            module: "POSIX",
            rank: -1,
            id: u64::MAX,
            file: Some("/a\tb"),
            counters: Map(vec![
                ("POSIX_OPENS".into(), Number::Int(2)),
                ("POSIX_F_READ_TIME".into(), Number::Float(0.5)),
            ]),
        };
        assert_eq!(
            record.to_json(),
            "{\"module\":\"POSIX\",\"rank\":-1,\"id\":18446744073709551615,\"file\":\"/a\\tb\",\
             \"counters\":{\"POSIX_OPENS\":2,\"POSIX_F_READ_TIME\":0.5}}\n"
        );
        assert_eq!(
            record.to_text(),
            "POSIX\t-1\t18446744073709551615\tPOSIX_OPENS\t2\t/a\\tb\n\
             POSIX\t-1\t18446744073709551615\tPOSIX_F_READ_TIME\t0.5\t/a\\tb\n"
        );
        let segment = SegmentLine {
            module: "DXT_POSIX",
            rank: 3,
            op: "write",
            segment: 0,
            offset: None,
            length: 10,
            start_s: 0.25,
            end_s: 0.5,
            host: "n1",
            id: 9,
            file: None,
        };
        assert_eq!(
            segment.to_json(),
            "{\"module\":\"DXT_POSIX\",\"rank\":3,\"op\":\"write\",\"segment\":0,\"offset\":null,\"length\":10,\
             \"start_s\":0.25,\"end_s\":0.5,\"host\":\"n1\",\"id\":9,\"file\":null}\n"
        );
        assert_eq!(segment.to_text(), "DXT_POSIX\t3\twrite\t0\t-\t10\t0.25\t0.5\tn1\t-\n");
    }
}
