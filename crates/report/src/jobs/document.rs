//! All that a daemon knows of one job.

use std::collections::BTreeMap;
use std::fmt::Write;

use iotide_ledger::{Cell, Counters, JobState, Measure, Metric, SystemCounter, Trust};
use serde::{Deserialize, Serialize};

use iotide_look::Untrusted;
use iotide_look::text::{self, Rows};

use super::{JobEntry, shown, table};
use crate::series::JobRates;
use crate::why::JobWhy;

/// All that is known of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobDocument {
    /// Its entry in a list.
    #[serde(flatten)]
    pub entry: JobEntry,
    /// Its user's number.
    pub uid: u32,
    /// Its command line.
    pub command: Untrusted,
    /// The directory it runs in.
    pub run_dir: Untrusted,
    /// The account that the scheduler charges.
    #[serde(default)]
    pub account: Untrusted,
    /// Name at the scheduler beside its id: `4711_3`, the third of an array.
    #[serde(default)]
    pub alias: Untrusted,
    /// The scheduler's name for the machine.
    pub cluster: Untrusted,
    /// Processes that run now.
    pub n_running: u32,
    /// Processes that were killed or aborted; of ranks, if it has any.
    #[serde(default)]
    pub n_killed: u64,
    /// Its I/O.
    pub io: JobIo,
    /// Its time in MPI.
    pub mpi: JobMpi,
    /// Where the time of its threads went.
    pub time: JobTime,
    /// Its own counters.
    pub own: Vec<OwnCounter>,
    /// Which binary ran: the digits of its build id; empty if it is not known.
    #[serde(default)]
    pub build: Untrusted,
    /// Its own parameters beside its size.
    #[serde(default)]
    pub parameters: Untrusted,
    /// Counters of the system for all its processes, if they have a cgroup of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<JobCgroup>,
    /// Earlier runs of the same application, the latest first.
    pub earlier: Vec<EarlierRun>,
    /// How fast it read and wrote over the run, as far as that was sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rates: Option<JobRates>,
    /// How long it ran, or has run so far.
    #[serde(default)]
    pub run_time_s: Option<f64>,
    /// Whether it was slower than earlier runs, and why, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<JobWhy>,
    /// Its I/O issues; whoever reads the document can find them again with [`JobDocument::judged`].
    #[serde(flatten, skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub issues: Option<crate::issue::RunIssues>,
}

/// I/O of a job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct JobIo {
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Calls that read.
    pub calls_read: u64,
    /// Calls that wrote.
    pub calls_written: u64,
    /// Time in calls that read, over all threads.
    pub seconds_read: f64,
    /// Time in calls that wrote.
    pub seconds_written: f64,
    /// Time in all other calls.
    pub seconds_other: f64,
    /// The same by operation, layer and file system. What is done beneath another layer is the same bytes again, and in no sum.
    pub by: Vec<IoCell>,
}

/// Calls of one kind.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IoCell {
    /// `read`, `write`, `open` and so on.
    pub op: Untrusted,
    /// `posix`, `stdio`, `mpiio` or `beneath`.
    pub layer: Untrusted,
    /// Where the file system is mounted.
    pub fs: Untrusted,
    /// How many.
    pub calls: u64,
    /// Bytes they moved.
    pub bytes: u64,
    /// Time they took.
    pub seconds: f64,
}

/// Time of a job in MPI.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct JobMpi {
    /// Time in MPI, without its I/O.
    pub seconds: f64,
    /// By function.
    pub by_function: Vec<MpiCell>,
}

/// Calls of an MPI function.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MpiCell {
    /// Which.
    pub function: Untrusted,
    /// How many.
    pub calls: u64,
    /// Bytes they moved.
    pub bytes: u64,
    /// Time they took.
    pub seconds: f64,
}

/// Where the time of a job's threads went.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct JobTime {
    /// In all.
    pub threads_s: f64,
    /// In I/O.
    pub io_s: f64,
    /// In MPI.
    pub mpi_s: f64,
    /// The rest.
    pub compute_s: f64,
}

