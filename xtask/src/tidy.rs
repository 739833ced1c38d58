//! The rules of the house, as a test: each fault says where it is and how to comply.
//!
//! The rules look at a [`Tree`] of texts, not at the disk, so each is tested on a tree made up to break it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::{Outcome, repository};

mod lab;
mod prose;

/// Runs all rules on this repository and prints the faults.
pub(crate) fn run(args: &[String]) -> Result<Outcome, String> {
    if let Some(arg) = args.first() {
        return Err(format!("takes no arguments, but was given '{arg}'"));
    }
    let tree = Tree::read(repository())?;
    let faults = check(&tree);
    for fault in &faults {
        eprintln!("{fault}");
    }
    if faults.is_empty() {
        println!("tidy: {} files, {} rules, no fault", tree.files.len(), RULES.len());
        return Ok(Outcome::Good);
    }
    eprintln!("tidy: {} faults", faults.len());
    Ok(Outcome::Wanting)
}

/// A rule looks at the tree and returns what breaks it.
type Rule = fn(&Tree) -> Vec<String>;

const RULES: &[Rule] = &[
    arrows_go_downward,
    testkit_is_for_tests,
    quiet_crates_touch_nothing,
    only_report_serialises,
    only_cli_prints,
    files_of_our_own_are_private,
    tables_of_users_are_shared,
    json_is_made_in_one_place,
    crates_open_with_their_sentence,
    dependencies_have_a_reason,
    versions_stand_in_the_root,
    lints_are_shared,
    formats_are_documented,
    golden_files_remember_their_making,
    documents_link_to_what_exists,
    prose_uses_the_words_of_the_field,
    prose::has_short_sentences,
    prose::has_commands_to_copy,
    prose::stands_in_the_book_once,
    prose::names_tests_that_exist,
    doc_comments_begin_with_a_verb_or_a_noun,
    lab::has_the_versions_of_the_root,
    lab::says_why_it_needs_a_dependency,
    lab::has_the_lints_of_the_root,
    lab::is_locked_as_the_root,
    lab::has_the_chores_that_need_iotide,
];

fn check(tree: &Tree) -> Vec<String> {
    RULES.iter().flat_map(|rule| rule(tree)).collect()
}

/// Crates that get time and data as arguments, and so need no mocks.
const QUIET: &[&str] = &["look", "table", "trace", "num", "analysis", "scaling", "sched", "sim", "ledger"];

/// A crate may know what its row of the table in ARCHITECTURE.md lists, and only what lies on a lower layer.
fn arrows_go_downward(tree: &Tree) -> Vec<String> {
    let rooms = rooms(tree);
    let mut faults = Vec::new();
    for (name, room) in &rooms {
        for known in room.knows.iter().filter(|known| *known != "all") {
            match rooms.get(known) {
                None => faults
                    .push(format!("ARCHITECTURE.md: {name} knows {known}, which has no row in the table")),
                Some(other) if other.layer >= room.layer => faults.push(format!(
                    "ARCHITECTURE.md: {name} (layer {}) may not know {known} (layer {}): arrows go downward",
                    room.layer, other.layer
                )),
                Some(_) => {}
            }
        }
    }
    let crates: BTreeSet<&str> = tree.crates().filter(|name| *name != "testkit").collect();
    for name in rooms.keys().filter(|name| !crates.contains(name.as_str())) {
        faults.push(format!(
            "ARCHITECTURE.md: the table has a row for {name}, but there is no crates/{name}: remove it"
        ));
    }
    for name in crates {
        let Some(room) = rooms.get(name) else {
            faults.push(format!(
                "crates/{name}: not in the table of ARCHITECTURE.md; add a row with its layer, what it knows and its \
                 one sentence"
            ));
            continue;
        };
        let manifest = tree.text(&format!("crates/{name}/Cargo.toml"));
        let known =
            dependencies(manifest).filter(|dependency| !dependency.section.contains("dev-dependencies"));
        for known in known.filter_map(|dependency| dependency.name.strip_prefix("iotide-").map(str::to_owned))
        {
            if known == "testkit" {
                continue; // its own rule
            }
            let lower = rooms.get(&known).is_some_and(|other| other.layer < room.layer);
            if !lower {
                faults.push(format!(
                    "crates/{name} may not know {known}: arrows go downward, see ARCHITECTURE.md; move what is shared \
                     to a lower crate"
                ));
            } else if !room.knows.contains(&known) && !room.knows.contains("all") {
                faults.push(format!(
                    "crates/{name} knows {known}, which its row in ARCHITECTURE.md does not list: drop the dependency, or \
                     change the row and say why in the commit"
                ));
            }
        }
    }
    faults
}

