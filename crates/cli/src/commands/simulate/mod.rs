//! `iotide simulate`: trying decisions out.

use std::path::Path;

use iotide_api::{FitOptions, Measurements, Store, fit, read_bytes};

use super::advice::advised;
use crate::ExitStatus;
use crate::ui::Ui;

#[cfg(feature = "system")]
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

/// Models that were stored, or of measurements.
pub(super) fn read_models(path: &Path) -> anyhow::Result<iotide_api::Models> {
    let name = path.display().to_string();
    let bytes = read_bytes(path).map_err(advised)?;
    match Measurements::from_bytes(&name, &bytes, None) {
        Ok(measured) => fit(measured, &FitOptions::default()).map_err(advised),
        // What `iotide model` stored is no table of measurements, but holds one.
        Err(error) => {
            let options = FitOptions { store: Store::Known { name, bytes }, ..FitOptions::default() };
            fit(Measurements::default(), &options).map_err(|_| advised(error))
        }
    }
}
