//! `iotide`: tells the rhythm of an HPC job's I/O.
//!
//! Parses the command line, runs one command, and maps what came of it to an exit status: 0 done or found, 1 nothing
//! found, 2 failed. A reader that went away (`iotide … | head`) is not a failure.
//!
//! [`run_program`] is the program itself. [`ask`] runs a command for another program, in its process: nothing is printed.

// The analysis side alone uses less of what all commands share.
#![cfg_attr(not(feature = "system"), allow(dead_code))]

use std::ffi::OsString;
use std::fmt::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};

use crate::commands::{Command, expand_name};
use crate::config::Config;
use crate::ui::{Hint as _, ReaderGone, Ui};

pub use crate::asked::{Answered, Asker, Fault, FaultKind, Progress, ask, ask_daemon, inputs};
pub use crate::commands::Daemon;

mod asked;
mod commands;
mod config;
mod handlers;
mod manual;
#[cfg(test)]
mod reference;
mod terminal;
mod ui;

/// Runs the program: `args` begins with its name.
///
/// Takes the place of the whole process: signals are handled as by a program of its own.
pub fn run_program(args: Vec<OsString>) -> ExitStatus {
    // The first question of `std` about a file that fails is followed by one about no file at all, at which GekkoFS's library crashes.
    let _ = std::fs::metadata("/");
    handlers::take_signals_back();
    run_args(&mut Ui::new(), args)
}

/// Parses the arguments and runs the command; errors go to `ui`.
fn run_args(ui: &mut Ui, args: Vec<OsString>) -> ExitStatus {
    if Config::held().has_binary_units() {
        iotide_report::text::use_binary_units();
    }
    let args = match expand_name(args) {
        Ok(args) => args,
        Err(error) => {
            ui.error(&error);
            return ExitStatus::Failed;
        }
    };
    let parsed = command_line().try_get_matches_from(args).and_then(|matches| {
        if is_quiet(&matches) {
            ui.be_quiet();
        }
        Cli::from_arg_matches(&matches)
    });
    let status = match parsed {
        Ok(cli) => run(ui, &cli.command),
        Err(usage) if usage.use_stderr() => {
            ui.usage_error(&usage);
            Ok(ExitStatus::Failed)
        }
        Err(answer) => ui.answer(&answer).map(|()| ExitStatus::Done),
    };
    match status {
        Ok(status) => status,
        Err(error) if error.is::<ReaderGone>() => ExitStatus::Done,
        Err(error) => {
            ui.error(&error);
            ExitStatus::Failed
        }
    }
}

fn run(ui: &mut Ui, command: &Command) -> anyhow::Result<ExitStatus> {
    match Config::held().fault() {
        // A job must not fail for a mistake in how things are shown.
        Some(fault) if command.runs_whatever_the_settings() => ui.warning(format_args!("iotide: {fault}")),
        Some(fault) => {
            return Err(anyhow::anyhow!("{fault}")).hint("`iotide config --example` explains all settings");
        }
        None => {}
    }
    command.run(ui)
}

/// Finds the rhythm of an HPC job's I/O, and schedules by it
///
/// Records or reads traces of a program's I/O and reports whether it is periodic, what the period is, and how certain that is.
#[derive(clap::Parser, Debug)]
#[command(version, propagate_version = true, max_term_width = 100, help_template = TEMPLATE, disable_help_subcommand = true)]
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
  iotide simulate io rr9537                what would scheduling by rhythm do?
  iotide simulate system system.json       which state will the storage be in?
  iotide serve                             watch every job of this machine, live
  iotide mcp --root /logs                  answer the questions of an assistant
  iotide demo                              see it all at work on this machine
  iotide doctor                            what works here, and what is missing?
  iotide help topics                       the pages of the documentation
  iotide COMMAND --help                    more on a command";

/// The commands stand in groups, which [`command_line`] puts before the options.
const TEMPLATE: &str =
    "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}Options:\n{options}{after-help}";

/// Groups of commands, by what one wants.
const GROUPS: &[(&str, &[&str])] = &[
    ("See what a program does", &["run", "record", "report", "info", "convert", "demo"]),
    ("Understand", &["detect", "categorize", "compare", "why", "measure", "model", "signature", "templates"]),
    ("Try out", &["simulate", "checkpoint", "ladder", "ioskel"]),
    ("Act", &["sets", "mount", "arbiter", "resize", "stage"]),
    ("Watch a machine", &["serve", "jobs", "job", "top", "nodes", "alarms", "policy", "decisions", "web"]),
    ("Set up", &["doctor", "config", "library", "mcp", "completions", "man", "help"]),
];

/// The command line as a definition, from which it is read, explained and completed.
pub(crate) fn command_line() -> clap::Command {
    let command = Cli::command();
    let about_of = |name: &str| {
        let below = command.find_subcommand(name)?;
        Some(below.get_about().cloned().unwrap_or_default().to_string())
    };
    let mut groups = String::new();
    for (title, names) in GROUPS {
        let row = |name: &&str| about_of(name).map(|about| format!("  {name:12} {about}\n"));
        let rows: Vec<String> = names.iter().filter_map(row).collect();
        if !rows.is_empty() {
            let _ = writeln!(groups, "{title}:\n{}", rows.concat());
        }
    }
    let is_there = |line: &&str| {
        let name = line.strip_prefix("  iotide ").and_then(|rest| rest.split(' ').next());
        name.is_none_or(|name| name == "COMMAND" || command.find_subcommand(name).is_some())
    };
    let examples = EXAMPLES.lines().filter(is_there).collect::<Vec<&str>>().join("\n");
    with_quiet(command.before_help(groups.trim_end().to_owned()).after_help(examples))
}

/// The name of `--quiet` among the arguments of each command.
const QUIET: &str = "only_results";

/// Adds `--quiet` to a command and to all below it, but where it means something else.
fn with_quiet(command: clap::Command) -> clap::Command {
    let command = command.mut_subcommands(with_quiet);
    if command.is_hide_set() || command.get_arguments().any(|arg| arg.get_long() == Some("quiet")) {
        return command;
    }
    let quiet = clap::Arg::new(QUIET).short('q').long("quiet").action(clap::ArgAction::SetTrue);
    command.arg(quiet.help("Print results and errors only"))
}

/// Whether `--quiet` is given, before or behind the name of a command.
fn is_quiet(matches: &clap::ArgMatches) -> bool {
    matches.try_get_one::<bool>(QUIET).ok().flatten() == Some(&true)
        || matches.subcommand().is_some_and(|(_, below)| is_quiet(below))
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// The command did its work; for a question, the answer is "yes, here".
    Done,
    /// The question was answered with "there is none".
    NothingFound,
    /// The question was answered with "it got worse".
    Worse,
    /// Something could not be done, as reported on stderr.
    Failed,
    /// Stopped by the user, to be resumed later.
    Interrupted,
    /// As a program that was run for the user ended.
    Program(u8),
}

impl ExitStatus {
    /// The number that the shell sees.
    pub fn code(self) -> u8 {
        match self {
            ExitStatus::Done => 0,
            ExitStatus::NothingFound | ExitStatus::Worse => 1,
            ExitStatus::Failed => 2,
            ExitStatus::Interrupted => 130,
            ExitStatus::Program(code) => code,
        }
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        ExitCode::from(status.code())
    }
}
