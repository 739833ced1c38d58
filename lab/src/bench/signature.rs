//! Cost of finding the signatures of all applications of a machine: three months of its servers' throughput at 2 s,
//! and all its jobs.
//!
//! The yardstick is the IOSI paper (FAST 2014, section 6.3): three months of logs with 80,815 job entries in 72 minutes.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::Command;

use super::{Bed, Goal, Line};
use crate::synthetic::random::Random;

const INTERVAL_S: f64 = 2.0;
/// Ninety-two days and a half.
const N_VALUES: usize = 4_000_000;
const N_JOBS: usize = 80_000;
const N_APPLICATIONS: usize = 2_500;
const START_UNIX_S: f64 = 1_700_000_000.0;

/// The paper's time.
const PAPER_S: f64 = 72.0 * 60.0;

/// Wall time, CPU time and peak memory of all signatures of a log, written as JSON Lines, Parquet and a page.
pub(super) fn three_months(bed: &Bed) -> Result<Vec<Line>, String> {
    let written = write_inputs(&bed.folder).map_err(|error| format!("cannot write the log: {error}"))?;
    let mut command = Command::new(&bed.iotide);
    command.args([
        "signature",
        "log.csv",
        "--jobs",
        "jobs.txt",
        "-o",
        "all.jsonl",
        "-o",
        "all.parquet",
        "-o",
        "all.html",
    ]);
    command.current_dir(&bed.folder);
    let cost = bed.measure(command)?;
    check_answer(&bed.folder.join("all.jsonl"), written)?;
    let line = |what: &str, unit, iotide, peer, goal| Line {
        what: format!("4e6 values, 8e4 jobs, {N_APPLICATIONS} applications: {what}"),
        unit,
        iotide,
        peer,
        goal,
    };
    Ok(vec![
        line(
            "wall time (peer: as the IOSI paper states it)",
            "s",
            cost.wall_s,
            Some(PAPER_S),
            Goal::AtMost(120.0),
        ),
        line("CPU time", "s", cost.cpu_s, None, Goal::None),
        line("peak memory", "MB", cost.peak_bytes / 1e6, None, Goal::AtMost(1073.0)),
    ])
}

/// An application: how long it runs, how often it writes, how fast.
struct Application {
    duration_s: f64,
    period_s: f64,
    burst_s: f64,
    bandwidth_bps: f64,
}

/// Writes `log.csv` and `jobs.txt`; returns how many applications ran at least three times.
fn write_inputs(folder: &Path) -> std::io::Result<usize> {
    let mut random = Random::new(2014);
    // Most jobs are short: from ten minutes to half a day, an hour in the middle.
    let applications: Vec<Application> = (0..N_APPLICATIONS)
        .map(|_| {
            let duration_s = 600.0 * 72f64.powf(random.unit().powi(2));
            let period_s = duration_s / (3.0 + 17.0 * random.unit());
            Application {
                duration_s,
                period_s,
                burst_s: period_s * (0.05 + 0.3 * random.unit()),
                bandwidth_bps: 2e8 * 50f64.powf(random.unit()),
            }
        })
        .collect();
    let mut values: Vec<f32> = (0..N_VALUES).map(|_| (5e7 + 5e7 * random.unit()) as f32).collect();
    let log_s = N_VALUES as f64 * INTERVAL_S;
    let mut jobs = BufWriter::new(File::create(folder.join("jobs.txt"))?);
    writeln!(jobs, "JobID|User|JobName|NNodes|Start|End|State")?;
    let mut n_runs = vec![0usize; N_APPLICATIONS];
    for id in 0..N_JOBS {
        let which = ((random.unit() * N_APPLICATIONS as f64) as usize).min(N_APPLICATIONS - 1);
        let application = &applications[which];
        n_runs[which] += 1;
        let start_s = random.unit() * (log_s - application.duration_s);
        let mut at_s = 0.1 * application.period_s;
        let mut late_s = 0.0;
        while at_s + application.burst_s < application.duration_s {
            // Contention delays, a little each time.
            late_s += 2.0 * random.unit();
            let first = ((start_s + at_s + late_s) / INTERVAL_S) as usize;
            let n = (application.burst_s / INTERVAL_S).ceil() as usize;
            for value in values.iter_mut().skip(first).take(n) {
                *value += application.bandwidth_bps as f32;
            }
            at_s += application.period_s;
        }
        let (start, end) = (START_UNIX_S + start_s, START_UNIX_S + start_s + application.duration_s + late_s);
        writeln!(
            jobs,
            "{id}|user{}|app{which}|{}|{start:.0}|{end:.0}|COMPLETED",
            which % 200,
            1 << (which % 10)
        )?;
        writeln!(jobs, "{id}.batch||batch|1|{start:.0}|{end:.0}|COMPLETED")?;
    }
    jobs.flush()?;
    let mut log = BufWriter::new(File::create(folder.join("log.csv"))?);
    writeln!(log, "time,bandwidth")?;
    for (i, value) in values.iter().enumerate() {
        writeln!(log, "{},{value:.0}", START_UNIX_S as usize + i * INTERVAL_S as usize)?;
    }
    log.flush()?;
    Ok(n_runs.iter().filter(|n| **n >= 3).count())
}

/// A fast answer that leaves applications out is worth nothing.
fn check_answer(lines: &Path, n_applications: usize) -> Result<(), String> {
    let text = std::fs::read_to_string(lines)
        .map_err(|error| format!("cannot read {}: {error}", lines.display()))?;
    let n_found = text.lines().filter(|line| line.contains("\"bursts\":[{")).count();
    // Some applications drown in what the others write; most must not.
    if n_found * 2 >= n_applications {
        Ok(())
    } else {
        Err(format!(
            "{n_applications} applications ran three times, but only {n_found} have a signature with bursts"
        ))
    }
}