fn testkit_is_for_tests(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    let lab = ("lab/Cargo.toml", tree.text("lab/Cargo.toml"));
    for (path, manifest) in tree.manifests().chain([lab]) {
        for dependency in dependencies(manifest) {
            if dependency.name == "iotide-testkit" && !dependency.section.contains("dev-dependencies") {
                faults.push(format!("{path}: iotide-testkit is for tests; move it to [dev-dependencies]"));
            }
        }
    }
    faults
}

fn quiet_crates_touch_nothing(tree: &Tree) -> Vec<String> {
    const LOUD: &[&str] = &[
        "std::fs",
        "std::env",
        "std::net",
        "std::process",
        // A data-parallel loop over slices (`std::thread::scope`) ends before it returns; these do not.
        "std::thread::spawn",
        "std::thread::sleep",
        "std::thread::Builder",
        "std::io::stdout",
        "std::io::stderr",
        "Instant",
        "SystemTime",
        "File",
    ];
    let mut faults = Vec::new();
    for name in QUIET {
        for (path, source) in tree.sources(&format!("crates/{name}/src/")) {
            for word in LOUD.iter().filter(|word| mentions(&source, word)) {
                faults.push(format!(
                    "{path}: uses {word}, but {name} touches no file, clock, environment or thread: take time and data as \
                     arguments and let the front end fetch them"
                ));
            }
        }
    }
    faults
}

/// Marks results whose names and units are those that people see.
const SCHEMA: &str = "#[cfg_attr(feature = \"schema\"";

fn only_report_serialises(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, source) in tree.sources("crates/") {
        // How a plot is written is between a page and its own script.
        let may =
            ["crates/report/", "crates/look/", "crates/pages/"].iter().any(|room| path.starts_with(room));
        let (schema, rest): (Vec<&str>, Vec<&str>) =
            source.lines().partition(|line| line.trim_start().starts_with(SCHEMA));
        let is_result =
            ["crates/analysis/", "crates/ledger/", "crates/sim/"].iter().any(|room| path.starts_with(room));
        if !may && (mentions(&rest.join("\n"), "Serialize") || !is_result && !schema.is_empty()) {
            faults.push(format!(
                "{path}: uses Serialize, but report alone knows the names and units people see: mirror the struct in \
                 crates/report; a result of analysis, ledger or sim that has them already is part of the schema: \
                 {SCHEMA}, derive(serde::Serialize))]"
            ));
        }
    }
    faults
}

fn only_cli_prints(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, source) in tree.sources("crates/") {
        if path == "crates/cli/src/ui.rs" || path.starts_with("crates/testkit/") {
            continue;
        }
        for word in
            ["println!", "print!", "eprintln!", "eprint!"].iter().filter(|word| mentions(&source, word))
        {
            faults.push(format!(
                "{path}: uses {word}; return what is to be said, and let the Ui of crates/cli/src/ui.rs say it"
            ));
        }
    }
    faults
}

/// A folder with a name that others can guess, or that is taken as it is found, is theirs to fill with links.
fn files_of_our_own_are_private(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, source) in tree.sources("crates/") {
        // The first is where it is done right; the other is for tests.
        if path.starts_with("crates/private/") || path.starts_with("crates/testkit/") {
            continue;
        }
        for (word, instead) in [
            ("temp_dir", "PrivateDir or nameless"),
            ("create_dir_all", "OpenDir"),
            ("UnixListener::bind", "OwnSocket"),
        ] {
            if mentions(&source, word) {
                faults.push(format!(
                    "{path}: uses {word}; others may have put something there: use {instead} of crates/private"
                ));
            }
        }
    }
    faults
}

/// Tables by user whose entries nobody else could want: a file, and why.
const COUNTED_ONLY: &[(&str, &str)] = &[
    ("crates/daemon/src/store/series.rs", "a sum over files, made again in each sweep"),
    ("crates/gate/src/allowance.rs", "what each user has moved; those who have moved nothing are forgotten"),
];

