//! Report on a running job: one line a prediction, or a screen that is drawn anew.

use iotide_analysis::online::{
    self, ExpectedRhythm, FrequencyInterval, IdleGap, Reason, Regime, RegimeChange, RegimeChangeKind,
    SeenPhase, StreamCounts,
};
use iotide_look::{Untrusted, text};
use serde::Serialize;

use crate::run::{Loss, Source};
use crate::{Ink, SCHEMA};

/// One line of JSON about a running job.
#[derive(Clone, Debug, Serialize)]
pub struct LiveLine<T> {
    schema: &'static str,
    /// `prediction`, `notice` or `end`.
    pub kind: &'static str,
    #[serde(flatten)]
    what: T,
}

impl<T: Serialize> LiveLine<T> {
    fn new(kind: &'static str, what: T) -> Self {
        Self { schema: SCHEMA, kind, what }
    }

    /// Returns the line, without its end.
    pub fn to_json(&self) -> String {
        iotide_look::text::json(self)
    }
}

/// Prediction for a running job.
#[derive(Clone, Debug, Serialize)]
pub struct Prediction {
    /// The job, as it or `iotide record` calls it; not there if nobody has named it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<Untrusted>,
    /// Counts from 1, for each job.
    pub number: u64,
    /// The moment, on the trace's clock: what happened later is not in here.
    pub at_s: f64,
    /// The same as Unix time, if it is known when the trace's clock began.
    pub at_unix_s: Option<f64>,
    /// Event that triggered it.
    pub reason: Reason,
    /// The window it is based on.
    pub window_s: [f64; 2],
    /// The period of the main rhythm.
    pub period_s: Option<f64>,
    /// Its inverse.
    pub frequency_hz: Option<f64>,
    /// Confidence of the period; without a period, of there being none.
    pub confidence: f64,
    /// All rhythms that hold at once.
    pub rhythms: Vec<ExpectedRhythm>,
    /// The next phase of the main rhythm.
    pub next_phase: Option<NextPhase>,
    /// When nothing will be going on.
    pub idle_gaps: Vec<IdleGap>,
    /// Where the frequency lies by all predictions so far.
    pub intervals: Vec<FrequencyInterval>,
    /// The last phase seen.
    pub last_phase: Option<SeenPhase>,
    /// The stretch of stable behaviour the job is in.
    pub regime: Option<Regime>,
    /// Changes since the last line.
    pub changes: Vec<RegimeChange>,
    /// Events of the stream so far.
    pub stream: StreamCounts,
}

/// The next phase.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct NextPhase {
    /// When it is expected to begin.
    pub start_s: f64,
    /// The same as Unix time, if known.
    pub start_unix_s: Option<f64>,
    /// It begins in here …
    pub start_interval_s: [f64; 2],
    /// … this often.
    pub interval_probability: f64,
    /// Bytes that it is expected to move.
    pub bytes: f64,
    /// How long it is expected to last.
    pub duration_s: f64,
}

impl Prediction {
    /// Returns a prediction for a job (empty: without a name) in the words of the report; `origin_unix_s` is when the trace's clock
    /// began.
    pub fn new(job: &str, prediction: &online::Prediction, origin_unix_s: Option<f64>) -> Self {
        let unix = |at_s: f64| origin_unix_s.map(|origin_s| origin_s + at_s);
        let p = prediction;
        Self {
            job: name_of(job),
            number: p.number,
            at_s: p.at_s,
            at_unix_s: unix(p.at_s),
            reason: p.reason,
            window_s: [p.window_s.0, p.window_s.1],
            period_s: p.period_s,
            frequency_hz: p.period_s.map(|period_s| 1.0 / period_s),
            confidence: p.confidence,
            rhythms: p.rhythms.clone(),
            next_phase: p.next_phase.map(|next| NextPhase {
                start_s: next.start_s,
                start_unix_s: unix(next.start_s),
                start_interval_s: [next.start_interval_s.0, next.start_interval_s.1],
                interval_probability: online::NextPhase::INTERVAL_PROBABILITY,
                bytes: next.bytes,
                duration_s: next.duration_s,
            }),
            idle_gaps: p.idle_gaps.clone(),
            intervals: p.intervals.clone(),
            last_phase: p.last_phase,
            regime: p.regime,
            changes: p.changes.clone(),
            stream: p.stream,
        }
    }

    /// Returns it as a line of JSON, without the line's end.
    pub fn to_json(&self) -> String {
        LiveLine::new("prediction", self).to_json()
    }

