//! `iotide stage in`: inputs come into the buffer.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use iotide_api::{Input, OpenOptions, first_reads};
use iotide_report::{StageAnswer, Untrusted};
use iotide_sched::staging::{Controller, Policy, Settings as Rules};
use iotide_stage::{Fetch, Pace, Plan, Room, Tally, Wanted, fetch_in_gaps};

use super::forecast::ForecastArgs;
use super::{WRITTEN_AND_READ_BACK, status_of, told, with_progress};
use crate::ExitStatus;
use crate::commands::ioskel::parse_size;
use crate::commands::{OutputArgs, heed_signals};
use crate::ui::Ui;

/// Bring inputs into a buffer, in the order in which they are needed
///
/// Files get their names when they are whole, synced and read back, so a program that finds one can read it; `iotide stage wait`
/// waits for one. What is there already is not copied again. With predictions (--follow, --listen or --predictions) data moves while the job does no I/O,
/// and this ends when everything is there or the job is over; without them it moves at once.
///
/// Exit status: 0 everything is there, 1 something is left, with reasons, 2 failed.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct FetchArgs {
    /// Where the inputs are; nothing is changed there
    #[arg(value_name = "SRC")]
    src: PathBuf,
    /// The buffer; must exist
    #[arg(value_name = "DST")]
    dst: PathBuf,
    /// The files, one on each line (or between zero bytes), first things first; `-` is stdin [default: all]
    #[arg(long, value_name = "FILE")]
    list: Option<PathBuf>,
    /// The files that an earlier run read, in the order in which it did: its trace, in any format that names files
    #[arg(long, value_name = "TRACE", num_args = 1.., conflicts_with = "list")]
    like: Vec<PathBuf>,
    /// Bring no more than this [default: what is free]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    capacity: Option<u64>,
    /// Copy no faster than SIZE per second
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    bandwidth: Option<u64>,
    /// How many files to copy at once
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    #[command(flatten)]
    forecast: ForecastArgs,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  iotide stage in /pfs/inputs /nvme/inputs
  iotide stage in /pfs/inputs /nvme/inputs --list order.txt --capacity 200G &
  iotide stage in /pfs/inputs /nvme/inputs --like last-run.darshan
  iotide stage in /pfs/inputs /nvme/inputs --like last-run.darshan --follow trace &     while the job computes
  iotide stage wait /nvme/inputs/mesh.h5 && ./simulation";

/// A list of more is none.
const MAX_LIST: u64 = 1 << 30;

pub(super) fn run(ui: &mut Ui, args: &FetchArgs) -> anyhow::Result<ExitStatus> {
    let mut fetch = Fetch::open(&args.src, &args.dst, args.jobs.into())?;
    let mut note = None;
    let wanted = match &args.list {
        Some(path) => Some(read_list(path, &fetch)?),
        None if !args.like.is_empty() => {
            let (wanted, n_elsewhere) = read_trace(args, &fetch)?;
            if n_elsewhere > 0 {
                note = Some(format!(
                    "{n_elsewhere} files that the trace read are not in {}",
                    args.src.display()
                ));
            }
            Some(wanted)
        }
        None => None,
    };
    let pace = Pace::free();
    let room = Room { max_bytes: args.capacity.unwrap_or(u64::MAX), free_bytes: fetch.free_bytes() };
    let (tally, fault) = match args.forecast.is_any() {
        true => in_gaps(ui, args, &mut fetch, wanted.as_ref(), room, &pace)?,
        false => {
            pace.set_rate(args.bandwidth.map_or(f64::INFINITY, |bytes| bytes as f64));
            with_progress(ui, &pace, WRITTEN_AND_READ_BACK, || fetch.run(wanted.as_ref(), room, &pace))?
        }
    };
    let mut staging = told(&tally, &args.src, &args.dst);
    staging.notes.extend(note.map(Into::into));
    args.output.deliver(ui, &StageAnswer::of_buffers(vec![staging.clone()]))?;
    if let Some(error) = fault {
        return Err(anyhow::anyhow!(error).context(format!("cannot copy to {}", args.dst.display())));
    }
    Ok(status_of(&staging))
}