/// Counters of the system for all processes of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobCgroup {
    /// Processor time of its programs.
    pub cpu_user_s: f64,
    /// Processor time of the system on their behalf.
    pub cpu_system_s: f64,
    /// Memory it has now.
    pub memory_bytes: Option<u64>,
    /// The most memory it had.
    pub memory_peak_bytes: Option<u64>,
    /// Bytes read from devices: what came from caches is not in it.
    pub device_bytes_read: u64,
    /// Bytes written to devices.
    pub device_bytes_written: u64,
    /// Requests that read from devices.
    pub device_reads: u64,
    /// Requests that wrote to devices.
    pub device_writes: u64,
    /// Numbers that the system counted and that have no field above, by the fields of their declarations.
    #[serde(flatten)]
    pub others: BTreeMap<String, serde_json::Value>,
}

/// A counter of the program's own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OwnCounter {
    /// Name given by the program.
    pub name: Untrusted,
    /// Unit of its value.
    pub unit: Untrusted,
    /// Its value.
    pub value: u64,
}

/// An earlier run of the same application.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EarlierRun {
    /// Its job.
    pub job: Untrusted,
    /// When it began.
    pub start_unix_s: f64,
    /// How many processes it had.
    pub size: u32,
    /// How long it took.
    pub run_time_s: Option<f64>,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Which binary ran.
    #[serde(default)]
    pub build: Untrusted,
}

impl JobCgroup {
    /// Returns what the system has counted; `None` if it has counted nothing.
    fn of(counters: &Counters) -> Option<Self> {
        let mut cgroup = None;
        for (value, n) in counters.of_system() {
            let of: &mut Self = cgroup.get_or_insert_default();
            let seconds = n as f64 / 1e9;
            match value.field {
                "cpu_user_s" => of.cpu_user_s = seconds,
                "cpu_system_s" => of.cpu_system_s = seconds,
                "device_bytes_read" => of.device_bytes_read = n,
                "device_bytes_written" => of.device_bytes_written = n,
                "device_reads" => of.device_reads = n,
                "device_writes" => of.device_writes = n,
                field => {
                    let n = if value.measure == Measure::Time { seconds.into() } else { n.into() };
                    of.others.insert(field.to_owned(), n);
                }
            }
        }
        cgroup
    }

    /// Returns the numbers that have no field of their own: their names and values for people.
    pub fn others(&self) -> impl Iterator<Item = (String, String)> {
        SystemCounter::values().filter_map(|(_, value)| {
            let n = self.others.get(value.field)?.as_f64()?;
            let shown = match value.measure {
                Measure::Count => text::count(n as u64),
                Measure::Bytes => text::bytes(n),
                Measure::Time => text::seconds(n),
            };
            Some((value.field.replace('_', " "), format!("{shown} ({})", value.help)))
        })
    }

    fn rows(&self) -> Rows {
        let mut rows = Rows::default();
        let (user, system) = (text::seconds(self.cpu_user_s), text::seconds(self.cpu_system_s));
        rows.row("processors", format!("{user} in programs, {system} in the system"));
        let bytes = |bytes: u64| text::bytes(bytes as f64);
        let memory = [("now", self.memory_bytes), ("at most", self.memory_peak_bytes)];
        let memory: Vec<String> =
            memory.iter().filter_map(|(when, n)| Some(format!("{when} {}", bytes((*n)?)))).collect();
        if !memory.is_empty() {
            rows.row("memory", memory.join(", "));
        }
        let of = |n_bytes: u64, n: u64| format!("{} in {}", bytes(n_bytes), text::counted(n, "request"));
        let read = of(self.device_bytes_read, self.device_reads);
        rows.row(
            "devices",
            format!("read {read}; written {}", of(self.device_bytes_written, self.device_writes)),
        );
        self.others().for_each(|(name, value)| rows.row(&name, value));
        rows
    }
}

