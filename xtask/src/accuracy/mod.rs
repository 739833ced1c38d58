//! How right the answers are, on data made here whose truth is known.

mod period;
pub(crate) mod random;
pub(crate) mod scaling;
pub(crate) mod server_log;
mod signature;
mod workload;

/// Runs `cargo xtask accuracy PART …`.
pub fn run(args: &[String]) -> Result<(), String> {
    match args.split_first() {
        Some((part, rest)) if part == "period" => period::run(rest),
        Some((part, rest)) if part == "scaling" => scaling::run(rest),
        Some((part, rest)) if part == "signature" => signature::run(rest),
        None => period::run(&[]),
        Some((part, _)) => Err(format!("no accuracy of {part:?} is known\n{HELP}\n{}", signature::HELP)),
    }
}

/// What `run` understands.
pub const HELP: &str = period::HELP;
