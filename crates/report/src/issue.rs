//! I/O issues of a run, as people and scripts read them.

use serde::Serialize;

use iotide_analysis::{Gain, IssuesVerdict, NotJudged};
use iotide_look::Untrusted;
use iotide_look::text::{self, Rows};

mod words;

/// Issues of a run.
#[derive(Clone, Debug, Serialize)]
pub struct RunIssues {
    /// The issues, the largest gain first.
    pub issues: Vec<Issue>,
    /// `found`, `none` or `too_little`.
    pub issues_verdict: &'static str,
    /// The verdict in words.
    pub issues_reason: String,
    /// Share of the run that the busiest rank spends in I/O; absent if the run time is not known.
    pub io_share: Option<f64>,
    /// Checks that could not be evaluated, and blind spots of the source.
    pub issues_not_judged: Vec<NotJudged>,
    /// Core-hours of the run, by which archives weigh gains; absent if the run time is not known.
    pub core_hours: Option<f64>,
    /// The old name of `issues`, for one release.
    insights: Vec<Issue>,
}

/// One issue.
#[derive(Clone, Debug, Serialize)]
pub struct Issue {
    /// Its id.
    pub id: &'static str,
    /// The old name of `id`, for one release.
    rule: &'static str,
    /// `high`, `medium` or `low`.
    pub severity: &'static str,
    /// The share of the run that a fix would save; absent if the run time is not known.
    pub gain: Option<Gain>,
    /// Description of the issue, beginning with the gain.
    pub text: String,
    /// The numbers behind it.
    pub evidence: Vec<Number>,
    /// Advice on how to fix it.
    pub advice: &'static str,
    /// The line to type, or the call to use, with values from the log.
    pub command: Option<Untrusted>,
    /// The files it is most about, the worst first.
    pub files: Vec<Untrusted>,
    /// The ranks it is most about.
    pub ranks: Vec<i32>,
    /// The issue about the same calls that has a larger gain.
    pub same_calls_as: Option<&'static str>,
}

/// A number by its name.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Number {
    /// The name; its end tells the unit.
    pub name: &'static str,
    /// The value.
    pub value: f64,
}

impl From<&iotide_analysis::Issues> for RunIssues {
    fn from(judged: &iotide_analysis::Issues) -> Self {
        let issues: Vec<Issue> = judged.found.iter().map(Issue::from).collect();
        Self {
            insights: issues.clone(),
            issues_verdict: judged.verdict.name(),
            issues_reason: reason(judged, &issues),
            io_share: judged.io_share,
            issues_not_judged: judged.not_judged.clone(),
            core_hours: judged.run_s.map(|run_s| judged.n_ranks * run_s / 3600.0),
            issues,
        }
    }
}

/// The verdict in words.
fn reason(judged: &iotide_analysis::Issues, issues: &[Issue]) -> String {
    let not_judged =
        judged.not_judged.iter().filter(|not| iotide_analysis::IssueId::from_name(not.id).is_some());
    let checks = match not_judged.count() {
        0 => format!("{} checks", judged.n_checks),
        1 => format!("{} checks; 1 needs data this source lacks", judged.n_checks),
        n => format!("{} checks; {n} need data this source lacks", judged.n_checks),
    };
    let io = judged
        .io_share
        .map_or(String::new(), |share| format!(", I/O is {} of the run", text::percent(share)));
    match judged.verdict {
        IssuesVerdict::Found => {
            let n = issues
                .iter()
                .filter(|issue| issue.severity != "low" && issue.same_calls_as.is_none())
                .count();
            format!("{} found{io} ({checks})", text::counted(n as u64, "I/O issue"))
        }
        IssuesVerdict::None if judged.run_s.is_none() && !issues.is_empty() => {
            "the run time is not known: no gain can be stated".to_owned()
        }
        IssuesVerdict::None => format!("no I/O issues found{io} ({checks})"),
        IssuesVerdict::TooLittle => format!(
            "too little I/O to judge ({} on the busiest rank, {}; from 1 s on)",
            text::seconds(judged.io_s),
            text::bytes(judged.io_bytes)
        ),
    }
}

