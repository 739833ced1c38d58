//! What simulating costs: the request-level model against the same in Python, and the fluid model on a million jobs.

use std::process::Command;

use super::{Bed, Goal, Line};
use crate::peer::on_path;
use crate::repository;

/// The report's workload, request by request, under Set-10 by the report's rules; once, without chances.
const REQUESTS: [&str; 15] = [
    "simulate",
    "io",
    "report",
    "--model",
    "requests",
    "--rules",
    "report",
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
const MILLION: [&str; 20] = [
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
    "--format=text",
];

/// CPU time of ours and of the Python form, which must agree on the figures.
pub(super) fn cpu_of_requests(bed: &Bed) -> Result<Vec<Line>, String> {
    let mut ours = f64::INFINITY;
    // The best of five: what else the machine does only ever adds.
    for _ in 0..5 {
        ours = ours.min(bed.measure(iotide(bed, &REQUESTS))?.cpu_s);
    }
    let peer = match on_path("python3") {
        Some(python) => {
            let script = repository().join("xtask/src/bench/simulate.py");
            let command = || {
                let mut command = Command::new(&python);
                command.arg(&script);
                command
            };
            agree(bed, command())?;
            let mut peer = f64::INFINITY;
            for _ in 0..3 {
                peer = peer.min(bed.measure(command())?.cpu_s);
            }
            Some(peer)
        }
        None => {
            eprintln!("no python3 on PATH: measuring iotide alone");
            None
        }
    };
    let what = "16 jobs of the report, request by request: CPU time".to_owned();
    Ok(vec![Line { what, unit: "s", iotide: ours, peer, goal: Goal::TimesLess(100.0) }])
}

/// CPU time of the whole program, from making up the jobs to judging each of them.
pub(super) fn cpu_of_a_million_jobs(bed: &Bed) -> Result<Vec<Line>, String> {
    let ours = bed.measure(iotide(bed, &MILLION))?;
    let what = "a million jobs, ten million phases, fluid: CPU time".to_owned();
    Ok(vec![Line { what, unit: "s", iotide: ours.cpu_s, peer: None, goal: Goal::AtMost(60.0) }])
}

fn iotide(bed: &Bed, args: &[&str]) -> Command {
    let mut command = Command::new(&bed.iotide);
    command.args(args).current_dir(&bed.folder);
    command
}

/// Two programs that do not compute the same are not compared.
fn agree(bed: &Bed, python: Command) -> Result<(), String> {
    let said = |mut command: Command| {
        let output = command.output().map_err(|error| format!("cannot start {command:?}: {error}"))?;
        Ok::<String, String>(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let mut ours = iotide(bed, &REQUESTS);
    ours.args(["--format", "json"]);
    let (ours, theirs) = (said(ours)?, said(python)?);
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
