//! `cargo xtask accuracy period`: the table of `docs/methods.md`, and the fit of the weights behind it.

use std::process::Stdio;

use iotide_analysis::{
    EVIDENCE_NAMES, EVIDENCE_WEIGHTS, RunConfig, WeighedRhythm, weigh_exact_rhythms, weigh_rhythms,
};
use iotide_trace::{SampledSignal, Sampling, SamplingKind, automatic_rate_hz, sample};

use super::{doubtful, paper_study};
use crate::answer::{ask, ask_with};
use crate::peer::ftio::{Ftio, Periods};
use crate::score::{Group, least_error, relative_error};
use crate::synthetic::family::{self, Distances};
use crate::synthetic::random::Random;
use crate::synthetic::trace::{Trace, Truth};
use crate::synthetic::workload::{self, Workload};

/// Options of the command line.
struct Options {
    seed: u64,
    repeat: usize,
    /// `None`: the automatic rate.
    rate_hz: Option<f64>,
    fit: bool,
    fit_confidence: bool,
    verbose: bool,
    peer: bool,
    /// The paper's own study.
    paper: bool,
}

/// Runs the command; see `HELP`.
pub fn run(args: &[String]) -> Result<(), String> {
    let mut options = Options {
        seed: 1,
        repeat: 5,
        rate_hz: Some(1.0),
        fit: false,
        fit_confidence: false,
        verbose: false,
        peer: true,
        paper: false,
    };
    if args.iter().any(|arg| arg == "--paper") {
        options.repeat = 100;
    }
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--seed" => options.seed = value()?.parse().map_err(|e| format!("--seed: {e}"))?,
            "--repeat" => options.repeat = value()?.parse().map_err(|e| format!("--repeat: {e}"))?,
            "--rate" => {
                let rate = value()?;
                options.rate_hz = if rate == "auto" {
                    None
                } else {
                    Some(rate.parse().map_err(|e| format!("--rate: {e}"))?)
                };
            }
            "--fit" => options.fit = true,
            "--fit-confidence" => options.fit_confidence = true,
            "--paper" => options.paper = true,
            "--verbose" => options.verbose = true,
            "--no-peer" => options.peer = false,
            other => return Err(format!("{other}?\n{HELP}")),
        }
    }
    if options.paper {
        return paper_study::run(options.seed, options.repeat, options.peer);
    }
    if options.fit {
        fit(&options)
    } else if options.fit_confidence {
        fit_confidence(&options)
    } else {
        evaluate(&options)
    }
    Ok(())
}

/// Usage of `run`.
pub const HELP: &str = "accuracy period [--seed N] [--repeat N] [--rate HZ|auto] [--verbose] [--no-peer]
    how far the period is off on made traces, with FTIO's figures beside ours if ftio-hpc is installed
accuracy period --paper [--seed N] [--repeat N] [--no-peer]
    the study of section III-A of the FTIO paper (Figures 8 and 9) for both methods and FTIO, 100 traces a point
accuracy period --fit [--seed N] [--repeat N]
    fits the weights of crates/analysis/src/rhythm/evidence.rs anew and prints them; --fit-confidence: the factor that turns
    them into probabilities";

