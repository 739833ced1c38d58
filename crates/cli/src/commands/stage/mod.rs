//! `iotide stage`: results leave a buffer while the job computes, inputs come into it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use iotide_report::{LeftFile, StagedFiles, Staging, Untrusted, text};
use iotide_stage::{Pace, Pattern, Tally};

use crate::ExitStatus;
use crate::ui::Ui;

mod at_storage;
mod fetch;
mod forecast;
mod out;
mod status;
mod turns;
mod verify;
mod wait;
mod worker;

/// Move files between a buffer and a parallel file system while a job computes
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StageArgs {
    #[command(subcommand)]
    what: What,
}

const EXAMPLES: &str = "\
Examples:
  iotide stage out /buffer /pfs/results &     keep results safe while the job runs; SIGTERM ends it
  iotide stage out /buffer /pfs/results --once --purge staged
  iotide stage in /pfs/inputs /buffer --list files.txt
  iotide stage wait /buffer/checkpoint-7      until it is safe
  iotide stage verify /pfs/results            is every byte still as it was?";

#[derive(clap::Subcommand, Debug)]
enum What {
    Out(Box<out::OutArgs>),
    In(Box<fetch::FetchArgs>),
    Wait(wait::WaitArgs),
    Status(status::StatusArgs),
    Verify(verify::VerifyArgs),
}

pub(crate) fn run(ui: &mut Ui, args: &StageArgs) -> anyhow::Result<ExitStatus> {
    match &args.what {
        What::Out(args) => out::run(ui, args),
        What::In(args) => fetch::run(ui, args),
        What::Wait(args) => wait::run(ui, args),
        What::Status(args) => status::run(ui, args),
        What::Verify(args) => verify::run(ui, args),
    }
}

/// Draws how much of all there is has moved while something is done: `what`, each byte so many times.
fn with_progress<T>(ui: &mut Ui, pace: &Pace, (what, times): (&str, u64), act: impl FnOnce() -> T) -> T {
    if !ui.shows_progress() {
        return act();
    }
    /// Ends the drawing whatever happens, at once.
    struct Drawing<'a>(&'a AtomicBool, thread::Thread);
    impl Drop for Drawing<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
            self.1.unpark();
        }
    }
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let drawing = scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                if let Some((moved, all)) = pace.progress() {
                    let bytes = |n: u64| text::bytes((n / times) as f64);
                    ui.progress_bar(
                        moved,
                        Some(all),
                        format_args!("{} of {} {what}", bytes(moved), bytes(all)),
                    );
                }
                thread::park_timeout(Duration::from_millis(100));
            }
        });
        let _drawing = Drawing(&is_done, drawing.thread().clone());
        act()
    })
}

/// Progress text of a copy, and how often each byte is moved.
const WRITTEN_AND_READ_BACK: (&str, u64) = ("written and read back", 2);

/// Names are bytes; people and JSON get text.
fn shown(path: &[u8]) -> Untrusted {
    OsStr::from_bytes(path).to_string_lossy().into()
}

fn parse_pattern(text: &str) -> Result<Pattern, String> {
    Pattern::parse(text).map_err(|error| error.to_string())
}

/// The last word on a tally. Paths are told whole: whoever reads them may be elsewhere.
fn told(tally: &Tally, source: &Path, destination: &Path) -> Staging {
    let whole = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let left =
        tally.left.iter().map(|left| LeftFile { path: shown(&left.path), why: left.why.as_str().into() });
    let lost = tally
        .first_plain
        .iter()
        .map(|lost| Untrusted::from(format!("{}: {}", String::from_utf8_lossy(&lost.path), lost.why)));
    Staging {
        source: whole(source).to_string_lossy().into(),
        destination: whole(destination).to_string_lossy().into(),
        state: "done".to_owned(),
        files: StagedFiles {
            safe: tally.safe,
            waiting: tally.waiting,
            open: tally.open,
            failed: tally.failed,
        },
        bytes_safe: tally.bytes_safe,
        backlog_bytes: tally.backlog_bytes,
        purged_bytes: tally.purged_bytes,
        plain_copies: tally.plain_copies,
        left: left.collect(),
        special: tally.special.iter().map(|path| shown(path)).collect(),
        notes: lost.collect(),
        ..Staging::default()
    }
}

/// The state of a buffer that was never looked at: nothing is known to be safe.
const UNSEEN: &str = "scan";
/// The state of one whose stager was killed: nothing is known of what was written since.
const KILLED: &str = "killed";

/// 0 if all is safe, 1 if something is left or nobody has looked.
fn status_of(staging: &Staging) -> ExitStatus {
    let StagedFiles { waiting, open, failed, .. } = staging.files;
    let is_known = staging.state != UNSEEN && staging.state != KILLED;
    if is_known && waiting + open + failed == 0 { ExitStatus::Done } else { ExitStatus::NothingFound }
}
