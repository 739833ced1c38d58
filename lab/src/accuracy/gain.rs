//! `cargo xtask accuracy gain`: programs before and after advice, the gain that was announced beside the one that is measured.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::product;

/// Usage of `run`.
pub const HELP: &str = "accuracy gain [FOLDER]
    five programs before and after advice, in FOLDER (without one, behind bindfs: its calls cost about as much as those of a network file
    system): the gain that `iotide report` announces for the first, and the one that the second has. Inside: within the interval, or below
    3 % where no gain is announced";

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
const MPIRUN: &str = "mpirun.openmpi";
/// On one node Open MPI passes the pieces of a collective write on one by one by default; these arguments change that.
const ONE_BY_ONE_NO_MORE: [&str; 3] = ["--mca", "fcoll", "vulcan"];
/// A compiler for programs with MPI and HDF5.
const COMPILER: &str = "h5pcc.openmpi";

/// Runs the command; see `HELP`.
pub fn run(args: &[String]) -> Result<(), String> {
    let parent = match args {
        [] => std::env::temp_dir(),
        [folder] if !folder.starts_with('-') => PathBuf::from(folder),
        _ => return Err(HELP.to_owned()),
    };
    let iotide = product::build()?;
    let folder = parent.join(format!("iotide-gain-{}", std::process::id()));
    let (behind, front) = (folder.join("behind"), folder.join("front"));
    for made in [&behind, &front] {
        std::fs::create_dir_all(made).map_err(|error| format!("cannot make {}: {error}", made.display()))?;
    }
    let is_behind = args.is_empty();
    let compared = match is_behind.then(|| call("bindfs", &[&behind, &front])) {
        Some(Err(why)) => Err(why),
        Some(Ok(())) | None => compare_all(&iotide, &front),
    };
    if is_behind {
        call("umount", &[&front])?;
    }
    let _ = std::fs::remove_dir_all(&folder);
    compared
}

fn call(program: &str, args: &[&Path]) -> Result<(), String> {
    let status = Command::new(program).args(args).status().map_err(|error| format!("{program}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{program} failed: {status}")) }
}

fn compare_all(iotide: &Path, folder: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    std::fs::write(folder.join("gain.c"), include_str!("gain.c")).map_err(failed)?;
    let compiled = Command::new(COMPILER)
        .args(["-O1", "-w", "gain.c", "-o", "gain"])
        .current_dir(folder)
        .status()
        .map_err(|error| format!("{COMPILER} (of libhdf5-openmpi-dev): {error}"))?;
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
        let Measured { before_s, after_s, announced } = pair.measure(ids)?;
        let measured = 1.0 - after_s / before_s;
        let (low, high) =
            announced.as_ref().map_or((f64::NEG_INFINITY, NOTHING), |(_, _, interval)| *interval);
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

/// How long both forms take, in the middle of some runs, and the gain that is announced for a run of the first.
struct Measured {
    before_s: f64,
    after_s: f64,
    announced: Option<Announced>,
}

impl Pair<'_> {
    /// Runs both forms, and the first one recorded, in turns: a machine that is slower for a while is so for all of them.
    fn measure(&self, ids: &[&str]) -> Result<Measured, String> {
        let (mut before, mut after, mut recorded) = (Vec::new(), Vec::new(), Vec::new());
        for run in 0..RUNS {
            before.push(self.run(Command::new(MPIRUN), "before")?);
            after.push(self.run(Command::new(MPIRUN), "after")?);
            recorded.push((self.record(run)?, run));
        }
        recorded.sort_by(|one, other| one.0.total_cmp(&other.0));
        let middle = |times: &[f64]| iotide_num::median(times).ok_or_else(|| "nothing was run".to_owned());
        Ok(Measured {
            before_s: middle(&before)?,
            after_s: middle(&after)?,
            announced: self.announced(recorded[RUNS / 2].1, ids)?,
        })
    }

    fn trace(&self, run: usize) -> PathBuf {
        self.folder.join(format!("{}-{run}.trace", self.kind))
    }

    /// Records a run of the first form, and returns how long it took.
    fn record(&self, run: usize) -> Result<f64, String> {
        let mut command = Command::new(self.iotide);
        command.args(["record", "-q", "-o"]).arg(self.trace(run)).args(["--", MPIRUN]);
        self.run(command, "before")
    }

    /// Runs a form once, by `mpirun` or by what calls it, and returns the seconds it says it took.
    fn run(&self, mut command: Command, form: &str) -> Result<f64, String> {
        command
            .args(ONE_BY_ONE_NO_MORE)
            .args(["--oversubscribe", "-n", RANKS, "./gain", self.kind, form])
            .current_dir(self.folder);
        for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] {
            command.env(name, "1");
        }
        let output =
            command.output().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
        let said = String::from_utf8_lossy(&output.stdout);
        said.trim().parse().map_err(|_| format!("{} {form} failed: {}", self.kind, output.status))
    }

    /// Returns the gain that the report of a recorded run announces for the advice.
    fn announced(&self, run: usize, ids: &[&str]) -> Result<Option<Announced>, String> {
        let mut command = Command::new(self.iotide);
        command.args(["report", "--format", "json"]).arg(self.trace(run));
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
