//! Report on runs side by side: what differs and by how much.
//!
//! A side is one run, or several of the same thing: before a change and after it, or one application and another. Sides are
//! compared by their medians; where a side has several runs, a difference counts only if it is larger than their noise.

use std::collections::{BTreeMap, BTreeSet};

use iotide_look::Untrusted;
use iotide_num::{median, rank_sum_p};
use serde::Serialize;

use crate::why::WhyEntry;
use crate::{Document, Ink, SCHEMA, text};

pub use baseline::{Baseline, BaselineError};
pub use history::{HistoryDocument, HistoryPoint};
pub use measured::{FileRhythm, MeasuredRun, Outline};
pub use quantity::Quantity;
pub use words::{gains_in_words, presence_in_words};

use measured::{MeasuredFile, MeasuredIssue};
use quantity::Better;

mod baseline;
mod history;
mod markdown;
mod measured;
mod quantity;
mod words;

/// How sides are compared.
#[derive(Clone, Debug)]
pub struct CompareSettings {
    /// By how much a median must change, as a ratio, before it is called better or worse: 0.05 is 5 %.
    pub threshold: f64,
    /// Quantities that count for [`CompareDocument::is_worse`]; empty for all that have a good and a bad direction.
    pub watched: Vec<Quantity>,
}

impl Default for CompareSettings {
    fn default() -> Self {
        Self { threshold: 0.05, watched: Vec::new() }
    }
}

/// Runs side by side.
#[derive(Clone, Debug, Serialize)]
pub struct CompareDocument {
    schema: &'static str,
    command: &'static str,
    /// The change below which nothing is called better or worse.
    pub threshold: f64,
    /// Sides of the comparison; the others are compared with the first.
    pub sides: Vec<Side>,
    /// Each quantity on each side.
    pub quantities: Vec<QuantityRow>,
    /// I/O issues on any side.
    pub issues: Vec<IssueRow>,
    /// Labels on any side.
    pub labels: Vec<LabelRow>,
    /// How large requests were, in powers of two.
    pub request_sizes: Vec<SizesRow>,
    /// The heaviest files, at most [`CompareDocument::MOST_FILES`].
    pub files: Vec<FileRow>,
    /// How many more files there are.
    pub n_more_files: usize,
    /// Changes for the worse, in words, among the watched quantities and the issues.
    pub worse: Vec<String>,
    /// Notes on the comparison itself.
    pub notes: Vec<String>,
    /// Why the other sides took longer or not, where that was asked for and they are of the same application as the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub why: Vec<SideWhy>,
}

/// Why a side took longer than the first, or not.
#[derive(Clone, Debug, Serialize)]
pub struct SideWhy {
    /// The side.
    pub side: String,
    /// The answer about its run in the middle.
    #[serde(flatten)]
    pub why: WhyEntry,
}

/// One side.
#[derive(Clone, Debug, Serialize)]
pub struct Side {
    /// `A`, `B` and so on.
    pub name: String,
    /// The application, where its runs agree on one.
    pub application: Option<Untrusted>,
    /// Label of the baseline that its figures are from, if they are from one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Untrusted>,
    /// Its runs.
    pub runs: Vec<SideRun>,
    /// The bandwidth over time of its first run, for pictures.
    #[serde(skip)]
    pub outline: Outline,
}

/// A run of a side.
#[derive(Clone, Debug, Serialize)]
pub struct SideRun {
    /// Where it was read.
    pub path: Untrusted,
    /// In which form.
    pub format: String,
    /// Its rhythm, in one sentence.
    pub rhythm: String,
    /// How many things are known to be missing.
    pub n_losses: usize,
}

/// A quantity on each side.
#[derive(Clone, Debug, Serialize)]
pub struct QuantityRow {
    /// Which.
    pub quantity: Quantity,
    /// Which direction is better: `lower`, `higher`, or neither.
    pub better: Option<Better>,
    /// Its values, a side each.
    pub sides: Vec<Values>,
    /// The other sides against the first.
    pub changes: Vec<Change>,
}

