//! The jobs at a storage, as its scheduler sees them; and those that a daemon knows, with the storages it acts on.

use std::fmt::Write;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::jobs::table;
use crate::{DecisionList, Ink, Report, Tell, text};
use iotide_look::Untrusted;
use iotide_sched::{IoProfile, JobId, KnownJob, LEAST_CONFIDENCE, PeriodSource, Policy, UnknownJobs};

/// Jobs as a mount or an arbiter reports them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StorageJobs {
    /// Where it was asked.
    pub control: Untrusted,
    /// Who is served when.
    pub policy: String,
    /// Whose rules that follows: `iotide` or `report`.
    pub rules: Option<String>,
    /// The jobs, by name.
    pub jobs: Vec<JobAtStorage>,
}

/// One job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobAtStorage {
    /// Its name.
    pub job: Untrusted,
    /// Time from the start of one I/O phase to the next, if known.
    pub period_s: Option<f64>,
    /// Where that comes from: `given`, `reported` or `predicted`.
    #[serde(serialize_with = "source_name", deserialize_with = "source_of_name", default)]
    pub period_source: Option<PeriodSource>,
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
    /// The job of the same set whose turn it is, while requests wait.
    #[serde(default)]
    pub waits_for: Option<Untrusted>,
    /// I/O phases so far.
    pub phases: u64,
}

fn source_name<S: Serializer>(source: &Option<PeriodSource>, to: S) -> Result<S::Ok, S::Error> {
    source.map(PeriodSource::name).serialize(to)
}

/// Reads where a period comes from; `None` where a newer arbiter knows more sources.
fn source_of_name<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PeriodSource>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.and_then(|name| PeriodSource::of_name(&name)))
}

/// The answer of a control socket.
#[derive(Deserialize)]
struct Answer {
    policy: String,
    #[serde(default)]
    rules: Option<String>,
    jobs: Vec<JobAtStorage>,
}

impl StorageJobs {
    /// Reads what a control socket answers to `jobs`.
    pub fn from_answer(control: &str, answer: &str) -> Result<Self, serde_json::Error> {
        let Answer { policy, rules, jobs } = serde_json::from_str(answer)?;
        Ok(Self { control: control.into(), policy, rules, jobs })
    }
}

/// Whoever was asked for jobs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum WhoKnows {
    /// The scheduler of a storage.
    Storage(StorageJobs),
    /// A daemon or a detector.
    Source(SourceJobs),
}

/// Jobs as a daemon or a detector reports them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SourceJobs {
    /// Who was asked.
    pub source: Untrusted,
    /// The storages that rules of the daemon act on; `None` if it does not say so to whoever asks.
    pub targets: Option<Vec<SourceTarget>>,
    /// The jobs, by name.
    pub jobs: Vec<JobOfSource>,
}

/// A storage that a rule of a daemon acts on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SourceTarget {
    /// Its control socket.
    pub control: Untrusted,
    /// The rules.
    pub rules: Vec<Untrusted>,
}

/// One job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JobOfSource {
    /// Its name.
    pub job: Untrusted,
    /// Whose it is, if that is known.
    pub uid: Option<u32>,
    /// Time from the start of one I/O phase to the next, if known.
    pub period_s: Option<f64>,
    /// How certain that is.
    pub confidence: Option<f64>,
    /// How long ago it was found.
    pub age_s: Option<f64>,
    /// The set that Set-10 puts it into: the order of magnitude of the period, or `unknown`.
    pub set: String,
}

impl SourceJobs {
    /// Describes what a source says of jobs, with the storages its rules act on.
    pub fn new(source: &str, targets: Option<Vec<SourceTarget>>, jobs: Vec<KnownJob>) -> Self {
        let mut jobs: Vec<JobOfSource> = jobs.into_iter().map(JobOfSource::of).collect();
        jobs.sort_by(|a, b| (a.job.as_said(), a.uid).cmp(&(b.job.as_said(), b.uid)));
        Self { source: source.into(), targets, jobs }
    }
}