fn evaluate(options: &Options) {
    let workloads = suite(options.seed, options.repeat);
    let ours: Vec<Periods> = workloads.iter().map(|workload| ask_iotide(workload, options.rate_hz)).collect();
    let theirs = if options.peer { ask_ftio(&workloads, options.rate_hz.unwrap_or(10.0)) } else { None };
    if options.peer && theirs.is_none() {
        println!("ftio-hpc is not installed (pip install ftio-hpc): its figures are missing below\n");
    }
    if options.verbose {
        for (i, (workload, answer)) in workloads.iter().zip(&ours).enumerate() {
            let missed = workload.periods_s().iter().any(|&truth| !finds(answer, truth, 0.1));
            if error(workload, answer) > 0.05 || (missed && workload.periods_s().len() > 1) {
                println!(
                    "#{i} {}: truth {:.2?}, found {answer:.2?}",
                    workload.trace.family,
                    workload.periods_s()
                );
                print_candidates(workload);
            }
        }
    }
    println!("{:44} {:>6} {:>9} {:>9} {:>9}", "", "traces", "iotide", "FTIO", "goal");
    for row in ROWS {
        let figure = |answers: &[Periods]| row.figure(&workloads, answers);
        let n = workloads
            .iter()
            .filter(|workload| row.families.contains(&workload.trace.family.as_str()))
            .count();
        let peer =
            theirs.as_ref().map_or("–".to_string(), |answers| format!("{:.1} %", 100.0 * figure(answers)));
        println!("{:44} {n:>6} {:>7.2} % {peer:>9} {:>9}", row.what, 100.0 * figure(&ours), row.goal);
    }
    println!("\nof the answers given with a confidence of about …, so many are within 5 %:");
    let given: Vec<(f64, bool)> = workloads
        .iter()
        .zip(&ours)
        .filter_map(|(workload, answer)| {
            let &(period_s, confidence) = answer.first()?;
            Some((confidence, least_error(period_s, workload.periods_s()) < 0.05))
        })
        .collect();
    for range in [0.5..0.7, 0.7..0.85, 0.85..0.95, 0.95..1.01] {
        let Group { n, mean_confidence, share_right } = Group::within(range, &given);
        if n > 0 {
            println!("  {:>4.0} %: {:>4.0} % of {n}", 100.0 * mean_confidence, 100.0 * share_right);
        }
    }
    doubtful::print(options.seed, options.repeat, options.verbose);
}

/// The best right and the best wrong candidate of a trace, with what speaks for each.
fn print_candidates(workload: &Workload) {
    let logit = |rhythm: &WeighedRhythm| {
        rhythm.evidence.iter().zip(EVIDENCE_WEIGHTS).map(|(e, w)| e * w).sum::<f64>()
    };
    let mut rhythms = weigh_exact_rhythms(&workload.trace.writes());
    rhythms.sort_by(|a, b| logit(b).total_cmp(&logit(a)));
    let is_right = |rhythm: &&WeighedRhythm| least_error(rhythm.period_s, workload.periods_s()) < 0.03;
    for (what, best) in
        [("right", rhythms.iter().find(is_right)), ("wrong", rhythms.iter().find(|rhythm| !is_right(rhythm)))]
    {
        if let Some(best) = best {
            println!("    {what} {:.3} s, logit {:.2}: {:.2?}", best.period_s, logit(best), best.evidence);
        }
    }
}

/// A line of the table.
struct Row {
    what: &'static str,
    families: &'static [&'static str],
    measure: Measure,
    goal: &'static str,
}

enum Measure {
    MeanError,
    CalledPeriodic,
    BothFound,
    OneFound,
}

