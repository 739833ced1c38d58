//! The reference of all commands, `docs/commands.md`: what `--help` prints, in one page. A change of a flag is seen there. Likewise the table of counters of the
//! system in `docs/serve.md`, which is what `ledger` declares.

use std::fmt::Write as _;
use std::path::Path;

use iotide_ledger::{Measure, SystemCounter};

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
    compare("docs/commands.md", |_| page);
}

/// Compares a page with what it should be, which may depend on what it is; writes it if that is asked for.
fn compare(name: &str, page: impl FnOnce(&str) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    let page = page(&kept);
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&path, &page).unwrap();
        return;
    }
    let differing = kept.lines().zip(page.lines()).find(|(kept, said)| kept != said);
    assert!(kept == page, "{name} differs, first in {differing:?}: {WRITE}=1 writes it");
}

#[test]
fn the_table_of_counters_of_the_system_is_what_is_declared() {
    const BEGIN: &str =
        "<!-- counters of the system: made by IOTIDE_WRITE_DOCS=1 cargo test -p iotide reference -->\n";
    const END: &str = "<!-- end of counters of the system -->";
    let mut table = "| | over time, in rules | `/metrics` | `cgroup` in the job's document | modelled |\n|---|---|---|---|---|\n".to_owned();
    for (counter, value) in SystemCounter::values() {
        let (label, of) = value.label;
        let modelled = match value.measure {
            Measure::Time => "time",
            Measure::Count => "hits",
            Measure::Bytes => "size",
        };
        let _ = writeln!(
            table,
            "| {} | `{}` | `{}{{{label}=\"{of}\"}}` | `{}` | `cgroup->{} {modelled}` |",
            value.help,
            value.series,
            value.family.name,
            value.field,
            counter.declaration().name
        );
    }
    compare("docs/serve.md", |kept| {
        let (before, rest) = kept.split_once(BEGIN).expect("the page has the table");
        let (_, after) = rest.split_once(END).expect("the table ends");
        format!("{before}{BEGIN}{table}{END}{after}")
    });
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
