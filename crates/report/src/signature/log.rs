//! The signatures of all applications in a throughput log: a table, a stream of JSON, a page of small pictures.

use std::fmt::Write;

use iotide_look::Untrusted;
use serde::Serialize;

use super::{GroupEntry, SignatureChart, SignatureEntry};
use crate::run::Loss;
use crate::{Ink, SCHEMA, text};

/// Throughput log and runs that were analysed.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LogSource {
    /// When the throughput log begins.
    pub start_s: f64,
    /// When it ends.
    pub end_s: f64,
    /// Its step.
    pub interval_s: f64,
    /// How many values it has, and how many of them are not known.
    pub n_values: usize,
    /// See `n_values`.
    pub n_unknown: usize,
    /// Runs in the job log.
    pub n_runs: usize,
    /// Jobs that had not begun.
    pub n_not_begun: u64,
    /// Runs that failed or were cancelled, and were not used.
    pub n_broken: usize,
    /// Runs of applications that ran too seldom.
    pub n_rare: usize,
}

/// Results of a log.
#[derive(Clone, Debug)]
pub struct LogReport {
    source: LogSource,
    losses: Vec<Loss>,
    rows: Vec<LogRow>,
    failures: Vec<GroupFailure>,
    /// The largest, by volume.
    pub tiles: Vec<LogTile>,
}

/// A group of which there is no signature.
#[derive(Clone, Debug, Serialize)]
struct GroupFailure {
    group: GroupEntry,
    error: Untrusted,
}

/// A signature in brief.
#[derive(Clone, Debug)]
pub struct LogRow {
    /// Whose it is.
    pub group: GroupEntry,
    /// How many samples it rests on.
    pub n_used: usize,
    /// How many bursts it has.
    pub n_bursts: usize,
    /// Bytes that a run moves.
    pub bytes: f64,
    /// How long it is.
    pub duration_s: f64,
    /// How often bursts come, if they repeat.
    pub period_s: Option<f64>,
    /// How well the samples support it.
    pub confidence: f64,
}

impl LogRow {
    /// Returns the bytes that all its runs moved.
    fn total_bytes(&self) -> f64 {
        self.bytes * self.group.runs as f64
    }
}

/// A signature that is worth a picture.
#[derive(Clone, Debug)]
pub struct LogTile {
    total_bytes: f64,
    /// Whose it is.
    pub label: String,
    /// Result, in a sentence.
    pub headline: String,
    /// The signature beside its samples.
    pub chart: SignatureChart,
}

/// A page has no more pictures than a person looks at.
const MOST_TILES: usize = 48;

/// A terminal shows no more rows than this; files hold them all.
const MOST_TEXT_ROWS: usize = 40;

impl LogReport {
    /// Returns a report on a log in which nothing was found yet.
    pub fn new(source: LogSource, losses: &[iotide_trace::Loss]) -> Self {
        let losses = losses.iter().map(Loss::from).collect();
        Self { source, losses, rows: Vec::new(), failures: Vec::new(), tiles: Vec::new() }
    }

    /// Adds a signature; of the entry only sums are kept, of the pictures those of the largest.
    pub fn add(&mut self, entry: &SignatureEntry, chart: Option<SignatureChart>) {
        let row = LogRow {
            group: entry.group.clone().unwrap_or_default(),
            n_used: entry.samples.used,
            n_bursts: entry.bursts.len(),
            bytes: entry.bytes,
            duration_s: entry.duration_s(),
            period_s: entry.period.period_s,
            confidence: entry.confidence,
        };
        if let Some(chart) = chart {
            let total_bytes = row.total_bytes();
            let at = self.tiles.partition_point(|tile| tile.total_bytes >= total_bytes);
            if at < MOST_TILES {
                let tile =
                    LogTile { total_bytes, label: row.group.label(), headline: entry.headline(), chart };
                self.tiles.insert(at, tile);
                self.tiles.truncate(MOST_TILES);
            }
        }
        self.rows.push(row);
    }

    /// Adds a group of which there is no signature.
    pub fn fail(&mut self, group: GroupEntry, error: impl Into<Untrusted>) {
        self.failures.push(GroupFailure { group, error: error.into() });
    }

    /// How many signatures were found.
    pub fn n_found(&self) -> usize {
        self.rows.len()
    }

    /// Returns the JSON form up to the entries; between them stands `,\n`.
    pub fn json_head() -> String {
        format!("{{\n\"schema\": \"{SCHEMA}\",\n\"command\": \"signature\",\n\"signatures\": [\n")
    }

