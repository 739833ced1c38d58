//! The traces a command is about, and the way from a file to bandwidths.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::ValueEnum;
use iotide_analysis::{Demand, StatedRun, demand};
use iotide_formats::darshan::{DarshanLayers, DarshanOptions, DarshanSource};
use iotide_formats::{Format, LayerChoice, OpenOptions, PatternSpec, ReadError, Reader};
use iotide_report::{Failure, Source};
use iotide_trace::{EventSink, Layer, Loss, ReadWrite, StepSignal, TraceInfo};

use crate::ui::{Hint, ReaderGone, Ui};

/// Which traces to read, and how.
#[derive(clap::Args, Debug)]
pub(crate) struct InputArgs {
    /// Traces, each of one run; `-` is standard input
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    #[command(flatten)]
    reading: ReadingArgs,
}

/// How to read traces.
#[derive(clap::Args, Debug)]
pub(crate) struct ReadingArgs {
    /// The traces are parts of one run: one file per rank, or the Darshan logs of one job
    #[arg(long, help_heading = "Input")]
    one_run: bool,
    /// Read the traces as this format, whatever they look like
    #[arg(long, help_heading = "Input", value_name = "FORMAT", value_parser = format_of_name)]
    input_format: Option<Format>,
    /// Read the traces as free text; FILE says where the numbers are
    #[arg(long, help_heading = "Input", value_name = "FILE")]
    pattern: Option<PathBuf>,
    /// Darshan: where reads and writes come from; `auto` takes the finest that the log has [default: auto]
    #[arg(long, help_heading = "Input", value_enum)]
    source: Option<SourceArg>,
    /// Which layers, where a trace sees several; `lowest` counts each byte once, `all` keeps layers that see the same bytes [default: lowest]
    #[arg(long, help_heading = "Input", value_enum)]
    layers: Option<LayersArg>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum SourceArg {
    Auto,
    Dxt,
    Heatmap,
    Counters,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum LayersArg {
    Lowest,
    MpiIo,
    All,
}

/// What a run did, in numbers.
pub(crate) struct Observed<B = ()> {
    pub(crate) source: Source,
    pub(crate) reads: StepSignal,
    pub(crate) writes: StepSignal,
    pub(crate) demand: Option<Demand>,
    pub(crate) losses: Vec<Loss>,
    /// What else looked at the events.
    pub(crate) beside: B,
    /// What the source says of itself.
    pub(crate) info: TraceInfo,
    /// What of that the analysis goes by.
    pub(crate) stated: StatedRun,
}

impl InputArgs {
    /// Reads every run and hands it on; says which failed, goes on to the next, and returns what could not be done.
    ///
    /// `B` is a sink that sees the events in the same pass; `()` is none.
    pub(crate) fn for_each_run<B: EventSink + Default>(
        &self,
        ui: &mut Ui,
        mut take: impl FnMut(Observed<B>) -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<Failure>> {
        self.for_each_input(ui, |run, options| take(run.read(options)?))
    }

    /// The same for commands that do the reading themselves.
    pub(crate) fn for_each_input(
        &self,
        ui: &mut Ui,
        take: impl FnMut(&RunInput<'_>, &OpenOptions) -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<Failure>> {
        self.reading.for_each_input(ui, &self.traces, take)
    }

    /// The files that were named.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.traces
    }

    /// The runs that were named.
    pub(crate) fn runs(&self) -> Vec<RunInput<'_>> {
        self.reading.runs(&self.traces)
    }

    /// What the flags mean; nothing below this line knows clap.
    pub(crate) fn options(&self) -> anyhow::Result<OpenOptions> {
        self.reading.options()
    }

    /// Whether it was said which of a Darshan log's sources or layers are wanted.
    pub(crate) fn asks_for_events(&self) -> bool {
        self.reading.source.is_some() || self.reading.layers.is_some()
    }
}

impl ReadingArgs {
    /// Hands every run of `traces` on; says which failed, goes on to the next, and returns what could not be done.
    pub(crate) fn for_each_input(
        &self,
        ui: &mut Ui,
        traces: &[PathBuf],
        mut take: impl FnMut(&RunInput<'_>, &OpenOptions) -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<Failure>> {
        let options = self.options()?;
        let runs = self.runs(traces);
        let mut failures = Vec::new();
        for (i, run) in runs.iter().enumerate() {
            if runs.len() > 1 {
                ui.progress(format_args!("reading {} ({} of {})", run.name(), i + 1, runs.len()));
            }
            match take(run, &options) {
                Err(error) if error.is::<ReaderGone>() => return Err(error),
                Err(error) => {
                    ui.error(&error);
                    failures.push(Failure { path: run.name().into(), error: format!("{error:#}").into() });
                }
                Ok(()) => {}
            }
        }
        Ok(failures)
    }

    /// Whether the traces are parts of one run.
    pub(crate) fn is_one_run(&self) -> bool {
        self.one_run
    }

    fn runs<'a>(&self, traces: &'a [PathBuf]) -> Vec<RunInput<'a>> {
        match self.one_run {
            true => vec![RunInput { paths: traces }],
            false => traces.chunks(1).map(|paths| RunInput { paths }).collect(),
        }
    }

    /// What changes the answer, as a table of TOML.
    pub(crate) fn in_toml(&self) -> String {
        let mut toml = String::from("[reading]\n");
        if let Some(format) = self.input_format {
            toml += &format!("input_format = \"{}\"\n", format.name());
        }
        if let Some(pattern) = &self.pattern {
            toml += &format!("pattern = {:?}\n", pattern.display().to_string());
        }
        let source = self.source.unwrap_or(SourceArg::Auto).to_possible_value();
        let layers = self.layers.unwrap_or(LayersArg::Lowest).to_possible_value();
        for (key, value) in [("source", source), ("layers", layers)] {
            toml += &format!("{key} = \"{}\"\n", value.as_ref().map_or("", |value| value.get_name()));
        }
        toml
    }

    /// What the flags mean; nothing below this line knows clap.
    pub(crate) fn options(&self) -> anyhow::Result<OpenOptions> {
        let source = match self.source {
            Some(SourceArg::Auto) | None => DarshanSource::Auto,
            Some(SourceArg::Dxt) => DarshanSource::Dxt,
            Some(SourceArg::Heatmap) => DarshanSource::Heatmap,
            Some(SourceArg::Counters) => DarshanSource::Counters,
        };
        // Darshan knows its layers before the first event; of other traces they are told apart as they are read.
        let (of_darshan, layers) = match self.layers {
            Some(LayersArg::Lowest) | None => (DarshanLayers::Lowest, LayerChoice::LowestComplete),
            Some(LayersArg::MpiIo) => (DarshanLayers::MpiIo, LayerChoice::Only(Layer::MpiIo)),
            Some(LayersArg::All) => (DarshanLayers::All, LayerChoice::All),
        };
        Ok(OpenOptions {
            input_format: self.input_format,
            pattern: self.pattern_spec()?,
            layers,
            darshan: DarshanOptions { source, layers: of_darshan },
        })
    }

    fn pattern_spec(&self) -> anyhow::Result<Option<PatternSpec>> {
        let Some(path) = &self.pattern else { return Ok(None) };
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        PatternSpec::parse(&text).map(Some).with_context(|| path.display().to_string())
    }
}

/// One run's files.
pub(crate) struct RunInput<'a> {
    paths: &'a [PathBuf],
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

