//! Kinds of applications with their figures, and the storage they were seen on: what `iotide simulate system` runs.

use std::fmt::Write;

use iotide_look::{Ink, Untrusted, text};
use iotide_sim::system::{BinnedRun, Cell, Fitted, Ladder, Target};
use serde::{Serialize, Serializer};

use crate::SCHEMA;
use crate::document::Document;

/// The answer of `iotide templates`.
#[derive(Clone, Debug, Serialize)]
pub struct TemplatesReport {
    schema: &'static str,
    /// The command that was asked.
    pub command: &'static str,
    /// The number of processes at which runs are compared.
    pub p_ref: u64,
    /// The runs, in the order given.
    pub runs: Vec<RunOfTemplate>,
    /// The kinds.
    pub templates: Vec<FoundTemplate>,
    /// The storage; `null` if nothing is known of it.
    pub storage: Option<StorageEntry>,
    /// Data that was left out.
    pub losses: Vec<Untrusted>,
    /// Assumptions and remarks.
    #[serde(skip)]
    pub notes: Vec<String>,
}

/// A run and its kind.
#[derive(Clone, Debug, Serialize)]
pub struct RunOfTemplate {
    /// Where it stands in what was given.
    #[serde(skip)]
    pub index: usize,
    /// Which program.
    pub program: Untrusted,
    /// How many processes it had.
    pub processes: u64,
    /// Which template.
    pub template: usize,
}

impl RunOfTemplate {
    /// A run of a kind.
    pub fn new(index: usize, run: &BinnedRun, template: usize) -> Self {
        Self { index, program: run.program.as_str().into(), processes: run.processes, template }
    }
}

/// A kind of application, as `simulate system` takes it.
#[derive(Clone, Debug, Serialize)]
pub struct FoundTemplate {
    /// Its name.
    pub name: String,
    /// Time between bursts, but for communication.
    pub compute_s: f64,
    /// Communication between bursts.
    pub mpi_s: f64,
    /// Relative deviation of both.
    pub compute_cv: f64,
    /// At so many processes.
    pub processes: u64,
    /// Requests of a burst; `null`: it is busy all the time.
    pub requests: Option<u64>,
    /// Bytes of a burst.
    pub burst_bytes: Option<f64>,
    /// Bytes of a request.
    pub request_bytes: f64,
    /// How long a burst took.
    pub burst_s: Option<f64>,
    /// How long a process thinks between requests.
    pub think_s: f64,
    /// How many runs it is based on.
    pub runs: usize,
    /// Of compute_s, burst_bytes and request_bytes: standard deviations of their logarithms.
    #[serde(serialize_with = "by_name")]
    pub errors: [f64; 3],
}

fn by_name<S: Serializer>(errors: &[f64; 3], serializer: S) -> Result<S::Ok, S::Error> {
    use serde::ser::SerializeMap;
    let mut map = serializer.serialize_map(Some(3))?;
    for (name, error) in ["compute_s", "burst_bytes", "request_bytes"].iter().zip(errors) {
        map.serialize_entry(name, error)?;
    }
    map.end()
}

/// Storage, as `simulate system` takes it, and its one target's figures for who looks for them.
#[derive(Clone, Debug, Serialize)]
pub struct StorageEntry {
    /// The targets.
    pub targets: Vec<Target>,
    /// Operations at once.
    pub servers: u32,
    /// Operations a second; `null`: nothing is known of them.
    pub iops: Option<f64>,
    /// Bytes a second of one stream.
    pub stream_bps: Option<f64>,
    /// Bytes a second of all.
    pub bandwidth_bps: Option<f64>,
    /// Figures that are only known to be at least that.
    pub at_least: Vec<&'static str>,
    /// How far measurements lie from the fit, beyond chance: 1 is not at all.
    pub spread: Option<f64>,
}

impl StorageEntry {
    /// As a ladder shows it.
    pub fn new(fitted: &Fitted) -> Self {
        let target = &fitted.target;
        Self {
            targets: vec![target.clone()],
            servers: target.servers,
            iops: target.iops,
            stream_bps: target.stream_bps,
            bandwidth_bps: target.bandwidth_bps,
            at_least: fitted.at_least.clone(),
            spread: Some(fitted.spread),
        }
    }