const ROWS: [Row; 12] = [
    Row {
        what: "mean error, the paper's three families",
        families: &[
            "fixed",
            "fixed, low noise",
            "fixed, high noise",
            "desynchronised",
            "varying",
            "varying widely",
        ],
        measure: Measure::MeanError,
        goal: "≤ 3 %",
    },
    Row {
        what: "… compute phases of fixed length, ± noise",
        families: &["fixed", "fixed, low noise", "fixed, high noise"],
        measure: Measure::MeanError,
        goal: "≤ 0.5 %",
    },
    Row {
        what: "… desynchronised ranks (φ = 1…30 s)",
        families: &["desynchronised"],
        measure: Measure::MeanError,
        goal: "≤ 5 %",
    },
    Row {
        what: "… varying compute phases (σ/μ = 0.1…2)",
        families: &["varying", "varying widely"],
        measure: Measure::MeanError,
        goal: "≤ 6 %",
    },
    Row { what: "…… of these, σ/μ < 1", families: &["varying"], measure: Measure::MeanError, goal: "" },
    Row {
        what: "the paper's application at any size",
        families: &["any size"],
        measure: Measure::MeanError,
        goal: "",
    },
    Row {
        what: "phases of other shapes, few phases",
        families: &["odd shapes"],
        measure: Measure::MeanError,
        goal: "",
    },
    Row {
        what: "aperiodic, called periodic",
        families: &["aperiodic"],
        measure: Measure::CalledPeriodic,
        goal: "≤ 5 %",
    },
    Row {
        what: "two interleaved periods, both found",
        families: &["interleaved"],
        measure: Measure::BothFound,
        goal: "≥ 90 %",
    },
    Row {
        what: "… at least one found",
        families: &["interleaved"],
        measure: Measure::OneFound,
        goal: "100 %",
    },
    Row {
        what: "two locked periods, both found",
        families: &["nested"],
        measure: Measure::BothFound,
        goal: "",
    },
    Row { what: "… at least one found", families: &["nested"], measure: Measure::OneFound, goal: "" },
];

impl Row {
    fn figure(&self, workloads: &[Workload], answers: &[Periods]) -> f64 {
        let figures: Vec<f64> = workloads
            .iter()
            .zip(answers)
            .filter(|(workload, _)| self.families.contains(&workload.trace.family.as_str()))
            .map(|(workload, answer)| {
                let found = |truth: &f64| finds(answer, *truth, 0.1);
                match self.measure {
                    Measure::MeanError => error(workload, answer),
                    Measure::CalledPeriodic => f64::from(!answer.is_empty()),
                    Measure::BothFound => f64::from(workload.periods_s().iter().all(found)),
                    Measure::OneFound => f64::from(workload.periods_s().iter().any(found)),
                }
            })
            .collect();
        figures.iter().sum::<f64>() / figures.len().max(1) as f64
    }
}

/// The relative error of the main answer; no answer is an error of 100 %, unless refusing is fair.
fn error(workload: &Workload, answer: &Periods) -> f64 {
    match (answer.first(), workload.periods_s().is_empty()) {
        (Some(_), true) => 1.0,
        (Some(&(period_s, _)), false) => least_error(period_s, workload.periods_s()),
        (None, _) => f64::from(!workload.may_refuse),
    }
}

fn finds(answer: &Periods, truth: f64, tolerance: f64) -> bool {
    answer.iter().any(|(period_s, _)| relative_error(*period_s, truth) < tolerance)
}

/// All traces of one evaluation: the paper's families, aperiodic ones, two rhythms at once, other shapes.
fn suite(seed: u64, repeat: usize) -> Vec<Workload> {
    let mut n = 0;
    let mut random = || {
        n += 1;
        Random::new(seed.wrapping_mul(1_000_003).wrapping_add(n))
    };
    let mut all = Vec::new();
    for _ in 0..repeat {
        for compute_s in [1.0, 2.5, 5.0, 11.0, 22.0, 44.0, 100.0] {
            all.push(workload::phases(&mut random(), "fixed", compute_s, 0.0, 0.0, None));
            all.push(workload::phases(&mut random(), "fixed, low noise", compute_s, 0.0, 0.0, Some(0.5e9)));
            all.push(workload::phases(&mut random(), "fixed, high noise", compute_s, 0.0, 0.0, Some(1e9)));
        }
        for delay_s in [1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0] {
            all.push(workload::phases(&mut random(), "desynchronised", 11.0, 0.0, delay_s, None));
        }
        for ratio in [0.1, 0.25, 0.4, 0.5, 0.75, 0.9, 1.0, 1.5, 2.0] {
            let family = if ratio < 1.0 { "varying" } else { "varying widely" };
            all.push(workload::phases(&mut random(), family, 11.0, 11.0 * ratio, 0.0, None));
        }
        for kind in 0..workload::APERIODIC_KINDS {
            all.push(workload::aperiodic(&mut random(), kind));
        }
        for _ in 0..6 {
            all.push(workload::interleaved(&mut random()));
            all.push(workload::nested(&mut random()));
            all.push(workload::odd_shapes(&mut random()));
            all.push(workload::any_size(&mut random()));
        }
    }
    all
}

