//! `cargo xtask round-trip IOTIDE FOLDER…`: every trace below the folders is read, converted to a native trace, asked the same
//! questions again, and made a page of. The answers must be the same.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::Outcome;

/// Questions about a trace and about its copy.
const QUESTIONS: [&[&str]; 3] = [
    &["info", "--layers", "lowest", "--format", "json"],
    &["detect", "--format", "json"],
    &["categorize", "--issues", "--format", "json"],
];

/// Keys whose values depend on the form of a trace and not on its contents: its name, what only a Darshan log has beside its events, the
/// user under another name, how many names a log has, also of files without a record, and when a job ended: logs in whole seconds count
/// the last one in.
const OF_THE_FORM: [&str; 13] = [
    "path",
    "format",
    "log",
    "modules",
    "dxt",
    "heatmap",
    "regions",
    "log_version",
    "names",
    "uid",
    "user",
    "n_files",
    "end_time",
];

pub fn run(args: &[String]) -> Result<Outcome, String> {
    let [iotide, folders @ ..] = args else { return Err(usage()) };
    if folders.is_empty() {
        return Err(usage());
    }
    let scratch = std::env::temp_dir().join(format!("iotide-round-trip-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).map_err(|error| error.to_string())?;
    let mut sums = Sums::default();
    for folder in folders {
        for trace in traces_below(Path::new(folder)) {
            check(Path::new(iotide), &trace, &scratch, &mut sums);
        }
    }
    let _ = std::fs::remove_dir_all(&scratch);
    let Sums { n_same, n_refused, n_other, n_faults } = sums;
    println!(
        "{n_same} traces gave the same answers, {n_other} did not, {n_refused} files are no traces, {n_faults} faults"
    );
    Ok(if n_other + n_faults == 0 { Outcome::Good } else { Outcome::Wanting })
}

fn usage() -> String {
    "usage: cargo xtask round-trip IOTIDE FOLDER…".into()
}

#[derive(Default)]
struct Sums {
    n_same: usize,
    n_refused: usize,
    n_other: usize,
    n_faults: usize,
}

/// Files, and folders that are one trace.
fn traces_below(path: &Path) -> Vec<PathBuf> {
    if path.is_file() || iotide_formats::is_one_trace(path) {
        return vec![path.to_owned()];
    }
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    entries.sort();
    entries.iter().flat_map(|entry| traces_below(entry)).collect()
}

fn check(iotide: &Path, trace: &Path, scratch: &Path, sums: &mut Sums) {
    let copy = scratch.join("copy.iot");
    let page = scratch.join("page.html");
    let run = |args: &[&str], path: &Path| -> Output {
        let output = Command::new(iotide).args(args).arg(path).output();
        output.unwrap_or_else(|error| panic!("cannot run {}: {error}", iotide.display()))
    };
    let said = |output: &Output| {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        text.lines().next().unwrap_or_default().to_owned()
    };
    let converted = run(&["convert", "--to", "native", "-o", &copy.to_string_lossy()], trace);
    if is_crash(&converted) {
        sums.n_faults += 1;
        println!("FAULT {}: convert: {}", trace.display(), said(&converted));
        return;
    }
    if !converted.status.success() {
        sums.n_refused += 1;
        println!("refused {}: {}", trace.display(), said(&converted));
        return;
    }
    let mut differences = Vec::new();
    for question in QUESTIONS {
        let (one, other) = (run(question, trace), run(question, &copy));
        for output in [&one, &other] {
            if is_crash(output) {
                sums.n_faults += 1;
                println!("FAULT {}: {}: {}", trace.display(), question[0], said(output));
            }
        }
        if one.status.code() != other.status.code() {
            differences.push(format!("{}: {} against {}", question[0], one.status, other.status));
            continue;
        }
        match (answer(&one), answer(&other)) {
            (Some(one), Some(other)) => compare(question[0], &one, &other, &mut differences),
            (None, None) => {}
            _ => differences.push(format!("{}: one of the answers is no JSON", question[0])),
        }
    }
    let report = run(&["report", "-o", &page.to_string_lossy()], trace);
    if is_crash(&report) || !matches!(report.status.code(), Some(0 | 1)) {
        sums.n_faults += 1;
        println!("FAULT {}: report: {}", trace.display(), said(&report));
    }
    if differences.is_empty() {
        sums.n_same += 1;
    } else {
        sums.n_other += 1;
        println!("OTHER {}", trace.display());
        differences.iter().take(6).for_each(|difference| println!("      {difference}"));
    }
}

/// Whether it panicked or was ended by a signal.
fn is_crash(output: &Output) -> bool {
    output.status.code().is_none_or(|code| code >= 100)
        || String::from_utf8_lossy(&output.stderr).contains("panicked at")
}

fn answer(output: &Output) -> Option<Value> {
    serde_json::from_slice(&output.stdout).ok()
}

/// Notes where two answers differ. What one of them does not have at all is of the form if it is `null` in the other.
fn compare(at: &str, one: &Value, other: &Value, differences: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys.into_iter().filter(|key| !OF_THE_FORM.contains(&key.as_str())) {
                let [a, b] = [a, b].map(|map| map.get(key).unwrap_or(&Value::Null));
                compare(&format!("{at}.{key}"), a, b, differences);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                compare(&format!("{at}[{i}]"), a, b, differences);
            }
        }
        (Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap_or(f64::NAN), b.as_f64().unwrap_or(f64::NAN));
            // Sums of the same numbers in another order.
            if (a - b).abs() > 1e-9 * a.abs().max(b.abs()) {
                differences.push(format!("{at}: {a} against {b}"));
            }
        }
        // A log has numbers where other traces have texts: of users and jobs.
        (Value::Number(a), Value::String(b)) | (Value::String(b), Value::Number(a))
            if a.to_string() == *b => {}
        (a, b) if a == b => {}
        (a, b) => {
            let short = |value: &Value| value.to_string().chars().take(80).collect::<String>();
            differences.push(format!("{at}: {} against {}", short(a), short(b)));
        }
    }
}
