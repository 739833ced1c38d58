//! Which runs of an archive were slow and why: by application, hour and week.

use std::collections::BTreeMap;
use std::fmt::Write;

use iotide_analysis::{Caused, JudgedRun, Parts, RunFacts, Slowdown, WhyVerdict};
use iotide_look::Untrusted;
use serde::Serialize;

use crate::jobs::table;
use crate::run::Loss;
use crate::{Document, Ink, SCHEMA, text};

/// The answer of `iotide why --archive`.
#[derive(Clone, Debug, Serialize)]
pub struct WhyArchive {
    schema: &'static str,
    command: &'static str,
    /// The archive.
    pub archive: SlowRuns,
    /// Data that is missing.
    pub losses: Vec<Loss>,
}

/// Slow runs among all.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SlowRuns {
    /// How many runs were compared.
    pub n_runs: usize,
    /// How many were left out: without requests of their own times.
    pub n_left_out: usize,
    /// How many were slow.
    pub n_slow: usize,
    /// I/O time that slow runs lost.
    pub lost: LostTime,
    /// Bytes that others moved while they slowed runs down.
    pub others_bytes: f64,
    /// The share of these bytes that runs of the archive moved; `None` without such bytes.
    pub known_share: Option<f64>,
    /// Applications, those that lost most first.
    pub applications: Vec<SlowApplication>,
    /// File systems on which runs moved most, those on which most was lost first.
    pub file_systems: Vec<SlowFileSystem>,
    /// Hours in which slow runs began, by time.
    pub hours: Vec<SlowTime>,
    /// The same by week.
    pub weeks: Vec<SlowTime>,
    /// Each run, by time.
    pub runs: Vec<WhyArchiveRun>,
}

/// I/O time that was lost, in seconds, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LostTime {
    /// In all.
    pub all_s: f64,
    /// By the programs' own requests.
    pub own_s: f64,
    /// By others.
    pub others_s: f64,
    /// By the storage.
    pub storage_s: f64,
}

/// An application among slow runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SlowApplication {
    /// Its name.
    pub application: Untrusted,
    /// How many runs it has.
    pub n_runs: usize,
    /// How many of them were slow.
    pub n_slow: usize,
    /// I/O time that they lost.
    pub lost: LostTime,
    /// Bytes that its runs moved while other runs were slow by the load of others.
    pub caused_bytes: f64,
    /// Their share of that load; `None` if no run was slow by others.
    pub caused_share: Option<f64>,
}

/// Runs that moved most of their bytes on a file system.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SlowFileSystem {
    /// Where it is mounted; the first folder of the path where mounts are not known; `null` if no file is.
    pub file_system: Option<Untrusted>,
    /// How many runs there are.
    pub n_runs: usize,
    /// How many of them were slow.
    pub n_slow: usize,
    /// I/O time that they lost.
    pub lost: LostTime,
}

/// Runs that began in an hour or a week.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SlowTime {
    /// When it began, since 1970.
    pub start_unix_s: f64,
    /// How many runs began in it.
    pub n_runs: usize,
    /// How many of them were slow.
    pub n_slow: usize,
    /// I/O time that they lost.
    pub lost: LostTime,
}

/// A run of an archive.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WhyArchiveRun {
    /// Its trace.
    pub path: Untrusted,
    /// Its application.
    pub application: Untrusted,
    /// The file system on which it moved most.
    pub file_system: Option<Untrusted>,
    /// When its I/O began, since 1970.
    pub start_unix_s: Option<f64>,
    /// As of `iotide why`.
    pub verdict: WhyVerdict,
    /// How much slower it was than the others of its application.
    pub slowdown: Option<Slowdown>,
    /// Share of each cause.
    pub parts: Parts,
    /// I/O time that it lost.
    pub lost: LostTime,
    /// Whether it was slower than its application's noise.
    pub is_slow: bool,
}

