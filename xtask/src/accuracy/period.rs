//! `cargo xtask accuracy period`
use super::random::Random;
use super::workload::{self, Workload};
use iotide_analysis::{PeriodConfig, PeriodEstimate, detect_period};
use iotide_trace::{Overlap, Sampling, SamplingKind, Timestamp, automatic_rate_hz, sample};

pub fn sampled(workload: &Workload, rate_hz: Option<f64>) -> Option<iotide_trace::SampledSignal> {
    let mut overlap = Overlap::new();
    let at = |s: f64| Timestamp::from_secs_since_start(s).unwrap();
    for r in &workload.requests {
        overlap.add(at(r.start_s), at(r.end_s), r.bytes);
    }
    let signal = overlap.finish();
    let window = signal.span().unwrap();
    let rate_hz = rate_hz.unwrap_or_else(|| automatic_rate_hz(&signal, window));
    sample(&signal, window, Sampling { rate_hz, kind: SamplingKind::Mean }).ok()
}

/// Fits the weights of the multinomial logit by gradient ascent on the likelihood of the right answers.
pub fn fit(args: &[String]) {
    let seed = args.first().and_then(|a| a.parse().ok()).unwrap_or(1000);
    let repeat = args.get(1).and_then(|a| a.parse().ok()).unwrap_or(20);
    let mut cases: Vec<(Vec<Vec<f64>>, Vec<bool>, bool, f64)> = Vec::new();
    for (i, w) in suite(seed, repeat).iter().enumerate() {
        let rate = [None, Some(1.0), None][i % 3];
        let Some(signal) = sampled(w, rate) else { continue };
        let rhythms = iotide_analysis::weigh_rhythms(&signal);
        let right: Vec<bool> =
            rhythms.iter().map(|r| w.periods_s.iter().any(|t| (r.period_s / t - 1.0).abs() < 0.03)).collect();
        let evidence: Vec<Vec<f64>> = rhythms.into_iter().map(|r| r.evidence).collect();
        // Where none of the proposals is right, "none" is.
        let none_right = w.may_refuse || !right.iter().any(|r| *r);
        let weight = if w.periods_s.is_empty() { 2.0 } else { 1.0 };
        cases.push((evidence, right, none_right, weight));
    }
    let n = iotide_analysis::EVIDENCE_NAMES.len();
    let mut w = iotide_analysis::EVIDENCE_WEIGHTS.to_vec();
    let mut moment = vec![0.0; n];
    let mut square = vec![0.0; n];
    let ridge = 0.002;
    for step in 1..=3000 {
        let mut gradient = vec![0.0; n];
        let mut likelihood = 0.0;
        let mut total_weight = 0.0;
        for (evidence, right, none_right, weight) in &cases {
            let logits: Vec<f64> =
                evidence.iter().map(|e| e.iter().zip(&w).map(|(a, b)| a * b).sum()).collect();
            let top = logits.iter().copied().fold(0.0, f64::max);
            let none = (-top).exp();
            let exps: Vec<f64> = logits.iter().map(|l| (l - top).exp()).collect();
            let all: f64 = none + exps.iter().sum::<f64>();
            let good: f64 = exps.iter().zip(right).filter(|(_, r)| **r).map(|(e, _)| e).sum::<f64>()
                + if *none_right { none } else { 0.0 };
            likelihood += weight * (good / all).max(1e-300).ln();
            total_weight += weight;
            for (i, e) in evidence.iter().enumerate() {
                let posterior = if right[i] { exps[i] / good } else { 0.0 };
                let d = weight * (posterior - exps[i] / all);
                for (g, v) in gradient.iter_mut().zip(e) {
                    *g += d * v;
                }
            }
        }
        for i in 0..n {
            let g = gradient[i] / total_weight - ridge * w[i];
            moment[i] = 0.9 * moment[i] + 0.1 * g;
            square[i] = 0.999 * square[i] + 0.001 * g * g;
            let (m, s) = (moment[i] / (1.0 - 0.9f64.powi(step)), square[i] / (1.0 - 0.999f64.powi(step)));
            w[i] += 0.02 * m / (s.sqrt() + 1e-9);
        }
        if step % 500 == 0 {
            println!("step {step} mean log likelihood {:.4}", likelihood / total_weight);
        }
    }
    println!(
        "pub const WEIGHTS: [f64; N_EVIDENCE] = {:?};",
        w.iter().map(|v| (v * 1000.0).round() / 1000.0).collect::<Vec<_>>()
    );
    for (name, v) in iotide_analysis::EVIDENCE_NAMES.iter().zip(&w) {
        println!("{name:30} {v:8.3}");
    }
}

pub fn answer(workload: &Workload, rate_hz: Option<f64>) -> PeriodEstimate {
    let mut overlap = Overlap::new();
    let at = |s: f64| Timestamp::from_secs_since_start(s).unwrap();
    for r in &workload.requests {
        overlap.add(at(r.start_s), at(r.end_s), r.bytes);
    }
    let signal = overlap.finish();
    let window = signal.span().unwrap();
    let rate_hz = rate_hz.unwrap_or_else(|| automatic_rate_hz(&signal, window));
    match sample(&signal, window, Sampling { rate_hz, kind: SamplingKind::Mean }) {
        Ok(sampled) => detect_period(&sampled, &PeriodConfig::default()).unwrap(),
        Err(_) => PeriodEstimate::default(),
    }
}

