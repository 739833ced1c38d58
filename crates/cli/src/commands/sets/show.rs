//! `iotide sets show`: the jobs at a storage, as its scheduler sees them.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use iotide_report::{Document, Ink, Report, StorageJobs};

use crate::ExitStatus;
use crate::commands::{Form, OutputArgs};
use crate::ui::{Hint, Ui};

/// Show jobs, their periods, sets, shares and bandwidth
///
/// Asks a mount or an arbiter through its control socket (`--control PATH` when it was started). On a terminal the table is
/// shown anew every second until Ctrl-C; otherwise once.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ShowArgs {
    /// Control socket of a mount or an arbiter; several are shown one after the other
    #[arg(required = true, value_name = "SOCKET")]
    sockets: Vec<PathBuf>,
    /// Show the table every SECONDS; 0 shows it once [default: 1 on a terminal, else 0]
    #[arg(long, value_name = "SECONDS")]
    every: Option<f64>,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  iotide sets show /run/iotide.sock
  iotide sets show /run/iotide.sock --format json --every 10    for a script, a document every ten seconds";

pub(crate) fn run(ui: &mut Ui, args: &ShowArgs) -> anyhow::Result<ExitStatus> {
    let is_watched = ui.out_is_terminal() && args.output.file().is_none() && args.output.form() == Form::Text;
    let every_s = args.every.unwrap_or(if is_watched { 1.0 } else { 0.0 });
    if !every_s.is_finite() || every_s < 0.0 {
        bail!("--every {every_s} is no number of seconds");
    }
    loop {
        let (storages, is_whole) = ask_all(ui, &args.sockets)?;
        let report = Report::of_storages(storages);
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

/// What each storage says, and whether all have answered: one that is away does not hide the others.
fn ask_all(ui: &mut Ui, sockets: &[PathBuf]) -> anyhow::Result<(Vec<StorageJobs>, bool)> {
    let mut storages = Vec::new();
    let mut first = None;
    for socket in sockets {
        match ask(socket) {
            Ok(storage) => storages.push(storage),
            Err(error) => {
                if sockets.len() > 1 {
                    ui.status(format_args!("{error:#}"));
                }
                first = first.or(Some(error));
            }
        }
    }
    match first {
        Some(error) if storages.is_empty() => Err(error),
        trouble => Ok((storages, trouble.is_none())),
    }
}

/// No table of jobs is longer.
const MAX_ANSWER: u64 = 64 << 20;

/// How long a control socket is waited for.
const WITHIN: Duration = Duration::from_secs(10);

pub(in crate::commands) fn ask(socket: &Path) -> anyhow::Result<StorageJobs> {
    ask_within(socket, WITHIN)
}

/// Asks a control socket for its jobs.
pub(in crate::commands) fn ask_within(socket: &Path, within: Duration) -> anyhow::Result<StorageJobs> {
    let shown = socket.display();
    let answer = say(socket, "jobs", within)?;
    StorageJobs::from_answer(&shown.to_string(), &answer)
        .with_context(|| format!("{shown} gives no list of jobs"))
}

/// Says what the period of a job is, or with `None` that it is not known.
pub(in crate::commands) fn set_period(socket: &Path, job: &str, period_s: Option<f64>) -> anyhow::Result<()> {
    let period = period_s.map_or_else(|| "none".to_owned(), |period_s| period_s.to_string());
    let answer = say(socket, &format!("period {job} {period}"), WITHIN)?;
    if !answer.starts_with("{\"ok\":true}") {
        bail!("{} refuses: {}", socket.display(), answer.trim_end());
    }
    Ok(())
}

/// One line there, one back.
fn say(socket: &Path, question: &str, within: Duration) -> anyhow::Result<String> {
    Ok(say_all(socket, [question.to_owned()], within)?.swap_remove(0))
}

/// Lines there, and an answer to each back.
pub(in crate::commands) fn say_all(
    socket: &Path,
    questions: impl IntoIterator<Item = String>,
    within: Duration,
) -> anyhow::Result<Vec<String>> {
    let shown = socket.display();
    let mut line = UnixStream::connect(socket).with_context(|| format!("cannot connect to {shown}")).hint(
        "it is made by `--control PATH` of `iotide mount` or `iotide arbiter`, which must be running",
    )?;
    line.set_read_timeout(Some(within)).and_then(|()| line.set_write_timeout(Some(within)))?;
    let mut replies = BufReader::new(line.try_clone()?.take(MAX_ANSWER));
    let one = |question: String| {
        line.write_all(format!("{question}\n").as_bytes())
            .with_context(|| format!("{shown} does not listen"))?;
        let mut answer = String::new();
        replies.read_line(&mut answer).with_context(|| format!("{shown} does not answer"))?;
        Ok(answer)
    };
    questions.into_iter().map(one).collect()
}
