//! `iotide checkpoint advise`: how often a program should write checkpoints.

use std::path::PathBuf;

use anyhow::bail;
use iotide_api::{CheckpointOptions, Input, checkpoint_advise};

use super::OutputArgs;
use super::advice::advised;
use super::input::ReadingArgs;
use super::ioskel::parse_seconds;
use crate::ExitStatus;
use crate::ui::Ui;

/// Tell how often to write checkpoints
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  iotide checkpoint advise run.darshan --mtbf 8h")]
pub(crate) struct CheckpointArgs {
    #[command(subcommand)]
    command: CheckpointCommand,
}

#[derive(clap::Subcommand, Debug)]
enum CheckpointCommand {
    Advise(Box<AdviseArgs>),
}

/// Tell how often to write checkpoints, from the cost of those that a run wrote
///
/// The phases of the run's period are its checkpoints, and their median time is the cost of one. Against that stands the work that a failure loses. The answer
/// is the period that wastes least, how far one may be from it, and what the run wastes now; each is tried out with failures drawn at random.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
struct AdviseArgs {
    /// A run that writes checkpoints
    #[arg(value_name = "RUN", required_unless_present = "cost")]
    run: Option<PathBuf>,
    /// Mean time between failures of the job: 8h, 2d
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, required_unless_present = "node_mtbf", conflicts_with = "node_mtbf", help_heading = "Failures")]
    mtbf: Option<f64>,
    /// Mean time between failures of one node; with --nodes
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, requires = "nodes", help_heading = "Failures")]
    node_mtbf: Option<f64>,
    /// How many nodes the job has: any failure of one ends it
    #[arg(long, value_name = "N", requires = "node_mtbf", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Failures")]
    nodes: Option<u32>,
    /// Time from a failure until work goes on [default: that of a checkpoint]
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, help_heading = "Failures")]
    restart: Option<f64>,
    /// Time of a checkpoint [default: the median of the run's]
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    cost: Option<f64>,
    /// Seed of the simulation
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  iotide checkpoint advise run.darshan --mtbf 8h                  a job that fails every eight hours
  iotide checkpoint advise run.darshan --node-mtbf 2000d --nodes 4096
  iotide checkpoint advise --cost 90s --mtbf 1d                   without a run

Exit status: 0 advised, 2 the run has no checkpoints, or cannot be read.";

pub(crate) fn run(ui: &mut Ui, args: &CheckpointArgs) -> anyhow::Result<ExitStatus> {
    let CheckpointCommand::Advise(args) = &args.command;
    let of_nodes = args.node_mtbf.zip(args.nodes).map(|(mtbf_s, n)| mtbf_s / f64::from(n));
    let Some(mtbf_s) = args.mtbf.or(of_nodes) else { bail!("how often the job fails is missing") };
    let options = CheckpointOptions {
        open: args.reading.options()?,
        mtbf_s,
        cost_s: args.cost,
        restart_s: args.restart,
        seed: args.seed,
        ..CheckpointOptions::default()
    };
    let input = args.run.as_ref().map(Input::file);
    let document = checkpoint_advise(input.as_ref(), &options).map_err(advised)?;
    args.output.deliver(ui, &document)?;
    Ok(ExitStatus::Done)
}
