//! `iotide info`: what a trace holds, and what it lost.

use std::io::Write;

use iotide_api::{InfoOptions, Report, darshan_log, for_each_record, for_each_segment, info};
use iotide_report::{RecordLine, SegmentLine};

use super::advice::advised;
use super::input::InputArgs;
use super::{Form, OutputArgs};
use crate::ExitStatus;
use crate::ui::Ui;

/// Show what a trace holds, and what it lost
///
/// Of a Darshan log: the job, the modules with their counters summed up, DXT and heatmap. Of any other trace: the job, its
/// ranks, operations, bytes and files. A damaged trace is read as far as possible; what is missing is listed.
/// With `--source` or `--layers`, a Darshan log's events are counted too, as other commands would see them.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    input: InputArgs,
    /// List every record of a Darshan log with all its counters, as columns or JSON Lines
    #[arg(long, conflicts_with = "dxt")]
    records: bool,
    /// List every DXT segment of a Darshan log, as columns or JSON Lines
    #[arg(long)]
    dxt: bool,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  iotide info job.darshan
  iotide info --format json *.darshan                   many logs, for a script
  iotide info --records job.darshan | grep BYTES        every counter of every file
  iotide info --dxt --format json job.darshan           every call, a line each";

pub(crate) fn run(ui: &mut Ui, args: &InfoArgs) -> anyhow::Result<ExitStatus> {
    if args.records || args.dxt {
        return list(ui, args);
    }
    let mut report = Report::new("info");
    let options = InfoOptions { open: args.input.options()?, events: args.input.asks_for_events() };
    report.failures = args.input.for_each(ui, |input| {
        report.runs.push(info(input, &options).map_err(advised)?);
        Ok(())
    })?;
    if !report.runs.is_empty() {
        args.output.deliver(ui, &report)?;
    }
    Ok(if report.failures.is_empty() { ExitStatus::Done } else { ExitStatus::Failed })
}

/// Lists what Darshan logs hold, record by record or segment by segment.
fn list(ui: &mut Ui, args: &InfoArgs) -> anyhow::Result<ExitStatus> {
    let mut out = ui.out_stream(args.output.file())?;
    let json = args.output.form() == Form::Json;
    if !json {
        let header = if args.dxt { SegmentLine::HEADER } else { RecordLine::HEADER };
        out.write_all(header.as_bytes()).map_err(|error| out.failed(error))?;
    }
    let mut losses = Vec::new();
    let options = args.input.options()?;
    let failures = args.input.for_each(ui, |input| {
        let log = darshan_log(input, &options).map_err(advised)?;
        let listed = match (args.dxt, json) {
            (true, true) => for_each_segment(&log, |line| out.write_all(line.to_json().as_bytes())),
            (true, false) => for_each_segment(&log, |line| out.write_all(line.to_text().as_bytes())),
            (false, true) => for_each_record(&log, |line| out.write_all(line.to_json().as_bytes())),
            (false, false) => for_each_record(&log, |line| out.write_all(line.to_text().as_bytes())),
        };
        listed.map_err(|error| out.failed(error))?;
        losses.extend(log.losses.iter().map(|loss| format!("{}: {}", input.name(), loss.what)));
        Ok(())
    })?;
    out.finish()?;
    for loss in losses {
        ui.status(format_args!("loss: {}", iotide_report::text::printable(&loss)));
    }
    Ok(if failures.is_empty() { ExitStatus::Done } else { ExitStatus::Failed })
}
