//! `iotide templates`: runs of many programs as a few kinds of applications.

use std::path::PathBuf;

use iotide_api::{TemplateOptions, templates};

use crate::ExitStatus;
use crate::commands::advice::advised;
use crate::commands::document::DocumentArgs;
use crate::ui::Ui;

/// Sum up runs of many programs as a few kinds of applications
///
/// Finds the bursts of each run, brings runs of different sizes to one number of processes by how each figure scales, and puts runs together whose figures are
/// alike. The answer as JSON is a system that `iotide simulate system` runs.
///
/// RUNS are traces of any format, or JSON files with runs as bins of equal width; docs/system.md says how these are written.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TemplatesArgs {
    /// Traces, or JSON files with runs
    #[arg(required = true)]
    runs: Vec<PathBuf>,
    /// Performance of the storage, as `iotide ladder` measures it
    #[arg(long, value_name = "LADDER")]
    storage: Option<PathBuf>,
    /// Compare runs at N processes [default: as in the runs, or the middle one]
    #[arg(long, value_name = "N")]
    processes: Option<u64>,

    #[command(flatten)]
    output: DocumentArgs,
}

const EXAMPLES: &str = "\
Examples:
  iotide templates runs/*.darshan                           which kinds of applications are there?
  iotide templates runs/*.darshan --storage ladder.json --format json -o system.json
  iotide simulate system system.json --add 'template 0=4'   four jobs of the first kind on that storage";

pub(crate) fn run(ui: &mut Ui, args: &TemplatesArgs) -> anyhow::Result<ExitStatus> {
    let options = TemplateOptions { ladder: args.storage.clone(), processes: args.processes };
    let report = templates(&args.runs, &options).map_err(advised)?;
    let found = if report.templates.is_empty() { ExitStatus::NothingFound } else { ExitStatus::Done };
    args.output.deliver(ui, &report)?;
    Ok(found)
}