    /// Returns the variables by which a command gets it: name and value, empty for what does not exist.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
        let next = self.next_phase;
        vec![
            ("IOTIDE_JOB", self.job.as_ref().map(|job| job.as_said().to_owned()).unwrap_or_default()),
            ("IOTIDE_PREDICTION", self.number.to_string()),
            ("IOTIDE_AT_S", self.at_s.to_string()),
            ("IOTIDE_AT_UNIX_S", number(self.at_unix_s)),
            ("IOTIDE_PERIOD_S", number(self.period_s)),
            ("IOTIDE_FREQUENCY_HZ", number(self.frequency_hz)),
            ("IOTIDE_CONFIDENCE", self.confidence.to_string()),
            ("IOTIDE_NEXT_PHASE_S", number(next.map(|next| next.start_s))),
            ("IOTIDE_NEXT_PHASE_UNIX_S", number(next.and_then(|next| next.start_unix_s))),
            ("IOTIDE_NEXT_PHASE_BYTES", number(next.map(|next| next.bytes))),
            ("IOTIDE_NEXT_PHASE_DURATION_S", number(next.map(|next| next.duration_s))),
            ("IOTIDE_IDLE_UNTIL_S", number(self.idle_gaps.first().map(|gap| gap.end_s))),
            ("IOTIDE_REGIME", self.regime.map(|regime| regime.id.to_string()).unwrap_or_default()),
        ]
    }

    /// Returns that there is no period, and the confidence in it.
    fn no_period(&self) -> String {
        match self.confidence {
            0.0 => "no period yet: fewer than three phases".to_owned(),
            confidence => format!("no period (confidence {})", text::percent(confidence)),
        }
    }

    /// Returns it in one line for people, without the line's end.
    pub fn in_words(&self) -> String {
        let at = text::moment(self.at_s);
        let Some(period_s) = self.period_s else {
            return format!("{at}: {}", self.no_period());
        };
        let mut line =
            format!("{at}: period {} ({})", text::seconds(period_s), text::percent(self.confidence));
        if let Some(next) = &self.next_phase {
            line.push_str(&format!(
                ", next phase at {} (from {} to {}), {} for {}",
                text::moment(next.start_s),
                text::moment(next.start_interval_s[0]),
                text::moment(next.start_interval_s[1]),
                text::bytes(next.bytes),
                text::seconds(next.duration_s)
            ));
        }
        for change in &self.changes {
            let period = text::seconds(change.period_s);
            line.push_str(&match change.kind {
                RegimeChangeKind::Left => format!("; the rhythm of {period} has ended"),
                RegimeChangeKind::Returned => format!("; the rhythm of {period} is back"),
                RegimeChangeKind::Entered => format!("; a rhythm of {period} has begun"),
            });
        }
        line
    }

    /// When the next phase is due as seen from `now_s`: what is past is taken to recur with the period.
    pub fn next_start_after(&self, now_s: f64) -> Option<f64> {
        let (start_s, period_s) = (self.next_phase?.start_s, self.period_s?);
        let n_missed = ((now_s - start_s) / period_s).ceil().max(0.0);
        Some(start_s + n_missed * period_s)
    }
}

/// Something that happened while following.
#[derive(Clone, Debug, Serialize)]
pub struct Notice {
    /// Text of the notice.
    pub text: Untrusted,
}

impl Notice {
    /// Returns it as a line of JSON, without the line's end.
    pub fn to_json(&self) -> String {
        LiveLine::new("notice", self).to_json()
    }
}

fn name_of(job: &str) -> Option<Untrusted> {
    (!job.is_empty()).then(|| job.into())
}

/// Which of several jobs a line is about, for people: nothing where there is only one.
pub fn about_job(job: Option<&Untrusted>, n_jobs: usize) -> String {
    match job {
        _ if n_jobs < 2 => String::new(),
        Some(job) => format!("job {}: ", job.for_terminal()),
        None => "a job without a name: ".to_owned(),
    }
}

/// Summary of a followed job, at the end.
#[derive(Clone, Debug, Serialize)]
pub struct LiveEnd {
    /// The job, as in its predictions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<Untrusted>,
    /// Source that was read.
    pub source: Source,
    /// Why following ended: `job_over`, `idle` or `interrupted`.
    pub reason: &'static str,
    /// How many predictions were made.
    pub n_predictions: u64,
    /// The last period that was found.
    pub period_s: Option<f64>,
    /// Data known to be missing.
    pub losses: Vec<Loss>,
}

