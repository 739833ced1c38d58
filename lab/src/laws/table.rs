//! All laws tried, as a table.

use super::law::{GAMMA_CVS, LAWS, Law, Tried, gamma_is_periodic};
use super::{Options, real};
use crate::Outcome;
use crate::parallel;
use crate::synthetic::random::Random;

/// Tries the laws and prints how many hold.
pub fn run(options: &Options) -> Outcome {
    let wanted = |number: &str| options.only.is_empty() || options.only.iter().any(|only| only == number);
    println!("{:<7} {:<44} {:>7} {:>7} {:>9} {:>9}", "law", "", "tried", "hold", "", "required");
    let mut failures = Vec::new();
    let mut good = true;
    for law in LAWS.iter().filter(|law| wanted(law.number)) {
        let cases = try_all(law, options);
        for &(part, required) in law.parts {
            good &= print_row(law.number, part, required, &cases, &mut failures);
        }
    }
    let gamma = if wanted("gamma") && options.case.is_none() { gamma(options) } else { Vec::new() };
    if !gamma.is_empty() {
        for (name, n_tried, n_hold, required) in gamma_rows(&gamma) {
            good &= print_counts("10", name, n_tried, n_hold, required);
        }
    }
    if options.real && wanted("real") && options.case.is_none() {
        good &= real_rows(options.all_real, &mut failures);
    }
    if !gamma.is_empty() {
        println!("\nGamma distances, 40 phases, called periodic at a coefficient of variation of");
        for (cv, n, n_periodic) in &gamma {
            println!("  {cv:>5.2}: {:>5.1} % of {n}", 100.0 * *n_periodic as f64 / *n as f64);
        }
    }
    for failure in &failures {
        for (case, why) in failure.cases.iter().take(options.show) {
            println!("\nlaw {} ({}), case {case}: {why}", failure.number, failure.part);
            if let Ok(case) = case.parse::<usize>() {
                println!(
                    "      again: cargo xtask laws --seed {} --only {} --case {case} --show",
                    options.seed, failure.number
                );
            }
        }
    }
    if good { Outcome::Good } else { Outcome::Wanting }
}

/// Cases in which a part of a law did not hold.
struct Failures {
    number: &'static str,
    part: &'static str,
    /// Name of the case, and why.
    cases: Vec<(String, String)>,
}

/// All cases of a law, by number.
fn try_all(law: &Law, options: &Options) -> Vec<(String, Vec<Tried>)> {
    let try_case = |i: usize| {
        // Each case has a seed of its own, so that it can be made again alone.
        let key = law.number.bytes().fold(options.seed, |key, byte| key.wrapping_mul(257) + u64::from(byte));
        (law.try_case)(&mut Random::new(key.wrapping_mul(1_000_003).wrapping_add(i as u64)), i)
    };
    match options.case {
        Some(i) => vec![(i.to_string(), try_case(i))],
        None => {
            let n = (law.n_cases)(options.n_traces);
            parallel::map(n, try_case)
                .into_iter()
                .enumerate()
                .map(|(i, tried)| (i.to_string(), tried))
                .collect()
        }
    }
}

fn print_row(
    number: &'static str,
    part: &'static str,
    required: f64,
    cases: &[(String, Vec<Tried>)],
    failures: &mut Vec<Failures>,
) -> bool {
    let tried = || {
        cases.iter().flat_map(|(case, tried)| {
            tried.iter().filter(|tried| tried.part == part).map(move |tried| (case, &tried.result))
        })
    };
    let failed: Vec<(String, String)> = tried()
        .filter_map(|(case, result)| result.as_ref().err().map(|why| (case.clone(), why.clone())))
        .collect();
    let n_tried = tried().count();
    let n_hold = n_tried - failed.len();
    if !failed.is_empty() {
        failures.push(Failures { number, part, cases: failed });
    }
    print_counts(number, part, n_tried, n_hold, required)
}

fn print_counts(number: &str, part: &str, n_tried: usize, n_hold: usize, required: f64) -> bool {
    if n_tried == 0 {
        return true;
    }
    let share = n_hold as f64 / n_tried as f64;
    let good = share >= required;
    let required =
        if required == 1.0 { "100 %".to_owned() } else { format!("≥ {:.0} %", 100.0 * required) };
    // 99.96 % is not 100 %: cut, not rounded.
    let percent = (1000.0 * share).floor() / 10.0;
    let mark = if good { "" } else { "  ✗" };
    println!("{number:<7} {part:<44} {n_tried:>7} {n_hold:>7} {percent:>7.1} % {required:>9}{mark}");
    good
}

