//! The commands, the arguments they share, and the way to each.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use iotide_report::{Document, Ink};

use crate::ExitStatus;
use crate::ui::Ui;

pub(crate) use self::ioskel::expand_name;

mod advice;
mod alarms;
mod analysis;
mod arbiter;
mod categorize;
mod compare;
mod completions;
mod convert;
mod decisions;
mod demo;
mod detect;
mod document;
mod follow;
mod info;
mod input;
mod ioskel;
mod jobs;
mod ladder;
mod library;
mod model;
mod mount;
mod record;
mod report;
mod resize;
mod run;
mod scheduling;
mod serve;
mod sets;
mod settings;
mod signature;
mod simulate;
mod source;
mod stage;
mod templates;
mod web;
mod why;

#[derive(clap::Subcommand, Debug)]
pub(crate) enum Command {
    Detect(detect::DetectArgs),
    Categorize(categorize::CategorizeArgs),
    #[command(after_help = run::EXAMPLES)]
    Run(run::RunArgs),
    Record(record::RecordArgs),
    Report(report::ReportArgs),
    Compare(compare::CompareArgs),
    Why(Box<why::WhyArgs>),
    Info(info::InfoArgs),
    Convert(convert::ConvertArgs),
    Model(model::ModelArgs),
    Signature(signature::SignatureArgs),
    Simulate(simulate::SimulateArgs),
    Ladder(ladder::LadderArgs),
    Templates(templates::TemplatesArgs),
    Resize(resize::ResizeArgs),
    Stage(Box<stage::StageArgs>),
    Sets(sets::SetsArgs),
    Mount(mount::MountArgs),
    Arbiter(arbiter::ArbiterArgs),
    Serve(Box<serve::ServeArgs>),
    Jobs(jobs::JobsArgs),
    Job(jobs::JobArgs),
    Top(jobs::TopArgs),
    Nodes(jobs::NodesArgs),
    Alarms(alarms::AlarmsArgs),
    Decisions(decisions::DecisionsArgs),
    Web(web::WebArgs),
    Ioskel(ioskel::IoskelArgs),
    Demo(demo::DemoArgs),
    Library(library::LibraryArgs),
    Completions(completions::CompletionsArgs),
    Man(completions::ManArgs),
}

impl Command {
    pub(crate) fn run(&self, ui: &mut Ui) -> anyhow::Result<ExitStatus> {
        match self {
            Command::Detect(args) => detect::run(ui, args),
            Command::Categorize(args) => categorize::run(ui, args),
            Command::Run(args) => run::run(ui, args),
            Command::Record(args) => record::run(ui, args),
            Command::Report(args) => report::run(ui, args),
            Command::Compare(args) => compare::run(ui, args),
            Command::Why(args) => why::run(ui, args),
            Command::Info(args) => info::run(ui, args),
            Command::Convert(args) => convert::run(ui, args),
            Command::Model(args) => model::run(ui, args),
            Command::Signature(args) => signature::run(ui, args),
            Command::Simulate(args) => simulate::run(ui, args),
            Command::Ladder(args) => ladder::run(ui, args),
            Command::Templates(args) => templates::run(ui, args),
            Command::Resize(args) => resize::run(ui, args),
            Command::Stage(args) => stage::run(ui, args),
            Command::Sets(args) => sets::run(ui, args),
            Command::Mount(args) => mount::run(ui, args),
            Command::Arbiter(args) => arbiter::run(ui, args),
            Command::Serve(args) => serve::run(ui, args),
            Command::Jobs(args) => jobs::run_jobs(ui, args),
            Command::Job(args) => jobs::run_job(ui, args),
            Command::Top(args) => jobs::run_top(ui, args),
            Command::Nodes(args) => jobs::run_nodes(ui, args),
            Command::Alarms(args) => alarms::run(ui, args),
            Command::Decisions(args) => decisions::run(ui, args),
            Command::Web(args) => web::run(ui, args),
            Command::Ioskel(args) => ioskel::run(ui, args),
            Command::Demo(args) => demo::run(ui, args),
            Command::Library(args) => library::run(ui, args),
            Command::Completions(args) => completions::run(ui, args),
            Command::Man(args) => completions::run_man(ui, args),
        }
    }
}

/// Makes Ctrl-C, and the signal by which batch systems announce the end, set `stop`; a second one ends the program at once.
pub(crate) fn heed_signals(stop: &Arc<AtomicBool>) -> anyhow::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::flag;
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, 128 + signal, stop.clone())
            .and_then(|_| flag::register(signal, stop.clone()))
            .context("cannot listen to signals")?;
    }
    Ok(())
}

/// How an answer is given.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Form of the answer: for people or for scripts
    #[arg(long, value_enum, default_value_t = Form::Text, value_name = "FORM")]
    format: Form,
    /// Write the answer to FILE rather than to stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Form {
    Text,
    Json,
}

impl OutputArgs {
    /// The form of the answer.
    pub(crate) fn form(&self) -> Form {
        self.format
    }

    /// The file it goes to, if not to stdout.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.output.as_deref()
    }

    /// Gives the answer.
    pub(crate) fn deliver(&self, ui: &mut Ui, document: &impl Document) -> anyhow::Result<()> {
        let answer = match (self.format, &self.output) {
            (Form::Json, _) => document.to_json(),
            (Form::Text, Some(_)) => document.to_text(ui.width(), Ink::Plain),
            (Form::Text, None) => document.to_text(ui.width(), ui.ink()),
        };
        match &self.output {
            Some(path) => ui.out_file(path, &answer),
            None => ui.out(&answer),
        }
    }
}
