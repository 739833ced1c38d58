//! `iotide doctor`: what works on this machine, what is missing, and whether the tracer does harm.

use std::ffi::OsString;

use iotide_report::DoctorReport;

use super::OutputArgs;
use crate::ExitStatus;
use crate::ui::Ui;

mod checks;
mod harm;

/// Check what works on this machine, and that the tracer does no harm to a program
///
/// Each part of the chain from a program to a page is tried: the tracer on a small program, the counters of running programs, the daemon, mounts, MPI, Slurm,
/// clocks and free space. What is missing stands beside what to do about it. With a program, it is run several times without the tracer and with it, by turns:
/// its exit status, output, time and memory are compared.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// How often the program is run in each way
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    runs: u16,
    /// A program to compare without the tracer and with it; its standard input is empty
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  iotide doctor                            what works here?
  iotide doctor -- ./simulation input.txt  does the tracer change anything for this program?
  iotide doctor --format json              for scripts

Exit status: 0 all is well, 1 something is broken or the program is changed or not seen, 2 the program could not be run.";

pub(crate) fn run(ui: &mut Ui, args: &DoctorArgs) -> anyhow::Result<ExitStatus> {
    let checks = checks::all(ui);
    let program = match args.program.as_slice() {
        [] => None,
        program => Some(harm::compare(ui, program, usize::from(args.runs))?),
    };
    let report = DoctorReport::new(checks, program);
    args.output.deliver(ui, &report)?;
    Ok(if report.is_well() { ExitStatus::Done } else { ExitStatus::NothingFound })
}