/// Where many users are served, a field that is a map by user stands in a file that divides by `Shares` or `Limits`.
///
/// That catches the plain mistake, a table with a limit for all together. It does not see tables by another key, nor whether the shares are those
/// of this table.
fn tables_of_users_are_shared(tree: &Tree) -> Vec<String> {
    let is_table = |line: &&str| {
        let key =
            line.split_once("Map<").map(|(_, key)| key.trim_start_matches("Option<").trim_start_matches('('));
        let is_field = line.starts_with("    ") && line.ends_with(',') && !line.contains("let ");
        is_field && key.is_some_and(|key| key.starts_with("u32"))
    };
    let rooms = ["crates/daemon/", "crates/gate/", "crates/mount/", "crates/stage/"];
    let mut faults = Vec::new();
    for (path, source) in rooms.into_iter().flat_map(|room| tree.sources(room)) {
        let divides = mentions(&source, "Shares") || mentions(&source, "Limits");
        if divides || COUNTED_ONLY.iter().any(|(known, _)| *known == path) {
            continue;
        }
        faults.extend(source.lines().filter(is_table).map(|line| {
            format!("{path}: `{}` is a table by user, of which one can take all: use Shares or Limits of crates/private", line.trim())
        }));
    }
    faults
}

/// JSON goes to terminals, too: what steers one is escaped in the one place that makes it.
fn json_is_made_in_one_place(tree: &Tree) -> Vec<String> {
    let sources = ["crates/look/", "crates/report/", "crates/pages/", "crates/cli/src/"];
    (sources.into_iter().flat_map(|room| tree.sources(room)))
        .filter(|(path, _)| *path != "crates/look/src/text.rs")
        .filter(|(_, source)| {
            mentions(source, "to_string_pretty") || mentions(source, "serde_json::to_string")
        })
        .map(|(path, _)| {
            format!("{path}: makes JSON itself, in which names may steer a terminal: use text::json")
        })
        .collect()
}

fn crates_open_with_their_sentence(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in &tree.files {
        let is_root = path.ends_with("src/lib.rs") || path.ends_with("src/main.rs");
        let sentence = text.lines().next().and_then(|line| line.strip_prefix("//!")).map(str::trim);
        if is_root && sentence.is_none_or(|sentence| sentence.split_whitespace().count() < 3) {
            faults.push(format!("{path}: open with `//! ` and the one sentence the crate must stay true to"));
        }
    }
    faults
}

fn dependencies_have_a_reason(tree: &Tree) -> Vec<String> {
    has_reason("Cargo.toml", section(tree.text("Cargo.toml"), "workspace.dependencies"))
}

/// Returns a fault for each entry from outside that has no comment beside or above it.
fn has_reason<'a>(manifest: &str, entries: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut faults = Vec::new();
    let mut before = "";
    for line in entries {
        let own = line.contains("path = ");
        let name = line.split(['=', ' ', '.']).next().unwrap_or("");
        let has_reason = line.contains('#') || before.trim_start().starts_with('#');
        if !own && !name.is_empty() && !line.starts_with(['#', ' ', ']', '}']) && !has_reason {
            faults.push(format!(
                "{manifest}: say in a comment beside `{name}` what it is for and why this one"
            ));
        }
        before = line;
    }
    faults
}

fn versions_stand_in_the_root(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, manifest) in tree.manifests() {
        for dependency in dependencies(manifest).filter(|dependency| !dependency.from_workspace) {
            faults.push(format!(
                "{path}: `{0}` has its own version; put it into [workspace.dependencies] and write `{0}.workspace = true`",
                dependency.name
            ));
        }
    }
    faults
}

fn lints_are_shared(tree: &Tree) -> Vec<String> {
    let own = |manifest: &str| !section(manifest, "lints").any(|line| line.trim() == "workspace = true");
    tree.manifests()
        // The tracer allows unsafe code and so states its lints itself.
        .filter(|(path, manifest)| *path != "crates/preload/Cargo.toml" && own(manifest))
        .map(|(path, _)| format!("{path}: add `[lints]` with `workspace = true`"))
        .collect()
}

/// Each variant of `formats::Format` has a section in docs/formats.md: a heading that holds its name, or, where several
/// share a section, a link to it, as [`tmio-json`](#tmio).
fn formats_are_documented(tree: &Tree) -> Vec<String> {
    let text = tree.text("docs/formats.md");
    let headings: Vec<String> = text.lines().filter(|line| line.starts_with('#')).map(plain).collect();
    let leads_to_a_section = |name: &str| {
        let link = format!("[`{}`](#", kebab_case(name));
        let anchors = text.split(&link).skip(1).filter_map(|rest| rest.split(')').next());
        anchors.map(plain).any(|anchor| headings.contains(&anchor))
    };
    format_names(tree)
        .into_iter()
        .filter(|name| !headings.iter().any(|heading| heading.contains(&plain(name))) && !leads_to_a_section(name))
        .map(|name| {
            format!(
                "docs/formats.md: no section for the format {name}; add a heading that holds its name, or a link from \
                 its name to the section it shares, and say what is read and what is lost"
            )
        })
        .collect()
}