/// The values of a quantity on one side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Values {
    /// The median; `None` if no run tells it.
    pub median: Option<f64>,
    /// The lowest.
    pub lowest: Option<f64>,
    /// The highest.
    pub highest: Option<f64>,
    /// How many runs tell it.
    pub n_runs: usize,
}

/// A side against the first one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Change {
    /// Its median minus that of the first.
    pub difference: Option<f64>,
    /// Its median as a multiple of that of the first.
    pub ratio: Option<f64>,
    /// How probable so clear an order of the runs is by chance (one-sided rank sum test), where a side has several runs.
    pub p: Option<f64>,
    /// Verdict on the difference.
    pub verdict: Verdict,
}

/// Verdict on a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// There is none, or less than the threshold.
    Same,
    /// More than the threshold, but the runs of a side differ as much among themselves.
    Noise,
    /// Better by more than the threshold.
    Better,
    /// Worse by more than the threshold.
    Worse,
    /// More than the threshold, of something that has no good direction.
    Changed,
    /// A side does not tell it.
    Unknown,
}

/// An I/O issue on each side.
#[derive(Clone, Debug, Serialize)]
pub struct IssueRow {
    /// Its id.
    pub id: &'static str,
    /// The gravest severity on any side.
    pub severity: &'static str,
    /// Text of the issue in the run with the largest gain.
    pub text: String,
    /// The mean gain as a share of the run, a side each; 0 where it is not there.
    pub gains: Vec<f64>,
    /// The other sides' gain less that of the first.
    pub gain_changes: Vec<f64>,
    /// Advice on how to fix it.
    pub advice: String,
    /// The share of runs that have it, a side each.
    pub shares: Vec<f64>,
    /// The other sides against the first: `came`, `went` or `stayed`.
    pub changes: Vec<Presence>,
}

/// A label on each side.
#[derive(Clone, Debug, Serialize)]
pub struct LabelRow {
    /// Which.
    pub label: &'static str,
    /// The share of runs that have it, a side each.
    pub shares: Vec<f64>,
    /// The other sides against the first: `came`, `went` or `stayed`.
    pub changes: Vec<Presence>,
}

/// Whether most runs of a side have something that those of the first side have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Presence {
    /// Most runs here, and not most runs of the first side.
    Came,
    /// Most runs of the first side, and not most here.
    Went,
    /// On both or on neither.
    Stayed,
}

/// Requests of `from_bytes` up to twice that.
#[derive(Clone, Debug, Serialize)]
pub struct SizesRow {
    /// The smallest size, a power of two.
    pub from_bytes: f64,
    /// The share of a run's requests, the mean over the runs of a side.
    pub shares: Vec<f64>,
}

/// A file on each side.
#[derive(Clone, Debug, Serialize)]
pub struct FileRow {
    /// Its path on the first side that has it.
    pub path: Untrusted,
    /// Use of the file on each side; `None` where a side does not have it.
    pub sides: Vec<Option<FileValues>>,
}

/// Use of a file: the median over the runs of a side that have it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FileValues {
    /// Bytes moved from it.
    pub bytes_read: f64,
    /// Bytes moved to it.
    pub bytes_written: f64,
    /// Time in calls, summed over ranks.
    pub time_s: Option<f64>,
    /// How often it is used, where that repeats.
    pub period_s: Option<f64>,
    /// Which of its bytes that period is of: `read` or `write`.
    pub direction: Option<&'static str>,
    /// How many phases that period has.
    pub n_phases: Option<u64>,
}

impl CompareDocument {
    /// The most files that are named.
    pub const MOST_FILES: usize = 200;

    /// Compares each side with the first one.
    ///
    /// # Panics
    /// If there are fewer than two sides, or one of them has no run.
    pub fn new(sides: Vec<Vec<MeasuredRun>>, settings: &CompareSettings) -> Self {
        assert!(sides.len() >= 2 && sides.iter().all(|runs| !runs.is_empty()), "two sides with runs");
        let quantities: Vec<QuantityRow> = Quantity::ALL
            .into_iter()
            .filter_map(|quantity| quantity_row(quantity, &sides, settings))
            .collect();
        let issues = issue_rows(&sides);
        let (files, n_more_files) = file_rows(&sides);
        let mut document = Self {
            schema: SCHEMA,
            command: "compare",
            threshold: settings.threshold,
            quantities,
            issues,
            labels: label_rows(&sides),
            request_sizes: size_rows(&sides),
            files,
            n_more_files,
            worse: Vec::new(),
            notes: notes(&sides),
            why: Vec::new(),
            sides: sides.into_iter().enumerate().map(|(i, runs)| Side::new(i, runs)).collect(),
        };
        document.worse = document.worse_in_words(settings);
        document
    }

