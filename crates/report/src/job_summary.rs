//! The end of a job in one block: what was asked for, what was used, its I/O, and what to do about it.

use iotide_ledger::JobState;
use iotide_look::Untrusted;
use iotide_look::text::{self, Rows};
use serde::Serialize;

use crate::SCHEMA;
use crate::issue::Issue;
use crate::jobs::{JobDocument, answer_json};
use crate::why::JobWhy;

/// Resources that were asked for, or used; those that are not known are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct JobResources {
    /// Run time, in seconds: the limit, or what it took.
    pub time_s: Option<f64>,
    /// Processors.
    pub cpus: Option<u32>,
    /// Machines.
    pub nodes: Option<u32>,
    /// Memory of all machines together, in bytes.
    pub memory_bytes: Option<f64>,
    /// Processor time, in seconds; of what was used only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
}

/// The end of a job in one block.
#[derive(Clone, Debug, Serialize)]
pub struct JobSummary {
    schema: &'static str,
    command: &'static str,
    /// Which job.
    pub job: Untrusted,
    /// Whose it is.
    pub user: Untrusted,
    /// Its name at the scheduler, else its program.
    pub name: Untrusted,
    /// Whether it runs.
    pub state: JobState,
    /// How many processes it had.
    pub n_processes: u32,
    /// When it began.
    pub start_unix_s: f64,
    /// When it ended.
    pub end_unix_s: Option<f64>,
    /// Resources that it asked for.
    pub asked: JobResources,
    /// Resources that it used.
    pub used: JobResources,
    /// The share of what it asked for that it used.
    pub efficiency: Efficiency,
    /// Its I/O.
    pub io: SummedIo,
    /// Whether it was slower than earlier runs, and why.
    pub why: Option<JobWhy>,
    /// How many I/O issues of medium severity or above were found.
    pub n_issues: usize,
    /// The issue with the largest gain.
    pub issue: Option<Issue>,
    /// Data that is missing.
    pub losses: Vec<Untrusted>,
}

/// Shares of what was asked for; above 1 where more was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Efficiency {
    /// Of the time limit.
    pub time: Option<f64>,
    /// Of the time of all processors.
    pub cpu: Option<f64>,
    /// Of the memory.
    pub memory: Option<f64>,
}

/// I/O of a job in a few numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SummedIo {
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Calls that read or wrote.
    pub calls: u64,
    /// Time in I/O, over all threads.
    pub seconds: f64,
    /// Its share of the time of all threads.
    pub of_threads: Option<f64>,
    /// The period of its I/O.
    pub period_s: Option<f64>,
}

impl JobSummary {
    /// Sums up a job, with what its scheduler says of it; what the scheduler measured counts before what was counted here.
    pub fn new(job: &JobDocument, asked: JobResources, measured: JobResources) -> Self {
        let entry = &job.entry;
        let cgroup = job.cgroup.as_ref();
        let used = JobResources {
            time_s: measured.time_s.or(job.run_time_s),
            cpus: measured.cpus,
            nodes: measured.nodes.or(u32::try_from(entry.nodes.len()).ok().filter(|n| *n > 0)),
            memory_bytes: measured.memory_bytes.or(cgroup.and_then(|of| Some(of.memory_peak_bytes? as f64))),
            cpu_s: measured.cpu_s.or(cgroup.map(|of| of.cpu_user_s + of.cpu_system_s)),
        };
        let share = |part: Option<f64>, whole: Option<f64>| Some(part? / whole.filter(|whole| *whole > 0.0)?);
        let all_cpus_s = asked.cpus.zip(used.time_s).map(|(cpus, time_s)| f64::from(cpus) * time_s);
        let io_s = job.io.seconds_read + job.io.seconds_written + job.io.seconds_other;
        let issues = job.judged().map_or(Vec::new(), |found| found.issues);
        let counts = |issue: &&Issue| issue.severity != "low" && issue.same_calls_as.is_none();
        Self {
            schema: SCHEMA,
            command: "job",
            job: entry.job.clone(),
            user: entry.user.clone(),
            name: if entry.name.is_empty() { entry.program().clone() } else { entry.name.clone() },
            state: entry.state,
            n_processes: entry.size,
            start_unix_s: entry.start_unix_s,
            end_unix_s: entry.end_unix_s,
            asked,
            used,
            efficiency: Efficiency {
                time: share(used.time_s, asked.time_s),
                cpu: share(used.cpu_s, all_cpus_s),
                memory: share(used.memory_bytes, asked.memory_bytes),
            },
            io: SummedIo {
                bytes_read: job.io.bytes_read,
                bytes_written: job.io.bytes_written,
                calls: job.io.calls_read + job.io.calls_written,
                seconds: io_s,
                of_threads: share(Some(io_s), Some(job.time.threads_s)),
                period_s: entry.period_s,
            },
            why: job.why.clone(),
            n_issues: issues.iter().filter(counts).count(),
            issue: issues.iter().find(counts).cloned(),
            losses: entry.losses.clone(),
        }
    }

