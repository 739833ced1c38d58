//! The traces a command is about, and the way from a file to bandwidths.

use std::path::{Path, PathBuf};

use anyhow::Context;
use iotide_analysis::{Demand, demand};
use iotide_formats::{Format, OpenOptions, PatternSpec, ReadError};
use iotide_report::{Failure, Source};
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
    /// Read the traces as free text; FILE says where the numbers are
    #[arg(long, help_heading = "Input", value_name = "FILE")]
    pattern: Option<PathBuf>,
}

/// What a run did, in numbers.
pub(crate) struct Observed {
    pub(crate) source: Source,
    pub(crate) reads: StepSignal,
    pub(crate) writes: StepSignal,
    pub(crate) demand: Option<Demand>,
    pub(crate) losses: Vec<Loss>,
}

impl InputArgs {
    /// Reads every run and hands it on; says which failed, goes on to the next, and returns what could not be done.
    pub(crate) fn for_each_run(
        &self,
        ui: &mut Ui,
        mut take: impl FnMut(Observed) -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<Failure>> {
        let options = OpenOptions {
            input_format: self.input_format,
            pattern: self.pattern_spec()?,
            ..OpenOptions::default()
        };
        let runs: Vec<RunInput<'_>> = match self.one_run {
            true => vec![RunInput { paths: &self.traces }],
            false => self.traces.chunks(1).map(|paths| RunInput { paths }).collect(),
        };
        let mut failures = Vec::new();
        for (i, run) in runs.iter().enumerate() {
            if runs.len() > 1 {
                ui.progress(format_args!("reading {} ({} of {})", run.name(), i + 1, runs.len()));
            }
            if let Err(error) = run.read(&options).and_then(&mut take) {
                ui.error(&error);
                failures.push(Failure { path: run.name(), error: format!("{error:#}") });
            }
        }
        Ok(failures)
    }

    fn pattern_spec(&self) -> anyhow::Result<Option<PatternSpec>> {
        let Some(path) = &self.pattern else { return Ok(None) };
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        PatternSpec::parse(&text).map(Some).with_context(|| path.display().to_string())
    }
}

/// One run's files.
struct RunInput<'a> {
    paths: &'a [PathBuf],
}

impl RunInput<'_> {
    /// What to call it.
    fn name(&self) -> String {
        let first = self.paths[0].display();
        match self.paths.len() {
            1 => first.to_string(),
            n => format!("{first} and {} more", n - 1),
        }
    }

    /// Reads it, adding up bandwidths as the events stream past.
    fn read(&self, options: &OpenOptions) -> anyhow::Result<Observed> {
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
            demand: demand(&sink.async_phases.finish()),
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
