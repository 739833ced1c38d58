//! `iotide sets show`: the jobs at a storage, as its scheduler sees them, and those that a daemon knows.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use iotide_act::{control, parse_source};
use iotide_edge::client;
use iotide_report::{DecisionList, Document, Ink, Report, SourceJobs, SourceTarget, StorageJobs, WhoKnows};
use iotide_source::Source;

use crate::ExitStatus;
use crate::commands::jobs::unreadable;
use crate::commands::{Form, OutputArgs};
use crate::ui::{Hint, Ui};

/// Show jobs, their periods, sets, shares and bandwidth
///
/// Asks a mount or an arbiter through its control socket (`--control PATH` when it was started). Of a daemon (`daemon`, `daemon:PATH`), the jobs are shown that
/// it knows, with period, confidence and set, and then all mounts and arbiters that its rules act on (`[act]`). On a terminal the table is refreshed every second until Ctrl-C; otherwise once.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ShowArgs {
    /// Control socket of a mount or an arbiter, `daemon`, `daemon:PATH`, or where a detector listens (unix:PATH, tcp:HOST:PORT); several are shown one after the other
    #[arg(required = true, value_name = "SOCKET", value_parser = parse_source)]
    sockets: Vec<Source>,
    /// Show the table every SECONDS; 0 shows it once [default: 1 on a terminal, else 0]
    #[arg(long, value_name = "SECONDS")]
    every: Option<f64>,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  iotide sets show /run/iotide.sock
  iotide sets show daemon                                       all jobs, and all storages that the daemon acts on
  iotide sets show /run/iotide.sock --format json --every 10    for a script, a document every ten seconds";

pub(crate) fn run(ui: &mut Ui, args: &ShowArgs) -> anyhow::Result<ExitStatus> {
    let is_watched = ui.out_is_terminal() && args.output.file().is_none() && args.output.form() == Form::Text;
    let every_s = args.every.unwrap_or(if is_watched { 1.0 } else { 0.0 });
    if !every_s.is_finite() || every_s < 0.0 {
        bail!("--every {every_s} is no number of seconds");
    }
    loop {
        let (asked, is_whole) = ask_all(ui, &args.sockets)?;
        let report = Report::of_jobs(asked);
        if is_watched && every_s > 0.0 {
            // From the top, and nothing of the last one left below.
            ui.out(&format!("\x1b[H\x1b[2J{}", report.to_text(ui.width(), Ink::Ansi)))?;
        } else {
            args.output.deliver(ui, &report)?;
        }
        if every_s == 0.0 {
            return Ok(if is_whole { ExitStatus::Done } else { ExitStatus::Failed });
        }
        std::thread::sleep(Duration::from_secs_f64(every_s));
    }
}

/// What everyone says, and whether all have answered: one that is away does not hide the others.
fn ask_all(ui: &mut Ui, sources: &[Source]) -> anyhow::Result<(Vec<WhoKnows>, bool)> {
    let mut asked = Vec::new();
    let mut troubles = Vec::new();
    for source in sources {
        let is_daemon = matches!(source, Source::Path(path) if iotide_source::is_daemon(path));
        match source {
            Source::Path(control) if !is_daemon => match ask(control) {
                Ok(storage) => asked.push(WhoKnows::Storage(storage)),
                Err(error) => troubles.push(error),
            },
            _ => match ask_source(source) {
                Ok(known) => {
                    let targets = known.targets.iter().flatten();
                    let controls: Vec<PathBuf> =
                        targets.map(|target| target.control.as_said().into()).collect();
                    asked.push(WhoKnows::Source(known));
                    for control in controls {
                        match ask(&control) {
                            Ok(storage) => asked.push(WhoKnows::Storage(storage)),
                            Err(error) => troubles.push(error),
                        }
                    }
                }
                Err(error) => troubles.push(error),
            },
        }
    }
    if asked.is_empty() && troubles.len() == 1 {
        return Err(troubles.swap_remove(0));
    }
    for error in &troubles {
        ui.status(format_args!("{error:#}"));
    }
    match troubles.into_iter().next() {
        Some(error) if asked.is_empty() => Err(error),
        trouble => Ok((asked, trouble.is_none())),
    }
}

/// What a daemon or a detector knows, and the storages a daemon acts on.
fn ask_source(source: &Source) -> anyhow::Result<SourceJobs> {
    let jobs = source.ask().hint("`iotide serve` starts a daemon, `iotide detect --listen` a detector")?;
    let socket = match source {
        Source::Daemon { socket, .. } | Source::Path(socket) => socket,
        Source::Detector(_) => return Ok(SourceJobs::new(&source.to_string(), Some(Vec::new()), jobs)),
    };
    let answer = client::get(socket, "/api/1/decisions")?;
    let targets = match answer.status {
        200 => Some(SourceTarget::of(&DecisionList::from_json(&answer.body).map_err(unreadable)?)),
        // Whoever may not see decisions sees their own jobs.
        _ => None,
    };
    let name = match source {
        Source::Path(_) => format!("the daemon at {}", socket.display()),
        _ => source.to_string(),
    };
    Ok(SourceJobs::new(&name, targets, jobs))
}

/// Asks a control socket for its jobs.
pub(in crate::commands) fn ask(socket: &Path) -> anyhow::Result<StorageJobs> {
    control::ask(socket)
        .hint("it is made by `--control PATH` of `iotide mount` or `iotide arbiter`, which must be running")
}
