//! `iotide detect`: the period of a run's I/O phases.

use std::path::PathBuf;

use super::OutputArgs;
use crate::ExitStatus;
use crate::ui::Ui;

/// Find the period of a job's I/O phases
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DetectArgs {
    /// Traces, each of one run; `-` is stdin
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  iotide detect run.csv";

pub(crate) fn run(_ui: &mut Ui, _args: &DetectArgs) -> anyhow::Result<ExitStatus> {
    Ok(ExitStatus::NothingFound)
}
