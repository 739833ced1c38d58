//! I/O of the jobs of a log, from data on earlier runs of their names.

use std::collections::BTreeMap;
use std::path::Path;

use iotide_analysis::{Described, describe_bursts};
use iotide_num::median;
use iotide_sim::jobs::{FigureClass, IoKnown, IoTable, JobsWorkload};
use iotide_trace::Loss;

use crate::templates::read_trace;
use crate::{Error, read_text};

/// Labels of runs that move next to nothing, each way.
const INSIGNIFICANT: [&str; 2] = ["read_insignificant", "write_insignificant"];

/// I/O of the jobs of one name.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Io {
    bytes: f64,
    phases: u32,
    class: FigureClass,
    /// Deviation of the logarithm between runs, where there are several.
    spread: Option<f64>,
}

/// Gives jobs the I/O that a table has of their names (or ids), and says what it does not have. Returns how far runs of one name lie apart: the root mean square of the deviations of
/// the logarithm, if a name has several.
pub(crate) fn attach_io(workload: &mut JobsWorkload, path: &Path) -> Result<(Option<f64>, Vec<Loss>), Error> {
    let name = path.display().to_string();
    let table = IoTable::from_json(&read_text(path)?).map_err(|why| Error::Workload { name, why })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut losses = Vec::new();
    let mut found: BTreeMap<&str, Io> = BTreeMap::new();
    for (name, known) in &table.known {
        match io_of(known, folder)? {
            Some(io) => drop(found.insert(name, io)),
            None => losses.push(Loss::of_unknown_size(format!(
                "{name}: its labels say when it moves data, but not how much; its I/O stays unknown"
            ))),
        }
    }
    let mut used = BTreeMap::new();
    for job in &mut workload.jobs {
        let id = job.id.to_string();
        let named = job.name.as_deref().and_then(|name| found.get_key_value(name));
        let Some((&name, io)) = named.or_else(|| found.get_key_value(id.as_str())) else { continue };
        used.insert(name, io.spread);
        // What the log itself states counts.
        if job.batch.io_bytes.is_none() {
            job.batch.io_bytes = Some(io.bytes);
            job.io_phases = io.phases;
            job.io_class = io.class;
        }
    }
    let n_unused = found.len() - used.len();
    if n_unused > 0 {
        let what = format!("{n_unused} names of {} are of no job", path.display());
        losses.push(Loss { records: Some(n_unused as u64), ..Loss::of_unknown_size(what) });
    }
    let squares: Vec<f64> = used.into_values().flatten().map(|spread| spread * spread).collect();
    let spread = (!squares.is_empty()).then(|| (squares.iter().sum::<f64>() / squares.len() as f64).sqrt());
    Ok((spread, losses))
}

fn io_of(known: &IoKnown, folder: &Path) -> Result<Option<Io>, Error> {
    Ok(match known {
        IoKnown::Stated { bytes, phases, class } => {
            Some(Io { bytes: *bytes, phases: *phases, class: *class, spread: None })
        }
        IoKnown::Labels(labels) => {
            let has = |label: &&str| labels.iter().any(|known| known == label);
            let io = Io { bytes: 0.0, phases: 1, class: FigureClass::Runs, spread: None };
            INSIGNIFICANT.iter().all(has).then_some(io)
        }
        IoKnown::Traces(paths) => {
            let (mut logs, mut phases) = (Vec::new(), Vec::new());
            for path in paths {
                let runs = read_trace(&folder.join(path))?;
                let bytes: f64 = runs.iter().flat_map(|run| &run.bytes).sum();
                logs.push(bytes.max(1.0).ln());
                let described = runs.first().map(|run| describe_bursts(run.dt_s, &run.ops, &run.bytes));
                phases.push(match described {
                    Some(Described::Bursts(bursts)) => bursts.n_bursts as f64,
                    Some(Described::TooFew(n)) => n.max(1) as f64,
                    _ => 1.0,
                });
            }
            let n = logs.len() as f64;
            let mean = logs.iter().sum::<f64>() / n;
            let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0);
            Some(Io {
                bytes: mean.exp(),
                phases: median(&phases).unwrap_or(1.0).round() as u32,
                class: FigureClass::Runs,
                spread: (logs.len() > 1).then(|| variance.sqrt()),
            })
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_sim::jobs::{JobLabel, SubmittedJob};

    #[test]
    fn jobs_have_the_io_of_earlier_runs_of_their_name() {
        let folder = iotide_testkit::FreshDir::new("api-job-io");
        let trace = |bytes: f64| {
            let mut rows = String::from("rank,op,start,end,bytes\n");
            for burst in 0..5 {
                rows += &format!("0,write,{},{},{bytes}\n", 20 * burst, 20 * burst + 2);
            }
            rows
        };
        folder.write("a.csv", trace(1e9).as_bytes());
        folder.write("b.csv", trace(4e9).as_bytes());
        let table = folder.write(
            "io.json",
            br#"{"climate": ["a.csv", "b.csv"], "7": {"bytes": 5}, "quiet": {"labels": ["read_insignificant", "write_insignificant"]},
                 "vague": {"labels": ["write_on_end"]}, "nobody": {"bytes": 1}}"#,
        );
        let job = |id: u64, name: &str| SubmittedJob {
            name: Some(name.to_owned()),
            ..SubmittedJob::rigid(JobLabel::Number(id), 0.0, 1, 60.0)
        };
        let jobs = vec![job(1, "climate"), job(7, "other"), job(8, "quiet"), job(9, "vague")];
        let mut workload =
            JobsWorkload::from_json(r#"{"nodes": 4, "jobs": [{"submit_s": 0, "nodes": 1, "runtime_s": 1}]}"#)
                .unwrap();
        workload.jobs = jobs;
        let (spread, losses) = attach_io(&mut workload, &table).unwrap();
        let bytes: Vec<Option<f64>> = workload.jobs.iter().map(|job| job.batch.io_bytes).collect();
        assert!((bytes[0].unwrap() / 1e10 - 1.0).abs() < 1e-6, "the geometric mean: {bytes:?}");
        assert_eq!(bytes[1..], [Some(5.0), Some(0.0), None]);
        assert!((3..=5).contains(&workload.jobs[0].io_phases), "{}", workload.jobs[0].io_phases);
        let classes: Vec<FigureClass> = workload.jobs.iter().map(|job| job.io_class).collect();
        assert_eq!(classes[..2], [FigureClass::Runs, FigureClass::User]);
        // ln 1 and ln 4 lie ln 4/√2 from their mean's deviation.
        assert!((spread.unwrap() - 4f64.ln() / 2f64.sqrt()).abs() < 1e-6, "{spread:?}");
        assert_eq!(losses.len(), 2, "{losses:?}");
    }
}
