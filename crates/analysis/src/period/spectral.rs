//! The method of the FTIO paper (Tarraf et al., IPDPS 2024, sections II-B and II-C): frequencies whose power stands out.
//!
//! Where the paper is silent, the authors' program (FTIO 0.0.9) decides; where it errs, we do not follow. Every such
//! place is listed in `docs/methods.md`.

use iotide_num::{
    PeakConditions, Spectrum, dbscan_plane, find_peaks, isolation_scores, local_outlier_factors, quantile,
    spectrum, z_scores,
};
use iotide_trace::SampledSignal;

use super::auto::add_shares;
use super::{
    Candidate, DftConfig, Harmonic, Harmonics, OutlierDetector, PeriodError, PeriodEstimate, Phase, Rhythm,
    Verdict, Wave, correlation, next_beat_s,
};
use crate::rhythm::Steps;
use crate::substantial::Substantial;

/// Finds the dominant frequency of the whole samples, if one stands out.
pub(super) fn detect(signal: &SampledSignal, config: &DftConfig) -> Result<PeriodEstimate, PeriodError> {
    if !(signal.rate_hz.is_finite() && signal.rate_hz > 0.0) {
        return Ok(PeriodEstimate::default());
    }
    let x = &signal.values[..signal.n_whole()];
    let spectrum = PowerSpectrum::of(x);
    let (found, harmonics) = dominant_bins(&spectrum.powers, config);
    let period_of = |bin: &Bin| x.len() as f64 / (bin.k as f64 * signal.rate_hz);
    let power: f64 = spectrum.powers.iter().sum();

    let mut estimate = PeriodEstimate {
        verdict: Verdict::NotPeriodic,
        candidates: found
            .iter()
            .map(|bin| Candidate { period_s: period_of(bin), confidence: bin.confidence })
            .collect(),
        autocorrelation: correlation::estimate(x, signal.rate_hz),
        waves: spectrum.strongest_waves(config.n_top, signal.rate_hz),
        harmonics: harmonics
            .iter()
            .map(|bin| Harmonic {
                frequency_hz: bin.k as f64 * signal.rate_hz / x.len() as f64,
                multiple: bin.k / bin.of,
                power_share: spectrum.powers[bin.k - 1] / power,
                was_dropped: bin.was_dropped,
            })
            .collect(),
        ..PeriodEstimate::default()
    };
    // One: periodic. Two: periodic with some variation, and the stronger one decides. None or more: not periodic.
    if let [best] | [best, _] = found.as_slice() {
        settle(&mut estimate, signal, period_of(best), best.confidence, config);
        let of_best = harmonics.iter().filter(|bin| bin.of == best.k).map(|bin| bin.k);
        estimate.has_bursts = decays(&spectrum.powers, best.k, of_best);
    }
    Ok(estimate)
}

/// Fills in what follows from a period.
fn settle(
    estimate: &mut PeriodEstimate,
    signal: &SampledSignal,
    period_s: f64,
    confidence: f64,
    config: &DftConfig,
) {
    estimate.period_s = Some(period_s);
    estimate.confidence = confidence;
    estimate.refined_confidence = estimate
        .autocorrelation
        .as_ref()
        .map(|second| (confidence + second.confidence + correlation::similarity(second, period_s)) / 3.0);
    estimate.phases = phases(signal, period_s, config.substantial_bps);
    let bytes = estimate.phases.iter().map(|phase| phase.bytes).sum();
    estimate.verdict = Verdict::Periodic;
    estimate.rhythms = vec![Rhythm {
        period_s,
        mean_distance_s: period_s,
        confidence,
        bytes,
        start_s: signal.start_s,
        end_s: signal.end_s(),
        phases: estimate.phases.clone(),
        ..Rhythm::default()
    }];
    add_shares(&mut estimate.rhythms, &Steps::sampled(signal), signal.start_s);
    // Counted on from the last phase rather than from the wave's crest: the wave's frequency lies on the grid of the
    // transform, and over a whole trace the error of half a bin adds up to half a period.
    estimate.next_phase_s =
        estimate.phases.last().map(|last| next_beat_s(last.start_s, period_s, signal.end_s()));
}

