//! How right the answers are, on data made here whose truth is known.

mod categories;
mod doubtful;
mod gain;
mod issues;
mod jobs;
mod measured;
mod online;
mod paper_study;
mod period;
pub(crate) mod scaling;
mod signature;
mod signature_paper;
mod system;
mod why;
mod why_real;

/// A question whose answers are evaluated: its name, what to run, and what that understands.
type Part = (&'static str, fn(&[String]) -> Result<(), String>, &'static str);

const PARTS: &[Part] = &[
    ("period", period::run, period::HELP),
    ("online", online::run, online::HELP),
    ("categories", categories::run, categories::HELP),
    ("signature", signature::run, signature::HELP),
    ("scaling", scaling::run, scaling::HELP),
    ("system", system::run, system::HELP),
    ("jobs", jobs::run, jobs::HELP),
    ("issues", issues::run, issues::HELP),
    ("gain", gain::run, gain::HELP),
    ("why", why::run, why::HELP),
];

/// Runs `cargo xtask accuracy PART …`; the period, if no part is named.
pub fn run(args: &[String]) -> Result<(), String> {
    let Some((name, rest)) = args.split_first() else { return period::run(&[]) };
    let help = || PARTS.iter().map(|(_, _, help)| *help).collect::<Vec<_>>().join("\n");
    if matches!(name.as_str(), "help" | "-h" | "--help") {
        println!("{}", help());
        return Ok(());
    }
    match PARTS.iter().find(|(part, ..)| part == name) {
        Some((_, run, _)) => run(rest),
        None => Err(format!("no accuracy of {name:?} is known\n{}", help())),
    }
}
