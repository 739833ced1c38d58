//! Signatures: the load an application puts on the storage, its bursts, and the samples that is based on.

use iotide_analysis::{
    Burst, NoSample, PeriodEstimate, RejectedSample, Sample, SampleRejection, Signature, SignatureMethod,
};
use iotide_look::Untrusted;
use iotide_look::text::{self, Rows};
use serde::{Serialize, Serializer};

pub use self::{
    chart::SignatureChart,
    fit::{FitReport, FitStart},
    log::{LogReport, LogRow, LogSource, LogTile},
    table::SignatureTable,
};

use crate::document::Document;
use crate::run::Loss;
use crate::{Ink, SCHEMA};

mod chart;
mod fit;
mod log;
mod table;

/// The answer of `iotide signature` about samples that were given one by one.
#[derive(Clone, Debug, Serialize)]
pub struct SignatureReport {
    schema: &'static str,
    /// The command that was asked.
    pub command: &'static str,
    /// The signature.
    #[serde(flatten)]
    pub entry: SignatureEntry,
    /// Data known to be missing from the samples.
    pub losses: Vec<Loss>,
    /// Where the application would be disturbed least, if that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fit: Option<FitReport>,
    /// The signature beside its samples.
    #[serde(skip)]
    pub chart: SignatureChart,
}

/// One application's signature.
#[derive(Clone, Debug, Serialize)]
pub struct SignatureEntry {
    /// Whose runs they are, if a job log says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupEntry>,
    /// How it was found.
    pub method: &'static str,
    /// The load itself.
    pub signature: SeriesEntry,
    /// Where the load is, in order.
    pub bursts: Vec<Burst>,
    /// The rhythm of the bursts.
    pub period: RhythmEntry,
    /// Spread of the samples beside it.
    pub spread: SpreadEntry,
    /// How well the samples support it.
    pub confidence: f64,
    /// All it moves.
    pub bytes: f64,
    /// Bandwidth of others in the background, in bytes per second.
    pub background_bps: f64,
    /// Samples that it is based on.
    pub samples: SamplesEntry,
}

/// Runs of one application.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GroupEntry {
    /// Who ran it.
    pub user: Untrusted,
    /// Name of the job.
    pub name: Untrusted,
    /// On how many nodes; the fewest, if runs differ in it.
    pub nodes: Option<u64>,
    /// How often it ran.
    pub runs: usize,
}

impl GroupEntry {
    /// `ana · climate · 128 nodes`, for a terminal.
    pub fn label(&self) -> String {
        let nodes = self.nodes.map_or(String::new(), |nodes| format!(" · {}", text::counted(nodes, "node")));
        let or_unknown =
            |name: &Untrusted| if name.is_empty() { "?".to_owned() } else { name.for_terminal() };
        format!("{} · {}{nodes}", or_unknown(&self.user), or_unknown(&self.name))
    }
}

/// Bandwidth at even steps.
#[derive(Clone, Debug, Serialize)]
pub struct SeriesEntry {
    /// How long each value holds.
    pub interval_s: f64,
    /// From the start of the run to the first value.
    pub offset_s: f64,
    /// The values, to the byte.
    #[serde(serialize_with = "whole_numbers")]
    pub bandwidth_bps: Vec<f64>,
}

/// How the bursts repeat.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RhythmEntry {
    /// `null` if they do not.
    pub period_s: Option<f64>,
    /// Confidence.
    pub confidence: f64,
}

/// The middle half of the aligned samples, what others added included.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SpreadEntry {
    /// Half the mean distance between the quartiles, as a share of the mean of the signature; `null` without load.
    pub relative: Option<f64>,
    /// A quarter of the samples shows less.
    #[serde(serialize_with = "whole_numbers", skip_serializing_if = "Vec::is_empty")]
    pub low_bps: Vec<f64>,
    /// Half of the samples shows less.
    #[serde(serialize_with = "whole_numbers", skip_serializing_if = "Vec::is_empty")]
    pub median_bps: Vec<f64>,
    /// Three quarters of the samples show less.
    #[serde(serialize_with = "whole_numbers", skip_serializing_if = "Vec::is_empty")]
    pub high_bps: Vec<f64>,
}

/// Samples that a signature is based on.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SamplesEntry {
    /// How many went into it.
    pub used: usize,
    /// Names of those that were left out.
    pub rejected: Vec<Untrusted>,
    /// How much each that was used resembles it, and how much later its end came.
    pub details: Vec<SampleEntry>,
    /// Why others were left out.
    pub reasons: Vec<ReasonEntry>,
    /// Runs that were not looked at, because there are enough others.
    pub not_needed: usize,
}

