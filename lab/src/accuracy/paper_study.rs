//! `cargo xtask accuracy period --paper`: the study of section III-A of the FTIO paper (its Figures 8 and 9), for `--method dft`, `--method auto`
//! and FTIO itself, with what the paper's text says beside it.
//!
//! The paper puts traced IOR phases together; ours are made after its description of them (see `workload`). Each point has 100 traces of 20
//! iterations, sampled at 1 Hz, and Δt from the start of the run to its end, for the two methods of the spectrum alike.

use std::process::Stdio;

use iotide_analysis::{Method, PeriodConfig, RunConfig, analyse_run, score};
use iotide_num::{mean, quantile};
use iotide_trace::{Direction, Sampling, SamplingKind, Span, StepSignal, Timestamp, sample};

use crate::peer::ftio::Ftio;
use crate::score::relative_error;
use crate::synthetic::random::Random;
use crate::synthetic::workload::{self, Workload};

/// One setting of the study.
struct Point {
    figure: &'static str,
    name: String,
    compute_s: f64,
    compute_std_s: f64,
    delay_s: f64,
    noise_bps: Option<f64>,
    /// Result by the paper's text; its figures show more, but only as pictures.
    paper: &'static str,
}

fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for (figure, noise_bps) in [("8a", None), ("8a, low noise", Some(0.5e9)), ("8a, high noise", Some(1e9))] {
        for compute_s in [1.0, 5.5, 11.0, 22.0, 44.0, 88.0] {
            let name = format!("t_cpu = {compute_s} s");
            let paper = "error < 1 %";
            points.push(Point {
                figure,
                name,
                compute_s,
                compute_std_s: 0.0,
                delay_s: 0.0,
                noise_bps,
                paper,
            });
        }
    }
    for delay_s in [1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0] {
        points.push(Point {
            figure: "8b",
            name: format!("φ = {delay_s} s"),
            compute_s: 11.0,
            compute_std_s: 0.0,
            delay_s,
            noise_bps: None,
            paper: "mean ≤ 11 %, median ≤ 11 %, Q3 ≤ 17 %",
        });
    }
    for ratio in [0.0, 0.1, 0.25, 0.5, 0.55, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0] {
        points.push(Point {
            figure: "8c, 9",
            name: format!("σ/μ = {ratio}"),
            compute_s: 11.0,
            compute_std_s: 11.0 * ratio,
            delay_s: 0.0,
            noise_bps: None,
            paper: match ratio {
                0.0 => "median < 5.5 %; periodicity 0.98",
                r if r <= 0.5 => "median < 5.5 %; confidence 0.96",
                0.55 => "median < 33 %; periodicity 0.67",
                2.0 => "median < 33 %; confidence 0.63, periodicity 0.57",
                _ => "median < 33 %",
            },
        });
    }
    points
}

/// Results of one of the three methods on one trace.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    /// `|T − T̄|/T̄`; `None` without an answer.
    error: Option<f64>,
    confidence: Option<f64>,
    sigma_vol: Option<f64>,
    sigma_time: Option<f64>,
    periodicity: Option<f64>,
    /// By how much the share of the time in I/O is wrong.
    ratio_error: Option<f64>,
}

