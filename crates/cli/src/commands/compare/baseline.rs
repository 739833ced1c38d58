//! Files of figures: read, saved, and found in folders.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, anyhow};
use iotide_api::{Baseline, BaselineError, MeasuredRun};
use iotide_report::Untrusted;
use iotide_report::text::{counted, printable};

use crate::ui::{Hint, Ui};

/// Figures that are kept in files.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Baselines")]
pub(super) struct BaselineArgs {
    /// Compare with the figures in FILE, which are side A; all runs named are side B
    #[arg(long, value_name = "FILE", conflicts_with_all = ["with", "by", "why"])]
    baseline: Option<PathBuf>,
    /// Write the figures of the last side to FILE, as a baseline for later runs; alone, it compares nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["by", "why"])]
    save_baseline: Option<PathBuf>,
    /// Label of the figures that are saved, for example the commit [default: the name of the file]
    #[arg(long, value_name = "TEXT", requires = "save_baseline")]
    label: Option<String>,
    /// Show how figures went from baseline to baseline: the files named are baselines, or folders of them
    #[arg(long, conflicts_with_all = ["with", "by", "why", "baseline", "save_baseline"])]
    pub(super) history: bool,
}

impl BaselineArgs {
    /// Whether a file of figures is read or written.
    pub(super) fn is_used(&self) -> bool {
        self.baseline.is_some() || self.saves()
    }

    /// Whether figures are saved.
    pub(super) fn saves(&self) -> bool {
        self.save_baseline.is_some()
    }

    /// Reads the runs of the baseline, if one is named.
    pub(super) fn read(&self) -> anyhow::Result<Option<Vec<MeasuredRun>>> {
        self.baseline.as_deref().map(|path| read(path).map(|baseline| baseline.measured())).transpose()
    }

    /// Saves the figures of these runs, if that is asked for.
    pub(super) fn save(&self, ui: &mut Ui, runs: &[MeasuredRun]) -> anyhow::Result<()> {
        let Some(path) = &self.save_baseline else { return Ok(()) };
        if runs.len() > Baseline::MOST_RUNS {
            return Err(anyhow!("{} runs are too many for a baseline", runs.len()))
                .hint(format!("it has at most {}", Baseline::MOST_RUNS));
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let label = self.label.as_deref().unwrap_or(&name);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs() as f64);
        ui.out_file(path, &Baseline::new(label, now, runs).to_json())?;
        let n = counted(runs.len() as u64, "run");
        ui.status(format_args!("figures of {n} saved in {}", printable(&path.display().to_string())));
        Ok(())
    }
}

/// The most files of a history.
const MOST_FILES: usize = 2000;

/// Reads baselines: files in the order in which they are named, and those of a folder in the order in which they were saved.
pub(super) fn read_all(paths: &[PathBuf]) -> anyhow::Result<Vec<(Untrusted, Baseline)>> {
    let mut all = Vec::new();
    for path in paths {
        let mut found = Vec::new();
        let files = if path.is_dir() { files_of(path)? } else { vec![path.clone()] };
        if all.len() + files.len() > MOST_FILES {
            return Err(anyhow!("more than {MOST_FILES} baselines")).hint("name some of them");
        }
        for file in files {
            found.push((Untrusted::from(file.display().to_string()), read(&file)?));
        }
        // Those that do not say when come first, by their names.
        let saved = |baseline: &Baseline| baseline.saved_unix_s.unwrap_or(f64::NEG_INFINITY);
        found.sort_by(|(_, one), (_, other)| saved(one).total_cmp(&saved(other)));
        all.append(&mut found);
    }
    Ok(all)
}

/// The files of a folder that end in `.json`, by their names.
fn files_of(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let cannot = || format!("cannot read {}", folder.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        if path.extension().is_some_and(|end| end == "json") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read(path: &Path) -> anyhow::Result<Baseline> {
    let cannot = || format!("cannot read the baseline {}", path.display());
    let mut json = Vec::new();
    let file = File::open(path).with_context(cannot)?;
    file.take(Baseline::MOST_BYTES as u64 + 1).read_to_end(&mut json).with_context(cannot)?;
    match Baseline::from_json(&json) {
        Ok(baseline) => Ok(baseline),
        Err(error) => {
            let hint = match error {
                BaselineError::Schema(_) => {
                    "a newer iotide may have written it; `--save-baseline` writes it again"
                }
                _ => "`iotide compare RUNS --save-baseline FILE` writes one",
            };
            Err(anyhow!("{} is not a baseline: {error}", path.display())).hint(hint)
        }
    }
}
