//! Figures of runs in a small file, with which later runs are compared: a program's repository has room for it, and no log is kept.

use std::collections::BTreeMap;

use iotide_analysis::{Category, IssueId};
use iotide_look::Untrusted;
use iotide_look::text::{json_document, printable};
use iotide_trace::AccessSizes;
use serde::{Deserialize, Serialize};

use super::measured::MeasuredIssue;
use super::{MeasuredRun, Outline, Quantity};

/// Form of the file. Members may be added to it; another meaning is another number.
const SCHEMA: &str = "iotide-baseline/1";

/// Figures of the runs of one state of a program: a commit, for example.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Baseline {
    schema: String,
    /// Name of the state.
    pub label: Untrusted,
    /// When the figures were saved, in seconds since the Unix epoch.
    #[serde(default)]
    pub saved_unix_s: Option<f64>,
    runs: Vec<KeptRun>,
}

/// A run as it stands in the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct KeptRun {
    path: Untrusted,
    format: Untrusted,
    #[serde(default)]
    application: Option<Untrusted>,
    #[serde(default)]
    rhythm: Untrusted,
    #[serde(default)]
    losses: usize,
    quantities: BTreeMap<String, f64>,
    #[serde(default)]
    issues: Vec<KeptIssue>,
    #[serde(default)]
    labels: Vec<String>,
    /// How many requests there are of each size or up to twice that; sizes are powers of two.
    #[serde(default)]
    request_sizes: BTreeMap<u64, u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct KeptIssue {
    id: String,
    severity: String,
    gain: f64,
    #[serde(default)]
    text: Untrusted,
    #[serde(default)]
    advice: Untrusted,
}

/// Why a file is no baseline.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BaselineError {
    /// It is larger than any baseline.
    #[error("it has more than {most} bytes", most = Baseline::MOST_BYTES)]
    TooLong,
    /// It is not JSON, or lacks a member.
    #[error("{0}")]
    Json(String),
    /// It is something else, or of a later version.
    #[error("its schema is \"{0}\", not \"{expected}\"", expected = SCHEMA)]
    Schema(String),
    /// There is nothing to compare with.
    #[error("it has no run")]
    Empty,
    /// There are more runs than anybody repeats.
    #[error("it has {0} runs, and at most {most} are compared", most = Baseline::MOST_RUNS)]
    TooMany(usize),
}

impl Baseline {
    /// The largest file that is read.
    pub const MOST_BYTES: usize = 4 << 20;
    /// The most runs of a file.
    pub const MOST_RUNS: usize = 1000;

    /// Returns the figures of runs, to be saved.
    pub fn new(label: &str, saved_unix_s: Option<f64>, runs: &[MeasuredRun]) -> Self {
        let label = Untrusted::from(label);
        Self {
            schema: SCHEMA.to_owned(),
            label,
            saved_unix_s,
            runs: runs.iter().map(KeptRun::from).collect(),
        }
    }

    /// Reads what [`Baseline::to_json`] wrote. Quantities, issues and labels that this version does not know are left out.
    pub fn from_json(json: &[u8]) -> Result<Self, BaselineError> {
        /// Members of every version.
        #[derive(Deserialize)]
        struct Head {
            schema: String,
        }
        if json.len() > Self::MOST_BYTES {
            return Err(BaselineError::TooLong);
        }
        let failed = |error: serde_json::Error| BaselineError::Json(printable(&error.to_string()));
        let head: Head = serde_json::from_slice(json).map_err(failed)?;
        if head.schema != SCHEMA {
            return Err(BaselineError::Schema(printable(&head.schema).chars().take(40).collect()));
        }
        let baseline: Self = serde_json::from_slice(json).map_err(failed)?;
        match baseline.runs.len() {
            0 => Err(BaselineError::Empty),
            n if n > Self::MOST_RUNS => Err(BaselineError::TooMany(n)),
            _ => Ok(baseline),
        }
    }

    /// Returns the file: JSON that people can read, too.
    pub fn to_json(&self) -> String {
        json_document(self)
    }

    /// Returns its runs, to be compared.
    pub fn measured(&self) -> Vec<MeasuredRun> {
        self.runs.iter().map(|run| run.measured(&self.label)).collect()
    }

    /// Returns the number of its runs.
    pub fn n_runs(&self) -> usize {
        self.runs.len()
    }
}

impl From<&MeasuredRun> for KeptRun {
    fn from(run: &MeasuredRun) -> Self {
        let issues = run.issues.iter().map(|issue| KeptIssue {
            id: issue.id.to_owned(),
            severity: issue.severity.to_owned(),
            gain: issue.gain,
            text: Untrusted::from(&issue.text),
            advice: Untrusted::from(&issue.advice),
        });
        let sizes = (0_u32..).zip(&run.sizes).filter(|(_, n)| **n > 0);
        let sizes = sizes.filter_map(|(power, n)| Some((1_u64.checked_shl(power)?, *n)));
        Self {
            path: run.path.clone(),
            format: Untrusted::from(&run.format),
            application: run.application.clone(),
            rhythm: Untrusted::from(&run.rhythm),
            losses: run.n_losses,
            quantities: run
                .quantities
                .iter()
                .map(|(quantity, value)| (quantity.key().to_owned(), *value))
                .collect(),
            issues: issues.collect(),
            labels: run.labels.iter().map(|label| (*label).to_owned()).collect(),
            request_sizes: sizes.collect(),
        }
    }
}

impl KeptRun {
    fn measured(&self, label: &Untrusted) -> MeasuredRun {
        let quantities = self.quantities.iter().filter_map(|(key, value)| {
            Some((Quantity::from_key(key)?, *value)).filter(|(_, value)| value.is_finite() && *value >= 0.0)
        });
        let labels = self.labels.iter().filter_map(|label| Some(Category::from_name(label)?.name()));
        MeasuredRun {
            path: self.path.clone(),
            // It stands in sentences.
            format: self.format.for_terminal(),
            rhythm: self.rhythm.for_terminal(),
            n_losses: self.losses,
            issues: self.issues.iter().filter_map(KeptIssue::measured).collect(),
            labels: labels.collect(),
            baseline: Some(label.clone()),
            application: self.application.clone(),
            quantities: quantities.collect(),
            files: Vec::new(),
            n_more_files: 0,
            sizes: (0..AccessSizes::BINS as u32)
                .map(|power| self.request_sizes.get(&(1 << power)).copied().unwrap_or(0))
                .collect(),
            outline: Outline::default(),
            rhythms_unknown: false,
        }
    }
}

impl KeptIssue {
    fn measured(&self) -> Option<MeasuredIssue> {
        let severity = ["high", "medium", "low"].into_iter().find(|known| *known == self.severity)?;
        Some(MeasuredIssue {
            id: IssueId::from_name(&self.id)?.name(),
            severity,
            gain: self.gain.clamp(0.0, 1.0),
            text: self.text.shortened(MOST_TEXT).for_terminal(),
            advice: self.advice.shortened(MOST_TEXT).for_terminal(),
        })
    }
}

/// An issue is one or two sentences.
const MOST_TEXT: usize = 1000;