impl SourceTarget {
    /// The storages that rules act on, each once.
    pub fn of(decisions: &DecisionList) -> Vec<Self> {
        let mut targets: Vec<Self> = Vec::new();
        for rule in &decisions.rules {
            let Some(control) = &rule.control else { continue };
            match targets.iter_mut().find(|target| target.control == *control) {
                Some(target) => target.rules.push(rule.name.clone()),
                None => targets.push(Self { control: control.clone(), rules: vec![rule.name.clone()] }),
            }
        }
        targets
    }
}

impl JobOfSource {
    fn of(known: KnownJob) -> Self {
        // As those who act on it do: a period that is a guess puts a job nowhere.
        let is_relied_on = known.confidence.is_none_or(|confidence| confidence >= LEAST_CONFIDENCE);
        let profile = known.period_s.filter(|_| is_relied_on).and_then(IoProfile::checked);
        // Which job it is makes no difference where unknown ones are together.
        let placement = Policy::Set10(UnknownJobs::Together).place(JobId(0), profile.as_ref());
        Self {
            job: known.job.into(),
            uid: known.uid,
            period_s: known.period_s,
            confidence: known.confidence.filter(|_| known.period_s.is_some()),
            age_s: known.period_s.map(|_| known.age_s),
            set: placement.set.to_string(),
        }
    }

    fn row(&self) -> [String; 6] {
        let none = || "–".to_owned();
        [
            self.job.shortened(LONGEST_NAME).for_terminal(),
            self.uid.map_or_else(none, |uid| uid.to_string()),
            self.period_s.map_or_else(none, text::seconds),
            self.confidence.map_or_else(none, text::percent),
            self.age_s.map_or_else(none, |age_s| format!("{} ago", text::seconds(age_s))),
            self.set.clone(),
        ]
    }
}

impl Report<WhoKnows> {
    /// Returns what everyone says who was asked.
    pub fn of_jobs(asked: Vec<WhoKnows>) -> Self {
        let mut report = Self::new("sets");
        report.runs = asked;
        report
    }
}

impl Tell for WhoKnows {
    fn tell(&self, width: usize, ink: Ink) -> String {
        match self {
            Self::Storage(storage) => storage.tell(width, ink),
            Self::Source(source) => source.tell(width, ink),
        }
    }
}

impl Tell for SourceJobs {
    fn tell(&self, _: usize, _: Ink) -> String {
        let mut out = format!("{}\n", self.source.for_terminal());
        for SourceTarget { control, rules } in self.targets.iter().flatten() {
            let rules: Vec<String> =
                rules.iter().map(|rule| rule.shortened(LONGEST_NAME).for_terminal()).collect();
            let word = if rules.len() == 1 { "rule" } else { "rules" };
            let _ = writeln!(out, "target {} ({word} {})", control.for_terminal(), rules.join(", "));
        }
        if self.targets.is_none() {
            out.push_str("targets are shown to root and to the user of the daemon\n");
        }
        if self.jobs.is_empty() {
            out.push_str("no job runs that it knows\n");
            return out;
        }
        let rows: Vec<[String; 6]> = self.jobs.iter().map(JobOfSource::row).collect();
        out.push_str(&table(&["job", "uid", "period", "confidence", "found", "set"], &rows));
        let sets = self.jobs.iter().map(|job| job.set.as_str());
        explain_sets(sets, &mut out);
        if self.jobs.iter().any(|job| job.set == "unknown") {
            let _ = writeln!(
                out,
                "set unknown: no period is known, or its confidence is below {}",
                text::percent(LEAST_CONFIDENCE)
            );
        }
        out
    }
}

