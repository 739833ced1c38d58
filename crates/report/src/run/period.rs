//! Rhythm of a run: the period, its confidence, and how much its periods are alike.

use iotide_analysis::{
    AutocorrelationEstimate, Method, PeriodEstimate, Reason, RunAnalysis, RunConfig, Verdict,
};
use iotide_look::text;
use serde::Serialize;

use super::{Settings, whole_bytes, whole_bytes_if_any};
use crate::harmonics::Harmonic;
use crate::rhythm::Rhythm;
use crate::stream::Stream;

/// The period, or that there is none.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Period {
    /// Whether there is a rhythm; absent if nothing was analysed.
    pub verdict: Option<Verdict>,
    /// Why that cannot be determined, where it cannot.
    pub reason: Option<Reason>,
    /// The period.
    pub period_s: Option<f64>,
    /// Its inverse.
    pub frequency_hz: Option<f64>,
    /// The confidence in that, or that there is none.
    pub confidence: Option<f64>,
    /// All periods that were considered seriously, best first.
    pub candidates: Vec<Candidate>,
    /// All periods that hold at once, the one that moves most bytes first.
    pub periods_s: Vec<f64>,
    /// The same with what is known of each.
    pub rhythms: Vec<Rhythm>,
    /// Result of the autocorrelation on its own.
    pub autocorrelation: Option<AutocorrelationEstimate>,
    /// The confidence after the autocorrelation was heard.
    pub refined_confidence: Option<f64>,
    /// When the next phase is expected to begin, on the trace's clock.
    pub next_phase_s: Option<f64>,
    /// Bytes per phase, on average over the phases.
    #[serde(serialize_with = "whole_bytes_if_any")]
    pub bytes_per_phase: Option<f64>,
    /// Multiples of a candidate whose power stands out, the lowest first (`dft`).
    pub harmonics: Vec<Harmonic>,
    /// Whether these decay, which is a sign of bursts (`dft`; absent without a period).
    pub bursts: Option<bool>,
}

/// A period that was considered.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Candidate {
    /// The period.
    pub period_s: f64,
    /// The probability that it exists.
    pub confidence: f64,
    /// Whether it is one of the periods found; the others were rejected.
    pub accepted: bool,
}

impl Period {
    pub(super) fn of(estimate: &PeriodEstimate, config: &RunConfig) -> Self {
        Self {
            verdict: Some(estimate.verdict),
            reason: estimate.reason,
            period_s: estimate.period_s,
            frequency_hz: estimate.period_s.map(|period_s| 1.0 / period_s),
            confidence: Some(estimate.confidence),
            candidates: (estimate.candidates.iter())
                .map(|candidate| Candidate {
                    period_s: candidate.period_s,
                    confidence: candidate.confidence,
                    accepted: (estimate.rhythms.iter().map(|rhythm| rhythm.period_s))
                        .chain(estimate.period_s)
                        .any(|period_s| (period_s / candidate.period_s - 1.0).abs() < 1e-3),
                })
                .collect(),
            periods_s: estimate.rhythms.iter().map(|rhythm| rhythm.period_s).collect(),
            rhythms: estimate.rhythms.iter().map(Rhythm::from).collect(),
            autocorrelation: estimate.autocorrelation.clone(),
            refined_confidence: estimate.refined_confidence,
            next_phase_s: estimate.next_phase_s,
            bytes_per_phase: match estimate.phases.as_slice() {
                [] => None,
                phases => Some(phases.iter().map(|phase| phase.bytes).sum::<f64>() / phases.len() as f64),
            },
            harmonics: estimate.harmonics.iter().map(Harmonic::from).collect(),
            bursts: (config.period.method == Method::Dft && estimate.period_s.is_some())
                .then_some(estimate.has_bursts),
        }
    }
}

/// A period that is less probable than this is not worth a word.
const LEAST_POSSIBLE: f64 = 0.05;

/// Returns why a verdict is unclear, or why what repeats evenly is no rhythm.
pub(super) fn reason_in_words(
    reason: Reason,
    format: &str,
    settings: &Settings,
    candidates: &[Candidate],
) -> String {
    match reason {
        Reason::TooFewPhases => "fewer than three phases".to_owned(),
        Reason::TooCoarse if format == "darshan" => {
            "this log does not show when phases begin and end (enable DXT)".to_owned()
        }
        Reason::TooCoarse => {
            let possible: Vec<String> = (candidates.iter())
                .filter(|candidate| candidate.confidence > LEAST_POSSIBLE)
                .map(|candidate| text::seconds(candidate.period_s))
                .collect();
            let coarse = "the source is too coarse to show when phases begin and end";
            match possible.as_slice() {
                [] | [_] => coarse.to_owned(),
                several => format!("{coarse}; possible periods: {}", several.join(", ")),
            }
        }
        Reason::MixedEvidence => match candidates.first() {
            Some(best) => format!(
                "the evidence is mixed; the best candidate is {} with a confidence of {}",
                text::seconds(best.period_s),
                text::percent(best.confidence)
            ),
            None => "the evidence is mixed".to_owned(),
        },
        Reason::Loop => "single requests follow each other in a steady stream".to_owned(),
        Reason::PoorSamples => format!(
            "the samples misstate the signal by {} of its volume; a higher sampling rate may show more",
            text::percent(settings.signal_error.unwrap_or(1.0))
        ),
    }
}

