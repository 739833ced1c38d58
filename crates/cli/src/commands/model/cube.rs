//! Profiles of Score-P: a folder for each point and repetition.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use iotide_scaling::{Experiment, Scaling, read_cubes};

use super::ScalingName;
use crate::ui::Hint;

/// Whether an input is a profile, or a folder of them.
pub(super) fn is_profile(input: &Path) -> bool {
    input.is_dir() || input.extension().is_some_and(|end| end == "cubex")
}

/// Reads all profiles as one set. The folder that a profile lies in names its point.
pub(super) fn read(inputs: &[&PathBuf], scaling: ScalingName) -> anyhow::Result<Experiment> {
    let mut files = Vec::new();
    for input in inputs {
        if input.is_dir() {
            let found = files.len();
            for folder in entries(input)?.iter().filter(|entry| entry.is_dir()) {
                files.extend(entries(folder)?.into_iter().filter(|file| is_visible_profile(file)));
            }
            if files.len() == found {
                return Err(anyhow::anyhow!("{} holds no profiles", input.display()))
                    .hint("a set of profiles is a folder of folders: runs/app.p4.r1/profile.cubex");
            }
        } else {
            files.push((*input).clone());
        }
    }
    let mut profiles = Vec::with_capacity(files.len());
    for file in files {
        let folder = std::path::absolute(&file)?;
        let folder = folder.parent().and_then(Path::file_name);
        let Some(folder) = folder else { bail!("{} lies in no folder that names its point", file.display()) };
        let bytes = std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        profiles.push((folder.to_string_lossy().into_owned(), bytes));
    }
    let scaling = match scaling {
        ScalingName::Weak => Scaling::Weak,
        ScalingName::WeakThreaded => Scaling::WeakThreaded,
        ScalingName::Strong => Scaling::Strong,
    };
    read_cubes(&profiles, scaling).context("cannot read the profiles")
}

fn is_visible_profile(file: &Path) -> bool {
    let hidden = file.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    !hidden && file.extension().is_some_and(|end| end == "cubex")
}

/// What is in a folder, in order.
fn entries(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let listed = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut entries = listed.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    entries.sort();
    Ok(entries)
}
