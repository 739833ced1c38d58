//! The Python package beside those that its users come from: PyDarshan, FTIO's Python API, Extra-P's, and pandas.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::scaling::measurements;
use super::{Bed, Goal, Line, darshan, period::median};
use crate::peer::{on_path, python_with};
use crate::{chores, product, repository};

/// Name of a task in `python.py`, words for it, its goal, and how often it is measured with iotide and with the peer.
type Task = (&'static str, &'static str, Goal, [usize; 2]);

/// Reading, detecting and modelling in Python, each answer equal to the peer's.
pub(super) fn figures(bed: &Bed) -> Result<Vec<Line>, String> {
    let ours = package(bed)?;
    let mut lines = vec![import_time(&ours)?];
    if let Some(log) = darshan::shared_log("generated/ior-mpiio-seq-dxt-11MB-3.5.0.darshan") {
        let peer = darshan::pydarshan();
        let tasks: [Task; 4] = [
            ("summary", "summary of the log", Goal::TimesLess(10.0), [3, 2]),
            ("dxt", "2.1 M DXT segments as a data frame", Goal::TimesLess(10.0), [3, 1]),
            ("heatmap", "its heat map", Goal::None, [5, 5]),
            ("counters", "all counters of all records", Goal::None, [5, 5]),
        ];
        for task in tasks {
            lines.push(side_by_side(bed, &ours, peer.as_deref(), "PyDarshan, 11 MB log", task, &log)?);
        }
    }
    let rows = bed.folder.join("phases.csv");
    write_phases(&rows, 100).map_err(|error| format!("cannot write {}: {error}", rows.display()))?;
    let task = ("read", "1.28e5 events as a data frame", Goal::None, [5, 5]);
    lines.push(side_by_side(bed, &ours, Some(&ours), "pandas.read_csv", task, &rows)?);
    let trace = bed.folder.join("phases.jsonl");
    convert(bed, &rows, "tmio-jsonl", &trace)?;
    let peer = python_with("ftio-hpc", "import ftio.cli.ftio_core");
    let task = ("detect", "period of 1.28e5 requests of TMIO", Goal::TimesLess(10.0), [5, 3]);
    lines.push(side_by_side(bed, &ours, peer.as_deref(), "FTIO's API", task, &trace)?);
    let points = bed.folder.join("points.jsonl");
    fs::write(&points, measurements(&[&[4.0, 8.0, 16.0, 32.0, 64.0, 128.0]], 5, 100)).map_err(said)?;
    let peer = python_with("extrap", "import extrap.modelers.model_generator");
    let task = ("model", "models of 100 metrics", Goal::TimesLess(10.0), [5, 2]);
    lines.push(side_by_side(bed, &ours, peer.as_deref(), "Extra-P's API", task, &points)?);
    lines.push(memory_of_batches(bed, &ours)?);
    Ok(lines)
}

/// An interpreter with the package, which is packed around the module that lies in the target folder.
fn package(bed: &Bed) -> Result<PathBuf, String> {
    if bed.builds {
        product::build_module()?;
    }
    let module = chores::target().join("release/lib_iotide.so");
    if !module.exists() {
        return Err(format!("there is no {}; run without --no-build", module.display()));
    }
    let venv = repository().join("target/peers/iotide");
    let python = venv.join("bin/python3");
    let pip = |packages: &[&str]| {
        done(Command::new(&python).args(["-m", "pip", "install", "--quiet"]).args(packages))
    };
    if !python.is_file() {
        let system = on_path("python3").ok_or("there is no python3 on PATH")?;
        done(Command::new(system).args(["-m", "venv"]).arg(&venv))?;
        pip(&["maturin", "numpy", "pandas"])?;
    }
    let script = repository().join("crates/python/wheel.py");
    let wheel = done(Command::new(&python).arg(script).arg(module).arg(bed.folder.join("wheel")))?;
    pip(&["--force-reinstall", "--no-deps", wheel.trim()])?;
    Ok(python)
}

