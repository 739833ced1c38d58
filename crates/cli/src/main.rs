//! The program `iotide`.

use std::process::ExitCode;

fn main() -> ExitCode {
    iotide_cli::run_program(std::env::args_os().collect()).into()
}