fn sampled(workload: &Workload, rate_hz: Option<f64>) -> Option<SampledSignal> {
    let signal = workload.trace.writes();
    let window = signal.span()?;
    let rate_hz = rate_hz.unwrap_or_else(|| automatic_rate_hz(&signal, window));
    sample(&signal, window, Sampling { rate_hz, kind: SamplingKind::Mean }).ok()
}

fn ask_iotide(workload: &Workload, rate_hz: Option<f64>) -> Periods {
    let answer = ask_with(&workload.trace.signals(), &RunConfig { rate_hz, ..RunConfig::default() });
    answer.estimate.rhythms.iter().map(|rhythm| (rhythm.period_s, rhythm.confidence)).collect()
}

/// All signals through one FTIO process; `None` if there is no FTIO.
fn ask_ftio(workloads: &[Workload], rate_hz: f64) -> Option<Vec<Periods>> {
    let mut ftio = Ftio::start(rate_hz, Stdio::inherit())?;
    workloads.iter().map(|workload| ftio.ask(&workload.trace.writes(), false).ok()).collect()
}

/// One choice among rhythms and "none": the evidence of each, which are right, and whether "none" is.
struct Question {
    evidence: Vec<Vec<f64>>,
    right: Vec<bool>,
    none_is_right: bool,
}

/// Fits the weights of the multinomial logit: Adam on the mean log likelihood of the right answers, with a small ridge.
fn fit(options: &Options) {
    let mut questions = Vec::new();
    let mut workloads = suite(options.seed, options.repeat);
    // A few phases that look alike are more often a program's than chance's.
    workloads.extend((0..6 * options.repeat as u64).map(|i| {
        let mut random = Random::new(options.seed.wrapping_mul(3_000_017).wrapping_add(i));
        if i % 3 == 2 { workload::few_at_random(&mut random) } else { workload::few_phases(&mut random) }
    }));
    for (i, workload) in workloads.iter().enumerate() {
        // As traces are, and now and then as samples of a server are.
        let rhythms = if i % 3 == 1 {
            sampled(workload, Some(1.0)).map_or_else(Vec::new, |signal| weigh_rhythms(&signal))
        } else {
            weigh_exact_rhythms(&workload.trace.writes())
        };
        questions.extend(questions_about(workload, &rhythms));
    }
    questions.extend(questions_of_laws(options));
    let n = EVIDENCE_NAMES.len();
    let mut weights = EVIDENCE_WEIGHTS.to_vec();
    let (mut moment, mut square) = (vec![0.0; n], vec![0.0; n]);
    for step in 1..=4000 {
        let (likelihood, gradient) = likelihood(&questions, &weights);
        for i in 0..n {
            let slope = gradient[i] - RIDGE * weights[i];
            moment[i] = 0.9 * moment[i] + 0.1 * slope;
            square[i] = 0.999 * square[i] + 0.001 * slope * slope;
            let (m, s) = (moment[i] / (1.0 - 0.9f64.powi(step)), square[i] / (1.0 - 0.999f64.powi(step)));
            weights[i] += 0.02 * m / (s.sqrt() + 1e-9);
        }
        if step % 1000 == 0 {
            println!("step {step}: mean log likelihood {likelihood:.4} over {} questions", questions.len());
        }
    }
    for (name, weight) in EVIDENCE_NAMES.iter().zip(&weights) {
        println!("    {weight:.3}, // {name}");
    }
}

/// Answers that are wrong for a reason the evidence does not know of.
const ODD_ANSWERS: f64 = 0.005;

