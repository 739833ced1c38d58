//! The files of a directory, in the order a person would put them.

use std::cmp::Ordering;
use std::fs;
use std::path::{Path, PathBuf};

use crate::ReadError;

/// More files than any run writes into one directory.
const MOST_FILES: usize = 1 << 20;

/// The plain files and the folders in a directory, hidden ones left out, each in the order of their names and the numbers in them.
#[derive(Default)]
pub(crate) struct Entries {
    pub(crate) files: Vec<PathBuf>,
    pub(crate) folders: Vec<PathBuf>,
}

/// Lists a directory.
pub(crate) fn entries_of(directory: &Path) -> Result<Entries, ReadError> {
    let failed = |cause| ReadError::Io { path: directory.to_path_buf(), cause };
    let mut entries = Entries::default();
    for entry in fs::read_dir(directory).map_err(failed)?.take(MOST_FILES) {
        let entry = entry.map_err(failed)?;
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if hidden {
            continue;
        }
        // A link to a file counts as one.
        match fs::metadata(entry.path()) {
            Ok(about) if about.is_file() => entries.files.push(entry.path()),
            Ok(about) if about.is_dir() => entries.folders.push(entry.path()),
            _ => {}
        }
    }
    for paths in [&mut entries.files, &mut entries.folders] {
        paths.sort_by(|a, b| {
            by_name_and_number(a.as_os_str().as_encoded_bytes(), b.as_os_str().as_encoded_bytes())
        });
    }
    Ok(entries)
}

/// `rank.9` comes before `rank.10`.
fn by_name_and_number(mut a: &[u8], mut b: &[u8]) -> Ordering {
    loop {
        let number = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits_a, digits_b) = (number(a), number(b));
        let order = if digits_a > 0 && digits_b > 0 {
            let (number_a, number_b) = (without_zeros(&a[..digits_a]), without_zeros(&b[..digits_b]));
            (a, b) = (&a[digits_a..], &b[digits_b..]);
            number_a.len().cmp(&number_b.len()).then(number_a.cmp(number_b))
        } else {
            match (a.split_first(), b.split_first()) {
                (Some((first_a, rest_a)), Some((first_b, rest_b))) => {
                    (a, b) = (rest_a, rest_b);
                    first_a.cmp(first_b)
                }
                (None, None) => return Ordering::Equal,
                (None, Some(_)) => return Ordering::Less,
                (Some(_), None) => return Ordering::Greater,
            }
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

fn without_zeros(digits: &[u8]) -> &[u8] {
    &digits[digits.iter().take_while(|&&byte| byte == b'0').count()..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_are_compared_as_numbers() {
        let mut names = ["r.10", "r.9", "r.1", "q.200", "r.09b", "r", "r.99999999999999999999999"];
        names.sort_by(|a, b| by_name_and_number(a.as_bytes(), b.as_bytes()));
        assert_eq!(names, ["q.200", "r", "r.1", "r.9", "r.09b", "r.10", "r.99999999999999999999999"]);
    }
}
