//! `iotide detect`: the period of a run's I/O phases.

use iotide_analysis::{RunConfig, analyse_run};
use iotide_report::{Report, Run};

use super::OutputArgs;
use super::analysis::{self, AnalysisArgs};
use super::follow::{self, FollowArgs};
use super::input::{InputArgs, Observed};
use crate::ExitStatus;
use crate::ui::{Hint, Ui};

/// Find the period of a job's I/O phases
///
/// Says whether the I/O of each run repeats evenly, how far its phases are apart, with which confidence, and when the next
/// one is due. Exits with 0 if a period was found, 1 if there is none, 2 if a trace could not be analysed.
///
/// With --follow or --listen it does so while the job runs, and predicts the next phase again and again until the job is over or
/// Ctrl-C is pressed.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES, mut_arg("traces", |arg| arg.required(false).required_unless_present("listen")))]
pub(crate) struct DetectArgs {
    #[command(flatten)]
    input: InputArgs,
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
    let failures = args.input.for_each_run(ui, |observed| {
        report.runs.push(told(observed, &config)?);
        Ok(())
    })?;
    report.failures = failures;
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

/// What there is to say of a run; too little data is an answer, a setting that cannot be met is not.
fn told(observed: Observed, config: &RunConfig) -> anyhow::Result<Run> {
    let Observed { source, reads, writes, demand, losses, stated, .. } = observed;
    let config = RunConfig { stated, ..config.clone() };
    let run = match analyse_run(&reads, &writes, &config) {
        Ok(run) => Run::analysed(source, &losses, &config, &run),
        Err(why) if why.is_lack_of_data() => Run::not_analysed(source, &losses, &config, &why),
        Err(why) => {
            return Err(anyhow::anyhow!("{}: {why}", source.path.for_terminal()))
                .hint(analysis::advice(&why));
        }
    };
    Ok(run.with_demand(demand.as_ref()))
}