impl WhyArchiveRun {
    /// Returns a run in the words of the report.
    pub fn new(
        path: String,
        application: &str,
        file_system: Option<&str>,
        facts: &RunFacts,
        judged: &JudgedRun,
    ) -> Self {
        let why = &judged.why;
        let slowdown = why.slowdown;
        let is_slow = why.verdict != WhyVerdict::Usual
            && slowdown.zip(why.usual_until).is_some_and(|(slowdown, until)| slowdown.factor > until);
        let lost = if is_slow {
            let [own_s, others_s, storage_s] = judged.lost_to();
            LostTime { all_s: judged.lost_s, own_s, others_s, storage_s }
        } else {
            LostTime::default()
        };
        Self {
            path: path.into(),
            application: application.into(),
            file_system: file_system.map(Untrusted::from),
            start_unix_s: facts.start_unix_s,
            verdict: why.verdict,
            slowdown,
            parts: why.parts,
            lost,
            is_slow,
        }
    }
}

impl LostTime {
    fn add(&mut self, other: Self) {
        self.all_s += other.all_s;
        self.own_s += other.own_s;
        self.others_s += other.others_s;
        self.storage_s += other.storage_s;
    }

    /// The causes that are some: `60 % by others, 40 % by the storage`.
    pub fn causes(&self) -> String {
        if self.all_s <= 0.0 {
            return "–".to_owned();
        }
        let unknown_s = self.all_s - self.own_s - self.others_s - self.storage_s;
        let causes = [
            (self.own_s, "own"),
            (self.others_s, "others"),
            (self.storage_s, "storage"),
            (unknown_s, "unknown"),
        ];
        let some =
            causes.iter().map(|(lost_s, by)| (lost_s / self.all_s, by)).filter(|(share, _)| *share >= 0.005);
        some.map(|(share, by)| format!("{by} {}", text::percent(share))).collect::<Vec<_>>().join(", ")
    }
}

/// A table for people.
#[derive(Clone, Debug, PartialEq)]
pub struct SlowTable {
    /// Its title.
    pub title: &'static str,
    /// The names of its columns.
    pub head: [&'static str; 5],
    /// Its rows, the worst first.
    pub rows: Vec<[String; 5]>,
}

const HOUR_S: f64 = 3600.0;
/// Weeks begin on Mondays; 1970 began on a Thursday.
const WEEK_S: f64 = 168.0 * HOUR_S;
const MONDAY_S: f64 = 96.0 * HOUR_S;

impl WhyArchive {
    /// Sums up runs; `applications` are the names by number.
    pub fn new(
        mut runs: Vec<WhyArchiveRun>,
        applications: &[String],
        caused: &Caused,
        n_left_out: usize,
        losses: &[iotide_trace::Loss],
    ) -> Self {
        let start = |run: &WhyArchiveRun| run.start_unix_s.unwrap_or(0.0);
        runs.sort_by(|a, b| start(a).total_cmp(&start(b)).then(a.path.cmp(&b.path)));
        let share = |bytes: f64| (caused.others_bytes > 0.0).then(|| (bytes / caused.others_bytes).min(1.0));
        let mut of_applications: Vec<SlowApplication> = (applications.iter().enumerate())
            .map(|(number, name)| {
                let of: Vec<&WhyArchiveRun> =
                    runs.iter().filter(|run| run.application.as_said() == name).collect();
                let caused_bytes = caused.by_application.get(number).copied().unwrap_or(0.0);
                SlowApplication {
                    application: name.as_str().into(),
                    n_runs: of.len(),
                    n_slow: of.iter().filter(|run| run.is_slow).count(),
                    lost: sum(&of),
                    caused_bytes,
                    caused_share: share(caused_bytes),
                }
            })
            .collect();
        of_applications
            .sort_by(|a, b| b.lost.all_s.total_cmp(&a.lost.all_s).then(a.application.cmp(&b.application)));
        let all: Vec<&WhyArchiveRun> = runs.iter().collect();
        let archive = SlowRuns {
            n_runs: runs.len(),
            n_left_out,
            n_slow: runs.iter().filter(|run| run.is_slow).count(),
            lost: sum(&all),
            others_bytes: caused.others_bytes,
            known_share: share(caused.by_application.iter().sum()),
            applications: of_applications,
            file_systems: file_systems(&runs),
            hours: times(&runs, HOUR_S, 0.0),
            weeks: times(&runs, WEEK_S, MONDAY_S),
            runs,
        };
        let losses = losses.iter().map(Loss::from).collect();
        Self { schema: SCHEMA, command: "why", archive, losses }
    }

