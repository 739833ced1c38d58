//! Laws that hold for every method, on runs made here.

use iotide_num::mean;
use proptest::prelude::*;

use super::*;

const INTERVAL_S: f64 = 2.0;
const PEAK_BPS: f64 = 2.5e9;
/// Pause before each burst and points it takes when undisturbed.
const PLAN: [(usize, usize); 4] = [(40, 12), (50, 4), (45, 12), (50, 6)];

/// A run, point by point: each burst takes `longer` times as many points at that much less bandwidth.
fn run(longer: f64, floor_bps: f64) -> Vec<f64> {
    let mut values = Vec::new();
    for (pause, burst) in PLAN {
        values.extend(vec![floor_bps; pause]);
        let n = (burst as f64 * longer).round() as usize;
        values.extend(vec![floor_bps + PEAK_BPS * burst as f64 / n as f64; n]);
    }
    values.extend([floor_bps; 2]);
    values
}

/// Adds what others do: noise on every point, and bursts at places that differ from seed to seed.
fn disturb(mut values: Vec<f64>, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut unit = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1u64 << 31) as f64
    };
    for value in &mut values {
        *value += 0.1e9 * unit();
    }
    for _ in 0..3 {
        let (at, length, height) = (unit() * values.len() as f64, 2.0 + 8.0 * unit(), 2e9 * unit());
        for value in values.iter_mut().skip(at as usize).take(length as usize) {
            *value += height;
        }
    }
    values
}

fn noisy_samples(n: usize, seed: u64) -> Vec<Sample> {
    (0..n as u64)
        .map(|i| {
            let values = disturb(run(1.0 + 0.01 * i as f64, 0.05e9), 100 * seed + i);
            Sample::whole(format!("run {i}"), INTERVAL_S, values)
        })
        .collect()
}

fn default_extract(samples: &[Sample]) -> Signature {
    extract(samples, &SignatureConfig::default()).unwrap()
}

/// Start and end of the bursts of an undisturbed run.
fn planned() -> Vec<(f64, f64)> {
    let mut now_s = 0.0;
    PLAN.iter()
        .map(|&(pause, burst)| {
            let start_s = now_s + pause as f64 * INTERVAL_S;
            now_s = start_s + burst as f64 * INTERVAL_S;
            (start_s, now_s)
        })
        .collect()
}

fn assert_planned(signature: &Signature, shift_s: f64, tolerance_s: f64) {
    let found: Vec<(f64, f64)> = signature.bursts.iter().map(|burst| (burst.start_s, burst.end_s)).collect();
    assert_eq!(found.len(), PLAN.len(), "{found:?}");
    for (found, planned) in found.iter().zip(planned()) {
        let gaps = [found.0 - shift_s - planned.0, found.1 - shift_s - planned.1];
        assert!(gaps.iter().all(|gap| gap.abs() <= tolerance_s), "{found:?} instead of {planned:?}");
    }
}

#[test]
fn runs_that_are_all_alike_are_their_own_signature() {
    let samples: Vec<Sample> =
        (0..4).map(|i| Sample::whole(i.to_string(), INTERVAL_S, run(1.0, 0.0))).collect();
    let signature = default_extract(&samples);
    assert_eq!(signature.interval_s, 1.0);
    assert_planned(&signature, 0.0, 0.0);
    for (burst, (_, points)) in signature.bursts.iter().zip(PLAN) {
        assert_eq!((burst.peak_bps, burst.support), (PEAK_BPS, 1.0));
        assert_eq!(burst.bytes, PEAK_BPS * points as f64 * INTERVAL_S);
    }
    assert!((signature.confidence - 1.0).abs() < 1e-9, "{}", signature.confidence);
    assert!(signature.rejected.is_empty());
}

#[test]
fn what_others_add_and_delay_is_not_in_the_signature() {
    let signature = default_extract(&noisy_samples(8, 1));
    assert_planned(&signature, 0.0, 3.0);
    for (burst, (_, points)) in signature.bursts.iter().zip(PLAN) {
        let planned = PEAK_BPS * points as f64 * INTERVAL_S;
        assert!((burst.bytes / planned - 1.0).abs() < 0.1, "{burst:?} instead of {planned}");
    }
}

