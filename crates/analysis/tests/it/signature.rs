//! Signatures out of logs whose truth is known: pseudo-applications after the IOSI paper, under moderate and heavy noise.
//!
//! The logs are not part of the project; they are looked for in `shared/data/signature`. What is asserted are the goals
//! that the method was made for; `cargo xtask accuracy signature --shared` prints the figures.

use std::fs;
use std::path::Path;

use iotide_analysis::{Sample, Signature, SignatureConfig, SignatureMethod, extract};
use iotide_num::{largest_cross_correlation, mean, rebin};
use serde_json::Value;

#[test]
fn the_default_method_reaches_its_goals_under_moderate_and_heavy_noise() {
    let Some(folder) = iotide_testkit::shared_data("signature") else { return };
    let moderate = mean_score(&folder, "moderate", SignatureMethod::Consensus);
    assert!(moderate.cross_correlation >= 0.96 && moderate.correlation >= 0.90, "{moderate:?}");
    assert!(moderate.missed <= 0.05 && moderate.false_bursts <= 0.1, "{moderate:?}");
    let heavy = mean_score(&folder, "heavy", SignatureMethod::Consensus);
    assert!(heavy.cross_correlation >= 0.86 && heavy.correlation >= 0.65, "{heavy:?}");
    assert!(heavy.false_bursts <= 1.0, "{heavy:?}");
}

#[test]
fn the_papers_method_is_as_good_as_the_paper_says() {
    let Some(folder) = iotide_testkit::shared_data("signature") else { return };
    // The paper: cross correlation 0.72 to 0.95, correlation 0.66 to 0.94.
    let moderate = mean_score(&folder, "moderate", SignatureMethod::Iosi);
    assert!(moderate.cross_correlation >= 0.85 && moderate.correlation >= 0.75, "{moderate:?}");
    let heavy = mean_score(&folder, "heavy", SignatureMethod::Iosi);
    assert!(heavy.cross_correlation >= 0.65, "{heavy:?}");
}

#[test]
fn warping_time_finds_the_bursts_and_others_too() {
    let Some(folder) = iotide_testkit::shared_data("signature") else { return };
    let barycentre = mean_score(&folder, "moderate", SignatureMethod::DtwBarycentre);
    assert!(barycentre.cross_correlation >= 0.85 && barycentre.false_bursts > 1.0, "{barycentre:?}");
    let pairwise = mean_score(&folder, "moderate", SignatureMethod::DtwPairwise);
    assert!(pairwise.cross_correlation < barycentre.cross_correlation, "{pairwise:?} {barycentre:?}");
}

#[derive(Clone, Copy, Debug)]
struct Score {
    cross_correlation: f64,
    correlation: f64,
    missed: f64,
    false_bursts: f64,
}

fn mean_score(folder: &Path, noise: &str, method: SignatureMethod) -> Score {
    let text = fs::read_to_string(folder.join("truth.json")).expect("truth.json can be read");
    let truths: Value = serde_json::from_str(&text).expect("truth.json is JSON");
    let truths = truths.as_object().expect("truth.json is an object");
    let scores: Vec<Score> = truths
        .iter()
        .filter(|(name, _)| name.contains(noise))
        .map(|(name, truth)| {
            let samples = read_samples(&folder.join(name));
            let config = SignatureConfig { method, ..SignatureConfig::default() };
            score(&extract(&samples, &config).expect("there are enough samples"), truth)
        })
        .collect();
    assert!(!scores.is_empty(), "no case of {noise} noise");
    let mean_of = |of: fn(&Score) -> f64| mean(&scores.iter().map(of).collect::<Vec<_>>());
    Score {
        cross_correlation: mean_of(|score| score.cross_correlation),
        correlation: mean_of(|score| score.correlation),
        missed: mean_of(|score| score.missed),
        false_bursts: mean_of(|score| score.false_bursts),
    }
}

fn read_samples(folder: &Path) -> Vec<Sample> {
    let mut paths: Vec<_> =
        fs::read_dir(folder).expect("a folder of samples").flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let parse = |line: &str| -> Option<(f64, f64)> {
        let (time, bandwidth) = line.split_once(',')?;
        Some((time.parse().ok()?, bandwidth.parse().ok()?))
    };
    paths
        .iter()
        .map(|path| {
            let text = fs::read_to_string(path).expect("a sample can be read");
            let rows: Vec<(f64, f64)> = text.lines().filter_map(parse).collect();
            let values = rows.iter().map(|row| row.1).collect();
            Sample::whole(path.display().to_string(), rows[1].0 - rows[0].0, values)
        })
        .collect()
}

fn score(signature: &Signature, truth: &Value) -> Score {
    let number = |value: &Value| value.as_f64().expect("a number");
    let mut alone: Vec<f64> = truth["bandwidth_bps"].as_array().expect("a list").iter().map(number).collect();
    let mut found = rebin(&signature.bandwidth_bps, number(&truth["interval_s"]) / signature.interval_s);
    let n = alone.len().max(found.len());
    alone.resize(n, 0.0);
    found.resize(n, 0.0);
    let bursts = truth["bursts"].as_array().expect("a list");
    let truly: Vec<(f64, f64)> =
        bursts.iter().map(|b| (number(&b["start_s"]), number(&b["end_s"]))).collect();
    let ours: Vec<(f64, f64)> = signature.bursts.iter().map(|b| (b.start_s, b.end_s)).collect();
    let untouched = |of: &[(f64, f64)], by: &[(f64, f64)]| {
        of.iter().filter(|a| !by.iter().any(|b| a.0 < b.1 && b.0 < a.1)).count() as f64
    };
    Score {
        cross_correlation: largest_cross_correlation(&alone, &found).map_or(0.0, |(_, value)| value),
        correlation: correlation(&alone, &found),
        missed: untouched(&truly, &ours),
        false_bursts: untouched(&ours, &truly),
    }
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let (mean_a, mean_b) = (mean(a), mean(b));
    let product = |x: &[f64], mx: f64, y: &[f64], my: f64| -> f64 {
        x.iter().zip(y).map(|(x, y)| (x - mx) * (y - my)).sum()
    };
    product(a, mean_a, b, mean_b)
        / (product(a, mean_a, a, mean_a) * product(b, mean_b, b, mean_b)).sqrt().max(f64::MIN_POSITIVE)
}
