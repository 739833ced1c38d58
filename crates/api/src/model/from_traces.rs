//! Traces of one program at several sizes → measurements.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

use iotide_analysis::{Figure, FigureGroups, KnownRun, RunConfig, analyse_run, figures};
use iotide_formats::darshan::DarshanLayers;
use iotide_formats::{LayerChoice, OpenOptions};
use iotide_scaling::{Experiment, Note, collect};
use iotide_table::{Dialect, OpenQuote, cells, lines};
use iotide_trace::{Activity, Loss};

use crate::{Error, Input, Observed, Progress, observe, read_text};

/// Name of the parameter for the number of processes.
const PROCESSES: &str = "p";

/// Reads every trace and returns what was measured in it. A trace that cannot be used costs that trace, and a note says why.
pub(super) fn measure(
    traces: &[PathBuf],
    parameters: Option<&Path>,
    by: FigureGroups,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Experiment, Error> {
    let table = parameters.map(Table::read).transpose()?;
    let names = table.as_ref().map_or_else(|| vec![PROCESSES.to_owned()], |table| table.names.clone());
    let mut rows: Vec<(Vec<f64>, Figure)> = Vec::new();
    let mut notes = Vec::new();
    for (i, trace) in traces.iter().enumerate() {
        let name = trace.display().to_string();
        progress(Progress::Reading { name: &name, nth: i + 1, of: traces.len() });
        let mut note = |what: String| {
            notes.push(Note::Skipped { line: 0, reason: format!("{name}: {what}") });
        };
        match figures_of(trace, table.as_ref(), by) {
            Ok(Measured { point, figures, losses }) => {
                rows.extend(figures.into_iter().map(|figure| (point.clone(), figure)));
                losses.into_iter().for_each(|loss| note(loss.what));
            }
            Err(why) => {
                note(why.with_causes());
                progress(Progress::LeftOut { name: &name, why });
            }
        }
    }
    if rows.is_empty() {
        return Err(Error::NoTraceUsable);
    }
    let rows = rows
        .iter()
        .map(|(point, figure)| (point.as_slice(), figure.callpath.as_str(), figure.metric, figure.value));
    let mut experiment = collect(names, rows).map_err(Error::Figures)?;
    experiment.notes.extend(notes);
    Ok(experiment)
}

/// The point a trace stands at, what was measured there, and what the trace lost.
struct Measured {
    point: Vec<f64>,
    figures: Vec<Figure>,
    losses: Vec<Loss>,
}

fn figures_of(trace: &Path, table: Option<&Table>, by: FigureGroups) -> Result<Measured, Error> {
    let input = Input::file(trace);
    let observed: Observed<Activity> = observe(&input, &OpenOptions::default())?;
    let Observed { format, reads, writes, demand, beside, info, source, losses, stated, .. } = observed;
    let activity = beside.finish(&info);
    // Sums over the run want each byte once, sums over a layer all that the layer saw: where a source sees several
    // layers, these are two ways to read it.
    let by_layer = if format.is_darshan() || format.sees_several_layers() {
        let mut every = OpenOptions { layers: LayerChoice::All, ..OpenOptions::default() };
        every.darshan.layers = DarshanLayers::All;
        let mut layers = Activity::new();
        let info = input.open(&every)?.read(&mut layers)?;
        Some(layers.finish(&info))
    } else {
        None
    };
    let layers = by_layer.as_ref().unwrap_or(&activity);

    let n_processes = info.job.n_procs.or(source.n_ranks).filter(|n| *n > 0);
    let point = match (table, n_processes) {
        (Some(table), _) => table.point(trace)?,
        (None, Some(n_processes)) => vec![n_processes as f64],
        (None, None) => return Err(Error::ProcessesUnknown),
    };
    let analysis = analyse_run(&reads, &writes, &RunConfig { stated, ..RunConfig::default() }).ok();
    let figures = figures(&KnownRun {
        n_processes: n_processes.unwrap_or(1),
        run_time_s: info.job.run_time_s,
        reads: &reads,
        writes: &writes,
        activity: &activity,
        layers,
        demand: demand.as_ref(),
        analysis: analysis.as_ref(),
        by,
    });
    if figures.is_empty() {
        return Err(Error::NothingMeasured);
    }
    Ok(Measured { point, figures, losses })
}

/// Which parameters each trace was made with: `trace,p,size`, a line a trace.
struct Table {
    names: Vec<String>,
    points: HashMap<String, Vec<f64>>,
    path: PathBuf,
}

impl Table {
    fn read(path: &Path) -> Result<Self, Error> {
        let name = || path.display().to_string();
        let text = read_text(path)?;
        let at = |line: usize, fault: String| Error::ParameterTable { name: name(), line, fault };
        let cells_of = |line, text| {
            cells(text, Dialect::CSV).map_err(|OpenQuote| at(line, "a quote does not end".to_owned()))
        };
        let mut lines = lines(&text);
        let (header, names) = lines.next().ok_or_else(|| Error::EmptyTable { name: name() })?;
        let mut names = cells_of(header, names)?.into_iter().map(Cow::into_owned);
        if names.next().as_deref() != Some("trace") {
            return Err(Error::NoTraceColumn { name: name() });
        }
        let names: Vec<String> = names.collect();
        if names.is_empty() || names.iter().any(String::is_empty) {
            return Err(at(header, "a parameter has no name".to_owned()));
        }
        let mut points = HashMap::new();
        for (number, line) in lines {
            let at = |fault: String| at(number, fault);
            let mut cells = cells_of(number, line)?.into_iter();
            let trace = cells.next().unwrap_or_default().into_owned();
            let point: Vec<f64> = cells
                .map(|cell| match cell.parse::<f64>() {
                    Ok(value) if value.is_finite() => Ok(value),
                    _ => Err(at(format!("{cell:?} is no number"))),
                })
                .collect::<Result<_, _>>()?;
            if point.len() != names.len() {
                return Err(at(format!("{} values for {} parameters", point.len(), names.len())));
            }
            if points.insert(trace.clone(), point).is_some() {
                return Err(at(format!("{trace} is there twice")));
            }
        }
        Ok(Self { names, points, path: path.to_owned() })
    }

    /// By the name the trace was given under, or by its file name alone.
    fn point(&self, trace: &Path) -> Result<Vec<f64>, Error> {
        let name = trace.to_string_lossy();
        let file_name = trace.file_name().map(|name| name.to_string_lossy());
        let point = self.points.get(&*name).or_else(|| self.points.get(&*file_name?));
        point.cloned().ok_or_else(|| Error::NotInTable { name: self.path.display().to_string() })
    }
}
