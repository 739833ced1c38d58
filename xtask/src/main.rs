//! Chores of the repository, in Rust so that they run wherever the product builds: `cargo xtask <chore>`.
#![allow(clippy::print_stdout, clippy::print_stderr)] // chores talk to the developer

use std::path::Path;
use std::process::ExitCode;

mod accuracy;
mod bench;
mod closed_loop;
mod coverage;
mod gekkofs;
mod hostile;
mod iosets;
mod laws;
mod peer;
mod product;
mod readers;
mod staging;
mod tidy;

/// A chore: its name, what it is for, and the function that gets the rest of the command line.
struct Chore {
    name: &'static str,
    help: &'static str,
    run: fn(&[String]) -> Result<Outcome, String>,
}

/// To add a chore: one module, one line here.
const CHORES: &[Chore] = &[
    Chore {
        name: "tidy",
        help: "check the rules of the house: arrows between crates, invariants, docs",
        run: tidy::run,
    },
    Chore {
        name: "bench",
        help: "measure iotide and ftio-hpc side by side; `bench NAME…` picks some",
        run: bench::run,
    },
    Chore {
        name: "inflate",
        help: "unpack regions of a Darshan log and throw them away: the floor `bench darshan` measures by",
        run: bench::darshan::inflate,
    },
    Chore {
        name: "iosets",
        help: "the experiment of the IO-Sets report on this machine: sixteen jobs through `iotide mount`",
        run: iosets::run,
    },
    Chore {
        name: "staging",
        help: "what each policy of `iotide stage out` costs a job with a known rhythm, and how soon its results are safe",
        run: staging::run,
    },
    Chore {
        name: "loop",
        help: "what a daemon that acts costs jobs when it, its periods, the storage, the arbiter or Slurm fails",
        run: closed_loop::run,
    },
    Chore {
        name: "coverage",
        help: "what the tracer sees of real programs, beside what strace does",
        run: coverage::run,
    },
    Chore {
        name: "gekkofs",
        help: "a job, its staging and its tracing on a GekkoFS that is installed: `gekkofs PREFIX`",
        run: gekkofs::run,
    },
    Chore {
        name: "hostile",
        help: "users who mean harm beside users who do not, at a mount and an arbiter that root serves (as root)",
        run: hostile::run,
    },
    Chore {
        name: "soak",
        help: "real daemons in a tree for an hour, jobs below them and kills among them: nothing grows, nothing is missing",
        run: bench::soak::run,
    },
    Chore {
        name: "leaves",
        help: "made leaves below a daemon that runs: `leaves HOST:PORT KEY-FILE NUMBER`",
        run: bench::tree::leaves,
    },
    Chore {
        name: "accuracy",
        help: "how right the answers are, on traces whose truth is known",
        run: accuracy,
    },
    Chore {
        name: "large-log",
        help: "write a Darshan log of any number of records",
        run: readers::large::log,
    },
    Chore {
        name: "large-archive",
        help: "write an archive of any number of Darshan logs",
        run: readers::large::archive,
    },
    Chore {
        name: "round-trip",
        help: "every trace in a folder: read, converted to a native trace, asked the same again, and reported",
        run: readers::round_trip::run,
    },
    Chore {
        name: "laws",
        help: "what must be true of every answer about rhythm, tried on traces of every kind",
        run: laws::run,
    },
];

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
    let Some(name) = args.first() else {
        print!("{}", help());
        return ExitCode::FAILURE;
    };
    if matches!(name.as_str(), "help" | "-h" | "--help") {
        print!("{}", help());
        return ExitCode::SUCCESS;
    }
    let Some(chore) = CHORES.iter().find(|chore| chore.name == name) else {
        eprintln!("xtask: no chore '{name}'\n{}", help());
        return ExitCode::from(2);
    };
    match (chore.run)(&args[1..]) {
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

fn help() -> String {
    let chores: String =
        CHORES.iter().map(|chore| format!("  {:<13} {}\n", chore.name, chore.help)).collect();
    format!("usage: cargo xtask <chore> [arguments]\n\n{chores}  {:<13} this text\n", "help")
}

/// Returns the root of the repository.
fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies one folder below the root")
}
