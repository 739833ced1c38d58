//! `iotide help`: the help of a command, or a page of the documentation in the terminal.

use std::sync::OnceLock;

use anyhow::anyhow;
use clap::Command;
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::ErrorKind;

use crate::ExitStatus;
use crate::manual::{Page, pages};
use crate::ui::{Hint as _, Ui};

mod markdown;

/// Print the help of a command, or a page of the documentation
///
/// Without TOPIC it lists the commands, and with `topics` the pages. A page that has the name of a command is printed by NAME.md.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct HelpArgs {
    /// Command, page, or `topics`
    #[arg(value_name = "TOPIC", value_parser = Topics, hide_possible_values = true)]
    topic: Vec<String>,
}

const EXAMPLES: &str = "\
Examples:
  iotide help topics             the pages of the documentation
  iotide help first-hour         from nothing to a first answer
  iotide help sets plan          the options of a command
  iotide help why.md             the page of a name that is also a command";

/// Lists the pages.
const TOPICS: &str = "topics";

/// Every word that can be asked for.
fn words() -> &'static [String] {
    static WORDS: OnceLock<Vec<String>> = OnceLock::new();
    WORDS.get_or_init(|| {
        let commands =
            crate::GROUPS.iter().flat_map(|(_, names)| names.iter().map(|name| (*name).to_owned()));
        commands.chain(pages().map(Page::topic)).chain([TOPICS.to_owned()]).collect()
    })
}

/// Any word; shells complete commands and pages.
#[derive(Clone, Debug)]
struct Topics;

impl TypedValueParser for Topics {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue>>> {
        Some(Box::new(words().iter().map(|word| PossibleValue::new(word.as_str()))))
    }
}

impl Page {
    /// The word that asks for it.
    fn topic(self) -> String {
        if is_command(self.name) { format!("{}.md", self.name) } else { self.name.to_owned() }
    }
}

fn is_command(name: &str) -> bool {
    crate::GROUPS.iter().any(|(_, names)| names.contains(&name))
}

pub(crate) fn run(ui: &mut Ui, args: &HelpArgs) -> anyhow::Result<ExitStatus> {
    let words: Vec<&str> = args.topic.iter().map(String::as_str).collect();
    let mut cli = crate::command_line();
    match words.as_slice() {
        [] => help_of(ui, &mut cli, &[])?,
        [TOPICS] => ui.out(&list(ui.width()))?,
        [first, ..] if cli.find_subcommand(first).is_some() => {
            help_of(ui, &mut cli, &words)?;
            if let Some(page) = Page::of_name(words[0]).filter(|_| words.len() == 1) {
                ui.out(&format!("\n`iotide help {}` is the page \"{}\".\n", page.topic(), page.title()))?;
            }
        }
        [word] => match Page::of_name(word.strip_suffix(".md").unwrap_or(word)) {
            Some(page) => {
                let text = markdown::plain(page.text, ui.width().min(100), ui.ink());
                ui.out(&text)?;
            }
            None => return Err(unknown(word)),
        },
        [word, ..] => return Err(unknown(word)),
    }
    Ok(ExitStatus::Done)
}

/// Prints what `COMMAND --help` prints.
fn help_of(ui: &mut Ui, cli: &mut Command, words: &[&str]) -> anyhow::Result<()> {
    let line = ["iotide"].iter().chain(words).chain(&["--help"]);
    match cli.try_get_matches_from_mut(line) {
        Err(answer) if answer.kind() == ErrorKind::DisplayHelp => ui.answer(&answer),
        Err(wrong) => {
            Err(anyhow!("{}", wrong.to_string().lines().next().unwrap_or_default().replace("error: ", "")))
        }
        Ok(_) => Ok(()),
    }
}

fn list(width: usize) -> String {
    let longest = pages().map(|page| page.topic().len()).max().unwrap_or(0);
    let mut text = String::from("Pages (`iotide help TOPIC`):\n");
    for page in pages().filter(|page| page.name != "README") {
        let line = format!("  {:longest$}  {}", page.topic(), page.title());
        text += &line.chars().take(width).collect::<String>();
        text.push('\n');
    }
    text
}

fn unknown(word: &str) -> anyhow::Error {
    let nearest = words().iter().map(|name| (distance(word, name), name)).min();
    let error = Err::<(), _>(anyhow!("there is no topic {word}"));
    let hint = match nearest {
        Some((distance, name)) if distance <= 2 + word.len() / 4 => {
            format!("`iotide help {name}`; `iotide help topics` lists all pages")
        }
        _ => "`iotide help topics` lists all pages, `iotide help` all commands".to_owned(),
    };
    error.hint(hint).unwrap_err()
}

/// Number of letters to change, add or leave out to come from one word to the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, other) in b.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_as_far_apart_as_letters_differ() {
        let pairs =
            [("", "abc"), ("methods", "methods"), ("metods", "methods"), ("staging", "stagnig"), ("a", "b")];
        assert_eq!(pairs.map(|(a, b)| distance(a, b)), [3, 0, 1, 2, 1]);
    }
}
