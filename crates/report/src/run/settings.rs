//! How a run was looked at.

use iotide_analysis::{Harmonics, Method, OutlierDetector, RunConfig};
use iotide_look::text;
use iotide_trace::{Direction, SamplingKind};
use serde::Serialize;

use crate::zero::Zero;

/// How a run was looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// `auto` or `dft`.
    pub method: &'static str,
    /// Samples per second.
    pub sample_rate_hz: Option<f64>,
    /// The stretch of the trace, on its own clock.
    pub window_s: Option<[f64; 2]>,
    /// Which bytes: `read`, `write`, `both`; `auto` if nothing was analysed and nothing chosen.
    pub mode: &'static str,
    /// Meaning of a sample: `mean` or `hold`.
    pub sampling: &'static str,
    /// How many samples.
    pub n_samples: Option<usize>,
    /// How much of the volume the samples misstate.
    pub abstraction_error: Option<f64>,
    /// How far the samples lie from the signal, over its volume: above 0.5 the verdict of `dft` is `unclear`.
    pub signal_error: Option<f64>,
    /// Whether the first phase was left out.
    pub skip_first_phase: bool,
    /// Methods that separated outlying powers from the rest (`dft` only); of several, separated by commas, all had to agree.
    pub outliers: Option<String>,
    /// Share of the best score that makes a candidate (`dft` only).
    pub tolerance: Option<f64>,
    /// Which multiples of a candidate were dropped: `all` or `two` (`dft` only).
    pub harmonics: Option<&'static str>,
    /// Whether the window was cut and the samples trusted as FTIO does (`dft` only).
    pub as_ftio: Option<bool>,
    /// The bandwidth above which I/O counted as substantial, if one was given.
    pub substantial_bps: Option<f64>,
    /// Seed of the isolation forest, if that was used.
    pub seed: Option<u64>,
}

impl Settings {
    pub(super) fn asked_for(config: &RunConfig) -> Self {
        let dft = (config.period.method == Method::Dft).then_some(&config.period.dft);
        Self {
            method: match config.period.method {
                Method::Auto => "auto",
                Method::Dft => "dft",
            },
            sample_rate_hz: config.rate_hz,
            window_s: None,
            mode: mode_name(config.direction),
            sampling: match config.sampling {
                SamplingKind::Mean => "mean",
                SamplingKind::Hold => "hold",
            },
            n_samples: None,
            abstraction_error: None,
            signal_error: None,
            skip_first_phase: config.skip_first_phase,
            outliers: dft.map(|dft| {
                let names: Vec<&str> =
                    dft.detectors.iter().map(|&detector| detector_name(detector)).collect();
                names.join(",")
            }),
            tolerance: dft.map(|dft| dft.tolerance),
            harmonics: dft.map(|dft| match dft.harmonics {
                Harmonics::All => "all",
                Harmonics::Two => "two",
            }),
            as_ftio: dft.map(|dft| dft.as_ftio),
            substantial_bps: config.period.dft.substantial_bps,
            seed: dft.and_then(|dft| {
                dft.detectors.iter().find_map(|detector| match detector {
                    OutlierDetector::IsolationForest { seed } => Some(*seed),
                    _ => None,
                })
            }),
        }
    }

    /// Returns the analysed operations, as the subject of a sentence.
    pub(super) fn what(&self) -> &'static str {
        match self.mode {
            "read" => "the reads",
            "write" => "the writes",
            _ => "the reads and writes",
        }
    }

    pub(crate) fn in_words(&self, zero: Zero) -> String {
        let window = self
            .window_s
            .map_or(String::new(), |[start_s, end_s]| format!(" from {}", zero.dated_span(start_s, end_s)));
        let samples = match (self.n_samples, self.sample_rate_hz) {
            (Some(n), Some(rate_hz)) => {
                format!(", as {} at {}", text::counted(n as u64, "sample"), text::frequency(rate_hz))
            }
            _ => String::new(),
        };
        let error = match self.abstraction_error {
            // Means keep the volume: an error is news only where values are held.
            Some(error) if error > 1e-6 => format!(", which misstate the volume by {}", text::percent(error)),
            _ => String::new(),
        };
        let error = match self.signal_error.filter(|_| self.method == "dft") {
            Some(far) if far > 1e-6 => {
                format!("{error} (and the signal by {} of its volume)", text::percent(far))
            }
            _ => error,
        };
        let method = match self.method {
            "dft" => ", by the spectrum alone",
            _ => "",
        };
        let what = self.what().trim_start_matches("the ");
        format!("{what}{window}{samples}{error}{method}")
    }
}

fn detector_name(detector: OutlierDetector) -> &'static str {
    match detector {
        OutlierDetector::ZScore => "zscore",
        OutlierDetector::Dbscan => "dbscan",
        OutlierDetector::IsolationForest { .. } => "forest",
        OutlierDetector::LocalOutlierFactor => "lof",
        OutlierDetector::Peaks => "peaks",
    }
}

pub(super) fn mode_name(direction: Option<Direction>) -> &'static str {
    match direction {
        None => "auto",
        Some(Direction::Read) => "read",
        Some(Direction::Write) => "write",
        Some(Direction::Both) => "both",
    }
}
