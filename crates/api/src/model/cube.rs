//! Profiles of Score-P: a folder for each point and repetition.

use std::path::{Path, PathBuf};

use iotide_scaling::{Experiment, Scaling, read_cubes};

use crate::Error;

/// Whether an input is a profile, or a folder of them.
pub(super) fn is_profile(input: &Path) -> bool {
    input.is_dir() || input.extension().is_some_and(|end| end == "cubex")
}

/// Reads all profiles as one set. The folder that a profile lies in names its point.
pub(super) fn read(inputs: &[&PathBuf], scaling: Scaling) -> Result<Experiment, Error> {
    let mut files = Vec::new();
    for input in inputs {
        if input.is_dir() {
            let found = files.len();
            for folder in entries(input)?.iter().filter(|entry| entry.is_dir()) {
                files.extend(entries(folder)?.into_iter().filter(|file| is_visible_profile(file)));
            }
            if files.len() == found {
                return Err(Error::NoProfiles { folder: input.to_path_buf() });
            }
        } else {
            files.push((*input).clone());
        }
    }
    let mut profiles = Vec::with_capacity(files.len());
    for file in files {
        let failed = |source| Error::File { name: file.display().to_string(), source };
        let folder = std::path::absolute(&file).map_err(failed)?;
        let folder = folder.parent().and_then(Path::file_name);
        let Some(folder) = folder else { return Err(Error::ProfileWithoutPoint { file }) };
        profiles.push((folder.to_string_lossy().into_owned(), std::fs::read(&file).map_err(failed)?));
    }
    read_cubes(&profiles, scaling).map_err(|source| Error::Profiles { source })
}

fn is_visible_profile(file: &Path) -> bool {
    let hidden = file.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    !hidden && file.extension().is_some_and(|end| end == "cubex")
}

/// Returns the entries of a folder, in order.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let listed = std::fs::read_dir(folder).and_then(|listed| {
        listed.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()
    });
    let mut entries = listed.map_err(|source| Error::File { name: folder.display().to_string(), source })?;
    entries.sort();
    Ok(entries)
}