/// `testdata/x/y.iot` comes with `testdata/x/y.md`, which says how it was made.
fn golden_files_remember_their_making(tree: &Tree) -> Vec<String> {
    tree.names
        .iter()
        .filter(|path| path.starts_with("testdata/") && !path.ends_with(".md"))
        .filter(|path| {
            let stem = path.rsplit_once('.').map_or(path.as_str(), |(stem, _)| stem);
            !tree.names.contains(&format!("{stem}.md"))
        })
        .map(|path| format!("{path}: has no .md beside it; write down the command that made it"))
        .collect()
}

/// Relative links of the documents lead somewhere.
fn documents_link_to_what_exists(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in tree.files.iter().filter(|(path, _)| path.ends_with(".md")) {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for target in links(text) {
            let file = target.split('#').next().unwrap_or("");
            let full = normalise(folder, file);
            let is_folder = tree.names.iter().any(|name| name.starts_with(&format!("{full}/")));
            if !file.is_empty() && !tree.names.contains(&full) && !is_folder {
                faults.push(format!("{path}: links to {target}, which does not exist"));
            }
        }
    }
    faults
}

/// Words of ours that people of the field stumble over, and what they would write. What stands between backticks is a name.
const PLAIN_WORDS: &[(&str, &str)] = &[
    ("told", "reported"),
    ("is said", "is reported"),
    ("was said", "was reported"),
    ("storage does not like", "I/O issues"),
    ("gone on with", "resumed"),
    ("deeds", "actions"),
    ("made traces", "synthetic traces"),
    ("senseless", "invalid"),
    ("nonsense", "invalid"),
    ("lull", "grace period"),
    ("patience", "timeout"),
    ("grain", "granularity"),
    ("judged", "evaluated"),
    ("contender", "policy"),
    ("foreign load", "background load"),
    ("kin", "variants"),
    ("bears", "has"),
    ("rests on", "is based on, evidence"),
    ("sure", "confidence"),
    ("is not spoken", "is not supported"),
    ("without a word", "abnormally"),
    ("which it finds as", "(… on stdin)"),
    ("after so long", "after TIME"),
    ("path begins so", "prefix, glob"),
    ("one a core", "number of cores"),
];

/// Doc comments begin with a verb or a noun.
fn doc_comments_begin_with_a_verb_or_a_noun(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in tree.files.iter().filter(|(path, _)| path.ends_with(".rs")) {
        let mut is_within = false;
        for (number, line) in text.lines().enumerate() {
            let doc = doc_comment(line);
            if !is_within
                && doc.is_some_and(|doc| contains_word(doc.split_whitespace().next().unwrap_or(""), "What"))
            {
                faults.push(format!(
                    "{path}:{}: a doc comment begins with a verb or a noun, not with \"What\"",
                    number + 1
                ));
            }
            is_within = doc.is_some_and(|doc| !doc.trim().is_empty());
        }
    }
    faults
}

/// Documents, among them the help of all commands, and doc comments use the field's words: see docs/glossary.md.
fn prose_uses_the_words_of_the_field(tree: &Tree) -> Vec<String> {
    let is_for_people = |path: &str| {
        let is_page = !path.contains('/') || path.starts_with("docs/");
        is_page && path.ends_with(".md") && path != "docs/glossary.md"
    };
    let is_code = |path: &str| path.ends_with(".rs");
    let mut faults = Vec::new();
    for (path, text) in tree.files.iter().filter(|(path, _)| is_for_people(path) || is_code(path)) {
        for (number, line) in text.lines().enumerate() {
            let text = if is_code(path) { doc_comment(line).unwrap_or_default() } else { line };
            let prose: String = text.split('`').step_by(2).collect::<Vec<_>>().join(" ").to_lowercase();
            for (word, instead) in PLAIN_WORDS.iter().filter(|(word, _)| contains_word(&prose, word)) {
                faults.push(format!("{path}:{}: \"{word}\": write \"{instead}\"", number + 1));
            }
        }
    }
    faults
}

/// Returns the text of a line that is a doc comment.
fn doc_comment(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))
}

/// The repository as texts by path, with `/` between names.
#[derive(Debug, Default)]
struct Tree {
    /// Manifests, locked versions, sources and documents.
    files: BTreeMap<String, String>,
    /// The paths of all files, of whatever kind.
    names: BTreeSet<String>,
}

impl Tree {
    fn read(root: &Path) -> Result<Self, String> {
        let mut tree = Tree::default();
        tree.walk(root, "").map_err(|error| format!("cannot read {}: {error}", root.display()))?;
        Ok(tree)
    }

