//! `cargo xtask accuracy gain`: programs before and after advice, the gain that was announced beside the one that is measured.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::product;

/// What `run` understands.
pub const HELP: &str = "accuracy gain [FOLDER]
    five programs before and after advice, in FOLDER (on the storage that is meant; a temporary folder without): the gain that `iotide report`
    announces for the first, and the one that the second has. Inside: within the interval, or below 3 % where no gain is announced";

/// A pair of programs: its name, and the issues that the advice is about.
const PAIRS: [(&str, &[&str]); 5] = [
    ("sync", &["excessive_sync"]),
    ("hdf5", &["missing_collectives", "small_writes"]),
    ("opens", &["open_close_churn", "metadata_time"]),
    ("streams", &["stdio_bulk", "small_writes"]),
    ("shared", &["shared_contention"]),
];
/// Runs of each program; the median counts.
const RUNS: usize = 5;
/// Gains below this are not worth a word.
const NOTHING: f64 = 0.03;
const RANKS: &str = "2";

/// Runs the command; see `HELP`.
pub fn run(args: &[String]) -> Result<(), String> {
    let parent = match args {
        [] => std::env::temp_dir(),
        [folder] if !folder.starts_with('-') => PathBuf::from(folder),
        _ => return Err(HELP.to_owned()),
    };
    let iotide = product::build()?;
    let folder = parent.join(format!("iotide-gain-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let told = compare_all(&iotide, &folder);
    let _ = std::fs::remove_dir_all(&folder);
    told
}

fn compare_all(iotide: &Path, folder: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    std::fs::write(folder.join("gain.c"), include_str!("gain.c")).map_err(failed)?;
    std::fs::write(folder.join("gain.py"), include_str!("gain.py")).map_err(failed)?;
    let compiled = Command::new("mpicc.openmpi")
        .args(["-O1", "-w", "gain.c", "-o", "gain"])
        .current_dir(folder)
        .status()
        .map_err(|error| format!("mpicc.openmpi: {error}"))?;
    if !compiled.success() {
        return Err("gain.c does not compile".to_owned());
    }
    println!(
        "{:<9}{:>10}{:>10}{:>10}  {:<22}{:<17} inside",
        "pair", "before s", "after s", "measured", "announced", "interval"
    );
    let mut n_inside = 0;
    for (kind, ids) in PAIRS {
        let pair = Pair { iotide, folder, kind };
        let (before_s, after_s) = (pair.median_s("before")?, pair.median_s("after")?);
        let measured = 1.0 - after_s / before_s;
        let announced = pair.announced(ids)?;
        let (low, high) = announced.as_ref().map_or((-NOTHING, NOTHING), |(_, _, interval)| *interval);
        let is_inside = (low..=high).contains(&measured);
        n_inside += usize::from(is_inside);
        let (what, interval) = match &announced {
            None => ("none".to_owned(), String::new()),
            Some((id, gain, (low, high))) => (format!("{id} {gain:.3}"), format!("[{low:.3}, {high:.3}]")),
        };
        println!(
            "{kind:<9}{before_s:>10.2}{after_s:>10.2}{measured:>10.3}  {what:<22}{interval:<17} {}",
            if is_inside { "yes" } else { "no" }
        );
    }
    println!("{n_inside} of {} inside", PAIRS.len());
    Ok(())
}

/// A program in its two forms.
struct Pair<'a> {
    iotide: &'a Path,
    folder: &'a Path,
    kind: &'a str,
}

/// An issue, with its gain as a share of the run and the interval of that.
type Announced = (String, f64, (f64, f64));

impl Pair<'_> {
    /// How long a form takes under the tracer.
    fn median_s(&self, form: &str) -> Result<f64, String> {
        let mut times = Vec::new();
        for _ in 0..RUNS {
            let trace = self.folder.join(format!("{}-{form}", self.kind));
            let _ = std::fs::remove_dir_all(&trace);
            let mut command = Command::new(self.iotide);
            command.args(["record", "-q", "-o"]).arg(&trace).args([
                "--",
                "mpirun.openmpi",
                "--oversubscribe",
                "-n",
                RANKS,
            ]);
            match self.kind {
                "hdf5" => command.args(["/usr/bin/python3", "gain.py"]),
                _ => command.arg("./gain"),
            };
            command.args([self.kind, form]).current_dir(self.folder).stdout(Stdio::null());
            for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] {
                command.env(name, "1");
            }
            let begun = Instant::now();
            let status = command.status().map_err(|error| format!("{}: {error}", self.iotide.display()))?;
            times.push(begun.elapsed().as_secs_f64());
            if !status.success() {
                return Err(format!("{} {form} failed: {status}", self.kind));
            }
        }
        iotide_num::median(&times).ok_or_else(|| "nothing was run".to_owned())
    }

    /// What the report of the first form announces for the advice.
    fn announced(&self, ids: &[&str]) -> Result<Option<Announced>, String> {
        let mut command = Command::new(self.iotide);
        command.args(["report", "--format", "json"]).arg(self.folder.join(format!("{}-before", self.kind)));
        let output = command.output().map_err(|error| error.to_string())?;
        let report: Value = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
        let issues = report["runs"][0]["issues"].as_array().cloned().unwrap_or_default();
        // Sorted by gain: the first is the largest.
        let issue = issues.into_iter().find(|issue| ids.iter().any(|id| issue["id"] == *id));
        Ok(issue.and_then(|issue| {
            let (gain, interval) = (issue["gain"]["of_run"].as_f64()?, &issue["gain"]["interval"]);
            let ends = (interval[0].as_f64()?, interval[1].as_f64()?);
            Some((issue["id"].as_str()?.to_owned(), gain, ends))
        }))
    }
}
