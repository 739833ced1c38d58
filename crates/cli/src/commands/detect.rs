//! `iotide detect`: the period of a run's I/O phases.

use iotide_analysis::IssueConfig;
use iotide_api::{DetectOptions, Input, Report, Run};
use iotide_edge::client::in_query;
use iotide_formats::{Format, OpenOptions};

use super::OutputArgs;
use super::advice::advised;
use super::analysis::AnalysisArgs;
use super::follow::{self, FollowArgs};
use super::input::InputArgs;
use crate::ExitStatus;
use crate::ui::Ui;

/// Find the period of a job's I/O phases
///
/// Reports whether the I/O of each run is periodic, its period with a confidence, and when the next
/// one is due. Exits with 0 if a period was found, 1 if there is none, 2 if a trace could not be analysed.
///
/// With --follow or --listen it does so while the job runs, and predicts the next phase again and again until the job is over or
/// Ctrl-C is pressed.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES, mut_arg("traces", |arg| arg.required(false).required_unless_present_any(["listen", "job"])))]
pub(crate) struct DetectArgs {
    #[command(flatten)]
    input: InputArgs,
    /// Ask the daemon (`iotide serve`) for what it has seen of this job, running or not, rather than reading a trace
    #[arg(long, value_name = "ID", help_heading = "Input", conflicts_with_all = ["traces", "input_format", "pattern", "follow", "listen"])]
    job: Option<String>,
    /// Look at this metric rather than at bytes moved: name, name{label="x"}, or start*; for --job, traces of the metric proxy and answers of Prometheus
    #[arg(long, value_name = "NAME", help_heading = "Input", conflicts_with_all = ["follow", "listen"])]
    metric: Option<String>,
    /// Report the I/O issues of each run, too
    #[arg(long, conflicts_with_all = ["follow", "listen", "metric"])]
    issues: bool,
    #[command(flatten)]
    analysis: AnalysisArgs,
    #[command(flatten)]
    follow: FollowArgs,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  iotide detect run.csv
  iotide detect --mode read --window 60: run.csv        reads only, without the first minute
  iotide detect --format json *.jsonl -o periods.json   many runs, for a script
  iotide detect --one-run rank-*.csv                    one run, a file per rank
  iotide detect --method dft run.csv                    by the method of the FTIO paper
  iotide detect --metric mpi_time proxy.json            phases of anything that was sampled
  iotide detect --job 4711                              a job that `iotide serve` has seen
  iotide record -o run7 -- mpirun -n 4 ./simulation &
  iotide detect --follow run7                           watch it while it runs
  iotide detect --follow run7 --format json --on-prediction 'systemd-cat'
  iotide detect --listen zmq:tcp://*:5555               in the place of FTIO, for TMIO and GekkoFS";

pub(crate) fn run(ui: &mut Ui, args: &DetectArgs) -> anyhow::Result<ExitStatus> {
    let config = args.analysis.config();
    args.follow.check()?;
    if args.follow.is_asked_for() {
        args.analysis.check_online()?;
        return follow::run(ui, &args.follow, &args.input, &config, &args.output);
    }
    if let Some(unused) = args.analysis.unused() {
        ui.status(unused);
    }
    let mut report = Report::new("detect");
    let open = OpenOptions { metric: args.metric.clone(), ..args.input.options()? };
    let options = DetectOptions { open, run: config, issues: args.issues.then(IssueConfig::default) };
    if let Some(id) = &args.job {
        // In the form of the metric proxy: all metrics over time.
        let trace = super::jobs::ask(&format!("/trace/read?job={}", in_query(id)))?;
        let open = OpenOptions { input_format: Some(Format::Proxy), ..options.open };
        let input = Input::bytes(format!("job {id}"), trace);
        let options = DetectOptions { open, ..options };
        report.runs.push(iotide_api::detect(&input, &options).map_err(advised)?);
    } else {
        report.failures = args.input.for_each(ui, |input| {
            report.runs.push(iotide_api::detect(input, &options).map_err(advised)?);
            Ok(())
        })?;
    }
    if !report.runs.is_empty() {
        args.output.deliver(ui, &report)?;
    }
    Ok(if !report.failures.is_empty() {
        ExitStatus::Failed
    } else if report.runs.iter().any(Run::is_periodic) {
        ExitStatus::Done
    } else {
        ExitStatus::NothingFound
    })
}