    fn walk(&mut self, folder: &Path, prefix: &str) -> std::io::Result<()> {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            if entry.file_type()?.is_dir() {
                if !matches!(name.as_str(), "target" | ".git" | "node_modules") {
                    self.walk(&entry.path(), &format!("{path}/"))?;
                }
                continue;
            }
            if [".rs", ".toml", ".md", ".lock"].iter().any(|ext| name.ends_with(ext)) {
                self.files.insert(path.clone(), std::fs::read_to_string(entry.path())?);
            }
            self.names.insert(path);
        }
        Ok(())
    }

    fn text(&self, path: &str) -> &str {
        self.files.get(path).map_or("", String::as_str)
    }

    /// The folder names below `crates/`.
    fn crates(&self) -> impl Iterator<Item = &str> {
        self.files.keys().filter_map(|path| path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"))
    }

    /// The manifests of the workspace's members.
    fn manifests(&self) -> impl Iterator<Item = (&str, &str)> {
        let is_member = |path: &str| path == "xtask/Cargo.toml" || path.starts_with("crates/");
        self.files
            .iter()
            .filter(move |(path, _)| path.ends_with("/Cargo.toml") && is_member(path))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Returns the shipped part of the sources below a folder: no comments, no unit tests, no `tests/`.
    fn sources(&self, below: &str) -> impl Iterator<Item = (&str, String)> {
        self.files
            .iter()
            .filter(move |(path, _)| {
                path.starts_with(below) && path.ends_with(".rs") && path.contains("/src/")
            })
            .map(|(path, text)| (path.as_str(), shipped(text)))
    }
}

/// Returns the code of a file without comments and up to its unit tests, which stand last.
fn shipped(source: &str) -> String {
    let mut code = String::new();
    let mut lines = source.lines().peekable();
    while let Some(line) = lines.next() {
        let opens_tests = line.trim() == "#[cfg(test)]"
            && lines.peek().is_some_and(|next| next.trim_start().starts_with("mod ") && next.contains('{'));
        if opens_tests {
            break;
        }
        if !line.trim_start().starts_with("//") {
            code.push_str(line.split(" // ").next().unwrap_or(""));
            code.push('\n');
        }
    }
    code
}

/// Whether `code` names `word`, also where `use std::{fs, …}` takes the path apart.
fn mentions(code: &str, word: &str) -> bool {
    if contains_word(code, word) {
        return true;
    }
    let Some(module) = word.strip_prefix("std::") else { return false };
    code.split("use std::{").skip(1).any(|rest| {
        let group = rest.split(';').next().unwrap_or("");
        group.split([',', '{', '}']).any(|item| {
            let item = item.trim();
            item == module || item.starts_with(&format!("{module}::"))
        })
    })
}

fn contains_word(text: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(|c| is_part(c) && !word.ends_with('!'))
    })
}

/// A crate's row in the table of ARCHITECTURE.md.
#[derive(Debug)]
struct Room {
    layer: u32,
    knows: BTreeSet<String>,
}

/// Reads the rows `| layer | crate | knows | room |`; a crate is named by its folder, the program by `cli`.
fn rooms(tree: &Tree) -> BTreeMap<String, Room> {
    let mut rooms = BTreeMap::new();
    for line in tree.text("ARCHITECTURE.md").lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", layer, krate, knows, _, ""] = cells[..] else { continue };
        let Ok(layer) = layer.parse() else { continue };
        let name = krate.split('`').nth(1).unwrap_or(krate);
        let name = if name == "iotide" { "cli" } else { name.strip_prefix("iotide-").unwrap_or(name) };
        let knows = if knows.starts_with("all") { "all" } else { knows };
        let knows = knows.split(',').map(str::trim).filter(|known| !matches!(*known, "" | "–" | "-"));
        rooms.insert(name.to_owned(), Room { layer, knows: knows.map(str::to_owned).collect() });
    }
    rooms
}

/// A line of a manifest's dependency section.
#[derive(Debug)]
struct Dependency {
    name: String,
    /// As written, without brackets: `dev-dependencies`, `target.'cfg(unix)'.dependencies`.
    section: String,
    from_workspace: bool,
}

fn dependencies(manifest: &str) -> impl Iterator<Item = Dependency> {
    let mut section = String::new();
    manifest.lines().filter_map(move |line| {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']').to_owned();
            return None;
        }
        let is_entry = section.ends_with("dependencies") && !line.is_empty() && !line.starts_with('#');
        is_entry.then(|| Dependency {
            name: line.split(['=', ' ', '.']).next().unwrap_or("").to_owned(),
            section: section.clone(),
            from_workspace: line.replace(' ', "").contains("workspace=true"),
        })
    })
}

