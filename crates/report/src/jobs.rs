//! Report on jobs that a daemon watches: a list, one of them, and who loads the machine now.

use std::fmt::Write;

use iotide_ledger::{Cell, Counters, Metric};
use serde::{Deserialize, Serialize};

use iotide_look::Untrusted;
use iotide_look::text::{self, Rows};

use crate::series::JobRates;
use crate::why::JobWhy;

#[cfg(test)]
pub(crate) mod tests;

/// Jobs that were asked for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct JobList {
    /// The jobs, the latest first.
    pub jobs: Vec<JobEntry>,
    /// Where the rest begins, if there is more.
    pub next: Option<String>,
}

/// A job in a list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct JobEntry {
    /// Its id.
    pub job: Untrusted,
    /// Whose it is.
    pub user: Untrusted,
    /// Which application it is a run of.
    pub app: Untrusted,
    /// Name for people: its name at the scheduler, else its program.
    pub name: Untrusted,
    /// The program that works in it.
    #[serde(default)]
    pub program: Untrusted,
    /// The scheduler's partition.
    #[serde(default)]
    pub partition: Untrusted,
    /// How many processes it has.
    pub size: u32,
    /// Where it runs.
    pub nodes: Vec<Untrusted>,
    /// `running`, `ended` or `partial`.
    pub state: String,
    /// Who says that it is this job: `cgroup` or `claimed`.
    pub trust: String,
    /// When it began.
    pub start_unix_s: f64,
    /// When it ended.
    pub end_unix_s: Option<f64>,
    /// Bytes read per second: now, or over its life once it has ended.
    pub read_bps: Option<f64>,
    /// Bytes written per second.
    pub write_bps: Option<f64>,
    /// Processor time of its processes, where the system counts it.
    #[serde(default)]
    pub cpu_s: Option<f64>,
    /// Memory it has now; once it has ended, the most it had.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// How far apart its I/O phases are.
    pub period_s: Option<f64>,
    /// When the next one begins.
    pub next_phase_unix_s: Option<f64>,
    /// Bytes per phase.
    #[serde(default)]
    pub bytes_per_phase: Option<f64>,
    /// Confidence that they are so far apart.
    #[serde(default)]
    pub confidence: Option<f64>,
    /// Data that is missing.
    pub losses: Vec<Untrusted>,
    /// Its buffers, as far as `iotide stage out` brings results away from them on this node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub staging: Vec<JobStaging>,
}

/// Results of a job that leave a buffer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobStaging {
    /// From here.
    pub source: Untrusted,
    /// To there.
    pub destination: Untrusted,
    /// `flush`, `stuck`, `idle`, `drain`, `hold` or `run`.
    pub state: Untrusted,
    /// Bytes that are safe.
    pub bytes_safe: u64,
    /// Bytes that are not.
    pub backlog_bytes: u64,
    /// When the buffer will be full, in seconds from now.
    pub full_at_s: Option<f64>,
}

/// Note that a stager leaves for the daemon of its node.
#[derive(Serialize, Deserialize)]
struct StagingNote {
    job: String,
    #[serde(flatten)]
    staging: JobStaging,
}

impl JobStaging {
    /// As a stager leaves it for the daemon of its node.
    pub fn to_note(&self, job: &str) -> String {
        answer_json(&StagingNote { job: job.to_owned(), staging: self.clone() })
    }

    /// Reads such a note: of which job, and what. `None` if it is none.
    pub fn from_note(json: &[u8]) -> Option<(String, Self)> {
        let StagingNote { job, staging } = serde_json::from_slice(json).ok()?;
        Some((job, staging))
    }

    /// In a line.
    pub fn to_text(&self) -> String {
        let mut out = format!(
            "{} to go from {} to {} ({}), {} safe",
            text::bytes(self.backlog_bytes as f64),
            self.source.for_terminal(),
            self.destination.for_terminal(),
            self.state.for_terminal(),
            text::bytes(self.bytes_safe as f64),
        );
        if let Some(full_at_s) = self.full_at_s {
            let _ = write!(out, "; full in {}", text::seconds(full_at_s));
        }
        out
    }
}

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

/// A job as the metric proxy describes it.
#[derive(Clone, Debug, Serialize)]
pub struct ProxyJob {
    /// Its id.
    pub jobid: Untrusted,
    /// Its command line.
    pub command: Untrusted,
    /// How many processes it has.
    pub size: u32,
    /// Where it runs.
    pub nodelist: Untrusted,
    /// The scheduler's partition.
    pub partition: Untrusted,
    /// The scheduler's name for the machine.
    pub cluster: Untrusted,
    /// The directory it runs in.
    pub run_dir: Untrusted,
    /// When it began.
    pub start_time: u64,
    /// When it ended; 0 while it runs.
    pub end_time: u64,
}

