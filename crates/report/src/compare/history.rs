//! Baselines one after the other: how the figures of a program went from commit to commit.

use iotide_look::Untrusted;
use iotide_look::text::{counted, percent, wrap};
use serde::Serialize;

use super::words::aligned;
use super::{Baseline, CompareDocument, CompareSettings, MeasuredRun, Presence, Quantity, Values};
use crate::{Document, Ink, SCHEMA, text};

/// Figures of each baseline, and its change against the one before.
#[derive(Clone, Debug, Serialize)]
pub struct HistoryDocument {
    schema: &'static str,
    command: &'static str,
    /// The change below which nothing is called better or worse.
    pub threshold: f64,
    /// The baselines, in their order.
    pub history: Vec<HistoryPoint>,
    /// Changes of the last one against the first, in a sentence.
    pub since_first: String,
}

/// A baseline in a history.
#[derive(Clone, Debug, Serialize)]
pub struct HistoryPoint {
    /// Its label.
    pub label: Untrusted,
    /// The file.
    pub path: Untrusted,
    /// When it was saved.
    pub saved_unix_s: Option<f64>,
    /// How many runs it has.
    pub n_runs: usize,
    /// Its figures.
    pub quantities: Vec<HistoryValues>,
    /// Ids of the I/O issues that most of its runs have.
    pub issues: Vec<&'static str>,
    /// Issues that the baseline before does not have.
    pub came: Vec<&'static str>,
    /// Issues that only the baseline before has.
    pub went: Vec<&'static str>,
    /// Quantities that are worse than those of the baseline before.
    pub worse_quantities: Vec<Quantity>,
    /// These and issues of severity `high` that came, in words.
    pub worse: Vec<String>,
}

/// A figure of a baseline.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct HistoryValues {
    /// Which.
    pub quantity: Quantity,
    /// Its values over the runs.
    #[serde(flatten)]
    pub values: Values,
}

impl HistoryDocument {
    /// Returns the history of baselines, each with the path of its file; `None` of fewer than two.
    pub fn new(baselines: &[(Untrusted, Baseline)], settings: &CompareSettings) -> Option<Self> {
        let runs: Vec<Vec<MeasuredRun>> = baselines.iter().map(|(_, baseline)| baseline.measured()).collect();
        let (first, last) = (runs.first()?, runs.get(1..)?.last()?);
        let against_first = CompareDocument::new(vec![first.clone(), last.clone()], settings);
        let steps = std::iter::once(None)
            .chain(runs.windows(2).map(|pair| Some(CompareDocument::new(pair.to_vec(), settings))));
        let history = (baselines.iter().zip(&runs).zip(steps))
            .map(|(((path, baseline), runs), step)| {
                let mut point = HistoryPoint::new(path, baseline, runs);
                if let Some(step) = step {
                    point.set_step(&step, settings);
                }
                point
            })
            .collect();
        let headline = against_first.headline();
        let since_first =
            headline.split_once(": ").map_or(headline.as_str(), |(_, changes)| changes).to_owned();
        Some(Self { schema: SCHEMA, command: "compare", threshold: settings.threshold, history, since_first })
    }

    /// Returns the answer in one sentence, without a full stop.
    pub fn headline(&self) -> String {
        let n_worse = self.history.iter().filter(|point| !point.worse.is_empty()).count();
        let steps = match n_worse {
            0 => format!("none worse than the one before by more than {}", percent(self.threshold)),
            n => format!("{n} worse than the one before"),
        };
        let n = counted(self.history.len() as u64, "baseline");
        format!("{n}, {steps}; last against first: {}", self.since_first)
    }

    /// Returns the quantities that any baseline has, in their order.
    pub fn quantities(&self) -> Vec<Quantity> {
        let has = |quantity: &Quantity| self.history.iter().any(|point| point.values(*quantity).is_some());
        Quantity::ALL.into_iter().filter(has).collect()
    }
}

