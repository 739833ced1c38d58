//! Why a run's I/O took longer than that of earlier runs, in words and for scripts.

use std::fmt::Write;

use iotide_analysis::{
    Change, Clue, EarlierPoint, OthersSeries, Parts, PhaseCause, Slowdown, Why, WhyVerdict,
};
use iotide_look::Untrusted;
use iotide_look::text::Rows;
use serde::{Deserialize, Serialize};

use crate::run::{Loss, Source};
use crate::{Document, Ink, SCHEMA, text};

/// The answer of `iotide why`.
#[derive(Clone, Debug, Serialize)]
pub struct WhyDocument {
    schema: &'static str,
    command: &'static str,
    /// The runs that were asked about.
    pub runs: Vec<WhyRun>,
}

/// Answer about one run.
#[derive(Clone, Debug, Serialize)]
pub struct WhyRun {
    /// Source that was read.
    pub source: Source,
    /// Losses of the source.
    pub losses: Vec<Loss>,
    /// The answer.
    pub why: WhyEntry,
    /// Earlier runs, by time, for a picture.
    #[serde(skip)]
    pub earlier: Vec<EarlierPoint>,
    /// The load of others around the run, for a picture.
    #[serde(skip)]
    pub others: Option<OthersSeries>,
}

/// A verdict with its evidence.
#[derive(Clone, Debug, Serialize)]
pub struct WhyEntry {
    /// The cause of its slowness.
    pub verdict: WhyVerdict,
    /// How much slower the run was; `null` without anything to compare with.
    pub slowdown: Option<Slowdown>,
    /// Share of each cause; `null` where the evidence does not give it.
    pub parts: Parts,
    /// The phases, in order.
    pub phases: Vec<PhaseCause>,
    /// Evidence of the verdict, the most important first.
    pub evidence: Vec<EvidenceEntry>,
    /// How many earlier runs there are.
    pub n_history: usize,
    /// Up to which factor a run is usual.
    pub usual_until: Option<f64>,
    /// Further data that would help.
    #[serde(skip)]
    help: Vec<String>,
    #[serde(skip)]
    excludes_own: bool,
}

/// A verdict in short, in the document of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobWhy {
    /// As of `iotide why`.
    pub verdict: String,
    /// The verdict in one sentence without a full stop.
    pub text: Untrusted,
    /// How much slower the job was.
    pub slowdown: Option<Slowdown>,
    /// Share of each cause.
    pub parts: Parts,
    /// The main evidence in words.
    pub evidence: Vec<Untrusted>,
    /// How many earlier runs there are.
    pub n_history: usize,
}

/// Evidence in a short verdict.
const SHORT_EVIDENCE: usize = 2;

impl JobWhy {
    /// Returns a verdict in short.
    pub fn of(why: &WhyEntry) -> Self {
        let evidence = why.evidence.iter().filter(|one| !matches!(one.kind, "load_source" | "nothing"));
        Self {
            verdict: why.verdict.name().to_owned(),
            text: why.headline().into(),
            slowdown: why.slowdown,
            parts: why.parts,
            evidence: evidence.take(SHORT_EVIDENCE).map(|one| one.text.clone()).collect(),
            n_history: why.n_history,
        }
    }
}

/// A reason, with its number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EvidenceEntry {
    /// Kind of reason, for scripts.
    pub kind: &'static str,
    /// The reason in words.
    pub text: Untrusted,
    /// The number behind it.
    pub value: Option<f64>,
}

impl WhyEntry {
    /// Returns an answer in the words of the report.
    pub fn new(why: &Why) -> Self {
        let Why { verdict, slowdown, parts, phases, clues, n_history, usual_until, .. } = why;
        let excludes_own = *verdict == WhyVerdict::Unknown && why.own_factor.is_some_and(|own| own < 1.05);
        Self {
            verdict: *verdict,
            slowdown: *slowdown,
            parts: *parts,
            phases: phases.clone(),
            evidence: clues.iter().map(EvidenceEntry::from).collect(),
            n_history: *n_history,
            usual_until: *usual_until,
            help: if *verdict == WhyVerdict::Unknown { help(clues) } else { Vec::new() },
            excludes_own,
        }
    }

    /// Adds who ran in the slow phases and not before, with the share of the slow phases. That is a hint and changes no verdict.
    pub fn with_jobs(mut self, jobs: &[(String, f64)]) -> Self {
        self.evidence.extend(jobs.iter().map(|(who, share)| {
            EvidenceEntry {
                kind: "job",
                text: format!(
                    "{who} ran in {} of the slow phases and in none of the earlier runs",
                    text::percent(*share)
                )
                .into(),
                value: Some(*share),
            }
        }));
        self
    }