/// Counters of a job, in the form of the metric proxy.
#[derive(Clone, Debug, Serialize)]
pub struct ProxyProfile {
    /// Which job.
    pub desc: ProxyJob,
    /// Values of the counters, by name.
    pub counters: std::collections::BTreeMap<String, f64>,
}

/// An answer that says what was wrong with the question.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Refused {
    /// Description of the error.
    pub error: Untrusted,
}

impl Refused {
    /// Reads what a daemon answered; `None` if that is something else.
    pub fn from_json(json: &[u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }
}

/// Returns an answer as JSON in one line.
pub fn answer_json(answer: &impl Serialize) -> String {
    text::json(answer) + "\n"
}

impl JobList {
    /// Reads a list that a daemon answered.
    pub fn from_json(json: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(json).map_err(|error| error.to_string())
    }

    /// The list as a document.
    pub fn to_json(&self) -> String {
        text::json_document(self)
    }

    /// The list as a table; a job that runs has run until now.
    pub fn to_text(&self, now_unix_s: f64) -> String {
        if self.jobs.is_empty() {
            return "no jobs\n".to_owned();
        }
        let head = ["job", "user", "name", "procs", "state", "start", "run time", "read", "write"];
        let rows = self.jobs.iter().map(|job| {
            [
                shown(&job.job, 24),
                shown(&job.user, 12),
                job.label(),
                job.size.to_string(),
                job.state.clone(),
                text::date(job.start_unix_s),
                job.run_time_until(now_unix_s).map_or("–".to_owned(), text::seconds),
                rate(job.read_bps),
                rate(job.write_bps),
            ]
        });
        let mut out = table(&head, &rows.collect::<Vec<_>>());
        for job in &self.jobs {
            for staging in &job.staging {
                let _ = writeln!(out, "staging of {}: {}", shown(&job.job, 24), staging.to_text());
            }
        }
        if self.next.is_some() {
            out.push_str("there are more; --limit shows them\n");
        }
        out
    }

    /// Who loads the machine now: running jobs, the busiest first, and when their next phases begin.
    pub fn to_top(&self, now_unix_s: f64) -> String {
        let load = |job: &&JobEntry| job.read_bps.unwrap_or(0.0) + job.write_bps.unwrap_or(0.0);
        let mut running: Vec<&JobEntry> = self.jobs.iter().filter(|job| job.state == "running").collect();
        running.sort_by(|a, b| load(b).total_cmp(&load(a)));
        let total = running.iter().map(load).fold(0.0, |sum, load| sum + load);
        let mut out = format!(
            "{} running, {} in all\n",
            text::counted(running.len() as u64, "job"),
            text::bandwidth(total)
        );
        if running.is_empty() {
            return out;
        }
        let head = ["job", "user", "name", "procs", "read", "write", "share", "period", "next phase in"];
        let rows = running.iter().map(|job| {
            [
                shown(&job.job, 24),
                shown(&job.user, 12),
                job.label(),
                job.size.to_string(),
                rate(job.read_bps),
                rate(job.write_bps),
                if total > 0.0 { text::percent(load(job) / total) } else { "–".to_owned() },
                job.period_s.map_or("–".to_owned(), text::seconds),
                job.next_phase_in(now_unix_s),
            ]
        });
        out.push_str(&table(&head, &rows.collect::<Vec<_>>()));
        out
    }
}

impl JobEntry {
    /// The program that works in it. An older daemon says it as the job's name.
    pub fn program(&self) -> &Untrusted {
        if self.program.is_empty() { &self.name } else { &self.program }
    }

    /// Whether it has a name beside that of its program.
    pub fn has_own_name(&self) -> bool {
        !self.name.is_empty() && self.name != *self.program()
    }

    /// The share of its processes' time in which they had a processor; `now_unix_s` counts for a job that runs.
    pub fn cpu_share(&self, now_unix_s: f64) -> Option<f64> {
        let run_s = self.end_unix_s.unwrap_or(now_unix_s) - self.start_unix_s;
        let of_s = run_s * f64::from(self.size.max(1));
        self.cpu_s.filter(|_| of_s > 0.0).map(|cpu_s| cpu_s / of_s)
    }

    /// Its name for a table, and what works in it.
    fn label(&self) -> String {
        let application = shown(called(&self.app, self.program()), 20);
        match self.has_own_name() {
            true => format!("{} ({application})", shown(&self.name, 20)),
            false => application,
        }
    }

