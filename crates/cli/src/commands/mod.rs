//! The commands, the arguments they share, and the way to each.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use iotide_report::{Document, Ink};

use crate::ExitStatus;
use crate::ui::Ui;

pub use self::asking::Daemon;
pub(crate) use self::{
    advice::advised,
    asking::{ask as get_from_daemon, ask_daemon_at},
    input::InputArgs,
    ioskel::expand_name,
};

mod advice;
#[cfg(feature = "system")]
mod alarms;
mod analysis;
#[cfg(feature = "system")]
mod arbiter;
mod asking;
mod categorize;
mod checkpoint;
mod compare;
mod completions;
mod config;
mod convert;
#[cfg(feature = "system")]
mod decisions;
#[cfg(feature = "system")]
mod demo;
mod detect;
#[cfg(feature = "system")]
mod doctor;
mod document;
mod follow;
mod help;
mod info;
mod input;
mod ioskel;
#[cfg(feature = "system")]
mod jobs;
mod ladder;
#[cfg(feature = "system")]
mod library;
mod mcp;
mod measure;
mod model;
#[cfg(feature = "system")]
mod mount;
#[cfg(feature = "system")]
mod policies;
#[cfg(feature = "system")]
mod record;
mod report;
#[cfg(feature = "system")]
mod resize;
#[cfg(feature = "system")]
mod run;
#[cfg(feature = "system")]
mod scheduling;
#[cfg(feature = "system")]
mod serve;
#[cfg(feature = "system")]
mod sets;
mod settings;
mod signature;
mod simulate;
#[cfg(feature = "system")]
mod source;
#[cfg(feature = "system")]
mod stage;
mod templates;
#[cfg(feature = "system")]
mod web;
mod why;

#[derive(clap::Subcommand, Debug)]
pub(crate) enum Command {
    Detect(detect::DetectArgs),
    Categorize(categorize::CategorizeArgs),
    #[cfg(feature = "system")]
    #[command(after_help = run::EXAMPLES)]
    Run(run::RunArgs),
    #[cfg(feature = "system")]
    Record(record::RecordArgs),
    Report(report::ReportArgs),
    Compare(compare::CompareArgs),
    Why(Box<why::WhyArgs>),
    Measure(Box<measure::MeasureArgs>),
    Checkpoint(checkpoint::CheckpointArgs),
    Info(info::InfoArgs),
    Convert(convert::ConvertArgs),
    Model(model::ModelArgs),
    Signature(signature::SignatureArgs),
    Simulate(simulate::SimulateArgs),
    Ladder(ladder::LadderArgs),
    Templates(templates::TemplatesArgs),
    #[cfg(feature = "system")]
    Resize(resize::ResizeArgs),
    #[cfg(feature = "system")]
    Stage(Box<stage::StageArgs>),
    #[cfg(feature = "system")]
    Sets(sets::SetsArgs),
    #[cfg(feature = "system")]
    Mount(mount::MountArgs),
    #[cfg(feature = "system")]
    Arbiter(arbiter::ArbiterArgs),
    #[cfg(feature = "system")]
    Serve(Box<serve::ServeArgs>),
    #[cfg(feature = "system")]
    Jobs(jobs::JobsArgs),
    #[cfg(feature = "system")]
    Job(jobs::JobArgs),
    #[cfg(feature = "system")]
    Top(jobs::TopArgs),
    #[cfg(feature = "system")]
    Nodes(jobs::NodesArgs),
    #[cfg(feature = "system")]
    Alarms(alarms::AlarmsArgs),
    #[cfg(feature = "system")]
    Decisions(decisions::DecisionsArgs),
    #[cfg(feature = "system")]
    Policy(policies::PolicyArgs),
    #[cfg(feature = "system")]
    Web(web::WebArgs),
    Ioskel(ioskel::IoskelArgs),
    #[cfg(feature = "system")]
    Demo(demo::DemoArgs),
    #[cfg(feature = "system")]
    Doctor(doctor::DoctorArgs),
    Config(config::ConfigArgs),
    #[cfg(feature = "system")]
    Library(library::LibraryArgs),
    Mcp(mcp::McpArgs),
    Completions(completions::CompletionsArgs),
    Man(completions::ManArgs),
    Help(help::HelpArgs),
}

