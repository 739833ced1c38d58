//! Rules on how pages read: sentences are short, and commands can be copied.

use std::collections::BTreeSet;

use super::Tree;

/// Words of the longest sentence of a page.
const LONGEST: usize = 40;
/// Words of a sentence, as the mean over a page.
const MEAN: usize = 25;

/// Sentences of a page have at most 25 words on average, and none has more than 40.
pub(super) fn has_short_sentences(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in pages(tree) {
        let sentences = sentences(text);
        for Sentence { line, words } in sentences.iter().filter(|sentence| sentence.words > LONGEST) {
            faults.push(format!("{path}:{line}: a sentence of {words} words: split it, {LONGEST} at most"));
        }
        let words: usize = sentences.iter().map(|sentence| sentence.words).sum();
        if words > MEAN * sentences.len() {
            let mean = words as f64 / sentences.len() as f64;
            faults.push(format!(
                "{path}: {mean:.1} words a sentence: write shorter ones, {MEAN} on average at most"
            ));
        }
    }
    faults
}

/// A line with a command runs when it is copied: what explains it stands behind `#`.
pub(super) fn has_commands_to_copy(tree: &Tree) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in pages(tree) {
        let mut block: Option<Block> = None;
        for (number, line) in text.lines().enumerate() {
            if let Some(info) = line.trim_start().strip_prefix("```") {
                block = if block.is_some() { None } else { Some(Block { info, is_session: None }) };
                continue;
            }
            let Some(block) = block.as_mut().filter(|block| block.is_of_a_shell()) else { continue };
            let place = format!("{path}:{}", number + 1);
            let is_first = block.is_session.is_none();
            let is_session = *block.is_session.get_or_insert(line.starts_with("$ "));
            if is_first && !is_session && block.info == "console" {
                faults.push(format!("{place}: a `console` block begins with `$ ` and a command"));
            }
            let command = line.strip_prefix("$ ").or_else(|| (!is_session && runs(line)).then_some(line));
            if command.is_some_and(has_bare_explanation) {
                faults.push(format!("{place}: put `# ` before what explains the command"));
            }
        }
    }
    faults
}

/// The table of contents of the book, `docs/SUMMARY.md`, has each page of `docs` once.
pub(super) fn stands_in_the_book_once(tree: &Tree) -> Vec<String> {
    const BOOK: &str = "docs/SUMMARY.md";
    let contents = tree.text(BOOK);
    if contents.is_empty() {
        return Vec::new();
    }
    let names =
        tree.files.keys().filter_map(|path| path.strip_prefix("docs/")).filter(|name| name.ends_with(".md"));
    let mut faults = Vec::new();
    for name in names.filter(|name| *name != "SUMMARY.md") {
        match contents.matches(&format!("]({name})")).count() {
            1 => {}
            0 => faults.push(format!(
                "{BOOK}: docs/{name} is missing: put it under the part where readers look for it"
            )),
            n => faults.push(format!("{BOOK}: docs/{name} stands there {n} times")),
        }
    }
    faults
}

/// A test that a page names as the evidence of a promise exists. A name may be cut by `…`, and may have its module before it.
pub(super) fn names_tests_that_exist(tree: &Tree) -> Vec<String> {
    const PAGES: [&str; 2] = ["docs/trust.md", "docs/security.md"];
    let code = tree.files.iter().filter(|(path, _)| path.ends_with(".rs"));
    let functions: BTreeSet<&str> = code
        .flat_map(|(_, text)| text.lines())
        .filter_map(|line| line.trim_start().strip_prefix("fn "))
        .map(|rest| &rest[..rest.find(|c: char| !is_of_a_name(c)).unwrap_or(rest.len())])
        .collect();
    let exists = |name: &str| match name.strip_suffix('…') {
        Some(start) => functions.range(start..).next().is_some_and(|name| name.starts_with(start)),
        None => functions.contains(name),
    };
    let mut faults = Vec::new();
    for (path, (number, line)) in
        PAGES.into_iter().flat_map(|path| tree.text(path).lines().enumerate().map(move |line| (path, line)))
    {
        let Some(evidence) =
            line.strip_prefix('|').and_then(|row| row.trim_end_matches('|').rsplit('|').next())
        else {
            continue;
        };
        for name in
            evidence.split('`').skip(1).step_by(2).map(|name| name.rsplit("::").next().unwrap_or(name))
        {
            let is_test =
                name.matches('_').count() >= 3 && name.trim_end_matches('…').chars().all(is_of_a_name);
            if is_test && !exists(name) {
                faults.push(format!("{path}:{}: there is no test {name}", number + 1));
            }
        }
    }
    faults
}