/// Says by which factor logits must be multiplied to read as probabilities: the one under which the answers given, and that they
/// were right or wrong, are most probable. (Weights are fitted to tell candidates apart; several candidates tell one answer.)
fn fit_confidence(options: &Options) {
    let mut answers: Vec<(f64, bool)> = Vec::new();
    for workload in suite(options.seed, options.repeat) {
        let answer = ask(&workload.trace);
        if answer.error.is_some() {
            continue;
        }
        let right = match answer.estimate.period_s {
            Some(period_s) => least_error(period_s, workload.periods_s()) < 0.05,
            None => workload.periods_s().is_empty() || workload.may_refuse,
        };
        let confidence = answer.estimate.confidence.clamp(1e-6, 1.0 - 1e-6);
        answers.push(((confidence / (1.0 - confidence)).ln(), right));
    }
    let likelihood = |factor: f64| {
        let ln = |&(logit, right): &(f64, bool)| {
            let logit = factor * if right { logit } else { -logit };
            (ODD_ANSWERS + (1.0 - 2.0 * ODD_ANSWERS) / (1.0 + (-logit).exp())).ln()
        };
        answers.iter().map(ln).sum::<f64>() / answers.len() as f64
    };
    let best = (10..=80)
        .map(|i| f64::from(i) / 20.0)
        .max_by(|a, b| likelihood(*a).total_cmp(&likelihood(*b)))
        .unwrap_or(1.0);
    println!(
        "{} answers: {best:.2} (likelihood {:.4}; as it is {:.4})",
        answers.len(),
        likelihood(best),
        likelihood(1.0)
    );
}

const RIDGE: f64 = 0.0005;

/// Traces of every kind that the laws are tried on, of other seeds: beats missed, pauses, logs beside, sizes in turn, …
fn questions_of_laws(options: &Options) -> Vec<Question> {
    let mut questions = Vec::new();
    for i in 0..70 * options.repeat {
        let mut random = Random::new(options.seed.wrapping_mul(7_000_003).wrapping_add(i as u64));
        // Of every seventy, ten are waits without memory, and more and less even ones; five have a result, small or large.
        let trace = match i % 14 {
            6 | 13 => waits(&mut random),
            5 => family::late_result(&mut random),
            _ => family::any(&mut random, i),
        };
        let trace = match trace.truth {
            Truth::Regular(_) => family::beats_of(trace),
            Truth::Beats(_) | Truth::None => trace,
            Truth::Unknown => continue,
        };
        if trace.family.starts_with("one phase") || trace.family.starts_with("one call") {
            continue;
        }
        let (reads, writes) = trace.signals();
        let signal = if reads.volume_bytes() > writes.volume_bytes() { reads } else { writes };
        let workload = Workload { may_refuse: trace.beats_s().is_empty(), beside_s: None, trace };
        questions.extend(questions_about(&workload, &weigh_exact_rhythms(&signal)));
    }
    questions
}

/// Equal phases after waits that keep no beat, or keep one more or less.
fn waits(random: &mut Random) -> Trace {
    let n = random.log_normal(20.0, 0.7).clamp(8.0, 80.0) as usize;
    match random.whole(0, 4) {
        0 => family::memoryless(random, n, Distances::Exponential),
        1 | 2 => {
            let shape = random.uniform(1.05, 2.0);
            family::memoryless(random, n, Distances::Pareto(shape))
        }
        _ => {
            let cv = random.uniform(0.2, 0.8);
            let trace = family::memoryless(random, n, Distances::Gamma(cv));
            // Half of those with a coefficient of variation of one half are taken to keep a beat.
            let keeps = random.unit() < 1.0 / (1.0 + ((cv - 0.54) / 0.03).exp());
            let truth = if keeps { Truth::Beats(vec![trace.mean_distance_s()]) } else { Truth::None };
            Trace { truth, ..trace }
        }
    }
}

