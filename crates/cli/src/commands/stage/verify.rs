//! `iotide stage verify`: whether what was brought is still what it was.

use std::path::PathBuf;

use iotide_report::{LeftFile, StageAnswer, StagedCheck};
use iotide_stage::{Pace, verify};

use super::{shown, with_progress};
use crate::ExitStatus;
use crate::commands::OutputArgs;
use crate::ui::Ui;

/// Read every file that was staged to a directory, and compare it with its receipt
///
/// Exit status: 0 every file is as it was, 1 at least one is not, or there is none, 2 failed.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct VerifyArgs {
    /// The destination of `iotide stage out`
    #[arg(value_name = "DST")]
    dst: PathBuf,
    /// How many files to read at once
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  iotide stage verify /pfs/results
  iotide stage verify /pfs/results --format json | jq '.runs[0].faults'";

pub(super) fn run(ui: &mut Ui, args: &VerifyArgs) -> anyhow::Result<ExitStatus> {
    let pace = Pace::free();
    let verified = with_progress(ui, &pace, ("read", 1), || verify(&args.dst, args.jobs.into(), &pace))?;
    let faults = verified.faults.iter();
    let check = StagedCheck {
        destination: args.dst.to_string_lossy().into(),
        sources: verified.sources.iter().map(|source| shown(source)).collect(),
        files_good: verified.n_good,
        bytes_good: verified.good_bytes,
        faults: faults
            .map(|fault| LeftFile { path: shown(&fault.path), why: fault.why.as_str().into() })
            .collect(),
    };
    let status = match (check.faults.is_empty(), check.files_good) {
        // That nothing is wrong with no files must not pass for an answer.
        (true, 0) => ExitStatus::NothingFound,
        (true, _) => ExitStatus::Done,
        (false, _) => ExitStatus::Worse,
    };
    args.output.deliver(ui, &StageAnswer::of_check(check))?;
    Ok(status)
}
