//! `iotide report`: everything about a run as one page.

use std::path::{Path, PathBuf};

use anyhow::Context;
use iotide_api::{ComparedRun, Document, Error, Ink, Input, Report, ReportOptions, WhyOptions, WhyRun, why};
use iotide_archive::compare;
use iotide_pages::{Page, RunPage};
use iotide_private::OpenDir;
use iotide_report::RunIssues;

use super::advice::advised;
use super::analysis::AnalysisArgs;
use super::input::InputArgs;
use super::settings::SettingsArgs;
use super::why::{MOST_EARLIER, StorageArgs, earlier_runs};
use crate::ExitStatus;
use crate::config::Config;
use crate::ui::Ui;

/// Show everything about a run as one HTML page
///
/// The page needs nothing else: no network and no files beside it. It begins with the job, the answer and the I/O issues. Pictures can be zoomed
/// (drag, or Ctrl + wheel), moved (Shift + drag, arrow keys) and reset (double-click, Escape), and have their numbers behind them.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    analysis: AnalysisArgs,
    #[command(flatten)]
    settings: SettingsArgs,
    /// Compare each run with the earlier ones of its application in these results of `iotide categorize`
    #[arg(long, value_name = "DIR", help_heading = "Analysis")]
    history: Option<PathBuf>,
    #[command(flatten)]
    storage: StorageArgs,
    /// As a page, or as what stands on it in words or for a script
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "html", help_heading = "Output")]
    format: PageForm,
    /// Write to FILE [default: report.html for a page, else standard output]
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
    /// Write each picture as SVG into DIR, too
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    svg: Option<PathBuf>,
}

/// Form of the output.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum PageForm {
    Html,
    Text,
    Json,
}

const EXAMPLES: &str = "\
Examples:
  iotide report run.csv -o run.html
  iotide report run.csv -o run.html --svg figures/      for a paper
  iotide report --format text run.darshan               what the run does that its storage does not like
  iotide report run.darshan --history 2019-results      and whether that is usual for this application
  iotide report run.darshan --history 2019-results --storage servers.csv     and why it was slow";

pub(crate) fn run(ui: &mut Ui, args: &ReportArgs) -> anyhow::Result<ExitStatus> {
    let config = args.analysis.config();
    if let Some(unused) = args.analysis.unused() {
        ui.status(unused);
    }
    let settings = args.settings.read()?;
    let options = ReportOptions {
        open: args.input.options()?,
        run: config,
        categories: settings.categories,
        issues: settings.issues,
    };
    let mut report = Report::new("report");
    let mut plots = Vec::new();
    report.failures = args.input.for_each(ui, |input| {
        let mut answer = iotide_api::report(input, &options).map_err(advised)?;
        if let Some(results) = &args.history {
            answer.run.history = compare(&answer.labels, results)?;
        }
        answer.run.why = slowness(args, input, &options)?;
        report.runs.push(answer.run);
        plots.push(answer.plots);
        Ok(())
    })?;
    if report.runs.is_empty() {
        return Ok(ExitStatus::Failed);
    }
    let document = RunPage { report, plots };
    let told = match args.format {
        PageForm::Html => document.html(),
        PageForm::Text => document.to_text(ui.width(), Ink::Plain),
        PageForm::Json => document.to_json(),
    };
    let usual = if args.format == PageForm::Html { "report.html" } else { "-" };
    let output = args.output.as_deref().unwrap_or(Path::new(usual));
    if output == Path::new("-") {
        ui.out(&told)?;
    } else {
        ui.out_file(output, &told)?;
    }
    if let Some(dir) = &args.svg {
        write_pictures(ui, dir, &document)?;
    }
    for run in &document.report.runs {
        ui.status(format_args!("{}: {}", run.source.path.for_terminal(), run.headline()));
        for line in run.issues.iter().flat_map(RunIssues::first_lines) {
            ui.status(line);
        }
    }
    if output != Path::new("-") && args.format == PageForm::Html {
        ui.status(format_args!("open {} in a browser", output.display()));
    }
    Ok(if document.report.failures.is_empty() { ExitStatus::Done } else { ExitStatus::Failed })
}

/// Why the run was slow, where earlier runs or the load of the storage are named and the run has requests of its own times.
fn slowness(args: &ReportArgs, input: &Input, options: &ReportOptions) -> anyhow::Result<Option<WhyRun>> {
    // Standard input can be read once.
    if args.history.is_none() && !args.storage.is_named() || input.name() == "-" {
        return Ok(None);
    }
    let open = options.open.clone();
    // Results without a run of this program, or of which the traces are gone, have no earlier runs.
    let mut earlier = match &args.history {
        Some(results) => earlier_runs(std::slice::from_ref(results), input, &open).unwrap_or_default(),
        None => Vec::new(),
    };
    earlier.truncate(MOST_EARLIER);
    let options = WhyOptions {
        history: earlier.into_iter().map(ComparedRun::from).collect(),
        storage: args.storage.named(&Config::held().daemon())?,
        open,
        ..WhyOptions::default()
    };
    match why(&input.clone().into(), &options, &mut |_| {}) {
        Ok(document) => Ok(document.runs.into_iter().next()),
        Err(Error::NoRequests { .. }) => Ok(None),
        Err(error) => Err(advised(error)),
    }
}

pub(super) fn write_pictures(ui: &mut Ui, dir: &Path, document: &impl Page) -> anyhow::Result<()> {
    let dir = OpenDir::make(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    for (name, svg) in document.pictures() {
        ui.out_file_in(&dir, &name, &svg)?;
    }
    Ok(())
}