/// Brings inputs beside a job that runs.
fn in_gaps(
    ui: &mut Ui,
    args: &FetchArgs,
    fetch: &mut Fetch,
    wanted: Option<&Wanted>,
    room: Room,
    pace: &Pace,
) -> anyhow::Result<(Tally, Option<std::io::Error>)> {
    let is_over = Arc::new(AtomicBool::new(false));
    stop_on_signals(&is_over)?;
    let rules = Rules { bandwidth_bps: args.bandwidth.map(|bytes| bytes as f64), ..Rules::new(Policy::Gap) };
    let began = Instant::now();
    // Kept open, so that nobody is taken for gone.
    let (tell, hints) = mpsc::channel();
    let following = args.forecast.start(began, &tell, &is_over, false)?;
    let controller = Controller::new(rules);
    let plan = Plan {
        controller,
        began,
        hints,
        is_over,
        deadline: None,
        is_withdrawn: Arc::default(),
        is_draining: Arc::default(),
    };
    let ended = fetch_in_gaps(fetch, wanted, room, plan, pace)?;
    if let Some(trouble) = following.end() {
        ui.warning(trouble);
    }
    Ok(ended)
}

fn stop_on_signals(is_over: &Arc<AtomicBool>) -> anyhow::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
    // Asked a second time, it ends at once: that is as safe as any other moment.
    heed_signals(&Arc::default())?;
    for signal in [SIGTERM, SIGINT, SIGUSR1, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(is_over)).context("cannot handle signals")?;
    }
    Ok(())
}

fn read_list(path: &Path, fetch: &Fetch) -> anyhow::Result<Wanted> {
    let failed = || format!("cannot read {}", path.display());
    let mut list = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().take(MAX_LIST).read_to_end(&mut list).with_context(failed)?;
    } else {
        let file = iotide_private::open_to_read(path, Duration::from_secs(60)).with_context(failed)?;
        file.take(MAX_LIST).read_to_end(&mut list).with_context(failed)?;
    }
    Wanted::parse(&list, fetch.source()).map_err(|why| anyhow::anyhow!(why)).with_context(failed)
}

/// The inputs of an earlier run that are below the source, whether it read them there or in the buffer; and how many others there were.
fn read_trace(args: &FetchArgs, fetch: &Fetch) -> anyhow::Result<(Wanted, usize)> {
    let reads = first_reads(&Input::files(&args.like), &OpenOptions::default())?;
    if reads.is_empty() {
        bail!("{} names no file that was read", Input::files(&args.like).name());
    }
    let tops: Vec<PathBuf> = [&args.src, &args.dst]
        .into_iter()
        .flat_map(|top| [Some(top.clone()), std::path::absolute(top).ok(), std::fs::canonicalize(top).ok()])
        .flatten()
        .collect();
    let below =
        |path: &str| tops.iter().find_map(|top| Path::new(path).strip_prefix(top).ok().map(Path::to_owned));
    let here: Vec<Vec<u8>> = (reads.iter())
        .filter_map(|read| below(&read.path))
        .filter(|path| fetch.source().join(path).symlink_metadata().is_ok())
        .map(|path| path.into_os_string().into_encoded_bytes())
        .collect();
    if here.is_empty() {
        bail!(
            "none of the {} files that {} read is in {} (the first is {})",
            reads.len(),
            Input::files(&args.like).name(),
            args.src.display(),
            Untrusted::from(reads[0].path.as_str()).for_terminal()
        );
    }
    let n_elsewhere = reads.len() - here.len();
    // Each ends in a zero byte, so that a line feed is a part of its name.
    let list: Vec<u8> = here.into_iter().flat_map(|path| [path, vec![0]].concat()).collect();
    let wanted = Wanted::parse(&list, fetch.source()).map_err(|why| anyhow::anyhow!(why))?;
    Ok((wanted, n_elsewhere))
}
