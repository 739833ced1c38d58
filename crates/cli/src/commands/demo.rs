//! `iotide demo`: the whole chain on this machine, with a rhythm whose truth is known.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};
use iotide_api::{Input, OpenOptions, Report, ReportOptions};
use iotide_ioskel::{Performed, Skeleton, make_folder, perform, write_events};
use iotide_pages::RunPage;
use iotide_private::PrivateDir;
use iotide_report::text;

use self::live::{Daemon, Seen};
use super::advice::advised;
use super::ioskel::parse_seconds;
use super::library::{self, LibraryPlace};
use super::{heed_signals, record};
use crate::ExitStatus;
use crate::ui::{Hint, Ui};

mod closed_loop;
mod live;

/// Show the whole chain on this machine in under a minute
///
/// Runs a small program with a known rhythm under the tracer in a temporary folder, watched by a daemon of its own (`iotide serve`), reads the
/// trace, finds its period, and writes a page with pictures. Needs no network and installs nothing; all but the page is removed at the end.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DemoArgs {
    /// Where to write the page
    #[arg(short, long, value_name = "FILE", default_value = "iotide-demo.html")]
    output: PathBuf,
    /// Time from one burst to the next
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_seconds)]
    period: f64,
    /// How many bursts
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(2..))]
    bursts: u32,
    /// Show the closed loop instead: three jobs on one storage, without and then with a daemon that acts; each for TIME [default: 70s]
    #[arg(long = "loop", value_name = "TIME", num_args = 0..=1, default_missing_value = "70s", value_parser = parse_seconds, conflicts_with_all = ["period", "bursts"])]
    closed_loop: Option<f64>,
}

const EXAMPLES: &str = "\
Examples:
  iotide demo
  iotide demo --period 500ms -o /tmp/demo.html
  iotide demo --loop -o loop.html                 in about two minutes";

const N_PROCESSES: u32 = 2;
const BURST_BYTES: u64 = 8 << 20;

pub(crate) fn run(ui: &mut Ui, args: &DemoArgs) -> anyhow::Result<ExitStatus> {
    if let Some(run_s) = args.closed_loop {
        return closed_loop::run(ui, args, run_s);
    }
    // First, so that nobody waits for a page that cannot be written.
    check_writable(&args.output)
        .with_context(|| format!("cannot write {}", args.output.display()))
        .hint("choose another place for the page with -o FILE")?;
    let stop = Arc::new(AtomicBool::new(false));
    heed_signals(&stop)?;
    let folder = PrivateDir::new("demo")
        .context("cannot make a temporary folder")
        .hint("set TMPDIR to a folder you can write to")?;
    let tracing = Tracing::prepare(folder.path());
    let mut environment = tracing.as_ref().map_or_else(|_| Vec::new(), Tracing::environment);
    let daemon = Daemon::start(folder.path(), None);
    if let Ok(daemon) = &daemon {
        environment.extend(daemon.environment());
    }
    let skeleton = skeleton(args, folder.path(), environment);
    ui.status(format_args!(
        "1. running {N_PROCESSES} processes that write {} each, every {}, {} times, in {} (about {})",
        text::bytes(BURST_BYTES as f64),
        text::seconds(args.period),
        args.bursts,
        skeleton.dir.display(),
        text::seconds(args.period * f64::from(args.bursts - 1)),
    ));
    let mut seen_live = None;
    let folder = make_folder(&skeleton)?;
    let performed = perform(&skeleton, &folder, &stop, &mut |done, total| {
        ui.progress_bar(done.into(), Some(total.into()), format_args!("burst {done} of {total}"));
        if done + 1 == total {
            seen_live = daemon.as_ref().ok().and_then(Daemon::job);
        }
    })?;
    // What was made and started goes with this.
    if stop.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    if let Some(failure) = performed.failure {
        return Err(anyhow::Error::msg(failure))
            .context("the workload failed")
            .hint("set TMPDIR to a folder with some space");
    }

    let n_operations = performed.operations.len();
    let input = match tracing.as_ref().map_err(ToString::to_string).and_then(Tracing::trace) {
        Ok(trace) => {
            ui.status(format_args!("2. reading what the tracer recorded of their {n_operations} operations"));
            trace
        }
        Err(why) => {
            ui.status(format_args!("2. reading their own log of {n_operations} operations, for {why}"));
            let mut log = Vec::new();
            write_events(&mut log, &performed)?;
            Input::bytes("demo.csv", log)
        }
    };
    let mut answer = iotide_api::report(&input, &ReportOptions::default()).map_err(advised)?;
    // Where it was is gone when the page is read.
    answer.run.source.path = "demo".into();
    let seen = match &daemon {
        Ok(daemon) => {
            told_live(seen_live.as_ref(), daemon.job_at_the_end().as_ref(), performed.bytes_written())
        }
        Err(why) => format!("not: {why:#}"),
    };
    drop(daemon);
    drop(folder);

    ui.status(format_args!("3. writing {}; all else is removed\n", args.output.display()));
    let found_s = answer.run.period.period_s;
    let mut report = Report::new("demo");
    let headline = answer.run.headline();
    report.runs.push(answer.run);
    ui.out_file(&args.output, &RunPage { report, plots: vec![answer.plots] }.explained())?;
    ui.out(&verdict(&performed, found_s, &seen, &headline, &args.output))?;
    Ok(if found_s.is_some() { ExitStatus::Done } else { ExitStatus::NothingFound })
}

