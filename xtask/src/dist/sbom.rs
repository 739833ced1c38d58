//! The bill of materials: every crate in the program, with licence and checksum, as CycloneDX.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::process::Command;

use super::{Release, TRIPLE, output, read};
use crate::chores::repository;

/// Returns the document.
pub(super) fn make(release: &Release) -> Result<String, String> {
    let listed = output(Command::new("cargo").current_dir(repository()).args([
        "tree",
        "--locked",
        "--package",
        "iotide",
        "--edges",
        "normal",
        "--target",
        TRIPLE,
        "--prefix",
        "none",
        "--format",
        "{p}|{l}",
    ]))?;
    Ok(document(release, &listed, &checksums(&read(&repository().join("Cargo.lock"))?)))
}

/// The checksum of each package of a lock file, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
        line.map(|rest| rest.trim_end_matches('"').to_owned())
    };
    lock.split("[[package]]")
        .filter_map(|block| {
            Some(((value(block, "name")?, value(block, "version")?), value(block, "checksum")?))
        })
        .collect()
}

fn document(release: &Release, listed: &str, checksums: &BTreeMap<(String, String), String>) -> String {
    // `serde v1.0.2 (proc-macro)|MIT OR Apache-2.0`; what was listed before ends with (*).
    let crates: BTreeSet<(&str, &str, &str)> = (listed.lines())
        .filter_map(|line| {
            let (package, licence) = line.split_once('|')?;
            let mut words = package.split(' ');
            Some((words.next()?, words.next()?.strip_prefix('v')?, licence.trim_end_matches("(*)").trim()))
        })
        .collect();
    let mut json =
        String::from("{\n  \"bomFormat\": \"CycloneDX\",\n  \"specVersion\": \"1.5\",\n  \"version\": 1,\n");
    let _ = writeln!(
        json,
        "  \"metadata\": {{\"component\": {{\"type\": \"application\", \"name\": \"iotide\", \"version\": \"{}\"}}}},\n  \"components\": [",
        release.version
    );
    let rows: Vec<String> = crates.iter().map(|(name, version, licence)| {
        let sum = checksums.get(&((*name).to_owned(), (*version).to_owned()));
        let hashes = sum.map(|sum| format!(", \"hashes\": [{{\"alg\": \"SHA-256\", \"content\": \"{sum}\"}}]"));
        // Older manifests have a slash for "or".
        let licence = licence.replace(" / ", " OR ").replace('/', " OR ");
        format!(
            "    {{\"type\": \"library\", \"name\": \"{name}\", \"version\": \"{version}\", \"purl\": \"pkg:cargo/{name}@{version}\", \
             \"licenses\": [{{\"expression\": \"{licence}\"}}]{}}}",
            hashes.unwrap_or_default()
        )
    }).collect();
    json + &rows.join(",\n") + "\n  ]\n}\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_crate_is_listed_once_with_licence_and_checksum() {
        let release = Release { version: "1.2.3".to_owned(), time: "0".to_owned(), folder: "/".into() };
        let lock = "[[package]]\nname = \"a\"\nversion = \"0.1.0\"\nsource = \"r\"\nchecksum = \"ff\"\n\n[[package]]\nname = \"iotide\"\nversion = \"1.2.3\"\n";
        let json = document(
            &release,
            "iotide v1.2.3 (/x)|MIT\na v0.1.0|MIT/Apache-2.0\na v0.1.0|MIT/Apache-2.0 (*)\n",
            &checksums(lock),
        );
        assert_eq!(json.matches("\"name\": \"a\"").count(), 1, "{json}");
        assert!(json.contains("\"content\": \"ff\"") && json.contains("MIT OR Apache-2.0"), "{json}");
    }
}
