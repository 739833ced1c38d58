//! The reference of all commands, `docs/commands.md`: what `--help` prints, in one page. A change of a flag is seen there.

use std::fmt::Write as _;
use std::path::Path;

/// Asks the test to write the page rather than to compare it.
const WRITE: &str = "IOTIDE_WRITE_DOCS";

const HEAD: &str = "\
# Commands

The help of every command, as `iotide COMMAND --help` prints it. Made by `IOTIDE_WRITE_DOCS=1 cargo test -p iotide reference`.
";

/// Writes a command and the commands below it.
fn section(out: &mut String, command: &mut clap::Command) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    let help: Vec<String> =
        command.render_long_help().to_string().lines().map(|line| line.trim_end().to_owned()).collect();
    let _ = write!(out, "\n## {name}\n\n```text\n{}\n```\n", help.join("\n").trim_end());
    for below in command.get_subcommands_mut().filter(|below| below.get_name() != "help") {
        section(out, below);
    }
}

#[test]
fn the_reference_of_commands_is_what_they_print() {
    let mut cli = crate::command_line().term_width(100);
    cli.build();
    let mut page = format!("{HEAD}\n");
    for command in cli.get_subcommands().filter(|command| command.get_name() != "help") {
        let (name, about) = (command.get_name(), command.get_about().cloned().unwrap_or_default());
        let _ = writeln!(page, "* [{name}](#iotide-{name}): {about}");
    }
    section(&mut page, &mut cli);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands.md");
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let differing = kept.lines().zip(page.lines()).find(|(kept, said)| kept != said);
    assert!(kept == page, "docs/commands.md differs, first in {differing:?}: {WRITE}=1 writes it");
}

#[test]
fn every_command_stands_in_one_group() {
    let mut cli = crate::command_line();
    cli.build();
    let mut all: Vec<&str> = cli.get_subcommands().map(clap::Command::get_name).collect();
    let mut grouped: Vec<&str> = crate::GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    all.sort_unstable();
    grouped.sort_unstable();
    assert_eq!(all, grouped);
}
