//! Accuracy and confidence for runs that easily get too high a confidence: the second table of `cargo xtask accuracy period`.

use iotide_analysis::{RunConfig, StatedRun};
use iotide_trace::StepSignal;

use crate::answer::ask_with;
use crate::score::relative_error;
use crate::synthetic::doubtful::{Doubtful, FAMILIES};
use crate::synthetic::random::Random;

/// Runs of each family for one repetition of the first table.
const PER_REPEAT: usize = 8;
/// A period that is further from the true one is wrong. (The mean of twenty uneven distances is no closer to that of the process.)
const TOLERANCE: f64 = 0.06;
/// A wrong answer with this confidence misleads whoever acts on it.
const SURE: f64 = 0.95;

/// Prints the table; with `verbose` also the answers that are wrong.
pub fn print(seed: u64, repeat: usize, verbose: bool) {
    println!(
        "\n{:48} {:>5} {:>7} {:>8} {:>7} {:>11} {:>11}",
        "", "runs", "right", "refused", "wrong", "sure, wrong", "confidence"
    );
    for (family, (name, make)) in FAMILIES.iter().enumerate() {
        let mut counts = Counts::default();
        for i in 0..PER_REPEAT * repeat {
            let seed = seed.wrapping_mul(9_000_011).wrapping_add((family * 100_003 + i) as u64);
            let run = make(&mut Random::new(seed));
            let wrong = counts.add(&run);
            if let Some(wrong) = wrong.filter(|_| verbose) {
                println!("  #{i} {name}: {wrong}");
            }
        }
        let percent = |n: usize| 100.0 * n as f64 / counts.n as f64;
        println!(
            "{name:48} {:>5} {:>5.1} % {:>6.1} % {:>5.1} % {:>9.1} % {:>11.2}",
            counts.n,
            percent(counts.right),
            percent(counts.refused),
            percent(counts.wrong),
            percent(counts.sure_and_wrong),
            counts.confidence / (counts.n_stated as f64).max(1.0),
        );
    }
}

#[derive(Default)]
struct Counts {
    n: usize,
    right: usize,
    refused: usize,
    wrong: usize,
    sure_and_wrong: usize,
    n_stated: usize,
    /// The sum of those of all periods stated.
    confidence: f64,
}

impl Counts {
    /// Adds the answer about a run, and returns it if it is wrong.
    fn add(&mut self, run: &Doubtful) -> Option<String> {
        let stated = StatedRun { bin_s: run.bin_s, ..StatedRun::default() };
        let config = RunConfig { stated, ..RunConfig::default() };
        let answer = ask_with(&(StepSignal::default(), run.writes.clone()), &config);
        self.n += 1;
        let Some(period_s) = answer.estimate.period_s else {
            // Without phases, "not periodic" and "unclear" are right alike.
            if run.period_s.is_none() {
                self.right += 1
            } else {
                self.refused += 1
            }
            return None;
        };
        self.n_stated += 1;
        self.confidence += answer.estimate.confidence;
        if run.period_s.is_some_and(|truth_s| relative_error(period_s, truth_s) <= TOLERANCE) {
            self.right += 1;
            return None;
        }
        self.wrong += 1;
        self.sure_and_wrong += usize::from(answer.estimate.confidence >= SURE);
        Some(format!("true {:.4?}: {}", run.period_s, answer.describe()))
    }
}
