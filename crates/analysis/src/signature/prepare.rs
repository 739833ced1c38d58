//! First step of all methods: are the samples fit to be used, and which of them are not like the others?

use iotide_num::{local_outlier_factors, mean, median, median_absolute_deviation};

use super::{
    Extent, Sample, SampleOutlierConfig, SampleRejection, SignatureConfig, SignatureError, SignatureMethod,
};

/// Fewer samples cannot outvote one.
pub(super) const LEAST_SAMPLES: usize = 2;

/// The longest grid a sample may need.
const MOST_POINTS: f64 = 1e7;

/// Samples that can be used, and the grids to use them on.
pub(super) struct Prepared<'a> {
    /// The samples as given.
    pub(super) all: &'a [Sample],
    pub(super) samples: Vec<Ready<'a>>,
    pub(super) rejected: Vec<(usize, SampleRejection)>,
    /// The finest interval of the samples.
    pub(super) native_s: f64,
    /// The interval of the signature.
    pub(super) interval_s: f64,
    /// Where the signature begins, from the start of the run.
    pub(super) offset_s: f64,
}

/// A sample that can be used.
pub(super) struct Ready<'a> {
    /// Its place in the samples given.
    pub(super) index: usize,
    pub(super) sample: &'a Sample,
    /// Seconds from the start of the signature to its first value.
    pub(super) lead_s: f64,
    /// How many times the fewest nodes it ran on.
    pub(super) scale: f64,
}

/// Checks the samples and sets those apart that are not like the others.
pub(super) fn prepare<'a>(
    samples: &'a [Sample],
    config: &SignatureConfig,
) -> Result<Prepared<'a>, SignatureError> {
    for sample in samples {
        check(sample)?;
    }
    let mut rejected = Vec::new();
    let mut chosen = Vec::new();
    for (index, sample) in samples.iter().enumerate() {
        if sample.bandwidth_bps.iter().all(|value| value.is_nan()) {
            rejected.push((index, SampleRejection::Empty));
        } else {
            chosen.push(index);
        }
    }
    // In an order of their own: sums of the same samples in another order differ in the last digit, and where two alignments
    // are equally good that digit would choose.
    chosen.sort_by(|&a, &b| by_content(&samples[a], &samples[b]));
    let least = LEAST_SAMPLES;
    if chosen.len() < least {
        return Err(SignatureError::TooFewSamples { given: chosen.len(), needed: least });
    }
    let fewest_nodes = chosen.iter().filter_map(|&i| samples[i].n_nodes).min().unwrap_or(1).max(1);
    let scale = |sample: &Sample| f64::from(sample.n_nodes.unwrap_or(fewest_nodes)) / f64::from(fewest_nodes);
    if config.outliers.enabled {
        let outliers = outliers(samples, &chosen, &config.outliers);
        chosen.retain(|index| outliers.iter().all(|(outlier, _)| outlier != index));
        rejected.extend(outliers);
    }
    if config.method != SignatureMethod::Consensus && config.preprocess {
        let parts = parts(samples, &chosen);
        chosen.retain(|index| parts.iter().all(|(part, _)| part != index));
        rejected.extend(parts);
    }
    let finest = |of: &[usize]| of.iter().map(|&i| samples[i].interval_s).fold(f64::INFINITY, f64::min);
    let native_s = finest(&chosen);
    let interval_s = config.interval_s.unwrap_or(native_s / 2.0);
    let longest_s = chosen.iter().map(|&i| samples[i].duration_s()).fold(0.0, f64::max);
    let offset_s = chosen.iter().map(|&i| samples[i].offset_s()).fold(f64::INFINITY, f64::min);
    let latest_s =
        chosen.iter().map(|&i| samples[i].offset_s() + samples[i].duration_s()).fold(0.0, f64::max);
    let in_points = (latest_s - offset_s) / interval_s.min(native_s);
    if !(interval_s > 0.0 && in_points <= MOST_POINTS) {
        return Err(SignatureError::TooLong { duration_s: longest_s, interval_s });
    }
    let ready = |index: usize| {
        let sample = &samples[index];
        Ready { index, sample, lead_s: sample.offset_s() - offset_s, scale: scale(sample) }
    };
    Ok(Prepared {
        all: samples,
        samples: chosen.into_iter().map(ready).collect(),
        rejected,
        native_s,
        interval_s,
        offset_s,
    })
}

/// A sample that lasts less than this share of the usual run is a part of one, whatever its log says: contention only delays.
const WHOLE: f64 = 0.75;

/// The samples that show a part of a run, if enough whole ones are left. The methods of the paper bring all samples to the
/// duration of the shortest, so a part would set the length of the signature.
fn parts(samples: &[Sample], chosen: &[usize]) -> Vec<(usize, SampleRejection)> {
    let nodes = |index: usize| f64::from(samples[index].n_nodes.unwrap_or(1).max(1));
    let whole = |index: usize| samples[index].extent == Extent::Whole;
    let durations: Vec<f64> =
        chosen.iter().filter(|&&i| whole(i)).map(|&i| samples[i].duration_s() / nodes(i).sqrt()).collect();
    let Some(usual) = median(&durations) else { return Vec::new() };
    let ratio = |index: usize| samples[index].duration_s() / nodes(index).sqrt() / usual;
    let is_part = |index: usize| !whole(index) || ratio(index) < WHOLE;
    if chosen.iter().filter(|&&index| !is_part(index)).count() < LEAST_SAMPLES {
        return Vec::new();
    }
    let part = |&index: &usize| (index, SampleRejection::Part { duration_ratio: ratio(index) });
    chosen.iter().filter(|&&index| is_part(index)).map(part).collect()
}