/// Returns what the waves add up to on the grid of `signal`.
///
/// With all the waves of the signal ([`DftConfig::n_top`] at least half its samples) these are its whole samples again.
pub fn reconstruct(waves: &[Wave], signal: &SampledSignal) -> Vec<f64> {
    (0..signal.values.len())
        .map(|i| {
            let time_s = i as f64 / signal.rate_hz;
            waves
                .iter()
                .map(|wave| {
                    let angle = std::f64::consts::TAU * wave.frequency_hz * time_s + wave.phase_rad;
                    wave.amplitude_bps * angle.cos()
                })
                .sum()
        })
        .collect()
}

/// The mean and the `n_top` strongest waves of the whole samples.
pub(super) fn strongest_waves(signal: &SampledSignal, n_top: usize) -> Vec<Wave> {
    let x = &signal.values[..signal.n_whole()];
    if n_top == 0 && !x.is_empty() {
        // The mean needs no transform.
        let amplitude_bps = iotide_num::mean(x);
        return vec![Wave { frequency_hz: 0.0, amplitude_bps, phase_rad: 0.0, power_share: 0.0 }];
    }
    PowerSpectrum::of(x).strongest_waves(n_top, signal.rate_hz)
}

/// The spectrum of samples that were divided by the largest of them, so that squares neither overflow nor vanish.
struct PowerSpectrum {
    spectrum: Spectrum,
    largest: f64,
    /// `p_k` of bins `k = 1..=n/2`: bin `k` is at `k − 1`. All 0 if the samples do not vary.
    powers: Vec<f64>,
}

impl PowerSpectrum {
    fn of(x: &[f64]) -> Self {
        let largest = x.iter().fold(0.0f64, |most, value| most.max(value.abs()));
        let scale = if largest > 0.0 { largest } else { 1.0 };
        let spectrum = spectrum(&x.iter().map(|value| value / scale).collect::<Vec<_>>());
        let mut powers = spectrum.powers();
        let power: f64 = powers.iter().sum();
        powers.drain(..1.min(powers.len()));
        // What the transform leaves of a constant is rounding: a relative 1e-16 a sample, squared.
        if powers.iter().sum::<f64>() <= power * 1e-24 {
            powers.fill(0.0);
        }
        Self { spectrum, largest, powers }
    }

    /// The mean, then the `n_top` strongest waves.
    fn strongest_waves(&self, n_top: usize, rate_hz: f64) -> Vec<Wave> {
        let n = self.spectrum.n;
        if n == 0 {
            return Vec::new();
        }
        let wave = |k: usize, power_share: f64| Wave {
            frequency_hz: self.spectrum.frequency(k) * rate_hz,
            // A wave stands for two bins of the full spectrum, except for the mean and the highest of an even number.
            amplitude_bps: self.spectrum.magnitudes[k] / n as f64
                * if k == 0 || 2 * k == n { 1.0 } else { 2.0 }
                * self.largest,
            phase_rad: self.spectrum.phases[k],
            power_share,
        };
        let power: f64 = self.powers.iter().sum();
        let mut bins: Vec<usize> = (1..=self.powers.len()).filter(|&k| self.powers[k - 1] > 0.0).collect();
        let by_power = |a: &usize, b: &usize| by_power(&self.powers, *a, *b);
        if n_top < bins.len() {
            bins.select_nth_unstable_by(n_top, by_power);
            bins.truncate(n_top);
        }
        bins.sort_unstable_by(by_power);
        let strongest = bins.into_iter().map(|k| wave(k, self.powers[k - 1] / power));
        std::iter::once(wave(0, 0.0)).chain(strongest).collect()
    }
}

/// A frequency that stands out.
struct Bin {
    k: usize,
    confidence: f64,
}

/// The highest power first; of equal ones the lower frequency.
fn by_power(powers: &[f64], a: usize, b: usize) -> std::cmp::Ordering {
    powers[b - 1].total_cmp(&powers[a - 1]).then(a.cmp(&b))
}

/// A multiple of a candidate.
struct Multiple {
    k: usize,
    /// The candidate.
    of: usize,
    was_dropped: bool,
}

