//! The labels of one run, as they are told and as they are kept.

use std::borrow::Cow;

use iotide_analysis::{Access, Categories, Category, CategoryMethod, Evidence, FoundPeriod, Label};
use iotide_look::Untrusted;
use iotide_look::text::{self, Rows};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use crate::history::History;
use crate::issue::RunIssues;
use crate::run::{Loss, Source};
use crate::{Ink, Tell};

/// A run and its labels.
#[derive(Clone, Debug, Serialize)]
pub struct LabelledRun {
    /// Source that was read.
    pub source: Source,
    /// The file it was read from, where results are kept: a log that changes is read again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<LogIdentity>,
    /// The program, by which runs are put together; `None` if the source names none.
    pub application: Option<Untrusted>,
    /// How labels were found: `auto` or `mosaic`.
    pub method: &'static str,
    /// The labels.
    pub categories: Vec<&'static str>,
    /// Evidence for each label.
    pub evidence: LabelEvidence,
    /// The periods of reads and writes.
    pub periods: Periods,
    /// Load on the metadata server.
    pub metadata: Metadata,
    /// How long the run took: as the source states, else from the first event to the last.
    pub run_time_s: f64,
    /// Why the labels should not be counted, if they should not.
    pub rejected: Option<Untrusted>,
    /// Its I/O issues, where that was asked for.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub issues: Option<RunIssues>,
    /// How it compares with earlier runs of the same application, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<History>,
    /// Data known to be missing.
    pub losses: Vec<Loss>,
}

impl LabelledRun {
    /// Returns what was found, in the words of the report.
    pub fn new(
        source: Source,
        application: Option<impl Into<Untrusted>>,
        method: CategoryMethod,
        found: &Categories,
        losses: &[iotide_trace::Loss],
    ) -> Self {
        let periods = |periods: &[FoundPeriod]| periods.iter().map(Period::from).collect();
        Self {
            source,
            log: None,
            application: application.map(Into::into),
            method: method.name(),
            categories: found.labels.iter().map(|label| label.category.name()).collect(),
            evidence: LabelEvidence(found.labels.clone()),
            periods: Periods { read: periods(&found.read.periods), write: periods(&found.write.periods) },
            metadata: Metadata {
                requests: found.metadata.requests,
                most_per_s: found.metadata.most_per_s,
                spikes: found.metadata.n_spikes,
                mean_per_s: found.metadata.mean_per_s,
            },
            run_time_s: found.run_time_s,
            rejected: found.rejected.as_ref().map(|why| Untrusted::from(why.to_string())),
            issues: None,
            history: None,
            losses: losses.iter().map(Loss::from).collect(),
        }
    }

    /// Returns the same with its I/O issues.
    pub fn with_issues(mut self, issues: &iotide_analysis::Issues) -> Self {
        self.issues = Some(RunIssues::from(issues));
        self
    }

    /// Returns it as a line of JSON, with its newline.
    pub fn to_line(&self) -> String {
        line_of(self)
    }

    fn label_in_words(&self, label: &Label) -> String {
        let sure = text::percent(label.confidence);
        let evidence = match label.category {
            Category::Periodic(access) => {
                let periods = match access {
                    Access::Read => &self.periods.read,
                    Access::Write => &self.periods.write,
                };
                let periods: Vec<_> = periods.iter().map(|period| text::seconds(period.period_s)).collect();
                format!(": every {}", periods.join(" and every "))
            }
            Category::Metadata(_) => format!(
                ": {} requests, at most {} in a second",
                text::count(self.metadata.requests as u64),
                text::count(self.metadata.most_per_s.round() as u64)
            ),
            _ => String::new(),
        };
        format!("{} ({sure}){evidence}", label.category.name())
    }
}

