//! An archive of runs in numbers: the tables of the MOSAIC paper, and which labels come together.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::archive_load::{ApplicationLoad, Coverage, TimeBucket, UserCount};
use crate::document::Document;
use crate::why_archive::SlowRuns;
use crate::{Failure, Ink, SCHEMA};
use iotide_look::Untrusted;
use iotide_look::text::{self, Rows};

/// Statistics of an archive of runs.
///
/// Everything is counted three ways. [`ArchiveStatistics::unique`]: each application once, by the run of a user's that moves
/// most bytes. [`ArchiveStatistics::weighted`]: the same, times the number of its runs, as the paper counts "all runs".
/// [`ArchiveStatistics::all`]: every run by its own labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ArchiveStatistics {
    /// Logs that were looked at.
    pub n_logs: u64,
    /// Of these, those without labels.
    pub n_rejected: u64,
    /// Runs whose source names no program; each is counted as an application of its own.
    pub n_without_application: u64,
    /// Bytes read by all runs.
    pub bytes_read: f64,
    /// Bytes written by all runs.
    pub bytes_written: f64,
    /// The names of the labels, in the order of all that follows.
    pub labels: Vec<&'static str>,
    /// Each application once.
    pub unique: Population,
    /// Each application as often as it ran.
    pub weighted: Population,
    /// Each run.
    pub all: Population,
    /// Why logs have no labels, the commonest first.
    pub rejections: Vec<RejectionCount>,
    /// The applications that ran most often.
    pub most_run: Vec<ApplicationCount>,
    /// I/O issues, those that cost most core-hours first; `None` if nobody looked.
    pub issues: Option<Vec<IssueCount>>,
    /// Runs and their I/O over time.
    pub timeline: Vec<TimeBucket>,
    /// Runs of which nobody knows when they began.
    pub n_without_start: u64,
    /// The users that moved most bytes.
    pub users: Vec<UserCount>,
    /// How many more there are.
    pub n_more_users: u64,
    /// The applications whose runs moved most bytes together, and those that ran most often.
    pub heaviest_applications: Vec<ApplicationLoad>,
    /// How many have no label, and how many six labels describe, for each population.
    pub coverage: Vec<Coverage>,
    /// Runs that were slow beside others of their application, and why; `None` if nobody looked.
    pub slow: Option<SlowRuns>,
}

/// Runs or applications, and how many bear which labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Population {
    /// How many there are.
    pub n: u64,
    /// How many bear each label.
    pub of_label: Vec<u64>,
    /// How many bear each pair of labels, row by row.
    pub of_pair: Vec<u64>,
}

/// A reason, and how many logs it holds for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RejectionCount {
    /// The reason, with its numbers taken out.
    pub reason: Untrusted,
    /// How many logs.
    pub n_logs: u64,
    /// One of them.
    pub example: Untrusted,
}

/// An issue over the runs of an archive.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IssueCount {
    /// Its id.
    pub id: String,
    /// How many runs have it.
    pub n_runs: u64,
    /// Of these, in how many it is grave.
    pub n_high: u64,
    /// Core-hours that could be saved in all runs together.
    pub core_hours: f64,
    /// Of these runs, the one in which most core-hours could be saved.
    pub example: Untrusted,
    /// The applications with most of it.
    pub applications: Vec<IssueShare>,
}

/// The part of an issue that the runs of one application of one user have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IssueShare {
    /// Who ran it, if that is known.
    pub user: Option<Untrusted>,
    /// The program, if that is known.
    pub application: Option<Untrusted>,
    /// How many runs have the issue.
    pub n_runs: u64,
    /// Core-hours that could be saved.
    pub core_hours: f64,
}

impl IssueShare {
    /// Returns whose runs they are and what could be saved.
    pub fn in_words(&self) -> String {
        let application = self.application.as_ref().map_or("unknown".to_owned(), |name| name.for_terminal());
        let user = self.user.as_ref().map_or(String::new(), |user| format!(" of {}", user.for_terminal()));
        format!("{application}{user} {}", hours(self.core_hours))
    }
}