/// A sample that was used.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SampleEntry {
    /// Its name.
    pub name: Untrusted,
    /// How much it resembles the signature, once aligned.
    pub similarity: f64,
    /// How much later than in the signature its end came.
    pub delay_s: f64,
}

/// A sample that was left out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReasonEntry {
    /// Its name.
    pub name: Untrusted,
    /// Why, as a phrase.
    pub reason: Untrusted,
}

impl SignatureEntry {
    /// Returns what was found, in the words of the report; of many applications, without the series of their spread.
    pub fn new(group: Option<GroupEntry>, signature: &Signature) -> Self {
        let Signature { bandwidth_bps, bursts, period, spread, used, rejected, .. } = signature;
        let sum: f64 = bandwidth_bps.iter().sum();
        let quartiles: f64 = spread.iter().map(|point| point.high_bps - point.low_bps).sum();
        let series = |of: fn(&iotide_analysis::Spread) -> f64| match group {
            None => spread.iter().map(of).collect(),
            Some(_) => Vec::new(),
        };
        Self {
            method: method_name(signature.method),
            signature: SeriesEntry {
                interval_s: signature.interval_s,
                offset_s: signature.offset_s,
                bandwidth_bps: bandwidth_bps.clone(),
            },
            bursts: bursts.clone(),
            period: RhythmEntry::from(period),
            spread: SpreadEntry {
                relative: (sum > 0.0).then(|| quartiles / 2.0 / sum),
                low_bps: series(|point| point.low_bps),
                median_bps: series(|point| point.median_bps),
                high_bps: series(|point| point.high_bps),
            },
            confidence: signature.confidence,
            bytes: sum * signature.interval_s,
            background_bps: signature.background_bps,
            samples: SamplesEntry {
                used: used.len(),
                rejected: rejected.iter().map(|sample| Untrusted::from(&sample.name)).collect(),
                details: used
                    .iter()
                    .map(|sample| SampleEntry {
                        name: (&sample.name).into(),
                        similarity: sample.similarity,
                        delay_s: sample.delay_s,
                    })
                    .collect(),
                reasons: rejected.iter().map(ReasonEntry::from).collect(),
                not_needed: 0,
            },
            group,
        }
    }

    /// Adds runs that have no sample, and why.
    pub fn without_sample(&mut self, name: impl Into<Untrusted>, why: NoSample) {
        let name = name.into();
        let reason = match why {
            NoSample::NotLogged => "the throughput log does not reach it",
            NoSample::TooShort => "too short to tell anything",
            NoSample::Unknown => "the throughput log has a hole there",
        };
        self.samples.rejected.push(name.clone());
        self.samples.reasons.push(ReasonEntry { name, reason: reason.into() });
    }

    /// Returns it as one line of JSON, without a newline.
    pub fn to_json_line(&self) -> String {
        iotide_look::text::json(self)
    }

    /// How long it is.
    pub fn duration_s(&self) -> f64 {
        self.signature.bandwidth_bps.len() as f64 * self.signature.interval_s
    }

    /// Returns what was found, in a sentence without a full stop.
    pub fn headline(&self) -> String {
        let n = self.bursts.len() as u64;
        let bursts = match (n, self.period.period_s) {
            (0, _) => return "no burst that the samples have in common".to_owned(),
            (_, Some(period_s)) => {
                format!("{}, one every {}", text::counted(n, "burst"), text::seconds(period_s))
            }
            (_, None) => text::counted(n, "burst"),
        };
        let volumes: Vec<f64> = self.bursts.iter().map(|burst| burst.bytes).collect();
        let kinds = kinds_of(&volumes);
        let of = match kinds.as_slice() {
            [(_, each)] => format!("of about {}", text::bytes(*each)),
            kinds if kinds.len() <= MOST_KINDS => {
                let each: Vec<String> =
                    kinds.iter().map(|(n, each)| format!("{n} of about {}", text::bytes(*each))).collect();
                each.join(", ")
            }
            [(_, first), .., (_, last)] => format!("of {} to {}", text::bytes(*last), text::bytes(*first)),
            [] => String::new(),
        };
        format!("{bursts}, {of}, confidence {}", text::percent(self.confidence))
    }