fn section<'a>(manifest: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let header = format!("[{name}]");
    manifest
        .lines()
        .skip_while(move |line| line.trim() != header)
        .skip(1)
        .take_while(|line| !line.starts_with('['))
}

/// The variants of `pub enum Format` in crates/formats, as written.
fn format_names(tree: &Tree) -> Vec<String> {
    let sources = tree.sources("crates/formats/src/");
    let bodies = sources.filter_map(|(_, code)| {
        let (_, rest) = code.split_once("pub enum Format {")?;
        Some(rest.split('}').next().unwrap_or("").to_owned())
    });
    let is_variant = |line: &&str| line.starts_with(|c: char| c.is_ascii_uppercase());
    bodies
        .flat_map(|body| {
            let lines = body.lines().map(str::trim).filter(is_variant);
            lines.map(|line| line.trim_end_matches(',').to_owned()).collect::<Vec<_>>()
        })
        .collect()
}

/// Letters and digits only, in lower case: `JSON Lines` and `JsonLines` are one name.
fn plain(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// `TmioJson` → `tmio-json`.
fn kebab_case(name: &str) -> String {
    let mut kebab = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.extend(c.to_lowercase());
    }
    kebab
}

/// The relative targets of Markdown links, outside of code blocks.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    let prose = text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        in_code ^= fence;
        !in_code && !fence
    });
    prose.flat_map(|line| line.split("](").skip(1).filter_map(|rest| rest.split(')').next())).filter(
        |target| !target.contains("://") && !target.starts_with('#') && !target.starts_with("mailto:"),
    )
}

