//! Compares with what FTIO 0.0.9 computes on the way and answers in the end, fed with FTIO's own samples.
//!
//! The reference data is not part of the project. It is looked for in a folder `shared/data/ftio` beside the checkout
//! or further up; without it these tests say so and pass.

use std::fs;
use std::path::{Path, PathBuf};

use iotide_analysis::{DftConfig, Method, OutlierDetector, PeriodConfig, PeriodEstimate, detect_period};
use iotide_num::{PeakConditions, autocorrelation, find_peaks, spectrum, z_scores};
use iotide_trace::SampledSignal;
use serde_json::Value;

#[test]
fn the_spectrum_equals_that_of_ftio() {
    for Golden { name, signal, arrays, .. } in golden() {
        let found = spectrum(&signal.values);
        assert_near(&name, &found.magnitudes, &numbers(&arrays["amp_first64"]));
        // FTIO's phases count from time 0 of the clock, ours from the start of the signal.
        for (k, expected) in numbers(&arrays["phi_first64"]).into_iter().enumerate().skip(1) {
            let frequency_hz = found.frequency(k) * signal.rate_hz;
            let phase = found.phases[k] - std::f64::consts::TAU * frequency_hz * signal.start_s;
            let gap = ((phase - expected) / std::f64::consts::TAU + 0.5).rem_euclid(1.0) - 0.5;
            assert!(gap.abs() < 1e-6, "{name}: phase of bin {k} is {phase}, not {expected}");
        }
    }
}

#[test]
fn the_z_scores_equal_those_of_ftio() {
    for Golden { name, signal, arrays, .. } in golden() {
        let powers = spectrum(&signal.values).powers();
        // FTIO leaves out the sign.
        let found: Vec<f64> = z_scores(&powers[1..]).unwrap().iter().map(|z| z.abs()).collect();
        let expected = numbers(&arrays["z_all"]);
        assert_eq!(found.len(), expected.len(), "{name}");
        assert_near(&name, &found, &expected);
    }
}

#[test]
fn the_autocorrelation_and_its_peaks_equal_those_of_ftio() {
    for Golden { name, signal, arrays, .. } in golden() {
        let found = autocorrelation(&signal.values);
        assert_near(&name, &found, &numbers(&arrays["acf_first256"]));
        let peaks = find_peaks(&found, &PeakConditions { height: Some(0.15), ..PeakConditions::default() });
        let indices: Vec<f64> = peaks.iter().map(|peak| peak.index as f64).collect();
        assert_eq!(indices, numbers(&arrays["acf_peaks"]), "{name}");
        let heights: Vec<f64> = peaks.iter().map(|peak| peak.height).collect();
        assert_near(&name, &heights, &numbers(&arrays["acf_peak_heights"]));
    }
}

#[test]
fn the_answers_on_the_samples_of_ftio_are_its_own() {
    for golden in golden() {
        for tolerance in [0.8, 0.45] {
            let Some(expected) = golden.answer(tolerance) else { continue };
            let found = golden.detect(DftConfig { tolerance, ..DftConfig::default() });
            let case = format!("{} at a tolerance of {tolerance}", golden.name);
            assert_eq!(found.period_s.is_some(), expected.0.is_some(), "{case}: {found:?}");
            if let (Some(found_s), Some(expected_s)) = (found.period_s, expected.0) {
                assert!((found_s / expected_s - 1.0).abs() < 1e-9, "{case}: {found_s} s, not {expected_s} s");
                let expected = expected.1.unwrap();
                assert!(
                    (found.confidence - expected).abs() < 1e-6,
                    "{case}: {} {expected}",
                    found.confidence
                );
            }
        }
    }
}

#[test]
fn forest_and_peaks_choose_the_frequency_that_ftio_chooses() {
    for golden in golden().iter().filter(|golden| !golden.name.ends_with("_read")) {
        let by_z_score = golden.detect(DftConfig::default()).period_s;
        for detector in [OutlierDetector::IsolationForest { seed: 0 }, OutlierDetector::Peaks] {
            let found = golden.detect(DftConfig { detectors: vec![detector], ..DftConfig::default() });
            assert_eq!(found.period_s, by_z_score, "{} by {detector:?}", golden.name);
        }
    }
}

/// One of FTIO's signals, with what FTIO makes of it.
struct Golden {
    name: String,
    signal: SampledSignal,
    arrays: Value,
    rows: Value,
}

impl Golden {
    fn detect(&self, dft: DftConfig) -> PeriodEstimate {
        detect_period(&self.signal, &PeriodConfig { method: Method::Dft, dft }).unwrap()
    }

    /// FTIO's period and confidence for this signal by the Z-score, or `None` if it was not asked.
    fn answer(&self, tolerance: f64) -> Option<(Option<f64>, Option<f64>)> {
        let mut args = vec!["-e".to_string(), "no".to_string()];
        if self.arrays["mode"] == "read_sync" {
            args.extend(["-m".to_string(), "read_sync".to_string()]);
        }
        if tolerance != DftConfig::default().tolerance {
            args.extend(["-t".to_string(), tolerance.to_string()]);
        }
        let row = self
            .rows
            .as_array()?
            .iter()
            .find(|row| row["file"] == self.arrays["file"] && row["args"] == Value::from(args.clone()))?;
        Some((row["period_s"].as_f64(), row["conf"].as_f64()))
    }
}

fn golden() -> Vec<Golden> {
    let Some(folder) = reference_data() else { return Vec::new() };
    let rows = read(&folder.join("golden.json"))["rows"].clone();
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder.join("golden_arrays")).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    assert!(!paths.is_empty(), "{} holds no arrays", folder.display());
    paths
        .iter()
        .map(|path| {
            let arrays = read(path);
            let values = numbers(&arrays["b_sampled"]);
            let rate_hz = arrays["fs"].as_f64().unwrap();
            let duration_s = values.len() as f64 / rate_hz;
            let start_s = arrays["t_start"].as_f64().unwrap();
            Golden {
                name: path.file_stem().unwrap().to_string_lossy().into_owned(),
                signal: SampledSignal { start_s, rate_hz, values, duration_s },
                arrays,
                rows: rows.clone(),
            }
        })
        .collect()
}

/// FTIO's examples and answers; where they are not, says so.
pub(crate) fn reference_data() -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = here.ancestors().map(|folder| folder.join("shared/data/ftio")).find(|folder| folder.is_dir());
    if found.is_none() {
        use std::io::Write;
        let _ =
            writeln!(std::io::stderr(), "SKIPPED: no folder shared/data/ftio, nothing to compare with FTIO");
    }
    found
}

pub(crate) fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn numbers(values: &Value) -> Vec<f64> {
    values.as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
}

fn assert_near(name: &str, found: &[f64], expected: &[f64]) {
    let largest = expected.iter().fold(0.0f64, |most, value| most.max(value.abs()));
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let gap = (found - expected).abs();
        assert!(gap <= 1e-6 * expected.abs() + 1e-12 * largest, "{name}: {i} is {found}, not {expected}");
    }
}
