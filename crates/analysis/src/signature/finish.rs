//! Last step of all methods: the bursts of the series that was drawn, its rhythm, and how the samples support it.

use iotide_num::{mean_of_steps, median, quantiles_across, rebin, weighted_mean};
use iotide_trace::SampledSignal;

use super::prepare::{Prepared, Ready};
use super::{Alignment, Burst, Drawn, RejectedSample, Signature, SignatureConfig, Spread, UsedSample};
use crate::period::{DftConfig, PeriodConfig, detect_period};

/// Makes the answer of what a method drew.
pub(super) fn finish(prepared: &Prepared, drawn: Drawn, config: &SignatureConfig) -> Signature {
    let Drawn { bandwidth_bps, background_bps, alignments, mut rejected } = drawn;
    let interval_s = prepared.interval_s;
    let aligned: Vec<Vec<f64>> =
        alignments.iter().map(|alignment| look_up(&prepared.samples[alignment.sample], alignment)).collect();
    let mut bursts = bursts_of(&bandwidth_bps, interval_s, config.burst_share);
    for burst in &mut bursts {
        let points = (burst.start_s / interval_s) as usize..(burst.end_s / interval_s) as usize;
        burst.support = support(&bandwidth_bps, &aligned, points);
        burst.start_s += prepared.offset_s;
        burst.end_s += prepared.offset_s;
    }
    let similarities: Vec<f64> =
        aligned.iter().map(|values| cosine(&bandwidth_bps, values, background_bps)).collect();
    let supports: Vec<f64> = bursts.iter().map(|burst| burst.support).collect();
    let volumes: Vec<f64> = bursts.iter().map(|burst| burst.bytes).collect();
    let confidence = median(&similarities).unwrap_or(0.0) * weighted_mean(&supports, &volumes).unwrap_or(0.0);
    let mut used: Vec<UsedSample> = alignments
        .into_iter()
        .zip(similarities)
        .map(|(alignment, similarity)| {
            let ready = &prepared.samples[alignment.sample];
            let end_s = alignment.times_s.last().map_or(0.0, |time_s| time_s + interval_s / 2.0);
            UsedSample {
                index: ready.index,
                name: ready.sample.name.clone(),
                similarity,
                delay_s: end_s - bandwidth_bps.len() as f64 * interval_s,
                times_s: alignment.times_s.into_iter().map(|time_s| time_s + prepared.offset_s).collect(),
            }
        })
        .collect();
    used.sort_by_key(|sample| sample.index);
    for (sample, _) in &mut rejected {
        *sample = prepared.samples[*sample].index;
    }
    rejected.extend(&prepared.rejected);
    rejected.sort_by_key(|(index, _)| *index);
    // The samples know no finer grid than their own, so neither does the rhythm.
    let per_native = (prepared.native_s / interval_s).max(1.0);
    let signal = SampledSignal {
        start_s: prepared.offset_s,
        rate_hz: 1.0 / (interval_s * per_native),
        duration_s: bandwidth_bps.len() as f64 * interval_s,
        values: rebin(&bandwidth_bps, per_native),
    };
    // Nobody asks a signature for its waves, and they cost a transform.
    let without_waves =
        PeriodConfig { dft: DftConfig { n_top: 0, ..DftConfig::default() }, ..PeriodConfig::default() };
    let period = detect_period(&signal, &without_waves).unwrap_or_default();
    Signature {
        method: config.method,
        offset_s: prepared.offset_s,
        interval_s,
        spread: spread(aligned),
        bandwidth_bps,
        bursts,
        period,
        confidence: confidence.clamp(0.0, 1.0),
        background_bps,
        used,
        rejected: rejected
            .into_iter()
            .map(|(index, reason)| RejectedSample { index, name: prepared.all[index].name.clone(), reason })
            .collect(),
    }
}

/// The sample's values at the points of the signature; NaN where it has none.
fn look_up(ready: &Ready, alignment: &Alignment) -> Vec<f64> {
    let values = &ready.sample.bandwidth_bps;
    alignment
        .times_s
        .iter()
        .map(|time_s| {
            let place = (time_s - ready.lead_s) / ready.sample.interval_s;
            if place < 0.0 { f64::NAN } else { values.get(place as usize).copied().unwrap_or(f64::NAN) }
        })
        .collect()
}

/// Stretches that reach a share of the height of the bursts; the height is the mean over the bytes, not over the time.
pub(super) fn bursts_of(bandwidth_bps: &[f64], interval_s: f64, share: f64) -> Vec<Burst> {
    let (sum, squares) =
        bandwidth_bps.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    let threshold = if sum > 0.0 { share * squares / sum } else { f64::INFINITY };
    let mut bursts = Vec::new();
    let mut i = 0;
    while i < bandwidth_bps.len() {
        let n_above = bandwidth_bps[i..].iter().take_while(|x| **x >= threshold).count();
        let stretch = &bandwidth_bps[i..i + n_above];
        if !stretch.is_empty() {
            bursts.push(Burst {
                start_s: i as f64 * interval_s,
                end_s: (i + stretch.len()) as f64 * interval_s,
                peak_bps: stretch.iter().copied().fold(0.0, f64::max),
                bytes: stretch.iter().sum::<f64>() * interval_s,
                support: 0.0,
            });
        }
        i += n_above.max(1);
    }
    bursts
}

/// The share of the samples that reach half the signature's mean bandwidth during a burst, of those that show the time.
fn support(bandwidth_bps: &[f64], aligned: &[Vec<f64>], points: std::ops::Range<usize>) -> f64 {
    let (mut n_known, mut n_showing) = (0, 0);
    let own = mean_of_steps(bandwidth_bps, points.start as f64, points.end as f64);
    for values in aligned {
        let known: Vec<f64> = values[points.clone()].iter().copied().filter(|x| !x.is_nan()).collect();
        if !known.is_empty() {
            n_known += 1;
            n_showing += usize::from(iotide_num::mean(&known) >= own / 2.0);
        }
    }
    if n_known == 0 { 0.0 } else { f64::from(n_showing as u32) / f64::from(n_known) }
}

/// The cosine of the angle between the signature and a sample without its background.
fn cosine(bandwidth_bps: &[f64], values: &[f64], background_bps: f64) -> f64 {
    let (mut product, mut own, mut other) = (0.0, 0.0, 0.0);
    for (a, b) in bandwidth_bps.iter().zip(values).filter(|(_, b)| !b.is_nan()) {
        let b = (b - background_bps).max(0.0);
        product += a * b;
        own += a * a;
        other += b * b;
    }
    if own > 0.0 && other > 0.0 { product / (own * other).sqrt() } else { 0.0 }
}

/// Returns the spread of the samples at each point.
fn spread(aligned: Vec<Vec<f64>>) -> Vec<Spread> {
    let [low, median, high] = quantiles_across(aligned, [0.25, 0.5, 0.75]);
    let points = low.into_iter().zip(median).zip(high);
    points.map(|((low_bps, median_bps), high_bps)| Spread { low_bps, median_bps, high_bps }).collect()
}