impl JobDocument {
    /// Fills in what a job has counted.
    pub fn count(&mut self, counters: &Counters) {
        let seconds = |cell: &Cell| cell.ns as f64 / 1e9;
        let sums = counters.io();
        self.io = JobIo {
            bytes_read: sums.read.bytes,
            bytes_written: sums.write.bytes,
            calls_read: sums.read.calls,
            calls_written: sums.write.calls,
            seconds_read: seconds(&sums.read),
            seconds_written: seconds(&sums.write),
            seconds_other: seconds(&sums.other),
            by: Vec::new(),
        };
        self.mpi = JobMpi { seconds: seconds(&counters.mpi()), by_function: Vec::new() };
        self.own.clear();
        self.cgroup = JobCgroup::of(counters);
        for (metric, cell) in counters.iter() {
            let (calls, bytes, seconds) = (cell.calls, cell.bytes, seconds(cell));
            let said = |text: &str| Untrusted::from(text);
            match metric {
                Metric::Io { op, layer, fs } => {
                    let (op, layer, fs) = (said(op.as_str()), said(layer.as_str()), said(fs.as_str()));
                    self.io.by.push(IoCell { op, layer, fs, calls, bytes, seconds });
                }
                Metric::Mpi { function } => {
                    let function = said(function.as_str());
                    self.mpi.by_function.push(MpiCell { function, calls, bytes, seconds });
                }
                Metric::Own { name, unit } => {
                    let (name, unit) = (said(name.as_str()), said(unit.as_str()));
                    self.own.push(OwnCounter { name, unit, value: calls });
                }
                // Read below, from all counters.
                Metric::Threads | Metric::OtherThreads | Metric::System(_) | Metric::Killed { .. } => {}
                Metric::Lost => {
                    let loss = format!("{} could not be counted", text::counted(calls, "call"));
                    self.entry.losses.push(loss.into());
                }
            }
        }
        self.n_killed = counters.n_killed();
        let threads_s = seconds(&counters.threads());
        let io_s = self.io.seconds_read + self.io.seconds_written + self.io.seconds_other;
        let mpi_s = self.mpi.seconds;
        let compute_s = (threads_s - io_s - mpi_s).max(0.0);
        self.time = JobTime { threads_s, io_s, mpi_s, compute_s };
    }

    /// Returns the operations that took most of its time beside computing, as models name them: `posix->write`, `mpi->MPI_Gather`.
    pub fn busiest(&self) -> Vec<String> {
        let io = self.io.by.iter().filter(|cell| cell.layer.as_said() != "beneath");
        let io = io.map(|cell| (format!("{}->{}", cell.layer.as_said(), cell.op.as_said()), cell.seconds));
        let mpi = self.mpi.by_function.iter();
        let mpi = mpi.map(|cell| (format!("mpi->{}", cell.function.as_said()), cell.seconds));
        let mut all: Vec<(String, f64)> = io.chain(mpi).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut names: Vec<String> = all.into_iter().map(|(name, _)| name).collect();
        let mut seen = std::collections::BTreeSet::new();
        names.retain(|name| seen.insert(name.clone()));
        names
    }

    /// Reads a document that a daemon answered.
    pub fn from_json(json: &[u8]) -> Result<Self, String> {
        let mut document: Self = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        document.issues = document.judged();
        Ok(document)
    }

    /// The job as a document.
    pub fn to_json(&self) -> String {
        text::json_document(self)
    }

