//! Values that a run measured, under the names by which they are modelled, and the answers of an application's models.

use std::collections::BTreeMap;

use iotide_ledger::{Cell, Counters, Metric};
use serde::{Deserialize, Serialize};

use crate::scaling::ScalingReport;
use crate::text;
use iotide_look::Untrusted;

/// One value that a run measured.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileValue {
    /// Of what: `posix->write`, `mpi->MPI_Gather`, `io`, `run`.
    pub callpath: String,
    /// Metric: `time` in seconds, `hits`, `size` in bytes; `value` of the program's own counters.
    pub metric: &'static str,
    /// How much.
    pub value: f64,
}

/// Returns what a run counted: calls, bytes and time by operation and by MPI function, its own counters, and where its time went.
pub fn profile(counters: &Counters, run_time_s: Option<f64>) -> Vec<ProfileValue> {
    let mut cells: BTreeMap<String, Cell> = BTreeMap::new();
    let mut values = Vec::new();
    for (metric, cell) in counters.iter() {
        let callpath = match metric {
            // What is beneath another layer is the same again.
            _ if metric.is_beneath() => continue,
            Metric::Io { op, layer, .. } => format!("{layer}->{op}"),
            Metric::Mpi { function } => format!("mpi->{function}"),
            Metric::System(counter) => format!("cgroup->{counter}"),
            Metric::Own { name, .. } => {
                let callpath = format!("own->{name}");
                values.push(ProfileValue { callpath, metric: "value", value: cell.calls as f64 });
                continue;
            }
            _ => continue,
        };
        cells.entry(callpath).or_default().add(*cell);
    }
    let (io, mpi, threads) = (counters.io(), counters.mpi(), counters.threads());
    let mut all_io = io.read;
    all_io.add(io.write);
    all_io.add(io.other);
    cells.insert("io".to_owned(), all_io);
    cells.insert("mpi".to_owned(), mpi);
    let time_of =
        |callpath: &str, value| ProfileValue { callpath: callpath.to_owned(), metric: "time", value };
    let seconds = |ns: u64| ns as f64 / 1e9;
    values.push(time_of("threads", seconds(threads.ns)));
    values.push(time_of("compute", seconds(threads.ns.saturating_sub(all_io.ns).saturating_sub(mpi.ns))));
    values.extend(run_time_s.map(|run_time_s| time_of("run", run_time_s)));
    for (callpath, cell) in cells {
        let measured = [("time", seconds(cell.ns)), ("hits", cell.calls as f64), ("size", cell.bytes as f64)];
        values.extend(measured.map(|(metric, value)| ProfileValue {
            callpath: callpath.clone(),
            metric,
            value,
        }));
    }
    values
}

/// The models of an application.
#[derive(Clone, Debug, Serialize)]
pub struct ApplicationModels {
    /// Which application.
    pub app: Untrusted,
    /// Name of its program.
    pub name: Untrusted,
    /// Whose runs these are.
    pub user: Untrusted,
    /// How many runs the models rest on.
    pub runs: usize,
    /// The binaries that ran, the latest first.
    pub builds: Vec<BuildEntry>,
    /// The models, as `iotide model` tells them.
    #[serde(flatten)]
    pub report: ScalingReport,
}

/// The runs of one binary.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BuildEntry {
    /// The digits of its build id; empty if it is not known.
    pub build: Untrusted,
    /// How many runs.
    pub runs: usize,
    /// When the first of them began.
    pub first_unix_s: f64,
    /// When the last of them began.
    pub last_unix_s: f64,
}

/// Value of a model at one point.
#[derive(Clone, Debug, Serialize)]
pub struct Evaluated {
    /// The value.
    pub value: Option<f64>,
    /// Between which values the truth lies.
    pub interval: Option<[f64; 2]>,
    /// With which probability.
    pub confidence: f64,
    /// Reasons to be careful.
    pub cautions: Vec<String>,
}

/// Runs that models rest on, as a daemon reports them.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct WatchedRuns {
    /// Which application.
    pub app: Untrusted,
    /// Name of its program.
    pub name: Untrusted,
    /// Whose runs these are.
    pub user: Untrusted,
    /// How many.
    pub runs: u64,
    /// The binaries.
    pub builds: Vec<serde::de::IgnoredAny>,
    /// Data that is left out.
    pub notes: Vec<Untrusted>,
}

impl WatchedRuns {
    /// Reads what a daemon answered.
    pub fn from_json(json: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(json)
    }

    /// In a few words: `5 runs of lmp (application 0123) by ada`.
    pub fn to_text(&self) -> String {
        let binaries = match self.builds.len() {
            0 | 1 => String::new(),
            n => format!(", {n} binaries"),
        };
        format!(
            "{} of {} (application {}{binaries}) by {}",
            text::counted(self.runs, "run"),
            self.name.for_terminal(),
            self.app.for_terminal(),
            self.user.for_terminal()
        )
    }
}

