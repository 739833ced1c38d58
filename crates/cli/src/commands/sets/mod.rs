//! `iotide sets`: jobs, their sets, and what a file system is told of them.

use crate::ExitStatus;
use crate::ui::Ui;

mod plan;
mod show;

/// Divide jobs into sets by their rhythm, and tell a file system
#[derive(clap::Args, Debug)]
pub(crate) struct SetsArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    Plan(plan::PlanArgs),
    Show(show::ShowArgs),
}

pub(crate) fn run(ui: &mut Ui, args: &SetsArgs) -> anyhow::Result<ExitStatus> {
    match &args.what {
        What::Plan(args) => plan::run(ui, args),
        What::Show(args) => show::run(ui, args),
    }
}
