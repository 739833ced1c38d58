//! `iotide`: tells the rhythm of an HPC job's I/O.
//!
//! Parses the command line, runs one command, and maps what came of it to an exit status: 0 done or found, 1 nothing
//! found, 2 failed. A reader that went away (`iotide … | head`) is not a failure.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};

use crate::commands::{Command, expand_name};
use crate::ui::{ReaderGone, Ui};

mod commands;
mod handlers;
#[cfg(test)]
mod reference;
mod terminal;
mod ui;

fn main() -> ExitCode {
    // The first question of `std` about a file that fails is followed by one about no file at all, at which GekkoFS's library crashes.
    let _ = std::fs::metadata("/");
    handlers::take_signals_back();
    let mut ui = Ui::new();
    let args = match expand_name(std::env::args_os().collect()) {
        Ok(args) => args,
        Err(error) => {
            ui.error(&error);
            return ExitStatus::Failed.into();
        }
    };
    let parsed =
        command_line().try_get_matches_from(args).and_then(|matches| Cli::from_arg_matches(&matches));
    let status = match parsed {
        Ok(cli) => cli.command.run(&mut ui),
        Err(usage) if usage.use_stderr() => {
            ui.usage_error(&usage);
            Ok(ExitStatus::Failed)
        }
        Err(answer) => ui.answer(&answer).map(|()| ExitStatus::Done),
    };
    match status {
        Ok(status) => status.into(),
        Err(error) if error.is::<ReaderGone>() => ExitStatus::Done.into(),
        Err(error) => {
            ui.error(&error);
            ExitStatus::Failed.into()
        }
    }
}

/// Finds the rhythm of an HPC job's I/O, and schedules by it
///
/// Records or reads traces of a program's I/O and reports whether it is periodic, what the period is, and how certain that is.
#[derive(clap::Parser, Debug)]
#[command(version, propagate_version = true, max_term_width = 100, after_help = EXAMPLES, help_template = TEMPLATE)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  iotide run -- ./simulation               record a program, the answer, and a page
  iotide record -- ./simulation            only trace its I/O
  iotide detect run.csv                    what is the period of this run's I/O?
  iotide detect --follow iotide-trace      the same while it runs, and when the next phase begins
  iotide report run.csv -o run.html        everything about it as a page with pictures
  iotide compare before.csv after.csv      what differs between runs, and by how much?
  iotide why run.csv --history earlier     why was it slower than before?
  iotide info job.darshan                  what does this log hold, and what did it lose?
  iotide categorize /logs --out results    what did all the jobs of the year do?
  iotide model --from-traces *.darshan     how does it scale?
  iotide simulate io report                what would scheduling by rhythm do?
  iotide simulate system system.json       which state will the storage be in?
  iotide serve                             watch every job of this machine, live
  iotide demo                              see it all at work on this machine
  iotide COMMAND --help                    more on a command";

/// The commands stand in groups, which [`command_line`] puts before the options.
const TEMPLATE: &str =
    "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}Options:\n{options}{after-help}";

/// Groups of commands, by what one wants.
const GROUPS: &[(&str, &[&str])] = &[
    ("See what a program does", &["run", "record", "report", "info", "convert", "demo"]),
    ("Understand", &["detect", "categorize", "compare", "why", "model", "signature", "templates"]),
    ("Try out", &["simulate", "ladder", "ioskel"]),
    ("Act", &["sets", "mount", "arbiter", "resize", "stage"]),
    ("Watch a machine", &["serve", "jobs", "job", "top", "nodes", "alarms", "decisions", "web"]),
    ("Set up", &["library", "completions", "man", "help"]),
];

/// The command line as a definition, from which it is read, explained and completed.
pub(crate) fn command_line() -> clap::Command {
    let mut command = Cli::command();
    command.build();
    let mut groups = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(groups, "{title}:");
        for name in *names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let _ = writeln!(groups, "  {name:12} {}", about.cloned().unwrap_or_default());
        }
        groups.push('\n');
    }
    Cli::command().before_help(groups.trim_end().to_owned())
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitStatus {
    /// The command did its work; for a question, the answer is "yes, here".
    Done,
    /// The question was answered with "there is none".
    NothingFound,
    /// The question was answered with "it got worse".
    Worse,
    /// Something could not be done, as told on stderr.
    Failed,
    /// Stopped by the user, to be gone on with later.
    Interrupted,
    /// As a program that was run for the user ended.
    Program(u8),
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        ExitCode::from(match status {
            ExitStatus::Done => 0,
            ExitStatus::NothingFound | ExitStatus::Worse => 1,
            ExitStatus::Failed => 2,
            ExitStatus::Interrupted => 130,
            ExitStatus::Program(code) => code,
        })
    }
}
