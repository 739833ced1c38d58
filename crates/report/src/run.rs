//! Report on the rhythm of one run.

use std::collections::BTreeMap;

use iotide_analysis::{RunAnalysis, RunConfig, RunError, Verdict};
use iotide_look::text::{self, Rows};
use iotide_look::{Numbers, Plot};
use iotide_trace::{ActivitySums, JobInfo};
use serde::{Serialize, Serializer};

use crate::activity::Activity;
use crate::card::JobCard;
use crate::demand::Demand;
use crate::harmonics;
use crate::history::History;
use crate::issue::RunIssues;
use crate::labelled::{LabelEvidence, LabelledRun};
use crate::modules::LogModules;
use crate::patterns::Patterns;
use crate::rhythm::{Named, Rhythm};
use crate::timeline::Timeline;
use crate::why::WhyRun;
use crate::{Ink, Tell};

use self::period::reason_in_words;
pub use self::period::{Period, Phase, Scores, Wave};
pub use self::settings::Settings;
use self::settings::mode_name;
pub use self::source::{Loss, Source};

mod period;
mod settings;
mod source;

/// Results of one run.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// Source that was read.
    pub source: Source,
    /// How it was looked at.
    pub settings: Settings,
    /// The period, or that there is none.
    pub period: Period,
    /// How evenly the periods resemble each other.
    pub scores: Scores,
    /// The phases, where they could be separated.
    pub phases: Vec<Phase>,
    /// The mean (frequency 0) and the strongest waves.
    pub waves: Vec<Wave>,
    /// How badly these waves alone draw the signal: 0 exactly, 1 no better than the mean.
    pub reconstruction_error: Option<f64>,
    /// Required and actual bandwidth of asynchronous I/O, if there was any.
    pub demand: Option<Demand>,
    /// Why there was nothing to analyse, if there was not.
    pub not_analysed: Option<String>,
    /// Data known to be missing.
    pub losses: Vec<Loss>,
    /// Main facts of the run, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub card: Option<JobCard>,
    /// Who did what to which file, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity: Option<Activity>,
    /// How calls went about their files, and which files there were, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patterns: Option<Patterns>,
    /// When each rank read and wrote, where calls have times of their own and that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Timeline>,
    /// Counts of each module of a Darshan log, where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modules: Option<LogModules>,
    /// The numbers of its pictures, by name, where there are any.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub charts: BTreeMap<&'static str, Numbers>,
    /// Its I/O issues, where that was asked for.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub issues: Option<RunIssues>,
    /// Its labels; see `iotide categorize`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub categories: Option<Vec<&'static str>>,
    /// Evidence for each label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<LabelEvidence>,
    /// How it compares with earlier runs of the same application, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history: Option<History>,
    /// Why it was slow, where earlier runs or the load of the storage were named.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "verdict_alone")]
    pub why: Option<WhyRun>,
    /// The bandwidth in a few hundred columns (mean and highest), for the terminal.
    #[serde(skip)]
    outline: Vec<(f64, f64)>,
}

/// Source and losses are those of the run.
fn verdict_alone<S: Serializer>(why: &Option<WhyRun>, to: S) -> Result<S::Ok, S::Error> {
    why.as_ref().map(|why| &why.why).serialize(to)
}

impl Run {
    /// Returns what an analysis found, in the words of the report.
    pub fn analysed(
        source: Source,
        losses: &[iotide_trace::Loss],
        config: &RunConfig,
        run: &RunAnalysis,
    ) -> Self {
        let estimate = &run.estimate;
        Self {
            settings: Settings {
                sample_rate_hz: Some(run.signal.rate_hz),
                n_samples: Some(run.signal.values.len()),
                window_s: Some([run.window.start.as_secs(), run.window.end.as_secs()]),
                mode: mode_name(Some(run.direction)),
                abstraction_error: run.abstraction_error,
                signal_error: run.signal_error,
                ..Settings::asked_for(config)
            },
            period: Period::of(estimate, config),
            scores: Scores::of(run),
            phases: (estimate.phases.iter())
                .map(|phase| Phase { start_s: phase.start_s, end_s: phase.end_s, bytes: phase.bytes })
                .collect(),
            waves: estimate.waves.iter().map(Wave::from).collect(),
            reconstruction_error: run.reconstruction_error,
            outline: outline(&run.signal.values),
            ..Self::unanalysed(source, losses, config)
        }
    }

    /// Returns that there was nothing to analyse, and why.
    pub fn not_analysed(
        source: Source,
        losses: &[iotide_trace::Loss],
        config: &RunConfig,
        why: &RunError,
    ) -> Self {
        Self { not_analysed: Some(why.to_string()), ..Self::unanalysed(source, losses, config) }
    }