fn by_content(a: &Sample, b: &Sample) -> std::cmp::Ordering {
    a.bandwidth_bps.len().cmp(&b.bandwidth_bps.len()).then_with(|| {
        let (a, b) = (a.bandwidth_bps.iter(), b.bandwidth_bps.iter());
        a.map(|value| value.to_bits()).cmp(b.map(|value| value.to_bits()))
    })
}

impl Sample {
    fn offset_s(&self) -> f64 {
        match self.extent {
            Extent::Whole => 0.0,
            Extent::Part { offset_s } => offset_s,
        }
    }
}

fn check(sample: &Sample) -> Result<(), SignatureError> {
    let name = || sample.name.clone();
    if !(sample.interval_s > 0.0 && sample.interval_s.is_finite()) {
        return Err(SignatureError::BadInterval { name: name(), interval_s: sample.interval_s });
    }
    let offset_s = sample.offset_s();
    if !(offset_s >= 0.0 && offset_s.is_finite()) {
        return Err(SignatureError::BadOffset { name: name(), offset_s });
    }
    match sample.bandwidth_bps.iter().find(|value| value.is_infinite() || **value < 0.0) {
        Some(&value) => Err(SignatureError::BadValue { name: name(), value }),
        None => Ok(()),
    }
}

/// The samples whose duration and volume have few neighbours, by local outlier factor.
///
/// Both are measured from the median in median deviations, so that neither the unit nor the outliers themselves set the
/// scale. Runs on more nodes last longer and move more: each sample is first divided by the median of its own node count.
/// The duration of a part says nothing; of parts, the mean bandwidth is judged.
fn outliers(
    samples: &[Sample],
    chosen: &[usize],
    config: &SampleOutlierConfig,
) -> Vec<(usize, SampleRejection)> {
    let n = chosen.len();
    let chosen_samples: Vec<&Sample> = chosen.iter().map(|&index| &samples[index]).collect();
    let durations: Vec<f64> =
        chosen_samples.iter().map(|sample| if is_part(sample) { 1.0 } else { sample.duration_s() }).collect();
    let volumes: Vec<f64> = chosen_samples
        .iter()
        .map(|sample| if is_part(sample) { mean_bandwidth(sample) } else { sample.volume_bytes() })
        .collect();
    let features: Vec<(f64, f64)> = (0..n)
        .map(|this| {
            let is_peer = |other: usize| {
                let (this, other) = (chosen_samples[this], chosen_samples[other]);
                other.n_nodes == this.n_nodes && is_part(other) == is_part(this)
            };
            let ratio = |of: &[f64]| {
                let peers: Vec<f64> = (0..n).filter(|&other| is_peer(other)).map(|other| of[other]).collect();
                let centre = median(&peers).unwrap_or(0.0);
                if centre > 0.0 { of[this] / centre } else { 1.0 }
            };
            (ratio(&durations), ratio(&volumes))
        })
        .collect();
    let (durations, volumes): (Vec<f64>, Vec<f64>) = features.iter().copied().unzip();
    let points: Vec<(f64, f64)> =
        in_deviations(&durations).into_iter().zip(in_deviations(&volumes)).collect();
    let factors = local_outlier_factors(&points, (n / 2).max(2));
    let threshold = mean(&factors).max(config.factor);
    let mut worst: Vec<usize> = (0..n).filter(|&i| factors[i] > threshold).collect();
    worst.sort_by(|&a, &b| factors[b].total_cmp(&factors[a]));
    worst.truncate(n.saturating_sub(config.keep));
    worst
        .into_iter()
        .map(|i| {
            let (duration_ratio, volume_ratio) = features[i];
            (chosen[i], SampleRejection::Outlier { factor: factors[i], duration_ratio, volume_ratio })
        })
        .collect()
}

fn is_part(sample: &Sample) -> bool {
    sample.extent != Extent::Whole
}

fn mean_bandwidth(sample: &Sample) -> f64 {
    let n_known = sample.bandwidth_bps.iter().filter(|value| !value.is_nan()).count();
    sample.volume_bytes() / (n_known.max(1) as f64 * sample.interval_s)
}

/// Distances from the median in median absolute deviations; in per cent if more than half of the values are one value.
fn in_deviations(x: &[f64]) -> Vec<f64> {
    let centre = median(x).unwrap_or(0.0);
    let spread = median_absolute_deviation(x).filter(|&spread| spread > 1e-9 * centre.abs());
    let scale = spread.unwrap_or(0.01 * centre.abs()).max(f64::MIN_POSITIVE);
    x.iter().map(|value| (value - centre) / scale).collect()
}
