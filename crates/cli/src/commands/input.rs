//! The traces a command is about.

use std::path::PathBuf;

use anyhow::Context;
use clap::ValueEnum;
use iotide_api::{Failure, Input};
use iotide_formats::darshan::{DarshanLayers, DarshanOptions, DarshanSource};
use iotide_formats::{Format, LayerChoice, OpenOptions, PatternSpec};
use iotide_trace::Layer;

use crate::ui::{ReaderGone, Ui};

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
    /// Read the traces as this format instead of detecting it
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

impl InputArgs {
    /// Hands every run on; says which failed, goes on to the next, and returns what could not be done.
    pub(crate) fn for_each(
        &self,
        ui: &mut Ui,
        take: impl FnMut(&Input) -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<Failure>> {
        self.reading.for_each(ui, &self.traces, take)
    }

    /// The files that were named.
    pub(crate) fn paths(&self) -> &[PathBuf] {
        &self.traces
    }

    /// The runs that were named.
    pub(crate) fn runs(&self) -> Vec<Input> {
        self.reading.runs(&self.traces)
    }

    /// The runs of other traces, read in the same way.
    pub(crate) fn runs_of(&self, traces: &[PathBuf]) -> Vec<Input> {
        self.reading.runs(traces)
    }

    /// Converts the flags to settings; nothing below this line depends on clap.
    pub(crate) fn options(&self) -> anyhow::Result<OpenOptions> {
        self.reading.options()
    }

    /// Whether one of a Darshan log's sources or layers was selected.
    pub(crate) fn asks_for_events(&self) -> bool {
        self.reading.source.is_some() || self.reading.layers.is_some()
    }
}

impl ReadingArgs {
    /// Hands every run of `traces` on; says which failed, goes on to the next, and returns what could not be done.
    pub(crate) fn for_each(
        &self,
        ui: &mut Ui,
        traces: &[PathBuf],
        mut take: impl FnMut(&Input) -> anyhow::Result<()>,
    ) -> anyhow::Result<Vec<Failure>> {
        let runs = self.runs(traces);
        let mut failures = Vec::new();
        for (i, run) in runs.iter().enumerate() {
            if runs.len() > 1 {
                ui.progress(format_args!("reading {} ({} of {})", run.name(), i + 1, runs.len()));
            }
            match take(run) {
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

    /// The runs that traces are of.
    pub(crate) fn runs(&self, traces: &[PathBuf]) -> Vec<Input> {
        match self.one_run {
            true => vec![Input::files(traces)],
            false => traces.iter().map(Input::file).collect(),
        }
    }

    /// Returns the settings that change the answer, as a table of TOML.
    pub(crate) fn in_toml(&self) -> String {
        let mut toml = String::from("[reading]\n");
        if let Some(format) = self.input_format {
            toml += &format!("input_format = \"{}\"\n", format.name());
        }
        if let Some(pattern) = &self.pattern {
            toml += &format!("pattern = {}\n", toml_string(&pattern.display().to_string()));
        }
        let source = self.source.unwrap_or(SourceArg::Auto).to_possible_value();
        let layers = self.layers.unwrap_or(LayersArg::Lowest).to_possible_value();
        for (key, value) in [("source", source), ("layers", layers)] {
            toml += &format!("{key} = \"{}\"\n", value.as_ref().map_or("", |value| value.get_name()));
        }
        toml
    }

    /// Converts the flags to settings; nothing below this line depends on clap.
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
            metric: None,
            watch: crate::asked::watch(),
        })
    }

    fn pattern_spec(&self) -> anyhow::Result<Option<PatternSpec>> {
        let Some(path) = &self.pattern else { return Ok(None) };
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        PatternSpec::parse(&text).map(Some).with_context(|| path.display().to_string())
    }
}

/// A string as TOML writes it.
fn toml_string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted += &format!("\\u{:04X}", u32::from(c)),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

pub(crate) fn format_of_name(name: &str) -> Result<Format, String> {
    Format::from_name(name).ok_or_else(|| {
        let names: Vec<_> = Format::ALL.iter().map(|format| format.name()).collect();
        format!("known formats are {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_kept_as_toml_reads_it() {
        for path in ["plain.toml", "a \"b\" \\ c", "tab\tand\nnewline", "ü\u{301}\u{7f}"] {
            let table: toml::Table = format!("pattern = {}", toml_string(path)).parse().unwrap();
            assert_eq!(table["pattern"].as_str(), Some(path));
        }
        assert_eq!(toml_string("plain.toml"), "\"plain.toml\"");
    }
}