    /// Of whose targets only bandwidths are known that they have at least.
    pub fn at_least(targets_bps: impl IntoIterator<Item = f64>) -> Self {
        let target =
            |bandwidth_bps| Target { servers: 1, bandwidth_bps: Some(bandwidth_bps), ..Target::default() };
        let targets: Vec<Target> = targets_bps.into_iter().map(target).collect();
        let bandwidth_bps: f64 = targets.iter().filter_map(|target| target.bandwidth_bps).sum();
        Self {
            targets,
            servers: 1,
            iops: None,
            stream_bps: None,
            bandwidth_bps: Some(bandwidth_bps),
            at_least: vec!["bandwidth_bps"],
            spread: None,
        }
    }

    /// Its figures in words.
    pub fn in_words(&self) -> String {
        let least = |name: &str| if self.at_least.contains(&name) { "at least " } else { "" };
        let mut said = Vec::new();
        if let Some(bps) = self.bandwidth_bps {
            let among = match self.targets.len() {
                0 | 1 => String::new(),
                n => format!(" over {n} targets"),
            };
            said.push(format!("{}{}{among}", least("bandwidth_bps"), text::bandwidth(bps)));
        }
        if let Some(bps) = self.stream_bps {
            said.push(format!("{}{} a stream", least("stream_bps"), text::bandwidth(bps)));
        }
        if let Some(iops) = self.iops {
            let servers = text::counted(u64::from(self.servers), "server");
            said.push(format!("{}{} operations/s by {servers}", least("iops"), text::digits(iops, 4)));
        }
        said.join(", ")
    }
}

