//! `iotide completions` and `iotide man`: what shells and `man` know of the commands, made from their definitions.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context;
use clap::Command;
use clap_complete::Shell;
use iotide_private::OpenDir;

use crate::ExitStatus;
use crate::ui::Ui;

/// Print the completion script for a shell
#[derive(clap::Args, Debug)]
#[command(after_help = COMPLETIONS)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

const COMPLETIONS: &str = "\
Examples:
  source <(iotide completions bash)                                            for this shell
  iotide completions bash > ~/.local/share/bash-completion/completions/iotide  for all that follow
  iotide completions zsh > ~/.zfunc/_iotide                                    with fpath+=~/.zfunc in .zshrc
  iotide completions fish > ~/.config/fish/completions/iotide.fish";

pub(crate) fn run(ui: &mut Ui, args: &CompletionsArgs) -> anyhow::Result<ExitStatus> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::command_line(), "iotide", &mut script);
    ui.out(&String::from_utf8_lossy(&script))?;
    Ok(ExitStatus::Done)
}

/// Write the manual pages of all commands to a directory
#[derive(clap::Args, Debug)]
#[command(after_help = MANUAL)]
pub(crate) struct ManArgs {
    /// Directory, such as /usr/share/man/man1
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

const MANUAL: &str = "\
Examples:
  iotide man ~/.local/share/man/man1 && man iotide-detect";

pub(crate) fn run_man(ui: &mut Ui, args: &ManArgs) -> anyhow::Result<ExitStatus> {
    let mut command = crate::command_line();
    command.build();
    let n_pages = write_pages(&args.directory, &command)
        .with_context(|| format!("cannot write manual pages to {}", args.directory.display()))?;
    ui.status(format_args!("{n_pages} pages in {}", args.directory.display()));
    Ok(ExitStatus::Done)
}

/// Writes the pages of a command and of all below it: `iotide-sets-plan.1` is that of `iotide sets plan`.
fn write_pages(folder: &std::path::Path, top: &Command) -> anyhow::Result<usize> {
    let folder = OpenDir::make(folder)?;
    let mut n_pages = 0;
    let mut left = vec![top];
    while let Some(command) = left.pop() {
        left.extend(
            command.get_subcommands().filter(|below| below.get_name() != "help" && !below.is_hide_set()),
        );
        let name = command.get_bin_name().unwrap_or("iotide").replace(' ', "-");
        let mut page = Vec::new();
        // Leaked for the run of this command: clap wants names that last.
        let title: &'static str = Box::leak(name.clone().into_boxed_str());
        clap_mangen::Man::new(command.clone().name(title).display_name(title)).render(&mut page)?;
        let mut file = folder.replace(format!("{name}.1"))?;
        file.write_all(&page)?;
        file.finish()?;
        n_pages += 1;
    }
    Ok(n_pages)
}
