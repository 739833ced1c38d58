//! Where measurements come from.

use std::path::{Path, PathBuf};

use iotide_analysis::FigureGroups;
use iotide_scaling::{Experiment, InputFormat, Scaling, read};

use super::{cube, from_traces};
use crate::{Error, Progress, read_bytes};

/// Values of metrics at several sizes.
#[derive(Clone, Debug, Default)]
pub struct Measurements {
    /// Name of their source.
    pub source: String,
    /// The name of their form.
    pub form: &'static str,
    /// The values, input by input.
    pub experiments: Vec<Experiment>,
}

impl Measurements {
    /// Reads what is in memory already; `name` stands for it in answers and messages.
    pub fn from_bytes(name: &str, bytes: &[u8], form: Option<InputFormat>) -> Result<Self, Error> {
        let (form, experiment) = parse(name, bytes, form)?;
        Ok(Self { source: name.to_owned(), form: form.name(), experiments: vec![experiment] })
    }
}

/// Kind of the inputs.
#[derive(Clone, Debug)]
pub enum MeasuredIn {
    /// Files of measurements, or folders of Score-P profiles.
    Files {
        /// Their form, if the content does not tell.
        form: Option<InputFormat>,
        /// Meaning of the processes of a profile.
        scaling: Scaling,
    },
    /// Traces of one program at several sizes.
    Traces {
        /// A table `trace,p,size` of the parameters of each; without it they have one, the number of processes.
        parameters: Option<PathBuf>,
        /// How calls are told apart.
        by: FigureGroups,
    },
}

/// Reads measurements, or takes them from traces. A trace that cannot be used costs that trace, and a note says why.
pub fn measurements(
    inputs: &[PathBuf],
    of: &MeasuredIn,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Measurements, Error> {
    let source = match inputs {
        [] => return Ok(Measurements { form: "models", ..Measurements::default() }),
        [one] => one.display().to_string(),
        [first, rest @ ..] => format!("{} and {} more", first.display(), rest.len()),
    };
    let (form, scaling) = match of {
        MeasuredIn::Traces { parameters, by } => {
            let experiment = from_traces::measure(inputs, parameters.as_deref(), *by, progress)?;
            return Ok(Measurements { source, form: "traces", experiments: vec![experiment] });
        }
        MeasuredIn::Files { form, scaling } => (*form, *scaling),
    };
    let mut name = None;
    let mut experiments = Vec::with_capacity(inputs.len());
    let (profiles, files): (Vec<&PathBuf>, Vec<&PathBuf>) =
        inputs.iter().partition(|input| cube::is_profile(input));
    if !profiles.is_empty() {
        experiments.push(cube::read(&profiles, scaling)?);
        name = Some("cubex");
    }
    for input in files {
        let (form, experiment) = read_file(input, form)?;
        name.get_or_insert(form.name());
        experiments.push(experiment);
    }
    Ok(Measurements { source, form: name.unwrap_or_default(), experiments })
}

fn read_file(input: &Path, form: Option<InputFormat>) -> Result<(InputFormat, Experiment), Error> {
    parse(&input.display().to_string(), &read_bytes(input)?, form)
}

fn parse(name: &str, bytes: &[u8], form: Option<InputFormat>) -> Result<(InputFormat, Experiment), Error> {
    read(bytes, form).map_err(|source| Error::Measurements { name: name.to_owned(), source })
}
