//! Report on jobs that a daemon watches: a list, one of them, and who loads the machine now.

use std::collections::BTreeMap;
use std::fmt::Write;

use iotide_ledger::{JobState, Trust};
use serde::{Deserialize, Serialize};

use iotide_look::Untrusted;
use iotide_look::text;

pub use self::document::{EarlierRun, JobDocument, JobIo, JobMpi, JobTime};

pub(crate) mod document;
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
    /// Whether it runs.
    pub state: JobState,
    /// Who says that it is this job.
    pub trust: Trust,
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
    pub counters: BTreeMap<String, f64>,
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
                job.state.as_str().to_owned(),
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
        let mut running: Vec<&JobEntry> =
            self.jobs.iter().filter(|job| job.state == JobState::Running).collect();
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
        let so_far =
            (self.state == JobState::Running).then(|| (now_unix_s - self.start_unix_s).max(0.0).round());
        self.run_time().or(so_far)
    }
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