impl LiveEnd {
    /// Returns what was followed of a job; empty: one without a name.
    pub fn new(job: &str, source: Source, reason: &'static str) -> Self {
        Self { job: name_of(job), source, reason, n_predictions: 0, period_s: None, losses: Vec::new() }
    }

    /// Returns it as a line of JSON, without the line's end.
    pub fn to_json(&self) -> String {
        LiveLine::new("end", self).to_json()
    }

    /// Returns it for people, each line with its end.
    pub fn in_words(&self) -> String {
        let Self { source, n_predictions, .. } = self;
        let why = match self.reason {
            "job_over" => "the job is over",
            "idle" => "nothing more came",
            _ => "stopped",
        };
        let found = match self.period_s {
            Some(period_s) => format!("the last period was {}", text::seconds(period_s)),
            None => "no period was found".to_owned(),
        };
        let mut out = format!(
            "{why}: {}, {} read, {} written, {}; {found}\n",
            text::counted(source.n_events, "event"),
            text::bytes(source.bytes_read),
            text::bytes(source.bytes_written),
            text::counted(*n_predictions, "prediction"),
        );
        for loss in &self.losses {
            out.push_str(&format!("lost: {}\n", text::printable(&loss.in_words())));
        }
        out
    }
}

/// Content of the screen for a running job.
#[derive(Clone, Debug)]
pub struct Screen<'a> {
    /// Name of the job or trace that is followed.
    pub name: Untrusted,
    /// Source, as far as it was read.
    pub source: Source,
    /// Now, on the trace's clock.
    pub now_s: f64,
    /// How long nothing has come.
    pub quiet_s: f64,
    /// Bandwidth up to now, one value a column, and how long a column is.
    pub rates_bps: &'a [f64],
    /// Time that the columns cover.
    pub span_s: f64,
    /// Predictions, the newest last.
    pub predictions: &'a [Prediction],
    /// Notices, the newest last.
    pub notices: &'a [Untrusted],
}

impl Screen<'_> {
    /// Columns beside the picture.
    pub const MARGIN: usize = 4;

    /// Returns the lines of a screen of this size, none of them longer or more than fit.
    pub fn lines(&self, width: usize, height: usize, ink: Ink) -> Vec<String> {
        let n_rows = height.saturating_sub(14).clamp(1, 12);
        let mut lines = vec![self.headline(width, ink), String::new()];
        let highest = self.rates_bps.iter().copied().fold(0.0, f64::max);
        let graph = columns(self.rates_bps, n_rows);
        lines.extend(graph.into_iter().map(|row| format!("  {}", ink.accent(&row))));
        let up_to = format!("up to {}", text::bandwidth(highest));
        lines.push(format!(
            "  {}",
            spread([&format!("{} ago", text::seconds(self.span_s)), &up_to, "now"], self.rates_bps.len())
        ));
        lines.push(String::new());
        lines.extend(self.expectation(ink));
        lines.push(String::new());
        let room = height.saturating_sub(lines.len() + 2 + self.notices.len().min(2));
        lines.push(format!("  {}", ink.bold("predictions")));
        let shown = self.predictions.iter().rev().take(room.max(1));
        lines.extend(shown.map(|prediction| format!("  {}", prediction.in_words())));
        for notice in self.notices.iter().rev().take(2) {
            lines.push(format!("  {}", ink.faint(&notice.for_terminal())));
        }
        lines.truncate(height.saturating_sub(1));
        lines.resize(height.saturating_sub(1), String::new());
        lines.push(ink.faint("  Ctrl-C ends"));
        lines.into_iter().map(|line| cut(&line, width)).collect()
    }

    fn headline(&self, width: usize, ink: Ink) -> String {
        let Source { n_ranks, n_events, bytes_read, bytes_written, .. } = &self.source;
        let ranks = n_ranks
            .map(|n| format!("{}, ", text::counted(n, self.source.process_noun())))
            .unwrap_or_default();
        let sums = format!(
            "{ranks}{}, {} read, {} written",
            text::counted(*n_events, "event"),
            text::bytes(*bytes_read),
            text::bytes(*bytes_written)
        );
        let name = self.name.for_terminal();
        let gap = width.saturating_sub(2 + name.chars().count() + sums.chars().count() + 2).max(2);
        format!("  {}{}{sums}", ink.bold(&name), " ".repeat(gap))
    }

    fn expectation(&self, ink: Ink) -> Vec<String> {
        let Some(prediction) = self.predictions.last() else {
            let waiting = match self.source.n_events {
                0 => "waiting for the first I/O",
                _ => "waiting for the first phases",
            };
            return vec![format!("  {}", ink.faint(waiting)), String::new(), String::new()];
        };
        let Some(period_s) = prediction.period_s else {
            return vec![format!("  period      {}", prediction.no_period()), String::new(), String::new()];
        };
        let mut lines = vec![format!(
            "  period      {}  (confidence {}){}",
            ink.bold(&text::seconds(period_s)),
            text::percent(prediction.confidence),
            prediction
                .regime
                .map(|regime| format!(", for {}", text::counted(u64::from(regime.n_phases), "phase")))
                .unwrap_or_default()
        )];
        match (prediction.next_start_after(self.now_s), prediction.next_phase) {
            (Some(start_s), Some(next)) => {
                let (early_s, late_s) =
                    (next.start_s - next.start_interval_s[0], next.start_interval_s[1] - next.start_s);
                lines.push(format!(
                    "  next phase  in {}  (−{} +{}), {} for {}",
                    ink.bold(&format!("{:.1} s", (start_s - self.now_s).max(0.0))),
                    text::seconds(early_s),
                    text::seconds(late_s),
                    text::bytes(next.bytes),
                    text::seconds(next.duration_s)
                ));
            }
            _ => lines.push(String::new()),
        }
        let gap = prediction.idle_gaps.iter().find(|gap| gap.end_s > self.now_s);
        lines.push(gap.map_or(String::new(), |gap| {
            let from_s = (gap.start_s - self.now_s).max(0.0);
            let from = if from_s > 0.0 { format!("in {from_s:.1} s") } else { "now".to_owned() };
            format!(
                "  idle        {from}, for {} with {}",
                text::seconds(gap.end_s - gap.start_s.max(self.now_s)),
                text::percent(gap.probability)
            )
        }));
        lines
    }
}

