//! I/O issues of a run, in the manner of Drishti (Bez et al., SNTA 2022): each finding with its severity, the numbers behind
//! it, the files and ranks it is about, and what to do. A finding weighs as much as the bytes and the time that depend on it:
//! many small calls that take no time are no finding.
//!
//! A rule that lacks the numbers it needs says so. "Nothing found" and "not known" are different answers, and a source that
//! counts little must not look like a run that does everything right.

use iotide_trace::{ActivitySums, JobInfo};

pub use config::{InsightConfig, InsightThresholds};
pub use rule::Rule;

mod config;
mod rule;
mod rules;
mod stake;

/// Returns what the rules find in a run.
pub fn insights(seen: &ActivitySums, job: &JobInfo, config: &InsightConfig) -> Insights {
    let run = rules::Run::of(seen, job, &config.thresholds);
    let mut insights = Insights::default();
    for rule in Rule::ALL.into_iter().filter(|rule| !config.off.contains(rule)) {
        match run.apply(rule) {
            Verdict::Found(insight) => insights.found.push(insight),
            Verdict::Clear => insights.clear.push(rule),
            Verdict::NotKnown(why) => insights.not_known.push((rule, why)),
        }
    }
    insights.found.sort_by_key(|insight| insight.severity);
    insights
}

/// What the rules found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Insights {
    /// Findings, the gravest first.
    pub found: Vec<Insight>,
    /// Rules that had what they need and found nothing.
    pub clear: Vec<Rule>,
    /// Rules that could not be judged, and what was missing.
    pub not_known: Vec<(Rule, &'static str)>,
}

/// One finding.
#[derive(Clone, Debug, PartialEq)]
pub struct Insight {
    /// The rule that found it.
    pub rule: Rule,
    /// How grave it is.
    pub severity: Severity,
    /// What is the case, as a sentence without a full stop.
    pub message: String,
    /// The numbers it rests on.
    pub evidence: Vec<crate::Evidence>,
    /// The files it is most about, the worst first; empty if they are not known.
    pub files: Vec<String>,
    /// The ranks it is most about.
    pub ranks: Vec<i32>,
    /// What to do about it, as a sentence without a full stop.
    pub advice: &'static str,
}

/// How grave a finding is, gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Most likely the run is slower for it.
    High,
    /// Worth a look.
    Warning,
}

impl Severity {
    /// The name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Warning => "warning",
        }
    }
}

/// What a rule says of a run.
enum Verdict {
    Found(Insight),
    Clear,
    NotKnown(&'static str),
}
