//! Cost of scaling models: `iotide model` against Extra-P's `extrap`, CPU time on the same files.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Bed, Goal, Line};
use crate::accuracy::scaling::Rng;
use crate::peer::on_path;

/// The four cases: a name, values along each parameter, repetitions, and how many metrics.
const CASES: [(&str, &[&[f64]], usize, usize); 4] = [
    ("1 parameter, 8 points, 5 repetitions, 1000 metrics", &[&DOUBLING], 5, 1000),
    ("2 parameters, 25 points, 5 repetitions, 1000 metrics", &[&FIVE, &TENS], 5, 1000),
    ("3 parameters, 125 points, 5 repetitions, 100 metrics", &[&FIVE, &TENS, &THREES], 5, 100),
    ("1 parameter, 39 points, 1 repetition, 244 metrics", &[&NODES], 1, 244),
];

const DOUBLING: [f64; 8] = [4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];
const FIVE: [f64; 5] = [4.0, 8.0, 16.0, 32.0, 64.0];
const TENS: [f64; 5] = [10.0, 20.0, 30.0, 40.0, 50.0];
const THREES: [f64; 5] = [3.0, 6.0, 9.0, 12.0, 15.0];
/// 1 to 39 nodes of 32 cores.
const NODES: [f64; 39] = {
    let mut values = [0.0; 39];
    let mut i = 0;
    while i < 39 {
        values[i] = 32.0 * (i as f64 + 1.0);
        i += 1;
    }
    values
};

/// CPU time of both methods and of the peer, on one core.
pub(super) fn cpu_of_models(bed: &Bed) -> Result<Vec<Line>, String> {
    let extrap = on_path("extrap");
    if extrap.is_none() {
        eprintln!("no extrap on PATH (`pip install extrap`): measuring iotide alone");
    }
    let mut lines = Vec::new();
    for (index, (name, axes, n_repetitions, n_metrics)) in CASES.iter().enumerate() {
        let file = bed.folder.join(format!("model-{index}.jsonl"));
        std::fs::write(&file, measurements(axes, *n_repetitions, *n_metrics))
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        let peer = match &extrap {
            Some(extrap) => Some(bed.measure(peer_command(extrap, &file, &bed.folder))?.cpu_s),
            None => None,
        };
        for (method, times) in [("extrap", 300.0), ("auto", 100.0)] {
            check_answer(bed, &file, method, *n_metrics)?;
            // The best of three: what else the machine does only ever adds.
            let mut ours = f64::INFINITY;
            for _ in 0..3 {
                ours = ours.min(bed.measure(model_command(bed, &file, method))?.cpu_s);
            }
            lines.push(Line {
                what: format!("{name}: CPU time, --method {method}"),
                unit: "s",
                iotide: ours,
                peer,
                goal: Goal::TimesLess(times),
            });
        }
    }
    Ok(lines)
}

/// CPU time of a refit as the daemon does it when a run ends: all metrics of an application, as many runs as it looks at, on one core. `iotide model`
/// fits the same points the same way (a test says so); reading and printing them comes on top here.
pub(super) fn cpu_of_a_refit(bed: &Bed) -> Result<Vec<Line>, String> {
    const N_METRICS: usize = 300;
    let mut lines = Vec::new();
    for (what, axes, n_repetitions) in [
        ("32 runs at 8 sizes", &[&DOUBLING[..]][..], 4),
        ("33 runs at 33 sizes", &[&NODES[..33]], 1),
        ("25 runs at 5 × 5 points of two parameters", &[&FIVE, &TENS], 1),
    ] {
        let file = bed.folder.join("refit.jsonl");
        std::fs::write(&file, measurements(axes, n_repetitions, N_METRICS))
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        check_answer(bed, &file, "auto", N_METRICS)?;
        let mut ours = f64::INFINITY;
        for _ in 0..3 {
            ours = ours.min(bed.measure(model_command(bed, &file, "auto"))?.cpu_s);
        }
        lines.push(Line {
            what: format!("refit of {N_METRICS} metrics, {what}: CPU time"),
            unit: "s",
            iotide: ours,
            peer: None,
            goal: Goal::AtMost(1.0),
        });
    }
    Ok(lines)
}

/// Every metric must have got its model.
fn check_answer(bed: &Bed, file: &Path, method: &str, n_metrics: usize) -> Result<(), String> {
    let args = ["model".as_ref(), file.as_os_str(), "--method".as_ref(), method.as_ref()];
    let json = bed.answer(args.into_iter().chain(["--format".as_ref(), "json".as_ref()]))?;
    match json.matches("\"function\":").count() {
        n if n >= n_metrics => Ok(()),
        n => Err(format!("{n} of {n_metrics} metrics have a model")),
    }
}

fn model_command(bed: &Bed, file: &Path, method: &str) -> Command {
    let mut command = Command::new(&bed.iotide);
    command.arg("model").arg(file).args(["--method", method, "--threads", "1"]).current_dir(&bed.folder);
    command
}

fn peer_command(extrap: &PathBuf, file: &Path, folder: &Path) -> Command {
    let mut command = Command::new(extrap);
    command.args(["--disable-progress", "--print", "functions", "--json"]).arg(file).current_dir(folder);
    command
}

/// Metrics that grow in different ways, five per cent of noise.
pub(super) fn measurements(axes: &[&[f64]], n_repetitions: usize, n_metrics: usize) -> String {
    let mut rng = Rng(iotide_num::SplitMix64::new(11));
    let mut points: Vec<Vec<f64>> = vec![Vec::new()];
    for axis in axes {
        points =
            points.iter().flat_map(|point| axis.iter().map(|x| [point.as_slice(), &[*x]].concat())).collect();
    }
    let mut text = String::new();
    for metric in 0..n_metrics {
        let power = *rng.pick(&[0.5, 1.0, 1.5, 2.0]);
        for point in &points {
            let params: Vec<String> =
                point.iter().enumerate().map(|(i, x)| format!("\"p{i}\": {x}")).collect();
            let truth = 5.0 + 0.01 * point.iter().map(|x| x.powf(power)).product::<f64>();
            for _ in 0..n_repetitions {
                let value = truth * rng.between(0.95, 1.05);
                let _ = writeln!(
                    text,
                    "{{\"params\": {{{}}}, \"callpath\": \"main->f{metric}\", \"metric\": \"time\", \"value\": {value}}}",
                    params.join(", ")
                );
            }
        }
    }
    text
}