fn is_of_a_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The pages that people write; that of the commands is generated from their help.
fn pages(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    let is_page = |path: &str| path == "README.md" || path.starts_with("docs/") && path.ends_with(".md");
    (tree.files.iter().map(|(path, text)| (path.as_str(), text.as_str())))
        .filter(move |(path, _)| is_page(path) && *path != "docs/commands.md")
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sentence {
    line: usize,
    words: usize,
}

/// Returns the sentences outside of code blocks, tables and headings. A name between backticks is one word.
fn sentences(text: &str) -> Vec<Sentence> {
    let mut sentences = Vec::new();
    let mut open = Sentence::default();
    let (mut in_block, mut in_code) = (false, false);
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        let fence = line.starts_with("```");
        in_block ^= fence;
        let is_prose = !in_block && !fence && !line.is_empty() && !line.starts_with(['#', '|', '<']);
        let item = list_item(line);
        if !is_prose || item.is_some() {
            sentences.push(std::mem::take(&mut open));
            in_code = false;
        }
        if !is_prose {
            continue;
        }
        for word in without_code(item.unwrap_or(line), &mut in_code).split_whitespace() {
            if word.contains(char::is_alphanumeric) {
                open.line = if open.words == 0 { number + 1 } else { open.line };
                open.words += 1;
            }
            if word.trim_end_matches([')', '"', '*', '_', ']']).ends_with(['.', '!', '?', ':', ';']) {
                sentences.push(std::mem::take(&mut open));
            }
        }
    }
    sentences.push(open);
    sentences.retain(|sentence| sentence.words > 0);
    sentences
}

/// The text of `* text`, `- text` and `1. text`.
fn list_item(line: &str) -> Option<&str> {
    let numbered = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let numbered = numbered.strip_prefix(". ").filter(|_| line.starts_with(|c: char| c.is_ascii_digit()));
    line.strip_prefix("* ").or_else(|| line.strip_prefix("- ")).or(numbered)
}

/// Puts one letter in place of each `name`, which may begin in one line and end in another.
fn without_code(line: &str, in_code: &mut bool) -> String {
    let mut prose = String::new();
    for c in line.chars() {
        if c == '`' {
            *in_code = !*in_code;
            prose.push_str(if *in_code { "X" } else { "" });
        } else if !*in_code {
            prose.push(c);
        }
    }
    prose
}

/// A code block: what stands behind its fence, and whether it shows a session (`$ command`, then what it printed).
struct Block<'a> {
    info: &'a str,
    is_session: Option<bool>,
}

impl Block<'_> {
    fn is_of_a_shell(&self) -> bool {
        matches!(self.info, "" | "console" | "sh" | "bash" | "shell")
    }
}

/// Whether a line begins with a program that pages use, or sets a variable for one.
fn runs(line: &str) -> bool {
    const PROGRAMS: &[&str] = &[
        "apt",
        "cargo",
        "curl",
        "dnf",
        "fusermount3",
        "iotide",
        "mpirun",
        "python3",
        "sbatch",
        "srun",
        "sudo",
        "systemctl",
        "tar",
    ];
    let first = line.split(' ').next().unwrap_or("");
    let sets = |(name, _): (&str, &str)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    };
    PROGRAMS.contains(&first) || first.starts_with("./") || first.split_once('=').is_some_and(sets)
}