/// How long `import iotide` takes, median of 10.
fn import_time(python: &Path) -> Result<Line, String> {
    let script =
        "import time; began = time.perf_counter(); import iotide; print(1e3 * (time.perf_counter() - began))";
    let taken = (0..10).map(|_| number(&done(Command::new(python).args(["-c", script]))?));
    let iotide = median(taken.collect::<Result<_, _>>()?);
    let what = "Python: import iotide, median of 10".to_owned();
    Ok(Line { what, unit: "ms", iotide, peer: None, goal: Goal::AtMost(50.0) })
}

/// Measures a task with iotide and with a peer; their answers must be equal.
fn side_by_side(
    bed: &Bed,
    ours: &Path,
    peer: Option<&Path>,
    beside: &str,
    (task, words, goal, [n_ours, n_peer]): Task,
    file: &Path,
) -> Result<Line, String> {
    let answer = |who: &str| bed.folder.join(format!("{task}-{who}.json"));
    let seconds = |python: &Path, who: &str, n: usize| -> Result<f64, String> {
        let mut least = f64::INFINITY;
        for _ in 0..n {
            least =
                least.min(number(&done(script(bed, python).args([who, task]).args([file, &answer(who)]))?)?);
        }
        Ok(least)
    };
    let iotide = seconds(ours, "iotide", n_ours)?;
    let peer = match peer {
        Some(python) => {
            let took = seconds(python, "peer", n_peer)?;
            done(script(bed, ours).arg("same").args([answer("iotide"), answer("peer")]))?;
            Some(took)
        }
        None => None,
    };
    Ok(Line { what: format!("Python: {words} (beside {beside})"), unit: "s", iotide, peer, goal })
}

/// Peak memory of reading ten million events batch by batch, with NumPy.
fn memory_of_batches(bed: &Bed, python: &Path) -> Result<Line, String> {
    let rows = bed.folder.join("many.csv");
    write_phases(&rows, 7813).map_err(|error| format!("cannot write {}: {error}", rows.display()))?;
    let cost = bed.measure({
        let mut command = script(bed, python);
        command.args(["iotide", "batches"]).args([&rows, &bed.folder.join("batches.json")]);
        command
    })?;
    let answer = fs::read_to_string(bed.folder.join("batches.json")).map_err(said)?;
    if !answer.contains("\"rows\": 10000640") {
        return Err(format!("not all events were read: {answer}"));
    }
    let what = format!("Python: 1e7 events in batches, {:.1} s: peak memory", cost.wall_s);
    Ok(Line { what, unit: "MB", iotide: cost.peak_bytes / 1e6, peer: None, goal: Goal::AtMost(200.0) })
}

/// Ranks that write for half of each ten seconds: 1280 requests a phase.
fn write_phases(path: &Path, n_phases: u32) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    writeln!(out, "rank,op,start,end,bytes")?;
    for phase in 0..n_phases {
        for request in 0..20 {
            for rank in 0..64 {
                let start = f64::from(phase) * 10.0 + f64::from(request) * 0.25 + f64::from(rank) * 0.001;
                writeln!(out, "{rank},write,{start:.3},{:.3},1048576", start + 0.2)?;
            }
        }
    }
    out.flush()
}

fn convert(bed: &Bed, from: &Path, form: &str, to: &Path) -> Result<(), String> {
    done(Command::new(&bed.iotide).arg("convert").arg(from).args(["--to", form, "-o"]).arg(to)).map(drop)
}

fn script(bed: &Bed, python: &Path) -> Command {
    let mut command = Command::new(python);
    // FTIO leaves notes where it is called.
    command.current_dir(&bed.folder);
    command.arg(repository().join("lab/src/bench/python.py"));
    command
}

/// Runs a command; returns what it prints.
fn done(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command:?}: {}", said.lines().last().unwrap_or("it failed without a word")))
}

fn number(text: &str) -> Result<f64, String> {
    text.trim().parse().map_err(|_| format!("{text:?} is not a number"))
}

fn said(error: io::Error) -> String {
    error.to_string()
}
