//! `iotide resize`: which size a job should have, and giving it that size.

use crate::ExitStatus;
use crate::ui::Ui;

pub(super) use advise::read_models;

use iotide_act::{SlurmTalk, plain_word};

use super::ioskel::parse_seconds;

mod advise;
mod apply;
mod plan;

/// Find the right size for a job, and resize running jobs of Slurm
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  iotide resize advise runs.csv --log log.swf    at which size to run a program\n  \
                  iotide resize plan                             what would be resized on this Slurm now"
)]
pub(crate) struct ResizeArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    Advise(advise::AdviseArgs),
    Plan(plan::PlanArgs),
    Apply(apply::ApplyArgs),
}

/// How Slurm is talked to.
#[derive(clap::Args, Debug)]
struct SlurmArgs {
    /// Only this partition
    #[arg(long, value_name = "NAME", value_parser = plain_word)]
    partition: Option<String>,
    /// A command of Slurm that takes longer than this is ended
    #[arg(long, value_name = "TIME", default_value = "30", value_parser = parse_seconds)]
    timeout: f64,
}

impl SlurmArgs {
    fn talk(&self) -> SlurmTalk {
        SlurmTalk { partition: self.partition.clone(), timeout_s: self.timeout }
    }
}

pub(crate) fn run(ui: &mut Ui, args: &ResizeArgs) -> anyhow::Result<ExitStatus> {
    match &args.what {
        What::Advise(args) => advise::run(ui, args),
        What::Plan(args) => plan::run(ui, args),
        What::Apply(args) => apply::run(ui, args),
    }
}
