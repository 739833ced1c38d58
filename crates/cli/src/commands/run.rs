//! `iotide run`: record a program, and show the answer.

use std::path::PathBuf;

use iotide_api::{Input, Report, ReportOptions};
use iotide_pages::RunPage;

use super::advice::advised;
use super::record::{self, RecordArgs};
use crate::ExitStatus;
use crate::ui::Ui;

/// Run a program, and report on its I/O: the answer in the terminal, the rest as a page
///
/// The same as `iotide record` followed by `iotide report`. Ends with the program's exit status.
#[derive(clap::Args, Debug)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    record: RecordArgs,
    /// Write the page to FILE [default: the trace's name with .html behind it]
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  iotide run -- ./simulation input.txt
  iotide run -o run7 --page run7.html -- mpirun -n 4 ./simulation";

pub(crate) fn run(ui: &mut Ui, args: &RunArgs) -> anyhow::Result<ExitStatus> {
    let recorded = record::record(ui, &args.record)?;
    let Some(trace) = recorded.trace.as_deref().map(record::as_typed_here) else {
        return Ok(recorded.status);
    };
    let answer = iotide_api::report(&Input::file(&trace), &ReportOptions::default()).map_err(advised)?;
    let mut report = Report::new("report");
    report.runs.push(answer.run);
    let beside = || {
        let mut name = trace.clone().into_os_string();
        name.push(".html");
        PathBuf::from(name)
    };
    let page = args.page.clone().unwrap_or_else(beside);
    ui.answer_file(&page, &RunPage { report, plots: vec![answer.plots] }.html())?;
    record::say_next(ui, &trace);
    Ok(recorded.status)
}