/// Runs the study and prints it as a table of Markdown.
pub fn run(seed: u64, repeat: usize, with_peer: bool) -> Result<(), String> {
    let mut ftio = if with_peer { Ftio::start(RATE_HZ, Stdio::null()) } else { None };
    if with_peer && ftio.is_none() {
        println!("ftio-hpc is not installed (pip install ftio-hpc): its rows are missing below\n");
    }
    println!(
        "{repeat} traces a point, seed {seed}; quartiles as Q1 median Q3; errors over the traces with an answer\n"
    );
    println!(
        "| figure | point | by | error | mean | no answer | confidence | σ_vol | σ_time | periodicity | R_IO off | the paper's text |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    let mut n = 0;
    let mut varying: [Vec<(f64, Said)>; 3] = Default::default();
    for point in points() {
        let mut said: [Vec<Said>; 3] = Default::default();
        for _ in 0..repeat {
            n += 1;
            let mut random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(0x9000_0000 + n));
            let Point { compute_s, compute_std_s, delay_s, noise_bps, .. } = point;
            let made = workload::phases(&mut random, "paper", compute_s, compute_std_s, delay_s, noise_bps);
            let signal = made.trace.writes();
            // Out of step, or with noise, it is no longer plain which time is the phases'.
            let knows_ratio = noise_bps.is_none() && delay_s == 0.0;
            said[0].push(ask_iotide(&made, &signal, Method::Dft, knows_ratio));
            said[1].push(ask_iotide(&made, &signal, Method::Auto, false));
            if let Some(ftio) = &mut ftio {
                said[2].push(ask_ftio(ftio, &made, &signal)?);
            }
        }
        for (by, said) in ["dft", "auto", "FTIO"].iter().zip(&said).filter(|(_, said)| !said.is_empty()) {
            let paper = if *by == "auto" { "" } else { point.paper };
            println!("| {} | {} | {by} | {} | {paper} |", point.figure, point.name, told(said));
        }
        if point.figure.starts_with("8c") {
            let ratio = point.compute_std_s / point.compute_s;
            for (all, said) in varying.iter_mut().zip(&said) {
                all.extend(said.iter().map(|said| (ratio, *said)));
            }
        }
    }
    println!(
        "\n| 8c, of the answers | by | median confidence | confidence < 60 % | error > 200 % | the paper's text |"
    );
    println!("|---|---|---|---|---|---|");
    for (name, ratios, paper) in [
        ("σ/μ < 0.55", 0.0..0.55, "median confidence 0.96"),
        ("0.5 ≤ σ/μ < 1", 0.5..1.0, "16 % below 60 %"),
        ("1 ≤ σ/μ < 2", 1.0..2.0, "27 % below 60 % (all σ/μ ≥ 1); 0.4 % off by more than 200 %"),
        ("σ/μ ≥ 2", 2.0..f64::INFINITY, "median confidence 0.63; 1.9 % off by more than 200 %"),
    ] {
        for (by, all) in ["dft", "auto", "FTIO"].iter().zip(&varying).filter(|(_, all)| !all.is_empty()) {
            let of_range: Vec<&Said> =
                all.iter().filter(|(ratio, _)| ratios.contains(ratio)).map(|(_, said)| said).collect();
            let paper = if *by == "auto" { "" } else { paper };
            println!("| {name} | {by} | {} | {paper} |", confidence_told(&of_range));
        }
    }
    Ok(())
}

/// Shares are of the traces with an answer.
fn confidence_told(said: &[&Said]) -> String {
    let confidences: Vec<f64> = said.iter().filter_map(|said| said.confidence).collect();
    let n = confidences.len().max(1) as f64;
    let low = confidences.iter().filter(|confidence| **confidence < 0.6).count() as f64 / n;
    let far = said.iter().filter(|said| said.error.is_some_and(|error| error > 2.0)).count() as f64 / n;
    let median = quantile(&confidences, 0.5).map_or("–".to_owned(), |x| format!("{x:.2}"));
    format!("{median} | {:.0} % | {:.1} %", 100.0 * low, 100.0 * far)
}