    /// Adds who was asked for the load of the storage, and for what.
    pub fn with_source(mut self, asked: String) -> Self {
        self.evidence.push(EvidenceEntry { kind: "load_source", text: asked.into(), value: None });
        self
    }

    /// Returns the verdict in one sentence without a full stop.
    pub fn headline(&self) -> String {
        let factor = self.slowdown.map_or(1.0, |slowdown| slowdown.factor);
        let times = format!("{} times as long as in {}", times(factor), earlier_runs(self.n_history));
        match self.verdict {
            WhyVerdict::Usual if factor < 1.0 / 1.12 => format!("Faster than usual: the I/O took {times}"),
            WhyVerdict::Usual => format!("As usual: the I/O took {times}, which is within their noise"),
            WhyVerdict::Own => {
                format!("The program itself: its I/O took {times}, because {}", self.own_words())
            }
            WhyVerdict::Others if self.slowdown.is_none() => {
                "Others: the phases of this run took longer where others filled the storage".to_owned()
            }
            WhyVerdict::Others => format!("Others: the I/O took {times}, because others filled the storage"),
            WhyVerdict::Storage => {
                format!("The storage: the I/O took {times}, beside no more load than then")
            }
            WhyVerdict::Mixed => format!("Several causes: the I/O took {times}, {}", self.parts_words()),
            WhyVerdict::Unknown => self.unknown_words(&times),
        }
    }

    fn unknown_words(&self, times: &str) -> String {
        match self.slowdown {
            None => "Unknown: there is no earlier run to compare with".to_owned(),
            Some(slowdown) if self.usual_until.is_some_and(|until| slowdown.factor <= until) => {
                format!("Unknown: the I/O took {times}, and the evidence does not tell whether that is usual")
            }
            Some(_) if self.excludes_own => {
                format!(
                    "Unknown: the I/O took {times}, not by the program's own requests; the rest cannot be told"
                )
            }
            Some(_) => format!("Unknown: the I/O took {times}, and the evidence does not tell why"),
        }
    }

    fn own_words(&self) -> &'static str {
        match self.evidence.first().map(|evidence| evidence.kind) {
            Some("bytes") => "it moved more",
            Some("request_size") => "its requests had another size",
            Some("opens") => "it opened and closed more files",
            Some("sync") => "it forced data to storage",
            Some("ranks") => "fewer ranks did the work",
            _ => "it made other requests",
        }
    }

    /// Returns the parts that are some, as words: `43 % by its own requests, 57 % by others`.
    pub fn parts_words(&self) -> String {
        let Parts { own, others, storage } = self.parts;
        let parts = [(own, "by its own requests"), (others, "by others"), (storage, "by the storage")];
        let words: Vec<String> = (parts.iter())
            .filter_map(|(part, by)| Some(((*part)?, by)))
            .filter(|(part, _)| *part >= LEAST_PART)
            .map(|(part, by)| format!("{} {by}", text::percent(part)))
            .collect();
        words.join(", ")
    }

    /// Returns what there is to say line by line: a name and a sentence.
    pub fn facts(&self) -> Rows {
        let mut rows = Rows::default();
        if let Some(Slowdown { factor, interval: [low, high] }) = self.slowdown {
            let usual =
                self.usual_until.map_or(String::new(), |until| format!("; up to {} is usual", times(until)));
            rows.row(
                "slowdown",
                format!(
                    "{} times, between {} and {} with 90 %{usual}",
                    times(factor),
                    times(low),
                    times(high)
                ),
            );
        }
        let parts = self.parts_words();
        if !parts.is_empty() {
            rows.row("parts", parts);
        }
        for evidence in &self.evidence {
            rows.row("evidence", evidence.text.for_terminal());
        }
        for help in &self.help {
            rows.row("would help", help.clone());
        }
        rows
    }
}

impl WhyDocument {
    /// Returns the answer about these runs.
    pub fn new(runs: Vec<WhyRun>) -> Self {
        Self { schema: SCHEMA, command: "why", runs }
    }

    /// Whether each run has a verdict.
    pub fn is_known(&self) -> bool {
        self.runs.iter().all(|run| run.why.verdict != WhyVerdict::Unknown)
    }
}

impl WhyRun {
    /// Makes the answer about a run that was read from `source`.
    pub fn new(source: Source, losses: &[iotide_trace::Loss], entry: WhyEntry, answer: &Why) -> Self {
        Self {
            source,
            losses: losses.iter().map(Loss::from).collect(),
            why: entry,
            earlier: answer.earlier.clone(),
            others: answer.others.clone(),
        }
    }