    /// The summary as one line of JSON.
    pub fn to_json_line(&self) -> String {
        answer_json(self)
    }

    /// The summary as a block of text.
    pub fn to_text(&self, width: usize) -> String {
        let mut rows = Rows::default();
        let asked = in_words(&self.asked, Efficiency::default());
        if !asked.is_empty() {
            rows.row("asked for", asked);
        }
        let used = in_words(&self.used, self.efficiency);
        if !used.is_empty() {
            rows.row("used", used);
        }
        rows.row("I/O", self.io_in_words());
        if let Some(why) = self.why.as_ref().filter(|why| why.n_history > 0) {
            rows.row("compared", why.text.for_terminal());
        }
        match &self.issue {
            None => rows.row("top issue", "none found"),
            Some(issue) => {
                let more = self.n_issues.saturating_sub(1);
                let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
                rows.row("top issue", format!("{}{more}", issue.text));
                rows.row("what to do", issue.advice);
                if let Some(command) = &issue.command {
                    rows.row("command", command.for_terminal());
                }
            }
        }
        let losses: Vec<String> = self.losses.iter().take(MOST_LOSSES).map(Untrusted::for_terminal).collect();
        if !losses.is_empty() {
            rows.row("missing", losses.join("; "));
        }
        rows.row("details", format!("iotide job {}", self.job.for_terminal()));
        format!("{}\n{}", self.headline(), rows.render(width, str::to_owned))
    }

    /// The first line, which serves as the subject of a mail: who ran what, and how it ended.
    pub fn headline(&self) -> String {
        let state = match (self.state, self.used.time_s) {
            (JobState::Running, Some(time_s)) => format!("runs for {}", text::seconds(time_s)),
            (JobState::Running, None) => "runs".to_owned(),
            (_, Some(time_s)) => format!("ended after {}", text::seconds(time_s)),
            (_, None) => "ended".to_owned(),
        };
        let name = self.name.shortened(40).for_terminal();
        let (job, user) = (self.job.shortened(64).for_terminal(), self.user.shortened(32).for_terminal());
        format!("Job {job} ({name}) of {user} {state}")
    }

    fn io_in_words(&self) -> String {
        let SummedIo { bytes_read, bytes_written, calls, seconds, of_threads, period_s } = self.io;
        if calls == 0 {
            return "no reads or writes were counted".to_owned();
        }
        let share = of_threads
            .map_or(String::new(), |share| format!(" ({} of its threads' time)", text::percent(share)));
        let period = period_s.map_or(String::new(), |period| format!("; every {}", text::seconds(period)));
        format!(
            "{} read, {} written in {}; {} in I/O{share}{period}",
            text::bytes(bytes_read as f64),
            text::bytes(bytes_written as f64),
            text::counted(calls, "call"),
            text::seconds(seconds)
        )
    }
}

/// Losses in a block; a job's page has all.
const MOST_LOSSES: usize = 3;

