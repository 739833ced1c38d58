//! The documents as a book: pages with contents beside them and a search that needs no network.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Outcome;
use crate::chores::{repository, target};

const USAGE: &str = "usage: cargo xtask book    make target/book/html/index.html of docs/ (installs mdBook into target/tools if there is none)";

/// The release that is installed where there is no mdBook.
const MDBOOK: &str = "mdbook@0.5.4";

const SETTINGS: &str = "\
[book]
title = \"iotide\"
language = \"en\"

[build]
build-dir = \"html\"

[output.html]
default-theme = \"light\"
preferred-dark-theme = \"navy\"
no-section-label = true

[output.html.fold]
enable = true
level = 1
";

/// Makes the book.
pub(crate) fn run(args: &[String]) -> Result<Outcome, String> {
    if !args.is_empty() {
        return Err(USAGE.to_owned());
    }
    let folder = target().join("book");
    let _ = fs::remove_dir_all(&folder);
    let docs = repository().join("docs");
    copy(&docs, &folder.join("src"), &titles(&docs)?)?;
    let settings = folder.join("book.toml");
    fs::write(&settings, SETTINGS).map_err(|error| format!("{}: {error}", settings.display()))?;
    succeed(Command::new(mdbook()?).arg("build").arg(&folder))?;
    println!("{}", folder.join("html/index.html").display());
    Ok(Outcome::Good)
}

/// Returns the program that makes books, and installs it first if need be.
fn mdbook() -> Result<PathBuf, String> {
    if Command::new("mdbook").arg("--version").output().is_ok_and(|out| out.status.success()) {
        return Ok("mdbook".into());
    }
    let root = target().join("tools");
    let program = root.join("bin/mdbook");
    if !program.is_file() {
        let mut install = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        // It makes a book in a second: what takes long is to build it, so that is done unoptimised.
        install.args([
            "install",
            "--debug",
            "--locked",
            "--no-default-features",
            "--features",
            "search",
            MDBOOK,
        ]);
        install.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "0");
        succeed(install.arg("--root").arg(&root))?;
    }
    Ok(program)
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let name = Path::new(command.get_program()).display().to_string();
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{name}: {status}")),
        Err(error) => Err(format!("cannot start {name}: {error}")),
    }
}

/// Returns the first heading of each document of a folder, by file name.
fn titles(folder: &Path) -> Result<BTreeMap<String, String>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut titles = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|it| it == "md") {
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            let title = text.lines().find_map(|line| line.strip_prefix("# "));
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            titles.extend(title.map(|title| (name, title.to_owned())));
        }
    }
    Ok(titles)
}

/// Copies a folder with what is in it; documents without links to files that are not in the book.
fn copy(from: &Path, to: &Path, titles: &BTreeMap<String, String>) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", from.display());
    fs::create_dir_all(to).map_err(failed)?;
    for entry in fs::read_dir(from).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let copied = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy(&path, &copied, titles)?;
        } else if path.extension().is_some_and(|it| it == "md") {
            let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            fs::write(&copied, within_the_book(&text, titles)).map_err(failed)?;
        } else {
            fs::copy(&path, &copied).map_err(failed)?;
        }
    }
    Ok(())
}

/// Returns a document in which a link out of its folder is the name of the file, and one to a page has the title of that page.
fn within_the_book(text: &str, titles: &BTreeMap<String, String>) -> String {
    let titled = titles.iter().fold(text.to_owned(), |text, (name, title)| {
        text.replace(&format!("[{name}]("), &format!("[{title}]("))
    });
    let mut rest = titled.as_str();
    let mut kept = String::with_capacity(rest.len());
    while let Some(at) = rest.find("](../") {
        let (before, link) = rest.split_at(at);
        let (Some(from), Some(until)) = (before.rfind('['), link.find(')')) else { break };
        let (label, path) = (&before[from + 1..], &link["](../".len()..until]);
        kept += &before[..from];
        kept += label;
        if !label.contains(path) {
            kept += &format!(" (`{path}`)");
        }
        rest = &link[until + 1..];
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_within_the_book_stay_and_others_are_names() {
        let titles = BTreeMap::from([("web.md".to_owned(), "The pages of a daemon".to_owned())]);
        let text = "See [the page](web.md#a), [web.md](web.md), [`dist/a.toml`](../dist/a.toml) and [recipes](../CONTRIBUTING.md) [x] (y).";
        let kept = "See [the page](web.md#a), [The pages of a daemon](web.md), `dist/a.toml` and recipes (`CONTRIBUTING.md`) [x] (y).";
        assert_eq!(within_the_book(text, &titles), kept);
    }
}