    /// The job in words.
    pub fn to_text(&self, width: usize) -> String {
        let Self { entry, .. } = self;
        let mut out = format!("job {} of {}\n", entry.job.for_terminal(), entry.user.for_terminal());
        let section = |rows: &Rows| rows.render(width, str::to_owned);
        out.push_str(&section(&self.what_it_is()));
        out.push_str(&self.issues_in_words(width));
        out.push_str(&self.why_in_words(width));
        out.push_str("\nI/O\n");
        out.push_str(&section(&self.what_it_moved()));
        out.push_str(&self.calls());
        if let Some(cgroup) = &self.cgroup {
            out.push_str("\nAll processes, as the system counted them\n");
            out.push_str(&section(&cgroup.rows()));
        }
        if self.time.threads_s > 0.0 {
            out.push_str("\nTime of all threads\n");
            out.push_str(&section(&self.where_time_went()));
        }
        out.push_str(&self.mpi_functions());
        if !self.own.is_empty() {
            out.push_str("\nThe program's own counters\n");
            let mut rows = Rows::default();
            for own in &self.own {
                let value = format!("{} {}", text::count(own.value), own.unit.for_terminal());
                rows.row(&own.name.for_terminal(), value.trim_end());
            }
            out.push_str(&section(&rows));
        }
        out.push_str(&self.earlier_runs());
        let losses: Vec<String> = entry.losses.iter().map(Untrusted::for_terminal).collect();
        let losses = if losses.is_empty() { "none".to_owned() } else { losses.join("; ") };
        let _ = writeln!(out, "\nlosses: {losses}");
        out
    }

    /// Whether it was slower than earlier runs, and why; nothing where there are none.
    fn why_in_words(&self, width: usize) -> String {
        let Some(why) = self.why.as_ref().filter(|why| why.n_history > 0) else { return String::new() };
        let mut rows = Rows::default();
        rows.row("verdict", why.text.for_terminal());
        why.evidence.iter().for_each(|evidence| rows.row("evidence", evidence.for_terminal()));
        format!("\nBeside earlier runs\n{}", rows.render(width, str::to_owned))
    }

    /// Who ran what, where and when.
    fn what_it_is(&self) -> Rows {
        let entry = &self.entry;
        let mut rows = Rows::default();
        let mut state = match entry.state {
            JobState::Partial => "ended; not all of its counts are known".to_owned(),
            state => state.as_str().to_owned(),
        };
        if self.n_running > 0 {
            let _ = write!(state, ", {}", processes(self.n_running));
        }
        if self.n_killed > 0 {
            let _ =
                write!(state, "; {} killed or aborted", processes(self.n_killed.min(u32::MAX.into()) as u32));
        }
        rows.row("state", state);
        if entry.has_own_name() {
            rows.row("name", entry.name.for_terminal());
        }
        rows.row(
            "program",
            format!("{} (application {})", entry.program().for_terminal(), entry.app.for_terminal()),
        );
        rows.row("command", self.command.shortened(400).for_terminal());
        rows.row("directory", self.run_dir.for_terminal());
        let mut size = processes(entry.size);
        if !self.parameters.is_empty() {
            let _ = write!(size, "; {}", self.parameters.for_terminal());
        }
        rows.row("size", size);
        if !self.build.is_empty() {
            let is_new =
                self.earlier.first().is_some_and(|run| !run.build.is_empty() && run.build != self.build);
            let news = if is_new { "; another binary than the run before had" } else { "" };
            rows.row("build", format!("{}{news}", build_start(&self.build)));
        }
        let nodes: Vec<String> = entry.nodes.iter().map(Untrusted::for_terminal).collect();
        rows.row("nodes", nodes.join(", "));
        for (name, value) in
            [("partition", &entry.partition), ("account", &self.account), ("also called", &self.alias)]
        {
            if !value.as_said().is_empty() {
                rows.row(name, value.for_terminal());
            }
        }
        rows.row("started", text::date(entry.start_unix_s));
        if let Some(end) = entry.end_unix_s {
            let run_time = text::seconds(end - entry.start_unix_s);
            rows.row("ended", format!("{} (after {run_time})", text::date(end)));
        }
        rows.row(
            "job id",
            match entry.trust {
                Trust::Cgroup => "from the system (cgroup)",
                Trust::Claimed => "as the program says",
            },
        );
        rows
    }