/// Resources in one line, each with its share of what was asked for.
fn in_words(of: &JobResources, share: Efficiency) -> String {
    let part =
        |share: Option<f64>| share.map_or(String::new(), |share| format!(" ({})", text::percent(share)));
    let all = [
        of.nodes.map(|n| text::counted(n.into(), "node")),
        of.cpus.map(|n| text::counted(n.into(), "processor")),
        of.cpu_s.map(|cpu_s| format!("{} of processor time{}", text::seconds(cpu_s), part(share.cpu))),
        of.memory_bytes.map(|bytes| format!("{} of memory{}", text::bytes(bytes), part(share.memory))),
        of.time_s.map(|time_s| format!("{}{}", text::seconds(time_s), part(share.time))),
    ];
    all.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Why a list of resources cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{part}' is not one of time=[D-]H:MM:SS, cpus=N, nodes=N, memory=8GB and cpu_time=H:MM:SS")]
pub struct NoResource {
    part: String,
}

impl std::str::FromStr for JobResources {
    type Err = NoResource;

    /// Reads `time=2:00:00,cpus=4,nodes=1,memory=8GB,cpu_time=7:58:00`, as schedulers write these values. Empty values, `N/A`, `UNLIMITED` and a dash are not known.
    fn from_str(text: &str) -> Result<Self, NoResource> {
        let mut of = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let bad = || NoResource { part: part.chars().take(64).collect() };
            let (name, value) = part.split_once('=').ok_or_else(bad)?;
            let value = value.trim();
            let is_known =
                !["", "-", "n/a", "unlimited", "unknown"].contains(&value.to_ascii_lowercase().as_str());
            match name.trim() {
                "time" if is_known => of.time_s = Some(time_of(value).ok_or_else(bad)?),
                "cpu_time" if is_known => of.cpu_s = Some(time_of(value).ok_or_else(bad)?),
                "cpus" if is_known => of.cpus = Some(value.parse().map_err(|_| bad())?),
                "nodes" if is_known => of.nodes = Some(value.parse().map_err(|_| bad())?),
                "memory" if is_known => of.memory_bytes = Some(memory_of(value).ok_or_else(bad)?),
                "time" | "cpu_time" | "cpus" | "nodes" | "memory" => {}
                _ => return Err(bad()),
            }
        }
        Ok(of)
    }
}

/// Reads a time as schedulers write it, in seconds: `90`, `2:30` (minutes), `1:02:30`, `2-00:00:00`, `90 second(s)`.
fn time_of(text: &str) -> Option<f64> {
    let (text, factor) = match text.split_once(' ') {
        Some((number, unit)) if unit.starts_with("min") => (number, 60.0),
        Some((number, unit)) if unit.starts_with("sec") => (number, 1.0),
        Some(_) => return None,
        None => (text, 1.0),
    };
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (days.parse::<u32>().ok()?, clock),
        None => (0, text),
    };
    let mut seconds = 0.0;
    let parts: Vec<&str> = clock.split(':').collect();
    if parts.len() > 3 {
        return None;
    }
    for part in parts {
        let number: f64 = part.parse().ok()?;
        seconds = 60.0 * seconds + number;
    }
    let all = f64::from(days) * 86_400.0 + seconds * factor;
    (all.is_finite() && all >= 0.0).then_some(all)
}