    fn unanalysed(source: Source, losses: &[iotide_trace::Loss], config: &RunConfig) -> Self {
        Self {
            source,
            settings: Settings::asked_for(config),
            period: Period::default(),
            scores: Scores::default(),
            phases: Vec::new(),
            waves: Vec::new(),
            reconstruction_error: None,
            demand: None,
            not_analysed: None,
            losses: losses.iter().map(Loss::from).collect(),
            card: None,
            activity: None,
            patterns: None,
            timeline: None,
            modules: None,
            charts: BTreeMap::new(),
            issues: None,
            categories: None,
            evidence: None,
            history: None,
            why: None,
            outline: Vec::new(),
        }
    }

    /// Returns the same run with what was done by whom and to which file.
    pub fn with_activity(mut self, sums: &ActivitySums) -> Self {
        self.activity = Some(Activity::new(sums, &self.source));
        self
    }

    /// Returns the same with how calls went about their files.
    pub fn with_patterns(mut self, sums: &ActivitySums, job: &JobInfo) -> Self {
        self.patterns = Some(Patterns::new(sums, job));
        self
    }

    /// Returns the same with when each rank read and wrote.
    pub fn with_timeline(mut self, timeline: Option<Timeline>) -> Self {
        self.timeline = timeline.map(|timeline| Timeline { zero: self.source.zero(), ..timeline });
        self
    }

    /// Returns the same with what each module of its Darshan log counted.
    pub fn with_modules(mut self, modules: Option<LogModules>) -> Self {
        self.modules = modules;
        self
    }

    /// Returns the same with the numbers of its pictures.
    pub fn with_charts(mut self, plots: &[Plot]) -> Self {
        self.charts = plots.iter().map(|plot| (plot.name, plot.numbers())).collect();
        self
    }

    /// Returns the same with its I/O issues.
    pub fn with_issues(mut self, issues: &iotide_analysis::Issues) -> Self {
        self.issues = Some(RunIssues::from(issues));
        self
    }

    /// Returns the same with its labels, and beside earlier runs of its application.
    pub fn with_labels(mut self, labelled: LabelledRun) -> Self {
        let LabelledRun { categories, evidence, history, .. } = labelled;
        (self.categories, self.evidence, self.history) = (Some(categories), Some(evidence), history);
        self
    }

    /// Returns the same with the facts that are asked for first. Whatever else is known of the run is there by now.
    pub fn with_card(mut self, sums: &ActivitySums) -> Self {
        self.card = Some(JobCard::new(&self, sums));
        self
    }

    /// Returns the same with what its asynchronous I/O required.
    pub fn with_demand(self, demand: Option<&iotide_analysis::Demand>) -> Self {
        Self { demand: demand.map(Demand::from), ..self }
    }

    /// Whether a period was found.
    pub fn is_periodic(&self) -> bool {
        self.period.period_s.is_some()
    }

    /// The answer in one sentence, without the name of the run and without a full stop.
    pub fn headline(&self) -> String {
        if let Some(why) = &self.not_analysed {
            return format!("nothing to analyse: {why}");
        }
        let format = self.source.format.as_str();
        if let (Some(Verdict::Unclear), Some(reason)) = (self.period.verdict, self.period.reason) {
            return format!(
                "unclear: {}",
                reason_in_words(reason, format, &self.settings, &self.period.candidates)
            );
        }
        let confidence = self.headline_confidence();
        let Some(period_s) = self.period.period_s else {
            let confidence =
                confidence.map_or(String::new(), |c| format!(" (confidence {})", text::percent(c)));
            let why = match self.period.reason {
                Some(reason) => reason_in_words(reason, format, &self.settings, &self.period.candidates),
                None => format!("{} do not repeat evenly", self.settings.what()),
            };
            return format!("no period: {why}{confidence}");
        };
        let periods = match self.period.rhythms.as_slice() {
            [] => format!("period {}", text::seconds(period_s)),
            rhythms => Named::of(rhythms).periods(self.settings.window_s, self.source.zero()),
        };
        let confidence = text::percent(confidence.unwrap_or(0.0));
        format!("{periods}, confidence {confidence}: {}", self.what_repeats(period_s))
    }

    /// The confidence of the whole headline: where it names several rhythms, of the least certain.
    pub(crate) fn headline_confidence(&self) -> Option<f64> {
        if self.period.verdict == Some(Verdict::Unclear) {
            return None;
        }
        let confidence = self.period.confidence.filter(|&confidence| confidence > 0.0)?;
        Some(Named::of(&self.period.rhythms).confidence().map_or(confidence, |least| least.min(confidence)))
    }