    /// Whether something that is watched got worse by more than the threshold.
    pub fn is_worse(&self) -> bool {
        !self.worse.is_empty()
    }

    /// Returns the changes for the worse of the quantities that are watched.
    fn worse_quantities(&self, settings: &CompareSettings) -> Vec<(&QuantityRow, &Change, &Side)> {
        let mut worse = Vec::new();
        for row in &self.quantities {
            let is_named = settings.watched.contains(&row.quantity);
            let is_watched = is_named || (settings.watched.is_empty() && row.better.is_some());
            for (change, side) in row.changes.iter().zip(&self.sides[1..]) {
                // Who names a quantity without a good direction wants it to stay as it is.
                let counts =
                    change.verdict == Verdict::Worse || (is_named && change.verdict == Verdict::Changed);
                if is_watched && counts {
                    worse.push((row, change, side));
                }
            }
        }
        worse
    }

    /// Returns the changes for the worse, in words: the quantities that are watched, and issues of severity `high` that came.
    fn worse_in_words(&self, settings: &CompareSettings) -> Vec<String> {
        let quantities = self.worse_quantities(settings).into_iter();
        let mut worse: Vec<String> = quantities
            .map(|(row, change, side)| {
                format!("{} {}", row.quantity.name(), self.change_of(row, change, side))
            })
            .collect();
        for row in self.issues.iter().filter(|row| row.severity == "high") {
            for (change, side) in row.changes.iter().zip(&self.sides[1..]) {
                if *change == Presence::Came {
                    worse.push(format!("issue {} on {}", row.id, side.name));
                }
            }
        }
        worse
    }
}

impl Side {
    fn new(i: usize, mut runs: Vec<MeasuredRun>) -> Self {
        let applications: BTreeSet<Option<&Untrusted>> =
            runs.iter().map(|run| run.application.as_ref()).collect();
        let application = match applications.len() {
            1 => runs[0].application.clone(),
            _ => None,
        };
        Self {
            name: side_name(i),
            application,
            baseline: runs[0].baseline.take(),
            outline: std::mem::take(&mut runs[0].outline),
            runs: (runs.into_iter())
                .map(|MeasuredRun { path, format, rhythm, n_losses, .. }| SideRun {
                    path,
                    format,
                    rhythm,
                    n_losses,
                })
                .collect(),
        }
    }
}

/// `A` to `Z`, then `A1` and so on.
fn side_name(i: usize) -> String {
    let letter = char::from(b'A' + (i % 26) as u8);
    if i < 26 { letter.to_string() } else { format!("{letter}{}", i / 26) }
}

/// A row, unless no run tells the quantity.
fn quantity_row(
    quantity: Quantity,
    sides: &[Vec<MeasuredRun>],
    settings: &CompareSettings,
) -> Option<QuantityRow> {
    let values: Vec<Vec<f64>> = sides
        .iter()
        .map(|runs| {
            let told = runs.iter().filter_map(|run| run.quantities.get(&quantity).copied());
            told.filter(|value| value.is_finite()).collect()
        })
        .collect();
    if values.iter().all(Vec::is_empty) {
        return None;
    }
    let better = quantity.better();
    let (first, others) = values.split_first()?;
    Some(QuantityRow {
        quantity,
        better,
        changes: others.iter().map(|other| change(first, other, better, settings.threshold)).collect(),
        sides: values.iter().map(|values| Values::of(values)).collect(),
    })
}

impl Values {
    fn of(values: &[f64]) -> Self {
        Self {
            median: median(values),
            lowest: values.iter().copied().reduce(f64::min),
            highest: values.iter().copied().reduce(f64::max),
            n_runs: values.len(),
        }
    }
}

