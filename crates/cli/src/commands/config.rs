//! `iotide config`: the settings that hold, and where each comes from.

use super::OutputArgs;
use crate::ExitStatus;
use crate::config::{Config, example};
use crate::ui::Ui;

/// Show the settings that hold, and where each comes from
///
/// Settings are read from /etc/iotide/config.toml, then from ~/.config/iotide/config.toml (in $XDG_CONFIG_HOME if that is set); IOTIDE_CONFIG names
/// another file instead of both. Variables of the environment override files, and options override these. A mistake in a file is an error of every command but
/// those that run programs or serve: they report it and go on.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConfigArgs {
    /// Print a file that explains all settings and sets none
    #[arg(long)]
    example: bool,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  iotide config
  iotide config --example > ~/.config/iotide/config.toml";

impl ConfigArgs {
    pub(super) fn is_example(&self) -> bool {
        self.example
    }
}

pub(crate) fn run(ui: &mut Ui, args: &ConfigArgs) -> anyhow::Result<ExitStatus> {
    if args.example {
        ui.out(&example())?;
    } else {
        let config = Config::held();
        args.output.deliver(ui, &config.report(ui.is_quiet() && !config.is_quiet()))?;
    }
    Ok(ExitStatus::Done)
}