#[test]
fn the_bursts_lie_where_their_samples_say_once_aligned() {
    let samples = noisy_samples(6, 2);
    let signature = default_extract(&samples);
    for used in &signature.used {
        assert_eq!(used.times_s.len(), signature.bandwidth_bps.len());
        assert!(used.times_s.windows(2).all(|pair| pair[0] <= pair[1] + 1e-9), "{}", used.name);
        let sample = &samples[used.index];
        for burst in &signature.bursts {
            let middle = ((burst.start_s + burst.end_s) / 2.0 / signature.interval_s) as usize;
            let value = sample.bandwidth_bps[(used.times_s[middle] / sample.interval_s) as usize];
            assert!(value > 0.5 * PEAK_BPS, "{}: {value} in the middle of {burst:?}", used.name);
        }
    }
}

#[test]
fn a_run_that_restarted_halfway_is_left_out_with_its_reason() {
    let mut samples = noisy_samples(7, 3);
    let half = samples[0].bandwidth_bps.split_off(110);
    samples.push(Sample::whole("restarted", INTERVAL_S, half));
    samples[0] = Sample::whole("run 0", INTERVAL_S, disturb(run(1.0, 0.05e9), 9));
    let signature = default_extract(&samples);
    let names: Vec<&str> = signature.rejected.iter().map(|rejected| rejected.name.as_str()).collect();
    assert!(names.contains(&"restarted"), "{names:?}");
    let reason = signature.rejected.iter().find(|rejected| rejected.index == 7).unwrap().reason;
    assert!(
        matches!(reason, SampleRejection::Outlier { duration_ratio, .. } if duration_ratio < 0.8),
        "{reason:?}"
    );
}

#[test]
fn a_hole_in_one_log_changes_little() {
    let mut samples = noisy_samples(8, 4);
    for value in &mut samples[2].bandwidth_bps[35..60] {
        *value = f64::NAN;
    }
    assert_planned(&default_extract(&samples), 0.0, 5.0);
}

#[test]
fn parts_of_runs_help_where_they_are_and_nowhere_else() {
    let mut samples = noisy_samples(5, 5);
    for sample in &mut samples[3..] {
        let tail = sample.bandwidth_bps.split_off(90);
        sample.bandwidth_bps = tail;
        sample.extent = Extent::Part { offset_s: 180.0 };
    }
    let signature = default_extract(&samples);
    assert_eq!(signature.offset_s, 0.0);
    assert!(signature.used.iter().any(|used| used.index >= 3), "{:?}", signature.rejected);
    assert_planned(&signature, 0.0, 5.0);
}

#[test]
fn parts_alone_give_the_signature_of_the_part() {
    let samples: Vec<Sample> = noisy_samples(6, 6)
        .into_iter()
        .map(|mut sample| {
            sample.bandwidth_bps = sample.bandwidth_bps[60..].to_vec();
            sample.extent = Extent::Part { offset_s: 120.0 };
            sample
        })
        .collect();
    let signature = default_extract(&samples);
    assert_eq!((signature.offset_s, signature.bursts.len()), (120.0, 3));
    for (burst, planned) in signature.bursts.iter().zip(&planned()[1..]) {
        assert!((burst.start_s - planned.0).abs() <= 4.0, "{burst:?} instead of {planned:?}");
    }
}