    /// The time to the next phase, for a table. A phase that should have begun is on its way if it is late by less than a part of the period;
    /// after that, it is the one a period later.
    fn next_phase_in(&self, now_unix_s: f64) -> String {
        let (Some(next_s), Some(period_s)) = (self.next_phase_unix_s, self.period_s) else {
            return "–".to_owned();
        };
        let late_s = now_unix_s - next_s;
        let is_due = late_s > -0.5 && late_s < (0.1 * period_s).max(0.5);
        match is_due {
            true => "due".to_owned(),
            false if late_s <= 0.0 || period_s <= 0.0 => text::seconds(-late_s),
            false => text::seconds(period_s - late_s % period_s),
        }
    }

    fn run_time(&self) -> Option<f64> {
        Some(self.end_unix_s? - self.start_unix_s)
    }

    /// Its run time so far, if it still runs; clocks of machines may differ by a little.
    fn run_time_until(&self, now_unix_s: f64) -> Option<f64> {
        let so_far = (self.state == "running").then(|| (now_unix_s - self.start_unix_s).max(0.0).round());
        self.run_time().or(so_far)
    }
}

impl JobCgroup {
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
        self.cgroup = None;
        for (metric, cell) in counters.iter() {
            let (calls, bytes, seconds) = (cell.calls, cell.bytes, seconds(cell));
            let said = |name: &iotide_ledger::Name| Untrusted::from(name.as_str());
            match metric {
                Metric::Io { op, layer, fs } => {
                    let (op, layer, fs) = (said(op), said(layer), said(fs));
                    self.io.by.push(IoCell { op, layer, fs, calls, bytes, seconds });
                }
                Metric::Mpi { function } => {
                    let function = said(function);
                    self.mpi.by_function.push(MpiCell { function, calls, bytes, seconds });
                }
                Metric::Own { name, unit } => {
                    self.own.push(OwnCounter { name: said(name), unit: said(unit), value: calls });
                }
                Metric::Cgroup { what } => {
                    let cgroup = self.cgroup.get_or_insert_default();
                    match what.as_str() {
                        "cpu_user" => cgroup.cpu_user_s = seconds,
                        "cpu_system" => cgroup.cpu_system_s = seconds,
                        "device_read" => (cgroup.device_reads, cgroup.device_bytes_read) = (calls, bytes),
                        "device_write" => {
                            (cgroup.device_writes, cgroup.device_bytes_written) = (calls, bytes)
                        }
                        _ => {}
                    }
                }
                Metric::Threads | Metric::OtherThreads | Metric::Killed { .. } => {}
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
        let mut state = match entry.state.as_str() {
            "partial" => "ended; not all of its counts are known".to_owned(),
            state => state.to_owned(),
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
            match entry.trust.as_str() {
                "cgroup" => "from the system (cgroup)",
                _ => "as the program says",
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
                let now = if entry.state == "running" { "now" } else { "on average" };
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

/// Returns the name of an application for people: the name that its user gave it (`IOTIDE_APP`), else that of its program. An id that a daemon
/// made from a command is not shown.
pub fn called<'a>(app: &'a Untrusted, program: &'a Untrusted) -> &'a Untrusted {
    let said = app.as_said();
    let is_made = said.is_empty() || said.len() == 16 && said.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_made { program } else { app }
}

fn shown(text: &Untrusted, most_chars: usize) -> String {
    text.shortened(most_chars).for_terminal()
}

fn rate(bps: Option<f64>) -> String {
    bps.map_or("–".to_owned(), text::bandwidth)
}

/// A table; columns of numbers stand to the right.
pub(crate) fn table<const N: usize>(head: &[&str; N], rows: &[[String; N]]) -> String {
    let is_number = |text: &str| text.starts_with(|c: char| c.is_ascii_digit() || "–<>-".contains(c));
    let to_the_right: [bool; N] = std::array::from_fn(|index| {
        // Ids of jobs are names, whatever they look like.
        index > 0 && rows.iter().all(|row| is_number(&row[index]))
    });
    let mut widths = head.map(|name| name.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut out = String::new();
    let mut line = |cells: [&str; N]| {
        let mut text = String::from("  ");
        for (index, cell) in cells.into_iter().enumerate() {
            let padding = " ".repeat(widths[index] - cell.chars().count());
            let _ = if to_the_right[index] {
                write!(text, "{padding}{cell}  ")
            } else {
                write!(text, "{cell}{padding}  ")
            };
        }
        let _ = writeln!(out, "{}", text.trim_end());
    };
    line(*head);
    for row in rows {
        line(row.each_ref().map(String::as_str));
    }
    out
}
