//! `iotide convert`: a trace in another form.

use std::path::PathBuf;

use iotide_formats::{ConvertError, Target, convert, convert_hashed};
use iotide_report::text::{counted, printable};

use super::advice::advised;
use super::input::InputArgs;
use crate::ExitStatus;
use crate::ui::{Hint, Ui};

use self::names::NameArgs;

mod names;

/// Write a trace in another form
///
/// Any trace that can be read can be written: as a native trace, which keeps everything and is read fastest; as a
/// table (CSV, JSON Lines, Parquet); as a Chrome trace, which https://ui.perfetto.dev opens; or as TMIO writes it, for tools
/// that read TMIO (FTIO). Memory does not grow with the trace, except for tmio-json. What is known to be missing is reported on stderr, and kept in the result.
/// With --hash-names, keyed hashes stand in the place of names, so that a log can be shared.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    input: InputArgs,
    /// The form to write: native, csv, jsonl, chrome, parquet, tmio-json, tmio-jsonl or tmio-msgpack
    #[arg(long, value_name = "FORM", value_parser = target_of_name, help_heading = "Output")]
    to: Target,
    /// Write to FILE rather than to stdout
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
    #[command(flatten)]
    names: NameArgs,
}

const EXAMPLES: &str = "\
Examples:
  iotide convert job.darshan --to csv | head
  iotide convert job.darshan --to chrome -o job.json    for https://ui.perfetto.dev
  iotide convert --source counters job.darshan --to parquet -o job.parquet
  iotide convert --one-run rank-*.csv --to native -o run.iot
  iotide convert job.darshan --to native -o shared.iot --hash-names --key-file key --new-key
                                                        for others, without its names";

pub(crate) fn run(ui: &mut Ui, args: &ConvertArgs) -> anyhow::Result<ExitStatus> {
    let runs = args.input.runs();
    let [run] = runs.as_slice() else {
        return Err(anyhow::anyhow!("{} runs cannot be converted into one", runs.len()))
            .hint("`--one-run` takes the traces as parts of one run; otherwise convert them one by one");
    };
    let to_stdout = args.output.as_ref().is_none_or(|file| file.as_os_str() == "-");
    if args.to.is_binary() && to_stdout && ui.out_is_terminal() {
        return Err(anyhow::anyhow!("{} is no text for a terminal", args.to.name()))
            .hint("`-o FILE` writes it to a file");
    }
    let reader = run.open(&args.input.options()?).map_err(advised)?;
    // Before the output is opened: without a key nothing is written.
    let mut names = args.names.hasher()?;
    let mut out = ui.out_stream(args.output.as_deref())?;
    let conversion = match &mut names {
        Some(names) => convert_hashed(reader, args.to, &mut out, names),
        None => convert(reader, args.to, &mut out),
    };
    let conversion = match conversion {
        Ok(conversion) => conversion,
        Err(ConvertError::Read(error)) => return Err(advised(error)),
        Err(ConvertError::Write(error)) => return Err(out.failed(error)),
        Err(error @ ConvertError::Spool { .. }) => {
            return Err(error).hint("`TMPDIR` names another folder for temporary files");
        }
        Err(error) => return Err(error.into()),
    };
    out.finish()?;
    for loss in &conversion.losses {
        let records = loss.records.map(|n| format!(" ({})", counted(n, "record"))).unwrap_or_default();
        ui.status(format_args!("loss: {}{records}", printable(&loss.what)));
    }
    let file = args
        .output
        .as_ref()
        .filter(|_| !to_stdout)
        .map(|file| format!(" to {}", file.display()))
        .unwrap_or_default();
    ui.status(format_args!("{} written{}", counted(conversion.n_events, "event"), printable(&file)));
    Ok(ExitStatus::Done)
}

fn target_of_name(name: &str) -> Result<Target, String> {
    Target::from_name(name).ok_or_else(|| {
        let names: Vec<_> = Target::ALL.iter().map(|target| target.name()).collect();
        format!("known forms are {}", names.join(", "))
    })
}
