//! Cost of simulating: the request-level model against the same in Python, and the fluid model on a million jobs.

use std::path::PathBuf;
use std::process::Command;

use super::{Bed, Goal, Line};
use crate::peer::on_path;
use crate::repository;

/// The report's workload, request by request, under Set-10; once, without chances.
const REQUESTS: [&str; 13] = [
    "simulate",
    "io",
    "report",
    "--model",
    "requests",
    "--policies",
    "set10",
    "--repetitions",
    "1",
    "--sigma",
    "0",
    "--jitter",
    "0",
];

/// A million jobs that compute and do I/O ten times each, around 10, 100 and 1000 seconds, on one storage.
const MILLION: [&str; 19] = [
    "simulate",
    "io",
    "mix",
    "--jobs",
    "1000000",
    "--iterations",
    "10",
    "--load",
    "0.8",
    "--frame",
    "100:20000",
    "--model",
    "fluid",
    "--policies",
    "set10",
    "--repetitions",
    "1",
    "--bandwidth",
    "1T",
];

/// CPU time of ours and of the Python form, which must agree on the figures.
pub(super) fn cpu_of_requests(bed: &Bed) -> Result<Vec<Line>, String> {
    let python = on_path("python3");
    if python.is_none() {
        eprintln!("no python3 on PATH: measuring iotide alone");
    }
    let script = repository().join("lab/src/bench/simulate.py");
    let mut lines = Vec::new();
    for rules in ["report", "iotide"] {
        let ours = || iotide(bed, &[&REQUESTS[..], &["--rules", rules]].concat());
        let theirs = |python: &PathBuf| {
            let mut command = Command::new(python);
            command.arg(&script).arg(rules);
            command
        };
        let peer = match &python {
            Some(python) => {
                agree(ours(), theirs(python))?;
                Some(least_cpu(bed, || theirs(python), 3)?)
            }
            None => None,
        };
        lines.push(Line {
            what: format!("16 jobs of the report, request by request, {rules} rules: CPU time"),
            unit: "s",
            iotide: least_cpu(bed, ours, 5)?,
            peer,
            goal: Goal::TimesLess(100.0),
        });
    }
    Ok(lines)
}

/// The least of several runs: what else the machine does only ever adds.
fn least_cpu(bed: &Bed, command: impl Fn() -> Command, n_runs: usize) -> Result<f64, String> {
    (0..n_runs).try_fold(f64::INFINITY, |least, _| Ok(bed.measure(command())?.cpu_s.min(least)))
}

/// CPU time of the whole program, from making up the jobs to judging each of them.
pub(super) fn cpu_of_a_million_jobs(bed: &Bed) -> Result<Vec<Line>, String> {
    let mut command = iotide(bed, &MILLION);
    command.args(["--format", "json", "-o", "million.json"]);
    let ours = bed.measure(command)?;
    let answer = bed.folder.join("million.json");
    let text = std::fs::read_to_string(&answer).map_err(|error| format!("{}: {error}", answer.display()))?;
    let slowdown = number(&text, "io_slowdown");
    if slowdown.is_none_or(|slowdown| slowdown < 1.0) {
        return Err(format!("a million jobs at 80 % load have an I/O slowdown of {slowdown:?}"));
    }
    let what = "a million jobs, ten million phases, fluid: CPU time".to_owned();
    Ok(vec![Line { what, unit: "s", iotide: ours.cpu_s, peer: None, goal: Goal::AtMost(60.0) }])
}

fn iotide(bed: &Bed, args: &[&str]) -> Command {
    let mut command = Command::new(&bed.iotide);
    command.args(args).current_dir(&bed.folder);
    command
}

/// Two programs that do not compute the same are not compared.
fn agree(mut ours: Command, theirs: Command) -> Result<(), String> {
    let said = |mut command: Command| {
        let output = command.output().map_err(|error| format!("cannot start {command:?}: {error}"))?;
        Ok::<String, String>(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    ours.args(["--format", "json"]);
    let (ours, theirs) = (said(ours)?, said(theirs)?);
    for name in ["max_stretch", "geomean_stretch", "io_slowdown", "utilization"] {
        let (ours, theirs) = (number(&ours, name), number(&theirs, name));
        if ours.zip(theirs).is_none_or(|(ours, theirs)| (ours / theirs - 1.0).abs() > 1e-6) {
            return Err(format!("{name} is {ours:?} here and {theirs:?} in Python: not the same model"));
        }
    }
    Ok(())
}

/// The first number under a name in JSON.
fn number(json: &str, name: &str) -> Option<f64> {
    let (_, after) = json.split_once(&format!("\"{name}\":"))?;
    let after = after.trim_start();
    let end = after.find(|c: char| !"0123456789.eE+-".contains(c)).unwrap_or(after.len());
    after[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_under_a_name_is_found() {
        let json = r#"{"x": {"a": null}, "io_slowdown": 4.5e0, "a": -1}"#;
        assert_eq!(number(json, "io_slowdown"), Some(4.5));
        assert_eq!((number(json, "b"), number(json, "a")), (None, None));
    }
}