/// Which periods sets by order of magnitude have.
fn explain_sets<'a>(sets: impl Iterator<Item = &'a str>, out: &mut String) {
    let mut numbers: Vec<i32> = sets.filter_map(|set| set.parse().ok()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let ranges: Vec<String> = numbers
        .iter()
        .map(|&number| {
            let [from_s, to_s] = [-0.5, 0.5].map(|half| 10f64.powf(f64::from(number) + half));
            format!("{number}: {} to {}", text::seconds(from_s), text::seconds(to_s))
        })
        .collect();
    if !ranges.is_empty() {
        let _ = writeln!(out, "set: order of magnitude of the period in seconds ({})", ranges.join(", "));
    }
}

impl Tell for StorageJobs {
    fn tell(&self, _: usize, _: Ink) -> String {
        let by = if self.rules.as_deref() == Some("report") { " by the report's rules" } else { "" };
        let mut out = format!("{} · policy {}{by}\n", self.control.for_terminal(), self.policy);
        if self.jobs.is_empty() {
            out.push_str("no job has been seen yet\n");
            return out;
        }
        let rows: Vec<[String; 8]> = self.jobs.iter().map(JobAtStorage::row).collect();
        let head =
            ["job", "period", "set", "share", "bandwidth", "moved", "waiting", "for"].map(str::to_owned);
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
        self.explain(&mut out);
        out
    }
}

impl StorageJobs {
    /// Explains the short words of the table, as far as they are in it.
    fn explain(&self, out: &mut String) {
        let has = |is_so: fn(&JobAtStorage) -> bool| self.jobs.iter().any(is_so);
        let has_set = |name: &str| self.jobs.iter().any(|job| job.set.as_deref() == Some(name));
        if has(JobAtStorage::is_guess) {
            out.push_str("? predicted from the job's own requests, not given\n");
        }
        if has(JobAtStorage::is_reported) {
            out.push_str("* reported by a daemon or a detector (--periods)\n");
        }
        explain_sets(self.jobs.iter().filter_map(|job| job.set.as_deref()), out);
        if has_set("unknown") {
            out.push_str("set unknown: no period is known yet; these take turns\n");
        }
        if has_set("held back") {
            out.push_str("set held back: of users who have had more than others, who wait\n");
        }
        if has(|job| job.waiting > 0) {
            out.push_str("for: the job of the same set whose turn it is, or the storage, which is busy\n");
        }
    }
}

/// A name in the table; anyone can claim one that fills the screen. (The JSON has all of it.)
const LONGEST_NAME: usize = 32;

impl JobAtStorage {
    fn is_guess(&self) -> bool {
        self.period_s.is_some() && !self.is_reported() && self.period_source != Some(PeriodSource::Given)
    }

    fn is_reported(&self) -> bool {
        self.period_s.is_some() && self.period_source == Some(PeriodSource::Reported)
    }

    fn row(&self) -> [String; 8] {
        let none = || "–".to_owned();
        let period = self.period_s.map(|period_s| {
            let mark = match (self.is_guess(), self.is_reported()) {
                (true, _) => " ?",
                (_, true) => " *",
                _ => "",
            };
            format!("{}{mark}", text::seconds(period_s))
        });
        [
            self.job.shortened(LONGEST_NAME).for_terminal(),
            period.unwrap_or_else(none),
            self.set.clone().unwrap_or_else(none),
            self.share.map_or_else(none, text::percent),
            text::bandwidth(self.bandwidth_bps),
            text::bytes(self.bytes as f64),
            if self.waiting == 0 { none() } else { self.waiting.to_string() },
            match &self.waits_for {
                Some(job) => job.shortened(LONGEST_NAME).for_terminal(),
                None if self.waiting > 0 => "storage".to_owned(),
                None => none(),
            },
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Document;

    fn told(jobs: &str) -> String {
        let jobs =
            StorageJobs::from_answer("/run/x.sock", &format!(r#"{{"policy":"set10","jobs":[{jobs}]}}"#));
        Report::of_jobs(vec![WhoKnows::Storage(jobs.unwrap())]).to_text(80, Ink::Plain)
    }

    const PREDICTED: &str = r#"{"job":"7","period_s":0.175,"period_source":"predicted","set":"-1","share":0.9,
        "bandwidth_bps":110e6,"bytes":5000000,"waiting":3,"waits_for":"8","phases":4}"#;
    const GIVEN: &str = r#"{"job":"8","period_s":19.2,"period_source":"given","set":"1","share":0.1,
        "bandwidth_bps":0,"bytes":10,"waiting":1,"waits_for":null,"phases":1}"#;
    const SMALL: &str = r#"{"job":"12","period_s":null,"period_source":null,"set":null,"share":null,
        "bandwidth_bps":0,"bytes":10,"waiting":0,"phases":0}"#;
    const UNKNOWN: &str = r#"{"job":"13","period_s":null,"period_source":null,"set":"unknown","share":null,
        "bandwidth_bps":0,"bytes":10,"waiting":0,"phases":0}"#;

    #[test]
    fn a_job_is_a_row_and_what_is_short_is_explained() {
        let told = told(&[PREDICTED, GIVEN, SMALL, UNKNOWN].join(","));
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines[0], "/run/x.sock · policy set10");
        assert!(
            lines[2].starts_with("7 ") && lines[2].contains("175 ms ?") && lines[2].ends_with(" 8"),
            "{told}"
        );
        assert!(lines[3].starts_with("8 ") && lines[3].ends_with("storage"), "{told}");
        assert!(lines[4].starts_with("12 ") && lines[4].ends_with('–'), "{told}");
        assert_eq!(
            lines[6..],
            [
                "? predicted from the job's own requests, not given",
                "set: order of magnitude of the period in seconds (-1: 31.6 ms to 316 ms, 1: 3.16 s to 31.6 s)",
                "set unknown: no period is known yet; these take turns",
                "for: the job of the same set whose turn it is, or the storage, which is busy",
            ]
        );
    }

    #[test]
    fn what_is_not_there_is_not_explained() {
        assert_eq!(told(SMALL).lines().count(), 3);
        assert!(StorageJobs::from_answer("x", "{}").is_err());
    }

    #[test]
    fn a_source_is_shown_with_its_targets_and_a_guess_is_in_no_set() {
        let known = |job: &str, period_s, confidence| KnownJob {
            job: job.to_owned(),
            uid: Some(1000),
            period_s,
            confidence: Some(confidence),
            age_s: 12.0,
            ..KnownJob::default()
        };
        let jobs = vec![known("9", None, 0.0), known("8", Some(300.0), 0.4), known("7", Some(19.2), 0.93)];
        let target =
            SourceTarget { control: "/run/a".into(), rules: vec!["scratch".into(), "results".into()] };
        let source = SourceJobs::new("the daemon at /run/d", Some(vec![target]), jobs);
        let report = Report::of_jobs(vec![WhoKnows::Source(source)]);
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        let run = &json["runs"][0];
        assert_eq!(run["targets"][0]["control"], "/run/a");
        assert_eq!((&run["jobs"][0]["set"], &run["jobs"][0]["confidence"]), (&"1".into(), &0.93.into()));
        assert_eq!(run["jobs"][2]["confidence"], serde_json::Value::Null);
        let told = report.to_text(80, Ink::Plain);
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines[..2], ["the daemon at /run/d", "target /run/a (rules scratch, results)"]);
        let ends_with = |line: &str, set: &str| line.split_whitespace().next_back() == Some(set);
        assert!(
            lines[3].contains("19.2 s") && lines[3].contains("93 %") && ends_with(lines[3], "1"),
            "{told}"
        );
        assert!(lines[4].contains("40 %") && ends_with(lines[4], "unknown"), "{told}");
        assert!(ends_with(lines[5], "unknown"), "{told}");
        assert_eq!(lines[7..], ["set unknown: no period is known, or its confidence is below 50 %"]);
    }

    #[test]
    fn a_long_name_does_not_push_the_rest_out_of_sight() {
        let long = format!(
            r#"{{"job":"{}","period_s":1.5,"period_source":"predicted","set":"held back","share":0.5,
            "bandwidth_bps":0,"bytes":10,"waiting":1,"waits_for":"{}","phases":1}}"#,
            "n".repeat(200),
            "m".repeat(200)
        );
        let told = told(&long);
        assert!(told.lines().all(|line| line.chars().count() < 140), "{told}");
        assert!(told.contains("set held back: "), "{told}");
    }
}