/// Core-hours in words.
pub(crate) fn hours(core_hours: f64) -> String {
    format!("{} core-hours", text::digits(core_hours, 3))
}

/// An application and how often it ran.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ApplicationCount {
    /// Who ran it, if that is known.
    pub user: Option<Untrusted>,
    /// The program.
    pub application: Untrusted,
    /// How many runs there are.
    pub n_runs: u64,
    /// Bytes moved by the run that moves most.
    pub bytes_moved: f64,
    /// The labels of that run.
    pub categories: Vec<&'static str>,
}

impl IssueCount {
    fn in_words(&self) -> String {
        let grave = match self.n_high {
            0 => String::new(),
            n => format!(", {} of them high", text::count(n)),
        };
        let most: Vec<String> = self.applications.iter().take(3).map(IssueShare::in_words).collect();
        let most = if most.is_empty() { String::new() } else { format!("; most in {}", most.join(", ")) };
        format!(
            "{} could be saved: {} in {}{grave}{most}",
            hours(self.core_hours),
            text::printable(&self.id),
            text::counted(self.n_runs, "run")
        )
    }
}

impl Population {
    /// Returns nobody yet.
    pub fn of(n_labels: usize) -> Self {
        Self { n: 0, of_label: vec![0; n_labels], of_pair: vec![0; n_labels * n_labels] }
    }

    /// Adds `times` that bear the labels whose bits are set.
    pub fn add(&mut self, labels: u64, times: u64) {
        self.n += times;
        let n_labels = self.of_label.len();
        let bears = |label: &usize| labels >> label & 1 == 1;
        for i in (0..n_labels.min(64)).filter(bears) {
            self.of_label[i] += times;
            for j in (0..n_labels.min(64)).filter(bears) {
                self.of_pair[i * n_labels + j] += times;
            }
        }
    }

    /// The share that has a label; 0 if there is nobody.
    pub fn share(&self, label: usize) -> f64 {
        if self.n == 0 { 0.0 } else { self.of_label[label] as f64 / self.n as f64 }
    }

    /// How many bear both labels.
    pub fn both(&self, a: usize, b: usize) -> u64 {
        self.of_pair[a * self.of_label.len() + b]
    }

    /// The share of those with `given` that have `label`, too; 0 if nobody has it.
    pub fn conditional(&self, label: usize, given: usize) -> f64 {
        let n_given = self.of_label[given];
        if n_given == 0 { 0.0 } else { self.both(label, given) as f64 / n_given as f64 }
    }

    /// The Jaccard index of two labels: those that bear both over those that bear either; 0 if none does.
    pub fn jaccard(&self, a: usize, b: usize) -> f64 {
        let both = self.both(a, b);
        let either = self.of_label[a] + self.of_label[b] - both;
        if either == 0 { 0.0 } else { both as f64 / either as f64 }
    }
}

