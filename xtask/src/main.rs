//! Chores of the repository, in Rust so that they run wherever the product builds: `cargo xtask <chore>`.
//!
//! Measurements and evaluation of iotide are in `lab/`, a workspace of its own, which is built when one of its chores is asked for.
#![allow(clippy::print_stdout, clippy::print_stderr)] // chores talk to the developer

use std::process::ExitCode;

use crate::chores::repository;

mod book;
#[path = "../../lab/src/chores.rs"]
mod chores;
mod dist;
mod tidy;

/// A chore: its name, what it is for, and the function that gets the rest of the command line.
struct Chore {
    name: &'static str,
    help: &'static str,
    run: fn(&[String]) -> Result<Outcome, String>,
}

/// To add a chore: one module, one line here. What needs iotide goes to the lab.
const CHORES: &[Chore] = &[
    Chore {
        name: "tidy",
        help: "check the rules of the house: arrows between crates, invariants, docs",
        run: tidy::run,
    },
    Chore {
        name: "book",
        help: "make a book of docs/, with a search: target/book/html/index.html",
        run: book::run,
    },
    Chore {
        name: "dist",
        help: "build the release for old C libraries, and pack it; `dist try` tries it in clean Debians (as root)",
        run: dist::run,
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
    let result = if let Some(chore) = CHORES.iter().find(|chore| chore.name == name) {
        (chore.run)(&args[1..])
    } else if chores::is_listed(name) {
        Err(chores::hand_over("lab", &args))
    } else {
        eprintln!("xtask: no chore '{name}'\n{}", help());
        return ExitCode::from(2);
    };
    match result {
        Ok(Outcome::Good) => ExitCode::SUCCESS,
        Ok(Outcome::Wanting) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask {name}: {error}");
            ExitCode::from(2)
        }
    }
}

fn help() -> String {
    let own = CHORES.iter().map(|chore| (chore.name, chore.help));
    let all = own.chain(chores::CHORES.iter().copied()).chain([("help", "this text")]);
    let rows: String = all.map(|(name, help)| format!("  {name:<13} {help}\n")).collect();
    format!("usage: cargo xtask <chore> [arguments]\n\n{rows}")
}
