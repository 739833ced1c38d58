//! `iotide ladder`: what the storage behind a directory can do.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use iotide_api::{Cell, Ladder, LadderReport, fit_storage};
use iotide_private::FileSystem;

use crate::ExitStatus;
use crate::commands::document::DocumentArgs;
use crate::commands::ioskel::parse_size;
use crate::ui::{Hint, Ui};

mod measure;

/// Measure what the storage behind a directory can do
///
/// Keeps 1, 2, 4 … requests of each size in flight for a while and counts how many are done. From that follow the bandwidth of all streams, that of one, and how
/// many operations a second there are, by how many servers. The answer as JSON is what `iotide templates --storage` takes.
///
/// The files it uses have no names: nothing is left behind, however it ends. Who else uses the storage meanwhile is measured along.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LadderArgs {
    /// A directory on the storage
    directory: PathBuf,
    /// Requests in flight, one after the other
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16, 32, 64])]
    in_flight: Vec<u64>,
    /// Sizes of requests
    #[arg(long, value_name = "SIZE,…", value_delimiter = ',', value_parser = parse_size, default_values = ["64K", "4M"])]
    sizes: Vec<u64>,
    /// Seconds for each number and size
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    seconds: f64,
    /// Move no more than this in all
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "8G")]
    most: u64,
    /// Take no more room than this
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "512M")]
    room: u64,
    /// Operation of the requests
    #[arg(long, value_enum, default_value_t = OpArg::Write)]
    op: OpArg,

    #[command(flatten)]
    output: DocumentArgs,
}

const EXAMPLES: &str = "\
Examples:
  iotide ladder /scratch                                    what can it do?
  iotide ladder /scratch --format json -o ladder.json       for `iotide templates --storage ladder.json`
  iotide ladder . --sizes 4K,1M,16M --in-flight 1,8,64 --seconds 0.2";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum OpArg {
    Write,
    Read,
}

/// More in flight than this is no question that threads can answer.
const MOST_IN_FLIGHT: u64 = 1024;
/// Of one request, so much memory at most.
const LARGEST: u64 = 1 << 30;

pub(crate) fn run(ui: &mut Ui, args: &LadderArgs) -> anyhow::Result<ExitStatus> {
    if !(args.seconds > 0.0 && args.seconds <= 3600.0) {
        bail!("--seconds {}: it is more than 0 and at most 3600", args.seconds);
    }
    if let Some(n) = args.in_flight.iter().find(|n| !(1..=MOST_IN_FLIGHT).contains(*n)) {
        bail!("--in-flight {n}: it is between 1 and {MOST_IN_FLIGHT}");
    }
    if let Some(size) = args.sizes.iter().find(|size| !(512..=LARGEST).contains(*size) || **size % 512 != 0) {
        bail!("--sizes {size}: it is a multiple of 512 up to 1G");
    }
    let n_cells = args.in_flight.len() * args.sizes.len();
    let rung = measure::Rung {
        writes: args.op == OpArg::Write,
        lasts: Duration::from_secs_f64(args.seconds),
        most_bytes: args.most / n_cells.max(1) as u64,
        room: args.room,
    };
    let mut cells = Vec::new();
    let mut is_direct = true;
    for (nth, (size, n)) in
        args.sizes.iter().flat_map(|size| args.in_flight.iter().map(move |n| (size, n))).enumerate()
    {
        ui.progress(format_args!("measuring: {} of {n_cells}, {n} in flight", nth + 1));
        let measured = measure::measure(&args.directory, *n, *size, &rung)
            .with_context(|| format!("cannot measure {}", args.directory.display()))
            .hint("it takes a directory that one may write to, with room for the files (--room)")?;
        is_direct &= measured.is_direct;
        cells.push(Cell {
            n: *n,
            request_bytes: *size as f64,
            seconds: measured.seconds,
            completions: measured.completions as f64,
        });
    }
    let ladder = Ladder { cells };
    let fitted = fit_storage(&ladder);
    let file_system = FileSystem::of(&args.directory).ok();
    let file_system = file_system.as_ref().map(|found| (&*found.kind, &*found.source, found.is_shared));
    let directory = args.directory.display().to_string();
    let report = LadderReport::new(&directory, &ladder, fitted.as_ref().ok(), is_direct, file_system);
    args.output.deliver(ui, &report)?;
    Ok(ExitStatus::Done)
}
