//! `iotide stage wait`: until files are safe, or have come.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use iotide_stage::{Waited, is_safe, root_of};

use crate::ExitStatus;
use crate::commands::ioskel::parse_seconds;
use crate::ui::Ui;

/// Wait until files of a buffer are safe, or inputs have come
///
/// A directory stands for all in it that `stage out` does not leave out. Exit status: 0 all of it is safe or there, 1 it is not (the time is over, or no stager is at work).
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct WaitArgs {
    /// Files or directories in the buffer
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Wait no longer than this
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    timeout: Option<f64>,
}

const EXAMPLES: &str = "\
Examples:
  iotide stage wait /nvme/run/checkpoint-7 && echo safe
  iotide stage wait /nvme/inputs/mesh.h5 --timeout 10min && ./simulation";

pub(super) fn run(ui: &mut Ui, args: &WaitArgs) -> anyhow::Result<ExitStatus> {
    let began = Instant::now();
    let mut left = Vec::new();
    for path in &args.paths {
        left.push((path, root_of(path)?));
    }
    // A stager that was started just before may not have its lock yet.
    let mut n_nobody = 0;
    loop {
        let mut is_nobody = false;
        let mut waiting = Vec::new();
        for (path, (root, relative)) in left {
            match is_safe(&root, &relative)? {
                Waited::Safe => continue,
                Waited::Working => {}
                Waited::Nobody => is_nobody = true,
                Waited::LeftOut => {
                    let why = "is left out by the patterns of `stage out`, so that it never will be safe";
                    ui.status(format_args!("{} {why}", path.display()));
                    return Ok(ExitStatus::NothingFound);
                }
            }
            waiting.push((path, (root, relative)));
        }
        left = waiting;
        let Some((path, _)) = left.first() else { return Ok(ExitStatus::Done) };
        n_nobody = if is_nobody { n_nobody + 1 } else { 0 };
        let is_late = args.timeout.is_some_and(|timeout| began.elapsed() >= Duration::from_secs_f64(timeout));
        if n_nobody >= 5 || is_late {
            let why = if is_late { "the time is over" } else { "and nobody is staging it" };
            ui.status(format_args!("{} is not safe, {why}", path.display()));
            return Ok(ExitStatus::NothingFound);
        }
        thread::sleep(Duration::from_millis(200));
    }
}
