//! Cost of finding a period: `iotide detect` against FTIO's `ftio`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::measure::Cost;
use super::tmio::{PERIOD_S, write_json_lines};
use super::{Bed, Goal, Line};

/// The CPU time and the peak memory of a million requests (56 MB).
pub(super) fn cpu_of_a_million_requests(bed: &Bed) -> Result<Vec<Line>, String> {
    let trace = trace(bed, "million.jsonl", 1_000_000, 100)?;
    check_answer(bed, &trace)?;
    // The better of three: what else the machine does only ever adds.
    let ours = best(3, || bed.measure(bed.iotide_detect(&trace)))?;
    let peer = peer_cost(bed, &trace);
    Ok(vec![
        Line {
            what: "1e6 requests, TMIO JSON Lines: CPU time".to_owned(),
            unit: "s",
            iotide: ours.cpu_s,
            peer: peer.map(|cost| cost.cpu_s),
            goal: Goal::TimesLess(20.0),
        },
        memory_line("1e6 requests, TMIO JSON Lines: peak memory", ours, peer, Goal::None),
    ])
}

/// The CPU time of a million requests in tables: CSV (39 MB), and the native trace made of it (10 MB).
pub(super) fn cpu_of_a_million_rows(bed: &Bed) -> Result<Vec<Line>, String> {
    let path = bed.folder.join("million.csv");
    write_rows(&path).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    let native = bed.folder.join("million.iotide");
    let status = (Command::new(&bed.iotide).arg("convert").arg(&path).args(["--to", "native", "-o"]))
        .arg(&native)
        .stderr(Stdio::null())
        .status();
    if !status.is_ok_and(|status| status.success()) {
        return Err(format!("cannot convert {}", path.display()));
    }
    let mut lines = Vec::new();
    for (what, trace, goal_s) in [("CSV", path, 0.15), ("native trace", native, 0.06)] {
        check_answer(bed, &trace)?;
        let ours = best(5, || bed.measure(bed.iotide_detect(&trace)))?;
        lines.push(Line {
            what: format!("1e6 requests, {what}: CPU time"),
            unit: "s",
            iotide: ours.cpu_s,
            peer: None,
            goal: Goal::AtMost(goal_s),
        });
        lines.push(memory_line(&format!("1e6 requests, {what}: peak memory"), ours, None, Goal::None));
    }
    Ok(lines)
}

/// A hundred ranks that write a hundred requests each in every one of a hundred phases.
fn write_rows(path: &std::path::Path) -> std::io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    writeln!(out, "rank,op,start,end,bytes")?;
    let mut chance = 1u64;
    for phase in 0..100 {
        for rank in 0..100 {
            let mut at_us = (f64::from(phase) * PERIOD_S * 1e6) as u64 + 7 * rank;
            for _ in 0..100 {
                chance =
                    chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let end_us = at_us + 10_000 + (chance >> 33) % 10_000;
                let seconds = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
                writeln!(out, "{rank},write,{},{},1048576", seconds(at_us), seconds(end_us))?;
                at_us = end_us;
            }
        }
    }
    out.flush()
}

/// The peak memory of five million requests (280 MB).
pub(super) fn memory_of_five_million(bed: &Bed) -> Result<Vec<Line>, String> {
    let trace = trace(bed, "five-million.jsonl", 5_000_000, 100)?;
    check_answer(bed, &trace)?;
    let ours = bed.measure(bed.iotide_detect(&trace))?;
    let peer = peer_cost(bed, &trace);
    Ok(vec![
        memory_line("5e6 requests, TMIO JSON Lines: peak memory", ours, peer, Goal::TimesLess(10.0)),
        Line {
            what: "5e6 requests, TMIO JSON Lines: CPU time".to_owned(),
            unit: "s",
            iotide: ours.cpu_s,
            peer: peer.map(|cost| cost.cpu_s),
            goal: Goal::None,
        },
    ])
}

/// The time from start to answer for a trace of 30 bursts and 1920 requests (0.1 MB), median of 20.
pub(super) fn time_of_a_small_trace(bed: &Bed) -> Result<Vec<Line>, String> {
    let trace = trace(bed, "small.jsonl", 1_920, 30)?;
    check_answer(bed, &trace)?;
    let mut costs = Vec::new();
    for _ in 0..20 {
        costs.push(bed.measure(bed.iotide_detect(&trace))?);
    }
    let peer = peer_cost(bed, &trace);
    let line = |what: &str, of: fn(&Cost) -> f64, goal| Line {
        what: format!("small trace (1920 requests): {what}, median of 20"),
        unit: "ms",
        iotide: median(costs.iter().map(of).collect()) * 1e3,
        peer: peer.as_ref().map(|cost| of(cost) * 1e3),
        goal,
    };
    Ok(vec![
        line("wall time end to end", |cost| cost.wall_s, Goal::AtMost(30.0)),
        line("CPU time", |cost| cost.cpu_s, Goal::None),
    ])
}

pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    (values[(n - 1) / 2] + values[n / 2]) / 2.0
}

fn trace(bed: &Bed, name: &str, n_requests: usize, n_bursts: usize) -> Result<PathBuf, String> {
    let path = bed.folder.join(name);
    write_json_lines(&path, n_requests, n_bursts)
        .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(path)
}

/// A fast wrong answer is worth nothing: the program must find the period the trace was made with.
fn check_answer(bed: &Bed, trace: &std::path::Path) -> Result<(), String> {
    let mut command: Command = bed.iotide_detect(trace);
    let output = command
        .args(["--format", "json"])
        .output()
        .map_err(|error| format!("cannot start iotide: {error}"))?;
    let answer = String::from_utf8_lossy(&output.stdout);
    let found = answer
        .split("\"period_s\":")
        .nth(1)
        .and_then(|rest| rest.split([',', '}']).next()?.trim().parse().ok());
    match found {
        Some(period_s) if relative_gap(period_s, PERIOD_S) < 0.02 => Ok(()),
        Some(period_s) => {
            Err(format!("the trace has a period of {PERIOD_S} s, but iotide found {period_s} s"))
        }
        None => Err(format!("iotide found no period: {}{}", answer, String::from_utf8_lossy(&output.stderr))),
    }
}

fn relative_gap(a: f64, b: f64) -> f64 {
    (a - b).abs() / b
}

fn peer_cost(bed: &Bed, trace: &std::path::Path) -> Option<Cost> {
    match bed.measure(bed.ftio(trace)?) {
        Ok(cost) => Some(cost),
        Err(error) => {
            eprintln!("the peer failed: {error}");
            None
        }
    }
}

fn memory_line(what: &str, ours: Cost, peer: Option<Cost>, goal: Goal) -> Line {
    Line {
        what: what.to_owned(),
        unit: "MB",
        iotide: ours.peak_bytes / 1e6,
        peer: peer.map(|cost| cost.peak_bytes / 1e6),
        goal,
    }
}

pub(super) fn best(n: usize, mut measure: impl FnMut() -> Result<Cost, String>) -> Result<Cost, String> {
    let mut best = measure()?;
    for _ in 1..n {
        let cost = measure()?;
        if cost.cpu_s < best.cpu_s {
            best = cost;
        }
    }
    Ok(best)
}
