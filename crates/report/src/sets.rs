//! The jobs at a storage, as its scheduler sees them.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::{Ink, Report, Tell, text};

/// What a mount or an arbiter says of its jobs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StorageJobs {
    /// Where it was asked.
    pub control: String,
    /// Who is served when.
    pub policy: String,
    /// The jobs, by name.
    pub jobs: Vec<JobAtStorage>,
}

/// One job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobAtStorage {
    /// Its name.
    pub job: String,
    /// Time from the start of one I/O phase to the next, if known.
    pub period_s: Option<f64>,
    /// Where that comes from: `given` or `predicted`.
    pub period_source: Option<String>,
    /// Its set: the order of magnitude of the period, `unknown`, `all` or `own`.
    pub set: Option<String>,
    /// The share of the bandwidth its set has now; none if it is idle.
    pub share: Option<f64>,
    /// Bytes per second of late.
    pub bandwidth_bps: f64,
    /// Bytes in all.
    pub bytes: u64,
    /// Requests that wait.
    pub waiting: u64,
    /// I/O phases so far.
    pub phases: u64,
}

/// The answer of a control socket.
#[derive(Deserialize)]
struct Answer {
    policy: String,
    jobs: Vec<JobAtStorage>,
}

impl StorageJobs {
    /// Reads what a control socket answers to `jobs`.
    pub fn from_answer(control: &str, answer: &str) -> Result<Self, serde_json::Error> {
        let Answer { policy, jobs } = serde_json::from_str(answer)?;
        Ok(Self { control: control.to_owned(), policy, jobs })
    }
}

impl Report<StorageJobs> {
    /// Returns what the scheduler of each storage says.
    pub fn of_storages(storages: Vec<StorageJobs>) -> Self {
        let mut report = Self::new("sets");
        report.runs = storages;
        report
    }
}

impl Tell for StorageJobs {
    fn tell(&self, _: usize, _: Ink) -> String {
        let mut out = format!("{} · policy {}\n", text::printable(&self.control), self.policy);
        if self.jobs.is_empty() {
            out.push_str("no job has been seen yet\n");
            return out;
        }
        let rows: Vec<[String; 7]> = self.jobs.iter().map(JobAtStorage::row).collect();
        let head = ["job", "period", "set", "share", "bandwidth", "moved", "waiting"].map(str::to_owned);
        let widths: Vec<usize> = (0..head.len())
            .map(|column| {
                rows.iter().chain([&head]).map(|row| row[column].chars().count()).max().unwrap_or(0)
            })
            .collect();
        for row in [&head].into_iter().chain(&rows) {
            let mut line = format!("{:<1$}", row[0], widths[0]);
            for (cell, width) in row.iter().zip(&widths).skip(1) {
                let _ = write!(line, "  {cell:>width$}");
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

impl JobAtStorage {
    fn row(&self) -> [String; 7] {
        let none = || "–".to_owned();
        let period = self.period_s.map(|period_s| {
            let mark = if self.period_source.as_deref() == Some("given") { "" } else { " ?" };
            format!("{}{mark}", text::seconds(period_s))
        });
        [
            text::printable(&self.job).to_string(),
            period.unwrap_or_else(none),
            self.set.clone().unwrap_or_else(none),
            self.share.map_or_else(none, text::percent),
            text::bandwidth(self.bandwidth_bps),
            text::bytes(self.bytes as f64),
            if self.waiting == 0 { none() } else { self.waiting.to_string() },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_a_row_and_a_guess_is_marked() {
        let answer = r#"{"policy":"set10","jobs":[
            {"job":"7","period_s":19.2,"period_source":"predicted","set":"1","share":0.9,"bandwidth_bps":110e6,"bytes":5000000,"waiting":3,"phases":4},
            {"job":"12","period_s":null,"period_source":null,"set":null,"share":null,"bandwidth_bps":0,"bytes":10,"waiting":0,"phases":0}]}"#;
        let jobs = StorageJobs::from_answer("/run/x.sock", answer).unwrap();
        let told = Report::of_storages(vec![jobs]).to_text(80);
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines[0], "/run/x.sock · policy set10");
        assert!(lines[2].starts_with("7 ") && lines[2].contains("19.2 s ?"), "{told}");
        assert!(lines[3].starts_with("12 ") && lines[3].ends_with('–'), "{told}");
        assert!(StorageJobs::from_answer("x", "{}").is_err());
    }
}