/// Returns the candidates for the dominant frequency without their harmonics, the strongest first; and the harmonics: candidates that
/// were dropped, and what else stands out at multiples of the strongest one.
fn dominant_bins(powers: &[f64], config: &DftConfig) -> (Vec<Bin>, Vec<Multiple>) {
    let Some(z) = z_scores(powers) else { return (Vec::new(), Vec::new()) };
    let is_outlier = outliers(powers, &z, config);
    let highest = z.iter().copied().fold(0.0, f64::max);
    let is_close_to_highest = |i: usize| z[i] / highest >= config.tolerance && z[i] > 0.0;

    // Bins are whole numbers: within half a bin of a multiple is on the multiple.
    let is_harmonic_of = |k: usize, lower: usize| match config.harmonics {
        Harmonics::All => k.is_multiple_of(lower),
        Harmonics::Two => k.is_multiple_of(2 * lower),
    };
    let mut kept: Vec<usize> = Vec::new();
    let mut harmonics: Vec<Multiple> = Vec::new();
    let mut is_dropped = vec![false; z.len()];
    for k in (1..=z.len()).filter(|&k| is_outlier[k - 1] && is_close_to_highest(k - 1)) {
        match kept.iter().find(|&&lower| is_harmonic_of(k, lower)) {
            Some(&of) => {
                is_dropped[k - 1] = true;
                harmonics.push(Multiple { k, of, was_dropped: true });
            }
            None => kept.push(k),
        }
    }
    let sum = |belongs: &dyn Fn(usize) -> bool| -> f64 {
        (0..z.len()).filter(|&i| belongs(i) && !is_dropped[i]).map(|i| z[i]).sum()
    };
    let among_outliers = sum(&|i| is_outlier[i]);
    let among_highest = sum(&is_close_to_highest);
    kept.sort_unstable_by(|&a, &b| by_power(powers, a, b));
    if let Some(&best) = kept.first() {
        let beside = (2 * best..=z.len()).step_by(best);
        let beside = beside.filter(|&k| is_outlier[k - 1] && !is_dropped[k - 1] && !kept.contains(&k));
        harmonics.extend(beside.map(|k| Multiple { k, of: best, was_dropped: false }));
        harmonics.sort_unstable_by_key(|bin| bin.k);
    }
    let bins = kept
        .into_iter()
        .map(|k| {
            let z = z[k - 1];
            Bin { k, confidence: f64::midpoint(z / among_outliers, z / among_highest) }
        })
        .collect();
    (bins, harmonics)
}

/// Whether the powers at the harmonics fall off from that of the frequency `k` itself: "harmonics with decreasing high contributions
/// are an indication that there are periodic I/O bursts".
///
/// The power of even bursts falls as `(sin(πmd)/m)²` with the multiple `m`, so it may rise from one to the next; what counts is the slope
/// of its logarithm over that of `m`.
fn decays(powers: &[f64], k: usize, harmonics: impl Iterator<Item = usize>) -> bool {
    let points: Vec<(f64, f64)> = std::iter::once(k)
        .chain(harmonics)
        .map(|bin| ((bin as f64 / k as f64).ln(), powers[bin - 1].ln()))
        .collect();
    let n = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0 / n, y + point.1 / n));
    let slope: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    points.len() > 1 && slope < 0.0 && points[1..].iter().all(|point| point.1 < points[0].1)
}

/// A Z-score from here on is an outlier's.
const OUTLYING_Z: f64 = 3.0;

/// The share of powers that the isolation forest and the local outlier factor call outliers; what FTIO uses.
const CONTAMINATION: f64 = 0.001;

/// How many neighbours the local outlier factor looks at; what FTIO uses.
const N_NEIGHBOURS: usize = 20;

/// Tells which powers stand out, as all detectors see it. Only powers above the mean can.
fn outliers(powers: &[f64], z: &[f64], config: &DftConfig) -> Vec<bool> {
    let mut agreed: Vec<bool> = z.iter().map(|&z| z > 0.0).collect();
    for &detector in &config.detectors {
        for (agreed, flag) in agreed.iter_mut().zip(outliers_by(detector, powers, z, config.tolerance)) {
            *agreed &= flag;
        }
    }
    agreed
}

