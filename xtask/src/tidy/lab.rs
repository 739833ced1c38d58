//! Rules on `lab/`: a workspace of its own, which measures what this one ships, and so is built as this one is.

use std::collections::BTreeSet;

use super::{Tree, dependencies, has_reason, section};

const MANIFEST: &str = "lab/Cargo.toml";

/// Versions and features of the lab's dependencies are those of the root.
pub(super) fn has_the_versions_of_the_root(tree: &Tree) -> Vec<String> {
    let root: Vec<(&str, &str)> =
        section(tree.text("Cargo.toml"), "workspace.dependencies").filter_map(entry).collect();
    let is_of_the_lab = |line: &str| ["[dependencies]", "[dev-dependencies]"].contains(&line.trim());
    let mut faults = Vec::new();
    for header in tree.text(MANIFEST).lines().filter(|line| is_of_the_lab(line)) {
        let name = header.trim().trim_matches(['[', ']']);
        for (dependency, asked) in section(tree.text(MANIFEST), name).filter_map(entry) {
            let in_root = root.iter().find(|(known, _)| *known == dependency);
            if let Some((_, wanted)) = in_root.filter(|_| !dependency.starts_with("iotide-"))
                && *wanted != asked
            {
                faults.push(format!(
                    "{MANIFEST}: `{dependency} = {asked}`, but the root has {wanted}: write the same"
                ));
            }
        }
    }
    faults
}

/// Each dependency of the lab from outside has its reason, as those of the root have.
pub(super) fn says_why_it_needs_a_dependency(tree: &Tree) -> Vec<String> {
    let manifest = tree.text(MANIFEST);
    let sections = ["dependencies", "dev-dependencies"].into_iter();
    sections.flat_map(|name| has_reason(MANIFEST, section(manifest, name))).collect()
}

/// Lints of the lab are those of the root.
pub(super) fn has_the_lints_of_the_root(tree: &Tree) -> Vec<String> {
    let lines = |manifest: &str, name: &str| -> BTreeSet<String> {
        let lines = section(tree.text(manifest), name).map(str::trim);
        lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
    };
    (["rust", "clippy"].into_iter())
        .filter(|tool| {
            tree.files.contains_key(MANIFEST) && {
                lines("Cargo.toml", &format!("workspace.lints.{tool}"))
                    != lines(MANIFEST, &format!("lints.{tool}"))
            }
        })
        .map(|tool| {
            format!("{MANIFEST}: [lints.{tool}] is not [workspace.lints.{tool}] of the root: copy it")
        })
        .collect()
}

/// Checks that each package the lab is locked to is locked at the root, too: otherwise the lab measures versions that nobody gets.
pub(super) fn is_locked_as_the_root(tree: &Tree) -> Vec<String> {
    let root: BTreeSet<(&str, &str)> = locked(tree.text("Cargo.lock")).collect();
    (locked(tree.text("lab/Cargo.lock")))
        .filter(|package| package.0 != "lab" && !root.contains(package))
        .map(|(name, version)| {
            format!(
                "lab/Cargo.lock: has {name} {version}, but Cargo.lock does not: copy Cargo.lock there, and cargo drops what is too much"
            )
        })
        .collect()
}

/// Chores that need iotide belong to the lab: `xtask` itself is built in a second.
pub(super) fn has_the_chores_that_need_iotide(tree: &Tree) -> Vec<String> {
    (dependencies(tree.text("xtask/Cargo.toml")))
        .filter(|dependency| dependency.name.starts_with("iotide-"))
        .map(|dependency| {
            format!("xtask/Cargo.toml: `{}`: a chore that needs it goes to lab/", dependency.name)
        })
        .collect()
}

/// `name = value # comment`, without the comment.
fn entry(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(" = ")?;
    Some((name.trim(), value.split(" #").next().unwrap_or(value).trim()))
}

/// Names and versions of what a lock file lists.
fn locked(lock: &str) -> impl Iterator<Item = (&str, &str)> {
    lock.split("[[package]]").skip(1).filter_map(|package| {
        let value = |key: &str| {
            package
                .lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))
                .map(|v| v.trim_matches('"'))
        };
        Some((value("name")?, value("version")?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "[workspace.dependencies]\niotide-num = { path = \"crates/num\" }\nserde = \"1\" # JSON\n\n\
                        [workspace.lints.rust]\nunsafe_code = \"deny\"\n";

    #[track_caller]
    fn faults(rule: fn(&Tree) -> Vec<String>, files: &[(&str, &str)]) -> String {
        let mut tree = Tree::default();
        tree.files.insert("Cargo.toml".to_owned(), ROOT.to_owned());
        tree.files.extend(files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())));
        rule(&tree).join("\n")
    }

    #[test]
    fn another_version_than_the_roots_is_a_fault() {
        let found = |manifest| faults(has_the_versions_of_the_root, &[(MANIFEST, manifest)]);
        assert_eq!(
            found(
                "[dependencies]\niotide-num = { path = \"../crates/num\" }\nserde = \"1\" # reads\nrand = \"0.9\"\n"
            ),
            ""
        );
        let other = found("[dependencies]\n\n[dev-dependencies]\nserde = \"2\"\n");
        assert!(other.contains("`serde = \"2\"`, but the root has \"1\""), "{other}");
    }

    #[test]
    fn a_dependency_of_the_lab_without_a_reason_is_a_fault() {
        let found = |manifest| faults(says_why_it_needs_a_dependency, &[(MANIFEST, manifest)]);
        assert_eq!(
            found(
                "[dependencies]\nserde = \"1\" # reads\n\n[dev-dependencies]\n# for tests\nrand = \"0.9\"\n"
            ),
            ""
        );
        let without = found("[dependencies]\nserde = \"1\"\n");
        assert!(without.contains("lab/Cargo.toml: say in a comment beside `serde`"), "{without}");
    }

    #[test]
    fn other_lints_than_the_roots_are_a_fault() {
        let found = |manifest| faults(has_the_lints_of_the_root, &[(MANIFEST, manifest)]);
        assert_eq!(found("[lints.rust]\nunsafe_code = \"deny\"\n"), "");
        assert!(found("[dependencies]\n").contains("[lints.rust]"));
    }

    #[test]
    fn a_package_that_the_root_has_not_locked_is_a_fault() {
        let package = |name: &str, version: &str| {
            format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n\n")
        };
        let root = package("serde", "1.0.1");
        let found =
            |lock: &str| faults(is_locked_as_the_root, &[("Cargo.lock", &root), ("lab/Cargo.lock", lock)]);
        assert_eq!(found(&(package("lab", "0.1.0") + &root)), "");
        let newer = found(&package("serde", "1.0.2"));
        assert!(newer.contains("has serde 1.0.2"), "{newer}");
    }

    #[test]
    fn a_crate_of_ours_below_xtask_is_a_fault() {
        let manifest = "[dependencies]\niotide-num.workspace = true\n";
        let found = faults(has_the_chores_that_need_iotide, &[("xtask/Cargo.toml", manifest)]);
        assert!(found.contains("`iotide-num`"), "{found}");
    }
}