/// Whether two blanks outside of quotes are followed by something else than a comment or the shell's own signs.
fn has_bare_explanation(command: &str) -> bool {
    let mut quote = None;
    let mut blanks = 0;
    for c in command.chars() {
        if quote.is_none() && blanks > 0 && c == '#' {
            return false;
        }
        if quote.is_none() && blanks > 1 && !c.is_whitespace() && !['\\', '|', '&', '>', '<'].contains(&c) {
            return true;
        }
        quote = match quote {
            Some(open) if open == c => None,
            None if c == '"' || c == '\'' => Some(c),
            other => other,
        };
        blanks = if c.is_whitespace() { blanks + 1 } else { 0 };
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rule: fn(&Tree) -> Vec<String>, text: &str, expected: &[&str]) {
        let mut tree = Tree::default();
        tree.files.insert("docs/a.md".to_owned(), text.to_owned());
        let faults = rule(&tree);
        let are_found = faults.iter().zip(expected).all(|(fault, expected)| fault.contains(expected));
        assert!(faults.len() == expected.len() && are_found, "expected {expected:?}, got {faults:#?}");
    }

    #[test]
    fn a_long_sentence_is_a_fault_where_it_begins() {
        let text = format!("# A title\n\nShort. Long {}end.\n", "word ".repeat(40));
        check(has_short_sentences, &text, &["docs/a.md:3: a sentence of 42 words"]);
    }

    #[test]
    fn many_middling_sentences_are_a_fault_of_the_page() {
        let text = format!("It is {}so.\n", "very ".repeat(25)).repeat(3);
        check(has_short_sentences, &text, &["docs/a.md: 28.0 words a sentence"]);
    }

    #[test]
    fn a_sentence_ends_with_its_sign_its_item_or_its_paragraph() {
        let words = |text: &str| sentences(text).iter().map(|sentence| sentence.words).collect::<Vec<_>>();
        assert_eq!(words("One two. (Three.) Four: five; 0.4 six"), [2, 1, 1, 1, 2]);
        assert_eq!(words("* one two\n  three\n- four\n12. five six\n\nseven"), [3, 1, 2, 1]);
    }

    #[test]
    fn code_tables_and_headings_are_no_sentences() {
        let words = "word ".repeat(50);
        let text = format!("# {words}\n| {words} |\n```\n{words}\n```\nThe `{words}\n{words}` runs.\n");
        assert_eq!(sentences(&text), [Sentence { line: 6, words: 3 }]);
    }

    #[test]
    fn an_explanation_behind_a_command_is_a_comment() {
        let text =
            "```\niotide jobs     what runs\niotide jobs     # what runs\nIOTIDE_GATE=a   by path\n```\n";
        let fault = "put `# ` before what explains the command";
        check(
            has_commands_to_copy,
            text,
            &[&format!("docs/a.md:2: {fault}"), &format!("docs/a.md:4: {fault}")],
        );
        check(has_commands_to_copy, "```\niotide x 'a   b' \\\n  | less   &\n```\n", &[]);
    }

    #[test]
    fn what_a_command_prints_may_be_a_table() {
        let text = "```console\n$ iotide jobs   all\niotide  runs  4 s\n```\n";
        check(has_commands_to_copy, text, &["docs/a.md:2: put `# `"]);
        check(has_commands_to_copy, "```json\niotide  a\n```\n", &[]);
        check(has_commands_to_copy, "```console\niotide jobs\n```\n", &["begins with `$ `"]);
    }

    #[test]
    fn a_page_that_the_book_lacks_or_repeats_is_a_fault() {
        let mut tree = Tree::default();
        tree.put("docs/a.md", "# A\n");
        tree.put("docs/b.md", "# B\n");
        assert!(stands_in_the_book_once(&tree).is_empty(), "without a table of contents there is no book");
        tree.put("docs/SUMMARY.md", "* [A](a.md)\n* [Again](a.md)\n");
        let faults = stands_in_the_book_once(&tree);
        assert!(
            faults[0].contains("docs/a.md stands there 2 times")
                && faults[1].contains("docs/b.md is missing"),
            "{faults:?}"
        );
        tree.put("docs/SUMMARY.md", "* [A](a.md)\n* [B](b.md)\n");
        assert!(stands_in_the_book_once(&tree).is_empty());
    }

    #[test]
    fn a_test_that_is_named_as_evidence_must_exist() {
        let mut tree = Tree::default();
        tree.put("crates/a/src/lib.rs", "#[test]\n    fn what_was_kept_is_there() {}\n");
        tree.put(
            "docs/trust.md",
            "| promise | `what_is_not_in_the_last_column` | random: `what_was_kept_is_there`, `a::what_was_kept_…`; `cargo xtask loop` |\n",
        );
        assert!(names_tests_that_exist(&tree).is_empty());
        tree.put("docs/security.md", "| promise | `a::tests::what_was_lost_is_there`, `what_was_lost_…` |\n");
        assert_eq!(
            names_tests_that_exist(&tree),
            [
                "docs/security.md:1: there is no test what_was_lost_is_there",
                "docs/security.md:1: there is no test what_was_lost_…"
            ]
        );
    }
}
