//! I/O issues of a run, each with the share of the run that a fix would save.
//!
//! Everything follows from that share: severity, order and verdict. Where a source lacks a counter, the check that needs it
//! is listed as not evaluated: "no issue" and "not evaluated" are different answers.

use iotide_trace::{ActivitySums, JobInfo, Loss};

pub use config::{IssueConfig, IssueThresholds};
pub use id::IssueId;
pub use no_io::is_foreign;

mod blind;
mod config;
mod cost;
mod gain;
mod id;
#[cfg(test)]
mod laws;
#[cfg(test)]
mod made;
mod no_io;
mod phases;
mod rules;
mod run;
#[cfg(test)]
mod vetoes;

use gain::Saved;
use run::{Run, Way};

/// Returns the issues of a run.
pub fn issues(seen: &ActivitySums, job: &JobInfo, losses: &[Loss], config: &IssueConfig) -> Issues {
    let run = Run::of(seen, job, config);
    let io_s = run.io_s();
    let io_share = run.run_s.map(|run_s| io_s / run_s);
    let mut found = rules::all(&run);
    found.retain(|draft| {
        let is_listed = draft.saved.likely > config.thresholds.least_share_of_io * io_s;
        is_listed && !config.off.contains(&draft.id)
    });
    let is_too_little = io_s < config.thresholds.least_s
        && io_share.is_some_and(|share| share >= config.thresholds.least_io_share);
    let issues = settle(found, &run, io_share, is_too_little);
    let verdict = if is_too_little {
        IssuesVerdict::TooLittle
    } else if issues.iter().any(|issue| issue.severity != Severity::Low) {
        IssuesVerdict::Found
    } else {
        IssuesVerdict::None
    };
    Issues {
        verdict,
        io_s,
        io_bytes: run.files.iter().flat_map(run::FileUse::top).map(iotide_trace::FileRecord::bytes).sum(),
        io_share,
        n_checks: IssueId::ALL.len() - config.off.len(),
        n_ranks: run.n_ranks,
        run_s: run.run_s,
        not_judged: blind::not_judged(&run, seen, losses, config),
        found: issues,
    }
}

/// Issues of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Issues {
    /// The answer in one word.
    pub verdict: IssuesVerdict,
    /// Time in I/O of the busiest rank.
    pub io_s: f64,
    /// Bytes moved, each file at its highest layer.
    pub io_bytes: f64,
    /// Share of the run that the busiest rank spends in I/O; `None` if the run time is not known.
    pub io_share: Option<f64>,
    /// Number of checks that are switched on.
    pub n_checks: usize,
    /// Ranks of the run.
    pub n_ranks: f64,
    /// Wall time.
    pub run_s: Option<f64>,
    /// Issues, the largest gain first.
    pub found: Vec<Issue>,
    /// Checks that were not evaluated, and blind spots of the source.
    pub not_judged: Vec<NotJudged>,
}

/// Whether a run has issues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum IssuesVerdict {
    /// At least one issue of medium severity or above.
    Found,
    /// Evaluated, and nothing of medium severity or above.
    #[default]
    None,
    /// Too little I/O to state a cost.
    TooLittle,
}

impl IssuesVerdict {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::None => "none",
            Self::TooLittle => "too_little",
        }
    }
}

/// A check without its counters, or a blind spot of the source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize))]
pub struct NotJudged {
    /// The id of the check, or the name of the blind spot.
    pub id: &'static str,
    /// The reason.
    pub reason: &'static str,
}

/// One issue.
#[derive(Clone, Debug, PartialEq)]
pub struct Issue {
    /// Its id.
    pub id: IssueId,
    /// From the gain.
    pub severity: Severity,
    /// The share of the run that a fix would save; `None` if the run time is not known.
    pub gain: Option<Gain>,
    /// The issue that is about the same calls and has a larger gain.
    pub same_calls_as: Option<IssueId>,
    /// The numbers behind it.
    pub evidence: Vec<crate::Evidence>,
    /// The files it is most about, the worst first.
    pub files: Vec<String>,
    /// The ranks it is most about.
    pub ranks: Vec<i32>,
    /// Known facts about the cause.
    pub cause: Cause,
}

/// Known facts about the cause of an issue, and about the place of a fix.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cause {
    /// The layer whose calls are meant.
    pub layer: iotide_trace::Layer,
    /// HDF5 fills datasets before it writes them.
    pub is_fill: bool,
    /// HDF5 or netCDF is above.
    pub is_hdf5: bool,
    /// Several ranks use the file.
    pub is_shared: bool,
    /// The same files are used again and again, each as a whole.
    pub is_epochs: bool,
    /// The folder of the file it is most about.
    pub directory: Option<String>,
    /// Numbers of the storage targets.
    pub targets: Vec<u32>,
    /// The kind of file system of that folder, where the mounts are known.
    pub file_system: Option<String>,
}

/// The share of a run that goes away.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize))]
pub struct Gain {
    /// The likely share.
    pub of_run: f64,
    /// The cautious and the optimistic one.
    pub interval: [f64; 2],
}

