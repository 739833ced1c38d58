//! Chores of the repository.
#![allow(clippy::print_stdout, clippy::print_stderr, missing_docs)]
mod accuracy;
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|a| a == "accuracy") {
        if args[1] == "fit" {
            accuracy::period::fit(&args[2..])
        } else {
            accuracy::period::run(&args[2..]);
        }
    }
}