impl TemplatesReport {
    /// One that holds nothing yet.
    #[expect(clippy::new_without_default, reason = "a report of nothing is not what anyone means by default")]
    pub fn new() -> Self {
        Self {
            schema: SCHEMA,
            command: "templates",
            p_ref: 1,
            runs: Vec::new(),
            templates: Vec::new(),
            storage: None,
            losses: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Something was left out.
    pub fn lose(&mut self, what: &str) {
        self.losses.push(what.into());
    }
}

impl Document for TemplatesReport {
    fn to_text(&self, width: usize, _: Ink) -> String {
        let mut out = String::new();
        let say = |out: &mut String, line: &str| {
            for line in text::wrap(line, width) {
                let _ = writeln!(out, "{line}");
            }
        };
        let head = format!(
            "{} of {}, at {}",
            text::counted(self.templates.len() as u64, "template"),
            text::counted(self.runs.len() as u64, "run"),
            text::counted(self.p_ref, "process"),
        );
        say(&mut out, &head);
        for (index, template) in self.templates.iter().enumerate() {
            let what = match (template.burst_bytes, template.burst_s) {
                (Some(bytes), Some(burst_s)) => format!(
                    "computes {} (± {}), then moves {} in requests of {}, in {}",
                    text::seconds(template.compute_s + template.mpi_s),
                    text::percent(template.compute_cv),
                    text::bytes(bytes),
                    text::bytes(template.request_bytes),
                    text::seconds(burst_s)
                ),
                _ => format!(
                    "is busy all the time: requests of {}, {} apart for each process",
                    text::bytes(template.request_bytes),
                    text::seconds(template.think_s)
                ),
            };
            say(
                &mut out,
                &format!("  {}: {what}; {}", template.name, text::counted(template.runs as u64, "run")),
            );
            let mut programs: Vec<String> = (self.runs.iter().filter(|run| run.template == index))
                .map(|run| run.program.for_terminal())
                .collect();
            programs.sort();
            programs.dedup();
            say(&mut out, &format!("    {}", programs.join(", ")));
        }
        if let Some(storage) = &self.storage {
            say(&mut out, &format!("storage: {}", storage.in_words()));
        }
        for note in &self.notes {
            say(&mut out, &text::printable(note));
        }
        for loss in &self.losses {
            say(&mut out, &format!("left out: {}", loss.for_terminal()));
        }
        out
    }

    fn to_json(&self) -> String {
        text::json_document(self)
    }
}

/// The answer of `iotide ladder`, which `iotide templates` takes.
#[derive(Clone, Debug, Serialize)]
pub struct LadderReport {
    schema: &'static str,
    /// The command that was asked.
    pub command: &'static str,
    /// Directory that was measured.
    pub directory: Untrusted,
    /// The file system that the directory is on; `null` if the table of mounts does not list it.
    pub file_system: Option<FileSystemEntry>,
    /// `direct`: requests went past the page cache of this machine; `synced`: each was synced.
    pub how: &'static str,
    /// The rungs.
    pub cells: Vec<Cell>,
    /// Storage derived from them; `null` if they do not suffice.
    pub storage: Option<StorageEntry>,
    /// Data that was left out.
    pub losses: Vec<Untrusted>,
}

/// A file system, as the table of mounts has it.
#[derive(Clone, Debug, Serialize)]
pub struct FileSystemEntry {
    /// Its kind: `ext4`, `lustre`, `fuse.glusterfs`.
    pub kind: Untrusted,
    /// Device or server that is mounted.
    pub source: Untrusted,
    /// Other machines can use it, too.
    pub is_shared: bool,
}

impl LadderReport {
    /// Of what was measured. The file system is its kind, what is mounted, and whether other machines use it.
    pub fn new(
        directory: &str,
        ladder: &Ladder,
        fitted: Option<&Fitted>,
        is_direct: bool,
        file_system: Option<(&str, &str, bool)>,
    ) -> Self {
        Self {
            schema: SCHEMA,
            command: "ladder",
            directory: directory.into(),
            file_system: file_system.map(|(kind, source, is_shared)| FileSystemEntry {
                kind: kind.into(),
                source: source.into(),
                is_shared,
            }),
            how: if is_direct { "direct" } else { "synced" },
            cells: ladder.cells.clone(),
            storage: fitted.map(StorageEntry::new),
            losses: Vec::new(),
        }
    }
}

impl LadderReport {
    /// Which caches lie between the requests and the storage.
    fn caches(&self) -> String {
        let (on, is_shared) = match &self.file_system {
            Some(found) => {
                (format!("{} ({})", found.kind.for_terminal(), found.source.for_terminal()), found.is_shared)
            }
            None => ("file system unknown".to_owned(), false),
        };
        let how = match (self.how, is_shared) {
            ("direct", false) => "requests went past the page cache",
            ("direct", true) => {
                "requests went past the page cache of this machine; the client may keep writes until the sync at the end of each \
                 measurement, and servers may cache"
            }
            (_, false) => "no O_DIRECT here: each write was synced, and reads may come from a cache",
            (_, true) => {
                "no O_DIRECT here: each write was synced, and reads may come from caches of the client or the servers"
            }
        };
        format!("{on}: {how}")
    }
}

impl Document for LadderReport {
    fn to_text(&self, width: usize, _: Ink) -> String {
        let mut out = String::new();
        let storage =
            self.storage.as_ref().map_or("too little is known of it".to_owned(), StorageEntry::in_words);
        let lines = [format!("{}: {storage}", self.directory.for_terminal()), self.caches()];
        for line in lines.iter().flat_map(|line| text::wrap(line, width)) {
            let _ = writeln!(out, "{line}");
        }
        let _ = writeln!(out, "  {:>9} {:>12} {:>12} {:>12}", "in flight", "of", "requests/s", "bandwidth");
        for cell in &self.cells {
            let per_s = cell.completions / cell.seconds;
            let _ = writeln!(
                out,
                "  {:>9} {:>12} {:>12} {:>12}",
                cell.n,
                text::bytes(cell.request_bytes),
                text::digits(per_s, 4),
                text::bandwidth(per_s * cell.request_bytes)
            );
        }
        out
    }

    fn to_json(&self) -> String {
        text::json_document(self)
    }
}