impl ArchiveStatistics {
    /// The populations by name.
    pub fn populations(&self) -> [(&'static str, &Population); 3] {
        [("unique", &self.unique), ("weighted", &self.weighted), ("all", &self.all)]
    }

    pub(crate) fn label(&self, name: &str) -> Option<usize> {
        self.labels.iter().position(|label| *label == name)
    }

    fn to_value(&self) -> Value {
        let per_label: Map<String, Value> = (self.labels.iter().enumerate())
            .map(|(i, name)| {
                let mut counts = Map::new();
                for (population, counted) in self.populations() {
                    counts.insert(population.to_owned(), json!(counted.of_label[i]));
                    counts.insert(format!("{population}_share"), json!(counted.share(i)));
                }
                ((*name).to_owned(), Value::Object(counts))
            })
            .collect();
        let jaccard = |population: &Population| -> Value {
            let rows = (0..self.labels.len()).filter(|&a| population.of_label[a] > 0).map(|a| {
                let row: Map<String, Value> = (0..self.labels.len())
                    .filter(|&b| b != a && population.both(a, b) > 0)
                    .map(|b| (self.labels[b].to_owned(), json!(population.jaccard(a, b))))
                    .collect();
                (self.labels[a].to_owned(), Value::Object(row))
            });
            Value::Object(rows.collect())
        };
        let conditional = |population: &Population| -> Value {
            let rows = (0..self.labels.len()).filter(|&a| population.of_label[a] > 0).map(|a| {
                let row: Map<String, Value> = (0..self.labels.len())
                    .filter(|&b| b != a && population.both(a, b) > 0)
                    .map(|b| (self.labels[b].to_owned(), json!(population.conditional(b, a))))
                    .collect();
                (self.labels[a].to_owned(), Value::Object(row))
            });
            Value::Object(rows.collect())
        };
        let mut value = json!({
            "logs": self.n_logs,
            "rejected": self.n_rejected,
            "runs": self.all.n,
            "applications": self.unique.n,
            "runs_without_application": self.n_without_application,
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
            "per_label": per_label,
            "jaccard": {
                "plain": jaccard(&self.unique),
                "weighted": jaccard(&self.weighted),
                "all": jaccard(&self.all),
            },
            "conditional": {
                "unique": conditional(&self.unique),
                "weighted": conditional(&self.weighted),
                "all": conditional(&self.all),
            },
            "coverage": self.coverage,
            "timeline": self.timeline,
            "runs_without_start": self.n_without_start,
            "users": self.users,
            "more_users": self.n_more_users,
            "heaviest_applications": self.heaviest_applications,
            "rejections": self.rejections,
            "most_run": self.most_run,
        });
        if let Some(issues) = &self.issues {
            value["issues"] = json!(issues);
        }
        if let Some(slow) = &self.slow {
            value["slow"] = json!(slow);
        }
        value
    }

    /// The archive in a sentence.
    pub fn headline(&self) -> String {
        format!(
            "{}: {} of {}, {} rejected",
            text::counted(self.n_logs, "log"),
            text::counted(self.all.n, "run"),
            text::counted(self.unique.n, "application"),
            text::count(self.n_rejected)
        )
    }

    /// Pairs of labels of applications with the highest Jaccard index; labels that only refine `periodic` are left out.
    fn strongest_pairs(&self, n: usize) -> Vec<(&'static str, &'static str, f64)> {
        let labels: Vec<usize> =
            (0..self.labels.len()).filter(|&label| !self.labels[label].contains("_periodic_")).collect();
        let mut pairs = Vec::new();
        for (i, &a) in labels.iter().enumerate() {
            for &b in &labels[i + 1..] {
                pairs.push((self.labels[a], self.labels[b], self.unique.jaccard(a, b)));
            }
        }
        pairs.retain(|(.., index)| *index > 0.01);
        pairs.sort_by(|a, b| b.2.total_cmp(&a.2));
        pairs.truncate(n);
        pairs
    }

    /// Tables II and III of the paper, for reads and writes, and Figure 4 as a table.
    pub fn tables(&self) -> Vec<ShareTable> {
        let mut tables = Vec::new();
        for access in ["write", "read"] {
            let magnitudes =
                [("seconds", "second"), ("minutes", "minute"), ("hours", "hour"), ("days", "day_or_more")];
            let columns = [("periodic", format!("{access}_periodic"))]
                .into_iter()
                .chain(magnitudes.map(|(head, name)| (head, format!("{access}_periodic_{name}"))));
            tables.push(self.table(format!("Periodic {access}s"), columns.collect(), Some("not periodic")));
        }
        for (access, end) in [("read", "on_start"), ("write", "on_end")] {
            let columns = vec![
                ("insignificant", format!("{access}_insignificant")),
                (if end == "on_start" { "on start" } else { "on end" }, format!("{access}_{end}")),
                ("steady", format!("{access}_steady")),
            ];
            tables.push(self.table(format!("When {access}s come"), columns, Some("others")));
        }
        let columns = [
            ("high spike", "high_spike"),
            ("multiple spikes", "multiple_spikes"),
            ("high density", "high_density"),
            ("insignificant", "insignificant_load"),
        ]
        .map(|(head, name)| (head, format!("metadata_{name}")));
        tables.push(self.table("Metadata".to_owned(), columns.to_vec(), None));
        tables
    }

    /// `rest` is the share of those that bear none of the labels that stand for the whole column set.
    fn table(
        &self,
        title: String,
        columns: Vec<(&'static str, String)>,
        rest: Option<&'static str>,
    ) -> ShareTable {
        // A period's magnitude refines `periodic`: only the first column is taken off the whole there.
        let n_whole = if rest == Some("not periodic") { 1 } else { columns.len() };
        let labels: Vec<(&'static str, usize)> =
            columns.iter().filter_map(|(head, name)| Some((*head, self.label(name)?))).collect();
        let rows = self.populations().map(|(name, population)| {
            let cells: Vec<ShareCell> = (labels.iter())
                .map(|&(_, label)| ShareCell {
                    share: population.share(label),
                    n: population.of_label[label],
                    which: Which::Label(label),
                })
                .collect();
            let rest_share = 1.0 - cells.iter().take(n_whole).map(|cell| cell.share).sum::<f64>();
            let rest_n = (population.n).saturating_sub(cells.iter().take(n_whole).map(|cell| cell.n).sum());
            let none_of = labels.iter().take(n_whole).fold(0, |bits, (_, label)| bits | 1 << label);
            let rest = rest.map(|_| ShareCell {
                share: rest_share.max(0.0),
                n: rest_n,
                which: Which::NoneOf(none_of),
            });
            (name, cells.into_iter().chain(rest).collect())
        });
        let heads = labels.iter().map(|(head, _)| *head).chain(rest).collect();
        ShareTable { title, heads, rows: rows.to_vec() }
    }
}

impl Document for ArchiveStatistics {
    fn to_json(&self) -> String {
        let document = json!({"schema": SCHEMA, "command": "categorize", "statistics": self.to_value()});
        iotide_look::text::json_document(&document)
    }

    fn to_text(&self, width: usize, ink: Ink) -> String {
        let headline = self.headline();
        let mut out = if ink == Ink::Ansi { ink.bold(&headline) } else { headline };
        out.push_str("\n\n");
        for table in self.tables() {
            out.push_str(&table.to_text(ink));
            out.push('\n');
        }
        let mut rows = Rows::default();
        let pairs = self.strongest_pairs(6);
        if !pairs.is_empty() {
            let told: Vec<_> = (pairs.iter())
                .map(|(a, b, index)| format!("{a} and {b} ({})", text::percent(*index)))
                .collect();
            rows.row("together", told.join("\n"));
        }
        if let Some(all) = self.coverage.iter().find(|coverage| coverage.population == "all") {
            rows.row(
                "described",
                format!(
                    "{} of the runs have no label; six labels of time describe {}",
                    text::percent(all.unlabelled_share),
                    text::percent(all.by_six_share)
                ),
            );
        }
        if let Some(issues) = self.issues.as_ref().filter(|issues| !issues.is_empty()) {
            let told: Vec<_> = issues.iter().take(10).map(IssueCount::in_words).collect();
            rows.row("issues", told.join("\n"));
        }
        if let Some(slow) = &self.slow {
            rows.row("slow", slow.in_words());
        }
        if !self.rejections.is_empty() {
            let told: Vec<_> = (self.rejections.iter().take(8))
                .map(|why| format!("{} × {}", text::count(why.n_logs), why.reason.for_terminal()))
                .collect();
            rows.row("rejected", told.join("\n"));
        }
        out.push_str(&rows.render(width, |name| ink.faint(name)));
        out
    }
}

impl Serialize for ArchiveStatistics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_value().serialize(serializer)
    }
}

/// Shares of three populations.
pub struct ShareTable {
    /// Subject of the table.
    pub title: String,
    /// The heads of its columns.
    pub heads: Vec<&'static str>,
    /// The population, and its cells.
    pub rows: Vec<(&'static str, Vec<ShareCell>)>,
}

/// A share.
#[derive(Clone, Debug)]
pub struct ShareCell {
    /// The share.
    pub share: f64,
    /// How many that are.
    pub n: u64,
    /// Whose share it is.
    pub which: Which,
}

/// Whose share it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Of those that bear a label.
    Label(usize),
    /// Of those that bear none of these, as bits.
    NoneOf(u64),
}

/// Returns the name of a population for readers.
pub fn population_in_words(name: &str) -> &'static str {
    match name {
        "unique" => "application (heaviest run)",
        "weighted" => "… weighted by its runs",
        _ => "each run",
    }
}

