//! `iotide measure`: how jobs fared that really ran beside each other.

use std::path::PathBuf;

use iotide_api::{Format, Input, MeasureOptions, measure_jobs};

use super::advice::advised;
use super::asking::{ask, in_query};
use super::document::DocumentArgs;
use super::input::ReadingArgs;
use crate::ExitStatus;
use crate::ui::Ui;

/// Measure how jobs fared beside each other: stretch, I/O slowdown, utilisation
///
/// The jobs ran at the same time on the same storage. The stretch of a job is its time over the time that it would have taken alone; its I/O slowdown is the
/// same of its I/O. `iotide simulate io` predicts these figures for other policies.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MeasureArgs {
    /// Traces, each of one job
    #[arg(value_name = "TRACE", required_unless_present = "jobs", conflicts_with = "jobs")]
    traces: Vec<PathBuf>,
    /// Jobs that the daemon has seen, by their IDs
    #[arg(long, value_name = "ID", value_delimiter = ',', num_args = 1.., help_heading = "Input")]
    jobs: Vec<String>,
    /// Measure from A to B, in seconds after the first job began [default: while all jobs were there]
    #[arg(long, value_name = "A,B", value_parser = frame, help_heading = "Measuring")]
    frame: Option<[f64; 2]>,
    /// Bandwidth of a job that is alone, in bytes per second [default: the median of the phases that no other job shared]
    #[arg(long, value_name = "BYTES_PER_S", value_parser = bandwidth, help_heading = "Measuring")]
    bandwidth: Option<f64>,
    #[command(flatten)]
    reading: ReadingArgs,
    #[command(flatten)]
    output: DocumentArgs,
}

const EXAMPLES: &str = "\
Examples:
  iotide measure job1.csv job2.csv job3.csv                  how much did these jobs slow each other?
  iotide measure job*.darshan --frame 400,3200 -o fared.html without the beginning and the end, as a page
  iotide measure --jobs 4711,4712                            jobs that `iotide serve` has seen

Exit status: 0 measured, 1 the time alone is not known, 2 an input could not be read.";

pub(crate) fn run(ui: &mut Ui, args: &MeasureArgs) -> anyhow::Result<ExitStatus> {
    let mut options =
        MeasureOptions { open: args.reading.options()?, frame_s: args.frame, bandwidth_bps: args.bandwidth };
    let inputs = if args.jobs.is_empty() {
        args.reading.runs(&args.traces)
    } else {
        options.open.input_format = Some(Format::Proxy);
        of_daemon(&args.jobs)?
    };
    let document =
        measure_jobs(&inputs, &options, &mut |progress| ui.progress_of(&progress)).map_err(advised)?;
    args.output.deliver(ui, &document)?;
    Ok(if document.measure.max_stretch.is_some() { ExitStatus::Done } else { ExitStatus::NothingFound })
}

/// Fetches what the daemon has counted of jobs, in the form of the metric proxy.
fn of_daemon(ids: &[String]) -> anyhow::Result<Vec<Input>> {
    let of = |id: &String| -> anyhow::Result<Input> {
        Ok(Input::bytes(format!("job {id}"), ask(&format!("/trace/read?job={}", in_query(id)))?))
    };
    ids.iter().map(of).collect()
}

fn frame(text: &str) -> Result<[f64; 2], String> {
    let wanted = || "two times in seconds, the earlier one first, as in 400,3200".to_owned();
    let (from, to) = text.split_once(',').ok_or_else(wanted)?;
    let number = |text: &str| text.trim().parse().ok().filter(|at_s: &f64| at_s.is_finite());
    match (number(from), number(to)) {
        (Some(from_s), Some(to_s)) if from_s < to_s => Ok([from_s, to_s]),
        _ => Err(wanted()),
    }
}

fn bandwidth(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.trim().parse().ok();
    number.filter(|bps| bps.is_finite() && *bps > 0.0).ok_or_else(|| "it must be a number above 0".to_owned())
}
