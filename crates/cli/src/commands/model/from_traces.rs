//! Traces of one program at several sizes → measurements.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use iotide_analysis::{Figure, FigureGroups, KnownRun, RunConfig, analyse_run, figures};
use iotide_api::{Input, Observed, observe};
use iotide_formats::darshan::DarshanLayers;
use iotide_formats::{LayerChoice, OpenOptions};
use iotide_scaling::{Experiment, Note, collect};
use iotide_trace::{Activity, Loss};

use crate::commands::advice::advised;
use crate::ui::{Hint, Ui};

/// What the number of processes is called.
const PROCESSES: &str = "p";

/// Reads every trace and returns what was measured in it. A trace that cannot be used costs that trace, and a note says why.
pub(super) fn measure(
    ui: &mut Ui,
    traces: &[PathBuf],
    parameters: Option<&Path>,
    by: FigureGroups,
) -> anyhow::Result<Experiment> {
    let table = parameters.map(Table::read).transpose()?;
    let names = table.as_ref().map_or_else(|| vec![PROCESSES.to_owned()], |table| table.names.clone());
    let mut rows: Vec<(Vec<f64>, Figure)> = Vec::new();
    let mut notes = Vec::new();
    for (i, trace) in traces.iter().enumerate() {
        ui.progress(format_args!("reading {} ({} of {})", trace.display(), i + 1, traces.len()));
        match figures_of(trace, table.as_ref(), by) {
            Ok((point, figures, losses)) => {
                rows.extend(figures.into_iter().map(|figure| (point.clone(), figure)));
                let lost = |loss: Loss| Note::Skipped {
                    line: 0,
                    reason: format!("{}: {}", trace.display(), loss.what),
                };
                notes.extend(losses.into_iter().map(lost));
            }
            Err(error) => {
                let reason = format!("{}: {error:#}", trace.display());
                ui.error(&error.context(format!("{} is left out", trace.display())));
                notes.push(Note::Skipped { line: 0, reason });
            }
        }
    }
    if rows.is_empty() {
        bail!("no trace could be used");
    }
    let rows = rows
        .iter()
        .map(|(point, figure)| (point.as_slice(), figure.callpath.as_str(), figure.metric, figure.value));
    let mut experiment = collect(names, rows)?;
    experiment.notes.extend(notes);
    Ok(experiment)
}

/// The point a trace stands at, what was measured there, and what the trace lost.
fn figures_of(
    trace: &Path,
    table: Option<&Table>,
    by: FigureGroups,
) -> anyhow::Result<(Vec<f64>, Vec<Figure>, Vec<Loss>)> {
    let once = OpenOptions::default();
    let observed: Observed<Activity> = observe(&Input::file(trace), &once).map_err(advised)?;
    let Observed { format, reads, writes, demand, beside, info, source, losses, .. } = observed;
    let activity = beside.finish(&info);
    // Sums over the run want each byte once, sums over a layer all that the layer saw: where a source sees several
    // layers, these are two ways to read it.
    let by_layer = if format.is_darshan() || format.sees_several_layers() {
        let mut every = OpenOptions { layers: LayerChoice::All, ..OpenOptions::default() };
        every.darshan.layers = DarshanLayers::All;
        let mut layers = Activity::new();
        let info = every.open(trace).and_then(|reader| reader.read(&mut layers)).map_err(advised)?;
        Some(layers.finish(&info))
    } else {
        None
    };
    let layers = by_layer.as_ref().unwrap_or(&activity);

    let n_processes = info.job.n_procs.or(source.n_ranks).filter(|n| *n > 0);
    let point = match (table, n_processes) {
        (Some(table), _) => table.point(trace)?,
        (None, Some(n_processes)) => vec![n_processes as f64],
        (None, None) => {
            return Err(anyhow::anyhow!("it does not say how many processes there were"))
                .hint("`--parameters FILE` tells the parameters of each trace");
        }
    };
    let analysis = analyse_run(&reads, &writes, &RunConfig::default()).ok();
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
        bail!("nothing was measured in it");
    }
    Ok((point, figures, losses))
}

/// Which parameters each trace was made with: `trace,p,size`, a line a trace.
struct Table {
    names: Vec<String>,
    points: HashMap<String, Vec<f64>>,
    path: PathBuf,
}

impl Table {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))?;
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let (_, head) = lines.next().with_context(|| format!("{shown} is empty"))?;
        let mut names = head.split(',').map(|name| name.trim().to_owned());
        if names.next().as_deref() != Some("trace") {
            return Err(anyhow::anyhow!("{shown}, line 1: the first column is not `trace`"))
                .hint("such a table reads `trace,p,size`, then `run-32.darshan,32,10` for each trace");
        }
        let names: Vec<String> = names.collect();
        if names.is_empty() || names.iter().any(String::is_empty) {
            bail!("{shown}, line 1: a parameter has no name");
        }
        let mut points = HashMap::new();
        for (i, line) in lines {
            let mut cells = line.split(',').map(str::trim);
            let trace = cells.next().unwrap_or_default().to_owned();
            let point: Vec<f64> = cells
                .map(|cell| match cell.parse::<f64>() {
                    Ok(value) if value.is_finite() => Ok(value),
                    _ => bail!("{shown}, line {}: {cell:?} is no number", i + 1),
                })
                .collect::<anyhow::Result<_>>()?;
            if point.len() != names.len() {
                bail!("{shown}, line {}: {} values for {} parameters", i + 1, point.len(), names.len());
            }
            if points.insert(trace.clone(), point).is_some() {
                bail!("{shown}, line {}: {trace} is there twice", i + 1);
            }
        }
        Ok(Self { names, points, path: path.to_owned() })
    }

    /// By the name the trace was given under, or by its file name alone.
    fn point(&self, trace: &Path) -> anyhow::Result<Vec<f64>> {
        let name = trace.to_string_lossy();
        let file_name = trace.file_name().map(|name| name.to_string_lossy());
        let point = self.points.get(&*name).or_else(|| self.points.get(&*file_name?));
        point.cloned().with_context(|| format!("{} does not name it", self.path.display()))
    }
}
