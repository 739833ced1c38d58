//! `cargo xtask accuracy why`: the table of `docs/why.md`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use iotide_analysis::{Change, Clue, RunFacts, Why, WhyVerdict, why};

use crate::product;
use crate::synthetic::slow_run::{Case, KINDS, make};

/// Arguments of `run`.
pub const HELP: &str = "accuracy why [--seed N] [--repeat N] [--kind NAME] [--verbose]
    how often the cause of a slow run is told right, on made runs and server logs
accuracy why --real [--quiet N] [--program FILE]
    the same on 40 real runs of five applications behind `iotide mount`, each application after N (10) quiet ones: 12 minutes";

/// Runs the command; see `HELP`.
pub fn run(args: &[String]) -> Result<(), String> {
    let (mut seed, mut repeat, mut verbose, mut kind) = (1_u64, 20_u64, false, None);
    let (mut is_real, mut n_quiet, mut program) = (false, 10, None);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--real" => is_real = true,
            "--quiet" => n_quiet = value()?.parse().map_err(|e| format!("--quiet: {e}"))?,
            "--program" => program = Some(PathBuf::from(value()?)),
            "--seed" => seed = value()?.parse().map_err(|e| format!("--seed: {e}"))?,
            "--repeat" => repeat = value()?.parse().map_err(|e| format!("--repeat: {e}"))?,
            "--kind" => kind = Some(value()?.clone()),
            "--verbose" => verbose = true,
            other => return Err(format!("{other}?\n{HELP}")),
        }
    }
    if is_real {
        let program = program.map_or_else(product::build, Ok)?;
        return super::why_real::run(&program, n_quiet);
    }
    let mut score = Score::default();
    for &(name, accept) in KINDS.iter().filter(|(name, _)| kind.as_deref().is_none_or(|kind| kind == *name)) {
        let mut of_kind: BTreeMap<&str, u64> = BTreeMap::new();
        for i in 0..repeat {
            let case = make(name, accept, seed.wrapping_mul(1_000_003).wrapping_add(i));
            let answer = ask(&case);
            *of_kind.entry(answer.verdict.name()).or_default() += 1;
            if verbose && !accept.contains(&answer.verdict.name()) {
                println!(
                    "{name} {i}: {:?} {:?} truth {:.3} {:.2?} {:?}",
                    answer.verdict, answer.slowdown, case.factor, case.causes, answer.clues
                );
            }
            score.add(&case, &answer);
        }
        let verdicts: Vec<String> = of_kind.iter().map(|(verdict, n)| format!("{verdict} {n}")).collect();
        println!("{name:24} wanted {:20} got {}", accept.join(", "), verdicts.join(", "));
    }
    score.print();
    Ok(())
}

fn ask(case: &Case) -> Why {
    let grid = case.load.as_ref().map(|load| load.grid);
    let history: Vec<RunFacts> = case.history.iter().map(|run| RunFacts::of(run.clone(), grid)).collect();
    why(&RunFacts::of(case.run.clone(), grid), &history, case.load.as_ref())
}

/// Sums over all cases.
#[derive(Default)]
struct Score {
    n: u64,
    accepted: u64,
    n_sure: u64,
    right: u64,
    contradictions: u64,
    factor_errors: Vec<f64>,
    n_held: u64,
    part_errors: Vec<f64>,
    n_changed: u64,
    n_named: u64,
}

impl Score {
    fn add(&mut self, case: &Case, answer: &Why) {
        let verdict = answer.verdict.name();
        let is_right = case.accept.contains(&verdict);
        self.n += 1;
        self.accepted += u64::from(is_right);
        if case.accept.len() == 1 {
            self.n_sure += 1;
            self.right += u64::from(is_right);
        }
        self.contradictions += u64::from(contradicts(case, answer.verdict));
        if let Some(slowdown) = answer.slowdown {
            self.factor_errors.push((slowdown.factor / case.factor).ln().abs());
            self.n_held += u64::from((slowdown.interval[0]..=slowdown.interval[1]).contains(&case.factor));
        }
        let sum: f64 = case.causes.iter().map(|cause| cause.max(0.0)).sum();
        let parts = [answer.parts.own, answer.parts.others, answer.parts.storage];
        for (part, cause) in parts.iter().zip(case.causes) {
            if let Some(part) = part {
                self.part_errors.push((part - cause.max(0.0) / sum).abs());
            }
        }
        if let (Some(changed), "own") = (case.changed, verdict) {
            self.n_changed += 1;
            let named = answer
                .clues
                .iter()
                .any(|clue| matches!(clue, Clue::Changed { what, .. } if change_name(*what) == changed));
            self.n_named += u64::from(named);
        }
    }

    fn print(mut self) {
        let share = |n: u64, of: u64| format!("{:.1} %", 100.0 * n as f64 / of.max(1) as f64);
        println!("\n{} cases, {} with one right verdict", self.n, self.n_sure);
        println!("right, of these           {}", share(self.right, self.n_sure));
        println!("accepted, of all          {}", share(self.accepted, self.n));
        println!(
            "contradictions            {} ({})",
            self.contradictions,
            share(self.contradictions, self.n)
        );
        let n_factors = self.factor_errors.len() as u64;
        println!("factor, median / 90 %     {}", quantiles(&mut self.factor_errors));
        println!("interval holds            {}", share(self.n_held, n_factors));
        println!("parts, median / 90 %      {}", quantiles(&mut self.part_errors));
        println!("change named              {}", share(self.n_named, self.n_changed));
    }
}

fn quantiles(errors: &mut [f64]) -> String {
    errors.sort_by(f64::total_cmp);
    let at = |q: f64| errors.get((q * errors.len() as f64) as usize).copied().unwrap_or(f64::NAN);
    format!("{:.3} / {:.3}", at(0.5), at(0.9))
}

/// Slow called usual or the reverse, a cause with less than a fifth of the blame, a cause where nothing tells.
fn contradicts(case: &Case, verdict: WhyVerdict) -> bool {
    let sum: f64 = case.causes.iter().map(|cause| cause.max(0.0)).sum();
    let blame = |i: usize| case.causes[i].max(0.0) / sum.max(1e-9);
    match verdict {
        WhyVerdict::Unknown => false,
        WhyVerdict::Usual => case.factor > 1.4,
        _ if case.factor < 1.05 || case.accept == ["unknown"] => true,
        WhyVerdict::Own => blame(0) < 0.2,
        WhyVerdict::Others => blame(1) < 0.2,
        WhyVerdict::Storage => blame(2) < 0.2,
        WhyVerdict::Mixed => false,
    }
}

fn change_name(change: Change) -> &'static str {
    match change {
        Change::Bytes => "bytes",
        Change::RequestSize => "request_size",
        Change::Opens => "opens",
        Change::Sync => "sync",
        Change::Ranks => "ranks",
    }
}