    /// Whether it is one file.
    pub(crate) fn is_one_file(&self) -> bool {
        self.paths.len() == 1
    }

    /// Opens it.
    pub(crate) fn open(&self, options: &OpenOptions) -> anyhow::Result<Reader> {
        let reader = match self.paths {
            [path] if path == Path::new("-") => options.from_stdin(),
            [path] => options.open(path),
            paths => options.open_many(paths),
        };
        reader.or_else(with_advice)
    }

    /// Reads it, adding up bandwidths as the events stream past.
    fn read<B: EventSink + Default>(&self, options: &OpenOptions) -> anyhow::Result<Observed<B>> {
        observe(self.open(options)?, self.name())
    }
}

/// Reads a trace called `name`, adding up bandwidths as the events stream past.
pub(crate) fn observe<B: EventSink + Default>(reader: Reader, name: String) -> anyhow::Result<Observed<B>> {
    let format = reader.format();
    let mut sinks = (ReadWrite::default(), B::default());
    let info = reader.read(&mut sinks).or_else(with_advice)?;
    let (sink, beside) = sinks;
    let resolution_s = sink.read.resolution_s().into_iter().chain(sink.write.resolution_s()).reduce(f64::max);
    Ok(Observed {
        source: Source { resolution_s, ..Source::new(name, format.name(), &sink.tally, &info.job) },
        reads: sink.read.finish(),
        writes: sink.write.finish(),
        demand: demand(&sink.async_phases.finish()),
        losses: sink.losses,
        beside,
        stated: StatedRun::of(&sink.tally, &info.job),
        info,
    })
}

/// The message names the file and the fault already; what is left to say is what to do.
pub(crate) fn with_advice<T>(error: ReadError) -> anyhow::Result<T> {
    let plain = Err(anyhow::Error::msg(error.to_string()));
    match error {
        ReadError::UnknownFormat { .. } => plain.hint(format!(
            "`--input-format` names it if you know better; known are {}",
            Format::ALL.iter().map(|format| format.name()).collect::<Vec<_>>().join(", ")
        )),
        _ => plain,
    }
}

pub(crate) fn format_of_name(name: &str) -> Result<Format, String> {
    Format::from_name(name).ok_or_else(|| {
        let names: Vec<_> = Format::ALL.iter().map(|format| format.name()).collect();
        format!("known formats are {}", names.join(", "))
    })
}