/// Values that differ by less are the same number, added up in another order.
const ROUNDING: f64 = 1e-9;

/// Runs stand in an order that chance makes once in twenty times, or less often.
const CLEAR: f64 = 0.05 + 1e-9;

fn change(first: &[f64], other: &[f64], better: Option<Better>, threshold: f64) -> Change {
    let (Some(before), Some(after)) = (median(first), median(other)) else {
        return Change { difference: None, ratio: None, p: None, verdict: Verdict::Unknown };
    };
    let size = before.abs().max(after.abs());
    let is_equal = (after - before).abs() <= ROUNDING * size;
    let difference = if is_equal { 0.0 } else { after - before };
    let ratio = match before {
        _ if is_equal => Some(1.0),
        0.0 => None,
        _ => Some(after / before),
    };
    let grew = difference > 0.0;
    // As a factor, so that A against B is the mirror of B against A.
    let (smaller, larger) = (before.min(after), before.max(after));
    let is_large = !is_equal && (smaller <= 0.0 || larger / smaller > 1.0 + threshold);
    let is_several = first.len() > 1 || other.len() > 1;
    let (low, high) = if grew { (first, other) } else { (other, first) };
    let p = if is_several { rank_sum_p(low, high) } else { None };
    let least_of_high = high.iter().copied().fold(f64::INFINITY, f64::min);
    let most_of_low = low.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // Few runs cannot reach one in twenty: then all of one side must lie beyond all of the other.
    let is_clear = !is_several || p.is_some_and(|p| p <= CLEAR) || least_of_high > most_of_low;
    let verdict = match better {
        _ if !is_large => Verdict::Same,
        _ if !is_clear => Verdict::Noise,
        None => Verdict::Changed,
        Some(better) if (better == Better::Higher) == grew => Verdict::Better,
        Some(_) => Verdict::Worse,
    };
    Change { difference: Some(difference), ratio, p, verdict }
}

/// The share of runs on each side for which something holds.
fn shares(sides: &[Vec<MeasuredRun>], holds: impl Fn(&MeasuredRun) -> bool) -> Vec<f64> {
    let share =
        |runs: &Vec<MeasuredRun>| runs.iter().filter(|run| holds(run)).count() as f64 / runs.len() as f64;
    sides.iter().map(share).collect()
}

fn presences(shares: &[f64]) -> Vec<Presence> {
    let here = |share: f64| share > 0.5;
    (shares[1..].iter())
        .map(|&share| match (here(shares[0]), here(share)) {
            (false, true) => Presence::Came,
            (true, false) => Presence::Went,
            _ => Presence::Stayed,
        })
        .collect()
}

fn issue_rows(sides: &[Vec<MeasuredRun>]) -> Vec<IssueRow> {
    let mut found: BTreeMap<&'static str, Vec<&MeasuredIssue>> = BTreeMap::new();
    for issue in sides.iter().flatten().flat_map(|run| &run.issues) {
        found.entry(issue.id).or_default().push(issue);
    }
    let mut rows: Vec<IssueRow> = Vec::new();
    for (id, issues) in found {
        let Some(gravest) = issues.iter().max_by(|a, b| a.gain.total_cmp(&b.gain)) else { continue };
        let shares = shares(sides, |run| run.issues.iter().any(|issue| issue.id == id));
        let gain_of = |run: &MeasuredRun| {
            run.issues.iter().find(|issue| issue.id == id).map_or(0.0, |issue| issue.gain)
        };
        let gains: Vec<f64> =
            sides.iter().map(|runs| runs.iter().map(gain_of).sum::<f64>() / runs.len() as f64).collect();
        rows.push(IssueRow {
            id,
            severity: gravest.severity,
            text: gravest.text.clone(),
            gain_changes: gains[1..].iter().map(|gain| gain - gains[0]).collect(),
            gains,
            advice: gravest.advice.clone(),
            changes: presences(&shares),
            shares,
        });
    }
    // Those whose gain changed most first.
    let change = |row: &IssueRow| row.gain_changes.iter().map(|change| change.abs()).fold(0.0, f64::max);
    rows.sort_by(|a, b| change(b).total_cmp(&change(a)).then(a.id.cmp(b.id)));
    rows
}