fn outliers_by(detector: OutlierDetector, powers: &[f64], z: &[f64], tolerance: f64) -> Vec<bool> {
    match detector {
        OutlierDetector::ZScore => z.iter().map(|&z| z >= OUTLYING_Z).collect(),
        OutlierDetector::Dbscan => {
            let points = in_unit_square(powers);
            let (low, high) = points
                .iter()
                .fold((f64::INFINITY, 0.0f64), |(low, high), point| (low.min(point.1), high.max(point.1)));
            // Two bins side by side are neighbours if their powers differ by less than the tolerance leaves open.
            let eps = ((high - low) * (1.0 - tolerance)).hypot(1.0 / powers.len() as f64);
            dbscan_plane(&points, eps, 2).iter().map(Option::is_none).collect()
        }
        OutlierDetector::IsolationForest { seed } => {
            above_the_rest(&isolation_scores(&in_unit_square(powers), seed))
        }
        OutlierDetector::LocalOutlierFactor => {
            above_the_rest(&local_outlier_factors(&in_unit_square(powers), N_NEIGHBOURS))
        }
        OutlierDetector::Peaks => {
            let highest = powers.iter().copied().fold(0.0, f64::max);
            let conditions =
                PeakConditions { height: Some(highest * tolerance), ..PeakConditions::default() };
            let mut flags = vec![false; powers.len()];
            for peak in find_peaks(powers, &conditions) {
                flags[peak.index] = true;
            }
            flags
        }
    }
}

/// Frequencies and powers as points: the frequency as a share of the highest, the power as a share of all.
fn in_unit_square(powers: &[f64]) -> Vec<(f64, f64)> {
    let (n, sum) = (powers.len() as f64, powers.iter().sum::<f64>());
    powers.iter().enumerate().map(|(i, power)| ((i + 1) as f64 / n, power / sum)).collect()
}

fn above_the_rest(scores: &[f64]) -> Vec<bool> {
    let limit = quantile(scores, 1.0 - CONTAMINATION).unwrap_or(f64::INFINITY);
    scores.iter().map(|&score| score > limit).collect()
}