/// How evenly the periods resemble each other.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Scores {
    /// Spread of the volume a period moves.
    pub sigma_vol: Option<f64>,
    /// Spread of the share of a period spent on substantial I/O.
    pub sigma_time: Option<f64>,
    /// 1 if all periods are alike.
    pub periodicity: Option<f64>,
    /// Share of the time spent on substantial I/O.
    pub io_time_ratio: Option<f64>,
    /// Mean bandwidth during that time.
    pub io_bandwidth_bps: Option<f64>,
    /// Bytes a period moves.
    #[serde(serialize_with = "whole_bytes_if_any")]
    pub bytes_per_period: Option<f64>,
    /// Share of the time in which bytes move at all.
    pub active_ratio: Option<f64>,
    /// The bandwidth while bytes move, where it hardly varies.
    #[serde(skip)]
    pub(crate) steady_bps: Option<f64>,
}

impl Scores {
    pub(super) fn of(run: &RunAnalysis) -> Self {
        let stream = Stream::of(&run.signal);
        Self {
            sigma_vol: run.scores.sigma_vol,
            sigma_time: run.scores.sigma_time,
            periodicity: run.scores.periodicity,
            io_time_ratio: run.scores.io_time_ratio,
            io_bandwidth_bps: run.scores.io_bandwidth_bps,
            bytes_per_period: run.scores.bytes_per_period,
            active_ratio: stream.map(|stream| stream.active_ratio),
            steady_bps: stream.and_then(|stream| stream.steady_bps),
        }
    }

    /// For people: the share of the time that is busy, and the bandwidth then. Nothing of a steady stream exceeds its
    /// mean by much, so there it is the time in which bytes move.
    pub(crate) fn busy(&self) -> Option<(f64, Option<f64>)> {
        match (self.steady_bps, self.active_ratio) {
            (Some(bps), Some(ratio)) => Some((ratio, Some(bps))),
            _ => self.io_time_ratio.map(|ratio| (ratio, self.io_bandwidth_bps)),
        }
    }

    /// Names and sentences.
    pub fn in_words(&self) -> Vec<(&'static str, String)> {
        let mut words = Vec::new();
        if let Some(periodicity) = self.periodicity {
            let alike = match periodicity {
                p if p >= 0.95 => "very regular",
                p if p >= 0.8 => "regular",
                p if p >= 0.5 => "the periods differ visibly",
                _ => "the periods have little in common",
            };
            let spread = match (self.sigma_vol, self.sigma_time) {
                (Some(volume), Some(time)) => format!(
                    ": bytes per period vary by {}, I/O time by {}",
                    text::percent(volume),
                    text::percent(time)
                ),
                _ => String::new(),
            };
            words.push(("periodicity", format!("{periodicity:.2}, {alike}{spread}")));
        }
        if let Some((ratio, bps)) = self.busy() {
            let rate = bps.map(|bps| format!(", {} on average", text::bandwidth(bps))).unwrap_or_default();
            let stream = if self.steady_bps.is_some() { ", a steady stream" } else { "" };
            words.push(("active I/O", format!("{} of the run{rate}{stream}", text::percent(ratio))));
        }
        words
    }
}

/// A stretch of I/O.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Phase {
    /// When it begins.
    pub start_s: f64,
    /// When it ends.
    pub end_s: f64,
    /// Bytes that it moves.
    #[serde(serialize_with = "whole_bytes")]
    pub bytes: f64,
}

/// A cosine wave.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Wave {
    /// Its frequency.
    pub frequency_hz: f64,
    /// Its period.
    pub period_s: Option<f64>,
    /// Its amplitude.
    pub amplitude_bps: f64,
    /// Its phase at the start of the window.
    pub phase_rad: f64,
    /// Its share of the signal's power without the mean.
    pub power_share: f64,
}

impl From<&iotide_analysis::Wave> for Wave {
    fn from(wave: &iotide_analysis::Wave) -> Self {
        Self {
            frequency_hz: wave.frequency_hz,
            period_s: (wave.frequency_hz > 0.0).then(|| 1.0 / wave.frequency_hz),
            amplitude_bps: wave.amplitude_bps,
            phase_rad: wave.phase_rad,
            power_share: wave.power_share,
        }
    }
}