fn normalise(folder: &str, file: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let faults = check(&Tree::read(repository()).unwrap());
        assert!(faults.is_empty(), "\n{}\n", faults.join("\n"));
    }

    /// Two tidy crates, `low` (quiet under the name `num`) and `report`.
    fn tidy_tree() -> Tree {
        tree(&[
            (
                "ARCHITECTURE.md",
                "| layer | crate | knows | room |\n|---|---|---|---|\n| 0 | `iotide-num` | – | formulas |\n\
                 | 5 | `iotide-report` | num | answers |\n",
            ),
            (
                "Cargo.toml",
                "[workspace.dependencies]\niotide-num = { path = \"crates/num\" }\nserde = \"1\" # JSON\n",
            ),
            ("crates/num/Cargo.toml", "[lints]\nworkspace = true\n\n[dependencies]\n"),
            ("crates/num/src/lib.rs", "//! Formulas on slices.\n"),
            (
                "crates/report/Cargo.toml",
                "[lints]\nworkspace = true\n\n[dependencies]\niotide-num.workspace = true\nserde.workspace = true\n",
            ),
            (
                "crates/report/src/lib.rs",
                "//! Answers that readers see.\n#[derive(Serialize)]\nstruct Run;\n",
            ),
        ])
    }

    fn tree(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        for (path, text) in files {
            tree.put(path, text);
        }
        tree
    }

    impl Tree {
        pub(super) fn put(&mut self, path: &str, text: &str) {
            self.files.insert(path.to_owned(), text.to_owned());
            self.names.insert(path.to_owned());
        }
    }

    #[track_caller]
    fn breaks(path: &str, text: &str, expected: &str) {
        let mut tree = tidy_tree();
        tree.put(path, text);
        let faults = check(&tree);
        assert!(
            faults.len() == 1 && faults[0].contains(expected),
            "expected one fault with {expected:?}, got {faults:#?}"
        );
    }

    #[track_caller]
    fn passes(path: &str, text: &str) {
        let mut tree = tidy_tree();
        tree.put(path, text);
        assert_eq!(check(&tree), Vec::<String>::new());
    }

    #[test]
    fn a_tidy_tree_has_no_fault() {
        assert_eq!(check(&tidy_tree()), Vec::<String>::new());
    }

    #[test]
    fn a_folder_among_the_temporary_files_is_made_in_one_place() {
        let code = "//! Answers.\nfn f() { std::env::temp_dir(); }\n";
        breaks("crates/report/src/made.rs", code, "use PrivateDir");
        let code = "//! Answers.\nfn f() { UnixListener::bind(path); }\n";
        breaks("crates/report/src/made.rs", code, "use OwnSocket");
        let code = "//! Formulas.\n//! And more words.\nuse std::fs::create_dir_all;\n";
        breaks("crates/report/src/made.rs", code, "uses create_dir_all");
        passes("crates/report/src/made.rs", "#[cfg(test)]\nmod tests {\n    fn f() { temp_dir(); }\n}\n");
    }

    #[test]
    fn a_word_that_people_stumble_over_is_a_fault_but_not_as_a_name() {
        breaks("docs/a.md", "x\nLosses are told.\n", "docs/a.md:2: \"told\": write \"reported\"");
        passes("docs/a.md", "The column `grain` is kept; Toldo is a name.\n");
        let code = "//! Formulas on slices.\n\n/// The model rests on points.\nfn f() {}\n";
        let expected = "crates/num/src/lib.rs:3: \"rests on\": write \"is based on, evidence\"";
        breaks("crates/num/src/lib.rs", code, expected);
        passes("crates/num/src/lib.rs", "//! Formulas of a `grain`.\n\n// As told.\nfn told() {}\n");
    }

    #[test]
    fn a_table_by_user_that_is_not_shared_is_a_fault() {
        let table = |more: &str| {
            let mut tree = tidy_tree();
            let code = format!(
                "//! Serves.\nconst MOST: usize = 100;\nstruct Asked {{\n    waiting: Mutex<HashMap<(u32, Name), Asked>>,\n{more}}}\n"
            );
            tree.put("crates/daemon/src/asked.rs", &code);
            tables_of_users_are_shared(&tree)
        };
        let faults = table("");
        assert!(
            faults.len() == 1 && faults[0].contains("crates/daemon/src/asked.rs: `waiting: "),
            "{faults:?}"
        );
        assert_eq!(table("    places: Shares,\n"), Vec::<String>::new());
    }

    #[test]
    fn json_that_may_steer_a_terminal_is_a_fault() {
        let code = "//! Answers.\nfn f() { serde_json::to_string(&told); }\n";
        breaks("crates/report/src/made.rs", code, "use text::json");
        passes("crates/look/src/text.rs", code);
    }

    #[test]
    fn an_arrow_upward_is_a_fault() {
        let manifest = "[lints]\nworkspace = true\n[dependencies]\niotide-report.workspace = true\n";
        breaks("crates/num/Cargo.toml", manifest, "num may not know report: arrows go downward");
    }

    #[test]
    fn an_arrow_upward_for_tests_only_is_fine() {
        let manifest = "[lints]\nworkspace = true\n[dev-dependencies]\niotide-report.workspace = true\n";
        passes("crates/num/Cargo.toml", manifest);
    }

    #[test]
    fn an_arrow_that_the_table_does_not_list_is_a_fault() {
        let table = "| 0 | `iotide-num` | – | x |\n| 5 | `iotide-report` | – | x |\n";
        breaks("ARCHITECTURE.md", table, "report knows num, which its row in ARCHITECTURE.md does not list");
    }

    #[test]
    fn an_upward_arrow_in_the_table_itself_is_a_fault() {
        let table = "| 0 | `iotide-num` | report | x |\n| 5 | `iotide-report` | num | x |\n";
        breaks("ARCHITECTURE.md", table, "num (layer 0) may not know report (layer 5)");
    }

    #[test]
    fn a_crate_without_a_row_is_a_fault() {
        breaks("crates/extra/Cargo.toml", "[lints]\nworkspace = true\n", "crates/extra: not in the table");
    }

    #[test]
    fn a_row_without_a_crate_is_a_fault() {
        let table = "| 0 | `iotide-num` | – | x |\n| 1 | `iotide-gone` | – | x |\n| 5 | `iotide-report` | num | x |\n";
        breaks("ARCHITECTURE.md", table, "no crates/gone");
    }

    #[test]
    fn a_quiet_crate_that_opens_files_is_a_fault() {
        breaks("crates/num/src/io.rs", "use std::fs::read;\n", "uses std::fs");
        breaks("crates/num/src/io.rs", "use std::{cmp::Ordering, fs};\n", "uses std::fs");
        breaks("crates/num/src/io.rs", "use std::{\n    env,\n    fmt,\n};\n", "uses std::env");
        breaks("crates/num/src/io.rs", "let now = std::time::Instant::now();\n", "uses Instant");
        breaks("crates/num/src/io.rs", "std::thread::spawn(f);\n", "uses std::thread");
    }

    #[test]
    fn tests_and_comments_of_a_quiet_crate_may_name_anything() {
        passes(
            "crates/num/src/io.rs",
            "// as std::fs does\nfn f() {}\n#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n",
        );
        passes("crates/num/tests/it/main.rs", "use std::fs;\n");
        passes("crates/num/src/io.rs", "std::thread::scope(|scope| f(scope));\n");
        passes("crates/num/src/io.rs", "use std::{f64::consts::PI, time::Duration};\n");
    }

    #[test]
    fn a_crate_that_prints_is_a_fault() {
        breaks("crates/report/src/text.rs", "println!(\"x\");\n", "uses println!");
        breaks("crates/report/src/text.rs", "eprint!(\"x\");\n", "uses eprint!");
    }

    #[test]
    fn serialising_outside_of_report_is_a_fault() {
        breaks("crates/num/src/x.rs", "#[derive(Clone, Serialize)]\nstruct X;\n", "uses Serialize");
        passes("crates/num/src/x.rs", "#[derive(Deserialize)]\nstruct X;\n");
        let schema = "#[cfg_attr(feature = \"schema\", derive(serde::Serialize))]\nstruct X;\n";
        passes("crates/sim/src/x.rs", schema);
        breaks("crates/num/src/x.rs", schema, "uses Serialize");
    }

    #[test]
    fn a_crate_without_its_sentence_is_a_fault() {
        breaks("crates/num/src/lib.rs", "pub fn f() {}\n", "open with `//! `");
        breaks("crates/num/src/lib.rs", "//! placeholder\n", "open with `//! `");
    }

    #[test]
    fn a_dependency_without_a_reason_is_a_fault() {
        breaks("Cargo.toml", "[workspace.dependencies]\nserde = \"1\"\n", "beside `serde`");
        passes("Cargo.toml", "[workspace.dependencies]\n# JSON for scripts\nserde = \"1\"\n");
    }

    #[test]
    fn a_version_outside_of_the_root_is_a_fault() {
        let manifest = "[lints]\nworkspace = true\n[dependencies]\nrand = \"0.9\"\n";
        breaks("crates/num/Cargo.toml", manifest, "`rand` has its own version");
    }

    #[test]
    fn a_crate_without_the_shared_lints_is_a_fault() {
        breaks("crates/num/Cargo.toml", "[dependencies]\n", "add `[lints]`");
    }

    #[test]
    fn the_testkit_outside_of_tests_is_a_fault() {
        let manifest = "[lints]\nworkspace = true\n[dependencies]\niotide-testkit.workspace = true\n";
        breaks("crates/num/Cargo.toml", manifest, "for tests");
    }

    #[test]
    fn a_format_without_a_section_is_a_fault() {
        let mut tree = tidy_tree();
        let code = "/// Known formats.\npub enum Format {\n    /// TMIO.\n    TmioJsonLines,\n    /// Ours.\n    Native,\n}\n";
        tree.put("crates/formats/src/detect.rs", code);
        tree.put("docs/formats.md", "# Formats\n\n## TMIO JSON Lines\n");
        let faults = formats_are_documented(&tree);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].contains("format Native"), "{faults:?}");
    }

    #[test]
    fn formats_may_share_a_section_that_exists() {
        let mut tree = tidy_tree();
        tree.put("crates/formats/src/format.rs", "pub enum Format {\n    TmioJson,\n    TmioMsgpack,\n}\n");
        tree.put("docs/formats.md", "[`tmio-json`](#tmio), [`tmio-msgpack`](#gone)\n\n## TMIO\n");
        let faults = formats_are_documented(&tree);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].contains("format TmioMsgpack"), "{faults:?}");
    }

    #[test]
    fn a_golden_file_without_its_making_is_a_fault() {
        let mut tree = tidy_tree();
        tree.names.insert("testdata/native/two.iot".to_owned());
        assert_eq!(check(&tree).len(), 1);
        tree.names.insert("testdata/native/two.md".to_owned());
        assert_eq!(check(&tree), Vec::<String>::new());
    }

    #[test]
    fn a_link_to_nowhere_is_a_fault() {
        breaks("docs/README.md", "see [there](nowhere.md#x)", "links to nowhere.md");
        passes(
            "docs/README.md",
            "see [up](../ARCHITECTURE.md), [crates](../crates/num), [web](https://example.org)",
        );
        passes("docs/README.md", "```\n[x](y.md)\n```\n");
    }

    #[test]
    fn a_doc_comment_that_begins_with_what_is_a_fault() {
        breaks(
            "crates/num/src/lib.rs",
            "//! Formulas on slices.\n\n/// What it is.\nfn f() {}\n",
            "not with \"What\"",
        );
        passes("crates/num/src/lib.rs", "//! Formulas on slices, and\n//! What follows from them.\n");
    }
}