fn told(said: &[Said]) -> String {
    let numbers = |of: fn(&Said) -> Option<f64>| -> Vec<f64> { said.iter().filter_map(of).collect() };
    let quartiles = |values: &[f64], factor: f64, digits: usize| {
        let at = |share| quantile(values, share).map(|x| format!("{:.digits$}", factor * x));
        match (at(0.25), at(0.5), at(0.75)) {
            (Some(low), Some(mid), Some(high)) => format!("{low} **{mid}** {high}"),
            _ => "–".to_owned(),
        }
    };
    let median = |values: Vec<f64>, digits: usize| {
        quantile(&values, 0.5).map_or("–".to_owned(), |x| format!("{x:.digits$}"))
    };
    let errors = numbers(|said| said.error);
    let no_answer = 1.0 - errors.len() as f64 / said.len() as f64;
    let mean = if errors.is_empty() { "–".to_owned() } else { format!("{:.1} %", 100.0 * mean(&errors)) };
    let off = numbers(|said| said.ratio_error);
    let worst = off.iter().copied().fold(0.0, f64::max);
    let off = if off.is_empty() { "–".to_owned() } else { format!("≤ {:.1} %", 100.0 * worst) };
    format!(
        "{} % | {mean} | {:.0} % | {} | {} | {} | {} | {off}",
        quartiles(&errors, 100.0, 1),
        100.0 * no_answer,
        quartiles(&numbers(|said| said.confidence), 1.0, 2),
        median(numbers(|said| said.sigma_vol), 2),
        median(numbers(|said| said.sigma_time), 2),
        median(numbers(|said| said.periodicity), 2),
    )
}

fn at(secs: f64) -> Timestamp {
    Timestamp::from_secs_since_start(secs).expect("made times are finite")
}

fn ask_iotide(made: &Workload, signal: &StepSignal, method: Method, knows_ratio: bool) -> Said {
    let config = RunConfig {
        period: PeriodConfig { method, ..PeriodConfig::default() },
        direction: Some(Direction::Write),
        rate_hz: Some(RATE_HZ),
        sampling: if method == Method::Dft { SamplingKind::Hold } else { SamplingKind::Mean },
        from_s: Some(0.0),
        ..RunConfig::default()
    };
    let Ok(run) = analyse_run(&StepSignal::default(), signal, &config) else { return Said::default() };
    let ratio = run.scores.io_time_ratio.filter(|_| knows_ratio);
    let true_ratio = busy_s(signal) / run.window.duration_s();
    Said {
        error: run.estimate.period_s.map(|period_s| relative_error(period_s, made.periods_s()[0])),
        confidence: run.estimate.period_s.map(|_| run.estimate.confidence),
        sigma_vol: run.scores.sigma_vol,
        sigma_time: run.scores.sigma_time,
        periodicity: run.scores.periodicity,
        ratio_error: ratio.map(|ratio| relative_error(ratio, true_ratio)),
    }
}

/// The paper's sampling frequency in this study.
const RATE_HZ: f64 = 1.0;

/// How long anything is written.
fn busy_s(signal: &StepSignal) -> f64 {
    signal.pieces().filter(|piece| piece.2 > 0.0).map(|(start, end, _)| end.secs_since(start)).sum()
}

/// FTIO has no scores: they are ours of its period, on the samples it has seen.
fn ask_ftio(ftio: &mut Ftio, made: &Workload, signal: &StepSignal) -> Result<Said, String> {
    let answer = ftio.ask(signal, true)?;
    let Some(&(period_s, confidence)) = answer.first() else { return Ok(Said::default()) };
    let end = signal.span().map_or(at(0.0), |span| span.end);
    let sampling = Sampling { rate_hz: RATE_HZ, kind: SamplingKind::Hold };
    let scores = sample(signal, Span { start: at(0.0), end }, sampling)
        .map(|samples| score(&samples, Some(period_s)))
        .unwrap_or_default();
    Ok(Said {
        error: Some(relative_error(period_s, made.periods_s()[0])),
        confidence: Some(confidence),
        sigma_vol: scores.sigma_vol,
        sigma_time: scores.sigma_time,
        periodicity: scores.periodicity,
        ratio_error: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_of_the_paper_s_study_is_as_exact_as_the_paper_says() {
        let errors: Vec<f64> = (0..5)
            .filter_map(|i| {
                let made = workload::phases(&mut Random::new(900 + i), "paper", 11.0, 0.0, 0.0, None);
                ask_iotide(&made, &made.trace.writes(), Method::Dft, true).error
            })
            .collect();
        assert_eq!(errors.len(), 5);
        // The paper's own figure is 1 %; the grid of 1/Δt alone allows half a bin in twenty.
        assert!(errors.iter().all(|&error| error < 0.03), "{errors:?}");
    }
}
