//! Cost of simulating a machine's jobs: against AccaSim, and on a log of a hundred thousand jobs with a long queue.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Bed, Goal, Line};
use crate::peer::python_with;
use crate::repository;
use crate::synthetic::random::Random;

const N_NODES: usize = 256;

/// CPU time and memory of `iotide simulate jobs`, beside AccaSim, which must agree on first come first served.
pub(super) fn cpu_of_job_logs(bed: &Bed) -> Result<Vec<Line>, String> {
    let small = log(bed, "small.swf", 1_000, 0.9)?;
    let python = python_with(
        "accasim",
        "import collections, collections.abc; collections.Callable = collections.abc.Callable; import accasim",
    );
    let mut lines = Vec::new();
    for policy in ["fcfs", "easy"] {
        let peer = match &python {
            Some(python) => {
                if policy == "fcfs" {
                    agree(bed, &small, python)?;
                }
                Some(bed.measure(accasim(python, &small, policy))?.cpu_s)
            }
            None => None,
        };
        let least = (0..5).try_fold(f64::INFINITY, |least, _| {
            Ok::<f64, String>(bed.measure(ours(bed, &small, policy))?.cpu_s.min(least))
        })?;
        lines.push(Line {
            what: format!("1000 jobs, {policy}, whole program: CPU time"),
            unit: "s",
            iotide: least,
            peer,
            goal: if peer.is_some() { Goal::TimesLess(100.0) } else { Goal::AtMost(0.01) },
        });
    }
    // More than the machine can do: thousands wait.
    let large = log(bed, "large.swf", 100_000, 1.05)?;
    for (policy, most_s) in [("easy", 1.0), ("mebf-aggressive+", 3.0), ("tide", 3.0)] {
        let mut command = ours(bed, &large, policy);
        command.args(["--malleable", "50"]);
        let cost = bed.measure(command)?;
        let what = format!("100,000 jobs, half of them malleable, {policy}: CPU time");
        lines.push(Line { what, unit: "s", iotide: cost.cpu_s, peer: None, goal: Goal::AtMost(most_s) });
        let what = "… peak memory".to_owned();
        lines.push(Line {
            what,
            unit: "MB",
            iotide: cost.peak_bytes / 1e6,
            peer: None,
            goal: Goal::AtMost(200.0),
        });
    }
    Ok(lines)
}

fn ours(bed: &Bed, log: &Path, policy: &str) -> Command {
    let mut command = Command::new(&bed.iotide);
    command.args(["simulate", "jobs"]).arg(log).args(["--policies", policy]).current_dir(&bed.folder);
    command
}

fn accasim(python: &Path, log: &Path, policy: &str) -> Command {
    let mut command = Command::new(python);
    command.arg(repository().join("lab/src/bench/jobs.py")).arg(log).arg(N_NODES.to_string()).arg(policy);
    command
}

/// Two programs that do not compute the same are not compared.
fn agree(bed: &Bed, log: &Path, python: &Path) -> Result<(), String> {
    let args =
        ["simulate".as_ref(), "jobs".as_ref(), log.as_os_str(), "--policies".as_ref(), "fcfs".as_ref()];
    let ours: serde_json::Value =
        serde_json::from_str(&bed.answer(args.into_iter().chain(["--format".as_ref(), "json".as_ref()]))?)
            .map_err(|error| error.to_string())?;
    let output =
        accasim(python, log, "fcfs").output().map_err(|error| format!("cannot start AccaSim: {error}"))?;
    let said =
        String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    for (name, theirs) in [("makespan_s", "Makespan:"), ("mean_wait_s", "Avg. waiting times:")] {
        let ours = ours["policies"][0][name].as_f64();
        let theirs =
            said.lines().rev().find_map(|line| line.split_once(theirs)?.1.trim().parse::<f64>().ok());
        // AccaSim says two digits.
        if ours.zip(theirs).is_none_or(|(ours, theirs)| (ours - theirs).abs() > 0.006) {
            return Err(format!("{name} is {ours:?} here and {theirs:?} in AccaSim: not the same model"));
        }
    }
    Ok(())
}

/// A log of rigid jobs: sizes of powers of two, times over three orders of magnitude.
fn log(bed: &Bed, name: &str, n_jobs: usize, load: f64) -> Result<PathBuf, String> {
    let mut random = Random::new(23);
    let jobs: Vec<(usize, f64)> = (0..n_jobs)
        .map(|_| {
            (
                1 << random.whole(0, 7).min(random.whole(0, 8)),
                random.log_normal(1800.0, 1.6).clamp(1.0, 2e5).round(),
            )
        })
        .collect();
    let node_s: f64 = jobs.iter().map(|&(nodes, runtime_s)| nodes as f64 * runtime_s).sum();
    let gap_s = node_s / N_NODES as f64 / load / n_jobs as f64;
    let mut text = format!("; MaxNodes: {N_NODES}\n");
    let mut at_s = 0.0;
    for (i, (nodes, runtime_s)) in jobs.into_iter().enumerate() {
        at_s += random.exponential(gap_s);
        let _ = writeln!(
            text,
            "{} {at_s:.0} -1 {runtime_s:.0} {nodes} -1 -1 {nodes} {runtime_s:.0} -1 1 -1 -1 -1 0 -1 -1 -1",
            i + 1
        );
    }
    let file = bed.folder.join(name);
    std::fs::write(&file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    Ok(file)
}