/// Columns of bars as rows of text, the topmost first.
fn columns(values: &[f64], n_rows: usize) -> Vec<String> {
    const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let highest = values.iter().copied().fold(0.0, f64::max);
    let eighths = |value: f64| match value / highest {
        share if share > 0.0 => ((share * (8 * n_rows) as f64).ceil() as usize).clamp(1, 8 * n_rows),
        _ => 0,
    };
    (0..n_rows)
        .rev()
        .map(|row| values.iter().map(|&value| BARS[eighths(value).saturating_sub(8 * row).min(8)]).collect())
        .collect()
}

/// Three texts on one line: left, in the middle, right.
fn spread([left, middle, right]: [&str; 3], width: usize) -> String {
    let len = |text: &str| text.chars().count();
    let room = width.saturating_sub(len(left) + len(middle) + len(right));
    let before = (width / 2).saturating_sub(len(left) + len(middle) / 2).min(room);
    format!("{left}{}{middle}{}{right}", " ".repeat(before), " ".repeat(room - before))
}

/// A line of at most `width` columns; what switches colours takes none.
fn cut(line: &str, width: usize) -> String {
    let (mut n, mut is_escape, mut out) = (0, false, String::new());
    for c in line.chars() {
        if c == '\x1b' {
            is_escape = true;
        }
        if is_escape {
            out.push(c);
            is_escape = c != 'm';
        } else if n < width {
            out.push(c);
            n += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_trace::{JobInfo, Tally};

    fn prediction() -> online::Prediction {
        online::Prediction {
            at_s: 40.25,
            number: 4,
            reason: Reason::PhaseEnded,
            window_s: (0.0, 40.25),
            period_s: Some(10.0),
            confidence: 0.9,
            rhythms: Vec::new(),
            next_phase: Some(online::NextPhase {
                start_s: 50.0,
                start_interval_s: (49.5, 50.5),
                bytes: 2e9,
                duration_s: 1.5,
            }),
            idle_gaps: vec![online::IdleGap { start_s: 41.0, end_s: 49.5, probability: 0.85 }],
            intervals: Vec::new(),
            last_phase: None,
            regime: Some(online::Regime { id: 1, since_s: 0.0, n_phases: 4 }),
            changes: vec![online::RegimeChange {
                at_s: 0.0,
                kind: RegimeChangeKind::Entered,
                regime: 1,
                period_s: 10.0,
            }],
            stream: online::StreamCounts { events: 100, late: 0, senseless: 0, ahead: 0 },
        }
    }

    #[test]
    fn a_prediction_is_one_line_of_json_and_one_for_people() {
        let told = Prediction::new("42", &prediction(), Some(1000.0));
        insta::assert_snapshot!(told.to_json(), @r#"{"schema":"iotide/1","kind":"prediction","job":"42","number":4,"at_s":40.25,"at_unix_s":1040.25,"reason":"phase_ended","window_s":[0.0,40.25],"period_s":10.0,"frequency_hz":0.1,"confidence":0.9,"rhythms":[],"next_phase":{"start_s":50.0,"start_unix_s":1050.0,"start_interval_s":[49.5,50.5],"interval_probability":0.8,"bytes":2000000000.0,"duration_s":1.5},"idle_gaps":[{"start_s":41.0,"end_s":49.5,"probability":0.85}],"intervals":[],"last_phase":null,"regime":{"id":1,"since_s":0.0,"n_phases":4},"changes":[{"at_s":0.0,"kind":"entered","regime":1,"period_s":10.0}],"stream":{"events":100,"late":0,"senseless":0,"ahead":0}}"#);
        insta::assert_snapshot!(told.in_words(), @"40.25 s: period 10 s (90 %), next phase at 50 s (from 49.5 s to 50.5 s), 2 GB for 1.5 s; a rhythm of 10 s has begun");
    }

    #[test]
    fn names_of_others_steer_no_terminal() {
        use crate::steering::{assert_plain, hostile};
        let name = hostile("job");
        let told = Prediction::new(&name, &prediction(), None);
        assert_plain(&told.to_json(), "");
        assert_plain(&about_job(told.job.as_ref(), 2), "");
        let notice = Notice { text: Untrusted::from(hostile("notice")) };
        assert_plain(&notice.to_json(), "");
        let source = Source::new(name.as_str(), "native", &Tally::default(), &JobInfo::default());
        let end = LiveEnd {
            losses: vec![Loss::from(&iotide_trace::Loss::of_unknown_size(hostile("loss")))],
            ..LiveEnd::new(&name, source.clone(), "idle")
        };
        assert_plain(&end.to_json(), "");
        assert_plain(&end.in_words(), "\n");
        let screen = Screen {
            name: name.as_str().into(),
            source,
            now_s: 42.5,
            quiet_s: 0.0,
            rates_bps: &[1.0; 60],
            span_s: 60.0,
            predictions: &[told],
            notices: &[notice.text],
        };
        screen.lines(200, 24, Ink::Plain).iter().for_each(|line| assert_plain(line, ""));
        // A command is told the name as it is.
        assert_eq!(screen.predictions[0].variables()[0], ("IOTIDE_JOB", name));
    }

    #[test]
    fn a_phase_that_is_past_is_expected_a_period_later() {
        let told = Prediction::new("", &prediction(), None);
        assert_eq!(told.next_start_after(45.0), Some(50.0));
        assert_eq!(told.next_start_after(50.0), Some(50.0));
        assert_eq!(told.next_start_after(71.0), Some(80.0));
    }

    #[test]
    fn the_screen_fits_and_counts_down() {
        let predictions = [Prediction::new("", &prediction(), None)];
        let rates: Vec<f64> = (0..60).map(|i| if i % 12 < 2 { 1e9 } else { 0.0 }).collect();
        let screen = Screen {
            name: "run7".into(),
            source: Source::new("run7", "native", &Tally::default(), &JobInfo::default()),
            now_s: 42.5,
            quiet_s: 0.0,
            rates_bps: &rates,
            span_s: 60.0,
            predictions: &predictions,
            notices: &["a notice".into()],
        };
        for (width, height) in [(80, 24), (40, 10), (20, 5), (200, 60)] {
            let lines = screen.lines(width, height, Ink::Plain);
            assert_eq!(lines.len(), height);
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{lines:#?}");
        }
        let lines = screen.lines(70, 18, Ink::Plain);
        let shown: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
        insta::assert_snapshot!(shown.join("\n"), @"
        run7                               0 events, 0 B read, 0 B written

        ██          ██          ██          ██          ██
        ██          ██          ██          ██          ██
        ██          ██          ██          ██          ██
        ██          ██          ██          ██          ██
        60 s ago                up to 1 GB/s                     now

        period      10 s  (confidence 90 %), for 4 phases
        next phase  in 7.5 s  (−500 ms +500 ms), 2 GB for 1.5 s
        idle        now, for 7 s with 85 %

        predictions
        40.25 s: period 10 s (90 %), next phase at 50 s (from 49.5 s to 50.5
        a notice


        Ctrl-C ends
        ");
    }
}