    /// Bytes in both directions, and their rhythm.
    fn what_it_moved(&self) -> Rows {
        let Self { entry, io, .. } = self;
        let mut rows = Rows::default();
        for (name, bytes, calls, seconds, bps) in [
            ("read", io.bytes_read, io.calls_read, io.seconds_read, entry.read_bps),
            ("written", io.bytes_written, io.calls_written, io.seconds_written, entry.write_bps),
        ] {
            let mut said = format!(
                "{} ({} bytes) in {}, {} in these calls",
                text::bytes(bytes as f64),
                bytes,
                text::counted(calls, "call"),
                text::seconds(seconds)
            );
            if let Some(bps) = bps {
                let now = if entry.state == JobState::Running { "now" } else { "on average" };
                let _ = write!(said, "; {now} {}", text::bandwidth(bps));
            }
            rows.row(name, said);
        }
        if let Some(period) = entry.period_s {
            let phase =
                entry.bytes_per_phase.map_or(String::new(), |n| format!(", {} a phase", text::bytes(n)));
            rows.row("period", format!("{}{phase}", text::seconds(period)));
        }
        for staging in &entry.staging {
            rows.row("staging", staging.to_text());
        }
        if let Some(rates) = &self.rates {
            for (name, bps) in [("reading", &rates.read_bps), ("writing", &rates.write_bps)] {
                if let Some(picture) = JobRates::picture(bps) {
                    rows.row(name, picture);
                }
            }
        }
        rows
    }

    /// A table of calls by operation, layer and file system; empty if there were none.
    fn calls(&self) -> String {
        let by = &self.io.by;
        if by.is_empty() {
            return String::new();
        }
        let cells = by.iter().map(|cell| {
            [
                cell.op.for_terminal(),
                cell.layer.for_terminal(),
                shown(&cell.fs, 24),
                text::count(cell.calls),
                text::bytes(cell.bytes as f64),
                text::seconds(cell.seconds),
            ]
        });
        let head = ["operation", "layer", "file system", "calls", "bytes", "time"];
        format!("\n{}", table(&head, &cells.collect::<Vec<_>>()))
    }

    fn where_time_went(&self) -> Rows {
        let time = &self.time;
        let mut rows = Rows::default();
        for (name, seconds) in
            [("not in I/O or MPI", time.compute_s), ("I/O", time.io_s), ("MPI", time.mpi_s)]
        {
            let share = text::percent(seconds / time.threads_s);
            rows.row(name, format!("{} ({share})", text::seconds(seconds)));
        }
        rows
    }

    /// A table of the ten functions that took longest; empty if there were none.
    fn mpi_functions(&self) -> String {
        let mut functions: Vec<&MpiCell> = self.mpi.by_function.iter().collect();
        if functions.is_empty() {
            return String::new();
        }
        functions.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        let cells = functions.iter().take(10).map(|cell| {
            [
                cell.function.for_terminal(),
                text::count(cell.calls),
                text::bytes(cell.bytes as f64),
                text::seconds(cell.seconds),
            ]
        });
        format!("\n{}", table(&["MPI function", "calls", "bytes", "time"], &cells.collect::<Vec<_>>()))
    }

    /// A table of runs of the same application; empty if there were none.
    fn earlier_runs(&self) -> String {
        if self.earlier.is_empty() {
            return String::new();
        }
        let cells = self.earlier.iter().map(|run| {
            [
                shown(&run.job, 24),
                text::date(run.start_unix_s),
                run.size.to_string(),
                run.run_time_s.map_or("–".to_owned(), text::seconds),
                text::bytes(run.bytes_read as f64),
                text::bytes(run.bytes_written as f64),
                build_start(&run.build),
            ]
        });
        let head = ["job", "start", "procs", "run time", "read", "written", "build"];
        format!("\nEarlier runs\n{}", table(&head, &cells.collect::<Vec<_>>()))
    }
}

fn processes(n: u32) -> String {
    if n == 1 { "1 process".to_owned() } else { format!("{} processes", text::count(n.into())) }
}

/// As much of a build id as people compare.
fn build_start(build: &Untrusted) -> String {
    build.as_said().chars().take(12).filter(char::is_ascii_hexdigit).collect()
}