/// Each true rhythm is a question of its own, in which the others are left out.
fn questions_about(workload: &Workload, rhythms: &[WeighedRhythm]) -> Vec<Question> {
    let near = |rhythm: &WeighedRhythm, period_s: f64, tolerance: f64| {
        relative_error(rhythm.period_s, period_s) < tolerance
    };
    (0..workload.periods_s().len().max(1))
        .map(|i| {
            let truth = workload.periods_s().get(i).copied();
            let asked: Vec<&WeighedRhythm> = rhythms
                .iter()
                .filter(|rhythm| workload.beside_s.is_none_or(|period_s| !near(rhythm, period_s, 0.08)))
                .filter(|rhythm| {
                    workload.periods_s().iter().all(|&t| Some(t) == truth || !near(rhythm, t, 0.05))
                })
                .collect();
            let right: Vec<bool> = asked
                .iter()
                .map(|rhythm| truth.is_some_and(|period_s| near(rhythm, period_s, 0.03)))
                .collect();
            Question {
                none_is_right: workload.may_refuse || !right.contains(&true),
                evidence: asked.iter().map(|rhythm| rhythm.evidence.clone()).collect(),
                right,
            }
        })
        .collect()
}

/// The mean log likelihood and its gradient.
fn likelihood(questions: &[Question], weights: &[f64]) -> (f64, Vec<f64>) {
    let mut sum = 0.0;
    let mut gradient = vec![0.0; weights.len()];
    for question in questions {
        let logits: Vec<f64> =
            question.evidence.iter().map(|e| e.iter().zip(weights).map(|(a, b)| a * b).sum()).collect();
        let top = logits.iter().copied().fold(0.0, f64::max);
        let none = (-top).exp();
        let odds: Vec<f64> = logits.iter().map(|logit| (logit - top).exp()).collect();
        let all = none + odds.iter().sum::<f64>();
        let right =
            question.right.iter().zip(&odds).filter(|(right, _)| **right).map(|(_, odds)| odds).sum::<f64>()
                + if question.none_is_right { none } else { 0.0 };
        sum += (right / all).max(1e-300).ln();
        for ((evidence, odds), is_right) in question.evidence.iter().zip(&odds).zip(&question.right) {
            let share = if *is_right { odds / right } else { 0.0 } - odds / all;
            for (slope, e) in gradient.iter_mut().zip(evidence) {
                *slope += share * e / questions.len() as f64;
            }
        }
    }
    (sum / questions.len() as f64, gradient)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The goals of the table on a small suite of its own: a change that breaks the method is seen without a long run.
    #[test]
    fn the_goals_hold_on_traces_nobody_has_seen() {
        let workloads = suite(77, 6);
        let answers: Vec<Periods> =
            workloads.iter().map(|workload| ask_iotide(workload, Some(1.0))).collect();
        let figure = |what: &str| {
            ROWS.iter().find(|row| row.what.starts_with(what)).unwrap().figure(&workloads, &answers)
        };
        assert!(figure("mean error, the paper's three families") <= 0.03);
        assert!(figure("… compute phases of fixed length") <= 0.005);
        assert!(figure("aperiodic, called periodic") <= 0.05);
        assert!(figure("two interleaved periods, both found") >= 0.9);
    }

    #[test]
    fn refusing_is_an_error_unless_it_is_fair() {
        let mut workload = workload::aperiodic(&mut Random::new(1), 4);
        assert_eq!((error(&workload, &vec![]), error(&workload, &vec![(1.0, 0.9)])), (0.0, 1.0));
        (workload.trace.truth, workload.may_refuse) = (Truth::Beats(vec![10.0]), false);
        assert_eq!(error(&workload, &vec![]), 1.0);
        assert!((error(&workload, &vec![(11.0, 0.9)]) - 0.1).abs() < 1e-12);
    }
}