impl Tell for LabelledRun {
    fn tell(&self, width: usize, ink: Ink) -> String {
        let name = self.source.path.for_terminal();
        let labels =
            if self.categories.is_empty() { "no label".to_owned() } else { self.categories.join(", ") };
        let headline = match &self.rejected {
            Some(why) => format!("{name}: not to be counted: {}", why.for_terminal()),
            None => format!("{name}: {labels}"),
        };
        let mut out = text::wrap(&headline, width).join("\n");
        if ink == Ink::Ansi {
            out = ink.bold(&out);
        }
        out.push_str("\n\n");
        let mut rows = Rows::default();
        rows.row("source", self.source.in_words());
        rows.row(
            "volume",
            format!(
                "{} read, {} written in {}",
                text::bytes(self.source.bytes_read),
                text::bytes(self.source.bytes_written),
                text::seconds(self.run_time_s)
            ),
        );
        let labels: Vec<_> = self.evidence.0.iter().map(|label| self.label_in_words(label)).collect();
        rows.row("labels", if labels.is_empty() { "none".to_owned() } else { labels.join("\n") });
        if let Some(issues) = &self.issues {
            issues.add_rows(&mut rows);
        }
        if let Some(history) = &self.history {
            rows.row("history", history.in_words());
        }
        let losses: Vec<_> = self.losses.iter().map(Loss::in_words).collect();
        rows.row("losses", if losses.is_empty() { "none".to_owned() } else { losses.join("\n") });
        out.push_str(&rows.render(width, |name| ink.faint(name)));
        out
    }
}

/// Size and time of a file, to detect whether it is the one that was read before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogIdentity {
    /// Its size.
    pub bytes: u64,
    /// When it was last written, in nanoseconds since 1970.
    pub mtime_ns: i64,
}

/// A log that has no labels, and why.
#[derive(Clone, Debug, Serialize)]
pub struct RejectedLog<'a> {
    /// Which.
    pub source: RejectedSource<'a>,
    /// The file it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<LogIdentity>,
    /// Reason why it has no labels.
    pub rejected: &'a str,
}

/// Which log has no labels.
#[derive(Clone, Debug, Serialize)]
pub struct RejectedSource<'a> {
    /// Where it is.
    pub path: &'a str,
}

impl<'a> RejectedLog<'a> {
    /// Returns that the log at `path` has no labels, and why.
    pub fn new(path: &'a str, log: Option<LogIdentity>, rejected: &'a str) -> Self {
        Self { source: RejectedSource { path }, log, rejected }
    }

    /// Returns it as a line of JSON, with its newline.
    pub fn to_line(&self) -> String {
        line_of(self)
    }
}

fn line_of(value: &impl Serialize) -> String {
    let mut line = iotide_look::text::json(value);
    line.push('\n');
    line
}

/// Label → its confidence and the numbers it rests on.
#[derive(Clone, Debug)]
pub struct LabelEvidence(Vec<Label>);

impl LabelEvidence {
    /// A row for each label: its name, how sure it is, and the numbers it rests on.
    pub fn cells(&self) -> impl Iterator<Item = [String; 3]> {
        self.0.iter().map(|label| {
            let numbers =
                label.evidence.iter().map(|Evidence { name, value }| text::named_number(name, *value));
            let numbers: Vec<String> = numbers.collect();
            [label.category.name().to_owned(), text::percent(label.confidence), numbers.join(", ")]
        })
    }
}

impl Serialize for LabelEvidence {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|label| (label.category.name(), Numbers(label))))
    }
}

struct Numbers<'a>(&'a Label);

impl Serialize for Numbers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(label) = self;
        let mut map = serializer.serialize_map(Some(label.evidence.len() + 1))?;
        map.serialize_entry("confidence", &label.confidence)?;
        for evidence in &label.evidence {
            map.serialize_entry(evidence.name, &evidence.value)?;
        }
        map.end()
    }
}

/// The periods of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Periods {
    /// Those of reads, the one that moves most bytes first.
    pub read: Vec<Period>,
    /// Those of writes.
    pub write: Vec<Period>,
}

/// A period.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Period {
    /// How long it is.
    pub period_s: f64,
    /// How sure that is.
    pub confidence: f64,
    /// The share of a period in which bytes are moved.
    pub busy_share: f64,
    /// Bytes that its operations move together.
    pub bytes: f64,
}

impl From<&FoundPeriod> for Period {
    fn from(found: &FoundPeriod) -> Self {
        let FoundPeriod { period_s, confidence, busy_share, bytes, .. } = *found;
        Self { period_s, confidence, busy_share, bytes }
    }
}

/// Load of a run on a metadata server.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Metadata {
    /// Opens, closes and seeks.
    pub requests: f64,
    /// The most in one second.
    pub most_per_s: f64,
    /// Seconds with a spike.
    pub spikes: f64,
    /// Requests per second of the run.
    pub mean_per_s: f64,
}