pub fn suite(seed: u64, repeat: usize) -> Vec<Workload> {
    let mut all = Vec::new();
    let mut n = 0;
    let mut random = || {
        n += 1;
        Random::new(seed.wrapping_mul(1_000_003).wrapping_add(n))
    };
    for _ in 0..repeat {
        for compute in [1.0, 2.5, 5.0, 11.0, 22.0, 44.0, 100.0] {
            all.push(workload::phases(&mut random(), "fixed", compute, 0.0, 0.0, None));
            all.push(workload::phases(&mut random(), "fixed, low noise", compute, 0.0, 0.0, Some(0.5e9)));
            all.push(workload::phases(&mut random(), "fixed, high noise", compute, 0.0, 0.0, Some(1e9)));
        }
        for delay in [1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0] {
            all.push(workload::phases(
                &mut random(),
                if delay < 6.0 { "desync 1-5" } else { "desync 10-30" },
                11.0,
                0.0,
                delay,
                None,
            ));
        }
        for ratio in [0.1, 0.25, 0.4, 0.5, 0.75, 0.9] {
            all.push(workload::phases(&mut random(), "vary <1", 11.0, 11.0 * ratio, 0.0, None));
        }
        for ratio in [1.0, 1.5, 2.0] {
            all.push(workload::phases(&mut random(), "vary >=1", 11.0, 11.0 * ratio, 0.0, None));
        }
        for kind in 0..workload::APERIODIC_KINDS {
            all.push(workload::aperiodic(&mut random(), kind));
        }
        for _ in 0..6 {
            all.push(workload::interleaved(&mut random()));
            all.push(workload::nested(&mut random()));
            all.push(workload::odd_shapes(&mut random()));
        }
    }
    all
}

pub fn run(args: &[String]) {
    let seed = args.first().and_then(|a| a.parse().ok()).unwrap_or(1);
    let repeat = args.get(1).and_then(|a| a.parse().ok()).unwrap_or(5);
    let rate = args.get(2).and_then(|a| a.parse().ok());
    let verbose = args.get(3).is_some();
    let mut rows: Vec<(&str, Vec<f64>, usize, usize, usize, usize)> = Vec::new();
    let mut bins = vec![(0usize, 0usize, 0.0f64); 10];
    for (i, w) in suite(seed, repeat).iter().enumerate() {
        let found = answer(w, rate);
        let row = match rows.iter().position(|r| r.0 == w.family) {
            Some(i) => i,
            None => {
                rows.push((w.family, Vec::new(), 0, 0, 0, 0));
                rows.len() - 1
            }
        };
        let row = &mut rows[row];
        row.2 += 1;
        let near = |t: f64, tol: f64| found.rhythms.iter().any(|r| (r.period_s / t - 1.0).abs() < tol);
        let error = match (found.period_s, w.periods_s.first()) {
            (Some(t), Some(_)) => w.periods_s.iter().map(|truth| (t / truth - 1.0).abs()).fold(9.0, f64::min),
            (None, Some(_)) if w.may_refuse => 0.0,
            (None, Some(_)) => 1.0,
            (None, None) => 0.0,
            (Some(_), None) => 1.0,
        };
        row.1.push(error);
        if found.period_s.is_none() {
            row.3 += 1;
        }
        if w.periods_s.len() == 2 {
            if w.periods_s.iter().all(|&t| near(t, 0.1)) {
                row.4 += 1;
            }
            if w.periods_s.iter().any(|&t| near(t, 0.1)) {
                row.5 += 1;
            }
        }
        if verbose && error > 0.05 {
            println!(
                "#{i} {} truth {:?} found {:?} c {:.2} rhythms {:?}",
                w.family,
                w.periods_s,
                found.period_s,
                found.confidence,
                found.rhythms.iter().map(|r| r.period_s).collect::<Vec<_>>()
            );
        }
        if found.period_s.is_some() {
            let b = &mut bins[((found.confidence * 10.0) as usize).min(9)];
            b.0 += 1;
            b.2 += found.confidence;
            if error < 0.05 {
                b.1 += 1;
            }
        }
    }
    for (family, errors, n, none, both, any) in &rows {
        let mean = errors.iter().sum::<f64>() / *n as f64;
        let bad = errors.iter().filter(|e| **e > 0.05).count();
        println!(
            "{family:18} n {n:4} mean error {:6.2} %  >5%: {bad:3}  refused {none:3}  both {both:3} any {any:3}",
            100.0 * mean
        );
    }
    for (i, (n, right, c)) in bins.iter().enumerate() {
        if *n > 0 {
            println!(
                "confidence {:.1}: n {n:4} mean {:.2} right {:.2}",
                i as f64 / 10.0,
                c / *n as f64,
                *right as f64 / *n as f64
            );
        }
    }
}