/// For each variation: how many runs, and how many of them are called periodic.
fn gamma(options: &Options) -> Vec<(f64, usize, usize)> {
    let n = options.n_traces.div_ceil(3).max(20);
    GAMMA_CVS
        .iter()
        .map(|&cv| {
            // The same numbers for each variation: the shares then differ by the variation alone.
            let periodic = parallel::map(n, |i| {
                gamma_is_periodic(
                    &mut Random::new(options.seed.wrapping_mul(77_003).wrapping_add(i as u64)),
                    cv,
                )
            });
            (cv, n, periodic.into_iter().filter(|is_periodic| *is_periodic).count())
        })
        .collect()
}

/// Returns the rows of the checks on the shares: they fall as the variation grows, are about one half at 0.5, and all or none at the ends.
fn gamma_rows(gamma: &[(f64, usize, usize)]) -> Vec<(&'static str, usize, usize, f64)> {
    let share = |(_, n, n_periodic): &(f64, usize, usize)| *n_periodic as f64 / *n as f64;
    let falls = gamma.windows(2).filter(|pair| {
        let noise = (share(&pair[0]) * (1.0 - share(&pair[0])) / pair[0].1 as f64).sqrt();
        share(&pair[1]) <= share(&pair[0]) + 0.01 + noise
    });
    let half = gamma.iter().find(|row| row.0 == 0.5).is_some_and(|row| (0.35..=0.65).contains(&share(row)));
    let ends = [
        gamma.first().is_some_and(|row| share(row) >= 0.98),
        gamma.last().is_some_and(|row| share(row) <= 0.05),
    ];
    vec![
        ("Gamma: the share called periodic falls", gamma.len() - 1, falls.count(), 1.0),
        ("Gamma: about one half at CV 0.5", 1, usize::from(half), 1.0),
        ("Gamma: all at CV 0.1, hardly any at 1", 2, ends.iter().filter(|good| **good).count(), 1.0),
    ]
}

/// The laws of invariance on the traces that are there.
fn real_rows(all: bool, failures: &mut Vec<Failures>) -> bool {
    let files = real::files(all);
    if files.is_empty() {
        println!("real    no traces in ../shared/data");
        return true;
    }
    let cases: Vec<(String, Vec<Tried>)> = parallel::map(files.len(), |i| real::try_file(&files[i]))
        .into_iter()
        .zip(&files)
        .filter_map(|(tried, file)| Some((real::name(file), tried?)))
        .collect();
    println!(
        "real    {} of {} files of ../shared/data that were tried hold bytes and times",
        cases.len(),
        files.len()
    );
    let mut good = true;
    for law in LAWS.iter().filter(|law| ["1", "2", "9", "12", "engine"].contains(&law.number)) {
        for &(part, required) in law.parts {
            let number = match law.number {
                "1" => "1 real",
                "2" => "2 real",
                "9" => "9 real",
                "12" => "12 real",
                _ => "e. real",
            };
            good &= print_row(number, part, required, &cases, failures);
        }
    }
    good
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_good_only_if_it_reaches_what_is_required() {
        assert!(print_counts("0", "all", 10, 10, 1.0));
        assert!(!print_counts("0", "one short", 10_000, 9999, 1.0));
        assert!(print_counts("0", "mostly", 100, 99, 0.99));
        assert!(!print_counts("0", "not mostly", 100, 98, 0.99));
    }

    #[test]
    fn a_share_that_rises_with_the_variation_is_seen() {
        let falling = [(0.1, 100, 100), (0.5, 100, 50), (1.0, 100, 0)];
        assert!(gamma_rows(&falling).iter().all(|row| row.1 == row.2));
        let rising = [(0.1, 100, 50), (0.5, 100, 90), (1.0, 100, 100)];
        let rows = gamma_rows(&rising);
        assert_eq!(rows.iter().map(|row| row.2).collect::<Vec<_>>(), [0, 0, 0]);
    }
}
