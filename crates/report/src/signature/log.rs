//! The signatures of all applications in a throughput log: a table, a stream of JSON, a page of small pictures.

use std::fmt::Write;

use iotide_analysis::{Sample, Signature};
use iotide_look::Untrusted;
use iotide_look::html::{escape, sorted_cell};
use serde::Serialize;

use super::chart::Chart;
use super::page::{LEGEND, page_foot, page_head};
use super::{GroupEntry, SignatureEntry};
use crate::run::Loss;
use crate::{Ink, SCHEMA, text};

/// What was looked at.
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

/// What was found in a log.
#[derive(Clone, Debug)]
pub struct LogReport {
    source: LogSource,
    losses: Vec<Loss>,
    rows: Vec<Row>,
    failures: Vec<GroupFailure>,
    /// The pictures of the largest, by volume.
    tiles: Vec<Tile>,
}

/// A group of which there is no signature.
#[derive(Clone, Debug, Serialize)]
struct GroupFailure {
    group: GroupEntry,
    error: Untrusted,
}

#[derive(Clone, Debug)]
struct Row {
    group: GroupEntry,
    n_used: usize,
    n_bursts: usize,
    bytes: f64,
    duration_s: f64,
    period_s: Option<f64>,
    confidence: f64,
}

impl Row {
    /// What all its runs moved.
    fn total_bytes(&self) -> f64 {
        self.bytes * self.group.runs as f64
    }
}

#[derive(Clone, Debug)]
struct Tile {
    total_bytes: f64,
    label: String,
    headline: String,
    svg: String,
}

/// A page has no more pictures and no more rows than a person looks at.
const MOST_TILES: usize = 48;
const MOST_ROWS: usize = 500;

/// A terminal shows no more rows than this; files hold them all.
const MOST_TEXT_ROWS: usize = 40;

impl LogReport {
    /// Returns a report on a log in which nothing was found yet.
    pub fn new(source: LogSource, losses: &[iotide_trace::Loss]) -> Self {
        let losses = losses.iter().map(Loss::from).collect();
        Self { source, losses, rows: Vec::new(), failures: Vec::new(), tiles: Vec::new() }
    }

    /// Returns the small picture of a signature, for [`LogReport::add`].
    pub fn picture(signature: &Signature, samples: &[Sample]) -> String {
        Chart::of(signature, samples).to_small_svg()
    }

    /// Adds a signature; of the entry only sums are kept, of the pictures those of the largest.
    pub fn add(&mut self, entry: &SignatureEntry, picture: Option<String>) {
        let row = Row {
            group: entry.group.clone().unwrap_or_default(),
            n_used: entry.samples.used,
            n_bursts: entry.bursts.len(),
            bytes: entry.bytes,
            duration_s: entry.duration_s(),
            period_s: entry.period.period_s,
            confidence: entry.confidence,
        };
        if let Some(svg) = picture {
            let total_bytes = row.total_bytes();
            let at = self.tiles.partition_point(|tile| tile.total_bytes >= total_bytes);
            if at < MOST_TILES {
                let tile = Tile { total_bytes, label: row.group.label(), headline: entry.headline(), svg };
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

    /// What comes before the entries in the JSON form; between them stands `,\n`.
    pub fn json_head() -> String {
        format!("{{\n\"schema\": \"{SCHEMA}\",\n\"command\": \"signature\",\n\"signatures\": [\n")
    }

    /// What comes behind the entries.
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

    /// Returns the page: small pictures of the largest, a table of more.
    pub fn to_page(&self) -> String {
        let mut html = page_head("signatures", &self.headline(), "a throughput log");
        html.push_str("<section id=\"pictures\"><h2>The largest</h2>\n");
        html.push_str(LEGEND);
        html.push_str("<div class=\"tiles-of-signatures\">\n");
        for Tile { label, headline, svg, .. } in &self.tiles {
            let _ = writeln!(
                html,
                "<figure>{svg}<figcaption><b>{}</b><br>{}</figcaption></figure>",
                escape(label),
                escape(headline)
            );
        }
        html.push_str(
            "</div></section>\n<section id=\"groups\"><h2>Users and their configurations</h2>\n<div class=\"wide\" tabindex=\"0\"><table class=\"sortable\" data-filter=\"users\">\
             <thead><tr><th scope=\"col\">user</th><th scope=\"col\">job</th><th scope=\"col\">nodes</th><th scope=\"col\">runs</th><th scope=\"col\">samples</th>\
             <th scope=\"col\">bursts</th><th scope=\"col\">a run moves</th><th scope=\"col\">in</th><th scope=\"col\">period</th><th scope=\"col\">confidence</th></tr></thead><tbody>\n",
        );
        let cell = |value: f64, shown: String| sorted_cell(value, &shown);
        for row in self.ranked().iter().take(MOST_ROWS) {
            let nodes = row.group.nodes;
            let _ = writeln!(
                html,
                "<tr><td>{}</td><td>{}</td>{}{}{}{}{}{}{}{}</tr>",
                row.group.user.for_html(),
                row.group.name.for_html(),
                cell(nodes.map_or(-1.0, |n| n as f64), nodes.map_or_else(|| "–".to_owned(), text::count)),
                cell(row.group.runs as f64, text::count(row.group.runs as u64)),
                cell(row.n_used as f64, text::count(row.n_used as u64)),
                cell(row.n_bursts as f64, text::count(row.n_bursts as u64)),
                cell(row.bytes, text::bytes(row.bytes)),
                cell(row.duration_s, text::seconds(row.duration_s)),
                cell(
                    row.period_s.unwrap_or(-1.0),
                    row.period_s.map_or_else(|| "–".to_owned(), text::seconds)
                ),
                cell(row.confidence, text::percent(row.confidence)),
            );
        }
        html.push_str("</tbody></table></div></section>\n<section><dl class=\"facts\">");
        for (name, value) in self.facts().pairs() {
            let _ = write!(html, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
        }
        html.push_str("</dl></section>\n");
        html.push_str(&page_foot());
        html
    }

    fn headline(&self) -> String {
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

    fn ranked(&self) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        rows.sort_by(|a, b| b.total_bytes().total_cmp(&a.total_bytes()));
        rows
    }

    fn facts(&self) -> text::Rows {
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