    /// Returns what is missing, line by line.
    pub fn losses_in_words(&self) -> Vec<String> {
        let words = |loss: &Loss| {
            let records =
                loss.records.map_or(String::new(), |n| format!(" ({})", text::counted(n, "record")));
            format!("{}{records}", loss.what.for_terminal())
        };
        let mut lines: Vec<String> = self.losses.iter().take(MOST_LOSSES).map(words).collect();
        if self.losses.len() > MOST_LOSSES {
            lines.push(format!("and {} more", text::count((self.losses.len() - MOST_LOSSES) as u64)));
        }
        lines
    }

    fn to_text(&self, width: usize, ink: Ink) -> String {
        let why = &self.why;
        let mut out = ink.bold(&text::wrap(&why.headline(), width).join("\n"));
        let _ = write!(out, "\n\n  {}: {}\n\n", self.source.path.for_terminal(), self.source.in_words());
        let mut rows = why.facts();
        for loss in self.losses_in_words() {
            rows.row("losses", loss);
        }
        out.push_str(&rows.render(width, |name| ink.faint(name)));
        if !why.phases.is_empty() {
            let head = format!(
                "\n  {:>10} {:>10} {:>10} {:>8} {:>12}  {}",
                "phase from", "to", "moves", "factor", "others", "verdict"
            );
            let _ = writeln!(out, "{}", ink.faint(&head));
        }
        for phase in slowest(&why.phases) {
            let _ = writeln!(
                out,
                "  {:>10} {:>10} {:>10} {:>8} {:>12}  {}",
                text::moment(phase.start_s),
                text::moment(phase.end_s),
                text::bytes(phase.bytes),
                phase.factor.map_or("–".to_owned(), times),
                phase.others_bps.map_or("–".to_owned(), text::bandwidth),
                phase.verdict.name()
            );
        }
        if why.phases.len() > MOST_PHASES {
            let n = text::count((why.phases.len() - MOST_PHASES) as u64);
            let _ = writeln!(out, "  and {n} more, which are quicker; JSON has all");
        }
        out
    }
}

/// A part below this is none in words.
const LEAST_PART: f64 = 0.005;
/// A terminal shows no more phases than this, the slowest.
const MOST_PHASES: usize = 12;
/// Losses beyond this many are counted.
const MOST_LOSSES: usize = 8;

fn slowest(phases: &[PhaseCause]) -> Vec<&PhaseCause> {
    let mut slowest: Vec<&PhaseCause> = phases.iter().collect();
    slowest.sort_by(|a, b| b.factor.unwrap_or(0.0).total_cmp(&a.factor.unwrap_or(0.0)));
    slowest.truncate(MOST_PHASES);
    slowest.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
    slowest
}

impl Document for WhyDocument {
    fn to_json(&self) -> String {
        iotide_look::text::json_document(self)
    }

    fn to_text(&self, width: usize, ink: Ink) -> String {
        self.runs.iter().map(|run| run.to_text(width, ink)).collect::<Vec<_>>().join("\n")
    }
}

impl From<&Clue> for EvidenceEntry {
    fn from(clue: &Clue) -> Self {
        let (kind, text, value) = clue_words(clue);
        Self { kind, text: text.into(), value: value.filter(|value| value.is_finite()) }
    }
}

fn times(factor: f64) -> String {
    text::digits(factor, 3)
}

fn earlier_runs(n: usize) -> String {
    if n == 1 { "the one earlier run".to_owned() } else { format!("{} earlier runs", text::count(n as u64)) }
}

