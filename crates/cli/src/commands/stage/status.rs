//! `iotide stage status`: how a buffer or a destination stands.

use std::path::{Path, PathBuf};

use anyhow::bail;
use iotide_report::{StageAnswer, Staging};
use iotide_stage::{OWN, is_being_staged};

use super::out::{files_ending_in, read_status};
use super::{KILLED, status_of};
use crate::ExitStatus;
use crate::commands::OutputArgs;
use crate::ui::Ui;

/// See what is safe, what is left and why
///
/// Exit status: 0 everything was safe when the stager last looked, 1 something is left, nobody has looked yet, or the stager was killed.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct StatusArgs {
    /// The destination or the buffer of `iotide stage out`
    #[arg(value_name = "DST")]
    dst: PathBuf,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  iotide stage status /pfs/results
  iotide stage status /pfs/results --format json | jq '.runs[0].backlog_bytes'";

pub(super) fn run(ui: &mut Ui, args: &StatusArgs) -> anyhow::Result<ExitStatus> {
    let own = args.dst.join(OWN);
    let mut buffers: Vec<Staging> = read_live(&args.dst).into_iter().collect();
    for file in files_ending_in(&own, ".status.json") {
        if let Some(last) = read_status(&file) {
            // The buffer knows better, as long as it is there.
            let source = last.source.for_terminal();
            let live = read_live(Path::new(&source));
            buffers.push(live.filter(|live| live.destination == last.destination).unwrap_or(last));
        }
    }
    if buffers.is_empty() {
        bail!("{} has no status of `iotide stage out`", own.display());
    }
    let is_left = buffers.iter().any(|staging| status_of(staging) != ExitStatus::Done);
    args.output.deliver(ui, &StageAnswer::of_buffers(buffers))?;
    Ok(if is_left { ExitStatus::NothingFound } else { ExitStatus::Done })
}

/// How a buffer says that it stands. If nobody is at work, and the last who was did not end in good order, nothing is known of what came since.
fn read_live(buffer: &Path) -> Option<Staging> {
    let mut staging = read_status(&buffer.join(OWN).join("status.json"))?;
    let has_ended = matches!(&*staging.state, "done" | "stuck");
    if !has_ended && !is_being_staged(buffer) {
        staging.state = KILLED.to_owned();
        staging.reason = Some("run `iotide stage out` again to see what is left".into());
    }
    Some(staging)
}
