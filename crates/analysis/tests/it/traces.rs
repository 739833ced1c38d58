//! Every answer FTIO 0.0.9 gives by its Z-score on the traces it ships, against ours from the same files.
//!
//! Held samples must agree to rounding. Averaged samples (our default) answer
//! differently where holding loses bursts between two samples; those rows are listed, and in `docs/methods.md`.

use std::path::Path;

use iotide_analysis::{DftConfig, Method, PeriodConfig, PeriodEstimate, detect_period};
use iotide_formats::OpenOptions;
use iotide_trace::{ReadWrite, Sampling, SamplingKind, Span, StepSignal, Timestamp, sample};
use serde_json::Value;

use crate::golden::{read, reference_data};

#[test]
fn held_samples_give_the_answers_of_ftio() {
    for Row { case, folder, question, period_s, confidence } in rows() {
        let found = question.answer(&folder, SamplingKind::Hold);
        assert_eq!(found.period_s.is_some(), period_s.is_some(), "{case}: {found:?}");
        if let (Some(found_s), Some(expected_s)) = (found.period_s, period_s) {
            assert!((found_s / expected_s - 1.0).abs() < 1e-9, "{case}: {found_s} s, not {expected_s} s");
            let gap = (found.confidence - confidence).abs();
            // FTIO's sample times are a running sum of 0.1 s and miss this trace's changes at whole seconds by rounding.
            let allowed = if question.file.ends_with("txt/2.txt") { 1e-3 } else { 1e-6 };
            assert!(gap < allowed, "{case}: confidence {} instead of {confidence}", found.confidence);
        }
    }
}

#[test]
fn averaged_samples_differ_from_ftio_only_where_the_methods_page_says_so() {
    let mut differing: Vec<String> = rows()
        .into_iter()
        .filter(|row| {
            let found = row.question.answer(&row.folder, SamplingKind::Mean).period_s;
            !match (found, row.period_s) {
                (Some(found_s), Some(expected_s)) => (found_s / expected_s - 1.0).abs() < 0.01,
                (found, expected) => found.is_none() && expected.is_none(),
            }
        })
        .map(|row| row.question.to_string())
        .collect();
    differing.sort();
    differing.dedup();
    if reference_data().is_some() {
        assert_eq!(
            differing,
            [
                "tmio/JSONL/8.jsonl at 1 Hz",
                "tmio/JSONL/8.jsonl at 10 Hz",
                "tmio/JSONL/8.jsonl at 10 Hz from 5 s",
                "tmio/JSONL/8.jsonl at 10 Hz from 5 s to 20 s",
            ]
        );
    }
}

/// A row of FTIO's answers.
struct Row {
    case: String,
    folder: std::path::PathBuf,
    question: Question,
    period_s: Option<f64>,
    confidence: f64,
}

/// What FTIO was asked, as far as it concerns the spectrum and its Z-scores.
struct Question {
    file: String,
    reads: bool,
    rate_hz: f64,
    tolerance: f64,
    from_s: Option<f64>,
    to_s: Option<f64>,
}

impl Question {
    /// `None` for what `--method dft` has no counterpart of: other detectors and transforms, filters, the amplitude
    /// spectrum, a second opinion in place of the answer; and for FTIO's automatic rate, which asks for 58 million
    /// samples.
    fn of(file: &str, args: &[&str]) -> Option<Self> {
        let mut question = Self {
            file: file.to_string(),
            reads: false,
            rate_hz: 10.0,
            tolerance: 0.8,
            from_s: None,
            to_s: None,
        };
        let mut args = args.iter();
        while let Some(&arg) = args.next() {
            let mut number = || args.next().and_then(|value| value.parse::<f64>().ok());
            match arg {
                "-f" => question.rate_hz = number().filter(|rate_hz| *rate_hz > 0.0)?,
                "-t" => question.tolerance = number()?,
                "-ts" => question.from_s = Some(number()?),
                "-te" => question.to_s = Some(number()?),
                "-m" => question.reads = *args.next()? == "read_sync",
                // Engine, pattern file, top n, other scores: they leave the answer as it is.
                "-e" | "-cf" | "-n" | "-p" => drop(args.next()),
                "-bw" => {}
                _ => return None,
            }
        }
        // The one trace of reads only: FTIO falls back to what there is.
        question.reads |= file == "tmio/ior/collective/test.json";
        Some(question)
    }

    fn answer(&self, folder: &Path, kind: SamplingKind) -> PeriodEstimate {
        let mut sink = ReadWrite::default();
        OpenOptions::default().open(&folder.join(&self.file)).unwrap().read(&mut sink).unwrap();
        let signal = if self.reads { sink.read.finish() } else { sink.write.finish() };
        let mut window = self.window(&signal);
        if self.file == "custom/txt/2.txt" {
            // Begins and ends with requests that moved nothing. They have no place in the signal, but FTIO's window
            // reaches over them; the window is given here as a user would give it.
            (window.start, window.end) = (sink.tally.start.unwrap(), sink.tally.end.unwrap());
        }
        let sampled = sample(&signal, window, Sampling { rate_hz: self.rate_hz, kind }).unwrap();
        let dft = DftConfig { tolerance: self.tolerance, ..DftConfig::default() };
        detect_period(&sampled, &PeriodConfig { method: Method::Dft, dft }).unwrap()
    }

    /// As FTIO cuts: from the first change of bandwidth within the window to the last.
    fn window(&self, signal: &StepSignal) -> Span {
        let mut window = signal.span().unwrap();
        let within = |time: &&Timestamp| {
            self.from_s.is_none_or(|from_s| time.as_secs() >= from_s)
                && self.to_s.is_none_or(|to_s| time.as_secs() <= to_s)
        };
        if let (Some(&first), Some(&last)) =
            (signal.times().iter().find(within), signal.times().iter().rev().find(within))
        {
            (window.start, window.end) = (first, last);
        }
        window
    }
}

impl std::fmt::Display for Question {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.file)?;
        if self.reads {
            write!(f, " (reads)")?;
        }
        write!(f, " at {} Hz", self.rate_hz)?;
        if self.tolerance != 0.8 {
            write!(f, " with a tolerance of {}", self.tolerance)?;
        }
        for (word, time_s) in [("from", self.from_s), ("to", self.to_s)] {
            if let Some(time_s) = time_s {
                write!(f, " {word} {time_s} s")?;
            }
        }
        Ok(())
    }
}

fn rows() -> Vec<Row> {
    let Some(folder) = reference_data() else { return Vec::new() };
    let rows = read(&folder.join("golden.json"))["rows"].clone();
    let rows: Vec<Row> = rows
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["ok"] == true && !row["file"].as_str().unwrap().starts_with("darshan/"))
        .filter_map(|row| {
            let args: Vec<&str> = row["args"].as_array()?.iter().filter_map(Value::as_str).collect();
            let question = Question::of(row["file"].as_str()?, &args)?;
            Some(Row {
                case: row["cmd"].as_str()?.to_string(),
                folder: folder.clone(),
                question,
                period_s: row["period_s"].as_f64(),
                confidence: row["conf"].as_f64().unwrap_or(0.0),
            })
        })
        .collect();
    assert!(rows.len() > 30, "only {} rows", rows.len());
    rows
}