    /// "20 phases of about 5.6 GB written".
    fn what_repeats(&self, period_s: f64) -> String {
        let moved = match self.settings.mode {
            "read" => "read",
            "write" => "written",
            _ => "moved",
        };
        let rhythms = &self.period.rhythms;
        if let Some(main) = rhythms.first()
            && let Some(phases) = Named::of(rhythms).phases(self.period.bytes_per_phase, main)
        {
            return format!("{phases} {moved}");
        }
        if rhythms.len() > 1 {
            return format!("{} repeat evenly", self.settings.what());
        }
        // Phases are counted as they are; the score spreads the volume over the window, which may end with a phase.
        let n_phases = self.phases.len();
        let of_phases = self.period.bytes_per_phase.unwrap_or(0.0);
        match (n_phases, self.scores.bytes_per_period) {
            (2.., _) => format!(
                "{} of about {} {moved}",
                text::counted(n_phases as u64, "phase"),
                text::bytes(of_phases)
            ),
            (_, Some(bytes)) => {
                format!("about {} {moved} every {}", text::bytes(bytes), text::seconds(period_s))
            }
            _ => format!("{} repeat evenly", self.settings.what()),
        }
    }

    /// A line for each rhythm, where there is more to say than the headline does.
    pub(crate) fn rhythms_in_words(&self) -> Option<String> {
        let rhythms = &self.period.rhythms;
        if rhythms.len() < 2 && !rhythms.iter().any(Rhythm::is_remarkable) {
            return None;
        }
        let zero = self.source.zero();
        Some(rhythms.iter().map(|rhythm| rhythm.in_words(zero)).collect::<Vec<_>>().join("\n"))
    }

    /// Returns the facts line by line: a name and a sentence.
    pub(crate) fn facts(&self) -> Rows {
        let mut rows = Rows::default();
        rows.row("source", self.source.in_words());
        rows.row(
            "volume",
            format!(
                "{} read, {} written",
                text::bytes(self.source.bytes_read),
                text::bytes(self.source.bytes_written)
            ),
        );
        for (name, sentence) in self.card.iter().flat_map(JobCard::in_words) {
            rows.row(name, sentence);
        }
        if let Some(demand) = &self.demand {
            for (name, sentence) in demand.in_words() {
                rows.row(name, sentence);
            }
        }
        if let Some(issues) = &self.issues {
            issues.add_rows(&mut rows);
        }
        if let Some(labels) = &self.categories {
            rows.row("labels", labels.join(", "));
        }
        if let Some(history) = &self.history {
            rows.row("history", history.in_words());
        }
        if let Some(why) = &self.why {
            rows.row("slowness", why.why.headline());
        }
        if self.not_analysed.is_some() {
            rows.row("losses", self.losses_in_words());
            return rows;
        }
        rows.row("analysed", self.settings.in_words(self.source.zero()));
        if let Some(rhythms) = self.rhythms_in_words() {
            rows.row(if self.period.rhythms.len() > 1 { "rhythms" } else { "rhythm" }, rhythms);
        }
        if let Some(phases) = self.phases_in_words() {
            rows.row("phases", phases);
        }
        if let Some(next_s) = self.period.next_phase_s {
            let in_s = self.settings.window_s.map(|[_, end_s]| next_s - end_s);
            let when = match in_s {
                Some(in_s) if in_s > 0.0 => format!(", {} after the end of the data", text::seconds(in_s)),
                _ => String::new(),
            };
            rows.row("next phase", format!("expected at {}{when}", self.source.zero().moment(next_s)));
        }
        for (name, score) in self.scores.in_words() {
            rows.row(name, score);
        }
        if let Some((name, bytes)) = self.bytes_at_once() {
            rows.row(name, text::bytes(bytes));
        }
        self.add_evidence(&mut rows);
        rows.row("losses", self.losses_in_words());
        rows
    }

    /// Adds the evidence for the period, and how strong it is.
    fn add_evidence(&self, rows: &mut Rows) {
        if !self.period.candidates.is_empty() {
            let candidates = (self.period.candidates.iter())
                .map(|c| {
                    let accepted = if c.accepted { ", accepted" } else { "" };
                    format!("{} ({}{accepted})", text::seconds(c.period_s), text::percent(c.confidence))
                })
                .collect::<Vec<_>>();
            rows.row("candidates", candidates.join(", "));
        }
        if let Some(words) = harmonics::in_words(&self.period.harmonics, self.period.bursts == Some(true)) {
            rows.row("harmonics", words);
        }
        if let Some(acf) = &self.period.autocorrelation {
            let together = (self.period.refined_confidence)
                .map(|c| format!("; all evidence together: {}", text::percent(c)))
                .unwrap_or_default();
            rows.row(
                "autocorrelation",
                format!("{} ({}){together}", text::seconds(acf.period_s), text::percent(acf.confidence)),
            );
        }
        if let Some(error) = self.reconstruction_error {
            let waves = (self.waves.iter().filter_map(|wave| wave.period_s))
                .map(text::seconds)
                .collect::<Vec<_>>()
                .join(", ");
            rows.row(
                "waves",
                format!("of {waves} draw the signal with an error of {}", text::percent(error)),
            );
        }
    }