impl ShareTable {
    fn to_text(&self, ink: Ink) -> String {
        let widths: Vec<usize> = self.heads.iter().map(|head| head.chars().count().max(6)).collect();
        let mut out = format!("  {:<26}", self.title);
        for (head, width) in self.heads.iter().zip(&widths) {
            out.push_str(&format!("  {head:>width$}"));
        }
        out = ink.faint(&out);
        out.push('\n');
        for (name, cells) in &self.rows {
            out.push_str(&format!("  {:<26}", population_in_words(name)));
            for (cell, width) in cells.iter().zip(&widths) {
                out.push_str(&format!("  {:>width$}", text::percent(cell.share)));
            }
            out.push('\n');
        }
        out
    }
}

/// The answer to `categorize` over several runs, written as it is made: a document too large for memory is none.
#[derive(Debug)]
pub struct CategorizeDocument {
    n_runs: u64,
}

impl CategorizeDocument {
    /// Returns the document's first bytes.
    pub fn begin() -> (Self, String) {
        let head = format!("{{\"schema\":\"{SCHEMA}\",\"command\":\"categorize\",\"runs\":[");
        (Self { n_runs: 0 }, head)
    }

    /// Returns what a run adds to it; `line` is a line of results.
    pub fn run(&mut self, line: &str) -> String {
        self.n_runs += 1;
        format!("{}\n{}", if self.n_runs > 1 { "," } else { "" }, line.trim_end())
    }

