//! `iotide sets`: jobs, their sets, and what a file system is told of them.

use crate::ExitStatus;
use crate::ui::Ui;

mod apply;
mod key;
mod map;
mod plan;
mod show;
mod system;

pub(super) use show::ask;

/// Divide jobs into sets by their rhythm, tell a file system, and see what became of it
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SetsArgs {
    #[command(subcommand)]
    what: What,
}

const EXAMPLES: &str = "\
Examples:
  iotide sets plan jobs.csv --apply lustre-tbf --dry-run    print the commands without running them
  iotide sets apply jobs.csv --controller lustre-tbf        keep it up to date until Ctrl-C
  iotide sets show /run/iotide.sock                         the jobs of a mount or an arbiter, live";

#[derive(clap::Subcommand, Debug)]
enum What {
    Plan(plan::PlanArgs),
    Apply(apply::ApplyArgs),
    Show(show::ShowArgs),
    Key(key::KeyArgs),
    Map(map::MapArgs),
}

pub(crate) fn run(ui: &mut Ui, args: &SetsArgs) -> anyhow::Result<ExitStatus> {
    match &args.what {
        What::Plan(args) => plan::run(ui, args),
        What::Apply(args) => apply::run(ui, args),
        What::Show(args) => show::run(ui, args),
        What::Key(args) => key::run(ui, args),
        What::Map(args) => map::run(ui, args),
    }
}