impl HistoryPoint {
    fn new(path: &Untrusted, baseline: &Baseline, runs: &[MeasuredRun]) -> Self {
        let figures = Quantity::ALL.into_iter().filter_map(|quantity| {
            let values: Vec<f64> =
                runs.iter().filter_map(|run| run.quantities.get(&quantity).copied()).collect();
            (!values.is_empty()).then(|| HistoryValues { quantity, values: Values::of(&values) })
        });
        let is_usual = |id: &&'static str| {
            let n = runs.iter().filter(|run| run.issues.iter().any(|issue| issue.id == *id)).count();
            2 * n > runs.len()
        };
        let mut issues: Vec<&'static str> =
            runs.iter().flat_map(|run| &run.issues).map(|issue| issue.id).filter(is_usual).collect();
        issues.sort_unstable();
        issues.dedup();
        Self {
            label: baseline.label.clone(),
            path: path.clone(),
            saved_unix_s: baseline.saved_unix_s,
            n_runs: runs.len(),
            quantities: figures.collect(),
            issues,
            came: Vec::new(),
            went: Vec::new(),
            worse_quantities: Vec::new(),
            worse: Vec::new(),
        }
    }

    /// Notes what changed against the baseline before.
    fn set_step(&mut self, step: &CompareDocument, settings: &CompareSettings) {
        let changed = |wanted: Presence| step.issues.iter().filter(move |row| row.changes.contains(&wanted));
        self.came = changed(Presence::Came).map(|row| row.id).collect();
        self.went = changed(Presence::Went).map(|row| row.id).collect();
        for (row, change, side) in step.worse_quantities(settings) {
            self.worse_quantities.push(row.quantity);
            self.worse.push(format!("{} {}", row.quantity.name(), step.change_of(row, change, side)));
        }
        let grave = changed(Presence::Came).filter(|row| row.severity == "high");
        self.worse.extend(grave.map(|row| format!("issue {} came", row.id)));
    }

    /// Returns the values of a quantity, if any of its runs has it.
    pub fn values(&self, quantity: Quantity) -> Option<Values> {
        self.quantities.iter().find(|figure| figure.quantity == quantity).map(|figure| figure.values)
    }

    /// Returns the median of a quantity as people read it.
    pub fn shown(&self, quantity: Quantity) -> String {
        let median = self.values(quantity).and_then(|values| values.median);
        median.map_or("–".to_owned(), |median| quantity.shown(median))
    }

    /// Returns its changes for the worse and its issues that came or went: "run time +30 % (10 s → 13 s); issue small_writes went".
    pub fn step_in_words(&self) -> String {
        let issues = [(&self.came, "came"), (&self.went, "went")];
        let issues =
            issues.into_iter().flat_map(|(ids, word)| ids.iter().map(move |id| format!("issue {id} {word}")));
        let mut words = self.worse.clone();
        // One of high severity is there already.
        words.extend(issues.filter(|issue| !self.worse.contains(issue)));
        words.join("; ")
    }
}

/// Figures of a history in a terminal; the page has all.
const SHOWN: [Quantity; 4] =
    [Quantity::RunTime, Quantity::IoTimePerRank, Quantity::Bandwidth, Quantity::MetadataCalls];

impl Document for HistoryDocument {
    fn to_text(&self, width: usize, ink: Ink) -> String {
        let headline = wrap(&self.headline(), width).join("\n");
        let mut out = if ink == Ink::Ansi { ink.bold(&headline) } else { headline };
        out.push_str("\n\n");
        let shown: Vec<Quantity> =
            self.quantities().into_iter().filter(|quantity| SHOWN.contains(quantity)).collect();
        let mut lines = vec![
            std::iter::once("baseline".to_owned())
                .chain(std::iter::once("runs".to_owned()))
                .chain(shown.iter().map(|quantity| quantity.name().to_owned()))
                .collect::<Vec<String>>(),
        ];
        for point in &self.history {
            let mut line = vec![point.label.shortened(24).for_terminal(), point.n_runs.to_string()];
            line.extend(shown.iter().map(|quantity| point.shown(*quantity)));
            lines.push(line);
        }
        out += &aligned(&lines, ink);
        let mut steps = text::Rows::default();
        for point in self.history.iter().filter(|point| !point.step_in_words().is_empty()) {
            steps.row(&point.label.shortened(24).for_terminal(), point.step_in_words());
        }
        let steps = steps.render(width, |name| ink.faint(name));
        if !steps.is_empty() {
            out.push('\n');
            out += &steps;
        }
        out
    }

    fn to_json(&self) -> String {
        text::json_document(self)
    }
}
