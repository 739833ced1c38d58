//! `iotide stage in`: inputs come into the buffer.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use iotide_report::StageAnswer;
use iotide_stage::{Fetch, Pace, Wanted};

use super::{status_of, told};
use crate::ExitStatus;
use crate::commands::OutputArgs;
use crate::commands::ioskel::parse_size;
use crate::ui::Ui;

/// Bring inputs into a buffer, in the order in which they are needed
///
/// Files get their names when they are whole, synced and read back, so a program that finds one can read it; `iotide stage wait`
/// waits for one. What is there already is not copied again.
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
    /// Bring no more than this
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    capacity: Option<u64>,
    /// Copy no faster than SIZE per second
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    bandwidth: Option<u64>,
    /// How many files to copy at once
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  iotide stage in /pfs/inputs /nvme/inputs
  iotide stage in /pfs/inputs /nvme/inputs --list order.txt --capacity 200G &
  iotide stage wait /nvme/inputs/mesh.h5 && ./simulation";

/// A list of more is none.
const MAX_LIST: u64 = 1 << 30;

pub(super) fn run(ui: &mut Ui, args: &FetchArgs) -> anyhow::Result<ExitStatus> {
    let mut fetch = Fetch::open(&args.src, &args.dst, args.jobs.into())?;
    let wanted = match &args.list {
        Some(path) => Some(read_list(path, &fetch)?),
        None => None,
    };
    let pace = Pace::free();
    pace.set_rate(args.bandwidth.map_or(f64::INFINITY, |bytes| bytes as f64));
    let (tally, fault) = fetch.run(wanted.as_ref(), args.capacity.unwrap_or(u64::MAX), &pace)?;
    let staging = told(&tally, &args.src, &args.dst);
    args.output.deliver(ui, &StageAnswer::of_buffers(vec![staging.clone()]))?;
    if let Some(error) = fault {
        return Err(anyhow::anyhow!(error).context(format!("cannot copy to {}", args.dst.display())));
    }
    Ok(status_of(&staging))
}

fn read_list(path: &std::path::Path, fetch: &Fetch) -> anyhow::Result<Wanted> {
    let failed = || format!("cannot read {}", path.display());
    let mut list = Vec::new();
    if path == std::path::Path::new("-") {
        std::io::stdin().take(MAX_LIST).read_to_end(&mut list).with_context(failed)?;
    } else {
        let file = iotide_private::open_to_read(path, Duration::from_secs(60)).with_context(failed)?;
        file.take(MAX_LIST).read_to_end(&mut list).with_context(failed)?;
    }
    Wanted::parse(&list, fetch.source()).map_err(|why| anyhow::anyhow!(why)).with_context(failed)
}