/// Stretches of substantial I/O. A dip shorter than half the silence of a period does not end one.
fn phases(signal: &SampledSignal, period_s: f64, substantial_bps: Option<f64>) -> Vec<Phase> {
    let parts = Substantial::of(signal, substantial_bps);
    let shortest_gap_s = parts.time_ratio().map_or(0.0, |ratio| (1.0 - ratio) * period_s / 2.0);
    // Times since the start of the signal until the end, so that a late start does not cost gaps their digits.
    let mut phases: Vec<Phase> = Vec::new();
    let mut bytes_since = 0.0;
    for (i, piece) in parts.pieces().enumerate() {
        let start_s = i as f64 / signal.rate_hz;
        bytes_since += piece.bytes;
        if piece.is_substantial {
            let end_s = start_s + piece.duration_s;
            match phases.last_mut() {
                Some(last) if start_s - last.end_s < shortest_gap_s => {
                    last.end_s = end_s;
                    last.bytes += bytes_since;
                }
                _ => phases.push(Phase { start_s, end_s, bytes: piece.bytes }),
            }
            bytes_since = 0.0;
        }
    }
    for phase in &mut phases {
        phase.start_s += signal.start_s;
        phase.end_s += signal.start_s;
    }
    phases
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::f64::consts::TAU;

    fn signal(rate_hz: f64, values: Vec<f64>) -> SampledSignal {
        let duration_s = values.len() as f64 / rate_hz;
        SampledSignal { start_s: 3.5, rate_hz, values, duration_s }
    }

    /// `n_periods` phases of `on` samples out of `period`.
    fn pulses(period: usize, on: usize, n_periods: usize) -> SampledSignal {
        let values = (0..period * n_periods).map(|i| if i % period < on { 1e9 } else { 0.0 }).collect();
        signal(1.0, values)
    }

    fn found(signal: &SampledSignal, config: &DftConfig) -> PeriodEstimate {
        detect(signal, config).unwrap()
    }

    const DETECTORS: [OutlierDetector; 5] = [
        OutlierDetector::ZScore,
        OutlierDetector::Dbscan,
        OutlierDetector::IsolationForest { seed: 1 },
        OutlierDetector::LocalOutlierFactor,
        OutlierDetector::Peaks,
    ];

    #[test]
    fn a_cosine_on_a_constant_has_its_period_by_every_detector() {
        let values = (0..400).map(|i| 5e8 + 2e8 * (TAU * 8.0 * f64::from(i) / 400.0 + 0.3).cos()).collect();
        let signal = signal(10.0, values);
        for detector in DETECTORS {
            let estimate = found(&signal, &DftConfig { detectors: vec![detector], ..DftConfig::default() });
            assert_eq!(estimate.period_s, Some(5.0), "{detector:?}");
            assert!((estimate.confidence - 1.0).abs() < 1e-9, "{detector:?}");
        }
        let estimate = found(&signal, &DftConfig::default());
        assert!(estimate.refined_confidence.unwrap() > 0.95);
        let [mean, wave, ..] = estimate.waves[..] else { panic!("two waves") };
        assert!((mean.amplitude_bps - 5e8).abs() < 1.0 && mean.frequency_hz == 0.0);
        assert!((wave.amplitude_bps - 2e8).abs() < 1.0 && (wave.phase_rad - 0.3).abs() < 1e-9);
        assert!((wave.power_share - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_does_not_vary_or_is_too_short_is_not_periodic() {
        let values = [
            vec![],
            vec![0.1],
            vec![0.0; 2],
            vec![1.0, 0.0],
            vec![1.0, 0.0, 2.0],
            vec![0.1; 100],
            vec![0.0; 64],
        ];
        for (values, detector) in
            values.iter().flat_map(|values| DETECTORS.map(|detector| (values, detector)))
        {
            let estimate = found(
                &signal(10.0, values.clone()),
                &DftConfig { detectors: vec![detector], ..DftConfig::default() },
            );
            assert_eq!(
                estimate.confidence * estimate.period_s.unwrap_or(0.0),
                0.0,
                "{values:?} {detector:?}"
            );
            assert!(
                estimate
                    .waves
                    .iter()
                    .all(|wave| wave.amplitude_bps.is_finite() && wave.power_share.is_finite())
            );
        }
    }

    #[test]
    fn a_single_burst_has_a_flat_spectrum_and_no_period() {
        let mut values = vec![0.0; 300];
        values[17] = 1e9;
        assert_eq!(found(&signal(1.0, values), &DftConfig::default()).period_s, None);
    }

    #[test]
    fn multiples_of_a_candidate_are_dropped_and_do_not_dilute_its_confidence() {
        let mut powers = vec![0.0; 64];
        (powers[5], powers[11], powers[17]) = (1.0, 0.95, 0.9);
        let config = DftConfig::default();
        let (bins, harmonics) = dominant_bins(&powers, &config);
        assert_eq!(bins.iter().map(|bin| (bin.k, bin.confidence)).collect::<Vec<_>>(), [(6, 1.0)]);
        assert!(harmonics.iter().all(|bin| bin.was_dropped && bin.of == 6));
        assert_eq!(harmonics.iter().map(|bin| bin.k).collect::<Vec<_>>(), [12, 18]);
    }

    #[test]
    fn the_paper_drops_multiples_of_two_only() {
        let mut powers = vec![0.0; 64];
        (powers[5], powers[11], powers[17]) = (1.0, 0.95, 0.9);
        let config = DftConfig { harmonics: Harmonics::Two, ..DftConfig::default() };
        let (bins, harmonics) = dominant_bins(&powers, &config);
        assert_eq!(bins.iter().map(|bin| bin.k).collect::<Vec<_>>(), [6, 18]);
        assert_eq!(harmonics.iter().map(|bin| (bin.k, bin.of)).collect::<Vec<_>>(), [(12, 6)]);
    }

    #[test]
    fn several_detectors_must_agree() {
        // A tall peak, and a plateau of bins beside each other: each is far above the mean, but none is alone.
        let mut powers = vec![0.001; 400];
        powers[20] = 1.0;
        powers[100..106].fill(0.9);
        let found = |detectors: &[OutlierDetector]| {
            let config = DftConfig { detectors: detectors.to_vec(), ..DftConfig::default() };
            dominant_bins(&powers, &config).0.iter().map(|bin| bin.k).collect::<Vec<_>>()
        };
        let (zscore, dbscan) = (OutlierDetector::ZScore, OutlierDetector::Dbscan);
        assert_eq!(found(&[zscore]).len(), 6, "{:?}", found(&[zscore])); // 105 is a multiple of 21
        assert_eq!(found(&[dbscan]), [21]);
        assert_eq!(found(&[zscore, dbscan]), [21]);
        assert_eq!(found(&[dbscan, zscore]), [21]);
    }

    #[test]
    fn harmonics_of_bursts_are_listed_with_their_power_and_decay() {
        let bursts = found(&pulses(20, 5, 40), &DftConfig::default());
        assert!(bursts.has_bursts);
        assert_eq!(bursts.harmonics[0].multiple, 2);
        assert!((bursts.harmonics[0].frequency_hz - 0.1).abs() < 1e-12);
        // (sin(π/2)/2)² of (sin(π/4)/1)²
        let ratio = bursts.harmonics[0].power_share / bursts.waves[1].power_share;
        assert!((ratio - 0.5).abs() < 0.05, "{ratio}");
        assert!(bursts.harmonics.iter().all(|harmonic| !harmonic.was_dropped));
        let dropped = found(&pulses(20, 5, 40), &DftConfig { tolerance: 0.45, ..DftConfig::default() });
        assert!(dropped.harmonics[0].was_dropped && dropped.period_s == Some(20.0));
        assert!(dropped.confidence > bursts.confidence);

        let values = (0..400).map(|i| 5e8 + 2e8 * (TAU * 8.0 * f64::from(i) / 400.0).cos()).collect();
        let wave = found(&signal(10.0, values), &DftConfig::default());
        assert!(!wave.has_bursts && wave.harmonics.is_empty());
    }

    #[test]
    fn of_two_candidates_the_stronger_is_the_period_and_three_are_none() {
        let wave = |k: f64, i: u32| (TAU * k * f64::from(i) / 500.0).cos();
        let two = (0..500).map(|i| 9.0 + 2.0 * wave(11.0, i) + 1.95 * wave(7.0, i)).collect();
        let estimate = found(&signal(1.0, two), &DftConfig::default());
        assert_eq!(estimate.period_s, Some(500.0 / 11.0));
        assert_eq!(estimate.candidates.len(), 2);
        assert!(
            (estimate.candidates.iter().map(|candidate| candidate.confidence).sum::<f64>() - 1.0).abs()
                < 1e-9
        );

        let three = (0..500).map(|i| 9.0 + wave(11.0, i) + wave(7.0, i) + wave(5.0, i)).collect();
        let estimate = found(&signal(1.0, three), &DftConfig::default());
        assert_eq!((estimate.period_s, estimate.confidence), (None, 0.0));
        assert_eq!(estimate.candidates.len(), 3);
    }

    #[test]
    fn phases_begin_where_the_bursts_do_and_the_next_is_one_period_on() {
        let estimate = found(&pulses(20, 5, 10), &DftConfig::default());
        assert_eq!(estimate.period_s, Some(20.0));
        assert_eq!(estimate.phases.len(), 10);
        assert_eq!(estimate.phases[1], Phase { start_s: 23.5, end_s: 28.5, bytes: 5e9 });
        assert_eq!(estimate.next_phase_s, Some(203.5));
        assert_eq!(estimate.rhythms[0].bytes, 5e10);
    }

    #[test]
    fn a_dip_within_a_burst_does_not_end_the_phase() {
        let mut dipped = pulses(20, 9, 10);
        for i in (4..200).step_by(20) {
            dipped.values[i] = 1.0;
        }
        let estimate = found(&dipped, &DftConfig::default());
        assert_eq!(estimate.phases.len(), 10);
        assert_eq!(estimate.phases[0], Phase { start_s: 3.5, end_s: 12.5, bytes: 8e9 + 1.0 });
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let mut huge = pulses(20, 5, 10);
        for value in &mut huge.values {
            *value *= 1e290;
        }
        assert_eq!(found(&huge, &DftConfig::default()).period_s, Some(20.0));
    }

    fn values() -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec(prop_oneof![Just(0.0), 0.0..1e9f64], 0..200)
    }

    fn numbers(estimate: &PeriodEstimate) -> Vec<f64> {
        let mut all: Vec<f64> = [estimate.period_s, estimate.refined_confidence, estimate.next_phase_s]
            .into_iter()
            .flatten()
            .chain([estimate.confidence])
            .collect();
        all.extend(
            estimate.candidates.iter().flat_map(|candidate| [candidate.period_s, candidate.confidence]),
        );
        all.extend(
            estimate.rhythms.iter().flat_map(|rhythm| [rhythm.period_s, rhythm.confidence, rhythm.bytes]),
        );
        all.extend(estimate.phases.iter().flat_map(|phase| [phase.start_s, phase.end_s, phase.bytes]));
        all.extend(
            estimate
                .waves
                .iter()
                .flat_map(|wave| [wave.frequency_hz, wave.amplitude_bps, wave.phase_rad, wave.power_share]),
        );
        all.extend(estimate.autocorrelation.iter().flat_map(|second| [second.period_s, second.confidence]));
        all
    }

    proptest! {
        #[test]
        fn every_number_is_one_and_every_confidence_a_share(
            values in values(),
            detector in prop::sample::select(DETECTORS.to_vec()),
            tolerance in 0.0..=1.0f64,
        ) {
            let estimate = found(&signal(10.0, values), &DftConfig { detectors: vec![detector], tolerance, n_top: 5, ..DftConfig::default() });
            prop_assert!(numbers(&estimate).iter().all(|number| number.is_finite()));
            let shares = [Some(estimate.confidence), estimate.refined_confidence];
            prop_assert!(shares.into_iter().flatten().all(|share| (0.0..=1.0 + 1e-12).contains(&share)));
            let end_s = estimate.phases.last().map_or(0.0, |last| last.end_s);
            prop_assert!(estimate.next_phase_s.is_none_or(|next_s| next_s >= end_s - 1e-6));
        }

        #[test]
        fn a_time_shift_moves_the_phases_and_nothing_else(values in values(), shift_s in -1e6..1e6f64) {
            let here = signal(10.0, values);
            let there = SampledSignal { start_s: here.start_s + shift_s, ..here.clone() };
            let (here, there) = (found(&here, &DftConfig::default()), found(&there, &DftConfig::default()));
            let shifted = |time_s: f64, later_s: f64| (later_s - time_s - shift_s).abs() < 1e-6;
            prop_assert!(here.next_phase_s.zip(there.next_phase_s).is_none_or(|(a, b)| shifted(a, b)));
            prop_assert_eq!(here.phases.len(), there.phases.len());
            prop_assert!(here.phases.iter().zip(&there.phases).all(|(a, b)| shifted(a.start_s, b.start_s)));
            // What lies between phases is measured at times that the shift has rounded.
            let pairs = || here.rhythms.iter().zip(&there.rhythms);
            prop_assert!(pairs().all(|(a, b)| (a.depth - b.depth).abs() < 1e-6));
            let without_times = |mut estimate: PeriodEstimate| {
                for rhythm in &mut estimate.rhythms {
                    (rhythm.start_s, rhythm.end_s, rhythm.depth) = (0.0, 0.0, 0.0);
                    rhythm.phases.clear();
                }
                PeriodEstimate { next_phase_s: None, phases: Vec::new(), ..estimate }
            };
            prop_assert_eq!(without_times(here), without_times(there));
        }

        #[test]
        fn scaling_the_bandwidth_changes_neither_period_nor_confidence(values in values(), doublings in -60..60i32) {
            let small = signal(10.0, values);
            let mut large = small.clone();
            large.values.iter_mut().for_each(|value| *value *= 2f64.powi(doublings));
            let (small, large) = (found(&small, &DftConfig::default()), found(&large, &DftConfig::default()));
            prop_assert_eq!(small.period_s, large.period_s);
            prop_assert_eq!(small.candidates, large.candidates);
            prop_assert_eq!(small.refined_confidence, large.refined_confidence);
        }

        #[test]
        fn all_waves_together_are_the_signal(values in values()) {
            let signal = signal(10.0, values);
            let estimate = found(&signal, &DftConfig { n_top: signal.values.len(), ..DftConfig::default() });
            for (wave, value) in reconstruct(&estimate.waves, &signal).iter().zip(&signal.values) {
                prop_assert!((wave - value).abs() < 1e-3, "{wave} {value}");
            }
        }
    }
}