    /// Returns the bytes of a phase on average; where no phases are separated, those of a period by the score.
    pub(crate) fn bytes_at_once(&self) -> Option<(&'static str, f64)> {
        let of_phases = self.period.bytes_per_phase.map(|bytes| ("per phase", bytes));
        of_phases.or(self.scores.bytes_per_period.map(|bytes| ("per period", bytes)))
    }

    fn phases_in_words(&self) -> Option<String> {
        if self.phases.is_empty() {
            return None;
        }
        let n = self.phases.len() as f64;
        let length_s = self.phases.iter().map(|phase| phase.end_s - phase.start_s).sum::<f64>() / n;
        Some(format!(
            "{}, on average {} long and {}",
            text::count(self.phases.len() as u64),
            text::seconds(length_s),
            text::bytes(self.period.bytes_per_phase.unwrap_or(0.0))
        ))
    }

    fn losses_in_words(&self) -> String {
        if self.losses.is_empty() {
            return "none".to_owned();
        }
        self.losses.iter().map(Loss::in_words).collect::<Vec<_>>().join("\n")
    }

    /// Two lines of bars over a time axis.
    fn drawn(&self, width: usize, [start_s, end_s]: [f64; 2], ink: Ink) -> String {
        let columns = (width - 4).clamp(20, 100).min(self.outline.len());
        let heights: Vec<f64> = (0..columns)
            .map(|i| {
                let (from, to) = (i * self.outline.len() / columns, (i + 1) * self.outline.len() / columns);
                let part = &self.outline[from..to];
                part.iter().map(|column| column.0).sum::<f64>() / part.len() as f64
            })
            .collect();
        let highest = self.outline.iter().map(|column| column.1).fold(0.0, f64::max);
        let zero = self.source.zero();
        let (left, right) = (zero.moment(start_s), zero.moment(end_s));
        let peak = format!("up to {}", text::bandwidth(highest));
        let taken = left.chars().count() + right.chars().count() + peak.chars().count();
        let axis = if columns > taken + 2 {
            let gap = columns - taken;
            format!("{left}{}{peak}{}{right}", " ".repeat(gap / 2), " ".repeat(gap - gap / 2))
        } else {
            format!("{left} to {right}, {peak}")
        };
        format!("  {}\n  {}\n\n", ink.accent(&text::bars(&heights)), ink.faint(&axis))
    }
}

impl Tell for Run {
    fn tell(&self, width: usize, ink: Ink) -> String {
        let name = self.source.path.for_terminal();
        let headline = self.headline();
        let mut out = text::wrap(&format!("{name}: {headline}"), width).join("\n");
        if ink == Ink::Ansi {
            out = ink.bold(&out);
        }
        out.push_str("\n\n");
        if let (false, Some([start_s, end_s])) = (self.outline.is_empty(), self.settings.window_s) {
            out.push_str(&self.drawn(width, [start_s, end_s], ink));
        }
        out.push_str(&self.facts().render(width, |name| ink.faint(name)));
        out
    }
}

/// Bytes are counted in whole numbers; only a bandwidth times a time is not one.
pub(crate) fn whole_bytes<S: Serializer>(bytes: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    const EXACT: f64 = (1u64 << 53) as f64;
    let whole = bytes.round();
    // A sum of rates times times may miss the whole number by rounding.
    if (bytes - whole).abs() <= 1e-9 * whole && (0.0..EXACT).contains(&whole) {
        serializer.serialize_u64(whole as u64)
    } else {
        serializer.serialize_f64(*bytes)
    }
}

pub(crate) fn whole_bytes_if_any<S: Serializer>(
    bytes: &Option<f64>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match bytes {
        Some(bytes) => whole_bytes(bytes, serializer),
        None => serializer.serialize_none(),
    }
}

/// At most 400 columns of (mean, highest).
fn outline(values: &[f64]) -> Vec<(f64, f64)> {
    let columns = values.len().min(400);
    (0..columns)
        .map(|i| {
            let part = &values[i * values.len() / columns..(i + 1) * values.len() / columns];
            let mean = part.iter().sum::<f64>() / part.len() as f64;
            (mean, part.iter().copied().fold(0.0, f64::max))
        })
        .collect()
}