fn label_rows(sides: &[Vec<MeasuredRun>]) -> Vec<LabelRow> {
    let labels: BTreeSet<&'static str> =
        sides.iter().flatten().flat_map(|run| run.labels.iter().copied()).collect();
    let rows = labels.into_iter().map(|label| {
        let shares = shares(sides, |run| run.labels.contains(&label));
        LabelRow { label, changes: presences(&shares), shares }
    });
    rows.collect()
}

fn size_rows(sides: &[Vec<MeasuredRun>]) -> Vec<SizesRow> {
    let n_bins = sides.iter().flatten().map(|run| run.sizes.len()).max().unwrap_or(0);
    let share = |run: &MeasuredRun, bin: usize| {
        let all: u64 = run.sizes.iter().sum();
        if all == 0 { 0.0 } else { run.sizes.get(bin).copied().unwrap_or(0) as f64 / all as f64 }
    };
    let row = |bin: usize| SizesRow {
        from_bytes: 2f64.powi(bin as i32),
        shares: sides
            .iter()
            .map(|runs| runs.iter().map(|run| share(run, bin)).sum::<f64>() / runs.len() as f64)
            .collect(),
    };
    (0..n_bins).map(row).filter(|row| row.shares.iter().any(|&share| share > 0.0)).collect()
}

/// The files of all sides, and how many were left out. A file is known by its path; where runs have it in folders of their own, by a name
/// that no other file of a run has.
fn file_rows(sides: &[Vec<MeasuredRun>]) -> (Vec<FileRow>, usize) {
    if sides.iter().flatten().any(|run| run.baseline.is_some()) {
        return (Vec::new(), 0);
    }
    let mut n_runs_of_path: BTreeMap<&Untrusted, usize> = BTreeMap::new();
    for path in sides.iter().flatten().flat_map(|run| &run.files).map(|file| &file.path) {
        *n_runs_of_path.entry(path).or_default() += 1;
    }
    let n_runs = sides.iter().map(Vec::len).sum::<usize>();
    let is_everywhere = |path: &Untrusted| n_runs_of_path[path] == n_runs;
    let mut ambiguous: BTreeSet<Untrusted> = BTreeSet::new();
    for run in sides.iter().flatten() {
        let mut seen = BTreeSet::new();
        let names =
            run.files.iter().filter(|file| !is_everywhere(&file.path)).map(|file| file.path.file_name());
        ambiguous.extend(names.filter(|name| !seen.insert(name.clone())));
    }
    type Uses<'a> = Vec<Vec<&'a MeasuredFile>>;
    let mut rows: BTreeMap<(Untrusted, bool), Uses<'_>> = BTreeMap::new();
    for (i, file) in sides
        .iter()
        .enumerate()
        .flat_map(|(i, runs)| runs.iter().flat_map(|run| &run.files).map(move |file| (i, file)))
    {
        let name = file.path.file_name();
        let by_name = !is_everywhere(&file.path) && !ambiguous.contains(&name);
        let key = if by_name { (name, true) } else { (file.path.clone(), false) };
        rows.entry(key).or_insert_with(|| vec![Vec::new(); sides.len()])[i].push(file);
    }
    let mut rows: Vec<FileRow> = rows
        .into_values()
        .filter_map(|uses| {
            // The order of the runs of a side means nothing.
            let path =
                uses.iter().find(|uses| !uses.is_empty())?.iter().map(|file| &file.path).min()?.clone();
            let sides = uses.iter().map(|uses| (!uses.is_empty()).then(|| FileValues::of(uses))).collect();
            Some(FileRow { path, sides })
        })
        .collect();
    rows.sort_by(|a, b| b.most_bytes().total_cmp(&a.most_bytes()).then_with(|| a.path.cmp(&b.path)));
    let n_more = rows.len().saturating_sub(CompareDocument::MOST_FILES)
        + sides.iter().flatten().map(|run| run.n_more_files).max().unwrap_or(0);
    rows.truncate(CompareDocument::MOST_FILES);
    (rows, n_more)
}

impl FileRow {
    fn most_bytes(&self) -> f64 {
        self.sides.iter().flatten().map(FileValues::bytes).fold(0.0, f64::max)
    }
}