/// Reads memory as schedulers write it: `8GB`, `4000M`, `8388608kb`, `12 Mbytes`. Their units are binary; a number alone is bytes.
fn memory_of(text: &str) -> Option<f64> {
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.to_ascii_lowercase();
    let factor = match unit.trim_end_matches("ytes").trim_end_matches('b').trim_end_matches('i') {
        "" => 1.0,
        "k" => 1024.0,
        "m" => 1_048_576.0,
        "g" => 1_073_741_824.0,
        "t" => 1_099_511_627_776.0,
        _ => return None,
    };
    let bytes = number.trim().parse::<f64>().ok()? * factor;
    (bytes.is_finite() && bytes >= 0.0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::document::{IoCell, JobCgroup};

    #[test]
    fn resources_are_read_as_schedulers_write_them() {
        let read = |text: &str| text.parse::<JobResources>();
        // Slurm, PBS, LSF.
        let asked = read("time=1-02:00:00, cpus=4,nodes=2,memory=8000M").unwrap();
        assert_eq!((asked.time_s, asked.cpus, asked.nodes), (Some(93_600.0), Some(4), Some(2)));
        assert_eq!(asked.memory_bytes, Some(8000.0 * 1_048_576.0));
        let used = read("cpu_time=00:01:30,memory=2048kb,time=45").unwrap();
        assert_eq!((used.cpu_s, used.memory_bytes, used.time_s), (Some(90.0), Some(2_097_152.0), Some(45.0)));
        let lsf = read("time=60.0 min,memory=1.5 Gbytes,cpu_time=12.0 second(s),cpus=-").unwrap();
        assert_eq!((lsf.time_s, lsf.cpu_s, lsf.cpus), (Some(3600.0), Some(12.0), None));
        assert_eq!(lsf.memory_bytes, Some(1.5 * 1_073_741_824.0));
        assert_eq!(read("time=UNLIMITED,memory=N/A,cpus="), Ok(JobResources::default()));
        for bad in ["time", "time=1:2:3:4", "memory=8X", "cpus=many", "walltime=3", "time=nan", "memory=-1G"]
        {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    fn job() -> JobDocument {
        let mut job = crate::jobs::tests::document();
        job.entry.state = JobState::Ended;
        job.entry.end_unix_s = Some(job.entry.start_unix_s + 600.0);
        job.run_time_s = Some(600.0);
        let small = |op: &str| IoCell {
            op: op.into(),
            layer: "posix".into(),
            fs: "/scratch".into(),
            calls: 4_000_000,
            bytes: 400_000_000,
            seconds: 900.0,
        };
        job.io.by = vec![small("write")];
        (job.io.bytes_written, job.io.calls_written, job.io.seconds_written) =
            (400_000_000, 4_000_000, 900.0);
        job.time.threads_s = 2400.0;
        job.cgroup = Some(JobCgroup {
            cpu_user_s: 900.0,
            cpu_system_s: 300.0,
            memory_peak_bytes: Some(3 << 30),
            ..JobCgroup::default()
        });
        job
    }

    #[test]
    fn a_block_says_what_was_asked_for_used_and_to_be_done() {
        let asked = "time=1:00:00,cpus=4,nodes=1,memory=8GB".parse().unwrap();
        let summary = JobSummary::new(&job(), asked, JobResources::default());
        let block = summary.to_text(100);
        let took = text::seconds(600.0);
        assert!(block.starts_with(&format!("Job 4711 (lmp) of ada ended after {took}\n")), "{block}");
        let in_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let words = in_line(&block);
        for part in [
            format!(
                "asked for 1 node, 4 processors, {} of memory, {}",
                text::bytes(8.0 * 1_073_741_824.0),
                text::seconds(3600.0)
            ),
            format!("{} of processor time ({})", text::seconds(1200.0), text::percent(0.5)),
            format!("{} of memory ({})", text::bytes(3.0 * 1_073_741_824.0), text::percent(0.375)),
            format!("{took} ({})", text::percent(600.0 / 3600.0)),
            format!("400 MB written in {}", text::counted(4_000_000, "call")),
            format!("{} in I/O ({} of", text::seconds(900.0), text::percent(0.375)),
            "top issue".to_owned(),
            "what to do".to_owned(),
            "details iotide job 4711".to_owned(),
        ] {
            assert!(words.contains(&in_line(&part)), "{part}: {words}");
        }
        let line = summary.to_json_line();
        assert_eq!(line.matches('\n').count(), 1, "one line: {line}");
        for part in [
            "\"efficiency\":{\"time\":0.16666666666666666,\"cpu\":0.5,\"memory\":0.375}",
            "\"id\":\"small_writes\"",
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
    }

    #[test]
    fn what_the_scheduler_measured_counts_and_what_nobody_knows_is_left_out() {
        let measured = "cpu_time=10:00,memory=1GB".parse().unwrap();
        let summary = JobSummary::new(&job(), JobResources::default(), measured);
        assert_eq!((summary.used.cpu_s, summary.used.memory_bytes), (Some(600.0), Some(1_073_741_824.0)));
        assert_eq!(summary.efficiency, Efficiency::default());
        assert!(!summary.to_text(100).contains("asked for"));
    }

    #[test]
    fn names_of_others_steer_no_terminal() {
        let mut job = job();
        job.entry.name = crate::steering::hostile("name").into();
        job.entry.losses = vec![crate::steering::hostile("loss").into()];
        let summary = JobSummary::new(&job, JobResources::default(), JobResources::default());
        crate::steering::assert_plain(&summary.to_text(100), "\n");
    }
}