/// A line of results read back: what statistics and comparisons need of a run, or that it has no labels.
#[derive(Clone, Debug, Deserialize)]
pub struct ResultLine<'a> {
    /// Source that was read.
    #[serde(borrow)]
    pub source: SourceLine<'a>,
    /// The file it was read from.
    pub log: Option<LogIdentity>,
    /// The program.
    #[serde(borrow, default)]
    pub application: Option<Cow<'a, str>>,
    /// The labels.
    #[serde(borrow, default)]
    pub categories: Vec<Cow<'a, str>>,
    /// Load on the metadata server.
    #[serde(default)]
    pub metadata: Metadata,
    /// Its I/O issues; `None` if nobody looked.
    #[serde(borrow, default)]
    pub issues: Option<Vec<IssueLine<'a>>>,
    /// Its core-hours, where issues were looked for.
    #[serde(default)]
    pub core_hours: Option<f64>,
    /// How long the run took.
    #[serde(default)]
    pub run_time_s: f64,
    /// Why there are no labels, if there are none.
    #[serde(borrow, default)]
    pub rejected: Option<Cow<'a, str>>,
}

/// An issue of a [`ResultLine`].
#[derive(Clone, Debug, Deserialize)]
pub struct IssueLine<'a> {
    /// Its id.
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    /// How grave it is.
    #[serde(borrow)]
    pub severity: Cow<'a, str>,
    /// Gain of a fix.
    #[serde(default)]
    pub gain: Option<GainLine>,
}

/// The gain of an [`IssueLine`].
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct GainLine {
    /// Share of the run.
    pub of_run: f64,
}

/// The source of a [`ResultLine`].
#[derive(Clone, Debug, Deserialize)]
pub struct SourceLine<'a> {
    /// Where it was read from.
    #[serde(borrow)]
    pub path: Cow<'a, str>,
    /// The format it was in.
    #[serde(borrow, default)]
    pub format: Cow<'a, str>,
    /// How many events it held.
    #[serde(default)]
    pub n_events: u64,
    /// All bytes read.
    #[serde(default)]
    pub bytes_read: f64,
    /// All bytes written.
    #[serde(default)]
    pub bytes_written: f64,
    /// Its job, as the source states it.
    #[serde(borrow, default)]
    pub job: JobLine<'a>,
}

/// The job of a [`ResultLine`].
#[derive(Clone, Debug, Default, Deserialize)]
pub struct JobLine<'a> {
    /// The scheduler's name for it.
    #[serde(borrow, default)]
    pub jobid: Option<Cow<'a, str>>,
    /// The command.
    #[serde(borrow, default)]
    pub exe: Option<Cow<'a, str>>,
    /// Who ran it.
    #[serde(borrow, default)]
    pub user: Option<Cow<'a, str>>,
    /// The number of processes.
    #[serde(default)]
    pub nprocs: Option<u64>,
    /// When it began, in seconds since the Unix epoch.
    #[serde(default)]
    pub start_time: Option<f64>,
}

impl<'a> ResultLine<'a> {
    /// Reads a line that [`LabelledRun::to_line`] or [`RejectedLog::to_line`] wrote; the error says what is wrong with it.
    pub fn parse(line: &'a [u8]) -> Result<Self, String> {
        serde_json::from_slice(line).map_err(|error| error.to_string())
    }

    /// Bytes read and written.
    pub fn bytes_moved(&self) -> f64 {
        self.source.bytes_read + self.source.bytes_written
    }
}

/// The least of a [`ResultLine`]: which log it is about.
#[derive(Clone, Debug, Deserialize)]
pub struct LineHead<'a> {
    /// Source that was read.
    #[serde(borrow)]
    pub source: PathLine<'a>,
    /// The file it was.
    pub log: Option<LogIdentity>,
    /// Why there are no labels, if there are none.
    #[serde(borrow, default)]
    pub rejected: Option<Cow<'a, str>>,
}

/// The path of a [`LineHead`].
#[derive(Clone, Debug, Deserialize)]
pub struct PathLine<'a> {
    /// Where it is.
    #[serde(borrow)]
    pub path: Cow<'a, str>,
}

impl<'a> LineHead<'a> {
    /// Reads the head of a line of results; the error says what is wrong with the line.
    pub fn parse(line: &'a [u8]) -> Result<Self, String> {
        serde_json::from_slice(line).map_err(|error| error.to_string())
    }
}

impl LabelledRun {
    /// Whether every sum that statistics add up is a number.
    pub fn has_finite_sums(&self) -> bool {
        let Metadata { requests, most_per_s, spikes, mean_per_s } = self.metadata;
        [self.source.bytes_read, self.source.bytes_written, self.run_time_s]
            .into_iter()
            .chain([requests, most_per_s, spikes, mean_per_s])
            .all(f64::is_finite)
    }
}