    /// Returns the JSON form after the entries.
    pub fn json_tail(&self) -> String {
        format!(
            "\n],\n\"log\": {},\n\"failures\": {},\n\"losses\": {}\n}}\n",
            json(&self.source),
            json(&self.failures),
            json(&self.losses)
        )
    }

    /// Returns the table for people, the largest by volume first.
    pub fn to_text(&self, width: usize, ink: Ink) -> String {
        let mut out = ink.bold(&self.headline());
        out.push_str("\n\n");
        if !self.rows.is_empty() {
            let rows = self.ranked();
            let label_width = rows
                .iter()
                .take(MOST_TEXT_ROWS)
                .map(|row| row.group.label().chars().count())
                .max()
                .unwrap_or(0)
                .clamp(11, width.saturating_sub(58).max(20));
            let heads = format!(
                "  {:<label_width$}  {:>6} {:>7} {:>10} {:>12} {:>12}",
                "application", "runs", "bursts", "a run", "period", "confidence"
            );
            let _ = writeln!(out, "{}", ink.faint(&heads));
            for row in rows.iter().take(MOST_TEXT_ROWS) {
                let label: String = row.group.label().chars().take(label_width).collect();
                let period = row.period_s.map_or_else(|| "–".to_owned(), text::seconds);
                let _ = writeln!(
                    out,
                    "  {label:<label_width$}  {:>6} {:>7} {:>10} {period:>12} {:>12}",
                    text::count(row.group.runs as u64),
                    row.n_bursts,
                    text::bytes(row.bytes),
                    text::percent(row.confidence)
                );
            }
            if rows.len() > MOST_TEXT_ROWS {
                let _ = writeln!(
                    out,
                    "  and {} more; `-o FILE.jsonl` or `-o FILE.parquet` holds all of them",
                    text::count((rows.len() - MOST_TEXT_ROWS) as u64)
                );
            }
            out.push('\n');
        }
        out.push_str(&self.facts().render(width, |name| ink.faint(name)));
        out
    }

    /// Returns what was found, in a sentence.
    pub fn headline(&self) -> String {
        let n_bursty = self.rows.iter().filter(|row| row.n_bursts > 0).count();
        match self.rows.len() {
            0 => "no application ran often enough to tell its signature".to_owned(),
            n => format!(
                "{}, {} of them with bursts of their own",
                text::counted(n as u64, "signature"),
                text::count(n_bursty as u64)
            ),
        }
    }

    /// Returns the signatures, the largest by volume first.
    pub fn ranked(&self) -> Vec<&LogRow> {
        let mut rows: Vec<&LogRow> = self.rows.iter().collect();
        rows.sort_by(|a, b| b.total_bytes().total_cmp(&a.total_bytes()));
        rows
    }

    /// Returns what there is to say beside them.
    pub fn facts(&self) -> text::Rows {
        let LogSource {
            start_s,
            end_s,
            interval_s,
            n_values,
            n_unknown,
            n_runs,
            n_not_begun,
            n_broken,
            n_rare,
        } = self.source;
        let mut rows = text::Rows::default();
        let known = if n_unknown == 0 {
            String::new()
        } else {
            format!(", {} of them unknown", text::count(n_unknown as u64))
        };
        let from = if start_s > 1e8 { format!(" from {}", text::date(start_s)) } else { String::new() };
        rows.row(
            "log",
            format!(
                "{}{from}: {} every {}{known}",
                text::seconds(end_s - start_s),
                text::counted(n_values as u64, "value"),
                text::seconds(interval_s)
            ),
        );
        let mut jobs = text::counted(n_runs as u64, "run");
        for (n, what) in [
            (n_broken, "failed or cancelled"),
            (n_rare, "of applications that ran too seldom"),
            (n_not_begun as usize, "not begun"),
        ] {
            if n > 0 {
                let _ = write!(jobs, ", {} {what}", text::count(n as u64));
            }
        }
        rows.row("jobs", jobs);
        for failure in self.failures.iter().take(super::MOST_LINES) {
            rows.row("none of", format!("{}: {}", failure.group.label(), failure.error.for_terminal()));
        }
        if self.failures.len() > super::MOST_LINES {
            rows.row(
                "none of",
                format!("{} more", text::count((self.failures.len() - super::MOST_LINES) as u64)),
            );
        }
        for loss in self.losses.iter().take(super::MOST_LINES) {
            let records =
                loss.records.map_or(String::new(), |n| format!(" ({})", text::counted(n, "record")));
            rows.row("losses", format!("{}{records}", loss.what.for_terminal()));
        }
        rows
    }
}

fn json(value: &impl Serialize) -> String {
    iotide_look::text::json(value)
}
