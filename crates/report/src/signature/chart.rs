//! A signature and its samples, where they were aligned to, in as many columns as a picture has.

use iotide_analysis::{Extent, Sample, Signature};

/// A signature and its samples in columns.
#[derive(Clone, Debug)]
pub struct SignatureChart {
    /// How long the signature is.
    pub duration_s: f64,
    /// The highest bandwidth that is shown.
    pub highest_bps: f64,
    /// Per column, the mean of the signature.
    pub signature: Vec<f64>,
    /// Per sample and column, its mean there; NaN where it shows nothing.
    pub samples: Vec<Vec<f64>>,
    /// When each burst begins and ends.
    pub bursts: Vec<(f64, f64)>,
}

/// At most so many samples are drawn: more are a grey wall.
const MOST_SAMPLES: usize = 16;

/// Columns of a large picture; a small one has a third.
const COLUMNS: usize = 446;

impl SignatureChart {
    /// Returns a signature beside the samples that were used for it.
    pub fn of(signature: &Signature, samples: &[Sample]) -> Self {
        let n = signature.bandwidth_bps.len();
        let columns = COLUMNS.min(n);
        let part = |i: usize| i * n / columns..((i + 1) * n / columns).max(i * n / columns + 1);
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let drawn: Vec<f64> = (0..columns).map(|i| mean(&signature.bandwidth_bps[part(i)])).collect();
        let aligned = signature.used.iter().take(MOST_SAMPLES).filter_map(|used| {
            let sample = samples.get(used.index)?;
            let offset_s = match sample.extent {
                Extent::Whole => 0.0,
                Extent::Part { offset_s } => offset_s,
            };
            let value_at = |at_s: f64| {
                let cell = (at_s - offset_s) / sample.interval_s;
                if cell < 0.0 {
                    f64::NAN
                } else {
                    sample.bandwidth_bps.get(cell as usize).copied().unwrap_or(f64::NAN)
                }
            };
            let values: Vec<f64> = used.times_s.iter().map(|&at_s| value_at(at_s)).collect();
            (values.len() == n).then(|| (0..columns).map(|i| mean(&values[part(i)])).collect::<Vec<f64>>())
        });
        let samples: Vec<Vec<f64>> = aligned.collect();
        let highest = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
        // What a few samples have by others beside them may be ten times as high: it is cut, and the signature seen.
        let own_bps = highest(&drawn);
        let highest_bps = samples.iter().map(|sample| highest(sample)).fold(own_bps, f64::max);
        Self {
            duration_s: n as f64 * signature.interval_s,
            highest_bps: if own_bps > 0.0 { highest_bps.min(2.0 * own_bps) } else { highest_bps },
            signature: drawn,
            samples,
            bursts: signature
                .bursts
                .iter()
                .map(|burst| (burst.start_s - signature.offset_s, burst.end_s - signature.offset_s))
                .collect(),
        }
    }
}