impl Command {
    /// Whether a mistake in the settings is reported and no more: programs run, are served, and find the library all the same.
    pub(crate) fn runs_whatever_the_settings(&self) -> bool {
        match self {
            #[cfg(feature = "system")]
            Command::Record(_)
            | Command::Run(_)
            | Command::Serve(_)
            | Command::Mount(_)
            | Command::Arbiter(_)
            | Command::Stage(_)
            | Command::Doctor(_)
            | Command::Library(_) => true,
            Command::Completions(_) | Command::Help(_) => true,
            Command::Config(args) => args.is_example(),
            _ => false,
        }
    }

    pub(crate) fn run(&self, ui: &mut Ui) -> anyhow::Result<ExitStatus> {
        match self {
            Command::Detect(args) => detect::run(ui, args),
            Command::Categorize(args) => categorize::run(ui, args),
            #[cfg(feature = "system")]
            Command::Run(args) => run::run(ui, args),
            #[cfg(feature = "system")]
            Command::Record(args) => record::run(ui, args),
            Command::Report(args) => report::run(ui, args),
            Command::Compare(args) => compare::run(ui, args),
            Command::Why(args) => why::run(ui, args),
            Command::Checkpoint(args) => checkpoint::run(ui, args),
            Command::Measure(args) => measure::run(ui, args),
            Command::Info(args) => info::run(ui, args),
            Command::Convert(args) => convert::run(ui, args),
            Command::Model(args) => model::run(ui, args),
            Command::Signature(args) => signature::run(ui, args),
            Command::Simulate(args) => simulate::run(ui, args),
            Command::Ladder(args) => ladder::run(ui, args),
            Command::Templates(args) => templates::run(ui, args),
            #[cfg(feature = "system")]
            Command::Resize(args) => resize::run(ui, args),
            #[cfg(feature = "system")]
            Command::Stage(args) => stage::run(ui, args),
            #[cfg(feature = "system")]
            Command::Sets(args) => sets::run(ui, args),
            #[cfg(feature = "system")]
            Command::Mount(args) => mount::run(ui, args),
            #[cfg(feature = "system")]
            Command::Arbiter(args) => arbiter::run(ui, args),
            #[cfg(feature = "system")]
            Command::Serve(args) => serve::run(ui, args),
            #[cfg(feature = "system")]
            Command::Policy(args) => policies::run(ui, args),
            #[cfg(feature = "system")]
            Command::Jobs(args) => jobs::run_jobs(ui, args),
            #[cfg(feature = "system")]
            Command::Job(args) => jobs::run_job(ui, args),
            #[cfg(feature = "system")]
            Command::Top(args) => jobs::run_top(ui, args),
            #[cfg(feature = "system")]
            Command::Nodes(args) => jobs::run_nodes(ui, args),
            #[cfg(feature = "system")]
            Command::Alarms(args) => alarms::run(ui, args),
            #[cfg(feature = "system")]
            Command::Decisions(args) => decisions::run(ui, args),
            #[cfg(feature = "system")]
            Command::Web(args) => web::run(ui, args),
            Command::Ioskel(args) => ioskel::run(ui, args),
            #[cfg(feature = "system")]
            Command::Demo(args) => demo::run(ui, args),
            #[cfg(feature = "system")]
            Command::Doctor(args) => doctor::run(ui, args),
            Command::Config(args) => config::run(ui, args),
            #[cfg(feature = "system")]
            Command::Library(args) => library::run(ui, args),
            Command::Mcp(args) => mcp::run(ui, args),
            Command::Completions(args) => completions::run(ui, args),
            Command::Man(args) => completions::run_man(ui, args),
            Command::Help(args) => help::run(ui, args),
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

/// Returns the flag that Ctrl-C sets, or by which a program that asks in this process stops the work.
pub(crate) fn stop_flag(ui: &Ui) -> anyhow::Result<Arc<AtomicBool>> {
    match ui.stop_of_asker() {
        Some(stop) => Ok(stop),
        None => {
            let stop = Arc::default();
            heed_signals(&stop)?;
            Ok(stop)
        }
    }
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
        ui.also_in_words(|width| document.to_text(width, Ink::Plain));
        let answer = match (self.format, &self.output) {
            (Form::Json, _) => document.to_json(),
            (Form::Text, Some(_)) => document.to_text(ui.width(), Ink::Plain),
            (Form::Text, None) => document.to_text(ui.width(), ui.ink()),
        };
        match &self.output {
            Some(path) => ui.answer_file(path, &answer),
            None => ui.out(&answer),
        }
    }
}
