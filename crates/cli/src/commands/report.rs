//! `iotide report`: everything about a run as one page.

use std::path::{Path, PathBuf};

use anyhow::Context;
use iotide_analysis::analyse_run;
use iotide_report::{Picture, Plot, Report, Run, page, pictures};
use iotide_trace::{Activity, ActivitySums};

use super::analysis::{self, AnalysisArgs};
use super::input::{InputArgs, Observed};
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
    /// Write the page to FILE
    #[arg(short, long, value_name = "FILE", default_value = "report.html", help_heading = "Output")]
    output: PathBuf,
    /// Write each picture as SVG into DIR, too
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    svg: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  iotide report run.csv -o run.html
  iotide report run.csv -o run.html --svg figures/      for a paper";

pub(crate) fn run(ui: &mut Ui, args: &ReportArgs) -> anyhow::Result<ExitStatus> {
    let config = args.analysis.config();
    let mut report = Report::new("report");
    let mut plots: Vec<Vec<Plot>> = Vec::new();
    let failures = args.input.for_each_run(ui, |observed| {
        let Observed { source, reads, writes, demand, losses, beside: activity, info } = observed;
        let activity: ActivitySums = Activity::finish(activity, &info);
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
                return Err(anyhow::anyhow!("{}: {why}", source.path)).hint(analysis::advice(&why));
            }
        };
        report.runs.push(run.with_activity(&activity).with_demand(demand.as_ref()));
        Ok(())
    })?;
    report.failures = failures;
    if report.runs.is_empty() {
        return Ok(ExitStatus::Failed);
    }
    let html = page(&report, &plots);
    if args.output == Path::new("-") {
        ui.out(&html)?;
    } else {
        ui.out_file(&args.output, &html)?;
    }
    if let Some(dir) = &args.svg {
        write_pictures(ui, dir, &report.runs, &plots)?;
    }
    for run in &report.runs {
        ui.status(format_args!("{}: {}", iotide_report::text::printable(&run.source.path), run.headline()));
    }
    if args.output != Path::new("-") {
        ui.status(format_args!("open {} in a browser", args.output.display()));
    }
    Ok(if report.failures.is_empty() { ExitStatus::Done } else { ExitStatus::Failed })
}

/// Writes `bandwidth.svg` and so on; with several runs `1-bandwidth.svg`, `2-bandwidth.svg`.
fn write_pictures(ui: &mut Ui, dir: &Path, runs: &[Run], plots: &[Vec<Plot>]) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    for (i, (run, plots_of_run)) in runs.iter().zip(plots).enumerate() {
        let plots = plots_of_run.iter().map(|plot| Picture { name: plot.name, svg: plot.to_svg() });
        for Picture { name, svg } in plots.chain(run.activity.iter().flat_map(|activity| activity.pictures()))
        {
            let name = match runs.len() {
                1 => format!("{name}.svg"),
                _ => format!("{}-{name}.svg", i + 1),
            };
            ui.out_file(&dir.join(name), &svg)?;
        }
    }
    Ok(())
}