/// Tries to open a file for writing, and leaves everything as it was.
fn check_writable(path: &Path) -> io::Result<()> {
    let is_new = !path.exists();
    fs::OpenOptions::new().append(true).create(true).open(path)?;
    if is_new { fs::remove_file(path) } else { Ok(()) }
}

fn skeleton(args: &DemoArgs, dir: &Path, environment: Vec<(&'static str, OsString)>) -> Skeleton {
    Skeleton {
        period_s: args.period,
        compute_s: None,
        until_s: None,
        burst_bytes: BURST_BYTES,
        n_bursts: args.bursts,
        turn_probability: 0.0,
        n_processes: N_PROCESSES,
        transfer_bytes: 256 << 10,
        sync: false,
        seed: 1,
        dir: dir.to_owned(),
        keep: false,
        file_per_burst: false,
        environment,
    }
}

/// Where the tracer writes.
struct Tracing {
    library: PathBuf,
    directory: PathBuf,
}

impl Tracing {
    /// Finds the tracer and makes room for its trace.
    fn prepare(folder: &Path) -> anyhow::Result<Self> {
        let library = library::find(&LibraryPlace::default())?;
        let directory = folder.join("trace");
        fs::create_dir(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        Ok(Self { library, directory })
    }

    fn environment(&self) -> Vec<(&'static str, OsString)> {
        let mut environment = Vec::from(record::environment(&self.library, &self.directory));
        // Temporary files may lie where the tracer does not look.
        environment.push(("IOTIDE_INCLUDE", iotide_private::temporary_files().into_os_string()));
        environment
    }

    /// Returns what was recorded; why not, if nothing was.
    fn trace(&self) -> Result<Input, String> {
        let input = Input::file(&self.directory);
        input.open(&OpenOptions::default()).map_err(|_| "the tracer recorded nothing".to_owned())?;
        Ok(input)
    }
}

/// Formats the daemon's figures on the job: during the run, and at its end beside the counts of the processes themselves.
fn told_live(live: Option<&Seen>, end: Option<&Seen>, bytes: u64) -> String {
    let Some(end) = end else { return "not: the tracer is missing".to_owned() };
    let period = live.and_then(|live| live.period_s);
    let period = period.map_or_else(String::new, |period_s| format!(", period {}", text::seconds(period_s)));
    let live = live.map_or(0, |live| live.bytes_written);
    let itself = match end.bytes_written == bytes {
        true => "exactly what it counted itself".to_owned(),
        false => format!("where it counted {bytes} itself"),
    };
    format!(
        "{} while it ran{period}; {} bytes in the end, {itself}   (iotide serve)",
        text::bytes(live as f64),
        end.bytes_written,
    )
}

/// The true and the found period side by side, and where to look.
fn verdict(performed: &Performed, found_s: Option<f64>, seen: &str, headline: &str, page: &Path) -> String {
    let truth_s = performed.achieved_period_s();
    let cell = |period_s: Option<f64>| {
        period_s.map_or_else(|| "none".to_owned(), |period_s| format!("{period_s:.4} s"))
    };
    let gap = match (truth_s, found_s) {
        (Some(truth_s), Some(found_s)) => {
            format!("   ({:.2} % apart)", 100.0 * (found_s - truth_s).abs() / truth_s)
        }
        _ => String::new(),
    };
    let shown = std::path::absolute(page).unwrap_or_else(|_| page.to_owned());
    format!(
        "true period    {}\nfound period   {}{gap}\nseen live      {seen}\n\n{headline}\n\nlook at        {}\ntry next       \
         iotide record -- YOUR PROGRAM\n",
        cell(truth_s),
        cell(found_s),
        shown.display(),
    )
}