    /// Returns what there is to say line by line: a name and a sentence.
    pub fn facts(&self, losses: &[Loss]) -> Rows {
        let mut rows = Rows::default();
        let n_used = text::counted(self.samples.used as u64, "sample");
        rows.row("evidence", format!("{n_used}, by method {}", self.method));
        for reason in self.samples.reasons.iter().take(MOST_LINES) {
            rows.row("left out", format!("{}: {}", reason.name.for_terminal(), reason.reason.for_terminal()));
        }
        if self.samples.reasons.len() > MOST_LINES {
            let more = self.samples.reasons.len() - MOST_LINES;
            rows.row("left out", format!("and {} more", text::count(more as u64)));
        }
        rows.row("volume", format!("{} in {}", text::bytes(self.bytes), text::seconds(self.duration_s())));
        if let Some(period_s) = self.period.period_s {
            let confidence = text::percent(self.period.confidence);
            rows.row("period", format!("{}, confidence {confidence}", text::seconds(period_s)));
        }
        if let Some(relative) = self.spread.relative {
            rows.row(
                "spread",
                format!("the middle half of the samples lies within ±{}", text::percent(relative)),
            );
        }
        if self.background_bps > 0.0 {
            rows.row("background", format!("{} by others, taken away", text::bandwidth(self.background_bps)));
        }
        for burst in self.bursts.iter().take(MOST_BURSTS) {
            let Burst { start_s, end_s, peak_bps, bytes, support } = burst;
            let (from, until) = (text::moment(*start_s), text::moment(*end_s));
            let (bytes, peak) = (text::bytes(*bytes), text::bandwidth(*peak_bps));
            let shown = text::percent(*support);
            rows.row("burst", format!("{from} to {until}: {bytes}, up to {peak}, in {shown} of the samples"));
        }
        if self.bursts.len() > MOST_BURSTS {
            rows.row("burst", format!("and {} more", text::count((self.bursts.len() - MOST_BURSTS) as u64)));
        }
        for loss in losses.iter().take(MOST_LINES) {
            let records =
                loss.records.map_or(String::new(), |n| format!(" ({})", text::counted(n, "record")));
            rows.row("losses", format!("{}{records}", loss.what.for_terminal()));
        }
        if losses.len() > MOST_LINES {
            rows.row("losses", format!("and {} more", text::count((losses.len() - MOST_LINES) as u64)));
        }
        rows
    }

    fn drawn(&self, width: usize, ink: Ink) -> String {
        let values = &self.signature.bandwidth_bps;
        let columns = width.saturating_sub(4).clamp(20, 120).min(values.len());
        if columns == 0 {
            return String::new();
        }
        let highest = values.iter().copied().fold(0.0, f64::max);
        let heights: Vec<f64> = (0..columns)
            .map(|i| {
                &values[i * values.len() / columns
                    ..((i + 1) * values.len() / columns).max(i * values.len() / columns + 1)]
            })
            .map(|part| part.iter().sum::<f64>() / part.len() as f64)
            .collect();
        let (left, right) = ("0 s".to_owned(), text::seconds(self.duration_s()));
        let peak = format!("up to {}", text::bandwidth(highest));
        let blank =
            columns.saturating_sub(left.chars().count() + right.chars().count() + peak.chars().count());
        let axis = format!("{left}{}{peak}{}{right}", " ".repeat(blank / 2), " ".repeat(blank - blank / 2));
        format!("  {}\n  {}\n\n", ink.accent(&text::bars(&heights)), ink.faint(&axis))
    }
}

/// Bursts, losses and the like beyond this many are counted, not listed.
const MOST_BURSTS: usize = 24;
const MOST_LINES: usize = 8;

impl SignatureReport {
    /// Returns the report on one application's samples.
    pub fn new(signature: &Signature, samples: &[Sample], losses: &[iotide_trace::Loss]) -> Self {
        let entry = SignatureEntry::new(None, signature);
        Self {
            schema: SCHEMA,
            command: "signature",
            entry,
            losses: losses.iter().map(Loss::from).collect(),
            fit: None,
            chart: SignatureChart::of(signature, samples),
        }
    }
}

impl Document for SignatureReport {
    fn to_json(&self) -> String {
        iotide_look::text::json_document(self)
    }

    fn to_text(&self, width: usize, ink: Ink) -> String {
        let mut out = text::wrap(&self.entry.headline(), width).join("\n");
        if ink == Ink::Ansi {
            out = ink.bold(&out);
        }
        out.push_str("\n\n");
        out.push_str(&self.entry.drawn(width, ink));
        out.push_str(&self.entry.facts(&self.losses).render(width, |name| ink.faint(name)));
        if let Some(fit) = &self.fit {
            out.push('\n');
            out.push_str(&fit.to_text(width, ink));
        }
        out
    }
}

