//! Evaluation of iotide: synthetic traces, laws, accuracy, benches, and experiments on real systems. `cargo xtask <chore>` runs it.
#![allow(clippy::print_stdout, clippy::print_stderr)] // chores talk to the developer

use std::process::ExitCode;

use crate::chores::repository;

mod accuracy;
mod answer;
mod bench;
mod chores;
mod closed_loop;
mod coverage;
mod gekkofs;
mod hostile;
mod iosets;
mod laws;
mod parallel;
mod peer;
mod pictures;
mod product;
mod readers;
mod score;
mod staging;
mod synthetic;

/// Function that runs a chore: it gets the rest of the command line.
type Run = fn(&[String]) -> Result<Outcome, String>;

/// Returns what runs a chore. To add a chore: one module, one line here, one in [`chores::CHORES`].
fn run_of(chore: &str) -> Run {
    match chore {
        "bench" => bench::run,
        "inflate" => bench::darshan::inflate,
        "iosets" => iosets::run,
        "pictures" => pictures::run,
        "staging" => staging::run,
        "loop" => closed_loop::run,
        "coverage" => coverage::run,
        "gekkofs" => gekkofs::run,
        "hostile" => hostile::run,
        "soak" => bench::soak::run,
        #[cfg(feature = "daemon")]
        "leaves" => bench::tree::leaves,
        #[cfg(not(feature = "daemon"))]
        "leaves" => |_| Err("built without the feature `daemon`".to_owned()),
        "accuracy" => accuracy,
        "large-log" => readers::large::log,
        "large-archive" => readers::large::archive,
        "round-trip" => readers::round_trip::run,
        "laws" => laws::run,
        other => panic!("{other} is listed and has no line here"),
    }
}

/// How a chore that ran to its end turned out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// All is as it should be.
    Good,
    /// Something was found wanting, and said.
    Wanting,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let name = args.first().map_or("", String::as_str);
    if !chores::is_listed(name) {
        // `cargo xtask` inside of this folder: the other chores, and the list of all.
        eprintln!("lab: {}", chores::hand_over("xtask", &args));
        return ExitCode::from(2);
    }
    match run_of(name)(&args[1..]) {
        Ok(Outcome::Good) => ExitCode::SUCCESS,
        Ok(Outcome::Wanting) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask {name}: {error}");
            ExitCode::from(2)
        }
    }
}

fn accuracy(args: &[String]) -> Result<Outcome, String> {
    accuracy::run(args).map(|()| Outcome::Good)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chore_that_is_listed_can_be_run() {
        for (chore, _) in chores::CHORES {
            run_of(chore);
        }
    }
}
