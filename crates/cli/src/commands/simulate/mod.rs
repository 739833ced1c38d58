//! `iotide simulate`: trying decisions out.

use crate::ExitStatus;
use crate::ui::Ui;

pub(super) use io::refused;

mod io;
mod jobs;
mod staging;
mod system;

/// Try decisions out: policies side by side on one workload
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  iotide simulate io rr9537 -o policies.html    the published experiment, with pictures\n  \
                  iotide simulate jobs log.swf --malleable 0,50 what malleable jobs would give a machine\n  \
                  iotide simulate staging example               when to move results out of a buffer"
)]
pub(crate) struct SimulateArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    Io(io::IoArgs),
    System(system::SystemArgs),
    Jobs(jobs::JobsArgs),
    Staging(staging::StagingArgs),
}

pub(crate) fn run(ui: &mut Ui, args: &SimulateArgs) -> anyhow::Result<ExitStatus> {
    match &args.what {
        What::Io(args) => io::run(ui, args),
        What::System(args) => system::run(ui, args),
        What::Jobs(args) => jobs::run(ui, args),
        What::Staging(args) => staging::run(ui, args),
    }
}
