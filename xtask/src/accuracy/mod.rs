//! How right the answers are, on data made here whose truth is known.

mod online;
mod period;
mod random;
pub(crate) mod scaling;
mod workload;

/// Runs `cargo xtask accuracy PART …`.
pub fn run(args: &[String]) -> Result<(), String> {
    match args.split_first() {
        Some((part, rest)) if part == "period" => period::run(rest),
        Some((part, rest)) if part == "online" => online::run(rest),
        Some((part, rest)) if part == "scaling" => scaling::run(rest),
        None => period::run(&[]),
        Some((part, _)) => Err(format!("no accuracy of {part:?} is known\n{HELP}")),
    }
}

/// What `run` understands.
pub const HELP: &str = period::HELP;
