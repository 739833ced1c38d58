//! The commands, the arguments they share, and the way to each.

use std::path::PathBuf;

use crate::ExitStatus;
use crate::ui::Ui;

pub(crate) use self::ioskel::expand_name;

mod demo;
mod detect;
mod ioskel;

#[derive(clap::Subcommand, Debug)]
pub(crate) enum Command {
    Demo(demo::DemoArgs),
    Detect(detect::DetectArgs),
    Ioskel(ioskel::IoskelArgs),
}

impl Command {
    pub(crate) fn run(&self, ui: &mut Ui) -> anyhow::Result<ExitStatus> {
        match self {
            Command::Demo(args) => demo::run(ui, args),
            Command::Detect(args) => detect::run(ui, args),
            Command::Ioskel(args) => ioskel::run(ui, args),
        }
    }
}

/// How an answer is given.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = Form::Text, value_name = "FORM")]
    format: Form,
    /// Write the answer to FILE rather than to stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    /// For people
    Text,
    /// For scripts
    Json,
}