    /// Returns the answer in one sentence without a full stop.
    pub fn headline(&self) -> String {
        self.archive.headline()
    }
}

impl SlowRuns {
    /// Returns the answer in one sentence without a full stop.
    pub fn headline(&self) -> String {
        let Self { n_runs, n_slow, lost, .. } = self;
        let of = text::counted(*n_runs as u64, "run");
        if *n_slow == 0 {
            return format!("None of {of} was slow");
        }
        format!(
            "{} of {of} were slow and lost {} of I/O time: {}",
            text::count(*n_slow as u64),
            text::seconds(lost.all_s),
            lost.causes()
        )
    }

    /// The answer with the worst week and file system: in a few lines.
    pub(crate) fn in_words(&self) -> String {
        let worst = |title: &str| {
            let table = self.tables().into_iter().find(|table| table.title == title)?;
            let [name, slow, lost, by, _] = table.rows.into_iter().next()?;
            Some(format!("{} {name}: {slow} slow, {lost} lost by {by}", table.head[0]))
        };
        let lines =
            [Some(self.headline()), worst("Weeks"), worst("File systems").filter(|_| self.n_slow > 0)];
        lines.into_iter().flatten().collect::<Vec<_>>().join("\n")
    }

    /// Head and rows of the tables: applications, file systems, the hours and weeks that lost most, and the slowest runs.
    pub fn tables(&self) -> Vec<SlowTable> {
        let Self { applications, file_systems, hours, weeks, runs, .. } = self;
        let of_application = |one: &SlowApplication| {
            let caused = one.caused_share.map_or("–".to_owned(), text::percent);
            let slow = format!("{} of {}", text::count(one.n_slow as u64), text::count(one.n_runs as u64));
            [one.application.for_terminal(), slow, text::seconds(one.lost.all_s), one.lost.causes(), caused]
        };
        let of_file_system = |one: &SlowFileSystem| {
            let name = one
                .file_system
                .as_ref()
                .map_or("unknown".to_owned(), |name| name.shortened(80).for_terminal());
            let slow = format!("{} of {}", text::count(one.n_slow as u64), text::count(one.n_runs as u64));
            [name, slow, text::seconds(one.lost.all_s), one.lost.causes(), String::new()]
        };
        let of_time = |time: &SlowTime| {
            let slow = format!("{} of {}", text::count(time.n_slow as u64), text::count(time.n_runs as u64));
            let lost = text::seconds(time.lost.all_s);
            [text::date(time.start_unix_s), slow, lost, time.lost.causes(), String::new()]
        };
        let of_run = |run: &WhyArchiveRun| {
            let factor = run.slowdown.map_or("–".to_owned(), |slowdown| text::digits(slowdown.factor, 3));
            let began = run.start_unix_s.map_or("–".to_owned(), text::date);
            [
                run.path.for_terminal(),
                began,
                factor,
                run.verdict.name().to_owned(),
                text::seconds(run.lost.all_s),
            ]
        };
        let worst = |times: &[SlowTime]| {
            let mut slow: Vec<&SlowTime> = times.iter().filter(|time| time.n_slow > 0).collect();
            slow.sort_by(|a, b| b.lost.all_s.total_cmp(&a.lost.all_s));
            slow.into_iter().map(of_time).collect::<Vec<_>>()
        };
        let mut slow: Vec<&WhyArchiveRun> = runs.iter().filter(|run| run.is_slow).collect();
        slow.sort_by(|a, b| b.lost.all_s.total_cmp(&a.lost.all_s));
        let times = |title, first, rows| SlowTable { title, head: [first, "slow", "lost", "by", ""], rows };
        vec![
            SlowTable {
                title: "Applications",
                head: ["application", "slow", "lost", "by", "of the load of others"],
                rows: applications.iter().map(of_application).collect(),
            },
            SlowTable {
                title: "File systems",
                head: ["file system", "slow", "lost", "by", ""],
                rows: file_systems.iter().map(of_file_system).collect(),
            },
            times("Hours", "hour from", worst(hours)),
            times("Weeks", "week from", worst(weeks)),
            SlowTable {
                title: "Slow runs",
                head: ["run", "began", "factor", "verdict", "lost"],
                rows: slow.into_iter().map(of_run).collect(),
            },
        ]
    }
}

/// Runs by the file system on which they moved most, those on which most was lost first.
fn file_systems(runs: &[WhyArchiveRun]) -> Vec<SlowFileSystem> {
    let mut by: BTreeMap<Option<&Untrusted>, Vec<&WhyArchiveRun>> = BTreeMap::new();
    for run in runs {
        by.entry(run.file_system.as_ref()).or_default().push(run);
    }
    let of = |(name, runs): (Option<&Untrusted>, Vec<&WhyArchiveRun>)| SlowFileSystem {
        file_system: name.cloned(),
        n_runs: runs.len(),
        n_slow: runs.iter().filter(|run| run.is_slow).count(),
        lost: sum(&runs),
    };
    let mut all: Vec<SlowFileSystem> = by.into_iter().map(of).collect();
    all.sort_by(|a, b| b.lost.all_s.total_cmp(&a.lost.all_s).then(a.file_system.cmp(&b.file_system)));
    all
}

fn sum(runs: &[&WhyArchiveRun]) -> LostTime {
    let mut lost = LostTime::default();
    runs.iter().for_each(|run| lost.add(run.lost));
    lost
}

/// Runs by the span of time in which they began.
fn times(runs: &[WhyArchiveRun], length_s: f64, offset_s: f64) -> Vec<SlowTime> {
    let mut spans: BTreeMap<i64, Vec<&WhyArchiveRun>> = BTreeMap::new();
    for run in runs {
        if let Some(start_s) = run.start_unix_s {
            spans.entry(((start_s - offset_s) / length_s).floor() as i64).or_default().push(run);
        }
    }
    let of_span = |(span, runs): (i64, Vec<&WhyArchiveRun>)| SlowTime {
        start_unix_s: span as f64 * length_s + offset_s,
        n_runs: runs.len(),
        n_slow: runs.iter().filter(|run| run.is_slow).count(),
        lost: sum(&runs),
    };
    spans.into_iter().map(of_span).collect()
}

/// A terminal shows no more rows of a table.
const MOST_ROWS: usize = 12;

impl Document for WhyArchive {
    fn to_json(&self) -> String {
        iotide_look::text::json_document(self)
    }

    fn to_text(&self, width: usize, ink: Ink) -> String {
        let mut out = ink.bold(&text::wrap(&self.headline(), width).join("\n")) + "\n";
        if self.archive.n_left_out > 0 {
            let left_out = text::counted(self.archive.n_left_out as u64, "run");
            let _ =
                writeln!(out, "{left_out} left out: no requests with times of their own, or not readable");
        }
        for SlowTable { title, head, mut rows } in self.archive.tables() {
            let n_more = rows.len().saturating_sub(MOST_ROWS);
            rows.truncate(MOST_ROWS);
            if !rows.is_empty() {
                let _ = write!(out, "\n{title}\n{}", table(&head, &rows));
            }
            if n_more > 0 {
                let _ = writeln!(out, "  and {} more; JSON has all", text::count(n_more as u64));
            }
        }
        out
    }
}