impl FileValues {
    fn of(uses: &[&MeasuredFile]) -> Self {
        let middle = |of: fn(&MeasuredFile) -> Option<f64>| {
            let told: Vec<f64> = uses.iter().filter_map(|file| of(file)).collect();
            median(&told)
        };
        // A period that most runs do not have is none of the side.
        let rhythms: Vec<&FileRhythm> = uses.iter().filter_map(|file| file.rhythm.as_ref()).collect();
        let rhythm = (2 * rhythms.len() > uses.len()).then(|| {
            let periods: Vec<f64> = rhythms.iter().map(|rhythm| rhythm.period_s).collect();
            let phases: Vec<f64> = rhythms.iter().map(|rhythm| rhythm.n_phases as f64).collect();
            (median(&periods), median(&phases).map(|n| n.round() as u64), rhythms[0].direction)
        });
        let (period_s, n_phases, direction) = rhythm.map_or((None, None, None), |(p, n, d)| (p, n, Some(d)));
        Self {
            bytes_read: middle(|file| Some(file.bytes_read)).unwrap_or(0.0),
            bytes_written: middle(|file| Some(file.bytes_written)).unwrap_or(0.0),
            time_s: middle(|file| file.time_s),
            period_s,
            direction,
            n_phases,
        }
    }

    /// Returns the bytes moved.
    pub fn bytes(&self) -> f64 {
        self.bytes_read + self.bytes_written
    }
}

fn notes(sides: &[Vec<MeasuredRun>]) -> Vec<String> {
    let mut notes = Vec::new();
    if sides.iter().any(|runs| runs.len() < 2) {
        notes.push(
            "A side with one run shows no noise: times differ from run to run, so that a small change of them may be chance.".to_owned(),
        );
    } else if sides.iter().any(|runs| runs.len() < 3) {
        notes.push(
            "With fewer than three runs a side, chance alone separates the sides once in six times."
                .to_owned(),
        );
    }
    let names = |of: fn(&MeasuredRun) -> String| -> Vec<BTreeSet<String>> {
        sides.iter().map(|runs| runs.iter().map(of).collect()).collect()
    };
    let formats = names(|run| run.format.clone());
    if formats.windows(2).any(|pair| pair[0] != pair[1]) {
        let told: Vec<String> = formats
            .iter()
            .enumerate()
            .map(|(i, names)| {
                format!("{} is {}", side_name(i), names.iter().cloned().collect::<Vec<_>>().join(" and "))
            })
            .collect();
        notes.push(format!(
            "The sources are of different formats, which do not see the same: {}.",
            told.join(", ")
        ));
    }
    let ranks = |runs: &Vec<MeasuredRun>| {
        let told: Vec<f64> =
            runs.iter().filter_map(|run| run.quantities.get(&Quantity::Ranks).copied()).collect();
        median(&told)
    };
    let of_sides: Vec<Option<f64>> = sides.iter().map(ranks).collect();
    if of_sides.windows(2).any(|pair| pair[0] != pair[1]) {
        notes.push(
            "The sides have different numbers of ranks: bytes and operations are of the whole run, time in I/O is the mean of the ranks."
                .to_owned(),
        );
    }
    for (i, runs) in sides.iter().enumerate() {
        let n_losses: usize = runs.iter().map(|run| run.n_losses).sum();
        if n_losses > 0 {
            notes.push(format!(
                "{} is not whole: {} (see `iotide info`).",
                side_name(i),
                text::counted(n_losses as u64, "loss")
            ));
        }
    }
    if sides.iter().flatten().any(|run| run.baseline.is_some()) {
        notes.push("A baseline has no files: they are not compared.".to_owned());
    }
    if sides.iter().flatten().any(|run| run.rhythms_unknown) {
        notes.push("Standard input is read once: the rhythm of its files is not known.".to_owned());
    }
    notes
}

impl Document for CompareDocument {
    fn to_text(&self, width: usize, ink: Ink) -> String {
        self.in_words(width, ink)
    }

    fn to_json(&self) -> String {
        text::json_document(self)
    }
}

#[cfg(test)]
mod tests;
