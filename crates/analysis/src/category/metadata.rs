//! Load of a run on a metadata server.

use super::observed::Seconds;
use super::{CategoryThresholds, MetadataLoad};

/// The load a run puts on a metadata server: opens, seeks and closes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MetadataFindings {
    /// All requests.
    pub requests: f64,
    /// The most in one second.
    pub most_per_s: f64,
    /// Seconds with a spike.
    pub n_spikes: f64,
    /// Requests per second of the run.
    pub mean_per_s: f64,
}

impl MetadataFindings {
    pub(super) fn of(
        seconds: &Seconds,
        requests: f64,
        run_time_s: f64,
        thresholds: &CategoryThresholds,
    ) -> Self {
        let mut findings = Self { requests, mean_per_s: requests / run_time_s.max(1.0), ..Self::default() };
        seconds.for_each(|count, n_seconds| {
            findings.most_per_s = findings.most_per_s.max(count);
            // A millionth below the threshold is rounding.
            if count >= thresholds.spike_requests * (1.0 - 1e-9) {
                findings.n_spikes += n_seconds;
            }
        });
        findings
    }

    /// The labels that hold, each with how clearly: the ratio to its threshold.
    pub(super) fn labels(&self, thresholds: &CategoryThresholds) -> Vec<(MetadataLoad, f64)> {
        let spike = self.most_per_s / thresholds.high_spike_requests;
        let spikes = self.n_spikes / thresholds.multiple_spikes;
        let density = self.mean_per_s / thresholds.dense_requests_per_s;
        let mut labels = Vec::new();
        if spike > 1.0 {
            labels.push((MetadataLoad::HighSpike, spike));
        }
        if spikes >= 1.0 {
            labels.push((MetadataLoad::MultipleSpikes, spikes));
        }
        if spikes >= 1.0 && density >= 1.0 {
            labels.push((MetadataLoad::HighDensity, density.min(spikes)));
        }
        labels
    }
}
