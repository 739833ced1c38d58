//! What a run does that its storage does not like, as it is told.

use std::collections::BTreeMap;

use serde::Serialize;

use iotide_page::Untrusted;
use iotide_page::text::{self, Rows};

/// One finding.
#[derive(Clone, Debug, Serialize)]
pub struct Insight {
    /// The rule that found it.
    pub rule: &'static str,
    /// `high` or `warning`.
    pub severity: &'static str,
    /// What is the case.
    pub message: Untrusted,
    /// The numbers it rests on, by name.
    pub evidence: BTreeMap<&'static str, f64>,
    /// The files it is most about, the worst first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<Untrusted>,
    /// The ranks it is most about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranks: Vec<i32>,
    /// What to do about it.
    pub advice: &'static str,
}

/// A rule that could not be judged.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct NotKnown {
    /// The rule.
    pub rule: &'static str,
    /// What the source does not tell.
    pub lacks: &'static str,
}

impl From<&iotide_analysis::Insight> for Insight {
    fn from(insight: &iotide_analysis::Insight) -> Self {
        Self {
            rule: insight.rule.name(),
            severity: insight.severity.name(),
            message: Untrusted::from(&insight.message),
            evidence: insight.evidence.iter().map(|evidence| (evidence.name, evidence.value)).collect(),
            files: insight.files.iter().map(Untrusted::from).collect(),
            ranks: insight.ranks.clone(),
            advice: insight.advice,
        }
    }
}

/// Returns the findings and the rules that could not be judged, in the words of the report.
pub(crate) fn told(insights: &iotide_analysis::Insights) -> (Vec<Insight>, Vec<NotKnown>) {
    let not_known = insights.not_known.iter().map(|&(rule, lacks)| NotKnown { rule: rule.name(), lacks });
    (insights.found.iter().map(Insight::from).collect(), not_known.collect())
}

/// Adds a row for each finding, and one for what is not known.
pub(crate) fn add_rows(rows: &mut Rows, found: Option<&[Insight]>, not_known: Option<&[NotKnown]>) {
    for insight in found.unwrap_or_default() {
        let place = insight.place_in_words().map_or(String::new(), |place| format!(" ({place})"));
        rows.row(insight.severity, format!("{}{place}; {}", insight.message.for_terminal(), insight.advice));
    }
    if let Some(not_known) = not_known.filter(|rules| !rules.is_empty()) {
        rows.row("not known", not_known_in_words(not_known));
    }
}

/// The rules that could not be judged, by what they lack: "offsets of calls (random_reads, misaligned); …".
pub(crate) fn not_known_in_words(not_known: &[NotKnown]) -> String {
    let mut by_lack: Vec<(&str, Vec<&str>)> = Vec::new();
    for NotKnown { rule, lacks } in not_known {
        match by_lack.iter_mut().find(|(known, _)| known == lacks) {
            Some((_, rules)) => rules.push(rule),
            None => by_lack.push((lacks, vec![rule])),
        }
    }
    let told: Vec<String> =
        by_lack.iter().map(|(lacks, rules)| format!("{lacks} ({})", rules.join(", "))).collect();
    told.join("; ")
}

impl Insight {
    /// Where it happens: "most in /a, /b; ranks 1, 2". `None` if that is not known, or the message has said it.
    pub(crate) fn place_in_words(&self) -> Option<String> {
        let files: Vec<String> = self
            .files
            .iter()
            .filter(|path| !self.message.mentions(path.as_said()))
            .map(|path| path.for_terminal())
            .collect();
        let ranks: Vec<String> = self.ranks.iter().map(|rank| rank.to_string()).collect();
        let is_named =
            matches!(self.ranks.as_slice(), [rank] if self.message.mentions(&format!("rank {rank} ")));
        let files = (!files.is_empty()).then(|| format!("most in {}", files.join(", ")));
        let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
        let ranks = (!ranks.is_empty() && !is_named).then(|| format!("{noun} {}", ranks.join(", ")));
        let place: Vec<String> = files.into_iter().chain(ranks).collect();
        (!place.is_empty()).then(|| place.join("; "))
    }

    /// The numbers behind it, each with its unit, but for those that say what it costs.
    pub(crate) fn evidence_in_words(&self) -> String {
        let told: Vec<String> = (self.evidence.iter())
            .filter(|(name, _)| !name.ends_with("_at_stake"))
            .map(|(name, &value)| text::named_number(name, value))
            .collect();
        told.join(", ")
    }
}
