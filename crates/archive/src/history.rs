//! A run beside the earlier runs of the same application.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use iotide_num::{median, median_absolute_deviation};
use iotide_report::{Comparison, History, LabelShare, LabelledRun, ResultLine, Untrusted};

use crate::ArchiveError;

/// Fewer earlier runs than this say nothing of what is usual.
const FEWEST: usize = 5;
/// As many of the latest earlier runs as this are looked at.
const MOST: usize = 10_000;

/// Compares a run with those of the same user and application in a folder of results, or in a file of lines.
///
/// Earlier are runs that began before this one, where both say when; the log itself is left out. What is usual is the
/// median, how much it varies the median distance from it (MAD), so that a few odd runs change nothing. A quantity is
/// unusual if it is at least twice or at most half the usual and its modified Z-score, 0.6745 (x − median) / MAD, is beyond
/// 3.5 (Iglewicz & Hoaglin, 1993). `None` if the run names no program.
pub fn compare(run: &LabelledRun, results: &Path) -> Result<Option<History>, ArchiveError> {
    let Some(application) = &run.application else { return Ok(None) };
    let path = if results.is_dir() { results.join("runs.jsonl") } else { results.to_owned() };
    let failed = |source| ArchiveError::Read { path: path.clone(), source };
    let mut lines = BufReader::new(File::open(&path).map_err(failed)?);
    let (mut line, mut number) = (Vec::new(), 0_u64);
    let mut earlier: Vec<Earlier> = Vec::new();
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line).map_err(failed)? == 0 {
            break;
        }
        number += 1;
        let read = ResultLine::parse(line.trim_ascii_end()).map_err(|fault| ArchiveError::BadLine {
            path: path.display().to_string(),
            fault: format!("line {number}: {fault}"),
        })?;
        let same = read.rejected.is_none()
            && read.application.as_deref() == Some(application.as_said())
            && read.source.job.user.as_deref() == run.source.job.user.as_ref().map(Untrusted::as_said)
            && read.source.path != run.source.path.as_said();
        let began_before = match (read.source.job.start_time, run.source.job.start_time) {
            (Some(its), Some(ours)) => its < ours,
            _ => true,
        };
        if same && began_before {
            earlier.push(Earlier::of(&read));
            if earlier.len() >= 2 * MOST {
                keep_latest(&mut earlier);
            }
        }
    }
    keep_latest(&mut earlier);
    Ok(Some(history(run, application, &earlier)))
}

struct Earlier {
    start_time: f64,
    quantities: [f64; 4],
    labels: Vec<String>,
}

const QUANTITIES: [&str; 4] = ["bytes_read", "bytes_written", "metadata_requests", "run_time_s"];

impl Earlier {
    fn of(line: &ResultLine<'_>) -> Self {
        Self {
            start_time: line.source.job.start_time.unwrap_or(f64::NEG_INFINITY),
            quantities: [
                line.source.bytes_read,
                line.source.bytes_written,
                line.metadata.requests,
                line.run_time_s,
            ],
            labels: line.categories.iter().map(ToString::to_string).collect(),
        }
    }
}

fn keep_latest(earlier: &mut Vec<Earlier>) {
    earlier.sort_by(|a, b| b.start_time.total_cmp(&a.start_time));
    earlier.truncate(MOST);
}

fn history(run: &LabelledRun, application: &Untrusted, earlier: &[Earlier]) -> History {
    let mut told = History {
        application: application.clone(),
        user: run.source.job.user.clone(),
        n_runs: earlier.len() as u64,
        quantities: Vec::new(),
        missing_labels: Vec::new(),
        new_labels: Vec::new(),
    };
    if earlier.len() < FEWEST {
        return told;
    }
    let values = [run.source.bytes_read, run.source.bytes_written, run.metadata.requests, run.run_time_s];
    for (i, (quantity, value)) in QUANTITIES.into_iter().zip(values).enumerate() {
        let earlier: Vec<f64> = earlier.iter().map(|run| run.quantities[i]).collect();
        told.quantities.push(comparison(quantity, value, &earlier));
    }
    let mut bearers: BTreeMap<&str, u64> = BTreeMap::new();
    for label in earlier.iter().flat_map(|run| &run.labels) {
        *bearers.entry(label).or_default() += 1;
    }
    let share = |label: &str| bearers.get(label).map_or(0.0, |n| *n as f64 / earlier.len() as f64);
    let bears = |label: &str| run.categories.contains(&label);
    for &label in bearers.keys().filter(|label| !bears(label) && share(label) >= 0.9) {
        told.missing_labels.push(LabelShare { label: label.to_owned(), share: share(label) });
    }
    for &label in run.categories.iter().filter(|label| share(label) <= 0.1) {
        told.new_labels.push(LabelShare { label: label.to_owned(), share: share(label) });
    }
    told
}

/// Sets a value beside the earlier ones, of which there must be some.
fn comparison(quantity: &'static str, value: f64, earlier: &[f64]) -> Comparison {
    let usual = median(earlier).unwrap_or(f64::NAN);
    let spread = median_absolute_deviation(earlier).unwrap_or(f64::NAN);
    let far = 0.6745 * (value - usual).abs() > 3.5 * spread;
    let ratio = (usual > 0.0).then(|| value / usual);
    let large = ratio.map_or(value > 0.0, |ratio| !(0.5..2.0).contains(&ratio));
    Comparison { quantity, value, usual, spread, ratio, unusual: far && large }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_times_the_usual_is_unusual_if_the_usual_varies_less() {
        let steady = [100.0, 101.0, 99.0, 100.0, 102.0, 5000.0];
        assert!(comparison("metadata_requests", 300.0, &steady).unusual);
        assert!(!comparison("metadata_requests", 150.0, &steady).unusual, "not twice");
        assert!(comparison("metadata_requests", 0.0, &steady).unusual);
        let wild = [10.0, 100.0, 200.0, 400.0, 50.0];
        assert!(!comparison("metadata_requests", 300.0, &wild).unusual);
    }

    #[test]
    fn something_where_there_was_always_nothing_is_unusual() {
        let told = comparison("bytes_read", 5.0, &[0.0; 9]);
        assert!(told.unusual && told.ratio.is_none());
        assert!(!comparison("bytes_read", 0.0, &[0.0; 9]).unusual);
    }
}