/// A model in a job's report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelLine {
    /// Where in the program.
    pub callpath: Untrusted,
    /// The metric.
    pub metric: Untrusted,
    /// The function for people.
    pub function: Untrusted,
    /// How many points it is based on.
    pub n_points: u64,
}

/// Models of an application, for a job's report.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ModelLines {
    /// How many runs they rest on.
    pub runs: u64,
    /// The models.
    pub models: Vec<ModelLine>,
}

impl ModelLines {
    /// Reads what a daemon answered.
    pub fn from_json(json: &[u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }

    /// The models that say most of a job, as a table: those of the callpaths named first, and of the sums.
    pub fn to_text(&self, callpaths: &[String], most: usize) -> String {
        const SUMS: [&str; 4] = ["run", "compute", "io", "mpi"];
        let rank = |line: &ModelLine| {
            let callpath = line.callpath.as_said();
            let of_sums = SUMS.iter().position(|sum| *sum == callpath);
            of_sums.or_else(|| Some(SUMS.len() + callpaths.iter().position(|known| known == callpath)?))
        };
        // One point has no shape.
        let mut shown: Vec<(usize, &ModelLine)> = (self.models.iter())
            .filter(|line| line.n_points > 1)
            .filter_map(|line| Some((rank(line)?, line)))
            .collect();
        shown.sort_by_key(|(rank, _)| *rank);
        if shown.is_empty() {
            return String::new();
        }
        let mut out = format!("\nModels of {}\n", text::counted(self.runs, "run"));
        let head = ["of", "what", "points", "function"];
        let rows = shown.iter().take(most).map(|(_, line)| {
            [
                line.callpath.for_terminal(),
                line.metric.for_terminal(),
                line.n_points.to_string(),
                format!("= {}", in_few_digits(&line.function)),
            ]
        });
        out.push_str(&crate::jobs::table(&head, &rows.collect::<Vec<_>>()));
        out
    }
}

/// A function with as many digits of its numbers as people look at.
fn in_few_digits(function: &Untrusted) -> String {
    let text = function.for_terminal();
    let words = text.split(' ').map(|word| match word.parse::<f64>() {
        Ok(number) if number.is_finite() => text::digits(number, 4),
        _ => word.to_owned(),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_ledger::Name;

    #[test]
    fn a_profile_adds_up_to_the_time_of_its_threads() {
        let name = |text: &str| Name::cut(text.as_bytes());
        let io =
            |op: &str, layer: &str, fs: &str| Metric::Io { op: op.into(), layer: layer.into(), fs: name(fs) };
        let counters: Counters = [
            (io("write", "posix", "/a"), Cell { calls: 2, bytes: 10, ns: 1_000_000_000 }),
            (io("write", "posix", "/b"), Cell { calls: 1, bytes: 5, ns: 500_000_000 }),
            (io("write", "beneath", "/b"), Cell { calls: 9, bytes: 9, ns: 9 }),
            (Metric::Mpi { function: "MPI_Bcast".into() }, Cell { calls: 3, bytes: 96, ns: 2_000_000_000 }),
            (Metric::Own { name: name("steps"), unit: name("1") }, Cell { calls: 7, ..Cell::default() }),
            (Metric::Threads, Cell { calls: 0, bytes: 0, ns: 10_000_000_000 }),
        ]
        .into_iter()
        .collect();
        let profile = profile(&counters, Some(5.0));
        let of = |callpath: &str, metric: &str| {
            let found = profile.iter().find(|value| value.callpath == callpath && value.metric == metric);
            found.map(|value| value.value)
        };
        assert_eq!((of("posix->write", "hits"), of("posix->write", "size")), (Some(3.0), Some(15.0)));
        assert_eq!((of("mpi->MPI_Bcast", "time"), of("own->steps", "value")), (Some(2.0), Some(7.0)));
        assert_eq!((of("compute", "time"), of("run", "time")), (Some(6.5), Some(5.0)));
        assert_eq!(of("beneath->write", "hits"), None);
        let parts = ["compute", "io", "mpi"].map(|part| of(part, "time").unwrap());
        assert_eq!(Some(parts.iter().sum()), of("threads", "time"));
    }

    #[test]
    fn a_job_report_shows_what_says_most() {
        let line = |callpath: &str, metric: &str, n_points| ModelLine {
            callpath: callpath.into(),
            metric: metric.into(),
            function: "2 * size^(1)".into(),
            n_points,
        };
        let lines = ModelLines {
            runs: 5,
            models: vec![
                line("posix->open", "hits", 5),
                line("posix->write", "size", 5),
                line("run", "time", 5),
                line("stdio->read", "size", 1),
            ],
        };
        insta::assert_snapshot!(lines.to_text(&["posix->write".to_owned(), "stdio->read".to_owned()], 8), @r"

        Models of 5 runs
          of            what  points  function
          run           time       5  = 2 * size^(1)
          posix->write  size       5  = 2 * size^(1)
        ");
        assert_eq!(ModelLines::default().to_text(&[], 8), "");
    }
}
