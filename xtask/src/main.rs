//! Chores of the project: `cargo xtask <chore>`.
#![allow(clippy::print_stdout)]

mod accuracy;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["accuracy", "scaling", rest @ ..] => {
            let n = rest.first().and_then(|n| n.parse().ok()).unwrap_or(1000);
            accuracy::scaling::run(n, 1);
        }
        _ => println!("usage: cargo xtask accuracy scaling [cases]"),
    }
}
