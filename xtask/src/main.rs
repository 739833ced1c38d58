//! Chores of the repository.
#![allow(clippy::print_stdout, clippy::print_stderr)]
mod accuracy;
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|a| a == "accuracy") {
        accuracy::run(&args[1..]).unwrap();
    }
}
