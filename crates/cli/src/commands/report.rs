//! `iotide report`: everything about a run as one page.

use std::path::{Path, PathBuf};

use anyhow::Context;
use iotide_analysis::{RunConfig, analyse_run, insights};
use iotide_archive::{compare, label_observed};
use iotide_private::OpenDir;
use iotide_report::{Picture, Plot, Report, Run, page, pictures};
use iotide_trace::{Activity, ActivitySums};

use super::analysis::{self, AnalysisArgs};
use super::input::{InputArgs, Observed};
use super::settings::SettingsArgs;
use crate::ExitStatus;
use crate::ui::{Hint, Ui};

/// Show everything about a run as one HTML page
///
/// The page needs nothing else: no network and no files beside it. Its pictures can be zoomed (wheel), moved (drag) and
/// reset (double-click).
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

/// What comes out.
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
  iotide report run.darshan --history 2019-results      and whether that is usual for this application";

pub(crate) fn run(ui: &mut Ui, args: &ReportArgs) -> anyhow::Result<ExitStatus> {
    let config = args.analysis.config();
    if let Some(unused) = args.analysis.unused() {
        ui.status(unused);
    }
    let settings = args.settings.read()?;
    let mut report = Report::new("report");
    let mut plots: Vec<Vec<Plot>> = Vec::new();
    let failures = args.input.for_each_run(ui, |observed| {
        let Observed { source, reads, writes, demand, losses, beside: (activity, seen), info, stated } =
            observed;
        let config = RunConfig { stated, ..config.clone() };
        let activity: ActivitySums = Activity::finish(activity, &info);
        let mut labelled = label_observed(seen, source.clone(), &info.job, &losses, &settings.categories);
        if let Some(results) = &args.history {
            labelled.history = compare(&labelled, results)?;
        }
        let run = match analyse_run(&reads, &writes, &config) {
            Ok(run) => {
                plots.push(pictures(&run));
                Run::analysed(source, &losses, &config, &run)
            }
            Err(why) if why.is_lack_of_data() => {
                plots.push(Vec::new());
                Run::not_analysed(source, &losses, &config, &why)
            }
            Err(why) => {
                return Err(anyhow::anyhow!("{}: {why}", source.path.for_terminal()))
                    .hint(analysis::advice(&why));
            }
        };
        let found = insights(&activity, &info.job, &settings.insights);
        let run = run.with_activity(&activity).with_insights(&found).with_demand(demand.as_ref());
        let run = run.with_labels(labelled);
        report.runs.push(run);
        Ok(())
    })?;
    report.failures = failures;
    if report.runs.is_empty() {
        return Ok(ExitStatus::Failed);
    }
    let told = match args.format {
        PageForm::Html => page(&report, &plots),
        PageForm::Text => report.to_text(ui.width()),
        PageForm::Json => report.to_json(),
    };
    let usual = if args.format == PageForm::Html { "report.html" } else { "-" };
    let output = args.output.as_deref().unwrap_or(Path::new(usual));
    if output == Path::new("-") {
        ui.out(&told)?;
    } else {
        ui.out_file(output, &told)?;
    }
    if let Some(dir) = &args.svg {
        write_pictures(ui, dir, &report.runs, &plots)?;
    }
    for run in &report.runs {
        ui.status(format_args!("{}: {}", run.source.path.for_terminal(), run.headline()));
    }
    if output != Path::new("-") && args.format == PageForm::Html {
        ui.status(format_args!("open {} in a browser", output.display()));
    }
    Ok(if report.failures.is_empty() { ExitStatus::Done } else { ExitStatus::Failed })
}

/// Writes `bandwidth.svg` and so on; with several runs `1-bandwidth.svg`, `2-bandwidth.svg`.
fn write_pictures(ui: &mut Ui, dir: &Path, runs: &[Run], plots: &[Vec<Plot>]) -> anyhow::Result<()> {
    let dir = OpenDir::make(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    for (i, (run, plots_of_run)) in runs.iter().zip(plots).enumerate() {
        let plots = plots_of_run.iter().map(|plot| Picture { name: plot.name, svg: plot.to_svg() });
        for Picture { name, svg } in plots.chain(run.activity.iter().flat_map(|activity| activity.pictures()))
        {
            let name = match runs.len() {
                1 => format!("{name}.svg"),
                _ => format!("{}-{name}.svg", i + 1),
            };
            ui.out_file_in(&dir, &name, &svg)?;
        }
    }
    Ok(())
}
