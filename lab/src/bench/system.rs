//! Cost of simulating shared storage for each event, beside rebop on the same nets, and the time that an operator waits for an answer.

use std::process::Command;

use serde_json::{Value, json};

use super::{Bed, Goal, Line};
use crate::peer::python_with;
use crate::repository;

/// Nanoseconds of CPU an event, of both.
pub(super) fn cost_of_an_event(bed: &Bed) -> Result<Vec<Line>, String> {
    let python = python_with("rebop", "import rebop");
    let endless = |count: u64, think_s: f64| json!({"name": format!("{count}"), "processes": count, "requests": null, "request_bytes": 1, "think_s": think_s});
    let eight: Vec<Value> = (0..8)
        .map(|job| json!({"name": format!("{job}"), "processes": 1, "requests": null, "request_bytes": 1, "think_s": 1}))
        .collect();
    let jobs = |n: usize| -> Vec<Value> { (0..n).map(|job| json!({"template": format!("{job}")})).collect() };
    let nets = [
        (
            "one queue, one server",
            Some(("one", "3000000")),
            40.0,
            json!({"storage": {"targets": [{"iops": 1}]}, "arrivals": [{"template": "a", "per_s": 0.8}], "frame_s": [0, 3e7],
                   "templates": [{"name": "a", "requests": 1, "iterations": 1, "start": "io"}]}),
        ),
        (
            "8 jobs, 3 places each",
            Some(("eight", "100000")),
            1e9 / 15e6,
            json!({"storage": {"targets": [{"iops": 6, "bandwidth_bps": 5}]}, "templates": eight, "jobs": jobs(8), "frame_s": [0, 2e6]}),
        ),
        (
            "1000 jobs of one kind",
            None,
            100.0,
            json!({"storage": {"targets": [{"iops": 600, "bandwidth_bps": 500}]}, "templates": [endless(1000, 1.0)], "jobs": [{"template": "1000"}], "frame_s": [0, 2e4]}),
        ),
    ];
    let mut lines = Vec::new();
    for (name, peer, most_ns, system) in nets {
        let path = bed.folder.join("net.json");
        std::fs::write(&path, system.to_string()).map_err(|error| error.to_string())?;
        let args = ["simulate", "system", "net.json", "--repetitions", "1", "--format", "json"];
        let mut ours = f64::INFINITY;
        for _ in 0..3 {
            let mut command = Command::new(&bed.iotide);
            command.args(args).args(["-o", "answer.json"]).current_dir(&bed.folder);
            let cpu_s = bed.measure(command)?.cpu_s;
            let text =
                std::fs::read_to_string(bed.folder.join("answer.json")).map_err(|error| error.to_string())?;
            let answer: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
            let n_events = answer["system"]["events"].as_f64().ok_or("no events")?;
            ours = ours.min(1e9 * cpu_s / n_events);
        }
        let theirs = match (&python, peer) {
            (Some(python), Some((net, until))) => {
                let script = repository().join("lab/src/bench/system.py");
                let output = Command::new(python).arg(script).args([net, until]).output();
                let said = output.map_err(|error| error.to_string())?.stdout;
                let said = String::from_utf8_lossy(&said).into_owned();
                let mut numbers = said.split_whitespace().filter_map(|word| word.parse::<f64>().ok());
                numbers.next().zip(numbers.next()).map(|(n_events, cpu_s)| 1e9 * cpu_s / n_events)
            }
            _ => None,
        };
        lines.push(Line {
            what: format!("{name}: CPU an event"),
            unit: "ns",
            iotide: ours,
            peer: theirs,
            goal: Goal::AtMost(most_ns),
        });
    }
    Ok(lines)
}

/// Wall time of the answer to "the next ten minutes" of sixteen jobs, a hundred times over; and of templates of a thousand runs.
pub(super) fn time_of_an_answer(bed: &Bed) -> Result<Vec<Line>, String> {
    let system = json!({
        "storage": {"targets": [{"iops": 20000, "servers": 16, "bandwidth_bps": 5e9, "stream_bps": 1e9}]},
        "templates": [{"name": "a", "compute_s": 60, "processes": 64, "requests": 4000, "request_bytes": 4194304},
                      {"name": "b", "compute_s": 20, "processes": 16, "requests": 1000, "request_bytes": 1048576}],
        "jobs": [{"template": "a", "count": 8}, {"template": "b", "count": 8}], "frame_s": [0, 600]});
    let runs: Vec<Value> = (0..1000)
        .map(|run| {
            let processes = 16 << (run % 5);
            let bins: Vec<u64> = (0..200).map(|bin| if bin % 20 < 3 && bin > 3 { 1 + run as u64 % 7 } else { 0 }).collect();
            let bytes: Vec<u64> = bins.iter().map(|ops| ops << 20).collect();
            json!({"program": format!("p{}", run / 5), "processes": processes, "dt_s": 1, "ops": bins, "bytes": bytes})
        })
        .collect();
    let write = |name: &str, value: &Value| {
        std::fs::write(bed.folder.join(name), value.to_string()).map_err(|error| error.to_string())
    };
    write("system.json", &system)?;
    write("runs.json", &json!({"p_ref": 64, "runs": runs}))?;
    let wall = |args: &[&str]| -> Result<f64, String> {
        let mut least = f64::INFINITY;
        for _ in 0..3 {
            let mut command = Command::new(&bed.iotide);
            command.args(args).current_dir(&bed.folder);
            least = least.min(bed.measure(command)?.wall_s);
        }
        Ok(least)
    };
    let line = |what: &str, iotide| Line {
        what: what.to_owned(),
        unit: "s",
        iotide,
        peer: None,
        goal: Goal::AtMost(1.0),
    };
    Ok(vec![
        line("16 jobs, 600 s, 100 repetitions: wall time", wall(&["simulate", "system", "system.json"])?),
        line("templates of 1000 runs: wall time", wall(&["templates", "runs.json"])?),
    ])
}
