//! The traces a command is about, and the way from a file to bandwidths.

use std::path::{Path, PathBuf};

use iotide_formats::{Format, OpenOptions, ReadError};
use iotide_report::Source;
use iotide_trace::{Loss, ReadWrite, StepSignal};

use crate::ui::{Hint, Ui};

/// Which traces to read, and how.
#[derive(clap::Args, Debug)]
pub(crate) struct InputArgs {
    /// Traces, each of one run; `-` is standard input
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// The traces are parts of one run, for example one file per rank
    #[arg(long, help_heading = "Input")]
    one_run: bool,
    /// Read the traces as this format, whatever they look like
    #[arg(long, help_heading = "Input", value_name = "FORMAT", value_parser = format_of_name)]
    input_format: Option<Format>,
}

/// What a run did, in numbers.
pub(crate) struct Observed {
    pub(crate) source: Source,
    pub(crate) reads: StepSignal,
    pub(crate) writes: StepSignal,
    pub(crate) losses: Vec<Loss>,
}

/// One run's files.
#[derive(Clone, Copy)]
pub(crate) struct RunInput<'a> {
    paths: &'a [PathBuf],
    options: &'a InputArgs,
}

impl InputArgs {
    /// The runs to look at, each with its files.
    pub(crate) fn runs(&self) -> Vec<RunInput<'_>> {
        if self.one_run {
            return vec![RunInput { paths: &self.traces, options: self }];
        }
        self.traces.chunks(1).map(|paths| RunInput { paths, options: self }).collect()
    }

    /// Reads every run and hands it on; says which failed, goes on to the next, and returns what could not be done.
    pub(crate) fn for_each_run(
        &self,
        ui: &mut Ui,
        mut take: impl FnMut(Observed) -> anyhow::Result<()>,
    ) -> Vec<iotide_report::Failure> {
        let runs = self.runs();
        let mut failures = Vec::new();
        for (i, run) in runs.iter().enumerate() {
            if runs.len() > 1 {
                ui.progress(format_args!("reading {} ({} of {})", run.name(), i + 1, runs.len()));
            }
            if let Err(error) = run.read().and_then(&mut take) {
                ui.error(&error);
                failures.push(iotide_report::Failure { path: run.name(), error: format!("{error:#}") });
            }
        }
        failures
    }
}

impl RunInput<'_> {
    /// What to call it.
    pub(crate) fn name(&self) -> String {
        let first = self.paths[0].display();
        match self.paths.len() {
            1 => first.to_string(),
            n => format!("{first} and {} more", n - 1),
        }
    }

    /// Reads it, adding up bandwidths as the events stream past.
    fn read(&self) -> anyhow::Result<Observed> {
        let options = OpenOptions { input_format: self.options.input_format, ..OpenOptions::default() };
        let reader = match self.paths {
            [path] if path == Path::new("-") => options.from_stdin(),
            [path] => options.open(path),
            paths => options.open_many(paths),
        };
        let reader = reader.or_else(with_advice)?;
        let format = reader.format();
        let mut sink = ReadWrite::default();
        let info = reader.read(&mut sink).or_else(with_advice)?;
        Ok(Observed {
            source: Source::new(self.name(), format.name(), &sink.tally, &info.job),
            reads: sink.read.finish(),
            writes: sink.write.finish(),
            losses: sink.losses,
        })
    }
}

/// The message names the file and the fault already; what is left to say is what to do.
fn with_advice<T>(error: ReadError) -> anyhow::Result<T> {
    let plain = Err(anyhow::Error::msg(error.to_string()));
    match error {
        ReadError::UnknownFormat { .. } => plain.hint(format!(
            "`--input-format` names it if you know better; known are {}",
            Format::ALL.iter().map(|format| format.name()).collect::<Vec<_>>().join(", ")
        )),
        _ => plain,
    }
}

fn format_of_name(name: &str) -> Result<Format, String> {
    Format::from_name(name).ok_or_else(|| {
        let names: Vec<_> = Format::ALL.iter().map(|format| format.name()).collect();
        format!("known formats are {}", names.join(", "))
    })
}