#[test]
fn runs_on_more_nodes_are_normalised_to_the_fewest() {
    // Weak scaling: the volume grows with the nodes, the bandwidth does not.
    let samples: Vec<Sample> = [1u32, 1, 2, 2, 4, 4]
        .iter()
        .enumerate()
        .map(|(i, &scale)| {
            let mut values = Vec::new();
            for (pause, burst) in PLAN {
                values.extend(vec![0.05e9; pause]);
                values.extend(vec![0.05e9 + PEAK_BPS; burst * scale as usize]);
            }
            values.extend([0.05e9; 2]);
            let mut sample = Sample::whole(i.to_string(), INTERVAL_S, disturb(values, 70 + i as u64));
            sample.n_nodes = Some(160 * scale);
            sample
        })
        .collect();
    let signature = default_extract(&samples);
    assert!(signature.used.len() >= 5, "{:?}", signature.rejected);
    assert_planned(&signature, 0.0, 6.0);
}

#[test]
fn silence_has_no_burst() {
    let samples: Vec<Sample> =
        (0..4).map(|i| Sample::whole(i.to_string(), INTERVAL_S, vec![0.0; 50])).collect();
    for method in METHODS {
        let signature = extract(&samples, &SignatureConfig { method, ..SignatureConfig::default() }).unwrap();
        assert_eq!((signature.bursts.len(), signature.confidence), (0, 0.0), "{method:?}");
    }
}

#[test]
fn what_cannot_be_answered_is_said() {
    let config = SignatureConfig::default();
    let one = [Sample::whole("a", 1.0, vec![1.0])];
    assert_eq!(extract(&one, &config), Err(SignatureError::TooFewSamples { given: 1, needed: 2 }));
    let hole = Sample::whole("b", 1.0, vec![f64::NAN; 3]);
    let with_hole = [one[0].clone(), hole];
    assert_eq!(extract(&with_hole, &config), Err(SignatureError::TooFewSamples { given: 1, needed: 2 }));
    for value in [-1.0, f64::INFINITY] {
        let bad = [one[0].clone(), Sample::whole("bad", 1.0, vec![value])];
        assert_eq!(extract(&bad, &config), Err(SignatureError::BadValue { name: "bad".to_owned(), value }));
    }
    let frozen = [one[0].clone(), Sample::whole("frozen", 0.0, vec![1.0])];
    assert!(matches!(extract(&frozen, &config), Err(SignatureError::BadInterval { .. })));
    let mut early = one[0].clone();
    early.extent = Extent::Part { offset_s: -1.0 };
    assert!(matches!(extract(&[early, one[0].clone()], &config), Err(SignatureError::BadOffset { .. })));
}

const METHODS: [SignatureMethod; 4] = [
    SignatureMethod::Consensus,
    SignatureMethod::Iosi,
    SignatureMethod::DtwPairwise,
    SignatureMethod::DtwBarycentre,
];