/// Returns the signature in an answer of `iotide signature --format json`, or why it is none.
///
/// An answer about many applications, or several lines of JSON Lines, do not say which of them is meant.
pub fn signature_of_json(json: &str) -> Result<Signature, String> {
    // JSON Lines begin with an object that ends, and go on.
    let mut documents = serde_json::Deserializer::from_str(json).into_iter::<serde_json::Value>();
    let document = match documents.next() {
        Some(Ok(document)) => document,
        Some(Err(error)) => return Err(format!("it is not JSON: {error}")),
        None => return Err("it is empty".to_owned()),
    };
    let n_listed = document.get("signatures").and_then(serde_json::Value::as_array).map(Vec::len);
    if n_listed.unwrap_or(1) > 1 || documents.next().is_some() {
        return Err("it holds several, and nothing says which of them is meant".to_owned());
    }
    let entry = document.get("signatures").and_then(|entries| entries.get(0)).unwrap_or(&document);
    let series = entry.get("signature").ok_or("it has no \"signature\"")?;
    let number = |name: &str| series.get(name).and_then(serde_json::Value::as_f64);
    let interval_s =
        number("interval_s").filter(|s| *s > 0.0 && s.is_finite()).ok_or("its interval_s is no time")?;
    let offset_s = number("offset_s").unwrap_or(0.0).max(0.0);
    let values =
        series.get("bandwidth_bps").and_then(serde_json::Value::as_array).ok_or("it has no bandwidth_bps")?;
    let bandwidth_bps: Option<Vec<f64>> =
        values.iter().map(|value| value.as_f64().filter(|value| (0.0..=1e30).contains(value))).collect();
    let bandwidth_bps = bandwidth_bps.ok_or("a value of bandwidth_bps is no bandwidth")?;
    if bandwidth_bps.is_empty() {
        return Err("its bandwidth_bps is empty".to_owned());
    }
    Ok(Signature {
        method: SignatureMethod::default(),
        offset_s,
        interval_s,
        bandwidth_bps,
        spread: Vec::new(),
        bursts: Vec::new(),
        period: PeriodEstimate::default(),
        confidence: entry.get("confidence").and_then(serde_json::Value::as_f64).unwrap_or(0.0),
        background_bps: 0.0,
        used: Vec::new(),
        rejected: Vec::new(),
    })
}

impl From<&PeriodEstimate> for RhythmEntry {
    fn from(period: &PeriodEstimate) -> Self {
        Self { period_s: period.period_s, confidence: period.confidence }
    }
}

impl From<&RejectedSample> for ReasonEntry {
    fn from(sample: &RejectedSample) -> Self {
        // Close to 1 two digits would say that there is no difference.
        let times = |ratio: f64| {
            let n_digits = if (0.5..2.0).contains(&ratio) { 3 } else { 2 };
            format!("{} times", text::digits(ratio, n_digits))
        };
        let reason = match sample.reason {
            SampleRejection::Outlier { duration_ratio, volume_ratio, .. } => format!(
                "not like the others: {} as long, {} the volume",
                times(duration_ratio),
                times(volume_ratio)
            ),
            SampleRejection::Unlike { misfit_ratio } => {
                format!("does not show what the others have in common ({} as far off)", times(misfit_ratio))
            }
            SampleRejection::Part { duration_ratio } => {
                format!(
                    "shows a part of the run ({} the usual length), which this method cannot use",
                    times(duration_ratio)
                )
            }
            SampleRejection::Empty => "holds no value".to_owned(),
            _ => "left out".to_owned(),
        };
        Self { name: (&sample.name).into(), reason: reason.into() }
    }
}

/// More kinds of bursts than this are reported by their range.
const MOST_KINDS: usize = 3;

/// Bursts whose volumes differ by more than this factor are of different kinds.
const ANOTHER_KIND: f64 = 1.5;

/// How many bursts of each kind there are, and their mean volume, the largest first: sorted by volume, a kind ends where the next
/// burst is much smaller.
fn kinds_of(volumes: &[f64]) -> Vec<(usize, f64)> {
    let mut sorted = volumes.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let mut kinds: Vec<Vec<f64>> = Vec::new();
    for volume in sorted {
        match kinds.last_mut() {
            Some(kind) if kind.last().is_some_and(|last| *last <= ANOTHER_KIND * volume) => kind.push(volume),
            _ => kinds.push(vec![volume]),
        }
    }
    kinds.iter().map(|kind| (kind.len(), kind.iter().sum::<f64>() / kind.len() as f64)).collect()
}

/// The method as flags and reports call it.
pub fn method_name(method: SignatureMethod) -> &'static str {
    match method {
        SignatureMethod::Consensus => "consensus",
        SignatureMethod::Iosi => "iosi",
        SignatureMethod::DtwPairwise => "dtw-pairwise",
        SignatureMethod::DtwBarycentre => "dtw",
    }
}

/// Bandwidths to the byte: a fraction of a byte per second is nothing anyone measured.
fn whole_numbers<S: Serializer>(values: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(
        values.iter().map(|&value| value.is_finite().then(|| value.round().clamp(0.0, 1e18) as u64)),
    )
}

#[cfg(test)]
mod tests;
