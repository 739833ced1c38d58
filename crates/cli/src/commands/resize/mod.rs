//! `iotide resize`: which size a job should have, and giving it that size.

use crate::ExitStatus;
use crate::ui::Ui;

pub(super) use actuators::{Actuators, Manner};
pub(super) use plan::{Deciding, Models, policy_named};
pub(super) use slurm::{Listing, Slurm, SlurmArgs, checked_signal, may_expand, plain_word};

mod actuators;
mod advise;
mod apply;
mod journal;
mod plan;
mod slurm;

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

pub(crate) fn run(ui: &mut Ui, args: &ResizeArgs) -> anyhow::Result<ExitStatus> {
    match &args.what {
        What::Advise(args) => advise::run(ui, args),
        What::Plan(args) => plan::run(ui, args),
        What::Apply(args) => apply::run(ui, args),
    }
}