/// The kind of a clue, the clue in words, and its number.
fn clue_words(clue: &Clue) -> (&'static str, String, Option<f64>) {
    match *clue {
        Clue::Changed { what, seconds, ratio } => {
            let (kind, text) = change_words(what, seconds, ratio);
            (kind, text, Some(ratio))
        }
        Clue::OthersLoad { bps, usual_bps, left, usual_left } => {
            let before = match (usual_bps, usual_left) {
                (Some(bps), Some(left)) => format!(
                    "; in earlier runs {}, which left {}",
                    text::bandwidth(bps),
                    text::percent(left.min(1.0))
                ),
                _ => String::new(),
            };
            let now = format!(
                "others moved {} meanwhile, which left {} of its speed to the program{before}",
                text::bandwidth(bps),
                text::percent(left.min(1.0))
            );
            ("others_load", now, usual_bps.filter(|usual| *usual > 0.0).map(|usual| bps / usual))
        }
        Clue::Capacity { bps, factor } => {
            let beside = if factor > 1.05 {
                format!("beside the same load, the requests took {} times as long as before", times(factor))
            } else {
                "beside the same load, the requests took no longer than before".to_owned()
            };
            ("capacity", format!("the storage carries {}; {beside}", text::bandwidth(bps)), Some(bps))
        }
        Clue::NotFollowed(spread) => (
            "not_followed",
            format!(
                "slow phases are not those beside a high load: what remains differs by {}",
                text::percent(spread)
            ),
            Some(spread),
        ),
        Clue::NoCeiling(bps) => (
            "no_ceiling",
            format!("the log never shows the storage full; the most it shows is {}", text::bandwidth(bps)),
            Some(bps),
        ),
        Clue::NoUsual => ("no_usual", "no phase ran at its usual speed beside a small load".to_owned(), None),
        Clue::LogHole(known) => (
            "log_hole",
            format!("the log of the servers knows {} of the phases", text::percent(known)),
            Some(known),
        ),
        Clue::LogForeign(missing) => (
            "log_foreign",
            format!(
                "{} of the program's bytes are not in the log, which is that of another storage",
                text::percent(missing)
            ),
            Some(missing),
        ),
        Clue::Offset(offset_s) => {
            let side = if offset_s > 0.0 { "ahead" } else { "behind" };
            (
                "offset",
                format!("the clock of the log is {} {side}", text::seconds(offset_s.abs())),
                Some(offset_s),
            )
        }
        Clue::OneSize(share) => (
            "one_size",
            format!(
                "earlier requests had one size, so the cost of others is not known: {} of the I/O time",
                text::percent(share)
            ),
            Some(share),
        ),
        Clue::NoHistory => ("nothing", "there is no earlier run to compare with".to_owned(), None),
        Clue::NoLog => ("nothing", "there is no log of the servers".to_owned(), None),
        Clue::NoStartTime => (
            "nothing",
            "the trace does not say when it began, so no log can be laid beside it".to_owned(),
            None,
        ),
    }
}

fn change_words(what: Change, seconds: f64, ratio: f64) -> (&'static str, String) {
    let costs = text::seconds(seconds);
    let of_before = |what: &str| {
        if ratio.is_finite() {
            format!("{what} {} times those of the nearest earlier run", times(ratio))
        } else {
            format!("{what} new: no earlier run had any")
        }
    };
    let (kind, text) = match what {
        Change::Bytes => ("bytes", of_before("bytes moved are")),
        Change::RequestSize => {
            ("request_size", format!("requests have {} times their earlier size", times(ratio)))
        }
        Change::Opens => ("opens", of_before("calls that open, close and look up files are")),
        Change::Sync => ("sync", of_before("calls that force data to storage are")),
        Change::Ranks => ("ranks", format!("the work lies on {} times as many ranks", times(ratio))),
    };
    (kind, format!("{text}; that costs {costs}"))
}

/// Further data that would help.
fn help(clues: &[Clue]) -> Vec<String> {
    let mut help = Vec::new();
    for clue in clues {
        let what = match clue {
            Clue::NoHistory => "traces of earlier runs of the program (--history)",
            Clue::NoLog => "the log of the servers during the run and the earlier ones (--storage)",
            Clue::LogHole(_) => "a log of the servers without the hole",
            Clue::LogForeign(_) => "the log of the storage that the program uses",
            Clue::NoStartTime => "a trace that says when it began (start_time)",
            Clue::NoCeiling(_) => "a log that reaches a time at which the storage was full",
            Clue::NoUsual => "the log of the servers during earlier runs",
            Clue::OneSize(_) => "an earlier run with requests of this size",
            _ => continue,
        };
        help.push(what.to_owned());
    }
    help
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steering::hostile;

    #[test]
    fn names_of_others_steer_no_terminal() {
        let why = Why {
            verdict: WhyVerdict::Unknown,
            slowdown: None,
            parts: iotide_analysis::Parts::default(),
            own_factor: None,
            phases: Vec::new(),
            clues: vec![Clue::NoHistory, Clue::NoLog],
            n_history: 0,
            usual_until: None,
            earlier: Vec::new(),
            others: None,
        };
        let entry = WhyEntry::new(&why).with_jobs(&[(hostile("job"), 0.5)]);
        let source = Source { path: hostile("path").into(), ..Source::default() };
        let document = WhyDocument::new(vec![WhyRun::new(source, &[], entry, &why)]);
        let text = document.to_text(80, Ink::Plain);
        crate::steering::assert_plain(&text, "\n");
        assert!(text.starts_with("Unknown: there is no earlier run to compare with\n"), "{text}");
        assert!(!document.is_known());
    }
}