impl From<&iotide_analysis::Issue> for Issue {
    fn from(issue: &iotide_analysis::Issue) -> Self {
        let text = format!("{}: {}", gain_in_words(issue.gain), words::what(issue));
        let (advice, command) = words::fix(issue);
        Self {
            id: issue.id.name(),
            rule: issue.id.name(),
            severity: issue.severity.name(),
            gain: issue.gain,
            text,
            evidence: issue.evidence.iter().map(|one| Number { name: one.name, value: one.value }).collect(),
            advice,
            command: command.map(Untrusted::from),
            files: issue.files.iter().map(Untrusted::from).collect(),
            ranks: issue.ranks.clone(),
            same_calls_as: issue.same_calls_as.map(|id| id.name()),
        }
    }
}

/// The gain in words: "up to 31 % of the run".
pub(crate) fn gain_in_words(gain: Option<Gain>) -> String {
    match gain {
        Some(gain) if gain.of_run > 0.0 && gain.of_run < 0.01 => "less than 1 % of the run".to_owned(),
        Some(gain) => format!("up to {} of the run", text::percent(gain.of_run)),
        None => "gain not known".to_owned(),
    }
}

impl Issue {
    /// The files and ranks it is most about: "most in /a, /b; ranks 1, 2".
    pub(crate) fn place_in_words(&self) -> Option<String> {
        let files: Vec<String> = self.files.iter().map(|path| path.for_terminal()).collect();
        let files = (!files.is_empty()).then(|| format!("most in {}", files.join(", ")));
        let ranks: Vec<String> = self.ranks.iter().map(i32::to_string).collect();
        let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
        let ranks = (!ranks.is_empty()).then(|| format!("{noun} {}", ranks.join(", ")));
        let place: Vec<String> = files.into_iter().chain(ranks).collect();
        (!place.is_empty()).then(|| place.join("; "))
    }

    /// The numbers behind it, each with its unit.
    pub fn evidence_in_words(&self) -> String {
        let numbers = self.evidence.iter().filter(|number| number.value != 0.0);
        let told: Vec<String> = numbers.map(|one| text::named_number(one.name, one.value)).collect();
        told.join(", ")
    }

    /// Returns the advice, and the line to type.
    fn fix_in_words(&self) -> String {
        match &self.command {
            Some(command) => format!("{}: {}", self.advice, command.for_terminal()),
            None => self.advice.to_owned(),
        }
    }

    /// One line for an issue that another one tells in full.
    fn in_short(&self) -> String {
        format!("{} ({})", self.text, self.id)
    }
}

impl RunIssues {
    /// The issue with the largest gain, if it is of medium severity or above.
    pub fn top(&self) -> Option<&Issue> {
        self.issues.first().filter(|issue| issue.severity != "low")
    }

    /// The verdict, and the issue with the largest gain, with what to do.
    pub fn first_lines(&self) -> Vec<String> {
        let mut lines = vec![self.issues_reason.clone()];
        if let Some(issue) = self.top() {
            lines.push(issue.text.clone());
            lines.push(issue.fix_in_words());
        }
        lines
    }

    /// Issues that are reported in full, each with those on the same calls.
    pub fn blocks(&self) -> impl Iterator<Item = (&Issue, Vec<&Issue>)> {
        self.issues.iter().filter(|issue| issue.same_calls_as.is_none()).map(|head| {
            let same = self.issues.iter().filter(|issue| issue.same_calls_as == Some(head.id));
            (head, same.collect())
        })
    }

    /// Adds the verdict and a row for each block of issues.
    pub(crate) fn add_rows(&self, rows: &mut Rows) {
        rows.row("issues", self.issues_reason.clone());
        for (head, same) in self.blocks() {
            let mut lines = vec![head.text.clone()];
            lines.extend(head.place_in_words());
            lines.push(head.fix_in_words());
            lines.extend(same.iter().map(|issue| format!("same calls: {}", issue.in_short())));
            rows.row(head.severity, lines.join("\n"));
        }
        if !self.issues_not_judged.is_empty() {
            rows.row("not judged", not_judged_in_words(&self.issues_not_judged));
        }
    }
}

/// The checks that could not be evaluated, by reason: "offsets of calls are not in the source (random_reads, redundant_reads); …".
pub fn not_judged_in_words(not_judged: &[NotJudged]) -> String {
    let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
    for NotJudged { id, reason } in not_judged {
        match by_reason.iter_mut().find(|(known, _)| known == reason) {
            Some((_, ids)) => ids.push(id),
            None => by_reason.push((reason, vec![id])),
        }
    }
    let told: Vec<String> =
        by_reason.iter().map(|(reason, ids)| format!("{reason} ({})", ids.join(", "))).collect();
    told.join("; ")
}