/// From the gain, gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// A tenth of the run or more.
    High,
    /// Three hundredths of the run or more.
    Medium,
    /// Less, or not known.
    Low,
}

impl Severity {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }
}

/// Calls that an issue is about: kinds of calls on a file, by the seconds they take.
#[derive(Clone, Debug, Default)]
struct Calls(std::collections::BTreeMap<(usize, Kind), f64>);

/// Kinds of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Read,
    Write,
    Metadata,
    /// In MPI-IO, above the calls beneath.
    Exchange,
}

impl From<Way> for Kind {
    fn from(way: Way) -> Self {
        match way {
            Way::Read => Kind::Read,
            Way::Write => Kind::Write,
        }
    }
}

impl Calls {
    fn add(&mut self, file: usize, kind: impl Into<Kind>, seconds: f64) {
        *self.0.entry((file, kind.into())).or_default() += seconds;
    }

    /// Whether at least half of the time of the smaller one is that of both.
    fn overlap(&self, other: &Self) -> bool {
        let common: f64 =
            (self.0.iter()).filter_map(|(key, seconds)| Some(seconds.min(*other.0.get(key)?))).sum();
        let all = |calls: &Self| calls.0.values().sum::<f64>();
        2.0 * common >= all(self).min(all(other)) && common > 0.0
    }

    /// The files with most of the time.
    fn worst(&self) -> Vec<usize> {
        const MOST: usize = 4;
        let mut files: std::collections::BTreeMap<usize, f64> = std::collections::BTreeMap::new();
        self.0.iter().for_each(|((file, _), seconds)| *files.entry(*file).or_default() += seconds);
        let mut files: Vec<(usize, f64)> = files.into_iter().collect();
        files.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        files.into_iter().take(MOST).map(|(file, _)| file).collect()
    }
}

/// An issue before its severity is known.
struct Draft {
    id: IssueId,
    saved: Saved,
    calls: Calls,
    evidence: Vec<crate::Evidence>,
    ranks: Vec<i32>,
    cause: Cause,
}

/// Turns savings into shares of the run, and puts issues on the same calls together.
fn settle(mut drafts: Vec<Draft>, run: &Run, io_share: Option<f64>, is_too_little: bool) -> Vec<Issue> {
    drafts.sort_by(|a, b| b.saved.likely.total_cmp(&a.saved.likely).then(a.id.cmp(&b.id)));
    let mut heads: Vec<usize> = Vec::new();
    let mut same: Vec<Option<usize>> = vec![None; drafts.len()];
    for (i, draft) in drafts.iter().enumerate() {
        match heads.iter().find(|head| drafts[**head].calls.overlap(&draft.calls)) {
            Some(head) => same[i] = Some(*head),
            None => heads.push(i),
        }
    }
    // Issues on different calls cannot save more together than there is.
    let together: f64 = heads.iter().map(|head| drafts[*head].saved.likely).sum();
    let factor = if together > run.io_s() { run.io_s() / together } else { 1.0 };
    let ids: Vec<IssueId> = drafts.iter().map(|draft| draft.id).collect();
    let thresholds = run.thresholds;
    let mut issues: Vec<Issue> = Vec::new();
    for (draft, same) in drafts.into_iter().zip(same) {
        let gain =
            run.run_s.zip(io_share).map(|(run_s, io_share)| gain(draft.saved, run, run_s, io_share, factor));
        let severity = match gain {
            Some(gain) if is_too_little || gain.of_run < thresholds.medium_gain => Severity::Low,
            Some(gain) if gain.of_run >= thresholds.high_gain && draft.id != IssueId::BlockingIo => {
                Severity::High
            }
            Some(_) => Severity::Medium,
            None => Severity::Low,
        };
        let worst = draft.calls.worst();
        let files: Vec<String> =
            worst.iter().filter_map(|file| run.files[*file].name.map(str::to_owned)).collect();
        let directory = worst.iter().find_map(|file| run.files[*file].directory().map(str::to_owned));
        let file_system = directory.as_deref().and_then(|folder| run.file_system(folder)).map(str::to_owned);
        issues.push(Issue {
            id: draft.id,
            severity,
            gain,
            same_calls_as: same.map(|head| ids[head]),
            evidence: draft.evidence,
            files,
            ranks: draft.ranks,
            cause: Cause { file_system, directory, ..draft.cause },
        });
    }
    issues
}

fn gain(saved: Saved, run: &Run, run_s: f64, io_share: f64, factor: f64) -> Gain {
    let Saved { cautious, likely, optimistic } = saved;
    let share = |seconds: f64, run_s: f64| (seconds / run_s).clamp(0.0, io_share);
    let of_run = share(factor * likely, run_s);
    // Whole seconds are one more or one less.
    let slack_s = if run.whole_seconds { 1.0 } else { 0.0 };
    let low = share(factor * cautious.min(likely), run_s + slack_s);
    let high = share(optimistic.max(likely), (run_s - slack_s).max(0.5 * run_s));
    Gain { of_run, interval: [low.min(of_run), high.max(of_run)] }
}