#[test]
fn every_method_finds_the_bursts_of_quiet_runs() {
    let samples: Vec<Sample> = (0..5)
        .map(|i| Sample::whole(i.to_string(), INTERVAL_S, run(1.0 + 0.02 * f64::from(i), 0.05e9)))
        .collect();
    for method in METHODS {
        let signature = extract(&samples, &SignatureConfig { method, ..SignatureConfig::default() }).unwrap();
        assert_eq!(signature.bursts.len(), PLAN.len(), "{method:?}: {:?}", signature.bursts);
        assert!(signature.confidence > 0.8, "{method:?}: {}", signature.confidence);
        for (burst, planned) in signature.bursts.iter().zip(planned()) {
            assert!(burst.start_s < planned.1 && planned.0 < burst.end_s, "{method:?}: {burst:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn the_order_of_the_samples_does_not_matter(seed in 1u64..1000, turn in 1usize..7) {
        let samples = noisy_samples(7, seed);
        let mut turned = samples.clone();
        turned.rotate_left(turn);
        turned.swap(0, 3);
        for method in METHODS {
            let config = SignatureConfig { method, ..SignatureConfig::default() };
            let (a, b) = (extract(&samples, &config).unwrap(), extract(&turned, &config).unwrap());
            prop_assert_eq!(a.bandwidth_bps.len(), b.bandwidth_bps.len());
            let height = a.bandwidth_bps.iter().copied().fold(1.0, f64::max);
            for (x, y) in a.bandwidth_bps.iter().zip(&b.bandwidth_bps) {
                prop_assert!((x - y).abs() < 1e-6 * height, "{:?}: {} {}", method, x, y);
            }
        }
    }

    #[test]
    fn a_storage_that_is_faster_by_a_factor_has_a_signature_that_is(seed in 1u64..1000, power in -20i32..20) {
        // Powers of two, so that no rounding decides between two equally good alignments.
        let factor = 2f64.powi(power);
        let samples = noisy_samples(6, seed);
        let faster: Vec<Sample> = samples
            .iter()
            .map(|s| {
                let values = s.bandwidth_bps.iter().map(|value| value * factor).collect();
                Sample::whole(s.name.clone(), INTERVAL_S, values)
            })
            .collect();
        let (a, b) = (default_extract(&samples), default_extract(&faster));
        prop_assert_eq!(a.bursts.len(), b.bursts.len());
        prop_assert!((a.confidence - b.confidence).abs() < 1e-6);
        for (x, y) in a.bandwidth_bps.iter().zip(&b.bandwidth_bps) {
            prop_assert!((x * factor - y).abs() <= 1e-6 * y.abs());
        }
    }

    #[test]
    fn a_longer_start_moves_the_signature_and_nothing_else(seed in 1u64..1000, n_points in 1usize..40) {
        let samples = noisy_samples(6, seed);
        let later: Vec<Sample> = samples
            .iter()
            .map(|s| {
                let calm = mean(&s.bandwidth_bps[..10]).min(0.1e9);
                let values = [vec![calm; n_points], s.bandwidth_bps.clone()].concat();
                Sample::whole(s.name.clone(), INTERVAL_S, values)
            })
            .collect();
        let (a, b) = (default_extract(&samples), default_extract(&later));
        prop_assert_eq!(a.bursts.len(), b.bursts.len());
        for (x, y) in a.bursts.iter().zip(&b.bursts) {
            let moved_s = y.start_s - x.start_s - n_points as f64 * INTERVAL_S;
            prop_assert!(moved_s.abs() <= 4.0, "{:?} {:?}", x, y);
        }
    }
}

#[test]
fn a_part_of_a_run_never_sets_the_length() {
    for extent in [Extent::Part { offset_s: 0.0 }, Extent::Whole] {
        let mut samples = noisy_samples(4, 3);
        let mut part = noisy_samples(5, 3).remove(4);
        part.bandwidth_bps.truncate(part.bandwidth_bps.len() / 3);
        part.extent = extent;
        samples.push(part);
        for method in [SignatureMethod::Iosi, SignatureMethod::DtwPairwise, SignatureMethod::DtwBarycentre] {
            let mut config = SignatureConfig { method, ..SignatureConfig::default() };
            config.outliers.enabled = false;
            let signature = extract(&samples, &config).unwrap();
            let duration_s = signature.bandwidth_bps.len() as f64 * signature.interval_s;
            assert!(duration_s > 0.9 * samples[0].duration_s(), "{method:?} {extent:?}: {duration_s}");
            let names: Vec<&str> = signature.rejected.iter().map(|sample| sample.name.as_str()).collect();
            assert_eq!(names, ["run 4"], "{method:?} {extent:?}");
            assert!(matches!(signature.rejected[0].reason, SampleRejection::Part { .. }));
        }
    }
}

#[test]
fn without_preprocessing_samples_keep_their_length_and_background() {
    let samples = noisy_samples(6, 1);
    let mut config = SignatureConfig { method: SignatureMethod::Iosi, ..SignatureConfig::default() };
    let prepared = extract(&samples, &config).unwrap();
    config.preprocess = false;
    let plain = extract(&samples, &config).unwrap();
    assert!(prepared.background_bps > 0.0 && plain.background_bps == 0.0);
    assert!(plain.bandwidth_bps.len() >= prepared.bandwidth_bps.len());
    config.iosi.at_crest = true;
    assert!(!extract(&samples, &config).unwrap().bandwidth_bps.is_empty());
}