    /// Returns its last bytes.
    pub fn end(self, statistics: Option<&ArchiveStatistics>, failures: &[Failure]) -> String {
        let mut tail = "\n]".to_owned();
        if let Some(statistics) = statistics {
            let json = iotide_look::text::json(statistics);
            tail.push_str(&format!(",\n\"statistics\":{json}"));
        }
        if !failures.is_empty() {
            let json = iotide_look::text::json(failures);
            tail.push_str(&format!(",\n\"failures\":{json}"));
        }
        tail.push_str("}\n");
        tail
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statistics() -> ArchiveStatistics {
        let labels = iotide_analysis::Category::all().map(|category| category.name()).collect::<Vec<_>>();
        let bits = |names: &[&str]| {
            names.iter().map(|name| 1 << labels.iter().position(|label| label == name).unwrap()).sum::<u64>()
        };
        let checkpoints = bits(&[
            "write_periodic",
            "write_periodic_minute",
            "write_steady",
            "read_on_start",
            "metadata_multiple_spikes",
        ]);
        let quiet = bits(&["read_insignificant", "write_insignificant", "metadata_insignificant_load"]);
        let mut made = ArchiveStatistics {
            n_logs: 12,
            n_rejected: 1,
            unique: Population::of(labels.len()),
            weighted: Population::of(labels.len()),
            all: Population::of(labels.len()),
            rejections: vec![RejectionCount { reason: "is empty".into(), n_logs: 1, example: "a".into() }],
            labels,
            ..ArchiveStatistics::default()
        };
        for (labels, n) in [(checkpoints, 8), (quiet, 2), (quiet, 1)] {
            made.unique.add(labels, 1);
            made.weighted.add(labels, n);
            made.all.add(labels, n);
        }
        made
    }

    #[test]
    fn an_archive_is_told_in_the_tables_of_the_paper() {
        insta::assert_snapshot!(statistics().to_text(100, Ink::Plain), @r#"
        12 logs: 11 runs of 3 applications, 1 rejected

          Periodic writes             periodic  seconds  minutes   hours    days  not periodic
          application (heaviest run)      33 %      0 %     33 %     0 %     0 %          67 %
          … weighted by its runs          73 %      0 %     73 %     0 %     0 %          27 %
          each run                        73 %      0 %     73 %     0 %     0 %          27 %

          Periodic reads              periodic  seconds  minutes   hours    days  not periodic
          application (heaviest run)       0 %      0 %      0 %     0 %     0 %         100 %
          … weighted by its runs           0 %      0 %      0 %     0 %     0 %         100 %
          each run                         0 %      0 %      0 %     0 %     0 %         100 %

          When reads come             insignificant  on start  steady  others
          application (heaviest run)           67 %      33 %     0 %     0 %
          … weighted by its runs               27 %      73 %     0 %     0 %
          each run                             27 %      73 %     0 %     0 %

          When writes come            insignificant  on end  steady  others
          application (heaviest run)           67 %     0 %    33 %     0 %
          … weighted by its runs               27 %     0 %    73 %     0 %
          each run                             27 %     0 %    73 %     0 %

          Metadata                    high spike  multiple spikes  high density  insignificant
          application (heaviest run)         0 %             33 %           0 %           67 %
          … weighted by its runs             0 %             73 %           0 %           27 %
          each run                           0 %             73 %           0 %           27 %

          together  read_on_start and write_steady (100 %)
                    read_on_start and write_periodic (100 %)
                    read_on_start and metadata_multiple_spikes (100 %)
                    read_insignificant and write_insignificant (100 %)
                    read_insignificant and metadata_insignificant_load (100 %)
                    write_steady and write_periodic (100 %)
          rejected  1 × is empty
        "#);
    }

    #[test]
    fn the_jaccard_index_is_both_over_either() {
        let made = statistics();
        let [quiet_reads, quiet_writes, starts] =
            ["read_insignificant", "write_insignificant", "read_on_start"]
                .map(|name| made.label(name).unwrap());
        assert_eq!(made.unique.jaccard(quiet_reads, quiet_writes), 1.0);
        assert_eq!(made.unique.jaccard(quiet_reads, starts), 0.0);
        let mut mixed = Population::of(2);
        mixed.add(0b01, 3);
        mixed.add(0b11, 1);
        mixed.add(0b10, 4);
        assert_eq!(mixed.jaccard(0, 1), 1.0 / 8.0);
        assert_eq!(Population::of(2).jaccard(0, 1), 0.0);
    }

    #[test]
    fn a_document_may_be_written_piece_by_piece() {
        let (mut document, mut json) = CategorizeDocument::begin();
        json += &document.run("{\"source\":{\"path\":\"a\"}}\n");
        json += &document.run("{\"source\":{\"path\":\"b\"}}\n");
        json += &document.end(Some(&statistics()), &[]);
        let value: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["runs"][1]["source"]["path"], "b");
        let statistics = &value["statistics"];
        assert_eq!(statistics["per_label"]["write_periodic"]["unique"], 1);
        assert_eq!(statistics["per_label"]["write_periodic"]["weighted_share"], 8.0 / 11.0);
        assert_eq!(statistics["jaccard"]["plain"]["write_periodic"]["write_steady"], 1.0);
        assert!(statistics["jaccard"]["plain"]["write_periodic"]["read_insignificant"].is_null());
    }
}
